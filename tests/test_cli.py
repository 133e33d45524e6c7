"""The subcommands people call themselves."""

import json

import pytest

from evoaudit.__main__ import main
from evoaudit.resources import ROOT

CONFIG = """
run: {name: t, seed: 1}
sources: [{name: sim, kind: simulated, trajectories: 5}]
probes: {t1: {quota: {3: 10}}, t2: {quota: {click: 10}}, t3: {quota: {cross: 10}}}
models:
  - {name: random, provider: builtin}
  - {name: m, provider: openai, model: priced, base_url: "http://127.0.0.1:9/v1", api_key_env: EVOAUDIT_TEST_KEY}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a config, as the working directory."""
    (tmp_path / "mine.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_doctor_names_a_missing_key_and_never_shows_one(here, capsys, monkeypatch):
    monkeypatch.delenv("EVOAUDIT_TEST_KEY", raising=False)
    assert main(["doctor", "--configfile", "mine.yaml"]) == 1
    assert "EVOAUDIT_TEST_KEY is not set" in capsys.readouterr().out
    monkeypatch.setenv("EVOAUDIT_TEST_KEY", "sk-secret")
    assert main(["doctor", "--configfile", "mine.yaml"]) == 0
    assert "sk-secret" not in capsys.readouterr().out


def test_doctor_names_a_judges_missing_key(here, capsys, monkeypatch):
    monkeypatch.delenv("EVOAUDIT_TEST_KEY", raising=False)
    (here / "b.yaml").write_text("judges: [{name: j, provider: anthropic, model: m, api_key_env: EVOAUDIT_TEST_KEY}]\n")
    assert main(["doctor", "--configfile", "b.yaml"]) == 1
    assert "judge 'j': the environment variable EVOAUDIT_TEST_KEY is not set" in capsys.readouterr().out


def test_doctor_warns_of_an_endpoint_where_nothing_listens(here, capsys, monkeypatch):
    monkeypatch.setenv("EVOAUDIT_TEST_KEY", "sk-secret")
    main(["doctor", "--configfile", "mine.yaml"])
    assert "nothing answers at http://127.0.0.1:9/v1" in capsys.readouterr().out


def test_doctor_reports_a_wrong_config_as_a_finding(here, capsys):
    (here / "b.yaml").write_text("rn: {}\n")
    assert main(["doctor", "--configfile", "b.yaml"]) == 1
    assert "did you mean 'run'" in capsys.readouterr().out


def test_keys_lists_every_stage_in_words(here, capsys):
    assert main(["keys", "--configfile", "mine.yaml", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"simulate", "normalise", "mine", "infer", "report"} <= {row["stage"] for row in rows}
    assert not any(row["finished"] for row in rows)
    assert "mine, seed 1" in {row["meaning"] for row in rows}


def test_keys_of_a_missing_config_is_one_line_and_exit_2(here, capsys):
    assert main(["keys", "--configfile", "none.yaml"]) == 2
    assert capsys.readouterr().err == "evoaudit keys: none.yaml: file not found; give the right path, relative to the working directory\n"


def test_estimate_counts_requests_and_dollars(here, capsys):
    (here / "prices.yaml").write_text("models:\n  priced: {input: 1000000, output: 0, date: 2026-01-01, source: made up}\n")
    assert main(["estimate", "--configfile", "mine.yaml", "--prices", "prices.yaml"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("m/full/512"))
    # 30 requests; 350 tokens of text each, and 3 + 2 + 3 pictures of 512 × 288 pixels, 19 × 11 patches of 28 pixels: a dollar a token.
    assert line.split()[1] == "30"
    assert float(line.split()[-1]) == 30 * 350 + 10 * 8 * 209
    # Eight at once, five seconds each.
    assert line.split()[4:6] == ["19", "s"]


def test_estimate_follows_what_each_condition_shows_and_asks(here, capsys):
    (here / "prices.yaml").write_text("models:\n  priced: {input: 1000000, output: 0, date: 2026-01-01, source: made up}\n")
    (here / "more.yaml").write_text("inference: {conditions: [black, text_only_goal, shuffled_images, after_only]}\n")
    assert main(["estimate", "--configfile", "mine.yaml", "more.yaml", "--prices", "prices.yaml"]) == 0
    found = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("m/")}
    assert {name: int(words[1]) for name, words in found.items()} == {
        "m/black/512": 30,
        "m/text_only_goal/512": 30,
        "m/shuffled_images/512": 30,
        "m/after_only/512": 10,
    }
    # 30 × 350 without pictures; 10 × (350 + 209) with one each.
    assert float(found["m/text_only_goal/512"][-1]) == 10500 and float(found["m/after_only/512"][-1]) == 10 * (350 + 209)
    assert found["m/black/512"][-1] == found["m/shuffled_images/512"][-1] == "27220.00"


def test_estimate_says_when_it_does_not_know_the_cost(here, capsys):
    (here / "prices.yaml").write_text("models: {}\n")
    assert main(["estimate", "--configfile", "mine.yaml", "--prices", "prices.yaml"]) == 0
    assert "cost unknown (priced: no price in prices.yaml)" in capsys.readouterr().out


def test_gc_touches_nothing_without_delete_and_keeps_what_is_used(here, capsys):
    from evoaudit import config as configs
    from evoaudit import plan as plans

    plan = plans.build(configs.load("mine.yaml"))
    plans.write_keys(plan)
    used = here / "results" / "mine" / plan.of("mine")[0].key
    unused = here / "results" / "mine" / "0123456789-s1"
    for folder in (used, unused):
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text("{}")
    assert main(["gc"]) == 0
    assert "0123456789-s1" in capsys.readouterr().out
    assert unused.exists()
    assert main(["gc", "--delete"]) == 0
    assert not unused.exists() and used.exists()


def test_gc_keeps_what_was_bought_unless_told(here, capsys):
    (here / "results" / ".plans").mkdir(parents=True)
    (here / "results" / ".plans" / "t.json").write_text("[]")
    bought, free, torn = (here / "results" / "infer" / name for name in ("0123456789", "1123456789", "2123456789"))
    for folder, provider in ((bought, "openai"), (free, "builtin")):
        folder.mkdir(parents=True)
        (folder / "predictions.parquet").write_text("")
        (folder / "manifest.json").write_text(json.dumps({"config": {"provider": provider}}))
    torn.mkdir()
    (torn / "journal.jsonl").write_text("{}")
    assert main(["gc", "--delete"]) == 0
    assert bought.exists() and torn.exists() and not free.exists()
    assert main(["gc", "--delete", "--answers"]) == 0
    assert not bought.exists() and not torn.exists()


def test_gc_without_any_plan_refuses_rather_than_removes_all(here, capsys):
    (here / "results" / "mine" / "0123456789").mkdir(parents=True)
    assert main(["gc", "--delete"]) == 2
    assert "holds no plan" in capsys.readouterr().err
    assert (here / "results" / "mine" / "0123456789").exists()


def test_validate_says_file_line_and_reason(here, capsys):
    (here / "logs").mkdir()
    good = {"trajectory_id": "t-1", "steps": [{"action": "click", "before_image": "a.png"}]}
    (here / "logs" / "trajectories.jsonl").write_text(json.dumps(good) + "\n{broken\n")
    assert main(["validate", "logs"]) == 1
    out = capsys.readouterr().out
    assert "trajectories.jsonl:2" in out
    assert "picture missing" in out
    assert "1 trajectories with 1 steps and 0 different pictures can be read" in out


def test_validate_drops_what_a_run_would_drop(here, capsys):
    (here / "logs").mkdir()
    step = {"action": "click", "before_image": "a.png"}
    made = [("t", [step]), ("t", [step]), ("../u", [step]), ("v", [])]
    (here / "logs" / "trajectories.jsonl").write_text("".join(json.dumps({"trajectory_id": t, "steps": s}) + "\n" for t, s in made))
    assert main(["validate", "logs"]) == 1
    out = capsys.readouterr().out
    for reason in ("duplicate_id", "unsafe_id", "no_steps", "a.png: picture missing"):
        assert reason in out
    assert "1 trajectories with 1 steps and 0 different pictures can be read, 4 records cannot" in out


def test_validate_of_a_config_counts_its_jobs(here, capsys):
    assert main(["validate", "mine.yaml"]) == 0
    assert "valid" in capsys.readouterr().out


def test_validate_of_nothing_is_one_line_and_exit_2(here, capsys):
    assert main(["validate", "nowhere"]) == 2
    assert "no such file or folder" in capsys.readouterr().err


@pytest.mark.parametrize("when", ["add_arguments", "run"])
def test_an_interrupted_command_is_one_line_and_exit_130(when, here, capsys, monkeypatch):
    def interrupted(_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"evoaudit.stages.keys.{when}", interrupted)
    assert main(["keys"]) == 130
    assert capsys.readouterr().err == "evoaudit keys: interrupted; run it again\n"


def test_a_command_without_memory_or_disk_is_one_line_and_exit_2(here, capsys, monkeypatch):
    class Full:
        """A file that tries to write once more when it is let go."""

        def __del__(self):
            raise OSError(28, "No space left on device")

    def full(error):
        _held = Full()
        raise error

    for error, words in (
        (MemoryError(), "memory ran out; give it more, or fewer threads, and run it again"),
        (OSError(28, "No space left on device", "there"), "there: No space left on device"),
    ):
        monkeypatch.setattr("evoaudit.stages.keys.run", lambda args, error=error: full(error))
        assert main(["keys"]) == 2
        assert capsys.readouterr().err == f"evoaudit keys: {words}\n"


def test_a_wrong_usage_exits_with_2():
    with pytest.raises(SystemExit) as caught:
        main(["keys", "--nonsense"])
    assert caught.value.code == 2


def test_what_is_generated_is_up_to_date(capsys):
    assert main(["document", "--check"]) == 0, capsys.readouterr().out


def test_the_lock_file_pins_by_hash_and_names_no_host():
    lock = (ROOT / "envs" / "requirements.lock").read_text()
    assert "://" not in lock and "--index" not in lock and "--find-links" not in lock
    pins = [line for line in lock.splitlines() if line and not line.startswith((" ", "#"))]
    assert all("==" in pin for pin in pins)
    assert lock.count("--hash=sha256:") >= len(pins)
