"""The instance browser: every item with its pictures, its prompt and every model's answer, in a folder that opens from a file.

The page loads an index of all items at first, and scripts with the details of some fifty items each as they are wanted: a page
that is opened from a file cannot read other files. Texts travel as JSON inside one string, and only ever become text nodes.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from evoaudit import prompts, store
from evoaudit.conditions import CONDITIONS, TASKS
from evoaudit.fingerprint import fingerprint
from evoaudit.infer.base import Request, prompt_digest
from evoaudit.jsonfile import read_json
from evoaudit.places import ITEMS, trajectory_page
from evoaudit.probes.vocabulary import vocabulary_of
from evoaudit.report import inline, questions
from evoaudit.report.answers import NOT_ASKED, Asking, Said, Scores, names_of
from evoaudit.report.site import pages
from evoaudit.report.slugs import slugs
from evoaudit.report.words import plain
from evoaudit.review.scripts import FILES, data_script
from evoaudit.review.shared import IMAGES, TRUSTED, line, lines
from evoaudit.streams import rank

TEMPLATE = Path(__file__).parent / "templates" / "items.html.j2"
#: Items, and characters of them, in one file of details.
PART, PART_TEXT = 50, 500_000
#: Longest texts shown, characters: goals, raw answers, everything else.
GOAL, RAW, SHORT = 20_000, 8_000, 400
#: Characters of all goals that the index holds, for the search; each is cut to its share where they are more.
SEARCHED = 500_000
#: Why pictures are not taken along: beyond `report.max_pictures_mb`, never prepared, or no pictures.
REASONS = ("over_max_pictures_mb", "not_prepared", "not_an_image")
#: Pictures read at a time.
SOME = 16
_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpg"}


@dataclass(frozen=True)
class ItemSet:
    """The folders of one set of probes; the paper's set has no name."""

    name: str
    mined: Path
    images: Path | None = None
    scores: Path | None = None
    predictions: tuple[Path, ...] = ()


@dataclass
class _Set:
    """One set with its items, sorted as their answers are."""

    folders: ItemSet
    items: list[dict[str, Any]]
    scores: Scores
    said: Said
    prompts: "_Prompts"
    #: Models that are made up.
    made_up: set[str]

    @cached_property
    def by_id(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {(item["task"], item["instance_id"]): item for item in self.items}


@dataclass(frozen=True)
class _Shot:
    """A picture as the models saw it: its file's name, None where there is none and why, and its size in pixels."""

    file: str | None
    width: int
    height: int
    why: str = ""


def build(
    folder: Path,
    sets: Sequence[ItemSet],
    stats: Path,
    *,
    name: str,
    seed: int,
    prompt_folder: Path | None = None,
    max_pictures_mb: int | None = None,
) -> Counter[str]:
    """Write the browser into the report's folder, after its other pages; return counts of items and pictures.

    ``max_pictures_mb`` bounds the pictures taken along. Counts are ``items``, ``pictures``, and the `REASONS` for those left out.
    """
    under = (folder / ITEMS).parent
    (under / "data").mkdir(parents=True, exist_ok=True)
    made = [_read(one, prompt_folder) for one in sets]
    counts = Counter(items=sum(len(one.items) for one in made))
    shots, taken = _pictures(under, made, seed, max_pictures_mb, counts)
    models = _models(made, stats)
    groups = _groups(made)
    parts = _Parts(under, folder, {model["name"]: place for place, model in enumerate(models)}, groups, shots)
    for one in made:
        parts.write(one)
    index = {
        **_index(made),
        "parts": parts.starts,
        "models": [_told(model, folder) for model in models],
        "groups": [_group(group, made, models) for group in groups],
        "pictures": {"side": _side(sets), "with": taken, "mb": max_pictures_mb, "lost": counts["not_prepared"] + counts["not_an_image"]},
    }
    _deliver(under, "index", index)
    for place, group in enumerate(groups):
        _deliver(under, f"scores-{place}", _outcomes(group, made, models))
    page = inline.render(
        TEMPLATE,
        {"name": plain(name, 80), "n": counts["items"], "simulated": _simulated(made), "site_pages": pages(items=True), "here": ITEMS},
        style="items.css",
        script=(FILES, "items.js"),
        images=IMAGES,
        scripts="'self' file:",
        more=TRUSTED.format("evoaudit"),
    )
    (under / "index.html").write_text(page, encoding="utf-8", newline="\n")
    return counts


def _read(folders: ItemSet, prompt_folder: Path | None) -> _Set:
    items = []
    for task in TASKS:
        rows = store.read_rows(folders.mined, task)
        items += [{"task": task, **row} for row in sorted(rows, key=lambda row: row["instance_id"])]
    names = names_of(items)
    manifests = [folder / "manifest.json" for folder in folders.predictions]
    configs = [read_json(path).get("config") or {} for path in manifests if path.is_file()]
    made_up = {config["name"] for config in configs if (config.get("provider"), config.get("model")) == ("builtin", "simulated")}
    scores, said = Scores(folders.scores, names), Said(folders.predictions, names)
    return _Set(folders, items, scores, said, _Prompts(folders.mined, configs, prompt_folder), made_up)


def _deliver(under: Path, name: str, value: Any) -> None:
    """Write a file of data."""
    (under / "data" / f"{name}.js").write_text(data_script(name, value), encoding="utf-8", newline="\n")


def _simulated(sets: Sequence[_Set]) -> int:
    return sum(item["simulated"] for one in sets for item in one.items)


def _pool(values: Iterable[Any]) -> tuple[list[Any], list[int]]:
    """Return the distinct values, in order of their first place, and where each value stands among them; None is -1."""
    known: dict[Any, int] = {}
    places = [-1 if value is None else known.setdefault(value, len(known)) for value in values]
    return list(known), places


def _index(sets: Sequence[_Set]) -> dict[str, Any]:
    """Return the columns of all items."""
    items = [item for one in sets for item in one.items]
    found: dict[str, Any] = {
        "ids": [item["instance_id"] for item in items],
        "tasks": "".join(item["task"][1] for item in items),
        "simulated": "".join(str(int(item["simulated"])) for item in items),
        "sets": [one.folders.name for one in sets],
        "set": [place for place, one in enumerate(sets) for _ in one.items] if len(sets) > 1 else [],
    }
    columns: dict[str, Iterable[str | None]] = {
        "kind": (item["slice"] for item in items),
        "domain": (item["domain"] for item in items),
        "source": (item["source"] for item in items),
    }
    for name, values in columns.items():
        words, found[name] = _pool(value and plain(value, 80) for value in values)
        found[f"{name}s"] = words
    goals, found["goal"] = _pool(item["goal"] for item in items)
    share = SEARCHED // max(1, len(goals))
    limit = GOAL if sum(map(len, goals)) <= SEARCHED else share
    found["goals"] = [plain(goal[: limit + 1], limit) for goal in goals]
    found["cut"] = limit if any(len(goal) > limit for goal in goals) else 0
    return found


def _models(sets: Sequence[_Set], stats: Path) -> list[dict[str, Any]]:
    """Return every model that was asked, with its slug and whether it is a solver that understands nothing."""
    manifest = stats / "manifest.json"
    config = (read_json(manifest).get("config") or {}) if manifest.is_file() else {}
    groups = {one["name"]: one.get("group") for one in config.get("models") or ()}
    names = {asking.model for one in sets for asking in one.scores.askings}
    short = slugs(names)
    made_up = {name for one in sets for name in one.made_up}
    return [
        {"name": name, "slug": short[name], "baseline": groups.get(name) == "baseline", "simulated": name in made_up}
        for name in sorted(names, key=lambda name: (name.casefold(), name))
    ]


def _told(model: dict[str, Any], folder: Path) -> dict[str, Any]:
    page = f"models/{model['slug']}.html"
    found = {**model, "name": plain(model["name"], 80)}
    return found | ({"page": f"../{page}"} if (folder / page).is_file() else {})


def _groups(sets: Sequence[_Set]) -> list[tuple[str, int]]:
    """Return every (condition, picture size) that was asked: conditions in their order, then the size most models were asked at first."""
    askings = sorted({asking for one in sets for asking in one.scores.askings})
    models = Counter(group for group, _ in {(asking.group, asking.model) for asking in askings})
    places = {asking.group: asking.place for asking in askings}
    return sorted(places, key=lambda group: (places[group], group[0], -models[group], group[1]))


def _group(group: tuple[str, int], sets: Sequence[_Set], models: Sequence[dict[str, Any]]) -> dict[str, Any]:
    condition, side = group
    known = CONDITIONS.get(condition)
    asked = {asking.model for one in sets for asking in one.scores.askings if asking.group == group}
    return {
        "condition": plain(condition, 40),
        "label": known.label if known else plain(condition, 40),
        "shows": known.shows if known else "",
        "pictures": known.pictures if known else "own",
        "side": side,
        "models": [place for place, model in enumerate(models) if model["name"] in asked],
    }


def _outcomes(group: tuple[str, int], sets: Sequence[_Set], models: Sequence[dict[str, Any]]) -> list[str]:
    """Return a character an item for each model of a group, of its first replicate."""
    found = []
    for model in models:
        text, asked = "", False
        for one in sets:
            tried = [asking for asking in one.scores.askings if asking.group == group and asking.model == model["name"]]
            text += "".join(one.scores.outcomes[tried[0]]) if tried else NOT_ASKED * len(one.items)
            asked |= bool(tried)
        if asked:
            found.append(text)
    return found


def _pictures(
    under: Path, sets: Sequence[_Set], seed: int, bound: int | None, counts: Counter[str]
) -> tuple[dict[tuple[int, str], _Shot], int]:
    """Write the pictures as the models saw them, each once; return them by set and image_id, and how many items have theirs."""
    (under / "pictures").mkdir(exist_ok=True)
    chosen = _chosen(sets, seed, bound)
    shots: dict[tuple[int, str], _Shot] = {}
    written: set[str] = set()
    for place, one in enumerate(sets):
        wanted = {image for item in one.items for image in item["images"]}
        bounded = wanted - {image for item in one.items if (place, item["instance_id"]) in chosen for image in item["images"]}
        shots |= {(place, image): _Shot(None, 0, 0, REASONS[0]) for image in bounded}
        for image, width, height, data in _prepared(one.folders.images, wanted - bounded):
            shots[place, image] = _write(under, written, data, width, height)
        for image in wanted:
            shots.setdefault((place, image), _Shot(None, 0, 0, REASONS[1]))
    counts["pictures"] = len(written)
    counts.update(shot.why for shot in shots.values() if shot.file is None)
    return shots, len(chosen)


def _write(under: Path, written: set[str], data: bytes, width: int, height: int) -> _Shot:
    end = next((end for start, end in _SIGNATURES.items() if data.startswith(start)), None)
    if end is None:
        return _Shot(None, width, height, REASONS[2])
    file = f"{hashlib.sha256(data).hexdigest()}.{end}"
    if file not in written:
        written.add(file)
        (under / "pictures" / file).write_bytes(data)
    return _Shot(file, width, height)


def _chosen(sets: Sequence[_Set], seed: int, bound: int | None) -> set[tuple[int, str]]:
    """Return the items whose pictures are taken along: all, or as many as fit within ``bound`` MB, drawn."""
    every = [(place, item) for place, one in enumerate(sets) for item in one.items]
    if bound is None:
        return {(place, item["instance_id"]) for place, item in every}
    sizes = [_sizes(one.folders.images) for one in sets]
    every.sort(key=lambda pair: (rank(seed, "report-pictures", pair[0], pair[1]["instance_id"]), pair[0], pair[1]["instance_id"]))
    taken: set[tuple[int, str]] = set()
    seen: set[tuple[int, str]] = set()
    total = 0
    for place, item in every:
        new = {(place, image) for image in item["images"]} - seen
        total += sum(sizes[place].get(image, 0) for _, image in new)
        if total > bound * 1_000_000:
            break
        seen |= new
        taken.add((place, item["instance_id"]))
    return taken


def _side(sets: Sequence[ItemSet]) -> int | None:
    """Return the longest side the pictures were prepared for."""
    for one in sets:
        if one.images is not None:
            with pq.ParquetFile(store.table_file(one.images, "prepared"), pre_buffer=False) as file:
                for batch in file.iter_batches(batch_size=1, columns=["max_image_side"]):
                    return batch["max_image_side"][0].as_py()
    return None


def _sizes(folder: Path | None) -> dict[str, int]:
    """Return image_id → bytes of the prepared pictures."""
    if folder is None:
        return {}
    found = {}
    with pq.ParquetFile(store.table_file(folder, "prepared"), pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=SOME, columns=["image_id", "data"], use_threads=False):
            found.update(zip(batch["image_id"].to_pylist(), pc.binary_length(batch["data"]).to_pylist(), strict=True))
    return found


def _prepared(folder: Path | None, wanted: set[str]) -> Iterable[tuple[str, int, int, bytes]]:
    """Yield image_id, width, height and encoded bytes of the wanted pictures, a few in memory at a time."""
    if folder is None or not wanted:
        return
    columns = ["image_id", "width", "height", "data"]
    with pq.ParquetFile(store.table_file(folder, "prepared"), pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=SOME, columns=columns, use_threads=False):
            for image, *size, data in zip(*(batch[name] for name in columns), strict=True):
                if image.as_py() in wanted:
                    yield image.as_py(), size[0].as_py(), size[1].as_py(), data.as_py()


class _Prompts:
    """The texts that asked the items of one set, made again from the run's prompt files."""

    def __init__(self, mined: Path, configs: Iterable[Mapping[str, Any]], prompt_folder: Path | None) -> None:
        asked = {(config.get("prompts"), config.get("goal", "shown")) for config in configs}
        self.vocabulary = vocabulary_of(mined)
        self._set: prompts.PromptSet | None = None
        self._goal: Any = "shown"
        if prompt_folder is not None and len(asked) == 1:
            (digest, self._goal) = asked.pop()
            self._set = prompts.load(prompt_folder) if digest in (None, fingerprint(prompt_folder)) else None

    def messages(self, item: Mapping[str, Any], condition: str, donor: Mapping[str, Any] | None) -> tuple[prompts.Message, ...] | None:
        """Return what asked an item under a condition, None where that is not known any more."""
        known = CONDITIONS.get(condition)
        if self._set is None or known is None or item["task"] not in known.tasks or (donor is None) != (known.pictures != "other"):
            return None
        shown: dict[str, Any] = {"condition": condition, "goal": self._goal, "donor": donor, "vocabulary": self.vocabulary}
        return prompts.render(self._set[item["task"]], item, **shown)


@dataclass
class _Part:
    """Details of some items, and what they share: texts that several of them hold stand there once."""

    shots: Mapping[tuple[int, str], _Shot]
    texts: dict[str, int] = field(default_factory=dict)
    pictures: dict[tuple[int, str], int] = field(default_factory=dict)
    items: list[dict[str, Any]] = field(default_factory=list)
    width: int = 0

    def text(self, text: str) -> int:
        if text not in self.texts:
            self.width += len(text)
        return self.texts.setdefault(text, len(self.texts))

    def picture(self, place: int, image: str) -> int:
        return self.pictures.setdefault((place, image), len(self.pictures))

    def value(self) -> dict[str, Any]:
        pictures = []
        for key in self.pictures:
            shot = self.shots[key]
            pictures.append([shot.file, shot.width, shot.height, plain(key[1], 80)] + ([shot.why] if shot.why else []))
        return {"texts": list(self.texts), "pictures": pictures, "items": self.items}


class _Parts:
    """Writes the details of all items, a file for every few of them."""

    def __init__(
        self,
        under: Path,
        report: Path,
        models: Mapping[str, int],
        groups: Sequence[tuple[str, int]],
        shots: Mapping[tuple[int, str], _Shot],
    ) -> None:
        self._under, self._report, self._models, self._shots = under, report, models, shots
        self._groups = {group: place for place, group in enumerate(groups)}
        #: Number of the first item of every file.
        self.starts: list[int] = []
        self._set = self._written = 0

    def write(self, one: _Set) -> None:
        """Write a set's items."""
        part = _Part(self._shots)
        for first in range(0, len(one.items), PART):
            last = min(first + PART, len(one.items))
            for place, scores, said in zip(range(first, last), one.scores.take(first, last), one.said.take(first, last), strict=True):
                part.items.append(self._item(part, one, place, scores, said))
                if part.width > PART_TEXT or len(part.items) >= PART:
                    part = self._close(part)
        self._close(part)
        self._set += 1

    def _close(self, part: _Part) -> _Part:
        if part.items:
            _deliver(self._under, f"part-{len(self.starts)}", part.value())
            self.starts.append(self._written)
            self._written += len(part.items)
        return _Part(self._shots)

    def _item(self, part: _Part, one: _Set, place: int, scores: Mapping[Asking, dict], said: Mapping[Asking, dict]) -> dict[str, Any]:
        item = one.items[place]
        shown = _shown(item, one.prompts.vocabulary)
        page = trajectory_page(item["trajectory_id"])
        asked = groupby(sorted(scores, key=lambda asking: (self._groups[asking.group], asking)), key=lambda asking: asking.group)
        return {
            "id": line(item["instance_id"], SHORT),
            "goal": part.text(lines(item["goal"], GOAL)) if item["goal"] else -1,
            "website": plain(item["website"] or "", 80),
            "trajectory": line(item["trajectory_id"], SHORT),
            "page": f"../{page}" if (self._report / page).is_file() else "",
            "from": _origin(item),
            "frames": [[part.picture(self._set, image), *words] for image, words in zip(item["images"], shown.frames, strict=True)],
            "right": shown.right,
            "options": shown.options,
            "asked": [self._asked(part, one, place, group, list(some), scores, said) for group, some in asked],
        }

    def _asked(
        self,
        part: _Part,
        one: _Set,
        place: int,
        group: tuple[str, int],
        askings: Sequence[Asking],
        scores: Mapping[Asking, dict],
        said: Mapping[Asking, dict],
    ) -> dict[str, Any]:
        """Return how one item was asked under one condition, and every answer."""
        item = one.items[place]
        found: dict[str, Any] = {"group": self._groups[group], "answers": []}
        for asking in askings:
            score, row = scores[asking], said.get(asking) or {}
            answer = "" if score["answer"] is None else _answer_words(item["task"], score["answer"])
            why = "" if row.get("status") in (None, "ok") else ": ".join(filter(None, (row["status"].replace("_", " "), row["error"])))
            found["answers"].append(
                [
                    self._models[asking.model],
                    asking.run,
                    str(one.scores.outcomes[asking][place]),
                    part.text(answer),
                    _rounded(score["confidence"]),
                    _rounded(score["tau"]),
                    -1 if row.get("raw") is None else part.text(lines(row["raw"], RAW)),
                    part.text(line(why, SHORT)) if why else -1,
                ]
            )
        rows = [said[asking] for asking in askings if asking in said]
        donor = one.by_id.get((item["task"], next((row["pictures_of"] for row in rows if row["pictures_of"]), "")))
        if donor is not None:
            found["lender"] = donor["instance_id"]
            found["lent"] = [part.picture(self._set, image) for image in donor["images"]]
        messages = one.prompts.messages(item, group[0], donor)
        if messages is not None:
            found["prompt"] = [[message.role, [self._piece(part, piece) for piece in message.parts]] for message in messages]
            hashes = {row["prompt"] for row in rows if row["prompt"]}
            if hashes:
                found["same"] = hashes == {prompt_digest(Request(item["task"], item["instance_id"], 0, messages))}
        return found

    def _piece(self, part: _Part, piece: prompts.Text | prompts.Image) -> Any:
        """Return a text as places of its paragraphs, or a picture as its place; a black one as -1."""
        if isinstance(piece, prompts.Text):
            return [part.text(lines(paragraph, GOAL)) for paragraph in piece.text.split("\n\n")]
        return -1 if piece.black else part.picture(self._set, piece.image_id)


@dataclass(frozen=True)
class _Shown:
    """The words around an item: of each picture its label, what it is and whether it is right (1), wrong (0) or neither (-1)."""

    frames: list[tuple[str, str, int]]
    right: str
    #: What could be answered, with whether it is right.
    options: list[tuple[str, bool]]


def _shown(item: Mapping[str, Any], vocabulary: Iterable[str]) -> _Shown:
    pictures = len(item["images"])
    if item["task"] == "t1":
        order = list(item["answer"])
        places = {screen: order.index(screen) + 1 for screen in order}
        frames = [(f"Screen {n}", f"number {places[n]} in time" if n in places else "", -1) for n in range(1, pictures + 1)]
        return _Shown(frames, questions.answer_words("t1", order), [])
    if item["task"] == "t2":
        right = questions.answer_words("t2", {"action": item["answer_action"], "value": item["answer_value"]})
        frames = [("Before", "", -1), ("After", "", -1)]
        options = [(plain(word, 40), word == item["answer_action"]) for word in vocabulary]
    else:
        right = plain(item["answer"], 20)
        sides = [(f"Candidate {side}", "what followed" if side == right else "the distractor", int(side == right)) for side in "AB"]
        frames = [("Start", "", -1), *sides]
        options = [(side, side == right) for side in "AB"]
    frames += [(f"Picture {n + 1}", "", -1) for n in range(len(frames), pictures)]
    return _Shown(frames[:pictures], right, options)


def _origin(item: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return where in the logs an item is from, as (name, words)."""
    if item["task"] == "t1":
        return [("Steps", ", ".join(map(str, item["steps"])) + ", in the order shown")]
    found = [("Step", str(item["step"]))]
    if item["task"] == "t2":
        return [*found, ("Value in the goal", "yes" if item["value_in_goal"] else "no")]
    if item["distractor_trajectory"] == item["trajectory_id"]:
        gap = item["distractor_step"] - item["step"]
        return [*found, ("Distractor", f"step {item['distractor_step']} of the same trajectory, {gap} screens after the start")]
    return [*found, ("Distractor", f"step {item['distractor_step']} of {line(item['distractor_trajectory'], SHORT)}")]


@lru_cache(maxsize=1 << 16)
def _answer_words(task: str, answer: str) -> str:
    return questions.answer_words(task, answer)


def _rounded(value: float | None) -> float | None:
    return None if value is None or not isfinite(value) else round(value, 3)
