"""A folder's digest follows its contents, whatever its times and place."""

import os

from evoaudit.fingerprint import fingerprint


def test_the_same_contents_elsewhere_have_the_same_digest(tmp_path):
    for place in ("a", "b"):
        (tmp_path / place / "sub").mkdir(parents=True)
        (tmp_path / place / "sub" / "x").write_text("1")
    assert fingerprint(tmp_path / "a") == fingerprint(tmp_path / "b")


def test_new_times_change_nothing(tmp_path):
    (tmp_path / "x").write_text("1")
    before = fingerprint(tmp_path, tmp_path.parent / "memory")
    os.utime(tmp_path / "x", (1, 1))
    assert fingerprint(tmp_path, tmp_path.parent / "memory") == before


def test_an_edit_of_the_same_size_is_seen_through_the_memory(tmp_path):
    (tmp_path / "x").write_text("1")
    before = fingerprint(tmp_path, tmp_path.parent / "memory")
    (tmp_path / "x").write_text("2")
    os.utime(tmp_path / "x", ns=(1, 1))
    assert fingerprint(tmp_path, tmp_path.parent / "memory") != before


def test_a_remembered_file_is_not_read_again(tmp_path, monkeypatch):
    (tmp_path / "x").write_text("1")
    first = fingerprint(tmp_path, tmp_path.parent / "memory")
    monkeypatch.setattr("evoaudit.fingerprint._sha256", lambda path: 1 / 0)
    assert fingerprint(tmp_path, tmp_path.parent / "memory") == first


def test_a_renamed_file_changes_the_digest(tmp_path):
    (tmp_path / "x").write_text("1")
    before = fingerprint(tmp_path)
    (tmp_path / "x").rename(tmp_path / "y")
    assert fingerprint(tmp_path) != before


def test_links_are_not_followed(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("1")
    before = fingerprint(tmp_path / "data")
    (tmp_path / "data" / "out").symlink_to("/")
    (tmp_path / "data" / "loop").symlink_to(tmp_path / "data")
    assert fingerprint(tmp_path / "data") == before


def test_a_damaged_memory_is_forgotten(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("1")
    before = fingerprint(tmp_path / "data", tmp_path / "memory")
    memory = next((tmp_path / "memory").iterdir())
    whole = memory.read_text()
    for wrong in ("{", "[]", whole.replace("a", "b"), whole.replace('"x": [1', '"x": [2')):
        memory.write_text(wrong)
        assert fingerprint(tmp_path / "data", tmp_path / "memory") == before


def test_what_is_absent_has_no_digest(tmp_path):
    assert fingerprint(tmp_path / "none") is None
