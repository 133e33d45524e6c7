"""Which native formats lie under a folder."""

import json
import os
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from evoaudit.config import check
from evoaudit.errors import InputError
from evoaudit.normalise import Source
from evoaudit.plan import build
from evoaudit.rawlogs import config_lines
from evoaudit.sources import MODULES
from evoaudit.sources.detect import Found, detect

SHARED = Path(os.environ.get("EVOAUDIT_SHARED", Path(__file__).parents[2] / "shared"))
UUID = "5d901039-a89c-4bfb-967b-bf66f4df075e"


def put(root: Path, path: str, content: object = "") -> None:
    """Write a file, JSON unless it is text or bytes."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def webvoyager(root: Path) -> None:
    put(root, "run/taskShop--1/interact_messages.json", [])
    put(root, "run/taskShop--1/screenshot1.png", b"\x89PNG")
    put(root, "run/taskShop--2/interact_messages.json", [])


def weblinx(root: Path) -> None:
    for name in ("replay", "metadata", "form"):
        put(root, f"demonstrations/abcdefg/{name}.json", {})
    put(root, "demonstrations/abcdefg/screenshots/screenshot-1-0.png", b"\x89PNG")
    put(root, "splits.json", {"train": ["abcdefg"]})


def agentrewardbench(root: Path) -> None:
    put(root, "cleaned/webarena/Agent/Agent_on_webarena/webarena.1.json", {"steps": []})
    put(root, "screenshots/webarena/Agent/webarena.1/screenshot_step_0.png", b"\x89PNG")
    put(root, "data/annotations.csv", "annotator_name,benchmark,trajectory_success\n")


def osworld(root: Path) -> None:
    put(root, f"pyautogui/screenshot/model/chrome/{UUID}/traj.jsonl", {"step_num": 1, "action": "DONE"})
    put(root, f"pyautogui/screenshot/model/chrome/{UUID}/result.txt", "0.0\n")


def androidworld(root: Path) -> None:
    put(root, "run_1/ContactsAdd_0.pkl.gz", b"\x1f\x8b")


def androidcontrol(root: Path) -> None:
    put(root, "android_control-00000-of-00020", b"\x1f\x8b")
    put(root, "splits.json", {"test": [1]})


def browsergym(root: Path) -> None:
    put(root, "study/2025-01-01_00-00-00_A_on_miniwob.click_1/exp_args.pkl", b"\x80")
    put(root, "study/2025-01-01_00-00-00_A_on_miniwob.click_1/summary_info.json", {})
    put(root, "study/2025-01-01_00-00-00_A_on_miniwob.click_1/step_0.pkl.gz", b"\x1f\x8b")
    put(root, "study/summary_df_trial_1_of_3.csv", "a\n")


def online_mind2web(root: Path) -> None:
    put(root, "run/t1/result.json", {"task_id": "t1", "action_history": []})
    put(root, "run/t1/trajectory/1_full_screenshot.png", b"\x89PNG")


def opencua(root: Path) -> None:
    put(root, "s_1.json", {"task_id": "s_1", "steps": [{"image": "s_1_0.png", "action": "pyautogui.click(x=0.1, y=0.2)"}]})
    put(root, "images/s_1_0.png", b"\x89PNG")


def aitz(root: Path) -> None:
    put(root, "google_apps/GOOGLE_APPS-1/GOOGLE_APPS-1.json", [{"episode_id": "1", "step_id": 0, "result_action_type": 4}])
    put(root, "google_apps/GOOGLE_APPS-1/GOOGLE_APPS-1_0.png", b"\x89PNG")


def mind2web(root: Path) -> None:
    (root / "data").mkdir(parents=True)
    table = pa.table({"annotation_id": ["t"], "target_action_index": ["0"], "operation": ["{}"]})
    pq.write_table(table, root / "data" / "train-00000-of-00001.parquet")


def plain(root: Path) -> None:
    put(root, "trajectories.jsonl", {"trajectory_id": "t", "steps": []})
    put(root, "img/0.png", b"\x89PNG")


LAYOUTS = {
    "webvoyager": webvoyager,
    "weblinx": weblinx,
    "agentrewardbench": agentrewardbench,
    "osworld": osworld,
    "androidworld": androidworld,
    "androidcontrol": androidcontrol,
    "browsergym": browsergym,
    "online-mind2web": online_mind2web,
    "opencua": opencua,
    "aitz": aitz,
    "mind2web": mind2web,
    "plain": plain,
}


def kinds(found: list[Found], root: Path) -> dict[str, str]:
    """Return relative path → kind of what was recognised."""
    return {one.path.relative_to(root).as_posix(): one.kind for one in found if one.kind}


def unknown(found: list[Found], root: Path) -> dict[str, str]:
    return {one.path.relative_to(root).as_posix(): one.evidence for one in found if one.kind is None}


def test_every_kind_has_a_layout_here():
    assert LAYOUTS.keys() == MODULES.keys()


@pytest.mark.parametrize("kind", sorted(LAYOUTS))
def test_a_folder_of_one_kind_is_that_kind_from_its_top(tmp_path, kind):
    LAYOUTS[kind](tmp_path)
    found = detect(tmp_path)
    assert kinds(found, tmp_path) == {".": kind}
    assert unknown(found, tmp_path) == {}


def test_a_folder_of_all_kinds_is_each_from_its_own_top(tmp_path):
    for kind, make in LAYOUTS.items():
        make(tmp_path / f"a {kind}")
    found = detect(tmp_path)
    assert kinds(found, tmp_path) == {f"a {kind}": kind for kind in LAYOUTS}
    assert unknown(found, tmp_path) == {}


def test_the_answer_does_not_depend_on_the_order_files_were_made_in(tmp_path):
    for name, order in (("one", list(LAYOUTS)), ("two", list(reversed(LAYOUTS)))):
        for kind in order:
            LAYOUTS[kind](tmp_path / name / kind)
    one, two = ([(f.kind, f.path.relative_to(tmp_path / name), f.evidence) for f in detect(tmp_path / name)] for name in ("one", "two"))
    assert one == two


def test_two_runs_of_one_kind_beside_another_are_two_sources(tmp_path):
    webvoyager(tmp_path / "first")
    webvoyager(tmp_path / "second")
    plain(tmp_path / "own")
    assert kinds(detect(tmp_path), tmp_path) == {"first": "webvoyager", "second": "webvoyager", "own": "plain"}


def test_osworld_keeps_its_task_set_at_the_top(tmp_path):
    osworld(tmp_path / "osw")
    put(tmp_path, f"osw/evaluation_examples/examples/chrome/{UUID}.json", {"instruction": "i"})
    found = detect(tmp_path)
    assert kinds(found, tmp_path) == {"osw": "osworld"}
    assert unknown(found, tmp_path) == {}


def test_osworld_archives_are_looked_into_and_others_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "agent_15steps.zip", "w") as archive:
        archive.writestr(f"run/chrome/{UUID}/traj.jsonl", "{}")
    assert kinds(detect(tmp_path), tmp_path) == {".": "osworld"}
    with zipfile.ZipFile(tmp_path / "agent_15steps.zip", "w") as archive:
        archive.writestr("photos/cat.png", "")
    found = detect(tmp_path)
    assert kinds(found, tmp_path) == {}
    assert "an archive of 1 files that no reader takes packed" in unknown(found, tmp_path)["."]


def test_mind2web_json_and_its_raw_dump_are_one_source(tmp_path):
    task = {"annotation_id": "a", "confirmed_task": "c", "action_reprs": ["x -> CLICK"], "actions": [{"action_uid": "u"}]}
    put(tmp_path, "data/train/train_0.json", [task])
    put(tmp_path, "raw/a/processed/screenshot.json", [])
    assert kinds(detect(tmp_path), tmp_path) == {".": "mind2web"}


def test_what_nobody_knows_is_named_with_its_files(tmp_path):
    plain(tmp_path / "own")
    put(tmp_path, "notes/a.xyz")
    put(tmp_path, "notes/deep/b.xyz")
    put(tmp_path, "shots/1.png", b"\x89PNG")
    found = unknown(detect(tmp_path), tmp_path)
    assert found == {
        "notes": "2 files (2 .xyz): of no layout a reader knows",
        "shots": "1 file (1 .png): pictures without a log",
    }


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", [{"annotation_id": "a", "action_reprs": [], "confirmed_task": "c"}], "Mind2Web without their actions"),
        ("b.json", [{"shortcode": "abcdefg", "replay": {"data": []}}], "pieces of WebLINX turns"),
        ("c.json", [{"image/ui_annotations_positions": [], "results/action_type": 4}], "Android in the Wild"),
        ("trajectories.jsonl", {"id": 1, "actions": []}, "trajectories.jsonl without trajectory_id and steps"),
        ("d.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointers"),
        ("e.parquet", b"PAR1 not really", "Parquet files that cannot be read"),
    ],
)
def test_fragments_are_called_what_they_are(tmp_path, name, content, said):
    put(tmp_path, f"part/{name}", content)
    found = detect(tmp_path)
    assert kinds(found, tmp_path) == {}
    assert said in unknown(found, tmp_path)["part"]


def test_a_folder_whose_name_holds_control_characters_is_named_as_that(tmp_path):
    plain(tmp_path / "a\nb")
    assert "the name is unsafe" in unknown(detect(tmp_path), tmp_path)["a\nb"]


@pytest.mark.parametrize("name", ["own", "my logs", "a\nb", 'a"b\\c', "\u202ertl", "größe"])
def test_a_printed_config_names_the_folder_it_was_made_for(tmp_path, name):
    lines = config_lines([Source("own", "plain", tmp_path / name)])
    assert yaml.safe_load("\n".join(lines))["sources"][0]["path"] == str(tmp_path / name)
    assert all(line.isprintable() for line in lines)


def test_a_crashed_task_does_not_split_its_run(tmp_path):
    webvoyager(tmp_path / "wv")
    put(tmp_path, "wv/run/taskShop--3/screenshot1.png", b"\x89PNG")
    plain(tmp_path / "own")
    assert kinds(detect(tmp_path), tmp_path) == {"wv": "webvoyager", "own": "plain"}


def test_foreign_json_beside_a_reader_that_tries_every_file_stays_outside(tmp_path):
    opencua(tmp_path / "logs" / "cua")
    put(tmp_path, "logs/other/config.json", {"a": 1})
    found = detect(tmp_path)
    assert kinds(found, tmp_path) == {"logs/cua": "opencua"}
    assert list(unknown(found, tmp_path)) == ["logs/other"]


def test_a_big_folder_is_cut_short_and_says_so(tmp_path):
    for number in range(30):
        put(tmp_path, f"f{number:02}/trajectories.jsonl", {"trajectory_id": "t", "steps": []})
    found = detect(tmp_path, limit=10)
    assert len(kinds(found, tmp_path)) == 10
    assert "only the first 10 files were looked at" in unknown(found, tmp_path)["."]


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    plain(tmp_path / "outside")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "inside" / "trajectories.jsonl").symlink_to(tmp_path / "outside" / "trajectories.jsonl")
    assert kinds(detect(tmp_path / "inside"), tmp_path) == {}


def test_a_file_is_no_folder(tmp_path):
    put(tmp_path, "a.txt")
    with pytest.raises(InputError, match="is not a folder"):
        detect(tmp_path / "a.txt")
    with pytest.raises(InputError, match="folder not found"):
        detect(tmp_path / "nowhere")


@pytest.mark.skipif(not (SHARED / "data").exists(), reason="reference data absent")
def test_real_logs_are_recognised_and_fragments_are_not():
    root = SHARED / "data"
    found = detect(root)
    assert kinds(found, root) == {
        "agentlab": "browsergym",
        "agentrewardbench": "agentrewardbench",
        "aitz": "aitz",
        "online-mind2web": "online-mind2web",
        "opencua": "opencua",
        "osworld": "osworld",
        "webvoyager": "webvoyager",
    }
    rest = unknown(found, root)
    assert "Android in the Wild" in rest["android-in-the-wild"]
    assert "Mind2Web without their actions" in rest["mind2web-fragments"]
    assert "WebLINX" in rest["weblinx-fragments"]


def test_the_config_that_is_offered_asks_about_desktops_and_telephones_too(tmp_path):
    places = [("own", "plain"), ("osw", "osworld"), ("cua", "opencua"), ("phone", "aitz")]
    tree = yaml.safe_load("\n".join(config_lines([Source(name, kind, tmp_path) for name, kind in places])))
    plan = build(check(tree), must_exist=False)
    mined = {job.label: {one.settings["source"] for one in job.upstream["normalise"]} for job in plan.of("mine")}
    assert mined == {"all": {"own"}, "desktop": {"osw", "cua"}, "mobile": {"phone"}}
