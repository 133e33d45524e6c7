"""The pipeline diagram: what a score is made of, where it breaks, and what this workflow does about it."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from evoaudit.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, SKY, VERMILION, new

#: Light fills of the same hues, dark enough apart for grey.
FILLS = {
    "loop": "#F2F2F2",
    "stage": "#E3EEF6",
    "threat": "#FBE9DC",
    "shared": "#FFFFFF",
    "probe": "#DCEFF9",
    "audit": "#FCF1D8",
    "out": "#DDF1EA",
}


def _box(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    title: str,
    text: str = "",
    fill: str = "shared",
    edge: str = GREY,
    size: float = 7.5,
) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.9", facecolor=FILLS[fill], edgecolor=edge, linewidth=0.8
        )
    )
    middle = y + height / 2
    if text:
        lines = text.count("\n") + 1
        axes.text(
            x + width / 2, middle + 0.85 * lines + 0.15, title, ha="center", va="center", fontsize=size, fontweight="bold", color=BLACK
        )
        axes.text(x + width / 2, middle - 1.15, text, ha="center", va="center", fontsize=size - 1.3, color=BLACK, linespacing=1.15)
    else:
        axes.text(x + width / 2, middle, title, ha="center", va="center", fontsize=size, fontweight="bold", color=BLACK, linespacing=1.15)


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], bend: float = 0, colour: str = GREY, dashed: bool = False
) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=8,
            linewidth=1,
            color=colour,
            shrinkA=0,
            shrinkB=0,
            connectionstyle=f"arc3,rad={bend}",
            linestyle=(0, (3, 2)) if dashed else "-",
        )
    )


def _heading(axes: Axes, y: float, letter: str, text: str) -> None:
    axes.text(0.5, y, f"{letter}  {text}", ha="left", va="center", fontsize=8.5, fontweight="bold", color=BLACK)


def pipeline(counts: dict[str, int]) -> Figure:
    """Draw the diagram; ``counts`` (trajectories, items, answers, audited, reviewed) are shown where known."""
    figure = new(6.3)
    axes = figure.subplots()
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 90)
    axes.set_axis_off()
    _loop(axes)
    _measurement(axes)
    _workflow(axes, counts)
    return figure


def _loop(axes: Axes) -> None:
    _heading(axes, 88, "A", "An agent works in a loop; a benchmark keeps only a trace of it")
    parts = ("goal", "plan", "act", "world", "observe", "verify")
    for place, name in enumerate(parts):
        _box(axes, 2 + 15.2 * place, 79, 11, 5, name, fill="loop")
        if place:
            _arrow(axes, (2 + 15.2 * place - 4.2, 81.5), (2 + 15.2 * place, 81.5))
    _arrow(axes, (83.5, 79), (22.7, 79), bend=-0.09, colour=BLUE)
    axes.text(53, 74, "revise or stop", ha="center", va="center", fontsize=6.8, color=BLUE)
    _arrow(axes, (94.5, 81.5), (94.5, 68.4), colour=GREY, dashed=True)
    axes.plot([2, 96.6], [68.4, 68.4], color=GREY, linewidth=0.8)
    axes.plot([89, 94.5], [81.5, 81.5], color=GREY, linewidth=1, linestyle=(0, (3, 2)))
    axes.text(95.3, 75.5, "trace", ha="left", va="center", fontsize=6.8, color=GREY)


def _measurement(axes: Axes) -> None:
    _heading(axes, 71.2, "B", "A score is the end of four stages, and can break at each")
    stages = (
        ("1  tasks", "solvable? still valid?"),
        ("2  environment", "replayable? all logged?"),
        ("3  scoring", "right outcomes accepted?"),
        ("4  reporting", "causes and costs shown?"),
    )
    for place, (title, text) in enumerate(stages):
        _box(axes, 2 + 24.6 * place, 60, 20.8, 7.4, title, text, fill="stage", edge=BLUE)
        if place:
            _arrow(axes, (2 + 24.6 * place - 3.8, 63.7), (2 + 24.6 * place, 63.7))
    for x, width, y, text in (
        (2, 45.4, 54.6, "broken, stale or leaked tasks"),
        (51.2, 20.8, 54.6, "evaluator error"),
        (26.6, 70, 50, "missing evidence, hidden causes"),
    ):
        axes.add_patch(
            FancyBboxPatch(
                (x, y), width, 3.6, boxstyle="round,pad=0,rounding_size=0.9", facecolor=FILLS["threat"], edgecolor=VERMILION, linewidth=0.8
            )
        )
        axes.text(x + width / 2, y + 1.8, text, ha="center", va="center", fontsize=7, color=BLACK)


def _workflow(axes: Axes, counts: dict[str, int]) -> None:
    def n(name: str, words: str, otherwise: str) -> str:
        return f"{counts[name]:,} {words}" if counts.get(name) else otherwise

    _heading(axes, 45.2, "C", "EvoAudit reads the logs once and asks two questions of them")
    _box(axes, 2, 14.5, 12.5, 18, "logs", "screens,\nactions,\nverdicts", fill="shared")
    _box(axes, 18, 14.5, 13.5, 18, "one schema", n("trajectories", "runs", "trajectories"), fill="shared", edge=BLACK)
    _arrow(axes, (14.5, 23.5), (18, 23.5))
    top = (
        ("mine", n("items", "items", "T1 T2 T3")),
        ("ask models", n("answers", "answers", "same prompts")),
        ("score", "exact labels"),
        ("EvoGain", "over chance"),
    )
    low = (
        ("sample", n("audited", "FAILs", "FAILs, by stratum")),
        ("judges", "each blind"),
        ("people", n("reviewed", "reviewed", "disagreements")),
        ("labels", "verdict, cause"),
    )
    for y, lane, fill, edge in ((28.5, top, "probe", SKY), (9.5, low, "audit", ORANGE)):
        for place, (title, text) in enumerate(lane):
            x = 35.5 + 12.9 * place
            _box(axes, x, y, 11, 9, title, text, fill=fill, edge=edge, size=7)
            if place:
                _arrow(axes, (x - 1.9, y + 4.5), (x, y + 4.5))
        _arrow(axes, (31.5, 23.5), (35.5, y + 4.5))
        _arrow(axes, (85.2, y + 4.5), (88, 23.5 + (2 if y > 20 else -2)))
    axes.text(35.5, 39.4, "Does a model see what an action did?", fontsize=7.5, color=BLACK)
    axes.text(35.5, 5.4, "Can the released verdict be believed?", fontsize=7.5, color=BLACK)
    axes.text(35.5, 26.3, "T1 order of screens   T2 action and value   T3 next screen", fontsize=6.8, color=GREY, va="center")
    axes.text(35.5, 20.6, "genuine failure, evaluator false negative, broken, unclear", fontsize=6.8, color=GREY, va="center")
    _box(axes, 88, 14.5, 10.5, 18, "report", "tables,\nfigures,\nintervals", fill="out", edge=GREEN)
    _arrow(axes, (24.7, 14.5), (24.7, 2.2), colour=GREY, dashed=True)
    axes.text(26, 2.2, "signals without a model: repeated actions on an unchanged screen", fontsize=6.8, color=GREY, va="center")
