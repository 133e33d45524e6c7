"""The plan of the run, and the few functions through which rules read it.

Reads: the config. Writes: the plan under results/.plans/, and the remembered hashes of raw files under results/.fingerprints/.
Each other file here is one stage. Its docstring says what it reads and writes; what it runs is one subcommand.
"""

import shlex
import sys
from functools import cache
from pathlib import Path

from evoaudit import config as configs
from evoaudit import plan as plans
from evoaudit.errors import InputError
from evoaudit.identity import canonical
from evoaudit.outputs import DATA, FIGURES, TABLES
from evoaudit.resources import PUBLISHED

# Jobs use the interpreter that runs Snakemake, whether or not its environment is activated.
# A job that the kernel kills can say nothing itself.
KILLED = "a job was killed, most likely because memory ran out; start again with more memory or fewer cores"
shell.prefix(
    f"set -euo pipefail; export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; "
    f"trap '[ $? -ne 137 ] || echo \"evoaudit: {KILLED}\" >&2' EXIT; "
)


def refuse(error):
    """Say one line and stop: Snakemake would add its own file and line to an exception."""
    print(f"evoaudit: {error}", file=sys.stderr)
    raise SystemExit(2) from None


try:
    FILES = workflow.overwrite_configfiles or [Path(workflow.basedir) / "config" / "config.yaml"]
    for file in FILES:
        configs.read_yaml(Path(file))  # Snakemake's own reader keeps the last of two equal keys and says nothing.
    CONFIG = configs.check(config, FILES)
    PLAN = plans.build(CONFIG)
    KEYS = plans.write_keys(PLAN)
    plans.settle_times()
except (InputError, OSError) as error:
    refuse(error)

RUN = CONFIG.run.name


def near(path):
    """Return a path from the working folder where it lies below it: results that move with their checkout are done at the new place too."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else str(path)


PRINTED = sorted(map(near, PUBLISHED.glob("*.csv")))


# The default target asks for every intermediate, so that one lost from the middle is made again; not for what has a target of its own.
EVERYTHING = [
    f"results/{job.stage}/{job.key}/{file}"
    for job in PLAN.jobs
    if job.stage not in ("export", "pairs", "replay") and not job.label.startswith("export/")
    for file in ("manifest.json", *DATA[job.stage])
]


wildcard_constraints:
    key=r"[0-9a-f]{10}(-s\d+)?",


def manifests(*stages):
    """Return the manifests of every job of some stages."""
    return [f"results/{job.stage}/{job.key}/manifest.json" for stage in stages for job in PLAN.of(stage)]


def prepared():
    """Return the manifests of the probes' pictures; those of the audit sample come with the judges that see them."""
    return [f"results/images/{job.key}/manifest.json" for job in PLAN.of("images") if "mine" in job.upstream and job.label[:7] != "export/"]


def upstream(stage, name):
    """Return an input function: the manifests of a job's upstream jobs of that name."""
    return lambda wildcards: [
        f"results/{job.stage}/{job.key}/manifest.json" for job in PLAN.job(stage, wildcards.key).upstream.get(name, ())
    ]


def listings(_wildcards):
    """Return the listing of every download."""
    return [f"results/download/{job.key}/files.json" for job in PLAN.of("download")]


def downloaded(wildcards):
    """Return the download a source waits for; refuse while the lock file does not pin it, since only the lock knows what it will hold."""
    if PLAN.unlocked:
        refuse(
            InputError(
                f"source '{PLAN.unlocked[0]}'",
                f"{CONFIG.downloads.lock} does not pin it yet, or not this selection of it",
                "run `snakemake download` with the same cores and config first, or give 'path'",
            )
        )
    return upstream("normalise", "download")(wildcards)


def data(stage):
    """Return an input function: the data files of a job's upstream jobs, so that a lost one is made again."""
    return lambda wildcards: [
        f"results/{job.stage}/{job.key}/{file}"
        for jobs in PLAN.job(stage, wildcards.key).upstream.values()
        for job in jobs
        for file in DATA[job.stage]
    ]


@cache
def code(stage, without=()):
    """Return the library files a stage's subcommand can reach: editing one reruns what depends on it."""
    return [near(path) for path in plans.closure(f"evoaudit.stages.{stage}", without)]


def judging_code(wildcards):
    """Return the library files a built-in judge can reach; asking a language model is not done again because code was edited."""
    return code("judge", plans.ASKING) if PLAN.job("judge", wildcards.key).settings["provider"] == "builtin" else []


def host(job):
    """Return whose service a job asks, as the resources of requests in flight are named."""
    asked = job.all_settings
    return "local" if asked.get("endpoint") == "loopback" else asked["provider"]


def in_flight(provider, stage="infer"):
    """Return a resource function: the requests a job of a provider has in flight at most, 0 for jobs of others and for batches."""

    def of(wildcards):
        job = PLAN.job(stage, wildcards.key)
        return job.all_settings.get("concurrency", 0) if host(job) == provider and not job.all_settings.get("batch") else 0

    # Snakemake takes a millisecond to call a function, for every job.
    return of if any(host(job) == provider for job in PLAN.of(stage)) else 0


def served(wildcards):
    """Return the state of the server a job's model is served by, where one is started for it."""
    asked = PLAN.job("infer", wildcards.key).all_settings
    return [f"results/serve/{asked['name']}.json"] if asked.get("serve") else []


def serving(wildcards):
    """Return name, model and server of a model as one canonical string."""
    asked = next(job.all_settings for job in PLAN.of("infer") if job.settings["name"] == wildcards.model)
    return canonical({name: asked[name] for name in ("name", "model", "serve")})


def settings(stage):
    """Return a params function: what decides a job's output, as one canonical string, and what its answers cost or lack at most."""

    def of(wildcards):
        job = PLAN.job(stage, wildcards.key)
        asked = {name: job.transport[name] for name in ("price", "tolerate") if name in job.transport}
        return plans.word(canonical({**job.settings, **asked}), job, "settings")

    return of


# Snakemake keeps no record of what a function gives that takes the input too. A model asked at another pace or port, and files outside the
# workflow that moved, are no reason to make anything anew; the rest is in the key.
def options(stage):
    """Return a params function: key, seed, upstream keys, how a model is asked and the places of files outside the workflow, quoted."""

    def of(wildcards, input):
        job = PLAN.job(stage, wildcards.key)
        words = ["--key", job.key, "--upstream", plans.word(canonical(job.upstream_keys), job, "upstream")]
        if job.seed is not None:
            words += ["--seed", str(job.seed)]
        if job.transport:
            words += ["--settings", canonical(job.transport)]
        for name, place in sorted(job.places.items()):
            words += [f"--{'root-folder' if name == 'root' else name}", *map(near, [place] if isinstance(place, str) else place)]
        return shlex.join(words)

    return of


def roots(wildcards, input):
    """Return the sources' own folders as NAME=PATH words, quoted."""
    return shlex.join(f"{name}={near(path)}" for name, path in sorted(PLAN.roots().items()))
