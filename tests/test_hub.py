"""Downloads through the real client from a hub on the loopback interface, whole and with every fault."""

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import zipfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from hub_server import FOREVER, HubServer

from evoaudit.errors import InputError
from evoaudit.fingerprint import fingerprint
from evoaudit.hub import contents, located, lock, select
from evoaudit.hub.fetch import Done, Request, download
from evoaudit.hub.lock import Entry, File
from evoaudit.hub.problems import explain, redact

M2W, WL, ARB = "osunlp/Multimodal-Mind2Web", "McGill-NLP/WebLINX-full", "McGill-NLP/agent-reward-bench"
OSW = "xlangai/ubuntu_osworld_verified_trajs"
TOKEN = "hf_thisIsNoRealTokenAtAll"


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """No account, no cache and no proxy of whoever runs the tests; the client's waits are counted and not waited."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    import huggingface_hub.file_download
    import huggingface_hub.utils._http

    for name in ("HF_TOKEN_PATH", "HF_STORED_TOKENS_PATH", "HF_HUB_CACHE", "AGENT_HARNESSES_PATH"):
        monkeypatch.setattr(huggingface_hub.constants, name, str(tmp_path / "hf" / name))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    clock = SimpleNamespace(sleep=lambda _: None, time=time.time, monotonic=time.monotonic)
    for module in ("huggingface_hub.utils._http", "huggingface_hub.file_download", "evoaudit.hub.client"):
        monkeypatch.setattr(f"{module}.time", clock)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A small simulated corpus in native layouts, the desktop runs in archives as on the hub."""
    from evoaudit.simulate.corpus import write

    folder = tmp_path_factory.mktemp("corpus")
    write(folder, 12, 1, ["mind2web", "weblinx", "agentrewardbench", "osworld"])
    (folder / "zips").mkdir()
    for name in ("o3_15steps", "claude-4-15steps", "results_o3_results_only"):
        with zipfile.ZipFile(folder / "zips" / f"{name}.zip", "w") as archive:
            for path in sorted((folder / "osworld/pyautogui").rglob("*")):
                archive.write(path, f"{name}/{path.relative_to(folder / 'osworld')}")
    return folder


@pytest.fixture
def hub(corpus):
    """All data sets of the corpus on one hub."""
    places = {M2W: "mind2web", WL: "weblinx", ARB: "agentrewardbench", OSW: "zips"}
    with HubServer({repo: corpus / place for repo, place in places.items()}) as server:
        yield server


@pytest.fixture
def get(hub, tmp_path):
    """Download from the hub into this test's own store."""

    def run(kind: str = "mind2web", repo: str | None = None, revision: str = "main", **options) -> Done:
        request = Request(kind, kind, repo, revision, options)
        return download(request, lock_path=tmp_path / "sources.lock.json", store=tmp_path / "store", threads=3, endpoint=hub.url)

    return run


def entry_of(tmp_path: Path, repo: str = M2W) -> Entry:
    return lock.read(tmp_path / "sources.lock.json")[f"{repo}@main"]


def whole(tmp_path: Path) -> set[str]:
    """Return the files in the one folder of this test's store."""
    (home,) = (tmp_path / "store").iterdir()
    (folder,) = (one for one in home.iterdir() if not one.name.startswith("."))
    return {one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file()}


def command(hub_url: str, tmp_path: Path, settings: dict, **environment: str) -> subprocess.Popen:
    """Start ``evoaudit download`` in a process of its own."""
    arguments = ["--settings", json.dumps(settings), "--threads", "2", "--out", "out", "--store", "store", "--lock", "sources.lock.json"]
    return subprocess.Popen(
        [sys.executable, "-m", "evoaudit", "download", *arguments],
        cwd=tmp_path,
        env={**os.environ, "HF_ENDPOINT": hub_url, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    """Wait for a process and return its exit code and what it printed."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


# A clean download


def test_a_download_is_the_repository_read_only_and_nothing_else(get, corpus):
    done = get("weblinx")
    there = {path.relative_to(done.folder).as_posix(): path for path in done.folder.rglob("*") if path.is_file()}
    listed = {path.relative_to(corpus / "weblinx").as_posix() for path in (corpus / "weblinx").rglob("*") if path.is_file()}
    assert there.keys() == done.files.keys() == listed
    assert all(path.read_bytes() == (corpus / "weblinx" / name).read_bytes() for name, path in there.items())
    assert {stat.S_IMODE(path.stat().st_mode) for path in there.values()} == {0o444}
    assert (done.files_fetched, done.files_kept) == (len(there), 0)


def test_the_first_download_writes_the_lock_file(get, hub, tmp_path):
    done = get("mind2web", split="train")
    text = (tmp_path / "sources.lock.json").read_text()
    (path, file), *others = done.files.items()
    assert json.loads(text) == {
        "version": 1,
        "sources": {
            f"{M2W}@main": {
                "repo": M2W,
                "revision": "main",
                "commit": done.commit,
                "license": "cc-by-4.0",
                "gated": False,
                "files": {path: {"size": file.size, "sha256": file.sha256}},
                "selections": {'mind2web {"split":"train"}': ["/"]},
            }
        },
    }
    assert not others and hub.url not in text and str(tmp_path) not in text


def test_a_second_run_makes_no_request(get, hub):
    first = get("weblinx", split="train")
    hub.requests.clear()
    second = get("weblinx", split="train")
    assert hub.requests == Counter() and second.files == first.files and second.files_fetched == 0


def test_a_second_run_reads_no_file_again(get, monkeypatch):
    get()
    monkeypatch.setattr("evoaudit.hub.storage.measure", lambda *_: 1 / 0)
    assert get().files_fetched == 0


def test_the_same_selections_in_another_order_write_the_same_lock_file(hub, tmp_path):
    texts = []
    for turn, kinds in enumerate((("a", "b"), ("b", "a"))):
        for kind in kinds:
            request = Request(kind, "weblinx", None, "main", {"a": {"split": "train"}, "b": {}}[kind])
            download(request, lock_path=tmp_path / f"{turn}.json", store=tmp_path / f"store{turn}", threads=2, endpoint=hub.url)
        texts.append((tmp_path / f"{turn}.json").read_bytes())
    assert texts[0] == texts[1]


def test_what_is_located_has_the_key_of_a_folder_a_user_points_at(get, tmp_path):
    place = (tmp_path / "sources.lock.json", tmp_path / "store", "agentrewardbench", None, "main")
    assert located(*place, {"agents": ["*sim-agent-a"]}) is None
    done = get("agentrewardbench", agents=["*sim-agent-a"])
    found = located(*place, {"agents": ["*sim-agent-a"], "obs_phase": "before"})
    assert (found.folder, found.commit, dict(found.files)) == (done.folder, done.commit, dict(done.files))
    assert contents(found.files) == fingerprint(done.folder)
    assert located(*place, {"agents": ["*sim-agent-b"]}) is None


def test_files_of_two_selections_are_fetched_once_and_are_one_file(get, hub):
    whole = get("weblinx")
    hub.requests.clear()
    part = get("weblinx", split="train")
    assert hub.file_requests == 0 and 0 < len(part.files) < len(whole.files) and part.folder != whole.folder
    assert all((part.folder / path).samefile(whole.folder / path) for path in part.files)


def test_where_links_cannot_be_made_files_are_copied(get, hub, monkeypatch):
    get("weblinx")
    hub.requests.clear()
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(errno.EXDEV, "cross-device link")))
    part = get("weblinx", split="train")
    assert hub.file_requests == 0 and contents(part.files) == fingerprint(part.folder)


def test_a_page_of_a_listing_is_not_the_whole(get, hub):
    hub.page = 7
    assert len(get("weblinx").files) == 56 and hub.requests["tree"] > 5


def test_a_token_goes_to_the_hub_and_nowhere_else(get, hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    get()
    assert {route: token for route, _, token in hub.log} == {"revision": True, "tree": True, "head": True, "cdn": False}


# What the lock file pins


def test_a_branch_that_moves_does_not_move_what_is_locked(get, hub, corpus, tmp_path):
    first = get("weblinx", split="train")
    hub.push(WL, corpus / "mind2web")
    hub.requests.clear()
    assert get("weblinx").commit == first.commit  # another selection of the same commit
    assert hub.requests["revision"] == 0 and get("weblinx", split="train").files == first.files


def test_a_download_cut_short_goes_on_with_its_own_commit(get, hub, corpus, tmp_path):
    hub.faults.flip = {"data/train-00000-of-00001.parquet": FOREVER}
    with pytest.raises(InputError):
        get()
    commit = entry_of(tmp_path).commit
    hub.faults.flip = {}
    hub.push(M2W, corpus / "weblinx")
    assert get().commit == commit


def test_a_file_that_changed_behind_its_commit_is_refused(get, hub, tmp_path):
    done = get("weblinx")
    small, large = "splits.json", next(path for path, file in done.files.items() if file.size >= hub.lfs_from)
    for path in (small, large):
        data = (done.folder / path).read_bytes()
        (done.folder / path).unlink()
        hub.faults.changed = {path: data[:-1] + bytes([data[-1] ^ 1])}  # of the same size
        with pytest.raises(InputError, match=r"changed on the hub behind a fixed commit; use a copy of the locked file, or delete"):
            get("weblinx")
        hub.faults.changed = {}
        get("weblinx")


def test_a_commit_that_vanished_is_refused(get, hub, corpus):
    done = get()
    shutil.rmtree(done.folder)
    hub.push(M2W, corpus / "weblinx")
    hub.forget(M2W, done.commit)
    with pytest.raises(InputError, match=r"locked but no longer on the hub"):
        get()


def test_a_file_that_was_changed_here_is_never_written_over(get, hub):
    done = get()
    path = done.folder / next(iter(done.files))
    os.chmod(path, 0o644)
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    hub.requests.clear()
    with pytest.raises(InputError, match=r"train-00000-of-00001.parquet: differs from what the lock file says of it; delete it"):
        get()
    assert hub.requests == Counter() and path.read_bytes() != data
    path.unlink()
    get()
    assert path.read_bytes() == data


@pytest.mark.parametrize("strange", ["notes.txt", "link"])
def test_a_stranger_in_the_folder_is_refused(get, strange):
    done = get("weblinx")
    if strange == "link":
        (done.folder / "splits.json").unlink()
        (done.folder / "splits.json").symlink_to("/etc/passwd")
    else:
        (done.folder / strange).write_text("mine")
    with pytest.raises(InputError, match="does not belong in a downloaded folder; move it elsewhere"):
        get("weblinx")


def test_a_folder_that_became_a_link_is_not_written_through(get, tmp_path):
    done = get("weblinx", split="train")
    shutil.rmtree(done.folder / "demonstrations")
    (tmp_path / "elsewhere").mkdir()
    (done.folder / "demonstrations").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="a link leads out of the folder; delete the link"):
        get("weblinx", split="train")
    assert not list((tmp_path / "elsewhere").rglob("*.png"))


def test_a_link_in_place_of_the_files_on_their_way_is_not_followed(get, tmp_path):
    done = get("weblinx", split="train")
    (victim := tmp_path / "elsewhere").mkdir()
    (victim / "splits.json").write_bytes((done.folder / "splits.json").read_bytes())
    (done.folder / "splits.json").unlink()
    work = done.folder.with_name(f".{done.folder.name}")
    (work / "incoming").symlink_to(victim)
    assert get("weblinx", split="train").files_fetched == 1
    assert [path.name for path in victim.iterdir()] == ["splits.json"]


@pytest.mark.parametrize("line", ["[" * 100_000, "[]", "{}", '["splits.json", "x", [], "y", 3]', "\x00"])
def test_damaged_hashes_are_forgotten(get, line):
    done = get("weblinx")
    (done.folder.with_name(f".{done.folder.name}") / "known.jsonl").write_text(line + "\n")
    assert get("weblinx").files_fetched == 0


# A connection that fails


def test_a_connection_cut_at_half_a_file_is_taken_up_again(get, hub):
    path = "data/train-00000-of-00001.parquet"
    hub.faults.cut = {path: 1}
    assert get().files_fetched == 1 and hub.requests["cdn"] == 2


def test_a_connection_that_is_always_cut_keeps_what_is_whole(get, hub, tmp_path):
    path = "demonstrations/qrraaac/replay.json"
    hub.faults.cut = {path: FOREVER}
    with pytest.raises(InputError, match=rf"{path}: the connection is lost again and again; run again; finished files are kept"):
        get("weblinx", split="train")
    kept = whole(tmp_path)
    hub.faults.cut = {}
    hub.log.clear()
    done = get("weblinx", split="train")
    asked = {at for route, at, _ in hub.log if route == "head"}
    assert kept and asked == done.files.keys() - kept and path in asked


def test_a_killed_download_fetches_only_what_is_missing(hub, tmp_path):
    path = "demonstrations/qrraaac/screenshots/screenshot-7-0.png"
    hub.faults.pause = {path: 60}
    settings = {"source": "wl", "kind": "weblinx", "options": {"split": "train"}}
    first = command(hub.url, tmp_path, settings)
    deadline = time.monotonic() + 30
    while not any(route == "cdn" and at == path for route, at, _ in list(hub.log)) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)  # the other worker goes on meanwhile
    first.send_signal(signal.SIGKILL)
    first.communicate()
    hub.faults.pause = {}
    kept = whole(tmp_path)
    hub.log.clear()
    code, out, err = finish(command(hub.url, tmp_path, settings))
    assert code == 0, err
    asked = {at for route, at, _ in hub.log if route == "head"}
    assert len(kept) > 3 and len(asked | kept) == 41 and not asked & kept and path in asked
    assert out.startswith("wl: 41 files, ") and not list((tmp_path / "store").rglob("*.incomplete"))


def test_two_jobs_at_once_fetch_every_file_once(hub, tmp_path):
    hub.faults.stall = {"head": 0.02}
    jobs = [command(hub.url, tmp_path, {"kind": "weblinx"}) for _ in range(2)]
    ends = [finish(job) for job in jobs]
    assert [code for code, _, _ in ends] == [0, 0], ends
    assert hub.requests["head"] == 56 and len(whole(tmp_path)) == 56
    assert sum("another job is downloading this; waiting for it" in err for _, _, err in ends) <= 1


def test_a_file_whole_but_not_yet_in_its_place_is_taken_over(get, hub, corpus):
    done = get()
    (path,) = done.files
    incoming = done.folder.with_name(f".{done.folder.name}") / "incoming"
    (incoming / path).parent.mkdir(parents=True)
    shutil.move(done.folder / path, incoming / path)
    (incoming / "data/half.parquet").write_text("half")
    hub.requests.clear()
    assert get().files_fetched == 0 and hub.requests == Counter() and not incoming.exists()


@pytest.mark.parametrize("path", ["splits.json", "demonstrations/knmaaaa/replay.json"])
def test_a_damaged_byte_is_fetched_again_once(get, hub, path):
    hub.faults.flip = {path: 1}
    assert get("weblinx").files_fetched == 56
    fresh = {"splits.json": "get", "demonstrations/knmaaaa/replay.json": "cdn"}[path]
    assert [one for route, one, _ in hub.log if route == fresh].count(path) == 2


@pytest.mark.parametrize("path", ["splits.json", "demonstrations/knmaaaa/replay.json"])
def test_a_file_that_comes_damaged_twice_is_refused(get, hub, path, tmp_path):
    hub.faults.flip = {path: FOREVER}
    with pytest.raises(InputError, match=rf"{path}: came damaged, twice \((sha256|git hash) differs\); run again later"):
        get("weblinx")
    assert not [file for file in (tmp_path / "store").rglob("*") if file.as_posix().endswith(f"/{path}")]
    assert not entry_of(tmp_path, WL).selections


def test_a_file_of_a_wrong_size_is_refused(get, hub):
    hub.faults.short = {"splits.json": FOREVER}
    with pytest.raises(InputError, match=r"splits.json: came (damaged|with a wrong size)"):
        get("weblinx")


def test_a_hub_that_never_answers_is_given_up(get, hub, monkeypatch):
    monkeypatch.setattr("evoaudit.hub.client._TIMEOUT", 0.05)
    hub.faults.stall = {"tree": 0.4}
    with pytest.raises(InputError, match="does not answer in time; check the network and run again"):
        get()


# A hub that refuses


def test_a_gated_data_set_without_a_token(get, hub):
    hub.faults.gated = True
    with pytest.raises(InputError, match=rf"the data set is gated; accept its terms at {hub.url}/datasets/{M2W}, then set HF_TOKEN"):
        get()


def test_a_gated_data_set_with_a_token_that_has_no_access(get, hub, monkeypatch):
    hub.faults.gated = True
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with pytest.raises(InputError, match="gated and this token has no access; accept its terms"):
        get()


def test_a_gated_data_set_with_access_is_recorded_as_gated(get, hub, monkeypatch, tmp_path):
    hub.faults.gated, hub.faults.members = True, frozenset({TOKEN})
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    get()
    assert entry_of(tmp_path).gated == "auto"


def test_a_token_that_is_not_known(get, hub, monkeypatch):
    hub.faults.tokens = frozenset({"another"})
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with pytest.raises(InputError, match="the token is not accepted; set HF_TOKEN to a valid token, or unset it"):
        get()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"repo": "osunlp/Multimodal-Mind3Web"}, r"no such data set, or a private one; check the spelling"),
        ({"repo": "../../etc"}, r"not a data set's name; write it as owner/name"),
        ({"repo": "a/b/c"}, r"not a data set's name"),
        ({"revision": "mian"}, r"no revision 'mian'; give a branch, a tag or a commit"),
        ({"revision": "a\nb"}, r"'revision' is empty or not printable"),
        ({"split": "trian"}, r"Mind2Web: no split 'trian'; there are train"),
        ({"kind": "plain"}, r"kind 'plain': no data set belongs to it"),
    ],
)
def test_what_is_not_there_is_named(get, change, said):
    with pytest.raises(InputError, match=said):
        get(**change)


def test_a_data_set_that_moved_is_followed_and_its_new_name_told(get, hub, capsys):
    hub.faults.moved = {"osunlp/Old-Name": M2W}
    assert get(repo="osunlp/Old-Name").files_fetched == 1
    assert f"mind2web: osunlp/Old-Name is called {M2W} by now" in capsys.readouterr().err


def test_a_listed_file_that_is_not_there(get, hub):
    hub.faults.missing = frozenset({"splits.json"})
    with pytest.raises(InputError, match=r"splits.json: the file is listed but not there; run again later"):
        get("weblinx")


@pytest.mark.parametrize("route", ["revision", "tree", "head"])
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (403, "refused with HTTP 403 and not by the hub itself; check HF_ENDPOINT, HTTPS_PROXY and the firewall"),
        (404, "refused with HTTP 404 and not by the hub itself"),
        (429, "the hub limits the rate of requests; wait some minutes, set HF_TOKEN or use fewer threads"),
        (500, r"the hub has a fault of its own \(HTTP 500\); run again later; finished files are kept"),
        (503, r"the hub has a fault of its own \(HTTP 503\)"),
    ],
)
def test_a_refusal_is_one_line_that_says_what_to_do(get, hub, route, status, said):
    hub.faults.refuse = {route: [status, FOREVER]}
    with pytest.raises(InputError, match=said) as caught:
        get()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("route", ["revision", "tree", "head"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_hub_that_is_busy_for_a_while_is_waited_for(get, hub, route, status):
    hub.faults.refuse = {route: [status, 3]}
    assert get().files_fetched == 1


def test_a_long_wait_is_announced(get, hub, capsys, monkeypatch):
    monkeypatch.setattr("evoaudit.hub.client._Waits.last", float("-inf"))
    hub.faults.refuse, hub.faults.headers = {"tree": [429, 1]}, {"Retry-After": "240"}
    get()
    assert "the hub is busy: Rate limited. Waiting 241.0s before retry" in capsys.readouterr().err


@pytest.mark.parametrize("route", ["revision", "tree"])
def test_a_web_page_in_place_of_an_answer(get, hub, route):
    hub.faults.portal = frozenset({route})
    with pytest.raises(InputError, match="the answer is not what a hub sends"):
        get()


def test_nothing_listens(get, hub, tmp_path):
    for endpoint, said in (("http://127.0.0.1:9", "nothing answers at"), ("http://no-such-host.invalid", "is not known; check")):
        with pytest.raises(InputError, match=said):
            download(Request("s", "mind2web"), lock_path=tmp_path / "l.json", store=tmp_path, threads=1, endpoint=endpoint)


@pytest.mark.parametrize("path", ["../../../escape.txt", "/etc/escape.txt", "a\\..\\escape.txt", "a/\u0007", "a//b", "x" * 256, "\ud800"])
def test_a_listed_path_that_leads_elsewhere_is_refused(get, hub, path, tmp_path):
    hub.faults.extra = [{"type": "file", "path": path, "size": 3, "oid": "0" * 40}]
    with pytest.raises(InputError, match="the listing has a path with"):
        get("plain", repo=WL)
    assert not list(tmp_path.parent.rglob("escape.txt"))


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "file", "path": "a", "size": -1, "oid": "0" * 40},
        {"type": "file", "path": "a", "size": 10**400, "oid": "0" * 40},
        {"type": "file", "path": "a", "size": 1, "oid": "x"},
        {"type": "file", "path": "a", "size": 1, "oid": "0" * 40, "lfs": {"oid": "../..", "size": 1, "pointerSize": 1}},
        {"type": "file", "path": 7, "size": 1, "oid": "0" * 40},
        {"path": "a"},
    ],
)
def test_a_damaged_listing_is_refused(get, hub, entry):
    hub.faults.extra = [entry]
    with pytest.raises(InputError, match="the answer is not what a hub sends"):
        get()


def test_a_listing_without_end_is_refused(get, monkeypatch):
    monkeypatch.setattr("evoaudit.hub.client._ENTRIES", 5)
    with pytest.raises(InputError, match="more than 5 files and folders"):
        get("weblinx")


# A disk that fails


def test_too_little_room_is_said_before_anything_is_fetched(get, hub, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(InputError, match=r"303.7 kB are needed for mind2web and 1.0 kB are free; free space"):
        get()
    assert hub.file_requests == 0


@pytest.mark.parametrize(("code", "said"), [(errno.ENOSPC, "the disk is full; free space"), (errno.EACCES, "cannot be written")])
def test_a_disk_that_fails_while_writing_is_one_line_and_leaves_nothing_half(get, monkeypatch, tmp_path, code, said):
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr("huggingface_hub.file_download.http_get", fail)
        with pytest.raises(InputError, match=said):
            get()
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file() and path.name != "lock"]
    assert get().files_fetched == 1


def test_a_store_that_may_only_be_read_serves_what_it_has(get, hub, monkeypatch):
    get()
    for name in ("mkdir", "replace", "link", "chmod"):
        monkeypatch.setattr(os, name, lambda *_, **__: (_ for _ in ()).throw(OSError(errno.EROFS, "read-only")))
    assert get().files_fetched == 0


# No network


def test_offline_needs_nothing_when_all_is_there_and_names_what_is_missing(hub, tmp_path):
    settings = {"source": "m2w", "kind": "mind2web"}
    code, out, err = finish(command("http://127.0.0.1:9", tmp_path, settings, HF_HUB_OFFLINE="1"))
    assert code == 2 and err.count("\n") == 1 and not out
    assert "offline mode is on (HF_HUB_OFFLINE) and the data set was never downloaded; unset it" in err
    assert finish(command(hub.url, tmp_path, settings))[0] == 0
    code, out, err = finish(command("http://127.0.0.1:9", tmp_path, settings, HF_HUB_OFFLINE="1"))
    assert code == 0 and out.startswith("m2w: 1 file, 289.3 kB in store/osunlp--Multimodal-Mind2Web/"), err
    next((tmp_path / "store").rglob("*.parquet")).unlink()
    code, out, err = finish(command("http://127.0.0.1:9", tmp_path, settings, HF_HUB_OFFLINE="1"))
    assert code == 2 and "and missing: data/train-00000-of-00001.parquet; unset it" in err


# Tokens


def test_a_token_is_in_no_output(hub, tmp_path):
    hub.faults.tokens = frozenset({"another"})
    refused = command(hub.url, tmp_path, {"kind": "mind2web"}, HF_TOKEN=TOKEN)
    odd = command(hub.url, tmp_path, {"kind": "mind2web"}, HF_TOKEN=TOKEN + "é")
    text = "".join(part for process in (refused, odd) for part in process.communicate(timeout=60))
    assert (refused.returncode, odd.returncode) == (2, 2) and text.count("\n") == 2
    hub.faults.tokens = frozenset({TOKEN})
    good = command(hub.url, tmp_path, {"kind": "mind2web"}, HF_TOKEN=TOKEN)
    text += "".join(good.communicate(timeout=60))
    assert good.returncode == 0
    for path in tmp_path.rglob("*"):
        if path.is_file():
            text += path.read_bytes().decode("latin-1")
    assert TOKEN not in text


def test_text_that_looks_like_a_token_is_taken_out(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "plainsecret")
    said = redact("x hf_abcdefghij plainsecret Bearer qwerty http://me:pw@host/ end")
    assert said == "x <token> <token> Bearer <token> http://<token>@host/ end"


def test_a_failed_xet_transfer_says_how_to_do_without():
    error = explain(RuntimeError("Data processing error"), repo="a/b", revision="main", endpoint="", token=False, path="x", locked=False)
    assert str(error) == (
        "a/b@main/x: the xet transfer failed (Data processing error); set HF_HUB_DISABLE_XET=1 and run again; finished files are kept"
    )


# The command


def test_the_command_lists_what_is_there(get, hub, tmp_path, monkeypatch, capsys):
    from evoaudit.__main__ import main

    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    arguments = ["--out", str(tmp_path / "out"), "--store", str(tmp_path / "store"), "--lock", str(tmp_path / "sources.lock.json")]
    settings = {"source": "m2w", "kind": "mind2web", "repo": M2W, "revision": "main", "options": {"split": "train"}, "locked": None}
    assert main(["download", "--settings", json.dumps(settings), "--key", "k", *arguments]) == 0
    found = located(tmp_path / "sources.lock.json", tmp_path / "store", "mind2web", M2W, "main", {"split": "train"})
    listing = json.loads((tmp_path / "out/files.json").read_text())
    (path, file), *_ = found.files.items()
    assert listing == {
        "repo": M2W,
        "commit": found.commit,
        "license": "cc-by-4.0",
        "folder": found.folder.relative_to(tmp_path / "store").as_posix(),
        "files": {path: {"size": file.size, "sha256": file.sha256}},
    }
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["counts"]["kept"] == 1 and hub.url not in json.dumps(manifest)
    assert capsys.readouterr().out.startswith("m2w: 1 file, 289.3 kB in ")
    assert main(["download", "--settings", json.dumps({**settings, "locked": contents(found.files)}), *arguments]) == 0
    assert main(["download", "--settings", json.dumps({**settings, "locked": "0" * 64}), *arguments]) == 2
    assert "changed after this run was planned; run again" in capsys.readouterr().err


def test_progress_is_plain_lines_where_there_is_no_terminal(get, hub, capsys, monkeypatch):
    monkeypatch.setattr("evoaudit.hub.progress._EVERY", 0.0)
    get("weblinx", split="train")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("weblinx: 40 files, 252.6 kB") and "to fetch;" in lines[0] and lines[0].endswith("free")
    assert lines[-1].startswith("weblinx: 40 of 40 files, ") and not any("\r" in line or "%" in line for line in lines)


# The lock file


def locked(commit: str = "a" * 40, **files: int) -> Entry:
    return Entry(
        "o/n", "main", commit, None, False, {name: File(size, "b" * 64) for name, size in files.items()}, {"k {}": tuple(sorted(files))}
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<<<<<<< HEAD", "not a lock file"),
        ("[]", "no object 'sources'"),
        ('{"version": 2, "sources": {}}', "a lock file of version 2"),
        ('{"version": 1, "sources": {"o/n@main": {}}}', "'repo', 'revision' or 'commit' is missing"),
        ('{"version": 1, "sources": {"x": {"repo": "o/n", "revision": "main", "commit": "%s"}}}' % ("a" * 40), "the name is not"),
        ('{"version": 1, "sources": {"o/n@main": {"repo": "o/n", "revision": "main", "commit": "../.."}}}', "40 hex digits"),
    ],
)
def test_a_broken_lock_file_is_named_with_its_mend(tmp_path, text, said):
    (tmp_path / "l.json").write_text(text)
    with pytest.raises(InputError, match=rf"l.json: .*{said}.*; (restore|use)"):
        lock.read(tmp_path / "l.json")


@pytest.mark.parametrize(("path", "file"), [("../x", {"size": 1, "sha256": "b" * 64}), ("x", {"size": 1}), ("x", None)])
def test_a_lock_file_cannot_lead_elsewhere(tmp_path, path, file):
    value = {"repo": "o/n", "revision": "main", "commit": "a" * 40, "files": {path: file}, "selections": {}}
    (tmp_path / "l.json").write_text(json.dumps({"version": 1, "sources": {"o/n@main": value}}))
    with pytest.raises(InputError, match=r"l\.json: 'o/n@main': "):
        lock.read(tmp_path / "l.json")


def test_what_is_written_is_read_back(tmp_path):
    entry = locked(**{"a/x": 1, "a/y": 2, "b": 3})
    assert lock.update(tmp_path / "l.json", entry) == entry == lock.entry(lock.read(tmp_path / "l.json"), "o/n", "main")


def test_another_commit_does_not_replace_the_locked_one(tmp_path):
    first = lock.update(tmp_path / "l.json", locked(a=1))
    assert lock.update(tmp_path / "l.json", locked("c" * 40, a=1)) == first == lock.read(tmp_path / "l.json")["o/n@main"]


def test_other_contents_at_the_locked_commit_are_refused(tmp_path):
    lock.update(tmp_path / "l.json", locked(a=1))
    with pytest.raises(InputError, match="'a' is locked with other contents at the same commit"):
        lock.update(tmp_path / "l.json", locked(a=2))


def test_jobs_that_write_at_once_lose_nothing(tmp_path):
    jobs = [threading.Thread(target=lock.update, args=(tmp_path / "l.json", locked(**{f"f{n}": n}))) for n in range(12)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert lock.read(tmp_path / "l.json")["o/n@main"].files.keys() == {f"f{n}" for n in range(12)}


@pytest.mark.parametrize(
    ("chosen", "folded"),
    [
        ("a/b/x a/b/y a/z c", ["/"]),
        ("a/b/x a/b/y", ["a/b/"]),
        ("a/b/x a/b/y a/z", ["a/"]),
        ("a/b/x c", ["a/b/x", "c"]),
        ("a/z", ["a/z"]),
    ],
)
def test_a_selection_is_folded_by_folders_and_unfolded_again(chosen, folded):
    everything = ["a/b/x", "a/b/y", "a/z", "c"]
    assert lock.fold(everything, chosen.split()) == folded
    assert lock.unfold(everything, folded) == tuple(chosen.split())


# What is needed


def demo(code: str) -> list[str]:
    names = ("replay.json", "metadata.json", "form.json", "video.mp4", "screenshots/s-1-0.png", "bboxes/b-1.json", "pages/p-1-0.html")
    return [f"demonstrations/{code}/{name}" for name in names]


SHARDS = ["README.md", ".gitattributes", *(f"data/{split}-0000{n}-of-00002-ab.parquet" for split in ("train", "test_task") for n in (0, 1))]
TEXTS = ["README.md", "data/train/train_0.json", "data/train/train_1.json", "test.zip", "scores_all_data.pkl"]
DEMOS = ["README.md", "splits.json", *demo("aaaaaaa"), *demo("bbbbbbb"), "candidates/train.jsonl"]
RUNS = [
    "README.md",
    "data/annotations.csv",
    *(f"cleaned/{b}/{m}/{m}_on_{b}/{b}.1.json" for b in ("webarena", "workarena") for m in ("G-a", "G-b")),
    *(f"screenshots/{b}/{m}/{b}.1/screenshot_step_0.png" for b in ("webarena", "workarena") for m in ("G-a", "G-b")),
    *(f"judgments/{b}/{m}/aer/{b}.1{e}.json" for b in ("webarena", "workarena") for m in ("G-a", "G-b") for e in ("", "_error")),
]
ZIPS = ["README.md", "o3_15steps.zip", "claude-4.zip", "results_o3_results_only.zip"]
FEW = [
    f"demonstrations/aaaaaaa/{name}" for name in ("bboxes/b-1.json", "form.json", "metadata.json", "replay.json", "screenshots/s-1-0.png")
]


@pytest.mark.parametrize(
    ("kind", "paths", "options", "chosen"),
    [
        ("mind2web", SHARDS, {"split": "train"}, SHARDS[2:4]),
        ("mind2web", SHARDS, {}, sorted(SHARDS[2:])),
        ("mind2web", SHARDS, {"split": "train", "files": ["*00001-of*"]}, [SHARDS[3]]),
        ("mind2web", TEXTS, {"split": "train"}, TEXTS[1:3]),
        ("mind2web", TEXTS, {"split": "test_task"}, ["test.zip"]),
        ("mind2web", TEXTS, {}, TEXTS[1:4]),
        ("weblinx", DEMOS, {"split": "train"}, [*FEW, "splits.json"]),
        ("weblinx", DEMOS, {}, [*FEW, *(path.replace("aaaaaaa", "bbbbbbb") for path in FEW), "splits.json"]),
        ("weblinx", DEMOS, {"files": ["*/aaaaaaa/replay.json"]}, [*FEW, "splits.json"]),
        ("agentrewardbench", RUNS, {}, sorted(RUNS[1:])),
        (
            "agentrewardbench",
            RUNS,
            {"benchmarks": ["webarena"], "agents": ["*-b"]},
            [path for path in sorted(RUNS) if path == RUNS[1] or "/webarena/G-b/" in path],
        ),
        ("agentrewardbench", RUNS, {"files": ["cleaned/workarena/G-a/*"]}, [p for p in sorted(RUNS) if "/workarena/G-a/" in p]),
        ("agentrewardbench", RUNS, {"files": ["data/*"]}, ["data/annotations.csv"]),
        ("osworld", ZIPS, {"agents": ["o3*"]}, ["o3_15steps.zip"]),
        ("osworld", ZIPS, {"agents": ["*"]}, ["claude-4.zip", "o3_15steps.zip"]),
        ("osworld", ZIPS, {"files": ["results_o3_results_only.zip"]}, ["results_o3_results_only.zip"]),
        ("osworld", ["run/os/1/traj.jsonl"], {}, ["run/os/1/traj.jsonl"]),
        ("webvoyager", ["a/x.json", "b/y.json", "._x", ".cache/z"], {"files": ["a/*"]}, ["a/x.json"]),
        ("webvoyager", ["a/x.json", "b/y.json", "._x", ".cache/z"], {}, ["a/x.json", "b/y.json"]),
    ],
)
def test_only_what_is_needed_is_chosen(kind, paths, options, chosen):
    splits = json.dumps({"train": ["aaaaaaa"], "dev": ["zzzzzzz"]}).encode()
    found = select.wanted(kind, "o/n", dict.fromkeys(paths, 10), options, lambda path: splits)
    if kind == "agentrewardbench" and "files" in options:
        chosen = sorted({*chosen, "data/annotations.csv"})
    assert found == chosen


@pytest.mark.parametrize(
    ("kind", "paths", "options", "said"),
    [
        ("mind2web", SHARDS, {"split": "test_cat"}, "no split 'test_cat'; there are test_task, train"),
        ("mind2web", TEXTS, {"split": "valid"}, "no split 'valid'; there are train"),
        ("mind2web", DEMOS, {}, "holds neither Parquet shards nor"),
        ("mind2web", SHARDS, {"files": ["x*"]}, "no file 'x[*]'; there are data/"),
        ("mind2web", SHARDS, {"split": ["train"]}, "'split' is not a text"),
        ("mind2web", SHARDS, {"files": "train"}, "'files' is not a list of texts"),
        ("weblinx", DEMOS, {"split": "test"}, "no split 'test'; there are dev, train"),
        ("weblinx", DEMOS, {"split": "dev"}, "no demonstration of split 'dev' is there"),
        ("weblinx", SHARDS, {}, "holds no demonstrations/"),
        ("agentrewardbench", RUNS, {"benchmarks": ["miniwob"]}, "no benchmark 'miniwob'; there are webarena, workarena"),
        ("agentrewardbench", RUNS, {"agents": ["gpt*"]}, "no agent 'gpt[*]'; there are G-a, G-b"),
        ("agentrewardbench", DEMOS, {}, "holds no cleaned/"),
        ("osworld", ZIPS, {}, r"3 archives, 9.0 GB in all; choose with 'agents' .* claude-4.zip \(3.0 GB\), o3_15steps.zip \(3.0 GB\)"),
        ("osworld", ZIPS, {"agents": ["o4*"]}, "no archive 'o4[*]'; there are claude-4, o3_15steps"),
        ("webvoyager", [".gitattributes"], {}, "no file of it is needed"),
    ],
)
def test_what_matches_nothing_is_refused_with_what_there_is(kind, paths, options, said):
    splits = json.dumps({"train": ["aaaaaaa"], "dev": ["zzzzzzz"]}).encode()
    with pytest.raises(InputError, match=said):
        select.wanted(kind, "o/n", dict.fromkeys(paths, 3_000_000_000 if kind == "osworld" else 10), options, lambda path: splits)


def test_a_long_list_of_names_is_cut():
    with pytest.raises(InputError, match=r"and 30 more$"):
        select.wanted("webvoyager", "o/n", {f"f{n:02}": 1 for n in range(50)}, {"files": ["x"]}, lambda path: b"")


@pytest.mark.parametrize("damage", [b"{", b"[]", b'{"train": 3}', b"[" * 100_000])
def test_damaged_splits_are_one_clear_error(damage):
    with pytest.raises(InputError):
        select.wanted("weblinx", "o/n", dict.fromkeys(DEMOS, 10), {"split": "train"}, lambda path: damage)


def test_the_order_of_options_is_no_other_selection():
    same = [select.key("osworld", options) for options in ({"agents": ["b", "a"], "split": "x"}, {"agents": ["a", "b", "a"]})]
    assert same[0] == same[1] == 'osworld {"agents":["a","b"]}'


def test_archives_are_chosen_by_agent_through_the_hub(get):
    done = get("osworld", agents=["o3*"])
    assert list(done.files) == ["o3_15steps.zip"] and zipfile.is_zipfile(done.folder / "o3_15steps.zip")


def test_the_hub_is_not_needed_to_find_what_is_there():
    code = "import sys, evoaudit.hub; print(*(name for name in ('huggingface_hub', 'pyarrow', 'filelock') if name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
