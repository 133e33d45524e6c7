"""From a hub to normalised tables by the two commands a user types, against a loopback hub through the real client."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hub_server import HubServer

from evoaudit.resources import ROOT
from evoaudit.simulate import corpus

CONFIG = """
run: {name: hub, seed: 3}
sources:
  - {name: arb, kind: agentrewardbench, hub: McGill-NLP/agent-reward-bench, benchmarks: [webarena]}
  - {name: m2w, kind: mind2web, hub: osunlp/Multimodal-Mind2Web, split: train}
"""


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess:
    """Run the workflow in ``folder`` as a process of its own."""
    (folder / "mine.yaml").write_text(CONFIG)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_") and not name.lower().endswith("_proxy")}
    given = {
        **inherited,
        "HF_HOME": str(folder / "home"),
        "HF_HUB_DISABLE_XET": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    command = [sys.executable, "-m", "snakemake", *words, "-s", str(ROOT / "Snakefile"), "--directory", str(folder), "--cores", "2"]
    command += ["--configfile", str(folder / "mine.yaml")]
    return subprocess.run(command, capture_output=True, text=True, env={**given, **environment}, cwd=folder, timeout=300, check=False)


@pytest.fixture(scope="module")
def repos(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("corpus")
    corpus.write(folder, 12, 5, ["mind2web", "agentrewardbench"])
    return {"McGill-NLP/agent-reward-bench": folder / "agentrewardbench", "osunlp/Multimodal-Mind2Web": folder / "mind2web"}


def test_one_target_downloads_the_next_reads_and_a_third_needs_no_network(tmp_path, repos):
    early = run(tmp_path, "data")
    assert early.returncode == 2
    assert early.stderr.strip().splitlines()[-1].startswith("evoaudit: source 'arb': config/sources.lock.json does not pin it yet")
    assert "snakemake download" in early.stderr

    doctor = subprocess.run(
        [sys.executable, "-m", "evoaudit", "doctor", "--configfile", "mine.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "source 'm2w': not downloaded yet; run `snakemake download" in doctor.stdout

    with HubServer(repos) as hub:
        first = run(tmp_path, "download", HF_ENDPOINT=hub.url, HF_TOKEN="hf_secret")
        assert first.returncode == 0, first.stdout + first.stderr
        asked = hub.requests.total()
    assert asked > 0
    lock = json.loads((tmp_path / "config" / "sources.lock.json").read_text())
    assert lock
    assert not any("hf_secret" in path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())

    # The server is gone: what follows can only use what is there.
    second = run(tmp_path, "data", HF_HUB_OFFLINE="1")
    assert second.returncode == 0, second.stdout + second.stderr
    manifests = {
        manifest["config"]["source"]: (path.parent, manifest)
        for path in (tmp_path / "results" / "normalise").glob("*/manifest.json")
        for manifest in [json.loads(path.read_text())]
    }
    assert set(manifests) == {"arb", "m2w"}
    for folder, manifest in manifests.values():
        assert manifest["counts"]["kept"] > 0
        assert manifest["upstream"]["download"]
        assert pq.read_table(folder / "images.parquet", columns=["status"])["status"].to_pylist().count("ok") > 0

    third = run(tmp_path, "data", HF_HUB_OFFLINE="1")
    assert third.returncode == 0
    assert "fetch" not in third.stdout + third.stderr

    # Asking for the download again reads every byte, whatever size and time of a file say.
    again = run(tmp_path, "download", HF_HUB_OFFLINE="1")
    assert again.returncode == 0
    assert again.stdout.count("all as pinned") == 2
    file = next(path for path in sorted((tmp_path / "resources" / "downloads").rglob("cleaned/**/*.json")))
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    file.chmod(0o644)
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
    os.utime(file, ns=times)
    damaged = run(tmp_path, "download", HF_HUB_OFFLINE="1")
    assert damaged.returncode == 1
    assert f"{file.relative_to(tmp_path)}: differs; delete it" in damaged.stdout


def test_a_folder_given_by_path_has_the_key_of_the_same_data_set_downloaded(tmp_path, repos):
    from evoaudit import config, plan

    with HubServer(repos) as hub:
        assert run(tmp_path, "download", HF_ENDPOINT=hub.url).returncode == 0
    [folder] = (tmp_path / "resources" / "downloads").glob("osunlp--Multimodal-Mind2Web/[0-9a-f]*-*")
    source = {"name": "m2w", "kind": "mind2web", "split": "train"}
    downloads = {"store": str(tmp_path / "resources" / "downloads"), "lock": str(tmp_path / "config" / "sources.lock.json")}
    by_hub = plan.build(config.check({"sources": [source | {"hub": "osunlp/Multimodal-Mind2Web"}], "downloads": downloads}), tmp_path / "r")
    by_path = plan.build(config.check({"sources": [source | {"path": str(folder)}]}), tmp_path / "r")
    contents = {job.settings["contents"] for made in (by_hub, by_path) for job in made.of("normalise")}
    assert len(contents) == 1
    assert not by_hub.unlocked
