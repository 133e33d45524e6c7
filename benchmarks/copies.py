"""How scoring, statistics, tables, figures and report grow, from copies of a finished full run's probes and answers.

    python benchmarks/copies.py RUN [--items 1 10 100] [--models 1 10] [--work FOLDER]

RUN is a folder that `full_run.py` has finished. Its mined probes and its answers are written so many times over, each copy under names of
its own: with ``--items`` instances and their trajectories, with ``--models`` models. The late stages then run over them, each a process
of its own; everything else (the audit, the pictures, the normalised sources) is the finished run's. Nothing is mined or asked, so the
stages before have their growth in other benchmarks. Fails if a stage's processor time grows by more than 1.1 or takes more than 2 GiB.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from full_run import LIMIT_EXPONENT, LIMIT_MIB, SLIGHT
from normalise_and_mine import slope
from stage import measure

from evoaudit import config as configs
from evoaudit import plan as plans
from evoaudit import store

STAGES = ("score", "stats", "tables", "figures", "report")
NAMES = ("instance_id", "trajectory_id")


def renamed(batch: pa.RecordBatch, copy: int, names: tuple[str, ...] = NAMES) -> pa.RecordBatch:
    """Return a batch whose names are those of a copy; the first copy keeps them."""
    if not copy:
        return batch
    columns = [
        pc.binary_join_element_wise(column, f"copy-{copy}", "-") if name in names else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def times_over(path: Path, out: Path, items: int, model: str | None = None) -> None:
    """Write a table so many times over, its model under another name if one is given."""
    with pq.ParquetFile(path) as file, pq.ParquetWriter(out, file.schema_arrow, compression="zstd") as writer:
        for copy in range(items):
            for batch in file.iter_batches(batch_size=8192):
                batch = renamed(batch, copy)
                if model is not None:
                    place = batch.schema.get_field_index("model")
                    batch = batch.set_column(place, batch.schema.field(place), pa.array([model] * len(batch), pa.string()))
                writer.write_batch(batch)


def manifest(folder: Path, original: Path, items: int, **config: str) -> str:
    """Write the manifest of copied tables and return its path."""
    before = store.read_manifest(original)

    def more(counts: dict) -> dict:
        grown = {name: counts[name] * items for name in ("read", "kept")}
        return {**counts, **grown, "dropped": {reason: n * items for reason, n in counts["dropped"].items()}}

    counts = {**more(before["counts"]), "others": {unit: more(one) for unit, one in before["counts"]["others"].items()}}
    same = {name: before[name] for name in ("stage", "key", "format_version", "seed", "upstream")}
    store.write_manifest(folder, **same, config={**before["config"], **config}, counts=counts)
    return str(folder / "manifest.json")


def copied(run: Path, plan: plans.Plan, items: int, models: int, out: Path) -> dict[str, list[str]]:
    """Write the copies and return their manifests as the late stages name them."""
    (mined,) = plan.of("mine")
    original, folder = run / "results" / "mine" / mined.key, out / "mined"
    folder.mkdir(parents=True)
    for task in ("t1", "t2", "t3"):
        times_over(original / f"{task}.parquet", folder / f"{task}.parquet", items)
    for name in ("drops.parquet", "quotas.json"):
        (folder / name).write_bytes((original / name).read_bytes())
    given = {"mined": [manifest(folder, original, items)], "predictions": []}
    for job in plan.of("infer"):
        original = run / "results" / "infer" / job.key
        for copy in range(models if job.settings["provider"] != "builtin" else 1):
            name = job.settings["name"] + (f"-copy-{copy}" if copy else "")
            folder = out / "infer" / f"{job.key}-{copy}"
            folder.mkdir(parents=True)
            times_over(original / "predictions.parquet", folder / "predictions.parquet", items, name)
            given["predictions"].append(manifest(folder, original, items, name=name))
    return given


def commands(run: Path, plan: plans.Plan, given: dict[str, list[str]], models: int, out: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each late stage's command, in order."""

    def finished(*jobs: plans.Job) -> list[str]:
        return [str(run / "results" / job.stage / job.key / "manifest.json") for job in jobs]

    (stats,), (report,) = plan.of("stats"), plan.of("report")
    listed = stats.settings["models"]
    grown = [
        {**one, "name": one["name"] + (f"-copy-{copy}" if copy else "")}
        for one in listed
        for copy in range(models if one["provider"] != "builtin" else 1)
    ]
    settings = {"stats": {**stats.settings, "models": grown}, "report": report.settings}
    kept = {"sample": "sample", "signals": "signals", "judgments": "judge", "review": "select", "final": "combine"}
    audit = [word for name, stage in kept.items() for word in (f"--{name}", *finished(*stats.upstream[stage]))]
    data = ["--mined", *given["mined"], "--predictions", *given["predictions"]]
    done = {stage: str(out / stage / "manifest.json") for stage in STAGES}
    normalised = ["--normalised", *finished(*stats.upstream["normalise"])]
    ends = {
        "score": data,
        "stats": [*normalised, "--controls", *finished(*stats.upstream["control"]), *data, "--scores", done["score"], *audit],
        "tables": ["--stats", done["stats"]],
        "figures": ["--stats", done["stats"]],
        "report": [
            *(word for stage in ("stats", "tables", "figures") for word in (f"--{stage}", done[stage])),
            *("--images", *finished(*report.upstream["images"]), *normalised, *data, "--scores", done["score"], *audit),
            *("--root", *(f"{name}={run / place}" for name, place in sorted(plan.roots().items()))),
        ],
    }
    for stage, words in ends.items():
        text = json.dumps(settings.get(stage, {}))
        if len(text) > plans.LONGEST_WORD:
            (out / f"{stage}.json").write_text(text)
            text = f"@{out / f'{stage}.json'}"
        yield stage, [stage, "--settings", text, "--seed", "1", *words, "--out", str(out / stage)]


def main() -> None:
    """Measure every size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of a finished full run")
    parser.add_argument("--items", type=int, nargs="+", default=[1, 10, 100], help="copies of every probe")
    parser.add_argument("--models", type=int, nargs="+", default=[1, 10], help="copies of every model")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, help="stages to run")
    parser.add_argument("--work", type=Path, default=Path(".benchmark-work"))
    args = parser.parse_args()
    run, work = args.run.resolve(), args.work.resolve()
    os.chdir(run)
    plan = plans.build(configs.load(Path("config.yaml")))
    found: dict[tuple[int, int], dict[str, tuple[float, float, float]]] = {}
    sizes = [(items, min(args.models)) for items in args.items]
    sizes += [(min(args.items), models) for models in args.models if (min(args.items), models) not in sizes]
    print("| items × | models × | stage | s | processor, s | peak, MiB |\n| ---: | ---: | --- | ---: | ---: | ---: |", flush=True)
    for items, models in sizes:
        out = work / f"{run.name}-copies-{items}-{models}"
        if not (out / "mined").exists():
            given = copied(run, plan, items, models, out)
            (out / "given.json").write_text(json.dumps(given))
        given = json.loads((out / "given.json").read_text())
        found[items, models] = {}
        for stage, words in commands(run, plan, given, models, out):
            if stage not in args.stages:
                continue
            found[items, models][stage] = seconds, processor, peak = measure(*words)
            print(f"| {items} | {models} | {stage} | {seconds:.1f} | {processor:.1f} | {peak:.0f} |", flush=True)
    missed = []
    for axis, name in ((0, "items"), (1, "models")):
        line = [size for size in found if size[1 - axis] == min(one[1 - axis] for one in found)]
        if len(line) < 2:
            continue
        print(f"\n| stage | growth with {name} | between the two largest |\n| --- | ---: | ---: |")
        for stage in args.stages:
            points = [(size[axis], found[size][stage][1]) for size in sorted(line)]
            print(f"| {stage} | {slope(points):.2f} | {slope(points[-2:]):.2f} |")
            if slope(points[-2:]) > LIMIT_EXPONENT and points[-1][1] > SLIGHT:
                missed.append(f"{stage} grows by {slope(points[-2:]):.2f} with {name}")
    missed += [f"{stage}: {one[2]:.0f} MiB" for rows in found.values() for stage, one in rows.items() if one[2] > LIMIT_MIB]
    if missed:
        sys.exit("\n" + "\n".join(missed))


if __name__ == "__main__":
    main()
