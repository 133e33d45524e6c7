"""A run whose numbers are set by hand: twenty-eight models and two solvers, and an audit with every kind of doubt."""

import json
import shutil
from pathlib import Path

from test_report import HOSTILE, LONG, RTL, audit, drawn, make, manifest, probes, rendered, sources

from evoaudit import store
from evoaudit.places import trajectory_page
from evoaudit.tables import files
from evoaudit.tables.spec import TABLES

#: Names that a file system, an address or a page could stumble over.
NAMES = (HOSTILE, "GPT 5", "gpt 5", "../../up", 'a "quoted"/model', "モデル", RTL, LONG[:300])
MODELS = (*NAMES, *(f"model-{n:02}" for n in range(20)))
SOLVERS = ("random", "majority")
OPEN, CLOSED, BASELINE = "Open-weight models", "Closed-weight models", "Baseline"


def group(model: str) -> str:
    return BASELINE if model in SOLVERS else CLOSED if model in NAMES else OPEN


def gain(place: int) -> float:
    return 60.0 - 1.5 * place


def board(models: tuple[str, ...]) -> dict[str, list[dict]]:
    """Return the tables of a leaderboard: the first leads, the next two cannot be told from it."""
    ranked = [*models, *SOLVERS]
    rows = [
        {
            "rank": n + 1,
            "model": model,
            "evogain": gain(n),
            "evogain_low": gain(n) - 2,
            "evogain_high": gain(n) + 2,
            "cluster_low": None if model in SOLVERS else gain(n) - 4,
            "cluster_high": None if model in SOLVERS else gain(n) + 4,
            "t1": gain(n),
            "t2_joint": gain(n) + 5,
            "t3": 50 + gain(n) / 2,
            "rank_low": None if model in SOLVERS else max(1, n - 1),
            "rank_high": None if model in SOLVERS else n + 3,
            "p_best": 80.0 if n == 0 else 0.0,
            "group": group(model),
            "simulated": True,
        }
        for n, model in enumerate(ranked)
    ]
    main = [
        {
            "group": row["group"],
            "model": row["model"],
            "t1": row["t1"],
            "max_image_side": 512,
            "family": row["model"][:3],
            "simulated": True,
        }
        for row in rows
    ]
    controls = [
        {
            "model": row["model"],
            "condition": condition,
            "t1": row["t1"] - less,
            "t2_top1": 60.0,
            "t2_joint": row["t2_joint"] - less,
            "t3": row["t3"] - less,
            "t1_low": row["t1"] - less - 3,
            "t1_high": row["t1"] - less + 3,
            "n_asked": 60,
            "max_image_side": 512,
            "group": row["group"],
            "simulated": True,
        }
        for n, row in enumerate(rows)
        for condition, less in (("full", 0), *((("black", 20 - 2 * n),) if n < 3 else ()))
    ]
    pairs = [
        {"model_a": a, "model_b": b, "difference": gain(i) - gain(j), "low": gain(i) - gain(j) - 3, "high": gain(i) - gain(j) + 3}
        | {"p": 0.4 if j < 3 else 1e-9, "p_adjusted": 1.0, "simulated": True}
        for i, a in enumerate(models)
        for j, b in enumerate(models)
        if i < j
    ]
    habits = [
        {"model": row["model"], "task": "t3", "answer": answer, "share": share, "expected_share": 50.0, "n": 20, "simulated": True}
        for row in rows
        for answer, share in (("A", 70.0), ("B", 30.0))
    ]
    bins = [
        {"model": row["model"], "task": "t3", "bin_low": 0.1 * k, "bin_high": 0.1 * k + 0.1, "n": 9 + k, "confidence": 10.0 * k + 5}
        | {"accuracy": 8.0 * k + 5, "accuracy_low": 6.0 * k, "accuracy_high": 9.0 * k + 9, "simulated": True}
        for row in rows
        for k in range(10)
    ]
    answers = [
        {"model": row["model"], "condition": "full", "task": task, "n_asked": 20, "n_answered": 18, "n_invalid": 1, "n_unanswered": 1}
        | {"accuracy": 40.0, "group": row["group"], "n_refused": 1, "max_image_side": 512, "simulated": True}
        for row in rows
        for task in ("T1", "T2", "T3")
    ]
    cost = [{"stage": "infer", "model": row["model"], "requests": 60, "usd": 1.25, "simulated": True} for row in rows]
    chance = [
        {"metric": metric, "exact": level, "n": 20, "simulated": True}
        for metric, level in (("t1", 8.0), ("t2_top1", 33.3), ("t2_joint", 15.0), ("t3", 50.0))
    ]
    return {
        "evogui_intervals": rows,
        "evogui_main": main,
        "shortcut_controls": controls,
        "pairwise_models": pairs,
        "position_bias": habits,
        "reliability": bins,
        "answers": answers,
        "cost": cost,
        "baselines": chance,
    }


def doubts() -> dict[str, list[dict]]:
    """Return the tables of an audit: one benchmark with a hostile name, one verdict of each kind of doubt."""
    kinds = (
        ("people", "evaluator false negative", "fail"),
        ("people", "broken task", "fail"),
        ("judges", "genuine failure", "pass"),
        ("one rater", "genuine failure", "fail"),
        ("signal", None, "fail"),
    )
    suspects = [
        {"grounds": grounds, "benchmark": HOSTILE if n == 0 else "webarena", "task_id": f"0{n}", "page": trajectory_page(f"web:{n}")}
        | {"released": released, "label": label, "why": f"4 of 4 raters against it {HOSTILE}", "steps": "3, 6", "agent": "agent-a"}
        | {"trajectory_id": f"web:{n}", "simulated": True}
        for n, (grounds, label, released) in enumerate(kinds)
    ]
    verdicts = [
        {"benchmark": name, "oracle": "program", "n": n, "gf": n - 3, "efn": 2, "broken": 1, "unclear": 0, "wrong": 300 / n}
        | {"wrong_low": 100 / n, "wrong_high": 700 / n, "released": "fail", "simulated": True}
        for name, n in (("webarena", 25), (RTL, 24), ("All", 49))
    ]
    scores = [
        {"benchmark": "webarena", "agent": agent, "n": 40, "released": released, "corrected": corrected, "corrected_low": corrected - 4}
        | {"corrected_high": corrected + 6, "rank_released": n + 1, "rank_low": low, "rank_high": high, "rank_corrected": low}
        | {"rank_change": change, "simulated": True}
        for n, (agent, released, corrected, low, high, change) in enumerate(
            [("agent-a", 50.0, 52.0, 2, 2, "changes"), (HOSTILE, 45.0, 60.0, 1, 1, "changes"), ("agent-c", 10.0, 12.0, 3, 3, "holds")]
        )
    ]
    return {"suspects": suspects, "audit_verdicts": verdicts, "corrected_scores": scores}


def data() -> dict[str, list[dict]]:
    counts = [
        {"source": "web", "stage": "normalise", "unit": unit, "read": 7, "kept": 5, "dropped": 2, "reconciles": True, "simulated": True}
        for unit in ("trajectory", "picture")
    ]
    stand = [{"source": "web", "control": False, "verdict": "shifted", "advice": f"set obs_phase {HOSTILE}", "simulated": True}]
    left = [
        {"stage": "normalise", "source": "web", "reason": reason, "n": 2, "unit": "trajectory", "simulated": True}
        for reason in ("broken_line", HOSTILE)
    ]
    return {"ingest": counts, "alignment": stand, "drops": left}


def stats(root: Path, rows: dict[str, list[dict]], models: tuple[str, ...]) -> str:
    folder = make(root, "stats")
    files.write(folder, [(table, rows.get(name, []), table.reason) for name, table in TABLES.items()])
    known = [{"name": model, "group": "open", "provider": "openai" if n % 2 else "google"} for n, model in enumerate(models)]
    return manifest(folder, "stats", {"baseline": "exact", "confidence": 0.95, "models": known})


def scored(root: Path, models: tuple[str, ...]) -> str:
    """Write scores of every model over the probes: the n-th model is wrong on its n-th item and every seventh from there."""
    folder = make(root, "scores")
    rows = []
    for n, model in enumerate(models):
        items = [
            (task, f"{task}-{k}", ("K=3", "type", "cross")[k % 1 + place])
            for place, (task, size) in enumerate((("t1", 6), ("t2", 4), ("t3", 4)))
            for k in range(size)
        ]
        for k, (task, id, slice_) in enumerate(items):
            right = (k - n) % 7 != 0
            rows.append(
                {
                    "model": model,
                    "condition": "full",
                    "max_image_side": 512,
                    "run": 0,
                    "task": task,
                    "instance_id": id,
                    "trajectory_id": "web:0",
                    "source": "web",
                    "domain": HOSTILE if k % 2 else "shop",
                    "slice": slice_,
                    "status": "answered",
                    "parse_path": "json",
                    "answer": {"t1": '{"order":[2,3,1]}', "t2": json.dumps({"action": "type", "value": HOSTILE}), "t3": '{"answer":"A"}'}[
                        task
                    ],
                    "confidence": 0.7,
                    "correct": right,
                    "action_correct": right if task == "t2" else None,
                    "tau": None,
                    "value_in_goal": k % 2 == 0 if task == "t2" else None,
                    "simulated": True,
                }
            )
    store.write_table(folder, "scores", rows)
    return manifest(folder, "score", {})


def run(root: Path, *, models: tuple[str, ...] = MODELS, audited: bool = True) -> list[str]:
    """Write a run's stages and return the arguments that name them."""
    normalised, place, ids = sources(root)
    asked = probes(root, ids)
    shutil.rmtree(root / "scores")
    rows = (board(models) if models else {}) | (doubts() if audited else {}) | data()
    arguments = {"stats": [stats(root, rows, models)], "tables": [rendered(root)], "figures": [drawn(root)], "normalised": [normalised]}
    arguments |= {name: asked[name] for name in ("mined", "images", "predictions")}
    if models:
        arguments["scores"] = [scored(root, (*models, *SOLVERS))]
    if audited:
        arguments |= audit(root)
    return [word for name, given in arguments.items() for word in (f"--{name}", *given)] + ["--root", f"web={place}"]
