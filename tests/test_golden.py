"""What each stage makes of one small corpus, pinned: a change of meaning must be a new stage version.

If this fails and the change is meant, raise the stage's number in `evoaudit.identity.FORMAT`, then write the new
digests with `python tests/test_golden.py`.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evoaudit.identity import FORMAT

GOLDEN = Path(__file__).parent / "golden" / "stages.json"
SIZE, SEED = 10, 5


def plain(value: object) -> object:
    """Make a cell comparable on any machine: floats to nine digits, bytes as digests."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def digest(folder: Path) -> str:
    """Return a digest of every table's rows in a stage folder."""
    total = hashlib.sha256()
    for path in sorted(folder.glob("*.parquet")):
        table: pa.Table = pq.read_table(path, partitioning=None)
        rows = [[name, plain(table[name].to_pylist())] for name in table.column_names]
        total.update(json.dumps([path.name, rows], ensure_ascii=True, sort_keys=True).encode())
    return total.hexdigest()[:16]


def make(work: Path) -> dict[str, str]:
    """Run the stages over the small corpus, each as a process of its own, and return stage → digest."""

    def stage(name: str, *words: str, settings: dict | None = None, out: str | None = None) -> str:
        folder = work / (out or name)
        command = [sys.executable, "-m", "evoaudit", name, "--settings", json.dumps(settings or {}), "--out", str(folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return str(folder / "manifest.json")

    seed = ("--seed", str(SEED))
    kind = "plain"
    stage("simulate", *seed, settings={"trajectories": SIZE, "formats": [kind]})
    corpus = work / "simulate"
    settings = {"source": "sim", "kind": kind, "simulated": True, "options": {}}
    normalised = stage("normalise", "--root-folder", str(corpus / kind), "--truth", str(corpus / "truth.jsonl"), settings=settings)
    root = ("--root", f"sim={corpus / kind}")
    quotas = {
        "t1": {"quota": {"3": 4, "4": 3}},
        "t2": {"quota": {"click": 6, "type": 4, "select": 2}},
        "t3": {"quota": {"cross": 3, "same_domain": 3, "long_skip": 3}},
        "max_share_per_trajectory": 0.5,
        "min_changed_tiles": 1,
        "near_twin_tiles": 2,
    }
    mined = stage("mine", "--normalised", normalised, *root, *seed, settings=quotas)
    images = stage("images", "--mined", mined, "--normalised", normalised, *root, settings={"max_image_side": 256})
    model = {"name": "random", "provider": "builtin", "model": "random", "condition": "full", "max_image_side": 256, "runs": 2}
    prompts = Path(__file__).parents[1] / "resources" / "prompts" / "evogui-v1"
    model |= {"temperature": 0, "max_output_tokens": 64, "goal": "shown"}
    asked = stage("infer", "--mined", mined, "--images", images, "--prompts", str(prompts), *seed, settings=model)
    stage("score", "--mined", mined, "--predictions", asked)
    sampled = stage("sample", "--normalised", normalised, *seed, settings={"verdicts": ["fail"], "quotas": {}, "calibration": 0})
    signals = stage("signals", "--normalised", normalised, settings={"runs": [2, 3]})
    inputs = ("--normalised", normalised, "--sample", sampled, "--signals", signals)
    judges = [
        stage("judge", *inputs, *seed, settings={"name": name, "provider": "builtin", "model": name, "role": "llm", "accuracy": 0.5,
              "evidence": ["screenshots", "text"]}, out=f"judge-{name}")
        for name in ("rules", "simulated")
    ]  # fmt: skip
    chosen = stage("select", "--sample", sampled, "--judgments", *judges, *seed, settings={"agreements": 1})
    stage("combine", "--sample", sampled, "--judgments", *judges, "--review", chosen, settings={"tie": "unclear", "groups": []})
    names = ("normalise", "mine", "images", "infer", "score", "sample", "signals", "judge-rules", "judge-simulated", "select", "combine")
    return {name: digest(work / name) for name in names}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, str]:
    return make(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("name", json.loads(GOLDEN.read_text()) if GOLDEN.is_file() else [])
def test_a_stage_still_means_what_its_version_says(made, name):
    pinned = json.loads(GOLDEN.read_text())[name]
    assert {"version": FORMAT[name.split("-")[0]], "digest": made[name]} == pinned


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = make(Path(folder))
    pins = {name: {"version": FORMAT[name.split("-")[0]], "digest": value} for name, value in found.items()}
    GOLDEN.write_text(json.dumps(pins, indent=1, sort_keys=True) + "\n")
