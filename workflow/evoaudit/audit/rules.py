"""The judge `rules`: what a careful reader can say from the logs alone, as explicit rules.

It reads a trajectory's tables and the known answer, never the truth, the reward, the agent's name or another judge. Stage 1
asks, in this order: does the outcome meet the goal, was the way barred, is the evidence there. Stage 2 collects every fault
it finds, each with its step, and takes the earliest decisive one.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from evoaudit.audit import compare, noop, pages, signals
from evoaudit.audit.episodes import Episode, visible
from evoaudit.audit.judges import Opinion

#: Raised when a rule's meaning changes: it is part of the judge's identity.
VERSION = 1

#: Fields of a trajectory that this judge may see.
SHOWN = ("trajectory_id", "kind", "instruction", "answer", "reference", "n_steps", "final_text", "final_url")
TERMINAL = frozenset({"answer", "done", "fail", "say"})

_QUOTED = re.compile(r"[\"“]([^\"“”]{1,200})[\"”]")
_INTENT = re.compile(
    r"\b(?:click|press|tap|hit|select|choose|open|check|tick|toggle|pick|into|in|on|use)(?:ing|s)?\s+"
    r"(?:on\s+)?(?:the\s+)?[\"“]([^\"“”]{1,200})[\"”]",
    re.IGNORECASE,
)
_GAVE_UP = re.compile(
    r"\b(cannot|can't|can not|could not|couldn't|unable to|not able to|impossible|infeasible|not possible|not feasible|"
    r"gave up|give up|does not work|doesn't work|blocked|no way to)\b",
    re.IGNORECASE,
)
#: Words by which a page says that something cannot be had or done there.
_BARRED = re.compile(
    r"\b(out of stock|sold out|discontinued|no longer (available|offered|exists?|supported)|not available|unavailable|"
    r"fully booked|no seats left|read[- ]only|permission denied|not authori[sz]ed)\b"
    r"|\b(is|are|has been|have been|was|were) (now )?"
    r"(locked|closed|protected|disabled|archived|removed|deleted|suspended|cancelled|managed)\b"
    r"|\b(can ?not|can't) be (changed|edited|set|opened|ordered|booked|cancelled|added|used|replied)\b"
    r"|\bnot (possible|permitted|allowed)\b|\bmanaged by (your|the|its)\b|\bdoes not (exist|operate|run|ship)\b",
    re.IGNORECASE,
)
#: Words by which a page refuses what was sent to it.
_REFUSED = re.compile(
    r"\b(not (a )?valid|invalid|please (enter|choose|select|fill|correct|provide|check)|is required|are required|"
    r"must (be|not|have|contain)|(nothing|not)( was| has been| have been| been)? (saved|sent|booked|placed|changed|posted|created)|"
    r"has not been|(could not|cannot) be \w+|(is|are) not an? |failed|wrong|incorrect|error|denied|rejected|"
    r"there is no|no such|not found|already (exists|taken|in use)|too (short|long)|does not match)\b",
    re.IGNORECASE,
)
_NO_ELEMENT = re.compile(
    r"unknown element|no such element|could not find|unable to locate|there is no\b|no (element|node) (found|matches|with)"
    r"|(element|node|control|button|link|target|bid|id)\b.{0,60}\b(not found|does not exist|doesn't exist)",
    re.IGNORECASE,
)
_EXCLUDED = re.compile(
    r"\b(?:not|never|except|without|avoid|other than|but no|don't)\b[^\"“”.;]{0,40}[\"“]([^\"“”]{1,200})[\"”]", re.IGNORECASE
)
_AT_MOST = re.compile(
    r"\b(?:at most|no more than|not more than|up to|under|below|less than|cheaper than|within|maximum(?: of)?|max\.?)\s+",
    re.IGNORECASE,
)
_AT_LEAST = re.compile(r"\b(?:at least|no less than|not less than|over|above|more than|minimum(?: of)?|min\.?)\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that went wrong: where, as which category, how sure, and why."""

    step: int
    category: str
    confidence: float
    why: str
    steps: tuple[int, ...] = ()


def blinded(episode: Episode) -> Episode:
    """Return the episode without what no judge may see."""
    return Episode({name: episode.row.get(name) for name in SHOWN}, episode.steps, episode.blank)


def judge(episode: Episode, screenshots: bool = True) -> Opinion:
    """Label one blinded trajectory; without ``screenshots``, whether a screen changed is read off the page text alone."""
    seen = Seen(episode if screenshots else _text_only(episode))
    for rule in STAGE_1:
        opinion = rule(seen)
        if opinion is not None:
            return opinion
    faults = [fault for rule in STAGE_2 for fault in rule(seen)]
    if not faults:
        faults = [_undiagnosed(seen)]
    first = min(faults, key=lambda fault: (fault.step, -fault.confidence, fault.category))
    return Opinion("gf", first.category, first.steps or (first.step,), first.confidence, first.why)


def _text_only(episode: Episode) -> Episode:
    """Return the episode as it reads without pictures."""
    steps = []
    for i, step in enumerate(episode.steps):
        last = i + 1 == len(episode.steps)
        after = episode.final_text if last else None if episode.steps[i + 1]["gap_before"] else episode.steps[i + 1]["page_text"]
        url = episode.final_url if last else episode.steps[i + 1]["url"]
        known = bool(step["page_text"]) and bool(after)
        state = "unknown" if not known else "same" if (after, url or step["url"]) == (step["page_text"], step["url"]) else "changed"
        # One tile stands for the page as a whole.
        steps.append(
            {
                **step,
                "state": state,
                "tiles_x": 1,
                "tiles_y": 1,
                "tiles": b"\x80" if state == "changed" else b"\x00",
                "changed_tiles": int(state == "changed"),
                "changed_pixels": None,
                "before_image": None,
                "after_image": None,
            }
        )
    return Episode({**episode.row, "kind": "text"}, steps, set())


@dataclass
class Seen:
    """A trajectory as the rules look at it."""

    episode: Episode
    probe: noop.Probe = field(init=False)

    def __post_init__(self) -> None:
        self.probe = noop.probe(self.episode)

    @property
    def steps(self) -> list[dict]:
        return self.episode.steps

    @property
    def last(self) -> int:
        return self.steps[-1]["step"] if self.steps else 0

    @cached_property
    def goal(self) -> str:
        return self.episode.row["instruction"] or ""

    @cached_property
    def texts(self) -> list[list[str]]:
        """Visible strings before each step."""
        return [visible(step["page_text"]) for step in self.steps]

    @cached_property
    def final(self) -> list[str]:
        """Visible strings at the end."""
        return signals.final_strings(self.episode)

    @cached_property
    def acts(self) -> int:
        """Number of steps before the agent ends the episode."""
        n = len(self.steps)
        while n and self.steps[n - 1]["op"] in TERMINAL:
            n -= 1
        return n

    @cached_property
    def words(self) -> str:
        """The agent's last words: its answer and what it says as it ends."""
        ending = self.steps[self.acts :] or self.steps[-1:]
        said = [part for step in ending for part in (step["value"], step["reasoning"]) if part]
        return "\n".join([*([self.episode.answer] if self.episode.answer else []), *said])

    @cached_property
    def ended(self) -> bool:
        """The agent itself ended the episode."""
        return self.acts < len(self.steps)

    @cached_property
    def gave_up(self) -> bool:
        return any(step["op"] == "fail" for step in self.steps[self.acts :]) or (self.ended and bool(_GAVE_UP.search(self.words)))

    @cached_property
    def intended(self) -> list[str | None]:
        """The control each step's reasoning names as the one it acts on."""
        found = []
        for step in self.steps:
            named = _INTENT.findall(step["reasoning"] or "")
            found.append(named[-1] if named else None)
        return found

    @cached_property
    def hit(self) -> list[str | None]:
        """The control each step really acted on, where the log names it."""
        found = []
        for step in self.steps:
            text = (step["target"] or {}).get("text")
            strings = visible(text) if text else []
            found.append(re.sub(r": .*$", "", strings[0]) if strings and _VALUED.search(text) else strings[0] if strings else None)
        return found

    def done(self, i: int) -> str:
        """Return all that is known of what a step did, as one text."""
        step = self.steps[i]
        return " \n ".join(part for part in (step["op_raw"], step["value"], self.hit[i] or self.intended[i]) if part)


_VALUED = re.compile(r"\bvalue=")


def alike(a: str, b: str) -> bool:
    """Say whether two names are one control's: one holds the other, or is its beginning where it was cut short."""
    for short, long in ((a, b), (b, a)):
        if short.rstrip().endswith(("…", "...")):
            stem = " ".join(short.casefold().rstrip(" .…").split())
            if len(stem) >= 4 and " ".join(long.casefold().split()).startswith(stem):
                return True
    words_a, words_b = compare.tokens(a), compare.tokens(b)
    return words_a == words_b or signals.holds(words_a, words_b) or signals.holds(words_b, words_a)


def _outcome_met(seen: Seen) -> Opinion | None:
    """The answer says what the reference says, or the last page shows the state asked for."""
    reference, answer = seen.episode.row["reference"], seen.episode.answer
    if not reference:
        return None
    if answer and (match := compare.compare(answer, reference, seen.goal)).equal:
        return Opinion("efn", None, (seen.last,), 0.9, f"the answer is the reference in another form, compared as {match.kind}")
    if signals.state_reached(seen.episode):
        return Opinion("efn", None, (seen.last,), 0.85, "the last page shows the state that was asked for")
    # The agent cannot know the reference; if it quotes it word for word at the end, the screen showed it.
    wanted = compare.tokens(reference)
    quotes = [quote for step in seen.steps[-2:] for quote in _QUOTED.findall(step["reasoning"] or "")]
    quoted = any(signals.holds(compare.tokens(quote), wanted) for quote in quotes)
    told = compare.asks(seen.goal) or signals.holds(compare.tokens(seen.goal), wanted)
    if len(wanted) > 2 and quoted and not told and not seen.final:
        return Opinion("efn", None, (seen.last,), 0.65, "the agent quotes from the last screen the very state that was asked for")
    return None


def _way_barred(seen: Seen) -> Opinion | None:
    """A challenge wall or a dead environment ended the work, or the page itself says that the goal cannot be met."""
    walls, errors = signals.challenge_steps(seen.episode), signals.error_steps(seen.episode)
    for where, what in ((walls, "a challenge wall"), (errors, "a fault of the environment")):
        if where and (where[-1] >= seen.last or (seen.gave_up and not _passed(seen, where[-1]))):
            return Opinion("broken", None, tuple(where[:3]), 0.9, f"{what} ended the work")
    if not seen.gave_up:
        return None
    if not any(seen.texts) and not any(step["url"] for step in seen.steps):
        quoted = [(step["step"], quote) for step in seen.steps for quote in _QUOTED.findall(step["reasoning"] or "")]
        told = [number for number, quote in quoted if pages.challenge(None, quote) or pages.error_page(None, quote)]
        if told:
            return Opinion(
                "broken", None, (told[0],), 0.6, "the agent quotes a challenge wall or an error page from its screens and stops there"
            )
    if _BARRED.search(seen.words):
        shown = [step["step"] for step, strings in zip(seen.steps, seen.texts, strict=True) if _says_barred(strings)]
        if shown:
            return Opinion(
                "broken",
                None,
                tuple(shown[:3]),
                0.8,
                "the page says that what the goal needs cannot be had or done, and the agent reports it",
            )
        if not any(seen.texts):
            return Opinion(
                "broken",
                None,
                (seen.last,),
                0.55,
                "the agent reports what the page says bars the goal; the log has no page text to compare",
            )
    return None


def _passed(seen: Seen, step: int) -> bool:
    """Say whether the agent reached a page after ``step`` that it had not seen before it."""
    before = {(one["url"], one["page_text"]) for one in seen.steps if one["step"] <= step}
    addresses = {one["url"] for one in seen.steps if one["step"] <= step}
    later = [one for one in seen.steps if one["step"] > step and one["url"]]
    return any(one["url"] not in addresses and (one["url"], one["page_text"]) not in before for one in later)


def _says_barred(strings: list[str]) -> bool:
    return any(len(string.split()) <= 25 and _BARRED.search(string) for string in strings)


def _evidence_missing(seen: Seen) -> Opinion | None:
    """Too little was logged to tell what happened."""
    acting = seen.steps[: seen.acts]
    if not acting:
        return Opinion("unclear", None, (), 0.7, "no action was logged") if not seen.episode.answer else None
    blind = [step for step in acting if step["state"] == "unknown" and not step["page_text"] and not step["reasoning"]]
    if 2 * len(blind) >= len(acting) and acting[-1] in blind and not seen.final:
        return Opinion("unclear", None, (blind[0]["step"],), 0.8, f"{len(blind)} of {len(acting)} actions have neither screens nor text")
    return None


STAGE_1: tuple[Callable[[Seen], Opinion | None], ...] = (_outcome_met, _way_barred, _evidence_missing)


def _rejected(seen: Seen) -> Iterator[Fault]:
    """The environment rejected the action itself, and the agent never got it accepted (`t2-tool`, `t1-hall`)."""
    for i, step in enumerate(seen.steps):
        if not step["error"] or pages.error_report(step["error"]):
            continue
        named = seen.intended[i]
        if any(_same_intent(seen, i, j) for j in range(i + 1, len(seen.steps)) if not seen.steps[j]["error"]):
            continue
        if _NO_ELEMENT.search(step["error"]) and not (named and _on_a_page(seen, named)):
            yield Fault(step["step"], "t1-hall", 0.8, f"acts on a control that no screen has: {step['error'][:120]}")
        else:
            yield Fault(
                step["step"], "t2-tool", 0.8, f"the environment rejects the call, and no later one gets through: {step['error'][:120]}"
            )
        return


def _same_intent(seen: Seen, i: int, j: int) -> bool:
    """Say whether step ``j`` acts on what step ``i`` meant."""
    if seen.steps[j]["op"] in TERMINAL | noop.PASSIVE | {"scroll"}:
        return False
    meant = seen.intended[i] or seen.hit[i]
    other = seen.hit[j] or seen.intended[j]
    if meant and other:
        return alike(meant, other)
    return noop.same_action(seen.steps[i], seen.steps[j])


def _on_a_page(seen: Seen, name: str) -> bool:
    """Say whether a control of that name was ever seen, or acted on without an error."""
    if any(alike(name, string) for strings in (*seen.texts, seen.final) for string in strings if len(string.split()) <= 12):
        return True
    return any(alike(name, hit) for hit, step in zip(seen.hit, seen.steps, strict=True) if hit and not step["error"])


def _misplaced(seen: Seen) -> Iterator[Fault]:
    """The agent names one control and another is hit, and it does not correct that (`t2-ground`)."""
    for i, step in enumerate(seen.steps):
        named, hit = seen.intended[i], seen.hit[i]
        if (
            step["op"] not in ("click", "double_click", "right_click", "long_press", "type", "select")
            or not named
            or not hit
            or step["error"]
        ):
            continue
        if alike(named, hit) or (step["value"] and alike(named, step["value"])):
            continue
        if seen.texts[i] and not any(alike(named, string) for string in seen.texts[i]):
            continue
        if any(seen.hit[j] and alike(named, seen.hit[j]) for j in range(i + 1, len(seen.steps))):
            continue
        yield Fault(step["step"], "t2-ground", 0.8, f"means '{named}' and hits '{hit}'")
        return


def _garbled(seen: Seen) -> Iterator[Fault]:
    """A value read earlier in the trajectory is entered with its characters changed (`t2-state`)."""
    known: dict[str, None] = {}
    goal = set(_codes(seen.goal))
    for step in seen.steps:
        if step["op"] in ("type", "paste", "select", "other", "key"):
            for value in _codes(step["value"] or step["op_raw"] or ""):
                twin = next((code for code in known if _garble(value, code)), None)
                if value not in known and value not in goal and twin and twin not in goal:
                    yield Fault(step["step"], "t2-state", 0.75, f"enters '{value}' where it had read '{twin}'")
                    return
        # What the agent notes or the page shows before this step is known from here on; what it enters itself is not.
        entered = set(_codes(step["value"] or ""))
        for source in (step["reasoning"], step["page_text"]):
            known |= dict.fromkeys(code for code in _codes(source or "") if code not in entered)


def _codes(text: str) -> list[str]:
    """Return the codes of a text: words of letters, digits and hyphens with at least three digits and four characters."""
    return [
        word
        for word in re.findall(r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*", text[: pages.LIMIT])
        if len(word) >= 4 and sum(c.isdigit() for c in word) >= 3
    ]


def _garble(a: str, b: str) -> bool:
    """Say whether one code is another with two characters swapped or one replaced, dropped or added."""
    if a == b or abs(len(a) - len(b)) > 1 or _shape(a)[:1] != _shape(b)[:1]:
        return False
    if len(a) == len(b):
        differing = [k for k in range(len(a)) if a[k] != b[k]]
        return len(differing) == 1 or (len(differing) == 2 and a[differing[0]] == b[differing[1]] and a[differing[1]] == b[differing[0]])
    short, long = sorted((a, b), key=len)
    return any(long[:k] + long[k + 1 :] == short for k in range(len(long)))


def _shape(code: str) -> str:
    return "".join("9" if c.isdigit() else "a" if c.isalpha() else c for c in code)


def _violated(seen: Seen) -> Iterator[Fault]:
    """The agent itself chooses what the goal rules out (`t1-spec`)."""
    excluded, limits = _EXCLUDED.findall(seen.goal), _limits(seen.goal)
    for i, step in enumerate(seen.steps[: seen.acts]):
        if step["op"] in ("scroll", "wait") or step["error"]:
            continue
        chosen = [part for part in (step["value"], seen.hit[i], seen.intended[i]) if part] + _typed(step["op_raw"])
        if bad := next((name for name in excluded for part in chosen if compare.tokens(name) == compare.tokens(part)), None):
            yield Fault(step["step"], "t1-spec", 0.85, f"chooses '{bad}', which the goal rules out")
            return
        if step["op"] in ("click", "select", "double_click") and (broken := _beyond(limits, step["reasoning"] or "")):
            yield Fault(step["step"], "t1-spec", 0.8, f"chooses at {broken} against the goal's limit")
            return


def _typed(raw: str | None) -> list[str]:
    """Return the string arguments of a raw call."""
    return [a or b for a, b in re.findall(r"'([^'\n]{1,200})'|\"([^\"\n]{1,200})\"", raw or "")]


def _limits(goal: str) -> list[tuple[bool, compare.Quantity]]:
    """Return the goal's limits that have a unit, as (at most, quantity)."""
    goal = compare.fold(goal[: compare.LIMIT])
    found = []
    for pattern, most in ((_AT_MOST, True), (_AT_LEAST, False)):
        for match in pattern.finditer(goal):
            limit = next((one for one in compare.quantities(goal[match.end() : match.end() + 40]) if one.start == 0), None)
            if limit is not None and limit.unit is not None:
                found.append((most, limit))
    return found


def _beyond(limits: list[tuple[bool, compare.Quantity]], reasoning: str) -> str | None:
    """Return the amount by which a reason for a choice breaks a limit, if it names no amount that keeps it."""
    reasoning = compare.fold(reasoning[: compare.LIMIT])
    for most, limit in limits:
        named = [one for one in compare.quantities(reasoning) if one.unit == limit.unit and one.value != limit.value]
        if named and all((one.value > limit.value) == most for one in named):
            return reasoning[named[0].start : named[0].end]
    return None


def _stood_still(seen: Seen) -> Iterator[Fault]:
    """One action repeated on a screen that does not change, to the end (`t3-noop`)."""
    rows = seen.probe.rows
    run: list[int] = []
    best: list[int] = []
    unseen: list[int] = []
    for i, row in enumerate(rows):
        counts = row["run"] > 0 and row["exempt"] is None and seen.steps[i]["op"] not in TERMINAL
        again = bool(run) and (row["same_action"] or _same_place(seen, run[-1], i))
        run = [*run, i] if counts and again else [i] if counts else []
        if len(run) >= 3 and len(run) >= len(best):
            best = run
        alike_again = bool(unseen) and (row["same_action"] or _same_place(seen, unseen[-1], i))
        unknown = row["screen"] == "unknown" and seen.steps[i]["op"] not in TERMINAL | noop.PASSIVE | {"scroll"}
        unseen = [*unseen, i] if unknown and alike_again else [i] if unknown else []
    if best and not _recovered(seen, best[-1]):
        # A first try on a page just loaded is excused from the count, but it is where the repetition began.
        while best[0] and rows[best[0]]["same_action"] and rows[best[0] - 1]["run"]:
            best.insert(0, best[0] - 1)
        yield Fault(
            rows[best[0]]["step"],
            "t3-noop",
            min(0.95, 0.6 + 0.1 * (len(best) - 2)),
            f"repeats one action {len(best)} times on a screen that does not change",
            tuple(rows[i]["step"] for i in best[:5]),
        )
    elif len(unseen) >= 3 and unseen[-1] >= seen.acts - 1:
        yield Fault(
            rows[unseen[0]]["step"],
            "ambiguous",
            0.4,
            f"repeats one action {len(unseen)} times; no evidence shows whether the screen changed",
        )


def _same_place(seen: Seen, i: int, j: int) -> bool:
    """Say whether two steps act alike at about the same place: a control's box is not always logged."""
    a, b = seen.steps[i], seen.steps[j]
    place_a, place_b = noop.place(a), noop.place(b)
    if (
        j != i + 1
        or b["gap_before"]
        or a["op"] != b["op"]
        or noop.plain(a["value"]) != noop.plain(b["value"])
        or place_a is None
        or place_b is None
    ):
        return False
    if seen.intended[i] and seen.intended[j]:
        return alike(seen.intended[i], seen.intended[j])
    (ax, ay), (bx, by) = place_a.middle, place_b.middle
    return abs(ax - bx) <= noop.NEAR / 2 and abs(ay - by) <= noop.NEAR / 2


def _recovered(seen: Seen, i: int) -> bool:
    """Say whether the screen changed more than once after step ``i``: the agent found another way."""
    return sum(row["screen"] == "changed" for row in seen.probe.rows[i + 1 : seen.acts]) > 1


def _went_round(seen: Seen) -> Iterator[Fault]:
    """The same few actions over and over, with screens that do change, to the end (`t1-loop`)."""
    marks = [_mark(seen, i) for i in range(seen.acts)]
    for period in range(2, 7):
        start = _periodic(marks, period)
        length = len(marks) - start
        if length < 2 * period + 1 or len(set(marks[start : start + period])) < 2:
            continue
        rows = seen.probe.rows[start : seen.acts]
        if sum(row["screen"] in ("no_change", "volatile_only") for row in rows) * 2 < len(rows):
            steps = tuple(row["step"] for row in rows)
            yield Fault(steps[0], "t1-loop", 0.8, f"the same {period} actions come round {length / period:.1f} times", steps[:6])
            return


def _periodic(marks: list, period: int) -> int:
    """Return where the longest tail begins in which every mark equals the one a period before."""
    start = len(marks) - period
    while start > 0 and marks[start - 1] == marks[start - 1 + period]:
        start -= 1
    return max(start, 0)


def _mark(seen: Seen, i: int) -> tuple:
    step = seen.steps[i]
    name = seen.hit[i] or seen.intended[i]
    place = noop.place(step)
    where = (
        noop.plain(name) if name else (round(place.middle[0] / 32), round(place.middle[1] / 32)) if place else noop.plain(step["op_raw"])
    )
    return step["op"], noop.plain(step["value"]), where


def _left_undone(seen: Seen) -> Iterator[Fault]:
    """The agent says it is done while a named part of a list in the goal was never touched (`t3-term`)."""
    if not seen.ended or seen.gave_up or compare.asks(seen.goal):
        return
    actions = [compare.tokens(seen.done(i)) for i in range(seen.acts)]
    cut = [seen.hit[i] or seen.intended[i] or "" for i in range(seen.acts)]

    def touched(name: str) -> bool:
        return any(signals.holds(words, compare.tokens(name)) for words in actions) or any(
            text.endswith("…") and alike(name, text) for text in cut
        )

    for names in _conjunctions(seen.goal):
        missed = [name for name in names if not touched(name)]
        if missed and len(missed) < len(names):
            yield Fault(seen.last, "t3-term", 0.75, f"stops as done without having touched '{missed[0]}'")
            return


def _conjunctions(goal: str) -> Iterator[list[str]]:
    """Yield the quoted names that a goal joins by commas and ``and``, as parts of one list."""
    excluded = set(_EXCLUDED.findall(goal))
    group: list[str] = []
    end = None
    for match in _QUOTED.finditer(goal):
        between = goal[end : match.start()] if end is not None else ""
        joined = end is not None and len(between) <= 40 and re.search(r"\band\b|,|&", between) and not re.search(r"[.;]", between)
        if not joined:
            if len(group) > 1:
                yield group
            group = []
        if match[1] not in excluded:
            group.append(match[1])
        end = match.end()
    if len(group) > 1:
        yield group


def _overlooked(seen: Seen) -> Iterator[Fault]:
    """The last page refuses what was sent, and the agent reports success (`t3-verif`)."""
    if not seen.ended or seen.gave_up or not seen.final:
        return
    earlier = set(seen.texts[0]) if seen.texts and len(seen.steps) > 1 else set()
    refusals = [string for string in seen.final if string not in earlier and 2 < len(string.split()) <= 30 and _REFUSED.search(string)]
    if refusals:
        yield Fault(seen.last, "t3-verif", 0.8, f"reports success while the page says '{refusals[0][:120]}'")


STAGE_2: tuple[Callable[[Seen], Iterator[Fault]], ...] = (
    _rejected,
    _misplaced,
    _garbled,
    _violated,
    _stood_still,
    _went_round,
    _left_undone,
    _overlooked,
)


def _undiagnosed(seen: Seen) -> Fault:
    """Say what can be said of a failure none of the rules explains."""
    if not seen.ended:
        return Fault(seen.last, "other", 0.3, "ends without an answer or a stop, for no reason that the log shows")
    if seen.gave_up:
        return Fault(seen.last, "t3-term", 0.4, "gives up although nothing in the log bars the way")
    reference = seen.episode.row["reference"]
    if reference and seen.episode.answer and any(signals.holds(compare.tokens(string), compare.tokens(reference)) for string in seen.final):
        return Fault(seen.last, "t3-verif", 0.4, "answers otherwise than its last page shows")
    return Fault(seen.last, "ambiguous", 0.3, "ends as done; the log does not show where it went wrong")
