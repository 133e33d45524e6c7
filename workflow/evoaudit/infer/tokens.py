"""About how many tokens a request is, before it is sent. Rough but stated; the meter during the run does not guess.

Pictures as Google's page on image understanding (1,120 each for Gemini 3), summaries of the other vendors' rules and measurements that
users published in 2026 give them.
"""

import math

from evoaudit.infer.base import Attachments, Request
from evoaudit.prompts import Text

#: Characters of text a token, and tokens of a usual answer without reasoning.
CHARACTERS, ANSWER = 4, 60


def picture_tokens(provider: str, model: str, width: int, height: int) -> int:
    """Return what one picture of so many pixels counts as.

    Patches of 32 pixels for OpenAI's models, weighted by size of model; of 28 for Claude, and for open-weight models, whose encoders
    merge patches of 14 or 16 in twos; a constant for Gemini 3 and later, tiles of 768 pixels before.
    """
    name = model.lower()
    if provider == "google" or name.startswith("gemini-"):
        if name.startswith(("gemini-1", "gemini-2")):
            return 258 if max(width, height) <= 384 else 258 * math.ceil(width / 768) * math.ceil(height / 768)
        return 1100
    if provider == "codex" or name.startswith(("gpt-", "o1", "o3", "o4")):
        weight = 2.46 if "nano" in name else 1.62 if "mini" in name else 1.2
        return math.ceil(weight * math.ceil(width / 32) * math.ceil(height / 32))
    return math.ceil(width / 28) * math.ceil(height / 28)


def estimate(request: Request, attachments: Attachments, provider: str, model: str) -> float:
    """Return the tokens of a request and its answer, as an allowance a minute counts them."""
    total = float(ANSWER)
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Text):
                total += len(part.text) / CHARACTERS
            else:
                total += picture_tokens(provider, model, *attachments.size(part))
    return total
