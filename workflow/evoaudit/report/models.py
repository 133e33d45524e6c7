"""A page for every model: its scores by task and slice, under each condition, its habits, its errors and its cost."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from evoaudit.conditions import CONDITIONS
from evoaudit.jsonfile import read_json
from evoaudit.places import item_link
from evoaudit.report import board, load, tables
from evoaudit.report.board import Bar, Line, Score
from evoaudit.report.examples import spread
from evoaudit.report.layout import BASELINE
from evoaudit.report.load import Inputs, Table
from evoaudit.report.questions import answer_words
from evoaudit.report.slugs import slugs
from evoaudit.report.words import cell, count, listed, number, plain
from evoaudit.stats import holm, wilson_ci
from evoaudit.streams import rank
from evoaudit.tables.spec import said

#: Metric → (its task, the column of scores it is the mean of).
METRICS = {"t1": ("t1", "correct"), "t2_top1": ("t2", "action_correct"), "t2_joint": ("t2", "correct"), "t3": ("t3", "correct")}
#: Domains shown by name, and items a model got wrong, at most.
DOMAINS, WRONG = 15, 12
#: Tables that have rows of a model: (heading, names). The heading is that of a part of the page.
PARTS = (
    ("confidence", "How well it knows what it knows", ("calibration", "reliability")),
    ("answers", "Errors and outcomes", ("answers",)),
    ("cost", "What it cost", ("cost",)),
    ("others", "Further tables", ("resolution", "t2_value_in_goal", "evogain_action", "osworld_relation", "other_sets")),
)
#: Column of the table `answers` → why there is no answer.
MISSING = {
    "n_refused": "refused",
    "n_content_filter": "stopped by a filter",
    "n_truncated": "cut by the bound on output tokens",
    "n_empty": "empty",
    "n_context_overflow": "too long for its context",
    "n_fault": "lost to a fault of the service or the network",
    "n_not_sent": "never sent",
}
#: What is said of a table where it differs on a model's page.
NOTES = {
    "pairwise_models": "EvoGain of this model minus that of the other, under shared resamples of trajectories. p is adjusted (Holm) over "
    "the rows below; the table of all pairs adjusts over those."
}
#: Tables that name models as they are called; that of main results adds words to some, and rows for chance.
NAMING = ("evogui_intervals", "shortcut_controls", "answers")


@dataclass(frozen=True)
class Row:
    """One score with its interval, beside that of all models."""

    name: str
    n: str
    score: Score
    others: str
    #: Where chance is on the axis, percent; None where it is not known.
    chance: float | None = None


@dataclass(frozen=True)
class Slices:
    """Scores of one task by one of its cuts."""

    title: str
    note: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Condition:
    """Scores under one condition."""

    name: str
    shows: str
    gain: str
    scores: tuple[Score, ...]


@dataclass(frozen=True)
class Habit:
    """How often an answer is given, and how often it is right."""

    task: str
    answer: str
    share: Score
    expected: Score


@dataclass(frozen=True)
class Bin:
    """Answers of one band of stated confidence; places in percent of the axes."""

    at: float
    right: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Wrong:
    """An item that the model got wrong."""

    task: str
    slice: str
    place: str
    said: str
    right: str
    others: str
    href: str


@dataclass(frozen=True)
class Model:
    """All that a model's page shows."""

    name: str
    file: str
    line: Line | None
    sentences: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    tasks: tuple[Row, ...]
    slices: tuple[Slices, ...]
    conditions: tuple[Condition, ...]
    habits: tuple[Habit, ...]
    bins: tuple[tuple[str, tuple[Bin, ...]], ...]
    outcomes: str
    wrong: tuple[Wrong, ...]
    n_wrong: int
    items: str
    parts: tuple[tuple[str, str, tuple[tables.View, ...]], ...]
    rivals: tables.View | None
    simulated: bool
    #: Why there is no cost to show; empty where there is one.
    free: str = ""


def addresses(inputs: Inputs) -> dict[str, str]:
    """Return model → the address of its page, for every model that was scored or that a table names."""
    names = {str(row["model"]) for name in NAMING if load.has(inputs.stats, name) for row in load.rows([inputs.stats], name, ("model",))}
    if load.has(inputs.scores, "scores"):
        names |= set(pc.unique(load.table(inputs.scores, "scores", ("model",))["model"]).to_pylist())
    return {name: f"models/{slug}.html" for name, slug in slugs(names).items()}


class Models:
    """What the models' pages are made from, read once for all of them."""

    def __init__(self, inputs: Inputs, found: Mapping[str, Table], seed: int, *, items: bool, limit: int) -> None:
        """``items`` says whether there is an instance browser to link to, ``limit`` how many wrong items are shown."""
        self.inputs, self.found, self.seed, self.items, self.limit = inputs, found, seed, items, min(limit, WRONG)
        self.pages = addresses(inputs)
        self.chance = board.chance_levels(inputs)
        self.known = board.known_models(inputs)
        path = inputs.stats / "manifest.json"
        config = (read_json(path).get("config") or {}) if path.is_file() else {}
        self.confidence = float(config.get("confidence") or 0.95)

    @cached_property
    def standings(self) -> list[dict]:
        return board.standings(self.inputs)

    @cached_property
    def clustered(self) -> bool:
        """Whether the interval beside EvoGain resamples trajectories."""
        rivals = board.competing(self.standings) or self.standings
        return bool(rivals) and all(board.believed(row) == "cluster" for row in rivals)

    @cached_property
    def rows(self) -> dict[str, dict[str, list[dict]]]:
        """Rows by table and model, of every table with a column ``model``."""
        made: dict[str, dict[str, list[dict]]] = {}
        for name, table in self.found.items():
            if any(column.name == "model" for column in table.columns):
                made[name] = defaultdict(list)
                for row in load.rows([self.inputs.stats], name):
                    made[name][str(row["model"])].append(row)
        return made

    @cached_property
    def pairs(self) -> dict[str, list[dict]]:
        """Tested differences by model, each seen from that model."""
        made: dict[str, list[dict]] = defaultdict(list)
        if not load.has(self.inputs.stats, "pairwise_models"):
            return made
        for row in load.rows([self.inputs.stats], "pairwise_models"):
            turned = {"difference": _minus(row["difference"]), "low": _minus(row.get("high")), "high": _minus(row.get("low"))}
            made[row["model_a"]].append({**row, "model": row["model_b"]})
            made[row["model_b"]].append({**row, **turned, "model": row["model_a"]})
        return made

    @cached_property
    def scores(self) -> pa.Table:
        """One row an item, model, condition and size: the mean over runs of what was answered under the full condition."""
        columns = (
            "model",
            "max_image_side",
            "task",
            "instance_id",
            "slice",
            "domain",
            "source",
            "value_in_goal",
            "correct",
            "action_correct",
        )
        if not load.has(self.inputs.scores, "scores"):
            return pa.table({name: pa.array([], pa.string()) for name in columns})
        kept = (pc.field("condition") == "full") & (pc.field("status") != "unanswered")
        table = load.table(self.inputs.scores, "scores", columns, kept)
        for name in ("correct", "action_correct"):
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, pc.fill_null(pc.cast(table[name], pa.float64()), 0.0))
        keys = list(columns[:-2])
        made = table.group_by(keys, use_threads=False).aggregate([("correct", "mean"), ("action_correct", "mean")])
        return made.rename_columns([name.removesuffix("_mean") for name in made.column_names])

    @cached_property
    def sides(self) -> dict[str, int]:
        """Model → the size at which it is compared."""
        pairs = self.scores.group_by(["model", "max_image_side"], use_threads=False).aggregate([]).to_pylist() if len(self.scores) else []
        sizes: dict[str, list[int]] = defaultdict(list)
        for pair in pairs:
            sizes[pair["model"]].append(pair["max_image_side"])
        return {model: board.SIDE if board.SIDE in found else min(found) for model, found in sizes.items()}

    @cached_property
    def main(self) -> pa.Table:
        """The scores at the size at which models are compared."""
        if not len(self.scores):
            return self.scores
        joined = pc.binary_join_element_wise(self.scores["model"], pc.cast(self.scores["max_image_side"], pa.string()), "\n")
        keep = pc.is_in(joined, value_set=pa.array([f"{model}\n{side}" for model, side in sorted(self.sides.items())]))
        return self.scores.filter(keep)

    def cut(self, metric: str, by: str) -> dict[str, dict[str, tuple[float, int]]]:
        """Return value of a cut → model → (right, answered) of a metric; ``by`` may be empty, for no cut."""
        task, column = METRICS[metric]
        key = (metric, by)
        if key not in self._cuts:
            made: dict[str, dict[str, tuple[float, int]]] = defaultdict(dict)
            if len(self.main):
                inside = self.main.filter(pc.equal(self.main["task"], task))
                names = ["model", *([by] if by else [])]
                for row in inside.group_by(names, use_threads=False).aggregate([(column, "sum"), (column, "count")]).to_pylist():
                    value = row[by] if by else ""
                    made["" if value is None else str(value)][row["model"]] = row[f"{column}_sum"], row[f"{column}_count"]
            self._cuts[key] = made
        return self._cuts[key]

    @cached_property
    def _cuts(self) -> dict[tuple[str, str], dict[str, dict[str, tuple[float, int]]]]:
        return {}

    @cached_property
    def rivals(self) -> set[str]:
        """Models that compete: all but the built-in solvers."""
        names = {str(row["model"]) for row in board.competing(self.standings)}
        return names or {name for name in self.pages if self.known.get(name, {}).get("group") != "baseline"}

    @cached_property
    def tallies(self) -> dict[str, tuple[float, int]]:
        """Item → (competing models that were right, that answered)."""
        kept = self.main.filter(pc.is_in(self.main["model"], value_set=pa.array(sorted(self.rivals), pa.string())))
        found = kept.group_by("instance_id", use_threads=False).aggregate([("correct", "sum"), ("correct", "count")]).to_pylist()
        return {row["instance_id"]: (row["correct_sum"], row["correct_count"]) for row in found}

    @cached_property
    def right(self) -> dict[str, str]:
        """Item → its right answer in words."""
        made: dict[str, str] = {}
        if load.has(self.inputs.mined, "t1"):
            made |= {row["instance_id"]: answer_words("t1", row["answer"]) for row in self._mined("t1", "answer")}
        if load.has(self.inputs.mined, "t2"):
            rows = self._mined("t2", "answer_action", "answer_value")
            made |= {row["instance_id"]: answer_words("t2", {"action": row["answer_action"], "value": row["answer_value"]}) for row in rows}
        if load.has(self.inputs.mined, "t3"):
            made |= {row["instance_id"]: cell(row["answer"], 20) for row in self._mined("t3", "answer")}
        return made

    def _mined(self, task: str, *columns: str) -> list[dict]:
        return load.rows([self.inputs.mined], task, ("instance_id", *columns))

    def given(self, model: str, ids: Iterable[str]) -> dict[str, str]:
        """Return what a model answered to some items at the size at which it is compared, in words."""
        rows = load.rows(
            [self.inputs.scores],
            "scores",
            ("task", "instance_id", "status", "answer"),
            model=[model],
            instance_id=ids,
            condition=["full"],
            run=[0],
            max_image_side=[self.sides[model]],
        )
        return {
            row["instance_id"]: answer_words(row["task"], row["answer"]) if row["answer"] is not None else "an unusable answer"
            for row in rows
            if row["status"] != "unanswered"
        }

    def score(self, right: float, n: int) -> Score:
        """Return a share in percent with Wilson's interval."""
        if not n:
            return Score("")
        low, high = (100 * end for end in wilson_ci(right, n, self.confidence))
        share = 100 * right / n
        return Score(
            number(share, 1), f"{number(low, 1)} to {number(high, 1)}", repr(share), Bar(round(low, 2), round(share, 2), round(high, 2))
        )

    def row(self, name: str, model: str, of: Mapping[str, tuple[float, int]], chance: float | None = None) -> Row | None:
        """Return one score of a model beside the mean of those it competes with, None where it answered nothing."""
        right, n = of.get(model, (0.0, 0))
        if not n:
            return None
        others = [100 * k / m for one, (k, m) in sorted(of.items()) if one in self.rivals and one != model and m]
        mean = number(sum(others) / len(others), 1) if others else ""
        return Row(name, number(n), self.score(right, n), mean, None if chance is None else round(chance, 2))


def _minus(value: float | None) -> float | None:
    return None if value is None else -value


def model(models: Models, name: str, line: Line | None) -> Model:
    """Return what the page of a model shows."""
    rows = {table: by.get(name, []) for table, by in models.rows.items()}
    parts = []
    free = _free(models, name, rows.get("cost", []))
    for id, title, names in PARTS:
        if id == "cost" and free:
            parts.append((id, title, ()))
            continue
        views = tuple(view for table in names if rows.get(table) and (view := _view(models, table, rows[table])))
        if views:
            parts.append((id, title, views))
    pairs = _rivals(models, name)
    wrong, n_wrong = _wrong(models, name)
    file = models.pages[name]
    return Model(
        name=plain(name, 80),
        file=file,
        line=line,
        sentences=_sentences(models, name, line),
        facts=_facts(models, name, line, rows),
        tasks=tuple(
            row
            for metric, word in board.TASKS.items()
            if (row := models.row(word, name, models.cut(metric, "").get("", {}), models.chance.get(metric)))
        ),
        slices=_slices(models, name),
        conditions=_conditions(models, rows.get("shortcut_controls", [])),
        habits=_habits(rows.get("position_bias", [])),
        bins=_bins(rows.get("reliability", [])),
        outcomes=_outcomes(rows.get("answers", []), models.sides.get(name)),
        wrong=wrong,
        n_wrong=n_wrong,
        items=item_link("../", model=file.removeprefix("models/").removesuffix(".html")) if models.items else "",
        parts=tuple(parts),
        rivals=_view(models, "pairwise_models", pairs, ("model_a", "model_b")) if pairs else None,
        simulated=any(row.get("simulated") for found in rows.values() for row in found),
        free=free,
    )


def _free(models: Models, name: str, rows: list[dict]) -> str:
    """Say why a model's rows of costs hold no cost; empty where they do, or there are none."""
    if not rows or any(row.get(column) for row in rows for column in ("usd", "input_tokens", "output_tokens")):
        return ""
    requests = count(sum(row.get("requests") or 0 for row in rows), "request")
    if models.known.get(name, {}).get("provider") == "builtin":
        return f"No cost: it is built in, and none of its {requests} went to a service."
    return f"No cost is known: neither tokens nor dollars were stated for its {requests}."


def _rivals(models: Models, name: str) -> list[dict]:
    """Return the tested differences to every other model, best first; p is adjusted over these alone, as it is for the leader's ties."""
    order = {row["model"]: place for place, row in enumerate(models.standings)}
    rows = sorted(models.pairs.get(name, ()), key=lambda row: (order.get(row["model"], len(order)), str(row["model"])))
    if any(row.get("p") is None for row in rows):
        return rows
    adjusted = holm([row["p"] for row in rows])
    return [{**row, "p_adjusted": p} for row, p in zip(rows, adjusted, strict=True)]


def _view(models: Models, name: str, rows: list[dict], drop: tuple[str, ...] = ("model", "group")) -> tables.View | None:
    """Return a table with the rows of one model; no value of it is the best of anything."""
    table = models.found.get(name)
    if table is None:
        return None
    columns = tuple(replace(column, best="") for column in table.columns if column.name not in drop)
    if "model" not in drop:
        columns = (load.Column("model", "against"), *columns)
    flags = {bool(row.get("simulated")) for row in rows}
    simulated = table.simulated if table.simulated == "n/a" else "some" if len(flags) > 1 else "all" if flags == {True} else "none"
    links = {model: f"../{page}" for model, page in models.pages.items()}
    one = replace(
        table, columns=columns, rows=tuple(rows), n=len(rows), simulated=simulated, note=board.warned(NOTES.get(name, table.note), rows)
    )
    return tables.view(one, len(rows), links)


def _sentences(models: Models, name: str, line: Line | None) -> tuple[str, ...]:
    """Say in plain words where the model stands and what it is good and bad at."""
    told = []
    if line is not None and line.gain.text:
        ranked = [row for row in models.standings if row.get("group") != BASELINE]
        warning = board.few(next((row.get("clusters") for row in models.standings if row["model"] == name), None))
        warning = f"; {warning}" if warning and models.clustered else ""
        over = " over trajectories" if models.clustered else ""
        interval = f" (interval{over} {line.gain.interval}{warning})" if line.gain.interval else ""
        if line.baseline:
            told.append(f"A built-in solver that understands nothing: EvoGain {line.gain.text}{interval}.")
        else:
            place = next((n for n, row in enumerate(ranked, 1) if row["model"] == name), 0)
            tie = "; it leads" if line.leads else "; nothing sets it apart from the leader" if line.tied else ""
            told.append(f"Place {place} of {board.counted(len(ranked), 0)} with an EvoGain of {line.gain.text}{interval}{tie}.")
    found = []
    for metric, by, word in (("t1", "slice", "T1"), ("t2_joint", "slice", "T2 joint"), ("t3", "slice", "T3")):
        for value, of in models.cut(metric, by).items():
            right, n = of.get(name, (0, 0))
            others = [k / m for one, (k, m) in sorted(of.items()) if one in models.rivals and one != name and m]
            if n and others:
                low, high = wilson_ci(right, n, models.confidence)
                mean = sum(others) / len(others)
                if high < mean or low > mean:
                    found.append((100 * (right / n - mean), f"{word}, {said(value)}"))
    for sign, words in ((1, "Clearly better than the mean of the other models at"), (-1, "Clearly worse than that mean at")):
        sure = sorted((gap for gap in found if sign * gap[0] > 0), key=lambda gap: (-abs(gap[0]), gap[1]))[:3]
        if sure:
            told.append(f"{words} {listed(f'{where} ({number(abs(gap), 0)} points)' for gap, where in sure)}.")
    return tuple(told)


def _facts(models: Models, name: str, line: Line | None, rows: Mapping[str, list[dict]]) -> tuple[tuple[str, str], ...]:
    about = models.known.get(name, {})
    main = next(iter(rows.get("evogui_main", [])), {})
    size = main.get("parameters_b") or about.get("parameters_b")
    conditions = listed(
        dict.fromkeys(
            CONDITIONS[row["condition"]].label if row["condition"] in CONDITIONS else plain(row["condition"], 40)
            for row in rows.get("shortcut_controls", [])
            if row.get("condition")
        )
    )
    told = (
        ("Group", line.group if line else main.get("group")),
        ("Family", main.get("family") or about.get("family")),
        ("Provider", about.get("provider")),
        ("Parameters", f"{number(size)} billion" if size else None),
        ("Longest side of pictures", f"{main['max_image_side']} px" if main.get("max_image_side") else None),
        ("Asked under", conditions),
        ("Rank interval", line.rank.interval if line else None),
        ("Chance of being best", f"{line.best.text} %" if line and line.best.text else None),
        ("Note", main.get("note")),
    )
    return tuple((word, plain(value, 300)) for word, value in told if value)


def _slices(models: Models, name: str) -> tuple[Slices, ...]:
    cuts = (
        ("T1 by number of screens", "The more screens, the rarer a right order by chance.", "t1", "slice"),
        ("T2 joint by action", "Action and value both right, by what was really done.", "t2_joint", "slice"),
        ("T2 top-1 by action", "The action right, whatever the value.", "t2_top1", "slice"),
        (
            "T2 joint by whether the goal holds the value",
            "A value that stands in the goal can be copied from it.",
            "t2_joint",
            "value_in_goal",
        ),
        (
            "T3 by distractor",
            "By where the wrong screen is from: another trajectory, the same domain, or later in the same trajectory (long skip, which "
            "EvoGUI means to be the hardest). Chance is 50 %.",
            "t3",
            "slice",
        ),
    )
    made = []
    for title, note, metric, by in cuts:
        of = models.cut(metric, by)
        names = {"True": "value in the goal", "False": "no value, or not in the goal", "": "not said"} if by == "value_in_goal" else {}
        found = [models.row(names.get(value) or said(plain(value, 60)), name, of[value]) for value in _sorted(of)]
        if kept := tuple(row for row in found if row):
            made.append(Slices(title, note, kept))
    for metric, title in (("t1", "T1"), ("t2_joint", "T2 joint"), ("t3", "T3")):
        of = models.cut(metric, "domain")
        if len(of) < 2:
            continue
        largest = sorted(of, key=lambda value: (-of[value].get(name, (0, 0))[1], value))
        found = [models.row(plain(value or "no domain", 60), name, of[value]) for value in largest[:DOMAINS]]
        if rest := largest[DOMAINS:]:
            every = {model for value in rest for model in of[value]}
            joined = {
                model: (sum(of[value].get(model, (0, 0))[0] for value in rest), sum(of[value].get(model, (0, 0))[1] for value in rest))
                for model in every
            }
            found.append(models.row(f"{count(len(rest), 'smaller domain')}", name, joined))
        if kept := tuple(row for row in found if row):
            made.append(Slices(f"{title} by domain", "Those with the most items first; few items make wide intervals.", kept))
    return tuple(made)


def _sorted(values: Iterable[str]) -> list[str]:
    order = ("click", "type", "select", "cross", "same_domain", "long_skip")
    return sorted(values, key=lambda value: (order.index(value) if value in order else len(order), value))


def _conditions(models: Models, rows: list[dict]) -> tuple[Condition, ...]:
    made = []
    several = len({row.get("max_image_side") for row in rows}) > 1
    order = list(CONDITIONS)

    def place(row: dict) -> tuple:
        return (
            order.index(row["condition"]) if row["condition"] in order else len(order),
            str(row["condition"]),
            row.get("max_image_side") or 0,
        )

    for row in sorted(rows, key=place):
        about = CONDITIONS.get(row["condition"])
        words = about.label if about else plain(row["condition"], 60)
        score = board.gain(row, models.chance)
        made.append(
            Condition(
                words + (f", {row['max_image_side']} px" if several and row.get("max_image_side") else ""),
                about.shows if about else "",
                number(score, 1),
                tuple(board.score(row.get(metric), row.get(f"{metric}_low"), row.get(f"{metric}_high")) for metric in board.TASKS),
            )
        )
    return tuple(made)


def _habits(rows: list[dict]) -> tuple[Habit, ...]:
    def share(value: float) -> Score:
        return Score(number(value, 1), "", repr(value), Bar(0, round(value, 2), round(value, 2)))

    return tuple(
        Habit(plain(row["task"], 20).upper(), plain(said(str(row["answer"])), 60), share(row["share"]), share(row["expected_share"]))
        for row in rows
        if row.get("share") is not None and row.get("expected_share") is not None
    )


def _outcomes(rows: list[dict], side: int | None) -> str:
    """Say what became of the requests of the comparison: answered, unusable, or without an answer and why."""
    asked = [row for row in rows if row["condition"] == "full" and row.get("max_image_side") in (side, None)]
    total = {column: sum(row.get(column) or 0 for row in asked) for column in ("n_asked", "n_invalid", "n_unanswered", *MISSING)}
    if not total["n_asked"]:
        return ""
    given = total["n_asked"] - total["n_unanswered"]
    said = f"Of {count(total['n_asked'], 'request')} with the questions’ own pictures, {given:,} were answered"
    said += f", {total['n_invalid']:,} of these unusably" if total["n_invalid"] else ""
    if total["n_unanswered"]:
        why = [f"{total[column]:,} {words}" for column, words in MISSING.items() if total[column]]
        said += f"; {total['n_unanswered']:,} have no answer" + (f": {listed(why)}" if why else "")
    return said + "."


def _bins(rows: list[dict]) -> tuple[tuple[str, tuple[Bin, ...]], ...]:
    made: dict[str, list[Bin]] = defaultdict(list)
    for row in rows:
        if row.get("confidence") is not None and row.get("accuracy") is not None and row.get("n"):
            low, high = row.get("accuracy_low"), row.get("accuracy_high")
            ends = (row["accuracy"] if low is None else low, row["accuracy"] if high is None else high)
            made[plain(row["task"], 20).upper()].append(
                Bin(round(row["confidence"], 2), round(row["accuracy"], 2), round(ends[0], 2), round(ends[1], 2), row["n"])
            )
    return tuple((task, tuple(found)) for task, found in made.items())


def _wrong(models: Models, name: str) -> tuple[tuple[Wrong, ...], int]:
    """Choose items that the model got wrong, those that most others got right first, each slice in turn."""
    if not len(models.main) or models.limit < 1:
        return (), 0
    mine = models.main.filter(pc.equal(models.main["model"], name))
    missed = mine.filter(pc.less(mine["correct"], 0.5)).select(["task", "instance_id", "slice", "domain"]).to_pylist()
    tallies = models.tallies

    def order(row: dict) -> tuple:
        right, asked = tallies.get(row["instance_id"], (0, 0))
        return -(right / asked if asked else 0), rank(models.seed, "report-wrong", name, row["instance_id"]), row["instance_id"]

    chosen = spread(missed, lambda row: (row["task"], row["slice"]), order, models.limit)
    chosen.sort(key=lambda row: (row["task"], row["slice"], row["instance_id"]))
    given = models.given(name, [row["instance_id"] for row in chosen]) if chosen else {}
    made = []
    for row in chosen:
        id, task = row["instance_id"], row["task"]
        right, asked = tallies.get(id, (0, 0))
        made.append(
            Wrong(
                task.upper(),
                said(plain(row["slice"], 40)),
                plain(row["domain"] or "", 60),
                given.get(id, ""),
                models.right.get(id, ""),
                f"{number(right)} of {number(asked)}" if asked else "",
                item_link("../", item=id) if models.items else "",
            )
        )
    return tuple(made), len(missed)
