"""Asking by batches, through the vendors' real SDKs, against a server that speaks their batch services."""

import json
import os
import random
import signal
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer, Made
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import FAULTS, PROTOCOLS, Answer, Call, Reply, expected, fault, good
from served import CANARY, served
from test_infer import PICTURES, PROMPT_SET, Pictures, by_instance, command, settings_for, t3, write_probes

from evoaudit import config, plan, prompts, store
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.infer import base, batch, batch_ledger, batch_services, prices, providers
from evoaudit.infer.journal import NAME
from evoaudit.infer.predict import predict

PRICE = prices.Price(input=1.0, cached_input=0.5, output=10.0, date="2026-01-02", source="x")
CERTIFICATES = cache(ssl.create_default_context)
VENDORS = ("chat", "anthropic", "google")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], BatchServer]]:
    monkeypatch.setattr(batch, "FIRST_LOOK", 0.02)
    monkeypatch.setattr(batch, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(batch, "SETTLED", 0.0)
    # Every client reads the machine's certificates, which takes longer than what it then asks.
    monkeypatch.setattr(ssl, "create_default_context", CERTIFICATES)
    yield from served(monkeypatch, BatchServer)


def entry(protocol: str, server: BatchServer, **more: Any) -> dict[str, Any]:
    provider = "openai" if protocol in ("chat", "responses") else protocol
    api = {"api": "responses"} if protocol == "responses" else {}
    return {**settings_for(None), "provider": provider, "base_url": server.url(protocol), "batch": True, **api, **more}


class Run:
    """One folder in which a model is asked, and what was said."""

    def __init__(self, out: Path, names: list[str]) -> None:
        self.out, self.names, self.said = out, names, []

    def ask(self, settings: dict[str, Any], **more: Any) -> list[dict]:
        probes = t3(*self.names)
        return predict(settings, probes, PICTURES, PROMPT_SET, out=self.out, prices={"org/model": PRICE}, say=self.said.append, **more)

    def statuses(self, settings: dict[str, Any]) -> dict[str, str]:
        return by_instance(self.ask(settings), "status")

    @property
    def open(self) -> list[batch_ledger.Batch]:
        return batch_ledger.in_progress(self.out / batch_ledger.NAME)


def names(n: int) -> list[str]:
    return [f"i-{place:02}" for place in range(n)]


def bound(call: Call) -> int:
    """Return a request's bound on output."""
    held = {**call.body, **call.body.get("generationConfig", {})}
    return next(held[name] for name in ("max_tokens", "max_output_tokens", "maxOutputTokens") if name in held)


def mixed(protocol: str) -> Answer:
    """Return a service that answers some, refuses some, and cuts one off at its bound."""

    def answer(call: Call) -> Reply:
        if call.asked == "i-01":
            return good(protocol, None, "refusal")
        if call.asked == "i-02":
            return fault(protocol, "bad")
        if call.asked in ("i-03", "i-04") and (bound(call) == 50 or call.asked == "i-04"):
            return good(protocol, '{"ans', "length")
        return good(protocol, f'{{"answer": "A", "n": "{call.asked}"}}')

    return answer


def alike(rows: list[dict]) -> list[dict]:
    return [{**row, "usd": None} for row in rows]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_batches_send_the_same_bodies_and_give_the_same_rows_as_single_requests_for_half_the_price(serve, tmp_path, protocol):
    server = serve(mixed(protocol))
    runs = [Run(tmp_path / name, names(6)) for name in ("batch", "online")]
    batched, online = runs[0].ask(entry(protocol, server)), runs[1].ask(entry(protocol, server, batch=False))
    assert alike(batched) == alike(online) and len({row["status"] for row in online}) == 4
    assert [row["usd"] for row in batched] == [usd and pytest.approx(usd / 2) for usd in by_instance(online, "usd").values()]
    assert [len(made.requests) for made in server.batches] == [6, 2]
    bodies = {json.dumps(body, sort_keys=True) for made in server.batches for _, body in made.requests}
    assert bodies == {json.dumps(call.body, sort_keys=True) for call in server.calls} and len(bodies) == len(server.calls) == 8
    shown = base.Attachments(PICTURES).base64(prompts.Image("p1"), protocol == "google")[1].decode()
    assert all(shown in body for body in bodies)
    assert not runs[0].open and [path.name for path in sorted(runs[0].out.iterdir())] == [batch_ledger.NAME, NAME]
    # A finished run asked again, either way, sends nothing.
    assert runs[0].ask(entry(protocol, server, batch=False)) == batched and runs[1].ask(entry(protocol, server)) == online
    assert len(server.batches) == 2 and len(server.calls) == 8


#: Faults that one request of a batch can meet.
OF_ONE = [name for name in FAULTS if name not in ("reset", "cut", "drip", "hang", "moved")]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_fault_matrix_is_classed_without_one_error(serve, tmp_path, protocol):
    tables = {f"i-{name}": FAULTS[name][0] for name in OF_ONE}
    server = serve(lambda call: tables[call.asked](protocol) if call.asked in tables else good(protocol))
    run = Run(tmp_path, ["i-good", *tables])
    found = run.statuses(entry(protocol, server, retries=1))
    assert found == {"i-good": "ok", **{f"i-{name}": expected(protocol, name) for name in OF_ONE}} and len(OF_ONE) >= 14
    assert set(found.values()) <= base.STATUSES
    # Only what another try, or a doubled bound, may mend was asked again, and once.
    again = [name for name, status in found.items() if status in base.PASSING | {"truncated"}]
    assert [len(made.requests) for made in server.batches] == [len(found), len(again)]


@pytest.mark.parametrize("protocol", VENDORS)
@pytest.mark.parametrize(("end", "status"), [("expired", "timeout"), ("cancelled", "server")])
def test_what_a_batch_did_not_come_to_is_asked_again_or_ends_unanswered(serve, tmp_path, protocol, end, status):
    server = serve(lambda call: good(protocol))
    server.hooks.made = lambda made: setattr(made, "end", end if len(server.batches) == 1 else "completed")
    run = Run(tmp_path / "again", names(4))
    assert set(run.statuses(entry(protocol, server)).values()) == {"ok"}
    # Google keeps nothing of a batch that ended early, the others what was done.
    assert [len(made.requests) for made in server.batches] == [4, 4 if protocol == "google" else 2]
    if protocol != "google":
        server.batches.clear()
        found = Run(tmp_path / "once", names(4)).statuses(entry(protocol, server, retries=0, tolerate=4))
        assert found == {"i-00": "ok", "i-01": status, "i-02": "ok", "i-03": status}


def torn(made: Made, lines: list[bytes]) -> list[bytes]:
    """Return results with one line twice, one of a request that was never made, two that cannot be read, and one left out."""
    other = json.loads(lines[0])
    other["key" if made.vendor == "google" else "custom_id"] = "f" * 64
    return [lines[1], b"{not json", lines[0], lines[1], json.dumps(other).encode(), b"[1]", *lines[2:-1]]


@pytest.mark.parametrize("protocol", VENDORS)
def test_results_twice_missing_unreadable_and_of_others_are_told_apart_and_counted(serve, tmp_path, protocol):
    server = serve(lambda call: good(protocol, f'{{"answer": "A", "n": "{call.asked}"}}'))
    server.hooks.spoil = lambda made, lines: torn(made, lines) if made is server.batches[0] else lines
    run = Run(tmp_path, names(5))
    rows = run.ask(entry(protocol, server))
    assert {row["instance_id"]: json.loads(row["raw"])["n"] for row in rows} == {name: name for name in names(5)}
    assert [len(made.requests) for made in server.batches] == [5, 1] and server.asked[server.batches[1].keys[0]] == 2
    told = next(line for line in run.said if "collected" in line)
    assert told.endswith(
        "collected: ok 4, server 1; $0.00 spent; 1 results given twice are left out; 1 results of no request of this batch are left out; "
        "2 results unreadable are left out"
    )
    assert [row["input_tokens"] for row in rows] == [1000] * 5


def killed(at: Callable[[pytest.MonkeyPatch], None], ask: Callable[[], Any]) -> None:
    """Ask in a process that kills itself where ``at`` has laid a trap."""
    child = os.fork()
    if child == 0:
        try:
            at(pytest.MonkeyPatch())
            ask()
        finally:
            os._exit(7)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def trap(owner: Any, name: str, after: bool, times: int = 1) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what makes a process kill itself before, or after, a function's call of that number."""
    calls = Counter()

    def lay(patch: pytest.MonkeyPatch) -> None:
        whole = getattr(owner, name)

        def deadly(*args: Any, **more: Any) -> Any:
            calls["n"] += 1
            if calls["n"] == times and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            found = whole(*args, **more)
            if calls["n"] == times:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        patch.setattr(owner, name, deadly)

    return lay


POINTS = {
    "the file is written, the intent not": trap(batch_ledger.Ledger, "intend", False),
    "the intent is written": trap(batch_ledger.Ledger, "intend", True),
    "the service has it, the ledger not": trap(batch_services.Service, "submit", True),
    "the id is written": trap(batch_ledger.Ledger, "submitted", True),
    "it was looked at": trap(batch_services.Service, "look", True),
    "the service has given its results": trap(batch_services.Service, "fetch", True),
    "some results are in the journal": trap(batch.Journal, "extend", True),
    "all results are, the ledger does not know": trap(batch_ledger.Ledger, "end", False),
    "the first batch has ended": trap(batch_ledger.Ledger, "end", True),
    "the second intent is written": trap(batch_ledger.Ledger, "intend", True, 2),
    "the service has the second one": trap(batch_services.Service, "submit", True, 2),
    "the second one is collected": trap(batch_ledger.Ledger, "end", False, 2),
}


@pytest.mark.parametrize("protocol", VENDORS)
def test_killed_anywhere_it_goes_on_and_submits_and_counts_nothing_twice(serve, tmp_path, protocol, monkeypatch):
    monkeypatch.setattr(batch, "_TOGETHER", 2)
    server = serve(mixed(protocol))
    settings = entry(protocol, server, tolerate=5)
    undisturbed = Run(tmp_path / "undisturbed", names(6)).ask(settings)
    assert len(server.batches) == 2
    for n, (point, at) in enumerate(POINTS.items()):
        if protocol != "chat" and "service" not in point:
            continue
        server.batches.clear()
        run = Run(tmp_path / str(n), names(6))
        killed(at, lambda run=run: run.ask(settings))
        assert run.ask(settings) == undisturbed, point
        assert set(server.asked.values()) == {1} and len(server.asked) == 8, point
        assert not run.open and len(list(run.out.iterdir())) == 2, point


@pytest.mark.slow
@pytest.mark.parametrize("protocol", VENDORS)
def test_killed_again_and_again_at_random_it_submits_nothing_twice(serve, tmp_path, protocol, monkeypatch):
    kind = {"chat": batch_services.OpenAIBatches, "anthropic": batch_services.AnthropicBatches, "google": batch_services.GoogleBatches}
    monkeypatch.setattr(kind[protocol], "REQUESTS", 3)
    monkeypatch.setattr(batch, "_TOGETHER", 2)
    draw, server = random.Random(5), serve(mixed(protocol))
    settings = entry(protocol, server, tolerate=1000)
    undisturbed = Run(tmp_path / "undisturbed", names(300)).ask(settings)
    most = len(server.batches)
    server.batches.clear()
    server.hooks.made = lambda made: setattr(made, "looks", draw.randrange(3))
    run, kills = Run(tmp_path / "killed", names(300)), 0
    while kills < 100 and not (kills and not run.open and len(server.asked) == 302):
        child = os.fork()
        if child == 0:
            try:
                run.ask(settings)
            finally:
                os._exit(0)
        time.sleep(draw.random() * 0.2)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        time.sleep(0.05)  # what the service had received when its client died has come to be
        kills += 1
    assert run.ask(settings) == undisturbed and kills > 9
    assert set(server.asked.values()) == {1} and len(server.asked) == 302 and len(server.batches) >= most


@pytest.mark.parametrize("protocol", VENDORS)
def test_a_run_whose_wait_ends_leaves_its_batches_and_the_next_one_collects_them(serve, tmp_path, protocol):
    server = serve(mixed(protocol))
    server.hooks.made = lambda made: setattr(made, "looks", 99)
    run, settings = Run(tmp_path, names(6)), entry(protocol, server, batch_wait_h=0, tolerate=5)
    for _ in range(2):
        with pytest.raises(
            InputError, match="model 'm': 1 batch is still in progress with 6 requests; 0 of 6 answers are kept, run again to"
        ):
            run.ask(settings)
    server.batches[0].looks = 0
    with pytest.raises(InputError, match="1 batch is still in progress with 2 requests; 2 of 6 answers are kept"):
        run.ask(settings)
    server.batches[1].looks = 1
    rows = run.ask({**settings, "batch_wait_h": 1})
    assert by_instance(rows, "status") == {
        "i-00": "ok", "i-01": expected(protocol, "refusal"), "i-02": "http_error", "i-03": "ok", "i-04": "truncated", "i-05": "ok"
    }  # fmt: skip
    assert len(server.batches) == 2 and set(server.asked.values()) == {1}


def test_an_interrupted_run_says_what_is_in_progress(serve, tmp_path, monkeypatch):
    server = serve(lambda call: good("chat"))
    server.hooks.made = lambda made: setattr(made, "looks", 1)

    def sleep(seconds: float) -> None:
        if seconds:
            raise KeyboardInterrupt

    monkeypatch.setattr(batch.time, "sleep", sleep)
    run = Run(tmp_path, names(3))
    with pytest.raises(InputError, match="1 batch is still in progress with 3 requests; 0 of 3 answers are kept, run again to collect"):
        run.ask(entry("chat", server))
    monkeypatch.undo()


@pytest.mark.parametrize("protocol", VENDORS)
@pytest.mark.parametrize("manner", ["lost", "reset"])
def test_a_batch_of_which_no_word_came_back_is_looked_for_before_it_is_submitted_anew(serve, tmp_path, protocol, manner):
    server = serve(lambda call: good(protocol))
    server.hooks.meddle = lambda what, n: Reply(manner=manner) if what == "create" and n == 1 else None
    # Older batches of others stand before it in the list, on several pages.
    for n in range(5):
        server._make("openai" if protocol == "chat" else protocol, "/v1/chat/completions", [(f"{k:064}", {}) for k in range(n + 4)], "x")
    others = list(server.batches)
    assert set(Run(tmp_path, names(3)).statuses(entry(protocol, server)).values()) == {"ok"}
    mine = [made for made in server.batches if made not in others]
    assert [len(made.requests) for made in mine] == [3] and server.counts["create"] == (1 if manner == "lost" else 2)
    assert server.counts["list"] >= 1


def test_another_runs_batch_of_as_many_requests_is_known_by_its_results(serve, tmp_path):
    server = serve(lambda call: good("anthropic"))
    server.hooks.meddle = lambda what, n: Reply(manner="reset") if what == "create" and n == 1 else None
    theirs = [server._make("anthropic", "/v1/messages", [(f"{k + 10 * n:064}", {}) for k in range(3)], None) for n in range(2)]
    for made in theirs:
        made.lines = [json.dumps({"custom_id": key, "result": {"type": "expired"}}).encode() for key in made.keys]
    run = Run(tmp_path, names(3))
    assert set(run.statuses(entry("anthropic", server)).values()) == {"ok"}
    assert server.counts["create"] == 2 and len(server.batches) == 3 and not run.open


def test_a_budget_is_kept_at_the_worst_case_of_what_is_in_progress(serve, tmp_path):
    server = serve(lambda call: good("chat"))
    run = Run(tmp_path, names(40))
    worst = 0.5 * batch.Budget(1.0, PRICE, 0.0, base.Attachments(PICTURES), 50).worst(
        base.Request("t3", "i-00", 0, prompts.render(PROMPT_SET["t3"], t3("i-00")["t3"][0]))
    )
    settings = entry("chat", server, budget_usd=4.5 * worst)
    # An answer costs 450 millionths, far less than feared, so what is set aside comes back; in the end it is used up.
    with pytest.raises(InputError, match=r"might exceed the budget of \$.* answers are kept") as error:
        run.ask(settings)
    sizes = [len(made.requests) for made in server.batches]
    spent = 450e-6 * sum(sizes)
    assert sizes[0] == 4 and sum(sizes) < 40 and spent <= 4.5 * worst < spent + worst and f"{sum(sizes)} of 40" in str(error.value)
    rows = run.ask({**settings, "budget_usd": 100 * worst})
    assert sum(row["usd"] for row in rows) == pytest.approx(40 * 450e-6) and set(server.asked.values()) == {1}
    with pytest.raises(InputError, match="has no known price"):
        predict(settings, t3("i-1"), PICTURES, PROMPT_SET, out=tmp_path / "other")


@pytest.mark.parametrize("protocol", VENDORS)
@pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        ("upload", "auth", "refused the key"),
        ("create", "credit", "no credit"),
        ("look", "auth", "refused the key"),
        ("fetch", "credit", "no credit"),
    ],
)
def test_a_fault_of_the_account_stops_it_at_once_and_keeps_what_is_in_progress(serve, tmp_path, protocol, what, kind, words):
    if protocol == "anthropic" and what == "upload":
        pytest.skip("nothing is uploaded there")
    server, run = serve(lambda call: good(protocol)), Run(tmp_path, names(3))
    what = "start" if (protocol, what) == ("google", "upload") else what
    server.hooks.meddle = lambda asked, n: fault(protocol, kind) if asked == what else None
    with pytest.raises(InputError) as error:
        run.ask(entry(protocol, server))
    assert words in str(error.value) and CANARY not in str(error.value) and server.counts[what] == 1
    assert len(run.open) == (what in ("look", "fetch"))
    server.hooks.meddle = lambda asked, n: None
    assert set(run.statuses(entry(protocol, server)).values()) == {"ok"} and set(server.asked.values()) == {1}


@pytest.mark.parametrize("protocol", VENDORS)
def test_a_fault_of_the_account_inside_a_batch_keeps_the_other_results(serve, tmp_path, protocol):
    server = serve(lambda call: fault(protocol, "forbidden") if call.asked == "i-01" else good(protocol))
    run = Run(tmp_path, names(4))
    with pytest.raises(InputError, match=r"refused the key in EVOAUDIT_TEST_KEY .* 3 of 4 answers are kept"):
        run.ask(entry(protocol, server))
    server.answer = lambda call: good(protocol)
    assert set(run.statuses(entry(protocol, server)).values()) == {"ok"} and [len(made.requests) for made in server.batches] == [4, 1]


@pytest.mark.parametrize("protocol", VENDORS)
def test_passing_faults_of_the_service_are_waited_out(serve, tmp_path, protocol):
    server = serve(lambda call: good(protocol))
    replies = [fault(protocol, "busy"), Reply(502, b"<html>"), Reply(payload=b"<html>"), Reply(manner="reset"), None]
    server.hooks.meddle = lambda what, n: replies[min(n, 5) - 1] if what in ("look", "list") else None
    assert set(Run(tmp_path, names(3)).statuses(entry(protocol, server)).values()) == {"ok"}
    assert server.counts["look"] == 5 + (protocol == "anthropic") and len(server.batches) == 1


@pytest.mark.parametrize("protocol", VENDORS)
def test_a_service_that_stays_away_is_left_until_the_next_run(serve, tmp_path, protocol):
    server = serve(lambda call: good(protocol))
    server.hooks.meddle = lambda what, n: fault(protocol, "busy") if what == "look" else None
    run = Run(tmp_path, names(3))
    with pytest.raises(InputError, match=r"could not be asked for batch .* \(HTTP 5\d\d: busy\); 0 of 3 answers are kept, run again"):
        run.ask(entry(protocol, server, batch_wait_h=1.5 / 3600))  # a busy machine takes long to submit
    assert len(run.open) == 1 and server.counts["look"] >= batch.TRIES
    server.hooks.meddle = lambda what, n: fault(protocol, "busy") if what == "look" and n < 20 else None
    assert set(run.statuses(entry(protocol, server)).values()) == {"ok"} and len(server.batches) == 1


@pytest.mark.parametrize("protocol", VENDORS)
def test_results_that_come_down_in_part_are_fetched_again(serve, tmp_path, protocol):
    server = serve(lambda call: good(protocol))
    server.hooks.spoil = lambda made, lines: lines[:1] if server.counts["fetch"] == 1 else lines
    run = Run(tmp_path, names(4))
    assert set(run.statuses(entry(protocol, server)).values()) == {"ok"} and len(server.batches) == 1
    server.hooks.spoil = lambda made, lines: lines
    server.hooks.meddle = lambda what, n: Reply(payload=b"x" * 99, manner="cut") if what == "fetch" and server.counts["fetch"] % 2 else None
    assert set(Run(tmp_path / "cut", names(4)).statuses(entry(protocol, server)).values()) == {"ok"} and len(server.batches) == 2


def test_a_batch_the_service_does_not_know_is_not_paid_for_again_unasked(serve, tmp_path):
    server = serve(lambda call: good("chat"))
    server.hooks.made = lambda made: setattr(made, "looks", 9)
    run = Run(tmp_path, names(2))
    with pytest.raises(InputError, match="still in progress"):
        run.ask(entry("chat", server, batch_wait_h=0))
    server.batches.clear()
    with pytest.raises(InputError, match=r"does not know batch batch_1 \(HTTP 404\); use the key .* or remove .*batches.jsonl"):
        run.ask(entry("chat", server))
    assert not server.batches
    (tmp_path / batch_ledger.NAME).unlink()
    server.hooks.made = lambda made: None
    assert set(run.statuses(entry("chat", server)).values()) == {"ok"}


@pytest.mark.parametrize("protocol", VENDORS)
def test_a_run_can_go_over_from_batches_to_single_requests_and_back(serve, tmp_path, protocol):
    server = serve(lambda call: good(protocol, f'{{"answer": "A", "n": "{call.asked}"}}'))
    server.hooks.made = lambda made: setattr(made, "looks", 9)
    run = Run(tmp_path, names(8))
    settings = entry(protocol, server, batch_wait_h=0, budget_usd=0.01)
    with pytest.raises(InputError, match="1 batch is still in progress with"):
        run.ask(settings)
    n = len(server.batches[0].requests)
    assert 1 <= n < 8
    # What is in progress is not asked a second time; the rest is, at once.
    with pytest.raises(InputError, match=f"1 batch is still in progress with {n} requests; {8 - n} of 8 answers are kept"):
        run.ask({**settings, "batch": False, "budget_usd": None})
    assert len(server.calls) == 8 - n
    server.batches[0].looks = 0
    rows = run.ask({**settings, "batch": False})
    assert {row["instance_id"]: json.loads(row["raw"])["n"] for row in rows} == {name: name for name in names(8)}
    assert len(server.calls) == 8 - n and len(server.batches) == 1
    assert Counter(round(row["usd"] * 1e6) for row in rows) == {450: n, 900: 8 - n}


def test_what_was_answered_one_at_a_time_is_in_no_batch(serve, tmp_path):
    server = serve(lambda call: fault("chat", "auth") if call.number == 4 else good("chat"))
    run = Run(tmp_path, names(6))
    with pytest.raises(InputError, match="3 of 6 answers are kept"):
        run.ask(entry("chat", server, batch=False, concurrency=1))
    server.answer = lambda call: good("chat")
    assert set(run.statuses(entry("chat", server)).values()) == {"ok"} and [len(made.requests) for made in server.batches] == [3]


@pytest.mark.parametrize("protocol", VENDORS)
@pytest.mark.parametrize("bound", ["REQUESTS", "BYTES"])
def test_batches_are_no_larger_than_the_service_takes(serve, tmp_path, protocol, bound, monkeypatch):
    server = serve(lambda call: good(protocol))
    kind = {"chat": batch_services.OpenAIBatches, "anthropic": batch_services.AnthropicBatches, "google": batch_services.GoogleBatches}
    largest = []
    whole = batch_services.Service.submit
    monkeypatch.setattr(
        batch_services.Service, "submit", lambda self, file, tag: (largest.append(file.seek(0, 2)), whole(self, file, tag))[1]
    )
    Run(tmp_path / "whole", names(7)).ask(entry(protocol, server))
    room = {"REQUESTS": 3, "BYTES": largest.pop() * 3 // 7 + 100}[bound]
    monkeypatch.setattr(kind[protocol], bound, room)
    server.batches.clear()
    assert set(Run(tmp_path / "split", names(7)).statuses(entry(protocol, server)).values()) == {"ok"}
    assert [len(made.requests) for made in server.batches] == [3, 3, 1] and (bound == "REQUESTS" or max(largest) <= room)
    monkeypatch.setattr(kind[protocol], "BYTES", 300)
    with pytest.raises(InputError, match=r"picture_limit 7; for instance: not sent: a request of 0.0 MiB; a batch takes 0"):
        Run(tmp_path / "none", names(7)).ask(entry(protocol, server))
    assert len(server.batches) == 3


def test_an_account_with_too_much_in_progress_gets_smaller_batches_later(serve, tmp_path):
    server = serve(lambda call: good("chat"))
    full = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached", "line": None, "param": None}

    def made(one: Made) -> None:
        if len(one.requests) > 2:
            one.end, one.error = "failed", full

    server.hooks.made = made
    assert set(Run(tmp_path / "openai", names(8)).statuses(entry("chat", server, retries=0)).values()) == {"ok"}
    assert [len(one.requests) for one in server.batches] == [8, 4, 4, 2, 2, 2, 2]
    server = serve(lambda call: good("anthropic"))
    server.hooks.meddle = lambda what, n: fault("anthropic", "picture") if what == "create" and n == 1 else None
    assert set(Run(tmp_path / "anthropic", names(8)).statuses(entry("anthropic", server, retries=0)).values()) == {"ok"}
    assert [len(one.requests) for one in server.batches] == [4, 4]
    server = serve(lambda call: good("google"))
    server.hooks.meddle = lambda what, n: fault("google", "rate") if what == "create" and n < 3 else None
    assert set(Run(tmp_path / "google", names(8)).statuses(entry("google", server, retries=0)).values()) == {"ok"}
    assert [len(one.requests) for one in server.batches] == [2, 2, 2, 2]


@pytest.mark.parametrize("protocol", ["chat", "google"])
def test_a_batch_that_fails_as_a_whole_stops_the_run_or_ends_unanswered(serve, tmp_path, protocol):
    server = serve(lambda call: good(protocol))

    def made(one: Made) -> None:
        one.end, one.error = "failed", {"code": "invalid_json_line", "message": f"bad line {CANARY}"}

    server.hooks.made = made
    words = {
        "chat": r"failed a batch \(bad line \[key\]\)",
        "google": r"answered none of 2 requests \(server 2; for instance: the batch failed",
    }
    with pytest.raises(InputError, match=words[protocol]):
        Run(tmp_path, names(2)).ask(entry(protocol, server, retries=2))
    assert len(server.batches) == (1 if protocol == "chat" else 3)


@pytest.mark.parametrize("protocol", ["chat", "responses", "anthropic"])
def test_a_temperature_that_a_model_does_not_take_costs_no_try(serve, tmp_path, protocol, monkeypatch):
    def answer(call: Call) -> Reply:
        if "temperature" not in call.body:
            return good(protocol)
        if protocol == "anthropic":
            error = {"type": "invalid_request_error", "message": "temperature: Extra inputs are not permitted"}
            return Reply(400, {"type": "error", "error": error})
        return Reply(400, {"error": {"message": "no", "code": "unsupported_value", "type": "t", "param": "temperature"}})

    server = serve(answer)
    kind = batch_services.AnthropicBatches if protocol == "anthropic" else batch_services.OpenAIBatches
    monkeypatch.setattr(kind, "REQUESTS", 2)
    assert set(Run(tmp_path, names(4)).statuses(entry(protocol, server, retries=0)).values()) == {"ok"}
    assert [len(made.requests) for made in server.batches] == [2, 2, 2, 2]


def test_two_items_with_the_very_same_request_are_asked_once(serve, tmp_path):
    server = serve(lambda call: good("chat"))
    probes = t3("i-0", "i-1")
    probes["t3"].append({**probes["t3"][0], "instance_id": "i-2"})
    rows = predict(entry("chat", server), probes, PICTURES, PROMPT_SET, out=tmp_path)
    assert set(by_instance(rows, "status").values()) == {"ok"} and [len(made.requests) for made in server.batches] == [2]


@pytest.mark.parametrize("protocol", VENDORS)
def test_the_key_reaches_no_file_and_no_line_even_if_the_service_echoes_it(serve, tmp_path, protocol, capsys):
    answers = {
        "i-1": lambda: good(protocol, f"key {CANARY}", served=CANARY),
        "i-2": lambda: Reply(400, json.loads(json.dumps(fault(protocol, "bad").payload).replace("cannot read", f"bad {CANARY}"))),
    }
    server = serve(lambda call: answers.get(call.asked, lambda: good(protocol))())
    mined = write_probes(tmp_path / "mined", t3("i-0", "i-1", "i-2"))
    sent = entry(protocol, server, condition="metadata")
    kept: list[bytes] = []
    whole = server._results
    server._results = lambda *args: (kept.extend(read(tmp_path)), whole(*args))[1]  # while scratch files are there
    assert main(command(sent, mined, tmp_path / "out")) == 0
    echo = json.loads(json.dumps(fault(protocol, "bad").payload).replace("cannot read", f"bad {CANARY}"))
    server.hooks.meddle = lambda what, n: Reply(400, echo) if what == "create" else None
    assert main(command(sent, mined, tmp_path / "refused")) == 2
    written = kept + read(tmp_path)
    assert len(kept) > 3 and not any(CANARY.encode() in content for content in written) and CANARY not in "".join(capsys.readouterr())
    assert by_instance(store.read_rows(tmp_path / "out", "predictions"), "raw")["i-1"] == "key [key]"


def read(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def test_a_ledger_that_was_cut_off_is_mended_and_one_that_is_damaged_refused(tmp_path):
    path = tmp_path / batch_ledger.NAME
    with batch_ledger.Ledger(path) as ledger:
        first, second, third = (ledger.intend([f"{n:064}"], 0.5) for n in range(3))
        ledger.submitted(first, "b-1")
        ledger.submitted(second, "b-2", sure=False)
        ledger.confused(second)
        ledger.end(third, "ended")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"tag":"x","keys":["a')
    with batch_ledger.Ledger(path) as ledger:
        assert {one.id for one in ledger.open.values()} == {"b-1", None} and ledger.promised == 1.0
        assert ledger.open[second.tag].others == {"b-2"} and ledger.ids == {"b-1", "b-2"}
    assert path.read_bytes() == whole
    for line in (
        "nonsense",
        "[]",
        '{"tag": "x"}',
        '{"tag": "x", "keys": "abc", "at": 1, "usd": 0}',
        '{"tag": "x", "id": "y", "sure": true}',
    ):
        path.write_bytes(whole + line.encode() + b"\n")
        with pytest.raises(InputError, match=r"batches.jsonl:8: is no event of a batch"):
            batch_ledger.Ledger(path)


def test_requests_go_to_disk_and_come_from_it_in_pieces(serve, tmp_path, monkeypatch):
    import tracemalloc

    server = serve(lambda call: good("chat"))
    server.exchange = lambda handler, content: BatchServer.exchange(server, handler, content)
    run = Run(tmp_path, names(40))
    monkeypatch.setattr(Pictures, "get", lambda self, image_id: b"\x89PNG" + bytes(1 << 20))
    peaks = []
    whole = batch_services.Service.submit

    def submit(self: Any, file: Any, tag: str) -> str:
        peaks.append((file.seek(0, 2), tracemalloc.get_traced_memory()[1]))
        raise batch_services.Refused(400, {}, {"error": {"message": "enough"}})

    monkeypatch.setattr(batch_services.Service, "submit", submit)
    assert whole
    tracemalloc.start()
    with pytest.raises(InputError, match="takes no batch"):
        run.ask(entry("chat", server))
    tracemalloc.stop()
    ((size, peak),) = peaks
    assert size > 150e6 and peak < 40e6


NAMES = ("custom_id", "key", "metadata", "response", "status_code", "body", "result", "type", "message", "error", "code", "status")
WORDS = ("succeeded", "errored", "expired", "canceled", "batch_expired", "f" * 64)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(line=st.dictionaries(st.sampled_from(["custom_id", "key", "metadata", "response", "result", "error"]), JSON, max_size=5))
def test_whatever_a_line_of_results_holds_it_is_classed(line):
    for protocol, kind in (("chat", "OpenAIBatches"), ("anthropic", "AnthropicBatches"), ("google", "GoogleBatches")):
        service = object.__new__(getattr(batch_services, kind))
        result = service.result(line)
        assert result is None or isinstance(result.key, str)
        if result is None or result.reply is None:
            continue
        plain = {**settings_for(None), "provider": "openai" if protocol == "chat" else protocol, "api_key_env": None}
        provider = providers.make(plain, base.Attachments(None), 1.0)
        try:
            found = provider.outcome(result.status, {}, result.reply, provider.sent, False)
        except base.Halt:
            continue
        assert found is None or found.status in base.STATUSES


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"provider": "codex"}, "have batches"),
        ({"provider": "builtin", "model": "random"}, "have batches"),
        ({"provider": "openai", "serve": {"command": "x"}}, "no server of this machine"),
    ],
)
def test_batches_are_refused_where_there_are_none(model, words):
    with pytest.raises(InputError) as error:
        config.check({"models": [{"name": "m", "batch": True, **model}]})
    assert words in str(error.value) and "\n" not in str(error.value) and "models.0" in str(error.value)


SIMULATED = [{"name": "sim", "kind": "simulated", "trajectories": 5}]


def jobs(**model: Any) -> tuple:
    tree = {"sources": SIMULATED, "models": [{"name": "m", "provider": "openai", "model": "x", **model}], "inference": {"batch_wait_h": 3}}
    return plan.build(config.check(tree)).of("infer")


def test_batch_or_not_is_no_part_of_any_key():
    (plain,), (batched,) = jobs(), jobs(batch=True)
    assert plain.key == batched.key and plain.settings == batched.settings
    assert (batched.transport["batch"], batched.transport["batch_wait_h"]) == (True, 3) and "batch" not in plain.transport
    request = base.Request("t3", "i-1", 0, prompts.render(PROMPT_SET["t3"], t3("i-1")["t3"][0]))
    keys = {base.request_key(job.all_settings, request, base.Attachments(PICTURES)) for job in (plain, batched)}
    assert len(keys) == 1


def test_a_price_is_passed_on_as_before_unless_its_batches_are_not_at_half(tmp_path):
    given = "{input: 1, output: 2, date: 2026-01-01, source: s}"
    (tmp_path / "p.yaml").write_text(f"models:\n  x: {given}\n  y: {given.replace('}', ', batch: 0.6}')}\n")
    tree = {"sources": SIMULATED, "inference": {"prices": str(tmp_path / "p.yaml")}}
    tree["models"] = [{"name": name, "provider": "openai"} for name in ("x", "y")]
    x, y = (job.transport["price"] for job in plan.build(config.check(tree)).of("infer"))
    assert "batch" not in x and y == {**x, "batch": 0.6}


def test_the_estimate_says_what_batches_cost_and_leaves_out_what_is_in_progress(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices.yaml").write_text(
        "models:\n  x: {input: 1000000, output: 0, date: 2026-01-01, source: made up}\n"
        "  y: {input: 1000000, output: 0, batch: 0.25, date: 2026-01-01, source: made up}\n"
    )
    tree = {
        "sources": SIMULATED,
        "probes": {"t1": {"quota": {}}, "t2": {"quota": {}}, "t3": {"quota": {"cross": 10}}},
        "models": [
            {"name": name, "provider": "openai", "model": model, "batch": name != "single"}
            for name, model in (("single", "x"), ("half", "x"), ("quarter", "y"), ("begun", "x"))
        ],
        "inference": {"prices": "prices.yaml"},
    }
    (tmp_path / "c.yaml").write_text(json.dumps(tree))
    begun = next(job for job in plan.build(config.check(tree)).of("infer") if job.settings["name"] == "begun")
    folder = tmp_path / "results" / "infer" / begun.key
    folder.mkdir(parents=True)
    with batch_ledger.Ledger(folder / batch_ledger.NAME) as ledger:
        ledger.intend([f"{n:064}" for n in range(4)], 0.0)
    assert main(["estimate", "--configfile", "c.yaml"]) == 0
    out = capsys.readouterr().out
    lines = {line.split("/")[0]: line.split() for line in out.splitlines() if "/full/" in line}
    usd = {name: float(words[-1]) for name, words in lines.items()}
    assert usd["half"] == usd["single"] / 2 and usd["quarter"] == usd["single"] / 4 and usd["begun"] == usd["half"] * 6 / 10
    assert lines["half"][4:7] == ["≤", "24", "h"] and lines["begun"][1] == "6"
    assert "4 requests are in batches that are in progress" in out and "batches cost 25% of that" in out


def test_only_the_record_of_a_batch_is_at_the_price_of_one():
    record = {"input_tokens": 1000, "cached_tokens": 400, "output_tokens": 10}
    assert PRICE.usd(record) == pytest.approx(900e-6) and PRICE.usd({**record, "batch": "tag"}) == pytest.approx(450e-6)
