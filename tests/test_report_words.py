"""What the report says follows the data: where numbers come from, how little they rest on, and what was not looked at."""

import json
import re
from pathlib import Path

import made_site
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_site import MODELS
from test_report import build, read
from test_report_site import section, text

from evoaudit import store
from evoaudit.report import board, cases, distrust, drops, load, models, page, summary, tables
from evoaudit.report.load import Column, Table
from evoaudit.report.slugs import slugs


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> tuple[list[str], Path]:
    root = tmp_path_factory.mktemp("words")
    arguments = made_site.run(root)
    build(arguments, root / "report")
    return arguments, root / "report"


def table(name: str, rows: list[dict], empty: str = "", note: str = "A note.") -> Table:
    columns = tuple(Column(column, column.replace("_", " ")) for column in (rows[0] if rows else ()))
    return Table(name, f"Title of {name}", "", note, empty, columns, tuple(rows), len(rows), "n/a")


def write(folder: Path, name: str, rows: list[dict]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")


def source(root: Path, name: str, trajectories: int, simulated: bool, **others: int) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    counts = {"unit": "trajectory", "read": trajectories, "kept": trajectories, "dropped": {}}
    counts["others"] = {unit: {"read": n, "kept": n, "dropped": {}} for unit, n in others.items()}
    config = {"source": name, "simulated": simulated}
    store.write_manifest(folder, stage="normalise", key="k", format_version=1, seed=1, config=config, upstream={}, counts=counts)
    return folder


def test_a_source_without_trajectories_is_no_source_of_them(tmp_path):
    folders = (source(tmp_path, "web", 3, False), source(tmp_path, "notes", 0, False, row=5))
    found = summary.Summary()
    summary._what_ran(found, load.Inputs(stats=tmp_path, normalised=folders), 7, "demo")
    assert found.ran == [
        "Run demo with seed 7 read 3 trajectories from 1 source: 3 kept, 0 left out.",
        "All are logs of real runs, as given.",
        "notes gave annotations or other records, and no trajectory.",
    ]
    assert found.totals["sources"] == 1
    simulated = summary.Summary()
    summary._what_ran(simulated, load.Inputs(stats=tmp_path, normalised=(*folders, source(tmp_path, "made", 2, True))), 7, "demo")
    assert "from 2 sources" in simulated.ran[0] and not any("real" in said for said in simulated.ran)
    ingest = [
        {"source": name, "stage": "normalise", "unit": unit, "read": 3, "kept": 3}
        for name, unit in (("web", "trajectory"), ("notes", "row"))
    ]
    kinds = [one.kind for one in page._sources(load.Inputs(stats=tmp_path, normalised=folders), {"ingest": table("ingest", ingest)})]
    assert kinds == ["logs of real runs, as given", "annotations of real runs, as given"]


def test_where_questions_are_from_and_which_are_not_counted_is_said(tmp_path):
    write(tmp_path / "mined", "t1", [{"trajectory_id": f"web:{n % 2}", "source": "web"} for n in range(5)])
    write(tmp_path / "mined", "t3", [{"trajectory_id": "web:7", "source": "web"}])
    sets = [("desktop", 3), ("desktop", 4), ("mobile", 1)]
    write(tmp_path, "split_sets", [{"set": name, "count": n} for name, n in sets])
    found = summary.Summary()
    summary._questions(found, load.Inputs(stats=tmp_path, mined=tmp_path / "mined"), {})
    assert found.ran == [
        "Questions were cut from only 3 trajectories of web: 5 questions of T1, 0 questions of T2 and 1 question of T3.",
        "Beside these, sets of their own hold 8 questions (desktop 7 and mobile 1); they can be browsed too, and no score on this page "
        "includes them.",
    ]
    many = [{"trajectory_id": f"{'ab'[n % 2]}:{n}", "source": "ab"[n % 2]} for n in range(40)]
    write(tmp_path / "mined", "t1", many)
    assert summary._origin(load.Inputs(stats=tmp_path, mined=tmp_path / "mined")) == "Questions were cut from 41 trajectories of 3 sources"


@pytest.mark.parametrize(("n", "said"), [(None, ""), (30, ""), (29, "only 29 trajectories"), (1, "only 1 trajectory, too few")])
def test_few_trajectories_are_said_beside_the_interval(n, said):
    assert board.few(n).startswith(said) and bool(board.few(n)) == bool(said)
    row = {"model": "a", "evogain": 40.0, "cluster_low": 37.0, "cluster_high": 43.0, "clusters": n}
    assert (f"37.0 to 43.0; {said}" in summary._leading([row])) == bool(said)
    assert (said.capitalize() in board.warned("Note.", [row, {}]) and board.warned("Note.", [row]) != "Note.") == bool(said)


def test_models_and_baselines_are_counted_apart(site):
    said = text(section(read(site[1]), "summary"))
    assert "28 models and 2 baselines answered them" in said and "models28 baselines2" in said
    assert "Listed first: 28 models and 2 baselines;" in text(section(read(site[1]), "leaderboard"))
    assert [board.counted(*n) for n in ((1, 0), (0, 3), (0, 0), (2, 1))] == [
        "1 model",
        "3 baselines",
        "0 models",
        "2 models and 1 baseline",
    ]


def test_the_leader_leads_to_its_page_and_the_rule_is_the_difference(site):
    html = read(site[1])
    href = f'<a href="models/{slugs(MODELS)[MODELS[0]]}.html"><bdi>'
    assert href in section(html, "summary") and "<script>alert" not in section(html, "summary")
    leaders = section(html, "leaderboard")
    assert "may be equally good" not in leaders and 'href="models.html#t-pairwise_models"' in leaders


def test_the_second_is_told_from_the_side_of_the_leader():
    first, second = {"model": "a"}, {"model": "b"}
    said = "It is 3.9 points ahead of the second, b (interval of the difference: 0.9 to 7.0)."
    assert summary._ahead(first, second, [{"model_a": "a", "model_b": "b", "difference": 3.9, "low": 0.9, "high": 7.0}]) == said
    assert summary._ahead(first, second, [{"model_a": "b", "model_b": "a", "difference": -3.9, "low": -7.0, "high": -0.9}]) == said
    assert summary._ahead(first, second, [{"model_a": "a", "model_b": "b", "difference": 3.9, "low": None, "high": None}]) == ""


def test_the_interval_beside_evogain_is_that_of_trajectories_on_every_page(site):
    row = next(
        row for row in re.findall(r"<tr>.*?</tr>", section(read(site[1], "models.html"), "leaderboard"), re.DOTALL) if ">model-00<" in row
    )
    gain = 60.0 - 1.5 * MODELS.index("model-00")
    assert f"{gain:.1f} {gain - 4:.1f} to {gain + 4:.1f}" in text(row) and f"{gain - 2:.1f} to {gain + 2:.1f}" in text(row)
    html = read(site[1], "models.html")
    assert "items interval" in html and "resamples whole trajectories" in text(section(html, "leaderboard"))
    front = next(row for row in re.findall(r"<tr [^>]*data-name.*?</tr>", read(site[1])) if ">model-00<" in row)
    assert f"{gain:.1f} {gain - 4:.1f} to {gain + 4:.1f}" in text(front)


def test_what_is_not_in_the_audit_is_no_record_left_out(tmp_path):
    rows = [
        {"stage": stage, "source": "(all)", "unit": "trajectory", "reason": reason, "n": n}
        for stage, reason, n in (("sample", "unscored", 59), ("normalise", "bad_json", 2))
    ]
    given = load.Inputs(stats=tmp_path)
    front = page._front(given, {"drops": table("drops", rows)}, [], summary.Summary(), [])
    assert front["reasons"] == [("bad json", "the text is not JSON", "trajectory", "(all)", 2)] and front["n_reasons"] == 1
    assert front["unaudited"] == [("unscored", "the log holds no verdict", "trajectory", "(all)", 59)]
    assert drops.meaning("picture_lfs_pointer", "transition").startswith("one of its pictures: an incomplete git-lfs download")
    assert drops.meaning("nobody_explained_this", None) == ""


def test_doubted_verdicts_say_whether_a_final_label_upholds_them(tmp_path):
    rows = [
        {"grounds": "one rater", "label": label, "benchmark": "b", "trajectory_id": f"t{n}", "rule": "majority of raters", "steps": None}
        for n, label in enumerate(("genuine failure", None, None))
    ]
    rows += [{**rows[0], "grounds": "unclear", "label": "unclear", "rule": rule} for rule in ("a tie", "judges agree")]
    write(tmp_path, "suspects", rows)
    found = {kind.title: kind for kind in distrust.kinds(load.Inputs(stats=tmp_path))}
    assert found["Doubted by some raters"].grounds == "1 upheld by the final label and 2 without a final label yet."
    unclear = found["Cannot be settled from the evidence"]
    assert (unclear.n, unclear.grounds) == (2, "1 tie among them.")


def test_why_nothing_was_audited_stands_on_the_front_page(tmp_path):
    given = load.Inputs(stats=tmp_path)
    why = "These logs carry no scored verdict (0 of 59 trajectories), so none could be audited."
    found = summary.Summary(totals={"sources": 1})
    summary._wrong(found, {"audit_verdicts": table("audit_verdicts", [], why)}, [])
    assert found.sentences == [why]
    assert page._front(given, {"audit_verdicts": table("audit_verdicts", [], why)}, [], found, [])["why_unaudited"] == why


def test_empty_tables_are_one_line_by_reason():
    tables = [
        table("cost", [], "Nothing was asked."),
        table("drops", [{"n": 1}]),
        table("timing", [], "No times."),
        table("split", [], "No times."),
    ]
    (part,) = [part for part in page.parts({one.name: one for one in tables}, [], "models", 9, set(), {}) if part.gaps]
    assert part.gaps == (page.Gap((("t-cost", "Title of cost"),), "Nothing was asked."),) and not part.tables
    assert [gap.names for gap in page._gaps(tables, [])] == [
        (("t-cost", "Title of cost"),),
        (("t-timing", "Title of timing"), ("t-split", "Title of split")),
    ]


def test_a_model_without_a_cost_says_why(tmp_path):
    config = {"models": [{"name": "made", "provider": "builtin", "group": "open"}, {"name": "paid", "provider": "openai", "group": "open"}]}
    tmp_path.joinpath("manifest.json").write_text(json.dumps({"config": config}), encoding="utf-8")
    found = models.Models(load.Inputs(stats=tmp_path), {}, 7, items=False, limit=5)
    bare = [{"requests": 30, "usd": None, "input_tokens": None, "output_tokens": None}]
    assert models._free(found, "made", bare) == "No cost: it is built in, and none of its 30 requests went to a service."
    assert models._free(found, "paid", bare).startswith("No cost is known")
    assert models._free(found, "paid", [{**bare[0], "usd": 0.5}]) == "" and models._free(found, "made", []) == ""


def test_the_front_page_says_what_it_is_about_and_names_the_papers(site):
    html = read(site[1])
    for word in ("An agent is", "a trajectory is", "a verdict is"):
        assert word in html
    assert html.count('href="#papers"') == 2 and html.count('<dt id="papers">') == 1


def test_a_hidden_column_that_alone_tells_rows_apart_is_shown():
    columns = (Column("model", "model"), Column("n", "n", decimals=0))
    columns += (*(Column(name, name, decimals=0, extra=True) for name in ("side", "seconds")), Column("served", "served", extra=True))
    rows = tuple({"model": model, "n": 5, "side": side, "seconds": side, "served": "x"} for model in "ab" for side in (512, 1024))
    shown = tables.view(Table("t", "t", "", "", "", columns, rows, 4, "none"), 10)
    assert [head.name for head in shown.heads if not head.classes or "extra" not in head.classes] == ["model", "n", "side"]
    assert shown.extras == 2
    one_size = tuple(row for row in rows if row["side"] == 512)
    assert tables.view(Table("t", "t", "", "", "", columns, one_size, 2, "none"), 10).extras == 3


def test_why_a_verdict_is_doubted_stands_before_where():
    names = ("grounds", "benchmark", "task_id", "page", "released", "label", "why", "steps", "agent")
    found = Table("suspects", "t", "", "", "", tuple(Column(name, name) for name in names), (dict.fromkeys(names, "x"),), 1, "none")
    shown = [head.name for head in tables.view(found, 10).heads]
    assert shown == ["grounds", "why", "released", "label", "page", "steps", "benchmark", "task_id", "agent"]


def judged(annotator: str, kind: str, evidence: str = "screenshots+text", status: str = "ok") -> dict:
    return {"annotator": annotator, "kind": kind, "evidence": evidence, "status": status}


def test_labels_that_do_not_count_say_why():
    given = [judged("llm", "llm"), judged("llm", "llm", "text"), judged("other", "llm"), judged("both", "ensemble"), judged("p", "human")]
    told = cases._apart({"reviewed": False, "n_raters": 2}, given)
    assert {place: words.partition(": ")[2].split()[0] for place, words in told.items()} == {1: "asked", 3: "speaks", 4: "outside"}
    assert list(cases._apart({"reviewed": True, "n_raters": 3}, given)) == [1, 3]
    # What does not add up is not explained.
    assert cases._apart({"reviewed": False, "n_raters": 4}, given) == {} == cases._apart(None, given)


def test_replays_lead_to_one_another_and_to_the_report(site):
    _, folder = site
    found = sorted((folder / "trajectories").glob("*.html"))
    assert len(found) > 1
    follows = {}
    for path in found:
        html = path.read_text(encoding="utf-8")
        assert '<a href="../audit.html">' in html
        follows[path.name] = re.findall(r'<a href="([^"/]+)" rel="next">', html)
    ends = [name for name, after in follows.items() if not after]
    assert len(ends) == 1 and sorted(name for after in follows.values() for name in after) == sorted(set(follows) - {first_of(follows)})


def first_of(follows: dict[str, list[str]]) -> str:
    """Return the replay that none leads on to."""
    (first,) = set(follows) - {name for after in follows.values() for name in after}
    return first
