"""Every command that README and the pages show is run by a test, or stands here with the reason why not."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import test_docs
import test_slurm
import yaml
from made_replay import payload
from model_server import Call, ModelServer, Reply, good

from evoaudit.__main__ import COMMANDS, main
from evoaudit.resources import ROOT

PAGES = {
    path.relative_to(ROOT).as_posix(): path for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), ROOT / "config/README.md")
}
PAGES |= {name: ROOT / name for name in ("benchmarks/README.md", "resources/published/README.md")}

_HUB = "downloads from the hub; test_download.py and test_hub.py run it against a server of their own"
_SLURM = "needs Slurm; test_slurm.py runs the profile on one it starts"
_CLOUD = "needs a cluster and an account; test_cloud.py checks what the files say"
_HARNESS = "needs another program's environment; test_export_harnesses.py runs the exported tasks in it"
_MEASURES = "measures for minutes, alone on the machine"
#: Command → why no test runs it.
NOT_RUN = {
    "make test": "runs this very suite",
    "make slurm": "installs from the package index",
    ". .venv/bin/activate": "changes the reader's own shell",
    "export SBATCH_PARTITION=NAME SBATCH_ACCOUNT=NAME": _SLURM,
    "export SBATCH_PARTITION=NAME": _SLURM,
    "export SBATCH_ACCOUNT=NAME": _SLURM,
    "snakemake --workflow-profile profiles/slurm --configfile mine.yaml": _SLURM,
    test_slurm.ACCOUNTS: _SLURM,
    "snakemake download --cores 4 --configfile mine.yaml": _HUB,
    "snakemake download --cores 8 --configfile config/paper.yaml": _HUB,
    "snakemake --cores 8 --configfile config/paper.yaml": _HUB,
    "snakemake --cores 2 --configfile config/examples/evogui_simulated.yaml": "six minutes; test_paper_scale.py runs its stages",
    "snakemake --cores 2 --configfile config/examples/simulated_models.yaml": "minutes; test_simulated_models.py runs its plan and models",
    "podman build -f envs/Containerfile -t REGISTRY/evoaudit:0.1.0 . && podman push REGISTRY/evoaudit:0.1.0": _CLOUD,
    "python -m http.server --bind 127.0.0.1 --directory results/logs/status": "serves until it is stopped; test_watch_browser.py has it",
    "kubectl create secret generic evoaudit-keys --from-literal=MY_KEY=…": _CLOUD,
    "kubectl apply -f profiles/kubernetes/job.yaml": _CLOUD,
    "kubectl logs --follow job/evoaudit": _CLOUD,
    "aws batch register-job-definition --cli-input-json file://profiles/aws-batch/job.json": _CLOUD,
    "aws batch submit-job --job-name mine --job-queue QUEUE --job-definition evoaudit": _CLOUD,
    "inspect eval harness/inspect/evogui_bench.py@evogui_bench --model PROVIDER/MODEL": _HARNESS,
    "python -m lmms_eval --include_path harness/lmms-eval --tasks evogui_t1,evogui_t2,evogui_t3 --model MODEL": _HARNESS,
    "python benchmarks/normalise_and_mine.py": _MEASURES,
    "python benchmarks/mining.py": _MEASURES,
    "pip install datasets pandas": "installs from the package index",
    "python benchmarks/reading.py": _MEASURES,
    "python benchmarks/preparation.py": _MEASURES,
    "python benchmarks/masking.py": _MEASURES,
    "python benchmarks/statistics_and_figures.py": _MEASURES,
    "python benchmarks/report.py": _MEASURES,
    "make chaos": _MEASURES,
    "make scale": "an hour; test_full_run.py runs a whole paper of a few items",
    "python benchmarks/full_run.py --growth": "most of an hour; test_full_run.py runs a whole paper of a few items",
    "python benchmarks/full_run.py --dag 28 280 1000": _MEASURES,
    "python benchmarks/copies.py .benchmark-work/28-3000-5000-158-full --items 1 10": _MEASURES,
    "python3 -m venv inspect && inspect/bin/pip install inspect-ai==0.3.285 openai==3.57.0": "installs from the package index",
    "python benchmarks/inference.py --inspect inspect/bin/python": _MEASURES,
}
#: Page → the test elsewhere that runs the commands of the page that begin so, and its name.
ELSEWHERE = {
    "docs/audit-your-leaderboard.md": ("", test_docs.test_the_commands_of_the_page_on_leaderboards_work_one_after_the_other),
    "docs/reviewing-pairs.md": ("evoaudit ", test_docs.test_the_command_that_writes_the_page_of_pairs_works),
    "docs/reviewing-verdicts.md": ("evoaudit ", test_docs.test_the_commands_of_the_page_on_verdicts_work_one_after_the_other),
}


def commands(page: str) -> list[str]:
    """Return the commands a page shows, in order, without their comments."""
    blocks = re.findall(r"```(?:sh|bash|console|shell)\n(.*?)```", PAGES[page].read_text(encoding="utf-8"), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    stripped = (" ".join(re.sub(r"(^|\s)#.*", "", line).split()) for line in lines)
    return [line for line in stripped if line]


def mine(page: str) -> list[str]:
    """Return the commands of a page that a story here runs."""
    start = ELSEWHERE[page][0] if page in ELSEWHERE else None
    return [one for one in commands(page) if one not in NOT_RUN and (start is None or not one.startswith(start))]


def test_every_command_is_run_or_has_a_reason():
    left = {page: mine(page) for page in PAGES if page not in STORIES and mine(page)}
    assert left == {}, "give each of these a story, or a reason in NOT_RUN"
    assert {page for page in STORIES if not mine(page)} == set(), "nothing left to run"


def test_every_reason_is_of_a_command_that_is_shown():
    shown = {one for page in PAGES for one in commands(page)}
    assert {one: why for one, why in NOT_RUN.items() if one not in shown} == {}


def test_no_page_shows_a_command_outside_of_its_blocks_for_commands():
    for page, path in PAGES.items():
        for kind, text in re.findall(r"```(\w*)\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            if kind not in ("sh", "yaml", "json", "csv", "python"):
                pytest.fail(f"{page}: a block of kind '{kind}': {text[:60]}")


@pytest.mark.parametrize("page", PAGES)
def test_commands_name_targets_files_and_subcommands_that_are_there(page):
    snakefile = (ROOT / "Snakefile").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in commands(page):
        words = shlex.split(line)
        if words[0] == "snakemake":
            targets = [word for word in words[1 : words.index("--cores")] if word[:1] != "-"] if "--cores" in words else []
            assert all(re.search(rf"^(use rule all as|rule) {target}\b", snakefile, re.MULTILINE) for target in targets), line
        elif words[0] == "evoaudit":
            assert words[1] in COMMANDS, line
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), line
        for name in re.findall(r"(?:config|profiles|envs|benchmarks|resources)/[\w./-]+", line):
            assert (ROOT / name).exists() or name == "resources/published/synthetic", line


# Stories: a checkout, and the commands of a page in it, one after the other.

CONFIG = """
run: {{name: mine, seed: 3}}
sources:
  - {{name: my-agents, kind: plain, path: data/own, license: CC-BY-4.0}}
probes:
  t1: {{quota: {{3: 4}}}}
  t2: {{quota: {{click: 3, type: 3}}}}
  t3: {{quota: {{cross: 3, same_domain: 2}}}}
models:
  - {{name: random, group: baseline, provider: builtin}}
  - {{name: my-model, group: open, provider: openai, model: org/my-model, base_url: {url}, api_key_env: MY_KEY}}
judges:
  - {{name: rules, provider: builtin}}
  - {{name: codex, provider: openai, model: org/judge, base_url: {url}, api_key_env: MY_KEY}}
inference: {{tolerate: 0.9, retries: 1}}
audit: {{calibration: 1, review: {{agreements: 4, groups: [ana, ben]}}}}
export: {{pictures: unread}}
"""
_VERDICT = {"rationale": "It stopped.", "evidence_steps": [0], "verdict": "gf", "category": "t3-term", "confidence": 0.8}


def answer(call: Call) -> Reply:
    """Answer a probe or a judge's question, somehow."""
    text = json.dumps(call.body)
    if "evidence_steps" in text:
        return good(call.protocol, json.dumps(_VERDICT))
    return good(call.protocol, '{"order": [1, 2, 3]}' if "order" in text else '{"action": "click", "value": "", "answer": "A"}')


@dataclass
class Checkout:
    """A copy of what a clone holds, in which commands are run as they are shown."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, command: str) -> str:
        """Run a command as it is shown and return what it printed; variables that are exported stay."""
        if command.startswith("export "):
            given = dict(pair.split("=", 1) for pair in shlex.split(command)[1:])
            self.environment |= {name: "k" if value == "…" else value for name, value in given.items()}
            return ""
        given = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        given |= {
            "PYTHONPATH": str(self.home / "workflow"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHON": "false",
        }
        words = ["bash", "-euo", "pipefail", "-c", command]
        done = subprocess.run(words, capture_output=True, text=True, cwd=self.home, env=given | self.environment, timeout=1200, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
        return done.stdout + done.stderr

    def link(self, name: str, target: Path) -> None:
        """Let a name of the page stand for a folder."""
        (self.home / name).unlink(missing_ok=True)
        (self.home / name).symlink_to(target)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Iterator[Checkout]:
    home = tmp_path_factory.mktemp("clone")
    for name in ("Snakefile", "Makefile", "CITATION.cff", "pyproject.toml"):
        shutil.copy2(ROOT / name, home / name)
    for name in ("workflow", "resources", "config", "profiles", "envs", "docs"):
        shutil.copytree(ROOT / name, home / name, ignore=shutil.ignore_patterns("__pycache__", "downloads", "sources.lock.json"))
    # An environment that is there already: `make` installs nothing.
    (home / ".venv").mkdir()
    for part in Path(sys.prefix).iterdir():
        if part.name != ".ready":
            (home / ".venv" / part.name).symlink_to(part)
    (home / ".venv" / ".ready").touch()
    assert main(["simulate", "--trajectories", "40", "--formats", "plain", "--seed", "5", "--out", str(home / "made")]) == 0
    (home / "data").mkdir()
    (home / "data" / "own").symlink_to(home / "made" / "plain")
    server = ModelServer(answer)
    (home / "mine.yaml").write_text(CONFIG.format(url=server.url("chat")), encoding="utf-8")
    yield Checkout(home, {"MY_KEY": "k"})
    server.close()


def labels(there: Checkout, run: str = "mine") -> None:
    """Write what two groups would export from their pages."""
    (line,) = test_docs.blocks("json", test_docs.VERDICTS)
    for group in ("ana", "ben"):
        row = json.loads(line) | {"annotator": group, "verdict": "efn", "category": None, "evidence_steps": [0]}
        items = payload(there.home / "results" / "runs" / run / "review" / group)["items"]
        told = [row | {"trajectory_id": item["id"], "practice": item.get("practice", False)} for item in items]
        (there.home / f"{group}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in told))


def readme(there: Checkout) -> Iterator[str]:
    home = there.home
    shutil.copyfile(ROOT / "resources" / "published" / "evogui_table2.csv", home / "TABLE.csv")
    real = test_docs.ROOT.parent / "shared" / "data"
    real = Path(os.environ.get("EVOAUDIT_SHARED", real.parent)) / "data"
    for command in mine("README.md"):
        if "real_logs.yaml" in command:
            if not real.is_dir():
                continue  # test_real_logs.py says that it was skipped
            there.link("FOLDER", real)
        if "audit_logs.yaml" in command:
            there.link("FOLDER", home / "made" / "plain")
        if command.startswith("evoaudit review check"):
            labels(there)
        if command.startswith("evoaudit verify --against"):
            shutil.copytree(home / "results", home / "DIR", symlinks=True)
        yield command
    assert (home / "results" / "runs" / "demo" / "index.html").is_file() and (home / "r.html").is_file()
    assert (home / "results" / "runs" / "mine" / "export" / "SHA256SUMS").is_file() and (home / "labels" / "ana.jsonl").is_file()


def request(there: Checkout, stage: str, model: str) -> str:
    """Return an item that a model or judge was asked about."""
    for path in sorted(there.home.glob(f"results/{stage}/*/predictions.parquet")):
        found = pq.read_table(path, columns=["model", "instance_id", "status"]).to_pylist()
        if rows := [row["instance_id"] for row in found if row["model"] == model and row["status"] == "ok"]:
            return shlex.quote(rows[0])
    raise AssertionError(f"{model} answered nothing")


def a_model(there: Checkout) -> Iterator[str]:
    for command in mine("docs/add-a-model.md"):
        yield command.replace("REQUEST", request(there, "infer", "my-model")) if "REQUEST" in command else command
    assert list((there.home / "sent").iterdir())


def a_judge(there: Checkout) -> Iterator[str]:
    shutil.rmtree(there.home / "sent", ignore_errors=True)
    for command in mine("docs/judging.md"):
        yield command.replace("TRAJECTORY", request(there, "judge", "codex")) if "TRAJECTORY" in command else command
    assert list((there.home / "sent").iterdir())


def a_source(there: Checkout) -> Iterator[str]:
    home = there.home
    text = test_docs.block("workflow/evoaudit/sources/clicklog.py")
    (home / "workflow/evoaudit/sources/clicklog.py").write_text(text, encoding="utf-8")
    register = home / "workflow/evoaudit/sources/__init__.py"
    (line,) = [one for one in re.findall(r"```python\n(.*?)```", test_docs.SOURCE.read_text(), re.DOTALL) if one.startswith(" ")]
    before = register.read_text()
    register.write_text(before.replace("MODULES = {\n", "MODULES = {\n" + line))
    test_docs.write_clicks(home / "clicks" / "monday")
    there.link("FOLDER", home / "clicks")
    yield from mine("docs/add-a-source.md")
    register.write_text(before)


def own_logs(there: Checkout) -> Iterator[str]:
    there.link("FOLDER", there.home / "made" / "plain")
    (there.home / "make_logs.py").write_text(test_docs.block("make_logs.py"), encoding="utf-8")
    there.run("python make_logs.py")
    yield from mine("docs/bring-your-own-logs.md")


def a_table(there: Checkout) -> Iterator[str]:
    (text,) = test_docs.blocks("csv", ROOT / "docs" / "check.md")
    (there.home / "TABLE.csv").write_text(text)
    yield from mine("docs/check.md")
    assert (there.home / "results.csv").is_file()


def after_faults(there: Checkout) -> Iterator[str]:
    (there.home / "results").mkdir(exist_ok=True)
    shutil.copytree(there.home / "results", there.home / "OTHER", symlinks=True)
    yield from mine("docs/faults.md")


def papers(there: Checkout) -> Iterator[str]:
    yield from mine("docs/reproduce-the-papers.md")
    shown = (there.home / "results/runs/published/tables/published_check.csv").read_text()
    assert shown.count(",agrees,") > 50


def plainly(page: str) -> Callable[[Checkout], Iterator[str]]:
    return lambda there: iter(mine(page))


#: Page → its commands, made ready one by one.
STORIES: dict[str, Callable[[Checkout], Iterator[str]]] = {
    "README.md": readme,
    "docs/add-a-model.md": a_model,
    "docs/add-a-source.md": a_source,
    "docs/bring-your-own-logs.md": own_logs,
    "docs/check.md": a_table,
    "docs/judging.md": a_judge,
    "docs/faults.md": after_faults,
    "docs/reproduce-the-papers.md": papers,
    **{
        page: plainly(page)
        for page in (
            "docs/export.md",
            "docs/reviewing-pairs.md",
            "docs/reviewing-verdicts.md",
            "docs/watching.md",
            "resources/published/README.md",
        )
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("page", STORIES)
def test_the_commands_of_a_page_work_one_after_the_other(checkout, page):
    ran = 0
    for command in STORIES[page](checkout):
        said = checkout.run(command)
        assert "Traceback" not in said, f"{command}\n{said[-3000:]}"
        ran += 1
    assert ran


def test_the_config_of_the_page_on_models_is_a_config(tmp_path):
    from evoaudit import config as configs

    (tree,) = test_docs.blocks("yaml", ROOT / "docs" / "add-a-model.md")
    model = configs.check(yaml.safe_load(tree)).models[1]
    assert (model.name, model.conditions, model.api_key_env) == ("my-model", ("full", "black"), "MY_KEY")


def test_the_page_on_statistics_names_every_table_once():
    from evoaudit.outputs import TABLES

    page = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8").partition("## Every table's numbers")[2]
    rows = [line.partition("|")[2].partition("|")[0] for line in page.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(TABLES)


def test_readme_links_every_page():
    text = PAGES["README.md"].read_text(encoding="utf-8")
    assert [page for page in PAGES if page.startswith("docs/") and f"({page})" not in text] == []


def test_links_of_all_pages_lead_somewhere():
    for page, path in PAGES.items():
        text = path.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([\w-]+))?\)", text):
            there = path.parent / target if target else path
            assert there.exists(), f"{page}: {target}"
            if anchor:
                heads = {
                    re.sub(r"[^\w -]", "", head.lower()).strip().replace(" ", "-")
                    for head in re.findall(r"^#+ (.*)", there.read_text(), re.M)
                }
                assert anchor in heads, f"{page}: {target}#{anchor}"
