"""OSWorld and OSWorld-Verified runs: a folder a task, ``traj.jsonl`` with a line an action, the screen AFTER each as a file.

Runs lie in folders or in zip archives, which are read in place (`archive`), and both may lie side by side. An archive
counts as a folder of its own name without ``.zip``: ids, agents and experiments are those its files would have if it were
unpacked into that folder, also where its one top folder repeats the name. So an archive and what was unpacked from it
there have the same ids, and the second is left out as a duplicate.

A task's folder is the one named by a uuid (below a known domain, where there is such a pair); the folder above is the
domain, the path before it the run: its last part the agent, but for parts that only number a run (``turn_1``), the rest
the experiment. Folders below the task are attempts and belong to the experiment too.

Where the runner saved the first screen (``step_0…``, ``initial_state…``) it precedes the first action. Action texts are
parsed, never run. Every dialect that writes its actions as text or plain objects is read: pyautogui source, the
``computer_13`` space, Claude's and OpenAI's tool calls, OpenCUA's ``computer.…`` calls, the hybrid runner's parsed
actions. Scores are those of ``result.txt``; where a task has none, those of the results' ``summary/results.json``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from evoaudit.errors import one_line
from evoaudit.sources import archive, jsonio
from evoaudit.sources.archive import Tree
from evoaudit.sources.base import Oracle, Picture, Skipped, Step, Target, Trajectory, graded
from evoaudit.sources.calls import Action, keys, pyautogui

LAYOUT = "<action space>/<observation>/<model>/<domain>/<task id>/traj.jsonl with step_*.png beside it, in folders or in *.zip"
LICENSE: str | None = "MIT"

DOMAINS = frozenset(
    {"chrome", "gimp", "libreoffice_calc", "libreoffice_impress", "libreoffice_writer", "multi_apps", "os", "thunderbird", "vlc", "vs_code"}
)

#: Verbs of the object dialects (case and underscores aside) and the bare words → operation. Calls are read by `calls.pyautogui`.
ACTIONS = {
    "wait": "wait",
    "done": "done",
    "fail": "fail",
    "terminate": "done",
    "screenshot": "wait",
    "zoom": "wait",
    "cursorposition": "wait",
    "click": "click",
    "leftclick": "click",
    "rightclick": "right_click",
    "middleclick": "other",
    "doubleclick": "double_click",
    "tripleclick": "double_click",
    "moveto": "hover",
    "move": "hover",
    "mousemove": "hover",
    "mousedown": "other",
    "mouseup": "other",
    "leftmousedown": "other",
    "leftmouseup": "other",
    "dragto": "drag",
    "drag": "drag",
    "leftclickdrag": "drag",
    "scroll": "scroll",
    "typing": "type",
    "type": "type",
    "press": "key",
    "key": "key",
    "keypress": "key",
    "keydown": "key",
    "keyup": "key",
    "holdkey": "key",
    "hotkey": "key",
    "answer": "answer",
    "calluser": "fail",
}

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_STAMP = re.compile(r"(\d{8})@(\d{6})(\d{1,6})?")
_NUMBERED = re.compile(r"(turn|run|trial|attempt|seed|round)?[ _-]?\d{1,3}", re.IGNORECASE)
_STEP = re.compile(r"step_(\d+)[_.]", re.ASCII)
_FIRST = re.compile(r"(step_0+|initial_state)[_.]")
_PICTURES = (".png", ".jpg", ".jpeg", ".webp")
_OTHER_SCHEMAS = ("status.json", "task_summary.json", "actions.json")
#: Files a runner leaves in a task's folder that say that it ran and are otherwise ignored.
_LITTER = frozenset({"recording.mp4", "runtime.log"})
_LINES, _RESULT = "traj.jsonl", "result.txt"
_SUMMARY = ("summary", "results.json")

#: The screen that actions and pictures are in, pixels, and the spaces a tool's own coordinates may be in instead.
SCREEN = (1920, 1080)
MODEL_SPACES = ((1920, 1080), (1280, 720), (1024, 768), (1280, 800), (1366, 768))

#: Bytes read at most of a results summary and of a task's definition.
_SUMMARY_LIMIT, _TASK_LIMIT = 2**26, 2**22


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped]:
    """Yield one trajectory a folder that holds ``traj.jsonl``, in folders first, then archive by archive; others are reported.

    ``options["files"]`` (patterns on archives, task folders or their ``traj.jsonl``, relative to the root; ``*`` crosses ``/``) and
    ``options["agents"]`` (patterns on the agent) leave out what they do not name. ``load`` opens pictures inside archives.
    """
    choice = _Choice(options)
    archives: list[str] = []
    yield from _tree(Tree(root), choice, archives)
    for file in archives:
        yield from _tree(Tree(root, file), choice)
    yield from choice.unmatched()


load = archive.load


@dataclass(frozen=True, slots=True)
class _Place:
    """What a task folder's path says."""

    agent: str | None
    experiment: str | None
    domain: str | None
    task: str


class _Choice:
    """Which runs the options ask for."""

    def __init__(self, options: dict) -> None:
        self.patterns = {name: [str(pattern) for pattern in options.get(name) or ()] for name in ("files", "agents")}
        self.used: set[tuple[str, str]] = set()
        self.agents: set[str] = set()

    @property
    def everything(self) -> bool:
        return not any(self.patterns.values())

    def file(self, *paths: str) -> bool:
        """Return whether one of a thing's paths is asked for."""
        return self._matches("files", *paths)

    def agent(self, name: str | None) -> bool:
        """Return whether an agent is asked for."""
        self.agents.add(name or "")
        return self._matches("agents", name or "")

    def unmatched(self) -> Iterator[Skipped]:
        """Say which patterns named nothing: a misspelt one must not pass for an empty data set."""
        for pattern in self.patterns["agents"]:
            if ("agents", pattern) not in self.used:
                known = ", ".join(sorted(self.agents)[:20]) or "none"
                yield Skipped(f"agents: {pattern}", "no_such_agent", f"no run of such an agent; found: {known}", "row")
        if self.patterns["files"] and not any(name == "files" for name, _ in self.used):
            yield Skipped("files: " + ", ".join(self.patterns["files"]), "no_such_file", "no archive or task folder of such a name", "row")

    def _matches(self, name: str, *texts: str) -> bool:
        patterns = self.patterns[name]
        for pattern in patterns:
            if any(fnmatchcase(text, pattern + "*" if pattern.endswith("/") else pattern) for text in texts):
                self.used.add((name, pattern))
                return True
        return not patterns


def _tree(tree: Tree, choice: _Choice, archives: list[str] | None = None) -> Iterator[Trajectory | Skipped]:
    """Yield the trajectories of a folder or of one archive; archives met in a folder are added to ``archives``."""
    base, faults = "", tree.refused()
    if tree.archive is not None:
        if not choice.file(tree.archive):
            return
        base = tree.archive[: -len(archive.SUFFIX)]
        yield from faults
    summaries = _Summaries(tree)
    bare: dict[str, Skipped] = {}
    attempted: set[str] = set()
    tasks = kept = 0
    for folder, names in tree.walk():
        if folder.rpartition("/")[2] == _SUMMARY[0] and _SUMMARY[1] in names:
            summaries.note(folder)
        if _LINES not in names:  # archives beside one are the task's own files
            inner = [jsonio.join(folder, name) for name in names if name.lower().endswith(archive.SUFFIX)]
            if archives is not None:
                archives.extend(inner)
            for file in inner if archives is None else ():
                faults.append(Skipped(tree.item(file), "nested_archive", "an archive inside an archive; unpack the outer one", "file"))
                yield faults[-1]
        fault = _no_task(folder, names)
        if _LINES not in names and fault is None:
            continue
        path = jsonio.join(base, folder)
        place = _place(path)
        tasks += 1
        summaries.seen(folder, place)
        if (archives is not None and not choice.file(jsonio.join(path, _LINES), path)) or not choice.agent(place.agent):
            continue
        if fault is None:
            kept += 1
            attempted.add(folder.rpartition("/")[0])
            yield _trajectory(_Folder(tree, folder, names), path, place, summaries)
        else:
            bare[folder] = Skipped(tree.item(folder) or ".", *fault)
    for one in (fault for folder, fault in bare.items() if folder not in attempted):
        results_only = tree.archive is not None and not kept and one.reason == "no_trajectory_file"
        yield Skipped(one.item, "other_schema", f"the archive holds results only: no {_LINES} in it") if results_only else one
    yield from summaries.rest(choice.everything)
    if tree.archive is not None and not tasks and not faults:
        yield Skipped(tree.archive, "no_trajectories", f"the archive holds no folder with {_LINES}")


def _no_task(folder: str, names: list[str]) -> tuple[str, str] | None:
    """Say why a task's folder is no trajectory, or None for one that is and for folders of other things."""
    if _LINES in names:
        return None
    is_task = _UUID.fullmatch(folder.rpartition("/")[2]) is not None
    other = next((name for name in _OTHER_SCHEMAS if name in names), None)
    if is_task and other:
        return "other_schema", f"no {_LINES}; {other} has another schema"
    if _RESULT in names:
        if other:
            return "other_schema", f"no {_LINES}; {other} has another schema"
        return "no_trajectory_file", f"no {_LINES} beside {_RESULT}"
    if is_task and any(name in _LITTER or name.lower().endswith(_PICTURES) for name in names):
        return "no_trajectory_file", f"no {_LINES} in the task's folder"
    return None


class _Folder:
    """One task's folder: its files by name."""

    def __init__(self, tree: Tree, path: str, names: list[str]) -> None:
        self.tree, self.path, self.names = tree, path, frozenset(names)
        self._numbered: dict[str, list[str]] | None = None

    def file(self, name: str) -> str:
        return jsonio.join(self.path, name)

    def screen(self, name: Any, number: str | None) -> Picture | None:
        """Return the picture a line names; where no such file is there, the only one with its step number."""
        if not isinstance(name, str) or not name:
            return None
        base = name.replace("\\", "/").rpartition("/")[2]
        if base not in self.names and number is not None:
            alike = self._pictures().get(number.lstrip("0") or "0", ())
            base = alike[0] if len(alike) == 1 else base
        return self.tree.picture(self.file(base if base in self.names else name))

    def first_screen(self) -> Picture | None:
        """Return the screen the runner saved before the first action, if it did."""
        saved = [name for name in sorted(self.names) if _FIRST.match(name) and name.lower().endswith(_PICTURES)]
        return self.tree.picture(self.file(saved[0])) if len(saved) == 1 else None

    def _pictures(self) -> dict[str, list[str]]:
        if self._numbered is None:
            self._numbered = {}
            for name in sorted(self.names):
                if (match := _STEP.match(name)) and name.lower().endswith(_PICTURES):
                    self._numbered.setdefault(match[1].lstrip("0") or "0", []).append(name)
        return self._numbered


def _trajectory(folder: _Folder, path: str, place: _Place, summaries: "_Summaries") -> Trajectory | Skipped:
    tree, file = folder.tree, folder.file(_LINES)
    found = Trajectory(
        path or "root",
        [],
        tree.archive or file,
        "after",
        benchmark="osworld",
        task_id=place.task,
        agent=place.agent,
        experiment=place.experiment,
        domain=place.domain,
        license=LICENSE,
    )
    errors: list[str] = []
    spots: list[tuple[Step, tuple[float, float]]] = []
    lost = False
    for number, line in tree.read_lines(file, unit="step"):
        item = f"{tree.item(file)}:{number}"
        if isinstance(line, Skipped):
            if number == 0:
                return Skipped(line.item, line.reason, line.detail)
            found.skipped.append(("step", line.item, line.reason, line.detail))
        elif not isinstance(line, dict):
            found.skipped.append(("step", item, "bad_record", "not a JSON object"))
        elif "action" not in line and (error := jsonio.as_str(line.get("Error")) or jsonio.as_str(line.get("error"))) is not None:
            errors.append(error)
            found.skipped.append(("step", item, "error_line", error))
        elif line.get("action") is None and line.get("parsed_action") is None:
            found.skipped.append(("step", item, "no_action", "a line without an action"))
        else:
            step = _step(line, folder)
            if not found.steps and not lost and step.source_step in {None, "0", "1"}:
                first = folder.first_screen()
                step.before = first if first != step.after else None
            step.gap_before, lost = lost and bool(found.steps), False
            found.steps.append(step)
            if (spot := _tool_spot(line.get("action"))) is not None:
                spots.append((step, spot))
            continue
        lost = True
    if not found.steps and errors:
        return Skipped(tree.item(file), "error_only", errors[0])
    if found.steps:
        _rescale(spots)
        found.answer = next((step.value for step in reversed(found.steps) if step.op in {"answer", "done"} and step.value), None)
        found.oracles = [_oracle(folder, errors, place, summaries)]
        _task(tree, found)
    return found


def _place(path: str) -> _Place:
    """Split a task folder's path into run, domain and task."""
    parts = path.split("/") if path else []
    pairs = [index for index in range(len(parts) - 1, -1, -1) if _UUID.fullmatch(parts[index])]
    at = next((index for index in pairs if index and parts[index - 1] in DOMAINS), pairs[0] if pairs else None)
    if at is None:  # renamed tasks: go by the ten domains
        at = next((index + 1 for index in range(len(parts) - 2, -1, -1) if parts[index] in DOMAINS), len(parts) - 1)
    if at < 0:
        return _Place(None, None, None, "root")
    run, attempt = parts[: max(0, at - 1)], parts[at + 1 :]
    who = next((index for index in range(len(run) - 1, -1, -1) if not _NUMBERED.fullmatch(run[index])), len(run) - 1)
    rest = [part for index, part in enumerate(run) if index != who] + attempt
    return _Place(run[who] if run else None, "/".join(rest) or None, parts[at - 1] if at else None, parts[at])


def _step(line: dict, folder: _Folder) -> Step:
    raw = line.get("action")
    action = Action("other") if raw is None else interpret(raw)
    if action.op == "other" and action.x is None and line.get("parsed_action") is not None:  # hybrid runners parse their own
        parsed = interpret(line["parsed_action"])
        action = action if parsed.op == "other" else parsed
    number = jsonio.as_str(line.get("step_num"))
    info = jsonio.as_dict(line.get("info"))
    if action.op == "other" and (info.get("fail") is True or info.get("done") is True):
        action = Action("fail" if info.get("fail") is True else "done", action.value)
    given = jsonio.as_dict(raw)
    said = jsonio.as_str(line.get("infeasible_message")) or jsonio.as_str(given.get("infeasible_message"))
    value = said if action.op == "fail" and not action.value else action.value
    error = jsonio.as_str(line.get("error")) or jsonio.as_str(info.get("error"))
    if error is None and line.get("exec_ok") is False:
        result = line.get("exec_result")
        error = jsonio.dump(result) if result not in (None, "", {}, []) else "the action was not executed"
    reasoning = _words(line.get("response")) or jsonio.as_str(line.get("natural_language_action"))
    reasoning = reasoning or _words(line.get("messages")) or _words(given.get("messages"))
    return Step(
        action.op,
        jsonio.dump(line["parsed_action"] if raw is None else raw),
        value,
        number,
        _target(action, line),
        reasoning,
        jsonio.as_str(line.get("url")),
        after=folder.screen(line.get("screenshot_file"), number),
        timestamp=_seconds(line.get("action_timestamp")),
        error=error,
    )


def _words(value: Any, depth: int = 4) -> str | None:
    """Return what a model said: a text, or the texts of its message blocks."""
    if isinstance(value, list) and depth:
        return "\n".join(said for one in value if (said := _words(one, depth - 1))) or None
    if isinstance(value, dict) and depth:
        return next((said for name in ("text", "content", "thinking", "summary") if (said := _words(value.get(name), depth - 1))), None)
    return jsonio.as_str(value) or None


def _target(action: Action, line: dict) -> Target | None:
    text = jsonio.as_str(jsonio.as_dict(line.get("info")).get("target")) or jsonio.as_str(line.get("target"))
    return None if action.x is None and text is None else Target(action.x, action.y, text=text)


def _tool_spot(raw: Any) -> tuple[float, float] | None:
    """Return the place in a tool call's own input, which is in the model's pixels."""
    given = jsonio.as_dict(jsonio.as_dict(raw).get("input"))
    place = [jsonio.as_float(value) for value in jsonio.as_list(given.get("start_coordinate") or given.get("coordinate"))]
    return (place[0], place[1]) if len(place) == 2 and None not in place else None


def _rescale(spots: list[tuple[Step, tuple[float, float]]]) -> None:
    """Give tool calls logged without their command a place on the screen, where the run's other calls tell the model's space.

    Those have both: the place in the model's pixels and, in the command, in the screen's. Only a space that fits them all,
    to the rounding, and is the only one to do so, is used.
    """
    both = [(spot, step.target) for step, spot in spots if step.op != "drag" and step.target is not None and step.target.x is not None]
    spaces = [space for space in MODEL_SPACES if all(_fits(space, spot, target) for spot, target in both)]
    if not both or len(spaces) != 1:
        return
    width, height = (screen / side for screen, side in zip(SCREEN, spaces[0], strict=True))
    for step, (x, y) in spots:
        if step.target is None or step.target.x is None:
            step.target = Target(float(int(x * width)), float(int(y * height)), text=step.target and step.target.text)


def _fits(space: tuple[int, int], spot: tuple[float, float], target: Target) -> bool:
    return abs(spot[0] * SCREEN[0] / space[0] - target.x) <= 1 and abs(spot[1] * SCREEN[1] / space[1] - target.y) <= 1


def interpret(raw: Any) -> Action:
    """Return the unified action of any dialect; what cannot be read is ``other``."""
    if isinstance(raw, list):
        raw = "\n".join(item for item in raw if isinstance(item, str)) if all(isinstance(item, str) for item in raw) else None
    if isinstance(raw, str):
        word = _word(raw)
        return Action(ACTIONS[word]) if word in {"wait", "done", "fail"} else pyautogui(raw) or Action("other")
    if not isinstance(raw, dict):
        return Action("other")
    if isinstance(raw.get("action"), str) and ("action_space" in raw or "call_id" in raw):
        return interpret(raw["action"])  # OpenAI: {"action_space": "pyautogui", "action": source, "call_id": …}
    if "input" in raw or "command" in raw:
        return _tool_call(raw)
    given = {**raw, **jsonio.as_dict(raw.get("parameters"))}
    return _object(given, str(raw.get("action_type") or raw.get("type") or raw.get("action") or ""))


def _tool_call(raw: dict) -> Action:
    """Read Claude's form: the command is in screen pixels, the tool's own coordinates are in the model's."""
    given = jsonio.as_dict(raw.get("input"))
    command = raw.get("command")
    action = interpret(command) if isinstance(command, str) and command.strip() else None
    named = _object({**given, "coordinate": None}, str(given.get("action") or ""))
    if action is None or action.op == "other":
        return Action(named.op, named.value, *((action.x, action.y) if action else (None, None)))
    return action


def _object(given: dict, verb: str) -> Action:
    """Read an action given as verb and fields (computer_13, OpenAI's and Claude's tools)."""
    op = ACTIONS.get(_word(verb), "other")
    place = jsonio.as_list(given.get("coordinate") or given.get("position"))
    x, y = jsonio.as_float(given.get("x")), jsonio.as_float(given.get("y"))
    if x is None and len(place) == 2:
        x, y = jsonio.as_float(place[0]), jsonio.as_float(place[1])
    value = None
    if op == "click":
        button, clicks = str(given.get("button") or "left").lower(), jsonio.as_int(given.get("num_clicks")) or 1
        op = {"left": "click", "primary": "click", "right": "right_click"}.get(button, "other")
        op = "double_click" if op == "click" and clicks > 1 else op
    elif op in {"type", "answer", "fail", "done"}:
        value = next((text for name in ("text", "answer", "reason") if (text := jsonio.as_str(given.get(name))) is not None), None)
        if _word(verb) == "terminate" and str(given.get("status")).lower() in {"failure", "fail", "failed", "infeasible"}:
            op = "fail"
    elif op == "key":
        value = keys(next((given[name] for name in ("keys", "key", "text") if given.get(name) is not None), None))
    elif op == "scroll":
        amounts = [jsonio.as_str(given.get(name)) for name in ("dx", "dy", "scroll_x", "scroll_y", "scroll_direction", "scroll_amount")]
        value = " ".join(amount for amount in amounts if amount is not None) or None
    elif op == "drag" and isinstance(given.get("path"), list):
        start = jsonio.as_dict(next(iter(given["path"]), None))
        x, y = jsonio.as_float(start.get("x")), jsonio.as_float(start.get("y"))
    return Action(op, value, x if y is not None else None, y if x is not None else None)


def _word(text: str) -> str:
    return text.strip().replace("_", "").replace(" ", "").lower() if len(text) < 200 else ""


def _oracle(folder: _Folder, errors: list[str], place: _Place, summaries: "_Summaries") -> Oracle:
    """Read ``result.txt``, or else the results' summary; without either the run is unfinished or crashed, which is not a FAIL."""
    if _RESULT not in folder.names:
        listed = summaries.oracle(folder.path, place)
        if listed is None:
            return Oracle("osworld", None, "error", "run_error") if errors else Oracle("osworld", None, "unscored", "no_result")
        return listed
    raw = folder.tree.read_bytes(folder.file(_RESULT), 10_000)
    if isinstance(raw, Skipped):
        return Oracle("osworld", None, "unscored", raw.reason)
    text = raw.decode("utf-8-sig", "replace").strip()
    truth = jsonio.as_bool(text)
    return graded("osworld", jsonio.as_float(text) if truth is None else float(truth), "bad_result")


@dataclass(slots=True)
class _Summary:
    """One ``summary/results.json``: what it says of each task, and the tasks met in the folders it covers."""

    item: str
    fault: Skipped | None = None
    #: (domain, task) → (row, verdict) in the file's order.
    rows: dict[tuple[str, str], list[tuple[int, Oracle]]] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    met: set[tuple[str | None, str]] = field(default_factory=set)


class _Summaries:
    """The results' summaries of one tree, each found from the tasks below its folder."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        #: Folder → the summary in it, or None.
        self.known: dict[str, _Summary | None] = {}

    def seen(self, folder: str, place: _Place) -> None:
        """Note that a task has a folder."""
        for summary in self._above(folder):
            summary.met.add((place.domain, place.task))

    def note(self, folder: str) -> None:
        """Note a summary's folder, so that its rows are accounted for even if no task lies beside it."""
        self._at(folder.rpartition("/")[0])

    def oracle(self, folder: str, place: _Place) -> Oracle | None:
        """Return what the nearest summary says of a task; where its rows differ none of them can be told to be this run's."""
        for summary in self._above(folder):
            rows = [oracle for _, oracle in summary.rows.get((place.domain or "", place.task), ())]
            if rows:
                same = len({(oracle.verdict, oracle.raw_reward) for oracle in rows}) == 1
                return rows[-1] if same else Oracle("osworld", None, "unscored", "ambiguous_summary")
        return None

    def rest(self, everything: bool) -> Iterator[Skipped]:
        """Yield what could not be read of the summaries and, if all was asked for, their rows about tasks that have no folder."""
        for folder in sorted(self.known):
            summary = self.known[folder]
            if summary is None:
                continue
            if summary.fault is not None:
                yield summary.fault
            yield from summary.skipped
            for place, rows in summary.rows.items():
                if everything and place not in summary.met:
                    for number, oracle in rows:
                        said = oracle.status if oracle.raw_reward is None else f"score {oracle.raw_reward}"
                        detail = f"{place[0]}/{place[1]} has no folder ({said})"
                        yield Skipped(f"{summary.item}#{number}", "no_trajectory", detail, "row")

    def _above(self, folder: str) -> Iterator[_Summary]:
        while folder:
            folder = folder.rpartition("/")[0]
            if (summary := self._at(folder)) is not None:
                yield summary

    def _at(self, folder: str) -> _Summary | None:
        if folder not in self.known:
            file = jsonio.join(folder, "/".join(_SUMMARY))
            self.known[folder] = self._read(file) if self.tree.is_file(file) else None
        return self.known[folder]

    def _read(self, file: str) -> _Summary:
        summary = _Summary(self.tree.item(file))
        value = self.tree.read_json(file, _SUMMARY_LIMIT, "row")
        if isinstance(value, Skipped) or not isinstance(value, list):
            summary.fault = value if isinstance(value, Skipped) else Skipped(summary.item, "other_schema", "not a list of results", "row")
            return summary
        for number, row in enumerate(value):
            row = jsonio.as_dict(row)
            domain, task = jsonio.as_str(row.get("application")), jsonio.as_str(row.get("task_id"))
            if domain is None or task is None:
                summary.skipped.append(Skipped(f"{summary.item}#{number}", "bad_record", "no application or task_id", "row"))
                continue
            score, message = jsonio.as_float(row.get("score")), jsonio.as_str(row.get("err_message"))
            if isinstance(row.get("score"), bool):
                score = float(row["score"])
            if row.get("status") == "error":
                oracle = Oracle("osworld", None, "error", f"run_error: {one_line(message, 300)}" if message else "run_error")
            else:
                oracle = graded("osworld", score, "no_score")
            summary.rows.setdefault((domain, task), []).append((number, oracle))
        return summary


def _task(tree: Tree, found: Trajectory) -> None:
    """Add goal and known infeasibility where the task set lies beside the runs, in their archive or in the source's folder."""
    for place in (tree,) if tree.archive is None else (tree, Tree(tree.root)):
        for folder in ("evaluation_examples/examples", "examples"):
            file = f"{folder}/{found.domain}/{found.task_id}.json"
            if not place.is_file(file):
                continue
            task = place.read_json(file, _TASK_LIMIT, "row")
            if isinstance(task, dict):
                found.instruction = jsonio.as_str(task.get("instruction"))
                func = jsonio.as_dict(task.get("evaluator")).get("func")
                if func == "infeasible" or func == ["infeasible"]:
                    found.reference = "infeasible"
                return
            fault = task if isinstance(task, Skipped) else Skipped(place.item(file), "bad_record", "not a JSON object", "row")
            found.skipped.append(("row", fault.item, fault.reason, f"no instruction: {fault.detail}"))


def _seconds(stamp: Any) -> float | None:
    """Return ``YYYYMMDD@HHMMSS[ffffff]`` as seconds since the epoch, its clock taken as UTC."""
    match = _STAMP.fullmatch(stamp) if isinstance(stamp, str) else None
    if match is None:
        return jsonio.as_float(stamp)
    day, time = match[1], match[2]
    fields = [int(part) for part in (day[:4], day[4:6], day[6:], time[:2], time[2:4], time[4:], (match[3] or "0").ljust(6, "0"))]
    try:
        return datetime(*fields, tzinfo=UTC).timestamp()
    except ValueError:
        return None
