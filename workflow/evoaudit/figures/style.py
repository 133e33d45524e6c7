"""The look all figures share, and how they are written: colours that survive colour blindness and grey, bundled fonts, no dates."""

import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from evoaudit.errors import one_line

#: Okabe and Ito's colours, ordered so that neighbours differ in lightness too.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, BLACK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#222222"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (2, 3)))
GREY, PALE = "#6B6B6B", "#DDDDDD"
WIDTH = 7.0
#: Longest name on an axis, characters.
NAME = 34
#: Rows a chart shows before it says how many more there are.
ROWS = 60

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.6,
    "xtick.color": BLACK,
    "ytick.color": BLACK,
    "axes.axisbelow": True,
    "grid.color": PALE,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "hatch.linewidth": 0.6,
    "figure.dpi": 200,
    "savefig.dpi": 200,
    "text.parse_math": False,
    # Hinted text is wider or narrower by resolution, and would not fit the layout computed once for all formats.
    "text.hinting": "no_hinting",
    "svg.hashsalt": "evoaudit",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "path.simplify": False,
    "axes.unicode_minus": True,
}

#: What each format must not carry: dates and versions would make equal figures differ.
_METADATA = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def style() -> rc_context:
    """Return the context in which figures are drawn and written."""
    return rc_context(STYLE)


def new(height: float, width: float = WIDTH) -> Figure:
    """Return an empty figure, inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.05)
    FigureCanvasAgg(figure)
    return figure


@cache
def _glyphs() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


def safe(text: object, limit: int = NAME) -> str:
    """Return text the font can set, on one line, cut in the middle if it is long."""
    line = one_line(str(text))
    if len(line) > limit:
        line = line[: limit - limit // 3 - 1] + "\N{HORIZONTAL ELLIPSIS}" + line[-(limit // 3) :]
    return "".join(character if ord(character) in _glyphs() else "\N{WHITE SQUARE}" for character in line)


def rows_axis(axes: Axes, names: Sequence[str], hidden: int = 0) -> None:
    """Name the rows of a chart from the top down."""
    axes.set_yticks(range(len(names)), [safe(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    if hidden > 0:
        axes.annotate(
            f"and {hidden} more in the table", (0, 0), (0, -34), "axes fraction", textcoords="offset points", fontsize=7, color=GREY
        )


def percent_axis(axes: Axes, label: str, low: float = 0, high: float = 100) -> None:
    axes.set_xlim(low - 2, high + 2)
    axes.set_xlabel(label)


def note(figure: Figure, simulated: str) -> None:
    """Say on the figure itself that its data were simulated."""
    words = {"all": "simulated data", "some": "partly simulated data"}.get(simulated)
    if words:
        figure.supxlabel(words, x=0.995, ha="right", fontsize=7, color=VERMILION)


def empty(title: str, reason: str) -> Figure:
    """Return a small figure that says in words why there is nothing to draw."""
    import textwrap

    lines = textwrap.wrap(safe(reason.replace("`", ""), 300), 68)
    figure = new(0.62 + 0.17 * len(lines), 4.8)
    figure.text(0.03, 1 - 0.3 / figure.get_figheight(), safe(title, 70), fontsize=9, fontweight="bold", va="center")
    figure.text(
        0.03, (0.22 + 0.17 * len(lines)) / figure.get_figheight(), "\n".join(lines), fontsize=8, color=GREY, va="top", linespacing=1.3
    )
    return figure


def write(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure as PDF, SVG and PNG; the layout is computed once for all three."""
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    for end, metadata in _METADATA.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format=end, metadata=metadata, **({"pil_kwargs": {"compress_level": 6}} if end == "png" else {}))
        (folder / f"{name}.{end}").write_bytes(buffer.getvalue())
