"""Mind2Web: task arrays, the encrypted archive, the raw dump and the Parquet shards, alone and mixed, whole and damaged."""

import base64
import builtins
import io
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evoaudit.actions import OPS
from evoaudit.align import align
from evoaudit.normalise import Source, normalise
from evoaudit.sources import mind2web, mind2web_json, mind2web_parquet, mind2web_skim
from evoaudit.sources.base import Picture, Skipped, Trajectory
from evoaudit.store import Counts, read_rows

SHARED = Path(os.environ.get("EVOAUDIT_SHARED", Path(__file__).parents[2] / "shared"))


# -- native files ---------------------------------------------------------------------------------------------------------


def png(shade: int, width: int = 8, height: int = 4) -> bytes:
    """Return a one-colour PNG."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = (b"\0" + bytes([shade]) * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def candidate(box: str, **flags: object) -> dict:
    attributes = {"backend_node_id": "77", "bounding_box_rect": box, "class": 'a "b"', "data_pw_testid_buckeye_candidate": "1"}
    return {"tag": "input", "attributes": json.dumps(attributes), "backend_node_id": "77", **flags}


def action(uid: str, op: str, value: str = "", candidates: list | None = None) -> dict:
    """Return an action as the text set has it, the heavy fields first and last."""
    target = [candidate("10,20,200,32", is_original_target=True, is_top_level_target=True)]
    return {
        "action_uid": uid,
        "raw_html": f'<html backend_node_id="1" title="{uid} [{{\\">',
        "cleaned_html": '<p class="]}">x</p>',
        "operation": {"original_op": op, "value": value, "op": op if op in ("TYPE", "SELECT") else "CLICK"},
        "pos_candidates": target if candidates is None else candidates,
        "neg_candidates": [candidate("0,0,1,1"), candidate("-1,-1,-1,-1")],
    }


REPRS = [
    "[link]  Hotels -> CLICK",
    "[textbox]  From -> To -> TYPE: Oslo -> Rome",
    "[div]  Menu -> HOVER",
    "[combobox]  Guests -> SELECT: 2",
    "[searchbox]   -> ENTER",
]


def task(identity: str = "t1", uids: str = "abcde") -> dict:
    actions = [
        action(uids[0], "CLICK"),
        action(
            uids[1],
            "TYPE",
            "Oslo -> Rome",
            [candidate("9,9,9,9"), candidate("5,6,7,8", is_top_level_target=True), candidate("1.5,2,3,4", is_original_target="True")],
        ),
        action(uids[2], "HOVER", candidates=[]),
        action(uids[3], "SELECT", "2", [candidate("-1,-1,-1,-1", is_original_target=True), candidate("5,6,0,8", is_top_level_target=True)]),
        action(uids[4], "ENTER"),
    ]
    return {
        "annotation_id": identity,
        "website": "trips",
        "domain": "Travel",
        "subdomain": "Hotel",
        "confirmed_task": f"Book a room ({identity})",
        "action_reprs": REPRS,
        "actions": actions,
    }


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def shot(uid: str, before: object, after: object, box: object = None) -> dict:
    """Return a dump's entry; bytes are written as base64, anything else as it is."""

    def text(value: object) -> object:
        return base64.b64encode(value).decode() if isinstance(value, bytes) else value

    place = None if box is None else dict(zip(("x", "y", "width", "height"), box, strict=True))
    return {
        "before": {"dom": "<p>", "screenshot": text(before)},
        "action_uid": uid,
        "action": {"bounding_box": place},
        "after": {"screenshot": text(after)},
    }


def row(identity: str, index: int, **changes: object) -> dict:
    """Return a Parquet row of the same task."""
    given = task(identity)["actions"][index]
    return {
        "action_uid": given["action_uid"],
        "raw_html": given["raw_html"],
        "cleaned_html": given["cleaned_html"],
        "operation": json.dumps(given["operation"]),
        "pos_candidates": [json.dumps(one) for one in given["pos_candidates"]],
        "neg_candidates": [json.dumps(one) for one in given["neg_candidates"]],
        "website": "trips",
        "domain": "Travel",
        "subdomain": "Hotel",
        "annotation_id": identity,
        "confirmed_task": f"Book a room ({identity})",
        "screenshot": {"bytes": png(index), "path": f"{index}.jpg"},
        "action_reprs": REPRS,
        "target_action_index": str(index),
        "target_action_reprs": REPRS[index],
    } | changes


PARQUET = pa.schema(
    [(name, pa.string()) for name in ("action_uid", "raw_html", "cleaned_html", "operation")]
    + [(name, pa.list_(pa.string())) for name in ("pos_candidates", "neg_candidates")]
    + [(name, pa.string()) for name in ("website", "domain", "subdomain", "annotation_id", "confirmed_task")]
    + [("screenshot", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("action_reprs", pa.list_(pa.string()))]
    + [(name, pa.string()) for name in ("target_action_index", "target_action_reprs")]
)


def shard(path: Path, rows: list[dict], **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=PARQUET), path, **options)
    return path


def locked_zip(path: Path, members: dict[str, bytes], password: bytes = b"mind2web") -> Path:
    """Write a zip archive under the traditional encryption (APPNOTE 6.1), which the standard library reads but does not write."""

    def keyed() -> tuple:
        keys = [0x12345678, 0x23456789, 0x34567890]

        def update(byte: int) -> None:
            keys[0] = crc(keys[0], byte)
            keys[1] = ((keys[1] + (keys[0] & 255)) * 134775813 + 1) & 0xFFFFFFFF
            keys[2] = crc(keys[2], keys[1] >> 24)

        for byte in password:
            update(byte)
        return keys, update

    def crc(value: int, byte: int) -> int:
        return (zlib.crc32(bytes([byte]), value ^ 0xFFFFFFFF)) ^ 0xFFFFFFFF

    out, directory = b"", b""
    for name, data in members.items():
        keys, update = keyed()
        squeeze = zlib.compressobj(wbits=-15)
        plain = bytes(11) + bytes([zlib.crc32(data) >> 24]) + squeeze.compress(data) + squeeze.flush()
        cipher = bytearray()
        for byte in plain:
            mask = keys[2] | 2
            cipher.append(byte ^ (mask * (mask ^ 1) >> 8 & 255))
            update(byte)
        head = struct.pack("<5H3L2H", 20, 1, 8, 0, 0x21, zlib.crc32(data), len(cipher), len(data), len(name), 0)
        directory += b"PK\1\2\x14\0" + head + struct.pack("<3H2L", 0, 0, 0, 0, len(out)) + name.encode()
        out += b"PK\3\4" + head + name.encode() + bytes(cipher)
    end = struct.pack("<4H2LH", 0, 0, len(members), len(members), len(directory), len(out), 0)
    return write(path, out + directory + b"PK\5\6" + end)


# -- reading --------------------------------------------------------------------------------------------------------------


def read(root: Path, **options: object) -> tuple[dict[str, Trajectory], list[tuple[str, str]]]:
    """Return the trajectories by id, each of which must come once, and (item, reason) of what was skipped."""
    found = list(mind2web.read(root, options))
    kept = [one for one in found if isinstance(one, Trajectory)]
    assert len({one.native_id for one in kept}) == len(kept)
    return {one.native_id: one for one in kept}, [(one.item, one.reason) for one in found if isinstance(one, Skipped)]


def notes(found: Trajectory) -> list[tuple[str, str, str]]:
    return [(unit, item, reason) for unit, item, reason, _ in found.skipped]


def box(found: Trajectory, step: int) -> tuple | None:
    target = found.steps[step].target
    return target and (target.left, target.top, target.width, target.height)


def pixels(picture: Picture | None) -> bytes | None:
    return None if picture is None else picture.load()


# -- golden rows ----------------------------------------------------------------------------------------------------------


def test_a_task_array_gives_these_steps(tmp_path: Path) -> None:
    write(tmp_path / "data/train/train_0.json", [task()])
    kept, skipped = read(tmp_path)
    found = kept["t1"]
    assert [(s.source_step, s.op, s.value, s.target.text) for s in found.steps] == [
        ("0", "click", None, "[link]  Hotels"),
        ("1", "type", "Oslo -> Rome", "[textbox]  From -> To"),
        ("2", "hover", None, "[div]  Menu"),
        ("3", "select", "2", "[combobox]  Guests"),
        ("4", "key", "Enter", "[searchbox]"),
    ]
    assert [box(found, step) for step in range(5)] == [
        (10, 20, 200, 32),
        (1.5, 2, 3, 4),
        (None, None, None, None),
        (5, 6, 0, 8),
        (10, 20, 200, 32),
    ]
    assert found.steps[0].op_raw == '{"original_op": "CLICK", "value": "", "op": "CLICK"}'
    assert [(s.before, s.after, s.gap_before) for s in found.steps] == [(None, None, False)] * 5
    assert (found.obs_phase, found.experiment, found.benchmark, found.task_id) == ("before", "train", "mind2web", "t1")
    assert (found.domain, found.website, found.instruction) == ("travel", "trips", "Book a room (t1)")
    assert (found.license, found.source_file, found.agent, found.skipped, skipped) == ("CC-BY-4.0", "data/train/train_0.json", None, [], [])


def test_a_dump_gives_the_screens_before_and_after(tmp_path: Path) -> None:
    write(tmp_path / "data/train/train_0.json", [task()])
    dump = [shot("a", png(1), png(2)), shot("b", png(3, 8, 9), png(4, 8, 5)), shot("c", png(5), None, (7, 8, 9, 10)), shot("e", "", png(6))]
    write(tmp_path / "raw_dump/task/t1/processed/screenshot.json", dump)
    kept, skipped = read(tmp_path)
    found = kept["t1"]
    assert (found.obs_phase, len(kept), skipped, found.skipped) == ("both", 1, [], [])
    assert [(pixels(s.before), pixels(s.after)) for s in found.steps] == [
        (png(1), png(2)),
        (png(3, 8, 9), png(4, 8, 5)),
        (png(5), None),
        (None, None),  # the dump has no such action
        (None, png(6)),
    ]
    assert box(found, 2) == (7, 8, 9, 10) and box(found, 0) == (10, 20, 200, 32)
    assert [step.target.text for step in found.steps[2:4]] == ["[div]  Menu", "[combobox]  Guests"]
    assert {step.before.file for step in found.steps[:2]} == {"raw_dump/task/t1/processed/screenshot.json"}


@pytest.mark.parametrize("place", ["task/t1/processed", "t1/processed", "a/b/t1"])
def test_a_dump_may_lie_anywhere(place: str, tmp_path: Path) -> None:
    write(tmp_path / "train_0.json", [task()])
    write(tmp_path / place / "screenshot.json", [shot("a", png(1), png(2))])
    write(tmp_path / place / "dom_content.json", [{"action_uid": "a"}])
    write(tmp_path / "t1/storage.json", {"cookies": []}) if place == "t1/processed" else None
    kept, skipped = read(tmp_path)
    assert pixels(kept["t1"].steps[0].after) == png(2) and not skipped


def test_a_shard_gives_these_steps(tmp_path: Path) -> None:
    rows = [row("t1", 3), row("t1", 0), row("t1", 4, screenshot=None), row("t1", 1)]
    shard(tmp_path / "data/test_website-00000-of-00001-0123456789abcdef.parquet", rows)
    kept, skipped = read(tmp_path)
    found = kept["t1"]
    assert [(s.source_step, s.op, s.value, s.target.text, pixels(s.before), s.after) for s in found.steps] == [
        ("0", "click", None, "[link]  Hotels", png(0), None),
        ("1", "type", "Oslo -> Rome", "[textbox]  From -> To", png(1), None),
        ("3", "select", "2", "[combobox]  Guests", png(3), None),
        ("4", "key", "Enter", "[searchbox]", None, None),
    ]
    assert [box(found, step) for step in range(4)] == [(10, 20, 200, 32), (1.5, 2, 3, 4), (5, 6, 0, 8), (10, 20, 200, 32)]
    assert [step.before.member for step in found.steps] == ["1", "3", "0", "2"]
    assert [one.lost for one in align(found)] == [None, "step_gap", None, "last_step"]
    assert (found.obs_phase, found.experiment, found.license, found.domain) == ("before", "test_website", "openrail", "travel")
    assert notes(found) == [("step", "t1#2", "row_missing")] and not skipped


def test_the_archive_is_read_in_place_with_its_password(tmp_path: Path) -> None:
    members = {
        "data/test_task/test_task_0.json": json.dumps([task("z1"), task("z2")]).encode(),
        "data/test_domain/test_domain_0.json": json.dumps([task("z3")]).encode(),
        "__MACOSX/data/test_task/._test_task_0.json": b"\0\5\x16\7",
        "README.txt": b"no tasks",
    }
    locked_zip(tmp_path / "test.zip", members)
    kept, skipped = read(tmp_path)
    assert {name: (found.experiment, found.source_file, len(found.steps)) for name, found in kept.items()} == {
        "z3": ("test_domain", "test.zip", 5),
        "z1": ("test_task", "test.zip", 5),
        "z2": ("test_task", "test.zip", 5),
    }
    assert not skipped and sorted(path.name for path in tmp_path.iterdir()) == ["test.zip"]
    assert list(read(tmp_path, split="test_domain")[0]) == ["z3"]


def test_a_task_that_is_only_described_gives_steps_without_boxes(tmp_path: Path) -> None:
    write(tmp_path / "tail.json", [{"annotation_id": "t", "domain": "Travel", "action_reprs": [*REPRS[:2], "[a]   -> CLICK", "who knows"]}])
    found = read(tmp_path)[0]["t"]
    assert [(s.source_step, s.op, s.value, s.target.text, s.op_raw) for s in found.steps] == [
        ("0", "click", None, "[link]  Hotels", "[link]  Hotels -> CLICK"),
        ("1", "type", "Oslo -> Rome", "[textbox]  From -> To", REPRS[1]),
        ("2", "click", None, "[a]", "[a]   -> CLICK"),
        ("3", "other", None, "who knows", "who knows"),
    ]
    assert notes(found) == [("row", "tail.json@1", "no_actions")] and found.experiment is None


@pytest.mark.skipif(not (SHARED / "data").exists(), reason="reference data absent")
def test_real_fragment() -> None:
    kept, skipped = read(SHARED / "data/mind2web-fragments")
    (found,) = kept.values()
    assert [(s.op, s.value, s.target.text) for s in found.steps[:2]] == [
        ("click", None, "[a]"),
        ("type", "First", "[textbox]  First Name (required)"),
    ]
    assert [s.op for s in found.steps] == ["click", "type", "type", "type", "type", "type", "click"]
    assert (found.website, found.domain, skipped) == ("enterprise", "travel", [])


# -- choosing -------------------------------------------------------------------------------------------------------------


def everywhere(root: Path) -> None:
    write(root / "data/train/train_0.json", [task("train-json")])
    write(root / "data/test_task/test_task_0.json", [task("task-json")])
    write(root / "local/test_website.json", [task("website-json")])
    shard(root / "data/test_domain-00000-of-00001-aa.parquet", [row("domain-parquet", 0)])
    shard(root / "mm/train-00000-of-00001-aa.parquet", [row("train-parquet", 0)])
    locked_zip(root / "test.zip", {"data/test_domain/test_domain_0.json": json.dumps([task("domain-zip")]).encode()})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"split": "train"}, {"train-json", "train-parquet"}),
        ({"split": "test_task"}, {"task-json"}),
        ({"split": "test_website"}, {"website-json"}),
        ({"split": "test_domain"}, {"domain-parquet", "domain-zip"}),
        ({"files": ["data/*"]}, {"train-json", "task-json", "domain-parquet"}),
        ({"files": ["mm/train-*.parquet", "test.zip"]}, {"train-parquet", "domain-zip"}),
        ({"files": ["test.zip/data/test_domain/*"]}, {"domain-zip"}),
        ({"files": ("*.parquet",), "split": "train"}, {"train-parquet"}),
    ],
)
def test_splits_and_patterns_choose_files(options: dict, expected: set[str], tmp_path: Path) -> None:
    everywhere(tmp_path)
    kept, skipped = read(tmp_path, **options)
    assert (set(kept), skipped) == (expected, [])


def test_a_split_that_is_not_there_is_named(tmp_path: Path) -> None:
    write(tmp_path / "data/train/train_0.json", [task()])
    assert read(tmp_path, split="test_task") == ({}, [("test_task-*.parquet", "no_shards")])


def test_an_unpacked_file_is_not_read_again_in_the_archive(tmp_path: Path) -> None:
    text = json.dumps([task("t1"), task("t2")]).encode()
    locked_zip(tmp_path / "test.zip", {"data/test_task/test_task_0.json": text, "data/test_task/test_task_1.json": b"[]"})
    write(tmp_path / "data/test_task/test_task_0.json", text)
    kept, skipped = read(tmp_path)
    assert (list(kept), {one.source_file for one in kept.values()}, skipped) == (["t1", "t2"], {"data/test_task/test_task_0.json"}, [])


def test_an_unpacked_file_that_breaks_off_is_made_good_by_the_archive(tmp_path: Path) -> None:
    text = json.dumps([task("t1"), task("t2")]).encode()
    locked_zip(tmp_path / "test.zip", {"data/test_task/test_task_0.json": text})
    write(tmp_path / "data/test_task/test_task_0.json", text[: len(text) - 100])
    found = list(mind2web.read(tmp_path, {}))
    assert [(one.native_id, one.source_file) for one in found if isinstance(one, Trajectory)] == [
        ("t1", "data/test_task/test_task_0.json"),
        ("t1", "test.zip"),  # the second of an id is dropped, and counted, by the normaliser
        ("t2", "test.zip"),
    ]


def test_the_pickled_scores_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everywhere(tmp_path)
    write(tmp_path / "scores_all_data.pkl", pickle.dumps({"scores": {}}))
    opened: list[str] = []
    genuine = builtins.open
    monkeypatch.setattr(builtins, "open", lambda file, *rest, **more: opened.append(str(file)) or genuine(file, *rest, **more))
    assert len(read(tmp_path)[0]) == 6 and any(name.endswith("train_0.json") for name in opened)
    assert not any(name.endswith(".pkl") for name in opened)


# -- several forms of one task --------------------------------------------------------------------------------------------


def test_the_form_with_the_most_pictures_is_read_and_the_others_are_reported(tmp_path: Path) -> None:
    write(tmp_path / "data/train/train_0.json", [task("dumped"), task("shard"), task("text")])
    write(tmp_path / "task/dumped/processed/screenshot.json", [shot("a", png(1), png(2))])
    shard(tmp_path / "data/train-00000-of-00001-aa.parquet", [row("dumped", 0), row("shard", 0), row("shard", 1)])
    kept, skipped = read(tmp_path)
    assert {name: (found.obs_phase, found.source_file.rpartition(".")[2], len(found.steps)) for name, found in kept.items()} == {
        "dumped": ("both", "json", 5),
        "text": ("before", "json", 5),
        "shard": ("before", "parquet", 2),
    }
    start = (tmp_path / "data/train/train_0.json").read_bytes().index(b'{"annotation_id": "shard"')
    assert skipped == [
        ("data/train-00000-of-00001-aa.parquet: dumped", "duplicate_form"),
        (f"data/train/train_0.json@{start}", "duplicate_form"),
    ]


def test_a_dump_is_joined_to_a_shard_where_there_is_no_json(tmp_path: Path) -> None:
    shard(tmp_path / "train-0.parquet", [row("t1", 0), row("t1", 1)])
    write(tmp_path / "t1/processed/screenshot.json", [shot("a", png(7), png(8))])
    found = read(tmp_path)[0]["t1"]
    assert found.obs_phase == "both"
    assert [(pixels(s.before), pixels(s.after)) for s in found.steps] == [(png(7), png(8)), (png(1), None)]


def test_a_dump_without_usable_screens_does_not_displace_the_shard(tmp_path: Path) -> None:
    write(tmp_path / "train_0.json", [task()])
    write(tmp_path / "t1/processed/screenshot.json", b"[")
    shard(tmp_path / "train-0.parquet", [row("t1", 0)])
    kept, skipped = read(tmp_path)
    assert kept["t1"].source_file == "train-0.parquet" and skipped == [("train_0.json@1", "duplicate_form")]
    assert notes(kept["t1"])[-1] == ("row", "t1/processed/screenshot.json@1", "bad_json")


def test_json_stands_in_for_rows_that_cannot_be_decoded(tmp_path: Path) -> None:
    write(tmp_path / "train_0.json", [task("t1"), task("t2")])
    path = shard(tmp_path / "train-0.parquet", [row("t1", 0), row("t2", 0)], row_group_size=1, compression="none")
    spoil(path, group=1, column="operation")
    kept, skipped = read(tmp_path)
    assert {name: found.source_file for name, found in kept.items()} == {"t1": "train-0.parquet", "t2": "train_0.json"}
    assert skipped == [("train-0.parquet#1", "unreadable"), ("train_0.json@1", "duplicate_form")]


def test_a_dump_alone_is_told_what_it_lacks(tmp_path: Path) -> None:
    write(tmp_path / "task/t9/processed/screenshot.json", [shot("a", png(1), png(2))])
    write(tmp_path / "processed/screenshot.json", [shot("a", png(1), png(2))])
    (unnamed, alone) = mind2web.read(tmp_path, {})
    assert (unnamed.item, unnamed.reason) == ("processed/screenshot.json", "no_task_record")
    assert (alone.item, alone.reason) == ("task/t9/processed/screenshot.json", "no_task_record") and "data/" in alone.detail


def test_only_the_first_of_two_dumps_of_a_task_counts(tmp_path: Path) -> None:
    write(tmp_path / "train_0.json", [task()])
    write(tmp_path / "a/t1/processed/screenshot.json", [shot("a", png(1), png(2))])
    write(tmp_path / "b/t1/processed/screenshot.json", [shot("a", png(3), png(4))])
    kept, skipped = read(tmp_path)
    assert pixels(kept["t1"].steps[0].before) == png(1) and skipped == [("b/t1/processed/screenshot.json", "duplicate_dump")]


# -- memory ---------------------------------------------------------------------------------------------------------------

MEASURE = """
import sys
from pathlib import Path
from evoaudit.sources import mind2web

def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024

root, warm = Path(sys.argv[1]), Path(sys.argv[2])
for place in (warm, root):
    before = peak()
    steps = pictures = 0
    for found in mind2web.read(place, {}):
        for step in found.steps:
            steps += 1
            pictures += sum(len(one.load() or b"") for one in (step.before, step.after) if one)
print(steps, pictures, peak() - before)
"""


def measured(root: Path, warm: Path) -> tuple[int, int, float]:
    """Return steps, bytes of pictures, and MiB by which reading ``root`` raised a fresh process's peak memory."""
    if not Path("/proc/self/status").exists():
        pytest.skip("peak memory is read from /proc")
    done = subprocess.run([sys.executable, "-c", MEASURE, root, warm], capture_output=True, text=True, timeout=100, check=True)
    steps, size, grown = done.stdout.split()
    return int(steps), int(size), float(grown)


def test_a_large_array_is_never_held(tmp_path: Path) -> None:
    write(tmp_path / "warm/train_0.json", [task()])
    page = '<a href="/x" class="[{">text</a>\n' * 30_000
    with open(write(tmp_path / "big/train_0.json", b""), "w") as handle:
        for number in range(10):
            big = task(f"t{number}")
            for one in big["actions"]:
                one["raw_html"] = page
            big["actions"][0]["neg_candidates"] = [candidate("0,0,1,1")] * 3000
            handle.write(("[" if number == 0 else ", ") + json.dumps(big))
        handle.write("]")
    size = (tmp_path / "big/train_0.json").stat().st_size / 2**20
    steps, _, grown = measured(tmp_path / "big", tmp_path / "warm")
    assert size > 55 and steps == 50 and grown < 12, (size, steps, grown)


def test_a_large_dump_is_never_held(tmp_path: Path) -> None:
    write(tmp_path / "warm/train_0.json", [task("t1")])
    write(tmp_path / "warm/t1/processed/screenshot.json", [shot("a", png(1), png(2))])
    write(tmp_path / "big/train_0.json", [task("t1", "abcde")])
    draw = random.Random(0)
    write(
        tmp_path / "big/t1/processed/screenshot.json", [shot(uid, draw.randbytes(4_500_000), draw.randbytes(4_500_000)) for uid in "abcde"]
    )
    size = (tmp_path / "big/t1/processed/screenshot.json").stat().st_size / 2**20
    steps, loaded, grown = measured(tmp_path / "big", tmp_path / "warm")
    assert size > 55 and (steps, loaded) == (5, 45_000_000) and grown < 30, (size, steps, loaded, grown)


def test_asking_for_all_screens_of_a_dump_reads_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "train_0.json", [task()])
    path = write(tmp_path / "t1/processed/screenshot.json", [shot(uid, png(1), png(2)) for uid in "abcde"])
    found = read(tmp_path)[0]["t1"]
    taken = 0

    class Counting(io.FileIO):
        def read(self, size: int = -1) -> bytes:
            nonlocal taken
            taken += size
            return super().read(size)

    monkeypatch.setattr(mind2web_json, "open", Counting, raising=False)
    assert [pixels(s.after) for s in found.steps] == [png(2)] * 5 and [pixels(s.before) for s in found.steps] == [png(1)] * 5
    assert 0 < taken < path.stat().st_size


def test_screens_of_one_row_group_are_not_held(tmp_path: Path) -> None:
    shard(tmp_path / "warm/train-0.parquet", [row("t1", 0)])
    draw = random.Random(0)
    rows = [row(f"t{n // 5}", n % 5, screenshot={"bytes": draw.randbytes(250_000), "path": None}) for n in range(320)]
    path = shard(tmp_path / "big/train-0.parquet", rows, row_group_size=1000, write_batch_size=4, data_page_size=2**20)
    assert pq.ParquetFile(path).num_row_groups == 1 and path.stat().st_size > 80_000_000
    steps, loaded, grown = measured(tmp_path / "big", tmp_path / "warm")
    assert (steps, loaded) == (320, 80_000_000) and grown < 40, (steps, loaded, grown)


# -- damage: JSON ---------------------------------------------------------------------------------------------------------


def test_tasks_before_a_cut_are_kept_and_the_rest_is_named_by_its_bytes(tmp_path: Path) -> None:
    whole = json.dumps([task("t1"), task("t2"), task("t3")]).encode()
    start = whole.index(b'{"annotation_id": "t3"')
    for cut, expected in ((start + 500, start), (start, start), (len(whole) - 1, len(whole) - 1)):
        write(tmp_path / "train_0.json", whole[:cut])
        *kept, lost = mind2web.read(tmp_path, {})
        assert [one.native_id for one in kept] == ["t1", "t2", "t3"][: 2 + (cut == len(whole) - 1)]
        assert (lost.item, lost.reason) == (f"train_0.json@{expected}", "bad_json") and f"at byte {cut};" in lost.detail


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b'{"annotation_id": "x", "actions": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "too_deep"),
        (b'{"annotation_id": "x", "confirmed_task": "' + b"y" * 9_000_000 + b'"}', "too_large"),
        (b'{"annotation_id": "x\xff"}', "not_utf8"),
        (b'{"annotation_id": "x", "actions": [1,]}', "bad_json"),
        (b'{"annotation_id": "x" "actions": []}', "bad_json"),
        (b'{"actions": []}', "no_id"),
        (b'{"annotation_id": ["x"], "actions": []}', "no_id"),
        (b'[{"annotation_id": "x"}]', "bad_record"),
        (b'"annotation_id] }"', "bad_json"),
        (b"NaN", "bad_json"),
        (b"}", "bad_json"),
    ],
)
def test_a_broken_task_costs_only_itself(bad: bytes, reason: str, tmp_path: Path) -> None:
    good = [json.dumps(task(name)).encode() for name in ("t1", "t2")]
    write(tmp_path / "train_0.json", b"[" + good[0] + b",\n" + bad + b",\n" + good[1] + b"]")
    kept, skipped = read(tmp_path)
    assert list(kept) == ["t1", "t2"] and skipped == [(f"train_0.json@{len(good[0]) + 3}", reason)]


def test_pages_that_are_dropped_may_hold_anything(tmp_path: Path) -> None:
    text = json.dumps([task("t1")]).encode()
    text = text.replace(b'"<p class=\\"]}\\">x</p>"', b'"\xff\xfe \\u12 ' + b"z" * 9_000_000 + b'"').replace(
        b'"neg_candidates": [', b'"neg_candidates" : [NaN, ' + b"[" * 50_000 + b"]" * 50_000 + b","
    )
    write(tmp_path / "train_0.json", text)
    kept, skipped = read(tmp_path)
    assert len(kept["t1"].steps) == 5 and not skipped and not kept["t1"].skipped


def test_numbers_that_are_none_leave_the_step_without_a_box(tmp_path: Path) -> None:
    text = json.dumps([task("t1") | {"domain": float("nan"), "confirmed_task": 5, "website": None}])
    write(tmp_path / "train_0.json", text.replace("10,20,200,32", "NaN,20,1e999,32").encode())
    found = read(tmp_path)[0]["t1"]
    assert (found.domain, found.instruction, found.website) == (None, "5", None)
    assert box(found, 0) == (None, None, None, None) and box(found, 1) == (1.5, 2, 3, 4)


@pytest.mark.parametrize(
    ("content", "item", "reason"),
    [
        (b"", "train_0.json@0", "bad_json"),
        (b"\xef\xbb\xbf  ", "train_0.json@5", "bad_json"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "train_0.json", "lfs_pointer"),
        ("[]".encode("utf-16"), "train_0.json", "not_utf8"),
        (b'{"tasks": []}', "train_0.json@0", "no_id"),
        (b"[] []", "train_0.json@3", "bad_json"),
        (b"PK\3\4 zip", "train_0.json@0", "bad_json"),
    ],
)
def test_a_file_that_is_no_array_of_tasks_is_named(content: bytes, item: str, reason: str, tmp_path: Path) -> None:
    write(tmp_path / "train_0.json", content)
    assert read(tmp_path) == ({}, [(item, reason)])


def test_an_empty_array_and_a_byte_order_mark_are_no_faults(tmp_path: Path) -> None:
    write(tmp_path / "train_0.json", b"[ ]\n")
    write(tmp_path / "train_1.json", b"\xef\xbb\xbf[" + json.dumps(task()).encode() + b"]")
    kept, skipped = read(tmp_path)
    assert list(kept) == ["t1"] and not skipped


def test_other_json_files_are_reported_once_each_and_not_where_a_split_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "dataset_infos.json", {"default": {"splits": []}})
    write(tmp_path / "many.json", [{"a": 1}] * 100)
    write(tmp_path / "train_0.json", [task()])
    assert read(tmp_path)[1] == [("dataset_infos.json", "not_tasks"), ("many.json", "not_tasks")]
    assert read(tmp_path, split="train")[1] == []


def test_links_that_lead_out_and_special_files_are_not_read(tmp_path: Path) -> None:
    write(tmp_path / "outside.json", [task()])
    root = tmp_path / "root"
    root.mkdir()
    (root / "train_0.json").symlink_to(tmp_path / "outside.json")
    os.mkfifo(root / "train_1.json")
    (root / "t1").mkdir()
    (root / "t1/screenshot.json").symlink_to(tmp_path / "outside.json")
    assert read(root)[1] == [
        ("train_0.json", "outside_root"),
        ("train_1.json", "unreadable"),
        ("t1/screenshot.json", "no_task_record"),
    ]
    assert mind2web.load(root, "t1/screenshot.json", "0.before@0-100") is None


def test_steps_that_cannot_be_read_are_counted_and_leave_a_gap(tmp_path: Path) -> None:
    odd = task()
    odd["actions"][1] = "not an action"
    odd["actions"][2]["action_uid"] = "a"
    odd["actions"][3]["operation"] = '{"op": '
    odd["actions"][4]["operation"] = {"original_op": "DANCE", "op": "JUMP", "value": "x"}
    write(tmp_path / "train_0.json", [odd])
    found = read(tmp_path)[0]["t1"]
    assert [(s.source_step, s.op, s.value, s.target.text) for s in found.steps] == [
        ("0", "click", None, "[link]  Hotels"),
        ("3", "other", None, "[combobox]  Guests"),
        ("4", "other", None, "[searchbox]"),
    ]
    assert notes(found) == [
        ("step", "train_0.json@1 actions[1]", "bad_step"),
        ("step", "train_0.json@1 actions[2]", "duplicate_action"),
        ("row", "train_0.json@1 actions[3]", "bad_operation"),
    ]
    assert [one.gap_before for one in align(found)] == [False, True, False]


def test_descriptions_are_not_used_where_their_number_differs(tmp_path: Path) -> None:
    write(tmp_path / "train_0.json", [task() | {"action_reprs": REPRS[:3]}])
    found = read(tmp_path)[0]["t1"]
    assert [step.target and step.target.text for step in found.steps] == [None] * 5
    assert notes(found) == [("row", "train_0.json@1", "count_mismatch")]


# -- damage: archive ------------------------------------------------------------------------------------------------------


def test_an_archive_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a/test.zip", b"not a zip archive at all")
    locked_zip(tmp_path / "b/test.zip", {"data/test_task/test_task_0.json": json.dumps([task()]).encode()}, b"another")
    kept, skipped = read(tmp_path)
    assert not kept and ("a/test.zip", "bad_archive") in skipped
    assert [item.partition("@")[0] for item, _ in skipped] == ["a/test.zip", "b/test.zip/data/test_task/test_task_0.json"]


def test_a_damaged_member_keeps_the_tasks_before_the_damage(tmp_path: Path) -> None:
    draw = random.Random(1)
    members = [task(f"t{n}") | {"raw_html": draw.randbytes(100_000).hex()} for n in range(4)]
    path = locked_zip(tmp_path / "test.zip", {"data/test_task/test_task_0.json": json.dumps(members).encode()})
    raw = bytearray(path.read_bytes())
    raw[-5000:-4900] = bytes(100)
    path.write_bytes(raw)
    kept, skipped = read(tmp_path)
    assert set(kept) < {f"t{n}" for n in range(4)} and len(skipped) == 1 and skipped[0][0].startswith("test.zip/data/test_task/")


# -- damage: dump ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("data:image/png;base64," + base64.b64encode(png(3)).decode(), png(3)),
        (base64.encodebytes(png(3)).decode(), png(3)),
        (base64.b64encode(png(3)).decode().rstrip("="), png(3)),
        ("!" * 50, None),
        ("é" * 50, None),
        ("\ud800" * 50, None),
        ("A" * 41, None),
        ("data:image/png;base64 without a comma", None),
        (12345678901, None),
        (["A" * 40], None),
        ({"screenshot": "A" * 40}, None),
        (float("nan"), None),
    ],
)
def test_base64_is_decoded_or_missing(written: object, expected: bytes | None, tmp_path: Path) -> None:
    write(tmp_path / "train_0.json", [task()])
    write(tmp_path / "t1/processed/screenshot.json", [shot("a", written, png(1))])
    found = read(tmp_path)[0]["t1"]
    assert (pixels(found.steps[0].before), pixels(found.steps[0].after), found.skipped) == (expected, png(1), [])


def test_escaped_slashes_in_base64_are_read(tmp_path: Path) -> None:
    write(tmp_path / "train_0.json", [task()])
    picture = b"\xff" * 60  # all slashes
    write(tmp_path / "t1/processed/screenshot.json", json.dumps([shot("a", picture, picture)]).replace("//", "\\/\\/").encode())
    assert pixels(read(tmp_path)[0]["t1"].steps[0].before) == picture


def test_what_cannot_be_joined_is_noted(tmp_path: Path) -> None:
    write(tmp_path / "train_0.json", [task()])
    dump = [shot("a", png(1), png(2)), shot("a", png(3), png(4)), shot("zz", png(5), png(6)), 7, {"action_uid": 5.5}, {"action_uid": "b"}]
    text = json.dumps(dump)
    write(tmp_path / "t1/processed/screenshot.json", (text[:-1] + ', {"action_uid": "c", "before": {"screenshot": "AAAA').encode())
    found = read(tmp_path)[0]["t1"]
    assert [reason for _, _, reason in notes(found)] == [
        "duplicate_action",
        "bad_json",
        "bad_json",
        "unmatched_action",
        "unmatched_action",
    ]
    assert all(unit == "row" and item.startswith("t1/processed/screenshot.json@") for unit, item, _ in notes(found))
    assert pixels(found.steps[0].before) == png(1) and found.steps[1].before is None


def test_a_screenshot_key_spelt_with_escapes_is_no_place_in_the_file(tmp_path: Path) -> None:
    write(tmp_path / "train_0.json", [task()])
    text = '[{"action_uid": "a", "before": {"screensh\\u006ft": [0, 99999]}, "after": {"screensh\\u006ft": ["a", null]}}]'
    write(tmp_path / "t1/processed/screenshot.json", text.encode())
    found = read(tmp_path)[0]["t1"]
    assert pixels(found.steps[0].before) is None and found.steps[0].after is None


@pytest.mark.parametrize("member", ["", "0", "0.before@5-3", "0.before@0-0", "x@1-2", "0.before@0-999999999999", "0.before@0-" + "9" * 30])
def test_places_that_are_none_give_no_picture(member: str, tmp_path: Path) -> None:
    write(tmp_path / "t1/processed/screenshot.json", [shot("a", png(1), png(2))])
    assert mind2web.load(tmp_path, "t1/processed/screenshot.json", member) is None
    assert mind2web.load(tmp_path, "../t1/processed/screenshot.json", "0.before@0-9") is None


# -- damage: Parquet ------------------------------------------------------------------------------------------------------


def spoil(path: Path, group: int, column: str) -> None:
    """Overwrite the head of a column's first page."""
    chunks = pq.ParquetFile(path).metadata.row_group(group)
    chunk = next(c for c in map(chunks.column, range(chunks.num_columns)) if c.path_in_schema.startswith(column))
    raw = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    raw[start : start + 16] = b"\xff" * 16
    path.write_bytes(raw)


def test_a_corrupt_page_of_pictures_makes_them_missing_and_no_others(tmp_path: Path) -> None:
    path = shard(tmp_path / "train-0.parquet", [row("t1", n) for n in range(4)], row_group_size=2)
    spoil(path, group=0, column="screenshot.bytes")
    found = read(tmp_path)[0]["t1"]
    for step in found.steps[:2]:
        with pytest.raises(OSError, match="cannot be decoded"):
            step.before.load()
    assert [pixels(step.before) for step in found.steps[2:]] == [png(2), png(3)]


def test_rows_of_a_corrupt_page_are_counted_and_the_others_kept(tmp_path: Path) -> None:
    path = shard(tmp_path / "train-0.parquet", [row("t1", n) for n in range(4)], row_group_size=2)
    spoil(path, group=0, column="operation")
    (lost, found) = mind2web.read(tmp_path, {})
    assert (lost.item, lost.reason, lost.unit) == ("train-0.parquet#0", "unreadable", "step") and lost.detail.startswith("2 rows")
    assert [step.source_step for step in found.steps] == ["2", "3"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "unreadable"),
        (b"PAR1" * 10, "unreadable"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "lfs_pointer"),
    ],
)
def test_a_file_that_is_no_parquet_is_named(content: bytes, reason: str, tmp_path: Path) -> None:
    write(tmp_path / "train-0.parquet", content)
    assert read(tmp_path) == ({}, [("train-0.parquet", reason)])


def test_a_shard_without_rows_is_named(tmp_path: Path) -> None:
    shard(tmp_path / "train-0.parquet", [])
    assert read(tmp_path) == ({}, [("train-0.parquet", "no_rows")])


def test_columns_of_other_types_never_raise(tmp_path: Path) -> None:
    nested = {
        "annotation_id": [["t1"], ["t1"]],
        "target_action_index": [[["0"]], None],
        "operation": [{"op": {"a": 1}}, None],
    }
    pq.write_table(pa.table(nested), tmp_path / "train-0.parquet")
    assert read(tmp_path) == ({}, [("train-0.parquet#0", "no_id"), ("train-0.parquet#1", "no_id")])
    flat = {
        "annotation_id": ["t1", "t1", "t1"],
        "target_action_index": [0, 1, 2],
        "operation": pa.array([{"op": "TYPE", "value": "x"}] * 3),
        "screenshot": ["text", None, "more"],
        "action_reprs": [1.5, 2.5, None],
        "pos_candidates": [{"a": 1}, None, {"a": 2}],
        "domain": pa.array([None, "Info", "Info"]).dictionary_encode(),
    }
    pq.write_table(pa.table(flat), tmp_path / "train-0.parquet")
    found = read(tmp_path)[0]["t1"]
    assert [(s.source_step, s.op, s.value, pixels(s.before)) for s in found.steps] == [(str(n), "type", "x", None) for n in range(3)]
    assert found.domain == "info"


def test_a_shard_without_screenshots_has_no_pictures(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([row("t1", 0)], PARQUET).drop_columns(["screenshot"]), tmp_path / "train-0.parquet")
    assert read(tmp_path)[0]["t1"].steps[0].before is None


def test_indices_in_lists_of_one_are_read(tmp_path: Path) -> None:
    rows = [{**row("t1", n), "target_action_index": [str(n)], "target_action_reprs": [REPRS[n]]} for n in range(2)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train-0.parquet")
    found = read(tmp_path)[0]["t1"]
    assert [(step.source_step, step.target.text) for step in found.steps] == [("0", "[link]  Hotels"), ("1", "[textbox]  From -> To")]


def test_operations_that_cannot_be_read_are_kept_and_noted(tmp_path: Path) -> None:
    rows = [
        row("t1", n, operation=operation) for n, operation in enumerate(['{"op": ', None, "[1]", '"CLICK"', '{"op": "TYPE", "value": 5}'])
    ]
    shard(tmp_path / "train-0.parquet", rows)
    found = read(tmp_path)[0]["t1"]
    assert [(step.op, step.value, step.op_raw) for step in found.steps] == [
        ("other", None, '{"op": '),
        ("other", None, None),
        ("other", None, "[1]"),
        ("other", None, '"CLICK"'),
        ("type", "5", '{"op": "TYPE", "value": 5}'),
    ]
    assert notes(found) == [("row", f"train-0.parquet#{n}", "bad_operation") for n in range(4)]


def test_screens_asked_for_out_of_order_are_the_right_ones(tmp_path: Path) -> None:
    rows = [row(f"t{n}", 0, screenshot={"bytes": b"%d" % n * 50, "path": None}) for n in range(100)]
    shard(tmp_path / "train-0.parquet", rows, row_group_size=37, write_batch_size=5)
    order = list(range(100))
    random.Random(2).shuffle(order)
    for number in [*range(100), *order]:
        assert mind2web.load(tmp_path, "train-0.parquet", str(number)) == b"%d" % number * 50
    assert mind2web.load(tmp_path, "train-0.parquet", "100") is None


def test_large_screens_are_not_hoarded(tmp_path: Path) -> None:
    rows = [row(f"t{n}", 0, screenshot={"bytes": bytes([n]) * 5 * 2**20, "path": None}) for n in range(24)]
    path = shard(tmp_path / "train-0.parquet", rows, row_group_size=4)
    for number in range(24):
        assert len(mind2web.load(tmp_path, "train-0.parquet", str(number))) == 5 * 2**20
    status = path.stat()
    kept = mind2web_parquet._shard(str(path), status.st_mtime_ns, status.st_size)._kept
    assert sum(map(len, kept.values())) <= (64 + 8 * 5) * 2**20 and list(kept)[-1] == 23


# -- anything -------------------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def replace_some(value: object, draw: random.Random, junk: list) -> object:
    if draw.random() < 0.06:
        return draw.choice(junk)
    if isinstance(value, dict):
        return {name: replace_some(inner, draw, junk) for name, inner in value.items() if draw.random() > 0.04}
    return [replace_some(inner, draw, junk) for inner in value] if isinstance(value, list) else value


def consume(root: Path) -> None:
    for one in mind2web.read(root, {}):
        if isinstance(one, Trajectory):
            align(one)
            for step in one.steps:
                assert step.op in OPS and isinstance(step.value, str | None) and isinstance(step.op_raw, str | None)
                for picture in (step.before, step.after):
                    if picture is not None and picture.file.endswith(".json"):
                        assert isinstance(picture.load(), bytes | None) and len(picture.member) < 200


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), junk=st.lists(VALUES, min_size=1, max_size=6))
def test_fields_of_any_type_never_raise(seed: int, junk: list, tmp_path_factory: pytest.TempPathFactory) -> None:
    root, draw = tmp_path_factory.mktemp("odd"), random.Random(seed)
    write(root / "train_0.json", replace_some([task("t1"), task("t2")], draw, junk))
    write(root / "t1/processed/screenshot.json", replace_some([shot(uid, png(1), png(2), (1, 2, 3, 4)) for uid in "abc"], draw, junk))
    consume(root)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_random_damage_never_raises_and_loses_nothing_silently(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    root, draw = tmp_path_factory.mktemp("damaged"), random.Random(seed)
    path = write(root / "train_0.json", [task("t1"), task("t2")])
    raw = bytearray(path.read_bytes())
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(raw))
        raw[place : place + draw.randrange(30)] = draw.choice([b"", b"\0", b'"', b"\\", b"[", b"}", b"\xff", b"null", b'"\\ud800"'])
    path.write_bytes(raw)
    write(root / "t2/processed/screenshot.json", [shot("a", png(1), png(2))])
    found = list(mind2web.read(root, {}))
    assert len([one for one in found if isinstance(one, Trajectory)]) == 2 or any(isinstance(one, Skipped) for one in found)
    consume(root)


TEXTS = st.text(st.sampled_from('a"\\{}[],: \né😀drop'), max_size=12)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["drop", "gone", "keep", 'x"']) | TEXTS, inner, max_size=3),
    max_leaves=12,
)


def compare(value: object, skimmed: object, raw: bytes) -> None:
    """Check a skimmed value against the parsed one: dropped keys hold the place of their value."""
    if isinstance(value, dict):
        assert value.keys() == skimmed.keys()
        for name, inner in value.items():
            if name in ("drop", "gone"):
                start, end = skimmed[name]
                assert json.loads(raw[start:end]) == inner
            else:
                compare(inner, skimmed[name], raw)
    elif isinstance(value, list):
        assert len(value) == len(skimmed)
        for inner, other in zip(value, skimmed, strict=True):
            compare(inner, other, raw)
    else:
        assert value == skimmed


@settings(max_examples=150, deadline=None)
@given(
    values=st.lists(st.dictionaries(TEXTS, TREES, max_size=3) | st.lists(TREES, max_size=3), max_size=4),
    piece=st.integers(1, 40),
    ascii=st.booleans(),
    indent=st.sampled_from([None, 1]),
    cut=st.floats(0, 1, exclude_max=True),
)
def test_skimming_agrees_with_parsing_however_the_file_is_cut_into_pieces(
    values: list, piece: int, ascii: bool, indent: int | None, cut: float
) -> None:
    raw = json.dumps(values, ensure_ascii=ascii, indent=indent).encode()

    def pieces(data: bytes) -> object:
        places = iter(range(0, len(data), piece))
        return lambda _: next((data[place : place + piece] for place in places), b"")

    found = list(mind2web_skim.elements(pieces(raw), ("drop", "gone")))
    assert [one.fault for one in found] == [None] * len(values)
    for one, value in zip(found, values, strict=True):
        assert json.loads(raw[one.start : one.end]) == value
        compare(value, json.loads(one.text), raw)
    end = int(cut * len(raw))
    *whole, last = mind2web_skim.elements(pieces(raw[:end]), ("drop", "gone"))
    assert last.fault == "truncated" and last.end <= end and whole == found[: len(whole)]


def test_reading_twice_or_elsewhere_gives_the_same(tmp_path: Path) -> None:
    for name in ("a", "b"):
        everywhere(tmp_path / name)
        write(tmp_path / name / "task/train-json/processed/screenshot.json", [shot("a", png(1), png(2))])
    assert list(mind2web.read(tmp_path / "a", {})) == list(mind2web.read(tmp_path / "b", {})) != []


def test_every_record_of_mixed_forms_is_kept_or_counted(tmp_path: Path) -> None:
    everywhere(tmp_path / "root")
    write(tmp_path / "root/task/train-json/processed/screenshot.json", [shot("a", png(1), png(2)), shot("b", png(3), "!" * 50)])
    write(tmp_path / "root/task/nobody/processed/screenshot.json", [shot("a", png(1), png(2))])
    (tmp_path / "out").mkdir()
    counts = Counts("normalise")
    normalise(tmp_path / "out", counts, Source("m", "mind2web", tmp_path / "root"))
    found = counts.summary("trajectory")
    assert (found["kept"], found["dropped"]) == (6, {"no_task_record": 1})
    assert (found["others"]["step"]["kept"], found["others"]["step"]["dropped"]) == (22, {"row_missing": 2})
    assert (found["others"]["picture"]["kept"], found["others"]["picture"]["dropped"]) == (5, {"missing": 1})
    assert found["others"]["transition"]["kept"] == 1
    rows = read_rows(tmp_path / "out", "steps", ["trajectory_id", "source_step", "obs_phase"])
    assert {(one["trajectory_id"], one["obs_phase"]) for one in rows} >= {("m:train-json", "both"), ("m:domain-zip", "before")}
