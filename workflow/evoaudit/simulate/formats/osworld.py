"""OSWorld results: one line an action, the picture taken after it, the score in a file of its own."""

from evoaudit.simulate.actors import Episode, Step
from evoaudit.simulate.deal import Deal
from evoaudit.simulate.formats.base import Pieces, draw_of, dump, shot, task_draw, uuid
from evoaudit.simulate.looks import DESKTOP_BAR

DOMAINS = {"settings": "os", "sheet": "libreoffice_calc", "tracker": "thunderbird", "shop": "chrome", "travel": "chrome", "forum": "chrome"}
#: The agent whose runner keeps the screen before the first action, and the one that acts twice in one call.
KEEPS_FIRST, ACTS_TWICE = "sim-agent-b", "sim-agent-c"


def write(episode: Episode, deal: Deal, seed: int, faulty: bool) -> Pieces:
    """Return a run's files."""
    task_id = uuid(task_draw(deal, seed), "task")
    domain, draw = DOMAINS[deal.app], draw_of(deal, seed)
    run = f"pyautogui/screenshot/{deal.agent}"
    pieces = Pieces(f"{run}/{domain}/{task_id}")
    folder = f"osworld/{pieces.native_id}"
    moment = draw.between(8 * 3600, 17 * 3600, "moment")
    day = f"2026{draw.between(1, 6, 'month'):02d}{draw.between(1, 28, 'day'):02d}"
    if deal.agent == KEEPS_FIRST:
        pieces.files.append((f"{folder}/step_0.png", shot(episode.steps[0].before)))
    lines = []
    number = 0
    for k, step in enumerate(episode.steps):
        twice = deal.agent == ACTS_TWICE and k == 1
        number += not twice
        moment += draw.between(4, 30, "pause", k)
        stamp = f"{day}@{moment // 3600:02d}{moment // 60 % 60:02d}{moment % 60:02d}"
        name = f"step_{number}_{stamp}.png"
        last = step.verb in ("answer", "done", "fail")
        line = {
            "step_num": number,
            "action_timestamp": stamp,
            "action": source(step),
            "response": response(step),
            "reward": 0,
            "done": last,
            "info": ({"fail": True} if step.verb == "fail" else {"done": True}) if last else {},
            "screenshot_file": name,
        }
        if step.error:
            line |= {"exec_ok": False, "exec_result": step.error}
        if not step.lost:
            pieces.files.append((f"{folder}/{name}", shot(step.after)))
        lines.append(dump(line))
    pieces.files.append((f"{folder}/traj.jsonl", ("\n".join(lines) + "\n").encode()))
    if faulty and deal.number == 4:
        pieces.fault("osworld", pieces.native_id, "no result.txt: the evaluator crashed")
    else:
        pieces.files.append((f"{folder}/result.txt", f"{episode.reward}\n".encode()))
    if faulty and deal.number == 2:
        other = f"{run}/{domain}/{uuid(draw, 'error only')}"
        pieces.files.append(
            (f"osworld/{other}/traj.jsonl", (dump({"Error": f"{domain}/{task_id} - the virtual machine did not start"}) + "\n").encode())
        )
        pieces.fault("osworld", other, "only an error in traj.jsonl")
    if deal.member == 0:
        config = {
            "id": task_id,
            "snapshot": domain,
            "instruction": episode.task.instruction,
            "source": "simulated",
            "trajectory": "trajectories/",
            "related_apps": [domain],
            "config": [],
            "evaluator": {
                "func": "exact_match",
                "result": {"type": "vm_state"},
                "expected": {"type": "rule", "rules": {"expected": episode.task.reference}},
            },
            "proxy": False,
        }
        pieces.files.append((f"osworld/evaluation_examples/examples/{domain}/{task_id}.json", dump(config).encode()))
    pieces.task(deal, task_id, episode)
    return pieces


def response(step: Step) -> str:
    """Return the model's text; what it says to the user stands in it too."""
    said = f"\n{step.value}" if step.verb in ("answer", "done", "fail") and step.value else ""
    return step.reasoning + said


def source(step: Step) -> str:
    """Return the action as pyautogui source text or a control word."""
    x, y = step.point or (0, 0)
    y += DESKTOP_BAR
    return {
        "click": f"pyautogui.click({x}, {y})",
        "hover": f"pyautogui.moveTo({x}, {y})",
        "type": f"pyautogui.click({x}, {y})\npyautogui.write({step.value!r}, interval=0.05)",
        "select": f"pyautogui.click({x}, {y})\npyautogui.write({step.value!r})\npyautogui.press('enter')",
        "scroll": f"pyautogui.scroll({-int(step.value) // 20 if step.verb == 'scroll' else 0})",
        "wait": "WAIT",
        "back": "pyautogui.hotkey('alt', 'left')",
        "reload": "pyautogui.press('f5')",
        "answer": "DONE",
        "done": "DONE",
        "fail": "FAIL",
    }[step.verb]
