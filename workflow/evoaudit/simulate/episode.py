"""One trajectory from its number: a pure function of seed, number and formats."""

from evoaudit.simulate.actors import BEHAVIOURS, Actor, Episode, finish, with_lookalike
from evoaudit.simulate.apps import forum, settings, sheet, shop, tracker, travel
from evoaudit.simulate.deal import AGENTS, Deal
from evoaudit.simulate.draw import Draw
from evoaudit.simulate.engine import App, Do, Task
from evoaudit.simulate.screen import HEIGHT
from evoaudit.simulate.sites import BY_APP

APPS: dict[str, App] = {
    "shop": shop.APP,
    "travel": travel.APP,
    "forum": forum.APP,
    "tracker": tracker.APP,
    "settings": settings.APP,
    "sheet": sheet.APP,
}


def task_of(deal: Deal, seed: int) -> Task:
    """Return the task; all who try it get the same."""
    draw = Draw(seed, "task", deal.format, deal.task)
    sites = BY_APP[deal.app]
    site = (
        sites[(deal.task // 6 + draw.below(2, "site") * 3) % len(sites)]
        if deal.format in ("mind2web", "weblinx")
        else draw.pick(sites, "site")
    )
    kind = deal.kind if deal.kind not in ("captcha", "dead") else draw.pick(("note", "save"), "kind")
    return APPS[deal.app].tasks[kind](site, draw)


def make(deal: Deal, seed: int) -> Episode:
    """Act trajectory ``deal`` out."""
    task = task_of(deal, seed)
    draw = Draw(seed, "act", deal.format, deal.number)
    start = {**task.start, "desktop": deal.format == "osworld"}
    if deal.lookalike == "clock":
        start["clock"] = f"{draw.between(8, 18, 'h'):02d}:{draw.below(60, 'm'):02d}:{draw.below(60, 's'):02d}"
    elif deal.lookalike == "captcha-text":
        start = forum.with_captcha_talk(start, draw, task.plan)
    trap = {"broken-captcha": "captcha", "broken-dead-page": "dead"}.get(
        deal.planted, "loading" if deal.lookalike == "wait-for-load" else None
    )
    if trap:
        start["trap"] = (trap, 1)
    task.start = start
    actor = Actor(APPS[deal.app], task, draw, AGENTS.index(deal.agent) if deal.agent else 0, whole=deal.format == "mind2web")
    if deal.planted == "demonstration":
        lookalike = _demonstrate(actor, deal)
        return Episode(task, actor.steps, actor.screen, deal.planted, None, lookalike)
    if deal.planted == "success" and deal.lookalike:
        lookalike = with_lookalike(actor, deal.lookalike)
        said = finish(actor)
    else:
        lookalike, said = None, BEHAVIOURS[deal.planted](actor)
    return Episode(task, actor.steps, actor.screen, deal.planted, said, lookalike, actor.mark, truncated=said is None)


def _demonstrate(a: Actor, deal: Deal) -> str | None:
    """Act as a person: the plan with a person's detours."""
    if deal.lookalike in ("caret-blink", "wait-for-load"):
        return with_lookalike(a, deal.lookalike)
    if deal.format == "mind2web":
        for i, act in enumerate(a.task.plan):
            if act.verb == "click" and a.here < 12 - len(a.task.plan) + i and a.draw.chance(10, "hover", i) and a.screen.find(act.key):
                a.do(Do("hover", act.key, why="first"))
            a.follow([act])
        return deal.lookalike
    for i, act in enumerate(a.task.plan):
        if a.here + len(a.task.plan) - i >= 11:  # no time for detours
            a.follow([act])
            continue
        if a.draw.chance(15, "scroll", i) and a.screen.height > HEIGHT + 40:
            a.do(Do("scroll", value=str(a.draw.between(40, 160, "far", i)), why="to look round"))
        if act.verb == "click" and a.draw.chance(12, "hover", i) and a.screen.find(act.key):
            a.do(Do("hover", act.key, why="first"))
        a.follow([act])
        if act.verb == "type" and a.draw.chance(12, "copy", i):
            a.do(Do("copy", act.key, act.value, why="to keep it"))
        if a.draw.chance(6, "tab", i):
            a.do(Do("tab", why="to look at another page"))
    return deal.lookalike
