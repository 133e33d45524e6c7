"""Where each table and figure stands in the report, and the words around it."""

from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True)
class Page:
    """One page of sections: its file, its word in the navigation, its heading and what it answers."""

    file: str
    word: str
    title: str
    intro: str


#: The pages beside the front one, in reading order.
PAGES = {
    "models": Page(
        "models.html",
        "Models",
        "Models compared",
        "Every table and figure that sets models side by side. Each model’s name leads to a page of its own.",
    ),
    "audit": Page(
        "audit.html",
        "Verdicts",
        "The verdict audit",
        "What a benchmark released of each logged attempt (its verdict: PASS or FAIL), what raters found when they looked again, and what "
        "that does to scores and ranks of the agents.",
    ),
    "questions": Page(
        "questions.html",
        "Questions",
        "What models were asked",
        "Three kinds of question are cut from logged trajectories, and the log itself holds the answers.",
    ),
    "data": Page(
        "data.html",
        "Data",
        "What was read, and what was left out",
        "Every record read was either kept or left out for a stated reason; nothing is left out silently.",
    ),
    "checks": Page(
        "checks.html",
        "Checks",
        "Checks and background",
        "What the numbers hang on, which printed figures of the papers can be recomputed, and how the papers frame the field.",
    ),
}

#: What stands under the heading of the front page.
FRONT = (
    "EvoAudit asks vision-language models about screens from logs, and looks again at the verdicts that benchmarks gave. An agent is a "
    "program that operates a screen to do a task; a trajectory is the log of one attempt, screen by screen; a verdict is what the "
    "benchmark’s checker made of it, PASS or FAIL."
)

#: What stands under the name of a model on its page.
MODEL = "One model: its scores by task and kind of question, its habits, what became of its answers, and what it got wrong."


@dataclass(frozen=True)
class Section:
    """One heading of the report: what it answers, then its tables, figures and examples in reading order."""

    id: str
    page: str
    title: str
    intro: str
    tables: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()


SECTIONS = (
    Section(
        "leaderboard",
        "models",
        "The leaderboard in full",
        "EvoGain is the mean of three scores, each rescaled so that guessing is 0 and a perfect score is 100: T1, the order of shuffled "
        "screens; T2 joint, the action between two screens with its value (top-1: the action alone); T3, which screen follows. Overlapping "
        "intervals do not settle which of two models is better; the table of pairwise differences does.",
        ("evogui_intervals", "evogui_main", "answers", "baselines"),
        ("evogain_forest", "parameter_trend"),
    ),
    Section(
        "differences",
        "models",
        "Where models differ",
        "The same answers, cut by kind of question, picture size, control condition and confidence. The condition `full` is the usual one, "
        "called “own pictures” in menus: the question with its own pictures and the goal.",
        (
            "t2_recall",
            "t2_value_in_goal",
            "t3_slices",
            "resolution",
            "shortcut_controls",
            "position_bias",
            "calibration",
            "reliability",
            "evogain_action",
            "pairwise_models",
            "osworld_relation",
            "rank_relation",
        ),
        ("t3_slices", "controls", "calibration"),
    ),
    Section(
        "questions",
        "questions",
        "The questions in numbers",
        "T1 asks for the order of shuffled screens, T2 for the action between two screens, T3 which of two screens follows an action.",
        ("split", "domains", "t3_review", "action_map", "split_sets", "other_sets"),
    ),
    Section(
        "verdicts",
        "audit",
        "Which verdicts to distrust",
        "A benchmark's verdict is wrong when its checker rejected work that did the task (an evaluator false negative) or when the "
        "task could not be done at all (a broken task). Only the rest are failures of the agent. Tables write GF for a genuine failure and "
        "EFN for an evaluator false negative.",
        ("audit_verdicts", "audit_estimate", "audit_diagnoses", "corrected_scores", "suspects", "draw"),
        ("verdicts_by_benchmark", "diagnoses", "rank_shift"),
    ),
    Section(
        "raters",
        "audit",
        "How far the raters agree",
        "Agreement beyond chance, rater by rater: kappa, alpha and AC1 are 1 where raters always agree and 0 where they agree as chance "
        "would have it. Low agreement means that a label depends on who gave it.",
        ("agreement", "annotator_rates", "evidence_ablation", "judge_consistency", "planted_orders", "human_agreement"),
        ("agreement",),
    ),
    Section(
        "signals",
        "audit",
        "What can be found without a model",
        "A repeated action on an unchanged screen, a challenge page, an answer that matches the reference in another form: rules find "
        "these at no cost. Here they are compared with what is known about each trajectory.",
        ("noop_probe", "signal_check", "planted_truth"),
        ("noop_probe",),
    ),
    Section(
        "sensitivity",
        "checks",
        "What the numbers hang on",
        "Some choices nobody can prove right: how ties are broken, what a missing answer counts as, what is resampled. Here each is made "
        "otherwise, and everything else stays as it is.",
        ("sensitivity",),
    ),
    Section(
        "cost",
        "models",
        "What the answers cost",
        "Tokens and money, where the providers state them. Built-in solvers and simulated models ask nothing of a service, so they have no "
        "cost; their cells are dashes.",
        ("cost",),
        ("cost_frontier",),
    ),
    Section(
        "agents",
        "audit",
        "What an agent’s success costs, and how long it takes",
        "Money and time of the logged attempts, where the logs or a file of measurements state them.",
        ("agent_cost", "timing", "deadline_curve"),
        ("agent_frontier", "success_deadline"),
    ),
    Section(
        "data",
        "data",
        "Counts, by stage and by reason",
        "What a stage reads is what it keeps plus what it leaves out, or the column `reconciles` says no.",
        ("ingest", "alignment", "drops"),
    ),
    Section(
        "background",
        "checks",
        "Background, and the papers' own figures",
        "How the two papers frame the field, and which of their printed figures follow from their own tables.",
        ("published_check", "landscape", "design_guidelines", "mast_map"),
        ("pipeline",),
    ),
)

#: Tables and figures no section names, so that none is ever left out of the page.
REST = Section("more", "checks", "More tables", "Further tables of this run.")

#: Figure → (title, what it shows), where the figures' own folder does not say.
FIGURES = {
    "pipeline": ("The pipeline", "How a score comes about: from logged trajectories through probes and audit to the tables."),
    "parameter_trend": ("Size and EvoGain", "EvoGain against the number of parameters, one line a model family."),
    "evogain_forest": (
        "EvoGain with intervals",
        "EvoGain of each model, best first. The band is the interval over trajectories, the one that stands beside EvoGain in this report; "
        "the thin line resamples items one by one, as the paper does.",
    ),
    "t3_slices": (
        "T3 by kind of distractor",
        "Accuracy in T3 by distractor: cross-trajectory (of another domain), same domain, or long skip (later in the same trajectory).",
    ),
    "controls": (
        "Controls and shortcut solvers",
        "Scores under every condition a model was asked in, beside those of solvers that understand nothing.",
    ),
    "calibration": ("Confidence and correctness", "Share of correct answers against the confidence stated."),
    "verdicts_by_benchmark": ("Verdicts by benchmark", "Audited verdicts of each benchmark by what they turned out to be."),
    "diagnoses": ("Diagnoses", "Genuine failures by category and tier, with intervals."),
    "agreement": ("Agreement", "Agreement of the raters, beyond chance, with intervals."),
    "noop_probe": ("No-op probe", "Precision and recall of the no-op rule at each run length."),
    "rank_shift": (
        "Ranks after correction",
        "Rank of each agent as released and after correcting for wrong verdicts. Intervals cover the evaluator’s error alone, not which "
        "tasks were drawn: one of no width means that every FAIL was audited, however few there were.",
    ),
    "cost_frontier": ("Score and price", "Score of each model against what its answers cost."),
    "agent_frontier": ("Success and price of agents", "Verified success of each agent against what an attempt cost, by benchmark."),
    "success_deadline": ("Success by deadline", "Share of tasks done within a given time."),
}

#: Group of the built-in solvers in the tables; they compete for no best value.
BASELINE = "Baseline"

VERDICTS = {"gf": "genuine failure", "efn": "evaluator false negative", "broken": "broken task", "unclear": "unclear"}

CATEGORIES = {
    "t1-spec": "misread the task",
    "t1-loop": "repeated itself",
    "t1-hall": "acted on something that was not there",
    "t2-ground": "hit the wrong element",
    "t2-state": "lost track of the state",
    "t2-tool": "misused an action",
    "t3-term": "stopped too early or too late",
    "t3-verif": "did not check the result",
    "t3-noop": "did not notice that nothing changed",
    "other": "other",
    "ambiguous": "ambiguous",
}

SIGNALS = {
    "noop_run": "repeated an action on an unchanged screen",
    "noop_any": "an action changed nothing",
    "cycle": "went round in a circle",
    "challenge_page": "met a challenge page",
    "environment_error": "the environment failed",
    "evaluator_error": "the checker failed",
    "answer_matches": "the answer matches the reference",
    "state_matches": "the final state matches the reference",
}

#: Table → what is said of it where a page shows it otherwise than its files do.
NOTES = {
    "evogui_intervals": "Point estimates are the observed accuracies. The interval beside EvoGain resamples whole trajectories, since "
    "questions of one are right or wrong together; rank intervals and the chance of being best come from the same resamples. `items "
    "interval` resamples items one by one, as the EvoGUI paper does, for comparing with it. Built-in solvers that do not compete have "
    "that one alone. In the files, `evogain_low` and `evogain_high` are the items’ interval, `cluster_low` and `cluster_high` that over "
    "trajectories."
}

#: Stages that leave trajectories and labels out of the audit, and not out of the run.
AUDITING = ("sample", "select", "combine")

#: Reason code → what it means, where `evoaudit.reasons` says it to those who mend logs, or not at all.
REASONS = {
    "lfs_pointer": "an incomplete git-lfs download: a pointer stands where the file should be",
    "not_adjacent": "the step has no pair of screens in direct succession",
    "trajectory_share": "its trajectory has already given as many questions as one may",
    "benchmark_not_requested": "the audit is of other benchmarks",
    "unscored": "the log holds no verdict",
    "nonzero_reward": "released as more than 0, so it is no FAIL",
    "evaluator_error": "the checker crashed, so there is no verdict",
    "not_drawn": "there was no more room for it",
    "not_in_review_set": "a label of a trajectory that nobody was asked to review",
    "agreement_not_drawn": "the judges agree, and it is not among the drawn ones that people review all the same",
    "awaits_review": "people have yet to label it",
}

#: Heading under which the two papers are named.
PAPERS = "The two papers"

#: Methods in a few lines: (heading, text).
METHODS = (
    (
        "Questions",
        "T1 shows 3 to 5 shuffled screens (K=3 is: three) and counts as right when the whole order is right. T2 joint is right when action "
        "and value both are, T2 top-1 when the action is. T3 is right when the right one of two screens is chosen.",
    ),
    (
        "EvoGain",
        "Each of T1, T2 joint and T3 is rescaled by (score − chance) ÷ (100 − chance); EvoGain is their mean. EvoGain-Action takes T2 "
        "top-1 in place of T2 joint.",
    ),
    (
        "Unusable and missing answers",
        "An answer that cannot be read counts as wrong. A question without any answer (a refusal, an error of the service) is counted "
        "apart and never as wrong.",
    ),
    (
        "Intervals",
        Markup(
            "The interval beside EvoGain, those of ranks and those of differences between models resample whole trajectories, the same for "
            "all models, and keep every slice’s share: questions cut from one trajectory are right or wrong together. The paper "
            '<a href="#papers">EvoGUI</a> resamples items one by one; that interval knows nothing of this, and stands apart, as “items '
            "interval”, for comparing with the paper. "
            "Built-in solvers beside models, and a run of one trajectory, have it alone. Intervals of shares are Wilson’s."
        ),
    ),
    (
        "Audit",
        Markup(
            'As the <a href="#papers">CUA audit</a> has it, raters label a sample of verdicts without seeing each other’s labels. Every '
            "disagreement, and a drawn part of the agreements, goes to people. Agreement of people decides; else the majority; else, where "
            "nobody looked again, the judges. The two-phase estimate lets the reviewed rows speak for those that nobody reviewed."
        ),
    ),
    (
        "Simulated data",
        "Trajectories and raters that were simulated are marked so in every table. They test the method and say nothing of any product.",
    ),
    (
        PAPERS,
        "“EvoGUI” is EvoGUI: An Evolution-Aware Benchmark for GUI State-Transition Understanding (questions, EvoGain). “CUA audit” is "
        "How Benchmarks Mis-Score Computer-Use Agents, arXiv:2607.28367 (codebook, raters, wrong verdicts). A table’s reference, such as "
        "“EvoGUI Table 3”, says where the paper has it.",
    ),
    ("Rounding", "Numbers on this page are rounded. The CSV and Parquet files hold full precision."),
)
