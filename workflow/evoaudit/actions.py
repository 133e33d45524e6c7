"""The unified action vocabulary (EvoGUI, Table 4, and its extensions to mobile and desktop)."""

#: Operation → T2 class, or None where the operation is outside T2's vocabulary but its screens still count.
OPS: dict[str, str | None] = {
    "click": "click",
    "hover": "click",
    "type": "type",
    "paste": "type",
    "select": "select",
    "double_click": None,
    "right_click": None,
    "long_press": None,
    "drag": None,
    "scroll": None,
    "swipe": None,
    "key": None,
    "copy": None,
    "submit": None,
    "load": None,
    "navigate": None,
    "back": None,
    "forward": None,
    "tab": None,
    "open_app": None,
    "wait": None,
    "note": None,
    "say": None,
    "answer": None,
    "done": None,
    "fail": None,
    "other": None,
}

#: Classes whose T2 answer needs the logged value.
VALUE_BEARING = frozenset({"type", "select"})


def t2_class(op: str) -> str | None:
    """Return the T2 class of an operation, or None if T2 leaves it out."""
    return OPS[op]
