"""Damage a small corpus at random, normalise it, and say what should not have happened.

``python tests/fuzz_logs.py KIND CASE [FOLDER]`` runs one case, by the number a failure names, and leaves its files in FOLDER.
"""

import copy
import gzip
import hashlib
import io
import json
import math
import os
import re
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time
import traceback
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import fuzz_corpora
import made_tfrecord
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evoaudit import normalise, pictures, store
from evoaudit.actions import OPS
from evoaudit.errors import InputError
from evoaudit.sources import tfrecord

#: Seconds of processor time that a case may take, and of any time.
PATIENCE, HANGING = 10, 60

TABLES = ("trajectories", "steps", "changes", "images", "oracle_results", "annotations", "truth", "drops")

_PICTURES = (".png", ".jpg")
_TEXTS = (".json", ".jsonl", ".txt", ".csv")
_LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 12345\n"
_NAMES = (
    *("café", "cafe\u0301", "日本 語", "a\nb", "a\tb", "a\\b", "..x", "-rf", "%s%n", "'; DROP TABLE x; --", "x" * 250, " ", "~"),
    *("\u202ereversed", "\U0001f600", os.fsdecode(b"\xff\xfe"), "CON", "*?", "$(touch x)", "{0}"),
)

#: What a value may turn into.
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3.5, 10**400, -(10**18), 2**63, 1e308, -1e308, math.nan, math.inf, -math.inf),
    *([], {}, [[]], [{}], [None], {"": None}, {"a": {"b": {"c": []}}}, [1] * 5000, [1, 2, 3]),
    *("", " ", "nan", "1e999", "-7", "true", "NULL", "0x10", "1_000", "１２", "9" * 5000, "x" * 300_000, "a" + "\u0301" * 1000),
    *("\ud800", "a\0b", "\u202e", "../../etc/passwd", "/etc/passwd", "C:\\x.png", "..", "https://[::1"),
    *("http://user:secret@x.example:99999/", "data:image/png;base64,AAAA", "[1,", "{", "]" * 50, "(" * 300, "'\"`"),
    *("click(" * 2000, "pyautogui.click(1e999, -1)", "pyautogui.write('a')\npyautogui.press(9)", "fill('a', None)"),
)
_DEEP = "@deep@"


class _Slow(BaseException):
    """A case has taken too long."""


class Nothing(Exception):
    """A damage has nothing here to work on."""


# -- damage ---------------------------------------------------------------------------------------------------------------


class Victim:
    """A corpus to damage, and the dice."""

    def __init__(self, root: Path, outside: Path, rng: np.random.Generator) -> None:
        self.root, self.outside, self.rng = root, outside, rng
        self.files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())

    def below(self, number: int) -> int:
        return int(self.rng.integers(max(1, number)))

    def pick(self, things: Any) -> Any:
        if not len(things):
            raise Nothing
        return things[self.below(len(things))]

    def file(self, *suffixes: str) -> Path:
        """Return a file that ends in one of the suffixes, or any; pictures, which are many, come up less often."""
        files = [path for path in self.files if path.exists() and (not suffixes or path.name.endswith(suffixes))]
        rare = [path for path in files if not path.name.endswith(_PICTURES)]
        return self.pick(rare if rare and self.below(10) < 7 else files)

    def folder(self) -> Path:
        return self.pick(sorted(path for path in self.root.rglob("*") if path.is_dir() and not path.is_symlink()))

    def put(self, path: Path, data: bytes) -> None:
        """Replace a file; it is a hard link, so that it must not be written into."""
        path.unlink()
        path.write_bytes(data)

    def bytes(self, size: int) -> bytes:
        return self.rng.bytes(size)

    def spoil(self, data: bytes) -> tuple[bytes, str]:
        """Return damaged bytes and how they were damaged."""
        data, at = bytearray(data), self.below(len(data) + 1)
        span = min(1 + self.below(64), max(1, len(data) - at))
        match self.below(8):
            case 0 | 1:
                places = [self.below(len(data)) for _ in range(1 + self.below(8))] if data else []
                for place in places:
                    data[place] ^= 1 << self.below(8)
                return bytes(data), f"bits flipped at {places}"
            case 2:
                return bytes(data[:at]), f"cut at {at}"
            case 3:
                return bytes(data[at:]), f"the first {at} bytes lost"
            case 4:
                garbage = self.pick([self.bytes(span), b"\n", b"\0" * span, b"NaN", b'"', b"}", b"\xff\xfe", b"\x1f\x8b", b"PK\x03\x04"])
                data[at:at] = garbage
                return bytes(data), f"{garbage!r:.40} inserted at {at}"
            case 5:
                size = 1 + self.below(len(data))
                data[at:at] = data[at : at + size]
                return bytes(data), f"{size} bytes doubled at {at}"
            case 6:
                data[at : at + span] = bytes(len(data[at : at + span]))
                return bytes(data), f"{span} bytes zeroed at {at}"
            case _:
                data[at : at + span] = self.bytes(span)
                return bytes(data), f"{span} random bytes at {at}"

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def bytes_of_a_file(victim: Victim) -> str:
    path = victim.file()
    data, how = victim.spoil(path.read_bytes())
    victim.put(path, data)
    return f"{victim.name(path)}: {how}"


def content(victim: Victim) -> str:
    path = victim.file()
    data, how = victim.pick(
        [
            *((b"", "emptied"), (_LFS, "a Git LFS pointer"), (b"\n" * 1000, "blank lines")),
            *((b"null", "null"), (b"[]", "[]"), (b"{}", "{}")),
            *(
                (b"\0" * 2**22, "4 MiB of zeros"),
                (b"<html>404</html>", "an error page"),
                (gzip.compress(path.read_bytes(), mtime=0), "gzipped"),
            ),
        ]
    )
    victim.put(path, data)
    return f"{victim.name(path)}: {how}"


def encoding(victim: Victim) -> str:
    path = victim.file(*_TEXTS)
    text = path.read_bytes().decode("utf-8", "replace")
    data, how = victim.pick(
        [
            (b"\xef\xbb\xbf" + text.encode(), "byte order mark"),
            (text.replace("\n", "\r\n").encode(), "CRLF"),
            (text.replace("\n", "\r").encode(), "CR"),
            (text.encode("utf-16"), "UTF-16"),
            (text.encode("utf-16-be"), "UTF-16, no mark"),
            (text.encode("utf-32"), "UTF-32"),
            (text.replace("e", "é").encode("latin-1", "replace"), "Latin-1"),
            (text.replace("\n", "\u2028").encode(), "line separators"),
        ]
    )
    victim.put(path, data)
    return f"{victim.name(path)}: {how}"


def places(victim: Victim) -> str:
    """Move, swap, double or remove files and folders."""
    path, name = victim.file(), victim.name
    match victim.below(9):
        case 0:
            other = victim.file()
            first, second = path.read_bytes(), other.read_bytes()
            victim.put(path, second)
            victim.put(other, first)
            return f"{name(path)} and {name(other)} swapped"
        case 1:
            path.unlink()
            return f"{name(path)} removed"
        case 2:
            data = path.read_bytes()
            path.unlink()
            path.mkdir()
            (path / path.name).write_bytes(data)
            return f"{name(path)} became a folder"
        case 3:
            folder = victim.folder()
            shutil.rmtree(folder)
            folder.write_bytes(b"x")
            return f"folder {name(folder)} became a file"
        case 4:
            folder = victim.folder()
            shutil.copytree(folder, folder.with_name(folder.name + " copy"), symlinks=True)
            return f"folder {name(folder)} doubled"
        case 5:
            folder = victim.folder()
            shutil.rmtree(folder)
            return f"folder {name(folder)} removed"
        case 6:
            shutil.copy(path, path.with_name(f"copy of {path.name}"))
            return f"{name(path)} doubled"
        case 7:
            new = victim.pick(_NAMES) + (path.suffix if victim.below(2) else "")
            path.rename(path.with_name(new[-250:]))
            return f"{name(path)} renamed to {new!r:.60}"
        case _:
            folder, new = victim.folder(), victim.pick(_NAMES)
            if folder.with_name(new).exists():
                raise Nothing
            folder.rename(folder.with_name(new))
            return f"folder {name(folder)} renamed to {new!r:.60}"


def links(victim: Victim) -> str:
    """Put links, pipes and closed doors where files and folders were."""
    path, name = victim.file(), victim.name
    match victim.below(6):
        case 0:
            shutil.move(path, victim.outside / "moved")
            path.symlink_to(victim.outside / "moved")
            return f"{name(path)} became a link out of the folder"
        case 1:
            folder = victim.folder()
            shutil.move(folder, victim.outside / "folder")
            folder.symlink_to(victim.outside / "folder")
            return f"folder {name(folder)} became a link out of the folder"
        case 2:
            path.unlink()
            path.symlink_to(victim.pick([path.name, "nowhere", "."]))
            return f"{name(path)} became a link to {os.readlink(path)}"
        case 3:
            path.unlink()
            os.mkfifo(path)
            return f"{name(path)} became a pipe"
        case 4:
            (victim.folder() / "loop").symlink_to(victim.root)
            return "a link back to the top"
        case _:
            if os.geteuid() == 0:
                raise Nothing
            closed = path if victim.below(2) else victim.folder()
            if closed.is_file():
                victim.put(closed, closed.read_bytes())
            closed.chmod(0)
            return f"{name(closed)} closed"


def spots(value: Any) -> list[tuple[Any, Any]]:
    """Return (container, key) of every part of a value, of some thousands at most."""
    found, pending = [], [value]
    while pending and len(found) < 5000:
        part = pending.pop()
        if hasattr(part, "__dict__") and not isinstance(part, type):
            part = part.__dict__
        keys = list(part) if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else []
        found += [(part, key) for key in keys]
        pending += [part[key] for key in keys]
    return found


def alter(victim: Victim, value: Any) -> tuple[Any, str]:
    """Change one part of a value in place, and say how; the value itself if it has no parts."""
    known = spots(value)
    if not known or victim.below(40) == 0:
        new = copy.deepcopy(victim.pick(_VALUES))
        return new, f"all of it → {new!r:.40}"
    container, key = victim.pick(known)
    where = f"[{key!r:.40}]"
    match victim.below(12):
        case 0:
            del container[key]
            return value, f"{where} deleted"
        case 1 if isinstance(container, list):
            container[key:key] = [container[key]] * (1 + victim.below(30))
            return value, f"{where} repeated"
        case 1 | 2:
            other, place = victim.pick(known)
            try:
                container[key], other[place] = other[place], container[key]
                json.dumps(value, default=repr)
            except (KeyError, IndexError, TypeError, RecursionError):
                raise Nothing from None
            except ValueError:  # it would hold itself
                container[key] = None
                other[place] = None
            return value, f"{where} swapped with [{place!r:.40}]"
        case 3 if isinstance(container, dict):
            container[victim.pick(["", "x", "\ud800", str(key).upper(), f"{key} ", "action", "steps", "id"])] = container.pop(key)
            return value, f"{where} renamed"
        case 3 | 4:
            container[key] = [container[key]] if victim.below(2) else {"value": container[key]}
            return value, f"{where} wrapped"
        case 5:
            container[key] = _DEEP
            return value, f"{where} → nested deeply"
        case 6 if isinstance(container[key], str) and container[key]:
            text, at = container[key], victim.below(len(container[key]))
            container[key] = text[:at] + victim.pick(["", "\0", "\n", "'", '"', "\ud800", "\\", ")", "[", text]) + text[at + 1 :]
            return value, f"{where} edited at {at}"
        case 6 if isinstance(container[key], int | float):
            container[key] = victim.pick([-container[key], container[key] * 1e6, str(container[key]), container[key] + 0.5])
            return value, f"{where} → {container[key]!r:.40}"
        case _:
            container[key] = copy.deepcopy(victim.pick(_VALUES))
            return value, f"{where} → {container[key]!r:.40}"


def altered(victim: Victim, value: Any) -> tuple[Any, str]:
    """Change a few parts of a value."""
    said = []
    for _ in range(1 + victim.below(5)):
        value, how = alter(victim, value)
        said.append(how)
    return value, ", ".join(said)


def jsoned(victim: Victim, value: Any) -> str:
    """Return JSON, deep where it should be, now and then with a key twice."""
    text = json.dumps(value, ensure_ascii=bool(victim.below(2)))
    if f'"{_DEEP}"' in text:
        text = text.replace(
            f'"{_DEEP}"', victim.pick(["[" * 50_000 + "]" * 50_000, '{"a":' * 900 + "1" + "}" * 900, "[" * 300 + "]" * 300]), 1
        )
    if victim.below(8) == 0 and (colon := text.find('": ', victim.below(len(text)))) > 0:
        start = text.rfind('"', 0, colon)
        text = f"{text[:start]}{text[start : colon + 3]}{victim.pick(['null', '[]', '7', '{}'])}, {text[start:]}"
    return text


def structure(victim: Victim) -> str:
    """Change values in a JSON file or in one line of JSON Lines."""
    path = victim.file(".json", ".jsonl")
    try:
        if path.suffix == ".json":
            value, how = altered(victim, json.loads(path.read_bytes()))
            text = jsoned(victim, value)
        else:
            lines = path.read_text(encoding="utf-8").splitlines()
            at = victim.below(len(lines))
            value, how = altered(victim, json.loads(lines[at]))
            lines[at], how = jsoned(victim, value), f"line {at} {how}"
            text = "\n".join(lines)
    except IndexError:
        raise Nothing from None
    victim.put(path, text.encode("utf-8", "surrogatepass"))
    return f"{victim.name(path)}: {how}"


def table(victim: Victim) -> str:
    """Change columns or cells of a CSV file."""
    path = victim.file(".csv")
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = [line.split(",") for line in lines]
    at = victim.below(len(rows))
    cell = victim.below(len(rows[at]))
    match victim.below(5):
        case 0:
            rows = [row[:cell] + row[cell + 1 :] for row in rows]
        case 1:
            rows[at][cell] = str(victim.pick(_VALUES)).encode("utf-8", "replace").decode()
        case 2:
            rows[at][cell] += victim.pick(['"', '""', '"\n', "\0", "\r", ",,,"])
        case 3:
            rows.insert(at, rows[victim.below(len(rows))])
        case _:
            del rows[at]
    victim.put(path, "\n".join(map(",".join, rows)).encode())
    return f"{victim.name(path)}: row {at}, cell {cell}"


def parquet(victim: Victim) -> str:
    """Drop, rename or retype a column, or change cells, JSON in texts among them."""
    path = victim.file(".parquet")
    try:
        found = pq.read_table(io.BytesIO(path.read_bytes()))
    except Exception:  # damaged before
        raise Nothing from None
    names, at = found.column_names, victim.below(found.num_columns)
    column, row = names[at], victim.below(found.num_rows)
    how = ""
    match victim.below(8):
        case 0:
            found, how = found.drop_columns([column]), "dropped"
        case 1:
            names[at] = victim.pick(["x", "", names[0], column.upper()])
            found, how = found.rename_columns(names), f"renamed to {names[at]!r}"
        case 2:
            kinds = [("x", None), (1, None), (1.5, None), (True, None), (None, None), ([1], None), ({"a": 1}, None), (b"\xff", None)]
            one, kind = victim.pick([*kinds, (10**9, pa.timestamp("s")), (1, pa.uint8()), ("x", pa.dictionary(pa.int32(), pa.string()))])
            made = pa.array([one] * len(found), kind)
            found, how = found.set_column(at, column, made), f"became {made.type}"
        case 3:
            found, how = pa.concat_tables([found, found]), "rows doubled"
        case 4:
            found, how = found.slice(0, victim.below(3)), "cut to a few rows"
        case _:
            values = found[column].to_pylist()
            value, how = values[row] if values else None, f"row {row}"
            if isinstance(value, str) and value[:1] in "[{":
                value, more = altered(victim, json.loads(value))
                value, how = jsoned(victim, value).encode("utf-8", "replace").decode(), f"{how} {more}"
            elif isinstance(value, list) and value and isinstance(value[0], str) and value[0][:1] == "{":
                inner, more = altered(victim, json.loads(value[0]))
                value, how = [jsoned(victim, inner).encode("utf-8", "replace").decode(), *value[1:]], f"{how} {more}"
            elif isinstance(value, dict) and isinstance(value.get("bytes"), bytes) and victim.below(4):
                data, more = victim.spoil(value["bytes"])
                value, how = value | {"bytes": data}, f"{how} {more}"
            else:
                value = None if victim.below(2) or not isinstance(value, str) else victim.pick([v for v in _VALUES if isinstance(v, str)])
                value = value if value is None else value.encode("utf-8", "replace").decode()
            if values:
                values[row] = value
            found = found.set_column(at, found.schema.field(at), pa.array(values, found.schema.field(at).type))
    out = io.BytesIO()
    pq.write_table(found, out, row_group_size=victim.pick([1, 5, 1000]))
    victim.put(path, out.getvalue())
    return f"{victim.name(path)}: column {column} {how}"


def archive(victim: Victim) -> str:
    """Change members of a zip archive, or what it says of them."""
    path = victim.file(".zip")
    try:
        with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as old:
            members = [(entry, old.read(entry)) for entry in old.infolist()]
    except Exception:  # damaged before
        raise Nothing from None
    at = victim.below(len(members))
    entry, data = members[at]
    how = ""
    match victim.below(9):
        case 0:
            data, how = victim.spoil(data)
        case 1:
            name = victim.pick(["../" + entry.filename, "/" + entry.filename, "a\\..\\b", "C:/x", "x/../../y", *_NAMES])
            entry.filename = name.encode("utf-8", "replace").decode()
            how = f"renamed to {entry.filename!r:.60}"
        case 2:
            entry.external_attr, data, how = 0o120777 << 16, b"/etc/passwd", "became a link"
        case 3:
            members.append((entry, data[: len(data) // 2]))
            how = "is there twice"
        case 4:
            data, how = bytes(2**22), "expands to 4 MiB of zeros"
        case 5:
            entry.compress_type, how = zipfile.ZIP_BZIP2, "packed by another method"
        case 6 if entry.filename.endswith((".json", ".jsonl")):
            lines = data.decode("utf-8", "replace").split("\n")
            line = victim.below(len(lines))
            try:
                value, how = altered(victim, json.loads(lines[line]))
            except (ValueError, RecursionError):
                raise Nothing from None
            lines[line] = jsoned(victim, value)
            data, how = "\n".join(lines).encode("utf-8", "surrogatepass"), f"line {line} {how}"
        case 6 | 7:
            del members[at]
            how = "left out"
        case _:
            how = "directory damaged"
    if how not in {"left out", "is there twice"}:
        members[at] = entry, data
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as new:
        warnings.simplefilter("ignore")  # a name twice is what was asked for
        for one, content in members:
            new.writestr(one, content, one.compress_type)
    raw = bytearray(out.getvalue())
    if how == "directory damaged":
        start = raw.rfind(b"PK\x01\x02")
        for _ in range(1 + victim.below(4)):
            raw[start + victim.below(len(raw) - start)] = victim.below(256)
    victim.put(path, bytes(raw))
    return f"{victim.name(path)}: {entry.filename!r:.60} {how}"


def compressed(victim: Victim) -> str:
    """Damage what a gzip file holds, and pack it again."""
    path = victim.file()
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error):
        raise Nothing from None
    if victim.below(10) == 0:
        victim.put(path, gzip.compress(bytes(2**24), mtime=0))
        return f"{victim.name(path)}: 16 MiB of zeros"
    data, how = victim.spoil(data)
    victim.put(path, gzip.compress(data, mtime=0))
    return f"{victim.name(path)}: inside, {how}"


def pickles(victim: Victim) -> str:
    """Change values in a pickle, or put a hostile one in its place."""
    path = victim.file(".pkl", ".pkl.gz")
    packed = path.name.endswith(".gz")
    hostile = [
        (b"cos\nsystem\n(S'touch owned'\ntR.", "runs a command"),
        (
            b"\x80\x04\x95\x1c\x00\x00\x00\x00\x00\x00\x00\x8c\x08builtins\x94\x8c\x04exec\x94\x93\x94\x8c\x01x\x94\x85\x94R\x94.",
            "runs code",
        ),
        (b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b".", "nested deeply"),
        (b"\x80\x04]\x94h\x00a.", "holds itself"),
        (b"\x80\x04B\xff\xff\xff\x7f" + b"x" * 100 + b".", "claims two gigabytes"),
        (b"\x80\x04r\xff\xff\xff\x7fN.", "a large memo index"),
        (b"\x80\x04N" + b"2" * 50_000 + b".", "a large stack"),
        (b"\x80\x05\x8a\xff" + b"\x7f" * 255 + b".", "a long number"),
        (b"\x80\x04(" * 3000 + b"t" * 3000 + b".", "many marks"),
        (b"\x80\x04\x8c\x04copy\x8c\x08deepcopy\x93.", "a function"),
        (b"P1\n.", "a persistent id"),
    ]
    if victim.below(5) == 0:
        data, how = victim.pick(hostile)
    else:
        try:
            value = fuzz_corpora.unpickled(gzip.decompress(path.read_bytes()) if packed else path.read_bytes())
            value, how = altered(victim, value)
            data = fuzz_corpora.pickled(value)
        except Nothing:
            raise
        except Exception:  # damaged before
            raise Nothing from None
    victim.put(path, gzip.compress(data, mtime=0) if packed else data)
    return f"{victim.name(path)}: {how}"


def episodes(victim: Victim) -> str:
    """Change features of a TFRecord's examples, or the framing of its records."""
    path = victim.file("-of-00002")
    try:
        whole = [data for _, data in tfrecord.File(path).records("") if isinstance(data, bytes)]
        record = victim.below(len(whole))
        names = ("episode_id", "goal", "screenshots", "accessibility_trees", "actions", "step_instructions")
        features = tfrecord.example(whole[record], "", names)
        name = victim.pick(names)
        values = features[name]
        at = victim.below(len(values))
        value = values[at]
    except (IndexError, TypeError, OSError):
        raise Nothing from None
    framed = None
    match victim.below(10):
        case 0:
            del features[name]
            how = "left out"
        case 1:
            del values[at]
            how = f"[{at}] left out"
        case 2:
            values[at:at] = [value] * (1 + victim.below(20))
            how = f"[{at}] repeated"
        case 3:
            features[name] = [1, 2] if isinstance(value, bytes) else [b"x"]
            how = "of the other type"
        case 4 if isinstance(value, int):
            values[at] = victim.pick([-1, 0, 2**63 - 1, -(2**63), values[at] + 1])
            how = f"→ {values[at]}"
        case 4 | 5 | 6 if name == "actions":
            action, how = altered(victim, json.loads(value))
            values[at] = jsoned(victim, action).encode("utf-8", "surrogatepass")
        case 4 | 5 | 6 if isinstance(value, bytes):
            values[at], how = victim.spoil(value)
        case 7:
            whole.insert(record, victim.pick([b"", b"\xff" * 9, whole[0], made_tfrecord.example(x=[1]), victim.bytes(50)]))
            how = "a record put before it"
        case _:
            pieces = [made_tfrecord.framed(data) for data in whole]
            where = victim.pick([0, 8, 12, len(pieces[record]) - 4])
            size = victim.pick([2**62, 2**31, 0, len(whole[record]) - 1, len(whole[record]) + 1])
            if where == 0:
                length = struct.pack("<Q", size)
                pieces[record] = length + tfrecord.masked(length) + pieces[record][12:]
            else:
                pieces[record] = pieces[record][:where] + bytes([pieces[record][where] ^ 1]) + pieces[record][where + 1 :]
            framed, how = b"".join(pieces), f"framing at {where}"
    if framed is None:
        if how != "a record put before it":
            whole[record] = made_tfrecord.example(**features)
        framed = b"".join(map(made_tfrecord.framed, whole))
    victim.put(path, gzip.compress(framed, mtime=0) if victim.below(3) else framed)
    return f"{victim.name(path)}#{record}: {name} {how}"


#: Damage → how often it is tried; those that need what a corpus does not have give way to others.
DAMAGES: dict[Callable[[Victim], str], int] = {
    bytes_of_a_file: 3,
    content: 2,
    encoding: 1,
    places: 3,
    links: 2,
    structure: 7,
    table: 1,
    parquet: 6,
    archive: 4,
    compressed: 2,
    pickles: 6,
    episodes: 8,
}
_WEIGHTED = [damage for damage, weight in DAMAGES.items() for _ in range(weight)]


def damage(root: Path, outside: Path, rng: np.random.Generator) -> str:
    """Damage one to three things under ``root`` and say what."""
    said: list[str] = []
    wanted = min(int(rng.geometric(0.6)), 3)
    for _ in range(1000):
        victim = Victim(root, outside, rng)
        if not victim.files or len(said) == wanted:
            break
        try:
            said.append(victim.pick(_WEIGHTED)(victim))
        except (Nothing, OSError, ValueError, LookupError, OverflowError, RecursionError, pa.ArrowException):  # nothing left to damage
            continue
    return "; ".join(said)


# -- what may happen ------------------------------------------------------------------------------------------------------


class Watch:
    """Note what a case does to the world outside its output folder."""

    _CHANGES = frozenset(
        {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod", "shutil.rmtree"}
    )
    _NEVER = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "pickle.find_class"})

    def __init__(self) -> None:
        self.allowed: str | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple) -> None:
        if self.allowed is None:
            return
        if event in self._NEVER:
            self.seen.append(f"{event}{arguments!r:.100}")
        elif event in self._CHANGES:
            self._note(event, arguments[0])
        elif event == "open":
            path, mode, flags = arguments
            writes = (
                any(letter in mode for letter in "wxa+") if isinstance(mode, str) else bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            )
            if writes:
                self._note(event, path)

    def _note(self, event: str, path: Any) -> None:
        if isinstance(path, int):
            return
        path = os.path.abspath(os.fsdecode(path))
        if not path.startswith(self.allowed) and "__pycache__" not in path and path != os.devnull:
            self.seen.append(f"{event} of {path}")

    @contextmanager
    def over(self, folder: Path) -> Iterator[list[str]]:
        """Let only ``folder`` be written to, and give the list of what else was done."""
        self.seen, self.allowed = [], str(folder)
        try:
            yield self.seen
        finally:
            self.allowed = None


_watch: Watch | None = None


class _Unsorted(normalise._Tables):
    """Tables left as their rows came: to sort them takes longer than all else that is done with a small corpus."""

    def finish(self, folder: Path) -> None:
        if not self.counts.kept["trajectory"] and not self.counts.kept["row"]:
            self._refuse()
        self._spill()
        for writer in (*self.writers.values(), self.broken):
            writer.close()
            writer.path.replace(folder / writer.path.name)


@contextmanager
def unsorted() -> Iterator[None]:
    """Leave out the last part of normalising, in which damage to logs can hardly show any more."""
    real, normalise._Tables = normalise._Tables, _Unsorted
    try:
        yield
    finally:
        normalise._Tables = real


@contextmanager
def patience() -> Iterator[None]:
    """Raise `_Slow` in a block that takes too long."""

    def stop(*_: object) -> None:
        raise _Slow

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    signal.setitimer(signal.ITIMER_REAL, HANGING)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def state(folder: Path) -> dict[str, tuple]:
    """Return what lies in a folder, links unfollowed, by name."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            status = os.lstat(path)
            found[path] = (status.st_mode, status.st_size, status.st_mtime_ns) if name in files else (status.st_mode,)
    return found


def outcome(kind: str, root: Path, out: Path, workers: int = 1, whole: bool = True) -> tuple[dict | None, str | None]:
    """Normalise a corpus. Return its tables (None if it was refused), and what is wrong (None if nothing is)."""
    counts, source = store.Counts("normalise"), normalise.Source("fuzz", kind, root)
    out.mkdir()
    try:
        with nullcontext() if whole else unsorted():
            normalise.normalise(out, counts, source, workers)
    except InputError as error:
        text = str(error)
        if "\n" in text or not text.strip() or "Traceback" in text:
            return None, f"refused by no clear line: {text!r:.300}"
        return None, None if str(root) in text else f"refused without naming the folder: {text!r:.300}"
    tables = read(out, whole)
    return tables, check(tables, counts, whole) or gone(kind, root, tables)


def read(out: Path, whole: bool = True) -> dict[str, list[dict]]:
    """Read the tables back; raise if one is not as declared. What was left unsorted is sorted here."""
    tables = {name: store.check(pq.ParquetFile(out / f"{name}.parquet").read(), name).to_pylist() for name in TABLES}
    stray = {path.name for path in out.iterdir()} - {f"{name}.parquet" for name in TABLES}
    if "costs.parquet" in stray:  # of logs that say what an attempt cost
        stray.discard("costs.parquet")
        tables["costs"] = store.check(pq.ParquetFile(out / "costs.parquet").read(), "costs").to_pylist()
    if not whole:
        stray.discard("broken.parquet")
        broken = store.check(pq.ParquetFile(out / "broken.parquet").read(), "drops").to_pylist()
        tables["drops"] += {row["item"]: row for row in broken}.values()
        tables["images"] = list({row["image_id"]: row for row in tables["images"]}.values())
        for name in ("trajectories", "steps", "changes"):
            tables[name].sort(key=lambda row: (row["trajectory_id"], row.get("step")))
    if stray:
        raise ValueError(f"left behind: {sorted(stray)[:5]}")
    return tables


def gone(kind: str, root: Path, tables: dict[str, list[dict]]) -> str | None:
    """Look some pictures up again by what their table says, as later stages do."""
    rows = [row for row in tables["images"] if row["status"] == "ok"]
    for row in rows[:: max(1, len(rows) // 4)]:
        try:
            data = pictures.encoded_bytes(root, row["file"], row["member"], kind)
        except InputError as error:
            return f"a picture is not found again: {error}"
        if hashlib.sha256(data).hexdigest() != row["file_sha256"]:
            return f"another picture is found again for {row['file']} {row['member']}"
    return None


def check(tables: dict[str, list[dict]], counts: store.Counts, whole: bool = True) -> str | None:
    """Compare the tables with the counts and with one another."""
    summary = counts.summary("trajectory")
    units = {"trajectory": summary} | summary["others"]
    kept, dropped = (Counter({name: total(unit) for name, unit in units.items()}) for total in (_kept, _dropped))
    ids = [row["trajectory_id"] for row in tables["trajectories"]]
    expected = [(row["trajectory_id"], step) for row in tables["trajectories"] for step in range(row["n_steps"])]
    known = {row["image_id"]: row["status"] for row in tables["images"]}
    used = {row[name] for row in tables["steps"] for name in ("before_image", "after_image") if row[name] is not None}
    rows = Counter(row["unit"] for row in tables["drops"])
    facts = {
        "ids are unique and sorted": ids == sorted(set(ids)),
        "as many trajectories as counted": len(ids) == kept["trajectory"],
        "every kept trajectory has its steps": [(row["trajectory_id"], row["step"]) for row in tables["steps"]] == expected,
        "every step has its change": [(row["trajectory_id"], row["step"]) for row in tables["changes"]] == expected,
        "every trajectory has a step": all(row["n_steps"] > 0 for row in tables["trajectories"]),
        "as many steps as counted": len(expected) == kept["step"],
        "every step is kept or lost as a transition": kept["transition"] + dropped["transition"] == len(expected),
        "operations are ours": {row["op"] for row in tables["steps"]} <= set(OPS),
        "pictures are those used": known.keys() == used,
        "pictures are counted": not whole or list(known.values()).count("ok") <= kept["picture"],
        "verdicts belong to trajectories": {row["trajectory_id"] for row in tables["oracle_results"]} <= set(ids),
        "answers are counted": len(tables["annotations"]) == kept["row"],
        "drops have rows": all(rows[name] == number for name, number in dropped.items() if whole or name != "picture"),
        "reasons are codes": all(re.fullmatch("[a-z0-9_]+", row["reason"]) for row in tables["drops"]),
        "texts are one line": not any("\n" in (row["item"] + (row["detail"] or "")) for row in tables["drops"]),
    }
    wrong = [fact for fact, holds in facts.items() if not holds]
    return f"not true: {', '.join(wrong)}" if wrong else None


def _kept(unit: dict) -> int:
    return unit["kept"]


def _dropped(unit: dict) -> int:
    return sum(unit["dropped"].values())


def dice(kind: str, number: int) -> np.random.Generator:
    """Return the dice of a case."""
    return np.random.default_rng([zlib.crc32(kind.encode()), number])


def run(kind: str, master: Path, number: int, folder: Path, whole: bool = True, twice: bool = False) -> str | None:
    """Run one case in a new folder. Return what went wrong with it, or None.

    ``whole`` sorts the tables too; ``twice`` reads the corpus again under another path, by several workers, and compares.
    """
    global _watch
    _watch = _watch or Watch()
    root, out, outside = folder / "root", folder / "out", folder / "outside"
    folder.mkdir(parents=True)
    outside.mkdir()
    shutil.copytree(master, root, copy_function=os.link)
    how = damage(root, outside, dice(kind, number))
    before = {**state(root), **state(outside)}
    fault, tables = None, None
    start = time.process_time()
    try:
        with patience(), warnings.catch_warnings(), _watch.over(out) as deeds:
            warnings.simplefilter("error")
            tables, fault = outcome(kind, root, out, whole=whole)
    except _Slow:
        fault = f"more than {PATIENCE} s: {_place(sys.exc_info()[2])}"
    except Exception as error:
        fault = f"{type(error).__name__}: {error!s:.200} at {_place(error.__traceback__)}"
    if fault is None and deeds:
        fault = f"{len(deeds)} deeds outside the output folder, first {deeds[0]}"
    if fault is None and time.process_time() - start > PATIENCE:
        fault = f"more than {PATIENCE} s"
    if fault is None and before != {**state(root), **state(outside)}:
        fault = "the logs themselves were changed"
    if fault is None and twice:
        root.rename(folder / "moved")
        try:
            with patience():
                again, fault = outcome(kind, folder / "moved", folder / "again", 3)
        except _Slow:
            fault = f"read again, it takes more than {PATIENCE} s: {_place(sys.exc_info()[2])}"
        if fault is None and repr(again) != repr(tables):
            differing = [name for name in TABLES if (again or {}).get(name) != (tables or {}).get(name)]
            fault = f"read again under another path and by several workers, it differs in {differing}"
    return None if fault is None else f"{kind} {number}: {fault} [{how}]"


def _place(trace: Any) -> str:
    """Return the last places of ours in a traceback, the innermost first."""
    frames = [frame for frame in traceback.extract_tb(trace) if "evoaudit" in frame.filename] or traceback.extract_tb(trace)
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames[-4:]))


def digest(folder: Path) -> str:
    """Return a hash of all files in a folder."""
    mark = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        mark.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return mark.hexdigest()


def main() -> None:
    kind, number = sys.argv[1], int(sys.argv[2])
    place = Path(sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp()).absolute()
    fuzz_corpora.CORPORA[kind](place / "master")
    print(run(kind, place / "master", number, place / "case", twice=True) or f"{kind} {number}: all is well", f"in {place}", sep="\n")


if __name__ == "__main__":
    main()
