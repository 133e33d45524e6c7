"""OpenAI's Codex command line, one process a request, as the audit's first judge was run.

Each process has a home, a configuration and a working folder of its own, all empty: nothing of the user's set-up, instructions
or files reaches the model, and it gets no shell. It takes no temperature and no bound on the answer. Its messages are told
apart by their wording, which is why one version exactly is asked for.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evoaudit.errors import InputError, one_line
from evoaudit.infer.base import OK, Attachments, Halt, Outcome, Request
from evoaudit.infer.openai_chat import OPENAI, OpenAI
from evoaudit.infer.wire import host_of, key_of, number, part, text
from evoaudit.prompts import Text

VERSION = "0.144.5"
INSTALL = f"npm install --global @openai/codex@{VERSION}"

#: Most bytes that are read of what a process prints.
_LONGEST = 32 << 20
#: Abilities of the agent that a question about pictures does not need.
_DISABLED = (
    *("apps", "browser_use", "computer_use", "goals", "hooks", "image_generation", "in_app_browser", "memories", "multi_agent"),
    *("plugins", "shell_snapshot", "shell_tool", "skill_mcp_dependency_install", "tool_suggest", "unified_exec"),
)
#: Environment of the process: what finds programs, and ways through a proxy.
_PASSED = frozenset({"PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR"} | {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
_SUFFIX = {"image/jpeg": "jpg", "image/webp": "webp", "image/png": "png"}


class Codex:
    """One model asked through the Codex command line."""

    def __init__(self, settings: Mapping[str, Any], attachments: Attachments, timeout_s: float) -> None:
        self._name, self._model, self._attachments = settings["name"], settings["model"], attachments
        self._key_name = settings.get("api_key_env")
        self._address = (settings.get("base_url") or OPENAI).rstrip("/")
        self._host = host_of(self._name, self._address)
        if self._key_name is None and settings.get("base_url") is None:
            raise InputError(f"model '{self._name}'", "Codex needs a key", "name its environment variable in api_key_env")
        self._key = key_of(self._name, self._key_name)
        if (fault := problem()) is not None:
            raise InputError(f"model '{self._name}'", *fault)
        self._binary = str(shutil.which("codex"))

    async def ask(self, request: Request) -> Outcome:
        """Make one attempt."""
        try:
            with TemporaryDirectory(prefix="codex-") as scratch:
                status, printed, complaints = await self._run(request, Path(scratch))
        except OSError as error:
            return Outcome("server", error=f"codex did not run: {error}")
        return self._clean(self._outcome(status, printed, complaints))

    async def close(self) -> None:
        return None

    async def _run(self, request: Request, scratch: Path) -> tuple[int, bytes, bytes]:
        for name in ("home", "work"):
            (scratch / name).mkdir()
        arguments = ["exec", "--json", "--ephemeral", "--ignore-user-config", "--ignore-rules", "--skip-git-repo-check"]
        arguments += ["--sandbox=read-only", "--color=never", f"--cd={scratch / 'work'}", f"--model={self._model}"]
        arguments += [f"--disable={name}" for name in _DISABLED]
        for setting in ('web_search="disabled"', "project_doc_max_bytes=0", "skills.bundled.enabled=false", *self._service()):
            arguments += ["-c", setting]
        if request.schema is not None:
            (scratch / "schema.json").write_text(json.dumps(request.schema), encoding="utf-8")
            arguments.append(f"--output-schema={scratch / 'schema.json'}")
        words: list[str] = []
        for one in (one for message in request.messages for one in message.parts):
            if isinstance(one, Text):
                words.append(one.text)
                continue
            data, n = self._attachments.data(one), sum(argument.startswith("--image=") for argument in arguments) + 1
            kind, _ = self._attachments.base64(one)
            file = scratch / f"{n}.{_SUFFIX[kind.decode('ascii')]}"
            file.write_bytes(data)
            arguments.append(f"--image={file}")
            # Codex puts all pictures first, under these names.
            words.append(f"[Image #{n}]")
        environment = {name: value for name, value in os.environ.items() if name.upper() in _PASSED}
        environment |= {"HOME": str(scratch / "home"), "CODEX_HOME": str(scratch / "home")}
        if self._key_name and self._key:
            environment[self._key_name] = self._key
        process = await asyncio.create_subprocess_exec(
            self._binary,
            *arguments,
            "-",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=scratch / "work",
            start_new_session=True,
        )
        try:
            prompt = "\n\n".join(words).encode("utf-8", "replace")
            _, printed, complaints = await asyncio.gather(_write(process.stdin, prompt), _read(process.stdout), _read(process.stderr))
            return await process.wait(), printed, complaints
        finally:
            # Also when the deadline cancels this: nothing the process started outlives it.
            end_session(process.pid)
            await asyncio.shield(process.wait())

    def _service(self) -> list[str]:
        """Return the settings that name the service; one retry layer, the engine's."""
        key = f"env_key={json.dumps(self._key_name)}," if self._key_name else ""
        retries = "request_max_retries=0,stream_max_retries=0,supports_websockets=false"
        service = f'{{name="evoaudit",base_url={json.dumps(self._address)},{key}wire_api="responses",{retries}}}'
        return ['model_provider="evoaudit"', f"model_providers.evoaudit={service}"]

    def _outcome(self, status: int, printed: bytes, complaints: bytes) -> Outcome:
        """Class what a process printed, one JSON event a line."""
        said: str | None = None
        fault: str | None = None
        usage: Any = None
        garbled = 0
        for line in printed.splitlines():
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
            kind = text(part(event, "type"))
            if kind is None:
                garbled += bool(line.strip())
            elif kind == "item.completed" and part(event, "item", "type") == "agent_message":
                said = text(part(event, "item", "text"))
            elif kind == "turn.completed":
                usage = part(event, "usage") or {}
            elif kind == "turn.failed":
                fault = text(part(event, "error", "message")) or "no reason given"
            elif kind == "error":
                fault = fault or text(part(event, "message"))
        if usage is None and fault is not None:
            return self._failed(fault)
        if usage is None or status != 0:
            why = f"codex ended with {status}" if status else "codex ended without finishing its turn"
            noise = f", {garbled} lines that are no events" if garbled else ""
            tail = one_line(complaints.decode("utf-8", "replace").strip()[-160:])
            return Outcome("server", error=f"{why}{noise}" + (f": {tail}" if tail else ""))
        return Outcome(
            OK if said and said.strip() else "empty",
            raw=said,
            finish_reason="turn.completed",
            input_tokens=number(usage, "input_tokens"),
            cached_tokens=number(usage, "cached_input_tokens"),
            output_tokens=number(usage, "output_tokens"),
            reasoning_tokens=number(usage, "reasoning_output_tokens"),
        )

    def _failed(self, message: str) -> Outcome:
        """Class a failed turn: by the HTTP status or the service's own code where its message carries one."""
        error = f"codex: {one_line(message, 200)}"
        given = re.search(r"\bstatus:? (\d{3})\b", message)
        status = int(given[1]) if given else None
        key = f"the key in {self._key_name}" if self._key_name else "the request, which carried no key"
        if status in (401, 403):
            raise Halt(f"{self._host} refused {key} for model {self._model} (HTTP {status})", "set it to a key that may use it")
        if status == 402 or re.search(r"usage limit|quota exceeded", message, re.IGNORECASE):
            raise Halt(
                f"{self._host} says there is no credit left for {key}, model {self._model}", "add credit, or wait for the next period"
            )
        if status == 404:
            raise Halt(f"{self._host} knows no model {self._model} (HTTP 404)", "check the entry's model and base_url")
        if status == 429:
            return Outcome("rate_limited", error=error)
        if status is not None:
            found = "timeout" if status == 408 else "server" if status == 409 or status >= 500 else "http_error"
            return Outcome(found, error=error)
        codes = _codes(message)
        if codes & OpenAI.FILTERED or message.endswith("reason: content_filter"):
            return Outcome("content_filter", error=error)
        if codes & OpenAI.PICTURES:
            return Outcome("picture_limit", error=error)
        if codes & OpenAI.TOO_LONG or "context window" in message:
            return Outcome("context_overflow", error=error)
        if message.endswith("reason: max_output_tokens"):
            return Outcome("truncated", error=error)
        passing = message.startswith("stream disconnected") or "high demand" in message or "timeout" in message
        return Outcome("server" if passing else "http_error", error=error)

    def _clean(self, outcome: Outcome) -> Outcome:
        """Blot the key out of everything that came back."""
        if self._key and len(self._key) >= 8:
            for name in ("raw", "error"):
                if (value := getattr(outcome, name)) is not None:
                    setattr(outcome, name, value.replace(self._key, "[key]"))
        return outcome


def problem() -> tuple[str, str] | None:
    """Say what is wrong with the Codex that is installed, and the mend; None if it is the right one."""
    binary = shutil.which("codex")
    if binary is None:
        return "the Codex command line is not installed", INSTALL
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, timeout=30, stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the Codex command line does not run ({one_line(str(error), 120)})", INSTALL
    words = done.stdout.decode("utf-8", "replace").split()
    if not words or words[-1] != VERSION:
        return f"Codex is version {one_line(words[-1], 40) if words else 'unknown'}, not {VERSION}", INSTALL
    return None


def end_session(leader: int) -> None:
    """Kill every process of a session: those a process started, whatever group they moved to."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == leader:
                os.kill(int(folder.name), signal.SIGKILL)
        except (OSError, ValueError, IndexError):
            continue


def _codes(message: str) -> set[str]:
    """Return the codes of an error body that a message consists of."""
    try:
        body = json.loads(message)
    except (ValueError, RecursionError):
        return set()
    return {code for code in (text(part(body, "error", name)) for name in ("code", "type")) if code}


async def _write(pipe: asyncio.StreamWriter | None, data: bytes) -> None:
    # A process that does not read to the end says itself what is wrong.
    with suppress(OSError):
        pipe.write(data)
        await pipe.drain()
        pipe.close()
        await pipe.wait_closed()


async def _read(pipe: asyncio.StreamReader | None) -> bytes:
    """Read all a process prints; what is beyond the bound is read and forgotten."""
    found = bytearray()
    while chunk := await pipe.read(1 << 16):
        if len(found) < _LONGEST:
            found += chunk
    return bytes(found)
