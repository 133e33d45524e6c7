"""Worker processes that end with their parent, however it ended, and leave an interrupt to it."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from evoaudit.errors import InputError
from evoaudit.interrupts import patient


class Pool:
    """Processes that work is given to; see `pool`."""

    def __init__(self, executor: ProcessPoolExecutor, check: Callable[[], None]) -> None:
        self._executor = executor
        #: Raises `KeyboardInterrupt` if one was asked for meanwhile.
        self.check = check

    def submit(self, work: Callable[..., Any], *given: Any) -> "Future[Any]":
        """Hand work to a process, starting one if need be."""
        with _deaf():
            return self._executor.submit(work, *given)


@contextmanager
def pool(workers: int, where: str, initializer: Callable[..., None] | None = None, initargs: tuple[Any, ...] = ()) -> Iterator[Pool]:
    """Yield a pool of fresh processes; that one of them was killed is an `InputError` about ``where``."""
    with patient() as check:
        executor = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_start, initargs=(initializer, initargs))
        try:
            with executor:
                try:
                    yield Pool(executor, check)
                finally:
                    executor.shutdown(wait=False, cancel_futures=True)
        except BrokenProcessPool:
            raise InputError(
                where, "a worker process was killed, most likely for lack of memory", "give it more memory or one thread"
            ) from None


@contextmanager
def _deaf() -> Iterator[None]:
    """Keep interrupts from processes started meanwhile: this one takes them and ends the others, which would each print a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(initializer: Callable[..., None] | None, initargs: tuple[Any, ...]) -> None:
    threading.Thread(target=_follow, daemon=True).start()
    if initializer is not None:
        initializer(*initargs)


def _follow() -> None:
    """End with the parent process: a worker left alone would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
