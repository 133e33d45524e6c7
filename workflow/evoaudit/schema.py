"""The one schema: every table that passes between stages, declared once and checked on every write."""

import pyarrow as pa

from evoaudit import conditions


def _field(name: str, kind: pa.DataType, doc: str, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"doc": doc})


def _required(name: str, kind: pa.DataType, doc: str) -> pa.Field:
    return _field(name, kind, doc, nullable=False)


_S, _I, _F, _B = pa.string(), pa.int32(), pa.float64(), pa.bool_()

TARGET = pa.struct(
    [
        _field("x", _F, "pointer, pixels of the picture the agent acted on"),
        _field("y", _F, "pointer"),
        _field("left", _F, "element box"),
        _field("top", _F, "element box"),
        _field("width", _F, "element box"),
        _field("height", _F, "element box"),
        _field("text", _S, "element's role and text as the source gives them"),
    ]
)

TRAJECTORIES = pa.schema(
    [
        _required("trajectory_id", _S, "unique in a run; `<source>:<native id>`, or the user's own id for the plain format"),
        _required("source", _S, "name of the source in the config"),
        _required("kind", _S, "format the source was read from"),
        _field("benchmark", _S, "benchmark the task belongs to"),
        _field("task_id", _S, "task, verbatim"),
        _field("task_revision", _S, "revision of the task, where the source states one"),
        _field("agent", _S, "agent or model that acted; null for human demonstrations"),
        _field("experiment", _S, "experiment or run the trajectory belongs to"),
        _field("domain", _S, "domain or application, lower case"),
        _field("website", _S, "site or window"),
        _field("instruction", _S, "the user's goal"),
        _field("answer", _S, "final answer the agent gave"),
        _field("reference", _S, "reference answer or state the oracle compared with"),
        _field("final_url", _S, "address after the last action, where the source logs one"),
        _field("final_text", _S, "accessible text after the last action, where the source logs it, bounded"),
        _required("n_steps", _I, "steps kept"),
        _field("license", _S, "licence string of the source"),
        _required("simulated", _B, "true if the trajectory was simulated"),
        _required("source_file", _S, "file it was read from, relative to the source's root"),
        _required("source_sha256", _S, "sha256 of that file"),
    ]
)

STEPS = pa.schema(
    [
        _required("trajectory_id", _S, ""),
        _required("step", _I, "0…n-1, ours"),
        _field("source_step", _S, "the source's own step number, verbatim"),
        _required("gap_before", _B, "true if the source's numbering (or tab, or a lost record) breaks adjacency before this step"),
        _required("op", _S, "unified operation, see `actions.OPS`"),
        _field("op_raw", _S, "the source's action, verbatim"),
        _field("value", _S, "typed text, selected option, key, URL or answer"),
        _field("target", TARGET, "where the action went"),
        _field("reasoning", _S, "the agent's stated reasoning"),
        _field("url", _S, "address before the action"),
        _field("page_text", _S, "accessible text before the action, where the source logs it, bounded"),
        _field("before_image", _S, "image_id of the screen before the action"),
        _field("after_image", _S, "image_id of the screen after the action"),
        _required("obs_phase", _S, "what the source logs: `before`, `after` or `both`"),
        _field("timestamp", _F, "seconds, epoch or from the recording's start; may be negative"),
        _field("error", _S, "error the environment reported for this action"),
    ]
)

CHANGES = pa.schema(
    [
        _required("trajectory_id", _S, ""),
        _required("step", _I, ""),
        _required("state", _S, "`same` (decoded pixels equal), `changed`, or `unknown` (a picture is missing or sizes differ)"),
        _field("changed_pixels", pa.int64(), "pixels whose largest channel difference exceeds 24"),
        _field("changed_tiles", _I, "16-pixel tiles that hold such a pixel"),
        _field("tiles_x", _I, "tiles in a row"),
        _field("tiles_y", _I, "tiles in a column"),
        _field("tiles", pa.binary(), "row-major bitmap of changed tiles, most significant bit first"),
    ]
)

IMAGES = pa.schema(
    [
        _required("image_id", _S, "sha256 of size and decoded pixels, so that re-encoded twins meet; `broken-…` where there are no pixels"),
        _required("source", _S, ""),
        _required("file", _S, "file that holds it, relative to the source's root"),
        _field("member", _S, "place inside that file (Parquet row, archive member); null if the file is the picture"),
        _field("file_sha256", _S, "sha256 of the encoded bytes"),
        _field("width", _I, "pixels"),
        _field("height", _I, "pixels"),
        _field("format", _S, "codec found by content"),
        _required("status", _S, "`ok`, `missing`, `lfs_pointer`, `truncated`, `too_large`, `not_an_image`"),
        _field("phash", _S, "64-bit perceptual hash, 16 hex digits; nominates near-twins, decides nothing"),
        _field("blank", _F, "share of the commonest colour, 0…1"),
        _required("n_uses", _I, "references from steps of this source"),
    ]
)

ORACLE_RESULTS = pa.schema(
    [
        _required("trajectory_id", _S, ""),
        _required("oracle", _S, "checker that produced the verdict"),
        _field("oracle_version", _S, ""),
        _field("raw_reward", _F, "the released number, untouched"),
        _required("verdict", _S, "`pass`, `fail`, `error` or `unscored`"),
        _required("status", _S, "`ok`, or why there is no verdict; a crashed evaluator is not a FAIL"),
    ]
)

LABELS = pa.schema(
    [
        _required("trajectory_id", _S, ""),
        _required("annotator", _S, ""),
        _required("kind", _S, "`llm`, `human`, `rules`, `simulated` or `ensemble`"),
        _required("stage", _S, "`blind`, `informed` or `adjudicated`"),
        _field("verdict", _S, "`gf`, `efn`, `broken`, `unclear`"),
        _field("category", _S, "failure category; null unless `gf`"),
        _field("evidence_steps", pa.list_(_I), "steps the label rests on"),
        _field("confidence", _F, "0…1"),
        _field("seconds", _F, "active time"),
        _field("note", _S, ""),
        _field("codebook_version", _S, ""),
        _required("simulated", _B, "true if the rater was simulated"),
    ]
)

#: What a source's own annotators said, in the source's own terms (for instance AgentRewardBench's looping question).
ANNOTATIONS = pa.schema(
    [
        _required("trajectory_id", _S, "benchmark, agent, experiment and task joined where the source has no id"),
        _required("annotator", _S, "a person, or `judge:` and the name of a released judge"),
        _required("question", _S, "what was asked"),
        _field("answer", _S, "verbatim answer, outer white space removed"),
        _field("benchmark", _S, ""),
        _field("agent", _S, ""),
        _field("task_id", _S, ""),
        _required("row", _I, "row in the source file, in file order"),
    ]
)

#: What a simulated trajectory really was. Never read by a judge, a probe or a rule; only compared with.
TRUTH = pa.schema(
    [
        _required("trajectory_id", _S, ""),
        _required("planted", _S, "planted kind, for instance `efn-answer-form` or `t3-noop`"),
        _required("outcome", _S, "`success`, `gf`, `efn`, `broken`, `unclear` or `demonstration`"),
        _field("category", _S, "planted failure category"),
        _field("lookalike", _S, "benign look-alike planted beside it, for instance `caret-blink`"),
        _field("evidence_step", _I, "step at which the planted fault shows"),
    ]
)

#: Orders to judges that were planted in a simulated corpus; there only where there are any. Never read by a judge, a probe or a rule.
INJECTIONS = pa.schema(
    [
        _required("trajectory_id", _S, ""),
        _required("place", _S, "`page`, `reasoning`, or `picture` (in no text)"),
        _required("words", _S, "the order"),
    ]
)

#: What attempts cost, there only where logs of the source say so.
COSTS = pa.schema(
    [
        _required("trajectory_id", _S, ""),
        _required("usd", _F, "dollars, more than 0"),
        _required("field", _S, "the log's own field that says so, for instance `stats.cum_cost`"),
    ]
)

DROPS = pa.schema(
    [
        _required("stage", _S, "stage that left the record out"),
        _required("source", _S, ""),
        _required("unit", _S, "`trajectory`, `step`, `transition` (a step's pair of screens), `picture`, `row`, `candidate` or `verdict`"),
        _required("item", _S, "the record: an id, or file and line"),
        _required("reason", _S, "short code"),
        _field("detail", _S, "one line for people"),
    ]
)

_PROBE = [
    _required("instance_id", _S, "hash of what is asked, so that it survives reordering"),
    _required("trajectory_id", _S, ""),
    _required("source", _S, ""),
    _field("domain", _S, "unit of balance: the website or application, or the domain where the source names neither"),
    _field("website", _S, ""),
    _required("images", pa.list_(_S), "image_id in the order shown"),
    _field("goal", _S, "instruction, for the prompt"),
    _required("slice", _S, "`K=3`…, `click`…, `cross`…"),
    _required("stream", _S, "named seed stream the presentation was drawn from"),
    _required("simulated", _B, ""),
]
T1 = pa.schema(
    [
        *_PROBE,
        _required("steps", pa.list_(_I), "steps of the pictures in the order shown"),
        _required("answer", pa.list_(_I), "1-based positions, earliest first"),
    ]
)
T2 = pa.schema(
    [
        *_PROBE,
        _required("step", _I, "step of the transition"),
        _required("answer_action", _S, "`click`, `type` or `select`; in a set beyond the browser also other operations"),
        _field("answer_value", _S, "exact logged value; empty for all but typing and choosing"),
        _required("value_in_goal", _B, "the value stands verbatim in the goal"),
    ]
)
T3 = pa.schema(
    [
        *_PROBE,
        _required("step", _I, "step of the transition"),
        _required("answer", _S, "`A` or `B`"),
        _required("distractor_trajectory", _S, ""),
        _required("distractor_step", _I, "step whose screen it is"),
    ]
)

PREPARED = pa.schema(
    [
        _required("image_id", _S, ""),
        _required("max_image_side", _I, "longest side allowed, pixels"),
        _required("width", _I, ""),
        _required("height", _I, ""),
        _required("format", _S, "codec of `data`"),
        _required("resampling", _S, "filter used"),
        _required("data", pa.binary(), "encoded bytes as every model receives them"),
    ]
)

PREDICTIONS = pa.schema(
    [
        _required("model", _S, ""),
        _required("condition", _S, conditions.words()),
        _required("max_image_side", _I, ""),
        _required("run", _I, "replicate, 0 unless the solver is random"),
        _required("task", _S, "`t1`, `t2` or `t3`"),
        _required("instance_id", _S, ""),
        _field("pictures_of", _S, "instance whose pictures were sent, where they are not its own (`shuffled_images`)"),
        _field("raw", _S, "the answer's text, untouched"),
        _required(
            "status",
            _S,
            "`ok`, `refused`, `content_filter`, `truncated`, `context_overflow`, `auth`, `rate_limited`, `server`, `timeout`, "
            "`empty`, `http_error`, `picture_missing` or `picture_limit`; of a judge also `missing_evidence`",
        ),
        _field("finish_reason", _S, "the service's own word for why the answer ended"),
        _field("served", _S, "model the service says it asked"),
        _field("error", _S, "one line"),
        _field("input_tokens", pa.int64(), "over all calls recorded for this row: repeated ones are paid for too"),
        _field("cached_tokens", pa.int64(), "of these, read from the service's cache"),
        _field("output_tokens", pa.int64(), "over the same calls"),
        _field("reasoning_tokens", pa.int64(), "of these, spent on reasoning"),
        _field("usd", _F, "price of these calls, by `config/prices.yaml`; null where unknown"),
        _field("limit_hit", _B, "true if an answer was cut by the bound on output tokens; it is asked once more with twice that"),
        _field("max_output_tokens", pa.int64(), "bound on output tokens of the answer kept"),
        _field("reused", _B, "true if the answer was bought by another run, or for an earlier row with the very same request"),
        _field("request", _S, "sha256 of all that was sent; null where nothing was"),
        _field("prompt", _S, "sha256 of the texts sent"),
        _field("pictures", pa.list_(pa.string()), "sha256 of the bytes of each picture sent, in order"),
    ]
)

SCORES = pa.schema(
    [
        _required("model", _S, ""),
        _required("condition", _S, ""),
        _required("max_image_side", _I, ""),
        _required("run", _I, ""),
        _required("task", _S, ""),
        _required("instance_id", _S, ""),
        _required("trajectory_id", _S, ""),
        _required("source", _S, ""),
        _field("domain", _S, ""),
        _required("slice", _S, ""),
        _required("status", _S, "`answered`, `invalid` (answered, unusable: wrong) or `unanswered` (no answer: counted apart)"),
        _required("parse_path", _S, "`json`, `fallback`, `invalid` or `none`"),
        _field("answer", _S, "parsed answer, canonical JSON"),
        _field("confidence", _F, "0…1"),
        _required("correct", _B, "T1 exact, T2 joint, T3 choice"),
        _field("action_correct", _B, "T2 action alone"),
        _field("tau", _F, "T1 Kendall tau of the order given"),
        _field("value_in_goal", _B, "T2"),
        _required("simulated", _B, ""),
    ]
)

SAMPLE = pa.schema(
    [
        _required("trajectory_id", _S, ""),
        _field("source", _S, ""),
        _field("benchmark", _S, ""),
        _field("agent", _S, ""),
        _field("experiment", _S, ""),
        _field("task_id", _S, ""),
        _field("domain", _S, ""),
        _field("raw_reward", _F, ""),
        _required("verdict", _S, "released verdict"),
        _field("order", _I, "place in the interleaved order of its quota"),
        _required("status", _S, "`analysed`, `calibration`, or why it was not taken"),
        _required("simulated", _B, ""),
    ]
)

SIGNALS = pa.schema(
    [
        _required("trajectory_id", _S, ""),
        _required(
            "signal",
            _S,
            "`noop_run`, `noop_any`, `cycle`, `challenge_page`, `environment_error`, `evaluator_error`, `answer_matches`, `state_matches`",
        ),
        _required("parameter", _I, "run length r, or 0"),
        _required("fired", _B, ""),
        _field("evidence_steps", pa.list_(_I), ""),
        _field("detail", _S, ""),
    ]
)

NOOPS = pa.schema(
    [
        _required("trajectory_id", _S, ""),
        _required("step", _I, ""),
        _required("screen", _S, "`no_change`, `volatile_only`, `changed` or `unknown`"),
        _required("same_action", _B, "the same verb, target and text as the step before"),
        _required("run", _I, "length of the unchanged same-action run ending here"),
        _field("exempt", _S, "why an unchanged screen is expected here, or null"),
    ]
)

JUDGMENTS = pa.schema(
    [
        *LABELS,
        _required("judge_id", _S, "hash of prompt, codebook, model, parameters and evidence policy"),
        _required("evidence", _S, "`screenshots+text`, `text`"),
        _required(
            "status",
            _S,
            "`ok`; or why there is no verdict: `parse_error` (a reply that cannot be used, twice), `missing_evidence`, `abstained` (an "
            "ensemble whose members differ), or as in `predictions`",
        ),
        _field("rationale", _S, ""),
        _field("input_tokens", pa.int64(), "over all calls recorded for this row, that for a repaired reply included"),
        _field("output_tokens", pa.int64(), "over the same calls"),
        _field("usd", _F, "price of these calls, by `config/prices.yaml`; null where unknown"),
    ]
)

#: Every word of a judge that was asked several times about each trajectory. The first draw is its judgment; the others cast no vote.
DRAWS = pa.schema(
    [
        _required("trajectory_id", _S, ""),
        _required("annotator", _S, ""),
        _required("evidence", _S, "`screenshots+text`, `text`"),
        _required("draw", _I, "0, the one that is in `judgments`, and so on"),
        _required("status", _S, "as in `judgments`"),
        _field("verdict", _S, "`gf`, `efn`, `broken`, `unclear`"),
        _field("category", _S, "failure category; null unless `gf`"),
        _field("confidence", _F, "0…1"),
        _required("judge_id", _S, "as in `judgments`"),
        _required("simulated", _B, "true if the rater was simulated"),
    ]
)

REVIEW_SET = pa.schema(
    [
        _required("trajectory_id", _S, ""),
        _field("benchmark", _S, ""),
        _required("stratum", _S, "`verdict_disagree`, `category_disagree`, `agree`, or `missing` (a judge gave no verdict)"),
        _required("selected", _B, ""),
        _required("reason", _S, "why it is, or is not, in the review set"),
    ]
)

FINAL = pa.schema(
    [
        _required("trajectory_id", _S, ""),
        _field("benchmark", _S, ""),
        _field("agent", _S, ""),
        _field("task_id", _S, ""),
        _required("verdict", _S, "`gf`, `efn`, `broken`, `unclear`"),
        _field("category", _S, ""),
        _required("verdict_rule", _S, "`adjudication`, `human_agreement`, `majority`, `judges`, `tie`"),
        _field("category_rule", _S, ""),
        _required("reviewed", _B, ""),
        _required("n_raters", _I, ""),
        _required("simulated", _B, "a simulated trajectory or rater contributed"),
    ]
)

#: File name without `.parquet` → schema.
TABLES: dict[str, pa.Schema] = {
    "trajectories": TRAJECTORIES,
    "steps": STEPS,
    "changes": CHANGES,
    "images": IMAGES,
    "oracle_results": ORACLE_RESULTS,
    "labels": LABELS,
    "annotations": ANNOTATIONS,
    "truth": TRUTH,
    "injections": INJECTIONS,
    "costs": COSTS,
    "drops": DROPS,
    "t1": T1,
    "t2": T2,
    "t3": T3,
    "prepared": PREPARED,
    "predictions": PREDICTIONS,
    "scores": SCORES,
    "sample": SAMPLE,
    "signals": SIGNALS,
    "noops": NOOPS,
    "judgments": JUDGMENTS,
    "draws": DRAWS,
    "review_set": REVIEW_SET,
    "final": FINAL,
}


def empty(name: str) -> pa.Table:
    """Return the empty table called ``name``."""
    return TABLES[name].empty_table()


def markdown() -> str:
    """Render every schema for people."""
    parts = []
    for name, schema in TABLES.items():
        rows = [f"### `{name}`", "", "| column | type | null | meaning |", "| --- | --- | --- | --- |"]
        for field in schema:
            doc = (field.metadata or {}).get(b"doc", b"").decode()
            kind = "struct" if pa.types.is_struct(field.type) else str(field.type).replace("list<element: string>", "list<string>")
            rows.append(f"| {field.name} | {kind} | {'yes' if field.nullable else ''} | {doc} |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"
