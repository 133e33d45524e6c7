"""The config refuses what it does not know, in one line that names file, field and mend."""

import json

import pytest
import yaml
from jsonschema import Draft202012Validator

from evoaudit import config as configs
from evoaudit.errors import InputError
from evoaudit.resources import ROOT

SOURCE = {"name": "a", "kind": "plain", "path": "x"}


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"prob": {}}, ["prob: unknown field", "'probes'"]),
        ({"probes": {"t1": {"qota": {}}}}, ["probes.t1.qota", "'quota'"]),
        ({"sources": [SOURCE | {"pth": "y"}]}, ["sources.0.pth", "'path'"]),
        ({"sources": [{"name": "a", "kind": "plan", "path": "x"}]}, ["sources.0.kind", "'plain'"]),
        ({"sources": [{"name": "a", "kind": "plain"}]}, ["sources.0", "'path'"]),
        ({"sources": [{"name": "a", "kind": "osworld", "hub": "no data set"}]}, ["sources.0.hub"]),
        ({"sources": [{"name": "a", "kind": "osworld", "hub": "o/n", "files": []}]}, ["sources.0.files"]),
        ({"sources": [{"name": "a", "kind": "simulated", "trajectories": 9, "agents": ["x"]}]}, ["takes no 'agents'"]),
        ({"sources": [SOURCE | {"split": "test"}]}, ["sources.0", "takes no 'split'", "weblinx"]),
        ({"sources": [SOURCE | {"obs_phase": "during"}]}, ["sources.0.obs_phase", "'before'"]),
        ({"sources": [{"name": "a", "kind": "simulated"}]}, ["'trajectories'"]),
        ({"sources": [SOURCE, SOURCE]}, ["'a' is used twice"]),
        ({"sources": [SOURCE | {"name": "../a"}]}, ["sources.0.name"]),
        ({"run": {"seed": "x"}}, ["run.seed: must be a whole number (found 'x')"]),
        ({"run": {"seed": -1}}, ["run.seed"]),
        ({"run": {"seed": True}}, ["run.seed", "no place for true or false (found True)", "seed of every random stream"]),
        ({"stats": {"confidence": True}}, ["stats.confidence", "true or false"]),
        ({"inference": {"max_image_side": [True]}}, ["inference.max_image_side", "true or false"]),
        ({"probes": {"t3": {"quota": {"cross": True}}}}, ["probes.t3.quota", "true or false"]),
        ({"audit": {"quotas": {"webarena": False}}}, ["audit.quotas", "true or false"]),
        ({"run": {"name": "a/../b"}}, ["run.name: must be 1 to 64 letters"]),
        ({"probes": {"t1": {"quota": {6: 1}}}}, ["probes.t1.quota.6: '6' is not allowed; allowed: 3, 4 or 5"]),
        ({"probes": {"t2": {"quota": {"click": -1}}}}, ["probes.t2.quota.click: must be 0 or more (found -1)"]),
        ({"models": [{"name": "x", "provider": "builtin"}]}, ["models.0", "image-similarity"]),
        ({"models": [{"name": "x", "provider": "opnai"}]}, ["models.0.provider", "'openai'"]),
        ({"judges": [{"name": "rules", "provider": "builtin", "role": "human"}]}, ["judges.0", "audit.labels"]),
        ({"inference": {"temperature": "warm"}}, ["inference.temperature"]),
        ({"inference": {"temperature": 3}}, ["inference.temperature"]),
        ({"stats": {"confidence": float("nan")}}, ["stats.confidence"]),
        (
            {"audit": {"quotas": {"webarena": {"per_agnt": 2}}}},
            ["audit.quotas.webarena.per_agnt: unknown field; did you mean 'per_agent'?"],
        ),
        ({"audit": {"quotas": {"webarena": {"per_agent": "x"}}}}, ["audit.quotas.webarena.per_agent: must be a whole number (found 'x')"]),
        ({"audit": {"quotas": {"webarena": None}}}, ["audit.quotas.webarena: must be a whole number (found nothing)", "per_agent: count"]),
        ({"audit": {"quotas": {"webarena": 2.5}}}, ["audit.quotas.webarena: must be a whole number (found 2.5)"]),
        ({"audit": {"quotas": ["webarena"]}}, ["audit.quotas: must be a mapping"]),
        ({"stats": {"confidence": 95}}, ["stats.confidence: must be below 1 (found 95)"]),
    ],
)
def test_a_wrong_field_is_one_line_with_its_name(tree, words):
    with pytest.raises(InputError) as caught:
        configs.check(tree, ["mine.yaml"])
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("mine.yaml")
    for word in words:
        assert word in text


def test_numbers_from_the_command_line_come_as_text():
    # `snakemake --config run='{seed: 3}'` hands them over like this.
    assert configs.check({"run": {"seed": "3"}}).run.seed == 3


def test_the_overlay_that_holds_the_fault_is_named(tmp_path):
    (tmp_path / "a.yaml").write_text("run: {name: x}\n")
    (tmp_path / "b.yaml").write_text("probes: {t1: {qota: {}}}\n")
    with pytest.raises(InputError, match=r"b\.yaml: probes\.t1\.qota"):
        configs.load(tmp_path / "a.yaml", tmp_path / "b.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run: {name: x}\nrun: {name: y}\n", "c.yaml:2: .*'run' is written twice"),
        ("run: [\n", r"c.yaml:\d+: is not YAML"),
        ("- a\n", "not a mapping"),
        ("a: !!python/object/apply:os.system [ls]\n", "is not YAML"),
        ("run:\n  name: 2020-13-45\n", "c.yaml:2: .*'2020-13-45' cannot be read as timestamp"),
        ("run: {seed: !!int x}\n", "c.yaml:1: .*'x' cannot be read as int"),
        ("run: {seed: !!bool x}\n", "cannot be read as bool"),
        (f"run: {{seed: {'9' * 5000}}}\n", "cannot be read as int"),
        (f"run: {{seed: 0x{'f' * 5000}}}\n", "cannot be read as int"),
        (f"run: {'[' * 5000}\n", "nested too deeply"),
        ('models: "a\\0"\n', "not the name of a file"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path, text, words):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError, match=words):
        configs.load(tmp_path / "c.yaml")


def test_aliases_that_unfold_into_a_huge_tree_are_shown_in_few_words(tmp_path):
    parts = ["&a0 [x, x, x, x, x, x, x, x, x]", *(f"&a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))]
    for field in ("run: {name", "inference: {goal"):
        (tmp_path / "c.yaml").write_text(f"{field}: [{', '.join(parts)}]}}\n")
        with pytest.raises(InputError) as caught:
            configs.load(tmp_path / "c.yaml")
        assert len(str(caught.value)) < 400


def test_merges_of_merges_and_aliases_of_aliases_take_no_longer_than_they_are_written(tmp_path):
    path = tmp_path / "bomb.yaml"
    for first, of_ten in (("{x: 1}", "{<<: [%s]}"), ("[x, x]", "[%s]")):
        lines = [f"a0: &a0 {first}"] + [f"a{n}: &a{n} " + of_ten % ", ".join([f"*a{n - 1}"] * 10) for n in range(1, 40)]
        path.write_text("\n".join(lines))
        assert len(configs.read_yaml(path)) == 40
        with pytest.raises(InputError, match="unknown field"):
            configs.load(path)


def test_an_entry_may_be_merged_into_another(tmp_path):
    (tmp_path / "c.yaml").write_text("sources:\n- &a {name: a, kind: plain, path: x}\n- {<<: *a, name: b}\n")
    assert [(source.name, source.path) for source in configs.load(tmp_path / "c.yaml").sources] == [("a", "x"), ("b", "x")]


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(InputError, match="file not found"):
        configs.load(tmp_path / "none.yaml")


def test_a_file_that_is_not_utf8_is_one_line(tmp_path):
    (tmp_path / "c.yaml").write_bytes(b"run: {name: \xff}\n")
    with pytest.raises(InputError, match="not UTF-8"):
        configs.load(tmp_path / "c.yaml")


def test_a_byte_order_mark_is_no_fault(tmp_path):
    (tmp_path / "c.yaml").write_bytes(b"\xef\xbb\xbfrun: {name: x}\n")
    assert configs.load(tmp_path / "c.yaml").run.name == "x"


def test_a_section_may_be_a_path(tmp_path):
    (tmp_path / "models.yaml").write_text("- {name: random, provider: builtin}\n")
    assert configs.check({"models": str(tmp_path / "models.yaml")}).models[0].name == "random"


def test_unset_quotas_are_the_papers():
    probes = configs.check({}).probes
    assert probes.t1.quota == {3: 334, 4: 333, 5: 333}
    assert probes.t2.quota == {"click": 461, "type": 461, "select": 78}
    assert probes.t3.quota == {"cross": 334, "same_domain": 333, "long_skip": 333}


@pytest.mark.parametrize("path", sorted((ROOT / "config").rglob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_config_is_valid(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    tree = yaml.safe_load(path.read_text())
    if path.stem in ("models", "judges"):
        tree = {path.stem: tree}
    elif path.stem in ("prices", "sources"):
        pytest.skip("not a run")
    configs.check(tree, [path])


def test_the_json_schema_accepts_what_the_types_accept():
    schema = configs.json_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    default = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    assert not list(validator.iter_errors(json.loads(json.dumps(default))))
    assert list(validator.iter_errors({"prob": {}}))


@pytest.mark.parametrize(
    ("section", "fields"),
    [
        ("inference", {"conditions": ["full", "full"]}),
        ("inference", {"conditions": []}),
        ("inference", {"max_image_side": [512, 512]}),
        ("inference", {"max_image_side": []}),
        ("audit", {"verdicts": ["fail", "fail"]}),
    ],
)
def test_a_list_that_is_empty_or_names_something_twice_is_refused(section, fields):
    with pytest.raises(InputError, match=rf"{section}\.{next(iter(fields))}.*(empty|twice)"):
        configs.check({section: fields})


def test_a_models_own_conditions_are_checked_too():
    for wrong in ([], ["full", "full"]):
        with pytest.raises(InputError, match="conditions"):
            configs.check({"models": [{"name": "random", "provider": "builtin", "conditions": wrong}]})
