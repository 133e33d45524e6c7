"""What logs, labels, tables and file names hold reaches a terminal as text: nothing of theirs moves, colours or hides anything."""

import json
from pathlib import Path

import pytest
import yaml
from made_run import manifest
from PIL import Image

from evoaudit import normalise, store
from evoaudit.__main__ import main

#: Clears the screen, sets the title, hides what follows, turns text round, and ends the line.
HOSTILE = "a\x1b[2J\x1b]0;owned\x07\x9b8m\u202e\rb"


@pytest.fixture
def logs(tmp_path) -> Path:
    """Logs whose every text is hostile."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in ("0.png", f"{HOSTILE}.png"):
        Image.new("RGB", (40, 30), "white").save(folder / name, "PNG")
    step = {
        "action": "click",
        "x": 1,
        "y": 2,
        "value": HOSTILE,
        "reasoning": HOSTILE,
        "before_image": "0.png",
        "after_image": f"{HOSTILE}.png",
    }
    whole = dict.fromkeys(("benchmark", "task_id", "agent", "domain", "instruction", "oracle", "answer", "reference"), HOSTILE)
    lines = [{"trajectory_id": f"t-{n}{HOSTILE}", "raw_reward": n % 2, "steps": [step, step], **whole} for n in range(3)]
    lines += [{"trajectory_id": f"x{HOSTILE}"}, {"trajectory_id": "y", "steps": [{"action": HOSTILE}]}, {HOSTILE: HOSTILE}]
    (folder / "trajectories.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + HOSTILE + "\n")
    (folder / f"{HOSTILE}.jsonl").write_text(HOSTILE)
    return folder


def shown(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Run a command and return what it printed, which must be printable."""
    assert main([str(word) for word in words]) in (0, 1, 2)
    said = capsys.readouterr()
    text = said.out + said.err
    assert text and [one for one in text if not one.isprintable() and one not in "\n\t"] == [], repr(text)
    return text


def test_folders_of_logs(logs, tmp_path, capsys):
    assert "\\x1b[2J" in shown(capsys, "validate", logs, "--all")
    shown(capsys, "doctor", logs)
    shown(capsys, "validate", logs, "--kind", "osworld")
    settings = {"source": "s", "kind": "plain", "simulated": False, "options": {}}
    shown(capsys, "normalise", "--settings", json.dumps({**settings, "kind": HOSTILE}), "--root-folder", logs, "--out", tmp_path / "o")


def test_benchmarks_of_a_sample_and_the_config_that_is_to_be_pasted(logs, tmp_path, capsys):
    rows = [dict.fromkeys(store.schema.TABLES["sample"].names) for _ in range(3)]
    for number, row in enumerate(rows):
        row |= {"trajectory_id": f"t-{number}", "benchmark": f"{HOSTILE}: 1}}\nprobes: {{t1", "status": "analysed"}
        needed = [field for field in store.schema.TABLES["sample"] if not field.nullable and row[field.name] is None]
        row |= {field.name: {"string": "", "bool": False}.get(str(field.type), 0) for field in needed}
    folder = tmp_path / "sample"
    folder.mkdir()
    store.write_table(folder, "sample", rows)
    said = shown(capsys, "plan", "--n", 2, "--sample", manifest(folder, "sample", {}, trajectory=3))
    tree = yaml.safe_load(said[said.index("\naudit:") :])
    assert list(tree) == ["audit"] and list(tree["audit"]["quotas"]) == [rows[0]["benchmark"]]


def test_labels_and_tables(tmp_path, capsys):
    label = {"trajectory_id": f"t{HOSTILE}", "annotator": HOSTILE, "kind": HOSTILE, "stage": HOSTILE, "verdict": HOSTILE, HOSTILE: 1}
    (tmp_path / "x.jsonl").write_text(json.dumps(label) + "\n" + HOSTILE + "\n")
    assert "\\x1b[2J" in shown(capsys, "review", "check", tmp_path / "x.jsonl")
    (tmp_path / "t.csv").write_text(f'model,n,accuracy\n"{HOSTILE}",7,15.3\n', newline="")
    assert "\\x1b[2J" in shown(capsys, "check", tmp_path / "t.csv", "--all")
    (tmp_path / "c.yaml").write_text(json.dumps({"run": {"name": HOSTILE}, HOSTILE: HOSTILE}))
    shown(capsys, "validate", tmp_path / "c.yaml")
    (tmp_path / "ls.json").write_text(json.dumps([{"data": {HOSTILE: HOSTILE}, "annotations": [{"completed_by": HOSTILE}]}]))
    shown(capsys, "review", "import-ls", tmp_path / "ls.json", "--out", tmp_path / "out.jsonl")


def test_results_with_files_of_any_name(tmp_path, capsys):
    folder = tmp_path / "score" / "aaaaaaaaaa"
    folder.mkdir(parents=True)
    store.write_manifest(folder, stage="score", key="aaaaaaaaaa", format_version=1, seed=None, config={}, upstream={}, counts={})
    (folder / f"{HOSTILE}.parquet").write_text("x")
    (tmp_path / "mine" / HOSTILE).mkdir(parents=True)
    (tmp_path / ".plans").mkdir()
    row = {"stage": "score", "key": "bbbbbbbbbb", "label": HOSTILE, "settings": {"name": HOSTILE}, "seed": None, "upstream": {}}
    (tmp_path / ".plans" / "r.json").write_text(json.dumps([row]))
    shown(capsys, "verify", "--results", tmp_path)
    shown(capsys, "gc", "--results", tmp_path)
    shown(capsys, "status", "r", "--results", tmp_path)


def test_reading_logs_says_no_more_than_it_writes(logs, tmp_path, capsys):
    counts = store.Counts("normalise")
    (tmp_path / "out").mkdir()
    normalise.normalise(tmp_path / "out", counts, normalise.Source("s", "plain", logs))
    assert counts.read["trajectory"] >= 6
    assert all(line["item"].isprintable() and (line["detail"] or "").isprintable() for line in store.read_rows(tmp_path / "out", "drops"))
    said = capsys.readouterr()
    assert said.out + said.err == ""
