"""A whole paper from one command: every model asked every probe over the loopback, the audit with two served judges, and what it takes.

    python benchmarks/full_run.py [--models 28] [--items 3000] [--trajectories 5000] [--audited 158] [--conditions full] [--work FOLDER]
    python benchmarks/full_run.py --growth            a tenth of it first, then all of it, and how each stage grows
    python benchmarks/full_run.py --dag 28 280 1000   the graph alone, with so many models and no data

The models are those of `config/models.yaml`, under names that say they are made up, each with its own protocol and with the conditions
that it has there (the shortcut controls of EvoGUI's Table 8 were asked of one). `full_run_server.py` answers for all of them and for the
judges. The corpora are simulated: one in the formats of Mind2Web and WebLINX for the probes, one of AgentRewardBench and OSWorld for the
audit, with the paper's quotas, both judges with and without screenshots, and two simulated people.

The workflow runs as a user runs it, on two cores, in a folder of its own below ``--work``; what is finished there is not done again. Each
process leaves its own measurements (`observe/`). Afterwards the run is started once more, which must do nothing and ask nothing, and dry
runs say what a change would do again. ``report.json`` holds all figures; the command fails if a bound is missed.
"""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from normalise_and_mine import slope

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
SEED, SIZE, TRAJECTORIES, AUDITED = 20260717, 3000, 5000, 158
#: EvoGUI's Table 1 and the audit's §4.1.
PROBES = {
    "t1": {3: 334, 4: 333, 5: 333},
    "t2": {"click": 461, "type": 461, "select": 78},
    "t3": {"cross": 334, "same_domain": 333, "long_skip": 333},
}
AUDIT = {"sim-webarena": 25, "sim-workarena": 25, "sim-visualwebarena": 24, "sim-assistantbench": 24, "sim-osworld": 60}
#: The simulated logs have four agents where the paper has three, so that each gives fewer.
AGENTS, CALIBRATION = 4, 8
#: Bounds: growth of a stage, seconds of the processor that a start with nothing to do takes, most MiB of one process.
LIMIT_EXPONENT, LIMIT_AGAIN, LIMIT_MIB = 1.1, 10.0, 2048.0
#: Below so many seconds of the processor a stage is mostly the start of its process, and its growth says nothing.
SLIGHT = 3.0


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    models: int = 28
    items: int = SIZE
    trajectories: int = TRAJECTORIES
    audited: int = AUDITED
    conditions: tuple[str, ...] = ("full",)

    @property
    def name(self) -> str:
        return "-".join(map(str, (self.models, self.items, self.trajectories, self.audited, *self.conditions)))

    def tenth(self) -> "Size":
        """Return a tenth of the items and trajectories, for as many models."""
        fewer = (max(n // 10, 1) for n in (self.items, self.trajectories, self.audited))
        return Size(self.models, *fewer, self.conditions)


def shares(quotas: dict[Any, int], share: float) -> dict[Any, int]:
    """Return quotas scaled, with the rounding so dealt that their sum is right; none is empty."""
    found, owed = {}, 0.0
    for name, quota in quotas.items():
        owed += quota * share
        found[name] = max(round(owed), 1)
        owed -= found[name]
    return found


def entries(size: Size, port: int) -> list[dict[str, Any]]:
    """Return the models: those of the paper's list, over and over, with every address turned to the loopback."""
    listed = [one for one in yaml.safe_load((ROOT / "config" / "models.yaml").read_text()) if one["group"] != "baseline"]
    kept = ("group", "provider", "family", "parameters_b", "osworld", "temperature")
    found = []
    for number in range(size.models):
        one = listed[number % len(listed)]
        name = f"made-up-{one['name']}" + (f"-{number // len(listed)}" if number >= len(listed) else "")
        controls = one.get("conditions", ()) if number < len(listed) else ()
        address = f"http://127.0.0.1:{port}" + ("/v1" if one["provider"] == "openai" else "")
        asked = {"name": name, "base_url": address, "conditions": list(dict.fromkeys((*size.conditions, *controls)))}
        found.append({**{field: one[field] for field in kept if field in one}, **asked})
    return found


def config_of(size: Size, port: int) -> dict[str, Any]:
    """Return the run's config."""
    share, fewer = size.items / SIZE, size.audited / AUDITED
    models = entries(size, port)
    quotas: dict[str, Any] = shares(AUDIT, fewer)
    quotas["sim-osworld"] = {"per_agent": max(round(quotas["sim-osworld"] / AGENTS), 1)}
    judge = {"evidence": ["screenshots", "text"], "ablation": True}
    judges = {"openai": f"http://127.0.0.1:{port}/v1", "anthropic": f"http://127.0.0.1:{port}"}
    named = [f"made-up-judge-{provider}" for provider in judges]
    price = {"input": 1.0, "output": 10.0, "date": "2026-01-01", "source": "made up"}
    return {
        "run": {"name": "full", "seed": SEED},
        "sources": [
            {"name": "sim", "kind": "simulated", "trajectories": size.trajectories, "formats": ["mind2web", "weblinx"]},
            {"name": "logs", "kind": "simulated", "trajectories": max(round(800 * fewer), 40), "formats": ["agentrewardbench", "osworld"]},
        ],
        "probes": {"sources": ["sim-mind2web", "sim-weblinx"], **{task: {"quota": shares(q, share)} for task, q in PROBES.items()}},
        "inference": {"prices": "prices.yaml"},
        "models": [
            *({"name": name, "group": "baseline", "provider": "builtin"} for name in ("random", "majority")),
            {"name": "image-similarity", "group": "baseline", "provider": "builtin", "conditions": ["full", "shuffled_images"]},
            *models,
        ],
        "audit": {
            "quotas": quotas,
            "calibration": round(CALIBRATION * fewer),
            "review": {"agreements": max(round(30 * fewer), 1), "groups": ["human-1", "human-2"]},
        },
        "judges": [
            *({"name": f"made-up-judge-{one}", "provider": one, "base_url": at, **judge} for one, at in judges.items()),
            {"name": "unanimous", "ensemble": named},
            *({"name": f"human-{n}", "provider": "builtin", "model": "simulated", "role": "human", "accuracy": 0.93} for n in (1, 2)),
        ],
        "prices": {"models": dict.fromkeys((*(one["name"] for one in models), *named), price)},
    }


def write(folder: Path, config: dict[str, Any], name: str = "config.yaml") -> None:
    """Write a config and, beside it, its prices."""
    config = dict(config)
    (folder / "prices.yaml").write_text(json.dumps(config.pop("prices")))
    (folder / name).write_text(json.dumps(config, indent=1))


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """Start the server for a run's folder and yield its port, the same one as last time where that is free."""
    note = folder / "port"
    port = int(note.read_text()) if note.is_file() else 0
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            port = 0
    words = [sys.executable, str(HERE / "full_run_server.py"), "--results", str(folder / "results"), "--port", str(port)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = int(process.stdout.readline())
        note.write_text(str(port))
        yield port
    finally:
        process.stdin.close()
        process.wait()


def asked(port: int) -> dict[str, int]:
    """Return how often each model was asked."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/asked", timeout=60) as reply:
        return json.load(reply)


@dataclass
class Call:
    """One call of Snakemake: seconds, seconds of the processor with all it started, its own peak and what it printed."""

    seconds: float
    processor: float
    peak: float
    text: str

    def jobs(self) -> dict[str, int]:
        """Return how many jobs of each rule it named before it began."""
        table = re.search(r"Job stats:\njob +count\n-+ +-+\n(.*?)\ntotal", self.text, re.DOTALL)
        return {name: int(count) for name, count in (line.split() for line in table[1].splitlines())} if table else {}


def snakemake(folder: Path, *words: str, config: str = "config.yaml", cores: int = 2, observe: bool = False) -> Call:
    """Run the workflow in a folder as a user does."""
    path = [str(HERE / "observe"), str(ROOT / "workflow"), *filter(None, [os.environ.get("PYTHONPATH")])]
    observed = folder / ("observed.jsonl" if observe else "observed-otherwise.jsonl")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "EVOAUDIT_OBSERVED": str(observed)}
    command = [sys.executable, "-m", "snakemake", *words, "-s", str(ROOT / "Snakefile"), "--directory", str(folder)]
    command += ["--cores", str(cores), "--configfile", str(folder / config)]
    start = time.perf_counter()
    with open(folder / "snakemake.txt", "w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        log.seek(0)
        text = log.read()
    if process.returncode:
        sys.exit(f"snakemake {' '.join(words)} failed:\n{text[-4000:]}")
    own = [line for line in lines(observed) if line["stage"] == "snakemake"]
    return Call(seconds, usage.ru_utime + usage.ru_stime, max((line["peak"] for line in own[-1:]), default=0.0), text)


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines that processes left."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def weigh(folder: Path) -> tuple[int, float, int]:
    """Return files, MiB and the most files of one folder, below a folder."""
    files, size, most = 0, 0, 0
    for _, _, names in os.walk(folder):
        files, most = files + len(names), max(most, len(names))
    for top, _, names in os.walk(folder):
        size += sum(os.lstat(os.path.join(top, name)).st_size for name in names)
    return files, size / 2**20, most


def stages(folder: Path) -> dict[str, dict[str, float]]:
    """Return for each stage: jobs, seconds of all and from the first to the last, processor, peak, and what lies in its folder."""
    last = {(line["stage"], line["key"]): line for line in lines(folder / "observed.jsonl") if line["key"]}
    found: dict[str, list[dict]] = defaultdict(list)
    for (stage, _), line in last.items():
        found[stage].append(line)
    table = {}
    for stage, all_of in sorted(found.items(), key=lambda pair: min(line["began"] for line in pair[1])):
        files, size, most = weigh(folder / "results" / stage)
        table[stage] = {
            "jobs": len(all_of),
            "seconds": sum(line["seconds"] for line in all_of),
            "span": max(line["began"] + line["seconds"] for line in all_of) - min(line["began"] for line in all_of),
            "processor": sum(line["own"] + line["workers"] for line in all_of),
            "peak": max(max(line["peak"], line["worker_peak"]) for line in all_of),
            "files": files,
            "mib": size,
            "most_in_a_folder": most,
        }
    return table


def changes(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return configs that differ in one thing each, by what differs."""

    def changed(**parts: Any) -> dict[str, Any]:
        return {**config, **parts}

    models, sources = config["models"], config["sources"]
    added = {**models[-1], "name": "made-up-one-more"}
    renamed = {**models[-1], "model": "made-up-successor"}
    fewer = [{**sources[0]}, {**sources[1], "trajectories": sources[1]["trajectories"] - 1}]
    return {
        "one model more": changed(models=[*models, added]),
        "one model changed": changed(models=[*models[:-1], renamed]),
        "one model less": changed(models=models[:-1]),
        "one model asked faster": changed(models=[*models[:-1], {**models[-1], "concurrency": 3}]),
        "the goal withheld from every prompt": changed(inference={**config["inference"], "goal": "withheld"}),
        "one log less in the audit's source": changed(sources=fewer),
        "one quota of the probes": changed(probes={**config["probes"], "t3": {"quota": {"cross": 1}}}),
        "the tie rule of the labels": changed(audit={**config["audit"], "tie": "judges"}),
        "the report's title": changed(report={"title": "Another"}),
    }


def run(size: Size, work: Path, target: str = "all", cores: int = 2, try_changes: bool = True) -> dict[str, Any]:
    """Run one size and return its figures."""
    folder = work / size.name
    folder.mkdir(parents=True, exist_ok=True)
    with served(folder) as port:
        config = config_of(size, port)
        write(folder, config)
        begun = (folder / "results").exists()
        cold = snakemake(folder, target, "-n", cores=cores)
        whole = snakemake(folder, target, cores=cores, observe=True)
        requests = asked(port)
        again = snakemake(folder, target, cores=cores)
        repeated = sum(asked(port).values()) - sum(requests.values())
        would = {}
        for name, other in changes(config).items() if try_changes else ():
            write(folder, other, "changed.yaml")
            dry = snakemake(folder, target, "-n", config="changed.yaml", cores=cores)
            would[name] = {"jobs": dry.jobs(), "processor": dry.processor}
        write(folder, config)
    files, mib, most = weigh(folder / "results")
    kept_files, kept_mib, _ = weigh(folder / ".snakemake")
    report = {
        "size": {"models": size.models, "items": size.items, "trajectories": size.trajectories, "audited": size.audited},
        "resumed": begun,
        "requests": sum(requests.values()),
        "seconds": whole.seconds,
        "processor": whole.processor,
        "snakemake_peak": whole.peak,
        "cold": {"seconds": cold.seconds, "processor": cold.processor, "peak": cold.peak, "jobs": sum(cold.jobs().values())},
        "again": {
            **{"seconds": again.seconds, "processor": again.processor, "peak": again.peak, "asked": repeated},
            "jobs": sum(again.jobs().values()),
        },
        "changes": would,
        "stages": stages(folder),
        "results": {"files": files, "mib": mib, "most_in_a_folder": most},
        "snakemake": {"files": kept_files, "mib": kept_mib},
        "accuracies": accuracies(folder),
    }
    kept = folder / "report.json"
    if begun and kept.is_file():
        # What took the time was measured then.
        before = json.loads(kept.read_text())
        names = ("resumed", "requests", "seconds", "processor", "snakemake_peak", "cold")
        report |= {name: before[name] for name in names}
    kept.write_text(json.dumps(report, indent=1))
    return report


def accuracies(folder: Path) -> dict[str, list[float]]:
    """Return the share of right answers by model and condition, of T1, T2 and T3."""
    import pyarrow.parquet as pq

    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for path in folder.glob("results/score/*/scores.parquet"):
        for batch in pq.ParquetFile(path).iter_batches(columns=["model", "condition", "task", "correct"]):
            for (model, condition, task, correct), n in Counter(zip(*(c.to_pylist() for c in batch.columns), strict=True)).items():
                cell = found[f"{model}/{condition}"][task]
                cell[0] += n * correct
                cell[1] += n
    return {name: [round(right / n, 4) for _, (right, n) in sorted(tasks.items())] for name, tasks in sorted(found.items())}


def show(report: dict[str, Any]) -> list[str]:
    """Print one run's figures and return the bounds it missed."""
    size = report["size"]
    print(f"\n{size['models']} models × {size['items']:,} items, {report['requests']:,} requests, {size['trajectories']:,} trajectories")
    print("\n| stage | jobs | all jobs, s | first to last, s | processor, s | peak, MiB | files | MiB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, one in report["stages"].items():
        times = f"{one['seconds']:.1f} | {one['span']:.1f} | {one['processor']:.1f} | {one['peak']:.0f}"
        print(f"| {name} | {one['jobs']} | {times} | {one['files']:,} | {one['mib']:.1f} |")
    resumed = " (resumed: not all of it)" if report["resumed"] else ""
    print(f"\nIn all {report['seconds']:.0f} s, {report['processor']:.0f} s of the processor{resumed}; ", end="")
    print(f"Snakemake itself {report['snakemake_peak']:.0f} MiB.")
    kept = f"{report['results']['files']:,} files, {report['results']['mib']:.0f} MiB; .snakemake {report['snakemake']['files']:,} files"
    print(f"Results: {kept}, {report['snakemake']['mib']:.1f} MiB; at most {report['results']['most_in_a_folder']:,} files in one folder.")
    for name, words in (("cold", "Dry run before anything was there"), ("again", "Second start")):
        one = report[name]
        print(f"{words}: {one['seconds']:.1f} s, {one['processor']:.1f} s of the processor, {one['peak']:.0f} MiB.")
    print("\n| changed | jobs | of them |\n| --- | ---: | --- |" if report["changes"] else "")
    for name, one in report["changes"].items():
        jobs = {rule: n for rule, n in one["jobs"].items() if rule != "all"}
        print(f"| {name} | {sum(jobs.values())} | {', '.join(f'{n} {rule}' for rule, n in sorted(jobs.items())) or 'none'} |")
    missed = [f"{name}: {one['peak']:.0f} MiB" for name, one in report["stages"].items() if one["peak"] > LIMIT_MIB]
    if report["again"]["jobs"] != 1 or report["again"]["asked"]:
        missed.append(f"a second start did {report['again']['jobs']} jobs and asked {report['again']['asked']} times")
    if report["again"]["processor"] > LIMIT_AGAIN:
        missed.append(f"a second start took {report['again']['processor']:.1f} s of the processor")
    return missed


def growth(small: dict[str, Any], large: dict[str, Any]) -> list[str]:
    """Print how each stage grows with the number of items and trajectories and return which grow too fast."""
    sizes = [small["size"]["items"], large["size"]["items"]]
    print(f"\n| stage | processor, s, at {sizes[0]:,} items | at {sizes[1]:,} | exponent | peak, MiB | peak, MiB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    missed = []
    for name, one in large["stages"].items():
        before = small["stages"][name]
        exponent = slope([(sizes[0], before["processor"]), (sizes[1], one["processor"])])
        print(
            f"| {name} | {before['processor']:.1f} | {one['processor']:.1f} | {exponent:.2f} | {before['peak']:.0f} | {one['peak']:.0f} |"
        )
        if exponent > LIMIT_EXPONENT and one["processor"] > SLIGHT:
            missed.append(f"{name} grows by {exponent:.2f}")
    return missed


def dag(counts: list[int], work: Path) -> list[str]:
    """Print what the graph of a config with so many models takes, without any data, and return what grows too fast."""
    print("\n| models | jobs | dry run, processor, s | wall, s | peak, MiB |\n| ---: | ---: | ---: | ---: | ---: |", flush=True)
    points = []
    for count in counts:
        folder = work / f"dag-{count}"
        folder.mkdir(parents=True, exist_ok=True)
        write(folder, config_of(Size(count), 30000))
        dry = snakemake(folder, "-n")
        points.append((count, dry.processor))
        print(f"| {count:,} | {sum(dry.jobs().values()):,} | {dry.processor:.1f} | {dry.seconds:.1f} | {dry.peak:.0f} |", flush=True)
    exponent = slope(points) if len(points) > 1 else 0.0
    print(f"\nGrowth exponent {exponent:.2f} (limit {LIMIT_EXPONENT}).")
    return [f"the graph grows by {exponent:.2f}"] if exponent > LIMIT_EXPONENT else []


def main() -> None:
    """Run what was asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=28)
    parser.add_argument("--items", type=int, default=SIZE, help="probes in all")
    parser.add_argument("--trajectories", type=int, help="of the corpus that probes are mined from (default: five for three items)")
    parser.add_argument("--audited", type=int, default=AUDITED, help="trajectories drawn for the audit, those for calibration included")
    parser.add_argument("--conditions", nargs="+", default=["full"], help="asked of every model")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--target", default="all", help="what of the run is made")
    parser.add_argument("--no-changes", action="store_true", help="leave out what changes would do again")
    parser.add_argument("--growth", action="store_true", help="run a tenth of the size first")
    parser.add_argument("--dag", type=int, nargs="+", metavar="MODELS", help="time the graph alone")
    parser.add_argument("--work", type=Path, default=Path(".benchmark-work"))
    args = parser.parse_args()
    args.work = args.work.resolve()
    trajectories = args.trajectories or -(-args.items * TRAJECTORIES // SIZE)
    size = Size(args.models, args.items, trajectories, args.audited, tuple(args.conditions))
    if args.dag:
        missed = dag(args.dag, args.work)
    else:
        reports, missed = [], []
        for one in (size.tenth(), size) if args.growth else (size,):
            reports.append(run(one, args.work, args.target, args.cores, not args.no_changes))
            missed += show(reports[-1])
        missed += growth(*reports) if args.growth else []
    if missed:
        sys.exit("\n" + "\n".join(missed))


if __name__ == "__main__":
    main()
