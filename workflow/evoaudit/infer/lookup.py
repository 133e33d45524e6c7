"""Whether a service takes the key and knows the model, asked of its list of models through the vendor's own SDK. Costs nothing."""

import warnings
from collections.abc import Mapping
from typing import Any

from evoaudit.errors import InputError, one_line
from evoaudit.infer.openai_chat import OPENAI
from evoaudit.infer.wire import host_of, key_of

#: Deadline of one question, seconds.
_TIMEOUT = 20.0


class Unknown(Exception):
    """The service could not be asked; says why."""


def look_up(settings: Mapping[str, Any]) -> str | None:
    """Return the day on which a model will be shut down, None if no such day is known.

    ``settings`` needs name, provider and model. Raises `InputError` if the service refuses the key or knows no such model, and
    `Unknown` if it cannot be told.
    """
    name, model, provider = settings["name"], settings["model"], settings["provider"]
    key = key_of(name, settings.get("api_key_env")) or "none"
    address = settings.get("base_url")
    host = host_of(name, address) if address else provider
    asked = {"google": _google, "anthropic": _anthropic}.get(provider, _openai)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return asked(model, key, address)
        except (InputError, Unknown):
            raise
        except LookupError:
            raise InputError(f"model '{name}'", f"{host} knows no model {one_line(model, 100)}", "check the entry's model") from None
        except PermissionError:
            mend = f"set {settings.get('api_key_env') or 'api_key_env'} to a key that may use it"
            raise InputError(f"model '{name}'", f"{host} refused the key", mend) from None
        # Transport faults leak from below the SDKs in many types. Their texts are not shown: a service may echo a key.
        except Exception as error:
            raise Unknown(f"{host} could not be asked for its models ({type(error).__name__})") from None


def _openai(model: str, key: str, address: str | None) -> str | None:
    import openai

    with openai.OpenAI(base_url=address or OPENAI, api_key=key, max_retries=1, timeout=_TIMEOUT) as client:
        try:
            listed = {one.id: one for one in client.models.list()}
        except (openai.AuthenticationError, openai.PermissionDeniedError):
            raise PermissionError from None
    day = getattr(listed[model], "shutdown_date", None)
    return day if isinstance(day, str) else None


def _anthropic(model: str, key: str, address: str | None) -> None:
    import anthropic

    with anthropic.Anthropic(base_url=address, api_key=key, max_retries=1, timeout=_TIMEOUT) as client:
        try:
            client.models.retrieve(model)
        except anthropic.NotFoundError:
            raise LookupError from None
        except (anthropic.AuthenticationError, anthropic.PermissionDeniedError):
            raise PermissionError from None


def _google(model: str, key: str, address: str | None) -> None:
    from google import genai
    from google.genai import errors, types

    client = genai.Client(api_key=key, http_options=types.HttpOptions(base_url=address, timeout=int(_TIMEOUT * 1000)))
    try:
        client.models.get(model=model)
    except errors.APIError as error:
        if error.code == 404:
            raise LookupError from None
        if error.code in (401, 403) or "API_KEY_INVALID" in str(error.details):
            raise PermissionError from None
        raise
    finally:
        client.close()
