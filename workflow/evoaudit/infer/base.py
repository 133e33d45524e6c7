"""What is asked and what comes back, in terms that name no provider."""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from io import BytesIO
from typing import Any, Protocol

from evoaudit import store
from evoaudit.prompts import Image, Message, Text

#: Version of the request as keyed and sent; a change of meaning bumps it, and nothing asked before is reused.
FORMAT = 2

OK = "ok"
#: Outcomes another try may mend.
PASSING = frozenset({"rate_limited", "server", "timeout"})
#: What is known of a call's tokens; None where the service did not say.
TOKENS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
#: Settings of a job that no service sees: names, and how fast, how often and how long it is asked. All others are part of a request's
#: key, those not yet thought of included. What `condition`, `goal`, `max_image_side` and `prompts` decide is in the messages.
NOT_SENT = frozenset(
    {"name", "condition", "goal", "max_image_side", "prompts", "runs", "base_url", "endpoint", "api_key_env", "concurrency", "timeout_s"}
    | {"deadline_s", "retries", "budget_usd", "rpm", "tpm", "tolerate", "reuse", "fresh", "price", "schema", "serve"}
    | {"batch", "batch_wait_h"}
)
STATUSES = frozenset(
    {
        OK,
        "refused",
        "content_filter",
        "truncated",
        "context_overflow",
        "auth",
        "rate_limited",
        "server",
        "timeout",
        "empty",
        "http_error",
        "picture_missing",
        "picture_limit",
    }
)

#: Words of a JSON schema that not every endpoint decodes by.
_CHECKS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems"}
)
#: Pictures kept encoded in memory at a time.
_KEPT = 128


class Pictures(Protocol):
    """The prepared pictures of one maximum side."""

    def get(self, image_id: str) -> bytes: ...

    def size(self, image_id: str) -> tuple[int, int]: ...


@dataclass(frozen=True, slots=True)
class Request:
    """One instance asked once."""

    task: str
    instance_id: str
    run: int
    messages: tuple[Message, ...]
    #: JSON schema the answer must follow, where the endpoint can hold it to one; see `closed`.
    schema: Mapping[str, Any] | None = None

    def images(self) -> list[Image]:
        return [part for message in self.messages for part in message.parts if isinstance(part, Image)]


@dataclass(slots=True)
class Outcome:
    """How one request ended. ``retry_after`` is what the service asked for, seconds.

    Tokens are counted so that none is paid for twice: those read from the service's cache are part of the input, those of reasoning
    part of the output.
    """

    status: str
    raw: str | None = None
    finish_reason: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    error: str | None = None
    served: str | None = None
    latency_s: float | None = None
    retry_after: float | None = None


class Halt(Exception):
    """A fault every further request would meet too: a refused key, no credit, an unknown model."""

    def __init__(self, what: str, mend: str) -> None:
        super().__init__(what)
        self.what, self.mend = what, mend


class Pause(Halt):
    """A run that stops before its end and, run again, goes on where it stopped."""


class Provider(Protocol):
    """A way to ask one model. ``ask`` makes one attempt and raises nothing but `Halt`."""

    async def ask(self, request: Request) -> Outcome: ...

    async def close(self) -> None: ...


class Attachments:
    """Pictures as they are sent: encoded once, hashed once, black where the condition asks for it."""

    def __init__(self, pictures: Pictures | None) -> None:
        self._pictures = pictures
        #: Picture → sha256 and number of the bytes that are sent.
        self._sent: dict[Image, tuple[bytes, int]] = {}
        self.base64 = lru_cache(maxsize=_KEPT)(self._base64)

    def survey(self, images: Iterable[Image]) -> None:
        """Hash and measure pictures beforehand, in the order they are stored in, so that each is read once."""
        for image in sorted(set(images), key=lambda image: (image.image_id, image.black)):
            if missing_picture(image, self):
                continue
            self.sha256(image)

    def data(self, image: Image) -> bytes:
        """Return the encoded bytes; KeyError if the picture was not prepared."""
        if image.black:
            return black(*self.size(image))
        if self._pictures is None:
            raise KeyError(image.image_id)
        return self._pictures.get(image.image_id)

    def size(self, image: Image) -> tuple[int, int]:
        """Return width and height in pixels; KeyError if the picture was not prepared."""
        if self._pictures is None:
            raise KeyError(image.image_id)
        return self._pictures.size(image.image_id)

    def sha256(self, image: Image) -> str:
        """Return the hash of the bytes that are sent."""
        return self._facts(image)[0].hex()

    def length(self, image: Image) -> int:
        """Return the number of bytes that are sent, before base64."""
        return self._facts(image)[1]

    def _facts(self, image: Image) -> tuple[bytes, int]:
        if image not in self._sent:
            data = self.data(image)
            self._sent[image] = hashlib.sha256(data).digest(), len(data)
        return self._sent[image]

    def _base64(self, image: Image, url_safe: bool = False) -> tuple[bytes, bytes]:
        """Return the media type and the base64 of a picture; kept for the requests that follow."""
        data = self.data(image)
        return media_type(data).encode("ascii"), (base64.urlsafe_b64encode if url_safe else base64.b64encode)(data)


@lru_cache(maxsize=32)
def black(width: int, height: int) -> bytes:
    """Return a black PNG of that size."""
    from PIL import Image as Pixels

    out = BytesIO()
    Pixels.new("L", (width, height)).save(out, "PNG")
    return out.getvalue()


def media_type(data: bytes) -> str:
    """Tell a picture's media type by its first bytes."""
    if data.startswith(b"\xff\xd8"):
        return "image/jpeg"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return "image/png"


def request_key(settings: dict[str, Any], request: Request, attachments: Attachments) -> str:
    """Return the sha256 of everything that is sent, pictures included, and of the replicate number."""
    messages = [[message.role, [_part(part, attachments) for part in message.parts]] for message in request.messages]
    sent = {name: value for name, value in settings.items() if name not in NOT_SENT and value is not None}
    sent |= {
        field.name: value
        for field in fields(request)
        if field.name not in ("task", "instance_id", "run", "messages") and (value := getattr(request, field.name)) is not None
    }
    sent["endpoint"] = settings.get("endpoint", settings.get("base_url"))
    return _sha256(store.canonical({"format": FORMAT, "run": request.run, "messages": messages, "sent": sent}))


def prompt_digest(request: Request) -> str:
    """Return the sha256 of a request's texts and of where its pictures stand."""
    parts = [[m.role, [["text", part.text] if isinstance(part, Text) else ["image"] for part in m.parts]] for m in request.messages]
    return _sha256(store.canonical(parts))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _part(part: Text | Image, attachments: Attachments) -> list[str]:
    return ["text", part.text] if isinstance(part, Text) else ["image", attachments.sha256(part)]


def closed(schema: Any) -> Any:
    """Return a JSON schema as strict decoders take it: objects are closed and whole, and what only a check could tell is left out."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: inner if name == "enum" else closed(inner) for name, inner in schema.items() if name not in _CHECKS}
    if isinstance(schema.get("properties"), dict):
        found["properties"] = {name: closed(inner) for name, inner in schema["properties"].items()}
        found |= {"required": list(schema["properties"]), "additionalProperties": False}
    return found


def missing_picture(image: Image, attachments: Attachments) -> bool:
    """Tell whether a picture was not prepared."""
    try:
        attachments.size(image)
    except KeyError:
        return True
    return False


def missing(request: Request, attachments: Attachments) -> str | None:
    """Return the id of the first picture of a request that was not prepared, or None."""
    return next((image.image_id for image in request.images() if missing_picture(image, attachments)), None)


def count(outcomes: Iterable[str]) -> str:
    """Tell statuses and how often each occurs, in words."""
    seen = list(outcomes)
    return ", ".join(f"{status} {seen.count(status)}" for status in sorted(set(seen)))
