"""The no-op probe on the pairs of the field's measurements, as bitmaps."""

import pytest
from tests.made_episode import episode, step

from evoaudit.audit import noop

#: A clock in the corner, far from everything.
CLOCK = (1200, 20, 50, 14)
BUTTON = (400, 300, 80, 24)
FIELD = (400, 400, 200, 24)


def screens(made):
    return [row["screen"] for row in noop.probe(made).rows]


def busy_clock():
    """Return three different actions during which the clock ticked, so that it is known as volatile."""
    return [step(at=(100 + 200 * i, 200), text=f"b{i}", changed=[CLOCK, (100 + 200 * i, 200)]) for i in range(3)]


def test_identical_screens_are_unchanged():
    assert screens(episode(step(at=(10, 10)))) == ["no_change"]


def test_a_missing_picture_is_unknown_and_breaks_a_run():
    found = noop.probe(episode(step(at=(10, 10)), step(at=(10, 10), changed="unknown"), step(at=(10, 10)), step(at=(10, 10))))
    assert [row["screen"] for row in found.rows] == ["no_change", "unknown", "no_change", "no_change"]
    assert [row["run"] for row in found.rows] == [1, 0, 1, 2]


def test_a_difference_nobody_can_see_is_no_change():
    row = step(at=(10, 10), changed=[])
    assert screens(episode(row)) == ["volatile_only"]


@pytest.mark.parametrize(
    ("name", "one"),
    [
        ("checkbox ticked", step(at=(404, 306), changed=[(404, 306)], pixels=39)),
        ("character typed", step("type", at=FIELD, value="a", changed=[(420, 404)], pixels=41)),
        ("character typed without a place", step("type", value="a", changed=[(420, 392, 4, 20)], pixels=41)),
        ("digit changed in a row", step(at=(60, 300), changed=[(700, 300)], pixels=49)),
        ("validation error text", step(at=BUTTON, changed=[(400, 340, 96, 14)], pixels=261)),
        ("dropdown opened", step(at=BUTTON, changed=[(400, 324, 120, 180)], pixels=3494)),
        ("toast", step(at=BUTTON, changed=[(900, 640, 300, 40)], pixels=10485)),
        ("new page", step(at=BUTTON, changed=[(0, 60, 1280, 600)], pixels=42940)),
    ],
)
def test_an_effect_however_small_is_a_change(name, one):
    assert screens(episode(*busy_clock(), one))[-1] == "changed", name


def test_a_clock_that_ticks_under_different_actions_is_volatile():
    made = episode(*busy_clock(), step(at=BUTTON, changed=[CLOCK]), step(at=BUTTON, changed=[CLOCK]), step(at=BUTTON, changed=[CLOCK]))
    found = noop.probe(made)
    assert [row["screen"] for row in found.rows] == ["changed"] * 3 + ["volatile_only"] * 3
    assert [row["run"] for row in found.rows] == [0, 0, 0, 1, 2, 3]


def test_a_clock_seen_ticking_while_the_agent_waits_is_volatile():
    made = episode(*[step("wait", changed=[CLOCK]) for _ in range(3)], step(at=BUTTON, changed=[CLOCK]))
    assert screens(made) == ["volatile_only"] * 4


def test_a_checkbox_beside_a_ticking_clock_is_a_change():
    made = episode(*busy_clock(), step(at=(404, 306), changed=[CLOCK, (404, 306)]))
    assert screens(made)[-1] == "changed"


def test_a_counter_that_one_button_drives_is_not_volatile():
    made = episode(*[step(at=BUTTON, text="+", changed=[(700, 300)]) for _ in range(5)])
    assert screens(made) == ["changed"] * 5


def test_a_list_that_pages_through_is_not_volatile():
    made = episode(*[step(at=(100 + 60 * i, 600), text=f"page {i}", changed=[(100, 100, 1000, 400)]) for i in range(4)])
    assert screens(made) == ["changed"] * 4


def test_what_changes_at_the_place_acted_on_is_never_masked():
    made = episode(*[step(at=BUTTON, text=f"b{i}", changed=[BUTTON]) for i in range(4)])
    assert screens(made) == ["changed"] * 4


def test_a_caret_far_from_the_click_is_volatile_and_one_beside_it_is_not_masked():
    caret = (300, 88, 2, 20)
    assert screens(episode(step(at=BUTTON, changed=[caret], pixels=19)))[-1] == "volatile_only"
    beside = (420, 300, 2, 20)
    assert screens(episode(step(at=BUTTON, changed=[beside], pixels=19)))[-1] == "changed"


def test_a_checkbox_within_one_tile_is_no_caret():
    assert screens(episode(step(at=BUTTON, changed=[(300, 96)], pixels=39))) == ["changed"]


def test_a_desktops_top_bar_and_left_pointer_are_volatile():
    bar = (600, 4, 60, 20)
    assert screens(episode(step(at=BUTTON, changed=[bar]), kind="osworld")) == ["volatile_only"]
    assert screens(episode(step(at=BUTTON, changed=[bar]), kind="plain")) == ["changed"]
    moved = episode(step(at=(200, 500), changed=[(200, 500)]), step(at=BUTTON, changed=[(200, 500, 20, 20)]), kind="osworld")
    assert screens(moved) == ["changed", "volatile_only"]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (step(at=(100, 100)), step(at=(105, 104)), True),
        (step(at=(100, 100)), step(at=(140, 100)), False),
        (step(at=BUTTON, text="Save"), step(at=BUTTON, text="save "), True),
        (step(at=BUTTON, text="Save"), step(at=BUTTON, text="Cancel"), False),
        (step("type", value="Rome", at=FIELD), step("type", value=" rome", at=FIELD), True),
        (step("type", value="Rome", at=FIELD), step("type", value="Roma", at=FIELD), False),
        (step(op_raw="click('a46')"), step(op_raw="click('a46')"), True),
        (step(op_raw="click('a46')"), step(op_raw="click('b2')"), False),
        (step("scroll", value="down"), step("scroll", value="up"), False),
        (step(at=(1, 1)), step(), False),
    ],
)
def test_the_same_action_is_the_same_verb_target_and_text(a, b, same):
    assert noop.same_action(a, b) is same


def test_a_run_needs_the_same_action_and_adjacency():
    made = episode(step(at=BUTTON), step(at=BUTTON), step(at=FIELD), step(at=FIELD, gap_before=True), step(at=FIELD))
    assert [row["run"] for row in noop.probe(made).rows] == [1, 2, 1, 1, 2]
    assert noop.longest_runs(noop.probe(made)) == {"noop_run": (2, [0, 1]), "noop_any": (5, [0, 1, 2, 3, 4])}


@pytest.mark.parametrize(
    ("steps", "exempt"),
    [
        ([step("wait")], "passive"),
        ([step("answer", value="x")], "passive"),
        ([step("hover", at=BUTTON)], "hover"),
        ([step("key", value="ctrl+c")], "copy"),
        ([step("key", value="Ctrl + C")], "copy"),
        ([step("key", value="Shift")], "modifier_key"),
        ([step("key", value="enter")], None),
        ([step("scroll", value="down")], "end_of_scroll"),
        ([step("back")], "first_page"),
        ([step(at=BUTTON, changed=[(0, 0, 1280, 700)]), step("back")], None),
        ([step("navigate", value="http://a", changed=[(0, 0, 1280, 700)]), step(at=BUTTON)], "page_load"),
        ([step(at=FIELD, url="http://a/1"), step(at=BUTTON, url="http://a/2")], "page_load"),
        ([step(at=BUTTON)], None),
    ],
)
def test_an_expected_standstill_is_exempt_and_says_why(steps, exempt):
    assert noop.probe(episode(*steps)).rows[-1]["exempt"] == exempt


def test_only_the_first_two_scrolls_at_the_end_of_a_page_are_exempt():
    found = noop.probe(episode(*[step("scroll", value="down") for _ in range(4)]))
    assert [row["exempt"] for row in found.rows] == ["end_of_scroll", "end_of_scroll", None, None]


def test_a_late_effect_is_seen_where_both_screens_are_logged():
    late = step(at=BUTTON, obs_phase="both", before_image="a", after_image="a")
    made = episode(late, step(at=FIELD, obs_phase="both", before_image="b", after_image="c", changed=[FIELD]))
    assert noop.probe(made).rows[0]["exempt"] == "late_change"


def test_a_blank_screen_is_a_fault_of_the_environment_not_of_the_agent():
    made = episode(step(at=BUTTON), step(at=BUTTON))
    made.blank = {"i0"}
    assert [row["exempt"] for row in noop.probe(made).rows] == ["blank_screen"] * 2


def test_exempt_steps_make_no_run():
    assert noop.longest_runs(noop.probe(episode(*[step("wait") for _ in range(6)])))["noop_run"] == (0, [])


def test_screens_that_come_round_twice_are_a_cycle():
    there, back = (
        [
            step(at=place, text=name, before_image=image, changed=[(0, 0, 640, 300)])
            for image, place, name in [("a", BUTTON, "x"), ("b", FIELD, "y")]
        ]
        for _ in range(2)
    )
    made = episode(*there, *back)
    made.steps[-1]["after_image"] = "a"
    assert noop.cycle(noop.probe(made)) == (2, [0, 1, 2, 3])
    made.steps[-1]["after_image"] = "c"
    assert noop.cycle(noop.probe(made)) is None


def test_standing_still_is_no_cycle():
    assert noop.cycle(noop.probe(episode(*[step(at=BUTTON) for _ in range(9)]))) is None


@pytest.mark.parametrize(
    "at", [(1e308, 1e308), (-1e308, 0), (1e308, 0, 1e308, 9), (0, -1e308, 9, 1e308), (float("inf"), 1), (float("nan"), 1)]
)
def test_an_action_on_no_screen_has_no_place(at):
    assert noop.place(step(at=at)) is None
    assert screens(episode(*busy_clock(), step(at=at, changed=[CLOCK]))) == screens(episode(*busy_clock(), step(changed=[CLOCK])))


def test_an_episode_without_steps_is_judged():
    assert noop.probe(episode()).rows == [] and noop.cycle(noop.probe(episode())) is None
