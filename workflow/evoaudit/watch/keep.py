"""Keep a run's status file while Snakemake runs it: a thread of its process looks every few seconds, and at the end says the summary."""

import json
import os
import re
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evoaudit.errors import InputError
from evoaudit.joblog import status_file
from evoaudit.watch import page, summary
from evoaudit.watch.run import ASKING, Seen, Start, folder, look, start_file
from evoaudit.wholefile import write_whole

if TYPE_CHECKING:
    from evoaudit.plan import Plan

RESULTS = Path("results")
#: Seconds between two looks at least; a look takes no more than this share of the time.
EVERY, SHARE = 5.0, 0.05
_MANIFEST = re.compile(r"results/([a-z]+/[0-9a-z-]+)/manifest\.json")


class Keeper:
    """One run, from its start to its end."""

    def __init__(self, plan: "Plan", todo: set[str], rest: set[str], slots: int, results: Path = RESULTS) -> None:
        self._results, self._seen, self._over = results, Seen(), threading.Event()
        marks = {one: _mark(results / one / "manifest.json") for one in sorted(todo)}
        paid = [job for job in plan.jobs if job.stage in ASKING and job.transport and f"{job.stage}/{job.key}" in todo | rest]
        budgets = [job.transport.get("budget_usd") for job in paid]
        self._start = Start(
            run=plan.config.run.name,
            started=round(time.time(), 3),
            todo=marks,
            rest=sorted(rest),
            slots=slots,
            budget_usd=sum(budgets) if budgets and None not in budgets else None,
            host=os.uname().nodename,
            pid=os.getpid(),
        )
        for one in todo:  # what earlier jobs said of themselves
            with suppress(OSError):
                status_file(results, *one.split("/")).unlink(missing_ok=True)
        self._thread = threading.Thread(target=self._watch, name="status", daemon=True)

    def begin(self) -> None:
        """Write the first status and look from then on."""
        self._record()
        with suppress(OSError):
            page.write(folder(self._results) / f"{self._start.run}.html")
        self._thread.start()

    def end(self, state: str) -> list[str]:
        """Write the last status and return the summary."""
        self._over.set()
        self._thread.join()
        self._start.state, self._start.ended = state, round(time.time(), 3)
        self._record()
        return summary.lines(self._results, self._tell())

    def _watch(self) -> None:
        while True:
            began = time.monotonic()
            with suppress(OSError, InputError):
                self._tell()
            if self._over.wait(max(EVERY, (time.monotonic() - began) / SHARE)):
                return

    def _tell(self) -> dict[str, Any]:
        state = look(self._results, self._start.run, self._start, self._seen)
        put(folder(self._results) / f"{self._start.run}.json", state)
        return state

    def _record(self) -> None:
        with suppress(OSError):
            put(start_file(self._results, self._start.run), asdict(self._start))


_keeper: Keeper | None = None


def start(workflow: Any, plan: "Plan") -> None:
    """Begin to watch a run, if there is anything to make: laying out what is finished takes a moment, and changes no status."""
    global _keeper
    dag = workflow.dag
    todo = _stage_jobs(dag.needrun_jobs(exclude_finished=False))
    rest = _stage_jobs(dag.jobs) - todo
    if todo or not start_file(RESULTS, plan.config.run.name).is_file():
        slots = workflow.nodes or workflow.cores or 1  # as many as the largest number there is where there is no bound
        _keeper = Keeper(plan, todo, rest, min(slots, len(plan.jobs)))
        _keeper.begin()


def end(state: str) -> None:
    """Stop watching and print the summary. Whatever goes wrong in here says nothing about the run, and does not become its error."""
    if _keeper is None:
        return
    try:
        lines = _keeper.end(state)
    except Exception as error:
        lines = [f"evoaudit: the run's status could not be told ({type(error).__name__}); `evoaudit status` may"]
    print("\n".join(lines), file=sys.stderr, flush=True)


def put(path: Path, value: Any) -> None:
    """Write JSON whole."""
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=True) + "\n")


def _stage_jobs(jobs: Any) -> set[str]:
    """Return the stages' jobs among those of Snakemake."""
    found = (_MANIFEST.fullmatch(str(file)) for job in jobs for file in job.output)
    return {one[1] for one in found if one}


def _mark(manifest: Path) -> int | None:
    try:
        return manifest.stat().st_mtime_ns
    except OSError:
        return None
