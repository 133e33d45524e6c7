"""A server that is started for a model's jobs, waited for, and stopped with them."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_workflow import snakemake

from evoaudit import config as configs
from evoaudit import plan as plans
from evoaudit import store
from evoaudit.errors import InputError
from evoaudit.stages import serve

SERVER = Path(__file__).with_name("engine_server.py")
CONFIG = """
run: {{name: small, seed: 3}}
sources: [{{name: sim, kind: simulated, trajectories: 20}}]
probes: {{t1: {{quota: {{3: 4}}}}, t2: {{quota: {{click: 4}}}}, t3: {{quota: {{cross: 4}}}}}}
inference: {{conditions: [metadata, text_only_goal], tolerate: 0}}
models:
  - name: local
    provider: openai
    model: org/local
    serve: {{command: '{command}', port: {port}, ready_s: 60}}
"""


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def listening(port: int) -> bool:
    with socket.socket() as place:
        return place.connect_ex(("127.0.0.1", port)) == 0


def gone(port: int) -> bool:
    until = time.monotonic() + 15
    while listening(port) and time.monotonic() < until:
        time.sleep(0.05)
    return not listening(port)


def settings(port: int, loading: float = 0.5, command: str | None = None) -> dict:
    words = command or f"{sys.executable} {SERVER} {{port}} {loading} calls.log {{model}}"
    return {"name": "local", "model": "org/local", "serve": {"command": words, "port": port, "health": "/health"}}


@pytest.fixture
def start(tmp_path):
    """Start ``evoaudit serve`` in a process of its own; return it and its state file."""
    running = []

    def of(given: dict) -> tuple[subprocess.Popen, Path]:
        file = tmp_path / "state.json"
        argv = [sys.executable, "-m", "evoaudit", "serve", "--settings", json.dumps(given), "--out", str(file)]
        running.append(subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.DEVNULL))
        return running[-1], file

    yield of
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_is_waited_for_and_ends_with_whoever_started_it(start, number):
    port = free_port()
    process, file = start(settings(port))
    serve.wait(file, "local", 30)
    assert listening(port)
    process.send_signal(number)
    process.wait()
    assert gone(port) and process.returncode in (0, -number)


def test_a_server_that_ends_by_itself_is_told_to_those_who_wait(start):
    _, file = start(settings(free_port(), command=f"{sys.executable} -c 'raise SystemExit(7)'"))
    with pytest.raises(InputError, match=r"its server ended with exit code 7; read results/logs/serve/local.log"):
        serve.wait(file, "local", 30)


def test_a_server_that_is_never_healthy_is_given_up(start):
    process, file = start(settings(free_port(), loading=600))
    with pytest.raises(InputError, match="not healthy within 1 s"):
        serve.wait(file, "local", 1)
    assert process.poll() is None


def test_what_is_filled_into_a_command_stays_one_word():
    given = {"name": "n", "model": "a b; rm -rf /", "serve": {"command": "run --model {model} --port={port} 'x y'", "port": 5}}
    assert serve.command(given) == ["run", "--model", "a b; rm -rf /", "--port=5", "x y"]


def test_a_served_model_is_asked_where_it_is_served_and_another_port_asks_nothing_anew():
    sim = [{"name": "sim", "kind": "simulated", "trajectories": 5}]
    keys = set()
    for port in (1234, 4321):
        model = {"name": "m", "provider": "openai", "serve": {"command": "x", "port": port}}
        (job,) = plans.build(configs.check({"sources": sim, "models": [model]})).of("infer")
        assert job.all_settings["base_url"] == f"http://127.0.0.1:{port}/v1"
        keys.add(job.key)
    assert len(keys) == 1
    with pytest.raises(InputError, match="only provider 'openai' can be served"):
        configs.check({"models": [{"name": "m", "provider": "google", "serve": {"command": "x"}}]})


@pytest.mark.slow
def test_the_workflow_starts_a_server_for_a_models_jobs_and_stops_it_with_them(tmp_path):
    port = free_port()
    command = f"{sys.executable} {SERVER} {{port}} 3 {tmp_path}/calls.log {{model}}"
    config = CONFIG.format(command=command, port=port)
    snakemake(tmp_path, "evogui", cores=3, config=config)
    assert gone(port)
    calls = (tmp_path / "calls.log").read_text().splitlines()
    # Two conditions of 12 items, none asked before the server was ready.
    assert calls == ["True org/local"] * 24
    folders = [path.parent for path in (tmp_path / "results" / "infer").glob("*/manifest.json")]
    assert {row["status"] for folder in folders for row in store.read_rows(folder, "predictions")} == {"ok"} and len(folders) == 2
    # Nothing is started for jobs that are done.
    done = snakemake(tmp_path, "evogui", cores=3, config=config)
    assert "rule serve" not in done.stdout + done.stderr and len((tmp_path / "calls.log").read_text().splitlines()) == 24
    # A lost file is made again from the journal; the server is started, and asked nothing.
    (folders[0] / "predictions.parquet").unlink()
    snakemake(tmp_path, "evogui", cores=3, config=config)
    assert len((tmp_path / "calls.log").read_text().splitlines()) == 24 and gone(port)


@pytest.mark.slow
def test_a_server_that_cannot_start_fails_the_jobs_with_its_exit_code(tmp_path):
    config = CONFIG.format(command=f'{sys.executable} -c "raise SystemExit(7)"', port=free_port())
    done = snakemake(tmp_path, "evogui", cores=3, config=config, check=False)
    assert done.returncode == 1
    logs = "".join(path.read_text() for path in (tmp_path / "results" / "logs" / "infer").glob("*.log"))
    assert "its server ended with exit code 7" in logs
