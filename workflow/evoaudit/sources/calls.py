"""Reading actions written as Python-like calls (``pyautogui.click(3, 4)``, ``fill('a12', 'Oslo')``) without running them."""

import ast
import math
import operator
import warnings
from dataclasses import dataclass, field
from typing import Any

#: Longer action texts are not parsed.
TEXT_LIMIT = 20_000

#: Integers longer than this are no coordinates, and too long ones cannot be printed.
_BITS = 1024

_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


@dataclass(frozen=True, slots=True)
class Call:
    """One call: dotted name, positional and keyword values (None where the argument is not a plain literal)."""

    name: str
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)

    def get(self, position: int, *names: str, default: Any = None) -> Any:
        """Return an argument by keyword or else by position."""
        for name in names:
            if name in self.kwargs:
                return self.kwargs[name]
        return self.args[position] if len(self.args) > position else default


@dataclass(frozen=True, slots=True)
class Action:
    """What one logged line does: a unified operation, its value, and the pointer's place as logged."""

    op: str
    value: str | None = None
    x: float | None = None
    y: float | None = None


def parse_calls(text: str) -> list[Call] | None:
    """Return the calls of a text in order, or None if it cannot be read as calls.

    Imports, comments and assignments without calls are passed over; ```` ``` ```` fences are removed.
    """
    if len(text) > TEXT_LIMIT:
        return None
    lines = [line for line in text.strip().splitlines() if not line.lstrip().startswith("```")]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in somebody's log are not ours to report
            tree = ast.parse("\n".join(lines))
        calls = []
        for statement in tree.body:
            value = getattr(statement, "value", None)
            if isinstance(value, ast.Call):
                name = _dotted(value.func)
                if name is None:
                    return None
                calls.append(
                    Call(
                        name, [_literal(arg) for arg in value.args], {pair.arg: _literal(pair.value) for pair in value.keywords if pair.arg}
                    )
                )
            elif not isinstance(statement, ast.Import | ast.ImportFrom | ast.Assign | ast.Pass):
                return None
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return calls or None


def pyautogui(text: str) -> Action | None:
    """Return the one action a pyautogui source text stands for, or None if it cannot be read.

    Several calls make one action where people would call them one: moving and then clicking or dragging, pressing
    keys while others are held, and typing into a field that was clicked or cleared just before. Anything else that
    does several things at once is ``other`` (with what was typed and where it began), because more than one action would
    lie between two screens.
    """
    calls = parse_calls(text)
    if calls is None:
        return None
    work = [call for call in calls if _verb(call) not in {"sleep", "pause"}]
    if not work:
        return Action("wait", _text(calls[0].get(0, "seconds", "secs")))
    clipboard = [call for call in work if call.name == "pyperclip.copy"]
    work = _drags(_hold([call for call in work if call.name != "pyperclip.copy"]))
    actions = _merge([_one(call) for call in work])
    if clipboard and [action.op for action in actions][-1:] == ["key"] and actions[-1].value in {"ctrl+v", "command+v", "ctrl+shift+v"}:
        actions[-1] = Action("paste", _text(clipboard[-1].get(0, "text")), actions[-1].x, actions[-1].y)
    return _typing(actions) if len(actions) > 1 else actions[0] if actions else None


def _one(call: Call) -> Action:
    verb = _verb(call)
    x, y = point(call)
    if verb in {"click", "leftclick"}:
        button, clicks = str(call.get(4, "button", default="left")).lower(), call.get(2, "clicks", default=1)
        op = {"left": "click", "primary": "click", "right": "right_click", "secondary": "right_click"}.get(button, "other")
        return Action("double_click" if op == "click" and isinstance(clicks, int) and clicks > 1 else op, None, x, y)
    if verb in {"doubleclick", "tripleclick"}:
        return Action("double_click", None, x, y)
    if verb == "rightclick":
        return Action("right_click", None, x, y)
    if verb in {"moveto", "move", "moverel"}:
        return Action("hover", None, *((x, y) if verb == "moveto" else (None, None)))
    if verb == "dragto":
        return Action("drag", None, x, y)
    if verb in {"drag", "dragrel"}:
        return Action("drag")
    if verb in {"scroll", "vscroll", "hscroll"}:
        # scroll's first argument is the amount, so a place can only follow it
        return Action("scroll", _text(call.get(0, "clicks", "amount")), *point(Call(call.name, call.args[1:], call.kwargs)))
    if verb in {"write", "typewrite"}:
        what = call.get(0, "message", "text")
        return Action("key", keys(what, " ")) if isinstance(what, list) else Action("type", _text(what))
    if verb == "press":
        return Action("key", keys(call.get(0, "keys", "key"), " "))
    if verb == "hotkey":
        return Action("key", keys(call.args[0] if len(call.args) == 1 else call.args or call.get(0, "keys")))
    if verb in {"keydown", "keyup"}:
        return Action("key", keys(call.get(0, "key")))
    if verb in {"wait", "screenshot"}:
        return Action("wait", _text(call.get(0, "time", "seconds")) if verb == "wait" else None)
    if verb == "terminate":
        return Action(
            "fail" if str(call.get(0, "status")).lower() in {"failure", "fail", "failed", "infeasible"} else "done",
            _text(call.get(1, "answer", "text")),
        )
    return Action("other")


def _hold(calls: list[Call]) -> list[Call]:
    """Turn keys held down around other keys into one hotkey, and drop modifiers held around a click."""
    result: list[Call] = []
    held: list[Any] = []
    for call in calls:
        verb = _verb(call)
        if verb == "keydown":
            held.append(call.get(0, "key"))
        elif verb == "keyup":
            if held and call.get(0, "key") == held[-1]:
                held.pop()
            elif call.get(0, "key") in held:
                held.remove(call.get(0, "key"))
        elif held and verb in {"press", "keypress"}:
            result.append(Call("pyautogui.hotkey", [*held, call.get(0, "keys", "key")]))
        else:
            result.append(call)
    if not result:  # only downs and ups
        names = list(dict.fromkeys(str(call.get(0, "key")) for call in calls))
        return [Call("pyautogui.hotkey", names)] if names else []
    return result


def _drags(calls: list[Call]) -> list[Call]:
    """Turn button-down, moves, button-up into a drag, and button-down, button-up into a click."""
    result: list[Call] = []
    position = 0
    while position < len(calls):
        call, end = calls[position], position + 1
        pressed = _verb(call) == "mousedown"
        while pressed and end < len(calls) and _verb(calls[end]) in {"moveto", "move", "moverel"}:
            end += 1
        if pressed and end < len(calls) and _verb(calls[end]) == "mouseup":
            if point(call) != (None, None):
                result.append(Call("pyautogui.moveTo", call.args, call.kwargs))
            result.append(Call("pyautogui.drag" if end > position + 1 else "pyautogui.click"))
            position = end + 1
        else:
            result.append(call)
            position += 1
    return result


def _merge(actions: list[Action]) -> list[Action]:
    """Join a move with the click, scroll or drag after it, and two clicks on one place into a double click."""
    merged: list[Action] = []
    for action in actions:
        last = merged[-1] if merged else None
        here = last is not None and action.x in (None, last.x) and action.y in (None, last.y)
        if last is not None and last.op == "hover" and last.x is not None:
            if here and action.op in {"click", "double_click", "right_click", "scroll"}:
                merged[-1] = Action(action.op, action.value, last.x, last.y)
                continue
            if action.op == "drag":  # a drag begins where the pointer stands
                merged[-1] = Action("drag", None, last.x, last.y)
                continue
            if action.op == "hover":
                merged[-1] = action
                continue
        if here and last.op == action.op == "click":
            merged[-1] = Action("double_click", None, last.x, last.y)
            continue
        merged.append(action)
    return merged


def _typing(actions: list[Action]) -> Action:
    *before, last = actions
    clears = {"ctrl+a", "command+a", "backspace", "delete"}
    if last.op in {"type", "paste"} and all(a.op in {"click", "double_click"} or (a.op == "key" and a.value in clears) for a in before):
        clicks = [a for a in before if a.op != "key"]
        if len(clicks) <= 1:
            return Action(last.op, last.value, *((clicks[0].x, clicks[0].y) if clicks else (None, None)))
    typed = [action.value for action in actions if action.op in {"type", "paste"} and action.value is not None]
    place = next(((action.x, action.y) for action in actions if action.x is not None), (None, None))
    return Action("other", "\n".join(typed) or None, *place)


def point(call: Call) -> tuple[float | None, float | None]:
    """Return the (x, y) arguments of a pointer call, given as two numbers, a pair, or keywords."""
    x, y = call.get(0, "x"), call.get(1, "y")
    if isinstance(x, list | tuple) and len(x) == 2:
        x, y = x
    return (_number(x), _number(y)) if _number(x) is not None and _number(y) is not None else (None, None)


def keys(value: Any, separator: str = "+") -> str | None:
    """Return key names as one value: ``ctrl+c`` for keys pressed together, ``a b`` with a blank for keys in turn."""
    parts = value if isinstance(value, list | tuple) else [value]
    names = [str(part).strip().lower() if len(str(part)) > 1 else str(part) for part in parts if isinstance(part, str | int)]
    return separator.join(names) or None


def _verb(call: Call) -> str:
    return call.name.rpartition(".")[2].replace("_", "").lower()


def _dotted(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _literal(node: ast.expr) -> Any:
    """Evaluate constants, signs, sums and products of numbers, lists and tuples; everything else is None."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, int) and node.value.bit_length() > _BITS:
            return None
        return node.value if isinstance(node.value, str | int | float | bool) else None
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _number(_literal(node.operand))
        return None if value is None else -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = _number(_literal(node.left)), _number(_literal(node.right))
        if left is None or right is None or (isinstance(node.op, ast.Div) and right == 0):
            return None
        return _number(_ARITHMETIC[type(node.op)](left, right))
    return None


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 1e12 and math.isfinite(value) else None


def _text(value: Any) -> str | None:
    return None if value is None or isinstance(value, list) else str(value)
