"""The catalogue: what normalised sources hold, counted in SQL over the Parquet tables.

One folder of the normalise stage is one source. Nothing here opens a picture or changes a file. What looks wrong is said by
`suspicions`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evoaudit.actions import VALUE_BEARING
from evoaudit.catalogue_tables import Database, other_verbs
from evoaudit.suspicions import Finding, check


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What one source holds. Counts are of what was kept; ``drops`` counts what was not."""

    source: str
    kind: str | None
    #: `yes`, `no` or `partly`.
    simulated: str
    trajectories: int
    steps: int
    #: Steps with both screens readable and only that step's action between them.
    transitions: int
    #: Name → trajectories, the largest first; "" where there is none.
    benchmarks: dict[str, int]
    agents: dict[str, int]
    licences: dict[str, int]
    #: Median and 95th percentile of steps a trajectory; None without trajectories.
    steps_median: float | None
    steps_p95: int | None
    #: The same of screens a trajectory, as in EvoGUI, Table 1: T transitions join T + 1 screens.
    screens_median: float | None
    screens_p95: int | None
    #: Status → different pictures.
    pictures: dict[str, int]
    #: Widths and heights of readable pictures, pixels: how many sizes, median, 95th percentile, and the commonest with its share.
    sizes: dict[str, Any]
    #: Operation → steps.
    actions: dict[str, int]
    #: Verb behind the operation `other` → steps.
    other_verbs: dict[str, int]
    #: Steps of `type` and `select` whose value is not logged.
    without_value: int
    #: Steps for which the environment reported an error.
    errors: int
    #: Oracle → verdict → trajectories.
    verdicts: dict[str, dict[str, int]]
    #: Rewards that are neither 0 nor 1.
    fractional_rewards: int
    #: Rows, annotated trajectories, how many have how many annotators, who annotated how many, and how many have no logs here.
    annotations: dict[str, Any]
    #: Sites or applications (domains, where the source names neither): how many, the commonest and its share, and the effective
    #: number, the exponential of the entropy.
    domains: dict[str, Any]
    #: Share of steps with a time, negative times, trajectories whose times run backwards, and the kind of clock.
    timestamps: dict[str, Any]
    #: Whether the pictures stand at their actions: `aligned`, `shifted` or `undecided`, and why or what to do.
    alignment: dict[str, str]
    #: Unit → reason → records left out, and one of them with its detail ("" where there is none).
    drops: dict[str, dict[str, int]]
    examples: dict[str, dict[str, tuple[str, str]]]

    @property
    def pictures_ok(self) -> int:
        return self.pictures.get("ok", 0)

    @property
    def pictures_lost(self) -> int:
        return sum(self.pictures.values()) - self.pictures_ok


def rows(folders: Iterable[Path]) -> list[Catalogue]:
    """Return what each normalised folder holds, in order of source."""
    return report(folders, suspicions=False)[0]


def findings(folders: Iterable[Path]) -> list[Finding]:
    """Return what looks wrong in each normalised folder, in order of source; notes follow what has to be looked at."""
    return report(folders, counts=False)[1]


def report(folders: Iterable[Path], counts: bool = True, suspicions: bool = True) -> tuple[list[Catalogue], list[Finding]]:
    """Return `rows` and `findings` in one pass."""
    held: list[Catalogue] = []
    found: list[Finding] = []
    for folder in folders:
        with Database(folder) as database:
            held += [_catalogue(database)] if counts else []
            found += check(database) if suspicions else []
    return sorted(held, key=lambda one: one.source), sorted(found, key=lambda one: (one.source, one.level != "look"))


def _catalogue(database: Database) -> Catalogue:
    trajectories, simulated = database.one("SELECT count(*), count(*) FILTER (simulated) FROM trajectories")
    steps, errors, without_value = database.one(
        f"SELECT count(*), count(error), count(*) FILTER (op IN {tuple(sorted(VALUE_BEARING))} AND coalesce(value, '') = '') FROM acts"
    )
    median, p95 = database.one("SELECT quantile_cont(n_steps, 0.5), quantile_disc(n_steps, 0.95) FROM trajectories")
    verdicts: dict[str, dict[str, int]] = {}
    for oracle, verdict, number in database.all("SELECT oracle, verdict, count(*) FROM oracle_results GROUP BY ALL ORDER BY ALL"):
        verdicts.setdefault(oracle, {})[verdict] = number
    drops: dict[str, dict[str, int]] = {}
    examples: dict[str, dict[str, tuple[str, str]]] = {}
    for unit, reason, number, item, detail in database.all(
        "SELECT unit, reason, count(*) AS n, min(item), arg_min(coalesce(detail, ''), item || ' ' || coalesce(detail, '')) "
        "FROM drops GROUP BY ALL ORDER BY unit, n DESC, reason"
    ):
        drops.setdefault(unit, {})[reason] = number
        examples.setdefault(unit, {})[reason] = item, detail
    return Catalogue(
        source=database.source,
        kind=database.kind,
        simulated="no" if not simulated else "yes" if simulated == trajectories else "partly",
        trajectories=trajectories,
        steps=steps,
        transitions=database.transitions(),
        benchmarks=database.counts("SELECT coalesce(benchmark, ''), count(*) FROM trajectories GROUP BY ALL"),
        agents=database.counts("SELECT coalesce(agent, ''), count(*) FROM trajectories GROUP BY ALL"),
        licences=database.counts("SELECT coalesce(license, ''), count(*) FROM trajectories GROUP BY ALL"),
        steps_median=median,
        steps_p95=p95,
        screens_median=None if median is None else median + 1,
        screens_p95=None if p95 is None else p95 + 1,
        pictures=database.counts("SELECT status, count(*) FROM images GROUP BY ALL"),
        sizes=_sizes(database),
        actions=database.counts("SELECT op, count(*) FROM acts GROUP BY ALL"),
        other_verbs=other_verbs(database),
        without_value=without_value,
        errors=errors,
        verdicts=verdicts,
        fractional_rewards=database.one("SELECT count(*) FROM oracle_results WHERE raw_reward NOT IN (0, 1)")[0],
        annotations=_annotations(database),
        domains=_domains(database),
        timestamps=_timestamps(database),
        alignment={name: str(database.alignment.get(name) or "") for name in ("verdict", "advice")},
        drops=drops,
        examples=examples,
    )


def _sizes(database: Database) -> dict[str, Any]:
    good = "FROM images WHERE status = 'ok'"
    common = database.all(f"SELECT width, height, count(*) AS n {good} GROUP BY ALL ORDER BY n DESC, width, height")
    if not common:
        return {}
    spread = database.one(
        f"SELECT quantile_disc(width, 0.5), quantile_disc(height, 0.5), quantile_disc(width, 0.95), quantile_disc(height, 0.95) {good}"
    )
    return {
        "different": len(common),
        "median": list(spread[:2]),
        "p95": list(spread[2:]),
        "commonest": list(common[0][:2]),
        "commonest_share": common[0][2] / sum(n for _, _, n in common),
    }


def _annotations(database: Database) -> dict[str, Any]:
    total, trajectories = database.one("SELECT count(*), count(DISTINCT trajectory_id) FROM annotations")
    if not total:
        return {}
    each = "SELECT trajectory_id, count(DISTINCT annotator) AS n FROM annotations GROUP BY ALL"
    return {
        "rows": total,
        "trajectories": trajectories,
        "by_annotators": {str(n): count for n, count in database.all(f"SELECT n, count(*) FROM ({each}) GROUP BY n ORDER BY n")},
        "annotators": database.counts("SELECT annotator, count(DISTINCT trajectory_id) FROM annotations GROUP BY ALL"),
        "without_trajectory": database.one(
            "SELECT count(DISTINCT trajectory_id) FROM annotations ANTI JOIN trajectories USING (trajectory_id)"
        )[0],
    }


def _domains(database: Database) -> dict[str, Any]:
    place = "coalesce(website, domain)"
    named = database.counts(f"SELECT {place}, count(*) FROM trajectories WHERE {place} IS NOT NULL GROUP BY ALL")
    if not named:
        return {}
    shares = np.array(list(named.values())) / sum(named.values())
    return {
        "different": len(named),
        "commonest": next(iter(named)),
        "commonest_share": float(shares[0]),
        "effective": float(np.exp(-(shares * np.log(shares)).sum())),
    }


def _timestamps(database: Database) -> dict[str, Any]:
    total, given, negative, first, last = database.one(
        "SELECT count(*), count(timestamp), count(*) FILTER (timestamp < 0), min(timestamp), max(timestamp) FROM acts"
    )
    if not given:
        return {}
    backwards = database.one(
        "SELECT count(DISTINCT trajectory_id) FROM (SELECT trajectory_id, timestamp < max(timestamp) OVER "
        "(PARTITION BY trajectory_id ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS back FROM acts) WHERE back"
    )[0]
    # Seconds since 1970 of any recording are in the thousands of millions; seconds of a recording never are.
    clock = "epoch" if first > 3e8 else "recording" if last < 3e8 else "mixed"
    return {"share": given / total, "negative": negative, "backwards": backwards, "clock": clock, "first": first, "last": last}
