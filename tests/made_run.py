"""Small upstream folders with known contents, for the tests of statistics, tables and figures."""

import csv
import json
import random
from pathlib import Path

import pyarrow.parquet as pq

from evoaudit import intact, store
from evoaudit.resources import PUBLISHED

T1_SLICES = (3, 4, 5)
T2_CLASSES = {"click": 0.46, "type": 0.46, "select": 0.08}
T3_SLICES = ("cross", "same_domain", "long_skip")
#: Model → chance of T1, T2 action, T2 value given the action, T3.
MODELS = {"alpha-2b": (0.25, 0.55, 0.5, 0.65), "beta-9b": (0.3, 0.6, 0.6, 0.72), "Gemini-3-Flash-Preview": (0.6, 0.75, 0.7, 0.85)}
SETTINGS = {
    "bootstrap": 200,
    "confidence": 0.95,
    "baseline": "exact",
    "models": [
        {"name": "random", "group": "baseline", "provider": "builtin", "family": None, "parameters_b": None, "osworld": None},
        {"name": "alpha-2b", "group": "open", "provider": "openai", "family": "alpha", "parameters_b": 2.0, "osworld": 20.0},
        {"name": "beta-9b", "group": "open", "provider": "openai", "family": "alpha", "parameters_b": 9.0, "osworld": 31.0},
        {"name": "Gemini-3-Flash-Preview", "group": "closed", "provider": "google", "family": None, "parameters_b": None, "osworld": 60.0},
    ],
    "judges": [{"name": "gpt", "role": "llm"}, {"name": "claude", "role": "llm"}],
}


def manifest(folder: Path, stage: str, config: dict, **counts: int) -> str:
    """Write a manifest that counts ``counts`` as kept and return its path."""
    units = {name: {"read": n, "kept": n, "dropped": {}} for name, n in counts.items()}
    first = next(iter(units))
    store.write_manifest(
        folder,
        stage=stage,
        key="k",
        format_version=1,
        seed=1,
        config=config,
        upstream={},
        counts={"unit": first, **units.pop(first), "others": units},
    )
    return str(folder / "manifest.json")


def folder(root: Path, name: str) -> Path:
    path = root / name
    path.mkdir(parents=True)
    return path


def probes(root: Path, n: int = 60, simulated: bool = False, trajectories: int = 30) -> tuple[dict[str, list[str]], dict[str, list[dict]]]:
    """Write mined items and scores of three models, a random solver and controls; return the stage's arguments and the items."""
    draw = random.Random(5)
    items: dict[str, list[dict]] = {"t1": [], "t2": [], "t3": []}
    for task, rows in items.items():
        for number in range(n):
            row = {
                "instance_id": f"{task}-{number:04}",
                "trajectory_id": f"web:{number % trajectories:03}",
                "source": "web",
                "domain": f"d{number % 7}",
                "website": None,
                "images": [],
                "goal": None,
                "stream": task,
                "simulated": simulated,
            }
            if task == "t1":
                k = T1_SLICES[number % 3]
                row |= {"slice": f"K={k}", "steps": list(range(k)), "answer": draw.sample(range(1, k + 1), k)}
            elif task == "t2":
                action = "click" if number < round(0.46 * n) else "type" if number < round(0.92 * n) else "select"
                row |= {"slice": action, "step": 0, "answer_action": action, "answer_value": "x", "value_in_goal": False}
            else:
                row |= {
                    "slice": T3_SLICES[number % 3],
                    "step": 0,
                    "answer": "AB"[number % 2],
                    "distractor_trajectory": "z",
                    "distractor_step": 1,
                }
            rows.append(row)
    mined = folder(root, "mined")
    for task, rows in items.items():
        store.write_table(mined, task, rows)
    store.write_table(
        mined, "drops", [{"stage": "mine", "source": "web", "unit": "candidate", "item": "a", "reason": "twin", "detail": None}]
    )
    scored = folder(root, "scores")
    rows = []
    for model, chances in MODELS.items():
        rows += [score for task in items for item in items[task] for score in [answer(draw, model, task, item, chances)]]
        rows += [
            score
            for task in items
            for item in items[task]
            for score in [answer(draw, model, task, item, [c + 0.05 for c in chances], side=1024)]
        ]
    for condition in ("black", "metadata"):
        rows += [answer(draw, "beta-9b", task, item, (0.07, 0.4, 0.0, 0.5), condition) for task in items for item in items[task]]
    rows += [
        answer(draw, "random", task, item, (0.07, 1 / 3, 0.0, 0.5), run=run) for task in items for item in items[task] for run in range(4)
    ]
    store.write_table(scored, "scores", rows)
    predicted = folder(root, "predictions")
    store.write_table(
        predicted,
        "predictions",
        [
            {
                "model": row["model"],
                "condition": row["condition"],
                "max_image_side": row["max_image_side"],
                "run": row["run"],
                "task": row["task"],
                "instance_id": row["instance_id"],
                "raw": "",
                "status": "ok",
                "finish_reason": None,
                "input_tokens": 100,
                "output_tokens": 10,
                "usd": None if row["model"] == "random" else 0.001 * (1 + len(row["model"]) % 5),
                "error": None,
            }
            for row in rows
        ],
    )
    return {
        "mined": [manifest(mined, "mine", {}, item=3 * n)],
        "scores": [manifest(scored, "score", {}, answer=len(rows))],
        "predictions": [manifest(predicted, "infer", {"name": "all"}, answer=len(rows))],
    }, items


def answer(draw: random.Random, model: str, task: str, item: dict, chances, condition: str = "full", side: int = 512, run: int = 0) -> dict:
    """Return one scored answer, drawn."""
    t1, action, value, t3 = chances
    right = draw.random() < {"t1": t1, "t2": action, "t3": t3}[task]
    correct = right and (task != "t2" or item["slice"] == "click" or draw.random() < value)
    given = {
        "t1": json.dumps({"order": item.get("answer") if right else list(range(1, int(item["slice"][2:]) + 1))} if task == "t1" else {}),
        "t2": json.dumps({"action": item["slice"] if right else "click", "value": ""}),
        "t3": json.dumps({"answer": item.get("answer") if right else "A"}),
    }
    return {
        "model": model,
        "condition": condition,
        "max_image_side": side,
        "run": run,
        "task": task,
        "instance_id": item["instance_id"],
        "trajectory_id": item["trajectory_id"],
        "source": item["source"],
        "domain": item["domain"],
        "slice": item["slice"],
        "status": "answered",
        "parse_path": "json",
        "answer": given[task],
        "confidence": None if task == "t1" else round(0.5 + draw.random() / 2, 2),
        "correct": correct,
        "action_correct": right if task == "t2" else None,
        "tau": (1.0 if right else 0.0) if task == "t1" else None,
        "value_in_goal": False if task == "t2" else None,
        "simulated": item["simulated"],
    }


def synthetic_labels() -> list[dict]:
    """Return the made-up label rows that agree with every figure the audit paper prints."""
    with open(PUBLISHED / "synthetic_cua_labels.csv", encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def code(text: str) -> str | None:
    return {"": None, "AMBIG": "ambiguous"}.get(text, text.lower())


def audit(root: Path) -> dict[str, list[str]]:
    """Write the audit's folders from the made-up labels, as if two judges and two groups of people had given them."""
    rows = synthetic_labels()
    place = {row["id"]: row for row in rows}
    sample, judges, labels, final = [], {"gpt": [], "claude": []}, [], []
    for number, row in enumerate(sorted(rows, key=lambda row: row["id"])):
        known = {"trajectory_id": row["id"], "benchmark": row["benchmark"], "agent": f"agent-{number % 3}", "task_id": f"t{number // 2}"}
        sample.append(
            {
                **known,
                "source": "made",
                "experiment": None,
                "domain": None,
                "raw_reward": 0.0,
                "verdict": "fail",
                "order": number,
                "status": "analysed",
                "simulated": True,
            }
        )
        for rater in ("gpt", "claude", "human1", "human2"):
            if not row[rater]:
                continue
            category = code(row.get(f"{rater}_category", "")) if row[rater] == "GF" else None
            if rater.startswith("human") and row[rater] == "GF":
                category = code(row["final_category"])
            label = {
                "trajectory_id": row["id"],
                "annotator": rater,
                "kind": "human" if rater.startswith("human") else "llm",
                "stage": "blind",
                "verdict": row[rater].lower(),
                "category": category,
                "evidence_steps": [],
                "confidence": None,
                "seconds": None,
                "note": None,
                "codebook_version": "1",
                "simulated": True,
            }
            labels.append(label)
            if rater in judges:
                judged = {
                    **label,
                    "judge_id": rater,
                    "status": "ok",
                    "rationale": None,
                    "input_tokens": 2000,
                    "output_tokens": 50,
                    "usd": 0.01,
                }
                judges[rater].append({**judged, "evidence": "screenshots+text"})
                bare = "gf" if row[rater] == "EFN" and number % 2 else judged["verdict"]
                judges[rater].append({**judged, "evidence": "text", "verdict": bare})
        final.append(
            {
                **known,
                "verdict": row["final"].lower(),
                "category": code(row["final_category"]),
                "verdict_rule": "majority",
                "category_rule": None,
                "reviewed": row["reviewed"] == "True",
                "n_raters": 4 if row["reviewed"] == "True" else 2,
                "simulated": True,
            }
        )
    drawn = folder(root, "sample")
    store.write_table(drawn, "sample", sample)
    arguments = {"sample": [manifest(drawn, "sample", {}, trajectory=len(place))], "judgments": []}
    for name, judged in judges.items():
        there = folder(root, f"judge-{name}")
        store.write_table(there, "judgments", judged)
        arguments["judgments"].append(manifest(there, "judge", {"name": name}, trajectory=len(judged)))
    there = folder(root, "final")
    store.write_table(there, "final", final)
    store.write_table(there, "labels", labels)
    store.write_table(there, "drops", [])
    arguments["final"] = [manifest(there, "combine", {}, trajectory=len(final))]
    return arguments


def normalised(
    root: Path,
    name: str,
    trajectories: list[dict],
    *,
    annotations: list[dict] = (),
    truth: list[dict] = (),
    oracles: list[dict] = (),
    times: dict[str, list[float]] | None = None,
    simulated: bool = False,
) -> str:
    """Write a normalised source; missing fields are filled in."""
    there = folder(root, name)
    full = [
        {
            "source": name,
            "kind": "plain",
            "benchmark": None,
            "task_id": None,
            "task_revision": None,
            "agent": None,
            "experiment": None,
            "domain": None,
            "website": None,
            "instruction": None,
            "answer": None,
            "reference": None,
            "n_steps": 3,
            "license": None,
            "simulated": simulated,
            "source_file": "f",
            "source_sha256": "0",
            **row,
        }
        for row in trajectories
    ]
    store.write_table(there, "trajectories", full)
    store.write_table(there, "annotations", list(annotations))
    store.write_table(there, "truth", list(truth))
    store.write_table(
        there,
        "oracle_results",
        [{"oracle": "program", "oracle_version": None, "raw_reward": None, "status": "ok", **row} for row in oracles],
    )
    store.write_table(there, "drops", [])
    steps = [
        {
            "trajectory_id": one,
            "step": step,
            "source_step": None,
            "gap_before": False,
            "op": "click",
            "op_raw": None,
            "value": None,
            "target": None,
            "reasoning": None,
            "url": None,
            "page_text": None,
            "before_image": None,
            "after_image": None,
            "obs_phase": "before",
            "timestamp": time,
            "error": None,
        }
        for one, given in (times or {}).items()
        for step, time in enumerate(given)
    ]
    store.write_table(there, "steps", steps)
    return manifest(there, "normalise", {"source": name, "simulated": simulated}, trajectory=len(full))


def sealed(folder: Path, **changes: object) -> Path:
    """Let a folder's manifest list its files as they are now, with some of its fields changed, and return the folder."""
    path = folder / "manifest.json"
    held = json.loads(path.read_text(encoding="utf-8"))
    files = {name: store.sha256_file(folder / name) for name in held.get("files", {}) if (folder / name).is_file()}
    made = {**held, "files": files, **changes}
    path.write_text(json.dumps({**made, intact.CHECKSUM: intact.checksum(made)}), encoding="utf-8")
    return folder


def command(arguments: dict[str, list[str]], out: Path, settings: dict | None = None, seed: int = 7) -> list[str]:
    """Return the `stats` command line for these folders, whose tables may have been changed since they were made."""
    for path in (one for values in arguments.values() for one in values if one.endswith("manifest.json") and Path(one).is_file()):
        sealed(Path(path).parent)
    listed = [word for name, values in arguments.items() for word in (f"--{name}", *values)]
    return ["stats", "--settings", json.dumps(SETTINGS if settings is None else settings), "--seed", str(seed), *listed, "--out", str(out)]


def simulated_source(root: Path, per_cell: int = 20) -> dict[str, list[str]]:
    """Write a simulated source with released verdicts, times, truths and signals; two benchmarks, three agents."""
    draw = random.Random(11)
    trajectories, truth, oracles, signals, times = [], [], [], [], {}
    kinds = [
        ("t3-noop", "gf", "t3-noop"),
        ("t1-loop", "gf", "t1-loop"),
        ("efn-answer-form", "efn", None),
        ("broken-captcha", "broken", None),
    ]
    for benchmark in ("sim-shop", "sim-forum"):
        for agent, skill in (("agent-a", 0.3), ("agent-b", 0.5), ("agent-c", 0.55)):
            for number in range(per_cell):
                one = f"sim:{benchmark}/{agent}/{number:02}"
                trajectories.append(
                    {"trajectory_id": one, "benchmark": benchmark, "agent": agent, "task_id": f"task-{number}", "domain": "shop"}
                )
                passed = draw.random() < skill
                planted, outcome, category = ("success", "success", None) if passed else kinds[number % len(kinds)]
                truth.append(
                    {
                        "trajectory_id": one,
                        "planted": planted,
                        "outcome": outcome,
                        "category": category,
                        "lookalike": None,
                        "evidence_step": None,
                    }
                )
                oracles.append({"trajectory_id": one, "verdict": "pass" if passed else "fail", "raw_reward": float(passed)})
                times[one] = [10.0 * step * (1 + draw.random()) for step in range(4)]
                fired = {
                    "noop_run": (category == "t3-noop" and draw.random() < 0.9) or draw.random() < 0.05,
                    "cycle": category == "t1-loop",
                    "noop_any": category == "t3-noop" or draw.random() < 0.2,
                    "challenge_page": planted == "broken-captcha",
                }
                signals += [
                    {
                        "trajectory_id": one,
                        "signal": name,
                        "parameter": 3 if name == "noop_run" else 0,
                        "fired": flag,
                        "evidence_steps": [],
                        "detail": None,
                    }
                    for name, flag in fired.items()
                ]
    source = normalised(root, "sim", trajectories, truth=truth, oracles=oracles, times=times, simulated=True)
    there = folder(root, "signals")
    store.write_table(there, "signals", signals)
    store.write_table(there, "noops", [])
    return {"normalised": [source], "signals": [manifest(there, "signals", {}, trajectory=len(trajectories))]}


def simulated_audit(root: Path, per_cell: int = 20) -> dict[str, list[str]]:
    """Write an audit of the simulated source by one judge that is right three times in four."""
    arguments = simulated_source(root, per_cell)
    truth = store.read_rows(root / "sim", "truth")
    known = {row["trajectory_id"]: row for row in store.read_rows(root / "sim", "trajectories")}
    failed = [row for row in truth if row["outcome"] != "success"]
    about = ("source", "benchmark", "agent", "experiment", "task_id", "domain", "simulated")
    sample = [
        {
            "trajectory_id": row["trajectory_id"],
            **{name: known[row["trajectory_id"]][name] for name in about},
            "raw_reward": 0.0,
            "verdict": "fail",
            "order": number,
            "status": "analysed" if number % 3 else "not_drawn",
        }
        for number, row in enumerate(failed)
    ]
    judged, final = [], []
    for number, row in enumerate(failed):
        if number % 3 == 0:
            continue
        right = number % 4 != 0
        verdict, category = (row["outcome"], row["category"]) if right else ("gf", "other")
        judged.append(
            {
                "trajectory_id": row["trajectory_id"],
                "annotator": "rules",
                "kind": "rules",
                "stage": "blind",
                "verdict": verdict,
                "category": category,
                "evidence_steps": [],
                "confidence": None,
                "seconds": None,
                "note": None,
                "codebook_version": "1",
                "simulated": False,
                "judge_id": "r",
                "evidence": "screenshots+text",
                "status": "ok",
                "rationale": None,
                "input_tokens": None,
                "output_tokens": None,
                "usd": None,
            }
        )
        final.append(
            {
                "trajectory_id": row["trajectory_id"],
                **{name: known[row["trajectory_id"]][name] for name in ("benchmark", "agent", "task_id")},
                "verdict": verdict,
                "category": category,
                "verdict_rule": "judges",
                "category_rule": None,
                "reviewed": False,
                "n_raters": 1,
                "simulated": True,
            }
        )
    for name, table, rows in (("sample", "sample", sample), ("judge-rules", "judgments", judged), ("final", "final", final)):
        store.write_table(folder(root, name), table, rows)
    store.write_table(root / "final", "labels", [{name: row[name] for name in store.schema.LABELS.names} for row in judged])
    return {
        **arguments,
        "sample": [manifest(root / "sample", "sample", {}, trajectory=len(sample))],
        "judgments": [manifest(root / "judge-rules", "judge", {"name": "rules"}, trajectory=len(judged))],
        "final": [manifest(root / "final", "combine", {}, trajectory=len(final))],
    }


def rows(folder: Path, name: str) -> list[dict]:
    """Return the rows of one table."""
    return pq.read_table(folder / f"{name}.parquet").to_pylist()


def one(found: list[dict], **where: object) -> dict:
    """Return the one row with these values."""
    chosen = [row for row in found if all(row[name] == value for name, value in where.items())]
    assert len(chosen) == 1, (where, len(chosen))
    return chosen[0]
