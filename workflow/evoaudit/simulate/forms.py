"""Other ways to write an answer that mean the same, which a strict string comparison rejects."""

from evoaudit.simulate.draw import Draw
from evoaudit.simulate.words import MONTHS


def other_form(answer: str, form: str, draw: Draw) -> str:
    """Return ``answer`` written another way; ``form`` is money, date, count, name, list or size."""
    return draw.pick(FORMS[form](answer), "form")


def _money(text: str) -> tuple[str, ...]:
    """``$1,234.00`` → ``1234`` …"""
    plain = text.replace("$", "").replace(",", "")
    short = plain.removesuffix(".00")
    return short, f"{short} dollars", f"USD {plain}", f"The price is ${short}."


def _date(text: str) -> tuple[str, ...]:
    """``3 March 2026`` → ``2026-03-03`` …"""
    day, month, year = text.split()
    number = MONTHS.index(month) + 1
    return (
        f"{year}-{number:02d}-{int(day):02d}",
        f"{month} {day}, {year}",
        f"{int(day):02d}.{number:02d}.{year}" if int(day) > 12 else f"{month[:3]} {day}, {year}",
    )


def _count(text: str) -> tuple[str, ...]:
    """``1188`` → ``1,188`` …"""
    number = int(text)
    grouped = f"{number:,}"
    return (grouped, f"{number}.0", f"It is {number}.") if grouped != text else (f"{number}.0", f"It is {number}.")


def _name(text: str) -> tuple[str, ...]:
    """``Vera Aalto`` → ``Aalto, Vera`` …"""
    first, last = text.split(" ", 1)
    return f"{last}, {first}", text.upper(), f"It is {text}."


def _list(text: str) -> tuple[str, ...]:
    """``A; B`` → ``B; A`` …"""
    first, second = text.split("; ")
    return f"{second}; {first}", f"{first} and {second}", f"1. {first} 2. {second}"


def _size(text: str) -> tuple[str, ...]:
    """``32.7 GB`` → ``32,700 MB`` …"""
    number = float(text.split()[0])
    return f"{number} gigabytes", f"{number * 1000:.0f} MB", f"{number}GB"


FORMS = {"money": _money, "date": _date, "count": _count, "name": _name, "list": _list, "size": _size}
