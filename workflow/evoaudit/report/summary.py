"""What the run found, in plain words, and the numbers a program reads instead of the page."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evoaudit.jsonfile import read_json
from evoaudit.report import board, distrust, load
from evoaudit.report.load import Inputs, Table
from evoaudit.report.words import count, listed, number, plain

#: Models named that cannot be told from the leader.
TIES = 8


@dataclass
class Summary:
    """The first screen of the report: what came of the run, and what the run was."""

    #: Who leads, and how surely.
    leading: list[str] = field(default_factory=list)
    #: What the audit found.
    sentences: list[str] = field(default_factory=list)
    #: What ran, on what.
    ran: list[str] = field(default_factory=list)
    numbers: list[tuple[str, str]] = field(default_factory=list)
    simulated: str = ""
    totals: dict[str, Any] = field(default_factory=dict)
    #: The model that the first sentence names, as its tables do; empty where there is none.
    leader: str = ""


def summarise(inputs: Inputs, tables: dict[str, Table], seed: int | None, name: str) -> Summary:
    """Say what ran, on what, and what came of it."""
    found = Summary()
    _what_ran(found, inputs, seed, name)
    _questions(found, inputs, tables)
    _leaders(found, inputs)
    _wrong(found, tables, _manifests((inputs.final,) if inputs.final else ()))
    _doubtful(found, inputs, tables)
    _simulated(found, inputs, tables)
    return found


def _manifests(folders: tuple[Any, ...]) -> list[dict]:
    return [read_json(folder / "manifest.json") for folder in folders if (folder / "manifest.json").is_file()]


def _what_ran(found: Summary, inputs: Inputs, seed: int | None, name: str) -> None:
    total: dict[str, dict[str, int]] = {}
    without = []
    manifests = _manifests(inputs.normalised)
    for manifest in manifests:
        counts = manifest["counts"]
        for unit, one in {counts["unit"]: counts, **counts.get("others", {})}.items():
            sums = total.setdefault(unit, {"read": 0, "kept": 0, "dropped": 0})
            sums["read"] += one["read"]
            sums["kept"] += one["kept"]
            sums["dropped"] += sum(one["dropped"].values())
        if counts["unit"] == "trajectory" and not counts["read"]:
            without.append(plain((manifest.get("config") or {}).get("source") or "one source", 60))
    sources = len(inputs.normalised) - len(without)
    found.totals |= {"read": total, "sources": sources}
    drawn = f" with seed {seed}" if seed is not None else ""
    if not inputs.normalised:
        found.ran.append(f"Run {plain(name)}{drawn} read no trajectories; what is below follows from labels and printed figures alone.")
        return
    whole = total.get("trajectory", {"read": 0, "kept": 0, "dropped": 0})
    read = f"{count(whole['read'], 'trajectory', 'trajectories')} from {count(sources, 'source')}"
    found.ran.append(f"Run {plain(name)}{drawn} read {read}: {whole['kept']:,} kept, {whole['dropped']:,} left out.")
    if manifests and all((manifest.get("config") or {}).get("simulated") is False for manifest in manifests):
        found.ran.append("All are logs of real runs, as given.")
    if without:
        found.ran.append(f"{listed(without)} gave annotations or other records, and no trajectory.")
    finer = []
    if "transition" in total:
        finer.append(f"{total['transition']['kept']:,} of {count(total['transition']['read'], 'step')} lie between two usable screens")
    if "picture" in total:
        finer.append(f"{total['picture']['kept']:,} of {count(total['picture']['read'], 'picture')} could be opened")
    if finer:
        found.ran.append(f"{listed(finer)}; what was left out is listed with its reasons.")
    found.numbers += [
        ("trajectories read", f"{whole['read']:,}"),
        ("kept", f"{whole['kept']:,}"),
        ("left out in reading", f"{whole['dropped']:,}"),
    ]


def _questions(found: Summary, inputs: Inputs, tables: dict[str, Table]) -> None:
    asked = {task: load.length(inputs.mined, task) for task in ("t1", "t2", "t3")}
    found.totals["questions"] = asked
    models = {row["model"] for row in load.rows([inputs.scores], "scores", ("model",))} if load.has(inputs.scores, "scores") else set()
    found.totals["models"] = len(models)
    solvers = len(models & board.baselines(inputs))
    if inputs.mined:
        parts = [f"{count(n, 'question')} of {task.upper()}" for task, n in asked.items()]
        answered = f"; {board.counted(len(models) - solvers, solvers)} answered them" if models else ""
        found.ran.append(f"{_origin(inputs)}: {listed(parts)}{answered}.")
        found.numbers.append(("questions", f"{sum(asked.values()):,}"))
        found.ran += _sets(inputs)
    if len(models) > solvers:
        found.numbers.append(("models", f"{len(models) - solvers:,}"))
    if solvers:
        found.numbers.append(("baselines", f"{solvers:,}"))


def _origin(inputs: Inputs) -> str:
    """Say from how many trajectories the questions were cut, and of which sources these are."""
    sources: dict[str, str] = {}
    for task in ("t1", "t2", "t3"):
        if load.has(inputs.mined, task):
            rows = load.rows([inputs.mined], task, ("trajectory_id", "source"))
            sources |= {row["trajectory_id"]: row["source"] for row in rows}
    names = sorted({plain(source or "", 60) for source in sources.values()})
    if not names:
        return "From these came"
    few = "only " if len(sources) < board.SMALL else ""
    cut = count(len(sources), "trajectory", "trajectories")
    return f"Questions were cut from {few}{cut} of " + (names[0] if len(names) == 1 else f"{len(names)} sources")


def _sets(inputs: Inputs) -> list[str]:
    """Name the sets of questions that stand apart from those that are counted."""
    sizes: dict[str, int] = {}
    for row in load.rows([inputs.stats], "split_sets", ("set", "count")) if load.has(inputs.stats, "split_sets") else ():
        sizes[row["set"]] = sizes.get(row["set"], 0) + (row["count"] or 0)
    if not sizes:
        return []
    named = listed(f"{plain(name, 40)} {n:,}" for name, n in sorted(sizes.items()))
    more = count(sum(sizes.values()), "question")
    return [f"Beside these, sets of their own hold {more} ({named}); they can be browsed too, and no score on this page includes them."]


def _leaders(found: Summary, inputs: Inputs) -> None:
    rows = board.standings(inputs)
    if not rows:
        return
    models = board.competing(rows)
    pairs = board.against(inputs, models[0]["model"]) if models else []
    found.leader = str((models or rows)[0].get("model") or "")
    found.leading.append(_leading(rows, pairs))
    first = models[0] if models else {}
    if len(models) > 1 and (ahead := _ahead(first, models[1], pairs)):
        found.leading.append(ahead)
    if len(models) > 1 and first.get("p_best") is not None:
        said = f"It comes out best in {number(first['p_best'], 1)} % of the resamples"
        if first.get("rank_low") is not None and first.get("rank_high") is not None:
            low, high = number(first["rank_low"], 0), number(first["rank_high"], 0)
            said += (
                f", and the interval of its rank is {low} to {high}" if low != high else f", and its rank is {low} in nearly all of them"
            )
        found.leading.append(said + ".")


def _ahead(first: dict, second: dict, pairs: Sequence[dict]) -> str:
    """Say how far the leader is ahead of the second, with the interval of their difference; empty where that was not tested."""
    for row in pairs:
        if {row["model_a"], row["model_b"]} == {first["model"], second["model"]} and None not in (row.get("low"), row.get("high")):
            turned = row["model_a"] == second["model"]
            gap, low, high = (-row["difference"], -row["high"], -row["low"]) if turned else (row["difference"], row["low"], row["high"])
            interval = f"{number(low, 1)} to {number(high, 1)}"
            return (
                f"It is {number(gap, 1)} points ahead of the second, {plain(second['model'], 60)} (interval of the difference: {interval})."
            )
    return ""


def _leading(rows: list[dict], pairs: Sequence[dict] = ()) -> str:
    """Say which model leads, how surely, and which others the tests of differences (or else its interval) do not set apart from it."""
    models = board.competing(rows)
    first, *others = models or rows
    said = f"an EvoGain of {number(first['evogain'], 1)}"
    which = board.believed(first)
    low, high = (first.get(f"{which}_{end}") for end in ("low", "high"))
    if low is not None and high is not None:
        resampled = {"cluster": "trajectories", "evogain": "items"}[which]
        warning = board.few(first.get("clusters")) if which == "cluster" else ""
        said += f" (interval over {resampled}: {number(low, 1)} to {number(high, 1)}{'; ' + warning if warning else ''})"
    name = plain(first.get("model"), 60)
    if not models:
        return f"Only built-in baselines answered; of them {name} scores highest, with {said}."
    near, how = board.tied(models, pairs)
    if near:
        names = [plain(row.get("model"), 60) for row in near[:TIES]] + ([f"{len(near) - TIES:,} more"] if len(near) > TIES else [])
        said += f"; {count(len(near), 'other model')} cannot be told apart from it {how}: {listed(names)}"
    elif others and (pairs or low is not None):
        said += ", clear of every other model"
    return f"{name} leads with {said}."


def _wrong(found: Summary, tables: dict[str, Table], combined: list[dict]) -> None:
    """Say how many audited verdicts were wrong, of each kind of verdict and of simulated trajectories apart from real ones."""
    table = tables.get("audit_verdicts")
    rows = [row for row in (table.rows if table else ()) if row.get("n") and row.get("wrong") is not None]
    whole = [row for row in rows if str(row.get("benchmark")).lower().split(" ")[0] == "all"] or (rows if len(rows) == 1 else [])
    for row in whole:
        released = str(row.get("released") or "fail")
        first, second = (
            ("efn", "rejected work that did the task") if released == "fail" else ("gf", "accepted work that did not do the task")
        )
        interval = ""
        if row.get("wrong_low") is not None and row.get("wrong_high") is not None:
            interval = f" (interval {number(row['wrong_low'], 1)} to {number(row['wrong_high'], 1)} %)"
        kind = ("simulated " if "simulated" in str(row["benchmark"]) else "") + f"{released.upper()} verdict"
        share = f"{number(row['wrong'], 1)} %"
        verb = "was" if row["n"] == 1 else "were"
        found.sentences.append(
            f"Of {count(row['n'], f'audited {kind}')}, {share} {verb} wrong{interval}: {number(row.get(first), 0)} {second}, "
            f"{number(row.get('broken'), 0)} belonged to broken tasks."
        )
        found.numbers.append((f"{kind}s wrong", share))
    if table and not table.n and table.empty and found.totals["sources"]:
        found.sentences.append(table.empty.replace("`", ""))
    waiting = sum(manifest["counts"]["others"].get("review", {}).get("dropped", {}).get("awaits_review", 0) for manifest in combined)
    if whole and waiting:
        found.sentences.append(f"This is provisional: {count(waiting, 'verdict')} chosen for review await people's labels.")
    found.totals["audited"] = sum(row["n"] for row in whole)


def _doubtful(found: Summary, inputs: Inputs, tables: dict[str, Table]) -> None:
    """Say how many verdicts should be looked at again, and whether ranks change once wrong ones are corrected."""
    scores = tables.get("corrected_scores")
    if doubts := distrust.doubts(inputs):
        found.sentences.append(doubts)
    told = [str(row["rank_change"]) for row in (scores.rows if scores else ()) if row.get("rank_change")]
    if scores and len(told) > 1 and len(scores.rows) == scores.n:
        said = (("changes", "changed"), ("not settled", "not settled"), ("holds", "as released"))
        words = [f"{told.count(word)} {'is' if told.count(word) == 1 else 'are'} {text}" for word, text in said if word in told]
        found.sentences.append(f"Of {len(told)} agents’ ranks, corrected for evaluator error, {listed(words)}.")


def _simulated(found: Summary, inputs: Inputs, tables: dict[str, Table]) -> None:
    flags = [row["simulated"] for row in load.rows(inputs.normalised, "trajectories", ("simulated",))]
    raters = [row["simulated"] for row in load.rows(inputs.judgments, "judgments", ("simulated",))]
    found.totals["simulated"] = any(flags) or any(raters) or any(table.simulated in ("all", "some") for table in tables.values())
    found.totals["simulated_trajectories"] = sum(flags)
    if not found.totals["simulated"]:
        return
    if flags and all(flags):
        found.simulated = "Every trajectory of this run is simulated."
    elif any(flags):
        found.simulated = f"{sum(flags):,} of {count(len(flags), 'trajectory', 'trajectories')} of this run are simulated."
    else:
        found.simulated = "Labels of simulated raters are part of this run."
    found.simulated += " The numbers test the method; they say nothing about any real model, agent or benchmark."
