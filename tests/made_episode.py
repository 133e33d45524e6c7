"""Episodes made of bitmaps, for the tests of the no-op probe, the signals and the rules."""

import numpy as np

from evoaudit.audit.episodes import Episode

#: A 1280×720 screen in 16-pixel tiles.
COLUMNS, ROWS = 80, 45


def tiles(*places):
    """Return a bitmap with the tiles at pixel places (x, y) set; a place may be a box (x, y, width, height)."""
    grid = np.zeros((ROWS, COLUMNS), dtype=bool)
    for x, y, *size in places:
        w, h = size or (1, 1)
        grid[y // 16 : (y + h - 1) // 16 + 1, x // 16 : (x + w - 1) // 16 + 1] = True
    return grid


def step(op="click", at=None, changed=None, pixels=None, **more):
    """Return a step. ``at``: (x, y) or a box; ``changed``: None for identical screens, "unknown", or places that changed."""
    grid = None if changed is None or changed == "unknown" else tiles(*changed)
    target = None
    if at is not None:
        names = ("x", "y") if len(at) == 2 else ("left", "top", "width", "height")
        target = dict.fromkeys(("x", "y", "left", "top", "width", "height", "text")) | dict(zip(names, at, strict=True))
        target["text"] = more.pop("text", None)
    row = {
        "op": op,
        "op_raw": None,
        "value": None,
        "target": target,
        "reasoning": None,
        "url": None,
        "page_text": None,
        "error": None,
        "gap_before": False,
        "obs_phase": "before",
        "state": "same" if changed is None else "unknown" if changed == "unknown" else "changed",
        "changed_pixels": None if grid is None else (pixels if pixels is not None else int(grid.sum()) * 40),
        "changed_tiles": None if grid is None else int(grid.sum()),
        "tiles_x": None if grid is None else COLUMNS,
        "tiles_y": None if grid is None else ROWS,
        "tiles": None if grid is None else np.packbits(grid).tobytes(),
    }
    return row | more


def episode(*steps, **row):
    """Return an episode of steps; screens get image ids of their own unless a step names them."""
    image = 0
    for number, one in enumerate(steps):
        one["trajectory_id"], one["step"] = "t", number
        one.setdefault("before_image", f"i{image}")
        image += one["state"] != "same"
        one.setdefault("after_image", None if one["state"] == "unknown" else f"i{image}")
    fields = {
        "trajectory_id": "t",
        "kind": "plain",
        "benchmark": "b",
        "task_id": "1",
        "agent": "a",
        "instruction": None,
        "answer": None,
        "reference": None,
        "n_steps": len(steps),
        "simulated": False,
        "final_text": None,
        "final_url": None,
        "source": "s",
        "domain": None,
    }
    return Episode(fields | row, list(steps), set())
