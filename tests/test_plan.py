"""The plan lays out every job before anything runs."""

import argparse
import ast
import importlib
import json

import pytest

from evoaudit import config as configs
from evoaudit import fingerprint as fingerprints
from evoaudit import plan as plans
from evoaudit.__main__ import COMMANDS
from evoaudit.errors import InputError
from evoaudit.keys import FORMAT
from evoaudit.outputs import DATA, FIGURES, TABLES


def build(**tree):
    return plans.build(configs.check(tree))


SIM = [{"name": "sim", "kind": "simulated", "trajectories": 5}]


def test_a_missing_folder_is_one_line_with_the_sources_name(tmp_path):
    with pytest.raises(InputError, match=r"source 'a': .*no such folder"):
        build(sources=[{"name": "a", "kind": "plain", "path": str(tmp_path / "none")}])


def test_a_file_where_a_folder_is_needed_is_one_line(tmp_path):
    (tmp_path / "f").write_text("")
    with pytest.raises(InputError, match="is a file; a folder is needed"):
        build(sources=[{"name": "a", "kind": "plain", "path": str(tmp_path / "f")}])


def test_a_source_that_may_not_be_read_is_one_line(tmp_path, monkeypatch):
    def scandir(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(fingerprints.os, "scandir", scandir)
    with pytest.raises(InputError, match=r"source 'a': .*Permission denied; mend"):
        build(sources=[{"name": "a", "kind": "plain", "path": str(tmp_path)}])


@pytest.mark.parametrize("name", ["../../config", ""])
def test_a_prompt_name_never_leads_out_of_the_prompts(name):
    with pytest.raises(InputError, match="not the name of a prompt folder"):
        build(sources=SIM, models=[{"name": "random", "provider": "builtin"}], inference={"prompts": name})


def test_a_run_without_sources_still_has_its_tables():
    assert [job.stage for job in build().jobs] == ["stats", "tables", "figures", "report", "export"]


def test_judges_of_an_ablation_do_not_enter_the_combination():
    plan = build(sources=SIM, judges=[{"name": "rules", "provider": "builtin", "ablation": True}])
    assert len(plan.of("judge")) == 2
    (combine,) = plan.of("combine")
    assert [job.settings["ablation"] for job in combine.upstream["judge"]] == [False]


def test_simulated_people_are_no_judges():
    judges = [{"name": "rules", "provider": "builtin"}, {"name": "p", "provider": "builtin", "model": "simulated", "role": "human"}]
    plan = build(sources=SIM, judges=judges)
    (select,), (combine,) = plan.of("select"), plan.of("combine")
    assert [job.settings["name"] for job in select.upstream["judge"]] == ["rules"]
    assert [job.settings["name"] for job in combine.upstream["people"]] == ["p"]


def test_every_model_condition_and_side_is_one_job():
    models = [{"name": "random", "provider": "builtin", "conditions": ["full", "black", "metadata"], "max_image_side": [512, 1024]}]
    plan = build(sources=SIM, models=models)
    assert len(plan.of("infer")) == 6
    assert sorted(job.settings["max_image_side"] for job in plan.of("images")) == [512, 1024]


def test_the_report_shows_the_pictures_of_the_size_that_is_asked_where_no_model_says_otherwise():
    models = [{"name": "random", "provider": "builtin"}, {"name": "majority", "provider": "builtin", "max_image_side": [256]}]
    desktop = {"sources": ["sim-osworld"], "t1": {"quota": {3: 2}}, "t2": {"quota": {"click": 2, "type": 1}}, "t3": {"quota": {"cross": 1}}}
    plan = build(sources=SIM, models=models, probes={"sets": {"desktop": desktop}}, report={"max_pictures_mb": 5})
    (report,) = plan.of("report")
    shown = [report.upstream["images"], report.upstream["set_images"]]
    assert [[job.settings["max_image_side"] for job in jobs] for jobs in shown] == [[512], [512]]
    (mined,) = report.upstream["sets"]
    assert mined.settings["set"] == "desktop" and report.upstream["set_images"][0].upstream["mine"] == (mined,)
    assert len(report.upstream["set_infer"]) == 2 and report.upstream["set_score"][0].upstream["mine"] == (mined,)
    assert report.settings["max_pictures_mb"] == 5 and report.places["prompts"].endswith("evogui-v1")


def test_a_condition_that_draws_has_the_seed_in_its_key_and_no_other_has():
    models = [{"name": "majority", "provider": "builtin", "conditions": ["full", "shuffled_images", "after_only"]}]
    seeds = {job.settings["condition"]: job.seed for job in build(sources=SIM, models=models, run={"seed": 5}).of("infer")}
    assert seeds == {"full": None, "shuffled_images": 5, "after_only": None}


def test_a_stage_reaches_what_it_imports_and_no_more():
    names = {path.name for path in plans.closure("evoaudit.stages.export")}
    assert {"export.py", "common.py", "store.py", "schema.py"} <= names
    assert "config.py" not in names and "plan.py" not in names


def test_a_built_in_judge_reaches_nothing_that_asks_a_language_model():
    reached = {path.relative_to(plans.PACKAGE).as_posix() for path in plans.closure("evoaudit.stages.judge", plans.ASKING)}
    assert {"stages/judge.py", "audit/rules.py", "audit/simulated.py", "audit/judges.py", "audit/combine.py", "store.py"} <= reached
    assert not {path for path in reached if path.startswith("infer/")} | reached & {"parse.py", "config.py", "prompts.py"}


def test_imports_found_by_their_looks_are_those_that_parsing_finds():
    def parsed(path):
        names = set()
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("evoaudit.sources."):
                names.add(node.value)
        return {name for name in names if name.split(".")[0] == "evoaudit"}

    files = sorted(plans.PACKAGE.rglob("*.py"))
    assert len(files) > 200
    assert [path for path in files if set(plans._named(path)) != parsed(path)] == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import evoaudit.store as s, json\n", {"evoaudit.store"}),
        ("from evoaudit import (  # why\n    a as b,  # one\n    c,\n)\n", {"evoaudit", "evoaudit.a", "evoaudit.c"}),
        ("    from evoaudit.x import y\n", {"evoaudit.x", "evoaudit.x.y"}),
        ("load(f'evoaudit.sources.{kind}')\n", {"evoaudit.sources."}),
        ("from evoauditor import x\nimport sys\n", set()),
    ],
)
def test_every_way_to_import_is_found(tmp_path, text, names):
    (tmp_path / "m.py").write_text(text)
    assert set(plans._named(tmp_path / "m.py")) == names


def test_a_job_is_found_by_stage_and_key():
    plan = build(sources=SIM, models=[{"name": "random", "provider": "builtin"}])
    assert all(plan.job(job.stage, job.key) is job for job in plan.jobs)
    with pytest.raises(KeyError, match="infer/0000000000 is not in this plan"):
        plan.job("infer", "0000000000")


def test_settings_too_long_for_a_word_of_a_command_line_go_through_a_file(tmp_path):
    from evoaudit.stages.common import settings

    models = [{"name": f"model-number-{n:05}", "provider": "openai", "family": "f" * 40} for n in range(1500)]
    (stats,) = build(models=models, sources=SIM).of("stats")
    text = json.dumps(stats.settings)
    assert len(text) > 128 * 1024 > plans.LONGEST_WORD
    word = plans.word(text, stats, "settings", tmp_path)
    assert len(word) < 4096 and word.startswith("@") and settings(word) == stats.settings
    assert plans.word('{"a":1}', stats, "settings", tmp_path) == '{"a":1}' and settings('{"a":1}') == {"a": 1}
    with pytest.raises(argparse.ArgumentTypeError, match="No such file"):
        settings(f"@{tmp_path / 'none'}")


def test_every_subcommand_exists_and_explains_itself(capsys):
    for name, summary in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=name, description=summary)
        module = importlib.import_module(f"evoaudit.stages.{name}")
        module.add_arguments(parser)
        assert callable(module.run)
        assert parser.format_help()


def test_every_keyed_stage_is_a_subcommand_with_declared_data():
    for stage in FORMAT:
        assert stage in COMMANDS and stage in DATA


def test_names_of_tables_and_figures_are_unique():
    assert len(set(TABLES)) == len(TABLES) and len(set(FIGURES)) == len(FIGURES)


def test_how_a_model_is_asked_is_no_part_of_its_answers_but_a_run_that_reuses_nothing_is(tmp_path):
    (tmp_path / "p.yaml").write_text("models: {m: {input: 1, output: 2, date: 2026-01-02, source: x}}")

    def job(run="a", inference=None, **more):
        models = [{"name": "m", "provider": "openai", **more}]
        return build(sources=SIM, models=models, run={"name": run}, inference=inference or {}).of("infer")[0]

    plain = job()
    ways = {"tolerate": 3, "deadline_s": 9, "budget_usd": 1, "prices": str(tmp_path / "p.yaml"), "reuse": "all"}
    asked = job(inference=ways, rpm=5, tpm=7, concurrency=2)
    assert asked.key == plain.key == job(run="b").key
    assert asked.all_settings["price"]["output"] == 2 and asked.all_settings["rpm"] == 5 and asked.all_settings["reuse"] == "all"
    fresh = {job(run=name, inference={"reuse": "none"}).key for name in ("a", "b")}
    assert len(fresh) == 2 and plain.key not in fresh
    with pytest.raises(InputError, match="file not found"):
        job(inference={"prices": str(tmp_path / "none.yaml")})
