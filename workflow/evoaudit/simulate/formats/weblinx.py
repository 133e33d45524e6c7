"""WebLINX demonstrations: chat and browser turns; a screenshot shows what was seen before the turn's action."""

import io

from PIL import Image

from evoaudit.simulate.actors import Episode, Step
from evoaudit.simulate.deal import Deal
from evoaudit.simulate.draw import Draw
from evoaudit.simulate.formats.base import LFS, Pieces, draw_of, dump, shot, tag
from evoaudit.simulate.screen import HEIGHT, WIDTH, Widget
from evoaudit.simulate.words import FIRST

_INTENTS = {"click": "click", "hover": "hover", "type": "textInput", "select": "change", "scroll": "scroll", "copy": "copy"}
_EPOCH = 1_690_000_000_000


def split_of(number: int) -> list[str]:
    """Return the splits a demonstration is listed in; ``dev`` only repeats two others."""
    return {3: ["valid", "dev"], 5: ["test_iid", "dev"], 7: ["test_web"]}.get(number % 10, ["train"])


def write(episode: Episode, deal: Deal, seed: int, faulty: bool) -> Pieces:
    """Return a demonstration's files."""
    draw, site = draw_of(deal, seed), episode.task.site
    code = draw.code("abcdefghijklmnopqrstuvwxyz", 3, "code") + "".join(chr(97 + deal.number // 26**k % 26) for k in (3, 2, 1, 0))
    folder = f"weblinx/demonstrations/{code}"
    pieces = Pieces(code)
    recorder = _Recorder(pieces, folder, draw, site.url("/"))
    recorder.say("instructor", draw.pick(("Hi", "Hello", "Hi there"), "hi"), -draw.between(20, 60, "early") / 10)
    recorder.say("navigator", "Hi, ready when you are", -draw.between(2, 15, "early too") / 10)
    recorder.say("instructor", episode.task.instruction, draw.between(2, 20, "first") / 10)
    if draw.chance(60, "typed address"):
        recorder.load(site.url("/"), "typed")
    broken = draw.between(1, len(episode.steps) - 2, "broken at") if draw.chance(8, "broken") else None
    for k, step in enumerate(episode.steps):
        if step.verb == "tab":
            recorder.tab()
            continue
        fault = "pointer" if faulty and deal.number == 4 and k == 2 else "broken" if k == broken else None
        recorder.act(step, fault)
        if step.before.url != step.after.url and step.verb == "click":
            recorder.load(step.after.url, "link")
    recorder.say("navigator", draw.pick(("Done, anything else?", "That is all done", "Here you go"), "bye"), None)
    pieces.files += [
        (f"{folder}/replay.json", dump({"version": "0.1", "status": "done", "data": recorder.turns}).encode()),
        (
            f"{folder}/metadata.json",
            dump(
                {
                    "recordingStart": _EPOCH + deal.number * 60000,
                    "recordingEnd": _EPOCH + deal.number * 60000 + int(recorder.now * 1000),
                    "recordingId": code,
                    "timezoneOffsetMinutes": 0,
                    "userAgent": "simulated",
                    "version": "0.1",
                }
            ).encode(),
        ),
        (
            f"{folder}/form.json",
            dump(
                {
                    "annotator": draw.pick(FIRST, "annotator"),
                    "description": episode.task.instruction,
                    "tasks": [site.subdomain],
                    "navigator_name": draw.pick(FIRST, "nav"),
                    "instructor_name": draw.pick(FIRST, "inst"),
                    "shortcode": code,
                    "upload_date": "2026-01-01",
                    "instructor_sees_screen": True,
                    "uses_ai_generated_output": False,
                }
            ).encode(),
        ),
    ]
    pieces.lines += [(f"weblinx/splits.json#{split}", code) for split in split_of(deal.number)]
    if faulty and deal.number == 4:
        pieces.fault("weblinx", f"{folder}/screenshots", "Git LFS pointer as picture")
    if faulty and deal.number == 6:
        other = f"weblinx/demonstrations/zz{code[2:]}"
        pieces.files += [(f"{other}/{name}.json", b"{}") for name in ("replay", "metadata", "form", "invalid")]
        pieces.fault("weblinx", other, "demonstration marked invalid")
    return pieces


#: State of a turn whose screen is not recorded.
_UNSEEN = {"screenshot": None, "page": None, "screenshot_status": None}


class _Recorder:
    """Writes turns as the recorder's browser extension would."""

    def __init__(self, pieces: Pieces, folder: str, draw: Draw, url: str) -> None:
        self.pieces, self.folder, self.draw, self.url = pieces, folder, draw, url
        self.turns: list[dict] = []
        self.now, self.event, self.tab_id = 2.0, 0, draw.between(100, 900, "tab id")
        self.zoom = draw.pick((1, 1, 1, 1, 1.25, 1.5, 2), "zoom")
        #: Viewport pixels per picture pixel, and whether boxes are in client units (viewport times zoom).
        self.scale, self.client_boxes = draw.pick((1, 1, 1, 2), "scale"), draw.chance(50, "client boxes")

    def _tick(self) -> float:
        self.now += self.draw.between(8, 60, "pause", len(self.turns)) / 10
        return round(self.now, 2)

    def say(self, speaker: str, text: str, at: float | None) -> None:
        """Add a chat turn."""
        self.turns.append({"type": "chat", "timestamp": self._tick() if at is None else at, "speaker": speaker, "utterance": text})

    def _turn(self, intent: str, arguments: dict, state: dict, html: str | None = None) -> None:
        self.turns.append(
            {
                "type": "browser",
                "timestamp": self._tick(),
                "state": state,
                "action": {
                    "intent": intent,
                    "arguments": arguments,
                    "event_id": self.event,
                    "element_html": html,
                    "screenshot_effect": None,
                },
            }
        )
        self.event += self.draw.between(1, 2, "event", len(self.turns))

    def _metadata(self, mouse: tuple[float, float] | None = None) -> dict:
        x, y = mouse or (-1, -1)
        return {
            "url": self.url,
            "tabId": self.tab_id,
            "timestamp": _EPOCH + int(self.now * 1000),
            "mouseX": x,
            "mouseY": y,
            "viewportWidth": WIDTH * self.scale,
            "viewportHeight": HEIGHT * self.scale,
            "zoomLevel": self.zoom,
        }

    def load(self, url: str, how: str) -> None:
        """Add the loading of a page, after what led to it."""
        self.url = url
        self._turn(
            "load",
            {"metadata": self._metadata(), "properties": {"url": url, "transitionType": how, "transitionQualifiers": [], "frameId": 0}},
            dict(_UNSEEN),
        )

    def tab(self) -> None:
        """Add the opening and closing of another tab."""
        other = {**self._metadata(), "url": "", "tabId": -1, "viewportWidth": -1, "viewportHeight": -1}
        for intent in ("tabcreate", "tabremove"):
            self._turn(intent, {"metadata": other, "properties": {"tabId": self.tab_id + 1, "windowId": 1}}, dict(_UNSEEN))

    def act(self, step: Step, fault: str | None) -> None:
        """Add a browser turn."""
        intent = _INTENTS.get(step.verb)
        if intent is None:  # a person just waits
            return
        self.url = step.before.url
        name = f"screenshot-{self.event}-0.png"
        state = {"screenshot": name, "page": f"page-{self.event}-0.html", "screenshot_status": "broken" if fault == "broken" else "good"}
        data = LFS if fault == "pointer" else _grey() if fault == "broken" else shot(step.before)
        self.pieces.files.append((f"{self.folder}/screenshots/{name}", data))
        arguments: dict = {}
        mouse = None
        if step.point and step.hit:
            mouse = (step.point[0] * self.scale, step.point[1] * self.scale)
            arguments["properties"] = {"clientX": round(mouse[0] * self.zoom, 2), "clientY": round(mouse[1] * self.zoom, 2), "button": 0}
            arguments["element"] = self._element(step, step.hit)
        elif step.hit:
            arguments["element"] = self._element(step, step.hit)
        arguments["metadata"] = self._metadata(mouse)
        arguments |= {
            "type": {"text": step.value},
            "select": {"value": step.value},
            "copy": {"selected": step.value},
            "scroll": {"scrollX": 0, "scrollY": max(0, step.after.scroll * self.scale)},
        }.get(step.verb, {})
        self._turn(intent, arguments, state, f"<{tag(step.hit)}>{step.hit.name}</{tag(step.hit)}>" if step.hit else None)

    def _element(self, step: Step, w: Widget) -> dict:
        unit = self.scale * (self.zoom if self.client_boxes else 1)
        x, y, width, height = w.x * unit, (w.y - step.before.scroll) * unit, w.w * unit, w.h * unit
        text = w.name if w.role not in ("textbox", "combobox") else "\n".join(w.options)
        return {
            "tagName": tag(w).upper(),
            "textContent": text,
            "xpath": f'id("{w.key}")',
            "attributes": {"data-webtasks-id": w.key.replace(":", "-"), "aria-label": w.name},
            "bbox": {"x": x, "y": y, "width": width, "height": height, "top": y, "left": x, "right": x + width, "bottom": y + height},
        }


def _grey() -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (WIDTH, HEIGHT), 128).save(buffer, "PNG")
    return buffer.getvalue()
