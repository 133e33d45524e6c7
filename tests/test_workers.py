"""However a process with workers ends, or one of them, nothing is left over and one line says why."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from evoaudit import workers
from evoaudit.errors import InputError

_BUSY = """
import time
from evoaudit import workers
with workers.pool(2, "the work") as processes:
    for done in [processes.submit(time.sleep, 0.5) for _ in range(2)]:
        done.result()
    for _ in range(2):
        processes.submit(time.sleep, 600)
    print("started", flush=True)
    while True:
        processes.check()
        time.sleep(0.02)
"""


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_a_process_that_is_killed_alone(sent):
    process = subprocess.Popen([sys.executable, "-c", _BUSY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout.readline() == b"started\n"
        process.send_signal(sent)
        process.communicate(timeout=20)  # a worker left over would keep these pipes open
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_a_worker_that_is_killed_is_one_line():
    with pytest.raises(InputError, match="the work: a worker process was killed, most likely for lack of memory"):  # noqa: SIM117
        with workers.pool(1, "the work") as processes:
            processes.submit(os._exit, 9).result()
