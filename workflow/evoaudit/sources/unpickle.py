"""Pickles as data: a small machine follows their instructions, imports nothing, calls nothing, and is bounded.

A pickle is a program that may name any function and call it. Here a class or function is only a `Name`, and an object
a `Stub` that keeps name, arguments and state. Plain values are themselves: None, booleans, numbers, text, bytes, lists,
tuples and dictionaries; sets and deques become lists, paths become text, dates are rebuilt, numpy's arrays are an `Array`.
Byte strings of `BLOB` bytes or more, which are screens, are left where they lie and given as a `Blob`, so a file of many
hundred megabytes costs what its texts cost.

Python's own unpickler is not used, not even with its imports replaced: six bytes make it set aside gigabytes (a large memo
index), and a hundred keep it busy for years (a dictionary key of nested pairs that share their halves).

A damaged or hostile file ends as `Skipped`: ``bad_pickle``, ``bad_gzip``, ``truncated``, ``too_large``, ``too_deep``, or why
the file could not be opened (see `jsonio`). A value returned may still be nested deeply, or hold itself: look at the
fields you know, and do not walk it.
"""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evoaudit.sources import jsonio, unpacked
from evoaudit.sources.base import Skipped
from evoaudit.sources.unpacked import CHUNK, Fault, Unpacked
from evoaudit.sources.unpickle_values import MAKERS, WRAPPERS, Array, Blob, Dtype, Name, Stub, extend, put_pairs, restore

#: Bytes of instructions and texts in one pickle; one byte of them costs at most some 15 in memory.
KEPT_LIMIT = 64 * 2**20
#: Lists, dictionaries and other objects in one pickle.
OBJECT_LIMIT = 2_000_000
#: Open brackets.
DEPTH_LIMIT = 1_000
#: Byte strings from this length on are left in the file.
BLOB = 1_024

#: No instruction and its fixed arguments are longer.
_MARGIN = 16
_NAME_LIMIT = 500
_LINE_LIMIT = 2**24
_INTEGER_LIMIT = 1_024


def read(root: Path, relative: str, unit: str = "trajectory") -> Any | Skipped:
    """Read a pickle under ``root``, gzipped or not, or say why not."""
    path = jsonio.regular(root, relative, unit)
    if isinstance(path, Skipped):
        return path
    try:
        if path.stat().st_size > unpacked.FILE_LIMIT:
            return Skipped(relative, "too_large", f"more than {unpacked.FILE_LIMIT:,} bytes", unit)
        with open(path, "rb") as handle:
            head = handle.read(len(jsonio.LFS_MAGIC))
        if head == jsonio.LFS_MAGIC:
            return jsonio.read_bytes(root, relative, unit=unit)
        return _value(Unpacked(path), relative, unit)
    except OSError as error:
        return Skipped(relative, "unreadable", error.strerror, unit)


def _value(stream: Unpacked, item: str, unit: str) -> Any | Skipped:
    machine = Machine(stream)
    try:
        return machine.run()
    except Fault as fault:
        return Skipped(item, fault.reason, fault.detail, unit)
    except zlib.error:
        return Skipped(item, "bad_gzip", "the gzip data is damaged; copy the file again", unit)
    except MemoryError:
        return Skipped(item, "too_large", "its objects do not fit into memory", unit)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, struct.error):
        where = machine.base + machine.pos
        return Skipped(item, "bad_pickle", f"not a pickle, or damaged (behind byte {where:,}); copy the file again", unit)


class Machine:
    """The pickle machine: a stack, brackets, a memo, and a window on the bytes. Opcodes as in Python's ``pickletools``."""

    def __init__(self, stream: Unpacked) -> None:
        self.stream = stream
        self.stack: list = []
        self.marks: list[list] = []
        self.memo: list = []
        self.names: dict[tuple[str, str], Name] = {}
        self.room = OBJECT_LIMIT
        #: The window: its bytes (padded at the very end), its place in the data, how many are real, where to look for more.
        self.data, self.base, self.end, self.edge = b"", 0, 0, -1
        self.pos, self.left, self.last = 0, 0, False

    def run(self) -> Any:
        """Follow the instructions to their end and return the one value they leave."""
        memo, marks, stack = self.memo, self.marks, self.stack
        push, room = stack.append, OBJECT_LIMIT
        data, pos, end, edge = self.data, 0, 0, -1
        while True:
            if pos > edge:
                pos = self.fill(pos)
                data, end, edge = self.data, self.end, self.edge
            op = data[pos]
            pos += 1
            if op == 0x94:  # MEMOIZE
                memo.append(stack[-1])
            elif op == 0x68:  # BINGET
                push(memo[data[pos]])
                pos += 1
            elif op == 0x6A:  # LONG_BINGET
                push(memo[_U4(data, pos)[0]])
                pos += 4
            elif op == 0x4B:  # BININT1
                push(data[pos])
                pos += 1
            elif op == 0x8C or op == 0x58:  # SHORT_BINUNICODE, BINUNICODE
                if op == 0x8C:
                    size, pos = data[pos], pos + 1
                else:
                    size, pos = _U4(data, pos)[0], pos + 4
                if pos + size > end:
                    pos = self.fill(pos, size)
                    data, end, edge = self.data, self.end, self.edge
                push(str(data[pos : pos + size], "utf-8", "surrogatepass"))
                pos += size
            elif op == 0x28:  # MARK
                if len(marks) >= DEPTH_LIMIT:
                    raise Fault("too_deep", f"more than {DEPTH_LIMIT:,} objects inside one another")
                marks.append(stack)
                stack = self.stack = []
                push = stack.append
            elif op == 0x75 or op == 0x65:  # SETITEMS, APPENDS
                items, stack = stack, marks.pop()
                self.stack, push = stack, stack.append
                (put_pairs if op == 0x75 else extend)(stack[-1], items)
            elif op == 0x7D or op == 0x5D:  # EMPTY_DICT, EMPTY_LIST
                room -= 1
                if room < 0:
                    raise Fault("too_large", f"more than {OBJECT_LIMIT:,} objects")
                push({} if op == 0x7D else [])
            elif op == 0x4E:  # NONE
                push(None)
            elif op == 0x88 or op == 0x89:  # NEWTRUE, NEWFALSE
                push(op == 0x88)
            elif op == 0x4A:  # BININT
                push(_I4(data, pos)[0])
                pos += 4
            elif op == 0x4D:  # BININT2
                push(data[pos] | data[pos + 1] << 8)
                pos += 2
            elif op == 0x47:  # BINFLOAT
                push(_F8(data, pos)[0])
                pos += 8
            elif op == 0x71:  # BINPUT
                self.put(data[pos], stack[-1])
                pos += 1
            elif op == 0x61:  # APPEND
                value = stack.pop()
                extend(stack[-1], [value])
            elif op == 0x73:  # SETITEM
                value = stack.pop()
                key = stack.pop()
                put_pairs(stack[-1], [key, value])
            elif op == 0x2E:  # STOP
                self.pos = pos
                return self.stop()
            else:
                self.pos = pos
                _OPERATIONS[op](self)
                pos, data, end, edge, stack = self.pos, self.data, self.end, self.edge, self.stack
                push = stack.append

    def stop(self) -> Any:
        """Return the value, once the end of the file has been looked at: gzip keeps its checksum there."""
        value = self.stack.pop()
        if not self.last:
            self.stream.read(1)
        return value

    def fill(self, pos: int, need: int = 1) -> int:
        """Move the window so that it starts at ``pos`` and holds ``need`` bytes; return the new place of ``pos``."""
        self.base, self.pos = self.base + pos, 0
        if self.base - self.left + need > KEPT_LIMIT:
            raise Fault("too_large", f"more than {KEPT_LIMIT:,} bytes besides pictures")
        parts, have = [self.data[pos : self.end]], max(0, self.end - pos)
        while not self.last and have < need + CHUNK:  # much at a time, however little one reading gives
            parts.append(self.stream.read(CHUNK))
            have += len(parts[-1])
            self.last = not parts[-1]
        if have < need:
            raise Fault("truncated", "the file breaks off; copy it again")
        if self.last:
            parts.append(bytes(_MARGIN))
        self.data, self.end, self.edge = b"".join(parts), have, have - (1 if self.last else _MARGIN)
        return 0

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        if self.pos + size > self.end:
            self.pos = self.fill(self.pos, size)
        self.pos += size
        return self.data[self.pos - size : self.pos]

    def number(self, size: int) -> int:
        """Return the next ``size`` bytes as an unsigned number."""
        return int.from_bytes(self.take(size), "little")

    def line(self) -> str:
        """Return the text up to the next line break."""
        while (found := self.data.find(b"\n", self.pos, self.end)) < 0:
            if self.end - self.pos > _LINE_LIMIT:
                raise Fault("too_large", f"a line of more than {_LINE_LIMIT:,} bytes")
            self.pos = self.fill(self.pos, self.end - self.pos + 1)
        text, self.pos = self.data[self.pos : found], found + 1
        return text.decode("utf-8", "surrogateescape")

    def put(self, index: int, value: Any) -> None:
        """Keep a value under an index, which writers count up; some start at 1."""
        if index > len(self.memo) + 1:
            raise Fault("bad_pickle", "it numbers its objects out of order")
        self.memo.extend([None] * (index + 1 - len(self.memo)))
        self.memo[index] = value

    def items(self) -> list:
        """Close a bracket and return what is in it."""
        items, self.stack = self.stack, self.marks.pop()
        return items

    def spend(self, cost: int = 0) -> None:
        """Count a new object, and what it copies."""
        self.room -= 1 + cost // 64
        if self.room < 0:
            raise Fault("too_large", f"more than {OBJECT_LIMIT:,} objects")

    def pop(self) -> None:
        """Drop the top of the stack, which may be a bracket."""
        if self.stack:
            self.stack.pop()
        else:
            self.items()

    def bytes(self, size: int) -> None:
        """Push a byte string whose length takes ``size`` bytes; a long one is left where it is."""
        length = self.number(size)
        if length < BLOB:
            self.stack.append(self.take(length))
            return
        self.spend()
        self.stack.append(Blob(self.base + self.pos, length))
        here = min(length, self.end - self.pos)
        self.left += length
        if here < length:
            self.stream.skip(length - here)
            self.base, self.data, self.end, self.edge, self.pos = self.base + self.pos + length, b"", 0, -1, 0
        else:
            self.pos += length

    def text(self, size: int) -> None:
        """Push a text whose length takes ``size`` bytes."""
        self.stack.append(str(self.take(self.number(size)), "utf-8", "surrogatepass"))

    def old_text(self, size: int) -> None:
        """Push a Python 2 string, whose encoding nobody knows."""
        self.stack.append(str(self.take(self.number(size)), "latin-1"))

    def integer(self, size: int) -> None:
        """Push a whole number whose length takes ``size`` bytes."""
        length = self.number(size)
        if length > _INTEGER_LIMIT:
            raise Fault("too_large", f"a number of {length:,} bytes")
        self.stack.append(int.from_bytes(self.take(length), "little", signed=True))

    def tuple(self, size: int) -> None:
        """Push the top ``size`` values as one tuple."""
        self.spend()
        if len(self.stack) < size:
            raise IndexError
        self.stack[-size:] = [tuple(self.stack[-size:])]

    def group(self, make: Callable[[list], Any]) -> None:
        """Push what is in the bracket as one value."""
        self.spend()
        items = self.items()
        self.stack.append(make(items))

    def empty_set(self) -> None:
        self.spend()
        self.stack.append([])

    def add_items(self) -> None:
        items = self.items()
        extend(self.stack[-1], items)

    def pairs(self) -> None:
        """Push a dictionary of what is in the bracket."""
        self.group(lambda items: put_pairs({}, items))

    def named(self, module: Any, name: Any) -> None:
        """Push the name of a class or function."""
        if type(module) is not str or type(name) is not str or len(module) + len(name) > _NAME_LIMIT:
            raise ValueError
        known = self.names.get((module, name))
        if known is None:
            self.spend()
            module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)
            known = self.names[module, name] = Name(f"{module}.{name}")
        self.stack.append(known)

    def stack_global(self) -> None:
        name = self.stack.pop()
        self.named(self.stack.pop(), name)

    def reduce(self) -> None:
        """Replace a function and its arguments by a rebuilt value or a stub."""
        args = self.stack.pop()
        self.stack.append(self.make(self.stack.pop(), args))

    def new_with_keywords(self) -> None:
        keywords = self.stack.pop()
        args = self.stack.pop()
        made = self.make(self.stack.pop(), args)
        if type(made) is Stub:
            made.state = keywords
        self.stack.append(made)

    def object(self) -> None:
        items = self.items()
        self.stack.append(self.make(items[0], tuple(items[1:])))

    def instance(self) -> None:
        self.named(self.line(), self.line())
        name = self.stack.pop()
        items = self.items()
        self.stack.append(self.make(name, tuple(items)))

    def make(self, what: Any, args: Any) -> Any:
        """Return a plain value where one of `MAKERS` makes it of these arguments, else a stub."""
        args = args if type(args) is tuple else (args,)
        self.spend(8 * len(args))
        if type(what) is not Name:
            return Stub("?", (what, *args))
        if what.name in WRAPPERS and type(args[0]) is Name:
            what, args = args[0], WRAPPERS[what.name](args)
        maker = MAKERS.get(what.name)
        if maker is not None:
            try:
                return maker(self.spend, *args)
            except (TypeError, ValueError, IndexError, OverflowError):
                pass  # not arguments this class takes: then they are only kept
        return Stub(what.name, args)

    def build(self) -> None:
        """Keep the state of the object on top."""
        state = self.stack.pop()
        target = self.stack[-1]
        if type(target) is Stub:
            target.state = state
        elif type(target) is Array:
            restore(self.spend, target, state)
        elif type(target) is Dtype and type(state) is tuple and len(state) > 1 and type(state[1]) is str:
            target.order = state[1]

    def refuse(self) -> None:
        raise Fault("bad_pickle", "it refers to something outside itself, which a log does not do")

    def protocol(self) -> None:
        if self.number(1) > 5:
            raise Fault("bad_pickle", "a newer form of pickle than is known, or no pickle")


def _literal(text: str) -> int | bool:
    return text == "01" if text in ("00", "01") else int(text)


def _raw_text(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("raw-unicode-escape")


_U4, _I4, _F8 = struct.Struct("<I").unpack_from, struct.Struct("<i").unpack_from, struct.Struct(">d").unpack_from

#: The rarer instructions; `Machine.run` does the others itself.
_OPERATIONS: dict[int, Callable[[Machine], Any]] = {
    ord(code) if isinstance(code, str) else code: operation
    for code, operation in {
        0x80: Machine.protocol,
        0x95: lambda m: m.take(8),  # FRAME: a hint for readers that read ahead
        "C": lambda m: m.bytes(1),
        "B": lambda m: m.bytes(4),
        0x8E: lambda m: m.bytes(8),
        0x96: lambda m: m.bytes(8),  # BYTEARRAY8
        0x8D: lambda m: m.text(8),
        "U": lambda m: m.old_text(1),
        "T": lambda m: m.old_text(4),
        "S": lambda m: m.stack.append(m.line().strip("'\"")),
        "V": lambda m: m.stack.append(_raw_text(m.line())),
        "I": lambda m: m.stack.append(_literal(m.line())),
        "L": lambda m: m.stack.append(int(m.line().rstrip("L"))),
        "F": lambda m: m.stack.append(float(m.line())),
        0x8A: lambda m: m.integer(1),
        0x8B: lambda m: m.integer(4),
        ")": lambda m: m.stack.append(()),
        0x85: lambda m: m.tuple(1),
        0x86: lambda m: m.tuple(2),
        0x87: lambda m: m.tuple(3),
        "t": lambda m: m.group(tuple),
        "l": lambda m: m.group(list),
        "d": Machine.pairs,
        0x8F: Machine.empty_set,
        0x90: Machine.add_items,
        0x91: lambda m: m.group(list),  # FROZENSET
        "0": Machine.pop,
        "1": lambda m: m.items(),
        "2": lambda m: m.stack.append(m.stack[-1]),
        "g": lambda m: m.stack.append(m.memo[_index(m.line())]),
        "p": lambda m: m.put(_index(m.line()), m.stack[-1]),
        "r": lambda m: m.put(m.number(4), m.stack[-1]),
        "c": lambda m: m.named(m.line(), m.line()),
        0x93: Machine.stack_global,
        "R": Machine.reduce,
        0x81: Machine.reduce,  # NEWOBJ
        0x92: Machine.new_with_keywords,
        "o": Machine.object,
        "i": Machine.instance,
        "b": Machine.build,
        0x98: lambda m: None,  # READONLY_BUFFER
        0x97: Machine.refuse,  # NEXT_BUFFER
        "P": Machine.refuse,
        "Q": Machine.refuse,
        0x82: Machine.refuse,  # EXT1, EXT2, EXT4
        0x83: Machine.refuse,
        0x84: Machine.refuse,
    }.items()
}


def _index(text: str) -> int:
    index = int(text)
    if index < 0:
        raise IndexError
    return index
