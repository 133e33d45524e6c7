"""A judge that is a language model, from trajectories to judgments: what it is shown, two rounds of asking, and what it said.

The second round asks again, once, where the first reply could not be used, and says why. Both are requests of their own: each has
its key and its records in the journal, and each is paid for.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from evoaudit import store
from evoaudit.audit import asking, evidence, fence, reply
from evoaudit.audit.episodes import episodes
from evoaudit.audit.judges import Identity
from evoaudit.errors import InputError
from evoaudit.infer import limits as picture_limits
from evoaudit.infer.base import OK, Attachments, Provider, Request, closed, missing_picture
from evoaudit.infer.journal import Journal
from evoaudit.infer.predict import Asking, Question, price_of
from evoaudit.infer.prices import Price
from evoaudit.infer.progress import Progress
from evoaudit.prompts import Image

JUDGE, REPAIR = "judge", "repair"
PARSE_ERROR, MISSING = "parse_error", "missing_evidence"
#: Statuses of a request that mean that there was not enough to see.
_UNSEEN = frozenset({"picture_missing"})


class Cases(Sequence[Question]):
    """What is shown of each trajectory, sorted by id; on disk, since it may be much. Each is asked ``draws`` times, round by round.

    A draw is the replicate number of its question, which is in the request's key, and no service sees it.
    """

    def __init__(self, scratch: Path | None = None, draws: int = 1) -> None:
        self.draws = draws
        self._file = TemporaryFile(dir=scratch)  # noqa: SIM115
        self._ids: list[str] = []
        self._offsets: list[int] = []

    def write(self, cases: Iterator[dict[str, Any]]) -> None:
        """Keep the cases, which come in any order."""
        places: dict[str, int] = {}
        for case in cases:
            places[case["instance_id"]] = self._file.tell()
            self._file.write(json.dumps(case).encode() + b"\n")
        self._ids = sorted(places)
        self._offsets = [places[one] for one in self._ids]

    def __len__(self) -> int:
        return self.draws * len(self._ids)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        if not 0 <= at < len(self):
            raise IndexError(at)
        draw, place = divmod(at, len(self._ids))
        self._file.seek(self._offsets[place])
        return Question(JUDGE, draw, json.loads(self._file.readline()))

    @property
    def trajectories(self) -> Iterator[dict[str, Any]]:
        """Yield what is shown of each trajectory, once however often it is asked about."""
        return (self[at].probe for at in range(len(self._ids)))

    def place(self, run: int, task: str, instance_id: str) -> int:
        """Return where a case stands; raises `KeyError` if there is none of that id and draw."""
        at = bisect_left(self._ids, instance_id)
        if at == len(self._ids) or self._ids[at] != instance_id or not 0 <= run < self.draws:
            raise KeyError((run, task, instance_id))
        return run * len(self._ids) + at

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "Cases":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def cases(
    folders: Sequence[Path], wanted: set[str], settings: Mapping[str, Any], attachments: Attachments, scratch: Path | None
) -> Iterator[dict[str, Any]]:
    """Yield what is shown of each wanted trajectory, or, under `lost`, why nothing can be."""
    policy = settings["pictures"] if "screenshots" in settings["evidence"] else "none"
    known = evidence.sizes(folders, evidence.referenced(folders, wanted))
    bounds = picture_limits.of(settings)
    most = min(settings["max_pictures"], bounds.pictures or settings["max_pictures"])

    def readable(image: str) -> bool:
        return image in known and not missing_picture(Image(image), attachments)

    def over(images: list[str]) -> str | None:
        shown = [Image(image) for image in images]
        return picture_limits.exceeded(bounds, [(*attachments.size(image), attachments.length(image)) for image in shown])

    missed = set(wanted)
    for episode in episodes(list(folders), wanted, scratch=scratch):
        missed.discard(episode.id)
        case: dict[str, Any] = {"instance_id": episode.id, "policy": policy, "steps": [], "screens": [], "lost": None}
        found = evidence.gather(episode, known, words="text" in settings["evidence"], limit=settings["max_text"])
        if not episode.steps:
            yield case | _lost(MISSING, "the log has no steps")
            continue
        if found is None:
            yield case | _lost("context_overflow", f"not sent: the log's texts do not fit max_text, {settings['max_text']} characters")
            continue
        if policy != "none":
            screens = evidence.screens(episode.steps, readable)
            if fault := evidence.choose(policy, screens, most, over):
                case |= _lost(*fault)
            case["screens"] = [asdict(one) for one in screens]
        shown = {"task": found.task, "steps": found.steps, "end": found.end, "answer": found.answer}
        yield case | {
            **shown,
            "mark": fence.mark(shown),
            "breaks": found.breaks,
            "logged": [bool(step["after_image"]) for step in episode.steps],
            "cut_texts": found.texts.texts,
            "cut_characters": found.texts.characters,
            "characters": found.texts.kept,
        }
    for identity in sorted(missed):
        yield {"instance_id": identity, "policy": policy, "steps": [], "screens": []} | _lost(
            MISSING, "the trajectory is in none of the sources"
        )


def _lost(status: str, error: str) -> dict[str, Any]:
    return {"lost": {"status": status, "error": error}}


class _Judging(Asking):
    """The cases put to one judge."""

    KIND = "judge"

    def __init__(
        self,
        settings: dict[str, Any],
        asked: Any,
        attachments: Attachments,
        price: Price | None,
        say: Callable[[str], None],
        prompt: asking.Asked,
    ) -> None:
        super().__init__(settings, asked, attachments, price, say)
        self.prompt = prompt
        self.schema = closed(reply.schema(prompt.book)) if settings.get("schema") else None

    def make(self, settings: dict[str, Any]) -> Provider:
        try:
            return super().make(settings)
        except InputError as error:  # providers know no judges
            raise InputError(error.where.replace("model '", "judge '", 1), error.what, error.mend) from None

    def request(self, question: Question) -> Request:
        case = question.probe
        return Request(question.task, case["instance_id"], question.run, asking.messages(self.prompt, case), self.schema)

    def unaskable(self, question: Question) -> dict[str, Any] | None:
        return question.probe["lost"]


class Repairs(Sequence[Question]):
    """The cases whose first reply could not be used, with that reply and what was wrong with it."""

    def __init__(self, cases: Cases, faults: Mapping[int, str], replied: Callable[[int], str]) -> None:
        self._cases, self._faults, self._replied = cases, faults, replied
        self._places = sorted(faults)
        self._at = {place: at for at, place in enumerate(self._places)}

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        place = self._places[at]
        case = self._cases[place]
        return Question(REPAIR, case.run, {**case.probe, "fault": self._faults[place], "reply": self._replied(place)})

    def place(self, run: int, task: str, instance_id: str) -> int:
        return self._at[self._cases.place(run, task, instance_id)]

    def of(self, place: int) -> int | None:
        """Return where the repair of a case stands, None if it needs none."""
        return self._at.get(place)


@contextmanager
def judging(
    settings: dict[str, Any],
    asked: Cases,
    attachments: Attachments,
    prompt: asking.Asked,
    who: Identity,
    *,
    out: Path,
    seed: int = 0,
    say: Callable[[str], None] = lambda line: None,
    progress: Progress | None = None,
    shelf: Path | None = None,
) -> Iterator[Iterator[tuple[int, dict[str, Any], list[dict[str, Any]]]]]:
    """Ask about every case, then yield an iterator over draws and judgment rows, each with the rows of the requests it rests on."""
    price = price_of(settings)
    first = _Judging(settings, asked, attachments, price, say, prompt)
    with first.journal(out, shelf) as journal:
        first.ask(journal, seed, progress or Progress(say))
        faults = {place: fault for place in range(len(asked)) if (fault := _fault(first, place, journal)) is not None}
        repairs = Repairs(asked, faults, lambda place: (first.final(place, journal) or {})["raw"])
        # Repairs are few, and asked one at a time: a batch of them would be taken for one of the first round by the next run.
        second = _Judging({**settings, "batch": False}, repairs, attachments, price, say, prompt)
        second.share_of = len(asked)
        if faults:
            say(f"{len(faults)} replies cannot be used; each is asked for once more")
            second.join(journal)
            second.ask(journal, seed, progress or Progress(say))
        yield _rows(first, second, who, journal)


def _fault(first: _Judging, place: int, journal: Journal) -> str | None:
    """Return what is wrong with a reply that came but cannot be used."""
    if place in first.lost:
        return None
    record = first.final(place, journal) or {}
    if record.get("status") != OK:
        return None
    return reply.read(record["raw"], first.prompt.book, len(first.asked[place].probe["steps"]))[1]


def _rows(first: _Judging, second: _Judging, who: Identity, journal: Journal) -> Iterator[tuple[int, dict[str, Any], list[dict[str, Any]]]]:
    for place, question in enumerate(first.asked):
        case = question.probe
        answers = [first.answer(place, question, journal)]
        if (again := second.asked.of(place)) is not None:
            answers.append(second.answer(again, second.asked[again], journal))
        last = answers[-1]
        opinion, status, why = None, last["status"], last["error"]
        if status == OK:
            opinion, why = reply.read(last["raw"], first.prompt.book, len(case["steps"]))
            status = OK if opinion is not None else PARSE_ERROR
        elif len(answers) > 1:
            # The judge did reply; that its second chance came to nothing changes neither what it said nor what was wrong with it.
            status, why = PARSE_ERROR, f"{_fault(first, place, journal)}; asked again: {last['status']}"
        yield (
            question.run,
            who.row(
                case["instance_id"],
                opinion,
                status=MISSING if status in _UNSEEN else status,
                note=note(case, why),
                input_tokens=_sum(answers, "input_tokens"),
                output_tokens=_sum(answers, "output_tokens"),
                usd=_sum(answers, "usd"),
            ),
            answers,
        )


def note(case: Mapping[str, Any], why: str | None) -> str | None:
    """Say in a line what of a trajectory was shown, and why there is no verdict, where there is none."""
    words = []
    if case["screens"]:
        shown = sum(one["fate"] == evidence.SHOWN for one in case["screens"])
        words.append(f"{shown} of {len(case['screens'])} screens shown")
    if case.get("cut_texts"):
        words.append(f"{case['cut_texts']} texts cut by {case['cut_characters']} characters")
    return store.text("; ".join([*words, *([why] if why else [])])) or None


def _sum(answers: Sequence[Mapping[str, Any]], name: str) -> Any:
    known = [answer[name] for answer in answers if answer.get(name) is not None]
    return sum(known) if known else None
