"""EvoGUI-Bench for VLMEvalKit: a data set class for each task.

Put this file and evogui_scorer.py into `vlmeval/dataset/`, add its classes to the list of image data sets in `vlmeval/dataset/__init__.py`,
and set EVOGUI_BENCH to the data set's folder. Data sets: EvoGUI_T1, EvoGUI_T2, EvoGUI_T3, and EvoGUI_<set>_T1 … of further sets.
"""

import json
import os
import os.path as osp
import sys
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow.parquet as pq
from vlmeval.dataset.image_base import ImageBaseDataset
from vlmeval.smp import dump, load

sys.path.insert(0, str(Path(__file__).resolve().parent))
import evogui_scorer

#: What VLMEvalKit writes in place of an answer that did not come.
NO_ANSWER = "Failed to obtain answer via API."
CONFIGS = ["t1", "t2", "t3"]
#: Data set → its configuration.
TASKS = {"_".join(["EvoGUI", *config.split("_")[:-1], config.split("_")[-1].upper()]): config for config in CONFIGS}


class EvoGUI(ImageBaseDataset):
    """One task; pictures lie as files in VLMEvalKit's own folder."""

    TYPE = "VQA"
    DATASET_URL: ClassVar[dict[str, str]] = dict.fromkeys(TASKS, "")
    DATASET_MD5: ClassVar[dict[str, str]] = dict.fromkeys(TASKS, "")

    def load_data(self, dataset: str) -> pd.DataFrame:
        """Read the task's rows, and write its pictures."""
        os.makedirs(self.img_root, exist_ok=True)
        path = Path(os.environ["EVOGUI_BENCH"]) / "data" / TASKS[dataset] / "test.parquet"
        rows: list[dict[str, Any]] = []
        for batch in pq.ParquetFile(path).iter_batches(batch_size=32):
            for row in batch.to_pylist():
                paths = []
                for picture in row.pop("images"):
                    place = osp.join(self.img_root, picture["path"])
                    if not osp.exists(place):
                        Path(place).write_bytes(picture["bytes"])
                    paths.append(place)
                facts = {name: row[name] for name in ("answer", "answer_action", "answer_value", "options") if name in row}
                rows.append(
                    {
                        "index": row["instance_id"],
                        "question": row["prompt"],
                        "system": row["system"],
                        "image_path": paths,
                        "labels": json.dumps(row["image_labels"]),
                        "slice": row["slice"],
                        "answer": json.dumps(facts),
                    }
                )
        return pd.DataFrame(rows)

    def build_prompt(self, line: Any) -> list[dict[str, str]]:
        """Return the prompt as the benchmark asks it: each picture after its label."""
        if isinstance(line, int):
            line = self.data.iloc[line]
        paths = line["image_path"] if isinstance(line["image_path"], list) else [line["image_path"]]
        parts = [{"type": "text", "value": "\n\n".join(text for text in (line["system"], line["question"]) if text)}]
        for label, path in zip(json.loads(line["labels"]), paths, strict=True):
            parts += [{"type": "text", "value": label}, {"type": "image", "value": path}]
        return parts

    def evaluate(self, eval_file: str, **judge_kwargs: Any) -> dict[str, float]:
        """Score the answers in VLMEvalKit's file; where its column `prediction` is empty, or says that none came, there is none."""
        task = TASKS[self.dataset_name].split("_")[-1]
        marks = []
        for row in load(eval_file).to_dict("records"):
            text = row.get("prediction")
            said = isinstance(text, str) and NO_ANSWER not in text
            marks.append(evogui_scorer.mark(task, json.loads(row["answer"]), text if said else None))
        numbers = evogui_scorer.summary(marks, {})
        dump(numbers, osp.splitext(eval_file)[0] + "_score.json")
        return numbers
