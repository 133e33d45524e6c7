"""Whether a source's pictures stand at the actions they are logged with: what changed on the screen, against the actions around it.

Every step claims a transition, from the screen before its action to the screen after it. If pictures are read one step off,
that transition is the work of another action: of the next one (lag -1) where pictures said to show the screen before an
action were taken after it, of the previous one (lag +1) where it is the other way round, or where screens were slow.

So each claimed transition is held against three actions, its own and both neighbours. What an action can do to a screen is
rated: fits, does not fit, or cannot tell. Typed text shows where it was typed, talk leaves a screen as it is, going to an
address changes much of it. A transition is evidence where its own action and a neighbour differ, one fitting and the other
not; a click without any effect, say, tells nothing apart. Steps of one trajectory hang together, so each trajectory has one
vote for each neighbour, its majority, and a sign test counts the votes.

Only neighbours in an unbroken run of one trajectory are compared, on screens of one size. Addresses are left out on purpose:
most sources log them with the picture, so that both would be wrong together and vouch for each other.
"""

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from evoaudit.errors import InputError, one_line
from evoaudit.screens import REACH, TILE
from evoaudit.store import read_table, table_file

#: Chance at which a verdict is taken for real: a run checks many sources, and a false alarm costs somebody a day.
ALPHA = 0.001
#: Share of the votes the winner needs besides. Recordings one step off give it nine in ten and more; in honest ones even slow
#: screens, and menus that open where the next click goes, leave the neighbour below a half.
SHARE = 0.7
#: Votes below which even unanimity could be chance: ten at the level above.
VOTES = math.ceil(-math.log2(ALPHA))
#: From this share of the screen on, a change is a new page: it says nothing of a place.
LARGE = 0.2
#: Up to this share, a change may be the screen's own doing: a clock, a caret, a spinner.
SMALL = 0.005
#: Targets larger than this share of the screen are no place.
BROAD = 0.2
#: Tiles around a target in which its change may lie: focus rings, and logged places that are a little off.
NEAR = 1

#: Rows of bitmaps, and tiles of targets, looked at in one go; with DuckDB's own limit they bound the memory.
_BATCH, _LOOKUPS = 4096, 4_000_000
_MEMORY = "700MB"

_OTHER, _TALK, _WAIT, _ENTER, _POINT, _GO, _MOVE = range(7)
_GROUP = {
    **dict.fromkeys(("note", "say", "answer", "done", "fail"), _TALK),
    "wait": _WAIT,
    **dict.fromkeys(("type", "paste", "select"), _ENTER),
    **dict.fromkeys(("click", "double_click", "right_click", "long_press", "drag"), _POINT),
    **dict.fromkeys(("navigate", "load", "back", "forward", "open_app"), _GO),
    **dict.fromkeys(("scroll", "swipe"), _MOVE),
}
_NO, _YES, _UNKNOWN = 0, 1, -1
#: A question of place: a change at the target fits; one elsewhere does not, or (`_PERHAPS`) may hide that nothing happened.
_PLACE, _PERHAPS = -2, -3
#: Group of the action → whether it fits a transition that changed nothing, a little (up to `SMALL`), a part, much of the screen.
_FITS = np.full((7, 4), _UNKNOWN, np.int8)
_FITS[_TALK] = (_YES, _YES, _UNKNOWN, _NO)
_FITS[_WAIT] = (_YES, _YES, _UNKNOWN, _UNKNOWN)  # a page may load while one waits
_FITS[_ENTER] = (_NO, _PLACE, _PLACE, _UNKNOWN)  # typing may end in a new page, but then it cannot be told from a click
_FITS[_POINT] = (_UNKNOWN, _PERHAPS, _PLACE, _YES)  # many clicks do nothing
_FITS[_GO] = (_NO, _UNKNOWN, _UNKNOWN, _YES)
_FITS[_MOVE] = (_UNKNOWN, _UNKNOWN, _UNKNOWN, _YES)
#: An action with an error should have changed nothing, but some fail late.
_FAILED = np.array((_YES, _UNKNOWN, _UNKNOWN, _UNKNOWN), np.int8)

_STEPS = """
    SELECT s.trajectory_id, s.step, s.gap_before, s.op, s.obs_phase, s.error IS NOT NULL AS failed,
           coalesce(s.value = s.url, false) AS stays, s.target.x AS x, s.target.y AS y, s.target."left" AS "left",
           s.target.top AS top, s.target.width AS width, s.target.height AS height,
           coalesce(b.width, a.width) AS screen_x, coalesce(b.height, a.height) AS screen_y,
           coalesce(c.state, 'unknown') AS state, c.changed_tiles, c.tiles_x, c.tiles_y
    FROM steps s LEFT JOIN changes c USING (trajectory_id, step)
    LEFT JOIN images b ON s.before_image = b.image_id LEFT JOIN images a ON s.after_image = a.image_id
    ORDER BY s.trajectory_id, s.step
"""
_TILES = """
    SELECT w.row, c.tiles FROM changes c JOIN wanted w USING (trajectory_id, step)
    WHERE 8 * octet_length(c.tiles) >= c.tiles_x * c.tiles_y
"""
#: Trajectories in which steps follow one another the wrong way round (what is before one step is after the next), and all that tell.
_CHAINS = """
    WITH pairs AS (
        SELECT trajectory_id, before_image AS before, after_image AS after,
               lead(before_image) OVER run AS next_before, lead(after_image) OVER run AS next_after, lead(gap_before) OVER run AS gap
        FROM steps WINDOW run AS (PARTITION BY trajectory_id ORDER BY step)
    ), told AS (
        SELECT sum(CASE WHEN before = next_after THEN 1 ELSE -1 END) AS wrong
        FROM pairs WHERE NOT gap AND (before = next_after) != (after = next_before) GROUP BY trajectory_id
    )
    SELECT count(*) FILTER (wrong > 0), count(*) FILTER (wrong != 0) FROM told
"""


def check(folder: Path) -> dict:
    """Return the verdict on one normalised source and the numbers behind it.

    ``verdict`` is ``aligned``, ``shifted`` (by ``lag``), ``swapped`` (before and after exchanged) or ``undecided``;
    ``advice`` says what to do or what is missing.
    ``compared`` counts steps whose two screens could be compared, ``evidence`` those that tell. ``fits_minus``, ``fits_own`` and
    ``fits_plus`` are shares (0…1) of the transitions that the next, the own and the previous action can be judged by. ``n_minus``
    and ``n_plus`` are votes, ``k_minus`` and ``k_plus`` those for the neighbour, ``p_minus`` and ``p_plus`` the chance of so many
    if both were as likely; ``p`` is that of the verdict. ``delayed`` is the share of actions whose own transition shows nothing
    while the next one shows their effect.
    """
    about = read_table(folder, "trajectories", ["source", "kind", "simulated"])
    with tempfile.TemporaryDirectory() as scratch, duckdb.connect() as connection:
        connection.execute(f"SET memory_limit='{_MEMORY}'; SET threads=2")
        connection.execute("SET temp_directory=$folder", {"folder": scratch})
        for name in ("steps", "changes", "images"):
            connection.register(name, ds.dataset(str(table_file(folder, name)), format="parquet"))
        try:
            steps = _steps(connection.sql(_STEPS).to_arrow_table())
            fits = _ratings(connection, steps)
            swapped = connection.sql(_CHAINS).fetchall()[0] if steps.phase == "both" else (0, 0)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            mend = "make room on the disk, or delete the normalised folder and run again"
            raise InputError(folder, f"its tables cannot be read together ({one_line(str(error), 200)})", mend) from None
    row = {
        "source": _all(about["source"]),
        "kind": _all(about["kind"]),
        "obs_phase": steps.phase,
        "trajectories": about.num_rows,
        "steps": len(steps.level),
        "compared": int((steps.level >= 0).sum()),
        **_votes(steps, fits),
        "delayed": _delayed(steps, fits),
        "simulated": bool(pc.any(about["simulated"]).as_py()),
    }
    if _wins(*swapped):
        return row | {"verdict": "swapped", "lag": None, "p": _chance(*swapped), "advice": _SWAP}
    return row | _verdict(row)


def _all(column: pa.ChunkedArray) -> str | None:
    return ", ".join(sorted(pc.unique(column).to_pylist())) or None


@dataclass(slots=True)
class _Steps:
    """One row a step, in order of trajectory and step."""

    #: What a row of `changes` is found by.
    keys: pa.Table
    phase: str | None
    trajectory: np.ndarray
    group: np.ndarray
    failed: np.ndarray
    #: Whether the next row is the next step of an unbroken run.
    tied: np.ndarray
    #: Left, top, right and bottom in tiles, both ends included; -1 for no place.
    place: np.ndarray
    #: Width and height of the screen acted on, pixels; -1 if unknown.
    screen: np.ndarray
    #: How much changed: 0 nothing, 1 a little, 2 a part, 3 much; -1 if unknown.
    level: np.ndarray
    tiles_x: np.ndarray


def _steps(table: pa.Table) -> _Steps:
    trajectory = _codes(table["trajectory_id"])[0]
    codes, ops = _codes(table["op"])
    failed, stays, gap = (_flags(table[name]) for name in ("failed", "stays", "gap_before"))
    group = np.array([*(_GROUP.get(op, _OTHER) for op in ops), _OTHER], np.int8)[codes]
    group[(group == _GO) & stays] = _OTHER  # a page that is asked for again need not change
    number, tiles_x, tiles_y, changed = (_whole(table[name]) for name in ("step", "tiles_x", "tiles_y", "changed_tiles"))
    tied = np.zeros(table.num_rows, bool)
    tied[:-1] = (trajectory[1:] == trajectory[:-1]) & (number[1:] == number[:-1] + 1) & ~gap[1:]
    screen = np.stack([_whole(table[name]) for name in ("screen_x", "screen_y")], axis=1)
    place = _places({name: _real(table[name]) for name in ("x", "y", "left", "top", "width", "height")}, screen)
    # Text without a place of its own goes where the click right before it went.
    heirs = np.flatnonzero(tied[:-1] & (group[:-1] == _POINT) & (group[1:] == _ENTER) & (place[1:, 0] < 0)) + 1
    heirs = heirs[(screen[heirs] == screen[heirs - 1]).all(axis=1)]
    place[heirs] = place[heirs - 1]
    known = pc.not_equal(table["state"], "unknown").to_numpy().astype(bool) & (changed >= 0) & (tiles_x > 0) & (tiles_y > 0)
    share = changed / np.maximum(tiles_x.astype(np.int64) * tiles_y, 1)
    level = np.select([~known, changed == 0, share <= SMALL, share < LARGE], [-1, 0, 1, 2], 3).astype(np.int8)
    return _Steps(
        table.select(["trajectory_id", "step"]), _all(table["obs_phase"]), trajectory, group, failed, tied, place, screen, level, tiles_x
    )


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list]:
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()


def _flags(column: pa.ChunkedArray) -> np.ndarray:
    return column.to_numpy().astype(bool)


def _whole(column: pa.ChunkedArray) -> np.ndarray:
    return pc.fill_null(column, -1).to_numpy().astype(np.int32)


def _real(column: pa.ChunkedArray) -> np.ndarray:
    return pc.fill_null(pc.cast(column, pa.float64()), math.nan).to_numpy()


def _places(target: dict[str, np.ndarray], screen: np.ndarray) -> np.ndarray:
    """Return the tiles each action went to: its box if that lies on the screen and is not too broad, else its point."""
    grid = -(-screen // TILE)
    found = np.full((len(screen), 4), -1, np.int32)
    box = [target[name] for name in ("left", "top", "width", "height")]
    for left, top, width, height in ((target["x"], target["y"], 0.0, 0.0), box):
        given = np.stack(np.broadcast_arrays(left, top, width, height), axis=1)
        far = ~(np.abs(given) <= REACH).all(axis=1)
        given[far] = 0.0
        ends = np.concatenate([given[:, :2], given[:, :2] + given[:, 2:]], axis=1)
        good = ~far & (ends[:, 2:] >= ends[:, :2]).all(axis=1)
        good &= (ends[:, :2] < screen).all(axis=1) & (ends[:, 2:] >= 0).all(axis=1)
        inside = np.clip(np.where(good[:, None], ends, 0.0), 0.0, np.tile(np.maximum(screen - 1, 0), 2))
        tiles = (inside // TILE).astype(np.int32)
        wide, high = tiles[:, 2] - tiles[:, 0] + 1.0, tiles[:, 3] - tiles[:, 1] + 1.0
        # A point is one tile and never too broad, however small the screen.
        good &= (wide * high <= 1) | (wide * high <= BROAD * grid[:, 0] * grid[:, 1])
        near = np.concatenate([np.maximum(tiles[:, :2] - NEAR, 0), np.minimum(tiles[:, 2:] + NEAR, grid - 1)], axis=1)
        found[good] = near[good]
    return found


def _ratings(connection: duckdb.DuckDBPyConnection, steps: _Steps) -> dict[int, np.ndarray]:
    """Return lag → for each transition whether it fits the action it would then belong to."""
    rows = np.arange(len(steps.level))
    near = {-1: steps.tied, 0: np.ones(len(rows), bool), 1: np.concatenate([[False], steps.tied])[: len(rows)]}
    fits, questions = {}, []
    for lag in (-1, 0, 1):
        action = np.clip(rows - lag, 0, max(len(rows) - 1, 0))
        rated = np.where(steps.failed[action], _FAILED[steps.level], _FITS[steps.group[action], steps.level])
        usable = near[lag] & (steps.level >= 0) & (steps.screen[action] == steps.screen).all(axis=1)
        fits[lag] = np.where(usable & ((rated > _PLACE) | (steps.place[action, 0] >= 0)), rated, _UNKNOWN)
        here = np.flatnonzero(fits[lag] <= _PLACE)
        questions.append(np.stack([here, np.full(len(here), lag), action[here]], axis=1))
    for row, lag, touched in _touched(connection, steps, np.concatenate(questions)):
        for one in (-1, 0, 1):
            mine, hit = row[lag == one], touched[lag == one]
            fits[one][mine] = np.where(hit, _YES, np.where(fits[one][mine] == _PERHAPS, _UNKNOWN, _NO))
    # What is still asked has no bitmap.
    return {lag: np.maximum(rated, _UNKNOWN) for lag, rated in fits.items()}


def _touched(
    connection: duckdb.DuckDBPyConnection, steps: _Steps, questions: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Answer questions (row, lag, action), batch by batch: did a tile of the action's place change in the row's transition?"""
    questions = questions[np.argsort(questions[:, 0], kind="stable")]
    rows = np.unique(questions[:, 0])
    if not len(rows):
        return
    connection.register("wanted", steps.keys.take(rows).append_column("row", pa.array(rows)))
    for batch in connection.sql(_TILES).to_arrow_reader(_BATCH):
        here, bitmaps = batch["row"].to_numpy(), batch["tiles"].cast(pa.large_binary())
        _, offsets, data = bitmaps.buffers()
        starts = np.frombuffer(offsets, np.int64)[bitmaps.offset : bitmaps.offset + len(here)]
        first, last = (np.searchsorted(questions[:, 0], here, side) for side in ("left", "right"))
        owner, inner = _spread(last - first)
        row, lag, action = questions[first[owner] + inner].T
        yield row, lag, _any_set(np.frombuffer(data, np.uint8), starts[owner], steps.tiles_x[row], steps.place[action])


def _any_set(data: np.ndarray, start: np.ndarray, tiles_x: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return for each bitmap, which begins at byte ``start`` of ``data``, whether any tile of its place is set."""
    wide, high = (place[:, 2:] - place[:, :2] + 1).T.astype(np.int64)
    found = np.zeros(len(place), bool)
    parts = np.cumsum(wide * high) // _LOOKUPS
    for part in np.unique(parts):
        low, up = np.searchsorted(parts, [part, part + 1])
        owner, inner = _spread((wide * high)[low:up])
        owner += low
        tile = (place[owner, 1] + inner // wide[owner]) * tiles_x[owner] + place[owner, 0] + inner % wide[owner]
        found[owner[(data[start[owner] + (tile >> 3)] >> (7 - (tile & 7)).astype(np.uint8)) & 1 == 1]] = True
    return found


def _spread(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for counts (2, 3) the owners 0 0 1 1 1 and the places 0 1 0 1 2 within them."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def _votes(steps: _Steps, fits: dict[int, np.ndarray]) -> dict:
    """Return how often actions fit, and one vote a trajectory between the own action and each neighbour."""
    found: dict = {}
    evidence = np.zeros(len(steps.level), bool)
    for lag, name in ((-1, "minus"), (1, "plus")):
        own, other = fits[0], fits[lag]
        telling = (own >= 0) & (other >= 0) & (own != other)
        evidence |= telling
        margin = np.bincount(steps.trajectory[telling], weights=other[telling].astype(float) - own[telling])
        k, n = int((margin > 0).sum()), int((margin != 0).sum())
        found |= {f"n_{name}": n, f"k_{name}": k, f"p_{name}": _chance(k, n)}
    for lag, name in ((-1, "minus"), (0, "own"), (1, "plus")):
        known = fits[lag][fits[lag] >= 0]
        found[f"fits_{name}"] = float(known.mean()) if len(known) else None
    return {"evidence": int(evidence.sum()), **found}


def _chance(k: int, n: int) -> float:
    """Return how likely ``k`` or more of ``n`` even votes are."""
    from scipy.stats import binomtest

    return float(binomtest(k, n, 0.5, "greater").pvalue) if n else 1.0


def _delayed(steps: _Steps, fits: dict[int, np.ndarray]) -> float | None:
    """Return the share of actions whose effect shows in the next transition only, where that one's own action does not explain it."""
    acts = np.isin(steps.group, (_ENTER, _POINT, _GO)) & ~steps.failed & steps.tied & (steps.level >= 0)
    here = np.flatnonzero(acts)
    here = here[steps.level[here + 1] >= 0]
    late = (steps.level[here] == 0) & (fits[1][here + 1] == _YES) & ((fits[0][here + 1] == _NO) | (steps.group[here + 1] == _WAIT))
    return float(late.mean()) if len(here) else None


#: Lag → where the pictures then stand beside their actions.
_OFF = {-1: "a step ahead", 1: "a step behind"}
_MEND = {
    (-1, "before"): "pictures look taken after the action they are logged with: set `obs_phase: after` on this source",
    (1, "after"): "pictures look taken before the action they are logged with: set `obs_phase: before` on this source",
    -1: "pictures look one step ahead of their actions: pair each action with the pictures of the step before it",
    1: "pictures look one step behind their actions, or taken before the screen had reacted: pair each action with the pictures of the "
    "step after it, or record later",
}
_SWAP = "before and after look exchanged: what is before one action is after the next; swap the two pictures of each step"


def _verdict(row: dict) -> dict:
    votes = {-1: (row["k_minus"], row["n_minus"]), 1: (row["k_plus"], row["n_plus"])}
    shifted = [lag for lag, (k, n) in votes.items() if _wins(k, n)]
    open_ = [lag for lag, (k, n) in votes.items() if not _wins(n - k, n)]
    if len(shifted) == 1:
        (lag,) = shifted
        advice = _MEND.get((lag, row["obs_phase"]), _MEND[lag])
        return {"verdict": "shifted", "lag": lag, "p": row["p_minus" if lag < 0 else "p_plus"], "advice": advice}
    if not open_:
        return {"verdict": "aligned", "lag": 0, "p": max(_chance(n - k, n) for k, n in votes.values()), "advice": "nothing to do"}
    return {"verdict": "undecided", "lag": None, "p": None, "advice": _reason(row, votes, shifted or open_)}


def _wins(k: int, n: int) -> bool:
    return n > 0 and k / n >= SHARE and _chance(k, n) < ALPHA


def _reason(row: dict, votes: dict[int, tuple[int, int]], lags: list[int]) -> str:
    """Say what keeps a source from a verdict."""
    if not row["compared"]:
        return f"none of its {row['steps']} steps has two screens that can be compared"
    if not row["evidence"]:
        return f"none of its {row['compared']} pairs of screens tells its own action from the neighbours"
    few = [f"{votes[lag][1]} on whether they are {_OFF[lag]}" for lag in lags if votes[lag][1] < VOTES]
    if few:
        return f"too few trajectories speak on how the pictures stand: {', '.join(few)}; {VOTES} are needed"
    mixed = [f"{votes[lag][0]} of {votes[lag][1]} trajectories say that pictures are {_OFF[lag]}" for lag in lags]
    return f"the evidence is mixed: {' and '.join(mixed)}; look at some by eye"
