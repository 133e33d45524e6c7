"""What is written for people to judge trajectories on, that it is blind, and what comes back from it."""

import json
import shutil
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_replay import AGENT, EXPERIMENT, ORACLE, REFERENCE, REWARD, SOURCE, Audit, audit, delivered, key, logs, payload, stuck

from evoaudit import codebook, labels, schema
from evoaudit import config as configs
from evoaudit import plan as plans
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.review import keyfile, replay, shared
from evoaudit.review.scripts import script_json
from evoaudit.store import read_rows, write_table

BOOK = codebook.load()


def run(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def there(tmp_path_factory) -> tuple[Audit, Path]:
    """An audit, and the pages of two groups."""
    made = audit(tmp_path_factory.mktemp("there"))
    return made, made.build("--group", "ana", "--group", "ben", "--seed", 5)


def everything(folder: Path) -> bytes:
    """Return names and bytes of all files of a folder."""
    return b"".join(
        path.relative_to(folder).as_posix().encode() + path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    )


def line(page: Path, number: int, **more) -> dict:
    """Return a label on an item of a page, as the page exports it."""
    data = payload(page)
    row = {"trajectory_id": data["items"][number]["id"], "annotator": data["annotator"], "kind": "human", "stage": data["stage"]}
    row |= {"verdict": "gf", "category": "t3-noop", "evidence_steps": [1], "confidence": 0.67, "seconds": 3.2, "viewed": 4}
    return row | {"codebook_version": data["codebook"]} | more


def write(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


# ---- blind


def test_a_page_holds_nothing_of_what_may_not_be_known(there):
    made, out = there
    for group in ("ana", "ben"):
        whole = everything(out / group)
        for secret in (AGENT, "claude", "sonnet", "GenericAgent", EXPERIMENT, REFERENCE, SOURCE, ORACLE, str(REWARD), "disagree"):
            assert secret.encode() not in whole, secret
        for identity in made.ids:
            assert identity.encode() not in whole
        for row in read_rows(made.normalised, "images", ["image_id", "file"]):
            assert row["image_id"].encode() not in whole and row["file"].encode() not in whole
        assert str(made.root).encode() not in whole and str(made.home).encode() not in whole


def test_what_may_not_be_known_does_not_change_a_byte_of_a_page(tmp_path):
    def pages(name: str, **more: object) -> bytes:
        home = tmp_path / name
        home.mkdir()
        given = logs(3, steps=2)
        given.trajectories = [row | {"trajectory_id": f"t{k}"} | more for k, row in enumerate(given.trajectories)]
        for row in (*given.steps, *given.changes):
            row["trajectory_id"] = row["trajectory_id"].split(":")[0]
        why = {"reward": len(name) / 8, "stratum": "agree" if more else "missing", "why": name}
        return everything(audit(home, given, **why).build("--group", "ana", "--seed", 5) / "ana")

    one = pages("one", agent="a-1", experiment="e-1", reference="r-1", benchmark="web", task_id="7")
    assert one == pages("another", agent="other-agent", experiment="exp-12", reference="7 kettles", benchmark="os", task_id="9")


def test_words_that_tell_the_agent_are_masked_and_counted(tmp_path):
    text = f"As Claude, I (GenericAgent-claude-3.7-sonnet of {EXPERIMENT}) do not ask ChatGPT; see /home/x/{SOURCE} and the screenshot."
    made = audit(tmp_path, logs(2, steps=1, texts={1: text}), practice=0)
    page = made.build("--group", "ana") / "ana"
    items = [delivered(page, item["id"]) for item in payload(page)["items"]]
    head = next(item for item in items if item["masked"])
    assert head["goal"] == "As ▮▮▮, I (▮▮▮ of ▮▮▮) do not ask ChatGPT; see /home/x/▮▮▮ and the screenshot."
    assert head["masked"] % 4 == 0 and next(item for item in items if item is not head)["masked"] == 0


@pytest.mark.parametrize(
    ("agent", "text", "masked"),
    [
        ("o3_15steps", "as o3 I go", "as ▮▮▮ I go"),
        ("gpt-4o", "GPT-4o-mini and ChatGPT say gpth", "▮▮▮ and ▮▮▮ say gpth"),
        ("ui-tars-1.5", "UI-TARS tars starstruck", "UI-▮▮▮ ▮▮▮ starstruck"),
        ("human", "no human did it", "no ▮▮▮ did it"),
        ("abc", "abc", "abc"),
        (None, "claude", "claude"),
    ],
)
def test_a_family_is_masked_only_where_it_is_the_agents_own(agent, text, masked):
    assert replay._Masked({"agent": agent})(text) == masked


def test_plain_words_and_numbers_of_a_path_and_what_the_page_names_itself_are_not_masked():
    row = {"agent": None, "trajectory_id": "own:results/2024/calc-1/run_7.json", "domain": "calc-1"}
    assert replay._Masked(row)("in 2024 calc-1 results of run_7.json") == "in 2024 calc-1 results of ▮▮▮"


def test_groups_have_ids_pictures_and_an_order_of_their_own_and_practice_comes_first(there):
    made, out = there
    one, two = (payload(out / group)["items"] for group in ("ana", "ben"))
    for items, group in ((one, "ana"), (two, "ben")):
        assert [item["practice"] for item in items] == [True] + [False] * 5
        keys = key(out, group)["items"]
        assert sorted(keys[item["id"]]["trajectory_id"] for item in items) == sorted(made.ids)
        assert [keys[item["id"]]["trajectory_id"] for item in items if item["practice"]] == made.ids[:1]
    assert not {item["id"] for item in one} & {item["id"] for item in two}
    names = [{path.name for path in (out / group / "pictures").iterdir()} for group in ("ana", "ben")]
    assert names[0] and not names[0] & names[1]
    orders = [[key(out, group)["items"][item["id"]]["trajectory_id"] for item in items] for group, items in (("ana", one), ("ben", two))]
    assert orders[0] != orders[1]


def test_pages_are_the_same_whatever_the_order_of_rows_and_groups_the_folder_and_the_threads(there, tmp_path):
    made, out = there
    given = logs()
    again = tmp_path / "elsewhere"
    again.mkdir()
    moved = audit(again, given)
    shutil.rmtree(moved.normalised)
    shutil.rmtree(moved.root)
    moved.normalised, moved.root = given.write(again / "x", seed=3)
    shutil.copyfile(made.normalised / "oracle_results.parquet", moved.normalised / "oracle_results.parquet")
    other = moved.build("--group", "ben", "--group", "ana", "--seed", 5, "--threads", 2)
    assert everything(other) == everything(out)
    assert everything(made.build("--group", "ana", "--seed", 6) / "ana") != everything(out / "ana")


def test_the_sheets_of_a_page_hold_its_items_and_are_never_overwritten(there, capsys):
    made, out = there
    rows = [json.loads(text) for text in (out / "ana.jsonl").read_text().splitlines()]
    assert [row["trajectory_id"] for row in rows] == [item["id"] for item in payload(out / "ana")["items"]]
    assert (out / "ana.csv").read_text().splitlines()[0].startswith("trajectory_id,annotator,kind,stage,verdict,category,evidence_steps")
    made.build("--group", "ana", "--seed", 5, out=out)  # the same again changes nothing
    text = (out / "ana.csv").read_text()
    (out / "ana.csv").write_text(text.replace(",,,,,,", ",gf,t1-spec,,,,", 1))
    made.build("--group", "ana", "--seed", 5, out=out, code=2)
    assert "never overwritten" in capsys.readouterr().err and ",gf,t1-spec" in (out / "ana.csv").read_text()
    (out / "ana.csv").write_text(text)


def test_a_folder_that_is_no_review_page_is_not_replaced(there, tmp_path, capsys):
    (tmp_path / "ana").mkdir()
    (tmp_path / "ana" / "thesis.txt").write_text("mine")
    there[0].build("--group", "ana", out=tmp_path, code=2)
    assert "is there and no review page" in capsys.readouterr().err and (tmp_path / "ana" / "thesis.txt").is_file()
    for group in ("keys", "t3", "../x"):
        there[0].build("--group", group, code=2)
        assert "cannot name a file" in capsys.readouterr().err


def test_a_page_of_real_logs_holds_neither_agents_nor_ids(tmp_path, real_logs):
    sources = {
        "webvoyager": real_logs / "webvoyager/results/examples",
        "online-mind2web": real_logs / "online-mind2web/abp_run",
        "osworld": real_logs / "osworld/results_fixed/pyautogui/screenshot",
        "agentrewardbench": real_logs / "agentrewardbench",
    }
    words, rows = ["--normalised"], []
    for kind in sources:
        settings = json.dumps({"source": kind, "kind": kind, "simulated": False, "options": {}})
        assert run("normalise", "--settings", settings, "--root-folder", sources[kind], "--out", tmp_path / kind) == 0
        words.append(tmp_path / kind)
        rows += read_rows(tmp_path / kind, "trajectories")
    words += ["--root", *(f"{kind}={root}" for kind, root in sources.items())]
    chosen = [
        {"trajectory_id": row["trajectory_id"], "benchmark": None, "stratum": "missing", "selected": True, "reason": "x"} for row in rows
    ]
    (tmp_path / "select").mkdir()
    write_table(tmp_path / "select", "review_set", chosen)
    assert run("review", "build", "--review", tmp_path / "select", *words, "--group", "ana", "--out", tmp_path / "out") == 0
    assert len(payload(tmp_path / "out" / "ana")["items"]) == len(rows) > 10
    whole = everything(tmp_path / "out" / "ana").lower()
    hidden = {row[name] for row in rows for name in ("agent", "experiment", "trajectory_id", "source_file") if row[name]}
    hidden |= {"gpt-4o", "claude-3", str(real_logs), *(f"/{kind}/" for kind in sources)}
    assert not [name for name in sorted(hidden) if len(name) >= replay.NAME and name.lower().encode() in whole]


# ---- what a page shows


def test_where_an_action_went_is_told_in_per_cent_of_the_picture(there):
    made, out = there
    page = out / "ana"
    name = next(name for name, one in key(out, "ana")["items"].items() if one["trajectory_id"] == made.ids[2])
    steps = delivered(page, f"{name}-0")
    assert steps[0]["mark"] == {"left": 100 * 60 / 320, "top": 45.0} and steps[1]["value"] == "typed 2"
    assert steps[2]["way"] == "down" and "mark" not in steps[2]
    assert steps[3]["to"] == {"left": round(100 * 250 / 320, 3), "top": 75.0}


@pytest.mark.parametrize(
    ("op", "value", "raw", "way"),
    [
        ("scroll", "-5", "pyautogui.scroll(-5)", "down"),
        ("scroll", "5", "pyautogui.scroll(5)", "up"),
        ("scroll", "0 200", "scroll(0, 200)", "down"),
        ("scroll", "0 -200", "scroll(0, -200)", "up"),
        ("scroll", "300 0", "scroll(300, 0)", "right"),
        ("scroll", "160", None, "down"),
        ("swipe", "Left", None, "left"),
        ("scroll", "0", None, None),
        ("scroll", None, None, None),
        ("click", "down", None, None),
    ],
)
def test_a_scroll_goes_where_its_format_says(op, value, raw, way):
    assert replay._way({"op": op, "value": value, "op_raw": raw}) == way


def test_long_trajectories_come_in_parts(tmp_path):
    made = audit(tmp_path, logs(1, steps=60), practice=0)
    page = made.build("--group", "ana") / "ana"
    (item,) = payload(page)["items"]
    head = delivered(page, item["id"])
    assert item["n"] == len(head["steps"]) == 60 and head["parts"] == [0, 25, 50]
    assert [len(delivered(page, f"{item['id']}-{k}")) for k in range(3)] == [25, 25, 10]


@given(st.text(max_size=200))
def test_text_of_a_log_is_shown_line_by_line_and_nothing_in_it_is_hidden(text):
    shown = shared.lines(text, 1000)
    assert all(part.isprintable() for part in shown.split("\n"))
    assert script_json(shown).isprintable() and "<" not in script_json(shown)


def test_what_is_cut_is_counted():
    assert shared.lines("a" * 12, 10) == "a" * 10 + "… [12 characters, cut here]" and shared.lines("a\n\tb\r", 10) == "a\n    b\\r"


def test_pictures_that_are_gone_are_counted_and_changed_ones_refused(tmp_path, capsys):
    made = audit(tmp_path)
    (made.root / "s1-0.png").unlink()
    page = made.build("--group", "ana")
    assert "1 pictures are gone" in capsys.readouterr().err
    name = next(name for name, one in key(page, "ana")["items"].items() if one["trajectory_id"] == made.ids[1])
    assert delivered(page / "ana", name)["steps"][0][0] == -1
    shutil.copyfile(made.root / "s2-0.png", made.root / "s1-1.png")
    made.build("--group", "ana", code=2)
    assert "picture has changed since the source was read" in capsys.readouterr().err


def test_trajectories_without_steps_or_pictures_have_a_page(tmp_path):
    given = logs(2, steps=2)
    given.add("bare:x", [None], agent=None)
    given.add("blind:x", [None, None], [{"op": "answer", "value": "42"}], agent=None)
    made = audit(tmp_path, given)
    page = made.build("--group", "ana")
    keys = key(page, "ana")["items"]
    by = {one["trajectory_id"]: name for name, one in keys.items()}
    assert delivered(page / "ana", by["bare:x"])["steps"] == [] and keys[by["bare:x"]]["n_steps"] == 0
    assert delivered(page / "ana", by["blind:x"])["steps"] == [[-1, -1, 0]]


# ---- what comes back


def test_labels_of_a_page_become_labels_of_trajectories(there, tmp_path, capsys):
    _, out = there
    keys = out / "keys" / "ana.json"
    rows = [line(out / "ana", k) for k in range(6)]
    rows[1] |= {"verdict": "unclear", "category": None, "note": "no last screen"}
    file = write(tmp_path / "ana.jsonl", *rows[:5])
    assert run("review", "check", file, "--keys", keys) == 0
    told = capsys.readouterr()
    assert (
        "5 sound labels, 0 findings" in told.out
        and "1 labels are for practice" in told.err
        and "1 of 6 trajectories have no label" in told.err
    )
    assert run("review", "merge", file, "--keys", keys, "--out", tmp_path / "all.jsonl") == 0
    merged = labels.read([tmp_path / "all.jsonl"])
    items = key(out, "ana")["items"]
    assert {row["trajectory_id"] for row in merged} == {items[row["trajectory_id"]]["trajectory_id"] for row in rows[:5]}
    assert [row["practice"] for row in merged if row["trajectory_id"].startswith("t0:")] == [True]
    assert sum(row["practice"] for row in merged) == 1 and {row["viewed"] for row in merged} == {4}
    assert run("review", "merge", file, "--keys", keys, "--out", tmp_path / "all.jsonl") == 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"evidence_steps": [4]}, "step 4 of a trajectory with 4 steps"),
        ({"annotator": "ben"}, "on an item of the blind page of 'ana'"),
        ({"stage": "informed"}, "on an item of the blind page of 'ana'"),
        ({"codebook_version": "1+000000000000"}, "is not this codebook"),
        ({"codebook_version": "2"}, "is not this codebook"),
        ({"verdict": "GF"}, "did you mean 'gf'?"),
        ({"category": "t3-nope"}, "did you mean 't3-noop'?"),
        ({"trajectory_id": "item-0123456789abcdef"}, "in no key file"),
        ({"viewed": -1}, "is not a number from 0"),
    ],
)
def test_a_label_that_does_not_fit_its_page_is_a_finding(there, tmp_path, capsys, change, told):
    _, out = there
    file = write(tmp_path / "ana.jsonl", line(out / "ana", 2, **change))
    assert run("review", "check", file, "--keys", out / "keys" / "ana.json") == 1
    assert told in capsys.readouterr().out
    assert run("review", "merge", file, "--keys", out / "keys" / "ana.json", "--out", tmp_path / "all.jsonl") == 1
    assert not (tmp_path / "all.jsonl").exists()


def test_labels_of_a_page_without_its_key_are_refused_and_the_way_out_is_named(there, tmp_path, capsys):
    made, out = there
    file = write(tmp_path / "ana.jsonl", line(out / "ana", 2))
    assert run("review", "check", file) == 1
    assert "is an item of a review page and in no key file; give the key file" in capsys.readouterr().out
    assert run("combine", "--sample", made.sample, "--labels", file, "--out", tmp_path / "c") == 2
    assert "--keys review/keys/GROUP.json" in capsys.readouterr().err


def test_labels_for_practice_never_enter_the_analysis(there, tmp_path):
    made, out = there
    rows = [{**line(out / group, k), "verdict": "efn", "category": None} for group in ("ana", "ben") for k in range(6)]
    keys = [out / "keys" / f"{group}.json" for group in ("ana", "ben")]
    assert run("review", "merge", write(tmp_path / "in.jsonl", *rows), "--keys", *keys, "--out", tmp_path / "all.jsonl") == 0
    everyone = tmp_path / "sample"  # a later draw in which the practice item would be analysed
    everyone.mkdir()
    write_table(everyone, "sample", [{**row, "status": "analysed"} for row in read_rows(made.sample, "sample")])
    settings = json.dumps({"groups": ["ana", "ben"]})
    for sample in (made.sample, everyone):
        folder = tmp_path / f"c-{sample.parent.name}"
        assert run("combine", "--sample", sample, "--labels", tmp_path / "all.jsonl", "--settings", settings, "--out", folder) == 0
        final = read_rows(folder, "final")
        assert (
            len(final) == 5
            and {row["verdict_rule"] for row in final} == {"human_agreement"}
            and made.ids[0] not in {row["trajectory_id"] for row in final}
        )
        dropped = [row for row in read_rows(folder, "drops") if row["unit"] == "label"]
        assert [row["reason"] for row in dropped] == ["calibration"] * 2


def test_a_key_file_that_is_none_is_refused(there, tmp_path):
    _, out = there
    good = (out / "keys" / "ana.json").read_text()
    for text in ("", "[]", "{}", good[:-20], good.replace('"n_steps": 4', '"n_steps": "4"'), good.replace("item-", "thing-")):
        (tmp_path / "k.json").write_text(text)
        with pytest.raises(InputError, match="is not a key file"):
            keyfile.read([tmp_path / "k.json"])
    swapped = json.loads(good)
    for one in swapped["items"].values():
        one["trajectory_id"] = "other"
    (tmp_path / "k.json").write_text(json.dumps(swapped))
    with pytest.raises(InputError, match="stands for another trajectory"):
        keyfile.read([out / "keys" / "ana.json", tmp_path / "k.json"])


# ---- later stages


@pytest.fixture(scope="module")
def labelled(there, tmp_path_factory) -> tuple[Path, Path]:
    """The labels of both groups, merged; they differ on one trajectory, and ben has labelled one less."""
    made, out = there
    folder = tmp_path_factory.mktemp("labelled")
    for group in ("ana", "ben"):
        rows = [line(out / group, k, note=f"said by {k}") for k in range(6)]
        identities = {name: one["trajectory_id"] for name, one in key(out, group)["items"].items()}
        for row in rows:
            if group == "ben" and identities[row["trajectory_id"]] == made.ids[2]:
                row |= {"verdict": "efn", "category": None}
        rows = [row for row in rows if group == "ana" or identities[row["trajectory_id"]] != made.ids[5]]
        write(folder / f"{group}-raw.jsonl", *rows)
        words = ("review", "merge", folder / f"{group}-raw.jsonl", "--keys", out / "keys" / f"{group}.json")
        assert run(*words, "--out", folder / f"{group}.jsonl") == 0
    return folder / "ana.jsonl", folder / "ben.jsonl"


def test_the_informed_page_shows_what_was_released_for_what_was_labelled_blind_alone(there, labelled, tmp_path):
    made, out = there
    pages = made.build("--stage", "informed", "--labels", *labelled, "--seed", 5, blind=False)
    assert sorted(path.name for path in pages.iterdir() if path.is_dir()) == ["ana-informed", "ben-informed", "keys"]
    page = pages / "ben-informed"
    keys = key(pages, "ben-informed")
    assert keys["stage"] == "informed" and {one["trajectory_id"] for one in keys["items"].values()} == set(made.ids[1:5])
    assert not set(keys["items"]) & set(key(out, "ben")["items"])
    head = delivered(page, payload(page)["items"][0]["id"])
    assert head["released"] == [[f"Released by {ORACLE}", f"fail, reward {REWARD}"], ["Reference", REFERENCE]]
    (own,) = head["labels"]
    assert own["verdict"] in ("gf", "efn") and own["note"].startswith("said by")
    assert AGENT.encode() not in everything(page) and b"ana" not in json.dumps(payload(page)).encode()
    informed = write(tmp_path / "informed.jsonl", *(line(page, k, verdict="efn", category=None) for k in range(4)))
    words = ("review", "merge", *labelled, informed, "--keys", pages / "keys" / "ben-informed.json", "--out", tmp_path / "all.jsonl")
    assert run(*words) == 0
    rows = labels.read([tmp_path / "all.jsonl"])
    by_stage = [sorted(row["verdict"] for row in rows if row["annotator"] == "ben" and row["stage"] == stage) for stage in labels.STAGES]
    assert by_stage == [["efn", "gf", "gf", "gf", "gf"], ["efn"] * 4, []]


def test_the_adjudication_page_shows_two_labels_and_not_whose_they_are(there, labelled, tmp_path):
    made, _ = there
    pages = made.build("--stage", "adjudication", "--labels", *labelled, "--seed", 5, blind=False)
    page = pages / "adjudicator"
    data = payload(page)
    assert data["stage"] == "adjudicated" and len(data["items"]) == 4 and [item["differ"] for item in data["items"]].count(True) == 1
    whole = everything(page)
    assert b"ana" not in json.dumps(data).encode() and b'"annotator":"ben"' not in whole and b'"annotator":"ana"' not in whole
    for name, one in key(pages, "adjudicator")["items"].items():
        shown = delivered(page, name)["labels"]
        assert sorted(one["shown"]) == ["ana", "ben"] and len(shown) == 2
        if one["trajectory_id"] == made.ids[2]:
            assert shown[one["shown"].index("ben")]["verdict"] == "efn" and shown[one["shown"].index("ana")]["verdict"] == "gf"
    assert "released" not in delivered(page, data["items"][0]["id"])
    decided = write(tmp_path / "adjudicated.jsonl", *(line(page, k) for k in range(4)))
    words = ("review", "merge", *labelled, decided, "--keys", pages / "keys" / "adjudicator.json", "--out", tmp_path / "all.jsonl")
    assert run(*words) == 0
    settings = json.dumps({"groups": []})
    words = ("combine", "--sample", made.sample, "--labels", tmp_path / "all.jsonl", "--settings", settings, "--out", tmp_path / "c")
    assert run(*words) == 0
    reasons = [row["reason"] for row in read_rows(tmp_path / "c", "drops") if row["unit"] == "label"]
    assert sorted(reasons) == ["calibration"] * 2
    assert Counter(row["verdict_rule"] for row in read_rows(tmp_path / "c", "final"))["adjudication"] == 4


def test_later_stages_alone_are_told_what_the_probe_found_and_the_adjudicator_what_signals_and_judges_say(tmp_path):
    made = audit(tmp_path, stuck(), practice=0)
    out = made.build("--group", "ana", "--group", "ben")
    blind = everything(out / "ana")
    assert b'"again":' not in blind and b'"signals":' not in blind and b'"judges":' not in blind
    for group in ("ana", "ben"):
        write(tmp_path / f"{group}-raw.jsonl", *(line(out / group, k, evidence_steps=[0]) for k in (0, 1)))
        words = ("review", "merge", tmp_path / f"{group}-raw.jsonl", "--keys", out / "keys" / f"{group}.json")
        assert run(*words, "--out", tmp_path / f"{group}.jsonl") == 0
    given = [tmp_path / f"{group}.jsonl" for group in ("ana", "ben")]

    def head(page: Path, name: str) -> dict:
        return next(delivered(page, one) for one, row in key(page.parent, name)["items"].items() if row["trajectory_id"] == "stuck:x")

    informed = head(made.build("--stage", "informed", "--labels", *given, blind=False) / "ana-informed", "ana-informed")
    # The clicks are steps 1 to 4, and the screen stays at each: the second click is the first that repeats.
    assert informed["again"] == [[2, 2], [3, 3], [4, 4]] and "signals" not in informed
    judged = []
    for name, verdict, status in (("zoe", "broken", "ok"), ("amy", "efn", "ok"), ("mute", None, "refused")):
        folder = tmp_path / name
        folder.mkdir()
        row = dict.fromkeys(schema.JUDGMENTS.names) | {"trajectory_id": "stuck:x", "annotator": name, "kind": "llm", "stage": "blind"}
        row |= {
            "verdict": verdict,
            "status": status,
            "judge_id": "x",
            "evidence": "text",
            "simulated": False,
            "rationale": f"so says {name}",
        }
        write_table(folder, "judgments", [row])
        judged.append(folder)
    pages = made.build("--stage", "adjudication", "--labels", *given, "--judgments", *judged, blind=False)
    told = head(pages / "adjudicator", "adjudicator")
    assert told["signals"] == [{"said": "one action again and again, while the screen stays", "steps": [1, 2, 3, 4]}]
    assert sorted(one["verdict"] for one in told["judges"]) == ["broken", "efn"] and "released" not in told
    shown = {name: value for name, value in told.items() if name != "judges"}
    assert not any(name in json.dumps(shown) for name in ("zoe", "amy", "mute"))
    assert "annotator" not in json.dumps(told["judges"])


def test_who_is_a_and_who_is_b_changes_from_one_trajectory_to_the_next(tmp_path):
    made = audit(tmp_path, logs(16, steps=1), practice=0)
    rows = [
        {"trajectory_id": one, "annotator": who, "kind": "human", "stage": "blind", "verdict": "efn", "codebook_version": "1"}
        for one in made.ids
        for who in ("ana", "ben")
    ]
    pages = made.build("--stage", "adjudication", "--labels", write(tmp_path / "l.jsonl", *rows), blind=False)
    first = [one["shown"][0] for one in key(pages, "adjudicator")["items"].values()]
    assert 3 <= first.count("ana") <= 13


def test_later_stages_say_what_they_need(there, labelled, tmp_path, capsys):
    made, _ = there
    judge = write(
        tmp_path / "j.jsonl",
        {"trajectory_id": "t", "annotator": "j", "kind": "llm", "stage": "blind", "verdict": "gf", "codebook_version": "1"},
    )
    for words, told in (
        (("--stage", "informed"), "--labels: is missing"),
        (("--stage", "informed", "--labels", judge), "holds no blind label of a person"),
        (("--stage", "informed", "--labels", labelled[0], "--group", "cleo"), "'cleo' has labelled nothing blind"),
        (("--stage", "adjudication", "--labels", labelled[0]), "labels of 1 people (ana)"),
        (("--stage", "adjudication", "--labels", *labelled, "--group", "ana"), "is one of the two"),
        ((), "--review: is missing"),
    ):
        made.build(*words, blind=False, code=2)
        assert told in capsys.readouterr().err


def test_practice_has_the_label_agreed_on_and_nothing_else_has(there, tmp_path):
    made, _ = there
    agreed = [
        {"trajectory_id": one, "annotator": "panel", "kind": "human", "stage": "blind", "verdict": "broken", "codebook_version": "1"}
        for one in made.ids
    ]
    page = made.build("--group", "ana", "--feedback", write(tmp_path / "f.jsonl", *agreed)) / "ana"
    first, *rest = payload(page)["items"]
    assert delivered(page, first["id"])["feedback"]["verdict"] == "broken" and first["practice"]
    assert not any("feedback" in delivered(page, item["id"]) for item in rest)


# ---- Label Studio


def annotation(verdict: str, category: str | None = None, steps: str = "", stars: int | None = None, note: str = "", **more) -> dict:
    """Return an annotation as Label Studio writes it."""
    given = [("verdict", "choices", [verdict]), ("category", "choices", [category] if category else None)]
    given += [
        ("evidence_steps", "text", [steps] if steps else None),
        ("confidence", "rating", stars),
        ("note", "text", [note] if note else None),
    ]
    kinds = {"text": "textarea"}
    result = [
        {"id": f"r{k}", "from_name": name, "to_name": "task", "type": kinds.get(kind, kind), "value": {kind: value}}
        for k, (name, kind, value) in enumerate(given)
        if value is not None
    ]
    return {"id": 1, "completed_by": 7, "was_cancelled": False, "lead_time": 12.34, "result": result} | more


def test_label_studio_gets_what_the_page_has_and_gives_label_rows_back(there, tmp_path, capsys):
    _, out = there
    assert run("review", "export-ls", out / "ana", "--pictures", "/files/", "--out", tmp_path / "ls") == 0
    tasks = json.loads((tmp_path / "ls" / "tasks.json").read_text())
    items = payload(out / "ana")["items"]
    assert [task["data"]["item"] for task in tasks] == [item["id"] for item in items]
    first = tasks[0]["data"]
    assert len(first["screens"]) == 5 and all((out / "ana" / screen.removeprefix("/files/")).is_file() for screen in first["screens"])
    assert [said["step"] for said in first["steps"]] == ["step 0", "step 1", "step 2", "step 3"] and "order the kettle" in first["task"]
    whole = everything(tmp_path / "ls")
    assert not any(secret.encode() in whole for secret in (AGENT, REFERENCE, ORACLE, EXPERIMENT))

    view = ElementTree.parse(tmp_path / "ls" / "config.xml").getroot()
    choices = {node.get("name"): [one.get("value") for one in node] for node in view.iter("Choices")}
    assert choices == {"verdict": list(BOOK.verdicts), "category": list(BOOK.categories)}
    named = {node.get("name") for node in view if node.tag in ("Text", "Image", "Paragraphs")}
    assert all(node.get("toName") in named for node in view if node.get("toName"))
    used = {value.removeprefix("$") for node in view.iter() for value in node.attrib.values() if value.startswith("$")}
    assert used <= first.keys()

    for task, one in zip(
        tasks, [annotation("gf", "t2-ground", "1, 3", 2, "hit the wrong one"), annotation("efn", steps="3", stars=3)], strict=False
    ):
        task["annotations"] = [one]
    tasks[2]["annotations"] = [annotation("gf", was_cancelled=True)]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    assert run("review", "import-ls", tmp_path / "export.json", "--out", tmp_path / "ana.jsonl") == 0
    assert "2 labels, 1 tasks skipped, 3 tasks without an annotation" in capsys.readouterr().out
    assert run("review", "check", tmp_path / "ana.jsonl", "--keys", out / "keys" / "ana.json") == 0
    one, two = labels.read([tmp_path / "ana.jsonl"], keys=keyfile.read([out / "keys" / "ana.json"]))
    assert (one["verdict"], one["category"], one["evidence_steps"], one["confidence"]) == ("gf", "t2-ground", [1, 3], 0.67)
    assert (one["note"], one["seconds"], one["practice"]) == ("hit the wrong one", 12.3, True)
    assert (two["verdict"], two["evidence_steps"], two["confidence"], two["practice"]) == ("efn", [3], 1.0, False)
    assert run("review", "import-ls", tmp_path / "export.json", "--out", tmp_path / "ana.jsonl") == 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"annotations": [annotation("gf"), annotation("efn", completed_by={"id": 8, "email": "b@x.example"})]},
            "2 annotations, by 7, b@x.example",
        ),
        ({"annotations": [annotation("gf", steps="the last")]}, "evidence_steps: 'the last'"),
        ({"annotations": [annotation("gf", stars=5)]}, "one to three stars"),
        ({"annotations": 3}, "annotations are no list"),
        ({"data": {"text": "x"}}, "is none of a review page"),
    ],
)
def test_an_export_of_label_studio_that_does_not_fit_is_refused(there, tmp_path, capsys, change, told):
    _, out = there
    assert run("review", "export-ls", out / "ana", "--out", tmp_path / "ls") == 0
    tasks = json.loads((tmp_path / "ls" / "tasks.json").read_text())
    tasks[0] |= change
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    assert run("review", "import-ls", tmp_path / "export.json", "--out", tmp_path / "a.jsonl") == 2
    assert told in capsys.readouterr().err and not (tmp_path / "a.jsonl").exists()


def test_of_several_users_of_label_studio_one_may_be_named(there, tmp_path):
    _, out = there
    run("review", "export-ls", out / "ana", "--out", tmp_path / "ls")
    task = json.loads((tmp_path / "ls" / "tasks.json").read_text())[0]
    task["annotations"] = [annotation("gf"), annotation("efn", completed_by={"id": 8, "email": "b@x.example"})]
    (tmp_path / "export.json").write_text(json.dumps([task]))
    for who, verdict in (("7", "gf"), ("8", "efn"), ("b@x.example", "efn")):
        file = tmp_path / f"{who}.jsonl"
        assert run("review", "import-ls", tmp_path / "export.json", "--completed-by", who, "--out", file) == 0
        assert json.loads(file.read_text())["verdict"] == verdict


def test_a_damaged_page_is_no_source_of_tasks(there, tmp_path, capsys):
    _, out = there
    shutil.copytree(out / "ana", tmp_path / "ana")
    item = payload(tmp_path / "ana")["items"][0]["id"]
    path = tmp_path / "ana" / "items" / f"{item}.js"
    path.write_text(path.read_text()[:-9])
    assert run("review", "export-ls", tmp_path / "ana", "--out", tmp_path / "ls") == 2
    assert run("review", "export-ls", tmp_path, "--out", tmp_path / "ls") == 2
    assert "is damaged" in capsys.readouterr().err and not (tmp_path / "ls" / "tasks.json").exists()


# ---- the plan


def test_every_group_of_the_plan_has_a_page_and_groups_cannot_take_the_folders_of_others(tmp_path, capsys):
    tree = {"sources": [{"name": "own", "kind": "plain", "path": str(tmp_path)}], "judges": [{"name": "rules", "provider": "builtin"}]}
    plan = plans.build(configs.check(tree | {"audit": {"review": {"groups": ["ana", "ben"]}}}), must_exist=False)
    (job,) = plan.of("replay")
    assert job.settings["groups"] == ["ana", "ben"] and set(job.upstream) == {"select", "sample", "normalise"}
    assert job.key not in {key for other in plan.jobs for keys in other.upstream_keys.values() for key in keys}
    for name in ("keys", "t3"):
        with pytest.raises(InputError, match="names a folder of the review already"):
            configs.check(tree | {"audit": {"review": {"groups": [name]}}})


def test_the_stage_writes_the_pages_of_all_groups(there, tmp_path):
    made, out = there
    words = [
        "replay",
        "--settings",
        json.dumps({"groups": ["ana", "ben"]}),
        "--seed",
        "5",
        "--review",
        made.select,
        "--sample",
        made.sample,
    ]
    assert run(*words, *made.sources(), "--out", tmp_path / "stage") == 0
    manifest = json.loads((tmp_path / "stage" / "manifest.json").read_text())
    assert manifest["counts"] == {"unit": "item", "read": 12, "kept": 12, "dropped": {}, "others": {}}
    assert everything(tmp_path / "stage" / "ana") == everything(out / "ana") and "keys/ben.json" in manifest["files"]
    assert run("publish", "--run", "r", "--results", tmp_path / "results", tmp_path / "stage" / "manifest.json") == 0
    review = tmp_path / "results" / "runs" / "r" / "review"
    assert everything(review / "ben") == everything(out / "ben") and (review / "keys" / "ana.json").is_file()
