"""Whether rows may be passed on: each source's licence, what it allows, and which cannot be joined in one data set.

Nobody's legal advice: a list of what well-known licences say about adapted copies. What is not on it stays until somebody says otherwise.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evoaudit.errors import InputError

#: Licence of simulated rows: they are this program's own.
OWN = "Apache-2.0"
#: Sources and licences named in one refusal.
_NAMED = 5
#: Rows named for each of them.
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Terms:
    """What a licence says about adapted copies."""

    name: str
    #: Identifier the hub's data cards know.
    card: str
    share_alike: bool = False
    non_commercial: bool = False
    #: Restrictions of use that travel along.
    restricted: bool = False
    #: Why adapted copies may not be passed on, or None.
    forbids: str | None = None
    url: str | None = None


def _cc(kind: str, version: str = "4.0") -> Terms:
    forbids = "lets nobody share adapted copies, and probes are cut, resized and masked" if "ND" in kind else None
    url = f"https://creativecommons.org/licenses/{kind.lower()}/{version}/"
    return Terms(f"CC-{kind}-{version}", f"cc-{kind.lower()}-{version}", "SA" in kind, "NC" in kind, forbids=forbids, url=url)


def _spdx(name: str, card: str | None = None) -> Terms:
    return Terms(name, card or name.lower(), url=f"https://spdx.org/licenses/{name}")


_LIST = (
    *(_cc(kind, version) for kind in ("BY", "BY-SA", "BY-NC", "BY-NC-SA", "BY-ND", "BY-NC-ND") for version in ("3.0", "4.0")),
    *(_spdx(name) for name in ("Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "Unlicense", "CDLA-Permissive-2.0")),
    Terms("OpenRAIL", "openrail", restricted=True, url="https://huggingface.co/blog/open_rail"),
)
KNOWN: dict[str, Terms] = {terms.name.casefold(): terms for terms in _LIST}


def of(name: str | None) -> Terms | None:
    """Return what is known of a licence by its name, case and outer white space aside."""
    return KNOWN.get(name.strip().casefold()) if name else None


def clash(one: Terms, other: Terms) -> str | None:
    """Return why adapted copies under two licences cannot be joined, or None."""
    for first, second in ((one, other), (other, one)):
        if not first.share_alike or first.name == second.name:
            continue
        if second.share_alike:
            return f"{first.name} and {second.name} each want the whole under themselves"
        if second.restricted or (second.non_commercial and not first.non_commercial):
            return f"{first.name} wants the whole under itself, and {second.name} restricts its use further"
    return None


@dataclass(frozen=True, slots=True)
class Held:
    """Licence and source of what a row shows."""

    source: str
    licence: str | None
    simulated: bool

    @property
    def name(self) -> str | None:
        return OWN if self.simulated else self.licence


def gate(rows: Mapping[Held, Iterable[str]], settings: Mapping[str, Any]) -> dict[str, int]:
    """Return licence → rows, or refuse with the rows that may not leave; ``rows`` are the names of what shows each source and licence."""
    found = {held: sorted(names) for held, names in rows.items()}
    allowed = None if settings.get("licenses") is None else {name.strip().casefold() for name in settings["licenses"]}
    accepted = set(settings.get("accept") or ())
    bad: list[str] = []
    for held in sorted(found, key=lambda held: (held.source, held.name or "")):
        if held.simulated or held.source in accepted:
            continue
        if fault := _fault(held.licence, allowed):
            bad.append(f"source '{held.source}': {_rows(found[held])} {fault}")
    if bad:
        raise InputError(
            "licences",
            "; ".join(bad[:_NAMED]) + (f"; and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""),
            "state the licence in sources[].license, or name it in export.licenses, or the source in export.accept if you have permission, "
            "or in export.leave_out",
        )
    if not settings.get("mixed"):
        _alike(found, accepted)
    total: dict[str, int] = {}
    for held, names in found.items():
        total[held.name or "none"] = total.get(held.name or "none", 0) + len(names)
    return dict(sorted(total.items()))


def _fault(name: str | None, allowed: set[str] | None) -> str | None:
    """Return why a licence's rows may not leave, or None."""
    if name is None or not name.strip():
        return "state no licence"
    if allowed is not None:
        return None if name.strip().casefold() in allowed else f"are under '{name}', which export.licenses does not name"
    terms = of(name)
    if terms is None:
        return f"are under '{name}', which is not known to let anyone pass them on"
    return f"are under {terms.name}, which {terms.forbids}" if terms.forbids else None


def _alike(found: Mapping[Held, list[str]], accepted: set[str]) -> None:
    """Refuse two licences that cannot be joined."""
    by_name = {held.name: held for held in sorted(found, key=lambda held: held.source, reverse=True) if held.source not in accepted}
    known = sorted(((terms, held) for name, held in by_name.items() if (terms := of(name))), key=lambda pair: pair[1].source)
    for place, (one, first) in enumerate(known):
        for other, second in known[place + 1 :]:
            if why := clash(one, other):
                raise InputError(
                    "licences",
                    f"{_rows(found[first])} of '{first.source}' and {_rows(found[second])} of '{second.source}' cannot be joined: {why}",
                    "name one of the sources in export.leave_out, or set export.mixed for a collection in which each row keeps its own",
                )


def _rows(names: list[str]) -> str:
    shown = ", ".join([*names[:_SHOWN], *(["…"] if len(names) > _SHOWN else [])])
    return f"{len(names)} {'row' if len(names) == 1 else 'rows'} ({shown})"
