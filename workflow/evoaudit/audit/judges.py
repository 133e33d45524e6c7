"""What all judges share: the row they write and the identity that explains it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evoaudit.errors import one_line
from evoaudit.store import canonical, text

EVIDENCE = ("screenshots", "text")
#: Kind of a judge that speaks for others: it is shown beside them and casts no vote of its own.
ENSEMBLE = "ensemble"


@dataclass(frozen=True, slots=True)
class Opinion:
    """A judge's word on one trajectory."""

    verdict: str | None
    category: str | None = None
    evidence_steps: tuple[int, ...] = ()
    confidence: float | None = None
    rationale: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """Who judged, by which codebook, with which parameters and on which evidence."""

    name: str
    kind: str
    model: str
    evidence: tuple[str, ...]
    codebook: str
    simulated: bool = False
    parameters: dict = field(default_factory=dict)

    @property
    def judge_id(self) -> str:
        """16 hex digits of all that an opinion depends on beside the trajectory."""
        parts = {"model": self.model, "evidence": sorted(self.evidence), "codebook": self.codebook, "parameters": self.parameters}
        return hashlib.sha256(canonical(parts).encode()).hexdigest()[:16]

    def row(
        self, trajectory_id: str, opinion: Opinion | None, *, status: str = "ok", note: str | None = None, **spent: Any
    ) -> dict[str, Any]:
        """Return the judgment as a row of the schema; without an opinion there is no verdict, whatever the status says.

        ``spent`` are tokens and dollars.
        """
        said = opinion or Opinion(None)
        return {
            "trajectory_id": trajectory_id,
            "annotator": self.name,
            "kind": self.kind,
            "stage": "blind",
            "verdict": said.verdict,
            "category": said.category if said.verdict == "gf" else None,
            "evidence_steps": list(said.evidence_steps) or None,
            "confidence": said.confidence,
            "seconds": None,
            "note": one_line(note, 600) if note else None,
            "codebook_version": self.codebook,
            "simulated": self.simulated,
            "judge_id": self.judge_id,
            "evidence": "+".join(sorted(self.evidence)),
            "status": status,
            "rationale": text(one_line(said.rationale, 600)) if said.rationale else None,
            "input_tokens": None,
            "output_tokens": None,
            "usd": None,
            **spent,
        }


def opinions(rows: Mapping[str, Mapping[str, Any]]) -> tuple[Opinion | None, str, str]:
    """Return what judges say with one voice, from their rows by name: opinion, status and a note.

    They speak only if all of them gave the same verdict, else they abstain. A category is theirs if all gave the same.
    """
    told = {name: row["verdict"] if row["status"] == "ok" else f"({row['status']})" for name, row in rows.items()}
    words = ", ".join(f"{name}: {said}" for name, said in told.items())
    if any(row["status"] != "ok" for row in rows.values()) or len({row["verdict"] for row in rows.values()}) > 1:
        return None, "abstained", words
    categories = {row["category"] for row in rows.values()}
    sure = [row["confidence"] for row in rows.values()]
    steps = sorted({step for row in rows.values() for step in row["evidence_steps"] or ()})
    confidence = None if any(one is None for one in sure) else min(sure)
    return (
        Opinion(next(iter(rows.values()))["verdict"], categories.pop() if len(categories) == 1 else None, tuple(steps), confidence),
        "ok",
        words,
    )
