"""Which screen lies before and which after each action: the one place where that is decided.

Sources log the screen before an action, after it, or both. Readers put the picture where their source says it belongs
(``Step.before`` or ``Step.after``); everything else follows from adjacency, for every source in the same way:

- the screen before an action is the one after the action before it, and the other way round;
- unless something may have happened in between: a gap that the reader knows of, or a jump in the source's whole-numbered steps;
- the screen after the last action is the trajectory's ``final`` picture, where the source logs one.

Several actions on one picture. Some sources log one picture for several actions (one model reply with two calls, a file
overwritten within a second). Then no screen lies between those actions, and no pair of screens belongs to one of them
alone. In such a run of steps the first keeps the screen before it, the last the screen after it, and the later steps carry
a gap, so that a pair (before, after) always has exactly one action in it. Steps of a source that names both their pictures
are taken at their word.

Readers of sources whose numbers are not meant to be consecutive (places in a log that mixes actions and talk, say) set
``Trajectory.consecutive`` to false and mark the gaps they know of themselves.
"""

from dataclasses import dataclass
from typing import Literal

from evoaudit.sources.base import Picture, Step, Trajectory

#: Why a step has no pair of screens.
Lost = Literal["shared_picture", "step_gap", "first_step", "last_step", "no_picture"]


@dataclass(frozen=True, slots=True)
class Aligned:
    """The screens around one step. ``lost`` says why a pair is incomplete; it is None where both are known."""

    before: Picture | None
    after: Picture | None
    gap_before: bool
    lost: Lost | None


def align(trajectory: Trajectory) -> list[Aligned]:
    """Return before and after pictures, gaps and reasons for every step of a trajectory."""
    steps = trajectory.steps
    count = len(steps)
    shared = [index > 0 and _shares(steps[index - 1], steps[index]) for index in range(count)] + [False]
    jumps = [index > 0 and trajectory.consecutive and _jump(steps[index - 1], steps[index]) for index in range(count)]
    gaps = [step.gap_before or jump for step, jump in zip(steps, jumps, strict=True)] + [False]
    aligned = []
    for index, step in enumerate(steps):
        before, after = step.before, step.after
        if before is None and index > 0 and not gaps[index]:
            before = steps[index - 1].after
        if after is None and not gaps[index + 1]:
            after = trajectory.final if index == count - 1 else steps[index + 1].before
        if shared[index]:
            before = None
        if shared[index + 1]:
            after = None
        lost: Lost | None = None
        if before is None or after is None:
            if shared[index] or shared[index + 1]:
                lost = "shared_picture"
            elif (before is None and gaps[index]) or (after is None and gaps[index + 1]):
                lost = "step_gap"
            elif after is not None and index == 0:
                lost = "first_step"
            elif before is not None and index == count - 1:
                lost = "last_step"
            else:
                lost = "no_picture"
        aligned.append(Aligned(before, after, gaps[index] or shared[index], lost))
    return aligned


def _shares(first: Step, second: Step) -> bool:
    """Return whether two consecutive steps were logged with one and the same picture."""
    if (first.before and first.after) and (second.before and second.after):
        return False
    return (first.before is not None and first.before == second.before) or (first.after is not None and first.after == second.after)


def _jump(first: Step, second: Step) -> bool:
    """Return whether the source's whole step numbers neither repeat nor follow one another."""
    numbers = [step.source_step for step in (first, second)]
    if not all(number is not None and len(number) < 16 and number.isascii() and number.isdigit() for number in numbers):
        return False
    return int(numbers[1]) - int(numbers[0]) not in (0, 1)
