"""What looks wrong in a normalised source: one sentence each, saying what, where, and why it matters.

Nothing here is a verdict. Each check names something that people found in released data, or in their own logs, after they
had drawn conclusions from it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from evoaudit.actions import OPS
from evoaudit.catalogue_tables import Database, other_verbs
from evoaudit.errors import one_line
from evoaudit.reasons import explain

#: Runs of an agent that must end alike before it is said that all do, and the steps within which they end.
ALIKE_RUNS, ALIKE_STEPS = 5, 3
#: Scored runs of an agent that must all have one verdict before it is said.
ONE_VERDICT_RUNS = 10
#: Consecutive label rows that make a block, and how many such coincidences chance may be expected to make.
BLOCK, CHANCE = 5, 1e-3
#: Occurrences of one block that are looked at.
_TWINS = 1000
#: Shares above which something is said.
OTHER_SHARE, LOST_PICTURES, LOST_STEPS, FAULTY_STEPS, SAME_PICTURE, OFF_SCREEN = 0.1, 0.2, 0.5, 0.1, 0.5, 0.05
#: Steps of a trajectory that shows one picture throughout, and the share of such trajectories that is worth a word.
STUCK_STEPS, STUCK_SHARE = 5, 0.05
#: What was done tells trajectories apart if it went to at least this many places, or holds this many values and characters in them.
SPEAKING_TARGETS, SPEAKING_VALUES, SPEAKING_CHARACTERS = 5, 2, 8

#: Operations that leave the screen alone: an agent that did nothing else never acted.
_IDLE = ("answer", "done", "fail", "note", "say", "wait")
_CLOSING = ("answer", "done", "fail")
#: Operations whose values tell what a task is about.
_SPEAKING = ("navigate", "open_app", "paste", "select", "type")


#: Label rows in the order of the file, with the logarithm of how likely each is by chance.
_CHANCES = """
WITH kept AS (
  SELECT *, coalesce(benchmark, '') || chr(31) || coalesce(agent, '') AS cell, coalesce(answer, '') AS said,
         row_number() OVER (ORDER BY row, trajectory_id, annotator, question) AS place FROM annotations),
pairs AS (
  SELECT a.place, a.cell, a.question, b.question AS other, a.said, b.said AS other_said
  FROM kept a JOIN kept b ON (a.trajectory_id, a.annotator, a.row) = (b.trajectory_id, b.annotator, b.row) AND b.question < a.question),
joint AS (SELECT question, other, said, other_said, count(*) AS n FROM pairs GROUP BY ALL),
told AS (
  SELECT question, other, sum(n * ln(n * whole / (mine * theirs))) AS information FROM (
    SELECT *, sum(n) OVER (PARTITION BY question, other) AS whole, sum(n) OVER (PARTITION BY question, other, said) AS mine,
           sum(n) OVER (PARTITION BY question, other, other_said) AS theirs FROM joint)
  GROUP BY question, other),
best AS (SELECT question, arg_max(other, (information, other)) AS other FROM told GROUP BY question),
beside AS (SELECT pairs.place, pairs.other_said FROM pairs JOIN best USING (question, other)),
laid AS (SELECT kept.*, coalesce(beside.other_said, chr(30)) AS given FROM kept LEFT JOIN beside USING (place))
SELECT dense_rank() OVER (ORDER BY question, said) AS code, dense_rank() OVER (ORDER BY trajectory_id) AS owner, trajectory_id AS name,
       ln(count(*) OVER (PARTITION BY cell, question, given, said) / count(*) OVER (PARTITION BY cell, question, given)) AS chance
FROM laid ORDER BY place
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that looks wrong in one source. A ``note`` only has to be known, a ``look`` has to be looked at."""

    source: str
    code: str
    sentence: str
    examples: tuple[str, ...] = ()
    level: str = "look"
    #: Numbers behind the sentence.
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Label rows in blocks that occur again for other trajectories."""

    rows: int
    total: int
    trajectories: int
    #: Length of the longest block looked for and found.
    longest: int
    examples: tuple[str, ...]


def check(database: Database) -> list[Finding]:
    """Return what looks wrong in one source."""
    return [found for one in _CHECKS for found in one(database)]


def _found(database: Database, code: str, sentence: str, examples: Sequence[str] = (), level: str = "look", **numbers: float) -> Finding:
    return Finding(database.source, code, one_line(sentence, 800), tuple(one_line(one, 400) for one in examples if one), level, numbers)


def _aligned(database: Database) -> Iterator[Finding]:
    found = database.alignment
    if found.get("verdict") in ("shifted", "swapped"):
        advice = str(found.get("advice") or "pictures look shifted by one step: set `obs_phase` on this source").rstrip(".")
        sentence = f"{advice[:1].upper()}{advice[1:]}; until then no pair of screens belongs to its own action."
        yield _found(database, "shifted_pictures", sentence)


def _ends_alike(database: Database) -> Iterator[Finding]:
    # A click says how a run ended only together with its place; what was answered or typed speaks for itself.
    rows = database.all(
        f"""
      WITH last AS (
        SELECT t.trajectory_id, t.agent, t.benchmark, t.n_steps, s.error, s.op, s.value,
               s.op || ' ' || CASE WHEN s.value IS NOT NULL OR s.op IN {_CLOSING} THEN coalesce(s.value, '')
                                   ELSE coalesce(CAST(s.target AS VARCHAR), t.trajectory_id) END AS way
        FROM trajectories t JOIN acts s ON s.trajectory_id = t.trajectory_id AND s.step = t.n_steps - 1
        WHERE t.agent IS NOT NULL)
      SELECT agent, benchmark, grouping(benchmark) AS whole, count(*) AS n, max(n_steps), count(DISTINCT way), min(op), min(value),
             count(DISTINCT error), min(error), count(error), min(trajectory_id)
      FROM last GROUP BY GROUPING SETS ((agent), (agent, benchmark))
      HAVING count(*) >= ? AND max(n_steps) <= ? ORDER BY agent, whole DESC, benchmark
    """,
        ALIKE_RUNS,
        ALIKE_STEPS,
    )
    told: set[str] = set()
    for agent, benchmark, whole, n, steps, ways, op, value, errors, error, failed, first in rows:
        same_error = errors == 1 and failed == n
        if (ways != 1 and not same_error) or agent in told:
            continue
        told |= {agent} if whole else set()
        how = f"the error {_quoted(error)}" if same_error else f"'{op}'" + (f" {_quoted(value)}" if value else "")
        where = "" if whole else f" on {_quoted(benchmark or 'no benchmark')}"
        yield _found(
            database,
            "ends_alike",
            f"Every one of the {n:,} runs of agent {_quoted(agent)}{where} "
            f"ends within {_count(steps, 'step')} with {how}: more likely one set-up that failed than {n:,} tasks that did; "
            "look at a run before you score them.",
            [first],
            runs=n,
            steps=steps,
        )


def _same_picture(database: Database) -> Iterator[Finding]:
    trajectories, total = database.one("SELECT count(DISTINCT trajectory_id), count(*) FROM screens")
    if trajectories >= ALIKE_RUNS:
        image, uses, owners, later = database.one(
            "SELECT image_id, count(*) AS n, count(DISTINCT trajectory_id), count(DISTINCT trajectory_id) FILTER (place > 0) "
            "FROM screens GROUP BY image_id ORDER BY n DESC, image_id LIMIT 1"
        )
        # The first screen may well be the same everywhere; a later one that is shows that something went wrong, or a start page.
        if uses > SAME_PICTURE * total or (later > SAME_PICTURE * trajectories and trajectories >= 2 * ALIKE_RUNS):
            yield _found(
                database,
                "same_picture",
                f"One and the same picture is {_share(uses, total)} of all screens and occurs in {owners:,} of {trajectories:,} "
                "trajectories: a capture that failed, or a page that never loaded, shows nothing of what was done.",
                database.one("SELECT file || coalesce('#' || member, '') FROM images WHERE image_id = ?", image),
                screens=uses,
                trajectories=owners,
            )
    stuck = [
        name
        for (name,) in database.all(
            "SELECT trajectory_id FROM screens GROUP BY trajectory_id HAVING count(*) > ? AND count(DISTINCT image_id) = 1 ORDER BY ALL",
            STUCK_STEPS,
        )
    ]
    long = database.one("SELECT count(*) FROM trajectories WHERE n_steps >= ?", STUCK_STEPS)[0]
    if len(stuck) >= max(2, STUCK_SHARE * long):
        yield _found(
            database,
            "stuck_picture",
            f"In {len(stuck):,} of the {_count(long, 'trajectory', 'trajectories')} with {STUCK_STEPS} steps or more the screen never "
            "changes at all: it was captured once, or the environment stood still.",
            stuck[:1],
            trajectories=len(stuck),
        )


def _copies(database: Database) -> Iterator[Finding]:
    tasks = "count(DISTINCT coalesce(task_id, instruction, trajectory_id))"
    done = database.all(
        f"""
      WITH sequence AS (
        SELECT trajectory_id, md5(string_agg(concat_ws(chr(31), op, coalesce(value, chr(30)), target), chr(29) ORDER BY step)) AS mark
        FROM (SELECT * REPLACE (coalesce(CAST(target AS VARCHAR), '') AS target) FROM acts) GROUP BY trajectory_id
        HAVING count(*) >= 3 AND (count(DISTINCT target) > ? OR (
          count(value) FILTER (op IN {_SPEAKING}) >= ? AND sum(length(value)) FILTER (op IN {_SPEAKING}) >= ?)))
      SELECT list(trajectory_id ORDER BY trajectory_id) FROM sequence JOIN trajectories USING (trajectory_id)
      GROUP BY mark HAVING {tasks} > 1 ORDER BY ALL
    """,
        SPEAKING_TARGETS,
        SPEAKING_VALUES,
        SPEAKING_CHARACTERS,
    )
    if done:
        copies = sum(len(names) for (names,) in done)
        yield _found(
            database,
            "same_actions",
            f"{_count(copies, 'trajectory', 'trajectories')} of different tasks have the same actions, values and places from end to "
            "end as another: one recording filed under several tasks, or an agent that never read its task.",
            [" = ".join(_tail(name, 60) for name in done[0][0][:2])],
            trajectories=copies,
        )
    # Two agents that do the same in a sandbox see the same; two tasks, or one agent twice, hardly ever do.
    seen = database.all(
        f"""
      WITH sequence AS (
        SELECT trajectory_id, md5(string_agg(image_id, ' ' ORDER BY place)) AS mark FROM screens GROUP BY trajectory_id
        HAVING count(*) >= 3 AND count(DISTINCT image_id) >= 2)
      SELECT list(trajectory_id ORDER BY trajectory_id) FROM sequence JOIN trajectories USING (trajectory_id)
      GROUP BY mark HAVING {tasks} > 1 OR count(*) > count(DISTINCT coalesce(agent, '')) ORDER BY ALL
    """
    )
    if seen:
        copies = sum(len(names) for (names,) in seen)
        yield _found(
            database,
            "same_pictures",
            f"{_count(copies, 'trajectory', 'trajectories')} show exactly the same pictures in the same order as another: "
            "the same recording twice, or runs that wrote into one folder; keep one of each.",
            [" = ".join(_tail(name, 60) for name in seen[0][0][:2])],
            trajectories=copies,
        )


def _label_blocks(database: Database) -> Iterator[Finding]:
    found = label_blocks(database)
    if found is not None:
        yield _found(
            database,
            "label_blocks",
            f"{found.rows:,} of {found.total:,} label rows, on {_count(found.trajectories, 'trajectory', 'trajectories')}, stand in "
            f"blocks that occur again, answer by answer, for other trajectories (blocks of {found.longest} rows and more): "
            "chance does not do that, so the labels may be copies and not judgements.",
            found.examples[:1],
            rows=found.rows,
            trajectories=found.trajectories,
        )


def label_blocks(database: Database) -> Blocks | None:
    """Find blocks of at least `BLOCK` consecutive label rows that occur again for other trajectories, beyond chance.

    How likely a block is by chance follows from how often each answer is given, in the same benchmark by the same agent, beside
    the annotator's answer to the question that tells most about it. So neither a run of the commonest answers is a block, nor
    answers that follow from each other. Blocks are looked for at growing lengths, by rank doubling.
    """
    if database.one("SELECT count(*) FROM annotations")[0] < 2 * BLOCK:
        return None
    table = database.columns(_CHANCES)
    code, owner, chance = (np.ma.getdata(table[name]) for name in ("code", "owner", "chance"))
    total = len(code)
    sums = np.concatenate([[0.0], np.cumsum(chance)])
    marked = np.zeros(total, bool)
    longest, length = 0, 1
    # ``window[i]`` numbers the block of ``length`` rows that begins at row i, ``people[i]`` the trajectories it is about.
    window, people = _numbered(code), _numbered(owner)
    while (target := BLOCK if length == 1 else length + length // 2) <= total // 2:
        while length < target:
            step = min(length, target - length)
            window, people = _joined(window, step), _joined(people, step)
            length += step
        if window.max() + 1 == len(window):  # no block of this length occurs twice
            break
        expected = sums[length:] - sums[:-length] + np.log(total * total / 2)
        starts = _repeated(window, people, owner, length, expected < np.log(CHANCE))
        if len(starts):
            longest = length
            edges = np.zeros(total + 1, int)
            np.add.at(edges, starts, 1)
            np.add.at(edges, starts + length, -1)
            marked |= np.cumsum(edges[:-1]) > 0
    if not marked.any():
        return None
    names = dict.fromkeys(np.asarray(table["name"])[marked].tolist())
    return Blocks(int(marked.sum()), total, len(names), longest, tuple(names)[:3])


def _numbered(values: np.ndarray) -> np.ndarray:
    return np.unique(values, return_inverse=True)[1].astype(np.int64).reshape(-1)


def _joined(window: np.ndarray, step: int) -> np.ndarray:
    """Return the numbers of windows longer by ``step``: each is known by the window at its beginning and the one at its end."""
    return _numbered(window[:-step] * (int(window.max()) + 1) + window[step:])


def _repeated(window: np.ndarray, people: np.ndarray, owner: np.ndarray, length: int, rare: np.ndarray) -> np.ndarray:
    """Return where rare windows begin that occur again, apart from the first and about none of the same trajectories."""
    places = np.flatnonzero(rare)
    places = places[np.lexsort((places, window[places]))]
    found: set[int] = set()
    for group in np.split(places, np.flatnonzero(np.diff(window[places])) + 1):
        if len(group) < 2 or len(set(people[group].tolist())) < 2:
            continue
        first = int(group[0])
        known = set(owner[first : first + length].tolist())
        others = [int(one) for one in group[1:_TWINS] if one - first >= length and known.isdisjoint(owner[one : one + length].tolist())]
        found |= {first, *others} if others else set()
    return np.array(sorted(found), int)


def _raters(database: Database) -> Iterator[Finding]:
    apart = database.all(
        """
      SELECT question, count(*), count(*) FILTER (answers > 1) AS n, min(trajectory_id) FILTER (answers > 1) FROM (
        SELECT question, trajectory_id, count(DISTINCT coalesce(answer, '')) AS answers FROM annotations
        GROUP BY question, trajectory_id HAVING count(DISTINCT annotator) > 1)
      GROUP BY question HAVING n > 0 ORDER BY question
    """
    )
    if apart:
        listed = ", ".join(f"{_quoted(question)} {number:,} of {both:,}" for question, both, number, _ in apart)
        yield _found(
            database,
            "contradictory_labels",
            f"Annotators of one and the same trajectory contradict each other ({listed}): keep every answer, "
            "for whoever takes the first picks one at random.",
            [apart[-1][3]],
            **{question: number for question, _, number, _ in apart},
        )
    own = database.all(
        """
      SELECT question, count(*), min(trajectory_id) FROM (
        SELECT question, trajectory_id FROM annotations GROUP BY question, trajectory_id, annotator
        HAVING count(DISTINCT coalesce(answer, '')) > 1)
      GROUP BY question ORDER BY question
    """
    )
    if own:
        listed = ", ".join(f"{_quoted(question)} {number:,}" for question, number, _ in own)
        yield _found(
            database,
            "self_contradiction",
            f"One and the same annotator gave two answers about one trajectory ({listed}): "
            "which of them counts has to be decided, not left to the order of the file.",
            [own[0][2]],
            **{question: number for question, number, _ in own},
        )
    names = [name for (name,) in database.all("SELECT DISTINCT annotator FROM annotations ORDER BY ALL")]
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault("".join(name.casefold().split()), []).append(name)
    odd = [f"[{one_line(name, 40)}]" for name in names if name != name.strip() or not name or not name.isprintable()]
    odd += [" and ".join(f"[{one_line(name, 40)}]" for name in group) for group in alike.values() if len(group) > 1]
    if odd:
        yield _found(
            database,
            "odd_raters",
            f"Annotators have odd names ({', '.join(odd[:4])}): blanks and other spellings make two people of one.",
            names=len(odd),
        )


def _verdicts(database: Database) -> Iterator[Finding]:
    for agent, verdict, number, oracles in database.all(
        "SELECT agent, min(verdict), count(*), list(DISTINCT oracle ORDER BY oracle) "
        "FROM oracle_results JOIN trajectories USING (trajectory_id) WHERE verdict IN ('pass', 'fail') AND agent IS NOT NULL "
        "GROUP BY agent HAVING count(*) >= ? AND count(DISTINCT verdict) = 1 ORDER BY agent",
        ONE_VERDICT_RUNS,
    ):
        whose = _quoted(oracles[0]) if len(oracles) == 1 else f"{len(oracles)} oracles"
        yield _found(
            database,
            "one_verdict",
            f"All {number:,} verdicts of {whose} on agent {_quoted(agent)} are {verdict.upper()}: either the agent does nothing else, "
            "or the checker cannot say anything else; try a run whose outcome you know.",
            verdicts=number,
        )
    for oracle, names in database.all(
        f"""
      SELECT oracle, list(DISTINCT trajectory_id ORDER BY trajectory_id) FROM oracle_results JOIN trajectories t USING (trajectory_id)
      WHERE verdict = 'pass' AND trajectory_id NOT IN (SELECT trajectory_id FROM acts WHERE op NOT IN {_IDLE})
        AND NOT (coalesce(t.reference, '') = 'infeasible' AND trajectory_id IN (SELECT trajectory_id FROM acts WHERE op = 'fail'))
      GROUP BY oracle ORDER BY oracle
    """
    ):
        yield _found(
            database,
            "pass_without_acting",
            f"{_quoted(oracle)} passes {_count(len(names), 'run')} in which the agent did nothing but wait, talk or stop: "
            "the goal held from the start, or the checker accepts anything.",
            names[:1],
            runs=len(names),
        )
    for oracle, number, between, low, high in database.all(
        "SELECT oracle, count(*), count(*) FILTER (raw_reward > 0 AND raw_reward < 1), min(raw_reward), max(raw_reward) "
        "FROM oracle_results WHERE raw_reward NOT IN (0, 1) GROUP BY oracle ORDER BY oracle"
    ):
        span = f"{low:g} to {high:g}" if high > low else f"{low:g}"
        yield _found(
            database,
            "fractional_rewards",
            f"{_quoted(oracle)} gives {_count(number, 'reward')} other than 0 and 1 ({span}): more than one half counts as PASS, "
            "and only 0 is drawn as FAIL for the audit; the numbers themselves are kept.",
            level="look" if between < number else "note",
            rewards=number,
        )


def _losses(database: Database) -> Iterator[Finding]:
    pictures = database.counts("SELECT status, count(*) FROM images GROUP BY ALL")
    total = sum(pictures.values())
    broken = total - pictures.get("ok", 0)
    if total and broken > LOST_PICTURES * total:
        status = next(name for name in pictures if name != "ok")
        meaning = explain(status, "picture")
        start = f"None of the {total:,} pictures can" if broken == total else f"{_of(broken, total, 'pictures')} cannot"
        yield _found(
            database,
            "lost_pictures",
            f"{start} be read, {'' if pictures[status] == broken else 'most '}because {meaning.text}: "
            f"{meaning.mend or 'see where they come from'}.",
            database.one("SELECT min(file) FROM images WHERE status = ?", status),
            lost=broken,
            pictures=total,
        )
    steps = database.one("SELECT count(*) FROM acts")[0]
    lost = database.all(
        "SELECT reason, count(*) AS n, min(item) FROM drops WHERE unit = 'transition' GROUP BY reason ORDER BY n DESC, reason"
    )
    gone = steps - database.transitions()
    faults = [(reason, n, item) for reason, n, item in lost if not explain(reason, "transition").ordinary]
    faulty = sum(n for _, n, _ in faults) > FAULTY_STEPS * steps
    if not steps or not lost or not (faulty or gone > LOST_STEPS * steps):
        return
    reason, number, item = (faults if faulty else lost)[0]
    if reason.startswith("picture_") and broken > LOST_PICTURES * total:
        return  # the same said twice
    start = f"None of the {steps:,} steps has a" if gone == steps else f"{_of(gone, steps, 'steps')} have no"
    yield _found(
        database,
        "lost_steps",
        f"{start} pair of screens, {'' if number == gone else f'{number:,} '}because {explain(reason, 'transition').text}: "
        f"probes and the no-op check see {'nothing here' if gone == steps else 'only the others'}.",
        [item],
        lost=gone,
        steps=steps,
    )


def _off_screen(database: Database) -> Iterator[Finding]:
    # A place may lie a little over the edge; another coordinate space puts many far beyond it.
    total, off, example, x, y, width, height = database.one(
        """
      WITH pointed AS (
        SELECT trajectory_id || '#' || step AS name, target.x AS x, target.y AS y, width, height
        FROM acts JOIN images ON image_id = coalesce(before_image, after_image)
        WHERE target.x IS NOT NULL AND target.y IS NOT NULL AND width IS NOT NULL),
      far AS (SELECT * FROM pointed WHERE x > 1.02 * width OR y > 1.02 * height OR x < -0.02 * width OR y < -0.02 * height)
      SELECT (SELECT count(*) FROM pointed), count(*), min(name), arg_min(x, name), arg_min(y, name), arg_min(width, name),
             arg_min(height, name) FROM far
    """
    )
    if off >= 3 and off > OFF_SCREEN * total:
        yield _found(
            database,
            "off_screen",
            f"{_of(off, total, 'pointer positions')} lie outside their picture (one at {x:.0f}, {y:.0f} on {width} × {height} pixels): "
            "places are in another space than pictures, scaled or of the whole page, so nothing can be said about what was hit.",
            [example],
            positions=off,
            of=total,
        )


def _shares_for_pixels(database: Database) -> Iterator[Finding]:
    total, small, example = database.one(
        """
        SELECT count(*), count(*) FILTER (target.x BETWEEN 0 AND 1 AND target.y BETWEEN 0 AND 1), min(trajectory_id || '#' || step)
        FROM acts WHERE target.x IS NOT NULL AND target.y IS NOT NULL
    """
    )
    if total >= 10 and small > 0.9 * total:
        here = _of(small, total, "pointer positions")
        sentence = f"{here} lie between 0 and 1: places look like shares of the screen; give pixels of the picture."
        yield _found(database, "shares_for_pixels", sentence, [example], positions=small, of=total)


def _strange_verbs(database: Database) -> Iterator[Finding]:
    steps, other = database.one("SELECT count(*), count(*) FILTER (op = 'other') FROM acts")
    if steps and other > OTHER_SHARE * steps:
        listed = ", ".join(f"{_quoted(name, 40)} {number:,}" for name, number in list(other_verbs(database).items())[:5])
        yield _found(
            database,
            "other_actions",
            f"{_of(other, steps, 'actions')} are none of the {len(OPS) - 1} known operations "
            f"(commonest: {listed}): their screens count, but no probe asks about them.",
            actions=other,
            steps=steps,
        )


_CHECKS = (
    _aligned,
    _losses,
    _ends_alike,
    _same_picture,
    _copies,
    _label_blocks,
    _raters,
    _verdicts,
    _off_screen,
    _shares_for_pixels,
    _strange_verbs,
)


def _quoted(text: str, limit: int = 60) -> str:
    return f"'{one_line(text, limit)}'"


def _tail(text: str, limit: int) -> str:
    """Return the end of a long id, which tells it from others."""
    return text if len(text) <= limit else "…" + text[1 - limit :]


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _of(part: int, whole: int, noun: str) -> str:
    return f"{part:,} of {whole:,} {noun} ({_share(part, whole)})"


def _share(part: float, whole: float) -> str:
    """Return a percentage that is 0 or 100 only if nothing or everything is meant."""
    percent = 100 * part / whole if whole else 0.0
    return "under 1 %" if 0 < percent < 1 else "over 99 %" if 99 < percent < 100 else f"{percent:.0f} %"
