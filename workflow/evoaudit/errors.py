"""The errors a user can mend, and how they are shown: one line, never a traceback."""


class InputError(Exception):
    """Bad usage or bad input.

    ``where`` names the file (and line or field), ``what`` the fault, ``mend`` what to do.
    The command line prints ``where: what; mend`` and exits with 2.
    """

    def __init__(self, where: object, what: str, mend: str = "") -> None:
        self.where, self.what, self.mend = str(where), what, mend
        text = f"{self.where}: {what}" + (f"; {mend}" if mend else "")
        super().__init__(one_line(text))


def one_line(text: str, limit: int = 2000) -> str:
    """Return ``text`` as one printable line: control characters and lone surrogates are escaped."""
    if text.isprintable():
        return text if len(text) <= limit else text[: limit - 1] + "…"
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "…"
