"""The page of T3 pairs in a real Chromium, worked by keyboard alone, opened as a file."""

import json
import shutil
import time

import pytest
from made_pairs import bench, ids, logs, payload
from made_tab import CONTRAST, chromium, tab

from evoaudit.errors import InputError
from evoaudit.probes import reviewed
from evoaudit.store import read_rows

#: As many seconds as opening a thousand pairs may take on a busy machine; alone it is below one.
PATIENCE = 60


__all__ = ["chromium", "tab"]


@pytest.fixture(scope="module")
def twelve(tmp_path_factory):
    """Twelve mined pairs of twelve transitions, and their page."""
    there = bench(tmp_path_factory.mktemp("twelve"), logs(40, steps=4))
    mined = there.mine()
    page = there.page(mined)
    assert len(ids(mined)) == 12 and not any(item["same"] for item in payload(page)["items"])
    return there, mined, page


def test_twelve_pairs_are_labelled_by_keyboard_with_a_reload_half_way(twelve, tab, tmp_path):
    _, mined, folder = twelve
    one = tab(folder)
    one.press("r")
    one.page.keyboard.type("Ana")
    one.press("Enter", "a", "1", "2", "3", "4", "5")
    one.page.keyboard.type("looks wrong")
    one.press("Enter")
    assert one.number == 7 and "6 of 12 decided: 1 accepted, 5 rejected" in one.text("counts")
    one.open()
    assert one.number == 7 and "6 of 12 decided" in one.text("counts") and one.page.input_value("#reviewer") == "Ana"
    one.press(*"aaaaaa")
    assert "12 of 12 decided: 7 accepted, 5 rejected" in one.text("counts") and "Every pair is decided" in one.text("said")
    found = reviewed.read(one.export(tmp_path / "ana.jsonl")).made
    assert list(found) == ids(mined)
    assert [line.reason for line in found.values()][:6] == ["", *reviewed.REASONS]
    last = list(found.values())[5]
    assert (last.note, last.reviewer, last.set) == ("looks wrong", "Ana", payload(folder)["set"])
    assert all(line.seconds < 60 for line in found.values()) and sum(line.seconds for line in found.values()) > 0
    assert one.faults == []


def test_every_line_of_an_export_has_the_fields_people_script_against(twelve, tab, tmp_path):
    one = tab(twelve[2]).press("a", "2")
    lines = [json.loads(line) for line in one.export(tmp_path / "e.jsonl").read_text().splitlines()]
    assert [set(line) for line in lines] == [{"instance_id", "decision", "reason", "note", "seconds", "set"}] * 2
    assert [line["reason"] for line in lines] == [None, "advertisement"]


def test_keys_move_filter_undo_and_take_back(twelve, tab):
    one = tab(twelve[2])
    assert one.press("j", "ArrowRight").number == 3 and one.press("k").number == 2
    assert one.press("End").number == 12 and one.press("Home", "ArrowLeft").number == 1
    assert one.press("g", "9", "Enter").number == 9
    assert one.press("a").number == 10 and "1 of 12" in one.text("counts")
    assert one.press("u").number == 9 and "0 of 12" in one.text("counts")
    one.press("1", "k", "x")
    assert one.text("state") == "undecided" and one.press("Control+z").text("state") == "rejected: page load"
    one.press("Home", "f", "f")
    assert one.page.input_value("#show") == "reject" and one.number == 9 and "1 match" in one.text("matching")
    one.press("f", "f", "f", "t", "Home")
    assert one.page.input_value("#tier") == "cross" and "4 match" in one.text("matching")
    seen = {one.number} | {one.press("j").number for _ in range(4)}
    tiers = [item["tier"] for item in payload(twelve[2])["items"]]
    assert [tiers[number - 1] for number in seen] == ["cross"] * 4


def test_deciding_passes_over_what_is_decided_and_a_correction_stays_in_place(twelve, tab):
    one = tab(twelve[2]).press("j", "a", "Home", "a")
    assert one.number == 3
    one.press("Home", "3")
    assert one.number == 1 and one.text("state") == "rejected: asynchronous refresh"
    assert one.press("n").number == 3


def test_what_is_wrong_with_two_screens_is_wrong_beside_every_distractor(tmp_path, tab):
    there = bench(tmp_path, logs(6, steps=4))
    folder = there.page(there.mine())
    items = payload(folder)["items"]
    number, item = next((n, item) for n, item in enumerate(items, 1) if item["same"])
    one = tab(folder).press("g", *str(number), "Enter", "5")
    one.page.keyboard.type("the distractor could follow too")
    one.press("Enter")
    assert "1 of 12" in one.text("counts")
    one.press("u", "4")
    assert f"{1 + len(item['same'])} of 12" in one.text("counts")
    found = reviewed.read(one.export(tmp_path / "e.jsonl")).rejected
    assert found == dict.fromkeys([item["id"], *(items[k]["id"] for k in item["same"])], "incidental_change")
    assert "0 of 12" in one.press("u").text("counts")


def test_keys_work_on_buttons_and_not_in_boxes(twelve, tab):
    one = tab(twelve[2])
    one.page.focus("#next")
    assert one.press("a").number == 2
    one.page.focus("#tier")
    assert one.press("j").number == 3 and one.page.input_value("#tier") == "all"
    one.press("k")
    one.page.evaluate("document.activeElement.blur()")
    one.press("m")
    one.page.keyboard.type("a1uj")
    assert one.number == 2 and one.page.input_value("#note") == "a1uj" and "1 of 12" in one.text("counts")
    one.press("Escape", "2", "k")
    assert one.page.input_value("#note") == "a1uj"


def test_the_note_of_other_is_needed_and_escape_leaves_it(twelve, tab):
    one = tab(twelve[2]).press("5")
    assert one.page.evaluate("document.activeElement.id") == "note"
    one.press("Enter")
    assert one.number == 1 and "0 of 12" in one.text("counts")
    one.press("Escape")
    assert one.press("a").number == 2


def test_start_and_successor_blink_in_one_place(twelve, tab):
    one, item = tab(twelve[2]), payload(twelve[2])["items"][0]

    def shown(slot: str) -> str:
        return one.page.get_attribute(f"#figure-{slot} img", "src")

    def box() -> dict:
        return one.page.locator("#figure-start .frame").bounding_box()

    start, successor, distractor = (picture["src"] for picture in item["pictures"])
    before = box()
    assert (shown("start"), shown("successor"), shown("distractor")) == (start, successor, distractor)
    assert "Distractor" in one.page.text_content("#figure-distractor .label")
    one.press("b")
    assert shown("start") == successor and box() == before and one.page.get_attribute("#blink", "aria-pressed") == "true"
    one.press("b", "z")
    assert shown("start") == start and not one.page.is_visible("#figure-successor") and box()["width"] > before["width"]
    one.press("b", "e")
    assert one.page.is_visible("#figure-distractor") and not one.page.is_visible("#figure-start")
    one.press("Escape", "o")
    assert one.page.is_visible("#figure-successor canvas") and one.page.is_visible("#figure-start .mark")


def test_the_help_lists_every_key(twelve, tab):
    one = tab(twelve[2])
    assert not one.page.is_visible("#help")
    one.press("?")
    assert one.page.is_visible("#help")
    listed = {key.lower() for key in one.page.locator("#help .keys kbd").all_text_contents()}
    bound = set(one.page.evaluate("Object.keys(KEYS)"))
    arrows = {"arrowright": "→", "arrowleft": "←", "escape": "esc"}
    assert {arrows.get(key.lower(), key.lower()) for key in bound} <= listed
    one.press("a")
    assert "0 of 12" in one.text("counts")
    one.press("Escape")
    assert not one.page.is_visible("#help")


def test_everything_the_keys_do_can_be_done_with_a_mouse(twelve, tab, tmp_path):
    one = tab(twelve[2])
    one.page.click("button[data-reason=page_load]")
    one.page.click("button.accept")
    one.page.click("#previous")
    one.page.click("#clear")
    one.page.click("#undo")
    one.page.click("#figure-start .frame")
    assert one.page.get_attribute("#blink", "aria-pressed") == "true"
    with one.page.expect_download() as waiting:
        one.page.click("#export")
    waiting.value.save_as(tmp_path / "mouse.jsonl")
    assert [line.decision for line in reviewed.read(tmp_path / "mouse.jsonl").made.values()] == ["reject", "accept"]


def test_an_earlier_export_is_taken_and_contradictions_are_put_again(twelve, tab, tmp_path):
    _, _, folder = twelve
    ana = tab(folder).press("r")
    ana.page.keyboard.type("ana")
    ana.press("Enter", "a", "a", "1")
    first = ana.export(tmp_path / "ana.jsonl")
    ben = tab(folder).press("r")
    ben.page.keyboard.type("ben")
    ben.press("Enter", "a", "2", "3")
    second = ben.export(tmp_path / "ben.jsonl")
    with pytest.raises(Exception, match=r"decided otherwise in .*ana\.jsonl:2; import both files in the review page"):
        reviewed.read([first, second])
    both = tab(folder)
    told = both.load(first, second)
    assert "3 decisions taken" in told and "1 contradict" in told
    assert "2 of 12 decided: 1 accepted, 1 rejected, 1 disputed" in both.text("counts")
    assert both.press("n").number == 2 and both.text("state") == "disputed: ana accepted; ben rejected: advertisement"
    assert reviewed.read(both.export(tmp_path / "open.jsonl")).made.keys() == {ids(twelve[1])[0], ids(twelve[1])[2]}
    both.press("a")
    settled = reviewed.read(both.export(tmp_path / "settled.jsonl"))
    assert len(settled.accepted) == 2 and list(settled.rejected.values()) == ["page_load"]


def test_a_file_that_does_not_fit_changes_nothing(twelve, tab, tmp_path):
    one = tab(twelve[2]).press("a")
    for number, (text, told) in enumerate(
        (
            ('{"instance_id": "t3-strange", "decision": "accept", "set": "t3-set-x"}\n', "another set of pairs (t3-set-x)"),
            ('{"instance_id": "t3-strange", "decision": "accept"}\nnonsense\n', "line 2: not JSON"),
            ('{"instance_id": "t3-strange", "decision": "reject", "reason": "mood"}\n', "line 1: a reason that is not known"),
            ("", "holds no decision"),
        )
    ):
        (tmp_path / f"{number}.jsonl").write_text(text)
        one.load(tmp_path / f"{number}.jsonl")
        one.shows("said", f"{number}.jsonl: nothing taken")
        assert told in one.text("said")
        assert "1 of 12 decided" in one.text("counts")


AGREE = [
    ({"decision": "reject", "reason": "Page Load"}, "page_load"),
    ({"decision": "reject", "reason": " asynchronous-refresh "}, "asynchronous_refresh"),
    ({"decision": "reject", "reason": None}, "other"),
    ({"decision": "reject", "note": None, "seconds": None, "set": None}, "other"),
    ({"decision": "accept", "reason": ""}, ""),
    ({"decision": "accept", "more": {"a": [{"b": ":"}, 'c"\\:']}, "note": "\U0001f600"}, ""),
    ({"decision": "accept", "reason": "page_load"}, None),
    ({"decision": "reject", "reason": 3}, None),
    ({"decision": "accept", "note": 3}, None),
    ({"decision": "accept", "set": []}, None),
    ({"decision": "accept", "seconds": -1}, None),
    ({"decision": "accept", "seconds": 1e9}, None),
    ({"decision": "accept", "seconds": True}, None),
    ({"decision": "accept", "note": "x\ud800y"}, None),
    ({"decision": "accept", "more": "\udfff"}, None),
    ('{"instance_id": "ID", "decision": "accept", "decision": "accept"}', None),
    ('{"instance_id": "ID", "decision": "accept", "seconds": NaN}', None),
    ('{"instance_id": "", "decision": "accept"}', None),
    ('{"instance_id": "ID", "decision": "accept", "note": "' + "x" * 70_000 + '"}', None),
    (b'{"instance_id": "ID", "decision": "accept", "note": "\xff"}', None),
]


def test_the_page_takes_what_mining_takes_and_no_more(twelve, tab, tmp_path):
    name = ids(twelve[1])[0]
    one = tab(twelve[2])
    for number, (line, reason) in enumerate(AGREE):
        text = json.dumps({"instance_id": name, **line}) if isinstance(line, dict) else line
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes((text if isinstance(text, bytes) else text.encode()).replace(b"ID", name.encode()) + b"\n")
        try:
            (read,) = reviewed.read(path).made.values()
        except InputError:
            read = None
        assert (read and read.reason) == reason, line
        one.load(path)
        one.shows("said", f"{number}.jsonl: ")
        assert (f"{number}.jsonl: nothing taken" in one.text("said")) == (reason is None), line
        if reason is not None:
            (shown,) = reviewed.read(one.export(tmp_path / "out.jsonl")).made.values()
            assert (shown.decision, shown.reason, shown.note) == (read.decision, read.reason, read.note)
            one.press("Home", "x")


def test_without_storage_the_page_warns_and_works(twelve, tab, tmp_path):
    one = tab(twelve[2])
    one.page.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new Error('denied'); }})")
    one.page.add_init_script("Object.defineProperty(window, 'indexedDB', {get() { throw new Error('denied'); }})")
    one.open()
    assert one.page.is_visible("#unsaved") and "Export before you leave" in one.text("unsaved")
    one.press("a", "1")
    assert len(reviewed.read(one.export(tmp_path / "e.jsonl")).made) == 2


def test_two_tabs_of_one_browser_do_not_overwrite_each_other(twelve, tab):
    one = tab(twelve[2])
    two = tab(twelve[2], beside=one)
    one.press("a")
    two.shows("counts", "1 of 12")
    two.press("n", "2")
    one.shows("counts", "2 of 12")


def test_time_away_is_cut(twelve, tab, tmp_path):
    one = tab(twelve[2])
    one.page.evaluate("moment -= 3600")
    one.press("a")
    (line,) = reviewed.read(one.export(tmp_path / "e.jsonl")).made.values()
    assert 60 <= line.seconds < 75


def test_rejected_pairs_are_replaced_and_the_rest_is_taken_over(tmp_path, tab):
    there = bench(tmp_path, logs(40, steps=4))
    first = there.mine()
    one = tab(there.page(first)).press("1", "a", "2", "a", "4", "a")
    decided = one.export(tmp_path / "round-1.jsonl")
    before = ids(first)
    rejected, accepted = {before[k] for k in (0, 2, 4)}, {before[k] for k in (1, 3, 5)}

    second = there.mine(decided)
    after = ids(second)
    assert len(after) == 12 and not rejected & set(after) and accepted <= set(after)
    tiers = [row["slice"] for row in read_rows(second, "t3", ["slice"])]
    assert {tier: tiers.count(tier) for tier in there.quota} == there.quota
    details = [row["detail"] for row in read_rows(second, "drops") if row["reason"] == "rejected_by_reviewer"]
    assert sorted(detail.partition(" (")[0] for detail in details) == ["advertisement", "incidental change", "page load"]

    two = tab(there.page(second, decided))
    assert "3 of 12 decided: 3 accepted, 0 rejected" in two.text("counts")
    fresh = [number for number, name in enumerate(after, 1) if name not in before]
    assert len(fresh) == 3
    for number in fresh:
        two.press("g", *str(number), "Enter")
        assert two.text("state") == "undecided"
    two.press("Home", "n", *"a" * 9)
    assert "12 of 12 decided: 12 accepted" in two.text("counts")
    whole = two.export(tmp_path / "round-2.jsonl")
    assert reviewed.read(whole).rejected.keys() == rejected
    assert ids(there.mine(whole)) == after == ids(there.mine(decided, whole))


HOSTILE = {
    0: '</script><script>document.title="owned"</script><img src=x onerror=alert(1)><!--<script>',
    1: "\u202egnp.exe \u2066\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u2028\u2029 {{7*7}} ]]> &lt;b&gt;",
    2: "\U0001f469\u200d\U0001f680\U0001f600 " + "x" * 50_000,
    3: "<iframe src='https://example.com/'></iframe><style>@import url(https://example.com/a)</style><a href='javascript:alert(1)'>x</a>",
    4: "<svg onload=alert(1)><link rel=prefetch href=//example.com/p><base href=//example.com/>",
}


def test_hostile_text_stays_text_and_nothing_goes_out(tmp_path, tab):
    there = bench(tmp_path, logs(8, HOSTILE, {i: text[:5_000] for i, text in HOSTILE.items()}), long_skip=16)
    mined = there.mine()
    folder = there.page(mined)
    one = tab(folder)
    seen = ""
    for _ in ids(mined):
        seen += one.text("goal") + one.text("value")
        assert one.page.locator("#goal *, #value *, #target *, #raw *").count() == 0
        assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        one.press("j")
    assert '</script><script>document.title="owned"</script>' in seen and "<iframe src=" in seen and "onload=alert(1)" in seen
    assert "\u202e" not in seen and r"\u202egnp.exe" in seen
    assert f"[{len(HOSTILE[2]):,} characters, cut here]" in seen
    assert one.page.title() != "owned" and one.faults == []
    assert all(url.startswith(folder.as_uri()) for url in one.requests)
    assert one.page.locator("script, iframe, link, base, style").count() == 3  # the data, the page's own script and style


def test_a_script_that_got_onto_the_page_would_not_run(twelve, tab):
    one = tab(twelve[2])
    outcome = one.page.evaluate(
        """() => {
          const tried = [], attempt = (act) => { try { act(); } catch (error) { tried.push(error.name); } };
          const script = document.createElement("script");
          attempt(() => { script.text = "window.ran = 1"; document.body.append(script); });
          attempt(() => document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.ran = 1'>"));
          return [window.ran, tried];
        }"""
    )
    assert outcome == [None, ["TypeError", "TypeError"]]
    reached = one.page.evaluate("fetch('https://example.com/').then(() => 'out', (error) => error.name)")
    assert reached == "TypeError" and any("Content Security Policy" in fault for fault in one.faults)


def test_narrow_dark_and_high_contrast_pages_show_the_decision_at_once(twelve, tab):
    one = tab(twelve[2])
    for width, height, media in ((320, 640, {}), (1280, 720, {"color_scheme": "dark"}), (900, 700, {"forced_colors": "active"})):
        one.page.set_viewport_size({"width": width, "height": height})
        one.page.emulate_media(**media)
        for name in ("accept", "reject"):
            box = one.page.locator(f".buttons .{name}").first.bounding_box()
            assert box["width"] > 0 and box["y"] + box["height"] <= height
        assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_text_has_the_contrast_that_wcag_asks_for(twelve, tab):
    one = tab(twelve[2]).press("a", "k")
    for scheme in ("light", "dark"):
        one.page.emulate_media(color_scheme=scheme)
        for selector in ("#goal", ".soft", ".buttons .accept", ".buttons .reject", "#state", "kbd", "#figure-distractor .large", ".tag"):
            assert one.page.evaluate(CONTRAST, selector) >= 4.5, (scheme, selector)


def test_every_control_has_a_name_and_focus_can_be_seen(twelve, tab):
    one = tab(twelve[2]).press("a")
    controls = one.page.locator("button:visible, input:visible, select:visible, textarea:visible").all()
    assert len(controls) > 18
    for control in controls:
        named = control.evaluate("node => (node.labels?.[0]?.textContent || node.getAttribute('aria-label') || node.textContent).trim()")
        assert named, control
    for _ in range(12):
        one.press("Tab")
        assert one.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert one.page.get_attribute("#said", "role") == "status" and one.page.locator("img:not([alt])").count() == 0


def test_a_thousand_pairs_open_and_move_quickly(twelve, tab, tmp_path):
    folder = tmp_path / "page"
    shutil.copytree(twelve[2], folder)
    data = payload(folder)
    text = (folder / "index.html").read_text(encoding="utf-8")
    head, _, rest = text.partition('id="data">')
    tail = rest[rest.index("</script>") :]
    data["items"] = [{**data["items"][k % 12], "id": f"t3-{k:04}", "same": [], "goal": f"goal {k} " * 20} for k in range(1000)]
    (folder / "index.html").write_text(head + 'id="data">' + json.dumps(data).replace("<", "\\u003c") + tail, encoding="utf-8")
    began = time.monotonic()
    one = tab(folder)
    assert time.monotonic() - began < PATIENCE
    assert one.page.locator("img").count() == 3 and len([url for url in one.requests if url.endswith(".jpg")]) <= 12
    began = time.monotonic()
    one.press(*"a" * 40)
    assert time.monotonic() - began < PATIENCE
    assert one.number == 41 and "40 of 1000 decided" in one.text("counts")
