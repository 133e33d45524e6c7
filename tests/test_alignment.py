"""Whether pictures stand at their actions: shifts are found, honest logs are left in peace, and too little is said to be too little."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import made_run
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_logs import Logs

from evoaudit import alignment, store
from evoaudit.__main__ import main
from evoaudit.normalise import Source, normalise
from evoaudit.simulate import control, corpus
from evoaudit.simulate.deal import FORMATS
from evoaudit.tables.files import rows

#: Tiles of a screen of 1280 × 720.
ACROSS, DOWN = 80, 45
SEED = 11
#: Changes of a whole page, and of nothing.
PAGE = (0, 0, ACROSS, DOWN)
NOTHING = ()


def changed(area: tuple[int, ...] | None) -> dict:
    """Return the columns of a transition that changed an area (left, top, width, height in tiles); None where it is unknown."""
    if area is None:
        return {"state": "unknown"}
    tiles = np.zeros((DOWN, ACROSS), bool)
    if area:
        left, top, width, height = area
        tiles[top : top + height, left : left + width] = True
    bitmap = np.packbits(tiles).tobytes()
    known = {"changed_tiles": int(tiles.sum()), "tiles_x": ACROSS, "tiles_y": DOWN, "tiles": bitmap}
    return {"state": "changed" if area else "same", **known}


def at(left: int, top: int, width: int = 4, height: int = 2) -> tuple[int, int, int, int]:
    return left, top, width, height


def box(area: tuple[int, ...]) -> dict:
    """Return the target that fills an area of tiles."""
    return dict.fromkeys(("x", "y", "text")) | dict(zip(("left", "top", "width", "height"), (16.0 * side for side in area), strict=True))


def typing(area: tuple[int, ...], **more) -> dict:
    return {"op": "type", "value": "text", "target": box(area), **more}


def add(logs: Logs, name: str, steps: list[dict], effects: list, lag: int = 0) -> None:
    """Add a trajectory whose claimed transitions are the effects of the actions, ``lag`` steps off."""
    claimed = [effects[j - lag] if 0 <= j - lag < len(effects) else None for j in range(len(effects))]
    chained = [{**step, "change": changed(area)} for step, area in zip(steps, claimed, strict=True)]
    logs.add(name, [f"{name}-{k}" for k in range(len(steps) + 1)], chained)


def verdict(logs: Logs, folder: Path, seed: int | None = None) -> dict:
    return alignment.check(logs.write(folder, seed)[0])


def one(tmp_path: Path, steps: list[dict], effects: list, lag: int = 0) -> dict:
    """Return the verdict on a single trajectory, of which only the counts matter."""
    logs = Logs()
    add(logs, "t", steps, effects, lag)
    return verdict(logs, tmp_path)


PLACES = [at(4, 4), at(40, 4), at(4, 30), at(40, 30)]


def typed(n: int, lag: int, **step) -> Logs:
    """Return ``n`` trajectories that fill four fields, the screens ``lag`` steps off."""
    logs = Logs()
    for i in range(n):
        add(logs, f"t{i:03d}", [typing(area, **step) for area in PLACES], PLACES, lag)
    return logs


def shift(folder: Path, out: Path, by: int) -> Path:
    """Copy a normalised folder with every picture taken from ``by`` steps later, within unbroken runs."""
    out.mkdir(parents=True)
    for name in ("trajectories", "images"):
        store.write_table(out, name, store.read_table(folder, name))
    steps, changes = store.read_rows(folder, "steps"), store.read_rows(folder, "changes")
    unknown = {name: None for name in changes[0] if name not in ("trajectory_id", "step")} | {"state": "unknown"}
    moved_steps, moved_changes = [], []
    for j, (step, change) in enumerate(zip(steps, changes, strict=True)):
        other = steps[j + by] if 0 <= j + by < len(steps) else None
        whole = other is not None and other["trajectory_id"] == step["trajectory_id"] and not (other if by > 0 else step)["gap_before"]
        seen = {name: other[name] if whole else None for name in ("before_image", "after_image")}
        moved_steps.append(step | seen)
        moved_changes.append(change | ({name: changes[j + by][name] for name in unknown} if whole else unknown))
    store.write_table(out, "steps", moved_steps)
    store.write_table(out, "changes", moved_changes)
    return out


def normalised(out: Path, kind: str, root: Path, name: str = "", simulated: bool = True, **options) -> Path:
    out.mkdir(parents=True)
    normalise(out, store.Counts("normalise"), Source(name or kind, kind, root, simulated, options))
    return out


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of 60 trajectories in every format, with the control."""
    folder = tmp_path_factory.mktemp("corpus")
    corpus.write(folder, 60, SEED)
    return folder


# What the verdict says


@pytest.mark.parametrize(
    ("lag", "phase", "said", "advice"),
    [
        (0, "before", "aligned", "nothing to do"),
        (-1, "before", "shifted", "set `obs_phase: after`"),
        (-1, "both", "shifted", "pair each action with the pictures of the step before it"),
        (1, "after", "shifted", "set `obs_phase: before`"),
        (1, "before", "shifted", "or taken before the screen had reacted"),
    ],
)
def test_each_lag_is_found_and_answered(lag, phase, said, advice, tmp_path):
    found = verdict(typed(12, lag, obs_phase=phase), tmp_path)
    assert (found["verdict"], found["lag"], found["obs_phase"]) == (said, lag, phase)
    assert advice in found["advice"]
    # Twelve votes, all for one side: a half to the power of twelve.
    assert found["p"] == 0.5**12
    votes = {(name, key): found[f"{key}_{name}"] for name in ("minus", "plus") for key in ("n", "k")}
    assert votes["minus", "k"] == (12 if lag == -1 else 0) and votes["plus", "k"] == (12 if lag == 1 else 0)
    assert votes["minus", "n"] == 12 or lag == 1
    assert (found["source"], found["kind"], found["trajectories"], found["steps"]) == ("made", "plain", 12, 48)
    assert (found["fits_own"], found["fits_minus"], found["fits_plus"]) == tuple(float(lag == other) for other in (0, -1, 1))


def test_nine_trajectories_are_too_few_however_clear(tmp_path):
    found = verdict(typed(9, -1), tmp_path)
    assert (found["verdict"], found["lag"], found["p"], found["k_minus"]) == ("undecided", None, None, 9)
    assert "too few" in found["advice"] and "9 on whether" in found["advice"] and "10 are needed" in found["advice"]


def test_a_long_trajectory_has_one_vote(tmp_path):
    places = PLACES * 50
    found = one(tmp_path, [typing(area) for area in places], places, -1)
    assert (found["verdict"], found["n_minus"], found["k_minus"], found["evidence"]) == ("undecided", 1, 1, 199)


def test_a_divided_source_is_undecided_and_both_counts_are_named(tmp_path):
    logs = typed(20, 0)
    for i in range(20):
        add(logs, f"u{i:03d}", [typing(area) for area in PLACES], PLACES, -1)
    found = verdict(logs, tmp_path)
    assert found["verdict"] == "undecided" and "mixed" in found["advice"] and "20 of 40" in found["advice"]


def test_a_few_odd_trajectories_do_not_spoil_a_verdict(tmp_path):
    logs = typed(40, 0)
    for i in range(3):
        add(logs, f"u{i:03d}", [typing(area) for area in PLACES], PLACES, 1)
    found = verdict(logs, tmp_path)
    assert (found["verdict"], found["n_plus"], found["k_plus"]) == ("aligned", 43, 3)


def test_the_order_of_rows_does_not_matter(tmp_path):
    plain = verdict(typed(15, -1), tmp_path / "a")
    assert verdict(typed(15, -1), tmp_path / "b", seed=3) == plain


def test_a_source_without_steps_or_comparable_screens_says_so(tmp_path):
    found = verdict(Logs(), tmp_path / "a")
    assert (found["verdict"], found["steps"], found["fits_own"]) == ("undecided", 0, None)
    found = one(tmp_path / "b", [typing(area) for area in PLACES], [None] * 4)
    assert found["compared"] == 0 and "none of its 4 steps has two screens" in found["advice"]


@settings(max_examples=12, deadline=None)
@given(
    scripts=st.lists(
        st.lists(st.tuples(st.integers(0, 8), st.integers(0, 10), st.sampled_from(("type", "click", "select"))), min_size=4, max_size=9),
        min_size=14,
        max_size=18,
    ),
    lag=st.sampled_from((-1, 0, 1)),
)
def test_a_shift_by_one_moves_the_verdict_by_one(scripts, lag, tmp_path_factory):
    logs = Logs()
    for number, script in enumerate(scripts):
        # A new column a step, so that no two neighbours share a place.
        places = [at(2 + 8 * ((x + 2 * k) % 9), 2 + 4 * y) for k, (x, y, _) in enumerate(script)]
        places = [area if not k or area != places[k - 1] else at(76, 40) for k, area in enumerate(places)]
        steps = [{"op": op, "target": box(area)} for (_, _, op), area in zip(script, places, strict=True)]
        add(logs, f"t{number:03d}", steps, places, lag)
    found = verdict(logs, tmp_path_factory.mktemp("shift"))
    assert found["lag"] == lag, found
    assert found["verdict"] == ("shifted" if lag else "aligned")


# What counts as evidence

A, B = PLACES[:2]


@pytest.mark.parametrize(
    ("steps", "effects", "evidence", "why"),
    [
        ([typing(A), typing(B)], [A, None], 1, "text shows where it was typed"),
        ([typing(A), typing(A)], [A, None], 0, "both actions went there"),
        ([typing(A), typing(B)], [PAGE, None], 0, "a new page is no place"),
        ([typing(A), typing(B)], [at(60, 40), None], 0, "neither action explains it"),
        ([typing(A), typing(B)], [(8, 4, 1, 1), None], 1, "one tile beside the box is near"),
        ([typing(A), typing(B)], [(10, 4, 1, 1), None], 0, "two tiles beside it are not"),
        ([typing(A), typing(B, gap_before=True)], [A, None], 0, "a gap lies between the actions"),
        ([typing(A), {"op": "say"}], [NOTHING, None], 1, "talk leaves the screen, typing does not"),
        ([typing(A), {"op": "say"}], [PAGE, None], 0, "typing may end in a new page"),
        ([{"op": "click", "target": box(A)}, {"op": "say"}], [PAGE, None], 1, "a click may open a page, talk does not"),
        ([{"op": "click", "target": box(A)}, {"op": "wait"}], [PAGE, None], 0, "a page may load while one waits"),
        ([{"op": "click", "target": box(A)}, {"op": "wait"}], [NOTHING, None], 0, "a click without effect tells nothing"),
        ([{"op": "click", "target": box(A)}, typing(B)], [(70, 1, 2, 1), None], 0, "a clock may tick beside a click without effect"),
        ([{"op": "click", "target": box(A)}, typing(B)], [at(38, 4, 8, 4), None], 1, "a change elsewhere is not the click's"),
        ([{"op": "navigate", "value": "u"}, {"op": "wait"}], [NOTHING, None], 1, "a new address changes the screen"),
        ([{"op": "navigate", "value": "u", "url": "u"}, {"op": "wait"}], [NOTHING, None], 0, "the same address need not"),
        ([typing(A, error="refused"), typing(B)], [NOTHING, None], 1, "what failed changed nothing"),
        ([typing(A, error="refused"), typing(B)], [B, None], 0, "what failed may have failed late"),
        ([{"op": "hover", "target": box(A)}, typing(B)], [B, None], 0, "a hover may show anything"),
        ([{"op": "click", "target": box(A)}, {"op": "type"}, typing(B)], [NOTHING, A, None], 1, "text goes where the click before it went"),
        ([{"op": "hover", "target": box(A)}, {"op": "type"}, typing(B)], [NOTHING, A, None], 0, "but not where the pointer only was"),
        ([typing((0, 0, ACROSS, DOWN)), typing(B)], [B, None], 0, "a target as large as the screen is no place"),
        ([typing((90, 0, 4, 2)), typing(B)], [B, None], 0, "a target off the screen is no place"),
        ([typing(A, target=box(A) | {"left": float("inf")}), typing(B)], [B, None], 0, "a box without end is no place"),
        ([typing(A, target={**dict.fromkeys(box(A)), "x": 70.0, "y": 70.0}), typing(B)], [A, None], 1, "a point is a place"),
    ],
)  # fmt: skip
def test_what_tells_two_actions_apart(steps, effects, evidence, why, tmp_path):
    assert one(tmp_path, steps, effects)["evidence"] == evidence, why


def test_actions_on_screens_of_another_size_are_not_compared(tmp_path):
    logs = Logs()
    for name, width in (("wide", 1280), ("narrow", 640)):
        add(logs, name, [typing(A), typing(B)], [A, None])
        logs.steps[-1]["before_image"] = logs.id(f"{name}-other")
        logs.used[f"{name}-other"] = None
        logs.odd[f"{name}-other"] = {"width": width}
    assert verdict(logs, tmp_path)["evidence"] == 1


def test_the_last_action_tells_without_a_screen_after_it(tmp_path):
    assert one(tmp_path, [{"op": "click", "target": box(A)}, {"op": "done"}], [PAGE, None])["n_minus"] == 1


def test_late_screens_are_counted_where_the_next_action_does_not_explain_them(tmp_path):
    steps = [{"op": "click", "target": box(A)}, {"op": "wait"}, {"op": "click", "target": box(A)}, typing(B), typing(B)]
    found = one(tmp_path, steps, [NOTHING, A, NOTHING, B, B])
    # Acts with a known next transition: both clicks and the first text. Only the first click shows a step late.
    assert found["delayed"] == pytest.approx(1 / 3)


def test_a_damaged_bitmap_tells_nothing(tmp_path):
    logs = typed(12, -1)
    for change in logs.changes:
        if change["state"] == "changed":
            change["tiles"] = change["tiles"][:3]
    found = verdict(logs, tmp_path)
    assert (found["verdict"], found["evidence"]) == ("undecided", 0)


def test_hostile_places_are_looked_up_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(alignment, "_LOOKUPS", 50)
    monkeypatch.setattr(alignment, "_BATCH", 7)
    whole = typed(12, -1)
    assert verdict(whole, tmp_path)["k_minus"] == 12


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("far", [1e308, -1e308, float("inf")])
def test_an_action_on_no_screen_has_no_place(tmp_path, far):
    target = dict.fromkeys(("x", "y", "left", "top", "width", "height"), far) | {"text": None}
    found = one(tmp_path, [{"op": "type", "target": target}] * 4, PLACES)
    assert (found["verdict"], found["evidence"]) == ("undecided", 0)


# The simulated corpus


def test_the_planted_shift_is_found_and_mended_by_its_own_advice(made, tmp_path):
    found = alignment.check(normalised(tmp_path / "control", control.KIND, made / control.FOLDER))
    assert (found["verdict"], found["lag"], found["obs_phase"], found["trajectories"]) == ("shifted", -1, "before", control.TRAJECTORIES)
    assert found["p"] < 1e-5 and "set `obs_phase: after`" in found["advice"]
    mended = alignment.check(normalised(tmp_path / "mended", control.KIND, made / control.FOLDER, obs_phase="after"))
    assert (mended["verdict"], mended["obs_phase"]) == ("aligned", "after")


def test_exchanged_fields_are_seen_where_both_screens_are_logged(tmp_path):
    corpus.write(tmp_path, 16, 1, ["plain"])
    root = tmp_path / "plain"
    lines = [json.loads(line) for line in (root / "trajectories.jsonl").read_text().splitlines() if line.endswith("}")]
    for step in (step for line in lines for step in line["steps"]):
        step["before_image"], step["after_image"] = step["after_image"], step["before_image"]
    (root / "trajectories.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = alignment.check(normalised(tmp_path / "out", "plain", root))
    assert (found["verdict"], found["lag"]) == ("swapped", None)
    assert "swap the two pictures" in found["advice"]


@pytest.mark.parametrize("kind", FORMATS)
def test_honest_formats_are_never_called_shifted(kind, made, tmp_path):
    found = alignment.check(normalised(tmp_path / kind, kind, made / kind))
    assert found["verdict"] in ("aligned", "undecided")
    # Not even as a tendency: one vote in ten for a neighbour is the most.
    assert found["k_minus"] + found["k_plus"] <= 0.1 * (found["n_minus"] + found["n_plus"])
    assert found["fits_own"] > max(found["fits_minus"], found["fits_plus"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("seed", [1, 2])
def test_forty_eight_trajectories_of_any_format_show_either_shift(kind, seed, tmp_path):
    corpus.write(tmp_path / "corpus", 48, seed, [kind])
    honest = normalised(tmp_path / "honest", kind, tmp_path / "corpus" / kind)
    assert alignment.check(honest)["verdict"] == "aligned"
    for by in (1, -1):
        found = alignment.check(shift(honest, tmp_path / f"by{by}", by))
        assert (found["verdict"], found["lag"]) == ("shifted", -by)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_the_planted_shift_is_found_and_no_format_is_flagged_whatever_the_seed(seed, tmp_path):
    corpus.write(tmp_path / "corpus", 200, seed)
    for kind in FORMATS:
        assert alignment.check(normalised(tmp_path / kind, kind, tmp_path / "corpus" / kind))["verdict"] != "shifted", kind
    found = alignment.check(normalised(tmp_path / "control", control.KIND, tmp_path / "corpus" / control.FOLDER))
    assert (found["verdict"], found["lag"]) == ("shifted", -1)


@pytest.mark.parametrize(("kind", "folder"), [("webvoyager", "webvoyager"), ("opencua", "opencua"), ("aitz", "aitz")])
def test_real_logs_are_never_called_shifted(kind, folder, real_logs, tmp_path):
    found = alignment.check(normalised(tmp_path / kind, kind, real_logs / folder, simulated=False))
    assert found["verdict"] in ("aligned", "undecided") and found["k_minus"] + found["k_plus"] == 0 < found["evidence"]


# The control in the corpus


def test_only_large_corpora_with_the_plain_format_hold_the_control(tmp_path):
    assert control.planted(50, FORMATS) and control.planted(200, ["plain"])
    assert not control.planted(49, FORMATS) and not control.planted(200, ["osworld", "weblinx"])
    corpus.write(tmp_path, 10, SEED, ["plain"])
    assert not (tmp_path / control.FOLDER).exists()


def test_the_rule_for_the_control_loads_nothing_heavy():
    heavy = ("numpy", "PIL", "pyarrow", "evoaudit.simulate.corpus")
    code = f"import sys, evoaudit.simulate.control; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_control_changes_no_other_file_and_counts_nowhere(tmp_path, monkeypatch):
    counts = corpus.write(tmp_path / "with", 50, SEED, ["plain"])
    monkeypatch.setattr(control, "planted", lambda *_: False)
    assert corpus.write(tmp_path / "without", 50, SEED, ["plain"]) == counts and counts["trajectories"] == 50
    roots = tmp_path / "with", tmp_path / "without"
    trees = [{path.relative_to(root): path for path in root.rglob("*") if path.is_file()} for root in roots]
    extra = {path for path in trees[0] if path.parts[0] == control.FOLDER}
    assert trees[0].keys() - extra == trees[1].keys() and len(extra) > control.TRAJECTORIES
    for path in trees[1]:
        before, after = trees[1][path].read_bytes(), trees[0][path].read_bytes()
        if path.name in ("files.sha256", "faults.jsonl"):
            assert set(before.splitlines()) < set(after.splitlines())
        else:
            assert before == after, path
    listed = dict(line.split("  ")[::-1] for line in (tmp_path / "with" / "files.sha256").read_text().splitlines())
    for path in extra:
        assert listed[path.as_posix()] == hashlib.sha256(trees[0][path].read_bytes()).hexdigest()


def test_the_control_has_no_truth_and_ids_of_its_own(made):
    lines = [json.loads(line) for line in (made / control.FOLDER / "trajectories.jsonl").read_text(encoding="utf-8").splitlines()]
    ids = {line["trajectory_id"] for line in lines}
    assert len(ids) == control.TRAJECTORIES and all(one.startswith("shifted-") for one in ids)
    truth = (made / "truth.jsonl").read_text(encoding="utf-8")
    assert "shifted" not in truth and len(truth.splitlines()) == 60
    assert all(set(step) & {"before_image", "after_image"} == {"before_image"} for line in lines for step in line["steps"])


# The table


@pytest.fixture(scope="module")
def table(made, tmp_path_factory) -> Path:
    """The stats folder of a run with one source and its control."""
    root = tmp_path_factory.mktemp("table")
    manifests = {}
    for name, kind, folder in (("sim-plain", "plain", "plain"), ("sim-shifted", control.KIND, control.FOLDER)):
        about = json.dumps({"source": name, "kind": kind, "simulated": True, "options": {}})
        words = ["normalise", "--settings", about, "--root-folder", str(made / folder), "--out", str(root / name)]
        assert not main(words)
        manifests[name] = str(root / name / "manifest.json")
    arguments = {"normalised": [manifests["sim-plain"]], "controls": [manifests["sim-shifted"]]}
    assert main(made_run.command(arguments, root / "stats")) == 0
    return root / "stats"


def test_the_table_lists_sources_and_then_the_control(table):
    source, planted = rows(table, "alignment")
    assert (source["source"], source["control"], source["simulated"]) == ("sim-plain", False, True)
    assert source["verdict"] != "shifted" and 50 < source["fits_own"] <= 100
    assert (planted["source"], planted["control"], planted["verdict"], planted["lag"]) == ("sim-shifted", True, "shifted", -1)
    assert planted["trajectories"] == control.TRAJECTORIES and planted["p"] < 1e-5


def test_no_other_table_knows_the_control(table):
    for path in sorted(table.glob("*.parquet")):
        if path.stem != "alignment":
            assert "shifted" not in json.dumps(rows(table, path.stem), default=str), path.stem


def test_without_sources_the_table_says_why_it_is_empty(tmp_path):
    assert main(made_run.command({}, tmp_path / "stats", {})) == 0
    (meta,) = [meta for meta in json.loads((tmp_path / "stats" / "tables.json").read_text()) if meta["name"] == "alignment"]
    assert (meta["n"], meta["empty"]) == (0, "No source was normalised in this run.")
