"""The tables about the run itself: what was read and left out, what it cost, how long the agents took."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evoaudit.audit.judges import ENSEMBLE
from evoaudit.measured import Measured
from evoaudit.stats import wilson_ci
from evoaudit.stats.resample import iid_means, interval
from evoaudit.tables.inputs import Empty, Run, codes, numbers, source_of, units
from evoaudit.tables.panel import MAIN_SIDE

#: Deadlines of the curve, seconds.
DEADLINES = (1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800, 2700, 3600)
DEADLINE = 300
#: What an amount rests on that is in no log.
MEASURED = "stats.measured"
_TOKENS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
#: Shares in the alignment check's answer.
SHARES = ("fits_minus", "fits_own", "fits_plus", "delayed")


def ingest(run: Run) -> list[dict]:
    """Return every stage's counts, by source where a stage has one; none may go missing."""
    rows = []
    for _, manifest in run.manifests:
        config = manifest.get("config") or {}
        for unit, one in units(manifest).items():
            if one["read"]:
                dropped = sum(one["dropped"].values())
                rows.append(
                    {
                        "source": source_of(manifest),
                        "stage": manifest["stage"],
                        "unit": unit,
                        "read": one["read"],
                        "kept": one["kept"],
                        "dropped": dropped,
                        "reconciles": one["read"] == one["kept"] + dropped,
                        "simulated": bool(config["simulated"]) if "simulated" in config else bool(run.simulated_sources),
                    }
                )
    if not rows:
        raise Empty("No stage's folder was given.")
    return rows


def alignment(run: Run) -> list[dict]:
    """Return whether the pictures of each source stand at their actions, the controls last."""
    from evoaudit.alignment import check

    rows = []
    for control, folders in ((False, run.folders.normalised), (True, run.folders.controls)):
        for folder in folders:
            if all((folder / f"{name}.parquet").is_file() for name in ("trajectories", "steps", "changes", "images")):
                row = {**check(folder), "control": control}
                if not row["trajectories"]:  # a source of annotations alone
                    continue
                row |= {name: 100 * row[name] for name in SHARES if row[name] is not None}
                rows.append(row)
    if not rows:
        raise Empty("No source was normalised in this run.")
    return rows


def drops(run: Run) -> list[dict]:
    """Return the reasons for which records were left out, and how often."""
    if not run.drops:
        raise Empty("Nothing was dropped.")
    simulated = run.simulated_sources
    known = {one.source for one in run.trajectories.values()} | {name for _, name, _ in run.sources}
    # What is no source is all of them, or a model or judge, which was asked about any of them.
    return [{**row, "simulated": row["source"] in simulated if row["source"] in known else bool(simulated)} for row in run.drops]


def cost(run: Run) -> list[dict]:
    """Return requests, tokens and dollars by model and judge; successes are those of the comparison's condition."""
    columns = ["model", "condition", "max_image_side", *_TOKENS, "usd", "reused"]
    asked = run.table(run.folders.predictions, "predictions", columns)
    scored = run.table(run.folders.scores, "scores", ["model", "condition", "max_image_side", "correct", "simulated"])
    rows = []

    def simulated(model: str, scores: pa.Table) -> bool:
        mine = scores.filter(pc.equal(scores["model"], model))
        return bool(pc.any(mine["simulated"]).as_py()) if mine.num_rows else bool(run.simulated_sources)

    for model, table in _by_name(asked, "model"):
        mine = scored.filter(pc.equal(scored["model"], model))
        row = _spent("infer", model, table, simulated(model, scored))
        main = _comparison(table)
        answers = _comparison(mine)
        if answers.num_rows and main.num_rows:
            row["successes"] = pc.sum(answers["correct"]).as_py() or 0
            row["success"] = 100 * row["successes"] / main.num_rows
            # A bill with unpriced requests says nothing about the price of a success.
            if main["usd"].null_count == 0 and row["successes"]:
                row["usd_per_verified_success"] = math.fsum(main["usd"].to_pylist()) / row["successes"]
        rows.append(row)
    for one in run.folders.sets:  # what a further set cost is a row of its own; its successes are not the comparison's
        spent, scored = run.table(one.predictions, "predictions", columns), run.table(one.scores, "scores", ["model", "simulated"])
        rows += [_spent("infer", f"{model} ({one.name})", table, simulated(model, scored)) for model, table in _by_name(spent, "model")]
    # A judge that was asked over a network has a row a request, repairs included; a built-in one only its judgments; an ensemble asks
    # nothing.
    requests = run.table(run.folders.judgments, "predictions", columns)
    made_up = bool(run.simulated_sources)
    rows += [_spent("judge", judge, table, made_up) for judge, table in _by_name(requests, "model")]
    judged = run.table(run.folders.judgments, "judgments", ["annotator", "kind", "input_tokens", "output_tokens", "usd", "simulated"])
    judged = judged.filter(pc.not_equal(judged["kind"], ENSEMBLE))
    judged = judged.filter(pc.invert(pc.is_in(judged["annotator"], pc.unique(requests["model"]))))
    rows += [
        _spent("judge", judge, table, bool(pc.any(table["simulated"]).as_py()) or bool(run.simulated_sources))
        for judge, table in _by_name(judged, "annotator")
    ]
    if not rows:
        raise Empty("Nothing was asked of a model.")
    known = [row for row in rows if row["usd_per_attempt"] is not None and row.get("success") is not None]
    for row, best in zip(known, frontier([(row["usd_per_attempt"], row["success"]) for row in known]), strict=True):
        row["frontier"] = best
    return rows


def _comparison(table: pa.Table) -> pa.Table:
    """Return the rows under the full condition at the comparison's picture size."""
    table = table.filter(pc.equal(table["condition"], "full"))
    sides = pc.unique(table["max_image_side"]).to_pylist()
    return table.filter(pc.equal(table["max_image_side"], MAIN_SIDE if MAIN_SIDE in sides else min(sides))) if sides else table


def _by_name(table: pa.Table, column: str) -> list[tuple[str, pa.Table]]:
    names = sorted(pc.unique(table[column]).to_pylist())
    return [(name, table.filter(pc.equal(table[column], name))) for name in names]


def _spent(stage: str, model: str, table: pa.Table, simulated: bool) -> dict:
    tokens = {name: pc.sum(table[name]).as_py() for name in _TOKENS if name in table.column_names}
    priced = table.num_rows - table["usd"].null_count
    usd = math.fsum(table["usd"].drop_null().to_pylist()) if priced else None
    return {
        "stage": stage,
        "model": model,
        "requests": table.num_rows,
        **tokens,
        "usd": usd,
        "usd_per_attempt": usd / priced if priced else None,
        "priced": priced,
        "reused": pc.sum(table["reused"]).as_py() if "reused" in table.column_names else None,
        "simulated": simulated,
    }


@dataclass
class _Attempts:
    """The scored attempts of one agent at one benchmark."""

    n: int = 0
    #: (seconds, succeeded) of those whose time is known.
    timed: list[tuple[float, bool]] = field(default_factory=list)
    slacks: list[float] = field(default_factory=list)
    n_missed: int = 0
    simulated: bool = False


def _scored(run: Run) -> Iterator[tuple[tuple[str, str], str, bool, bool]]:
    """Yield (benchmark, agent), trajectory, whether it was released as a success, and whether it is simulated, of every scored attempt."""
    for one, known in sorted(run.trajectories.items()):
        if (verdict := run.released.get(one)) in ("pass", "fail"):
            yield (known.benchmark or "(none)", known.agent or "(none)"), one, verdict == "pass", known.simulated


def _attempts(run: Run) -> dict[tuple[str, str], _Attempts]:
    """Return the scored attempts by benchmark and agent; a measured time stands before that of the steps."""
    steps = run.table(run.folders.normalised, "steps", ["trajectory_id", "timestamp"])
    steps = steps.filter(pc.is_valid(steps["timestamp"]))
    ids, names = codes(steps["trajectory_id"])
    times = numbers(steps["timestamp"])
    first, last, n = np.full(len(names), np.inf), np.full(len(names), -np.inf), np.bincount(ids, minlength=len(names))
    np.minimum.at(first, ids, times)
    np.maximum.at(last, ids, times)
    logged = {one: float(last[place] - first[place]) for place, one in enumerate(names) if n[place] > 1}
    found: dict[tuple[str, str], _Attempts] = {}
    for key, one, success, simulated in _scored(run):
        mine, beside = found.setdefault(key, _Attempts()), run.measured.get(one, Measured())
        mine.n += 1
        mine.simulated |= simulated
        seconds = logged.get(one, math.nan) if beside.seconds is None else beside.seconds
        if math.isfinite(seconds):
            mine.timed.append((seconds, success))
        if beside.slack is not None:
            mine.slacks.append(beside.slack)
            mine.n_missed += beside.taken is None
    return dict(sorted(found.items()))


def timing(run: Run) -> list[dict]:
    """Return deadline misses (attempts without a success inside the deadline) and critical-window slack by benchmark and agent."""
    deadline = float(run.settings.get("deadline_s", DEADLINE))
    rows = []
    for (benchmark, agent), mine in _attempts(run).items():
        if not mine.timed and not mine.slacks:
            continue
        n = len(mine.timed)
        met = sum(success and seconds <= deadline for seconds, success in mine.timed)
        low, high = wilson_ci(n - met, n, run.confidence) if n else (None, None)
        ends = _slack_ends(run, benchmark, agent, mine.slacks)
        rows.append(
            {
                "benchmark": benchmark,
                "agent": agent,
                "window_slack": math.fsum(mine.slacks) / len(mine.slacks) if mine.slacks else None,
                "window_slack_low": ends[0],
                "window_slack_high": ends[1],
                "deadline_miss": 100 * (1 - met / n) if n else None,
                "deadline_miss_low": None if low is None else 100 * low,
                "deadline_miss_high": None if high is None else 100 * high,
                "deadline_s": deadline,
                "n": mine.n,
                "n_timed": n,
                "n_success": sum(success for _, success in mine.timed),
                "median_s": float(np.median([seconds for seconds, _ in mine.timed])) if n else None,
                "n_windows": len(mine.slacks),
                "n_window_missed": mine.n_missed,
                "simulated": mine.simulated,
            }
        )
    if not rows:
        raise Empty("No scored trajectory has times for two steps or more, and nothing was measured; `stats.measured` takes it.")
    return rows


def _slack_ends(run: Run, benchmark: str, agent: str, slacks: list[float]) -> list[float | None]:
    """Return the interval of the mean slack by resampling attempts; slacks that are all alike have none."""
    if len(set(slacks)) < 2:
        return [None, None]
    return interval(iid_means(np.array(sorted(slacks)), run.resamples, run.rng("slack", benchmark, agent)), run.confidence)


def frontier(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Say of each (cost, success) whether none is as cheap and as good, and better in one of the two."""
    return [not any(c <= cost and s >= success and (c, s) != (cost, success) for c, s in points) for cost, success in points]


def agent_cost(run: Run) -> list[dict]:
    """Return what an attempt and a verified success of each agent cost, and which agents no cheaper one beats.

    A success is verified where an audit looked at it and agreed; elsewhere the released verdict stands.
    """
    final = {row["trajectory_id"]: row for row in run.rows(run.folders.final, "final", ["trajectory_id", "verdict"])}
    attempts: Counter[tuple[str, str]] = Counter()
    priced: dict[tuple[str, str], list[tuple[float, bool, bool, bool]]] = {}
    bases: dict[tuple[str, str], Counter[str]] = {}
    for key, one, success, simulated in _scored(run):
        attempts[key] += 1
        usd, basis = run.measured.get(one, Measured()).usd, MEASURED
        if usd is None:
            usd, basis = run.logged_usd.get(one, (None, ""))
        if usd is None:
            continue
        label = final.get(one, {}).get("verdict")
        good = label == "efn" if not success else label not in ("gf", "broken")
        priced.setdefault(key, []).append((usd, good, label is not None, simulated))
        bases.setdefault(key, Counter())[basis] += 1
    if not priced:
        raise Empty("What an attempt cost stands in no log of this run; name a file of measured dollars in `stats.measured`.")
    rows = []
    for (benchmark, agent), mine in sorted(priced.items()):
        n, good, usd = len(mine), sum(success for _, success, _, _ in mine), math.fsum(dollars for dollars, *_ in mine)
        low, high = wilson_ci(good, n, run.confidence)
        rows.append(
            {
                "benchmark": benchmark,
                "agent": agent,
                "n": n,
                "success": 100 * good / n,
                "success_low": 100 * low,
                "success_high": 100 * high,
                "usd_per_attempt": usd / n,
                "usd_per_verified_success": usd / good if good else None,
                "usd": usd,
                "successes": good,
                "n_audited": sum(audited for _, _, audited, _ in mine),
                "n_attempts": attempts[benchmark, agent],
                "basis": "; ".join(f"{count} by {basis}" for basis, count in sorted(bases[benchmark, agent].items())),
                "simulated": any(simulated for *_, simulated in mine),
            }
        )
    for name in dict.fromkeys(row["benchmark"] for row in rows):
        mine = [row for row in rows if row["benchmark"] == name]
        for row, best in zip(mine, frontier([(row["usd_per_attempt"], row["success"]) for row in mine]), strict=True):
            row["frontier"] = best
    return rows


def deadline_curve(run: Run) -> list[dict]:
    """Return the share of timed attempts that succeeded by each deadline."""
    rows = []
    for (benchmark, agent), mine in _attempts(run).items():
        timed = mine.timed
        for deadline in DEADLINES if timed else ():
            met = sum(success and seconds <= deadline for seconds, success in timed)
            low, high = wilson_ci(met, len(timed), run.confidence)
            rows.append(
                {
                    "benchmark": benchmark,
                    "agent": agent,
                    "deadline_s": float(deadline),
                    "n": len(timed),
                    "success": 100 * met / len(timed),
                    "success_low": 100 * low,
                    "success_high": 100 * high,
                    "simulated": mine.simulated,
                }
            )
    if not rows:
        raise Empty("No source logs times, and none were measured.")
    return rows
