"""The benchmark as tasks of other people's harnesses, with the run's own rules of parsing and scoring beside each."""

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
_METRICS = {"t1": ("t1", "t1_tau"), "t2": ("t2_joint", "t2_action"), "t3": ("t3",)}


def write(folder: Path, tasks: tuple[str, ...], settings: dict[str, Any]) -> None:
    """Write ``harness/``, one folder a harness."""
    rules = scorer.text()
    for name, (template, file) in _FILES.items():
        place = folder / "harness" / name
        place.mkdir(parents=True)
        (place / file).write_text((_TEMPLATES / template).read_text(encoding="utf-8"), encoding="utf-8")
        (place / scorer.NAME).write_text(rules, encoding="utf-8")
    for task in tasks:
        (folder / "harness" / "lmms-eval" / f"evogui_{task}.yaml").write_text(_lmms_eval(task, settings["version"]), encoding="utf-8")


def _lmms_eval(task: str, version: str) -> str:
    """Return a task of lmms-eval; its paths are relative to the data set's folder, from which it is run."""
    metrics = "".join(
        f"  - {{metric: {name}, aggregation: !function utils.mean_{name}, higher_is_better: true}}\n" for name in _METRICS[task]
    )
    return f"""# Run from the data set's folder: python -m lmms_eval --include_path harness/lmms-eval --tasks evogui_{task} …
task: evogui_{task}
dataset_path: parquet
dataset_kwargs:
  data_files: {{{dataset.SPLIT}: {dataset.file(task)}}}
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
