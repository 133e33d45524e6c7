"""EvoGUI-Bench for Inspect: three tasks, and one of all three with EvoGain.

    inspect eval evogui_bench.py@evogui_bench --model openai/gpt-5

`-T probes=NAME` asks a further set of the data set, which has no EvoGain.
Needs inspect-ai and pyarrow. Set EVOGUI_BENCH to the data set's folder if this file does not lie in it.
"""

import base64
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, ContentImage, ContentText, GenerateConfig
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState, generate

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import evogui_scorer  # noqa: E402

DATA = Path(os.environ.get("EVOGUI_BENCH", HERE.parents[1])) / "data"
TASKS = ("t1", "t2", "t3")
#: Columns an answer is scored by, beside the task.
SCORED = ("answer", "answer_action", "answer_value", "options")


def sample(name: str, row: dict[str, Any]) -> Sample:
    """Return one row as a sample, asked in the words of its own prompt."""
    parts: list[Any] = [ContentText(text=row["prompt"])]
    for label, picture in zip(row["image_labels"], row["images"], strict=True):
        url = "data:image/png;base64," + base64.b64encode(picture["bytes"]).decode()
        parts += [ContentText(text=label), ContentImage(image=url)]
    system = [ChatMessageSystem(content=row["system"])] if row["system"] else []
    facts = {column: row[column] for column in SCORED if column in row}
    return Sample(
        id=f"{name}/{row['instance_id']}",
        input=[*system, ChatMessageUser(content=parts)],
        target=str(row.get("answer") or row.get("answer_action")),
        metadata={"task": name, "slice": row["slice"], "source": row["source"], "row": facts},
    )


def samples(names: tuple[str, ...], probes: str) -> list[Sample]:
    """Return the samples of some tasks of a set."""
    found = []
    for name in names:
        place = DATA / (f"{probes}_{name}" if probes else name)
        for group in pq.ParquetFile(place / "test.parquet").iter_batches(batch_size=32):
            found += [sample(name, row) for row in group.to_pylist()]
    return found


def said(state: TaskState) -> str | None:
    """Return the answer's text, or None where there is none: a cut, a filter and a refusal are no answers."""
    if not state.output.choices or state.output.stop_reason != "stop":
        return None
    content = state.output.message.content
    if not isinstance(content, str) and any(getattr(part, "refusal", None) for part in content):
        return None
    return state.output.completion


@metric
def evogui(chance: dict[str, float]) -> Metric:
    """The benchmark's own numbers."""

    def numbers(scores: list[SampleScore]) -> dict[str, float]:
        return evogui_scorer.summary([one.score.metadata for one in scores], chance)

    return numbers


def _scorer(chance: dict[str, float]) -> Scorer:
    @scorer(metrics=[evogui(chance)], name="evogui")
    def made() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            marks = evogui_scorer.mark(state.metadata["task"], state.metadata["row"], said(state))
            return Score(value=1 if marks["correct"] else 0, answer=str(marks["answer"]), metadata=marks)

        return score

    return made()


def _task(names: tuple[str, ...], probes: str) -> Task:
    found = samples(names, probes)
    chance = {} if probes else evogui_scorer.baseline([(one.metadata["task"], one.metadata["slice"]) for one in found])
    return Task(
        dataset=MemoryDataset(found, name="EvoGUI-Bench"),
        solver=generate(),
        scorer=_scorer(chance),
        config=GenerateConfig(temperature=0.0, max_tokens=4096),
    )


@task
def evogui_t1(probes: str = "") -> Task:
    """Temporal ordering."""
    return _task(("t1",), probes)


@task
def evogui_t2(probes: str = "") -> Task:
    """Inverse action and value."""
    return _task(("t2",), probes)


@task
def evogui_t3(probes: str = "") -> Task:
    """One-step successor."""
    return _task(("t3",), probes)


@task
def evogui_bench(probes: str = "") -> Task:
    """All three tasks."""
    return _task(TASKS, probes)
