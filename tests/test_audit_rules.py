"""The judge `rules` on trajectories told in words of their own, and what it must not see."""

import pytest
from tests.made_episode import episode, step

from evoaudit.audit import rules
from evoaudit.codebook import load

GOAL = "Set the paper size of the label printer to A5 and store it."
MENU = "link 'Jobs'\nlink 'Trays'\nbutton 'Store'\nbutton 'Discard'\ntextbox 'Copies' value='1'"
PAGE = [(0, 60, 1280, 600)]


def act(number=0, *, name="Trays", changed=PAGE, page=MENU, **more):
    """Return a click that reaches a new page."""
    return step(
        at=(100 + 90 * number, 200),
        text=f"button '{name}'",
        changed=changed,
        page_text=page,
        url=f"https://print.example/p{number}",
        **more,
    )


def finish(op="done", **more):
    return step(op, page_text=more.pop("page", None), **more)


def told(made, **more):
    opinion = rules.judge(rules.blinded(made), **more)
    return opinion.category or opinion.verdict


def judged(*steps, goal=GOAL, **row):
    return episode(*steps, instruction=goal, **row)


def test_an_answer_in_another_form_is_a_false_negative():
    made = judged(
        act(),
        finish("answer", value="It weighs 1,200 g"),
        goal="What does the crate weigh?",
        answer="It weighs 1,200 g",
        reference="1.2 kg",
    )
    assert told(made) == "efn"


def test_a_wrong_answer_is_not():
    made = judged(act(), finish("answer", value="14"), goal="How many crates are left?", answer="14", reference="15")
    assert told(made) not in ("efn", "broken", "unclear")


def test_a_state_shown_at_the_end_and_not_before_is_a_false_negative():
    made = judged(act(), act(1), finish(), reference="Paper: A5 stored", final_text="status 'Paper: A5 stored'\nlink 'Jobs'")
    assert told(made) == "efn"
    shown = judged(
        act(page="status 'Paper: A5 stored'"), act(1), finish(), reference="Paper: A5 stored", final_text="status 'Paper: A5 stored'"
    )
    assert told(shown) != "efn"


def test_an_answer_that_stands_on_the_page_but_was_never_given_is_no_answer():
    made = judged(
        act(),
        act(1),
        finish("answer", value="I am done"),
        goal="Who keeps the keys?",
        answer="I am done",
        reference="Ada Brook",
        final_text="cell 'Ada Brook'",
    )
    assert told(made) == "t3-verif"


def test_a_right_answer_in_the_reasoning_alone_does_not_count():
    made = judged(act(reasoning="The answer is clearly Ada Brook."), act(1), goal="Who keeps the keys?", reference="Ada Brook")
    assert told(made) != "efn"


@pytest.mark.parametrize(
    "ending",
    [[], [finish("fail", reasoning="There is a captcha.")], [act(4, page=MENU), finish("fail", value="I cannot get past the check.")]],
)
def test_a_wall_that_ends_the_work_is_a_broken_task(ending):
    wall = [step(at=(300, 300), url="https://print.example/captcha", page_text="heading 'Are you a robot?'") for _ in range(4)]
    steps = [act(4), *wall, *[dict(one) for one in ending]]
    assert told(judged(*steps)) == "broken"


def test_a_wall_the_agent_got_past_is_not_decisive():
    wall = step(at=(300, 300), url="https://print.example/captcha", page_text="heading 'Are you a robot?'", changed=PAGE)
    assert told(judged(act(0), wall, act(2), act(3), finish(), final_text=MENU)) not in ("broken", "unclear")


def test_a_dead_page_outranks_the_retries_on_it():
    dead = [step(at=(300, 300), url="https://print.example/x", page_text="heading '503 Service Unavailable'") for _ in range(5)]
    assert told(judged(act(), *dead)) == "broken"


def test_an_environment_that_closes_the_session_is_a_broken_task():
    assert told(judged(act(), act(1, error="Target page, context or browser has been closed"))) == "broken"


def test_a_goal_that_the_page_itself_bars_is_a_broken_task_if_the_agent_reports_it():
    page = "heading 'Trays'\nalert 'Paper size is managed by your organisation and cannot be changed.'"
    made = judged(act(page=MENU), act(1, page=page), finish("fail", value="Not possible: the size cannot be changed here.", page=page))
    assert told(made) == "broken"


def test_giving_up_without_a_bar_on_any_page_is_a_premature_stop():
    made = judged(act(), act(1), finish("fail", value="Not possible: the size cannot be changed here.", page=MENU))
    assert told(made) == "t3-term"


def test_lost_evidence_is_unclear():
    lost = [step(at=(10, 10), changed="unknown") for _ in range(4)]
    assert told(judged(act(reasoning="Look at the trays."), *lost, finish(changed="unknown"))) == "unclear"


def test_a_trajectory_without_steps_is_unclear():
    assert told(judged()) == "unclear"


def test_a_click_repeated_on_a_still_screen_is_a_no_op():
    made = judged(act(), *[step(at=(500, 400), text="button 'Sync'", page_text=MENU) for _ in range(5)])
    opinion = rules.judge(rules.blinded(made))
    assert (opinion.category, opinion.evidence_steps) == ("t3-noop", (1, 2, 3, 4, 5))


def test_a_no_op_the_agent_recovered_from_is_not_decisive():
    made = judged(
        *[step(at=(500, 400), text="button 'Sync'", page_text=MENU) for _ in range(4)], act(1), act(2), act(3), finish(), final_text=MENU
    )
    assert told(made) == "ambiguous"


def test_waiting_is_no_no_op():
    assert told(judged(act(), *[step("wait", page_text=MENU) for _ in range(6)])) == "other"


def test_rounds_with_changing_screens_are_a_plan_loop():
    rounds = [act(number, name=name, page=f"heading '{name}'") for _ in range(3) for number, name in ((0, "Jobs"), (1, "Trays"))]
    assert told(judged(*rounds)) == "t1-loop"


def test_paging_forward_is_no_loop():
    assert told(judged(*[act(5, name="Next", page=f"heading 'Page {i}'") for i in range(6)])) == "other"


def test_a_control_that_no_screen_has_is_hallucinated():
    made = judged(
        act(), act(1, reasoning='I press "Auto layout".', error="no such element: #autolayout", changed=None), finish(), final_text=MENU
    )
    assert told(made) == "t1-hall"


def test_a_rejected_call_on_a_control_that_is_there_is_a_tool_fault():
    made = judged(
        act(),
        act(1, name="Copies", reasoning='I type into "Copies".', error="fill: element is not an <input>", changed=None),
        finish(),
        final_text=MENU,
    )
    assert told(made) == "t2-tool"


def test_a_rejected_call_that_later_gets_through_is_not_decisive():
    bad = act(1, name="Copies", reasoning='I use "Copies".', error="fill: element is not an <input>", changed=None)
    assert told(judged(act(), bad, act(2, name="Copies", reasoning='I use "Copies".'), finish(), final_text=MENU)) == "ambiguous"


def test_naming_one_control_and_hitting_another_is_grounding():
    made = judged(act(), act(1, name="Discard", reasoning='I now press "Store".'), finish(), final_text=MENU)
    assert told(made) == "t2-ground"


@pytest.mark.parametrize("reasoning", ['I now press "Discard".', "I press the button.", 'The page says "Ready". I go on.', None])
def test_hitting_what_was_named_is_not(reasoning):
    assert told(judged(act(), act(1, name="Discard", reasoning=reasoning), finish(), final_text=MENU)) == "ambiguous"


def test_a_slip_that_is_corrected_is_not_decisive():
    made = judged(
        act(),
        act(1, name="Discard", reasoning='I press "Store".'),
        act(2, name="Store", reasoning='Now "Store".'),
        finish(),
        final_text=MENU,
    )
    assert told(made) == "ambiguous"


def test_a_code_read_and_entered_garbled_is_state_loss():
    made = judged(
        act(page="cell 'Serial QX-40981'"),
        step("type", at=(300, 300), value="QX-40918", changed=[(300, 300)], page_text=MENU),
        act(2),
        finish(),
        final_text=MENU,
    )
    assert told(made) == "t2-state"


def test_a_code_entered_as_read_is_not():
    made = judged(
        act(page="cell 'Serial QX-40981'\ncell 'Serial QX-40918'"),
        step("type", at=(300, 300), value="QX-40918", changed=[(300, 300)], page_text=MENU),
        act(2),
        finish(),
        final_text=MENU,
    )
    assert told(made) == "ambiguous"


def test_choosing_what_the_goal_rules_out_is_a_specification_violation():
    goal = 'Pick any paper except "Glossy" and store it.'
    assert told(judged(act(), act(1, name="Glossy"), act(2, name="Store"), finish(), goal=goal, final_text=MENU)) == "t1-spec"


@pytest.mark.parametrize(
    ("reason", "category"),
    [
        ("It looks nicest, at €48.00.", "t1-spec"),
        ("At €28.50 it keeps to the limit of €30.", "ambiguous"),
        ("It looks nicest.", "ambiguous"),
        ("The first is €48, this one €28.", "ambiguous"),
    ],
)
def test_a_choice_beyond_a_limit_is_a_specification_violation(reason, category):
    goal = "Book a room for at most €30 a night."
    assert told(judged(act(), act(1, name="Room 4", reasoning=reason), act(2), finish(), goal=goal, final_text=MENU)) == category


def test_stopping_with_one_of_two_parts_untouched_is_a_premature_stop():
    goal = 'Print "Invoices" and "Labels".'
    assert told(judged(act(0, name="Invoices"), act(1, name="Print"), finish(value="All done."), goal=goal, final_text=MENU)) == "t3-term"
    both = judged(
        act(0, name="Invoices"), act(1, name="Labels"), act(2, name="Print"), finish(value="All done."), goal=goal, final_text=MENU
    )
    assert told(both) == "ambiguous"


def test_reporting_success_over_an_error_on_the_page_is_a_missed_verification():
    made = judged(act(), act(1, name="Store"), finish(value="Stored."), final_text="alert 'Copies must be a number. The job was not sent.'")
    assert told(made) == "t3-verif"


def test_the_earliest_decisive_fault_wins():
    made = judged(
        act(),
        act(1, name="Discard", reasoning='I press "Store".'),
        *[step(at=(500, 400), text="button 'Sync'", page_text=MENU) for _ in range(5)],
    )
    assert told(made) == "t2-ground"


def test_every_label_is_in_the_codebook_and_says_why():
    book = load()
    for made in (judged(), judged(act()), judged(act(), finish()), judged(*[act(0, changed=None) for _ in range(4)])):
        opinion = rules.judge(rules.blinded(made))
        assert opinion.verdict in book.verdicts and (opinion.category is None) == (opinion.verdict != "gf")
        assert opinion.category is None or opinion.category in book.categories
        assert opinion.rationale and 0 <= opinion.confidence <= 1
        assert all(0 <= number < max(1, len(made.steps)) for number in opinion.evidence_steps)


def test_without_screenshots_a_repetition_cannot_be_told_from_progress():
    made = judged(act(page=None), *[step(at=(500, 400), text="button 'Sync'", reasoning="I press it again.") for _ in range(5)])
    assert told(made) == "t3-noop"
    assert told(made, screenshots=False) == "ambiguous"


def test_without_screenshots_page_text_still_shows_a_standstill():
    still = [step(at=(500, 400), text="button 'Sync'", page_text=MENU, url="https://print.example/a") for _ in range(5)]
    assert told(judged(act(), *still, final_text=MENU, final_url="https://print.example/a"), screenshots=False) == "t3-noop"


def test_a_judge_sees_neither_agent_nor_reward_nor_truth():
    made = judged(act())
    made.row |= {"agent": "leak", "experiment": "leak", "source": "leak", "source_file": "leak", "benchmark": "leak", "raw_reward": 0.0}
    assert "leak" not in repr(rules.blinded(made).row) and "raw_reward" not in rules.blinded(made).row


def test_hostile_text_does_not_stop_the_judge():
    nasty = ['"' * 3000, "\ufffd\u202e" * 500, "press " * 3000 + '"', "at most $" * 2000, "not " * 3000 + '"x"', "9" * 3000, "A-1" * 2000]
    for text in nasty:
        made = judged(
            act(reasoning=text, page=text),
            act(1, reasoning=text, page=text),
            finish("answer", value=text),
            goal=text,
            answer=text,
            reference=text[:50],
            final_text=text,
        )
        rules.judge(rules.blinded(made))
