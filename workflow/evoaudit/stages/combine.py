"""Combine judges' and people's labels into one final label a trajectory."""

import argparse
from pathlib import Path

from evoaudit.errors import InputError
from evoaudit.stages import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.arguments(parser)
    parser.add_argument("--sample", required=True, metavar="MANIFEST", help="manifest of the sample stage")
    parser.add_argument("--judgments", nargs="*", default=[], metavar="MANIFEST", help="manifests of the judge stage, one a judge")
    parser.add_argument("--people", nargs="*", default=[], metavar="MANIFEST", help="manifests of the judge stage for simulated people")
    parser.add_argument("--review", nargs="*", default=[], metavar="MANIFEST", help="manifest of the select stage: what people were shown")
    parser.add_argument("--labels", nargs="*", default=[], type=Path, metavar="FILE", help="label files, JSON Lines or CSV")


def run(args: argparse.Namespace) -> int | None:
    from evoaudit import labels, schema
    from evoaudit.audit import combine
    from evoaudit.store import read_rows, write_table

    tie = args.settings.get("tie", "unclear")
    if tie not in combine.TIES:
        raise InputError("combine --settings", f"tie: '{tie}'", f"use one of {', '.join(combine.TIES)}")
    category_tie = args.settings.get("category_tie", "ambiguous")
    if category_tie not in combine.CATEGORY_TIES:
        raise InputError("combine --settings", f"category_tie: '{category_tie}'", f"use one of {', '.join(combine.CATEGORY_TIES)}")
    adjudication = args.settings.get("adjudication", "decides")
    if adjudication not in combine.ADJUDICATIONS:
        raise InputError("combine --settings", f"adjudication: '{adjudication}'", f"use one of {', '.join(combine.ADJUDICATIONS)}")
    groups = list(args.settings.get("groups") or [])
    with common.stage(args, "combine", "trajectory") as (folder, counts):
        frame = read_rows(common.folder_of(args.sample), "sample")
        analysed = {row["trajectory_id"]: row for row in frame if row["status"] == "analysed"}
        selected = {
            row["trajectory_id"]
            for manifest in args.review
            for row in read_rows(common.folder_of(manifest), "review_set", ["trajectory_id", "selected"])
            if row["selected"]
        }
        judged = [row for rows in combine.read_judgments([*args.judgments, *args.people]) for row in rows]
        skips: list[dict] = []
        given = labels.read(args.labels, known={row["trajectory_id"] for row in frame}, skips=skips) if args.labels else []
        skips = labels.unlabelled(skips, given)
        if clash := {row["annotator"] for row in judged} & {row["annotator"] for row in given}:
            raise InputError("combine --labels", f"'{min(clash)}' is also a judge of this run", "rename one of the two")
        kept = (*schema.LABELS.names, "practice")
        everything = [{name: row.get(name) for name in kept} for row in (*judged, *given)]
        everything.sort(key=lambda row: (row["trajectory_id"], row["annotator"], row["stage"]))
        shown = selected if args.review else None
        votes, left_out = combine.count(everything, frame, groups, shown, adjudication == "decides")
        final, unlabelled = combine.combine(list(analysed.values()), votes, tie=tie, category_tie=category_tie)

        counts.keep("trajectory", len(final))
        for identity in unlabelled:
            counts.drop(
                "trajectory", analysed[identity]["source"] or "", identity, "no_label", "neither a judge nor a person gave a verdict"
            )
        counts.keep("label", sum(len(cast.raters) + len(cast.adjudicated) for cast in votes.values()))
        for row, reason in left_out:
            counts.drop("label", "", f"{row['trajectory_id']} by {row['annotator']} ({row['stage']})", reason)
        for row in skips:
            counts.drop("label", "", f"{row['trajectory_id']} by {row['annotator']} ({row['stage']})", "skipped", row["note"])
        reviewed = {row["trajectory_id"] for row in final if row["reviewed"]}
        if not args.judgments:  # the judges' labels came as files, which the selection could not go by
            selected -= combine.settled(given) - reviewed
        counts.keep("review", len(selected & reviewed))
        passed = {row["trajectory_id"] for row in skips if row["stage"] == "blind"}
        for identity in sorted(selected - reviewed):
            counts.drop("review", "", identity, "skipped" if identity in passed else "awaits_review")
        never_shown = {id(row) for row, reason in left_out if reason == "not_in_review_set"}
        everything = [row for row in everything if id(row) not in never_shown and not row["practice"]]
        write_table(folder, "labels", [{name: row[name] for name in schema.LABELS.names} for row in everything])
        write_table(folder, "final", final)
        write_table(folder, "drops", counts.rows)
    return None
