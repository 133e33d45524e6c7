"""Nothing private leaves: planted credentials and identifiers are masked wherever they stand, and none is found on reading again."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_export import arguments, export, source, target
from PIL import Image

from evoaudit import extras, prepared, store
from evoaudit.__main__ import main
from evoaudit.export import masking, privacy
from evoaudit.export.masking import Line

#: Rule → texts that must be found. Numbers are published test numbers, or made up with a right check digit.
PLANTED = {
    "card": ["4111 1111 1111 1111", "5500-0000-0000-0004", "378282246310005", "pay with 4242424242424242."],
    "account": ["GB82 WEST 1234 5698 7654 32", "DE89370400440532013000", "to fr14 2004 1010 0505 0001 3m02 606 today"],
    "e-mail": ["jane.doe+x@corp.co.uk", "write to <j_d@mail.de>", "mailto:ann@uni-x.edu?subject=1"],
    "phone": ["+49 30 901820 42", "+1 (212) 736-5000", "call 212-736-5000 now", "(212) 736-5000"],
    "ssn": ["SSN 219-09-9999"],
    "key": ["sk-ant-" + "a1B2c3D4" * 3, "ghp_" + "aZ09" * 9, "AKIAIOSFODNN7EXAMPLE", "-----BEGIN RSA PRIVATE KEY-----", "hf_" + "aB3" * 10],
    "password": [
        "password: correcthorse",
        "the password is hunter2,",
        "password 'x9y8z'",
        "Password is Tr0ub4dor&3",
        "https://ann:s3cret@host.org/x",
        "Bearer abcdefgh12345678",
        "pwd=x9!kk",
    ],
    "address": ["from 8.8.8.8"],
    "name": [
        "Signed in as Ada Quill",
        "logged in as O'Brien.",
        "Hello, Ada",
        "Hi Zoë Ångström!",
        "Welcome back, 山田太郎",
        "Dear Ada Quill, your order has left",
        "Bill to: Ada M. Quill",
        "Google Account: Ada Quill (signed in)",
        "Passenger: Иван Петров",
    ],
}
HARMLESS = (
    *("4111 1111 1111 1112", "order 1234567890123", "0000 0000 0000 0000", "3.1415926535897932384", "ISBN 978-3-16-148410-0"),
    *("GB82 WEST 1234 5698 7654 33", "2026-11-30 19:23:19", "version 1.2.3", "127.0.0.1", "10.0.0.1", "$1,299.00", "000-12-3456"),
    *("liam.young@mail.example", "a@example.com", "@everyone", "+1 212-555-0123", "flight LH 4567", "tracking 1Z999AA10123456784"),
    *(
        "Forgot your password? Reset it",
        "password reset",
        "enter the password below",
        "Password strength",
        "password is unchanged",
        "new password 8-20 chars",
        "[masked password]",
        "[masked name]",
        "Hello, sign in",
        "Hello, Guest",
        "Hello World",
        "Hi there!",
        "Hi, Please book a table for two",
        "Hello, I want a kettle",
        "Dear Customer,",
        "Welcome back!",
        "Welcome to Springfield",
        "Account: Savings",
        "Deliver to Seattle tomorrow",
        "HIGHLAND PARK, WELCOME CENTER",
        "sk-learn",
    ),
)


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in PLANTED.items() for text in texts])
def test_every_planted_secret_is_found_and_gone_when_masked(rule, text):
    spans = privacy.find(text)
    assert rule in {span.rule for span in spans}
    clean = privacy.mask(text, spans)
    assert f"[masked {rule}]" in clean and not privacy.find(clean)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_a_secret_stays(text):
    assert privacy.find(text) == []


@given(st.text(alphabet="0123456789", min_size=15, max_size=18))
def test_one_wrong_digit_makes_a_card_number_harmless(digits):
    body = "4" + digits[:14]
    total = sum(sum(divmod(2 * int(digit), 10)) if place % 2 == 0 else int(digit) for place, digit in enumerate(reversed(body)))
    right = -total % 10
    assert [privacy.luhn(f"{body}{last}") for last in range(10)] == [last == right and len({*body, str(last)}) > 1 for last in range(10)]


@given(st.text(max_size=200))
def test_masking_any_text_leaves_nothing_to_mask(text):
    assert privacy.find(privacy.mask(text, privacy.find(text))) == []


@pytest.mark.parametrize(
    ("element", "rule"),
    [
        ("[textbox] Password", "password"),
        ("input type=password", "password"),
        ("Passcode:", "password"),
        ("[textbox] CVV", "password"),
        ("Card number", "card"),
        ("[textbox] E-mail address", "e-mail"),
        ("firstName", "name"),
        ("first_name", "name"),
        ("[textbox] Passenger name", "name"),
        ("Date of birth", "birth"),
        ("Mobile", "phone"),
        ("[combobox] Street address", "street"),
        ("[textbox] Name", "name"),
        ("Name *", "name"),
        ("[textbox] Billing name", "name"),
        ("Name on card", "name"),
        ("[textbox] Recipient's full name", "name"),
        ("input Vorname", "name"),
        ("[textbox] Project name", None),
        ("[textbox] Name of the list", None),
        ("[searchbox] Search", None),
        ("Address and search bar", None),
        ("[textbox] Company name", None),
        ("Pinterest", None),
        ("File name", None),
        (None, None),
    ],
)
def test_fields_are_known_by_role_and_name(element, rule):
    assert privacy.field_rule(element) == rule


def strings(folder: Path) -> str:
    """Return every text of an export: plain files as they are, tables cell by cell, pictures left out."""
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.suffix != ".parquet":
            found.append(path.read_text(encoding="utf-8"))
            continue
        table = pq.read_table(path)
        found.append(json.dumps(table.drop_columns([name for name in ("images",) if name in table.column_names]).to_pylist()))
    return "\n".join(found)


SECRETS = {0: ("[textbox] Password", "Zebra-Kettle-77"), 1: ("[textbox] Your name", "Ada Quill"), 2: ("[searchbox] Search", "jane@corp.de")}


@pytest.fixture(scope="module")
def masked(tmp_path_factory) -> Path:
    logs = source(n=4, typed=SECRETS)
    logs.trajectories[0]["instruction"] = "Log in as ada with zebra-kettle-77 and pay by 4111 1111 1111 1111"
    logs.trajectories[1]["instruction"] = "Book a table for  Ada   Quill, not for Adaline Quillfeather"
    logs.trajectories[3]["instruction"] = "Book a table for Ada Quill"
    logs.trajectories[3]["website"] = "https://ann:s3cret@host.org"
    return export(tmp_path_factory.mktemp("masked"), logs, pictures="unread")


def test_what_was_typed_into_a_field_of_its_own_is_masked_in_its_whole_trajectory_and_in_no_other(masked):
    goals = [row["goal"] for row in pq.read_table(masked / "data/t1/test.parquet").to_pylist()]
    assert goals == [
        "Log in as ada with [masked password] and pay by [masked card]",
        "Book a table for  [masked name], not for Adaline Quillfeather",
        "goal of web:2",
        "Book a table for Ada Quill",
    ]
    rows = pq.read_table(masked / "data/t3/test.parquet").to_pylist()
    assert [row["masked"] for row in rows] == [True, True, False, True] and rows[3]["website"] == "https://ann:[masked password]"


def test_whom_an_element_greets_is_masked_in_the_whole_trajectory(tmp_path):
    logs = source(n=2)
    for step in logs.steps:
        if step["trajectory_id"] == "web:0" and step["op"] != "type":
            step["target"] = target("[button] Hello, Ada Quill")
    for row in logs.trajectories:
        row["instruction"] = "Order what Ada Quill ordered last week"
    out = export(tmp_path, logs, pictures="none")
    goals = [row["goal"] for row in pq.read_table(out / "data/t1/test.parquet").to_pylist()]
    assert goals == ["Order what [masked name] ordered last week", "Order what Ada Quill ordered last week"]


@pytest.mark.parametrize(
    ("typed", "goal", "said"),
    [
        ("ada.quill@corp.de", "Mail Ada Quill and ada.quill", "Mail [masked name] and [masked name]"),
        ("info@corp.de", "Find info on kettles", "Find info on kettles"),
        ("ada_2@corp.de", "Ask ada 2", "Ask ada 2"),
    ],
)
def test_the_name_before_an_addresss_at_is_masked_too(tmp_path, typed, goal, said):
    logs = source(n=1, typed={0: ("[textbox] Email", typed)})
    logs.trajectories[0]["instruction"] = goal
    out = export(tmp_path, logs, pictures="none")
    assert pq.read_table(out / "data/t1/test.parquet").to_pylist()[0]["goal"] == said


def test_a_masked_value_leaves_t2_with_its_reason(masked):
    assert [row["instance_id"] for row in pq.read_table(masked / "data/t2/test.parquet").to_pylist()] == ["t2-003"]
    drops = {row["item"]: (row["reason"], row["detail"]) for row in store.read_rows(masked, "drops")}
    assert drops == {
        "t2 t2-000": ("masked_value", "its answer may not leave (password)"),
        "t2 t2-001": ("masked_value", "its answer may not leave (name)"),
        "t2 t2-002": ("masked_value", "its answer may not leave (e-mail)"),
    }
    counts = store.read_manifest(masked)["counts"]
    assert (counts["read"], counts["kept"], counts["dropped"]) == (12, 9, {"masked_value": 3})


def test_no_plaintext_is_left_in_any_file_and_the_list_of_places_has_none(masked):
    everything = strings(masked).casefold()
    for secret in ("zebra-kettle", "4111 1111", "jane@corp", "s3cret"):
        assert secret not in everything
    told = json.loads((masked / "privacy.json").read_text())
    assert {(one["item"], one["field"], one["rule"]) for one in told["masked"]} >= {
        ("t1 t1-000", "goal", "card"),
        ("t3 t3-003", "website", "password"),
    }
    assert all(one.keys() == {"item", "field", "rule", "n"} for one in told["masked"])
    assert "Masked in texts and pictures, by rule: card 2" in (masked / "README.md").read_text()


def test_an_id_that_names_somebody_keeps_its_items_back(tmp_path):
    logs = source(n=2)
    for table in (logs.trajectories, logs.steps, logs.changes):
        for row in table:
            row["trajectory_id"] = row["trajectory_id"].replace("web:1", "jane@corp.de/1")
    out = export(tmp_path, logs, pictures="none")
    # Its own three items, and the T3 item that borrows its screen.
    assert store.read_manifest(out)["counts"]["dropped"] == {"identifier_in_id": 4}
    # The drops name items, not trajectories.
    assert "jane@corp.de" not in strings(out)


@pytest.mark.parametrize(
    ("settings", "row", "stays"),
    [
        ({"privacy": {"allow": ["ada q*"]}}, {}, True),
        ({"privacy": {"allow": ["ada"]}}, {}, False),
        ({"privacy": {"fictional": ["web"]}}, {}, True),
        ({}, {"simulated": True}, True),
        ({}, {}, False),
    ],
)
def test_made_up_identities_may_leave(tmp_path, settings, row, stays):
    out = export(tmp_path, source(n=2, typed={0: ("Full name", "Ada Quill")}, **row), pictures="none", **settings)
    assert len(pq.read_table(out / "data/t2/test.parquet")) == (2 if stays else 1)
    assert bool(json.loads((out / "privacy.json").read_text())["spared"]) == stays


@pytest.mark.parametrize(("benchmark", "n"), [("webarena", 2), ("WebArena", 2), ("mybench", 1)])
def test_accounts_a_benchmark_publishes_may_leave_in_its_own_logs_alone(tmp_path, benchmark, n):
    logs = source(n=2, typed={0: ("Email", "emma.lopez@gmail.com")}, benchmark=benchmark)
    out = export(tmp_path, logs, pictures="none")
    assert len(pq.read_table(out / "data/t2/test.parquet")) == n


def test_pictures_that_cannot_be_read_stop_the_export(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(extras, "no_ocr", lambda: "needs rapidocr, which only the optional extra 'ocr' installs")
    assert main(arguments(tmp_path, source())) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "8 pictures: must be read before they leave, which needs rapidocr" in said and "make ocr" in said
    assert not list((tmp_path / "out").glob("*"))


def test_pictures_of_made_up_sources_need_no_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(extras, "no_ocr", lambda: "not here")
    out = export(tmp_path, source(simulated=True))
    assert "Of 8 pictures 0 were read by OCR" in (out / "README.md").read_text()


def test_a_rule_that_finds_nothing_lets_nothing_leave(tmp_path, monkeypatch):
    broken = [rule if rule.name != "card" else replace(rule, pattern=re.compile("(?!)")) for rule in privacy.RULES]
    monkeypatch.setattr(privacy, "RULES", tuple(broken))
    with pytest.raises(RuntimeError, match="'card' does not find its example"):
        main(arguments(tmp_path, source(), pictures="none"))
    assert not list((tmp_path / "out").glob("*"))


def test_what_masking_missed_is_found_on_reading_again_and_nothing_is_written(tmp_path, monkeypatch, capsys):
    logs = source(n=2)
    logs.trajectories[1]["instruction"] = "mail jane@corp.de"
    monkeypatch.setattr(privacy.Texts, "masked", lambda self, trajectory, item, name, text: text)
    assert main(arguments(tmp_path, logs, pictures="none")) == 2
    assert "t1 t1-001: goal: still shows what may not leave (e-mail) after masking" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("*"))


# What OCR reads


@pytest.mark.parametrize("at", [3, 14, 20, 30, 41])
def test_a_kept_reading_that_changed_on_the_disk_is_not_believed(tmp_path, at):
    reader = masking.Reader(tmp_path)
    lines = [Line("ana@example.org", (1, 2, 30, 14))]
    reader.keep("a1", lines)
    assert reader.known("a1") == lines
    path = next(tmp_path.rglob("*.json"))
    content = path.read_bytes()
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    assert reader.known("a1") is None


def finder(known: dict[str, str]) -> masking.Finder:
    texts = privacy.Texts(privacy.Allowed())
    steps = [
        {"op": "type", "step": n, "value": value, "target": {"text": {"password": "Password", "name": "Full name"}[rule]}}
        for n, (value, rule) in enumerate(known.items())
    ]
    texts.learn({"trajectory_id": "t", "source": "s", "benchmark": None, "simulated": False}, steps)
    return masking.Finder(texts, {"t"})


@pytest.mark.parametrize(
    ("read", "rule"),
    [
        ("Tr0ub4dor&3", "password"),
        ("Troub4dor&3", "password"),  # 0 taken for O
        ("yourpassword:tr0ub4dor&3saved", "password"),
        ("Hello,AdaQuill", "name"),
        ("Ada  Quill", "name"),
        ("Contact:jane.doe@corp.de", "e-mail"),
        ("Hello, Bo Weaver", "name"),
        ("Hello,BoWeaver", "name"),
        ("jane.doe @ corp.de", "e-mail"),
        ("Adaline", None),
        ("Total $12.00", None),
    ],
)
def test_what_was_typed_is_found_however_ocr_spells_it(read, rule):
    line = Line(read, (0, 0, 100, 20))
    assert finder({"Tr0ub4dor&3": "password", "Ada Quill": "name"})([line]) == ([(line, rule)] if rule else [])


def test_a_number_read_in_pieces_is_found_and_every_piece_filled():
    pieces = [Line(text, (n * 60, 10 + n % 2, n * 60 + 50, 30)) for n, text in enumerate(["Card", "4111 1111", "1111 1111", "Visa"])]
    other = Line("4111 1111", (60, 100, 110, 120))
    assert {line.text for line, _ in finder({})([*pieces, other])} == {"4111 1111", "1111 1111"}
    assert other not in [line for line, _ in finder({})([*pieces, other])]


def test_filling_is_one_colour_and_touches_nothing_else():
    pixels = np.random.default_rng(1).integers(1, 256, (60, 80, 3), dtype=np.uint8)
    filled = np.asarray(masking.fill(Image.fromarray(pixels), [(20, 10, 40, 30)]))
    changed = (filled != pixels).any(axis=2)
    rows, columns = np.nonzero(changed)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (6, 33, 16, 43)
    assert changed[6:34, 16:44].all() and len(np.unique(filled[6:34, 16:44])) == 1


@pytest.mark.slow
@pytest.mark.skipif(extras.no_ocr() is not None, reason=f"text in pictures cannot be read here: {extras.no_ocr()}")
def test_planted_secrets_in_pictures_are_filled_and_none_is_read_again(tmp_path, monkeypatch):
    screens = {
        0: "Signed in as jane.doe@corp.de\nYour order is on its way",
        1: "Card 4111 1111 1111 1111\nCall (212) 736-5000",
        2: "Welcome back, Ada Quill\nNothing else here",
        3: "Blue kettle, 12.00 dollars\nAdd to cart",
        4: "Hello, Bo Weaver\nNothing else here",
    }
    logs = source(n=5, typed={2: ("[textbox] Full name", "Ada Quill")}, screens=screens)
    words = arguments(tmp_path, logs, side=640)
    assert main(words) == 0
    out = tmp_path / "out"
    told = json.loads((out / "privacy.json").read_text())["masked"]
    secret = [logs.id(f"web-{i}-3") for i in (0, 1, 2, 4)]
    assert {one["item"] for one in told if one["item"].startswith("picture")} == {f"picture {image}" for image in secret}
    assert {one["rule"] for one in told if one["item"].startswith("picture")} == {"e-mail", "card", "phone", "name"}
    pictures = {
        image: picture["bytes"]
        for row in pq.read_table(out / "data/t1/test.parquet").to_pylist()
        for image, picture in zip(row["image_ids"], row["images"], strict=True)
    }
    reader = masking.Reader(None)
    for n, image in enumerate(secret):
        lines = " ".join(line.text for line in reader.read(Image.open(io.BytesIO(pictures[image])).convert("RGB"))).casefold()
        assert not any(part in lines for part in ("jane", "corp", "4111", "736", "quill", "weaver")), lines
        assert ("order", "", "nothing", "nothing")[n] in lines
    with prepared.Pictures(tmp_path / "images") as before:
        assert all(before.get(image) == data for image, data in pictures.items() if image not in secret)
    # Read once, the filled ones too: an export that goes on reads nothing again, and writes the same.
    first = {path.relative_to(out): path.read_bytes() for path in out.rglob("*.parquet")}
    assert len(list((tmp_path / "read").rglob("*.json"))) == 20 + len(secret)
    monkeypatch.setattr(masking.Reader, "read", lambda self, picture: pytest.fail("read again"))
    again = [word if word != str(out) else str(tmp_path / "again") for word in words]
    assert main([*again, "--threads", "2"]) == 0
    assert {path.relative_to(tmp_path / "again"): path.read_bytes() for path in (tmp_path / "again").rglob("*.parquet")} == first
