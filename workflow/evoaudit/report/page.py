"""The page: every table, figure and example of a run in one static file that needs no server."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoaudit.jsonfile import read_json
from evoaudit.report import cases, drops, inline, layout, load, questions, tables, trajectories
from evoaudit.report import summary as summaries
from evoaudit.report.load import Inputs
from evoaudit.report.pictures import want_originals, want_prepared
from evoaudit.report.thumbs import Thumbs
from evoaudit.report.words import code, count, plain, settings

TEMPLATES = Path(__file__).parent / "templates"
#: Bytes the page may weigh; examples and rows are halved until it does.
WEIGHT = 3_000_000
TASKS = {
    "t1": ("T1", "In which order were these screens seen?"),
    "t2": ("T2", "Which action led from the first screen to the second?"),
    "t3": ("T3", "Which screen, A or B, follows from the first?"),
}
DOWNLOADS = (("csv", "CSV"), ("parquet", "Parquet"), ("tex", "TeX"), ("md", "Markdown"))
DRAWINGS = (("svg", "SVG"), ("pdf", "PDF"), ("png", "PNG"))


@dataclass(frozen=True)
class Figure:
    """A figure and the files it comes in."""

    name: str
    title: str
    caption: str
    ends: tuple[tuple[str, str], ...]
    #: Why there is nothing to draw; empty where there is.
    empty: str = ""


@dataclass(frozen=True)
class Part:
    """A section of the page with what there is for it."""

    section: layout.Section
    tables: tuple[tables.View, ...]
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Key:
    """A stage folder in words."""

    stage: str
    key: str
    label: str
    meaning: str
    counts: str


def build(
    folder: Path, inputs: Inputs, *, name: str, title: str | None, max_items: int, seed: int | None, threads: int = 1
) -> dict[str, Any]:
    """Write ``index.html`` and its pictures into ``folder``; return the run's totals.

    The files depend on the inputs, the settings and the seed alone.
    """
    draw = seed or 0
    found = load.tables(inputs.stats)
    asked = {task: questions.questions(inputs, task, max_items, draw) for task in TASKS}
    paged = trajectories.chosen(inputs)
    audited = cases.cases(inputs, max_items, draw, {row["trajectory_id"] for row in paged})
    dropped = drops.drops(inputs, max_items, draw)
    thumbs = Thumbs(folder)
    _pictures(thumbs, inputs, asked, audited, dropped, threads)
    summary = summaries.summarise(inputs, found, seed, name)
    page = _page(inputs, summary, name, title)
    share = 1
    while True:
        context = _cut(asked, audited, dropped, share)
        html = _render(
            "index.html.j2",
            {**page, **context, "parts": parts(inputs, found, load.ROWS // share, _with_examples(context)), "thumb": thumbs.get},
        )
        if len(html.encode()) <= WEIGHT or share >= load.ROWS:
            break
        share *= 2
    (folder / "index.html").write_text(html, encoding="utf-8", newline="\n")
    thumbs.drop(_shown(context))
    trajectories.write(folder, inputs, paged, plain(name, 80), threads)
    return summary.totals


def _cut(asked: dict, audited: tuple, dropped: tuple, share: int) -> dict[str, Any]:
    """Return the examples, the first of every ``share`` of them."""

    def first(items: list) -> list:
        return items[: -(-len(items) // share)]

    return {
        "n_questions": sum(len(items) for items, _ in asked.values()),
        "groups": [(task, *TASKS[task], first(items), total) for task, (items, total) in asked.items()],
        "cases": first(audited[0]),
        "n_cases": audited[1],
        "drops": first(dropped[0]),
        "n_drops": dropped[1],
    }


def _frames(asked: list, audited: list, dropped: list) -> tuple[set[str], set[str]]:
    """Return the pictures as models saw them, and those of the sources."""
    prepared = {frame.picture for question in asked for frame in question.frames}
    originals = cases.pictures(audited)
    originals |= {frame.picture for drop in dropped for frame in drop.frames}
    return {name for name in prepared if name}, {name for name in originals if name}


def _pictures(thumbs: Thumbs, inputs: Inputs, asked: dict, audited: tuple, dropped: tuple, threads: int) -> None:
    prepared, originals = _frames([question for items, _ in asked.values() for question in items], audited[0], dropped[0])
    if prepared and inputs.images:
        want_prepared(thumbs, inputs.images[:1], prepared)
    want_originals(thumbs, inputs.normalised, inputs.roots, originals)
    thumbs.make(threads)


def _shown(context: dict) -> set[str]:
    prepared, originals = _frames([question for group in context["groups"] for question in group[3]], context["cases"], context["drops"])
    return prepared | originals


def _with_examples(context: dict) -> set[str]:
    """Return the sections that have examples under them."""
    shown = {"questions": context["n_questions"], "verdicts": context["cases"], "data": context["drops"]}
    return {section for section, examples in shown.items() if examples}


def parts(inputs: Inputs, found: dict[str, load.Table], limit: int, kept: set[str]) -> list[Part]:
    """Return the sections with their tables and figures, those named in ``kept`` even without; what no section names comes last."""
    figures = {figure.name: figure for figure in drawn(inputs.figures)}
    named_tables = {name for section in layout.SECTIONS for name in section.tables}
    named_figures = {name for section in layout.SECTIONS for name in section.figures}
    rest = layout.Section(
        layout.REST.id,
        layout.REST.title,
        layout.REST.intro,
        tuple(name for name in found if name not in named_tables),
        tuple(name for name in figures if name not in named_figures),
    )
    made = [
        Part(
            section,
            tuple(tables.view(found[name], limit) for name in section.tables if name in found),
            tuple(figures[name] for name in section.figures if name in figures),
        )
        for section in (*layout.SECTIONS, rest)
    ]
    # What this run has nothing for comes last: an audit alone does not begin with a leaderboard of no models.
    made.sort(key=lambda part: part.section.id not in kept and all(view.table.simulated == "n/a" for view in part.tables))
    return [part for part in made if part.tables or part.figures or part.section.id in kept]


def drawn(folder: Path | None) -> list[Figure]:
    """Return the figures of a folder, with its own words where it has them."""
    if folder is None:
        return []
    words = {str(entry["name"]): entry for entry in read_json(folder / "figures.json")} if (folder / "figures.json").is_file() else {}
    made = []
    for path in sorted(folder.glob("*.svg")):
        name = path.stem
        title, caption = layout.FIGURES.get(name, (name.replace("_", " ").capitalize(), ""))
        entry = words.get(name, {})
        made.append(
            Figure(
                name,
                plain(entry.get("title") or title),
                plain(entry.get("caption") or entry.get("note") or caption, 600),
                tuple((end, text) for end, text in DRAWINGS if (folder / f"{name}.{end}").is_file()),
                plain(entry.get("empty") or "", 300),
            )
        )
    return made


def keys(inputs: Inputs) -> list[Key]:
    """Return the stages behind the page in words, from their manifests."""
    made = []
    for folder in inputs.folders():
        if not (folder / "manifest.json").is_file():
            continue
        manifest = read_json(folder / "manifest.json")
        config = manifest.get("config") or {}
        label = next((str(config[field]) for field in ("name", "source") if isinstance(config, dict) and config.get(field)), "")
        counts = manifest.get("counts") or {}
        told = f"{counts['read']:,} read, {counts['kept']:,} kept" if "read" in counts else ""
        reasons = counts.get("dropped") or {}
        if reasons:
            told += (
                f", {sum(reasons.values()):,} left out ({', '.join(f'{plain(reason, 60)} {n:,}' for reason, n in sorted(reasons.items()))})"
            )
        if "unit" in counts:
            told = f"{plain(counts['unit'], 40)}: {told}"
        seed = manifest.get("seed")
        meaning = (f"seed {seed}; " if seed is not None else "") + settings(config)
        made.append(
            Key(plain(manifest.get("stage"), 40), plain(manifest.get("key"), 60), plain(label, 80), plain(meaning, 420), plain(told, 420))
        )
    return made


def _page(inputs: Inputs, summary: summaries.Summary, name: str, title: str | None) -> dict[str, Any]:
    return {
        "name": plain(name, 80),
        "title": plain(title or f"EvoAudit: {name}", 200),
        "summary": summary,
        "keys": keys(inputs),
        "methods": layout.METHODS,
        "downloads": _downloads(inputs.tables),
        "count": count,
    }


def _downloads(folder: Path | None) -> dict[str, list[tuple[str, str]]]:
    """Return table name → the (ending, word) of each file it comes in."""
    if folder is None:
        return {}
    found: dict[str, list[tuple[str, str]]] = {}
    for end, word in DOWNLOADS:
        for path in sorted(folder.glob(f"*.{end}")):
            found.setdefault(path.stem, []).append((end, word))
    return found


def _render(template: str, context: dict[str, Any]) -> str:
    """Render a template of the report."""
    return inline.render(
        TEMPLATES / template,
        context,
        style="report.css",
        script="report.js",
        filters={"code": code},
        tests={"a_step": lambda value: isinstance(value, cases.Shot), "shown": lambda picture: context["thumb"](picture) is not None},
    )
