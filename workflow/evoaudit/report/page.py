"""The report: a front page, pages of tables, one for every model, and one for every trajectory somebody should look at."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from evoaudit.jsonfile import read_json
from evoaudit.places import ITEMS
from evoaudit.prepared import Pictures
from evoaudit.report import board, cases, distrust, drops, layout, load, models, questions, tables, trajectories
from evoaudit.report import summary as summaries
from evoaudit.report.load import Inputs
from evoaudit.report.pictures import want_originals, want_prepared
from evoaudit.report.site import Site, pages
from evoaudit.report.thumbs import Thumbs
from evoaudit.report.words import plain, settings

#: Bytes a page may weigh, and the front one; rows and examples are halved until it does.
WEIGHT, FRONT = 3_000_000, 1_500_000
#: Models, agents and reasons listed on the front page and in the audit's charts.
LINES, AGENTS, REASONS = 500, 200, 8
#: Share of a source's records below which it is marked.
POOR = 0.9
TASKS = {
    "t1": ("T1", "In which order were these screens seen?"),
    "t2": ("T2", "Which action led from the first screen to the second?"),
    "t3": ("T3", "Which screen, A or B, follows from the first?"),
}
DOWNLOADS = (("csv", "CSV"), ("parquet", "Parquet"), ("md", "Markdown"), ("tex", "LaTeX"))
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
class Gap:
    """Tables and figures that this run has nothing for, and why: (id, title) of each."""

    names: tuple[tuple[str, str], ...]
    reason: str


@dataclass(frozen=True)
class Part:
    """A section of a page with what there is for it."""

    section: layout.Section
    tables: tuple[tables.View, ...]
    figures: tuple[Figure, ...]
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True)
class Key:
    """A stage folder in words."""

    stage: str
    key: str
    label: str
    meaning: str
    counts: str


@dataclass(frozen=True)
class Quality:
    """What is said of a source in one respect, and whether it should worry."""

    words: str
    poor: bool = False


@dataclass(frozen=True)
class Source:
    """A source: what of it was kept, and whether its pictures stand at their actions."""

    name: str
    trajectories: Quality
    pictures: Quality
    stand: Quality
    #: Where its records are from: real runs or a simulation.
    kind: str


@dataclass(frozen=True)
class Download:
    """A table or figure in every form it comes in: (path, word). ``page`` shows it."""

    name: str
    title: str
    page: str
    n: int | None
    files: tuple[tuple[str, str], ...]


def build(
    folder: Path, inputs: Inputs, *, name: str, title: str | None, max_items: int, seed: int | None, threads: int = 1, items: bool = False
) -> dict[str, Any]:
    """Write every page and its pictures into ``folder``; return the run's totals.

    ``items`` says whether single questions have a page to link to. The files depend on the inputs, the settings and the seed alone.
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
    told = models.Models(inputs, found, draw, items=items, limit=max_items)
    figures = drawn(inputs.figures)
    site = Site(folder, plain(name, 80), plain(title or f"EvoAudit: {name}", 200), summary.simulated, pages(items))
    boards = board.boards(inputs, told.pages, LINES)
    front = _front(inputs, found, figures, summary, boards)
    front["summary"] = linked(summary, told.pages)
    site.write(
        "index.html",
        _fitting(FRONT, lambda share: site.render("index.html.j2", "index.html", _first(front, share), tagline=layout.FRONT)),
    )
    shown: set[str] = set()
    for page in layout.PAGES:
        html, pictures = _page(site, page, inputs, found, figures, told, (asked, audited, dropped), thumbs)
        site.write(layout.PAGES[page].file, html)
        shown |= pictures
    thumbs.drop(shown)
    lines = {line.model: line for one in boards[:1] for line in one.lines}
    for model, file in told.pages.items():
        made = models.model(told, model, lines.get(model))
        site.write(file, site.render("model.html.j2", file, {"m": made}, heading=made.name, tagline=layout.MODEL))
    trajectories.write(folder, inputs, paged, site.name, threads, site.pages)
    return summary.totals


def linked(summary: summaries.Summary, pages: Mapping[str, str]) -> summaries.Summary:
    """Return the summary with the leader's name leading to its page."""
    name, href = plain(summary.leader, 60), pages.get(summary.leader)
    if not summary.leading or not href:
        return summary
    first, *others = summary.leading
    before, found, after = first.partition(name)
    if not found:
        return summary
    return replace(summary, leading=[Markup('{}<a href="{}"><bdi>{}</bdi></a>{}').format(before, href, name, after), *others])


def _fitting(weight: int, render: Callable[[int], str]) -> str:
    """Return what ``render`` makes of the largest share, one in every 1, 2, 4 … that fits."""
    share = 1
    while True:
        html = render(share)
        if len(html.encode()) <= weight or share >= load.ROWS:
            return html
        share *= 2


def _front(
    inputs: Inputs, found: dict[str, load.Table], figures: list[Figure], summary: summaries.Summary, boards: list[board.Board]
) -> dict[str, Any]:
    """Return what the front page shows."""
    left_out = found.get("drops")
    # Candidates that no quota had room for are no loss of data, so they come last.
    every = sorted(
        left_out.rows if left_out else (), key=lambda row: (row.get("unit") == "candidate", -(row.get("n") or 0), str(row.get("reason")))
    )
    reasons = [row for row in every if row.get("stage") not in layout.AUDITING]
    unaudited = [row for row in every if row.get("stage") in layout.AUDITING]
    verdicts = found.get("audit_verdicts")
    return {
        "summary": summary,
        "boards": boards,
        "kinds": distrust.kinds(inputs),
        "rates": distrust.rates(inputs),
        "keys": keys(inputs),
        "methods": layout.METHODS,
        "papers": layout.PAPERS,
        "downloads": downloads(inputs, found, figures),
        "reasons": [_reason(row) for row in reasons[:REASONS]],
        "n_reasons": left_out.n - len(unaudited) if left_out else 0,
        "unaudited": [_reason(row) for row in unaudited[:REASONS]],
        "n_unaudited": len(unaudited),
        "why_unaudited": verdicts.empty if verdicts and not verdicts.n else "",
        "differences": "pairwise_models" in found,
        "sources": _sources(inputs, found),
    }


def _reason(row: dict) -> tuple[str, str, str, str, int]:
    """Return a reason, what it means, of what unit and source, and how often it was met."""
    reason, unit, source = (plain(row.get(column) or "", 60).replace("_", " ") for column in ("reason", "unit", "source"))
    return reason, drops.meaning(str(row.get("reason")), row.get("unit")), unit, source, row.get("n") or 0


def _sources(inputs: Inputs, found: Mapping[str, load.Table]) -> list[Source]:
    """Return each source, and whether less than ``POOR`` of it could be used or its pictures do not stand at their actions."""
    kept: dict[str, dict[str, Quality]] = {}
    for row in found["ingest"].rows if "ingest" in found else ():
        if row.get("stage") == "normalise" and row.get("read") is not None and row.get("kept") is not None:
            told = Quality(f"{row['kept']:,} of {row['read']:,}", row["kept"] < POOR * row["read"])
            kept.setdefault(str(row.get("source")), {})[str(row.get("unit"))] = told
    stand: dict[str, Quality] = {}
    for row in found["alignment"].rows if "alignment" in found else ():
        if not row.get("control"):
            verdict, advice = str(row.get("verdict") or ""), str(row.get("advice") or "")
            words = ": ".join(plain(part, 200) for part in (verdict, advice if verdict != "aligned" else "") if part)
            stand[str(row.get("source"))] = Quality(words, verdict not in ("aligned", "undecided", ""))
    none = Quality("")
    flags: dict[str, str] = {}
    for folder in inputs.normalised:
        if (folder / "manifest.json").is_file():
            config = read_json(folder / "manifest.json").get("config") or {}
            real = (
                "logs of real runs, as given"
                if kept.get(str(config.get("source")), {}).get("trajectory")
                else "annotations of real runs, as given"
            )
            flags[str(config.get("source"))] = {True: "simulated", False: real}.get(config.get("simulated"), "")
    return [
        Source(plain(name, 60), units.get("trajectory", none), units.get("picture", none), stand.get(name, none), flags.get(name, ""))
        for name, units in kept.items()
    ]


def _first(front: dict[str, Any], share: int) -> dict[str, Any]:
    """Return the front page's lists, the first of every ``share`` of their rows."""
    return {**front, "most": -(-LINES // share), "most_keys": -(-LINES // share)}


def _page(
    site: Site,
    id: str,
    inputs: Inputs,
    found: dict[str, load.Table],
    figures: list[Figure],
    told: models.Models,
    examples: tuple[dict, tuple, tuple],
    thumbs: Thumbs,
) -> tuple[str, set[str]]:
    """Return a page of sections, and the pictures on it."""
    page = layout.PAGES[id]
    context: dict[str, Any] = {}

    def render(share: int) -> str:
        context.clear()
        context.update(_cut(*examples, share, id))
        shown = {
            **context,
            "parts": parts(found, figures, id, load.ROWS // share, _with_examples(context), told.pages),
            "ends": {download.name: download.files for download in downloads(inputs, found, [])},
            "page": page,
            "corrected": distrust.corrected(inputs, AGENTS // share) if id == "audit" else [],
            "items": ITEMS if told.items else "",
            "reasons": _meanings(found) if id == "data" else [],
        }
        return site.render("sections.html.j2", page.file, shown, heading=page.title, tagline=page.intro, thumb=thumbs.get)

    html = _fitting(WEIGHT, render)
    return html, _shown(context)


def _meanings(found: Mapping[str, load.Table]) -> list[tuple[str, str]]:
    """Return what the reasons of this run mean, by reason."""
    rows = found["drops"].rows if "drops" in found else ()
    told = {plain(row["reason"], 60): drops.meaning(str(row["reason"]), row.get("unit")) for row in rows if row.get("reason")}
    return sorted((reason, words) for reason, words in told.items() if words)


def _cut(asked: dict, audited: tuple, dropped: tuple, share: int, page: str) -> dict[str, Any]:
    """Return the examples of a page, the first of every ``share`` of them."""

    def first(items: list, where: str) -> list:
        return items[: -(-len(items) // share)] if where == page else []

    return {
        "n_questions": sum(len(items) for items, _ in asked.values()) if page == "questions" else 0,
        "groups": [(task, *TASKS[task], first(items, "questions"), total) for task, (items, total) in asked.items()],
        "cases": first(audited[0], "audit"),
        "n_cases": audited[1],
        "drops": first(dropped[0], "data"),
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
    with ExitStack() as until_made:
        if prepared and inputs.images:
            want_prepared(thumbs, until_made.enter_context(Pictures(inputs.images[0])), prepared)
        want_originals(thumbs, inputs.normalised, inputs.roots, originals)
        thumbs.make(threads)


def _shown(context: dict) -> set[str]:
    prepared, originals = _frames([question for group in context["groups"] for question in group[3]], context["cases"], context["drops"])
    return prepared | originals


def _with_examples(context: dict) -> set[str]:
    """Return the sections that have examples under them."""
    shown = {"questions": context["n_questions"], "verdicts": context["cases"], "data": context["drops"]}
    return {section for section, examples in shown.items() if examples}


def parts(found: dict[str, load.Table], drawn: list[Figure], page: str, limit: int, kept: set[str], links: Mapping[str, str]) -> list[Part]:
    """Return a page's sections with their tables and figures, those named in ``kept`` even without; what no section names comes last."""
    figures = {figure.name: figure for figure in drawn}
    named_tables = {name for section in layout.SECTIONS for name in section.tables}
    named_figures = {name for section in layout.SECTIONS for name in section.figures}
    rest = layout.Section(
        layout.REST.id,
        layout.REST.page,
        layout.REST.title,
        layout.REST.intro,
        tuple(name for name in found if name not in named_tables),
        tuple(name for name in figures if name not in named_figures),
    )
    made = []
    for section in (*layout.SECTIONS, rest):
        if section.page != page:
            continue
        held = [found[name] for name in section.tables if name in found]
        shown = [figures[name] for name in section.figures if name in figures]
        made.append(
            Part(
                section,
                tuple(tables.view(_told(table), limit, links) for table in held if table.n),
                tuple(figure for figure in shown if not figure.empty),
                _gaps(held, shown),
            )
        )
    # What this run has nothing for comes last.
    made.sort(key=lambda part: part.section.id not in kept and all(view.table.simulated == "n/a" for view in part.tables))
    return [part for part in made if part.tables or part.figures or part.gaps or part.section.id in kept]


def _gaps(held: list[load.Table], shown: list[Figure]) -> tuple[Gap, ...]:
    """Return what a section has nothing for, by reason."""
    found: dict[str, list[tuple[str, str]]] = {}
    for table in held:
        if not table.n:
            found.setdefault(table.empty or "This run has no data for it.", []).append((f"t-{table.name}", table.title))
    for figure in shown:
        if figure.empty:
            found.setdefault(figure.empty, []).append((f"f-{figure.name}", f"{figure.title} (figure)"))
    return tuple(Gap(tuple(names), reason) for reason, names in found.items())


#: Column → the one it is shown as, so that the interval beside EvoGain is the one to believe on every page.
SHOWN_AS = {"cluster_low": "evogain_low", "cluster_high": "evogain_high", "evogain_low": "items_low", "evogain_high": "items_high"}
ITEMS_ENDS = {"cluster_low": ("items_low", "items low"), "cluster_high": ("items_high", "items high")}


def _told(table: load.Table) -> load.Table:
    """Return a table as its page shows it: the interval to believe beside EvoGain, and a warning where it rests on little."""
    named = {column.name for column in table.columns}
    if table.name == "evogui_intervals" and named >= SHOWN_AS.keys() and any(row.get("cluster_low") is not None for row in table.rows):
        columns = tuple(
            replace(column, name=ITEMS_ENDS[column.name][0], words=ITEMS_ENDS[column.name][1]) if column.name in ITEMS_ENDS else column
            for column in table.columns
        )
        rows = tuple({SHOWN_AS.get(name, name): value for name, value in row.items()} for row in table.rows)
        table = replace(table, columns=columns, rows=rows, note=layout.NOTES[table.name])
    return replace(table, note=board.warned(table.note, table.rows))


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


def downloads(inputs: Inputs, found: Mapping[str, load.Table], figures: list[Figure]) -> list[Download]:
    """Return every table, then every figure, with the files it comes in."""
    pages = {name: section.page for section in layout.SECTIONS for name in (*section.tables, *section.figures)}

    def where(name: str, mark: str) -> str:
        return f"{layout.PAGES[pages.get(name, layout.REST.page)].file}#{mark}-{name}"

    made = []
    for name, table in found.items():
        files = tuple(
            (f"tables/{name}.{end}", word) for end, word in DOWNLOADS if inputs.tables and (inputs.tables / f"{name}.{end}").is_file()
        )
        made.append(Download(name, plain(table.title, 160), where(name, "t"), table.n, files))
    for figure in figures:
        files = tuple((f"figures/{figure.name}.{end}", word) for end, word in figure.ends)
        made.append(Download(figure.name, figure.title, where(figure.name, "f"), None, files))
    return made
