"""The state of a run in a few lines for a terminal: what is done, what is not and why, what it cost, and what to do next."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evoaudit.errors import InputError, one_line
from evoaudit.infer.progress import span
from evoaudit.intact import MANIFEST
from evoaudit.jsonfile import read_json
from evoaudit.watch.run import plan_of

#: Lines at most, and characters of one.
LINES, WIDTH = 25, 140
#: Jobs, failures, and stages that are named one by one.
_JOBS, _FAILURES, _NAMED = 6, 3, 3
#: Stage and unit of which it is told what was left out, in order.
_UNITS = (("normalise", "trajectory"), ("normalise", "step"), ("normalise", "picture"), ("mine", "candidate"), ("images", "picture"))
_UNITS += (("judge", "verdict"),)


def lines(results: Path, state: dict[str, Any]) -> list[str]:
    """Return the lines; texts of logs and models among them are escaped and cut."""
    found = [_head(state), *_stages(state), *_running(state), *_failures(state)]
    tail = [*_slowest(state), *_left_out(results, state["run"]), *_unanswered(state), *_cost(state), *_next(results, state)]
    return [one if len(one) <= WIDTH else one[: WIDTH - 1] + "…" for one in map(one_line, [*found[: LINES - len(tail)], *tail])]


def _head(state: dict[str, Any]) -> str:
    jobs, took = state["jobs"], state["seconds"]
    words = {"running": "running", "finished": "finished", "failed": "failed", "stopped": "stopped before it was done"}.get(
        state["state"], "not running"
    )
    after = f" {'for' if state['state'] == 'running' else 'after'} {span(took)}" if took is not None else ""
    parts = [
        f"{jobs['done']:,} of {jobs['total']:,} jobs done",
        *(f"{jobs[name]:,} {name}" for name in ("running", "failed") if jobs[name]),
    ]
    if state["left_s"]:
        parts.append(f"{'at least' if state['left_is_least'] else 'about'} {span(state['left_s'])} left")
    return f"run {state['run']}: {words}{after}; {', '.join(parts)}"


def _stages(state: dict[str, Any]) -> Iterator[str]:
    """Yield how far each stage is, where not all are done."""
    if state["jobs"]["done"] < state["jobs"]["total"]:
        words = [f"{stage} {counts['done']}/{counts['total']}" for stage, counts in state["stages"].items()]
        half = (len(words) + 1) // 2 if len(words) > 10 else len(words)
        yield "stages     " + "  ".join(words[:half])
        if words[half:]:
            yield "           " + "  ".join(words[half:])


def _running(state: dict[str, Any]) -> Iterator[str]:
    for job in state["running"][:_JOBS]:
        yield f"running    {_named(job)}: {progress(job)}"
    if more := len(state["running"]) - _JOBS:
        yield from [f"           and {more} more"] if more > 0 else []


def progress(job: dict[str, Any]) -> str:
    """Return how far a running job is in words."""
    parts = [f"{job['asked']:,} of {job['total']:,} asked"] if "asked" in job and "total" in job else []
    parts += [f"{job['rate']:.1f} a second"] if job.get("rate") else []
    parts += [f"{sum(job['unanswered'].values())} without an answer"] if job.get("unanswered") else []
    parts += [f"{job['repeated']} calls repeated"] if job.get("repeated") else []
    if "spent_usd" in job:
        parts.append(f"${job['spent_usd']:.2f}" + (f" of ${job['budget_usd']:.2f}" if "budget_usd" in job else ""))
    parts += [f"about {span(job['left_s'])} left"] if job.get("left_s") else []
    parts += [job["waits"]] if job.get("waits") else []
    parts += [f"held back for another {span(job['held_s'])}"] if job.get("held_s") else []
    parts += [f"no sign of life for {span(job['silent_s'])}"] if job.get("silent_s") else []
    return "; ".join(parts) or (f"for {span(job['seconds'])}" if "seconds" in job else "begun")


def _failures(state: dict[str, Any]) -> Iterator[str]:
    for job in state["failures"][:_FAILURES]:
        yield f"failed     {_named(job)}: {job['error']}"
        yield f"           log {job['log']}"
    if (more := len(state["failures"]) - _FAILURES) > 0:
        yield f"           and {more} more; `evoaudit status {state['run']} --json -` lists all"
    if state["state"] == "failed" and not state["failures"]:
        yield "failed     no stage; what Snakemake printed above, or its log, says what did"


def _slowest(state: dict[str, Any]) -> Iterator[str]:
    by_stage: dict[str, list[float]] = {}
    for identity, seconds in state["seconds_by_job"].items():
        by_stage.setdefault(identity.split("/")[0], []).append(seconds)
    worst = sorted(by_stage.items(), key=lambda item: -sum(item[1]))[:_NAMED]
    words = [
        f"{stage} {span(sum(all_))}" + (f" in {len(all_)} jobs, longest {span(max(all_))}" if len(all_) > 1 else "")
        for stage, all_ in worst
    ]
    if words:
        yield f"slowest    {'; '.join(words)}"


def _left_out(results: Path, run: str) -> Iterator[str]:
    sums: dict[tuple[str, str], tuple[int, Counter[str]]] = {}
    for identity, row in plan_of(results, run).items():
        stage = row["stage"]
        if stage not in {one for one, _ in _UNITS} or not (results / identity / MANIFEST).is_file():
            continue
        try:
            counts = read_json(results / identity / MANIFEST)["counts"]
            for unit, one in {counts["unit"]: counts, **(counts.get("others") or {})}.items():
                read, dropped = sums.get((stage, unit), (0, Counter()))
                sums[stage, unit] = read + one["read"], dropped + Counter(one["dropped"])
        except (InputError, OSError, KeyError, TypeError, AttributeError):
            continue  # `evoaudit verify` is for damage
    for stage, unit in _UNITS:
        read, dropped = sums.get((stage, unit), (0, Counter()))
        if dropped:
            yield f"left out   {dropped.total():,} of {read:,} {unit} by {stage}: {_reasons(dropped)}"


def _unanswered(state: dict[str, Any]) -> Iterator[str]:
    missing = [one for one in state["asked"].values() if one.get("unanswered")]
    missing.sort(key=lambda one: (-sum(one["unanswered"].values()), one["label"]))
    words = [f"{one['label']} {sum(one['unanswered'].values())} ({_reasons(Counter(one['unanswered']))})" for one in missing[:_NAMED]]
    if words:
        more = f"; {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        yield f"unanswered {'; '.join(words)}{more}"


def _cost(state: dict[str, Any]) -> Iterator[str]:
    by_name: Counter[str] = Counter()
    unknown = set()
    for one in state["asked"].values():
        if one.get("spent_usd") is not None:
            by_name[one["name"]] += one["spent_usd"]
        elif "requests" in one:
            unknown.add(one["name"])
    if not by_name and not unknown:
        return
    names = [f"{name} ${usd:.2f}" for name, usd in by_name.most_common(_NAMED)]
    names += [f"{len(by_name) - _NAMED} more"] if len(by_name) > _NAMED else []
    names += [f"no price is known of {', '.join(sorted(unknown)[:_NAMED])}"] if unknown else []
    budget = f" of at most ${state['budget_usd']:.2f}" if state["budget_usd"] is not None else ""
    yield f"cost       {f'${by_name.total():.2f}' if by_name else 'unknown'}{budget}: {', '.join(names)}"


def _next(results: Path, state: dict[str, Any]) -> Iterator[str]:
    page = results / "runs" / state["run"] / "index.html"
    if page.is_file():
        older = "" if state["state"] == "finished" else ", of an earlier time"
        yield f"report     {page.as_posix()}{older}"
    if state["state"] in ("failed", "stopped") or (state["state"] == "not running" and state["jobs"]["waiting"]):
        mend = "mend what the failures say, then " if state["failures"] else ""
        yield f"next       {mend}run the same command again: what is done is kept, and no answer is bought twice"
    elif state["state"] == "finished":
        yield f"next       open the report; `evoaudit verify {state['run']}` compares every file with its checksum"


def _named(job: dict[str, Any]) -> str:
    return job["stage"] if job["label"] == "all" else f"{job['stage']} {job['label']}"


def _reasons(counts: Counter[str]) -> str:
    """Return the commonest reasons with their counts."""
    words = [f"{reason} {n:,}" for reason, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    return ", ".join(words[:_NAMED]) + (f", {len(words) - _NAMED} more reasons" if len(words) > _NAMED else "")
