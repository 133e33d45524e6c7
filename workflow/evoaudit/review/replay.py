"""Replay pages for the verdict audit (CUA audit, §4.2): what a trajectory shows, step by step, for people who judge it blind.

A page is a folder that opens from the disk. What may not be known there is not in it: no reward, verdict, reference, agent,
experiment, judge or trajectory id, and, on the blind page, nothing of what a probe found. Items go by keyed hashes, pictures by names of
their own, and a key file beside the folder says which is which.
"""

import hashlib
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from evoaudit import codebook, prepare
from evoaudit.audit import noop, signals
from evoaudit.audit.episodes import Episode, episodes, oracles
from evoaudit.codebook import Codebook
from evoaudit.errors import InputError
from evoaudit.identity import canonical
from evoaudit.report import inline, load
from evoaudit.report.thumbs import Thumb, Thumbs
from evoaudit.report.words import code, plain
from evoaudit.review import keyfile, shared
from evoaudit.review.scripts import FILES, data_script, script_json
from evoaudit.review.shared import change, line, lines, mark, per_cent, picture
from evoaudit.screens import is_place
from evoaudit.streams import order, rank

TEMPLATE = Path(__file__).parent / "templates" / "replay.html.j2"
#: Pictures are fitted into this box (width, height): screens whole, long pages at a width that can be read.
BOX = (1920, 8192)
#: Small pictures of the filmstrip.
STRIP = (160, 120)
#: Longest texts shown, characters.
GOAL, TEXT, PAGE, SHORT = 20_000, 60_000, 40_000, 4_000
#: Steps, and characters of them, in one file that the page loads when it comes to them.
PART, PART_TEXT = 25, 250_000
#: Keys of the categories, in the codebook's order: letters that nothing else needs.
LETTERS = "qwrtyuasdgh"
#: Repetitions of one action on an unchanged screen that an adjudicator is told of.
REPEATS = 3
#: Signal → what it says to an adjudicator.
SAID = {
    "noop_run": "one action again and again, while the screen stays",
    "cycle": "the same screens come round twice in a row",
    "challenge_page": "a challenge page",
    "environment_error": "the environment failed",
    "evaluator_error": "the checker crashed",
    "answer_matches": "the answer says the same as the reference",
    "state_matches": "the last page shows the state asked for",
}
#: What stands for a word that would tell the agent.
MASK = "▮▮▮"
#: Values shorter than this are no names.
NAME = 4

_STEPS = ("trajectory_id", "before_image", "after_image")
#: Models by the families they are of: their names in a text tell the agent as surely as its own.
_FAMILIES = re.compile(
    r"claude|sonnet|opus|haiku|anthropic|openai|gpt|o[134](?![a-z0-9])|gemini|gemma|qwen|llama|mistral|mixtral|pixtral|deepseek|kimi|tars|grok|"
    r"glm|internvl|cogagent|molmo|doubao|seed|hunyuan|aguvis|showui|opencua|agent-?s2?",
    re.IGNORECASE,
)
_DRAG = re.compile(r"drag\w*\s*\(([^()]*)\)", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_WAYS = re.compile(r"\b(up|down|left|right)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Page:
    """One page: whose it is, at which stage, and the trajectories on it, those for practice first."""

    annotator: str
    stage: str
    seed: int
    items: tuple[str, ...]
    practice: frozenset[str] = frozenset()
    #: Folder of the page, and stem of its key file and lists.
    name: str = ""
    #: Trajectory → what is shown beside it: labels given before, by whom is not said.
    labels: Mapping[str, tuple[dict, ...]] = field(default_factory=dict)
    #: Practice trajectory → the label that is shown once the reviewer has decided.
    feedback: Mapping[str, dict] = field(default_factory=dict)
    #: Trajectory → what judges said, for the adjudicator; whose it is is not said.
    judges: Mapping[str, tuple[dict, ...]] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        return self.name or self.annotator

    def ids(self) -> dict[str, str]:
        """Return item id → trajectory, in the page's order."""
        found = {keyfile.item_id(self.seed, self.stage, self.annotator, identity): identity for identity in self.items}
        if len(found) != len(self.items):
            raise InputError(self.folder, "two trajectories would have the same id", "use another seed")
        return found

    def image(self, image_id: str) -> str:
        """Return the name of a picture on this page; equal pictures of two pages have different ones."""
        return f"{rank(self.seed, 'review-picture', self.stage, self.annotator, image_id):016x}"


def page(
    annotator: str, seed: int, chosen: Iterable[str], practice: Iterable[str] = (), stage: str = "blind", name: str = "", **shown: Mapping
) -> Page:
    """Lay a page out: practice first, then the rest, each in an order of the annotator's own."""
    practice = frozenset(practice)
    first = order(practice, seed, f"review-practice-{annotator}")
    rest = order(set(chosen) - practice, seed, f"review-order-{annotator}")
    return Page(annotator, stage, seed, (*first, *rest), practice, name, **shown)


def build(
    folder: Path,
    pages: Sequence[Page],
    normalised: Sequence[Path],
    roots: Mapping[str, Path],
    threads: int = 1,
    book: Codebook | None = None,
) -> Counter[str]:
    """Write every page's folder and key file into ``folder``; return counts of ``items``, ``pictures`` and pictures ``gone``.

    The files depend on the logs' visible fields, the pages and the codebook alone.
    """
    book = book or codebook.load()
    wanted = {identity for one in pages for identity in one.items}
    if len(book.categories) > len(LETTERS):
        raise InputError("codebook", f"has more than {len(LETTERS)} categories", "the review page has no keys for more")
    used = _pictures_of(normalised, wanted)
    sizes = {
        row["image_id"]: (row["width"], row["height"])
        for row in load.rows(normalised, "images", ("image_id", "width", "height"), image_id=set().union(*used.values()), status=["ok"])
    }
    counts = Counter[str]()
    shots = _pictures(folder, pages, normalised, roots, used, sizes, threads, counts)
    checkers = oracles(list(normalised)) if any(one.stage != "blind" for one in pages) else {}
    heads: list[dict[str, dict]] = [{} for _ in pages]
    for episode in episodes(list(normalised), wanted, scratch=folder):
        for one, made in zip(pages, heads, strict=True):
            if episode.id in one.items:
                made[episode.id] = _write_item(folder / one.folder, one, episode, sizes, shots[one.folder], checkers.get(episode.id, ()))
    for one, made in zip(pages, heads, strict=True):
        if lost := [identity for identity in one.items if identity not in made]:
            raise InputError(f"trajectory '{lost[0]}'", "is in no source given", "give --normalised for every source of the sample")
        _write_page(folder, one, made, book)
        counts["items"] += len(one.items)
    return counts


def _pictures_of(normalised: Sequence[Path], wanted: set[str]) -> dict[str, set[str]]:
    """Return the pictures of every trajectory."""
    used: dict[str, set[str]] = {identity: set() for identity in wanted}
    for row in load.rows(normalised, "steps", _STEPS, trajectory_id=wanted):
        used[row["trajectory_id"]] |= {row[name] for name in _STEPS[1:] if row[name]}
    return used


def _pictures(
    folder: Path,
    pages: Sequence[Page],
    normalised: Sequence[Path],
    roots: Mapping[str, Path],
    used: Mapping[str, set[str]],
    sizes: Mapping[str, tuple[int, int]],
    threads: int,
    counts: Counter[str],
) -> dict[str, dict[str, tuple[Thumb, Thumb | None]]]:
    """Make every picture once and give each page copies under its own names; return page → picture → (large, small)."""
    wanted = set().union(*used.values()) if used else set()
    sound = wanted & sizes.keys()
    store = folder / ".pictures"
    large, small = Thumbs(store, "large", BOX), Thumbs(store, "small", STRIP)
    shared.want(large, prepare.find(normalised, roots, sound))
    large.make(threads)
    made = {name: shot for name in sound if (shot := large.get(name))}
    for name, shot in made.items():
        small.want(name, (store / shot.src).read_bytes)
    small.make(threads)
    if sound and not made:
        raise InputError("--root", f"holds none of the {len(sound):,} pictures", "give the folder that was normalised")
    counts["pictures"], counts["gone"] = len(made), len(wanted) - len(made)
    found: dict[str, dict[str, tuple[Thumb, Thumb | None]]] = {}
    for one in pages:
        shown = {name for identity in one.items for name in used[identity] if name in made}
        found[one.folder] = {}
        (folder / one.folder / "pictures").mkdir(parents=True, exist_ok=True)
        for name in sorted(shown):
            copies = []
            for shot, tail in ((made[name], ""), (small.get(name), "-s")):
                if shot is None:
                    copies.append(None)
                    continue
                src = f"pictures/{one.image(name)}{tail}.jpg"
                shutil.copyfile(store / shot.src, folder / one.folder / src)
                copies.append(Thumb(src, shot.width, shot.height))
            found[one.folder][name] = (copies[0], copies[1])
    shutil.rmtree(store)
    return found


class _Masked:
    """Texts of one trajectory without the words that tell whose it is, and how often there were any."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        paths = [row[name] for name in ("experiment", "trajectory_id", "source_file") if row.get(name)]
        # A plain word or number among them (`screenshot`, `2024`) tells nothing, and texts are full of those.
        told = {name for path in paths for name in (path, *re.split("[/:]", path))}
        names = {name for name in told if not name.isalpha() and re.search("[A-Za-z]", name)} | {row.get("agent") or ""}
        names -= {row.get(name) for name in ("benchmark", "domain", "website", "task_id")}
        whole = sorted((re.escape(name) for name in names if len(name) >= NAME), key=lambda name: (-len(name), name))
        families = {found.casefold() for name in (row.get("agent"), row.get("experiment")) for found in _FAMILIES.findall(name or "")}
        # A family's name stands with its version: claude-3.7-sonnet is one word.
        parts = [rf"(?:chat)?(?:{'|'.join(sorted(map(re.escape, families)))})(?:[-_.]\w+|\d\w*)*"] if families else []
        parts += [rf"(?:{'|'.join(whole)})"] if whole else []
        self._pattern = re.compile(rf"(?<![\w])(?:{'|'.join(parts)})(?![\w])", re.IGNORECASE) if parts else None
        self.count = 0

    def __call__(self, text: str | None) -> str:
        if not text or self._pattern is None:
            return text or ""
        masked, n = self._pattern.subn(MASK, text)
        self.count += n
        return masked


def _write_item(
    folder: Path,
    one: Page,
    episode: Episode,
    sizes: Mapping[str, tuple[int, int]],
    shots: Mapping[str, tuple[Thumb, Thumb | None]],
    checkers: Sequence[dict],
) -> dict[str, Any]:
    """Write the files of one item and return what the page's list says of it."""
    item = keyfile.item_id(one.seed, one.stage, one.annotator, episode.id)
    mask, row = _Masked(episode.row), episode.row
    names = sorted({name for step in episode.steps for name in (step["before_image"], step["after_image"]) if name in shots}, key=one.image)
    place = {name: number for number, name in enumerate(names)}
    (folder / "items").mkdir(exist_ok=True)
    starts = []
    for start, steps in _parts(_step(step, mask, sizes) for step in episode.steps):
        _write_script(folder / "items" / f"{item}-{len(starts)}.js", f"{item}-{len(starts)}", steps)
        starts.append(start)
    head = {
        "goal": lines(mask(row["instruction"]), GOAL),
        "answer": lines(mask(episode.answer), TEXT),
        "where": " · ".join(plain(mask(part), 80) for part in dict.fromkeys((row["website"], row["domain"])) if part),
        "end": line(mask(episode.final_url), SHORT),
        "endText": lines(mask(episode.final_text), PAGE),
        "pictures": [picture(shots[name][0]) | {"small": shots[name][1].src if shots[name][1] else None} for name in names],
        "steps": [
            [place.get(step["before_image"], -1), place.get(step["after_image"], -1), int(step["gap_before"])] for step in episode.steps
        ],
        "parts": starts,
        "masked": mask.count,
    }
    if one.stage == "informed":
        head["released"] = _released(row, checkers)
    if one.stage != "blind":
        found = noop.probe(episode)
        head["again"] = [[step["step"], step["run"]] for step in found.rows if step["run"] > 1 and step["exempt"] is None]
        if one.stage == "adjudicated":
            head["signals"] = _signals(episode, checkers, found)
    if judged := one.judges.get(episode.id):
        head["judges"] = [_label(given) for given in judged]
    if one.labels:
        head["labels"] = [_label(given) for given in one.labels.get(episode.id, ())]
    if episode.id in one.feedback:
        head["feedback"] = _label(one.feedback[episode.id])
    _write_script(folder / "items" / f"{item}.js", item, head)
    part = plain(mask(row["website"] or row["domain"]), 60) or "not named"
    told = {"id": item, "n": len(episode.steps), "practice": episode.id in one.practice, "simulated": bool(row["simulated"]), "part": part}
    given = one.labels.get(episode.id, ())
    return told | ({"differ": len({(label["verdict"], label["category"]) for label in given}) > 1} if one.stage == "adjudicated" else {})


def _parts(steps: Iterable[dict]) -> Iterator[tuple[int, list[dict]]]:
    """Cut steps into parts, each with the number of its first step."""
    held: list[dict] = []
    start = width = 0
    for number, step in enumerate(steps):
        size = sum(len(value) for value in step.values() if isinstance(value, str))
        if held and (len(held) >= PART or width + size > PART_TEXT):
            yield start, held
            held, start, width = [], number, 0
        held.append(step)
        width += size
    if held:
        yield start, held


def _step(step: Mapping[str, Any], mask: _Masked, sizes: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    target = step["target"] or {}
    size = sizes.get(step["before_image"] or "")
    found = {
        "op": plain(step["op"] or "unknown", 40).replace("_", " "),
        "value": lines(mask(step["value"]), TEXT),
        "target": line(mask(target.get("text")), SHORT),
        "raw": lines(mask(step["op_raw"]), TEXT),
        "reasoning": lines(mask(step["reasoning"]), TEXT),
        "url": line(mask(step["url"]), SHORT),
        "page": lines(mask(step["page_text"]), PAGE),
        "error": lines(mask(step["error"]), SHORT),
        "mark": mark(target, size),
        "way": _way(step),
        "to": _end(step, size),
        "change": change(step, size) if step["state"] == "changed" else None,
    }
    return {name: value for name, value in found.items() if value not in ("", None)}


def _way(step: Mapping[str, Any]) -> str | None:
    """Return where a scroll goes: by its word, else by the sign of its amount, which is upwards in PyAutoGUI alone."""
    if step["op"] not in ("scroll", "swipe"):
        return None
    value = step["value"] or ""
    if word := _WAYS.search(value):
        return word[1].lower()
    numbers = [float(number) for number in _NUMBER.findall(value)][-2:]
    if not any(numbers):
        return None
    upwards = re.search(r"pyautogui|\bh?scroll\(\s*-?\d+\s*[,)]", step["op_raw"] or "") is not None and len(numbers) == 1
    if len(numbers) == 2 and abs(numbers[0]) > abs(numbers[1]):
        return "right" if numbers[0] > 0 else "left"
    return "down" if (numbers[-1] > 0) != upwards else "up"


def _end(step: Mapping[str, Any], size: tuple[int, int] | None) -> dict[str, float] | None:
    """Return where a drag ends, in per cent of the picture's sides, as far as the logged call says so."""
    if step["op"] != "drag" or size is None or (found := _DRAG.search(step["op_raw"] or "")) is None:
        return None
    numbers = [float(number) for number in _NUMBER.findall(found[1])]
    point = numbers[2:4] if len(numbers) >= 4 else numbers[:2]
    if len(point) < 2 or not is_place(point):
        return None
    if max(point) <= 1:
        point = [point[0] * size[0], point[1] * size[1]]
    return dict(zip(("left", "top"), per_cent(point, size), strict=True))


def _released(row: Mapping[str, Any], checkers: Sequence[dict]) -> list[list[str]]:
    """Return what the benchmark released, as (name, words): for the informed stage alone."""
    told = []
    for one in sorted(checkers, key=lambda one: (one["oracle"], one["oracle_version"] or "")):
        words = plain(one["verdict"], 20)
        words += f", reward {one['raw_reward']:g}" if one["raw_reward"] is not None else ""
        words += f" ({plain(one['status'], 200)})" if one["status"] != "ok" else ""
        told.append([f"Released by {plain(one['oracle'], 80)}", words])
    told.append(["Reference", lines(row["reference"], TEXT) or "none released"])
    return told


def _signals(episode: Episode, checkers: Sequence[dict], found: noop.Probe) -> list[dict[str, Any]]:
    """Return the free signals that fired: what each says and the steps that show it."""
    told = []
    for row in signals.signals(episode, list(checkers), found, [REPEATS]):
        if row["fired"] and row["signal"] in SAID:
            told.append({"said": SAID[row["signal"]], "steps": row["evidence_steps"] or []})
    return told


def _label(given: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: given.get(name) for name in ("verdict", "category", "evidence_steps", "confidence")}
    return shown | {"note": lines(given.get("note"), TEXT)}


def _write_script(path: Path, name: str, value: Any) -> None:
    """Write a file of data."""
    path.write_text(data_script(name, value), encoding="utf-8", newline="\n")


def _write_page(folder: Path, one: Page, made: Mapping[str, dict], book: Codebook) -> None:
    items = [made[identity] for identity in one.items]
    data = {
        "set": set_of(one, items, book),
        "noun": "trajectories",
        "lines": "labels",
        "items": items,
        "annotator": one.annotator,
        "stage": one.stage,
        "codebook": book.identity,
        "verdicts": [{"code": given.code, "name": given.name, "text": given.definition} for given in book.stage_1.codes],
        "categories": [
            {"code": given.code, "name": given.name, "tier": given.tier, "text": given.definition, "key": LETTERS[number]}
            for number, given in enumerate(book.stage_2.codes)
        ],
    }
    context = {
        "data": Markup(script_json(data)),
        "n": len(items),
        "practice": sum(item["practice"] for item in items),
        "stage": one.stage,
        "annotator": one.annotator,
        "set": data["set"],
        "book": book,
        "letters": LETTERS,
        "simulated": sum(item["simulated"] for item in items),
    }
    text = inline.render(
        TEMPLATE,
        context,
        style=(shared.STYLE, "replay.css"),
        script=(shared.SCRIPT, FILES, "replay.js"),
        images=shared.IMAGES,
        scripts="'self' file:",
        more=shared.TRUSTED.format("evoaudit"),
        filters={"code": code},
    )
    (folder / one.folder).mkdir(exist_ok=True)
    (folder / one.folder / "index.html").write_text(text, encoding="utf-8", newline="\n")
    trajectories = {item["id"]: (identity, item) for identity, item in made.items()}
    keyfile.write(
        folder / keyfile.FOLDER / f"{one.folder}.json",
        one.annotator,
        one.stage,
        book.identity,
        {
            name: {"trajectory_id": identity, "n_steps": item["n"], "practice": item["practice"]}
            | ({"shown": [given["annotator"] for given in one.labels[identity]]} if identity in one.labels else {})
            for name, (identity, item) in trajectories.items()
        },
    )


def set_of(one: Page, items: Sequence[Mapping[str, Any]], book: Codebook) -> str:
    """Name a page by what is asked on it, of whom, and by which codebook."""
    content = canonical([one.annotator, one.stage, book.identity, [item["id"] for item in items]])
    return "replay-" + hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
