"""``evoaudit review``: write what people look at and label from, check what comes back, merge it."""

import argparse
import sys
from pathlib import Path

from evoaudit.errors import InputError
from evoaudit.stages import common, pairs

FRAME = ("trajectory_id", "benchmark", "agent", "task_id", "experiment", "raw_reward", "simulated")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands ``build``, ``pairs``, ``check``, ``merge`` and ``convert``."""
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    build = commands.add_parser(
        "build",
        help="write one list a group to label from",
        description="Write <group>.csv and <group>.jsonl: the trajectories of the review set in an order of the group's own, as label rows "
        "to fill in. They hold no verdict, no reward and no judge's label; trajectory ids are verbatim, and those of some formats name the "
        "agent. There is no interactive replay page in this version.",
    )
    build.add_argument("--review", required=True, metavar="MANIFEST", help="manifest of the select stage")
    build.add_argument("--group", action="append", required=True, metavar="NAME", help="annotator the list is for; may be repeated")
    build.add_argument("--seed", type=int, default=0, help="seed of the order")
    build.add_argument("--out", type=Path, required=True, help="folder to write")
    build.set_defaults(act=_build)

    page = commands.add_parser(
        "pairs",
        help="write the page for the quality control of T3 pairs",
        description="Write index.html and its pictures: every mined T3 pair with the logged action, to accept or reject by keyboard. The "
        "page needs no server; what it exports is what `probes.t3.reviewed` of a config names.",
    )
    pairs.inputs(page)
    page.add_argument("--threads", type=int, default=1, help="worker threads; never changes the output")
    page.add_argument("--out", type=Path, required=True, help="folder to write")
    page.set_defaults(act=_pairs)

    check = commands.add_parser(
        "check",
        help="check label files against the codebook and the frame",
        description="List every fault of the label files, a line each. Exits with 1 if there are any.",
    )
    check.add_argument("files", nargs="+", type=Path, metavar="FILE", help="label files, JSON Lines or CSV")
    _frame_arguments(check)
    check.set_defaults(act=_check)

    merge = commands.add_parser(
        "merge",
        help="merge label files into one",
        description="Write one JSON Lines file. Rows that are the same in every field are written once; two different labels of one "
        "annotator for one trajectory and stage are a fault, and then nothing is written. An existing file is never overwritten.",
    )
    merge.add_argument("files", nargs="+", type=Path, metavar="FILE", help="label files, JSON Lines or CSV")
    merge.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write; must not exist")
    _frame_arguments(merge)
    merge.set_defaults(act=_merge)

    convert = commands.add_parser(
        "convert",
        help="turn a table with one column a rater into a frame and a label file",
        description="Write frame.csv and labels.jsonl from a CSV with one row a trajectory and one column a rater, such as a spreadsheet.",
    )
    convert.add_argument("table", type=Path, metavar="CSV")
    convert.add_argument(
        "--rater",
        action="append",
        required=True,
        metavar="NAME=KIND:VERDICT_COLUMN[:CATEGORY_COLUMN]",
        help="who rated and where it stands, for instance human-1=human:h1:h1_category; may be repeated",
    )
    convert.add_argument("--id", default="id", metavar="COLUMN", help="column of the trajectory ids (default: id)")
    convert.add_argument("--out", type=Path, required=True, help="folder to write")
    convert.set_defaults(act=_convert)


def _frame_arguments(parser: argparse.ArgumentParser) -> None:
    frame = parser.add_mutually_exclusive_group()
    frame.add_argument("--sample", metavar="MANIFEST", help="manifest of the sample stage: ids must be in it")
    frame.add_argument("--frame", type=Path, metavar="CSV", help="table of trajectory_id, benchmark, agent, task_id: ids must be in it")
    parser.add_argument(
        "--normalised", nargs="*", default=[], metavar="MANIFEST", help="manifests of the normalise stage, to check evidence steps"
    )


def run(args: argparse.Namespace) -> int:
    """Run one action."""
    return args.act(args)


def _build(args: argparse.Namespace) -> int:
    from evoaudit import codebook, csvfile
    from evoaudit.labels import FIELDS, dumps
    from evoaudit.store import read_rows, staging
    from evoaudit.streams import order

    chosen = [row["trajectory_id"] for row in read_rows(common.folder_of(args.review), "review_set") if row["selected"]]
    if not chosen:
        raise InputError(args.review, "the review set is empty", "there is nothing for people to label")
    if bad := next((group for group in args.group if not group.strip() or any(c in group for c in "/\\\0") or group.startswith(".")), None):
        raise InputError("--group", f"'{bad}' cannot name a file", "use letters, digits and hyphens")
    version = codebook.load().version
    with staging(args.out) as folder:
        for group in dict.fromkeys(args.group):
            rows = [
                {
                    **dict.fromkeys(FIELDS),
                    "trajectory_id": identity,
                    "annotator": group,
                    "kind": "human",
                    "stage": "blind",
                    "codebook_version": version,
                }
                for identity in order(chosen, args.seed, f"review-order-{group}")
            ]
            # The flag for simulated raters is not a person's to set.
            csvfile.write(folder / f"{group}.csv", [name for name in FIELDS if name != "simulated"], rows)
            (folder / f"{group}.jsonl").write_text("".join(dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(
        f"{args.out}: {len(chosen)} trajectories to label for {', '.join(dict.fromkeys(args.group))}; "
        "fill in a verdict for every row, then run `evoaudit review check`"
    )
    return 0


def _pairs(args: argparse.Namespace) -> int:
    own = args.out / "index.html"
    if args.out.is_dir() and any(args.out.iterdir()) and not (own.is_file() and b"t3-set-" in own.read_bytes()):
        raise InputError(args.out, "is not empty", "give a new folder; its pictures are replaced as a whole")
    found = pairs.write(args)
    print(f"{(args.out / 'index.html').as_posix()}: {found.total()} pairs, {found['undecided']} undecided; open it in a browser")
    return 0


def _check(args: argparse.Namespace) -> int:
    from evoaudit import labels

    rows, findings = labels.check(args.files, _known(args))
    for finding in findings:
        print(finding)
    if not (args.sample or args.frame):
        print("trajectory ids were not checked; give --sample or --frame to check them", file=sys.stderr)
    bare = sum(row["verdict"] == "gf" and row["category"] is None for row in rows)
    if bare:
        print(f"{bare} genuine failures have no category; without one from people, the judges' stands", file=sys.stderr)
    print(f"{len(rows)} sound labels, {len(findings)} findings")
    return int(bool(findings))


def _merge(args: argparse.Namespace) -> int:
    from evoaudit import labels

    if args.out.exists():
        raise InputError(args.out, "exists already", "merge into a new file; give the existing one as an input to add to it")
    rows, findings = labels.check(args.files, _known(args), twins=True)
    for finding in findings:
        print(finding)
    if findings:
        print(f"nothing written: {len(findings)} findings")
        return 1
    rows.sort(key=lambda row: (row["trajectory_id"], row["annotator"], row["stage"]))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    scratch = args.out.with_name(f".{args.out.name}.partial")
    scratch.write_text("".join(labels.dumps(row) + "\n" for row in rows), encoding="utf-8")
    scratch.replace(args.out)
    print(f"{args.out}: {len(rows)} labels")
    return 0


def _convert(args: argparse.Namespace) -> int:
    from evoaudit import csvfile, labels
    from evoaudit.store import staging

    frame, rows = labels.spread(args.table, [labels.Rater.parse(spec) for spec in args.rater], args.id)
    with staging(args.out) as folder:
        csvfile.write(folder / "frame.csv", FRAME, [{**row, "raw_reward": _number(row["raw_reward"])} for row in frame])
        (folder / "labels.jsonl").write_text("".join(labels.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{args.out}: frame.csv with {len(frame)} trajectories, labels.jsonl with {len(rows)} labels")
    return 0


def _number(text: str | None) -> float | str | None:
    """Return a reward as a number, so that a negative one is written as such; what is none stays for the reader to refuse."""
    try:
        return text and (int(text) if text.lstrip("+-").isdecimal() else float(text))
    except ValueError:
        return text


def _known(args: argparse.Namespace) -> dict[str, int | None] | None:
    """Return the frame's ids with their numbers of steps where known, None if no frame was given."""
    from evoaudit.store import read_rows

    if args.sample is None and args.frame is None:
        return None
    if args.frame is not None:
        from evoaudit.stages.sample import read_frame

        known: dict[str, int | None] = {one.row["trajectory_id"]: None for one in read_frame(args.frame)}
    else:
        rows = read_rows(common.folder_of(args.sample), "sample", ["trajectory_id", "status"])
        known = {row["trajectory_id"]: None for row in rows if row["status"] in ("analysed", "calibration")}
    for manifest in args.normalised:
        for row in read_rows(common.folder_of(manifest), "trajectories", ["trajectory_id", "n_steps"]):
            if row["trajectory_id"] in known:
                known[row["trajectory_id"]] = row["n_steps"]
    return known
