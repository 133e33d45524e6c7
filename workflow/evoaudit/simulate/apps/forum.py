"""A forum: boards, threads, replies, bookmarks, groups and a full editor."""

from evoaudit.simulate.draw import Draw
from evoaudit.simulate.engine import App, Do, Task, start, stay, to
from evoaudit.simulate.screen import Page, Screen, State
from evoaudit.simulate.sites import Site
from evoaudit.simulate.words import FIRST, LAST, TALK

SORTS = ("Newest first", "Most replies", "Unanswered")
MAIL = ("No e-mails", "Daily digest", "Every reply")
FLAIRS = ("Discussion", "Question", "Show and tell")
SHORTEST = 20

_LINES = (
    "I tried this last weekend and it went better than I feared.",
    "Take notes while you go, it saves time later.",
    "My neighbour swears by the slow way, and she is right.",
    "There is a good list in the pinned post, start there.",
    "It depends on the weather more than on the tools.",
    "Photos would help, the description is hard to follow.",
    "Thank you all, this is the friendliest board I know.",
    "Give it two days and look again before you change anything.",
)
_REPLIES = (
    "Thank you, this was just what I needed to know today.",
    "I had the same trouble and a slower start cured it.",
    "Following this thread with interest, please report back.",
    "Would you share the measurements you used in the end?",
)
_CAPTCHA = (
    (
        'Why do shops keep showing "Verify you are human"',
        (
            "Every second site now wants me to prove I am not a robot.",
            "A captcha with traffic lights took me four tries yesterday.",
            'Clearing cookies helped against the "Verify you are human" page.',
        ),
    ),
    (
        "Captcha fatigue: is there an end to it",
        (
            "I counted nine captchas in one evening of shopping.",
            "Screen reader users are locked out by picture captchas.",
            "The access denied page after a failed captcha is the worst.",
        ),
    ),
)


def world(draw: Draw, site: Site) -> State:
    """Return seven threads on three boards."""
    boards, subjects, stems = TALK[site.words]
    threads = []
    for i, subject in enumerate(draw.some(subjects, 6, "subjects")):
        lines = draw.some(_LINES, 5, "lines", i)
        threads.append(
            {
                "title": draw.pick(stems, "stem", i).format(subject),
                "author": f"{draw.pick(FIRST, 'a', i)} {draw.pick(LAST, 'b', i)}",
                "board": boards[draw.below(3, "board", i)],
                "replies": draw.between(3, 40, "replies", i) + 41 * i,
                "views": draw.between(100, 999, "views", i),
                "body": " ".join(lines[:2]),
                "said": lines[2:5],
                "open": True,
                "who": draw.some(FIRST, 3, "who", i),
                "code": "",
            }
        )
    threads = [threads[i] for i in draw.some(range(6), 6, "order")]
    return start(
        "home",
        boards=boards,
        threads=threads,
        marks=(),
        posted=(),
        sort=SORTS[0],
        me=f"{draw.pick(FIRST, 'me')} {draw.pick(LAST, 'me2')}",
        made=None,
        query="",
        low=draw.between(420, 820, "page height"),
    )


def view(site: Site, s: State) -> Screen:
    """Return a forum page."""
    name, _, number = s["page"].partition(":")
    nav = [
        ("nav:home", "Threads", to(s, "home")),
        ("nav:compose", "New thread", to(s, "compose")),
        ("nav:marks", f"Bookmarks ({len(s['marks'])})", to(s, "marks")),
        ("nav:groups", "Groups", to(s, "groups")),
    ]
    titles = {
        "home": "Threads",
        "found": "Search",
        "thread": "Thread",
        "compose": "New thread",
        "marks": "Bookmarks",
        "groups": "Groups",
        "editor": "Editor",
        "made": "Thread",
    }
    page = Page(site, s, "/" + s["page"].replace(":", "/").replace("home", ""), titles[name], nav, f"nav:{name}")
    PAGES[name](page, s, int(number or 0))
    page.footer(
        [
            "House rules",
            "Moderators",
            "Badges",
            "Donate",
            "Archive",
            "Feeds",
            "Statistics",
            "Help",
            "Privacy",
            "Terms",
            "Contact",
            "Dark mode",
        ],
        s["low"],
    )
    return page.screen()


def _rows(page: Page, s: State, which: list[int]) -> None:
    for i in which:
        t, x, y, w = s["threads"][i], page.x, page.y, page.width
        page.add("generic", "", w, 40, "panel", at=(x, y))
        page.add(
            "img", "", 26, 26, "avatar", at=(x + 8, y + 7), value="".join(part[0] for part in t["author"].split()), size=len(t["author"])
        )
        page.add(
            "link",
            t["title"],
            w - 200,
            17,
            "link",
            f"thread:{i}",
            at=(x + 44, y + 4),
            then=to(s, f"thread:{i}"),
            bold=True,
            size=13,
        )
        page.add("text", f"{t['author']} in {t['board']}", 200, 15, "text", at=(x + 44, y + 22), tone="muted", size=11)
        page.add("text", f"{t['replies']} replies", 70, 15, "text", at=(x + w - 90, y + 5), size=11)
        page.add("text", f"{t['views']} views", 70, 15, "text", at=(x + w - 90, y + 21), tone="muted", size=11)
        page.y += 44


def _home(page: Page, s: State, _: int) -> None:
    f = s["fields"]
    with page.across():
        page.field("q", "Search the forum", 170, "Words in the title")
        page.button("search", "Search", to(s, "found", query=f["q"]) if f.get("q") else None, low=True)
        page.choose("sort", "Order", SORTS, 120)
        page.button("newest", "Refresh", None, low=True)
    order = list(range(len(s["threads"])))
    if f.get("sort") == SORTS[1]:
        order.sort(key=lambda i: (-s["threads"][i]["replies"], i))
    _rows(page, s, order)


def _found(page: Page, s: State, _: int) -> None:
    hits = [i for i, t in enumerate(s["threads"]) if s["query"].lower() in t["title"].lower()]
    with page.across():
        page.field("q", "Search the forum", 200)
        page.button("search", "Search", to(s, "found", query=s["fields"].get("q", "")), low=True)
    page.text(f"{len(hits)} {'thread' if len(hits) == 1 else 'threads'} for '{s['query']}'", bold=True, size=13)
    _rows(page, s, hits)
    page.button("all", "All results", None)


def _thread(page: Page, s: State, i: int) -> None:
    t, f = s["threads"][i], s["fields"]
    page.heading(t["title"], 16)
    if s["notice"]:
        page.alert(s["notice"], "good" if "posted" in s["notice"] or "Bookmarked" in s["notice"] else "bad")
    page.text(f"Started by {t['author']} in {t['board']} · {t['replies'] + s['posted'].count(i)} replies", "muted", 11)
    with page.card():
        page.text(t["body"])
        if t["code"]:
            page.text(f"Invite code for the group: {t['code']}", bold=True)
    kept = page.gap
    page.gap = 2
    for who, said in zip(t["who"], t["said"], strict=True):
        page.text(f"{who}: {said}")
    if i in s["posted"]:
        page.text(f"You: {f.get('sent', '')}", bold=True)
    page.gap = kept
    page.y += 5
    if not t["open"]:
        page.alert("This thread is locked. New replies are not possible.", "bad")
    text = f.get("reply", "")
    page.field("reply", "Your reply", page.width - 160, "Write a reply…", enabled=t["open"])
    with page.across():
        page.choose("mail", "Notify me", MAIL, 120, enabled=t["open"])
        fine = len(text) >= SHORTEST
        page.button(
            "post",
            "Post reply",
            stay(
                s,
                posted=(*s["posted"], i),
                notice=f"Reply posted in: {t['title']} (notifications: {f.get('mail', MAIL[0])})",
                fields={**f, "sent": text, "reply": ""},
            )
            if fine
            else stay(s, notice=f"Your reply is too short: {SHORTEST} characters at least. It was not sent."),
            "main",
            t["open"],
            low=True,
        )
        page.button("editor", "Open full editor", to(s, f"editor:{i}"), enabled=t["open"], low=True)
        page.button("mark", "Bookmark", stay(s, marks=(*s["marks"], i), notice="Bookmarked.") if i not in s["marks"] else None, low=True)


def _editor(page: Page, s: State, i: int) -> None:
    t, f = s["threads"][i], s["fields"]
    page.heading("Full editor", 16)
    page.text(f"Reply to: {t['title']}", "muted")
    page.field("reply", "Your reply", page.width, "Write a reply…", h=110)
    with page.across():
        page.choose("mail", "Notify me", MAIL, 130)
        page.choose("flair", "Flair", FLAIRS, 130)
    text = f.get("reply", "")
    with page.across():
        page.button(
            "publish",
            "Publish reply",
            to(
                s,
                f"thread:{i}",
                posted=(*s["posted"], i),
                notice=f"Reply posted in: {t['title']} (notifications: {f.get('mail', MAIL[0])})",
                fields={**f, "sent": text, "reply": ""},
            )
            if len(text) >= SHORTEST
            else None,
            "main",
        )
        page.button("back", "Back to thread", to(s, f"thread:{i}"))


def _compose(page: Page, s: State, _: int) -> None:
    f = s["fields"]
    page.heading("New thread", 16)
    if s["notice"]:
        page.alert(s["notice"], "bad")
    with page.across():
        page.field("title", "Title", 260)
        page.choose("board", "Board", ("Choose a board", *s["boards"]), 130)
    page.field("body", "Text", page.width - 60, "Say it kindly", h=84)
    with page.across():
        page.choose("flair", "Flair", FLAIRS, 120)
        page.choose("mail", "Notify me", MAIL, 120)
    problem = (
        "Please choose a board. The thread was not created."
        if f.get("board", "Choose a board") == "Choose a board"
        else "Please give a title."
        if not f.get("title")
        else ""
    )
    page.button("create", "Create thread", stay(s, notice=problem) if problem else to(s, "made"), "main")


def _made(page: Page, s: State, _: int) -> None:
    f = s["fields"]
    page.alert(f"Thread created: {f.get('title', '')} (notifications: {f.get('mail', MAIL[0])})", "good")
    page.heading(f.get("title", ""), 16)
    page.text(f"Started by you in {f.get('board', '')} · {f.get('flair', FLAIRS[0])} · 0 replies", "muted", 11)
    with page.card():
        page.text(f.get("body", "") or "(no text)")
    page.button("home", "Back to threads", to(s, "home"))


def _marks(page: Page, s: State, _: int) -> None:
    page.heading("Bookmarks", 16)
    if not s["marks"]:
        page.text("Nothing here yet. Open a thread and bookmark it.", "muted")
    else:
        page.alert(f"{len(s['marks'])} bookmarks: " + ", ".join(s["threads"][i]["title"] for i in s["marks"]), "good")
        _rows(page, s, list(s["marks"]))


def _groups(page: Page, s: State, _: int) -> None:
    page.heading("Groups", 16)
    if s["notice"]:
        page.alert(s["notice"], "good" if s["notice"].startswith("Joined") else "bad")
    page.text("Groups are small circles with their own boards. Enter the invite code that a member gave you.", "muted")
    f = s["fields"]
    code = f.get("code", "").strip()
    with page.across():
        page.field("code", "Invite code", 150)
        page.choose("mail", "Notify me", MAIL, 130)
    owner = next((t for t in s["threads"] if t["code"] and t["code"] == code), None)
    page.button(
        "join",
        "Join group",
        stay(
            s,
            notice=f"Joined the {owner['board']} group with code {code}."
            if owner
            else f"The code {code} is not valid."
            if code
            else "Please enter a code.",
        ),
        "main",
    )
    page.text("You can leave a group at any time under your profile.", "muted")


PAGES = {
    "home": _home,
    "found": _found,
    "thread": _thread,
    "editor": _editor,
    "compose": _compose,
    "made": _made,
    "marks": _marks,
    "groups": _groups,
}


def with_captcha_talk(state: State, draw: Draw, plan: list[Do]) -> State:
    """Return the state with a thread about captchas, harmless text that only looks like a wall, where the plan does not go."""
    title, said = draw.pick(_CAPTCHA, "captcha talk")
    threads = list(state["threads"])
    used = {act.key for act in plan}
    place = draw.pick([i for i in range(len(threads)) if f"thread:{i}" not in used], "place of talk")
    old = threads[place]
    threads[place] = {**old, "title": title, "body": said[0], "said": [*said[1:], old["said"][2]]}
    return {**state, "threads": threads}


def _open(s: State, i: int, goal: int = 0) -> list[Do]:
    """Return the acts from the list of threads to thread ``i``."""
    word = s["threads"][i]["title"].split()[-1]
    return [
        Do("type", "q", word, "to look for the thread", goal),
        Do("click", "search", why="to run the search", goal=goal),
        Do("click", f"thread:{i}", why="because its title is the one asked for", goal=goal),
    ]


def answer(site: Site, draw: Draw) -> Task:
    """Ask for the two threads with the most replies, or for a count."""
    s = world(draw, site)
    ranked = sorted(range(6), key=lambda i: -s["threads"][i]["replies"])
    if draw.chance(50, "which"):
        two = [s["threads"][i]["title"] for i in ranked[:2]]
        plan = [
            Do("select", "sort", SORTS[1], "so that the longest threads come first"),
            Do("click", f"thread:{ranked[0]}", why="to check its number of replies"),
            Do("click", "nav:home", why="to go back to the list"),
        ]
        return Task(
            site,
            s,
            f"Which two threads have the most replies at {site.name}? Give both titles, separated by a semicolon.",
            plan,
            answer="; ".join(two),
            form="list",
            read=lambda screen: "; ".join(two),
        )
    i = draw.below(6, "thread")
    t = s["threads"][i]
    t["replies"] += 1000
    return Task(
        site,
        s,
        f'How many replies does the thread "{t["title"]}" have? Answer with the number.',
        _open(s, i),
        answer=str(t["replies"]),
        form="count",
        read=lambda screen: next(
            (w.name.split(" · ")[1].split()[0] for w in screen.widgets if w.name.startswith("Started by") and " · " in w.name), ""
        ),
    )


def limit(site: Site, draw: Draw) -> Task:
    """Start a thread without a kind of notification."""
    s = world(draw, site)
    boards, subjects, stems = TALK[site.words]
    title = draw.pick(stems, "title").format(draw.pick(subjects, "subject"))
    board, body, flair = draw.pick(boards, "board"), draw.pick(_LINES, "body"), draw.pick(FLAIRS[1:], "flair")
    head = [
        Do("click", "nav:compose", why="to start a thread"),
        Do("type", "title", title, "as the title"),
        Do("select", "board", board, "as the task says"),
        Do("type", "body", body, "as the text"),
        Do("select", "flair", flair, "as the task says"),
    ]
    plan = [
        *head,
        Do("select", "mail", MAIL[1], "to be told about answers in a way that is allowed"),
        Do("click", "create", why="to publish it"),
    ]
    wrong = [*head, Do("select", "mail", MAIL[2], "to be told about answers at once"), Do("click", "create", why="to publish it")]
    return Task(
        site,
        s,
        f"Start a thread titled '{title}' in the board {board} with the text '{body}' and the flair {flair}. "
        f'Turn some notification on, but do not choose "{MAIL[2]}".',
        plan,
        proof=f"Thread created: {title} (notifications: {MAIL[1]})",
        wrong=wrong,
    )


def save(site: Site, draw: Draw) -> Task:
    """Reply to a thread; a short reply is refused; the full editor is another way."""
    s = world(draw, site)
    i = draw.below(6, "thread")
    text = draw.pick(_REPLIES, "reply")
    find = _open(s, i)
    write = Do("type", "reply", text, "as the task says", bad=text[: draw.between(6, 14, "cut")].rstrip())
    mail = Do("select", "mail", draw.pick(MAIL[1:], "mail"), "as the task says")
    plan = [*find, write, mail, Do("click", "post", why="to send the reply")]
    other = [*find, Do("click", "editor", why="to write in a larger box"), write, mail, Do("click", "publish", why="to send the reply")]
    return Task(
        site,
        s,
        f'Reply to the thread "{s["threads"][i]["title"]}" with the text \'{text}\' and set the notifications to "{mail.value}".',
        plan,
        proof=f"Reply posted in: {s['threads'][i]['title']} (notifications: {mail.value})",
        other=other,
    )


def multi(site: Site, draw: Draw) -> Task:
    """Bookmark two threads."""
    s = world(draw, site)
    a, b = draw.some(range(6), 2, "threads")
    plan = [
        *_open(s, a),
        Do("click", "mark", why="to bookmark it"),
        Do("click", "nav:home", why="to look for the second thread", goal=1),
        *_open(s, b, 1),
        Do("click", "mark", why="to bookmark it", goal=1),
        Do("click", "nav:marks", why="to check the list", goal=1),
    ]
    return Task(
        site,
        s,
        f'Bookmark the threads "{s["threads"][a]["title"]}" and "{s["threads"][b]["title"]}".',
        plan,
        proof=f"2 bookmarks: {s['threads'][a]['title']}, {s['threads'][b]['title']}",
    )


def note(site: Site, draw: Draw) -> Task:
    """Find an invite code in a thread and join a group with it."""
    s = world(draw, site)
    i = draw.below(6, "thread")
    t = s["threads"][i]
    t["code"] = draw.code("ACDEFHKLMNPRT", 2, "letters") + "-" + draw.code("23456789", 4, "digits")
    mail = draw.pick(MAIL[1:], "mail")
    find = _open(s, i)
    find[2].note = f"invite code = {t['code']}"
    plan = [
        *find,
        Do("click", "nav:groups", why="to open the page for joining"),
        Do("type", "code", t["code"], "which I noted before", note="use"),
        Do("select", "mail", mail, "as the task says"),
        Do("click", "join", why="to join"),
    ]
    return Task(
        site,
        s,
        f'Find the invite code in the thread "{t["title"]}" and join the group with it; set the notifications to "{mail}".',
        plan,
        proof=f"Joined the {t['board']} group with code {t['code']}.",
    )


def unsat(site: Site, draw: Draw) -> Task:
    """Reply to a locked thread."""
    task = save(site, draw)
    i = int(task.plan[2].key.split(":")[1])
    task.start["threads"][i]["open"] = False
    task.plan = [
        *task.plan[:3],
        Do("click", "mark", why="to keep the thread while I look for another way"),
        Do("click", "nav:home", why="to see whether the thread exists twice"),
        *_open(task.start, i),
    ]
    task.other = []
    task.barrier = "This thread is locked. New replies are not possible."
    return task


APP = App(view, {"answer": answer, "limit": limit, "save": save, "multi": multi, "note": note, "unsat": unsat})
