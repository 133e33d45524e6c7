"""Answers and references: what counts as the same value, and what must not."""

import datetime
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoaudit.audit.compare import asks, compare, dates, parse_state, same_value, tokens

SAME = [
    # money, thousands, decimals
    ("$0.00", "0", "a bare zero and a price of nothing"),
    ("$1,234.50", "1234.5", "currency and thousands separators"),
    ("1.234,50 €", "€1,234.50", "both ways to write thousands and decimals"),
    ("USD 12.99", "$12.99", "a currency's code and its sign"),
    ("1'299.00", "1299", "apostrophe as separator"),
    ("1.5 million", "1,500,000", "a scale word"),
    ("five", "5", "a number word"),
    ("45%", "45", "percent sign left out"),
    ("-$5.00", "-5", "negative money"),
    # units
    ("21 inches", "21", "a unit the reference leaves out"),
    ("21", "21 inches", "a unit the answer leaves out"),
    ("1 km", "1000 m", "units of one dimension"),
    ("90 minutes", "1h 30min", "durations"),
    ("1 hour and 30 minutes", "90 min", "durations in words"),
    ("3 commits", "3", "a counted noun"),
    # dates and times
    ("October 5, 2023", "2023-10-05", "written and ISO date"),
    ("5 Oct 2023", "October 5th, 2023", "order and ordinal"),
    ("10/05/2023", "2023-10-05", "a slash date against an unambiguous one"),
    ("Oct", "October", "short month"),
    ("Friday, March 6, 2026", "March 6", "a date that says more than was asked"),
    ("3:30 PM", "15:30", "both clocks"),
    # spelling, number, wrapping
    ("Canceled", "cancelled", "both spellings"),
    ("Racing car", "racing cars", "singular and plural"),
    ("Complete", "Completed", "status in both forms"),
    ("The colour is grey", "gray", "spelling within a sentence"),
    ('["x"]', "x", "answer wrapped in a list"),
    ('[["x"]]', "x", "answer wrapped twice"),
    ("x", '["x"]', "reference wrapped"),
    ('{"answer": "Blue"}', "blue", "answer wrapped in an object"),
    ("“Blue”.", "blue", "typographic quotes and a full stop"),
    # identifiers and addresses
    ("000000170", "000000170", "leading zeros, the same"),
    ("The order is #000000170.", "000000170", "an identifier within a sentence"),
    ("#170", "170", "a number sign"),
    ("http://www.shop.example/item/", "https://shop.example/item", "scheme, www and final slash"),
    # lists
    ("C, A and B", "A, B, C", "order of a list"),
    ("The books are: A Tale, B Tale", "B Tale; A Tale", "a lead-in and another separator"),
    ("1. Alpha\n2. Beta", "Beta, Alpha", "a numbered list"),
    ("1. Alpha tale 2. Beta tale", "Beta tale; Alpha tale", "a list numbered on one line"),
    ("Okafor, Umar", "Umar Okafor", "family name first"),
    ("170 is Canceled, 189 Pending", "170: cancelled, 189: pending", "pairs in a list, spelt otherwise"),
    ("189 Pending; 170 Canceled", "170: cancelled; 189: pending", "pairs in another order"),
    ('["b", "a"]', "a, b", "a list in JSON"),
    ("2, 3", "3, 2", "several modes of a statistic"),
    # alternatives and infeasible tasks
    ("Blue", "red |OR| blue", "the second alternative"),
    ("3", "3 |OR| three", "the first alternative"),
    ("This is impossible because the form has no such field", "N/A", "why a task cannot be done"),
    ("N/A", "n/a", "the literal mark"),
    # sentences
    ("The number of reviews is: 0. Method: I opened the page", "0", "a number before a full stop"),
    ("It costs $12.99 in total", "12.99", "a price in a sentence"),
    ("The total was $1,299.00 for 2 items.", "$1299", "a price beside a count"),
    ("Yes, it is in stock", "yes", "yes with a reason"),
    ("The address is 5000 Forbes Ave, Pittsburgh, PA", "5000 Forbes Ave, Pittsburgh, PA", "a reference with commas that is no list"),
]

DIFFERENT = [
    ("000000170", "170", "leading zeros are part of an identifier"),
    ("170", "000000170", "and may not be left out"),
    ("The order is #000000170", "170", "nor within a sentence"),
    ("INC10012", "INC0010012", "an identifier with letters"),
    ("€5", "$5", "another currency"),
    ("22 inches", "21", "another number"),
    ("21 cm", "21 inches", "another unit"),
    ("3 issues", "3 commits", "another noun"),
    ("There are 10", "0", "a digit within a number"),
    ("I found 2 candidates, the answer is 5", "2", "two numbers, one of them wrong"),
    ("-5", "5", "the sign"),
    ("1,234", "1.234", "thousands are not decimals"),
    ("3/5/2026", "5/3/2026", "two slash dates written differently"),
    ("March 5, 2026", "March 6, 2026", "another day"),
    ("October", "October 5", "a date that says less"),
    ("2023-10-05", "2024-10-05", "another year"),
    ("3:30 AM", "15:30", "the other half of the day"),
    ("https://a.example/viewedasdf", "https://a.example/viewed", "an address that only begins alike"),
    ("https://a.example/p?id=1", "https://a.example/p?id=2", "another query"),
    ("The order is not cancelled", "cancelled", "a negation"),
    ("It is either red or blue", "red", "a hedge"),
    ("No, it is not", "yes", "the opposite"),
    ("Nothing", "no", "a word that begins alike"),
    ("A, B, C, D", "A, B, C", "a list with one too many"),
    ("A, B", "A, B, C", "a list with one too few"),
    ("Umar, Okafor and Pavel", "Umar Okafor", "a name and a list"),
    ("A, A, B", "A, B, B", "a list with the wrong one twice"),
    ("42", "n/a", "an answer where none exists"),
    ("blue", "red |OR| green", "none of the alternatives"),
    ("", "x", "no answer"),
    ("x", "", "no reference"),
    (" \n", "0", "an empty answer"),
]


@pytest.mark.parametrize(("answer", "reference", "what"), SAME, ids=[case[2] for case in SAME])
def test_the_same_value_in_another_form_is_the_same(answer, reference, what):
    assert compare(answer, reference).equal, what


@pytest.mark.parametrize(("answer", "reference", "what"), DIFFERENT, ids=[case[2] for case in DIFFERENT])
def test_another_value_is_not_the_same(answer, reference, what):
    assert not compare(answer, reference).equal, what


def test_numbers_of_the_goal_may_be_echoed_in_the_answer():
    goal = "How many of the 12 orders of 2023 were cancelled?"
    assert compare("Of the 12 orders in 2023, 3 were cancelled.", "3", goal).equal
    assert not compare("Of the 12 orders in 2023, 4 were cancelled.", "3", goal).equal
    assert not compare("Of the 12 orders in 2023, 3 were cancelled.", "3").equal


def test_a_page_of_prose_does_not_state_a_short_reference():
    assert not compare("word " * 80 + "blue", "blue").equal


def test_none_is_never_equal():
    assert not compare(None, "x").equal and not compare("x", None).equal


def test_the_way_of_comparing_is_reported():
    assert compare("$0.00", "0").kind == "number"
    assert compare("5 Oct 2023", "2023-10-05").kind == "date"
    assert compare("b, a", "a, b").kind == "list"
    assert compare("170", "000000170").kind == "identifier"


@given(st.text(max_size=80), st.text(max_size=80))
def test_comparing_never_crashes(answer, reference):
    compare(answer, reference, answer)


@given(st.text(max_size=60).filter(lambda text: any(token for token in tokens(text) if len(token) > 2)))
def test_every_text_with_a_word_equals_itself(text):
    assert compare(text, text).equal or "|or|" in text.casefold()


@given(st.decimals(min_value=-(10**9), max_value=10**9, places=2, allow_nan=False))
def test_a_number_equals_itself_with_separators_and_currency(number):
    assert compare(f"{number:,}", str(number)).equal
    assert compare(f"${abs(number):,}", str(abs(number))).equal


@given(st.dates(min_value=datetime.date(1990, 1, 1), max_value=datetime.date(2099, 12, 31)))
def test_a_date_equals_itself_in_every_form(date):
    iso = date.isoformat()
    for form in (f"{date:%B} {date.day}, {date.year}", f"{date.day} {date:%b} {date.year}", f"{date:%b} {date.day} {date.year}"):
        assert compare(form, iso).equal and compare(iso, form).equal


def test_dates_in_a_text_do_not_overlap():
    assert [date.readings for date in dates("from 2023-10-05 to october 7, 2023")] == [
        frozenset({(2023, 10, 5)}),
        frozenset({(2023, 10, 7)}),
    ]


def test_long_hostile_answers_are_compared_in_no_time():
    begin = time.process_time()
    for nasty in (
        "1," * 5000,
        "a " * 5000,
        "[" * 5000,
        "1.1." * 3000,
        "- " * 4000,
        "$" * 9000,
        "1 day " * 2000,
        "((((" * 3000 + "))))" * 3000,
    ):
        compare(nasty, "5, 6, 7")
        compare(nasty, nasty)
        compare("5", nasty)
    assert time.process_time() - begin < 5


def test_a_state_is_parsed_only_from_pairs():
    assert parse_state("theme=dark; wifi=on") == {"theme": "dark", "wifi": "on"}
    assert parse_state("a=b") == {"a": "b"}
    for other in ("Order confirmed: Lamp", "https://a.example/?q=1", "a=b; c", "", None, "=x", "what is 2+2=4"):
        assert parse_state(other) is None


def test_questions_are_told_from_commands():
    assert asks("Who is assigned to the issue?") and asks("Find the price. Answer with a number.") and asks("Tell me the date of my trip")
    assert not asks("Order the lamp") and not asks('Reply with the text "see you"') and not asks(None)


def test_values_of_a_field_compare_by_type():
    assert same_value("$12.00", "12") and same_value("On", "on") and not same_value("on", "off")
