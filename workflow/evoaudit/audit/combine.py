"""Final labels from many raters (audit paper, §4.2), each with the rule it came by."""

from collections import Counter
from dataclasses import dataclass, field

from evoaudit.audit.select import stratum
from evoaudit.codebook import load as book
from evoaudit.errors import InputError

TIES = ("unclear", "judges", "gf")
CATEGORY_TIES = ("ambiguous", "judges", "earliest")
#: What adjudicated labels may do.
ADJUDICATIONS = ("decides", "apart")
#: Name of the rule that an adjudicated label is the final word.
ADJUDICATION = "adjudication"


@dataclass(slots=True)
class Votes:
    """What the raters that count said about one trajectory: annotator → label."""

    judges: dict[str, dict] = field(default_factory=dict)
    humans: dict[str, dict] = field(default_factory=dict)
    #: Labels given in adjudication, which saw the others: no votes, but the final word. All give one verdict.
    adjudicated: dict[str, dict] = field(default_factory=dict)

    @property
    def raters(self) -> list[dict]:
        return [*self.judges.values(), *self.humans.values()]


def read_judgments(manifests: list[str]) -> list[list[dict]]:
    """Read every judge's judgments, a list a judge; two folders of one judge are refused."""
    from evoaudit.stages.common import folder_of
    from evoaudit.store import read_rows

    found, names = [], {}
    for manifest in manifests:
        rows = read_rows(folder_of(manifest), "judgments")
        for name in sorted({row["annotator"] for row in rows}):
            if name in names:
                raise InputError(manifest, f"judge '{name}' is also in {names[name]}", "give every judge its own name")
            names[name] = manifest
        found.append(rows)
    return found


def verdict(votes: Votes, tie: str) -> tuple[str, str] | None:
    """Return (verdict, rule) for one trajectory, None if nobody gave a verdict.

    An adjudicated label decides. Where people reviewed: their agreement decides, else the majority of all raters. Elsewhere: the
    judges' consensus. The paper has no rule for ties; ``tie`` names it.
    """
    for row in votes.adjudicated.values():
        return row["verdict"], ADJUDICATION
    return _decide([row["verdict"] for row in votes.judges.values()], [row["verdict"] for row in votes.humans.values()], tie, "unclear")


def category(votes: Votes, tie: str = "ambiguous") -> tuple[str | None, str]:
    """Return (category, rule) for a final ``gf``, from the adjudicated label if it names one, else from the raters who said ``gf``.

    ``tie`` names what becomes of ties: ``ambiguous``, the ``judges``' category if they agree, or that of the ``earliest`` tier among
    the tied, since the boundary rule asks for the earliest decisive failure; two of one tier stay ambiguous.
    """
    settled = {row["category"] for row in votes.adjudicated.values() if row["category"]}
    if len(settled) == 1:
        return settled.pop(), ADJUDICATION
    judges = [row["category"] for row in votes.judges.values() if row["verdict"] == "gf" and row["category"]]
    humans = [row["category"] for row in votes.humans.values() if row["verdict"] == "gf" and row["category"]]
    found = _decide(judges, humans, "judges" if tie == "judges" else "ambiguous", "ambiguous") or (None, "missing")
    return (_earliest([*judges, *humans]), "tie") if tie == "earliest" and found[1] == "tie" else found


def _earliest(given: list[str]) -> str:
    """Return the category of the earliest tier among the most named, ``ambiguous`` if there is none or it holds several."""
    ranked = Counter(given)
    tied = [code for code, n in ranked.items() if n == max(ranked.values())]
    tiers = {code: book().tier_of(code) for code in tied}
    first = min((tier for tier in tiers.values() if tier), default=None)
    held = [code for code in tied if tiers[code] == first]
    return held[0] if first and len(held) == 1 else "ambiguous"


def _decide(judges: list[str], humans: list[str], tie: str, undecided: str) -> tuple[str, str] | None:
    if not judges and not humans:
        return None
    if len(humans) > 1 and len(set(humans)) == 1:
        return humans[0], "human_agreement"
    if not humans and len(set(judges)) == 1:
        return judges[0], "judges"
    ranked = Counter([*judges, *humans]).most_common()
    if len(ranked) == 1 or ranked[0][1] > ranked[1][1]:
        return ranked[0][0], "majority"
    if tie == "judges":
        return (judges[0] if len(set(judges)) == 1 else undecided), "tie"
    return tie, "tie"


def combine(frame: list[dict], votes: dict[str, Votes], *, tie: str, category_tie: str = "ambiguous") -> tuple[list[dict], list[str]]:
    """Return the final rows of the analysed trajectories and the ids nobody labelled."""
    rows, unlabelled = [], []
    for one in sorted(frame, key=lambda row: row["trajectory_id"]):
        cast = votes.get(one["trajectory_id"], Votes())
        decided = verdict(cast, tie)
        if decided is None:
            unlabelled.append(one["trajectory_id"])
            continue
        found, rule = category(cast, category_tie) if decided[0] == "gf" else (None, None)
        rows.append(
            {
                "trajectory_id": one["trajectory_id"],
                "benchmark": one["benchmark"],
                "agent": one["agent"],
                "task_id": one["task_id"],
                "verdict": decided[0],
                "category": found,
                "verdict_rule": decided[1],
                "category_rule": rule,
                "reviewed": bool(cast.humans or cast.adjudicated),
                "n_raters": len(cast.raters),
                "simulated": bool(one["simulated"]) or any(row["simulated"] for row in (*cast.raters, *cast.adjudicated.values())),
            }
        )
    return rows, unlabelled


def count(
    labels: list[dict], frame: list[dict], groups: list[str], review: set[str] | None = None, adjudication: bool = True
) -> tuple[dict[str, Votes], list[tuple[dict, str]]]:
    """Return the votes that count, and every label that does not with the reason.

    ``groups`` are the human annotators that count; none named means all of them. Simulated people label everything;
    ``review`` is what they would have been shown. With ``adjudication`` people's adjudicated labels are taken; those of one
    trajectory that give different verdicts decide nothing.
    """
    status = {row["trajectory_id"]: row["status"] for row in frame}
    votes: dict[str, Votes] = {}
    left_out: list[tuple[dict, str]] = []
    for row in labels:
        identity = row["trajectory_id"]
        if row.get("practice"):
            reason = "calibration"
        elif status.get(identity) != "analysed":
            reason = "calibration" if status.get(identity) == "calibration" else "not_in_sample"
        elif row["stage"] == "adjudicated" and row["kind"] == "human" and row["verdict"] and adjudication:
            votes.setdefault(identity, Votes()).adjudicated[row["annotator"]] = row
            continue
        elif row["stage"] != "blind":
            reason = row["stage"]
        elif not row["verdict"]:
            reason = "no_verdict"
        elif row["kind"] == "human" and groups and row["annotator"] not in groups:
            reason = "group_not_configured"
        elif row["kind"] == "human" and row["simulated"] and review is not None and identity not in review:
            reason = "not_in_review_set"
        else:
            cast = votes.setdefault(identity, Votes())
            (cast.humans if row["kind"] == "human" else cast.judges)[row["annotator"]] = row
            continue
        left_out.append((row, reason))
    for cast in votes.values():
        if len({row["verdict"] for row in cast.adjudicated.values()}) > 1:
            left_out += [(row, "adjudicators_differ") for row in cast.adjudicated.values()]
            cast.adjudicated = {}
    return votes, left_out


def settled(given: list[dict]) -> set[str]:
    """Return the trajectories on which all judges of label files, two or more, agree: nobody has to review those."""
    cast: dict[str, list[dict]] = {}
    for row in given:
        if row["kind"] == "llm" and row["stage"] == "blind":
            cast.setdefault(row["trajectory_id"], []).append(row)
    judges = len({row["annotator"] for rows in cast.values() for row in rows})
    return {one for one, rows in cast.items() if judges > 1 and stratum(rows, judges) == "agree"}
