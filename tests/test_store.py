"""Whole files or none, checked on write, counted."""

import os
import signal
import subprocess
import threading
import time

import pytest

from evoaudit import schema, store
from evoaudit.errors import InputError, one_line

DROP = {"stage": "s", "source": "a", "unit": "row", "item": "f:1", "reason": "broken", "detail": None}


def test_a_column_outside_the_schema_is_refused(tmp_path):
    with pytest.raises(ValueError, match="stray"):
        store.write_table(tmp_path, "drops", [DROP | {"stray": 1}])


def test_a_null_in_a_required_column_is_refused(tmp_path):
    with pytest.raises(ValueError, match="reason"):
        store.write_table(tmp_path, "drops", [DROP | {"reason": None}])


def test_rows_beyond_one_buffer_are_all_written(tmp_path):
    n = store.ROW_GROUP + 5
    assert store.write_table(tmp_path, "drops", ({**DROP, "item": str(i)} for i in range(n))) == n
    assert store.read_table(tmp_path, "drops")["item"].to_pylist() == [str(i) for i in range(n)]


def test_the_same_rows_make_the_same_bytes(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        store.write_table(tmp_path / name, "drops", [DROP] * 3)
    assert store.sha256_file(tmp_path / "a" / "drops.parquet") == store.sha256_file(tmp_path / "b" / "drops.parquet")


def test_a_failed_stage_leaves_nothing_behind(tmp_path):
    out = tmp_path / "stage"
    with pytest.raises(RuntimeError), store.staging(out) as folder:
        (folder / "half.parquet").write_text("x")
        raise RuntimeError
    assert list(out.iterdir()) == []


def test_a_failed_stage_leaves_the_former_result_whole(tmp_path):
    with store.staging(tmp_path) as folder:
        (folder / "a").write_text("old")
    with pytest.raises(RuntimeError), store.staging(tmp_path) as folder:
        (folder / "a").write_text("new")
        raise RuntimeError
    assert (tmp_path / "a").read_text() == "old"


def test_what_a_killed_stage_left_is_swept(tmp_path):
    (tmp_path / ".partial-999999").mkdir()
    (tmp_path / ".partial-999999" / "half").write_text("x")
    with store.staging(tmp_path) as folder:
        (folder / "a").write_text("x")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_another_process_is_writing_is_left_alone(tmp_path):
    with store.staging(tmp_path) as one:
        (one / "a").write_text("first")
        with store.staging(tmp_path) as other:
            (other / "a").write_text("second")
        assert (one / "a").read_text() == "first" and (tmp_path / "a").read_text() == "second"
    assert (tmp_path / "a").read_text() == "first" and [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_kill_among_the_moves_leaves_no_manifest(tmp_path, monkeypatch):
    def killed(source, target):
        raise KeyboardInterrupt

    (tmp_path / "manifest.json").write_text("old")
    monkeypatch.setattr(store.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt), store.staging(tmp_path) as folder:
        (folder / "a").write_text("new")
        (folder / "manifest.json").write_text("new")
    assert list(tmp_path.iterdir()) == []


def test_counts_reconcile():
    counts = store.Counts("s")
    counts.keep("trajectory", 3)
    counts.drop("trajectory", "a", "f:1", "broken")
    counts.drop("step", "a", "f:2", "no_action")
    steps = {"read": 1, "kept": 0, "dropped": {"no_action": 1}}
    assert counts.summary("trajectory") == {"unit": "trajectory", "read": 4, "kept": 3, "dropped": {"broken": 1}, "others": {"step": steps}}


def test_counts_that_do_not_reconcile_are_refused():
    counts = store.Counts("s")
    counts.read["row"] += 1
    with pytest.raises(ValueError, match="read 1 != kept 0"):
        counts.summary("row")


def test_a_missing_or_broken_parquet_is_one_line(tmp_path):
    with pytest.raises(InputError, match="file not found"):
        store.read_table(tmp_path, "drops")
    (tmp_path / "drops.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        store.read_table(tmp_path, "drops")
    (tmp_path / "t1.parquet").mkdir()
    with pytest.raises(InputError, match="not a readable Parquet file"):
        store.read_table(tmp_path, "t1")


def test_a_pipe_in_a_tables_place_is_one_line(tmp_path):
    os.mkfifo(tmp_path / "drops.parquet")
    with pytest.raises(InputError, match="not a file"):
        store.read_table(tmp_path, "drops")


def test_another_table_under_a_tables_name_is_one_line(tmp_path):
    store.write_table(tmp_path, "drops", [DROP], stem="truth")
    with pytest.raises(InputError, match="not the table 'truth': no column 'trajectory_id'"):
        store.read_table(tmp_path, "truth")


def test_a_manifest_that_is_no_object_is_one_line(tmp_path):
    (tmp_path / "manifest.json").write_text("[1]")
    with pytest.raises(InputError, match="not a JSON object"):
        store.read_manifest(tmp_path)


@pytest.mark.parametrize(("raw", "clean"), [("a\ud800b", "a?b"), ("a\x00b", "a\ufffdb"), ("01", "01"), ("", "")])
def test_text_is_safe_and_otherwise_exact(raw, clean):
    assert store.text(raw) == clean


def test_text_is_bounded_and_none_stays_none():
    assert store.text("x" * 10, limit=4) == "xxx…"
    assert store.text(None) is None


def test_one_line_escapes_what_would_break_a_terminal():
    assert one_line("a\nb\x1b[31m") == "a\\nb\\x1b[31m"


def test_every_table_renders():
    page = schema.markdown()
    assert all(f"### `{name}`" in page for name in schema.TABLES)


def test_an_interrupt_just_as_the_scratch_folder_is_made_leaves_none(heard, tmp_path, monkeypatch):
    made = store._scratch

    def struck(folder):
        found = made(folder)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)  # another thread may take it
        return found

    monkeypatch.setattr(store, "_scratch", struck)
    other = threading.Thread(target=time.sleep, args=(0.2,))
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt), store.staging(tmp_path):
            pytest.fail("the interrupt was not heard")
    finally:
        other.join()
    assert list(tmp_path.iterdir()) == []


def test_the_revision_says_whether_files_differ_from_it(tmp_path, monkeypatch):
    def git(*words: str) -> str:
        words = ("-c", "user.name=n", "-c", "user.email=e@example.org", *words)
        return subprocess.run(["git", "-C", str(tmp_path), *words], capture_output=True, text=True, check=True).stdout.strip()

    code = tmp_path / "code.py"
    monkeypatch.setattr(store, "__file__", str(code))
    assert store.revision() is None
    code.write_text("1\n")
    git("init", "-q")
    git("add", "code.py")
    git("commit", "-qm", "one")
    git("tag", "-a", "v1", "-m", "v1")
    (tmp_path / "mine.yaml").write_text("")
    assert store.revision() == git("rev-parse", "HEAD")
    code.write_text("2\n")
    assert store.revision() == git("rev-parse", "HEAD") + "+changed"
