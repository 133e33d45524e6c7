"""Keys change with what a stage reads, and with nothing else."""

import copy
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evoaudit import config as configs
from evoaudit import plan as plans
from evoaudit.errors import InputError
from evoaudit.keys import FORMAT, canonical, stage_key

BASE = {
    "run": {"name": "t", "seed": 7},
    "sources": [{"name": "sim", "kind": "simulated", "trajectories": 20}],
    "models": [
        {"name": "random", "group": "baseline", "provider": "builtin"},
        {"name": "m", "provider": "openai", "model": "x", "base_url": "http://127.0.0.1:1/v1", "api_key_env": "K"},
    ],
    "judges": [{"name": "rules", "provider": "builtin", "ablation": True}, {"name": "s", "provider": "builtin", "model": "simulated"}],
}


def keys(tree):
    return {(job.stage, job.label): job.key for job in plans.build(configs.check(copy.deepcopy(tree))).jobs}


def changed(tree):
    before, after = keys(BASE), keys(tree)
    return {stage for stage, label in before.keys() | after.keys() if before.get((stage, label)) != after.get((stage, label))}


def shuffled(value, rng):
    if isinstance(value, dict):
        items = list(value.items())
        rng.shuffle(items)
        return {key: shuffled(inner, rng) for key, inner in items}
    return [shuffled(inner, rng) for inner in value] if isinstance(value, list) else value


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_the_order_of_fields_never_matters(seed):
    assert keys(shuffled(BASE, random.Random(seed))) == keys(BASE)


def test_writing_out_every_default_changes_no_key():
    written_out = configs.check(copy.deepcopy(BASE)).model_dump(mode="json")
    assert keys(written_out) == keys(BASE)


def with_field(path, value):
    tree = copy.deepcopy(BASE)
    node = tree
    for part in path[:-1]:
        node = node[part] if isinstance(node, list) else node.setdefault(part, {})
    node[path[-1]] = value
    return tree


DOWNSTREAM = {"stats", "tables", "figures", "report", "export"}
AUDIT = {"sample", "judge", "select", "replay", "combine"}
ALL = set(FORMAT) - {"download"}  # nothing in this config is downloaded


@pytest.mark.parametrize(
    ("path", "value", "stages"),
    [
        (("run", "seed"), 8, ALL),
        (("sources", 0, "trajectories"), 21, ALL),
        (("probes", "t1", "quota"), {3: 5}, {"mine", "pairs", "images", "infer", "score"} | DOWNSTREAM),
        (("probes", "near_twin_tiles"), 3, {"mine", "pairs", "images", "infer", "score"} | DOWNSTREAM),
        (("inference", "goal"), "withheld", {"infer", "score"} | DOWNSTREAM - {"export"} | {"export"}),
        (("inference", "max_image_side"), [256], {"images", "infer", "score"} | DOWNSTREAM),
        (("models", 1, "temperature"), 0.5, {"infer", "score"} | DOWNSTREAM),
        (("models", 1, "base_url"), "https://elsewhere.example/v1", {"infer", "score"} | DOWNSTREAM),
        (("models", 1, "parameters_b"), 4, DOWNSTREAM),
        (("audit", "quotas"), {"sim-webarena": 3}, AUDIT | DOWNSTREAM),
        (("audit", "seed"), 8, AUDIT | DOWNSTREAM),
        (("audit", "tie"), "gf", {"combine"} | DOWNSTREAM),
        (("judges", 1, "accuracy"), 0.5, {"judge", "select", "replay", "combine"} | DOWNSTREAM),
        (("stats", "bootstrap"), 500, DOWNSTREAM),
        (("report", "max_items"), 3, {"report"}),
        (("report", "max_pictures_mb"), 100, {"report"}),
        (("export", "title"), "Mine", {"export"}),
    ],
)
def test_a_field_changes_the_stages_that_read_it_and_those_after(path, value, stages):
    assert changed(with_field(path, value)) == stages


def test_what_is_chosen_of_a_data_set_is_in_the_keys_of_its_download_and_of_what_reads_it():
    tree = copy.deepcopy(BASE)
    tree["sources"].append({"name": "arb", "kind": "agentrewardbench", "hub": "McGill-NLP/agent-reward-bench"})
    before = keys(tree)
    tree["sources"][-1]["agents"] = ["GenericAgent-*"]
    after = keys(tree)
    differ = {job for job in before if before[job] != after[job]}
    assert ("normalise", "sim-plain") not in differ
    assert {("download", "arb"), ("normalise", "arb")} <= differ
    assert {stage for stage, _ in differ} == ALL - {"simulate"} | {"download"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("inference", "concurrency"), 3),
        (("inference", "timeout_s"), 5),
        (("inference", "retries"), 1),
        (("inference", "budget_usd"), 4),
        (("models", 1, "api_key_env"), "OTHER"),
        (("models", 1, "base_url"), "http://localhost:2/v1"),
        (("models", 1, "concurrency"), 2),
    ],
)
def test_how_fast_we_ask_never_buys_an_answer_again(path, value):
    assert changed(with_field(path, value)) == set()


def test_another_model_changes_no_other_models_key():
    tree = copy.deepcopy(BASE)
    tree["models"].append({"name": "majority", "group": "baseline", "provider": "builtin"})
    before, after = keys(BASE), keys(tree)
    assert all(after[job] == key for job, key in before.items() if job[0] in ("simulate", "normalise", "mine", "images", "infer"))


def test_the_order_of_sources_changes_no_probe(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "trajectories.jsonl").write_text(name)
    sources = [{"name": name, "kind": "plain", "path": str(tmp_path / name)} for name in "ab"]
    assert stage_key({"sources": sources}, "mine") == stage_key({"sources": sources[::-1]}, "mine")


def test_edited_raw_data_of_the_same_size_changes_the_key(tmp_path):
    (tmp_path / "trajectories.jsonl").write_text('{"raw_reward": 0.0}')
    tree = {"sources": [{"name": "a", "kind": "plain", "path": str(tmp_path)}]}
    before = stage_key(tree, "normalise")
    (tmp_path / "trajectories.jsonl").write_text('{"raw_reward": 1.0}')
    assert stage_key(tree, "normalise") != before


def test_where_raw_data_lies_changes_no_key(tmp_path):
    trees = []
    for place in ("x", "y"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "trajectories.jsonl").write_text("{}")
        trees.append({"sources": [{"name": "a", "kind": "plain", "path": str(tmp_path / place)}]})
    assert stage_key(trees[0], "report") == stage_key(trees[1], "report")


def test_the_seed_stands_in_the_key_of_stages_that_draw():
    assert stage_key(BASE, "mine").endswith("-s7")
    assert "-s" not in stage_key(BASE, "score")


def test_a_stage_of_several_jobs_has_one_key_and_one_for_each():
    whole, one = stage_key(BASE, "normalise"), stage_key(BASE, "normalise:sim-plain")
    assert whole != one
    assert stage_key({**BASE, "sources": [BASE["sources"][0] | {"formats": ["plain"]}]}, "normalise") != whole


def test_an_unknown_stage_is_refused():
    with pytest.raises(InputError, match="no such stage"):
        stage_key(BASE, "minen")


def test_nan_has_no_canonical_form():
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(float("nan"))


def test_all_keys_of_a_plan_differ():
    jobs = plans.build(configs.check(BASE)).jobs
    assert len({(job.stage, job.key) for job in jobs}) == len(jobs)
