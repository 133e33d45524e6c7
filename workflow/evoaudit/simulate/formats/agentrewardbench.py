"""AgentRewardBench: one cleaned JSON a trajectory, screenshots taken before each action, human annotations in one CSV."""

from evoaudit.simulate.actors import Episode, Step
from evoaudit.simulate.deal import Deal
from evoaudit.simulate.formats.base import LFS, Pieces, draw_of, dump, shot, task_draw
from evoaudit.simulate.screen import Screen, Widget

_BENCHMARKS = {
    "shop": ("webarena", "visualwebarena"),
    "forum": ("visualwebarena", "webarena"),
    "tracker": ("workarena", "webarena"),
    "settings": ("workarena",),
    "sheet": ("workarena",),
    "travel": ("assistantbench",),
}
_IDS = {
    "webarena": "webarena.{n}",
    "visualwebarena": "visualwebarena.resized.{n}",
    "workarena": "workarena.servicenow.{slug}-{n}",
    "assistantbench": "assistantbench.improved.validation.{n}",
}
ANNOTATIONS = "agentrewardbench/data/annotations.csv"
HEADER = (
    "annotator_name,benchmark,task_id,model_name,exp_name,"
    "trajectory_success,trajectory_side_effect,trajectory_optimality,trajectory_looping"
)


def write(episode: Episode, deal: Deal, seed: int, faulty: bool) -> Pieces:
    """Return a trajectory's files and its rows of annotations."""
    shared = task_draw(deal, seed)
    benchmark = shared.pick(_BENCHMARKS[deal.app], "benchmark")
    task_id = _IDS[benchmark].format(n=deal.task, slug=f"{deal.kind}-{deal.app}")
    model = f"GenericAgent-{deal.agent}"
    experiment = f"{model}_on_{benchmark}" + {
        "visualwebarena": ".resized",
        "assistantbench": ".improved.validation",
        "workarena": ".servicenow",
    }.get(benchmark, "")
    pieces = Pieces(f"{benchmark}/{model}/{experiment}/{task_id}")
    shots = f"screenshots/{benchmark}/{model}/{task_id}"
    entries = []
    for k, step in enumerate(episode.steps):
        error = episode.steps[k - 1].error if k else None
        entries.append(_entry(k, step.before, shots, step, error, step.lost))
    entries.append(_entry(len(episode.steps), episode.final, shots, None, episode.steps[-1].error, episode.steps[-1].lost))
    for entry, screen in zip(entries, [*(s.before for s in episode.steps), episode.final], strict=True):
        if not entry["screenshot_path"].endswith("/None"):
            broken = faulty and deal.number == 4 and entry["num"] == 2
            pieces.files.append((f"agentrewardbench/{shots}/screenshot_step_{entry['num']}.png", LFS if broken else shot(screen)))
            if broken:
                pieces.fault("agentrewardbench", f"{shots}/screenshot_step_2.png", "Git LFS pointer as picture")
    reward = 0.25 if benchmark == "assistantbench" and episode.planted == "t3-term" else episode.reward
    steps = len(episode.steps)
    cleaned = {
        "benchmark": benchmark,
        "agent": model,
        "model": deal.agent,
        "valid": True,
        "experiment": experiment,
        "goal": episode.task.instruction,
        "seed": 0,
        "model_args": {
            "model_name": deal.agent,
            "max_total_tokens": 64000,
            "max_input_tokens": 60000,
            "max_new_tokens": 4000,
            "temperature": 0.1,
            "vision_support": True,
        },
        "flags": {"obs": {"use_screenshot": True, "use_ax_tree": True}, "action": {"multi_actions": False}},
        "summary_info": {
            "n_steps": steps,
            "cum_reward": reward,
            "cum_raw_reward": reward,
            "err_msg": None,
            "stack_trace": None,
            "terminated": not episode.truncated,
            "truncated": episode.truncated,
            "stats.cum_steps": steps,
            "stats.cum_cost": round(steps * 0.0031, 6),
        },
        "package_version": "0.0",
        "steps": entries,
    }
    path = f"agentrewardbench/cleaned/{pieces.native_id}.json"
    pieces.files.append((path, dump(cleaned).encode()))
    if faulty and deal.number == 8:
        bad = path.removesuffix(".json") + "-copy.json"
        pieces.files.append((bad, dump(cleaned).encode()[:900]))
        pieces.fault("agentrewardbench", bad.removeprefix("agentrewardbench/"), "JSON cut off")
    pieces.task(deal, task_id, episode)
    pieces.lines += [(ANNOTATIONS, row) for row in _annotations(episode, deal, seed, f"{benchmark},{task_id},{model},{experiment}")]
    return pieces


def _annotations(episode: Episode, deal: Deal, seed: int, names: str) -> list[str]:
    """Return what one or two people said: the truth, with a slip now and then."""
    draw = draw_of(deal, seed)
    done = episode.outcome in ("success", "efn")
    looping = episode.planted in ("t1-loop", "t3-noop")
    rows = []
    for rater in draw.some("ABCDF", 2 if draw.chance(30, "twice") else 1, "raters"):
        said, looped = done != draw.chance(5, "slip", rater), looping != draw.chance(6, "slip on looping", rater)
        grade = (
            ("4. Completely Optimal" if len(episode.steps) < 9 else "3. Somewhat Optimal")
            if said
            else ("2. Suboptimal" if episode.planted == "t3-term" else "1. Complete Failure")
        )
        harm = episode.planted == "t1-spec"
        said_so = "Successful" if said else "Unsuccessful"
        rows.append(f"{rater},{names},{said_so},{'Yes' if harm else 'No'},{grade},{'Yes' if looped else 'No'}")
    return rows


def bids(screen: Screen) -> dict[int, str]:
    """Return widget → element id, numbered over the controls of the page."""
    keyed = [w for w in screen.widgets if w.key]
    return {id(w): str(11 + 3 * i) for i, w in enumerate(keyed)}


def _entry(number: int, screen: Screen, shots: str, step: Step | None, error: str | None, lost: bool) -> dict:
    ids = bids(screen)
    tree = "" if lost else axtree(screen, ids)
    boxes = (
        {}
        if lost
        else {
            ids[id(w)]: {
                "bbox": [w.x, w.y - screen.scroll, w.w, w.h],
                "visibility": 1.0 if w.y - screen.scroll < 400 else 0.0,
                "clickable": w.enabled,
                "set_of_marks": True,
            }
            for w in screen.widgets
            if w.key
        }
    )
    return {
        "num": number,
        "action": None if step is None else call(step, ids),
        "reasoning": None if step is None else step.reasoning or None,
        "screenshot_path": f"trajectories/{shots}/" + ("None" if lost else f"screenshot_step_{number}.png"),
        "url": "" if lost else screen.url,
        "open_pages_urls": [] if lost else [screen.url],
        "focused_element": "",
        "last_action_error": error or "",
        "stats": {
            "input_tokens": len(tree) // 4 + 900,
            "output_tokens": 60 + len(step.reasoning) // 4 if step else 0,
            "step_elapsed": 1.5,
            "agent_elapsed": 4.0,
        },
        "axtree": tree,
        "axtree_pruned": tree,
        "extra_element_properties": boxes,
        "chat_messages": [{"role": "assistant", "message": "Hi! I am a UI assistant, what can I do for you?"}],
    }


def call(step: Step, ids: dict[int, str]) -> str:
    """Return the action as a BrowserGym call."""
    bid = repr(ids.get(id(step.hit), "997")) if step.hit is not None else "'997'"
    value = step.value
    return {
        "click": f"click({bid})",
        "hover": f"hover({bid})",
        "type": f"fill({bid}, {value!r})",
        "select": f"select_option({bid}, {value!r})",
        "scroll": f"scroll(0, {value})",
        "wait": "noop(2000)",
        "back": "go_back()",
        "reload": f"goto({step.before.url!r})",
        "answer": f"send_msg_to_user({value!r})",
        "done": f"send_msg_to_user({value!r})",
        "fail": f"report_infeasible({value!r})",
    }[step.verb]


_PLAIN = frozenset({"text", "label", "cell", "columnheader", "rowheader"})


def axtree(screen: Screen, ids: dict[int, str]) -> str:
    """Return the accessibility tree as text, one line a node."""
    lines = [f"RootWebArea {screen.title!r}, focused"]
    for w in screen.widgets:
        if w.key:
            lines.append(f"\t[{ids[id(w)]}] {w.role} {w.name!r}{_state(w)}")
            lines += [f"\t\toption {o!r}, selected={o == w.value}" for o in w.options]
        elif w.name and w.role in _PLAIN:
            lines.append(f"\t{'StaticText' if w.role in ('text', 'label') else w.role} {w.name!r}")
        elif w.name:
            lines.append(f"\t{w.role} {w.name!r}")
    if screen.clock:
        lines.append(f"\tStaticText {screen.clock!r}")
    return "\n".join(lines)


def _state(w: Widget) -> str:
    parts = []
    if w.role in ("textbox", "combobox") and w.value:
        parts.append(f" value={w.value!r}")
    if w.role in ("checkbox", "switch"):
        parts.append(f", checked='{str(w.on).lower()}'")
    if w.on and w.role == "textbox":
        parts.append(", focused")
    if not w.enabled:
        parts.append(", disabled=True")
    return "".join(parts)
