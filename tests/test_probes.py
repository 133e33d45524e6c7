"""Mining: which questions are asked, and that nothing but the logs and the seed decides it."""

import json
from collections import Counter, defaultdict
from itertools import pairwise
from math import factorial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_logs import Logs, painted
from made_probes import QUOTAS, TASKS, many, miner
from PIL import Image
from scipy.stats import chisquare

from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.probes import reviewed
from evoaudit.probes.draw import balanced
from evoaudit.store import sha256_file


@pytest.fixture
def mine(tmp_path):
    return miner(tmp_path)


def test_quotas_are_met_to_the_count_and_counts_reconcile(mine):
    found = mine(many(120))
    assert found.sizes("t1") == {"K=3": 34, "K=4": 33, "K=5": 33}
    assert found.sizes("t2") == QUOTAS["t2"]
    assert found.sizes("t3") == QUOTAS["t3"]
    assert found.counts["read"] == 300 + sum(found.counts["dropped"].values())
    listed = {reason: n for reason, n in found.counts["dropped"].items() if reason not in {"not_drawn", "not_adjacent", "trajectory_share"}}
    assert listed == found.reasons


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shuffle=st.integers(0, 10**6))
def test_row_order_and_source_order_never_matter(mine, shuffle):
    sources = [many(40, source="a"), many(40, source="b")]
    first = mine(*sources)
    again = mine(*reversed(sources), shuffle=shuffle)
    for name in ("t1.parquet", "t2.parquet", "t3.parquet", "drops.parquet", "quotas.json"):
        assert sha256_file(first.folder / name) == sha256_file(again.folder / name), name


def test_one_per_cent_more_trajectories_moves_a_few_items(mine):
    few, more = many(300), many(300)
    for logs in (few, more):
        logs.add("other-0", [f"x{k}" for k in range(8)], domain="d3")
    for i in range(3):
        more.add(f"new-{i}", [f"new-{i}-{k}" for k in range(10)], [{"op": "type", "value": f"v{k}"} for k in range(9)], domain="d3")
    before, after = mine(few), mine(more)
    for task in TASKS:
        shown = {row["instance_id"]: row["images"] for row in before.rows[task]}
        kept = [row for row in after.rows[task] if row["instance_id"] in shown]
        assert len(kept) >= 0.94 * len(shown), task
        # The balance of presentations may turn a few more round, not the whole set.
        assert sum(row["images"] == shown[row["instance_id"]] for row in kept) >= 0.75 * len(kept), task


def test_a_new_domain_leaves_most_items_alone(mine):
    few, more = many(200, domains=10), many(200, domains=10)
    more.add("new", [f"new-{k}" for k in range(9)], [{"op": "type", "value": str(k)} for k in range(8)], domain="another")
    before, after = mine(few), mine(more)
    for task in TASKS:
        # One domain in eleven may take an eleventh of the places, and be drawn from as a distractor.
        assert len(before.ids(task) & after.ids(task)) >= 0.85 * len(before.ids(task)), task


def test_sources_and_domains_share_evenly(mine):
    found = mine(many(60, domains=4, source="small"), many(600, domains=12, source="large"))
    for task in TASKS:
        for name, n in found.sizes(task).items():
            rows = [row for row in found.rows[task] if row["slice"] == name]
            sources = Counter(row["source"] for row in rows)
            assert abs(sources["small"] - sources["large"]) <= 1
            domains = Counter(row["domain"] for row in rows if row["source"] == "large")
            assert max(domains.values()) - min(domains.get(f"d{k}", 0) for k in range(12)) <= 1, (task, name, n)


def test_no_trajectory_gives_more_than_its_share(mine):
    logs = Logs()
    logs.add("long", [f"l{k}" for k in range(200)], [{"op": "type", "value": str(k)} for k in range(199)])
    logs.add("other", [f"o{k}" for k in range(6)], domain="elsewhere")
    found = mine(logs, share=0.1, t1={3: 50}, t2={"type": 50}, t3={"long_skip": 50})
    for task in TASKS:
        assert max(Counter(row["trajectory_id"] for row in found.rows[task]).values()) <= 5
    assert found.quotas["t2"]["slices"]["type"]["reasons"]["trajectory_share"] == 194


def test_a_shortfall_goes_to_the_slice_with_most_candidates_left(mine):
    logs = many(60)
    quota = {"click": 20, "type": 15, "select": 500}
    found = mine(logs, t2=quota, share=1.0)
    slices = found.quotas["t2"]["slices"]
    short = slices["select"]["short"]
    assert short == 500 - slices["select"]["taken"] > 0
    left = {name: slices[name]["candidates"] - quota[name] for name in ("click", "type")}
    most = max(left, key=left.get)
    assert slices[most]["reallocated"] == min(short, left[most])
    assert sum(one["taken"] for one in slices.values()) == min(535, sum(one["valid"] for one in slices.values()))


def test_a_slice_of_quota_zero_takes_no_shortfall(mine):
    found = mine(many(60), t3={"cross": 10_000, "same_domain": 0, "long_skip": 5}, share=1.0)
    assert "same_domain" not in found.sizes("t3")


def test_an_item_keeps_its_id_under_another_seed(mine):
    logs = Logs()
    logs.add("one", ["a", "b", "c"], [{"op": "click"}, {"op": "type", "value": "x"}])
    first, second = (mine(logs, seed=seed, t1={3: 1}, t2={"click": 1, "type": 1}) for seed in (1, 2))
    assert first.ids("t1") == second.ids("t1") and first.ids("t2") == second.ids("t2")


def test_another_seed_draws_other_items(mine):
    logs = many(200)
    assert all(len(mine(logs, seed=1).ids(task) & mine(logs, seed=2).ids(task)) < 60 for task in TASKS)


@settings(max_examples=50, deadline=None)
@given(n=st.integers(0, 200), classes=st.sampled_from([1, 2, 6, 24, 120]), seed=st.integers(0, 99))
def test_presentations_are_used_equally_often(n, classes, seed):
    used = Counter(balanced([f"i{k}" for k in range(n)], classes, seed, "p").values())
    assert sum(used.values()) == n
    assert all(n // classes <= used.get(c, 0) <= -(-n // classes) for c in range(classes))


@pytest.mark.parametrize("classes", [2, 6, 24, 120])
def test_one_item_less_turns_few_presentations(classes):
    ids = [f"i{k}" for k in range(333)]
    full, less = balanced(ids, classes, 5, "p"), balanced(ids[:-1], classes, 5, "p")
    assert sum(full[i] != less[i] for i in ids[:-1]) <= 20


def test_presentation_is_uniform_over_seeds():
    # 600 seeds, an item alone: 2 sides, 300 each; 6 orders, 100 each. The identity order is as likely as any.
    for classes in (2, 6):
        used = Counter(balanced(["i"], classes, seed, "p")["i"] for seed in range(600))
        assert chisquare([used[c] for c in range(classes)]).pvalue > 0.01


def test_orders_are_balanced_and_the_answer_restores_time(mine):
    found = mine(many(150), t1={3: 334, 4: 333, 5: 333})
    orders = defaultdict(Counter)
    for row in found.rows["t1"]:
        k = len(row["images"])
        assert row["slice"] == f"K={k}" and len(set(row["images"])) == k and sorted(row["answer"]) == list(range(1, k + 1))
        steps = [row["steps"][position - 1] for position in row["answer"]]
        assert steps == sorted(steps) and len(set(steps)) == k
        orders[k][tuple(row["answer"])] += 1
    for k, n in ((3, 334), (4, 333), (5, 333)):
        assert len(orders[k]) == factorial(k)
        assert set(orders[k].values()) <= {n // factorial(k), -(-n // factorial(k))}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_position_tells_when_a_screen_was(mine, seed):
    # Each slice apart: where the earliest and the latest screen stand, and how often the order shown is the order of time.
    found = mine(many(80), seed=seed, share=1.0, t1={3: 200, 4: 200}, t3={"cross": 101, "long_skip": 101})
    for k in (3, 4):
        answers = [row["answer"] for row in found.rows["t1"] if len(row["images"]) == k]
        for place in (0, -1):
            stands = Counter(answer[place] for answer in answers)
            assert chisquare([stands[position] for position in range(1, k + 1)]).pvalue > 0.01
        in_order = sum(answer == sorted(answer) for answer in answers)
        assert 200 // factorial(k) <= in_order <= 200 // factorial(k) + 1
    for tier in ("cross", "long_skip"):
        sides = Counter(row["answer"] for row in found.rows["t3"] if row["slice"] == tier)
        assert abs(sides["A"] - sides["B"]) == 1
    # Nor does the id, by which the rows are sorted: sides come in no pattern.
    sides = "".join(row["answer"] for row in found.rows["t3"])
    assert chisquare([sum(a != b for a, b in pairwise(sides)), sum(a == b for a, b in pairwise(sides))]).pvalue > 0.01


def test_windows_are_not_only_neighbours(mine):
    steps = [sorted(row["steps"]) for row in mine(many(100)).rows["t1"]]
    assert any(b - a > 1 for row in steps for a, b in pairwise(row))
    assert any(all(b - a == 1 for a, b in pairwise(row)) for row in steps)


def test_sides_are_balanced_in_every_slice_and_name_the_successor(mine):
    logs = many(120)
    found = mine(logs)
    after = {(row["trajectory_id"], row["step"]): (row["before_image"], row["after_image"]) for row in logs.steps}
    for tier in QUOTAS["t3"]:
        sides = Counter(row["answer"] for row in found.rows["t3"] if row["slice"] == tier)
        assert abs(sides["A"] - sides["B"]) <= 1
    for row in found.rows["t3"]:
        start, successor = after[row["trajectory_id"], row["step"]]
        assert row["images"][0] == start and row["images"]["AB".index(row["answer"]) + 1] == successor
        assert len(set(row["images"])) == 3


def test_distractors_come_from_their_tier(mine):
    logs = many(120)
    found = mine(logs)
    domain = {row["trajectory_id"]: row["domain"] for row in logs.trajectories}
    screens = {(row["trajectory_id"], row["step"]): row["before_image"] for row in logs.steps}
    screens |= {(row["trajectory_id"], row["step"] + 1): row["after_image"] for row in logs.steps}
    for row in found.rows["t3"]:
        other, step = row["distractor_trajectory"], row["distractor_step"]
        shown = row["images"]["BA".index(row["answer"]) + 1]
        assert screens[other, step] == shown
        if row["slice"] == "long_skip":
            assert other == row["trajectory_id"] and step >= row["step"] + 3
        else:
            assert other != row["trajectory_id"] and (domain[other] == row["domain"]) == (row["slice"] == "same_domain")


def test_a_long_skip_never_crosses_a_gap(mine):
    logs = Logs()
    logs.add("one", [f"s{k}" for k in range(9)], [{"gap_before": k == 3} for k in range(8)])
    found = mine(logs, share=1.0, t3={"long_skip": 20})
    # Screens 0…2 lie before the gap (the pair of step 2 ends there), 3…8 after it.
    assert {(row["step"], row["distractor_step"]) for row in found.rows["t3"]} <= {(s, d) for s in range(3, 6) for d in range(s + 3, 9)}
    assert {row["step"] for row in found.rows["t3"]} == {3, 4, 5}


def test_a_distractor_of_the_domain_is_of_another_task(mine):
    logs = Logs()
    for agent in "ab":
        logs.add(f"run-{agent}", [f"{agent}{k}" for k in range(5)], task_id="7")
    assert mine(logs, t3={"same_domain": 5}).reasons["no_distractor"] == 8
    logs.add("run-c", [f"c{k}" for k in range(5)], task_id="8")
    assert mine(logs, t3={"same_domain": 5}, share=1.0).sizes("t3") == {"same_domain": 5}


def test_a_distractor_of_the_domain_is_of_the_same_site_where_there_is_one(mine):
    logs = Logs()
    for i in range(12):
        logs.add(f"t{i:02d}", [f"{i}-{k}" for k in range(5)], domain="travel", website=f"Site-{i % 4 if i < 8 else i}")
    found = mine(logs, share=1.0, t3={"same_domain": 60})
    site = {row["trajectory_id"]: row["website"] for row in logs.trajectories}
    pairs = [(row["trajectory_id"], site[row["trajectory_id"]], site[row["distractor_trajectory"]]) for row in found.rows["t3"]]
    assert len(pairs) == 48
    # Sites 0 to 3 have two trajectories each, the other four stand alone and look further in their domain.
    assert all((own == other) == (name < "t08") for name, own, other in pairs)
    assert {row["domain"] for row in found.rows["t3"]} == {one.lower() for one in site.values()}


def test_a_distractor_is_of_the_successors_size_and_source_where_there_is_one(mine):
    logs, foreign = many(20), many(20, source="foreign")
    for i in range(3):
        names = [f"small-{i}-{k}" for k in range(8)]
        logs.odd |= {name: {"width": 320, "height": 200} for name in names}
        logs.add(f"small-{i}", names, domain=f"small-{i}")
    found = mine(logs, foreign, share=1.0, t3={"cross": 400})
    rows = [row for row in found.rows["t3"] if row["trajectory_id"].startswith("small")]
    assert rows and all(row["distractor_trajectory"].startswith("small") for row in rows)
    others = [row for row in found.rows["t3"] if not row["trajectory_id"].startswith("small")]
    assert others and all(row["distractor_trajectory"].startswith(row["source"]) for row in others)


def with_patch(picture, tiles: int):
    """Return a copy of a picture that differs in so many tiles."""
    changed = picture.copy()
    for tile in range(tiles):
        changed[:10, tile * 16 : tile * 16 + 10] ^= 128
    return changed


@pytest.mark.parametrize(("tiles", "kept"), [(2, 0), (4, 1)])
def test_screens_that_cannot_be_told_apart_make_no_order(mine, tiles, kept):
    a, b = painted(1), painted(2)
    logs = Logs(pixels={"a": a, "b": b, "a2": with_patch(a, tiles)})
    logs.add("one", ["a", "b", "a2"])
    found = mine(logs, t1={3: 1})
    assert len(found.rows["t1"]) == kept
    assert found.reasons["indistinguishable_screens"] == 1 - kept


@pytest.mark.parametrize(("twin_of", "kept"), [("start", 0), ("next", 0), ("other", 1)])
def test_a_distractor_that_looks_like_start_or_successor_is_not_used(mine, twin_of, kept):
    pixels = {name: painted(k) for k, name in enumerate(["start", "next", "third", "other"])}
    logs = Logs(pixels=pixels | {"distractor": with_patch(pixels[twin_of], 1)})
    logs.add("one", ["start", "next"], domain="a")
    logs.add("two", ["distractor", None], [{"op": "done"}], domain="b")
    found = mine(logs, t3={"cross": 1})
    assert len(found.rows["t3"]) == kept
    assert found.reasons["no_distractor"] == 1 - kept


def test_a_screen_that_comes_back_makes_order_ambiguous(mine):
    logs = Logs()
    logs.add("one", ["home", "list", "home", "item"])
    found = mine(logs, t1={3: 1})
    assert not found.rows["t1"] and found.reasons["ambiguous_order"] == 1


def test_a_screen_that_stays_counts_once(mine):
    logs = Logs()
    logs.add("one", ["home", "home", "list", "item"])
    assert [sorted(row["steps"]) for row in mine(logs, t1={3: 1}).rows["t1"]] == [[0, 2, 3]]


def test_too_few_distinct_screens_are_said_so(mine):
    logs = Logs()
    logs.add("one", ["a", "b", "c", "d"])
    found = mine(logs, t1={4: 1, 5: 1})
    assert found.sizes("t1") == {"K=4": 1}
    assert [row["detail"] for row in found.drops if row["reason"] == "too_few_screens"] == ["4 distinct valid screens"]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"op": "scroll"}, "outside_vocabulary"),
        ({"op": "type", "value": None}, "no_value"),
        ({"op": "type", "value": " \t"}, "no_value"),
        ({"op": "select", "value": "••••••"}, "masked_value"),
        ({"op": "type", "value": "[REDACTED]"}, "masked_value"),
        ({"op": "click", "error": "element not found"}, "failed_action"),
        ({"op": "click", "change": {"state": "same", "changed_tiles": 0}}, "no_visible_change"),
        ({"op": "click", "change": {"state": "changed", "changed_tiles": 0}}, "no_visible_change"),
        ({"op": "click", "change": {"state": "unknown", "changed_tiles": None}}, "unknown_change"),
        ({"op": "click", "page_text": "Loading…"}, "blank_screen"),
        ({"op": "click", "page_text": "502 Bad Gateway\nnginx"}, "blank_screen"),
        ({"op": "click", "url": "about:blank"}, "blank_screen"),
    ],
)
def test_a_transition_that_cannot_be_explained_is_left_out(mine, step, reason):
    logs = Logs()
    logs.add("one", ["a", "b"], [step])
    found = mine(logs, t2={"click": 1, "type": 1, "select": 1})
    assert not found.rows["t2"]
    assert [(row["reason"], row["item"]) for row in found.drops] == [(reason, "t2 one#0")]


@pytest.mark.parametrize(
    "step",
    [
        {"op": "type", "value": "***", "change": {"changed_tiles": 1}} | {"value": "a*b"},
        {"op": "paste", "value": "x"},
        {"op": "hover"},
        {"op": "click", "page_text": "Why is my page still loading? Please wait for an answer in the forum: 14 replies, 3 today"},
    ],
)
def test_a_transition_that_only_looks_odd_is_kept(mine, step):
    logs = Logs()
    logs.add("one", ["a", "b"], [step])
    assert len(mine(logs, t2={"click": 1, "type": 1, "select": 1}).rows["t2"]) == 1


@pytest.mark.parametrize(("odd", "reason"), [({"blank": 0.999}, "blank_screen"), ({"status": "lfs_pointer"}, "bad_picture")])
def test_pictures_that_show_nothing_are_in_no_question(mine, odd, reason):
    logs = Logs(odd={"s2": odd})
    for i in range(6):
        logs.add(f"t{i}", ["s2" if k == 2 else f"{i}-{k}" for k in range(7)], domain=f"d{i % 2}")
    found = mine(logs, share=1.0, t1={3: 60}, t2={"click": 60}, t3={"cross": 60, "same_domain": 60, "long_skip": 60})
    assert all(found.rows[task] for task in TASKS)
    assert not any(logs.id("s2") in row["images"] for task in TASKS for row in found.rows[task])
    assert found.reasons[reason] == 2 * 12


def test_a_page_that_grew_by_a_tile_has_changed(mine):
    logs = Logs(odd={"b": {"height": 736}, "c": {"height": 750}, "d": {"width": 1024}})
    logs.add("one", ["a", "b", "c", "d"], [{"change": {"state": "unknown", "changed_tiles": None}}] * 3)
    found = mine(logs, share=1.0, t2={"click": 3})
    assert [row["step"] for row in found.rows["t2"]] == [0]
    assert found.reasons["unknown_change"] == 2


def clock(ticking: bool) -> list[dict]:
    """Return six clicks on a 1280×720 screen; all change the corner, all but the last something under the pointer as well."""
    steps = []
    for k in range(6):
        tiles = np.zeros((45, 80), bool)
        tiles[0, 78:] = ticking or k == 5
        tiles[20 + k, 10:14] = k < 5
        change = {
            "changed_tiles": int(tiles.sum()),
            "changed_pixels": 300,
            "tiles_x": 80,
            "tiles_y": 45,
            "tiles": np.packbits(tiles).tobytes(),
        }
        target = dict.fromkeys(("left", "top", "width", "height", "text")) | {"x": 190.0, "y": (20 + k) * 16.0 + 8}
        steps.append({"op": "click", "target": target, "op_raw": f"click {k}", "change": change})
    return steps


@pytest.mark.parametrize(("ticking", "kept"), [(True, 5), (False, 6)])
def test_a_click_after_which_only_the_clock_moved_is_left_out(mine, ticking, kept):
    logs = Logs()
    logs.add("one", [f"s{k}" for k in range(7)], clock(ticking))
    found = mine(logs, share=1.0, t2={"click": 9}, t3={"long_skip": 9})
    assert len(found.rows["t2"]) == kept
    assert found.reasons["volatile_only"] == 6 - kept


def test_a_value_that_stands_in_the_goal_is_flagged_and_kept(mine):
    logs = Logs()
    steps = [{"op": "type", "value": "blue mug"}, {"op": "type", "value": "red mug"}]
    logs.add("one", ["a", "b", "c"], steps, instruction="Find a blue mug")
    found = mine(logs, share=1.0, t2={"type": 2})
    assert {row["answer_value"]: row["value_in_goal"] for row in found.rows["t2"]} == {"blue mug": True, "red mug": False}


def test_a_question_is_asked_once(mine):
    logs = Logs()
    for i in range(3):
        logs.add(f"t{i}", ["a", "b", "c", "d"], domain=f"d{i}")
    found = mine(logs, share=1.0, t1={3: 20}, t2={"click": 20}, t3={"cross": 20})
    assert len(found.rows["t1"]) == 4 and len(found.rows["t2"]) == 3
    assert len({frozenset(row["images"]) for row in found.rows["t1"]}) == 4
    assert found.reasons["near_duplicate"] >= 2 * 4 + 2 * 3


def test_what_changes_while_an_agent_waits_is_no_successor(mine):
    logs = many(20)
    logs.add("idle", [f"w{k}" for k in range(6)], [{"op": op} for op in ("wait", "scroll", "say", "answer", "key")], domain="d0")
    found = mine(logs, share=1.0, t3={"cross": 500})
    assert {row["step"] for row in found.rows["t3"] if row["trajectory_id"] == "idle"} == {1, 4}
    assert found.reasons["idle_action"] == 3


def test_operations_beyond_the_papers_can_be_asked_for(mine):
    logs = Logs()
    logs.add("one", ["a", "b", "c"], [{"op": "swipe"}, {"op": "click"}])
    assert [(row["slice"], row["answer_action"]) for row in mine(logs, t2={"swipe": 2}).rows["t2"]] == [("swipe", "swipe")]


def test_rejected_items_are_replaced_and_the_others_stay(mine):
    logs = many(120)
    before = mine(logs)
    turned_down = sorted(before.ids("t3"))[:10]
    decisions = [{"instance_id": name, "decision": "reject", "reason": "advertisement"} for name in turned_down]
    decisions += [{"instance_id": name, "decision": "accept"} for name in sorted(before.ids("t3"))[10:20]]
    after = mine(logs, decisions=decisions)
    assert after.sizes("t3") == QUOTAS["t3"]
    assert not after.ids("t3") & set(turned_down)
    assert len(after.ids("t3") & before.ids("t3")) == 90
    assert after.reasons["rejected_by_reviewer"] == 10
    assert after.rows["t1"] == before.rows["t1"] and after.rows["t2"] == before.rows["t2"]


def test_a_decision_on_an_item_that_was_not_drawn_is_no_error(mine):
    logs = many(60)
    wide = mine(logs, t3={"cross": 40})
    decisions = [{"instance_id": name, "decision": "accept"} for name in wide.ids("t3")]
    assert mine(logs, t3={"cross": 10}, decisions=decisions).sizes("t3") == {"cross": 10}


def test_a_decision_on_an_unknown_item_is_refused_with_its_line(mine):
    logs = many(20)
    known = mine(logs, t3={"cross": 1}).rows["t3"][0]["instance_id"]
    decisions = [{"instance_id": name, "decision": "reject"} for name in (known, "t3-nobody", "?")]
    with pytest.raises(InputError, match=r"decisions\.jsonl:2: instance_id: 't3-nobody'.*one other"):
        mine(logs, t3={"cross": 2}, decisions=decisions)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"instance_id": "t3-1", "decision": "reject"}\nnonsense\n', ":2: not JSON"),
        ("[]\n", ":1: not a JSON object"),
        ('{"decision": "reject"}\n', ":1: instance_id"),
        ('{"instance_id": "t3-1", "decision": "maybe"}\n', ":1: decision"),
        ('{"instance_id": "t3-1", "decision": "accept", "reason": 4}\n', ":1: reason"),
        (
            '\n{"instance_id": "x", "decision": "accept"}\n{"instance_id": "x", "decision": "reject"}\n',
            ":3: 'x' was decided otherwise on line 2",
        ),
        ("[" * 60_000 + "\n", ":1: not JSON"),
        ("x" * 70_000, ":1: line is too long"),
    ],
)
def test_a_broken_decision_is_refused_with_its_line(tmp_path, text, message):
    path = tmp_path / "reviewed.jsonl"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        reviewed.read(path)
    assert message in str(caught.value)


def test_an_id_in_two_sources_is_refused(mine):
    with pytest.raises(InputError, match="'made-0000': is in the sources 'made' and 'made2'"):
        twin = many(2)
        twin.source = "made2"
        for row in twin.trajectories:
            row["source"] = "made2"
        mine(many(2), twin)


def test_an_empty_corpus_gives_empty_tables(mine):
    found = mine(Logs())
    assert not any(found.rows.values()) and found.counts["read"] == 0


SETTINGS = {"t1": {"quota": {"3": 4}}, "t2": {"quota": {"click": 4}}, "t3": {"quota": {"cross": 4}}}


def test_the_subcommand_writes_a_whole_stage(tmp_path):
    normalised, root = many(10).write(tmp_path)
    words = ["mine", "--settings", json.dumps(SETTINGS), "--seed", "7", "--normalised", str(normalised / "manifest.json")]
    assert main([*words, "--root", f"made={root}", "--out", str(tmp_path / "out")]) == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert set(manifest["files"]) == {"t1.parquet", "t2.parquet", "t3.parquet", "drops.parquet", "quotas.json"}
    assert manifest["counts"]["kept"] == 12


def test_cores_and_folders_change_no_byte(tmp_path):
    made = []
    for threads, home in (("1", tmp_path / "a"), ("4", tmp_path / "b" / "of another name")):
        home.mkdir(parents=True)
        normalised, root = many(30).write(home)
        words = ["mine", "--settings", json.dumps(SETTINGS), "--seed", "7", "--threads", threads, "--normalised", str(normalised)]
        assert main([*words, "--root", f"made={root}", "--out", str(home / "out")]) == 0
        made.append({path.name: sha256_file(path) for path in (home / "out").iterdir()})
    assert made[0] == made[1] and len(made[0]) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": {}}, "t1.quota"),
        ({"settings": SETTINGS | {"t2": {"quota": {"fly": 1}}}}, "'fly' is no action"),
        ({"settings": SETTINGS | {"t3": {"quota": {"cross": -1}}}}, "-1 is no count"),
        ({"normalised": "nowhere"}, "file not found"),
        ({"reviewed": "nowhere.jsonl"}, "file not found"),
    ],
)
def test_bad_usage_is_one_line(tmp_path, capsys, change, message):
    normalised, root = many(4).write(tmp_path)
    given = {"settings": SETTINGS, "normalised": str(normalised)} | change
    words = ["mine", "--settings", json.dumps(given["settings"]), "--seed", "7", "--normalised", given["normalised"]]
    words += ["--root", f"made={root}", *(["--reviewed", given["reviewed"]] if "reviewed" in given else [])]
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1 and not list((tmp_path / "out").glob("*"))


def test_a_picture_that_changed_since_it_was_read_is_named(tmp_path, capsys):
    logs = Logs(pixels={"a": painted(1), "b": painted(2), "a2": with_patch(painted(1), 1)})
    logs.add("one", ["a", "b", "a2"])
    normalised, root = logs.write(tmp_path)
    Image.fromarray(painted(1, 64, 64)).save(root / "a.png")
    words = ["mine", "--settings", json.dumps(SETTINGS), "--seed", "7", "--normalised", str(normalised), "--root", f"made={root}"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "a.png: picture has changed" in error and error.count("\n") == 1


def test_a_source_without_a_folder_is_named(tmp_path, capsys):
    logs = Logs(pixels={"a": painted(1), "b": painted(2), "a2": with_patch(painted(1), 1)})
    logs.add("one", ["a", "b", "a2"])
    normalised, _ = logs.write(tmp_path)
    assert (
        main(["mine", "--settings", json.dumps(SETTINGS), "--seed", "7", "--normalised", str(normalised), "--out", str(tmp_path / "out")])
        == 2
    )
    assert "add --root made=FOLDER" in capsys.readouterr().err
