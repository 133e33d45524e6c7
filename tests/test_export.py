"""The export: what leaves says whose it is, what may not leave does not, and the copied rules are the run's own."""

import hashlib
import importlib.util
import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from made_export import arguments, export, source
from test_workflow import snakemake

from evoaudit import config as configs
from evoaudit import extras, parse, score, store
from evoaudit import plan as plans
from evoaudit.__main__ import main
from evoaudit.export import dataset, licences, masking, scorer
from evoaudit.resources import ROOT
from evoaudit.stats.evogain import baseline_t1, baseline_t2_joint, evogain, evogain_action

TASKS = ("t1", "t2", "t3")


def rows(folder: Path, task: str) -> list[dict]:
    return pq.read_table(folder / "data" / task / "test.parquet").to_pylist()


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    """The copied rules, imported from their one file."""
    path = tmp_path_factory.mktemp("rules") / scorer.NAME
    path.write_text(scorer.text(), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("evogui_scorer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    return export(tmp_path_factory.mktemp("export"), source(), pictures="unread")


def test_every_item_leaves_with_its_pictures_its_prompt_and_its_licence(exported):
    for task, n in (("t1", 3), ("t2", 2), ("t3", 3)):
        found = rows(exported, task)
        assert [row["instance_id"] for row in found] == [f"{task}-000", f"{task}-001"]
        for row in found:
            assert row["license"] == "CC-BY-4.0" and not row["masked"] and not row["simulated"]
            assert len(row["images"]) == len(row["image_labels"]) == len(row["image_ids"]) == n
            assert all(picture["bytes"].startswith(b"\x89PNG") for picture in row["images"])
            assert row["goal"] in row["prompt"] and "JSON" in row["prompt"] and row["system"]


def test_the_parquet_says_what_the_datasets_library_needs(exported):
    told = json.loads(pq.read_schema(exported / "data" / "t2" / "test.parquet").metadata[b"huggingface"])["info"]["features"]
    assert told["images"] == {"feature": {"_type": "Image"}, "_type": "Sequence"}
    assert told["answer_value"] == {"dtype": "string", "_type": "Value"} and list(told) == list(dataset.columns("t2"))


def test_the_card_can_be_read_by_the_hub(exported):
    header = yaml.safe_load((exported / "README.md").read_text().split("---\n")[1])
    assert header["license"] == "cc-by-4.0"
    assert [(one["config_name"], one["data_files"][0]["path"]) for one in header["configs"]] == [
        (task, f"data/{task}/test.parquet") for task in TASKS
    ]
    assert all((exported / one["data_files"][0]["path"]).is_file() for one in header["configs"])


def test_checksums_cover_every_file_and_hold(exported):
    lines = dict(reversed(line.split("  ")) for line in (exported / "SHA256SUMS").read_text().splitlines())
    there = {path.relative_to(exported).as_posix() for path in exported.rglob("*") if path.is_file()}
    assert there - set(lines) == {"SHA256SUMS", "manifest.json"}
    assert all(hashlib.sha256((exported / name).read_bytes()).hexdigest() == digest for name, digest in lines.items())


def test_the_crate_names_every_file_once_and_every_reference_is_there(exported):
    graph = json.loads((exported / "ro-crate-metadata.json").read_text())["@graph"]
    known = [one["@id"] for one in graph]
    assert len(known) == len(set(known))
    root = next(one for one in graph if one["@id"] == "./")
    files = {path.relative_to(exported).as_posix() for path in exported.rglob("*") if path.is_file()}
    assert {part["@id"] for part in root["hasPart"]} == files - {"SHA256SUMS", "manifest.json", "ro-crate-metadata.json"}
    named = re.findall(r'"@id": "([^"]+)"', json.dumps(graph))
    assert {name for name in named if not name.startswith("https://")} <= set(known)


def test_croissant_describes_every_column(exported):
    data = json.loads((exported / "croissant.json").read_text())
    assert [record["@id"] for record in data["recordSet"]] == list(TASKS)
    for record in data["recordSet"]:
        assert [field["name"] for field in record["field"]] == list(dataset.columns(record["@id"]))
    assert {one["sha256"] for one in data["distribution"]} == {
        hashlib.sha256((exported / dataset.file(task)).read_bytes()).hexdigest() for task in TASKS
    }


def test_an_export_without_pictures_says_so_and_has_no_harness(tmp_path):
    out = export(tmp_path, source(), pictures="none")
    assert "images" not in rows(out, "t1")[0] and rows(out, "t1")[0]["image_ids"]
    assert not (out / "harness").exists() and "Pictures are left out" in (out / "README.md").read_text()


def test_pictures_that_were_not_read_are_called_so(exported):
    assert "Pictures were not read: they may show credentials" in (exported / "README.md").read_text()


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_row_order_threads_and_folder_change_no_byte(tmp_path):
    typed = {0: ("Password", "Zebra-77"), 1: ("Full name", "Ada Quill")}
    made = {}
    for name, seed, threads in (("a", None, "1"), ("b and a space", 3, "3")):
        logs = source(n=4, typed=typed)
        logs.trajectories[1]["instruction"] = "for Ada Quill"
        write = logs.write
        logs.write = lambda folder, write=write, seed=seed: write(folder, seed)
        (tmp_path / name).mkdir()
        words = arguments(tmp_path / name, logs, pictures="unread")
        assert main([*words, "--threads", threads]) == 0
        made[name] = files(tmp_path / name / "out")
        del made[name]["manifest.json"]
    first, second = made.values()
    assert first.keys() == second.keys() and [name for name in first if first[name] != second[name]] == []


def test_a_hostile_licence_opens_no_markup_on_the_card(tmp_path):
    bad = "[x](javascript:alert(1)) <script>|\n# Title"
    out = export(tmp_path, source("bad", bad), source("good"), pictures="none", accept=["bad"])
    text = (out / "README.md").read_text()
    (row,) = [line for line in text.splitlines() if line.startswith("| bad |")]
    assert "script" in row and not re.search(r"(?<!\\)[\[<]", row) and "\n# Title" not in text
    # Two licences, so the header names none of them.
    assert "license: other" in text


def test_a_row_without_a_licence_keeps_the_others_from_standing_for_all(tmp_path):
    out = export(tmp_path, source("bare", None), source("good"), pictures="none", accept=["bare"])
    assert "license: other" in (out / "README.md").read_text() and "license: CC" not in (out / "CITATION.cff").read_text()


# Further sets


def test_further_sets_leave_as_configurations_of_their_own(tmp_path):
    sets = {"phone": source("phone", "MIT", n=3), "desktop": source("desktop")}
    out = export(tmp_path, source(), sets=sets, pictures="unread")
    wanted = [*TASKS, "desktop_t1", "desktop_t2", "desktop_t3", "phone_t1", "phone_t2", "phone_t3"]
    text = (out / "README.md").read_text()
    assert [one["config_name"] for one in yaml.safe_load(text.split("---\n")[1])["configs"]] == wanted
    assert "| `phone_t2` | inverse action and value, of the set `phone` | 3 |" in text
    assert {one["@id"] for one in json.loads((out / "croissant.json").read_text())["recordSet"]} == set(wanted)
    assert {path.parent.name for path in out.glob("data/*/test.parquet")} == set(wanted)
    assert {row["source"] for row in rows(out, "phone_t1")} == {"phone"} and {row["source"] for row in rows(out, "t1")} == {"web"}
    # A set's own vocabulary stands in its prompts and in its rows.
    assert rows(out, "phone_t2")[0]["options"] == ["click", "type", "long_press"] != rows(out, "t2")[0]["options"]
    assert "long_press" in rows(out, "phone_t2")[0]["prompt"]
    tasks = {path.stem for path in (out / "harness" / "lmms-eval").glob("*.yaml")}
    assert tasks == {f"evogui_{name}" for name in wanted}
    assert yaml.safe_load((out / "harness/lmms-eval/evogui_phone_t2.yaml").read_text().replace("!function", ""))["dataset_kwargs"] == {
        "data_files": {"test": "data/phone_t2/test.parquet"}
    }
    counts = store.read_manifest(out)["counts"]
    assert counts["read"] == counts["kept"] == 3 * (2 + 3 + 2)


@pytest.mark.parametrize(("chosen", "left"), [(["desktop"], {"desktop"}), ([], set())])
def test_which_sets_leave_can_be_said(tmp_path, chosen, left):
    out = export(tmp_path, source(), sets={"phone": source("phone"), "desktop": source("desktop")}, leaving=chosen, pictures="none")
    assert {path.parent.name.rpartition("_")[0] for path in out.glob("data/*/test.parquet")} == {"", *left}


def test_a_run_without_the_papers_set_exports_the_others(tmp_path):
    out = export(tmp_path, sets={"phone": source("phone")}, pictures="unread")
    assert {path.parent.name for path in out.glob("data/*/test.parquet")} == {"phone_t1", "phone_t2", "phone_t3"}
    assert hashlib.sha256((out / "data/phone_t1/test.parquet").read_bytes()).hexdigest() in (out / "SHA256SUMS").read_text()


def test_the_licences_of_a_set_are_looked_at_too(tmp_path, capsys):
    said = refused(tmp_path, capsys, source(), sets={"phone": source("phone", None)})
    assert "source 'phone': 6 rows (phone_t1 t1-000, phone_t1 t1-001, phone_t2 t2-000, …) state no licence" in said


def test_the_sets_of_a_config_and_their_pictures_are_planned(tmp_path):
    base = """
sources: [{name: s, kind: simulated, trajectories: 20}]
models: [{name: random, provider: builtin}]
probes: {sets: {desktop: {sources: [s-osworld], t2: {quota: {click: 2}}}}}
"""
    found = {}
    for text in ("", "export: {sets: []}\n", "export: {max_image_side: 1024}\n"):
        (tmp_path / "mine.yaml").write_text(base + text)
        (job,) = plans.build(configs.load(tmp_path / "mine.yaml")).of("export")
        found[text] = [[one.label for one in job.upstream.get(name, ())] for name in ("mine", "sets", "images", "set_images")]
    assert list(found.values()) == [
        [["all"], ["desktop"], ["side-512"], ["desktop/side-512"]],
        [["all"], [], ["side-512"], []],
        [["all"], ["desktop"], ["export/side-1024"], ["export/desktop/side-1024"]],
    ]
    (tmp_path / "mine.yaml").write_text(base + "export: {sets: [mobile]}\n")
    with pytest.raises(licences.InputError, match=r"export.sets: 'mobile': no such set; there are desktop"):
        plans.build(configs.load(tmp_path / "mine.yaml"))


@pytest.mark.slow
def test_the_workflow_exports_its_sets_and_models_are_not_needed(tmp_path):
    config = """
run: {name: sets, seed: 3}
sources: [{name: s, kind: simulated, trajectories: 40, formats: [plain, osworld]}]
probes:
  t1: {quota: {3: 4}}
  t2: {quota: {click: 3}}
  t3: {quota: {cross: 3}}
  sets: {desktop: {sources: [s-osworld], t1: {quota: {3: 3}}, t2: {quota: {click: 2, type: 2}}, t3: {quota: {cross: 2}}}}
"""
    snakemake(tmp_path, "export", config=config)
    out = tmp_path / "results" / "runs" / "sets" / "export"
    assert {task: len(rows(out, task)) for task in (*TASKS, "desktop_t1", "desktop_t2", "desktop_t3")} == {
        "t1": 4,
        "t2": 3,
        "t3": 3,
        "desktop_t1": 3,
        "desktop_t2": 4,
        "desktop_t3": 2,
    }
    assert {row["source"] for row in rows(out, "desktop_t3")} == {"s-osworld"}
    assert all(picture["bytes"].startswith(b"\x89PNG") for row in rows(out, "desktop_t1") for picture in row["images"])


# Licences


def refused(root: Path, capsys, *sources, **more) -> str:
    assert main(arguments(root, *sources, **{"pictures": "none", **more})) == 2
    assert not (root / "out" / "manifest.json").exists() and not list((root / "out").glob("*"))
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("licence", "told"),
    [
        (None, "state no licence"),
        ("", "state no licence"),
        ("custom terms (no SPDX id)", "not known to let anyone pass them on"),
        ("CC-BY-ND-4.0", "lets nobody share adapted copies"),
        ("All rights reserved", "not known"),
    ],
)
def test_what_is_not_known_to_be_free_stays_and_the_refusal_says_which_rows(tmp_path, capsys, licence, told):
    said = refused(tmp_path, capsys, source("good"), source("bad", licence))
    # The two items of each task, and the item of the other source whose wrong candidate is this one's screen.
    assert "source 'bad': 7 rows (t1 t1-002, t1 t1-003, t2 t2-002, …)" in said
    assert said.count("\n") == 1 and told in said and "export.accept" in said
    assert "'good'" not in said


@pytest.mark.parametrize("more", [{"accept": ["bad"]}, {"licenses": ["CC-BY-4.0", "House rules"]}, {"leave_out": ["bad"]}])
def test_the_mends_a_refusal_names_work(tmp_path, more):
    out = export(tmp_path, source("good"), source("bad", "House rules"), pictures="none", **more)
    held = {row["license"] for row in rows(out, "t1")}
    assert held == ({"CC-BY-4.0"} if "leave_out" in more else {"CC-BY-4.0", "House rules"})
    counts = store.read_manifest(out)["counts"]
    # The two items of each task of the other source, and one T3 item whose wrong candidate is its screen.
    assert counts["dropped"] == ({"left_out": 7} if "leave_out" in more else {})
    assert counts["read"] == 12 == counts["kept"] + sum(counts["dropped"].values())


def test_a_list_of_licences_keeps_out_what_it_does_not_name(tmp_path, capsys):
    assert "are under 'CC-BY-4.0', which export.licenses does not name" in refused(tmp_path, capsys, source(), licenses=["MIT"])


@pytest.mark.parametrize(
    ("one", "other", "fits"),
    [
        ("CC-BY-SA-4.0", "CC-BY-NC-SA-4.0", False),
        ("CC-BY-SA-4.0", "CC-BY-NC-4.0", False),
        ("CC-BY-NC-SA-4.0", "CC-BY-NC-4.0", True),
        ("CC-BY-NC-SA-4.0", "openrail", False),
        ("CC-BY-SA-4.0", "MIT", True),
        ("CC-BY-NC-4.0", "openrail", True),
        ("Apache-2.0", "MIT", True),
        ("cc-by-sa-4.0 ", "CC-BY-SA-4.0", True),
    ],
)
def test_licences_that_cannot_be_joined_stop_the_export(one, other, fits):
    held = {licences.Held("a", one, False): ["t1 x"], licences.Held("b", other, False): ["t1 y", "t1 z"]}
    if fits:
        licences.gate(held, {})
    else:
        with pytest.raises(
            licences.InputError, match=r"1 row \(t1 x\) of 'a' and 2 rows \(t1 y, t1 z\) of 'b' cannot be joined: .*export.mixed"
        ):
            licences.gate(held, {})
        licences.gate(held, {"mixed": True})
        licences.gate(held, {"accept": ["b"]})


@pytest.mark.slow
def test_a_parquet_source_and_a_plain_one_under_licences_that_clash_stop_and_the_mends_work(tmp_path, capsys):
    assert main(["simulate", "--trajectories", "40", "--formats", "mind2web,plain", "--seed", "4", "--out", str(tmp_path / "made")]) == 0
    assert list((tmp_path / "made" / "mind2web").rglob("*.parquet"))
    (tmp_path / "mine.yaml").write_text(f"""
sources:
  - {{name: shards, kind: mind2web, path: {tmp_path}/made/mind2web}}
  - {{name: lines, kind: plain, path: {tmp_path}/made/plain, license: CC-BY-SA-4.0}}
probes: {{t1: {{quota: {{3: 6}}}}, t2: {{quota: {{click: 4}}}}, t3: {{quota: {{cross: 4}}}}}}
""")
    plan = plans.build(configs.load(tmp_path / "mine.yaml"), tmp_path / "results")

    def run(job: plans.Job, *words: str, **more) -> str:
        out = tmp_path / "results" / job.stage / job.key
        seed = [] if job.seed is None else ["--seed", str(job.seed)]
        assert main([job.stage, "--settings", json.dumps({**job.all_settings, **more}), *seed, "--out", str(out), *words]) == 0
        return str(out / "manifest.json")

    (mining,), (preparing,), (exporting,) = plan.of("mine"), plan.of("images"), plan.of("export")
    read = mining.upstream["normalise"]
    given = ["--normalised", *(run(job, "--root-folder", job.places["root"]) for job in read)]
    given += ["--root", *(f"{job.settings['source']}={job.places['root']}" for job in read)]
    mined = run(mining, *given)
    given += ["--mined", mined, "--images", run(preparing, "--mined", mined, *given)]
    told = {**exporting.all_settings, "pictures": "unread"}
    words = ["export", "--out", str(tmp_path / "out"), *given]
    capsys.readouterr()
    assert main([*words, "--settings", json.dumps(told)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and re.search(
        r"\d+ rows \(t1 t1-\w+, .*\) of 'lines' and \d+ rows .* of 'shards' cannot be joined", said
    ), said
    assert "CC-BY-SA-4.0 wants the whole under itself, and OpenRAIL restricts" in said and not list((tmp_path / "out").glob("*"))
    assert main([*words, "--settings", json.dumps(told | {"mixed": True})]) == 0
    found = {(row["source"], row["license"]) for task in TASKS for row in rows(tmp_path / "out", task)}
    assert found == {("shards", "openrail"), ("lines", "CC-BY-SA-4.0")}
    assert main([*words, "--settings", json.dumps(told | {"leave_out": ["lines"]})]) == 0
    assert {row["source"] for task in TASKS for row in rows(tmp_path / "out", task)} == {"shards"}
    assert yaml.safe_load((tmp_path / "out" / "README.md").read_text().split("---\n")[1])["license"] == "openrail"


def test_simulated_rows_are_the_programs_own_whatever_format_they_imitate(tmp_path):
    out = export(tmp_path, source("sim", "openrail", simulated=True), pictures="none")
    assert {row["license"] for row in rows(out, "t3")} == {"Apache-2.0"}
    assert "6 of these rows rest on simulated" in (out / "README.md").read_text()


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "export.md").read_text(encoding="utf-8"), re.DOTALL))
def test_the_configs_of_the_page_on_exports_are_configs(text, tmp_path):
    (tmp_path / "mine.yaml").write_text(text.replace("[weblinx]", "[mine]"), encoding="utf-8")
    config = configs.load(tmp_path / "mine.yaml")
    (job,) = plans.build(config, must_exist=False).of("export")
    assert job.settings["date"] in (None, "2026-11-30")


def test_a_source_an_export_names_must_be_there(tmp_path):
    (tmp_path / "mine.yaml").write_text("sources: [{name: a, kind: plain, path: a}]\nexport: {privacy: {fictional: [b]}}\n")
    with pytest.raises(licences.InputError, match=r"export.privacy.fictional: 'b': no such source; there are a"):
        plans.build(configs.load(tmp_path / "mine.yaml"), must_exist=False)


def test_another_side_for_the_export_prepares_pictures_for_it_alone(tmp_path):
    base = "sources: [{name: s, kind: simulated, trajectories: 20}]\nmodels: [{name: random, provider: builtin}]\n"
    sides = {}
    for text in ("", "export: {max_image_side: 1024}\n", "export: {pictures: none}\n"):
        (tmp_path / "mine.yaml").write_text(base + text)
        (job,) = plans.build(configs.load(tmp_path / "mine.yaml")).of("export")
        sides[text] = [one.settings["max_image_side"] for one in job.upstream.get("images", ())]
    assert list(sides.values()) == [[512], [1024], []]


# Bad input

HOSTILE = (
    '<img src=x onerror=alert(1)> <script>alert("1")</script>',
    "[click](javascript:alert(1)) | `code` | # head",
    "---\nlicense: mit\n---",
    "Ünïcode 山田 \u202eevil\u200b 👩‍💻",
    "a\x00b\r\nc\td",
    "{{ 7 * 7 }} {% raw %} $goal ${goal}",
    "' OR 1=1; -- \\\" \\\\",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_in_every_file(tmp_path, text):
    logs = source(n=2)
    for row in logs.trajectories:
        row |= {"instruction": text, "domain": text, "website": text}
    out = export(tmp_path, logs, pictures="unread", title=text[:120])
    found = rows(out, "t1")[0]
    assert (found["goal"], found["domain"]) == (text, text)
    card = (out / "README.md").read_text()
    header, _, body = card.removeprefix("---\n").partition("\n---\n")
    assert yaml.safe_load(header)["pretty_name"] == text[:120] and yaml.safe_load(header)["license"] == "cc-by-4.0"
    assert not re.search(r"(?<!\\)<(?:img|script)", body) and not re.search(r"(?<!\\)\[click\]", body)
    citation = yaml.safe_load((out / "CITATION.cff").read_text())
    assert citation["title"] == text[:120] and citation["license"] == "CC-BY-4.0"
    for name in ("croissant.json", "ro-crate-metadata.json", "privacy.json"):
        json.loads((out / name).read_text())
    for path in (out / "harness").rglob("*.py"):
        compile(path.read_text(), path.name, "exec")
    assert len((out / "SHA256SUMS").read_text().splitlines()) == len(files(out)) - 2


def test_names_and_places_with_spaces_quotes_and_other_letters(tmp_path):
    place = tmp_path / "Ä 'q\" 山田 $HOME"
    logs = source(n=2)
    for table in (logs.trajectories, logs.steps, logs.changes):
        for row in table:
            row["trajectory_id"] = row["trajectory_id"].replace("web:", "läuft 'a\" 山/")
    out = export(place, logs, pictures="unread")
    assert [row["trajectory_id"] for row in rows(out, "t1")] == ["läuft 'a\" 山/0", "läuft 'a\" 山/1"]


@pytest.mark.parametrize("lost", ["prepared", "source"])
def test_a_missing_picture_is_one_line_and_nothing_is_written(tmp_path, capsys, monkeypatch, lost):
    logs = source(n=2)
    words = arguments(tmp_path, logs, pictures="unread" if lost == "prepared" else "masked")
    if lost == "prepared":
        (tmp_path / "images" / "prepared.parquet").unlink()
    else:
        monkeypatch.setattr(extras, "no_ocr", lambda: None)
        monkeypatch.setattr(masking.Reader, "read", lambda self, picture: [])
        next(path for path in sorted((tmp_path / "sources").rglob("*.png"))).unlink()
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and ("prepared.parquet" in said or ".png" in said), said
    assert not list((tmp_path / "out").glob("*"))


@pytest.mark.parametrize("models", [0, 1])
def test_a_run_with_one_model_or_none_has_an_export(tmp_path, models):
    text = "sources: [{name: s, kind: simulated, trajectories: 20}]\n"
    text += "models: [{name: random, provider: builtin}]\n" if models else ""
    (tmp_path / "mine.yaml").write_text(text)
    (job,) = plans.build(configs.load(tmp_path / "mine.yaml")).of("export")
    assert [len(job.upstream.get(name, ())) for name in ("mine", "images")] == [1, 1]


def test_a_run_without_any_logs_exports_its_labels_alone(tmp_path):
    words = ["export", "--settings", "{}", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    there = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"README.md", "CITATION.cff", "SHA256SUMS", "ro-crate-metadata.json"} <= there and "data" not in there
    assert "harness" not in there


# The copied rules

TEXTS = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(
            (
                '{"order": [2, 1, 3]}',
                '{"order": [1,2,3]}',
                '{"order": [1, 1, 2]}',
                '{"action": "type", "value": "kettle"}',
                '{"action": "Select", "value": ""}',
                '{"action": "drag"}',
                '{"answer": "a", "confidence": 2}',
                '{"answer": "B"}',
                *("```json", "Candidate A", "not B", "the answer is click", "[3,2,1]", "{", "}", " ", "\n", "or", "I think"),
            )
        ),
        max_size=6,
    ).map("".join),
)
PROBES = {
    "t1": {"images": ["a", "b", "c"], "answer": [2, 1, 3], "slice": "K=3"},
    "t2": {"images": ["a", "b"], "answer_action": "type", "answer_value": "kettle", "value_in_goal": True, "slice": "type"},
    "t3": {"images": ["a", "b", "c"], "answer": "B", "slice": "cross"},
}


@settings(max_examples=400)
@given(task=st.sampled_from(TASKS), text=TEXTS)
def test_the_copied_rules_judge_every_text_as_the_run_does(rules, task, text):
    status = "ok" if text.strip() else "empty"
    ours = score.score(task, PROBES[task], {"status": status, "raw": text})
    theirs = rules.mark(task, PROBES[task] | {"options": ["click", "type", "select"]}, text)
    for name in ("status", "parse_path", "correct", "action_correct", "tau"):
        assert ours[name] == theirs[name], name


def test_the_copied_rules_need_nothing_but_python():
    source = scorer.text()
    assert "evoaudit" not in source.replace("EvoAudit", "") and "import numpy" not in source
    compile(source, scorer.NAME, "exec")


def test_the_copied_rules_obey_a_vocabulary_of_another_set(rules):
    row = PROBES["t2"] | {"options": ["click", "long_press"], "answer_action": "long_press", "answer_value": ""}
    text = '{"action": "long_press", "value": ""}'
    assert rules.mark("t2", row, text)["correct"]
    assert parse.parse_answer("t2", text)[0] is None


def test_the_numbers_of_the_copied_rules_are_those_of_the_tables(rules):
    marks = [rules.mark("t1", PROBES["t1"], '{"order": [2, 1, 3]}'), rules.mark("t1", PROBES["t1"], '{"order": [1, 2, 3]}')]
    marks += [rules.mark("t2", PROBES["t2"], '{"action": "type", "value": "Kettle"}'), rules.mark("t2", PROBES["t2"], None)]
    marks += [rules.mark("t3", PROBES["t3"], "B"), rules.mark("t3", PROBES["t3"], "dunno"), rules.mark("t3", PROBES["t3"], "  ")]
    items = [("t1", "K=3"), ("t1", "K=4"), ("t2", "click"), ("t2", "type"), ("t2", "type"), ("t3", "cross")]
    chance = rules.baseline(items)
    assert chance["t1"] == pytest.approx(baseline_t1({3: 1, 4: 1})) == pytest.approx((100 / 6 + 100 / 24) / 2)
    assert chance["t2_joint"] == pytest.approx(baseline_t2_joint(1, 2, 0)) == pytest.approx(100 / 9)
    found = rules.summary(marks, chance)
    # One of two orders is exact; the T2 action is right and its value is not; one of two T3 answers is right, and one is missing.
    assert (found["t1"], found["t2_joint"], found["t2_action"], found["t3"], found["unanswered"]) == (50, 0, 100, 50, 2)
    assert found["t1_tau"] == pytest.approx((1 + 1 / 3) / 2)
    assert found["evogain"] == pytest.approx(evogain(50, 0, 50, (chance["t1"], chance["t2_joint"], chance["t3"])))
    assert found["evogain_action"] == pytest.approx(evogain_action(50, 100, 50, (chance["t1"], 100 / 3, 50)))
