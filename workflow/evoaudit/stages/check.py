"""``evoaudit check``: do the figures of a printed results table follow from one another?"""

import argparse
from pathlib import Path

#: Lines printed unless all are asked for.
LINES = 50
#: What ``--out`` holds.
COLUMNS = ("row", "quantity", "published", "recomputed", "status", "note")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this subcommand's arguments."""
    parser.add_argument("table", type=Path, help="the table as CSV, numbers as printed; docs/check.md says which columns are known")
    parser.add_argument("--of", action="append", default=[], metavar="SHARE=N", help="a percentage and its cases: a number or a column")
    parser.add_argument("--sum", action="append", default=[], metavar="WHOLE=A+B", help="columns that add up to another")
    parser.add_argument("--share", action="append", default=[], metavar="SHARE=A+B/N", help="a percentage from columns of counts")
    parser.add_argument("--pool", action="append", default=[], metavar="WHOLE=A:N+B:N", help="a percentage from those of its parts")
    parser.add_argument("--baseline", metavar="T1,T2,T3", help="chance level for EvoGain, percent (default: the table's row for chance)")
    parser.add_argument("--confidence", type=float, default=0.95, help="level of the printed intervals (default: 0.95)")
    parser.add_argument("--proportions", action="store_true", help="shares are printed from 0 to 1")
    parser.add_argument("--all", action="store_true", help=f"print what agrees too, and more than {LINES} findings")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write every result as CSV")


def run(args: argparse.Namespace) -> int:
    """Print what differs, a line each; exit with 1 if anything does."""
    from evoaudit import resultcheck
    from evoaudit.errors import InputError, one_line
    from evoaudit.stats.check import AGREES, DIFFERS, NOT_DERIVABLE

    rules = resultcheck.parse_rules(lambda name: getattr(args, name), args.baseline, args.confidence, args.proportions)
    if args.out is not None and args.out.exists() and args.table.exists() and args.out.samefile(args.table):
        raise InputError(f"--out {args.out}", "is the table itself", "give the results a file of their own")
    results = resultcheck.check(resultcheck.read(args.table), rules, str(args.table))
    if args.out is not None:
        from evoaudit import csvfile

        csvfile.write(args.out, COLUMNS, results)
    told = [result for result in results if args.all or result["status"] != AGREES]
    for result in told if args.all else told[:LINES]:
        recomputed = "" if result["recomputed"] is None else f", recomputed {result['recomputed']:.6g}"
        note = f" ({result['note']})" if result["note"] else ""
        print(one_line(f"{result['status']}: {result['row']}: {result['quantity']}: printed {result['printed']}{recomputed}{note}"))
    if not args.all and len(told) > LINES:
        print(f"and {len(told) - LINES} more; --all shows them")
    counts = {status: sum(result["status"] == status for result in results) for status in (AGREES, DIFFERS, NOT_DERIVABLE)}
    print(f"{one_line(str(args.table))}: {counts[AGREES]} agree, {counts[DIFFERS]} differ, {counts[NOT_DERIVABLE]} cannot be derived")
    return int(counts[DIFFERS] > 0)
