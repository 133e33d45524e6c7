"""Which provider asks which model."""

from collections.abc import Mapping
from typing import Any

from evoaudit.errors import InputError
from evoaudit.infer.base import Attachments, Provider


def make(settings: Mapping[str, Any], attachments: Attachments, timeout_s: float) -> Provider:
    """Return the provider of one entry, for probes and judges alike.

    ``settings`` needs name, provider and model; api_key_env, base_url, api, temperature and max_output_tokens are used if given.
    What is plainly wrong (a key that is not set, an address that is none, another version of Codex) is refused here.
    """
    name, provider = settings["name"], settings["provider"]
    if provider == "openai" and settings.get("api", "chat") == "responses":
        from evoaudit.infer.openai_responses import Responses as Found
    elif provider == "openai":
        from evoaudit.infer.openai_chat import Chat as Found
    elif provider == "google":
        from evoaudit.infer.google_genai import Gemini as Found
    elif provider == "anthropic":
        from evoaudit.infer.anthropic_messages import Messages as Found
    elif provider == "codex":
        from evoaudit.infer.codex import Codex as Found
    else:
        raise InputError(f"model '{name}': provider '{provider}'", "is unknown", "use openai, google, anthropic, codex or builtin")
    return Found(settings, attachments, timeout_s)
