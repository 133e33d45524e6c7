"""Skimming huge JSON arrays: their elements one by one, without the values nobody asked for, and where those lie.

A general streaming parser holds every string whole, gives no byte offsets, and gives the file up at the first fault. Here a
value that is not wanted is never held, whatever its size; its place in the file is kept instead; and a broken element
costs itself alone, as long as its quotes and brackets balance. What is kept of an element is left to a real JSON parser.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

#: Bytes read at a time, and kept of one element at most.
CHUNK = 2**20
LIMIT = 8 * 2**20

_QUOTE, _COLON, _COMMA, _OPEN, _CLOSE = b'"'[0], b":"[0], b","[0], b"{[", b"]}"
_BOM = b"\xef\xbb\xbf"
_BODY = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*+")
_BETWEEN = re.compile(rb"[ \t\r\n,]*+")
_SCALAR = re.compile(rb"[^ \t\r\n,\[\]{}\"]*+")
_LEAP = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Element:
    """One element of the array: bytes ``start`` to ``end`` of the file.

    ``text`` is its JSON, each skipped value replaced by ``[start, end]``; None with a ``fault``: ``too_large``, ``truncated``
    (the file ends inside the element, or before the array does), or ``bad_json`` (neither object nor array).
    """

    start: int
    end: int
    text: bytes | None
    fault: str | None = None


def elements(read: Callable[[int], bytes], skip: tuple[str, ...], limit: int = LIMIT) -> Iterator[Element]:
    """Yield the elements of the array that ``read`` gives in pieces, or the one value where it is no array.

    ``skip`` are the keys, at any depth, whose values are not wanted. Whatever ``read`` raises is passed on.
    """
    skimmer = _Skimmer(read, skip, limit)
    skimmer.begin()
    is_list = skimmer.peek() == _OPEN[1]
    if is_list:
        skimmer.take(skimmer.at + 1)
    while True:
        start = skimmer.between()
        byte = skimmer.peek()
        if byte is None:
            yield Element(start, start, None, "truncated")
            return
        if is_list and byte == _CLOSE[0]:
            skimmer.take(skimmer.at + 1)
            break
        if byte in _OPEN:
            element = skimmer.element()
            yield element
            if element.fault == "truncated":
                return
        else:
            skimmer.junk()
            yield Element(start, skimmer.base + skimmer.at, None, "bad_json")
        if not is_list:
            break
    start = skimmer.between()
    if skimmer.peek() is not None:
        yield Element(start, start, None, "bad_json")


class _Skimmer:
    """A window that moves over the file; ``base`` is the offset of its first byte, ``at`` the place reached in it."""

    def __init__(self, read: Callable[[int], bytes], skip: tuple[str, ...], limit: int) -> None:
        self._read, self._limit = read, limit
        names = b"|".join(re.escape(name.encode()) for name in skip)
        self._name = re.compile(rb'"(?:' + names + rb')"')
        self._jump = re.compile(rb'(?:[^"\[\]{}]++|"(?!(?:' + names + rb')")[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
        self._longest = max(map(len, skip), default=0) + 2
        self.data, self.base, self.at = b"", 0, 0
        self._kept: list[bytes] | None = None
        self._size = 0

    def more(self) -> bool:
        """Read on, letting go of what lies behind; false at the end of the file."""
        piece = self._read(CHUNK)
        self.data, self.base, self.at = self.data[self.at :] + piece, self.base + self.at, 0
        return bool(piece)

    def begin(self) -> None:
        while len(self.data) < len(_BOM) and self.more():
            pass
        self.at = len(_BOM) if self.data.startswith(_BOM) else 0
        self._pass(_SPACE)

    def between(self) -> int:
        """Pass what separates elements, and return the offset reached."""
        self._pass(_BETWEEN)
        return self.base + self.at

    def junk(self) -> None:
        """Pass what is no element, up to the next bracket, or one bracket that closes nothing."""
        start = self.base + self.at
        self._pass(_LEAP)
        while self.peek() == _QUOTE:
            self._string()
            self._pass(_LEAP)
        if self.base + self.at == start:
            self.take(self.at + 1)

    def peek(self) -> int | None:
        """Return the next byte, or None at the end of the file."""
        return self.data[self.at] if self.at < len(self.data) or self.more() else None

    def take(self, end: int) -> None:
        """Go on to ``end``, and keep what is passed if the element is still wanted."""
        if self._kept is not None:
            self._keep(self.data[self.at : end])
        self.at = end

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            self._kept = None
        else:
            self._kept.append(piece)

    def _pass(self, pattern: re.Pattern[bytes]) -> None:
        while True:
            self.take(pattern.match(self.data, self.at).end())
            if self.at < len(self.data) or not self.more():
                return

    def element(self) -> Element:
        """Take one object or array."""
        start = self.base + self.at
        self._kept, self._size = [], 0
        whole = self._nested()
        text = None if self._kept is None or not whole else b"".join(self._kept)
        self._kept = None
        return Element(start, self.base + self.at, text, None if text is not None else "too_large" if whole else "truncated")

    def _nested(self) -> bool:
        """Take an object or array with its contents; false if the file ends inside."""
        jump = self._jump if self._kept is not None else _LEAP
        depth = 0
        while True:
            self.take(jump.match(self.data, self.at).end())
            byte = self.peek()
            if byte is None:
                return False
            if byte in _OPEN:
                depth += 1
                self.take(self.at + 1)
            elif byte in _CLOSE:
                depth -= 1
                self.take(self.at + 1)
                if depth == 0:
                    return True
            elif byte == _QUOTE:
                if len(self.data) - self.at < self._longest and self.more():
                    continue
                if self._kept is not None and (name := self._name.match(self.data, self.at)):
                    self.take(name.end())
                    self._pass(_SPACE)
                    if self.peek() == _COLON and not self._skip():
                        return False
                elif not self._string():
                    return False

    def _skip(self) -> bool:
        """Pass colon and value; note the place of the value instead of keeping it."""
        self.take(self.at + 1)
        self._pass(_SPACE)
        kept, self._kept = self._kept, None
        start = self.base + self.at
        byte = self.peek()
        if byte == _QUOTE:
            whole = self._string()
        elif byte is not None and byte in _OPEN:
            whole = self._nested()
        else:
            self._pass(_SCALAR)
            whole = True
        self._kept = kept
        if self._kept is not None:
            self._keep(b"[%d,%d]" % (start, self.base + self.at))
        return whole

    def _string(self) -> bool:
        """Take a string of any length; false if the file ends inside."""
        self.take(self.at + 1)
        while True:
            quote = self.data.find(b'"', self.at)
            end = quote if quote >= 0 else len(self.data)
            if self.data.find(b"\\", self.at, end) >= 0:
                end = _BODY.match(self.data, self.at).end()
            self.take(end)
            if self.at < len(self.data) and self.data[self.at] == _QUOTE:
                self.take(self.at + 1)
                return True
            if not self.more():
                self.take(len(self.data))
                return False
