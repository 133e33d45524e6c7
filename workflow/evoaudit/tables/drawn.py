"""The draw in numbers: how many trajectories were considered, and what became of them."""

from collections import Counter

from evoaudit.tables.audit import Audit, benchmark_order
from evoaudit.tables.inputs import Empty, grouped
from evoaudit.tables.literature import published

#: What becomes of most trajectories; the other reasons share a column.
STATUSES = ("analysed", "calibration", "not_drawn", "nonzero_reward", "evaluator_error")
DESKTOP = "OSWorld-Verified"


def draw(audit: Audit) -> list[dict]:
    """Return the sampling flow by benchmark and agent, and over all."""
    sampled = audit.run.rows(audit.run.folders.sample, "sample")
    if not sampled:
        raise Empty("No audit sample was drawn in this run.")
    printed = _printed()
    rows = []
    for name, members in audit.pools(sampled, benchmark_order):
        rows.append(_row(name, "(all)", members) | printed.get(name.casefold(), {}))
        agents = grouped([{**row, "agent": row["agent"] or "(none)"} for row in members], "agent")
        if not name.startswith("All"):
            rows += [_row(name, agent, held) for (agent,), held in sorted(agents.items()) if len(agents) > 1]
    return rows


def _row(benchmark: str, agent: str, members: list[dict]) -> dict:
    counts = Counter(row["status"] for row in members)
    others = {status: n for status, n in sorted(counts.items()) if status not in STATUSES}
    return {
        "benchmark": benchmark,
        "agent": agent,
        "n": len(members),
        **{status: counts[status] for status in STATUSES},
        "other": sum(others.values()),
        "reasons": ", ".join(f"{status.replace('_', ' ')} {n}" for status, n in others.items()) or None,
        "simulated": any(row["simulated"] for row in members),
    }


def _printed() -> dict[str, dict]:
    """Return what the paper drew and analysed of each benchmark; its desktop runs together."""
    found: dict[str, Counter] = {}
    for row in published("cua_sampling"):
        name = "osworld" if row["source"] == DESKTOP else str(row["stratum"]).casefold()
        for place in (name, "all"):
            found.setdefault(place, Counter()).update(quota=int(row["quota"]), analysed=int(row["analysed"]))
    return {name: {f"published_{column}": n for column, n in counts.items()} for name, counts in found.items()}
