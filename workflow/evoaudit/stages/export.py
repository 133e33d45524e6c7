"""Export what others can reuse: the probes as a data set and as tasks of other harnesses, the audit, and what says where they come from."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evoaudit.stages import common

if TYPE_CHECKING:
    from evoaudit.export.card import Facts
    from evoaudit.export.licences import Held
    from evoaudit.export.masking import Pictures
    from evoaudit.export.privacy import Texts
    from evoaudit.prompts import PromptSet
    from evoaudit.store import Counts

#: Columns of a probe that are texts of its source's.
_TEXTS = ("goal", "domain", "website")
_IDS = ("trajectory_id", "distractor_trajectory", "source")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this stage's arguments."""
    common.arguments(parser)
    parser.add_argument("--mined", nargs="*", default=[], metavar="MANIFEST", help="the probes")
    parser.add_argument("--images", nargs="*", default=[], metavar="MANIFEST", help="their prepared pictures")
    parser.add_argument("--sets", nargs="*", default=[], metavar="MANIFEST", help="the probes of further sets")
    parser.add_argument("--set-images", nargs="*", default=[], metavar="MANIFEST", help="their prepared pictures")
    parser.add_argument("--normalised", nargs="*", default=[], metavar="MANIFEST", help="the normalised sources")
    parser.add_argument("--root", nargs="*", default=[], metavar="SOURCE=PATH", help="folders of the sources' own files")
    parser.add_argument("--final", nargs="*", default=[], metavar="MANIFEST", help="the combined labels")
    parser.add_argument("--stats", nargs="*", default=[], metavar="MANIFEST", help="the statistics, so that an export belongs to a run")
    parser.add_argument("--prompts", type=Path, default=None, metavar="DIR", help="folder of the prompts")
    parser.add_argument("--read", type=Path, default=None, metavar="DIR", help="folder where text read in pictures is kept")


#: Settings of an export that names none.
_DEFAULTS: dict[str, Any] = {
    "title": "EvoGUI-Bench",
    "version": "1.0.0",
    "date": None,
    "probes": True,
    "labels": True,
    "pictures": "masked",
    "goal": "shown",
    "sets": None,
    "privacy": {},
}


def run(args: argparse.Namespace) -> None:
    """Write the data set, the harnesses' tasks, the audit, and the card; or refuse with what may not leave."""
    from evoaudit import store
    from evoaudit.export import card

    settings = {**_DEFAULTS, **args.settings}
    with common.stage(args, "export", "row") as (folder, counts):
        facts = card.Facts(settings, upstream=args.upstream)
        texts = _texts(args, settings)
        if settings["probes"] and (args.mined or args.sets):
            _probes(folder, args, settings, facts, texts, counts)
        if settings["labels"]:
            for manifest in args.final:
                _labels(folder, common.folder_of(manifest), facts, texts, counts)
        _privacy(folder, facts, texts)
        if counts.rows:
            store.write_table(folder, "drops", counts.rows)
        facts.dropped = dict(counts.dropped.get("row", {}))
        card.write_citation(folder, facts)
        if facts.rows:
            card.write_croissant(folder, facts)
        card.write_readme(folder, facts)
        card.write_crate(folder, facts)
        card.write_checksums(folder)


def _texts(args: argparse.Namespace, settings: dict[str, Any]) -> "Texts":
    """Take in every trajectory, what was typed into which field of it, and what its elements are called."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from evoaudit import store
    from evoaudit.export import privacy

    given = settings["privacy"]
    texts = privacy.Texts(privacy.Allowed(tuple(given.get("allow") or ()), privacy.published()), tuple(given.get("fictional") or ()))
    columns = ["trajectory_id", "step", "op", "value", "target"]
    for folder in map(common.folder_of, args.normalised):
        steps = store.read_table(folder, "steps", columns)
        typed_in = pc.and_(pc.is_valid(steps["value"]), pc.is_in(steps["op"], pa.array(["type", "paste", "select"])))
        wanted = pc.or_(typed_in, pc.is_valid(pc.struct_field(steps["target"], "text")))
        typed: dict[str, list[dict]] = {}
        for step in steps.filter(wanted).to_pylist():
            typed.setdefault(step["trajectory_id"], []).append(step)
        for row in store.read_rows(folder, "trajectories", ["trajectory_id", "source", "benchmark", "license", "kind", "simulated"]):
            texts.learn(row, sorted(typed.get(row["trajectory_id"], []), key=lambda step: step["step"]))
    return texts


@dataclass(frozen=True)
class _Set:
    """The probes of the paper's set, or of a further one by its name."""

    name: str | None
    mined: Path
    images: Path | None

    def rows(self, settings: dict[str, Any], texts: "Texts", counts: "Counts") -> dict[str, list[dict]]:
        """Return its probes that may leave by configuration, and count the others."""
        from evoaudit.conditions import TASKS
        from evoaudit.export import dataset

        return {dataset.name(task, self.name): list(_kept(self.mined, task, self.name, settings, texts, counts)) for task in TASKS}


def _sets(args: argparse.Namespace, settings: dict[str, Any]) -> list[_Set]:
    """Return the sets that leave, the paper's first; pictures name the probes they are of by their key."""
    from evoaudit.store import read_manifest

    pictures: dict[str, Path] = {}
    for folder in map(common.folder_of, args.set_images):
        pictures |= dict.fromkeys(read_manifest(folder)["upstream"].get("mine", ()), folder)
    found = [_Set(None, common.folder_of(path), common.folder_of(args.images[0]) if args.images else None) for path in args.mined[:1]]
    others = []
    for folder in map(common.folder_of, args.sets):
        manifest = read_manifest(folder)
        others.append(_Set(str(manifest["config"].get("set") or folder.name), folder, pictures.get(manifest["key"])))
    wanted = settings["sets"]
    return found + sorted((one for one in others if wanted is None or one.name in wanted), key=lambda one: one.name or "")


def _probes(folder: Path, args: argparse.Namespace, settings: dict[str, Any], facts: "Facts", texts: "Texts", counts: "Counts") -> None:
    """Write the three tasks of every set and their harnesses."""
    from evoaudit import prompts
    from evoaudit.export import dataset, harness, licences
    from evoaudit.probes.vocabulary import vocabulary_of

    held, origins = _sources(args)
    sets = [(one, one.rows(settings, texts, counts)) for one in _sets(args, settings)]
    shown: dict[licences.Held, list[str]] = {}
    for config, probes in ((config, probes) for _, rows in sets for config, probes in rows.items()):
        for probe in probes:
            for one in {held[name] for name in _trajectories(probe)}:
                shown.setdefault(one, []).append(f"{config} {probe['instance_id']}")
                _told(facts, one, *origins[one.source])
            own = facts.sources[probe["source"]]["rows"]
            own[config] = own.get(config, 0) + 1
            facts.simulated += probe["simulated"]
    licences.gate(shown, settings)
    prompt_set = prompts.load(args.prompts) if args.prompts else prompts.shipped()
    for one, rows in sets:
        pictures = _pictures(args, settings, one, rows, texts)
        try:
            make = _Maker(held, prompt_set, vocabulary_of(one.mined), settings["goal"], texts, pictures)
            for config, probes in rows.items():
                facts.rows[config] = dataset.write(folder, config, (make.row(config, probe) for probe in probes), pictures is not None)
                counts.keep("row", facts.rows[config])
                _proved(folder / dataset.file(config), texts)
            if pictures is not None:
                facts.side = facts.side or pictures.side
                facts.masked_pictures += len(pictures.masked)
                facts.pictures = facts.pictures[0] + pictures.shown, facts.pictures[1] + pictures.read
                texts.found += pictures.found
        finally:
            if pictures is not None:
                pictures.close()
    if settings["pictures"] != "none":
        harness.write(folder, list(facts.rows), settings)


def _trajectories(probe: dict[str, Any]) -> set[str]:
    """Return the trajectories whose screens an item shows."""
    return {probe["trajectory_id"], probe.get("distractor_trajectory") or probe["trajectory_id"]}


def _told(facts: "Facts", held: "Held", kind: str, origin: str | None) -> None:
    """Name a source on the card."""
    entry = facts.sources.setdefault(held.source, {"kind": kind, "licences": [], "rows": {}, "simulated": held.simulated, "origin": origin})
    if held.name and held.name not in entry["licences"]:
        entry["licences"] = sorted([*entry["licences"], held.name])


@dataclass(frozen=True)
class _Maker:
    """Makes a row of the data set of a probe."""

    held: dict[str, "Held"]
    prompt_set: "PromptSet"
    vocabulary: tuple[str, ...]
    goal: Any
    texts: "Texts"
    pictures: "Pictures | None"

    def row(self, config: str, probe: dict[str, Any]) -> dict[str, Any]:
        """Return the row, with its texts masked before they enter the prompt."""
        from evoaudit.export import dataset

        task = dataset.task_of(config)
        name, item = probe["trajectory_id"], f"{config} {probe['instance_id']}"
        told = {column: self.texts.masked(name, item, column, probe[column]) for column in _TEXTS}
        masked = any(told[column] != probe[column] for column in _TEXTS)
        found = {**probe, **told, "license": self.held[name].name, "image_ids": probe["images"], "options": list(self.vocabulary)}
        found |= dataset.asked(self.prompt_set[task], found, self.goal, self.vocabulary)
        if task == "t3":
            found["distractor_license"] = self.held[probe["distractor_trajectory"]].name
        if self.pictures is not None:
            found["images"] = [{"bytes": self.pictures.get(one), "path": f"{one}.png"} for one in probe["images"]]
            masked |= not self.pictures.masked.isdisjoint(probe["images"])
        found["masked"] = masked
        return {column: found[column] for column in dataset.columns(config, self.pictures is not None)}


def _kept(
    mined: Path, task: str, probe_set: str | None, settings: dict[str, Any], texts: "Texts", counts: "Counts"
) -> Iterator[dict[str, Any]]:
    """Yield the probes of a task that may leave, and count the others."""
    from evoaudit import store
    from evoaudit.export import dataset

    stays = set(settings.get("leave_out") or ())
    for probe in sorted(store.read_rows(mined, task), key=lambda probe: probe["instance_id"]):
        name, item = probe["trajectory_id"], f"{dataset.name(task, probe_set)} {probe['instance_id']}"
        if any(texts.source(one) in stays for one in _trajectories(probe)):
            counts.drop("row", probe["source"], item, "left_out", "the config names its source")
        elif any(texts.spans(name, probe.get(field)) for field in _IDS):
            counts.drop("row", probe["source"], item, "identifier_in_id", "its trajectory's id may not leave")
        elif task == "t2" and (rule := texts.typed(name, probe["step"], probe["answer_value"])):
            counts.drop("row", probe["source"], item, "masked_value", f"its answer may not leave ({rule})")
        else:
            yield probe


def _sources(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, tuple[str, str | None]]]:
    """Return the licence of every trajectory, and of every source its kind and where it was downloaded from."""
    from evoaudit import store
    from evoaudit.export.licences import Held

    held: dict[str, Held] = {}
    origins: dict[str, tuple[str, str | None]] = {}
    for folder in map(common.folder_of, args.normalised):
        origin = _origin(folder)
        for row in store.read_rows(folder, "trajectories", ["trajectory_id", "source", "kind", "license", "simulated"]):
            held[row["trajectory_id"]] = Held(row["source"], row["license"], row["simulated"])
            origins[row["source"]] = row["kind"], origin
    return held, origins


def _origin(folder: Path) -> str | None:
    """Return the data set on the hub a normalised source was read from, with its commit."""
    from evoaudit.store import read_manifest

    if not (folder / "manifest.json").is_file():
        return None
    for key in (read_manifest(folder).get("upstream") or {}).get("download", ()):
        place = folder.parents[1] / "download" / key
        if (place / "manifest.json").is_file():
            config = read_manifest(place)["config"]
            return f"https://huggingface.co/datasets/{config.get('repo')}/tree/{config.get('commit')}"
    return None


def _pictures(
    args: argparse.Namespace, settings: dict[str, Any], probe_set: _Set, rows: dict[str, list[dict]], texts: "Texts"
) -> "Pictures | None":
    """Return the pictures as they may leave, or None where they stay."""
    from evoaudit.errors import InputError
    from evoaudit.export import masking

    if settings["pictures"] == "none":
        return None
    if probe_set.images is None:
        raise InputError(
            "--images" if probe_set.name is None else "--set-images",
            "is missing",
            "give the manifest of the prepared pictures, or set pictures to 'none'",
        )
    of: dict[str, set[str]] = {}
    for probes in rows.values():
        for probe in probes:
            for place, image in enumerate(probe["images"]):
                owners = {probe["trajectory_id"]} | (
                    {probe["distractor_trajectory"]} if place and "distractor_trajectory" in probe else set()
                )
                of.setdefault(image, set()).update(owners)
    return masking.Pictures(
        probe_set.images,
        [common.folder_of(path) for path in args.normalised],
        common.roots(args.root),
        of,
        texts,
        read=settings["pictures"] == "masked",
        cache=args.read,
        threads=max(1, args.threads),
    )


def _labels(folder: Path, combined: Path, facts: "Facts", texts: "Texts", counts: "Counts") -> None:
    """Write the audit: the final labels, every rater's, and the codebook."""
    from evoaudit import csvfile, store
    from evoaudit.resources import CODEBOOK

    place = folder / "audit"
    place.mkdir(exist_ok=True)
    for name in ("final", "labels"):
        if name == "labels" and not (combined / "labels.parquet").is_file():
            continue
        table = store.read_table(combined, name)
        kept = []
        for row in table.to_pylist():
            trajectory = row["trajectory_id"]
            if texts.spans(trajectory, trajectory):
                counts.drop("row", "", f"{name}", "identifier_in_id", "its trajectory's id may not leave")
                continue
            for column in ("note", "agent", "task_id", "annotator"):
                if column in row:
                    row[column] = texts.masked(trajectory, f"{name} {trajectory}", column, row[column])
            kept.append(row)
        facts.simulated += sum(row["simulated"] for row in kept)
        counts.keep("row", len(kept))
        if name == "final":
            facts.labels += len(kept)
        csvfile.write(place / f"{name}.csv", table.column_names, kept)
    (place / "codebook.yaml").write_bytes((CODEBOOK / "v1.yaml").read_bytes())


def _proved(path: Path, texts: "Texts") -> None:
    """Read a written table again and refuse it if one of its texts still shows what may not leave."""
    import pyarrow.parquet as pq

    from evoaudit.errors import InputError

    file = pq.ParquetFile(path)
    columns = [name for name in (*_TEXTS, "prompt", "answer_value") if name in file.schema_arrow.names]
    with file:
        for batch in file.iter_batches(columns=["trajectory_id", "instance_id", *columns]):
            for row in batch.to_pylist():
                for column in columns:
                    if left := texts.spans(row["trajectory_id"], row[column]):
                        raise InputError(
                            f"{path.parent.name} {row['instance_id']}: {column}",
                            f"still shows what may not leave ({left[0].rule}) after masking",
                            "name the source in export.leave_out; nothing was written",
                        )


def _privacy(folder: Path, facts: "Facts", texts: "Texts") -> None:
    """Write ``privacy.json``: where something was masked and by which rule, never what it was."""
    import json

    for one in texts.found:
        facts.masked[one["rule"]] = facts.masked.get(one["rule"], 0) + one["n"]
    told = {"spared": dict(sorted(texts.spared.items())), "masked": sorted(texts.found, key=lambda one: json.dumps(one, sort_keys=True))}
    (folder / "privacy.json").write_text(json.dumps(told, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
