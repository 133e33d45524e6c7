"""Damage on the disk is found by checksum, named, set aside, and not read by any stage."""

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoaudit import store
from evoaudit.__main__ import main
from evoaudit.identity import FORMAT, make_key


def folder(results: Path, stage: str, files: dict[str, bytes], settings: dict | None = None, upstream: dict | None = None) -> Path:
    """Write a finished stage folder by hand, named as its settings and upstream keys name it."""
    key = make_key(stage, settings or {}, None, upstream or {})
    place = results / stage / key
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    manifest = {
        "stage": stage,
        "key": key,
        "format_version": FORMAT[stage],
        "seed": None,
        "config": {**(settings or {}), "concurrency": 8},
        "upstream": upstream or {},
        "counts": {"unit": "row", "read": 3, "kept": 2, "dropped": {"odd": 1}, "others": {}},
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "packages": {"numpy": "1"},
        "revision": "a",
    }
    (place / "manifest.json").write_text(json.dumps(manifest))
    return place


def edit(place: Path, **changes: object) -> None:
    """Change fields of a manifest."""
    path = place / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def flip(path: Path, at: int = 0) -> None:
    """Flip one bit of a file, and leave its size and times as they were."""
    times = os.stat(path)
    content = bytearray(path.read_bytes())
    content[at % len(content)] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.fixture
def results(tmp_path, monkeypatch) -> Path:
    """A run of three stages, its plan, and what is laid out of it."""
    monkeypatch.chdir(tmp_path)
    results = Path("results")
    sample = folder(results, "sample", {"sample.parquet": b"PAR1 sample"}, {"quota": 3})
    combine = folder(results, "combine", {"final.parquet": b"PAR1 final", "a/b.txt": b"deep"}, upstream={"sample": [sample.name]})
    run = results / "runs" / "mine"
    run.mkdir(parents=True)
    rows = [
        {"stage": "sample", "key": sample.name, "seed": None, "settings": {"quota": 3}, "upstream": {}},
        {"stage": "combine", "key": combine.name, "seed": None, "settings": {}, "upstream": {"sample": [sample.name]}},
        {"stage": "export", "key": "0123456789", "seed": None, "settings": {}, "upstream": {}},
    ]
    (run / "keys.json").write_text(json.dumps(rows))
    (run / "index.html").write_text("page")
    (run / "manifest.json").write_text(json.dumps({"run": "mine", "files": {"index.html": hashlib.sha256(b"page").hexdigest()}}))
    return results


def verify(capsys, *words: str) -> tuple[int, list[str]]:
    code = main(["verify", *words])
    return code, capsys.readouterr().out.splitlines()


def test_an_intact_run_says_so_and_what_was_never_made(results, capsys):
    code, lines = verify(capsys, "mine")
    assert code == 0
    assert lines == ["note: results/export/0123456789: not made", "3 folders, 4 files: all as their manifests say"]
    assert verify(capsys) == (0, ["3 folders, 4 files: all as their manifests say"])


@given(at=st.integers(0, 10))
def test_any_flipped_bit_is_found_though_size_and_time_stay(tmp_path_factory, at):
    results = tmp_path_factory.mktemp("flip")
    flip(folder(results, "sample", {"sample.parquet": b"PAR1 sample"}) / "sample.parquet", at)
    assert main(["verify", "--results", str(results)]) == 1


def test_damage_is_one_line_with_its_mend(results, capsys):
    path = next(results.glob("sample/*/sample.parquet"))
    flip(path)
    code, lines = verify(capsys, "mine")
    assert code == 1
    mend = f"`evoaudit verify --mend`, or delete {path.parent}; then run again"
    assert lines[0] == f"{path}: differs from its manifest.json; {mend}"
    assert lines[-1] == "3 folders, 4 files: 1 faults"


def test_mending_sets_damage_aside_and_takes_the_manifest_away(results, capsys):
    path = next(results.glob("sample/*/sample.parquet"))
    flip(path)
    assert verify(capsys, "mine", "--mend")[0] == 1
    assert sorted(file.name for file in path.parent.iterdir()) == ["sample.parquet.damaged"]
    code, lines = verify(capsys, "mine")  # now it is what lies downstream of it that has no ground to stand on
    assert code == 1 and "was made from sample" in lines[0]


def test_a_lost_file_and_a_damaged_page_are_found(results, capsys):
    next(results.glob("combine/*/a/b.txt")).unlink()
    (results / "runs" / "mine" / "index.html").write_text("pag3")
    code, lines = verify(capsys)
    assert code == 1
    assert "b.txt: is missing; " in lines[0] and lines[0].endswith("; then run again")
    assert lines[1] == "results/runs/mine/index.html: differs from its manifest.json; `snakemake` lays it out anew"


def test_files_of_a_listing_are_checked_too(results, capsys):
    pictures = {"a.png": b"one", "b.png": b"two"}
    listing = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in pictures.items()).encode()
    place = folder(results, "simulate", {"files.sha256": listing})
    for name, content in pictures.items():
        (place / name).write_bytes(content)
    assert verify(capsys)[0] == 0
    flip(place / "b.png")
    code, lines = verify(capsys)
    assert code == 1 and lines[0].startswith(f"{place / 'b.png'}: differs")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"key": "ffffffffff"}, "belongs to combine/ffffffffff"),
        ({"counts": {"unit": "row", "read": 3, "kept": 1, "dropped": {"odd": 1}}}, "row: read 3 is not kept 1 and dropped 1"),
        ({"upstream": {"sample": ["eeeeeeeeee"]}}, "was made from sample eeeeeeeeee, which is not there"),
        ({"seed": 4}, "seed is not what the run's keys.json says"),
        ({"format_version": 1}, "its settings do not lead to its key"),
        ({"files": 3}, "is not the manifest of a stage"),
        ({"files": {"../../x": "0"}}, "is not the manifest of a stage"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_found(results, capsys, changes, words):
    edit(next(results.glob("combine/*")), **changes)
    code, lines = verify(capsys, "mine")
    assert code == 1
    assert any(words in line for line in lines), lines


def test_what_lies_there_besides_is_a_note(results, capsys):
    place = next(results.glob("combine/*"))
    (place / "notes.txt").write_text("mine")
    (place / "journal.jsonl").write_text("{}")
    code, lines = verify(capsys)
    assert code == 0 and lines[0] == f"note: {place / 'notes.txt'}: not in its manifest.json"


def test_an_unknown_run_is_one_line(results, capsys):
    assert main(["verify", "yours"]) == 2
    assert capsys.readouterr().err == "evoaudit verify: results/runs/yours/keys.json: no such run; there are mine\n"


def test_two_trees_are_compared_without_what_they_were_made_with(results, tmp_path, capsys):
    import shutil

    other = tmp_path / "other"
    shutil.copytree(results, other)
    edit(next(other.glob("sample/*")), packages={"numpy": "2"}, revision=None)
    assert verify(capsys, "--against", str(other)) == (0, ["8 files in both: all the same"])
    edit(next(other.glob("sample/*")), seed=9)
    flip(next(other.glob("combine/*/final.parquet")))
    (other / "runs" / "mine" / "more.html").write_text("x")
    code, lines = verify(capsys, "mine", "--against", str(other))
    assert code == 1 and len(lines) == 4
    assert "more.html: not in results" in lines[0] and "final.parquet: differs" in lines[1] and "manifest.json: differs" in lines[2]
    assert lines[-1] == "8 files in both: 3 differences"


def test_comparing_with_nothing_is_refused(results, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["verify", "--results", str(tmp_path / "empty"), "--against", str(tmp_path / "empty")]) == 2
    assert main(["verify", "--against", "nowhere"]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_no_stage_reads_a_damaged_file_and_the_next_run_makes_it_anew(tmp_path, capsys):
    upstream = tmp_path / "stats"
    upstream.mkdir()
    (upstream / "tables.json").write_text("[]")
    store.write_manifest(
        upstream, stage="stats", key="k", format_version=1, seed=None, config={}, upstream={}, counts={"unit": "table", "read": 0}
    )
    (upstream / "tables.json").write_text("{}")
    out = tmp_path / "tables"
    assert main(["tables", "--stats", str(upstream / "manifest.json"), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert said == (
        f"evoaudit tables: {upstream / 'tables.json'}: differs from its manifest.json; what was there is set aside as"
        f" tables.json.damaged: run again, and {upstream} is made anew\n"
    )
    assert not out.exists() and [path.name for path in upstream.iterdir()] == ["tables.json.damaged"]


def test_a_run_may_be_named_by_its_folder(results, capsys):
    assert verify(capsys, "results/runs/mine") == verify(capsys, "mine")


def stage_folder(results: Path, stage: str = "stats") -> Path:
    """Write a finished folder as the stage writes it, of one empty table."""
    key = make_key(stage, {}, None, {})
    place = results / stage / key
    place.mkdir(parents=True)
    (place / "tables.json").write_text("[]")
    counts = {"unit": "table", "read": 3, "kept": 2, "dropped": {"odd": 1}, "others": {}}
    store.write_manifest(place, stage=stage, key=key, format_version=FORMAT[stage], seed=None, config={}, upstream={}, counts=counts)
    return place


@pytest.mark.parametrize("damage", [b'"odd"', b'"kept": 2', b"{", b""], ids=["a reason", "a count", "no JSON", "empty"])
def test_a_manifest_that_changed_is_set_aside_and_not_read(tmp_path, monkeypatch, capsys, damage):
    monkeypatch.chdir(tmp_path)
    place = stage_folder(Path("results"))
    content = (place / "manifest.json").read_bytes()
    at = content.index(damage) + len(damage) - 2 if damage else 0
    (place / "manifest.json").write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] if damage else b"")
    code, lines = verify(capsys)
    assert code == 1 and lines[0].startswith(f"{place / 'manifest.json'}: ") and "`evoaudit verify --mend`" in lines[0]
    assert main(["tables", "--stats", str(place / "manifest.json"), "--out", "out"]) == 2
    said = capsys.readouterr().err
    assert f"what was there is set aside as manifest.json.damaged: run again, and {place} is made anew" in said and said.count("\n") == 1
    assert sorted(path.name for path in place.iterdir()) == ["manifest.json.damaged", "tables.json"] and not Path("out").exists()


@pytest.mark.parametrize("lost", [True, False])
def test_a_lost_or_damaged_file_is_not_laid_out_and_is_made_anew(tmp_path, monkeypatch, capsys, lost):
    monkeypatch.chdir(tmp_path)
    place = stage_folder(Path("results"), "figures")
    (place / "tables.json").unlink() if lost else (place / "tables.json").write_text("[1]")
    assert main(["publish", "--run", "mine", str(place)]) == 2
    said = capsys.readouterr().err
    assert f"{place / 'tables.json'}: {'is missing' if lost else 'differs from its manifest.json'}; what was there is set aside" in said
    assert not (place / "manifest.json").exists() and not [path for path in Path("results/runs").rglob("*") if path.is_file()]


def test_a_damaged_manifest_of_a_run_is_written_anew(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    place = stage_folder(Path("results"), "figures")
    assert main(["publish", "--run", "mine", str(place)]) == 0
    path = Path("results/runs/mine/manifest.json")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"figures"', b'"figurer"', 1))
    assert verify(capsys)[0] == 1
    assert main(["publish", "--run", "mine", str(place)]) == 0
    assert "has changed since it was written; it is written anew" in capsys.readouterr().err and path.read_bytes() == whole


def test_a_file_of_the_users_own_that_is_no_manifest_is_left_where_it_is(tmp_path, capsys):
    (tmp_path / "manifest.json").write_text("[1]")
    assert main(["tables", "--stats", str(tmp_path / "manifest.json"), "--out", str(tmp_path / "out")]) == 2
    assert (tmp_path / "manifest.json").read_text() == "[1]"


def test_a_manifest_older_than_checksums_is_taken_as_it_is(results, capsys):
    assert verify(capsys)[0] == 0
    assert all("checksum" not in json.loads(path.read_text()) for path in results.glob("*/*/manifest.json"))


def corpus(results: Path) -> Path:
    """Simulate a few trajectories as the workflow does, and return the corpus's folder."""
    settings = {"trajectories": 3, "formats": ["plain"]}
    place = results / "simulate" / make_key("simulate", settings, 3, {})
    assert main(["simulate", "--settings", json.dumps(settings), "--seed", "3", "--key", place.name, "--out", str(place)]) == 0
    return place


def normalised(place: Path, out: Path) -> int:
    settings = {"source": "sim-plain", "kind": "plain", "simulated": True, "options": {}}
    words = ["--settings", json.dumps(settings), "--upstream", json.dumps({"simulate": [place.name]})]
    return main(["normalise", *words, "--root-folder", str(place / "plain"), "--truth", str(place / "truth.jsonl"), "--out", str(out)])


@pytest.mark.parametrize("name", ["plain/trajectories.jsonl", "plain/**/*.png", "truth.jsonl", "files.sha256"])
def test_a_damaged_corpus_is_not_read_and_is_made_anew(tmp_path, capsys, name):
    place = corpus(tmp_path)
    path = sorted(place.glob(name))[0]
    flip(path, 40)
    assert normalised(place, tmp_path / "normalise" / "a") == 2
    said = capsys.readouterr().err
    assert f"{path}: differs from its manifest.json; what was there is set aside" in said
    assert not (place / "manifest.json").exists() and not list(tmp_path.glob("normalise/a/*"))


@pytest.mark.parametrize("change", ["flip", "delete"])
def test_a_picture_of_a_corpus_that_goes_after_it_was_read_is_made_anew(tmp_path, capsys, change):
    from evoaudit import prepare
    from evoaudit.errors import InputError

    place = corpus(tmp_path)
    assert normalised(place, tmp_path / "normalise" / "a") == 0
    rows = store.read_rows(tmp_path / "normalise" / "a", "images")
    found = prepare.find([tmp_path / "normalise" / "a"], {"sim-plain": place / "plain"}, [rows[0]["image_id"]])[0]
    flip(found.root / found.file, 60) if change == "flip" else (found.root / found.file).unlink()
    with pytest.raises(InputError, match=r"set aside as plain/.*damaged: run again, and .* is made anew"):
        prepare.decoded(found)
    assert not (place / "manifest.json").exists()


def test_files_that_vanish_while_a_source_is_read_leave_no_results_without_them(tmp_path, capsys, monkeypatch):
    from evoaudit import normalise
    from evoaudit.fingerprint import fingerprint

    place = corpus(tmp_path)
    share, out = tmp_path / "share", tmp_path / "results" / "normalise" / "a"
    (place / "plain").rename(share)
    settings = {"source": "own", "kind": "plain", "options": {}, "contents": fingerprint(share, tmp_path / "results" / ".fingerprints")}
    words = ["normalise", "--settings", json.dumps(settings), "--root-folder", str(share), "--out", str(out)]
    real = normalise.normalise

    def unplugged(*given: object) -> None:
        picture = next(share.rglob("*.png"))
        picture.rename(tmp_path / "away.png")
        real(*given)
        (tmp_path / "away.png").rename(tmp_path / picture.name)

    with monkeypatch.context() as patch:
        patch.setattr(normalise, "normalise", unplugged)
        assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"evoaudit normalise: source 'own': files in {share} changed or vanished since the run was planned; ")
    assert not list(out.iterdir())


def test_a_users_file_that_was_edited_since_the_run_was_planned_is_not_read(tmp_path, capsys):
    from evoaudit.fingerprint import fingerprint

    labels = [tmp_path / "ana.jsonl", tmp_path / "ben.jsonl"]
    for path in labels:
        path.write_text("{}")
    digests = [fingerprint(path) for path in labels]
    labels[1].write_text("[]")
    words = ["--settings", json.dumps({"labels": digests}), "--sample", "s", "--review", "r", "--out", str(tmp_path / "out")]
    assert main(["combine", *words, "--labels", *map(str, labels)]) == 2
    said = capsys.readouterr().err
    assert said == (
        "evoaudit combine: --labels: has changed or vanished since the run was planned; start the workflow again: it plans anew\n"
    )
    assert not (tmp_path / "out").exists()


def test_files_of_stages_from_the_future_are_from_now(tmp_path):
    from evoaudit.plan import settle_times

    place = stage_folder(tmp_path)
    os.utime(place / "tables.json", (4102444800, 4102444800))
    os.utime(place / "manifest.json", (1, 1))
    assert settle_times(tmp_path) == 1 and settle_times(tmp_path) == 0
    assert (place / "manifest.json").stat().st_mtime == 1
