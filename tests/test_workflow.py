"""The whole workflow, run as a user runs it, in folders of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from evoaudit.__main__ import main
from evoaudit.outputs import FIGURES, TABLES
from evoaudit.resources import ROOT

SMALL = """
run: {name: small, seed: 3}
sources:
  - {name: sim, kind: simulated, trajectories: 60}
probes:
  t1: {quota: {3: 6, 4: 6, 5: 6}}
  t2: {quota: {click: 8, type: 8, select: 4}}
  t3: {quota: {cross: 6, same_domain: 6, long_skip: 6}}
models:
  - {name: random, group: baseline, provider: builtin}
  - {name: image-similarity, group: baseline, provider: builtin}
audit:
  calibration: 1
  review: {agreements: 4, groups: [p1, p2]}
judges:
  - {name: rules, provider: builtin}
  - {name: s, provider: builtin, model: simulated, accuracy: 0.8}
  - {name: p1, provider: builtin, model: simulated, role: human, accuracy: 0.9}
  - {name: p2, provider: builtin, model: simulated, role: human, accuracy: 0.9}
report: {max_items: 4}
"""


def snakemake(folder: Path, *words: str, cores: int = 2, config: str = SMALL, check: bool = True) -> subprocess.CompletedProcess:
    """Run the workflow in ``folder`` as a process of its own."""
    (folder / "small.yaml").write_text(config)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [
        sys.executable,
        "-m",
        "snakemake",
        *words,
        "-s",
        str(ROOT / "Snakefile"),
        "--directory",
        str(folder),
        "--cores",
        str(cores),
        "--configfile",
        str(folder / "small.yaml"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=600, check=False)
    assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return done


def data_files(folder: Path) -> dict[str, str]:
    """Return path → sha256 of every data file, as the manifests record them (and as they are)."""
    from evoaudit.store import sha256_file

    found = {}
    for path in sorted((folder / "results").rglob("*")):
        relative = path.relative_to(folder / "results")
        if path.is_file() and relative.parts[0] not in ("logs", "benchmarks", ".fingerprints") and path.name not in ("manifest.json",):
            found[relative.as_posix()] = sha256_file(path)
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A finished small run on two cores."""
    folder = tmp_path_factory.mktemp("two-cores")
    snakemake(folder, cores=2)
    return folder


def test_two_folders_and_core_counts_give_the_same_bytes(finished, tmp_path_factory):
    other = tmp_path_factory.mktemp("one core, and a space")
    snakemake(other, cores=1)
    first, second = data_files(finished), data_files(other)
    assert first.keys() == second.keys()
    assert [path for path in first if first[path] != second[path]] == []


def test_an_up_to_date_run_only_lays_out(finished):
    done = snakemake(finished)
    assert "1 of 1 steps" in done.stdout + done.stderr


def test_a_finished_run_says_what_it_made(finished):
    state = json.loads((finished / "results" / "logs" / "status" / "small.json").read_text())
    assert (state["state"], state["failures"]) == ("finished", [])
    assert state["jobs"]["done"] == state["jobs"]["total"] == state["made"] > 20
    assert len(state["seconds_by_job"]) == state["made"]
    assert not list(finished.glob("results/logs/[a-r]*/*.json"))


def test_a_setting_changed_and_changed_back_reruns_nothing(finished):
    other = SMALL.replace("max_items: 4", "max_items: 3")
    assert "2 of 2 steps" in snakemake(finished, config=other).stderr
    assert "1 of 1 steps" in snakemake(finished).stderr


def test_new_times_of_the_code_rerun_nothing(finished):
    for path in (ROOT / "workflow" / "evoaudit").rglob("*.py"):
        os.utime(path)
    assert "1 of 1 steps" in snakemake(finished).stderr


def test_times_from_any_clock_rerun_nothing(finished):
    times = (1, 315532800, 4102444800)  # 1970, 1980, 2100
    for number, path in enumerate(sorted((finished / "results").rglob("*"))):
        os.utime(path, (times[number % 3] + number, times[number % 3] + number))
    assert "1 of 1 steps" in snakemake(finished).stderr


def test_a_finished_run_is_what_its_manifests_say(finished, capsys):
    assert main(["verify", "--results", str(finished / "results")]) == 0, capsys.readouterr().out


def test_every_table_and_figure_is_there(finished):
    run = finished / "results" / "runs" / "small"
    for name in TABLES:
        for end in ("csv", "md", "tex", "parquet"):
            assert (run / "tables" / f"{name}.{end}").stat().st_size > 0, f"{name}.{end}"
    for name in FIGURES:
        for end in ("pdf", "svg", "png"):
            assert (run / "figures" / f"{name}.{end}").stat().st_size > 0, f"{name}.{end}"
    assert (run / "index.html").is_file()
    page = (run / "index.html").read_text()
    assert all(name in page for name in TABLES)


def test_the_corpus_has_the_size_the_config_names(finished):
    import pyarrow.parquet as pq

    rows = pq.read_table(finished / "results" / "runs" / "small" / "tables" / "ingest.parquet").to_pylist()
    kept = sum(row["kept"] for row in rows if row["stage"] == "normalise" and row["unit"] == "trajectory")
    assert kept == 60


def test_every_count_reconciles(finished):
    manifests = list((finished / "results").glob("*/*/manifest.json"))
    assert len(manifests) > 15
    for path in manifests:
        manifest = json.loads(path.read_text())
        if path.parent.parent.name == "runs":
            continue
        for counts in (manifest["counts"], *manifest["counts"]["others"].values()):
            assert counts["read"] == counts["kept"] + sum(counts["dropped"].values()), path


def test_no_data_file_holds_a_path_of_this_machine(finished):
    needles = (str(finished).encode(), str(ROOT).encode())
    held = []
    for path in (finished / "results").rglob("*"):
        parts = path.relative_to(finished / "results").parts
        if path.is_file() and parts[0] not in ("logs", "benchmarks", ".fingerprints", ".plans"):
            content = path.read_bytes()
            if any(needle in content for needle in needles):
                held.append("/".join(parts))
    assert held == []


def test_snakemakes_own_report_can_be_made(finished):
    snakemake(finished, "--report", "own.html")
    assert "evogain_forest" in (finished / "own.html").read_text()


def test_everything_simulated_says_so(finished):
    import pyarrow.parquet as pq

    tables = finished / "results" / "runs" / "small" / "tables"
    for name in ("evogui_main", "audit_verdicts", "agreement", "annotator_rates"):
        table = pq.read_table(tables / f"{name}.parquet")
        assert table.num_rows > 0
        assert all(table["simulated"].to_pylist()), name
        assert "simulated" in (tables / f"{name}.md").read_text().lower()


def test_a_folder_lost_from_the_middle_is_made_again(finished):
    import shutil

    before = data_files(finished)
    for stage in ("mine", "score"):
        shutil.rmtree(finished / "results" / stage)
    snakemake(finished)
    assert data_files(finished) == before


def test_a_damaged_file_is_not_passed_on_and_made_again(finished):
    import shutil

    before = data_files(finished)
    path = next(finished.glob("results/score/*/scores.parquet"))
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    shutil.rmtree(finished / "results" / "stats")
    done = snakemake(finished, check=False)
    told = f"results/score/{path.parent.name}/scores.parquet: differs from its manifest.json; what was there is set aside"
    assert done.returncode == 1 and told in done.stderr
    key = next(finished.glob("results/logs/stats/*.json")).stem
    assert f"failed     stats: {told}" in done.stderr and f"log results/logs/stats/{key}.log" in done.stderr
    state = json.loads((finished / "results" / "logs" / "status" / "small.json").read_text())
    assert (state["state"], [job["stage"] for job in state["failures"]]) == ("failed", ["stats"])
    snakemake(finished)
    path.with_name("scores.parquet.damaged").unlink()
    assert data_files(finished) == before


def test_a_damaged_table_is_not_laid_out(finished):
    path = next(finished.glob("results/tables/*/cost.csv"))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"?")
    laid_out = finished / "results" / "runs" / "small" / "tables" / "cost.csv"
    laid_out.unlink()
    done = snakemake(finished, check=False)
    assert done.returncode == 1 and "cost.csv: differs from its manifest.json" in done.stderr
    snakemake(finished)
    assert laid_out.read_bytes() == path.read_bytes() == content
    path.with_name("cost.csv.damaged").unlink()


def test_every_target_can_be_asked_for(finished):
    for target in ("data", "probes", "evogui", "sample", "audit", "review", "tables", "figures", "report", "export", "paper"):
        snakemake(finished, target)
    review = finished / "results" / "runs" / "small" / "review"
    for page in ("t3", "p1", "p2"):
        assert (review / page / "index.html").is_file() and any((review / page / "pictures").iterdir())
    shown = b"".join(path.read_bytes() for path in sorted((review / "p1").rglob("*")) if path.is_file())
    rows = [row for path in finished.glob("results/normalise/*/trajectories.parquet") for row in pq.read_table(path).to_pylist()]
    hidden = {row[name] for row in rows for name in ("agent", "trajectory_id", "source_file", "benchmark", "task_id") if row[name]}
    assert len(hidden) > 60 and not [name for name in sorted(hidden) if name.encode() in shown]
    export = finished / "results" / "runs" / "small" / "export"
    assert (export / "data" / "t1" / "test.parquet").is_file() and "simulated" in (export / "README.md").read_text()


def test_a_quota_for_a_benchmark_that_is_not_there_is_one_line(finished):
    done = snakemake(finished, "sample", config=SMALL.replace("calibration: 1", "quotas: {sim-webarna: 2}"), check=False)
    assert done.returncode == 1
    assert "audit.quotas: sim-webarna: no trajectory belongs to this benchmark; did you mean 'sim-webarena'?" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupted_run_resumes(tmp_path):
    import signal
    import time

    (tmp_path / "small.yaml").write_text(SMALL)
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "data",
        "-s",
        str(ROOT / "Snakefile"),
        "--directory",
        str(tmp_path),
        "--cores",
        "2",
        "--configfile",
        str(tmp_path / "small.yaml"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path, start_new_session=True)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "results").glob("normalise/*/.partial-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    snakemake(tmp_path, "--unlock")
    snakemake(tmp_path, "data")
    assert not list((tmp_path / "results").rglob(".partial-*"))
    assert len(list((tmp_path / "results").glob("normalise/*/manifest.json"))) == 6  # five formats and the planted shift


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("run: {nam: x}\n", "run.nam: unknown field; did you mean 'name'?"),
        ("sources: [{name: a, kind: plain, path: nowhere}]\n", "source 'a': nowhere: no such folder"),
        ("run: {name: x}\nrun: {name: y}\n", "the key 'run' is written twice"),
    ],
)
def test_a_wrong_config_is_one_line_and_exit_2(tmp_path, config, words):
    done = snakemake(tmp_path, "-n", config=config, check=False)
    assert done.returncode == 2
    assert [line for line in done.stderr.splitlines() if words in line]
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("results/*/*"))


def test_an_empty_folder_is_one_line_and_leaves_nothing(tmp_path):
    (tmp_path / "logs").mkdir()
    done = snakemake(tmp_path, "data", config="sources: [{name: a, kind: plain, path: logs}]\n", check=False)
    assert done.returncode == 1
    assert "evoaudit normalise:" in done.stderr and "plain" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "results" / "normalise").glob("*/*"))
