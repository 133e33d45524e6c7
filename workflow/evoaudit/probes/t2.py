"""T2, inverse action and value: which logged action explains a change of screen (EvoGUI, §2.2–2.3, A.1)."""

import re
import unicodedata
from collections.abc import Iterator, Mapping

import numpy as np

from evoaudit.actions import OPS, VALUE_BEARING, t2_class
from evoaudit.probes import transitions
from evoaudit.probes.corpus import OP_NAMES, Corpus
from evoaudit.probes.draw import Asked, Fault, Item, Slice, cap
from evoaudit.probes.identity import instance_id
from evoaudit.probes.looks import Looks
from evoaudit.probes.motion import Motion
from evoaudit.streams import order

CLASSES = ("click", "type", "select")
STREAM = "t2-draw"


def place(name: str) -> tuple[int, str]:
    """Return where an action stands among others: the paper's first, in its order."""
    return CLASSES.index(name) if name in CLASSES else len(CLASSES), name


def vocabulary(quota: Mapping[str, int]) -> dict[str, str]:
    """Return operation → class for the classes a quota names; an operation outside the paper's vocabulary is a class of its own."""
    return {op: name for op in OPS if (name := t2_class(op) or op) in quota}


def slices(
    corpus: Corpus, looks: Looks, motion: Motion, quota: Mapping[str, int], valid: np.ndarray, share: float, seed: int
) -> tuple[list[Slice], Iterator[Fault], int]:
    """Return a slice for each class, the transitions turned down, and how many steps are no transitions.

    ``valid`` holds `transitions.reasons`.
    """
    words = vocabulary(quota)
    inside = transitions.ops(corpus, list(words))
    bearing = transitions.ops(corpus, [op for op, name in words.items() if name in VALUE_BEARING])
    found = np.where(inside | (valid == "not_adjacent"), valid, "outside_vocabulary")
    wrong = {
        "no_value": bearing & ~corpus.has_value,
        "masked_value": bearing & corpus.masked,
        "unseen_value": bearing & corpus.unseen,
        "failed_action": corpus.failed,
        "idle_action": corpus.idle,
    }
    for reason, where in wrong.items():
        found[where & (found == "")] = reason
    made = []
    for name in sorted(quota, key=place):
        chosen = (found == "") & transitions.ops(corpus, [op for op, mapped in words.items() if mapped == name])
        made.append(
            Slice(
                "t2",
                name,
                quota[name],
                transitions.by_trajectory(corpus, chosen),
                lambda t, chosen=chosen, name=name: _candidates(
                    corpus, looks, motion, t, transitions.within(corpus, chosen, t), name, seed
                ),
                cap(quota[name], share),
            )
        )
    return made, transitions.faults(corpus, found, "t2"), int(np.count_nonzero(found == "not_adjacent"))


def rows(one: Slice, corpus: Corpus) -> Iterator[dict]:
    """Lay out a slice's items; the pictures stand in their logged order."""
    for item in one.items:
        goal = corpus.carried["instruction"][item.trajectory].as_py() or ""
        value = item.fields["value"]
        yield {
            "instance_id": item.instance_id,
            "images": item.fields["images"],
            "step": item.fields["step"],
            "answer_action": one.name,
            "answer_value": value,
            "value_in_goal": stands_in(value, goal),
        }


def stands_in(value: str, goal: str) -> bool:
    """Tell whether a value stands in a goal as words of it, whatever their case and the quotes or full stops around them."""
    words = _plain(value).strip(_EDGES)
    return bool(words) and re.search(rf"(?<!\w){re.escape(words)}(?!\w)", _plain(goal)) is not None


#: What may stand around a value without being of it.
_EDGES = " \"'`.,;:!?()[]{}<>"
_QUOTES = str.maketrans("‘’‚‛‹›“”„‟«»", "'" * 6 + '"' * 6)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold().split())


def _candidates(
    corpus: Corpus, looks: Looks, motion: Motion, trajectory: int, steps: list[int], name: str, seed: int
) -> Iterator[Item | Fault]:
    identity = corpus.trajectory[trajectory]
    for step in order(steps, seed, STREAM, lambda step: (name, identity, int(corpus.step[step]))):
        pair = int(corpus.before[step]), int(corpus.after[step])
        if fault := transitions.seen(corpus, looks, motion, step):
            yield Fault(trajectory, f"t2 {corpus.name(step)}", *fault)
            continue
        value = corpus.value[step].as_py() if OPS[OP_NAMES[corpus.op[step]]] in VALUE_BEARING else ""
        images = [corpus.image(picture) for picture in pair]
        yield Item(
            instance_id("t2", identity, images, name, value),
            trajectory,
            f"t2 {corpus.name(step)}",
            Asked(pair, pair, (name, value)),
            {"images": images, "step": int(corpus.step[step]), "value": value},
        )
