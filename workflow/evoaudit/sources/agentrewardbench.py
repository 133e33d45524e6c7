"""AgentRewardBench: cleaned BrowserGym episodes, one JSON file each, the screen BEFORE each action; and what was said of them.

``cleaned/<benchmark>/<model>/<experiment>/<task>.json`` with ``screenshots/<benchmark>/<model>/<task>/screenshot_step_<n>.png``,
``data/annotations.csv`` (experts) and ``judgments/<benchmark>/<model>/<judge>/<task>.json`` (released judges). Any part may be
absent. The error a step logs belongs to the action before it; the last record has no action and carries the final screen.

Names come from the paths, since experts' answers are joined by them; a log that disagrees with its own path is noted. White
space around an annotator's name is no part of it. Answers are kept as given, `Unsure` and contradictions included; only a
row that repeats another one of the same annotator word for word is left out. A judge's answers are annotations too, by the
annotator ``judge:<judge>``: one that wrote `success` or `failure`, or a grade from 1 to 5, or gave no words at all
(``functional``, the reward) is quoted in the experts' words.
"""

import csv
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from evoaudit.sources import agentrewardbench_answers as answers
from evoaudit.sources import agentrewardbench_log as log
from evoaudit.sources import browsergym_log as gym
from evoaudit.sources import jsonio
from evoaudit.sources.agentrewardbench_answers import QUESTIONS as QUESTIONS
from evoaudit.sources.agentrewardbench_answers import Experiments, Selection, common, matches
from evoaudit.sources.agentrewardbench_log import Episode
from evoaudit.sources.base import COSTS, Annotation, Oracle, Picture, Skipped, Step, Target, Trajectory, cost, graded
from evoaudit.sources.browsergym_log import ACTIONS as ACTIONS
from evoaudit.sources.calls import parse_calls

LAYOUT = "cleaned/<benchmark>/<model>/<experiment>/<task>.json, or data/annotations.csv"
LICENSE: str | None = "custom terms (no SPDX id)"

_TABLE_LIMIT = 16 * 2**20


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an episode lies. ``above`` are the folders above `cleaned`."""

    above: list[str]
    benchmark: str
    model: str
    experiment: str
    task: str


@dataclass(slots=True)
class _Record:
    """One step's record without its dumps. ``node`` is the line of the tree for the element acted on."""

    given: dict
    text: str | None
    node: str | None
    box: list[float]
    page_width: float | None


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped | Annotation]:
    """Yield the episodes in the order of their paths, then the experts' answers in file order, then the judges' by path.

    ``options["benchmarks"]`` and ``options["agents"]`` take names or patterns, ``options["files"]`` patterns of paths, and
    ``options["split"]`` a split of `data/splits.csv`.
    """
    tasks = None
    if options.get("split"):
        tasks = _split(root, options["split"])
        if isinstance(tasks, Skipped):
            yield tasks
            tasks = frozenset()
    selection = Selection(options.get("benchmarks"), options.get("agents"), tasks)
    experiments = Experiments(set)
    judgments = []
    for file in jsonio.files(root, ".json"):
        parts = file.split("/")
        at = max((index for index, part in enumerate(parts) if part in ("cleaned", "judgments")), default=None)
        if at is None or not matches(file, options.get("files")):
            continue
        place = parts[at + 1 :]
        if parts[at] == "judgments":
            judgments.append((file, place))
        elif len(place) != 4:
            yield Skipped(file, "bad_place", "not at cleaned/<benchmark>/<model>/<experiment>/<task>.json")
        else:
            benchmark, model, experiment, task = place[0], place[1], place[2], place[3][: -len(".json")]
            if selection.wants(benchmark, model, task):
                experiments[benchmark, model, task].add(experiment)
                yield _trajectory(root, file, _Place(parts[:at], benchmark, model, experiment, task))
    table = _table(root, "annotations.csv")
    if os.path.lexists(Path(root, table)) and matches(table, options.get("files")):
        yield from answers.experts(root, table, selection, experiments)
    for file, place in judgments:
        yield from answers.judge(root, file, place, selection, experiments)


def _table(root: Path, name: str) -> str:
    """Return the place of one of the two tables: in `data` as published, or at the top."""
    return name if not os.path.lexists(Path(root, "data", name)) and os.path.lexists(Path(root, name)) else f"data/{name}"


def _split(root: Path, split: str) -> frozenset[str] | Skipped:
    """Return the tasks that the table of splits lists under a split."""
    file = _table(root, "splits.csv")
    raw = jsonio.read_bytes(root, file, _TABLE_LIMIT, unit="row")
    if isinstance(raw, Skipped):
        return raw
    try:
        rows = list(csv.DictReader(io.StringIO(raw.decode("utf-8-sig", "replace").replace("\x00", ""), newline="")))
    except csv.Error as error:
        return Skipped(file, "bad_csv", str(error), "row")
    return frozenset(common((row.get("task_id") or "").strip()) for row in rows if (row.get("split") or "").strip() == split)


def _trajectory(root: Path, file: str, place: _Place) -> Trajectory | Skipped:
    episode = log.read(root, file, _light)
    if isinstance(episode, Skipped):
        return episode
    found = Trajectory(
        "/".join([place.benchmark, place.model, place.experiment, place.task]),
        [],
        file,
        "before",
        benchmark=place.benchmark,
        task_id=place.task,
        agent=place.model,
        experiment=place.experiment,
        instruction=jsonio.as_str(episode.head.get("goal")),
        license=LICENSE,
    )
    _notes(found, episode, place)
    lost = False
    for index, record in enumerate(episode.records):
        item = f"{file} steps[{index}]"
        if record is None:
            found.skipped.append(("step", item, "bad_record", "not a JSON object"))
            lost = True
            continue
        if found.steps and not lost:
            found.steps[-1].error = jsonio.as_str(record.given.get("last_action_error")) or None
        if record.given.get("action") is None and index == len(episode.records) - 1:
            last, number = (jsonio.as_int(found.steps[-1].source_step) if found.steps else None), jsonio.as_int(record.given.get("num"))
            if not lost and (last is None or number is None or number - last == 1):
                found.final = _picture(root, record, place)
            found.final_text, found.final_url = record.text, jsonio.as_str(record.given.get("url"))
            continue
        action = jsonio.as_str(record.given.get("action"))
        if action is None:
            found.skipped.append(("step", item, "no_action", "a record without an action before the last"))
            lost = True
            continue
        step = _step(root, record, action, place)
        step.gap_before, lost = lost and bool(found.steps), False
        found.steps.append(step)
    gym.close(found)
    found.oracles = [_oracle(episode)]
    found.cost = cost(episode.summary, *COSTS)
    return found


def _light(record: dict) -> _Record:
    """Take from a record what is needed of its trees and boxes."""
    action = jsonio.as_str(record.get("action"))
    bid = gym.bid(parse_calls(action) or []) if action else None
    boxes: dict = next((boxes for name in log.BOXES if (boxes := jsonio.as_dict(record.get(name)))), {})
    page = _sides(boxes, gym.PAGE)
    given = {name: record.get(name) for name in ("num", "action", "reasoning", "screenshot_path", "url", "last_action_error")}
    return _Record(given, gym.page_text(record), gym.node(record, bid) if bid else None, _sides(boxes, bid), page[2] if page else None)


def _sides(boxes: dict, bid: str | None) -> list[float]:
    """Return left, top, width and height of an element, or an empty list."""
    box = [jsonio.as_float(side) for side in jsonio.as_list(jsonio.as_dict(boxes.get(bid)).get("bbox"))]
    return [side for side in box if side is not None] if len(box) == 4 and None not in box else []


def _notes(found: Trajectory, episode: Episode, place: _Place) -> None:
    """Note where an episode disagrees with its own path or its own summary."""
    stated = {"benchmark": place.benchmark, "agent": place.model, "experiment": place.experiment}
    wrong = [
        f"{name}: '{said}' inside, '{expected}' in its path"
        for name, expected in stated.items()
        if (said := jsonio.as_str(episode.head.get(name))) and said.replace("/", "_") != expected
    ]
    if wrong:
        found.skipped.append(("row", found.source_file, "other_place", "; ".join(wrong)))
    own = (place.benchmark, place.model, common(place.task))
    folders = [_folder(record) for record in episode.records if record is not None]
    strays = [folder for folder in folders if folder and (*folder[:2], common(folder[2])) != own]
    if strays:
        detail = f"{len(strays)} screens lie under {'/'.join(strays[0])}; see whether the file has its own name"
        found.skipped.append(("row", found.source_file, "other_task", detail))
    steps, logged = jsonio.as_int(episode.summary.get("n_steps")), len(episode.records)
    if steps is not None and steps != logged - 1:
        found.skipped.append(("row", found.source_file, "step_count", f"its summary counts {steps} steps, its log has {logged} records"))


def _step(root: Path, record: _Record, action: str, place: _Place) -> Step:
    calls = parse_calls(action) or []
    op, value, (x, y) = gym.action(calls)
    picture = _picture(root, record, place)
    scale = gym.scale(root, picture, record.page_width)
    left, top, width, height = [side * scale for side in record.box] or [None] * 4
    if x is not None and y is not None:
        x, y = x * scale, y * scale
    elif left is not None and top is not None and width is not None and height is not None:
        x, y = left + width / 2, top + height / 2
    target = Target(x, y, left, top, width, height, record.node)
    return Step(
        op,
        jsonio.dump(action),
        value,
        jsonio.as_str(record.given.get("num")),
        None if target == Target() else target,
        jsonio.as_str(record.given.get("reasoning")),
        jsonio.as_str(record.given.get("url")),
        record.text,
        before=picture,
    )


def _folder(record: _Record) -> tuple[str, ...] | None:
    """Return benchmark, model and task a record's screen is filed under, where its path says so."""
    parts = (jsonio.as_str(record.given.get("screenshot_path")) or "").split("/")
    return tuple(parts[-4:-1]) if parts[-5:-4] == ["screenshots"] else None


def _picture(root: Path, record: _Record, place: _Place) -> Picture | None:
    """Return the screen a record names; its paths start at a folder ``trajectories`` that the data set does not have.

    Where no file is there, the one of that name in the episode's own folder serves.
    """
    path = record.given.get("screenshot_path")
    base = path.rpartition("/")[2] if isinstance(path, str) else ""
    if not isinstance(path, str) or base in {"", "None"} or base.startswith("screenshot_step_None."):
        return None
    folder = _folder(record)
    inner = "/".join(["screenshots", *folder, base]) if folder else path.removeprefix("./").removeprefix("trajectories/")
    named = "/".join([*place.above, inner])
    own = "/".join([*place.above, "screenshots", place.benchmark, place.model, place.task, base])
    return Picture(own if named != own and not jsonio.is_file(root, named) and jsonio.is_file(root, own) else named)


def _oracle(episode: Episode) -> Oracle:
    """Read the functional reward; a harness error is not a FAIL, and cannot undo a success."""
    name, version = jsonio.as_str(episode.head.get("benchmark")) or "functional", jsonio.as_str(episode.head.get("package_version"))
    found = graded(name, jsonio.as_float(episode.summary.get("cum_reward")), version=version)
    if episode.head.get("valid") is False:
        return replace(found, verdict="unscored", status="marked_invalid")
    if found.verdict != "pass" and episode.summary.get("err_msg"):
        return replace(found, verdict="error", status="harness_error")
    return found
