"""The audit with judges that are language models, as a user runs it: estimated, judged, tabled, shown, and run again for nothing."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from model_server import Answer, Call, ModelServer, Reply, good
from served import served
from test_llm_judges import words_of
from test_workflow import snakemake

from evoaudit import store
from evoaudit.__main__ import main
from evoaudit.resources import ROOT

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "config" / "examples" / "language_judges.yaml"


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], ModelServer]]:
    yield from served(monkeypatch, ModelServer)


def opinion(call: Call) -> Reply:
    """Say efn of some logs and gf of others; the second judge differs now and then, and so does each without pictures."""
    words = words_of(call)
    mark = re.search(r"of this log's blocks is ([0-9a-f]{16})", words)[1]
    roll = hashlib.sha256(
        f"{mark}{call.body['model'] if mark[0] in '0123' else ''}{'no pictures' in words and mark[1] in '0123'}".encode()
    ).digest()[0]
    said = {"verdict": "efn", "category": "none"} if roll < 100 else {"verdict": "gf", "category": "t3-noop"}
    return good(call.protocol, json.dumps({"rationale": "r", "evidence_steps": [0], "confidence": 0.5, **said}))


def test_judges_over_the_network_run_through_the_whole_workflow(serve, tmp_path, monkeypatch, capsys):
    server = serve(opinion)
    monkeypatch.chdir(tmp_path)
    prices = "{input: 1, output: 10, date: 2026-01-02, source: made up}"
    Path("prices.yaml").write_text(f"models: {{vendor/one: {prices}, vendor/two: {prices}}}")
    config = EXAMPLE.read_text().replace("http://127.0.0.1:30000/v1", server.url("chat")) + "inference: {prices: prices.yaml}\n"
    Path("small.yaml").write_text(config)
    assert main(["estimate", "--configfile", "small.yaml"]) == 0
    before = capsys.readouterr().out
    assert re.search(r"^one/screenshots\+text +11 ", before, re.MULTILINE) and "judges before the sample is drawn" in before

    snakemake(tmp_path, "sample", config=config)
    asked = len(server.calls)
    assert asked == 0
    snakemake(tmp_path, "tables", config=config)
    rows = {folder.name: store.read_rows(folder, "judgments") for folder in Path("results/judge").iterdir()}
    n = len(next(iter(rows.values())))
    assert len(server.calls) == 4 * n and len(rows) == 6
    tables = Path("results/runs/language-judges/tables")
    cost = store_csv(tables / "cost.csv")
    assert {row["model"]: row["requests"] for row in cost if row["stage"] == "judge"} == {"one": str(2 * n), "two": str(2 * n)}
    # 1,000 × $1 and 10 × $10 a million, twice a trajectory.
    assert {row["model"]: float(row["usd"]) for row in cost} == pytest.approx({"one": 2.2e-3 * n, "two": 2.2e-3 * n})
    ablation = store_csv(tables / "evidence_ablation.csv")
    assert {row["judge"] for row in ablation} == {"one", "two", "both", "one × two"}
    assert {row["raters"] for row in store_csv(tables / "agreement.csv")} == {"one × two"}
    final = store_csv(tables / "audit_verdicts.csv")
    assert all(row["simulated"] == "true" for row in final)

    # Finished, and nothing is asked again; the requests can be looked at.
    assert main(["estimate", "--configfile", "small.yaml"]) == 0
    assert capsys.readouterr().out.count("finished") == 4
    snakemake(tmp_path, "tables", config=config)
    assert len(server.calls) == 4 * n
    one = rows[next(iter(rows))][0]["trajectory_id"]
    assert main(["show", one, "--configfile", "small.yaml", "--model", "one", "--condition", "screenshots+text", "--pictures", "sent"]) == 0
    shown = capsys.readouterr().out
    assert (
        "CODEBOOK" in shown and "not the words that were sent" not in shown and '"rationale": "r"' in shown and "written to sent/" in shown
    )


def store_csv(path: Path) -> list[dict[str, str]]:
    import csv

    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
