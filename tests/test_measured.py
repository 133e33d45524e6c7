"""What logs do not hold: dollars, seconds and critical windows, as somebody measured them."""

import json

import made_run
import pytest
from made_run import one, rows

from evoaudit import config as configs
from evoaudit import measured, plan, store
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.measured import Measured
from evoaudit.tables.ledger import frontier


@pytest.mark.parametrize(
    ("opportunities", "taken", "slack"), [(4, 1, 1.0), (4, 4, 0.25), (4, 3, 0.5), (4, None, 0.0), (1, 1, 1.0), (None, None, None)]
)
def test_slack_is_what_the_paper_defines(opportunities, taken, slack):
    assert Measured(opportunities=opportunities, taken=taken).slack == slack


@pytest.mark.parametrize(
    ("points", "best"),
    [
        ([(1, 50), (2, 60), (2, 40), (3, 60)], [True, True, False, False]),
        ([(1, 50), (1, 50)], [True, True]),  # equals do not beat each other
        ([(0, 0)], [True]),
        ([], []),
    ],
)
def test_the_frontier_holds_what_nothing_cheaper_beats(points, best):
    assert frontier(points) == best


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Statistics of a simulated audit with measurements of three attempts and of one that is not there."""
    root = tmp_path_factory.mktemp("run")
    arguments = made_run.simulated_audit(root)
    ids = {(row["benchmark"], row["agent"]): [] for row in store.read_rows(root / "sim", "trajectories")}
    for row in store.read_rows(root / "sim", "trajectories"):
        ids[row["benchmark"], row["agent"]].append(row["trajectory_id"])
    mine, other = ids["sim-shop", "agent-a"], ids["sim-shop", "agent-b"]
    lines = ["trajectory_id,usd,seconds,window_opportunities,window_taken"]
    lines += [f"{mine[0]},0.5,1000,4,2", f"{mine[1]},1.5,,4,", f"{other[0]},0.25,,,", "gone,9,9,9,9"]
    (root / "measured.csv").write_text("\n".join(lines) + "\n")
    assert main([*made_run.command(arguments, root / "stats"), "--measured", str(root / "measured.csv")]) == 0
    return root / "stats", root, mine, other


def test_slack_and_times_come_from_the_file(run):
    found = one(rows(run[0], "timing"), benchmark="sim-shop", agent="agent-a")
    # (4 - 2 + 1) / 4 and a miss.
    assert found["window_slack"] == pytest.approx((0.75 + 0) / 2) and (found["n_windows"], found["n_window_missed"]) == (2, 1)
    assert 0 <= found["window_slack_low"] <= found["window_slack"] <= found["window_slack_high"] <= 0.75
    assert found["deadline_miss_low"] < found["deadline_miss"] < found["deadline_miss_high"]
    assert one(rows(run[0], "timing"), benchmark="sim-shop", agent="agent-b")["window_slack"] is None


def test_dollars_an_attempt_and_a_verified_success(run):
    stats, root, mine, _ = run
    final = {row["trajectory_id"]: row["verdict"] for row in store.read_rows(root / "final", "final")}
    released = {row["trajectory_id"]: row["verdict"] for row in store.read_rows(root / "sim", "oracle_results")}
    good = sum(final.get(name) == "efn" or released[name] == "pass" for name in mine[:2])
    found = one(rows(stats, "agent_cost"), benchmark="sim-shop", agent="agent-a")
    assert (found["n"], found["n_attempts"], found["usd_per_attempt"], found["successes"]) == (2, 20, 1.0, good)
    assert found["usd_per_verified_success"] == (2.0 / good if good else None)


def test_what_was_measured_of_no_attempt_is_counted(run):
    counts = store.read_manifest(run[0])["counts"]["others"]["measurement"]
    assert counts == {"read": 4, "kept": 3, "dropped": {"unknown_trajectory": 1}}


def test_without_measurements_the_tables_say_what_is_missing(tmp_path):
    assert main(made_run.command(made_run.audit(tmp_path), tmp_path / "stats")) == 0
    told = {meta["name"]: meta["empty"] for meta in json.loads((tmp_path / "stats" / "tables.json").read_text())}
    assert "stats.measured" in told["timing"] and "stats.measured" in told["agent_cost"]


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("usd\n1\n", ":1", "trajectory_id"),
        ("trajectory_id,cost\nt,1\n", ":1", "cost"),
        ("trajectory_id,usd,usd\nt,1,1\n", ":1", "twice"),
        ("trajectory_id,usd\nt,1\nt,1\n", ":3", "again"),
        ("trajectory_id,usd\n,1\n", ":2", "missing"),
        ("trajectory_id,usd\nt\n", ":2", "cells"),
        ("trajectory_id,usd\nt,-1\n", ":2", "usd"),
        ("trajectory_id,usd\nt,inf\n", ":2", "usd"),
        ("trajectory_id,seconds\nt,soon\n", ":2", "seconds"),
        ("trajectory_id,window_opportunities\nt,0\n", ":2", "window_opportunities"),
        ("trajectory_id,window_opportunities,window_taken\nt,3,4\n", ":2", "window_taken"),
        ("trajectory_id,window_taken\nt,1\n", ":2", "window_taken"),
        ('trajectory_id\n"t\n', ":2", "CSV"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(text, where, what, tmp_path):
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        measured.read(path)
    assert f"m.csv{where}" in str(error.value) and what in str(error.value)


def test_a_measured_file_changes_the_statistics_alone_and_only_by_its_content(tmp_path):
    tree = {"sources": [{"name": "sim", "kind": "simulated", "trajectories": 8}]}

    def keys(**stats):
        return {job.stage: job.key for job in plan.build(configs.check({**tree, "stats": stats}), tmp_path).jobs}

    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("trajectory_id,usd\nt,1\n")
    plain, one_, other = keys(), keys(measured=str(tmp_path / "a.csv")), keys(measured=str(tmp_path / "b.csv"))
    assert one_ == other and {stage for stage in plain if plain[stage] != one_[stage]} == {"stats", "tables", "figures", "report", "export"}
    assert keys(deadline_s=300) == plain != keys(deadline_s=60)


def test_agents_are_drawn_over_their_cost_and_named(run, tmp_path):
    assert main(["figures", "--stats", str(run[0] / "manifest.json"), "--out", str(tmp_path / "figures")]) == 0
    told = {entry["name"]: entry["empty"] for entry in json.loads((tmp_path / "figures" / "figures.json").read_text())}
    assert told["agent_frontier"] == ""
    assert (tmp_path / "figures" / "agent_frontier.svg").stat().st_size > 5000


def test_logs_that_say_what_an_attempt_cost_are_believed_unless_somebody_measured_it(tmp_path):
    lines = []
    for k, usd in enumerate((0.5, "0.25", 0, None, -1, 2.0)):
        given = {"trajectory_id": f"t-{k}", "benchmark": "b", "agent": "a", "task_id": str(k), "raw_reward": float(k == 0), "oracle": "o"}
        given |= {"steps": [{"action": "click"}]} | ({} if usd is None else {"usd": usd})
        lines.append(json.dumps(given) + "\n")
    root = tmp_path / "own"
    root.mkdir()
    (root / "trajectories.jsonl").write_text("".join(lines))
    about = {"source": "own", "kind": "plain", "options": {}}
    words = ["normalise", "--settings", json.dumps(about), "--root-folder", str(root), "--out", str(tmp_path / "n")]
    assert main(words) == 0
    logged = {row["trajectory_id"]: (row["usd"], row["field"]) for row in store.read_rows(tmp_path / "n", "costs")}
    assert logged == {"t-0": (0.5, "usd"), "t-1": (0.25, "usd"), "t-5": (2.0, "usd")}, "0 and less than 0 are no price"
    (tmp_path / "m.csv").write_text("trajectory_id,usd\nt-0,1\nt-3,0\n")
    words = ["stats", "--normalised", str(tmp_path / "n"), "--settings", '{"bootstrap": 20}', "--measured", str(tmp_path / "m.csv")]
    assert main([*words, "--out", str(tmp_path / "stats")]) == 0
    (found,) = rows(tmp_path / "stats", "agent_cost")
    # t-0 at 1 and t-3 at 0 as measured, t-1 and t-5 as logged; t-0 succeeded.
    assert (found["n"], found["n_attempts"], found["usd"], found["successes"]) == (4, 6, 3.25, 1)
    assert found["usd_per_attempt"] == 0.8125 and found["usd_per_verified_success"] == 3.25
    assert found["basis"] == "2 by stats.measured; 2 by usd"


def test_a_source_without_costs_has_no_table_of_them(run):
    assert not (run[1] / "sim" / "costs.parquet").exists()


def test_real_studies_say_what_their_agents_cost(real_logs, tmp_path):
    about = {"source": "gym", "kind": "browsergym", "options": {}}
    root = real_logs / "agentlab" / "tests" / "data" / "error_analysis"
    assert main(["normalise", "--settings", json.dumps(about), "--root-folder", str(root), "--out", str(tmp_path / "n")]) == 0
    found = store.read_rows(tmp_path / "n", "costs")
    clicks = [row for row in found if "click-dialog_28" in row["trajectory_id"] or "click-dialog" in row["trajectory_id"]]
    assert clicks and {row["field"] for row in found} == {"stats.cum_cost"}
    assert any(row["usd"] == pytest.approx(0.00027615) for row in clicks)  # its summary_info.json
