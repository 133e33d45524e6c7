"""Draw the audit sample: every considered trajectory with its place and why it was, or was not, taken."""

import argparse
import csv
import difflib
import io
from pathlib import Path

from evoaudit import csvfile
from evoaudit.errors import InputError
from evoaudit.givenfile import read_given
from evoaudit.stages import common

FRAME_COLUMNS = ("trajectory_id", "benchmark", "agent", "task_id")
FRAME_OPTIONAL = ("raw_reward", "experiment", "verdict", "simulated", "domain", "source")
MAX_FRAME_BYTES = 512 * 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.arguments(parser)
    parser.add_argument("--normalised", nargs="*", default=[], metavar="MANIFEST", help="manifests of the normalise stage")
    parser.add_argument(
        "--frame",
        type=Path,
        metavar="CSV",
        help=f"instead: a table of {', '.join(FRAME_COLUMNS)} (and, if known, {', '.join(FRAME_OPTIONAL)}); all its rows are the sample",
    )


def run(args: argparse.Namespace) -> int | None:
    from evoaudit.audit import sample
    from evoaudit.store import canonical, read_rows, read_table, write_table

    if bool(args.normalised) == (args.frame is not None):
        raise InputError("sample", "needs either --normalised or --frame", "give one of the two")
    settings = _settings(args)
    with common.stage(args, "sample", "trajectory") as (folder, counts):
        if args.frame is not None:
            drawn = sample.Draw(read_frame(args.frame), calibration={"wanted": 0, "taken": 0})
        else:
            pool, seen = [], {}
            for manifest in args.normalised:
                stage = common.folder_of(manifest)
                columns = ["trajectory_id", "source", "benchmark", "task_id", "task_revision", "agent", "experiment", "domain", "simulated"]
                trajectories = read_table(stage, "trajectories", columns).to_pylist()
                oracles: dict[str, list[dict]] = {}
                for row in read_rows(stage, "oracle_results"):
                    oracles.setdefault(row["trajectory_id"], []).append(row)
                pool += sample.candidates(trajectories, oracles)
                for row in trajectories:
                    if row["trajectory_id"] in seen:
                        raise InputError(
                            manifest,
                            f"trajectory '{row['trajectory_id']}' is also in {seen[row['trajectory_id']]}",
                            "give it another trajectory_id in one of them, or remove one of the two sources",
                        )
                    seen[row["trajectory_id"]] = manifest
            _known(settings["quotas"], {one.row["benchmark"] for one in pool} - {None})
            drawn = sample.draw(pool, seed=args.seed or 0, **settings)
        rows = sorted((one.sample_row() for one in drawn.candidates), key=lambda row: row["trajectory_id"])
        for row in rows:
            if row["status"] in ("analysed", "calibration"):
                counts.keep("trajectory")
            else:
                counts.drop("trajectory", row["source"] or "", row["trajectory_id"], row["status"])
        write_table(folder, "sample", rows)
        quotas = {"seed": args.seed, "quotas": drawn.quotas, "calibration": drawn.calibration}
        (folder / "quotas.json").write_text(canonical(quotas) + "\n", encoding="utf-8")
    return None


def _known(quotas: dict, benchmarks: set[str]) -> None:
    """Refuse a quota for a benchmark that no trajectory belongs to: a misspelt name would draw nothing and say nothing."""
    for name in sorted(quotas.keys() - benchmarks):
        near = difflib.get_close_matches(name, sorted(benchmarks), n=1, cutoff=0.5)
        mend = f"did you mean '{near[0]}'? " if near else ""
        known = ", ".join(sorted(benchmarks)) or "none"
        raise InputError(f"audit.quotas: {name}", "no trajectory belongs to this benchmark", f"{mend}there are {known}")


def _settings(args: argparse.Namespace) -> dict:
    """Check the draw's settings; the config layer has filled in the defaults."""
    given = {"verdicts": ["fail"], "quotas": {}, "calibration": 8} | args.settings
    where = "sample --settings"
    for verdict in given["verdicts"]:
        if verdict not in ("fail", "pass"):
            raise InputError(where, f"verdicts: '{verdict}'", "use fail, pass or both")
    quotas = {}
    for benchmark, quota in (given["quotas"] or {}).items():
        count = quota.get("per_agent") if isinstance(quota, dict) and set(quota) == {"per_agent"} else quota
        if type(count) is not int or count < 0:
            raise InputError(where, f"quotas.{benchmark}: {quota!r}", "give a count, or {per_agent: count}")
        quotas[benchmark] = quota
    calibration = given["calibration"]
    if type(calibration) is not int or calibration < 0:
        raise InputError(where, f"calibration: {calibration!r}", "give a count")
    return {"verdicts": list(dict.fromkeys(given["verdicts"])), "quotas": quotas, "calibration": calibration}


def read_frame(path: Path) -> list:
    """Read a frame; every row of it is analysed."""
    import math

    from evoaudit.audit.sample import Candidate
    from evoaudit.store import text

    raw = read_given(path, MAX_FRAME_BYTES, "give the path of a CSV file", "too large for a frame")
    try:
        content = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(path, f"not UTF-8 at byte {error.start}", "save it as UTF-8") from None
    reader = csv.DictReader(io.StringIO(content, newline=""), strict=True)
    found, seen, line = [], {}, 1
    try:
        header = [name.strip() for name in reader.fieldnames or []]
        reader.fieldnames = header
        if missing := [name for name in FRAME_COLUMNS if name not in header]:
            raise InputError(f"{path}:1", f"no column '{missing[0]}'", f"the columns are {', '.join(FRAME_COLUMNS)}; cells may be empty")
        if len(set(header)) != len(header):
            raise InputError(f"{path}:1", "the header names a column twice", "name every column once")
        if stray := [name for name in header if name not in FRAME_COLUMNS + FRAME_OPTIONAL]:
            raise InputError(f"{path}:1", f"unknown column '{stray[0]}'", f"beside the four, {', '.join(FRAME_OPTIONAL)} are read")
        line = reader.line_num + 1
        for cells in reader:
            where, line = f"{path}:{line}", reader.line_num + 1
            if None in cells or None in cells.values():
                raise InputError(where, f"not as many cells as the header's {len(header)}", "quote cells that hold commas")
            row = {name: text(csvfile.plain(cells.get(name) or "") or None) for name in (*FRAME_COLUMNS, *FRAME_OPTIONAL)}
            identity = row["trajectory_id"]
            if not identity or not identity.strip():
                raise InputError(where, "trajectory_id: is missing", "give every row an id")
            if identity in seen:
                raise InputError(where, f"trajectory_id: '{identity}' again, first at {seen[identity]}", "give every trajectory one row")
            seen[identity] = where
            reward = None
            if row["raw_reward"]:
                try:
                    reward = float(row["raw_reward"])
                except ValueError:
                    reward = math.nan
                if not math.isfinite(reward):
                    raise InputError(where, f"raw_reward: '{row['raw_reward'][:60]}' is not a number", "leave it empty if unknown")
            verdict = row["verdict"] or ("fail" if not reward else "pass" if reward >= 1 else "unscored")
            if verdict not in ("pass", "fail", "error", "unscored"):
                raise InputError(where, f"verdict: '{verdict}'", "use pass, fail, error or unscored")
            row["simulated"] = (row["simulated"] or "").strip().lower() in ("true", "1")
            found.append(Candidate(row, verdict, reward, "analysed"))
    except csv.Error as error:
        raise InputError(f"{path}:{line}", f"not CSV ({error})", "quote cells that hold commas, quotes or line breaks") from None
    return found
