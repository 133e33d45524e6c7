"""The no-op probe (audit paper, §6): deterministic, from the change tables alone, at no model cost.

A screen counts as unchanged if its pixels are the same, or if all that changed is *volatile*: tiles that change by
themselves, wherever the agent acts. No threshold on the amount of change is used, because a ticked checkbox is smaller
than a blinking caret.
"""

from dataclasses import dataclass

import numpy as np

from evoaudit.audit.episodes import Episode
from evoaudit.screens import is_place

TILE = 16
#: A tile this close to the place acted on, in pixels, may have changed because of the action.
NEAR = 48.0
#: A tile is volatile if it changed in this many pairs …
RECURRENCES = 3
#: … under this many different actions, or while the agent merely waited; else a counter beside a button would be.
DISTINCT_ACTIONS = 2
#: Only pairs that changed at most this share of the screen nominate volatile tiles: a new page says nothing about clocks.
QUIET = 0.1
#: A blinking caret is at most this wide and high, pixels.
CARET_WIDTH, CARET_HEIGHT = 3, 40
#: Height of a desktop's top bar as a share of the screen, where its clock is.
TOP_BAR = 0.025
#: A pointer picture is within this distance of where the pointer was left, pixels.
POINTER = 40.0
#: Two points are one target within this share of the screen's diagonal, or within a tile where that is more.
SAME_POINT = 0.01
#: Longest period of a cycle of screens.
LONGEST_CYCLE = 4

#: Kinds whose screenshots show a whole desktop with top bar and pointer.
DESKTOPS = frozenset({"osworld"})
PASSIVE = frozenset({"wait", "note", "say", "answer", "done", "fail"})
NAVIGATION = frozenset({"navigate", "load", "back", "forward", "open_app", "submit", "tab"})
MODIFIERS = frozenset({"ctrl", "control", "shift", "alt", "meta", "cmd", "command", "win", "super", "fn", "capslock", "option"})
COPIES = frozenset({"ctrl+c", "control+c", "cmd+c", "command+c", "meta+c", "ctrl+insert", "ctrl+shift+c"})


@dataclass(frozen=True, slots=True)
class Probe:
    """The no-op rows of one trajectory, and a state number a screen (None where a picture is missing)."""

    rows: list[dict]
    states: list[int | None]


def probe(episode: Episode) -> Probe:
    """Judge every step's screen and find runs of one action without effect."""
    steps = episode.steps
    rows: list[dict] = []
    for i, (step, screen) in enumerate(zip(steps, screens(steps, episode.row["kind"]), strict=True)):
        same = i > 0 and not step["gap_before"] and same_action(step, steps[i - 1])
        unchanged = screen in ("no_change", "volatile_only")
        run = 0
        if unchanged:
            run = rows[-1]["run"] + 1 if same and rows[-1]["run"] else 1
        rows.append(
            {
                "trajectory_id": step["trajectory_id"],
                "step": step["step"],
                "screen": screen,
                "same_action": same,
                "run": run,
                "exempt": _exempt(steps, i, rows, unchanged, episode.blank),
            }
        )
    return Probe(rows, _states(steps, rows))


def screens(steps: list[dict], kind: str) -> list[str]:
    """Say of every step of one trajectory what became of its screen; steps carry their change columns."""
    places = _places(steps)
    volatile = _volatile(steps, places)
    return [_screen(step, places[i], places[i - 1] if i else None, volatile, kind in DESKTOPS) for i, step in enumerate(steps)]


def _bitmap(step: dict) -> np.ndarray | None:
    """Return changed tiles as a (rows, columns) array, None where there is nothing to compare."""
    if step["state"] != "changed" or not step["tiles"] or not step["tiles_x"] or not step["tiles_y"]:
        return None
    size = step["tiles_x"] * step["tiles_y"]
    bits = np.unpackbits(np.frombuffer(step["tiles"], dtype=np.uint8))
    return bits[:size].reshape(step["tiles_y"], step["tiles_x"]).astype(bool) if bits.size >= size else None


@dataclass(frozen=True, slots=True)
class Place:
    """Where an action went, pixels; a point is a box without extent."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def middle(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def tiles(self, shape: tuple[int, int], margin: float) -> np.ndarray:
        """Return the tiles within ``margin`` pixels."""
        mask = np.zeros(shape, dtype=bool)
        low_y, low_x = (max(0, int((value - margin) // TILE)) for value in (self.top, self.left))
        high_y, high_x = (int((value + margin) // TILE) + 1 for value in (self.bottom, self.right))
        if high_y > 0 and high_x > 0:
            mask[low_y:high_y, low_x:high_x] = True
        return mask


def place(step: dict) -> Place | None:
    """Return the box or point a step acted on, None where the log has neither."""
    target = step["target"] or {}
    box = [target.get(name) for name in ("left", "top", "width", "height")]
    if is_place(box) and box[2] >= 0 and box[3] >= 0:
        return Place(box[0], box[1], box[0] + box[2], box[1] + box[3])
    x, y = target.get("x"), target.get("y")
    if is_place((x, y)):
        return Place(x, y, x, y)
    return None


def _places(steps: list[dict]) -> list[Place | None]:
    """Return where each action went; text and keys without a place of their own go where the last click went."""
    found: list[Place | None] = []
    focus = None
    for step in steps:
        here = place(step)
        if here is not None:
            focus = here
        elif step["op"] in NAVIGATION:
            focus = None
        found.append(here if here is not None else focus if step["op"] in ("type", "paste", "key", "select") else None)
    return found


def _volatile(steps: list[dict], places: list[Place | None]) -> dict[tuple[int, int], np.ndarray]:
    """Return, by screen shape, the tiles that keep changing away from where the agent acts."""
    changes: dict[tuple[int, int], list[tuple[int, np.ndarray]]] = {}
    for i, step in enumerate(steps):
        tiles = _bitmap(step)
        if tiles is None or tiles.sum() > QUIET * tiles.size:
            continue
        if places[i] is not None:
            tiles = tiles & ~places[i].tiles(tiles.shape, NEAR)
        elif step["op"] not in PASSIVE:
            continue  # nobody knows where this action went, so its changes excuse nothing
        changes.setdefault(tiles.shape, []).append((i, tiles))
    masks = {}
    for shape, pairs in changes.items():
        often = sum(tiles.astype(np.int32) for _, tiles in pairs) >= RECURRENCES
        if not often.any():
            continue
        actions: list[tuple[dict, np.ndarray]] = []
        unattended = np.zeros(shape, dtype=bool)
        for i, tiles in pairs:
            if steps[i]["op"] in PASSIVE:
                unattended |= tiles
                continue
            twin = next((k for k, (other, _) in enumerate(actions) if same_action(steps[i], other)), None)
            if twin is None:
                actions.append((steps[i], tiles))
            else:
                actions[twin] = (actions[twin][0], actions[twin][1] | tiles)
        distinct = sum((tiles.astype(np.int32) for _, tiles in actions), np.zeros(shape, dtype=np.int32))
        masks[shape] = often & ((distinct >= DISTINCT_ACTIONS) | unattended)
    return masks


def _screen(step: dict, here: Place | None, previous: Place | None, volatile: dict, desktop: bool) -> str:
    if step["state"] == "same":
        return "no_change"
    tiles = _bitmap(step)
    if step["state"] != "changed" or (tiles is None and step["changed_tiles"]):
        return "unknown"
    if tiles is None or not tiles.any():
        return "volatile_only"  # pixels differ by less than anyone can see
    mask = volatile.get(tiles.shape, np.zeros(tiles.shape, dtype=bool)).copy()
    if desktop:
        mask[: int(np.ceil(TOP_BAR * tiles.shape[0]))] = True
        if previous is not None:
            x, y = previous.middle
            mask |= Place(x, y, x, y).tiles(tiles.shape, POINTER)
    if here is not None and step["op"] not in ("type", "paste", "key", "select") and _caret(tiles, step["changed_pixels"]):
        mask |= tiles
    if here is not None:
        mask &= ~here.tiles(tiles.shape, NEAR)
    return "changed" if (tiles & ~mask).any() else "volatile_only"


def _caret(tiles: np.ndarray, pixels: int | None) -> bool:
    """Say whether all that changed is an upright bar over at least two tiles, as a caret is and a checkbox is not."""
    rows, columns = np.nonzero(tiles)
    height = int(rows.max() - rows.min()) + 1
    return (
        pixels is not None
        and len(set(columns.tolist())) == 1
        and height == len(rows)
        and 2 <= height <= CARET_HEIGHT // TILE + 2
        and (height - 2) * TILE < pixels <= CARET_WIDTH * min(CARET_HEIGHT, height * TILE)
    )


def same_action(a: dict, b: dict) -> bool:
    """Say whether two steps are the same verb on the same target with the same text."""
    if a["op"] != b["op"] or plain(a["value"]) != plain(b["value"]):
        return False
    place_a, place_b = place(a), place(b)
    if (place_a is None) != (place_b is None):
        return False
    name_a, name_b = (plain((step["target"] or {}).get("text")) for step in (a, b))
    if place_a is not None and place_b is not None:
        if name_a and name_b and name_a != name_b:
            return False
        (ax, ay), (bx, by) = place_a.middle, place_b.middle
        width, height = (a["tiles_x"] or 80) * TILE, (a["tiles_y"] or 45) * TILE
        return bool(np.hypot(ax - bx, ay - by) <= max(TILE, SAME_POINT * np.hypot(width, height)))
    return name_a == name_b and (bool(name_a) or plain(a["op_raw"]) == plain(b["op_raw"]))


def plain(value: str | None) -> str:
    """Return a text without regard to case and white space."""
    return " ".join((value or "").casefold().split())


def _exempt(steps: list[dict], i: int, rows: list[dict], unchanged: bool, blank: set[str]) -> str | None:
    """Return why an unchanged screen is expected after this step, or None."""
    step = steps[i]
    op, keys = step["op"], plain(step["value"]).replace(" ", "")
    if op in PASSIVE:
        return "passive"
    if op == "hover":
        return "hover"
    if op == "copy" or (op == "key" and keys in COPIES):
        return "copy"
    if op == "key" and keys and all(part in MODIFIERS for part in keys.replace("+", ",").split(",")):
        return "modifier_key"
    if step["before_image"] in blank:
        return "blank_screen"
    if not unchanged:
        return None
    if op in ("scroll", "swipe"):
        earlier = 0
        while earlier < i and steps[i - 1 - earlier]["op"] == op and rows[i - 1 - earlier]["run"]:
            earlier += 1
        return "end_of_scroll" if earlier < 2 else None
    moved = any(row["screen"] == "changed" for row in rows[:i]) or any(other["op"] in NAVIGATION - {"back"} for other in steps[:i])
    if op == "back" and not moved:
        return "first_page"
    if i and not step["gap_before"] and (steps[i - 1]["op"] in NAVIGATION or _moved(steps[i - 1], step)):
        return "page_load"
    if i + 1 < len(steps) and step["obs_phase"] == "both" and not steps[i + 1]["gap_before"]:
        after, following = step["after_image"], steps[i + 1]["before_image"]
        if after and following and after != following:
            return "late_change"
    return None


def _moved(before: dict, after: dict) -> bool:
    return bool(before["url"] and after["url"] and before["url"] != after["url"])


def _states(steps: list[dict], rows: list[dict]) -> list[int | None]:
    """Number the screens 0…n: one number for one image or for screens with only volatile differences between them."""
    numbers: dict[str, int] = {}
    screens: list[int | None] = []
    for i, step in enumerate(steps):
        image = step["before_image"]
        if i and not step["gap_before"] and rows[i - 1]["run"] and screens[-1] is not None:
            number = screens[-1]
            if image:
                number = numbers.setdefault(image, number)
        else:
            number = numbers.setdefault(image, len(numbers)) if image else None
        screens.append(number)
    if steps:
        last = steps[-1]["after_image"]
        screens.append(screens[-1] if rows[-1]["run"] else numbers.setdefault(last, len(numbers)) if last else None)
    return screens


def longest_runs(found: Probe) -> dict[str, tuple[int, list[int]]]:
    """Return, for ``noop_run`` and ``noop_any``, the longest run and its steps; exempt steps break runs.

    ``noop_run`` repeats one action, ``noop_any`` counts unchanged screens whatever the actions.
    """
    best = {"noop_run": (0, []), "noop_any": (0, [])}
    run: list[int] = []
    anything: list[int] = []
    for row in found.rows:
        counts = row["run"] > 0 and row["exempt"] is None
        run = ([*run, row["step"]] if row["same_action"] and run else [row["step"]]) if counts else []
        anything = [*anything, row["step"]] if counts else []
        for name, steps in (("noop_run", run), ("noop_any", anything)):
            if len(steps) > best[name][0]:
                best[name] = (len(steps), steps)
    return best


def cycle(found: Probe) -> tuple[int, list[int]] | None:
    """Return (period, steps) of the first cycle: screens that come round twice in a row, not standing still."""
    states = found.states
    for start in range(len(states)):
        for period in range(2, LONGEST_CYCLE + 1):
            window = states[start : start + 2 * period + 1]
            if len(window) < 2 * period + 1 or None in window or len(set(window[:period])) < 2:
                continue
            if all(window[k] == window[k + period] for k in range(period + 1)):
                return period, [row["step"] for row in found.rows[start : start + 2 * period]]
    return None
