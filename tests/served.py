"""Servers that play a model's service, started by a test and closed after it, and an engine that asks them without waiting."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import pytest

from evoaudit.infer import engine, gate

#: The key of every test, looked for wherever it must not be.
CANARY = "sk-canary-0123456789abcdef"


class Closable(Protocol):
    def close(self) -> None: ...


A = TypeVar("A")
S = TypeVar("S", bound=Closable)


def served(monkeypatch: pytest.MonkeyPatch, make: Callable[[A], S]) -> Iterator[Callable[[A], S]]:
    """Yield what starts a server that answers as told; no proxy, no long back-off, no gate shared with other runs."""
    monkeypatch.setenv("EVOAUDIT_TEST_KEY", CANARY)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(engine, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(gate, "_open", lambda name: None)
    started: list[S] = []

    def start(answer: A) -> S:
        started.append(make(answer))
        return started[-1]

    yield start
    for server in started:
        server.close()
