"""What the engine promises, to the count: the gate, the deadlines, the allowances, resuming, reuse, and what every row tells."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_infer import (
    CANARY,
    GOOD,
    PICTURES,
    PROMPT_SET,
    Pictures,
    asked,
    by_instance,
    command,
    fault,
    reply,
    run,
    serve,
    settings_for,
    t3,
    write_probes,
)

from evoaudit import prompts, store
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.infer import base, engine, prices
from evoaudit.infer.journal import NAME, Journal
from evoaudit.infer.progress import Progress, span

__all__ = ["serve"]
PRICE = prices.Price(input=1.0, cached_input=0.5, output=10.0, date="2026-01-02", source="x")


def test_a_request_ends_at_its_deadline_whatever_tries_are_left(serve, tmp_path):
    def answer(body: dict, n: int) -> tuple:
        return (503, {"Retry-After": "0.3"}, fault(None)) if asked(body) == "i-1" else (200, {}, reply(GOOD))

    endpoint = serve(answer)
    rows = run(settings_for(endpoint, retries=100, deadline_s=1.0), t3("i-1", "i-2"), tmp_path)
    status = by_instance(rows, "status")
    assert status["i-1"] in ("server", "timeout") and status["i-2"] == "ok" and 3 <= len(endpoint.calls) <= 5


def test_rate_limits_use_up_no_tries_while_others_are_answered(serve, tmp_path):
    refused = Counter()

    def answer(body: dict, n: int) -> tuple:
        if asked(body) == "i-00" and refused["i-00"] < 3:
            refused["i-00"] += 1
            return 429, {"Retry-After": "0.3"}, fault("rate_limit_exceeded")
        time.sleep(0.05)
        return 200, {}, reply(GOOD)

    rows = run(settings_for(serve(answer), retries=1, concurrency=4), t3(*(f"i-{n:02}" for n in range(16))), tmp_path)
    assert {row["status"] for row in rows} == {"ok"} and refused["i-00"] == 3


def cut(body: dict) -> bool:
    return body["max_tokens"] == 50


def test_an_answer_cut_by_the_bound_is_asked_once_more_with_twice_that_and_both_are_paid_for(serve, tmp_path):
    def answer(body: dict, n: int) -> tuple:
        name = asked(body)
        if name == "i-always" or (name == "i-once" and cut(body)):
            return 200, {}, reply('{"ans', "length")
        return (
            (400, {}, fault("x"))
            if name == "i-refused" and not cut(body)
            else (200, {}, reply(GOOD, "length" if name == "i-refused" else "stop"))
        )

    endpoint = serve(answer)
    names = ("i-always", "i-fine", "i-once", "i-refused")
    rows = run(settings_for(endpoint), t3(*names), tmp_path, prices={"org/model": PRICE})
    assert Counter((asked(body), body["max_tokens"]) for body in endpoint.calls) == {
        **{(name, 50): 1 for name in names},
        **{(name, 100): 1 for name in names if name != "i-fine"},
    }
    assert by_instance(rows, "status") == {"i-always": "truncated", "i-fine": "ok", "i-once": "ok", "i-refused": "truncated"}
    assert by_instance(rows, "limit_hit") == {"i-always": True, "i-fine": False, "i-once": True, "i-refused": True}
    assert by_instance(rows, "max_output_tokens") == {"i-always": 100, "i-fine": 50, "i-once": 100, "i-refused": 50}
    # One call costs 900 millionths of a dollar; the one that was refused cost nothing.
    assert by_instance(rows, "input_tokens") == {"i-always": 2000, "i-fine": 1000, "i-once": 2000, "i-refused": 1000}
    assert by_instance(rows, "cached_tokens") == {"i-always": 800, "i-fine": 400, "i-once": 800, "i-refused": 400}
    assert by_instance(rows, "usd")["i-once"] == pytest.approx(1800e-6)
    # What was cut before is not asked with the lower bound again.
    calls = len(endpoint.calls)
    again = run(settings_for(endpoint, tolerate=0.9), t3(*names), tmp_path, prices={"org/model": PRICE})
    assert again == rows and len(endpoint.calls) == calls
    with pytest.raises(InputError, match="2 of 4 requests have no answer"):
        run(settings_for(endpoint, tolerate=0), t3(*names), tmp_path)
    assert {(asked(body), body["max_tokens"]) for body in endpoint.calls[calls:]} == {("i-always", 100), ("i-refused", 100)}
    assert len(endpoint.calls) == calls + 2


@pytest.mark.parametrize(("tolerate", "fails"), [(0, True), (2, True), (3, False), (0.29, True), (0.3, False)])
def test_more_unanswered_than_tolerated_fails_at_the_end_and_keeps_everything(serve, tmp_path, tolerate, fails):
    broken = {"i-0", "i-1", "i-2"}
    endpoint = serve(lambda body, n: (200, {}, reply(None, refusal="no")) if asked(body) in broken else (200, {}, reply(GOOD)))
    probes = t3(*(f"i-{n}" for n in range(10)))
    settings = settings_for(endpoint, tolerate=tolerate)
    if fails:
        with pytest.raises(InputError, match=r"3 of 10 requests have no answer \(refused 3; for instance: no\), and inference.tolerate"):
            run(settings, probes, tmp_path)
    else:
        rows = run(settings, probes, tmp_path)
        assert Counter(row["status"] for row in rows) == {"ok": 7, "refused": 3}
        assert run(settings, probes, tmp_path) == rows and len(endpoint.calls) == 10
    broken.clear()
    rows = run(settings_for(endpoint, tolerate=0), probes, tmp_path, prices={"org/model": PRICE})
    assert Counter(row["status"] for row in rows) == {"ok": 10} and len(endpoint.calls) == 13
    # The refusals were paid for too, whichever run met them.
    assert sum(row["usd"] for row in rows) == pytest.approx(13 * 900e-6)


def test_good_answers_and_no_others_are_shared_where_the_config_says_so(serve, tmp_path):
    endpoint = serve(lambda body, n: (200, {}, reply("", "content_filter")) if asked(body) == "i-1" else (200, {}, reply(GOOD)))
    shelf, probes = tmp_path / "answers", t3("i-1", "i-2", "i-3")
    first = run(settings_for(endpoint), probes, tmp_path / "a", shelf=shelf, prices={"org/model": PRICE})
    assert len(endpoint.calls) == 3
    said: list[str] = []
    run(settings_for(endpoint), probes, tmp_path / "b", shelf=shelf, say=said.append)
    assert len(endpoint.calls) == 6 and said[0].startswith("2 of these requests were answered for other runs; inference.reuse: all takes")
    rows = run(settings_for(endpoint, reuse="all"), probes, tmp_path / "c", shelf=shelf, prices={"org/model": PRICE})
    assert [asked(body) for body in endpoint.calls[6:]] == ["i-1"]
    assert by_instance(rows, "reused") == {"i-1": False, "i-2": True, "i-3": True}
    assert [{**row, "reused": None} for row in rows] == [{**row, "reused": None} for row in first]
    # Another temperature is another request; a torn shelf costs what was torn.
    run(settings_for(endpoint, reuse="all", temperature=0.5), probes, tmp_path / "d", shelf=shelf)
    assert len(endpoint.calls) == 10
    (file,) = shelf.iterdir()
    lines = file.read_bytes().splitlines(keepends=True)
    assert len(lines) == 6 and b"content_filter" not in b"".join(lines)
    file.write_bytes(lines[0] + b"nonsense\n" + lines[1][:-9])
    run(settings_for(endpoint, reuse="all"), probes, tmp_path / "e", shelf=shelf)
    (torn,) = {"i-2", "i-3"} - {json.loads(lines[0])["instance_id"]}  # whichever answer came second
    assert sorted(asked(body) for body in endpoint.calls[10:]) == ["i-1", torn]
    run(settings_for(endpoint, reuse="all"), probes, tmp_path / "f", shelf=shelf)
    assert [asked(body) for body in endpoint.calls[12:]] == ["i-1"]
    run(settings_for(endpoint, reuse="none"), probes, tmp_path / "g", shelf=shelf)
    assert len(endpoint.calls) == 16


def test_a_row_says_what_was_asked_and_what_was_shown(serve, tmp_path):
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    (row,) = run(settings_for(endpoint), t3("i-1"), tmp_path)
    attachments = base.Attachments(PICTURES)
    request = base.Request("t3", "i-1", 0, prompts.render(PROMPT_SET["t3"], t3("i-1")["t3"][0]))
    assert row["pictures"] == [attachments.sha256(prompts.Image(name)) for name in ("p0", "p1", "p2")]
    assert row["prompt"] == base.prompt_digest(request)
    assert row["request"] == base.request_key(settings_for(endpoint), request, attachments)
    assert (row["served"], row["max_output_tokens"], row["limit_hit"]) == ("served-model", 50, False)


FIELDS = {
    "provider": st.text(min_size=1),
    "model": st.text(min_size=1),
    "temperature": st.floats(0, 2),
    "max_output_tokens": st.integers(1),
    "base_url": st.text(min_size=1),
    # Settings that no version knows yet are sent by one that does.
    "reasoning_effort": st.sampled_from(["low", "high"]),
    "seed": st.integers(),
}


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(FIELDS)), data=st.data())
def test_whatever_setting_is_sent_is_in_the_key(name, data):
    value = data.draw(FIELDS[name])
    before = settings_for(None)
    request = base.Request("t3", "i-1", 0, prompts.render(PROMPT_SET["t3"], t3("i-1")["t3"][0]))
    keys = [base.request_key(one, request, base.Attachments(PICTURES)) for one in (before, {**before, name: value})]
    assert (keys[0] == keys[1]) == (before.get(name) == value)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_text_and_every_pixel_of_every_picture_is_in_the_key(data):
    messages = prompts.render(PROMPT_SET["t3"], t3("i-1")["t3"][0])
    parts = [(m, p) for m, message in enumerate(messages) for p in range(len(message.parts))]
    m, p = data.draw(st.sampled_from(parts))
    part = messages[m].parts[p]
    pictures = dict(PICTURES.pictures)
    if isinstance(part, prompts.Text):
        place = data.draw(st.integers(0, len(part.text)))
        changed = list(messages[m].parts)
        changed[p] = prompts.Text(part.text[:place] + data.draw(st.text(min_size=1)) + part.text[place:])
        other = tuple(prompts.Message(one.role, tuple(changed)) if n == m else one for n, one in enumerate(messages))
    else:
        picture = pictures[part.image_id].copy()
        x, y = data.draw(st.integers(0, 63)), data.draw(st.integers(0, 39))
        red, *rest = picture.getpixel((x, y))
        picture.putpixel((x, y), (red ^ data.draw(st.integers(1, 255)), *rest))
        pictures[part.image_id], other = picture, messages
    keys = [
        base.request_key(settings_for(None), base.Request("t3", "i-1", 0, said), base.Attachments(Pictures(shown)))
        for said, shown in ((messages, PICTURES.pictures), (other, pictures))
    ]
    assert keys[0] != keys[1]


def faulty(seen: Counter) -> Any:
    """Return a service that fails in many ways, each request in its own and the same every time."""
    lock = threading.Lock()

    def answer(body: dict, n: int) -> tuple:
        name = asked(body)
        number = int(name.removeprefix("i-"))
        with lock:
            seen[name, body["max_tokens"]] += 1
            first = seen[name, body["max_tokens"]] == 1
        time.sleep(0.01)
        kind = number % 12
        if kind == 1 and first:
            return 500, {}, fault(None)
        if kind == 2 and first:
            return 429, {"Retry-After": "0.02"}, fault("rate_limit_exceeded")
        if kind == 3 and first:
            return 200, {"Content-Length": "9999"}, b'{"id": "r", "cho'
        if kind == 4:
            return 400, {}, fault("invalid_image")
        if kind == 5:
            return 200, {}, reply(None, refusal=f"no {number}")
        if kind == 6 and body["max_tokens"] == 50:
            return 200, {}, reply('{"ans', "length")
        return 200, {}, reply(f'{{"answer": "A", "n": {number}}}')

    return answer


def kill_often(serve, tmp_path: Path, kills: int, n: int, seed: int) -> None:
    """Kill a run at random points, see its journal readable each time, and compare its end with that of an undisturbed run."""
    mined = write_probes(tmp_path / "mined", t3(*(f"i-{i:04}" for i in range(n))))
    draw, seen, concurrency = random.Random(seed), Counter(), 4
    endpoint = serve(faulty(seen))
    settings = settings_for(endpoint, condition="metadata", concurrency=concurrency, retries=6)
    lines = ("import sys", "from evoaudit.infer import engine", "from evoaudit.__main__ import main", "engine.FIRST_WAIT = 0.01")
    code = "\n".join((*lines, "sys.exit(main(sys.argv[1:]))"))
    argv = [sys.executable, "-c", code, *command(settings, mined, tmp_path / "out")]
    known: set[str] = set()
    done = 0
    while done < kills:
        before = len(endpoint.calls)
        process = subprocess.Popen(argv, env=os.environ, stderr=subprocess.DEVNULL)
        target = before + draw.randint(1, max(2, n // (2 * kills)))
        while len(endpoint.calls) < target and process.poll() is None:
            time.sleep(0.001)
        time.sleep(draw.random() * 0.03)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        done += 1
        with Journal(tmp_path / "out" / NAME) as journal:
            assert not journal.damaged and all(key in journal for key in known)
        known = {json.loads(line).get("key", "") for line in (tmp_path / "out" / NAME).read_bytes().splitlines()} - {""}
    assert done == kills
    time.sleep(0.1)
    assert main(command(settings, mined, tmp_path / "out")) == 0
    # Beyond what a fault costs, a request is sent again only if it was in flight at a kill.
    again = 0
    for (name, _), times in seen.items():
        again += times - (2 if int(name.removeprefix("i-")) % 12 in (1, 2, 3) else 1)
    assert 0 <= again <= kills * concurrency
    assert main(command(settings, mined, tmp_path / "undisturbed")) == 0
    ends = [(tmp_path / name / "predictions.parquet").read_bytes() for name in ("out", "undisturbed")]
    assert ends[0] == ends[1]
    statuses = Counter(row["status"] for row in store.read_rows(tmp_path / "out", "predictions"))
    assert statuses == {"ok": n - 2 * (n // 12), "http_error": n // 12, "refused": n // 12}


def test_killed_five_times_under_faults_it_ends_in_the_same_bytes(serve, tmp_path):
    kill_often(serve, tmp_path, 5, 60, seed=1)


@pytest.mark.slow
def test_killed_a_hundred_times_under_faults_it_ends_in_the_same_bytes(serve, tmp_path):
    kill_often(serve, tmp_path, 100, 1800, seed=2)


def test_an_answer_is_on_disk_before_its_place_is_given_to_the_next(tmp_path, monkeypatch):
    """Whenever a request is sent, the journal on disk holds all that ended before, but for those being written together."""
    path, concurrency = tmp_path / NAME, 3

    class Counting:
        ended = 0

        async def ask(self, request: base.Request) -> base.Outcome:
            written = path.read_bytes().count(b"\n")
            assert self.ended - written < concurrency
            await asyncio.sleep(0)
            self.ended += 1
            return base.Outcome("ok", raw=request.instance_id)

        async def close(self) -> None:
            pass

    todo = [(str(n), base.Request("t3", str(n), 0, ())) for n in range(60)]
    with Journal(path) as journal:
        limits = engine.Limits(concurrency=concurrency)
        asyncio.run(engine.Engine(Counting(), journal, limits, engine.Budget(None, None, 0.0, base.Attachments(None), 10)).run(todo))
    assert path.read_bytes().count(b"\n") == 60


def test_progress_says_rate_faults_money_and_time_left():
    class Meter:
        limit, spent, price = 5.0, 1.234, PRICE

    clock, lines = [0.0], []
    progress = Progress(lines.append, clock=lambda: clock[0])
    progress.begin(100, Meter())
    for n in range(40):
        progress.done("refused" if n < 2 else "timeout" if n < 3 else "ok")
    progress.tried_again()
    clock[0] = 20.0
    progress.tell(held=90)
    assert lines == [
        "40 of 100; 2.0 a second; 3 without an answer (refused 2, timeout 1); 1 calls repeated; $1.23 of $5.00; about 30 s left; "
        "held back for another 90 s"
    ]
    assert [span(seconds) for seconds in (0.2, 119, 121, 7199, 7300)] == ["1 s", "119 s", "2 min", "120 min", "2 h"]


def test_the_workflow_bounds_the_requests_in_flight(serve, tmp_path):
    def answer(body: dict, n: int) -> tuple:
        time.sleep(0.02)
        return 200, {}, reply(GOOD)

    endpoint = serve(answer)
    mined = write_probes(tmp_path / "mined", t3(*(f"i-{n}" for n in range(20))))
    settings = settings_for(endpoint, condition="metadata", concurrency=8)
    assert main(command(settings, mined, tmp_path / "out", "--in-flight", "0", "3", "0")) == 0
    assert 2 <= endpoint.most <= 3


def test_a_run_in_a_log_is_quiet_and_names_no_key(serve, tmp_path, capsys):
    endpoint = serve(lambda body, n: (200, {}, reply(GOOD)))
    mined = write_probes(tmp_path / "mined", t3(*(f"i-{n}" for n in range(20))))
    assert main(command(settings_for(endpoint, condition="metadata"), mined, tmp_path / "out")) == 0
    error = capsys.readouterr().err
    assert error == "m: 20 requests, 0 answered before, 20 to ask\n" and CANARY not in error


def test_the_very_same_request_is_asked_and_paid_for_once(serve, tmp_path):
    endpoint = serve(lambda body, n: (200, {}, reply('{"ans', "length") if cut(body) and asked(body) == "i-long" else reply(GOOD)))
    probes = t3("i-1", "i-long", "i-2")
    for name in ("i-1", "i-long"):
        row = next(row for row in probes["t3"] if row["instance_id"] == name)
        probes["t3"].append({**row, "instance_id": f"{name}-twin"})
    said: list[str] = []
    rows = run(settings_for(endpoint), probes, tmp_path, prices={"org/model": PRICE}, say=said.append)
    assert said[0] == "5 requests, 2 of them the same as another, 0 answered before, 3 to ask"
    assert Counter(asked(body) for body in endpoint.calls) == {"i-1": 1, "i-2": 1, "i-long": 2}
    assert {row["status"] for row in rows} == {"ok"} and len({row["request"] for row in rows}) == 3
    assert by_instance(rows, "limit_hit")["i-long-twin"] and by_instance(rows, "max_output_tokens")["i-long-twin"] == 100
    assert by_instance(rows, "reused") == {row["instance_id"]: row["instance_id"].endswith("twin") for row in rows}
    assert sum(row["usd"] for row in rows) == pytest.approx(4 * 900e-6) and sum(row["input_tokens"] for row in rows) == 4000
    assert run(settings_for(endpoint), probes, tmp_path, prices={"org/model": PRICE}) == rows and len(endpoint.calls) == 4
