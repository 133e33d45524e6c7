"""The audit's codebook as data: codes, definitions, boundary rules and the MAST map, with a version and a hash."""

import hashlib
from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from evoaudit.errors import InputError
from evoaudit.resources import CODEBOOK

CURRENT = "v1"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Code(_Part):
    """One code; ``also`` lists the spellings tables elsewhere use for it."""

    code: str
    name: str
    definition: str
    tier: int | None = None
    example: str | None = None
    decide: list[str] = []
    also: list[str] = []


class Stage(_Part):
    question: str
    note: str
    codes: list[Code]


class Tier(_Part):
    tier: int
    name: str
    meaning: str


class DiagnosisStage(Stage):
    tiers: list[Tier]


class Boundary(_Part):
    id: str
    rule: str


class Mast(_Part):
    mode: str
    disposition: str
    codes: list[str]


class Codebook(_Part):
    """A codebook whose codes are unique and whose cross-references hold."""

    version: str
    title: str
    stage_1: Stage
    stage_2: DiagnosisStage
    boundaries: list[Boundary]
    mast: list[Mast]

    @property
    def verdicts(self) -> tuple[str, ...]:
        """Stage 1 codes, in the codebook's order."""
        return tuple(code.code for code in self.stage_1.codes)

    @property
    def categories(self) -> tuple[str, ...]:
        """Stage 2 codes, in the codebook's order."""
        return tuple(code.code for code in self.stage_2.codes)

    @property
    def hash(self) -> str:
        """12 hex digits of the content; comments and layout of the file do not matter."""
        from evoaudit.store import canonical

        return hashlib.sha256(canonical(self.model_dump()).encode()).hexdigest()[:12]

    @property
    def identity(self) -> str:
        """Version and hash, as judges write it into their labels."""
        return f"{self.version}+{self.hash}"

    def accepts(self, version: str) -> bool:
        """Say whether a label's codebook version names this codebook; a hash, if given, must be this one's."""
        number, _, digest = version.strip().partition("+")
        number = number.lower().removeprefix("v").removesuffix(".0")
        return number == self.version and digest in ("", self.hash)

    def code_of(self, spelling: str) -> str | None:
        """Return the code for a code, an ``also`` spelling or a name in any case, else None."""
        wanted = spelling.strip().casefold()
        for code in (*self.stage_1.codes, *self.stage_2.codes):
            if wanted in {code.code, code.name.casefold(), *(other.casefold() for other in code.also)}:
                return code.code
        return None

    def tier_of(self, category: str) -> int | None:
        """Return the tier of a category, None for those outside the tiers."""
        return next((code.tier for code in self.stage_2.codes if code.code == category), None)


@cache
def load(name: str = CURRENT, folder: Path = CODEBOOK) -> Codebook:
    """Load one codebook and refuse one whose codes or cross-references are wrong."""
    path = folder / f"{name}.yaml"
    try:
        book = Codebook.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise InputError(path, "no such codebook", "name one of the files in resources/codebook/") from None
    except yaml.YAMLError as error:
        raise InputError(path, f"not YAML ({error})", "mend the file") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}", "mend the file") from None
    codes = [*book.verdicts, *book.categories]
    if len(set(codes)) != len(codes):
        raise InputError(path, "a code is given twice", "give every code once")
    tiers = {tier.tier for tier in book.stage_2.tiers}
    for code in book.stage_2.codes:
        if code.tier is not None and code.tier not in tiers:
            raise InputError(path, f"{code.code}: tier {code.tier} is not declared", "declare it under stage_2.tiers")
    for mode in book.mast:
        if stray := set(mode.codes) - set(book.categories):
            raise InputError(path, f"mast: {mode.mode}: unknown codes {sorted(stray)}", "use the codes of stage_2")
    for field, text in _texts(book):
        for word in _quoted(text):
            if "-" in word and word[0] == "t" and word[1:2].isdigit() and word not in codes:
                raise InputError(path, f"{field}: names the unknown code '{word}'", "use the codes of stage_2")
    return book


def _texts(book: Codebook) -> list[tuple[str, str]]:
    parts = [(f"boundaries.{boundary.id}", boundary.rule) for boundary in book.boundaries]
    for code in (*book.stage_1.codes, *book.stage_2.codes):
        parts += [(code.code, text) for text in (code.definition, code.example or "", *code.decide)]
    return parts


def _quoted(text: str) -> list[str]:
    """Return the words in back quotes."""
    return text.split("`")[1::2]
