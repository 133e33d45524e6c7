"""OpenCUA sessions: AgentNetBench (one JSON file each) and AgentNet (JSON Lines); people's demonstrations on desktops.

A step names the last distinct screen before its action and gives the action as pyautogui source, with coordinates as shares of
the screen. Steps were thinned out, so their numbers have holes. Pictures lie beside the file or in `images/`.
"""

from collections.abc import Iterator
from pathlib import Path

from evoaudit.sources import calls, jsonio
from evoaudit.sources.base import Annotation, Picture, Skipped, Step, Target, Trajectory
from evoaudit.sources.pixels import png_size

LICENSE: str | None = "MIT"
LAYOUT = "<session>.json and images/<session>_0.png"

#: Calls; several in one step are joined where people would call them one action.
ACTIONS = {
    "pyautogui.click": "click",
    "pyautogui.doubleClick": "double_click",
    "pyautogui.rightClick": "right_click",
    "pyautogui.middleClick": "other",
    "pyautogui.moveTo": "hover",
    "pyautogui.dragTo": "drag",
    "pyautogui.scroll": "scroll",
    "pyautogui.hscroll": "scroll",
    "pyautogui.write": "type",
    "pyautogui.press": "key",
    "pyautogui.hotkey": "key",
    "computer.triple_click": "double_click",
    "computer.wait": "wait",
    "computer.terminate": "done",
}


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped | Annotation]:
    """Yield one trajectory a session, and what the data set's own reviewer said of it."""
    for file in jsonio.files(root, ".json"):
        session = jsonio.read_json(root, file)
        yield from [session] if isinstance(session, Skipped) else _session(root, file, file.removesuffix(".json"), file, session, 0)
    for file in jsonio.files(root, ".jsonl"):
        yield from _lines(root, file)


def _lines(root: Path, file: str) -> Iterator[Trajectory | Skipped | Annotation]:
    seen: set[str] = set()
    stem = file.rpartition(".")[0]
    for place, (line, session) in enumerate(jsonio.read_lines(root, file)):
        if isinstance(session, Skipped):
            yield session
            continue
        if place == 0 and _steps(session) is None:
            yield Skipped(file, "not_sessions", "lines without traj or steps")
            return
        native_id = f"{stem}/{jsonio.as_str(jsonio.as_dict(session).get('task_id')) or line}"
        if native_id in seen:  # some tasks were demonstrated more than once
            native_id = f"{native_id}#{line}"
        seen.add(native_id)
        yield from _session(root, file, native_id, f"{file}:{line}", session, line)


def _steps(session: object) -> list | None:
    record = jsonio.as_dict(session)
    steps = record.get("steps", record.get("traj"))
    return steps if isinstance(steps, list) else None


def _session(root: Path, file: str, native_id: str, item: str, session: object, row: int) -> Iterator[Trajectory | Skipped | Annotation]:
    steps = _steps(session)
    if steps is None:
        yield Skipped(item, "not_a_session", "no steps")
        return
    record = jsonio.as_dict(session)
    about = jsonio.as_dict(record.get("meta_info"))
    domain = jsonio.as_str(about.get("domain")) or jsonio.as_str(record.get("domain"))
    places = [jsonio.as_str(place) for name in ("websites", "applications") for place in jsonio.as_list(about.get(name))]
    goal = next(
        (
            text
            for name in ("user_task_description", "instruction", "natural_language_task", "high_level_task_description")
            if (text := jsonio.as_str(record.get(name)))
        ),
        None,
    )
    found = Trajectory(
        native_id=native_id,
        steps=[],
        source_file=file,
        obs_phase="before",
        benchmark="agentnet",
        task_id=jsonio.as_str(record.get("task_id")) or native_id,
        domain=domain and domain.lower(),
        website=next(filter(None, places), None),
        instruction=goal,
        license=LICENSE,
    )
    lost = False
    for index, logged in enumerate(steps):
        step = _step(root, file, found, f"{item}#{index}", jsonio.as_dict(logged))
        if step:
            step.gap_before = lost and bool(found.steps)
            found.steps.append(step)
        lost = step is None
    yield found
    if (done := jsonio.as_bool(record.get("task_completed"))) is not None:
        yield Annotation(native_id, "summarizer", "task_completed", str(done).lower(), row, "agentnet", None, found.task_id)


def _step(root: Path, file: str, found: Trajectory, item: str, logged: dict) -> Step | None:
    thoughts = jsonio.as_dict(logged.get("inner_monologue", logged.get("value")))
    code = jsonio.as_str(logged.get("action", thoughts.get("code")))
    if code is None:
        found.skipped.append(("step", item, "no_action", "a step without an action"))
        return None
    action = calls.pyautogui(code) or calls.Action("other")
    said = [jsonio.as_str(thoughts.get(name)) for name in ("thought", "low_level_instruction", "action")]
    picture = _picture(root, file, found, item, logged.get("image"))
    if action.op in ("done", "fail"):
        found.answer = action.value
    return Step(
        op=action.op,
        op_raw=code,
        value=action.value,
        source_step=jsonio.as_str(logged.get("step_num", logged.get("index"))),
        target=_target(root, action, logged, picture),
        reasoning="\n".join(filter(None, said)) or None,
        before=picture,
    )


def _picture(root: Path, file: str, found: Trajectory, item: str, name: object) -> Picture | None:
    """Return the picture where it lies, or where it should."""
    if name is None:
        return None
    folder = file.rpartition("/")[0]
    folders = (jsonio.join(folder, "images"), folder, jsonio.join(folder.rpartition("/")[0], "images"))
    places = [jsonio.join(place, str(name)) for place in folders]
    if not isinstance(name, str) or name.startswith("/") or jsonio.confined(root, places[0]) is None:
        found.skipped.append(("picture", item, "outside_root", "the picture's name is unsafe or leads out of the source's folder"))
        return None
    return Picture(next((place for place in places if jsonio.is_file(root, place)), places[0]))


def _target(root: Path, action: calls.Action, logged: dict, picture: Picture | None) -> Target | None:
    """Return pointer and box in pixels; shares of a picture whose size is unknown give none."""
    x, y = action.x, action.y
    boxes = [
        box
        for truth in jsonio.as_list(logged.get("ground_truth_actions"))
        for box in jsonio.as_list(jsonio.as_dict(jsonio.as_dict(truth).get("metadata")).get("bboxes"))
    ]
    shares = [jsonio.as_float(side) for side in jsonio.as_list(jsonio.as_dict(boxes[0] if boxes else None).get("rel_bbox"))]
    if x is None and not shares:
        return None
    absolute = x is not None and max(abs(x), abs(y)) > 1
    size = png_size(root, picture.file) if picture else None
    if size is None:
        return Target(x=x, y=y) if absolute else None
    width, height = size
    pointer = (None, None) if x is None else (x, y) if absolute else (x * width, y * height)
    if len(shares) != 4 or None in shares:
        return Target(*pointer)
    return Target(*pointer, shares[0] * width, shares[1] * height, shares[2] * width, shares[3] * height)
