"""What all HTTP providers share: one session, bodies spliced from pictures encoded once, replies classed by status and code.

The vendors' own SDKs are not on this path: building one request with pictures costs them several milliseconds of processor
time. What is sent and how replies are read is held equal to theirs by the tests, which drive the real SDKs.
"""

import json
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, ClassVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.payload import Payload

from evoaudit.errors import InputError, one_line
from evoaudit.infer.base import Attachments, Halt, Outcome, Request
from evoaudit.prompts import Image

#: Longest reply that is read, bytes; an answer is far shorter.
LONGEST_REPLY = 32 << 20
#: Shortest key that is blotted out of texts; shorter ones are placeholders such as "EMPTY" or "x".
_SHORTEST_KEY = 8
#: Pieces from this size on are written without being copied, bytes.
_LARGE = 1 << 14
#: Seconds a connection may take to come about.
_CONNECT = 30.0


@dataclass(frozen=True, slots=True)
class Encoded:
    """A JSON string that ends in a picture's base64, where `splice` meets it."""

    image: Image
    #: Whether the string is a data URL, with the media type before the base64.
    url: bool = False
    #: Whether the base64 is in the alphabet for URLs, as Google's SDK writes it.
    url_safe: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """A refused request: HTTP status, what the service calls it (codes and types), its message."""

    status: int
    codes: frozenset[str]
    message: str
    #: The parameter at fault, where the service names it.
    parameter: str | None = None
    retry_after: float | None = None
    #: Whether the request carried pictures.
    pictures: bool = False


class HTTPProvider(ABC):
    """One model behind one HTTP endpoint. The key is read from the environment and never written anywhere."""

    #: Where the service lives when an entry names no ``base_url``.
    ADDRESS: ClassVar[str]
    #: Codes of the service by what they mean.
    FILTERED: ClassVar[frozenset[str]] = frozenset()
    BAD_KEY: ClassVar[frozenset[str]] = frozenset()
    #: The account has no credit left; a 429 with one of these is no rate limit.
    NO_CREDIT: ClassVar[frozenset[str]] = frozenset()
    TOO_LONG: ClassVar[frozenset[str]] = frozenset()
    PICTURES: ClassVar[frozenset[str]] = frozenset()
    #: Prose, for what services give no code of its own.
    TOO_LONG_WORDS: ClassVar[re.Pattern] = re.compile(r"context length|context window|maximum context|too many tokens", re.IGNORECASE)
    PICTURE_WORDS: ClassVar[re.Pattern] = re.compile(
        r"at most \d+ images?|too many images|number of images|image dimensions|image size exceed|image (?:is )?too (?:large|big)",
        re.IGNORECASE,
    )

    def __init__(self, settings: Mapping[str, Any], attachments: Attachments, timeout_s: float) -> None:
        self._model, self._attachments = settings["model"], attachments
        self._key_name = settings.get("api_key_env")
        self._base = (settings.get("base_url") or self.ADDRESS).rstrip("/")
        self._host = host_of(settings["name"], self._base)
        self._key = key_of(settings["name"], self._key_name)
        #: Parameters of every request; a model that does not take one is asked without it.
        self._parameters = {name: value for name, value in self.parameters(settings).items() if value is not None}
        self._session: aiohttp.ClientSession | None = None
        proxies = {} if proxy_bypass(self._host) else getproxies()
        self._proxy = proxies.get(urlsplit(self._base).scheme) or proxies.get("all")
        self._string = lru_cache(maxsize=1024)(_string)

    @abstractmethod
    def parameters(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of every request; None leaves one out."""

    @abstractmethod
    def path(self) -> str:
        """Return what follows the base address."""

    @abstractmethod
    def headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry the key and the protocol's version."""

    @abstractmethod
    def body(self, request: Request) -> dict[str, Any]:
        """Return a request's body, with `Encoded` in place of pictures."""

    @abstractmethod
    def read(self, reply: dict[str, Any]) -> Outcome:
        """Class a reply with status 200. Nothing in it is certain: every field may be absent or of another type."""

    @abstractmethod
    def error(self, reply: dict[str, Any]) -> tuple[set[str], str | None, str | None]:
        """Return the codes, the message and the parameter at fault of an error's body."""

    def adapt(self, fault: Fault, sent: Mapping[str, Any]) -> bool:
        """Leave out or rename a parameter that this model does not take; False if the fault is another."""
        return False

    async def ask(self, request: Request) -> Outcome:
        """Make one attempt."""
        while True:
            sent = self.sent
            try:
                status, headers, content = await self._post(request)
            except TimeoutError:
                return Outcome("timeout", error="the endpoint did not answer in time")
            # Transport faults leak in many types, and all mean the same.
            except Exception as error:
                cause = f": {error.__cause__}" if error.__cause__ else ""
                return self._clean(Outcome("server", error=f"{type(error).__name__}: {error}{cause}"))
            reply = json_object(content)
            if status == 200 and reply is None:
                kind = one_line(headers.get("Content-Type", "no type"), 40)
                return self._clean(Outcome("server", error=f"the reply is not JSON but {len(content)} bytes of {kind}"))
            if outcome := self.outcome(status, headers, reply or {}, sent, bool(request.images())):
                return outcome

    @property
    def sent(self) -> dict[str, Any]:
        """Return the parameters that a request carries now."""
        return dict(self._parameters)

    def outcome(
        self, status: int, headers: Mapping[str, str], reply: dict[str, Any], sent: Mapping[str, Any], pictures: bool
    ) -> Outcome | None:
        """Class a reply to a request that carried the parameters ``sent``; None if it is to be made again with others."""
        if status == 200 and not self._hidden_error(reply):
            return self._clean(self.read(reply))
        fault = self._fault(status, headers, reply, pictures)
        return None if self.adapt(fault, sent) else self._clean(self._outcome(fault))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def pieces(self, request: Request) -> list[bytes]:
        """Return a request's JSON body in pieces."""
        out: list[bytes] = []
        self._splice(self.body(request), out)
        return out

    async def _post(self, request: Request) -> tuple[int, Mapping[str, str], bytes]:
        session = self._session or self._open()
        async with session.post(
            self._base + self.path(), data=_Body(self.pieces(request)), proxy=self._proxy, allow_redirects=False
        ) as reply:
            content = bytearray()
            async for chunk in reply.content.iter_any():
                content += chunk
                if len(content) > LONGEST_REPLY:
                    raise ValueError(f"the reply is longer than {LONGEST_REPLY >> 20} MiB")
            return reply.status, reply.headers, bytes(content)

    def _open(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            # The engine keeps the deadline of a whole attempt.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT),
            headers={**self.headers(self._key or "none"), "Content-Type": "application/json", "Accept": "application/json"},
        )
        return self._session

    def _splice(self, value: Any, out: list[bytes]) -> None:
        """Append a value's JSON, pictures as the bytes they were encoded to once."""
        if type(value) is str:
            out.append(self._string(value))
        elif type(value) is Encoded:
            media_type, data = self._attachments.base64(value.image, value.url_safe)
            out += (b'"data:', media_type, b";base64,", data, b'"') if value.url else (b'"', data, b'"')
        elif type(value) is dict:
            before = b"{"
            for name, inner in value.items():
                out += (before, self._string(name), b":")
                self._splice(inner, out)
                before = b","
            out.append(b"}" if value else b"{}")
        elif type(value) in (list, tuple):
            before = b"["
            for inner in value:
                out.append(before)
                self._splice(inner, out)
                before = b","
            out.append(b"]" if value else b"[]")
        else:
            out.append(json.dumps(value, allow_nan=False).encode())

    def media_type(self, image: Image, url_safe: bool = False) -> str:
        """Return the media type of a picture that is sent with that alphabet."""
        return self._attachments.base64(image, url_safe)[0].decode("ascii")

    def _hidden_error(self, reply: dict[str, Any]) -> bool:
        """Tell whether a reply with status 200 is an error all the same, as gateways send them."""
        return bool(reply.get("error")) and set(reply) <= {"error", "type", "user_id", "request_id", "id"}

    def _fault(self, status: int, headers: Mapping[str, str], reply: dict[str, Any], pictures: bool) -> Fault:
        codes, message, parameter = self.error(reply)
        if status == 200:
            number = next((int(code) for code in codes if re.fullmatch(r"[45]\d\d", code)), None)
            status = number or 500
        wait = retry_after(headers)
        wait = self.asked_wait(reply) if wait is None else wait
        text = f"HTTP {status}: {one_line(message, 200)}" if message else f"HTTP {status}"
        return Fault(status, frozenset(codes), text, parameter, wait, pictures)

    def asked_wait(self, reply: dict[str, Any]) -> float | None:
        """Return how long an error's body asks to wait, seconds, or None."""
        return None

    def _outcome(self, fault: Fault) -> Outcome:
        """Class a refused request by its status and codes; prose only tells what has no code of its own."""
        status, codes, text = fault.status, fault.codes, fault.message
        key = f"the key in {self._key_name}" if self._key_name else "the request, which carried no key"
        if codes & self.FILTERED:
            return Outcome("content_filter", error=text)
        if status == 402 or codes & self.NO_CREDIT:
            raise Halt(f"{self._host} says there is no credit left for {key}, model {self._model} (HTTP {status})", "add credit")
        if status in (401, 403) or codes & self.BAD_KEY:
            raise Halt(
                f"{self._host} refused {key} for model {self._model} (HTTP {status})",
                f"set {self._key_name or 'api_key_env'} to a key that may use it",
            )
        if status in (404, 410):
            raise Halt(f"{self._host} knows no model {self._model} (HTTP {status})", "check the entry's model and base_url")
        if status == 429:
            return Outcome("rate_limited", error=text, retry_after=fault.retry_after)
        if status == 408:
            return Outcome("timeout", error=text)
        if status == 409 or status >= 500:
            return Outcome("server", error=text, retry_after=fault.retry_after)
        if fault.pictures and (status == 413 or codes & self.PICTURES or self.PICTURE_WORDS.search(text)):
            return Outcome("picture_limit", error=text)
        if status == 413 or codes & self.TOO_LONG or self.TOO_LONG_WORDS.search(text):
            return Outcome("context_overflow", error=text)
        return Outcome("http_error", error=text)

    def _clean(self, outcome: Outcome) -> Outcome:
        """Blot the key out of everything a service sent back."""
        if self._key and len(self._key) >= _SHORTEST_KEY:
            for name in ("raw", "finish_reason", "error", "served"):
                if (value := getattr(outcome, name)) is not None:
                    setattr(outcome, name, value.replace(self._key, "[key]"))
        return outcome


class _Body(Payload):
    """A body in pieces. Pictures go to the socket as they lie in memory; what stands between them is joined."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__(pieces, content_type="application/json")
        self._size = sum(map(len, pieces))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._value).decode(encoding, errors)

    async def write(self, writer: Any) -> None:
        small: list[bytes] = []
        for piece in self._value:
            if len(piece) < _LARGE:
                small.append(piece)
                continue
            await writer.write(b"".join(small))
            await writer.write(piece)
            small.clear()
        await writer.write(b"".join(small))


def _string(text: str) -> bytes:
    return json.dumps(text).encode("ascii")


def json_object(content: bytes) -> dict[str, Any] | None:
    """Return the JSON object a body holds, or None."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def text(value: Any) -> str | None:
    """Return a value if it is text."""
    return value if isinstance(value, str) else None


def part(value: Any, *path: str | int) -> Any:
    """Follow names and positions into a JSON value; None where one leads nowhere."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(value, list) or len(value) <= step:
                return None
            value = value[step]
        else:
            if not isinstance(value, dict):
                return None
            value = value.get(step)
    return value


def number(value: Any, *path: str | int) -> int | None:
    """Return a count of tokens out of a JSON value, or None."""
    found = part(value, *path)
    return found if type(found) is int and 0 <= found < 2**53 else None


def total(*counts: int | None) -> int | None:
    """Return the sum of the counts that are known, None if none is."""
    known = [one for one in counts if one is not None]
    return sum(known) if known else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read Retry-After in seconds or as a date; None if there is none that makes sense."""
    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            wait = float(milliseconds) / 1000
        elif (given := headers.get("retry-after")) is None:
            return None
        elif given.strip().replace(".", "", 1).isdigit():
            wait = float(given)
        else:
            wait = parsedate_to_datetime(given).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, wait) if wait < float("inf") else None


def host_of(name: str, base_url: str) -> str:
    """Return an address's host; an address that is none, or holds credentials, is refused."""
    try:
        parts = urlsplit(base_url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        host, parts = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise InputError(f"model '{name}': base_url", "is not an http or https address", "for instance http://127.0.0.1:30000/v1")
    if parts.username or parts.password or parts.query:
        raise InputError(
            f"model '{name}': base_url",
            "holds credentials or a query",
            "put the key into an environment variable and name it in api_key_env",
        )
    return host


def key_of(name: str, variable: str | None) -> str | None:
    """Read a key from the environment."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise InputError(f"model '{name}'", f"the environment variable {variable} is not set", f"export {variable}=… and run again")
    if not key.isascii() or not key.isprintable():
        raise InputError(f"model '{name}'", f"the environment variable {variable} holds characters no key has", "copy the key again")
    return key
