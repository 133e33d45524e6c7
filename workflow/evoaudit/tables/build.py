"""Every table of a run, each from its builder; an absent stage gives an empty table with the reason."""

from collections.abc import Callable, Iterator
from functools import partial

from evoaudit.tables import answers, audit, drawn, estimate, evogui, ledger, literature, sensitivity, suspects
from evoaudit.tables.audit import Audit
from evoaudit.tables.inputs import Empty, Run
from evoaudit.tables.panel import Panel
from evoaudit.tables.spec import TABLES, Table

PROBES = (
    "split",
    "domains",
    "t3_review",
    "baselines",
    "evogui_main",
    "evogui_intervals",
    "t2_recall",
    "t2_value_in_goal",
    "t3_slices",
    "resolution",
    "shortcut_controls",
    "osworld_relation",
    "rank_relation",
    "evogain_action",
    "pairwise_models",
    "calibration",
    "reliability",
    "position_bias",
    "split_sets",
    "other_sets",
)
AUDIT = (
    "audit_verdicts",
    "audit_diagnoses",
    "agreement",
    "annotator_rates",
    "evidence_ablation",
    "judge_consistency",
    "planted_orders",
    "human_agreement",
    "noop_probe",
    "signal_check",
    "planted_truth",
    "corrected_scores",
)
ESTIMATE = ("audit_estimate",)
DRAWN = ("draw",)
SUSPECTS = ("suspects",)
SENSITIVITY = ("sensitivity",)
LEDGER = ("ingest", "alignment", "drops", "cost", "agent_cost", "timing", "deadline_curve")
LITERATURE = ("action_map", "landscape", "design_guidelines", "mast_map", "published_check")


def build(run: Run) -> Iterator[tuple[Table, list[dict], str]]:
    """Yield every declared table with its rows, or with none and the reason."""
    panel, audits = Panel(run), Audit(run)
    builders: dict[str, Callable[[], list[dict]]] = {name: getattr(literature, name) for name in LITERATURE}
    for names, module, data in (
        (PROBES, evogui, panel),
        (AUDIT, audit, audits),
        (ESTIMATE, estimate, audits),
        (DRAWN, drawn, audits),
        (SUSPECTS, suspects, audits),
        (SENSITIVITY, sensitivity, sensitivity.Both(panel, audits)),
        (LEDGER, ledger, run),
    ):
        builders |= {name: partial(getattr(module, name), data) for name in names}
    builders["answers"] = partial(answers.answers, panel)
    for name, table in TABLES.items():
        try:
            rows, reason = builders[name](), table.reason
        except Empty as empty:
            rows, reason = [], str(empty)
        yield table, rows, reason
