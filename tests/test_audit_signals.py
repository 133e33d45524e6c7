"""Stage-1 signals: walls and error pages, and not pages that talk about them; answers and states that match."""

import pytest
from tests.made_episode import episode, step

from evoaudit.audit import noop, pages, signals
from evoaudit.audit.episodes import visible

WALL = "RootWebArea 'Just a moment...'\n[3] heading 'Verify you are human'\n[4] checkbox 'I am not a robot'\n[5] button 'Verify'"
THREAD = "\n".join(
    [
        "RootWebArea 'Verify you are human pages everywhere? - Forum'",
        "[2] link 'Home'",
        "[3] heading 'Verify you are human pages everywhere?'",
        *[
            f"[{i}] StaticText 'Reply {i}: I keep getting captchas, how do you get past unusual traffic from your network?'"
            for i in range(4, 30)
        ],
    ]
)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://shop.example/challenge?next=%2Fcart", WALL),
        ("https://shop.example/challenge?next=%2Fcart", None),
        ("https://www.google.com/sorry/index?continue=x", None),
        ("https://a.example/cdn-cgi/challenge-platform/h/b", "anything"),
        ("https://geo.captcha-delivery.com/captcha/", None),
        ("https://www.amazon.com/errors/validateCaptcha", "Enter the characters you see below"),
        ("https://a.example/", WALL),
        ("https://a.example/", "Just a moment...\nChecking your browser before accessing a.example\nRay ID: 7f3a"),
        ("https://a.example/", "Are you a robot?"),
    ],
)
def test_a_challenge_wall_is_recognised(url, text):
    assert pages.challenge(url, text)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://forum.example/t/captchas", THREAD),
        (
            "https://news.example/",
            "[1] link 'Verify you are human: how captchas took over the web'\n[2] link 'Sports'\n[3] link 'Weather'\n[4] link 'Money'",
        ),
        ("https://code.example/challenges/two-sum", "[1] heading 'Two Sum'"),
        ("https://code.example/challenge", "[1] heading 'Challenge of the week'\n[2] button 'Take part'"),
        ("https://shop.example/search?q=captcha", None),
        ("https://a.example/", "[1] checkbox 'I am not a robot'\n" + "\n".join(f"[{i}] textbox 'Field {i}'" for i in range(50))),
        (None, None),
        ("http://[bad", ""),
        ("", "   "),
    ],
)
def test_a_page_about_captchas_is_no_wall(url, text):
    assert not pages.challenge(url, text)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://a.example/x", "[1] heading '502 Bad Gateway'\n[2] StaticText 'nginx'"),
        ("https://a.example/x", "503 Service Temporarily Unavailable"),
        ("https://a.example/x", "This site can’t be reached\nERR_CONNECTION_REFUSED"),
        ("chrome-error://chromewebdata/", None),
        ("https://a.example/x", "Your session has expired.\nPlease log in again"),
        ("https://a.example/x", "500: Internal Server Error"),
    ],
)
def test_an_error_page_is_recognised(url, text):
    assert pages.error_page(url, text)


@pytest.mark.parametrize(
    "text",
    [
        "[1] heading 'How to fix a 502 Bad Gateway error'\n[2] StaticText 'Restart nginx.'",
        "[1] cell '502'\n[2] cell 'Bad Gateway Street'",
        "Room 500\nBook now",
        "[1] heading 'Issues'\n" + "\n".join(f"[{i}] link '502 Bad Gateway'" for i in range(60)),
    ],
)
def test_a_page_about_errors_is_no_error_page(text):
    assert not pages.error_page("https://a.example/", text)


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        ("net::ERR_NAME_NOT_RESOLVED at http://a", True),
        ("Unauthorized url, terminating task", True),
        ("Target page, context or browser has been closed", True),
        ("502 Bad Gateway", True),
        ("Timeout 500ms exceeded waiting for locator", False),
        ("unknown element: there is no 'Save'", False),
        ("invalid argument: option '502' not found", False),
        (None, False),
        ("", False),
    ],
)
def test_a_fault_of_the_environment_is_told_from_a_fault_of_the_action(error, fault):
    assert pages.error_report(error) is fault


def test_visible_strings_are_read_from_trees_and_from_plain_text():
    assert visible("[12] button 'Save', clickable\n  StaticText 'It's here'\nPlain line\n\n\tcheckbox \"Wi-Fi\", checked='true'") == [
        "Save",
        "It's here",
        "Plain line",
        "Wi-Fi",
    ]


def fired(made, oracles=()):
    return {(row["signal"], row["parameter"]) for row in signals.signals(made, list(oracles), noop.probe(made), [2, 3, 8]) if row["fired"]}


def test_every_signal_has_a_row_whether_it_fired_or_not():
    rows = list(signals.signals(episode(step(at=(1, 1), changed=[(1, 1)])), [], noop.probe(episode()), [3, 2]))
    assert [(row["signal"], row["parameter"]) for row in rows] == [
        ("noop_run", 2),
        ("noop_run", 3),
        ("noop_any", 2),
        ("noop_any", 3),
        ("cycle", 0),
        ("challenge_page", 0),
        ("environment_error", 0),
        ("evaluator_error", 0),
        ("answer_matches", 0),
        ("state_matches", 0),
    ]
    assert not any(row["fired"] for row in rows)


def test_runs_fire_at_their_lengths():
    assert fired(episode(*[step(at=(400, 300)) for _ in range(4)])) == {("noop_run", 2), ("noop_run", 3), ("noop_any", 2), ("noop_any", 3)}


def test_retries_at_a_wall_fire_both_the_probe_and_the_wall():
    wall = [step(at=(400, 300), url="https://www.google.com/sorry/index", page_text=WALL) for _ in range(14)]
    assert {("noop_run", 8), ("challenge_page", 0)} <= fired(episode(*wall))


def test_the_page_after_the_last_action_counts():
    rows = [row for row in signals.signals(episode(step(), final_text="502 Bad Gateway"), [], noop.probe(episode()), [2]) if row["fired"]]
    assert [(row["signal"], row["evidence_steps"], row["detail"]) for row in rows] == [("environment_error", [0], "the last page seen")]


def test_a_crashed_evaluator_is_reported_with_its_status():
    crash = {"verdict": "error", "status": "evaluator raised KeyError"}
    rows = [row for row in signals.signals(episode(step()), [crash], noop.probe(episode()), [2]) if row["fired"]]
    assert [(row["signal"], row["detail"]) for row in rows] == [("evaluator_error", "evaluator raised KeyError")]


def test_an_answer_in_another_form_matches():
    assert ("answer_matches", 0) in fired(episode(step("answer", value="$0.00"), answer="$0.00", reference="0"))
    assert ("answer_matches", 0) not in fired(episode(step("answer"), answer="170", reference="000000170"))


def test_a_right_answer_in_the_reasoning_alone_does_not_match():
    assert fired(episode(step(reasoning="The answer is 42."), reference="42")) == set()


@pytest.mark.parametrize(
    ("reference", "text", "shown"),
    [
        ("Order confirmed: Red Lamp", "[1] alert 'Order confirmed: Red Lamp'", True),
        ("Order confirmed: Red Lamp", "[1] alert 'Order confirmed: Blue Lamp'", False),
        ("theme=dark; wifi=on", "Theme: Dark\nWi-Fi: off", False),
        ("theme=dark; font_size=12", "[1] StaticText 'Theme'\n[2] StaticText 'Dark'\n[3] StaticText 'Font size: 12'", True),
        ("theme=dark; font_size=12", "[1] StaticText 'Theme'\n[2] StaticText 'Light'\n[3] StaticText 'Font size: 12'", False),
        ("3", "Results: 3", False),
    ],
)
def test_a_state_matches_where_the_last_page_shows_it(reference, text, shown):
    made = episode(step(at=(1, 1), changed=[(1, 1)]), reference=reference, final_text=text)
    assert (("state_matches", 0) in fired(made)) is shown


def test_the_page_before_an_effective_last_action_does_not_count_as_the_last():
    made = episode(step(at=(1, 1), changed=[(1, 1)], page_text="Order confirmed: Lamp"), reference="Order confirmed: Lamp")
    assert fired(made) == set()
