"""Anthropic's Messages API."""

import re
from collections.abc import Mapping
from typing import Any

from evoaudit.infer.base import OK, Outcome, Request
from evoaudit.infer.wire import Encoded, Fault, HTTPProvider, number, part, text, total
from evoaudit.prompts import Message, Text

#: Version of the protocol, as the SDK of the lock file sends it.
VERSION = "2026-10-21"


class Messages(HTTPProvider):
    """One model of the Messages API."""

    ADDRESS = "https://api.anthropic.com"
    BAD_KEY = frozenset({"authentication_error", "permission_error"})
    NO_CREDIT = frozenset(
        {
            "billing_error",
            "contract_spend_limit_reached",
            "enforced_spend_limit_reached",
            "linked_organization_spend_limit_reached",
        }
    )
    TOO_LONG = frozenset({"request_too_large"})
    TOO_LONG_WORDS = re.compile(r"prompt is too long|exceed context limit", re.IGNORECASE)
    # The fault's place in the request stands in its message: messages.0.content.1.image.source…
    PICTURE_WORDS = re.compile(r"image exceeds|image dimensions|too many images|too much media|many-image requests", re.IGNORECASE)

    def parameters(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {"max_tokens": settings.get("max_output_tokens") or 4096, "temperature": settings.get("temperature")}

    def path(self) -> str:
        return "/v1/messages"

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}", "anthropic-version": VERSION}

    def body(self, request: Request) -> dict[str, Any]:
        system = [message for message in request.messages if message.role == "system"]
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "user", "content": self._parts(message)} for message in request.messages if message.role != "system"],
            **self._parameters,
        }
        if system:
            body["system"] = [one for message in system for one in self._parts(message)]
        if request.schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": dict(request.schema)}}
        return body

    def _parts(self, message: Message) -> list[dict]:
        return [
            {"type": "text", "text": one.text}
            if isinstance(one, Text)
            else {"type": "image", "source": {"type": "base64", "media_type": self.media_type(one), "data": Encoded(one)}}
            for one in message.parts
        ]

    def _hidden_error(self, reply: dict[str, Any]) -> bool:
        return reply.get("type") == "error" or super()._hidden_error(reply)

    def error(self, reply: dict[str, Any]) -> tuple[set[str], str | None, str | None]:
        kind, message = text(part(reply, "error", "type")), text(part(reply, "error", "message"))
        codes = {code for code in (kind, text(part(reply, "error", "details", "error_code"))) if code}
        if kind == "invalid_request_error" and message and "credit balance is too low" in message:
            codes.add("billing_error")
        return codes, message, None

    def adapt(self, fault: Fault, sent: Mapping[str, Any]) -> bool:
        """Leave the temperature out for models that do not take one; the service names it in its message alone."""
        if fault.status != 400 or "temperature" not in sent or not re.search(r"\btemperature\b", fault.message):
            return False
        self._parameters.pop("temperature", None)
        return True

    def read(self, reply: dict[str, Any]) -> Outcome:
        content = reply.get("content")
        if not isinstance(content, list):
            return Outcome("server", error="the reply is no message")
        words = [text(part(one, "text")) for one in content if part(one, "type") == "text"]
        cached = number(reply, "usage", "cache_read_input_tokens")
        outcome = Outcome(
            "empty",
            raw="".join(one for one in words if one is not None) if words else None,
            finish_reason=text(reply.get("stop_reason")),
            served=text(reply.get("model")),
            # Anthropic counts what its cache gave and took apart from the input.
            input_tokens=total(number(reply, "usage", "input_tokens"), cached, number(reply, "usage", "cache_creation_input_tokens")),
            cached_tokens=cached,
            output_tokens=number(reply, "usage", "output_tokens"),
            reasoning_tokens=number(reply, "usage", "output_tokens_details", "thinking_tokens"),
        )
        if outcome.finish_reason == "refusal":
            outcome.status, outcome.error = "refused", text(part(reply, "stop_details", "explanation"))
        elif outcome.finish_reason == "max_tokens":
            outcome.status = "truncated"
        elif outcome.finish_reason == "model_context_window_exceeded":
            outcome.status = "context_overflow"
        elif outcome.finish_reason == "pause_turn":
            outcome.status, outcome.error = "server", "the service paused the turn"
        elif outcome.raw and outcome.raw.strip():
            outcome.status = OK
        return outcome
