"""An audit sample with pictures, and the pages to judge it on, for the tests of the review."""

import json
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from made_logs import Logs, painted
from made_pairs import change

from evoaudit import schema
from evoaudit.__main__ import main
from evoaudit.store import write_table

#: Values that no page may hold, in any spelling.
AGENT, EXPERIMENT, REFERENCE, SOURCE = (
    "GenericAgent-claude-3.7-sonnet",
    "exp_2025-05-01_k7",
    "Quux Kettle 4711",
    "runs/GenericAgent/log-9.json",
)
ORACLE, REWARD = "secret-oracle", 0.4242


def logs(n: int = 6, steps: int = 4, texts: dict[int, str] | None = None, simulated: bool = False) -> Logs:
    """Return ``n`` trajectories whose screens are all different; some texts may be given, which then stand wherever text can."""
    made = Logs()
    for i in range(n):
        names = [f"s{i}-{k}" for k in range(steps + 1)]
        made.pixels |= {name: painted(100 * i + k, 320, 200) for k, name in enumerate(names)}
        text = (texts or {}).get(i)
        acts = []
        for k, pair in enumerate(pairwise(names)):
            act = {
                "op": "click",
                "op_raw": text or f"click('{k}')",
                "target": {"x": 60.0 + 10 * k, "y": 90.0, "text": text or f"button {k}"},
                "reasoning": text or f"I press button {k}.",
                "url": text or f"https://shop.example/{i}/{k}",
                "page_text": text or f"page {k}",
                "change": change(made, *pair),
            }
            if k == 1:
                act |= {"op": "type", "value": text or f"typed {i}"}
            elif k == 2:
                act |= {"op": "scroll", "value": "down", "target": None}
            elif k == 3:
                act |= {"op": "drag", "op_raw": "left_click_drag(60, 90, 250, 150)", "error": text}
            acts.append(act)
        made.add(
            f"t{i}:{AGENT}",
            names,
            acts,
            agent=AGENT,
            experiment=EXPERIMENT,
            instruction=text or f"goal {i}: order the kettle",
            answer=text or f"answer {i}",
            reference=REFERENCE,
            website="shop.example",
            source_file=SOURCE,
            simulated=simulated,
        )
    return made


def stuck() -> Logs:
    """Return a trajectory that clicks one place four times while the screen stays, and one that does not."""
    made = logs(1, steps=1)
    screens = ["s-a", "s-b", "s-b", "s-b", "s-b", "s-b", "s-c"]
    made.pixels |= {name: painted(700 + k, 320, 200) for k, name in enumerate(dict.fromkeys(screens))}
    clicks = [{"op": "type", "value": "kettle"}] + [{"target": {"x": 50.0, "y": 50.0}}] * 4 + [{"op": "key", "value": "Enter"}]
    made.add("stuck:x", screens, [dict(click) for click in clicks], agent=None, instruction="buy it")
    return made


@dataclass
class Audit:
    """A normalised source, a sample and a review set in a folder."""

    home: Path
    normalised: Path
    root: Path
    sample: Path
    select: Path
    built: int = 0
    ids: list[str] = field(default_factory=list)

    def sources(self) -> list[str]:
        return ["--normalised", str(self.normalised), "--root", f"made={self.root}"]

    def build(self, *words: object, code: int = 0, out: Path | None = None, blind: bool = True) -> Path:
        """Write pages and return the folder they are in."""
        self.built += 1
        out = out or self.home / f"pages-{self.built}"
        first = ["--review", self.select, "--sample", self.sample] if blind else []
        assert main([str(word) for word in ("review", "build", *first, *self.sources(), *words, "--out", out)]) == code
        return out


def audit(home: Path, made: Logs | None = None, practice: int = 1, **reasons: str) -> Audit:
    """Write logs below ``home``, and a sample of which the first ``practice`` are for calibration and the rest is reviewed."""
    made = made or logs()
    normalised, root = made.write(home)
    rows = [
        {
            "trajectory_id": row["trajectory_id"],
            "oracle": ORACLE,
            "oracle_version": None,
            "raw_reward": reasons.get("reward", REWARD),
            "verdict": "fail",
            "status": "ok",
        }
        for row in made.trajectories
    ]
    write_table(normalised, "oracle_results", rows)
    ids = [row["trajectory_id"] for row in made.trajectories]
    sample, select = home / "sample", home / "select"
    for folder in (sample, select):
        folder.mkdir()
    fields = dict.fromkeys(schema.SAMPLE.names) | {"verdict": "fail", "simulated": False}
    rows = [{**fields, "trajectory_id": one, "status": "calibration" if k < practice else "analysed"} for k, one in enumerate(ids)]
    write_table(sample, "sample", rows)
    stratum, why = reasons.get("stratum", "verdict_disagree"), reasons.get("why", "the judges' verdicts differ")
    rows = [{"trajectory_id": one, "benchmark": "made", "stratum": stratum, "selected": True, "reason": why} for one in ids[practice:]]
    write_table(select, "review_set", rows)
    return Audit(home, normalised, root, sample, select, ids=ids)


def payload(page: Path) -> dict:
    """Return what a page was given to show."""
    text = (page / "index.html").read_text(encoding="utf-8")
    return json.loads(text.partition('<script type="application/json" id="data">')[2].partition("</script>")[0])


def key(out: Path, name: str) -> dict:
    """Return a page's key file."""
    return json.loads((out / "keys" / f"{name}.json").read_text(encoding="utf-8"))


def delivered(page: Path, name: str) -> object:
    """Return what a data file of a page delivers."""
    text = (page / "items" / f"{name}.js").read_text(encoding="utf-8")
    before, after = f"deliver('{name}', '", "');\n"
    assert text.startswith(before) and text.endswith(after)
    return json.loads(text.removeprefix(before).removesuffix(after).replace("\\'", "'").replace("\\\\", "\\"))
