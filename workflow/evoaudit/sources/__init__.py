"""Readers, one module a native format. To add one: write the module, add its line here."""

from importlib import import_module
from types import ModuleType

#: Kind → module. Each module has ``read`` (see `base.Reader`), ``ACTIONS`` (the source's verbs → our operations) and ``LICENSE``.
MODULES = {
    "androidcontrol": "evoaudit.sources.androidcontrol",
    "androidworld": "evoaudit.sources.androidworld",
    "browsergym": "evoaudit.sources.browsergym",
    "mind2web": "evoaudit.sources.mind2web",
    "weblinx": "evoaudit.sources.weblinx",
    "agentrewardbench": "evoaudit.sources.agentrewardbench",
    "osworld": "evoaudit.sources.osworld",
    "online-mind2web": "evoaudit.sources.online_mind2web",
    "webvoyager": "evoaudit.sources.webvoyager",
    "opencua": "evoaudit.sources.opencua",
    "aitz": "evoaudit.sources.aitz",
    "plain": "evoaudit.sources.plain",
}

#: Kind → what its screens are of. Plain logs may be of anything; the rest are of web pages.
PLATFORMS = {
    "osworld": "desktop",
    "opencua": "desktop",
    "aitz": "mobile",
    "androidcontrol": "mobile",
    "androidworld": "mobile",
    "plain": None,
}


def platform(kind: str) -> str | None:
    """Return `web`, `desktop` or `mobile`; None for logs that may be of any of them."""
    return PLATFORMS.get(kind, "web")


def reader(kind: str) -> ModuleType:
    """Return the reader module of a kind."""
    return import_module(MODULES[kind])
