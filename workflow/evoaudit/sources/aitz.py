"""Android in the Zoo (AiTZ): one JSON list an episode, with the screen before each action beside it.

Screens were scaled down; touches are shares of the screen, the vertical first, and boxes are pixels, also the vertical first.
"""

import math
from collections.abc import Iterator
from pathlib import Path

from evoaudit.sources import jsonio
from evoaudit.sources.base import Picture, Skipped, Step, Target, Trajectory
from evoaudit.sources.pixels import png_size

LICENSE: str | None = "Apache-2.0"
LAYOUT = "google_apps/GOOGLE_APPS-1/GOOGLE_APPS-1.json and GOOGLE_APPS-1_0.png"

ACTIONS = {
    "type": "type",
    "tap": "click",
    "swipe": "swipe",
    "back": "back",
    "home": "key",
    "enter": "key",
    "complete": "done",
    "impossible": "fail",
}

#: `result_action_type` → verb. A dual-point gesture (4) is a tap or a swipe.
_CODES = {3: "type", 5: "back", 6: "home", 7: "enter", 10: "complete", 11: "impossible"}
_DUAL_POINT = 4
#: A gesture no longer than this share of the screen is a tap (Android in the Wild's own rule).
_TAP = 0.04


def read(root: Path, options: dict) -> Iterator[Trajectory | Skipped]:
    """Yield one trajectory an episode."""
    for file in jsonio.files(root, ".json"):
        rows = jsonio.read_json(root, file)
        if isinstance(rows, Skipped):
            yield rows
        elif not isinstance(rows, list) or not any("result_action_type" in jsonio.as_dict(row) for row in rows):
            yield Skipped(file, "not_an_episode", "not a list of steps with result_action_type")
        else:
            yield _episode(root, file, rows)


def _episode(root: Path, file: str, rows: list) -> Trajectory:
    folder, _, name = file.rpartition("/")
    first = next(row for row in rows if isinstance(row, dict))
    subset = name.partition("-")[0].lower() if "-" in name else None
    found = Trajectory(
        native_id=file.removesuffix(".json"),
        steps=[],
        source_file=file,
        obs_phase="before",
        benchmark="aitz",
        task_id=jsonio.as_str(first.get("episode_id")),
        domain=subset,
        license=LICENSE,
        instruction=jsonio.as_str(first.get("instruction")),
    )
    numbered: dict[int, Step] = {}
    for index, row in enumerate(rows):
        record, item = jsonio.as_dict(row), f"{file}#{index}"
        number, code = jsonio.as_int(record.get("step_id")), jsonio.as_int(record.get("result_action_type"))
        if number is None or number in numbered:
            found.skipped.append(("step", item, "bad_number" if number is None else "duplicate_number", "step_id is missing or repeated"))
        elif code not in _CODES and code != _DUAL_POINT:
            found.skipped.append(("step", item, "unknown_action", f"result_action_type {record.get('result_action_type')!r:.60}"))
        elif record.get("episode_id") != first.get("episode_id"):
            found.skipped.append(("step", item, "other_episode", "episode_id differs from the first step's"))
        else:
            numbered[number] = _step(root, folder, found, item, record, code)
    found.steps = [numbered[number] for number in sorted(numbered)]
    return found


def _step(root: Path, folder: str, found: Trajectory, item: str, record: dict, code: int) -> Step:
    picture = _picture(root, folder, found, item, record)
    touch, lift = (_pair(record.get(f"result_{name}_yx")) for name in ("touch", "lift"))
    verb = _CODES.get(code) or ("swipe" if touch and lift and math.dist(touch, lift) > _TAP else "tap")
    size = png_size(root, picture.file) if picture else None
    texts, kinds = _listed(record.get("ui_text")), _listed(record.get("ui_types"))
    target = None
    if code == _DUAL_POINT and touch and size:
        place = touch[1] * size[0], touch[0] * size[1]
        target = _element(place, _listed(record.get("ui_positions")), texts, kinds) or Target(*place)
    text = jsonio.as_str(record.get("result_action_text"))
    raw = {name: value for name, value in record.items() if name.startswith("result_")}
    return Step(
        op=ACTIONS[verb],
        op_raw=jsonio.dump(raw),
        value={"type": text, "home": "home", "enter": "enter"}.get(verb) or None,
        source_step=jsonio.as_str(record.get("step_id")),
        target=target,
        before=picture,
        reasoning=jsonio.as_str(record.get("coat_action_think")) or None,
        page_text=jsonio.dump("\n".join(filter(None, map(jsonio.as_str, texts)))) or None,
    )


def _picture(root: Path, folder: str, found: Trajectory, item: str, record: dict) -> Picture | None:
    """Return the picture where it lies: beside the file, or where `image_path` says."""
    path = jsonio.as_str(record.get("image_path"))
    if not path:
        found.skipped.append(("picture", item, "no_name", "no image_path"))
        return None
    beside = jsonio.join(folder, path.rpartition("/")[2])
    if jsonio.confined(root, path) is None or jsonio.confined(root, beside) is None:
        found.skipped.append(("picture", item, "outside_root", "the picture's name is unsafe or leads out of the source's folder"))
        return None
    return Picture(path if not jsonio.is_file(root, beside) and jsonio.is_file(root, path) else beside)


def _element(place: tuple[float, float], boxes: list, texts: list, kinds: list) -> Target | None:
    """Return the smallest listed element that holds the touch."""
    x, y = place
    holding = []
    for index, box in enumerate(boxes):
        sides = [jsonio.as_float(side) for side in jsonio.as_list(box)]
        if len(sides) == 4 and None not in sides and sides[0] <= y <= sides[0] + sides[2] and sides[1] <= x <= sides[1] + sides[3]:
            holding.append((sides[2] * sides[3], index, sides))
    if not holding:
        return None
    _, index, (top, left, height, width) = min(holding)
    kind, text = (jsonio.as_str(values[index]) if index < len(values) else None for values in (kinds, texts))
    return Target(x, y, left, top, width, height, f"[{kind or ''}] {text or ''}".strip())


def _listed(value: object) -> list:
    """Return a list, also one written as JSON text."""
    return jsonio.as_list(jsonio.parse(value, "list") if isinstance(value, str) else value)


def _pair(value: object) -> list[float] | None:
    """Return (y, x) as shares of the screen; the data set writes -1 for none."""
    pair = [jsonio.as_float(part) for part in _listed(value)]
    return pair if len(pair) == 2 and None not in pair and min(pair) >= 0 else None
