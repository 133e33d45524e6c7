"""A settings application: pages of switches, lists and texts that must be saved, quick settings, storage and pairing."""

from evoaudit.simulate.draw import Draw
from evoaudit.simulate.engine import App, Do, Task, start, stay, to
from evoaudit.simulate.screen import Page, Screen, State
from evoaudit.simulate.sites import Site
from evoaudit.simulate.words import FIRST, LAST, PREFERENCES

USES = ("Pictures", "Messages", "Documents", "Music")


def world(draw: Draw, site: Site) -> State:
    """Return settings in some order on three pages, and a device with a code."""
    pages, switches, lists, texts = PREFERENCES[site.words]
    on = tuple(draw.chance(50, "on", i) for i in range(len(switches)))
    chosen = tuple(draw.below(len(options), "list", i) for i, (_, options) in enumerate(lists))
    first, last = draw.pick(FIRST, "first"), draw.pick(LAST, "last")
    used = tuple(draw.between(11, 399, "use", i) for i in range(4))
    return start(
        "page:0",
        pages=pages,
        switches=switches,
        lists=lists,
        texts=texts,
        on=on,
        saved_on=on,
        saved_lists=tuple(o[c] for (_, o), c in zip(lists, chosen, strict=True)),
        saved_texts=(f"{first}'s", f"{first}.{last}@mail.example".lower()),
        used=used,
        code=f"{draw.code('23456789', 3, 'code')}-{draw.code('23456789', 3, 'code2')}",
        serial=draw.code("ABCDEFHKLMNP23456789", 10, "serial"),
        managed=-1,
        result="",
        low=draw.between(420, 700, "page height"),
    )


def view(site: Site, s: State) -> Screen:
    """Return a settings page."""
    name, _, number = s["page"].partition(":")
    nav = [(f"nav:page{i}", p, _clean(s, f"page:{i}")) for i, p in enumerate(s["pages"])]
    nav += [
        ("nav:quick", "Quick", _clean(s, "quick")),
        ("nav:storage", "Storage", _clean(s, "storage")),
        ("nav:about", "About", _clean(s, "about")),
        ("nav:pair", "Pair", _clean(s, "pair")),
    ]
    title = (
        s["pages"][int(number)]
        if name == "page"
        else {"quick": "Quick settings", "storage": "Storage", "about": "About", "pair": "Pair a device"}[name]
    )
    page = Page(site, s, f"/settings/{title.lower().replace(' ', '-')}", title, nav, f"nav:{name}{number}")
    PAGES[name](page, s, int(number or 0))
    page.footer(["Help", "What is new", "Send feedback", "Community", "Privacy", "Licences", "Terms", "Contact"], s["low"])
    return page.screen()


def _clean(s: State, page: str) -> State:
    """Return the state on another page; what was not saved is lost."""
    return to(s, page, on=s["saved_on"], fields={k: v for k, v in s["fields"].items() if not k.startswith("set:")})


def _dirty(s: State) -> bool:
    f = s["fields"]
    return (
        s["on"] != s["saved_on"]
        or any(f.get(f"set:list{i}", v) != v for i, v in enumerate(s["saved_lists"]))
        or any(f.get(f"set:text{i}", v) != v for i, v in enumerate(s["saved_texts"]))
    )


def _saved(s: State) -> State:
    """Return the state with everything saved."""
    f = s["fields"]
    lists = tuple(f.get(f"set:list{i}", v) for i, v in enumerate(s["saved_lists"]))
    texts = tuple(f.get(f"set:text{i}", v) for i, v in enumerate(s["saved_texts"]))
    new = {**s, "saved_on": s["on"], "saved_lists": lists, "saved_texts": texts}
    return stay(new, notice="Saved. " + summary(new))


def summary(s: State) -> str:
    """Return the sentence that says how everything is set."""
    parts = [f"{label}: {value}" for (label, _), value in zip(s["lists"], s["saved_lists"], strict=True)]
    on = [label for label, value in zip(s["switches"], s["saved_on"], strict=True) if value]
    return "; ".join(parts) + f"; on: {', '.join(on) or 'nothing'}; {s['texts'][1]}: {s['saved_texts'][1]}"


def _flip(s: State, i: int) -> State:
    return stay(s, on=(*s["on"][:i], not s["on"][i], *s["on"][i + 1 :]))


def _page(page: Page, s: State, n: int) -> None:
    page.heading(s["pages"][n])
    if s["notice"]:
        page.alert(s["notice"], "good" if s["notice"].startswith("Saved") else "bad")
    label, options = s["lists"][n]
    managed = s["managed"] == n
    with page.card():
        page.choose(f"set:list{n}", label, options, 170, options.index(s["saved_lists"][n]), enabled=not managed)
        if managed:
            page.text("This setting is managed by your organisation and cannot be changed.", "bad")
        for i in (2 * n, 2 * n + 1):
            page.check(f"switch:{i}", s["switches"][i], _flip(s, i), s["on"][i], "switch")
        if n < 2:
            page.field(f"set:text{n}", s["texts"][n], 240, default=s["saved_texts"][n])
    mail = s["fields"].get("set:text1", s["saved_texts"][1])
    fine = "@" in mail and "." in mail.split("@")[-1] and " " not in mail
    dirty = _dirty(s)
    if dirty:
        page.text("Unsaved changes", "warm")
    with page.across():
        page.button(
            "save",
            "Save changes",
            (_saved(s) if fine else stay(s, notice=f"{s['texts'][1]} is not a valid address. Nothing was saved.")) if dirty else None,
            "main",
        )
        page.button("reset", "Undo", _clean(s, s["page"]))
        page.button("defaults", "Check for updates", None)


def _quick(page: Page, s: State, _: int) -> None:
    page.heading("Quick settings")
    page.text("What you change here is saved at once.", "muted")
    if s["notice"]:
        page.alert(s["notice"], "good")
    with page.card():
        for i, (label, options) in enumerate(s["lists"]):
            page.text(label, "muted", 11)
            with page.across(6):
                for k, option in enumerate(options):
                    lists = (*s["saved_lists"][:i], option, *s["saved_lists"][i + 1 :])
                    new = {**s, "saved_lists": lists}
                    page.button(
                        f"quick:{i}:{k}",
                        option,
                        stay(new, notice="Saved. " + summary(new)) if s["managed"] != i else None,
                        "main" if s["saved_lists"][i] == option else "",
                        s["managed"] != i,
                    )
    if s["managed"] >= 0:
        page.text(f"{s['lists'][s['managed']][0]}: this setting is managed by your organisation and cannot be changed.", "bad")


def _storage(page: Page, s: State, _: int) -> None:
    page.heading("Storage")
    total = sum(s["used"])
    page.text(f"{total / 10:.1f} GB of 128 GB used", bold=True, size=14)
    with page.across(0):
        for i, used in enumerate(s["used"]):
            page.add("img", "", max(8, used * (page.width - 10) // 1280), 20, "art", tone="dot", size=i)
    with page.card(320):
        for name, used in zip(USES, s["used"], strict=True):
            page.pair(name, f"{used / 10:.1f} GB")
    page.choose("view", "Show", ("All items", "Large items", "Old items"), 130)
    page.button("scan", "Scan again", None)


def _about(page: Page, s: State, _: int) -> None:
    page.heading("About")
    with page.card(380):
        page.pair("Product", page.site.name)
        page.pair("Serial number", s["serial"])
        page.pair("Device code", s["code"])
        page.pair("Version", "14.2 (build 2208)")
        page.pair(s["texts"][1], s["saved_texts"][1])
    page.button("updates", "Check for updates", None)
    page.text("You have the newest version.", "good")


def _pair(page: Page, s: State, _: int) -> None:
    page.heading("Pair a device")
    if s["notice"]:
        page.alert(s["notice"], "good" if s["notice"].startswith("Paired") else "bad")
    page.text("Enter the code of the other device. It stands on the page About.", "muted")
    with page.across():
        page.field("code", "Device code", 130, "for instance 123-456")
        page.choose("kind", "Kind", ("Phone", "Tablet", "Watch"), 110)
        page.field("name", "Name", 130)
    code = s["fields"].get("code", "").strip()
    page.button(
        "pair",
        "Pair",
        stay(
            s,
            notice=f"Paired {s['fields'].get('kind', 'Phone')} with code {code}."
            if code == s["code"]
            else f"No device has the code {code}."
            if code
            else "Please enter a code.",
        ),
        "main",
    )


PAGES = {"page": _page, "quick": _quick, "storage": _storage, "about": _about, "pair": _pair}


def _set(s: State, n: int, value: str, goal: int = 0) -> list[Do]:
    return [
        Do("click", f"nav:page{n}", why=f"where {s['lists'][n][0]} is set", goal=goal),
        Do("select", f"set:list{n}", value, "as the task says", goal),
    ]


def answer(site: Site, draw: Draw) -> Task:
    """Ask how much storage a kind of data takes."""
    s = world(draw, site)
    i = draw.below(4, "kind")
    value = f"{s['used'][i] / 10:.1f} GB"
    plan = [
        Do("click", "nav:about", why="to see whether it says so there"),
        Do("click", "nav:storage", why="to see what takes the space"),
        Do("select", "view", "Large items", "to check that the figures stay the same"),
    ]

    def read(screen: Screen) -> str:
        names = [w.name for w in screen.widgets]
        return names[names.index(USES[i]) + 1] if USES[i] in names else ""

    return Task(
        site,
        s,
        f"How much storage do the {USES[i].lower()} take in {site.name}? Answer with the size.",
        plan,
        answer=value,
        form="size",
        read=read,
    )


def _change(s: State, draw: Draw, n: int) -> str:
    return draw.pick([o for o in s["lists"][n][1] if o != s["saved_lists"][n]], "value", n)


def limit(site: Site, draw: Draw) -> Task:
    """Change a list and a switch on one page, without choosing a forbidden option."""
    s = world(draw, site)
    n = draw.below(3, "page")
    label, options = s["lists"][n]
    old = s["saved_lists"][n]
    new, banned = draw.some([o for o in options if o != old], 2, "values")
    switch = 2 * n + draw.below(2, "switch")
    flip = Do("click", f"switch:{switch}", why="as the task says")
    done = Do("click", "save", why="to save it")
    word = "off" if s["on"][switch] else "on"
    other = (n + 1) % 3
    look = Do("click", f"nav:page{other}", why="to see all pages first")
    plan = [look, *_set(s, n, new), flip, done]
    wrong = [look, *_set(s, n, banned), flip, done]
    after = {
        **s,
        "saved_lists": (*s["saved_lists"][:n], new, *s["saved_lists"][n + 1 :]),
        "saved_on": tuple(not v if i == switch else v for i, v in enumerate(s["on"])),
    }
    wrong[2].why = "which seems the most common choice"
    return Task(
        site,
        s,
        f'Change {label} in {site.name} from {old} to another option, but do not choose "{banned}", '
        f"and turn {s['switches'][switch]} {word}. Save the changes.",
        plan,
        proof="Saved. " + summary(after),
        wrong=wrong,
    )


def save(site: Site, draw: Draw) -> Task:
    """Change a list, and an address that is checked; quick settings are another way for the list."""
    s = world(draw, site)
    value = _change(s, draw, 1)
    mail = f"{draw.pick(FIRST, 'new first')}.{draw.pick(LAST, 'new last')}@post.example".lower()
    quick = [
        Do("click", "nav:quick", why="where changes are saved at once"),
        Do("click", f"quick:1:{s['lists'][1][1].index(value)}", why="to set it in one click"),
    ]
    typed = Do("type", "set:text1", mail, "as the task says", bad=draw.pick((mail.replace("@", " at "), mail.replace("@", "")), "bad"))
    done = Do("click", "save", why="to save it")
    after = {**s, "saved_lists": (s["saved_lists"][0], value, s["saved_lists"][2]), "saved_texts": (s["saved_texts"][0], mail)}
    other = [
        Do("click", "nav:about", why="to look round first"),
        Do("click", "nav:page1", why=f"where {s['texts'][1]} is set"),
        typed,
        done,
        *quick,
    ]
    return Task(
        site,
        s,
        f'Set {s["lists"][1][0]} to "{value}" and {s["texts"][1]} to {mail} in {site.name}, and save.',
        [Do("click", "nav:about", why="to see which address is set now"), *_set(s, 1, value), typed, done],
        proof="Saved. " + summary(after),
        other=other,
    )


def multi(site: Site, draw: Draw) -> Task:
    """Change settings on two pages, each of which must be saved."""
    s = world(draw, site)
    a, b = draw.some(range(3), 2, "pages")
    va, vb = _change(s, draw, a), _change(s, draw, b)
    plan = []
    for goal, (n, v) in enumerate(((a, va), (b, vb))):
        plan += [*_set(s, n, v, goal), Do("click", "save", why="to save this page", goal=goal)]
    lists = tuple(va if i == a else vb if i == b else v for i, v in enumerate(s["saved_lists"]))
    return Task(
        site,
        s,
        f'In {site.name}, set "{s["lists"][a][0]}" to {va} and "{s["lists"][b][0]}" to {vb}. Save both.',
        plan,
        proof="Saved. " + summary({**s, "saved_lists": lists}),
    )


def note(site: Site, draw: Draw) -> Task:
    """Read a device code and pair with it."""
    s = world(draw, site)
    kind = draw.pick(("Tablet", "Watch"), "kind")
    name = draw.pick(("kitchen", "office", "bedroom", "hallway"), "name")
    plan = [
        Do("click", "nav:storage", why="to see whether the code is shown there"),
        Do("click", "nav:about", why="to read the code", note=f"device code = {s['code']}"),
        Do("click", "nav:pair", why="to open the form"),
        Do("type", "code", s["code"], "which I noted before", note="use"),
        Do("select", "kind", kind, "as the task says"),
        Do("type", "name", name, "as the task says"),
        Do("click", "pair", why="to pair it"),
    ]
    return Task(
        site,
        s,
        f"Pair a {kind.lower()} called {name} with {site.name}, using the device code on the page About.",
        plan,
        proof=f"Paired {kind} with code {s['code']}.",
    )


def unsat(site: Site, draw: Draw) -> Task:
    """Change a setting that an organisation manages."""
    s = world(draw, site)
    n = draw.below(3, "page")
    s["managed"], label = n, s["lists"][n][0]
    value = _change(s, draw, n)
    plan = [
        Do("click", f"nav:page{(n + 1) % 3}", why="to look for the setting"),
        Do("click", f"nav:page{n}", why="where the setting is"),
        Do("click", "nav:quick", why="to try the quick settings"),
        Do("click", "nav:about", why="to see who manages this device"),
        Do("click", f"nav:page{n}", why="to read the message again"),
    ]
    return Task(
        site,
        s,
        f'Set {label} to "{value}" in {site.name} and save.',
        plan,
        proof=f"{label}: {value}",
        barrier="This setting is managed by your organisation and cannot be changed.",
    )


APP = App(view, {"answer": answer, "limit": limit, "save": save, "multi": multi, "note": note, "unsat": unsat})
