"""Answers are read as EvoGUI A.3 says: JSON, then one unambiguous label, then nothing."""

import json
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evoaudit.parse import LIMIT, Rule, parse_answer

T1 = {"order": [2, 1, 3]}


def t2(action: str, value: str | None = None, confidence: float | None = None) -> dict:
    return {"action": action, "value": value, "confidence": confidence}


def t3(answer: str, confidence: float | None = None) -> dict:
    return {"answer": answer, "confidence": confidence}


@pytest.mark.parametrize(
    ("task", "text", "answer"),
    [
        ("t1", '{"order": [2, 1, 3]}', T1),
        ("T1", '```json\n{"order": [2,1,3]}\n```', T1),
        ("t1", 'Screen 2 is first, so {"order": [2, 1, 3]} it is.', T1),
        ("t1", '{"answer": {"order": [2, 1, 3]}}', T1),
        ("t2", '{"action": "type", "value": " Hello ", "confidence": 0.5}', t2("type", " Hello ", 0.5)),
        ("t2", '{"action": "CLICK", "value": "", "confidence": 1}', t2("click", "", 1.0)),
        ("t2", '{"action": "select", "value": "{curly} \\"quoted\\"", "confidence": 0}', t2("select", '{curly} "quoted"', 0.0)),
        ("t3", '{"answer": "B", "confidence": 0.9}', t3("B", 0.9)),
        ("t3", '{"answer": " b "}', t3("B")),
    ],
)
def test_a_valid_object_is_the_answer(task, text, answer):
    assert parse_answer(task, text, **({"k": 3} if task.lower() == "t1" else {})) == (answer, "json")


@pytest.mark.parametrize(
    "order", ["[1, 2]", "[1, 1, 2]", "[0, 1, 2]", "[1, 2, 3, 4]", '["1", "2", "3"]', "[1.0, 2.0, 3.0]", "[true, 2, 3]", "null", '"2"']
)
def test_an_order_that_is_no_complete_permutation_is_invalid(order):
    assert parse_answer("t1", f'{{"order": {order}}}', k=3) == (None, "invalid")


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("t3", '{"answer": "C", "confidence": 0.9} (A was close)'),
        ("t2", '{"action": "scroll", "value": "click"}'),
        ("t3", '{"answer": ["A"]}'),
        ("t3", '{"answer": "A or B"}'),
        ("t3", '{"answer": "A", "answer": "B"}'),
        ("t3", '{"answer": "A" | "B", "confidence": <0..1>}'),
        ("t3", "Both A and B look plausible."),
        ("t3", "The answer is A or B."),
        ("t3", "The answer is not A."),
        ("t3", "A is unreachable in one step."),
        ("t3", "Absolutely, a user could do that."),
        ("t3", "A user opened the menu."),
        ("t2", "It could be a click or a select."),
        ("t2", "This is not a click."),
        ("t2", "This type of change has many causes."),
        ("t2", "The user clicked."),
        ("t1", "First 2, then 1, then 3."),
        ("t1", "[1, 2, 3] or perhaps [2, 1, 3]"),
        ("t1", ""),
        ("t2", "   "),
        ("t3", "\x00\ud800"),
    ],
)
def test_what_is_outside_the_vocabulary_or_ambiguous_is_invalid(task, text):
    assert parse_answer(task, text, **({"k": 3} if task == "t1" else {})) == (None, "invalid")


@pytest.mark.parametrize(
    ("task", "text", "answer"),
    [
        ("t1", "[2, 1, 3]", T1),
        ("t1", '{"order": [2, 1, 3', None),
        ("t1", "The order is [2,1,3], since [12, 40] is a box.", T1),
        ("t2", "click", t2("click")),
        ("t2", '{"action": "type", "value": "he said "hi"", "confidence": 0.8}', t2("type")),
        ("t2", '{"action": "select", "value": "cut of', t2("select")),
        ("t2", '{"action": "Click on the button", "value": ""}', t2("click")),
        ("t2", "Most likely a click on Search.", t2("click")),
        ("t3", "**B**", t3("B")),
        ("t3", "(a)", t3("A")),
        ("t3", "I choose B.", t3("B")),
        ("t3", "{'answer': 'A', 'confidence': 0.7}", t3("A")),
        ("t3", '{"answer": "Candidate A", "confidence": 0.7}', t3("A")),
        ("t3", "Long reasoning. " * 50 + "The answer is: B", t3("B")),
    ],
)
def test_a_lone_label_is_rescued_but_never_a_value(task, text, answer):
    expected = (answer, "fallback") if answer else (None, "invalid")
    assert parse_answer(task, text, **({"k": 3} if task == "t1" else {})) == expected


def test_the_last_valid_object_wins():
    assert parse_answer("t3", '<think>{"answer": "A"}</think> {"answer": "B"} {"answer": "C"}') == (t3("B"), "json")


@pytest.mark.parametrize("confidence", ["1.5", "-1", '"high"', "true", "null", "1e999"])
def test_an_unusable_confidence_does_not_spoil_the_answer(confidence):
    assert parse_answer("t3", f'{{"answer": "A", "confidence": {confidence}}}') == (t3("A"), "json")


def test_a_value_that_is_no_string_is_none():
    assert parse_answer("t2", '{"action": "type", "value": 5}') == (t2("type"), "json")


def test_other_vocabularies_and_labels_are_taken():
    assert parse_answer("t2", '{"action": "Swipe", "value": ""}', vocabulary=["swipe", "tap"]) == (t2("swipe", ""), "json")
    assert parse_answer("t3", "C", labels=["A", "B", "C"]) == (t3("C"), "fallback")
    assert parse_answer("t1", '{"order": [2, 1]}') == ({"order": [2, 1]}, "json")


def test_an_answer_after_very_long_thinking_is_found_and_work_is_bounded():
    assert parse_answer("t3", "x" * 10 * LIMIT + '{"answer": "B"}') == (t3("B"), "json")
    # Quadratic work on any of these would take hours.
    for hostile in ('{"a":' * LIMIT, "{" * LIMIT, "[" * LIMIT, '{"answer":"A",' * LIMIT, "answer is " * LIMIT, '{"order":' + "[" * LIMIT):
        for task in ("t1", "t2", "t3"):
            assert parse_answer(task, hostile)[1] in ("json", "fallback", "invalid")


def test_no_text_is_invalid():
    assert parse_answer("t1", None) == (None, "invalid")


_pieces = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        '"',
        ":",
        ",",
        "\\",
        '"answer"',
        '"order"',
        '"action"',
        '"value"',
        "A",
        "B",
        "click",
        "type",
        "1",
        "2",
        "NaN",
        "-",
        "1e9",
        "true",
        "null",
        " ",
        "\n",
        "```",
        "\ud800",
        "\x00",
        "not",
    ]
)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["t1", "t2", "t3"]),
    st.one_of(st.text(alphabet=st.characters(), max_size=200), st.lists(_pieces, max_size=40).map("".join)),
)
def test_no_text_raises_and_every_answer_is_valid(task, text):
    answer, path = parse_answer(task, text)
    assert (answer is None) == (path == "invalid")
    if answer and task == "t1":
        assert sorted(answer["order"]) == list(range(1, len(answer["order"]) + 1))
    if answer and task == "t2":
        assert answer["action"] in ("click", "type", "select") and (path == "json" or answer["value"] is None)
    if answer and task == "t3":
        assert answer["answer"] in ("A", "B")


@given(st.permutations([1, 2, 3, 4]), st.text(max_size=30), st.floats(0, 1))
def test_what_is_written_as_asked_is_read_back(order, value, confidence):
    assert parse_answer("t1", json.dumps({"order": order}), k=4) == ({"order": order}, "json")
    written = {"action": "type", "value": value, "confidence": confidence}
    assert parse_answer("t2", json.dumps(written)) == (written, "json")


@pytest.mark.parametrize(
    ("task", "text", "expected"),
    [
        # standard, strict, json, first, lenient
        ("t3", '{"answer": "A"}', "AAAAA"),
        ("t3", 'I think {"answer": "A"}, no: {"answer": "B"}', "B-BAB"),
        ("t3", '```json\n{"answer": "A"}\n```', "A-AAA"),
        ("t3", "B", "B--BB"),
        ("t3", "It cannot be A, so it must be B", "----B"),
        ("t3", '{"answer": "C"}', "-----"),
        ("t3", "no idea", "-----"),
        ("t3", '{"answer": "A"} ', "AAAAA"),
        ("t3", '[{"answer": "A"}]', "A-AAA"),
    ],
)
def test_each_rule_reads_what_it_says(task, text, expected):
    for rule, letter in zip(get_args(Rule), expected, strict=True):
        answer, path = parse_answer(task, text, rule=rule)
        assert (answer or {"answer": "-"})["answer"] == letter, rule
        assert (path == "invalid") == (letter == "-")


def test_a_lenient_reader_takes_the_last_order_in_brackets_or_not():
    for text in ("first 1, 2, 3, then rather 3, 1, 2.", "3 > 1 > 2", "[1, 2, 3] or [3, 1, 2]", "3 -> 1 -> 2"):
        assert parse_answer("t1", text, k=3, rule="lenient") == ({"order": [3, 1, 2]}, "fallback"), text
        assert parse_answer("t1", text, k=3) == (None, "invalid")
    assert parse_answer("t1", "1, 1, 2 and 4, 5, 6", k=3, rule="lenient") == (None, "invalid")


@given(st.sampled_from(["t1", "t2", "t3"]), st.text(max_size=300), st.sampled_from(get_args(Rule)))
def test_no_rule_finds_less_than_a_stricter_one(task, text, rule):
    found = {name: parse_answer(task, text, rule=name) for name in get_args(Rule)}
    assert found[rule][1] in ("json", "fallback", "invalid")
    if found["strict"][0] is not None:
        assert all(found[name] == found["strict"] for name in found)
    if found["json"][0] is not None:
        assert found["standard"] == found["json"]
    if found["standard"][0] is not None:
        assert found["lenient"] == found["standard"] and found["first"][1] == found["standard"][1]
