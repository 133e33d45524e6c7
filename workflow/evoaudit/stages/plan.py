"""``evoaudit plan``: how many verdicts to audit before the interval is as narrow as wanted, before anybody labels one."""

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from evoaudit.errors import InputError, one_line
from evoaudit.yamlfile import quoted

if TYPE_CHECKING:
    from evoaudit.stats.planning import Design

#: Statuses of the sample that were there to be drawn.
DRAWABLE = ("analysed", "calibration", "not_drawn")
ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    parser.add_argument("--rate", type=float, default=15.0, metavar="PERCENT", help="share of wrong verdicts you expect (default: 15)")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--half-width", type=float, metavar="POINTS", help="wanted: the interval reaches so many points to each side")
    what.add_argument("--n", type=int, metavar="N", help="instead: the interval that so many verdicts give")
    there = parser.add_mutually_exclusive_group()
    there.add_argument("--population", type=int, metavar="N", help="verdicts there are (default: as if endless)")
    there.add_argument(
        "--benchmark", action="append", default=[], metavar="NAME=N", help="verdicts there are of a benchmark; once for each benchmark"
    )
    there.add_argument("--sample", type=Path, metavar="MANIFEST", help="count them by benchmark in a sample that was drawn")
    there.add_argument("--configfile", nargs="+", type=Path, metavar="FILE", help="count them in the sample that a config's run drew")
    parser.add_argument("--root", help="folder that relative source paths start from (as --config root=… of snakemake)")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the results (default: results)")
    parser.add_argument("--each", action="store_true", help="every benchmark's own interval is to be that narrow, not only that of all")
    parser.add_argument("--confidence", type=float, default=95.0, metavar="PERCENT", help="level of the interval (default: 95)")
    parser.add_argument("--attempts", type=float, default=1.0, metavar="N", help="attempts at one task in the sample, mean (default: 1)")
    parser.add_argument(
        "--alike", type=float, default=0.5, metavar="0…1", help="how alike verdicts on one task are wrong or right (default: 0.5)"
    )
    parser.add_argument(
        "--disagree", type=float, metavar="PERCENT", help="two-phase: share on which the judges differ, all of it reviewed (the paper: 49)"
    )
    parser.add_argument("--agreements", type=float, metavar="PERCENT", help="two-phase: share of the others that is reviewed")
    parser.add_argument(
        "--missed",
        type=float,
        metavar="PERCENT",
        help="two-phase: share of the agreements that are wrong all the same (default: --rate)",
    )
    parser.add_argument("--calibration", type=int, default=0, metavar="N", help="verdicts set aside beside those (default: 0)")


def run(args: argparse.Namespace) -> int:
    """Print the plan: verdicts to audit, people's share of them, and the interval to expect."""
    design = _design(args)
    level = _share(args.confidence, "--confidence", low=50.0)
    if args.calibration < 0:
        raise InputError("--calibration", f"{args.calibration}", "give a count")
    sizes = _sizes(args)
    plans = _plans(args, design, sizes, level)
    shown = {name: one_line(name, 80) for name, *_ in plans}
    width = max(map(len, shown.values()))
    print(f"{'':<{width}} {'there are':>10} {'audit':>8} {'people review':>14} {'interval to expect':>20}")
    for name, size, one, n in plans:
        there = "endless" if size is None else f"{size:,}"
        if n is None:
            print(f"{shown[name]:<{width}} {there:>10} {'all':>8} {'':>14} {_interval(one, size, level):>20}  never as narrow as wanted")
        else:
            print(f"{shown[name]:<{width}} {there:>10} {n:>8,} {one.reviews(n):>14,} {_interval(one, n, level):>20}")
    _say(args, design, plans)
    return 1 if any(n is None for *_, n in plans) else 0


def _plans(
    args: argparse.Namespace, design: "Design", sizes: dict[str, int], level: float
) -> list[tuple[str, int | None, "Design", int | None]]:
    """Return name, population, design and verdicts to audit of every benchmark, and of all of them together."""
    from dataclasses import replace

    from evoaudit.audit.select import allocate

    total = sum(sizes.values()) if sizes else args.population
    whole = replace(design, population=total)

    def wanted(one: "Design", given: int | None) -> int | None:
        if given is not None:
            return given if one.population is None else min(given, one.population)
        return one.needed(args.half_width / 100, level)

    own = {name: replace(design, population=size) for name, size in sizes.items()}
    if args.each and args.n is not None:
        raise InputError("--each", "is about a wanted width", "give --half-width instead of --n")
    if args.each and not sizes:
        raise InputError("--each", "needs to know the benchmarks", "give --benchmark NAME=N for each, or --sample")
    if args.each:
        taken = {name: wanted(one, None) for name, one in own.items()}
        n = None if None in taken.values() else sum(filter(None, taken.values()))
    else:
        n = wanted(whole, args.n)
        shares = allocate({(name,): size for name, size in sizes.items()}, n or 0)
        taken = {name: shares[name,] if n is not None else None for name in sizes}
    rows = [(name, sizes[name], own[name], taken[name]) for name in sorted(sizes)]
    return [*rows, (ALL, total, whole, n)]


def _interval(one: "Design", n: int | None, level: float) -> str:
    if not n:
        return "none"
    low, high = one.interval(n, level)
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def _say(args: argparse.Namespace, design: "Design", plans: list[tuple[str, int | None, "Design", int | None]]) -> None:
    kept = [(name, n) for name, _, _, n in plans if name != ALL and n is not None]
    print(f"if {args.rate:g} % are wrong; {args.confidence:g} % Wilson intervals, narrower where much of what there is gets drawn")
    if design.clustering > 1:
        print(f"{args.attempts:g} attempts at a task, alike by {args.alike:g}: {design.clustering:.2f} of them count as one")
    if design.disagree < 1:
        missed = 100 * design.missed
        print(
            f"people review every disagreement ({100 * design.disagree:g} %) and {100 * design.reviewed:g} % of the agreements, of which "
            f"{missed:g} % are taken to be labelled wrongly; the rest goes by the judges"
        )
    if kept and len(kept) == len(plans) - 1:
        # Calibration rows are drawn with the others and then set aside.
        spare = -(-args.calibration // len(kept))
        print("\naudit:\n  quotas: {" + ", ".join(f"{quoted(name)}: {n + spare}" for name, n in kept) + "}")
        print(f"  calibration: {args.calibration}" if args.calibration else "", end="\n" if args.calibration else "")


def _design(args: argparse.Namespace) -> "Design":
    from evoaudit.stats.planning import Design

    rate = _share(args.rate, "--rate")
    if args.half_width is not None and not 0 < args.half_width < 50:
        raise InputError("--half-width", f"{args.half_width:g}", "give points, above 0 and below 50")
    if args.n is not None and args.n < 1:
        raise InputError("--n", f"{args.n}", "give a count, at least 1")
    if not (1 <= args.attempts < math.inf):
        raise InputError("--attempts", f"{args.attempts:g}", "give a number of attempts, at least 1")
    if not 0 <= args.alike <= 1:
        raise InputError("--alike", f"{args.alike:g}", "give a number from 0 to 1")
    if args.disagree is None:
        if stray := [name for name in ("agreements", "missed") if getattr(args, name) is not None]:
            raise InputError(f"--{stray[0]}", "is about a review in two phases", "give --disagree too")
        return Design(rate, attempts=args.attempts, alike=args.alike)
    if args.agreements is None:
        raise InputError("--disagree", "says nothing about the verdicts on which the judges agree", "give --agreements too")
    return Design(
        rate,
        attempts=args.attempts,
        alike=args.alike,
        disagree=_share(args.disagree, "--disagree", low=-1e-9, high=100 + 1e-9),
        reviewed=_share(args.agreements, "--agreements", high=100 + 1e-9),
        missed=rate if args.missed is None else _share(args.missed, "--missed", low=-1e-9),
    )


def _share(value: float, option: str, low: float = 0.0, high: float = 100.0) -> float:
    if not low < value < high:
        raise InputError(option, f"{value:g}", f"give a percentage between {max(0.0, low):g} and {min(100.0, high):g}")
    return min(1.0, max(0.0, value / 100))


def _drawn(args: argparse.Namespace) -> Path:
    """Return the manifest of the sample that a config's run drew."""
    from evoaudit import plan as plans
    from evoaudit.stages import configured

    jobs = plans.build(configured.load(args), args.results).of("sample")
    if not jobs:
        raise InputError(args.configfile[-1], "draws no sample", "name judges, labels, quotas or groups of reviewers")
    found = args.results / "sample" / jobs[0].key / "manifest.json"
    if not found.is_file():
        raise InputError(args.configfile[-1], "its sample is not drawn yet", "run `snakemake sample` with it first")
    return found


def _sizes(args: argparse.Namespace) -> dict[str, int]:
    """Return benchmark → verdicts there are, none where only one number is known."""
    if args.population is not None and args.population < 1:
        raise InputError("--population", f"{args.population}", "give a count, at least 1")
    found: dict[str, int] = {}
    for given in args.benchmark:
        name, _, size = given.rpartition("=")
        if not name or not size.isdecimal() or not size.isascii() or len(size) > 9 or int(size) < 1:
            raise InputError(f"--benchmark {given}", "is not NAME=N", "for example --benchmark webarena=812")
        if name in found or name == ALL:
            raise InputError(f"--benchmark {given}", f"'{name}' {'is kept for the total' if name == ALL else 'again'}", "name each once")
        found[name] = int(size)
    if args.configfile is not None:
        args.sample = _drawn(args)
    if args.sample is not None:
        from collections import Counter

        from evoaudit.stages.common import folder_of
        from evoaudit.store import read_rows

        rows = read_rows(folder_of(str(args.sample)), "sample", ["benchmark", "status"])
        found = dict(Counter(row["benchmark"] or "(none)" for row in rows if row["status"] in DRAWABLE))
        if not found:
            raise InputError(args.sample, "holds no verdict that could be drawn", "give --population instead")
    return found
