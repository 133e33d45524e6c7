"""Normalised tables made by hand, for the tests of mining and of picture preparation."""

import hashlib
import random
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from evoaudit import pictures, schema, store


def painted(number: int, width: int = 192, height: int = 128) -> np.ndarray:
    """Return a screen of coloured blocks unlike that of any other number."""
    rng = np.random.default_rng(number)
    blocks = rng.integers(0, 256, (-(-height // 16), -(-width // 16), 3), dtype=np.uint8)
    return np.repeat(np.repeat(blocks, 16, 0), 16, 1)[:height, :width].copy()


@dataclass
class Logs:
    """One source. ``pictures`` are named; those without pixels can be referred to but not decoded."""

    source: str = "made"
    pixels: dict[str, np.ndarray] = field(default_factory=dict)
    #: Picture → columns of its `images` row that are not as usual.
    odd: dict[str, dict] = field(default_factory=dict)
    trajectories: list[dict] = field(default_factory=list)
    steps: list[dict] = field(default_factory=list)
    changes: list[dict] = field(default_factory=list)
    used: dict[str, None] = field(default_factory=dict)

    def add(self, name: str, screens: list, steps: list[dict] | None = None, **row) -> None:
        """Add a trajectory that goes through ``screens``; a step is a click unless told otherwise."""
        steps = steps or [{} for _ in screens[1:]]
        assert len(steps) == len(screens) - 1
        self.trajectories.append(
            dict.fromkeys(schema.TRAJECTORIES.names)
            | {
                "trajectory_id": name,
                "source": self.source,
                "kind": "plain",
                "benchmark": "made",
                "task_id": name,
                "domain": "shop",
                "website": None,
                "instruction": f"goal of {name}",
                "n_steps": len(steps),
                "simulated": False,
                "source_file": "f",
                "source_sha256": "0",
            }
            | row
        )
        for number, step in enumerate(steps):
            before, after = screens[number], screens[number + 1]
            change = {"trajectory_id": name, "step": number} | self._change(before, after) | step.get("change", {})
            step = {key: value for key, value in step.items() if key != "change"}
            self.changes.append(dict.fromkeys(schema.CHANGES.names) | change)
            self.steps.append(
                dict.fromkeys(schema.STEPS.names)
                | {
                    "trajectory_id": name,
                    "step": number,
                    "gap_before": False,
                    "op": "click",
                    "obs_phase": "before",
                    "before_image": before and self.id(before),
                    "after_image": after and self.id(after),
                }
                | step
            )
            self.used |= dict.fromkeys(name for name in (before, after) if name)

    def id(self, name: str) -> str:
        """Return a picture's image_id."""
        return hashlib.sha256(name.encode()).hexdigest()

    def _change(self, before: str | None, after: str | None) -> dict:
        if not before or not after:
            return {"state": "unknown"}
        if before == after:
            return {"state": "same", "changed_tiles": 0}
        if before in self.pixels and after in self.pixels:
            if self.pixels[before].shape != self.pixels[after].shape:
                return {"state": "unknown"}
            return {"state": "changed", "changed_tiles": int(pictures.tile_changes(self.pixels[before], self.pixels[after]).tiles.sum())}
        return {"state": "changed", "changed_tiles": 50}

    def write(self, folder: Path, seed: int | None = None) -> tuple[Path, Path]:
        """Write the normalised folder and the source's own, and return both; ``seed`` shuffles the rows of every table."""
        normalised, root = folder / f"normalised-{self.source}", folder / f"root-{self.source}"
        normalised.mkdir(parents=True)
        root.mkdir()
        images = []
        for name in self.used:
            mark = hashlib.sha256(f"hash of {name}".encode()).hexdigest()[:16]
            row = {
                "image_id": self.id(name),
                "source": self.source,
                "file": f"{name}.png",
                "status": "ok",
                "width": 1280,
                "height": 720,
                "format": "png",
                "phash": mark,
                "blank": 0.3,
                "n_uses": 1,
            }
            if name in self.pixels:
                Image.fromarray(self.pixels[name]).save(root / f"{name}.png")
                found = pictures.inspect((root / f"{name}.png").read_bytes())
                row |= {
                    "file_sha256": found.file_sha256,
                    "width": found.width,
                    "height": found.height,
                    "phash": found.phash,
                    "blank": found.blank,
                }
            images.append(dict.fromkeys(schema.IMAGES.names) | row | self.odd.get(name, {}))
        tables = {"trajectories": self.trajectories, "steps": self.steps, "changes": self.changes, "images": images}
        for table, rows in tables.items():
            rows = list(rows)
            if seed is not None:
                random.Random(f"{seed}{table}").shuffle(rows)
            store.write_table(normalised, table, rows)
        return normalised, root
