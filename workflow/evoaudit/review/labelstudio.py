"""Label Studio: a page's trajectories as its tasks, the codebook as its labelling interface, and its exports as label rows."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from evoaudit import codebook
from evoaudit.codebook import Codebook
from evoaudit.errors import InputError, one_line
from evoaudit.givenfile import read_given
from evoaudit.labels import FIELDS
from evoaudit.review.scripts import data_of

MOST = 256 * 2**20
#: Stars of the rating → confidence.
SURE = {1: 0.33, 2: 0.67, 3: 1.0}

_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
_PAGE = "give the folder of a page that `evoaudit review build` wrote"


def export(page: Path, folder: Path, pictures: str | None = None) -> int:
    """Write ``tasks.json`` and ``config.xml`` of a page into ``folder`` and return the number of tasks."""
    prefix = f"/data/local-files/?d={page.resolve().name}/" if pictures is None else pictures
    data = _page_data(page)
    tasks = [_task(page, data, item, prefix) for item in data["items"]]
    (folder / "tasks.json").write_text(json.dumps(tasks, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "config.xml").write_text(interface(codebook.load()), encoding="utf-8")
    return len(tasks)


def _page_data(page: Path) -> dict[str, Any]:
    found = _DATA.search(_text(page / "index.html"))
    data = _json(found[1], page / "index.html") if found else {}
    if not isinstance(data, dict) or not str(data.get("set", "")).startswith("replay-"):
        raise InputError(page, "holds no review page", _PAGE)
    if data["codebook"] != codebook.load().identity:
        raise InputError(page, f"was written with codebook {data['codebook']}", "build the page again")
    return data


def _text(path: Path) -> str:
    return read_given(path, MOST, _PAGE).decode("utf-8", "replace")


def _json(text: str, where: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(where, "is damaged", "build the page again") from None


def _script(page: Path, name: str) -> Any:
    """Return what a data file of a page delivers."""
    path = page / "items" / f"{name}.js"
    try:
        return data_of(_text(path), name)
    except (ValueError, RecursionError):
        raise InputError(path, "is damaged", "build the page again") from None


def _task(page: Path, data: dict[str, Any], item: dict[str, Any], prefix: str) -> dict[str, Any]:
    head = _script(page, item["id"])
    steps = [step for number in range(len(head["parts"])) for step in _script(page, f"{item['id']}-{number}")]
    shown, said = [], []
    last = None
    for number, (step, (before, after, _)) in enumerate(zip(steps, head["steps"], strict=True)):
        shown += [f"{prefix}{head['pictures'][k]['src']}" for k in dict.fromkeys((before, after)) if k >= 0 and k != last]
        last = after if after >= 0 else before
        words = [f"{step['op']} {step.get('value', '')}".strip(), *(f"on {step['target']}" for _ in step.get("target", "")[:1])]
        words += [f"{name}: {step[name]}" for name in ("error", "reasoning", "url") if step.get(name)]
        said.append({"step": f"step {number}", "text": "\n".join(words)})
    task = f"Goal: {head['goal'] or 'none logged'}\nAnswer: {head['answer'] or 'none was given'}"
    return {
        "data": {
            "item": item["id"],
            "annotator": data["annotator"],
            "stage": data["stage"],
            "codebook": data["codebook"],
            "simulated": item["simulated"],
            "practice": item["practice"],
            "task": task,
            "screens": shown,
            "steps": said,
        }
    }


def interface(book: Codebook) -> str:
    """Return the labelling interface for a codebook."""
    view = ElementTree.Element("View")

    def add(parent: ElementTree.Element, tag: str, **attributes: str) -> ElementTree.Element:
        return ElementTree.SubElement(parent, tag, attributes)

    add(view, "Text", name="task", value="$task")
    add(view, "Image", name="screens", valueList="$screens", zoom="true", zoomControl="true")
    add(view, "Paragraphs", name="steps", value="$steps", layout="dialogue", nameKey="step", textKey="text")
    add(view, "Header", value=book.stage_1.question)
    verdict = add(view, "Choices", name="verdict", toName="task", choice="single", required="true")
    for number, code in enumerate(book.stage_1.codes, 1):
        add(verdict, "Choice", value=code.code, html=_label(code.name, code.code), hint=code.definition, hotkey=str(number))
    add(view, "Header", value=book.stage_2.question)
    shown_for = {"visibleWhen": "choice-selected", "whenTagName": "verdict", "whenChoiceValue": "gf"}
    category = add(view, "Choices", name="category", toName="task", choice="single", **shown_for)
    for code in book.stage_2.codes:
        add(category, "Choice", value=code.code, html=_label(code.name, code.code), hint=code.definition)
    add(view, "Header", value="Steps that show it, counted from 0")
    add(view, "TextArea", name="evidence_steps", toName="task", maxSubmissions="1", placeholder="3 4")
    add(view, "Header", value="How sure: hardly, fairly, quite")
    add(view, "Rating", name="confidence", toName="task", maxRating="3")
    add(view, "Header", value="Note")
    add(view, "TextArea", name="note", toName="task", maxSubmissions="1", rows="2")
    ElementTree.indent(view)
    return f"<!-- codebook {book.identity} -->\n" + ElementTree.tostring(view, encoding="unicode") + "\n"


def _label(name: str, code: str) -> str:
    return f"{name} <code>{code}</code>"


def read(path: Path, completed_by: str | None = None) -> tuple[list[dict], Counter[str]]:
    """Read a JSON export; return label rows with the items' neutral ids, and how many tasks gave none, by reason."""
    raw = read_given(path, MOST, "give a JSON export of Label Studio")
    try:
        tasks = json.loads(raw)
    except (ValueError, RecursionError):
        raise InputError(path, "is not JSON", "export the project as JSON") from None
    if not isinstance(tasks, list):
        raise InputError(path, "is no list of tasks", "export the project as JSON, not as JSON-MIN or CSV")
    rows, left = [], Counter[str]()
    for number, task in enumerate(tasks, 1):
        where = f"{path}: task {number}"
        data = task.get("data") if isinstance(task, dict) else None
        if not isinstance(data, dict) or not all(isinstance(data.get(name), str) for name in ("item", "annotator", "stage", "codebook")):
            raise InputError(where, "is none of a review page", "import tasks.json of `evoaudit review export-ls` as it is")
        given = list(_annotations(task, completed_by, where))
        sound = [one for one in given if not one.get("was_cancelled")]
        if len(sound) > 1:
            people = ", ".join(sorted({_who(one) for one in sound}))
            raise InputError(where, f"has {len(sound)} annotations, by {people}", "give --completed-by, or each group its own project")
        if not sound:
            left["skipped" if given else "without an annotation"] += 1
            continue
        rows.append(_row(data, sound[0], where))
    return rows, left


def _annotations(task: dict[str, Any], completed_by: str | None, where: str) -> Iterator[dict]:
    given = task.get("annotations", [])
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise InputError(where, "annotations are no list", "export the project as JSON")
    for one in given:
        if completed_by is None or completed_by in _names(one):
            yield one


def _names(annotation: dict[str, Any]) -> list[str]:
    who = annotation.get("completed_by")
    return [str(who.get(name)) for name in ("id", "email") if who.get(name) is not None] if isinstance(who, dict) else [str(who)]


def _who(annotation: dict[str, Any]) -> str:
    return one_line((_names(annotation) or ["somebody"])[-1], 80)


def _row(data: dict[str, Any], annotation: dict[str, Any], where: str) -> dict[str, Any]:
    """Return an annotation as a label row; what is wrong with a code or step is for `evoaudit review check` to say."""
    found: dict[str, Any] = {}
    results = annotation.get("result")
    for result in results if isinstance(results, list) else []:
        value = result.get("value") if isinstance(result, dict) else None
        if isinstance(value, dict) and result.get("from_name") in ("verdict", "category", "evidence_steps", "confidence", "note"):
            found[result["from_name"]] = _one(next((value[name] for name in ("choices", "text", "rating") if name in value), None))
    steps = found.get("evidence_steps")
    numbers = re.findall(r"\d+", steps) if isinstance(steps, str) else []
    if isinstance(steps, str) and (re.sub(r"[\d\s,;]", "", steps) or max(map(len, numbers), default=0) > 9):
        raise InputError(where, f"evidence_steps: '{one_line(steps, 60)}'", "write numbers with spaces between them, counted from 0")
    sure = found.get("confidence")
    if sure is not None and (not isinstance(sure, int) or sure not in SURE):
        raise InputError(where, f"confidence: {one_line(str(sure), 60)}", "one to three stars")
    seconds = annotation.get("lead_time")
    return {
        **dict.fromkeys(FIELDS),
        "trajectory_id": data["item"],
        "annotator": data["annotator"],
        "kind": "human",
        "stage": data["stage"],
        "verdict": found.get("verdict"),
        "category": found.get("category") if found.get("verdict") == "gf" else None,
        "evidence_steps": sorted({int(number) for number in numbers}) or None,
        "confidence": SURE.get(sure),
        "seconds": round(seconds, 1) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None,
        "note": found.get("note"),
        "codebook_version": data["codebook"],
        "practice": data.get("practice") is True,
    }


def _one(value: Any) -> Any:
    """Return the value of a control, whether it comes alone or in a list."""
    if isinstance(value, list):
        return "\n".join(str(part) for part in value) if value else None
    return value
