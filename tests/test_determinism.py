"""The same config gives the same bytes whatever the machine's habits, after any interruption, and in a checkout that was moved."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from evoaudit.__main__ import main
from evoaudit.resources import ROOT

pytestmark = pytest.mark.slow

CONFIG = """
run: {name: small, seed: 3}
sources:
  - {name: sim, kind: simulated, trajectories: 40, formats: [mind2web, osworld, plain]}
probes:
  t1: {quota: {3: 4, 4: 4, 5: 4}}
  t2: {quota: {click: 6, type: 6, select: 2}}
  t3: {quota: {cross: 4, same_domain: 4, long_skip: 4}}
models:
  - {name: random, group: baseline, provider: builtin}
  - {name: made-up, provider: builtin, model: simulated, accuracy: {t1: 0.142, t2: 0.537, t2_value: 0.812, t3: 0.644}}
  - {name: image-similarity, group: baseline, provider: builtin}
audit:
  calibration: 1
  review: {agreements: 4, groups: [p1]}
judges:
  - {name: rules, provider: builtin, ablation: true}
  - {name: p1, provider: builtin, model: simulated, role: human, accuracy: 0.9}
stats: {bootstrap: 300}
report: {max_items: 4}
"""


def command(folder: Path, *words: str, cores: int = 2, checkout: Path = ROOT) -> list[str]:
    (folder / "small.yaml").write_text(CONFIG)
    where = ["--snakefile", str(checkout / "Snakefile"), "--directory", str(folder)]
    return [sys.executable, "-m", "snakemake", *words, *where, "--cores", str(cores), "--configfile", str(folder / "small.yaml")]


def run(
    folder: Path, *words: str, cores: int = 2, checkout: Path = ROOT, prefix: Sequence[str] = (), umask: int = -1, **environment: str
) -> str:
    """Run the workflow in ``folder``, of a checkout, with some variables set, and return what it said."""
    done = subprocess.run(
        [*prefix, *command(folder, *words, cores=cores, checkout=checkout)],
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **environment},
        umask=umask,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    """The run that all others are held against."""
    folder = tmp_path_factory.mktemp("reference")
    run(folder, "all", "review", "export")
    return folder


def same(folder: Path, reference: Path, capsys: pytest.CaptureFixture) -> None:
    capsys.readouterr()
    assert main(["verify", "--results", str(folder / "results")]) == 0, capsys.readouterr().out
    assert main(["verify", "--results", str(folder / "results"), "--against", str(reference / "results")]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    "habits",
    [
        {"cores": 1},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "0"},
        {"TZ": "America/St_Johns", "PYTHONHASHSEED": "4242", "umask": 0o077, "OMP_NUM_THREADS": "1", "SOURCE_DATE_EPOCH": "0"},
    ],
    ids=["one core", "no locale", "turkish and tomorrow", "private"],
)
def test_the_machines_habits_change_no_byte(reference, tmp_path, capsys, habits):
    folder = tmp_path / "mit Leerzeichen, 中文 and 'quotes'"
    folder.mkdir()
    run(folder, "all", "review", "export", **habits)
    same(folder, reference, capsys)


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
#: In mounts of its own, opens a folder that is closed to others ($1) as far as the interpreter in it ($2) goes; $3 is an empty folder.
OPENED = 'mount --bind "$2" "$3" && mount -t tmpfs -o mode=755 none "$1" && mkdir -p "$2" && mount --bind "$3" "$2" && shift 3 && exec "$@"'


def somebody_else(spare: Path) -> list[str]:
    """Return the words before a command that make another user run it; skips where there is no way."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    prefix = NOBODY
    closed = next((one for one in reversed(Path(sys.base_prefix).parents) if not one.stat().st_mode & 0o001), None)
    if closed is not None:
        prefix = ["unshare", "--mount", "sh", "-c", OPENED, "sh", str(closed), sys.base_prefix, str(spare), *NOBODY]
    with suppress(OSError):
        if not subprocess.run([*prefix, sys.executable, "-c", "import evoaudit, snakemake"], capture_output=True, check=False).returncode:
            return prefix
    pytest.skip("this environment cannot be read by other users, nor opened to them")


def test_another_user_gets_the_same_bytes(reference, tmp_path, capsys):
    prefix = somebody_else(tmp_path)
    made = subprocess.run([*NOBODY, "mktemp", "-d"], capture_output=True, text=True, check=True, env={**os.environ, "TMPDIR": "/tmp"})
    folder = Path(made.stdout.strip())
    try:
        run(folder, "all", "review", "export", prefix=prefix, HOME=str(folder), USER="nobody", LOGNAME="nobody", TMPDIR="/tmp")
        assert {path.stat().st_uid for path in (folder / "results").rglob("*.parquet")} == {65534}
        same(folder, reference, capsys)
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("after", [1, 6, 14, 22])
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(reference, tmp_path, capsys, after):
    """``after`` is the number of finished stage folders at which everything is killed."""
    words = command(tmp_path, "all", "review", "export")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    process = subprocess.Popen(
        words, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while process.poll() is None and len(list(tmp_path.glob("results/[!r]*/*/manifest.json"))) < after:
        time.sleep(0.05)
    assert process.poll() is None, "it was over before it could be killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("results/[!r]*/*/manifest.json")}
    newest = max(made.values())  # the one that was counted last: Snakemake may have died before it took note
    made = {path: at for path, at in made.items() if at != newest and path.parent.parent.name == "simulate"}
    run(tmp_path, "--unlock")
    run(tmp_path, "all", "review", "export")
    assert all(path.stat().st_mtime_ns == before for path, before in made.items())  # what was finished is not made twice
    assert not list(tmp_path.rglob(".partial-*"))
    same(tmp_path, reference, capsys)


def checkout(folder: Path) -> Path:
    """Copy what git tracks, with new times, as a fresh clone has them."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a checkout")
    for name in filter(None, listed.stdout.decode().split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    return folder


def test_results_that_move_to_a_fresh_clone_are_done_there(reference, tmp_path, capsys):
    old, new = checkout(tmp_path / "old"), tmp_path / "new"
    run(old, "all", "review", "export", checkout=old, PYTHONPATH=str(old / "workflow"))
    same(old, reference, capsys)
    time.sleep(1)
    checkout(new)
    for name in ("results", ".snakemake"):
        shutil.move(old / name, new / name)
    shutil.rmtree(old)
    said = run(new, "all", checkout=new, PYTHONPATH=str(new / "workflow"))
    assert "1 of 1 steps" in said, said[-4000:]
    same(new, reference, capsys)
