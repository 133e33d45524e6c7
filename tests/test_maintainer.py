"""A leaderboard's own logs, audited as a maintainer does it: a command without a key, pages labelled, and the command with labels."""

import csv
import json
from pathlib import Path

import pytest
from made_replay import payload
from test_workflow import snakemake

from evoaudit.__main__ import main
from evoaudit.resources import ROOT

pytestmark = pytest.mark.slow

EXAMPLE = (ROOT / "config" / "examples" / "audit_logs.yaml").read_text(encoding="utf-8")


def table(name: str, folder: str = "tables") -> list[dict[str, str]]:
    with open(f"results/runs/audit/{folder}/{name}.csv", encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def label(group: str, skips: int | None) -> Path:
    """Label a group's page as its export would: every third an evaluator false negative, and one skipped if asked."""
    data, rows = payload(Path("results/runs/audit/review") / group), []
    for place, item in enumerate(data["items"]):
        row = {"trajectory_id": item["id"], "annotator": group, "kind": "human", "stage": "blind", "codebook_version": data["codebook"]}
        wrong = int(item["id"][-1], 16) % 3 == 0
        said = {"verdict": "efn"} if wrong else {"verdict": "gf", "category": "t3-noop"}
        said = {"skipped": True, "note": "too small"} if place == skips else said | {"evidence_steps": [0], "confidence": 1}
        rows.append(row | said)
    Path(f"{group}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return Path(f"{group}.jsonl")


@pytest.mark.parametrize("kind", ["plain", "osworld"])
def test_one_command_gives_signals_draw_and_pages_and_with_labels_the_final_tables(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "--trajectories", "30", "--formats", kind, "--seed", "5", "--out", "logs"]) == 0
    given = [f"root=logs/{kind}", f"sources=[{{name: logs, kind: {kind}, path: .}}]"]
    snakemake(tmp_path, "all", "review", "--config", *given, config=EXAMPLE)
    home = Path("results/runs/audit")
    drawn = [row for row in table("draw") if row["benchmark"] == "All"]
    analysed, calibration = int(drawn[0]["analysed"]), int(drawn[0]["calibration"])
    assert analysed > 5 and calibration == 2 and (home / "index.html").is_file()
    assert {row["annotator"] for row in table("annotator_rates") if row["kind"] == "judge"} == {"rules"}
    reviewed = [row for row in table("review_set", "review") if row["selected"] == "true"]
    for group in ("ana", "ben"):
        items = payload(home / "review" / group)["items"]
        assert len(items) == len(reviewed) + calibration and sum(item["practice"] for item in items) == calibration

    last = len(payload(home / "review" / "ben")["items"]) - 1
    files = [str(label("ana", None)), str(label("ben", last))]
    keys = [str(home / "review" / "keys" / f"{group}.json") for group in ("ana", "ben")]
    assert main(["review", "check", *files, "--keys", *keys]) == 0
    assert main(["review", "merge", *files, "--keys", *keys, "--out", "labels.jsonl"]) == 0
    assert f"{2 * (len(reviewed) + calibration) - 1} labels, 1 skipped" in capsys.readouterr().out
    snakemake(tmp_path, "all", "--config", *given, "audit={labels: [labels.jsonl]}", config=EXAMPLE)
    whole = next(row for row in table("audit_verdicts") if row["benchmark"] == "All")
    assert int(whole["n"]) == analysed and sum(int(whole[verdict]) for verdict in ("gf", "efn", "broken", "unclear")) == analysed
    raters = {row["raters"] for row in table("agreement")}
    assert "ana × ben" in raters and "rules × ana" in raters
    assert {row["reason"] for row in table("drops") if row["stage"] == "combine"} >= {"calibration", "skipped"}
    estimate = [row for row in table("audit_estimate") if row["benchmark"] == "All"]
    assert {"final labels, all rows", "two-phase"} <= {row["estimator"] for row in estimate}
    scores = table("corrected_scores")
    assert scores and all(float(row["corrected_low"]) <= float(row["corrected"]) <= float(row["corrected_high"]) for row in scores)
    assert {row["grounds"] for row in table("suspects")} & {"people", "one rater"}
