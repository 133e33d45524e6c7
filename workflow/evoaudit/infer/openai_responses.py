"""OpenAI's Responses API."""

from collections.abc import Mapping
from typing import Any

from evoaudit.infer.base import OK, Outcome, Request
from evoaudit.infer.openai_chat import OpenAI
from evoaudit.infer.wire import Encoded, number, part, text
from evoaudit.prompts import Text


class Responses(OpenAI):
    """One model behind one endpoint by the Responses API. Nothing is stored at the service."""

    def parameters(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {"temperature": settings.get("temperature"), "max_output_tokens": settings.get("max_output_tokens")}

    def path(self) -> str:
        return "/responses"

    def body(self, request: Request) -> dict[str, Any]:
        asked = [{"role": message.role, "content": self._content(message.parts)} for message in request.messages]
        body = {"model": self._model, "input": asked, "store": False, **self._parameters}
        if request.schema is not None:
            body["text"] = {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": dict(request.schema)}}
        return body

    def _content(self, parts: tuple) -> str | list[dict]:
        if len(parts) == 1 and isinstance(parts[0], Text):
            return parts[0].text
        return [
            {"type": "input_text", "text": one.text}
            if isinstance(one, Text)
            else {"type": "input_image", "image_url": Encoded(one, url=True), "detail": "auto"}
            for one in parts
        ]

    def _hidden_error(self, reply: dict[str, Any]) -> bool:
        return "output" not in reply and super()._hidden_error(reply)

    def read(self, reply: dict[str, Any]) -> Outcome:
        output = reply.get("output")
        if not isinstance(output, list):
            return Outcome("server", error="the reply is no response")
        found = [inner for item in output if part(item, "type") == "message" for inner in part(item, "content") or []]
        words = [text(part(one, "text")) or "" for one in found if part(one, "type") == "output_text"]
        refusals = [text(part(one, "refusal")) or "no reason given" for one in found if part(one, "type") == "refusal"]
        outcome = Outcome(
            "empty",
            raw="".join(words) if words else None,
            finish_reason=text(part(reply, "incomplete_details", "reason")) or text(reply.get("status")),
            served=text(reply.get("model")),
            input_tokens=number(reply, "usage", "input_tokens"),
            cached_tokens=number(reply, "usage", "input_tokens_details", "cached_tokens"),
            output_tokens=number(reply, "usage", "output_tokens"),
            reasoning_tokens=number(reply, "usage", "output_tokens_details", "reasoning_tokens"),
        )
        if reply.get("status") == "failed":
            return self._failed(outcome, text(part(reply, "error", "code")) or "", text(part(reply, "error", "message")))
        if refusals:
            outcome.status, outcome.error = "refused", refusals[0]
        elif outcome.finish_reason == "content_filter":
            outcome.status = "content_filter"
        elif outcome.finish_reason == "max_output_tokens":
            outcome.status = "truncated"
        elif reply.get("status") not in ("completed", None):
            outcome.status, outcome.error = "server", f"the response is {outcome.finish_reason}"
        elif outcome.raw and outcome.raw.strip():
            outcome.status = OK
        return outcome

    def _failed(self, outcome: Outcome, code: str, message: str | None) -> Outcome:
        """Class a response that broke off, by its code."""
        outcome.error = message or code or "the response failed"
        if code == "rate_limit_exceeded":
            outcome.status = "rate_limited"
        elif code in self.FILTERED:
            outcome.status = "content_filter"
        elif code in self.PICTURES:
            outcome.status = "picture_limit"
        elif code in self.TOO_LONG:
            outcome.status = "context_overflow"
        elif code == "invalid_prompt" or "image" in code:
            outcome.status = "http_error"
        else:
            outcome.status = "server"
        return outcome
