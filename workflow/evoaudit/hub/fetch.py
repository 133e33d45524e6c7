"""Download what a config needs of a data set: pinned, verified, resumable, never twice."""

import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from evoaudit import joblog
from evoaudit.errors import InputError, one_line
from evoaudit.hub import lock, select
from evoaudit.hub.client import Hub, check_repo
from evoaudit.hub.lock import Entry, File
from evoaudit.hub.progress import Meter, Progress, Stopped
from evoaudit.hub.select import files_text, size_text
from evoaudit.hub.storage import Mark, Place, Want, folder_of, full_or_denied, measure, siblings

#: Share of the needed bytes that must be free on top of them.
_SPARE = 0.05
_SMALL = 64 << 20


@dataclass(frozen=True)
class Request:
    """What to download. ``source`` is a name for messages alone."""

    source: str
    kind: str
    repo: str | None = None
    revision: str = "main"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """A complete download. Files that came from another selection count as kept."""

    folder: Path
    repo: str
    commit: str
    license: str | None
    files: Mapping[str, File]
    bytes_fetched: int
    files_fetched: int
    files_kept: int


def download(request: Request, *, lock_path: Path, store: Path, threads: int, endpoint: str | None = None, progress: bool = True) -> Done:
    """Bring what the request needs into the store, and return where it is.

    What is locked and there costs no request at all. Raises `InputError` for every fault a person can mend.
    """
    store, repo = Path(store), select.repo_of(request.kind, request.repo)
    check_repo(repo)
    if not request.revision or not request.revision.isprintable():
        raise InputError(repo, "'revision' is empty or not printable", "give a branch, a tag or a commit, e.g. main")
    try:
        entry = lock.entry(lock.read(lock_path), repo, request.revision)
        make = partial(_Job, request, lock_path=lock_path, store=store, threads=threads, progress=progress)
        if entry is not None and (chosen := entry.selections.get(select.key(request.kind, request.options))) is not None:
            job = make(entry=entry, chosen=chosen)
            wants = {path: Want(*entry.files[path]) for path in chosen}
            if len(kept := job.place.survey(wants)) == len(chosen):  # also where nothing may be written
                return job.done(kept)
            with job.place.alone(job.waiting):
                if len(kept := job.keep(wants)) == len(chosen):
                    return job.done(kept)
                hub = Hub(repo, request.revision, store, endpoint, locked=True)
                if hub.offline:
                    raise _offline(repo, request.revision, f"missing: {_some([path for path in chosen if path not in kept])}")
                return job.fetch(hub, kept, hub.tree(entry.commit))
        hub = Hub(repo, request.revision, store, endpoint, locked=entry is not None)
        if hub.offline:
            raise _offline(repo, request.revision, f"{'this selection' if entry else 'the data set'} was never downloaded")
        fresh = entry or _resolved(hub, request, progress)
        tree = hub.tree(fresh.commit)
        sizes = {path: want.size for path, want in tree.items()}
        index = _Index(hub, fresh.commit, tree, folder_of(store, repo, fresh.commit, ()).parent)
        chosen = tuple(select.wanted(request.kind, repo, sizes, request.options, index))
        _check(repo, chosen)
        if entry is None:  # pin the commit now: a download that is cut short must not go on with another one
            fresh = _pin(lock_path, fresh)
        job = make(entry=fresh, chosen=chosen)
        with job.place.alone(job.waiting):
            index.leave(job.place.incoming)
            kept = job.keep({path: job.want(path, tree) for path in chosen})
            return job.fetch(hub, kept, tree, early=[path for path in index.fetched if path in kept])
    except OSError as error:
        if fault := full_or_denied(error, store):
            raise fault from None
        raise


class _Job:
    """One selection on its way."""

    def __init__(
        self, request: Request, *, entry: Entry, chosen: Sequence[str], lock_path: Path, store: Path, threads: int, progress: bool
    ) -> None:
        self.request, self.entry, self.chosen = request, entry, chosen
        self.lock_path, self.threads, self.progress = lock_path, max(1, threads), progress
        self.place = Place(store, folder_of(store, entry.repo, entry.commit, chosen), self.threads, request.source if progress else None)
        self.waiting = f"{request.source}: another job is downloading this; waiting for it"

    def want(self, path: str, tree: Mapping[str, Want]) -> Want:
        """Return what a file must be, by the lock file or else by the listing."""
        locked = self.entry.files.get(path)
        return tree[path] if locked is None else Want(*locked)

    def keep(self, wants: Mapping[str, Want]) -> dict[str, File]:
        """Return the files that need no fetching: there already, left behind whole, or held for another selection."""
        kept = self.place.survey(wants)
        missing = {path: want for path, want in wants.items() if path not in kept}
        if missing:
            kept |= self.place.adopt(missing)
            kept |= self.place.link({path: want for path, want in missing.items() if path not in kept})
        return kept

    def fetch(self, hub: Hub, kept: Mapping[str, File], tree: Mapping[str, Want], early: Sequence[str] = ()) -> Done:
        """Fetch what is not kept, and lock the whole; ``early`` are the files fetched to know which are needed."""
        missing = [path for path in self.chosen if path not in kept]
        for path in missing:
            self._unchanged(path, tree)
        size = sum(tree[path].size for path in missing)
        bar = Progress(self.request.source, len(missing), size, self.progress)
        if missing:
            self._room(size, len(missing), bar)
        found: dict[str, File] = {}
        try:
            _each(missing, lambda path: found.update({path: self._one(hub, path, tree[path], bar)}), self.threads, bar)
        finally:
            bar.close()
            self.place.clear()
        fetched = [*missing, *early]
        return self.done({**kept, **found}, sum(tree[path].size for path in fetched), len(fetched))

    def done(self, files: Mapping[str, File], size: int = 0, fetched: int = 0) -> Done:
        """Lock what is there, unless it is already."""
        selection = select.key(self.request.kind, self.request.options)
        if selection not in self.entry.selections:
            _pin(self.lock_path, replace(self.entry, files=dict(files), selections={selection: tuple(self.chosen)}))
        ordered = {path: files[path] for path in self.chosen}
        return Done(self.place.folder, self.entry.repo, self.entry.commit, self.entry.license, ordered, size, fetched, len(files) - fetched)

    def _unchanged(self, path: str, tree: Mapping[str, Want]) -> None:
        """Refuse a file that the hub now lists with other contents than were locked."""
        locked, now = self.entry.files.get(path), tree.get(path)
        if now is None:
            raise InputError(self._at(path), "no longer listed at this commit", self._mend)
        if locked is not None and (now.size != locked.size or now.sha256 not in (None, locked.sha256)):
            raise self._changed(path)

    def _changed(self, path: str) -> InputError:
        return InputError(self._at(path), "changed on the hub behind a fixed commit", self._mend)

    def _at(self, path: str) -> str:
        return f"{self.entry.repo}@{self.entry.commit}/{one_line(path, 200)}"

    @property
    def _mend(self) -> str:
        return f"use a copy of the locked file, or delete the data set's entry in {self.lock_path} to take what is there now"

    def _room(self, size: int, files: int, bar: Progress) -> None:
        free = self.place.room()
        if size * (1 + _SPARE) > free:
            raise InputError(
                self.place.store,
                f"{size_text(size * (1 + _SPARE))} are needed for {self.request.source} and {size_text(free)} are free",
                "free space, give another store, or select less (split, benchmarks, agents, files)",
            )
        bar.say(f"{self.request.source}: {files_text(files)}, {size_text(size)} to fetch; {size_text(free)} free")

    def _one(self, hub: Hub, path: str, want: Want, bar: Progress) -> File:
        locked = self.entry.files.get(path)
        for again in (False, True):
            meter = Meter(bar)
            try:
                file = hub.get(self.entry.commit, path, self.place.incoming, again, meter)
            except InputError as error:
                meter.undo()
                if again or "wrong size" not in error.what:
                    raise
                continue
            except BaseException:
                meter.undo()
                raise
            mark = measure(file, want.sha256 is None)
            if want.fits(mark):
                if locked is not None and mark.sha256 != locked.sha256:
                    raise self._changed(path)
                self.place.take(path, file, mark)
                bar.add(mark.size - meter.n, files=1)
                return File(mark.size, mark.sha256)
            meter.undo()
            file.unlink()
        raise _damaged(self._at(path), want, mark)


class _Index:
    """Reads the small file that says which others are needed, from the store where it is, else from the hub."""

    def __init__(self, hub: Hub, commit: str, tree: Mapping[str, Want], home: Path) -> None:
        self.hub, self.commit, self.tree, self.home = hub, commit, tree, home
        self.fetched: dict[str, bytes] = {}

    def __call__(self, path: str) -> bytes:
        want = self.tree[path]
        for sibling in siblings(self.home, self.commit):
            if sibling.right(path, want):
                return (sibling.folder / path).read_bytes()
        self.home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".index-", dir=self.home) as folder:
            for again in (False, True):
                file = self.hub.get(self.commit, path, Path(folder), again, Meter(Progress("", 0, 0, show=False)))
                if want.fits(mark := measure(file, want.sha256 is None)):
                    self.fetched[path] = file.read_bytes()
                    return self.fetched[path]
        raise _damaged(f"{self.hub.repo}@{self.commit}/{path}", want, mark)

    def leave(self, folder: Path) -> None:
        """Put what was fetched where the download looks for files that are there already."""
        for path, data in self.fetched.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)


def _each(paths: Sequence[str], work: Callable[[str], None], threads: int, bar: Progress) -> None:
    """Do the work on every path; the first failure ends all and is raised."""
    queue, failures = deque(paths), []

    def run() -> None:
        while queue and not bar.stop.is_set():
            try:
                path = queue.popleft()
            except IndexError:
                return
            try:
                work(path)
            except Stopped:
                return
            except BaseException as error:
                failures.append((path, error))
                bar.stop.set()

    with ThreadPoolExecutor(min(threads, len(paths) or 1)) as pool:
        try:
            wait([pool.submit(run) for _ in range(threads)])
        finally:
            bar.stop.set()  # an interrupt must not wait for large files
    if failures:
        raise min(failures, key=lambda failure: failure[0])[1]


def _resolved(hub: Hub, request: Request, progress: bool) -> Entry:
    name, *found = hub.resolve()
    if progress and name.lower() != hub.repo.lower():
        joblog.say(f"{request.source}: {hub.repo} is called {name} by now")
    return Entry(hub.repo, request.revision, *found)


def _pin(lock_path: Path, entry: Entry) -> Entry:
    now = lock.update(lock_path, entry)
    if now.commit != entry.commit:
        raise InputError(lock_path, f"another job locked {entry.repo} at another commit meanwhile", "run again")
    return now


def _check(repo: str, paths: Sequence[str]) -> None:
    """Refuse paths that must not become file names here."""
    files = set(paths)
    for path in paths:
        if why := lock.unsafe(path):
            raise InputError(repo, f"the listing has a path with {why}: '{one_line(path, 100)}'", "choose other files, or another revision")
        folder = path
        while folder := folder.rpartition("/")[0]:
            if folder in files:
                raise InputError(repo, f"'{one_line(folder, 100)}' is a file and a folder", "choose other files, or another revision")


def _offline(repo: str, revision: str, what: str) -> InputError:
    mend = "unset it and run once with a network, or give a folder as 'path'"
    return InputError(f"{repo}@{revision}", f"offline mode is on (HF_HUB_OFFLINE) and {what}", mend)


def _damaged(where: str, want: Want, mark: Mark) -> InputError:
    if mark.size != want.size:
        how = f"{mark.size} bytes instead of {want.size}"
    else:
        how = "sha256 differs" if want.sha256 else "git hash differs"
    return InputError(where, f"came damaged, twice ({how})", "run again later; finished files are kept")


def _some(paths: Sequence[str]) -> str:
    shown = ", ".join(one_line(path, 80) for path in paths[:5])
    return shown if len(paths) <= 5 else f"{shown} and {len(paths) - 5} more"
