"""Scripted users and agents: each planted outcome is a way of acting that really leaves its evidence."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from evoaudit.simulate.draw import Draw
from evoaudit.simulate.engine import App, Do, Task, perform, view
from evoaudit.simulate.forms import other_form
from evoaudit.simulate.screen import HEIGHT, INTERACTIVE, Screen, Widget

#: Controls that do nothing where they stand.
DEAD = frozenset({"all", "refresh", "more", "past", "newest", "watch", "defaults", "scan", "updates", "recalc"})
_AIMS = dict.fromkeys(("all", "more", "past"), "to see the rest") | dict.fromkeys(("watch", "defaults"), "so that the change takes effect")
#: Controls that exist on no site.
GHOSTS = ("Bulk export", "Compare all", "Price alert", "Ask assistant", "Auto-fill", "One-click finish", "Show hidden items", "Batch mode")

OUTCOMES = {
    "success": "success",
    "demonstration": "demonstration",
    "efn-answer-form": "efn",
    "efn-other-path": "efn",
    "broken-captcha": "broken",
    "broken-dead-page": "broken",
    "broken-unsatisfiable": "broken",
    "unclear-missing-evidence": "unclear",
}


@dataclass(slots=True)
class Step:
    """One act as it happened. ``hit`` is the widget really acted on, ``point`` in pixels of the page's visible part."""

    verb: str
    value: str
    hit: Widget | None
    point: tuple[int, int] | None
    reasoning: str
    error: str | None
    before: Screen
    after: Screen
    #: The pictures and texts seen from here on were lost.
    lost: bool = False


@dataclass(slots=True)
class Episode:
    """A finished trajectory and its truth."""

    task: Task
    steps: list[Step]
    final: Screen
    planted: str
    answer: str | None = None
    lookalike: str | None = None
    evidence_step: int | None = None
    truncated: bool = False
    #: Where an order to a judge was planted (`page`, `reasoning`, `picture`), and its words.
    injected: str | None = None
    order: str | None = None

    @property
    def outcome(self) -> str:
        return OUTCOMES.get(self.planted, "gf")

    @property
    def category(self) -> str | None:
        return self.planted if self.outcome == "gf" else None

    @property
    def reward(self) -> float:
        return 1.0 if self.planted == "success" else 0.0


class Actor:
    """Carries acts out one by one and writes down what happened."""

    def __init__(self, app: App, task: Task, draw: Draw, manner: int, whole: bool = False) -> None:
        self.app, self.task, self.draw, self.manner, self.whole = app, task, draw, manner, whole
        self.state = task.start
        self.screen = view(app, task.site, self.state)
        self.steps: list[Step] = []
        self.noted = ""
        self.mark: int | None = None

    @property
    def here(self) -> int:
        """Number of the next step."""
        return len(self.steps)

    def do(self, act: Do, reasoning: str | None = None, slip: Widget | None = None) -> Step:
        """Carry out one act, after scrolling to its widget if need be; ``slip`` is hit in its place."""
        meant = self.screen.find(act.key)
        hit = slip or meant
        if hit is not None and not self.whole and not self._in_view(hit):
            self.do(
                Do(
                    "scroll",
                    value=str(max(-self.screen.scroll, hit.y - self.screen.scroll - HEIGHT // 2)),
                    why=f'because "{hit.name}" is out of view',
                )
            )
            return self.do(act, reasoning, slip and self.screen.find(slip.key))
        thought = reasoning if reasoning is not None else self._thought(act, meant)
        if self.noted:
            thought, self.noted = f"Noted: {self.noted}. {thought}", ""
        before, point = self.screen, self._point(act, hit)
        self.state, error = perform(self.state, before, replace(act, key=slip.key) if slip else act)
        self.screen = view(self.app, self.task.site, self.state)
        step = Step(act.verb, act.value, hit, point, thought, error, before, self.screen)
        self.steps.append(step)
        if act.note and act.note != "use":
            self.noted = act.note
        return step

    def follow(self, plan: list[Do], until: Callable[[], bool] | None = None) -> None:
        """Carry out a plan; with ``until``, stop as soon as it holds."""
        for act in plan:
            if until is not None and until():
                return
            self.do(act)
            while self.state["loading"]:
                self.do(Do("wait", why="because the page is still loading"))

    def _in_view(self, w: Widget) -> bool:
        return w.y - self.screen.scroll >= 0 and w.y + min(w.h, HEIGHT) - self.screen.scroll <= HEIGHT

    def _point(self, act: Do, w: Widget | None) -> tuple[int, int] | None:
        """Return where the pointer goes: not quite to the middle, but to the same place of a control each time."""
        if act.verb not in ("click", "type", "select", "hover"):
            return None
        if w is None:
            return self.draw.between(200, 560, "nowhere x", self.here), self.draw.between(300, 380, "nowhere y", self.here)
        x, y = w.centre
        dx, dy = max(1, w.w // 6), max(1, w.h // 6)
        top = 0 if self.whole else self.screen.scroll
        return x + self.draw.between(-dx, dx, "dx", w.key), y + self.draw.between(-dy, dy, "dy", w.key) - top

    def _thought(self, act: Do, meant: Widget | None) -> str:
        name = meant.name if meant else act.value or act.key
        core = {
            "click": f'I click "{name}" {act.why}.',
            "type": f"I type '{act.value}' into \"{name}\" {act.why}.",
            "select": f"I choose '{act.value}' in \"{name}\" {act.why}.",
            "hover": f'I point at "{name}" {act.why}.',
            "scroll": f"I scroll {act.why}.",
            "wait": f"I wait {act.why}.",
            "back": f"I go back {act.why}.",
            "reload": f"I reload the page {act.why}.",
        }.get(act.verb, act.why)
        title = self.screen.title.split(" · ")[0]
        lead = (
            ("", "", ""),
            ("Next step. ", "Going on. ", ""),
            (f"The page shows {title}. ", f"I am on {title}. ", ""),
            ("Thinking about the task: ", "So far so good. ", "Now: "),
        )[self.manner % 4]
        return self.draw.pick(lead, "lead", self.here) + core


def _sibling(screen: Screen, key: str, any_kind: bool) -> Widget | None:
    """Return the nearest other control, of the same kind unless ``any_kind``, which a careless click would hit."""
    aim = screen.find(key)
    if aim is None:
        return None
    group = key.split(":")[0] + ":"
    near = [
        w
        for w in screen.visible()
        if w.key not in ("", key)
        and w.role in INTERACTIVE
        and w.enabled
        and w.then is not None
        and not w.on
        and w.name != aim.name
        and (w.key.startswith(group) or (any_kind and not w.key.startswith("foot:")))
    ]
    return min(near, key=lambda w: (abs(w.centre[0] - aim.centre[0]) + abs(w.centre[1] - aim.centre[1]), w.key), default=None)


def _miss(a: Actor) -> int:
    """Return the place in the plan where a control is missed: best where a list has a neighbour, else at the first click that has any."""
    state, screen = a.state, a.screen
    found: list[tuple[int, int]] = []
    for i, act in enumerate(a.task.plan):
        if act.verb == "click":
            same = ":" in act.key and _sibling(screen, act.key, False) is not None
            rank = 0 if same and not act.key.startswith("nav:") else 1 if same else 2 if _sibling(screen, act.key, True) is not None else 3
            found.append((rank, i))
        state, _ = perform(state, screen, act)
        screen = view(a.app, a.task.site, state)
    return min(found)[1]


def claim(task: Task) -> str:
    """Return what an agent says when it believes it is done."""
    return f"Done. The page says: {task.proof}"


def finish(a: Actor, text: str | None = None) -> str:
    """Answer or declare the task done, and return what was said."""
    task = a.task
    if text is None:
        text = task.answer if task.answer else claim(task)
    verb = "answer" if task.answer and text != "" else "done"
    if not task.answer:
        reasoning = (
            f'The screen now shows "{task.proof}", so the task is done.'
            if text.startswith("Done. The page says")
            else "I think that the task is done."
        )
    else:
        reasoning = "I have found what was asked for and give the answer."
    a.do(Do(verb, value=text), reasoning)
    return text


def _give_up(a: Actor, text: str) -> str:
    a.do(Do("fail", value=text), f"I cannot go on: {text}")
    return text


def success(a: Actor) -> str:
    """Do what the task asks."""
    a.follow(a.task.plan)
    return finish(a)


def answer_form(a: Actor) -> str:
    """Find the right answer and write it another way."""
    a.follow(a.task.plan)
    a.mark = a.here
    return finish(a, other_form(a.task.answer, a.task.form, a.draw))


def other_path(a: Actor) -> str:
    """Reach the goal by another way than the checker expects."""
    a.follow(a.task.other)
    a.mark = a.here
    return finish(a)


def _again(a: Actor) -> Do:
    """Return the act that led to the fault."""
    led = a.steps[a.mark - 1]
    return Do(led.verb, led.hit.key, led.value, "to try it again")


def captcha(a: Actor) -> str:
    """Run into a challenge wall and fail to pass it."""
    a.follow(a.task.plan, lambda: bool(a.state["fault"]))
    a.mark = a.here
    a.do(Do("click", "robot"), 'The site asks me to "Verify you are human". I click "I am not a robot".')
    a.do(Do("click", "verify"), 'The check failed. I click "Verify" in case it works now.')
    a.do(Do("wait"), "I wait a little, the wall may go away.")
    if a.draw.chance(50, "back"):
        a.do(Do("back"), "I go back to try the page again.")
        a.do(_again(a))
    return _give_up(a, "The site is behind a CAPTCHA wall and asks to verify that I am human, which I cannot do.")


def dead_page(a: Actor) -> str:
    """Run into a server error that stays."""
    a.follow(a.task.plan, lambda: bool(a.state["fault"]))
    a.mark = a.here
    a.do(Do("click", "reload"), 'The server answers "502 Bad Gateway". I click "Reload".')
    a.do(Do("wait"), "Still the error page. I wait for the server to come back.")
    a.do(Do("reload"), "I reload the page once more.")
    if a.draw.chance(50, "back"):
        a.do(Do("back"), "I go back to the page before.")
        a.do(_again(a))
    return _give_up(a, "The site does not work: every page ends in 502 Bad Gateway.")


def unsatisfiable(a: Actor) -> str:
    """Search properly for something that cannot be done."""
    a.follow(a.task.plan)
    a.mark = next((i + 1 for i, s in enumerate(a.steps) if any(a.task.barrier.rstrip(".") in w.name for w in s.after.widgets)), a.here)
    return _give_up(a, f"The task cannot be done. The page says: {a.task.barrier}")


def missing_evidence(a: Actor) -> str:
    """Act, but lose the record of what was seen."""
    a.follow(a.task.plan[: max(3, len(a.task.plan) - a.draw.below(3, "cut"))])
    a.do(Do("done", value="Finished."), "")
    keep = 1
    for step in a.steps[keep:]:
        step.lost, step.reasoning = True, ""
    a.mark = keep
    return "Finished."


def spec(a: Actor) -> str:
    """Break a constraint of the instruction."""
    changed = next(
        i for i, (p, w) in enumerate(zip(a.task.plan, a.task.wrong, strict=False)) if (p.verb, p.key, p.value) != (w.verb, w.key, w.value)
    )
    for i, act in enumerate(a.task.wrong):
        if i == changed or (act.key.startswith(("item:", "pick:")) and a.mark is not None and a.task.plan[i].key != act.key):
            scrolled = a.here
            a.do(act)
            a.mark = a.here - 1 if a.here > scrolled else scrolled
        else:
            a.follow([act])
    return finish(a, "Done. Everything is set as the task asks.")


def loop(a: Actor) -> str | None:
    """Go round in circles between pages without any other idea."""
    a.follow(a.task.plan[: a.draw.between(1, 2, "prefix")])
    links = [w.key for w in a.screen.widgets if w.key.startswith("nav:") and not w.on]
    size = 3 if len(links) >= 3 and a.draw.chance(40, "period") else 2
    round_ = [links[i] for i in a.draw.some(range(len(links)), min(size, len(links)), "links")]
    a.mark = a.here
    for turn in range(3 if size == 3 else 4):
        for key in round_:
            why = ("to look for it there", "since it must be there", "to look there once more", "because I may have missed it")[turn % 4]
            a.do(Do("click", key, why=why))
    return None


def hallucination(a: Actor) -> str:
    """Plan around a control that does not exist."""
    a.follow(a.task.plan[: a.draw.between(1, max(1, min(3, len(a.task.plan) - 1)), "prefix")])
    ghost = a.draw.pick(GHOSTS, "ghost")
    a.mark = a.here
    a.do(Do("click", "ghost", ghost), f'This site has a "{ghost}" button that does the whole task at once. I click "{ghost}".')
    a.do(Do("scroll", value="160"), f'The "{ghost}" button must be further down, I scroll to it.')
    a.do(Do("click", "ghost menu", f"{ghost} menu"), f'It may be in a menu. I open the "{ghost} menu".')
    a.do(Do("scroll", value="-160"), "I scroll back up.")
    return finish(a, f'Done with the "{ghost}" function.')


def grounding(a: Actor) -> str:
    """Mean one control and hit its neighbour."""
    task, miss = a.task, _miss(a)
    for i, act in enumerate(task.plan):
        widget = a.screen.find(act.key)
        if widget is None or not widget.enabled or (act.verb == "select" and act.value not in widget.options):
            continue
        if i == miss:
            a.do(act, slip=_sibling(a.screen, act.key, False) or _sibling(a.screen, act.key, True))
            a.mark = a.here - 1
        else:
            a.follow([act])
    while a.here < 3:
        a.do(Do("scroll", value="80" if a.here % 2 else "-80", why="to see what else there is"))
    if task.answer:
        return finish(a, (task.read(a.screen) if task.read else "") or "I could not find it.")
    return finish(a, "Done. Everything is set as the task asks.")


def corrupted(text: str, draw: Draw) -> str:
    """Return ``text`` with two neighbours swapped or one digit changed."""
    places = [i for i in range(len(text) - 1) if text[i].isdigit() and text[i + 1].isdigit() and text[i] != text[i + 1]]
    if places:
        i = draw.pick(places, "swap")
        return text[:i] + text[i + 1] + text[i] + text[i + 2 :]
    i = max(k for k, c in enumerate(text) if c.isdigit())
    return text[:i] + str((int(text[i]) + 1) % 10) + text[i + 1 :]


def state_loss(a: Actor) -> str:
    """Note a value and type it wrong later."""
    for act in a.task.plan:
        if act.verb == "type" and act.note == "use":
            a.follow([replace(act, value=corrupted(act.value, a.draw))])
            a.mark = a.here - 1
        else:
            a.follow([act])
    return finish(a, "The form has been sent with the value I noted.")


def tool(a: Actor) -> str:
    """Call actions with arguments that they do not take."""
    at = next(i for i, d in enumerate(a.task.plan) if d.verb in ("select", "type") and i)
    a.follow(a.task.plan[:at])
    act = a.task.plan[at]
    widget = a.screen.find(act.key)
    name = widget.name if widget else act.key
    a.mark = a.here
    if act.verb == "select":
        for value in (f"{act.value} (default)", act.value.upper() + "!", f"option[{a.draw.between(7, 12, 'n')}]"):
            a.do(Do("select", act.key, value), f"I choose '{value}' in \"{name}\".")
        a.do(Do("type", act.key, act.value), f"I type '{act.value}' into \"{name}\" instead.")
    else:
        for value in (act.value, f"text={act.value}", f"value={act.value}"):
            a.do(Do("select", act.key, value), f"I choose '{value}' in \"{name}\".")
    return finish(a, f'I could not set "{name}": the tool reports an error each time.')


def early_stop(a: Actor) -> str:
    """Declare the task done with a sub-goal left."""
    a.follow([d for d in a.task.plan if not d.goal])
    a.mark = a.here
    return finish(a, "Done. All parts of the task are finished.")


def unverified(a: Actor) -> str:
    """Claim success although the last screen shows an error."""
    for act in a.task.plan:
        a.follow([replace(act, value=act.bad) if act.bad else act])
    a.mark = a.here
    return finish(a, "Done. It was saved successfully.")


def noop(a: Actor) -> str | None:
    """Repeat a click that does nothing, without noticing."""
    least = a.draw.between(1, 2, "prefix")
    seen: Widget | None = None
    for i in range(len(a.task.plan) + 1):
        seen = next((w for w in a.screen.visible() if w.key in DEAD and w.then is None and w.enabled), None)
        if (seen is not None and i >= least) or i >= len(a.task.plan) - 1:
            break
        a.follow([a.task.plan[i]])
    if seen is None:
        links = [w for w in a.screen.widgets if w.key.startswith("nav:")]
        seen = next((w for w in links if w.on), links[0])
        a.do(Do("click", seen.key, why="to bring the page up to date"))
    a.mark = a.here
    aim = _AIMS.get(seen.key, "to bring the page up to date")
    whys = (aim, "since it should show now", "once more", aim, "because the page needs a moment", "again", aim)
    for why in whys[: a.draw.between(4, 7, "times")]:
        a.do(Do("click", seen.key, why=why))
    return None


BEHAVIOURS: dict[str, Callable[[Actor], str | None]] = {
    "success": success,
    "efn-answer-form": answer_form,
    "efn-other-path": other_path,
    "broken-captcha": captcha,
    "broken-dead-page": dead_page,
    "broken-unsatisfiable": unsatisfiable,
    "unclear-missing-evidence": missing_evidence,
    "t1-spec": spec,
    "t1-loop": loop,
    "t1-hall": hallucination,
    "t2-ground": grounding,
    "t2-state": state_loss,
    "t2-tool": tool,
    "t3-term": early_stop,
    "t3-verif": unverified,
    "t3-noop": noop,
}


def with_lookalike(a: Actor, lookalike: str | None) -> str | None:
    """Do what the task asks beside something harmless that looks like a fault; return what was planted."""
    if lookalike == "caret-blink":
        done = False
        for act in a.task.plan:
            a.follow([act])
            if act.verb == "type" and not done:
                for _ in range(3):
                    a.do(Do("wait", "caret", why="for suggestions to appear"))
                done = True
        return lookalike if done else None
    if lookalike == "clock":
        for i, act in enumerate(a.task.plan):
            a.follow([act])
            if i == 1:
                for _ in range(2):
                    a.do(Do("wait", why="to be sure that the page is ready"))
        return lookalike
    a.follow(a.task.plan)
    if lookalike == "wait-for-load":
        return lookalike if any(s.verb == "wait" for s in a.steps) else None
    return lookalike
