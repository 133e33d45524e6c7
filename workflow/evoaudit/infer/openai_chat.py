"""OpenAI's Chat Completions: OpenAI itself and every endpoint that speaks its protocol."""

from collections.abc import Mapping
from typing import Any

from evoaudit.infer.base import OK, Outcome, Request
from evoaudit.infer.wire import Encoded, Fault, HTTPProvider, number, part, text
from evoaudit.prompts import Text

OPENAI = "https://api.openai.com/v1"
OPENAI_HOST = "api.openai.com"


class OpenAI(HTTPProvider):
    """What both of OpenAI's protocols share."""

    ADDRESS = OPENAI
    FILTERED = frozenset(
        {
            "content_filter",
            "content_policy_violation",
            "moderation_blocked",
            "image_content_policy_violation",
            "bio_policy",
            "misalignment_policy_violation",
        }
    )
    BAD_KEY = frozenset({"invalid_api_key", "account_deactivated"})
    NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "exceeded_current_quota_error"})
    TOO_LONG = frozenset({"context_length_exceeded", "string_above_max_length"})
    PICTURES = frozenset({"image_too_large", "image_too_small", "image_file_too_large", "too_many_images", "max_images_exceeded"})

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def error(self, reply: dict[str, Any]) -> tuple[set[str], str | None, str | None]:
        error = reply.get("error")
        if not isinstance(error, dict):
            # vLLM and others put the error's fields at the top.
            error = {"message": error} if isinstance(error, str) else reply
        codes = {str(error[name]) for name in ("code", "type") if error.get(name) is not None}
        return codes, text(error.get("message")), text(error.get("param"))

    def adapt(self, fault: Fault, sent: Mapping[str, Any]) -> bool:
        """Leave out a parameter the model does not take, as reasoning models refuse a temperature, or give it its other name."""
        name = fault.parameter
        if fault.status != 400 or name not in sent or not any(code.startswith("unsupported") for code in fault.codes):
            return False
        value = self._parameters.pop(name, None)
        if name == "max_tokens" and value is not None:
            self._parameters["max_completion_tokens"] = value
        return True


class Chat(OpenAI):
    """One model behind one endpoint by Chat Completions."""

    def parameters(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        # OpenAI's own models refuse the older name; most other servers know only that.
        limit = "max_completion_tokens" if self._host == OPENAI_HOST else "max_tokens"
        return {"temperature": settings.get("temperature"), limit: settings.get("max_output_tokens")}

    def path(self) -> str:
        return "/chat/completions"

    def body(self, request: Request) -> dict[str, Any]:
        messages = [{"role": message.role, "content": self._content(message.parts)} for message in request.messages]
        body = {"model": self._model, "messages": messages, **self._parameters}
        if request.schema is not None:
            answer = {"name": "answer", "strict": True, "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": answer}
        return body

    def _content(self, parts: tuple) -> str | list[dict]:
        if len(parts) == 1 and isinstance(parts[0], Text):
            return parts[0].text
        return [
            {"type": "text", "text": one.text}
            if isinstance(one, Text)
            else {"type": "image_url", "image_url": {"url": Encoded(one, url=True)}}
            for one in parts
        ]

    def read(self, reply: dict[str, Any]) -> Outcome:
        choices = reply.get("choices")
        if not isinstance(choices, list):
            return Outcome("server", error="the reply is no chat completion")
        outcome = Outcome(
            "empty",
            served=text(reply.get("model")),
            input_tokens=number(reply, "usage", "prompt_tokens"),
            cached_tokens=number(reply, "usage", "prompt_tokens_details", "cached_tokens"),
            output_tokens=number(reply, "usage", "completion_tokens"),
            reasoning_tokens=number(reply, "usage", "completion_tokens_details", "reasoning_tokens"),
        )
        if not choices:
            outcome.error = "the reply has no choices"
            return outcome
        outcome.raw = _words(part(choices, 0, "message", "content"))
        outcome.finish_reason = text(part(choices, 0, "finish_reason"))
        if refusal := text(part(choices, 0, "message", "refusal")):
            outcome.status, outcome.error = "refused", refusal
        elif outcome.finish_reason == "content_filter":
            outcome.status = "content_filter"
        elif outcome.finish_reason == "length":
            outcome.status = "truncated"
        elif outcome.finish_reason in ("model_length", "model_context_window_exceeded"):
            outcome.status = "context_overflow"
        elif outcome.finish_reason == "error" or part(choices, 0, "error"):
            outcome.status, outcome.error = "server", text(part(choices, 0, "error", "message")) or "the service broke the answer off"
        elif outcome.raw and outcome.raw.strip():
            outcome.status = OK
        return outcome


def _words(content: Any) -> str | None:
    """Return a message's text, which some servers send in parts."""
    if isinstance(content, list):
        parts = [text(part(one, "text")) for one in content]
        return "".join(one for one in parts if one) or None
    return text(content)
