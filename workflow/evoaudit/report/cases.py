"""Example trajectories of the audit: what the agent did, what raters said, what rules found."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from evoaudit.audit.judges import ENSEMBLE
from evoaudit.places import trajectory_page
from evoaudit.report import layout, load
from evoaudit.report.examples import TEXT, Frame, spread
from evoaudit.report.load import Inputs
from evoaudit.report.words import count, number, plain
from evoaudit.screens import is_place
from evoaudit.streams import rank

#: Screens of one trajectory that are shown.
FRAMES = 8
#: What the built-in rater is.
RULES = "built-in rules, no model"
#: Characters of the goal that head a trajectory.
TITLE = 200


@dataclass
class Shot:
    """One step of a trajectory."""

    step: int
    action: str
    reasoning: str
    error: str
    change: str
    frame: Frame
    evidence: bool


@dataclass
class Label:
    """What one rater, or the combination of all, said."""

    who: str
    verdict: str
    category: str
    confidence: str
    note: str
    simulated: bool
    #: What a rater is, or why the label does not count.
    told: str = ""


@dataclass
class Case:
    """One audited trajectory."""

    id: str
    title: str
    facts: list[tuple[str, str]]
    verdict: str
    verdict_words: str
    labels: list[Label]
    signals: list[str]
    shots: list[Shot | int]
    end: Frame | None
    planted: str
    simulated: bool
    #: Address of its own page, from the run's folder; empty where it has none.
    page: str = ""


def cases(inputs: Inputs, limit: int, seed: int, paged: Collection[str] = ()) -> tuple[list[Case], int]:
    """Choose audited trajectories, wrong verdicts first, and return them with how many were audited; ``paged`` have a page of their own."""
    if limit < 1 or not load.has(inputs.sample, "sample"):
        return [], 0
    drawn = [row for row in load.rows([inputs.sample], "sample") if row["status"] == "analysed"]
    final = {row["trajectory_id"]: row for row in load.rows([inputs.final], "final")} if load.has(inputs.final, "final") else {}
    order = ["efn", "broken", "unclear", "gf"]

    def group(row: dict) -> tuple[int, str]:
        found = final.get(row["trajectory_id"])
        if found is None:
            return len(order), ""
        place = order.index(found["verdict"]) if found["verdict"] in order else len(order)
        return place, (found["category"] or "") if found["verdict"] == "gf" else ""

    chosen = spread(drawn, group, lambda row: (rank(seed, "report-cases", row["trajectory_id"]), row["trajectory_id"]), limit)
    made = told(inputs, chosen)
    for row, case in zip(chosen, made, strict=True):
        case.page = trajectory_page(row["trajectory_id"]) if row["trajectory_id"] in paged else ""
    return made, len(drawn)


def told(inputs: Inputs, chosen: list[dict], frames: int = FRAMES) -> list[Case]:
    """Return what the run knows of the ``chosen`` rows of the sample, or of trajectories, with at most ``frames`` screens each."""
    ids = {row["trajectory_id"] for row in chosen}
    final = (
        {row["trajectory_id"]: row for row in load.rows([inputs.final], "final", trajectory_id=ids)}
        if load.has(inputs.final, "final")
        else {}
    )
    facts = {row["trajectory_id"]: row for row in load.rows(inputs.normalised, "trajectories", trajectory_id=ids)}
    planted = {row["trajectory_id"]: row for row in load.rows(inputs.normalised, "truth", trajectory_id=ids)}
    oracles = _grouped(load.rows(inputs.normalised, "oracle_results", trajectory_id=ids))
    steps = _grouped(load.rows(inputs.normalised, "steps", trajectory_id=ids))
    changes = {
        (row["trajectory_id"], row["step"]): row
        for row in load.rows(
            inputs.normalised, "changes", ("trajectory_id", "step", "state", "changed_tiles", "tiles_x", "tiles_y"), trajectory_id=ids
        )
    }
    judgments = _grouped(load.rows(inputs.judgments, "judgments", trajectory_id=ids))
    labels = _grouped(load.rows([inputs.final], "labels", trajectory_id=ids)) if load.has(inputs.final, "labels") else {}
    signals = (
        _grouped(row for row in load.rows([inputs.signals], "signals", trajectory_id=ids) if row["fired"])
        if load.has(inputs.signals, "signals")
        else {}
    )
    made = []
    for row in chosen:
        id = row["trajectory_id"]
        made.append(
            _case(
                row,
                final.get(id),
                facts.get(id),
                planted.get(id),
                oracles.get(id, []),
                sorted(steps.get(id, []), key=lambda s: s["step"]),
                changes,
                [*judgments.get(id, []), *_by_people(labels.get(id, []), judgments.get(id, []))],
                signals.get(id, []),
                frames,
            )
        )
    return made


def pictures(made: Iterable[Case]) -> set[str]:
    """Return the pictures that cases show."""
    found = {shot.frame.picture for case in made for shot in case.shots if isinstance(shot, Shot)}
    found |= {case.end.picture for case in made if case.end}
    return {name for name in found if name}


def _grouped(rows: Iterable[dict]) -> dict[str, list[dict]]:
    found: dict[str, list[dict]] = defaultdict(list)
    for row in rows:
        found[row["trajectory_id"]].append(row)
    return found


def _by_people(labels: list[dict], judgments: list[dict]) -> list[dict]:
    """Return the labels of those who are no judge of this run, as if they were judgments."""
    judges = {judged["annotator"] for judged in judgments}
    rest = {"judge_id": "", "status": "ok", "rationale": None}
    return [{**label, **rest, "evidence": f"{label['kind']}, {label['stage']}"} for label in labels if label["annotator"] not in judges]


def verdict_words(verdict: str | None, category: str | None) -> str:
    """Write a verdict and its category in words."""
    if not verdict:
        return "no verdict"
    words = layout.VERDICTS.get(verdict, plain(verdict, 40))
    return f"{words}: {category_words(category)}" if category else words


def category_words(category: str | None) -> str:
    """Write a failure category as its code and its meaning."""
    if not category:
        return ""
    words = layout.CATEGORIES.get(category)
    return f"{words} ({category.upper()})" if words and "-" in category else words or plain(category, 40)


def _case(
    row: dict,
    final: dict | None,
    facts: dict | None,
    planted: dict | None,
    oracles: list[dict],
    steps: list[dict],
    changes: dict,
    judgments: list[dict],
    signals: list[dict],
    frames: int,
) -> Case:
    facts = facts or {}
    verdict, category = (final["verdict"], final["category"]) if final else ("", None)
    evidence = {step for given in (*judgments, *signals) for step in given["evidence_steps"] or () if step is not None}
    goal = plain(facts.get("instruction") or row["trajectory_id"], TEXT)
    told = [
        ("Goal", goal if len(goal) > TITLE else None),
        ("Benchmark", row["benchmark"]),
        ("Agent", row["agent"]),
        ("Task", row["task_id"]),
        ("Released verdict", _released(oracles) or row.get("verdict")),
        ("Final answer", facts.get("answer")),
        ("Reference", facts.get("reference")),
    ]
    last = steps[-1]["after_image"] if steps else None
    return Case(
        id=plain(row["trajectory_id"], 160),
        title=plain(goal, TITLE),
        facts=[(name, plain(value, TEXT)) for name, value in told if value not in (None, "")],
        verdict=verdict,
        verdict_words=verdict_words(verdict, category),
        labels=_labels(final, judgments),
        signals=_signals(signals),
        shots=_shots(steps, changes, evidence, frames),
        end=Frame(last, "at the end", "Screen after the last step") if last else None,
        planted=_planted(planted) if planted else "",
        simulated=row["simulated"],
    )


def _released(oracles: list[dict]) -> str:
    """Say what the benchmark's own checkers decided."""
    said = []
    for oracle in sorted(oracles, key=lambda oracle: oracle["oracle"]):
        words = f"{plain(oracle['verdict'], 20)} by the checker {plain(oracle['oracle'], 60)}"
        words += f", reward {number(oracle['raw_reward'])}" if oracle["raw_reward"] is not None else ""
        said.append(words + (f" ({plain(oracle['status'], 80)})" if oracle["status"] != "ok" else ""))
    return "; ".join(said)


def _labels(final: dict | None, judgments: list[dict]) -> list[Label]:
    made = []
    if final:
        rule = f"by {plain(final['verdict_rule'], 40).replace('_', ' ')}, {count(final['n_raters'], 'rater')}"
        made.append(Label("final", verdict_words(final["verdict"], None), category_words(final["category"]), "", rule, final["simulated"]))
    ordered = sorted(judgments, key=lambda judged: (judged["annotator"], judged["evidence"], judged["judge_id"]))
    apart = _apart(final, ordered)
    for place, judged in enumerate(ordered):
        sound = judged["status"] == "ok"
        made.append(
            Label(
                who=f"{plain(judged['annotator'], 60)} ({plain(judged['evidence'], 40).replace('+', ' and ')})",
                verdict=verdict_words(judged["verdict"], None) if sound else plain(judged["status"], 40).replace("_", " "),
                category=category_words(judged["category"]),
                confidence=number(judged["confidence"], 2),
                note=plain(judged["rationale"] or judged["note"] or "", TEXT),
                simulated=judged["simulated"],
                told="; ".join(filter(None, (RULES if judged["kind"] == "rules" else "", apart.get(place, "")))),
            )
        )
    return made


def _apart(final: dict | None, judgments: list[dict]) -> dict[int, str]:
    """Return place → why a label had no part in the final one; nothing where that does not leave as many raters as it had."""
    if final is None:
        return {}
    seeing = {judged["annotator"] for judged in judgments if "screenshots" in judged["evidence"]}
    found = {}
    for place, judged in enumerate(judgments):
        if judged["kind"] == ENSEMBLE:
            found[place] = "not counted: speaks for other judges"
        elif judged["kind"] == "human" and not final["reviewed"]:
            found[place] = "not counted: outside what people were shown for review"
        elif judged["kind"] != "human" and judged["annotator"] in seeing and "screenshots" not in judged["evidence"]:
            found[place] = "not counted: asked without screenshots, to compare"
        elif judged["status"] != "ok":
            found[place] = "not counted: gave no label"
    return found if len(judgments) - len(found) == final["n_raters"] else {}


def _signals(signals: list[dict]) -> list[str]:
    """Say which signals fired; of one at several run lengths, the longest says all."""
    longest = {signal["signal"]: signal for signal in sorted(signals, key=lambda signal: (signal["signal"], signal["parameter"]))}
    made = []
    for name, signal in sorted(longest.items()):
        words = layout.SIGNALS.get(name, plain(name, 60))
        words += f", {count(signal['parameter'], 'time')}" if signal["parameter"] else ""
        made.append(words + (f": {plain(signal['detail'], 160)}" if signal["detail"] else ""))
    return made


def _planted(planted: dict) -> str:
    words = f"{plain(planted['planted'], 60)} ({verdict_words(planted['outcome'], planted['category'])})"
    words += f"; shows at step {planted['evidence_step']}" if planted["evidence_step"] is not None else ""
    return words + (f"; look-alike beside it: {plain(planted['lookalike'], 60)}" if planted["lookalike"] else "")


def _shots(steps: list[dict], changes: dict, evidence: set[int], frames: int) -> list[Shot | int]:
    """Choose the steps that are shown, evidence and both ends first; a number stands for steps left out."""
    places = range(len(steps))
    wanted = [0, len(steps) - 1, *(i for i in places if steps[i]["step"] in evidence), len(steps) - 2, *places]
    shown = sorted(set(list(dict.fromkeys(i for i in wanted if 0 <= i < len(steps)))[:frames]))
    made: list[Shot | int] = []
    last = -1
    for i in [*shown, len(steps)]:
        if i - last > 1:
            made.append(i - last - 1)
        if i < len(steps):
            made.append(_shot(steps[i], changes.get((steps[i]["trajectory_id"], steps[i]["step"])), steps[i]["step"] in evidence))
        last = i
    return made


def _shot(step: dict, change: dict | None, evidence: bool) -> Shot:
    words = ""
    if change:
        words = {"same": "nothing changed", "unknown": "change unknown"}.get(change["state"], "")
        if not words and change["changed_tiles"] is not None and change["tiles_x"] and change["tiles_y"]:
            share = 100 * change["changed_tiles"] / (change["tiles_x"] * change["tiles_y"])
            words = "under 1 % of the screen changed" if share < 1 else f"{share:.0f} % of the screen changed"
    number_ = step["step"]
    return Shot(
        number_,
        action_words(step),
        plain(step["reasoning"] or "", TEXT),
        plain(step["error"] or "", TEXT),
        words,
        Frame(step["before_image"], f"step {number_}", f"Screen before step {number_}"),
        evidence,
    )


def action_words(step: dict) -> str:
    """Write an action as its verb, its target and its value."""
    target = (step["target"] or {}).get("text")
    words = plain(step["op"], 40).replace("_", " ")
    if target:
        words += f" “{plain(target, 80)}”"
    elif step["target"] and is_place((step["target"].get("x"), step["target"].get("y"))):
        words += f" at {number(step['target']['x'], 0)}, {number(step['target']['y'], 0)}"
    return words + (f": {plain(step['value'], 120)}" if step["value"] else "")
