"""The Codex provider: the real command line against a server on the loopback, and made-up ones that misbehave."""

import asyncio
import base64
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from model_server import GOOD, Answer, Call, ModelServer, Reply
from served import CANARY, served
from test_infer import PICTURES, PROMPT_SET, by_instance, settings_for, t3

from evoaudit.errors import InputError
from evoaudit.infer import base, codex, providers
from evoaudit.infer.base import Outcome, Request, closed
from evoaudit.infer.predict import predict
from evoaudit.prompts import Image, Message, Text

SCHEMA = closed({"type": "object", "properties": {"verdict": {"type": "string", "enum": ["gf", "efn"]}}})
QUESTION = Request(
    "judge",
    "t-1",
    0,
    (Message("system", (Text("You judge."),)), Message("user", (Text("Before:"), Image("p0"), Text("After:"), Image("p1", black=True)))),
    SCHEMA,
)


@pytest.fixture
def real() -> None:
    """The Codex of the pinned version, where it is installed."""
    if (fault := codex.problem()) is not None:
        pytest.skip(f"{fault[0]}; {fault[1]}")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], ModelServer]]:
    yield from served(monkeypatch, ModelServer)


def entry(server: ModelServer | None, **more: Any) -> dict[str, Any]:
    address = server.url("responses") if server else "http://127.0.0.1:9/v1"
    return {**settings_for(None), "provider": "codex", "model": "gpt-5.5", "base_url": address, **more}


def ask(settings: dict[str, Any], request: Request = QUESTION, within: float = 60.0) -> Outcome:
    async def once() -> Outcome:
        async with asyncio.timeout(within):
            return await providers.make(settings, base.Attachments(PICTURES), within).ask(request)

    return asyncio.run(once())


def stream(*events: dict) -> Reply:
    lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Reply(payload=lines.encode(), headers={"Content-Type": "text/event-stream"})


def response(status: str, **more: Any) -> dict:
    return {"id": "r", "object": "response", "created_at": 0, "status": status, "model": "m", "output": [], **more}


def said(text: str) -> Reply:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    usage = {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 400}, "output_tokens": 10}
    usage |= {"output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 1010}
    return stream(
        {"type": "response.created", "response": response("in_progress")},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response("completed", output=[item], usage=usage)},
    )


def error(status: int, code: str | None) -> Reply:
    return Reply(status, {"error": {"message": "no", "code": code, "type": "t"}})


def test_a_judge_asks_the_real_command_line_with_pictures_and_a_schema(real, serve, monkeypatch, tmp_path):
    # What the user set up for themselves must not reach the model.
    (tmp_path / "AGENTS.md").write_text("USER CANARY")
    (tmp_path / "config.toml").write_text('model = "other"\n')
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    server = serve(lambda call: said('{"verdict": "gf"}'))
    outcome = ask(entry(server))
    assert (outcome.status, outcome.raw) == ("ok", '{"verdict": "gf"}')
    assert (outcome.input_tokens, outcome.cached_tokens, outcome.output_tokens, outcome.reasoning_tokens) == (1000, 400, 10, 4)
    (call,) = [call for call in server.calls if call.body]
    assert call.headers["authorization"] == f"Bearer {CANARY}" and call.headers["user-agent"].startswith(f"codex_exec/{codex.VERSION} ")
    body = call.body
    assert body["model"] == "gpt-5.5" and body["store"] is False
    assert body["text"]["format"]["schema"] == SCHEMA and body["text"]["format"]["strict"] is True
    parts = [part for message in body["input"] for part in message["content"]]
    shown = [part["image_url"] for part in parts if part["type"] == "input_image"]
    sent = [base.Attachments(PICTURES).data(image) for image in QUESTION.images()]
    assert [base64.b64decode(one.removeprefix("data:image/png;base64,")) for one in shown] == sent
    assert parts[-1]["text"] == "You judge.\n\nBefore:\n\n[Image #1]\n\nAfter:\n\n[Image #2]"
    assert "USER CANARY" not in json.dumps(body)
    tools = {tool.get("name", tool["type"]) for tool in body["tools"]}
    assert not tools & {"shell", "exec_command", "local_shell", "web_search", "multi_agent_v1", "image_generation"}


REAL_FAULTS: dict[str, tuple[Reply, str]] = {
    "rate": (error(429, "rate_limit_exceeded"), "rate_limited"),
    "server": (error(500, None), "server"),
    "busy": (error(503, None), "server"),
    "long": (error(400, "context_length_exceeded"), "context_overflow"),
    "filter": (error(400, "content_filter"), "content_filter"),
    "picture": (error(400, "image_too_large"), "picture_limit"),
    "bad": (error(400, "invalid_image"), "http_error"),
    "html": (Reply(payload=b"<html>", headers={"Content-Type": "text/html"}), "server"),
    "reset": (Reply(payload=b"event: response.created\n" * 20, headers={"Content-Type": "text/event-stream"}, manner="reset"), "server"),
    "length": (
        stream({"type": "response.incomplete", "response": response("incomplete", incomplete_details={"reason": "max_output_tokens"})}),
        "truncated",
    ),
    "stopped": (
        stream({"type": "response.incomplete", "response": response("incomplete", incomplete_details={"reason": "content_filter"})}),
        "content_filter",
    ),
    "overflow": (
        stream({"type": "response.failed", "response": response("failed", error={"code": "context_length_exceeded", "message": "x"})}),
        "context_overflow",
    ),
    "empty": (stream({"type": "response.completed", "response": response("completed")}), "empty"),
}


def test_the_real_command_lines_faults_are_classed_without_one_error(real, serve, tmp_path):
    def answer(call: Call) -> Reply:
        return REAL_FAULTS[name][0] if (name := call.asked.removeprefix("i-")) in REAL_FAULTS else said(GOOD)

    server = serve(answer)
    names = [f"i-{name}" for name in REAL_FAULTS]
    rows = predict(entry(server, retries=0, timeout_s=60.0), t3("i-ok", *names), PICTURES, PROMPT_SET, out=tmp_path)
    assert by_instance(rows, "status") == {"i-ok": "ok", **{f"i-{name}": status for name, (_, status) in REAL_FAULTS.items()}}
    assert by_instance(rows, "raw")["i-ok"] == GOOD
    assert CANARY.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (error(401, "invalid_api_key"), "refused the key in EVOAUDIT_TEST_KEY for model gpt-5.5"),
        (error(404, "model_not_found"), "knows no model gpt-5.5"),
        (
            stream({"type": "response.failed", "response": response("failed", error={"code": "insufficient_quota", "message": "x"})}),
            "no credit",
        ),
    ],
)
def test_the_real_command_line_stops_a_run_on_a_fault_of_the_account(real, serve, tmp_path, reply, words):
    server = serve(lambda call: reply)
    with pytest.raises(InputError) as fault:
        predict(entry(server, concurrency=1), t3("i-1", "i-2"), PICTURES, PROMPT_SET, out=tmp_path)
    assert words in str(fault.value) and CANARY not in str(fault.value) and len(server.calls) <= 2


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Put a made-up `codex` first on the path, which does what a Python text says, and return the settings to ask it by."""

    def install(text: str, version: str = f"codex-cli {codex.VERSION}") -> dict[str, Any]:
        binary = tmp_path / "bin" / "codex"
        binary.parent.mkdir()
        head = f"#!{sys.executable}\nimport json, os, signal, subprocess, sys, time\n"
        head += f"if '--version' in sys.argv:\n    print({version!r})\n    sys.exit()\n"
        binary.write_text(head + text)
        binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{binary.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("EVOAUDIT_TEST_KEY", CANARY)
        return entry(None)

    return install


DONE = 'print(json.dumps({"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 2}}))\n'
SAID = 'print(json.dumps({"type": "item.completed", "item": {"type": "agent_message", "text": "{}"}}))\n'


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        (SAID + DONE, "ok", None),
        ("sys.stdin.read()\n" + 'print("not json")\n' + SAID + DONE, "ok", None),
        (DONE, "empty", None),
        (SAID, "server", "without finishing"),
        (SAID + DONE + "sys.exit(3)\n", "server", "ended with 3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)\n", "server", "ended with -11"),
        ('print("garbage")\nprint("[1]")\nprint("[" * 5000)\n', "server", "3 lines that are no events"),
        ('sys.stderr.write("cannot start\\x1b[31m")\nsys.exit(1)\n', "server", "cannot start\\x1b"),
        ('print(json.dumps({"type": "turn.failed", "error": {"message": "who knows"}}))\nsys.exit(1)\n', "http_error", "who knows"),
        ('print(json.dumps({"type": "turn.failed", "error": None}))\nsys.exit(1)\n', "http_error", "no reason given"),
    ],
)
def test_whatever_a_process_does_has_a_status(fake, text, status, words):
    outcome = ask(fake(text))
    assert outcome.status == status and (words is None or words in outcome.error)


def test_a_process_sees_its_own_empty_home_and_no_other_variable_or_argument_with_the_key(fake, tmp_path, monkeypatch):
    monkeypatch.setenv("OTHER_SECRET", "hidden")
    report = tmp_path / "seen.json"
    text = (
        f"json.dump({{'argv': sys.argv, 'env': dict(os.environ), 'cwd': os.listdir('.'), 'home': os.listdir(os.environ['HOME']),"
        f" 'in': sys.stdin.read()}}, open({str(report)!r}, 'w'))\n" + SAID + DONE
    )
    assert ask(fake(text)).status == "ok"
    seen = json.loads(report.read_text())
    assert (seen["cwd"], seen["home"]) == ([], []) and seen["env"]["CODEX_HOME"] == seen["env"]["HOME"]
    assert seen["env"]["EVOAUDIT_TEST_KEY"] == CANARY and "OTHER_SECRET" not in seen["env"] and CANARY not in json.dumps(seen["argv"])
    assert "--sandbox=read-only" in seen["argv"] and "--ignore-user-config" in seen["argv"] and "You judge." in seen["in"]
    assert not Path(seen["env"]["HOME"]).exists()


def test_a_process_that_hangs_is_killed_with_all_it_started(fake, tmp_path):
    pids = tmp_path / "pids"
    # The child moves to a process group of its own, as a sandboxed command would.
    text = (
        "child = subprocess.Popen(['sleep', '60'], preexec_fn=os.setpgrp)\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(60)\n"
    )
    with pytest.raises(TimeoutError):
        ask(fake(text), within=3.0)
    for pid in map(int, pids.read_text().split()):
        until = time.monotonic() + 10
        while _alive(pid) and time.monotonic() < until:
            time.sleep(0.05)
        assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_deadline_of_the_run_is_a_timeout(fake, tmp_path):
    settings = fake("time.sleep(60)\n")
    with pytest.raises(InputError, match="timeout 1"):
        predict({**settings, "timeout_s": 0.5, "retries": 0}, t3("i-1"), PICTURES, PROMPT_SET, out=tmp_path / "out")


def test_another_version_or_none_is_one_line(fake, monkeypatch):
    with pytest.raises(InputError, match=r"model 'm': Codex is version 0\.1\.0, not 0\.144\.5; npm install"):
        ask(fake("", version="codex-cli 0.1.0"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match="the Codex command line is not installed; npm install"):
        ask(entry(None))


def test_codex_without_a_key_is_refused(fake):
    with pytest.raises(InputError, match="Codex needs a key"):
        ask({**fake(DONE), "api_key_env": None, "base_url": None})
