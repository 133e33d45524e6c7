"""The job files for Kubernetes and AWS Batch: one and the same command, on the volume they mount, and the workflow takes it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from evoaudit.resources import ROOT

KUBERNETES = yaml.safe_load((ROOT / "profiles" / "kubernetes" / "job.yaml").read_text())
BATCH = json.loads((ROOT / "profiles" / "aws-batch" / "job.json").read_text())
POD = KUBERNETES["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def test_both_run_one_command_on_a_volume_that_is_there():
    batch = BATCH["containerProperties"]
    assert CONTAINER["args"] == batch["command"]
    where = CONTAINER["args"][CONTAINER["args"].index("--directory") + 1]
    assert [(mount["name"], mount["mountPath"]) for mount in CONTAINER["volumeMounts"]] == [(POD["volumes"][0]["name"], where)]
    assert [(mount["sourceVolume"], mount["containerPath"]) for mount in batch["mountPoints"]] == [(batch["volumes"][0]["name"], where)]


def test_a_second_pod_never_runs_beside_the_first():
    # The command passes over locks.
    assert (KUBERNETES["spec"]["parallelism"], KUBERNETES["spec"]["completions"]) == (1, 1)


def test_the_workflow_takes_the_command(tmp_path):
    (tmp_path / "mine.yaml").write_text("sources: [{name: sim, kind: simulated, trajectories: 12}]\n")
    words = [word.replace("/data", str(tmp_path)) for word in CONTAINER["args"]]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *words, "--dry-run"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Simulating a corpus" in done.stdout + done.stderr
