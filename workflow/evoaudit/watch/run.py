"""The state of a run, from files alone, so that it can be told on any machine that sees the results."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError, one_line
from evoaudit.intact import MANIFEST
from evoaudit.joblog import BEAT, status_file
from evoaudit.jsonfile import read_json

#: Stages that only a target of their own asks for.
APART = frozenset({"export", "pairs", "replay"})
#: Stages that ask models.
ASKING = frozenset({"infer", "judge"})
#: Seconds without a sign of life after which a job, or the workflow itself, counts as gone.
SILENT = 9 * BEAT
#: Bytes of a job's file or of the end of a log that are read at most.
_MOST = 1 << 16
#: Fields of a job's file that are passed on as they are, with the type each has.
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "host": str,
    "waits": str,
    "total": int,
    "asked": int,
    "answered": int,
    "repeated": int,
    **dict.fromkeys(("rate", "left_s", "spent_usd", "budget_usd", "held_s"), (int, float)),
}


@dataclass
class Start:
    """What the workflow knew when it began: which jobs it is to make, and which it found done."""

    run: str
    started: float
    #: Job → modification time of the manifest that is to be replaced, ns, or None: how a new one is told from it without any clock.
    todo: dict[str, int | None] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)
    #: Jobs at a time.
    slots: int = 1
    budget_usd: float | None = None
    host: str = ""
    pid: int = 0
    state: str = "running"
    ended: float | None = None


@dataclass
class Seen:
    """What need not be read again of a finished job."""

    seconds: dict[str, float] = field(default_factory=dict)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)


def folder(results: Path) -> Path:
    """Return where the status files of runs lie."""
    return results / "logs" / "status"


def start_file(results: Path, name: str) -> Path:
    """Return the record of a run's last start."""
    return folder(results) / f"{name}.start.json"


def runs(results: Path) -> list[str]:
    """Return the names of the runs whose plan is known, the one started or planned last first."""
    found = []
    for path in (results / ".plans").glob("*.json"):
        with suppress(OSError):
            began = start_file(results, path.stem)
            found.append((max(one.stat().st_mtime_ns for one in (path, began) if one.is_file()), path.stem))
    return [name for _, name in sorted(found, reverse=True)]


def look(results: Path, name: str, start: Start | None = None, seen: Seen | None = None) -> dict[str, Any]:
    """Return the state of a run, as the status file holds it. ``start`` is given by the workflow that is running it."""
    seen, now = seen or Seen(), time.time()
    rows = plan_of(results, name)
    began = start or _recorded(results, name)
    wanted = _wanted(rows, began)
    state = _state(results, began, start is not None)
    done, running, failures = set(), [], []
    for identity in wanted:
        stage, key = identity.split("/")
        if _done(results / stage / key / MANIFEST, identity, began):
            done.add(identity)
            continue
        told = _told(results, stage, key, rows.get(identity), now)
        if told is None:
            if state not in ("running", "not running") and (why := _unheard(results, stage, key, began)):
                failures.append(_job(identity, rows, error=why, log=_log(results, stage, key)))
            continue
        lives = state == "running" or (state in ("stopped", "not running") and "silent_s" not in told)
        if told.pop("state") == "running" and lives:
            running.append(told)
        else:
            why = told.get("error") or "ended without a word; perhaps it was killed, or ran out of memory or time"
            failures.append(_job(identity, rows, error=why, log=_log(results, stage, key)))
    if began is None and len(done) == len(wanted):
        state = "finished"
    seconds = {identity: took for identity in sorted(done) if (took := _seconds(results, identity, seen)) is not None}
    asked = _asked(results, rows, wanted, done, seen)
    stages = {stage: _count(wanted, done, running, failures, stage) for stage in dict.fromkeys(one.split("/")[0] for one in wanted)}
    ended = began.ended if began else None
    left, least = _left(wanted, done, running, failures, seconds, began.slots if began else 1) if state == "running" else (None, False)
    return {
        "run": name,
        "state": state,
        "started": _iso(began.started if began else None),
        "updated": _iso(now),
        "ended": _iso(ended),
        "seconds": round((ended or now) - began.started, 1) if began and state in ("running", "finished", "failed") else None,
        "left_s": left,
        "left_is_least": least,
        "jobs": _count(wanted, done, running, failures),
        "made": sum(identity in done for identity in began.todo) if began else None,
        "stages": stages,
        "running": sorted(running, key=lambda job: (job["stage"], job["label"])),
        "failures": failures,
        "spent_usd": _dollars(asked.values()),
        "budget_usd": began.budget_usd if began else None,
        "asked": asked,
        "seconds_by_job": {
            identity: value for identity, value in seconds.items() if value is not None and (not began or identity in began.todo)
        },
    }


def plan_of(results: Path, name: str) -> dict[str, dict[str, Any]]:
    """Return job → what the run's plan says of it."""
    path = results / ".plans" / f"{name}.json"
    if not path.is_file():
        known = ", ".join(runs(results)[:20]) or "no runs"
        raise InputError(path, "no such run", f"there are {known}")
    rows = read_json(path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) and {"stage", "key", "label", "settings"} <= row.keys() for row in rows):
        raise InputError(path, "does not list a run's keys", "run the workflow again: it writes the file anew")
    found = {f"{row['stage']}/{row['key']}": row for row in rows}
    if any(one.count("/") != 1 or ".." in one or not isinstance(row["settings"], dict) for one, row in found.items()):
        raise InputError(path, "names what is no stage's folder", "run the workflow again: it writes the file anew")
    return found


def _recorded(results: Path, name: str) -> Start | None:
    """Return the record of the last start, None where there is none or it is damaged."""
    try:
        found = Start(**json.loads(start_file(results, name).read_text(encoding="utf-8")))
        numbers = (found.started, found.ended or 0, found.slots, found.pid, found.budget_usd or 0)
        sound = all(isinstance(one, int | float) and 0 <= one < 1e12 for one in numbers) and isinstance(found.todo, dict)
        return found if sound and all(one.count("/") == 1 and ".." not in one for one in (*found.todo, *found.rest)) else None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def _wanted(rows: dict[str, dict[str, Any]], start: Start | None) -> list[str]:
    """Return the jobs of the run in the plan's order: those its last start asked for, or else those of the default target."""
    if start is not None and (start.todo or start.rest):
        asked = {*start.todo, *start.rest}
        return [one for one in rows if one in asked] + sorted(asked - rows.keys())
    return [one for one, row in rows.items() if row["stage"] not in APART and not str(row["label"]).startswith("export/")]


def _state(results: Path, start: Start | None, ours: bool) -> str:
    if start is None:
        return "not running"
    if start.state != "running" or ours:
        return start.state
    if start.host == os.uname().nodename:
        try:
            os.kill(start.pid, 0)
        except PermissionError:
            return "running"
        except (OSError, OverflowError):
            return "stopped"
        return "running"
    with suppress(OSError):
        if time.time() - (folder(results) / f"{start.run}.json").stat().st_mtime < SILENT:
            return "running"
    return "stopped"


def _done(manifest: Path, identity: str, start: Start | None) -> bool:
    try:
        mark = manifest.stat().st_mtime_ns
    except OSError:
        return False
    return start is None or start.todo.get(identity) != mark


def _told(results: Path, stage: str, key: str, row: dict[str, Any] | None, now: float) -> dict[str, Any] | None:
    """Return what a job says of itself, None if it says nothing; nothing in its file is certain."""
    path = status_file(results, stage, key)
    try:
        with open(path, "rb") as handle:
            found, touched = json.loads(handle.read(_MOST)), os.fstat(handle.fileno()).st_mtime
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("state") not in ("running", "failed"):
        return None
    job = _job(f"{stage}/{key}", {f"{stage}/{key}": row} if row else {}, state=found["state"])
    if isinstance(found.get("error"), str):
        job["error"] = one_line(found["error"], 500)
    for name, kind in _FIELDS.items():
        value = found.get(name)
        if isinstance(value, kind) and not isinstance(value, bool) and (isinstance(value, str) or 0 <= value < 1e12):
            job[name] = one_line(value, 200) if isinstance(value, str) else value
    lost = found.get("unanswered")
    if isinstance(lost, dict):
        job["unanswered"] = {one_line(str(status), 40): n for status, n in list(lost.items())[:20] if type(n) is int and 0 < n < 1e12}
    if isinstance(found.get("started"), int | float) and 0 <= found["started"] < 1e12:
        job["seconds"] = round(max(0.0, now - found["started"]), 1)
    if now - touched > SILENT:
        job["silent_s"] = round(now - touched)
    return job


def _unheard(results: Path, stage: str, key: str, start: Start | None) -> str | None:
    """Return the last line of the log of a job that began and left no word of itself, None if it did not begin."""
    if start is None or f"{stage}/{key}" not in start.todo:
        return None
    try:
        with open(results / "logs" / stage / f"{key}.log", "rb") as handle:
            about = os.fstat(handle.fileno())
            if about.st_mtime < start.started - 1:
                return None
            handle.seek(max(0, about.st_size - _MOST))
            lines = handle.read(_MOST).decode("utf-8", "replace").split("\n")
    except OSError:
        return None
    said = [line for line in lines if line.strip()]
    return one_line(said[-1].strip(), 500) if said else None


def _job(identity: str, rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    stage, key = identity.split("/")
    label = rows[identity]["label"] if identity in rows else key
    return {"stage": stage, "key": key, "label": one_line(str(label), 200), **more}


def _log(results: Path, stage: str, key: str) -> str:
    return (results / "logs" / stage / f"{key}.log").as_posix()


def _seconds(results: Path, identity: str, seen: Seen) -> float | None:
    """Return how long a finished job took, by Snakemake's benchmark of it."""
    if identity not in seen.seconds:  # it is written a moment after the manifest
        stage, key = identity.split("/")
        with suppress(OSError, ValueError, KeyError, TypeError, IndexError, RecursionError):
            with open(results / "benchmarks" / stage / f"{key}.jsonl", "rb") as handle:
                lines = handle.read(_MOST).splitlines()
            seen.seconds[identity] = float(json.loads(lines[-1])["s"])
    return seen.seconds.get(identity)


def _asked(results: Path, rows: dict[str, dict[str, Any]], wanted: Iterable[str], done: set[str], seen: Seen) -> dict[str, dict[str, Any]]:
    """Return job → what its model answered and cost, of every finished job that asked one, and what the others have spent so far."""
    found = {}
    for identity in wanted:
        row = rows.get(identity)
        if row is None or row["stage"] not in ASKING or row["settings"].get("provider") == "builtin" or "ensemble" in row["settings"]:
            continue
        if identity in done:
            if identity not in seen.answers:
                seen.answers[identity] = _answers(results / row["stage"] / row["key"])
            one = seen.answers[identity]
        else:
            told = _told(results, row["stage"], row["key"], row, time.time()) or {}
            one = {name: told[name] for name in ("spent_usd", "unanswered") if name in told}
        found[identity] = {"name": one_line(str(row["settings"].get("name")), 100), "label": row["label"], **one}
    return found


def _answers(place: Path) -> dict[str, Any]:
    """Return requests, those without an answer by why, and dollars paid, None where no price is known, of a finished job."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(place / "predictions.parquet", columns=["status", "usd", "reused"], partitioning=None).to_pydict()
    except (OSError, pa.ArrowException):
        return {}
    paid = [usd for usd, reused in zip(table["usd"], table["reused"], strict=True) if usd is not None and not reused]
    lost = Counter(status for status in table["status"] if status != "ok")
    return {
        "requests": len(table["status"]),
        "unanswered": dict(sorted(lost.items())),
        "spent_usd": round(sum(paid), 6) if any(usd is not None for usd in table["usd"]) else None,
    }


def _dollars(asked: Iterable[dict[str, Any]]) -> float | None:
    """Return all dollars that are known of."""
    known = [one["spent_usd"] for one in asked if one.get("spent_usd") is not None]
    return round(sum(known), 6) if known else None


def _count(wanted: list[str], done: set[str], running: list[dict], failures: list[dict], stage: str | None = None) -> dict[str, int]:
    of = [one for one in wanted if stage is None or one.startswith(f"{stage}/")]
    counts = {"done": sum(one in done for one in of)}
    counts |= {name: sum(stage in (None, job["stage"]) for job in jobs) for name, jobs in (("running", running), ("failed", failures))}
    return {"total": len(of), **counts, "waiting": len(of) - sum(counts.values())}


def _left(
    wanted: list[str], done: set[str], running: list[dict], failures: list[dict], seconds: dict[str, float], slots: int
) -> tuple[float | None, bool]:
    """Return about how many seconds are left, and whether that leaves out jobs of which nothing is known yet.

    A job is taken to last as long as the finished ones of its stage did on average.
    """
    known: dict[str, list[float]] = {}
    for identity, took in seconds.items():
        known.setdefault(identity.split("/")[0], []).append(took)
    mean = {stage: sum(values) / len(values) for stage, values in known.items()}
    told = {f"{job['stage']}/{job['key']}": job for job in running}
    gone = {f"{job['stage']}/{job['key']}" for job in failures}
    left, least = [], False
    for identity in wanted:
        if identity in done or identity in gone:
            continue
        job, stage = told.get(identity, {}), identity.split("/")[0]
        if job.get("left_s") is not None:
            left.append(float(job["left_s"]))
        elif stage in mean:
            left.append(max(0.0, mean[stage] - job.get("seconds", 0.0)))
        else:
            least = True
    return (round(max(max(left), sum(left) / max(1, slots)), 1) if left else None), least


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
