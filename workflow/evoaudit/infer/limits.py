"""How many and how large pictures a service takes in one request, known before anything is paid for.

As the vendors' guides to vision stood on 2026-11-30: OpenAI's page on image inputs, Anthropic's on vision, Google's on image
understanding and on inline data. The vendors raise these now and then; what a service itself refuses as too many or too large
pictures has the same status, `picture_limit`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one service; None is unknown or unbounded. Lengths of base64 are in bytes."""

    pictures: int | None = None
    #: Longest side of a picture, pixels.
    side: int | None = None
    #: More pictures than the first number may have no side longer than the second.
    many: tuple[int, int] | None = None
    #: Base64 of one picture, and of all of a request.
    one: int | None = None
    all: int | None = None


MIB = 1 << 20
OPENAI = Limits(pictures=1500, all=512 * MIB)
#: Models with a window of 200,000 tokens take 100 and refuse more at no cost; the others take 600.
ANTHROPIC = Limits(pictures=600, side=8000, many=(20, 2000), one=5 * MIB, all=32 * MIB)
GOOGLE = Limits(pictures=3000, all=100 * MIB)
#: An endpoint of one's own takes what it was started with.
UNKNOWN = Limits()

#: Provider → the host its limits were read for (None: any) and the limits.
TABLE: dict[str, tuple[str | None, Limits]] = {
    "openai": ("api.openai.com", OPENAI),
    "codex": (None, OPENAI),
    "anthropic": (None, ANTHROPIC),
    "google": (None, GOOGLE),
}


def of(settings: Mapping[str, Any]) -> Limits:
    """Return the limits of the service an entry names."""
    host, limits = TABLE.get(settings["provider"], (None, UNKNOWN))
    address = settings.get("base_url")
    return UNKNOWN if host is not None and address and urlsplit(address).hostname != host else limits


def exceeded(limits: Limits, pictures: Sequence[tuple[int, int, int]]) -> str | None:
    """Say which bound a request's pictures exceed, or None. Each is width and height in pixels, and its length in bytes."""
    count = len(pictures)
    longest = max((max(width, height) for width, height, _ in pictures), default=0)
    encoded = [4 * -(-length // 3) for *_, length in pictures]
    if limits.pictures is not None and count > limits.pictures:
        return f"{count} pictures; the service takes {limits.pictures}"
    if limits.side is not None and longest > limits.side:
        return f"a picture of {longest} pixels; the service takes {limits.side}"
    if limits.many is not None and count > limits.many[0] and longest > limits.many[1]:
        return f"{count} pictures, one of {longest} pixels; the service takes {limits.many[1]} where there are more than {limits.many[0]}"
    if limits.one is not None and max(encoded, default=0) > limits.one:
        return f"a picture of {max(encoded) / MIB:.1f} MiB as base64; the service takes {limits.one / MIB:.0f}"
    if limits.all is not None and sum(encoded) > limits.all:
        return f"pictures of {sum(encoded) / MIB:.1f} MiB as base64; the service takes {limits.all / MIB:.0f}"
    return None
