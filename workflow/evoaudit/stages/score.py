"""``evoaudit score``: parse and score every model's answers."""

import argparse
from pathlib import Path

from evoaudit.conditions import CONDITIONS, TASKS
from evoaudit.errors import InputError
from evoaudit.stages import common

_COLUMNS = ("instance_id", "trajectory_id", "source", "domain", "slice", "simulated", "images")
_ANSWERS = {"t1": ("answer",), "t2": ("answer_action", "answer_value", "value_in_goal"), "t3": ("answer",)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``score``."""
    common.arguments(parser)
    parser.add_argument("--mined", required=True, metavar="MANIFEST", help="the probes")
    parser.add_argument("--predictions", nargs="*", default=[], metavar="MANIFEST", help="the answers, one manifest a model and condition")


def run(args: argparse.Namespace) -> int | None:
    """Write ``scores.parquet``: every instance of every task for every model, condition, side and replicate."""
    from evoaudit import store
    from evoaudit.probes.vocabulary import vocabulary_of
    from evoaudit.score import rows

    mined = common.folder_of(args.mined)
    probes = {task: store.read_table(mined, task, [*_COLUMNS, *_ANSWERS[task]]).to_pylist() for task in TASKS}
    known = {(task, probe["instance_id"]) for task in TASKS for probe in probes[task]}
    (places, made_up), words = _places(args.predictions), vocabulary_of(mined)
    with common.stage(args, "score", "prediction") as (folder, counts), store.TableWriter(folder, "scores") as writer:
        for (name, condition, side, run), folder_of_answers in sorted(places.items()):
            answers: dict[tuple[str, str], dict] = {}
            for row in store.read_rows(folder_of_answers, "predictions", ["run", "task", "instance_id", "raw", "status"]):
                if row["run"] != run:
                    continue
                identity = (row["task"], row["instance_id"])
                if identity in known:
                    answers[identity] = row
                    counts.keep("prediction")
                else:
                    counts.drop("prediction", name, "/".join(identity), "unknown_instance", "the probes hold no such instance")
            asked = {task: probes[task] for task in CONDITIONS[condition].tasks}
            identity = {"model": name, "condition": condition, "max_image_side": side, "run": run}
            writer.extend(rows(identity, asked, answers, words, name in made_up))
    return None


def _places(manifests: list[str]) -> tuple[dict[tuple[str, str, int, int], Path], set[str]]:
    """Map (model, condition, side, replicate) to the folder that holds its answers; return also which models are made up."""
    from evoaudit.store import read_manifest

    places, made_up = {}, set()
    for manifest in manifests:
        folder = common.folder_of(manifest)
        config = read_manifest(folder)["config"]
        if (config.get("provider"), config.get("model")) == ("builtin", "simulated"):
            made_up.add(config["name"])
        for run in range(int(config.get("runs", 1))):
            identity = (config["name"], config["condition"], config["max_image_side"], run)
            if identity[1] not in CONDITIONS:
                raise InputError(folder, f"condition '{identity[1]}' is unknown", "ask the model again")
            if identity in places:
                raise InputError(folder, f"'{identity[0]}' under '{identity[1]}' at {identity[2]} pixels is given twice", "give each once")
            places[identity] = folder
    return places, made_up
