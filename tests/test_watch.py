"""What a run says of itself: its jobs' files and events, the state computed from them, and the summary at its end."""

import argparse
import base64
import hashlib
import itertools
import json
import os
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evoaudit import joblog, store
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.infer.progress import Progress
from evoaudit.watch import keep, page, summary
from evoaudit.watch.run import SILENT, look, start_file

SECRET = "sk-canary-0123456789abcdef"
MINED, ASKED, SCORED, TOLD = "mine/aaaaaaaaaa-s1", "infer/bbbbbbbbbb", "score/cccccccccc", "judge/dddddddddd"


def arguments(results: Path, job: str = ASKED, **settings: Any) -> argparse.Namespace:
    stage, key = job.split("/")
    return argparse.Namespace(command=stage, key=key, out=results / stage / key, settings=settings)


def planned(results: Path, name: str = "r", **more: dict) -> None:
    """Write a plan of four jobs."""
    settings = {MINED: {}, ASKED: {"name": "m", "provider": "openai"}, SCORED: {}, TOLD: {"name": "rules", "provider": "builtin"}}
    labels = {MINED: "all", ASKED: "m/full/512", SCORED: "all", TOLD: "rules/text"}
    rows = [
        {"stage": job.split("/")[0], "key": job.split("/")[1], "label": labels[job], "settings": settings[job], **more.get(job, {})}
        for job in settings
    ]
    keep.put(results / ".plans" / f"{name}.json", rows)


def finished(results: Path, job: str, seconds: float | None = None, **counts: Any) -> None:
    """Write what a finished job leaves."""
    keep.put(results / job / "manifest.json", {"counts": {"unit": "x", "read": 0, "kept": 0, "dropped": {}, "others": {}, **counts}})
    if seconds is not None:
        path = results / "benchmarks" / f"{job}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"s": seconds}) + "\n")


def told(results: Path, job: str, **fields: Any) -> Path:
    path = joblog.status_file(results, *job.split("/"))
    keep.put(path, {"state": "running", "started": time.time() - 60, **fields})
    return path


def started(results: Path, todo: dict[str, int | None], state: str = "running", **more: Any) -> None:
    record = {"run": "r", "started": time.time() - 100, "todo": todo, "host": os.uname().nodename, "pid": os.getpid(), "state": state}
    keep.put(start_file(results, "r"), record | more)


# -- a job ----------------------------------------------------------------------------------------------------------------


def test_a_job_has_a_file_while_it_runs_and_none_once_it_is_done(tmp_path):
    path = joblog.status_file(tmp_path, *ASKED.split("/"))
    with joblog.running(arguments(tmp_path)):
        assert json.loads(path.read_text())["state"] == "running"
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (InputError("a", "is wrong", "mend it"), "a: is wrong; mend it"),
        (KeyError("x"), "KeyError: 'x'"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_a_job_that_failed_leaves_the_reason(error, words, tmp_path):
    with pytest.raises(type(error)), joblog.running(arguments(tmp_path)):
        raise error
    left = json.loads(joblog.status_file(tmp_path, *ASKED.split("/")).read_text())
    assert left["state"] == "failed" and left["error"].startswith(words)


def test_a_job_that_writes_elsewhere_or_cannot_write_its_file_runs_all_the_same(tmp_path):
    with joblog.running(argparse.Namespace(command="infer", key="", out=tmp_path / "mine", settings={})):
        joblog.progress(asked=1)
    assert not list(tmp_path.iterdir())
    (tmp_path / "logs").write_text("a file where the folder should be")
    with joblog.running(arguments(tmp_path)):
        joblog.progress(asked=1)


def test_a_file_is_written_once_a_second_at_most_and_its_last_version_is_whole(tmp_path, monkeypatch):
    clock, versions = [100.0], []
    monkeypatch.setattr(joblog.time, "monotonic", lambda: clock[0])
    real = os.replace
    monkeypatch.setattr(joblog.os, "replace", lambda *names: (versions.append(clock[0]), real(*names)))
    with pytest.raises(KeyError), joblog.running(arguments(tmp_path)):
        for n in range(50):
            clock[0] += 0.1
            joblog.progress(asked=n)
        raise KeyError
    gaps = [later - earlier for earlier, later in itertools.pairwise(versions)]
    assert len(versions) in (6, 7) and min(gaps[:-1]) >= 1
    assert json.loads(joblog.status_file(tmp_path, *ASKED.split("/")).read_text())["asked"] == 49


def test_events_are_lines_of_json_with_stage_key_and_seconds_and_no_secret(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EVOAUDIT_LOG", "json")
    monkeypatch.setenv("MY_OWN", SECRET)
    monkeypatch.setenv("HF_TOKEN", SECRET[::-1])
    progress = Progress(joblog.say)
    with pytest.raises(InputError), joblog.running(arguments(tmp_path, name="m", api_key_env="MY_OWN")):
        progress.begin(10, SimpleNamespace(limit=None, spent=0.5, price=object()))
        progress.done("ok")
        progress.done("timeout")
        progress.tried_again("server")
        progress.tried_again("server")
        progress.tell()
        joblog.say(f"a note\x1b[31m with {SECRET} and {SECRET[::-1]}")
        raise InputError(SECRET, "is wrong")
    said = capsys.readouterr().err
    events = [json.loads(line) for line in said.splitlines()]
    assert [one["event"] for one in events] == ["start", "fault", "retry", "progress", "note", "end"]
    assert all((one["stage"], one["key"]) == tuple(ASKED.split("/")) and one["seconds"] >= 0 and one["at"] for one in events)
    assert events[3]["asked"] == 2 and events[3]["unanswered"] == {"timeout": 1} and events[3]["spent_usd"] == 0.5
    assert events[-1]["state"] == "failed"
    everything = said + joblog.status_file(tmp_path, *ASKED.split("/")).read_text()
    assert SECRET not in everything and SECRET[::-1] not in everything and "\x1b" not in everything


def test_people_read_text(tmp_path, capsys):
    with joblog.running(arguments(tmp_path)):
        joblog.say("one\x1b[2Jline")
        joblog.event("retry", status="server")
    assert capsys.readouterr().err == "one\\x1b[2Jline\n"


# -- a run ----------------------------------------------------------------------------------------------------------------


def test_jobs_are_done_running_failed_or_waiting(tmp_path):
    planned(tmp_path)
    finished(tmp_path, MINED, 30)
    told(tmp_path, ASKED, total=100, asked=40, rate=2.0, left_s=30.0, spent_usd=1.25, budget_usd=5, unanswered={"timeout": 3})
    told(tmp_path, TOLD, state="failed", error="judge 'rules': no")
    started(tmp_path, dict.fromkeys((MINED, ASKED, SCORED, TOLD)), budget_usd=5.0)
    state = look(tmp_path, "r")
    assert state["state"] == "running"
    assert state["jobs"] == {"total": 4, "done": 1, "running": 1, "failed": 1, "waiting": 1}
    assert state["stages"]["infer"] == {"total": 1, "done": 0, "running": 1, "failed": 0, "waiting": 0}
    assert state["running"][0] | {"seconds": 0} == {
        **{"stage": "infer", "key": "bbbbbbbbbb", "label": "m/full/512", "total": 100, "asked": 40, "rate": 2.0, "left_s": 30.0},
        **{"spent_usd": 1.25, "budget_usd": 5, "unanswered": {"timeout": 3}, "seconds": 0},
    }
    assert state["failures"] == [
        {"stage": "judge", "key": "dddddddddd", "label": "rules/text", "error": "judge 'rules': no", "log": f"{tmp_path}/logs/{TOLD}.log"}
    ]
    assert (state["spent_usd"], state["budget_usd"]) == (1.25, 5.0)


def test_a_job_that_is_made_anew_is_done_once_its_manifest_is_another(tmp_path):
    planned(tmp_path)
    for job in (MINED, ASKED):
        finished(tmp_path, job)
    path = tmp_path / MINED / "manifest.json"
    started(tmp_path, {MINED: path.stat().st_mtime_ns, SCORED: None}, rest=[ASKED])
    assert look(tmp_path, "r")["jobs"] == {"total": 3, "done": 1, "running": 0, "failed": 0, "waiting": 2}
    os.utime(path, ns=(1, 1))  # older by the clock of another machine
    assert look(tmp_path, "r")["jobs"]["done"] == 2


def test_a_silent_job_is_said_to_be_and_counts_as_gone_once_the_run_has_ended(tmp_path):
    planned(tmp_path)
    long_ago = time.time() - SILENT - 60
    os.utime(told(tmp_path, ASKED), (long_ago, long_ago))
    started(tmp_path, {ASKED: None})
    assert look(tmp_path, "r")["running"][0]["silent_s"] >= SILENT
    started(tmp_path, {ASKED: None}, "failed", ended=time.time())
    state = look(tmp_path, "r")
    assert not state["running"] and "killed" in state["failures"][0]["error"]


def test_a_workflow_that_is_gone_has_stopped_and_its_living_jobs_run_on(tmp_path):
    planned(tmp_path)
    told(tmp_path, ASKED)
    long_ago = time.time() - SILENT - 60
    os.utime(told(tmp_path, SCORED), (long_ago, long_ago))
    started(tmp_path, {ASKED: None, SCORED: None}, pid=2**22 + 1)
    state = look(tmp_path, "r")
    assert state["state"] == "stopped"
    assert [job["stage"] for job in state["running"]] == ["infer"] and [job["stage"] for job in state["failures"]] == ["score"]


def test_a_job_that_died_before_it_could_say_a_word_is_told_by_its_log(tmp_path):
    planned(tmp_path)
    log = tmp_path / "logs" / f"{ASKED}.log"
    log.parent.mkdir(parents=True)
    log.write_text("bash: line 1\n\x1b[31mpython: command not found\n\n")
    started(tmp_path, {ASKED: None, SCORED: None}, "failed", ended=time.time())
    state = look(tmp_path, "r")
    assert [(job["stage"], job["error"]) for job in state["failures"]] == [("infer", "\\x1b[31mpython: command not found")]


def test_dollars_are_those_paid_by_this_run(tmp_path):
    planned(tmp_path)
    finished(tmp_path, ASKED)
    row = {"model": "m", "condition": "full", "max_image_side": 512, "run": 0, "task": "t3", "status": "ok", "raw": "A"}
    rows = [
        {**row, "instance_id": "i-1", "usd": 0.25, "reused": False},
        {**row, "instance_id": "i-2", "usd": 0.5, "reused": True},
        {**row, "instance_id": "i-3", "usd": 0.125, "reused": False, "status": "timeout", "raw": None},
    ]
    store.write_table(tmp_path / ASKED, "predictions", rows)
    state = look(tmp_path, "r")
    assert state["spent_usd"] == 0.375
    assert state["asked"][ASKED]["unanswered"] == {"timeout": 1} and state["asked"][ASKED]["requests"] == 3
    said = summary.lines(tmp_path, state)
    assert "cost       $0.38: m $0.38" in said and "unanswered m/full/512 1 (timeout 1)" in said


def test_a_cost_that_is_not_known_is_not_said_to_be_nothing(tmp_path):
    planned(tmp_path)
    assert not [line for line in summary.lines(tmp_path, look(tmp_path, "r")) if line.startswith("cost")]
    finished(tmp_path, ASKED)
    row = {"model": "m", "condition": "full", "max_image_side": 512, "run": 0, "task": "t3", "status": "ok", "raw": "A"}
    store.write_table(tmp_path / ASKED, "predictions", [{**row, "instance_id": "i-1", "usd": None, "reused": False}])
    assert "cost       unknown: no price is known of m" in summary.lines(tmp_path, look(tmp_path, "r"))


def test_where_nothing_bounds_the_jobs_all_may_run_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    planned(Path("results"))
    monkeypatch.setattr(keep, "_keeper", None)
    dag = SimpleNamespace(needrun_jobs=lambda **_: [], jobs=[SimpleNamespace(output=[f"results/{ASKED}/manifest.json"])])
    plan = SimpleNamespace(config=SimpleNamespace(run=SimpleNamespace(name="r")), jobs=[SimpleNamespace(stage="mine")] * 3)
    keep.start(SimpleNamespace(dag=dag, nodes=sys.maxsize, cores=None), plan)
    keep.end("finished")
    assert json.loads(start_file(Path("results"), "r").read_text())["slots"] == 3
    assert look(Path("results"), "r")["jobs"]["total"] == 1


def test_time_left_is_that_of_equal_jobs_shared_among_the_places(tmp_path):
    jobs = {f"score/{n:010}": n for n in range(6)}
    rows = [{"stage": "score", "key": job.split("/")[1], "label": str(n), "settings": {}} for job, n in jobs.items()]
    keep.put(tmp_path / ".plans" / "r.json", [*rows, {"stage": "stats", "key": "e" * 10, "label": "all", "settings": {}}])
    for job, n in jobs.items():
        if n < 2:
            finished(tmp_path, job, 20 if n else 40)
    started(tmp_path, dict.fromkeys([*jobs, f"stats/{'e' * 10}"]), slots=3)
    state = look(tmp_path, "r")
    assert (state["left_s"], state["left_is_least"]) == (4 * 30 / 3, True)  # of the statistics nothing is known yet


def test_a_run_of_an_earlier_time_needs_no_record_of_its_start(tmp_path):
    planned(tmp_path)
    assert look(tmp_path, "r")["state"] == "not running"
    for job in (MINED, ASKED, SCORED, TOLD):
        finished(tmp_path, job)
    assert look(tmp_path, "r")["state"] == "finished"


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(("running", "failed"))
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=4)
FIELDS = ("state", "error", "started", "total", "asked", "rate", "left_s", "spent_usd", "unanswered", "waits", "host", "todo", "run")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(found=st.dictionaries(st.sampled_from(FIELDS), VALUES) | VALUES, raw=st.binary(max_size=40))
def test_no_file_of_a_job_or_of_a_start_breaks_the_status(found, raw, tmp_path):
    planned(tmp_path)
    for path in (joblog.status_file(tmp_path, *ASKED.split("/")), start_file(tmp_path, "r")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
    joblog.status_file(tmp_path, *TOLD.split("/")).parent.mkdir(parents=True, exist_ok=True)
    joblog.status_file(tmp_path, *TOLD.split("/")).write_bytes(raw)
    state = look(tmp_path, "r")
    assert all(line.isprintable() for line in summary.lines(tmp_path, state))
    json.dumps(state, allow_nan=False)


def test_the_summary_fits_the_screen_whatever_a_run_holds(tmp_path):
    hostile = "\x1b]0;title\x07" + "x" * 400
    rows = [{"stage": stage, "key": f"{n:010}", "label": f"{hostile}{n}", "settings": {"name": hostile, "provider": "openai"}}
            for stage in ("normalise", "mine", "images", "infer", "score", "judge", "stats", "tables", "figures", "report", "combine")
            for n in range(40)]  # fmt: skip
    keep.put(tmp_path / ".plans" / "r.json", rows)
    for n, row in enumerate(rows):
        job = f"{row['stage']}/{row['key']}"
        if n % 4 == 0:
            dropped = {f"reason_{k}": 9 - k for k in range(9)}
            others = {unit: {"read": 90, "kept": 45, "dropped": dropped} for unit in ("step", "picture", "verdict", "candidate")}
            finished(tmp_path, job, 50, unit="trajectory", read=90, kept=45, dropped=dropped, others=others)
        else:
            told(tmp_path, job, state=("running", "failed")[n % 2], error=hostile, spent_usd=1, unanswered={hostile: 3}, waits=hostile)
    started(tmp_path, {f"{row['stage']}/{row['key']}": None for row in rows})
    said = summary.lines(tmp_path, look(tmp_path, "r"))
    assert len(said) <= summary.LINES
    assert all(len(line) <= summary.WIDTH and line.isprintable() for line in said)
    starts = {line.split(" ")[0] for line in said}
    assert {"run", "stages", "running", "failed", "slowest", "left", "unanswered", "cost"} <= starts


def test_the_command_line_says_it_and_writes_it(tmp_path, capsys):
    planned(tmp_path)
    assert main(["status", "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("run r: not running; 0 of 4 jobs done")
    assert main(["status", "r", "--results", str(tmp_path), "--json", str(tmp_path / "s.json")]) == 0
    assert json.loads((tmp_path / "s.json").read_text())["jobs"]["total"] == 4
    told(tmp_path, ASKED, state="failed", error="no")
    assert main(["status", "../r", "--results", str(tmp_path)]) == 1
    assert main(["status", "other", "--results", str(tmp_path)]) == 2
    assert "no such run; there are r" in capsys.readouterr().err


def test_the_run_started_last_is_meant(tmp_path, capsys):
    for name in ("r", "other"):
        planned(tmp_path, name)
    assert main(["status", "--results", str(tmp_path / "none")]) == 2
    started(tmp_path, {ASKED: None})
    os.utime(tmp_path / ".plans" / "other.json", (1, 1))
    capsys.readouterr()
    main(["status", "--results", str(tmp_path)])
    assert capsys.readouterr().out.startswith("run r: ")
    os.utime(start_file(tmp_path, "r"), (2, 2))
    os.utime(tmp_path / ".plans" / "r.json", (2, 2))
    os.utime(tmp_path / ".plans" / "other.json", (3, 3))
    main(["status", "--results", str(tmp_path)])
    assert capsys.readouterr().out.startswith("run other: ")


def test_the_workflow_keeps_the_status_and_ends_with_the_summary(tmp_path, monkeypatch):
    monkeypatch.setattr(keep, "EVERY", 0.02)
    planned(tmp_path)
    old = told(tmp_path, ASKED, state="failed", error="of an earlier time")
    job = SimpleNamespace(stage="infer", key=ASKED.split("/")[1], transport={"budget_usd": 2.0})
    plan = SimpleNamespace(config=SimpleNamespace(run=SimpleNamespace(name="r")), jobs=(job,))
    keeper = keep.Keeper(plan, {ASKED, SCORED}, {MINED}, 2, tmp_path)
    assert not old.exists()
    keeper.begin()
    path = tmp_path / "logs" / "status" / "r.json"

    def seen(done: int) -> bool:
        return path.is_file() and json.loads(path.read_text())["jobs"]["done"] == done

    for done, jobs in enumerate(((), (MINED,), (ASKED,))):
        for one in jobs:
            finished(tmp_path, one)
        deadline = time.monotonic() + 20
        while not seen(done) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert seen(done)
    finished(tmp_path, SCORED, 3)
    said = keeper.end("finished")
    last = json.loads(path.read_text())
    assert (last["state"], last["made"], last["budget_usd"], last["jobs"]["done"]) == ("finished", 2, 2.0, 3)
    assert said[0].startswith("run r: finished after") and "slowest    score 3 s" in said
    assert main(["status", "r", "--results", str(tmp_path)]) == 0


def test_what_makes_stages_is_told_from_what_lays_them_out():
    jobs = [SimpleNamespace(output=[f"results/{MINED}/manifest.json", f"results/{MINED}/t1.parquet"]), SimpleNamespace(output=[])]
    assert keep._stage_jobs(jobs) == {MINED}


def test_the_page_runs_its_own_script_alone_and_writes_text_alone():
    html = page.text()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)[1]
    assert policy.startswith("default-src 'none'; connect-src 'self';")
    for tag in ("script", "style"):
        inside = re.search(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)[1]
        assert f"{tag}-src 'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'" in policy
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|\son\w+=|https?://", html)
    assert set(re.findall(r'at\("(\w+)"\)|rows\("(\w+)"', html)) <= {(name, "") for name in re.findall(r'id="(\w+)"', html)} | {
        ("", name) for name in re.findall(r'id="(\w+)"', html)
    }
