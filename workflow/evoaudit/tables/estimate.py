"""The wrong-verdict rate as the whole design supports it: reviewed and unreviewed rows together, and judges corrected for their errors."""

from collections import Counter

import numpy as np

from evoaudit.audit.select import stratum
from evoaudit.stats import rogan_gladen, two_phase, unseen_upper
from evoaudit.stats.resample import FEW_CLUSTERS, interval
from evoaudit.tables.audit import CONTRADICTS, Audit, Rater, benchmark_order, no_audit
from evoaudit.tables.inputs import Empty

#: Rows that people called wrong, and rows that they called right, without which a judge's error rates are not known.
ENOUGH = 10
DISAGREE, AGREE, AGREE_WRONG, AGREE_RIGHT = "disagreement", "agreement", "agreement on wrong", "agreement on right"


def audit_estimate(audit: Audit) -> list[dict]:
    """Return every estimate of the share of wrong verdicts, by benchmark and over all."""
    if not audit.final:
        raise Empty(no_audit(audit.run))
    judges = [rater for rater in audit.primary if not rater.human]
    rows = []
    for released in ("fail", "pass"):
        chosen = [row for row in audit.final if row["released"] == released]
        for name, members in audit.pools(chosen, benchmark_order):
            whole = name.startswith("All")
            rows += _estimates(audit, released, name, members, judges, whole)
    return rows


def _estimates(audit: Audit, released: str, name: str, members: list[dict], judges: list[Rater], whole: bool) -> list[dict]:
    wrong = {row["trajectory_id"]: row["verdict"] in CONTRADICTS[released] for row in members}
    reviewed = {row["trajectory_id"] for row in members if row["reviewed"]}
    strata = _strata(list(wrong), judges, released)
    about = {
        "benchmark": name,
        "released": released,
        "n": len(members),
        "n_reviewed": len(reviewed),
        "simulated": any(row["simulated"] for row in members),
    }
    tasks = int(audit.clusters(list(wrong)).max()) + 1
    about["tasks"] = tasks
    rows = [
        {**about, "estimator": "final labels, all rows", **_share(audit, sum(wrong.values()), len(wrong)), "note": few(tasks, len(wrong))}
    ]
    if whole and 0 < len(reviewed) < len(wrong):
        rows.append(
            {
                **about,
                "n": len(reviewed),
                "estimator": "reviewed rows alone",
                **_share(audit, sum(wrong[one] for one in reviewed), len(reviewed)),
                "note": "holds the judges' disagreements before all, so it is no sample of the verdicts",
            }
        )
    rows.append({**about, "estimator": "two-phase", **_two_phase(audit, wrong, reviewed, strata)})
    for judge in (*judges, *audit.ensembles) if whole else ():
        said = {one: judge.labels[one]["verdict"] in CONTRADICTS[released] for one in wrong if one in judge.labels}
        if said:
            rows.append({**about, "n": len(said), "estimator": f"{judge.name}, as given", **_share(audit, sum(said.values()), len(said))})
            rows.append(
                {
                    **about,
                    "n": len(said),
                    "estimator": f"{judge.name}, corrected",
                    **_corrected(audit, judge.name, released, name, wrong, said, reviewed, strata),
                    "simulated": about["simulated"] or judge.simulated,
                }
            )
    return rows


def few(tasks: int, n: int) -> str | None:
    """Return the warning that goes with a share of few verdicts, or of few tasks."""
    if n < FEW_CLUSTERS:
        return f"few: {n} verdict{'s' if n != 1 else ''}"
    return f"few: {n} verdicts on {tasks} task{'s' if tasks != 1 else ''}, which fail together" if tasks < FEW_CLUSTERS else None


def _share(audit: Audit, k: int, n: int) -> dict:
    low, high = audit.wilson(k, n)
    return {"wrong": 100 * k / n if n else None, "wrong_low": low, "wrong_high": high}


def _strata(ids: list[str], judges: list[Rater], released: str) -> dict[str, str]:
    """Return each row's stratum by what the judges said before anybody reviewed."""
    found = {}
    for one in ids:
        given = [judge.labels[one] for judge in judges if one in judge.labels]
        if not given or stratum(given, len(judges)) != "agree":
            found[one] = DISAGREE
        else:
            found[one] = AGREE_WRONG if given[0]["verdict"] in CONTRADICTS[released] else AGREE_RIGHT
    return found


def _counted(wrong: dict[str, bool], reviewed: set[str], strata: dict[str, str]) -> dict[str, tuple[int, int, int]]:
    """Return stratum → (wrong among the reviewed, reviewed, rows); the strata of agreement are one where one was not reviewed."""
    sizes = Counter(strata.values())
    seen = Counter(strata[one] for one in reviewed)
    agreed = [name for name in (AGREE_WRONG, AGREE_RIGHT) if sizes[name]]
    merged = {name: AGREE if name in agreed and not all(seen[other] for other in agreed) else name for name in sizes}
    found: dict[str, list[int]] = {}
    for one, name in strata.items():
        cell = found.setdefault(merged[name], [0, 0, 0])
        cell[0] += one in reviewed and wrong[one]
        cell[1] += one in reviewed
        cell[2] += 1
    return {name: tuple(cell) for name, cell in sorted(found.items())}


def _two_phase(audit: Audit, wrong: dict[str, bool], reviewed: set[str], strata: dict[str, str]) -> dict:
    cells = _counted(wrong, reviewed, strata)
    unseen = len(wrong) - len(reviewed)
    told = "; ".join(f"{name}: {a} wrong of {b} reviewed of {c}" for name, (a, b, c) in cells.items())
    notes, thin = [], []
    for name, (_, seen, size) in cells.items():
        if not seen:
            return {"unseen": unseen, "strata": told, "note": f"none of the {size} rows of the stratum '{name}' was reviewed"}
        if name == DISAGREE and seen < size:
            notes.append(f"{size - seen} of {size} disagreements await review; the others are taken to stand for them")
        elif seen < min(size, ENOUGH):
            thin.append(f"{seen} for {size} of '{name}'")
    notes += [f"few reviewed: {', '.join(thin)}"] if thin else []
    k, n, sizes = zip(*cells.values(), strict=True)
    share, low, high = two_phase(k, n, sizes, audit.run.confidence)
    # The bound for one stratum alone; over several, the sum of bounds holds too, only more cautiously.
    most = sum(unseen_upper(a, b, c, audit.run.confidence) or 0 for a, b, c in cells.values() if b < c)
    return {
        "wrong": 100 * share,
        "wrong_low": 100 * low,
        "wrong_high": 100 * high,
        "unseen": unseen,
        "unseen_wrong_most": most if unseen else 0,
        "strata": told,
        "note": "; ".join(notes) or None,
    }


def _corrected(
    audit: Audit,
    judge: str,
    released: str,
    pool: str,
    wrong: dict[str, bool],
    said: dict[str, bool],
    reviewed: set[str],
    strata: dict[str, str],
) -> dict:
    """Return the judge's rate corrected for the errors people found, or why it cannot be corrected.

    Reviewed rows weigh as many rows of their stratum as they stand for, since disagreements were all reviewed and agreements
    were not.
    """
    checked = sorted(one for one in reviewed if one in said)
    truly = sum(wrong[one] for one in checked)
    if not checked:
        return {"note": "not corrected: nobody reviewed a row of this judge"}
    sizes, seen = Counter(strata[one] for one in said), Counter(strata[one] for one in checked)
    if missing := sorted(name for name in sizes if not seen[name]):
        return {"note": f"not corrected: no row of the stratum '{missing[0]}' was reviewed, so the reviewed ones are no sample of all"}
    for n, what in ((truly, "wrong"), (len(checked) - truly, "right")):
        if n < ENOUGH:
            return {"note": f"not corrected: people called {n} rows {what}, too few to know how this judge errs on them"}
    weight = np.array([sizes[strata[one]] / seen[strata[one]] for one in checked])
    truth, given = (np.array([column[one] for one in checked], float) for column in (wrong, said))
    apparent = sum(said.values()) / len(said)

    def rates(times: np.ndarray) -> tuple[float, float]:
        held = weight * times
        right = held * (1 - truth)
        return float((held * truth) @ given / (held @ truth)), float(right @ (1 - given) / right.sum())

    sensitivity, specificity = rates(np.ones(len(checked)))
    found = {"sensitivity": 100 * sensitivity, "specificity": 100 * specificity}
    value = rogan_gladen(apparent, sensitivity, specificity)
    if value is None:
        return {**found, "note": "not corrected: sensitivity and specificity add up to no more than chance"}
    if not 0 <= value <= 1:
        return {**found, "note": f"not corrected: the formula gives {100 * value:.1f} %, which is no share"}
    groups = [np.flatnonzero(np.array([strata[one] for one in checked]) == name) for name in sorted(seen)]
    rng, draws = audit.run.rng("judge-correction", judge, released, pool), []
    for _ in range(audit.run.resamples):
        times = np.zeros(len(checked))
        for group in groups:
            times += np.bincount(rng.choice(group, len(group)), minlength=len(checked))
        if 0 < times @ truth < times.sum():
            draw = rogan_gladen(rng.binomial(len(said), apparent) / len(said), *rates(times))
            draws.append(np.nan if draw is None else min(1.0, max(0.0, draw)))
    low, high = interval(np.array(draws, float), audit.run.confidence)
    return {
        **found,
        "wrong": 100 * value,
        "wrong_low": None if low is None else 100 * low,
        "wrong_high": None if high is None else 100 * high,
        "note": "takes the reviewed labels for the truth",
    }
