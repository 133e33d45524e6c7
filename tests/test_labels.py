"""Label files: what is read, what is refused and where, and that nothing is overwritten."""

import contextlib
import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoaudit import codebook, labels
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.store import write_table

GOOD = {
    "trajectory_id": "t-1",
    "annotator": "human-1",
    "kind": "human",
    "stage": "blind",
    "verdict": "gf",
    "category": "t3-noop",
    "evidence_steps": [3, 4],
    "confidence": 0.8,
    "seconds": 61.5,
    "note": "clicks on",
    "codebook_version": "1",
}


def write(path, rows, as_csv=False):
    if as_csv:
        buffer = io.StringIO(newline="")
        writer = csv.DictWriter(buffer, list(GOOD))
        writer.writeheader()
        writer.writerows(
            {name: ";".join(map(str, value)) if isinstance(value, list) else value for name, value in row.items()} for row in rows
        )
        path.write_text(buffer.getvalue(), encoding="utf-8-sig", newline="")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(*words):
    return main([str(word) for word in words])


def test_json_lines_and_csv_with_a_bom_read_alike(tmp_path):
    rows = [GOOD, {**GOOD, "trajectory_id": "007", "verdict": "efn", "category": None}]
    read = labels.read([write(tmp_path / "a.jsonl", rows)])
    assert read == labels.read([write(tmp_path / "a.csv", rows, as_csv=True)])
    told = {"simulated": False, "practice": False, "viewed": None, "saw_last": False, "discuss": False, "skipped": False}
    assert read[0] == {**GOOD, **told}
    assert read[1]["trajectory_id"] == "007" and read[1]["category"] is None


def test_only_the_required_fields_are_needed(tmp_path):
    row = {name: GOOD[name] for name in labels.REQUIRED} | {"verdict": "broken"}
    read = labels.read([write(tmp_path / "a.jsonl", [row])])[0]
    assert read["verdict"] == "broken" and read["confidence"] is None and read["evidence_steps"] is None


def test_outer_white_space_of_names_and_codes_is_a_slip(tmp_path):
    read = labels.read([write(tmp_path / "a.jsonl", [{**GOOD, "annotator": " H", "verdict": "gf "}])])[0]
    assert read["annotator"] == "H" and read["verdict"] == "gf"


SKIP = {name: GOOD[name] for name in labels.REQUIRED if name != "verdict"} | {"skipped": True, "note": "the pictures are gone"}


def test_a_skip_is_no_label_and_is_told_apart(tmp_path):
    path, skips = write(tmp_path / "a.jsonl", [GOOD | {"trajectory_id": "t-2"}, SKIP, SKIP]), []
    assert [row["trajectory_id"] for row in labels.read([path], skips=skips)] == ["t-2"]
    assert [(row["trajectory_id"], row["note"], row["verdict"]) for row in skips] == [("t-1", "the pictures are gone", None)]
    sheet = tmp_path / "a.csv"
    sheet.write_text("trajectory_id,annotator,kind,stage,verdict,codebook_version,note,skipped\nt-1,ana,human,blind,,1,no login,true\n")
    assert labels.read([sheet], skips=skips) == [] and skips[1]["note"] == "no login"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"note": " "}, "note: is missing; say why it was skipped"),
        ({"verdict": "gf"}, "skipped: true beside the verdict 'gf'"),
        ({"skipped": "perhaps"}, 'skipped: "perhaps" is not true or false'),
        ({"skipped": False}, "verdict: is missing"),
    ],
)
def test_half_a_skip_is_a_fault(tmp_path, change, told):
    _, findings = labels.check([write(tmp_path / "a.jsonl", [SKIP | change])])
    assert any(told in str(finding) for finding in findings)


def test_merging_lists_skips_and_keeps_them_unless_they_were_labelled_since(tmp_path, capsys):
    early = write(tmp_path / "early.jsonl", [SKIP, SKIP | {"trajectory_id": "t-2"}])
    late = write(tmp_path / "late.jsonl", [GOOD, GOOD | {"trajectory_id": "t-3"}])
    out = tmp_path / "all.jsonl"
    assert run("review", "merge", early, late, "--out", out) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [f"skipped: t-2 by {GOOD['annotator']} (blind): the pictures are gone", f"{out}: 2 labels, 1 skipped"]
    skips: list[dict] = []
    assert [row["trajectory_id"] for row in labels.read([out], skips=skips)] == ["t-1", "t-3"] and skips[0]["trajectory_id"] == "t-2"
    assert run("review", "check", early, late) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 sound labels, 1 skipped, 0 findings"


FAULTS = [
    ({"verdict": "GF"}, "verdict", "did you mean 'gf'"),
    ({"verdict": "maybe"}, "verdict", "not a code"),
    ({"category": "t3-nop"}, "category", "did you mean 't3-noop'"),
    ({"verdict": "efn"}, "category", "only 'gf' takes a category"),
    ({"kind": "robot"}, "kind", "llm, human"),
    ({"stage": "first"}, "stage", "blind, informed"),
    ({"codebook_version": None}, "codebook_version", "is missing"),
    ({"codebook_version": "9"}, "codebook_version", "not this codebook"),
    ({"codebook_version": "1+000000000000"}, "codebook_version", "not this codebook"),
    ({"trajectory_id": ""}, "trajectory_id", "is missing"),
    ({"trajectory_id": 7}, "trajectory_id", "not text"),
    ({"annotator": "  "}, "annotator", "is missing"),
    ({"verdict": None, "category": None}, "verdict", "is missing"),
    ({"confidence": 3}, "confidence", "from 0 to 1"),
    ({"confidence": "high"}, "confidence", "from 0 to 1"),
    ({"seconds": -1}, "seconds", "from 0"),
    ({"seconds": True}, "seconds", "from 0"),
    ({"evidence_steps": [1.5]}, "evidence_steps", "step numbers"),
    ({"evidence_steps": "three"}, "evidence_steps", "step numbers"),
    ({"evidence_steps": "[" * 5000}, "evidence_steps", "step numbers"),
    ({"evidence_steps": [-1]}, "evidence_steps", "step numbers"),
    ({"catgory": "other"}, "catgory", "did you mean 'category'"),
]


@pytest.mark.parametrize(
    ("change", "field", "hint"), FAULTS, ids=[f"{next(iter(case[0]))}={str(next(iter(case[0].values())))[:20]}" for case in FAULTS]
)
def test_a_faulty_row_is_refused_with_file_line_field_and_mend(change, field, hint, tmp_path):
    path = write(tmp_path / "a.jsonl", [GOOD, {**GOOD, "trajectory_id": "t-2"} | change])
    with pytest.raises(InputError) as caught:
        labels.read([path])
    message = str(caught.value)
    assert f"{path}:2" in message and field in message and hint in message and "; " in message


def test_a_second_label_of_one_annotator_is_refused_across_files(tmp_path):
    first, second = (
        write(tmp_path / "a.jsonl", [GOOD]),
        write(tmp_path / "b.csv", [{**GOOD, "verdict": "efn", "category": None}], as_csv=True),
    )
    with pytest.raises(InputError, match=r"b\.csv:2.*first given at .*a\.jsonl:1"):
        labels.read([first, second])


def test_blind_and_informed_labels_stand_side_by_side(tmp_path):
    assert len(labels.read([write(tmp_path / "a.jsonl", [GOOD, {**GOOD, "stage": "informed"}])])) == 2


def test_opposite_labels_of_two_annotators_are_both_kept(tmp_path):
    rows = labels.read([write(tmp_path / "a.jsonl", [GOOD, {**GOOD, "annotator": "human-2", "verdict": "efn", "category": None}])])
    assert [row["verdict"] for row in rows] == ["gf", "efn"]


def test_an_annotator_has_one_kind(tmp_path):
    with pytest.raises(InputError, match="one kind"):
        labels.read([write(tmp_path / "a.jsonl", [GOOD, {**GOOD, "trajectory_id": "t-2", "kind": "llm"}])])


def test_ids_outside_the_frame_and_steps_outside_the_trajectory_are_refused(tmp_path):
    path = write(tmp_path / "a.jsonl", [GOOD])
    assert labels.read([path], known={"t-1"})
    with pytest.raises(InputError, match="not in the frame"):
        labels.read([path], known={"t-9"})
    assert labels.read([path], known={"t-1": 5})
    with pytest.raises(InputError, match="step 4 of a trajectory with 4 steps"):
        labels.read([path], known={"t-1": 4})


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[1]\n",
        b'{"trajectory_id": "a", "trajectory_id": "b"}\n',
        b'{"confidence": NaN}\n',
        b"{" * 20000,
        b'{"a":' * 5000,
        b"",
        b"\xef\xbb\xbf",
        b"trajectory_id\nx\n",
        b'trajectory_id,annotator,kind,stage,verdict,codebook_version\n"a',
        b"a,a\n1,2\n",
        b"\x00\x00",
        b"\xff\xfe{\x00",
        b'{"trajectory_id": "\\ud800"}\n',
        b"\x89PNG\r\n\x1a\n",
    ],
)
def test_broken_files_are_refused_in_one_line(content, tmp_path, capsys):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        labels.read([path])
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("labels") / "x"
    path.write_bytes(b"{" + content)
    with contextlib.suppress(InputError):
        labels.check([path])


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="not found"):
        labels.read([tmp_path / "none.jsonl"])


def test_the_codebook_has_the_codes_of_label_files():
    book = codebook.load()
    assert book.verdicts == ("gf", "efn", "broken", "unclear")
    assert set(book.categories) == {
        "t1-spec",
        "t1-loop",
        "t1-hall",
        "t2-ground",
        "t2-state",
        "t2-tool",
        "t3-term",
        "t3-verif",
        "t3-noop",
        "other",
        "ambiguous",
    }
    assert all(book.tier_of(code) == int(code[1]) for code in book.categories if code[0] == "t")
    assert len(book.mast) == 11


def test_labels_may_name_the_codebook_by_version_or_by_hash():
    book = codebook.load()
    assert book.accepts("1") and book.accepts("v1") and book.accepts("1.0") and book.accepts(book.identity)
    assert not book.accepts("2") and not book.accepts("1+abc") and not book.accepts("")


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("code: t3-noop", "code: t3-term", "twice"),
        ("codes: [t2-ground]}", "codes: [t9-gone]}", "unknown codes"),
        ("`t1-loop`", "`t1-lop`", "unknown code"),
        ("version:", "versoin:", "version: Field required"),
        ("tier: 3\n      name: Premature", "tier: 9\n      name: Premature", "tier 9"),
    ],
)
def test_a_codebook_that_contradicts_itself_is_refused(old, new, what, tmp_path):
    text = (codebook.CODEBOOK / "v1.yaml").read_text()
    assert old in text
    (tmp_path / "v1.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=what):
        codebook.load("v1", tmp_path)


def test_comments_do_not_change_the_codebooks_hash(tmp_path):
    (tmp_path / "v1.yaml").write_text("# a comment\n" + (codebook.CODEBOOK / "v1.yaml").read_text())
    assert codebook.load("v1", tmp_path).hash == codebook.load().hash


def test_check_lists_every_fault_and_exits_with_1(tmp_path, capsys):
    path = write(
        tmp_path / "a.jsonl",
        [{**GOOD, "verdict": "x"}, {**GOOD, "trajectory_id": "t-2", "confidence": 7}, {**GOOD, "trajectory_id": "t-3"}],
    )
    assert run("review", "check", path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [f"{path}:1" in lines[0], f"{path}:2" in lines[1], lines[2]] == [True, True, "1 sound labels, 2 findings"]
    assert run("review", "check", write(tmp_path / "b.jsonl", [GOOD])) == 0


def test_check_knows_the_frame(tmp_path, capsys):
    frame = tmp_path / "frame.csv"
    frame.write_text("trajectory_id,benchmark,agent,task_id\nt-9,b,a,1\n")
    assert run("review", "check", write(tmp_path / "a.jsonl", [GOOD]), "--frame", frame) == 1
    assert "not in the frame" in capsys.readouterr().out


def test_merge_keeps_every_label_and_never_overwrites(tmp_path):
    one, two = write(tmp_path / "1.jsonl", [GOOD]), write(tmp_path / "2.csv", [GOOD, {**GOOD, "annotator": "human-2"}], as_csv=True)
    out = tmp_path / "all.jsonl"
    assert run("review", "merge", one, two, "--out", out) == 0
    assert [row["annotator"] for row in labels.read([out])] == ["human-1", "human-2"]
    before = out.read_bytes()
    assert run("review", "merge", one, "--out", out) == 2
    assert out.read_bytes() == before


def test_merge_refuses_a_changed_label(tmp_path, capsys):
    one, two = write(tmp_path / "1.jsonl", [GOOD]), write(tmp_path / "2.jsonl", [{**GOOD, "note": "changed my mind"}])
    assert run("review", "merge", one, two, "--out", tmp_path / "all.jsonl") == 1
    assert "never overwritten" in capsys.readouterr().out and not (tmp_path / "all.jsonl").exists()


def test_the_order_of_merged_files_does_not_matter(tmp_path):
    one, two = write(tmp_path / "1.jsonl", [GOOD]), write(tmp_path / "2.jsonl", [{**GOOD, "trajectory_id": "t-0"}])
    run("review", "merge", one, two, "--out", tmp_path / "a.jsonl")
    run("review", "merge", two, one, "--out", tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_build_writes_a_blind_list_in_an_order_of_each_groups_own(tmp_path):
    select = tmp_path / "select"
    select.mkdir()
    write_table(
        select,
        "review_set",
        [
            {
                "trajectory_id": f"t-{i}",
                "benchmark": "secret-benchmark",
                "stratum": "verdict_disagree",
                "selected": i < 20,
                "reason": "the judges' verdicts differ",
            }
            for i in range(30)
        ],
    )
    out = tmp_path / "review"
    assert run("review", "build", "--review", select, "--group", "human-1", "--group", "human-2", "--seed", 5, "--out", out) == 0
    assert sorted(path.name for path in out.iterdir()) == ["human-1.csv", "human-1.jsonl", "human-2.csv", "human-2.jsonl"]
    everything = "".join(path.read_text() for path in out.iterdir())
    assert "disagree" not in everything and "secret" not in everything
    orders = [[json.loads(line)["trajectory_id"] for line in (out / f"human-{n}.jsonl").read_text().splitlines()] for n in (1, 2)]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(f"t-{i}" for i in range(20)) and orders[0] != orders[1]


def test_a_list_filled_in_passes_the_check_and_an_empty_one_does_not(tmp_path, capsys):
    select = tmp_path / "select"
    select.mkdir()
    write_table(
        select, "review_set", [{"trajectory_id": "t-1", "benchmark": None, "stratum": "missing", "selected": True, "reason": "no judge"}]
    )
    run("review", "build", "--review", select, "--group", "h", "--out", tmp_path / "review")
    path = tmp_path / "review" / "h.csv"
    assert run("review", "check", path) == 1
    with open(path, newline="") as handle:
        rows = list(csv.DictReader(handle))
    rows[0]["verdict"] = "unclear"
    with open(path, "w", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert run("review", "check", path) == 0


def test_a_group_cannot_name_a_file_elsewhere(tmp_path):
    select = tmp_path / "select"
    select.mkdir()
    write_table(
        select, "review_set", [{"trajectory_id": "t", "benchmark": None, "stratum": "missing", "selected": True, "reason": "no judge"}]
    )
    for group in ("../x", "a/b", ".hidden", " "):
        assert run("review", "build", "--review", select, "--group", group, "--out", tmp_path / "review") == 2


def test_a_table_with_one_column_a_rater_becomes_frame_and_labels(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("id,benchmark,gpt,h1,h1_cat\n001,web,GF,Genuine failure,T1-LOOP\n002,web,EFN,,\n003,web,BROKEN,GF,AMBIG\n")
    assert run("review", "convert", table, "--rater", "gpt=llm:gpt", "--rater", "human-1=human:h1:h1_cat", "--out", tmp_path / "out") == 0
    rows = labels.read([tmp_path / "out" / "labels.jsonl"])
    assert [(row["trajectory_id"], row["annotator"], row["verdict"], row["category"]) for row in rows] == [
        ("001", "gpt", "gf", None),
        ("001", "human-1", "gf", "t1-loop"),
        ("002", "gpt", "efn", None),
        ("003", "gpt", "broken", None),
        ("003", "human-1", "gf", "ambiguous"),
    ]
    assert run("sample", "--frame", tmp_path / "out" / "frame.csv", "--out", tmp_path / "sample") == 0


@pytest.mark.parametrize(
    ("table", "rater"),
    [
        ("id,gpt\n1,GF\n", "gpt=llm"),
        ("id,gpt\n1,GF\n", "gpt=robot:gpt"),
        ("id,gpt\n1,GF\n", "gpt=llm:gtp"),
        ("id,gpt\n1,XX\n", "gpt=llm:gpt"),
        ("id,gpt\n1,GF\n1,GF\n", "gpt=llm:gpt"),
        ("id,gpt\n1\n", "gpt=llm:gpt"),
        ('id,gpt\n"1,GF\n', "gpt=llm:gpt"),
        ('"id,gpt\n', "gpt=llm:gpt"),
        ("id,gpt,gpt\n1,GF,EFN\n", "gpt=llm:gpt"),
        ("", "gpt=llm:gpt"),
    ],
)
def test_a_wrong_table_is_refused(table, rater, tmp_path):
    (tmp_path / "t.csv").write_text(table)
    assert run("review", "convert", tmp_path / "t.csv", "--rater", rater, "--out", tmp_path / "out") == 2


def test_every_code_has_an_example_but_those_for_what_fits_no_other():
    book = codebook.load()
    without = {code.code for code in (*book.stage_1.codes, *book.stage_2.codes) if not code.example}
    assert without == {"other", "ambiguous"}
