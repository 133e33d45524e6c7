"""Prompts as versioned files, and how one is filled in for one instance.

A prompt folder holds ``t1.yaml``, ``t2.yaml`` and ``t3.yaml``. Slots are written ``$name`` (``$$`` is a dollar sign). What
comes out names no provider: messages of text parts and picture parts, each picture after its label.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from string import Template
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evoaudit import store, yamlfile
from evoaudit.conditions import CONDITIONS, TASKS, Task, contradiction
from evoaudit.errors import InputError
from evoaudit.givenfile import read_given
from evoaudit.parse import LABELS, VOCABULARY
from evoaudit.resources import PROMPTS

Goal = Literal["shown", "withheld"]

#: Longest goal, and longest metadata value, a prompt carries, in characters.
GOAL_LIMIT, DATA_LIMIT = 2000, 200
#: Largest prompt file and largest paper text that is read, in bytes.
FILE_LIMIT, PAPER_LIMIT = 1 << 20, 32 << 20

_TASK_SLOTS = frozenset({"K", "options", "labels"})
_SLOTS = {
    "system": _TASK_SLOTS,
    "user": _TASK_SLOTS,
    "details": _TASK_SLOTS,
    "goal": frozenset({"goal"}),
    "metadata": _TASK_SLOTS | {"source", "domain"},
    "text_only_goal": _TASK_SLOTS,
    "after_only": _TASK_SLOTS,
    "images": frozenset({"position"}),
}
_PICTURES = {"t1": 1, "t2": 2, "t3": 3}
#: Conditions whose prompt says that something is left out, each in a field of its own name.
_INSTEAD = tuple(one.name for one in CONDITIONS.values() if one.pictures in ("none", "last"))


@dataclass(frozen=True, slots=True)
class Text:
    """A text part."""

    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """A picture part; ``black`` asks for a black picture of the same size."""

    image_id: str
    black: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """What one question shows under one condition; of a probe, a model or a solver gets to see nothing else."""

    task: Task
    #: Pictures the question is about, shown or not.
    k: int
    images: tuple[Image, ...]
    goal: str | None
    #: Source and domain, where the condition tells them.
    metadata: tuple[str | None, str | None] | None


@dataclass(frozen=True, slots=True)
class Message:
    """One message to a model."""

    role: Literal["system", "user"]
    parts: tuple[Text | Image, ...]


class Prompt(BaseModel):
    """One prompt file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1]
    task: Task
    title: str
    #: Where the wording comes from.
    origin: str
    system: str
    user: str
    #: Appended to the user text, for templates that leave the instance's particulars out.
    details: str | None = None
    #: Appended where the goal is known and shown.
    goal: str
    #: Stands in for pictures and goal in the metadata condition.
    metadata: str
    #: Stand in for the pictures left out in the conditions of these names; without one its condition cannot be asked.
    text_only_goal: str | None = None
    after_only: str | None = None
    #: Labels before the pictures; T1 has one, repeated for every position.
    images: tuple[str, ...]
    #: JSON schema of the answer.
    answer: dict[str, Any] = Field(alias="schema")


@dataclass(frozen=True, slots=True)
class PromptSet:
    """A prompt folder, read and checked."""

    name: str
    digest: str
    prompts: Mapping[Task, Prompt]

    def __getitem__(self, task: Task) -> Prompt:
        return self.prompts[task]


def load(folder: Path) -> PromptSet:
    """Read a prompt folder; every fault is one `InputError`."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(
            folder, "no such prompt folder", "name a folder under resources/prompts/, or import one with `evoaudit prompts import`"
        )
    return PromptSet(folder.name, digest(folder), {task: _load(folder / f"{task}.yaml", task) for task in TASKS})


def digest(folder: Path) -> str:
    """Return the sha256 over the prompt files' names and bytes."""
    total = hashlib.sha256()
    for task in TASKS:
        raw = _read(Path(folder) / f"{task}.yaml", FILE_LIMIT).encode()
        total.update(f"{task}.yaml\0{len(raw)}\0".encode() + raw)
    return total.hexdigest()


def _read(path: Path, limit: int) -> str:
    raw = read_given(path, limit, "give the right file", f"is larger than {limit >> 20} MiB", "give the right file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(path, f"is not UTF-8 text (byte {error.start})", "save it as UTF-8 text") from None


def _load(path: Path, task: Task) -> Prompt:
    data = yamlfile.parse(_read(path, FILE_LIMIT).encode(), path, "start from resources/prompts/evogui-v1", "UTF-8 text")
    if not isinstance(data, dict):
        raise InputError(path, "is not a mapping", "start from resources/prompts/evogui-v1")
    try:
        prompt = Prompt(**{str(name): value for name, value in data.items()})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: {field}", first["msg"], "start from resources/prompts/evogui-v1") from None
    if prompt.task != task:
        raise InputError(f"{path}: task", f"is '{prompt.task}'", f"write '{task}'")
    if len(prompt.images) != _PICTURES[task]:
        raise InputError(f"{path}: images", f"has {len(prompt.images)} labels", f"give {_PICTURES[task]}")
    for field in _INSTEAD:
        if getattr(prompt, field) is not None and task not in CONDITIONS[field].tasks:
            raise InputError(f"{path}: {field}", f"is not asked of {task.upper()}", "leave the field out")
    for field, text in _templates(prompt):
        template = Template(text)
        if not template.is_valid():
            raise InputError(f"{path}: {field}", "has a '$' that is no slot", "write '$$' for a dollar sign")
        if stray := sorted(set(template.get_identifiers()) - _SLOTS[field]):
            known = ", ".join(f"${slot}" for slot in sorted(_SLOTS[field]))
            raise InputError(f"{path}: {field}", f"has no slot '${stray[0]}'", f"slots here: {known}")
    return prompt


def _templates(prompt: Prompt) -> Iterator[tuple[str, str]]:
    for field in ("system", "user", "details", "goal", *_INSTEAD):
        if (text := getattr(prompt, field)) is not None:
            yield field, text
    for text in prompt.images:
        yield "images", text


def quote(text: str | None, limit: int) -> str:
    """Quote untrusted text as one JSON string of at most ``limit`` characters before escaping, so that it cannot leave its quotes."""
    return json.dumps(store.text(text or "unknown", limit), ensure_ascii=False)


def check(prompt_set: PromptSet, condition: str, goal: Goal = "shown") -> None:
    """Refuse a condition that these prompts, or the setting of the goal, cannot ask."""
    if condition not in CONDITIONS:
        raise InputError(f"condition '{condition}'", "is unknown", f"choose one of {', '.join(CONDITIONS)}")
    if fault := contradiction([condition], goal):
        raise InputError(f"condition '{condition}'", fault, "show the goal, or leave the condition out")
    for task in CONDITIONS[condition].tasks:
        if condition in _INSTEAD and getattr(prompt_set[task], condition) is None:
            raise InputError(
                f"condition '{condition}'",
                f"prompts '{prompt_set.name}' have no '{condition}' in {task}.yaml",
                "add the field, as in resources/prompts/evogui-v1, or import the prompts again",
            )


def view(
    task: Task, probe: Mapping[str, Any], *, condition: str = "full", goal: Goal = "shown", donor: Mapping[str, Any] | None = None
) -> View:
    """Return what a condition shows of a probe row; ``donor`` is the row that lends its pictures under `shuffled_images`."""
    how = CONDITIONS[condition]
    if task not in how.tasks or (donor is None) != (how.pictures != "other"):
        raise ValueError(f"{condition} does not ask {task} like this")
    images = probe["images"] if donor is None else donor["images"]
    return View(
        task,
        len(probe["images"]),
        tuple(Image(image_id, black=how.pictures == "black") for image_id in how.shown(images)),
        probe.get("goal") if how.goal and goal == "shown" else None,
        (probe["source"], probe["domain"]) if how.metadata else None,
    )


def render(
    prompt: Prompt,
    probe: Mapping[str, Any],
    *,
    condition: str = "full",
    goal: Goal = "shown",
    donor: Mapping[str, Any] | None = None,
    vocabulary: Sequence[str] = VOCABULARY,
    labels: Sequence[str] = LABELS,
) -> tuple[Message, ...]:
    """Return the messages that ask one probe row under one condition (EvoGUI A.9 for `black` and `metadata`)."""
    shown = view(prompt.task, probe, condition=condition, goal=goal, donor=donor)
    slots = _slots_of(shown.k, tuple(vocabulary), tuple(labels))
    paragraphs = [_fill(prompt.user, slots)]
    if prompt.details:
        paragraphs.append(_fill(prompt.details, slots))
    if condition in _INSTEAD:
        source, domain = shown.metadata or (None, None)
        text = getattr(prompt, condition)
        paragraphs.append(_fill(text, (*slots, ("source", quote(source, DATA_LIMIT)), ("domain", quote(domain, DATA_LIMIT)))))
    if shown.goal:
        paragraphs.append(Template(prompt.goal).substitute(goal=quote(shown.goal, GOAL_LIMIT)))
    parts: list[Text | Image] = [Text("\n\n".join(paragraphs))]
    names = prompt.images if len(prompt.images) > 1 else prompt.images * shown.k
    # Where pictures are left out, they are the first ones: those that are shown keep their labels.
    for position, image in enumerate(shown.images, start=len(names) - len(shown.images) + 1):
        parts += [Text(_fill(names[position - 1], (*slots, ("position", str(position))))), image]
    return _messages(_fill(prompt.system, slots), parts)


@lru_cache(maxsize=64)
def _slots_of(k: int, vocabulary: tuple[str, ...], labels: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return ("K", str(k)), ("options", ", ".join(map(json.dumps, vocabulary))), ("labels", " and ".join(labels))


@lru_cache(maxsize=1024)
def _fill(text: str, slots: tuple[tuple[str, str], ...]) -> str:
    """Fill in a template; kept, since all but the goals take few values, and every item is rendered several times."""
    return Template(text).substitute(dict(slots))


def _messages(system: str, parts: list[Text | Image]) -> tuple[Message, ...]:
    user = Message("user", tuple(parts))
    return (Message("system", (Text(system),)), user) if system else (user,)


#: Table of EvoGUI's appendix A.14 → task.
PAPER_TABLES: dict[int, Task] = {10: "t1", 11: "t2", 12: "t3"}
_ROWS = ("Task", "System", "User", "Attachments", "Parsed output")
#: What the paper's tables leave out of their templates: how slots are filled and pictures labelled.
_FILLING: dict[Task, dict[str, Any]] = {
    "t1": {"images": ["Screenshot $position:"]},
    "t2": {"images": ["Before:", "After:"], "details": "Options: $options"},
    "t3": {"images": ["Starting screen:", "Candidate A:", "Candidate B:"]},
}
_LEFT_OUT: dict[Task, dict[str, str]] = {
    task: {
        "metadata": "No screenshots are attached. Source: $source. Domain: $domain.",
        "text_only_goal": "No screenshots are attached.",
        **({"after_only": "The screenshot before the action is left out."} if task == "t2" else {}),
    }
    for task in TASKS
}


def import_paper(paper: Path, out: Path, name: str = "evogui-paper") -> Path:
    """Extract the prompt tables from a copy of the EvoGUI text into ``out/name`` and return that folder."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise InputError(f"--name {name}", "is not a folder name", "use letters, digits, '.', '_' and '-'")
    text = _read(Path(paper), PAPER_LIMIT)
    found = {task: _table(text, number, Path(paper)) for number, task in PAPER_TABLES.items()}
    source = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    folder = Path(out) / name
    with store.staging(folder) as scratch:
        for number, task in PAPER_TABLES.items():
            rows = found[task]
            data = {
                "format": 1,
                "task": task,
                "title": rows["Task"],
                "origin": f"Table {number} of the text with sha256 {source}",
                "system": _slots(rows["System"]),
                "user": _slots(rows["User"]),
                "goal": "User goal: $goal",
                **_LEFT_OUT[task],
                **_FILLING[task],
                "schema": shipped()[task].answer,
            }
            (scratch / f"{task}.yaml").write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=140), encoding="utf-8")
        load(scratch)
    return folder


def _table(text: str, number: int, paper: Path) -> dict[str, str]:
    """Return the rows of one prompt table; cells may run over several lines."""
    caption = re.search(rf"^[ \t]*Table {number}[:.]", text, re.MULTILINE)
    if caption is None:
        raise InputError(
            paper, f"has no line that starts with 'Table {number}:'", "give the text of the EvoGUI paper with its appendix A.14"
        )
    rows: dict[str, str] = {}
    waiting, current = list(_ROWS), None
    for line in text[caption.end() :].splitlines()[1:]:
        if re.match(r"[ \t]*(?:Table|Figure) \d+[:.]", line):
            break
        label = waiting[0] if waiting else None
        if label and (start := re.match(rf"[ \t]*{label}(?=\s|$)", line)):
            waiting.pop(0)
            current = label
            rows[current] = line[start.end() :].strip()
        elif current and line.strip():
            if current == _ROWS[-1]:
                break
            rows[current] = f"{rows[current]} {line.strip()}".strip()
    for label in ("Task", "System", "User"):
        if not rows.get(label):
            raise InputError(
                paper, f"Table {number} has no row '{label}'", "give the text of the EvoGUI paper with its tables whole, one row a line"
            )
    return rows


def _slots(cell: str) -> str:
    """Turn the paper's ``$K$`` into our slot and keep every other dollar sign as itself."""
    text = " ".join(cell.split())[:20_000]
    return "$K".join(part.replace("$", "$$") for part in text.split("$K$"))


@lru_cache(maxsize=1)
def shipped() -> PromptSet:
    """Return the prompts in our own words."""
    return load(PROMPTS / "evogui-v1")
