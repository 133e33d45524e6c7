"""EvoGUI-Bench for lmms-eval: how a row is asked and scored."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import evogui_scorer

#: How lmms-eval begins what it writes in place of an answer that did not come.
NO_ANSWER = "[LMMS_EVAL_"


def doc_to_visual(doc: dict[str, Any]) -> list[Any]:
    """Return the pictures in the order shown."""
    return [picture.convert("RGB") for picture in doc["images"]]


def doc_to_text(doc: dict[str, Any], lmms_eval_specific_kwargs: dict[str, Any] | None = None) -> str:
    """Return the whole prompt as one text, for models that take pictures and text apart."""
    labels = [f"{label} <image>" for label in doc["image_labels"]]
    return "\n\n".join([doc["system"], doc["prompt"], *labels])


def doc_to_messages(doc: dict[str, Any], lmms_eval_specific_kwargs: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the prompt as the benchmark asks it: each picture after its label."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": doc["prompt"]}]
    for label, picture in zip(doc["image_labels"], doc_to_visual(doc), strict=True):
        parts += [{"type": "text", "text": label}, {"type": "image", "url": picture}]
    system = [{"role": "system", "content": [{"type": "text", "text": doc["system"]}]}] if doc["system"] else []
    return [*system, {"role": "user", "content": parts}]


def doc_to_target(doc: dict[str, Any]) -> str:
    """Return the answer, for the log."""
    return str(doc.get("answer") or {"action": doc.get("answer_action"), "value": doc.get("answer_value")})


def _results(task: str, doc: dict[str, Any], results: list[str]) -> dict[str, Any]:
    said = results and not str(results[0]).startswith(NO_ANSWER)
    marks = evogui_scorer.mark(task, doc, results[0] if said else None)
    names = {"t1": ("t1", "t1_tau"), "t2": ("t2_joint", "t2_action"), "t3": ("t3",)}[task]
    return dict.fromkeys((*names, "unanswered"), marks)


def results_t1(doc: dict[str, Any], results: list[str]) -> dict[str, Any]:
    """Score one T1 answer."""
    return _results("t1", doc, results)


def results_t2(doc: dict[str, Any], results: list[str]) -> dict[str, Any]:
    """Score one T2 answer."""
    return _results("t2", doc, results)


def results_t3(doc: dict[str, Any], results: list[str]) -> dict[str, Any]:
    """Score one T3 answer."""
    return _results("t3", doc, results)


def _number(name: str, marks: list[dict[str, Any]]) -> float:
    return evogui_scorer.summary(marks, {}).get(name, float("nan"))


def mean_t1(marks: list[dict[str, Any]]) -> float:
    """Return percent of orders that are exact."""
    return _number("t1", marks)


def mean_t1_tau(marks: list[dict[str, Any]]) -> float:
    """Return the mean Kendall tau of usable orders."""
    return _number("t1_tau", marks)


def mean_t2_joint(marks: list[dict[str, Any]]) -> float:
    """Return percent right in action and value."""
    return _number("t2_joint", marks)


def mean_t2_action(marks: list[dict[str, Any]]) -> float:
    """Return percent right in the action."""
    return _number("t2_action", marks)


def mean_t3(marks: list[dict[str, Any]]) -> float:
    """Return percent right."""
    return _number("t3", marks)


def sum_unanswered(marks: list[dict[str, Any]]) -> float:
    """Return how many got no answer, which the other numbers leave out."""
    return _number("unanswered", marks)
