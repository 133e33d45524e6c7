"""A simulated rater: seeded noise on the planted truth, for simulated corpora only."""

from evoaudit.audit.judges import Opinion
from evoaudit.streams import rank

#: Share of its accuracy that a rater keeps, by planted verdict, without screenshots: they show what a checker missed.
WITHOUT_SCREENSHOTS = {"gf": 0.97, "efn": 0.6, "broken": 0.8, "unclear": 0.9}
#: What a wrong verdict becomes, with weights that add up to 1.
CONFUSED = {
    "gf": {"efn": 0.5, "unclear": 0.3, "broken": 0.2},
    "efn": {"gf": 0.8, "unclear": 0.2},
    "broken": {"gf": 0.6, "unclear": 0.4},
    "unclear": {"gf": 0.7, "efn": 0.15, "broken": 0.15},
}
#: The category a wrong diagnosis becomes half of the time.
TWINS = {
    "t3-noop": "t1-loop",
    "t1-loop": "t3-noop",
    "t3-verif": "t3-term",
    "t3-term": "t3-verif",
    "t2-ground": "t2-tool",
    "t2-tool": "t2-ground",
    "t1-spec": "t3-verif",
    "t1-hall": "t2-ground",
    "t2-state": "t1-spec",
}
CATEGORIES = (*sorted(TWINS), "other")


def rate(trajectory_id: str, truth: dict, *, name: str, accuracy: float, seed: int, screenshots: bool) -> Opinion:
    """Return the rater's word on a trajectory whose ``truth`` is known.

    The same draws serve both kinds of evidence, so that an ablation flips labels instead of rolling new ones.
    """

    def chance(purpose: str) -> float:
        return rank(seed, f"rater-{purpose}", name, trajectory_id) / 2**63

    planted = truth["outcome"] if truth["outcome"] in CONFUSED else "efn"  # an outcome that satisfies the task
    kept = accuracy if screenshots else accuracy * WITHOUT_SCREENSHOTS[planted]
    roll = chance("verdict")
    verdict = planted if roll < kept else _pick(CONFUSED[planted], chance("confusion"))
    steps = (truth["evidence_step"],) if truth["evidence_step"] is not None and verdict == planted else ()
    category = None
    if verdict == "gf":
        category = truth["category"] if planted == "gf" else None
        if category is None or chance("category") >= kept:
            others = [code for code in CATEGORIES if code != category]
            twin = TWINS.get(category or "")
            category = twin if twin and chance("twin") < 0.5 else others[int(chance("other") * len(others))]
    return Opinion(verdict, category, steps, round(0.5 + 0.5 * abs(kept - roll), 3), "simulated: noise on the planted truth")


def _pick(weights: dict[str, float], roll: float) -> str:
    for choice, weight in weights.items():
        roll -= weight
        if roll < 0:
            return choice
    return next(iter(weights))
