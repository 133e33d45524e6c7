"""TFRecord files without TensorFlow, plain or compressed with gzip: records one after another, and any of them again later.

A record is its length (8 bytes, little-endian), the length's checksum, the data, and the data's checksum; checksums are CRC-32C,
rotated and shifted ("masked"). gzip cannot be entered in the middle, so the decompressor's state is kept every few MiB: a record
asked for out of order costs the way from the state before it, not from the start of the file, and records in order cost one pass.
"""

import threading
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import google_crc32c
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from evoaudit.sources import jsonio
from evoaudit.sources.base import Skipped

#: Bytes of one record. Parsed, a hostile one can take a dozen times as much.
RECORD_LIMIT = 128 * 2**20
#: Bytes that may come out of one file: so many, or so many times what went in.
EXPANSION_FLOOR, EXPANSION = 2**30, 100

_CHUNK, _PIECE = 2**16, 2**20
#: States kept of one file at most, and bytes of it between two at least; one takes some 40 KiB.
_STATES, _BETWEEN = 128, 8 * 2**20

_AGAIN = "fetch the file again"
_LOST = "nothing after it in this file can be found"


def masked(data: bytes) -> bytes:
    """Return the masked CRC-32C of some bytes as it is written."""
    crc = google_crc32c.value(data)
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


@dataclass(slots=True)
class _State:
    """Where a stream stands, and all that is needed to go on from there."""

    offset: int = 0
    #: Bytes that came out so far.
    out: int = 0
    #: None for plain files.
    inflate: Any = None
    #: Bytes read and not yet decompressed, and bytes decompressed and not yet asked for.
    rest: bytes = b""
    ready: bytes = b""
    ended: bool = False
    #: Why it ended too early: reason and detail.
    fault: tuple[str, str] | None = None

    def copy(self) -> "_State":
        inflate = None if self.inflate is None else self.inflate.copy()
        return _State(self.offset, self.out, inflate, self.rest, self.ready, self.ended, self.fault)


class _Stream:
    """The bytes of a file from a state on."""

    def __init__(self, handle: IO[bytes], state: _State) -> None:
        self._handle, self.state = handle, state
        handle.seek(state.offset)

    def read(self, size: int) -> bytes:
        """Return the next bytes; fewer than ``size`` only at the end."""
        state, parts = self.state, []
        while size > 0 and (state.ready or self._more()):
            part, state.ready = state.ready[:size], state.ready[size:]
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def skip(self, size: int) -> bool:
        """Pass over bytes and return whether they were there."""
        while size > 0:
            passed = len(self.read(min(size, _PIECE)))
            if not passed:
                return False
            size -= passed
        return True

    def end(self) -> None:
        """Give nothing more."""
        self.state = _State(ended=True)

    def _more(self) -> bool:
        """Make some bytes ready, or return False at the end."""
        state = self.state
        while not state.ready and not state.ended:
            if not state.rest:
                try:
                    state.rest = self._handle.read(_CHUNK)
                except OSError as error:
                    state.fault = ("unreadable", error.strerror or "cannot be read")
                state.offset += len(state.rest)
            if not state.rest:
                state.ended = True
                if state.fault is None and state.inflate is not None and not state.inflate.eof:
                    state.fault = ("truncated", f"the file breaks off; {_AGAIN}")
            elif state.inflate is None:
                state.ready, state.rest = state.rest, b""
            else:
                self._expand()
            state.out += len(state.ready)
            if state.out > max(EXPANSION_FLOOR, EXPANSION * state.offset):
                state.ready, state.ended = b"", True
                state.fault = ("too_large", f"it expands more than {EXPANSION} times")
        return bool(state.ready)

    def _expand(self) -> None:
        state = self.state
        if state.inflate.eof:  # another gzip member, or padding
            state.rest = state.rest.lstrip(b"\0")
            if not state.rest:
                return
            state.inflate = _inflate()
        before = state.inflate.copy()
        try:
            state.ready = state.inflate.decompress(state.rest, _PIECE)
            state.rest = state.inflate.unused_data if state.inflate.eof else state.inflate.unconsumed_tail
        except zlib.error:
            state.ready = _salvage(before, state.rest)
            state.ended, state.fault = True, ("bad_gzip", f"the compressed data are damaged; {_AGAIN}")


def _inflate() -> Any:
    return zlib.decompressobj(16 + zlib.MAX_WBITS)


def _salvage(inflate: Any, data: bytes) -> bytes:
    """Return what can be decompressed up to a damaged place."""
    found = []
    try:
        for position in range(len(data)):
            found.append(inflate.decompress(data[position : position + 1]))
    except zlib.error:
        pass
    return b"".join(found)


class File:
    """One regular file of records. Safe to share between threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._between = max(_BETWEEN, path.stat().st_size // _STATES)
        #: (record number, state before it), ascending.
        self._states: list[tuple[int, _State]] = []
        #: The same, behind the record read last.
        self._last: tuple[int, _State] | None = None
        self._lock = threading.Lock()

    def records(self, name: str) -> Iterator[tuple[int, bytes | Skipped]]:
        """Yield (0-based number, data) of every record, or why it is lost; ``name`` names the file in reasons.

        A record with damaged data is passed over. A damaged length, and the place where a file breaks off, end it.
        """
        try:
            with open(self.path, "rb") as handle:
                head = handle.read(len(jsonio.LFS_MAGIC))
                if head == jsonio.LFS_MAGIC:
                    yield 0, Skipped(name, "lfs_pointer", "a Git LFS pointer, not the file; run `git lfs pull` where it came from")
                elif not head:
                    yield 0, Skipped(name, "empty", "the file is empty")
                else:
                    stream, number = _Stream(handle, _start(head)), 0
                    while (found := _next(stream, number, name)) is not None:
                        yield number, found
                        number += 1
                        self._keep(number, stream.state)
        except OSError as error:
            yield 0, Skipped(name, "unreadable", error.strerror)

    def record(self, number: int) -> bytes | None:
        """Return the data of one record, or None if it cannot be read."""
        with self._lock:
            known = [pair for pair in (*self._states, self._last) if pair is not None and pair[0] <= number]
            start, state = max(known, key=lambda pair: pair[0], default=(0, None))
            state = state and state.copy()
        with open(self.path, "rb") as handle:
            stream = _Stream(handle, state or _start(handle.read(12)))
            for at in range(start, number + 1):
                self._keep(at, stream.state)
                length = _length(stream.read(12))
                if length is None or (at < number and not stream.skip(length + 4)):
                    return None
            data = stream.read(length) if length <= RECORD_LIMIT else b""
            if masked(data) != stream.read(4):
                return None
        with self._lock:
            self._last = number + 1, stream.state.copy()
        return data

    def _keep(self, number: int, state: _State) -> None:
        """Keep the state before a record, if the one before lies far enough back."""
        with self._lock:
            last, offset = (self._states[-1][0], self._states[-1][1].offset) if self._states else (0, 0)
            if number > last and state.offset - offset >= self._between:
                self._states.append((number, state.copy()))


def _next(stream: _Stream, number: int, name: str) -> bytes | Skipped | None:
    """Return the next record's data, or why it is lost, or None at the end."""
    item, head = f"{name}#{number}", stream.read(12)
    if not head and stream.state.fault is None:
        return None
    length = _length(head)
    if length is None and number == 0 and stream.state.fault is None:
        stream.end()
        return Skipped(name, "not_tfrecord", "it does not begin with a record; give TFRecord files alone")
    if length is None and len(head) == 12:
        stream.end()
        return Skipped(item, "bad_checksum", f"its length is damaged; {_LOST}")
    if length is not None and length > RECORD_LIMIT:
        if stream.skip(length + 4):
            return Skipped(item, "too_large", f"a record of more than {RECORD_LIMIT:,} bytes")
    elif length is not None:
        data, crc = stream.read(length), stream.read(4)
        if len(crc) == 4:
            return data if masked(data) == crc else Skipped(item, "bad_checksum", f"its data are damaged; {_AGAIN}")
    reason, detail = stream.state.fault or ("truncated", f"the file breaks off; {_AGAIN}")
    stream.end()
    return Skipped(item, reason, f"{detail}; {_LOST}")


def _start(head: bytes) -> _State:
    return _State(inflate=_inflate() if _length(head[:12]) is None and head.startswith(b"\x1f\x8b") else None)


def _length(head: bytes) -> int | None:
    """Return the length a record's head gives, or None if its checksum is wrong."""
    return int.from_bytes(head[:8], "little") if len(head) == 12 and masked(head[:8]) == head[8:] else None


#: Field → (number, type or message name, repeated).
Fields = Mapping[str, tuple[int, str, bool]]


def messages(package: str, declared: Mapping[str, Fields]) -> dict[str, type[Message]]:
    """Return a protobuf class for each message declared; fields not declared are passed over when one is parsed.

    Texts are best declared as ``bytes``, which are the same on the wire: one bad character does not then cost the message.
    """
    described = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package)
    for name, fields in declared.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, repeated) in fields.items():
            label = described.LABEL_REPEATED if repeated else described.LABEL_OPTIONAL
            if kind in declared:
                message.field.add(name=field, number=number, label=label, type=described.TYPE_MESSAGE, type_name=f".{package}.{kind}")
            else:
                message.field.add(name=field, number=number, label=label, type=described.Type.Value(f"TYPE_{kind.upper()}"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in declared}


#: tf.train.Example. Its map of features is, on the wire, a list of entries; they are opened one by one, as they are needed.
EXAMPLE = messages(
    "evoaudit.example",
    {
        "Example": {"features": (1, "bytes", False)},
        "Features": {"feature": (1, "bytes", True)},
        "Entry": {"key": (1, "bytes", False), "value": (2, "bytes", False)},
        "Feature": {"bytes_list": (1, "bytes", False), "int64_list": (3, "bytes", False)},
        "BytesList": {"value": (1, "bytes", True)},
        "Int64List": {"value": (1, "int64", True)},
    },
)
#: Fields of one message, and bytes of a list of numbers. Without them, a record could be parsed into thirty times its size.
_FIELDS, _NUMBERS = 10_000, 100_000


def example(data: bytes, item: str, names: Collection[str]) -> dict[str, list] | Skipped:
    """Return the features of a tf.train.Example that are wanted, each a list of bytes or of whole numbers; absent ones are empty."""
    found: dict[str, list] = {name: [] for name in names}
    try:
        for raw in _parse("Features", _parse("Example", data).features).feature:
            entry = _parse("Entry", raw)
            name = entry.key.decode("utf-8", "replace")
            if name in found:
                feature = _parse("Feature", entry.value)
                if len(feature.int64_list) > _NUMBERS:
                    raise OverflowError
                kind, values = ("Int64List", feature.int64_list) if feature.int64_list else ("BytesList", feature.bytes_list)
                found[name] = list(_parse(kind, values).value)
    except DecodeError:
        return Skipped(item, "bad_example", "the record is no tf.train.Example")
    except OverflowError:
        return Skipped(item, "too_large", "a tf.train.Example of too many parts")
    return found


def _parse(name: str, data: bytes) -> Message:
    """Parse a message that has no more fields than it should."""
    place = fields = 0
    while place < len(data):
        tag, place = _number(data, place)
        size, place = _number(data, place) if tag & 7 in (0, 2) else ({1: 8, 5: 4}.get(tag & 7, 0), place)
        place += 0 if tag & 7 == 0 else size
        fields += 1
        if fields > _FIELDS:
            raise OverflowError
    return EXAMPLE[name].FromString(data)


def _number(data: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place (base 128, the lowest part first), and the place behind it."""
    value = shift = 0
    while place < len(data) and shift < 70:
        byte = data[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            break
    return value, place
