"""A small valid corpus of every kind of source, in its native format, for damaging."""

import base64
import gzip
import io
import json
import pickle
import shutil
import sys
import types
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import made_tfrecord
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from evoaudit.simulate import corpus

_SEED = 3
_ID = "c2f5a1d0-1d1e-4c0b-9b39-0a5d2f0c7e11"


def png(shade: int) -> bytes:
    """Return a small screen unlike that of any other shade."""
    pixels = np.full((24, 40, 3), 200, np.uint8)
    pixels[4:12, 4:20] = shade % 256, shade * 7 % 256, shade * 31 % 256
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def write(path: Path, content: object) -> Path:
    """Write bytes, text, or anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content if isinstance(content, bytes) else (content if isinstance(content, str) else json.dumps(content)).encode()
    path.write_bytes(raw)
    return path


def simulated(kind: str) -> Callable[[Path], None]:
    """Return a builder from the simulator, whose screens are made small."""

    def build(root: Path) -> None:
        made = root.with_name(root.name + "-made")
        corpus.write(made, 2, _SEED, [kind])
        for shade, path in enumerate(sorted(made.rglob("*.png"))):
            path.write_bytes(png(shade))
        shutil.move(made / kind, root)
        shutil.rmtree(made)

    return build


def mind2web(root: Path) -> None:
    """Parquet with a row group for each few rows; a JSON file, one in the archive, and a dump of one task."""
    simulated("mind2web")(root)
    (file,) = root.rglob("*.parquet")
    table = pq.read_table(file)
    rows = table.to_pylist()
    for shade, row in enumerate(rows):
        if row["screenshot"] is not None:
            row["screenshot"]["bytes"] = png(shade)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), file, row_group_size=5)

    target = {"tag": "a", "attributes": json.dumps({"bounding_box_rect": "1,2,3,4"}), "is_original_target": True}

    def task(name: str, count: int) -> dict:
        return {
            "annotation_id": name,
            "website": "shop",
            "domain": "Shopping",
            "confirmed_task": "Buy tea",
            "action_reprs": [f"[button]  {index} -> CLICK" for index in range(count)],
            "actions": [
                {
                    "action_uid": f"{name}-{index}",
                    "raw_html": "<p>" * 50,
                    "operation": {"original_op": "CLICK", "op": "CLICK", "value": ""},
                    "pos_candidates": [target],
                    "neg_candidates": [],
                }
                for index in range(count)
            ],
        }

    write(root / "data/train/train_0.json", [task("one", 3), task("two", 2)])
    with zipfile.ZipFile(root / "test.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("test_task/test_task_0.json", json.dumps([task("three", 2)]))
    shots = [
        {
            "action_uid": f"one-{index}",
            "before": {"screenshot": base64.b64encode(png(2 * index)).decode()},
            "after": {"screenshot": base64.b64encode(png(2 * index + 1)).decode()},
            "action": {"bounding_box": {"x": 1, "y": 2, "width": 3, "height": 4}},
        }
        for index in range(3)
    ]
    write(root / "task/one/processed/screenshot.json", shots)


def osworld(root: Path) -> None:
    """Folders, and the same runs once more in an archive."""
    simulated("osworld")(root)
    with zipfile.ZipFile(root / "agent_15steps.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((root / "pyautogui").rglob("*")):
            if path.is_file():
                archive.write(path, f"results/{path.relative_to(root)}")


def agentrewardbench(root: Path) -> None:
    simulated("agentrewardbench")(root)
    for path in sorted((root / "cleaned").rglob("*.json")):
        benchmark, model, _, name = path.relative_to(root / "cleaned").parts
        choices = [{"message": {"role": "assistant", "content": "<reasoning>r</reasoning><success>Unsuccessful</success><loop>No</loop>"}}]
        judgment = {
            "benchmark": benchmark,
            "agent": model,
            "judge": "aer",
            "trajectory_info": {"seed": 0, "task_id": name.removesuffix(".json")},
            "judgment": {"success": "Unsuccessful", "loop": "No"},
            "response": {"choices": choices, "usage": {"total_tokens": 3}, "model": "m"},
            "cost": {"total": 0.1},
        }
        write(root / "judgments" / benchmark / model / "aer" / name, judgment)


def webvoyager(root: Path) -> None:
    def shown(text: str) -> dict:
        return {"role": "user", "content": [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": "-"}}]}

    goal = "Now given a task: Find a blue teapot.  Please interact with https://shop.example/ and get the answer. \n"
    for task in ("Shop--1", "Shop--2"):
        folder = root / f"run/task{task}"
        replies = ["Type [0]; teapot", "Click [1]", "Scroll [WINDOW]; down", "GoBack", "ANSWER; [blue]"]
        chat: list[dict] = [{"role": "system", "content": "rules"}]
        for number, reply in enumerate(replies, 1):
            listing = 'please analyze the attached screenshot. [0]: <input> "Search";\t[1]: <button> "Go";'
            chat += [shown((goal if number == 1 else "Observation:") + listing)]
            chat += [{"role": "assistant", "content": f"Thought: because\nAction: {reply}"}]
            write(folder / f"screenshot{number}.png", png(number))
        write(folder / "interact_messages.json", chat)


def online_mind2web(root: Path) -> None:
    first = {
        "task_id": "t1",
        "task": "Find tea",
        "final_result_response": "found",
        "thoughts": ["a", "b", "c"],
        "action_history": ["Click at (3, 2)", 'Type "tea"', "[button]  Go -> CLICK"],
    }
    write(root / "run/t1/result.json", first)
    for number in range(1, 5):
        write(root / f"run/t1/trajectory/{number}_full_screenshot.png", png(number))
    steps = [
        {
            "step": 0,
            "action": "page -> NAVIGATE -> open | SUCCESS",
            "screenshot": "0000.png",
            "thought": None,
            "url": "https://a.example/x",
        },
        {"step": 1, "action": "CLICK coords(5, 3) -> the button | FAILED", "screenshot": "0001.png", "thought": "try"},
        {"step": 2, "action": "TASK_COMPLETE -> ANSWER: red", "screenshot": "0002.png", "thought": None},
    ]
    second = {"schema_version": "online-mind2web-v2", "task_id": "t2", "task": "Go", "agent_final_answer": "red", "action_history": steps}
    write(root / "run/t2/result.json", second)
    for number in range(3):
        write(root / f"run/t2/trajectory/000{number}.png", png(10 + number))
    write(root / "human_label.json", {"t1": {"run": 1}, "t2": {"run": 0}})


def opencua(root: Path) -> None:
    def step(number: int, code: str) -> dict:
        return {
            "step_num": number,
            "image": f"{number}.png",
            "action": code,
            "inner_monologue": {"thought": "so"},
            "ground_truth_actions": [{"type": "click", "metadata": {"bboxes": [{"rel_bbox": [0.25, 0.5, 0.5, 0.25]}]}}],
        }

    codes = [
        "pyautogui.click(x=0.5, y=0.75)",
        "pyautogui.write(message='hello')",
        "pyautogui.hotkey(['ctrl', 'b'])",
        "computer.terminate()",
    ]
    session = {
        "task_id": "s1",
        "user_task_description": "Make it bold",
        "meta_info": {"domain": "Work", "applications": ["writer"]},
        "steps": [step(number, code) for number, code in enumerate(codes)],
    }
    write(root / "s1.json", session)
    line = {
        "task_id": "k",
        "instruction": "Sort",
        "task_completed": True,
        "traj": [{"index": number, "image": f"{number}.png", "value": {"code": codes[number], "thought": "t"}} for number in range(3)],
    }
    write(root / "net.jsonl", f"{json.dumps(line)}\n{json.dumps(line | {'task_id': 'l'})}\n")
    for number in range(4):
        write(root / f"images/{number}.png", png(number))


def aitz(root: Path) -> None:
    none = "[-1.0, -1.0]"
    made = [(4, "[0.5, 0.5]", "[0.5, 0.5]", ""), (4, "[0.5, 0.5]", "[0.1, 0.5]", ""), (3, none, none, "north"), (10, none, none, "")]
    for episode in ("GOOGLE_APPS-1", "GOOGLE_APPS-2"):
        steps = []
        for number, (code, touch, lift, text) in enumerate(made):
            steps.append(
                {
                    "episode_id": episode,
                    "step_id": number,
                    "instruction": "open the map",
                    "result_action_type": code,
                    "result_action_text": text,
                    "result_touch_yx": touch,
                    "result_lift_yx": lift,
                    "image_path": f"google_apps/{episode}/{episode}_{number}.png",
                    "coat_action_think": "hm",
                    "ui_positions": "[[1, 2, 20, 30], [0, 0, 4, 8]]",
                    "ui_text": '["Map", ""]',
                    "ui_types": '["TEXT", "ICON"]',
                }
            )
            write(root / f"google_apps/{episode}/{episode}_{number}.png", png(number))
        write(root / f"google_apps/{episode}/{episode}.json", steps)


def androidcontrol(root: Path) -> None:
    node = {"box": (2, 2, 20, 20), "text": "Go", "class_name": "android.widget.Button", "package_name": "com.shop", "is_clickable": True}
    tree = made_tfrecord.tree({"layer": 1, "window_type": 1, "nodes": [node]})
    actions = [
        {"action_type": "open_app", "app_name": "Shop"},
        {"action_type": "click", "x": 5, "y": 5},
        {"action_type": "input_text", "text": "tea"},
        {"action_type": "navigate_back"},
    ]
    made = [
        made_tfrecord.episode(number, "Buy tea", actions, [png(10 * number + shade) for shade in range(5)], [tree] * 5, ("do",) * 4)
        for number in range(4)
    ]
    made_tfrecord.write(root / "android_control-00000-of-00002", *made[:3])
    made_tfrecord.write(root / "android_control-00001-of-00002", *made[3:], compressed=False)
    write(root / "splits.json", {"train": [0, 1, 2], "test": [3]})


def _class(name: str, module: str) -> type:
    return type(name, (), {"__module__": module, "__init__": lambda self, **state: self.__dict__.update(state)})


#: Classes that pickles name, of modules that are not there.
CLASSES = {
    name: _class(name, module)
    for name, module in {
        "JSONAction": "android_world.env.json_action",
        "UIElement": "android_world.env.representation_utils",
        "StepInfo": "browsergym.experiments.loop",
        "ExpArgs": "browsergym.experiments.loop",
    }.items()
}


@contextmanager
def lent() -> Iterator[None]:
    """Put those classes where pickling and unpickling look for them."""
    modules = {}
    for name, made in CLASSES.items():
        parts = made.__module__.split(".")
        for end in range(1, len(parts) + 1):
            modules.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
        setattr(modules[made.__module__], name, made)
    absent = modules.keys() - sys.modules.keys()
    sys.modules.update({name: modules[name] for name in absent})
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def pickled(value: Any) -> bytes:
    with lent():
        return pickle.dumps(value)


class _Own(pickle.Unpickler):
    """Load what was made here alone: an earlier damage may have left a hostile pickle in the place of one of ours."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] not in {"android_world", "browsergym", "numpy"}:
            raise pickle.UnpicklingError(f"{module}.{name} was not made here")
        return super().find_class(module, name)


def unpickled(data: bytes) -> Any:
    """Load a pickle that was made here."""
    with lent():
        return _Own(io.BytesIO(data)).load()


def androidworld(root: Path) -> None:
    """Episodes of both agents, in gzip pickles of lists."""

    def screen(shade: int) -> np.ndarray:
        return np.asarray(Image.open(io.BytesIO(png(shade))).convert("RGB")).copy()

    for agent in ("m3a", "t3a"):
        actions = [{"action_type": "click", "index": 0}, {"action_type": "input_text", "text": "tea", "index": 0}, {"action_type": "wait"}]
        names = ("raw_screenshot", "after_screenshot_with_som", "before_ui_elements")
        names = names if agent == "m3a" else ("before_screenshot", "after_screenshot", "before_element_list")
        data = {
            "step_number": [0, 1, 2],
            names[0]: [screen(number) for number in range(3)],
            names[1]: [screen(number + 1) for number in range(3)],
            names[2]: [[CLASSES["UIElement"](text="Go", bbox_pixels=None, class_name="Button")]] * 3,
            "action_prompt": ["p"] * 3,
            "action_output": ["Reason: r\nAction: {}"] * 3,
            "action_output_json": [CLASSES["JSONAction"](**action) for action in actions],
            "action_reason": ["r"] * 3,
            "summary": ["s"] * 3,
        }
        episode = {
            "goal": "Buy tea",
            "task_template": "BuyTea",
            "episode_data": data,
            "is_successful": 1.0,
            "run_time": 3.5,
            "finish_dtime": None,
            "episode_length": 3,
            "aux_data": None,
            "screen_config": {"width": 40, "height": 24, "orientation": "portrait", "config_name": "x"},
            "exception_info": None,
            "seed": 3,
            "agent_name": agent,
            "instance_id": 0,
        }
        crashed = {"episode_data": float("nan"), "is_successful": float("nan"), "exception_info": "boom", "instance_id": 1}
        write(root / f"run_20250101/{agent}_BuyTea_0.pkl.gz", gzip.compress(pickled([episode, episode | crashed]), mtime=0))


def browsergym(root: Path) -> None:
    """A study of two runs."""
    for run in range(2):
        folder = root / f"study/2025-01-0{run + 1}_10-00-00_agent_on_webarena.{run}_{run}"
        arguments = CLASSES["ExpArgs"](agent_args={"agent_name": "agent"}, env_args={"task_name": f"webarena.{run}"})
        write(folder / "exp_args.pkl", pickled(arguments))
        write(folder / "goal_object.pkl.gz", gzip.compress(pickled(({"type": "text", "text": "Buy tea"},)), mtime=0))
        write(folder / "summary_info.json", {"n_steps": 3, "cum_reward": 1.0, "err_msg": None, "stack_trace": None, "terminated": True})
        for number, action in enumerate(["click('a1')", "fill('a2', 'tea')", "send_msg_to_user('done')", None]):
            observed = {
                "goal": "Buy tea",
                "goal_object": [{"type": "text", "text": "Buy tea"}],
                "url": "https://shop.example/",
                "open_pages_urls": ["https://shop.example/"],
                "active_page_index": np.array([0]),
                "axtree_object": {"nodes": [{"role": {"value": "button"}, "name": {"value": "Go"}, "browsergym_id": "a1"}]},
                "extra_element_properties": {"a1": {"bbox": [1, 2, 3, 4], "visibility": 1.0, "clickable": True}},
                "last_action_error": "",
                "elapsed_time": np.array([1.5]),
            }
            info = CLASSES["StepInfo"](
                step=number,
                obs=observed,
                reward=0,
                raw_reward=0,
                terminated=number == 3,
                truncated=False,
                action=action,
                agent_info={"think": "t", "chat_messages": ["m"]},
                stats={"n": 1},
                profiling=None,
                task_info={},
            )
            write(folder / f"step_{number}.pkl.gz", gzip.compress(pickled(info), mtime=0))
            write(folder / f"screenshot_step_{number}.png", png(10 * run + number))


#: Kind → builder; each writes its corpus into a folder that is not there yet.
CORPORA: dict[str, Callable[[Path], None]] = {
    "agentrewardbench": agentrewardbench,
    "aitz": aitz,
    "androidcontrol": androidcontrol,
    "androidworld": androidworld,
    "browsergym": browsergym,
    "mind2web": mind2web,
    "online-mind2web": online_mind2web,
    "opencua": opencua,
    "osworld": osworld,
    "plain": simulated("plain"),
    "webvoyager": webvoyager,
    "weblinx": simulated("weblinx"),
}
