"""Verdicts that a maintainer should look at again, the surest first, each with what speaks against it and where to see it."""

from collections import Counter
from dataclasses import dataclass, field

from evoaudit.audit.signals import LAST_PAGE
from evoaudit.places import PAGES, trajectory_page
from evoaudit.tables.audit import CONTRADICTS, SIGNALS, VERDICTS, Audit, benchmark_order, no_audit
from evoaudit.tables.inputs import Empty

#: What a suspicion rests on, the surest first.
GROUNDS = ("people", "judges", "unclear", "one rater", "signal", "crashed checker")
#: Signal → what it says, for people.
SAID = {
    "challenge_page": "stopped by a challenge page",
    "environment_error": "the environment failed",
    "answer_matches": "the answer equals the reference",
    "state_matches": "the last page shows the state asked for",
    "evaluator_error": "the checker crashed",
}
LABELS = {"gf": "genuine failure", "efn": "evaluator false negative", "broken": "broken task", "unclear": "unclear"}
RULES = {
    "adjudication": "adjudicated",
    "human_agreement": "people agree",
    "majority": "majority of raters",
    "judges": "judges agree",
    "tie": "a tie",
}


def rule_words(final: dict) -> str:
    """Say how a final label came about."""
    if final["n_raters"] == 1 and final["verdict_rule"] != "adjudication":
        return "one person alone" if final["reviewed"] else "one judge alone"
    return RULES.get(final["verdict_rule"], final["verdict_rule"])


@dataclass
class _Case:
    """What is known of one trajectory with a released verdict."""

    released: str
    final: dict | None = None
    votes: list[dict] = field(default_factory=list)
    signals: list[dict] = field(default_factory=list)


def suspects(audit: Audit) -> list[dict]:
    """Return a row for every released verdict that a label, a rater or a signal speaks against."""
    cases = _cases(audit)
    found = [(one, grounds, case) for one, case in sorted(cases.items()) if (grounds := _grounds(case)) is not None]
    if not found:
        raise Empty(_nothing(audit, cases))
    attempts = Counter(audit.task(one) for one in cases)
    suspected = Counter(audit.task(one) for one, _, _ in found)
    rows = [_row(audit, one, grounds, case, attempts, suspected) for one, grounds, case in found]
    rows.sort(
        key=lambda row: (
            GROUNDS.index(row["grounds"]),
            -(row["n_against"] or 0),
            benchmark_order(row["benchmark"] or ""),
            row["task_id"] or "",
            row["trajectory_id"],
        )
    )
    seen = _with_steps(audit)
    for row in [row for row in rows if row["trajectory_id"] in seen][:PAGES]:
        row["page"] = trajectory_page(row["trajectory_id"])
    return rows


def _nothing(audit: Audit, cases: dict[str, _Case]) -> str:
    """Say why no verdict is listed; that there was none to check is no clean bill of health."""
    if not cases:
        return no_audit(audit.run)
    audited = sum(case.final is not None for case in cases.values())
    verdicts = f"{len(cases):,} released verdict{'' if len(cases) == 1 else 's'}"
    return f"No rater and no signal speaks against any of {verdicts}; {audited:,} of them {'was' if audited == 1 else 'were'} audited."


def _with_steps(audit: Audit) -> set[str]:
    """Return the trajectories that are at hand, and not only named by a frame."""
    return {row["trajectory_id"] for row in audit.run.rows(audit.run.folders.normalised, "trajectories", ["trajectory_id"])}


def _cases(audit: Audit) -> dict[str, _Case]:
    released = audit.run.released
    cases = {one: _Case(verdict) for one, verdict in released.items() if verdict in ("pass", "fail", "error")}
    for row in audit.run.rows(audit.run.folders.final, "final"):
        cases.setdefault(row["trajectory_id"], _Case(released.get(row["trajectory_id"], "fail"))).final = row
    for rater in audit.primary:
        for one, label in rater.labels.items():
            if one in cases:
                cases[one].votes.append(label)
    columns = ["trajectory_id", "signal", "parameter", "fired", "evidence_steps", "detail"]
    signals = audit.run.table(audit.run.folders.signals, "signals", columns)
    for row in signals.filter(signals["fired"]).to_pylist():
        if row["trajectory_id"] in cases and _speaks(row, cases[row["trajectory_id"]].released):
            cases[row["trajectory_id"]].signals.append(row)
    return cases


def _speaks(signal: dict, released: str) -> bool:
    """Say whether a signal that fired speaks against a released verdict; a wall that a PASS got past does not."""
    if signal["signal"] == "evaluator_error":
        return released == "error"
    if released == "pass" and signal["detail"] != LAST_PAGE:
        return False
    return SIGNALS.get(signal["signal"]) in CONTRADICTS.get(released, ())


def _grounds(case: _Case) -> str | None:
    against = CONTRADICTS.get(case.released, set())
    if case.final is not None and case.final["verdict"] in against:
        return "people" if case.final["reviewed"] else "judges"
    if case.final is not None and case.final["verdict"] == "unclear":
        return "unclear"
    if any(label["verdict"] in against for label in case.votes):
        return "one rater"
    # Once people have looked and found the verdict right, a signal alone says no more.
    if not case.signals or (case.final is not None and case.final["reviewed"]):
        return None
    return "crashed checker" if case.released == "error" else "signal"


def _row(audit: Audit, one: str, grounds: str, case: _Case, attempts: Counter, suspected: Counter) -> dict:
    known = audit.run.trajectories.get(one)
    against = CONTRADICTS.get(case.released, set())
    objecting = [label for label in case.votes if label["verdict"] in against]
    sure = [label["confidence"] for label in objecting if label["confidence"] is not None]
    steps = {step for given in (*(objecting or case.votes), *case.signals) for step in given["evidence_steps"] or () if step is not None}
    votes = Counter(label["verdict"] for label in case.votes)
    final = case.final
    return {
        "grounds": grounds,
        "benchmark": known.benchmark if known else final and final["benchmark"],
        "task_id": known.task_id if known else final and final["task_id"],
        "agent": known.agent if known else final and final["agent"],
        "released": case.released,
        "label": final and LABELS[final["verdict"]],
        "why": "; ".join(_why(case, objecting)),
        "steps": ", ".join(map(str, sorted(steps))) or None,
        "page": None,
        "trajectory_id": one,
        "votes": ", ".join(f"{votes[verdict]} {verdict}" for verdict in VERDICTS if votes[verdict]) or None,
        "n_against": len(objecting),
        "n_raters": len(case.votes),
        "confidence": sum(sorted(sure)) / len(sure) if sure else None,
        "rule": final and rule_words(final),
        "reviewed": final["reviewed"] if final else None,
        "task_attempts": attempts[audit.task(one)],
        "task_suspects": suspected[audit.task(one)],
        "simulated": bool(known and known.simulated)
        or bool(final and final["simulated"])
        or any(label["simulated"] for label in case.votes),
    }


def _why(case: _Case, objecting: list[dict]) -> list[str]:
    told = []
    if case.final is not None:
        told.append(rule_words(case.final) + (": unclear" if case.final["verdict"] == "unclear" else ""))
    if len(case.votes) > 1:
        told.append(f"{len(objecting)} of {len(case.votes)} raters against the verdict")
    for name, words in SAID.items():
        if given := [row for row in case.signals if row["signal"] == name]:
            told.append(words + (f" ({given[0]['detail']})" if given[0]["detail"] else ""))
    return told
