"""The audit's draw (audit paper, §4.1), a function of seed and identities alone, whatever the order of the rows."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from evoaudit.streams import rank

#: Columns of the sample that are copied from the trajectory.
COPIED = ("trajectory_id", "source", "benchmark", "agent", "experiment", "task_id", "domain", "simulated")


@dataclass(slots=True)
class Candidate:
    """A trajectory considered for the audit, with its released verdict and what became of it."""

    row: dict
    verdict: str
    raw_reward: float | None
    status: str = ""
    order: int | None = None

    @property
    def identity(self) -> tuple[str, ...]:
        """The (benchmark, task, agent, experiment) tuple; a trajectory without a task stands for itself."""
        row = self.row
        task = (row["task_id"], row.get("task_revision")) if row["task_id"] else ("", row["trajectory_id"])
        return tuple("" if part is None else str(part) for part in (row["benchmark"], *task, row["agent"], row["experiment"]))

    def sample_row(self) -> dict:
        return {
            **{name: self.row[name] for name in COPIED},
            "raw_reward": self.raw_reward,
            "verdict": self.verdict,
            "order": self.order,
            "status": self.status,
        }


@dataclass(slots=True)
class Draw:
    """The whole draw: every candidate with its status, and what each quota wanted, had and took."""

    candidates: list[Candidate]
    quotas: list[dict] = field(default_factory=list)
    calibration: dict = field(default_factory=dict)


def released(oracles: Iterable[dict]) -> tuple[str, float | None, str]:
    """Return (verdict, raw reward, status) of a trajectory's oracle rows.

    Verdicts of several oracles count only if they agree: a contradiction is not a FAIL.
    """
    rows = sorted(oracles, key=lambda row: (row["oracle"], row["oracle_version"] or "", row["verdict"], str(row["raw_reward"])))
    sound = [row for row in rows if row["verdict"] in ("pass", "fail")]
    if sound:
        if len({row["verdict"] for row in sound}) > 1:
            return "unscored", None, "oracles_disagree"
        rewards = {row["raw_reward"] for row in sound}
        reward = sound[0]["raw_reward"] if len(rewards) == 1 else max((r for r in rewards if r is not None), default=None)
        return sound[0]["verdict"], reward, ""
    if any(row["verdict"] == "error" for row in rows):
        return "error", None, "evaluator_error"
    return "unscored", rows[0]["raw_reward"] if rows else None, "unscored"


def candidates(trajectories: Iterable[dict], oracles: dict[str, list[dict]]) -> list[Candidate]:
    """Pair trajectories with their released verdicts."""
    found = []
    for row in trajectories:
        verdict, reward, status = released(oracles.get(row["trajectory_id"], ()))
        found.append(Candidate(row, verdict, reward, status))
    return found


def draw(pool: list[Candidate], *, seed: int, verdicts: list[str], quotas: dict, calibration: int) -> Draw:
    """Draw the audit sample.

    ``quotas``: benchmark → count, or ``{"per_agent": count}`` for a count a run (agent and experiment) with the
    application domains interleaved. No quotas at all take every eligible trajectory.
    """
    pool = sorted(pool, key=lambda one: one.row["trajectory_id"])
    _settle(pool, verdicts, quotas)
    result = Draw(pool)
    taken: list[Candidate] = []
    queues = list(_queues(pool, quotas, seed))
    for verdict in verdicts:
        for benchmark, queue, wanted, key in queues:
            eligible = 0
            for place, one in enumerate(queue):
                one.order = place if one.order is None else one.order
                if one.status or one.verdict != verdict:
                    continue
                eligible += 1
                one.status = "not_drawn" if wanted is not None and eligible > wanted else "analysed"
                if one.status == "analysed":
                    taken.append(one)
            result.quotas.append(
                {
                    "verdict": verdict,
                    "benchmark": benchmark,
                    **key,
                    "wanted": wanted,
                    "available": eligible,
                    "taken": eligible if wanted is None else min(eligible, wanted),
                }
            )
    for benchmark, quota in sorted(quotas.items()):
        if not any(entry["benchmark"] == benchmark for entry in result.quotas):
            per_agent = isinstance(quota, dict)
            result.quotas += [
                {
                    "verdict": verdict,
                    "benchmark": benchmark,
                    **({"agent": None, "experiment": None} if per_agent else {}),
                    "wanted": quota["per_agent"] if per_agent else quota,
                    "available": 0,
                    "taken": 0,
                }
                for verdict in verdicts
            ]
    chosen = _calibrate(taken, quotas, calibration, seed)
    for one in chosen:
        one.status = "calibration"
    result.calibration = {"wanted": calibration, "taken": len(chosen)}
    return result


def _settle(pool: list[Candidate], verdicts: list[str], quotas: dict) -> None:
    """Give a status to every candidate that no draw can take: the rest keep an empty one."""
    seen: set[tuple] = set()
    for one in sorted(pool, key=lambda one: (bool(one.status), one.row["trajectory_id"])):  # of twins, one with a verdict is kept
        if quotas and one.row["benchmark"] not in quotas:
            one.status = "benchmark_not_requested"
            continue
        if one.identity in seen:
            one.status = "duplicate_tuple"
            continue
        seen.add(one.identity)
        if one.status:
            continue
        if one.raw_reward is not None and not math.isfinite(one.raw_reward):
            one.status = "unscored"
        elif one.verdict == "fail" and one.raw_reward not in (None, 0) and "fail" in verdicts:
            one.status = "nonzero_reward"
        elif one.verdict not in verdicts:
            one.status = "nonzero_reward" if one.verdict == "pass" and one.raw_reward != 0 else "verdict_not_requested"


def _queues(pool: list[Candidate], quotas: dict, seed: int) -> Iterator[tuple]:
    """Yield (benchmark, candidates in order, quota, key) for every quota.

    As in the paper, strata are interleaved before the filter on the reward, so that an agent that rarely fails
    yields fewer trajectories. PASS and FAIL verdicts are taken from the same order: asking for both changes neither draw.
    """
    members: dict[str | None, list[Candidate]] = defaultdict(list)
    for one in pool:
        if one.status not in ("benchmark_not_requested", "duplicate_tuple"):
            members[one.row["benchmark"]].append(one)
    for benchmark in sorted(members, key=str):
        quota = quotas.get(benchmark)
        if isinstance(quota, dict):
            runs: dict[tuple, list[Candidate]] = defaultdict(list)
            for one in members[benchmark]:
                runs[str(one.row["agent"] or ""), str(one.row["experiment"] or "")].append(one)
            for run in sorted(runs):
                queue = interleave(runs[run], lambda one: one.row["domain"], seed, (benchmark, *run))
                yield benchmark, queue, quota["per_agent"], {"agent": run[0] or None, "experiment": run[1] or None}
        else:
            yield benchmark, interleave(members[benchmark], lambda one: one.row["agent"], seed, (benchmark,)), quota, {}


def interleave(members: list[Candidate], stratum: Callable[[Candidate], str | None], seed: int, scope: tuple) -> list[Candidate]:
    """Order each stratum by rank and take one from each in turn; the strata themselves go by rank too."""
    strata: dict[str, list[Candidate]] = defaultdict(list)
    for one in members:
        strata[str(stratum(one) or "")].append(one)
    names = sorted(strata, key=lambda name: (rank(seed, "audit-strata", *scope, name), name))
    shuffled = [sorted(strata[name], key=lambda one: (rank(seed, "audit-draw", *one.identity), one.identity)) for name in names]
    return [one for turn in zip_longest(*shuffled) for one in turn if one is not None]


def _calibrate(taken: list[Candidate], quotas: dict, n: int, seed: int) -> list[Candidate]:
    """Choose the calibration set: one from every run with its own quota, the rest over the other benchmarks and agents.

    Never more than half of what was drawn, so that a small corpus keeps something to analyse.
    """
    n = min(n, len(taken) // 2)
    by_rank = sorted(taken, key=lambda one: (rank(seed, "audit-calibration", *one.identity), one.identity))
    runs: dict[tuple, Candidate] = {}
    others: dict[str, list[Candidate]] = defaultdict(list)
    for one in by_rank:
        if isinstance(quotas.get(one.row["benchmark"]), dict):
            runs.setdefault((one.row["benchmark"], str(one.row["agent"] or ""), str(one.row["experiment"] or "")), one)
        else:
            others[str(one.row["benchmark"] or "")].append(one)
    chosen = [runs[run] for run in sorted(runs)][:n]
    turns = sorted(others, key=lambda name: (-len(others[name]), name))
    agents: dict[str, int] = defaultdict(int)
    while len(chosen) < n and any(others.values()):
        for name in turns:
            if len(chosen) < n and others[name]:
                one = min(others[name], key=lambda one: agents[str(one.row["agent"] or "")])
                others[name].remove(one)
                agents[str(one.row["agent"] or "")] += 1
                chosen.append(one)
    if len(chosen) < n:
        rest = [one for one in by_rank if not any(one is other for other in chosen)]
        chosen += rest[: n - len(chosen)]
    return chosen
