"""The planner of audits: against closed forms, published sizes and simulated designs."""

import math

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from evoaudit import config as configs
from evoaudit.__main__ import main
from evoaudit.stats.planning import Design
from evoaudit.store import write_table

Z = 1.959963984540054


@pytest.mark.parametrize("half", [0.02, 0.05, 0.075, 0.1])
def test_at_one_half_the_number_follows_from_wilsons_closed_form(half):
    # Around 1/2 the interval reaches z / (2 sqrt(n + z²)) to each side, so n = z² (1 / (4 h²) − 1).
    assert Design(0.5).needed(half) == math.ceil(Z * Z * (1 / (4 * half * half) - 1))


def test_a_finite_population_needs_fewer():
    # 380.3 independent draws; n of 1,000 count as n (1000 − 1) / (1000 − n): 380.3 · 1000 / (999 + 380.3) = 275.7.
    assert Design(0.5, 1000).needed(0.05) == 276
    assert Design(0.5, 10**6).needed(0.05) == 381


def test_the_papers_sample_gives_the_papers_interval():
    low, high = Design(23 / 150).interval(150)
    assert (round(100 * low, 1), round(100 * high, 1)) == (10.4, 22.0)


def test_attempts_at_one_task_count_by_their_design_effect():
    # Kish: three attempts alike by 0.5 make the variance 1 + 2 · 0.5 = 2 times as large.
    alone, three = Design(0.2), Design(0.2, attempts=3, alike=0.5)
    assert three.worth(400) == pytest.approx(alone.worth(200))
    assert three.needed(0.05) == pytest.approx(2 * alone.needed(0.05), abs=1)
    assert Design(0.2, attempts=3, alike=0).needed(0.05) == alone.needed(0.05)


def test_a_population_seen_whole_leaves_nothing_open():
    assert Design(0.15, 40).interval(40) == [0.15, 0.15]
    assert Design(0.15, 40).needed(0.001) == 40


def test_what_nobody_reviews_stays_open_however_many_are_drawn():
    design = Design(0.15, 200, disagree=0.5, reviewed=0.1, missed=0.1)
    low, high = design.interval(200)
    assert high - low > 0.05 and design.needed(0.02) is None


def test_the_variance_of_a_review_in_two_phases_is_that_of_simulated_ones():
    size, n, disagree, reviewed = 2000, 300, 0.4, 0.25
    rng = np.random.default_rng(3)
    differs = np.arange(size) < disagree * size
    wrong = np.where(differs, np.arange(size) % 10 < 3, np.arange(size) % 20 == 0)  # 30 % there, 5 % of the agreements
    rate, missed = wrong.mean(), wrong[~differs].mean()
    found = []
    for _ in range(4000):
        drawn = rng.choice(size, n, replace=False)
        agree = drawn[~differs[drawn]]
        seen = rng.choice(agree, round(reviewed * len(agree)), replace=False)
        found.append((wrong[drawn[differs[drawn]]].sum() + len(agree) * wrong[seen].mean()) / n)
    design = Design(rate, size, disagree=disagree, reviewed=reviewed, missed=missed)
    assert np.var(found) == pytest.approx(rate * (1 - rate) / design.worth(n), rel=0.08)


def test_people_review_the_disagreements_and_their_share_of_the_rest():
    # The paper's 150: 74 disagreements, 30 of the 76 others.
    design = Design(0.15, disagree=74 / 150, reviewed=30 / 76)
    assert design.reviews(150) == 104


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.01, 0.99),
    st.floats(0.01, 0.2),
    st.none() | st.integers(2, 5000),
    st.floats(1, 5),
    st.floats(0, 1),
)
def test_the_number_is_enough_and_one_less_is_not(rate, half, population, attempts, alike):
    design = Design(rate, population, attempts, alike)
    n = design.needed(half)
    assert n is not None
    low, high = design.interval(n)
    assert high - low <= 2 * half + 1e-9
    if n > 1:
        low, high = design.interval(n - 1)
        assert high - low > 2 * half - 1e-9


def plan(capsys, *words):
    code = main(["plan", *map(str, words)])
    return code, capsys.readouterr()


def test_the_command_says_how_many_to_audit(capsys):
    code, said = plan(capsys, "--rate", 50, "--half-width", 5, "--population", 1000)
    assert code == 0 and "276" in said.out and "45.0 to 55.0 %" in said.out


def test_benchmarks_share_the_number_and_their_quotas_can_be_pasted(capsys):
    code, said = plan(capsys, "--n", 150, "--benchmark", "webarena=600", "--benchmark", "osworld=300", "--calibration", 8)
    assert code == 0
    tree = yaml.safe_load(said.out.partition("\n\n")[2])
    checked = configs.check(tree).audit
    assert checked.quotas == {"webarena": 104, "osworld": 54} and checked.calibration == 8


def test_every_benchmark_by_itself_needs_more(capsys):
    sizes = ("--benchmark", "a=500", "--benchmark", "b=500", "--half-width", 5)
    _, together = plan(capsys, *sizes)
    _, each = plan(capsys, *sizes, "--each")
    n = [int(said.out.splitlines()[3].split()[2]) for said in (together, each)]
    assert n[1] == 2 * Design(0.15, 500).needed(0.05) > n[0] == Design(0.15, 1000).needed(0.05)


def test_a_sample_says_how_many_there_are(tmp_path, capsys):
    row = {"source": "s", "agent": "a", "experiment": None, "task_id": None, "domain": None, "raw_reward": 0.0, "verdict": "fail"}
    statuses = ["analysed"] * 3 + ["not_drawn"] * 4 + ["nonzero_reward"] * 5
    write_table(
        tmp_path,
        "sample",
        [
            {**row, "trajectory_id": f"t{n}", "benchmark": "web", "order": n, "status": status, "simulated": False}
            for n, status in enumerate(statuses)
        ],
    )
    (tmp_path / "manifest.json").write_text("{}")
    code, said = plan(capsys, "--half-width", 10, "--sample", tmp_path / "manifest.json")
    assert code == 0 and said.out.splitlines()[1].split()[:2] == ["web", "7"]


def test_what_cannot_be_reached_is_a_finding(capsys):
    words = ("--half-width", 2, "--population", 200, "--disagree", 49, "--agreements", 5, "--missed", 10)
    code, said = plan(capsys, *words)
    assert code == 1 and "never as narrow as wanted" in said.out


@pytest.mark.parametrize(
    "words",
    [
        ("--half-width", 0),
        ("--half-width", "nan"),
        ("--half-width", 5, "--rate", 0),
        ("--half-width", 5, "--rate", 100),
        ("--half-width", 5, "--confidence", 100),
        ("--half-width", 5, "--attempts", 0.5),
        ("--half-width", 5, "--alike", 2),
        ("--half-width", 5, "--population", 0),
        ("--half-width", 5, "--benchmark", "web"),
        ("--half-width", 5, "--benchmark", "web=1", "--benchmark", "web=2"),
        ("--half-width", 5, "--agreements", 20),
        ("--half-width", 5, "--disagree", 50),
        ("--half-width", 5, "--each"),
        ("--n", 0),
        ("--n", 10, "--each", "--benchmark", "web=100"),
        ("--half-width", 5, "--calibration", -1),
    ],
)
def test_bad_words_are_one_line(words, capsys):
    code, said = plan(capsys, *words)
    assert code == 2 and said.err.count("\n") == 1 and said.err.startswith("evoaudit plan: ")
