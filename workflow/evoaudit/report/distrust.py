"""Which verdicts to distrust and why: each way of being wrong with how often and one example, and what correcting does to scores."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evoaudit.report import load
from evoaudit.report.board import Bar, Score
from evoaudit.report.examples import TEXT
from evoaudit.report.load import Inputs
from evoaudit.report.words import count, listed, number, plain

#: Way of being wrong → (heading, what it means).
KINDS = {
    "efn": ("Rejected work that did the task", "The checker said FAIL, and the task was done: an evaluator false negative."),
    "broken": ("Judged a task that could not be done", "The task itself is broken, so its verdict says nothing of the agent."),
    "passed": ("Accepted work that did not do the task", "The checker said PASS, and the task was not done."),
    "unclear": (
        "Cannot be settled from the evidence",
        "The raters could not tell from what was logged, or are split evenly; such tasks need better evidence.",
    ),
    "one rater": (
        "Doubted by some raters",
        "At least one rater spoke against the verdict, and no final label does.",
    ),
    "signal": ("Contradicted by the log itself", "No person has judged these; something in the log speaks against the verdict."),
    "crashed checker": ("No verdict at all", "The checker crashed. That is no FAIL of the agent."),
}
#: Kind → what is said of its verdicts in one sentence about all, of one and of several.
FOUND = {
    "wrong": ("was found wrong", "were found wrong"),
    "unclear": ("cannot be settled", "cannot be settled"),
    "one rater": ("was doubted by some raters", "were doubted by some raters"),
    "signal": ("is contradicted by its log alone", "are contradicted by their logs alone"),
    "crashed checker": ("is missing, as the checker crashed", "are missing, as the checker crashed"),
}
LABELS = {"evaluator false negative": "efn", "broken task": "broken", "genuine failure": "passed"}
#: Grounds on which a final label contradicts a verdict.
LABELLED = {"people": "people", "judges": "judges alone"}
#: Label → its words, of one and of several.
TURNED_OUT = {
    "efn": ("evaluator false negative", "evaluator false negatives"),
    "broken": ("broken task", "broken tasks"),
    "gf": ("genuine failure", "genuine failures"),
    "unclear": ("unclear", "unclear"),
}
#: What the table says where raters are split evenly.
TIE = "a tie"
#: Benchmarks named in one phrase, steps named of an example, and characters of its goal.
NAMED, STEPS, GOAL = 3, 6, 160


@dataclass(frozen=True)
class Example:
    """One verdict of a kind."""

    goal: str
    place: str
    released: str
    why: str
    steps: tuple[str, ...]
    page: str
    simulated: bool


@dataclass(frozen=True)
class Kind:
    """One way of being wrong."""

    title: str
    meaning: str
    n: int
    #: On what it was told, and where it is most frequent.
    grounds: str
    where: str
    example: Example | None


@dataclass(frozen=True)
class Rate:
    """The audited verdicts of one benchmark."""

    benchmark: str
    released: str
    n: int
    wrong: Score
    #: What they turned out to be.
    labels: str
    whole: bool


@dataclass(frozen=True)
class Agent:
    """One agent's released and corrected score on a benchmark."""

    agent: str
    released: Score
    corrected: Score
    ranks: str
    change: str


@dataclass(frozen=True)
class Corrected:
    """A benchmark's agents, by their released rank."""

    benchmark: str
    agents: tuple[Agent, ...]
    n: int
    #: Axis of the bars.
    low: str
    high: str


def kinds(inputs: Inputs) -> list[Kind]:
    """Return every way of being wrong that this run found, the surest first."""
    rows = load.rows([inputs.stats], "suspects") if load.has(inputs.stats, "suspects") else []
    groups: dict[str, list[dict]] = {}
    for row in rows:
        groups.setdefault(_kind(row), []).append(row)
    examples = {kind: next((row for row in found if row.get("page")), found[0]) for kind, found in groups.items()}
    goals = {
        row["trajectory_id"]: row["instruction"]
        for row in load.rows(
            inputs.normalised,
            "trajectories",
            ("trajectory_id", "instruction"),
            trajectory_id={row["trajectory_id"] for row in examples.values() if row.get("trajectory_id")},
        )
    }
    return [_made(kind, groups[kind], examples[kind], goals) for kind in KINDS if kind in groups]


def doubts(inputs: Inputs) -> str:
    """Say how many released verdicts something speaks against, those found wrong apart from those merely doubted."""
    rows = load.rows([inputs.stats], "suspects", ("grounds", "label")) if load.has(inputs.stats, "suspects") else []
    told = Counter("wrong" if row["grounds"] in LABELLED and _kind(row) != "unclear" else _kind(row) for row in rows)
    parts = [f"{told[kind]:,} {words[told[kind] != 1]}" for kind, words in FOUND.items() if told[kind]]
    if not parts:
        return ""
    kinds = "Each is" if len(rows) > 1 else "It is"
    return f"Of the released verdicts, {listed(parts)}. {kinds} listed with what speaks against it, the surest first."


def _kind(row: dict) -> str:
    """Return which way of being wrong a suspect shows."""
    if row.get("grounds") in LABELLED:
        return LABELS.get(str(row.get("label")), "unclear")
    return str(row.get("grounds")) if row.get("grounds") in KINDS else "unclear"


def _made(kind: str, rows: list[dict], shown: dict, goals: Mapping[str, str | None]) -> Kind:
    told = Counter(str(row.get("grounds")) for row in rows)
    told_by = [f"{told[who]:,} by {words}" for who, words in LABELLED.items() if told[who]]
    grounds = f"Settled: {listed(told_by)}." if told_by else ""
    if kind == "one rater":
        upheld = sum(row.get("label") is not None for row in rows)
        parts = ((upheld, "upheld by the final label"), (len(rows) - upheld, "without a final label yet"))
        grounds = f"{listed(f'{n:,} {words}' for n, words in parts if n)}."
    elif kind == "unclear" and (ties := sum(row.get("rule") == TIE for row in rows)):
        grounds = f"{count(ties, 'tie')} among them."
    places = Counter(plain(row.get("benchmark") or "no benchmark", 60) for row in rows)
    most = sorted(places.items(), key=lambda pair: (-pair[1], pair[0]))
    where = [f"{name} ({n:,})" for name, n in most[:NAMED]]
    if len(most) > NAMED:
        where.append(f"{count(len(most) - NAMED, 'other benchmark')} ({sum(n for _, n in most[NAMED:]):,})")
    id = shown.get("trajectory_id")
    parts = (shown.get("benchmark"), shown.get("task_id") and f"task {shown['task_id']}", shown.get("agent"))
    title, meaning = KINDS[kind]
    return Kind(
        title,
        meaning,
        len(rows),
        grounds,
        listed(where),
        Example(
            plain(goals.get(id) or id or "", GOAL),
            " · ".join(plain(part, 60) for part in parts if part),
            plain(shown.get("released") or "", 20).upper(),
            plain(shown.get("why") or "", TEXT),
            tuple(re.findall(r"\d+", str(shown.get("steps") or ""))[:STEPS]),
            shown.get("page") or "",
            bool(shown.get("simulated")),
        ),
    )


def rates(inputs: Inputs) -> list[Rate]:
    """Return how often the verdicts of each benchmark were wrong, on one axis from 0 to 100."""
    rows = load.rows([inputs.stats], "audit_verdicts") if load.has(inputs.stats, "audit_verdicts") else []
    made = []
    for row in rows:
        if not row.get("n") or row.get("wrong") is None:
            continue
        low, high = row.get("wrong_low"), row.get("wrong_high")
        ends = f"{number(low, 1)} to {number(high, 1)}" if low is not None and high is not None else ""
        bar = Bar(round(row["wrong"] if low is None else low, 2), round(row["wrong"], 2), round(row["wrong"] if high is None else high, 2))
        labels = [count(row[name], *words) for name, words in TURNED_OUT.items() if row.get(name)]
        name = str(row.get("benchmark"))
        made.append(
            Rate(
                plain(name, 60),
                plain(row.get("released") or "fail", 20).upper(),
                row["n"],
                Score(number(row["wrong"], 1), ends, repr(row["wrong"]), bar),
                ", ".join(labels),
                name.lower().split(" ")[0] == "all",
            )
        )
    return made


def corrected(inputs: Inputs, limit: int) -> list[Corrected]:
    """Return the released and corrected scores of each benchmark's agents, at most ``limit`` agents in all."""
    rows = load.rows([inputs.stats], "corrected_scores") if load.has(inputs.stats, "corrected_scores") else []
    groups: dict[str, list[dict]] = {}
    for row in rows:
        if row.get("released") is not None and row.get("corrected") is not None:
            groups.setdefault(str(row.get("benchmark")), []).append(row)
    made: list[Corrected] = []
    for benchmark, found in groups.items():
        found.sort(key=lambda row: (row.get("rank_released") or 0, str(row.get("agent"))))
        ends = [
            value for row in found for value in (row["released"], row["corrected"], row.get("corrected_low"), row.get("corrected_high"))
        ]
        low, high = _axis([value for value in ends if value is not None])
        room = limit - sum(len(one.agents) for one in made)
        agents = tuple(_agent(row, low, high) for row in found[:room])
        if agents:
            made.append(Corrected(plain(benchmark, 60), agents, len(found), number(low, 0), number(high, 0)))
    return made


def _axis(values: list[float]) -> tuple[float, float]:
    """Return an axis in tens around percents."""
    low, high = 10 * int(min(values) // 10), 10 * int(-(-max(values) // 10))
    return float(max(0, low)), float(min(100, high) if high > low else low + 10)


def _agent(row: dict[str, Any], low: float, high: float) -> Agent:
    def at(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    ends = row.get("corrected_low"), row.get("corrected_high")
    known = None not in ends
    bar = Bar(at(ends[0] if known else row["corrected"]), at(row["corrected"]), at(ends[1] if known else row["corrected"]))
    ranks = number(row.get("rank_released"), 0)
    if row.get("rank_low") is not None and row.get("rank_high") is not None:
        least, most = number(row["rank_low"], 0), number(row["rank_high"], 0)
        ranks += f" → {least}" if least == most else f" → {least} to {most}"
    return Agent(
        plain(row.get("agent") or "no agent", 80),
        Score(number(row["released"], 1), "", repr(row["released"]), Bar(*[at(row["released"])] * 3)),
        Score(number(row["corrected"], 1), f"{number(ends[0], 1)} to {number(ends[1], 1)}" if known else "", repr(row["corrected"]), bar),
        ranks,
        plain(row.get("rank_change") or "", 40),
    )
