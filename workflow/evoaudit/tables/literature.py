"""The papers' printed tables, as data, and the check that they follow from one another."""

import csv
import itertools
import math
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path

from evoaudit.errors import InputError
from evoaudit.resources import PUBLISHED
from evoaudit.stats import (
    baseline_t1,
    baseline_t2_joint,
    evogain,
    evogain_action,
    kendall_exact_p_two_sided,
    kendall_tau_b,
    pearson_r,
    spearman_p_two_sided,
    spearman_rho,
    wilson_ci,
)
from evoaudit.stats.check import AGREES, DIFFERS, NOT_DERIVABLE, expected_agreement, half_unit, hidden_counts, status
from evoaudit.stats.evogain import CHANCE_T3

CUA, EVOGUI = "CUA audit", "EvoGUI"
#: The chance level the paper prints, T1, T2 joint, T3; and T2 action.
CHANCE = (8.0, 15.0, 49.9)
CHANCE_ACTION = 33.3
CLASSES = {"click": 461, "type": 461, "select": 78}
SLICES = {"cross": 334, "same_domain": 333, "long_skip": 333}


def _value(text: str) -> str | float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return text


@cache
def _text(name: str, folder: Path = PUBLISHED) -> tuple[dict[str, str], ...]:
    path = folder / f"{name}.csv"
    try:
        with open(path, encoding="utf-8", newline="") as handle:
            return tuple(csv.DictReader(handle))
    except FileNotFoundError:
        raise InputError(path, "file not found", "restore resources/published/") from None


@cache
def published(name: str) -> list[dict]:
    """Return a printed table as dicts; numbers as floats, empty cells as None."""
    return [{key: _value(cell) for key, cell in row.items()} for row in _text(name)]


def landscape() -> list[dict]:
    """Return the benchmarks by setting."""
    return published("cua_table1")


def design_guidelines() -> list[dict]:
    """Return the design guidelines by stage."""
    return published("cua_table3")


def mast_map() -> list[dict]:
    """Return which MAST mode became which category."""
    return published("cua_table4")


def _row(
    paper: str, location: str, quantity: str, value: float | None, recomputed: float | None, verdict: str, note: str | None = None
) -> dict:
    return {
        "paper": paper,
        "location": location,
        "quantity": quantity,
        "published": value,
        "recomputed": recomputed,
        "status": verdict,
        "note": note,
    }


def _compare(
    paper: str,
    location: str,
    quantity: str,
    value: str | float,
    recomputed: float | None,
    tolerance: float | None = None,
    note: str | None = None,
) -> dict:
    """Compare one printed figure; the tolerance is half a unit of its last place unless given."""
    number = float(value)
    allowed = half_unit(Decimal(str(value))) if tolerance is None else tolerance
    return _row(paper, location, quantity, number, recomputed, status(number, recomputed, allowed), note)


def published_check() -> list[dict]:
    """Recompute every figure of both papers that follows from others they print."""
    return [
        *_evogain_rows(),
        *_sums_of_counts(),
        *_bootstrap_table(),
        *_places(),
        *_relations(),
        *_controls_and_resolution(),
        *_control_run(),
        *_claims(),
        *_chance(),
        *_evogui_text(),
        *_cua_verdicts(),
        *_cua_taxonomy(),
        *_cua_text(),
        *_cua_rates(),
        *_kappas(),
        *_not_derivable(),
    ]


def _main() -> list[dict[str, str]]:
    return [row for row in _text("evogui_table2") if row["group"] != "baseline"]


def _scores(row: dict, *names: str) -> list[float]:
    return [float(row[name]) for name in names]


def _evogain_rows() -> Iterator[dict]:
    for row in _main():
        yield _compare(
            EVOGUI, "Table 2", f"EvoGain of {row['model']}", row["evogain"], evogain(*_scores(row, "t1", "t2_joint", "t3"), CHANCE)
        )


def _pooled(row: dict[str, str], sizes: dict[str, int]) -> tuple[float | None, str | None]:
    """Return the percentage the slices' hidden counts add up to, and a note if it takes double rounding or is ambiguous."""
    counts, notes = [], []
    for name, n in sizes.items():
        cell = Decimal(row[name])
        found = hidden_counts(cell, n)
        if not found:
            found = hidden_counts(cell, n, twice=True)
            notes.append(f"{name} {row[name]} is no rounding of k/{n}, only of its two-place rounding")
        counts.append(found)
    if not all(counts):
        return None, "no count fits a slice"
    sums = {sum(pick) for pick in itertools.product(*counts)}
    if len(sums) > 1:
        notes.append(f"{len(sums)} totals fit")
    return 100 * min(sums) / sum(sizes.values()), "; ".join(notes) or None


def _sums_of_counts() -> Iterator[dict]:
    main = {row["model"]: row for row in _main()}
    for table, location, whole, sizes in (("evogui_table5", "Table 5", "t2_top1", CLASSES), ("evogui_table6", "Table 6", "t3", SLICES)):
        for row in _text(table):
            total, note = _pooled(row, sizes)
            label = {"t2_top1": "T2 top-1", "t3": "T3"}[whole]
            yield _compare(
                EVOGUI,
                location,
                f"{label} of {row['model']} from its {'classes' if whole == 't2_top1' else 'slices'}",
                main[row["model"]][whole],
                total,
                note=note,
            )
    for row in _text("evogui_table5"):
        yield _compare(EVOGUI, "Table 5", f"T2 top-1 of {row['model']} as in Table 2", row["t2_top1"], float(main[row["model"]]["t2_top1"]))


def _bootstrap_table() -> Iterator[dict]:
    """Check Table 3: points as means over 1,000 resamples, ends as their percentiles.

    A mean over 1,000 resamples scatters by 0.032 of the standard error, a percentile end by about 0.085 of it.
    """
    main = {row["model"]: row for row in _main()}
    for row in _text("evogui_table3"):
        model = main[row["model"]]
        scores = _scores(model, "t1", "t2_joint", "t3")
        gain = evogain(*scores, CHANCE)
        error = _standard_error(model)
        for name, label, plug_in in (
            ("evogain", "EvoGain", gain),
            *zip(("t1", "t2_joint", "t3"), ("T1", "T2 joint", "T3"), scores, strict=True),
        ):
            spread = error if name == "evogain" else 100 * math.sqrt(plug_in / 100 * (1 - plug_in / 100) / 1000)
            observed = status(float(row[name]), plug_in, 0.005) == AGREES
            yield _compare(
                EVOGUI,
                "Table 3",
                f"{label} of {row['model']}",
                row[name],
                plug_in,
                tolerance=3.5 * spread / math.sqrt(1000) + 0.005,
                note=None if observed else "printed is a mean over 1,000 resamples, not the observed figure",
            )
        for name, sign in (("ci_low", -1), ("ci_high", 1)):
            yield _compare(
                EVOGUI,
                "Table 3",
                f"{'lower' if sign < 0 else 'upper'} end of {row['model']}",
                row[name],
                gain + sign * 1.959964 * error,
                tolerance=3 * 0.085 * error + 0.05,
                note="within the noise of 1,000 resamples",
            )


def _places() -> Iterator[dict]:
    """Check that Table 3 lists the highest of Table 2, in their order."""
    gains = sorted(((evogain(*_scores(row, "t1", "t2_joint", "t3"), CHANCE), row["model"]) for row in _main()), reverse=True)
    place = {model: number for number, (_, model) in enumerate(gains, 1)}
    for row in _text("evogui_table3"):
        yield _compare(EVOGUI, "Table 3", f"rank of {row['model']} among all of Table 2", int(row["rank"]), place[row["model"]], 0)


def _relations() -> Iterator[dict]:
    main = _main()
    gains = [evogain(*_scores(row, "t1", "t2_joint", "t3"), CHANCE) for row in main]
    actions = [evogain_action(*_scores(row, "t1", "t2_top1", "t3"), (CHANCE[0], CHANCE_ACTION, CHANCE[2])) for row in main]
    yield _compare(EVOGUI, "A.6", "Pearson, EvoGain and EvoGain-Action", "0.991", pearson_r(gains, actions))
    yield _compare(
        EVOGUI, "A.6", "Spearman, EvoGain and EvoGain-Action", "0.977", spearman_rho(gains, actions), note="of unrounded indices"
    )
    five = published("evogui_table9")
    for rows, label, rho, tau in (
        (five, "five models", "0.90", "0.80"),
        ([row for row in five if row["harness"] == "shared"], "shared harness", "1.0", "1.0"),
    ):
        x, y = [row["osworld"] for row in rows], [row["evogain"] for row in rows]
        p = spearman_p_two_sided(x, y)
        found = kendall_tau_b(x, y)
        yield _compare(
            EVOGUI, "Table 9", f"Spearman, OSWorld and EvoGain, {label}", rho, spearman_rho(x, y), note=f"exact two-sided p {p:.3f}"
        )
        yield _compare(
            EVOGUI,
            "Table 9",
            f"Kendall, OSWorld and EvoGain, {label}",
            tau,
            found,
            note=f"exact two-sided p {kendall_exact_p_two_sided(found, len(x)):.3f}",
        )
    printed = {row["model"]: row for row in main}
    for row in _text("evogui_table9"):
        yield _compare(
            EVOGUI, "Table 9", f"EvoGain of {row['model']} as in Table 2", row["evogain"], float(printed[row["model"]]["evogain"])
        )


def _controls_and_resolution() -> Iterator[dict]:
    rows = {row["condition"]: row for row in published("evogui_table8")}
    full = rows["full"]
    for metric, label, low, high in (("t1", "T1", "73.7", "75.4"), ("t2_top1", "T2 action", "25.0", "26.8"), ("t3", "T3", "29.9", "30.6")):
        falls = sorted(100 * (1 - rows[condition][metric] / full[metric]) for condition in ("black", "metadata"))
        yield _compare(EVOGUI, "A.9", f"relative fall of {label} without vision, least", low, falls[0])
        yield _compare(EVOGUI, "A.9", f"relative fall of {label} without vision, most", high, falls[1])
    main = {row["model"]: row for row in _main()}
    skips = {row["model"]: row["long_skip"] for row in _text("evogui_table6")}
    sweep = _text("evogui_table7")
    for row in sweep:
        for metric, label in (("t1", "T1"), ("t2_top1", "T2 top-1"), ("t2_joint", "T2 joint"), ("t3", "T3"), ("long_skip", "long skip")):
            there = skips[row["model"]] if metric == "long_skip" else main[row["model"]][metric]
            yield _compare(
                EVOGUI, "Table 7", f"{label} of {row['model']} at 512 px as in the main tables", row[f"{metric}_512"], float(there)
            )
    for metric, label, count in (("t2_top1", "T2 top-1", 8), ("t2_joint", "T2 joint", 8), ("t1", "T1", 7)):
        better = sum(float(row[f"{metric}_1024"]) > float(row[f"{metric}_512"]) for row in sweep)
        yield _compare(EVOGUI, "A.8", f"models whose {label} rises at 1024 px", count, better, 0)


def _control_run() -> Iterator[dict]:
    """Check that the control's own run of a model is the main table's, but for chance; and that its cells are shares of the slice."""
    control = next(row for row in published("evogui_table8") if row["condition"] == "full")
    main = next(row for row in _main() if row["model"] == control["model"])
    for metric, label in (("t1", "T1"), ("t2_top1", "T2 action"), ("t3", "T3")):
        there = float(main[metric])
        spread = 100 * math.sqrt(2 * there / 100 * (1 - there / 100) / 1000)
        yield _compare(
            EVOGUI,
            "Table 8",
            f"{label} of {control['model']} with pictures as in Table 2",
            control[metric],
            there,
            tolerance=1.959964 * spread,
            note=f"another run of the same model and items; {abs(control[metric] - there) / spread:.1f} standard errors apart",
        )
    n = SLICES["long_skip"]
    for row in _text("evogui_table7"):
        cell = Decimal(row["long_skip_1024"])
        single, twice = hidden_counts(cell, n), hidden_counts(cell, n, twice=True)
        counts = single or twice
        note = f"{counts[0]} of {n}" + ("" if single else "; only if it was rounded twice") if counts else "no count gives it"
        found = 100 * counts[0] / n if counts else None
        yield _row(
            EVOGUI,
            "Table 7",
            f"long skip of {row['model']} at 1024 px as a share of {n}",
            float(cell),
            found,
            AGREES if counts else DIFFERS,
            note,
        )


def _claims() -> Iterator[dict]:
    """Check what the text says of the tables."""
    main = {row["model"]: row for row in _main()}
    for group, count in (("open", 17), ("closed", 11)):
        found = sum(row["group"] == group for row in main.values())
        yield _row(EVOGUI, "Table 2", f"{group} models", None, found, AGREES if found == count else DIFFERS, "17 and 11 make the 28")
    best = main["Gemini-3-Flash-Preview"]
    errors = 100 - float(best["t1"])
    yield _row(
        EVOGUI,
        "3.2.1",
        "exact-ordering errors of the best model, percent",
        40.0,
        errors,
        AGREES if errors > 40 else DIFFERS,
        "text: over 40 %",
    )
    above = sum(float(row["t2_top1"]) > float(row["t2_joint"]) for row in main.values())
    note = "true by construction: a right action and value is a right action"
    yield _row(
        EVOGUI, "3.2.2", "models whose action-only accuracy exceeds the joint one", 28.0, above, AGREES if above == 28 else DIFFERS, note
    )
    for larger, smaller in (("Qwen3.5-397B-A17B", "Qwen3.5-122B-A10B"), ("Qwen3-VL-235B-A22B", "Qwen3.5-35B-A3B")):
        gap = float(main[larger]["evogain"]) - float(main[smaller]["evogain"])
        errors = [_standard_error(main[name]) for name in (larger, smaller)]
        note = f"text: below; {abs(gap) / math.hypot(*errors):.1f} standard errors if the two are taken for independent"
        yield _row(EVOGUI, "3.2", f"EvoGain of {larger} less that of {smaller}", None, gap, AGREES if gap < 0 else DIFFERS, note)
    rows = published("evogui_table3")
    apart = rows[0]["ci_low"] - rows[1]["ci_high"]
    yield _row(
        EVOGUI, "3.2", "gap between the intervals of ranks 1 and 2", None, apart, AGREES if apart > 0 else DIFFERS, "text: separated"
    )
    pairs = list(itertools.combinations([row for row in rows if 4 <= row["rank"] <= 10], 2))
    overlap = sum(a["ci_low"] <= b["ci_high"] and b["ci_low"] <= a["ci_high"] for a, b in pairs)
    note = f"text: several overlap; of {len(pairs)} pairs, and ranks 2 and 3 do too"
    yield _row(EVOGUI, "A.4", "pairs of ranks 4 to 10 whose intervals overlap", None, overlap, AGREES if overlap else DIFFERS, note)


def _standard_error(row: dict) -> float:
    """Return the standard error of a printed EvoGain, over 1,000 items a task."""
    scores = zip(_scores(row, "t1", "t2_joint", "t3"), CHANCE, strict=True)
    return math.sqrt(sum(p / 100 * (1 - p / 100) / 1000 * (100 / (1 - b / 100) / 3) ** 2 for p, b in scores))


def _chance() -> Iterator[dict]:
    exact = {"T1": baseline_t1({3: 334, 4: 333, 5: 333}), "T2 joint": baseline_t2_joint(**CLASSES), "T3": CHANCE_T3}
    for (label, value), printed in zip(exact.items(), CHANCE, strict=True):
        error = 100 * math.sqrt(value / 100 * (1 - value / 100) / 4000)
        yield _compare(
            EVOGUI,
            "Table 2",
            f"chance, {label}",
            printed,
            value,
            tolerance=3 * error + 0.05,
            note=f"exact chance; the printed mean of four random runs is {abs(printed - value) / error:.1f} standard errors off",
        )
    guess = next(row for row in _text("evogui_table2") if row["group"] == "baseline")
    yield _compare(
        EVOGUI, "Table 2", "chance, T2 action", CHANCE_ACTION, 100 / len(CLASSES), note="one action of three, by uniform guessing"
    )
    yield _compare(EVOGUI, "Table 2", "index of the random row", guess["evogain"], evogain(*CHANCE, CHANCE), note="over itself")
    yield _row(
        EVOGUI,
        "A.9",
        "items whose action is click, over those whose action is type",
        None,
        CLASSES["click"] - CLASSES["type"],
        DIFFERS,
        "the text credits a higher frequency of click; Table 1 has as many of each",
    )


def _evogui_text() -> Iterator[dict]:
    main = {row["model"]: row for row in _main()}
    best = main["Gemini-3-Flash-Preview"]
    items = {part: sum(row["value"] for row in published("evogui_table1") if row["part"] == part) for part in ("T1", "T2", "T3")}
    yield _compare(EVOGUI, "Abstract", "instances", 3000, sum(items.values()), 0)
    yield _compare(EVOGUI, "A.3", "predictions of one configuration", 3000, sum(items.values()), 0)
    yield _compare(EVOGUI, "A.3", "predictions in the main comparison", 84000, len(main) * sum(items.values()), 0)
    yield _compare(EVOGUI, "3.1", "model configurations", 28, len(main), 0)
    for metric, label, chance, value in (("t1", "T1", 8.0, "50.3"), ("t2_joint", "T2 joint", 15.0, "50.4"), ("t3", "T3", 49.9, "33.7")):
        yield _compare(EVOGUI, "3.2", f"best model above chance, {label}", value, float(best[metric]) - chance)
    for row in published("evogui_table1"):
        if row["part"] == "All":
            yield _row(EVOGUI, "Table 1", str(row["slice"]).replace("_", " "), row["value"], None, NOT_DERIVABLE, "needs the split itself")
    for part, n in items.items():
        yield _compare(EVOGUI, "Table 1", f"items of {part}", 1000, n, 0)


def _cua_verdicts() -> Iterator[dict]:
    rows = _text("cua_table2_verdicts")
    parts, whole = rows[:-1], rows[-1]
    for row in rows:
        counts = {name: int(row[name]) for name in ("n", "gf", "efn", "broken", "unclear")}
        yield _compare(CUA, "Table 2", f"verdicts of {row['benchmark']} add up to n", counts["n"], sum(list(counts.values())[1:]), 0)
        yield _compare(
            CUA,
            "Table 2",
            f"wrong verdicts of {row['benchmark']}, percent",
            row["wrong_pct"],
            100 * (counts["efn"] + counts["broken"]) / counts["n"],
        )
    for name in ("n", "gf", "efn", "broken", "unclear"):
        yield _compare(CUA, "Table 2", f"{name} over the benchmarks", int(whole[name]), sum(int(row[name]) for row in parts), 0)
    for label, k, ends in (
        ("wrong verdicts", 23, ("10.4", "22.0")),
        ("evaluator false negatives", 16, ("6.7", "16.6")),
        ("broken tasks", 7, ("2.3", "9.3")),
        ("unclear", 5, ("1.4", "7.6")),
    ):
        for side, printed, bound in zip(("lower", "upper"), ends, wilson_ci(k, 150), strict=True):
            yield _compare(CUA, "4.4", f"{side} Wilson end, {label}", printed, 100 * bound)


def _cua_taxonomy() -> Iterator[dict]:
    rows = _text("cua_table2_taxonomy")
    for tier in dict.fromkeys(row["tier"] for row in rows):
        inside = [row for row in rows if row["tier"] == tier]
        total = sum(int(row["n"]) for row in inside)
        yield _compare(CUA, "Table 2", f"{tier}, cases", int(inside[0]["tier_total"]), total, 0)
        yield _compare(CUA, "Table 2", f"{tier}, share of genuine failures", inside[0]["tier_share_pct"], 100 * total / 122)
    yield _compare(CUA, "Table 2", "diagnoses add up to the genuine failures", 122, sum(int(row["n"]) for row in rows), 0)
    for code, printed in (("t3-noop", "29.5"), ("t1-spec", "14.8"), ("t1-loop", "16.4")):
        yield _compare(CUA, "4.4", f"share of {code}", printed, 100 * next(int(row["n"]) for row in rows if row["category"] == code) / 122)


def _cua_text() -> Iterator[dict]:
    flow = published("cua_sampling")
    yield _compare(CUA, "4.1", "sampled trajectories", 158, sum(row["quota"] for row in flow), 0)
    yield _compare(CUA, "4.1", "analysed trajectories", 150, sum(row["analysed"] for row in flow), 0)
    yield _compare(CUA, "4.1", "calibration trajectories", 8, sum(row["quota"] - row["analysed"] for row in flow), 0)
    yield _compare(CUA, "4.2", "reviewed rows", 104, 74 + 30, 0)
    yield _compare(CUA, "4.2", "rows without review", 46, 150 - 104, 0)
    for label, printed, k, n in (
        ("of the judges, verdicts", "92.7", 139, 150),
        ("of the human groups", "85.6", 89, 104),
        ("of human and judge, least", "76.0", 79, 104),
        ("of human and judge, most", "81.7", 85, 104),
    ):
        yield _compare(CUA, "4.4", f"raw agreement {label}", printed, 100 * k / n)
    rates = []
    for label, printed in (("GPT-5.5", "13.5"), ("Claude Sonnet", "7.7"), ("human group 1", "20.2"), ("human group 2", "13.5")):
        counts = hidden_counts(Decimal(printed), 104)
        rates.append(counts[0] / 104)
        yield _compare(
            CUA,
            "4.4",
            f"wrong-verdict rate, {label}",
            printed,
            100 * rates[-1],
            note=f"{counts[0]} of 104" if len(counts) == 1 else "several counts fit",
        )
    mean = sum(rates) / 4
    variance = sum((rate - mean) ** 2 for rate in rates) / 3
    yield _compare(CUA, "4.4", "annotator rates, mean", "13.7", 100 * mean)
    yield _compare(CUA, "4.4", "annotator rates, sample standard deviation", "5.1", 100 * math.sqrt(variance))
    yield _compare(CUA, "4.4", "annotator rates, sample variance", "0.0026", variance)
    yield _compare(CUA, "4.4", "annotator rates, least", "7.7", 100 * min(rates))
    yield _compare(CUA, "4.4", "annotator rates, most", "20.2", 100 * max(rates))
    for label, before, after in (("first judge", 14, 8), ("second judge", 10, 6)):
        fall = 100 * (before - after) / before
        yield _row(
            CUA, "5", f"false negatives lost without screenshots, {label}, percent", 50.0, fall, DIFFERS, "printed in words as about half"
        )


def _cua_rates() -> Iterator[dict]:
    rows = {row["benchmark"]: row for row in published("cua_table2_verdicts")}
    for benchmark, verdict, printed in (
        ("All", "efn", "10.7"),
        ("All", "broken", "4.7"),
        ("All", "unclear", "3.3"),
        ("WebArena", "efn", "21.7"),
        ("AssistantBench", "broken", "21.7"),
        ("OSWorld", "efn", "14.0"),
    ):
        row = rows[benchmark]
        label = {"efn": "evaluator false negatives", "broken": "broken tasks", "unclear": "unclear verdicts"}[verdict]
        yield _compare(CUA, "4.4", f"{label} of {benchmark}, percent", printed, 100 * row[verdict] / row["n"])
    yield _compare(CUA, "4.4", "wrong verdicts of WorkArena", 0, rows["WorkArena"]["efn"] + rows["WorkArena"]["broken"], 0)
    parts = [row for name, row in rows.items() if name != "All"]
    yield _compare(CUA, "4.1", "analysed trajectories of OSWorld", 57, rows["OSWorld"]["n"], 0)
    yield _compare(CUA, "4.1", "analysed trajectories of AgentRewardBench", 93, sum(row["n"] for row in parts) - rows["OSWorld"]["n"], 0)
    yield _compare(CUA, "Limitations", "least trajectories of a benchmark", 23, min(row["n"] for row in parts), 0)
    yield _compare(CUA, "Limitations", "most trajectories of a benchmark", 57, max(row["n"] for row in parts), 0)
    mapped = " ".join(str(row["category"]).casefold() for row in published("cua_table4"))
    missing = [
        row["category"] for row in published("cua_table2_taxonomy") if row["tier"].startswith("Tier") and row["category"] not in mapped
    ]
    yield _row(
        CUA,
        "Table 4",
        "categories without a row of the mapping",
        0.0,
        float(len(missing)),
        DIFFERS if missing else AGREES,
        f"text: records the full mapping; {', '.join(missing) or 'none'} is not in it",
    )


def _kappas() -> Iterator[dict]:
    """Check that a printed kappa can go with the raw agreement printed beside it; four verdicts, so not every kappa can."""
    for label, kappa, agree, n in (
        ("of the judges, verdicts", "0.71", (139,), 150),
        ("of the human groups", "0.59", (89,), 104),
        ("of human and judge, least", "0.19", (79, 85), 104),
        ("of human and judge, most", "0.32", (79, 85), 104),
    ):
        ends = [(k / n - chance) / (1 - chance) for k in agree for chance in expected_agreement(k, n, 4)]
        low, high = min(ends), max(ends)
        fits = low - 0.005 <= float(kappa) <= high + 0.005
        counts = " to ".join(map(str, agree))
        note = f"possible from {low:.2f} to {high:.2f}, the labels not being printed"
        yield _row(CUA, "4.4", f"Cohen kappa {label}, with {counts} of {n} agreeing", float(kappa), None, AGREES if fits else DIFFERS, note)


def _not_derivable() -> Iterator[dict]:
    for quantity, value in (
        ("Cohen kappa of the judges, verdicts", 0.71),
        ("Cohen kappa of the judges, diagnoses", 0.41),
        ("Cohen kappa of the human groups", 0.59),
        ("Cohen kappa of human and judge, least", 0.19),
        ("Cohen kappa of human and judge, most", 0.32),
        ("Fleiss kappa of four raters", 0.36),
        ("Cohen kappa of the judges without screenshots", 0.60),
        ("verdicts flipped without screenshots, first judge", 12),
        ("verdicts flipped without screenshots, second judge", 13),
    ):
        yield _row(CUA, "4.4", quantity, value, None, NOT_DERIVABLE, "needs the label rows")
    for condition in ("full", "black", "metadata"):
        tau = next(row["t1_kendall_tau"] for row in published("evogui_table8") if row["condition"] == condition)
        yield _row(EVOGUI, "Table 8", f"T1 Kendall tau, {condition}", tau, None, NOT_DERIVABLE, "needs the orders given")


def action_map() -> list[dict]:
    """Return what every reader makes of every verb it knows."""
    from evoaudit.actions import VALUE_BEARING, t2_class
    from evoaudit.sources import MODULES, reader

    found: dict[tuple[str, str], set[str]] = {}
    for kind in MODULES:
        for verb, op in sorted(getattr(reader(kind), "ACTIONS", {}).items()):
            if isinstance(verb, str) and isinstance(op, str):
                found.setdefault((verb, op), set()).add(kind)
    printed = {str(row["source_action"]).casefold(): row for row in published("evogui_table4")}
    rows = []
    for (verb, op), kinds in found.items():
        there = printed.get(verb.casefold())
        used = t2_class(op)
        rows.append(
            {
                "source_action": verb,
                "unified_action": used or op,
                "t2_use": "excluded" if used is None else "retained with value" if used in VALUE_BEARING else "retained",
                "sources": ", ".join(sorted(kinds)),
                "published_unified_action": there["unified_action"] if there else None,
                "published_t2_use": there["t2_use"] if there else None,
            }
        )
    return sorted(
        rows,
        key=lambda row: (
            ["retained", "retained with value", "excluded"].index(row["t2_use"]),
            row["unified_action"],
            row["source_action"].casefold(),
            row["source_action"],
        ),
    )
