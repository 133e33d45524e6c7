"""Who does what: trajectory number → format, task, agent and planted outcome, dealt by counting, not by chance."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

#: Ten trajectories of the default mix: 30 % Mind2Web, 30 % WebLINX, 20 % AgentRewardBench, 10 % OSWorld, 10 % plain.
PATTERN = ("mind2web", "weblinx", "agentrewardbench", "mind2web", "weblinx", "osworld", "mind2web", "weblinx", "agentrewardbench", "plain")
FORMATS = ("mind2web", "weblinx", "agentrewardbench", "osworld", "plain")
#: From this size on a corpus holds a handful of faults that must be found.
FAULTS_FROM = 50
AGENTS = ("sim-agent-a", "sim-agent-b", "sim-agent-c", "sim-agent-d")

#: One line a task: its class (and application), then what the agents do who try it. Missing a control, or an error on the last
#: page, can only be seen in text where the format logs the control or the page, so these are planted in AgentRewardBench alone.
DECKS = {
    "agentrewardbench": """
        answer: success efn-answer-form t3-noop t1-loop
        limit@shop: success t1-spec t2-ground success+clock
        captcha: broken-captcha broken-captcha
        save: success+wait-for-load t3-verif efn-other-path t3-noop
        multi: t3-term success t2-tool
        unsat: broken-unsatisfiable
        note@forum: success+captcha-text t2-state t1-hall success
        dead: broken-dead-page
        answer: success efn-answer-form success
        limit: t1-spec success t3-noop
        save@travel: success t3-verif t2-ground efn-other-path
        multi: success t3-term unclear-missing-evidence
        note: t2-state success t1-loop success+caret-blink""",
    "osworld": """
        save: success efn-other-path t3-noop
        limit: t1-spec success
        multi: success+clock t3-term t2-tool
        unsat: broken-unsatisfiable
        note: success t2-state t1-hall
        save: efn-other-path success+wait-for-load t1-loop t3-noop
        dead: broken-dead-page
        note: unclear-missing-evidence success success+caret-blink""",
    "plain": """
        answer: success efn-answer-form t3-noop
        limit: success t1-spec t2-tool
        captcha: broken-captcha
        multi: t3-term success t1-loop
        note: t2-state success success+caret-blink
        answer: efn-answer-form success+clock t1-hall
        unsat: broken-unsatisfiable
        save: efn-other-path t3-noop success""",
}

#: Applications a format's tasks are in, in turn.
APPS = {
    "mind2web": ("shop", "travel", "forum", "tracker", "settings", "sheet"),
    "weblinx": ("travel", "forum", "shop", "settings", "tracker", "sheet"),
    "agentrewardbench": ("shop", "forum", "tracker", "settings", "travel", "sheet"),
    "osworld": ("settings", "sheet", "tracker", "shop"),
    "plain": ("forum", "travel", "shop", "settings", "sheet", "tracker"),
}
#: Where a wall or a dead server can stand: on the web.
ON_THE_WEB = {"captcha": ("travel", "shop", "forum"), "dead": ("shop", "travel", "tracker")}
#: Tasks of demonstrations, all of which hold typing and choosing.
SHOWN = ("limit", "note", "save", "multi")


@dataclass(frozen=True, slots=True)
class Deal:
    """One trajectory to be made. ``task`` numbers the task within its format, ``member`` the attempts at it."""

    index: int
    format: str
    number: int
    task: int
    member: int
    app: str
    kind: str
    planted: str
    lookalike: str | None = None
    agent: str | None = None


@cache
def _deck(name: str) -> list[tuple[int, int, str, str | None, str, str | None]]:
    """Return (task, member, class, application, planted, look-alike) of each card."""
    cards = []
    for task, line in enumerate(DECKS[name].split("\n")[1:]):
        kind, _, planted = line.strip().partition(": ")
        kind, _, app = kind.partition("@")
        for member, one in enumerate(planted.split()):
            what, _, lookalike = one.partition("+")
            cards.append((task, member, kind, app or None, what, lookalike or None))
    return cards


def place(index: int, formats: Sequence[str]) -> tuple[str, int]:
    """Return a trajectory's format and its number within it."""
    slots = [name for name in PATTERN if name in formats]
    rounds, slot = divmod(index, len(slots))
    return slots[slot], rounds * slots.count(slots[slot]) + slots[:slot].count(slots[slot])


def deal(index: int, formats: Sequence[str]) -> Deal:
    """Return what trajectory ``index`` is to be."""
    name, number = place(index, formats)
    if name not in DECKS:
        return _demonstration(index, name, number)
    cards = _deck(name)
    rounds, card = divmod(number, len(cards))
    tasks = cards[-1][0] + 1
    task, member, kind, app, planted, lookalike = cards[card]
    task += rounds * tasks
    apps = ON_THE_WEB.get(kind, APPS[name])
    return Deal(
        index, name, number, task, member, app or apps[(task + rounds) % len(apps)], kind, planted, lookalike, AGENTS[(task + member) % 4]
    )


def _demonstration(index: int, name: str, number: int) -> Deal:
    lookalike = {
        3: "clock",
        8: "captcha-text",
        14: "caret-blink" if name == "weblinx" else None,
        20: "wait-for-load" if name == "weblinx" else None,
    }.get(number % 24)
    app = "forum" if lookalike == "captcha-text" else APPS[name][number % 6]
    return Deal(index, name, number, number, 0, app, SHOWN[(number + number // 6) % 4], "demonstration", lookalike)
