"""What a reader is: a function that yields trajectories as they stand in one native format.

A reader knows its format and nothing else. It does not decode pictures, derive adjacency, assign step numbers or
count; `evoaudit.normalise` does that for all of them. It never raises for a bad record: it yields a `Skipped`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Phase = Literal["before", "after", "both"]


@dataclass(frozen=True, slots=True)
class Picture:
    """A reference to a picture: a file under the root, or a member inside one.

    ``load`` returns the encoded bytes of a member (Parquet row, base64 text); for plain files it is None.
    """

    file: str
    member: str | None = None
    load: Callable[[], bytes] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """Where an action went, in pixels of the screen the agent acted on."""

    x: float | None = None
    y: float | None = None
    left: float | None = None
    top: float | None = None
    width: float | None = None
    height: float | None = None
    text: str | None = None


@dataclass(slots=True)
class Step:
    """One logged action. ``before``/``after`` are set as far as the source logs them; alignment fills in the rest."""

    op: str
    op_raw: str | None = None
    value: str | None = None
    source_step: str | None = None
    target: Target | None = None
    reasoning: str | None = None
    url: str | None = None
    page_text: str | None = None
    before: Picture | None = None
    after: Picture | None = None
    timestamp: float | None = None
    error: str | None = None
    #: True where the reader knows that the previous screen is not this step's (tab change, missing record).
    gap_before: bool = False


@dataclass(frozen=True, slots=True)
class Oracle:
    """A released verdict. ``status`` other than ``ok`` means there is none."""

    oracle: str
    raw_reward: float | None
    verdict: Literal["pass", "fail", "error", "unscored"]
    status: str = "ok"
    version: str | None = None


def graded(oracle: str, reward: float | None, missing: str = "no_reward", version: str | None = None) -> Oracle:
    """Return a released reward as a verdict: more than one half passes, the rest fails, none is ``unscored``."""
    if reward is None:
        return Oracle(oracle, None, "unscored", missing, version)
    return Oracle(oracle, reward, "pass" if reward > 0.5 else "fail", "ok", version)


@dataclass(frozen=True, slots=True)
class Cost:
    """Dollars an attempt cost by its log; ``field`` is the log's own name for them."""

    usd: float
    field: str


#: Where AgentLab sums up what its agent's model cost, in its newer and its older versions.
COSTS = ("stats.cum_cost", "stats.cum_openai_total_cost")


def cost(log: Mapping[str, Any], *fields: str) -> Cost | None:
    """Return what the first of these fields that holds an amount says; none where it is 0, as agents without a price log it."""
    from evoaudit.sources import jsonio

    for name in fields:
        usd = jsonio.as_float(log.get(name))
        if usd is not None and usd > 0:
            return Cost(usd, name)
    return None


@dataclass(slots=True)
class Trajectory:
    """One episode as the source gives it. ``native_id`` is unique within the source."""

    native_id: str
    steps: list[Step]
    source_file: str
    obs_phase: Phase
    #: Whether whole-numbered ``source_step``s follow one another, so that a jump means lost steps; false for places in a mixed log.
    consecutive: bool = True
    #: The screen after the last action, for sources that log it as a record without an action.
    final: Picture | None = None
    final_text: str | None = None
    final_url: str | None = None
    benchmark: str | None = None
    task_id: str | None = None
    task_revision: str | None = None
    agent: str | None = None
    experiment: str | None = None
    domain: str | None = None
    website: str | None = None
    instruction: str | None = None
    answer: str | None = None
    reference: str | None = None
    license: str | None = None
    #: What the log says the attempt cost, and the field that says so.
    cost: Cost | None = None
    oracles: list[Oracle] = field(default_factory=list)
    #: (unit, item, reason, detail) left out while this trajectory was read, for instance one broken line.
    skipped: list[tuple[str, str, str, str | None]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that could not be read. ``item`` names file and line, ``reason`` is a short code."""

    item: str
    reason: str
    detail: str | None = None
    unit: str = "trajectory"


#: How the name of an annotator begins that is a released judge, not a person; those never count towards human agreement.
JUDGE = "judge:"


@dataclass(frozen=True, slots=True)
class Annotation:
    """One answer of one of the source's own annotators, whether or not the trajectory itself is at hand."""

    native_id: str
    annotator: str
    question: str
    answer: str | None
    row: int
    benchmark: str | None = None
    agent: str | None = None
    task_id: str | None = None


#: A reader: ``read(root, options)`` yields records in an order that depends on the files alone.
Reader = Callable[[Path, dict], Iterator[Trajectory | Skipped | Annotation]]
