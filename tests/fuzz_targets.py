"""What reads what others wrote, each as a function of bytes: it must end in a value or in one printable line of `InputError`.

Hypothesis damages the seeds in `test_fuzz_targets.py`; `fuzz_coverage.py` lets atheris do so, guided by coverage.
"""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evoaudit import codebook, labels, measured, parse, resultcheck
from evoaudit import config as configs
from evoaudit import plan as plans
from evoaudit.audit import asking, reply
from evoaudit.audit.fence import block
from evoaudit.errors import InputError
from evoaudit.infer import batch_ledger, prices, providers
from evoaudit.infer.base import Attachments, Halt
from evoaudit.infer.journal import Journal
from evoaudit.infer.wire import json_object
from evoaudit.probes import reviewed
from evoaudit.resources import ROOT
from evoaudit.review import keyfile, labelstudio

#: Seconds of processor time one input may take.
PATIENCE = 20
BOOK = codebook.load()


def answers(data: bytes, place: Path) -> None:
    text = data.decode("utf-16", "surrogatepass") if data[:2] == b"\xff\xfe" and len(data) % 2 == 0 else data.decode("utf-8", "replace")
    for task in ("t1", "t2", "t3"):
        for rule in ("standard", "strict", "lenient"):
            found, _ = parse.parse_answer(task, text, k=4, rule=rule)
            assert found is None or json.loads(json.dumps(found, allow_nan=False)) == found
    opinion, fault = reply.read(text, BOOK, 9)
    assert (opinion is None) != (fault is None)
    inside = block("evidence", "0123", text).split("\n")
    assert len(inside) == 3 and not set("<>") & set(inside[1]) and inside[1].isprintable()


def replies(data: bytes, place: Path) -> None:
    found = json_object(data)
    for protocol, more in PROTOCOLS:
        provider = providers.make({**ENTRY, "provider": protocol, **more}, Attachments(None), 1.0)
        for status in (200, 400, 429, 500):
            try:
                outcome = provider.outcome(status, {"Retry-After": data[:20].decode("latin-1")}, found or {}, provider.sent, True)
            except Halt:
                continue
            assert outcome is None or (outcome.retry_after is None or outcome.retry_after >= 0)


def config(data: bytes, place: Path) -> None:
    path = written(place, "c.yaml", data)
    found = configs.load(path)
    try:
        plans.keys_in_words(plans.build(found, place / "results", must_exist=False))
    except RecursionError as error:
        raise AssertionError("a plan nests") from error


def price_list(data: bytes, place: Path) -> None:
    prices.load(written(place, "p.yaml", data))


def prompt(data: bytes, place: Path) -> None:
    written(place, "judge.yaml", data)
    asking.load(place, BOOK)


def label_lines(data: bytes, place: Path) -> None:
    for name in ("x.jsonl", "x.csv"):
        rows, findings = labels.check([written(place, name, data)])
        assert all(str(finding).isprintable() for finding in findings)
        again = "".join(labels.dumps(row) + "\n" for row in rows).encode()
        assert not rows or labels.check([written(place, "again.jsonl", again)]) == (rows, [])


def label_table(data: bytes, place: Path) -> None:
    labels.spread(written(place, "t.csv", data), [labels.Rater.parse("ana=human:ana")], "id")


def label_studio(data: bytes, place: Path) -> None:
    rows, _ = labelstudio.read(written(place, "ls.json", data))
    out = written(place, "rows.jsonl", "".join(labels.dumps(row) + "\n" for row in rows).encode("utf-8", "surrogatepass"))
    labels.check([out])


def key_file(data: bytes, place: Path) -> None:
    keyfile.read([written(place, "k.json", data)])


def decisions(data: bytes, place: Path) -> None:
    found = reviewed.read(written(place, "d.jsonl", data))
    for one in found.made.values():
        json.dumps(one.exported(), allow_nan=False)
        _ = one.rank


def table(data: bytes, place: Path) -> None:
    results = resultcheck.check(resultcheck.read(written(place, "t.csv", data)), None, "t.csv")
    assert all(one["recomputed"] is None or one["recomputed"] == one["recomputed"] for one in results)


def measurements(data: bytes, place: Path) -> None:
    measured.read(written(place, "m.csv", data))


def journal(data: bytes, place: Path) -> None:
    path = written(place, "journal.jsonl", data)
    with Journal(path) as found:
        for record in found.paid():
            PRICE.usd(record)
    list(batch_ledger.in_progress(path))


def written(place: Path, name: str, data: bytes) -> Path:
    path = place / name
    path.write_bytes(data)
    return path


ENTRY: dict[str, Any] = {"name": "m", "model": "m", "base_url": "http://127.0.0.1:9/v1", "temperature": 0.0, "max_output_tokens": 9}
PROTOCOLS = (("openai", {}), ("openai", {"api": "responses"}), ("google", {}), ("anthropic", {"api_key_env": "EVOAUDIT_FUZZ_KEY"}))
PRICE = prices.Price(input=1, output=2, date="2026-01-01", source="x")
LABEL = {"trajectory_id": "t-1", "annotator": "ana", "kind": "human", "stage": "blind", "verdict": "gf", "category": "t3-noop"}
LABEL |= {"codebook_version": "1", "evidence_steps": [1, 2], "confidence": 0.5, "seconds": 3.5, "note": "n"}
TASK = {"data": {"item": "item-0123456789abcdef", "annotator": "ana", "stage": "blind", "codebook": "1"}}
TASK |= {"annotations": [{"completed_by": 1, "lead_time": 3.5, "result": [
    {"from_name": "verdict", "value": {"choices": ["gf"]}}, {"from_name": "confidence", "value": {"rating": 2}},
    {"from_name": "evidence_steps", "value": {"text": ["1 2"]}}]}]}  # fmt: skip
USAGE = {"prompt_tokens": 3, "completion_tokens": 1}
CHAT = {"choices": [{"finish_reason": "stop", "message": {"content": "A"}}], "usage": USAGE, "model": "m"}
RESPONSE = {"status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": "A"}]}]}
RESPONSE |= {"usage": {"input_tokens": 3, "output_tokens": 1}}
GEMINI = {"candidates": [{"content": {"parts": [{"text": "A"}]}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 3}}
CLAUDE = {"content": [{"type": "text", "text": "A"}], "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 1}}
FAULT = {"error": {"message": "no", "code": "rate_limit_exceeded", "type": "t", "status": "X", "details": [{"retryDelay": "3s"}]}}
ITEM = {"trajectory_id": "t-1", "n_steps": 3, "practice": False}
RECORD = {"key": "ab" * 32, "task": "t3", "instance_id": "i", "run": 0, "calls": 1, "status": "ok", "raw": "A", "input_tokens": 3}
DECISION = {"instance_id": "t3-1", "decision": "reject", "reason": "page_load", "note": "n", "seconds": 1.5, "reviewer": "ana", "set": "s"}


def _lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def _shipped(*names: str) -> tuple[bytes, ...]:
    return tuple((ROOT / name).read_bytes() for name in names)


KEYS = {"annotator": "a", "stage": "blind", "codebook_version": "1", "items": {"item-" + "0" * 16: ITEM}}
EVENTS = ({"tag": "a", "keys": ["k"], "at": 1.5, "usd": 0}, {"tag": "a", "id": "b", "sure": True})
SHEET = b"trajectory_id,annotator,kind,stage,verdict,codebook_version\nt-1,ana,human,blind,gf,1\n"
PRINTED = b"model,n,accuracy,accuracy_low,accuracy_high\na,150,15.3,10.4,22.0\nb,1000,50.0,46.9,53.1\nTotal,1150,45.5,,\n"
REPLIES = (
    b'Thinking. {"order": [2, 1, 4, 3], "confidence": 0.9}',
    b'```json\n{"action": "type", "value": "a"}\n```',
    b"The answer is B.",
    b'{"rationale": "r", "evidence_steps": [1, "2"], "verdict": "gf", "category": "t3-noop", "confidence": 0.5}',
)

#: Target → what it reads with, and whole examples of what it reads.
TARGETS: dict[str, tuple[Callable[[bytes, Path], None], tuple[bytes, ...]]] = {
    "answers": (answers, REPLIES),
    "replies": (replies, tuple(json.dumps(one).encode() for one in (CHAT, RESPONSE, GEMINI, CLAUDE, FAULT))),
    "config": (config, _shipped("config/config.yaml", "config/examples/simulated_models.yaml", "config/judges.yaml")),
    "price_list": (price_list, _shipped("config/prices.yaml")),
    "prompt": (prompt, _shipped("resources/prompts/judge-v1/judge.yaml")),
    "label_lines": (label_lines, (_lines(LABEL, {**LABEL, "trajectory_id": "t-2"}), SHEET)),
    "label_table": (label_table, (b"id,ana\nt-1,gf\nt-2,'=gf\n", b"id,ana\nt-1,gf\n")),
    "label_studio": (label_studio, (json.dumps([TASK]).encode(),)),
    "key_file": (key_file, (json.dumps(KEYS).encode(),)),
    "decisions": (decisions, (_lines(DECISION, {**DECISION, "instance_id": "t3-2", "decision": "accept", "reason": ""}),)),
    "table": (table, (PRINTED, *_shipped("resources/published/evogui_table2.csv", "resources/published/cua_table3.csv"))),
    "measurements": (measurements, (b"trajectory_id,usd,seconds\nt-1,0.5,30\n", b"trajectory_id\nt-1\n")),
    "journal": (journal, (_lines(RECORD, {"end": True}), _lines(*EVENTS))),
}

#: What damage is made with: what has a meaning somewhere.
TOKENS = (
    *(b"\x00", b"\x1b[2J", b"\xed\xa0\x80", b"\xff", b"\\ud800", b"\xe2\x80\xae", b"\r", b"\n", b"\t", b'"', b"'", b",", b":", b"@"),
    *(b"NaN", b"Infinity", b"-1", b"1e999", b"9" * 5000, b"0x10", b"true", b"null", b"[]", b"{}", b"[" * 3000, b'{"a":' * 3000),
    *(b"- " * 3000, b"&a [*a]", b"*a", b"<<: *a\n", b"!!python/object:os.system x", b"!!int 1_", b"!!binary x", b"? ", b"2026-02-30"),
    *(b"1:2:3", b"=cmd|'/c calc'!A1", b"../../etc/passwd", b"x" * 70_000, *(one.encode() for one in "\u0661\u00b2\u2116")),
)


def run(name: str, data: bytes, place: Path) -> str | None:
    """Run one input; return the one line it was refused with, None if it was read. Anything else is an error of ours."""
    with patience():
        try:
            TARGETS[name][0](data, place)
        except InputError as error:
            line = str(error)
            assert line.isprintable(), line
            return line
    return None


@contextmanager
def patience(seconds: int = PATIENCE) -> Iterator[None]:
    """Refuse to go on for ever, by this process's own time, whatever else the machine does."""

    def over(*_: object) -> None:
        raise AssertionError(f"more than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
