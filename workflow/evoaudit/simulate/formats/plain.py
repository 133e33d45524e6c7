"""The plain format: one JSON line a trajectory, pictures before and after each action; and the same with a recorder's fault."""

from evoaudit.simulate import control
from evoaudit.simulate.actors import Episode, Step
from evoaudit.simulate.deal import Deal
from evoaudit.simulate.formats.base import Pieces, draw_of, dump, shot

LINES = "plain/trajectories.jsonl"


def write(episode: Episode, deal: Deal, seed: int, faulty: bool) -> Pieces:
    """Return a trajectory's line and pictures."""
    native = f"plain-{deal.number:05d}"
    pieces = Pieces(native)
    names = [f"img/{native}/{k}.png" for k in range(len(episode.steps) + 1)]
    moment = draw_of(deal, seed).between(1_700_000_000, 1_760_000_000, "moment")
    for k, screen in enumerate([*(s.before for s in episode.steps), episode.final]):
        if k and episode.steps[k - 1].lost:
            continue
        data = shot(screen)
        if faulty and deal.number == 2 and k == 1:
            data = data[: len(data) * 2 // 3]
            pieces.fault("plain", names[k], "truncated PNG")
        pieces.files.append((f"plain/{names[k]}", data))
    steps = [
        {
            **_action(k, s),
            "url": None if s.lost else s.before.url,
            # The format's log holds no text of a page but this one's.
            **({"page_text": episode.order} if episode.injected == "page" else {}),
            "before_image": names[k],
            "after_image": names[k + 1],
            "timestamp": moment + 9 * k,
            "error": s.error,
        }
        for k, s in enumerate(episode.steps)
    ]
    state = not episode.task.answer
    pieces.lines.append(
        (
            LINES,
            dump(
                {
                    "trajectory_id": native,
                    "benchmark": "deskbench",
                    "task_id": f"task-{deal.task:04d}",
                    "agent": deal.agent,
                    "experiment": "run-1",
                    "domain": episode.task.site.domain.lower(),
                    "website": episode.task.site.host,
                    "instruction": episode.task.instruction,
                    "raw_reward": episode.reward,
                    "oracle": "final state" if state else "string match",
                    "answer": episode.answer,
                    "reference": episode.task.reference,
                    "steps": steps,
                }
            ),
        )
    )
    if faulty and deal.number == 3:
        pieces.lines.append((LINES, pieces.lines[-1][1][:300]))
        pieces.fault("plain", "a line after " + native, "broken JSON line")
    return pieces


def shifted(episode: Episode, deal: Deal) -> Pieces:
    """Return a trajectory as a faulty recorder leaves it: what it logs as the screen before an action is the one after it."""
    native = f"{control.FOLDER}-{deal.number:05d}"
    pieces = Pieces(native)
    names = [f"img/{native}/{k}.png" for k in range(len(episode.steps))]
    pieces.files += [(f"{control.FOLDER}/{name}", shot(s.after)) for name, s in zip(names, episode.steps, strict=True)]
    steps = [{**_action(k, s), "url": s.after.url, "before_image": names[k], "error": s.error} for k, s in enumerate(episode.steps)]
    line = {
        "trajectory_id": native,
        "benchmark": "deskbench",
        "task_id": f"task-{deal.task:04d}",
        "domain": episode.task.site.domain.lower(),
        "website": episode.task.site.host,
        "instruction": episode.task.instruction,
        "steps": steps,
    }
    pieces.lines.append((f"{control.FOLDER}/trajectories.jsonl", dump(line)))
    if deal.number == 0:
        pieces.fault(control.FOLDER, "every trajectory", "pictures taken after their action are logged as before it")
    return pieces


def _action(number: int, step: Step) -> dict:
    return {
        "step": number,
        "action": step.verb,
        "value": step.value or None,
        "x": step.point[0] if step.point else None,
        "y": step.point[1] if step.point else None,
        "reasoning": step.reasoning or None,
    }
