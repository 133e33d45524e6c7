"""``evoaudit serve``: run an inference server for as long as jobs need it."""

import argparse
import contextlib
import ctypes
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from evoaudit.errors import InputError, one_line
from evoaudit.stages import common
from evoaudit.wholefile import write_whole

#: Seconds between looks at the server, and that it gets to end by itself.
LOOK, PATIENCE = 0.2, 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``serve``."""
    parser.add_argument(
        "--settings", type=common.settings, required=True, metavar="JSON", help="name, model and the model's `serve`: command, port, health"
    )
    parser.add_argument("--out", type=Path, required=True, help="file that says where the server is, and whether it has ended")


def run(args: argparse.Namespace) -> int:
    """Start the server, say where it is, and stop it when told to or when whoever asked for it is gone.

    The file is there at once, since jobs that wait for it are patient for seconds only; they wait for the server to be healthy
    themselves, see `wait`.
    """
    settings = args.settings
    words = command(settings)
    ended = []

    def stop(number: int, frame: FrameType | None) -> None:
        ended.append(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    parent = os.getppid()
    print(f"{settings['name']}: {one_line(shlex.join(words))}", file=sys.stderr, flush=True)
    state = {"health": f"http://127.0.0.1:{settings['serve']['port']}{settings['serve']['health']}", "ended": None}
    try:
        server = subprocess.Popen(words, stdout=sys.stderr, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_die_with_parent)
    except OSError as error:
        raise InputError(
            f"model '{settings['name']}': serve.command", f"{words[0]}: {error.strerror}", "give a command that starts a server"
        ) from None
    try:
        _write(args.out, state)
        while not ended and os.getppid() == parent:
            if (code := server.poll()) is not None:
                _write(args.out, {**state, "ended": code})
                print(f"{settings['name']}: the server ended by itself with exit code {code}", file=sys.stderr, flush=True)
                # Jobs that wait for it read so in the file; it must stay until they did.
                while not ended and os.getppid() == parent:
                    time.sleep(LOOK)
                return 2
            time.sleep(LOOK)
    finally:
        _end(server)
    return 0


def command(settings: dict) -> list[str]:
    """Return the words of a server's command line, with ``{port}`` and ``{model}`` filled in."""
    filled = {"{port}": str(settings["serve"]["port"]), "{model}": settings["model"]}
    words = []
    for word in shlex.split(settings["serve"]["command"]):
        for slot, value in filled.items():
            word = word.replace(slot, value)
        words.append(word)
    return words


def wait(file: Path, name: str, seconds: float) -> None:
    """Wait until the server a file names is healthy; it may take its time to load a model."""
    import urllib.error
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            state = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            state = {}
        if state.get("ended") is not None:
            raise InputError(f"model '{name}'", f"its server ended with exit code {state['ended']}", f"read results/logs/serve/{name}.log")
        if state:
            with contextlib.suppress(OSError, urllib.error.URLError, ValueError), opener.open(state["health"], timeout=5) as reply:
                if reply.status == 200:
                    return
        time.sleep(LOOK)
    raise InputError(
        f"model '{name}'", f"its server was not healthy within {seconds:g} s", "raise serve.ready_s, or read its log in results/logs/serve/"
    )


def _write(path: Path, state: dict) -> None:
    write_whole(path, json.dumps(state) + "\n")


def _die_with_parent() -> None:
    """Have the kernel end this process when its parent is killed (Linux; elsewhere it is left to whoever kills)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _end(server: subprocess.Popen) -> None:
    """Stop the server and all it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(PATIENCE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
