"""The charts. Each takes rows of the tables and returns a figure that needs no caption."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from evoaudit.conditions import CONDITIONS
from evoaudit.figures.style import (
    BLACK,
    BLUE,
    COLOURS,
    DASHES,
    GREEN,
    GREY,
    MARKERS,
    ORANGE,
    PALE,
    PURPLE,
    ROWS,
    SKY,
    VERMILION,
    WIDTH,
    new,
    percent_axis,
    rows_axis,
    safe,
)

#: Heading of the solvers that need no model.
BASELINE = "Baseline"
GROUP_MARKS = {
    BASELINE: ("X", GREY),
    "Open-weight models": ("o", BLUE),
    "Closed-weight models": ("s", VERMILION),
    "Other models": ("D", GREEN),
}
#: Verdict → label, colour, hatch. Hatches keep them apart in grey.
VERDICTS = {
    "gf": ("genuine failure", PALE, ""),
    "efn": ("evaluator false negative", ORANGE, "///"),
    "broken": ("broken task", BLUE, "\\\\\\"),
    "unclear": ("unclear", "#FFFFFF", "..."),
}
TIMES = " \N{MULTIPLICATION SIGN} "
#: Most series a line chart shows.
SERIES = 7


def _by(rows: Sequence[dict], *names: str) -> dict:
    found: dict = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names) if len(names) > 1 else row[names[0]], []).append(row)
    return found


def _span(axes: Axes, y: float, low: float | None, high: float | None, colour: str, width: float = 1.2, alpha: float = 1.0) -> None:
    if low is not None and high is not None:
        axes.plot([low, high], [y, y], color=colour, linewidth=width, alpha=alpha, solid_capstyle="butt", zorder=2)


def _legend(axes: Axes, columns: int = 4, **kwargs: object) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, borderaxespad=0.2, handletextpad=0.4, columnspacing=1.2, **kwargs)


def _titled(axes: Axes, title: str, legend: bool = False) -> None:
    axes.set_title(title, pad=18 if legend else 6)


def _logs(axes: Axes, which: str, values: Sequence[float]) -> None:
    """Make an axis logarithmic with plain numbers at few ticks."""
    low, high = min(values), max(values)
    getattr(axes, f"set_{which}scale")("log")
    getattr(axes, f"set_{which}lim")(low / 1.6, high * 1.6)
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 200 else (1,), numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def parameter_trend(rows: Sequence[dict]) -> Figure:
    """Draw EvoGain over parameter count, by family."""
    figure = new(3.6)
    axes = figure.subplots()
    families = _by([{**row, "family": row["family"] or "no family"} for row in sorted(rows, key=lambda row: row["parameters_b"])], "family")
    for place, (family, members) in enumerate(sorted(families.items())):
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
        x = [row["parameters_b"] for row in members]
        y = [row["evogain"] for row in members]
        axes.plot(x, y, marker, color=colour, markersize=5, label=safe(family), zorder=3)
        for row in members:
            if row["evogain_low"] is not None:
                axes.plot([row["parameters_b"]] * 2, [row["evogain_low"], row["evogain_high"]], color=colour, linewidth=0.9, zorder=2)
    _logs(axes, "x", [row["parameters_b"] for row in rows])
    axes.axhline(0, color=GREY, linewidth=0.8)
    spans = [(row["parameters_b"], row["evogain_low"], row["evogain_high"]) for row in rows if row["evogain_low"] is not None]
    _name_points(axes, [(row["parameters_b"], row["evogain"], row["model"]) for row in rows], spans)
    axes.annotate("chance", (0.995, 0), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7, color=GREY)
    axes.set_xlabel("parameters, billions (log scale)")
    axes.set_ylabel("EvoGain, %")
    axes.grid()
    _titled(axes, "EvoGain over model size, by family, with 95 % intervals", True)
    _legend(axes, 6)
    return figure


#: Where a name may stand from its point: offset in points and alignment, best first; the far ones get a line.
_SEATS = [
    (dx, dy, side)
    for reach in (0, 9, 18, 27, 36, 45)
    for dy in ((0,) if not reach else (reach, -reach))
    for dx, side in ((6, "left"), (-6, "right"))
]


def _name_points(axes: Axes, points: Sequence[tuple[float, float, str]], spans: Sequence[tuple[float, float, float]] = ()) -> None:
    """Write names beside points where they meet neither each other nor a point nor an interval; what fits nowhere is left out.

    ``spans`` are vertical intervals (x, low, high). Works on estimated sizes in points, after the limits of both axes are set; x is
    logarithmic.
    """
    size = 6.5
    across, high = (length * 72 * share for length, share in zip(axes.figure.get_size_inches(), (0.88, 0.72), strict=True))
    (left, right), (bottom, top) = (map(math.log, axes.get_xlim())), axes.get_ylim()
    spots = [((math.log(x) - left) / (right - left) * across, (y - bottom) / (top - bottom) * high, name) for x, y, name in points]
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y, _ in spots]
    for x, *ends in spans:
        place = (math.log(x) - left) / (right - left) * across
        low, upper = ((end - bottom) / (top - bottom) * high for end in ends)
        taken.append((place - 1.5, low, place + 1.5, upper))
    for (x, y, name), (at, level, _) in sorted(zip(spots, points, strict=True), key=lambda pair: (-pair[0][1], pair[0][0], pair[0][2])):
        text = safe(name, 26)
        width = 0.58 * size * len(text)
        for dx, dy, side in _SEATS:
            start = x + dx if side == "left" else x + dx - width
            box = (start, y + dy - size * 0.6, start + width, y + dy + size * 0.6)
            inside = box[0] > 0 and box[2] < across and box[1] > 0 and box[3] < high
            if inside and not any(box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in taken):
                taken.append(box)
                line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 2} if dy else None
                axes.annotate(
                    text,
                    (at, level),
                    (dx, dy),
                    textcoords="offset points",
                    ha=side,
                    va="center",
                    fontsize=size,
                    color=BLACK,
                    arrowprops=line,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.85},
                )
                break


def evogain_forest(rows: Sequence[dict]) -> Figure:
    """Draw EvoGain with both intervals, best first."""
    shown = rows[:ROWS]
    figure = new(1.25 + 0.2 * len(shown))
    axes = figure.subplots()
    for group, (marker, colour) in GROUP_MARKS.items():
        members = [(place, row) for place, row in enumerate(shown) if row["group"] == group]
        for place, row in members:
            _span(axes, place, row["cluster_low"], row["cluster_high"], colour, 4.5, 0.28)
            _span(axes, place, row["evogain_low"], row["evogain_high"], colour, 1.3)
        if members:
            axes.plot(
                [row["evogain"] for _, row in members],
                [place for place, _ in members],
                marker,
                color=colour,
                markersize=4.5,
                linestyle="none",
                label=group,
                zorder=3,
            )
    axes.axvline(0, color=BLACK, linewidth=0.8)
    rows_axis(axes, [row["model"] for row in shown], len(rows) - len(shown))
    axes.set_xlabel("EvoGain, % (0 = chance, 100 = perfect); line: items resampled; band: trajectories resampled")
    _titled(axes, "EvoGain with 95 % intervals", True)
    _legend(axes)
    return figure


def t3_slices(rows: Sequence[dict]) -> Figure:
    """Draw T3 accuracy by kind of distractor."""
    shown = rows[:ROWS]
    figure = new(1.25 + 0.26 * len(shown))
    axes = figure.subplots()
    kinds = (
        ("cross", "cross-trajectory", SKY, "o"),
        ("same_domain", "same domain", BLUE, "s"),
        ("long_skip", "long skip (later screen, same trajectory)", VERMILION, "^"),
    )
    for number, (name, label, colour, marker) in enumerate(kinds):
        y = np.arange(len(shown)) + 0.22 * (number - 1)
        for place, row in zip(y, shown, strict=True):
            _span(axes, place, row[f"{name}_low"], row[f"{name}_high"], colour, 0.9)
        axes.plot(
            [np.nan if row[name] is None else row[name] for row in shown],
            y,
            marker,
            color=colour,
            markersize=4,
            linestyle="none",
            label=label,
            zorder=3,
        )
    axes.axvline(50, color=BLACK, linewidth=0.8, linestyle=DASHES[1])
    for place, (before, row) in enumerate(itertools.pairwise(shown)):
        if before["group"] != row["group"]:
            axes.axhline(place + 0.5, color=GREY, linewidth=0.5)
    rows_axis(axes, [row["model"] for row in shown], len(rows) - len(shown))
    percent_axis(axes, "T3 accuracy, %; dashed: chance; lines: 95 % Wilson intervals")
    _titled(axes, "Which distractors are told from the logged successor", True)
    _legend(axes)
    return figure


def controls(rows: Sequence[dict], chance: dict[str, float]) -> Figure:
    """Draw every model under every condition it was asked in, one above the other so that no mark hides another."""
    models = list(dict.fromkeys(row["model"] for row in rows))[:ROWS]
    named = [one for one in CONDITIONS.values() if any(row["condition"] == one.name for row in rows)]
    asked = {
        model: [one.name for one in named if any((row["model"], row["condition"]) == (model, one.name) for row in rows)] for model in models
    }
    step = 0.62 / max(1, len(named) - 1)

    def height(model: str, condition: str) -> float:
        """Return where a mark stands: a model's own conditions around its line."""
        return models.index(model) + step * (asked[model].index(condition) - (len(asked[model]) - 1) / 2)

    figure = new(1.5 + (0.26 + 0.05 * len(named)) * len(models))
    panels = figure.subplots(1, 3, sharey=True)
    for axes, (metric, label) in zip(panels, (("t1", "T1 exact"), ("t2_top1", "T2 action"), ("t3", "T3")), strict=True):
        for place, model in enumerate(models):
            values = [row[metric] for row in rows if row["model"] == model and row[metric] is not None]
            if values:
                axes.plot([min(values), max(values)], [place, place], color=PALE, linewidth=2, zorder=1)
        for number, one in enumerate(named):
            points = [
                (row[metric], height(row["model"], one.name))
                for row in rows
                if row["condition"] == one.name and row["model"] in models and row[metric] is not None
            ]
            marker, colour = MARKERS[number % len(MARKERS)], COLOURS[number % len(COLOURS)]
            axes.plot(
                *(zip(*points, strict=True) if points else ([], [])),
                marker,
                color=colour,
                markersize=4.5,
                linestyle="none",
                label=one.label,
                zorder=3,
            )
        if chance.get(metric) is not None:
            axes.axvline(chance[metric], color=GREY, linewidth=0.8, linestyle=DASHES[1])
        rows_axis(axes, models, len({row["model"] for row in rows}) - len(models))
        percent_axis(axes, f"{label}, %")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.suptitle("What is left without vision (dashed: chance)", x=0.005, ha="left", fontsize=9, fontweight="bold")
    figure.legend(handles, labels, loc="outside lower left", ncols=3)
    return figure


def calibration(rows: Sequence[dict]) -> Figure:
    """Draw accuracy over stated confidence, a panel a task."""
    tasks = _by(rows, "task")
    figure = new(3.6, 0.7 + 2.75 * len(tasks))
    panels = np.atleast_1d(figure.subplots(1, len(tasks), sharey=True))
    right: dict[str, list[float]] = {}
    for row in rows:
        total = right.setdefault(row["model"], [0.0, 0.0])
        total[0] += row["n"] * row["accuracy"]
        total[1] += row["n"]
    names = list(right)
    best = sorted(names, key=lambda name: (-right[name][0] / right[name][1], name))[:SERIES]
    shown = [name for name in names if name in best]
    for axes, (task, members) in zip(panels, sorted(tasks.items()), strict=True):
        axes.plot([0, 100], [0, 100], color=GREY, linewidth=0.8)
        for place, model in enumerate(shown):
            mine = [row for row in members if row["model"] == model]
            colour = COLOURS[place % len(COLOURS)]
            axes.plot(
                [row["confidence"] for row in mine],
                [row["accuracy"] for row in mine],
                color=colour,
                marker=MARKERS[place % len(MARKERS)],
                markersize=4,
                linestyle=DASHES[place % len(DASHES)],
                linewidth=1,
                label=safe(model, 26),
            )
            for row in mine:
                axes.plot([row["confidence"]] * 2, [row["accuracy_low"], row["accuracy_high"]], color=colour, linewidth=0.5, alpha=0.7)
        axes.set_xlim(0, 102)
        axes.set_ylim(-2, 102)
        axes.set_aspect("equal")
        axes.grid()
        axes.set_title(task.upper())
        axes.set_xlabel("stated confidence, %")
    panels[0].set_ylabel("accuracy, %")
    left = len(names) - len(shown)
    figure.suptitle(
        "Is confidence earned? On the line it is; below, too sure"
        + (f" (the {len(shown)} most accurate of {len(names)})" if left > 0 else ""),
        x=0.005,
        ha="left",
        fontsize=9,
        fontweight="bold",
    )
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=3)
    return figure


def verdicts_by_benchmark(rows: Sequence[dict]) -> Figure:
    """Draw what the audit made of the released FAILs of every benchmark."""
    shown = [row for row in rows if row["released"] == "fail"][:ROWS]
    figure = new(1.3 + 0.34 * len(shown))
    axes = figure.subplots()
    left = np.zeros(len(shown))
    for name, (label, colour, hatch) in VERDICTS.items():
        share = np.array([100 * row[name] / row["n"] for row in shown])
        axes.barh(range(len(shown)), share, left=left, color=colour, hatch=hatch, edgecolor=BLACK, linewidth=0.5, height=0.66, label=label)
        for place, row in enumerate(shown):
            if share[place] >= 3:
                axes.text(
                    left[place] + share[place] / 2,
                    place,
                    str(row[name]),
                    ha="center",
                    va="center",
                    fontsize=7,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
                )
        left += share
    for place, row in enumerate(shown):
        axes.text(102, place, f"{row['wrong']:.1f} [{row['wrong_low']:.1f}, {row['wrong_high']:.1f}]", va="center", fontsize=7.5)
    axes.text(102, -0.72, "wrong, % [95 %]", va="center", fontsize=7.5, fontweight="bold")
    rows_axis(axes, [f"{row['benchmark']} (n = {row['n']})" for row in shown])
    axes.set_ylim(len(shown) - 0.4, -1.0)
    axes.set_xlim(0, 126)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("share of audited FAIL verdicts, %; counts in the bars", x=0.4)
    axes.spines["bottom"].set_bounds(0, 100)
    axes.spines["left"].set_visible(False)
    _titled(axes, "How far released FAILs can be believed", True)
    _legend(axes)
    return figure


def diagnoses(rows: Sequence[dict]) -> Figure:
    """Draw the categories of genuine failures, tier by tier."""
    shown = [row for row in rows if row["category"] != "(all)"]
    tiers = list(dict.fromkeys(row["tier"] for row in shown))
    colours = dict(zip(tiers, (SKY, "#F5CF7A", "#8FD0BC", "#BBBBBB", "#EEEEEE", PURPLE), strict=False))
    hatches = dict(zip(tiers, ("", "///", "\\\\\\", "...", "", "xxx", "+++"), strict=False))
    totals = {row["tier"]: row for row in rows if row["category"] == "(all)"}
    figure = new(1.1 + 0.24 * len(shown))
    axes = figure.subplots()
    for place, row in enumerate(shown):
        axes.barh(
            place,
            row["share"],
            color=colours.get(row["tier"], GREY),
            hatch=hatches.get(row["tier"], ""),
            edgecolor=BLACK,
            linewidth=0.5,
            height=0.66,
        )
        if row["share_low"] is not None:
            axes.plot([row["share_low"], row["share_high"]], [place, place], color=BLACK, linewidth=1)
        end = max(row["share"], row["share_high"] or 0)
        axes.text(end + 0.8, place, str(row["n"]), va="center", fontsize=7.5)
    limit = max((max(row["share"], row["share_high"] or 0) for row in shown), default=1)
    for tier in tiers:
        places = [place for place, row in enumerate(shown) if row["tier"] == tier]
        if tier in totals:
            total = totals[tier]
            axes.text(
                limit * 1.72,
                sum(places) / len(places),
                f"{tier}: {total['n']}, {total['share']:.1f} % [{total['share_low']:.1f}, {total['share_high']:.1f}]",
                ha="right",
                va="center",
                fontsize=7.5,
                fontweight="bold",
            )
        axes.axhline(max(places) + 0.5, color=PALE, linewidth=0.6)
    rows_axis(
        axes,
        [
            f"{row['category']}  {row['name'] or ''}" if row["name"] and row["name"].casefold() != row["category"] else row["category"]
            for row in shown
        ],
    )
    axes.set_xlim(0, limit * 1.75)
    axes.set_xlabel("share of genuine failures, % (number of cases beside; simultaneous 95 % intervals)")
    _titled(axes, "Where agents that truly failed went wrong")
    return figure


def agreement(rows: Sequence[dict]) -> Figure:
    """Draw chance-corrected agreement of every pair of raters and of all."""
    stages = _by(rows, "stage")
    statistics = (
        ("cohen_kappa", "Cohen's kappa", BLUE, "o"),
        ("fleiss_kappa", "Fleiss' kappa", BLACK, "D"),
        ("gwet_ac1", "Gwet's AC1", ORANGE, "s"),
        ("krippendorff_alpha", "Krippendorff's alpha", GREEN, "^"),
    )
    names = {stage: list(dict.fromkeys(row["raters"] for row in members))[:ROWS] for stage, members in stages.items()}
    figure = new(1.5 + 0.3 * sum(map(len, names.values())) + 0.35 * len(stages))
    panels = np.atleast_1d(figure.subplots(len(stages), 1, sharex=True, height_ratios=[len(listed) + 0.5 for listed in names.values()]))
    seen: dict[str, object] = {}
    for axes, (stage, members) in zip(panels, stages.items(), strict=True):
        places = {name: place for place, name in enumerate(names[stage])}
        for number, (statistic, label, colour, marker) in enumerate(statistics):
            offset = (0, 0, 1, 2)[number] * 0.24 - 0.24
            found = [row for row in members if row["statistic"] == statistic and row["raters"] in places and row["value"] is not None]
            for row in found:
                _span(axes, places[row["raters"]] + offset, row["low"], row["high"], colour, 0.9)
            if found:
                seen.setdefault(
                    label,
                    axes.plot(
                        [row["value"] for row in found],
                        [places[row["raters"]] + offset for row in found],
                        marker,
                        color=colour,
                        markersize=4,
                        linestyle="none",
                        label=label,
                        zorder=3,
                    )[0],
                )
        axes.axvline(0, color=BLACK, linewidth=0.8)
        axes.axvline(1, color=PALE, linewidth=0.8)
        about = {name: next(row for row in members if row["raters"] == name) for name in names[stage]}
        rows_axis(axes, names[stage])
        said = [f"all {name.count(TIMES) + 1} raters" if about[name].get("kind") == "all" else safe(name) for name in names[stage]]
        axes.set_yticks(
            range(len(said)),
            [f"{words}\n{about[name]['raw']:.0f} % of {about[name]['n']}" for words, name in zip(said, names[stage], strict=True)],
        )
        axes.set_title({"1 verdict": "Stage 1: verdict", "2 category": "Stage 2: category of genuine failures"}.get(stage, stage))
    panels[-1].set_xlabel("agreement beyond chance, with 95 % intervals; below each pair: raw agreement and n")
    figure.suptitle("How far raters agree", x=0.005, ha="left", fontsize=9, fontweight="bold")
    figure.legend(list(seen.values()), list(seen), loc="outside lower left", ncols=4)
    return figure


def _rule(name: str) -> str:
    """Say what a rule asks for: so many steps in a row that changed nothing, by the same action or by any."""
    signal, _, length = name.partition(" r=")
    said = {"noop_run": "same action", "noop_any": "any action", "cycle": "round in a circle", "always": "every trajectory"}
    said |= {"same action": "same action on any screen", "noop_run or cycle": "same action, 3 times, or a circle"}
    return said.get(signal, signal.replace("_", " ")) + (f", {length} times" if length else "")


def noop_probe(rows: Sequence[dict]) -> Figure:
    """Draw precision, recall and F1 of the no-op rules, pooled over benchmarks, a panel a truth."""
    truths = _by([row for row in rows if row["benchmark"].startswith("All")], "truth", "benchmark")
    truths = dict(list(truths.items())[:6])
    rules = {key: [row["rule"] for row in members] for key, members in truths.items()}
    figure = new(1.3 + sum(0.3 * len(listed) + 0.4 for listed in rules.values()))
    panels = np.atleast_1d(figure.subplots(len(truths), 1, sharex=True, height_ratios=[len(listed) + 0.4 for listed in rules.values()]))
    measures = (("precision", BLUE, "o"), ("recall", ORANGE, "s"), ("f1", BLACK, "D"))
    for axes, ((truth, pool), members) in zip(panels, truths.items(), strict=True):
        for number, (name, colour, marker) in enumerate(measures):
            y = np.arange(len(members)) + 0.24 * (number - 1)
            for place, row in zip(y, members, strict=True):
                _span(axes, place, row[f"{name}_low"], row[f"{name}_high"], colour, 0.9)
            axes.plot(
                [np.nan if row[name] is None else row[name] for row in members],
                y,
                marker,
                color=colour,
                markersize=4,
                linestyle="none",
                label={"f1": "F1"}.get(name, name),
                zorder=3,
            )
        rows_axis(axes, [f"{_rule(row['rule'])}  ({row['n_flagged']} flagged)" for row in members])
        axes.set_title(
            f"against {truth}: {members[0]['n_true']} of {members[0]['n']} trajectories" + (" (simulated)" if "simulated" in pool else "")
        )
    percent_axis(panels[-1], "%, with 95 % intervals")
    figure.suptitle("Flagging repeated actions on an unchanged screen, without a model", x=0.005, ha="left", fontsize=9, fontweight="bold")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=3)
    return figure


def rank_shift(rows: Sequence[dict]) -> Figure:
    """Draw released and corrected scores of every agent, benchmark by benchmark, and what becomes of the ranks."""
    lines: list[dict | str] = []
    for benchmark, members in _by(rows[:ROWS], "benchmark").items():
        lines += [str(benchmark), *members]
    figure = new(1.3 + 0.2 * len(lines))
    axes = figure.subplots()
    released, corrected = [], []
    for place, row in enumerate(lines):
        if isinstance(row, str):
            continue
        released.append((row["released"], place))
        if row["corrected"] is not None:
            corrected.append((row["corrected"], place))
            axes.plot([row["released"], row["corrected"]], [place, place], color=GREY, linewidth=0.8, linestyle=DASHES[2], zorder=1)
            _span(axes, place, row["corrected_low"], row["corrected_high"], BLUE, 2)
            after = f"{row['rank_low']}\N{EN DASH}{row['rank_high']}" if row["rank_low"] != row["rank_high"] else str(row["rank_low"])
            axes.text(106, place, f"{row['rank_released']} \N{RIGHTWARDS ARROW} {after}", va="center", fontsize=7)
    axes.plot(
        *zip(*released, strict=True),
        "o",
        markerfacecolor="white",
        markeredgecolor=BLACK,
        markersize=5.5,
        linestyle="none",
        label="released",
        zorder=3,
    )
    if corrected:
        axes.plot(
            *zip(*corrected, strict=True),
            "D",
            color=BLUE,
            markersize=3.8,
            linestyle="none",
            label="corrected, with 95 % interval",
            zorder=4,
        )
    rows_axis(axes, [f"{row} " if isinstance(row, str) else row["agent"] for row in lines], len(rows) - ROWS)
    for tick, row in zip(axes.get_yticklabels(), lines, strict=True):
        tick.set_fontweight("bold" if isinstance(row, str) else "normal")
    axes.set_ylim(len(lines) - 0.4, -1.0)
    axes.text(106, -0.35, "rank", va="center", fontsize=7.5, fontweight="bold")
    axes.set_xlim(-3, 120)
    axes.set_xticks(range(0, 101, 20))
    axes.spines["bottom"].set_bounds(0, 100)
    axes.set_xlabel("success, %", x=0.42)
    _titled(axes, "Scores before and after evaluator errors are taken out", True)
    _legend(axes)
    return figure


def cost_frontier(rows: Sequence[dict]) -> Figure:
    """Draw success over dollars an attempt; the line joins what nothing cheaper beats."""
    figure = new(3.4)
    axes = figure.subplots()
    ordered = sorted(rows, key=lambda row: (row["usd_per_attempt"], -row["success"]))
    best, frontier = -1.0, []
    for row in ordered:
        if row["success"] > best:
            best = row["success"]
            frontier.append(row)
    x = [row["usd_per_attempt"] for row in frontier]
    axes.plot(
        x, [row["success"] for row in frontier], drawstyle="steps-post", color=GREY, linewidth=1, linestyle=DASHES[1], label="frontier"
    )
    for chosen, colour, marker, label in ((True, VERMILION, "o", "on the frontier"), (False, BLUE, "s", "beaten by something cheaper")):
        points = [(row["usd_per_attempt"], row["success"]) for row in rows if (row in frontier) == chosen]
        if points:
            axes.plot(*zip(*points, strict=True), marker, color=colour, markersize=5, linestyle="none", label=label)
    _logs(axes, "x", [row["usd_per_attempt"] for row in rows])
    _name_points(axes, [(row["usd_per_attempt"], row["success"], row["model"]) for row in rows])
    axes.set_xlabel("USD per attempt (log scale)")
    axes.set_ylabel("correct answers, %")
    axes.grid()
    _titled(axes, "What a correct answer costs", True)
    _legend(axes)
    return figure


def agent_frontier(rows: Sequence[dict]) -> Figure:
    """Draw each agent's success over its dollars an attempt, a panel a benchmark; the line joins the agents that no cheaper one beats."""
    benchmarks = dict(list(_by(rows, "benchmark").items())[:6])
    across = min(2, len(benchmarks))
    down = math.ceil(len(benchmarks) / across)
    figure = new(1.0 + 2.6 * down, WIDTH if across > 1 else 5.2)
    panels = np.atleast_1d(figure.subplots(down, across, squeeze=False)).ravel()
    for axes, (benchmark, members) in zip(panels, benchmarks.items(), strict=False):
        best = sorted((row for row in members if row["frontier"]), key=lambda row: row["usd_per_attempt"])
        steps = [(row["usd_per_attempt"], row["success"]) for row in best]
        axes.plot(*zip(*steps, strict=True), drawstyle="steps-post", color=GREY, linewidth=1, linestyle=DASHES[1])
        for row in members:
            x, colour, marker = row["usd_per_attempt"], VERMILION if row["frontier"] else BLUE, "o" if row["frontier"] else "s"
            axes.plot([x, x], [row["success_low"], row["success_high"]], color=colour, linewidth=0.9, zorder=2)
            axes.plot(x, row["success"], marker, color=colour, markersize=5, zorder=3)
        _logs(axes, "x", [row["usd_per_attempt"] for row in members])
        axes.set_ylim(-2, 102)
        spans = [(row["usd_per_attempt"], row["success_low"], row["success_high"]) for row in members]
        _name_points(axes, [(row["usd_per_attempt"], row["success"], row["agent"]) for row in members], spans)
        axes.set_title(safe(benchmark))
        axes.set_xlabel("USD per attempt (log scale)")
        axes.set_ylabel("verified success, %")
        axes.grid()
    for axes in panels[len(benchmarks) :]:
        axes.set_visible(False)
    return figure


def success_deadline(rows: Sequence[dict]) -> Figure:
    """Draw success by deadline, a panel a benchmark."""
    benchmarks = dict(list(_by(rows, "benchmark").items())[:6])
    across = min(3, len(benchmarks))
    down = math.ceil(len(benchmarks) / across)
    figure = new(1.2 + 2.3 * down, WIDTH if across > 1 else 5.2)
    panels = np.atleast_1d(figure.subplots(down, across, sharey=True, squeeze=False)).ravel()
    agents = list(dict.fromkeys(row["agent"] for row in rows))[:SERIES]
    handles: dict[str, object] = {}
    moving = {
        row["deadline_s"]
        for before, row in itertools.pairwise(rows)
        if before["agent"] == row["agent"] and before["success"] != row["success"]
    }
    deadlines = sorted({row["deadline_s"] for row in rows})
    # From the last deadline nobody meets to the first by which all is decided.
    first = max((place for place, deadline in enumerate(deadlines) if deadline < min(moving, default=math.inf)), default=0)
    final = next((place for place, deadline in enumerate(deadlines) if deadline >= max(moving, default=0)), len(deadlines) - 1)
    x = deadlines[min(first, len(deadlines) - 2) : max(final, first + 1) + 1]
    rows = [row for row in rows if row["deadline_s"] in x]
    benchmarks = {name: [row for row in rows if row["benchmark"] == name] for name in benchmarks}
    for axes, (benchmark, members) in zip(panels, benchmarks.items(), strict=False):
        for place, agent in enumerate(agents):
            mine = [row for row in members if row["agent"] == agent]
            if not mine:
                continue
            colour, last = COLOURS[place], mine[-1]
            end = x[-1] * (x[-1] / x[0]) ** (0.02 + 0.03 * place)
            axes.plot(
                [*(row["deadline_s"] for row in mine), end],
                [*(row["success"] for row in mine), last["success"]],
                drawstyle="steps-post",
                color=colour,
                linestyle=DASHES[place],
            )
            axes.plot([end, end], [last["success_low"], last["success_high"]], color=colour, linewidth=1)
            axes.plot(end, last["success"], MARKERS[place], color=colour, markersize=4)
            handles.setdefault(safe(agent, 28), Line2D([], [], color=colour, linestyle=DASHES[place], marker=MARKERS[place], markersize=4))
        _logs(axes, "x", x)
        axes.set_xlim(x[0], x[-1] * (x[-1] / x[0]) ** (0.06 + 0.03 * len(agents)))
        axes.set_ylim(-2, 102)
        axes.set_title(safe(benchmark))
        axes.grid()
        axes.set_xlabel("deadline, s (log scale)")
    for axes in panels[len(benchmarks) :]:
        axes.set_visible(False)
    figure.supylabel("succeeded by then, %", fontsize=8)
    figure.suptitle("Success against the clock, with 95 % intervals at the end", x=0.005, ha="left", fontsize=9, fontweight="bold")
    figure.legend(list(handles.values()), list(handles), loc="outside lower left", ncols=3)
    return figure
