"""After any fault, the next start ends in the results of a run that nothing disturbed, with nothing lost and nothing paid for twice."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import chaos_run
import pytest
from chaos_run import IN_FLIGHT, Ended, Job, Service, Whole

from evoaudit.__main__ import main
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
    assert run.met["flipped"] | run.met["lost"] == {job.stage for job in whole.jobs if job.reads}
    assert {".parquet", ".json", ".png"} <= {ending for _, ending in run.flipped}
    paid = service.asked() - before
    assert paid.keys() == whole.asked.keys() and paid.total() - len(paid) <= 2 * run.cut


def test_two_jobs_on_one_journal_ask_once(whole, service, tmp_path, said, monkeypatch):
    monkeypatch.setattr(service, "seconds", 0.4)
    job = next(job for job in whole.jobs if asks(job))
    folder, before = whole.copy(tmp_path / "twice"), service.asked()
    shutil.rmtree(folder / job.out)
    first = chaos_run.start(folder, job, tmp_path / "first.log")
    until = time.monotonic() + 30
    while service.asked() == before and time.monotonic() < until:
        time.sleep(0.001)
    second = chaos_run.do(folder, job)
    first.join(60)
    assert first.exitcode == 0 and plain(second, job.stage) and "journal.jsonl: is being written by another run" in second.said
    whole.same(folder, said)
    assert set((service.asked() - before).values()) == {1}


STAGES = {"simulate", "normalise", "mine", "pairs", "images", "infer", "score", "sample", "signals", "judge", "select", "replay"} | {
    "combine",
    "stats",
    "tables",
    "figures",
    "report",
    "export",
}
TARGETS = ("all", "review", "export")


@pytest.fixture(scope="module")
def slow_service() -> Iterator[Service]:
    service = Service(0.1)
    yield service
    service.server.close()


@pytest.fixture(scope="module")
def finished(slow_service, tmp_path_factory) -> Whole:
    """A whole run by Snakemake, undisturbed."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    folder.mkdir()
    chaos_run.snakemake(folder, slow_service.url, *TARGETS)
    asked = slow_service.asked()
    assert set(asked.values()) == {1}
    return Whole(folder, [], asked)


def paid_once(finished: Whole, service: Service, before: Counter[str], stops: int) -> None:
    """Check that each request was asked, and none again but for what was in flight when a run was stopped."""
    paid = service.asked() - before
    assert paid.keys() == finished.asked.keys()
    assert paid.total() - len(paid) <= IN_FLIGHT * stops, paid.total() - len(paid)


def no_traceback(folder: Path) -> None:
    told = [path for path in folder.glob("results/logs/**/*.log") if "Traceback" in path.read_text(errors="replace")]
    assert not told, told[0].read_text()


@pytest.mark.slow
def test_a_run_that_is_killed_in_every_stage_ends_in_the_same_bytes(finished, slow_service, tmp_path, said):
    rng, folder, before = random.Random(11), tmp_path / "killed", slow_service.asked()
    folder.mkdir()
    hit: set[str] = set()
    kills = starts = 0
    while STAGES - hit and starts < 60:
        starts += 1
        process = chaos_run.started(folder, slow_service.url, *TARGETS)
        while process.poll() is None and not chaos_run.running(folder) - hit:
            time.sleep(0.002)
        if process.poll() is not None:  # what was too quick to be hit is to be done again
            for stage in STAGES - hit:
                for manifest in folder.glob(f"results/{stage}/*/{MANIFEST}"):
                    manifest.unlink()
            continue
        time.sleep(rng.uniform(0, 0.05))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
        hit |= chaos_run.running(folder)
        chaos_run.unlocked(folder)
    chaos_run.snakemake(folder, slow_service.url, *TARGETS)
    print(f"{starts} starts, {kills} kills, stages hit: {', '.join(sorted(hit))}")
    shown = said()
    finished.same(folder, said)
    paid_once(finished, slow_service, before, kills)
    no_traceback(folder)
    assert hit >= STAGES, (STAGES - hit, shown)


@pytest.mark.slow
def test_two_at_once_ctrl_c_sigterm_and_a_job_without_memory_end_in_the_same_bytes(finished, slow_service, tmp_path, said):
    folder, before = tmp_path / "disturbed", slow_service.asked()
    folder.mkdir()

    def until(stage: str, process: subprocess.Popen) -> None:
        while process.poll() is None and stage not in chaos_run.running(folder):
            time.sleep(0.005)
        assert process.poll() is None, stage

    log = folder.with_name(f"{folder.name}.log")
    first = chaos_run.started(folder, slow_service.url, *TARGETS)
    until("normalise", first)
    os.killpg(first.pid, signal.SIGSTOP)
    refused = chaos_run.snakemake(folder, slow_service.url, *TARGETS, check=False)
    os.killpg(first.pid, signal.SIGCONT)
    assert "Directory cannot be locked" in refused and "Traceback" not in refused, refused
    until("infer", first)
    time.sleep(0.3)
    os.killpg(first.pid, signal.SIGINT)
    assert first.wait(60) == 1

    second = chaos_run.started(folder, slow_service.url, *TARGETS)
    until("stats", second)
    second.send_signal(signal.SIGTERM)  # waits for what runs, and starts nothing more
    assert second.wait(120) != 0

    third = chaos_run.started(folder, slow_service.url, *TARGETS)
    until("figures", third)
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = entry.read_bytes().split(b"\0")
            if b"figures" in line[:5] and str(folder).encode() == os.fsencode(os.readlink(entry.parent / "cwd")) and b"-m" in line:
                os.kill(int(entry.parent.name), signal.SIGKILL)
    assert third.wait(120) == 1
    assert "evoaudit: a job was killed, most likely because memory ran out" in log.read_text(errors="replace")
    chaos_run.snakemake(folder, slow_service.url, *TARGETS)
    finished.same(folder, said)
    paid_once(finished, slow_service, before, 1)
    no_traceback(folder)


@pytest.mark.slow
def test_a_disk_that_fills_up_costs_no_result(finished, slow_service, tmp_path, said):
    folder, before = tmp_path / "small", slow_service.asked()
    size = sum(path.stat().st_size for path in finished.folder.rglob("*") if path.is_file())
    stops = 0
    with chaos_run.mounted(folder, "-t", "tmpfs", "-o", "size=1m", "tmpfs") as there:
        if not there:
            pytest.skip("only root can mount a small disk")
        for share in (0.15, 0.5, 0.75, 0.9):
            subprocess.run(["mount", "-o", f"remount,size={int(size * share)}", str(folder)], check=True)
            told = chaos_run.snakemake(folder, slow_service.url, *TARGETS, check=False)
            stops += "No space left on device" in told
            chaos_run.unlocked(folder)
        subprocess.run(["mount", "-o", f"remount,size={size * 3}", str(folder)], check=True)
        chaos_run.snakemake(folder, slow_service.url, *TARGETS)
        assert stops >= 2
        finished.same(folder, said)
        paid_once(finished, slow_service, before, stops)
        no_traceback(folder)


@pytest.mark.slow
def test_no_clock_makes_finished_work_run_again_or_unfinished_work_believed(finished, slow_service, tmp_path, said):
    rng, folder, before = random.Random(5), finished.copy(tmp_path / "clocks"), slow_service.asked()
    for path in sorted((folder / "results").rglob("*")):
        os.utime(path, (at := rng.choice([1, 315532800, 4102444800]) + rng.randrange(10**6), at))
    assert "1 of 1 steps" in chaos_run.snakemake(folder, slow_service.url, "all")
    for stage in ("mine", "score", "stats"):  # as a kill leaves a folder, with times far ahead
        (place := next(folder.glob(f"results/{stage}/*/{MANIFEST}"))).unlink()
        for path in place.parent.iterdir():
            path.write_bytes(b"half")
            os.utime(path, (4102444800, 4102444800))
    chaos_run.snakemake(folder, slow_service.url, *TARGETS)
    finished.same(folder, said)
    assert slow_service.asked() == before


@pytest.mark.slow
def test_a_clock_that_jumps_between_starts_changes_no_byte(finished, slow_service, tmp_path, said, monkeypatch):
    if shutil.which("faketime") is None:
        pytest.skip("faketime is not installed")
    folder, before = tmp_path / "jumps", slow_service.asked()
    folder.mkdir()
    monkeypatch.setenv("DONT_FAKE_MONOTONIC", "1")
    real = chaos_run.words
    for jump, targets in (("+700d", ("sample", "probes")), ("-900d", ("audit", "evogui")), ("+30d", TARGETS)):
        monkeypatch.setattr(chaos_run, "words", lambda *given, jump=jump, **more: ["faketime", "-f", jump, *real(*given, **more)])
        chaos_run.snakemake(folder, slow_service.url, *targets)
    finished.same(folder, said)
    assert slow_service.asked() - before == finished.asked


@pytest.mark.slow
def test_damage_in_every_stage_is_found_set_aside_and_made_anew(finished, slow_service, tmp_path, said):
    rng, folder, before = random.Random(3), finished.copy(tmp_path / "damaged"), slow_service.asked()
    hurt = set()
    for place in sorted(folder.glob("results/*/*")):
        if place.parent.name in STAGES:
            files = [path for path in sorted(place.rglob("*")) if path.is_file() and path.name not in ("journal.jsonl", MANIFEST)]
            chaos_run.flip(path := rng.choice(files), rng)
            hurt.add(path.relative_to(folder).as_posix())
    chaos_run.flip(next(folder.glob(f"results/sample/*/{MANIFEST}")), rng)
    next(folder.glob("results/mine/*/t2.parquet")).unlink()
    chaos_run.flip(next(folder.glob("results/judge/*/journal.jsonl")), rng)
    said()
    assert main(["verify", "--results", str(folder / "results"), "--mend"]) == 1
    told = said()
    assert not [name for name in hurt if f"{name}: " not in told and "/sample/" not in name]
    chaos_run.snakemake(folder, slow_service.url, *TARGETS)
    for aside in folder.rglob("*.damaged"):
        aside.unlink()
    finished.same(folder, said)
    assert (slow_service.asked() - before).total() <= 1  # the answer whose record was damaged
