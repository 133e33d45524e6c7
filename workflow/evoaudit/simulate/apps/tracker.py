"""An issue tracker: list with filters, issue form, new issue, board and releases."""

from evoaudit.simulate.draw import Draw
from evoaudit.simulate.engine import App, Do, Task, start, stay, to
from evoaudit.simulate.screen import Page, Screen, State
from evoaudit.simulate.sites import Site
from evoaudit.simulate.words import FIRST, ISSUES, LAST, MONTHS

STATUS = ("Open", "In progress", "Closed")
PRIORITY = ("Low", "Normal", "High", "Critical")
CHANNELS = ("Test", "Stable", "Long term")


def world(draw: Draw, site: Site) -> State:
    """Return seven issues and a team."""
    prefix, noun, parts, faults = ISSUES[site.words]
    team = [f"{a} {b}" for a, b in zip(draw.some(FIRST, 4, "first"), draw.some(LAST, 4, "last"), strict=True)]
    issues = [
        {
            "id": f"{prefix}-{draw.between(10, 89, 'id', i) + 100 * i}",
            "title": title,
            "status": STATUS[draw.below(2, "status", i)],
            "priority": PRIORITY[draw.below(3, "priority", i)],
            "who": team[draw.below(4, "who", i)],
            "due": f"{draw.between(1, 28, 'day', i)} {draw.pick(MONTHS, 'month', i)} 2026",
            "part": draw.pick(parts, "part", i),
            "build": f"{draw.between(2, 9, 'major', i)}.{draw.between(0, 9, 'minor', i)}.{draw.between(1000, 9899, 'build', i)}",
            "locked": False,
        }
        for i, title in enumerate(draw.some(faults, 7, "faults"))
    ]
    return start(
        "home",
        noun=noun,
        parts=parts,
        team=team,
        issues=issues,
        query="",
        moved=(),
        low=draw.between(420, 760, "page height"),
        code=draw.between(801, 999, "new id"),
    )


def view(site: Site, s: State) -> Screen:
    """Return a tracker page."""
    name, _, number = s["page"].partition(":")
    noun = s["noun"]
    nav = [
        ("nav:home", f"All {noun}s", to(s, "home")),
        ("nav:board", "Board", to(s, "board")),
        ("nav:new", f"New {noun}", to(s, "new")),
        ("nav:releases", "Releases", to(s, "releases")),
    ]
    titles = {
        "home": f"All {noun}s",
        "issue": noun.capitalize(),
        "board": "Board",
        "new": f"New {noun}",
        "made": f"New {noun}",
        "releases": "Releases",
    }
    page = Page(site, s, "/" + s["page"].replace(":", "/").replace("home", ""), titles[name], nav, f"nav:{name}")
    PAGES[name](page, s, int(number or 0))
    page.footer(
        ["Status page", "Changelog", "Shortcuts", "API", "Teams", "Roles", "Exports", "Help", "Privacy", "Terms", "Security", "Contact"],
        s["low"],
    )
    return page.screen()


def _home(page: Page, s: State, _: int) -> None:
    f = s["fields"]
    page.heading(f"All {s['noun']}s", 16)
    with page.across():
        page.field("q", "Find in title", 150, "one word")
        page.choose("status", "Status", ("Any", *STATUS), 100)
        page.choose("priority", "Priority", ("Any", *PRIORITY), 90)
        page.button("refresh", "Refresh", None, low=True)
    hits = [
        i
        for i, it in enumerate(s["issues"])
        if f.get("q", "").lower() in it["title"].lower()
        and f.get("status", "Any") in ("Any", it["status"])
        and f.get("priority", "Any") in ("Any", it["priority"])
    ]
    w = page.width
    page.table(
        ["Key", "Title", "Status", "Priority", "Assignee"],
        [64, w - 354, 90, 80, 120],
        [
            [
                s["issues"][i]["id"],
                (
                    f"issue:{i}",
                    s["issues"][i]["title"],
                    to(s, f"issue:{i}", fields={k: v for k, v in f.items() if k not in ("set", "rank", "assign", "comment")}),
                ),
                s["issues"][i]["status"],
                s["issues"][i]["priority"],
                s["issues"][i]["who"],
            ]
            for i in hits
        ],
    )
    page.text(
        f"{len(hits)} of {len(s['issues'])} {s['noun']}s shown, {sum(it['status'] == 'Closed' for it in s['issues'])} closed", "muted", 11
    )


def _edited(s: State, i: int) -> State:
    f = s["fields"]
    it = s["issues"][i]
    new = {**it, "status": f.get("set", it["status"]), "priority": f.get("rank", it["priority"]), "who": f.get("assign", it["who"])}
    return stay(
        s,
        issues=[*s["issues"][:i], new, *s["issues"][i + 1 :]],
        notice=f"Saved: {it['id']} is now {new['status']}, priority {new['priority']}, assigned to {new['who']}.",
    )


def _issue(page: Page, s: State, i: int) -> None:
    it, f = s["issues"][i], s["fields"]
    page.heading(f"{it['id']} {it['title']}", 16)
    if s["notice"]:
        page.alert(s["notice"], "good" if s["notice"].startswith("Saved") else "bad")
    with page.card():
        page.pair("Component", it["part"])
        page.pair("Due date", it["due"])
        page.pair("Build", it["build"])
    if it["locked"]:
        page.alert(f"This {s['noun']} is locked by an administrator. It cannot be changed.", "bad")
    free = not it["locked"]
    with page.across():
        page.choose("set", "Status", STATUS, 110, STATUS.index(it["status"]), enabled=free)
        page.choose("rank", "Priority", PRIORITY, 100, PRIORITY.index(it["priority"]), enabled=free)
        page.choose("assign", "Assignee", tuple(s["team"]), 150, s["team"].index(it["who"]), enabled=free)
    page.field("comment", "Comment", 390, "What was done?", enabled=free)
    changed = any(f.get(k, v) != v for k, v in (("set", it["status"]), ("rank", it["priority"]), ("assign", it["who"])))
    close = f.get("set") == "Closed" and len(f.get("comment", "")) < 5
    if changed and not s["notice"]:
        page.text("Unsaved changes", "warm")
    with page.across():
        page.button(
            "save",
            "Save changes",
            stay(s, notice=f"A comment of 5 characters at least is needed to close a {s['noun']}. Nothing was saved.")
            if close
            else _edited(s, i),
            "main",
            free,
        )
        page.button("back", "Back to list", to(s, "home"))
        page.button("watch", "Watch", None, enabled=free)


def _board(page: Page, s: State, _: int) -> None:
    page.heading("Board", 16)
    if s["notice"]:
        page.alert(s["notice"], "good")
    w = (page.width - 20) // 3
    top = page.y
    low = top
    for k, status in enumerate(STATUS):
        x, y = page.x + k * (w + 10), top
        page.add("heading", status, w, 18, "text", at=(x, y), bold=True, tone="muted")
        y += 22
        for i, it in enumerate(s["issues"]):
            if it["status"] != status:
                continue
            page.add("generic", "", w, 54, "panel", at=(x, y))
            page.add(
                "link",
                f"{it['id']} {it['title']}",
                w - 14,
                16,
                "link",
                f"issue:{i}",
                at=(x + 8, y + 5),
                then=to(s, f"issue:{i}"),
                size=11,
                bold=True,
            )
            if k < 2:
                new = {**it, "status": STATUS[k + 1]}
                label = "Start" if k == 0 else "Close"
                page.button(
                    f"move:{i}",
                    label,
                    stay(
                        s,
                        issues=[*s["issues"][:i], new, *s["issues"][i + 1 :]],
                        notice=f"Saved: {it['id']} is now {new['status']}, priority {new['priority']}, assigned to {new['who']}.",
                    )
                    if not it["locked"]
                    else None,
                    enabled=not it["locked"],
                    at=(x + 8, y + 24),
                    about=it["id"],
                )
            else:
                page.add("text", it["who"], w - 14, 15, "text", at=(x + 8, y + 27), tone="muted", size=11)
            y += 59
        low = max(low, y)
    page.y = low + 6


def _new(page: Page, s: State, _: int) -> None:
    f = s["fields"]
    page.heading(f"New {s['noun']}", 16)
    if s["notice"]:
        page.alert(s["notice"], "bad")
    page.field("title", "Title", 340)
    page.field("text", "Description", 340, h=58)
    with page.across():
        page.choose("part", "Component", ("Choose one", *s["parts"]), 120)
        page.choose("grade", "Priority", PRIORITY, 100, 1)
        page.choose("owner", "Assignee", ("Nobody", *s["team"]), 150)
    problem = (
        "Please give a title of 8 characters at least. It was not created."
        if len(f.get("title", "")) < 8
        else "Please choose a component. It was not created."
        if f.get("part", "Choose one") == "Choose one"
        else ""
    )
    page.button("create", f"Create {s['noun']}", stay(s, notice=problem) if problem else to(s, "made"), "main")


def _made(page: Page, s: State, _: int) -> None:
    f = s["fields"]
    page.alert(f"Created {s['issues'][0]['id'].split('-')[0]}-{s['code']}: {f['title']}, priority {f.get('grade', PRIORITY[1])}", "good")
    page.heading(f["title"], 16)
    with page.card(420):
        page.pair("Component", f["part"])
        page.pair("Priority", f.get("grade", "Normal"))
        page.pair("Assignee", f.get("owner", "Nobody"))
        page.pair("Description", f.get("text", ""))
    page.button("home", f"All {s['noun']}s", to(s, "home"))


def _releases(page: Page, s: State, _: int) -> None:
    page.heading("Releases", 16)
    if s["notice"]:
        page.alert(s["notice"], "good" if s["notice"].startswith("Promoted") else "bad")
    page.text("Promote a build to a channel. Builds are named in the record they fix.", "muted")
    f = s["fields"]
    build = f.get("build", "").strip()
    with page.across():
        page.field("build", "Build number", 140, "for instance 3.1.2048")
        page.choose("channel", "Channel", CHANNELS, 120)
    known = next((it for it in s["issues"] if it["build"] == build), None)
    page.button(
        "promote",
        "Promote build",
        stay(
            s,
            notice=f"Promoted {build} to {f.get('channel', CHANNELS[0])}."
            if known
            else f"There is no build {build}."
            if build
            else "Please enter a build number.",
        ),
        "main",
    )
    page.table(
        ["Channel", "Current build", "Since"],
        [140, 160, 160],
        [[c, f"{2 + k}.{k}.{1200 + 37 * k}", f"{3 + k} May 2026"] for k, c in enumerate(CHANNELS)],
    )


PAGES = {"home": _home, "issue": _issue, "board": _board, "new": _new, "made": _made, "releases": _releases}


def _open(s: State, i: int, goal: int = 0) -> list[Do]:
    word = max(s["issues"][i]["title"].split(), key=len)
    return [
        Do("type", "q", word, f"to find the {s['noun']}", goal),
        Do("click", f"issue:{i}", why="because its title is the one asked for", goal=goal),
    ]


def answer(site: Site, draw: Draw) -> Task:
    """Ask for a due date or an assignee."""
    s = world(draw, site)
    i = draw.below(7, "issue")
    it = s["issues"][i]
    plan = [Do("select", "status", it["status"], "to make the list shorter"), *_open(s, i)]

    def shown(label: str):
        def read(screen: Screen) -> str:
            names = [w.name for w in screen.widgets]
            return names[names.index(label) + 1] if label in names else ""

        return read

    if draw.chance(50, "which"):
        return Task(
            site,
            s,
            f'When is the {s["noun"]} "{it["title"]}" due? Answer with the date.',
            plan,
            answer=it["due"],
            form="date",
            read=shown("Due date"),
        )
    return Task(
        site,
        s,
        f'Who is assigned to the {s["noun"]} "{it["title"]}"? Answer with the full name.',
        plan,
        answer=it["who"],
        form="name",
        read=lambda screen: next((w.value for w in screen.widgets if w.key == "assign"), ""),
    )


def limit(site: Site, draw: Draw) -> Task:
    """File an issue without a forbidden priority."""
    s = world(draw, site)
    _, noun, parts, faults = ISSUES[site.words]
    title = draw.pick([t for t in faults if t not in {it["title"] for it in s["issues"]}], "title")
    part, owner = draw.pick(parts, "part"), draw.pick(s["team"], "owner")
    text = draw.pick(("Seen twice this week.", "Started on Monday morning.", "Happens on two machines."), "text")
    head = [
        Do("click", "nav:new", why=f"to file a new {noun}"),
        Do("type", "title", title, "as the title"),
        Do("type", "text", text, "as the description"),
        Do("select", "part", part, "as the task says"),
    ]
    tail = [Do("select", "owner", owner, "as the task says"), Do("click", "create", why="to file it")]
    plan = [*head, Do("select", "grade", PRIORITY[2], "which is more than normal and still allowed"), *tail]
    wrong = [*head, Do("select", "grade", PRIORITY[3], "since it should be seen to fast"), *tail]
    return Task(
        site,
        s,
        f"File a new {noun} titled '{title}' with the description '{text}', component {part}, assigned to {owner}. "
        f'Give it more than normal priority, but do not choose "{PRIORITY[3]}".',
        plan,
        proof=f"Created {s['issues'][0]['id'].split('-')[0]}-{s['code']}: {title}, priority {PRIORITY[2]}",
        wrong=wrong,
    )


def save(site: Site, draw: Draw) -> Task:
    """Close an issue; a comment is required; the board is another way."""
    s = world(draw, site)
    i = draw.below(7, "issue")
    it = s["issues"][i]
    it["status"] = STATUS[1]
    comment = draw.pick(
        ("Fixed and checked with the reporter.", "Done on site this morning.", "Cannot be seen any more, closing."), "comment"
    )
    plan = [
        *_open(s, i),
        Do("select", "set", "Closed", "as the task says"),
        Do("type", "comment", comment, "since a note is useful", bad=draw.pick(("ok", "done", "-"), "bad comment")),
        Do("click", "save", why="to save it"),
    ]
    other = [
        Do("click", "nav:board", why="where a status can be changed in one click"),
        Do("scroll", value="120", why="to see the whole board"),
        Do("click", f"move:{i}", why="to close it from its card"),
    ]
    return Task(
        site,
        s,
        f'Set the status of the {s["noun"]} "{it["title"]}" to "Closed". Leave its priority and its assignee as they are.',
        plan,
        proof=f"Saved: {it['id']} is now Closed, priority {it['priority']}, assigned to {it['who']}.",
        other=other,
    )


def multi(site: Site, draw: Draw) -> Task:
    """Reassign two issues."""
    s = world(draw, site)
    a, b = draw.some(range(7), 2, "issues")
    who = draw.pick([n for n in s["team"] if n not in (s["issues"][a]["who"], s["issues"][b]["who"])], "who")
    plan = []
    for goal, i in enumerate((a, b)):
        if goal:
            plan.append(Do("click", "back", why="to go back to the list", goal=1))
        plan += [
            *_open(s, i, goal),
            Do("select", "assign", who, "as the task says", goal),
            Do("click", "save", why="to save it", goal=goal),
        ]
    it = s["issues"][b]
    return Task(
        site,
        s,
        f'Assign the {s["noun"]}s "{s["issues"][a]["title"]}" and "{it["title"]}" to {who}.',
        plan,
        proof=f"Saved: {it['id']} is now {it['status']}, priority {it['priority']}, assigned to {who}.",
    )


def note(site: Site, draw: Draw) -> Task:
    """Look up a build number and promote that build."""
    s = world(draw, site)
    i = draw.below(7, "issue")
    it = s["issues"][i]
    channel = draw.pick(CHANNELS[1:], "channel")
    find = _open(s, i)
    find[1].note = f"build number = {it['build']}"
    plan = [
        Do("select", "status", it["status"], "to make the list shorter"),
        *find,
        Do("click", "nav:releases", why="to open the page for promoting builds"),
        Do("type", "build", it["build"], "which I noted before", note="use"),
        Do("select", "channel", channel, "as the task says"),
        Do("click", "promote", why="to promote it"),
    ]
    return Task(
        site,
        s,
        f'Promote the build of the {s["noun"]} "{it["title"]}" to the channel "{channel}".',
        plan,
        proof=f"Promoted {it['build']} to {channel}.",
    )


def unsat(site: Site, draw: Draw) -> Task:
    """Close an issue that an administrator has locked."""
    task = save(site, draw)
    i = int(task.plan[1].key.split(":")[1])
    task.start["issues"][i]["locked"] = True
    task.plan = [
        *task.plan[:2],
        Do("click", "nav:board", why="to try the board"),
        Do("click", f"issue:{i}", why="to read the message again"),
        Do("click", "nav:home", why="to go back to the list"),
        Do("select", "priority", task.start["issues"][i]["priority"], "to see whether it exists twice"),
    ]
    task.other = []
    task.barrier = f"This {task.start['noun']} is locked by an administrator. It cannot be changed."
    return task


APP = App(view, {"answer": answer, "limit": limit, "save": save, "multi": multi, "note": note, "unsat": unsat})
