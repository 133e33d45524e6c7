"""The Slurm profile, on a real Slurm of one node: the same bytes as here, failures that speak, more memory for those who need it.

What Slurm does otherwise where it keeps accounts is shown on a node that keeps them too.
"""

import csv
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hearing import hear

from evoaudit.__main__ import main
from evoaudit.resources import ROOT

PROFILE = ROOT / "profiles" / "slurm"
NODE = ROOT / "tests" / "slurm_node.sh"
#: The profile waits as is polite on a cluster that others use too.
IMPATIENT = ("--slurm-init-seconds-before-status-checks", "1", "--latency-wait", "10")

#: As docs/slurm.md has it.
ACCOUNTS = "sacct --starttime now-1days --units M --format JobID,State,Elapsed,ReqMem,MaxRSS,Comment%80"

CONFIG = """
run: {name: small, seed: 3}
sources:
  - {name: sim, kind: simulated, trajectories: 30, formats: [plain]}
probes:
  t1: {quota: {3: 4, 4: 4, 5: 4}}
  t2: {quota: {click: 4, type: 4, select: 2}}
  t3: {quota: {cross: 4, same_domain: 4, long_skip: 4}}
models:
  - {name: random, group: baseline, provider: builtin}
audit:
  calibration: 1
  review: {agreements: 4, groups: [p1]}
judges:
  - {name: rules, provider: builtin}
  - {name: p1, provider: builtin, model: simulated, role: human, accuracy: 0.9}
stats: {bootstrap: 200}
report: {max_items: 4}
"""


def missing(accounting: bool) -> str | None:
    """Say what this machine lacks for running jobs on a Slurm of its own."""
    if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
        return "Snakemake's Slurm executor is not installed: make slurm"
    for program in ("slurmctld", "slurmd", "sbatch", "munged"):
        if shutil.which(program) is None:
            return f"{program} is not installed; Debian has slurmctld, slurmd, slurm-client and munge"
    for program in ("slurmdbd", "mariadbd", "mariadb-install-db", "mariadb") if accounting else ():
        if shutil.which(program) is None:
            return f"{program} is not installed; Debian has slurmdbd, mariadb-server-core and mariadb-client-core"
    return None if os.geteuid() == 0 else "only root can start a node"


@pytest.fixture(scope="module", params=[False], ids=["alone"])
def node(request) -> Iterator[Path]:
    """A Slurm of one node, for as long as these tests run; it keeps accounts for those that ask for it."""
    if reason := missing(request.param):
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="slurm-node-"))
    folder.chmod(0o755)  # munge refuses a socket that others cannot reach
    try:
        subprocess.run([NODE, "start", folder, *["accounting"] * request.param], check=True, timeout=120)
        yield folder
    finally:
        subprocess.run([NODE, "stop", folder], check=True, timeout=120)
        shutil.rmtree(folder)


#: Tests of what could differ where Slurm keeps accounts. Pytest runs all that want the one node before those that want the other.
with_and_without_accounts = pytest.mark.parametrize("node", [False, True], ids=["alone", "accounting"], indirect=True)


def keeps_accounts(node: Path) -> bool:
    return (node / "slurmdbd.conf").exists()


def command(folder: Path, *words: str, snakefile: Path = ROOT / "Snakefile") -> list[str]:
    return [sys.executable, "-m", "snakemake", *words, "--snakefile", str(snakefile), "--directory", str(folder)]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SBATCH_", "SLURM_"))}
    return {**kept, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **more}


def run(folder: Path, *words: str, snakefile: Path = ROOT / "Snakefile", **more: str) -> subprocess.CompletedProcess:
    """Run Snakemake in ``folder``, with ``more`` in its environment."""
    done = subprocess.run(
        command(folder, *words, snakefile=snakefile), capture_output=True, text=True, env=environment(**more), timeout=900, check=False
    )
    return done


def on_slurm(folder: Path, *words: str, snakefile: Path = ROOT / "Snakefile", **more: str) -> subprocess.CompletedProcess:
    return run(folder, *words, "--workflow-profile", str(PROFILE), *IMPATIENT, snakefile=snakefile, **more)


def evoaudit_on_slurm(folder: Path, *words: str, config: str = CONFIG) -> subprocess.CompletedProcess:
    (folder / "small.yaml").write_text(config)
    return on_slurm(folder, *words, "--configfile", str(folder / "small.yaml"))


def rules(folder: Path, text: str) -> Path:
    """Write a workflow of a few lines."""
    path = folder / "Snakefile"
    path.write_text(text)
    return path


def jobs(*fields: str) -> list[str]:
    """Return a line for every job Slurm remembers."""
    form = "|".join(fields)
    done = subprocess.run(["squeue", "--noheader", "--states=all", f"--format={form}"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def queued(field: str = "%A") -> list[str]:
    """Return a field of each job that waits or runs, its id if none is named."""
    return subprocess.run(["squeue", "--noheader", f"--format={field}"], capture_output=True, text=True, check=True).stdout.split()


def kept() -> list[dict[str, str]]:
    """Return Slurm's accounts of jobs and their steps, as soon as they say of none that it runs."""
    end = time.monotonic() + 30
    while True:
        done = subprocess.run([*ACCOUNTS.split(), "--format=Account,WorkDir", "--parsable2"], capture_output=True, text=True, check=True)
        rows = list(csv.DictReader(done.stdout.splitlines(), delimiter="|"))
        if not [row for row in rows if row["State"] in ("PENDING", "RUNNING")] or time.monotonic() > end:
            return rows
        time.sleep(0.5)


def said(done: subprocess.CompletedProcess) -> str:
    return done.stdout[-4000:] + done.stderr[-8000:]


@pytest.fixture(scope="module")
def finished(node, tmp_path_factory) -> Path:
    """A small run, finished on Slurm."""
    folder = tmp_path_factory.mktemp("on-slurm")
    done = evoaudit_on_slurm(folder)
    assert done.returncode == 0, said(done)
    return folder


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Path:
    """The same run, finished here."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "small.yaml").write_text(CONFIG)
    done = run(folder, "--cores", "2", "--configfile", str(folder / "small.yaml"))
    assert done.returncode == 0, said(done)
    return folder


def test_every_rule_that_makes_something_has_memory_and_time_in_the_profile():
    import re

    import yte

    profile = yte.process_yaml((PROFILE / "profile.yaml").read_text(), require_use_yte=True)
    made = set()
    for path in sorted((ROOT / "workflow" / "rules").glob("*.smk")):
        made |= set(re.findall(r"^rule (\w+):", path.read_text(), re.M))
    assert profile["set-resources"].keys() == made - {"fetch"}  # downloads run where Snakemake does
    assert profile["groups"].keys() <= made
    for rule, given in profile["set-resources"].items():
        assert given["mem_mb"].endswith("* attempt"), rule
        assert given.keys() == {"mem_mb", "runtime"}, rule


def test_partition_and_account_are_those_sbatch_goes_by(monkeypatch):
    import yte

    def defaults() -> dict:
        return yte.process_yaml((PROFILE / "profile.yaml").read_text(), require_use_yte=True)["default-resources"]

    monkeypatch.delenv("SBATCH_PARTITION", raising=False)
    monkeypatch.delenv("SBATCH_ACCOUNT", raising=False)
    assert defaults().keys() == {"mem_mb", "runtime"}
    monkeypatch.setenv("SBATCH_PARTITION", "long")
    monkeypatch.setenv("SBATCH_ACCOUNT", "lab")
    assert defaults() == {"mem_mb": "2000 * attempt", "runtime": "60 * attempt", "slurm_partition": "long", "slurm_account": "lab"}


@pytest.mark.slow
@with_and_without_accounts
def test_a_run_on_slurm_has_the_bytes_of_a_run_here(finished, local, capsys):
    assert main(["verify", "--results", str(finished / "results")]) == 0
    differs = main(["verify", "--results", str(local / "results"), "--against", str(finished / "results")])
    assert differs == 0, capsys.readouterr().out


@pytest.mark.slow
@with_and_without_accounts
def test_accounts_say_what_each_rule_took_where_they_are_kept(node, finished):
    if not keeps_accounts(node):
        done = subprocess.run(ACCOUNTS.split(), capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "accounting storage is disabled" in done.stderr
        return
    rows = kept()
    mine = {row["JobID"]: row for row in rows if row["WorkDir"] == str(finished)}
    assert {one: row["Comment"] for one, row in mine.items()} == dict(line.split() for line in jobs("%A %k") if line.split()[0] in mine)
    assert {"rule_labels_combine_select_review"} < {row["Comment"] for row in mine.values()}
    assert {row["State"] for row in mine.values()} == {"COMPLETED"}
    measured = {row["JobID"].split(".")[0] for row in rows if "." in row["JobID"] and float(row["MaxRSS"].removesuffix("M") or 0) > 50}
    assert measured >= mine.keys()


@pytest.mark.slow
def test_a_second_start_finds_everything_done(finished):
    before = len(jobs("%A"))
    done = evoaudit_on_slurm(finished)
    assert done.returncode == 0 and "1 of 1 steps" in done.stderr, said(done)
    assert len(jobs("%A")) == before


@pytest.mark.slow
def test_short_chains_are_one_job_each(finished):
    named = jobs("%k")
    assert named.count("rule_labels_combine_select_review") == 1
    assert named.count("rule_ending_build_report_draw_figures_render_tables_stats") == 1
    assert not [line for line in named if line.startswith(("rule_stats", "rule_combine", "rule_build_report"))]


@pytest.mark.slow
@with_and_without_accounts
def test_a_failing_job_shows_its_log(node, finished):
    wrong = CONFIG.replace("calibration: 1", "quotas: {sim-webarna: 2}")
    done = evoaudit_on_slurm(finished, "sample", "--retries", "0", config=wrong)
    assert done.returncode == 1
    assert "audit.quotas: sim-webarna: no trajectory belongs to this benchmark" in done.stdout + done.stderr, said(done)
    assert "Traceback" not in done.stderr
    if keeps_accounts(node):
        assert [row["State"] for row in kept() if row["Comment"].startswith("rule_draw_sample")][-1] == "FAILED"


@pytest.mark.slow
@with_and_without_accounts
def test_a_job_that_somebody_cancels_ends_the_run(node, tmp_path):
    long = rules(
        tmp_path,
        """
rule mine:
    output: "done.txt"
    shell: "sleep 300"
""",
    )
    words = ["--workflow-profile", str(PROFILE), *IMPATIENT, "--retries", "0"]
    with (tmp_path / "said.txt").open("w") as heard:
        process = subprocess.Popen(command(tmp_path, *words, snakefile=long), env=environment(), stdout=heard, stderr=heard)
    try:
        while process.poll() is None and queued("%T") != ["RUNNING"]:
            time.sleep(0.2)
        subprocess.run(["scancel", *queued()], check=True)
        assert process.wait(timeout=120) == 1
    finally:
        process.kill()
    text = (tmp_path / "said.txt").read_text()
    assert "SLURM status is: 'CANCELLED'" in text, text
    if keeps_accounts(node):  # by another name, which Snakemake would not know
        assert [row["State"] for row in kept() if row["WorkDir"] == str(tmp_path)] == ["CANCELLED by 0"]


@pytest.mark.slow
@with_and_without_accounts
def test_what_runs_out_of_memory_is_tried_again_with_more(node, tmp_path):
    hungry = rules(
        tmp_path,
        """
rule mine:
    output: "done.txt"
    shell:
        "echo {resources.mem_mb} >> asked.txt;"
        " python3 -c 'import time; held = bytearray(700 * 2**20); held[::4096] = bytes(len(held[::4096])); time.sleep(6)'; echo > {output}"
""",
    )
    done = on_slurm(tmp_path, "--set-resources", "mine:mem_mb=600*attempt", snakefile=hungry)
    assert done.returncode == 0, said(done)
    assert (tmp_path / "asked.txt").read_text().split() == ["600", "1200"]
    if keeps_accounts(node):
        tries = [(row["ReqMem"], row["State"]) for row in kept() if row["WorkDir"] == str(tmp_path)]
        assert tries == [("600M", "FAILED"), ("1200M", "COMPLETED")]


@pytest.mark.slow
def test_each_attempt_asks_for_more_and_three_are_made(node, tmp_path):
    failing = rules(
        tmp_path,
        """
rule mine:
    output: "done.txt"
    log: "why.log"
    shell: "echo {resources.mem_mb} {resources.runtime} >> asked.txt; echo the cat sat on it > {log}; exit 3"
""",
    )
    done = on_slurm(tmp_path, snakefile=failing)
    assert done.returncode == 1
    assert (tmp_path / "asked.txt").read_text().splitlines() == ["4000 240", "8000 480", "12000 720"]
    assert "the cat sat on it" in done.stdout + done.stderr, said(done)


@pytest.mark.slow
def test_partition_and_keys_reach_the_job_and_no_key_is_shown(node, tmp_path):
    curious = rules(
        tmp_path,
        """
rule mine:
    output: "seen.txt"
    shell: "echo $MY_KEY > {output}; scontrol show job $(squeue -h -o %A -t running) > shown.txt"
""",
    )
    done = on_slurm(tmp_path, snakefile=curious, MY_KEY="k-123", SBATCH_PARTITION="other")
    assert done.returncode == 0, said(done)
    assert (tmp_path / "seen.txt").read_text().strip() == "k-123"
    shown = (tmp_path / "shown.txt").read_text()
    assert "Partition=other" in shown and "k-123" not in shown
    assert "k-123" not in done.stdout + done.stderr
    wrong = on_slurm(tmp_path, "--forceall", "--retries", "0", snakefile=curious, SBATCH_PARTITION="nowhere")
    assert wrong.returncode == 1 and "invalid partition" in wrong.stderr, said(wrong)


@pytest.mark.slow
@with_and_without_accounts
def test_an_account_is_charged_where_there_are_some_and_ignored_where_not(node, tmp_path):
    quick = rules(
        tmp_path,
        """
rule mine:
    output: "done.txt"
    shell: "echo > {output}"
""",
    )
    done = on_slurm(tmp_path, snakefile=quick, SBATCH_ACCOUNT="lab")
    assert done.returncode == 0, said(done)
    if keeps_accounts(node):
        assert [row["Account"] for row in kept() if row["WorkDir"] == str(tmp_path)] == ["lab"]
        wrong = on_slurm(tmp_path, "--forceall", "--retries", "0", snakefile=quick, SBATCH_ACCOUNT="nobody")
        assert wrong.returncode == 1 and "account nobody appears to be invalid" in wrong.stderr, said(wrong)


@pytest.mark.slow
def test_a_provider_is_asked_by_no_more_jobs_than_its_limit_allows(node, tmp_path):
    asking = rules(
        tmp_path,
        """
rule all:
    input: expand("{n}.txt", n=range(3))
rule infer:
    output: "{n}.txt"
    resources: openai=40
    shell: "mkdir asking && sleep 2 && rmdir asking && echo {resources.openai} > {output}"
""",
    )
    done = on_slurm(tmp_path, "--retries", "0", snakefile=asking)
    assert done.returncode == 0, said(done)  # two at a time would meet in the folder
    assert [(tmp_path / f"{n}.txt").read_text().strip() for n in range(3)] == ["40", "40", "40"]


@pytest.mark.slow
def test_ctrl_c_cancels_what_runs_and_the_next_start_goes_on(node, tmp_path):
    (tmp_path / "small.yaml").write_text(CONFIG)
    words = ["data", "--workflow-profile", str(PROFILE), *IMPATIENT, "--configfile", str(tmp_path / "small.yaml")]
    process = subprocess.Popen(
        command(tmp_path, *words),
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=hear,
    )
    while process.poll() is None and not any(line.startswith("rule_normalise") for line in queued("%k")):
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 1
    assert queued() == []
    made = next(tmp_path.glob("results/simulate/*/manifest.json")).stat().st_mtime_ns
    done = run(tmp_path, *words)
    assert done.returncode == 0, said(done)
    assert next(tmp_path.glob("results/simulate/*/manifest.json")).stat().st_mtime_ns == made
    assert len(list(tmp_path.glob("results/normalise/*/manifest.json"))) == 1
