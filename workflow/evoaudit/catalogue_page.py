"""The catalogue as a page of plain text, for people who have never seen the project."""

import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from evoaudit.catalogue import Catalogue, Finding
from evoaudit.errors import one_line
from evoaudit.reasons import explain

#: Columns of a page, and of the labels at its left.
WIDTH, LABEL = 100, 13
#: Names listed of one sort.
LISTED = 6

LEGEND = (
    "Screens are counted as in EvoGUI, Table 1 (whose split has 12 and 39): n steps join n + 1 screens. A usable transition is a step "
    "with a readable screen on either side and no other action between them; the others have no such pair."
)

#: Kinds whose logs are what people did.
DEMONSTRATIONS = frozenset({"mind2web", "weblinx", "androidcontrol", "aitz", "opencua"})

_UNITS = {
    "trajectory": ("trajectory", "trajectories"),
    "step": ("log entry", "log entries"),
    "transition": ("step", "steps"),
    "picture": ("picture", "pictures"),
    "row": ("row", "rows"),
    "target": ("target box", "target boxes"),
    "thoughts": ("list of thoughts", "lists of thoughts"),
    "folder": ("folder", "folders"),
    "file": ("file", "files"),
}
_STATUSES = {
    "missing": "not there",
    "lfs_pointer": "not fetched by Git LFS",
    "truncated": "cut off",
    "too_large": "too large",
    "not_an_image": "no pictures",
}


def block(one: Catalogue, place: str | None = None) -> list[str]:
    """Return the lines on one source: a headline, then a line for each thing worth knowing."""
    lines = wrapped(headline(one))
    for label, text in _facts(one, place):
        lines += labelled(label, text)
    return lines + _left_out(one)


def headline(one: Catalogue) -> str:
    """Return the sentence that sums up a source."""
    name = one_line(one.source) + (" (simulated)" if one.simulated == "yes" else "")
    if not one.trajectories:
        answers, trajectories = one.annotations.get("rows", 0), one.annotations.get("trajectories", 0)
        return f"{name} · labels only: {answers:,} answers of annotators on {count(trajectories, 'trajectory', 'trajectories')}"
    parts = [count(one.trajectories, "trajectory", "trajectories"), count(one.steps, "step"), f"{one.transitions:,} usable transitions"]
    return f"{name} · {', '.join(parts)}, {_pictures_in_short(one)}"


def _pictures_in_short(one: Catalogue) -> str:
    if not one.pictures:
        return "no pictures"
    if not one.pictures_lost:
        return "all pictures read"
    return f"{one.pictures_ok:,} of {one.pictures_ok + one.pictures_lost:,} pictures read"


def _facts(one: Catalogue, place: str | None) -> Iterable[tuple[str, str]]:
    if place:
        yield "found in", place
    if one.trajectories:
        benchmarks = {name: n for name, n in one.benchmarks.items() if name}
        if len(benchmarks) > 1 or (benchmarks and next(iter(benchmarks)).removeprefix("sim-") != one.kind):
            yield "benchmarks", listed(benchmarks, one.trajectories)
        agents = {name: n for name, n in one.agents.items() if name}
        unnamed = one.agents.get("", 0)
        if agents:
            yield "agents", listed(agents) + (f"; {unnamed:,} without a name" if unnamed else "")
        else:
            yield "agents", "none: people's demonstrations" if one.kind in DEMONSTRATIONS else "none named"
        yield "length", _length(one)
        yield "actions", _actions(one)
        yield "pictures", _pictures(one)
        if one.transitions:
            yield "alignment", _alignment(one)
        if one.domains:
            yield "domains", _domains(one)
        yield "verdicts", _verdicts(one)
    if one.annotations:
        yield "labels", _labels(one)
    if one.timestamps:
        yield "times", _times(one)
    if one.trajectories:
        licences = {name or "not stated": n for name, n in one.licences.items()}
        yield "licence", listed(licences) if len(licences) > 1 else one_line(next(iter(licences)), 80)


def _length(one: Catalogue) -> str:
    if one.steps_median is None:
        return "no steps"
    return (
        f"{one.steps_median:g} steps and {one.screens_median:g} screens a trajectory (median), "
        f"{one.steps_p95} and {one.screens_p95} at the 95th percentile"
    )


def _actions(one: Catalogue) -> str:
    text = listed(one.actions, one.steps, limit=8)
    notes = []
    if one.actions.get("other"):
        notes.append(f"'other' stands for {listed(one.other_verbs, limit=3)}")
    if one.without_value:
        notes.append(f"{one.without_value:,} of type and select without the value")
    if one.errors:
        notes.append(f"{one.errors:,} ended in an error of the environment")
    return "; ".join([text, *notes])


def _pictures(one: Catalogue) -> str:
    if not one.pictures:
        return "none named in the logs"
    parts = [f"{n:,} {_STATUSES.get(status, status)}" for status, n in one.pictures.items() if status != "ok"]
    if not one.sizes:
        return f"none can be read: {', '.join(parts)}"
    width, height = one.sizes["commonest"]
    if one.sizes["different"] == 1:
        parts.insert(0, f"{one.pictures_ok:,} different ones, all {width} × {height}")
    else:
        (median_x, median_y), (high_x, high_y) = one.sizes["median"], one.sizes["p95"]
        parts.insert(
            0,
            f"{one.pictures_ok:,} different ones in {one.sizes['different']:,} sizes, median {median_x} × {median_y}, "
            f"95th percentile {high_x} × {high_y}",
        )
    return "; ".join(parts)


def _alignment(one: Catalogue) -> str:
    verdict, advice = one.alignment["verdict"], one_line(one.alignment["advice"], 200)
    if verdict == "aligned":
        return "what changes on the screens fits the actions"
    return f"{'cannot tell' if verdict == 'undecided' else verdict}: {advice}"


def _domains(one: Catalogue) -> str:
    name, different = one_line(one.domains["commonest"], 40), one.domains["different"]
    if different == 1:
        return f"one, {name}"
    spread = "evenly spread" if one.domains["effective"] > 0.95 * different else f"as varied as {one.domains['effective']:.1f} equal ones"
    return f"{different:,}, the largest {name} with {percent(one.domains['commonest_share'])}; {spread}"


def _verdicts(one: Catalogue) -> str:
    if not one.verdicts:
        return "none in the logs"
    parts = []
    for oracle, verdicts in list(one.verdicts.items())[:LISTED]:
        counted = ", ".join(f"{verdicts[verdict]:,} {verdict}" for verdict in ("pass", "fail", "error", "unscored") if verdict in verdicts)
        parts.append(f"{one_line(oracle, 40)}: {counted}")
    more = len(one.verdicts) - len(parts)
    return "; ".join(parts) + (f"; and {more} more oracles" if more > 0 else "")


def _labels(one: Catalogue) -> str:
    labels = one.annotations
    by = ", ".join(f"{n:,} by {many}" for many, n in labels["by_annotators"].items())
    people, trajectories = count(len(labels["annotators"]), "annotator"), labels["trajectories"]
    text = f"{labels['rows']:,} answers of {people} on {count(trajectories, 'trajectory', 'trajectories')} ({by})"
    absent = labels["without_trajectory"]
    return text + (f"; the logs of {'all' if absent == trajectories else f'{absent:,}'} of them are not here" if absent else "")


def _times(one: Catalogue) -> str:
    times = one.timestamps
    text = "every step has one" if times["share"] == 1 else f"{percent(times['share'])} of the steps have one"
    if times["clock"] == "epoch":
        text += f", from {_day(times['first'])} to {_day(times['last'])}"
    elif times["clock"] == "recording":
        text += f", seconds from the start of a recording ({times['first']:g} to {times['last']:g})"
    else:
        text += ", some since 1970 and some from the start of a recording"
    odd = [f"{times['negative']:,} negative"] if times["negative"] else []
    odd += [f"running backwards in {count(times['backwards'], 'trajectory', 'trajectories')}"] if times["backwards"] else []
    return "; ".join([text, *odd])


def _day(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s"


def _left_out(one: Catalogue) -> list[str]:
    """Return a line for each reason for which records, or a step's pair of screens, were left out."""
    lines: list[str] = []
    label = "left out"
    for unit, reasons in one.drops.items():
        if unit == "transition":
            label = "no pair"
        for reason, number in reasons.items():
            meaning = explain(reason, unit)
            text = f"{counted(unit, number)}: {meaning.text}" + (f" ({reason})" if meaning.text != reason else "")
            lines += labelled(label, one_line(text))
            if unit not in ("transition", "step") and not meaning.ordinary:
                lines.append(" " * (LABEL + 4) + f"e.g. {_example(*one.examples[unit][reason], WIDTH - LABEL - 9)}")
            label = ""
        label = "left out" if not lines else ""
    return lines


def _example(item: str, detail: str, room: int) -> str:
    """Return a record and what was wrong with it; what is too long loses the end of the detail and the beginning of the name."""
    detail = f" ({one_line(detail, max(20, room - 43))})" if detail else ""
    return tail(item, room - len(detail)) + detail


def findings(found: Sequence[Finding]) -> list[str]:
    """Return the findings as a numbered list; what is only worth knowing comes after, with dashes."""
    lines: list[str] = []
    look, notes = ([one for one in found if one.level == level] for level in ("look", "note"))
    if look:
        lines += ["Look at these first", ""]
        for number, one in enumerate(look, 1):
            lines += _finding(f"{number}.", one)
    if notes:
        lines += ["", "Worth knowing", ""] if look else ["Worth knowing", ""]
        for one in notes:
            lines += _finding("-", one)
    return lines


def _finding(mark: str, one: Finding) -> list[str]:
    lines = textwrap.wrap(
        f"{one_line(one.source)} · {one.sentence}", WIDTH, initial_indent=f"{mark:<4}", subsequent_indent=" " * 4, break_on_hyphens=False
    )
    return lines + [f"    e.g. {tail(example, WIDTH - 9)}" for example in one.examples[:1]]


def tail(text: str, limit: int) -> str:
    """Return text as one line, long text without its beginning: paths and ids differ at their ends."""
    text = one_line(text)
    return text if len(text) <= limit else "…" + text[1 - limit :]


def labelled(label: str, text: str) -> list[str]:
    """Return text beside a label, wrapped under itself."""
    start = f"  {label:<{LABEL}}" if label else " " * (LABEL + 2)
    return textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=" " * (LABEL + 2), break_on_hyphens=False) or [start.rstrip()]


def wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def listed(counts: dict[str, int], whole: int | None = None, limit: int = LISTED) -> str:
    """Return names with their numbers, the first with its share of ``whole``, long lists cut."""
    parts = [f"{one_line(name, 50)} {n:,}" for name, n in list(counts.items())[:limit]]
    if whole and len(counts) > 1:
        parts[0] += f" ({percent(next(iter(counts.values())) / whole)})"
    more = len(counts) - limit
    return ", ".join(parts) + (f" and {more:,} more" if more > 0 else "")


def percent(share: float) -> str:
    return f"{100 * share:.1f} %" if 0 < share < 0.1 else f"{100 * share:.0f} %"


def count(n: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def counted(unit: str, n: int) -> str:
    """Return a number with the noun for a unit of drops."""
    return count(n, *_UNITS.get(unit, (unit,)))
