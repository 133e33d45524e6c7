"""A small run of probes with every kind of answer, for the tests of the instance browser."""

import io
import json
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from PIL import Image

from evoaudit import prompts, store
from evoaudit.conditions import CONDITIONS
from evoaudit.infer.base import Request, prompt_digest
from evoaudit.report.items import ItemSet
from evoaudit.score import rows as scored

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> ' \" \\ \\' javascript:alert(3) \u2028\u2029 </script> \u202ekcab"
#: A model whose name is hostile; right wherever the item's number is even.
EVEN = f"even {HOSTILE}"
MODELS = ("all-but-three", EVEN, "babbler", "mute", "random")
OTHERS = ("black", "metadata", "shuffled_images", "after_only")
NUMBERS = {"t1": 4, "t2": 4, "t3": 6}


def png(number: int, size: tuple[int, int] = (96, 60)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, (40 + 37 * number % 200, 90, 200 - 11 * number % 180)).save(out, "PNG")
    return out.getvalue()


def items(prefix: str = "") -> dict[str, list[dict]]:
    """Return four items of T1, four of T2 and six of T3; the hostile one is T3's number 4, and T2's number 2 has no goal."""
    made: dict[str, list[dict]] = {"t1": [], "t2": [], "t3": []}
    for task, n_items in NUMBERS.items():
        for n in range(n_items):
            hostile = (task, n) == ("t3", 4)
            row = {
                "instance_id": f"{task}-{prefix}{n}" + (f"#&={HOSTILE}" if hostile else ""),
                "trajectory_id": f"{prefix}web:{HOSTILE if hostile else n % 3}",
                "source": "web",
                "domain": HOSTILE if hostile else ("shop", "forum")[n % 2],
                "website": None,
                "images": [f"{prefix}{task}-{n}-{k}" for k in range({"t1": 3, "t2": 2, "t3": 3}[task])],
                "goal": HOSTILE if hostile else None if (task, n) == ("t2", 2) else f"Buy the {('red', 'blue')[n % 2]} kettle, number {n}",
                "stream": "s",
                "simulated": True,
            }
            if task == "t1":
                row |= {"slice": "K=3", "steps": [2, 0, 1], "answer": [2, 3, 1]}
            elif task == "t2":
                row |= {"slice": "type", "step": n, "answer_action": "type", "answer_value": "red kettle", "value_in_goal": False}
            else:
                row |= {"slice": "long_skip" if n < 2 else "cross", "step": n, "answer": "AB"[n % 2]}
                row |= {"distractor_trajectory": row["trajectory_id"] if n < 2 else "web:far", "distractor_step": n + 7}
            made[task].append(row)
    return made


def answer(model: str, task: str, n: int, item: dict) -> tuple[str, str | None]:
    """Return status and raw answer."""
    right = {"t1": {"order": [2, 3, 1]}, "t2": {"action": "type", "value": "red kettle"}}
    wrong = {"t1": {"order": [1, 2, 3]}, "t2": {"action": "type", "value": "blue kettle"}}
    if task == "t3":
        right["t3"] = {"answer": item["answer"], "confidence": 0.75}
        wrong["t3"] = {"answer": "BA"["AB".index(item["answer"])]}
    if model == "mute":
        return "refused", None
    if model == "babbler" and n:
        return "ok", f"no idea {HOSTILE}\n\nreally"
    good = {"all-but-three": n != 3, EVEN: n % 2 == 0, "babbler": True, "random": False}[model]
    return "ok", json.dumps((right if good else wrong)[task])


def write(
    root: Path,
    models: Iterable[str] = MODELS,
    *,
    prefix: str = "",
    name: str = "",
    conditions: Iterable[str] = OTHERS,
    shuffled: bool = False,
    said: Callable[[str, str, int, dict], tuple[str, str | None]] = answer,
) -> ItemSet:
    """Write one set with its pictures, scores and answers; ``shuffled`` writes every table in another order of rows."""
    made, draw = items(prefix), random.Random(4)

    def order(rows: Iterable[dict]) -> list[dict]:
        listed = list(rows)
        if shuffled:
            draw.shuffle(listed)
        return listed

    folders = {one: root / one for one in ("mined", "images", "scores")}
    for folder in folders.values():
        folder.mkdir(parents=True)
    for task, rows in made.items():
        store.write_table(folders["mined"], task, order(rows))
    store.write_table(folders["mined"], "drops", [])
    shots = sorted({image for rows in made.values() for row in rows for image in row["images"]})
    what = {"max_image_side": 512, "width": 96, "height": 60, "format": "PNG", "resampling": "none"}
    # Two screens are the same picture, one is none, and one was never prepared.
    data = {shot: png(place // 2 if place < 2 else place) for place, shot in enumerate(shots)}
    data[f"{prefix}t3-2-1"] = b"no picture"
    del data[f"{prefix}t3-3-2"]
    store.write_table(folders["images"], "prepared", [{"image_id": shot, **what, "data": raw} for shot, raw in sorted(data.items())])
    models, predictions = list(models), []
    asked = [(model, "full") for model in models] + [(models[0], condition) for condition in conditions if models]
    with store.TableWriter(folders["scores"], "scores") as writer:
        every: list[dict] = []
        for place, (model, condition) in enumerate(sorted(asked)):
            predictions.append(root / f"infer-{place}")
            predictions[-1].mkdir()
            rows = []
            for run in range(2 if model == "random" else 1):
                answers = {}
                for task in CONDITIONS[condition].tasks:
                    for n, item in enumerate(made[task]):
                        status, raw = said(model, task, n, item)
                        row = _row(model, condition, run, task, item, made)
                        answers[task, item["instance_id"]] = {**row, "status": status, "raw": raw}
                identity = {"model": model, "condition": condition, "max_image_side": 512, "run": run}
                every += scored(identity, {task: made[task] for task in CONDITIONS[condition].tasks}, answers, simulated=True)
                rows += answers.values()
            store.write_table(predictions[-1], "predictions", order(rows))
            made_up = {"provider": "builtin", "model": "simulated"} if model == EVEN else {}
            config = {**made_up, "name": model, "condition": condition, "goal": "shown", "max_image_side": 512}
            manifest(predictions[-1], "infer", f"i{place}", config, mine=[f"{prefix}mine"])
        writer.extend(order(every))
    if not models:
        return ItemSet(name, folders["mined"], folders["images"])
    return ItemSet(name, folders["mined"], folders["images"], folders["scores"], tuple(predictions))


def _row(model: str, condition: str, run: int, task: str, item: dict, made: Mapping[str, list[dict]]) -> dict:
    blank = dict.fromkeys(store.schema.TABLES["predictions"].names)
    rows = made[task]
    donor = rows[(rows.index(item) + 1) % len(rows)] if condition == "shuffled_images" else None
    messages = prompts.render(prompts.shipped()[task], item, condition=condition, donor=donor)
    # What one model was sent under one condition is not what the prompt files say today.
    sent = "0" * 64 if condition == "black" else prompt_digest(Request(task, item["instance_id"], run, messages))
    row = {"model": model, "condition": condition, "max_image_side": 512, "run": run, "task": task, "instance_id": item["instance_id"]}
    return {**blank, **row, "pictures_of": donor and donor["instance_id"], "prompt": None if model == "random" else sent}


def manifest(folder: Path, stage: str, key: str, config: dict, **upstream: list[str]) -> str:
    counts = {"unit": "row", "read": 1, "kept": 1, "dropped": {}, "others": {}}
    store.write_manifest(folder, stage=stage, key=key, format_version=1, seed=1, config=config, upstream=upstream, counts=counts)
    return str(folder / "manifest.json")


def stats(root: Path) -> Path:
    """Write what the browser reads of the statistics: which models understand nothing."""
    folder = root / "stats"
    folder.mkdir(parents=True)
    manifest(folder, "stats", "s", {"models": [{"name": "random", "group": "baseline"}, {"name": "mute", "group": "open"}]})
    return folder
