"""What was said of AgentRewardBench's episodes: the experts' table, and the released judges' replies.

``judgments/<benchmark>/<model>/<judge>/<task>.json`` names no experiment, which an episode's identity needs: it is the one whose
episode lies beside it or that an expert's answer names, else the one in the judgment's own folder of its episode.
"""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from evoaudit.sources import jsonio
from evoaudit.sources.base import JUDGE, Annotation, Skipped

#: Question → column of the experts' table.
QUESTIONS = {
    "success": "trajectory_success",
    "side_effect": "trajectory_side_effect",
    "optimality": "trajectory_optimality",
    "looping": "trajectory_looping",
}

#: Question → tag of a judge's reply.
_TAGS = {"success": "success", "side_effect": "side", "optimality": "optimal", "looping": "loop"}
#: Judges' words → the experts'.
_WORDS = {"success": "Successful", "failure": "Unsuccessful"}
_GRADE = re.compile(r"Reward:\s*([1-5])(?!\.?\d)")

#: Bytes of the table (265 kB as published) and of a judgment that are read at most.
_TABLE_LIMIT = 16 * 2**20
_JUDGMENT_LIMIT = 32 * 2**20
_REPLY_LIMIT = 1_000_000
_ANSWER_LIMIT = 500

#: (benchmark, model, task) → experiments.
Experiments = defaultdict[tuple[str, str, str], set[str]]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which episodes are asked for."""

    benchmarks: list[str] | None
    agents: list[str] | None
    #: Tasks of the chosen split, in their common spelling; None for all.
    tasks: frozenset[str] | None

    def wants(self, benchmark: str, agent: str, task: str) -> bool:
        """Return whether an episode is asked for."""
        chosen = matches(benchmark, self.benchmarks) and matches(agent, self.agents)
        return chosen and (self.tasks is None or common(task) in self.tasks)


def matches(name: str, patterns: list[str] | None) -> bool:
    """Return whether no patterns are given or one is the name or matches it; ``*`` matches slashes too, as in downloads."""
    return not patterns or any(
        name == pattern or fnmatchcase(name, pattern + "*" if pattern.endswith("/") else pattern) for pattern in patterns
    )


def common(task: str) -> str:
    """Return a task's name without what only some agents' runs add to it."""
    return task.replace(".improved", "").replace(".resized", "")


def experts(root: Path, file: str, selection: Selection, experiments: Experiments) -> Iterator[Annotation | Skipped]:
    """Yield each answer of each expert; nobody is merged, since two annotators of one episode may disagree."""
    raw = jsonio.read_bytes(root, file, _TABLE_LIMIT, unit="row")
    if isinstance(raw, Skipped):
        yield raw
        return
    text = raw.decode("utf-8-sig", "replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")
    rows = csv.reader(io.StringIO(text, newline=""))
    header: list[str] | None = None
    number = -1
    known: set[tuple[str, ...]] = set()
    while True:
        try:
            values = next(rows, None)
        except csv.Error as error:
            yield Skipped(f"{file}:{rows.line_num}", "bad_csv", str(error), "row")
            continue
        if values is None:
            return
        if header is None:
            header = [name.strip() for name in values]
            needed = ["annotator_name", "benchmark", "task_id", "model_name", "exp_name", *QUESTIONS.values()]
            if absent := [name for name in needed if name not in header]:
                yield Skipped(f"{file}:1", "missing_field", f"no column {', '.join(absent)}", "row")
                return
            continue
        number += 1
        if not any(value.strip() for value in values):
            continue
        item = f"{file}:{rows.line_num}"
        if len(values) != len(header):
            yield Skipped(item, "bad_record", f"{len(values)} cells, {len(header)} columns", "row")
            continue
        row = dict(zip(header, map(str.strip, values), strict=True))
        place = [row[name] for name in ("benchmark", "model_name", "exp_name", "task_id")]
        annotator = row["annotator_name"]
        if not annotator or not all(place):
            yield Skipped(item, "missing_field", "an empty cell where the annotator or the episode is named", "row")
            continue
        benchmark, model, experiment, task = place
        if not selection.wants(benchmark, model, task):
            continue
        said = (annotator, *place, *(row[column] for column in QUESTIONS.values()))
        if said in known:
            yield Skipped(item, "duplicate_row", f"{annotator} has given these very answers before", "row")
            continue
        known.add(said)
        experiments[benchmark, model, task].add(experiment)
        for question, column in QUESTIONS.items():
            yield Annotation("/".join(place), annotator, question, row[column] or None, number, benchmark, model, task)


def judge(root: Path, file: str, place: list[str], selection: Selection, experiments: Experiments) -> Iterator[Annotation | Skipped]:
    """Yield a released judge's answers about one episode."""
    if len(place) != 4:
        yield Skipped(file, "bad_place", "not at judgments/<benchmark>/<model>/<judge>/<task>.json", "row")
        return
    benchmark, model, name, task = place[0], place[1], place[2], place[3][: -len(".json")]
    failed = task.endswith("_error")
    task = task.removesuffix("_error")
    if not selection.wants(benchmark, model, task):
        return
    value = jsonio.read_json(root, file, _JUDGMENT_LIMIT, unit="row")
    if isinstance(value, Skipped):
        yield value
        return
    value = jsonio.as_dict(value)
    info = jsonio.as_dict(value.get("trajectory_info"))
    if failed or (value.get("error") is not None and value.get("response") is None):
        yield Skipped(file, "judge_error", (jsonio.as_str(value.get("error")) or "the judge gave no answer")[:300], "row")
        return
    answers = _answers(name, value, info)
    if answers is None:
        yield Skipped(file, "no_verdict", "nothing says whether the agent succeeded: no reply, one without an answer, or no reward", "row")
        return
    stated, known = _experiment(info, benchmark, model), experiments.get((benchmark, model, task), set())
    known = (known & stated or known) if known else stated
    if len(known) != 1:
        detail = f"{len(known)} experiments have such an episode" if known else "neither an episode nor an expert's answer names it"
        yield Skipped(file, "no_experiment", f"{detail}; fetch the episode or data/annotations.csv", "row")
        return
    (experiment,) = known
    identity = "/".join([benchmark, model, experiment, task])
    for question, answer in answers.items():
        if answer is None:
            yield Skipped(f"{file}#{question}", "no_answer", "the judge did not answer this question", "row")
        else:
            yield Annotation(identity, f"{JUDGE}{name}", question, answer, 0, benchmark, model, task)


def _experiment(info: dict, benchmark: str, model: str) -> set[str]:
    """Return the experiment that a judgment's folder of its episode names, where it lies under benchmark and model."""
    parts = (jsonio.as_str(info.get("trajectory_dir")) or "").split("/")
    return {third for first, second, third in zip(parts, parts[1:], parts[2:], strict=False) if (first, second) == (benchmark, model)}


def _answers(judge: str, value: dict, info: dict) -> dict[str, str | None] | None:
    """Return question → answer (None where a question asked is not answered), or None where the main question is not."""
    if judge == "functional":
        reward = jsonio.as_float(jsonio.as_dict(info.get("summary_info")).get("cum_reward"))
        return None if reward is None else {"success": _WORDS["success" if reward > 0.5 else "failure"]}
    choices = jsonio.as_list(jsonio.as_dict(value.get("response")).get("choices"))
    message = jsonio.as_dict(jsonio.as_dict(choices[0] if choices else None).get("message"))
    reply = (jsonio.as_str(message.get("content")) or "")[:_REPLY_LIMIT]
    if judge.startswith("aer"):
        status = next((line.partition(":")[2] for line in reply.split("\n") if line.startswith("Status:")), "").strip().strip("\"'.")
        return {"success": _WORDS.get(status.lower(), status)} if status else None
    if judge == "nnetnav":
        grade = _GRADE.search(reply)
        return {"success": _WORDS["success" if int(grade[1]) >= 4 else "failure"]} if grade else None
    said = {question: _inside(tag, reply) for question, tag in _TAGS.items()}
    return said if said["success"] else None


def _inside(tag: str, reply: str) -> str | None:
    """Return what stands inside a tag's first pair, if anything does."""
    start, end = reply.find(f"<{tag}>"), reply.find(f"</{tag}>")
    return reply[start + len(tag) + 2 : end].strip()[:_ANSWER_LIMIT] or None if 0 <= start < end else None
