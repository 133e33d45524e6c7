"""The statistics of both papers and of the checks on them, thin over numpy and SciPy.

Undefined is None, with the reason in the ``evoaudit.stats`` log. Intervals are lists of two; counts and shares are plain numbers.
"""

from evoaudit.stats.agreement import (
    brennan_prediger,
    cohen_kappa,
    cohen_kappa_se,
    cohen_kappa_weighted,
    dawid_skene_prevalence,
    fleiss_kappa,
    fleiss_kappa_missing,
    gwet_ac1,
    krippendorff_alpha_interval,
    krippendorff_alpha_nominal,
    krippendorff_alpha_ordinal,
    krippendorff_alpha_ratio,
)
from evoaudit.stats.association import (
    kendall_exact_p_two_sided,
    kendall_tau_a,
    kendall_tau_b,
    pearson_r,
    spearman_p_two_sided,
    spearman_rho,
)
from evoaudit.stats.calibration import brier_score, expected_calibration_error, reliability_bins
from evoaudit.stats.evogain import baseline_t1, baseline_t2_joint, evogain, evogain_action
from evoaudit.stats.finite import hypergeometric_ci, two_phase, unseen_upper
from evoaudit.stats.proportions import (
    benjamini_hochberg,
    clopper_pearson_ci,
    freeman_halton_exact_p,
    goodman_simultaneous_ci,
    holm,
    mcnemar_exact,
    mcnemar_midp,
    rogan_gladen,
    sample_size_proportion,
    sample_size_two_props,
    stratified_proportion,
    wilson_ci,
)
from evoaudit.stats.resample import bootstrap_ci, bootstrap_percentile_limit

__all__ = [
    "baseline_t1",
    "baseline_t2_joint",
    "benjamini_hochberg",
    "bootstrap_ci",
    "bootstrap_percentile_limit",
    "brennan_prediger",
    "brier_score",
    "clopper_pearson_ci",
    "cohen_kappa",
    "cohen_kappa_se",
    "cohen_kappa_weighted",
    "dawid_skene_prevalence",
    "evogain",
    "evogain_action",
    "expected_calibration_error",
    "fleiss_kappa",
    "fleiss_kappa_missing",
    "freeman_halton_exact_p",
    "goodman_simultaneous_ci",
    "gwet_ac1",
    "holm",
    "hypergeometric_ci",
    "kendall_exact_p_two_sided",
    "kendall_tau_a",
    "kendall_tau_b",
    "krippendorff_alpha_interval",
    "krippendorff_alpha_nominal",
    "krippendorff_alpha_ordinal",
    "krippendorff_alpha_ratio",
    "mcnemar_exact",
    "mcnemar_midp",
    "pearson_r",
    "reliability_bins",
    "rogan_gladen",
    "sample_size_proportion",
    "sample_size_two_props",
    "spearman_p_two_sided",
    "spearman_rho",
    "stratified_proportion",
    "two_phase",
    "unseen_upper",
    "wilson_ci",
]
