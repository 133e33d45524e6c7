"""Other people's programs open the export, and one of them, asking the same server, gets the run's own numbers.

They are wanted in environments of their own, of which variables name the Python:

    EVOAUDIT_HARNESSES   pip install inspect-ai openai datasets pillow pandas mlcroissant
    EVOAUDIT_VALIDATORS  pip install roc-validator cffconvert
    EVOAUDIT_LMMS_EVAL   pip install lmms-eval==0.7.3 openai filelock==3.16.1
    EVOAUDIT_VLMEVAL     pip install ms-vlmeval==0.0.20, which is VLMEvalKit as EvalScope packs it, and what it says is missing
"""

import base64
import csv
import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from made_export import export, source
from model_server import Answer, Call, ModelServer, Reply, good
from PIL import Image
from served import CANARY, served
from test_workflow import snakemake

from evoaudit import score
from evoaudit.export import dataset
from evoaudit.resources import ROOT

pytestmark = pytest.mark.slow

PYTHON = os.environ.get("EVOAUDIT_HARNESSES", sys.executable)
CONFIG = """
run: {{name: bench, seed: 3}}
sources:
  - {{name: sim, kind: simulated, trajectories: 60}}
probes:
  t1: {{quota: {{3: 6, 4: 6, 5: 6}}}}
  t2: {{quota: {{click: 8, type: 8, select: 4}}}}
  t3: {{quota: {{cross: 6, same_domain: 6, long_skip: 6}}}}
models:
  - {{name: asked, group: open, provider: openai, model: m, base_url: {url}, api_key_env: EVOAUDIT_TEST_KEY}}
inference: {{tolerate: 0.9, retries: 1}}
"""

INSPECT = """
import json, sys
from inspect_ai import eval
[log] = eval(sys.argv[1], model="openai/m", model_base_url=sys.argv[2], model_args={"responses_api": False}, log_dir=sys.argv[3],
             display="none", log_level="error", max_connections=8, task_args=json.loads(sys.argv[4]))
assert log.status == "success", log.error
numbers = {name: one.value for score in log.results.scores for name, one in score.metrics.items()}
marks = {sample.id: sample.scores["evogui"].metadata for sample in log.samples}
print(json.dumps({"numbers": numbers, "marks": marks}))
"""


def needs(*modules: str, variable: str = "EVOAUDIT_HARNESSES") -> str:
    """Return the Python that a variable names; skip unless it has these modules."""
    python = os.environ.get(variable, PYTHON)
    done = subprocess.run([python, "-c", f"import {', '.join(modules)}"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{python} has no {' and '.join(modules)}; set {variable} to a Python that has")
    return python


def run(code: str, *words: str, folder: Path, python: str = PYTHON, place: Path | None = None, **more: str) -> str:
    """Run a program in the harnesses' Python, without this package, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH",)}
    environment |= {"OPENAI_API_KEY": "k", "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "HOME": str(folder), **more}
    done = subprocess.run([python, "-c", code, *words], capture_output=True, text=True, env=environment, cwd=place or folder, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], ModelServer]]:
    yield from served(monkeypatch, ModelServer)


def shown(call: Call) -> list[str]:
    """Return every text and picture of a request, in order."""
    parts = []
    for message in call.body["messages"]:
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            parts.append(part["text"] if part["type"] == "text" else part["image_url"]["url"])
    return parts


def looks(data: bytes) -> str:
    """Return a picture's pixels, whoever encoded it, as a hash."""
    with Image.open(io.BytesIO(data)) as picture:
        return hashlib.sha256(repr(picture.size).encode() + picture.convert("RGB").tobytes()).hexdigest()


def answered(texts: list[str], pictures: list[str]) -> tuple[str, str]:
    """Answer by what is shown alone, so that every program that asks the same gets the same: well, badly, oddly, or not at all."""
    asked = "".join(texts)
    roll = hashlib.sha256("".join([asked, *pictures]).encode()).digest()
    if '"order"' in asked:
        k = sum(text.startswith("Screenshot at position") for text in texts)
        order = sorted(range(1, k + 1), key=lambda place: roll[place] if roll[1] % 2 else place)
        answers = [json.dumps({"order": order}), f"```json\n{json.dumps({'order': order})}\n```", f"It is {order}.", '{"order": [1, 1]}']
    elif '"action"' in asked:
        action = ("click", "type", "select")[roll[1] % 3]
        answers = [json.dumps({"action": action, "value": "", "confidence": 0.5}), f"action: {action}", action.upper(), "I cannot say"]
    else:
        label = "AB"[roll[1] % 2]
        answers = [json.dumps({"answer": label, "confidence": 0.7}), f"Candidate {label}", f"not {label}", "A or B"]
    end = {0: "length", 1: "refusal", 2: "filter"}.get(roll[2] % 16, "stop")
    return " " if roll[3] % 16 == 0 else answers[roll[0] % 4], end


def parts(call: Call) -> tuple[list[str], list[str]]:
    """Return the texts of a request, and its pictures by what they look like."""
    everything = shown(call)
    pictures = [looks(base64.b64decode(one.partition(",")[2])) for one in everything if one.startswith("data:")]
    return [one for one in everything if not one.startswith("data:")], pictures


def said(call: Call) -> Reply:
    text, end = answered(*parts(call))
    return good(call.protocol, text, end)


def said_whole(call: Call) -> Reply:
    """Answer without a cut, a filter or a refusal, which some harnesses take for answers."""
    return good(call.protocol, answered(*parts(call))[0], "stop")


def count(folder: Path, config: str, joined: bool = False) -> dict[str, float]:
    """Return the numbers of one configuration by the run's own rules, from what `said_whole` answers to its rows.

    ``joined``: the system message stands before the prompt, in one text, and pictures do not count.
    """
    marks = []
    task = dataset.task_of(config)
    for row in pq.read_table(folder / dataset.file(config)).to_pylist():
        head = [row["system"] + "\n\n" + row["prompt"]] if joined else [row["system"], row["prompt"]]
        pictures = [] if joined else [looks(one["bytes"]) for one in row["images"]]
        text, _ = answered([*head, *row["image_labels"]], pictures)
        probe = {**row, "images": row["image_ids"]}
        vocabulary = tuple(row["options"]) if task == "t2" else None
        given = {"status": "ok" if text.strip() else "empty", "raw": text}
        marks.append(score.score(task, probe, given, **({"vocabulary": vocabulary} if vocabulary else {})))
    there = [mark for mark in marks if mark["status"] != "unanswered"]
    name = "t2_joint" if task == "t2" else task
    found = {name: 100 * sum(mark["correct"] for mark in there) / len(there), "unanswered": len(marks) - len(there)}
    if task == "t2":
        found["t2_action"] = 100 * sum(mark["action_correct"] for mark in there) / len(there)
    if taus := [mark["tau"] for mark in there if mark["tau"] is not None]:
        found["t1_tau"] = sum(taus) / len(taus)
    return found


def test_inspect_asks_the_same_and_gets_the_runs_own_numbers(serve, tmp_path, monkeypatch):
    needs("inspect_ai", "openai", "pyarrow")
    server = serve(said)
    monkeypatch.setenv("EVOAUDIT_TEST_KEY", CANARY)
    config = CONFIG.format(url=server.url("chat"))
    snakemake(tmp_path, "tables", config=config)
    ours = {json.dumps(shown(call)) for call in server.calls}
    snakemake(tmp_path, "export", config=config)
    out = tmp_path / "results" / "runs" / "bench"
    with open(out / "tables" / "evogui_main.csv", encoding="utf-8", newline="") as file:
        (row,) = [row for row in csv.DictReader(file) if row["model"] == "asked"]
    before = len(server.calls)
    task = out / "export" / "harness" / "inspect" / "evogui_bench.py"
    found = json.loads(
        run(INSPECT, f"{task}@evogui_bench", server.url("chat"), str(tmp_path / "logs"), "{}", folder=tmp_path).splitlines()[-1]
    )
    # The very same texts and pictures, byte by byte, in the same order.
    assert {json.dumps(shown(call)) for call in server.calls[before:]} == ours and len(ours) == 56
    numbers = found["numbers"]
    for name, column in (("t1", "t1"), ("t2_action", "t2_top1"), ("t2_joint", "t2_joint"), ("t3", "t3"), ("evogain", "evogain")):
        assert numbers[name] == pytest.approx(float(row[column]), abs=1e-9), name
    assert numbers["unanswered"] == int(row["n_unanswered"]) > 0
    scores = {
        f"{one['task']}/{one['instance_id']}": one
        for path in tmp_path.glob("results/score/*/scores.parquet")
        for one in pq.read_table(path).to_pylist()
    }
    assert scores.keys() == found["marks"].keys()
    for name, mark in found["marks"].items():
        assert [mark[field] for field in ("status", "correct", "parse_path")] == [
            scores[name][field] for field in ("status", "correct", "parse_path")
        ], name
    assert {mark["parse_path"] for mark in found["marks"].values()} == {"json", "fallback", "invalid", "none"}


def test_inspect_asks_a_further_set_and_gets_the_count(serve, tmp_path):
    needs("inspect_ai", "openai", "pyarrow")
    server = serve(said_whole)
    out = export(tmp_path / "e", source(), sets={"phone": source("phone", n=5)}, pictures="unread")
    task = out / "harness" / "inspect" / "evogui_bench.py"
    for name in ("t1", "t2", "t3"):
        words = [f"{task}@evogui_{name}", server.url("chat"), str(tmp_path / "logs"), json.dumps({"probes": "phone"})]
        numbers = json.loads(run(INSPECT, *words, folder=tmp_path).splitlines()[-1])["numbers"]
        assert numbers == pytest.approx(count(out, f"phone_{name}"), abs=1e-9)
    assert len(server.calls) == 15


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    return export(tmp_path_factory.mktemp("export"), source(), pictures="unread", date="2026-01-31")


def test_the_datasets_library_opens_the_folder_and_decodes_the_pictures(exported, tmp_path):
    needs("datasets", "PIL")
    code = """
import sys, datasets
for task, n in (("t1", 3), ("t2", 2), ("t3", 3)):
    rows = datasets.load_dataset(sys.argv[1], task, split="test")
    print(task, len(rows), [picture.size for picture in rows[0]["images"]], rows[0]["license"])
"""
    lines = run(code, str(exported), folder=tmp_path).splitlines()
    assert lines == [f"{task} 2 {[(192, 128)] * n} CC-BY-4.0" for task, n in (("t1", 3), ("t2", 2), ("t3", 3))]


def test_croissant_is_valid_and_reads_the_rows(exported, tmp_path):
    needs("mlcroissant")
    code = """
import sys, mlcroissant
data = mlcroissant.Dataset(sys.argv[1])
print(sorted(data.metadata.ctx.issues.errors), sorted(data.metadata.ctx.issues.warnings))
print([(row["t1/instance_id"].decode(), row["t1/images"][0].size) for row in data.records("t1")])
"""
    lines = run(code, str(exported / "croissant.json"), folder=tmp_path).splitlines()
    assert lines == ["[] []", "[('t1-000', (192, 128)), ('t1-001', (192, 128))]"]


LMMS = """
import importlib.util, json, sys
import datasets, yaml
from pathlib import Path
folder = Path("harness/lmms-eval")
spec = importlib.util.spec_from_file_location("utils", folder / "utils.py")
utils = importlib.util.module_from_spec(spec); spec.loader.exec_module(utils)
class Loader(yaml.SafeLoader): pass
Loader.add_constructor("!function", lambda loader, node: getattr(utils, node.value.removeprefix("utils.")))
told = {}
for task, texts in json.loads(sys.argv[1]).items():
    given = yaml.load((folder / f"evogui_{task}.yaml").read_text(), Loader)
    docs = datasets.load_dataset(given["dataset_path"], **given["dataset_kwargs"])[given["test_split"]]
    system, user = given["doc_to_messages"](docs[0])
    kinds = [part["type"] for part in user["content"]]
    results = [given["process_results"](doc, [text]) for doc, text in zip(docs, texts)]
    numbers = {one["metric"]: one["aggregation"]([result[one["metric"]] for result in results]) for one in given["metric_list"]}
    told[task] = [kinds, numbers, len(given["doc_to_visual"](docs[0]))]
print(json.dumps(told))
"""


def test_the_tasks_of_lmms_eval_ask_in_order_and_score_by_our_rules(exported, tmp_path):
    needs("datasets", "yaml", "PIL")
    texts = {
        "t1": ['{"order": [2, 1, 3]}', "[3, 1, 2]"],
        "t2": ['{"action": "type", "value": "blue kettle 0"}', '{"action": "type", "value": "Blue kettle 1"}'],
        "t3": ["A", "[LMMS_EVAL_REQUEST_FAILED after 1 retries] no route"],
    }
    code = f"import os; os.chdir({str(exported)!r})\n{LMMS}"
    told = json.loads(run(code, json.dumps(texts), folder=tmp_path).splitlines()[-1])
    for task, n in (("t1", 3), ("t2", 2), ("t3", 3)):
        assert told[task][0] == ["text", *["text", "image"] * n] and told[task][2] == n
    # True: 2, 1, 3; the second order is its reverse.
    assert told["t1"][1] == {"t1": 50.0, "t1_tau": 0.0, "unanswered": 0.0}
    assert told["t2"][1] == {"t2_joint": 50.0, "t2_action": 100.0, "unanswered": 0.0}
    assert told["t3"][1] == {"t3": 100.0, "unanswered": 1.0}


RUN_LMMS = """
import runpy, sys
sys.argv = ["lmms_eval", *sys.argv[1:]]
runpy.run_module("lmms_eval", run_name="__main__")
"""


def test_lmms_eval_itself_asks_every_row_and_gets_the_count(serve, tmp_path):
    python = needs("lmms_eval", "openai", variable="EVOAUDIT_LMMS_EVAL")
    server = serve(said_whole)
    out = export(tmp_path / "e", source(n=8), sets={"phone": source("phone", n=3)}, pictures="unread")
    configs = ("t1", "t2", "t3", "phone_t1", "phone_t2", "phone_t3")
    words = ["--include_path", "harness/lmms-eval", "--tasks", ",".join(f"evogui_{name}" for name in configs), "--model", "openai"]
    words += [
        "--model_args",
        f"model=m,base_url={server.url('chat')},max_retries=1",
        "--batch_size",
        "1",
        "--output_path",
        str(tmp_path / "r"),
    ]
    run(RUN_LMMS, *words, folder=tmp_path, python=python, place=out)
    (path,) = tmp_path.glob("r/*/*_results.json")
    found = json.loads(path.read_text())["results"]
    for name in configs:
        ours = count(out, name)
        theirs = {key.partition(",")[0]: value for key, value in found[f"evogui_{name}"].items()}
        assert {key: theirs[key] for key in ours} == pytest.approx(ours, abs=1e-9), name
    # The very words and pictures of the rows.
    asked = {json.dumps(parts(call)) for call in server.calls}
    rows = [row for name in configs for row in pq.read_table(out / dataset.file(name)).to_pylist()]
    wanted = {
        json.dumps(([row["system"], row["prompt"], *row["image_labels"]], [looks(one["bytes"]) for one in row["images"]])) for row in rows
    }
    assert asked == wanted and len(server.calls) == len(rows) == 33


VLM = """
import importlib.util, json, os, sys, types
import pandas as pd
base, smp, package, parts = (types.ModuleType(name) for name in ("vlmeval.dataset.image_base", "vlmeval.smp", "vlmeval", "vlmeval.dataset"))
class ImageBaseDataset:  # what the class uses of VLMEvalKit's own
    def __init__(self, dataset):
        self.dataset_name, self.img_root = dataset, os.path.join(sys.argv[1], "images", dataset)
        self.data = self.load_data(dataset)
base.ImageBaseDataset = ImageBaseDataset
smp.load, smp.dump = pd.read_excel, lambda value, path: open(path, "w").write(json.dumps(value))
smp.load = lambda path: pd.read_csv(path)
sys.modules |= {one.__name__: one for one in (base, smp, package, parts)}
spec = importlib.util.spec_from_file_location("evogui", "harness/vlmevalkit/evogui.py")
module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)
task = module.EvoGUI("EvoGUI_T3")
parts = task.build_prompt(0)
answered = task.data.assign(prediction=["A", "B"])
answered.to_csv(os.path.join(sys.argv[1], "answers.csv"), index=False)
numbers = task.evaluate(os.path.join(sys.argv[1], "answers.csv"))
print(json.dumps([[part["type"] for part in parts], [os.path.exists(p["value"]) for p in parts if p["type"] == "image"], numbers]))
"""


def test_the_class_for_vlmevalkit_asks_in_order_and_scores_by_our_rules(exported, tmp_path):
    needs("pandas", "pyarrow")
    code = f"import os; os.chdir({str(exported)!r}); os.environ['EVOGUI_BENCH'] = {str(exported)!r}\n{VLM}"
    kinds, there, numbers = json.loads(run(code, str(tmp_path), folder=tmp_path).splitlines()[-1])
    assert kinds == ["text", *["text", "image"] * 3] and there == [True] * 3
    assert numbers == {"t3": 50.0, "unanswered": 0.0}


VLM_ITSELF = """
import importlib.machinery, importlib.util, json, os, sys
from unittest.mock import MagicMock
class Standin:  # for packages that the modules of other data sets and local models import, and nothing of what runs here
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torchvision", "transformers", "qwen_vl_utils", "accelerate", "sentence_transformers"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec):
        module = MagicMock(); module.__path__, module.__spec__ = [], spec
        return module
    def exec_module(self, module): pass
sys.meta_path.insert(0, Standin())
from vlmeval.api import GPT4V
from vlmeval.smp import dump
spec = importlib.util.spec_from_file_location("vlmeval.dataset.evogui", "harness/vlmevalkit/evogui.py")
module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)
model = GPT4V(model="m", key="k", api_base=sys.argv[1], retry=1, wait=1, verbose=False)
told = {}
for name in sys.argv[3:]:
    task = module.EvoGUI(name)
    said = [model.generate(task.build_prompt(place), dataset=name) for place in range(len(task.data))]
    path = os.path.join(sys.argv[2], name + ".xlsx")
    dump(task.data.assign(prediction=said), path)
    told[name] = task.evaluate(path)
print(json.dumps(told))
"""


def test_vlmevalkit_itself_asks_every_row_and_gets_the_count(serve, tmp_path):
    python = needs("importlib.metadata as m; m.version('ms-vlmeval')", variable="EVOAUDIT_VLMEVAL")

    def answer(call: Call) -> Reply:
        # Pictures are sent as JPEG: what is said hangs on the words alone.
        return good(call.protocol, answered(parts(call)[0], [])[0], "stop")

    server = serve(answer)
    out = export(tmp_path / "e", source(n=8), sets={"phone": source("phone", n=3)}, pictures="unread")
    names = {"EvoGUI_T1": "t1", "EvoGUI_T2": "t2", "EvoGUI_T3": "t3", "EvoGUI_phone_T2": "phone_t2"}
    words = [server.url("chat") + "/chat/completions", str(tmp_path), *names]
    given = {"EVOGUI_BENCH": str(out), "LMUData": str(tmp_path / "lmu")}
    told = json.loads(run(VLM_ITSELF, *words, folder=tmp_path, python=python, place=out, **given).splitlines()[-1])
    for name, config in names.items():
        ours = count(out, config, joined=True)
        assert {key: told[name][key] for key in ours} == pytest.approx(ours, abs=1e-9), name
    assert len(server.calls) == 8 * 3 + 3
    assert all(len(parts(call)[1]) == len(parts(call)[0]) - 1 for call in server.calls)


VALIDATE = """
import json, pathlib, sys
import rocrate
from rocrate_validator import models, services
from rocrate_validator.utils import http
import rdflib.plugins.parsers.jsonld, rdflib.plugins.shared.jsonld.context, rdflib.plugins.shared.jsonld.util as util

# The context every crate names, as it lies in the package of RO-Crate's own library: nothing is fetched.
held = json.loads((pathlib.Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld").read_text())["@context"]
context = {"@context": held if isinstance(held, dict) else next(one for one in held if isinstance(one, dict))}
class Reply:
    status_code, ok, from_cache, links, url = 200, True, True, {}, "https://w3id.org/ro/crate/1.1/context"
    headers, text, content = {"Content-Type": "application/ld+json"}, json.dumps(context), json.dumps(context).encode()
    json, raise_for_status = lambda self: context, lambda self: None
before = http.HttpRequester.__getattr__
def asked(self, name):
    if name.upper() in ("GET", "HEAD"):
        return lambda url, *a, **k: Reply() if "w3id.org/ro/crate" in url else before(self, name)(url, *a, **k)
    return before(self, name)
http.HttpRequester.__getattr__ = asked
http.HttpRequester.has_cached, http.HttpRequester.fetch_fresh = lambda self, url: True, lambda self, url, **k: Reply()
read = util.source_to_json
for module in (util, rdflib.plugins.shared.jsonld.context, rdflib.plugins.parsers.jsonld):
    module.source_to_json = lambda source, *a, **k: (context, None) if "w3id.org/ro/crate" in str(source) else read(source, *a, **k)
for profile in ("ro-crate-1.1", "process-run-crate-0.5"):
    settings = services.ValidationSettings(
        rocrate_uri=sys.argv[1], profile_identifier=profile, requirement_severity=models.Severity.REQUIRED, offline=True
    )
    found = services.validate(settings)
    print(json.dumps([profile, found.passed(), [issue.message for issue in found.get_issues()]]))
"""


@pytest.mark.parametrize("title", ["EvoGUI-Bench", 'Ада "x": <b> \' #'])
def test_the_crate_and_the_citation_are_valid_by_other_peoples_validators(tmp_path, title):
    python = needs("rocrate_validator", "rocrate", "cffconvert", variable="EVOAUDIT_VALIDATORS")
    out = export(tmp_path, source(), pictures="unread", date="2026-01-31", title=title)
    told = [json.loads(line) for line in run(VALIDATE, str(out), folder=tmp_path, python=python).splitlines()]
    assert told == [["ro-crate-1.1", True, []], ["process-run-crate-0.5", True, []]]
    for place in (out, ROOT):
        code = "import sys; from cffconvert.cli.cli import cli; cli(['--validate', '-i', sys.argv[1]])"
        assert "valid according to schema" in run(code, str(place / "CITATION.cff"), folder=tmp_path, python=python)
