"""Online-Mind2Web results: one folder a task, with `result.json` and the screenshots in `trajectory/`.

Version 1 keeps actions, thoughts and screenshots side by side, tied by order alone; version 2 names a screenshot in every action.
Version 2 documents its screenshots as taken before the action. Version 1 leaves it to the submitter, so it is read off the log:
one screenshot more than actions means the first precedes the first action; with as many as actions they show results if the
episode opens with a navigation (before it there was no page to show), else the state before. ``options["obs_phase"]`` overrules.
"""

import filecmp
import re
from collections.abc import Iterator
from pathlib import Path

from evoaudit.sources import jsonio
from evoaudit.sources.base import Annotation, Phase, Picture, Skipped, Step, Target, Trajectory
from evoaudit.sources.web import site

LICENSE: str | None = "CC-BY-4.0"
LAYOUT = "run/<task id>/result.json and trajectory/1_full_screenshot.png"

#: Verbs as submitters write them, in lower case.
ACTIONS = {
    "click": "click",
    "click_at": "click",
    "double_click": "double_click",
    "right_click": "right_click",
    "hover": "hover",
    "hover_at": "hover",
    "drag": "drag",
    "type": "type",
    "type_at": "type",
    "input": "type",
    "select": "select",
    "select_option": "select",
    "cancel": "other",
    "slider": "other",
    "press": "key",
    "press_key": "key",
    "scroll": "scroll",
    "navigate": "navigate",
    "goto": "navigate",
    "refresh": "navigate",
    "reload": "navigate",
    "go_back": "back",
    "go_forward": "forward",
    "navigate back": "back",
    "navigate forward": "forward",
    "navigate reload": "navigate",
    "wait": "wait",
    "task_complete": "answer",
    "answer": "answer",
    "terminate": "done",
    "done": "done",
}

_RESULT, _LABELS, _PICTURES = "result.json", "human_label.json", "trajectory"
_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_REVISION = re.compile(r"[0-9a-f]{32}_(\d{6})")

_STATUS = re.compile(r"\s*\|\s*(SUCCESS|FAILED)\s*\Z")
_ARROW = re.compile(r"([A-Z][A-Z_ ]{0,40})(?::\s*(.*))?", re.DOTALL)
_WORD = re.compile(r"\s*([A-Za-z]+(?:_[A-Za-z]+)*)")
_QUOTED = re.compile(r'"(.*)"', re.DOTALL)
_OPTION = re.compile(r'value\s{0,9}=\s{0,9}"([^"]*)"')
_ADDRESS = re.compile(r"\b[a-z][a-z+.-]{0,20}:\S+")
_NUMBER = r"(-?\d{1,9}(?:\.\d{1,9})?)"
_POINT = re.compile(rf"\(\s*(?:x\s*=\s*)?{_NUMBER}\s*,\s*(?:y\s*=\s*)?{_NUMBER}")


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped | Annotation]:
    """Yield one trajectory for each result, and the human labels where they are at hand."""
    with_result = set()
    for folder, names in jsonio.walk(root):
        if _RESULT in names:
            with_result.add(folder)
            yield _trajectory(root, folder, options.get("obs_phase") if options.get("obs_phase") in ("before", "after") else None)
        if _LABELS in names:
            yield from _annotations(root, folder)
        parent, _, last = folder.rpartition("/")
        if last == _PICTURES and parent not in with_result and any(name.lower().endswith(_SUFFIXES) for name in names):
            yield Skipped(parent or ".", "no_result", f"screenshots without {_RESULT}")


def _trajectory(root: Path, folder: str, phase: Phase | None) -> Trajectory | Skipped:
    source_file = jsonio.join(folder, _RESULT)
    result = jsonio.read_json(root, source_file)
    if isinstance(result, Skipped):
        return result
    actions = jsonio.as_dict(result).get("action_history")
    if not isinstance(actions, list):
        return Skipped(source_file, "no_actions", "not a result with an action_history")
    run, _, name = folder.rpartition("/")
    task_id = jsonio.as_str(result.get("task_id")) or name or None
    revision = _REVISION.fullmatch(task_id or "")
    found = Trajectory(
        native_id=folder or task_id or "task",
        steps=[],
        source_file=source_file,
        obs_phase="before",
        benchmark="online-mind2web",
        task_id=task_id,
        task_revision=revision and revision[1],
        agent=run.rpartition("/")[2] or None,
        experiment=run or None,
        instruction=jsonio.as_str(result.get("task")),
        license=LICENSE,
    )
    if any(isinstance(action, dict) for action in actions):
        found.obs_phase = phase or "before"
        found.answer = jsonio.as_str(result.get("agent_final_answer"))
        _version_2(root, found, folder, actions)
    else:
        found.answer = jsonio.as_str(result.get("final_result_response"))
        _version_1(root, found, folder, actions, jsonio.as_list(result.get("thoughts")), phase)
    found.website = next((name for step in found.steps if (name := site(step.url or step.value))), None)
    found.domain = found.website
    return found


def _version_1(root: Path, found: Trajectory, folder: str, actions: list, thoughts: list, phase: Phase | None) -> None:
    if thoughts and len(thoughts) != len(actions):
        detail = f"{len(thoughts)} thoughts for {len(actions)} actions; none used"
        found.skipped.append(("thoughts", found.source_file, "count_mismatch", detail))
        thoughts = []
    steps = [_step(found, index, action) for index, action in enumerate(actions)]
    for step, thought in zip(steps, thoughts, strict=False):
        if step:
            step.reasoning = jsonio.as_str(thought) or None
    pictures = _pictures(root, folder, found)
    places = _places(sorted(pictures), actions)
    if places is None:
        if pictures:
            detail = f"{len(pictures)} screenshots for {len(actions)} actions; which belongs to which is unknown"
            found.skipped += [("picture", pictures[number].file, "count_mismatch", detail) for number in sorted(pictures)]
        else:
            found.skipped.append(("picture", jsonio.join(folder, _PICTURES), "no_pictures", "the result has no screenshots"))
        places = {}
    placed = {places[number]: pictures[number] for number in places}
    if len(actions) in placed:
        found.obs_phase, found.final = "before", placed.pop(len(actions))
    elif phase:
        found.obs_phase = phase
    elif steps and steps[0] and steps[0].op == "navigate":
        found.obs_phase = "after"
    _join_twins(root, steps, placed)
    _attach(found, steps, placed)


def _version_2(root: Path, found: Trajectory, folder: str, actions: list) -> None:
    steps, placed = [], {}
    for index, action in enumerate(actions):
        record = jsonio.as_dict(action)
        step = _step(found, index, record.get("action"))
        steps.append(step)
        if step is None:
            continue
        step.source_step = jsonio.as_str(record.get("step")) or str(index)
        step.reasoning = jsonio.as_str(record.get("thought")) or None
        address = jsonio.as_str(record.get("url"))
        if step.op == "navigate":  # the schema puts the destination here
            step.value = address or step.value
        else:
            step.url = address
        if record.get("action_status") == "FAILED":
            step.error = "FAILED"
        name = jsonio.as_str(record.get("screenshot"))
        if name is None:
            continue
        file = jsonio.join(folder, f"{_PICTURES}/{name}")
        if len(name) > 255 or jsonio.confined(root, file) is None:
            found.skipped.append(("picture", f"{found.source_file}#{index}", "outside_root", "the screenshot is not a file name"))
        else:
            placed[index] = Picture(file)
    _attach(found, steps, placed)


def _attach(found: Trajectory, steps: list[Step | None], placed: dict[int, Picture]) -> None:
    """Give every step its picture, and put a gap where an action was lost."""
    lost = False
    for index, step in enumerate(steps):
        if step is None:
            lost = True
            continue
        step.gap_before, lost = lost, False
        if found.obs_phase == "after":
            step.after = placed.get(index)
        else:
            step.before = placed.get(index)
        found.steps.append(step)


def _join_twins(root: Path, steps: list[Step | None], placed: dict[int, Picture]) -> None:
    """Make one picture of those saved once for each action of a reply that held several.

    They are neighbours with the same bytes, for different actions under the same thought; a repeated action that changed
    nothing stays what it is.
    """
    for index in sorted(placed):
        last, step = (steps[index - 1], steps[index]) if index - 1 in placed else (None, None)
        if not (last and step and step.reasoning and step.reasoning == last.reasoning and step.op_raw != last.op_raw):
            continue
        paths = [jsonio.confined(root, placed[number].file) for number in (index - 1, index)]
        try:
            if all(paths) and filecmp.cmp(*paths, shallow=False):
                placed[index] = placed[index - 1]
        except OSError:
            continue


def _pictures(root: Path, folder: str, found: Trajectory) -> dict[int, Picture]:
    """Return first integer in the name → picture."""
    place = jsonio.join(folder, _PICTURES)
    names = next((names for _, names in jsonio.walk(Path(root, place))), [])
    pictures: dict[int, Picture] = {}
    for name in sorted(names, key=jsonio.natural):
        if not name.lower().endswith(_SUFFIXES):
            continue
        number = re.search(r"\d{1,9}", name)
        if number and int(number[0]) not in pictures:
            pictures[int(number[0])] = Picture(f"{place}/{name}")
        else:
            found.skipped.append(("picture", f"{place}/{name}", "duplicate_number" if number else "no_number", None))
    return pictures


def _places(numbers: list[int], actions: list) -> dict[int, int] | None:
    """Return picture number → index of its action (``len(actions)`` for the screen after the last), or None if it cannot be known."""
    if not numbers:
        return None
    last = jsonio.as_str(actions[-1]) if actions else None
    closed = last is not None and _parse(last)[0] in ("answer", "done")
    if numbers[-1] - numbers[0] + 1 == len(numbers):
        fits = len(numbers) - len(actions) in (0, 1) or (closed and len(numbers) == len(actions) - 1)
        return {number: number - numbers[0] for number in numbers} if fits else None
    first = 0 if numbers[0] == 0 else 1  # names with holes can only be the actions' own numbers
    return {number: number - first for number in numbers} if numbers[-1] - first <= len(actions) else None


def _step(found: Trajectory, index: int, action: object) -> Step | None:
    text = jsonio.as_str(action)
    if text is None:
        found.skipped.append(("step", f"{found.source_file}#{index}", "bad_action", "an action that is not text"))
        return None
    op, value, target = _parse(text)
    status = _STATUS.search(text[-100:])
    failed = status is not None and status[1] == "FAILED"
    return Step(op=op, op_raw=text, value=value or None, target=target, source_step=str(index), error="FAILED" if failed else None)


def _parse(raw: str) -> tuple[str, str | None, Target | None]:
    """Return operation, value and target of an action string, in whichever of the submitters' grammars it is."""
    text = raw[: -len(status[0])] if (status := _STATUS.search(raw[-100:])) else raw
    if text.startswith("TASK_COMPLETE"):
        return "answer", text.partition("ANSWER:")[2].strip(), None
    element, arrow, last = text.rpartition(" -> ")
    if arrow and (match := _ARROW.fullmatch(last)) and (op := ACTIONS.get(match[1].strip().lower().replace(" ", "_"))):
        return op, match[2], None if element == "page" else Target(text=element)
    described = text.partition(" -> ")[2]
    if (match := _ARROW.match(described)) and (op := ACTIONS.get(match[1].strip().lower())):
        return op, None, None
    word = _WORD.match(text)
    if word is None:
        return "other", None, None
    verb, rest = word[1].lower(), text[word.end() :].strip()
    op = ACTIONS.get(f"{verb} {rest}" if len(rest) < 20 else verb) or ACTIONS.get(verb, "other")
    point = _POINT.search(rest.partition('"')[0][:2000])
    value = None if described else _value(op, rest)  # a description tells of the value, it does not spell it
    return op, value, Target(x=float(point[1]), y=float(point[2])) if point else None


def _value(op: str, rest: str) -> str | None:
    if op == "navigate":
        return found[0] if (found := _ADDRESS.search(rest)) else None
    if op == "select":
        return found[1] if (found := _OPTION.search(rest)) else None
    if op in ("type", "key") and (found := _QUOTED.search(rest)):
        return found[1]
    return rest if op == "key" and " " not in rest else None


def _annotations(root: Path, folder: str) -> Iterator[Annotation | Skipped]:
    """Yield the human labels (0 failed, 1 succeeded, 2 could not be run): by task, or by task and agent."""
    source_file = jsonio.join(folder, _LABELS)
    labels = jsonio.read_json(root, source_file, unit="row")
    if isinstance(labels, Skipped):
        yield labels
        return
    rows = labels.items() if isinstance(labels, dict) else [(jsonio.as_dict(row).get("task_id"), row) for row in jsonio.as_list(labels)]
    for number, (task_id, answer) in enumerate(rows):
        by_agent = answer if isinstance(answer, dict) else {"": answer}
        given = {agent: label for agent, value in by_agent.items() if agent != "task_id" and (label := jsonio.as_int(value)) in (0, 1, 2)}
        if not isinstance(task_id, str) or not given:
            yield Skipped(f"{source_file}#{number}", "bad_label", "no task_id, or no label 0, 1 or 2", "row")
            continue
        for agent, label in given.items():
            native_id = jsonio.join(folder, f"{agent}/{task_id}" if agent else task_id)
            yield Annotation(native_id, "human", "success", str(label), number, "online-mind2web", agent or None, task_id)
