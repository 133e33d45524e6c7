"""Chat Completions by the OpenAI SDK: OpenAI itself and every endpoint that speaks its protocol."""

import os
import time
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import openai

from evoaudit.errors import InputError, one_line
from evoaudit.infer.base import OK, Attachments, Halt, Outcome, Request
from evoaudit.prompts import Text

OPENAI = "https://api.openai.com/v1"

#: Error codes that mean the account has no credit left; a 429 with one of them is no rate limit.
_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "exceeded_current_quota_error"})
_FILTERED = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
_TOO_LONG = frozenset({"context_length_exceeded", "string_above_max_length"})
#: Many servers give a request that is too long no code of its own.
_TOO_LONG_WORDS = ("context length", "context window", "maximum context", "too many tokens")
#: Shortest key that is blotted out of texts; shorter ones are placeholders such as "EMPTY" or "x".
_SHORTEST_KEY = 8


class OpenAIChat:
    """One model behind one endpoint. The key is read from the environment and never written anywhere."""

    def __init__(self, settings: dict[str, Any], attachments: Attachments, timeout_s: float) -> None:
        self._model, self._attachments = settings["model"], attachments
        self._key_name = settings.get("api_key_env")
        base_url = settings.get("base_url") or OPENAI
        self._host = _host(settings["name"], base_url)
        self._key = _key(settings["name"], self._key_name)
        # OpenAI's own models refuse the older name; most other servers know only that.
        limit = "max_completion_tokens" if self._host == urlsplit(OPENAI).hostname else "max_tokens"
        self._parameters = {"temperature": settings.get("temperature"), limit: settings.get("max_output_tokens")}
        self._parameters = {name: value for name, value in self._parameters.items() if value is not None}
        self._client = openai.AsyncOpenAI(base_url=base_url, api_key=self._key or "none", max_retries=0, timeout=timeout_s)

    async def close(self) -> None:
        await self._client.close()

    async def ask(self, request: Request) -> Outcome:
        """Make one attempt."""
        messages = [{"role": message.role, "content": self._content(message.parts)} for message in request.messages]
        while True:
            parameters = dict(self._parameters)
            try:
                reply = await self._client.chat.completions.create(model=self._model, messages=messages, **parameters)
                return self._clean(_outcome(reply))
            except openai.APITimeoutError:
                return Outcome("timeout", error="the endpoint did not answer in time")
            except openai.APIStatusError as error:
                if not self._adapt(error, parameters):
                    return self._clean(self._fault(error))
            # Transport and decoding faults leak from below the SDK in many types, and all mean the same.
            except Exception as error:
                cause = f": {error.__cause__}" if error.__cause__ else ""
                return self._clean(Outcome("server", error=f"{type(error).__name__}: {error}{cause}"))

    def _content(self, parts: tuple) -> str | list[dict]:
        if len(parts) == 1 and isinstance(parts[0], Text):
            return parts[0].text
        return [
            {"type": "text", "text": part.text}
            if isinstance(part, Text)
            else {"type": "image_url", "image_url": {"url": self._attachments.url(part)}}
            for part in parts
        ]

    def _adapt(self, error: openai.APIStatusError, sent: dict[str, Any]) -> bool:
        """Leave out or rename a parameter this model does not take, as reasoning models refuse a temperature; False for another fault."""
        name = error.param
        if error.status_code != 400 or name not in sent or not str(error.code or "").startswith("unsupported"):
            return False
        value = self._parameters.pop(name, None)
        if name == "max_tokens" and value is not None:
            self._parameters["max_completion_tokens"] = value
        return True

    def _fault(self, error: openai.APIStatusError) -> Outcome:
        """Class a refused request by its status and code; prose only tells a request that is too long."""
        status, codes = error.status_code, {str(error.code), str(error.type)}
        key = f"the key in {self._key_name}" if self._key_name else "the request, which carried no key"
        text = f"HTTP {status}: {_message(error)}"
        if codes & _FILTERED:
            return Outcome("content_filter", error=text)
        if status in (401, 403):
            raise Halt(
                f"{self._host} refused {key} for model {self._model} (HTTP {status})",
                f"set {self._key_name or 'api_key_env'} to a key that may use it",
            )
        if status == 402 or codes & _NO_CREDIT:
            raise Halt(f"{self._host} says there is no credit left for {key}, model {self._model} (HTTP {status})", "add credit")
        if status == 404:
            raise Halt(f"{self._host} knows no model {self._model} (HTTP 404)", "check the entry's model and base_url")
        if status == 429:
            return Outcome("rate_limited", error=text, retry_after=_retry_after(error.response.headers))
        if status == 408:
            return Outcome("timeout", error=text)
        if status == 409 or status >= 500:
            return Outcome("server", error=text, retry_after=_retry_after(error.response.headers))
        if codes & _TOO_LONG or any(words in text.lower() for words in _TOO_LONG_WORDS):
            return Outcome("context_overflow", error=text)
        return Outcome("http_error", error=text)

    def _clean(self, outcome: Outcome) -> Outcome:
        """Blot the key out of everything a service sent back."""
        if self._key and len(self._key) >= _SHORTEST_KEY:
            for name in ("raw", "finish_reason", "error", "served"):
                if (value := getattr(outcome, name)) is not None:
                    setattr(outcome, name, value.replace(self._key, "[key]"))
        return outcome


def _outcome(reply: Any) -> Outcome:
    """Class a reply with status 200. The SDK does not check what it decodes, so every field may be absent."""
    choices = getattr(reply, "choices", None)
    if not isinstance(choices, list):
        return Outcome("server", error="the reply is no chat completion")
    usage = getattr(reply, "usage", None)
    details = getattr(usage, "prompt_tokens_details", None)
    outcome = Outcome(
        "empty",
        served=_text(getattr(reply, "model", None)),
        input_tokens=_number(usage, "prompt_tokens"),
        cached_tokens=_number(details, "cached_tokens"),
        output_tokens=_number(usage, "completion_tokens"),
    )
    if not choices:
        outcome.error = "the reply has no choices"
        return outcome
    message = getattr(choices[0], "message", None)
    outcome.raw = _text(getattr(message, "content", None))
    outcome.finish_reason = _text(getattr(choices[0], "finish_reason", None))
    if refusal := _text(getattr(message, "refusal", None)):
        outcome.status, outcome.error = "refused", refusal
    elif outcome.finish_reason == "content_filter":
        outcome.status = "content_filter"
    elif outcome.finish_reason == "length":
        outcome.status = "truncated"
    elif outcome.raw and outcome.raw.strip():
        outcome.status = OK
    return outcome


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(holder: Any, name: str) -> int | None:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _message(error: openai.APIStatusError) -> str:
    body = error.body if isinstance(error.body, dict) else {}
    return one_line(str(body.get("message") or error.message), 200)


def _retry_after(headers: Any) -> float | None:
    """Read Retry-After in seconds or as a date; None if there is none that makes sense."""
    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            wait = float(milliseconds) / 1000
        elif (given := headers.get("retry-after")) is None:
            return None
        elif given.strip().replace(".", "", 1).isdigit():
            wait = float(given)
        else:
            wait = parsedate_to_datetime(given).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, wait) if wait < float("inf") else None


def _host(name: str, base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        host = parts.hostname
    except ValueError:
        host, parts = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise InputError(f"model '{name}': base_url", "is not an http or https address", "for instance http://127.0.0.1:30000/v1")
    if parts.username or parts.password or parts.query:
        raise InputError(
            f"model '{name}': base_url",
            "holds credentials or a query",
            "put the key into an environment variable and name it in api_key_env",
        )
    return host


def _key(name: str, variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise InputError(f"model '{name}'", f"the environment variable {variable} is not set", f"export {variable}=… and run again")
    if not key.isascii() or not key.isprintable():
        raise InputError(f"model '{name}'", f"the environment variable {variable} holds characters no key has", "copy the key again")
    return key
