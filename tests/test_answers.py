"""The table of what became of every request, from a service that fails in every way to the count."""

import json
from pathlib import Path

import pytest
from test_infer import GOOD, asked, command, fault, reply, serve, settings_for, t3, write_probes

from evoaudit import store
from evoaudit.__main__ import main
from evoaudit.tables import answers, ledger
from evoaudit.tables.inputs import Folders, Run
from evoaudit.tables.panel import Panel

__all__ = ["serve"]

WRONG = '{"answer": "B"}'
#: Name → (how often, reply); ``cut`` is cut at the lower bound alone.
KINDS = {
    "right": (5, (200, {}, reply(GOOD))),
    "wrong": (3, (200, {}, reply(WRONG))),
    "words": (2, (200, {}, reply("I cannot tell"))),
    "cut": (2, None),
    "always": (1, (200, {}, reply(GOOD, "length"))),
    "refused": (2, (200, {}, reply(GOOD, refusal="no"))),
    "filter": (1, (200, {}, reply(GOOD, "content_filter"))),
    "empty": (1, (200, {}, reply(""))),
    "long": (1, (400, {}, fault("context_length_exceeded"))),
    "bad": (1, (400, {}, fault("x"))),
    "down": (1, (500, {}, fault(None))),
    "throttled": (1, (429, {"Retry-After": "0.01"}, fault("rate_limit_exceeded"))),
}


@pytest.fixture
def ran(serve, tmp_path) -> Run:
    def answer(body: dict, n: int) -> tuple:
        kind = asked(body).split("-")[1]
        if kind == "cut":
            return 200, {}, reply(GOOD, "length" if body["max_tokens"] == 50 else "stop")
        return KINDS[kind][1]

    names = [f"i-{kind}-{n}" for kind, (often, _) in KINDS.items() for n in range(often)]
    mined = write_probes(tmp_path / "mined", t3(*names))
    (tmp_path / "prices.yaml").write_text("models: {org/model: {input: 1, cached_input: 0.5, output: 10, date: 2026-01-02, source: x}}")
    settings = settings_for(serve(answer), condition="metadata", retries=1, tolerate=0.5, concurrency=1)
    assert main(command(settings, mined, tmp_path / "infer", "--prices", str(tmp_path / "prices.yaml"))) == 0
    assert main(["score", "--mined", str(mined), "--predictions", str(tmp_path / "infer"), "--out", str(tmp_path / "score")]) == 0
    folders = Folders(mined=Path(mined).parent, scores=tmp_path / "score", predictions=(tmp_path / "infer",))
    return Run(folders, {"models": [{"name": "m", "group": "open", "provider": "openai"}]})


def test_every_way_to_fail_is_counted_apart_and_none_is_a_wrong_answer(ran):
    (row,) = answers.answers(Panel(ran))
    assert {name: row[name] for name in row if name.startswith("n_")} == {
        "n_asked": 21,
        "n_answered": 10,
        "n_invalid": 2,
        "n_unanswered": 9,
        "n_refused": 2,
        "n_content_filter": 1,
        "n_truncated": 1,
        "n_empty": 1,
        "n_context_overflow": 1,
        "n_fault": 3,
        "n_not_sent": 0,
    }
    # Right: 5 and the 2 that were cut first. Of 12 answers; of 21 asked; of 21 with the 9 without an answer.
    assert [row[name] for name in ("accuracy", "accuracy_worst", "accuracy_best")] == pytest.approx(
        [100 * 7 / 12, 100 * 7 / 21, 100 * 16 / 21]
    )
    assert row["limit_hit_share"] == pytest.approx(100 * 3 / 21)
    assert (row["group"], row["task"], row["condition"]) == ("Open-weight models", "T3", "metadata")


def test_cost_is_that_of_all_calls_with_each_kind_of_token_apart(ran):
    (row,) = ledger.cost(ran)
    # 17 requests were answered with usage, three of them twice: 1,000 tokens in, of which 400 cached, and 10 out.
    assert (row["requests"], row["input_tokens"], row["cached_tokens"], row["output_tokens"]) == (21, 20_000, 8_000, 200)
    assert row["reasoning_tokens"] is None and row["reused"] == 0
    assert row["usd"] == pytest.approx(20 * 900e-6)


def test_the_bounds_of_a_model_that_answered_nothing_are_nought_and_all(ran, tmp_path):
    rows = store.read_rows(ran.folders.scores, "scores")
    for row in rows:
        row |= {"status": "unanswered", "parse_path": "none", "answer": None, "correct": False}
    (tmp_path / "none").mkdir()
    store.write_table(tmp_path / "none", "scores", rows)
    (row,) = answers.answers(Panel(Run(Folders(mined=ran.folders.mined, scores=tmp_path / "none"), ran.settings)))
    assert (row["accuracy"], row["accuracy_worst"], row["accuracy_best"], row["n_refused"]) == (None, 0.0, 100.0, None)
    assert json.dumps(row)
