"""The typed config: every field with its default, its meaning and its bounds.

A config is one YAML tree (any section may be a path to a YAML file). It is checked whole before anything runs; a wrong
field is refused with its file, its name and the nearest right name.
"""

import datetime
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from evoaudit import conditions as known
from evoaudit import yamlfile
from evoaudit.errors import InputError
from evoaudit.givenfile import read_given
from evoaudit.sources import MODULES
from evoaudit.yamlfile import short

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
Name = Annotated[str, StringConstraints(pattern=NAME)]
Count = Annotated[int, Field(ge=0, le=10_000_000)]
Share = Annotated[float, Field(gt=0, le=1)]
Chance = Annotated[float, Field(ge=0, le=1)]

#: Every kind that has a reader, and the simulated corpus.
Kind = Literal[(*sorted(MODULES), "simulated")]
#: What a model may be shown.
Conditions = tuple[Literal[(*known.NAMES,)], ...]
#: Prices that are used where they are there.
PRICES = "config/prices.yaml"
#: Bytes of a YAML file at most.
LARGEST = 64 * 2**20
SIMULATED_FORMATS = ("mind2web", "weblinx", "agentrewardbench", "osworld", "plain")


#: Fields that choose a part of a source → the kinds whose readers know them.
CHOICES = {
    "split": frozenset({"agentrewardbench", "androidcontrol", "mind2web", "weblinx"}),
    "benchmarks": frozenset({"agentrewardbench", "browsergym"}),
    "agents": frozenset({"agentrewardbench", "androidworld", "browsergym", "osworld"}),
    "files": frozenset({"agentrewardbench", "androidcontrol", "androidworld", "browsergym", "mind2web", "osworld", "weblinx"}),
}


class Section(BaseModel):
    """Base of all sections: unknown fields are refused, values are not changed after checking."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, ser_json_inf_nan="constants", serialize_by_alias=True)

    @field_validator("*", mode="before")
    @classmethod
    def _flags_are_no_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse true and false where a number or a word is meant: they would be read as 1 and 0."""
        annotation = cls.model_fields[info.field_name or ""].annotation
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        held = () if isinstance(annotation, type) and issubclass(annotation, BaseModel) else inner
        if annotation is not bool and any(isinstance(one, bool) for one in (value, *held)):
            raise PydanticCustomError("flag", "is no place for true or false")
        return value


def _distinct(value: tuple | None) -> tuple | None:
    """Refuse a list that is empty or names something twice: the first asks nothing, the second pays for everything twice."""
    if value is not None:
        if not value:
            raise ValueError("is empty; leave it out for the default")
        if twice := next((one for n, one in enumerate(value) if one in value[:n]), None):
            raise ValueError(f"names {twice} twice")
    return value


class Run(Section):
    """Name and seed of the run."""

    name: Name = Field("demo", description="names the folder results/runs/<name>/")
    seed: int = Field(20260717, ge=0, lt=2**63, description="seed of every random stream")


class Source(Section):
    """One data set, or one folder of your own logs."""

    name: Name = Field(description="names the source in every table")
    kind: Kind = Field(description="native format")
    path: str | None = Field(None, description="folder that holds it, relative to `root`")
    hub: str | None = Field(
        None,
        pattern=r"^[\w.-]{1,96}/[\w.-]{1,96}$",
        description="data set on the hub; `snakemake download` fetches it",
    )
    revision: str | None = Field(
        None, pattern=r"^[\w./-]{1,200}$", description="branch, tag or commit on the hub (default: main); the lock file pins its commit"
    )
    split: str | None = Field(None, description="split to download and read, where the format has splits")
    benchmarks: tuple[str, ...] | None = Field(None, min_length=1, description="benchmarks to download and read (AgentRewardBench)")
    agents: tuple[str, ...] | None = Field(None, min_length=1, description="agents to download and read; names or patterns with `*`")
    files: tuple[str, ...] | None = Field(None, min_length=1, description="files to download and read; paths or patterns with `*`")
    obs_phase: Literal["before", "after"] | None = Field(
        None, description="whether pictures show the screen before or after their action, where the source's own word is wrong"
    )
    tasks: str | None = Field(None, description="JSON Lines of task_id and reference, joined to trajectories that lack one")
    benchmark: str | None = Field(None, description="benchmark name, where the format does not say")
    domain: str | None = Field(None, description="domain, where the format does not say")
    experiment: str | None = Field(None, description="experiment name, where the format does not say")
    license: str | None = Field(None, description="licence string, if it differs from the reader's")
    trajectories: int | None = Field(None, ge=1, le=10_000_000, description="size of a simulated corpus")
    formats: tuple[Literal["mind2web", "weblinx", "agentrewardbench", "osworld", "plain"], ...] | None = Field(
        None, description="native formats a simulated corpus is written in (default: all)"
    )
    injections: bool = Field(
        False,
        description="whether a simulated corpus holds orders to judges, on pages, in reasoning and in pictures, whose places are known",
    )

    @model_validator(mode="after")
    def _kind_fits(self) -> "Source":
        if self.kind == "simulated":
            if self.trajectories is None:
                raise ValueError("a simulated source needs 'trajectories', for instance 200")
            for name in sorted(set(type(self).model_fields) - {"name", "kind", "trajectories", "formats", "injections"}):
                if getattr(self, name) is not None:
                    raise ValueError(f"a simulated source takes no '{name}'")
            return self
        for name in ("trajectories", "formats", "injections"):
            if getattr(self, name) not in (None, False):
                raise ValueError(f"only a simulated source takes '{name}'")
        for name, kinds in CHOICES.items():
            if getattr(self, name) is not None and self.kind not in kinds and not (name == "files" and self.hub):
                raise ValueError(f"kind '{self.kind}' takes no '{name}'; {', '.join(sorted(kinds))} do")
        if self.path is None and self.hub is None:
            raise ValueError("needs 'path', the folder that holds it, or 'hub', the data set to download")
        return self


class T1(Section):
    """Temporal ordering (EvoGUI §2.2)."""

    quota: dict[Literal[3, 4, 5], Count] = Field({3: 334, 4: 333, 5: 333}, description="items by number of screens K")

    @field_validator("quota", mode="before")
    @classmethod
    def _digits(cls, quota: Any) -> Any:
        """JSON cannot write a number as a key."""
        return {int(k) if isinstance(k, str) and k.isdecimal() else k: v for k, v in quota.items()} if isinstance(quota, dict) else quota


class T2(Section):
    """Inverse action and value prediction."""

    quota: dict[Literal["click", "type", "select"], Count] = Field({"click": 461, "type": 461, "select": 78}, description="items by action")


class T3(Section):
    """One-step successor discrimination."""

    quota: dict[Literal["cross", "same_domain", "long_skip"], Count] = Field(
        {"cross": 334, "same_domain": 333, "long_skip": 333}, description="items by distractor tier"
    )
    reviewed: str | tuple[str, ...] | None = Field(
        None, description="decisions of the human quality control, JSON Lines: one file, or a list with one a reviewer"
    )


#: What T2 of another set may ask for: the paper's classes, and operations that its vocabulary leaves out.
OtherAction = Literal[
    "click",
    "type",
    "select",
    "double_click",
    "right_click",
    "long_press",
    "drag",
    "scroll",
    "swipe",
    "key",
    "copy",
    "submit",
    "navigate",
    "back",
    "forward",
    "tab",
    "open_app",
]


class OtherT2(Section):
    """Inverse action and value prediction with a vocabulary of its own."""

    quota: dict[OtherAction, Count] = Field(description="items by action; its actions are the set's vocabulary, in the prompts too")


class ProbeSet(Section):
    """Probes beyond the browser, mined, asked and reported apart (EvoGUI §2.5)."""

    sources: tuple[str, ...] = Field(min_length=1, description="sources of the set, as the tables name them; of one platform")
    t1: T1 = T1()
    t2: OtherT2
    t3: T3 = T3()


class Probes(Section):
    """What is mined."""

    sources: tuple[str, ...] | None = Field(
        None, min_length=1, description="sources of the paper's set, as the tables name them (default: all of web pages, and plain logs)"
    )
    sets: dict[Name, ProbeSet] = Field({}, description="further sets by name, never mixed into the paper's")
    t1: T1 = T1()
    t2: T2 = T2()
    t3: T3 = T3()
    max_share_per_trajectory: Share = Field(0.05, description="largest share of a slice's quota one trajectory may fill")
    min_changed_tiles: int = Field(1, ge=1, le=100_000, description="16-pixel tiles that must change for a transition to count as visible")
    near_twin_tiles: int = Field(
        2, ge=0, le=100_000, description="two screens that differ in at most this many tiles are indistinguishable"
    )


class Inference(Section):
    """How models are asked; a model's own entry overrides these."""

    conditions: Conditions = Field(("full",), description="what models are shown; the table of conditions says what each is")
    max_image_side: tuple[Annotated[int, Field(ge=16, le=8192)], ...] = Field((512,), description="longest picture side, pixels")
    temperature: float = Field(0.0, ge=0, le=2, description="sampling temperature")
    max_output_tokens: int = Field(4096, ge=1, le=1_000_000, description="bound on one answer")
    goal: Literal["shown", "withheld"] = Field("shown", description="whether prompts carry the user's goal")
    prompts: str = Field("evogui-v1", description="folder under resources/prompts/ (or resources/prompts/imported/)")
    budget_usd: float | None = Field(
        None,
        ge=0,
        description="stop before spending more than this on one model under one condition at one picture size, or on one judge with one "
        "kind of evidence",
    )
    prices: str = Field(PRICES, description="file of dollars per million tokens; without the default one costs are unknown")
    reuse: Literal["none", "resume", "all"] = Field(
        "resume",
        description="answers that need not be bought: `none`, those of this run alone, so that a new run.name asks everything anew; "
        "`resume`, those of any run with the same settings; `all`, besides, good answers to the very same request in any run",
    )
    tolerate: float = Field(
        0.01,
        ge=0,
        allow_inf_nan=False,
        description="requests that may stay unanswered: a share below 1, or a number from 1; with more the job fails at its end, keeps its "
        "answers, and asks the rest next time",
    )
    concurrency: int = Field(8, ge=1, le=1024, description="requests in flight for one model")
    timeout_s: float = Field(120.0, gt=0, le=86_400, description="deadline of one call, seconds")
    deadline_s: float = Field(1800.0, gt=0, le=864_000, description="deadline of one request with all its tries, seconds")
    retries: int = Field(
        6,
        ge=0,
        le=100,
        description="tries after the first for rate limits and server faults; rate limits count only while nothing else is answered",
    )
    batch_wait_h: float = Field(
        24.0,
        ge=0,
        le=8784,
        allow_inf_nan=False,
        description="hours a job waits for its batches; then it fails, keeps everything, and collects them when it is run again",
    )
    json_answers: bool = Field(
        False, alias="schema", description="hold answers to the prompts' JSON schema, where the endpoint can; the paper parses free text"
    )
    random_runs: int = Field(4, ge=1, le=1000, description="replicates of the random solver, averaged")

    _distinct = field_validator("conditions", "max_image_side")(_distinct)


class Accuracy(Section):
    """What a simulated model is made to score."""

    t1: Chance = Field(0.3, description="chance of the exact order")
    t2: Chance = Field(0.6, description="chance of the right action")
    t2_value: Chance = Field(0.7, description="chance of the exact value, given the right action")
    t3: Chance = Field(0.7, description="chance of the right successor")


class Serve(Section):
    """A server of this machine that is started for a model's jobs and stopped with them."""

    command: str = Field(min_length=1, description="command line that starts it; `{port}` and `{model}` are filled in")
    port: int = Field(30000, ge=1, le=65535, description="port it listens on")
    health: str = Field("/health", pattern=r"^/\S*$", description="path that answers with 200 once it is ready")
    ready_s: float = Field(1800.0, gt=0, le=86_400, description="seconds it may take until then")


class Model(Section):
    """One model to ask."""

    name: Name = Field(description="the row's name in every table")
    group: Literal["open", "closed", "baseline"] = Field("open", description="group in the tables")
    provider: Literal["openai", "google", "anthropic", "codex", "builtin"] = Field(description="who is asked, and how")
    model: str | None = Field(None, description="the provider's model id (default: the name)")
    family: str | None = Field(None, description="family, for the parameter trend")
    api: Literal["chat", "responses"] = Field("chat", description="OpenAI's protocol: Chat Completions or Responses")
    base_url: str | None = Field(None, description="address of the service, where it is not the vendor's own")
    api_key_env: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="environment variable that holds the key")
    parameters_b: float | None = Field(None, gt=0, description="total parameters, billions")
    osworld: float | None = Field(None, ge=0, le=100, description="reported OSWorld success, percent")
    accuracy: Accuracy | None = Field(None, description="made-up scores of a simulated model")
    conditions: Conditions | None = None
    max_image_side: tuple[Annotated[int, Field(ge=16, le=8192)], ...] | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    max_output_tokens: int | None = Field(None, ge=1, le=1_000_000)
    concurrency: int | None = Field(None, ge=1, le=1024)
    rpm: int | None = Field(None, ge=1, description="requests a minute that are granted for this model, over all jobs of a machine")
    tpm: int | None = Field(None, ge=1, description="tokens a minute, in and out, likewise")
    batch: bool = Field(False, description="ask by the vendor's batches: half the price, within a day (openai, google, anthropic)")
    serve: Serve | None = Field(None, description="server to start for this model's jobs; its address is the default of `base_url`")

    _distinct = field_validator("conditions", "max_image_side")(_distinct)

    @model_validator(mode="after")
    def _provider_fits(self) -> "Model":
        if self.provider == "builtin" and (self.model or self.name) not in BUILTIN_MODELS:
            raise ValueError(f"built-in models are {', '.join(BUILTIN_MODELS)}")
        if (self.accuracy is not None) != ((self.provider, self.model or self.name) == ("builtin", "simulated")):
            raise ValueError("a simulated model (provider: builtin, model: simulated) needs 'accuracy', and no other takes it")
        if self.serve is not None and self.provider != "openai":
            raise ValueError("only provider 'openai' can be served from this machine")
        if self.batch and (self.provider not in BATCH_PROVIDERS or self.serve is not None):
            raise ValueError(f"only {', '.join(sorted(BATCH_PROVIDERS))} have batches, and no server of this machine; leave out 'batch'")
        if self.provider != "openai" and self.api != "chat":
            raise ValueError("only provider 'openai' has a choice of 'api'")
        return self

    @property
    def address(self) -> str | None:
        """Where the model is asked, None for the provider's own address."""
        return self.base_url or (f"http://127.0.0.1:{self.serve.port}/v1" if self.serve else None)


#: Providers whose services take batches.
BATCH_PROVIDERS = frozenset({"anthropic", "google", "openai"})
BUILTIN_MODELS = ("random", "majority", "image-similarity", "ocr-difference", "simulated")
BUILTIN_JUDGES = frozenset({"rules", "simulated"})
#: Fields of a judge that only a language model has.
LANGUAGE_JUDGE = frozenset(
    {"pictures", "max_pictures", "max_image_side", "max_text", "json_answers", "api", "api_key_env", "base_url", "temperature"}
    | {"max_output_tokens", "concurrency", "timeout_s", "rpm", "tpm", "batch"}
)


class PerAgent(Section):
    """A quota for each agent's run."""

    per_agent: Count = Field(description="trajectories drawn for each agent")


class Review(Section):
    """What people look at."""

    agreements: Count = Field(30, description="rows on which the judges agree that are reviewed all the same")
    groups: tuple[Name, ...] = Field(("human-1", "human-2"), description="annotators, blind to each other")

    _distinct = field_validator("groups")(_distinct)

    @field_validator("groups")
    @classmethod
    def _are_folders(cls, groups: tuple[str, ...]) -> tuple[str, ...]:
        if taken := [group for group in groups if group in ("keys", "t3")]:
            raise ValueError(f"'{taken[0]}' names a folder of the review already; name the group otherwise")
        return groups


class Audit(Section):
    """The verdict audit (CUA audit §4)."""

    seed: int | None = Field(None, ge=0, lt=2**63, description="seed of the draws (default: run.seed)")
    verdicts: tuple[Literal["fail", "pass"], ...] = Field(("fail",), description="released verdicts that are audited")
    quotas: dict[str, Count | PerAgent] = Field(
        {}, description="trajectories drawn by benchmark: a count, or `{per_agent: count}`; empty draws all"
    )
    calibration: Count = Field(0, description="drawn trajectories set aside for calibrating the codebook")
    review: Review = Review()
    tie: Literal["unclear", "judges", "gf"] = Field("unclear", description="what a tie of four raters becomes; the paper has no rule")
    category_tie: Literal["ambiguous", "judges", "earliest"] = Field(
        "ambiguous", description="what a tie of the diagnoses becomes; `earliest` goes by the boundary rule"
    )
    adjudication: Literal["decides", "apart"] = Field(
        "decides", description="adjudicated labels are the final word (`decides`), or counted `apart` and change nothing"
    )
    labels: tuple[str, ...] = Field((), description="label files that exist already, JSON Lines or CSV")
    prompts: str = Field("judge-v1", description="prompt folder of judges that are language models, under resources/prompts/")
    frame: str | None = Field(None, description="CSV of trajectory_id, benchmark, agent, task_id that stands in for trajectories")

    _distinct = field_validator("verdicts")(_distinct)


class Judge(Section):
    """One judge of the audit."""

    name: Name = Field(description="the annotator's name in every table")
    provider: Literal["codex", "anthropic", "openai", "google", "builtin"] = Field(
        "builtin", description="who is asked, and how; `builtin` judges are computed here"
    )
    model: str | None = Field(None, description="the provider's model id (default: the name)")
    evidence: tuple[Literal["screenshots", "text"], ...] = Field(("screenshots", "text"), description="what the judge sees")
    role: Literal["llm", "human"] = Field("llm", description="`human` only for simulated raters: they label the review set")
    ablation: bool = Field(False, description="judge a second time without screenshots, for the evidence ablation")
    accuracy: float = Field(0.85, ge=0, le=1, description="simulated raters: chance of the planted label")
    draws: int = Field(
        1,
        ge=1,
        le=100,
        description="times each trajectory is judged, to see how far the judge agrees with itself (table `judge_consistency`); the first "
        "draw alone votes",
    )
    ensemble: tuple[Name, ...] | None = Field(
        None, description="judges that this one speaks for: their verdict where all gave the same, else it abstains; it casts no vote"
    )
    pictures: Literal["all", "changed", "spaced"] = Field(
        "changed",
        description="screenshots of a long log: `all` or none of it, those that visibly `changed`, or evenly `spaced` ones; the last two "
        "always with first and last, and never more than `max_pictures`",
    )
    max_pictures: int = Field(40, ge=2, le=3000, description="screenshots in one request at most; the service's own limits come on top")
    max_image_side: int = Field(1280, ge=16, le=8192, description="longest side of a screenshot, pixels")
    max_text: int = Field(
        200_000, ge=1000, le=10_000_000, description="characters of a log in one request at most; long texts are cut to fit"
    )
    json_answers: bool = Field(
        True, alias="schema", description="hold replies to the JSON schema made from the codebook, where the endpoint can"
    )
    api: Literal["chat", "responses"] = Field("chat", description="OpenAI's protocol: Chat Completions or Responses")
    api_key_env: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="environment variable that holds the key")
    base_url: str | None = Field(None, description="address of the service, where it is not the vendor's own")
    temperature: float | None = Field(None, ge=0, le=2, description="sampling temperature (default: inference.temperature)")
    max_output_tokens: int = Field(16_384, ge=1, le=1_000_000, description="bound on one reply, reasoning included")
    concurrency: int | None = Field(None, ge=1, le=1024, description="requests in flight (default: inference.concurrency)")
    timeout_s: float = Field(600.0, gt=0, le=86_400, description="deadline of one call, seconds: a log takes longer than a probe")
    rpm: int | None = Field(None, ge=1, description="requests a minute that are granted for this model, over all jobs of a machine")
    tpm: int | None = Field(None, ge=1, description="tokens a minute, in and out, likewise")
    batch: bool = Field(False, description="ask by the vendor's batches: half the price, within a day (openai, google, anthropic)")

    _distinct = field_validator("evidence", "ensemble")(_distinct)

    @property
    def asks(self) -> str:
        """The provider's model id, or which built-in judge it is."""
        return "unanimous" if self.ensemble else self.model or self.name

    def _set(self) -> set[str]:
        """Return the fields that are not at their defaults."""
        return {name for name, field in type(self).model_fields.items() if getattr(self, name) != field.default}

    @model_validator(mode="after")
    def _provider_fits(self) -> "Judge":
        if self.ensemble is not None:
            if taken := self._set() - {"name", "ensemble"}:
                raise ValueError(f"an ensemble takes no '{min(taken)}': it is what its members are")
            if len(self.ensemble) < 2:
                raise ValueError("an ensemble has two members or more")
            return self
        if self.provider == "builtin":
            if (self.model or self.name) not in BUILTIN_JUDGES:
                raise ValueError(f"built-in judges are {', '.join(sorted(BUILTIN_JUDGES))}; name one in 'model'")
            if taken := self._set() & LANGUAGE_JUDGE:
                raise ValueError(f"a built-in judge takes no '{'schema' if 'json_answers' in taken else min(taken)}'")
            if self.draws > 1 and (self.role == "human" or (self.model or self.name) != "simulated"):
                raise ValueError("'draws' are for judges that may differ from themselves: language models and simulated ones")
        if self.provider != "openai" and self.api != "chat":
            raise ValueError("only provider 'openai' has a choice of 'api'")
        if self.batch and self.provider not in BATCH_PROVIDERS:
            raise ValueError(f"only {', '.join(sorted(BATCH_PROVIDERS))} have batches; leave out 'batch'")
        if self.ablation and "screenshots" not in self.evidence:
            raise ValueError("'ablation' takes the screenshots away, and they are not among its 'evidence'")
        if self.role == "human" and (self.provider, self.model or self.name) != ("builtin", "simulated"):
            raise ValueError("only the simulated rater can play a human; real people's labels come from audit.labels")
        return self


class Signals(Section):
    """The no-op probe (CUA audit §6)."""

    runs: tuple[Annotated[int, Field(ge=2, le=1000)], ...] = Field(
        (2, 3, 4, 5, 8), description="run lengths at which a repeated action is flagged"
    )

    _distinct = field_validator("runs")(_distinct)


class Stats(Section):
    """How uncertainty is computed."""

    bootstrap: int = Field(1000, ge=10, le=1_000_000, description="resamples")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="level of every interval")
    baseline: Literal["exact", "random"] = Field("exact", description="chance level of EvoGain: analytic, or the random solver's mean")
    signals: Signals = Signals()
    deadline_s: float = Field(300, gt=0, description="deadline of the table `timing`, seconds")
    measured: str | None = Field(
        None,
        description="CSV of what logs do not hold, by trajectory_id: usd, seconds, window_opportunities, window_taken (the opportunity on "
        "which the right action was issued; empty on a miss)",
    )


class Report(Section):
    """What the report shows."""

    title: str | None = Field(None, max_length=200, description="heading")
    max_items: int = Field(24, ge=0, le=10_000, description="examples shown of each kind on the page; the instance browser has every item")
    max_pictures_mb: int | None = Field(
        None,
        ge=0,
        description="MB of pictures the instance browser takes along; items beyond, drawn by lot, are shown without (default: all)",
    )


class Privacy(Section):
    """What of credentials and personal identifiers may leave in an export."""

    allow: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(
        (), description="identities that may leave, case aside; `*` stands for any letters. Those of WebArena's demo shops and forums may"
    )
    fictional: tuple[str, ...] = Field((), description="sources whose identities are all made up; those of simulated sources always are")


class Export(Section):
    """What `snakemake export` writes."""

    title: str = Field("EvoGUI-Bench", min_length=1, max_length=120, description="title of the data set")
    probes: bool = Field(True, description="the probes as a data set, with tasks for lmms-eval, VLMEvalKit and inspect-ai")
    labels: bool = Field(True, description="the audit: every rater's labels, the final ones and how each came about, the codebook")
    pictures: Literal["masked", "unread", "none"] = Field(
        "masked",
        description="`masked`: read, and filled where they show what may not leave (needs the extra `ocr`, but for sources whose "
        "identities are made up); `unread`: as they are, which the card says; `none`: by their ids alone",
    )
    sets: tuple[Name, ...] | None = Field(None, description="sets of `probes.sets` that leave beside the paper's (default: all)")
    max_image_side: int | None = Field(
        None, ge=16, le=8192, description="longest picture side, pixels (default: the first of `inference.max_image_side`)"
    )
    licenses: tuple[str, ...] | None = Field(
        None, min_length=1, description="licences whose rows may leave (default: those known to let anyone pass on adapted copies)"
    )
    accept: tuple[str, ...] = Field((), description="sources whose rows may leave whatever their licence says, since you have permission")
    leave_out: tuple[str, ...] = Field((), description="sources whose rows stay")
    mixed: bool = Field(
        False, description="whether rows under licences that cannot be joined may lie in one data set, each row under its own"
    )
    date: datetime.date | None = Field(
        None, description="day of publication, YYYY-MM-DD; a valid RO-Crate needs one, and Croissant asks for it"
    )
    version: str = Field("1.0.0", pattern=r"^\d+\.\d+\.\d+$", description="version of the data set")
    privacy: Privacy = Privacy()


class Downloads(Section):
    """Where downloaded data sets go, and what pins them."""

    store: str = Field("resources/downloads", description="folder of downloaded data sets, shared by all runs")
    lock: str = Field("config/sources.lock.json", description="commit, size and sha256 of every downloaded file; keep it with the config")


class Config(Section):
    """The whole config."""

    root: str = Field(".", description="folder that relative source paths start from")
    downloads: Downloads = Downloads()
    run: Run = Run()
    sources: tuple[Source, ...] = ()
    probes: Probes = Probes()
    inference: Inference = Inference()
    models: tuple[Model, ...] = ()
    audit: Audit = Audit()
    judges: tuple[Judge, ...] = ()
    stats: Stats = Stats()
    report: Report = Report()
    export: Export = Export()

    @model_validator(mode="after")
    def _names_are_unique(self) -> "Config":
        for section in ("sources", "models", "judges"):
            names = [entry.name for entry in getattr(self, section)]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"{section}: the name '{twice[0]}' is used twice; names must differ")
        return self

    @model_validator(mode="after")
    def _ensembles_have_members(self) -> "Config":
        judges = {judge.name: judge for judge in self.judges}
        for judge in self.judges:
            for name in judge.ensemble or ():
                member = judges.get(name)
                if member is None or member.ensemble or member.role != "llm":
                    kind = "no judge" if member is None else "an ensemble" if member.ensemble else "no judge but a simulated person"
                    raise ValueError(f"judges: '{judge.name}': its member '{name}' is {kind}")
                first = judges[(judge.ensemble or ())[0]]
                if set(member.evidence) != set(first.evidence):
                    raise ValueError(f"judges: '{judge.name}': '{name}' and '{first.name}' do not see the same evidence")
        return self

    @model_validator(mode="after")
    def _conditions_show_something(self) -> "Config":
        asked = [("inference", self.inference.conditions), *((f"model '{one.name}'", one.conditions or ()) for one in self.models)]
        for where, names in asked:
            if fault := known.contradiction(names, self.inference.goal):
                raise ValueError(f"{where}: {fault}")
        return self


SECTIONS = tuple(name for name in Config.model_fields if name not in ("root",))


def load(*paths: str | Path) -> Config:
    """Read config files, later ones laid over earlier ones, and check the whole."""
    tree: dict = {}
    for path in paths:
        merge(tree, read_yaml(Path(path)))
    return check(tree, paths)


def check(tree: dict, files: Iterable[str | Path] = ()) -> Config:
    """Check a config tree; ``files`` are where it came from, for the error's first words."""
    files = [Path(file) for file in files]
    where = ", ".join(str(file) for file in files) or "config"
    if not isinstance(tree, dict):
        raise InputError(where, "is not a mapping of sections", "start from config/config.yaml")
    tree = dict(tree)
    for section in SECTIONS:
        if isinstance(tree.get(section), str):
            tree[section] = read_yaml(Path(tree[section]), whole=False)
        elif section in tree and tree[section] is None:
            del tree[section]
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise _explain(error, tree, files, where) from None


def merge(base: dict, over: dict) -> dict:
    """Lay ``over`` on ``base`` in place: mappings merge, everything else is replaced."""
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            merge(base[key], value)
        else:
            base[key] = value
    return base


def read_yaml(path: Path, whole: bool = True) -> Any:
    """Read a YAML file; a file that is missing, not text or not YAML is one clear error."""
    value = yamlfile.parse(
        read_given(path, LARGEST, "give the right path, relative to the working directory"), path, "start from config/config.yaml"
    )
    if value is None:
        return {} if whole else None
    if whole and not isinstance(value, dict):
        raise InputError(path, "is not a mapping of sections", "start from config/config.yaml")
    return value


def _explain(error: ValidationError, tree: dict, files: list[Path], where: str) -> InputError:
    """Turn pydantic's first complaint into one line: file, field, fault, mend."""
    first, location = _first(error.errors(), tree)
    field = ".".join(location) or "config"
    file = next((str(path) for path in files if len(files) > 1 and _holds(path, location)), where)
    kind, message = first["type"], first["msg"]
    if kind == "extra_forbidden":
        names = _names_at(location[:-1])
        near = difflib.get_close_matches(location[-1], names, n=1, cutoff=0.5)
        mend = f"did you mean '{near[0]}'?" if near else f"the fields here are {', '.join(names)}"
        return InputError(f"{file}: {field}", "unknown field", mend)
    if kind == "missing":
        return InputError(f"{file}: {field}", "this field is needed", _described(location))
    if kind == "value_error":
        return InputError(f"{file}: {field}", message.removeprefix("Value error, "))
    if kind == "literal_error":
        given = short(first["input"]).strip("'")
        near = difflib.get_close_matches(given, re.findall(r"'([^']+)'", str(first["ctx"]["expected"])), n=1, cutoff=0.5)
        return InputError(
            f"{file}: {field}",
            f"'{given}' is not allowed",
            (f"did you mean '{near[0]}'? " if near else "") + f"allowed: {first['ctx']['expected']}",
        )
    return InputError(f"{file}: {field}", f"{_fault(first)} (found {short(first['input'])})", _described(location))


#: Complaint of pydantic's → what is said of it; the bounds stand in its context.
_FAULTS = {
    "dict_type": "must be a mapping, `name: value` on each line",
    "model_type": "must be a mapping, `name: value` on each line",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "string_type": "must be a text",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than": "must be below {lt:g}",
    "less_than_equal": "must be {le:g} or less",
    "too_short": "needs {min_length} or more",
    "too_long": "has more than {max_length}",
    "finite_number": "must be a finite number",
}
_NAME_FAULT = "must be 1 to 64 letters, digits, `.`, `_` or `-`, the first a letter or digit"


def _fault(first: Mapping[str, Any]) -> str:
    """Say what is wrong with a value, in words of the config's own."""
    kind, message = str(first["type"]), str(first["msg"])
    if kind.startswith("int_"):
        return "must be a whole number"
    if kind.startswith("float_"):
        return "must be a number"
    if kind == "string_pattern_mismatch":
        pattern = first["ctx"]["pattern"]
        return _NAME_FAULT if pattern == NAME else f"does not have the form `{pattern}`"
    if kind in _FAULTS:
        return _FAULTS[kind].format(**first.get("ctx") or {})
    return message[:1].lower() + message[1:]


def _first(faults: Sequence[Mapping[str, Any]], tree: Any) -> tuple[Mapping[str, Any], list[str]]:
    """Return the complaint to show and where it is; of a field that may be a text or a list of them, a part of the list says more."""
    first = faults[0]
    location = _location(first, tree)
    if first["loc"] and first["loc"][-1] == "str":
        for other in faults[1:]:
            deeper = _location(other, tree)
            if len(deeper) > len(location) and deeper[: len(location)] == location:
                return other, deeper
    if isinstance(first["input"], dict) and str(first["type"]).startswith("int_"):
        # A count or a mapping: whoever wrote a mapping meant one.
        inside = [(other, _location(other, tree)) for other in faults[1:]]
        inside = [(other, deeper) for other, deeper in inside if len(deeper) > len(location) and deeper[: len(location)] == location]
        # A field that is not known says more than the one that is missing for it.
        return min(inside, key=lambda pair: pair[0]["type"] != "extra_forbidden", default=(first, location))
    return first, location


def _location(fault: Mapping[str, Any], tree: Any) -> list[str]:
    """Return where a complaint is, without the names that pydantic gives to the kinds a value may be of."""
    found: list[str] = []
    node = tree
    for part in fault["loc"]:
        if isinstance(part, str) and re.match(r"^(constrained-|function-|PerAgent$|int$|literal)", part):
            continue
        if part == "[key]":  # the name itself, which stands before it
            continue
        if isinstance(part, str) and not isinstance(node, dict) and (part == "str" or part.startswith("tuple[")):
            continue
        found.append(str(part))
        if isinstance(node, dict):
            node = node.get(part)
        elif isinstance(node, list | tuple) and isinstance(part, int) and part < len(node):
            node = node[part]
    return found


def _holds(path: Path, location: list[str]) -> bool:
    """Tell whether a file has the field itself."""
    try:
        node: Any = read_yaml(path)
    except InputError:
        return False
    for part in location:
        if isinstance(node, dict) and (part in node or (part.isdigit() and int(part) in node)):
            node = node[part] if part in node else node[int(part)]
        elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        else:
            return False
    return True


def _model_at(location: list[str]) -> type[BaseModel] | None:
    """Return the section class that a field path leads to."""
    model: type[BaseModel] | None = Config
    named = False
    for part in location:
        if part.isdigit() or named:
            named = False
            continue
        field = model.model_fields.get(part) if model is not None else None
        model = _inner(field.annotation) if field is not None else None
        named = model is not None and str(field.annotation).startswith("dict")  # the next part is a name the user chose
    return model


def _inner(annotation: Any) -> type[BaseModel] | None:
    """Return the section class in a field's type, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for kind in getattr(annotation, "__args__", ()) if (found := _inner(kind)) is not None), None)


def _names_at(location: list[str]) -> list[str]:
    model = _model_at(location)
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _described(location: list[str]) -> str:
    while location and location[-1].isdigit():  # a list is described as a whole
        location = location[:-1]
    model = _model_at(location[:-1]) if location else None
    field = model.model_fields.get(location[-1]) if model else None
    if field is None and len(location) > 1:  # a mapping of names the user chose, too
        model = _model_at(location[:-2])
        field = model.model_fields.get(location[-2]) if model else None
    return f"what it means: {field.description}" if field is not None and field.description else ""


def json_schema() -> dict:
    """Return the JSON schema of the config, for editors; any section may also be a path."""
    schema = Config.model_json_schema()
    for name in SECTIONS:
        schema["properties"][name] = {"anyOf": [schema["properties"][name], {"type": "string", "description": "path to a YAML file"}]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "EvoAudit config",
        **{k: v for k, v in schema.items() if k != "title"},
    }


def option_table() -> str:
    """Render every option for people: field, type, default, meaning."""
    rows = ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]

    def walk(model: type[BaseModel], prefix: str) -> None:
        properties = model.model_json_schema()["properties"]
        for name, field in model.model_fields.items():
            inner = _inner(field.annotation)
            name = field.alias or name
            path = f"{prefix}{name}"
            if inner is not None and inner is not PerAgent:
                ends = {"tuple": "[].", "dict[": ".<name>."}
                walk(inner, path + ends.get(str(field.annotation)[:5], "."))
                continue
            default = "needed" if field.is_required() else f"`{_plain(field.default)}`"
            rows.append(f"| `{path}` | {_kind(properties[name])} | {default} | {field.description or ''} |")

    walk(Config, "")
    return "\n".join(rows) + "\n"


def _kind(schema: dict) -> str:
    """Say a JSON schema's type in words."""
    if "anyOf" in schema:
        return " or ".join(_kind(option) for option in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "$ref" in schema:
        return "`{per_agent: n}`" if schema["$ref"].endswith("PerAgent") else "mapping"
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    if schema.get("type") == "object":
        return f"mapping to {_kind(schema['additionalProperties'])}"
    return schema.get("type", "any")


def _plain(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {v}" for k, v in value.items()) + "}"
    return str(value)
