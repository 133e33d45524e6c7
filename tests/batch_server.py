"""A server on the loopback that speaks the batch services of OpenAI, Google and Anthropic, and answers single requests besides."""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from model_server import Answer, Call, Reply

#: google.rpc.Code by name.
CODES = {
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "ABORTED": 10,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
}


@dataclass
class Made:
    """One batch as it was created."""

    id: str
    vendor: str
    path: str
    requests: list[tuple[str, dict]]
    tag: str | None
    created: float
    #: Looks until it has ended, and how it ends: completed, expired, cancelled or failed.
    looks: int = 0
    end: str = "completed"
    error: dict | None = None
    #: Lines of its results; made when they are first fetched.
    lines: list[bytes] | None = None

    @property
    def ended(self) -> bool:
        return self.looks <= 0

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.requests]


@dataclass
class Hooks:
    """What a test may change."""

    #: (what is asked for, how often it was) → a reply in its place; manner `lost` does it first and then breaks the connection off.
    meddle: Callable[[str, int], Reply | None] = lambda what, n: None
    #: Called with each batch as it is made.
    made: Callable[[Made], None] = lambda batch: None
    #: The lines of a batch's results → what is sent.
    spoil: Callable[[Made, list[bytes]], list[bytes]] = lambda batch, lines: lines
    #: Names of what is listed.
    listed: Callable[[Made], bool] = lambda batch: True


class BatchServer:
    """All batches that were made, and every single request, in order."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.hooks = answer, Hooks()
        self.batches: list[Made] = []
        self.calls: list[Call] = []
        self.files: dict[str, bytes] = {}
        self.counts: Counter[str] = Counter()
        self.seen: list[bytes] = []
        self.lock = threading.RLock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body leave together; apart, each waits for the other side's word on the one before.
            wbufsize = 1 << 16

            def do_GET(self) -> None:
                outer.exchange(self, b"")

            def do_POST(self) -> None:
                outer.exchange(self, read_body(self))

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        self.root = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def url(self, protocol: str) -> str:
        return self.root + ("/v1" if protocol in ("chat", "responses") else "")

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def asked(self) -> Counter[str]:
        """How often each request was put into a batch, by key."""
        return Counter(key for batch in self.batches for key in batch.keys)

    def exchange(self, handler: Any, content: bytes) -> None:
        url = urlsplit(handler.path)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self.lock:
            what, act = self._route(handler.command, url.path, parse_qs(url.query), headers, content)
            self.counts[what] += 1
            meddled = self.hooks.meddle(what, self.counts[what])
            reply = meddled if meddled is not None and meddled.manner != "lost" else act()
        if meddled is not None and meddled.manner in ("lost", "reset"):
            handler.close_connection = True
            handler.connection.close()
            return
        body = reply.payload if isinstance(reply.payload, bytes) else json.dumps(reply.payload).encode()
        length = len(body)
        if reply.manner == "cut":
            body = body[: length // 2]
            handler.close_connection = True
        try:
            handler.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", "Content-Length": str(length), **reply.headers}.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(body)
        except OSError:
            pass

    def _route(self, method: str, path: str, query: dict, headers: dict, content: bytes) -> tuple[str, Callable[[], Reply]]:
        identity = path.rsplit("/", 1)[-1]
        if path == "/v1/files":
            return "upload", lambda: self._upload(content, headers)
        if path == "/v1/batches" and method == "POST":
            return "create", lambda: self._create_openai(json.loads(content))
        if path.startswith("/upload/") and path.endswith("/files"):
            return "start", lambda: self._start(json.loads(content))
        if path.startswith("/put/"):
            return "upload", lambda: self._put(identity, content)
        if path.endswith(":batchGenerateContent"):
            return "create", lambda: self._create_google(path, json.loads(content))
        if path == "/v1/messages/batches" and method == "POST":
            return "create", lambda: self._create_anthropic(json.loads(content))
        if path == "/v1/messages/batches":
            return "list", lambda: self._page("anthropic", query.get("after_id", [None])[0], int(query["limit"][0]))
        if path.endswith("/results"):
            return "fetch", lambda: self._results(self._of(path.split("/")[-2]), "")
        if path.startswith("/v1/messages/batches/"):
            return "look", lambda: self._look(self._of(identity))
        if path.endswith("/content"):
            return "fetch", lambda: self._results(*self._file(path.split("/")[-2]))
        if path.endswith(":download"):
            return "fetch", lambda: self._results(self._of("batches/" + identity.removesuffix(":download")), "")
        if path.endswith("/batches"):
            token = query.get("after", query.get("pageToken", [None]))[0]
            return "list", lambda: self._page("google" if "pageSize" in query else "openai", token, int(query.get("limit", ["100"])[0]))
        if "/batches/" in path:
            return "look", lambda: self._look(self._of(identity) or self._of(f"batches/{identity}"))
        return "ask", lambda: self._ask(path, headers, content)

    def _ask(self, path: str, headers: dict, content: bytes) -> Reply:
        call = Call(protocol_of(path), path, headers, json.loads(content), len(self.calls) + 1)
        self.calls.append(call)
        return self.answer(call)

    # -- what goes up

    def _upload(self, content: bytes, headers: dict) -> Reply:
        boundary = b"--" + headers["content-type"].split("boundary=")[1].encode()
        part = next(one for one in content.split(boundary) if b'name="file"' in one)
        identity = f"file-{len(self.files) + 1}"
        self.files[identity] = part.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")
        found = {"id": identity, "object": "file", "bytes": 1, "created_at": 0, "filename": "f", "purpose": "batch", "status": "processed"}
        return Reply(payload=found)

    def _start(self, body: dict) -> Reply:
        identity = f"up{len(self.files) + 1}"
        return Reply(payload={}, headers={"X-Goog-Upload-URL": f"{self.root}/put/{identity}"})

    def _put(self, identity: str, content: bytes) -> Reply:
        self.files[f"files/{identity}"] = content
        return Reply(payload={"file": {"name": f"files/{identity}"}}, headers={"X-Goog-Upload-Status": "final"})

    def _make(self, vendor: str, path: str, requests: list[tuple[str, dict]], tag: str | None) -> Made:
        name = {"openai": "batch_", "anthropic": "msgbatch_", "google": "batches/b"}[vendor]
        batch = Made(f"{name}{len(self.batches) + 1}", vendor, path, requests, tag, time.time())
        self.batches.append(batch)
        self.hooks.made(batch)
        return batch

    def _create_openai(self, body: dict) -> Reply:
        rows = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        assert body["completion_window"] == "24h" and {(row["method"], row["url"]) for row in rows} == {("POST", body["endpoint"])}
        requests = [(row["custom_id"], row["body"]) for row in rows]
        assert len({key for key, _ in requests}) == len(requests)
        return Reply(payload=shown(self._make("openai", body["endpoint"], requests, body["metadata"]["evoaudit"])))

    def _create_anthropic(self, body: dict) -> Reply:
        requests = [(row["custom_id"], row["params"]) for row in body["requests"]]
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", key) for key, _ in requests)
        return Reply(payload=shown(self._make("anthropic", "/v1/messages", requests, None), self.root))

    def _create_google(self, path: str, body: dict) -> Reply:
        rows = [json.loads(line) for line in self.files[body["batch"]["inputConfig"]["fileName"]].splitlines()]
        requests = [(row["key"], row["request"]) for row in rows]
        return Reply(payload=shown(self._make("google", path, requests, body["batch"]["displayName"])))

    # -- what comes down

    def _of(self, identity: str) -> Made | None:
        return next((batch for batch in self.batches if batch.id == identity), None)

    def _page(self, vendor: str, after: str | None, limit: int) -> Reply:
        """Return one page of what is listed, two batches at most, the newest first."""
        found = [batch for batch in reversed(self.batches) if batch.vendor == vendor and self.hooks.listed(batch)]
        start = next((place + 1 for place, batch in enumerate(found) if batch.id == after), 0)
        page, more = found[start : start + 2], len(found) > start + 2
        data = [shown(batch, self.root) for batch in page]
        if vendor == "google":
            return Reply(payload={"operations": data, **({"nextPageToken": page[-1].id} if more else {})})
        ends = {"first_id": page[0].id, "last_id": page[-1].id} if page else {"first_id": None, "last_id": None}
        return Reply(payload={"object": "list", "data": data, "has_more": more, **ends})

    def _look(self, batch: Made | None) -> Reply:
        if batch is None:
            return Reply(404, {"error": {"code": 404, "message": "no such batch", "status": "NOT_FOUND", "type": "not_found_error"}})
        reply = Reply(payload=shown(batch, self.root))
        batch.looks -= 1
        return reply

    def _file(self, name: str) -> tuple[Made | None, str]:
        kind, _, identity = name.partition("-")
        return self._of(identity), kind

    def _results(self, batch: Made | None, kind: str) -> Reply:
        assert batch is not None and batch.ended
        if batch.lines is None:
            batch.lines = [json.dumps(line).encode() for line in self._lines(batch)]
        lines = self.hooks.spoil(batch, list(batch.lines))
        if batch.vendor == "openai":
            good = [line for line in lines if b'"status_code": 200' in line]
            lines = good if kind == "out" else [line for line in lines if line not in good]
        return Reply(payload=b"".join(line + b"\n" for line in lines), headers={"Content-Type": "application/octet-stream"})

    def _lines(self, batch: Made) -> list[dict]:
        """Return the results, last request first; of a batch that ended early those of every second request."""
        found = []
        for place, (key, body) in enumerate(batch.requests):
            if batch.end != "completed" and place % 2:
                found += unasked(batch.vendor, key, batch.end)
                continue
            call = Call(protocol_of(batch.path), batch.path, {}, body, place)
            found.append(line_of(batch.vendor, key, self.answer(call)))
        return found[::-1]


def read_body(handler: Any) -> bytes:
    if handler.headers.get("Transfer-Encoding", "") != "chunked":
        return handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
    content = b""
    while size := int(handler.rfile.readline(), 16):
        content += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return content


def protocol_of(path: str) -> str:
    ends = {"/chat/completions": "chat", "/responses": "responses", "/v1/messages": "anthropic"}
    return next((name for end, name in ends.items() if path.endswith(end)), "google")


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def shown(batch: Made, root: str = "") -> dict:
    """Return a batch as its vendor shows it."""
    n, ended = len(batch.requests), batch.ended
    if batch.vendor == "openai":
        failed = {"errors": {"object": "list", "data": [batch.error]}} if batch.error else {}
        files = {"output_file_id": f"out-{batch.id}", "error_file_id": f"err-{batch.id}"} if ended and batch.end != "failed" else {}
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.path,
            "input_file_id": "f",
            "completion_window": "24h",
            "created_at": int(batch.created),
            "status": batch.end if ended else "in_progress",
            "metadata": {"evoaudit": batch.tag},
            "request_counts": {"total": n, "completed": n if ended else n // 2, "failed": 0},
            **files,
            **failed,
        }
    if batch.vendor == "anthropic":
        counts = {"processing": 0 if ended else n, "succeeded": n if ended else 0, "errored": 0, "canceled": 0, "expired": 0}
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": stamp(batch.created),
            "expires_at": stamp(batch.created + 86400),
            "ended_at": stamp(batch.created) if ended else None,
            "results_url": f"{root}/v1/messages/batches/{batch.id}/results" if ended else None,
        }
    state = {"completed": "SUCCEEDED"}.get(batch.end, batch.end.upper()) if ended else "RUNNING"
    output = {"output": {"responsesFile": f"files/{batch.id.removeprefix('batches/')}"}} if ended and batch.end == "completed" else {}
    metadata = {"displayName": batch.tag, "state": f"BATCH_STATE_{state}", "createTime": stamp(batch.created), **output}
    return {"name": batch.id, "metadata": metadata, "done": ended}


def unasked(vendor: str, key: str, end: str) -> list[dict]:
    """Return what stands for a request that a batch did not come to."""
    if vendor == "openai" and end == "expired":
        return [{"id": "q", "custom_id": key, "response": None, "error": {"code": "batch_expired", "message": "This request expired."}}]
    if vendor == "anthropic":
        return [{"custom_id": key, "result": {"type": {"cancelled": "canceled"}.get(end, end)}}]
    return []


def line_of(vendor: str, key: str, reply: Reply) -> dict:
    """Return the line of a result that says what a reply to the request alone would have said."""
    payload = reply.payload if not isinstance(reply.payload, bytes) else reply.payload.decode()
    if vendor == "openai":
        response = {"status_code": reply.status, "request_id": "r", "body": payload}
        return {"id": "q", "custom_id": key, "response": response, "error": None}
    if vendor == "anthropic":
        if reply.status == 200 and not (isinstance(payload, dict) and payload.get("type") == "error"):
            return {"custom_id": key, "result": {"type": "succeeded", "message": payload}}
        return {"custom_id": key, "result": {"type": "errored", "error": payload}}
    if reply.status == 200:
        return {"key": key, "response": payload}
    error = payload["error"] if isinstance(payload, dict) else {"message": payload, "status": "INTERNAL"}
    return {"key": key, "error": {**{name: value for name, value in error.items() if name != "status"}, "code": CODES[error["status"]]}}
