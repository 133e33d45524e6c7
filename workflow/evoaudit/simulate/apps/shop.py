"""A shop: search, product pages, cart, checkout, orders and returns."""

from evoaudit.simulate.draw import Draw
from evoaudit.simulate.engine import App, Do, Task, put, start, stay, to
from evoaudit.simulate.screen import Page, Screen, State
from evoaudit.simulate.sites import Site
from evoaudit.simulate.words import FIRST, GOODS, LAST, MONTHS

SORTS = ("Best match", "Price: low to high", "Price: high to low", "Top rated")
SHIPPING = ("Standard", "Express", "Pick up")
FEES = {"Standard": 490, "Express": 1290, "Pick up": 0}
REASONS = ("Damaged", "Wrong item", "Changed my mind")


def money(cents: int) -> str:
    """Return cents as dollars, for instance ``$1,234.00``."""
    return f"${cents // 100:,}.{cents % 100:02d}"


def world(draw: Draw, site: Site) -> State:
    """Return a shop with eight products of two kinds and three earlier orders."""
    kinds, adjectives = GOODS[site.words]
    goods = []
    for k, (word, icon, nouns, label, options) in enumerate(kinds):
        for i, adjective in enumerate(draw.some(adjectives, 4, "adjective", k)):
            base = draw.between(90, 420, "base", k) if icon in ("phone", "headphones", "chair") else draw.between(8, 46, "base", k)
            price = (base + i * draw.between(9, 16, "gap", k) * max(1, base // 40)) * 100 + draw.pick((0, 50, 99, 95), "cents", k, i)
            goods.append(
                {
                    "name": f"{adjective} {nouns[draw.below(4, 'noun', k, i)]}",
                    "word": word,
                    "icon": icon,
                    "price": price,
                    "label": label,
                    "options": options,
                    "stars": draw.between(3, 5, "stars", k, i),
                    "stock": True,
                    "art": draw.below(8, "art", k, i),
                    "weight": f"{draw.between(2, 48, 'weight', k, i) / 10} kg",
                    "sku": draw.code("ACDEFHJKLMNPRT", 2, "sku", k, i) + draw.code("123456789", 4, "n", k, i),
                }
            )
    goods = [goods[i] for i in draw.some(range(8), 8, "shelf")]
    orders = [
        {
            "number": f"{draw.code('ABCDEFGH', 1, 'o', i)}-{draw.code('123456789', 5, 'n', i)}",
            "item": goods[i]["name"],
            "total": goods[i]["price"] + 490,
            "date": f"{draw.between(1, 28, 'day', i)} {draw.pick(MONTHS, 'month', i)} 2026",
        }
        for i in range(3)
    ]
    return start(
        "home",
        goods=goods,
        orders=orders,
        cart=(),
        sort=SORTS[0],
        query="",
        found=(),
        code=draw.code("123456789", 6, "code"),
        low=draw.between(420, 880, "page height"),
    )


def view(site: Site, s: State) -> Screen:
    """Return a shop page."""
    name, _, number = s["page"].partition(":")
    count = sum(q for _, q, _ in s["cart"])
    nav = [("nav:home", "Home", to(s, "home")), ("nav:cart", f"Cart ({count})", to(s, "cart")), ("nav:orders", "Orders", to(s, "orders"))]
    page = Page(
        site,
        s,
        "/" + s["page"].replace(":", "/").replace("home", ""),
        {
            "home": "Home",
            "results": "Search",
            "item": "Product",
            "cart": "Cart",
            "checkout": "Checkout",
            "done": "Thank you",
            "orders": "Orders",
            "order": "Order",
            "returns": "Returns",
        }[name],
        nav,
        f"nav:{name}",
    )
    PAGES[name](page, s, int(number or 0))
    page.footer(
        [
            "About us",
            "Careers",
            "Press",
            "Gift cards",
            "Delivery",
            "Returns policy",
            "Size guide",
            "Contact",
            "Privacy",
            "Terms",
            "Cookies",
            "Accessibility",
        ],
        s["low"],
    )
    return page.screen()


def _search(page: Page, s: State) -> None:
    with page.across():
        page.field("q", "Search products", 240, "What are you looking for?")
        query = s["fields"].get("q", "").strip().lower()
        found = tuple(i for i, g in enumerate(s["goods"]) if query and (query in g["name"].lower() or g["word"] in query))
        page.button(
            "search",
            "Search",
            to(s, "results", query=query, found=found, sort=s["fields"].get("sort", SORTS[0])) if query else None,
            "main",
            low=True,
        )


def _home(page: Page, s: State, _: int) -> None:
    page.add(
        "heading",
        f"New at {page.site.name}",
        page.width,
        78,
        "hero",
        value="Free returns within thirty days on every order",
        tone=s["goods"][0]["icon"],
    )
    _search(page, s)
    page.heading("Popular this week", 14)
    _cards(page, s, range(4))


def _cards(page: Page, s: State, items) -> None:
    w = (page.width - 30) // 4
    for k, i in enumerate(items):
        g = s["goods"][i]
        x, y = page.x + k * (w + 10), page.y
        page.add("generic", "", w, 128, "panel", at=(x, y))
        page.add("img", "", w - 16, 56, "art", at=(x + 8, y + 8), tone=g["icon"], size=g["art"])
        page.add("link", g["name"], w - 14, 17, "link", f"item:{i}", at=(x + 8, y + 70), then=to(s, f"item:{i}"))
        page.add("img", "", 66, 14, "stars", at=(x + 8, y + 88), value=str(g["stars"]))
        page.add("text", money(g["price"]), w - 16, 16, "text", at=(x + 8, y + 106), bold=True)
    page.y += 136


def _results(page: Page, s: State, _: int) -> None:
    with page.across():
        page.field("q", "Search products", 200)
        query = s["fields"].get("q", "").strip().lower()
        found = tuple(i for i, g in enumerate(s["goods"]) if query and (query in g["name"].lower() or g["word"] in query))
        page.button("search", "Search", to(s, "results", query=query, found=found) if query else None, "main", low=True)
        page.choose("sort", "Sort by", SORTS, 140)
    sort = s["fields"].get("sort", SORTS[0])
    found = list(s["found"])
    if sort != SORTS[0]:
        found.sort(
            key=lambda i: (-s["goods"][i]["stars"] if sort == SORTS[3] else s["goods"][i]["price"] * (-1 if sort == SORTS[2] else 1), i)
        )
    with page.across():
        page.text(f"{len(found)} results for '{s['query']}'", bold=True, size=13)
        page.button("all", "Show all results", None)
    if not found:
        page.alert("No products match your search.", "warm")
    for i in found:
        g = s["goods"][i]
        x, y, w = page.x, page.y, page.width
        page.add("generic", "", w, 50, "panel", at=(x, y))
        page.add("img", "", 50, 38, "art", at=(x + 6, y + 6), tone=g["icon"], size=g["art"])
        page.add("link", g["name"], w - 240, 17, "link", f"item:{i}", at=(x + 66, y + 8), then=to(s, f"item:{i}"), bold=True, size=13)
        page.add("img", "", 66, 14, "stars", at=(x + 66, y + 29), value=str(g["stars"]))
        page.add("text", money(g["price"]), 80, 17, "text", at=(x + w - 160, y + 16), bold=True, size=13)
        page.add(
            "text",
            "In stock" if g["stock"] else "Out of stock",
            70,
            16,
            "text",
            at=(x + w - 78, y + 17),
            tone="good" if g["stock"] else "bad",
            size=11,
        )
        page.y += 56


def _item(page: Page, s: State, i: int) -> None:
    g = s["goods"][i]
    top, left, width = page.y, page.x, page.width
    page.add("img", "", 170, 170, "art", at=(left, top), tone=g["icon"], size=g["art"])
    page.x, page.width = left + 190, width - 190
    page.heading(g["name"], 18)
    with page.across():
        page.add("img", "", 68, 14, "stars", value=str(g["stars"]))
        page.text(f"{g['stars']} of 5 · item {g['sku']}", "muted", 11)
    page.text(money(g["price"]), size=18, bold=True)
    if g["stock"]:
        page.text("In stock, leaves our store within two days", "good")
    else:
        page.alert("Out of stock: this product has been discontinued.", "bad")
    with page.across():
        page.choose("option", g["label"], g["options"], 130)
        page.choose("quantity", "Quantity", ("1", "2", "3", "4"), 70)
    f = s["fields"]
    quantity = int(f.get("quantity", "1")) if f.get("quantity", "1").isdigit() else 1
    line = (i, quantity, f.get("option", g["options"][0]) if f.get("option") in g["options"] else g["options"][0])
    fresh = {k: v for k, v in f.items() if k not in ("option", "quantity")}
    with page.across():
        page.button("add", "Add to cart", to(s, "cart", cart=(*s["cart"], line), fields=fresh), "main", g["stock"])
        page.button("buy", "Buy now", to(s, "checkout", cart=(line,), fields=fresh), "", g["stock"])
        page.button("specs", "Specifications", stay(s, notice="specs"))
    if s["notice"] == "specs":
        with page.card():
            page.pair("Weight", g["weight"])
            page.pair(g["label"], ", ".join(g["options"]))
    page.x, page.width = left, width
    page.y = max(page.y, top + 182)
    page.heading("Others also bought", 14)
    _cards(page, s, [(i + k) % 8 for k in (1, 2, 3, 4)])


def _total(s: State) -> int:
    return sum(s["goods"][i]["price"] * q for i, q, _ in s["cart"])


def _cart(page: Page, s: State, _: int) -> None:
    count = sum(q for _, q, _ in s["cart"])
    page.heading("Your cart")
    if not s["cart"]:
        page.text("Your cart is empty.", "muted")
    else:
        page.alert(
            f"{count} {'item' if count == 1 else 'items'} in your cart: " + ", ".join(s["goods"][i]["name"] for i, _, _ in s["cart"]),
            "good",
        )
        rows = [
            [
                (f"line:{k}", s["goods"][i]["name"], to(s, f"item:{i}")),
                option,
                str(q),
                money(s["goods"][i]["price"] * q),
                (f"remove:{k}", "Remove", stay(s, cart=s["cart"][:k] + s["cart"][k + 1 :])),
            ]
            for k, (i, q, option) in enumerate(s["cart"])
        ]
        w = page.width
        page.table(["Product", "Option", "Qty", "Price", ""], [w - 290, 90, 40, 90, 70], rows)
        page.pair("Subtotal", money(_total(s)))
    with page.across():
        page.button("checkout", "Check out", to(s, "checkout"), "main", bool(s["cart"]))
        page.button("more", "Continue shopping", to(s, "home"))
    page.heading("You may also like", 14)
    _cards(page, s, (4, 5, 6, 7))


def _checkout(page: Page, s: State, _: int) -> None:
    page.heading("Checkout")
    if s["notice"]:
        page.alert(s["notice"], "bad")
    f = s["fields"]
    with page.across():
        page.field("name", "Full name", 190)
        page.field("street", "Street", 150)
        page.field("postcode", "Postcode", 90, "5 digits")
    with page.across():
        page.field("email", "E-mail", 190, "you@mail.example")
        page.choose("shipping", "Shipping", SHIPPING, 130)
    page.check("news", "Send me offers by e-mail", {**s, "fields": put(s, news="" if f.get("news") else "yes")}, bool(f.get("news")))
    fee = FEES[f.get("shipping", SHIPPING[0])]
    with page.card(300):
        page.pair("Items", ", ".join(f"{s['goods'][i]['name']} x {q}" for i, q, _ in s["cart"]) or "none")
        page.pair("Shipping", money(fee))
        page.pair("Total", money(_total(s) + fee))
    problem = (
        "Please enter your full name."
        if len(f.get("name", "")) < 3
        else "Please enter a valid postcode (5 digits). Your order has not been placed."
        if not (f.get("postcode", "").isdigit() and len(f.get("postcode", "")) == 5)
        else ""
    )
    page.button("place", "Place order", stay(s, notice=problem) if problem else to(s, "done"), "main")


def _done(page: Page, s: State, _: int) -> None:
    f = s["fields"]
    fee = FEES[f.get("shipping", SHIPPING[0])]
    page.alert(f"Order confirmed: {', '.join(s['goods'][i]['name'] for i, _, _ in s['cart'])}", "good")
    page.heading(f"Thank you, {f.get('name', '')}")
    with page.card(380):
        page.pair("Order number", f"N-{s['code']}")
        for i, q, option in s["cart"]:
            page.pair(f"{q} x {option}", f"{s['goods'][i]['name']}, {money(s['goods'][i]['price'] * q)}")
        page.pair("Shipping", f"{f.get('shipping', SHIPPING[0])}, {money(fee)}")
        page.pair("Total", money(_total(s) + fee))
    page.button("more", "Continue shopping", to(s, "home", cart=()))


def _orders(page: Page, s: State, _: int) -> None:
    page.heading("Your orders")
    w = page.width
    page.table(
        ["Order", "Product", "Date", ""],
        [80, w - 290, 130, 80],
        [[(f"order:{i}", f"Order {i + 1}", to(s, f"order:{i}")), o["item"], o["date"], "Delivered"] for i, o in enumerate(s["orders"])],
    )
    with page.across():
        page.button("returns", "Start a return", to(s, "returns"))
        page.button("refresh", "Refresh list", None)
    page.text("Returns are free within thirty days. Open an order to see its number and its total.", "muted")


def _order(page: Page, s: State, i: int) -> None:
    o = s["orders"][i]
    page.heading(f"Order {i + 1}")
    with page.card(360):
        page.pair("Order number", o["number"])
        page.pair("Product", o["item"])
        page.pair("Date", o["date"])
        page.pair("Total", money(o["total"]))
        page.pair("Status", "Delivered", "good")
    with page.across():
        page.button("returns", "Start a return", to(s, "returns"))
        page.button("back", "Back to orders", to(s, "orders"))


def _returns(page: Page, s: State, _: int) -> None:
    page.heading("Start a return")
    if s["notice"]:
        page.alert(s["notice"], "good" if s["notice"].startswith("Return started") else "bad")
    with page.across():
        page.field("number", "Order number", 140, "for instance A-12345")
        page.choose("reason", "Reason", REASONS, 150)
    page.field("comment", "Comment", 300)
    given = s["fields"].get("number", "").strip()
    known = next((o for o in s["orders"] if o["number"] == given), None)
    page.button(
        "start",
        "Start return",
        stay(
            s,
            notice=f"Return started for order {given}: {known['item']}"
            if known
            else f"There is no order {given} on your account."
            if given
            else "Please enter an order number.",
        ),
        "main",
    )
    page.text("You will get a label by e-mail. Print it and hand the parcel in at any counter.", "muted")


PAGES = {
    "home": _home,
    "results": _results,
    "item": _item,
    "cart": _cart,
    "checkout": _checkout,
    "done": _done,
    "orders": _orders,
    "order": _order,
    "returns": _returns,
}


def _find(s: State, i: int, goal: int = 0, sort: str | None = None) -> list[Do]:
    """Return the acts from the home page to product ``i``."""
    g = s["goods"][i]
    acts = [Do("type", "q", g["word"], f"to look for the {g['word']}", goal), Do("click", "search", why="to run the search", goal=goal)]
    if sort:
        acts.append(Do("select", "sort", sort, "so that the list is in a useful order", goal))
    return [*acts, Do("click", f"item:{i}", why="because it is the one the task names", goal=goal)]


def _pay(draw: Draw, shipping: str, name: str, postcode: str) -> list[Do]:
    bad = postcode[:3] + draw.pick(("", "A", "4O"), "bad postcode")
    return [
        Do("type", "name", name, "as the task says"),
        Do("type", "postcode", postcode, "as the task says", bad=bad),
        Do("select", "shipping", shipping, "to get the shipping asked for"),
        Do("click", "place", why="to place the order"),
    ]


def _buyer(draw: Draw) -> tuple[str, str, str]:
    return (
        f"{draw.pick(FIRST, 'first')} {draw.pick(LAST, 'last')}",
        draw.code("123456789", 5, "postcode"),
        draw.pick(SHIPPING[1:], "shipping"),
    )


def answer(site: Site, draw: Draw) -> Task:
    """Ask for the price of a product."""
    s = world(draw, site)
    i = draw.below(8, "product")
    g = s["goods"][i]
    g["price"] = draw.between(1001, 1980, "price") * 100 + draw.pick((0, 0, 50), "cents of price")
    plan = [*_find(s, i, sort=draw.pick(SORTS[1:], "sort")), Do("click", "specs", why="to be sure that this is the right model")]
    return Task(
        site,
        s,
        f'What does the "{g["name"]}" cost at {site.name}? Answer with the price.',
        plan,
        answer=money(g["price"]),
        form="money",
        read=lambda screen: next((w.name for w in screen.widgets if w.role == "text" and w.name.startswith("$")), ""),
    )


def limit(site: Site, draw: Draw) -> Task:
    """Order a product of a kind within a price cap."""
    s = world(draw, site)
    word = draw.pick(sorted({g["word"] for g in s["goods"]}), "word")
    kin = sorted((i for i, g in enumerate(s["goods"]) if g["word"] == word), key=lambda i: (s["goods"][i]["price"], i))
    best, dear = kin[0], kin[-1]
    cap = (
        (s["goods"][kin[1]]["price"] // 100) - 1
        if s["goods"][kin[1]]["price"] > s["goods"][best]["price"] + 200
        else s["goods"][best]["price"] // 100 + 1
    )
    s["goods"][dear]["price"] = max(s["goods"][dear]["price"], (cap + 9) * 100)
    name, postcode, shipping = _buyer(draw)
    tail = [
        Do("click", "add", why="to put it in the cart"),
        Do("click", "checkout", why="to go on to the checkout"),
        *_pay(draw, shipping, name, postcode),
    ]
    plan = [*_find(s, best, sort=SORTS[1]), *tail]
    plan[3].why = f"since it costs {money(s['goods'][best]['price'])}, within the limit of ${cap}"
    wrong = [*_find(s, dear, sort=SORTS[3]), *[Do(**{k: getattr(d, k) for k in d.__slots__}) for d in tail]]
    wrong[3].why = f"because its reviews are good, at {money(s['goods'][dear]['price'])}"
    return Task(
        site,
        s,
        f"Order one {word} that costs at most ${cap} (without shipping) with {shipping} shipping, for {name}, postcode {postcode}.",
        plan,
        proof=f"Order confirmed: {s['goods'][best]['name']}",
        wrong=wrong,
    )


def save(site: Site, draw: Draw) -> Task:
    """Order a given product; the checkout refuses a bad postcode; "Buy now" is another way."""
    s = world(draw, site)
    i = draw.below(8, "product")
    name, postcode, shipping = _buyer(draw)
    find = _find(s, i)
    pay = _pay(draw, shipping, name, postcode)
    option = draw.pick(s["goods"][i]["options"][1:], "option")
    pick = Do("select", "option", option, "as the task says")
    plan = [*find, pick, Do("click", "add", why="to put it in the cart"), Do("click", "checkout", why="to go on to the checkout"), *pay]
    other = [*find, pick, Do("click", "buy", why="which is the short way to the checkout"), *pay]
    return Task(
        site,
        s,
        f'Order the "{s["goods"][i]["name"]}" ({s["goods"][i]["label"].lower()}: {option}) '
        f"with {shipping} shipping, for {name}, postcode {postcode}.",
        plan,
        proof=f"Order confirmed: {s['goods'][i]['name']}",
        other=other,
    )


def multi(site: Site, draw: Draw) -> Task:
    """Put two products in the cart."""
    s = world(draw, site)
    a, b = draw.some(range(8), 2, "products")
    plan = []
    for goal, i in enumerate((a, b)):
        if goal:
            plan.append(Do("click", "more", why="to look for the second product", goal=1))
        plan += [
            *_find(s, i, goal),
            Do("select", "quantity", draw.pick(("2", "3"), "quantity", goal), "as the task says", goal),
            Do("click", "add", why="to put it in the cart", goal=goal),
        ]
    qa, qb = plan[3].value, plan[9].value
    return Task(
        site,
        s,
        f'Put {qa} of the "{s["goods"][a]["name"]}" and {qb} of the "{s["goods"][b]["name"]}" in the cart.',
        plan,
        proof=f"{int(qa) + int(qb)} items in your cart: {s['goods'][a]['name']}, {s['goods'][b]['name']}",
    )


def note(site: Site, draw: Draw) -> Task:
    """Look up an order's number and start a return for it."""
    s = world(draw, site)
    i = draw.below(3, "order")
    o = s["orders"][i]
    reason = draw.pick(REASONS[1:], "reason")
    plan = [
        Do("click", "nav:orders", why="to see the earlier orders"),
        Do("click", f"order:{i}", why="to read its number", note=f"order number = {o['number']}"),
        Do("click", "returns", why="to open the return form"),
        Do("type", "number", o["number"], "which I noted before", note="use"),
        Do("select", "reason", reason, "as the task says"),
        Do("type", "comment", draw.pick(("Please send a label.", "Box is unopened.", "Thank you."), "comment"), "to be polite"),
        Do("click", "start", why="to send the form"),
    ]
    return Task(
        site,
        s,
        f'Start a return for the order of the "{o["item"]}" from {o["date"]}; give "{reason}" as the reason.',
        plan,
        proof=f"Return started for order {o['number']}: {o['item']}",
    )


def unsat(site: Site, draw: Draw) -> Task:
    """Order a product that is no longer sold."""
    task = save(site, draw)
    place = next(k for k, d in enumerate(task.plan) if d.key.startswith("item:"))
    task.start["goods"][int(task.plan[place].key[5:])]["stock"] = False
    task.plan = [
        *task.plan[: place + 1],
        Do("click", "specs", why="to see whether another version exists"),
        Do("click", "nav:home", why="to search once more"),
        *_find(task.start, int(task.plan[place].key[5:]))[:2],
    ]
    task.other = []
    task.barrier = "Out of stock: this product has been discontinued."
    return task


APP = App(view, {"answer": answer, "limit": limit, "save": save, "multi": multi, "note": note, "unsat": unsat})
