"""The values of a pickle: plain ones, stand-ins for all others, and the functions that rebuild the plain ones.

A function here is handed whatever a file says. It looks at types before anything else, never prints, compares or walks
what it is given, and pays for what it copies before copying it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from typing import Any

import numpy as np

#: Counts an object and the bytes it copies; raises if there have been too many.
Spend = Callable[[int], None]

#: Pixels of a screen that is shown.
PIXEL_LIMIT = 80_000_000
_SIDE_LIMIT = 30_000
#: Bytes of an array whose values are listed; a pickle may name one and the same array very often.
_SHORT = 2**16
_PATH_LIMIT = 4_000
_PLAIN = re.compile(r"[biufc][0-9]{1,2}|[SU][1-9][0-9]{0,3}")


@dataclass(frozen=True, slots=True)
class Name:
    """A class or function, by its name alone."""

    name: str


@dataclass(frozen=True, slots=True)
class Blob:
    """A long byte string that was left in the file, at ``offset`` of the unpacked data."""

    offset: int
    size: int


@dataclass(eq=False, repr=False, slots=True)
class Stub:
    """An object of a class that is not rebuilt: what it was made from, and nothing that does anything."""

    name: str
    args: tuple = ()
    state: Any = None
    pairs: dict | None = None
    items: list | None = None

    def get(self, key: str, default: Any = None) -> Any:
        """Return an attribute, or an item where the class was a dictionary."""
        for part in (self.pairs, *(self.state if type(self.state) is tuple else (self.state,))[:2]):
            if type(part) is dict and key in part:
                return part[key]
        return default


@dataclass(eq=False, slots=True)
class Dtype:
    """Type of an array's values, by numpy's code."""

    code: str
    order: str = "="

    def numpy(self) -> np.dtype | None:
        """Return the type of plain numbers and texts, or None for any other."""
        if not _PLAIN.fullmatch(self.code):
            return None
        try:
            return np.dtype((self.order if self.order in ("<", ">") else "=") + self.code)
        except TypeError:
            return None


@dataclass(eq=False, slots=True)
class Array:
    """A numpy array as it was stored: shape, type, order and data, none of which is trusted."""

    shape: tuple = ()
    dtype: Dtype | None = None
    fortran: bool = False
    data: bytes | Blob | list | None = field(default=None, repr=False)

    def numpy(self) -> np.ndarray | None:
        """Return the array, read-only, if its data is short, of a plain type, and as long as its shape says."""
        plain = self.dtype.numpy() if self.dtype else None
        if plain is None or type(self.data) is not bytes or len(self.data) > _SHORT:
            return None
        if self._length() * plain.itemsize != len(self.data):
            return None
        try:
            return np.ndarray(self.shape, plain, self.data, order="F" if self.fortran else "C")
        except ValueError:
            return None

    def tolist(self) -> list | None:
        """Return the values in a row, objects included, or None if there are no short ones."""
        if type(self.data) is list:
            return self.data
        found = self.numpy()
        return None if found is None else found.ravel().tolist()

    def _length(self) -> int:
        """Return the number of values, or -1 if the shape is none."""
        if len(self.shape) > 8 or not all(type(side) is int and 0 <= side < 2**40 for side in self.shape):
            return -1
        total = 1
        for side in self.shape:
            total *= side
        return total

    def pixels(self) -> tuple[int, int, int] | None:
        """Return (height, width, channels) if this is a screen of bytes that was left in the file, else None."""
        shape = self.shape if len(self.shape) == 3 else (*self.shape, 1)
        if type(self.data) is not Blob or self.dtype is None or self.dtype.code != "u1" or len(shape) != 3 or self._length() < 0:
            return None
        height, width, channels = shape
        sound = channels in (1, 3, 4) and 0 < max(height, width) < _SIDE_LIMIT and height * width * channels == self.data.size
        return (height, width, channels) if sound and height * width <= PIXEL_LIMIT else None


def get(value: Any, key: str, default: Any = None) -> Any:
    """Return a field of an object or dictionary; the default for anything else."""
    return value.get(key, default) if type(value) in (dict, Stub) else default


def listed(value: Any) -> Sequence:
    """Return a list, tuple, object array or list-like object as it is, without a copy; an empty one for anything else."""
    if type(value) is Array:
        return value.tolist() or ()
    if type(value) is Stub:
        return value.items or ()
    return value if type(value) in (list, tuple) else ()


def extend(target: Any, items: list) -> None:
    """Add to a list, or to an object that is like one."""
    if type(target) is Stub:
        target.items = target.items if target.items is not None else []
        target = target.items
    if type(target) is not list:
        raise TypeError
    target.extend(items)


def put_pairs(target: Any, items: list) -> Any:
    """Add keys and values in turn to a dictionary, or to an object that is like one; return it."""
    if type(target) is Stub:
        target.pairs = target.pairs if target.pairs is not None else {}
        target = target.pairs
    if type(target) is not dict:
        raise TypeError
    for key, value in zip(items[::2], items[1::2], strict=True):
        target[key if type(key) is str else _key(key)] = value
    return target


_SCALARS = frozenset({str, bytes, bool, float, int, type(None), Name, date, datetime})
_NUMBERS = frozenset({float, int})


def _key(key: Any) -> Any:
    """Return a key that is hashed in no time: a plain value, or a short tuple of such; any other becomes an object of its own.

    Large numbers, and tuples of several numbers, can be made to collide; texts cannot, their hashes differ from process to process.
    """
    parts = key if type(key) is tuple and len(key) <= 16 else (key,)
    if sum(type(part) in _NUMBERS for part in parts) <= 1 and all(
        type(part) in _SCALARS and not (type(part) is int and part.bit_length() > 60) for part in parts
    ):
        return key
    return Stub("key", (key,))


def restore(spend: Spend, array: Array, state: Any) -> None:
    """Take numpy's state of an array: (version), shape, type, Fortran order, data."""
    if type(state) is not tuple or len(state) not in (4, 5):
        return
    shape, dtype, fortran, data = state[-4:]
    data = _encoded(spend, data)
    if type(shape) is tuple and type(dtype) is Dtype and type(data) in (bytes, Blob, list):
        array.shape, array.dtype, array.fortran, array.data = shape, dtype, bool(fortran), data


def _encoded(spend: Spend, data: Any) -> Any:
    """Return the bytes of a text that older pickles write instead of them."""
    if type(data) is not str:
        return data
    spend(len(data))
    return data.encode("latin-1", "replace")


def _array(spend: Spend, *_: Any) -> Array:
    return Array()


def _dtype(spend: Spend, code: Any, *_: Any) -> Dtype:
    if type(code) is not str or len(code) > 20:
        raise TypeError
    return Dtype(code)


def _frombuffer(spend: Spend, data: Any, dtype: Any, shape: Any, order: Any = "C", *_: Any) -> Array:
    shape = (shape,) if type(shape) is int else shape
    if type(data) not in (bytes, Blob) or type(dtype) is not Dtype or type(shape) is not tuple or order not in ("C", "F"):
        raise TypeError
    return Array(shape, dtype, order == "F", data)


def _scalar(spend: Spend, dtype: Dtype, data: Any, *_: Any) -> Any:
    plain = dtype.numpy() if type(dtype) is Dtype else None
    if plain is None or type(data) not in (bytes, str) or len(data) != plain.itemsize:
        raise TypeError
    data = _encoded(spend, data)
    spend(len(data))
    return np.frombuffer(data, plain)[0].item()


def _dict(spend: Spend, pairs: Any = ()) -> dict:
    if type(pairs) not in (dict, list, tuple):
        raise TypeError
    spend(128 * len(pairs))
    if type(pairs) is dict:
        return dict(pairs)
    if not all(type(pair) in (list, tuple) and len(pair) == 2 for pair in pairs):
        raise TypeError
    return put_pairs({}, [part for pair in pairs for part in pair])


def _list(spend: Spend, items: Any = (), *_: Any) -> list:
    if type(items) not in (list, tuple):
        raise TypeError
    spend(8 * len(items))
    return list(items)


def _bytes(spend: Spend, data: Any = b"", encoding: Any = None) -> bytes | Blob:
    if type(data) is Blob:
        return data
    if type(data) is str and encoding in ("latin1", "latin-1", "iso-8859-1"):
        return _encoded(spend, data)
    if type(data) is not bytes:
        raise TypeError
    return data


def _complex(spend: Spend, real: Any, imaginary: Any) -> complex:
    if type(real) is not float or type(imaginary) is not float:
        raise TypeError
    return complex(real, imaginary)


def _path(spend: Spend, *parts: Any) -> str:
    if len(parts) > _PATH_LIMIT or not all(type(part) is str for part in parts) or sum(map(len, parts)) > _PATH_LIMIT:
        raise TypeError
    return re.sub("/{2,}", "/", "/".join(parts))


def _packed(state: Any, size: int) -> bytes:
    if type(state) not in (bytes, str) or len(state) != size:
        raise TypeError
    return state.encode("latin-1") if type(state) is str else state


def _date(spend: Spend, state: Any) -> date:
    packed = _packed(state, 4)
    return date(packed[0] << 8 | packed[1], packed[2], packed[3])


def _time(spend: Spend, state: Any, zone: Any = None) -> time:
    packed = _packed(state, 6)
    return time(packed[0] & 0x7F, packed[1], packed[2], int.from_bytes(packed[3:], "big"), _zone(zone), fold=packed[0] >> 7)


def _datetime(spend: Spend, state: Any, zone: Any = None) -> datetime:
    packed = _packed(state, 10)
    day, clock = (packed[0] << 8 | packed[1], packed[2] & 0x7F, packed[3]), tuple(packed[4:7])
    return datetime(*day, *clock, int.from_bytes(packed[7:], "big"), _zone(zone), fold=packed[2] >> 7)


def _zone(zone: Any) -> timezone | None:
    if zone is not None and type(zone) is not timezone:
        raise TypeError
    return zone


def _timedelta(spend: Spend, *parts: Any) -> timedelta:
    if len(parts) > 3 or not all(type(part) is int for part in parts):
        raise TypeError
    return timedelta(*parts)


def _timezone(spend: Spend, offset: Any, *_: Any) -> timezone:
    return timezone(offset)


def _places(modules: tuple[str, ...], **makers: Callable[..., Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in modules:
        yield from ((f"{module}.{name}", maker) for name, maker in makers.items())


#: Functions by which Python itself makes objects: the class comes first. Name → what of their arguments is the class's.
WRAPPERS: dict[str, Callable[[tuple], tuple]] = {
    "copyreg.__newobj__": lambda args: args[1:],
    "copyreg.__newobj_ex__": lambda args: args[1] if type(args[1]) is tuple else args[1:],
    "copyreg._reconstructor": lambda args: args[2:],
}

#: Classes and functions by name → the function of ours that rebuilds their value. Nothing else is rebuilt.
MAKERS: dict[str, Callable[..., Any]] = {
    **dict(_places(("numpy.core.multiarray", "numpy._core.multiarray"), _reconstruct=_array, scalar=_scalar)),
    **dict(_places(("numpy.core.numeric", "numpy._core.numeric"), _frombuffer=_frombuffer)),
    **dict(_places(("numpy",), dtype=_dtype)),
    **dict(_places(("collections",), OrderedDict=_dict, Counter=_dict, deque=_list, defaultdict=lambda spend, *_: {})),
    **dict(_places(("builtins",), dict=_dict, set=_list, frozenset=_list, list=_list, bytes=_bytes, bytearray=_bytes, complex=_complex)),
    **dict(_places(("_codecs",), encode=_bytes)),
    **dict(_places(("datetime",), date=_date, time=_time, datetime=_datetime, timedelta=_timedelta, timezone=_timezone)),
    **dict(
        _places(
            ("pathlib", "pathlib._local"),
            **dict.fromkeys(("Path", "PosixPath", "PurePath", "PurePosixPath", "WindowsPath", "PureWindowsPath"), _path),
        )
    ),
}
