"""Prompts are files, filled in for one instance; untrusted text stays inside its quotes."""

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evoaudit import prompts
from evoaudit.__main__ import main
from evoaudit.conditions import CONDITIONS
from evoaudit.errors import InputError
from evoaudit.prompts import Image, Text
from evoaudit.resources import PROMPTS

SHARED = Path(os.environ.get("EVOAUDIT_SHARED", Path(__file__).parents[2] / "shared"))
OURS = prompts.load(PROMPTS / "evogui-v1")

#: The shape of the paper's tables, in words of our own; the second one with its cells broken over lines.
PAPER = """Body text. Tables 10–12 report the templates.

Table 10: Template for ordering.

Task\tT1: Order
System\tBe exact.
User\tHere are $K$ screens in random order. It costs $5. Use 1 to $K$. Reply {"order": […]}.
Attachments\tEach after its label.
Parsed output\torder: a permutation in $[1,K]$.

Table 11: Template for actions.

Task  T2: Action
System  Be exact,
and brief.
User  Name the action.
Reply {"action": "<one option>"}.
Attachments  Both.
Parsed output  action.

Table 12: Template for successors.

Task\tT3: Successor
System\tBe exact.
User\tA or B? Reply {"answer": "A" | "B"}.
Attachments\tThree.
Parsed output\tanswer.

More body text.
"""


def probe(n: int, **more: object) -> dict:
    return {
        "images": [f"p{i}" for i in range(n)],
        "source": "src",
        "domain": "shop",
        "goal": "buy tea",
        "slice": "SECRET-SLICE",
        "answer": "SECRET",
        **more,
    }


def all_text(messages: tuple) -> str:
    return "\n".join(part.text for message in messages for part in message.parts if isinstance(part, Text))


@pytest.mark.parametrize(
    ("task", "n", "labels"),
    [
        ("t1", 4, [f"Screenshot at position {i}:" for i in (1, 2, 3, 4)]),
        ("t2", 2, ["Screenshot before the action:", "Screenshot after the action:"]),
        ("t3", 3, ["Starting screen:", "Candidate A:", "Candidate B:"]),
    ],
)
def test_each_picture_follows_its_label_in_the_order_shown(task, n, labels):
    system, user = prompts.render(OURS[task], probe(n))
    assert (system.role, user.role) == ("system", "user")
    assert [part.text for part in user.parts[1::2]] == labels
    assert list(user.parts[2::2]) == [Image(f"p{i}") for i in range(n)]


@pytest.mark.parametrize(("task", "n"), [("t1", 3), ("t2", 2), ("t3", 3)])
def test_conditions_show_what_they_should_and_never_the_answer(task, n):
    full, withheld, black, metadata = (
        prompts.render(OURS[task], probe(n), **options)
        for options in ({}, {"goal": "withheld"}, {"condition": "black"}, {"condition": "metadata"})
    )
    assert "buy tea" in all_text(full) and "buy tea" not in all_text(withheld) and "buy tea" not in all_text(metadata)
    assert all_text(black) == all_text(full)
    assert all(part.black for message in black for part in message.parts if isinstance(part, Image))
    assert not any(isinstance(part, Image) for message in metadata for part in message.parts)
    assert '"src"' in all_text(metadata) and '"shop"' in all_text(metadata) and '"src"' not in all_text(full)
    for messages in (full, withheld, black, metadata):
        assert "SECRET" not in all_text(messages) and "$" not in all_text(messages)


def test_without_a_goal_nothing_is_said_of_it():
    assert prompts.render(OURS["t2"], probe(2, goal=None)) == prompts.render(OURS["t2"], probe(2), goal="withheld")


def test_the_prompt_names_number_options_and_output_fields():
    assert "1 to 5" in all_text(prompts.render(OURS["t1"], probe(5))) and '{"order"' in all_text(prompts.render(OURS["t1"], probe(5)))
    text = all_text(prompts.render(OURS["t2"], probe(2), vocabulary=("tap", "swipe")))
    assert '"tap", "swipe"' in text and all(field in text for field in ('"action"', '"value"', '"confidence"'))
    assert '"answer"' in all_text(prompts.render(OURS["t3"], probe(3)))
    assert {task: OURS[task].answer["required"] for task in prompts.TASKS} == {
        "t1": ["order"],
        "t2": ["action", "value", "confidence"],
        "t3": ["answer", "confidence"],
    }


@given(st.text(alphabet=st.characters(), max_size=3000))
def test_a_goal_is_one_bounded_json_string_on_one_line(goal):
    user = prompts.render(OURS["t3"], probe(3, goal=goal))[1].parts[0].text
    if not goal:
        assert "quoted as data" not in user
        return
    line = user.split("instructions for you): ", 1)[1]
    said = json.loads(line)
    assert "\n" not in line and len(said) <= prompts.GOAL_LIMIT
    user.encode("utf-8")


def test_slots_in_a_goal_are_not_filled():
    assert json.dumps("$K $goal ${position}") in all_text(prompts.render(OURS["t1"], probe(3, goal="$K $goal ${position}")))


def test_the_digest_is_of_the_files_alone(tmp_path):
    shutil.copytree(PROMPTS / "evogui-v1", tmp_path / "other")
    (tmp_path / "other/notes.txt").write_text("x")
    assert prompts.digest(tmp_path / "other") == OURS.digest
    with open(tmp_path / "other/t2.yaml", "a") as handle:
        handle.write("# x\n")
    assert prompts.digest(tmp_path / "other") != OURS.digest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"user": "Show $price"}, "no slot '$price'"),
        ({"user": "It costs $5"}, "'$'"),
        ({"goal": "$K"}, "no slot '$K'"),
        ({"images": ["a", "b", "c"]}, "has 3 labels"),
        ({"task": "t1"}, "is 't1'"),
        ({"colour": "red"}, "colour"),
        ({"format": 2}, "format"),
        ({"system": None}, "system"),
    ],
)
def test_a_wrong_prompt_file_is_one_line_that_names_file_and_field(tmp_path, change, words):
    shutil.copytree(PROMPTS / "evogui-v1", tmp_path / "p")
    data = {**yaml.safe_load((tmp_path / "p/t2.yaml").read_text()), **change}
    (tmp_path / "p/t2.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(InputError) as error:
        prompts.load(tmp_path / "p")
    assert "t2.yaml" in str(error.value) and words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"[", b"- 1", b"\xff\xfe", b"", b"a: !!python/object:os.system x"])
def test_a_file_that_is_no_prompt_is_one_line(tmp_path, content):
    shutil.copytree(PROMPTS / "evogui-v1", tmp_path / "p")
    (tmp_path / "p/t1.yaml").write_bytes(content)
    with pytest.raises(InputError, match=r"t1\.yaml"):
        prompts.load(tmp_path / "p")


def test_a_papers_templates_are_imported_word_for_word(tmp_path, capsys):
    (tmp_path / "paper.txt").write_text(PAPER)
    assert main(["prompts", "import", str(tmp_path / "paper.txt"), "--out", str(tmp_path / "imported"), "--name", "mine"]) == 0
    assert "prompts: mine" in capsys.readouterr().out
    imported = prompts.load(tmp_path / "imported/mine")
    text = all_text(prompts.render(imported["t1"], probe(3)))
    assert 'Here are 3 screens in random order. It costs $5. Use 1 to 3. Reply {"order": […]}.' in text and 'User goal: "buy tea"' in text
    system, user = prompts.render(imported["t2"], probe(2))
    assert system.parts[0].text == "Be exact, and brief."
    assert user.parts[0].text.startswith('Name the action. Reply {"action": "<one option>"}.\n\nOptions: "click", "type", "select"')
    assert prompts.render(imported["t3"], probe(3))[1].parts[0].text.startswith('A or B? Reply {"answer": "A" | "B"}.')
    assert sorted(path.name for path in (tmp_path / "imported/mine").iterdir()) == ["t1.yaml", "t2.yaml", "t3.yaml"]
    for condition in CONDITIONS:
        prompts.check(imported, condition)
    assert [part.text for part in prompts.render(imported["t2"], probe(2), condition="after_only")[1].parts[1::2]] == ["After:"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing here", "'Table 10:'"),
        (PAPER.replace("Table 12:", "Tab. 12:"), "'Table 12:'"),
        (PAPER.replace("System  Be", "Sys  Be"), "Table 11 has no row 'System'"),
        (PAPER.encode("utf-16"), "not UTF-8"),
        ("", "'Table 10:'"),
    ],
)
def test_a_text_without_the_tables_is_one_line_and_leaves_nothing(tmp_path, capsys, text, words):
    (tmp_path / "paper.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main(["prompts", "import", str(tmp_path / "paper.txt"), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert words in error and "paper.txt" in error and error.count("\n") == 1 and not (tmp_path / "out").exists()


def test_an_import_stays_in_its_folder(tmp_path, capsys):
    (tmp_path / "paper.txt").write_text(PAPER)
    assert main(["prompts", "import", str(tmp_path / "paper.txt"), "--out", str(tmp_path / "out"), "--name", "../x"]) == 2
    assert "not a folder name" in capsys.readouterr().err and not (tmp_path / "x").exists()


@pytest.mark.skipif(not (SHARED / "published/evogui_prompts.json").exists(), reason="reference data absent")
def test_the_real_papers_templates_are_verbatim_and_ours_are_not_theirs(tmp_path):
    paper = next((SHARED / "papers").glob("001_*.txt"))
    imported = prompts.load(prompts.import_paper(paper, tmp_path))
    for name, rows in json.loads((SHARED / "published/evogui_prompts.json").read_text()).items():
        task = name.lower()
        assert imported[task].system == rows["System"]
        assert imported[task].user == rows["User"].replace("$K$", "$K")
        theirs = f"{rows['System']} {rows['User']}".lower().split()
        ours = f"{OURS[task].system} {OURS[task].user}".lower().split()
        runs = {tuple(theirs[i : i + 8]) for i in range(len(theirs) - 7)} & {tuple(ours[i : i + 8]) for i in range(len(ours) - 7)}
        assert not runs
