"""Mining: what makes a question not worth asking is found in the pictures, and what only looks like it is kept."""

from collections import Counter

import numpy as np
import pytest
from made_logs import Logs, painted
from made_probes import TASKS, miner
from scipy.stats import chisquare

from evoaudit.probes import t1
from evoaudit.probes.t2 import stands_in
from evoaudit.report import drops, load

WIDE, HIGH = 640, 400


@pytest.fixture
def mine(tmp_path):
    return miner(tmp_path)


def screen(number: int) -> np.ndarray:
    return painted(number, WIDE, HIGH)


def patched(picture: np.ndarray, tiles: int, first: int = 0) -> np.ndarray:
    """Return a copy of a picture that differs in so many tiles."""
    changed = picture.copy()
    for tile in range(first, first + tiles):
        changed[:10, tile * 16 : tile * 16 + 10] ^= 128
    return changed


def page(*boxes: tuple[int, int, int, int]) -> np.ndarray:
    """Return a white screen with dark boxes: left, top, width, height."""
    picture = np.full((HIGH, WIDE, 3), 255, np.uint8)
    for left, top, width, height in boxes:
        picture[top : top + height, left : left + width] = 60
    return picture


def frame(left: int, top: int, width: int, height: int) -> list[tuple[int, int, int, int]]:
    return [(left, top, width, 2), (left, top + height, width, 2), (left, top, 2, height), (left + width, top, 2, height)]


#: Nothing but a spinner; a spinner and a word; white; a page that is still to come, its name in a corner.
EMPTY = {
    "spinner": page(*frame(300, 180, 24, 24)),
    "spinner and word": page(*frame(300, 180, 24, 24), (330, 188, 60, 3), (330, 194, 50, 2)),
    "white": page(),
    "icon": page((8, 8, 30, 20)),
}
#: A form to log in; a search page with something in each corner; a letter typed into a line of a bare page.
SPARSE = {
    "form": page(*frame(220, 120, 200, 150), *frame(240, 140, 160, 24), *frame(240, 180, 160, 24), (290, 225, 60, 20)),
    "corners": page((4, 4, 20, 8), (600, 4, 30, 8), (4, 380, 60, 8), (560, 380, 60, 8), (250, 190, 140, 3)),
    "lines": page(*[(40, top, 300, 2) for top in range(60, 340, 40)]),
}


def visits(kind: str, middle: np.ndarray) -> Logs:
    """Return six trajectories on two sites that all go through one picture half way, without a word of text in the log."""
    logs = Logs(pixels={kind: middle} | {f"{i}-{k}": screen(10 * i + k) for i in range(6) for k in range(7) if k != 3})
    for i in range(6):
        logs.add(f"t{i}", [kind if k == 3 else f"{i}-{k}" for k in range(7)], domain=f"d{i % 2}")
    return logs


QUOTAS = {"t1": {3: 60}, "t2": {"click": 60}, "t3": {"cross": 60, "same_domain": 60, "long_skip": 60}}


@pytest.mark.parametrize("kind", EMPTY)
def test_a_screen_that_shows_next_to_nothing_is_in_no_question(mine, kind):
    logs = visits(kind, EMPTY[kind])
    found = mine(logs, share=1.0, **QUOTAS)
    assert all(found.rows[task] for task in TASKS)
    assert not any(logs.id(kind) in row["images"] for task in TASKS for row in found.rows[task])
    assert found.reasons["blank_screen"] >= 12


@pytest.mark.parametrize("kind", SPARSE)
def test_a_sparse_screen_is_asked_about(mine, kind):
    logs = visits(kind, SPARSE[kind])
    found = mine(logs, share=1.0, **QUOTAS)
    assert all(any(logs.id(kind) in row["images"] for row in found.rows[task]) for task in TASKS)
    assert found.reasons["blank_screen"] == 0


@pytest.mark.parametrize(("tiles", "kept"), [(2, 0), (4, 1)])
def test_a_screen_whose_look_comes_back_makes_order_ambiguous(mine, tiles, kept):
    # Screens 0 and 2 look the same; of 0, 1 and 3 nobody could say whether the first was before the second or after it.
    pixels = {name: screen(k) for k, name in enumerate(["home", "list", "item"])}
    logs = Logs(pixels=pixels | {"home again": patched(pixels["home"], tiles)})
    logs.add("one", ["home", "list", "home again", "item"])
    found = mine(logs, t1={3: 9}, share=1.0)
    assert len(found.rows["t1"]) == 4 * kept
    assert found.reasons["ambiguous_order"] == (0 if kept else 2)
    assert found.reasons["indistinguishable_screens"] == (0 if kept else 2)


def test_a_look_that_stays_is_no_comeback(mine):
    # Screens 0 and 1 look the same, and nothing lies between them: the order of 0, 2 and 3 is plain.
    pixels = {name: screen(k) for k, name in enumerate(["home", "list", "item"])}
    logs = Logs(pixels=pixels | {"home again": patched(pixels["home"], 1)})
    logs.add("one", ["home", "home again", "list", "item"])
    found = mine(logs, t1={3: 9}, share=1.0)
    assert sorted(sorted(row["steps"]) for row in found.rows["t1"]) in ([[0, 2, 3]], [[1, 2, 3]])
    assert found.reasons == {"indistinguishable_screens": 2, "near_duplicate": 1}


def twice(tiles: int, values: tuple[str, str] = ("mug", "mug"), domain: str = "shop") -> Logs:
    """Return two trajectories of other tasks whose screens differ one by one in so many tiles."""
    logs = Logs(pixels={f"0-{k}": screen(k) for k in range(4)} | {f"1-{k}": patched(screen(k), tiles) for k in range(4)})
    for i in range(2):
        steps = [{"op": "type", "value": values[i]}, {"op": "click"}, {"op": "click"}]
        logs.add(f"t{i}", [f"{i}-{k}" for k in range(4)], steps, domain=(domain, "shop")[i])
    return logs


@pytest.mark.parametrize(("tiles", "items"), [(1, 1), (2, 1), (3, 2), (6, 2)])
def test_questions_that_look_the_same_are_asked_once(mine, tiles, items):
    found = mine(twice(tiles), share=1.0, t1={4: 9}, t2={"click": 9}, t3={"long_skip": 9})
    assert {task: len(found.rows[task]) for task in TASKS} == {"t1": items, "t2": 2 * items, "t3": items}
    assert found.reasons["near_duplicate"] == 4 * (2 - items)


def test_equal_looks_with_another_answer_are_another_question(mine):
    # One letter is a tile or two: what was typed tells the questions apart.
    assert len(mine(twice(1, ("mug", "mog")), share=1.0, t2={"type": 9}).rows["t2"]) == 2
    assert len(mine(twice(1), share=1.0, t2={"type": 9}).rows["t2"]) == 1


def test_the_very_same_pair_has_one_answer(mine):
    logs = Logs()
    for value in ("mug", "mog"):
        logs.add(value, ["a", "b"], [{"op": "type", "value": value}])
    assert len(mine(logs, share=1.0, t2={"type": 9}).rows["t2"]) == 1


def test_a_page_some_pixels_longer_looks_the_same(mine):
    longer = {name: np.concatenate([screen(k), screen(9)[:rows]]) for name, k, rows in (("twin", 1, 8), ("other", 1, 40))}
    for name, kept in (("twin", 0), ("other", 1)):
        logs = Logs(pixels={"a": screen(0), "b": screen(1), name: longer[name]})
        logs.add("one", ["a", "b"], domain="x")
        logs.add("two", [name, None], [{"op": "done"}], domain="y")
        found = mine(logs, t3={"cross": 1})
        assert len(found.rows["t3"]) == kept and found.reasons["no_distractor"] == 1 - kept


def sizes(*heights: tuple[int, int]) -> Logs:
    """Return trajectories of other domains, each of two screens of the heights given."""
    logs = Logs()
    for i, (first, second) in enumerate(heights):
        logs.odd |= {f"{i}-0": {"height": first}, f"{i}-1": {"height": second}}
        logs.add(f"t{i}", [f"{i}-0", f"{i}-1"], [{"change": {"state": "changed", "changed_tiles": 9}}], domain=f"d{i}")
    return logs


def test_a_size_that_would_tell_the_successor_is_avoided(mine):
    # Six sizes, two trajectories of each: every one finds a screen of its own size, however far it lies on the ring.
    logs = sizes(*[(700 + 50 * (i // 2),) * 2 for i in range(12)])
    found = mine(logs, share=1.0, t3={"cross": 12})
    height = {logs.id(name): row["height"] for name, row in logs.odd.items()}
    assert len(found.rows["t3"]) == 12
    assert all(len({height[image] for image in row["images"]}) == 1 for row in found.rows["t3"])
    assert found.quotas["t3"]["slices"]["cross"]["spare"] == 0


@pytest.mark.parametrize(("quota", "spare"), [(4, 0), (6, 2)])
def test_questions_whose_sizes_tell_fill_a_quota_last(mine, quota, spare):
    # The first four have twins in size, the last two have none.
    logs = sizes((700, 700), (700, 700), (800, 800), (800, 800), (900, 900), (1000, 1000))
    found = mine(logs, share=1.0, t3={"cross": quota})
    assert len(found.rows["t3"]) == quota and found.quotas["t3"]["slices"]["cross"]["spare"] == spare
    assert {"t0", "t1", "t2", "t3"} <= {row["trajectory_id"] for row in found.rows["t3"]}
    assert found.counts["read"] == quota + sum(found.counts["dropped"].values())


def test_a_successor_of_another_size_than_its_start_takes_any_distractor(mine):
    found = mine(sizes((700, 800), (900, 1000)), share=1.0, t3={"cross": 2})
    assert len(found.rows["t3"]) == 2 and found.quotas["t3"]["slices"]["cross"]["spare"] == 0


@pytest.mark.parametrize("value", ["mug ", "\tmug", "mug\n", "mu\x08ug"])
def test_a_value_that_no_screen_can_show_is_left_out(mine, value):
    logs = Logs()
    logs.add("one", ["a", "b"], [{"op": "type", "value": value}])
    found = mine(logs, t2={"type": 1})
    assert not found.rows["t2"] and found.reasons["unseen_value"] == 1


@pytest.mark.parametrize(
    ("op", "value", "kept"),
    [
        ("key", "ctrl+c", False),
        ("key", "Cmd + C", False),
        ("key", "shift", False),
        ("key", "ctrl+alt", False),
        ("copy", None, False),
        ("key", "ctrl+v", True),
        ("key", "c", True),
        ("key", "ctrl+shift+t", True),
        ("paste", "words", True),
    ],
)
def test_a_copy_or_a_lone_modifier_explains_no_change(mine, op, value, kept):
    logs = Logs()
    logs.add("one", ["a", "b", "c", "d", "e"], [{"op": op, "value": value}, {}, {}, {}])
    found = mine(logs, share=1.0, t2={"key": 9, "copy": 9, "type": 9}, t3={"long_skip": 9})
    assert len(found.rows["t2"]) == kept and (0 in {row["step"] for row in found.rows["t3"]}) == kept
    assert found.reasons["idle_action"] == (0 if kept else 2)


@pytest.mark.parametrize("value", ["two words", "two\nlines", "«quoted»", "x"])
def test_a_value_that_a_screen_can_show_is_kept(mine, value):
    logs = Logs()
    logs.add("one", ["a", "b"], [{"op": "type", "value": value}])
    assert [row["answer_value"] for row in mine(logs, t2={"type": 1}).rows["t2"]] == [value]


@pytest.mark.parametrize("value", ["••••••", "***", " [REDACTED] ", "<password>", "((masked))", "████"])
def test_a_value_that_was_struck_out_is_left_out(mine, value):
    logs = Logs()
    logs.add("one", ["a", "b"], [{"op": "type", "value": value}])
    assert mine(logs, t2={"type": 1}).reasons["masked_value"] == 1


@pytest.mark.parametrize("value", ["5 * 3", "password", "removed items", "**bold** text", "■ Buy"])
def test_a_value_that_only_looks_struck_out_is_kept(mine, value):
    logs = Logs()
    logs.add("one", ["a", "b"], [{"op": "type", "value": value}])
    assert len(mine(logs, t2={"type": 1}).rows["t2"]) == 1


@pytest.mark.parametrize(
    ("value", "goal"),
    [
        ("blue mug", "Find a blue mug."),
        ("Blue  Mug", "find a BLUE MUG"),
        ("'blue mug'", "Find a “blue mug”, please"),
        ("blue mug.", "A blue mug"),
        ("O’Brien", "Write to O'Brien"),
        ("STRASSE", "In der Straße"),
        ("５", "Take 5 of them"),
        ("$5.99", "It costs $5.99"),
    ],
)
def test_a_value_stands_in_a_goal_whatever_its_case_and_quotes(value, goal):
    assert stands_in(value, goal)


@pytest.mark.parametrize(
    ("value", "goal"),
    [("mug", "Find smug people"), ("5", "In 2025"), ("mug blue", "a blue mug"), ("?!", "What?!"), ("", "x"), ("a.b", "axb")],
)
def test_a_part_of_a_word_is_no_value_in_a_goal(value, goal):
    assert not stands_in(value, goal)


@pytest.mark.parametrize(("n", "length"), [(8, 3), (40, 3), (40, 5), (300, 4)])
def test_every_index_set_of_a_trajectory_is_as_likely_as_any(n, length):
    # 400 trajectories: how often each tenth of the screens is in the first window, and how often the first two are neighbours.
    windows = [next(iter(t1._windows(n, length, 1, f"t{i}"))) for i in range(400)]
    assert all(len(set(window)) == length and list(window) == sorted(window) and window[0] >= 0 and window[-1] < n for window in windows)
    bins = min(n, 10)
    used = Counter(index * bins // n for window in windows for index in window)
    share = Counter(index * bins // n for index in range(n))
    assert chisquare([used[b] for b in range(bins)], [400 * length * share[b] / n for b in range(bins)]).pvalue > 0.01
    tight = sum(window[-1] - window[0] == length - 1 for window in windows)
    assert tight <= (150 if n == 8 else 20)


def test_windows_of_a_long_trajectory_are_drawn_without_listing_them():
    found = list(t1._windows(100_000, 5, 1, "long"))
    assert len(found) == len(set(found)) == t1.WINDOWS


def test_a_long_trajectory_is_covered_from_end_to_end(mine):
    logs = Logs()
    logs.add("long", [f"s{k}" for k in range(200)])
    steps = [step for row in mine(logs, share=1.0, t1={5: 64}).rows["t1"] for step in row["steps"]]
    assert min(steps) < 20 and max(steps) > 180 and len(set(steps)) > 120


def faulty() -> Logs:
    """Return logs in which something is wrong for most of the reasons for which mining leaves a candidate out."""
    a, b, c, d = (screen(k) for k in range(4))
    pixels = {"a": a, "b": b, "c": c, "d": d, "a2": patched(a, 1), "white": page(), "b2": patched(b, 1, 5), "c2": patched(c, 1, 5)}
    logs = Logs(pixels=pixels, odd={"lost": {"status": "missing"}})
    logs.add("few", ["a", "b"], domain="x")
    logs.add("again", ["a", "b", "a2", "d"])
    logs.add("twin", ["a", "b2", "c2", None], [{}, {}, {"op": "done"}], domain="y")
    logs.add("odd", ["a", "white", "lost", "d"])
    unlike = {"state": "unknown", "changed_tiles": None}
    steps = [
        {"op": "wait"},
        {"op": "scroll"},
        {"change": unlike},
        {"change": {"state": "same", "changed_tiles": 0}},
        {"error": "no such element"},
    ]
    logs.add("steps", [f"s{k}" for k in range(6)], steps)
    values = [{"op": "type", "value": value} for value in (None, "***", "x ", "fine")]
    logs.add("values", [f"v{k}" for k in range(5)], values)
    logs.add("plain", [f"p{k}" for k in range(7)])
    return logs


REASONS = {
    "too_few_screens",
    "indistinguishable_screens",
    "ambiguous_order",
    "no_visible_change",
    "unknown_change",
    "blank_screen",
    "bad_picture",
    "outside_vocabulary",
    "no_value",
    "masked_value",
    "unseen_value",
    "failed_action",
    "idle_action",
    "no_distractor",
    "near_duplicate",
}


def test_each_reason_has_an_example_with_its_screens_in_the_report(mine):
    found = mine(faulty(), share=1.0, t1={3: 40}, t2={"click": 40, "type": 9}, t3={"cross": 9, "long_skip": 9})
    inputs = load.Inputs(stats=found.folder, normalised=(found.folder.parent / "normalised-made",), mined=found.folder)
    shown, n = drops.drops(inputs, 1, 7)
    assert n == len(found.drops) and {one.reason for one in shown} == set(found.reasons) == REASONS
    for one in shown:
        assert [frame for frame in one.frames if frame.picture], one


def test_the_last_screen_of_a_window_is_shown_too(mine):
    logs = Logs(pixels={"a": screen(1), "b": screen(2), "a2": patched(screen(1), 1)})
    logs.add("one", ["a", "b", "a2"])
    found = mine(logs, t1={3: 1})
    inputs = load.Inputs(stats=found.folder, normalised=(found.folder.parent / "normalised-made",), mined=found.folder)
    ((one,), _) = drops.drops(inputs, 24, 7)
    assert [frame.picture for frame in one.frames] == [logs.id("a"), logs.id("b"), logs.id("a2")]
