"""`stage_key`: the key of a stage under a config. What a key is made of: `evoaudit.identity`."""

from pathlib import Path
from typing import Any

from evoaudit.identity import FORMAT, canonical, make_key

__all__ = ["FORMAT", "canonical", "make_key", "stage_key"]


def stage_key(config: Any, stage: str) -> str:
    """Return the key of a stage under a config (a `Config`, a mapping, or the path of a YAML file).

    A stage with several jobs (one a source, one a model) is named ``stage:label`` for one of them; by the bare name it has
    the key of the whole. Raises `InputError` for a stage the config does not reach.
    """
    from evoaudit import config as configs
    from evoaudit.errors import InputError
    from evoaudit.plan import build

    if isinstance(config, (str, Path)):
        config = configs.load(config)
    elif not isinstance(config, configs.Config):
        config = configs.check(dict(config))
    name, _, label = stage.partition(":")
    if name not in FORMAT:
        raise InputError(stage, "no such stage", f"stages are {', '.join(FORMAT)}")
    jobs = [job for job in build(config, must_exist=False).jobs if job.stage == name and label in ("", job.label)]
    if not jobs:
        raise InputError(stage, "this config has no such stage", "list them with `evoaudit keys`")
    if len(jobs) == 1:
        return jobs[0].key
    return make_key(name, {"jobs": sorted(job.key for job in jobs)}, None, {})
