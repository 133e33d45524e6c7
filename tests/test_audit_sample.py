"""The audit draw: quotas, strata, calibration, statuses, and that the order of rows never matters."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evoaudit.__main__ import main
from evoaudit.audit import sample
from evoaudit.store import read_manifest, read_rows, write_table

PAPER = {"webarena": 25, "workarena": 25, "visualwebarena": 24, "assistantbench": 24, "osworld": {"per_agent": 20}}


def trajectory(number, benchmark="webarena", agent="a", experiment="e", domain="shop", task=None, source="s"):
    task = f"t{number}" if task is None else task
    return {
        "trajectory_id": f"{source}:{benchmark}/{agent}/{experiment}/{number}",
        "source": source,
        "benchmark": benchmark,
        "task_id": task,
        "task_revision": None,
        "agent": agent,
        "experiment": experiment,
        "domain": domain,
        "simulated": False,
    }


def oracle(row, reward=0.0, verdict="fail", status="ok", name="string match"):
    return {
        "trajectory_id": row["trajectory_id"],
        "oracle": name,
        "oracle_version": None,
        "raw_reward": reward,
        "verdict": verdict,
        "status": status,
    }


def draw(rows, rewards=None, *, quotas=None, calibration=0, seed=7, verdicts=("fail",)):
    rewards = rewards or {}
    oracles = {row["trajectory_id"]: rewards.get(row["trajectory_id"], [oracle(row)]) for row in rows}
    return sample.draw(sample.candidates(rows, oracles), seed=seed, verdicts=list(verdicts), quotas=quotas or {}, calibration=calibration)


def statuses(drawn):
    return Counter(one.status for one in drawn.candidates)


def paper_corpus():
    rows = []
    for benchmark, agents in (("webarena", 4), ("workarena", 4), ("visualwebarena", 3), ("assistantbench", 4)):
        rows += [trajectory(i, benchmark, f"agent-{a}", f"exp-{a}") for a in range(agents) for i in range(30)]
    rows += [
        trajectory(i, "osworld", f"run-{a}", "pyautogui", ("chrome", "gimp", "os", "vlc")[i % 4], source="o")
        for a in range(3)
        for i in range(60)
    ]
    return rows


def test_the_papers_quotas_give_158_of_which_8_calibrate():
    drawn = draw(paper_corpus(), quotas=PAPER, calibration=8)
    assert statuses(drawn)["analysed"] == 150 and statuses(drawn)["calibration"] == 8
    analysed = Counter(one.row["benchmark"] for one in drawn.candidates if one.status == "analysed")
    assert analysed == {"osworld": 57, "webarena": 23, "workarena": 24, "visualwebarena": 23, "assistantbench": 23}
    runs = Counter(one.row["agent"] for one in drawn.candidates if one.status == "analysed" and one.row["benchmark"] == "osworld")
    assert runs == {"run-0": 19, "run-1": 19, "run-2": 19}
    agents = Counter(one.row["agent"] for one in drawn.candidates if one.status == "calibration" and one.row["benchmark"] != "osworld")
    assert max(agents.values()) <= 2 and len(agents) == 4


def test_agents_take_turns():
    drawn = draw(paper_corpus(), quotas={"webarena": 25})
    agents = Counter(one.row["agent"] for one in drawn.candidates if one.status == "analysed")
    assert sorted(agents.values()) == [6, 6, 6, 7]


def test_domains_take_turns_within_a_run():
    rows = [trajectory(i, "osworld", "run", "x", "chrome" if i < 50 else ("gimp", "vlc")[i % 2]) for i in range(60)]
    drawn = draw(rows, quotas={"osworld": {"per_agent": 9}})
    assert Counter(one.row["domain"] for one in drawn.candidates if one.status == "analysed") == {"chrome": 3, "gimp": 3, "vlc": 3}


def test_two_experiments_of_one_agent_are_two_runs():
    rows = [trajectory(i, "osworld", "run", experiment) for experiment in ("15 steps", "50 steps") for i in range(10)]
    drawn = draw(rows, quotas={"osworld": {"per_agent": 4}}, calibration=2)
    assert Counter((one.row["experiment"], one.status) for one in drawn.candidates if one.status != "not_drawn") == {
        ("15 steps", "analysed"): 3,
        ("50 steps", "analysed"): 3,
        ("15 steps", "calibration"): 1,
        ("50 steps", "calibration"): 1,
    }


def test_strata_are_interleaved_before_the_filter_on_the_reward():
    # Agent b fails once in three; taking turns over all tuples, it yields about a third of what agent a yields.
    rows = [trajectory(i, agent=agent) for agent in "ab" for i in range(60)]
    rewards = {row["trajectory_id"]: [oracle(row, 1.0, "pass")] for row in rows if row["agent"] == "b" and int(row["task_id"][1:]) % 3}
    agents = Counter(one.row["agent"] for one in draw(rows, rewards, quotas={"webarena": 40}).candidates if one.status == "analysed")
    assert agents["a"] > 1.8 * agents["b"]


def test_only_a_reward_of_zero_is_a_failure():
    rows = [trajectory(i) for i in range(8)]
    ids = [row["trajectory_id"] for row in rows]
    rewards = {
        ids[0]: [oracle(rows[0], 0.0)],
        ids[1]: [oracle(rows[1], 0.1)],
        ids[2]: [oracle(rows[2], 1.0, "pass")],
        ids[3]: [oracle(rows[3], 0.0, "error", "crashed")],
        ids[4]: [oracle(rows[4], None, "unscored", "no result")],
        ids[5]: [],
        ids[6]: [oracle(rows[6], None)],
        ids[7]: [oracle(rows[7]), oracle(rows[7], 1.0, "pass", name="judge")],
    }
    found = {one.row["task_id"]: one.status for one in draw(rows, rewards).candidates}
    assert found == {
        "t0": "analysed",
        "t1": "nonzero_reward",
        "t2": "nonzero_reward",
        "t3": "evaluator_error",
        "t4": "unscored",
        "t5": "unscored",
        "t6": "analysed",
        "t7": "oracles_disagree",
    }


def test_passes_are_audited_by_the_same_machinery():
    rows = [trajectory(i) for i in range(20)]
    rewards = {row["trajectory_id"]: [oracle(row, 1.0, "pass")] for row in rows[:10]}
    drawn = draw(rows, rewards, quotas={"webarena": 4}, verdicts=("fail", "pass"))
    assert Counter(one.verdict for one in drawn.candidates if one.status == "analysed") == {"fail": 4, "pass": 4}
    assert [(entry["verdict"], entry["available"], entry["taken"]) for entry in drawn.quotas] == [("fail", 10, 4), ("pass", 10, 4)]


def test_one_of_each_tuple_is_considered_and_preferably_one_with_a_verdict():
    rows = [trajectory(0, task="same"), trajectory(1, task="same"), trajectory(2, task="same", agent="b"), trajectory(3, task="")]
    drawn = draw(rows, {rows[0]["trajectory_id"]: [oracle(rows[0], 0.0, "error", "crashed")]})
    assert {one.row["trajectory_id"][-1]: one.status for one in drawn.candidates} == {
        "0": "duplicate_tuple",
        "1": "analysed",
        "2": "analysed",
        "3": "analysed",
    }


def test_revisions_of_a_task_are_different_tuples():
    rows = [trajectory(i, task="same") | {"task_revision": str(i)} for i in range(2)]
    assert statuses(draw(rows)) == {"analysed": 2}


def test_a_shortfall_is_reported():
    drawn = draw([trajectory(i) for i in range(3)], quotas={"webarena": 25, "gone": 5, "desk": {"per_agent": 2}})
    assert [(entry["benchmark"], entry["wanted"], entry["available"], entry["taken"]) for entry in drawn.quotas] == [
        ("webarena", 25, 3, 3),
        ("desk", 2, 0, 0),
        ("gone", 5, 0, 0),
    ]


def test_quotas_take_exact_names_only():
    drawn = draw([trajectory(0, "sim-webarena")], quotas={"webarena": 5})
    assert statuses(drawn) == {"benchmark_not_requested": 1}


def test_no_quota_takes_every_eligible_trajectory():
    assert statuses(draw(paper_corpus())) == {"analysed": 630}


def test_calibration_never_takes_more_than_half():
    assert statuses(draw([trajectory(i) for i in range(5)], calibration=8)) == {"analysed": 3, "calibration": 2}


def test_another_seed_draws_others():
    one, other = (
        {c.row["trajectory_id"] for c in draw(paper_corpus(), quotas=PAPER, seed=seed).candidates if c.status == "analysed"}
        for seed in (1, 2)
    )
    assert one != other


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
def test_the_order_of_rows_never_matters(shuffler: random.Random, seed):
    rows = paper_corpus()[::5]
    expected = [one.sample_row() for one in draw(rows, quotas=PAPER, calibration=4, seed=seed).candidates]
    shuffler.shuffle(rows)
    assert [one.sample_row() for one in draw(rows, quotas=PAPER, calibration=4, seed=seed).candidates] == expected


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 29))
def test_a_new_trajectory_moves_only_neighbours(number):
    rows = [trajectory(i, agent=agent) for agent in "abc" for i in range(30)]
    before = {one.row["trajectory_id"] for one in draw(rows, quotas={"webarena": 24}).candidates if one.status == "analysed"}
    after = {
        one.row["trajectory_id"]
        for one in draw([*rows, trajectory(100 + number, agent="a")], quotas={"webarena": 24}).candidates
        if one.status == "analysed"
    }
    assert len(before - after) <= 1


@pytest.fixture
def normalised(tmp_path):
    folder = tmp_path / "normalised"
    folder.mkdir()
    rows = [trajectory(i, agent=agent) for agent in "ab" for i in range(6)]
    write_table(folder, "trajectories", [{**row, "kind": "plain", "n_steps": 1, "source_file": "f", "source_sha256": "0"} for row in rows])
    write_table(folder, "oracle_results", [oracle(row, 0.0 if row["task_id"] != "t5" else 0.5) for row in rows])
    (folder / "manifest.json").write_text('{"files": {}}')
    return folder / "manifest.json"


def run(*words):
    return main([str(word) for word in words])


def test_the_stage_writes_every_considered_trajectory_and_its_quotas(normalised, tmp_path):
    out = tmp_path / "out"
    assert (
        run(
            "sample",
            "--normalised",
            normalised,
            "--seed",
            3,
            "--out",
            out,
            "--settings",
            json.dumps({"verdicts": ["fail"], "quotas": {"webarena": 4}, "calibration": 1}),
        )
        == 0
    )
    rows = read_rows(out, "sample")
    assert len(rows) == 12 and [row["trajectory_id"] for row in rows] == sorted(row["trajectory_id"] for row in rows)
    assert Counter(row["status"] for row in rows) == {"analysed": 3, "calibration": 1, "not_drawn": 6, "nonzero_reward": 2}
    assert sorted(row["order"] for row in rows) == list(range(12))
    counts = read_manifest(out)["counts"]
    assert counts["read"] == 12 and counts["kept"] == 4 and counts["dropped"] == {"nonzero_reward": 2, "not_drawn": 6}
    quotas = json.loads((out / "quotas.json").read_text())
    assert quotas["quotas"] == [{"verdict": "fail", "benchmark": "webarena", "wanted": 4, "available": 10, "taken": 4}]
    assert quotas["calibration"] == {"wanted": 1, "taken": 1}


def test_a_trajectory_in_two_sources_is_refused(normalised, tmp_path, capsys):
    assert run("sample", "--normalised", normalised, normalised, "--out", tmp_path / "out") == 2
    assert "is also in" in capsys.readouterr().err


@pytest.mark.parametrize(
    "bad", [{"quotas": {"webarena": -1}}, {"quotas": {"webarena": {"per_run": 3}}}, {"verdicts": ["maybe"]}, {"calibration": "8"}]
)
def test_wrong_settings_are_refused(bad, normalised, tmp_path):
    assert run("sample", "--normalised", normalised, "--out", tmp_path / "out", "--settings", json.dumps(bad)) == 2
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_all_rows_of_a_frame_are_the_sample(tmp_path):
    frame = tmp_path / "frame.csv"
    frame.write_bytes("\ufefftrajectory_id,benchmark,agent,task_id,raw_reward\r\nt-1,web,a,007,0\r\nt-2,web,a,8,\r\n".encode())
    assert run("sample", "--frame", frame, "--normalised", "--out", tmp_path / "out") == 0
    rows = read_rows(tmp_path / "out", "sample")
    assert [(row["trajectory_id"], row["task_id"], row["status"], row["verdict"], row["raw_reward"]) for row in rows] == [
        ("t-1", "007", "analysed", "fail", 0.0),
        ("t-2", "8", "analysed", "fail", None),
    ]


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("trajectory_id,benchmark,agent\nt,b,a\n", ":1", "task_id"),
        ("trajectory_id,benchmark,agent,task_id,oops\nt,b,a,1,2\n", ":1", "oops"),
        ("trajectory_id,benchmark,agent,task_id\nt,b,a,1\nt,b,a,2\n", ":3", "again"),
        ("trajectory_id,benchmark,agent,task_id\nt,b,a\n", ":2", "cells"),
        ("trajectory_id,benchmark,agent,task_id,raw_reward\nt,b,a,1,nan\n", ":2", "raw_reward"),
        ("trajectory_id,benchmark,agent,task_id\n,b,a,1\n", ":2", "missing"),
        ("trajectory_id,trajectory_id,benchmark,agent,task_id\nt,u,b,a,1\n", ":1", "twice"),
        ('trajectory_id,benchmark,agent,task_id\n"t,b,a,1\n', ":2", "CSV"),
    ],
)
def test_a_wrong_frame_is_refused_with_its_line(text, where, what, tmp_path, capsys):
    frame = tmp_path / "frame.csv"
    frame.write_text(text)
    assert run("sample", "--frame", frame, "--out", tmp_path / "out") == 2
    message = capsys.readouterr().err
    assert f"frame.csv{where}" in message and what in message


def test_a_frame_that_is_not_text_is_refused(tmp_path, capsys):
    frame = tmp_path / "frame.csv"
    frame.write_bytes(b"\xff\xfe\x00t")
    assert run("sample", "--frame", frame, "--out", tmp_path / "out") == 2
    assert "UTF-8" in capsys.readouterr().err


ARB = {
    "webarena": ("claude", "gpt-4o", "llama", "qwen"),
    "workarena": ("claude", "gpt-4o", "llama", "qwen"),
    "visualwebarena": ("claude", "gpt-4o", "qwen"),  # no text-only agent there
    "assistantbench": ("claude", "gpt-4o", "llama", "qwen"),
}
SEED = 20260717


def released_frame():
    """Return trajectories and verdicts in the shape of the released ones: 1,302 of the web, of each desktop run 361; some passed, crashed,
    were rewarded in part or stand there twice."""
    rows, rewards = [], {}
    sizes = {"webarena": 100, "workarena": 118, "visualwebarena": 100, "assistantbench": 33}
    for benchmark, agents in ARB.items():
        for agent in agents:
            for i in range(sizes[benchmark]):
                rows.append(trajectory(i, benchmark, agent, f"{agent}_on_{benchmark}", source="arb"))
    domains = ("chrome", "gimp", "libreoffice_calc", "multi_apps", "os", "thunderbird", "vlc", "vs_code")
    for run in ("run-1", "run-2", "run-3"):
        rows += [trajectory(i, "osworld", run, "pyautogui/screenshot", domains[i * i % 8], source="osw") for i in range(361)]
    rows += [{**row, "trajectory_id": row["trajectory_id"] + "-again"} for row in rows[:50]]
    kinds = random.Random(4)
    for row in rows:
        kind = kinds.choices(("fail", "pass", "part", "crash"), (60, 30, 5, 5))[0]
        given = {"fail": (0.0, "fail", "ok"), "pass": (1.0, "pass", "ok"), "part": (0.1, "fail", "ok"), "crash": (0.0, "error", "crashed")}
        rewards[row["trajectory_id"]] = [oracle(row, *given[kind])]
    return rows, rewards


def test_the_papers_protocol_to_the_letter():
    rows, rewards = released_frame()
    drawn = draw(rows, rewards, quotas=PAPER, calibration=8, seed=SEED)
    taken = [one for one in drawn.candidates if one.status in ("analysed", "calibration")]
    assert len(taken) == 158 and len({one.identity for one in taken}) == 158
    assert all(one.raw_reward == 0 and one.verdict == "fail" for one in taken)
    count = Counter((one.row["benchmark"], one.row["agent"] if one.row["benchmark"] == "osworld" else None) for one in taken)
    assert count == {
        ("webarena", None): 25,
        ("workarena", None): 25,
        ("visualwebarena", None): 24,
        ("assistantbench", None): 24,
        ("osworld", "run-1"): 20,
        ("osworld", "run-2"): 20,
        ("osworld", "run-3"): 20,
    }
    aside = [one for one in taken if one.status == "calibration"]
    assert Counter(one.row["agent"] for one in aside if one.row["benchmark"] == "osworld") == {"run-1": 1, "run-2": 1, "run-3": 1}
    web = [one for one in aside if one.row["benchmark"] != "osworld"]
    assert len(web) == 5 and {one.row["benchmark"] for one in web} == set(ARB) and len({one.row["agent"] for one in web}) == 4
    analysed = Counter(one.row["benchmark"] for one in taken if one.status == "analysed")
    assert sum(analysed.values()) == 150 and analysed["osworld"] == 57


def test_strata_take_turns_whatever_the_verdicts():
    rows, rewards = released_frame()
    drawn = draw(rows, rewards, quotas=PAPER, calibration=8, seed=SEED)
    queues = {}
    for one in drawn.candidates:
        if one.order is not None:
            run = (one.row["agent"],) if one.row["benchmark"] == "osworld" else ()
            queues.setdefault((one.row["benchmark"], *run), []).append(one)
    assert len(queues) == 7
    for (benchmark, *_), members in queues.items():
        members.sort(key=lambda one: one.order)
        assert [one.order for one in members] == list(range(len(members)))
        stratum = "domain" if benchmark == "osworld" else "agent"
        left = Counter(one.row[stratum] for one in members)
        # Each turn takes one of every stratum that is not used up, in one and the same order.
        first = [one.row[stratum] for one in members[: len(left)]]
        assert len(set(first)) == len(left)
        expected = []
        while any(left.values()):
            turn = [name for name in first if left[name]]
            expected += turn
            left.subtract(turn)
        assert [one.row[stratum] for one in members] == expected
        # Every zero reward before the last one taken was taken, and none after it.
        zero = [one.status for one in members if one.verdict == "fail" and one.raw_reward == 0]
        quota = PAPER[benchmark]["per_agent"] if benchmark == "osworld" else PAPER[benchmark]
        assert all(status in ("analysed", "calibration") for status in zero[:quota]) and set(zero[quota:]) <= {"not_drawn"}


def test_every_considered_tuple_says_why_it_was_or_was_not_taken():
    rows, rewards = released_frame()
    drawn = draw(rows, rewards, quotas=PAPER, calibration=8, seed=SEED)
    found = {one.row["trajectory_id"]: one.status for one in drawn.candidates}
    assert found.keys() == rewards.keys() and len(found) == len(rows)
    crashed = {one for one, given in rewards.items() if given[0]["verdict"] == "error"}
    twice = {one for one, status in found.items() if status == "duplicate_tuple"}
    assert len(twice) == 50
    for one, status in found.items():
        reward = rewards[one][0]["raw_reward"]
        if one in twice:
            continue
        if one in crashed:
            assert status == "evaluator_error"
        elif reward:
            assert status == "nonzero_reward"
        else:
            assert status in ("analysed", "calibration", "not_drawn")


def test_passes_are_drawn_by_the_same_quotas_beside_the_failures():
    rows, rewards = released_frame()
    alone = draw(rows, rewards, quotas=PAPER, calibration=0, seed=SEED)
    both = draw(rows, rewards, quotas=PAPER, calibration=0, seed=SEED, verdicts=("fail", "pass"))
    taken = [one for one in both.candidates if one.status == "analysed"]
    assert Counter(one.verdict for one in taken) == {"fail": 158, "pass": 158}
    assert all(one.raw_reward == 1 for one in taken if one.verdict == "pass")
    failures = {one.row["trajectory_id"] for one in alone.candidates if one.status == "analysed"}
    assert failures == {one.row["trajectory_id"] for one in taken if one.verdict == "fail"}
