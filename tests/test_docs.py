"""The pages for people: what they show works, and what they list is all there is."""

import csv
import importlib.util
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from made_pairs import bench
from made_replay import audit, payload
from PIL import Image

from evoaudit import config as configs
from evoaudit import labels, sources
from evoaudit.__main__ import COMMANDS, main
from evoaudit.actions import OPS
from evoaudit.outputs import TABLES
from evoaudit.probes import reviewed
from evoaudit.resources import ROOT
from evoaudit.sources import MODULES, plain, reader

OWN, SOURCE, KINDS, PAIRS, VERDICTS, BOARD = (
    ROOT / "docs" / f"{name}.md"
    for name in ("bring-your-own-logs", "add-a-source", "sources", "reviewing-pairs", "reviewing-verdicts", "audit-your-leaderboard")
)


def block(name: str) -> str:
    """Return the Python block whose first line names it."""
    pages = OWN.read_text(encoding="utf-8") + SOURCE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", pages, re.DOTALL)
    (found,) = [text for text in blocks if text.startswith(f"# {name}\n")]
    return found


def test_the_example_folder_passes_validation(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "make_logs.py").write_text(block("make_logs.py"), encoding="utf-8")
    runpy.run_path("make_logs.py")
    assert main(["validate", "own"]) == 0
    out = capsys.readouterr().out
    assert "1 trajectories with 3 steps and 4 different pictures can be read, 0 records cannot; 3 steps lie between" in out
    assert "- {name: plain, kind: plain, path: own}" in out


@pytest.fixture
def clicklog(tmp_path, monkeypatch):
    """The reader of the page, registered."""
    name = "evoaudit.sources.clicklog"
    file = tmp_path / "clicklog.py"
    file.write_text(block("workflow/evoaudit/sources/clicklog.py"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sources.MODULES, "clicklog", name)
    return module


def write_clicks(folder: Path) -> None:
    """Write a log of the kind that the example reader reads."""
    folder.mkdir(parents=True)
    log = [{"do": "enter", "text": "kettle", "x": 3, "y": 4}, {"do": "tap", "x": 5, "y": 6}, {"do": "stop"}]
    (folder / "run.json").write_text(json.dumps({"task": "7", "goal": "buy", "score": 1, "log": log}))
    for number in range(3):
        Image.new("RGB", (64, 48), (80 * number, 0, 0)).save(folder / f"{number}.png")


def test_the_example_reader_reads_its_logs(tmp_path, clicklog, capsys):
    write_clicks(tmp_path / "logs" / "monday")
    (found,) = clicklog.read(tmp_path / "logs", {})
    assert [(step.op, step.value, step.before.file) for step in found.steps] == [
        ("type", "kettle", "monday/0.png"),
        ("click", None, "monday/1.png"),
        ("done", None, "monday/2.png"),
    ]
    assert (found.task_id, found.instruction, found.oracles[0].verdict) == ("7", "buy", "pass")
    assert main(["validate", str(tmp_path / "logs"), "--kind", "clicklog"]) == 0
    assert "1 trajectories with 3 steps and 3 different pictures can be read" in capsys.readouterr().out


def test_the_example_reader_leaves_out_what_is_broken(tmp_path, clicklog, capsys):
    for name, text in (("a", "{broken"), ("b", json.dumps({"log": [{"x": 1}, {"do": "tap"}]})), ("c", "[]")):
        (tmp_path / "logs" / name).mkdir(parents=True)
        (tmp_path / "logs" / name / "run.json").write_text(text)
    assert main(["validate", str(tmp_path / "logs"), "--kind", "clicklog"]) == 1
    out = capsys.readouterr().out
    assert "a/run.json: trajectory bad_json" in out
    assert "b/run.json log[0]: step no_action: 'do' is missing" in out
    assert "c/run.json: c: trajectory no_steps" in out


def test_the_example_reader_is_about_thirty_lines():
    code = [line for line in block("workflow/evoaudit/sources/clicklog.py").splitlines() if line.strip() and not line.startswith("#")]
    assert len(code) <= 36
    assert max(map(len, code)) <= 140


def test_every_field_of_the_plain_format_is_explained():
    page = OWN.read_text(encoding="utf-8").partition("## A folder that works")[0]
    rows = [line.partition("|")[2].partition("|")[0] for line in page.splitlines() if line.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert listed == plain.FIELDS.keys() | plain.STEP_FIELDS.keys()


def test_the_reader_of_the_plain_format_knows_exactly_the_listed_fields(tmp_path):
    given = {name: 0.5 if kind == "number" else f"v-{name}" for name, kind in plain.FIELDS.items() if name not in ("steps", "raw_reward")}
    step = {name: 7 if kind == "number" else f"s-{name}" for name, kind in plain.STEP_FIELDS.items()}
    (tmp_path / "trajectories.jsonl").write_text(json.dumps({**given, "raw_reward": 1, "steps": [step]}))
    (found,) = plain.read(tmp_path, {})
    held = [found, found.steps[0], found.steps[0].target, found.steps[0].before, found.steps[0].after, found.oracles[0]]
    values = {str(getattr(one, name)) for one in held for name in type(one).__slots__}
    assert found.cost is not None and found.cost.usd == 0.5
    assert {value for value in (*given.values(), *step.values()) if isinstance(value, str)} <= values


def test_every_operation_is_listed():
    page = OWN.read_text(encoding="utf-8")
    listed = page.partition("Operations:")[2].partition(". Case")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == OPS.keys() - {"other"}


@pytest.mark.parametrize("kind", sorted(MODULES))
def test_every_kind_is_described_with_its_licence_and_layout(kind):
    page = KINDS.read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| [`{kind}`](#{kind}) |")]
    module = reader(kind)
    licence = row.split("|")[3]
    assert f"`{module.LICENSE}`" in licence if module.LICENSE else "`" not in licence.replace("`license`", "")
    section = re.search(rf"\n## {kind}\n(.*?)(\n## |\Z)", page, re.DOTALL)[1]
    assert f"Layout: `{module.LAYOUT}`" in section
    assert f"kind: {kind}" in section


def blocks(kind: str, page: Path = PAIRS) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_the_command_that_writes_the_page_of_pairs_works(tmp_path, monkeypatch, capsys):
    there = bench(tmp_path)
    there.mine().rename(tmp_path / "mined")
    there.normalised.rename(tmp_path / "normalised")
    (tmp_path / "data").mkdir()
    there.root.rename(tmp_path / "data" / "own")
    monkeypatch.chdir(tmp_path)
    (command,) = [line for text in blocks("sh") for line in text.splitlines() if line.startswith("evoaudit ")]
    assert main(command.split()[1:]) == 0
    assert "pairs/index.html: 12 pairs, 12 undecided" in capsys.readouterr().out
    target = next(line.split()[1] for text in blocks("sh") for line in text.splitlines() if line.startswith("snakemake "))
    assert f"use rule all as {target} with:" in (ROOT / "Snakefile").read_text(encoding="utf-8")


def test_the_keys_and_reasons_of_the_page_of_pairs_are_those_listed():
    page = PAIRS.read_text(encoding="utf-8")
    rows = [line.partition("|")[2].partition("|")[0] for line in page.partition("| key |")[2].partition("\n\n")[0].splitlines()[2:]]
    help_ = (ROOT / "workflow/evoaudit/review/templates/pairs.html.j2").read_text(encoding="utf-8").partition('class="keys"')[2]
    keys = {key for term in re.findall(r"<dt>(.*?)</dt>", help_) for key in re.findall(r"<kbd>(.*?)</kbd>", term)}
    assert {key for row in rows for key in re.findall(r"`(.+?)`", row)} == keys - {"Esc"}
    listed = page.partition("| reason |")[2].partition("\n\n")[0].splitlines()[2:]
    assert [re.match(r"\| `(\w+)` \|", line)[1] for line in listed] == list(reviewed.REASONS)


def test_the_line_and_the_config_of_the_page_of_pairs_are_read(tmp_path):
    (line,) = blocks("json")
    (tmp_path / "ana.jsonl").write_text(line, encoding="utf-8")
    (found,) = reviewed.read(tmp_path / "ana.jsonl").made.values()
    assert found.exported() == {name: value for name, value in json.loads(line).items() if value != ""}
    (tree,) = blocks("yaml")
    assert configs.check(yaml.safe_load(tree)).probes.t3.reviewed == ("decisions/ana.jsonl", "decisions/ben.jsonl")


def test_the_commands_of_the_page_on_verdicts_work_one_after_the_other(tmp_path, monkeypatch, capsys):
    there = audit(tmp_path)
    there.normalised.rename(tmp_path / "normalised")
    (tmp_path / "data").mkdir()
    there.root.rename(tmp_path / "data" / "own")
    monkeypatch.chdir(tmp_path)
    commands = [line.split()[1:] for text in blocks("sh", VERDICTS) for line in text.splitlines() if line.startswith("evoaudit ")]
    assert [words[1] for words in commands] == ["build", "check", "merge", "build", "build", "export-ls", "import-ls"]
    assert main(commands[0]) == 0
    (line,) = blocks("json", VERDICTS)
    for group in ("ana", "ben"):
        ids = [item["id"] for item in payload(tmp_path / "review" / group)["items"]]
        row = json.loads(line) | {"annotator": group, "evidence_steps": [3]}
        Path(f"{group}.jsonl").write_text("".join(json.dumps(row | {"trajectory_id": one}) + "\n" for one in ids))
    for words in commands[1:-1]:
        assert main(words) == 0, words
    tasks = json.loads(Path("ls/tasks.json").read_text())
    Path("export.json").write_text(json.dumps(tasks))
    Path("ls/config.xml").unlink()
    assert main(commands[-1]) == 0 and "6 tasks without an annotation" in capsys.readouterr().out
    (tree,) = blocks("yaml", VERDICTS)
    checked = configs.check(yaml.safe_load(tree)).audit
    assert checked.labels == ("labels.jsonl",) and {row["annotator"] for row in labels.read(Path("labels.jsonl"))} == set(
        checked.review.groups
    )


def test_the_keys_of_the_page_of_trajectories_are_those_listed(tmp_path):
    page = VERDICTS.read_text(encoding="utf-8").partition("| key |")[2].partition("\n\n")[0]
    listed = {key for row in page.splitlines()[2:] for key in re.findall(r"`(.+?)`", row)}
    text = (audit(tmp_path).build("--group", "ana") / "ana" / "index.html").read_text(encoding="utf-8")
    shown = text.partition('class="keys"')[2].partition("</div>")[0]
    assert listed == {key for term in re.findall(r"<dt>(.*?)</dt>", shown) for key in re.findall(r"<kbd>(.*?)</kbd>", term)} | {"Shift"}


def commands(page: Path) -> list[list[str]]:
    """Return the commands of a page, in order."""
    return [shlex.split(line) for text in blocks("sh", page) for line in text.splitlines() if line and not line.startswith("#")]


def test_the_page_on_leaderboards_names_what_is_there():
    page, snakefile = BOARD.read_text(encoding="utf-8"), (ROOT / "Snakefile").read_text(encoding="utf-8")
    for words in commands(BOARD):
        if words[0] == "snakemake":
            targets = words[1 : words.index("--cores")]
            assert all(re.search(rf"^(use rule all as|rule) {target}\b", snakefile, re.MULTILINE) for target in targets)
            assert (ROOT / words[words.index("--configfile") + 1]).is_file()
        else:
            assert words[0] == "evoaudit" and words[1] in COMMANDS
    named = {*re.findall(r"tables/(\w+)\.csv", page), *re.findall(r"\(`(\w+)`\)", page), *re.findall(r"tables? `(\w+)`", page)}
    assert len(named) >= 7 and named <= set(TABLES)


@pytest.mark.slow
def test_the_commands_of_the_page_on_leaderboards_work_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "config", tmp_path / "config")
    ran = []
    for words in commands(BOARD):
        if words[0] == "snakemake":
            command = [sys.executable, "-m", *words, "-s", str(ROOT / "Snakefile"), "--directory", str(tmp_path)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600, check=False)
            assert done.returncode == 0, done.stderr[-5000:]
        else:
            if words[1:3] == ["review", "check"]:
                _label(tmp_path / "results" / "runs" / "audit" / "review")
            assert main(words[1:]) == 0, words
        ran.append(words[1])
    assert ran == ["simulate", "doctor", "all", "plan", "review", "review", "all"]
    run = tmp_path / "results" / "runs" / "audit"
    suspects, scores = (
        list(csv.DictReader((run / "tables" / f"{name}.csv").read_text(encoding="utf-8").splitlines()))
        for name in ("suspects", "corrected_scores")
    )
    assert any(row["grounds"] == "people" for row in suspects)
    assert all((run / row["page"]).is_file() for row in suspects)
    assert {row["rank_change"] for row in scores} <= {"holds", "changes", "not settled"} and scores


def _label(review: Path) -> None:
    """Write what two groups would export who find every trajectory a false negative."""
    (line,) = blocks("json", VERDICTS)
    for group in ("ana", "ben"):
        row = json.loads(line) | {"annotator": group, "verdict": "efn", "category": None, "evidence_steps": [0]}
        found = [row | {"trajectory_id": item["id"], "practice": item.get("practice", False)} for item in payload(review / group)["items"]]
        Path(f"{group}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in found))
