"""The hub through its own client: which commit, which files, and one file's bytes."""

import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from evoaudit import joblog
from evoaudit.errors import InputError, one_line
from evoaudit.hub import lock
from evoaudit.hub.problems import explain, redact
from evoaudit.hub.progress import Meter, Stopped
from evoaudit.hub.storage import Want, full_or_denied

_ENTRIES = 2_000_000
_TIMEOUT = 60.0
_AGAIN = frozenset({429, 500, 502, 503, 504})
_RETRIES = 5
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_T = TypeVar("_T")


class Resolved(NamedTuple):
    """What a revision stands for now; ``name`` is the data set's present one, by the hub."""

    name: str
    commit: str
    license: str | None
    gated: bool | str


def check_repo(repo: str) -> None:
    """Refuse what cannot be a data set's name, which also names a folder."""
    if not _REPO.fullmatch(repo) or ".." in repo or "--" in repo or len(repo) > 200:
        raise InputError(one_line(repo, 120), "not a data set's name", "write it as owner/name")


class Hub:
    """One data set on the hub. Every fault is an `InputError` that says what to do."""

    def __init__(self, repo: str, revision: str, store: Path, endpoint: str | None, locked: bool) -> None:
        # The client reads these when it is imported.
        for name in ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_UPDATE_CHECK"):
            os.environ.setdefault(name, "1")
        import huggingface_hub

        _listen()
        self.repo, self.revision, self.store, self.locked = repo, revision, store, locked
        self.endpoint = (endpoint or os.environ.get("HF_ENDPOINT") or "").rstrip("/") or huggingface_hub.constants.ENDPOINT
        self._api = huggingface_hub.HfApi(endpoint=self.endpoint)
        self._client = huggingface_hub

    @property
    def offline(self) -> bool:
        return self._client.constants.is_offline_mode()

    def resolve(self) -> Resolved:
        """Ask which commit the revision is, and for the license and gate as the hub tells them."""
        with self._explained():
            info = _patiently(lambda: self._api.dataset_info(self.repo, revision=self.revision, timeout=_TIMEOUT))
            if not lock.is_commit(info.sha):
                raise ValueError("no commit")
            found = getattr(info.card_data, "license", None)
            if not found:
                found = [tag.partition(":")[2] for tag in info.tags or [] if isinstance(tag, str) and tag.startswith("license:")]
            text = ", ".join(map(str, found)) if isinstance(found, list) else str(found or "")
            gated = info.gated if isinstance(info.gated, bool | str) else False
            return Resolved(one_line(str(info.id), 200), info.sha, one_line(text, 200) or None, gated)

    def tree(self, commit: str) -> dict[str, Want]:
        """List every file of a commit."""
        found: dict[str, Want] = {}
        with self._explained(commit):
            hooks = self._client.get_session().event_hooks["request"]
            if _in_time not in hooks:
                hooks.append(_in_time)
            listing = self._api.list_repo_tree(self.repo, recursive=True, revision=commit, repo_type="dataset")
            for number, one in enumerate(listing):
                if number >= _ENTRIES:
                    raise InputError(self.repo, f"more than {_ENTRIES} files and folders", "no data set this program reads is so large")
                if not hasattr(one, "blob_id"):
                    continue
                size = one.size if one.lfs is None else one.lfs.size
                want = Want(size, None, one.blob_id) if one.lfs is None else Want(size, one.lfs.sha256)
                if not isinstance(one.path, str) or not lock.is_size(size):
                    raise ValueError("a file without a path or a size")
                if not (lock.is_commit(want.blob) if one.lfs is None else lock.is_sha256(want.sha256)):
                    raise ValueError(f"no hash for {one_line(one.path, 80)}")
                if found.setdefault(one.path, want) != want:
                    raise ValueError(f"two files {one_line(one.path, 80)}")
        return found

    def get(self, commit: str, path: str, folder: Path, again: bool, meter: Meter) -> Path:
        """Fetch one file into ``folder``; ``again`` takes nothing from any cache. Its contents are not checked here."""
        with self._explained(commit, path):
            return Path(
                self._client.hf_hub_download(
                    self.repo,
                    path,
                    repo_type="dataset",
                    revision=commit,
                    local_dir=str(folder),
                    force_download=again,
                    endpoint=self.endpoint,
                    tqdm_class=meter,
                )
            )

    @contextmanager
    def _explained(self, revision: str | None = None, path: str | None = None) -> Iterator[None]:
        try:
            yield
        except (InputError, Stopped):
            raise
        except Exception as error:
            if isinstance(error, OSError) and (fault := full_or_denied(error, self.store)):
                raise fault from None
            raise explain(
                error,
                repo=self.repo,
                revision=revision or self.revision,
                endpoint=self.endpoint,
                token=self._token(),
                path=path,
                locked=self.locked,
            ) from None

    def _token(self) -> bool:
        try:
            return bool(self._client.get_token())
        except Exception:  # an identity service that fails is for the request to report
            return False


def _in_time(request: Any) -> None:
    """Give up on a hub that never answers; the client sets no limit when it lists."""
    limits = request.extensions.get("timeout")
    if isinstance(limits, dict):
        request.extensions["timeout"] = {name: _TIMEOUT if limit is None else limit for name, limit in limits.items()}


def _patiently(call: Callable[[], _T]) -> _T:
    """Call again while the hub is busy, as the client does for files but not here."""
    for attempt in range(_RETRIES):
        try:
            return call()
        except Exception as error:
            if getattr(getattr(error, "response", None), "status_code", None) not in _AGAIN:
                raise
        time.sleep(min(2**attempt, 8))
    return call()


class _Waits(logging.Handler):
    """Pass on, now and then, that the client waits: a limit on requests can take minutes."""

    last = float("-inf")

    def emit(self, record: logging.LogRecord) -> None:
        text: Any = record.getMessage()
        if ("Rate limited" in text or "Retrying in" in text) and time.monotonic() - _Waits.last >= 10:
            _Waits.last = time.monotonic()
            joblog.say(f"the hub is busy: {one_line(redact(text), 200)}")


def _listen() -> None:
    """Put our handler in place of the client's own, which prints every retry."""
    logger = logging.getLogger("huggingface_hub")
    if not any(isinstance(handler, _Waits) for handler in logger.handlers):
        logger.handlers[:] = [_Waits()]
