"""Ctrl-C at a moment that suits."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def patient() -> Iterator[Callable[[], None]]:
    """Note interrupts, and yield what raises them; one that was noted is raised at the end at the latest.

    For what must not be left half done: the start and the end of processes, a folder that is made and not yet known to who removes it.
    A signal mask would not do, since another thread may take the signal. What is deaf to interrupts stays so.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):  # signals go to the main thread alone
        yield lambda: None
        return
    asked: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: asked.append(number))

    def check() -> None:
        if asked:
            raise KeyboardInterrupt

    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
    check()
