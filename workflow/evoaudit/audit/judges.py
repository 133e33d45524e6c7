"""What all judges share: the row they write and the identity that explains it."""

import hashlib
from dataclasses import dataclass, field

from evoaudit.store import canonical, one_line, text

EVIDENCE = ("screenshots", "text")


@dataclass(frozen=True, slots=True)
class Opinion:
    """A judge's word on one trajectory."""

    verdict: str
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

    def row(self, trajectory_id: str, opinion: Opinion) -> dict:
        """Return the judgment as a row of the schema."""
        return {
            "trajectory_id": trajectory_id,
            "annotator": self.name,
            "kind": self.kind,
            "stage": "blind",
            "verdict": opinion.verdict,
            "category": opinion.category if opinion.verdict == "gf" else None,
            "evidence_steps": list(opinion.evidence_steps) or None,
            "confidence": opinion.confidence,
            "seconds": None,
            "note": None,
            "codebook_version": self.codebook,
            "simulated": self.simulated,
            "judge_id": self.judge_id,
            "evidence": "+".join(sorted(self.evidence)),
            "status": "ok",
            "rationale": text(one_line(opinion.rationale, 600)) if opinion.rationale else None,
            "input_tokens": None,
            "output_tokens": None,
            "usd": None,
        }
