"""The paper's split from simulated Mind2Web and WebLINX, to the count."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from evoaudit import config as configs
from evoaudit import plan as plans
from evoaudit.__main__ import main

CONFIG = Path(__file__).parents[1] / "config" / "examples" / "evogui_simulated.yaml"
#: EvoGUI, Table 1.
TABLE_1 = {
    "T1": {"K=3": 334, "K=4": 333, "K=5": 333},
    "T2": {"click": 461, "type": 461, "select": 78},
    "T3": {"cross": 334, "same_domain": 333, "long_skip": 333},
}


def tables(config: configs.Config, home: Path) -> Path:
    """Run what the split needs of a config's plan, and return the folder of its tables."""
    plan = plans.build(config, home)

    def run(job: plans.Job, *words: str) -> str:
        out = home / job.stage / job.key
        given = ["--settings", json.dumps(job.all_settings), *(["--seed", str(job.seed)] if job.seed is not None else [])]
        assert main([job.stage, *given, "--out", str(out), *words]) == 0
        return str(out / "manifest.json")

    for job in plan.of("simulate"):
        run(job, "--threads", "2")
    sources = {job: job.places for job in plan.of("mine")[0].upstream["normalise"]}
    manifests = [
        run(job, "--root-folder", places["root"], "--truth", places["truth"], "--tasks", places["tasks"], "--threads", "2")
        for job, places in sources.items()
    ]
    roots = [f"{job.settings['source']}={places['root']}" for job, places in sources.items()]
    mined = run(plan.of("mine")[0], "--normalised", *manifests, "--root", *roots)
    return Path(run(plan.of("stats")[0], "--normalised", *manifests, "--mined", mined)).parent


def rows(folder: Path, name: str) -> list[dict]:
    return pq.read_table(folder / f"{name}.parquet").to_pylist()


def check(folder: Path, wanted: dict[str, dict[str, int]]) -> None:
    split = rows(folder, "split")
    found = {part: {row["slice"]: row["count"] for row in split if row["part"] == part} for part in wanted}
    assert found == wanted
    assert all(row["simulated"] for row in split)
    # Two sources by turns: an odd slice gives one of them one more.
    shares = [row["share"] for row in split if row["slice"].startswith("source_")]
    assert len(shares) == 2 and all(49 < share < 51 for share in shares)


def test_the_example_asks_for_the_papers_split():
    config = configs.load(CONFIG)
    (source,) = config.sources
    assert (source.trajectories, source.formats) == (5000, ("mind2web", "weblinx"))
    quotas = {"T1": config.probes.t1.quota, "T2": config.probes.t2.quota, "T3": config.probes.t3.quota}
    assert {part: {f"K={name}" if part == "T1" else name: n for name, n in quota.items()} for part, quota in quotas.items()} == TABLE_1
    assert all(model.provider == "builtin" for model in config.models)


def test_a_tenth_of_the_papers_split_is_met_to_the_count(tmp_path):
    tenth = {"T1": {"K=3": 34, "K=4": 33, "K=5": 33}, "T2": {"click": 46, "type": 46, "select": 8}}
    tenth["T3"] = {"cross": 34, "same_domain": 33, "long_skip": 33}
    probes = {part.lower(): {"quota": {name.removeprefix("K="): n for name, n in quota.items()}} for part, quota in tenth.items()}
    tree = configs.read_yaml(CONFIG) | {
        "sources": [{"name": "sim", "kind": "simulated", "trajectories": 100, "formats": ["mind2web", "weblinx"]}]
    }
    folder = tables(configs.check(tree | {"probes": probes}), tmp_path)
    check(folder, tenth)
    for row in rows(folder, "domains"):
        assert row["top_share"] < 12 and row["top_trajectory_share"] < 4 and row["effective_domains"] > 20


@pytest.mark.slow
def test_five_thousand_simulated_trajectories_give_the_papers_split(tmp_path):
    folder = tables(configs.load(CONFIG), tmp_path)
    check(folder, TABLE_1)
    for row in rows(folder, "domains"):
        assert row["top_share"] < 3.5 and row["top_trajectory_share"] < 1 and row["effective_domains"] > 70
