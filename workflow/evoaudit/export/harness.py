"""The benchmark as tasks of other people's harnesses, with the run's own rules of parsing and scoring beside each."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evoaudit.export import dataset, scorer

_TEMPLATES = Path(__file__).parent / "templates"
#: Harness → template and the name its file has there.
_FILES = {
    "inspect": ("inspect_ai.py", "evogui_bench.py"),
    "lmms-eval": ("lmms_eval.py", "utils.py"),
    "vlmevalkit": ("vlmevalkit.py", "evogui.py"),
}
#: Line of a template that says which configurations there are.
_CONFIGS = 'CONFIGS = ["t1", "t2", "t3"]\n'
_METRICS = {"t1": ("t1", "t1_tau"), "t2": ("t2_joint", "t2_action"), "t3": ("t3",)}


def write(folder: Path, configs: Sequence[str], settings: dict[str, Any]) -> None:
    """Write ``harness/``, one folder a harness, for some configurations of the data set."""
    rules = scorer.text()
    for name, (template, file) in _FILES.items():
        place = folder / "harness" / name
        place.mkdir(parents=True)
        text = (_TEMPLATES / template).read_text(encoding="utf-8")
        (place / file).write_text(text.replace(_CONFIGS, f"CONFIGS = {json.dumps(list(configs))}\n"), encoding="utf-8")
        (place / scorer.NAME).write_text(rules, encoding="utf-8")
    for config in configs:
        text = _lmms_eval(config, settings["version"])
        (folder / "harness" / "lmms-eval" / f"evogui_{config}.yaml").write_text(text, encoding="utf-8")


def _lmms_eval(config: str, version: str) -> str:
    """Return a task of lmms-eval; its paths are relative to the data set's folder, from which it is run."""
    task = dataset.task_of(config)
    metrics = "".join(
        f"  - {{metric: {name}, aggregation: !function utils.mean_{name}, higher_is_better: true}}\n" for name in _METRICS[task]
    )
    return f"""# Run from the data set's folder: python -m lmms_eval --include_path harness/lmms-eval --tasks evogui_{config} …
task: evogui_{config}
dataset_path: parquet
dataset_kwargs:
  data_files: {{{dataset.SPLIT}: {dataset.file(config)}}}
test_split: {dataset.SPLIT}
output_type: generate_until
doc_to_messages: !function utils.doc_to_messages
doc_to_visual: !function utils.doc_to_visual
doc_to_text: !function utils.doc_to_text
doc_to_target: !function utils.doc_to_target
process_results: !function utils.results_{task}
generation_kwargs: {{max_new_tokens: 4096, temperature: 0, do_sample: false}}
metric_list:
{metrics}  - {{metric: unanswered, aggregation: !function utils.sum_unanswered, higher_is_better: false}}
metadata: {{version: {version}}}
"""
