"""The tables about the run itself: what was read and left out, what it cost, how long the agents took."""

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evoaudit.audit.judges import ENSEMBLE
from evoaudit.stats import wilson_ci
from evoaudit.tables.inputs import Empty, Run, codes, numbers, source_of, units
from evoaudit.tables.panel import MAIN_SIDE

#: Deadlines of the curve, seconds.
DEADLINES = (1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800, 2700, 3600)
DEADLINE = 300
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


def _durations(run: Run) -> dict[tuple[str, str], list[tuple[float, bool, bool]]]:
    """Return (seconds, succeeded, simulated) of every scored trajectory whose steps carry times, by benchmark and agent."""
    found: dict[tuple[str, str], list[tuple[float, bool, bool]]] = {}
    steps = run.table(run.folders.normalised, "steps", ["trajectory_id", "timestamp"])
    steps = steps.filter(pc.is_valid(steps["timestamp"]))
    if not steps.num_rows:
        raise Empty("No source logs times.")
    ids, names = codes(steps["trajectory_id"])
    times = numbers(steps["timestamp"])
    first, last, n = np.full(len(names), np.inf), np.full(len(names), -np.inf), np.bincount(ids, minlength=len(names))
    np.minimum.at(first, ids, times)
    np.maximum.at(last, ids, times)
    for number, one in enumerate(names):
        known, verdict = run.trajectories.get(one), run.released.get(one)
        if known is not None and verdict in ("pass", "fail") and n[number] > 1 and np.isfinite(last[number] - first[number]):
            key = (known.benchmark or "(none)", known.agent or "(none)")
            found.setdefault(key, []).append((float(last[number] - first[number]), verdict == "pass", known.simulated))
    if not found:
        raise Empty("No scored trajectory has times for two steps or more.")
    return dict(sorted(found.items()))


def timing(run: Run) -> list[dict]:
    """Return deadline misses by benchmark and agent: attempts without a success inside the deadline."""
    deadline = float(run.settings.get("deadline_s", DEADLINE))
    attempts = Counter(
        (known.benchmark or "(none)", known.agent or "(none)")
        for one, known in run.trajectories.items()
        if run.released.get(one) in ("pass", "fail")
    )
    rows = []
    for (benchmark, agent), timed in _durations(run).items():
        met = sum(success and seconds <= deadline for seconds, success, _ in timed)
        rows.append(
            {
                "benchmark": benchmark,
                "agent": agent,
                "window_slack": None,
                "deadline_miss": 100 * (1 - met / len(timed)),
                "deadline_s": deadline,
                "n": attempts[benchmark, agent],
                "n_timed": len(timed),
                "n_success": sum(success for _, success, _ in timed),
                "median_s": float(np.median([seconds for seconds, _, _ in timed])),
                "simulated": any(simulated for _, _, simulated in timed),
            }
        )
    return rows


def deadline_curve(run: Run) -> list[dict]:
    """Return the share of timed attempts that succeeded by each deadline."""
    rows = []
    for (benchmark, agent), timed in _durations(run).items():
        for deadline in DEADLINES:
            met = sum(success and seconds <= deadline for seconds, success, _ in timed)
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
                    "simulated": any(simulated for _, _, simulated in timed),
                }
            )
    return rows
