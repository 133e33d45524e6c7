"""TFRecord files, and AndroidControl episodes in them."""

import gzip
import io
import os
import random
import resource
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import made_tfrecord as made
import pyarrow.parquet as pq
import pytest
from PIL import Image

from evoaudit import normalise, pictures
from evoaudit.align import align
from evoaudit.sources import androidcontrol, tfrecord
from evoaudit.sources.base import Skipped, Target, Trajectory
from evoaudit.store import Counts

NAME = "android_control-00000-of-00020"


def png(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (40, 80), (shade, shade, 255 - shade)).save(out, "PNG")
    return out.getvalue()


def read(root: Path, **options: object) -> tuple[list[Trajectory], list[Skipped]]:
    found = list(androidcontrol.read(root, options))
    return [one for one in found if isinstance(one, Trajectory)], [one for one in found if isinstance(one, Skipped)]


def records(path: Path) -> list:
    """Return what a file's records hold, or why they do not: data, or (item, reason)."""
    return [value if isinstance(value, bytes) else (value.item, value.reason) for _, value in tfrecord.File(path).records("f")]


# -- TFRecord files -------------------------------------------------------------------------------------------------------


def test_checksums_are_masked_as_tensorflow_masks_them():
    # The head of every TensorBoard file whose first record is 24 bytes long.
    assert tfrecord.masked(b"\x18\0\0\0\0\0\0\0") == b'\xa3\x7fK"'
    # CRC-32C of "123456789" is 0xE3069283: rotated right by 15 it is 0x2507C60D, and 0x2507C60D + 0xA282EAD8 = 0xC78AB0E5.
    assert tfrecord.masked(b"123456789") == bytes.fromhex("e5b08ac7")


@pytest.mark.parametrize("compressed", [True, False])
def test_records_come_in_order(tmp_path, compressed):
    assert records(made.write(tmp_path / "f", b"one", b"", b"three", compressed=compressed)) == [b"one", b"", b"three"]


def test_a_file_may_be_several_gzip_members_with_padding(tmp_path):
    (tmp_path / "f").write_bytes(gzip.compress(made.framed(b"one")) + b"\0" * 512 + gzip.compress(made.framed(b"two")) + b"\0" * 7)
    assert records(tmp_path / "f") == [b"one", b"two"]


def test_damaged_data_cost_one_record(tmp_path):
    good = made.framed(b"one"), made.framed(b"two"), made.framed(b"three")
    bad = good[1][:12] + b"twO" + good[1][15:]
    (tmp_path / "f").write_bytes(gzip.compress(good[0] + bad + good[2]))
    assert records(tmp_path / "f") == [b"one", ("f#1", "bad_checksum"), b"three"]


def test_a_damaged_length_ends_the_file(tmp_path):
    good = made.framed(b"one"), made.framed(b"two"), made.framed(b"three")
    (tmp_path / "f").write_bytes(good[0] + b"\x04" + good[1][1:] + good[2])
    assert records(tmp_path / "f") == [b"one", ("f#1", "bad_checksum")]


@pytest.mark.parametrize("compressed", [True, False])
def test_a_file_cut_anywhere_keeps_the_records_before_the_cut(tmp_path, compressed):
    rng = random.Random(5)
    data = [rng.randbytes(size) for size in (30, 0, 70, 4)]
    whole = made.write(tmp_path / "whole", *data, compressed=compressed).read_bytes()
    ends = [sum(len(one) + 16 for one in data[:number]) for number in range(len(data) + 1)]
    met = set()
    for cut in range(1, len(whole)):
        (tmp_path / "f").write_bytes(whole[:cut])
        found = records(tmp_path / "f")
        kept = [one for one in found if isinstance(one, bytes)]
        assert kept == data[: len(kept)]
        if not compressed and cut in ends:
            assert found == kept
        elif (cut >= 12 and not compressed) or (compressed and cut > 2):
            assert found[-1] == (f"f#{len(kept)}", "truncated")
        met.add(len(kept))
        if not compressed:
            assert len(kept) == sum(end <= cut for end in ends[1:])
    assert {0, 2, 3, 4 if compressed else 3} <= met


def test_records_before_damaged_compression_are_kept(tmp_path):
    data = [random.Random(number).randbytes(400) for number in range(20)]
    whole = bytearray(made.write(tmp_path / "f", *data).read_bytes())
    whole[len(whole) // 2 : len(whole) // 2 + 40] = b"\xff" * 40
    (tmp_path / "f").write_bytes(whole)
    found = records(tmp_path / "f")
    kept = [one for one in found if isinstance(one, bytes)]
    assert kept[:9] == data[:9]
    assert all(reason in {"bad_checksum", "bad_gzip"} for _, reason in (one for one in found if isinstance(one, tuple)))
    assert any(isinstance(one, tuple) for one in found)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", [("f", "empty")]),
        (b"hello, this is no record", [("f", "not_tfrecord")]),
        (b"hello", [("f", "not_tfrecord")]),
        (gzip.compress(b"hello, this is no record", mtime=0), [("f", "not_tfrecord")]),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", [("f", "lfs_pointer")]),
        (gzip.compress(made.framed(b"one"), mtime=0) + b"trailing", [b"one", ("f#1", "bad_gzip")]),
        (gzip.compress(made.framed(b"one"), mtime=0)[:-8] + b"\0" * 8, [b"one", ("f#1", "bad_gzip")]),
    ],
)
def test_other_content_has_a_reason(tmp_path, content, expected):
    (tmp_path / "f").write_bytes(content)
    assert records(tmp_path / "f") == expected


def test_a_record_too_large_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(tfrecord, "RECORD_LIMIT", 1000)
    made.write(tmp_path / "f", b"one", b"x" * 1001, b"three")
    assert records(tmp_path / "f") == [b"one", ("f#1", "too_large"), b"three"]


def test_a_length_that_never_comes_sets_no_memory_aside(tmp_path):
    length = (2**62).to_bytes(8, "little")
    for claimed in (length, (100 * 2**20).to_bytes(8, "little")):
        (tmp_path / "f").write_bytes(gzip.compress(made.framed(b"one") + claimed + tfrecord.masked(claimed) + b"x" * 100))
        tracemalloc.start()
        found = records(tmp_path / "f")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found == [b"one", ("f#1", "truncated")]
        assert peak < 2**22


def test_a_bomb_is_left_when_it_has_expanded_enough(tmp_path, monkeypatch):
    monkeypatch.setattr(tfrecord, "EXPANSION_FLOOR", 2**20)
    made.write(tmp_path / "f", b"one", *[bytes(2**20)] * 8)
    found = records(tmp_path / "f")
    assert found[0] == b"one"
    assert found[-1][1] == "too_large"
    assert len(found) < 4


def test_records_are_found_again_in_any_order_and_in_one_pass_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(tfrecord, "_BETWEEN", 100_000)
    data = [random.Random(number).randbytes(20_000) for number in range(60)]
    path = made.write(tmp_path / "f", *data)
    fed = []
    real = tfrecord._Stream._more

    def counting(stream: tfrecord._Stream) -> bool:
        before = stream.state.out
        more = real(stream)
        fed.append(stream.state.out - before)
        return more

    monkeypatch.setattr(tfrecord._Stream, "_more", counting)
    file = tfrecord.File(path)
    assert [file.record(number) for number in range(60)] == data
    assert sum(fed) <= 60 * 20_016 + 2**20
    order = list(range(60))
    random.Random(1).shuffle(order)
    fed.clear()
    assert [file.record(number) for number in order] == [data[number] for number in order]
    # From a kept state it is at most some 160 kB and one piece ahead to a record, where from the start it would be 600 kB on average.
    assert sum(fed) < 60 * 300_000
    assert file.record(60) is None
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(file.record, order)) == [data[number] for number in order]


def test_a_damaged_record_found_again_is_none(tmp_path):
    good = made.framed(b"one"), made.framed(b"two"), made.framed(b"three")
    (tmp_path / "f").write_bytes(good[0] + good[1][:-1] + b"\0" + good[2])
    file = tfrecord.File(tmp_path / "f")
    assert [file.record(number) for number in (2, 1, 0)] == [b"three", None, b"one"]


def test_an_example_as_tensorflow_writes_it():
    # Example{features{feature{key "id" value{int64_list{value [7, -1]}}} feature{key "t" value{bytes_list{value ["a", ""]}}}}}
    seven = b"\x1a\x0d\x0a\x0b\x07" + b"\xff" * 9 + b"\x01"
    first = b"\x0a\x02id\x12" + bytes([len(seven)]) + seven
    second = b"\x0a\x01t\x12\x07\x0a\x05\x0a\x01a\x0a\x00"
    features = b"\x0a" + bytes([len(first)]) + first + b"\x0a" + bytes([len(second)]) + second
    data = b"\x0a" + bytes([len(features)]) + features
    assert tfrecord.example(data, "f", ("id", "t", "none")) == {"id": [7, -1], "t": [b"a", b""], "none": []}
    assert tfrecord.example(data[:-1], "f#3", ("id",)) == Skipped("f#3", "bad_example", "the record is no tf.train.Example")


@pytest.mark.parametrize("kind", ["features", "values", "numbers"])
def test_a_small_record_is_not_parsed_into_a_large_one(kind):
    def wrapped(tag: int, data: bytes) -> bytes:
        size, length = b"", len(data)
        while length > 127:
            size, length = size + bytes([length & 127 | 128]), length >> 7
        return bytes([tag]) + size + bytes([length]) + data

    many = b"\x0a\0" * 2**22
    if kind != "features":
        feature = wrapped(0x0A, many) if kind == "values" else wrapped(0x1A, wrapped(0x0A, bytes(2**22)))
        many = wrapped(0x0A, wrapped(0x0A, b"id") + wrapped(0x12, feature))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert tfrecord.example(wrapped(0x0A, many), "f", ("id",)).reason == "too_large"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 2**10  # KiB; eight MiB of data, a few times over


# -- episodes -------------------------------------------------------------------------------------------------------------


def field(number: int, value: int | bytes) -> bytes:
    """Return one protobuf field by hand: a number below 128, or bytes shorter than 128."""
    return (
        bytes([number << 3, value])
        if isinstance(value, int)
        else bytes([(number << 3 | 2) % 128 | (128 if number > 15 else 0)])
        + (bytes([number >> 4]) if number > 15 else b"")
        + bytes([len(value)])
        + value
    )


def test_a_tree_is_read_by_androidenvs_field_numbers():
    # ProtoRect: left 1, top 2, right 3, bottom 4. NodeInfo: bounds 2, class 3, package 6, text 7, view id 10, clickable 14.
    # WindowInfo: layer 4, type 6, tree 11. Tree: nodes 1. Forest: windows 1.
    rect = field(1, 10) + field(2, 20) + field(3, 30) + field(4, 60)
    node = field(2, rect) + field(3, b"android.widget.Button") + field(6, b"com.shop") + field(7, b"Buy") + field(14, 1)
    tree = field(1, field(4, 2) + field(6, 1) + field(11, field(1, node)))
    forest = androidcontrol._forest(tree)
    assert androidcontrol._target(androidcontrol._at(forest, 29, 59), 29, 59) == Target(29, 59, 10, 20, 20, 40, "[Button] Buy")
    assert androidcontrol._at(forest, 30, 59) is None
    assert (androidcontrol._page(forest), androidcontrol._package(forest)) == ("Buy", "com.shop")


def shop(*nodes: dict, **window: object) -> dict:
    root = {"box": (0, 0, 40, 80), "class_name": "android.widget.FrameLayout", "package_name": "com.shop"}
    return {"layer": 1, "window_type": 1, "nodes": [root, *nodes], **window}


HOME = made.tree(shop({"box": (0, 0, 40, 80), "text": "Apps", "package_name": "com.google.launcher"}))
LIST = made.tree(
    {"layer": 3, "window_type": 3, "nodes": [{"box": (0, 0, 40, 8), "text": "12:30"}]},
    shop(
        {"box": (0, 10, 40, 40), "class_name": "android.view.ViewGroup", "is_clickable": True},
        {"box": (5, 12, 20, 20), "class_name": "android.widget.TextView", "text": " Tea\n pot "},
        {"box": (5, 22, 6, 23), "class_name": "android.widget.ImageView", "text": "unseen", "is_visible_to_user": False},
        {"box": (20, 50, 40, 60), "class_name": "android.widget.ImageButton", "view_id_resource_name": "com.shop:id/cart"},
        {"box": (0, 60, 40, 70), "class_name": "android.widget.EditText", "hint_text": "Search", "is_editable": True, "is_focused": True},
    ),
)
ACTIONS = [
    {"action_type": "open_app", "app_name": "Shop"},
    {"action_type": "click", "x": 10, "y": 15},
    {"action_type": "long_press", "x": 30, "y": 30},
    {"action_type": "scroll", "direction": "down"},
    {"action_type": "input_text", "text": "blue teapot "},
    {"action_type": "type", "x": 1, "y": 65, "text": "cup"},
    {"action_type": "navigate_home"},
    {"action_type": "navigate_back"},
    {"action_type": "wait"},
    {"action_type": "fly"},
]


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two files: an episode with every action and a short one; one of another split."""
    screens = [png(number) for number in range(11)]
    said = tuple(f"do {number // 2}" for number in range(10))
    every = made.episode(12, "Buy a teapot", ACTIONS, screens, [HOME, *[LIST] * 10], said)
    short = made.episode(3, "Go home", [{"action_type": "navigate_home"}], screens[:2])
    made.write(tmp_path / NAME, every, short)
    made.write(
        tmp_path / "android_control-00001-of-00020", made.episode(40, "Wait", [{"action_type": "wait"}], [png(90), png(91)], [LIST, LIST])
    )
    (tmp_path / "splits.json").write_text('{"train": [12, 40], "validation": [], "test": [3]}')
    (tmp_path / "test_subsplits.json").write_text('{"app_unseen": [3]}')
    (tmp_path / "README.md").write_text("about")
    return tmp_path


def test_every_action_becomes_its_operation(folder):
    found, skipped = read(folder)
    assert skipped == []
    assert [one.native_id for one in found] == ["12", "3", "40"]
    assert [(step.op, step.value) for step in found[0].steps] == [
        ("open_app", "Shop"),
        ("click", None),
        ("long_press", None),
        ("scroll", "down"),
        ("type", "blue teapot "),
        ("type", "cup"),
        ("key", "home"),
        ("back", None),
        ("wait", None),
        ("other", None),
    ]
    assert found[0].steps[1].op_raw == '{"action_type": "click", "x": 10, "y": 15}'
    assert [step.source_step for step in found[0].steps] == [str(number) for number in range(10)]
    assert [step.reasoning for step in found[0].steps][:3] == ["do 0", "do 0", "do 1"]
    assert found[1].steps[0].reasoning is None


def test_a_target_is_the_smallest_node_the_user_sees(folder):
    steps = read(folder)[0][0].steps
    assert steps[1].target == Target(10, 15, 5, 12, 15, 8, "[TextView] Tea pot")
    assert steps[2].target == Target(30, 30, 0, 10, 40, 30, "[ViewGroup]")
    assert steps[3].target is None
    assert steps[4].target == Target(None, None, 0, 60, 40, 10, "[EditText] Search")
    assert steps[5].target == Target(1, 65, 0, 60, 40, 10, "[EditText] Search")


@pytest.mark.parametrize(
    ("place", "text"),
    [((25, 55), "[ImageButton] cart"), ((5, 22), "[ViewGroup]"), ((1, 75), "[FrameLayout]"), ((10, 4), "[] 12:30"), ((99, 4), None)],
)
def test_what_lies_at_a_place(place, text):
    target = androidcontrol._target(androidcontrol._at(androidcontrol._forest(LIST), *place), *place)
    assert target == Target(*place) if text is None else target.text == text


def test_a_dialog_lies_before_the_window_under_it():
    dialog = {"layer": 5, "window_type": 1, "nodes": [{"box": (0, 0, 40, 80), "text": "Sure?"}]}
    forest = androidcontrol._forest(made.tree(shop({"box": (1, 1, 9, 9), "text": "small"}), dialog))
    assert androidcontrol._label(androidcontrol._at(forest, 5, 5)) == "Sure?"


def test_page_text_is_the_application_s(folder):
    found = read(folder)[0]
    assert found[0].steps[0].page_text == "Apps"
    assert found[0].steps[1].page_text == "Tea pot"
    assert found[0].final_text == "Tea pot"
    assert found[1].steps[0].page_text is None


def test_episode_facts(folder):
    found = read(folder)[0]
    first = found[0]
    assert (first.benchmark, first.task_id, first.domain, first.website) == ("androidcontrol", "12", "android", "Shop")
    assert (first.instruction, first.license, first.agent, first.oracles) == ("Buy a teapot", "Apache-2.0", None, [])
    assert [one.experiment for one in found] == ["train", "test", "train"]
    assert [one.website for one in found] == ["Shop", None, "com.shop"]


def test_an_action_lies_between_its_two_screens(folder):
    first = read(folder)[0][0]
    assert first.obs_phase == "both"
    aligned = align(first)
    assert [(one.before.member, one.after.member) for one in aligned[:2]] == [
        ("000000/0000", "000000/0001"),
        ("000000/0001", "000000/0002"),
    ]
    assert all(one.lost is None for one in aligned)
    assert [step.before.load() for step in first.steps] == [png(number) for number in range(10)]
    assert first.steps[-1].after.load() == png(10)


@pytest.mark.parametrize(("split", "ids"), [("train", ["12", "40"]), ("test", ["3"]), ("app_unseen", ["3"]), ("validation", [])])
def test_a_split_is_chosen_by_its_list(folder, split, ids):
    found, skipped = read(folder, split=split)
    assert [one.native_id for one in found] == ids
    assert skipped == []


def test_a_split_nobody_lists_says_so(folder):
    found, skipped = read(folder, split="dev")
    assert found == []
    assert [(one.item, one.reason) for one in skipped] == [("splits.json", "no_split")]
    assert "test, train" in skipped[0].detail
    (folder / "splits.json").write_text("[broken")
    assert [one.reason for one in read(folder, split="train")[1]] == ["bad_json", "no_split"]
    assert len(read(folder)[0]) == 3


def test_files_are_chosen_by_pattern(folder):
    assert [one.native_id for one in read(folder, files=["*-00001-*"])[0]] == ["40"]


def test_screens_are_found_again_in_any_order(folder, monkeypatch):
    found = read(folder)[0]
    monkeypatch.setattr(androidcontrol, "_KEPT", 1)
    androidcontrol._opened.cache_clear()
    for number in (10, 3, 7):
        assert androidcontrol.load(folder, NAME, f"000000/{number:04d}") == png(number)
        assert found[1].steps[0].after.load() == png(1)
        assert pictures.encoded_bytes(folder, NAME, f"000000/{number:04d}", "androidcontrol") == png(number)
    assert androidcontrol.load(folder, NAME, "000000/0011") is None
    assert androidcontrol.load(folder, NAME, "000099/0000") is None


def test_screens_of_the_episodes_met_last_take_no_second_pass(folder, monkeypatch):
    monkeypatch.setattr(tfrecord.File, "record", lambda *_: pytest.fail("read again"))
    for one in androidcontrol.read(folder, {}):
        assert all(step.before.load() for step in one.steps)


def test_kept_screens_are_bounded(folder, monkeypatch):
    kept = androidcontrol._Kept()
    monkeypatch.setattr(androidcontrol, "_KEPT", 1000)
    shard = tfrecord.File(folder / NAME)
    for number in range(50):
        kept.put(shard, number, [bytes(300), bytes(100)])
        kept.put(shard, number, [bytes(300), bytes(100)])
    assert [kept.get(shard, number) is not None for number in (47, 48, 49)] == [False, True, True]
    kept.put(shard, 50, [bytes(5000)])
    assert kept.get(shard, 50) == [bytes(5000)]
    assert kept.get(shard, 49) is None


# -- damage ---------------------------------------------------------------------------------------------------------------


def test_a_damaged_action_costs_that_action(tmp_path):
    actions = [{"action_type": "wait"}, b"{broken", b"[1]", b'{"action_type": 3, "x": "nan", "y": 4}', b"\xff", {"action_type": "wait"}]
    made.write(tmp_path / NAME, made.episode(1, "g", actions, [png(number) for number in range(7)]))
    (one,), _ = read(tmp_path)
    assert [(step.op, step.source_step, step.before.member) for step in one.steps] == [
        ("wait", "0", "000000/0000"),
        ("other", "3", "000000/0003"),
        ("wait", "5", "000000/0005"),
    ]
    assert [(item, reason) for _, item, reason, _ in one.skipped] == [
        (f"{NAME}#0/1", "bad_json"),
        (f"{NAME}#0/2", "bad_record"),
        (f"{NAME}#0/4", "not_utf8"),
    ]
    assert [found.gap_before for found in align(one)] == [False, True, True]
    assert all(found.lost is None for found in align(one))


def test_screens_that_do_not_match_the_actions_are_reported(tmp_path):
    wait = {"action_type": "wait"}
    made.write(tmp_path / NAME, made.episode(1, "g", [wait, wait], [png(0), png(1)]), made.episode(2, "g", [], [png(0)]))
    (one, two), _ = read(tmp_path)
    assert [(step.before is not None, step.after is not None) for step in one.steps] == [(True, True), (True, False)]
    assert [(unit, reason) for unit, _, reason, _ in one.skipped] == [("picture", "wrong_count")]
    assert (two.steps, two.skipped) == ([], [])


def test_a_tree_that_cannot_be_read_costs_texts_only(tmp_path):
    trees = [b"\xff\xff\xff", LIST, bytes(androidcontrol._TREE_LIMIT + 1)]
    click = {"action_type": "click", "x": 10, "y": 15}
    made.write(tmp_path / NAME, made.episode(1, "g", [click, click], [png(0), png(1), png(2)], trees))
    (one,), _ = read(tmp_path)
    assert [step.target for step in one.steps] == [Target(10, 15), Target(10, 15, 5, 12, 15, 8, "[TextView] Tea pot")]
    assert [(unit, reason) for unit, _, reason, _ in one.skipped] == [("tree", "bad_tree")]
    assert one.skipped[0][3].startswith("2 of 3")


def test_odd_texts_survive(tmp_path):
    node = {"box": (0, 0, 9, 9), "text": b"\xff\x00\xf0\x9f"}
    record = made.example(
        episode_id=[-5],
        goal=[b"\xff goal"],
        screenshots=[b"", b""],
        accessibility_trees=[made.tree({"nodes": [node]})] * 2,
        actions=[b'{"action_type": "click", "x": 1, "y": 1}'],
        step_instructions=[b"\xfe"],
    )
    made.write(tmp_path / NAME, record)
    (one,), _ = read(tmp_path)
    assert (one.native_id, one.instruction) == ("-5", "\N{REPLACEMENT CHARACTER} goal")
    assert one.steps[0].before.load() == b""


def test_records_of_another_kind_have_a_reason(tmp_path):
    many = made.example(episode_id=[1], actions=[b"{}"] * 10_001)
    odd = [b"\xff\xff", made.example(goal=[b"g"]), made.example(episode_id=[b"x"]), many, made.episode(4, "g", [{}], [b"", b""])]
    made.write(tmp_path / NAME, *odd)
    found, skipped = read(tmp_path)
    assert [one.native_id for one in found] == ["4"]
    assert [(one.item, one.reason) for one in skipped] == [
        (f"{NAME}#0", "bad_example"),
        (f"{NAME}#1", "no_id"),
        (f"{NAME}#2", "no_id"),
        (f"{NAME}#3", "too_large"),
    ]


def test_links_out_of_the_folder_and_special_files_are_not_read(tmp_path):
    root = tmp_path / "root"
    made.write(tmp_path / "outside", made.episode(4, "g", [{}], [b"", b""]))
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(root / "pipe")
    found, skipped = read(root)
    assert found == []
    assert [(one.item, one.reason) for one in skipped] == [("link", "outside_root"), ("pipe", "unreadable")]
    with pytest.raises(OSError, match="leads out"):
        androidcontrol.load(root, "link", "000000/0000")


@pytest.mark.parametrize("threads", [1, 4])
def test_the_tables_hold_every_step(folder, tmp_path_factory, threads):
    out = tmp_path_factory.mktemp("out")
    counts = Counts("normalise")
    normalise.normalise(out, counts, normalise.Source("ac", "androidcontrol", folder), threads)
    summary = counts.summary("trajectory")
    assert (summary["kept"], summary["dropped"]) == (3, {})
    assert {unit: one["kept"] for unit, one in summary["others"].items()} == {"picture": 15, "step": 12, "transition": 12}
    steps = pq.read_table(out / "steps.parquet").to_pylist()
    assert [(row["trajectory_id"], row["step"]) for row in steps] == [
        *(("ac:12", number) for number in range(10)),
        ("ac:3", 0),
        ("ac:40", 0),
    ]
    assert {row["obs_phase"] for row in steps} == {"both"}
    images = pq.read_table(out / "images.parquet").to_pylist()
    assert len(images) == 13
    assert all((row["width"], row["height"], row["status"]) == (40, 80, "ok") for row in images)


def test_many_threads_see_the_same_screens(folder, monkeypatch):
    monkeypatch.setattr(androidcontrol, "_KEPT", 1)
    start = threading.Barrier(8)

    def look(number: int) -> bytes | None:
        start.wait()
        return androidcontrol.load(folder, NAME, f"{number % 2:06d}/0001")

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(look, range(8))) == {png(1)}
