"""Files that people name: what is no regular file is refused before it is opened, whatever reads it."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from evoaudit import config, labels, prompts, resultcheck
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.givenfile import read_given
from evoaudit.hub import lock
from evoaudit.infer import prices
from evoaudit.jsonfile import read_json
from evoaudit.probes import reviewed
from evoaudit.stages import sample

READERS = (config.read_yaml, labels.read, resultcheck.read, prices.load, read_json, reviewed.read, sample.read_frame)


@pytest.fixture
def alarm():
    """A pipe that is opened waits for ever; end it."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: f"{reader.__module__}.{reader.__name__}")
def test_a_pipe_a_device_and_a_folder_are_one_line(tmp_path, alarm, reader: Callable[[Path], object]):
    os.mkfifo(tmp_path / "pipe")
    for path, words in ((tmp_path / "pipe", "not a regular file"), (Path("/dev/zero"), "not a regular file"), (tmp_path, "is a folder")):
        with pytest.raises(InputError, match=words) as caught:
            reader(path)
        assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)
    with pytest.raises(InputError, match="file not found"):
        reader(tmp_path / "none")


def test_a_pipe_among_the_prompts_or_for_a_lock_file_is_one_line(tmp_path, alarm):
    os.mkfifo(tmp_path / "t1.yaml")
    for reader, path in ((prompts.digest, tmp_path), (lock.read, tmp_path / "t1.yaml")):
        with pytest.raises(InputError, match=r"t1\.yaml: is not a regular file"):
            reader(path)


def test_a_pipe_given_to_check_is_one_line(tmp_path, alarm, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert main(["check", str(tmp_path / "pipe")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "save what it gives as a file; give the path of a CSV file" in err


def test_no_more_is_read_than_may_be(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert read_given(tmp_path / "a", 5, "") == b"12345"
    with pytest.raises(InputError, match="a: is too large; give at most 4 bytes"):
        read_given(tmp_path / "a", 4, "")
    with pytest.raises(InputError, match="is not the name of a file"):
        read_given(Path("a\0b"), 4, "")
