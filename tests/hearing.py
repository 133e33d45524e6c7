"""Ctrl-C in tests: what a shell starts in the background is deaf to it, and so is all that is started from there."""

import signal


def hear() -> None:
    """Heed Ctrl-C from now on; for ``preexec_fn`` of processes that tests interrupt."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
