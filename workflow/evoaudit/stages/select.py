"""Choose the review set: every disagreement between the judges and a stratified share of the agreements."""

import argparse

from evoaudit.errors import InputError
from evoaudit.stages import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.arguments(parser)
    parser.add_argument("--sample", required=True, metavar="MANIFEST", help="manifest of the sample stage")
    parser.add_argument("--judgments", nargs="*", default=[], metavar="MANIFEST", help="manifests of the judge stage, one a judge")


def run(args: argparse.Namespace) -> int | None:
    from evoaudit.audit import combine, select
    from evoaudit.store import read_rows, write_table

    agreements = args.settings.get("agreements", 30)
    if type(agreements) is not int or agreements < 0:
        raise InputError("select --settings", f"agreements: {agreements!r}", "give a count")
    with common.stage(args, "select", "trajectory") as (folder, counts):
        frame = [
            row
            for row in read_rows(common.folder_of(args.sample), "sample", ["trajectory_id", "benchmark", "status"])
            if row["status"] == "analysed"
        ]
        judgments = combine.read_judgments(args.judgments)
        rows = select.review_set(frame, judgments, agreements=agreements, seed=args.seed or 0)
        for row in rows:
            if row["selected"]:
                counts.keep("trajectory")
            else:
                counts.drop("trajectory", "", row["trajectory_id"], "agreement_not_drawn")
        write_table(folder, "review_set", rows)
    return None
