"""The scored answers as arrays: one vector of outcomes over a task's items for every model, condition and picture size."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evoaudit.conditions import CONDITIONS, TASKS
from evoaudit.stats import baseline_t1, baseline_t2_joint
from evoaudit.stats.evogain import CHANCE_T2_ACTION, CHANCE_T3, normalised_gain
from evoaudit.stats.resample import by_stratum, iid_means, stratified_means
from evoaudit.tables.inputs import Empty, Run, codes, numbers

#: Metric → task whose items it is over.
METRICS = {"t1": "t1", "t2_top1": "t2", "t2_joint": "t2", "t3": "t3"}
#: What EvoGain is the mean of.
INDEX = ("t1", "t2_joint", "t3")
INDEX_ACTION = ("t1", "t2_top1", "t3")
PUBLISHED_CHANCE = {"t1": 8.0, "t2_top1": 33.3, "t2_joint": 15.0, "t3": 49.9}
#: Group of a model → the heading it stands under; order of the groups.
GROUPS = {"baseline": "Baseline", "open": "Open-weight models", "closed": "Closed-weight models"}
MAIN_SIDE = 512
NOTHING_SCORED = "No model was scored in this run; list models in the config."


@dataclass
class Items:
    """The items of one task, sorted by id; every item belongs to a trajectory."""

    ids: list[str]
    slices: np.ndarray
    trajectories: np.ndarray
    sources: np.ndarray
    domains: np.ndarray
    answers: np.ndarray
    simulated: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def by_slice(self) -> dict[str, int]:
        return dict(sorted(Counter(self.slices.tolist()).items()))


@dataclass
class Answers:
    """One model under one condition. ``values`` maps a metric to outcomes 0…1 over the items, NaN where there is no answer."""

    model: str
    condition: str
    side: int
    values: dict[str, np.ndarray] = field(default_factory=dict)
    counts: Counter = field(default_factory=Counter)
    runs: int = 1
    simulated: bool = False

    def accuracy(self, metric: str, keep: np.ndarray | None = None) -> float | None:
        """Return percent correct over the answered items (for tau: their mean), None if none is answered."""
        values = self.values.get(metric)
        if values is None:
            return None
        values = values if keep is None else values[keep]
        values = values[~np.isnan(values)]
        return None if not len(values) else float(values.mean()) * (1 if metric == "tau" else 100)

    def answered(self, metric: str, keep: np.ndarray | None = None) -> int:
        values = self.values.get(metric)
        return 0 if values is None else int((~np.isnan(values if keep is None else values[keep])).sum())


class Panel:
    """All scored answers of a run."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @cached_property
    def items(self) -> dict[str, Items]:
        """Items of each task: as mined, or, without the mined folder, as scored."""
        mined = {task: self._mined(task) for task in TASKS}
        if any(len(items) for items in mined.values()):
            return mined
        return {task: self._scored(task) for task in TASKS}

    def _mined(self, task: str) -> Items:
        answer = {"t1": "answer", "t2": "answer_action", "t3": "answer"}[task]
        columns = ["instance_id", "slice", "trajectory_id", "source", "domain", answer, "simulated"]
        rows = self.run.rows(self.run.folders.mined, task, columns)
        return _items(
            [
                (row["instance_id"], row["slice"], row["trajectory_id"], row["source"], row["domain"], row[answer], row["simulated"])
                for row in rows
            ]
        )

    def _scored(self, task: str) -> Items:
        table = self.scores
        if not table.num_rows:
            return _items([])
        names = ["instance_id", "slice", "trajectory_id", "source", "domain", "simulated"]
        chosen = table.filter(pc.equal(table["task"], task)).group_by(names).aggregate([]).select(names).to_pylist()
        return _items(
            [
                (row["instance_id"], row["slice"], row["trajectory_id"], row["source"], row["domain"], None, row["simulated"])
                for row in chosen
            ]
        )

    @cached_property
    def scores(self) -> pa.Table:
        """All scored answers, in the order of their identity, so that sums do not depend on how they were written."""
        names = ("model", "condition", "max_image_side", "run", "task", "instance_id")
        return self.run.table(self.run.folders.scores, "scores").sort_by([(name, "ascending") for name in names])

    @cached_property
    def answers(self) -> dict[tuple[str, str, int], Answers]:
        """Answers by model, condition and side, in that order."""
        table = self.scores
        found: dict[tuple[str, str, int], Answers] = {}
        if not table.num_rows:
            return found
        model, models = codes(table["model"])
        condition, conditions = codes(table["condition"])
        task, tasks = codes(table["task"])
        status, statuses = codes(table["status"])
        side, replicate = (np.asarray(table[name]) for name in ("max_image_side", "run"))
        made_up = numbers(table["simulated"]) > 0
        outcome = {"correct": numbers(table["correct"]), "action": numbers(table["action_correct"]), "tau": numbers(table["tau"])}
        place = self._places(table["instance_id"], task, tasks)
        key = np.lexsort((side, condition, model))
        edges = np.flatnonzero(np.diff(model[key]) | np.diff(condition[key]) | np.diff(side[key])) + 1
        for rows in np.split(key, edges):
            first = rows[0]
            one = Answers(models[model[first]], conditions[condition[first]], int(side[first]))
            one.runs = len(np.unique(replicate[rows]))
            one.simulated = bool(made_up[rows].any())
            asked = CONDITIONS[one.condition].tasks
            for number, name in enumerate(tasks):
                if name not in asked:
                    continue
                inside = rows[(task[rows] == number) & (place[rows] >= 0)]
                self._fill(one, name, inside, place, status, statuses, outcome)
            found[one.model, one.condition, one.side] = one
        return found

    def _places(self, instances: pa.ChunkedArray, task: np.ndarray, tasks: list[str]) -> np.ndarray:
        """Return each row's place among its task's items, -1 for items that are not in the split."""
        place = np.full(len(task), -1)
        for number, name in enumerate(tasks):
            rows = np.flatnonzero(task == number)
            known = pa.array(self.items[name].ids, pa.string())
            found = pc.index_in(instances.take(pa.array(rows)).combine_chunks(), value_set=known)
            place[rows] = found.fill_null(-1).to_numpy(zero_copy_only=False)
        return place

    def _fill(
        self,
        one: Answers,
        task: str,
        rows: np.ndarray,
        place: np.ndarray,
        status: np.ndarray,
        statuses: list[str],
        outcome: dict[str, np.ndarray],
    ) -> None:
        """Add one task's outcomes, averaged over runs, and its counts."""
        n = len(self.items[task])
        named = Counter(statuses[code] for code in status[rows])
        for name in ("answered", "invalid", "unanswered"):
            one.counts[task, name] = named[name]
        # An item nobody has a row for was not answered either.
        one.counts[task, "unanswered"] += max(0, one.runs * n - len(rows))
        usable = rows[np.array([statuses[code] != "unanswered" for code in status[rows]], bool)] if len(rows) else rows
        metrics = {"t1": {"t1": "correct", "tau": "tau"}, "t2": {"t2_joint": "correct", "t2_top1": "action"}, "t3": {"t3": "correct"}}[task]
        for metric, source in metrics.items():
            value = outcome[source][usable]
            if metric == "t2_top1":
                value = np.nan_to_num(value)  # an unusable answer names no action, so it is wrong
            seen = ~np.isnan(value)
            counts = np.bincount(place[usable][seen], minlength=n)
            with np.errstate(invalid="ignore"):
                one.values[metric] = np.bincount(place[usable][seen], value[seen], minlength=n) / np.where(counts, counts, np.nan)

    @cached_property
    def main(self) -> list[Answers]:
        """Every model's answers under the full condition at the comparison's picture size, in the tables' order."""
        chosen: dict[str, Answers] = {}
        for (model, condition, side), one in self.answers.items():
            if condition == "full" and (model not in chosen or side == MAIN_SIDE):  # sides come in ascending order
                chosen[model] = one
        if not chosen:
            raise Empty(NOTHING_SCORED)
        return self.ordered(list(chosen.values()))

    def ordered(self, found: list[Answers], score: Callable[[Answers], float | None] | None = None) -> list[Answers]:
        """Sort by group, then as the paper orders its models if it knows all of a group, else by ``score``, low to high (EvoGain)."""
        score = score or self.evogain
        groups: dict[str, list[Answers]] = {}
        for one in found:
            groups.setdefault(self.group(one.model), []).append(one)
        listed = []
        for name in sorted(groups, key=lambda group: (list(GROUPS).index(group) if group in GROUPS else len(GROUPS), group)):
            published = [self.published.get(one.model.casefold()) for one in groups[name]]
            if all(published):
                listed += sorted(groups[name], key=lambda one: self.published[one.model.casefold()]["order"])
            else:
                listed += sorted(groups[name], key=lambda one: (gain if (gain := score(one)) is not None else -np.inf, one.model))
        return listed

    @cached_property
    def published(self) -> dict[str, dict]:
        """The paper's main rows by lower-case model name."""
        from evoaudit.tables.literature import published

        return {row["model"].casefold(): row for row in published("evogui_table2") if row["group"] != "baseline"}

    def group(self, model: str) -> str:
        return str(self.run.models.get(model, {}).get("group") or ("baseline" if model == "random" else "other"))

    def heading(self, model: str) -> str:
        group = self.group(model)
        return GROUPS.get(group, "Other models")

    @cached_property
    def exact(self) -> dict[str, float | None]:
        """What uniform guessing scores on this split in the mean, in percent."""
        shown = self.items["t1"].by_slice
        t2 = self.items["t2"].by_slice
        classes = {name: t2.get(name, 0) for name in ("click", "type", "select")}
        return {
            "t1": baseline_t1({name.removeprefix("K="): n for name, n in shown.items()}) if shown else None,
            "t2_top1": CHANCE_T2_ACTION if t2 else None,
            "t2_joint": baseline_t2_joint(**classes) if t2 else None,
            "t3": CHANCE_T3 if len(self.items["t3"]) else None,
        }

    @cached_property
    def random(self) -> Answers | None:
        """The random solver's answers: the baseline that was asked several times."""
        several = [one for one in self.answers.values() if one.condition == "full" and (one.runs > 1 or one.model == "random")]
        return min(several, key=lambda one: (one.side != MAIN_SIDE, one.model)) if several else None

    @cached_property
    def chance(self) -> dict[str, float | None]:
        """The chance level EvoGain is over, as `stats.baseline` says."""
        wanted = self.run.settings.get("baseline", "exact")
        if wanted == "published":
            return dict(PUBLISHED_CHANCE)
        if wanted == "random" and self.random is not None:
            return {metric: self.random.accuracy(metric) for metric in METRICS}
        return self.exact

    def gains(
        self,
        scores: dict[str, np.ndarray | float | None],
        metrics: tuple[str, ...] = INDEX,
        chance: dict[str, np.ndarray] | None = None,
    ) -> np.ndarray | float | None:
        """Return EvoGain of percent scores (numbers or arrays of resamples), None if a task or its chance level is missing.

        ``chance`` holds resamples of the chance level, where that was itself only estimated.
        """
        if any(scores.get(metric) is None or self.chance[metric] is None or self.chance[metric] >= 100 for metric in metrics):
            return None
        over = self.chance if chance is None else chance
        return sum(normalised_gain(scores[metric], over[metric]) for metric in metrics) / len(metrics)

    @property
    def guessed(self) -> Answers | None:
        """The random solver's answers where they are the chance level, which then varies between resamples."""
        return self.random if self.run.settings.get("baseline") == "random" else None

    def evogain(self, one: Answers, metrics: tuple[str, ...] = INDEX) -> float | None:
        """Return the plug-in EvoGain of one model."""
        return self.gains({metric: one.accuracy(metric) for metric in metrics}, metrics)

    def iid_draws(self, one: Answers) -> np.ndarray | None:
        """Return EvoGain over resamples that draw each task's items independently (EvoGUI A.4)."""
        scores = self._iid(one)
        return None if scores is None else self.gains(scores, chance=self._iid_chance)

    def _iid(self, one: Answers) -> dict[str, np.ndarray] | None:
        scores = {}
        for metric in INDEX:
            values = one.values.get(metric, np.empty(0))
            values = values[~np.isnan(values)]
            if not len(values):
                return None
            scores[metric] = 100 * iid_means(values, self.run.resamples, self.run.rng("iid", one.model, one.condition, one.side, metric))
        return scores

    @cached_property
    def _iid_chance(self) -> dict[str, np.ndarray] | None:
        """Resamples of an estimated chance level: one draw, shared by all models."""
        return None if self.guessed is None else self._iid(self.guessed)

    @cached_property
    def clusters(self) -> tuple[dict[str, np.ndarray], int]:
        """Return each task's item → trajectory number, and how many trajectories there are."""
        names = np.unique(np.concatenate([items.trajectories for items in self.items.values()]).astype(str))
        return {task: np.searchsorted(names, items.trajectories.astype(str)) for task, items in self.items.items()}, len(names)

    def shared_draws(self, found: list[Answers], metrics: tuple[str, ...], purpose: str) -> dict[str, np.ndarray]:
        """Return, for each metric, resamples × models of percent scores under one set of trajectory weights for all.

        The split fixes how many items each slice has, so slices keep their shares.
        """
        place, n = self.clusters
        held = []
        for metric in metrics:
            task = METRICS[metric]
            items = self.items[task]
            empty = np.full(len(items), np.nan)
            # Means of several runs are rounded to a step whose sums are exact, see `by_cluster`.
            values = np.round(np.column_stack([answers.values.get(metric, empty) for answers in found]) * 1024) / 1024
            held.append(by_stratum(values, place[task], n, items.slices.astype(str)))
        drawn = stratified_means(held, self.run.resamples, self.run.rng(purpose))
        return {metric: 100 * draws for metric, draws in zip(metrics, drawn, strict=True)}

    @cached_property
    def contest(self) -> tuple[list[Answers], np.ndarray]:
        """Return the models that are compared and their EvoGain over shared resamples (resamples × models).

        Baselines compete only where there is nothing else.
        """
        able = [one for one in self.main if self.evogain(one) is not None]
        rivals = [one for one in able if self.group(one.model) != "baseline"] or able
        if not rivals:
            return [], np.empty((self.run.resamples, 0))
        guessed = [] if self.guessed is None else [self.guessed]
        scores = self.shared_draws([*rivals, *guessed], INDEX, "clusters")
        chance = {metric: draws[:, -1:] for metric, draws in scores.items()} if guessed else None
        return rivals, self.gains({metric: draws[:, : len(rivals)] for metric, draws in scores.items()}, chance=chance)

    def simulated(self, *found: Answers) -> bool:
        """Say whether any item is simulated, or any of these models; without any named, whether anything was."""
        return any(items.simulated.any() for items in self.items.values()) or any(one.simulated for one in found or self.answers.values())


def _items(rows: list[tuple]) -> Items:
    rows = sorted(rows, key=lambda row: row[0])
    columns = list(zip(*rows, strict=True)) if rows else [()] * 7
    ids, slices, trajectories, sources, domains, answers, simulated = columns
    held = np.empty(len(answers), object)
    held[:] = answers
    return Items(
        list(ids),
        np.array(slices, object),
        np.array(trajectories, object),
        np.array(sources, object),
        np.array(domains, object),
        held,
        np.array(simulated, bool),
    )
