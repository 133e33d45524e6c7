"""WebVoyager results: one folder a task, with the chat and the labelled screenshots.

`<run>/task<id>/interact_messages.json` is the chat; `screenshot<n>.png` (from 1) shows the page before the n-th reply, with
numbered marks drawn in. When a reply cannot be executed the runner complains without a new screenshot, but its counter goes
on: the next reply still acts on the last screenshot taken.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from evoaudit.sources import jsonio
from evoaudit.sources.base import Picture, Skipped, Step, Target, Trajectory

LICENSE: str | None = "Apache-2.0"
LAYOUT = "run/taskGitHub--0/interact_messages.json and screenshot1.png"

ACTIONS = {
    "Click": "click",
    "Type": "type",
    "Scroll": "scroll",
    "Wait": "wait",
    "GoBack": "back",
    "Google": "navigate",
    "ANSWER": "answer",
}

#: Verb → how the runner finds it in a reply; the first that matches is what it executes. A typed text ends at a ``]``.
_GRAMMAR = {
    "Click": re.compile(r"Click \[?(?P<mark>\d+)"),
    "Type": re.compile(r"Type \[?(?P<mark>\d+)\]?[; ]+\[?(?P<value>.[^\]]*)"),
    "Scroll": re.compile(r"Scroll \[?(?P<mark>\d+|WINDOW)\]?[; ]+\[?(?P<value>up|down)"),
    "Wait": re.compile(r"\AWait"),
    "GoBack": re.compile(r"\AGoBack"),
    "Google": re.compile(r"\AGoogle"),
    "ANSWER": re.compile(r"ANSWER[; ]+(?P<value>.+)", re.DOTALL),
}

_MESSAGES = "interact_messages.json"
_SCREENSHOT = re.compile(r"screenshot(\d{1,9})(_no_box)?\.png")
#: Matched from the start: the atomic group looks at the first beginning alone, so that many of them cost no more than one.
_GOAL = re.compile(r"(?>.*?Now given a task:)(.*?)Please interact with(?: (\S+))?", re.DOTALL)
_NOTE = re.compile(r"\s*Observation:\s*(note:.{0,2000}?)\s*please analyze", re.DOTALL)
_LABEL = re.compile(r"\[(\d{1,9})\]: (.*)", re.DOTALL)
_PARTS = re.compile(r"Thought:|Action:|Observation:")


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped]:
    """Yield one trajectory for each folder that holds a chat."""
    for folder, names in jsonio.walk(root):
        if _MESSAGES in names:
            yield _trajectory(root, folder, names)
        elif any(_SCREENSHOT.fullmatch(name) for name in names):
            yield Skipped(folder or ".", "no_messages", f"screenshots without {_MESSAGES}; the run stopped before it was saved")


def _trajectory(root: Path, folder: str, names: list[str]) -> Trajectory | Skipped:
    source_file = jsonio.join(folder, _MESSAGES)
    messages = jsonio.read_json(root, source_file)
    if isinstance(messages, Skipped):
        return messages
    if not isinstance(messages, list) or not any(_role(message) == "assistant" for message in messages):
        return Skipped(source_file, "no_replies", "not a chat with at least one reply")
    run, _, name = folder.rpartition("/")
    task_id = name.removeprefix("task") or None
    website = (task_id or "").rpartition("--")[0] or None
    found = Trajectory(
        native_id=folder or "task",
        steps=[],
        source_file=source_file,
        obs_phase="before",
        benchmark="webvoyager",
        task_id=task_id,
        agent="webvoyager",
        experiment=run or None,
        website=website,
        license=LICENSE,
        domain=website and website.lower(),
    )
    _fill(found, messages, _screenshots(folder, names))
    return found


def _fill(found: Trajectory, messages: list, screenshots: dict[int, Picture]) -> None:
    """Pair every reply with the last screenshot taken before it."""
    shown: int | None = None
    labels: dict[str, str] = {}
    url: str | None = None
    for index, message in enumerate(messages):
        role, said = _role(message), _text(message)
        if role == "user" and (shown is None or _observes(message, said)):
            shown, labels = len(found.steps) + 1, _labels(said)
            if not found.instruction and (goal := _GOAL.match(said[:100_000])):
                found.instruction, url = goal[1].strip() or None, goal[2]
            if found.steps and (note := _NOTE.match(said)):
                found.steps[-1].error = note[1]
        elif role == "user" and found.steps:
            found.steps[-1].error = said.strip() or None
        elif role == "assistant":
            step = _step(said, labels)
            step.source_step, step.url, url = str(len(found.steps) + 1), url, None
            step.before = None if shown is None else screenshots.get(shown, _expected(found, shown))
            step.page_text = jsonio.dump("\n".join(labels.values())) if labels else None
            found.steps.append(step)
        elif role != "system":
            found.skipped.append(("step", f"{found.source_file}#{index}", "unknown_role", None))
    if shown == len(found.steps) + 1:
        found.final = screenshots.get(shown, _expected(found, shown))
    used = {step.before.file for step in found.steps if step.before} | ({found.final.file} if found.final else set())
    for number in sorted(screenshots):
        if screenshots[number].file not in used:
            found.skipped.append(("picture", screenshots[number].file, "no_reply", "the chat has no reply to this screenshot"))
    if found.steps[-1].op == "answer":
        found.answer = found.steps[-1].value


def _step(reply: str, labels: dict[str, str]) -> Step:
    """Parse one reply."""
    parts = _PARTS.split(reply)
    if "Thought:" not in reply or "Action:" not in reply or len(parts) < 3:
        return Step(op="other", op_raw=reply)
    raw = parts[2].strip()
    if "ANSWER" in raw:  # an answer may hold the words the reply is split at
        raw = reply[reply.index(raw) :].strip()
    for verb, pattern in _GRAMMAR.items():
        if match := pattern.search(raw):
            fields = match.groupdict()
            value = fields.get("value")
            if verb == "ANSWER" and value.startswith("[") and value.endswith("]"):
                value = value[1:-1]
            if verb == "Google":
                value = "https://www.google.com/"
            label = labels.get(fields.get("mark") or "")
            return Step(op=ACTIONS[verb], op_raw=raw, value=value, reasoning=parts[1].strip(), target=Target(text=label) if label else None)
    return Step(op="other", op_raw=raw, reasoning=parts[1].strip())


def _screenshots(folder: str, names: list[str]) -> dict[int, Picture]:
    """Return number → picture; those without marks if every screen has one, since marks are renumbered from screen to screen."""
    kinds: dict[bool, dict[int, Picture]] = {False: {}, True: {}}
    for name in names:
        if match := _SCREENSHOT.fullmatch(name):
            kinds[bool(match[2])][int(match[1])] = Picture(jsonio.join(folder, name))
    marked, plain = kinds[False], kinds[True]
    return plain if plain and marked.keys() <= plain.keys() else marked


def _expected(found: Trajectory, number: int) -> Picture:
    return Picture(jsonio.join(found.source_file.removesuffix(_MESSAGES).rstrip("/"), f"screenshot{number}.png"))


def _labels(said: str) -> dict[str, str]:
    """Return mark → element as listed in an observation (``[n]: <tag> "text";`` between tabs); empty if it was left out."""
    found = {}
    for entry in said.split(";\t"):
        if match := _LABEL.search(entry):
            found[match[1]] = match[2].strip().removesuffix(";")
    return found


def _role(message: object) -> str | None:
    return jsonio.as_str(jsonio.as_dict(message).get("role"))


def _text(message: object) -> str:
    content = jsonio.as_dict(message).get("content")
    if isinstance(content, list):
        return "\n".join(filter(None, (jsonio.as_str(jsonio.as_dict(part).get("text")) for part in content)))
    return jsonio.as_str(content) or ""


def _observes(message: object, said: str) -> bool:
    """Return whether a user's message shows a new screen rather than complaining about the last reply."""
    content = jsonio.as_dict(message).get("content")
    return "Observation:" in said or any(jsonio.as_dict(part).get("type") == "image_url" for part in jsonio.as_list(content))
