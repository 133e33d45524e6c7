"""Pickles are read as data: what comes out, that nothing is run, and that nothing runs away."""

import collections
import datetime
import gzip
import importlib
import io
import operator
import os
import pickle
import pickletools
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_pickles import dumps, foreign
from PIL import Image

from evoaudit.sources import unpacked, unpickle, unpickle_screens
from evoaudit.sources.base import Skipped
from evoaudit.sources.jsonio import LFS_MAGIC
from evoaudit.sources.unpickle_values import Array, Blob, Dtype, Stub, get, listed

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
REASONS = {"bad_pickle", "bad_gzip", "truncated", "too_large", "too_deep"}


def read(folder: Path, data: bytes, name: str = "a.pkl") -> Any:
    (folder / name).write_bytes(data)
    return unpickle.read(folder, name)


def reason(value: Any) -> str | None:
    return value.reason if isinstance(value, Skipped) else None


# -- values ---------------------------------------------------------------------------------------------------------------

SAME = [
    None,
    True,
    0,
    255,
    65_535,
    -(2**31),
    2**40,
    -(2**200),
    1.5,
    float("inf"),
    "",
    "text " * 1000,
    "Ölpreis \N{TEAPOT}",
    b"",
    b"bytes",
    [],
    [1, [2, [3]]],
    (),
    (1, (2, 3, 4), "x"),
    {},
    {"a": {"b": 1}, 2: None, (1, "x"): 3.5},
    [{"deep": [({"x": 1},)]}] * 3,
    3 + 4j,
    datetime.datetime(2024, 2, 29, 23, 59, 58, 123456),
    datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone(datetime.timedelta(hours=-3))),
    datetime.date(1999, 12, 31),
    datetime.time(1, 2, 3, 4),
    datetime.timedelta(-1, 2, 3),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_values_are_themselves(protocol: int, tmp_path: Path) -> None:
    for value in SAME:
        found = read(tmp_path, pickle.dumps(value, protocol))
        assert type(found) is type(value) and found == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_kinds_of_lists_dictionaries_and_paths_become_plain(protocol: int, tmp_path: Path) -> None:
    pairs = [
        ({7}, [7]),
        (frozenset({7}), [7]),
        (collections.deque([1, 2], 5), [1, 2]),
        (bytearray(b"ab"), b"ab"),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (collections.defaultdict(list, a=[1]), {"a": [1]}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (PurePosixPath("/home/me/study"), "/home/me/study"),
    ]
    for value, plain in pairs:
        assert read(tmp_path, pickle.dumps(value, protocol)) == plain


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_numpy_values_are_rebuilt(protocol: int, tmp_path: Path) -> None:
    arrays = [
        np.arange(6, dtype="<i4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(7, ">u2"),
        np.zeros((0, 3), bool),
        np.array(["a", "bc"]),
        np.array([1 + 2j], "c8"),
    ]
    for array in arrays:
        found = read(tmp_path, pickle.dumps(array, protocol))
        assert type(found) is Array
        rebuilt = found.numpy()
        assert rebuilt is not None and rebuilt.dtype == array.dtype and np.array_equal(rebuilt, array)
        assert found.tolist() == array.ravel().tolist()
    scalars = read(tmp_path, pickle.dumps([np.float64(0.5), np.bool_(True), np.int16(-3), np.str_("é"), np.float64("nan")], protocol))
    assert scalars[:4] == [0.5, True, -3, "é"] and [type(value) for value in scalars] == [float, bool, int, str, float]
    objects = read(tmp_path, pickle.dumps(np.array(["a", None, {"b": 1}], object), protocol))
    assert objects.numpy() is None and listed(objects) == ["a", None, {"b": 1}]


@pytest.mark.parametrize("protocol", PROTOCOLS[2:])
def test_an_unknown_class_becomes_a_stub_with_its_fields(protocol: int, tmp_path: Path) -> None:
    message = foreign("agentlab.llm.llm_utils.HumanMessage", dict)
    message["role"] = "user"
    rows = foreign("somewhere.Rows", list)
    rows += [1, 2]
    made = foreign("browsergym.experiments.loop.StepInfo", step=3, obs={"url": "x"}, message=message, rows=rows)
    found = read(tmp_path, dumps([made, made], protocol))
    assert found[0] is found[1] and type(found[0]) is Stub
    step = found[0]
    assert step.name == "browsergym.experiments.loop.StepInfo"
    assert step.get("step") == 3 and get(get(step, "obs"), "url") == "x" and get(step, "absent", "none") == "none"
    assert get(get(step, "message"), "role") == "user" and list(listed(get(step, "rows"))) == [1, 2]
    assert get("text", "x") is None and listed("text") == ()


def test_objects_made_by_a_function_keep_its_name_and_arguments(tmp_path: Path) -> None:
    found = read(tmp_path, pickle.dumps([uuid.UUID(int=5), range(3), operator.attrgetter("a.b"), Path.exists]))
    assert [value.name for value in found] == ["uuid.UUID", "builtins.range", "operator.attrgetter", "pathlib.Path.exists"]
    assert found[0].get("int") == 5 and found[1].args == (0, 3, 1) and found[2].args == ("a.b",)


def test_a_value_that_holds_itself_is_read(tmp_path: Path) -> None:
    loop: list = []
    loop.append(loop)
    found = read(tmp_path, pickle.dumps(loop))
    assert found[0] is found


@pytest.mark.parametrize("name", ["a.pkl", "a.pkl.gz"])
def test_gzip_is_told_by_the_bytes_not_by_the_name(name: str, tmp_path: Path) -> None:
    data = pickle.dumps({"a": list(range(100_000))})
    assert read(tmp_path, data, name) == read(tmp_path, gzip.compress(data), name) == {"a": list(range(100_000))}
    parts = gzip.compress(data[:1000]) + gzip.compress(data[1000:]) + bytes(512)
    assert read(tmp_path, parts, name) == {"a": list(range(100_000))}


# -- nothing is run -------------------------------------------------------------------------------------------------------


class Calls:
    """An object whose pickle calls a function."""

    def __init__(self, function: Callable, *args: Any) -> None:
        self.call = function, args

    def __reduce__(self) -> tuple[Callable, tuple]:
        return self.call


def exploits(canary: str) -> dict[str, bytes]:
    """Return pickles that would touch the canary, or import a module that nobody else does."""
    touch = f"open({canary!r}, 'w').close()"
    parts = {
        "os.system": Calls(os.system, f"touch {canary}"),
        "eval": Calls(eval, f"open({canary!r}, 'w')"),
        "exec": Calls(exec, touch),
        "subprocess": Calls(subprocess.Popen, ["touch", canary]),
        "import_module": Calls(importlib.import_module, "antigravity"),
        "__import__": Calls(__import__, "antigravity"),
        "open": Calls(open, canary, "w"),
        "attrgetter": Calls(operator.attrgetter("system"), Calls(__import__, "os")),
        "getattr": Calls(getattr, Calls(__import__, "os"), "system"),
        "getattr in getattr": Calls(getattr, Calls(getattr, Calls(importlib.import_module, "os"), "path"), "sys"),
        "compile": Calls(compile, touch, "x", "exec"),
        "map": Calls(list, Calls(map, eval, [f"open({canary!r}, 'w')"])),
        "inside a dictionary": {"a": [Calls(os.system, f"touch {canary}")]},
        "as a dictionary's key": {Calls(os.system, f"touch {canary}"): 1},
    }
    made = {name: pickle.dumps(value) for name, value in parts.items()}
    made |= {f"{name}, text": pickle.dumps(value, 0) for name, value in parts.items()}
    line = canary.encode()
    return made | {
        "a module nobody has": b"cantigravity\nfly\n(tR.",
        "a stub as function": b"cos\nsystem\n)R(S'touch " + line + b"'\ntR.",
        "getattr, called": b"cbuiltins\ngetattr\n(cos\nsystem\nS'__call__'\ntR(S'touch " + line + b"'\ntR.",
        "instance": b"(S'touch " + line + b"'\nios\nsystem\n.",
        "object": b"(cos\nsystem\nS'touch " + line + b"'\no.",
        "newobj": b"\x80\x02cos\nsystem\nX\x05\x00\x00\x00touch\x85\x81.",
        "newobj_ex": b"\x80\x04cos\nsystem\n)}\x92.",
        "class": b"\x80\x02cos\nPathLike\n)\x81}(X\x09\x00\x00\x00__class__cos\nsystem\nX\x08\x00\x00\x00__dict__}ub.",
        "setstate": b"\x80\x02cbuiltins\nobject\n)\x81(}}X\x0c\x00\x00\x00__setstate__cos\nsystem\nstb.",
        "slots on an array": b"\x80\x02cnumpy\ndtype\n(X\x02\x00\x00\x00i8tRN}X\x09\x00\x00\x00__class__cos\nsystem\ns\x86b.",
        "reconstructor": b"ccopy_reg\n_reconstructor\n(cos\nsystem\nc__builtin__\nobject\nNtR.",
        "codec": pickle.dumps(Calls(__import__("codecs").encode, "touch", "rot13")),
        "extension": b"\x80\x02\x82\x01.",
        "persistent id": b"P" + line + b"\n.",
        "dotted name": b"\x80\x04\x8c\x02os\x8c\x0bpath.os.sys\x93.",
    }


def test_exploits_run_nothing_and_import_nothing(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    pickles = exploits(str(canary))
    events: list[str] = []
    watching = False

    def watch(event: str, _: tuple) -> None:
        if watching:
            events.append(event)

    read(tmp_path, pickle.dumps(["warm", 1.5, b"up"], 0))  # codecs are looked up once
    sys.addaudithook(watch)
    before = set(sys.modules)
    for name, data in pickles.items():
        (tmp_path / "x.pkl").write_bytes(data)
        watching = True
        found = unpickle.read(tmp_path, "x.pkl")
        watching = False
        assert not canary.exists(), name
        assert set(sys.modules) == before, name
        assert set(events) <= {"open"}, (name, events)
        assert not callable(found), name
        events.clear()


def test_the_exploits_are_real(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    assert pickle.loads(exploits(str(canary))["os.system"]) == 0 and canary.exists()


def test_state_cannot_change_what_a_stub_is(tmp_path: Path) -> None:
    found = read(tmp_path, exploits("x")["class"])
    assert type(found) is Stub and found.name == "os.PathLike" and found.get("__dict__") == {}
    assert Stub("a").state is None and not hasattr(found, "__dict__")


@pytest.mark.parametrize("code", [b"\x82\x01", b"\x83\x01\x00", b"\x84\x01\x00\x00\x00", b"Pid\n", b"NQ", b"\x97"])
def test_what_lies_outside_the_file_is_refused(code: bytes, tmp_path: Path) -> None:
    assert reason(read(tmp_path, b"\x80\x05" + code + b".")) == "bad_pickle"


# -- nothing runs away ----------------------------------------------------------------------------------------------------

HEAD = b"\x80\x04"
PAIRS = b")" + b"2\x86" * 60  # an empty tuple, doubled sixty times


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (HEAD + b"Nr\xff\xff\xff\x7f.", "bad_pickle"),  # a memo of two thousand million places
        (HEAD + b"Np99999999999\n.", "bad_pickle"),
        (HEAD + b"(" * 100_000, "too_deep"),
        (HEAD + b"\x8e" + (2**62).to_bytes(8, "little") + b"x", "truncated"),
        (HEAD + b"\x96" + (2**40).to_bytes(8, "little") + b"x", "truncated"),
        (HEAD + b"\x8d" + (2**62).to_bytes(8, "little") + b"x", "too_large"),
        (HEAD + b"X\x00\x00\x00\x03x", "truncated"),
        (HEAD + b"\x8b\x00\x00\x00\x30" + b"x" * 100, "too_large"),
        (HEAD + b"L" + b"9" * 100_000 + b"L\n.", "bad_pickle"),
        (HEAD + b"]" * 2_100_000, "too_large"),
        (HEAD + b"c" + b"a" * 17_000_000, "too_large"),
        (HEAD + b"c" + b"a" * 600 + b"\nb\n.", "bad_pickle"),
        (b"", "truncated"),
        (b".", "bad_pickle"),
        (HEAD, "truncated"),
        (b"\x80\x09N.", "bad_pickle"),
        (b"not a pickle", "bad_pickle"),
        (b"\x1f\x8bnot gzip", "bad_gzip"),
        (HEAD + b"h\x05.", "bad_pickle"),
        (HEAD + b"]NNs.", "bad_pickle"),
        (HEAD + b"N(NNu.", "bad_pickle"),
        (HEAD + b"}(Nu.", "bad_pickle"),
        (HEAD + b"\x93.", "bad_pickle"),
        (HEAD + b"(((1110.", "bad_pickle"),
    ],
)
def test_a_bomb_or_nonsense_is_skipped_with_its_reason(data: bytes, expected: str, tmp_path: Path) -> None:
    start = time.process_time()
    found = read(tmp_path, data)
    assert reason(found) == expected and found.item == "a.pkl" and found.detail
    assert time.process_time() - start < 10


@pytest.mark.parametrize("data", [b"}(" + PAIRS + b"Nu.", b"}" + PAIRS + b"Ns.", b"(" + PAIRS + b"\x91.", b"\x8f(" + PAIRS + b"\x90."])
def test_nested_pairs_as_keys_are_never_hashed(data: bytes, tmp_path: Path) -> None:
    start = time.process_time()
    found = read(tmp_path, HEAD + data)
    assert time.process_time() - start < 1 and len(found) == 1


def test_numbers_made_to_collide_are_never_hashed(tmp_path: Path) -> None:
    keys = {(2**61 - 1) * number: None for number in range(1, 2_000)}
    start = time.process_time()
    assert all(type(key) is Stub for key in read(tmp_path, pickle.dumps(keys)))
    assert time.process_time() - start < 1


def test_pairs_of_numbers_made_to_collide_are_never_hashed(tmp_path: Path) -> None:
    size, second, third = 2**64, 14029467366897019727, 2870177450012600261  # constants of Python's hash of a tuple

    def partner(first: int) -> int:
        mixed = (third + first * second) % size
        turned = (mixed << 31 | mixed >> 33) % size * 11400714785074694791 % size
        found = (12_345 - turned) * pow(second, -1, size) % size
        return found if found < size // 2 else found - size

    keys = {(first, other) for first in range(100_000) if -(2**60) < (other := partner(first)) < 2**60}
    keys = sorted(keys)[:8_000]
    assert len({hash(key) for key in keys[:9]}) == 1
    data = b"".join(pickle.dumps(key, 2)[2:].partition(b"q\x00.")[0] + b"N" for key in keys)
    start = time.process_time()
    assert len(read(tmp_path, HEAD + b"}(" + data + b"u.")) == len(keys)
    assert time.process_time() - start < 0.7


def test_many_small_pieces_of_gzip_data_take_no_time(tmp_path: Path) -> None:
    piece = gzip.compress(b"a" * 20, 0)
    start = time.process_time()
    assert reason(read(tmp_path, gzip.compress(HEAD + b"V", 0) + piece * 60_000 + gzip.compress(b"\n.", 0))) == "too_large"
    assert read(tmp_path, gzip.compress(HEAD + b"V", 0) + piece * 9_000 + gzip.compress(b"\n.", 0)) == "a" * 180_000
    assert time.process_time() - start < 3


def test_a_long_array_that_is_no_screen_is_not_listed() -> None:
    for size, expected in ((1_000, 1_000), (1_000_000, None)):
        values = Array((size,), Dtype("u1"), False, b"a" * size).tolist()
        assert (values and len(values)) == expected


def test_deep_values_come_and_go_without_a_crash(tmp_path: Path) -> None:
    for data in (b"]" * 300_000 + b"a" * 299_999, b")" + b"\x85" * 300_000, b"cx\ny\n" * 100_000 + b")\x81" + b"b" * 99_999):
        found = read(tmp_path, HEAD + data + b".")
        assert not isinstance(found, Skipped)
        del found


@pytest.mark.parametrize(
    ("maker", "expected"),
    [
        (b"c_codecs\nencode\nh\x00\x8c\x06latin1\x86R", "too_large"),
        (b"c_codecs\nencode\nh\x00" + PAIRS + b"\x86R", "too_large"),
        (b"cbuiltins\nset\nh\x01\x85R", "too_large"),
        (b"ccollections\nOrderedDict\nh\x01\x85R", "too_large"),
        (b"ccollections\nCounter\nh\x02\x85R", "too_large"),
        (b"cpathlib\nPurePosixPath\nh\x03R", "too_large"),
        (b"cbuiltins\nlen\nh\x03R", "too_large"),
        (b"cdatetime\ndatetime\nh\x00\x85R", None),
        (b"cnumpy.core.multiarray\n_reconstruct\n)R((K\x01tcnumpy\ndtype\n(X\x02\x00\x00\x00u1tRNh\x00tb", "too_large"),
    ],
)
def test_what_is_copied_over_and_over_is_counted(maker: bytes, expected: str | None, tmp_path: Path) -> None:
    text = b"X\x40\x42\x0f\x00" + b"a" * 1_000_000 + b"\x94"
    pairs = b"".join(b"M" + number.to_bytes(2, "little") + b"N" for number in range(50_000))
    things = text + b"](" + b"h\x00" * 100_000 + b"e\x94" + b"}(" + pairs + b"u\x94" + b"(" + b"h\x00" * 100_000 + b"t\x94"
    start = time.process_time()
    assert reason(read(tmp_path, HEAD + things + maker * 50_000 + b".")) == expected
    assert time.process_time() - start < 60


def test_a_gzip_bomb_stops_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 64 * 2**20
    data = gzip.compress(HEAD + b"\x8e" + size.to_bytes(8, "little") + bytes(size) + b".", 1)
    assert read(tmp_path, data) == Blob(11, size)
    monkeypatch.setattr(unpacked, "DATA_LIMIT", 2**20)
    assert reason(read(tmp_path, data)) == "too_large"
    monkeypatch.setattr(unpacked, "FILE_LIMIT", 1_000)
    assert reason(read(tmp_path, data)) == "too_large"


@pytest.mark.parametrize(
    "shape", [(2**62,), (-1, -1), (2**31, 2**31, 2**31), (1,) * 100, ("a",), (1.5,), ((1,),), (10**400,), (True, 8), None, "8"]
)
def test_arrays_of_hostile_shape_hold_nothing(shape: Any, tmp_path: Path) -> None:
    data = pickle.dumps(np.arange(8, dtype="u1"))
    assert read(tmp_path, data).numpy().tolist() == list(range(8))
    array = Array(shape, Dtype("u1"), False, bytes(8))
    if type(shape) is tuple:
        assert array.numpy() is None and array.tolist() is None and array.pixels() is None
    state = (1, shape, np.dtype("u1"), False, bytes(8))
    made = read(tmp_path, pickle.dumps(Calls3(state)))
    assert type(made) is Array and made.numpy() is None


class Calls3:
    """An array with a state of one's own."""

    def __init__(self, state: tuple) -> None:
        self.state = state

    def __reduce__(self) -> tuple:
        function, args, _ = np.zeros(1).__reduce__()
        return function, args, self.state


@pytest.mark.parametrize("code", ["O8", "V8", "i99", "M8[ns]", "x", "i8,i8", "S99999", "S0", "U0", "(9,9)i8", "u1" * 30])
def test_arrays_of_other_types_hold_nothing(code: str) -> None:
    assert Array((1,), Dtype(code), False, bytes(8)).numpy() is None


@pytest.mark.parametrize("state", [b"", b"\x07\xe8\x0d\x01\x00\x00\x00\x00\x00\x00", b"\xff" * 10, "x" * 10, 5, [1] * 10])
def test_impossible_dates_stay_stubs(state: Any, tmp_path: Path) -> None:
    assert type(read(tmp_path, pickle.dumps(Calls(datetime.date, 2024, 1, 1)))) is Stub  # this is not how a date is stored
    named = b"cdatetime\ndatetime\n" + pickle.dumps(state, 2)[2:-1] + b"\x85R."
    assert type(read(tmp_path, HEAD + named)) is Stub


# -- damage ---------------------------------------------------------------------------------------------------------------


def sample() -> bytes:
    picture = np.random.default_rng(0).integers(0, 256, (20, 20, 3), dtype="u1")
    step = foreign("browsergym.experiments.loop.StepInfo", step=1, obs={"url": "http://x", "t": np.float64(1)}, shot=picture)
    return dumps([step, {"when": datetime.datetime(2024, 1, 1), "at": PurePosixPath("a/b"), "all": {1, 2}, "long": 2**99}])


def test_no_beginning_of_a_pickle_is_taken_for_the_whole(tmp_path: Path) -> None:
    data = sample()
    for size in [*range(0, len(data), 5), *range(len(data) - 100, len(data))]:
        assert reason(read(tmp_path, data[:size])) in {"truncated", "bad_pickle"}
    packed = gzip.compress(data)
    for size in [*range(1, len(packed), 9), len(packed) - 1]:
        assert reason(read(tmp_path, packed[:size])) in {"truncated", "bad_gzip", "bad_pickle"}


@pytest.mark.parametrize("packed", [False, True])
def test_flipped_bytes_end_as_a_value_or_a_reason(packed: bool, tmp_path: Path) -> None:
    data = gzip.compress(sample()) if packed else sample()
    draw = random.Random(7)
    start = time.process_time()
    outcomes = set()
    for _ in range(200):
        damaged = bytearray(data)
        for _ in range(draw.randint(1, 3)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        found = read(tmp_path, bytes(damaged))
        outcomes.add(reason(found))
        assert reason(found) in REASONS | {None}
    assert outcomes & REASONS and time.process_time() - start < 10


@settings(max_examples=200, deadline=2_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_any_bytes_end_as_a_value_or_a_reason(tmp_path: Path, data: bytes) -> None:
    assert reason(read(tmp_path, HEAD + data)) in REASONS | {None}


_OPCODES = [opcode.code.encode("latin-1") for opcode in pickletools.opcodes]


@settings(max_examples=200, deadline=2_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from([*_OPCODES, b"cnumpy\ndtype\n", b"cdatetime\ndatetime\n", b"ccollections\nOrderedDict\n", b"\x01", b"1\n"]),
        max_size=40,
    )
)
def test_any_instructions_end_as_a_value_or_a_reason(tmp_path: Path, codes: list[bytes]) -> None:
    assert reason(read(tmp_path, HEAD + b"N]}(N" + b"".join(codes) + b".")) in REASONS | {None}


def test_files_that_cannot_be_opened_say_why(tmp_path: Path) -> None:
    assert reason(unpickle.read(tmp_path, "absent.pkl")) == "missing"
    assert reason(unpickle.read(tmp_path, "../a.pkl")) == "outside_root"
    (tmp_path / "folder.pkl").mkdir()
    assert reason(unpickle.read(tmp_path, "folder.pkl")) == "unreadable"
    assert reason(read(tmp_path, LFS_MAGIC + b"v1\noid sha256:0\n")) == "lfs_pointer"
    assert unpickle.read(tmp_path, "absent.pkl", "step").unit == "step"


# -- screens --------------------------------------------------------------------------------------------------------------


def screens(count: int = 4) -> list[np.ndarray]:
    return [np.random.default_rng(number).integers(0, 256, (37, 53, 3), dtype="u1") for number in range(count)]


def pixels(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("protocol", PROTOCOLS[3:])
@pytest.mark.parametrize("packed", [False, True])
def test_screens_stay_in_the_file_and_come_out_pixel_for_pixel(protocol: int, packed: bool, tmp_path: Path) -> None:
    shown = screens()
    data = pickle.dumps({"shots": [*shown, shown[0]], "last": np.asfortranarray(shown[1])}, protocol)
    found = read(tmp_path, gzip.compress(data) if packed else data)
    assert all(type(array.data) is Blob and array.data.size == 37 * 53 * 3 for array in [*found["shots"], found["last"]])
    pictures = [unpickle_screens.screen(tmp_path, "a.pkl", f"0/shots/{number}", array) for number, array in enumerate(found["shots"])]
    for number in (0, 1, 3, 2, 0, 3):  # forwards, and back again
        assert np.array_equal(pixels(pictures[number].load()), shown[number])
    assert np.array_equal(pixels(unpickle_screens.screen(tmp_path, "a.pkl", "last", found["last"]).load()), shown[1])
    assert (
        pictures[2].member.startswith("0/shots/2@") and unpickle_screens.load(tmp_path, "a.pkl", pictures[2].member) == pictures[2].load()
    )


@pytest.mark.parametrize("channels", [1, 4])
def test_grey_screens_and_those_with_a_fourth_channel_are_shown(channels: int, tmp_path: Path) -> None:
    shown = np.random.default_rng(0).integers(0, 256, (41, 50, channels), dtype="u1")
    picture = unpickle_screens.screen(tmp_path, "a.pkl", "x", read(tmp_path, pickle.dumps(shown)))
    assert np.array_equal(pixels(picture.load()), np.repeat(shown, 3, 2) if channels == 1 else shown[..., :3])


@pytest.mark.parametrize(
    "value",
    [None, "text", b"x" * 5_000, np.zeros((40, 40, 3)), np.zeros((40, 40, 2), "u1"), np.zeros(5_000, "u1"), np.zeros((40_000, 1, 3), "u1")],
)
def test_what_is_no_screen_is_no_picture(value: Any, tmp_path: Path) -> None:
    assert unpickle_screens.screen(tmp_path, "a.pkl", "x", read(tmp_path, pickle.dumps(value))) is None


def test_a_screen_whose_size_is_a_lie_is_no_picture(tmp_path: Path) -> None:
    array = read(tmp_path, pickle.dumps(np.zeros((40, 40, 3), "u1")))
    array.shape = (41, 40, 3)
    assert unpickle_screens.screen(tmp_path, "a.pkl", "x", array) is None


def test_a_screen_of_a_file_that_has_changed_is_not_shown(tmp_path: Path) -> None:
    data = pickle.dumps(["x", screens()[0]])
    member = unpickle_screens.screen(tmp_path, "a.pkl", "x", read(tmp_path, data)[1]).member
    for other in (pickle.dumps(["xyz", screens()[0]]), data[:2_000], b"", gzip.compress(data)[:-500]):
        (tmp_path / "a.pkl").write_bytes(other)
        with pytest.raises(OSError):
            unpickle_screens.load(tmp_path, "a.pkl", member)
    for member in ("", "x", "x@5", "x@5+0x0x3", "x@99999999999+9x9x3x", "../x@1+1x1x9"):
        assert unpickle_screens.load(tmp_path, "a.pkl", member) is None
    assert unpickle_screens.load(tmp_path, "../a.pkl", "x@5+20x20x3") is None


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs a list of open files")
def test_many_files_of_screens_leave_no_file_open(tmp_path: Path) -> None:
    pictures = []
    for number in range(20):
        name = f"{number}.pkl.gz"
        found = read(tmp_path, gzip.compress(pickle.dumps(screens(1)[0])), name)
        pictures.append(unpickle_screens.screen(tmp_path, name, "x", found))
    before = len(os.listdir("/proc/self/fd"))
    for picture in [*pictures, *reversed(pictures)]:
        assert np.array_equal(pixels(picture.load()), screens(1)[0])
    assert len(os.listdir("/proc/self/fd")) == before
