"""A server on the loopback that speaks the wire protocols of OpenAI (both), Google and Anthropic, and misbehaves on request."""

import asyncio
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

PROTOCOLS = ("chat", "responses", "google", "anthropic")
GOOD = '{"answer": "A", "confidence": 0.9}'


@dataclass
class Call:
    """One request as it arrived."""

    protocol: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    number: int

    @property
    def asked(self) -> str:
        """The instance asked about: the quoted goal (or domain) that starts with `i-`."""
        return re.search(r'\\"(i-[a-z0-9-]+)\\"', json.dumps(self.body))[1]


@dataclass
class Reply:
    """What to send back. ``manner``: whole, reset (in the middle of the body), cut (an early end), drip (a byte at a time), hang."""

    status: int = 200
    payload: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    manner: str = "whole"


Answer = Callable[[Call], Reply]


class ModelServer:
    """A server that answers as ``answer`` says, in a thread of its own."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: list[Call] = []
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    def url(self, protocol: str) -> str:
        """Return the base address a config would name."""
        return f"http://127.0.0.1:{self.port}" + ("/v1" if protocol in ("chat", "responses") else "")

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _serve(self, ready: threading.Event) -> None:
        async def serve() -> None:
            self._stop = asyncio.Event()
            server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=1 << 26)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            await self._stop.wait()
            server.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        self._loop.run_until_complete(serve())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        path = head[0].split(" ")[1]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        call = Call(_protocol(path), path, headers, json.loads(content) if content else {}, len(self.calls) + 1)
        self.calls.append(call)
        reply = self.answer(call)
        if reply.manner == "hang":
            await asyncio.sleep(30)
        body = reply.payload if isinstance(reply.payload, bytes) else json.dumps(reply.payload).encode()
        sent = {"Content-Type": "application/json", "Content-Length": str(len(body)), **reply.headers}
        writer.write(_head(reply.status, sent))
        if reply.manner == "drip":
            for byte in body:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.05)
        elif reply.manner in ("reset", "cut"):
            writer.write(body[: len(body) // 2])
            await writer.drain()
            if reply.manner == "reset":
                writer.transport.abort()
            return False
        else:
            writer.write(body)
        await writer.drain()
        return True


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _protocol(path: str) -> str:
    if path.endswith("/chat/completions"):
        return "chat"
    if path.endswith("/responses"):
        return "responses"
    return "anthropic" if path.endswith("/v1/messages") else "google"


def good(protocol: str, text: str | None = GOOD, end: str = "stop", served: str = "served-model") -> Reply:
    """Return a reply that ends well (`stop`), by the token limit (`length`), by a filter (`filter`), or by a refusal (`refusal`).

    1,000 tokens of input, 400 of them cached; 10 of output, 4 of them thought.
    """
    if protocol == "chat":
        message = {"role": "assistant", "content": text, "refusal": "I cannot" if end == "refusal" else None}
        return Reply(
            payload={
                "id": "r",
                "object": "chat.completion",
                "created": 0,
                "model": served,
                "choices": [
                    {
                        "index": 0,
                        "logprobs": None,
                        "finish_reason": {"length": "length", "filter": "content_filter"}.get(end, "stop"),
                        "message": message,
                    }
                ],
                "usage": {
                    "prompt_tokens": 1000,
                    "completion_tokens": 10,
                    "total_tokens": 1010,
                    "prompt_tokens_details": {"cached_tokens": 400},
                    "completion_tokens_details": {"reasoning_tokens": 4},
                },
            }
        )
    if protocol == "responses":
        content = [] if text is None else [{"type": "output_text", "text": text, "annotations": []}]
        if end == "refusal":
            content = [{"type": "refusal", "refusal": "I cannot"}]
        why = {"length": "max_output_tokens", "filter": "content_filter"}.get(end)
        item = {"type": "message", "id": "m", "role": "assistant", "status": "incomplete" if why else "completed", "content": content}
        return Reply(
            payload={
                "id": "r",
                "object": "response",
                "created_at": 0,
                "status": "incomplete" if why else "completed",
                "incomplete_details": {"reason": why} if why else None,
                "error": None,
                "model": served,
                "output": [{"type": "reasoning", "id": "t", "summary": []}, item],
                "parallel_tool_calls": True,
                "tool_choice": "auto",
                "tools": [],
                "usage": {
                    "input_tokens": 1000,
                    "input_tokens_details": {"cached_tokens": 400},
                    "output_tokens": 10,
                    "output_tokens_details": {"reasoning_tokens": 4},
                    "total_tokens": 1010,
                },
            }
        )
    if protocol == "google":
        parts = [{"text": "a thought", "thought": True}] + ([] if text is None else [{"text": text}])
        finish = {"length": "MAX_TOKENS", "filter": "SAFETY", "refusal": "PROHIBITED_CONTENT"}.get(end, "STOP")
        candidate = {"index": 0, "finishReason": finish, "content": {"role": "model", "parts": parts}}
        return Reply(
            payload={
                "candidates": [candidate],
                "modelVersion": served,
                "responseId": "r",
                "usageMetadata": {
                    "promptTokenCount": 1000,
                    "cachedContentTokenCount": 400,
                    "candidatesTokenCount": 6,
                    "thoughtsTokenCount": 4,
                    "totalTokenCount": 1010,
                },
            }
        )
    return Reply(
        payload={
            "id": "r",
            "type": "message",
            "role": "assistant",
            "model": served,
            "content": [] if text is None else [{"type": "text", "text": text}],
            "stop_reason": {"length": "max_tokens", "refusal": "refusal", "filter": "refusal"}.get(end, "end_turn"),
            "stop_sequence": None,
            "usage": {
                "input_tokens": 500,
                "cache_read_input_tokens": 400,
                "cache_creation_input_tokens": 100,
                "output_tokens": 10,
                "output_tokens_details": {"thinking_tokens": 4},
            },
        }
    )


def hollow(protocol: str) -> Reply:
    """Return a reply without a single choice."""
    reply = good(protocol)
    reply.payload[{"chat": "choices", "responses": "output", "google": "candidates", "anthropic": "content"}[protocol]] = []
    return reply


#: Kind of fault → for each vendor its status, code or type, and message.
_ERRORS: dict[str, dict[str, tuple[int, str | None, str]]] = {
    "rate": {
        "openai": (429, "rate_limit_exceeded", "slow down"),
        "google": (429, "RESOURCE_EXHAUSTED", "slow down"),
        "anthropic": (429, "rate_limit_error", "slow down"),
    },
    "server": {"openai": (500, "server_error", "oops"), "google": (500, "INTERNAL", "oops"), "anthropic": (500, "api_error", "oops")},
    "busy": {"openai": (503, None, "busy"), "google": (503, "UNAVAILABLE", "busy"), "anthropic": (529, "overloaded_error", "busy")},
    "conflict": {"openai": (409, None, "again"), "google": (409, "ABORTED", "again"), "anthropic": (409, "conflict_error", "again")},
    "late": {"openai": (408, None, "late"), "google": (408, "DEADLINE_EXCEEDED", "late"), "anthropic": (408, "timeout_error", "late")},
    "long": {
        "openai": (400, "context_length_exceeded", "too long"),
        "google": (400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
        "anthropic": (400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
    },
    "picture": {
        "openai": (400, "image_too_large", "too large"),
        "google": (400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 8 bytes."),
        "anthropic": (413, "request_too_large", "Request exceeds the maximum size"),
    },
    "many": {
        "openai": (400, None, "At most 1 image(s) may be provided in one request."),
        "google": (400, "INVALID_ARGUMENT", "Too many images in request"),
        "anthropic": (
            400,
            "invalid_request_error",
            "messages.0.content.1.image.source.base64.data: image dimensions exceed max allowed size",
        ),
    },
    "crowd": {
        "openai": (400, "too_many_images", "no"),
        "google": (400, "INVALID_ARGUMENT", "The number of images exceeds the limit."),
        "anthropic": (400, "invalid_request_error", "Too much media: 0 document pages + 102 images > 100"),
    },
    "bad": {
        "openai": (400, "invalid_image", "cannot read"),
        "google": (400, "INVALID_ARGUMENT", "cannot read"),
        "anthropic": (400, "invalid_request_error", "cannot read"),
    },
    "auth": {
        "openai": (401, "invalid_api_key", "wrong key"),
        "google": (400, "API_KEY_INVALID", "wrong key"),
        "anthropic": (401, "authentication_error", "wrong key"),
    },
    "forbidden": {
        "openai": (403, None, "no"),
        "google": (403, "PERMISSION_DENIED", "no"),
        "anthropic": (403, "permission_error", "no"),
    },
    "credit": {
        "openai": (429, "insufficient_quota", "pay"),
        "google": (429, "PerDay", "pay"),
        "anthropic": (400, "invalid_request_error", "Your credit balance is too low to access the API."),
    },
    "spent": {
        "openai": (402, None, "pay"),
        "google": (400, "FAILED_PRECONDITION", "billing"),
        "anthropic": (429, "enforced_spend_limit_reached", "spent"),
    },
    "model": {
        "openai": (404, "model_not_found", "no such model"),
        "google": (404, "NOT_FOUND", "no such model"),
        "anthropic": (404, "not_found_error", "no such model"),
    },
}


def fault(protocol: str, kind: str, headers: dict[str, str] | None = None) -> Reply:
    """Return a refused request in a vendor's own words."""
    vendor = "openai" if protocol in ("chat", "responses") else protocol
    status, code, message = _ERRORS[kind][vendor]
    if vendor == "openai":
        payload: Any = {"error": {"message": message, "code": code, "type": "t", "param": None}}
    elif vendor == "anthropic":
        special = {"error_code": code} if code and not code.endswith(("_error", "_large")) else None
        error = {"type": "rate_limit_error" if special else code, "message": message, **({"details": special} if special else {})}
        payload = {"type": "error", "error": error, "request_id": "q"}
    else:
        details: list[dict] = []
        if code == "API_KEY_INVALID":
            details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code, "domain": "googleapis.com"}]
        if code == "PerDay":
            quota = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel", "quotaValue": "50"}
            details = [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [quota]}]
        named = {"API_KEY_INVALID": "INVALID_ARGUMENT", "PerDay": "RESOURCE_EXHAUSTED"}.get(code, code)
        payload = {"error": {"code": status, "message": message, "status": named, "details": details}}
    return Reply(status, payload, headers or {})


#: Fault → how it is answered, and the status it must get. None of them is an answer.
FAULTS: dict[str, tuple[Callable[[str], Reply], str]] = {
    "rate": (lambda p: fault(p, "rate", {"Retry-After": "0.01"}), "rate_limited"),
    "rate-bare": (lambda p: fault(p, "rate"), "rate_limited"),
    "server": (lambda p: fault(p, "server"), "server"),
    "busy": (lambda p: fault(p, "busy", {"Retry-After": "0"}), "server"),
    "conflict": (lambda p: fault(p, "conflict"), "server"),
    "late": (lambda p: fault(p, "late"), "timeout"),
    "reset": (lambda p: Reply(payload=good(p).payload, manner="reset"), "server"),
    "cut": (lambda p: Reply(payload=good(p).payload, manner="cut"), "server"),
    "drip": (lambda p: Reply(payload=good(p).payload, manner="drip"), "timeout"),
    "hang": (lambda p: Reply(payload=good(p).payload, manner="hang"), "timeout"),
    "malformed": (lambda p: Reply(payload=json.dumps(good(p).payload).encode()[:-9]), "server"),
    "html": (lambda p: Reply(payload=b"<html>hello</html>", headers={"Content-Type": "text/html"}), "server"),
    "html-502": (lambda p: Reply(502, b"<html>bad gateway</html>", {"Content-Type": "text/html"}), "server"),
    "list": (lambda p: Reply(payload=[good(p).payload]), "server"),
    "other": (lambda p: Reply(payload={"hello": "world"}), "server"),
    "hollow": (hollow, "empty"),
    "none": (lambda p: good(p, None), "empty"),
    "blank": (lambda p: good(p, " \n"), "empty"),
    "length": (lambda p: good(p, '{"answer": "A"', "length"), "truncated"),
    "thought": (lambda p: good(p, None, "length"), "truncated"),
    "refusal": (lambda p: good(p, None, "refusal"), "refused"),
    "filter": (lambda p: good(p, "", "filter"), "content_filter"),
    "long": (lambda p: fault(p, "long"), "context_overflow"),
    "picture": (lambda p: fault(p, "picture"), "picture_limit"),
    "many": (lambda p: fault(p, "many"), "picture_limit"),
    "crowd": (lambda p: fault(p, "crowd"), "picture_limit"),
    "bad": (lambda p: fault(p, "bad"), "http_error"),
    "moved": (lambda p: Reply(307, b"", {"Location": "http://127.0.0.1:9/"}), "http_error"),
}


def expected(protocol: str, name: str) -> str:
    """Return the status a fault must get; Google has no refusals and Anthropic no filters, each has the other."""
    status = FAULTS[name][1]
    if protocol == "google" and status == "refused":
        return "content_filter"
    return "refused" if protocol == "anthropic" and status == "content_filter" else status
