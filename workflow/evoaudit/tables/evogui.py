"""The probe tables: split, chance, main results, slices, controls, intervals, relations."""

import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from evoaudit.actions import VALUE_BEARING
from evoaudit.conditions import CONDITIONS
from evoaudit.jsonfile import read_json
from evoaudit.probes.reviewed import REASONS
from evoaudit.probes.vocabulary import vocabulary_of
from evoaudit.stats import (
    brier_score,
    expected_calibration_error,
    holm,
    kendall_exact_p_two_sided,
    kendall_tau_b,
    mcnemar_exact,
    pearson_r,
    reliability_bins,
    spearman_p_two_sided,
    spearman_rho,
    wilson_ci,
)
from evoaudit.stats.resample import FEW_CLUSTERS, interval, rank_draws
from evoaudit.tables.inputs import Empty, Folders, numbers
from evoaudit.tables.literature import published
from evoaudit.tables.panel import INDEX, INDEX_ACTION, MAIN_SIDE, METRICS, NOTHING_SCORED, PUBLISHED_CHANCE, TASKS, Answers, Panel
from evoaudit.tables.spec import LABELS

T3_SLICES = ("cross", "same_domain", "long_skip")
T2_CLASSES = ("click", "type", "select")
#: What EvoGUI prints of these pairs, A.11 and A.6.
PUBLISHED_RELATIONS = {
    "osworld, evogain": {"n": 5, "spearman": 0.9, "kendall": 0.8},
    "evogain, evogain_action": {"n": 28, "spearman": 0.977, "pearson": 0.991},
}


def _percent(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


def _interval(draws: np.ndarray | None, confidence: float) -> list[float | None]:
    return [None, None] if draws is None else interval(draws, confidence)


def _wilson(k: float, n: int, confidence: float) -> list[float | None]:
    return [None if bound is None else 100 * bound for bound in wilson_ci(k, n, confidence)]


def _ends(one: Answers, metric: str, confidence: float, keep: np.ndarray | None = None, name: str = "") -> dict[str, float | None]:
    """Return Wilson's interval of an accuracy as the columns ``<name>_low`` and ``<name>_high`` (default: the metric's)."""
    n, score = one.answered(metric, keep), one.accuracy(metric, keep)
    low, high = _wilson(0 if score is None else n * score / 100, n, confidence)
    return {f"{name or metric}_low": low, f"{name or metric}_high": high}


def _require_items(panel: Panel) -> None:
    if not any(len(items) for items in panel.items.values()):
        raise Empty("No probes were mined in this run.")


def split(panel: Panel) -> list[dict]:
    """Return the counts of the split: slices of the probes, then all items by domain, source and screens."""
    _require_items(panel)
    known = {(row["part"], row["slice"]): row for row in published("evogui_table1")}
    rows = []
    for task in TASKS:
        items = panel.items[task]
        order = {name: place for place, name in enumerate((*T2_CLASSES, *T3_SLICES))}
        for name, n in sorted(items.by_slice.items(), key=lambda pair: (order.get(pair[0], -1), pair[0])):
            there = known.get((task.upper(), name))
            rows.append(
                {
                    "part": task.upper(),
                    "slice": name,
                    "count": n,
                    "share": _percent(n, len(items)),
                    "published_count": int(there["value"]) if there else None,
                    "published_share": None,
                    "simulated": bool(items.simulated[items.slices == name].any()),
                }
            )
    together = [items for items in panel.items.values() if len(items)]
    total = sum(map(len, together))
    domains = Counter(str(domain) for items in together for domain in items.domains if domain)
    sources = Counter(str(source) for items in together for source in items.sources)
    screens = _screens(panel)
    found: list[tuple[str, float | None, float | None]] = [("domains", len(domains), None)]
    if domains:
        found.append(("top_domain_share", max(domains.values()), _percent(max(domains.values()), total)))
    found += [(f"source_{name}", n, _percent(n, total)) for name, n in sorted(sources.items())]
    if len(screens):
        found += [
            ("screens_median", int(np.median(screens)), None),
            ("screens_p95", int(np.percentile(screens, 95, method="higher")), None),
        ]
    for name, n, share in found:
        there = known.get(("All", name))
        in_share = there is not None and there["unit"] == "percent"
        rows.append(
            {
                "part": "All",
                "slice": name,
                "count": n,
                "share": share,
                "published_count": int(there["value"]) if there and not in_share else None,
                "published_share": there["value"] if in_share else None,
                "simulated": any(bool(items.simulated.any()) for items in together),
            }
        )
    return rows


def _screens(panel: Panel) -> np.ndarray:
    """Return how many screens each trajectory that gave an item has: its steps and the screen after the last."""
    used = {str(one) for items in panel.items.values() for one in items.trajectories}
    rows = panel.run.rows(panel.run.folders.normalised, "trajectories", ["trajectory_id", "n_steps"])
    return np.array(sorted(row["n_steps"] + 1 for row in rows if row["trajectory_id"] in used))


def domains(panel: Panel) -> list[dict]:
    """Return how evenly domains, sources and trajectories share each probe."""
    _require_items(panel)
    rows = []
    parts = {task.upper(): [panel.items[task]] for task in TASKS} | {"All": list(panel.items.values())}
    for part, held in parts.items():
        total = sum(map(len, held))
        if not total:
            continue
        named = Counter(str(domain) if domain else "(none)" for items in held for domain in items.domains)
        sources = Counter(str(source) for items in held for source in items.sources)
        trajectories = Counter(str(one) for items in held for one in items.trajectories)
        entropy = -sum(n / total * math.log(n / total) for n in sorted(named.values()))
        top, source = (min(counter, key=lambda name, counter=counter: (-counter[name], name)) for counter in (named, sources))
        rows.append(
            {
                "part": part,
                "n": total,
                "domains": len(named.keys() - {"(none)"}),
                "effective_domains": math.exp(entropy),
                "top_domain": top,
                "top_share": _percent(named[top], total),
                "sources": len(sources),
                "top_source": source,
                "top_source_share": _percent(sources[source], total),
                "trajectories": len(trajectories),
                "top_trajectory_share": _percent(max(trajectories.values()), total),
                "simulated": any(bool(items.simulated.any()) for items in held),
            }
        )
    return rows


def t3_review(panel: Panel) -> list[dict]:
    """Return what people decided on T3 pairs, by tier and together, as mining counted it."""
    mined, items = panel.run.folders.mined, panel.items["t3"]
    found = read_json(mined / "quotas.json")["tasks"]["t3"]["slices"] if mined and (mined / "quotas.json").is_file() else {}
    tiers = {tier: one["review"] for tier, one in found.items() if "review" in one}
    if not tiers:
        return []
    rows = []
    for tier in (*tiers, "all"):
        told = list(tiers.values()) if tier == "all" else [tiers[tier]]
        accepted, undecided = (sum(one[name] for one in told) for name in ("accepted", "undecided"))
        reasons = {reason: sum(one["rejected"].get(reason, 0) for one in told) for reason in REASONS}
        rejected = sum(reasons.values())
        rows.append(
            {
                "tier": tier,
                "items": accepted + undecided,
                "reviewed": accepted + rejected,
                "accepted": accepted,
                "accepted_share": _percent(accepted, accepted + undecided),
                "rejected": rejected,
                **reasons,
                "simulated": bool(items.simulated[(items.slices == tier) | (tier == "all")].any()),
            }
        )
    return rows


def split_sets(panel: Panel) -> list[dict]:
    """Return the counts of every further set, slice by slice, beside what was asked for."""
    rows = []
    for one in panel.run.folders.sets:
        items = Panel(replace(panel.run, folders=Folders(mined=one.mined))).items
        tasks = read_json(one.mined / "quotas.json")["tasks"]
        for task in TASKS:
            for name, cut in tasks[task]["slices"].items():
                held = items[task].slices == name
                rows.append(
                    {
                        "set": one.name,
                        "part": task.upper(),
                        "slice": name,
                        "wanted": cut["wanted"],
                        "count": int(held.sum()),
                        "share": _percent(int(held.sum()), len(items[task])),
                        "domains": len({domain for domain in items[task].domains[held] if domain}),
                        "trajectories": len(set(items[task].trajectories[held])),
                        "simulated": bool(items[task].simulated[held].any()),
                    }
                )
    if not rows:
        raise Empty("No set of probes beyond the paper's was mined; name some in `probes.sets`.")
    return rows


def other_sets(panel: Panel) -> list[dict]:
    """Return accuracy on every further set by model and condition, after uniform guessing."""
    rows = []
    for one in panel.run.folders.sets:
        other = Panel(replace(panel.run, folders=Folders(mined=one.mined, scores=one.scores)))
        confidence = panel.run.confidence
        sizes = {f"n_{task}": len(other.items[task]) for task in TASKS}
        simulated = any(bool(items.simulated.any()) for items in other.items.values())
        words = vocabulary_of(one.mined)
        bare = sum(n for name, n in other.items["t2"].by_slice.items() if name not in VALUE_BEARING)
        chance = {
            "t1": other.exact["t1"],
            "t2_top1": 100 / len(words) if sizes["n_t2"] else None,
            # Without its value a typed or chosen answer is wrong.
            "t2_joint": 100 / len(words) * bare / sizes["n_t2"] if sizes["n_t2"] else None,
            "t3": other.exact["t3"],
        }
        known = {"set": one.name, **sizes, "actions": len(words), "simulated": simulated}
        rows.append({**known, "group": "Baseline", "model": "chance (exact)", "condition": None, **chance})
        by_model: dict[str, list[Answers]] = {}
        for found in other.answers.values():
            by_model.setdefault(found.model, []).append(found)

        def mean(found: Answers, chance: dict = chance) -> float:
            """Return the mean over chance of the probes the set has; not every set has all three."""
            scores = [(score, chance[metric]) for metric in INDEX if (score := found.accuracy(metric)) is not None and chance[metric]]
            return sum((score - level) / (100 - level) for score, level in scores) / len(scores) if scores else -math.inf

        for found in other.ordered([answers[0] for answers in by_model.values()], mean):
            rows += [
                {
                    **known,
                    "group": other.heading(each.model),
                    "model": each.model,
                    "condition": each.condition,
                    "max_image_side": each.side,
                    **{metric: each.accuracy(metric) for metric in METRICS},
                    **{name: end for metric in METRICS for name, end in _ends(each, metric, confidence).items()},
                    "unanswered": _counts(each)["n_unanswered"],
                    "simulated": other.simulated(each),
                }
                for each in by_model[found.model]
            ]
    if not rows:
        raise Empty("No set of probes beyond the paper's was mined; name some in `probes.sets`.")
    return rows


def baselines(panel: Panel) -> list[dict]:
    """Return exact chance, the random solver's mean and the best constant answer."""
    _require_items(panel)
    rows = []
    for metric, task in METRICS.items():
        items = panel.items[task]
        if not len(items):
            continue
        keys = Counter(str(items.slices[place] if metric.startswith("t2") else items.answers[place]) for place in range(len(items)))
        common = min(keys, key=lambda key: (-keys[key], key))
        hits = keys[common]
        if metric == "t2_joint":  # a constant action has no value, so only a constant click can be right
            common, hits = "click", keys["click"]
        rows.append(
            {
                "metric": metric,
                "exact": panel.exact[metric],
                "random_mean": panel.random.accuracy(metric) if panel.random else None,
                "random_runs": panel.random.runs if panel.random else None,
                "constant": _percent(hits, len(items)) if metric != "t1" else None,
                "constant_answer": common if metric != "t1" else None,
                "n": len(items),
                "published": PUBLISHED_CHANCE[metric],
                "simulated": bool(items.simulated.any()),
            }
        )
    return rows


def _counts(one: Answers) -> dict[str, int]:
    return {
        f"n_{status}": sum(n for (_, name), n in one.counts.items() if name == status) for status in ("answered", "unanswered", "invalid")
    }


def _gaps(panel: Panel, one: Answers) -> str | None:
    """Say which tasks a model did not answer whole: its accuracy is over other items than that of the others."""
    said = []
    for task in TASKS:
        n, answered = len(panel.items[task]), one.answered({"t2": "t2_joint"}.get(task, task))
        if task in CONDITIONS[one.condition].tasks and n and answered < n:
            said.append(f"{answered} of {n} {task.upper()} items answered" if answered else f"no answer to {task.upper()}")
    return "; ".join(said) or None


def _constant(panel: Panel) -> dict[tuple[str, str, int], str]:
    """Return the action of those who give one and the same to every T2 item, by model, condition and picture size."""
    names = ["model", "condition", "max_image_side", "answer"]
    table = panel.scores.filter(pc.and_(pc.equal(panel.scores["task"], "t2"), pc.equal(panel.scores["status"], "answered")))
    given: dict[tuple[str, str, int], set] = {}
    for row in table.group_by(names).aggregate([]).to_pylist():
        if row["answer"] is not None:
            given.setdefault((row["model"], row["condition"], row["max_image_side"]), set()).add(_key_word("t2", json.loads(row["answer"])))
    return {key: next(iter(words)) for key, words in given.items() if len(words) == 1 and len(panel.items["t2"]) > 1}


def _always(panel: Panel, word: str | None) -> str | None:
    """Explain how a constant answer can score above uniform guessing."""
    joint, slices = panel.exact["t2_joint"], panel.items["t2"].by_slice
    if not word or joint is None:
        return None
    share = 100 * slices.get(word, 0) / len(panel.items["t2"])
    if word in VALUE_BEARING or share <= joint:
        return f"every T2 answer is `{word}`"
    return (
        f"every T2 answer is `{word}`: it needs no value and is right on {share:.1f} % of the items, uniform guessing on {joint:.1f} %, "
        "so EvoGain is above 0 without seeing anything"
    )


def evogui_main(panel: Panel) -> list[dict]:
    """Return the main table: chance first, then the models by group."""
    rows = []
    constant = _constant(panel) if panel.answers else {}
    chance = panel.exact
    heading = "Baseline"
    rows.append(
        {
            "group": heading,
            "model": "chance (exact)",
            **chance,
            "evogain": panel.gains(chance),
            "runs": None,
            **{f"published_{metric}": None for metric in (*METRICS, "evogain")},
            "simulated": any(bool(items.simulated.any()) for items in panel.items.values()),
        }
    )
    for one in panel.main:
        is_random = panel.random is not None and one.model == panel.random.model
        there = panel.published.get(one.model.casefold())
        if is_random:
            there = {**PUBLISHED_CHANCE, "evogain": 0.0}
        settings = panel.run.models.get(one.model, {})
        row = {
            "group": panel.heading(one.model),
            "model": f"{one.model} (mean of {one.runs} runs)" if one.runs > 1 else one.model,
            **{metric: one.accuracy(metric) for metric in METRICS},
            "evogain": panel.evogain(one),
            **_counts(one),
            "max_image_side": one.side,
            "runs": one.runs,
            "parameters_b": settings.get("parameters_b"),
            "family": settings.get("family"),
            **{f"published_{metric}": there[metric] if there else None for metric in (*METRICS, "evogain")},
            "note": "; ".join(filter(None, (_gaps(panel, one), _always(panel, constant.get((one.model, one.condition, one.side))))))
            or None,
            "simulated": panel.simulated(one),
        }
        rows.insert(0, row) if is_random else rows.append(row)
    return rows


def evogui_intervals(panel: Panel) -> list[dict]:
    """Return EvoGain with both intervals and the ranks the resamples allow."""
    rivals, draws = panel.contest
    _ = panel.main
    known = {row["model"].casefold(): row for row in published("evogui_table3")}
    places = rank_draws(draws)
    clusters = panel.clusters[1]
    note = f"{clusters} trajectories: too few for the clustered interval to cover what it says" if clusters < FEW_CLUSTERS else None
    points = np.array([panel.evogain(one) for one in rivals], float)
    rows = []
    for one in sorted(panel.main, key=lambda one: (-(gain if (gain := panel.evogain(one)) is not None else -1e9), one.model)):
        there = known.get(one.model.casefold())
        low, high = _interval(panel.iid_draws(one), panel.run.confidence)
        row = {
            "rank": None,
            "model": one.model,
            "evogain": panel.evogain(one),
            "evogain_low": low,
            "evogain_high": high,
            **{metric: one.accuracy(metric) for metric in INDEX},
            "group": panel.heading(one.model),
            "published_evogain": there["evogain"] if there else None,
            "published_evogain_low": there["ci_low"] if there else None,
            "published_evogain_high": there["ci_high"] if there else None,
            "simulated": panel.simulated(one, *rivals),
            "clusters": clusters,
        }
        if one in rivals:
            place = rivals.index(one)
            row["rank"] = int((points > points[place]).sum()) + 1
            if clusters > 1:
                ends = np.quantile(
                    places[:, place], [0.5 - panel.run.confidence / 2, 0.5 + panel.run.confidence / 2], method="inverted_cdf"
                )
                row["rank_low"], row["rank_high"] = (int(end) for end in ends)
                row["p_best"] = _percent(float((places[:, place] == 1).mean()), 1)
                row["cluster_low"], row["cluster_high"] = _interval(draws[:, place], panel.run.confidence)
            still = [metric for metric in INDEX if row[metric] in (0, 100)]
            alike = f"no variation to resample in {', '.join(metric.split('_')[0].upper() for metric in still)}" if still else None
            row["note"] = "; ".join(filter(None, (note, alike, _gaps(panel, one)))) or None
        else:
            row["note"] = "not ranked: a baseline" if row["evogain"] is not None else "not ranked: a task without answers"
        rows.append(row)
    return sorted(rows, key=lambda row: (row["rank"] is None, row["rank"] or 0))


def t2_recall(panel: Panel) -> list[dict]:
    """Return T2's action recall by class."""
    return _slices(panel, "t2", "t2_top1", T2_CLASSES, "evogui_table5", whole="t2_top1")


def t2_value_in_goal(panel: Panel) -> list[dict]:
    """Return T2 joint accuracy with and without the items whose value stands verbatim in the goal."""
    main, items = panel.main, panel.items["t2"]
    if not len(items):
        raise Empty("No T2 items were mined in this run.")
    table = panel.scores
    table = table.filter(pc.and_(pc.equal(table["task"], "t2"), pc.fill_null(table["value_in_goal"], False)))
    given_away = np.isin(np.array(items.ids), pc.unique(table["instance_id"]).to_pylist())
    valued = np.isin(items.slices, sorted(VALUE_BEARING))
    rows = []
    for one in main:
        row = {
            "group": panel.heading(one.model),
            "model": one.model,
            "t2_joint": one.accuracy("t2_joint"),
            "joint_without": one.accuracy("t2_joint", ~given_away),
            "n": one.answered("t2_joint"),
            "simulated": bool(items.simulated.any()) or one.simulated,
        }
        for name, keep in (("in_goal", valued & given_away), ("not", valued & ~given_away)):
            row |= {f"n_{name}": one.answered("t2_joint", keep), f"joint_{name}": one.accuracy("t2_joint", keep)}
            row |= _ends(one, "t2_joint", panel.run.confidence, keep, f"joint_{name}")
        rows.append(row)
    return rows


def t3_slices(panel: Panel) -> list[dict]:
    """Return T3 accuracy by kind of distractor."""
    rows = _slices(panel, "t3", "t3", T3_SLICES, "evogui_table6", intervals=True)
    tested = [row for row in rows if row["n_long_skip"] and panel.group(row["model"]) != "baseline"]
    for row in tested:
        hits = round(row["long_skip"] * row["n_long_skip"] / 100)
        # Right against wrong answers under a fair coin: the law of discordant pairs.
        row["long_skip_p"] = mcnemar_exact(hits, row["n_long_skip"] - hits)
    for row, adjusted in zip(tested, holm([row["long_skip_p"] for row in tested]), strict=True):
        row["long_skip_p_adjusted"] = adjusted
    return rows


def _slices(
    panel: Panel, task: str, metric: str, slices: tuple[str, ...], paper: str, whole: str = "", intervals: bool = False
) -> list[dict]:
    main, items = panel.main, panel.items[task]
    if not len(items):
        raise Empty(f"No {task.upper()} items were mined in this run.")
    known = {row["model"].casefold(): row for row in published(paper)}
    rows = []
    for one in main:
        there = known.get(one.model.casefold())
        row = {"group": panel.heading(one.model), "model": one.model, "simulated": bool(items.simulated.any()) or one.simulated}
        if whole:
            row[whole], row[f"published_{whole}"] = one.accuracy(metric), there[whole] if there else None
        for name in slices:
            keep = items.slices == name
            n, score = one.answered(metric, keep), one.accuracy(metric, keep)
            row |= {name: score, f"n_{name}": n, f"published_{name}": there[name] if there else None}
            if intervals:
                row |= _ends(one, metric, panel.run.confidence, keep, name)
        lacking = [LABELS.get(name, name) for name in slices if not row[f"n_{name}"]]
        row["note"] = f"no answered item: {', '.join(lacking)}" if lacking else None
        rows.append(row)
    return rows


def resolution(panel: Panel) -> list[dict]:
    """Return accuracy at 512 and 1024 pixels over the items answered at both, and the paired difference."""
    _ = panel.main
    both = [panel.answers[model, "full", 512] for model, condition, side in panel.answers if (condition, side) == ("full", 512)]
    sides = [one.model for one in panel.ordered([one for one in both if (one.model, "full", 1024) in panel.answers])]
    if not sides:
        raise Empty("No model was asked at both 512 and 1024 pixels.")
    known = {row["model"].casefold(): row for row in published("evogui_table7")}
    rows = []
    for model in sides:
        small, large = panel.answers[model, "full", 512], panel.answers[model, "full", 1024]
        there = known.get(model.casefold())
        for name in (*METRICS, "long_skip"):
            metric = "t3" if name == "long_skip" else name
            if metric not in small.values or metric not in large.values:
                continue
            both = ~np.isnan(small.values[metric]) & ~np.isnan(large.values[metric])
            if name == "long_skip":
                both &= panel.items["t3"].slices == "long_skip"
            if not both.any():
                continue
            pair = [Answers(model, "full", one.side, {metric: np.where(both, one.values[metric], np.nan)}) for one in (small, large)]
            draws = panel.shared_draws(pair, (metric,), f"resolution-{name}")[metric]
            low, high = _interval(draws[:, 1] - draws[:, 0], panel.run.confidence)
            a, b = (one.accuracy(metric) for one in pair)
            rows.append(
                {
                    "model": model,
                    "metric": name,
                    "side_512": a,
                    "side_1024": b,
                    "difference": b - a,
                    "difference_low": low,
                    "difference_high": high,
                    "n": int(both.sum()),
                    "published_side_512": there[f"{name}_512"] if there else None,
                    "published_side_1024": there[f"{name}_1024"] if there else None,
                    "simulated": bool(panel.items[METRICS[metric]].simulated.any()) or small.simulated or large.simulated,
                }
            )
    return rows


def shortcut_controls(panel: Panel) -> list[dict]:
    """Return every model under every condition it was asked in, the solvers first."""
    asked: dict[str, dict[str, list[int]]] = {}
    for model, condition, side in panel.answers:
        asked.setdefault(model, {}).setdefault(condition, []).append(side)
    if not asked:
        raise Empty(NOTHING_SCORED)
    known = {(row["model"].casefold(), row["condition"]): row for row in published("evogui_table8")}
    chosen: dict[str, list[Answers]] = {}
    for model, conditions in asked.items():
        # Conditions are compared at one picture size: the one most of them were asked at.
        sides = Counter(side for found in conditions.values() for side in found)
        best = min(sides, key=lambda side: (-sides[side], side != MAIN_SIDE, side))
        chosen[model] = [
            panel.answers[model, name, best if best in conditions[name] else min(conditions[name])]
            for name in CONDITIONS
            if name in conditions
        ]
    rows = []
    for first in panel.ordered([found[0] for found in chosen.values()]):
        for one in chosen[first.model]:
            there = known.get((one.model.casefold(), one.condition), {})
            row = {
                "model": one.model,
                "condition": one.condition,
                "t1_kendall_tau": one.accuracy("tau"),
                "t2_joint": one.accuracy("t2_joint"),
                "group": panel.heading(one.model),
                "n_asked": sum(one.counts.values()),
                **_counts(one),
                "max_image_side": one.side,
                "runs": one.runs,
                **{f"published_{name}": there.get(name) for name in ("t1", "t1_kendall_tau", "t2_top1", "t3")},
                "simulated": panel.simulated(one),
            }
            for metric in ("t1", "t2_top1", "t3"):
                row |= {metric: one.accuracy(metric), **_ends(one, metric, panel.run.confidence)}
            left = [task.upper() for task in TASKS if task not in CONDITIONS[one.condition].tasks]
            row["note"] = "; ".join(filter(None, (f"asks no {' or '.join(left)}" if left else None, _gaps(panel, one)))) or None
            rows.append(row)
    return rows


def osworld_relation(panel: Panel) -> list[dict]:
    """Return models that have a reported OSWorld success rate."""
    known = {row["model"].casefold(): row for row in published("evogui_table9")}
    rows = [
        {
            "model": one.model,
            "osworld": float(panel.run.models[one.model]["osworld"]),
            "evogain": panel.evogain(one),
            **{f"published_{name}": known.get(one.model.casefold(), {}).get(name) for name in ("osworld", "evogain")},
            "simulated": panel.simulated(one),
        }
        for one in panel.main
        if panel.run.models.get(one.model, {}).get("osworld") is not None
    ]
    if not rows:
        raise Empty("No scored model has an `osworld` figure in the config.")
    return sorted(rows, key=lambda row: (row["osworld"], row["model"]))


def rank_relation(panel: Panel) -> list[dict]:
    """Return rank correlations of EvoGain with OSWorld, with EvoGain-Action and with size."""
    main = [one for one in panel.main if panel.evogain(one) is not None]
    compared = [one for one in main if panel.group(one.model) != "baseline"] or main
    pairs: dict[str, list[tuple[float | None, float | None]]] = {
        "osworld, evogain": [(panel.run.models.get(one.model, {}).get("osworld"), panel.evogain(one)) for one in compared],
        "evogain, evogain_action": [(panel.evogain(one), panel.evogain(one, INDEX_ACTION)) for one in compared],
        "parameters_b, evogain": [(panel.run.models.get(one.model, {}).get("parameters_b"), panel.evogain(one)) for one in compared],
    }
    rows = []
    for name, values in pairs.items():
        kept = [(float(a), float(b)) for a, b in values if a is not None and b is not None]
        if len(kept) < 2:
            continue
        x, y = zip(*kept, strict=True)
        untied = len(set(x)) == len(x) and len(set(y)) == len(y)
        tau = kendall_tau_b(x, y)
        rows.append(
            {
                "pair": name,
                "n": len(kept),
                "spearman": spearman_rho(x, y),
                "kendall": tau,
                "pearson": pearson_r(x, y),
                "spearman_p": spearman_p_two_sided(x, y),
                "kendall_p": kendall_exact_p_two_sided(tau, len(kept)) if untied and tau is not None and len(kept) <= 100 else None,
                **{f"published_{column}": value for column, value in PUBLISHED_RELATIONS.get(name, {}).items()},
                "note": None if tau is not None else "one side is constant",
                "simulated": panel.simulated(*compared),
            }
        )
    if not rows:
        raise Empty("Fewer than two models have both values.")
    return rows


def evogain_action(panel: Panel) -> list[dict]:
    """Return EvoGain beside EvoGain-Action, and both ranks."""
    found = [(one, panel.evogain(one), panel.evogain(one, INDEX_ACTION)) for one in panel.main]
    rivals = [row for row in found if None not in row and panel.group(row[0].model) != "baseline"] or [
        row for row in found if None not in row
    ]
    rows = []
    for one, gain, action in found:
        there = panel.published.get(one.model.casefold())
        ranked = any(one is rival for rival, _, _ in rivals)
        rows.append(
            {
                "model": one.model,
                "evogain": gain,
                "evogain_action": action,
                "rank": 1 + sum(other > gain for _, other, _ in rivals) if ranked else None,
                "rank_action": 1 + sum(other > action for _, _, other in rivals) if ranked else None,
                "published_evogain": there["evogain"] if there else None,
                "simulated": panel.simulated(one, *(rival for rival, _, _ in rivals)),
            }
        )
    return rows


def pairwise_models(panel: Panel) -> list[dict]:
    """Return every pair's difference in EvoGain under shared resamples."""
    from scipy.special import ndtr, stdtr

    _ = panel.main
    rivals, draws = panel.contest
    uneven = [_gaps(panel, one) is not None for one in rivals]
    if len(rivals) < 2:
        raise Empty("Fewer than two models were scored.")
    clusters = panel.clusters[1]
    few = clusters < FEW_CLUSTERS
    rows, p = [], []
    points = [panel.evogain(one) for one in rivals]
    order = sorted(range(len(rivals)), key=lambda place: (-points[place], rivals[place].model))
    for number, a in enumerate(order):
        for b in order[number + 1 :]:
            apart = draws[:, a] - draws[:, b]
            difference = points[a] - points[b]
            low, high = _interval(apart, panel.run.confidence) if clusters > 1 else (None, None)
            spread = float(np.nanstd(apart, ddof=1)) if clusters > 1 else 0.0
            # With few clusters the normal law is too sure of itself; Student's t allows for it.
            score = abs(difference) / spread if spread > 0 else None
            p.append(1.0 if score is None else float(2 * (stdtr(clusters - 1, -score) if few else ndtr(-score))))
            rows.append(
                {
                    "model_a": rivals[a].model,
                    "model_b": rivals[b].model,
                    "difference": difference,
                    "low": low,
                    "high": high,
                    "p": p[-1],
                    "clusters": clusters,
                    "note": "; ".join(
                        filter(
                            None,
                            (
                                f"{clusters} trajectories only" if few else None,
                                "not over the same items" if uneven[a] or uneven[b] else None,
                            ),
                        )
                    )
                    or None,
                    "simulated": panel.simulated(rivals[a], rivals[b]),
                }
            )
    for row, adjusted in zip(rows, holm(p), strict=True):
        row["p_adjusted"] = adjusted
    return rows


def _confident(panel: Panel) -> list[tuple[Answers, str, np.ndarray, np.ndarray, int]]:
    """Return (answers, task, confidence, correct, answered) of main rows that state a confidence."""
    _ = panel.main
    table = panel.scores
    model, task, status = (np.array(table[name].to_pylist(), object) for name in ("model", "task", "status"))
    condition, side = np.array(table["condition"].to_pylist(), object), np.asarray(table["max_image_side"])
    confidence, correct = numbers(table["confidence"]), numbers(table["correct"])
    found = []
    for one in panel.main:
        mine = (model == one.model) & (condition == one.condition) & (side == one.side) & (status == "answered")
        for name in TASKS:
            inside = mine & (task == name)
            stated = inside & ~np.isnan(confidence)
            if stated.any():
                found.append((one, name, np.clip(confidence[stated], 0, 1), correct[stated], int(inside.sum())))
    if not found:
        raise Empty("No answer states a confidence.")
    return found


def calibration(panel: Panel) -> list[dict]:
    """Return how far stated confidence matches accuracy."""
    return [
        {
            "model": one.model,
            "task": task,
            "n": len(stated),
            "brier": brier_score(stated, right),
            "ece": expected_calibration_error(stated, right),
            "confidence": 100 * float(stated.mean()),
            "accuracy": 100 * float(right.mean()),
            "n_answered": answered,
            "simulated": panel.simulated(one),
        }
        for one, task, stated, right, answered in _confident(panel)
    ]


def reliability(panel: Panel) -> list[dict]:
    """Return the bins of the calibration table."""
    rows = []
    for one, task, stated, right, _ in _confident(panel):
        for held in reliability_bins(stated, right):
            low, high = _wilson(held["n_correct"], held["n"], panel.run.confidence)
            rows.append(
                {
                    "model": one.model,
                    "task": task,
                    "bin_low": held["low"],
                    "bin_high": held["high"],
                    "n": held["n"],
                    "confidence": 100 * held["confidence"],
                    "accuracy": 100 * held["accuracy"],
                    "accuracy_low": low,
                    "accuracy_high": high,
                    "simulated": panel.simulated(one),
                }
            )
    return rows


def _key_word(task: str, answer: object) -> str | None:
    """Return what the position-bias table counts in an answer or a key."""
    if task == "t1":
        order = answer.get("order") if isinstance(answer, dict) else answer
        return None if not isinstance(order, list) else "as shown" if order == sorted(order) else "otherwise"
    if isinstance(answer, dict):
        answer = answer.get("action") or answer.get("answer")
    elif isinstance(answer, list):
        answer = answer[0] if answer else None
    return answer if isinstance(answer, str) else None


def position_bias(panel: Panel) -> list[dict]:
    """Return the share of each answer beside the share of its keys."""
    _ = panel.main
    counts: dict[tuple[str, str, int], Counter] = {}
    grouped = panel.scores.group_by(["model", "condition", "max_image_side", "task", "status", "answer"]).aggregate([([], "count_all")])
    for row in grouped.to_pylist():
        if row["status"] == "answered" and row["answer"] is not None:
            word = _key_word(row["task"], json.loads(row["answer"]))
            if word is not None:
                counts.setdefault((row["model"], row["task"], row["max_image_side"] if row["condition"] == "full" else -1), Counter())[
                    word
                ] += row["count_all"]
    rows = []
    for one in panel.main:
        for task in TASKS:
            given, items = counts.get((one.model, task, one.side)), panel.items[task]
            if not given or not len(items):
                continue
            keys = Counter(filter(None, (_key_word(task, list(key) if task == "t1" and key is not None else key) for key in items.answers)))
            total, known = given.total(), keys.total()
            for word in sorted({*given, *keys} - {"otherwise"}):
                share, expected = 100 * given[word] / total, _percent(keys[word], known)
                rows.append(
                    {
                        "model": one.model,
                        "task": task,
                        "answer": word,
                        "share": share,
                        "expected_share": expected,
                        "n": total,
                        "difference": None if expected is None else share - expected,
                        "simulated": bool(items.simulated.any()) or one.simulated,
                    }
                )
    if not rows:
        raise Empty("No answer could be read.")
    return rows
