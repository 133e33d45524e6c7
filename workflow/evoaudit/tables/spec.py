"""Every table declared once: name, words, columns and what it needs. Builders fill it, renderers and figures read it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evoaudit import conditions
from evoaudit.places import PAGES

if TYPE_CHECKING:
    import pyarrow as pa

#: Kind → (unit, decimals). Shares and scores are on the 0–100 scale.
KINDS: dict[str, tuple[str, int | None]] = {
    "text": ("", None),
    # A name that scripts go by; people read it in words, see `said`.
    "name": ("", None),
    "flag": ("", None),
    # A path from the run's folder.
    "link": ("", None),
    "n": ("", 0),
    "pct": ("%", 1),
    "points": ("points", 1),
    "coef": ("", 3),
    "p": ("", 4),
    "usd": ("USD", 4),
    "s": ("s", 1),
    "number": ("", None),
    "size": ("", 1),
}

LABELS = {
    "t1": "T1",
    "t2_top1": "T2 top-1",
    "t2_joint": "T2 joint",
    "t3": "T3",
    "evogain": "EvoGain",
    "evogain_action": "EvoGain-Action",
    "t1_kendall_tau": "T1 Kendall tau",
    "n": "n",
    "gf": "GF",
    "efn": "EFN",
    "wrong": "wrong",
    "osworld": "OSWorld",
    "cross": "cross-trajectory",
    "top_domain_share": "largest domain",
    "screens_median": "screens in a trajectory, median",
    "screens_p95": "screens in a trajectory, 95th percentile",
    "cluster_low": "clustered low",
    "cluster_high": "clustered high",
    "same_domain": "same domain",
    "long_skip": "long skip",
    "side_512": "512 px",
    "side_1024": "1024 px",
    "ece": "ECE",
    "brier": "Brier",
    "f1": "F1",
    "mast_mode": "MAST mode",
    "usd": "USD",
    "usd_per_attempt": "USD per attempt",
    "usd_per_verified_success": "USD per verified success",
    "efn_with": "EFN with",
    "efn_without": "EFN without",
    "p_adjusted": "p (Holm)",
    "t2_use": "T2 use",
    "joint_without": "without values in the goal",
    "unseen_wrong_most": "wrong unseen, at most",
    "n_in_goal": "n, value in goal",
    "joint_in_goal": "joint, value in goal",
    "n_not": "n, value not in goal",
    "joint_not": "joint, value not in goal",
    "n_asked": "n asked",
    "accuracy_worst": "at worst",
    "accuracy_best": "at best",
    "gwet_ac1": "Gwet AC1",
    "parameters_b": "parameters (billions)",
    "p_best": "chance of best",
    "max_image_side": "image side (px)",
    "cohen_kappa": "Cohen kappa",
    "fleiss_kappa": "Fleiss kappa",
    "control": "planted shift (control)",
    "obs_phase": "pictures logged",
    "evidence": "telling steps",
    "fits_minus": "next action fits",
    "fits_own": "own action fits",
    "fits_plus": "previous action fits",
    "n_minus": "votes, own or next",
    "k_minus": "votes for next",
    "p_minus": "p of next",
    "n_plus": "votes, own or previous",
    "k_plus": "votes for previous",
    "p_plus": "p of previous",
    "compared": "pairs of screens compared",
    "delayed": "shown a step late",
    "krippendorff_alpha": "Krippendorff alpha",
    "published_least": "published, least",
    "published_most": "published, most",
    "published_raw_least": "published raw, least",
    "published_raw_most": "published raw, most",
}


def said(value: str) -> str:
    """Return a name in words, as people read it: slices, metrics, statistics."""
    if value.startswith("source_"):
        return f"source {value.removeprefix('source_')}"
    return f"{value[2:]} screens" if value[:2] == "K=" else LABELS.get(value) or value.replace("_", " ")


@dataclass(frozen=True)
class Column:
    """One column. ``best`` marks metrics where ``high`` or ``low`` wins; ``extra`` ones stay out of the printed (LaTeX) table."""

    name: str
    kind: str
    best: str = ""
    extra: bool = False

    @property
    def unit(self) -> str:
        """The unit, unless the label names it."""
        unit = KINDS[self.kind][0]
        return "" if unit in self.label.split() else unit

    @property
    def decimals(self) -> int | None:
        return KINDS[self.kind][1]

    @property
    def label(self) -> str:
        prefix, name = ("published ", self.name.removeprefix("published_")) if self.name.startswith("published_") else ("", self.name)
        return LABELS.get(self.name) or prefix + (LABELS.get(name) or name.replace("_", " "))

    @property
    def arrow(self) -> "pa.DataType":
        import pyarrow as pa

        return {"text": pa.string(), "name": pa.string(), "link": pa.string(), "flag": pa.bool_(), "n": pa.int64()}.get(
            self.kind, pa.float64()
        )


@dataclass(frozen=True)
class Table:
    """One table. ``group`` names the column whose runs of equal values get a heading; ``reason`` says what is missing when it is empty."""

    name: str
    title: str
    paper: str
    columns: tuple[Column, ...]
    note: str
    reason: str
    group: str = ""

    @property
    def run_data(self) -> bool:
        """Whether rows come from the run, and so say whether they are simulated."""
        return self.columns[-1].name == "simulated"

    def arrow(self) -> "pa.Schema":
        import pyarrow as pa

        return pa.schema([pa.field(column.name, column.arrow) for column in self.columns])


def _columns(text: str, simulated: bool) -> tuple[Column, ...]:
    """Parse ``name:kind`` words: ``^`` or ``v`` says which end is best, ``±`` adds ``_low`` and ``_high``, ``|`` opens the extras."""
    found, extra = [], False
    for word in text.split():
        if word == "|":
            extra = True
            continue
        name, _, kind = word.partition(":")
        interval = kind.endswith("±")
        kind = kind.removesuffix("±")
        best = {"^": "high", "v": "low"}.get(kind[-1], "")
        kind = kind[:-1] if best else kind
        found.append(Column(name, kind, best, extra))
        if interval:
            found += [Column(f"{name}_low", kind, "", extra), Column(f"{name}_high", kind, "", extra)]
    if simulated:
        found.append(Column("simulated", "flag", "", True))
    return tuple(found)


def _table(
    name: str, title: str, paper: str, columns: str, note: str = "", reason: str = "", group: str = "", simulated: bool = True
) -> Table:
    return Table(name, title, paper, _columns(columns, simulated), note, reason, group)


_SCORES = "No model was scored in this run; list models in the config."
_AUDIT = "No verdict was audited in this run (`audit` in the config, with judges or labels, asks for that)."

_ALL = (
    _table(
        "ingest",
        "What was read, kept and dropped",
        "",
        "source:text stage:text unit:text read:n kept:n dropped:n reconciles:flag",
        "Every stage counts what it reads; `read` is `kept` plus `dropped`. Drops by reason are in the table `drops`.",
        "No stage's folder was given.",
    ),
    _table(
        "split",
        "Probe split",
        "EvoGUI Table 1",
        "part:text slice:name count:n share:pct | published_count:n published_share:pct",
        "Shares are of the part. Below the three probes, all items together: domains, sources, and screens in the trajectories drawn from.",
        "No probes were mined in this run.",
        group="part",
    ),
    _table(
        "domains",
        "Balance of the split",
        "EvoGUI Table 1",
        "part:text n:n domains:n effective_domains:size top_domain:text top_share:pct sources:n top_source:text top_source_share:pct "
        "| trajectories:n top_trajectory_share:pct",
        "The effective number of domains is the exponential of their entropy: as many equally used domains would be as mixed.",
        "No probes were mined in this run.",
    ),
    _table(
        "t3_review",
        "Human quality control of T3",
        "EvoGUI §2.4",
        "tier:name items:n reviewed:n accepted:n accepted_share:pct rejected:n "
        "page_load:n advertisement:n asynchronous_refresh:n incidental_change:n other:n",
        "`items` are in the split, `accepted share` is the part of them that people accepted; `reviewed` counts the rejected too, "
        "which were replaced by the next in rank. "
        "The last columns count the rejected by reason.",
        "Nobody has looked at T3 pairs yet: `snakemake review` writes the page, and `probes.t3.reviewed` takes what it exports.",
    ),
    _table(
        "alignment",
        "Whether pictures stand at their actions",
        "",
        "source:text control:flag obs_phase:text verdict:text lag:n p:p trajectories:n evidence:n "
        "fits_minus:pct fits_own:pct fits_plus:pct advice:text | kind:text "
        "steps:n compared:n n_minus:n k_minus:n p_minus:p n_plus:n k_plus:n p_plus:p delayed:pct",
        "What changed between two screens is held against the action between them and against its neighbours. Steps tell where one "
        "action can have made the change and the other cannot; each trajectory has one vote for each neighbour. `shifted`: the next "
        "(lag -1) or the previous action (lag +1) explains the screens better, by a sign test at 0.001; "
        "`swapped`: what is before one action is after the next. `undecided` is no fault. The planted shift was recorded one step "
        "off on purpose; it must be found, and no other table counts it.",
        "No source was normalised in this run.",
    ),
    _table(
        "baselines",
        "Chance",
        "EvoGUI Table 2, baseline row",
        "metric:name exact:pct random_mean:pct random_runs:n | constant:pct constant_answer:text n:n published:pct",
        "Exact chance is what uniform guessing scores on this split in the mean; the random solver only estimates it. `constant` "
        "always gives the commonest answer. Where answers are not equally common, as actions with and without a value, it beats uniform "
        "guessing and so has an EvoGain above 0 without seeing anything.",
        "No probes were mined in this run.",
    ),
    _table(
        "evogui_main",
        "Main results",
        "EvoGUI Table 2",
        "group:text model:text t1:pct^ t2_top1:pct^ t2_joint:pct^ t3:pct^ evogain:pct^ | n_answered:n n_unanswered:n n_invalid:n "
        "max_image_side:n "
        "runs:n parameters_b:size family:text published_t1:pct published_t2_top1:pct published_t2_joint:pct published_t3:pct "
        "published_evogain:pct note:text",
        "Percent. Accuracy is over the items with an answer; an unusable answer is wrong, a missing one is counted apart. EvoGain is over "
        "the chance level named in the table `baselines`; its intervals are in `evogui_intervals`. One and the same answer to every "
        "question can score above chance, as `majority` does; the column `note` says why.",
        _SCORES,
        group="group",
    ),
    _table(
        "answers",
        "What became of every request",
        "",
        "model:text condition:text task:text n_asked:n n_answered:n n_invalid:n n_unanswered:n accuracy:pct accuracy_worst:pct "
        "accuracy_best:pct | limit_hit_share:pct group:text n_refused:n n_content_filter:n n_truncated:n n_empty:n n_context_overflow:n "
        "n_fault:n n_not_sent:n max_image_side:n runs:n",
        "An unusable answer (invalid) is wrong; a request without an answer is neither right nor wrong. Accuracy is over the others "
        "(T2: joint); worst and best are over all, were every missing answer wrong, or right. Limit hits are answers cut by the bound on "
        "output tokens, asked once more with twice that; those cut again are unanswered. Faults are the service's or the network's.",
        _SCORES,
        group="model",
    ),
    _table(
        "evogui_intervals",
        "EvoGain with intervals",
        "EvoGUI Table 3",
        "rank:n model:text evogain:pct± t1:pct^ t2_joint:pct^ t3:pct^ rank_low:n rank_high:n cluster_low:pct cluster_high:pct | p_best:pct "
        "clusters:n group:text published_evogain:pct published_evogain_low:pct published_evogain_high:pct note:text",
        "Point estimates are the observed accuracies. The interval beside EvoGain resamples items independently, as the paper does, for "
        "comparing with it. The clustered one resamples trajectories, which items share, and keeps every slice's share of the split: it is "
        "the one to believe, and the one in the report's headline. Rank intervals and the "
        "chance of being best come from the latter. Where the chance level is the random solver's, one resample of it serves all models.",
        _SCORES,
    ),
    _table(
        "action_map",
        "Action normalisation",
        "EvoGUI Table 4",
        "source_action:text unified_action:text t2_use:text | sources:text published_unified_action:text published_t2_use:text",
        "Every verb the readers know. Actions outside T2 still lend their screens to T1 and T3.",
        "No reader lists its actions.",
        simulated=False,
    ),
    _table(
        "t2_recall",
        "T2 by action",
        "EvoGUI Table 5",
        "group:text model:text t2_top1:pct^ click:pct^ type:pct^ select:pct^ | n_click:n n_type:n n_select:n published_t2_top1:pct "
        "published_click:pct published_type:pct published_select:pct note:text",
        "Percent of each class whose action was named.",
        _SCORES,
        group="group",
    ),
    _table(
        "t2_value_in_goal",
        "T2 with and without values the goal gives away",
        "",
        "group:text model:text t2_joint:pct^ joint_without:pct^ n_in_goal:n joint_in_goal:pct n_not:n joint_not:pct | n:n "
        "joint_in_goal_low:pct joint_in_goal_high:pct joint_not_low:pct joint_not_high:pct",
        "Joint accuracy over all T2 items, and without those whose value stands verbatim in the goal, shown or not; then over the items "
        "with a value alone (`type`, `select`), by whether the goal holds it. Wilson intervals.",
        _SCORES,
        group="group",
    ),
    _table(
        "t3_slices",
        "T3 by distractor",
        "EvoGUI Table 6",
        "group:text model:text cross:pct^ same_domain:pct^ long_skip:pct^ | cross_low:pct cross_high:pct "
        "same_domain_low:pct same_domain_high:pct long_skip_low:pct long_skip_high:pct n_cross:n n_same_domain:n n_long_skip:n "
        "published_cross:pct published_same_domain:pct published_long_skip:pct long_skip_p:p long_skip_p_adjusted:p "
        "note:text",
        "Percent correct; chance is 50. Wilson intervals. The p-values are exact binomial ones of long skip against chance, adjusted over "
        "all models but the baselines (Holm).",
        _SCORES,
        group="group",
    ),
    _table(
        "resolution",
        "Resolution",
        "EvoGUI Table 7",
        "model:text metric:name side_512:pct side_1024:pct difference:points± | n:n published_side_512:pct published_side_1024:pct",
        "Same items at both sizes; the interval of the difference resamples trajectories.",
        "No model was asked at both 512 and 1024 pixels.",
        group="model",
    ),
    _table(
        "shortcut_controls",
        "Controls and shortcut solvers",
        "EvoGUI Table 8",
        "model:text condition:text t1:pct t1_kendall_tau:coef t2_top1:pct t3:pct | t2_joint:pct t1_low:pct t1_high:pct t2_top1_low:pct "
        "t2_top1_high:pct t3_low:pct t3_high:pct n_asked:n n_answered:n n_unanswered:n n_invalid:n max_image_side:n runs:n group:text "
        "published_t1:pct published_t1_kendall_tau:coef published_t2_top1:pct published_t3:pct note:text",
        f"Kendall's tau: how far the given order of T1 agrees with the right one (1: the same, 0: none, -1: reversed). T2 top-1: the "
        f"action alone is right. Every model under every condition it was asked in; the built-in solvers understand nothing, so what "
        f"they score takes no understanding. What is shown under {conditions.described()}. Wilson intervals.",
        _SCORES,
        group="model",
    ),
    _table(
        "osworld_relation",
        "OSWorld success and EvoGain",
        "EvoGUI Table 9",
        "model:text osworld:pct evogain:pct | published_osworld:pct published_evogain:pct",
        "Success rates are the config's: of real models as reported elsewhere, where protocols differ; those of simulated models are "
        "made up, as the models are.",
        "No scored model has an `osworld` figure in the config.",
    ),
    _table(
        "rank_relation",
        "Rank association",
        "EvoGUI Table 9 and A.6",
        "pair:text n:n spearman:coef kendall:coef pearson:coef | spearman_p:p kendall_p:p published_n:n published_spearman:coef "
        "published_kendall:coef published_pearson:coef note:text",
        "Three ways to say how far two columns order models alike: 1, the same order; 0, no relation. Kendall's is tau-b. "
        "p-values are exact where there are few pairs and no ties.",
        "Fewer than two models have both values.",
    ),
    _table(
        "evogain_action",
        "EvoGain without exact values",
        "EvoGUI A.6",
        "model:text evogain:pct evogain_action:pct | rank:n rank_action:n published_evogain:pct",
        "T2 by its action alone, over that chance level.",
        _SCORES,
    ),
    _table(
        "pairwise_models",
        "Model against model",
        "",
        "model_a:text model_b:text difference:points low:points high:points p_adjusted:p | p:p clusters:n note:text",
        "EvoGain of a minus b under shared resamples of trajectories. p by the normal law with the resamples' standard error, "
        "adjusted over all pairs (Holm).",
        "Fewer than two models were scored.",
    ),
    _table(
        "calibration",
        "Confidence",
        "",
        "model:text task:text n:n brier:coefv ece:coefv | confidence:pct accuracy:pct n_answered:n",
        "Over answers that state a confidence; 0 is best. Brier score: the mean squared distance of the confidence from 1 where right and "
        "from 0 where wrong. ECE (expected calibration error): the mean distance of confidence and accuracy over ten bins of equal width.",
        "No answer states a confidence.",
        group="model",
    ),
    _table(
        "reliability",
        "Confidence, bin by bin",
        "",
        "model:text task:text bin_low:coef bin_high:coef n:n confidence:pct accuracy:pct±",
        "The bins behind the table `calibration`; Wilson intervals.",
        "No answer states a confidence.",
        group="model",
    ),
    _table(
        "position_bias",
        "Favourite answers",
        "",
        "model:text task:text answer:text share:pct expected_share:pct | n:n difference:points",
        "Share of answers beside the share of items whose key it is. For T1, `as shown` repeats the order on display.",
        _SCORES,
        group="model",
    ),
    _table(
        "split_sets",
        "Probes beyond the browser",
        "",
        "set:text part:text slice:name wanted:n count:n share:pct | domains:n trajectories:n",
        "Further sets of the config, mined by the same rules from other sources. No other table counts them, but for drops and costs.",
        "No set of probes beyond the paper's was mined; name some in `probes.sets`.",
        group="set",
    ),
    _table(
        "other_sets",
        "Scores beyond the browser",
        "",
        "set:text group:text model:text condition:text t1:pct^ t2_top1:pct^ t2_joint:pct^ t3:pct^ n_t1:n n_t2:n n_t3:n "
        "| t1_low:pct t1_high:pct t2_top1_low:pct t2_top1_high:pct t2_joint_low:pct t2_joint_high:pct t3_low:pct t3_high:pct "
        "actions:n max_image_side:n unanswered:n",
        "Wilson intervals; models by group, then by their mean over chance. `actions` is the size of the set's T2 vocabulary, which its "
        "prompts list. Values are asked for typing and choosing alone.",
        "No set of probes beyond the paper's was mined; name some in `probes.sets`.",
        group="set",
    ),
    _table(
        "landscape",
        "Benchmarks by setting",
        "CUA audit Table 1",
        "setting:text application:text evaluation_focus:text benchmarks:text | audited:text",
        "Compiled from the literature; `audited` ones have released trajectories in the paper's sample.",
        simulated=False,
        group="setting",
    ),
    _table(
        "draw",
        "The audit's draw",
        "CUA audit 4.1",
        "benchmark:text agent:text n:n analysed:n calibration:n not_drawn:n nonzero_reward:n evaluator_error:n other:n reasons:text "
        "| published_quota:n published_analysed:n",
        "Every trajectory that was considered, by what became of it. `not drawn`: its quota was full; `nonzero reward`: released as more "
        "than 0, so it is no failure; `evaluator error`: the checker crashed, which is no failure either. `sample.parquet` says it of each "
        "one. The published quota includes what was set aside for calibration.",
        "No audit sample was drawn in this run.",
        group="benchmark",
    ),
    _table(
        "audit_verdicts",
        "Verdict audit",
        "CUA audit Table 2, upper part",
        "benchmark:text oracle:text n:n gf:n efn:n broken:n unclear:n wrong:pct± | released:text tasks:n cluster_low:pct cluster_high:pct "
        "published_n:n published_gf:n published_efn:n published_broken:n published_unclear:n published_wrong:pct p_between:p note:text",
        "GF genuine failure, EFN evaluator false negative. A FAIL is wrong if it is EFN or broken; a PASS is wrong if it is GF or broken. "
        "Wilson intervals; the clustered ones resample tasks inside their benchmark. `p_between` is the p-value of one rate in all "
        "benchmarks: exact (Freeman and Halton), or by chi-square where that is out of reach.",
        _AUDIT,
    ),
    _table(
        "audit_estimate",
        "How many verdicts are wrong",
        "CUA audit 4.4",
        "benchmark:text estimator:text n:n n_reviewed:n wrong:pct± unseen_wrong_most:n note:text | unseen:n released:text tasks:n "
        "strata:text sensitivity:pct specificity:pct",
        "`two-phase` takes the review for what it is: all rows on which the judges disagree, and a drawn part of the others, whose rate "
        "stands for the rows of that kind that nobody reviewed; the interval is about those rows alone. `unseen_wrong_most` bounds the "
        "wrong verdicts among them, and `strata` says what was found in each. Estimates from few rows are "
        "noted as such. A judge is corrected (Rogan and Gladen) only where the review can tell how it errs; the note says "
        "why not.",
        _AUDIT,
        group="benchmark",
    ),
    _table(
        "audit_diagnoses",
        "Diagnoses of genuine failures",
        "CUA audit Table 2, lower part",
        "tier:text category:text n:n share:pct± | name:text published_n:n published_share:pct",
        "Share of genuine failures, by tier and category of the codebook (`t2-tool` is of tier 2); the column `name` has each in words. "
        "Goodman's simultaneous intervals, over the tiers and over the categories.",
        _AUDIT,
        group="tier",
    ),
    _table(
        "design_guidelines", "Design guidelines", "CUA audit Table 3", "stage:text baseline:text threat:text better:text", simulated=False
    ),
    _table("mast_map", "MAST modes and categories", "CUA audit Table 4", "mast_mode:text disposition:text category:text", simulated=False),
    _table(
        "agreement",
        "Agreement of raters",
        "CUA audit 4.4",
        "stage:text raters:text n:n raw:pct statistic:name value:coef low:coef high:coef | kind:text rows:text tasks:n "
        "undefined_resamples:n published_n:n published_raw_least:pct published_raw_most:pct published_least:coef published_most:coef "
        "note:text",
        "Intervals resample tasks inside their benchmark. The review set holds every disagreement of the judges, so agreement on it is "
        "lower than on the sample. The published columns are the paper's, of its own raters of that kind, from the least to the most where "
        "it prints a range.",
        "Fewer than two raters labelled the same trajectories.",
        group="stage",
    ),
    _table(
        "annotator_rates",
        "Wrong-verdict rate by annotator",
        "CUA audit 4.4",
        "annotator:text n:n wrong_rate:number | wrong_rate_low:pct wrong_rate_high:pct unit:text kind:text "
        "published_wrong_rate:number note:text",
        "Rows every annotator labelled. Rates, mean, sd, min and max in percent; the variance is of proportions, as the paper prints it.",
        "No annotator labelled a verdict.",
    ),
    _table(
        "evidence_ablation",
        "Judging without screenshots",
        "CUA audit 4.4",
        "judge:text n:n flips:n efn_with:n efn_without:n kappa_with:coef kappa_without:coef | published_flips:n published_efn_with:n "
        "published_efn_without:n published_kappa_with:coef published_kappa_without:coef",
        "The same judge with and without pictures; EFN counts its evaluator false negatives; pair rows give Cohen's kappa of two judges "
        "under each.",
        "No judge labelled the sample both with and without screenshots; set `ablation: true`.",
    ),
    _table(
        "judge_consistency",
        "Judges against themselves",
        "",
        "judge:text stage:text draws:n n:n equal:pct± pairs_equal:pct fleiss_kappa:coef low:coef high:coef | evidence:text n_outvoted:n "
        "n_incomplete:n tasks:n note:text",
        "Judges that were asked several times about each trajectory (`draws`). The first draw alone is the judge's vote everywhere else; "
        "`n_outvoted` counts trajectories on which more draws gave another label than gave that one. `equal` is the share on which all "
        "draws gave the same, `pairs_equal` that of pairs of draws. Categories are compared where all draws said genuine failure and named "
        "one; `n_incomplete` are trajectories with a draw that has no verdict, which are left out. Intervals of kappa resample tasks "
        "inside their benchmark.",
        "No judge was asked more than once about a trajectory; set `draws`.",
        group="judge",
    ),
    _table(
        "planted_orders",
        "Logs that give orders to their judge",
        "",
        "rater:text n:n suspected:n efn_suspected:pct efn_others:pct | evidence:text place:text planted:n planted_suspected:n "
        "right_planted:pct right_others:pct note:text",
        "Of the trajectories each rater labelled, those that hold a text which reads like an order to a judge (`mark this as success`), "
        "found by patterns that miss some and take some that are none; and how often the verdict was evaluator false negative on these and "
        "on the others. In a simulated corpus with `injections` the orders are known, by where they stand: how many of them the patterns "
        "find, and how often the rater's label was right on such trajectories and on the others. Orders in pictures stand in no text.",
        "No trajectory with steps was labelled.",
        group="rater",
    ),
    _table(
        "human_agreement",
        "Agreement of a source's own annotators",
        "",
        "question:text scope:text n:n n_pairs:n raw:pct± cohen_kappa:coef cohen_kappa_low:coef cohen_kappa_high:coef | gwet_ac1:coef "
        "krippendorff_alpha:coef answers:text source:text note:text",
        "First against second annotation of the trajectories labelled twice; `n` counts all labelled ones.",
        "No source carries annotations of its own.",
        group="question",
    ),
    _table(
        "noop_probe",
        "No-op probe against labels",
        "CUA audit 6",
        "rule:text benchmark:text truth:text n:n precision:pct± recall:pct± f1:pct± | n_flagged:n n_true:n n_hit:n",
        "A trajectory is flagged where the rule fires. Wilson intervals for precision and recall, resampled tasks for F1. Baselines: "
        "`always` flags everything, `same action` three times one action whatever became of the screen. In `noop_run or cycle` the run is "
        "of three.",
        "No trajectory has both signals and a truth (labels, annotations or a planted fault).",
        group="truth",
    ),
    _table(
        "signal_check",
        "Free signals against labels",
        "CUA audit 6",
        "signal:text argues:text benchmark:text truth:text n:n precision:pct± recall:pct± f1:pct± | n_flagged:n n_true:n n_hit:n",
        "Over released FAILs with both. A signal argues for one label, and is right where the label is that one. Wilson intervals for "
        "precision and recall, resampled tasks for F1. Labels of the judge `rules` rest on these signals, so against them alone a signal "
        "looks better than it is. The no-op rules are in the table `noop_probe`.",
        "No released FAIL has both signals and a truth (labels or a planted fault).",
        group="truth",
    ),
    _table(
        "planted_truth",
        "Planted faults found",
        "",
        "rater:text planted:text expected:text n:n n_correct:n recall:pct± precision:pct± | n_predicted:n predicted:text",
        "Against the truth of the simulated corpus. Precision is of the expected label over all planted kinds.",
        "No simulated trajectory was judged.",
        group="rater",
    ),
    _table(
        "corrected_scores",
        "Scores corrected for evaluator error",
        "",
        "benchmark:text agent:text n:n released:pct corrected:pct± rank_released:n rank_low:n rank_high:n rank_corrected:n "
        "rank_change:text | n_pass:n n_fail:n n_audited:n basis:text",
        "False negatives among the audited FAILs are counted as success and broken tasks taken out; the unaudited FAILs follow a "
        "Dirichlet-multinomial of the audited ones. Intervals are about the evaluator's error, not about which tasks were drawn. A rank "
        "`changes` if its interval leaves out the released one, `holds` if it is that one alone, and is `not settled` otherwise. "
        "An interval of no width is that of an agent whose FAILs were all audited; it says nothing of how few tasks those were. Shares "
        "differ from `success` in `agent_cost`, which keeps broken tasks as failures and takes attempts with a price alone.",
        "No audited benchmark has released scores in this run.",
        group="benchmark",
    ),
    _table(
        "suspects",
        "Verdicts to look at again",
        "",
        "grounds:text benchmark:text task_id:text page:link released:text label:text why:text steps:text agent:text | trajectory_id:text "
        "votes:text n_against:n n_raters:n confidence:coef rule:text reviewed:flag task_attempts:n task_suspects:n",
        "Every released verdict that something speaks against, by what it rests on: `people` or `judges`, the final label contradicts the "
        "verdict (with or without a review); `unclear`, the final label is that the evidence does not settle it, for one by a tie; "
        "`one rater`, a rater or more did, and the final label upholds the verdict or there is none yet; "
        "`signal`, no person judged it, and the log itself speaks against it; `crashed checker`, there is no verdict. `steps` are those "
        f"that raters against the verdict and signals point at, from 0; `page` shows them (the first {PAGES}), a path from the run's "
        "folder. `task_suspects` of `task_attempts` at the same task are listed.",
        "No verdict was released in these logs, or nothing speaks against one.",
        group="grounds",
    ),
    _table(
        "sensitivity",
        "What the headline numbers hang on",
        "",
        "choice:text setting:text quantity:text subject:text n:n value:pct± change:points | largest_change:points largest_subject:text "
        "ranks_moved:n note:text",
        "One choice changed at a time. For EvoGain: the leader under that setting and its interval over trajectories (the clustered one "
        "of `evogui_intervals`; only the rows of what is resampled have others), the change of its value, and the "
        "largest change and the number of changed ranks among all models that compete. `n` counts items, verdicts or what is resampled.",
        "No model was scored and no verdict audited in this run, so there is no headline number to move.",
        group="choice",
    ),
    _table(
        "cost",
        "Cost",
        "CUA audit 6",
        "stage:text model:text requests:n input_tokens:n output_tokens:n usd:usd usd_per_attempt:usd usd_per_verified_success:usd "
        "cached_tokens:n reasoning_tokens:n | successes:n success:pct frontier:flag priced:n reused:n",
        "Summed over the answers kept and every call made for them, in whichever run. Cached tokens are part of the input, reasoning of "
        "the output. Reused answers were bought by another run, or for another item with the very same request, which is sent once and "
        "paid for in one row. An attempt is a request; a verified success a correct answer under the full condition, over what that "
        "condition cost. Dollars by `config/prices.yaml`, empty where unknown. `frontier`: none is as cheap and as good, and better "
        "in one of the two.",
        "Nothing was asked of a model.",
    ),
    _table(
        "agent_cost",
        "What an agent's success costs",
        "CUA audit 6",
        "benchmark:text agent:text n:n success:pct± usd_per_attempt:usd usd_per_verified_success:usd frontier:flag | usd:usd successes:n "
        "n_audited:n n_attempts:n basis:text",
        "Over the attempts whose dollars are known: as measured (`stats.measured`: agent inference, tool calls, environment and "
        "verification together), else as the log says (of AgentLab's logs, agent inference alone; 0 counts as unknown). `basis` says "
        "which. A success that was audited counts by its label, the others by the released verdict; Wilson intervals. `frontier`: no "
        "agent of the benchmark is as cheap an attempt and as good, and better in one of the two. Broken tasks count as failures here; "
        "`corrected_scores` takes them out, so its shares differ.",
        "What an attempt cost stands in no log of this run; name a file of measured dollars in `stats.measured`.",
        group="benchmark",
    ),
    _table(
        "timing",
        "Timing",
        "CUA audit 6",
        "benchmark:text agent:text window_slack:coef deadline_miss:pct | deadline_s:s n:n n_timed:n n_success:n median_s:s "
        "window_slack_low:coef window_slack_high:coef deadline_miss_low:pct deadline_miss_high:pct n_windows:n n_window_missed:n",
        "A deadline is missed without a success inside it; Wilson intervals. Slack is the mean of (R - r + 1) / R over attempts with a "
        "critical window of R opportunities of which the r-th was taken, and 0 on a miss; its interval resamples attempts. No log holds "
        "such windows: `stats.measured` gives them, and times that stand before those of the steps.",
        "No source logs times.",
        group="benchmark",
    ),
    _table(
        "deadline_curve",
        "Success by deadline",
        "CUA audit 6",
        "benchmark:text agent:text deadline_s:s n:n success:pct±",
        "Share of timed trajectories that succeeded by the deadline; Wilson intervals.",
        "No source logs times.",
        group="benchmark",
    ),
    _table(
        "published_check",
        "The papers' figures, recomputed",
        "",
        "paper:text location:text quantity:text published:number recomputed:number status:text note:text",
        "Recomputed from other figures the papers print. `not_derivable` ones need data that was not printed.",
        simulated=False,
        group="location",
    ),
    _table(
        "drops",
        "What was left out",
        "",
        "stage:text source:text reason:text n:n | unit:text",
        "What one stage leaves out, others may still use: trajectories left out by `sample` are not in the audit, those left out by "
        "`select` not in its review, and questions are cut from them all the same.",
        "Nothing was dropped.",
        group="stage",
    ),
)

TABLES: dict[str, Table] = {table.name: table for table in _ALL}


def metadata(table: Table, rows: list[dict], note: str, empty: str) -> dict[str, Any]:
    """Return what ``tables.json`` says of a table."""
    flags = {bool(row["simulated"]) for row in rows} if table.run_data else set()
    simulated = "n/a" if not flags else "some" if len(flags) > 1 else "all" if flags == {True} else "none"
    return {
        "name": table.name,
        "title": table.title,
        "paper": table.paper,
        "note": note,
        "group": table.group,
        "n": len(rows),
        "empty": empty if not rows else "",
        "simulated": simulated,
        "columns": [
            {"name": c.name, "label": c.label, "unit": c.unit, "decimals": c.decimals, "kind": c.kind, "best": c.best, "extra": c.extra}
            for c in table.columns
        ],
    }
