"""What says where the data come from: the data card, the citation, the checksums, Croissant and RO-Crate metadata.

Everything is a function of what is exported. Nothing here holds a time but the day of publication that the config names.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evoaudit import store
from evoaudit.export import dataset, licences
from evoaudit.resources import ROOT

TASKS = {"t1": "temporal ordering", "t2": "inverse action and value", "t3": "one-step successor"}
#: What was done about pictures, by `export.pictures`.
_PICTURES = {
    "masked": "Of {shown} pictures {read} were read by OCR. What may not leave was filled with one colour, and filled pictures were read "
    "again until nothing was left; text that OCR cannot read was not seen. The others are of sources whose identities are made up.",
    "unread": "**Pictures were not read: they may show credentials and personal data.** Only texts were searched and masked.",
    "none": "Pictures are left out; `image_ids` names them.",
}
_FORMATS = {
    ".parquet": "application/vnd.apache.parquet",
    ".csv": "text/csv",
    ".json": "application/json",
    ".yaml": "application/yaml",
    ".md": "text/markdown",
    ".cff": "application/yaml",
    ".py": "text/x-python",
}


@dataclass
class Facts:
    """What the card tells."""

    settings: Mapping[str, Any]
    #: Configuration → rows.
    rows: dict[str, int] = field(default_factory=dict)
    #: Source → kind, licence, rows by configuration, simulated, and where it was downloaded from.
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Final labels.
    labels: int = 0
    #: Rows that rest on simulated trajectories or raters.
    simulated: int = 0
    #: Reason → rows left out.
    dropped: dict[str, int] = field(default_factory=dict)
    #: Rule → places masked in texts and in pictures.
    masked: dict[str, int] = field(default_factory=dict)
    masked_pictures: int = 0
    #: Pictures shown, and those of them that were read.
    pictures: tuple[int, int] = (0, 0)
    upstream: Mapping[str, Any] = field(default_factory=dict)
    side: int | None = None

    @property
    def title(self) -> str:
        return self.settings["title"]

    @property
    def licence(self) -> str | None:
        """Return the one licence all rows are under, if there is one."""
        names = {name for source in self.sources.values() for name in source["licences"] or [None]}
        return names.pop() if len(names) == 1 else None


def line(text: object, limit: int = 300) -> str:
    """Return untrusted text as one line that opens no markup in a Markdown table."""
    flat = " ".join(str(text).split())[:limit]
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", flat)


def write_readme(folder: Path, facts: Facts) -> None:
    """Write ``README.md``, the data card with the header the hub reads."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Markdown, not HTML: what is not ours goes through `line`.
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    pictures = facts.settings["pictures"]
    text = environment.get_template("README.md.j2").render(
        title=facts.title,
        title_json=json.dumps(facts.title, ensure_ascii=False),
        terms=licences.of(facts.licence),
        rows=facts.rows,
        asked=asked,
        split=dataset.SPLIT,
        file=dataset.file,
        line=line,
        side=facts.side,
        simulated=facts.simulated,
        columns={
            task: [(name, _kind(name, kind), meaning) for name, (kind, meaning) in dataset.columns(task, pictures != "none").items()]
            for task in dict.fromkeys(map(dataset.task_of, facts.rows))
        },
        sets=sorted({config.rpartition("_")[0] for config in facts.rows} - {""}),
        labels=facts.labels,
        own=licences.OWN,
        sources=[(name, _shown(source)) for name, source in sorted(facts.sources.items())],
        pictures=_PICTURES[pictures].format(shown=facts.pictures[0], read=facts.pictures[1]),
        masked=", ".join(f"{rule} {n}" for rule, n in sorted(facts.masked.items())),
        masked_pictures=facts.masked_pictures,
        dropped=", ".join(f"{n} rows ({reason})" for reason, n in sorted(facts.dropped.items())),
        upstream=json.dumps(facts.upstream, indent=1, sort_keys=True),
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def asked(config: str) -> str:
    """Say in words what a configuration asks."""
    probe_set, _, task = config.rpartition("_")
    return TASKS[task] + (f", of the set `{probe_set}`" if probe_set else "")


def _shown(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source as the card's table shows it."""
    return {
        "kind": source["kind"],
        "simulated": source["simulated"],
        "held": ", ".join(line(one) for one in source["licences"]) or "none stated; passed on by permission",
        "counted": ", ".join(f"{config} {n}" for config, n in sorted(source["rows"].items())) or "wrong candidates of t3 alone",
        "origin": line(source["origin"] or "own files"),
    }


def _kind(name: str, kind: Any) -> str:
    return "list of pictures" if name == "images" else re.sub(r"list<\w+: (\w+)>", r"list of \1", str(kind))


def write_citation(folder: Path, facts: Facts) -> None:
    """Write ``CITATION.cff``: the program's own, with the data set as what is cited."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    title = json.dumps(facts.title, ensure_ascii=False)
    text = re.sub(r"(?m)^title: .*$", lambda _: f"title: {title}", text, count=1)
    text = re.sub(r"(?m)^message: .*$", "message: If you use this data set, please cite it, the two papers and its sources.", text, count=1)
    text = text.replace("type: software", "type: dataset", 1)
    text = re.sub(r"(?m)^version: .*$", f"version: {facts.settings['version']}", text, count=1)
    terms = licences.of(facts.licence)
    spdx = f"license: {terms.name}" if terms and not terms.restricted else ""
    text = re.sub(r"(?m)^license: .*\n", f"{spdx}\n" if spdx else "", text, count=1)
    if facts.settings["date"]:
        text = text.rstrip("\n") + f"\ndate-released: {facts.settings['date']}\n"
    (folder / "CITATION.cff").write_text(text, encoding="utf-8")


def _files(folder: Path, without: Sequence[str] = ()) -> list[tuple[str, int, str]]:
    """Return every file by its path, with size and sha256."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    found = [(path.relative_to(folder).as_posix(), path) for path in paths]
    return [(name, path.stat().st_size, store.sha256_file(path)) for name, path in found if name not in without]


def write_checksums(folder: Path) -> None:
    """Write ``SHA256SUMS`` over everything beside it, as ``sha256sum --check`` reads it."""
    lines = [f"{digest}  {name}\n" for name, _, digest in _files(folder)]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def _licence_url(facts: Facts) -> str:
    terms = licences.of(facts.licence)
    return terms.url if terms and terms.url else "README.md#sources-and-licences"


_DESCRIPTION = "Transition probes and audited verdicts from logged trajectories of computer-use agents."


def write_croissant(folder: Path, facts: Facts) -> None:
    """Write ``croissant.json`` (Croissant 1.0): the files and their columns."""
    context = {
        "@language": "en",
        "@vocab": "https://schema.org/",
        "citeAs": "cr:citeAs",
        "column": "cr:column",
        "conformsTo": "dct:conformsTo",
        "cr": "http://mlcommons.org/croissant/",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "dct": "http://purl.org/dc/terms/",
        "examples": {"@id": "cr:examples", "@type": "@json"},
        **{
            name: f"cr:{name}"
            for name in [
                "equivalentProperty",
                "extract",
                "field",
                "fileObject",
                "fileProperty",
                "fileSet",
                "format",
                "includes",
                "isLiveDataset",
                "jsonPath",
                "key",
                "md5",
                "parentField",
                "path",
                "recordSet",
                "references",
                "regex",
                "repeated",
                "replace",
                "samplingRate",
                "separator",
                "source",
                "subField",
                "transform",
            ]
        },
        "rai": "http://mlcommons.org/croissant/RAI/",
        "sc": "https://schema.org/",
    }
    files = [
        {
            "@type": "cr:FileObject",
            "@id": name,
            "name": name,
            "contentUrl": name,
            "contentSize": f"{size} B",
            "encodingFormat": "application/x-parquet",
            "sha256": digest,
        }
        for name, size, digest in _files(folder)
        if name.endswith(".parquet") and name.startswith("data/")
    ]
    records = [
        {
            "@type": "cr:RecordSet",
            "@id": config,
            "name": config,
            "description": asked(config).replace("`", ""),
            "key": {"@id": f"{config}/instance_id"},
            "field": [
                {
                    "@type": "cr:Field",
                    "@id": f"{config}/{name}",
                    "name": name,
                    "description": meaning.replace("`", ""),
                    "dataType": _croissant_type(name, kind),
                    **({"repeated": True} if str(kind).startswith("list") else {}),
                    "source": {
                        "fileObject": {"@id": dataset.file(config)},
                        "extract": {"column": name},
                        **({"transform": {"jsonPath": "bytes"}} if name == "images" else {}),
                    },
                }
                for name, (kind, meaning) in dataset.columns(config, facts.settings["pictures"] != "none").items()
            ],
        }
        for config in facts.rows
    ]
    data = {
        "@context": context,
        "@type": "sc:Dataset",
        "name": re.sub(r"[^A-Za-z0-9_. -]", "", facts.title) or "EvoGUI-Bench",
        "description": _DESCRIPTION,
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "license": _licence_url(facts),
        "url": "README.md",
        "version": facts.settings["version"],
        "citeAs": "see CITATION.cff",
        **({"datePublished": facts.settings["date"]} if facts.settings["date"] else {}),
        "distribution": files,
        "recordSet": records,
    }
    _json(folder / "croissant.json", data)


def _croissant_type(name: str, kind: Any) -> str:
    if name == "images":
        return "sc:ImageObject"
    inner = str(getattr(kind, "value_type", kind))
    return {"string": "sc:Text", "bool": "sc:Boolean"}.get(inner, "sc:Integer")


def write_crate(folder: Path, facts: Facts) -> None:
    """Write ``ro-crate-metadata.json`` (RO-Crate 1.1, profile Process Run Crate): the files, the program, and the run that made them."""
    packages = store.packages()
    files = [
        {
            "@id": name,
            "@type": "File",
            "name": name,
            "contentSize": str(size),
            "encodingFormat": _FORMATS.get(Path(name).suffix, "text/plain"),
            "sha256": digest,
        }
        for name, size, digest in _files(folder, ("ro-crate-metadata.json", "SHA256SUMS"))
    ]
    sources = [
        {
            "@id": f"#source-{name}",
            "@type": "Dataset",
            "name": name,
            "description": f"logs of kind {source['kind']}" + (", simulated" if source["simulated"] else ""),
            "license": ", ".join(source["licences"]) or "none stated",
            **({"isBasedOn": source["origin"]} if source["origin"] else {}),
        }
        for name, source in sorted(facts.sources.items())
    ]
    keys = [
        {"@id": f"#key-{stage}", "@type": "PropertyValue", "propertyID": stage, "name": f"keys of {stage}", "value": ", ".join(found)}
        for stage, found in sorted(facts.upstream.items())
    ]
    graph = [
        {
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
            "about": {"@id": "./"},
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": facts.title,
            "description": _DESCRIPTION,
            "version": facts.settings["version"],
            "license": {"@id": _licence_url(facts)} if licences.of(facts.licence) else "each row under its own, see README.md",
            **({"datePublished": facts.settings["date"]} if facts.settings["date"] else {}),
            "conformsTo": {"@id": "https://w3id.org/ro/wfrun/process/0.5"},
            "hasPart": [{"@id": file["@id"]} for file in files],
            "mentions": [{"@id": "#run"}],
        },
        {"@id": "https://w3id.org/ro/wfrun/process/0.5", "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"},
        *([{"@id": _licence_url(facts), "@type": "CreativeWork", "name": facts.licence}] if licences.of(facts.licence) else []),
        {"@id": "#evoaudit", "@type": "SoftwareApplication", "name": "EvoAudit", "softwareVersion": packages.get("evoaudit", "unknown")},
        {
            "@id": "#run",
            "@type": "CreateAction",
            "name": "The run that made this data set",
            "instrument": {"@id": "#evoaudit"},
            "object": [{"@id": one["@id"]} for one in (*sources, *keys)],
            "result": [{"@id": file["@id"]} for file in files],
        },
        *sources,
        *keys,
        *files,
    ]
    _json(folder / "ro-crate-metadata.json", {"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": graph})


def _json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
