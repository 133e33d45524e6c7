"""A small inference server: loads for a while, then answers /health and Chat Completions. Arguments: port, seconds to load, log, model."""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, LOADING, LOG = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
READY = time.monotonic() + LOADING
MODEL = sys.argv[4]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _send(self, status: int, value: object) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def do_GET(self) -> None:
        self._send(200 if self.path == "/health" and time.monotonic() > READY else 503, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open(LOG, "a") as log:
            print(time.monotonic() > READY, body["model"], file=log)
        if time.monotonic() < READY or body["model"] != MODEL:
            self._send(503, {"error": {"message": "loading"}})
            return
        message = {"role": "assistant", "content": '{"order": [1, 2, 3], "action": "click", "value": "", "answer": "A"}'}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        self._send(200, {"id": "r", "object": "chat.completion", "created": 0, "model": MODEL, "choices": [choice], "usage": usage})

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
