"""The instance browser in a real Chromium, opened as a file, and the files it is made of."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from made_items import EVEN, HOSTILE, MODELS, NUMBERS, items, manifest, png, stats, write
from made_tab import CONTRAST, chromium, sync_api, tab

from evoaudit import prompts, store
from evoaudit.__main__ import main
from evoaudit.places import trajectory_page
from evoaudit.report import items as browser
from evoaudit.report.answers import Scores, names_of
from evoaudit.report.slugs import slugs
from evoaudit.resources import PROMPTS

__all__ = ["chromium", "tab"]

HOW = {"name": "demo", "seed": 7, "prompt_folder": PROMPTS / "evogui-v1"}
SLUG = slugs(MODELS)
HASH = "new URLSearchParams(new URL(a.href).hash.slice(1))"
SOURCES = "all => all.map((image) => image.getAttribute('src'))"
#: Everything on the page that could run or lead somewhere.
ACTIVE = """() => [...document.querySelectorAll("script[src], img, a[href], iframe, object, [onerror], [onclick]")].map(
  (one) => `${one.tagName} ${one.getAttribute("src") || one.href || ""}`)"""


def built(root: Path, *sets: browser.ItemSet, **more: object) -> Path:
    report = root / "report"
    report.mkdir(parents=True)
    browser.build(report, sets, root / "stats" if (root / "stats").is_dir() else stats(root), **(HOW | more))
    return report / "items"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """The browser of the small run; one of its trajectories has a page of its own."""
    root = tmp_path_factory.mktemp("items")
    page = root / "report" / trajectory_page("web:1")
    page.parent.mkdir(parents=True)
    page.write_text("a page")
    browser.build(root / "report", [write(root)], stats(root), **HOW)
    return root / "report" / "items"


@pytest.fixture
def at(tab, run) -> Callable:
    """Open the browser at an address."""

    def open_(fragment: str = "", folder: Path = run, **options):
        return tab(folder, fragment=f"#{fragment}" if fragment else "", **options)

    return open_


def listed(one) -> list[str]:
    """Return the ids of the rows, from their addresses."""
    return one.page.eval_on_selector_all("#rows a", f"all => all.map((a) => {HASH}.get('item'))")


def opened(one) -> str | None:
    return one.page.get_attribute("#item", "data-item")


def shows(one, selector: str, text: str) -> None:
    sync_api.expect(one.page.locator(selector)).to_contain_text(text)


def item_is(one, id: str) -> None:
    """Wait until an item is open."""
    sync_api.expect(one.page.locator("#item")).to_have_attribute("data-item", id)


def tab_is(one, place: int) -> None:
    """Choose a way of asking and wait until the item is shown so."""
    one.page.locator(".tabs button").nth(place).click()
    sync_api.expect(one.page.locator(".tabs button").nth(place)).to_have_attribute("aria-pressed", "true")


# What is shown of an item.


def test_an_item_is_shown_as_it_was_asked_with_every_answer(at):
    one = at("item=t3-1")
    assert opened(one) == "t3-1" and "T3 · long skip" in one.page.text_content("#item h2")
    assert one.page.text_content("#item .goal") == "Buy the blue kettle, number 1"
    assert one.page.eval_on_selector_all("#item figure", "all => all.map((f) => [f.className, f.textContent])") == [
        ["", "Start"],
        ["", "Candidate A: the distractor"],
        ["right", "Candidate B: what followed"],
    ]
    assert one.page.locator(".choices .right").text_content().startswith("B")
    rows = one.page.eval_on_selector_all("#item tbody tr", "all => all.map((row) => [...row.cells].map((cell) => cell.textContent))")
    outcomes = {row[0]: row[1:4] for row in rows}
    assert outcomes["all-but-three"] == ["right", "B", "0.75"] and outcomes["mute"] == ["no answer", "", ""]
    assert outcomes["babbler"][0] == "unusable" and outcomes["random (1)"][:2] == outcomes["random (2)"][:2] == ["wrong", "A"]
    assert [row[1] for row in rows] == ["right", "wrong", "unusable", "no answer", "wrong", "wrong"]
    assert "refused" in rows[3][4] and rows[0][4] == '{"answer": "B", "confidence": 0.75}'
    assert "1 of 3 models right, 1 wrong, 1 unusable, 1 without an answer" in one.page.text_content("#item h3")
    assert one.faults == []


def test_the_prompt_is_the_one_that_was_sent(at):
    one = at("item=t3-1").press("p")
    shows(one, "#item details.prompts", "is the one that was recorded")
    said = prompts.render(prompts.shipped()["t3"], items()["t3"][1])
    texts = [part.text for message in said for part in message.parts if isinstance(part, prompts.Text)]
    assert one.page.locator("#item .prompt pre").all_text_contents() == texts
    tab_is(one, 1)
    one.press("p")
    shows(one, "#item details.prompts", "not quite the words that were sent")


def test_the_way_most_models_were_asked_comes_first_and_other_picture_sizes_are_told(at, tmp_path):
    made = write(tmp_path, ("all-but-three", "mute"), conditions=())
    rows = store.read_rows(made.scores, "scores")
    small = [{**row, "max_image_side": 256} for row in rows if row["model"] == "mute"]
    store.write_table(made.scores, "scores", small + rows)
    one = at("item=t3-0", built(tmp_path, made))
    assert one.page.locator(".tabs button").all_text_contents() == ["own pictures, 512 px", "own pictures, 256 px"]
    assert "models saw the same screens" not in one.page.text_content("#item")
    tab_is(one, 1)
    assert "those of 512 px; asked this way, models saw the same screens at up to 256 px" in one.page.text_content("#item")
    assert one.page.locator("#item tbody tr").count() == 1 and one.faults == []


def test_each_condition_shows_the_pictures_it_sent(at):
    one = at("item=t2-1")
    tabs = one.page.locator(".tabs button")
    assert tabs.all_text_contents() == [
        f"{words}, 512 px" for words in ("own pictures", "black pictures", "metadata only", "another item's pictures", "after picture only")
    ]
    shot = "#item figure"
    own = one.page.eval_on_selector_all(f"{shot} img", SOURCES)
    tab_is(one, 1)
    assert one.page.locator(f"{shot} .black").count() == 2 and one.page.locator(f"{shot} img").count() == 0
    tab_is(one, 2)
    assert one.page.locator(shot).count() == 0 and "No pictures were shown" in one.page.text_content("#item")
    tab_is(one, 3)
    lent = one.page.eval_on_selector_all(f"{shot} img", SOURCES)
    assert "item=t2-2" in one.page.get_attribute("#item .answer a", "href")
    assert len(lent) == 2 and not set(lent) & set(own) and "of another item" in one.page.text_content(shot + " >> nth=0")
    tab_is(one, 4)
    assert one.page.eval_on_selector_all(f"{shot} img", SOURCES) == own[1:]
    assert one.faults == []


def test_where_an_item_is_from_is_told_and_leads_to_its_trajectory(at, run):
    one = at("item=t3-1")
    one.page.click("#item .facts-box summary")
    text = one.page.text_content("#item .facts")
    assert "web:1" in text and "step 8 of the same trajectory, 7 screens after the start" in text
    sources = one.page.eval_on_selector_all("#item img", SOURCES)
    shown = [source.split("/")[1].removesuffix(".png") for source in sources]
    assert all(sha in text for sha in shown) and "t3-1-0" in text
    assert all(hashlib.sha256((run / "pictures" / f"{sha}.png").read_bytes()).hexdigest() == sha for sha in shown)
    one.page.click("#item .facts a")
    assert one.page.text_content("body") == "a page"


def test_the_same_folder_works_from_a_web_host(chromium, run):
    handler = partial(SimpleHTTPRequestHandler, directory=str(run.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        page, faults = chromium.new_page(), []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if "Policy" in message.text else None)
        page.goto(f"http://127.0.0.1:{server.server_port}/items/#item=t3-1")
        page.wait_for_selector("#item[data-item='t3-1']")
        page.wait_for_function("() => [...document.querySelectorAll('#item img')].every((image) => image.naturalWidth === 96)")
        assert faults == []
        page.close()
        server.shutdown()


# Filters, counts, addresses.


def test_outcomes_are_counted_and_filtered(at):
    one = at()
    assert one.page.locator("#outcomes button").all_text_contents() == [
        *("All 14", "Wrong by all 3", "Right by all 3", "Split decisions 8", "Unusable by some 11", "Unanswered by some 14")
    ]
    one.page.click("#outcomes button:nth-child(2)")
    shows(one, "#matching", "3 of 14 items")
    assert listed(one) == ["t1-3", "t2-3", "t3-3"]
    one.page.select_option("#question", "t3")
    shows(one, "#matching", "1 of 14 items")
    assert one.page.text_content("#outcomes button:nth-child(1)") == "All 6"
    one.page.click("#clear")
    shows(one, "#matching", "14 items")


def test_what_models_got_wrong_and_others_right(at):
    one = at()
    one.page.select_option("#model", SLUG[EVEN])
    shows(one, "#matching", "7 of 14 items")
    one.page.select_option("#model2", "all-but-three")
    shows(one, "#matching", "4 of 14 items")
    assert listed(one) == ["t1-1", "t2-1", "t3-1", "t3-5"]
    one.page.select_option("#is", "value")
    shows(one, "#matching", "1 of 14 items")
    assert listed(one) == ["t2-1"]
    assert one.page.locator("#is option").all_text_contents()[:3] == ["wrong (4)", "right (7)", "right in action, wrong in value (1)"]
    assert one.page.locator("#is2 option").all_text_contents()[:2] == ["wrong (1)", "right (1)"]


def test_outcomes_are_those_of_the_way_of_asking_that_is_chosen(at):
    one = at("as=after_only-512&task=t2")
    told = one.page.locator("#outcomes button").all_text_contents()
    assert told[:4] == ["All 4", "Wrong by all 1", "Right by all 3", "Split decisions 0"]
    assert "0 of 1 right" in one.page.text_content("#rows li:nth-child(4)")
    item_is(one.press("j"), "t2-0")
    assert one.page.text_content(".tabs [aria-pressed=true]") == "after picture only, 512 px"
    one.page.select_option("#as", "black-512")
    sync_api.expect(one.page.locator(".tabs [aria-pressed=true]")).to_have_text("black pictures, 512 px")
    assert one.page.locator("#item .black").count() == 2 and "as=black-512" in one.page.url


def test_the_search_reads_goals_and_ids(at):
    one = at()
    one.page.fill("#q", "kettle blue")
    assert len(listed(one)) == 7 and "7 of 14" in one.page.text_content("#matching")
    one.page.fill("#q", "t1-2")
    assert listed(one) == ["t1-2"]
    one.page.fill("#q", "no such words")
    assert listed(one) == [] and "No item is like this" in one.page.text_content("#list")


def test_the_most_divided_come_first_among_split_decisions(at):
    one = at("filter=split&task=t3")
    assert listed(one) == ["t3-1", "t3-2", items()["t3"][4]["instance_id"], "t3-5"]
    one.page.select_option("#sort", "easy")
    sync_api.expect(one.page.locator("#rows a").first).to_contain_text("2 of 3 right")
    assert listed(one)[2:] == ["t3-1", "t3-5"]


@pytest.mark.parametrize(
    ("fragment", "ids", "item"),
    [
        ("filter=wrong-by-all&task=t2", ["t2-3"], None),
        ("filter=long-skip", ["t3-0", "t3-1"], None),
        ("filter=right-by-all,long_skip&item=t3-0", ["t3-0"], "t3-0"),
        (f"model={SLUG[EVEN]}&task=t1", ["t1-1", "t1-3"], None),
        ("model=no-such-model&filter=no-such&task=t1&item=t2-0", ["t1-0", "t1-1", "t1-2", "t1-3"], "t2-0"),
        ("domain=forum&kind=K%3D3", ["t1-1", "t1-3"], None),
    ],
)
def test_an_address_holds_what_is_shown(at, fragment, ids, item):
    one = at(fragment)
    assert listed(one) == ids and opened(one) == item and one.faults == []


def test_the_way_of_asking_that_is_looked_at_is_in_the_address_and_back_undoes_it(at, run, tab):
    one = at("item=t2-1")
    tab_is(one, 1)
    assert "as=black-512" in one.page.url and one.page.input_value("#as") == "black-512"
    assert one.page.evaluate("document.activeElement.textContent") == "black pictures, 512 px"
    other = tab(run, fragment="#" + one.page.url.split("#")[1])
    assert opened(other) == "t2-1" and other.page.locator("#item .black").count() == 2
    one.page.go_back()
    sync_api.expect(one.page.locator(".tabs [aria-pressed=true]")).to_have_text("own pictures, 512 px")
    assert opened(one) == "t2-1" and one.page.locator("#item .black").count() == 0
    tab_is(one, 1)
    tab_is(one, 0)
    assert "as=" not in one.page.url
    first = at("as=full-512&item=t2-1")
    assert first.page.input_value("#as") == "" and one.faults == other.faults == first.faults == []


def test_where_nothing_is_as_the_filters_ask_both_panes_say_so_and_offer_to_clear_them(at):
    one = at("filter=wrong-by-all&q=number+0")
    assert listed(one) == [] and one.page.text_content("#item h2") == "Wrong by all: none"
    one.page.get_by_role("button", name="Clear the filters").nth(1).click()
    shows(one, "#matching", "14 items")
    assert one.page.text_content("#item h2") == "14 items" and one.page.evaluate("document.activeElement.id") == "clear"
    one.page.fill("#q", "no such words")
    assert one.page.text_content("#item h2") == "None"
    one.page.locator("#rest button").click()
    shows(one, "#matching", "14 items")
    assert one.faults == []


def test_how_many_models_were_asked_stands_beside_the_outcomes(at):
    one = at("as=black-512")
    assert one.page.text_content("#counted") == "One model was asked this way, all-but-three: “by all” is that one."
    assert one.page.locator("#as option").first.text_content() == "own pictures, 512 px (4 models)"
    one.page.select_option("#as", "")
    shows(one, "#counted", "4 models were asked this way")


def test_a_model_asked_several_times_counts_once_in_the_list_and_on_the_item(at, tmp_path):
    one = at("item=t3-1", built(tmp_path, write(tmp_path, ("random",), conditions=())))
    assert "0 of 1 right" in one.page.text_content("#rows [aria-current]")
    assert "0 of 1 model right, 1 wrong; 2 answers: of several by one model, the first counts" in one.page.text_content("#item h3")


def test_the_navigation_is_that_of_the_other_pages(at):
    one = at()
    links = one.page.eval_on_selector_all("nav.site a", "all => all.map((a) => [a.getAttribute('href'), a.getAttribute('aria-current')])")
    assert links[0] == ["../index.html", None] and ["../items/index.html", "page"] in links and ["../data.html", None] in links


def test_back_and_forward_go_through_filters_and_items(at):
    one = at()
    one.page.select_option("#question", "t3")
    shows(one, "#matching", "6 of 14")
    one.page.click("#rows li:nth-child(2) a")
    item_is(one, "t3-1")
    one.page.go_back()
    sync_api.expect(one.page.locator("#item .welcome")).to_be_visible()
    assert one.page.input_value("#question") == "t3"
    one.page.go_back()
    shows(one, "#matching", "14 items")
    one.page.go_forward()
    one.page.go_forward()
    item_is(one, "t3-1")
    assert one.page.url.endswith("#item=t3-1&task=t3") and one.faults == []


def test_keys_move_search_and_close(at):
    one = at("task=t1")
    item_is(one.press("j"), "t1-0")
    item_is(one.press("ArrowRight", "j"), "t1-2")
    item_is(one.press("k"), "t1-1")
    assert one.page.text_content("#rows [aria-current] .goal-line") == "Buy the blue kettle, number 1"
    one.press("/")
    one.page.keyboard.type("number 3")
    assert listed(one) == ["t1-3"] and opened(one) == "t1-1"
    item_is(one.press("Enter"), "t1-3")
    one.press("Escape")
    sync_api.expect(one.page.locator("#item .welcome")).to_be_visible()
    one.press("?")
    assert one.page.is_visible("#help")
    one.press("Escape", "j")
    one.page.focus("#rows a")
    one.page.fill("#q", "")
    one.page.focus("#rows a")
    one.press("ArrowUp")
    assert one.page.evaluate("document.activeElement.dataset.item") == one.page.get_attribute("#rows [aria-current]", "data-item")
    assert one.faults == []


def focus(one) -> str:
    return one.page.evaluate("(({tagName, textContent}) => `${tagName} ${textContent}`)(document.activeElement)")


def test_focus_goes_into_the_item_that_is_opened_and_back_to_its_row(at):
    one = at("task=t3")
    one.page.focus("#rows li:nth-child(2) a")
    item_is(one.press("Enter"), "t3-1")
    assert focus(one).startswith("H2 T3 · long skip")
    one.press("Tab")
    assert one.page.evaluate("document.querySelector('#item').contains(document.activeElement)")
    one.press("Escape")
    sync_api.expect(one.page.locator("#item .welcome")).to_be_visible()
    assert one.page.evaluate("document.activeElement.dataset.item") == "9"
    one.press("Enter")
    item_is(one, "t3-1")
    one.page.go_back()
    sync_api.expect(one.page.locator("#rows li:nth-child(2) a")).to_be_focused()
    one.press("ArrowDown")
    item_is(one, "t3-2")
    assert one.page.evaluate("document.activeElement.dataset.item") == "10"
    one.page.get_by_role("button", name="Next").focus()
    item_is(one.press("Enter"), "t3-3")
    assert focus(one) == "BUTTON Next"
    one.page.evaluate("document.activeElement.blur()")
    item_is(one.press("j"), items()["t3"][4]["instance_id"])
    assert focus(one).startswith("H2 ") and one.faults == []


# Bad input.


def test_answers_that_are_made_up_say_so(at):
    one = at("item=t3-1")
    assert "1 of the 5 models here is simulated" in one.page.text_content("#notice")
    (told,) = one.page.eval_on_selector_all("tbody .sim", "all => all.map((tag) => tag.closest('tr').cells[0].textContent)")
    assert told.startswith("even ")


def test_a_confidence_that_is_no_number_is_left_out(at, tmp_path):
    made = write(tmp_path, MODELS[:1], conditions=())
    rows = [{**row, "confidence": float("nan")} for row in store.read_rows(made.scores, "scores")]
    store.write_table(made.scores, "scores", rows)
    one = at("item=t3-1", built(tmp_path, made))
    assert one.page.locator("tbody td").all_text_contents()[:2] == ["right", "B"] and one.faults == []


def test_hostile_texts_are_texts(at):
    hostile = items()["t3"][4]["instance_id"]
    one = at()
    one.page.click("#rows li:nth-child(13) a")
    item_is(one, hostile)
    # What could hide or reorder a text is spelled out.
    assert "\u202e" not in one.page.text_content("body")
    spelled = HOSTILE
    for hidden, words in (("\u2028", "\\u2028"), ("\u2029", "\\u2029"), ("\u202e", "\\u202e")):
        spelled = spelled.replace(hidden, words)
    assert one.page.text_content("#item .goal") == spelled
    for summary in one.page.locator("#item summary").all():
        summary.click()
    shows(one, "#item", "no idea <script>alert(1)</script>")
    one.page.reload()
    one.page.wait_for_selector("html[data-ready]")
    assert opened(one) == hostile
    for told in one.page.evaluate(ACTIVE):
        tag, _, to = told.partition(" ")
        assert to.startswith(("file:", "pictures/")) and tag in ("A", "IMG"), told
    assert all(url.startswith("file:") for url in one.requests) and one.faults == []


def test_a_picture_that_is_gone_says_so(at, run, tmp_path):
    shutil.copytree(run, tmp_path / "items")
    one = at("item=t3-2", tmp_path / "items")
    assert "what was prepared is no picture" in one.page.text_content("#item .shots")
    assert "2 pictures cannot be shown" in one.page.text_content("#notice")
    item_is(one.press("j"), "t3-3")
    assert "this picture was not prepared" in one.page.text_content("#item .shots")
    for path in (tmp_path / "items" / "pictures").iterdir():
        path.unlink()
    one.page.goto(f"{(tmp_path / 'items').as_uri()}/index.html#item=t1-0")
    one.page.reload()
    sync_api.expect(one.page.locator("#item .gone")).to_have_text(["the picture’s file is missing"] * 3)


def test_details_that_were_not_copied_are_told(at, run, tmp_path):
    shutil.copytree(run, tmp_path / "items")
    (tmp_path / "items" / "data" / "part-0.js").write_text("deliver('part-0', 'half")
    one = at("task=t1", tmp_path / "items")
    one.press("j")
    sync_api.expect(one.page.locator("#fault")).to_contain_text("data/part-0.js is missing or damaged")
    assert one.page.locator("#rows a").count() == 4


@pytest.mark.parametrize(("models", "counts"), [(("all-but-three",), "Wrong by all 3"), ((), None), (("random",), "Wrong by all 14")])
def test_a_run_of_one_model_or_none_works(at, tmp_path, models, counts):
    folder = built(tmp_path, write(tmp_path, models, conditions=()))
    one = at("item=t2-0", folder)
    assert opened(one) == "t2-0" and "Right: type “red kettle”" in one.page.text_content("#item")
    assert one.page.is_visible("#outcomes") == bool(models)
    assert ("No model was asked" in one.page.text_content("#item")) != bool(models)
    if counts:
        assert counts in one.page.text_content("#outcomes")
    assert listed(one)[0] == "t1-0" and one.faults == []


def test_a_run_without_items_says_so(at, tmp_path):
    made = write(tmp_path, ())
    for task in NUMBERS:
        store.write_table(made.mined, task, [])
    one = at("item=t1-0", built(tmp_path, made))
    assert "No items were mined" in one.page.text_content("#list") and "no item t1-0" in one.page.text_content("#item") and one.faults == []


def test_the_page_is_read_on_a_narrow_screen_and_in_the_dark(at):
    one = at("task=t3", viewport={"width": 390, "height": 800}, color_scheme="dark")
    assert one.page.is_visible("#rows") and not one.page.is_visible("#item")
    one.page.click("#rows li:nth-child(2) a")
    item_is(one, "t3-1")
    assert not one.page.is_visible("#rows") and one.page.evaluate("document.documentElement.scrollWidth") <= 390
    for selector in ("#item h2 .soft", "#item td.out.bad", "#item td.out.good", "#item figcaption", "#item th a", ".banner"):
        assert one.page.evaluate(CONTRAST, selector) >= 4.5, selector
    one.page.click("#close")
    sync_api.expect(one.page.locator("#rows")).to_be_visible()
    assert listed(one)[0] == "t3-0" and one.faults == []


def test_listed_items_are_printed_one_a_page(chromium, run, tmp_path):
    page = chromium.new_page()
    page.add_init_script("window.print = () => { window.printed = true; }")
    page.goto(f"{run.as_uri()}/index.html#task=t3")
    page.wait_for_selector("html[data-ready]")
    page.click("#print-all")
    page.wait_for_selector("#sheets:not([hidden]) .sheet:nth-child(6)")
    sheets = page.eval_on_selector_all(".sheet", "all => all.map((sheet) => sheet.querySelector('.goal').textContent)")
    assert [sheet[:3] for sheet in sheets] == ["Buy", "Buy", "Buy", "Buy", "<sc", "Buy"]
    page.wait_for_selector("#sheets:not([hidden])")
    assert page.pdf(path=tmp_path / "sheets.pdf").count(b"/Type /Page\n") == 6
    page.close()


# The files.


def test_files_depend_on_what_is_in_the_tables_alone(run, tmp_path):
    other = built(tmp_path, write(tmp_path, shuffled=True))
    first, second = ({path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()} for folder in (run, other))
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name] and name != "part-0.js"] == []
    # One trajectory has a page in the first.
    assert second["part-0.js"] == first["part-0.js"].replace(trajectory_page("web:1").join(["../", ""]).encode(), b"")


def test_a_picture_lies_there_once_as_it_was_sent(run):
    files = list((run / "pictures").iterdir())
    shots = {image for rows in items().values() for row in rows for image in row["images"]}
    assert len(files) == len(shots) - 3  # two are the same, one is no picture, one was never prepared
    assert (run / "pictures" / f"{hashlib.sha256(png(5)).hexdigest()}.png").read_bytes() == png(5)


def test_details_are_cut_into_parts_and_found_again(at, tmp_path, monkeypatch):
    monkeypatch.setattr(browser, "PART", 3)
    folder = built(tmp_path, write(tmp_path))
    assert len(list((folder / "data").glob("part-*.js"))) == 5
    one = at("item=t3-5", folder)
    assert one.page.text_content("#item .goal").endswith("number 5")
    for _ in range(6):
        one.press("k")
    item_is(one, "t2-3")
    assert one.page.text_content("#item .goal").endswith("number 3") and one.faults == []


def test_a_bound_on_pictures_leaves_whole_items_without_and_says_so(at, tmp_path):
    made = write(tmp_path)
    every = built(tmp_path / "all", made)
    none = built(tmp_path / "none", made, max_pictures_mb=0)
    assert list((none / "pictures").iterdir()) == [] and list((every / "pictures").iterdir())
    one = at("item=t1-0", none)
    assert "those of 0 items of 14, drawn by lot" in one.page.text_content("#notice")
    assert one.page.text_content("#item .gone >> nth=0") == "left out: this report takes 0 MB of pictures along"


@pytest.mark.parametrize("kilobytes", [1, 2, 3])
def test_the_items_that_have_pictures_are_drawn_and_fit_the_bound(tmp_path, kilobytes):
    made = write(tmp_path)
    one = browser._read(made, None)
    taken = browser._chosen([one], 7, kilobytes / 1000)
    images = {image for item in one.items if (0, item["instance_id"]) in taken for image in item["images"]}
    sizes = browser._sizes(made.images)
    assert 0 < sum(sizes.get(image, 0) for image in images) <= kilobytes * 1000
    assert 0 < len(taken) < 14 and taken <= browser._chosen([one], 7, (kilobytes + 1) / 1000)
    assert taken != browser._chosen([one], 8, kilobytes / 1000)


def test_outcomes_are_told_apart(tmp_path):
    made = write(tmp_path, conditions=("after_only",))
    rows = [{"task": task, **row} for task, rows in items().items() for row in rows]
    scores = Scores(made.scores, names_of(rows))
    told = {(asking.model, asking.condition, asking.run): "".join(codes) for asking, codes in scores.outcomes.items()}
    assert told["all-but-three", "full", 0] == "1110" + "111a" + "111011"
    assert told[EVEN, "full", 0] == "1010" + "1a1a" + "101010"
    assert told["babbler", "full", 0] == "1xxx" + "1xxx" + "1xxxxx"
    assert told["mute", "full", 0] == "-" * 14 and told["random", "full", 1] == "0000" + "aaaa" + "000000"
    assert told["all-but-three", "after_only", 0] == "    " + "111a" + "      "


def test_further_sets_stand_beside_the_papers(at, tmp_path):
    main_set = write(tmp_path / "main")
    other = write(tmp_path / "other", prefix="d-", name="desktop", conditions=())
    one = at("set=desktop&item=desktop/t1-d-0", built(tmp_path, main_set, other))
    assert len(listed(one)) == 14 and opened(one) == "desktop/t1-d-0" and "set desktop" in one.page.text_content("#item h2")
    assert one.page.locator("#item img").count() == 3 and "14 of 28 items" in one.page.text_content("#matching")
    one.page.click("#clear")
    shows(one, "#matching", "28 items")
    assert "Wrong by all 6" in one.page.text_content("#outcomes") and one.faults == []
    assert one.page.locator("#set option").all_text_contents() == ["all (28)", "leaderboard (14)", "desktop (14)"]
    assert one.page.text_content("#sets-told") == "leaderboard: 14; other sets: 14"
    assert one.page.locator("#rows .tag").all_text_contents() == ["leaderboard"] * 14 + ["desktop"] * 14
    one.page.select_option("#set", "-")
    shows(one, "#matching", "14 of 28 items")
    assert set(one.page.locator("#rows .tag").all_text_contents()) == {"leaderboard"} and "set=-" in one.page.url


def stage(root: Path) -> Path:
    """Run the report's stage on the small run and one more set; return its folder."""
    made = {"": write(root / "main", conditions=()), "d-": write(root / "other", prefix="d-", name="desktop", conditions=())}
    told = root / "statistics"
    told.mkdir()
    (told / "tables.json").write_text("[]")
    given = ["--stats", manifest(told, "stats", "s", {"models": []}), "--prompts", str(PROMPTS / "evogui-v1")]
    for prefix, one in made.items():
        names = ("sets", "set-images", "set-scores", "set-predictions") if prefix else ("mined", "images", "scores", "predictions")
        given += [f"--{names[0]}", manifest(one.mined, "mine", f"{prefix}mine", {"set": "desktop"} if prefix else {})]
        given += [f"--{names[1]}", manifest(one.images, "images", f"{prefix}images", {}, mine=[f"{prefix}mine"])]
        given += [f"--{names[2]}", manifest(one.scores, "score", f"{prefix}score", {}, mine=[f"{prefix}mine"])]
        given += [f"--{names[3]}", *(str(folder / "manifest.json") for folder in one.predictions)]
    out = root / "results" / "report" / "k"
    settings = json.dumps({"name": "demo", "max_items": 0})
    assert main(["report", "--settings", settings, "--key", "k", *given, "--out", str(out)]) == 0
    return out


def test_the_stage_counts_items_and_the_pictures_left_out(tmp_path):
    out = stage(tmp_path)
    told = json.loads((out / "manifest.json").read_text())
    others = told["counts"]["others"]
    assert others["item"] == {"read": 28, "kept": 28, "dropped": {}}
    assert others["picture"]["dropped"] == {"not_an_image": 2, "not_prepared": 2}
    assert others["picture"]["kept"] == len(list((out / "items" / "pictures").iterdir()))
    assert "items/index.html" in told["files"]


def test_published_pictures_are_the_stages_own_where_that_can_be(tmp_path, monkeypatch):
    out = stage(tmp_path)
    words = ["publish", "--run", "demo", "--results", str(tmp_path / "results"), str(out / "manifest.json")]
    assert main(words) == 0
    published = tmp_path / "results" / "runs" / "demo"
    pictures = sorted((out / "items" / "pictures").iterdir())
    assert all(path.samefile(published / "items" / "pictures" / path.name) for path in pictures)
    assert not (out / "items" / "index.html").samefile(published / "items" / "index.html")
    shutil.rmtree(published)

    def other_disk(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", other_disk)
    assert main(words) == 0
    copies = [published / "items" / "pictures" / path.name for path in pictures]
    assert all(copy.read_bytes() == path.read_bytes() and not copy.samefile(path) for copy, path in zip(copies, pictures, strict=True))
