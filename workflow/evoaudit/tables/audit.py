"""The audit tables: verdicts, diagnoses, agreement, ablation, the no-op probe, and scores corrected for evaluator error."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from evoaudit.audit.judges import ENSEMBLE
from evoaudit.codebook import load as codebook
from evoaudit.sources.base import JUDGE
from evoaudit.stats import cohen_kappa, freeman_halton_exact_p, goodman_simultaneous_ci, gwet_ac1, krippendorff_alpha_nominal, wilson_ci
from evoaudit.stats.agreement import cohen_kappas, contingency, fleiss_kappas, gwet_ac1s, krippendorff_alphas, raw_agreements
from evoaudit.stats.resample import FEW_CLUSTERS, interval, limits, pattern_draws, rank_draws
from evoaudit.tables.inputs import Empty, Run, codes, grouped, numbers
from evoaudit.tables.literature import published

VERDICTS = ("gf", "efn", "broken", "unclear")
#: Released verdict → audit verdicts that contradict it.
CONTRADICTS = {"fail": {"efn", "broken"}, "pass": {"gf", "broken"}}
ASKED = "(`audit` in the config, with judges or labels, asks for that)"
NO_AUDIT = f"No verdict was audited in this run {ASKED}."
OUTSIDE = "outside the tiers"
#: Signal → the label it argues for.
SIGNALS = {
    "noop_run": "t3-noop",
    "cycle": "t1-loop",
    "challenge_page": "broken",
    "environment_error": "broken",
    "answer_matches": "efn",
    "state_matches": "efn",
}
#: What the evidence ablation counts.
ABLATED = ("flips", "efn_with", "efn_without")
NOOP_RULES = ("noop_run", "noop_any", "cycle")
#: Repetitions of an action at which the baseline that sees no screen fires.
REPEATED = 3


@dataclass(frozen=True)
class Rater:
    """One annotator's labels by trajectory, under one kind of evidence."""

    name: str
    human: bool
    evidence: str
    labels: dict[str, dict]
    simulated: bool
    #: Whether it speaks for other raters and so is none of its own.
    ensemble: bool = False


def _share(k: float, n: float) -> float | None:
    return 100 * k / n if n else None


class Audit:
    """The labels of a run, and the final verdicts."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @cached_property
    def final(self) -> list[dict]:
        rows = self.run.rows(self.run.folders.final, "final")
        if not rows:
            raise Empty(no_audit(self.run))
        return [{**row, "released": self.run.released.get(row["trajectory_id"], "fail")} for row in rows]

    @cached_property
    def analysed(self) -> set[str] | None:
        """Trajectories of the sample that count; None if there is no sample to say."""
        rows = self.run.rows(self.run.folders.sample, "sample", ["trajectory_id", "status"])
        return {row["trajectory_id"] for row in rows if row["status"] == "analysed"} if rows else None

    @cached_property
    def raters(self) -> list[Rater]:
        """Everyone's blind labels: judges as configured, then the others by name; each kind of evidence on its own."""
        found: dict[tuple[str, str], dict[str, dict]] = {}
        for row in self.run.rows(self.run.folders.judgments, "judgments"):
            if row["status"] == "ok" and row["verdict"] and row["stage"] == "blind":
                found.setdefault((row["annotator"], row["evidence"]), {})[row["trajectory_id"]] = row
        judged = {name for name, _ in found}
        shown = {(row["trajectory_id"], row["annotator"]) for row in self._labels}
        for row in self._labels:
            if row["stage"] == "blind" and row["verdict"] and row["annotator"] not in judged:
                found.setdefault((row["annotator"], ""), {})[row["trajectory_id"]] = row
        configured = [judge["name"] for judge in self.run.settings.get("judges") or ()]
        raters = []
        for (name, evidence), labels in found.items():
            human = any(row["kind"] == "human" for row in labels.values())
            if human and shown and name in judged:  # simulated people label everything; only what they were shown counts
                labels = {one: row for one, row in labels.items() if (one, name) in shown}
            if self.analysed is not None:
                labels = {one: row for one, row in labels.items() if one in self.analysed}
            if labels:
                simulated, joint = (
                    any(row["simulated"] for row in labels.values()),
                    any(row["kind"] == ENSEMBLE for row in labels.values()),
                )
                raters.append(Rater(name, human, evidence, labels, simulated, joint))
        place = {name: number for number, name in enumerate(configured)}
        return sorted(
            raters,
            key=lambda rater: (
                rater.human,
                place.get(rater.name, len(place)),
                rater.name,
                "screenshots" not in rater.evidence,
                rater.evidence,
            ),
        )

    @cached_property
    def _labels(self) -> list[dict]:
        return self.run.rows(self.run.folders.final, "labels")

    @cached_property
    def primary(self) -> list[Rater]:
        """One rater a name, with the fullest evidence; ensembles are none."""
        return [rater for rater in self.fullest if not rater.ensemble]

    @cached_property
    def ensembles(self) -> list[Rater]:
        """What judges say with one voice, with the fullest evidence."""
        return [rater for rater in self.fullest if rater.ensemble]

    @cached_property
    def fullest(self) -> list[Rater]:
        """One rater a name, with the fullest evidence, ensembles among them."""
        chosen: dict[str, Rater] = {}
        for rater in self.raters:
            chosen.setdefault(rater.name, rater)
        return list(chosen.values())

    def task(self, trajectory: str) -> str:
        """Return what groups attempts at one task; a trajectory without a task stands alone."""
        known = self.run.trajectories.get(trajectory)
        return f"{known.benchmark}\x1f{known.task_id}" if known and known.task_id else trajectory

    def clusters(self, trajectories: Sequence[str]) -> np.ndarray:
        """Return each trajectory's task number."""
        return np.unique([self.task(one) for one in trajectories], return_inverse=True)[1] if len(trajectories) else np.empty(0, int)

    def wilson(self, k: int, n: int) -> list[float | None]:
        return [None if bound is None else 100 * bound for bound in wilson_ci(k, n, self.run.confidence)]

    def benchmarks(self, trajectories: Sequence[str]) -> np.ndarray:
        """Return each trajectory's benchmark, numbered: the design draws by benchmark, so resamples do too."""
        known = [self.run.trajectories.get(one) for one in trajectories]
        return np.unique([(one.benchmark or "") if one else "" for one in known], return_inverse=True)[1] if known else np.empty(0, int)

    def limits(self, draws: np.ndarray, tasks: int, scale: float = 1) -> tuple[float | None, float | None]:
        """Return percentile limits; one task, undefined resamples or resamples that are all alike give none."""
        ends = interval(draws, self.run.confidence) if tasks > 1 else [None, None]
        return tuple(None if end is None else scale * end for end in ends)

    def pools(self, rows: list[dict], order: Callable[[str], Any]) -> list[tuple[str, list[dict]]]:
        """Return rows by benchmark and, after them, all together; simulated rows are never pooled with real ones."""
        named = grouped([{**row, "benchmark": row["benchmark"] or "(none)"} for row in rows], "benchmark")
        found = [(name, named[name,]) for name in sorted((name for (name,) in named), key=order)]
        simulated = [row for row in rows if row["simulated"]]
        real = [row for row in rows if not row["simulated"]]
        if real:
            found.append(("All", real))
        if simulated:
            found.append(("All (simulated)" if real else "All", simulated))
        return found


def no_audit(run: Run) -> str:
    """Say why no verdict was audited: the logs carry none, or those that they carry were not looked at."""
    n = len(run.trajectories)
    scored = sum(run.released.get(one) in ("pass", "fail") for one in run.trajectories)
    if not n:
        return NO_AUDIT
    trajectories = f"{n:,} trajector{'y' if n == 1 else 'ies'}"
    if not scored:
        return f"These logs carry no scored verdict (0 of {trajectories}), so none could be audited."
    carry = "carries" if scored == 1 else "carry"
    return f"Scored but not audited: {scored:,} of {trajectories} {carry} a verdict, and none was looked at {ASKED}."


def benchmark_order(name: str) -> tuple:
    """Sort benchmarks as the paper does, those it lacks by name after them."""
    known = [str(row["benchmark"]).casefold() for row in published("cua_table2_verdicts")]
    plain = name.casefold().removeprefix("sim-")
    return (name.casefold().startswith("sim-"), known.index(plain) if plain in known else len(known), name)


def audit_verdicts(audit: Audit) -> list[dict]:
    """Return the verdict counts and the wrong-verdict rate by benchmark."""
    known = {str(row["benchmark"]).casefold(): row for row in published("cua_table2_verdicts")}
    rows = []
    for released in ("fail", "pass"):
        chosen = [row for row in audit.final if row["released"] == released]
        for name, members in audit.pools(chosen, benchmark_order):
            counts = Counter(row["verdict"] for row in members)
            wrong = np.array([row["verdict"] in CONTRADICTS[released] for row in members])
            n, ids = len(members), [row["trajectory_id"] for row in members]
            clusters = audit.clusters(ids)
            tasks = int(clusters.max()) + 1
            strata = audit.benchmarks(ids)
            draws = pattern_draws(wrong.astype(int), 2, clusters, audit.run.resamples, audit.run.rng("verdicts", released, name), strata)
            low, high = audit.wilson(int(wrong.sum()), n)
            # Where all or none are wrong every resample is the same, which is no interval.
            cluster_low, cluster_high = audit.limits(draws[:, 1] / draws.sum(1), tasks, 100) if 0 < wrong.sum() < n else (None, None)
            there = known.get(name.casefold(), {}) if released == "fail" else {}
            oracles = sorted({audit.run.oracles[one] for one in ids if one in audit.run.oracles})
            rows.append(
                {
                    "benchmark": name,
                    "oracle": None if name.startswith("All") else "; ".join(oracles) or None,
                    "n": n,
                    **{verdict: counts[verdict] for verdict in VERDICTS},
                    "wrong": _share(wrong.sum(), n),
                    "wrong_low": low,
                    "wrong_high": high,
                    "released": released,
                    "tasks": tasks,
                    "cluster_low": cluster_low,
                    "cluster_high": cluster_high,
                    **{f"published_{verdict}": _integer(there.get(verdict)) for verdict in ("n", *VERDICTS)},
                    "published_wrong": there.get("wrong_pct"),
                    "p_between": _between(members, wrong) if name.startswith("All") else None,
                    "note": few(tasks),
                    "simulated": any(row["simulated"] for row in members),
                }
            )
    return rows


def _between(members: list[dict], wrong: np.ndarray) -> float | None:
    """Return the p-value of one rate for all benchmarks: exact, or by chi-square where there are too many tables and enough cases."""
    n, k = Counter(row["benchmark"] for row in members), Counter(row["benchmark"] for row, flag in zip(members, wrong, strict=True) if flag)
    names = sorted(n)
    rate = sum(k.values()) / len(members)
    if len(names) < 2 or not 0 < rate < 1:
        return None
    exact = freeman_halton_exact_p([k[name] for name in names], [n[name] for name in names])
    if exact is not None or min(n.values()) * min(rate, 1 - rate) < 5:
        return exact
    from scipy.special import chdtrc

    return float(chdtrc(len(names) - 1, sum((k[name] - n[name] * rate) ** 2 / (n[name] * rate * (1 - rate)) for name in names)))


def few(tasks: int) -> str | None:
    """Return the warning that goes with a clustered interval over few tasks."""
    if tasks >= FEW_CLUSTERS:
        return None
    return f"{tasks} task{'s' if tasks != 1 else ''}: too few for the clustered interval to cover what it says"


def _integer(value: float | None) -> int | None:
    return None if value is None else int(value)


def audit_diagnoses(audit: Audit) -> list[dict]:
    """Return the diagnoses of genuine failures: a row a tier, then its categories."""
    book = codebook()
    failures = [row for row in audit.final if row["verdict"] == "gf" and row["released"] == "fail"]
    if not failures:
        raise Empty("No genuine failure was found in this run.")
    known = {row["category"]: row for row in published("cua_table2_taxonomy")}
    names = {code.code: code.name for code in book.stage_2.codes}
    rows = []
    for simulated in (False, True):
        chosen = [row for row in failures if row["simulated"] == simulated]
        if not chosen:
            continue
        counts = Counter(row["category"] or "(none)" for row in chosen)
        tier_of = {
            category: _tier(book.tier_of(category), category)
            for category in (*book.categories, *sorted(set(counts) - set(book.categories)))
        }
        tiers = list(dict.fromkeys(tier_of.values()))
        totals = {tier: sum(counts[category] for category, of in tier_of.items() if of == tier) for tier in tiers}
        tier_ends = dict(zip(tiers, goodman_simultaneous_ci(list(totals.values()), audit.run.confidence), strict=True))
        ends = dict(zip(tier_of, goodman_simultaneous_ci([counts[category] for category in tier_of], audit.run.confidence), strict=True))
        for tier in tiers:
            inside = [category for category, of in tier_of.items() if of == tier]
            printed = [known[category] for category in inside if category in known]
            if len(inside) > 1:
                rows.append(
                    _diagnosis(
                        tier,
                        "(all)",
                        totals[tier],
                        len(chosen),
                        tier_ends[tier],
                        None,
                        simulated,
                        sum(int(row["n"]) for row in printed) if printed else None,
                    )
                )
            for category in inside:
                there = known.get(category)
                rows.append(
                    _diagnosis(
                        tier,
                        category,
                        counts[category],
                        len(chosen),
                        ends[category] if len(inside) > 1 else tier_ends[tier],
                        names.get(category),
                        simulated,
                        int(there["n"]) if there else None,
                    )
                )
    return rows


def _tier(number: int | None, category: str) -> str:
    return f"Tier {number}" if number else {"other": "Other", "ambiguous": "Ambiguous"}.get(category, category)


def _diagnosis(
    tier: str, category: str, n: int, whole: int, ends: list[float | None], name: str | None, simulated: bool, printed: int | None
) -> dict:
    low, high = (None if bound is None else 100 * bound for bound in ends)
    return {
        "tier": tier,
        "category": category,
        "n": n,
        "share": _share(n, whole),
        "share_low": low,
        "share_high": high,
        "name": name,
        "published_n": printed,
        "published_share": None if printed is None else 100 * printed / 122,
        "simulated": simulated,
    }


STATISTICS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "cohen_kappa": lambda cells, weights: cohen_kappas(weights.reshape(len(weights), cells.shape[1], cells.shape[1])),
    "fleiss_kappa": fleiss_kappas,
    "gwet_ac1": gwet_ac1s,
    "krippendorff_alpha": krippendorff_alphas,
}


def agreement(audit: Audit) -> list[dict]:
    """Return every pair's agreement, and that of all raters together, on verdicts and on categories."""
    raters = audit.primary
    if len(raters) < 2:
        raise Empty("Fewer than two raters labelled the same trajectories.")
    book = codebook()
    known = {(row["stage"], row["kind"]): row for row in published("cua_agreement")}
    rows = []
    for stage, field, values in (("1 verdict", "verdict", book.verdicts), ("2 category", "category", book.categories)):
        for a, b in combinations(raters, 2):
            kind = {0: "judge, judge", 1: "human, judge", 2: "human, human"}[a.human + b.human]
            rows += _agree(audit, stage, field, values, [a, b], kind)
        reviewed = [rater for rater in raters if rater.human]
        if len(reviewed) >= 1 and len(raters) > 2:
            rows += _agree(audit, stage, field, values, raters, "all")
    if not rows:
        raise Empty("Fewer than two raters labelled the same trajectories.")
    for row in rows:
        there = known.get((row["stage"], row["kind"]), {})
        row |= {"published_n": _integer(there.get("n"))} | {f"published_{name}": there.get(name) for name in ("raw_least", "raw_most")}
        if there.get("statistic") == row["statistic"]:
            row |= {f"published_{name}": there[name] for name in ("least", "most")}
    return rows


def _agree(audit: Audit, stage: str, field: str, values: Sequence[str], raters: list[Rater], kind: str) -> list[dict]:
    common = sorted(set.intersection(*(set(rater.labels) for rater in raters)))
    ids = [one for one in common if all(rater.labels[one][field] in values for rater in raters)]
    if not ids:
        return []
    place = {value: number for number, value in enumerate(values)}
    given = np.array([[place[rater.labels[one][field]] for rater in raters] for one in ids])
    q, pair = len(values), len(raters) == 2
    onehot = np.eye(q)
    if pair:  # every cell of the two raters' table is a pattern
        counts = (onehot[:, None, :] + onehot[None, :, :]).reshape(q * q, q)
        pattern = given[:, 0] * q + given[:, 1]
    else:
        counts, pattern = np.unique(onehot[given].sum(1), axis=0, return_inverse=True)
    clusters = audit.clusters(ids)
    tasks = int(clusters.max()) + 1
    name = " \N{MULTIPLICATION SIGN} ".join(rater.name for rater in raters)
    once = np.bincount(pattern, minlength=len(counts))[None].astype(float)
    rng, strata = audit.run.rng("agreement", stage, name), audit.benchmarks(ids)
    draws = pattern_draws(pattern, len(counts), clusters, audit.run.resamples, rng, strata).astype(float)
    raw = float(raw_agreements(counts, once)[0])
    used = len(np.unique(given))
    unknown = "undefined: all raters use one and the same category" if used < 2 else "undefined: chance agreement is complete"
    rows = []
    for statistic in ("cohen_kappa", "gwet_ac1", "krippendorff_alpha") if pair else ("fleiss_kappa", "gwet_ac1", "krippendorff_alpha"):
        value = float(STATISTICS[statistic](counts, once)[0])
        resampled = STATISTICS[statistic](counts, draws)
        undefined = int(np.isnan(resampled).sum())
        low, high = audit.limits(resampled, tasks) if not np.isnan(value) else (None, None)
        rows.append(
            {
                "stage": stage,
                "raters": name,
                "n": len(ids),
                "raw": 100 * raw,
                "statistic": statistic,
                "value": None if np.isnan(value) else value,
                "low": low,
                "high": high,
                "kind": kind,
                "rows": "reviewed" if any(rater.human for rater in raters) else "sample",
                "tasks": tasks,
                "undefined_resamples": undefined,
                "note": "; ".join(filter(None, (unknown if np.isnan(value) else None, few(tasks)))) or None,
                "simulated": any(rater.simulated for rater in raters) or audit.run.simulated(ids),
            }
        )
    return rows


def annotator_rates(audit: Audit) -> list[dict]:
    """Return each annotator's wrong-verdict rate over the rows all of them labelled, and how the rates vary."""
    raters = audit.primary
    if not raters:
        raise Empty("No annotator labelled a verdict.")
    common = set.intersection(*(set(rater.labels) for rater in raters))
    common = {one for one in common if audit.run.released.get(one, "fail") == "fail"}
    simulated = any(rater.simulated for rater in raters) or audit.run.simulated(sorted(common))
    if not common:
        raise Empty("No trajectory was labelled by every annotator.")
    rows, rates = [], []
    for rater in raters:
        k = sum(rater.labels[one]["verdict"] in CONTRADICTS["fail"] for one in common)
        low, high = audit.wilson(k, len(common))
        rates.append(k / len(common))
        rows.append(
            {
                "annotator": rater.name,
                "n": len(common),
                "wrong_rate": 100 * rates[-1],
                "wrong_rate_low": low,
                "wrong_rate_high": high,
                "unit": "percent",
                "kind": "human" if rater.human else "judge",
                "simulated": simulated,
            }
        )
    spread = float(np.std(rates, ddof=1)) if len(rates) > 1 else None
    summary = {
        "mean": (100 * float(np.mean(rates)), "percent"),
        "sd": (None if spread is None else 100 * spread, "points"),
        "variance": (None if spread is None else spread**2, "proportion²"),
        "min": (100 * min(rates), "percent"),
        "max": (100 * max(rates), "percent"),
    }
    rows += [
        {
            "annotator": name,
            "n": len(rates),
            "wrong_rate": value,
            "unit": unit,
            "kind": "summary",
            "note": "one annotator alone has no spread" if value is None else None,
            "simulated": simulated,
        }
        for name, (value, unit) in summary.items()
    ]
    known = {(row["annotator"], row["kind"]): row["wrong_rate"] for row in published("cua_annotators")}
    return [{**row, "published_wrong_rate": known.get((_printed_as(row["annotator"]), row["kind"]))} for row in rows]


def _printed_as(judge: str) -> str:
    """Return the name a judge has in the paper's figures here; the made-up labels call one of them otherwise."""
    return {"gpt": "codex"}.get(judge.casefold(), judge.casefold())


def evidence_ablation(audit: Audit) -> list[dict]:
    """Return how each judge's verdicts move when the screenshots are taken away."""
    by_name: dict[str, list[Rater]] = {}
    for rater in audit.raters:
        if not rater.human:
            by_name.setdefault(rater.name, []).append(rater)
    both = {
        name: (found[0], bare)
        for name, found in by_name.items()
        if "screenshots" in found[0].evidence
        for bare in [next((rater for rater in found if rater.evidence and "screenshots" not in rater.evidence), None)]
        if bare
    }
    if not both:
        raise Empty("No judge labelled the sample both with and without screenshots; set `ablation: true`.")
    known = {row["judge"]: row for row in published("cua_ablation")}
    rows = []
    for name, (seen, bare) in both.items():
        common = sorted(set(seen.labels) & set(bare.labels))
        pairs = [(seen.labels[one]["verdict"], bare.labels[one]["verdict"]) for one in common]
        rows.append(
            {
                "judge": name,
                "n": len(common),
                "flips": sum(a != b for a, b in pairs),
                "efn_with": sum(a == "efn" for a, _ in pairs),
                "efn_without": sum(b == "efn" for _, b in pairs),
                **{f"published_{column}": _integer(known.get(_printed_as(name), {}).get(column)) for column in ABLATED},
                "simulated": seen.simulated or audit.run.simulated(common),
            }
        )
    for a, b in combinations([name for name, (seen, _) in both.items() if not seen.ensemble], 2):
        common = sorted(set.intersection(*(set(rater.labels) for pair in (both[a], both[b]) for rater in pair)))
        kappas = [_kappa([both[name][side].labels for name in (a, b)], common) for side in (0, 1)]
        rows.append(
            {
                "judge": f"{a} \N{MULTIPLICATION SIGN} {b}",
                "n": len(common),
                "kappa_with": kappas[0],
                "kappa_without": kappas[1],
                **{f"published_kappa_{side}": known["pair"][f"kappa_{side}"] for side in ("with", "without")},
                "simulated": audit.run.simulated(common) or any(rater.simulated for pair in (both[a], both[b]) for rater in pair),
            }
        )
    return rows


def judge_consistency(audit: Audit) -> list[dict]:
    """Return how far every judge that was asked several times agrees with itself, on verdicts and on categories."""
    book, configured = codebook(), [judge["name"] for judge in audit.run.settings.get("judges") or ()]
    found = grouped(audit.run.rows(audit.run.folders.judgments, "draws"), "annotator", "evidence")
    place = {name: number for number, name in enumerate(configured)}
    rows = []
    for (judge, evidence), drawn in sorted(found.items(), key=lambda pair: (place.get(pair[0][0], len(place)), pair[0])):
        draws = 1 + max(row["draw"] for row in drawn)
        said = {
            one: sorted(given, key=lambda row: row["draw"])
            for (one,), given in sorted(grouped(drawn, "trajectory_id").items())
            if audit.analysed is None or one in audit.analysed
        }
        whole = {one: given for one, given in said.items() if len(given) == draws and all(row["verdict"] for row in given)}
        about = {"judge": judge, "evidence": evidence, "draws": draws, "n_incomplete": len(said) - len(whole)}
        about["simulated"] = any(row["simulated"] for row in drawn) or audit.run.simulated(said)
        diagnosed = {one: given for one, given in whole.items() if all(row["category"] for row in given)}
        for stage, field, values, chosen in (
            ("1 verdict", "verdict", book.verdicts, whole),
            ("2 category", "category", book.categories, diagnosed),
        ):
            labels = {one: [row[field] for row in given] for one, given in chosen.items()}
            if labels:
                rows.append({**about, "stage": stage, **_consistent(audit, f"{judge}, {evidence}, {stage}", values, labels)})
    if not rows:
        raise Empty("No judge was asked more than once about a trajectory; set `draws`.")
    return rows


def _consistent(audit: Audit, name: str, values: Sequence[str], labels: dict[str, list[str]]) -> dict:
    """Return the shares of equal labels and Fleiss' kappa of the draws, which are given by trajectory."""
    ids, n = sorted(labels), len(labels)
    place = {value: number for number, value in enumerate(values)}
    cells = np.eye(len(values))[[[place[label] for label in labels[one]] for one in ids]].sum(1)
    counts, pattern = np.unique(cells, axis=0, return_inverse=True)
    pattern = pattern.reshape(-1)
    clusters = audit.clusters(ids)
    tasks = int(clusters.max()) + 1
    once = np.bincount(pattern, minlength=len(counts))[None].astype(float)
    rng, strata = audit.run.rng("consistency", name), audit.benchmarks(ids)
    draws = pattern_draws(pattern, len(counts), clusters, audit.run.resamples, rng, strata).astype(float)
    kappa = float(fleiss_kappas(counts, once)[0])
    low, high = (None, None) if np.isnan(kappa) else audit.limits(fleiss_kappas(counts, draws), tasks)
    equal = sum(len(set(given)) == 1 for given in labels.values())
    ends = audit.wilson(equal, n)
    outvoted = sum(max(Counter(given).values()) > given.count(given[0]) for given in labels.values())
    return {
        "n": n,
        "equal": _share(equal, n),
        "equal_low": ends[0],
        "equal_high": ends[1],
        "pairs_equal": 100 * float(raw_agreements(counts, once)[0]),
        "fleiss_kappa": None if np.isnan(kappa) else kappa,
        "low": low,
        "high": high,
        "n_outvoted": outvoted,
        "tasks": tasks,
        "note": "; ".join(filter(None, ("undefined: one and the same label throughout" if np.isnan(kappa) else None, few(tasks)))) or None,
    }


def planted_orders(audit: Audit) -> list[dict]:
    """Return how many labelled trajectories hold what reads like an order to a judge, and whether labels differ on them."""
    labelled = {one for rater in audit.raters for one in rater.labels}
    suspected = _ordering(audit, labelled)
    if not suspected:
        raise Empty("No trajectory with steps was labelled.")
    planted = {row["trajectory_id"]: row["place"] for row in audit.run.rows(audit.run.folders.normalised, "injections")}
    truth = {one: row["outcome"] for one, row in audit.run.truth.items() if audit.run.released.get(one) == "fail"}
    rows = []
    for rater in audit.raters:
        verdicts = {one: row["verdict"] for one, row in rater.labels.items() if one in suspected}
        if not verdicts:
            continue
        told = [one for one in verdicts if suspected[one]]
        rest = [one for one in verdicts if not suspected[one]]
        about = {"rater": rater.name, "evidence": rater.evidence or None, "n": len(verdicts)}
        about["simulated"] = rater.simulated or audit.run.simulated(verdicts)
        efn = {name: _share(sum(verdicts[one] == "efn" for one in ids), len(ids)) for name, ids in (("suspected", told), ("others", rest))}
        rows.append({**about, "place": "all", "suspected": len(told), **{f"efn_{name}": share for name, share in efn.items()}})
        known = [one for one in verdicts if one in truth]
        others = [verdicts[one] == truth[one] for one in known if one not in planted]
        for place in sorted({planted[one] for one in known if one in planted}):
            inside = [one for one in known if planted.get(one) == place]
            rows.append(
                {
                    **about,
                    "place": place,
                    "planted": len(inside),
                    "planted_suspected": sum(suspected[one] for one in inside),
                    "right_planted": _share(sum(verdicts[one] == truth[one] for one in inside), len(inside)),
                    "right_others": _share(sum(others), len(others)),
                }
            )
    return rows


def _ordering(audit: Audit, wanted: set[str]) -> dict[str, bool]:
    """Return whether each of these trajectories, as far as their steps are at hand, holds a text that reads like an order to a judge."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    from evoaudit.audit import orders

    chosen = pc.field("trajectory_id").isin(pa.array(sorted(wanted), pa.string()))
    found: dict[str, bool] = {}
    for name, columns in (
        ("trajectories", ("instruction", "answer", "final_text")),
        ("steps", ("value", "op_raw", "reasoning", "page_text", "error", "url", "target")),
    ):
        for folder in audit.run.folders.normalised:
            if not (folder / f"{name}.parquet").is_file():
                continue
            table = ds.dataset(folder / f"{name}.parquet", format="parquet")
            # Pages are long, so few rows at a time.
            for batch in table.to_batches(["trajectory_id", *columns], chosen, batch_size=256):
                for row in batch.to_pylist():
                    texts = [(row[column] or {}).get("text") if column == "target" else row[column] for column in columns]
                    found[row["trajectory_id"]] = found.get(row["trajectory_id"], False) or orders.found(texts)
    return found


def _kappa(labels: list[dict[str, dict]], ids: list[str]) -> float | None:
    first, second = ([one[trajectory]["verdict"] for trajectory in ids] for one in labels)
    return cohen_kappa(contingency(first, second, VERDICTS)) if ids else None


def human_agreement(audit: Audit) -> list[dict]:
    """Return the agreement of a source's own annotators on the trajectories two of them labelled."""
    rows = []
    for folder, source, simulated in audit.run.sources:
        found = [row for row in audit.run.rows(folder, "annotations") if not row["annotator"].startswith(JUDGE)]
        for (question,), answers in sorted(grouped(found, "question").items()):
            rows += _questioned(audit, question, answers, source, simulated)
    if not rows:
        raise Empty("No source carries annotations of its own.")
    return rows


def _questioned(audit: Audit, question: str, answers: list[dict], source: str, simulated: bool) -> list[dict]:
    """Return a row for all, one without `Unsure`, and one a benchmark."""
    twice = []
    for (trajectory,), given in sorted(grouped(sorted(answers, key=lambda row: row["row"]), "trajectory_id").items()):
        first = given[0]
        second = next((row for row in given[1:] if row["annotator"] != first["annotator"]), None)
        if second is not None and first["answer"] is not None and second["answer"] is not None:
            twice.append((trajectory, first["answer"], second["answer"], first["benchmark"] or "", first["agent"] or ""))
    total = len({row["trajectory_id"] for row in answers})
    sure = [row for row in twice if "unsure" not in (row[1].casefold(), row[2].casefold())]
    scopes = [("all", twice, total)]
    if len(sure) < len(twice):
        scopes.append(("without unsure", sure, total))
    labelled = Counter(benchmark for _, benchmark in {(row["trajectory_id"], row["benchmark"] or "") for row in answers})
    for benchmark in sorted({row[3] for row in twice}) if len(labelled) > 1 else ():
        scopes.append((benchmark, [row for row in twice if row[3] == benchmark], labelled[benchmark]))
    rows = []
    for scope, pairs, n in scopes:
        row: dict[str, Any] = {
            "question": question,
            "scope": scope,
            "n": n,
            "n_pairs": len(pairs),
            "source": source,
            "simulated": simulated,
        }
        if pairs:
            values = sorted({answer for pair in pairs for answer in pair[1:3]})
            place = {value: number for number, value in enumerate(values)}
            q = len(values)
            pattern = np.array([place[pair[1]] * q + place[pair[2]] for pair in pairs])
            # Every trajectory is its own unit here: hardly a task is annotated twice.
            draws = pattern_draws(
                pattern, q * q, np.arange(len(pairs)), audit.run.resamples, audit.run.rng("annotators", source, question, scope)
            )
            table = np.bincount(pattern, minlength=q * q).reshape(q, q)
            row["note"] = _one_sided(pairs)
            agree = int(np.trace(table))
            low, high = audit.wilson(agree, len(pairs))
            kappa = cohen_kappa(table)
            ends = audit.limits(cohen_kappas(draws.reshape(-1, q, q).astype(float)), len(pairs)) if kappa is not None else (None, None)
            row |= {
                "raw": _share(agree, len(pairs)),
                "raw_low": low,
                "raw_high": high,
                "cohen_kappa": kappa,
                "cohen_kappa_low": ends[0],
                "cohen_kappa_high": ends[1],
                "gwet_ac1": gwet_ac1(table=table) if q > 1 else None,
                "krippendorff_alpha": krippendorff_alpha_nominal([pair[1:3] for pair in pairs]),
                "answers": "; ".join(values),
            }
        rows.append(row)
    return rows


def _one_sided(pairs: list[tuple]) -> str | None:
    """Say so where most pairs are one agent's on one benchmark, since they then say little about the others."""
    (benchmark, agent), n = Counter(pair[3:5] for pair in pairs).most_common(1)[0]
    if 2 * n <= len(pairs) or n < 2 or not agent:
        return None
    return f"{n} of the {len(pairs)} pairs are {agent} on {benchmark or 'one benchmark'}"


def _signals(audit: Audit) -> dict[str, dict[str, bool]]:
    """Return rule → trajectory → fired; a rule with a parameter carries it in its name."""
    found: dict[str, dict[str, bool]] = {}
    for row in audit.run.rows(audit.run.folders.signals, "signals", ["trajectory_id", "signal", "parameter", "fired"]):
        name = f"{row['signal']} r={row['parameter']}" if row["parameter"] else row["signal"]
        found.setdefault(name, {})[row["trajectory_id"]] = row["fired"]
    return found


def _rule_order(name: str) -> tuple:
    signal, _, parameter = name.partition(" r=")
    return (NOOP_RULES.index(signal) if signal in NOOP_RULES else len(NOOP_RULES), signal, int(parameter or 0))


def noop_probe(audit: Audit) -> list[dict]:
    """Return the no-op rules against each truth there is, by benchmark."""
    fired = {name: flags for name, flags in _signals(audit).items() if name.split(" ")[0] in NOOP_RULES}
    if fired:
        fired["always"] = dict.fromkeys({one for flags in fired.values() for one in flags}, True)
        fired |= _without_pixels(audit)
        runs, cycles = fired.get(f"noop_run r={REPEATED}"), fired.get("cycle")
        if runs and cycles:
            fired["noop_run or cycle"] = {one: flag or cycles.get(one, False) for one, flag in runs.items()}
    truths: dict[str, dict[str, bool]] = {
        "planted t3-noop": {one: row["category"] == "t3-noop" for one, row in audit.run.truth.items()},
        "label t3-noop": {row["trajectory_id"]: row["category"] == "t3-noop" for row in audit.run.rows(audit.run.folders.final, "final")},
    }
    for row in sorted(audit.run.rows(audit.run.folders.normalised, "annotations"), key=lambda row: row["row"]):
        if row["annotator"].startswith(JUDGE):
            continue
        if "loop" in row["question"] and row["answer"] and row["answer"].casefold() in ("yes", "no"):
            truths.setdefault(f"annotated {row['question']}", {}).setdefault(row["trajectory_id"], row["answer"].casefold() == "yes")
    rows = []
    for truth, known in truths.items():
        for rule in sorted(fired, key=_rule_order):
            rows += [
                _hits(audit, rule, truth, name, chosen)
                for name, chosen in audit.pools(_outcomes(audit, fired[rule], known), benchmark_order)
            ]
    if not rows:
        raise Empty("No trajectory has both signals and a truth (labels, annotations or a planted fault).")
    return rows


def _without_pixels(audit: Audit) -> dict[str, dict[str, bool]]:
    """Return the baseline that looks at no screen: one action several times in a row, whatever became of it."""
    table = audit.run.table(audit.run.folders.signals, "noops", ["trajectory_id", "same_action"])
    if not table.num_rows:
        return {}
    ids, names = codes(table["trajectory_id"])
    same, place = numbers(table["same_action"]).astype(bool), np.arange(len(ids))
    begins = ~same | (np.diff(ids, prepend=-1) != 0)
    length = place - np.maximum.accumulate(np.where(begins, place, 0)) + 1
    longest = np.zeros(len(names), int)
    np.maximum.at(longest, ids, length)
    return {f"same action r={REPEATED}": {one: bool(longest[at] >= REPEATED) for at, one in enumerate(names)}}


def _outcomes(audit: Audit, fired: dict[str, bool], known: dict[str, bool]) -> list[dict]:
    """Return the trajectories for which both are known; outcomes are 3 hit, 2 false alarm, 1 miss, 0 rightly silent."""
    return [
        {
            "trajectory_id": one,
            "benchmark": audit.run.trajectories[one].benchmark,
            "simulated": audit.run.trajectories[one].simulated,
            "outcome": 2 * fired[one] + known[one],
        }
        for one in sorted(set(known) & set(fired) & set(audit.run.trajectories))
    ]


def signal_check(audit: Audit) -> list[dict]:
    """Return how far each free signal can be trusted: against the final labels and against what was planted, by benchmark."""
    fired = {name: flags for name, flags in _signals(audit).items() if name in SIGNALS and name not in NOOP_RULES}
    failed = {one for one, verdict in audit.run.released.items() if verdict == "fail"}
    truths = {
        "planted": {one: row["outcome"] for one, row in audit.run.truth.items() if one in failed},
        "label": {
            row["trajectory_id"]: row["verdict"]
            for row in audit.run.rows(audit.run.folders.final, "final")
            if row["trajectory_id"] in failed
        },
    }
    rows = []
    for truth, known in truths.items():
        for name in sorted(fired):
            meant = {one: verdict == SIGNALS[name] for one, verdict in known.items()}
            for benchmark, chosen in audit.pools(_outcomes(audit, fired[name], meant), benchmark_order):
                found = _hits(audit, name, truth, benchmark, chosen)
                rows.append({"signal": found.pop("rule"), "argues": SIGNALS[name], **found})
    if not rows:
        raise Empty("No released FAIL has both signals and a truth (labels or a planted fault).")
    return rows


def _hits(audit: Audit, rule: str, truth: str, benchmark: str, members: list[dict]) -> dict:
    """Return precision, recall and F1 of one rule; outcomes are 3 hit, 2 false alarm, 1 miss, 0 rightly silent."""
    outcome = np.array([row["outcome"] for row in members])
    counts = np.bincount(outcome, minlength=4)
    clusters = audit.clusters([row["trajectory_id"] for row in members])
    draws = pattern_draws(outcome, 4, clusters, audit.run.resamples, audit.run.rng("noop", rule, truth, benchmark))
    hit, alarm, miss = (int(counts[place]) for place in (3, 2, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        f1 = 2 * draws[:, 3] / (2 * draws[:, 3] + draws[:, 2] + draws[:, 1])
    defined = 2 * hit + alarm + miss > 0
    ends = audit.limits(f1, int(clusters.max()) + 1, 100) if defined else (None, None)
    precision, recall = audit.wilson(hit, hit + alarm), audit.wilson(hit, hit + miss)
    return {
        "rule": rule,
        "benchmark": benchmark,
        "truth": truth,
        "n": len(members),
        "precision": _share(hit, hit + alarm),
        "precision_low": precision[0],
        "precision_high": precision[1],
        "recall": _share(hit, hit + miss),
        "recall_low": recall[0],
        "recall_high": recall[1],
        "f1": 100 * 2 * hit / (2 * hit + alarm + miss) if defined else None,
        "f1_low": ends[0],
        "f1_high": ends[1],
        "n_flagged": hit + alarm,
        "n_true": hit + miss,
        "n_hit": hit,
        "simulated": any(row["simulated"] for row in members),
    }


def planted_truth(audit: Audit) -> list[dict]:
    """Return how well every judge, the final labels and every signal find what was planted in released FAILs."""
    planted = {one: row for one, row in audit.run.truth.items() if audit.run.released.get(one) == "fail"}
    expected = {one: row["category"] or "gf" if row["outcome"] == "gf" else row["outcome"] for one, row in planted.items()}
    rows = []
    found: list[tuple[str, dict[str, str]]] = [
        (
            rater.name if any(rater is one for one in audit.fullest) else f"{rater.name} ({rater.evidence})",
            {one: _label(row) for one, row in rater.labels.items() if one in planted},
        )
        for rater in audit.raters
    ]
    final = audit.run.rows(audit.run.folders.final, "final")
    found.append(("final label", {row["trajectory_id"]: _label(row) for row in final if row["trajectory_id"] in planted}))
    for name, labels in found:
        rows += [_found(audit, name, kind, planted, expected, labels) for kind in sorted({planted[one]["planted"] for one in labels})]
    for name, flags in sorted(_signals(audit).items(), key=lambda pair: _rule_order(pair[0])):
        argues = SIGNALS.get(name.split(" ")[0])
        labels = {one: argues if flag else "(silent)" for one, flag in flags.items() if one in planted} if argues else {}
        kinds = sorted({planted[one]["planted"] for one in labels if expected[one] == argues})
        rows += [_found(audit, f"signal {name}", kind, planted, expected, labels) for kind in kinds]
    if not rows:
        raise Empty("No simulated trajectory was judged.")
    return rows


def _label(row: dict) -> str:
    return row["category"] or "gf" if row["verdict"] == "gf" else row["verdict"]


def _found(audit: Audit, rater: str, kind: str, planted: dict[str, dict], expected: dict[str, str], labels: dict[str, str]) -> dict:
    inside = [one for one in labels if planted[one]["planted"] == kind]
    wanted = expected[inside[0]]
    correct = sum(labels[one] == wanted for one in inside)
    said = [one for one in labels if labels[one] == wanted]
    right = sum(expected[one] == wanted for one in said)
    recall, precision = audit.wilson(correct, len(inside)), audit.wilson(right, len(said))
    counts = Counter(labels[one] for one in inside)
    return {
        "rater": rater,
        "planted": kind,
        "expected": wanted,
        "n": len(inside),
        "n_correct": correct,
        "recall": _share(correct, len(inside)),
        "recall_low": recall[0],
        "recall_high": recall[1],
        "precision": _share(right, len(said)),
        "precision_low": precision[0],
        "precision_high": precision[1],
        "n_predicted": len(said),
        "predicted": ", ".join(f"{label} {counts[label]}" for label in sorted(counts, key=lambda label: (-counts[label], label))),
        "simulated": True,
    }


def corrected_scores(audit: Audit) -> list[dict]:
    """Return released success rates and what is left of them once the audited evaluator errors are taken out."""
    audited = {row["trajectory_id"]: row for row in audit.final}
    attempts: dict[tuple[str, str], list[str]] = {}
    for one, verdict in audit.run.released.items():
        known = audit.run.trajectories.get(one)
        if known is not None and known.benchmark and known.agent and verdict in ("pass", "fail") and one in audit.run.oracles:
            attempts.setdefault((known.benchmark, known.agent), []).append(one)
    seen = {audit.run.trajectories[one].benchmark for one in audited if one in audit.run.trajectories}
    rows = []
    for benchmark in sorted({benchmark for benchmark, _ in attempts if benchmark in seen}, key=benchmark_order):
        members = {agent: sorted(ids) for (name, agent), ids in sorted(attempts.items()) if name == benchmark}
        rows += _corrected(audit, benchmark, members, audited)
    if not rows:
        raise Empty("No audited benchmark has released scores in this run.")
    return rows


def _corrected(audit: Audit, benchmark: str, members: dict[str, list[str]], audited: dict[str, dict]) -> list[dict]:
    """Return one benchmark's rows. A verdict that nobody audited is taken to stand, flip or fall as the agent's audited ones do.

    Where none of an agent's was audited, the benchmark's stand in for them.
    """
    released = audit.run.released
    ids = {
        (agent, verdict): [one for one in found if released[one] == verdict] for agent, found in members.items() for verdict in CONTRADICTS
    }
    known = {key: Counter(_bearing(audited[one], key[1]) for one in found if one in audited) for key, found in ids.items()}
    rows, draws = [], []
    for agent, attempts in members.items():
        success = np.full(audit.run.resamples + 1, float(len(ids[agent, "pass"])))  # the point estimate, then the resamples
        total = np.full(len(success), float(len(attempts)))
        basis = []
        for verdict, gain in (("fail", 1), ("pass", -1)):
            mine, n = known[agent, verdict], len(ids[agent, verdict])
            like = mine or sum((known[other, verdict] for other in members), Counter())
            if not n or not like:
                continue
            flips, broken = _taken_out(audit.run.rng("corrected", benchmark, agent, verdict), mine, like, n, audit.run.resamples)
            success += gain * flips - (broken if verdict == "pass" else 0)  # a broken task that passed was no success either
            total -= broken
            basis.append(f"{mine.total()} of {n} {verdict.upper()} audited" if mine else f"{n} {verdict.upper()} as in the whole benchmark")
        with np.errstate(invalid="ignore", divide="ignore"):
            score = np.where(total > 0, 100 * success / total, np.nan)
        if np.isnan(score[0]):
            basis.append("no task is left once the broken ones are taken out")
        draws.append(score[1:])
        low, high = limits(score[1:], audit.run.confidence)
        rows.append(
            {
                "benchmark": benchmark,
                "agent": agent,
                "n": len(attempts),
                "released": _share(len(ids[agent, "pass"]), len(attempts)),
                "corrected": float(score[0]),
                "corrected_low": float(low),
                "corrected_high": float(high),
                "n_pass": len(ids[agent, "pass"]),
                "n_fail": len(ids[agent, "fail"]),
                "n_audited": sum(known[agent, verdict].total() for verdict in CONTRADICTS),
                "basis": "; ".join(basis) or "nothing to correct",
                "simulated": audit.run.simulated(attempts) or any(audited[one]["simulated"] for one in attempts if one in audited),
            }
        )
    ranks = rank_draws(np.column_stack(draws))
    tail = 0.5 - audit.run.confidence / 2
    for place, row in enumerate(rows):
        row["rank_released"] = 1 + sum(other["released"] > row["released"] for other in rows)
        if not np.isnan(row["corrected"]):
            row["rank_low"], row["rank_high"] = (int(end) for end in np.quantile(ranks[:, place], [tail, 1 - tail], method="inverted_cdf"))
            row["rank_corrected"] = 1 + sum(other["corrected"] > row["corrected"] + 1e-9 for other in rows)
            row["rank_change"] = rank_change(row["rank_released"], row["rank_low"], row["rank_high"])
    return sorted(rows, key=lambda row: (row["rank_released"], row["agent"]))


def rank_change(released: int, low: int, high: int) -> str:
    """Say whether a corrected rank differs from the released one, going by its interval."""
    return "holds" if low == high == released else "not settled" if low <= released <= high else "changes"


def _taken_out(rng: np.random.Generator, known: Counter, like: Counter, n: int, resamples: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many of ``n`` verdicts flip and how many belong to broken tasks: the estimate, then resamples.

    What was audited is known; the rest follow ``like``, in the resamples by a Dirichlet-multinomial with half a count a kind.
    """
    left = n - known.total()
    shares = np.array([like["flip"], like["broken"], like["stands"]], float)
    drawn = rng.multinomial(left, rng.dirichlet(shares + 0.5, resamples))
    rest = np.vstack([left * shares / shares.sum(), drawn])
    return known["flip"] + rest[:, 0], known["broken"] + rest[:, 1]


def _bearing(row: dict, released: str) -> str:
    """Return what an audited verdict does to a score: `flip` it, take the task out (`broken`), or nothing."""
    if row["verdict"] == "broken":
        return "broken"
    return "flip" if row["verdict"] in CONTRADICTS[released] else "stands"
