"""Score answers: right, wrong, unusable (wrong too), or missing (counted apart)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from evoaudit import store
from evoaudit.actions import VALUE_BEARING
from evoaudit.infer.base import OK
from evoaudit.parse import VOCABULARY, Rule, parse_answer


def score(
    task: str,
    probe: Mapping[str, Any],
    prediction: Mapping[str, Any] | None,
    vocabulary: Sequence[str] = VOCABULARY,
    rule: Rule = "standard",
) -> dict[str, Any]:
    """Return the scored part of a row: status, parse_path, answer, confidence, correct, action_correct, tau, value_in_goal.

    A T2 value is right only if it equals the logged one character for character, outer white space included; `click` needs
    none (EvoGUI §2.2, A.3). A prediction that did not end well is unanswered whatever text it left: a refusal, a filter or
    the token limit is no answer.
    """
    row: dict[str, Any] = {
        "status": "unanswered",
        "parse_path": "none",
        "answer": None,
        "confidence": None,
        "correct": False,
        "action_correct": False if task == "t2" else None,
        "tau": None,
        "value_in_goal": probe["value_in_goal"] if task == "t2" else None,
    }
    if prediction is None or prediction["status"] != OK:
        return row
    known = {"t1": {"k": len(probe["images"])}, "t2": {"vocabulary": vocabulary}}
    answer, path = parse_answer(task, prediction["raw"], **known.get(task, {}), rule=rule)
    row["parse_path"] = path
    if answer is None:
        return {**row, "status": "invalid"}
    row |= {"status": "answered", "confidence": answer.pop("confidence", None), "answer": store.text(store.canonical(answer))}
    return row | compare(task, probe, answer)


def compare(task: str, probe: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a usable answer is worth; like `order_tau` it is copied whole into exports, so it needs nothing else of this package."""
    if task == "t1":
        return {"correct": answer["order"] == probe["answer"], "tau": order_tau(answer["order"], probe["answer"])}
    if task == "t2":
        right = answer["action"] == probe["answer_action"]
        same = answer["value"] is not None and answer["value"] == probe["answer_value"]
        return {"action_correct": right, "correct": right and (same or answer["action"] not in VALUE_BEARING)}
    return {"correct": answer["answer"] == probe["answer"]}


def order_tau(given: list[int], truth: list[int]) -> float | None:
    """Return Kendall's tau-b between the times two orders give each screen; without ties it is tau-a. None for one screen."""
    if len(truth) < 2:
        return None
    time = {position: t for t, position in enumerate(given)}
    # In `truth` the first of a pair is the earlier one.
    signs = [1 if time[first] < time[second] else -1 for first, second in combinations(truth, 2)]
    return sum(signs) / len(signs)


def rows(
    identity: Mapping[str, Any],
    probes: Mapping[str, list[dict]],
    predictions: Mapping[tuple[str, str], Mapping],
    vocabulary: Sequence[str] = VOCABULARY,
    simulated: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield one row an instance of every task given, answered or not, sorted by task and instance.

    ``identity`` gives model, condition, max_image_side and run; ``predictions`` maps (task, instance_id) to its row.
    ``simulated`` marks the rows of a model that is made up.
    """
    for task in sorted(probes):
        for probe in sorted(probes[task], key=lambda probe: probe["instance_id"]):
            shared = {name: probe[name] for name in ("instance_id", "trajectory_id", "source", "domain", "slice")}
            shared["simulated"] = probe["simulated"] or simulated
            yield {**identity, "task": task, **shared, **score(task, probe, predictions.get((task, probe["instance_id"])), vocabulary)}
