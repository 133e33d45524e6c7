"""Google's Gemini API."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from evoaudit.infer.base import OK, Outcome, Request
from evoaudit.infer.wire import Encoded, HTTPProvider, number, part, text, total
from evoaudit.prompts import Message, Text

#: Ends of an answer that a filter brought about.
_FILTERS = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "LANGUAGE",
        "ESCALATION",
        "MODEL_ARMOR",
    }
)


class Gemini(HTTPProvider):
    """One model of the Gemini API. Thinking counts against ``max_output_tokens`` and is paid for as output."""

    ADDRESS = "https://generativelanguage.googleapis.com"
    BAD_KEY = frozenset({"API_KEY_INVALID", "API_KEY_EXPIRED", "API_KEY_SERVICE_BLOCKED", "UNAUTHENTICATED", "PERMISSION_DENIED"})
    #: A quota of the day does not come back while a run lasts.
    NO_CREDIT = frozenset({"BILLING_DISABLED", "CONSUMER_SUSPENDED", "FAILED_PRECONDITION", "quota of the day"})
    TOO_LONG_WORDS = re.compile(r"input token count|exceeds the maximum number of tokens", re.IGNORECASE)
    PICTURE_WORDS = re.compile(r"payload size exceeds|too many images|number of images|image (?:size|dimensions)", re.IGNORECASE)

    def parameters(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {"temperature": settings.get("temperature"), "maxOutputTokens": settings.get("max_output_tokens")}

    def path(self) -> str:
        return f"/v1/models/{quote(self._model.removeprefix('models/'), safe='')}:generateContent"

    def headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

    def body(self, request: Request) -> dict[str, Any]:
        system = [message for message in request.messages if message.role == "system"]
        settings = dict(self._parameters)
        if request.schema is not None:
            settings |= {"responseMimeType": "application/json", "responseJsonSchema": dict(request.schema)}
        body: dict[str, Any] = {
            "contents": [{"parts": self._parts(message), "role": "user"} for message in request.messages if message.role != "system"]
        }
        if system:
            body["systemInstruction"] = {"parts": [one for message in system for one in self._parts(message)], "role": "user"}
        return body | {"generationConfig": settings} if settings else body

    def _parts(self, message: Message) -> list[dict]:
        return [
            {"text": one.text}
            if isinstance(one, Text)
            else {"inlineData": {"data": Encoded(one, url_safe=True), "mime_type": self.media_type(one, url_safe=True)}}
            for one in message.parts
        ]

    def error(self, reply: dict[str, Any]) -> tuple[set[str], str | None, str | None]:
        error = part(reply, "error")
        codes = {code for code in (text(part(error, "status")),) if code}
        for detail in _details(reply):
            codes |= {code for code in (text(part(detail, "reason")),) if code}
            for violation in part(detail, "violations") or []:
                if "PerDay" in (text(part(violation, "quotaId")) or ""):
                    codes.add("quota of the day")
        return codes, text(part(error, "message")), None

    def asked_wait(self, reply: dict[str, Any]) -> float | None:
        for detail in _details(reply):
            if given := re.fullmatch(r"(\d{1,6}(?:\.\d+)?)s", text(part(detail, "retryDelay")) or ""):
                return float(given[1])
        return None

    def read(self, reply: dict[str, Any]) -> Outcome:
        outcome = Outcome(
            "empty",
            served=text(reply.get("modelVersion")),
            input_tokens=number(reply, "usageMetadata", "promptTokenCount"),
            cached_tokens=number(reply, "usageMetadata", "cachedContentTokenCount"),
            # Google counts thinking apart from the answer.
            output_tokens=total(
                number(reply, "usageMetadata", "candidatesTokenCount"), number(reply, "usageMetadata", "thoughtsTokenCount")
            ),
            reasoning_tokens=number(reply, "usageMetadata", "thoughtsTokenCount"),
        )
        blocked = text(part(reply, "promptFeedback", "blockReason"))
        if not isinstance(reply.get("candidates"), list) and not blocked and "usageMetadata" not in reply:
            return Outcome("server", error="the reply is no generated content")
        if blocked:
            outcome.status, outcome.finish_reason, outcome.error = "content_filter", blocked, "the prompt was blocked"
            return outcome
        if not reply.get("candidates"):
            outcome.error = "the reply has no candidates"
            return outcome
        parts = part(reply, "candidates", 0, "content", "parts") or []
        words = [text(part(one, "text")) for one in parts if not part(one, "thought")]
        outcome.raw = "".join(one for one in words if one is not None) if any(one is not None for one in words) else None
        outcome.finish_reason = text(part(reply, "candidates", 0, "finishReason"))
        if outcome.finish_reason in _FILTERS:
            outcome.status = "content_filter"
        elif outcome.finish_reason in ("MAX_TOKENS", "CONTINUATION"):
            outcome.status = "truncated"
        elif outcome.finish_reason not in ("STOP", None):
            outcome.status, outcome.error = "server", f"the answer ended by {outcome.finish_reason}"
        elif outcome.raw and outcome.raw.strip():
            outcome.status = OK
        return outcome


def _details(reply: dict[str, Any]) -> list:
    details = part(reply, "error", "details")
    return details if isinstance(details, list) else []
