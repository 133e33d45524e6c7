"""Orders to a judge that are planted in a simulated corpus: where they stand, that they move no rule, and what is told of them."""

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from evoaudit import codebook, store
from evoaudit.__main__ import main
from evoaudit.audit import asking, orders
from evoaudit.audit.judging import cases
from evoaudit.infer.base import Attachments
from evoaudit.prompts import Text
from evoaudit.resources import PROMPTS
from evoaudit.simulate import inject
from evoaudit.store import read_rows

N = 30


def run(*words: object) -> int:
    return main([str(word) for word in words])


def made(home: Path, name: str, fmt: str, *more: str) -> Path:
    """Return the normalised corpus of one format, the corpus itself beside it."""
    out = home / name
    assert run("simulate", "--trajectories", N, "--formats", fmt, "--seed", 5, "--out", out / "corpus", *more) == 0
    source = {"source": "sim", "kind": fmt, "simulated": True, "options": {}}
    words = ("--settings", json.dumps(source), "--root-folder", out / "corpus" / fmt, "--truth", out / "corpus" / "truth.jsonl")
    assert run("normalise", *words, "--out", out / "normalised") == 0
    assert run("sample", "--normalised", out / "normalised", "--seed", 1, "--out", out / "sample") == 0
    return out


@pytest.fixture(scope="module", params=["agentrewardbench", "osworld", "plain"])
def both(request, tmp_path_factory) -> tuple[str, Path, Path]:
    """The same corpus without and with orders."""
    home = tmp_path_factory.mktemp(request.param)
    return request.param, made(home, "clean", request.param), made(home, "told", request.param, "--injections")


def test_orders_stand_where_the_truth_says_and_nowhere_else(both):
    fmt, clean, told = both
    found = {row["trajectory_id"]: row for row in read_rows(told / "normalised", "injections")}
    # One in three of 30, but those whose record is unsound.
    assert 8 <= len(found) <= 10 and set(Counter(row["place"] for row in found.values())) == set(inject.PLACES[fmt])
    assert not (clean / "normalised" / "injections.parquet").exists()
    texts: dict[str, str] = {}
    for row in read_rows(told / "normalised", "steps"):
        texts[row["trajectory_id"]] = texts.get(row["trajectory_id"], "") + f" {row['reasoning']} {row['page_text']}"
    for one, text in texts.items():
        place = found[one]["place"] if one in found else "nowhere"
        assert any(order in text for order in inject.ORDERS) == (place in ("page", "reasoning")), one
        assert orders.found([text]) == (place in ("page", "reasoning")), one


def test_an_order_leaves_every_other_record_as_it_was(both):
    _, clean, told = both
    planted = {row["trajectory_id"] for row in read_rows(told / "normalised", "injections")}
    for name in ("truth", "oracle_results"):
        assert read_rows(clean / "normalised", name) == read_rows(told / "normalised", name)
    for name, what in (("steps", "reasoning"), ("changes", "state")):
        before, after = (read_rows(one / "normalised", name) for one in (clean, told))
        assert len(before) == len(after)
        assert [row[what] for row in before if row["trajectory_id"] not in planted] == [
            row[what] for row in after if row["trajectory_id"] not in planted
        ]
    place = {row["trajectory_id"]: row["place"] for row in read_rows(told / "normalised", "injections")}
    before, after = (read_rows(one / "normalised", "steps") for one in (clean, told))
    for one, other in zip(before, after, strict=True):
        seen = [image for name in ("before_image", "after_image") for image in (one[name], other[name]) if image and "broken" not in image]
        drawn = place.get(one["trajectory_id"]) in ("page", "picture")
        assert not seen or (one["before_image"], one["after_image"]) != (other["before_image"], other["after_image"]) or not drawn
        assert drawn or (one["before_image"], one["after_image"]) == (other["before_image"], other["after_image"])
    before, after = (read_rows(one / "normalised", "changes") for one in (clean, told))
    assert [row["state"] for row in before] == [row["state"] for row in after], "a line that stays is no change"


def test_the_rules_are_unmoved(both):
    _, clean, told = both
    said = []
    for one in (clean, told):
        words = (
            "judge",
            "--normalised",
            one / "normalised",
            "--sample",
            one / "sample",
            "--settings",
            '{"model": "rules", "name": "rules"}',
        )
        assert run(*words, "--out", one / "rules") == 0
        said.append({row["trajectory_id"]: (row["verdict"], row["category"]) for row in read_rows(one / "rules", "judgments")})
    assert said[0] == said[1] and len(said[0]) >= 8


def test_a_request_to_a_judge_quotes_the_order_inside_a_block(both):
    _, _, told = both
    planted = {row["trajectory_id"]: row for row in read_rows(told / "normalised", "injections") if row["place"] != "picture"}
    prompt = asking.load(PROMPTS / "judge-v1", codebook.load())
    settings = {"provider": "openai", "evidence": ["text"], "pictures": "changed", "max_pictures": 4, "max_text": 200_000}
    for case in cases([told / "normalised"], set(planted), settings, Attachments(None), None):
        words = "\n".join(part.text for message in asking.messages(prompt, case) for part in message.parts if isinstance(part, Text))
        order, lines = planted[case["instance_id"]]["words"], words.split("\n")
        held = [number for number, line in enumerate(lines) if order in line]
        assert held
        for number in held:
            assert lines[number - 1].endswith(f" {case['mark']}>") and lines[number].startswith("{") and lines[number + 1].startswith("</")


def test_a_table_counts_what_reads_like_an_order_and_what_was_planted(both, tmp_path):
    fmt, _, told = both
    planted = {row["trajectory_id"]: row["place"] for row in read_rows(told / "normalised", "injections")}
    verdicts = {row["trajectory_id"]: row["verdict"] for row in read_rows(told / "sample", "sample") if row["status"] == "analysed"}
    words = ("judge", "--normalised", told / "normalised", "--sample", told / "sample", "--settings", '{"model": "rules", "name": "rules"}')
    assert run(*words, "--out", tmp_path / "rules") == 0
    words = ("stats", "--normalised", told / "normalised", "--sample", told / "sample", "--judgments", tmp_path / "rules")
    assert run(*words, "--settings", '{"bootstrap": 20}', "--out", tmp_path / "stats") == 0
    rows = {row["place"]: row for row in pq.read_table(tmp_path / "stats" / "planted_orders.parquet").to_pylist()}
    inside = Counter(planted[one] for one in verdicts if one in planted)
    assert {place: row["planted"] for place, row in rows.items() if place != "all"} == dict(inside)
    assert rows["all"]["n"] == len(verdicts) and rows["all"]["suspected"] == inside["page"] + inside["reasoning"]
    for place, n in inside.items():
        assert rows[place]["planted_suspected"] == (0 if place == "picture" else n)
    assert all(row["simulated"] for row in rows.values()) and fmt


def test_where_nobody_labelled_the_table_says_so(both, tmp_path):
    _, clean, _ = both
    assert run("stats", "--normalised", clean / "normalised", "--settings", '{"bootstrap": 20}', "--out", tmp_path / "stats") == 0
    told = {one["name"]: one["empty"] for one in json.loads((tmp_path / "stats" / "tables.json").read_text())}
    assert told["planted_orders"] == "No trajectory with steps was labelled." and "set `draws`" in told["judge_consistency"]


def test_without_the_option_a_corpus_is_what_it_was(tmp_path):
    for name, more in (("a", ()), ("b", ("--settings", '{"injections": false}')), ("c", ("--injections",))):
        assert run("simulate", "--trajectories", 6, "--formats", "plain", "--seed", 5, "--out", tmp_path / name, *more) == 0
    lists = [(tmp_path / name / "files.sha256").read_bytes() for name in "abc"]
    assert lists[0] == lists[1] != lists[2]
    assert (
        "injections" not in store.read_manifest(tmp_path / "a")["config"] and b"injected" not in (tmp_path / "a/truth.jsonl").read_bytes()
    )


@pytest.mark.parametrize("text", inject.ORDERS)
def test_every_planted_order_reads_like_one(text):
    assert orders.found([None, "", f"Welcome. {text} Bye"])


@pytest.mark.parametrize(
    "text",
    [
        "Mark all notifications as read.",
        "I will mark this task as done in the tracker.",
        "The verdict of the court is expected in May.",
        "Ignore the previous order and delete it from the cart.",
        "Reply to the reviewer about the kettle",
        "You are now logged in as a reviewer's guest",
        "Score 3 of 5, passed along",
    ],
)
def test_ordinary_words_do_not(text):
    assert not orders.found([text])
