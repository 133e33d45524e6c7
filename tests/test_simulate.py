"""The built-in corpus: what is planted is really there, and the same seed makes the same bytes."""

import hashlib
import io
import json
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from evoaudit.__main__ import main
from evoaudit.simulate import control, corpus, looks
from evoaudit.simulate.actors import Episode
from evoaudit.simulate.deal import AGENTS, FORMATS, Deal, deal, place
from evoaudit.simulate.draw import Draw
from evoaudit.simulate.engine import Do, perform, view
from evoaudit.simulate.episode import APPS, make, task_of
from evoaudit.simulate.screen import Screen
from evoaudit.simulate.sites import BY_APP, SITES
from evoaudit.sources import reader
from evoaudit.sources.base import Skipped, Trajectory

KINDS = {
    *("success", "demonstration", "efn-answer-form", "efn-other-path", "broken-captcha", "broken-dead-page", "broken-unsatisfiable"),
    *("unclear-missing-evidence", "t1-spec", "t1-loop", "t1-hall", "t2-ground", "t2-state", "t2-tool", "t3-term", "t3-verif", "t3-noop"),
}
SEED = 11


@cache
def episodes(seed: int = SEED, n: int = 200) -> tuple[tuple[Deal, Episode], ...]:
    return tuple((d, make(d, seed)) for d in (deal(i, FORMATS) for i in range(n)))


def of(planted: str, lookalike: str | None = None) -> list[tuple[Deal, Episode]]:
    found = [(d, e) for d, e in episodes() if e.planted == planted and (lookalike is None or e.lookalike == lookalike)]
    assert found
    return found


def pixels(screen: Screen) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(looks.picture(screen))).convert("RGB"))


def text(screen: Screen) -> str:
    return "\n".join(w.name for w in screen.widgets)


def tree(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    corpus.write(folder, 60, SEED)
    return folder


# The deal


def test_mix_is_30_30_20_10_10() -> None:
    assert Counter(place(i, FORMATS)[0] for i in range(200)) == {
        "mind2web": 60,
        "weblinx": 60,
        "agentrewardbench": 40,
        "osworld": 20,
        "plain": 20,
    }


def test_every_kind_is_planted_twice_in_200() -> None:
    counts = Counter(deal(i, FORMATS).planted for i in range(200))
    assert set(counts) == KINDS and min(counts.values()) >= 2


def test_about_a_third_of_agents_succeed_and_tasks_are_shared() -> None:
    agents = [d for d in (deal(i, FORMATS) for i in range(200)) if d.agent]
    assert 0.30 <= sum(d.planted == "success" for d in agents) / len(agents) <= 0.40
    assert {d.agent for d in agents} == set(AGENTS)
    attempts = Counter((d.format, d.task) for d in agents)
    assert max(attempts.values()) == 4
    assert len({(d.format, d.task, d.agent) for d in agents}) == len(agents)


def test_attempts_at_a_task_share_its_goal_and_world() -> None:
    by_task: dict = {}
    for d, e in episodes():
        if d.agent:
            by_task.setdefault((d.format, d.task), set()).add((e.task.instruction, e.task.reference))
    assert all(len(goals) == 1 for goals in by_task.values())


def test_sites_and_domains_are_many() -> None:
    assert len({site.name for site in SITES}) >= 30 and len({site.host for site in SITES}) == len(SITES)
    assert len({site.domain for site in SITES}) >= 10
    assert len(BY_APP) == 6 and all(len(sites) == 6 for sites in BY_APP.values())
    assert len({e.task.site.name for _, e in episodes()}) >= 30


def test_a_trajectory_does_not_depend_on_how_many_there_are() -> None:
    for i in (2, 5, 9, 30, 41):
        assert corpus.pieces_of(i, 60, SEED, FORMATS) == corpus.pieces_of(i, 20_000, SEED, FORMATS)


# The state machines


@pytest.mark.parametrize("app", sorted(BY_APP))
@pytest.mark.parametrize("kind", ["answer", "limit", "save", "multi", "note"])
def test_plan_reaches_the_goal_and_only_at_its_end(app: str, kind: str) -> None:
    for n, site in enumerate(BY_APP[app]):
        task = APPS[app].tasks[kind](site, Draw(n, kind))
        state, reached = task.start, []
        for act in task.plan:
            state, error = perform(state, view(APPS[app], site, state), act)
            assert error is None, (task.instruction, act)
            reached.append(bool(task.proof) and task.proof in text(view(APPS[app], site, state)))
        final = view(APPS[app], site, state)
        if task.answer:
            assert task.read(final) == task.answer
        else:
            assert reached[-1] and task.proof not in text(view(APPS[app], site, task.start))


def test_other_way_reaches_the_same_goal_and_another_choice_does_not() -> None:
    for app, sites in BY_APP.items():
        for kind, name, expected in (("save", "other", True), ("limit", "wrong", False)):
            task = APPS[app].tasks[kind](sites[0], Draw(3, kind))
            state = task.start
            for act in getattr(task, name):
                state, error = perform(state, view(APPS[app], task.site, state), act)
                assert error is None
            assert (task.proof in text(view(APPS[app], task.site, state))) is expected


def test_refused_acts_change_nothing_and_say_why() -> None:
    task = task_of(deal(0, FORMATS), SEED)
    app = APPS[task.site.app]
    screen = view(app, task.site, task.start)
    button = next(w for w in screen.widgets if w.role == "button")
    for act, word in (
        (Do("click", "no such thing"), "unknown element"),
        (Do("type", button.key, "x"), "invalid argument"),
        (Do("select", button.key, "x"), "invalid argument"),
    ):
        state, error = perform(task.start, screen, act)
        assert error and error.startswith(word) and state is task.start


def test_typing_shows_the_text_and_choosing_shows_the_option() -> None:
    seen = Counter()
    for _, e in of("demonstration")[:25]:
        for step in e.steps:
            if step.verb in ("type", "select"):
                after = step.after.find(step.hit.key)
                assert after is not None and after.value == step.value
                assert (pixels(step.before) != pixels(step.after)).any() or step.hit.value == step.value
                seen[step.verb] += 1
    assert seen["type"] > 20 and seen["select"] > 15


def test_clicks_land_inside_the_control_they_hit() -> None:
    for d, e in episodes():
        for step in e.steps:
            if step.point and step.hit:
                x, y = step.point
                y += 0 if d.format == "mind2web" else step.before.scroll
                assert step.hit.x <= x <= step.hit.x + step.hit.w and step.hit.y <= y <= step.hit.y + step.hit.h


def test_no_picture_runs_out_of_colours() -> None:
    for _, e in episodes()[:40]:
        for step in e.steps:
            drawn = tuple(w.drawn() for w in step.before.visible())
            assert len(looks.paint(step.before.site, drawn, 400, step.before.scroll, True, None, None).palette) < 250


# The planted outcomes


def test_success_meets_its_goal_and_other_ends_do_not() -> None:
    for d, e in episodes():
        reached = e.task.proof in text(e.final) if e.task.proof else e.answer == e.task.answer
        if e.planted in ("success", "efn-other-path"):
            assert reached, d
        elif e.outcome in ("gf", "broken"):
            assert not reached, d
        assert e.reward == (1.0 if e.planted == "success" else 0.0)


def test_noop_clicks_leave_every_pixel() -> None:
    for _, e in of("t3-noop"):
        run = e.steps[e.evidence_step :]
        assert len(run) >= 3 and len({(s.verb, s.hit.key) for s in run}) == 1
        assert len({pixels(s).tobytes() for step in run for s in (step.before, step.after)}) == 1


def test_loop_comes_back_to_the_same_screens_through_different_ones() -> None:
    for _, e in of("t1-loop"):
        shown = [pixels(s.after).tobytes() for s in e.steps[e.evidence_step :]]
        assert all(a != b for a, b in pairwise(shown))
        assert len(set(shown)) <= 3 and len(shown) >= 8


def test_hallucination_and_tool_faults_leave_the_environments_error() -> None:
    for kind, word in (("t1-hall", "unknown element"), ("t2-tool", "invalid argument")):
        for _, e in of(kind):
            assert e.steps[e.evidence_step].error.startswith(word)
    for _, e in of("t1-hall"):
        step = e.steps[e.evidence_step]
        assert f'"{step.value}"' in step.reasoning and step.value not in text(step.before)


def test_grounding_fault_quotes_one_control_and_hits_another() -> None:
    for _, e in of("t2-ground"):
        step = e.steps[e.evidence_step]
        assert f'"{step.hit.name}"' not in step.reasoning
        others = [s for s in e.steps if s is not step and s.verb in ("click", "type", "select")]
        assert all(f'"{s.hit.name}"' in s.reasoning for s in others)


def test_state_loss_types_another_value_than_was_noted() -> None:
    for _, e in of("t2-state"):
        noted = next(s.reasoning for s in e.steps if s.reasoning.startswith("Noted: "))
        value = noted.split(" = ")[1].split(". ")[0]
        typed = e.steps[e.evidence_step].value
        assert typed != value and len(typed) == len(value)


def test_unverified_end_shows_the_refusal() -> None:
    for _, e in of("t3-verif"):
        assert any(w.role == "alert" and w.tone == "bad" for w in e.final.widgets) and "success" in e.answer


def test_early_stop_leaves_a_goal_untouched() -> None:
    for _, e in of("t3-term"):
        assert len([s for s in e.steps if s.verb != "scroll"]) <= len(e.task.plan)
        assert {act.key for act in e.task.plan if act.goal} - {s.hit.key for s in e.steps if s.hit}


def test_other_answer_forms_differ_in_writing() -> None:
    for _, e in of("efn-answer-form"):
        assert e.answer != e.task.answer
        assert {c for c in e.task.answer if c.isdigit() and c != "0"} <= {*e.answer, *"123456789"}


def test_walls_and_dead_pages_are_what_they_say() -> None:
    for _, e in of("broken-captcha"):
        assert "/challenge" in e.final.url and "Verify you are human" in text(e.final)
    for _, e in of("broken-dead-page"):
        assert "502 Bad Gateway" in text(e.final)
    for _, e in of("broken-unsatisfiable"):
        assert e.task.barrier.rstrip(".") in "\n".join(text(s.after) for s in e.steps) and e.steps[-1].verb == "fail"


def test_missing_evidence_is_missing_on_disk() -> None:
    for d, e in of("unclear-missing-evidence"):
        files = [path for path, _ in corpus.pieces_of(d.index, 40, SEED, FORMATS).files if path.endswith(".png")]
        assert len(files) <= 3 < len(e.steps)


# The benign look-alikes


def test_waiting_for_a_load_leaves_the_screen_and_then_goes_on() -> None:
    for _, e in of("success", "wait-for-load"):
        waits = [i for i, s in enumerate(e.steps) if s.verb == "wait"]
        assert len(waits) == 3 and "Loading…" in text(e.steps[waits[0]].before)
        assert (pixels(e.steps[waits[0]].before) == pixels(e.steps[waits[0]].after)).all()
        assert "Loading…" not in text(e.steps[waits[-1]].after)


def test_caret_blink_is_one_pixel_wide() -> None:
    for _, e in of("success", "caret-blink"):
        wait = next(s for s in e.steps if s.verb == "wait")
        rows, columns = np.nonzero((pixels(wait.before) != pixels(wait.after)).any(axis=2))
        assert len(set(columns)) == 1 and 5 < len(set(rows)) < 40


def test_clock_ticks_in_the_top_bar_alone() -> None:
    for _, e in of("success", "clock"):
        wait = next(s for s in e.steps if s.verb == "wait")
        rows, columns = np.nonzero((pixels(wait.before) != pixels(wait.after)).any(axis=2))
        assert 0 < rows.max() < 40 and np.ptp(columns) < 60


def test_talk_about_captchas_is_not_a_wall() -> None:
    for _, e in [*of("success", "captcha-text"), *of("demonstration", "captcha-text")]:
        seen = "\n".join(text(s.before) for s in e.steps).casefold()
        assert "captcha" in seen or "verify you are human" in seen
        assert not any("/challenge" in s.before.url for s in e.steps)


# The files


def test_same_bytes_in_any_folder_with_any_number_of_workers(made: Path, tmp_path: Path) -> None:
    corpus.write(tmp_path, 60, SEED, threads=2)
    assert tree(tmp_path) == tree(made)


def test_list_of_files_is_complete_and_true(made: Path) -> None:
    listed = {path: digest for digest, path in (line.split("  ") for line in (made / "files.sha256").read_text().splitlines())}
    assert listed == {path: digest for path, digest in tree(made).items() if "/" in path}


def test_readers_yield_exactly_the_trajectories_of_the_truth(made: Path) -> None:
    truth = lines(made / "truth.jsonl")
    assert len(truth) == 60
    for name in FORMATS:
        records = list(reader(name).read(made / name, {}))
        found = sorted(r.native_id for r in records if isinstance(r, Trajectory))
        assert found == sorted(t["native_id"] for t in truth if t["format"] == name)
        for r in records:
            if isinstance(r, Trajectory) and name in ("agentrewardbench", "osworld", "plain"):
                (one,) = (t for t in truth if t["format"] == name and t["native_id"] == r.native_id)
                assert one["evidence_step"] is None or one["evidence_step"] < len(r.steps)


def test_faults_are_listed_and_small_corpora_have_none(made: Path, tmp_path: Path) -> None:
    faults = lines(made / "faults.jsonl")
    assert {fault["format"] for fault in faults} == {*FORMATS, control.FOLDER}
    skipped = [r for name in FORMATS for r in reader(name).read(made / name, {}) if isinstance(r, Skipped)]
    assert {"bad_json", "error_only", "invalid"} <= {r.reason for r in skipped}
    corpus.write(tmp_path, 20, SEED)
    assert not (tmp_path / "faults.jsonl").exists()


def test_tasks_state_the_references(made: Path) -> None:
    for name in ("agentrewardbench", "osworld"):
        tasks = {t["task_id"]: t["reference"] for t in lines(made / f"{name}-tasks.jsonl")}
        for d, e in episodes(SEED, 60):
            if d.format == name:
                assert e.task.reference in tasks.values()
        read = {r.task_id for r in reader(name).read(made / name, {}) if isinstance(r, Trajectory)}
        assert read == set(tasks)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**40))
def test_any_seed_makes_a_corpus_whose_pictures_open(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tiny")
    assert corpus.write(folder, 7, seed)["trajectories"] == 7 == len(lines(folder / "truth.jsonl"))
    for path in sorted(folder.rglob("*.png")):
        with Image.open(path) as image:
            image.load()
            assert image.width == 640 and image.height in (400, 442)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**40), index=st.integers(0, 2000))
def test_any_trajectory_can_be_acted_out(seed: int, index: int) -> None:
    d = deal(index, FORMATS)
    e = make(d, seed)
    assert 4 <= len(e.steps) <= 16 and e.planted == d.planted and e.lookalike == d.lookalike


# The command


def test_command_writes_a_manifest_and_chosen_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["simulate", "--trajectories", "4", "--seed", "3", "--formats", "plain,osworld", "--out", str(out)]) == 0
    assert "4 trajectories" in capsys.readouterr().out
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["counts"]["read"] == manifest["counts"]["kept"] == 4 and manifest["seed"] == 3
    assert set(manifest["files"]) == {"truth.jsonl", "osworld-tasks.jsonl", "files.sha256"}
    assert not (out / "mind2web").exists()


@pytest.mark.parametrize(("option", "value"), [("--formats", "webarena"), ("--trajectories", "0")])
def test_command_refuses_nonsense_in_one_line(option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", option, value, "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not list((tmp_path / "out").glob("*"))
