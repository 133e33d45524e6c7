"""What tokens cost: a dated file of US dollars per million tokens."""

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evoaudit import yamlfile
from evoaudit.errors import InputError
from evoaudit.givenfile import read_given


class Price(BaseModel):
    """One model's prices, USD per million tokens, as read on a day from a source."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    #: Input tokens the service had in its cache; without it they cost as much as the others.
    cached_input: float | None = Field(None, ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    #: What a batch costs of these; half at OpenAI, Google and Anthropic, as their guides to batches stood on 2026-11-30.
    batch: float = Field(0.5, ge=0, le=1)
    date: datetime.date
    source: str

    def usd(self, record: Mapping[str, Any]) -> float | None:
        """Return what one answer cost; None if its tokens are unknown."""
        given, written = record.get("input_tokens"), record.get("output_tokens")
        if given is None or written is None:
            return None
        cached = min(record.get("cached_tokens") or 0, given)
        cheap = self.input if self.cached_input is None else self.cached_input
        share = self.batch if record.get("batch") else 1.0
        return share * ((given - cached) * self.input + cached * cheap + written * self.output) / 1e6


#: Bytes of a price file at most.
_LARGEST = 16 * 2**20


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    models: dict[str, Price]


def load(path: Path) -> dict[str, Price]:
    """Read a price file: model id → price. A model it does not list has no known price."""
    mend = "give the price file (inference.prices), for instance config/prices.yaml"
    data = yamlfile.parse(read_given(Path(path), _LARGEST, mend), Path(path), "start from config/prices.yaml")
    try:
        return _File.model_validate(data).models
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{path}: {'.'.join(map(str, first['loc']))}", first["msg"], "start from config/prices.yaml") from None
