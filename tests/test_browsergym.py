"""BrowserGym and AgentLab: what comes out of studies, real and made, and of broken ones."""

import gzip
import io
import json
import os
import pickle
import random
import shutil
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_pickles import dumps, foreign, write
from PIL import Image

from evoaudit import normalise, store
from evoaudit.actions import OPS
from evoaudit.align import align
from evoaudit.sources import browsergym, reader
from evoaudit.sources.base import Oracle, Picture, Skipped, Target, Trajectory

SHARED = Path(os.environ.get("EVOAUDIT_SHARED", Path(__file__).parents[2] / "shared"))
REAL = SHARED / "data" / "agentlab" / "tests" / "data"


# -- real episodes --------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not REAL.exists(), reason="reference data absent")
def test_real_studies_give_these_rows() -> None:
    found = list(browsergym.read(REAL, {}))
    study = "error_analysis/2025-01-22_11-03-29_GenericAgent-gpt-4o-mini_on_miniwob"
    old = "test_study/2024-08-01_10-20-52_GenericAgent_on_miniwob.ascending-numbers"
    assert [getattr(record, "native_id", None) or (record.item, record.reason) for record in found] == [
        f"{study}.click-checkboxes_20",
        f"{study}.click-checkboxes_7",
        f"{study}.click-dialog_14",
        f"{study}.click-dialog_28",
        (f"{old}_64_e6d2d5", "crashed"),
        (f"{old}_68_b6312d", "no_steps"),
    ]
    assert "There was a very very bad error" in found[4].detail
    first = found[0]
    assert (first.benchmark, first.task_id, first.task_revision) == ("miniwob", "miniwob.click-checkboxes", "seed 20")
    assert (first.agent, first.experiment, first.obs_phase) == ("GenericAgent-gpt-4o-mini", "error_analysis", "before")
    assert first.instruction == "Select SQkB, ug and click Submit." and first.skipped == []
    assert first.oracles == [Oracle("miniwob", 1.0, "pass")]
    assert [(step.op, step.op_raw, step.source_step) for step in first.steps] == [
        ("click", "click('18')", "0"),
        ("click", "click('30')", "1"),
        ("click", "click('33')", "2"),
    ]
    assert [step.target for step in first.steps] == [
        Target(16.0, 61.5, 6.0, 55.0, 20.0, 13.0, "checkbox 'SQkB', clickable, visible, checked='false'"),
        Target(16.0, 137.5, 6.0, 131.0, 20.0, 13.0, "checkbox 'ug', clickable, visible, checked='false'"),
        Target(49.7421875, 173.5, 2.0, 158.0, 95.484375, 31.0, "button 'Submit', clickable, visible"),
    ]
    assert first.steps[0].reasoning.startswith('I need to select the checkboxes for "SQkB" and "ug"')
    assert first.steps[0].url == first.final_url == "file:///home/t/miniwob-plusplus/miniwob/html/miniwob/click-checkboxes.html"
    assert first.steps[0].timestamp == pytest.approx(1737561833.649, abs=0.01)
    lines = first.final_text.splitlines()
    assert lines[0] == "RootWebArea 'Click Checkboxes Task'" and "checkbox 'ug', clickable, visible, checked='true'" in lines
    assert [len(record.steps) for record in found[:4]] == [3, 2, 1, 1]
    assert {step.error for record in found[:4] for step in record.steps} == {None} and found[
        2
    ].final_text == "RootWebArea 'Click Dialog Task'"


# -- made episodes --------------------------------------------------------------------------------------------------------

FOLDER = "study/2025-01-22_11-03-29_GenericAgent-gpt-4o_on_webarena.7_3"


def node(number: int, role: str, name: str = "", children: tuple[int, ...] = (), bid: str | None = None, ignored: bool = False) -> dict:
    made = {"nodeId": str(number), "ignored": ignored, "role": {"type": "role", "value": role}, "name": {"value": name}}
    return made | {"childIds": [str(child) for child in children]} | ({"browsergym_id": bid} if bid else {})


TREE = {
    "nodes": [
        node(1, "RootWebArea", "Shop", (2, 9)),
        node(2, "none", "", (3, 5), ignored=True),
        node(9, "button", "Buy", bid="a9"),
        node(3, "generic", "", (4,), bid="a3"),
        node(4, "link", "Tea", (6,), bid="a4"),
        node(5, "textbox", "Search\nhere", bid="a5"),
        node(6, "StaticText", "Tea", (7,)),
        node(7, "InlineTextBox", "Tea"),
    ]
}
BOXES = {
    "a4": {"visibility": 1.0, "bbox": [10, 20.5, 30, 9], "clickable": True, "set_of_marks": True},
    "a9": {"visibility": 1.0, "bbox": None, "clickable": True, "set_of_marks": True},
}


def info(number: int, action: str | None, error: str = "", **obs: Any) -> Any:
    seen = {
        "chat_messages": [{"role": "assistant", "message": "Hi!"}, {"role": "user", "timestamp": 1.0, "message": "Buy tea."}],
        "goal": "Buy tea.",
        "goal_object": ({"type": "text", "text": "Buy tea."},),
        "open_pages_urls": ("http://shop.example/",),
        "active_page_index": np.array([0]),
        "url": f"http://shop.example/{number}",
        "dom_object": {"documents": []},
        "axtree_object": TREE,
        "extra_element_properties": BOXES,
        "last_action_error": error,
        "elapsed_time": np.array([1.5]),
    } | obs
    agent = foreign("browsergym.experiments.agent.AgentInfo", think=f"thought {number}", chat_messages=None, stats={}) if action else {}
    times = foreign("browsergym.experiments.loop.StepTimestamps", agent_start=10.0 * number, agent_stop=10.0 * number + 1 if action else 0)
    return foreign(
        "browsergym.experiments.loop.StepInfo",
        step=number,
        obs=seen,
        reward=0,
        terminated=action is None,
        truncated=False,
        action=action,
        agent_info=agent,
        profiling=times,
    )


def args(task: str = "webarena.7", seed: int = 3, agent: str | None = "GenericAgent-gpt-4o", model: str = "openai/gpt-4o") -> Any:
    chat = foreign("agentlab.llm.chat_api.OpenRouterModelArgs", model_name=model)
    agent_args = foreign("agentlab.agents.generic_agent.generic_agent.GenericAgentArgs", agent_name=agent, chat_model_args=chat)
    env_args = foreign("browsergym.experiments.loop.EnvArgs", task_name=task, task_seed=seed, max_steps=5)
    return foreign(
        "browsergym.experiments.loop.ExpArgs", agent_args=agent_args, env_args=env_args, exp_dir=Path("/home/me/results/s/e"), err_msg=None
    )


def png(path: Path, number: int, size: tuple[int, int] = (64, 48)) -> None:
    Image.fromarray(screen(number, size)).save(path)


def screen(number: int, size: tuple[int, int] = (64, 48)) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (size[1], size[0], 3), dtype="u1")


ACTIONS = ["click('a4')", "fill('a5', 'green tea')", "click('a9')", "send_msg_to_user('Done: 5 €')"]


def made(
    root: Path, folder: str = FOLDER, actions: list[str | None] | None = None, summary: dict | None = None, shots: bool = True
) -> Path:
    """Write an episode: four actions, the second of which fails, and the screen at the end."""
    place = root / folder
    actions = [*ACTIONS, None] if actions is None else actions
    write(place / "exp_args.pkl", args())
    write(
        place / "goal_object.pkl.gz",
        [{"type": "text", "text": "Buy tea"}, {"type": "image_url", "image_url": "…"}, {"type": "text", "text": "now."}],
    )
    for number, action in enumerate(actions):
        write(place / f"step_{number}.pkl.gz", info(number, action, "Error: not found" if number == 2 else ""))
        if shots:
            png(place / f"screenshot_step_{number}.png", number)
    whole = {"n_steps": 4, "cum_reward": 1.0, "cum_raw_reward": 0, "err_msg": None, "terminated": True, "truncated": False}
    (place / "summary_info.json").write_text(json.dumps(whole | (summary or {})))
    return place


def one(root: Path, **options: Any) -> Any:
    found = list(browsergym.read(root, options))
    assert len(found) == 1
    return found[0]


def test_an_episode_gives_these_rows(tmp_path: Path) -> None:
    made(tmp_path)
    found = one(tmp_path)
    assert isinstance(found, Trajectory) and found.skipped == []
    assert (found.native_id, found.source_file, found.obs_phase) == (FOLDER, f"{FOLDER}/step_0.pkl.gz", "before")
    assert (found.benchmark, found.task_id, found.task_revision) == ("webarena", "webarena.7", "seed 3")
    assert (found.agent, found.experiment, found.website) == ("GenericAgent-gpt-4o", "study", "shop.example")
    assert (found.instruction, found.answer) == ("Buy tea\nnow.", "Done: 5 €")
    assert found.oracles == [Oracle("webarena", 1.0, "pass")]
    assert [(step.op, step.op_raw, step.value, step.source_step) for step in found.steps] == [
        ("click", "click('a4')", None, "0"),
        ("type", "fill('a5', 'green tea')", "green tea", "1"),
        ("click", "click('a9')", None, "2"),
        ("answer", "send_msg_to_user('Done: 5 €')", "Done: 5 €", "3"),
    ]
    assert [step.target for step in found.steps] == [
        Target(25.0, 25.0, 10.0, 20.5, 30.0, 9.0, "link 'Tea'"),
        Target(text="textbox 'Search here'"),
        Target(text="button 'Buy'"),
        None,
    ]
    assert [step.error for step in found.steps] == [None, "Error: not found", None, None]
    assert [step.reasoning for step in found.steps] == ["thought 0", "thought 1", "thought 2", "thought 3"]
    assert [step.timestamp for step in found.steps] == [1.0, 11.0, 21.0, 31.0]
    assert [step.url for step in found.steps] == [f"http://shop.example/{number}" for number in range(4)]
    assert found.final_url == "http://shop.example/4"
    assert found.steps[0].page_text == found.final_text == "RootWebArea 'Shop'\nlink 'Tea'\ntextbox 'Search here'\nbutton 'Buy'"


def test_screen_k_is_before_action_k_and_the_last_is_the_end(tmp_path: Path) -> None:
    place = made(tmp_path)
    png(place / "screenshot_som_step_0.png", 99)
    shown = [(pair.before, pair.after) for pair in align(one(tmp_path))]
    names = [Picture(f"{FOLDER}/screenshot_step_{number}.png") for number in range(5)]
    assert shown == list(pairwise(names))


def test_the_agents_own_tree_comes_before_ours(tmp_path: Path) -> None:
    text = "RootWebArea 'Shop', focused\n\t[a4] link 'Tea', clickable, visible\n\t[a9] button 'Buy', visible"
    write(tmp_path / FOLDER / "step_0.pkl.gz", info(0, "click('a4')", axtree_txt=text))
    step = one(tmp_path).steps[0]
    assert step.target.text == "link 'Tea', clickable, visible"
    assert step.page_text == "RootWebArea 'Shop'\nlink 'Tea', clickable, visible\nbutton 'Buy', visible"


def test_a_screen_inside_the_pickle_is_used_where_there_is_no_file(tmp_path: Path) -> None:
    for number, action in enumerate(["click('a4')", None]):
        write(tmp_path / FOLDER / f"step_{number}.pkl.gz", info(number, action, screenshot=screen(number)))
    found = one(tmp_path)
    for picture, number in ((found.steps[0].before, 0), (found.final, 1)):
        assert picture.file.endswith(f"step_{number}.pkl.gz") and picture.member.startswith("screenshot@")
        data = reader("browsergym").load(tmp_path, picture.file, picture.member)
        with Image.open(io.BytesIO(data)) as image:
            assert np.array_equal(np.asarray(image), screen(number))


def test_boxes_follow_a_screen_of_twice_the_density(tmp_path: Path) -> None:
    boxes = BOXES | {"0": {"bbox": [0, 0, 64, 48]}}
    write(tmp_path / FOLDER / "step_0.pkl.gz", info(0, "click('a4')", extra_element_properties=boxes))
    png(tmp_path / FOLDER / "screenshot_step_0.png", 0, (128, 96))
    assert one(tmp_path).steps[0].target == Target(50.0, 50.0, 20.0, 41.0, 60.0, 18.0, "link 'Tea'")


def test_jpeg_screens_and_unpacked_steps_of_older_studies_are_read(tmp_path: Path) -> None:
    for number in (2, 10, 9):
        write(tmp_path / FOLDER / f"step_{number}.pkl", info(number, "noop()" if number < 10 else None))
        (tmp_path / FOLDER / f"screenshot_step_{number}.jpg").write_bytes(b"\xff\xd8\xff")
    found = one(tmp_path)
    assert [step.source_step for step in found.steps] == ["2", "9"] and found.steps[0].op == "wait"
    assert found.steps[1].before == Picture(f"{FOLDER}/screenshot_step_9.jpg") and found.final == Picture(
        f"{FOLDER}/screenshot_step_10.jpg"
    )
    assert [pair.lost for pair in align(found)] == ["step_gap", None]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"agent": "GenericAgent", "model": "gpt-35-turbo"}, "GenericAgent-gpt-35-turbo"),
        ({"agent": "GenericAgent-gpt-4o", "model": "openai/gpt-4o"}, "GenericAgent-gpt-4o"),
        ({"agent": "GenericAgent-meta-llama_Llama-3", "model": "meta-llama/Llama-3"}, "GenericAgent-meta-llama_Llama-3"),
        ({"agent": None, "model": "gpt-4o"}, "gpt-4o"),
    ],
)
def test_an_agents_name_says_its_model(given: dict, expected: str, tmp_path: Path) -> None:
    place = made(tmp_path)
    write(place / "exp_args.pkl", args(**given))
    assert one(tmp_path).agent == expected


@pytest.mark.parametrize(
    ("name", "agent", "task", "seed"),
    [
        ("2025-01-22_11-03-29_GenericAgent-gpt-4o_on_miniwob.click-dialog_14", "GenericAgent-gpt-4o", "miniwob.click-dialog", "seed 14"),
        ("2024-08-01_10-20-52_GenericAgent_on_miniwob.use-slider_64_e6d2d5", "GenericAgent", "miniwob.use-slider", "seed 64"),
        ("2024-08-01_10-20-52_A_on_workarena.servicenow.sort_list_0_123456", "A", "workarena.servicenow.sort_list", "seed 0"),
        ("some folder", None, None, None),
    ],
)
def test_without_its_arguments_the_folders_name_describes_an_episode(name: str, agent: str, task: str, seed: str, tmp_path: Path) -> None:
    place = made(tmp_path, name)
    (place / "exp_args.pkl").unlink()
    found = one(tmp_path)
    assert (found.agent, found.task_id, found.task_revision, found.experiment) == (agent, task, seed, None)
    (place / "exp_args.pkl").write_bytes(b"junk")
    found = one(tmp_path)
    assert (found.agent, found.task_id) == (agent, task) and [note[:3] for note in found.skipped] == [
        ("row", f"{name}/exp_args.pkl", "bad_pickle")
    ]


def test_superseded_episodes_are_counted_not_read(tmp_path: Path) -> None:
    made(tmp_path)
    made(tmp_path, "study/_2025-01-22_11-00-00_GenericAgent-gpt-4o_on_webarena.7_3")
    made(tmp_path, "_old/x")
    found = list(browsergym.read(tmp_path, {}))
    assert [(type(record).__name__, getattr(record, "reason", None)) for record in found] == [
        ("Skipped", "superseded"),
        ("Trajectory", None),
        ("Skipped", "superseded"),
    ]


@pytest.mark.parametrize(
    ("summary", "oracle"),
    [
        ({"cum_reward": 0.0}, Oracle("webarena", 0.0, "fail")),
        ({"cum_reward": 0.5}, Oracle("webarena", 0.5, "fail")),
        ({"cum_reward": 0.51}, Oracle("webarena", 0.51, "pass")),
        ({"cum_reward": 0.0, "err_msg": "Timeout"}, Oracle("webarena", 0.0, "error", "harness_error")),
        ({"cum_reward": 1.0, "err_msg": "Timeout"}, Oracle("webarena", 1.0, "pass")),
        ({"cum_reward": None}, Oracle("webarena", None, "unscored", "no_reward")),
        ({"cum_reward": float("nan")}, Oracle("webarena", None, "unscored", "no_reward")),
        ({"cum_reward": 0.0, "truncated": True}, Oracle("webarena", 0.0, "fail")),
    ],
)
def test_a_reward_becomes_a_verdict(summary: dict, oracle: Oracle, tmp_path: Path) -> None:
    made(tmp_path, summary=summary)
    assert one(tmp_path).oracles == [oracle]


def test_without_a_summary_there_is_no_verdict(tmp_path: Path) -> None:
    place = made(tmp_path)
    (place / "summary_info.json").write_text("{")
    found = one(tmp_path)
    assert found.oracles == [Oracle("webarena", None, "unscored", "bad_json")] and found.skipped[0][2] == "bad_json"
    (place / "summary_info.json").unlink()
    assert one(tmp_path).oracles == [Oracle("webarena", None, "unscored", "no_summary")]


def test_a_step_that_cannot_be_read_is_noted_and_leaves_a_gap(tmp_path: Path) -> None:
    place = made(tmp_path)
    (place / "step_1.pkl.gz").write_bytes(gzip.compress(b"junk"))
    write(place / "step_2.pkl.gz", {"no": "observation"})
    found = one(tmp_path)
    assert [step.source_step for step in found.steps] == ["0", "3"] and found.steps[1].gap_before
    assert [note[:3] for note in found.skipped] == [
        ("step", f"{FOLDER}/step_1.pkl.gz", "bad_pickle"),
        ("step", f"{FOLDER}/step_2.pkl.gz", "bad_record"),
    ]
    assert found.steps[0].error is None and align(found)[0].after is None
    for name in ("step_0.pkl.gz", "step_3.pkl.gz", "step_4.pkl.gz"):
        (place / name).write_bytes(b"")
    found = one(tmp_path)
    assert found.steps == [] and len(found.skipped) == 5 and found.oracles[0].verdict == "pass"


def test_an_end_that_does_not_follow_shows_no_effect(tmp_path: Path) -> None:
    place = made(tmp_path)
    (place / "step_3.pkl.gz").unlink()
    found = one(tmp_path)
    assert (
        [step.source_step for step in found.steps] == ["0", "1", "2"] and found.final is None and found.final_url == "http://shop.example/4"
    )
    assert found.steps[2].error is None


def test_a_run_that_broke_off_ends_with_an_action(tmp_path: Path) -> None:
    made(tmp_path, actions=["click('a4')", None, "click('a9')"], summary={"cum_reward": 0, "err_msg": "boom"})
    found = one(tmp_path)
    assert [step.source_step for step in found.steps] == ["0", "2"] and found.final is None
    assert found.skipped == [("step", f"{FOLDER}/step_1.pkl.gz", "no_action", "a record without an action before the last")]
    assert found.oracles[0].status == "harness_error"


def test_goals_are_found_where_they_are(tmp_path: Path) -> None:
    place = made(tmp_path)
    (place / "goal_object.pkl.gz").unlink()
    assert one(tmp_path).instruction == "Buy tea."
    for field, value in (("goal_object", None), ("goal", None)):
        write(place / "step_0.pkl.gz", info(0, "click('a4')", **{"goal_object": None, field: value}))
        assert one(tmp_path).instruction == "Buy tea."


def test_reasoning_falls_back_on_the_last_message(tmp_path: Path) -> None:
    step = info(0, "click('a4')")
    said = foreign("agentlab.llm.llm_utils.AIMessage", dict)
    said |= {"role": "assistant", "content": [{"type": "text", "text": "<think>so</think>"}, {"type": "image_url"}]}
    talk = foreign("agentlab.llm.llm_utils.Discussion", messages=[{"role": "user", "content": "?"}, said])
    step.agent_info = foreign("browsergym.experiments.agent.AgentInfo", think=None, chat_messages=talk)
    write(tmp_path / FOLDER / "step_0.pkl.gz", step)
    assert one(tmp_path).steps[0].reasoning == "<think>so</think>"


def test_options_select_benchmarks_agents_and_files(tmp_path: Path) -> None:
    made(tmp_path, "s1/a")
    made(tmp_path, "s2/b")
    write(tmp_path / "s2/b/exp_args.pkl", args("miniwob.click-test", 1, "Other", "gpt-4o"))

    def read(**options: Any) -> list[str]:
        return [found.native_id for found in browsergym.read(tmp_path, options)]

    assert read() == ["s1/a", "s2/b"]
    assert read(benchmarks=["miniwob"]) == ["s2/b"] and read(agents=["Generic*"]) == ["s1/a"] and read(files=["s2/*"]) == ["s2/b"]
    assert read(benchmarks=["none"]) == read(agents=["none"]) == read(files=["none"]) == []


def test_a_tree_that_names_itself_or_one_child_very_often_ends(tmp_path: Path) -> None:
    children = [str(number) for number in range(5_000)]
    nodes = [{"nodeId": str(number), "role": {"value": "link"}, "name": {"value": "x"}, "childIds": children} for number in range(5_000)]
    long = [{"type": "text", "text": "y" * 100_000}] * 900
    write(tmp_path / FOLDER / "step_0.pkl.gz", info(0, "click('a4')", axtree_object={"nodes": nodes}, goal_object=long))
    start = time.process_time()
    found = one(tmp_path)
    assert len(found.steps[0].page_text) <= 4_000 and len(found.instruction) <= 300_000
    assert time.process_time() - start < 20


def test_damaged_steps_end_as_records_or_notes(tmp_path: Path) -> None:
    place = made(tmp_path, actions=["click('a4')", None], shots=False)
    data = dumps(info(0, "click('a4')", screenshot=screen(0)))
    draw = random.Random(5)
    start = time.process_time()
    for number in range(60):
        damaged = bytearray(data)
        for _ in range(draw.randint(1, 6)):
            damaged[draw.randrange(len(damaged) - 9_000 if draw.random() < 0.9 else len(damaged))] = draw.randrange(256)
        (place / "step_0.pkl.gz").write_bytes(gzip.compress(bytes(damaged), 1) if number % 2 else bytes(damaged))
        found = one(tmp_path)
        assert isinstance(found, Trajectory | Skipped)
        assert len(found.steps) + len(found.skipped) >= 1 and all(step.op in OPS for step in found.steps)
    assert time.process_time() - start < 30


def test_a_study_goes_through_normalising_with_its_pictures(tmp_path: Path) -> None:
    made(tmp_path / "in")
    made(tmp_path / "in", "study/_again")
    made(tmp_path / "in", "study/other", [None])
    out = tmp_path / "out"
    out.mkdir()
    counts = store.Counts("normalise")
    normalise.normalise(out, counts, normalise.Source("bg", "browsergym", tmp_path / "in"))
    assert [row["trajectory_id"] for row in store.read_rows(out, "trajectories")] == [f"bg:{FOLDER}"]
    assert counts.dropped["trajectory"] == {"superseded": 1, "no_steps": 1}
    steps = store.read_rows(out, "steps")
    assert len(steps) == 4 and all(row["before_image"] and row["after_image"] for row in steps)
    assert {row["state"] for row in store.read_rows(out, "changes")} == {"changed"}


@pytest.mark.skipif(not REAL.exists(), reason="reference data absent")
def test_a_real_study_with_foul_steps_is_still_counted(tmp_path: Path) -> None:
    study = tmp_path / "study"
    shutil.copytree(REAL / "error_analysis", study)
    for path in [study, *study.rglob("*")]:
        path.chmod(0o755)
    folder = next(path for path in sorted(study.iterdir()) if path.is_dir())
    (folder / "step_1.pkl.gz").write_bytes(gzip.compress(pickle.dumps(Touch(tmp_path / "canary"))))
    found = next(browsergym.read(study, {}))
    assert [note[2] for note in found.skipped] == ["bad_record"] and not (tmp_path / "canary").exists()
    assert [step.gap_before for step in found.steps] == [False, True]


class Touch:
    """An object whose pickle would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.system, (f"touch {self.path}",)
