"""The inference engine against a real HTTP server on the loopback, driven by the real SDK."""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from served import CANARY, served

from evoaudit import prompts, schema, store
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.infer import base, engine, prices
from evoaudit.infer.builtin import Solver
from evoaudit.infer.journal import NAME, Journal, Shelf, sealed, unsealed
from evoaudit.infer.predict import predict

REPO = Path(__file__).parents[1]
PROMPT_SET = prompts.shipped()


def reply(text: str | None, finish: str | None = "stop", **message: Any) -> dict:
    return {
        "id": "r",
        "object": "chat.completion",
        "created": 0,
        "model": "served-model",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010, "prompt_tokens_details": {"cached_tokens": 400}},
    }


def fault(code: str | None, message: str = "no", **more: Any) -> dict:
    return {"error": {"message": message, "code": code, "type": "t", **more}}


Answer = Callable[[dict, int], tuple[int, dict[str, str], Any]]


class Endpoint:
    """A server that answers as ``answer(body, call number)`` says: (status, headers, JSON value or bytes)."""

    def __init__(self, answer: Answer) -> None:
        self.calls: list[dict] = []
        self.keys: set[str] = set()
        self.busy = self.most = 0
        lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    outer.calls.append(body)
                    outer.keys.add(self.headers.get("Authorization", ""))
                    number = len(outer.calls)
                    outer.busy += 1
                    outer.most = max(outer.most, outer.busy)
                status, headers, payload = answer(body, number)
                with lock:
                    outer.busy -= 1
                raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
                try:
                    self.send_response(status)
                    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(raw)), **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(raw)
                except OSError:
                    pass
                if "Content-Length" in headers:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], Endpoint]]:
    yield from served(monkeypatch, Endpoint)


class Pictures:
    """Pictures in memory, as the prepared ones are read."""

    def __init__(self, pictures: dict[str, Image.Image]) -> None:
        self.pictures = pictures

    def get(self, image_id: str) -> bytes:
        out = BytesIO()
        self.pictures[image_id].save(out, "PNG")
        return out.getvalue()

    def size(self, image_id: str) -> tuple[int, int]:
        return self.pictures[image_id].size


PICTURES = Pictures(
    {name: Image.new("RGB", (64, 40), colour) for name, colour in (("p0", "red"), ("p1", "green"), ("p2", "blue"), ("p3", "white"))}
)


def probe(instance: str, images: list[str], goal: str | None = None, **more: Any) -> dict:
    return {
        "instance_id": instance,
        "trajectory_id": f"t-{instance}",
        "source": "s",
        "domain": goal,
        "website": None,
        "images": images,
        "goal": goal,
        "slice": "x",
        "stream": "x",
        "simulated": False,
        **more,
    }


def t3(*instances: str) -> dict[str, list[dict]]:
    """Return T3 probes whose goal (and domain) is the instance's name, so that a server can tell them apart."""
    return {
        "t1": [],
        "t2": [],
        "t3": [
            probe(name, ["p0", "p1", "p2"], goal=name, step=0, answer="A", distractor_trajectory="d", distractor_step=1)
            for name in instances
        ],
    }


def settings_for(endpoint: Endpoint | None, **more: Any) -> dict[str, Any]:
    return {
        "name": "m",
        "provider": "openai",
        "model": "org/model",
        "condition": "full",
        "max_image_side": 64,
        "temperature": 0.0,
        "max_output_tokens": 50,
        "goal": "shown",
        "runs": 1,
        "base_url": endpoint.url if endpoint else None,
        "api_key_env": "EVOAUDIT_TEST_KEY",
        "concurrency": 4,
        "timeout_s": 5.0,
        "retries": 2,
        "budget_usd": None,
        "tolerate": 1000,
        **more,
    }


def asked(body: dict) -> str:
    """Return which instance a request asks about."""
    text = json.dumps(body["messages"][-1]["content"])
    return next(name for name in text.replace("\\\\", "\\").split('\\"') if name.startswith("i-"))


def run(settings: dict, probes: dict, out: Path, **more: Any) -> list[dict]:
    return predict(settings, probes, PICTURES, PROMPT_SET, out=out, **more)


def by_instance(rows: list[dict], field: str) -> dict[str, Any]:
    return {row["instance_id"]: row[field] for row in rows}


GOOD = '{"answer": "A", "confidence": 0.9}'


def test_an_answer_comes_back_untouched_with_tokens_and_price(serve, tmp_path):
    endpoint = serve(lambda body, n: (200, {}, reply(" \n" + GOOD)))
    price = prices.Price(input=1.0, cached_input=0.5, output=10.0, date="2026-01-02", source="x")
    rows = run(settings_for(endpoint), t3("i-1"), tmp_path, prices={"org/model": price})
    assert len(rows) == 1
    row = rows[0]
    assert (row["raw"], row["status"], row["finish_reason"]) == (" \n" + GOOD, "ok", "stop")
    # (600 × 1 + 400 × 0.5 + 10 × 10) / 1e6
    assert (row["input_tokens"], row["output_tokens"], row["usd"]) == (1000, 10, pytest.approx(900e-6))
    sent = endpoint.calls[0]
    assert (sent["model"], sent["temperature"], sent["max_tokens"]) == ("org/model", 0.0, 50)
    assert endpoint.keys == {f"Bearer {CANARY}"}
    content = sent["messages"][1]["content"]
    assert [part["type"] for part in content] == ["text"] + ["text", "image_url"] * 3
    assert content[3]["text"] == "Candidate A:"
    assert base64.b64decode(content[4]["image_url"]["url"].removeprefix("data:image/png;base64,")) == PICTURES.get("p1")
    store.check(pa.Table.from_pylist(rows, schema=schema.TABLES["predictions"]), "predictions", rows)


def test_black_pictures_have_the_size_of_those_they_replace(serve, tmp_path):
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    run(settings_for(endpoint, condition="black"), t3("i-1"), tmp_path)
    sent = endpoint.calls[0]["messages"][1]["content"]
    assert "i-1" in sent[0]["text"]
    with Image.open(BytesIO(base64.b64decode(sent[2]["image_url"]["url"].split(",")[1]))) as picture:
        assert picture.size == (64, 40) and picture.convert("L").getextrema() == (0, 0)


def test_passing_faults_are_tried_again_and_retry_after_is_obeyed(serve, tmp_path):
    times: dict[str, list[float]] = {}
    faults = {
        "i-429": (429, {"Retry-After": "0.4"}, fault("rate_limit_exceeded")),
        "i-500": (500, {}, fault(None)),
        "i-503": (503, {"Retry-After": "0.2"}, b"<html>busy</html>"),
        "i-html": (200, {"Content-Type": "text/html"}, b"<html>hello</html>"),
        "i-cut": (200, {"Content-Length": "9999"}, b'{"id": "r", "cho'),
    }

    def answer(body: dict, n: int) -> tuple:
        name = asked(body)
        times.setdefault(name, []).append(time.monotonic())
        return faults[name] if name in faults and len(times[name]) == 1 else (200, {}, reply(GOOD))

    endpoint = serve(answer)
    rows = run(settings_for(endpoint), t3("i-ok", *faults), tmp_path)
    assert set(by_instance(rows, "status").values()) == {"ok"}
    assert {name: len(at) for name, at in times.items()} == {"i-ok": 1} | dict.fromkeys(faults, 2)
    assert times["i-429"][1] - times["i-429"][0] >= 0.35
    assert times["i-503"][1] - times["i-503"][0] >= 0.15


def test_every_way_to_fail_has_its_own_status_and_none_is_an_answer(serve, tmp_path):
    answers = {
        "i-ok": (200, {}, reply(GOOD)),
        "i-500": (500, {}, fault(None)),
        "i-429": (429, {"Retry-After": "0.01"}, fault("rate_limit_exceeded")),
        "i-length": (200, {}, reply('{"answer": "A"', "length")),
        "i-thought": (200, {}, reply(None, "length")),
        "i-refused": (200, {}, reply(None, refusal="I cannot")),
        "i-filter": (200, {}, reply("", "content_filter")),
        "i-filter400": (400, {}, fault("content_filter")),
        "i-empty": (200, {}, reply(" \n")),
        "i-none": (200, {}, reply(None)),
        "i-nochoice": (200, {}, {**reply(None), "choices": []}),
        "i-long": (400, {}, fault("context_length_exceeded")),
        "i-longprose": (400, {}, fault(None, "This model's maximum context length is 4096 tokens")),
        "i-bad": (400, {}, fault("invalid_image")),
        "i-422": (422, {}, fault(None)),
        "i-json": (200, {}, b'{"id": '),
        "i-error200": (200, {}, fault(None)),
    }

    def answer(body: dict, n: int) -> tuple:
        if asked(body) == "i-slow":
            time.sleep(0.8)
        return answers.get(asked(body), (200, {}, reply(GOOD)))

    endpoint = serve(answer)
    rows = run(settings_for(endpoint, retries=1, timeout_s=0.4), t3("i-slow", *answers), tmp_path)
    assert by_instance(rows, "status") == {
        "i-ok": "ok",
        "i-500": "server",
        "i-429": "rate_limited",
        "i-length": "truncated",
        "i-thought": "truncated",
        "i-refused": "refused",
        "i-filter": "content_filter",
        "i-filter400": "content_filter",
        "i-empty": "empty",
        "i-none": "empty",
        "i-nochoice": "empty",
        "i-long": "context_overflow",
        "i-longprose": "context_overflow",
        "i-bad": "http_error",
        "i-422": "http_error",
        "i-json": "server",
        "i-error200": "server",
        "i-slow": "timeout",
    }
    assert by_instance(rows, "error")["i-refused"] == "I cannot"
    assert by_instance(rows, "raw")["i-length"] == '{"answer": "A"'


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (
            401,
            fault("invalid_api_key", f"Incorrect API key provided: {CANARY}"),
            "refused the key in EVOAUDIT_TEST_KEY for model org/model",
        ),
        (403, fault(None), "refused the key in EVOAUDIT_TEST_KEY"),
        (429, fault("insufficient_quota"), "no credit left for the key in EVOAUDIT_TEST_KEY, model org/model"),
        (402, fault(None), "no credit left"),
        (404, fault("model_not_found"), "knows no model org/model"),
    ],
)
def test_a_fault_of_the_account_stops_the_run_at_once(serve, tmp_path, status, body, words):
    endpoint = serve(lambda sent, n: (status, {}, body))
    with pytest.raises(InputError) as error:
        run(settings_for(endpoint), t3(*(f"i-{n}" for n in range(30))), tmp_path)
    assert words in str(error.value) and "model 'm'" in str(error.value) and CANARY not in str(error.value)
    assert len(endpoint.calls) <= 4


def test_the_key_reaches_no_file_even_if_the_service_echoes_it(serve, tmp_path, capsys):
    faults = {"i-1": (400, {}, fault("x", f"bad {CANARY}")), "i-2": (200, {}, reply(f"key {CANARY}", CANARY))}
    endpoint = serve(lambda body, n: faults.get(asked(body), (200, {}, reply(GOOD))))
    rows = run(settings_for(endpoint), t3("i-0", "i-1", "i-2"), tmp_path, say=lambda line: print(line, file=sys.stderr))
    assert by_instance(rows, "raw")["i-2"] == "key [key]"
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert written and CANARY.encode() not in written and CANARY not in json.dumps(rows) + capsys.readouterr().err


def test_a_parameter_the_model_does_not_take_is_left_out(serve, tmp_path):
    def answer(body: dict, n: int) -> tuple:
        if "temperature" in body:
            return 400, {}, fault("unsupported_value", param="temperature")
        if "max_tokens" in body:
            return 400, {}, fault("unsupported_parameter", param="max_tokens")
        return 200, {}, reply(GOOD)

    endpoint = serve(answer)
    rows = run(settings_for(endpoint, concurrency=1, retries=0), t3("i-1", "i-2", "i-3"), tmp_path)
    assert set(by_instance(rows, "status").values()) == {"ok"}
    assert len(endpoint.calls) == 5 and endpoint.calls[-1]["max_completion_tokens"] == 50


def test_a_finished_run_asked_again_sends_nothing_and_gives_the_same_rows(serve, tmp_path):
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    first = run(settings_for(endpoint), t3("i-1", "i-2"), tmp_path)
    assert run(settings_for(endpoint, concurrency=1), t3("i-2", "i-1"), tmp_path) == first
    assert len(endpoint.calls) == 2


def test_after_a_run_that_ended_only_what_failed_is_asked_again(serve, tmp_path):
    broken = {"i-1"}
    endpoint = serve(lambda body, n: (400, {}, fault("x")) if asked(body) in broken else (200, {}, reply(GOOD)))
    strict = settings_for(endpoint, tolerate=0)
    with pytest.raises(InputError, match=r"1 of 2 requests have no answer \(http_error 1; for instance: HTTP 400: no\)"):
        run(strict, t3("i-1", "i-2"), tmp_path)
    broken.clear()
    assert by_instance(run(strict, t3("i-1", "i-2"), tmp_path), "status") == {"i-1": "ok", "i-2": "ok"}
    assert [asked(body) for body in endpoint.calls].count("i-1") == 2 and len(endpoint.calls) == 3


def test_a_model_that_answers_nothing_fails_with_the_reason(serve, tmp_path):
    endpoint = serve(lambda body, n: (400, {}, fault("invalid_image", "cannot read picture")))
    with pytest.raises(InputError, match=r"answered none of 3 requests \(http_error 3; for instance: HTTP 400: cannot read picture"):
        run(settings_for(endpoint), t3("i-1", "i-2", "i-3"), tmp_path)


def test_an_endpoint_that_is_down_is_given_up(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "GIVE_UP", 5)
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    endpoint.close()
    monkeypatch.setattr(endpoint, "close", lambda: None)
    with pytest.raises(InputError, match="in a row failed"):
        run(settings_for(endpoint, retries=0), t3(*(f"i-{n}" for n in range(40))), tmp_path)


def test_requests_in_flight_never_exceed_the_limit(serve, tmp_path):
    def answer(body: dict, n: int) -> tuple:
        time.sleep(0.02)
        return 200, {}, reply(GOOD)

    endpoint = serve(answer)
    run(settings_for(endpoint, concurrency=6), t3(*(f"i-{n}" for n in range(30))), tmp_path)
    assert 2 <= endpoint.most <= 6


def test_a_burst_of_rate_limits_loses_nothing_and_wastes_little(serve, tmp_path):
    allowance = {"tokens": 5.0, "at": time.monotonic()}
    lock = threading.Lock()

    def answer(body: dict, n: int) -> tuple:
        with lock:  # 80 a second, burst 5
            now = time.monotonic()
            allowance["tokens"] = min(5.0, allowance["tokens"] + (now - allowance["at"]) * 80)
            allowance["at"] = now
            if allowance["tokens"] >= 1:
                allowance["tokens"] -= 1
                return 200, {}, reply(GOOD)
        return 429, {"Retry-After": "0.1"}, fault("rate_limit_exceeded")

    endpoint = serve(answer)
    rows = run(settings_for(endpoint, concurrency=16, retries=8), t3(*(f"i-{n}" for n in range(60))), tmp_path)
    assert set(by_instance(rows, "status").values()) == {"ok"}
    assert len(endpoint.calls) <= 60 * 1.6


def test_the_budget_is_kept_and_the_work_with_it(serve, tmp_path):
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    price = {"org/model": prices.Price(input=1000.0, output=0.0, date="2026-01-02", source="x")}
    # An answer costs $1 (1,000 tokens); the estimate of one request is larger.
    with pytest.raises(InputError, match=r"might exceed the budget of \$5 .* answers are kept") as error:
        run(settings_for(endpoint, budget_usd=5.0), t3(*(f"i-{n}" for n in range(30))), tmp_path, prices=price)
    first = len(endpoint.calls)
    assert 1 <= first <= 5 and f"{first} of 30" in str(error.value)
    rows = run(settings_for(endpoint, budget_usd=500.0), t3(*(f"i-{n}" for n in range(30))), tmp_path, prices=price)
    assert len(endpoint.calls) == 30 and sum(row["usd"] for row in rows) == pytest.approx(30)


def test_a_budget_without_a_price_is_refused(serve, tmp_path):
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    with pytest.raises(InputError, match="has no known price"):
        run(settings_for(endpoint, budget_usd=5.0), t3("i-1"), tmp_path)
    assert not endpoint.calls


def test_a_torn_last_line_costs_that_answer_alone(serve, tmp_path):
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    first = run(settings_for(endpoint, concurrency=1), t3("i-1", "i-2", "i-3"), tmp_path)
    journal = tmp_path / NAME
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:2]) + b"not a record\n" + lines[2][:-20])
    again = run(settings_for(endpoint), t3("i-1", "i-2", "i-3"), tmp_path)
    assert len(endpoint.calls) == 4
    assert by_instance(again, "raw") == by_instance(first, "raw")
    assert unsealed(journal.read_bytes().splitlines()[-1]) == {"end": True}


def test_an_answer_that_changed_on_the_disk_is_asked_again_and_not_believed(serve, tmp_path):
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    first = run(settings_for(endpoint, concurrency=1), t3("i-1", "i-2", "i-3"), tmp_path)
    journal = tmp_path / NAME
    content = journal.read_bytes()
    at = content.index(b"answer") + content[content.index(b"answer") :].index(b"A")
    journal.write_bytes(content[:at] + b"B" + content[at + 1 :])
    said = []
    again = run(settings_for(endpoint), t3("i-1", "i-2", "i-3"), tmp_path, say=said.append)
    assert len(endpoint.calls) == 4 and said[0].startswith("1 unreadable lines of the journal are left out")
    assert by_instance(again, "raw") == by_instance(first, "raw")


@given(at=st.integers(0, 10**6), bit=st.integers(0, 7), key=st.text("0123456789abcdef", min_size=1), raw=st.text())
def test_whichever_bit_of_a_line_flips_what_it_says_is_what_was_written_or_nothing(at, bit, key, raw):
    record = {"key": key, "status": "ok", "raw": raw}
    line = bytearray(sealed(record))
    assert unsealed(bytes(line)) == record
    line[at % len(line)] ^= 1 << bit
    found = unsealed(bytes(line)) or {}
    assert {name: found[name] for name in record if name in found} in (record, {})


def test_a_line_of_an_older_journal_is_read():
    assert unsealed(b'{"key":"k","status":"ok"}\n') == {"key": "k", "status": "ok"}


def test_a_journal_has_one_writer(tmp_path):
    with Journal(tmp_path / NAME), pytest.raises(InputError, match="another run"):
        Journal(tmp_path / NAME)


@pytest.mark.parametrize(
    "line",
    [
        '{"key": "k", "status": {}}',
        '{"key": "k", "status": ["ok"]}',
        '{"key": "k", "status": "ok", "input_tokens": NaN}',
        '{"key": "k", "status": "ok", "output_tokens": 1e300}',
        '{"key": "k", "status": "ok", "cached_tokens": -1}',
        '{"key": "k", "status": "ok", "latency_s": Infinity}',
        "[" * 5000,
        "9" * 5000,
        "\x00",
    ],
)
def test_a_line_that_is_no_record_is_damaged_and_never_raises(tmp_path, line):
    (tmp_path / NAME).write_text(line + '\n{"key": "n", "status": "ok", "input_tokens": 3}\n')
    with Journal(tmp_path / NAME) as journal:
        assert ("n" in journal, len(journal), journal.damaged) == (True, 1, 1)


def test_records_that_arrive_together_all_reach_the_disk(tmp_path):
    async def write(journal: Journal) -> None:
        await asyncio.gather(*(journal.append({"key": str(n), "status": "ok", "raw": "\ud800"}) for n in range(200)))

    with Journal(tmp_path / NAME) as journal:
        asyncio.run(write(journal))
    with Journal(tmp_path / NAME) as journal:
        assert len(journal) == 200 and not journal.damaged


def test_a_shelf_that_cannot_be_written_leaves_each_record_in_the_journal_once(tmp_path, monkeypatch):
    def full(self: Shelf, lines: bytes) -> None:
        raise OSError(28, "No space left on device")

    async def write(journal: Journal) -> None:
        for name in ("a", "b"):
            with pytest.raises(OSError, match="No space"):
                await journal.append({"key": name, "status": "ok", "raw": name})

    monkeypatch.setattr(Shelf, "put", full)
    with Journal(tmp_path / NAME, Shelf(tmp_path / "answers", "m")) as journal:
        asyncio.run(write(journal))
        assert [record["raw"] for record in journal.paid()] == ["a", "b"]
    assert (tmp_path / NAME).read_bytes().count(b"\n") == 2


def write_probes(folder: Path, probes: dict[str, list[dict]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for task, rows in probes.items():
        store.write_table(folder, task, rows)
    store.write_manifest(folder, stage="mine", key="k", format_version=1, seed=1, config={}, upstream={}, counts={})
    return folder / "manifest.json"


def command(settings: dict, mined: Path, out: Path, *more: str) -> list[str]:
    return [
        "infer",
        "--settings",
        json.dumps(settings),
        "--mined",
        str(mined),
        "--prompts",
        str(REPO / "resources/prompts/evogui-v1"),
        "--out",
        str(out),
        *more,
    ]


def test_killed_in_mid_run_it_repeats_only_what_was_in_flight(serve, tmp_path):
    hold = threading.Event()

    def answer(body: dict, n: int) -> tuple:
        if not hold.is_set():
            time.sleep(0.05)
        return (400, {}, fault("x")) if asked(body) == "i-03" else (200, {}, reply(GOOD))

    endpoint = serve(answer)
    mined = write_probes(tmp_path / "mined", t3(*(f"i-{n:02}" for n in range(40))))
    settings = settings_for(endpoint, condition="metadata", concurrency=3)
    killed = subprocess.Popen(
        [sys.executable, "-m", "evoaudit", *command(settings, mined, tmp_path / "out")], env=os.environ, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 20
    while len(endpoint.calls) < 18 and time.monotonic() < until:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = len(endpoint.calls)
    assert 18 <= before < 40
    assert not (tmp_path / "out" / "manifest.json").exists()
    hold.set()
    assert main(command(settings, mined, tmp_path / "out")) == 0
    assert len(endpoint.calls) - 40 <= 3
    # Nothing that was on disk is asked again, not even what had failed.
    assert [asked(body) for body in endpoint.calls].count("i-03") == 1
    rows = store.read_rows(tmp_path / "out", "predictions")
    assert [row["instance_id"] for row in rows] == [f"i-{n:02}" for n in range(40)]
    assert main(command(settings, mined, tmp_path / "undisturbed")) == 0
    undisturbed = store.read_rows(tmp_path / "undisturbed", "predictions")
    assert rows == undisturbed


def test_a_failed_stage_leaves_the_journal_and_nothing_else(serve, tmp_path, capsys):
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)) if n == 1 else (401, {}, fault("invalid_api_key")))
    mined = write_probes(tmp_path / "mined", t3("i-1", "i-2", "i-3"))
    settings = settings_for(endpoint, condition="metadata", concurrency=1)
    assert main(command(settings, mined, tmp_path / "out")) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "EVOAUDIT_TEST_KEY" in last and "1 of 3 answers are kept" in last and CANARY not in last
    assert [path.name for path in (tmp_path / "out").iterdir()] == [NAME]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"provider": "telepathy"}, "is unknown"),
        ({"provider": "builtin", "model": "oracle"}, "no built-in solver"),
        ({"base_url": "https://user:pw@host/v1"}, "credentials"),
        ({"base_url": "file:///etc/passwd"}, "not an http"),
        ({"api_key_env": "EVOAUDIT_NO_SUCH"}, "EVOAUDIT_NO_SUCH is not set"),
        ({"condition": "blurred"}, "unknown"),
        ({"condition": "full"}, "--images"),
    ],
)
def test_bad_usage_is_one_line_and_sends_nothing(tmp_path, capsys, monkeypatch, change, words):
    monkeypatch.setenv("EVOAUDIT_TEST_KEY", CANARY)
    mined = write_probes(tmp_path / "mined", t3("i-1"))
    assert main(command({**settings_for(None, condition="metadata"), **change}, mined, tmp_path / "out")) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and words in error


def test_the_request_key_covers_everything_that_is_sent():
    row = t3("i-1")["t3"][0]
    attachments = base.Attachments(PICTURES)

    def key(settings: dict | None = None, run: int = 0, task: str = "t3", **changes: Any) -> str:
        condition = changes.pop("condition", "full")
        messages = prompts.render(PROMPT_SET[task], {**row, **changes}, condition=condition)
        return base.request_key(settings_for(None, **(settings or {})), base.Request("t3", "i-1", run, messages), attachments)

    keys = [
        key(),
        key(run=1),
        key(goal="other"),
        key(images=["p0", "p2", "p1"]),
        key(images=["p0", "p1", "p3"]),
        key(condition="black"),
        key(condition="metadata"),
        key({"model": "n"}),
        key({"base_url": "http://h/v1"}),
        key({"temperature": 0.5}),
        key({"max_output_tokens": 51}),
        key({"provider": "p"}),
    ]
    assert len(set(keys)) == len(keys)
    # What does not reach the model does not ask it again.
    assert key({"concurrency": 9, "api_key_env": "OTHER", "retries": 9, "name": "n"}, instance_id="else", slice="y") == key()
    other = base.Attachments(Pictures({**PICTURES.pictures, "p1": Image.new("RGB", (64, 40), (0, 128, 1))}))
    messages = prompts.render(PROMPT_SET["t3"], row)
    assert base.request_key(settings_for(None), base.Request("t3", "i-1", 0, messages), other) != key()


def test_a_picture_that_was_not_prepared_leaves_its_instances_unanswered(serve, tmp_path):
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    probes = t3("i-1", "i-2")
    probes["t3"][0]["images"] = ["p0", "p1", "gone"]
    assert by_instance(run(settings_for(endpoint), probes, tmp_path), "status") == {"i-1": "picture_missing", "i-2": "ok"}
    rows = run({**settings_for(None), "provider": "builtin", "model": "image-similarity"}, probes, tmp_path)
    assert by_instance(rows, "status") == {"i-1": "picture_missing", "i-2": "ok"}


def screen(*boxes: tuple[int, int, int, int], size: tuple[int, int] = (400, 300)) -> Image.Image:
    picture = Image.new("RGB", size, "white")
    for box in boxes:
        ImageDraw.Draw(picture).rectangle(box, fill="navy")
    return picture


def solver(name: str, pictures: dict[str, Image.Image], condition: str = "full", seed: int = 7) -> Callable[[str, dict, int], dict]:
    """Return a built-in solver as a function of task, probe and replicate."""
    found = Solver(name, base.Attachments(Pictures(pictures)), seed=seed)
    return lambda task, row, run: json.loads(found.answer(prompts.view(task, row, condition=condition), row["instance_id"], run))


def test_similarity_takes_the_nearer_candidate_and_orders_a_page_that_fills_up():
    rows = [(10, 20 + 40 * n, 300, 40 + 40 * n) for n in range(5)]
    pictures = {f"s{n}": screen(*rows[:n]) for n in range(6)}
    similar = solver("image-similarity", pictures)
    far = similar("t3", probe("a", ["s1", "s5", "s2"]), 0)
    assert far["answer"] == "B" and 0.5 < far["confidence"] <= 1
    assert similar("t1", probe("a", ["s3", "s1", "s5", "s2"]), 0)["order"] == [2, 4, 1, 3]


@pytest.mark.parametrize(
    ("before", "after", "action"),
    [
        (screen(), screen((50, 100, 150, 112)), "type"),
        (screen(), screen((50, 100, 110, 150)), "select"),
        (screen(), screen((10, 10, 390, 250)), "click"),
        (screen(), screen(), "click"),
        (screen(), screen(size=(300, 200)), "click"),
    ],
)
def test_similarity_tells_actions_by_the_changed_area(before, after, action):
    answer = solver("image-similarity", {"a": before, "b": after})("t2", probe("x", ["a", "b"]), 0)
    assert (answer["action"], answer["value"]) == (action, "")


def test_similarity_without_pictures_falls_back_on_constants():
    for condition in ("black", "metadata"):
        blind = solver("image-similarity", PICTURES.pictures, condition)
        assert blind("t1", probe("x", ["p2", "p0", "p1"]), 0)["order"] == [1, 2, 3]
        assert blind("t2", probe("x", ["p0", "p1"]), 0)["action"] == "click"
        assert blind("t3", probe("x", ["p0", "p1", "p2"]), 0) == {"answer": "A", "confidence": 0.5}


def test_the_random_solver_is_uniform_and_its_runs_differ():
    random = solver("random", {})
    orders = [tuple(random("t1", probe(f"i{n}", ["a", "b", "c"]), 0)["order"]) for n in range(1200)]
    # 1,200 draws over 6 orders: mean 200, sd 13.
    assert all(140 < orders.count(order) < 260 for order in set(orders)) and len(set(orders)) == 6
    actions = [random("t2", probe(f"i{n}", ["a", "b"]), 0) for n in range(900)]
    assert all(240 < [a["action"] for a in actions].count(word) < 360 for word in ("click", "type", "select"))
    assert {a["value"] for a in actions} == {""}
    sides = [[random("t3", probe(f"i{n}", ["a", "b", "c"]), run)["answer"] for n in range(200)] for run in range(2)]
    assert sides[0] != sides[1] and 70 < sides[0].count("A") < 130


def test_builtin_predictions_depend_on_no_order_thread_or_folder(tmp_path):
    probes = t3(*(f"i-{n}" for n in range(20)))
    probes["t1"] = [probe(f"o-{n}", ["p0", "p1", "p2"], steps=[0, 1, 2], answer=[1, 2, 3]) for n in range(5)]
    for name in ("random", "majority", "image-similarity"):
        settings = {**settings_for(None), "name": name, "provider": "builtin", "model": name, "runs": 4 if name == "random" else 1}
        rows = run(settings, probes, tmp_path / "a", seed=3)
        turned = {task: rows_of[::-1] for task, rows_of in reversed(probes.items())}
        assert run(settings, turned, tmp_path / "b", seed=3, threads=4) == rows
        assert len(rows) == 25 * settings["runs"]
    assert not list(tmp_path.rglob(NAME))


def test_the_shipped_models_and_prices_are_valid():
    from evoaudit import config

    models = config.check({"models": str(REPO / "config/models.yaml")}).models
    solvers = [model for model in models if model.provider == "builtin"]
    assert {model.group for model in solvers} == {"baseline"}
    models = [model for model in models if model not in solvers]
    assert len(models) == 28 and {model.temperature for model in models} == {0}
    assert [model.name for model in models if model.conditions] == ["Qwen3.5-27B"]
    assert [model.group for model in models].count("open") == 17
    listed = prices.load(REPO / "config/prices.yaml")
    judges = config.check({"judges": str(REPO / "config/judges.yaml")}).judges
    assert listed.keys() <= {entry.model for entry in (*models, *judges)}


@pytest.mark.parametrize(
    "text",
    [
        "models: {a: {input: -1, output: 1, date: 2026-01-01, source: x}}",
        "models: {a: {input: 1}}",
        "[",
        "x: 1",
        "",
        "models: {a: {input: .nan, output: 1, date: 2026-01-01, source: x}}",
    ],
)
def test_a_wrong_price_file_is_one_line(tmp_path, text):
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(InputError) as error:
        prices.load(tmp_path / "p.yaml")
    assert "p.yaml" in str(error.value) and "\n" not in str(error.value)


def test_the_stage_needs_no_pictures_for_solvers_that_look_at_none_and_its_answers_are_scored(tmp_path):
    mined = write_probes(tmp_path / "mined", t3("i-1", "i-2"))
    for name, seed in (("majority", []), ("random", ["--seed", "5"])):
        settings = {**settings_for(None), "name": name, "provider": "builtin", "model": name, "runs": 2 if name == "random" else 1}
        assert main(command(settings, mined, tmp_path / name, *seed)) == 0
        assert store.read_manifest(tmp_path / name)["counts"]["read"] == 2 * settings["runs"]
    folders = [str(tmp_path / name / "manifest.json") for name in ("majority", "random")]
    assert main(["score", "--mined", str(mined), "--predictions", *folders, "--out", str(tmp_path / "scores")]) == 0
    rows = store.read_rows(tmp_path / "scores", "scores")
    assert len(rows) == 6 and {row["status"] for row in rows} == {"answered"}
    assert all(row["correct"] for row in rows if row["model"] == "majority")


def test_the_stage_sends_the_prepared_pictures(serve, tmp_path):
    pytest.importorskip("evoaudit.prepare")
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    mined = write_probes(tmp_path / "mined", t3("i-1"))
    sizes = {name: PICTURES.size(name) for name in ("p0", "p1", "p2")}
    prepared = [
        {"image_id": name, "max_image_side": 64, "width": w, "height": h, "format": "PNG", "resampling": "none", "data": PICTURES.get(name)}
        for name, (w, h) in sizes.items()
    ]
    images = write_probes(tmp_path / "images", {"prepared": prepared})
    assert main(command(settings_for(endpoint), mined, tmp_path / "out", "--images", str(images))) == 0
    sent = endpoint.calls[0]["messages"][1]["content"][2]["image_url"]["url"]
    assert base64.b64decode(sent.split(",")[1]) == PICTURES.get("p0")


def test_a_stage_that_asks_says_how_far_it_is_until_it_is_done(serve, tmp_path):
    seen, broken = [], ["i-2"]
    told = tmp_path / "results" / "logs" / "infer" / "k.json"

    def answer(body: dict, n: int) -> tuple:
        seen.append(json.loads(told.read_text())["state"])
        return (400, {}, fault("bad")) if asked(body) in broken else (200, {}, reply(GOOD))

    price = {"input": 1.0, "cached_input": 0.5, "output": 10.0, "date": "2026-01-02", "source": "x"}
    settings = settings_for(serve(answer), condition="metadata", price=price, budget_usd=1.0, tolerate=0)
    words = command(settings, write_probes(tmp_path / "mined", t3("i-1", "i-2", "i-3")), tmp_path / "results" / "infer" / "k", "--key", "k")
    assert main(words) == 2
    left = json.loads(told.read_text())
    assert (left["state"], left["total"], left["asked"], left["answered"], left["unanswered"]) == ("failed", 3, 3, 2, {"http_error": 1})
    assert (left["spent_usd"], left["budget_usd"]) == (pytest.approx(2 * 900e-6), 1.0) and "i-2" not in left["error"]
    broken.clear()
    assert main(words) == 0
    assert set(seen) == {"running"} and len(seen) == 4 and not told.exists()
    assert CANARY not in json.dumps(left)
