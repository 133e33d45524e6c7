"""Which figure is drawn from which tables."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.text import Text

from evoaudit.errors import InputError
from evoaudit.figures import charts
from evoaudit.figures.pipeline import pipeline
from evoaudit.figures.style import empty, note, style, write
from evoaudit.store import read_manifest
from evoaudit.tables import files

#: The level that charts name; another one of the run's takes its place.
USUAL = "95 %"


@dataclass(frozen=True)
class Data:
    """The computed tables, read as they are needed."""

    folder: Path
    index: dict[str, dict]
    #: Level of every interval, in words.
    level: str = USUAL

    def rows(self, name: str) -> list[dict]:
        return files.rows(self.folder, name, self._meta(name))

    def reason(self, name: str) -> str:
        return self._meta(name)["empty"] or "The table has no rows that can be drawn."

    def simulated(self, name: str) -> str:
        return self._meta(name)["simulated"]

    def empty(self, name: str) -> bool:
        return self._meta(name)["n"] == 0

    def _meta(self, name: str) -> dict:
        if name not in self.index:
            raise InputError(self.folder / files.INDEX, f"does not name the table '{name}'", "delete its folder and run again")
        return self.index[name]


def _pipeline(data: Data) -> Figure:
    split = [row for row in data.rows("split") if row["part"] in ("T1", "T2", "T3")]
    ingest = data.rows("ingest")
    verdicts = [row for row in data.rows("audit_verdicts") if not row["benchmark"].startswith("All") and row["released"] == "fail"]
    reviewed = [row["n"] for row in data.rows("agreement") if row["kind"] == "all" and row["stage"].startswith("1")]
    return pipeline(
        {
            "trajectories": sum(row["kept"] for row in ingest if row["stage"] == "normalise" and row["unit"] == "trajectory"),
            "items": sum(row["count"] for row in split),
            "answers": sum(row["requests"] for row in data.rows("cost") if row["stage"] == "infer"),
            "audited": sum(row["n"] for row in verdicts),
            "reviewed": max(reviewed, default=0),
        }
    )


def _trend(data: Data) -> Figure | None:
    sized = {row["model"]: row for row in data.rows("evogui_main") if row["parameters_b"]}
    rows = [
        {**row, "parameters_b": sized[row["model"]]["parameters_b"], "family": sized[row["model"]]["family"]}
        for row in data.rows("evogui_intervals")
        if row["model"] in sized and row["evogain"] is not None
    ]
    return charts.parameter_trend(rows) if rows else None


def _controls(data: Data) -> Figure | None:
    # A model asked under one condition alone has nothing to be held against; solvers are what the others are held against.
    several = {row["model"] for row in data.rows("shortcut_controls") if row["condition"] != "full"}
    rows = [row for row in data.rows("shortcut_controls") if row["model"] in several or row["group"] == charts.BASELINE]
    return charts.controls(rows, {row["metric"]: row["exact"] for row in data.rows("baselines")}) if rows else None


def _frontier(data: Data) -> Figure | None:
    rows = [row for row in data.rows("cost") if row["usd_per_attempt"] and row["success"] is not None]
    return charts.cost_frontier(rows) if rows else None


def _agents(data: Data) -> Figure | None:
    # A logarithm has no place for an attempt that cost nothing.
    rows = [row for row in data.rows("agent_cost") if row["usd_per_attempt"]]
    named = {row["benchmark"] for row in rows if row["frontier"]}
    rows = [row for row in rows if row["benchmark"] in named]
    return charts.agent_frontier(rows) if rows else None


def _forest(data: Data) -> Figure | None:
    rows = [row for row in data.rows("evogui_intervals") if row["evogain"] is not None]
    return charts.evogain_forest(rows) if rows else None


def _verdicts(data: Data) -> Figure | None:
    rows = [row for row in data.rows("audit_verdicts") if row["released"] == "fail"]
    return charts.verdicts_by_benchmark(rows) if rows else None


def _plain(table: str, chart: Callable[[list[dict]], Figure]) -> Callable[[Data], Figure | None]:
    return lambda data: chart(rows) if (rows := data.rows(table)) else None


#: Figure → (its title where it is empty, the table it stands on, how it is drawn; None means there is nothing to draw).
FIGURES: dict[str, tuple[str, str, Callable[[Data], Figure | None]]] = {
    "pipeline": ("Pipeline", "", _pipeline),
    "parameter_trend": ("EvoGain over model size", "evogui_intervals", _trend),
    "evogain_forest": ("EvoGain with intervals", "evogui_intervals", _forest),
    "t3_slices": ("T3 by distractor", "t3_slices", _plain("t3_slices", charts.t3_slices)),
    "controls": ("Controls and shortcut solvers", "shortcut_controls", _controls),
    "calibration": ("Confidence against accuracy", "reliability", _plain("reliability", charts.calibration)),
    "verdicts_by_benchmark": ("Audited verdicts by benchmark", "audit_verdicts", _verdicts),
    "diagnoses": ("Diagnoses of genuine failures", "audit_diagnoses", _plain("audit_diagnoses", charts.diagnoses)),
    "agreement": ("Agreement of raters", "agreement", _plain("agreement", charts.agreement)),
    "noop_probe": ("No-op probe", "noop_probe", _plain("noop_probe", charts.noop_probe)),
    "rank_shift": ("Scores corrected for evaluator error", "corrected_scores", _plain("corrected_scores", charts.rank_shift)),
    "cost_frontier": ("Cost and success", "cost", _frontier),
    "agent_frontier": ("Cost and success of agents", "agent_cost", _agents),
    "success_deadline": ("Success by deadline", "deadline_curve", _plain("deadline_curve", charts.success_deadline)),
}

#: What is missing where the table has rows but none of them can be drawn.
_LACKS = {
    "parameter_trend": "No scored model has `parameters_b` in the config.",
    "cost_frontier": "No request has a price, so there is no cost to draw.",
    "agent_frontier": "Every attempt that was measured cost nothing.",
}


def draw(data: Data, name: str) -> tuple[Figure, str]:
    """Return one figure and, where there is nothing to draw, the reason, which the figure then says."""
    title, table, chart = FIGURES[name]
    figure = chart(data)
    if figure is None:
        reason = data.reason(table) if data.empty(table) or name not in _LACKS else _LACKS[name]
        return empty(title, reason), reason
    if table:
        note(figure, data.simulated(table))
    if data.level != USUAL:
        for text in figure.findobj(Text):
            text.set_text(text.get_text().replace(USUAL, data.level))
    return figure, ""


def load(source: Path) -> Data:
    """Return the tables of a stats folder."""
    index = {meta["name"]: meta for meta in files.read_index(source)}
    config = read_manifest(source).get("config") if (source / "manifest.json").is_file() else None
    level = (config or {}).get("confidence")
    return Data(source, index, USUAL if level is None else f"{100 * float(level):g} %")


def draw_all(source: Path, folder: Path) -> int:
    """Draw every figure from a stats folder, and write ``figures.json``, which says what is empty; return how many."""
    data, index = load(source), []
    with style():
        for name in FIGURES:
            figure, reason = draw(data, name)
            write(figure, folder, name)
            index.append({"name": name, "empty": reason})
    (folder / "figures.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    return len(FIGURES)
