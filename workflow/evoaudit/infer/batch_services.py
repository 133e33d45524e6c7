"""The batch services of OpenAI, Google and Anthropic, each through its vendor's SDK: submit, find, look, fetch.

Requests are the very bodies that are sent one at a time. Files go from and to the disk in pieces, never whole through memory.
"""

import errno
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, ClassVar

from evoaudit.errors import InputError
from evoaudit.infer.base import Outcome
from evoaudit.infer.batch_ledger import Batch
from evoaudit.infer.wire import HTTPProvider, host_of, json_object, key_of, number, part, text

#: Deadline of one call, seconds; a file of some hundred megabytes may go up or down in it.
_TIMEOUT = 600.0
#: Seconds by which the clocks of a service and of this machine may differ.
_SKEW = 3600.0
#: A batch is created at most so long after it was written down that it will be, seconds.
_UPLOAD = 3600.0
#: Batches of an account that are looked through at most.
_LISTED = 10_000


class Refused(Exception):
    """The service answered with an error."""

    def __init__(self, status: int, headers: Mapping[str, str], reply: dict[str, Any]) -> None:
        super().__init__(f"HTTP {status}")
        self.status, self.headers, self.reply = status, headers, reply


class Unclear(Exception):
    """No answer came, or none that makes sense; what was asked for may have been done."""


@dataclass(frozen=True, slots=True)
class State:
    """Where a batch stands."""

    ended: bool
    #: Requests that have ended, None where the service does not say.
    done: int | None = None
    #: Where its results are, in the service's terms.
    results: tuple[str, ...] = ()
    #: Status and error of requests without a result; None where every request should have one.
    missing: tuple[str, str] | None = None
    #: What the service says of a batch that failed as a whole, as the body of an error.
    failed: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One request's result, as if it had been asked alone; or how it ended without one."""

    key: str
    status: int = 200
    reply: dict[str, Any] | None = None
    lost: Outcome | None = None


NO_RESULT = ("server", "the batch has no result for this request")
EXPIRED = ("timeout", "the batch expired before this was asked")
CANCELLED = ("server", "the batch was cancelled before this was asked")


class Service(ABC):
    """One vendor's batches, for one model."""

    #: Requests and bytes one batch may have.
    REQUESTS: ClassVar[int]
    BYTES: ClassVar[int]
    #: What stands before, between and after the requests of a file.
    FRAME: ClassVar[tuple[bytes, bytes, bytes]] = (b"", b"\n", b"\n")
    #: Codes of a batch that failed, or was refused, because the account has too much in progress.
    FULL: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, settings: Mapping[str, Any], provider: HTTPProvider) -> None:
        name, address = settings["name"], settings.get("base_url") or provider.ADDRESS
        self.model, self.path = settings["model"], provider.path()
        self.host = host_of(name, address)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._client = self._open(key_of(name, settings.get("api_key_env")) or "none", address)

    @abstractmethod
    def _open(self, key: str, address: str) -> Any:
        """Return the SDK's client: no retries of its own, no redirects, and key and address not from the environment."""

    @abstractmethod
    def wrap(self, key: str, body: list[bytes]) -> list[bytes]:
        """Return a request as it stands in a batch's file."""

    @abstractmethod
    def _submit(self, file: BinaryIO, tag: str) -> Any: ...

    @abstractmethod
    def _find(self, batch: Batch, known: set[str]) -> tuple[str, bool] | None: ...

    @abstractmethod
    def _look(self, identity: str) -> State: ...

    @abstractmethod
    def _fetch(self, result: str, out: BinaryIO) -> None: ...

    @abstractmethod
    def result(self, line: dict[str, Any]) -> Result | None:
        """Read a line of a result file; None if it names no request."""

    def submit(self, file: BinaryIO, tag: str) -> str:
        """Create a batch from a file of requests; return its id. Raises `Refused` or `Unclear`, as all that follow."""
        file.seek(0)
        with self._told():
            identity = self._submit(file, tag)
        if not isinstance(identity, str) or not identity:
            raise Unclear("the reply names no batch")
        return identity

    def find(self, batch: Batch, known: set[str]) -> tuple[str, bool] | None:
        """Return the id of the batch an intent became, and whether that is certain; None if there is none.

        ``known`` are ids of batches that are accounted for.
        """
        with self._told():
            return self._find(batch, known)

    def look(self, identity: str) -> State:
        """Return where a batch stands."""
        with self._told():
            return self._look(identity)

    def fetch(self, result: str, out: BinaryIO) -> None:
        """Download one of a batch's files of results."""
        with self._told():
            self._fetch(result, out)

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what an SDK raises into `Refused` and `Unclear`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield
            except (Refused, Unclear, InputError, MemoryError):
                raise
            # Transport faults leak from below the SDKs in many types. Their texts are not shown: a service may echo a key.
            except Exception as error:
                if isinstance(error, OSError) and (error.filename is not None or error.errno in (errno.ENOSPC, errno.EDQUOT)):
                    raise  # this machine's, not the service's
                response = getattr(error, "response", None)
                status = getattr(response, "status_code", None)
                if response is not None and type(status) is int and status != 200:
                    raise Refused(status, response.headers, json_object(response.content) or {}) from None
                raise Unclear(f"{type(error).__name__} from {self.host}") from None


class OpenAIBatches(Service):
    """Files and Batches of OpenAI. A batch is found again by its metadata."""

    # As the SDK's own description of `batches.create` and the guide to batches stood on 2026-11-30.
    REQUESTS, BYTES = 50_000, 200_000_000
    FULL = frozenset({"token_limit_exceeded"})

    def _open(self, key: str, address: str) -> Any:
        import openai

        http = openai.DefaultHttpxClient(follow_redirects=False, timeout=_TIMEOUT)
        client = openai.OpenAI(base_url=address, api_key=key, max_retries=0, timeout=_TIMEOUT, http_client=http)
        # Of the environment nothing but the key is used, as for requests that are asked alone.
        client.organization = client.project = None
        return client

    def wrap(self, key: str, body: list[bytes]) -> list[bytes]:
        return [f'{{"custom_id":"{key}","method":"POST","url":"/v1{self.path}","body":'.encode("ascii"), *body, b"}"]

    def _submit(self, file: BinaryIO, tag: str) -> Any:
        uploaded = self._client.files.create(file=(f"{tag}.jsonl", file, "application/jsonl"), purpose="batch")
        endpoint: Any = f"/v1{self.path}"
        metadata = {"evoaudit": tag}
        return self._client.batches.create(input_file_id=uploaded.id, endpoint=endpoint, completion_window="24h", metadata=metadata).id

    def _find(self, batch: Batch, known: set[str]) -> tuple[str, bool] | None:
        for one in islice(self._client.batches.list(limit=100), _LISTED):
            if (one.metadata or {}).get("evoaudit") == batch.tag:
                return one.id, True
            if one.created_at < batch.at - _SKEW:
                break
        return None

    def _look(self, identity: str) -> State:
        found = self._client.batches.retrieve(identity)
        status = text(found.status)
        if status is None:
            raise Unclear("the reply is no batch")
        counts = found.request_counts
        done = (counts.completed or 0) + (counts.failed or 0) if counts else None
        results = tuple(one for one in (found.output_file_id, found.error_file_id) if one)
        if status == "failed":
            told = [one for one in (found.errors.data or [] if found.errors else []) if one.code or one.message]
            error = {"code": told[0].code, "message": told[0].message} if told else {"message": "the batch failed"}
            return State(True, done, results, failed={"error": error})
        if status in ("completed", "expired", "cancelled"):
            return State(True, done, results, {"expired": EXPIRED, "cancelled": CANCELLED}.get(status))
        return State(False, done)

    def _fetch(self, result: str, out: BinaryIO) -> None:
        with self._client.files.with_streaming_response.content(result) as response:
            out.writelines(response.iter_bytes())

    def result(self, line: dict[str, Any]) -> Result | None:
        if (key := text(line.get("custom_id"))) is None:
            return None
        response, error = line.get("response"), line.get("error")
        if isinstance(response, dict):
            body = response.get("body")
            return Result(key, number(response, "status_code") or 200, body if isinstance(body, dict) else None)
        code = text(part(error, "code")) or ""
        if code == "batch_expired":
            return Result(key, lost=Outcome(EXPIRED[0], error=EXPIRED[1]))
        if code in ("batch_cancelled", "batch_canceled"):
            return Result(key, lost=Outcome(CANCELLED[0], error=CANCELLED[1]))
        return Result(key, 500, {"error": error} if isinstance(error, dict) else None)


class AnthropicBatches(Service):
    """Anthropic's Message Batches. They have no name: one is taken for ours by when it was made and of how many requests, and known for
    certain only by its results. So another run's batch may be waited for in vain, but none is paid for twice.
    """

    # As the API reference of message batches stood on 2026-11-30.
    REQUESTS, BYTES = 100_000, 256_000_000
    FRAME = (b'{"requests":[', b",", b"]}")

    #: Type of an error → the HTTP status it comes with when a request is asked alone.
    STATUS: ClassVar[dict[str, int]] = {
        "invalid_request_error": 400,
        "authentication_error": 401,
        "billing_error": 402,
        "permission_error": 403,
        "not_found_error": 404,
        "timeout_error": 408,
        "conflict_error": 409,
        "request_too_large": 413,
        "rate_limit_error": 429,
        "api_error": 500,
        "overloaded_error": 529,
    }

    def _open(self, key: str, address: str) -> Any:
        import anthropic

        http = anthropic.DefaultHttpxClient(follow_redirects=False, timeout=_TIMEOUT)
        return anthropic.Anthropic(base_url=address, api_key=key, max_retries=0, timeout=_TIMEOUT, http_client=http)

    def wrap(self, key: str, body: list[bytes]) -> list[bytes]:
        return [f'{{"custom_id":"{key}","params":'.encode("ascii"), *body, b"}"]

    def _submit(self, file: BinaryIO, tag: str) -> Any:
        from anthropic.types.messages import MessageBatch

        # `batches.create` would hold every request, decoded and encoded, in memory.
        options: Any = {"headers": {"Content-Type": "application/json"}}
        return self._client.post("/v1/messages/batches", content=file, cast_to=MessageBatch, options=options).id

    def _find(self, batch: Batch, known: set[str]) -> tuple[str, bool] | None:
        found = None
        for one in islice(self._client.messages.batches.list(limit=100), _LISTED):
            made, counts = one.created_at.timestamp(), one.request_counts
            if made < batch.at - _SKEW:
                break
            total = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
            if made <= batch.at + _UPLOAD + _SKEW and total == len(batch.keys) and one.id not in known | batch.others:
                found = one.id, False
        return found

    def _look(self, identity: str) -> State:
        found = self._client.messages.batches.retrieve(identity)
        status = text(found.processing_status)
        if status is None:
            raise Unclear("the reply is no batch")
        if status != "ended":
            return State(False)
        return State(True, results=(identity,))

    def _fetch(self, result: str, out: BinaryIO) -> None:
        with self._client.messages.batches.with_streaming_response.results(result) as response:
            out.writelines(response.iter_bytes())

    def result(self, line: dict[str, Any]) -> Result | None:
        if (key := text(line.get("custom_id"))) is None:
            return None
        kind, result = part(line, "result", "type"), line.get("result")
        if kind == "succeeded":
            message = part(result, "message")
            return Result(key, 200, message if isinstance(message, dict) else None)
        if kind == "expired":
            return Result(key, lost=Outcome(EXPIRED[0], error=EXPIRED[1]))
        if kind == "canceled":
            return Result(key, lost=Outcome(CANCELLED[0], error=CANCELLED[1]))
        error = part(result, "error")
        if not isinstance(part(error, "error"), dict):
            error = {"type": "error", "error": error}
        return Result(key, self.STATUS.get(text(part(error, "error", "type")) or "", 500), error if kind == "errored" else None)


class GoogleBatches(Service):
    """The Gemini API's batches. One is found again by its display name."""

    # As the guide to the Batch API stood on 2026-11-30; the number of requests is not bounded there.
    REQUESTS, BYTES = 50_000, 2_000_000_000
    #: google.rpc.Code → its name, and the HTTP status under which a request that is asked alone is classed alike.
    CODES: ClassVar[dict[int, tuple[str, int]]] = {
        1: ("CANCELLED", 503),
        2: ("UNKNOWN", 500),
        3: ("INVALID_ARGUMENT", 400),
        4: ("DEADLINE_EXCEEDED", 408),
        5: ("NOT_FOUND", 404),
        6: ("ALREADY_EXISTS", 409),
        7: ("PERMISSION_DENIED", 403),
        8: ("RESOURCE_EXHAUSTED", 429),
        9: ("FAILED_PRECONDITION", 400),
        10: ("ABORTED", 409),
        11: ("OUT_OF_RANGE", 400),
        12: ("UNIMPLEMENTED", 501),
        13: ("INTERNAL", 500),
        14: ("UNAVAILABLE", 503),
        15: ("DATA_LOSS", 500),
        16: ("UNAUTHENTICATED", 401),
    }

    def _open(self, key: str, address: str) -> Any:
        from google import genai
        from google.genai import types

        options = types.HttpOptions(base_url=address, timeout=int(_TIMEOUT * 1000), client_args={"follow_redirects": False})
        return genai.Client(enterprise=False, api_key=key, http_options=options)

    def wrap(self, key: str, body: list[bytes]) -> list[bytes]:
        return [f'{{"key":"{key}","request":'.encode("ascii"), *body, b"}"]

    def _submit(self, file: BinaryIO, tag: str) -> Any:
        uploaded = self._client.files.upload(file=file, config={"display_name": tag, "mime_type": "jsonl"})
        return self._client.batches.create(model=self.model, src={"file_name": uploaded.name}, config={"display_name": tag}).name

    def _find(self, batch: Batch, known: set[str]) -> tuple[str, bool] | None:
        for one in islice(self._client.batches.list(config={"page_size": 100}), _LISTED):
            if one.display_name == batch.tag and one.name:
                return one.name, True
        return None

    def _look(self, identity: str) -> State:
        found = self._client.batches.get(name=identity)
        state = getattr(found.state, "name", None)
        if state is None:
            raise Unclear("the reply is no batch")
        results = (found.dest.file_name,) if found.dest and found.dest.file_name else ()
        if state == "JOB_STATE_FAILED":
            message = found.error.message if found.error else None
            return State(True, results=results, failed={"error": {"message": message or "the batch failed"}})
        if state in ("JOB_STATE_SUCCEEDED", "JOB_STATE_PARTIALLY_SUCCEEDED"):
            return State(True, results=results)
        if state in ("JOB_STATE_EXPIRED", "JOB_STATE_CANCELLED"):
            return State(True, None, results, EXPIRED if state == "JOB_STATE_EXPIRED" else CANCELLED)
        return State(False)

    def _fetch(self, result: str, out: BinaryIO) -> None:
        self._client.files.download(file=result, destination=out)

    def result(self, line: dict[str, Any]) -> Result | None:
        if (key := text(line.get("key")) or text(part(line, "metadata", "key"))) is None:
            return None
        if isinstance(response := line.get("response"), dict):
            return Result(key, 200, response)
        if not isinstance(error := line.get("error"), dict):
            return Result(key, 500)
        code = number(error, "code") or 2
        name, status = self.CODES.get(code, (None, code))
        return Result(key, status, {"error": {**error, "status": text(error.get("status")) or name}})


def make(settings: Mapping[str, Any], provider: HTTPProvider) -> Service:
    """Return the batch service of one entry."""
    kinds: dict[str, Callable[..., Service]] = {"openai": OpenAIBatches, "google": GoogleBatches, "anthropic": AnthropicBatches}
    if settings["provider"] not in kinds:
        raise InputError(
            f"model '{settings['name']}': batch", f"provider '{settings['provider']}' has no batches", f"{', '.join(sorted(kinds))} have"
        )
    return kinds[settings["provider"]](settings, provider)


def lines(content: BinaryIO, longest: int) -> Iterator[dict[str, Any] | None]:
    """Yield the JSON objects of a file of results; None for a line that is none, or is longer than it may be."""
    while line := content.readline(longest):
        if len(line) == longest and not line.endswith(b"\n"):
            while (rest := content.readline(longest)) and not rest.endswith(b"\n"):
                pass
            yield None
        elif line.strip():
            yield json_object(line)
