"""AgentLab studies of BrowserGym tasks: a folder an episode, a pickle a step, the screen BEFORE each action beside it.

``exp_args.pkl`` says which task, seed and agent; where it cannot be read the folder's name does. ``step_<k>.pkl.gz`` holds
observation k and the action that follows it; the last has no action and is the screen at the end. The error an observation
reports belongs to the action before it. ``summary_info.json`` has the reward. Folders whose name begins with ``_`` were
superseded by a later try.

Pickles are read as data (see `unpickle`). AgentRewardBench publishes such episodes as JSON: what the two share is read by
the same functions.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evoaudit.sources import browsergym_log as gym
from evoaudit.sources import jsonio, unpickle, unpickle_screens
from evoaudit.sources.agentrewardbench_answers import matches
from evoaudit.sources.base import COSTS, Oracle, Picture, Skipped, Step, Target, Trajectory, cost, graded
from evoaudit.sources.browsergym_log import ACTIONS as ACTIONS
from evoaudit.sources.calls import parse_calls
from evoaudit.sources.unpickle_screens import load as load
from evoaudit.sources.unpickle_values import get, listed

LAYOUT = "<study>/<time>_<agent>_on_<task>_<seed>/step_<k>.pkl.gz, exp_args.pkl and summary_info.json"
LICENSE: str | None = None

_STEP = re.compile(r"step_(\d{1,6})\.pkl(?:\.gz)?")
_SCREENS = (".png", ".jpg", ".jpeg", ".webp")
#: ``<date>_<time>_<agent>_on_<task>_<seed>``, in older studies with six more digits of a hash.
_FOLDER = re.compile(r"(?:\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_)?(.+?)_on_(.+?)_(\d+)(?:_[0-9a-f]{6})?")
#: Roles that say nothing unless they have a name.
_SILENT = frozenset({"generic", "none", "LineBreak"})
_TREE_LIMIT = 50_000
_TREE_TEXT_LIMIT = 1_000_000
_TEXT_LIMIT = 100_000


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped]:
    """Yield the episodes in the order of their folders. ``options`` may select ``benchmarks``, ``agents`` and ``files`` by patterns."""
    for folder, names in jsonio.walk(root):
        steps = sorted((int(match[1]), name) for name in names if (match := _STEP.fullmatch(name)))
        if not steps and "exp_args.pkl" not in names and "summary_info.json" not in names:
            continue
        if options.get("files") and not any(matches(jsonio.join(folder, name), options["files"]) for name in names):
            continue
        if any(part.startswith("_") for part in folder.split("/")):
            yield Skipped(folder, "superseded", "its folder's name begins with '_': a later try took its place")
            continue
        found = _described(root, folder, names)
        if not matches(found.benchmark or "", options.get("benchmarks")) or not matches(found.agent or "", options.get("agents")):
            continue
        yield _trajectory(root, folder, names, steps, found)


def _described(root: Path, folder: str, names: list[str]) -> Trajectory:
    """Return an episode without its steps: what ``exp_args.pkl`` and the folder's name say of it."""
    match = _FOLDER.fullmatch(folder.rpartition("/")[2])
    agent, task, seed = match.groups() if match else (None, None, None)
    parents = folder.rpartition("/")[0]
    found = Trajectory(folder or "root", [], jsonio.join(folder, "exp_args.pkl"), "before", license=LICENSE)
    if "exp_args.pkl" in names:
        args = unpickle.read(root, found.source_file, "row")
        if isinstance(args, Skipped):
            found.skipped.append((args.unit, args.item, args.reason, args.detail))
        else:
            env, agent_args = get(args, "env_args"), get(args, "agent_args")
            task = jsonio.as_str(get(env, "task_name")) or task
            seed = jsonio.as_str(get(env, "task_seed")) or seed
            agent = _agent(agent_args) or agent
            parents = parents or (jsonio.as_str(get(args, "exp_dir")) or "").rstrip("/").rpartition("/")[0].rpartition("/")[2]
    task = task.removeprefix("browsergym/") if task else None
    found.task_id, found.task_revision, found.agent = task, f"seed {seed}" if seed else None, agent
    found.benchmark, found.experiment = (task or "").partition(".")[0] or None, parents or None
    return found


def _agent(args: Any) -> str | None:
    """Return the agent's name, with that of its model where the name leaves it out."""
    name, model = jsonio.as_str(get(args, "agent_name")), jsonio.as_str(get(get(args, "chat_model_args"), "model_name"))
    if name and model and not any(part in name for part in (model.replace("/", "_"), model.rpartition("/")[2])):
        return f"{name}-{model.replace('/', '_')}"
    return name or model


def _trajectory(root: Path, folder: str, names: list[str], steps: list[tuple[int, str]], found: Trajectory) -> Trajectory | Skipped:
    summary = jsonio.read_json(root, jsonio.join(folder, "summary_info.json"), 2**24, "row") if "summary_info.json" in names else {}
    if isinstance(summary, Skipped):
        found.skipped.append((summary.unit, summary.item, summary.reason, summary.detail))
    error = jsonio.as_str(get(summary, "err_msg"))
    if not steps:
        detail = f"the run broke off: {error[:200]}" if error else "it was not run, or its steps were not saved"
        return Skipped(folder or ".", "crashed" if error else "no_steps", f"no step_<k>.pkl.gz; {detail}")
    found.source_file = jsonio.join(folder, steps[0][1])
    found.instruction = _goal(root, folder, names)
    lost = False
    for index, (number, name) in enumerate(steps):
        file = jsonio.join(folder, name)
        info = unpickle.read(root, file, "step")
        if not isinstance(info, Skipped) and type(get(info, "obs")) is not dict:
            info = Skipped(file, "bad_record", "a step without an observation", "step")
        if isinstance(info, Skipped):
            found.skipped.append((info.unit, info.item, info.reason, info.detail))
            lost = True
            continue
        obs = get(info, "obs")
        follows = not lost and (not found.steps or number - int(found.steps[-1].source_step or 0) == 1)
        if found.steps and follows:
            found.steps[-1].error = jsonio.as_str(obs.get("last_action_error")) or None
        found.instruction = found.instruction or _asked(obs)
        action = jsonio.as_str(get(info, "action"))
        screen = _screen(root, folder, names, number, file, obs)
        tree = _tree(obs)
        if action is None and index == len(steps) - 1:
            found.final = screen if follows else None
            found.final_text, found.final_url = gym.page_text({"axtree": tree}), _url(obs)
            continue
        if action is None:
            found.skipped.append(("step", file, "no_action", "a record without an action before the last"))
            lost = True
            continue
        step = _step(root, number, info, action, tree, screen)
        step.gap_before, lost = lost and bool(found.steps), False
        found.steps.append(step)
    gym.close(found)
    found.oracles = [_oracle(found.benchmark or "browsergym", summary, error)]
    found.cost = cost(summary, *COSTS) if isinstance(summary, dict) else None
    return found


def _oracle(name: str, summary: Any, error: str | None) -> Oracle:
    """Read the reward; a run that broke off is no FAIL, and cannot undo a success."""
    if isinstance(summary, Skipped):
        return graded(name, None, summary.reason)
    found = graded(name, jsonio.as_float(get(summary, "cum_reward")), "no_reward" if summary else "no_summary")
    if found.verdict != "pass" and error:
        return Oracle(name, found.raw_reward, "error", "harness_error")
    return found


def _goal(root: Path, folder: str, names: list[str]) -> str | None:
    """Return the goal's texts from its own file; pictures that belong to it are left out."""
    name = next((name for name in ("goal_object.pkl.gz", "goal_object.pkl") if name in names), None)
    goal = unpickle.read(root, jsonio.join(folder, name)) if name else None
    return None if isinstance(goal, Skipped) else _texts(goal)


def _asked(obs: dict) -> str | None:
    """Return the goal as an observation has it."""
    asked = next((message for message in listed(obs.get("chat_messages")) if get(message, "role") == "user"), None)
    return _texts(obs.get("goal_object")) or jsonio.as_str(obs.get("goal")) or jsonio.as_str(get(asked, "message"))


def _texts(content: Any) -> str | None:
    """Return the text of a chat message or goal, which is a text or a list of parts."""
    if type(content) is str:
        return content or None
    parts, size = [], 0
    for part in listed(content)[:1000]:
        text = jsonio.as_str(get(part, "text")) if get(part, "type") == "text" else None
        if text and size < _TEXT_LIMIT:
            parts.append(text[:_TEXT_LIMIT])
            size += len(text)
    return "\n".join(parts) or None


def _step(root: Path, number: int, info: Any, action: str, tree: str, screen: Picture | None) -> Step:
    calls, obs = parse_calls(action) or [], get(info, "obs")
    op, value, (x, y) = gym.action(calls)
    bid, boxes = gym.bid(calls), obs.get("extra_element_properties")
    boxes = boxes if type(boxes) is dict else {}
    page = _sides(boxes, "0")
    scale = gym.scale(root, screen, page[2] if page else None)
    left, top, width, height = [side * scale for side in _sides(boxes, bid)] or [None] * 4
    if x is not None and y is not None:
        x, y = x * scale, y * scale
    elif left is not None and top is not None and width is not None and height is not None:
        x, y = left + width / 2, top + height / 2
    target = Target(x, y, left, top, width, height, gym.node({"axtree": tree}, bid) if bid else None)
    when = jsonio.as_float(get(get(info, "profiling"), "agent_stop"))
    return Step(
        op,
        jsonio.dump(action),
        value,
        str(number),
        None if target == Target() else target,
        _reasoning(get(info, "agent_info")),
        _url(obs),
        gym.page_text({"axtree": tree}),
        before=screen,
        timestamp=when if when and when > 0 else None,
    )


def _sides(boxes: dict, bid: str | None) -> list[float]:
    """Return left, top, width and height of an element, or an empty list."""
    sides = [jsonio.as_float(side) for side in listed(get(boxes.get(bid), "bbox"))[:5]]
    return [side for side in sides if side is not None] if len(sides) == 4 and None not in sides else []


def _reasoning(agent_info: Any) -> str | None:
    """Return what the agent thought, or else its whole last message."""
    thought = jsonio.as_str(get(agent_info, "think"))
    if thought:
        return thought
    messages = get(agent_info, "chat_messages")
    messages = listed(messages) or listed(get(messages, "messages"))
    said = next((message for message in reversed(messages) if get(message, "role") == "assistant"), None)
    return _texts(get(said, "content"))


def _url(obs: dict) -> str | None:
    return jsonio.as_str(obs.get("url")) or None


def _screen(root: Path, folder: str, names: list[str], number: int, file: str, obs: dict) -> Picture | None:
    """Return the screen of an observation: its own file, or else the array in the pickle."""
    name = next((name for end in _SCREENS if (name := f"screenshot_step_{number}{end}") in names), None)
    return Picture(jsonio.join(folder, name)) if name else unpickle_screens.screen(root, file, "screenshot", obs.get("screenshot"))


def _tree(obs: dict) -> str:
    """Return the accessibility tree as text, ``[bid] role 'name'`` a line: the agent's own, or made of the tree's nodes."""
    text = jsonio.as_str(obs.get("axtree_txt"))
    return text if text else _flat(listed(get(obs.get("axtree_object"), "nodes"))[:_TREE_LIMIT])


def _flat(nodes: Sequence) -> str:
    by_id = {key: node for node in nodes if type(key := get(node, "nodeId")) is str}
    lines: list[str] = []
    size, room = 0, 10 * _TREE_LIMIT
    pending: list[tuple[Any, str]] = [(nodes[0], "")] if nodes else []
    while pending and size < _TREE_TEXT_LIMIT:
        node, above = pending.pop()
        role, name = (jsonio.as_str(get(get(node, key), "value")) or "" for key in ("role", "name"))
        repeats = role == "InlineTextBox" or (role == "StaticText" and name == above)
        if get(node, "ignored") is not True and (name or role not in _SILENT) and not repeats:
            bid = jsonio.as_str(get(node, "browsergym_id"))
            lines.append(" ".join((f"[{bid}] {role} '{name}'" if bid else f"{role} '{name}'")[:_TEXT_LIMIT].splitlines()))
            size += len(lines[-1])
        children = listed(get(node, "childIds"))[:room]
        room -= len(children)
        inner = [by_id.pop(key) for key in children if type(key) is str and key in by_id]
        pending.extend((child, name or above) for child in reversed(inner))
    return "\n".join(lines)
