"""The review set: what people label because the judges disagree, and a stratified share of where they agree."""

from collections import Counter, defaultdict

from evoaudit.streams import rank


def stratum(judgments: list[dict], n_judges: int) -> str:
    """Return ``missing``, ``verdict_disagree``, ``category_disagree`` or ``agree`` for one trajectory's judgments.

    A judgment without a verdict is missing, whatever its status: a judge that failed did not say FAIL.
    """
    verdicts = [row["verdict"] for row in judgments if row["verdict"]]
    if len(verdicts) < n_judges:
        return "missing"
    if len(set(verdicts)) > 1:
        return "verdict_disagree"
    if verdicts and verdicts[0] == "gf" and len({row["category"] for row in judgments}) > 1:
        return "category_disagree"
    return "agree"


def allocate(sizes: dict[tuple, int], n: int) -> dict[tuple, int]:
    """Share ``n`` over strata in proportion to their sizes by largest remainders; ties go by stratum name."""
    total = sum(sizes.values())
    n = min(n, total)
    if total == 0:
        return dict.fromkeys(sizes, 0)
    shares = {key: n * size // total for key, size in sizes.items()}
    left = n - sum(shares.values())
    for key in sorted(sizes, key=lambda key: (-(n * sizes[key] % total), key))[:left]:
        shares[key] += 1
    return shares


def review_set(frame: list[dict], judgments: list[list[dict]], *, agreements: int, seed: int) -> list[dict]:
    """Return a row for every analysed trajectory of ``frame``, selected or not.

    ``judgments`` holds one list a judge. With no judge at all everything is selected.
    """
    by_trajectory: dict[str, list[dict]] = defaultdict(list)
    for judge in judgments:
        for row in judge:
            by_trajectory[row["trajectory_id"]].append(row)
    rows = []
    strata: dict[tuple, list[str]] = defaultdict(list)
    for one in sorted(frame, key=lambda row: row["trajectory_id"]):
        given = by_trajectory[one["trajectory_id"]]
        kind = "missing" if not judgments else stratum(given, len(judgments))
        rows.append({"trajectory_id": one["trajectory_id"], "benchmark": one["benchmark"], "stratum": kind})
        if kind == "agree":
            strata[one["benchmark"] or "", given[0]["verdict"]].append(one["trajectory_id"])
    shares = allocate({key: len(members) for key, members in strata.items()}, agreements)
    drawn: dict[str, str] = {}
    for key, members in strata.items():
        for identity in sorted(members, key=lambda identity: (rank(seed, "review-draw", identity), identity))[: shares[key]]:
            drawn[identity] = f"{shares[key]} of {len(members)} agreements on {key[1]}" + (f" in {key[0]}" if key[0] else "")
    reasons = {
        "missing": "no judge" if not judgments else "a judge gave no verdict",
        "verdict_disagree": "the judges' verdicts differ",
        "category_disagree": "the judges' categories differ",
    }
    for row in rows:
        row["selected"] = row["stratum"] != "agree" or row["trajectory_id"] in drawn
        row["reason"] = reasons.get(row["stratum"]) or drawn.get(row["trajectory_id"], "agreement, not drawn")
    return rows


def counts(rows: list[dict]) -> dict[str, int]:
    """Count the strata."""
    return dict(sorted(Counter(row["stratum"] for row in rows).items()))
