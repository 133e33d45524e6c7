"""Decisions on T3 pairs: what is read, what is refused, what mining makes of them, and what the page is given to show."""

import json
import os
import shutil
from itertools import permutations
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from made_pairs import Bench, bench, ids, logs, payload

from evoaudit import config as configs
from evoaudit import plan as plans
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.probes import reviewed
from evoaudit.review import pairs, shared
from evoaudit.store import read_rows


def write(path: Path, *lines: dict) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def accept(name: str, **more) -> dict:
    return {"instance_id": name, "decision": "accept", **more}


def reject(name: str, reason: str | None = "page_load", **more) -> dict:
    return {"instance_id": name, "decision": "reject", "reason": reason, **more}


def table(mined: Path, out: Path) -> list[dict]:
    """Return the rows of the run's table of the review."""
    assert main(["stats", "--mined", str(mined / "manifest.json"), "--seed", "1", "--out", str(out)]) == 0
    return pq.read_table(out / "t3_review.parquet").to_pylist()


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Logs, mined without decisions."""
    made = bench(tmp_path_factory.mktemp("pairs"))
    return made, made.mine()


@pytest.mark.parametrize(
    ("stated", "read"),
    [("page load", "page_load"), ("Asynchronous-Refresh", "asynchronous_refresh"), (" other ", "other"), (None, "other"), ("", "other")],
)
def test_a_reason_may_be_spelled_in_words_and_none_is_other(tmp_path, stated, read):
    assert reviewed.read(write(tmp_path / "a.jsonl", reject("x", stated))).rejected == {"x": read}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (reject("x", "page_lode"), ":1: reason: 'page_lode' is not known; did you mean 'page_load'?; use page_load, advertisement"),
        (reject("x", "mood"), "'mood' is not known; use page_load"),
        (accept("x", reason="page load"), ":1: reason: an accepted pair has none"),
        (accept("x", note=3), ":1: note: not text"),
        (accept("x", set=[]), ":1: set: not text"),
        (accept("x", seconds=-1), ":1: seconds: no number of seconds"),
        (accept("x", seconds=True), ":1: seconds: no number of seconds"),
    ],
)
def test_a_line_with_a_strange_field_is_refused(tmp_path, line, message):
    with pytest.raises(InputError) as caught:
        reviewed.read(write(tmp_path / "a.jsonl", line))
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["instance_id", "decision", "reason", "note", "reviewer", "set", "more"])
def test_half_a_character_is_refused_in_every_field(tmp_path, name):
    path = write(tmp_path / "a.jsonl", accept("y"), {**reject("x"), name: "x\ud800y"})
    with pytest.raises(InputError, match=rf"a\.jsonl:2: {name}: holds half a character"):
        reviewed.read(path)
    assert reviewed.read(write(tmp_path / "b.jsonl", accept("x", note="\U0001f600"))).made["x"].note == "\U0001f600"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"instance_id": "x", "decision": "accept", "decision": "reject"}\n', ":1: decision: stands there twice"),
        ('{"instance_id": "x", "instance_id": "x", "decision": "accept"}\n', ":1: instance_id: stands there twice"),
        ('{"instance_id": "x", "decision": "accept", "seconds": NaN}\n', ":1: not JSON"),
        (" " * 200_000 + "\nnonsense\n", ":2: not JSON"),
        (" " * 200_000 + "nonsense\n", ":1: not JSON"),
        (" " * 65_536 + "\n\nnonsense\n", ":3: not JSON"),
        (" " * 65_535 + "\nnonsense\n", ":2: not JSON"),
        ("\r\n" * 3 + "nonsense\r\n", ":4: not JSON"),
    ],
)
def test_a_fault_is_told_with_the_line_it_stands_on(tmp_path, text, message):
    (tmp_path / "a.jsonl").write_bytes(text.encode())
    with pytest.raises(InputError) as caught:
        reviewed.read(tmp_path / "a.jsonl")
    assert message in str(caught.value)


def test_what_is_no_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, message in (
        ("", "is a folder"),
        ("pipe", "is not a regular file; save what it gives as a file"),
        ("gone", "file not found"),
        ("gone/a", "file not found"),
    ):
        with pytest.raises(InputError, match=f"{message}; give the file exported"):
            reviewed.read(tmp_path / name)


def test_reviewers_may_repeat_each_other_in_any_order(tmp_path):
    files = [
        write(tmp_path / "a.jsonl", accept("x", reviewer="a"), reject("y", "other", note="blurred")),
        write(tmp_path / "b.jsonl", reject("y", "advertisement", reviewer="b"), accept("z")),
        write(tmp_path / "c.jsonl", reject("y", "incidental change"), accept("x")),
    ]
    read = [reviewed.read(order) for order in permutations(files)]
    assert {tuple(sorted(one.rejected.items())) for one in read} == {(("y", "advertisement"),)}
    assert all(one.accepted == {"x", "z"} for one in read)
    assert {tuple(sorted((line.instance_id, line.reviewer) for line in one.made.values())) for one in read} == {
        (("x", None), ("y", "b"), ("z", None))
    }


def test_two_files_that_contradict_are_one_line_that_says_what_to_do(tmp_path):
    files = [write(tmp_path / "a.jsonl", accept("w"), accept("x")), write(tmp_path / "b.jsonl", reject("x"))]
    with pytest.raises(InputError) as caught:
        reviewed.read(files)
    text = str(caught.value)
    assert f"{files[1]}:1: 'x' was decided otherwise in {files[0]}:2" in text
    assert "import both files in the review page" in text and "delete one of the lines" in text and "\n" not in text


def test_an_export_of_another_set_is_one_line(there, tmp_path):
    _, mined = there
    own = write(tmp_path / "own.jsonl", accept(ids(mined)[0]))
    other = write(tmp_path / "other.jsonl", *(accept(f"t3-{k}", set="t3-set-77") for k in range(9)))
    with pytest.raises(InputError) as caught:
        reviewed.check(reviewed.read([own, other]), set(ids(mined)), ())
    assert str(caught.value) == (
        f"{other}: decides on another set of items (t3-set-77): none of its 9 decisions is on a T3 item of these logs and this seed; "
        "give the file exported from this run's review page"
    )


def test_one_line_that_does_not_fit_is_named(there, tmp_path):
    _, mined = there
    mixed = write(tmp_path / "mixed.jsonl", accept(ids(mined)[0]), accept("t3-strange"))
    with pytest.raises(InputError, match=r"mixed\.jsonl:2: instance_id: 't3-strange' is no T3 item of these logs and this seed; review"):
        reviewed.check(reviewed.read(mixed), set(ids(mined)), ())


def test_the_reviewers_reasons_are_counted_by_tier(there, tmp_path):
    made, mined = there
    rows = read_rows(mined, "t3", ["instance_id", "slice"])
    cross = [row["instance_id"] for row in rows if row["slice"] == "cross"]
    skip = [row["instance_id"] for row in rows if row["slice"] == "long_skip"]
    decided = write(tmp_path / "d.jsonl", reject(cross[0]), reject(cross[1], "advertisement"), accept(cross[2]), reject(skip[0], "other"))
    again = made.mine(decided)
    review = {name: one.get("review") for name, one in json.loads((again / "quotas.json").read_text())["tasks"]["t3"]["slices"].items()}
    assert review == {
        "cross": {"accepted": 1, "undecided": 3, "rejected": {"advertisement": 1, "page_load": 1}},
        "same_domain": {"accepted": 0, "undecided": 4, "rejected": {}},
        "long_skip": {"accepted": 0, "undecided": 4, "rejected": {"other": 1}},
    }
    rows = table(again, tmp_path / "stats")
    assert [(row["tier"], row["items"], row["reviewed"], row["accepted"], row["rejected"], row["accepted_share"]) for row in rows] == [
        ("cross", 4, 3, 1, 2, 25),
        ("same_domain", 4, 0, 0, 0, 0),
        ("long_skip", 4, 1, 0, 1, 0),
        ("all", 12, 4, 1, 3, pytest.approx(100 / 12)),
    ]
    assert [rows[-1][reason] for reason in reviewed.REASONS] == [1, 1, 0, 0, 1]
    dropped = {row["detail"] for row in read_rows(again, "drops") if row["reason"] == "rejected_by_reviewer"}
    assert dropped == {f"page load ({cross[0]})", f"advertisement ({cross[1]})", f"other ({skip[0]})"}


def test_without_decisions_nothing_is_said_of_a_review(there, tmp_path):
    assert '"review"' not in (there[1] / "quotas.json").read_text()
    assert table(there[1], tmp_path / "stats") == []


def test_the_page_shows_each_pair_with_its_action_and_says_which_screen_is_which(there):
    made, mined = there
    page = made.page(mined)
    data = payload(page)
    rows = {row["instance_id"]: row for row in read_rows(mined, "t3")}
    steps = {(row["trajectory_id"], row["step"]): row for row in read_rows(made.normalised, "steps")}
    names = {}
    for item in data["items"]:
        row = rows[item["id"]]
        step = steps[row["trajectory_id"], row["step"]]
        asked = dict(zip("SAB", row["images"], strict=True))
        shown = [step["before_image"], step["after_image"], asked["B" if row["answer"] == "A" else "A"]]
        for picture, image in zip(item["pictures"], shown, strict=True):
            assert names.setdefault(image, picture["src"]) == picture["src"]
        assert (item["tier"], item["op"], item["value"]) == (row["slice"], step["op"], step["value"])
        assert (item["target"], item["goal"]) == (step["target"]["text"], row["goal"])
        assert {"left", "top"} <= item["mark"].keys() and item["change"]["tiles"] > 0
    assert len(set(names.values())) == len(names) and all(name.startswith("pictures/") for name in names.values())
    assert {path.name for path in (page / "pictures").iterdir()} == {name.partition("/")[2] for name in names.values()}
    assert list(data["items"][0]["mark"].values()) == [pytest.approx(100 * 40 / 192, abs=1e-3), pytest.approx(100 * 30 / 128, abs=1e-3)]


@pytest.mark.parametrize("name", ["x", "y", "left", "top", "width", "height"])
@pytest.mark.parametrize("far", [1e308, -1e308, float("inf"), float("nan")])
def test_an_action_on_no_screen_has_no_mark(name, far):
    given = {"left": 1.0, "top": 1.0, "width": 8.0, "height": 8.0} if name not in "xy" else {"x": 1.0, "y": 1.0}
    assert shared.mark(given, (192, 128)) is not None
    assert shared.mark({**given, name: far}, (192, 128)) is None


def test_a_huge_coordinate_in_a_log_leaves_the_page_whole(tmp_path):
    made = logs()
    for step in made.steps:
        step["target"] = {**step["target"], "x": 1e308, "left": 1e308, "top": 1.0, "width": 1e308, "height": 5.0}
    there = bench(tmp_path, made)
    assert [item["mark"] for item in payload(there.page(there.mine()))["items"]] == [None] * 12


def test_the_page_is_the_same_bytes_on_any_number_of_threads(there, tmp_path):
    made, mined = there
    found = []
    for threads in (1, 3):
        words = ["pairs", "--mined", str(mined), "--normalised", str(made.normalised), "--root", f"made={made.root}"]
        assert main([*words, "--threads", str(threads), "--out", str(tmp_path / str(threads))]) == 0
        found.append(json.loads((tmp_path / str(threads) / "manifest.json").read_text()))
    assert found[0]["files"] == found[1]["files"] and found[0]["counts"]["kept"] == 12
    assert not any(str(tmp_path).encode() in path.read_bytes() for path in tmp_path.rglob("*.html"))


def test_the_name_of_a_set_depends_on_its_items_alone():
    assert pairs.set_of(["a", "b"]) == pairs.set_of(["b", "a"]) != pairs.set_of(["a"])


def test_decisions_on_pairs_that_are_gone_are_carried_on(there, tmp_path):
    made, mined = there
    gone, kept = ids(mined)[:2]
    decided = write(
        tmp_path / "d.jsonl", reject(gone, "advertisement", note="n", set="t3-set-1"), accept(kept, seconds=4.5, reviewer="ana")
    )
    again = made.mine(decided)
    data = payload(made.page(again, decided))
    assert data["decisions"] == {kept: {"instance_id": kept, "decision": "accept", "seconds": 4.5, "reviewer": "ana"}}
    (line,) = data["carried"]
    assert line == {"instance_id": gone, "decision": "reject", "reason": "advertisement", "note": "n", "set": "t3-set-1"}


def test_a_picture_that_is_gone_leaves_the_rest_of_the_page(there, tmp_path, capsys):
    made, mined = there
    shutil.copytree(made.root, tmp_path / "root")
    for path in sorted((tmp_path / "root").iterdir())[::2]:
        path.unlink()
    words = ["review", "pairs", "--mined", str(mined), "--normalised", str(made.normalised), "--root", f"made={tmp_path / 'root'}"]
    assert main([*words, "--out", str(tmp_path / "page")]) == 0
    assert "pictures are gone since the sources were read" in capsys.readouterr().err
    shown = [picture for item in payload(tmp_path / "page")["items"] for picture in item["pictures"]]
    assert None in shown and any(shown)


def refused(made, mined, tmp_path, capsys, root=None, normalised=None, decided=()):
    """Return the one line with which the page is refused."""
    words = ["review", "pairs", "--mined", str(mined), "--normalised", *map(str, normalised or [made.normalised])]
    words += ["--root", f"made={root or made.root}"] if root != "" else []
    words += ["--reviewed", *map(str, decided)] if decided else []
    assert main([*words, "--out", str(tmp_path / "page")]) == 2
    assert not list((tmp_path / "page").glob("*"))
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    return text


def test_pictures_that_are_not_the_mined_ones_are_refused(there, tmp_path, capsys):
    made, mined = there
    shutil.copytree(made.root, tmp_path / "root")
    files = sorted((tmp_path / "root").iterdir())
    for path, other in zip(files, files[1:] + files[:1], strict=True):
        path.write_bytes((made.root / other.name).read_bytes())
    assert "picture has changed since the source was read; restore it" in refused(made, mined, tmp_path, capsys, tmp_path / "root")


def test_a_page_without_any_picture_is_refused(there, tmp_path, capsys):
    made, mined = there
    assert "no folder given for source 'made'; add --root" in refused(made, mined, tmp_path, capsys, "")
    assert "folder not found" in refused(made, mined, tmp_path, capsys, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "holds none of the" in refused(made, mined, tmp_path, capsys, tmp_path / "empty")


def test_pairs_of_other_logs_are_refused(there, tmp_path, capsys):
    made, mined = there
    (tmp_path / "b").mkdir()
    other = bench(tmp_path / "b", logs(3))
    assert "which the sources given with --normalised do not" in refused(made, mined, tmp_path, capsys, normalised=[other.normalised])


def test_the_page_refuses_the_decisions_that_mining_refuses(there, tmp_path, capsys):
    made, mined = there
    other = write(tmp_path / "other.jsonl", *(accept(f"t3-{k}", set="t3-set-77") for k in range(9)))
    assert "decides on another set of items (t3-set-77)" in refused(made, mined, tmp_path, capsys, decided=[other])
    mixed = write(tmp_path / "mixed.jsonl", accept(ids(mined)[0]), accept("t3-strange"))
    assert "mixed.jsonl:2: instance_id: 't3-strange' is no T3 item" in refused(made, mined, tmp_path, capsys, decided=[mixed])


def test_a_decision_on_a_pair_that_could_have_been_mined_is_carried(tmp_path):
    made = bench(tmp_path)
    wide, narrow = made.mine(), Bench(tmp_path, made.normalised, made.root, {"cross": 1, "same_domain": 1, "long_skip": 1}, 9).mine()
    decided = write(tmp_path / "d.jsonl", *(accept(name) for name in ids(wide)))
    assert len(payload(made.page(narrow, decided))["carried"]) == 9


def test_no_pairs_make_a_page_that_says_so(tmp_path):
    made = bench(tmp_path, cross=0)
    page = made.page(made.mine())
    assert "nothing to look at" in (page / "index.html").read_text()


def test_a_folder_with_other_files_is_not_written_over(there, tmp_path, capsys):
    made, mined = there
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "own.jpg").write_text("")
    words = ["review", "pairs", "--mined", str(mined), "--normalised", str(made.normalised), "--out", str(tmp_path)]
    assert main(words) == 2
    assert "is not empty; give a new folder" in capsys.readouterr().err
    assert (tmp_path / "pictures" / "own.jpg").is_file()


SOURCES = [{"name": "sim", "kind": "simulated", "trajectories": 5}]


def plan(reviewed_: object = None, **quota: int):
    t3 = {"reviewed": reviewed_} | ({"quota": quota} if quota else {})
    return plans.build(configs.check({"sources": SOURCES, "probes": {"t3": t3}}))


def key(reviewed_: object) -> str:
    (job,) = plan(reviewed_).of("mine")
    return job.key


def test_a_list_of_decisions_is_keyed_by_what_is_in_the_files(tmp_path):
    a, b = (str(write(tmp_path / f"{name}.jsonl", accept(name))) for name in "ab")
    assert key(a) == key([a]) == key([a, a]) != key(b)
    assert key([a, b]) == key([b, a]) not in (key(a), key(None))
    assert key(None) == key([])
    (job,) = plan([a, b]).of("pairs")
    assert job.places["reviewed"] == [a, b] and job.key != plan(a).of("pairs")[0].key


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([3], "probes.t3.reviewed.0: must be a text (found 3); what it means: decisions of"),
        (["a", {"b": 1}], "probes.t3.reviewed.1: must be a text"),
        (3, "probes.t3.reviewed: must be a text (found 3); what it means: decisions of"),
        ([""], "probes.t3.reviewed: .: is a folder; a file is needed; give the file's path"),
    ],
)
def test_a_config_that_names_no_file_of_decisions_says_which_field_to_mend(given, message):
    with pytest.raises(InputError) as caught:
        plan(given)
    assert message in str(caught.value) and ".str" not in str(caught.value)


def test_a_run_that_mines_no_pairs_has_no_page():
    assert plan(cross=0).of("pairs") == () and len(plan().of("pairs")) == 1


def test_a_run_lays_the_page_out_and_leaves_what_people_put_beside_it(there, tmp_path, capsys):
    made, mined = there
    results = tmp_path / "results"

    def publish(key_: str, *decisions: Path) -> Path:
        out = results / "pairs" / key_
        words = ["pairs", "--mined", str(made.mine(*decisions)), "--normalised", str(made.normalised), "--root", f"made={made.root}"]
        assert main([*words, "--out", str(out)]) == 0
        assert main(["publish", "--run", "r", "--results", str(results), str(out)]) == 0
        return results / "runs" / "r" / "review" / "t3"

    page = publish("k1")
    assert f"T3 pairs to review: {page.as_posix()}/index.html" in capsys.readouterr().out
    first = {path.name for path in (page / "pictures").iterdir()}
    own = write(page / "ana.jsonl", *(reject(name) for name in ids(mined)[:6]))
    assert publish("k2", own) == page and own.is_file()
    second = {path.name for path in (page / "pictures").iterdir()}
    assert second != first and second == {
        picture["src"].partition("/")[2] for item in payload(page)["items"] for picture in item["pictures"]
    }
