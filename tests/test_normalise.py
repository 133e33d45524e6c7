"""Adjacency, and the normalise stage from hostile sources to tables."""

import hashlib
import io
import json
import os
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hearing import hear
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from evoaudit import measure, schema, screens
from evoaudit import normalise as normaliser
from evoaudit.__main__ import main
from evoaudit.align import align
from evoaudit.interrupts import patient
from evoaudit.sources import jsonio
from evoaudit.sources.base import Picture, Step, Trajectory

TABLES = ("trajectories", "steps", "changes", "images", "oracle_results", "annotations", "truth", "drops")


# -- adjacency ------------------------------------------------------------------------------------------------------------


def picture(name: str | None) -> Picture | None:
    return Picture(name) if name else None


def aligned(
    *steps: tuple, phase: str = "before", final: str | None = None, numbers: list[str | None] | None = None, gaps: tuple = (), **more
) -> list:
    """Align steps given as (before, after) names and return (before, after, gap, lost) names."""
    made = [
        Step("click", before=picture(before), after=picture(after), gap_before=index in gaps) for index, (before, after) in enumerate(steps)
    ]
    for step, number in zip(made, numbers or [], strict=False):
        step.source_step = number
    found = align(Trajectory("t", made, "f", phase, final=picture(final), **more))
    return [(one.before and one.before.file, one.after and one.after.file, one.gap_before, one.lost) for one in found]


def test_screens_logged_before_give_the_next_ones_as_after():
    assert aligned(("a", None), ("b", None), ("c", None)) == [
        ("a", "b", False, None),
        ("b", "c", False, None),
        ("c", None, False, "last_step"),
    ]
    assert aligned(("a", None), final="z") == [("a", "z", False, None)]


def test_screens_logged_after_give_the_previous_ones_as_before():
    assert aligned((None, "a"), (None, "b"), phase="after") == [(None, "a", False, "first_step"), ("a", "b", False, None)]
    assert aligned(("i", "a"), (None, "b"), phase="after") == [("i", "a", False, None), ("a", "b", False, None)]


def test_both_are_taken_as_given_and_filled_from_neighbours():
    assert aligned(("a", "b"), ("c", None), (None, "e"), phase="both") == [
        ("a", "b", False, None),
        ("c", None, False, "no_picture"),
        (None, "e", False, "no_picture"),
    ]
    assert aligned(("a", None), ("b", "c"), (None, "d"), phase="both") == [
        ("a", "b", False, None),
        ("b", "c", False, None),
        ("c", "d", False, None),
    ]


@pytest.mark.parametrize(
    ("phase", "steps"), [("before", [("a", None), ("b", None), ("c", None)]), ("after", [(None, "a"), (None, "b"), (None, "c")])]
)
def test_a_jump_in_the_sources_numbers_breaks_adjacency(phase, steps):
    for numbers, gap in (
        (["1", "2", "4"], True),
        (["4", "3", "1"], True),
        (["1", "2", "3"], False),
        (["1", "x", "9"], False),
        ([None, "2", "9"], True),
    ):
        found = aligned(*steps, phase=phase, numbers=numbers)
        assert found[2][2] == gap
        assert ("step_gap" in {lost for *_, lost in found}) == gap
    assert not aligned(*steps, phase=phase, numbers=["1", "2", "9"], consecutive=False)[2][2]


def test_a_gap_the_reader_knows_breaks_adjacency():
    assert aligned(("a", None), ("b", None), ("c", None), gaps=(1,)) == [
        ("a", None, False, "step_gap"),
        ("b", "c", True, None),
        ("c", None, False, "last_step"),
    ]


def test_several_actions_on_one_picture_leave_a_pair_to_none_of_them():
    assert aligned(("a", None), ("b", None), ("b", None), ("b", None), ("c", None), final="z") == [
        ("a", "b", False, None),
        ("b", None, False, "shared_picture"),
        (None, None, True, "shared_picture"),
        (None, "c", True, "shared_picture"),
        ("c", "z", False, None),
    ]
    assert aligned((None, "a"), (None, "b"), (None, "b"), (None, "c"), phase="after", numbers=["1", "2", "2", "3"]) == [
        (None, "a", False, "first_step"),
        ("a", None, False, "shared_picture"),
        (None, "b", True, "shared_picture"),
        ("b", "c", False, None),
    ]


def test_a_repeated_number_with_pictures_of_its_own_is_a_transition():
    assert aligned((None, "a"), (None, "b"), (None, "c"), phase="after", numbers=["1", "2", "2"])[1:] == [
        ("a", "b", False, None),
        ("b", "c", False, None),
    ]


def test_steps_that_name_both_pictures_are_taken_at_their_word():
    assert aligned(("a", "a"), ("a", "a"), phase="both") == [("a", "a", False, None), ("a", "a", False, None)]


@given(
    st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.sampled_from([None, "a", "b", "c"])), max_size=7),
    st.lists(st.sampled_from(["0", "1", "2", "3", "9", None]), min_size=7, max_size=7),
    st.booleans(),
)
def test_a_pair_is_complete_exactly_if_nothing_was_lost(steps, numbers, final):
    for before, after, _, lost in aligned(*steps, phase="both", numbers=numbers, final="z" if final else None):
        assert (before is not None and after is not None) == (lost is None)


# -- the stage ------------------------------------------------------------------------------------------------------------


def shot(number: int, size: tuple[int, int] = (64, 48), kind: str = "PNG") -> bytes:
    """Return a picture with ``number`` filled cells."""
    image = Image.new("RGB", size, (250, 250, 250))
    for cell in range(number):
        image.paste((10, 60 + cell, 200), (cell % 4 * 16, cell // 4 * 16, cell % 4 * 16 + 12, cell // 4 * 16 + 12))
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def wide() -> bytes:
    """Return a small file that is a valid PNG of 30,000 pixels' width."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 30_000, 40, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(bytes(30_001 * 40)))
        + chunk(b"IEND", b"")
    )


def write(path: Path, content: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def episode(name: object, *files: str | None, **more) -> dict:
    steps = [{"step": index, "action": "click", "x": 1, "y": 2, "before_image": file} for index, file in enumerate(files)]
    return {"trajectory_id": name, "benchmark": "b", "task_id": "7", "raw_reward": 0.0, "steps": steps, **more}


def plain(root: Path, *values: object, pictures: int = 4) -> Path:
    for number in range(pictures):
        write(root / "img" / f"{number}.png", shot(number))
    write(
        root / "trajectories.jsonl",
        b"".join((value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n" for value in values),
    )
    return root


def run(
    root: Path, out: Path, kind: str = "plain", threads: int = 1, simulated: bool = False, options: dict | None = None, *extra: str
) -> int:
    given = json.dumps({"source": "own", "kind": kind, "simulated": simulated, "options": options or {}})
    return main(["normalise", "--settings", given, "--root-folder", str(root), "--out", str(out), "--threads", str(threads), *extra])


def rows(out: Path, name: str) -> list[dict]:
    return pq.read_table(out / f"{name}.parquet").to_pylist()


def reasons(out: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows(out, "drops"):
        found.setdefault(row["unit"], []).append(row["reason"])
    return found


def digests(out: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.glob("*.parquet"))}


def reconciles(out: Path) -> dict:
    """Check every unit's counts and the drop rows against them; return the counts by unit."""
    counts = json.loads((out / "manifest.json").read_text())["counts"]
    units = {counts["unit"]: counts, **counts["others"]}
    listed = reasons(out)
    for unit, one in units.items():
        assert one["read"] == one["kept"] + sum(one["dropped"].values())
        assert sorted(listed.get(unit, [])) == sorted(reason for reason, n in one["dropped"].items() for _ in range(n))
    assert units["trajectory"]["kept"] == len(rows(out, "trajectories"))
    assert units.get("step", {"kept": 0})["kept"] == len(rows(out, "steps")) == len(rows(out, "changes"))
    return units


def test_a_plain_source_becomes_the_declared_tables(tmp_path):
    root = plain(tmp_path / "in", episode("t-1", "img/0.png", "img/1.png", "img/1.png", domain="Shop"), episode("t-2", "img/3.png"))
    assert run(root, tmp_path / "out") == 0
    for name in TABLES:
        assert pq.read_schema(tmp_path / "out" / f"{name}.parquet").names == schema.TABLES[name].names
    (first, second) = rows(tmp_path / "out", "trajectories")
    assert (first["trajectory_id"], first["domain"], first["n_steps"], first["simulated"]) == ("t-1", "shop", 3, False)
    assert first["source_sha256"] == hashlib.sha256((root / "trajectories.jsonl").read_bytes()).hexdigest() == second["source_sha256"]
    changes = rows(tmp_path / "out", "changes")
    assert [(row["step"], row["state"], row["changed_pixels"], row["changed_tiles"]) for row in changes] == [
        (0, "changed", 144, 1),
        (1, "unknown", None, None),
        (2, "unknown", None, None),
        (0, "unknown", None, None),
    ]
    assert (changes[0]["tiles_x"], changes[0]["tiles_y"], changes[0]["tiles"]) == (4, 3, b"\x80\x00")
    assert sorted(reasons(tmp_path / "out")["transition"]) == ["last_step", "shared_picture", "shared_picture"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*(f"{name}.parquet" for name in TABLES), "manifest.json"}
    reconciles(tmp_path / "out")


def test_reencoded_twins_are_one_image_and_no_change(tmp_path):
    root = plain(tmp_path / "in", episode("t", "img/0.png", "img/0.bmp", "img/1.png"))
    write(root / "img" / "0.bmp", shot(0, kind="BMP"))
    assert run(root, tmp_path / "out") == 0
    steps, changes, images = (rows(tmp_path / "out", name) for name in ("steps", "changes", "images"))
    assert steps[0]["before_image"] == steps[0]["after_image"] == steps[1]["before_image"]
    assert [row["state"] for row in changes] == ["same", "changed", "unknown"]
    assert [(row["file"], row["n_uses"]) for row in sorted(images, key=lambda row: row["file"])] == [("img/0.bmp", 3), ("img/1.png", 2)]


def test_bad_pictures_keep_their_trajectory_and_say_what_they_are(tmp_path):
    names = {
        "whole.png": shot(1),
        "cut.png": shot(1)[:90],
        "wide.png": wide(),
        "lfs.png": b"version https://git-lfs.github.com/spec/v1\n",
        "page.png": b"<html>",
    }
    root = plain(
        tmp_path / "in", episode("t", *(f"img/{name}" for name in names), "img/gone.png", "../out.png", "/etc/hostname", "img/link.png")
    )
    for name, data in names.items():
        write(root / "img" / name, data)
    write(tmp_path / "out.png", shot(2))
    (root / "img" / "link.png").symlink_to(tmp_path / "out.png")
    assert run(root, tmp_path / "result") == 0
    found = {row["file"]: row["status"] for row in rows(tmp_path / "result", "images")}
    assert found == {
        "img/whole.png": "ok",
        "img/cut.png": "truncated",
        "img/wide.png": "too_large",
        "img/lfs.png": "lfs_pointer",
        "img/page.png": "not_an_image",
        "img/gone.png": "missing",
        "../out.png": "missing",
        "/etc/hostname": "missing",
        "img/link.png": "missing",
    }
    units = reconciles(tmp_path / "result")
    assert units["picture"] == {
        "read": 9,
        "kept": 1,
        "dropped": {"lfs_pointer": 1, "missing": 1, "not_an_image": 1, "outside_root": 3, "too_large": 1, "truncated": 1},
    }
    assert all(row["state"] == "unknown" for row in rows(tmp_path / "result", "changes"))
    assert next(row["width"] for row in rows(tmp_path / "result", "images") if row["status"] == "too_large") == 30_000


@pytest.mark.parametrize("name", ["a/b", "..", "a\\b", "", " ", "x" * 201, "a\nb", "a\u0000b", "\ud800", "a..b"])
def test_an_unsafe_id_is_left_out(tmp_path, name):
    root = plain(tmp_path / "in", episode("fine", "img/0.png"), episode(name, "img/1.png"))
    assert run(root, tmp_path / "out") == 0
    assert [row["trajectory_id"] for row in rows(tmp_path / "out", "trajectories")] == ["fine"]
    assert reasons(tmp_path / "out")["trajectory"] == ["unsafe_id"]
    reconciles(tmp_path / "out")


def test_every_bad_record_is_counted_with_its_place(tmp_path):
    lost = episode("lost")
    lost["steps"] = [{"no": "action"}]
    root = plain(
        tmp_path / "in",
        b"\xef\xbb\xbf" + json.dumps(episode("a", "img/0.png")).encode(),
        b'{"trajectory_id": "b", "steps": [',
        episode("a", "img/1.png"),
        episode("c"),
        lost,
        [1],
        b"[" * 100_000,
        episode("d\u00e9", "img/2.png", instruction="half \ud800 and nul \u0000"),
    )
    assert run(root, tmp_path / "out") == 0
    dropped = {row["item"]: row["reason"] for row in rows(tmp_path / "out", "drops") if row["unit"] == "trajectory"}
    assert dropped == {
        "trajectories.jsonl:2": "bad_json",
        "trajectories.jsonl: a": "duplicate_id",
        "trajectories.jsonl: c": "no_steps",
        "trajectories.jsonl: lost": "no_steps",
        "trajectories.jsonl:6": "bad_record",
        "trajectories.jsonl:7": "too_deep",
    }
    assert [row["trajectory_id"] for row in rows(tmp_path / "out", "trajectories")] == ["a", "dé"]
    assert rows(tmp_path / "out", "trajectories")[1]["instruction"] == "half ? and nul \N{REPLACEMENT CHARACTER}"
    reconciles(tmp_path / "out")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda root: None, "folder not found"),
        (lambda root: write(root, b""), "is not a folder"),
        (lambda root: root.mkdir(), "trajectories.jsonl"),
        (lambda root: plain(root, pictures=0), "holds no plain trajectories"),
        (lambda root: plain(root, b"{", b"{", episode("x")), "'bad_json' 2 times, first trajectories.jsonl:1"),
    ],
)
def test_a_source_of_which_nothing_is_left_is_refused_in_one_line(tmp_path, capsys, make, words):
    make(tmp_path / "in")
    assert run(tmp_path / "in", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.strip().splitlines()) == 1
    assert not list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else True


def test_a_folder_that_cannot_be_listed_is_counted(tmp_path, monkeypatch):
    def scandir(path, real=os.scandir):
        if isinstance(path, Path) and path.name == "img":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    root = plain(tmp_path / "in", episode("t", "img/0.png"))
    monkeypatch.setattr(jsonio.os, "scandir", scandir)
    assert run(root, tmp_path / "out") == 0
    assert reasons(tmp_path / "out")["folder"] == ["unreadable"]
    reconciles(tmp_path / "out")


def test_a_full_disk_is_one_line_that_names_the_folder(tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    root = plain(tmp_path / "in", episode("t", "img/0.png"))
    monkeypatch.setattr(normaliser, "_write", full)
    assert run(root, tmp_path / "out") == 2
    assert capsys.readouterr().err == f"evoaudit normalise: {tmp_path / 'out'}: No space left on device\n"
    assert not list((tmp_path / "out").iterdir())


def test_options_that_are_no_object_are_refused(tmp_path, capsys):
    root = plain(tmp_path / "in", episode("t", "img/0.png"))
    assert run(root, tmp_path / "out", options=[1]) == 2
    assert "'options' is not a JSON object" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["osworld", "agentrewardbench"])
def test_an_empty_folder_names_what_was_expected(tmp_path, capsys, kind):
    (tmp_path / "in").mkdir()
    assert run(tmp_path / "in", tmp_path / "out", kind) == 2
    assert "expected e.g." in capsys.readouterr().err


def many(root: Path, order: random.Random | None = None) -> Path:
    values = [episode(f"t-{n:02}", *(f"img/{(n + k) % 6}.png" for k in range(n % 4 + 1))) for n in range(25)]
    values.append(episode("z-gone", "img/none.png", "img/1.png"))
    if order:
        order.shuffle(values)
    return plain(root, *values, pictures=6)


def test_workers_never_change_a_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "ALONE", 0)
    monkeypatch.setattr(measure, "MESSAGE", 2)
    root = many(tmp_path / "in", random.Random(3))
    for threads in (1, 3):
        assert run(root, tmp_path / f"out-{threads}", threads=threads) == 0
    assert digests(tmp_path / "out-1") == digests(tmp_path / "out-3")
    first, second = (json.loads((tmp_path / f"out-{threads}" / "manifest.json").read_text()) for threads in (1, 3))
    assert first["files"] == second["files"]
    assert first["counts"] == second["counts"]


def test_a_killed_worker_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measure, "ALONE", 0)
    monkeypatch.setattr(measure, "_start", _die)
    assert run(many(tmp_path / "in"), tmp_path / "out", threads=2) == 2
    assert "a worker process was killed" in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())


def _die(*_: object) -> None:
    os._exit(9)


#: Measures without end with two workers; says when they are at work.
_ENDLESS = """
import sys, time
from evoaudit import measure
from evoaudit.__main__ import main
from evoaudit.sources import plain
read = plain.read
def endless(root, options):
    found = list(read(root, options))
    yield from found
    print("started", flush=True)
    while True:
        time.sleep(0.01)
        found[0].native_id += "x"
        yield found[0]
measure.ALONE, measure.MESSAGE, plain.read = 0, 1, endless
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_a_run_ends_its_workers_end_with_it(tmp_path, sent):
    settings = json.dumps({"source": "own", "kind": "plain"})
    arguments = ["normalise", "--settings", settings, "--root-folder", str(many(tmp_path / "in")), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-c", _ENDLESS, *arguments, "--threads", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hear,
    )
    try:
        assert process.stdout.readline() == "started\n"
        (os.killpg if sent == signal.SIGINT else os.kill)(process.pid, sent)
        errors = process.communicate(timeout=20)[1]  # a worker left over would keep these pipes open
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if sent == signal.SIGINT:
        assert errors == "evoaudit normalise: interrupted; run it again\n"
        assert not list((tmp_path / "out").iterdir())


def test_an_interrupt_waits_until_the_pool_can_take_it_and_is_never_lost(heard):
    before = signal.getsignal(signal.SIGINT)
    passed = []
    with pytest.raises(KeyboardInterrupt), patient() as check:
        check()
        os.kill(os.getpid(), signal.SIGINT)
        passed.append("not yet")
        check()
    with pytest.raises(KeyboardInterrupt), patient():
        os.kill(os.getpid(), signal.SIGINT)
        passed.append("not yet")
    assert passed == ["not yet"] * 2
    assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture
def decodings(monkeypatch) -> list[int]:
    """The pictures decoded so far, by size of their file."""
    met: list[int] = []
    real = screens.of_image
    monkeypatch.setattr(screens, "of_image", lambda image: met.append(1) or real(image))
    return met


def test_a_rerun_with_more_logs_decodes_the_new_pictures_only(tmp_path, decodings):
    root = plain(tmp_path / "in", *(episode(name, f"img/{k}.png", f"img/{k + 1}.png") for k, name in enumerate("abc")), pictures=4)
    assert run(root, tmp_path / "results" / "one") == 0
    assert len(decodings) == 4  # four files, however often they are named
    decodings.clear()
    more = [episode(name, f"img/{k}.png", f"img/{k + 1}.png") for k, name in enumerate("abcde")]
    plain(root, *more, pictures=6)
    assert run(root, tmp_path / "results" / "two") == 0
    assert len(decodings) == 3  # two new pictures, and the old one that a new one is compared with
    assert run(root, tmp_path / "elsewhere" / "two") == 0
    assert digests(tmp_path / "results" / "two") == digests(tmp_path / "elsewhere" / "two")


def test_knowledge_that_was_damaged_or_belongs_to_others_is_not_used(tmp_path, decodings):
    root = plain(tmp_path / "in", episode("a", "img/0.png", "img/1.png"), pictures=2)
    assert run(root, tmp_path / "results" / "one") == 0
    for file, old, new in (
        ("images.parquet", None, b"junk"),
        ("manifest.json", b'"format_version": ', b'"format_version": 9'),
        ("manifest.json", b'"source": "own"', b'"source": "other"'),
        ("manifest.json", b'"pillow": "', b'"pillow": "0.'),
        ("manifest.json", b"{", b"["),
    ):
        folder = tmp_path / old.hex()[:20] / file if old else tmp_path / "x"
        shutil.copytree(tmp_path / "results" / "one", folder / "one")
        raw = (folder / "one" / file).read_bytes()
        (folder / "one" / file).write_bytes(raw.replace(old, new, 1) if old else new)
        decodings.clear()
        assert run(root, folder / "two") == 0
        assert len(decodings) == 2, file
        assert digests(folder / "two") == digests(tmp_path / "results" / "one")


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b", "a*", "a[b]"])
def test_a_folder_may_have_any_name(tmp_path, decodings, name):
    root = plain(tmp_path / "in", episode("a", "img/0.png", "img/1.png"), pictures=2)
    assert run(root, tmp_path / name / "one") == 0
    decodings.clear()
    assert run(root, tmp_path / name / "two") == 0
    assert not decodings
    assert digests(tmp_path / name / "two") == digests(tmp_path / name / "one")


@pytest.mark.parametrize("kind", ["gone", "cut", "shorter", "junk"])
def test_knowledge_that_goes_while_it_is_read_costs_time_alone(tmp_path, monkeypatch, kind):
    root = plain(tmp_path / "in", episode("a", "img/0.png", "img/1.png"), pictures=2)
    assert run(root, tmp_path / "results" / "one") == 0

    def found(out: Path, source: str, sort: str) -> list[Path]:
        for file in ("images.parquet", "steps.parquet", "changes.parquet"):
            path = tmp_path / "results" / "one" / file
            if kind == "gone":
                path.unlink()
            elif kind == "cut":
                path.write_bytes(path.read_bytes()[:-9])
            elif kind == "shorter" and file == "changes.parquet":
                pq.write_table(pq.read_table(path).slice(1), path)
            elif kind == "junk" and file == "images.parquet":
                table = pq.read_table(path)
                pq.write_table(table.set_column(3, "file_sha256", pa.array(["no hash"] * table.num_rows)), path)
        return [tmp_path / "results" / "one"]

    monkeypatch.setattr("evoaudit.known.beside", found)
    assert run(root, tmp_path / "results" / "two") == 0
    assert rows(tmp_path / "results" / "two", "trajectories")


def test_a_manifest_that_is_no_file_is_passed_over(tmp_path):
    root = plain(tmp_path / "in", episode("a", "img/0.png", "img/1.png"), pictures=2)
    for name in ("pipe", "deep"):
        (tmp_path / "results" / name).mkdir(parents=True)
    os.mkfifo(tmp_path / "results" / "pipe" / "manifest.json")
    (tmp_path / "results" / "deep" / "manifest.json").write_text("[" * 100_000)
    assert run(root, tmp_path / "results" / "two") == 0


def test_knowledge_that_cannot_be_kept_costs_time_alone(tmp_path, monkeypatch):
    root = plain(tmp_path / "in", episode("a", "img/0.png", "img/1.png"), pictures=2)
    assert run(root, tmp_path / "results" / "one") == 0

    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("evoaudit.known.sqlite3.connect", full)
    assert run(root, tmp_path / "results" / "two") == 0
    assert digests(tmp_path / "results" / "two") == digests(tmp_path / "results" / "one")


def test_obs_phase_overrules_the_source(tmp_path, capsys):
    root = plain(tmp_path / "in", episode("a", "img/0.png", "img/1.png", "img/2.png"), pictures=3)
    assert run(root, tmp_path / "before") == 0
    assert run(root, tmp_path / "after", options={"obs_phase": "after"}) == 0
    honest, moved = rows(tmp_path / "before", "steps"), rows(tmp_path / "after", "steps")
    assert {row["obs_phase"] for row in moved} == {"after"}
    assert [row["after_image"] for row in moved] == [row["before_image"] for row in honest]
    assert [row["before_image"] for row in moved] == [None, *(row["before_image"] for row in honest[:-1])]
    both = plain(tmp_path / "both", episode("a", steps=[{"action": "click", "before_image": "img/0.png", "after_image": "img/1.png"}]))
    assert run(both, tmp_path / "out", options={"obs_phase": "after"}) == 2
    assert "remove obs_phase" in capsys.readouterr().err


@pytest.mark.parametrize("group", [8192, 16])
def test_the_order_of_lines_and_the_folder_never_change_a_table(tmp_path, monkeypatch, group):
    monkeypatch.setattr("evoaudit.store.ROW_GROUP", group)
    monkeypatch.setattr("evoaudit.normalise.ROW_GROUP", group)
    assert run(many(tmp_path / "a"), tmp_path / "out-a") == 0
    assert run(many(tmp_path / "elsewhere" / "b", random.Random(5)), tmp_path / "out-b") == 0
    one, two = digests(tmp_path / "out-a"), digests(tmp_path / "out-b")
    assert {name for name in one if one[name] != two[name]} == {"trajectories.parquet"}  # it holds the shuffled file's own hash
    for row, other in zip(rows(tmp_path / "out-a", "trajectories"), rows(tmp_path / "out-b", "trajectories"), strict=True):
        assert {**row, "source_sha256": ""} == {**other, "source_sha256": ""}


def test_simulated_sources_are_marked_and_get_answers_and_truth(tmp_path):
    root = plain(tmp_path / "in", episode("a", "img/0.png"), episode("c", "img/0.png", task_id="8", benchmark=None))
    write(
        tmp_path / "truth.jsonl",
        "".join(
            json.dumps(
                {
                    "format": kind,
                    "native_id": name,
                    "planted": "t3-noop",
                    "outcome": "gf",
                    "category": "t3-noop",
                    "lookalike": None,
                    "evidence_step": 2,
                }
            )
            + "\n"
            for kind, name in (("plain", "a"), ("plain", "b"), ("osworld", "c"))
        ),
    )
    write(tmp_path / "tasks.jsonl", '{"task_id": "7", "reference": "42"}\n{"task_id": "8", "infeasible": true}\n')
    extra = ("--truth", str(tmp_path / "truth.jsonl"), "--tasks", str(tmp_path / "tasks.jsonl"))
    assert run(root, tmp_path / "out", "plain", 1, True, None, *extra) == 0
    found = rows(tmp_path / "out", "trajectories")
    assert [(row["benchmark"], row["simulated"], row["reference"]) for row in found] == [
        ("sim-b", True, "42"),
        ("sim-plain", True, "infeasible"),
    ]
    assert [(row["trajectory_id"], row["planted"], row["evidence_step"]) for row in rows(tmp_path / "out", "truth")] == [
        ("a", "t3-noop", 2)
    ]
    assert reasons(tmp_path / "out")["row"] == ["no_trajectory"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("--tasks", '{"task_id": "7"}\n{', ":2"),
        ("--tasks", '{"reference": 1}', "task_id is missing"),
        ("--truth", '{"format": "plain"}', "planted"),
    ],
)
def test_a_bad_answer_file_names_its_line(tmp_path, capsys, name, content, words):
    write(tmp_path / "f.jsonl", content)
    assert (
        run(plain(tmp_path / "in", episode("a", "img/0.png")), tmp_path / "out", "plain", 1, False, None, name, str(tmp_path / "f.jsonl"))
        == 2
    )
    assert words in capsys.readouterr().err


def test_options_override_what_the_source_says(tmp_path):
    root = plain(tmp_path / "in", episode("a", "img/0.png"))
    given = {"license": "CC0-1.0", "domain": "Travel", "benchmark": "mine", "experiment": "e"}
    assert run(root, tmp_path / "out", options=given) == 0
    (row,) = rows(tmp_path / "out", "trajectories")
    assert {name: row[name] for name in given} == {**given, "domain": "travel"}


def osworld(root: Path) -> Path:
    folder = root / "m" / "chrome" / "0810415c-bde4-4443-9047-d5f70165a697"
    lines = [{"step_num": n, "action": f"pyautogui.click({n}, 2)", "screenshot_file": f"step_{n}.png"} for n in (1, 2, 2, 4)]
    write(folder / "traj.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    write(folder / "result.txt", "0.0")
    for number in (0, 1, 2, 4):
        write(folder / f"step_{number}.png", shot(number))
    return root


def test_osworld_screens_lie_after_their_actions(tmp_path):
    assert run(osworld(tmp_path / "in"), tmp_path / "out", "osworld") == 0
    images = {row["image_id"]: row["file"].rpartition("/")[2] for row in rows(tmp_path / "out", "images")}
    assert [
        (images.get(row["before_image"]), images.get(row["after_image"]), row["gap_before"]) for row in rows(tmp_path / "out", "steps")
    ] == [("step_0.png", "step_1.png", False), ("step_1.png", None, False), (None, "step_2.png", True), (None, "step_4.png", True)]
    assert reasons(tmp_path / "out") == {"transition": ["shared_picture", "shared_picture", "step_gap"]}
    (row,) = rows(tmp_path / "out", "trajectories")
    assert row["trajectory_id"] == "own:m/chrome/0810415c-bde4-4443-9047-d5f70165a697"


def agentrewardbench(root: Path) -> Path:
    steps = [
        {
            "num": n,
            "action": "click('1')" if n < 2 else None,
            "screenshot_path": f"trajectories/screenshots/webarena/m/t/screenshot_step_{n}.png",
            "url": "http://x.example/",
            "extra_element_properties": {"1": {"bbox": [0, 0, 9, 9], "visibility": 1}},
        }
        for n in range(3)
    ]
    write(
        root / "cleaned" / "webarena" / "m" / "e" / "t.json", json.dumps({"goal": "g", "steps": steps, "summary_info": {"cum_reward": 1}})
    )
    for number in range(3):
        write(root / "screenshots" / "webarena" / "m" / "t" / f"screenshot_step_{number}.png", shot(number))
    write(
        root / "data" / "annotations.csv",
        "annotator_name,benchmark,task_id,model_name,exp_name,trajectory_success,trajectory_side_effect,"
        "trajectory_optimality,trajectory_looping\nA,webarena,t,m,e,Successful,No,1,No\n",
    )
    return root


def test_agentrewardbench_joins_screens_and_annotations(tmp_path):
    assert run(agentrewardbench(tmp_path / "in"), tmp_path / "out", "agentrewardbench") == 0
    assert [row["state"] for row in rows(tmp_path / "out", "changes")] == ["changed", "changed"]
    assert "transition" not in reasons(tmp_path / "out")
    assert (
        {row["trajectory_id"] for row in rows(tmp_path / "out", "annotations")}
        == {"own:webarena/m/e/t"}
        == {row["trajectory_id"] for row in rows(tmp_path / "out", "trajectories")}
    )
    assert reconciles(tmp_path / "out")["row"]["kept"] == 4


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(["plain", "osworld", "agentrewardbench"]), seed=st.integers(0, 2**32))
def test_random_damage_never_crashes_and_counts_reconcile(tmp_path_factory, kind, seed):
    folder = tmp_path_factory.mktemp("damage")
    root, rng = folder / "in", random.Random(seed)
    {
        "plain": lambda path: plain(path, *(episode(f"t{n}", "img/0.png", "img/1.png", "img/2.png") for n in range(3))),
        "osworld": osworld,
        "agentrewardbench": agentrewardbench,
    }[kind](root)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    for path in rng.sample(files, rng.randint(1, 3)):
        raw = bytearray(path.read_bytes())
        for _ in range(rng.randint(1, 6)):
            place = rng.randint(0, len(raw))
            raw[place : place + rng.randint(0, 4)] = bytes(
                rng.choice([rng.randrange(256), *b'"{}[],:.0']) for _ in range(rng.randint(0, 4))
            )
        path.write_bytes(bytes(raw[: rng.choice([len(raw), rng.randint(0, len(raw))])]))
    code = run(root, folder / "out", kind)
    assert code in (0, 2)
    if code == 0:
        reconciles(folder / "out")
    else:
        assert not (folder / "out" / "manifest.json").exists()
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["osworld", "agentrewardbench", "webvoyager", "online-mind2web", "opencua", "aitz"])
def test_real_logs_reconcile(tmp_path, real_logs, kind):
    assert run(real_logs / kind, tmp_path / "out", kind, threads=2) == 0
    reconciles(tmp_path / "out")


def test_a_sort_that_finds_no_room_is_one_line(tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise duckdb.IOException("no space left")

    root = plain(tmp_path / "in", episode("b", "img/0.png"), episode("a", "img/1.png"))
    monkeypatch.setattr(duckdb, "connect", full)
    assert run(root, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert "cannot be sorted" in error and len(error.splitlines()) == 1
    assert not list((tmp_path / "out").iterdir())
