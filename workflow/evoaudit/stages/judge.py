"""Label the audit sample with one judge, which sees neither rewards and agents nor other judges."""

import argparse
from collections.abc import Iterator

from evoaudit.errors import InputError
from evoaudit.stages import common

BUILT_IN = ("rules", "simulated")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.arguments(parser)
    parser.add_argument("--normalised", nargs="*", default=[], metavar="MANIFEST", help="manifests of the normalise stage")
    parser.add_argument("--sample", required=True, metavar="MANIFEST", help="manifest of the sample stage")
    parser.add_argument("--signals", nargs="*", default=[], metavar="MANIFEST", help="manifest of the signals stage")


def run(args: argparse.Namespace) -> int | None:
    from evoaudit import codebook
    from evoaudit.audit import judges
    from evoaudit.store import TableWriter, read_rows

    settings = {"provider": "builtin", "model": "rules", "evidence": list(judges.EVIDENCE), "role": "llm", "accuracy": 0.85} | args.settings
    name, model, evidence = settings.get("name") or settings["model"], settings["model"], tuple(settings["evidence"])
    if settings["provider"] != "builtin":
        raise InputError(
            f"judge '{name}'",
            f"provider '{settings['provider']}': judges that are language models are not available in this version",
            f"use provider builtin with model {' or '.join(BUILT_IN)}, or give the labels as files under audit.labels",
        )
    if model not in BUILT_IN:
        raise InputError(f"judge '{name}'", f"there is no built-in judge '{model}'", f"use {' or '.join(BUILT_IN)}")
    if not evidence or set(evidence) - set(judges.EVIDENCE):
        raise InputError(f"judge '{name}'", f"evidence: {list(evidence)}", f"use a list of {' and '.join(judges.EVIDENCE)}")
    if not args.normalised:
        raise InputError(f"judge '{name}'", "there are no trajectories to judge", "configure sources, or give labels instead of judges")
    with common.stage(args, "judge", "trajectory") as (folder, counts):
        wanted = {
            row["trajectory_id"]
            for row in read_rows(common.folder_of(args.sample), "sample", ["trajectory_id", "status"])
            if row["status"] == "analysed"
        }
        book = codebook.load()
        rate = _simulated if model == "simulated" else _rules
        with TableWriter(folder, "judgments") as writer:
            for row in rate(args, settings, name, evidence, book.identity, wanted):
                counts.keep("trajectory")
                writer.add(row)
    return None


def _rules(args: argparse.Namespace, settings: dict, name: str, evidence: tuple[str, ...], book: str, wanted: set[str]) -> Iterator[dict]:
    from evoaudit.audit import judges, rules
    from evoaudit.audit.episodes import episodes

    who = judges.Identity(name, "rules", "rules", evidence, book, parameters={"rules": rules.VERSION})
    folders = [common.folder_of(manifest) for manifest in args.normalised]
    for episode in episodes(folders, wanted, scratch=args.out):
        yield who.row(episode.id, rules.judge(rules.blinded(episode), screenshots="screenshots" in evidence))


def _simulated(
    args: argparse.Namespace, settings: dict, name: str, evidence: tuple[str, ...], book: str, wanted: set[str]
) -> Iterator[dict]:
    from evoaudit.audit import judges, simulated
    from evoaudit.store import read_rows

    if settings["role"] not in ("llm", "human") or not 0 <= settings["accuracy"] <= 1:
        raise InputError(f"judge '{name}'", "role or accuracy", "role is llm or human, accuracy lies in 0…1")
    truth = {}
    for manifest in args.normalised:
        truth |= {row["trajectory_id"]: row for row in read_rows(common.folder_of(manifest), "truth") if row["trajectory_id"] in wanted}
    if unknown := sorted(wanted - truth.keys()):
        raise InputError(
            f"judge '{name}'",
            f"{len(unknown)} trajectories have no planted truth, '{unknown[0]}' first",
            "simulated raters can only label simulated corpora; use the judge 'rules' or real labels",
        )
    parameters = {"accuracy": settings["accuracy"], "seed": args.seed or 0, "name": name}
    who = judges.Identity(name, "human" if settings["role"] == "human" else "simulated", "simulated", evidence, book, True, parameters)
    for identity in sorted(wanted):
        yield who.row(
            identity,
            simulated.rate(
                identity,
                truth[identity],
                name=name,
                accuracy=settings["accuracy"],
                seed=args.seed or 0,
                screenshots="screenshots" in evidence,
            ),
        )
