"""Logs with known licences and planted secrets, and an export of probes mined from them by hand."""

import json
from pathlib import Path

import numpy as np
from made_logs import Logs, painted
from PIL import Image, ImageDraw

from evoaudit import prepare, schema, store
from evoaudit.__main__ import main


def written(text: str, number: int = 0, width: int = 640, height: int = 360) -> np.ndarray:
    """Return a screen with a line of text on it, one line a row; no other looks like it."""
    picture = Image.new("RGB", (width, height), (250, 250, 250))
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, height - 24, 24 + 8 * (number % 70), height), fill=(40, 90, 160))
    for line, words in enumerate(text.split("\n")):
        draw.text((30, 40 + 40 * line), words, fill=(20, 20, 20), font_size=22)
    return np.asarray(picture).copy()


def source(name: str = "web", licence: str | None = "CC-BY-4.0", n: int = 2, typed: dict | None = None, screens: dict | None = None, **row):
    """Return logs of ``n`` trajectories of three steps: a click, something typed, a click.

    ``typed`` maps a trajectory's number to (element, value); ``screens`` to the text on its last screen.
    """
    logs = Logs(name)
    for i in range(n):
        names = [f"{name}-{i}-{k}" for k in range(4)]
        for k, one in enumerate(names):
            told = (screens or {}).get(i) if k == 3 else None
            logs.pixels[one] = painted(hash_of(one)) if told is None else written(told, i)
        element, value = (typed or {}).get(i, ("[searchbox] Search", f"blue kettle {i}"))
        steps = [{}, {"op": "type", "value": value, "target": target(element)}, {}]
        logs.add(f"{name}:{i}", names, steps, license=licence, **row)
    return logs


def hash_of(name: str) -> int:
    return sum(ord(letter) * 31**place for place, letter in enumerate(name)) % 2**31


def target(text: str) -> dict:
    return dict.fromkeys(field.name for field in schema.TARGET) | {"text": text}


def mined(folder: Path, sources: list[Logs], vocabulary: tuple[str, ...] = ("click", "type", "select")) -> Path:
    """Write one item of each task for every trajectory, and return the folder."""
    folder.mkdir(parents=True)
    rows: dict[str, list[dict]] = {"t1": [], "t2": [], "t3": []}
    everything = [(logs, row) for logs in sources for row in logs.trajectories]
    for place, (logs, row) in enumerate(everything):
        name = row["trajectory_id"]
        steps = [step for step in logs.steps if step["trajectory_id"] == name]
        screens = [steps[0]["before_image"], *(step["after_image"] for step in steps)]
        shared = {"trajectory_id": name, "source": logs.source, "domain": row["domain"], "website": row["website"]}
        shared |= {"goal": row["instruction"], "stream": "s", "simulated": row["simulated"]}
        rows["t1"].append(
            {**shared, "instance_id": f"t1-{place:03}", "images": [screens[k] for k in (2, 0, 3)], "slice": "K=3", "steps": [2, 0, 3]}
            | {"answer": [2, 1, 3]}
        )
        rows["t2"].append(
            {**shared, "instance_id": f"t2-{place:03}", "images": screens[1:3], "slice": "type", "step": 1, "answer_action": "type"}
            | {"answer_value": steps[1]["value"], "value_in_goal": False}
        )
        other_logs, other = everything[(place + 1) % len(everything)]
        wrong = next(step["after_image"] for step in other_logs.steps if step["trajectory_id"] == other["trajectory_id"])
        rows["t3"].append(
            {**shared, "instance_id": f"t3-{place:03}", "images": [screens[2], screens[3], wrong], "slice": "cross", "step": 2}
            | {"answer": "A", "distractor_trajectory": other["trajectory_id"], "distractor_step": 0}
        )
    for task, found in rows.items():
        store.write_table(folder, task, found)
    (folder / "quotas.json").write_text(json.dumps({"vocabulary": vocabulary}))
    return folder


def arguments(root: Path, *sources: Logs, side: int = 512, sets: dict[str, Logs] | None = None, leaving: list | None = None, **settings):
    """Write everything an export reads, and return its command line; ``sets`` are logs of further sets, ``leaving`` those that leave."""
    settings |= {} if leaving is None else {"sets": leaving}
    paper = list(sources)
    sources = (*sources, *(sets or {}).values())
    folders = {logs.source: logs.write(root / "sources") for logs in sources}
    images = root / "images"
    images.mkdir()
    normalised = [folder for folder, _ in folders.values()]
    roots = {name: place for name, (_, place) in folders.items()}
    prepare.write(images, prepare.find(normalised, roots, [logs.id(name) for logs in sources for name in logs.used]), side)
    words = ["export", "--settings", json.dumps(settings), "--images", str(images)]
    words += ["--mined", str(mined(root / "mined", paper))] if paper else []
    rest = {"seed": None, "format_version": 1, "counts": {}}
    for name, logs in (sets or {}).items():
        folder = mined(root / f"mined-{name}", [logs], ("click", "type", "long_press"))
        store.write_manifest(folder, stage="mine", key=f"key-{name}", config={"set": name}, upstream={}, **rest)
    if sets:
        store.write_manifest(images, stage="images", key="p", config={}, upstream={"mine": [f"key-{name}" for name in sets]}, **rest)
        words += ["--sets", *(str(root / f"mined-{name}") for name in sets), "--set-images", str(images)]
    words += ["--normalised", *map(str, normalised), "--root", *(f"{name}={place}" for name, place in roots.items())]
    return [*words, "--read", str(root / "read"), "--out", str(root / "out")]


def export(root: Path, *sources: Logs, **settings) -> Path:
    """Export, which must succeed, and return the folder."""
    root.mkdir(exist_ok=True)
    assert main(arguments(root, *sources, **settings)) == 0
    return root / "out"
