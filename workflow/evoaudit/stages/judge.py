"""Label the audit sample with one judge, which sees neither rewards and agents nor other judges."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evoaudit import joblog
from evoaudit.errors import InputError, one_line
from evoaudit.stages import common

if TYPE_CHECKING:
    from evoaudit.audit.judges import Identity
    from evoaudit.audit.judging import Cases
    from evoaudit.codebook import Codebook
    from evoaudit.infer.base import Attachments
    from evoaudit.store import Counts

BUILT_IN = ("rules", "simulated", "unanimous")
#: What a judge that is a language model is asked with where its settings do not say.
DEFAULTS = {"pictures": "changed", "max_pictures": 40, "max_image_side": 1280, "max_text": 200_000, "schema": True}
#: Of its settings, those that a provider or the engine reads; whatever else decides a request is in its messages.
_ASKED = frozenset(
    {"name", "provider", "model", "endpoint", "api", "temperature", "max_output_tokens", "schema", "fresh", "max_image_side", "base_url"}
    | {"api_key_env", "concurrency", "timeout_s", "deadline_s", "retries", "budget_usd", "rpm", "tpm", "tolerate", "reuse", "price"}
    | {"batch", "batch_wait_h"}
)
#: Of its settings, those that are part of who judged, beside model, evidence and codebook.
_IDENTITY = ("provider", "endpoint", "api", "temperature", "max_output_tokens", "schema")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.arguments(parser)
    parser.add_argument("--normalised", nargs="*", default=[], metavar="MANIFEST", help="manifests of the normalise stage")
    parser.add_argument("--sample", required=True, metavar="MANIFEST", help="manifest of the sample stage")
    parser.add_argument("--signals", nargs="*", default=[], metavar="MANIFEST", help="manifest of the signals stage")
    parser.add_argument(
        "--images", nargs="*", default=[], metavar="MANIFEST", help="the sample's prepared pictures, for a judge that sees any"
    )
    parser.add_argument("--judgments", nargs="*", default=[], metavar="MANIFEST", help="of an ensemble, manifests of its members")
    parser.add_argument("--prompts", type=Path, metavar="DIR", help="prompt folder of judges that are language models (default: judge-v1)")
    parser.add_argument(
        "--in-flight", nargs="+", type=int, default=[], metavar="N", help="bound on the requests in flight, the largest of these"
    )
    parser.add_argument("--shelf", type=Path, metavar="DIR", help="folder of good answers that runs share")


def run(args: argparse.Namespace) -> int | None:
    from evoaudit import codebook
    from evoaudit.audit import judges
    from evoaudit.store import TableWriter, read_rows

    settings = {"provider": "builtin", "evidence": list(judges.EVIDENCE), "role": "llm", "accuracy": 0.85} | args.settings
    settings.setdefault("model", "rules" if settings["provider"] == "builtin" else settings.get("name"))
    name, model, evidence = settings.get("name") or settings["model"], settings["model"], tuple(settings["evidence"])
    built_in = settings["provider"] == "builtin"
    if built_in and model not in BUILT_IN:
        raise InputError(f"judge '{name}'", f"there is no built-in judge '{model}'", f"use {' or '.join(BUILT_IN)}")
    if not evidence or set(evidence) - set(judges.EVIDENCE):
        raise InputError(f"judge '{name}'", f"evidence: {list(evidence)}", f"use a list of {' and '.join(judges.EVIDENCE)}")
    if not args.normalised:
        raise InputError(f"judge '{name}'", "there are no trajectories to judge", "configure sources, or give labels instead of judges")
    drawn = read_rows(common.folder_of(args.sample), "sample", ["trajectory_id", "source", "status"])
    sources = {row["trajectory_id"]: row["source"] or "" for row in drawn if row["status"] == "analysed"}
    wanted = set(sources)
    book = codebook.load()
    if not built_in:
        _ask(args, DEFAULTS | settings, name, evidence, book, sources)
        return None
    rate = {"simulated": _simulated, "rules": _rules, "unanimous": _unanimous}[model]
    draws = _draws(settings, name)
    with common.stage(args, "judge", "trajectory") as (folder, counts):
        with TableWriter(folder, "judgments") as writer:
            for row in rate(args, settings, name, evidence, book.identity, wanted):
                counts.keep("trajectory")
                writer.add(row)
        if draws > 1:
            if model != "simulated":
                raise InputError(f"judge '{name}'", f"draws: {draws}", "a judge that draws nothing says the same each time")
            with TableWriter(folder, "draws") as writer:
                for draw in range(draws):
                    for row in _simulated(args, settings, name, evidence, book.identity, wanted, draw):
                        writer.add(_drawn(draw, row))
    return None


def _draws(settings: dict[str, Any], name: str) -> int:
    """Return how often each trajectory is judged."""
    draws = settings.get("draws", 1)
    if type(draws) is not int or draws < 1:
        raise InputError(f"judge '{name}'", f"draws: {draws!r}", "give a whole number of 1 or more")
    return draws


def _drawn(draw: int, row: dict[str, Any]) -> dict[str, Any]:
    """Return a judgment as a row of the draws."""
    from evoaudit import schema

    return {name: draw if name == "draw" else row[name] for name in schema.DRAWS.names}


def _rules(args: argparse.Namespace, settings: dict, name: str, evidence: tuple[str, ...], book: str, wanted: set[str]) -> Iterator[dict]:
    from evoaudit.audit import judges, rules
    from evoaudit.audit.episodes import episodes

    who = judges.Identity(name, "rules", "rules", evidence, book, parameters={"rules": rules.VERSION})
    folders = [common.folder_of(manifest) for manifest in args.normalised]
    for episode in episodes(folders, wanted, scratch=args.out):
        yield who.row(episode.id, rules.judge(rules.blinded(episode), screenshots="screenshots" in evidence))


def _simulated(
    args: argparse.Namespace, settings: dict, name: str, evidence: tuple[str, ...], book: str, wanted: set[str], draw: int = 0
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
                name=f"{name}#{draw}" if draw else name,
                accuracy=settings["accuracy"],
                seed=args.seed or 0,
                screenshots="screenshots" in evidence,
            ),
        )


def _unanimous(
    args: argparse.Namespace, settings: dict, name: str, evidence: tuple[str, ...], book: str, wanted: set[str]
) -> Iterator[dict]:
    from evoaudit.audit import judges
    from evoaudit.audit.combine import read_judgments

    given = read_judgments(args.judgments)
    members = {rows[0]["annotator"]: {row["trajectory_id"]: row for row in rows} for rows in given if rows}
    if len(given) < 2 or (wanted and set(members) != set(settings.get("ensemble") or members)):
        raise InputError(
            f"judge '{name}'", f"has the judgments of {', '.join(sorted(members)) or 'nobody'}", "give those of all its members"
        )
    parameters = {"members": {one: sorted({row["judge_id"] for row in rows.values()}) for one, rows in members.items()}}
    simulated = any(row["simulated"] for rows in members.values() for row in rows.values())
    who = judges.Identity(name, judges.ENSEMBLE, "unanimous", evidence, book, simulated, parameters)
    for identity in sorted(wanted):
        rows = {one: found[identity] for one, found in sorted(members.items()) if identity in found}
        if len(rows) < len(members):
            raise InputError(f"judge '{name}'", f"a member has not judged '{identity}'", "judge the same sample by all members")
        opinion, status, note = judges.opinions(rows)
        yield who.row(identity, opinion, status=status, note=note)


def asked_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return what the engine needs of a judge's settings; rows name its evidence as their condition."""
    found = {name: value for name, value in settings.items() if name in _ASKED}
    return found | {"condition": "+".join(sorted(settings["evidence"]))}


def made_cases(
    settings: dict[str, Any], wanted: set[str], folders: list[Path], prepared: Path | None, scratch: Path | None = None
) -> "tuple[Cases, Attachments]":
    """Return what is shown of each trajectory, to be closed after use, and the pictures."""
    from evoaudit.audit import judging
    from evoaudit.infer.base import Attachments
    from evoaudit.prepared import Pictures

    looks = "screenshots" in settings["evidence"]
    if looks and prepared is None:
        raise InputError("--images", "is missing, and this judge sees screenshots", "give the manifest of the images stage")
    attachments = Attachments(Pictures(prepared) if looks and prepared is not None else None)
    found = judging.Cases(scratch, _draws(settings, settings["name"]))
    try:
        found.write(judging.cases(folders, wanted, DEFAULTS | settings, attachments, scratch))
    except BaseException:
        found.close()
        raise
    return found, attachments


def identity_of(settings: dict[str, Any], name: str, evidence: tuple[str, ...], book: "Codebook", prompt: str) -> "Identity":
    """Return who judges: another prompt, codebook, model, parameter or policy is another judge."""
    from evoaudit.audit import evidence as shown
    from evoaudit.audit import judges

    parameters = {one: settings.get(one) for one in _IDENTITY}
    parameters |= {"prompt": prompt, "max_text": settings["max_text"], "shown": shown.VERSION}
    if "screenshots" in evidence:
        parameters |= {one: settings[one] for one in ("pictures", "max_pictures", "max_image_side")}
    return judges.Identity(name, "llm", settings["model"], evidence, book.identity, False, parameters)


def _ask(
    args: argparse.Namespace, settings: dict[str, Any], name: str, evidence: tuple[str, ...], book: "Codebook", sources: dict[str, str]
) -> None:
    """Ask a language model about every trajectory of ``sources``, each with its source; the journal outlives a run that fails."""
    from evoaudit.audit import asking, judging
    from evoaudit.infer.progress import Progress
    from evoaudit.resources import PROMPTS

    settings = {**settings, "name": name, "model": settings["model"], "evidence": list(evidence)}
    if (most := max(args.in_flight, default=0)) and settings.get("concurrency"):
        settings["concurrency"] = min(settings["concurrency"], most)
    prompt = asking.load(args.prompts or PROMPTS / "judge-v1", book)

    def say(line: str) -> None:
        joblog.say(f"{name}: {line}")

    def rewrite(line: str) -> None:
        print(f"\r{one_line(name)}: {one_line(line)}\x1b[K", end="", file=sys.stderr, flush=True)

    args.out.mkdir(parents=True, exist_ok=True)
    folders = [common.folder_of(manifest) for manifest in args.normalised]
    prepared = common.folder_of(args.images[0]) if args.images else None
    cases, attachments = made_cases(settings, set(sources), folders, prepared, args.out)
    with (
        cases,
        judging.judging(
            asked_settings(settings),
            cases,
            attachments,
            prompt,
            identity_of(settings, name, evidence, book, prompt.digest),
            out=args.out,
            seed=args.seed or 0,
            say=say,
            progress=Progress(rewrite, live=True) if sys.stderr.isatty() else Progress(say),
            shelf=args.shelf,
        ) as rows,
        common.stage(args, "judge", "trajectory") as (folder, counts),
    ):
        _write(folder, counts, name, rows, sources, cases.draws)
        for case in cases.trajectories:
            _count(counts, case)


def _write(
    folder: Path, counts: "Counts", name: str, rows: Iterator[tuple[int, dict, list[dict]]], sources: dict[str, str], draws: int
) -> None:
    """Write judgments, which are the first draw's, all draws where there are several, and the requests they rest on.

    Refuses to end without a single verdict.
    """
    from evoaudit.store import TableWriter, write_table

    first, several = None, TableWriter(folder, "draws") if draws > 1 else nullcontext()
    with TableWriter(folder, "judgments") as judgments, TableWriter(folder, "predictions") as requests, several as repeated:
        for draw, row, asked in rows:
            requests.extend(asked)
            if repeated is not None:
                repeated.add(_drawn(draw, row))
            if draw:
                continue
            judgments.add(row)
            counts.keep("trajectory")
            if row["status"] == "ok":
                counts.keep("verdict")
            else:
                first = first or row
                counts.drop("verdict", sources[row["trajectory_id"]], row["trajectory_id"], row["status"], row["note"])
    if first is not None and not counts.kept["verdict"]:
        raise InputError(
            f"judge '{name}'",
            f"gave no verdict on any of {judgments.rows} trajectories (for instance {first['status']}: {first['note']})",
            "ask another model, or mend the prompt",
        )
    write_table(folder, "drops", counts.rows)


def _count(counts: "Counts", case: dict[str, Any]) -> None:
    """Count what of a trajectory was shown and what was not."""
    fates = [screen["fate"] for screen in case["screens"]]
    counts.keep("screen", fates.count("shown"))
    for fate in ("still", "left_out", "lost"):
        counts.drop_many("screen", fate, fates.count(fate))
    counts.keep("character", case.get("characters", 0))
    counts.drop_many("character", "cut", case.get("cut_characters", 0))
