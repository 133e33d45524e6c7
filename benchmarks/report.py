"""Time, memory and size of a full-size report, and how fast its pages are in Chromium, opened as files.

    python benchmarks/report.py [--work FOLDER]

The run is 28 made-up models over 3,000 items, 9,000 pictures as large as simulated ones are, a quarter of the models with answers of
1,500 characters, and 150 simulated trajectories with a page each. Only the `report` stage is measured, as a process of its own; what
it reads is made first. Fails if a bound is not met.
"""

import argparse
import io
import json
import sys
import tempfile
import time
import zlib
from pathlib import Path
from shutil import which
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Browser, Page, sync_playwright
from stage import measure
from statistics_and_figures import full_size

from evoaudit import store
from evoaudit.conditions import TASKS
from evoaudit.streams import generator

TRAJECTORIES = 150
#: Bounds: processor seconds of the stage, bytes and milliseconds of a page's first view, milliseconds of a filter.
LIMIT_BUILD, LIMIT_BYTES, LIMIT_VIEW, LIMIT_FILTER = 90.0, 2_000_000, 1000.0, 100.0
WORDS = (
    "find",
    "order",
    "cancel",
    "the",
    "blue",
    "kettle",
    "ticket",
    "report",
    "open",
    "change",
    "assign",
    "remove",
    "page",
    "invoice",
    "last",
)
PROMPTS = Path(__file__).parents[1] / "resources" / "prompts" / "evogui-v1"
#: What a filter costs: from the event to the frame after the list has been drawn.
FILTER = """([id, value]) => new Promise((done) => {
  const box = document.getElementById(id), start = performance.now();
  new MutationObserver((_, watch) => {
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
  }).observe(document.getElementById("matching"), {childList: true, characterData: true, subtree: true});
  if (value === null) { box.click(); return; }
  box.value = value;
  box.dispatchEvent(new Event(id === "q" ? "input" : "change", {bubbles: true}));
})"""
FILTERS = {
    "search, first letter": ("q", "k"),
    "search, a word": ("q", "kettle"),
    "search, none left": ("q", ""),
    "task": ("question", "t3"),
    "kind": ("question", "t3/long_skip"),
    "all questions": ("question", ""),
    "wrong by a model": ("model", "sim-05"),
    "and right by another": ("model2", "sim-20"),
    "another order": ("sort", "split"),
    "all again": ("clear", None),
}


def screens(n: int) -> list[bytes]:
    """Return pictures with text on them, as large in bytes as simulated screens."""
    font, made = ImageFont.load_default(9), []
    for number in range(n):
        draw = generator(number, "benchmark-screen")
        image = Image.new("RGB", (512, 320), (250, 250, 248))
        pen = ImageDraw.Draw(image)
        pen.rectangle((0, 0, 512, 26), fill=tuple(int(one) for one in draw.integers(30, 160, 3)))
        for line in range(26):
            pen.text((8, 30 + 11 * line), " ".join(WORDS[word] for word in draw.integers(len(WORDS), size=16)), (40, 40, 46), font)
        out = io.BytesIO()
        image.save(out, "PNG")
        made.append(out.getvalue())
    return made


def named(data: bytes, name: str) -> bytes:
    """Return a PNG with a comment, so that equal screens differ in their bytes."""
    chunk = b"tEXtComment\0" + name.encode()
    return data[:-12] + (len(chunk) - 4).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big") + data[-12:]


def manifest(folder: Path, stage: str, config: dict[str, Any]) -> str:
    """Write a manifest and return its path."""
    counts = {"unit": "row", "read": 1, "kept": 1, "dropped": {}, "others": {}}
    store.write_manifest(folder, stage=stage, key="k", format_version=1, seed=1, config=config, upstream={}, counts=counts)
    return str(folder / "manifest.json")


def probes(folder: Path) -> int:
    """Give the items goals and pictures; return the number of pictures."""
    images: set[str] = set()
    for task in TASKS:
        rows = store.read_rows(folder / "mined", task)
        for number, row in enumerate(rows):
            draw = generator(number, f"benchmark-goal-{task}")
            row["goal"] = " ".join(WORDS[word] for word in draw.integers(len(WORDS), size=int(draw.integers(8, 30)))).capitalize() + "."
            row["images"] = row["images"][:2] if task == "t2" else row["images"]
            images |= set(row["images"])
        store.write_table(folder / "mined", task, rows)
    manifest(folder / "mined", "mine", {})
    (folder / "images").mkdir()
    bases, what = screens(40), {"max_image_side": 512, "width": 512, "height": 320, "format": "PNG", "resampling": "lanczos"}
    with store.TableWriter(folder / "images", "prepared", group=16) as writer:
        for number, image in enumerate(sorted(images)):
            writer.add({"image_id": image, **what, "data": named(bases[number % len(bases)], image)})
    manifest(folder / "images", "images", {"max_image_side": 512})
    return len(images)


def answers(folder: Path) -> list[str]:
    """Lay the answers out as a run does, a folder for each model and condition, and return their manifests."""
    made: list[str] = []
    held: dict[tuple, list[dict]] = {}
    for row in store.read_rows(folder / "predictions", "predictions"):
        if row["model"] in {f"sim-{number:02}" for number in range(0, 28, 4)}:
            row["raw"] = f"{' '.join(WORDS * 13)[:1500]} {row['instance_id']}: {row['raw']}"
        held.setdefault((row["model"], row["condition"], row["max_image_side"]), []).append(row)
    for place, ((model, condition, side), rows) in enumerate(sorted(held.items())):
        here = folder / "infer" / f"{place:02}"
        here.mkdir(parents=True)
        store.write_table(here, "predictions", sorted(rows, key=lambda row: (row["task"], row["instance_id"])), group=512)
        made.append(manifest(here, "infer", {"name": model, "condition": condition, "max_image_side": side, "goal": "shown"}))
    return made


def audit(folder: Path) -> list[str]:
    """Simulate and normalise trajectories, put all of them in the sample, and return the report's arguments."""
    measure(
        "simulate",
        "--settings",
        json.dumps({"trajectories": TRAJECTORIES, "formats": ["agentrewardbench"]}),
        "--seed",
        "1",
        "--out",
        str(folder / "corpus"),
    )
    root, truth = folder / "corpus" / "agentrewardbench", folder / "corpus" / "truth.jsonl"
    given = json.dumps({"source": "arb", "kind": "agentrewardbench", "simulated": True, "options": {}})
    measure("normalise", "--settings", given, "--root-folder", str(root), "--truth", str(truth), "--out", str(folder / "normalised"))
    blank = dict.fromkeys(store.schema.TABLES["sample"].names)
    rows = store.read_rows(folder / "normalised", "trajectories")
    kept = {name: [row[name] for row in rows] for name in ("trajectory_id", "source", "benchmark", "agent", "task_id", "simulated")}
    (folder / "sample").mkdir()
    sample = [
        {**blank, **dict(zip(kept, one, strict=True)), "verdict": "fail", "status": "analysed"} for one in zip(*kept.values(), strict=True)
    ]
    store.write_table(folder / "sample", "sample", sample)
    words = ["--normalised", str(folder / "normalised" / "manifest.json"), "--root", f"arb={root}"]
    return [*words, "--sample", manifest(folder / "sample", "sample", {})]


def inputs(folder: Path) -> list[str]:
    """Make everything a full-size report reads, and return its arguments."""
    measure(*full_size(folder))
    stats = str(folder / "stats" / "manifest.json")
    for stage in ("tables", "figures"):
        measure(stage, "--stats", stats, "--out", str(folder / stage))
    print(f"{probes(folder):,} pictures", file=sys.stderr)
    asked = answers(folder)
    words = ["report", "--settings", json.dumps({"name": "full-size", "max_items": 24}), "--seed", "1", "--threads", "1"]
    for name in ("stats", "tables", "figures", "mined", "images", "scores"):
        words += [f"--{name}", str(folder / name / "manifest.json")]
    return [*words, "--predictions", *asked, "--prompts", str(PROMPTS), *audit(folder), "--out", str(folder / "report")]


def size(folder: Path) -> tuple[int, int]:
    """Return files and bytes of a folder."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


class Clock:
    """Processor time of a page's main thread, which also does its layout and painting."""

    def __init__(self, tab: Page) -> None:
        self._session = tab.context.new_cdp_session(tab)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def ms(self) -> float:
        """Return milliseconds so far."""
        told = {one["name"]: one["value"] for one in self._session.send("Performance.getMetrics")["metrics"]}
        return 1000 * told["TaskDuration"]


def first_view(browser: Browser, page: Path, ready: str, fragment: str = "") -> tuple[Page, float, float, int]:
    """Open a page; return it, milliseconds of the processor and of the clock until ``ready``, and bytes of the files it has asked for."""
    tab = browser.new_page(viewport={"width": 1400, "height": 900})
    asked: set[Path] = set()
    tab.on("request", lambda request: asked.add(Path(request.url.removeprefix("file://").partition("#")[0])))
    tab.on("console", lambda message: sys.exit(f"{page.name}: {message.text}") if message.type == "error" else None)
    clock, start = Clock(tab), time.perf_counter()
    before = clock.ms()
    tab.goto(page.as_uri() + fragment)
    tab.wait_for_selector(ready, state="attached")
    took, used = 1000 * (time.perf_counter() - start), clock.ms() - before
    tab.wait_for_timeout(500)  # what it asks for next belongs to the view too
    return tab, used, took, sum(path.stat().st_size for path in asked if path.is_file())


def main() -> int:
    """Print a row a measurement; return 1 if a bound is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder for the run, empty or not there yet (default: a temporary one)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.work or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        wall, used, mib = measure(*inputs(folder))
        parts = [str(folder / name) for name in ("tables", "figures", "report")]
        measure("publish", "--run", "full-size", "--results", str(folder), *parts)
        report = (folder / "runs" / "full-size").resolve()
        print("| measured | processor | clock | size | bound |\n| --- | ---: | ---: | ---: | ---: |")
        row("the stage", f"{used:.1f} s", f"{wall:.0f} s", f"{mib:.0f} MiB", f"{LIMIT_BUILD:.0f} s")
        for where in ("", "items/data", "items/pictures", "trajectories"):
            files, total = size(report / where)
            row(f"{where or 'everything'}, {files:,} files", size=f"{total / 1e6:.1f} MB")
        item = store.read_rows(folder / "mined", "t3")[500]["instance_id"]
        failed = ["the stage"] * (used > LIMIT_BUILD) + in_chromium(report, item)
    for one in failed:
        print(f"bound not met: {one}")
    return int(bool(failed))


def row(what: str, processor: str = "", clock: str = "", size: str = "", bound: str = "") -> None:
    """Print a row of the table."""
    print(f"| {what} | {processor} | {clock} | {size} | {bound} |", flush=True)


def in_chromium(report: Path, item: str) -> list[str]:
    """Print what pages and filters take; return what is above its bound."""
    failed = []
    views = {
        "front page, first view": ("index.html", "footer", ""),
        "instance browser, first view": ("items/index.html", "html[data-ready]", ""),
        "one item by its link": ("items/index.html", "#item[data-item]", f"#item={item}"),
    }
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=which("chromium"), args=["--no-sandbox"])
        for what, (page, ready, fragment) in views.items():
            taken = []
            for _ in range(3):
                tab, used, took, weight = first_view(browser, report / page, ready, fragment)
                taken.append((used, took))
                tab.close()
            used, took = sorted(taken)[1]
            row(what, f"{used:.0f} ms", f"{took:.0f} ms", f"{weight / 1e6:.2f} MB", f"{LIMIT_VIEW:.0f} ms, {LIMIT_BYTES / 1e6:.0f} MB")
            failed += [what] * (used > LIMIT_VIEW or weight > LIMIT_BYTES)
        tab, *_ = first_view(browser, report / "items/index.html", "html[data-ready]")
        clock = Clock(tab)
        for what, (box, value) in FILTERS.items():
            before = clock.ms()
            took = tab.evaluate(FILTER, [box, value])
            used = clock.ms() - before
            row(f"filter: {what}", f"{used:.0f} ms", f"{took:.0f} ms", "", f"{LIMIT_FILTER:.0f} ms")
            failed += [what] * (used > LIMIT_FILTER)
        browser.close()
    return failed


if __name__ == "__main__":
    sys.exit(main())
