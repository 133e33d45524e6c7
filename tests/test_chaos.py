"""After any fault, the next start ends in the results of a run that nothing disturbed, with nothing lost and nothing paid for twice."""

import random
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import chaos_run
import pytest
from chaos_run import IN_FLIGHT, Service, Whole

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


def one_line(said: str, stage: str) -> bool:
    """Tell whether a job said why it ended, in its last line, and gave no traceback."""
    return "Traceback" not in said and "Exception ignored" not in said and said.splitlines()[-1].startswith(f"evoaudit {stage}: ")


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_job_of_every_stage_that_is_stopped_goes_on_to_the_same_bytes(whole, service, tmp_path, said, sent):
    rng, folder, before = random.Random(sent.name), planned(tmp_path / "stopped", whole), service.asked()
    stopped, missed = Counter(), []
    for job in whole.jobs:
        for _ in range(5):
            hit, told = chaos_run.kill(folder, job, rng, sent, service)
            if hit:
                stopped[job.stage] += 1
                assert sent != signal.SIGINT or told.splitlines()[-1] == f"evoaudit {job.stage}: interrupted; run it again", told
                assert "Traceback" not in told
                assert job.out is None or not (folder / job.out / MANIFEST).exists()
                break
        else:
            missed.append(job.stage)
        ended = chaos_run.do(folder, job)
        assert ended.code == 0, ended.said
    whole.same(folder, said)
    assert not set(missed) - stopped.keys(), missed
    paid = service.asked() - before
    assert paid.keys() == whole.asked.keys() and paid.total() - len(paid) <= IN_FLIGHT * 2
