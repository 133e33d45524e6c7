"""The solver that reads: what it makes of changed text, with a reader that stands in; and, where the extra is installed, the real one."""

import json
import socket
from io import BytesIO

import pytest
from PIL import Image as Pixels
from PIL import ImageDraw, ImageFont
from test_infer import Pictures, command, probe, settings_for, write_probes

from evoaudit import config, extras, plan, prompts
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.infer import base, ocr
from evoaudit.infer.builtin import Solver
from evoaudit.infer.predict import predict
from evoaudit.prompts import Image

real = pytest.mark.skipif(extras.no_ocr() is not None, reason=f"the extra 'ocr' is absent: {extras.no_ocr()}")
FONT = ImageFont.load_default(size=15)
FIELD = (40, 60, 300, 86)


def page(field: str = "", hint: bool = False, caret: bool = False, extra: str = "", ink: str = "black") -> Pixels.Image:
    """Return a page with one field and what stands in it."""
    picture = Pixels.new("RGB", (512, 320), "white")
    pen = ImageDraw.Draw(picture)
    pen.text((40, 38), "Delivery address", font=FONT, fill="black")
    pen.rectangle(FIELD, outline="gray")
    pen.text((50, 64), field, font=FONT, fill="darkgray" if hint else ink)
    if caret:
        x = 50 + round(FONT.getlength(field)) + 3
        pen.line((x, 64, x, 83), fill="black")
    pen.text((40, 120), "We deliver on weekdays.", font=FONT, fill="black")
    pen.text((40, 160), extra, font=FONT, fill="black")
    return picture


class Standin:
    """Reads the field's line as it is told to, and nothing else."""

    def __init__(self, before: Pixels.Image, after: Pixels.Image, texts: dict[str, str]) -> None:
        self.pictures = Pictures({"before": before, "after": after})
        self.texts = texts
        self.boxes: list[tuple[int, int, int, int]] = []

    def data(self, image: Image) -> bytes:
        return self.pictures.get(image.image_id)

    def lines(self, image: Image, box: tuple[int, int, int, int]) -> tuple[ocr.Line, ...]:
        self.boxes.append(box)
        text = self.texts[image.image_id]
        return (ocr.Line(text, (48, 62, 56 + round(FONT.getlength(text)), 85)),) if text and box[1] < 70 < box[3] else ()


def read(before: Pixels.Image, after: Pixels.Image, old: str, new: str) -> tuple[str, str]:
    return ocr.action(Standin(before, after, {"before": old, "after": new}), Image("before"), Image("after"))[:2]


@pytest.mark.parametrize(
    ("before", "after", "old", "new", "answer"),
    [
        # In an empty field, over a hint, over other text before a caret.
        (page(), page("Oslo"), "", "Oslo", ("type", "Oslo")),
        (page("City", hint=True), page("Oslo"), "City", "Oslo", ("type", "Oslo")),
        (page("Bergen"), page("Oslo", caret=True), "Bergen", "Oslo|", ("type", "Oslo")),
        (page("Os"), page("Oslo", caret=True), "Os", "Oslo]", ("type", "lo")),
        # A last letter like a caret is kept where none is drawn.
        (page(), page("Basel"), "", "Basel", ("type", "Basel")),
        # In the place of other text.
        (page("Any seat"), page("Aisle"), "Any seat", "Aisle", ("select", "Aisle")),
        # Nothing, no text, the same text, another page.
        (page("Oslo"), page("Oslo"), "Oslo", "Oslo", ("click", "")),
        (page(), page(" "), "", "", ("click", "")),
        (page("Oslo", hint=True), page("Oslo"), "Oslo", "O slo", ("click", "")),
        (page(), Pixels.new("RGB", (512, 320), "navy"), "", "Welcome", ("click", "")),
        (page(), page().resize((300, 200)), "", "Oslo", ("click", "")),
    ],
)
def test_what_changed_says_what_was_done(before, after, old, new, answer):
    assert read(before, after, old, new) == answer


def test_two_new_lines_without_a_caret_are_a_click():
    reader = Standin(page("Oslo"), page("Rome", extra="Saved"), {"before": "Oslo", "after": "Rome"})
    seen = reader.lines
    reader.lines = lambda image, box: (
        (ocr.Line("Saved", (40, 160, 80, 178)),) if image.image_id == "after" and box[1] > 130 else seen(image, box)
    )
    assert ocr.action(reader, Image("before"), Image("after"))[:2] == ("click", "")


def test_only_what_changed_is_read():
    reader = Standin(page(), page("Oslo"), {"before": "", "after": "Oslo"})
    ocr.action(reader, Image("before"), Image("after"))
    assert reader.boxes and all(top >= 40 and bottom <= 110 and right < 200 for _, top, right, bottom in reader.boxes)


def test_without_the_extra_one_line_says_how_to_get_it(tmp_path, capsys, monkeypatch):
    extras.no_ocr.cache_clear()
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "rapidocr" else object())
    try:
        tree = {
            "run": {"name": "x"},
            "sources": [{"name": "s", "kind": "simulated", "trajectories": 20, "formats": ["plain"]}],
            "models": [{"name": "reads", "provider": "builtin", "model": "ocr-difference"}],
        }
        with pytest.raises(InputError, match="model 'reads': needs rapidocr, which only the optional extra 'ocr' installs; run `make ocr`"):
            plan.build(config.check(tree), tmp_path)
        (tmp_path / "c.yaml").write_text(json.dumps(tree))
        assert main(["doctor", "--configfile", str(tmp_path / "c.yaml"), "--results", str(tmp_path)]) == 1
        assert [line for line in capsys.readouterr().out.splitlines() if "make ocr" in line and line.startswith("FAIL")]
        probes = {"t1": [], "t2": [], "t3": []}
        mined = write_probes(tmp_path / "mined", probes)
        settings = {**settings_for(None, condition="metadata"), "name": "reads", "provider": "builtin", "model": "ocr-difference"}
        assert main(command(settings, mined, tmp_path / "out")) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and "run `make ocr`" in error and not (tmp_path / "out/manifest.json").exists()
    finally:
        extras.no_ocr.cache_clear()


def test_another_version_has_other_models_and_is_refused(monkeypatch):
    extras.no_ocr.cache_clear()
    monkeypatch.setattr(extras, "find_spec", lambda name: object())
    monkeypatch.setattr(extras, "version", lambda name: "3.9.9")
    try:
        assert extras.no_ocr() == f"needs rapidocr {extras.OCR_VERSION}, whose models come with it, and not 3.9.9"
    finally:
        extras.no_ocr.cache_clear()


def t2(name: str, **more: object) -> dict:
    return probe(name, [f"{name}-before", f"{name}-after"], step=0, answer_action="type", answer_value="x", value_in_goal=False, **more)


CASES = {
    "typed": (page("Street and number", hint=True), page("12 Pear Street", caret=True), ("type", "12 Pear Street")),
    "long": (page(), page("maya.aalto@post.example"), ("type", "maya.aalto@post.example")),
    "picked": (page("Any seat"), page("Aisle"), ("select", "Aisle")),
    "moved": (page(), Pixels.new("RGB", (512, 320), "navy"), ("click", "")),
    "same": (page("Oslo"), page("Oslo"), ("click", "")),
}
SCREENS = Pictures(
    {f"{name}-{when}": picture for name, pair in CASES.items() for when, picture in zip(("before", "after"), pair, strict=False)}
)


def answers(rows: list[dict]) -> dict[str, tuple[str, str]]:
    return {row["instance_id"]: (json.loads(row["raw"])["action"], json.loads(row["raw"])["value"]) for row in rows}


@real
def test_real_text_is_read_without_a_network_and_alike_each_time(tmp_path, monkeypatch):
    def cut(*_: object, **__: object) -> None:
        raise OSError("the network is cut")

    monkeypatch.setattr(socket.socket, "connect", cut)
    monkeypatch.setattr(socket, "getaddrinfo", cut)
    probes = {"t1": [], "t2": [t2(name) for name in CASES], "t3": []}
    settings = {**settings_for(None), "name": "reads", "provider": "builtin", "model": "ocr-difference"}
    rows = predict(settings, probes, SCREENS, prompts.shipped(), out=tmp_path)
    assert answers(rows) == {name: case[2] for name, case in CASES.items()}
    turned = {task: found[::-1] for task, found in probes.items()}
    assert predict(settings, turned, SCREENS, prompts.shipped(), out=tmp_path, threads=3) == rows


@real
def test_a_picture_is_read_once_a_job():
    reader = ocr.Reader(base.Attachments(SCREENS))
    box = (30, 50, 400, 100)
    first = reader.lines(Image("typed-after"), box)
    assert first[-1].text[:14] == "12 Pear Street"
    reader._engine = None
    assert reader.lines(Image("typed-after"), box) == first and reader._engine is None


@real
@pytest.mark.parametrize("size", [(1, 1), (16, 9), (1024, 1), (8, 1024), (1, 1024)])
def test_pictures_of_any_shape_are_read(size):
    picture = Pixels.effect_noise(size, 90)
    reader = ocr.Reader(base.Attachments(Pictures({"noise": picture})))
    assert all(line.text for line in reader.lines(Image("noise"), (0, 0, *size)))


@real
def test_black_pictures_and_single_ones_are_not_read(tmp_path):
    solver = Solver("ocr-difference", base.Attachments(SCREENS), seed=0)
    for condition in ("black", "after_only", "metadata", "text_only_goal"):
        view = prompts.view("t2", t2("typed"), condition=condition)
        assert json.loads(solver.answer(view, "typed", 0)) == {"action": "click", "value": "", "confidence": 0.5}
    assert solver._text._engine is None


def test_order_and_successor_are_left_to_the_pixels():
    rows = {"t1": ["typed-after", "typed-before", "moved-after"], "t3": ["typed-before", "moved-after", "typed-after"]}
    for task, images in rows.items():
        view = prompts.view(task, probe("x", images))
        both = [Solver(name, base.Attachments(SCREENS), seed=0).answer(view, "x", 0) for name in ("image-similarity", "ocr-difference")]
        assert both[0] == both[1]


def test_grey_pictures_of_any_mode_compare(tmp_path):
    out = BytesIO()
    page("x").convert("P").save(out, "PNG")
    assert ocr.grey(out.getvalue()).shape == (320, 512)
