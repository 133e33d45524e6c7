"""What a change makes again: exactly the jobs that rest on it, as Snakemake itself says in dry runs over a finished run.

The finished run is made of empty files that Snakemake is told to take for what it made, since only the graph is asked for.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from evoaudit.outputs import DATA, FIGURES, TABLES
from evoaudit.resources import ROOT

SERVED = {"provider": "openai", "base_url": "http://127.0.0.1:30000/v1"}
CONFIG = {
    "run": {"name": "small", "seed": 3},
    "root": "data",
    "sources": [{"name": "probed", "kind": "plain", "path": "probed"}, {"name": "audited", "kind": "plain", "path": "audited"}],
    "probes": {"sources": ["probed"]},
    "inference": {"prices": "prices.yaml"},
    "models": [
        {"name": "random", "group": "baseline", "provider": "builtin"},
        {"name": "one", "conditions": ["full", "black"], **SERVED},
        {"name": "two", **SERVED},
    ],
    "audit": {"review": {"groups": ["p"]}},
    "judges": [
        {"name": "rules", "provider": "builtin"},
        {"name": "first", "ablation": True, **SERVED},
        {"name": "second", **SERVED},
        {"name": "both", "ensemble": ["first", "second"]},
        {"name": "p", "provider": "builtin", "model": "simulated", "role": "human"},
    ],
}
PRICES = {"models": {name: {"input": 1, "output": 2, "date": "2026-01-02", "source": "made up"} for name in ("one", "two")}}
END = ["stats", "tables", "figures", "report"]
RANDOM, ONE, BLACK, TWO = "infer random/full/512", "infer one/full/512", "infer one/black/512", "infer two/full/512"
ASKED = [RANDOM, ONE, BLACK, TWO]
LANGUAGE = ["judge first/screenshots+text", "judge first/text", "judge second/screenshots+text"]
BUILT_IN = [f"judge {name}/screenshots+text" for name in ("rules", "both", "p")]
JUDGED = [*LANGUAGE, *BUILT_IN]
AUDIT = ["signals", "sample", *JUDGED, "images audit/side-1280", "select", "combine"]

#: Snakemake, imported once: each line of words is done by a fork of this process, whose output goes to the file named first.
FORKS = """
import os, sys
from snakemake.cli import main
for line in sys.stdin:
    to, *words = line.rstrip("\\n").split("\\t")
    if not (child := os.fork()):
        out = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1), os.dup2(out, 2)
        main(words)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Finished:
    """A copy of the product and a run made with it, of which only names are there."""

    def __init__(self, folder: Path) -> None:
        self.product, self.folder = folder / "product", folder / "run"
        for name in ("workflow", "resources", "config", "profiles", "envs"):
            shutil.copytree(ROOT / name, self.product / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "Snakefile", self.product)
        for source in ("probed", "audited"):
            (self.folder / "data" / source).mkdir(parents=True)
            (self.folder / "data" / source / "trajectories.jsonl").write_text("{}")
        (self.folder / "prices.yaml").write_text(yaml.safe_dump(PRICES))
        environment = {**os.environ, "PYTHONPATH": str(self.product / "workflow")}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, "-c", FORKS], env=environment, cwd=self.folder, **pipes)
        self.would()
        for job in self.jobs():
            if job["stage"] in ("export", "pairs", "replay") or job["label"].startswith("export/"):
                continue
            home = self.folder / "results" / job["stage"] / job["key"]
            more = {"tables": [f"{name}.csv" for name in TABLES], "figures": [f"{name}.svg" for name in FIGURES]}
            for file in ("manifest.json", *DATA[job["stage"]], *more.get(job["stage"], ())):
                home.mkdir(parents=True, exist_ok=True)
                (home / file).touch()
            note = self.folder / "results" / "benchmarks" / job["stage"] / f"{job['key']}.jsonl"
            note.parent.mkdir(parents=True, exist_ok=True)
            note.touch()
        self.snakemake("--touch", "--forceall")

    def snakemake(self, *words: str) -> str:
        """Run Snakemake and return what it printed."""
        out = self.folder.parent / "printed.txt"
        words = (*words, "-s", str(self.product / "Snakefile"), "--cores", "2", "--configfile", "small.yaml")
        self.process.stdin.write("\t".join((str(out), *words)) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "0\n", out.read_text()
        return out.read_text()

    def would(self, **parts: object) -> list[str]:
        """Return what a run with these sections of the config would do, sorted, besides laying out."""
        (self.folder / "small.yaml").write_text(yaml.safe_dump({**CONFIG, **parts}))
        printed = self.snakemake("-n", "-p")
        (self.folder / "small.yaml").write_text(yaml.safe_dump(CONFIG))
        commands = [line.split() for line in printed.splitlines() if "python -m evoaudit" in line]
        named = {(job["stage"], job["key"]): job["label"] for job in self.jobs()}
        found = [(words[words.index("evoaudit") + 1], words[words.index("--key") + 1]) for words in commands if "--key" in words]
        assert sum("python -m evoaudit publish" in " ".join(words) for words in commands) == 1
        return sorted(stage if (label := named[stage, key]) == "all" else f"{stage} {label}" for stage, key in found)

    def jobs(self) -> list[dict]:
        """Return the jobs of the config that was looked at last."""
        return json.loads((self.folder / "results" / ".plans" / "small.json").read_text())

    @contextmanager
    def edited(self, name: str, old: str = "", new: str = "") -> Iterator[None]:
        """Change a file for a while: a text in it, or else a line at its end."""
        path = self.folder / name
        before, times = path.read_text(), path.stat()
        assert old in before
        path.write_text(before.replace(old, new) if old else before + "\n# edited\n")
        try:
            yield
        finally:
            path.write_text(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Iterator[Finished]:
    one = Finished(tmp_path_factory.mktemp("reruns"))
    yield one
    one.process.communicate()


def models(**change: object) -> list[dict]:
    return [{**one, **change} if one["name"] == "two" else one for one in CONFIG["models"]]


def test_a_finished_run_is_finished(finished):
    assert finished.would() == []


def test_a_changed_model_is_asked_and_no_other(finished):
    jobs = sorted(["score", *END, TWO])
    assert finished.would(models=models(model="successor")) == jobs
    assert finished.would(models=[*CONFIG["models"], {"name": "three", **SERVED}]) == sorted(["score", *END, "infer three/full/512"])
    assert finished.would(models=[one for one in CONFIG["models"] if one["name"] != "two"]) == sorted(["score", *END])


def test_how_fast_and_where_a_model_is_asked_makes_nothing_anew(finished):
    faster = models(base_url="http://127.0.0.1:40000/v1", concurrency=3, rpm=5, api_key_env="SOME_KEY")
    slower = {**CONFIG["inference"], "deadline_s": 9, "retries": 1, "reuse": "all", "budget_usd": 7}
    assert finished.would(models=faster, inference=slower) == []


def test_a_new_price_is_reckoned_again_for_its_model_alone(finished):
    with finished.edited("prices.yaml", "input: 1", "input: 3"):
        assert finished.would() == sorted([*END, "score", ONE, BLACK, TWO])


def test_a_changed_prompt_asks_every_model_and_no_judge(finished):
    with finished.edited("../product/resources/prompts/evogui-v1/t1.yaml"):
        assert finished.would() == sorted([*END, "score", *ASKED])


def test_a_changed_prompt_of_the_judges_asks_the_language_models_among_them_and_no_model(finished):
    with finished.edited("../product/resources/prompts/judge-v1/judge.yaml"):
        assert finished.would() == sorted([*END, *LANGUAGE, "judge both/screenshots+text", "select", "combine"])


def test_a_changed_source_reruns_what_reads_it(finished):
    with finished.edited("data/audited/trajectories.jsonl"):
        assert finished.would() == sorted(["normalise audited", *AUDIT, *END])
    with finished.edited("data/probed/trajectories.jsonl"):
        probes = ["normalise probed", "mine", "images side-512", *ASKED, "score"]
        assert finished.would() == sorted([*probes, *AUDIT, *END])


def test_a_source_at_another_place_reruns_nothing(finished):
    shutil.copytree(finished.folder / "data", finished.folder / "moved")
    assert finished.would(root="moved") == []


def test_another_source_of_the_audit_mines_nothing(finished):
    shutil.copytree(finished.folder / "data" / "audited", finished.folder / "data" / "more")
    more = {"name": "more", "kind": "plain", "path": "more"}
    assert finished.would(sources=[*CONFIG["sources"], more]) == sorted(["normalise more", *AUDIT, *END])


@pytest.mark.parametrize(
    ("file", "jobs"),
    [
        ("parse.py", ["score", *END]),
        ("infer/engine.py", []),
        ("audit/rules.py", [*BUILT_IN, "select", "combine", *END]),
    ],
)
def test_edited_code_reruns_what_uses_it_and_buys_no_answer_again(finished, file, jobs):
    with finished.edited(f"../product/workflow/evoaudit/{file}"):
        assert finished.would() == sorted(jobs)


@pytest.mark.parametrize(
    ("parts", "jobs"),
    [
        ({"report": {"title": "Another"}}, ["report"]),
        ({"audit": {**CONFIG["audit"], "tie": "judges"}}, ["combine", *END]),
    ],
)
def test_a_changed_setting_reruns_what_it_decides(finished, parts, jobs):
    assert finished.would(**parts) == sorted(jobs)
