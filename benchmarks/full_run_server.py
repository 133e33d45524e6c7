"""The server of the full run: made-up models and judges that answer by what they are shown, always alike.

    python benchmarks/full_run_server.py --results FOLDER [--port N]

It knows the probes' answers from the run's own tables and recognises a question by its pictures, so a model that is shown none, or black
ones, can only guess, as in the EvoGUI paper's controls. Each model has an accuracy of its own, made from its name; every third answers in
prose around the JSON. Prints its port, then serves until its standard input is closed; `GET /asked` says how often each model was asked.
"""

import argparse
import asyncio
import json
import re
import sys
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

_MODEL = re.compile(rb'"model":\s*"([^"]+)"')
_IN_PATH = re.compile(rb"/models/([^:/?]+):generateContent")
_MARK = re.compile(rb"mark of this log's blocks is ([0-9a-f]{16})")
_SCREENS = re.compile(rb"(\d) (?:screenshots|screens)")
#: Shortest text in a body that is taken for a picture.
_LONG = 200
#: Categories that judges give, by their verdicts.
_OPINIONS = (("efn", "none"), ("broken", "none"), ("gf", "t3-noop"), ("gf", "t3-term"), ("gf", "t1-spec"))
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def roll(*parts: bytes | str) -> float:
    """Return a number from 0 to 1 that belongs to these words."""
    joined = b"\0".join(part.encode() if isinstance(part, str) else part for part in parts)
    return int.from_bytes(blake2b(joined, digest_size=6).digest()) / 2**48


def pictures(body: bytes) -> list[bytes]:
    """Return a mark of every picture in a request's body, in order."""
    found = [text.partition(b"base64,")[2] or text for text in body.split(b'"') if len(text) > _LONG and b" " not in text[:_LONG]]
    return [blake2b(text.translate(_URL_SAFE), digest_size=8).digest() for text in found]


def truths(results: Path) -> dict[bytes, dict[str, Any]]:
    """Return the right answer by the marks of the pictures that are shown, joined."""
    import base64

    import pyarrow.parquet as pq

    marks: dict[str, list[bytes]] = {}
    for path in sorted(results.glob("images/*/prepared.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(batch_size=256, columns=["image_id", "data"]):
            for row in batch.to_pylist():
                mark = blake2b(base64.b64encode(row["data"]), digest_size=8).digest()
                marks.setdefault(row["image_id"], []).append(mark)
    found: dict[bytes, dict[str, Any]] = {}
    for path in sorted(results.glob("mine/*/t[123].parquet")):
        columns = {"t1": ["answer"], "t2": ["answer_action", "answer_value"], "t3": ["answer"]}[path.stem]
        for row in pq.read_table(path, columns=["images", *columns]).to_pylist():
            shown = [marks.get(image, []) for image in row["images"]]
            answer = {
                "t1": lambda row=row: {"order": row["answer"]},
                "t2": lambda row=row: {"action": row["answer_action"], "value": row["answer_value"]},
                "t3": lambda row=row: {"answer": row["answer"]},
            }[path.stem]()
            for one in zip(*shown, strict=False):
                found.setdefault(b"".join(one), answer)
    return found


def guess(body: bytes, question: bytes) -> dict[str, Any]:
    """Return an answer of somebody who has not seen the pictures."""
    chance = roll("guess", question)
    if b'{\\"order\\"' in body:
        n = int(found[1]) if (found := _SCREENS.search(body)) else 3
        order = list(range(1, n + 1))
        return {"order": sorted(order, key=lambda place: roll(str(place), question))}
    if b'{\\"action\\"' in body:
        return {"action": "click" if chance < 0.5 else "type" if chance < 0.9 else "select", "value": "" if chance < 0.5 else "guess"}
    return {"answer": "A" if chance < 0.5 else "B"}


class Minds:
    """What all models and judges know and say."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.known: dict[bytes, dict[str, Any]] | None = None
        self.asked: Counter[str] = Counter()

    def answer(self, model: str, body: bytes) -> str:
        """Return one model's text for one request."""
        self.asked[model] += 1
        if mark := _MARK.search(body):
            return self.opinion(model, mark[1], b"no pictures" not in body)
        if self.known is None:
            self.known = truths(self.results)
        seen = b"".join(pictures(body))
        right = self.known.get(seen)
        question = seen if right is not None else blake2b(body, digest_size=8).digest()
        knows = right is not None and roll("knows", model, question) < 0.1 + 0.8 * roll("skill", model)
        said = right if knows else guess(body, question + model.encode())
        if roll("unusable", model, question) < 0.005:
            return "I cannot tell from these screens."
        text = json.dumps({**said, "confidence": round(0.5 + roll("sure", model, question) / 2, 2)})
        return f"Let me compare the screens first.\n\n```json\n{text}\n```\n" if roll("prose", model) < 1 / 3 else text

    def opinion(self, judge: str, mark: bytes, looks: bool) -> str:
        """Return one judge's verdict; two judges, and one with and without pictures, mostly agree."""
        place = roll("log", mark)
        if roll(judge, mark, str(looks)) < 0.12:
            place = roll("other", judge, mark)
        verdict, category = _OPINIONS[0 if place < 0.11 else 1 if place < 0.17 else 2 + int(place * 997) % 3]
        return json.dumps({"rationale": "made up", "evidence_steps": [0], "verdict": verdict, "category": category, "confidence": 0.8})


def chat(text: str, model: str) -> dict[str, Any]:
    """Return a Chat Completion."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020, "prompt_tokens_details": {"cached_tokens": 0}}
    return {"id": "r", "object": "chat.completion", "created": 0, "model": model, "choices": [choice], "usage": usage}


def message(text: str, model: str) -> dict[str, Any]:
    """Return a reply of the Messages API."""
    usage = {"input_tokens": 1000, "cache_read_input_tokens": 0, "output_tokens": 20}
    head = {"id": "r", "type": "message", "role": "assistant", "model": model, "stop_reason": "end_turn", "stop_sequence": None}
    return {**head, "content": [{"type": "text", "text": text}], "usage": usage}


def generated(text: str, model: str) -> dict[str, Any]:
    """Return a reply of the Gemini API."""
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1000, "candidatesTokenCount": 20, "totalTokenCount": 1020}
    return {"candidates": [candidate], "modelVersion": model, "usageMetadata": usage}


class Server(asyncio.Protocol):
    """One connection."""

    minds: ClassVar[Minds]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.held = bytearray()
        self.wanted = 0

    def data_received(self, data: bytes) -> None:
        self.held += data
        while self.held:
            if not self.wanted:
                end = self.held.find(b"\r\n\r\n")
                if end < 0:
                    return
                head = bytes(self.held[:end])
                length = re.search(rb"(?i)content-length:\s*(\d+)", head)
                self.path, self.start = head.split(b" ", 2)[1], end + 4
                self.wanted = self.start + (int(length[1]) if length else 0)
            if len(self.held) < self.wanted:
                return
            body = bytes(self.held[self.start : self.wanted])
            del self.held[: self.wanted]
            self.wanted = 0
            self.transport.write(self.reply(self.path, body))

    def reply(self, path: bytes, body: bytes) -> bytes:
        """Return one whole answer."""
        if path == b"/asked":
            content: dict[str, Any] = dict(sorted(self.minds.asked.items()))
        else:
            named = _IN_PATH.search(path) or _MODEL.search(body)
            model = named[1].decode()
            text = self.minds.answer(model, body)
            shape = chat if path.endswith(b"/completions") else message if path.endswith(b"/messages") else generated
            content = shape(text, model)
        sent = json.dumps(content).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(sent), sent)


async def serve(results: Path, port: int) -> None:
    """Serve until standard input ends."""
    Server.minds = Minds(results)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True, help="the run's results folder")
    parser.add_argument("--port", type=int, default=0, help="port (default: any free one)")
    given = parser.parse_args()
    asyncio.run(serve(given.results, given.port))
