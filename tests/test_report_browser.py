"""The report in a real Chromium, opened from the disk: sorting, filtering, links, keyboard, print, dark mode, narrow screens."""

from pathlib import Path

import made_site
import pytest
from made_tab import Tab, chromium, tab
from test_report import Page, build

from evoaudit.__main__ import main
from evoaudit.report.slugs import slugs

__all__ = ["chromium", "tab"]

#: Pages of every kind; the models' are those of the leader and of one with a plain name.
PAGES = ("index.html", "models.html", "audit.html", "questions.html", "data.html", "checks.html")

#: Texts that stand out less than WCAG's AA asks for, as they are laid out now.
DIM = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [.2126, .7152, .0722][k], 0);
  const found = new Set();
  for (const node of document.body.querySelectorAll("*")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || ["SCRIPT", "STYLE", "OPTION"].includes(node.tagName) || !node.checkVisibility({visibilityProperty: true})) continue;
    let under = node;
    while (under && (parse(getComputedStyle(under).backgroundColor)[3] ?? 1) === 0) under = under.parentElement;
    const color = node instanceof SVGElement ? getComputedStyle(node).fill : getComputedStyle(node).color;
    const [a, b] = [color, getComputedStyle(under ?? document.body).backgroundColor].map((one) => light(parse(one))).sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio >= 4.5) continue;
    found.add(`${ratio.toFixed(2)} ${node.tagName}.${node.getAttribute("class")}: ${node.textContent.trim().slice(0, 40)}`);
  }
  return [...found];
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The report of thirty models and a doubtful audit, laid out as people get it."""
    root = tmp_path_factory.mktemp("site")
    arguments = made_site.run(root)
    build(arguments, root / "report")
    given = [arguments[arguments.index(f"--{name}") + 1] for name in ("tables", "figures")]
    assert main(["publish", "--run", "demo", "--results", str(root), *given, str(root / "report" / "manifest.json")]) == 0
    return root / "runs" / "demo"


def models(one: Tab) -> list[str]:
    """Return the names on the leaderboard that is shown, in order."""
    return one.page.eval_on_selector_all(
        "[data-board]:not([hidden]) tbody tr:not([hidden]) th bdi", "all => all.map((node) => node.textContent)"
    )


def every(site: Path) -> list[str]:
    leader = f"models/{slugs(made_site.MODELS)[made_site.MODELS[0]]}.html"
    return [
        *PAGES,
        leader,
        "models/model-03.html",
        *(f"trajectories/{path.name}" for path in sorted((site / "trajectories").iterdir())[:1]),
    ]


def test_the_leaderboard_sorts_by_click_and_by_key_and_back_again(site, tab):
    one = tab(site)
    ranked = models(one)
    assert len(ranked) == 30 and ranked[8:28] == [f"model-{n:02}" for n in range(20)] and ranked[28:] == ["random", "majority"]
    head = one.page.locator("[data-board='0'] thead th", has_text="Model")
    head.get_by_role("button").click()
    assert models(one) == sorted(ranked, key=str.casefold) or models(one)[-1] > models(one)[10]
    assert head.get_attribute("aria-sort") == "ascending"
    one.page.locator("[data-board='0'] thead th", has_text="EvoGain").get_by_role("button").focus()
    one.press("Enter")
    assert models(one) == ranked and head.get_attribute("aria-sort") == "none"
    one.press("Space")
    assert models(one) == ranked[::-1]
    one.press("Enter")
    assert models(one) == ranked and one.faults == []


def test_the_leaderboard_is_filtered_by_group_provider_and_name_with_the_keyboard_alone(site, tab):
    one = tab(site)
    one.page.focus("[data-choose=text]")
    one.page.keyboard.type("MODEL-1")
    assert models(one) == [f"model-{n}" for n in range(10, 20)] and "10 of 30" in one.page.text_content(".controls output")
    one.page.keyboard.press("Shift+Tab")
    assert one.page.evaluate("document.activeElement.dataset.choose") == "provider"
    one.page.keyboard.type("goo")
    assert models(one) == [f"model-{n}" for n in range(10, 20, 2)]
    one.page.select_option("[data-choose=group]", "Closed-weight")
    assert models(one) == [] and "0 of 30" in one.page.text_content(".controls output")
    one.page.fill("[data-choose=text]", "")
    assert "gpt 5" in models(one) and "GPT 5" not in models(one) and "model-10" not in models(one)


def test_going_back_finds_the_leaderboard_as_its_fields_say(site, tab):
    one = tab(site)
    one.page.fill("[data-choose=text]", "model-0")
    one.page.get_by_role("link", name="model-03", exact=True).first.click()
    one.page.wait_for_selector("html[data-ready]")
    one.page.go_back()
    one.page.wait_for_selector("html[data-ready]")
    wanted = one.page.input_value("[data-choose=text]")
    assert len(models(one)) == (10 if wanted == "model-0" else 30)


def test_a_condition_has_a_leaderboard_of_its_own(site, tab):
    one = tab(site)
    assert one.page.locator("[data-board]:visible").count() == 1
    one.page.select_option("[data-choose=board]", "1")
    assert models(one) == list(made_site.MODELS[:3])[::-1] or len(models(one)) == 3
    assert "black pictures" in one.page.text_content("[data-board='1'] .note")
    assert "3 models" in one.page.text_content(".controls output")


def test_who_leads_which_models_tie_and_what_to_distrust_can_be_read_without_scrolling_for_it(site, tab):
    one = tab(site)
    said = one.page.text_content("#summary")
    assert "2 other models cannot be told apart from it" in said and "GPT 5 and gpt 5" in said
    assert one.page.locator("tr.tied").count() == 2 and one.page.locator("tr.first").count() == 1
    kinds = one.page.locator(".kinds > li")
    assert kinds.count() == 5
    for place in range(5):
        one.open()
        link = one.page.locator(".kinds > li").nth(place).locator(".example a")
        goal = link.text_content()
        link.click()
        assert "/trajectories/" in one.page.url and one.page.locator("#step-3").count() == 1
        assert one.page.text_content("h1").startswith(goal.rstrip("…")[:60])
    assert one.faults == []


def test_a_model_is_followed_to_its_page_and_back(site, tab):
    one = tab(site)
    for name in ("model-03", "GPT 5", "モデル"):
        one.page.get_by_role("link", name=name, exact=True).first.click()
        one.page.wait_for_selector("html[data-ready]")
        assert "/models/" in one.page.url and one.page.text_content("h1") == name
        for section in ("scores", "slices", "conditions", "habits", "confidence", "answers", "cost", "wrong", "rivals"):
            assert one.page.locator(f"#{section}").is_visible(), section
        one.page.get_by_role("link", name="The leaderboard").click()
        one.page.wait_for_selector("html[data-ready]")
        assert one.page.url.endswith("index.html#leaderboard")
    assert one.faults == []


def test_the_first_key_skips_to_the_results_and_focus_is_seen(site, tab):
    one = tab(site)
    one.press("Tab")
    skip = one.page.evaluate("[document.activeElement.className, document.activeElement.getBoundingClientRect().left >= 0]")
    assert skip == ["skip", True]
    one.press("Enter", "Tab")
    assert one.page.evaluate("document.querySelector('main').contains(document.activeElement)")
    one.page.focus("[data-choose=text]")
    assert one.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_in_either_scheme(site, tab, scheme):
    one = tab(site, color_scheme=scheme)
    dark = one.page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every((v) => v < 60)")
    assert dark == (scheme == "dark")
    one.page.evaluate("document.querySelector('h1').style.color = '#777'")  # what the measure is for
    assert len(one.page.evaluate(DIM)) == 1
    for page in every(site):
        one.page.goto((site / page).as_uri())
        assert one.page.evaluate(DIM) == [], page
    assert one.faults == []


def test_no_page_scrolls_sideways_on_a_narrow_screen(site, tab):
    one = tab(site, viewport={"width": 360, "height": 740})
    for page in every(site):
        one.page.goto((site / page).as_uri())
        assert one.page.evaluate("document.documentElement.scrollWidth") <= 360, page
    assert one.faults == []


def test_a_printed_page_holds_the_tables_and_not_the_controls(site, tab, tmp_path):
    one = tab(site)
    one.page.pdf(path=tmp_path / "front.pdf")
    assert (tmp_path / "front.pdf").read_bytes().startswith(b"%PDF") and (tmp_path / "front.pdf").stat().st_size > 20_000
    one.page.emulate_media(media="print")
    assert not one.page.is_visible(".controls") and not one.page.is_visible("nav.site") and one.page.is_visible("[data-board='0'] table")
    one.page.set_viewport_size({"width": 700, "height": 1000})  # a sheet's
    for page in every(site):
        one.page.goto((site / page).as_uri())
        assert one.page.evaluate("[...document.querySelectorAll('table')].every((t) => t.getBoundingClientRect().right <= 700)"), page


def test_nothing_hostile_runs_and_nothing_is_asked_for_but_files_of_the_report(site, tab):
    one = tab(site)
    for page in every(site):
        one.page.goto((site / page).as_uri())
        assert one.page.evaluate("document.querySelectorAll('script').length") <= 1
        assert not one.page.evaluate("[...document.images].filter((image) => image.src.endsWith('/x')).length")
    assert one.faults == [] and all(url.startswith((site.as_uri(), "data:")) for url in one.requests)


def test_the_first_view_is_light_and_fast(site, tab):
    one = tab(site)
    asked = {url.split("#")[0] for url in one.requests}
    assert asked == {f"{site.as_uri()}/index.html"} and (site / "index.html").stat().st_size < 500_000
    done = one.page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    assert done < 20_000  # a busy machine; alone it is below 0.2 s


def test_without_scripts_every_leaderboard_is_there_to_read(site, chromium):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    assert page.locator("[data-board]:visible").count() == 2 and not page.is_visible(".controls")
    context.close()


@pytest.mark.parametrize(("asked", "audited"), [(1, True), (0, True), (1, False), (0, False)])
def test_a_run_with_one_model_or_none_or_no_audit_says_so(tmp_path, asked, audited, tab):
    arguments = made_site.run(tmp_path, models=made_site.MODELS[:asked], audited=audited)
    html = build(arguments, tmp_path / "report")
    text = " ".join(Page(html).text.split())
    assert ("No model was asked in this run" in text) == (not asked)
    assert ("No verdict was audited in this run" in text) == (not audited)
    assert (html.index('<section id="leaderboard"') < html.index('<section id="verdicts"')) == bool(asked)
    one = tab(tmp_path / "report")
    for page in PAGES:
        one.page.goto((tmp_path / "report" / page).as_uri())
        one.page.wait_for_selector("html[data-ready]")
    assert not [fault for fault in one.faults if "ERR_FILE_NOT_FOUND" not in fault]  # figures lie beside it once it is published
