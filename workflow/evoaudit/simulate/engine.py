"""The state machine all applications share: what an act does to a state, and what a state looks like."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evoaudit.simulate.screen import HEIGHT, Page, Screen, State, Widget
from evoaudit.simulate.sites import Site

#: Seconds the clock in the top bar moves on at every act.
TICK = 7


def start(page: str, **data: Any) -> State:
    """Return a fresh state: the shared keys, and the application's own ``data``."""
    return {
        "page": page,
        "fields": {},
        "focus": "",
        "caret": True,
        "scroll": 0,
        "clock": None,
        "desktop": False,
        "notice": None,
        "fault": "",
        "trap": None,
        "visits": 0,
        "loading": 0,
        "past": None,
        **data,
    }


def to(state: State, page: str, **changes: Any) -> State:
    """Return the state on another page."""
    return {**state, "page": page, "focus": "", "caret": True, "scroll": 0, "notice": None, "past": state, **changes}


def stay(state: State, **changes: Any) -> State:
    """Return the state on the same page with something changed."""
    return {**state, "focus": "", "caret": True, "notice": None, **changes}


def put(state: State, **fields: str) -> dict[str, str]:
    """Return the state's field texts with some replaced."""
    return {**state["fields"], **fields}


@dataclass(slots=True)
class Do:
    """One act a user or agent intends: what, on which widget, and why.

    ``goal`` numbers the sub-goal it serves; ``bad`` is a value the application will refuse; ``note`` names a value read
    off the screen to be used later.
    """

    verb: str
    key: str = ""
    value: str = ""
    why: str = ""
    goal: int = 0
    bad: str = ""
    note: str = ""


@dataclass(slots=True)
class Task:
    """A goal in one application, with the acts that reach it.

    ``proof`` is the text the final screen shows once the goal is reached; ``answer`` the right answer, of a ``form``
    that decides how else it can be written. ``read`` takes the answer off the final screen, whichever it is. ``other``
    reaches the goal by a way the checker does not know, ``wrong`` breaks a constraint of the instruction.
    """

    site: Site
    start: State
    instruction: str
    plan: list[Do]
    proof: str = ""
    answer: str = ""
    form: str = ""
    read: Callable[[Screen], str] | None = None
    other: list[Do] = field(default_factory=list)
    wrong: list[Do] = field(default_factory=list)
    wrong_why: str = ""
    barrier: str = ""

    @property
    def reference(self) -> str:
        return self.answer or self.proof


@dataclass(frozen=True, slots=True)
class App:
    """An application: its pages, its tasks by class, and a control on its ``dead_page`` that does nothing there."""

    view: Callable[[Site, State], Screen]
    tasks: dict[str, Callable[[Site, Any], Task]]


def view(app: App, site: Site, state: State) -> Screen:
    """Return what a state looks like."""
    if state["fault"]:
        return FAULTS[state["fault"]](site, state)
    if state["loading"]:
        return _loading(site, state)
    return app.view(site, state)


def perform(state: State, screen: Screen, act: Do) -> tuple[State, str | None]:
    """Return the state after ``act`` on ``screen``, and the environment's error if it refuses."""
    after, error = _perform(state, screen, act)
    if after["page"] != state["page"] and act.verb != "back" and not after["fault"]:
        after = {**after, "visits": state["visits"] + 1}
        if after["trap"] and after["visits"] == after["trap"][1]:
            kind = after["trap"][0]
            after["loading" if kind == "loading" else "fault"] = 3 if kind == "loading" else kind
    if after["clock"] is not None:
        after = {**after, "clock": later(after["clock"])}
    return after, error


def later(clock: str) -> str:
    """Return the time one tick after ``clock`` (HH:MM:SS)."""
    h, m, s = (int(part) for part in clock.split(":"))
    total = (h * 3600 + m * 60 + s + TICK) % 86400
    return f"{total // 3600:02d}:{total // 60 % 60:02d}:{total % 60:02d}"


def _perform(state: State, screen: Screen, act: Do) -> tuple[State, str | None]:
    if act.verb == "scroll":
        return {**state, "scroll": max(0, min(state["scroll"] + int(act.value), screen.height - HEIGHT))}, None
    if act.verb == "wait":
        blink = act.key == "caret"
        return {**state, "loading": max(0, state["loading"] - 1), "caret": state["caret"] != blink}, None
    if act.verb == "back":
        return (state["past"] or state), None
    if act.verb not in ("click", "type", "select", "hover"):
        return state, None
    widget = screen.find(act.key)
    if widget is None:
        return state, f'unknown element: there is no "{act.value if act.verb == "click" and act.value else act.key}" on this page'
    if act.verb == "click":
        return _click(state, widget), None
    if act.verb == "type":
        if widget.role != "textbox" or not widget.enabled:
            return state, f'invalid argument: {widget.role} "{widget.name}" does not take text'
        return {**state, "fields": put(state, **{widget.key: act.value}), "focus": widget.key, "caret": True}, None
    if act.verb == "select":
        if widget.role != "combobox" or not widget.enabled:
            return state, f'invalid argument: {widget.role} "{widget.name}" has no options'
        if act.value not in widget.options:
            return state, f"invalid argument: '{act.value}' is not an option of \"{widget.name}\""
        return {**state, "fields": put(state, **{widget.key: act.value}), "focus": "", "caret": True}, None
    return state, None


def _click(state: State, widget: Widget) -> State:
    if not widget.enabled:
        return state
    if widget.role in ("textbox", "combobox"):
        return {**state, "focus": widget.key, "caret": True}
    return state if widget.then is None else widget.then


def _challenge(site: Site, state: State) -> Screen:
    page = Page(site, state, f"/challenge?next=%2F{state['page']}", "Just a moment", [], "")
    page.y = 96
    page.x, page.width = (page.x + 60 if site.theme.layout != 2 else page.x + 20), 420
    with page.card():
        page.heading("Verify you are human", 18)
        page.text("Our systems have seen unusual traffic from your network. Complete the check below to go on to the site.", tone="muted")
        page.check("robot", "I am not a robot", stay(state, notice="Verification failed. Please try again."), False)
        if state["notice"]:
            page.alert(state["notice"], "bad")
        with page.across(6):
            for i in range(6):
                page.add("img", "", 58, 44, "art", tone=("train", "lamp", "plant", "bag", "chair", "cup")[i], size=i)
        page.button("verify", "Verify", stay(state, notice="Verification failed. Please try again."))
    page.text("Reference 7f3a-90c2 · protected by Gatehouse", tone="muted", size=11)
    return page.screen()


def _dead(site: Site, state: State) -> Screen:
    widgets = Page(site, state, f"/{state['page']}", "502 Bad Gateway", [], "")
    widgets.widgets.clear()
    widgets.x, widgets.y, widgets.width = 120, 110, 420
    widgets.heading("502 Bad Gateway", 24)
    widgets.text("The server did not get a valid answer from the upstream server. The page cannot be shown.")
    widgets.text(f"{site.host} · gateway", tone="muted", size=11)
    widgets.button("reload", "Reload", None)
    return widgets.screen()


def _loading(site: Site, state: State) -> Screen:
    page = Page(site, state, f"/{state['page']}", "Loading", [], "")
    with page.across():
        page.add("status", "", 26, 26, "spinner")
        page.text("Loading…", tone="muted", size=14)
    for w in (420, 360, 470, 300):
        page.add("generic", "", w, 20, "ghost")
    with page.across():
        for _ in range(3):
            page.add("generic", "", 140, 90, "ghost")
    return page.screen()


FAULTS: dict[str, Callable[[Site, State], Screen]] = {"captcha": _challenge, "dead": _dead}
