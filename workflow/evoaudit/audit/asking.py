"""How a judge that is a language model is asked: the prompt, made from the codebook, and the request about one trajectory."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from evoaudit import store, yamlfile
from evoaudit.audit import evidence, fence, reply
from evoaudit.codebook import Codebook
from evoaudit.errors import InputError
from evoaudit.givenfile import read_given
from evoaudit.prompts import FILE_LIMIT, Image, Message, Text

FILE = "judge.yaml"
#: Longest part of an unusable reply that is quoted back, characters.
REPLY_LIMIT = 4000
_SLOTS = {
    "system": frozenset({"mark", "codebook", "answer"}),
    "user": frozenset({"mark", "steps", "pictures"}),
    "closing": frozenset({"range"}),
    "repair": frozenset({"fault"}),
}
#: What a block's mark is called where there is none yet.
_ANY_MARK = "a string of 16 letters and digits that is named with the log"


class Prompt(BaseModel):
    """The prompt file of a judge. Slots are written ``$name``; no text of a log ever fills one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1]
    title: str
    #: Where the wording comes from.
    origin: str
    system: str
    user: str
    closing: str
    #: Appended where the first reply could not be used.
    repair: str


@dataclass(frozen=True)
class Asked:
    """A prompt filled in from a codebook."""

    prompt: Prompt
    book: Codebook

    @property
    def system(self) -> str:
        """The system message: the same for every log, so that services can keep it."""
        slots = {"mark": _ANY_MARK, "codebook": codebook_words(self.book), "answer": reply.instructions(self.book)}
        return Template(self.prompt.system).substitute(slots)

    @property
    def digest(self) -> str:
        """16 hex digits of all that a judge is told beside the evidence."""
        told = [self.system, self.prompt.user, self.prompt.closing, self.prompt.repair, reply.schema(self.book)]
        return hashlib.sha256(store.canonical(told).encode()).hexdigest()[:16]


def load(folder: Path, book: Codebook) -> Asked:
    """Read a judge's prompt folder; every fault is one `InputError`."""
    path, example = Path(folder) / FILE, "start from resources/prompts/judge-v1"
    raw = read_given(path, FILE_LIMIT, f"name a folder that holds {FILE}", f"is larger than {FILE_LIMIT >> 20} MiB", "give the right file")
    try:
        prompt = Prompt.model_validate(yamlfile.parse(raw, path, example, "UTF-8 text"))
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{path}: {'.'.join(map(str, first['loc']))}", first["msg"], example) from None
    for name, slots in _SLOTS.items():
        template = Template(getattr(prompt, name))
        if not template.is_valid():
            raise InputError(f"{path}: {name}", "has a '$' that is no slot", "write '$$' for a dollar sign")
        if wrong := sorted(set(template.get_identifiers()) ^ slots):
            known = ", ".join(f"${slot}" for slot in sorted(slots))
            raise InputError(f"{path}: {name}", f"'${wrong[0]}' is no slot here, or is left out", f"slots here, all needed: {known}")
    return Asked(prompt, book)


def codebook_words(book: Codebook) -> str:
    """Return the codebook as a judge reads it: every code with its definition, what decides it and its example, and every rule."""
    lines = [f"Stage 1. {book.stage_1.question}", book.stage_1.note]
    for code in book.stage_1.codes:
        lines += _code(code)
    lines += ["", f"Stage 2. {book.stage_2.question}", book.stage_2.note]
    for tier in book.stage_2.tiers:
        lines.append(f"Tier {tier.tier}, {tier.name}: {tier.meaning}.")
        lines += [line for code in book.stage_2.codes if code.tier == tier.tier for line in _code(code)]
    lines.append("Outside the tiers:")
    lines += [line for code in book.stage_2.codes if code.tier is None for line in _code(code)]
    lines += ["", "Rules for cases between two codes:", *(f"- {boundary.rule}" for boundary in book.boundaries)]
    return "\n".join(lines)


def _code(code: Any) -> list[str]:
    lines = [f"- {code.code} ({code.name}): {code.definition}"]
    lines += [f"  - {rule}" for rule in code.decide]
    return lines + ([f"  For example: {code.example}"] if code.example else [])


def messages(asked: Asked, case: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return the messages that ask about one case, see `cases`; the case's own texts stand in blocks and nowhere else."""
    sign, steps = case["mark"], case["steps"]
    shown = [screen for screen in case["screens"] if screen["fate"] == evidence.SHOWN]
    pictures = "no pictures" if case["policy"] == "none" else f"{len(shown)} of {len(case['screens'])} pictures" if shown else "no pictures"
    last = len(steps) - 1
    parts: list[Text | Image] = [
        Text(Template(asked.prompt.user).substitute(mark=sign, steps=_count(len(steps), "step"), pictures=pictures)),
        Text(f"The task:\n{fence.block('task', sign, case['task'])}" if case["task"] else "The log states no task."),
    ]
    timeline = _Timeline(case)
    for place, step in enumerate(steps):
        if place in case["breaks"]:
            parts.append(Text("Here the log has a gap: what happened between these steps is not known."))
        parts += timeline.at("before", place)
        parts.append(Text(f"Step {place}:\n{fence.block('step', sign, step)}"))
        parts += timeline.at("after", place)
    if case["end"]:
        parts.append(Text(f"After the last step:\n{fence.block('end', sign, case['end'])}"))
    parts.append(
        Text(f"The agent's answer:\n{fence.block('answer', sign, case['answer'])}" if case["answer"] else "The agent gave no answer.")
    )
    span = "its one step has the number 0" if last == 0 else f"its steps have the numbers 0 to {last}"
    parts.append(Text(Template(asked.prompt.closing).substitute(range=span)))
    if "fault" in case:
        quoted = fence.block("reply", sign, case["reply"][:REPLY_LIMIT])
        parts.append(Text(f"{Template(asked.prompt.repair).substitute(fault=case['fault'])}\n{quoted}"))
    return Message("system", (Text(asked.system),)), Message("user", tuple(_joined(parts)))


class _Timeline:
    """The screens of a case, told where they belong."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self._policy = case["policy"]
        self._screens = {
            (("after", one["after"]) if one["after"] is not None else ("before", one["before"])): one for one in case["screens"]
        }
        shown = [one for one in case["screens"] if one["fate"] == evidence.SHOWN]
        self._number = {id(one): number for number, one in enumerate(shown, start=1)}
        self._logged = case["logged"]

    def at(self, when: str, place: int) -> list[Text | Image]:
        """Return what is to be said and shown right before or after a step."""
        if self._policy == "none":
            return []
        screen = self._screens.get((when, place))
        if screen is None:
            if when == "before":
                return []
            if not self._logged[place]:
                return [Text(f"No screen after step {place} was logged.")]
            return [Text(f"The screen after step {place} is the same picture as the one before it.")]
        where = f"the screen {when} step {place}"
        if screen["fate"] == evidence.SHOWN:
            return [Text(f"Picture {self._number[id(screen)]}, {where}:"), Image(screen["image_id"])]
        why = {
            evidence.STILL: "is not shown: it does not visibly differ from the one before it",
            evidence.LEFT_OUT: "is not shown, to keep the number of pictures within bounds; nothing follows from that",
            evidence.LOST: "cannot be shown: its picture is lost",
        }[screen["fate"]]
        return [Text(f"{where[:1].upper()}{where[1:]} {why}.")]


def _joined(parts: Sequence[Text | Image]) -> list[Text | Image]:
    """Join texts that follow each other."""
    found: list[Text | Image] = []
    for part in parts:
        if isinstance(part, Text) and found and isinstance(found[-1], Text):
            found[-1] = Text(f"{found[-1].text}\n\n{part.text}")
        else:
            found.append(part)
    return found


def _count(n: int, word: str) -> str:
    return f"{n} {word}{'s' * (n != 1)}"
