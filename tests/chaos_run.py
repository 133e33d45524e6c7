"""A small but whole run with one model and one judge that are asked over the loopback, its jobs one by one or by Snakemake, and faults."""

import json
import multiprocessing
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hearing import hear
from model_server import Call, ModelServer, Reply, good

from evoaudit.__main__ import COMMANDS, main
from evoaudit.intact import CHECKSUM, MANIFEST
from evoaudit.resources import ROOT

CONFIG = """
run: {{name: chaos, seed: 3}}
sources:
  - {{name: sim, kind: simulated, trajectories: 12, formats: [plain]}}
probes:
  t1: {{quota: {{3: 2, 4: 1, 5: 0}}}}
  t2: {{quota: {{click: 2, type: 2, select: 0}}}}
  t3: {{quota: {{cross: 1, same_domain: 1, long_skip: 1}}}}
models:
  - {{name: random, group: baseline, provider: builtin}}
  - {{name: asked, group: open, provider: openai, model: org/asked, base_url: "{url}", concurrency: 2}}
audit:
  calibration: 1
  review: {{agreements: 2, groups: [p1]}}
judges:
  - {{name: rules, provider: builtin}}
  - {{name: heard, provider: openai, model: org/heard, base_url: "{url}", concurrency: 2}}
  - {{name: p1, provider: builtin, model: simulated, role: human, accuracy: 0.9}}
stats: {{bootstrap: 50}}
report: {{max_items: 2}}
"""
#: Requests in flight at most, over all jobs: a model's and a judge's, two each.
IN_FLIGHT = 4
_KNOWN = {"order": [1, 2, 3], "action": "click", "value": "", "answer": "A", "confidence": 0.7}
_VERDICT = {"rationale": "r", "evidence_steps": [0], "verdict": "gf", "category": "t3-noop", "confidence": 0.5}


class Service:
    """What is asked, and how often: the same request gets the same answer."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.server = ModelServer(self._answer)

    @property
    def url(self) -> str:
        return self.server.url("chat")

    def asked(self) -> Counter[str]:
        """Return how often each request arrived."""
        return Counter(json.dumps(call.body, sort_keys=True) for call in list(self.server.calls))

    def _answer(self, call: Call) -> Reply:
        time.sleep(self.seconds)  # so that there is a middle of asking
        return good(call.protocol, json.dumps(_VERDICT if call.body["model"] == "org/heard" else _KNOWN))


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**kept, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def words(folder: Path, url: str, *more: str, cores: int = 2) -> list[str]:
    """Return Snakemake's command line for the run in ``folder``; ``more`` are targets and options."""
    config = folder / "chaos.yaml"
    if not config.is_file():
        config.write_text(CONFIG.format(url=url))
    where = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder), "--cores", str(cores)]
    return [sys.executable, "-m", "snakemake", *more, *where, "--configfile", str(config)]


def snakemake(folder: Path, url: str, *more: str, check: bool = True) -> str:
    """Run the workflow and return what it said."""
    done = subprocess.run(
        words(folder, url, *more), cwd=folder, env=environment(), capture_output=True, text=True, timeout=900, check=False
    )
    assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return done.stdout + done.stderr


@dataclass(frozen=True)
class Job:
    """One subcommand of the workflow, as Snakemake would run it."""

    stage: str
    words: tuple[str, ...]
    #: Its output folder; None where it lays out.
    out: Path | None
    #: Folders of the finished stages it reads.
    reads: tuple[Path, ...]


@dataclass
class Ended:
    """How a job ended."""

    code: int
    said: str


def jobs(folder: Path, url: str, *targets: str) -> list[Job]:
    """Return every job of the run in an order they can be done in."""
    said = snakemake(folder, url, *targets, "--dry-run", "--printshellcmds")
    found = []
    for line in re.findall(r"Shell command: python -m evoaudit (.*)", said):
        plain = re.sub(r"\$\(dirname (\S+)/manifest\.json\)", r"\1", line).split(" 2> ")[0]
        given = shlex.split(plain)
        out = Path(given[given.index("--out") + 1]) if "--out" in given else None
        reads = [Path(word).parent for word in given if Path(word).name == MANIFEST]
        if "--root-folder" in given:
            reads.append(Path(given[given.index("--root-folder") + 1]).parent)
        found.append(Job(given[0], tuple(given), out, tuple(dict.fromkeys(reads))))
    return found


_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(
    ["duckdb", "pyarrow.parquet", "pyarrow.dataset", "scipy.stats", "evoaudit.infer.predict", "evoaudit.audit.judging"]
    + [f"evoaudit.stages.{name}" for name in COMMANDS]
)


def start(folder: Path, job: Job, log: Path, bytes_most: int | None = None) -> multiprocessing.Process:
    """Start a job as a process group of its own, forked from one that has the libraries already."""
    process = _PROCESSES.Process(target=_do, args=(str(folder), list(job.words), str(log), bytes_most))
    process.start()
    return process


def do(folder: Path, job: Job, bytes_most: int | None = None) -> Ended:
    """Do a job to its end; with ``bytes_most`` no file may grow beyond that."""
    log = folder.with_name(f"{folder.name}.log")
    process = start(folder, job, log, bytes_most)
    process.join(120)
    assert process.exitcode is not None, job
    return Ended(process.exitcode, log.read_text(errors="replace"))


def _do(folder: str, given: list[str], log: str, bytes_most: int | None) -> None:
    os.setpgid(0, 0)
    hear()
    os.chdir(folder)
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if bytes_most is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_most, bytes_most))
    sys.exit(main(given))


def kill(folder: Path, job: Job, rng: random.Random, sent: signal.Signals, service: Service) -> tuple[bool, str]:
    """Start a job and send its group a signal at some moment; return whether that was before its end, and what it said."""
    out, log = folder / (job.out or "results/runs/chaos"), folder.with_name(f"{folder.name}.log")
    asked = len(service.server.calls) + 2
    before = set(out.glob("*"))  # an earlier kill may have left something, which says nothing about this job
    wait = rng.uniform(0, 0.02)
    process = start(folder, job, log)
    until = time.monotonic() + 20
    waits = "base_url" in str(job.words)
    while process.is_alive() and time.monotonic() < until:
        if (len(service.server.calls) >= asked) if waits else (out.is_dir() and (job.out is None or set(out.glob("*")) - before)):
            time.sleep(wait)
            break
        time.sleep(0.0005)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, sent)
    process.join(30)
    return process.exitcode != 0, log.read_text(errors="replace")


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[bool]:
    """Mount something at a folder for a while; yield whether that could be done."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        there = subprocess.run(["mount", *options, str(folder)], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        there = False
    try:
        yield there
    finally:
        if there:
            subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)


def flip(path: Path, rng: random.Random) -> None:
    """Change one bit of a file, of a manifest one that matters, and leave its size and times as they were."""
    times, content = path.stat(), path.read_bytes()
    while True:
        at, bit = rng.randrange(len(content)), 1 << rng.randrange(8)
        changed = content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]
        if path.name != MANIFEST or _matters(content, changed):
            break
    path.write_bytes(changed)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _matters(manifest: bytes, changed: bytes) -> bool:
    """Tell whether a manifest still says the same: spaces say nothing, and without the name of its checksum it is an older one."""
    try:
        found = json.loads(changed)
    except ValueError:
        return True
    return CHECKSUM in found and found != json.loads(manifest)


@dataclass
class Whole:
    """A run that nothing disturbed."""

    folder: Path
    jobs: list[Job]
    asked: Counter[str] = field(default_factory=Counter)

    def copy(self, to: Path) -> Path:
        """Copy the run, as it was finished."""
        shutil.copytree(self.folder, to, symlinks=True)
        return to

    def same(self, folder: Path, said: Callable[[], str]) -> None:
        """Check that another folder holds the same results, nothing damaged and nothing left over."""
        said()
        assert main(["verify", "--results", str(folder / "results")]) == 0, said()
        assert main(["verify", "--results", str(folder / "results"), "--against", str(self.folder / "results")]) == 0, said()
        assert not [path for path in folder.rglob(".*partial*") if ".snakemake" not in path.parts]


def started(folder: Path, url: str, *targets: str) -> subprocess.Popen:
    """Start the workflow as a process group of its own."""
    with open(folder.with_name(f"{folder.name}.log"), "ab") as log:
        return subprocess.Popen(
            words(folder, url, *targets), cwd=folder, env=environment(), stdout=log, stderr=log, start_new_session=True, preexec_fn=hear
        )


def running(folder: Path) -> set[str]:
    """Return the stages of which a job is at work, or was when everything was killed."""
    found = {path.parent.parent.name for path in folder.glob("results/*/*/.partial-*")}
    asking = {path.parent.parent.name for path in folder.glob("results/*/*/journal.jsonl") if not (path.parent / MANIFEST).exists()}
    return found | asking | ({"publish"} if list(folder.glob("results/runs/*/.*partial")) else set())


def unlocked(folder: Path) -> None:
    """Take away the lock of a Snakemake that was killed, as `snakemake --unlock` does."""
    shutil.rmtree(folder / ".snakemake" / "locks", ignore_errors=True)
