"""Sets of probes beyond the browser: sources, vocabulary, answers and tables of their own, never mixed into the paper's."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from made_logs import Logs

from evoaudit import config as configs
from evoaudit import plan as plans
from evoaudit import prompts
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.infer.base import Attachments
from evoaudit.infer.builtin import Solver
from evoaudit.parse import VOCABULARY
from evoaudit.probes.vocabulary import vocabulary_of
from evoaudit.score import score
from evoaudit.store import read_rows

PROMPTS = Path(__file__).parents[1] / "resources" / "prompts" / "evogui-v1"
SIM = {"name": "sim", "kind": "simulated", "trajectories": 60}
DESKTOP = {"sources": ["sim-osworld"], "t2": {"quota": {"click": 4, "type": 2, "scroll": 2}}}
RANDOM = {"name": "random", "provider": "builtin"}


def build(**probes):
    return plans.build(configs.check({"sources": [SIM], "models": [RANDOM], "probes": probes}))


def read(job: plans.Job) -> set[str]:
    return {one.settings["source"] for one in job.upstream["normalise"]}


WEB = {"sim-mind2web", "sim-weblinx", "sim-agentrewardbench", "sim-plain"}


def test_the_papers_set_is_of_web_pages():
    (mined,) = build().of("mine")
    assert read(mined) == WEB


def test_a_set_is_mined_pictured_asked_and_scored_apart():
    plan = build(sets={"desktop": DESKTOP})
    mined = {job.label: job for job in plan.of("mine")}
    assert {label: read(job) for label, job in mined.items()} == {"all": WEB, "desktop": {"sim-osworld"}}
    for stage in ("images", "infer", "score"):
        jobs = plan.of(stage)
        assert {job.upstream["mine"] for job in jobs} == {(mined["all"],), (mined["desktop"],)} and len(jobs) == 2
    (stats,) = plan.of("stats")
    assert stats.upstream["mine"] == (mined["all"],) and stats.upstream["sets"] == (mined["desktop"],)
    assert {job.label for job in stats.upstream["set_score"]} == {"desktop"}


def test_a_set_changes_no_key_of_the_papers():
    alone, beside = build(), build(sets={"desktop": DESKTOP})
    for stage in ("mine", "images", "infer", "score"):
        assert alone.of(stage)[0].key in {job.key for job in beside.of(stage)}


def test_sources_of_the_papers_set_can_be_named():
    (mined,) = build(sources=["sim-weblinx", "sim-mind2web"]).of("mine")
    assert read(mined) == {"sim-weblinx", "sim-mind2web"}


def test_a_run_of_desktops_alone_has_no_papers_set():
    source = {"name": "sim", "kind": "simulated", "trajectories": 9, "formats": ["osworld"]}
    plan = plans.build(configs.check({"sources": [source], "probes": {"sets": {"desktop": DESKTOP}}}))
    assert [job.label for job in plan.of("mine")] == ["desktop"]


@pytest.mark.parametrize(
    ("probes", "message"),
    [
        ({"sources": ["sim-nothing"]}, "probes.sources: 'sim-nothing': no such source; there are sim-mind2web"),
        ({"sources": ["sim-osworld"]}, "'sim-osworld': is a desktop source"),
        ({"sources": ["sim-plain"], "sets": {"x": {**DESKTOP, "sources": ["sim-plain"]}}}, "is in the set 'x' too"),
        ({"sets": {"x": {**DESKTOP, "sources": ["sim-osworld", "sim-weblinx"]}}}, "sets.x.sources: holds sources of desktop and web"),
        ({"sets": {"x": {**DESKTOP, "sources": ["none"]}}}, "probes.sets.x.sources: 'none': no such source"),
        ({"sets": {"x": {"sources": ["sim-osworld"]}}}, "probes.sets.x.t2: this field is needed"),
        ({"sets": {"x": {**DESKTOP, "t2": {"quota": {"scrol": 1}}}}}, "did you mean 'scroll'"),
        ({"sets": {"x": {**DESKTOP, "source": []}}}, "probes.sets.x.source: unknown field; did you mean 'sources'?"),
        ({"sets": {"a/b": DESKTOP}}, "probes.sets"),
        ({"t2": {"quota": {"scroll": 1}}}, "'scroll' is not allowed"),
    ],
)
def test_a_wrong_set_is_refused_in_one_line(probes, message):
    with pytest.raises(InputError) as caught:
        build(**probes)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def logs() -> Logs:
    made = Logs("desk")
    for i in range(12):
        steps = [{"op": op, "value": "words" if op == "type" else None} for op in ("click", "scroll", "type", "drag", "key")]
        made.add(f"t{i}", [f"{i}-{k}" for k in range(6)], steps, domain=f"app{i % 3}", simulated=True)
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Mine a set, let the random solver answer it, score the answers and compute the tables."""
    home = tmp_path_factory.mktemp("set")
    normalised, root = logs().write(home)
    quotas = {"t1": {"quota": {"3": 6}}, "t2": {"quota": {"click": 6, "scroll": 6, "drag": 6}}, "t3": {"quota": {"cross": 6}}}

    def stage(name: str, *words: str, settings: dict | None = None, upstream: dict | None = None) -> str:
        given = ["--settings", json.dumps(settings or {}), "--key", name, "--upstream", json.dumps(upstream or {})]
        assert main([name, *given, "--out", str(home / name), *words]) == 0
        return str(home / name / "manifest.json")

    mined = stage(
        "mine",
        "--seed",
        "7",
        "--normalised",
        str(normalised / "manifest.json"),
        "--root",
        f"desk={root}",
        settings=quotas | {"set": "desk"},
    )
    model = {"name": "random", "provider": "builtin", "condition": "metadata", "max_image_side": 512, "runs": 2}
    of = {"mine": ["mine"]}
    asked = stage("infer", "--mined", mined, "--prompts", str(PROMPTS), "--seed", "7", settings=model, upstream=of)
    scored = stage("score", "--mined", mined, "--predictions", asked, upstream=of)
    stage("stats", "--seed", "7", "--sets", mined, "--set-predictions", asked, "--set-scores", scored)
    return home


def test_a_sets_own_actions_are_its_slices_and_its_vocabulary(made):
    rows = read_rows(made / "mine", "t2")
    assert {row["answer_action"] for row in rows} == {row["slice"] for row in rows} == {"click", "drag", "scroll"}
    assert all(row["answer_value"] == "" for row in rows)
    assert vocabulary_of(made / "mine") == ("click", "drag", "scroll")


def test_a_prompt_lists_the_sets_actions(made):
    probe = read_rows(made / "mine", "t2")[0]
    shown = prompts.render(prompts.load(PROMPTS)["t2"], probe, vocabulary=vocabulary_of(made / "mine"))
    assert '"click", "drag", "scroll"' in shown[-1].parts[0].text and '"select"' not in shown[-1].parts[0].text


def test_an_answer_may_name_the_sets_actions_and_no_others(made):
    probe = next(row for row in read_rows(made / "mine", "t2") if row["answer_action"] == "drag")
    words = vocabulary_of(made / "mine")

    def told(action: str, vocabulary=words) -> dict:
        return score("t2", probe, {"status": "ok", "raw": json.dumps({"action": action, "value": "x"})}, vocabulary)

    assert told("drag")["correct"] and not told("scroll")["correct"]
    assert told("select")["status"] == "invalid"
    assert told("drag", VOCABULARY)["status"] == "invalid"


def test_the_random_solver_draws_from_the_sets_actions(made):
    given = {json.loads(row["raw"])["action"] for row in read_rows(made / "infer", "predictions") if row["task"] == "t2"}
    assert given <= {"click", "drag", "scroll"} and len(given) > 1


def test_a_constant_answer_is_one_of_the_sets_actions():
    view = prompts.View("t2", 2, (), None, None)
    for words, action in ((("drag", "scroll"), "drag"), (("click", "drag"), "click")):
        solver = Solver("majority", Attachments(None), seed=1, vocabulary=words)
        assert json.loads(solver.answer(view, "one", 0))["action"] == action


def table(folder: Path, name: str) -> list[dict]:
    return pq.read_table(folder / f"{name}.parquet").to_pylist()


def test_a_set_has_tables_of_its_own_and_stands_in_no_other(made):
    split = table(made / "stats", "split_sets")
    assert {(row["part"], row["slice"], row["wanted"], row["count"]) for row in split} == {
        ("T1", "K=3", 6, 6),
        ("T2", "click", 6, 6),
        ("T2", "drag", 6, 6),
        ("T2", "scroll", 6, 6),
        ("T3", "cross", 6, 6),
    }
    chance, random = table(made / "stats", "other_sets")
    assert chance["t2_top1"] == chance["t2_joint"] == pytest.approx(100 / 3) and chance["t3"] == 50
    assert (random["model"], random["set"], random["condition"]) == ("random", "desk", "metadata")
    assert 0 < random["t2_joint"] < 100 and random["t2_joint"] == random["t2_top1"]
    assert (random["n_t1"], random["n_t2"], random["n_t3"]) == (6, 18, 6)
    assert all(row["simulated"] for row in (*split, chance, random))
    for name in ("split", "domains", "evogui_main", "t2_recall", "t3_slices", "baselines"):
        assert table(made / "stats", name) == [], name


def test_what_a_set_left_out_and_cost_is_told(made):
    reasons = {row["reason"] for row in table(made / "stats", "drops") if row["stage"] == "mine"}
    assert "outside_vocabulary" in reasons
    (spent,) = (row for row in table(made / "stats", "cost") if row["stage"] == "infer")
    assert (spent["model"], spent["requests"], spent["simulated"]) == ("random (desk)", 60, True)


def test_the_papers_vocabulary_stays_whatever_its_quotas(tmp_path):
    normalised, root = logs().write(tmp_path)
    quotas = {"t1": {"quota": {}}, "t2": {"quota": {"click": 3}}, "t3": {"quota": {}}}
    words = ["mine", "--settings", json.dumps(quotas), "--seed", "7", "--normalised", str(normalised), "--root", f"desk={root}"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    assert vocabulary_of(tmp_path / "out") == VOCABULARY
