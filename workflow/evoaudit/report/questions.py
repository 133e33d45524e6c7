"""Example questions: what was asked, the pictures, the answer, and what each model said."""

import json
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from evoaudit.report import load
from evoaudit.report.examples import TEXT, Frame, spread
from evoaudit.report.load import Inputs
from evoaudit.report.words import cell, count, number, plain
from evoaudit.streams import rank
from evoaudit.tables.spec import said


@dataclass
class Answer:
    """What one model said."""

    model: str
    answer: str
    result: str
    good: bool | None
    raw: str = ""
    confidence: str = ""


@dataclass
class Question:
    """One probe item as it was asked."""

    task: str
    id: str
    slice: str
    goal: str
    place: str
    simulated: bool
    frames: list[Frame]
    answer: str
    answers: list[Answer] = field(default_factory=list)
    outcome: str = ""


def questions(inputs: Inputs, task: str, limit: int, seed: int) -> tuple[list[Question], int]:
    """Choose questions of one task, disputed ones first, and return them with how many there are."""
    if limit < 1 or not load.has(inputs.mined, task):
        return [], 0
    slices = {row["instance_id"]: row["slice"] for row in load.rows([inputs.mined], task, ("instance_id", "slice"))}
    tallies = _tallies(inputs, task)

    def group(id: str) -> tuple[int, str]:
        right, asked = tallies.get(id, (0, 0))
        return (3 if not asked else 0 if 0 < right < asked else 1 if not right else 2), slices[id]

    chosen = spread(slices, group, lambda id: (rank(seed, "report-questions", id), id), limit)
    found = {row["instance_id"]: row for row in load.rows([inputs.mined], task, instance_id=chosen)}
    answers = _answers(inputs, task, set(chosen))
    made = [_question(task, found[id], answers.get(id, []), tallies.get(id)) for id in chosen if id in found]
    return made, len(slices)


def _main_condition(inputs: Inputs) -> dict[str, Any]:
    """Return the condition shown beside a question: full pictures, the smallest side, the first replicate."""
    sides = {row["max_image_side"] for row in load.rows([inputs.scores], "scores", ("max_image_side",), condition=["full"])}
    return {"condition": ["full"], "run": [0], "max_image_side": sorted(sides)[:1]}


def _tallies(inputs: Inputs, task: str) -> dict[str, tuple[int, int]]:
    """Return instance → (models that were right, models that answered)."""
    if not load.has(inputs.scores, "scores"):
        return {}
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for row in load.rows([inputs.scores], "scores", ("instance_id", "correct", "status"), task=[task], **_main_condition(inputs)):
        if row["status"] != "unanswered":
            asked[row["instance_id"]] += 1
            right[row["instance_id"]] += row["correct"]
    return {id: (right[id], asked[id]) for id in asked}


def _answers(inputs: Inputs, task: str, ids: set[str]) -> dict[str, list[Answer]]:
    if not load.has(inputs.scores, "scores") or not ids:
        return {}
    main = _main_condition(inputs)
    raw = {
        (row["model"], row["instance_id"]): row
        for row in load.rows(
            inputs.predictions, "predictions", ("model", "instance_id", "raw", "error", "status"), task=[task], instance_id=ids, **main
        )
    }
    answers: dict[str, list[Answer]] = defaultdict(list)
    columns = ("model", "instance_id", "status", "parse_path", "answer", "confidence", "correct", "action_correct")
    for row in sorted(
        load.rows([inputs.scores], "scores", columns, task=[task], instance_id=ids, **main),
        key=lambda row: (row["model"], row["instance_id"]),
    ):
        said = raw.get((row["model"], row["instance_id"]), {})
        result, good = _result(row)
        answers[row["instance_id"]].append(
            Answer(
                plain(row["model"], 80),
                answer_words(task, row["answer"]) if row["answer"] is not None else "",
                result,
                good,
                plain(said.get("raw") or said.get("error") or "", TEXT),
                number(row["confidence"], 2),
            )
        )
    return answers


def _result(row: dict) -> tuple[str, bool | None]:
    if row["status"] == "unanswered":
        return "no answer", None
    if row["status"] == "invalid":
        return "unusable", False
    if row["correct"]:
        return "right", True
    return ("action right, value wrong" if row["action_correct"] else "wrong"), False


def answer_words(task: str, answer: Any) -> str:
    """Write an answer, given as canonical JSON or as a value, in words."""
    if isinstance(answer, str):
        with suppress(ValueError):
            answer = json.loads(answer)
    if isinstance(answer, dict) and len(answer) == 1:
        answer = next(iter(answer.values()))
    if task == "t1" and isinstance(answer, list):
        return " → ".join(cell(part, 20) for part in answer)
    if isinstance(answer, dict):
        action, value = answer.get("action") or answer.get("answer_action"), answer.get("value") or answer.get("answer_value")
        if action:
            return f"{cell(action, 40)} “{cell(value, 120)}”" if value else cell(action, 40)
    return cell(answer, 160)


def _question(task: str, row: dict, answers: list[Answer], tally: tuple[int, int] | None) -> Question:
    pictures = list(row["images"])
    if task == "t1":
        labels = [str(n + 1) for n in range(len(pictures))]
        right = answer_words("t1", list(row["answer"]))
    elif task == "t2":
        labels = ["before", "after"]
        right = answer_words("t2", {"action": row["answer_action"], "value": row["answer_value"]})
    else:
        labels = ["start", "A", "B"][-len(pictures) :] if len(pictures) <= 3 else []
        right = cell(row["answer"], 20)
    labels += [f"picture {n + 1}" for n in range(len(labels), len(pictures))]
    names = {"t1": "Screen {}", "t2": "Screen {}", "t3": "Screen {}"}[task]
    frames = [
        Frame(picture, label, f"{names.format(label)} of question {row['instance_id'][:12]}")
        for picture, label in zip(pictures, labels, strict=False)
    ]
    place = " · ".join(plain(part, 60) for part in dict.fromkeys((row["website"], row["domain"], row["source"])) if part)
    question = Question(
        task,
        plain(row["instance_id"], 40),
        "" if task == "t2" else said(plain(row["slice"], 40)),  # the slice of a T2 question is its answer
        plain(row["goal"] or "", TEXT),
        place,
        row["simulated"],
        frames,
        right,
        answers,
    )
    if tally:
        question.outcome = f"{tally[0]} of {count(tally[1], 'model')} right"
    return question
