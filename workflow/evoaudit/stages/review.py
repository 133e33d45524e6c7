"""``evoaudit review``: write what people look at and label from, check what comes back, merge it."""

import argparse
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from evoaudit.errors import InputError
from evoaudit.stages import common, pairs, replay

if TYPE_CHECKING:
    from evoaudit.review.replay import Page

FRAME = ("trajectory_id", "benchmark", "agent", "task_id", "experiment", "raw_reward", "simulated")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    build = commands.add_parser(
        "build",
        help="write a page for each group to label on, and sheets to fill in by hand",
        description="With --normalised and --root, write for each group <group>/index.html, a page that needs no server, its key file "
        "keys/<group>.json, which stays with you, and <group>.csv and <group>.jsonl, the same items as rows to fill in. They hold no "
        "verdict, reward, reference, agent or judge's label, and ids that say nothing. Without --normalised there are only the sheets, "
        "with trajectory ids verbatim; those of some formats name the agent.",
    )
    build.add_argument(
        "--stage",
        choices=("blind", "informed", "adjudication"),
        default="blind",
        help="informed: what a group has labelled blind, once more, with released verdict and reference; "
        "adjudication: two groups' blind labels side by side (default: blind)",
    )
    build.add_argument("--review", metavar="MANIFEST", help="manifest of the select stage, for the blind stage")
    build.add_argument(
        "--sample", metavar="MANIFEST", help="manifest of the sample stage: calibration trajectories come first, as practice"
    )
    build.add_argument("--group", action="append", default=[], metavar="NAME", help="annotator the page is for; may be repeated")
    files = {"nargs": "+", "action": "extend", "default": [], "type": Path, "metavar": "FILE"}
    build.add_argument("--labels", **files, help="labels given blind, for the later stages")
    build.add_argument(
        "--judgments", nargs="+", action="extend", default=[], metavar="MANIFEST", help="manifests of judges, to be shown in adjudication"
    )
    build.add_argument("--feedback", **files, help="labels agreed on, shown in practice once the reviewer has decided")
    _keys_argument(build)
    replay.inputs(build)
    build.add_argument("--seed", type=int, default=0, help="seed of order and ids")
    build.add_argument("--threads", type=int, default=1, help="worker threads; never changes the output")
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
    _keys_argument(check)
    check.set_defaults(act=_check)

    merge = commands.add_parser(
        "merge",
        help="merge label files into one",
        description="Write one JSON Lines file. Rows that are the same in every field are written once; two different labels of one "
        "annotator for one trajectory and stage are a fault, and then nothing is written. Skips are listed and written as such, but for "
        "those the same annotator has labelled since. An existing file is never overwritten.",
    )
    merge.add_argument("files", nargs="+", type=Path, metavar="FILE", help="label files, JSON Lines or CSV")
    merge.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write; must not exist")
    _frame_arguments(merge)
    _keys_argument(merge)
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

    out = commands.add_parser(
        "export-ls",
        help="turn a page into tasks for Label Studio",
        description="Write tasks.json and config.xml, the labelling interface, from a page that `build` wrote. Tasks hold what the page "
        "holds and no more. Pictures are named by their place in the page's folder, which Label Studio must serve.",
    )
    out.add_argument("page", type=Path, metavar="FOLDER", help="folder of a page")
    out.add_argument(
        "--pictures",
        metavar="PREFIX",
        help="what comes before a picture's place in the page's folder (default: /data/local-files/?d=<name of the folder>/)",
    )
    out.add_argument("--out", type=Path, required=True, help="folder to write")
    out.set_defaults(act=_export_ls)

    back = commands.add_parser(
        "import-ls",
        help="turn an export of Label Studio into a label file",
        description="Write the annotations of a JSON export as label rows, as the page would export them. An existing file is never "
        "overwritten.",
    )
    back.add_argument("export", type=Path, metavar="FILE", help="what Label Studio exported as JSON")
    back.add_argument("--completed-by", metavar="WHO", help="take only annotations of this user, by number or address")
    back.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write; must not exist")
    back.set_defaults(act=_import_ls)


def _keys_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keys", nargs="+", action="extend", default=[], type=Path, metavar="FILE", help="key files of the pages the labels are from"
    )


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
    from evoaudit.review import replay as pages
    from evoaudit.review import sheets
    from evoaudit.store import staging
    from evoaudit.streams import order

    if bad := next((group for group in args.group if not _is_name(group)), None):
        raise InputError("--group", f"'{bad}' cannot name a file", "use letters, digits and hyphens")
    if args.stage == "blind":
        if not args.review:
            raise InputError("--review", "is missing", "give the manifest of the select stage")
        if not args.group:
            raise InputError("--group", "is missing", "name who labels, once for each group")
        groups = list(dict.fromkeys(args.group))
        chosen = replay.selected(args.review)
        if not chosen:
            raise InputError(args.review, "the review set is empty", "there is nothing for people to label")
        if not args.normalised:
            with staging(args.out) as folder:
                for group in groups:
                    sheets.write(folder, group, group, "blind", order(chosen, args.seed, f"review-order-{group}"))
                _keep_sheets(args.out, folder)
            print(
                f"{args.out}: {len(chosen)} trajectories to label for {', '.join(groups)}; "
                "fill in a verdict for every row, then run `evoaudit review check`"
            )
            return 0
        practice = replay.calibration(args.sample)
        feedback = {row["trajectory_id"]: row for row in _given(args, args.feedback) if row["trajectory_id"] in practice}
        made = [pages.page(group, args.seed, chosen, practice, feedback=feedback) for group in groups]
    elif args.stage == "informed":
        made = list(_informed(args))
    else:
        made = [_adjudication(args)]
    for page in made:
        own = args.out / page.folder
        if own.exists() and not ((own / "index.html").is_file() and b'"set":"replay-' in (own / "index.html").read_bytes()):
            raise InputError(own, "is there and no review page", "give a new folder; a page is replaced as a whole")
    with staging(args.out) as folder:
        if (args.out / "keys").is_dir():
            shutil.copytree(args.out / "keys", folder / "keys")
        replay.build(args, folder, made)
        for page in made:
            sheets.write(folder, page.folder, page.annotator, page.stage, list(page.ids()))
        _keep_sheets(args.out, folder)
    for page in made:
        drill = f", {len(page.practice)} of them for practice" if page.practice else ""
        print(
            f"{(args.out / page.folder / 'index.html').as_posix()}: {len(page.items)} trajectories{drill}; "
            f"give {page.annotator} this folder alone, and keep keys/{page.folder}.json"
        )
    return 0


def _is_name(group: str) -> bool:
    return bool(group.strip()) and not any(c in group for c in "/\\\0") and not group.startswith(".") and group not in ("keys", "t3")


def _keep_sheets(out: Path, folder: Path) -> None:
    """Refuse to overwrite a sheet that somebody may have begun to fill in."""
    for path in sorted(folder.glob("*.csv")) + sorted(folder.glob("*.jsonl")):
        if (out / path.name).exists() and (out / path.name).read_bytes() != path.read_bytes():
            raise InputError(out / path.name, "holds something else already", "give a new folder; sheets are never overwritten")


def _given(args: argparse.Namespace, files: Iterable[Path]) -> list[dict]:
    from evoaudit import labels
    from evoaudit.review import keyfile

    files = list(files)
    return labels.read(files, keys=keyfile.read(args.keys)) if files else []


def _blind(args: argparse.Namespace) -> list[dict]:
    """Return the blind labels of people, without those for practice."""
    if not args.labels:
        raise InputError("--labels", "is missing", "give the labels that were given blind")
    rows = [row for row in _given(args, args.labels) if row["kind"] == "human" and row["stage"] == "blind" and not row["practice"]]
    if not rows:
        raise InputError(args.labels[0], "holds no blind label of a person", "label blind first")
    return rows


def _informed(args: argparse.Namespace) -> Iterable["Page"]:
    from evoaudit.review import replay as pages

    rows = _blind(args)
    for group in dict.fromkeys(args.group or sorted({row["annotator"] for row in rows})):
        own = {row["trajectory_id"]: (row,) for row in rows if row["annotator"] == group}
        if not own or not _is_name(group):
            raise InputError("--group", f"'{group}' has labelled nothing blind", "name one of the annotators of the label files")
        yield pages.page(group, args.seed, own, stage="informed", name=f"{group}-informed", labels=own)


def _adjudication(args: argparse.Namespace) -> "Page":
    from evoaudit.review import replay as pages
    from evoaudit.streams import rank

    rows = _blind(args)
    names = sorted({row["annotator"] for row in rows})
    if len(names) != 2:
        raise InputError("--labels", f"labels of {len(names)} people ({', '.join(names)})", "give the files of the two to be compared")
    if len(args.group) > 1:
        raise InputError("--group", "named more than once", "one adjudicator has one page")
    group = args.group[0] if args.group else "adjudicator"
    if group in names:
        raise InputError("--group", f"'{group}' is one of the two", "name the adjudicator otherwise: labels are never overwritten")
    by_name = {name: {row["trajectory_id"]: row for row in rows if row["annotator"] == name} for name in names}
    both = sorted(by_name[names[0]].keys() & by_name[names[1]].keys())
    if not both:
        raise InputError("--labels", f"{names[0]} and {names[1]} have labelled no trajectory both", "give labels of the same review set")

    def sides(identity: str) -> tuple[dict, ...]:
        # Who is A is drawn for every trajectory, so that nobody comes to side with one of the two.
        turned = rank(args.seed, "review-sides", group, identity) % 2
        return tuple(by_name[name][identity] for name in (names[::-1] if turned else names))

    return pages.page(
        group, args.seed, both, stage="adjudicated", labels={identity: sides(identity) for identity in both}, judges=_judged(args, both)
    )


def _judged(args: argparse.Namespace, wanted: list[str]) -> dict[str, tuple[dict, ...]]:
    """Return what the judges said of each trajectory, in an order that says nothing of whose it is."""
    from evoaudit.audit.combine import read_judgments
    from evoaudit.streams import order

    found: dict[str, list[dict]] = {identity: [] for identity in wanted}
    for row in (row for rows in read_judgments(args.judgments) for row in rows):
        if row["status"] == "ok" and row["verdict"] and row["trajectory_id"] in found:
            found[row["trajectory_id"]].append(row)
    turned = {}
    for identity, rows in found.items():
        by_name = {row["annotator"]: {**row, "note": row["rationale"]} for row in rows}
        turned[identity] = tuple(by_name[name] for name in order(by_name, args.seed, f"review-judges-{identity}"))
    return turned


def _pairs(args: argparse.Namespace) -> int:
    own = args.out / "index.html"
    if args.out.is_dir() and any(args.out.iterdir()) and not (own.is_file() and b"t3-set-" in own.read_bytes()):
        raise InputError(args.out, "is not empty", "give a new folder; its pictures are replaced as a whole")
    found = pairs.write(args)
    print(f"{(args.out / 'index.html').as_posix()}: {found.total()} pairs, {found['undecided']} undecided; open it in a browser")
    return 0


def _check(args: argparse.Namespace) -> int:
    from evoaudit import labels
    from evoaudit.review import keyfile

    skips: list[dict] = []
    rows, findings = labels.check(args.files, _known(args), keys=keyfile.read(args.keys), skips=skips)
    for finding in findings:
        print(finding)
    if not (args.sample or args.frame or args.keys):
        print("trajectory ids were not checked; give --sample, --frame or --keys to check them", file=sys.stderr)
    bare = sum(row["verdict"] == "gf" and row["category"] is None for row in rows)
    if bare:
        print(f"{bare} genuine failures have no category; without one from people, the judges' stands", file=sys.stderr)
    if practice := sum(row["practice"] for row in rows):
        print(f"{practice} labels are for practice and never enter the analysis", file=sys.stderr)
    skips = labels.unlabelled(skips, rows)
    _unlabelled(args.keys, rows, skips)
    for skip in skips:
        print(f"skipped: {labels.told(skip)}")
    print(f"{len(rows)} sound labels{_skipped(skips)}, {len(findings)} findings")
    return int(bool(findings))


def _merge(args: argparse.Namespace) -> int:
    from evoaudit import labels
    from evoaudit.review import keyfile

    if args.out.exists():
        raise InputError(args.out, "exists already", "merge into a new file; give the existing one as an input to add to it")
    skips: list[dict] = []
    rows, findings = labels.check(args.files, _known(args), twins=True, keys=keyfile.read(args.keys), skips=skips)
    for finding in findings:
        print(finding)
    if findings:
        print(f"nothing written: {len(findings)} findings")
        return 1
    skips = labels.unlabelled(skips, rows)
    for skip in skips:
        print(f"skipped: {labels.told(skip)}")
    rows = sorted([*rows, *skips], key=lambda row: (row["trajectory_id"], row["annotator"], row["stage"]))
    _write_lines(args.out, (labels.dumps(row) for row in rows))
    print(f"{args.out}: {len(rows) - len(skips)} labels{_skipped(skips)}")
    return 0


def _skipped(skips: list[dict]) -> str:
    return f", {len(skips)} skipped" if skips else ""


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.partial")
    scratch.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    scratch.replace(path)


def _unlabelled(keys: Iterable[Path], rows: Iterable[dict], skips: Iterable[dict]) -> None:
    """Say how many items of the pages have no label yet."""
    from evoaudit.review import keyfile

    done, passed = ({(row["annotator"], row["stage"], row["trajectory_id"]) for row in given} for given in (rows, skips))
    for path in keys:
        items = [(one.annotator, one.stage, one.trajectory_id) for one in keyfile.read([path]).values()]
        if left := sum(one not in done for one in items):
            skipped = sum(one in passed for one in items)
            more = f", {skipped} of them skipped" if skipped else ""
            print(f"{path.name}: {left} of {len(items)} trajectories have no label yet{more}", file=sys.stderr)


def _export_ls(args: argparse.Namespace) -> int:
    from evoaudit.review import labelstudio
    from evoaudit.store import staging

    with staging(args.out) as folder:
        n = labelstudio.export(args.page, folder, args.pictures)
    print(f"{args.out}: tasks.json with {n} tasks, config.xml with the labelling interface")
    return 0


def _import_ls(args: argparse.Namespace) -> int:
    from evoaudit import labels
    from evoaudit.review import labelstudio

    if args.out.exists():
        raise InputError(args.out, "exists already", "give a new file; labels are never overwritten")
    rows, left = labelstudio.read(args.export, args.completed_by)
    _write_lines(args.out, (labels.dumps(row) for row in rows))
    print(f"{args.out}: {len(rows)} labels" + "".join(f", {n} tasks {why}" for why, n in left.items() if n))
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
