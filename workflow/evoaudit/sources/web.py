"""The site an address belongs to."""

import re
from urllib.parse import urlsplit

#: Second-level labels that belong to the suffix (WebLINX's rule; a public suffix list would be a network download).
_SUFFIX = re.compile(r"(?:(?:co|com|edu)\.[a-z]{2}|ac\.(?:uk|in|jp|cn|nz|kr))")


def site(address: str | None) -> str | None:
    """Return the registrable domain of a web address, or None if it is not one."""
    try:
        parts = urlsplit((address or "")[:4000])
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    labels = host.split(".")
    if ":" in host or labels[-1].isdigit():  # a numeric address has no suffix
        return host
    return ".".join(labels[-3 if _SUFFIX.fullmatch(".".join(labels[-2:])) else -2 :])
