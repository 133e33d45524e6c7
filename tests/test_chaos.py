"""After any fault, the next start ends in the results of a run that nothing disturbed, with nothing lost and nothing paid for twice."""

import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import chaos_run
import pytest
from chaos_run import Ended, Job, Service, Whole

from evoaudit.intact import MANIFEST


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    service = Service(0.01)
    yield service
    service.server.close()


@pytest.fixture
def said(capsys):
    return lambda: "".join(capsys.readouterr())


@pytest.fixture(scope="module")
def whole(service, tmp_path_factory) -> Whole:
    """A run without figures and report, undisturbed, its jobs one after another."""
    folder = tmp_path_factory.mktemp("whole")
    run = Whole(folder, chaos_run.jobs(folder, service.url, "tables", "review"))
    for job in run.jobs:
        ended = chaos_run.do(folder, job)
        assert ended.code == 0, (job, ended.said)
    run.asked = service.asked()
    assert set(run.asked.values()) == {1}
    return run


def planned(folder: Path, whole: Whole) -> Path:
    """Make a folder in which nothing is done yet."""
    folder.mkdir()
    shutil.copytree(whole.folder / "results" / ".plans", folder / "results" / ".plans")
    return folder


def plain(ended: Ended, stage: str) -> bool:
    """Tell whether a job ended by saying why, in its last line and without a traceback."""
    return ended.code == 2 and "Traceback" not in ended.said and ended.said.splitlines()[-1].startswith(f"evoaudit {stage}: ")


def unfinished(folder: Path, job: Job) -> bool:
    """Tell whether a job left nothing that could be taken for its results."""
    return job.out is None or not ((folder / job.out / MANIFEST).exists() or list((folder / job.out).glob(".partial-*")))


def asks(job: Job) -> bool:
    """Tell whether a job asks a service."""
    return "base_url" in str(job.words)


class Pass:
    """The jobs of a run, done one after another in a folder of their own, each after every fault that can meet it."""

    def __init__(self, whole: Whole, service: Service, folder: Path) -> None:
        self.whole, self.service, self.folder = whole, service, folder
        self.rng = random.Random(7)
        self.met: dict[str, set[str]] = {}
        #: Times that a job which asks was stopped, so that up to two requests in flight were asked for nothing.
        self.cut = 0
        #: Files that a bit was flipped in, by stage and ending.
        self.flipped: set[tuple[str, str]] = set()
        #: Stages that were done again after damage.
        self.remade: set[str] = set()
        self.kinds: set[tuple[str, bool]] = set()
        #: Which stage refused damage of which.
        self.pairs: set[tuple[str, str]] = set()

    def first(self, job: Job) -> bool:
        """Tell whether no job like this one was met yet; one that asks is like no other."""
        kind = (job.stage, asks(job))
        return kind not in self.kinds and not self.kinds.add(kind)

    def meet(self, fault: str, job: Job) -> None:
        self.met.setdefault(fault, set()).add(job.stage)
        self.cut += asks(job) and fault in ("killed", "interrupted", "disk full")

    def stopped(self, job: Job, sent: signal.Signals, fault: str) -> None:
        for _ in range(5):
            hit, told = chaos_run.kill(self.folder, job, self.rng, sent, self.service)
            assert "Traceback" not in told, (job, told)
            if hit:
                self.meet(fault, job)
                assert sent != signal.SIGINT or told.splitlines()[-1] == f"evoaudit {job.stage}: interrupted; run it again", (job, told)
                assert sent == signal.SIGKILL or unfinished(self.folder, job), job
                assert job.out is None or not (self.folder / job.out / MANIFEST).exists(), job
                return
            self.undo(job)  # the signal came too late

    def undo(self, job: Job) -> None:
        """Let a job have something to do."""
        if job.out is None:
            shutil.rmtree(self.folder / "results" / "runs", ignore_errors=True)
        else:
            (self.folder / job.out / MANIFEST).unlink(missing_ok=True)

    def full(self, job: Job) -> None:
        self.undo(job)
        ended = chaos_run.do(self.folder, job, bytes_most=600)
        assert plain(ended, job.stage) and "too large" in ended.said and unfinished(self.folder, job), (job, ended)
        self.meet("disk full", job)

    def read_only(self, job: Job) -> None:
        self.undo(job)
        place = self.folder / (job.out or "results/runs")
        place.mkdir(parents=True, exist_ok=True)
        with chaos_run.mounted(place, "--bind", str(place)) as there:
            if there and subprocess.run(["mount", "-o", "remount,ro,bind", str(place)], capture_output=True, check=False).returncode == 0:
                ended = chaos_run.do(self.folder, job)
                assert plain(ended, job.stage) and "read-only" in ended.said.lower(), (job, ended)
                self.meet("read-only", job)

    def damaged(self, job: Job) -> None:
        """Damage one file of each stage the job reads, which it must refuse; the first time that stage is done again, else put back."""
        for read in job.reads:
            if (pair := (job.stage, read.parent.name)) in self.pairs:
                continue
            self.pairs.add(pair)
            stage, folder = read.parent.name, self.folder / read
            files = sorted(path for path in folder.rglob("*") if path.is_file() and read_by(job, path.relative_to(self.folder)))
            path = self.rng.choice([path for path in files if (stage, path.suffix) not in self.flipped] or files)
            content = path.read_bytes()
            if lost := path.name != MANIFEST and self.rng.random() < 0.2:
                path.unlink()
            else:
                chaos_run.flip(path, self.rng)
                self.flipped.add((stage, path.suffix))
            ended = chaos_run.do(self.folder, job)
            assert plain(ended, job.stage) and str(read) in ended.said and "run again" in ended.said, (job, path, ended)
            assert unfinished(self.folder, job) and not (folder / MANIFEST).exists(), (job, path)
            self.meet("lost" if lost else "flipped", job)
            if stage in self.remade:
                path.write_bytes(content)
                shutil.copyfile(self.whole.folder / read / MANIFEST, folder / MANIFEST)
            else:
                self.remade.add(stage)
                assert chaos_run.do(self.folder, next(one for one in self.whole.jobs if one.out == read)).code == 0
            for aside in folder.rglob("*.damaged"):
                aside.unlink()


def read_by(job: Job, path: Path) -> bool:
    """Tell whether a file of an earlier stage is among those a job checks before it reads them."""
    if path.parts[1] == "simulate":  # of a corpus, the files of one source
        inside = [word for word in job.words if word.startswith("results/simulate/")]
        return any(str(path) == word or str(path).startswith(f"{word}/") for word in inside) or path.name == "files.sha256"
    return path.name not in ("journal.jsonl", "batches.jsonl")


def test_every_stage_meets_every_fault_and_the_run_ends_in_the_same_bytes(whole, service, tmp_path, said):
    before = service.asked()
    run = Pass(whole, service, planned(tmp_path / "disturbed", whole))
    for number, job in enumerate(whole.jobs):
        run.damaged(job)
        if run.first(job):
            run.stopped(job, signal.SIGKILL, "killed")
            if number % 2:
                run.stopped(job, signal.SIGINT, "interrupted")
            run.full(job)
            run.read_only(job)
        ended = chaos_run.do(run.folder, job)
        assert ended.code == 0, (job, ended)
    whole.same(run.folder, said)
    stages = {job.stage for job in whole.jobs}
    assert run.met["killed"] == run.met["disk full"] == stages
    assert run.met["flipped"] == {job.stage for job in whole.jobs if job.reads}
    assert {".parquet", ".json", ".png", ".jsonl"} <= {ending for _, ending in run.flipped}
    paid = service.asked() - before
    assert paid.keys() == whole.asked.keys() and paid.total() - len(paid) <= 2 * run.cut
