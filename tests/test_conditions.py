"""Conditions: what each sends, word for word and byte for byte; and who lends pictures to whom."""

import base64
import json
from io import BytesIO
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pixels
from test_infer import GOOD, PICTURES, PROMPT_SET, by_instance, command, reply, serve, settings_for, write_probes  # noqa: F401

from evoaudit import config, prompts, store
from evoaudit.__main__ import main
from evoaudit.conditions import CONDITIONS, NAMES, TASKS, donors
from evoaudit.errors import InputError
from evoaudit.infer import base
from evoaudit.infer.builtin import NAMES as SOLVERS
from evoaudit.infer.builtin import Solver
from evoaudit.infer.journal import NAME
from evoaudit.infer.predict import Questions, predict


def item(instance: str, images: list[str], **more: object) -> dict:
    row = {"trajectory_id": f"t-{instance}", "source": "src", "domain": "dom", "website": None, "goal": f"goal of {instance}"}
    return {"instance_id": instance, **row, "images": images, "slice": "x", "stream": "x", "simulated": False, **more}


#: Two items a task; no picture is in both.
PROBES = {
    "t1": [
        item("i-a", ["p0", "p1", "p2"], steps=[0, 1, 2], answer=[1, 2, 3]),
        item("i-b", ["q0", "q1", "q2"], steps=[0, 1, 2], answer=[3, 2, 1]),
    ],
    "t2": [
        item("i-c", ["p0", "p1"], step=0, answer_action="type", answer_value="secret", value_in_goal=False),
        item("i-d", ["q0", "q1"], step=0, answer_action="click", answer_value="", value_in_goal=False),
    ],
    "t3": [
        item("i-e", ["p0", "p1", "p2"], step=0, answer="A", distractor_trajectory="d", distractor_step=1),
        item("i-f", ["q0", "q1", "q2"], step=0, answer="B", distractor_trajectory="d", distractor_step=1),
    ],
}
ITEMS = {row["instance_id"]: (task, row) for task, rows in PROBES.items() for row in rows}
PARTNER = {"i-a": "i-b", "i-b": "i-a", "i-c": "i-d", "i-d": "i-c", "i-e": "i-f", "i-f": "i-e"}
SCREENS = type(PICTURES)(
    {f"{letter}{n}": Pixels.new("RGB", (40 + n, 30), (number * 90 + 60, n * 40, 7)) for number, letter in enumerate("pq") for n in range(3)}
)


def sent(body: dict) -> tuple[str, list[bytes]]:
    """Return the words and the decoded pictures of one request."""
    contents = [message["content"] for message in body["messages"]]
    parts = [part for one in contents for part in ([{"type": "text", "text": one}] if isinstance(one, str) else one)]
    words = "\n".join(part["text"] for part in parts if part["type"] == "text")
    return words, [base64.b64decode(part["image_url"]["url"].split(",")[1]) for part in parts if part["type"] == "image_url"]


@pytest.mark.parametrize("condition", NAMES)
def test_what_arrives_at_the_service_under_each_condition(serve, tmp_path, condition):  # noqa: F811
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    settings = settings_for(endpoint, condition=condition)
    rows = predict(settings, PROBES, SCREENS, PROMPT_SET, out=tmp_path, seed=5)
    expected = {name for name, (task, _) in ITEMS.items() if condition != "after_only" or task == "t2"}
    # Where neither goal nor pictures are shown, the two items of a task are one request.
    calls = len(expected) // 2 if condition == "metadata" else len(expected)
    assert {row["instance_id"] for row in rows} == expected and len(endpoint.calls) == calls
    for body in endpoint.calls:
        words, pictures = sent(body)
        assert "secret" not in words
        if condition == "metadata":
            assert "goal of" not in words and '"src"' in words and '"dom"' in words and not pictures
            continue
        name = next(name for name in ITEMS if f"goal of {name}" in words)
        own, others = ITEMS[name][1]["images"], ITEMS[PARTNER[name]][1]["images"]
        assert '"src"' not in words and '"dom"' not in words
        if condition == "text_only_goal":
            assert not pictures
        elif condition == "black":
            assert [Pixels.open(BytesIO(one)).size for one in pictures] == [SCREENS.size(image) for image in own]
            assert all(Pixels.open(BytesIO(one)).convert("L").getextrema() == (0, 0) for one in pictures)
        elif condition == "after_only":
            assert pictures == [SCREENS.get(own[1])] and "after the action:" in words and "Screenshot before the action:" not in words
        else:
            assert pictures == [SCREENS.get(image) for image in (others if condition == "shuffled_images" else own)]
    lent = {row["instance_id"]: row["pictures_of"] for row in rows}
    assert lent == ({name: PARTNER[name] for name in expected} if condition == "shuffled_images" else dict.fromkeys(expected))
    # Nothing else differs between asking again and not: all of it is in the journal.
    assert predict(settings, {task: rows[::-1] for task, rows in PROBES.items()}, SCREENS, PROMPT_SET, out=tmp_path, seed=5) == rows
    assert len(endpoint.calls) == calls


def test_number_and_options_are_told_where_no_picture_is():
    words = {
        task: prompts.render(PROMPT_SET[task], PROBES[task][0], condition="text_only_goal")[1].parts[0].text for task in ("t1", "t2", "t3")
    }
    assert "1 to 3" in words["t1"] and '"click", "type", "select"' in words["t2"] and "A and B" in words["t3"]


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "ocr-difference"])
@pytest.mark.parametrize("condition", NAMES)
def test_a_solver_answers_from_what_a_model_is_shown(solver, condition):
    asked: set[str] = set()

    class Watched:
        def get(self, image_id: str) -> bytes:
            asked.add(image_id)
            return SCREENS.get(image_id)

        def size(self, image_id: str) -> tuple[int, int]:
            return SCREENS.size(image_id)

    lender = {"donor": PROBES["t2"][1]} if condition == "shuffled_images" else {}
    view = prompts.view("t2", PROBES["t2"][0], condition=condition, **lender)
    answer = Solver(solver, base.Attachments(Watched()), seed=1).answer(view, "i-c", 0)
    assert json.loads(answer)["action"] in ("click", "type", "select")
    shown = {"full": {"p0", "p1"}, "shuffled_images": {"q0", "q1"}, "after_only": {"p1"}}
    assert asked <= shown.get(condition, set())
    if solver == "image-similarity" and condition in ("black", "metadata", "text_only_goal", "after_only"):
        assert json.loads(answer) == {"action": "click", "value": "", "confidence": 0.5}


items = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 4), st.lists(st.integers(0, 12), min_size=1, max_size=4, unique=True)), max_size=24
).map(
    lambda drawn: [
        {"instance_id": f"i{n}", "trajectory_id": f"t{trajectory}", "images": [f"p{trajectory}.{k}" for k in images[:width]]}
        for n, (trajectory, width, images) in enumerate(drawn)
    ]
)


@given(items, st.integers(0, 2**40), st.randoms(use_true_random=False))
def test_lending_is_one_to_one_among_equals_never_with_an_own_picture_whatever_the_order(rows, seed, random):
    found = donors("t1", rows, seed)
    known = {row["instance_id"]: row for row in rows}
    assert len(set(found.values())) == len(found)
    for taker, giver in found.items():
        assert len(known[taker]["images"]) == len(known[giver]["images"])
        assert not set(known[taker]["images"]) & set(known[giver]["images"])
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert donors("t1", shuffled, seed) == found
    # Nobody is left out who has a partner that nobody takes.
    free = known.keys() - set(found.values())
    for left in known.keys() - found.keys():
        for giver in free:
            alike = len(known[left]["images"]) == len(known[giver]["images"])
            assert not alike or set(known[left]["images"]) & set(known[giver]["images"])


@given(st.integers(2, 30), st.integers(0, 2**40))
def test_items_of_their_own_make_a_full_derangement(n, seed):
    rows = [{"instance_id": f"i{k}", "trajectory_id": f"t{k}", "images": [f"a{k}", f"b{k}"]} for k in range(n)]
    found = donors("t2", rows, seed)
    assert found.keys() == set(found.values()) == {f"i{k}" for k in range(n)} and all(a != b for a, b in found.items())


def test_lenders_come_from_other_trajectories_where_there_are_any():
    rows = [{"instance_id": f"i{k}", "trajectory_id": f"t{k % 5}", "images": [f"a{k}"]} for k in range(100)]
    assert all(int(giver[1:]) % 5 != int(taker[1:]) % 5 for taker, giver in donors("t1", rows, 3).items())


def test_seeds_and_tasks_shuffle_differently_and_one_item_more_moves_few():
    rows = [{"instance_id": f"i{k}", "trajectory_id": f"t{k}", "images": [f"a{k}"]} for k in range(200)]
    found = donors("t1", rows, 1)
    assert sum(found[name] == giver for name, giver in donors("t1", rows, 2).items()) < 10
    assert sum(found[name] == giver for name, giver in donors("t3", rows, 1).items()) < 10
    more = donors("t1", [*rows, {"instance_id": "new", "trajectory_id": "n", "images": ["n"]}], 1)
    assert sum(more[name] != giver for name, giver in found.items()) == 1


def test_lending_stays_quick_where_most_have_no_partner():
    rows = [{"instance_id": f"i{k}", "trajectory_id": "t", "images": ["same" if k % 4 else f"a{k}", f"b{k}"]} for k in range(1600)]
    found = donors("t2", rows, 1)
    # The 1,200 that share a picture can only borrow from the 400 that do not.
    assert len(found) == 800 and len(set(found.values())) == 800


def test_an_item_without_a_lender_is_unanswered_with_the_reason(serve, tmp_path):  # noqa: F811
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    lone = {"t1": [PROBES["t1"][0]], "t2": [], "t3": PROBES["t3"]}
    for settings in (settings_for(endpoint), {**settings_for(None), "provider": "builtin", "model": "majority"}):
        rows = predict({**settings, "condition": "shuffled_images"}, lone, SCREENS, PROMPT_SET, out=tmp_path, seed=5)
        assert by_instance(rows, "status") == {"i-a": "picture_missing", "i-e": "ok", "i-f": "ok"}
        assert by_instance(rows, "error")["i-a"] == "no other T1 item has 3 pictures to lend that are not this one's"
    assert len(endpoint.calls) == 2


def test_who_lends_depends_neither_on_the_replicate_nor_on_what_is_left_to_ask(serve, tmp_path):  # noqa: F811
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    settings = settings_for(endpoint, condition="shuffled_images", concurrency=1)
    rows = predict(settings, PROBES, SCREENS, PROMPT_SET, out=tmp_path, seed=5)
    first = [json.dumps(body) for body in endpoint.calls]
    journal = tmp_path / NAME
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:2]))
    again = predict(settings, PROBES, SCREENS, PROMPT_SET, out=tmp_path, seed=5)
    assert [{**row, "latency_s": None} for row in again] == [{**row, "latency_s": None} for row in rows]
    assert len(endpoint.calls) == 10 and {json.dumps(body) for body in endpoint.calls[6:]} <= set(first)
    lent = {one.identity: one.donor["instance_id"] for one in Questions(PROBES, 2, "shuffled_images", 5)}
    assert all(lent[0, task, name] == lent[1, task, name] == PARTNER[name] for name, (task, _) in ITEMS.items())


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"inference": {"conditions": ["full", "text_only_goal"], "goal": "withheld"}}, "inference: text_only_goal shows the goal"),
        (
            {
                "inference": {"goal": "withheld"},
                "models": [{"name": "m", "provider": "builtin", "model": "random", "conditions": ["text_only_goal"]}],
            },
            "model 'm': text_only_goal shows the goal",
        ),
        ({"inference": {"conditions": ["blurred"]}}, "conditions"),
    ],
)
def test_a_goal_that_is_shown_and_withheld_is_refused_before_anything_runs(tree, words):
    with pytest.raises(InputError, match=words):
        config.check(tree)
    config.check({"inference": {"conditions": ["text_only_goal"]}})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"condition": "text_only_goal", "goal": "withheld"}, "cannot be asked with inference.goal 'withheld'"),
        ({"condition": "shuffled_images", "provider": "builtin", "model": "majority"}, "needs a seed"),
        ({"condition": "after_only"}, "--images"),
    ],
)
def test_the_stage_refuses_in_one_line(tmp_path, capsys, monkeypatch, change, words):
    monkeypatch.setenv("EVOAUDIT_TEST_KEY", "sk-x")
    mined = write_probes(tmp_path / "mined", PROBES)
    assert main(command({**settings_for(None), "base_url": "http://127.0.0.1:9/v1", **change}, mined, tmp_path / "out")) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and words in error


def test_prompts_without_a_condition_s_words_cannot_ask_it(tmp_path):
    for path in (Path(__file__).parents[1] / "resources/prompts/evogui-v1").glob("*.yaml"):
        data = yaml.safe_load(path.read_text())
        data.pop("after_only", None)
        (tmp_path / path.name).write_text(yaml.safe_dump(data))
    bare = prompts.load(tmp_path)
    prompts.check(bare, "text_only_goal")
    with pytest.raises(InputError, match=r"have no 'after_only' in t2.yaml"):
        prompts.check(bare, "after_only")
    (tmp_path / "t1.yaml").write_text((tmp_path / "t1.yaml").read_text() + "after_only: x\n")
    with pytest.raises(InputError, match="is not asked of T1"):
        prompts.load(tmp_path)


def test_tasks_a_condition_does_not_ask_have_no_scores(tmp_path):
    mined = write_probes(tmp_path / "mined", PROBES)
    settings = {**settings_for(None), "name": "majority", "provider": "builtin", "model": "majority", "condition": "after_only"}
    assert main(command(settings, mined, tmp_path / "out")) == 0
    assert main(["score", "--mined", str(mined), "--predictions", str(tmp_path / "out/manifest.json"), "--out", str(tmp_path / "s")]) == 0
    rows = store.read_rows(tmp_path / "s", "scores")
    assert {(row["task"], row["status"]) for row in rows} == {("t2", "answered")} and len(rows) == 2


def test_the_one_list_is_complete():
    assert NAMES == ("full", "black", "metadata", "text_only_goal", "shuffled_images", "after_only")
    assert len({one.label for one in CONDITIONS.values()}) == len(NAMES)
    assert all(set(one.tasks) <= set(TASKS) and one.tasks for one in CONDITIONS.values())
