"""The plan of a run: which job of which stage, with which settings, from which upstream jobs.

Everything is known before anything runs, so the graph of jobs is static.
"""

import json
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from evoaudit import extras, hub
from evoaudit.conditions import CONDITIONS
from evoaudit.config import PRICES, SIMULATED_FORMATS, Config, Judge, Model, Source
from evoaudit.errors import InputError
from evoaudit.fingerprint import fingerprint
from evoaudit.identity import FORMAT, make_key
from evoaudit.resources import CODEBOOK, FICTIONAL, PROMPTS, PUBLISHED
from evoaudit.simulate import control
from evoaudit.sources import platform
from evoaudit.wholefile import write_whole

if TYPE_CHECKING:
    from evoaudit.infer.prices import Price

PACKAGE = Path(__file__).parent
RESULTS = Path("results")
#: The codebook judges, label files and combination share.
CODEBOOK_FILE = CODEBOOK / "v1.yaml"


@dataclass(frozen=True)
class Job:
    """One job: its keyed settings, its upstream jobs, and what it needs that is not in the key."""

    stage: str
    label: str
    settings: dict[str, Any]
    seed: int | None = None
    upstream: dict[str, tuple["Job", ...]] = field(default_factory=dict)
    #: Settings that do not change what the output means (concurrency, deadlines), passed along but not in the key.
    transport: dict[str, Any] = field(default_factory=dict)
    #: Files and folders outside the workflow that the job reads; their contents are in the key, their places are not.
    places: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return _key_of(self)

    @property
    def upstream_keys(self) -> dict[str, list[str]]:
        return {stage: sorted(job.key for job in jobs) for stage, jobs in self.upstream.items() if jobs}

    @property
    def all_settings(self) -> dict[str, Any]:
        return {**self.settings, **self.transport}

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


@cache
def _key_of(job: Job) -> str:
    return make_key(job.stage, job.settings, job.seed, job.upstream_keys)


@dataclass(frozen=True)
class Plan:
    """All jobs of a config."""

    config: Config
    jobs: tuple[Job, ...]
    #: Sources on the hub that the lock file does not pin yet: until it does, nothing that reads them has a lasting key.
    unlocked: tuple[str, ...] = ()

    def of(self, stage: str) -> tuple[Job, ...]:
        """Return the jobs of one stage."""
        return tuple(job for job in self.jobs if job.stage == stage)

    def job(self, stage: str, key: str) -> Job:
        """Return the job of a stage with that key; KeyError if the plan has none."""
        if (job := self._named.get((stage, key))) is None:
            raise KeyError(f"{stage}/{key} is not in this plan")
        return job

    @cached_property
    def _named(self) -> dict[tuple[str, str], Job]:
        """Every job by stage and key; of two alike, the first."""
        return {(job.stage, job.key): job for job in reversed(self.jobs)}

    def roots(self) -> dict[str, str]:
        """Return source name → folder of its own files."""
        mined = {job.key for stats in self.of("stats") for job in stats.upstream["normalise"]}
        return {job.settings["source"]: job.places["root"] for job in self.of("normalise") if job.key in mined}


def build(config: Config, results: Path = RESULTS, must_exist: bool = True) -> Plan:
    """Lay out every job of a config.

    ``must_exist`` refuses paths that are not there; without it their contents count as absent.
    """
    maker = _Maker(config, Path(results), must_exist)
    return Plan(config, tuple(maker.run()), tuple(maker.unlocked))


class _Maker:
    def __init__(self, config: Config, results: Path, must_exist: bool) -> None:
        self.config, self.results, self.must_exist = config, results, must_exist
        self.jobs: list[Job] = []
        self.unlocked: list[str] = []
        #: Digests of what many jobs read, as prompts.
        self.digests: dict[tuple[Path, bool], str] = {}
        #: Simulated sources with a planted fault, which only the alignment check sees.
        self.controls: list[Job] = []

    def add(self, *args: Any, **kwargs: Any) -> Job:
        job = Job(*args, **kwargs)
        self.jobs.append(job)
        return job

    def digest(self, path: Path, field: str, folder: bool = False) -> str:
        """Return the digest of a user's file or folder."""
        if (path, folder) in self.digests:
            return self.digests[path, folder]
        try:
            if self.must_exist:
                if not path.exists():
                    raise InputError(
                        f"{field}: {path}",
                        "no such folder" if folder else "no such file",
                        "give the right path, relative to the working directory" + (" or to `root`" if folder else ""),
                    )
                if folder and not path.is_dir():
                    raise InputError(f"{field}: {path}", "is a file; a folder is needed", "give the folder that holds it")
                if not folder and not path.is_file():
                    what = "is a folder; a file is needed" if path.is_dir() else "is not a file"
                    raise InputError(f"{field}: {path}", what, "give the file's path, relative to the working directory")
            return self.digests.setdefault((path, folder), fingerprint(path, self.results / ".fingerprints") or "absent")
        except OSError as error:
            raise InputError(f"{field}: {error.filename or path}", error.strerror or str(error), "mend its permissions") from None

    def check_extras(self) -> None:
        """Refuse a model whose packages are not installed, before anything runs."""
        for model in self.config.models:
            if model.provider == "builtin" and (model.model or model.name) == extras.OCR_MODEL:
                extras.require_ocr(model.name)

    def run(self) -> list[Job]:
        config = self.config
        if self.must_exist:
            self.check_extras()
        normalised = tuple(job for source in config.sources for job in self.source(source))
        if twice := {
            job.settings["source"] for job in normalised if sum(j.settings["source"] == job.settings["source"] for j in normalised) > 1
        }:
            raise InputError("sources", f"the name '{sorted(twice)[0]}' is used twice", "rename one")
        mined = scored = None
        infers: tuple[Job, ...] = ()
        pictures: dict[int, Job] = {}
        main, others = self.sets(normalised)
        if main:
            mined = self.mine(main)
            self.pairs(mined, main)
            pictures, infers, scored = self.asked(mined, main)
        sets = {name: self.mine(jobs, name) for name, jobs in others.items()}
        asked = {name: self.asked(sets[name], jobs, name) for name, jobs in others.items()}
        set_answers = {
            "sets": tuple(sets.values()),
            "set_infer": tuple(job for _, jobs, _ in asked.values() for job in jobs),
            "set_score": tuple(job for _, _, job in asked.values() if job is not None),
        }
        audit = self.audit(normalised)
        beside: dict[str, Any] = {} if config.stats.deadline_s == 300 else {"deadline_s": config.stats.deadline_s}
        if config.stats.measured is not None:
            beside["measured"] = self.digest(Path(config.stats.measured), "stats.measured")
        stats = self.add(
            "stats",
            "all",
            {
                "bootstrap": config.stats.bootstrap,
                "confidence": config.stats.confidence,
                "baseline": config.stats.baseline,
                "models": [
                    {
                        "name": m.name,
                        # A made-up model stands for one of its group; every other built-in one understands nothing.
                        "group": "baseline" if m.provider == "builtin" and (m.model or m.name) != "simulated" else m.group,
                        "provider": m.provider,
                        "family": m.family,
                        "parameters_b": m.parameters_b,
                        "osworld": m.osworld,
                    }
                    for m in config.models
                ],
                "judges": [{"name": j.name, "role": j.role} for j in config.judges],
                **beside,
            },
            config.run.seed,
            {
                "normalise": normalised,
                "control": tuple(self.controls),
                "mine": _some(mined),
                "score": _some(scored),
                "infer": infers,
                **set_answers,
                **audit,
            },
            places={} if config.stats.measured is None else {"measured": config.stats.measured},
        )
        tables = self.add("tables", "all", {}, upstream={"stats": (stats,)})
        figures = self.add("figures", "all", {}, upstream={"stats": (stats,)})
        bound = {} if config.report.max_pictures_mb is None else {"max_pictures_mb": config.report.max_pictures_mb}
        self.add(
            "report",
            "all",
            {"name": config.run.name, "title": config.report.title, "max_items": config.report.max_items, **bound},
            config.run.seed,
            {
                "stats": (stats,),
                "tables": (tables,),
                "figures": (figures,),
                "normalise": normalised,
                "mine": _some(mined),
                "images": (pictures[self.side(pictures)],) if pictures else (),
                "score": _some(scored),
                "infer": infers,
                **set_answers,
                "set_images": tuple(prepared[self.side(prepared)] for prepared, _, _ in asked.values()),
                **audit,
            },
            # What the prompts say is in the keys of the answers.
            places={"prompts": infers[0].places["prompts"]} if infers else {},
        )
        self.export(normalised, mined, pictures, {name: (sets[name], asked[name][0]) for name in sets}, audit, stats)
        return self.jobs

    def side(self, pictures: dict[int, Job]) -> int:
        """Return the picture size that stands for all that were asked: the first the config names for every model, else the smallest."""
        return next((side for side in self.config.inference.max_image_side if side in pictures), min(pictures))

    def export(
        self,
        normalised: tuple[Job, ...],
        mined: Job | None,
        pictures: dict[int, Job],
        sets: dict[str, tuple[Job, dict[int, Job]]],
        audit: dict[str, tuple[Job, ...]],
        stats: Job,
    ) -> None:
        """Add the export; the probes' pictures are those of one side, prepared for it alone only where the config names another."""
        config, wanted = self.config, self.config.export
        named = {job.settings["source"] for job in normalised}
        lists = {"accept": wanted.accept, "leave_out": wanted.leave_out, "privacy.fictional": wanted.privacy.fictional}
        for option, name in ((option, name) for option, names in lists.items() for name in names):
            if name not in named:
                raise InputError(f"export.{option}: '{name}'", "no such source", f"there are {', '.join(sorted(named)) or 'none'}")
        for name in wanted.sets or ():
            if name not in sets:
                raise InputError(f"export.sets: '{name}'", "no such set", f"there are {', '.join(sets) or 'none'}")
        settings = wanted.model_dump(mode="json", exclude={"max_image_side"})
        settings["privacy"]["published"] = fingerprint(FICTIONAL) or "absent"
        upstream = {"combine": audit.get("combine", ()), "stats": (stats,), "normalise": normalised}
        places: dict[str, Any] = {}
        leaving = {name: found for name, found in sets.items() if wanted.sets is None or name in wanted.sets}
        if mined is not None or leaving:
            prompts = _prompt_folder(config.inference.prompts, "inference.prompts", "t1.yaml")
            settings |= {
                "goal": config.inference.goal,
                "prompts": self.digest(prompts, "inference.prompts", folder=True),
            }
            places["prompts"] = str(prompts)
            upstream |= {"mine": _some(mined), "sets": tuple(job for job, _ in leaving.values())}
            if wanted.probes and wanted.pictures != "none":
                upstream["images"] = tuple(self.leaving(job, pictures, normalised, "export") for job in _some(mined))
                upstream["set_images"] = tuple(
                    self.leaving(job, sides, normalised, f"export/{name}") for name, (job, sides) in leaving.items()
                )
        self.add("export", "all", settings, upstream=upstream, places=places)

    def leaving(self, mined: Job, pictures: dict[int, Job], normalised: tuple[Job, ...], label: str) -> Job:
        """Return the pictures of some probes at the side they leave in."""
        side = self.config.export.max_image_side or self.side(pictures)
        if side in pictures:
            return pictures[side]
        seen = {"mine": (mined,), "normalise": normalised}
        return self.add("images", f"{label}/side-{side}", {"max_image_side": side}, upstream=seen)

    def source(self, source: Source) -> list[Job]:
        if source.kind == "simulated":
            formats = [name for name in SIMULATED_FORMATS if name in (source.formats or SIMULATED_FORMATS)]
            about = {"trajectories": source.trajectories, "formats": formats} | ({"injections": True} if source.injections else {})
            corpus = self.add("simulate", source.name, about, self.config.run.seed)
            folder = self.results / "simulate" / corpus.key
            if control.planted(source.trajectories, formats):
                name = f"{source.name}-{control.FOLDER}"
                settings = {"source": name, "kind": "plain", "simulated": True, "options": {}}
                places = {"root": str(folder / control.FOLDER)}
                self.controls.append(self.add("normalise", name, settings, upstream={"simulate": (corpus,)}, places=places))
            return [
                self.add(
                    "normalise",
                    f"{source.name}-{name}",
                    {"source": f"{source.name}-{name}", "kind": name, "simulated": True, "options": {}},
                    upstream={"simulate": (corpus,)},
                    places={"root": str(folder / name), "truth": str(folder / "truth.jsonl"), "tasks": str(folder / f"{name}-tasks.jsonl")},
                )
                for name in formats
            ]
        names = ("split", "benchmarks", "agents", "files", "obs_phase", "benchmark", "domain", "experiment", "license", "revision")
        given = source.model_dump(mode="json")
        options = {name: given[name] for name in names if given[name] is not None}
        settings = {"source": source.name, "kind": source.kind, "simulated": False, "options": options}
        upstream = {}
        if source.path is not None:
            root = Path(self.config.root) / source.path
            settings["contents"] = self.digest(root, f"source '{source.name}'", folder=True)
        else:
            fetched, root = self.download(source, options)
            settings["contents"] = fetched.settings["locked"] or "unlocked"
            upstream["download"] = (fetched,)
        places = {"root": str(root)}
        if source.tasks:
            settings["tasks"] = self.digest(Path(source.tasks), f"source '{source.name}'.tasks")
            places["tasks"] = source.tasks
        return [self.add("normalise", source.name, settings, upstream=upstream, places=places)]

    def download(self, source: Source, options: dict[str, Any]) -> tuple[Job, Path]:
        """Add the download of a source and return it with the folder it fills; provisional until the lock file pins them."""
        revision = source.revision or "main"
        lock, store = Path(self.config.downloads.lock), Path(self.config.downloads.store)
        selection = {name: options[name] for name in ("split", "benchmarks", "agents", "files") if name in options}
        found = hub.located(lock, store, source.kind, source.hub, revision, selection)
        if found is None:
            self.unlocked.append(source.name)
        settings = {
            "source": source.name,
            "kind": source.kind,
            "repo": source.hub,
            "revision": revision,
            "options": selection,
            "commit": None if found is None else found.commit,
            "locked": None if found is None else hub.contents(found.files),
        }
        job = self.add("download", source.name, settings, places={"store": str(store), "lock": str(lock)})
        return job, store / "unlocked" if found is None else found.folder

    def sets(self, normalised: tuple[Job, ...]) -> tuple[tuple[Job, ...], dict[str, tuple[Job, ...]]]:
        """Return the sources of the paper's set, and those of every other set by its name."""
        probes = self.config.probes
        known = {job.settings["source"]: job for job in normalised}

        def named(names: Iterable[str], field: str) -> tuple[Job, ...]:
            for name in names:
                if name not in known:
                    raise InputError(f"{field}: '{name}'", "no such source", f"there are {', '.join(known)}")
            found = tuple(known[name] for name in dict.fromkeys(names))
            if len(kinds := {kind for job in found if (kind := platform(job.settings["kind"]))}) > 1:
                raise InputError(field, f"holds sources of {' and '.join(sorted(kinds))}", "make a set of each")
            return found

        others = {name: named(one.sources, f"probes.sets.{name}.sources") for name, one in sorted(probes.sets.items())}
        taken = {job.settings["source"]: name for name, jobs in others.items() for job in jobs}
        if probes.sources is None:
            return tuple(
                job for name, job in known.items() if name not in taken and platform(job.settings["kind"]) in ("web", None)
            ), others
        main = named(probes.sources, "probes.sources")
        for job in main:
            name, kind = job.settings["source"], platform(job.settings["kind"])
            if kind not in ("web", None) or name in taken:
                reason = (
                    f"is in the set '{taken[name]}' too" if name in taken else f"is a {kind} source, and the paper's set is of web pages"
                )
                raise InputError(f"probes.sources: '{name}'", reason, "leave it to a set of probes.sets")
        return main, others

    def mine(self, normalised: tuple[Job, ...], name: str | None = None) -> Job:
        """Mine the paper's set, or another one."""
        probes = self.config.probes
        chosen = probes if name is None else probes.sets[name]
        settings = probes.model_dump(mode="json", exclude={"sources", "sets"})
        if name is not None:
            settings |= {"set": name, **chosen.model_dump(mode="json", exclude={"sources"})}
        places = {}
        given = chosen.t3.reviewed or ()
        if files := [given] if isinstance(given, str) else list(dict.fromkeys(given)):
            field = "probes.t3.reviewed" if name is None else f"probes.sets.{name}.t3.reviewed"
            digests = sorted(self.digest(Path(path), field) for path in files)
            places["reviewed"] = files
            settings["t3"]["reviewed"] = digests[0] if len(digests) == 1 else digests
        else:
            settings["t3"]["reviewed"] = None
        return self.add("mine", name or "all", settings, self.config.run.seed, {"normalise": normalised}, places=places)

    def pairs(self, mined: Job, normalised: tuple[Job, ...]) -> None:
        """Add the page on which people look at the T3 pairs; it carries what they have decided already."""
        if not any(self.config.probes.t3.quota.values()):
            return
        # What has been decided is in the key of what was mined.
        self.add("pairs", "all", {}, upstream={"mine": (mined,), "normalise": normalised}, places=mined.places)

    def asked(self, mined: Job, normalised: tuple[Job, ...], name: str | None = None) -> tuple[dict[int, Job], tuple[Job, ...], Job | None]:
        """Add what asks every model about one set: its pictures by side, the answers, and their scores if there are any."""
        config = self.config
        before = "" if name is None else f"{name}/"
        sides = {side for model in config.models for side in model.max_image_side or config.inference.max_image_side} or {512}
        pictures = {
            side: self.add("images", f"{before}side-{side}", {"max_image_side": side}, upstream={"mine": (mined,), "normalise": normalised})
            for side in sorted(sides)
        }
        infers = tuple(job for model in config.models for job in self.infer(model, mined, pictures, before))
        scored = self.add("score", name or "all", {}, upstream={"mine": (mined,), "infer": infers}) if infers else None
        return pictures, infers, scored

    def infer(self, model: Model, mined: Job, pictures: dict[int, Job], before: str = "") -> list[Job]:
        defaults = self.config.inference
        prompts = _prompt_folder(defaults.prompts, "inference.prompts", "t1.yaml")
        drawn = model.provider == "builtin" and (model.model or model.name) in ("random", "simulated")
        random = drawn and model.accuracy is None
        made_up = {} if model.accuracy is None else {"accuracy": model.accuracy.model_dump()}
        seed = self.config.run.seed
        jobs = []
        for condition in model.conditions or defaults.conditions:
            for side in model.max_image_side or defaults.max_image_side:
                settings = {
                    "endpoint": _endpoint(model.address),
                    "name": model.name,
                    "provider": model.provider,
                    "model": model.model or model.name,
                    "condition": condition,
                    "max_image_side": side,
                    "goal": defaults.goal,
                    "temperature": defaults.temperature if model.temperature is None else model.temperature,
                    "max_output_tokens": model.max_output_tokens or defaults.max_output_tokens,
                    "runs": defaults.random_runs if random else 1,
                    "prompts": self.digest(prompts, "inference.prompts", folder=True),
                    **made_up,
                }
                # Named only where they are not the default, so that jobs older than these settings keep their keys.
                settings |= {"api": model.api} if model.api != "chat" else {}
                settings |= {"schema": True} if defaults.json_answers else {}
                # Under another name nothing is reused, so the run is part of what an answer is.
                settings |= {"fresh": self.config.run.name} if defaults.reuse == "none" and model.provider != "builtin" else {}
                transport = {} if model.provider == "builtin" else self.transport(model)
                jobs.append(
                    self.add(
                        "infer",
                        f"{before}{model.name}/{condition}/{side}",
                        settings,
                        seed if drawn or CONDITIONS[condition].pictures == "other" else None,
                        {"mine": (mined,), "images": (pictures[side],)},
                        transport,
                        {"prompts": str(prompts)},
                    )
                )
        return jobs

    def transport(self, model: Model | Judge) -> dict[str, Any]:
        """Return how a model or judge is asked, which is no part of its answers; a price says what they cost when the job ran last."""
        defaults = self.config.inference
        price = self.prices.get(model.model or model.name) or self.prices.get(model.name)
        served = model.serve if isinstance(model, Model) else None
        return {
            "base_url": model.address if isinstance(model, Model) else model.base_url,
            "serve": served and served.model_dump(mode="json"),
            "api_key_env": model.api_key_env,
            "concurrency": model.concurrency or defaults.concurrency,
            "timeout_s": defaults.timeout_s if isinstance(model, Model) else model.timeout_s,
            "deadline_s": defaults.deadline_s,
            "retries": defaults.retries,
            "budget_usd": defaults.budget_usd,
            "rpm": model.rpm,
            "tpm": model.tpm,
            "tolerate": defaults.tolerate,
            "reuse": defaults.reuse,
            # Half price in batches goes without saying, so that jobs older than batches have the settings they had.
            "price": price and price.model_dump(mode="json", exclude={"batch"} if price.batch == 0.5 else None),
            **({"batch": True, "batch_wait_h": defaults.batch_wait_h} if model.batch else {}),
        }

    @cached_property
    def prices(self) -> dict[str, "Price"]:
        """Prices by model id; none where the default file is not there."""
        from evoaudit.infer.prices import load

        path = Path(self.config.inference.prices)
        return {} if not path.exists() and (str(path) == PRICES or not self.must_exist) else load(path)

    def audit(self, normalised: tuple[Job, ...]) -> dict[str, tuple[Job, ...]]:
        """Lay out the audit; where nobody judges, is asked to review or has labelled, only the free signals are computed."""
        config, audit = self.config, self.config.audit
        stages: dict[str, tuple[Job, ...]] = {}
        if normalised:
            stages["signals"] = (self.add("signals", "all", {"runs": list(config.stats.signals.runs)}, upstream={"normalise": normalised}),)
        if not (config.judges or audit.labels or audit.quotas or audit.review.groups) or not (normalised or audit.frame):
            return stages
        seed = config.run.seed if audit.seed is None else audit.seed
        settings: dict[str, Any] = {
            "verdicts": list(audit.verdicts),
            "calibration": audit.calibration,
            "quotas": {name: quota if isinstance(quota, int) else quota.model_dump() for name, quota in audit.quotas.items()},
        }
        places: dict[str, Any] = {}
        if audit.frame:
            settings["frame"] = self.digest(Path(audit.frame), "audit.frame")
            places["frame"] = audit.frame
        sample = self.add("sample", "all", settings, seed, {"normalise": () if audit.frame else normalised}, places=places)
        codebook = fingerprint(CODEBOOK_FILE) or "absent"
        judges = self.judges(normalised, sample, stages, seed, codebook)
        # An ensemble says nothing that its members do not: it is shown and casts no vote.
        blind = tuple(
            job for job in judges if job.settings["role"] == "llm" and not job.settings["ablation"] and "ensemble" not in job.settings
        )
        people = tuple(job for job in judges if job.settings["role"] == "human")
        select = self.add("select", "all", {"agreements": audit.review.agreements}, seed, {"sample": (sample,), "judge": blind})
        labels = [self.digest(Path(path), "audit.labels") for path in audit.labels]
        combine = self.add(
            "combine",
            "all",
            {
                "tie": audit.tie,
                # Named only where it is not the default, so that older jobs keep their keys.
                **({} if audit.category_tie == "ambiguous" else {"category_tie": audit.category_tie}),
                **({} if audit.adjudication == "decides" else {"adjudication": audit.adjudication}),
                "groups": list(audit.review.groups),
                "codebook": codebook,
                "labels": sorted(labels),
            },
            upstream={"sample": (sample,), "judge": blind, "people": people, "select": (select,)},
            places={"labels": list(audit.labels)},
        )
        if normalised and audit.review.groups:
            self.add(
                "replay",
                "all",
                {"groups": list(audit.review.groups), "codebook": codebook},
                seed,
                {"select": (select,), "sample": (sample,), "normalise": normalised},
            )
        return {**stages, "sample": (sample,), "judge": judges, "select": (select,), "combine": (combine,)}

    def judges(self, normalised: tuple[Job, ...], sample: Job, stages: dict, seed: int, codebook: str) -> tuple[Job, ...]:
        """Add every judge, once for each kind of evidence; the ensembles come last, since they need the others."""
        upstream = {"normalise": normalised, "sample": (sample,), "signals": stages.get("signals", ())}
        pictures: dict[int, Job] = {}
        jobs: list[Job] = []
        for judge in sorted(self.config.judges, key=lambda judge: judge.ensemble is not None):
            members = [job for job in jobs if job.settings["name"] in (judge.ensemble or ())]
            first = members[0].settings["evidence"] if members else sorted(judge.evidence)
            ablated = judge.ablation or (
                judge.ensemble is not None and all(one.ablation for one in self.config.judges if one.name in judge.ensemble)
            )
            for ablation in (False, True) if ablated else (False,):
                evidence = ["text"] if ablation else first
                settings = {
                    "name": judge.name,
                    "provider": judge.provider,
                    "model": judge.asks,
                    "role": judge.role,
                    "evidence": evidence,
                    "ablation": ablation,
                    "accuracy": judge.accuracy,
                    "codebook": codebook,
                    # The arm without screenshots is for the ablation, which goes by first draws.
                    **({"draws": judge.draws} if judge.draws > 1 and not ablation else {}),
                }
                more: dict[str, Any] = {"upstream": dict(upstream)}
                if judge.ensemble is not None:
                    settings["ensemble"] = sorted(judge.ensemble)
                    more["upstream"]["judge"] = tuple(job for job in members if job.settings["ablation"] == ablation)
                elif judge.provider != "builtin":
                    if not normalised:
                        mend = "configure sources, or give labels instead of judges"
                        raise InputError(f"judge '{judge.name}'", "there are no trajectories to judge", mend)
                    settings, looks = self.language_judge(judge, settings)
                    folder = _prompt_folder(self.config.audit.prompts, "audit.prompts", "judge.yaml")
                    settings["prompts"] = self.digest(folder, "audit.prompts", folder=True)
                    more |= {"places": {"prompts": str(folder)}, "transport": self.transport(judge)}
                    del more["upstream"]["signals"]  # a judge that costs money is asked again for nothing it does not see
                    if looks:
                        side = judge.max_image_side
                        if side not in pictures:
                            seen = {"normalise": normalised, "sample": (sample,)}
                            pictures[side] = self.add("images", f"audit/side-{side}", {"max_image_side": side}, upstream=seen)
                        more["upstream"]["images"] = (pictures[side],)
                drawn = judge.provider == "builtin" and judge.asks == "simulated"
                jobs.append(self.add("judge", f"{judge.name}/{'+'.join(evidence)}", settings, seed if drawn else None, **more))
        return tuple(jobs)

    def language_judge(self, judge: Judge, settings: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return the settings of a judge that is a language model, and whether it sees pictures."""
        defaults = self.config.inference
        looks = "screenshots" in settings["evidence"]
        policy = {"pictures": judge.pictures, "max_pictures": judge.max_pictures, "max_image_side": judge.max_image_side}
        return {
            **{name: value for name, value in settings.items() if name != "accuracy"},
            "endpoint": _endpoint(judge.base_url),
            **({"api": judge.api} if judge.api != "chat" else {}),
            **(policy if looks else {}),
            "max_text": judge.max_text,
            "schema": judge.json_answers,
            "temperature": defaults.temperature if judge.temperature is None else judge.temperature,
            "max_output_tokens": judge.max_output_tokens,
            **({"fresh": self.config.run.name} if defaults.reuse == "none" else {}),
        }, looks


def _some(job: Job | None) -> tuple[Job, ...]:
    return () if job is None else (job,)


def _endpoint(base_url: str | None) -> str | None:
    """Return what of a model's address is part of its identity: a server of this machine is the same one at another port."""
    host = (urlsplit(base_url).hostname or "") if base_url else ""
    return "loopback" if host in ("localhost", "::1") or host.startswith("127.") else base_url


def _prompt_folder(name: str, field: str, file: str) -> Path:
    """Return the prompt folder, with that file in it, which a config names; a name never leads out of the prompts folder."""
    if not name or "/" in name or "\\" in name or name.startswith("."):
        raise InputError(f"{field}: '{name}'", "is not the name of a prompt folder", "name a folder under resources/prompts/")
    own, imported = PROMPTS / name, PROMPTS / "imported" / name
    if not any((folder / file).is_file() for folder in (own, imported)):
        known = sorted(path.parent.name for folder in (PROMPTS, PROMPTS / "imported") for path in folder.glob(f"*/{file}"))
        raise InputError(f"{field}: {name}", "no such prompts", f"there are {', '.join(known)}")
    return own if own.is_dir() else imported


#: Modules of the judge stage that only asking a language model takes.
ASKING = ("evoaudit.infer", "evoaudit.prepared", "evoaudit.audit.asking", "evoaudit.audit.evidence", "evoaudit.audit.judging")


@cache
def closure(module: str, without: tuple[str, ...] = ()) -> tuple[Path, ...]:
    """Return the package's own files that importing ``module`` can reach (templates included), found without importing it.

    ``without`` names packages and modules that a job of that stage does without; what only they reach is not followed.
    """
    found: dict[str, Path] = {}
    queue = [module]
    while queue:
        name = queue.pop()
        path = _file_of(name)
        if name in found or path is None or any(f"{name}.".startswith(f"{one}.") for one in without):
            continue
        found[name] = path
        queue += _named(path)
    templates = {file for path in found.values() for file in (path.parent / "templates").glob("*")}
    return tuple(sorted({*found.values(), *templates}))


#: Imports of the package's modules, one line or in brackets, and modules that a text names. Found by their looks: parsing every file would
#: be a third of a start, and a name too many (in a docstring, say) only makes a stage depend on one more file.
_IMPORTS = re.compile(
    r"""
    ^[ \t]* from [ \t]+ (evoaudit[\w.]*) [ \t]+ import [ \t]+ (?: \( ([^)]*) \) | ([^\n]*) )
    | ^[ \t]* import [ \t]+ ([^\n]*)
    | ["'] (evoaudit\.sources\.[\w.]*)
    """,
    re.MULTILINE | re.VERBOSE,
)


@cache
def _named(path: Path) -> tuple[str, ...]:
    """Return what of the package a file names as a module, or may: each file is read once, though many stages reach it."""
    names: list[str] = []
    for package, several, line, plain, text in _IMPORTS.findall(path.read_text(encoding="utf-8")):
        found = [part.split()[0] for part in re.sub(r"#.*", "", several or line or plain).split(",") if part.strip()]
        names += [package, *(f"{package}.{name}" for name in found)] if package else [*found, text]
    return tuple(dict.fromkeys(name for name in names if name.split(".")[0] == "evoaudit"))


@cache
def _file_of(name: str) -> Path | None:
    parts = name.split(".")
    if parts[0] != "evoaudit":
        return None
    base = PACKAGE.joinpath(*parts[1:])
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def words(job: Job) -> str:
    """Say in words what a key stands for."""
    draws = f", seed {job.seed}" if job.seed is not None else ""
    return f"{job.stage} of {job.label}{draws}" if job.label != "all" else f"{job.stage}{draws}"


def keys_in_words(plan: Plan) -> list[dict[str, Any]]:
    """Return every key of a plan with its meaning, as ``keys.json`` lists them."""
    return [
        {
            "stage": job.stage,
            "key": job.key,
            "label": job.label,
            "meaning": words(job),
            "seed": job.seed,
            "upstream": job.upstream_keys,
            "settings": job.settings,
        }
        for job in plan.jobs
    ]


#: Bytes of a text that go on a command line; the system takes 128 KiB in one word.
LONGEST_WORD = 100_000


def word(text: str, job: Job, name: str, results: Path = RESULTS) -> str:
    """Return a text as a word of a job's command line, or, where it is too long for one, ``@`` and a file that holds it."""
    if len(text.encode()) <= LONGEST_WORD:
        return text
    return f"@{_write(Path(results) / '.plans' / name / f'{job.stage}-{job.key}.json', text)}"


def settle_times(results: Path = RESULTS) -> int:
    """Give files of stages, and of the code that makes them, that are from the future the time it is now; return how many.

    A clock was put back, or they came from a machine that is ahead. Snakemake would remove whatever is made from them as older than
    its input; that their contents are the same, it knows by their checksums.
    """
    now, settled = time.time(), 0
    made = (path for stage in FORMAT for path in (Path(results) / stage).glob("*/*"))
    for path in chain(made, PACKAGE.rglob("*.*"), PUBLISHED.glob("*.csv")):
        with suppress(OSError):  # gone meanwhile, or not ours to change
            if path.stat().st_mtime > now:
                os.utime(path, (now, now))
                settled += 1
    return settled


def write_keys(plan: Plan, results: Path = RESULTS) -> str:
    """Write the plan's keys in words to ``results/.plans/<run>.json`` if they changed, and return that path.

    A file, because a plan of hundreds of models does not fit on a command line.
    """
    text = json.dumps(keys_in_words(plan), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    return str(_write(Path(results) / ".plans" / f"{plan.config.run.name}.json", text))


def _write(path: Path, text: str) -> Path:
    """Write a file whole if it does not hold this text, and return its path."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_whole(path, text)
    return path
