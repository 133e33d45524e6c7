"""The gate to an account: storms of rate limits, allowances a minute, and what jobs of one machine share."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_infer import CANARY, GOOD, command, fault, reply, run, serve, settings_for, t3, write_probes

from evoaudit import store
from evoaudit.infer import gate

__all__ = ["serve"]


@pytest.fixture
def gates(tmp_path, monkeypatch):
    """Gates in a folder of the test's own."""
    monkeypatch.setattr(gate, "folder", lambda: tmp_path / "gates")
    return tmp_path / "gates"


class Bucket:
    """A service that takes ``rate`` requests a second, and ``burst`` at once."""

    def __init__(self, rate: float, burst: int, retry_after: float, latency: float = 0.0) -> None:
        self.rate, self.burst, self.retry_after, self.latency = rate, burst, retry_after, latency
        self.tokens, self.at, self.refused = float(burst), time.monotonic(), 0
        self.first = self.last = 0.0
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Tell whether one more request is taken now."""
        with self._lock:
            now = time.monotonic()
            self.tokens = min(self.burst, self.tokens + (now - self.at) * self.rate)
            self.first, self.at, self.last = self.first or now, now, now
            taken = self.tokens >= 1
            self.tokens -= taken
            self.refused += not taken
        return taken

    def longer(self, n: int) -> float:
        """Return how much longer n requests took, from the first call to the last, than they had to."""
        return (self.last - self.first) / ((n - self.burst) / self.rate)

    def __call__(self, body: dict, n: int) -> tuple:
        if not self.take():
            return 429, {"Retry-After": f"{self.retry_after:g}"}, fault("rate_limit_exceeded")
        time.sleep(self.latency)
        return 200, {}, reply(GOOD)


def test_a_short_storm_loses_nothing_and_costs_little(serve, tmp_path):
    """How long that may take, the tests on made clocks and the long storm say."""
    bucket = Bucket(20, 5, 1)
    settings = settings_for(serve(bucket), concurrency=32, retries=6, condition="metadata")
    rows = run(settings, t3(*(f"i-{i:03}" for i in range(100))), tmp_path)
    assert [row["status"] for row in rows] == ["ok"] * 100
    assert bucket.refused <= 15, bucket.refused


def simulate(bucket: tuple[float, int], wait: float, n: int, jobs: int = 1, seed: int = 0) -> tuple[int, float]:
    """Send n requests through gates on a made clock; return the refusals, and how much longer it took than it had to."""
    rate, burst = bucket
    clock = [1000.0]
    draw = random.Random(seed)
    paces = [gate.Pace("made", lambda: clock[0]) for _ in range(jobs)]
    held, at, refused = float(burst), clock[0], 0
    left, due = n, [[] for _ in range(jobs)]
    ready = [n // jobs + (job < n % jobs) for job in range(jobs)]
    nap = [0.0] * jobs
    while left:
        progress = False
        for job, pace in enumerate(paces):
            back = [when for when in due[job] if when <= clock[0]]
            due[job] = [when for when in due[job] if when > clock[0]]
            ready[job] += len(back)
            if not ready[job] or nap[job] > clock[0]:
                continue
            now, pause = pace.admit()
            if pause:
                nap[job] = clock[0] + pause + draw.random() * 0.001
                continue
            progress = True
            ready[job] -= 1
            clock[0] += 0.0005
            held, at = min(burst, held + (clock[0] - at) * rate), clock[0]
            if held >= 1:
                held, left = held - 1, left - 1
            else:
                refused += 1
                pace.refused(now, wait)
                due[job].append(clock[0] + wait)
        if not progress:
            clock[0] += 0.001
    for pace in paces:
        pace.close()
    return refused, (clock[0] - 1000) / ((n - burst) / rate)


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize(("bucket", "wait"), [((20, 5), 1.0), ((20, 20), 1.0), ((50, 10), 1.0)])
def test_the_gate_finds_what_a_service_takes_however_many_jobs_ask(gates, bucket, wait, jobs):
    refused, longer = simulate(bucket, wait, 300, jobs)
    assert refused <= 15 and longer <= 1.15, (refused, longer)


def test_a_long_wait_shuts_the_gate_for_every_job_of_the_account_and_for_no_other(gates):
    clock = [500.0]
    ours, theirs, other = (gate.Pace(name, lambda: clock[0]) for name in ("a|KEY", "a|KEY", "b|KEY"))
    sent, _ = ours.admit()
    ours.refused(sent, 30)
    assert theirs.admit()[1] == pytest.approx(30, abs=0.01) and other.admit()[1] == 0
    clock[0] += 31
    assert theirs.admit()[1] == 0


def test_a_refusal_of_what_is_sent_at_the_lowered_pace_shuts_the_gate(gates):
    clock = [500.0]
    pace = gate.Pace("a", lambda: clock[0])
    pace.refused(pace.admit()[0], 1.0)
    clock[0] += pace.admit()[1]
    pace.refused(pace.admit()[0], 1.0)
    assert pace.admit()[1] >= 1.0


def test_a_gate_outlives_its_holders_and_forgets_what_makes_no_sense(gates):
    code = (
        "import os,signal,sys,pathlib\nfrom evoaudit.infer import gate\n"
        "gate.folder = lambda: pathlib.Path(sys.argv[1])\npace = gate.Pace('a')\npace.refused(pace.admit()[0], 60)\n"
        "with pace._shared.held():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(gates)], check=False).returncode == -signal.SIGKILL
    assert 50 < gate.Pace("a").admit()[1] <= 60
    (file,) = gates.iterdir()
    whole = file.read_bytes()
    for damage in (b"", b"x" * 7, os.urandom(400), whole[:-1] + bytes([whole[-1] ^ 1])):
        file.write_bytes(damage)
        assert gate.Pace("a").admit()[1] == 0
    assert gate.Pace("a", lambda: time.monotonic() + 3600).admit()[1] == 0


def test_a_folder_that_is_not_ours_is_not_used(gates, tmp_path):
    (tmp_path / "else").mkdir()
    gates.symlink_to(tmp_path / "else")
    pace = gate.Pace("a")
    pace.refused(pace.admit()[0], 60)
    assert pace.admit()[1] > 50 and gate.Pace("a").admit()[1] == 0
    assert not list((tmp_path / "else").iterdir())


def test_an_account_is_a_host_and_the_name_of_a_key_and_never_the_key():
    assert gate.account("https://h.example/v1", "openai", "KEY") == gate.account("https://h.example/v2", "openai", "KEY")
    names = {gate.account(*one) for one in [("http://h:1/v1", "openai", "K"), ("http://h:2/v1", "openai", "K"), (None, "openai", "K")]}
    assert len(names) == 3 and "pw" not in gate.account("http://user:pw@h/v1", "openai", "K")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rpm=st.one_of(st.none(), st.integers(1, 600)),
    tpm=st.one_of(st.none(), st.integers(1000, 60_000)),
    tokens=st.lists(st.integers(1, 900), min_size=1, max_size=30),
)
@example(rpm=1, tpm=None, tokens=[1])
@example(rpm=2, tpm=None, tokens=[1])
@example(rpm=13, tpm=None, tokens=[1])
@example(rpm=13, tpm=1000, tokens=[1, 111, 83])
def test_no_minute_holds_more_than_is_granted_and_no_time_is_wasted(monkeypatch, rpm, tpm, tokens):
    monkeypatch.setattr(gate, "_open", lambda name: None)
    clock = [100.0]
    allowance = gate.Allowance("a", rpm, tpm, lambda: clock[0])
    sent: list[tuple[float, int]] = []
    for n in range(120):
        amount = tokens[n % len(tokens)]
        while (wait := allowance.admit(amount)) > 0:
            clock[0] += wait + 1e-6
        sent.append((clock[0], amount))
    for first, (start, _) in enumerate(sent):
        inside = [amount for when, amount in sent[first:] if when < start + 60]
        assert rpm is None or len(inside) <= rpm
        assert tpm is None or sum(inside) < tpm + max(tokens)
    took, asked_for = clock[0] - 100, sum(amount for _, amount in sent)
    # With both, what waits for one fills the other no further than full, so that their times may add up.
    bound = (120 / rpm if rpm else 0) + (asked_for / tpm if tpm else 0)
    assert took <= 66 * bound + 61


def test_tokens_a_minute_follow_what_was_used(serve, tmp_path):
    """The service counts 1,010 tokens a request, many more than were estimated: of 12,120 a minute 1,010 may go at once."""
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    settings = settings_for(endpoint, condition="metadata", tpm=240_000, concurrency=2)
    start = time.monotonic()
    run(settings, t3(*(f"i-{n:02}" for n in range(24))), tmp_path)
    # 20,000 at once and 3,667 a second: 24,240 tokens take more than a second, less what the last two do not wait for.
    assert 0.5 < time.monotonic() - start < 4


def test_jobs_of_one_account_share_what_one_of_them_learns(gates, serve, tmp_path, monkeypatch):
    """Two jobs at once against one allowance are refused hardly more often than one."""
    bucket = Bucket(40, 5, 0.5)
    endpoint = serve(bucket)
    monkeypatch.undo()
    monkeypatch.setenv("EVOAUDIT_TEST_KEY", CANARY)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    mined = write_probes(tmp_path / "mined", t3(*(f"i-{n:03}" for n in range(60))))
    jobs = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "evoaudit",
                *command(settings_for(endpoint, condition="metadata", concurrency=16, model=name), mined, tmp_path / name),
            ]
        )
        for name in ("a", "b")
    ]
    assert [job.wait() for job in jobs] == [0, 0]
    rows = [row for name in ("a", "b") for row in store.read_rows(tmp_path / name, "predictions")]
    assert {row["status"] for row in rows} == {"ok"} and bucket.refused <= 18, bucket.refused
    assert len(list(tmp_path.glob("evoaudit-*/*.gate"))) == 1
