"""A booking site for flights, trains, ferries or coaches: search, fares, passenger data, trips and check-in."""

from evoaudit.simulate.draw import Draw
from evoaudit.simulate.engine import App, Do, Task, start, stay, to
from evoaudit.simulate.screen import Page, Screen, State
from evoaudit.simulate.sites import Site
from evoaudit.simulate.words import FIRST, JOURNEYS, LAST, MONTHS, PLACES

SORTS = ("Departure", "Lowest price", "Shortest")
SEATS = ("Any seat", "Window", "Aisle")
BAGS = ("No bag", "One bag", "Two bags")


def world(draw: Draw, site: Site) -> State:
    """Return five departures on one route, and three booked trips."""
    _, _, carriers, direct, classes = JOURNEYS[site.words]
    places = draw.some(PLACES, 8, "places")
    base = draw.between(38, 180, "base")
    options = []
    for i in range(5):
        leave = 360 + i * 150 + draw.below(120, "leave", i)
        stops = 0 if i in (1, 3) else draw.between(1, 2, "stops", i)
        long = draw.between(75, 160, "long") + stops * draw.between(50, 95, "wait", i)
        price = base + draw.between(0, 60, "price", i) + (40 if not stops else 0) + 3 * i
        options.append(
            {
                "carrier": draw.pick(carriers, "carrier", i),
                "code": f"{carriers[0][0]}{draw.between(100, 989, 'code', i)}",
                "leave": leave,
                "long": long,
                "stops": stops,
                "price": price,
            }
        )
    day = f"{draw.between(1, 28, 'day')} {draw.pick(MONTHS, 'month')} 2026"
    trips = [
        {
            "ref": draw.code("BCDFGHKLMNPRTVX", 3, "ref", i) + draw.code("23456789", 3, "digits", i),
            "to": places[2 + i],
            "from": places[5 + i],
            "date": f"{draw.between(1, 28, 'trip day', i)} {draw.pick(MONTHS, 'trip month', i)} 2026",
            "gate": draw.code("ABCD", 1, "g", i) + str(draw.between(2, 38, "gate", i)),
            "state": "Confirmed",
        }
        for i in range(3)
    ]
    return start(
        "home",
        origin=places[0],
        goal=places[1],
        day=day,
        options=options,
        trips=trips,
        cancelled=(),
        chosen=0,
        runs=True,
        name=draw.pick(LAST, "surname"),
        code=draw.code("BCDFGHKLMNPRTVX", 6, "booking"),
        direct=direct,
        classes=classes,
        low=draw.between(420, 760, "page height"),
    )


def plural(noun: str) -> str:
    """Return the plural of a journey's noun."""
    return noun[:-1] + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith("ch") else "s")


def clock(minutes: int) -> str:
    """Return minutes after midnight as HH:MM."""
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"


def view(site: Site, s: State) -> Screen:
    """Return a page of the booking site."""
    name, _, number = s["page"].partition(":")
    noun = JOURNEYS[site.words][0]
    nav = [
        ("nav:home", "Search", to(s, "home")),
        ("nav:calendar", "Low fares", to(s, "calendar")),
        ("nav:trips", "My trips", to(s, "trips")),
        ("nav:checkin", "Check in", to(s, "checkin")),
    ]
    titles = {
        "home": "Search",
        "results": plural(noun).capitalize(),
        "fare": "Your choice",
        "passenger": "Passenger",
        "done": "Booking confirmed",
        "calendar": "Low fares",
        "trips": "My trips",
        "trip": "Trip",
        "checkin": "Check in",
    }
    page = Page(site, s, "/" + s["page"].replace(":", "/").replace("home", ""), titles[name], nav, f"nav:{name}")
    PAGES[name](page, s, int(number or 0), noun)
    page.footer(
        [
            "About us",
            "Newsroom",
            "Partners",
            "Jobs",
            "Luggage",
            "Travel with pets",
            "Delays",
            "Help",
            "Conditions",
            "Privacy",
            "Imprint",
            "Accessibility",
        ],
        s["low"],
    )
    return page.screen()


def _form(page: Page, s: State) -> None:
    f = s["fields"]
    with page.across():
        page.field("from", "From", 130, "City")
        page.field("to", "To", 130, "City")
        page.field("date", "Date", 130, "for instance 3 March 2026")
    with page.across():
        page.choose("class", "Class", s["classes"], 130)
        page.choose("people", "Passengers", ("1", "2", "3", "4"), 90)
        full = bool(f.get("from") and f.get("to") and f.get("date"))
        page.button("search", "Search", to(s, "results") if full else None, "main", low=True)


def _home(page: Page, s: State, _: int, noun: str) -> None:
    page.add(
        "heading",
        f"Where to next, by {noun}?",
        page.width,
        84,
        "hero",
        value="Book early, change free of charge until the day before",
        tone=JOURNEYS[page.site.words][1],
    )
    with page.card():
        _form(page, s)
    page.heading("Ideas for a short trip", 14)
    with page.across(10):
        for i in range(3):
            page.add(
                "img", s["trips"][i]["to"], (page.width - 20) // 3, 70, "hero", value=f"from ${s['options'][i]['price']}", tone="plant"
            )


def _results(page: Page, s: State, _: int, noun: str) -> None:
    f = s["fields"]
    page.heading(f"{f['from']} to {f['to']}, {f['date']}", 15)
    with page.across():
        page.choose("sort", "Sort by", SORTS, 130)
        page.choose("stops", "Stops", ("Any", f"{s['direct']} only"), 130)
        page.button("more", "Show more results", None, low=True)
    if not s["runs"]:
        page.alert(f"No {plural(noun)} operate on this route on {f['date']}. The route is closed for the season.", "bad")
        return
    order = [i for i in range(5) if f.get("stops", "Any") == "Any" or not s["options"][i]["stops"]]
    sort = f.get("sort", SORTS[0])
    order.sort(key=lambda i: (s["options"][i]["price"] if sort == SORTS[1] else s["options"][i]["long"] if sort == SORTS[2] else 0, i))
    for i in order:
        o, x, y, w = s["options"][i], page.x, page.y, page.width
        page.add("generic", "", w, 42, "panel", at=(x, y))
        page.add("text", f"{clock(o['leave'])} - {clock(o['leave'] + o['long'])}", 110, 18, "text", at=(x + 12, y + 12), bold=True, size=13)
        page.add("text", f"{o['carrier']} {o['code']}", 140, 16, "text", at=(x + 130, y + 5))
        page.add("text", f"{o['long'] // 60} h {o['long'] % 60} min", 90, 15, "text", at=(x + 130, y + 22), tone="muted", size=11)
        page.add(
            "text",
            f"{o['stops']} stop{'s' if o['stops'] > 1 else ''}" if o["stops"] else s["direct"],
            70,
            16,
            "text",
            at=(x + 272, y + 12),
            tone="" if o["stops"] else "good",
        )
        page.add("text", f"${o['price']}", 60, 18, "text", at=(x + w - 150, y + 12), bold=True, size=14)
        page.button(
            f"pick:{i}",
            "Select",
            to(s, f"fare:{i}", chosen=i),
            "main" if i == order[0] else "",
            at=(x + w - 82, y + 8),
            about=f"{o['carrier']} {o['code']}",
        )
        page.y += 47


def _fare(page: Page, s: State, i: int, noun: str) -> None:
    o, f = s["options"][i], s["fields"]
    page.heading(f"Your {noun}")
    with page.card(420):
        page.pair("Route", f"{f.get('from', s['origin'])} to {f.get('to', s['goal'])}")
        page.pair("Date", f.get("date", s["day"]))
        page.pair("Times", f"{clock(o['leave'])} - {clock(o['leave'] + o['long'])}, {o['carrier']} {o['code']}")
        page.pair("Stops", str(o["stops"]) if o["stops"] else s["direct"])
        page.pair("Price", f"${o['price']}")
    with page.across():
        page.choose("seat", "Seat", SEATS, 120)
        page.choose("bag", "Luggage", BAGS, 120)
    with page.across():
        page.button("continue", "Continue", to(s, "passenger"), "main")
        page.button("back", "Back to results", to(s, "results") if f.get("from") else to(s, "home"))
    page.text("Seats and luggage can be changed later under My trips. Prices include taxes.", "muted")


def _passenger(page: Page, s: State, _: int, noun: str) -> None:
    f, o = s["fields"], s["options"][s["chosen"]]
    page.heading("Passenger")
    if s["notice"]:
        page.alert(s["notice"], "bad")
    with page.across():
        page.field("first", "First name", 150)
        page.field("last", "Last name", 150)
    page.field("email", "E-mail", 310, "you@mail.example")
    with page.card(420):
        page.pair(noun.capitalize(), f"{o['carrier']} {o['code']}, {clock(o['leave'])}")
        page.pair("Seat, luggage", f"{f.get('seat', SEATS[0])}, {f.get('bag', BAGS[0])}")
        page.pair("To pay", f"${o['price']}")
    email = f.get("email", "")
    wrong = not f.get("last") or "@" not in email or "." not in email.split("@")[-1]
    page.button(
        "book",
        "Confirm booking",
        stay(s, notice="Please enter a valid e-mail address and a last name. Nothing has been booked.") if wrong else to(s, "done"),
        "main",
    )
    page.text("We send the ticket by e-mail. The booking can be cancelled within a day.", "muted")


def _done(page: Page, s: State, _: int, noun: str) -> None:
    f, o = s["fields"], s["options"][s["chosen"]]
    page.alert(f"Booking confirmed: {o['carrier']} {o['code']} for {f.get('first', '')} {f.get('last', '')}", "good")
    page.heading("Have a good trip")
    with page.card(420):
        page.pair("Reference", s["code"])
        page.pair("Route", f"{f.get('from', s['origin'])} to {f.get('to', s['goal'])}")
        page.pair("Date", f.get("date", s["day"]))
        page.pair("Stops", str(o["stops"]) if o["stops"] else s["direct"])
        page.pair("Seat, luggage", f"{f.get('seat', SEATS[0])}, {f.get('bag', BAGS[0])}")
        page.pair("Total", f"${o['price']}")
    page.button("home", "New search", to(s, "home"))


def _calendar(page: Page, s: State, _: int, noun: str) -> None:
    page.heading(f"Lowest fares from {s['origin']}")
    page.text(f"{s['origin']} to {s['goal']}, {s['day']}", "muted")
    w = page.width
    page.table(
        ["Departure", "Operator", "Stops", "Fare", ""],
        [100, w - 340, 90, 70, 80],
        [
            [
                clock(o["leave"]),
                f"{o['carrier']} {o['code']}",
                str(o["stops"]) if o["stops"] else s["direct"],
                f"${o['price']}",
                (f"fare:{i}", "Choose", to(s, f"fare:{i}", chosen=i)),
            ]
            for i, o in enumerate(s["options"])
        ],
    )
    page.button("refresh", "Refresh fares", None)
    page.text("Fares are per person and were seen in the last hour.", "muted")


def _trips(page: Page, s: State, _: int, noun: str) -> None:
    page.heading("My trips")
    if s["cancelled"]:
        page.alert("Cancelled: " + ", ".join(s["trips"][i]["to"] for i in s["cancelled"]), "good")
    w = page.width
    page.table(
        ["Trip", "Date", "Status", ""],
        [w - 310, 140, 100, 70],
        [
            [
                (f"trip:{i}", f"{t['from']} to {t['to']}", to(s, f"trip:{i}")),
                t["date"],
                "Cancelled" if i in s["cancelled"] else "Confirmed",
                (f"open:{i}", "Open", to(s, f"trip:{i}")),
            ]
            for i, t in enumerate(s["trips"])
        ],
    )
    page.button("past", "Show all trips", None)
    page.text("Open a trip to see its reference, its gate and its options.", "muted")


def _trip(page: Page, s: State, i: int, noun: str) -> None:
    t = s["trips"][i]
    page.heading(f"Trip to {t['to']}")
    with page.card(400):
        page.pair("From", t["from"])
        page.pair("To", t["to"])
        page.pair("Departure date", t["date"])
        page.pair("Reference", t["ref"])
        page.pair("Gate", t["gate"])
        page.pair("Status", "Cancelled" if i in s["cancelled"] else "Confirmed", "bad" if i in s["cancelled"] else "good")
    with page.across():
        page.choose(
            "why", "Reason to cancel", ("Choose a reason", "Plans changed", "Illness", "Other"), 160, enabled=i not in s["cancelled"]
        )
        page.button(
            "cancel",
            "Cancel trip",
            to(s, "trips", cancelled=(*s["cancelled"], i), fields={k: v for k, v in s["fields"].items() if k != "why"}),
            "bad",
            i not in s["cancelled"],
            low=True,
        )
    page.button("back", "Back to my trips", to(s, "trips"))


def _checkin(page: Page, s: State, _: int, noun: str) -> None:
    page.heading("Check in")
    if s["notice"]:
        page.alert(s["notice"], "good" if s["notice"].startswith("Checked in") else "bad")
    with page.across():
        page.field("ref", "Booking reference", 150, "for instance ABC234")
        page.field("surname", "Last name", 150)
        page.choose("seat", "Seat", SEATS, 110)
    ref = s["fields"].get("ref", "").strip()
    known = next((t for t in s["trips"] if t["ref"] == ref and s["fields"].get("surname", "").strip() == s["name"]), None)
    page.button(
        "check",
        "Check in",
        stay(
            s,
            notice=f"Checked in for {known['to']}: {s['fields'].get('seat', SEATS[0])}, gate {known['gate']}"
            if known
            else f"No booking {ref} was found for this name."
            if ref
            else "Please enter a reference.",
        ),
        "main",
    )
    page.text("Check-in opens two days before departure.", "muted")


PAGES = {
    "home": _home,
    "results": _results,
    "fare": _fare,
    "passenger": _passenger,
    "done": _done,
    "calendar": _calendar,
    "trips": _trips,
    "trip": _trip,
    "checkin": _checkin,
}


def _search(s: State) -> list[Do]:
    return [
        Do("type", "from", s["origin"], "as the start"),
        Do("type", "to", s["goal"], "as the destination"),
        Do("type", "date", s["day"], "as the day of travel"),
        Do("click", "search", why="to see what runs that day"),
    ]


def _book(draw: Draw, first: str, last: str) -> list[Do]:
    email = f"{first}.{last}@mail.example".lower()
    return [
        Do("click", "continue", why="to go on"),
        Do("type", "first", first, "as the first name"),
        Do("type", "last", last, "as the last name"),
        Do("type", "email", email, "for the ticket", bad=draw.pick((email.replace("@", " at "), email.split("@")[0]), "bad email")),
        Do("click", "book", why="to book"),
    ]


def _person(draw: Draw) -> tuple[str, str]:
    return draw.pick(FIRST, "first"), draw.pick(LAST, "last")


def answer(site: Site, draw: Draw) -> Task:
    """Ask for the date of a booked trip."""
    s = world(draw, site)
    i = draw.below(3, "trip")
    t = s["trips"][i]
    plan = [
        Do("click", "nav:checkin", why="to see whether the booked trips are listed there"),
        Do("click", "nav:trips", why="to see the booked trips"),
        Do("click", f"trip:{i}", why="to read its details"),
    ]
    return Task(
        site,
        s,
        f"On which date is my trip to {t['to']} booked at {site.name}? Answer with the date.",
        plan,
        answer=t["date"],
        form="date",
        read=lambda screen: _after(screen, "Departure date"),
    )


def _after(screen: Screen, label: str) -> str:
    """Return the text beside a label."""
    names = [w.name for w in screen.widgets]
    return names[names.index(label) + 1] if label in names else ""


def limit(site: Site, draw: Draw) -> Task:
    """Book a direct journey within a price cap."""
    s = world(draw, site)
    noun = JOURNEYS[site.words][0]
    prices = {i: o["price"] for i, o in enumerate(s["options"])}
    best = min((i for i in prices if not s["options"][i]["stops"]), key=lambda i: prices[i])
    cap = prices[best] + draw.between(1, 4, "slack")
    dear = next(i for i in (3, 1) if i != best)
    if prices[dear] <= cap:
        s["options"][dear]["price"] = prices[dear] = cap + draw.between(9, 30, "over")
    first, last = _person(draw)
    bag = draw.pick(BAGS[1:], "bag")
    luggage = Do("select", "bag", bag, "as the task says")
    stops = Do("select", "stops", f"{s['direct']} only", "to leave out the others")
    plan = [
        *_search(s),
        stops,
        Do("click", f"pick:{best}", why=f"since it costs ${prices[best]}, within the limit of ${cap}"),
        luggage,
        *_book(draw, first, last),
    ]
    wrong = [
        *_search(s),
        stops,
        Do("click", f"pick:{dear}", why=f"because its time suits best, at ${prices[dear]}"),
        luggage,
        *_book(draw, first, last),
    ]
    o = s["options"][best]
    return Task(
        site,
        s,
        f"Book a {s['direct'].lower()} {noun} from {s['origin']} to {s['goal']} on {s['day']} that costs at most ${cap}, "
        f"with {bag.lower()}, for {first} {last}.",
        plan,
        proof=f"Booking confirmed: {o['carrier']} {o['code']} for {first} {last}",
        wrong=wrong,
    )


def save(site: Site, draw: Draw) -> Task:
    """Book a given departure; a bad e-mail is refused; the fare calendar is another way."""
    s = world(draw, site)
    noun = JOURNEYS[site.words][0]
    i = draw.below(5, "option")
    o = s["options"][i]
    first, last = _person(draw)
    seat = draw.pick(SEATS[1:], "seat")
    book = [Do("select", "seat", seat, "as the task says"), *_book(draw, first, last)]
    plan = [*_search(s), Do("click", f"pick:{i}", why="because this is the departure asked for"), *book]
    other = [
        Do("click", "nav:calendar", why="where the same departures are listed"),
        Do("click", f"fare:{i}", why="because this is the departure asked for"),
        *book,
    ]
    return Task(
        site,
        s,
        f'Book the {noun} "{o["carrier"]} {o["code"]}" from {s["origin"]} to {s["goal"]} on {s["day"]} at {clock(o["leave"])}, '
        f"seat: {seat}, for {first} {last}, e-mail {book[4].value}.",
        plan,
        proof=f"Booking confirmed: {o['carrier']} {o['code']} for {first} {last}",
        other=other,
    )


def multi(site: Site, draw: Draw) -> Task:
    """Cancel two trips."""
    s = world(draw, site)
    a, b = draw.some(range(3), 2, "trips")
    plan = [Do("click", "nav:trips", why="to see the booked trips")]
    for goal, i in enumerate((a, b)):
        plan += [
            Do("click", f"trip:{i}", why="to open it", goal=goal),
            Do("select", "why", "Plans changed", "since a reason is needed", goal),
            Do("click", "cancel", why="to cancel it", goal=goal),
        ]
    return Task(
        site,
        s,
        f'Cancel my trips to "{s["trips"][a]["to"]}" and "{s["trips"][b]["to"]}".',
        plan,
        proof=f"Cancelled: {s['trips'][a]['to']}, {s['trips'][b]['to']}",
    )


def note(site: Site, draw: Draw) -> Task:
    """Look up a reference and check in with it."""
    s = world(draw, site)
    i = draw.below(3, "trip")
    t = s["trips"][i]
    seat = draw.pick(SEATS[1:], "seat")
    plan = [
        Do("click", "nav:trips", why="to see the booked trips"),
        Do("click", f"trip:{i}", why="to read its reference", note=f"booking reference = {t['ref']}"),
        Do("click", "nav:checkin", why="to open the check-in form"),
        Do("type", "ref", t["ref"], "which I noted before", note="use"),
        Do("type", "surname", s["name"], "as the task says"),
        Do("select", "seat", seat, "as the task says"),
        Do("click", "check", why="to check in"),
    ]
    return Task(
        site,
        s,
        f'Check in for my trip to {t["to"]} (last name {s["name"]}) and choose the seat "{seat}".',
        plan,
        proof=f"Checked in for {t['to']}: {seat}, gate {t['gate']}",
    )


def unsat(site: Site, draw: Draw) -> Task:
    """Book a journey on a day when nothing runs."""
    task = save(site, draw)
    task.start["runs"], noun = False, JOURNEYS[site.words][0]
    task.plan = [
        *task.plan[:4],
        Do("select", "sort", SORTS[1], "in case the list is only hidden"),
        Do("click", "nav:home", why="to search again"),
        Do("select", "class", task.start["classes"][1], "to see whether another class runs"),
        Do("click", "search", why="to search again"),
    ]
    task.other = []
    task.barrier = f"No {plural(noun)} operate on this route on {task.start['day']}."
    return task


APP = App(view, {"answer": answer, "limit": limit, "save": save, "multi": multi, "note": note, "unsat": unsat})
