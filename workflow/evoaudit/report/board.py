"""The leaderboard: a table for each condition that models were asked under, with intervals and ranks as bars."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evoaudit.conditions import CONDITIONS
from evoaudit.jsonfile import read_json
from evoaudit.report import load
from evoaudit.report.layout import BASELINE
from evoaudit.report.load import Inputs
from evoaudit.report.words import count, listed, number, plain
from evoaudit.stats import holm
from evoaudit.stats.evogain import normalised_gain
from evoaudit.stats.resample import FEW_CLUSTERS

#: Adjusted p-value from which two models are not told apart.
SURE = 0.05
#: Picture size of the comparison, where a model was asked at several.
SIDE = 512
#: Trajectories below which their number stands beside every interval that resamples them.
SMALL = 30
#: Setting of the chance level → column of the table `baselines` that holds it.
CHANCE = {"exact": "exact", "random": "random_mean", "published": "published"}
#: What EvoGain is the mean of, and the word for each score.
INDEX = ("t1", "t2_joint", "t3")
TASKS = {"t1": "T1", "t2_top1": "T2 top-1", "t2_joint": "T2 joint", "t3": "T3"}


@dataclass(frozen=True)
class Bar:
    """An interval and its estimate, percent of the axis."""

    low: float
    at: float
    high: float


@dataclass(frozen=True)
class Score:
    """A number as it is shown, its interval in words, and what it sorts by."""

    text: str
    interval: str = ""
    sort: str = ""
    bar: Bar | None = None


@dataclass(frozen=True)
class Line:
    """One model on the leaderboard."""

    model: str
    name: str
    href: str
    group: str
    family: str
    provider: str
    rank: Score
    gain: Score
    scores: tuple[Score, ...]
    best: Score
    leads: bool = False
    #: The tests of differences do not set it apart from the leader.
    tied: bool = False
    baseline: bool = False


@dataclass(frozen=True)
class Board:
    """The leaderboard under one condition."""

    words: str
    shows: str
    heads: tuple[str, ...]
    lines: tuple[Line, ...]
    #: Where chance is on the axis of EvoGain, percent.
    zero: float
    #: What the intervals resample; empty where there are none.
    resampled: str
    #: Whether ranks have intervals.
    ranked: bool
    #: Rows there are; the lines may be fewer.
    n: int
    #: How many models and baselines these are, in words.
    counted: str
    #: What the ends of the bars' axes stand for: of EvoGain, and of the rank.
    ends: tuple[str, str]
    rank_ends: tuple[str, str] = ("", "")


def counted(models: int, baselines: int) -> str:
    """Say how many models there are, and built-in solvers apart from them."""
    parts = [count(models, "model")] if models or not baselines else []
    return listed([*parts, count(baselines, "baseline")] if baselines else parts)


def few(n: int | None) -> str:
    """Return the warning that goes with an interval over so few trajectories; empty where they are many or not counted."""
    if n is None or n >= SMALL:
        return ""
    return f"only {count(n, 'trajectory', 'trajectories')}" + (
        ", too few for such an interval to cover what it says" if n < FEW_CLUSTERS else ""
    )


def warned(note: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a table's note with the warning that its intervals rest on few trajectories, where they do."""
    warning = few(min((n for row in rows if (n := row.get("clusters")) is not None), default=None))
    return f"{note} {warning.capitalize()}.".strip() if warning else note


def baselines(inputs: Inputs) -> set[str]:
    """Return the names of the built-in solvers."""
    named = {
        str(row["model"]) for name in ("evogui_intervals", "evogui_main") for row in _rows(inputs, name) if row.get("group") == BASELINE
    }
    return named | {name for name, model in known_models(inputs).items() if model.get("group") == "baseline"}


def known_models(inputs: Inputs) -> dict[str, dict[str, Any]]:
    """Return what the statistics' settings say of each model, by name."""
    path = inputs.stats / "manifest.json"
    config = (read_json(path).get("config") or {}) if path.is_file() else {}
    return {str(model["name"]): model for model in config.get("models") or ()}


def standings(inputs: Inputs) -> list[dict]:
    """Return the rows of the leaderboard that have a score, best first."""
    rows = load.rows([inputs.stats], "evogui_intervals") if load.has(inputs.stats, "evogui_intervals") else []
    return sorted((row for row in rows if row.get("evogain") is not None), key=lambda row: (-row["evogain"], str(row.get("model"))))


def against(inputs: Inputs, model: str) -> list[dict]:
    """Return the tested differences between a model and each other one."""
    if not load.has(inputs.stats, "pairwise_models"):
        return []
    return [row for row in load.rows([inputs.stats], "pairwise_models") if model in (row["model_a"], row["model_b"])]


def tied(rows: Sequence[dict], pairs: Sequence[dict]) -> tuple[list[dict], str]:
    """Return the rows that nothing sets apart from the leader, best first, and by what that was told.

    ``rows`` are the models that compete, the leader first; ``pairs`` may hold the tested differences of models.
    """
    first, *others = rows
    tested = {(row["model_b"] if row["model_a"] == first["model"] else row["model_a"]): row["p"] for row in pairs if _names(row, first)}
    if len(tested) == len(others) and all(p is not None for p in tested.values()):
        # As many claims as there are others, so these are what is adjusted for.
        adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
        return [row for row in others if adjusted[row["model"]] >= SURE], "by the differences over shared resamples"
    which = believed(first)
    low = first.get(f"{which}_low")
    return [row for row in others if low is not None and _top(row, which) >= low], "by their intervals"


def _names(pair: dict, row: dict) -> bool:
    return row["model"] in (pair["model_a"], pair["model_b"])


def _top(row: dict, which: str) -> float:
    high = row.get(f"{which}_high")
    return row["evogain"] if high is None else high


def believed(row: dict) -> str:
    """Return which interval of a row is the one to believe: items of one trajectory are right or wrong together."""
    return "cluster" if row.get("cluster_low") is not None and row.get("cluster_high") is not None else "evogain"


def competing(rows: Iterable[dict]) -> list[dict]:
    """Leave the built-in solvers out."""
    return [row for row in rows if row.get("group") != BASELINE]


def boards(inputs: Inputs, pages: Mapping[str, str], limit: int) -> list[Board]:
    """Return the leaderboard, then one for every other condition; ``pages`` is model → its page's address."""
    known = known_models(inputs)
    ranked = standings(inputs)
    main = {str(row["model"]): row for row in _rows(inputs, "evogui_main")}
    made = [_main(inputs, ranked, main, known, pages, limit)] if ranked else []
    controls = _rows(inputs, "shortcut_controls")
    sides = sorted({row["max_image_side"] for row in controls if row.get("max_image_side") is not None})
    shown = _compared([row for row in controls if row["condition"] == "full"], {str(row["model"]) for row in ranked})
    chance = chance_levels(inputs)
    for condition in (*CONDITIONS, *sorted({row["condition"] for row in controls} - CONDITIONS.keys())):
        for side in sides or [None]:
            rows = [row for row in controls if (row["condition"], row.get("max_image_side")) == (condition, side)]
            if condition == "full":
                # What the first board shows is not shown again.
                rows = [row for row in rows if (str(row["model"]), side) not in shown]
            if rows:
                made.append(_other(rows, condition, side if len(sides) > 1 else None, chance, main, known, pages, limit))
    return made


def _compared(rows: Iterable[dict], ranked: Collection[str]) -> set[tuple[str, int | None]]:
    """Return the model and picture size of each row that stands on the leaderboard: the size of the comparison, else the smallest."""
    sides: dict[str, list[int]] = {}
    for row in rows:
        if str(row["model"]) in ranked:
            sides.setdefault(str(row["model"]), []).append(row.get("max_image_side"))
    return {(model, SIDE if SIDE in found else min(found, key=lambda side: side or 0)) for model, found in sides.items()}


def _rows(inputs: Inputs, name: str) -> list[dict]:
    return load.rows([inputs.stats], name) if load.has(inputs.stats, name) else []


def chance_levels(inputs: Inputs) -> dict[str, float | None]:
    """Return the chance level of each metric that EvoGain is over."""
    path = inputs.stats / "manifest.json"
    config = (read_json(path).get("config") or {}) if path.is_file() else {}
    column = CHANCE.get(str(config.get("baseline") or "exact"), "exact")
    return {
        row["metric"]: row.get("exact") if row.get(column) is None else row[column] for row in _rows(inputs, "baselines") if "metric" in row
    }


def gain(row: Mapping[str, Any], chance: Mapping[str, float | None]) -> float | None:
    """Return EvoGain of one row of percent scores, None where a task or its chance level is missing."""
    levels = [chance.get(metric) for metric in INDEX]
    if any(row.get(metric) is None for metric in INDEX) or any(level is None or level >= 100 for level in levels):
        return None
    return sum(normalised_gain(row[metric], level) for metric, level in zip(INDEX, levels, strict=True)) / len(INDEX)


class _Axis:
    """Percent of the way between two ends."""

    def __init__(self, values: Iterable[float | None], low: float, high: float) -> None:
        found = [value for value in values if value is not None]
        self.low, self.high = min([low, *found]), max([high, *found])

    def __call__(self, value: float) -> float:
        return round(100 * (value - self.low) / ((self.high - self.low) or 1), 2)

    @property
    def ends(self) -> tuple[str, str]:
        return number(self.low, 0), number(self.high, 0)

    def bar(self, low: float | None, at: float, high: float | None) -> Bar:
        return Bar(self(at if low is None else low), self(at), self(at if high is None else high))


def _main(inputs: Inputs, rows: list[dict], main: dict, known: dict, pages: Mapping[str, str], limit: int) -> Board:
    rivals = competing(rows) or rows
    leader = rivals[0]
    ties = {row["model"] for row in tied(rivals, against(inputs, leader["model"]))[0]}
    # One kind of interval for all, or they could not be compared; built-in solvers may have none of it.
    which = "cluster" if all(believed(row) == "cluster" for row in rivals) else "evogain"
    axis = _Axis((value for row in rows for value in (row["evogain"], row.get(f"{which}_low"), row.get(f"{which}_high"))), 0.0, 1.0)
    places = _Axis((row.get(name) for row in rows for name in ("rank", "rank_low", "rank_high")), 1.0, 2.0)
    lines = []
    for place, row in enumerate(rows[:limit], 1):
        rank = row.get("rank") or place
        low, high = row.get("rank_low"), row.get("rank_high")
        ends = row.get(f"{which}_low"), row.get(f"{which}_high")
        lines.append(
            _line(
                row,
                main,
                known,
                pages,
                rank=Score(number(rank, 0), _to(low, high, 0), repr(rank), places.bar(low, rank, high)),
                gain=Score(number(row["evogain"], 1), _to(*ends, 1), repr(row["evogain"]), axis.bar(ends[0], row["evogain"], ends[1])),
                scores=tuple(score(row.get(metric)) for metric in INDEX),
                best=score(row.get("p_best")),
                leads=row is leader,
                tied=row["model"] in ties,
            )
        )
    asked = {row.get("max_image_side") for row in main.values()} - {None}
    size = f", {asked.pop()} px" if len(asked) == 1 else ""
    return Board(
        f"{CONDITIONS['full'].label}{size}",
        CONDITIONS["full"].shows,
        tuple(TASKS[metric] for metric in INDEX),
        tuple(lines),
        axis(0.0),
        _resampled(which, leader),
        any(row.get("rank_low") is not None for row in rows),
        len(rows),
        counted(len(competing(rows)), len(rows) - len(competing(rows))),
        axis.ends,
        places.ends,
    )


def _other(
    rows: list[dict], condition: str, side: int | None, chance: dict, main: dict, known: dict, pages: Mapping[str, str], limit: int
) -> Board:
    scored = [(gain(row, chance), row) for row in rows]
    scored.sort(key=lambda pair: (pair[0] is None, -(pair[0] or 0), str(pair[1]["model"])))
    axis = _Axis((value for value, _ in scored), 0.0, 1.0)
    about = CONDITIONS.get(condition)
    every = [
        _line(
            row,
            main,
            known,
            pages,
            rank=Score(str(place), "", str(place)),
            gain=score(None) if value is None else Score(number(value, 1), "", repr(value), axis.bar(None, value, None)),
            scores=tuple(score(row.get(metric), row.get(f"{metric}_low"), row.get(f"{metric}_high")) for metric in TASKS),
            best=Score(""),
        )
        for place, (value, row) in enumerate(scored, 1)
    ]
    words = (about.label if about else plain(condition, 60)) + (f", {side} px" if side else "")
    return Board(
        words,
        about.shows if about else "",
        tuple(TASKS.values()),
        tuple(every[:limit]),
        axis(0.0),
        "",
        False,
        len(rows),
        counted(sum(not line.baseline for line in every), sum(line.baseline for line in every)),
        axis.ends,
    )


def _resampled(which: str, row: dict) -> str:
    """Say what intervals resample, and how much that is where it is little."""
    if which == "evogain":
        return "items resampled"
    warning = few(row.get("clusters"))
    return "whole trajectories resampled" + (f" ({warning})" if warning else "")


def _line(row: dict, main: dict, known: dict, pages: Mapping[str, str], **given: Any) -> Line:
    model = str(row.get("model"))
    about, told = known.get(model, {}), main.get(model, {})
    group = row.get("group") or told.get("group") or ""
    return Line(
        model=model,
        name=plain(model, 60),
        href=pages.get(model, ""),
        group=plain(str(group).removesuffix(" models"), 40),
        family=plain(told.get("family") or about.get("family") or "", 40),
        provider=plain(about.get("provider") or "", 40),
        baseline=group == BASELINE,
        **given,
    )


def score(value: float | None, low: float | None = None, high: float | None = None) -> Score:
    """Return a score in percent with its interval as it is shown; empty where there is none."""
    return Score("") if value is None else Score(number(value, 1), _to(low, high, 1), repr(value))


def _to(low: float | None, high: float | None, decimals: int) -> str:
    return f"{number(low, decimals)} to {number(high, decimals)}" if low is not None and high is not None else ""
