"""What AgentRewardBench and AgentLab studies have in common: BrowserGym's calls, element ids and accessibility trees."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from evoaudit.sources import jsonio
from evoaudit.sources.base import Picture, Trajectory
from evoaudit.sources.calls import Call
from evoaudit.sources.pixels import png_size

#: BrowserGym's calls → operation.
ACTIONS = {
    "click": "click",
    "check": "click",
    "uncheck": "click",
    "mouse_click": "click",
    "focus": "other",
    "clear": "other",
    "dblclick": "double_click",
    "mouse_dblclick": "double_click",
    "hover": "hover",
    "mouse_move": "hover",
    "fill": "type",
    "keyboard_type": "type",
    "keyboard_insert_text": "type",
    "select_option": "select",
    "press": "key",
    "keyboard_press": "key",
    "keyboard_down": "key",
    "keyboard_up": "key",
    "drag_and_drop": "drag",
    "mouse_drag_and_drop": "drag",
    "mouse_down": "other",
    "mouse_up": "other",
    "scroll": "scroll",
    "scroll_at": "scroll",
    "upload_file": "other",
    "mouse_upload_file": "other",
    "goto": "navigate",
    "go_back": "back",
    "go_forward": "forward",
    "new_tab": "tab",
    "tab_close": "tab",
    "tab_focus": "tab",
    "noop": "wait",
    "send_msg_to_user": "answer",
    "report_infeasible": "fail",
}

PAGE_TEXT_LIMIT = 4_000
_TREE_LIMIT = 1_000_000
_ELEMENT_CALLS = frozenset(
    {"click", "check", "uncheck", "dblclick", "hover", "fill", "select_option", "press", "focus", "clear", "drag_and_drop", "upload_file"}
)
_NODE = re.compile(r"^\s*\[([^\]\s]{1,40})\]\s*(.*)$")
_FOCUS = re.compile(r",\s*focused\b")

#: Element id of a page itself, which is as wide as the viewport.
PAGE = "0"
#: Picture pixels a viewport pixel, on the screens there are. Any other ratio means that the page is not as wide as the viewport.
_RATIOS = (1.25, 1.5, 2.0, 2.5, 3.0)


def scale(root: Path, picture: Picture | None, page_width: float | None) -> float:
    """Return picture pixels a viewport pixel: 1 unless picture and page show a screen of another density."""
    size = png_size(root, picture.file) if picture and page_width and page_width > 0 else None
    ratio = size[0] / page_width if size and page_width else 1.0
    return next((known for known in _RATIOS if abs(ratio / known - 1) < 0.01), 1.0)


def action(calls: list[Call]) -> tuple[str, str | None, tuple[float | None, float | None]]:
    """Return operation, value and pointer of a BrowserGym action; several calls at once are ``other``."""
    if len(calls) != 1:
        return "other", None, (None, None)
    call = calls[0]
    op = ACTIONS.get(call.name, "other")
    value, place = None, (None, None)
    if call.name.startswith("mouse_") or call.name == "scroll_at":
        x, y = jsonio.as_float(call.get(0, "x", "from_x")), jsonio.as_float(call.get(1, "y", "from_y"))
        place = (x, y) if x is not None and y is not None else place
    if call.name in {"fill", "select_option", "press"}:
        raw = call.get(1, "value", "options", "key_comb")
        value = ", ".join(str(item) for item in raw) if isinstance(raw, list) else None if raw is None else str(raw)
    elif op in {"type", "key", "navigate", "answer", "fail"}:
        raw = call.get(0, "text", "key", "url", "reason")
        value = None if raw is None else str(raw)
    elif op in {"scroll", "tab"}:
        amounts = call.args[2:] if call.name == "scroll_at" else call.args
        value = " ".join(str(item) for item in [*amounts, *call.kwargs.values()] if item is not None) or None
    return op, value, place


def bid(calls: list[Call]) -> str | None:
    """Return the element id of an action that names one."""
    if len(calls) != 1 or calls[0].name not in _ELEMENT_CALLS:
        return None
    bid = calls[0].get(0, "bid", "from_bid")
    return str(bid) if isinstance(bid, str | int) else None


def tree(record: dict) -> str:
    return jsonio.as_str(record.get("axtree_pruned")) or jsonio.as_str(record.get("axtree")) or ""


def node(record: dict, bid: str) -> str | None:
    """Return role and name of an element as its accessibility line gives them."""
    line = re.compile(rf"^[ \t]*\[{re.escape(bid)}\][ \t]*(.{{0,500}})", re.MULTILINE)
    for tree in (record.get("axtree_pruned"), record.get("axtree")):
        if match := line.search(tree if isinstance(tree, str) else ""):
            return match[1]
    return None


def page_text(record: dict) -> str | None:
    """Return the accessible text without element ids, indentation and focus, which differ between equal pages."""
    lines, size = [], 0
    for line in tree(record)[:_TREE_LIMIT].splitlines():
        match = _NODE.match(line)
        line = _FOCUS.sub("", match[2] if match else line.strip())
        if line:
            lines.append(line)
            size += len(line) + 1
            if size > PAGE_TEXT_LIMIT:
                break
    return "\n".join(lines)[:PAGE_TEXT_LIMIT] or None


def close(found: Trajectory) -> None:
    """Set answer and site, which show in the steps; a message before the end is talk, not the answer."""
    for step in found.steps[:-1]:
        if step.op == "answer":
            step.op = "say"
    last = next((step for step in reversed(found.steps) if step.op in {"answer", "say", "fail"}), None)
    found.answer = last.value if last else None
    for step in found.steps:
        try:
            host = urlsplit(step.url or "").netloc.rpartition("@")[2]
        except ValueError:
            continue
        if host:
            found.website = found.domain = host
            return
