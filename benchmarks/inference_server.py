"""The server of the inference benchmark: answers every request of the three protocols alike, after a delay, without looking at it.

    python benchmarks/inference_server.py [--delay MS]

Prints its port, then serves until its standard input is closed.
"""

import argparse
import asyncio
import json
import sys
from typing import ClassVar

TEXT = '{"answer": "A", "confidence": 0.9}'
USAGE = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010, "prompt_tokens_details": {"cached_tokens": 400}}
REPLIES = {
    b"completions": {
        "id": "r",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": TEXT}}],
        "usage": USAGE,
    },
    b"messages": {
        "id": "r",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 600, "cache_read_input_tokens": 400, "output_tokens": 10},
    },
    b":generateContent": {
        "candidates": [{"content": {"parts": [{"text": TEXT}], "role": "model"}, "finishReason": "STOP", "index": 0}],
        "modelVersion": "m",
        "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 10, "totalTokenCount": 1010},
    },
}


def _whole(reply: dict) -> bytes:
    body = json.dumps(reply).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


class Server(asyncio.Protocol):
    """One connection. Bodies are counted, not kept."""

    replies: ClassVar[dict[bytes, bytes]] = {end: _whole(reply) for end, reply in REPLIES.items()}
    delay: ClassVar[float] = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.head = bytearray()
        self.left = 0
        self.reply = b""

    def data_received(self, data: bytes) -> None:
        if self.left:
            self.left -= len(data)
        else:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self.head[:end]).lower()
            path = bytes(self.head[: self.head.find(b"\r\n")]).split(b" ")[1]
            self.reply = next(reply for ending, reply in self.replies.items() if path.endswith(ending))
            start = head.find(b"content-length:") + 15
            self.left = int(head[start : head.find(b"\r\n", start) if head.find(b"\r\n", start) > 0 else None]) - len(self.head) + end + 4
            self.head.clear()
        if self.left <= 0:
            self.left = 0
            if self.delay:
                asyncio.get_running_loop().call_later(self.delay, self.transport.write, self.reply)
            else:
                self.transport.write(self.reply)


async def serve(delay: float) -> None:
    """Serve until standard input ends."""
    Server.delay = delay / 1000
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--delay", type=float, default=0.0, help="milliseconds before an answer")
    asyncio.run(serve(parser.parse_args().delay))
