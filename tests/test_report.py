"""The report: every table and example on one page, whatever the logs hold, the same bytes each time; and its place among a run's files."""

import base64
import hashlib
import io
import json
import posixpath
import re
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl

import made_run
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from evoaudit import pictures, store
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.places import ITEMS, trajectory_page
from evoaudit.report import cases, summary, tables, thumbs, words
from evoaudit.report import pictures as originals
from evoaudit.report.examples import spread
from evoaudit.report.load import Column, Table
from evoaudit.report.slugs import slugs

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \"'&{{7*7}}{% raise %} javascript:alert(3)"
RTL = "\u202eevil\u202c مرحبا بالعالم שלום"
LONG = "long-word " * 500
SHOTS = 12


def picture(number: int, size: tuple[int, int] = (640, 400)) -> Image.Image:
    image = Image.new("RGB", size, (250, 250, 248))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, size[0], 40), fill=(40 + 12 * number % 200, 90, 140))
    draw.text((20, 12), f"Shop, screen {number}", fill="white")
    for line in range(6):
        draw.rectangle((40, 80 + 45 * line, 40 + (number * 53 + line * 97) % 480, 100 + 45 * line), fill=(200, 205, 210))
    return image


def manifest(folder: Path, stage: str, config: dict, counts: dict | None = None) -> str:
    store.write_manifest(
        folder,
        stage=stage,
        key=f"{stage}-key",
        format_version=1,
        seed=7,
        config=config,
        upstream={},
        counts=counts or {"unit": "row", "read": 1, "kept": 1, "dropped": {}, "others": {}},
    )
    return str(folder / "manifest.json")


def make(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    return folder


def stats(root: Path, simulated: str = "all") -> str:
    """Write a statistics folder: a leaderboard, verdicts, hostile cells, an empty table and one no section knows."""
    folder = make(root, "stats")
    models = [("beta-9b", 48.25), ("alpha-2b", 31.0), (HOSTILE, 12.5), ("image-similarity", -0.01)]
    made = {
        "evogui_intervals": (
            [
                {
                    "rank": n + 1,
                    "model": model,
                    "evogain": gain,
                    "evogain_low": gain - 3,
                    "evogain_high": gain + 3,
                    "rank_low": n + 1,
                    "rank_high": n + 2,
                    "p_best": 50.0,
                    "group": "Open-weight models",
                    "simulated": True,
                }
                for n, (model, gain) in enumerate(models)
            ],
            [
                ("rank", "n"),
                ("model", "text"),
                ("evogain", "pct", "high"),
                ("evogain_low", "pct"),
                ("evogain_high", "pct"),
                ("rank_low", "n"),
                ("rank_high", "n"),
                ("p_best", "pct", "", True),
                ("group", "text", "", True),
                ("simulated", "flag", "", True),
            ],
        ),
        "audit_verdicts": (
            [
                {
                    "benchmark": b,
                    "oracle": "program",
                    "n": n,
                    "gf": n - 3,
                    "efn": 2,
                    "broken": 1,
                    "unclear": 0,
                    "wrong": 300 / n,
                    "wrong_low": 100 / n,
                    "wrong_high": 700 / n,
                }
                for b, n in (("webarena", 25), (RTL, 24), ("all", 49))
            ],
            [
                ("benchmark", "text"),
                ("oracle", "text"),
                ("n", "n"),
                ("gf", "n"),
                ("efn", "n"),
                ("broken", "n"),
                ("unclear", "n"),
                ("wrong", "pct"),
                ("wrong_low", "pct"),
                ("wrong_high", "pct"),
            ],
        ),
        "agreement": (
            [
                {
                    "stage": "verdict",
                    "raters": "judge-1, judge-2",
                    "n": 49,
                    "raw": 93.9,
                    "statistic": "cohen_kappa",
                    "value": 0.7123,
                    "low": 0.5,
                    "high": None,
                }
            ],
            [
                ("stage", "text"),
                ("raters", "text"),
                ("n", "n"),
                ("raw", "pct"),
                ("statistic", "text"),
                ("value", "coef"),
                ("low", "coef"),
                ("high", "coef"),
            ],
        ),
        "drops": (
            [{"stage": "normalise", "source": LONG, "reason": HOSTILE, "n": 3}],
            [("stage", "text"), ("source", "text"), ("reason", "text"), ("n", "n")],
        ),
        "cost": ([], [("model", "text"), ("usd", "usd")]),
        "brand_new": ([{"x": i, "p": 1e-9} for i in range(300)], [("x", "n"), ("p", "p")]),
    }
    units = {"pct": ("%", 1), "n": ("", 0), "text": ("", None), "coef": ("", 3), "usd": ("USD", 4), "flag": ("", None), "p": ("", 4)}
    index = []
    for name, (rows, columns) in made.items():
        kinds = {"text": pa.string(), "n": pa.int64(), "flag": pa.bool_()}
        schema = pa.schema([(column[0], kinds.get(column[1], pa.float64())) for column in columns])
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / f"{name}.parquet")
        index.append(
            {
                "name": name,
                "title": f"Title of {name} {HOSTILE if name == 'drops' else ''}".strip(),
                "paper": "EvoGUI Table 3",
                "group": "",
                "note": f"A note with `code`. {HOSTILE if name == 'drops' else ''}".strip(),
                "n": len(rows),
                "simulated": simulated,
                "empty": "Nothing was asked of a model." if not rows else "",
                "columns": [
                    {
                        "name": c[0],
                        "label": c[0].replace("_", " "),
                        "unit": units[c[1]][0],
                        "decimals": units[c[1]][1],
                        "kind": c[1],
                        "best": c[2] if len(c) > 2 else "",
                        "extra": len(c) > 3,
                    }
                    for c in columns
                ],
            }
        )
    (folder / "tables.json").write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")
    return manifest(folder, "stats", {"bootstrap": 200})


def rendered(root: Path) -> str:
    folder = make(root, "tables")
    for entry in json.loads((root / "stats" / "tables.json").read_text(encoding="utf-8")):
        for end in ("csv", "md", "tex", "parquet"):
            (folder / f"{entry['name']}.{end}").write_text("x\n", encoding="utf-8")
    return manifest(folder, "tables", {})


def drawn(root: Path) -> str:
    folder = make(root, "figures")
    for name in ("evogain_forest", "verdicts_by_benchmark", "never_heard_of"):
        (folder / f"{name}.svg").write_text(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 260"><rect width="600" height="260" fill="white"/>'
            '<path d="M60 200H560M60 200V20" stroke="black"/>'
            '<path d="M80 160h160M80 110h260M80 60h380" stroke="steelblue" stroke-width="14"/></svg>'
        )
        for end in ("pdf", "png"):
            (folder / f"{name}.{end}").write_text("x")
    return manifest(folder, "figures", {})


def sources(root: Path) -> tuple[str, Path, list[str]]:
    """Write a normalised source whose pictures are files; one is missing and one is hostile in every text."""
    files = make(root, "files")
    folder = make(root, "normalised")
    ids, images = [], []
    for number in range(SHOTS):
        picture(number).save(files / f"shot {number}.png")
        ids.append(hashlib.sha256(str(number).encode()).hexdigest())
        images.append(
            {
                "image_id": ids[-1],
                "source": "web",
                "file": f"shot {number}.png",
                "member": None,
                "file_sha256": None,
                "width": 640,
                "height": 400,
                "format": "png",
                "status": "ok",
                "phash": None,
                "blank": 0.1,
                "n_uses": 1,
            }
        )
    (files / "shot 11.png").unlink()
    images.append({**images[0], "image_id": "outside", "file": "../secret.png"})
    (root / "secret.png").write_bytes((files / "shot 0.png").read_bytes())
    store.write_table(folder, "images", images)
    blank = dict.fromkeys(store.schema.TRAJECTORIES.names)
    outcomes = ["efn", "broken", "unclear", "gf", "gf"]
    store.write_table(
        folder,
        "trajectories",
        [
            {
                **blank,
                "trajectory_id": f"web:{n}",
                "source": "web",
                "kind": "plain",
                "benchmark": "webarena",
                "agent": HOSTILE if n == 1 else "agent-a",
                "task_id": f"0{n}",
                "instruction": HOSTILE + LONG if n == 0 else f"Buy the red kettle, please {n}",
                "answer": RTL,
                "reference": "42",
                "n_steps": 11,
                "simulated": True,
                "source_file": "f",
                "source_sha256": "0",
            }
            for n in range(5)
        ],
    )
    step = dict.fromkeys(store.schema.STEPS.names)
    store.write_table(
        folder,
        "steps",
        [
            {
                **step,
                "trajectory_id": f"web:{n}",
                "step": s,
                "gap_before": False,
                "op": "click" if s % 2 else "type",
                "value": None if s % 2 else HOSTILE,
                "target": {
                    "x": 1.0,
                    "y": 2.0,
                    "left": None,
                    "top": None,
                    "width": None,
                    "height": None,
                    "text": "Add to basket" if s % 3 else None,
                },
                "reasoning": f"The “Add” button is next. {HOSTILE}",
                "error": "unknown element" if s == 4 else None,
                "before_image": ids[s],
                "after_image": ids[s + 1] if s < 10 else "outside",
                "obs_phase": "before",
            }
            for n in range(5)
            for s in range(11)
        ],
    )
    store.write_table(
        folder,
        "changes",
        [
            {
                "trajectory_id": f"web:{n}",
                "step": s,
                "state": "same" if s == 3 else "changed",
                "changed_pixels": 5,
                "changed_tiles": s,
                "tiles_x": 40,
                "tiles_y": 25,
                "tiles": b"",
            }
            for n in range(5)
            for s in range(11)
        ],
    )
    store.write_table(
        folder,
        "oracle_results",
        [
            {
                "trajectory_id": f"web:{n}",
                "oracle": "string match",
                "oracle_version": None,
                "raw_reward": 0.0,
                "verdict": "fail",
                "status": "ok",
            }
            for n in range(5)
        ],
    )
    store.write_table(
        folder,
        "truth",
        [
            {
                "trajectory_id": f"web:{n}",
                "planted": "efn-answer-form",
                "outcome": outcome,
                "category": "t3-noop" if outcome == "gf" else None,
                "lookalike": "clock",
                "evidence_step": 6,
            }
            for n, outcome in enumerate(outcomes)
        ],
    )
    drop = {"stage": "normalise", "source": "web", "unit": "step"}
    store.write_table(
        folder,
        "drops",
        [
            {**drop, "item": "t2 web:0#2", "reason": "step_gap", "detail": None},
            {**drop, "item": HOSTILE, "reason": "broken_line", "detail": RTL},
            {**drop, "item": "web:1#10", "reason": "outside", "detail": "a screen out of the root"},
        ],
    )
    path = manifest(
        folder, "normalise", {"source": "web"}, {"unit": "trajectory", "read": 7, "kept": 5, "dropped": {"broken_line": 2}, "others": {}}
    )
    return path, files, ids


def probes(root: Path, ids: list[str]) -> dict[str, list[str]]:
    folder = make(root, "mined")
    row = {"source": "web", "domain": "shop", "website": "shop.example", "goal": HOSTILE, "stream": "s", "simulated": True}
    items: dict[str, list[dict]] = {
        "t1": [
            {
                **row,
                "instance_id": f"t1-{n}",
                "trajectory_id": "web:0",
                "images": ids[n : n + 3],
                "slice": "K=3",
                "steps": [2, 0, 1],
                "answer": [2, 3, 1],
            }
            for n in range(6)
        ],
        "t2": [
            {
                **row,
                "instance_id": f"t2-{n}",
                "trajectory_id": "web:0",
                "images": ids[n : n + 2],
                "slice": "type",
                "step": n,
                "answer_action": "type",
                "answer_value": "red kettle",
                "value_in_goal": False,
            }
            for n in range(4)
        ],
        "t3": [
            {
                **row,
                "instance_id": f"t3-{n}",
                "trajectory_id": "web:1",
                "images": [ids[n], ids[n + 1], ids[n + 5]],
                "slice": "cross",
                "step": n,
                "answer": "A",
                "distractor_trajectory": "web:2",
                "distractor_step": 5,
            }
            for n in range(4)
        ],
    }
    for task, rows in items.items():
        store.write_table(folder, task, rows)
    store.write_table(folder, "drops", [])
    prepared = make(root, "images")
    data = {}
    for n, image_id in enumerate(ids):
        small = picture(n).resize((512, 320))
        small.save(root / "small.png")
        data[image_id] = (root / "small.png").read_bytes()
    data[ids[4]] = b"not a picture"
    store.write_table(
        prepared,
        "prepared",
        [
            {
                "image_id": image_id,
                "max_image_side": 512,
                "width": 512,
                "height": 320,
                "format": "png",
                "resampling": "lanczos",
                "data": raw,
            }
            for image_id, raw in data.items()
        ],
    )
    answers = {"t1": '{"order":[2,3,1]}', "t2": '{"action":"type","value":"blue kettle"}', "t3": '{"answer":"A"}'}
    scores, predictions = [], []
    for model in ("alpha-2b", HOSTILE, "mute"):
        for task, rows in items.items():
            for n, item in enumerate(rows):
                right = task != "t2" and n % 2 == 0
                status = "unanswered" if model == "mute" else "answered"
                who = {
                    "model": model,
                    "condition": "full",
                    "max_image_side": 512,
                    "run": 0,
                    "task": task,
                    "instance_id": item["instance_id"],
                }
                scores.append(
                    {
                        **who,
                        "trajectory_id": item["trajectory_id"],
                        "source": "web",
                        "domain": "shop",
                        "slice": item["slice"],
                        "status": status,
                        "parse_path": "json",
                        "answer": None if model == "mute" else answers[task],
                        "confidence": 0.7,
                        "correct": right and model != "mute",
                        "action_correct": task == "t2" or None,
                        "tau": None,
                        "value_in_goal": None,
                        "simulated": True,
                    }
                )
                predictions.append(
                    {
                        **who,
                        "raw": None if model == "mute" else HOSTILE + LONG,
                        "status": "refused" if model == "mute" else "ok",
                        "finish_reason": None,
                        "input_tokens": None,
                        "output_tokens": None,
                        "usd": None,
                        "error": None,
                    }
                )
    scored, asked = make(root, "scores"), make(root, "predictions")
    store.write_table(scored, "scores", scores)
    store.write_table(asked, "predictions", predictions)
    return {
        "mined": [manifest(folder, "mine", {})],
        "images": [manifest(prepared, "images", {"max_image_side": 512})],
        "scores": [manifest(scored, "score", {})],
        "predictions": [manifest(asked, "infer", {"name": HOSTILE})],
    }


def audit(root: Path) -> dict[str, list[str]]:
    folder = make(root, "sample")
    known = [
        {"trajectory_id": f"web:{n}", "benchmark": "webarena", "agent": "agent-a", "task_id": f"0{n}", "simulated": True} for n in range(5)
    ]
    store.write_table(
        folder,
        "sample",
        [
            {
                **row,
                "source": "web",
                "experiment": None,
                "domain": None,
                "raw_reward": 0.0,
                "verdict": "fail",
                "order": 0,
                "status": "analysed",
            }
            for row in known
        ],
    )
    verdicts = ["efn", "broken", "unclear", "gf", "gf"]
    final = make(root, "final")
    store.write_table(
        final,
        "final",
        [
            {
                **row,
                "verdict": verdict,
                "category": "t3-noop" if verdict == "gf" else None,
                "verdict_rule": "human_agreement",
                "category_rule": None,
                "reviewed": True,
                "n_raters": 4,
            }
            for row, verdict in zip(known, verdicts, strict=True)
        ],
    )
    person = {
        "kind": "human",
        "stage": "informed",
        "verdict": "broken",
        "category": None,
        "evidence_steps": [7],
        "confidence": None,
        "seconds": None,
    }
    person |= {"note": "the shop is closed", "codebook_version": "1", "simulated": False}
    store.write_table(final, "labels", [{"trajectory_id": "web:0", "annotator": name, **person} for name in ("human-1", "rules")])
    store.write_table(final, "drops", [])
    judged = make(root, "judge")
    store.write_table(
        judged,
        "judgments",
        [
            {
                "trajectory_id": row["trajectory_id"],
                "annotator": "rules",
                "kind": "rules",
                "stage": "blind",
                "verdict": "gf",
                "category": "t1-loop",
                "evidence_steps": [6],
                "confidence": 0.9,
                "seconds": None,
                "note": None,
                "codebook_version": "1",
                "simulated": True,
                "judge_id": "j",
                "evidence": "screenshots+text",
                "status": "ok",
                "rationale": HOSTILE,
                "input_tokens": None,
                "output_tokens": None,
                "usd": None,
            }
            for row in known
        ],
    )
    signals = make(root, "signals")
    store.write_table(
        signals,
        "signals",
        [
            {
                "trajectory_id": row["trajectory_id"],
                "signal": "noop_run",
                "parameter": 3,
                "fired": True,
                "evidence_steps": [3],
                "detail": HOSTILE,
            }
            for row in known
        ],
    )
    return {
        "sample": [manifest(folder, "sample", {})],
        "final": [manifest(final, "combine", {})],
        "judgments": [manifest(judged, "judge", {"name": "rules"})],
        "signals": [manifest(signals, "signals", {})],
    }


def everything(root: Path) -> list[str]:
    """Write a whole run and return the arguments that name it."""
    normalised, files, ids = sources(root)
    arguments = {
        "stats": [stats(root)],
        "tables": [rendered(root)],
        "figures": [drawn(root)],
        "normalised": [normalised],
        **probes(root, ids),
        **audit(root),
    }
    return [word for name, given in arguments.items() for word in (f"--{name}", *given)] + ["--root", f"web={files}"]


def build(arguments: list[str], out: Path, **settings: object) -> str:
    """Build the report and return its front page."""
    given = json.dumps({"name": "demo", "title": None, "max_items": 24} | settings)
    assert main(["report", "--settings", given, "--seed", "7", "--key", "abcdef0123-s7", *arguments, "--out", str(out)]) == 0
    return read(out)


def read(folder: Path, page: str = "index.html") -> str:
    return (folder / page).read_text(encoding="utf-8")


def pages(folder: Path) -> dict[str, str]:
    """Return every page but those of single trajectories, by its path."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
    return {page: read(folder, page) for page in found if not page.startswith("trajectories/")}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path, str]:
    root = tmp_path_factory.mktemp("run")
    arguments = everything(root)
    return arguments, root / "report", build(arguments, root / "report")


class Page(HTMLParser):
    """What a browser would make of the page: elements with their attributes, ids, and the text outside style and script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.stack: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.stack:
            while self.stack.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.stack):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_hostile_text_stays_text(run: tuple[list[str], Path, str]) -> None:
    found = pages(run[1])
    assert len(found) == 6 + 5 + 1  # four models of the leaderboard, one that was only scored, and the instance browser
    for name, html in found.items():
        page = Page(html)
        assert len(page.all("script")) == 1 and "src" not in page.all("script")[0], name
        for _, attributes in page.elements:
            assert not [name for name in attributes if name.startswith("on") or name == "style"]
            assert not (attributes.get("href") or "").startswith("javascript:")
        assert "\u202e" not in html
    said = "".join(Page(html).text for html in found.values())
    assert "alert(1)" in said and "{{7*7}}" in said and "\\u202e" in said and "مرحبا" in said


def test_policy_names_the_only_script_and_style_by_hash(run: tuple[list[str], Path, str]) -> None:
    for html in pages(run[1]).values():
        policy = next(a["content"] for a in Page(html).all("meta") if a.get("http-equiv") == "Content-Security-Policy")
        assert policy.startswith("default-src 'none'") and "unsafe" not in policy and "http" not in policy
        for tag in ("style", "script"):
            (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
            assert f"{tag}-src 'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'" in policy


def test_nothing_is_fetched_from_elsewhere(run: tuple[list[str], Path, str]) -> None:
    for html in pages(run[1]).values():
        for tag, attributes in Page(html).elements:
            for name in ("src", "href", "srcset", "data", "action", "poster"):
                assert not re.match(r"[a-z][a-z0-9+.-]*:|//", attributes.get(name) or ""), (tag, attributes)


def test_every_table_and_figure_is_on_one_page(run: tuple[list[str], Path, str]) -> None:
    shown: list[str] = []
    for name, html in pages(run[1]).items():
        ids = [a["id"] for _, a in Page(html).elements if a.get("id")]
        assert len(ids) == len(set(ids))
        shown += [id for id in ids if re.fullmatch(r"[tf]-\w+", id) and not name.startswith("models/")]
    assert sorted(shown) == sorted(
        [f"t-{name}" for name in ("evogui_intervals", "audit_verdicts", "agreement", "drops", "cost", "brand_new")]
        + [f"f-{name}" for name in ("evogain_forest", "verdicts_by_benchmark", "never_heard_of")]
    )
    assert "Nothing to show for Title of cost: Nothing was asked of a model." in Page(read(run[1], "models.html")).text
    assert "The first 200 of 300 rows" in Page(read(run[1], "checks.html")).text


def test_every_link_leads_somewhere_once_published(run: tuple[list[str], Path, str], tmp_path: Path) -> None:
    arguments, report, _ = run
    given = {name: arguments[arguments.index(f"--{name}") + 1] for name in ("tables", "figures")}
    assert main(["publish", "--run", "demo", "--results", str(tmp_path), *given.values(), str(report / "manifest.json")]) == 0
    target = tmp_path / "runs" / "demo"
    found = {name: Page(html) for name, html in pages(target).items()}
    ids = {name: {a["id"] for _, a in page.elements if a.get("id")} for name, page in found.items()}
    index = (target / "items" / "data" / "index.js").read_text(encoding="utf-8")
    seen = set()
    for name, page in found.items():
        for link in sorted(filter(None, {a["href"] for a in page.all("a")} | {a["src"] for a in page.all("img")})):
            path, _, mark = link.partition("#")
            place = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            assert (target / place).is_file(), (name, link)
            if place == ITEMS:
                item = dict(parse_qsl(mark)).get("item")
                assert item is None or f'"{item}"' in index, (name, link)
            else:
                assert not mark or mark in ids[place], (name, link)
            seen.add(f"{place}#{mark}" if mark else place)
    assert {"tables/drops.csv", "figures/evogain_forest.pdf", "manifest.json", "keys.json", "models.html#t-evogui_intervals"} <= seen
    assert {"models/beta-9b.html", trajectory_page("web:0"), "index.html#leaderboard"} <= seen


def test_pictures_have_words_and_sizes(run: tuple[list[str], Path, str]) -> None:
    report = run[1]
    found = [a for html in pages(report).values() for a in Page(html).all("img")]
    shots = [a for a in found if a["src"].startswith("assets/")]
    assert len(shots) > 30
    for shot in shots:
        with Image.open(report / shot["src"]) as image:
            assert (str(image.width), str(image.height)) == (shot["width"], shot["height"]) and max(image.size) <= thumbs.SIDE
        assert shot["alt"]
    assert all(a["alt"] for a in found)
    assert {path.name for path in (report / "assets" / "thumbs").iterdir()} == {Path(shot["src"]).name for shot in shots}


def test_lost_broken_and_outside_pictures_are_said_to_be_missing(run: tuple[list[str], Path, str]) -> None:
    labels = [a["aria-label"] for html in pages(run[1]).values() for a in Page(html).all("div") if a.get("class") == "gone"]
    assert "Screen before step 10: no picture" not in labels
    assert "Screen, after, of web:1#10: no picture" in labels


def test_record_left_out_shows_the_screens_around_its_step(run: tuple[list[str], Path, str]) -> None:
    alts = [a["alt"] for a in Page(read(run[1], "data.html")).all("img")]
    assert {"Screen, before, of t2 web:0#2", "Screen, after, of t2 web:0#2"} <= set(alts)


def test_headline_says_what_ran_and_what_came_of_it(run: tuple[list[str], Path, str]) -> None:
    text = re.sub(r"\s+", " ", Page(run[2]).text)
    assert "Run demo with seed 7 read 7 trajectories from 1 source: 5 kept, 2 left out." in text
    assert "beta-9b leads with an EvoGain of 48.2 (interval over items: 45.2 to 51.2), clear of every other model." in text
    assert "Of 49 audited FAIL verdicts, 6.1 % were wrong (interval 2.0 to 14.3 %): 2 rejected work that did the task, 1 belonged" in text
    assert "Every trajectory of this run is simulated." in text


def test_no_baseline_is_said_to_lead() -> None:
    rows = [{"model": name, "evogain": gain, "group": group} for name, gain, group in (("b", 35.4, "Baseline"), ("m", 20.0, "Open"))]
    assert summary._leading(rows) == "m leads with an EvoGain of 20.0."
    assert summary._leading(rows[:1]) == "Only built-in baselines answered; of them b scores highest, with an EvoGain of 35.4."


def test_the_headline_goes_by_trajectories_and_by_tested_differences() -> None:
    rows = [
        {
            "model": name,
            "evogain": gain,
            "evogain_low": gain - 1,
            "evogain_high": gain + 1,
            "cluster_low": gain - 3,
            "cluster_high": gain + 3,
        }
        for name, gain in (("a", 40.0), ("b", 36.0), ("c", 20.0))
    ]
    # The items' intervals are apart, those of trajectories are not.
    assert summary._leading(rows).startswith(
        "a leads with an EvoGain of 40.0 (interval over trajectories: 37.0 to 43.0); 1 other model cannot"
    )
    pairs = [{"model_a": "a", "model_b": "b", "p": 0.03}, {"model_a": "a", "model_b": "c", "p": 0.001}]
    pairs.append({"model_a": "b", "model_b": "c", "p": 0.9})
    assert summary._leading(rows, pairs).endswith("clear of every other model.")
    pairs[1]["p"] = 0.03  # two claims at 0.03 are no sure ones by Holm
    assert summary._leading(rows, pairs).endswith(
        "2 other models cannot be told apart from it by the differences over shared resamples: b and c."
    )


def test_examples_show_answers_and_evidence(run: tuple[list[str], Path, str]) -> None:
    text = re.sub(r"\s+", " ", Page(read(run[1], "questions.html") + read(run[1], "audit.html")).text)
    for said in (
        "2 → 3 → 1",
        "type “red kettle”",
        "action right, value wrong",
        "no answer",
        "0 of 2 models right",
        "nothing changed",
        "unknown element",
        "repeated an action on an unchanged screen, 3 times",
        "efn-answer-form (evaluator false negative); shows at step 6",
        "fail by the checker string match, reward 0",
    ):
        assert said in text, said


def test_wrong_verdicts_come_first(run: tuple[list[str], Path, str]) -> None:
    order = re.findall(r'<span class="verdict (\w*)">', read(run[1], "audit.html"))
    assert order == ["efn", "broken", "unclear", "gf", "gf"]


def test_steps_that_raters_or_rules_point_at_are_marked(run: tuple[list[str], Path, str]) -> None:
    first = read(run[1], "audit.html").split('id="case-1"')[1].split('id="case-2"')[0]
    marked = re.findall(r'class="step evidence">.*?<figcaption>(step \d+)</figcaption>', first, re.DOTALL)
    assert marked == ["step 3", "step 6", "step 7"] and "<figcaption>at the end</figcaption>" in first and ">2 more<" in first


def test_labels_of_people_stand_beside_those_of_judges(run: tuple[list[str], Path, str]) -> None:
    first = read(run[1], "audit.html").split('id="case-1"')[1].split('id="case-2"')[0]
    assert re.findall(r'<th scope="row"><bdi>(.*?)</bdi>', first) == ["final", "human-1 (human, informed)", "rules (screenshots and text)"]
    assert "the shop is closed" in first


def test_building_again_gives_the_same_bytes(run: tuple[list[str], Path, str], tmp_path: Path) -> None:
    arguments, report, _ = run
    build([*arguments, "--threads", "3"], tmp_path / "elsewhere")
    names = sorted(path.relative_to(report).as_posix() for path in report.rglob("*") if path.is_file())
    assert names == sorted(
        path.relative_to(tmp_path / "elsewhere").as_posix() for path in (tmp_path / "elsewhere").rglob("*") if path.is_file()
    )
    for name in names:
        assert name == "manifest.json" or (report / name).read_bytes() == (tmp_path / "elsewhere" / name).read_bytes(), name
    assert str(tmp_path) not in (tmp_path / "elsewhere" / "index.html").read_text(encoding="utf-8")


def test_statistics_alone_make_a_page(tmp_path: Path) -> None:
    html = build(["--stats", stats(tmp_path, "n/a"), "--root"], tmp_path / "out", title=HOSTILE)
    text = Page(html).text
    assert "read no trajectories" in text and "Simulated." not in text and "alert(1)" in text


def test_no_examples_are_shown_when_none_are_wanted(run: tuple[list[str], Path, str], tmp_path: Path) -> None:
    build(run[0], tmp_path / "out", max_items=0)
    assert "examples-" not in "".join(pages(tmp_path / "out").values()) and not list((tmp_path / "out" / "assets" / "thumbs").iterdir())


def test_page_is_bounded_whatever_the_run_holds(run: tuple[list[str], Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evoaudit.report.page.WEIGHT", 60_000)
    build(run[0], tmp_path / "out")
    sizes = {name: len(html.encode()) for name, html in pages(tmp_path / "out").items()}
    assert max(sizes.values()) <= 60_000 and "t-brand_new" in read(tmp_path / "out", "checks.html")


def test_missing_statistics_are_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--stats", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "tables.json: file not found" in said


def test_interval_is_folded_into_its_estimate_and_ranks_are_not() -> None:
    columns = tuple(Column(name, name, decimals=1) for name in ("score", "score_low", "score_high", "rank_low", "rank_high"))
    table = Table(
        "t", "t", "", "", "", columns, ({"score": -0.04, "score_low": -1.25, "score_high": 2.0, "rank_low": 1, "rank_high": 2},), 1, "none"
    )
    view = tables.view(table, 10)
    assert [head.name for head in view.heads] == ["score", "rank_low", "rank_high"]
    assert (view.rows[0][0].text, view.rows[0][0].interval) == ("0.0", "−1.2 to 2.0")


def test_intervals_are_as_wide_in_every_row() -> None:
    columns = tuple(Column(name, name, decimals=1) for name in ("score", "score_low", "score_high"))
    ends = ((-1.0, 102.5), (33.0, 44.0), (None, 1.0))
    rows = tuple({"score": 1.0, "score_low": low, "score_high": high} for low, high in ends)
    cells = [row[0] for row in tables.view(Table("t", "t", "", "", "", columns, rows, 3, "none"), 10).rows]
    assert [cell.interval or cell.gap for cell in cells] == ["−1.0 to 102.5", "33.0 to \u200744.0", "0000 to 00000"]


def test_best_value_is_marked_among_those_that_compete() -> None:
    columns = (Column("group", "group"), Column("score", "score", decimals=1, best="high"))
    rows = tuple(
        {"group": group, "score": score} for group, score in (("Baseline", 90.0), ("Open", 50.04), ("Open", 50.01), ("Open", 10.0))
    )
    view = tables.view(Table("t", "t", "", "", "", columns, rows, 4, "none"), 10)
    assert ["strong" in row[1].classes for row in view.rows] == [False, True, True, False]


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (1234567, None, "1,234,567"),
        (-0.04, 1, "0.0"),
        (-3.25, 1, "−3.2"),
        (None, 1, ""),
        (float("nan"), 1, ""),
        (float("inf"), 1, "∞"),
        (0.71234, 3, "0.712"),
        (12.0, None, "12"),
        (0.00012345, None, "0.0001234"),
    ],
)
def test_numbers_are_written_for_people(value: object, decimals: int | None, text: str) -> None:
    assert words.number(value, decimals) == text


@pytest.mark.parametrize(("x", "words"), [(40.0, "click at 40, 30"), (1e308, "click"), (float("nan"), "click"), (None, "click")])
def test_an_action_is_said_to_be_at_a_place_on_a_screen_alone(x: float | None, words: str) -> None:
    assert cases.action_words({"op": "click", "target": {"text": None, "x": x, "y": 30.0}, "value": None}) == words


def test_groups_take_turns() -> None:
    assert spread("aaabbc", lambda letter: letter, str, 5) == ["a", "b", "c", "a", "b"]


@pytest.mark.parametrize("raw", [b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"<svg/>", b"version https://git-lfs.github.com/spec/v1\n"])
def test_what_is_no_picture_has_no_thumbnail(raw: bytes) -> None:
    assert thumbs.shrink(raw) is None


def png(bits: int, colour_type: int, row: bytes, width: int) -> bytes:
    """Return a PNG of one row, without a palette."""
    header = struct.pack(">IIBBBBB", width, 1, bits, colour_type, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" + row)), (b"IEND", b""))
    parts = [struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def encoded(mode: str, **more: object) -> bytes:
    out = io.BytesIO()
    image = picture(3).convert("RGB")
    image.putpixel((0, 0), (255, 0, 0))
    image = image.convert(mode) if mode != "I;16" else Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)
    image.save(out, "JPEG" if mode == "CMYK" else "PNG", **more)
    return out.getvalue()


@pytest.mark.parametrize(
    "raw",
    [
        *(encoded(mode) for mode in ("RGB", "L", "1", "P", "LA", "RGBA", "I;16", "CMYK")),
        encoded("P", transparency=0),
        encoded("I;16", transparency=5),
        png(16, 0, bytes([0x20, 0, 0x80, 0]), 2),
        png(16, 2, bytes([0x20, 0, 0x80, 0, 0xF0, 0]), 1),
    ],
)
def test_a_thumbnail_has_the_colours_that_were_measured(raw: bytes) -> None:
    made, width, height = thumbs.shrink(raw, (640, 400))
    measured = pictures.screen(raw).pixels
    assert (height, width) == measured.shape[:2]
    with Image.open(io.BytesIO(made)) as shown:
        assert np.abs(np.asarray(shown.convert("RGB")).astype(int) - measured).mean() < 8


def test_a_picture_that_has_changed_is_missing_from_the_report(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded("RGB"))
    known = hashlib.sha256(encoded("RGB")).hexdigest()
    assert originals.read(tmp_path, "a.png", None, "plain", known) == encoded("RGB")
    assert originals.read(tmp_path, "a.png", None, "plain", None) == encoded("RGB")
    (tmp_path / "a.png").write_bytes(encoded("L"))
    assert originals.read(tmp_path, "a.png", None, "plain", known) is None


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_a_picture_of_a_palette_that_is_not_there_is_none_on_any_page(bits: int) -> None:
    raw = png(bits, 3, b"\0" * bits, 8)
    assert pictures.inspect(raw).status == "truncated" and pictures.screen(raw) is None and thumbs.shrink(raw) is None
    with pytest.raises(InputError, match="picture has changed"):
        pictures.decode(raw, "x.png")


def published(root: Path, *manifests: str, plan: list[dict] | None = None) -> Path:
    words_ = [word for word in ("--plan", str(root / "plan.json")) if plan is not None]
    if plan is not None:
        (root / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    assert main(["publish", "--run", "demo", "--results", str(root / "results"), *words_, *manifests]) == 0
    return root / "results" / "runs" / "demo"


def test_publishing_twice_touches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stats(tmp_path)
    made = rendered(tmp_path)
    target = published(tmp_path, made)
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*")}
    assert published(tmp_path, made) == target and before == {path: path.stat().st_mtime_ns for path in target.rglob("*")}
    assert capsys.readouterr().out.splitlines() == [f"run: {target.as_posix()}/ (tables)"] * 2
    manifest = json.loads((target / "manifest.json").read_text())
    assert (
        all(store.sha256_file(target / file) == sha for file, sha in manifest["files"].items()) and "tables/drops.csv" in manifest["files"]
    )


def test_publishing_one_section_leaves_the_others_alone(tmp_path: Path) -> None:
    stats(tmp_path)
    tables_, figures = rendered(tmp_path), drawn(tmp_path)
    target = published(tmp_path, tables_)
    (target / "notes.txt").write_text("mine")
    (target / "tables" / "drops.csv").write_text("changed by hand")
    (target / "tables" / "stale.csv").write_text("old")
    published(tmp_path, figures)
    assert (target / "tables" / "stale.csv").exists() and (target / "figures" / "evogain_forest.svg").is_file()
    published(tmp_path, tables_)
    assert (target / "tables" / "drops.csv").read_text() == "x\n" and not (target / "tables" / "stale.csv").exists()
    assert (target / "notes.txt").read_text() == "mine"
    assert not [path for path in target.iterdir() if path.name.startswith(".")]


def test_what_other_settings_made_does_not_stand_beside_newer_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everything(tmp_path)
    made = [str(tmp_path / name / "manifest.json") for name in ("tables", "figures")]
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "index.html").write_text("old")
    page = manifest(tmp_path / "report", "report", {})
    old = [{"stage": stage, "key": f"{stage}-key", "settings": {}} for stage in ("tables", "figures", "report")]
    target = published(tmp_path, *made, page, plan=old)
    (target / "figures" / "mine.txt").write_text("mine")
    (target / "review").mkdir()
    (target / "review" / "labels.csv").write_text("precious")
    # With other settings every key is another; the tables alone are asked for.
    made_run.sealed(tmp_path / "tables", key="newer")
    newer = [{**job, "key": "newer"} for job in old]
    capsys.readouterr()
    published(tmp_path, plan=newer)
    assert (target / "index.html").is_file(), "nothing newer stands beside it yet"
    published(tmp_path, made[0], plan=newer)
    assert not (target / "index.html").exists() and (target / "tables" / "drops.csv").is_file()
    assert [path.name for path in (target / "figures").iterdir()] == ["mine.txt"]
    assert (target / "review" / "labels.csv").read_text() == "precious"
    assert "taken out of it, since they were made before these settings: index.html, figures/;" in capsys.readouterr().out
    assert set(json.loads((target / "manifest.json").read_text())["sections"]) == {"tables"}
    # With the first settings again, all of it is there as before.
    made_run.sealed(tmp_path / "tables", key="tables-key")
    published(tmp_path, *made, page, plan=old)
    assert (target / "index.html").read_text() == "old" and (target / "figures" / "evogain_forest.svg").is_file()


def test_failed_copy_leaves_the_old_section_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stats(tmp_path)
    made = rendered(tmp_path)
    target = published(tmp_path, made)
    before = sorted(path.name for path in (target / "tables").iterdir())
    (tmp_path / "tables" / "new.csv").write_text("y")
    made = manifest(tmp_path / "tables", "tables", {})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfile", full)
        assert main(["publish", "--run", "demo", "--results", str(tmp_path / "results"), made]) == 2
    assert sorted(path.name for path in (target / "tables").iterdir()) == before
    assert "tables/new.csv" in json.loads((published(tmp_path, made) / "manifest.json").read_text())["files"]


def test_review_set_is_published_as_csv_too(tmp_path: Path) -> None:
    folder = make(tmp_path, "select")
    row = {"trajectory_id": "=web(1)", "benchmark": "webarena", "stratum": "agree", "selected": True, "reason": "drawn, of 3"}
    store.write_table(folder, "review_set", [row])
    made = manifest(folder, "select", {})
    target = published(tmp_path, made)
    assert '\'=web(1),webarena,agree,true,"drawn, of 3"' in (target / "review" / "review_set.csv").read_text()
    (target / "review" / "my-labels.csv").write_text("precious")
    store.write_table(folder, "review_set", [{**row, "trajectory_id": "web:2"}])
    published(tmp_path, manifest(folder, "select", {}))
    assert "web:2" in (target / "review" / "review_set.csv").read_text()
    assert (target / "review" / "my-labels.csv").read_text() == "precious"


def test_published_manifest_counts_every_finished_stage(tmp_path: Path) -> None:
    folder = make(tmp_path, "results/normalise/0123456789")
    manifest(folder, "normalise", {}, {"unit": "trajectory", "read": 7, "kept": 5, "dropped": {"broken_line": 2}, "others": {}})
    plan = [
        {
            "stage": "normalise",
            "key": "0123456789",
            "label": "web",
            "meaning": "normalise of web",
            "seed": None,
            "settings": {"simulated": True},
        },
        {"stage": "mine", "key": "never-ran", "label": "all", "meaning": "mine", "seed": 7, "settings": {}},
    ]
    target = published(tmp_path, plan=plan)
    told = json.loads((target / "manifest.json").read_text())
    assert (
        told["counts"] == {"normalise": {"trajectory": {"read": 7, "kept": 5, "dropped": {"broken_line": 2}}}} and told["simulated"] is True
    )
    assert json.loads((target / "keys.json").read_text()) == plan


@pytest.mark.parametrize("name", ["..", "a/b", "", ".hidden", "a" * 65])
def test_run_name_cannot_lead_out_of_the_results(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", f"--run={name}", "--results", str(tmp_path)]) == 2
    assert "cannot name a folder" in capsys.readouterr().err and not list(tmp_path.iterdir())


@given(st.lists(st.text(max_size=80), max_size=12), st.text(max_size=80))
def test_a_slug_is_unique_safe_in_a_path_and_the_same_beside_any_other_name(names, other):
    found = slugs([*names, "GPT 5", "gpt-5", "gpt 5", "モデル", "../up", "a/b", 'a"b', "index", "nul", "-", ""])
    assert len({slug.lower() for slug in found.values()}) == len(found)
    assert all(re.fullmatch(r"[a-z0-9]+([._-][a-z0-9]+)*", slug) and slug != "index" and len(slug) < 80 for slug in found.values())
    assert found["gpt-5"] == "gpt-5" and found.items() <= slugs([*found, other]).items()


def test_a_name_that_ends_as_slugs_of_others_do_is_no_slug_of_its_own():
    taken = slugs(["GPT 5"])["GPT 5"]
    found = slugs(["GPT 5", taken])
    assert found["GPT 5"] == taken and found[taken] != taken
