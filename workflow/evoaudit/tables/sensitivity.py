"""How far the headline numbers hang on choices nobody can prove right: each choice made otherwise, everything else as it is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evoaudit.audit import combine
from evoaudit.stats.resample import FEW_CLUSTERS, iid_means, interval, pattern_draws
from evoaudit.store import read_manifest
from evoaudit.tables.audit import CONTRADICTS, Audit
from evoaudit.tables.estimate import audit_estimate
from evoaudit.tables.inputs import Empty
from evoaudit.tables.panel import INDEX, METRICS, TASKS, Answers, Items, Panel
from evoaudit.tables.reparse import RULES, read_again

EVOGAIN, WRONG, AMBIGUOUS = "EvoGain", "wrong verdicts", "ambiguous diagnoses"
AS_RUN = " (as run)"


@dataclass(frozen=True)
class Both:
    """What the two halves of the table are made from."""

    panel: Panel
    audit: Audit


def sensitivity(both: Both) -> list[dict]:
    """Return a row a choice and setting: the headline number, and how far it moved."""
    rows: list[dict] = []
    for part, subject in ((_evogain, both.panel), (_wrong, both.audit)):
        try:
            rows += part(subject)
        except Empty:
            continue
    if not rows:
        raise Empty("No model was scored and no verdict audited in this run, so there is no headline number to move.")
    return rows


def _filtered(items: Items, keep: np.ndarray) -> Items:
    place = np.flatnonzero(keep)
    return Items(
        [items.ids[i] for i in place],
        *(getattr(items, name)[place] for name in ("slices", "trajectories", "sources", "domains", "answers", "simulated")),
    )


def _again(panel: Panel, scores: pa.Table | None = None, items: dict[str, Items] | None = None, baseline: str | None = None) -> Panel:
    """Return the panel with one thing changed."""
    run = panel.run if baseline is None else replace(panel.run, settings={**panel.run.settings, "baseline": baseline})
    other = Panel(run)
    other.__dict__["scores"] = panel.scores if scores is None else scores
    other.__dict__["items"] = panel.items if items is None else items
    return other


def _evogain(panel: Panel) -> list[dict]:
    _ = panel.main
    rivals = panel.contest[0]
    if not rivals:
        raise Empty("No model answered all three probes.")
    # Only the comparison's own rows take part, so that the table is read again and again at little cost.
    names = {one.model: one for one in panel.main}
    scores = panel.scores.filter(
        pc.and_(pc.equal(panel.scores["condition"], "full"), pc.is_in(panel.scores["model"], pa.array(list(names))))
    )
    sides = pa.array([names[model].side for model in scores["model"].to_pylist()], scores["max_image_side"].type)
    scores = scores.filter(pc.equal(scores["max_image_side"], sides))
    base = _again(panel, scores)
    known = {one.model: panel.evogain(one) for one in rivals}
    table = _Table(base, known, panel.simulated(*rivals))
    rows = []
    for choice, setting, made in _variants(base, scores):
        rows.append(table.row(choice, setting, made))
    return rows + list(_units(panel, table))


class _Table:
    """Rows against the numbers as they were run."""

    def __init__(self, base: Panel, known: dict[str, float], simulated: bool) -> None:
        self.base, self.known, self.simulated = base, known, simulated
        self.leader = min(known, key=lambda model: (-known[model], model))

    def row(self, choice: str, setting: str, made: Panel | str) -> dict:
        """Return the row of a changed panel, or of a reason why there is none."""
        row: dict[str, Any] = {"choice": choice, "setting": setting, "quantity": EVOGAIN, "simulated": self.simulated}
        if isinstance(made, str):
            return {**row, "note": made}
        answers = {one.model: one for one in made.main if one.model in self.known}
        gains = {model: made.evogain(one) for model, one in answers.items()}
        found = {model: gain for model, gain in gains.items() if gain is not None}
        if not found:
            return {**row, "note": "no model has an EvoGain under this setting"}
        leader = min(found, key=lambda model: (-found[model], model))
        draws = _believed(made, answers[leader])
        low, high = (None, None) if draws is None else interval(draws, made.run.confidence)
        moved = {model: found[model] - self.known[model] for model in found}
        most = max(moved, key=lambda model: (abs(moved[model]), model))
        notes = []
        if leader != self.leader:
            notes.append(f"another leader than {self.leader}")
        if lost := len(self.known) - len(found):
            notes.append(f"{lost} models have no EvoGain under this setting")
        if 1 < (trajectories := made.clusters[1]) < FEW_CLUSTERS:
            notes.append(f"{trajectories} trajectories: too few for the interval to cover what it says")
        return {
            **row,
            "subject": leader,
            "n": sum(map(len, made.items.values())),
            "value": found[leader],
            "value_low": low,
            "value_high": high,
            "change": moved[leader],
            "largest_change": moved[most],
            "largest_subject": most if abs(moved[most]) > 1e-9 else None,
            "ranks_moved": sum(_rank(found, model) != _rank(self.known, model) for model in found),
            "note": "; ".join(notes) or None,
        }


def _rank(gains: dict[str, float], model: str) -> int:
    return 1 + sum(other > gains[model] + 1e-9 for other in gains.values())


def _variants(base: Panel, scores: pa.Table) -> Iterator[tuple[str, str, Panel | str]]:
    yield "parser", "JSON, else the label alone" + AS_RUN, base
    fallback = pc.equal(scores["parse_path"], "fallback")
    yield "parser", "JSON only", _again(base, _lost(scores, fallback, "invalid"))
    again = read_again(base.run, scores)
    for rule, words in RULES.items():
        yield "parser", words, again if isinstance(again, str) else base if again[rule] is scores else _again(base, again[rule])
    yield "missing answers", "excluded" + AS_RUN, base
    wrong = _again(base)
    for one in wrong.answers.values():
        for metric, task in METRICS.items():
            # A task without a single answer was not asked; it stays without a score.
            if metric in one.values and one.answered(metric) and len(wrong.items[task]):
                one.values[metric] = np.nan_to_num(one.values[metric])
    yield "missing answers", "wrong", wrong
    yield "unusable answers", "wrong" + AS_RUN, base
    yield "unusable answers", "excluded", _again(base, _lost(scores, pc.equal(scores["status"], "invalid"), "unanswered"))
    wanted = base.run.settings.get("baseline", "exact")
    for name, words in (("exact", "exact"), ("random", "the random solver's mean"), ("published", "as the paper prints it")):
        made: Panel | str = _again(base, baseline=name)
        if name == "random" and base.random is None:
            made = "no random solver was asked"
        yield "chance level", words + (AS_RUN if name == wanted else ""), made
    yield "near-duplicate items", "kept" + AS_RUN, base
    yield "near-duplicate items", "one of each", _without_twins(base)
    yield "values that stand in the goal", "kept" + AS_RUN, base
    yield "values that stand in the goal", "without their T2 items", _without_told(base, scores)


def _lost(scores: pa.Table, rows: pa.ChunkedArray, status: str) -> pa.Table:
    """Return the scores with some rows turned into answers that are wrong, or that are none."""
    changed = {
        "status": pc.if_else(rows, status, scores["status"]),
        "correct": pc.and_(scores["correct"], pc.invert(rows)),
        "action_correct": pc.if_else(pc.and_(rows, pc.is_valid(scores["action_correct"])), False, scores["action_correct"]),
    }
    for name, column in changed.items():
        scores = scores.set_column(scores.schema.get_field_index(name), name, column)
    return scores


def _without_twins(base: Panel) -> Panel | str:
    """Leave out items all of whose screens look like those of an item before them, by perceptual hash."""
    run = base.run
    mined = {task: run.rows(run.folders.mined, task, ["instance_id", "images"]) for task in TASKS}
    used = sorted({image for rows in mined.values() for row in rows for image in row["images"]})
    hashes: dict[str, str] = {}
    for folder in run.folders.normalised:
        images = run.table(folder, "images", ["image_id", "phash"])
        images = images.filter(pc.is_in(images["image_id"], pa.array(used, pa.string())))
        hashes |= {image: found for image, found in zip(*(images[name].to_pylist() for name in images.column_names), strict=True) if found}
    if not hashes:
        return "no hashes of the items' screens are at hand"
    items = {}
    for task in TASKS:
        shown = {row["instance_id"]: row["images"] for row in mined[task]}
        seen, keep = set(), []
        for one, name in zip(base.items[task].ids, base.items[task].slices, strict=True):
            # Screens without a hash resemble themselves alone; the order shown was drawn, so it does not count.
            look = (name, *sorted(hashes.get(image, image) for image in shown.get(one) or [one]))
            keep.append(look not in seen)
            seen.add(look)
        items[task] = _filtered(base.items[task], np.array(keep, bool))
    return _again(base, items=items)


def _without_told(base: Panel, scores: pa.Table) -> Panel | str:
    told = set(scores.filter(pc.fill_null(scores["value_in_goal"], False))["instance_id"].to_pylist())
    if not told:
        return "no T2 item's value stands in its goal"
    keep = np.array([one not in told for one in base.items["t2"].ids], bool)
    if not keep.any():
        return "every T2 item's value stands in its goal"
    return _again(base, items={**base.items, "t2": _filtered(base.items["t2"], keep)})


def _units(panel: Panel, table: _Table) -> Iterator[dict]:
    """Yield the leader's interval under each thing that may be resampled."""
    leader = next(one for one in panel.contest[0] if one.model == table.leader)
    as_run = panel.clusters[1] > 1
    for words, units, draws in (
        ("trajectories, slices fixed" + AS_RUN * as_run, "trajectories", lambda one: _over_trajectories(panel, one)),
        ("items" + AS_RUN * (not as_run), None, panel.iid_draws),
        ("items inside their slice", None, lambda one: _sliced(panel, one)),
        ("domains, slices fixed", "domains", lambda one: _clustered(panel, one, "domains")),
    ):
        n = sum(map(len, panel.items.values())) if units is None else len(_names(panel, units))
        row = {
            "choice": "what is resampled",
            "setting": words,
            "quantity": EVOGAIN,
            "subject": table.leader,
            "n": n,
            "value": table.known[table.leader],
            "change": 0.0,
            "simulated": table.simulated,
        }
        if n < 2:
            yield {**row, "note": "a single one, so nothing to resample"}
            continue
        found = draws(leader)
        low, high = (None, None) if found is None else interval(found, panel.run.confidence)
        few = f"{n} {units}: too few for the interval to cover what it says" if units and n < FEW_CLUSTERS else None
        yield {**row, "value_low": low, "value_high": high, "note": few}


def _names(panel: Panel, units: str) -> np.ndarray:
    return np.unique(np.concatenate([_unit(items, units) for items in panel.items.values()]))


def _unit(items: Items, units: str) -> np.ndarray:
    """Return what each item belongs to; an item without a domain goes with its trajectory."""
    given = zip(getattr(items, units), items.trajectories, strict=True)
    return np.array([f"={one}" if one else f"?{trajectory}" for one, trajectory in given], str)


def _clustered(panel: Panel, one: Answers, units: str) -> np.ndarray | None:
    names = _names(panel, units)
    other = _again(panel)
    other.__dict__["clusters"] = ({task: np.searchsorted(names, _unit(items, units)) for task, items in panel.items.items()}, len(names))
    return _drawn(other, one, f"sensitivity-{units}")


def _drawn(panel: Panel, one: Answers, purpose: str) -> np.ndarray | None:
    guessed = [] if panel.guessed is None else [panel.guessed]
    scores = panel.shared_draws([one, *guessed], INDEX, purpose)
    chance = {metric: draws[:, -1] for metric, draws in scores.items()} if guessed else None
    return panel.gains({metric: draws[:, 0] for metric, draws in scores.items()}, chance=chance)


def _over_trajectories(panel: Panel, one: Answers) -> np.ndarray | None:
    """Return EvoGain over the resamples of trajectories that the leaderboard's clustered interval is from."""
    return _drawn(panel, one, "clusters")


def _believed(panel: Panel, one: Answers) -> np.ndarray | None:
    """Return EvoGain over resamples of trajectories, over items where there is a single trajectory."""
    return _over_trajectories(panel, one) if panel.clusters[1] > 1 else panel.iid_draws(one)


def _sliced(panel: Panel, one: Answers) -> np.ndarray | None:
    scores = {}
    for metric in INDEX:
        items, values = panel.items[METRICS[metric]], one.values.get(metric, np.empty(0))
        total, parts = 0, np.zeros(panel.run.resamples)
        for name in sorted(items.by_slice):
            held = values[(items.slices == name) & ~np.isnan(values)] if len(values) else values
            if len(held):
                parts += len(held) * iid_means(held, panel.run.resamples, panel.run.rng("sensitivity-slices", one.model, metric, name))
                total += len(held)
        if not total:
            return None
        scores[metric] = 100 * parts / total
    return panel.gains(scores)


def _wrong(audit: Audit) -> list[dict]:
    rows: list[dict] = []
    final = [row for row in audit.final if row["released"] == "fail"]
    for name, members in audit.pools(final, lambda benchmark: benchmark):
        if name.startswith("All"):
            rows += _moved(audit, name, members)
    return rows


def _moved(audit: Audit, pool: str, members: list[dict]) -> Iterator[dict]:
    """Yield the rows of one pool of verdicts."""
    contradicts = CONTRADICTS["fail"]
    verdicts = {row["trajectory_id"]: row["verdict"] for row in members}
    known = sum(verdict in contradicts for verdict in verdicts.values()) / len(verdicts)

    def row(
        choice: str, setting: str, given: dict[str, str] | str, wrong: Callable[[str], bool] = lambda verdict: verdict in contradicts
    ) -> dict:
        held: dict[str, Any] = {"choice": choice, "setting": setting, "quantity": WRONG, "subject": pool}
        held["simulated"] = any(member["simulated"] for member in members)
        if isinstance(given, str) or not given:
            return {**held, "note": given or "no verdict is left"}
        k, n = sum(map(wrong, given.values())), len(given)
        low, high = audit.wilson(k, n)
        return {**held, "n": n, "value": 100 * k / n, "value_low": low, "value_high": high, "change": 100 * (k / n - known)}

    given, tie = _recombined(audit, members)
    for rule in combine.TIES:
        yield row(
            "tie of the raters", rule + (AS_RUN if rule == tie else ""), given.get(rule) or "the labels behind the verdicts are not at hand"
        )
    yield from _diagnosed(audit, pool, members)
    for setting, otherwise in _adjudicated(audit, members, verdicts).items():
        yield row("adjudicated labels", setting, otherwise)
    yield row("unclear verdicts", "not wrong" + AS_RUN, verdicts)
    yield row("unclear verdicts", "excluded", {one: verdict for one, verdict in verdicts.items() if verdict != "unclear"})
    yield row("unclear verdicts", "wrong", verdicts, lambda verdict: verdict in contradicts or verdict == "unclear")
    first: dict[str, str] = {}
    for one in sorted(verdicts):
        first.setdefault(audit.task(one), one)
    yield row("attempts at one task", "all" + AS_RUN, verdicts)
    yield row("attempts at one task", "the first alone", {one: verdicts[one] for one in first.values()})
    yield row("rows nobody reviewed", "the judges' word" + AS_RUN, verdicts)
    for estimate in audit_estimate(audit):
        if (estimate["benchmark"], estimate["released"], estimate["estimator"]) == (pool, "fail", "two-phase"):
            held = row("rows nobody reviewed", "as the reviewed ones (two-phase)", "none")
            moved = None if estimate.get("wrong") is None else estimate["wrong"] - 100 * known
            ends = {f"value{end}": estimate.get(f"wrong{end}") for end in ("", "_low", "_high")}
            yield {**held, "n": estimate["n"], **ends, "change": moved, "note": estimate["note"] if moved is None else None}
    yield row("what is resampled", "verdicts (Wilson)" + AS_RUN, verdicts)
    ids = sorted(verdicts)
    wrong, clusters = np.array([verdicts[one] in contradicts for one in ids], int), audit.clusters(ids)
    draws = pattern_draws(wrong, 2, clusters, audit.run.resamples, audit.run.rng("sensitivity", pool), audit.benchmarks(ids))
    low, high = audit.limits(draws[:, 1] / draws.sum(1), int(clusters.max()) + 1, 100)
    tasks = int(clusters.max()) + 1
    few = f"{tasks} tasks: too few for the interval to cover what it says" if tasks < FEW_CLUSTERS else None
    yield {**row("what is resampled", "tasks inside their benchmark", verdicts), "value_low": low, "value_high": high, "note": few}


def _diagnosed(audit: Audit, pool: str, members: list[dict]) -> Iterator[dict]:
    """Yield the share of genuine failures that stay without a diagnosis under every rule for ties of the diagnoses."""
    failures = {row["trajectory_id"]: row["category"] for row in members if row["verdict"] == "gf"}
    votes, config = _cast(audit, members)
    tie = str(config.get("category_tie", "ambiguous"))
    found = {rule: {one: combine.category(votes[one], rule)[0] for one in failures if one in votes} for rule in combine.CATEGORY_TIES}
    known = sum(category == "ambiguous" for category in failures.values())
    for rule in combine.CATEGORY_TIES if failures else ():
        row: dict[str, Any] = {"choice": "tie of the diagnoses", "setting": rule + (AS_RUN if rule == tie else ""), "quantity": AMBIGUOUS}
        row |= {"subject": pool, "simulated": any(member["simulated"] for member in members)}
        if found.get(tie) != failures:
            yield {**row, "note": "the labels behind the diagnoses are not at hand"}
            continue
        k, n = sum(category == "ambiguous" for category in found[rule].values()), len(failures)
        low, high = audit.wilson(k, n)
        yield {**row, "n": n, "value": 100 * k / n, "value_low": low, "value_high": high, "change": 100 * (k - known) / n}


def _cast(audit: Audit, members: list[dict], adjudication: str | None = None) -> tuple[dict[str, combine.Votes], dict]:
    """Return the votes behind the members' final labels, and the settings they were combined with; nothing where they are not at hand.

    ``adjudication`` says what adjudicated labels do, where it is not what they did.
    """
    folder = audit.run.folders.final
    if folder is None or not (folder / "manifest.json").is_file():
        return {}, {}
    config = read_manifest(folder).get("config") or {}
    frame = [{"trajectory_id": row["trajectory_id"], "status": "analysed"} for row in members]
    groups, decides = list(config.get("groups") or []), (adjudication or config.get("adjudication", "decides")) == "decides"
    return combine.count(audit.run.rows(folder, "labels"), frame, groups, adjudication=decides)[0], config


def _adjudicated(audit: Audit, members: list[dict], verdicts: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return setting → verdict of each trajectory, with the adjudicated labels and without; nothing where there are none."""
    votes, config = _cast(audit, members, "decides")
    if not any(cast.adjudicated for cast in votes.values()):
        return {}
    tie, as_run = str(config.get("tie", "unclear")), config.get("adjudication", "decides")
    bare = {one: combine.Votes(cast.judges, cast.humans) for one, cast in votes.items()}
    found = {
        name: {one: decided[0] for one, cast in given.items() if (decided := combine.verdict(cast, tie)) is not None}
        for name, given in (("decides", votes), ("apart", bare))
    }
    words = {"decides": "the final word", "apart": "counted apart"}
    made = {words[name] + (AS_RUN if name == as_run else ""): given for name, given in found.items()}
    return made if found[as_run] == verdicts else {}


def _recombined(audit: Audit, members: list[dict]) -> tuple[dict[str, dict[str, str]], str | None]:
    """Return tie rule → verdict of each trajectory, and the rule that was used; nothing if the labels do not give what was found."""
    votes, config = _cast(audit, members)
    if not votes:
        return {}, None
    tie = str(config.get("tie", "unclear"))
    found = {
        rule: {one: decided[0] for one, cast in votes.items() if (decided := combine.verdict(cast, rule)) is not None}
        for rule in combine.TIES
    }
    # The labels must give the verdicts of the run, or they are not what these were made from.
    return (found, tie) if found.get(tie) == {row["trajectory_id"]: row["verdict"] for row in members} else ({}, tie)
