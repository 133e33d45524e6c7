"""Final labels: human agreement, majority, consensus, ties, and the published figures."""

import json
from collections import Counter

import pyarrow.parquet as pq
import pytest
from tests.conftest import SHARED

from evoaudit import labels as label_files
from evoaudit.__main__ import main
from evoaudit.audit import select
from evoaudit.audit.combine import Votes, category, combine, count, verdict
from evoaudit.resources import PUBLISHED
from evoaudit.store import read_manifest, read_rows, write_table

MADE_UP = next(
    (path for path in (PUBLISHED / "synthetic_cua_labels.csv", SHARED / "published" / "synthetic_cua_labels.csv") if path.exists()), None
)


def votes(judges, humans=()):
    def label(word):
        found, _, diagnosis = word.partition("/")
        return {"verdict": found, "category": diagnosis or None, "simulated": False}

    return Votes({f"j{i}": label(word) for i, word in enumerate(judges)}, {f"h{i}": label(word) for i, word in enumerate(humans)})


@pytest.mark.parametrize(
    ("judges", "humans", "tie", "expected"),
    [
        (["gf", "gf"], ["efn", "efn"], "unclear", ("efn", "human_agreement")),
        (["broken", "gf"], ["efn", "gf"], "unclear", ("gf", "majority")),
        (["efn", "broken"], ["broken", "gf"], "unclear", ("broken", "majority")),
        (["efn", "gf"], ["efn", "unclear"], "unclear", ("efn", "majority")),
        (["gf", "gf"], ["efn", "broken"], "unclear", ("gf", "majority")),
        (["efn", "gf"], ["efn", "gf"], "unclear", ("unclear", "tie")),
        (["efn", "gf"], ["efn", "gf"], "gf", ("gf", "tie")),
        (["efn", "gf"], ["efn", "gf"], "judges", ("unclear", "tie")),
        (["efn"], ["broken", "gf"], "judges", ("efn", "tie")),
        (["gf", "efn"], ["broken", "unclear"], "unclear", ("unclear", "tie")),
        (["gf", "gf"], [], "unclear", ("gf", "judges")),
        (["gf"], [], "unclear", ("gf", "judges")),
        (["gf", "efn"], [], "unclear", ("unclear", "tie")),
        (["gf", "efn", "gf"], [], "unclear", ("gf", "majority")),
        ([], ["efn", "efn"], "unclear", ("efn", "human_agreement")),
        ([], ["efn", "gf"], "unclear", ("unclear", "tie")),
        ([], ["efn"], "unclear", ("efn", "majority")),
        (["gf", "gf"], ["efn"], "unclear", ("gf", "majority")),
        (["gf", "efn"], ["efn"], "unclear", ("efn", "majority")),
        ([], ["efn", "efn", "gf"], "unclear", ("efn", "majority")),
    ],
)
def test_verdicts(judges, humans, tie, expected):
    assert verdict(votes(judges, humans), tie) == expected


def test_nobodys_verdict_is_none():
    assert verdict(votes([]), "gf") is None


@pytest.mark.parametrize(
    ("judges", "humans", "expected"),
    [
        (["gf/t1-spec", "gf/t1-loop"], ["gf/t3-noop", "gf/t3-noop"], ("t3-noop", "human_agreement")),
        (["gf/t1-spec", "gf/t1-loop"], ["gf/t1-loop", "gf/t3-noop"], ("t1-loop", "majority")),
        (["gf/t1-spec", "gf/t1-loop"], ["gf", "gf"], ("ambiguous", "tie")),
        (["gf/t1-spec", "gf/t1-spec"], [], ("t1-spec", "judges")),
        (["gf/t1-spec", "efn"], ["gf/t1-spec", "efn"], ("t1-spec", "majority")),
        (["gf/t1-spec", "gf/t1-loop"], ["gf/t3-noop", "gf/t3-term"], ("ambiguous", "tie")),
        (["gf", "gf"], [], (None, "missing")),
        (["gf/ambiguous", "gf/ambiguous"], [], ("ambiguous", "judges")),
    ],
)
def test_categories_come_from_those_who_said_genuine_failure(judges, humans, expected):
    assert category(votes(judges, humans)) == expected


def label(identity, annotator, found, kind="human", stage="blind", simulated=False, diagnosis=None):
    return {
        "trajectory_id": identity,
        "annotator": annotator,
        "kind": kind,
        "stage": stage,
        "verdict": found,
        "category": diagnosis,
        "simulated": simulated,
        "evidence_steps": None,
        "confidence": None,
        "seconds": None,
        "note": None,
        "codebook_version": "1",
    }


def test_only_blind_labels_of_configured_groups_on_analysed_rows_count():
    frame = [{"trajectory_id": "a", "status": "analysed"}, {"trajectory_id": "c", "status": "calibration"}]
    given = [
        label("a", "h1", "gf"),
        label("a", "h2", "efn", stage="informed"),
        label("a", "h3", "efn"),
        label("c", "h1", "gf"),
        label("x", "h1", "gf"),
        label("a", "j", None, kind="rules"),
        label("a", "s", "gf", simulated=True),
    ]
    cast, left_out = count(given, frame, ["h1", "h2", "s"], review=set())
    assert list(cast) == ["a"] and list(cast["a"].humans) == ["h1"] and not cast["a"].judges
    assert Counter(reason for _, reason in left_out) == Counter(
        ["informed", "group_not_configured", "calibration", "not_in_sample", "no_verdict", "not_in_review_set"]
    )


def adjudicated(cast, *words):
    """Return the votes with adjudicated labels beside them."""
    cast.adjudicated = dict(enumerate(votes(words).judges.values()))
    return cast


@pytest.mark.parametrize(
    ("judges", "humans", "word", "expected", "diagnosis"),
    [
        (["gf", "gf"], ["gf", "gf"], "efn", ("efn", "adjudication"), (None, "missing")),
        (["efn", "efn"], ["gf/t3-term", "gf/t3-noop"], "gf/t3-noop", ("gf", "adjudication"), ("t3-noop", "adjudication")),
        (["gf/other", "gf/other"], ["efn", "gf/other"], "gf", ("gf", "adjudication"), ("other", "majority")),
        ([], [], "broken", ("broken", "adjudication"), (None, "missing")),
    ],
)
def test_an_adjudicated_label_is_the_final_word(judges, humans, word, expected, diagnosis):
    cast = adjudicated(votes(judges, humans), word)
    assert verdict(cast, "unclear") == expected and category(cast) == diagnosis
    assert len(cast.raters) == len(judges) + len(humans), "it is no vote"


def test_adjudicators_who_contradict_each_other_decide_nothing_and_are_counted():
    frame = [{"trajectory_id": one, "status": "analysed"} for one in "ab"]
    given = [label(one, name, "gf") for one in "ab" for name in ("h1", "h2")]
    given += [label("a", "x", "efn", stage="adjudicated"), label("a", "y", "broken", stage="adjudicated")]
    given += [label("b", name, "efn", stage="adjudicated") for name in "xy"] + [label("b", "m", "gf", kind="llm", stage="adjudicated")]
    cast, left_out = count(given, frame, ["h1", "h2"])
    assert Counter(reason for _, reason in left_out) == {"adjudicators_differ": 2, "adjudicated": 1}
    assert {one: verdict(cast[one], "unclear") for one in "ab"} == {"a": ("gf", "human_agreement"), "b": ("efn", "adjudication")}
    off, left_out = count(given, frame, ["h1", "h2"], adjudication=False)
    assert Counter(reason for _, reason in left_out) == {"adjudicated": 5} and verdict(off["b"], "unclear") == ("gf", "human_agreement")


def test_a_run_may_count_adjudicated_labels_apart_and_says_what_they_move(tmp_path):
    sample, rows = sampled(tmp_path / "s", "ab"), []
    for one, settled in (("a", "efn"), ("b", "gf")):
        rows += [label(one, name, "gf", diagnosis="other") for name in ("h1", "h2")]
        rows.append(label(one, "chair", settled, stage="adjudicated", diagnosis="t3-noop" if settled == "gf" else None))
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(label_files.dumps({**dict.fromkeys(label_files.FIELDS), **row}) + "\n" for row in rows))
    found = {}
    for name, settings in (("decides", {"groups": ["h1", "h2"]}), ("apart", {"groups": ["h1", "h2"], "adjudication": "apart"})):
        out = tmp_path / name
        assert run("combine", "--sample", sample, "--labels", path, "--settings", json.dumps(settings), "--out", out) == 0
        found[name] = {row["trajectory_id"]: (row["verdict"], row["category"], row["verdict_rule"]) for row in read_rows(out, "final")}
        dropped = read_manifest(out)["counts"]["others"]["label"]["dropped"]
        assert dropped == ({} if name == "decides" else {"adjudicated": 2})
        words = ("stats", "--sample", sample, "--final", out, "--settings", '{"bootstrap": 50}', "--out", tmp_path / f"{name}-stats")
        assert run(*words) == 0
        table = pq.read_table(tmp_path / f"{name}-stats" / "sensitivity.parquet").to_pylist()
        moved = {row["setting"]: row["value"] for row in table if row["choice"] == "adjudicated labels" and row["subject"] == "All"}
        expected = {"the final word": 50, "counted apart": 0}
        assert {words.removesuffix(" (as run)"): value for words, value in moved.items()} == expected
        assert [words for words in moved if words.endswith(" (as run)")] == [
            {"decides": "the final word (as run)", "apart": "counted apart (as run)"}[name]
        ]
    assert found["decides"] == {"a": ("efn", None, "adjudication"), "b": ("gf", "t3-noop", "adjudication")}
    assert found["apart"] == dict.fromkeys("ab", ("gf", "other", "human_agreement"))
    refused = ("combine", "--sample", sample, "--settings", '{"adjudication": "perhaps"}', "--out", tmp_path / "x")
    assert run(*refused) == 2 and not (tmp_path / "x").exists()


def test_every_final_row_says_how_it_came_about():
    frame = [{"trajectory_id": i, "benchmark": "b", "agent": "a", "task_id": "1", "simulated": False} for i in "ab"]
    rows, unlabelled = combine(frame, {"a": votes(["gf/other", "gf/other"], ["gf/t1-spec", "gf/t1-spec"])}, tie="unclear")
    assert unlabelled == ["b"]
    assert rows == [
        {
            "trajectory_id": "a",
            "benchmark": "b",
            "agent": "a",
            "task_id": "1",
            "verdict": "gf",
            "category": "t1-spec",
            "verdict_rule": "human_agreement",
            "category_rule": "human_agreement",
            "reviewed": True,
            "n_raters": 4,
            "simulated": False,
        }
    ]


def run(*words):
    return main([str(word) for word in words])


def sampled(folder, ids):
    folder.mkdir()
    write_table(
        folder,
        "sample",
        [
            {
                "trajectory_id": i,
                "source": "s",
                "benchmark": "web",
                "agent": "a",
                "experiment": None,
                "task_id": i,
                "domain": None,
                "raw_reward": 0.0,
                "verdict": "fail",
                "order": 0,
                "status": "analysed",
                "simulated": False,
            }
            for i in ids
        ],
    )
    return folder


def judged(folder, name, verdicts, kind="llm", simulated=False):
    folder.mkdir()
    write_table(
        folder,
        "judgments",
        [
            {
                **label(i, name, v, kind, simulated=simulated, diagnosis="other" if v == "gf" else None),
                "judge_id": name,
                "evidence": "text",
                "status": "ok" if v else "refused",
                "rationale": None,
                "input_tokens": None,
                "output_tokens": None,
                "usd": None,
            }
            for i, v in verdicts.items()
        ],
    )
    return folder


def test_judges_people_and_label_files_combine(tmp_path):
    sample = sampled(tmp_path / "s", "abcd")
    judges = [
        judged(tmp_path / "j1", "one", dict(zip("abcd", ["gf", "gf", "efn", None], strict=True)), "rules"),
        judged(tmp_path / "j2", "two", dict(zip("abcd", ["gf", "efn", "efn", None], strict=True))),
    ]
    people = judged(tmp_path / "p", "sim", dict.fromkeys("abcd", "broken"), "human", simulated=True)
    assert (
        run("select", "--sample", sample, "--judgments", *judges, "--seed", 1, "--settings", '{"agreements": 0}', "--out", tmp_path / "sel")
        == 0
    )
    files = tmp_path / "labels.jsonl"
    files.write_text(
        json.dumps(
            {"trajectory_id": "b", "annotator": "real", "kind": "human", "stage": "blind", "verdict": "broken", "codebook_version": "1"}
        )
    )
    assert (
        run(
            "combine",
            "--sample",
            sample,
            "--judgments",
            *judges,
            "--people",
            people,
            "--review",
            tmp_path / "sel",
            "--labels",
            files,
            "--settings",
            '{"groups": ["sim", "real"]}',
            "--out",
            tmp_path / "c",
        )
        == 0
    )
    final = {
        row["trajectory_id"]: (row["verdict"], row["verdict_rule"], row["reviewed"], row["n_raters"], row["simulated"])
        for row in read_rows(tmp_path / "c", "final")
    }
    assert final == {
        "a": ("gf", "judges", False, 2, False),
        "b": ("broken", "human_agreement", True, 4, True),
        "c": ("efn", "judges", False, 2, False),
        "d": ("broken", "majority", True, 1, True),
    }
    everyone = Counter(row["annotator"] for row in read_rows(tmp_path / "c", "labels"))
    assert everyone == {"one": 4, "two": 4, "sim": 2, "real": 1}
    counts = read_manifest(tmp_path / "c")["counts"]
    assert counts["kept"] == 4 and counts["others"]["label"]["dropped"] == {"no_verdict": 2, "not_in_review_set": 2}
    assert counts["others"]["review"] == {"read": 2, "kept": 2, "dropped": {}}


def test_a_skip_is_counted_with_its_reason_and_decides_nothing(tmp_path):
    sample = sampled(tmp_path / "s", "abc")
    rows = [{**dict.fromkeys(label_files.FIELDS), **label("a", "h1", "gf", diagnosis="other")}]
    for one, who in (("a", "h2"), ("b", "h1")):
        skip = label(one, who, None) | {"skipped": True, "note": "no login"}
        rows.append({**dict.fromkeys(label_files.FIELDS), **skip})
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(label_files.dumps(row) + "\n" for row in rows))
    assert run("select", "--sample", sample, "--out", tmp_path / "sel") == 0
    assert run("combine", "--sample", sample, "--review", tmp_path / "sel", "--labels", path, "--out", tmp_path / "c") == 0
    assert [(row["trajectory_id"], row["n_raters"]) for row in read_rows(tmp_path / "c", "final")] == [("a", 1)]
    others = read_manifest(tmp_path / "c")["counts"]["others"]
    assert others["label"] == {"read": 3, "kept": 1, "dropped": {"skipped": 2}}
    assert others["review"] == {"read": 3, "kept": 1, "dropped": {"skipped": 1, "awaits_review": 1}}
    drops = {(row["unit"], row["item"]): row["detail"] for row in read_rows(tmp_path / "c", "drops") if row["reason"] == "skipped"}
    assert drops == {("label", "a by h2 (blind)"): "no login", ("label", "b by h1 (blind)"): "no login", ("review", "b"): None}


def test_what_nobody_labelled_or_reviewed_is_listed(tmp_path):
    sample = sampled(tmp_path / "s", "ab")
    assert run("select", "--sample", sample, "--out", tmp_path / "sel") == 0
    assert run("combine", "--sample", sample, "--review", tmp_path / "sel", "--out", tmp_path / "c") == 0
    drops = Counter((row["unit"], row["reason"]) for row in read_rows(tmp_path / "c", "drops"))
    assert drops == {("trajectory", "no_label"): 2, ("review", "awaits_review"): 2}
    assert read_rows(tmp_path / "c", "final") == []


def test_one_name_for_two_judges_is_refused(tmp_path, capsys):
    sample = sampled(tmp_path / "s", "a")
    judges = [judged(tmp_path / name, "same", {"a": "gf"}) for name in ("j1", "j2")]
    assert run("combine", "--sample", sample, "--judgments", *judges, "--out", tmp_path / "c") == 2
    assert "its own name" in capsys.readouterr().err


def test_a_label_file_of_a_judge_of_this_run_is_refused(tmp_path, capsys):
    sample = sampled(tmp_path / "s", "a")
    (tmp_path / "l.jsonl").write_text(
        json.dumps({"trajectory_id": "a", "annotator": "one", "kind": "llm", "stage": "blind", "verdict": "gf", "codebook_version": "1"})
    )
    assert (
        run(
            "combine",
            "--sample",
            sample,
            "--judgments",
            judged(tmp_path / "j", "one", {"a": "gf"}),
            "--labels",
            tmp_path / "l.jsonl",
            "--out",
            tmp_path / "c",
        )
        == 2
    )
    assert "rename" in capsys.readouterr().err


def test_an_unknown_tie_rule_is_refused(tmp_path):
    assert run("combine", "--sample", sampled(tmp_path / "s", "a"), "--settings", '{"tie": "coin"}', "--out", tmp_path / "c") == 2


@pytest.mark.skipif(MADE_UP is None, reason="made-up label set absent")
def test_the_made_up_label_set_gives_the_papers_figures(tmp_path):
    # Its combined category stands in for both human groups', who have none in it.
    assert (
        run(
            "review",
            "convert",
            MADE_UP,
            "--rater",
            "gpt=llm:gpt:gpt_category",
            "--rater",
            "claude=llm:claude:claude_category",
            "--rater",
            "human-1=human:human1:final_category",
            "--rater",
            "human-2=human:human2:final_category",
            "--out",
            tmp_path / "in",
        )
        == 0
    )
    assert run("sample", "--frame", tmp_path / "in" / "frame.csv", "--out", tmp_path / "s") == 0
    assert (
        run(
            "combine",
            "--sample",
            tmp_path / "s",
            "--labels",
            tmp_path / "in" / "labels.jsonl",
            "--settings",
            '{"groups": ["human-1", "human-2"]}',
            "--out",
            tmp_path / "c",
        )
        == 0
    )
    final = read_rows(tmp_path / "c", "final")
    assert Counter(row["verdict"] for row in final) == {"gf": 122, "efn": 16, "broken": 7, "unclear": 5}
    assert Counter(row["category"] for row in final if row["verdict"] == "gf") == {
        "t1-spec": 18,
        "t1-loop": 20,
        "t1-hall": 5,
        "t2-ground": 9,
        "t2-tool": 6,
        "t2-state": 2,
        "t3-noop": 36,
        "t3-term": 8,
        "t3-verif": 4,
        "other": 6,
        "ambiguous": 8,
    }
    assert Counter(row["verdict_rule"] for row in final) == {"human_agreement": 89, "majority": 15, "judges": 46}
    assert all(row["simulated"] for row in final)


@pytest.mark.skipif(MADE_UP is None, reason="made-up label set absent")
def test_the_made_up_judges_disagree_on_the_papers_74_rows(tmp_path):
    raters = [label_files.Rater("gpt", "llm", "gpt", "gpt_category"), label_files.Rater("claude", "llm", "claude", "claude_category")]
    frame, rows = label_files.spread(MADE_UP, raters)
    judges = [[row for row in rows if row["annotator"] == rater.name] for rater in raters]
    found = select.review_set(frame, judges, agreements=30, seed=20260717)
    assert select.counts(found) == {"agree": 76, "category_disagree": 63, "verdict_disagree": 11}
    assert sum(row["selected"] for row in found) == 104


def test_nobody_waits_for_rows_on_which_the_judges_of_label_files_agree(tmp_path):
    sample = sampled(tmp_path / "s", "abc")
    assert run("select", "--sample", sample, "--out", tmp_path / "sel") == 0
    said = {"one": {"a": "efn", "b": "efn", "c": "efn"}, "two": {"a": "efn", "b": "broken"}}
    rows = [
        {"trajectory_id": one, "annotator": name, "kind": "llm", "stage": "blind", "verdict": verdict, "codebook_version": "1"}
        for name, verdicts in said.items()
        for one, verdict in verdicts.items()
    ]
    (tmp_path / "l.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert run("combine", "--sample", sample, "--review", tmp_path / "sel", "--labels", tmp_path / "l.jsonl", "--out", tmp_path / "c") == 0
    # On `a` they agree; they differ on `b`, and one of them said nothing of `c`.
    counts = read_manifest(tmp_path / "c")["counts"]["others"]["review"]
    assert counts == {"read": 2, "kept": 0, "dropped": {"awaits_review": 2}}
    waiting = {row["item"] for row in read_rows(tmp_path / "c", "drops") if row["reason"] == "awaits_review"}
    assert waiting == {"b", "c"}


@pytest.mark.parametrize(
    ("judges", "humans", "expected"),
    [
        # Two for Tier 1, two for Tier 3: the boundary rule asks for the earliest decisive failure.
        (["gf/t1-loop", "gf/t3-noop"], ["gf/t1-loop", "gf/t3-noop"], ("ambiguous", "ambiguous", "t1-loop")),
        # The judges agree, the people do not, and nobody has more than two.
        (["gf/t3-noop", "gf/t3-noop"], ["gf/t1-loop", "gf/t1-loop"], ("t1-loop", "t1-loop", "t1-loop")),
        (["gf/t3-noop"], ["gf/t2-tool", "gf/t1-hall"], ("ambiguous", "t3-noop", "t1-hall")),
        # Two of one tier: the tiers do not settle it.
        (["gf/t1-loop", "gf/t1-spec"], [], ("ambiguous", "ambiguous", "ambiguous")),
        # A code outside the tiers is later than any of them.
        (["gf/other", "gf/t3-term"], [], ("ambiguous", "ambiguous", "t3-term")),
        (["gf/other", "gf/ambiguous"], [], ("ambiguous", "ambiguous", "ambiguous")),
        # No tie, no rule for ties.
        (["gf/t3-noop", "gf/t3-noop"], ["gf/t1-loop", "gf/t3-noop"], ("t3-noop", "t3-noop", "t3-noop")),
    ],
)
def test_ties_of_diagnoses_go_by_the_named_rule(judges, humans, expected):
    assert tuple(category(votes(judges, humans), rule)[0] for rule in ("ambiguous", "judges", "earliest")) == expected
