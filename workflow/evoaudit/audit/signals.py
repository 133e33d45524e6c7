"""Stage-1 signals at no cost: what a log itself says about its verdict, without any model and without the truth."""

from collections.abc import Callable, Iterator

from evoaudit.audit import compare, noop, pages
from evoaudit.audit.episodes import Episode, visible

#: Signals that have no parameter, in the order written.
PLAIN = ("cycle", "challenge_page", "environment_error", "evaluator_error", "answer_matches", "state_matches")

#: Detail of a wall or fault that ended the trajectory.
LAST_PAGE = "the last page seen"


def signals(episode: Episode, oracles: list[dict], probe: noop.Probe, runs: list[int]) -> Iterator[dict]:
    """Yield every signal's row for one trajectory, fired or not."""

    def row(signal: str, fired: bool, steps: list[int] | None = None, detail: str | None = None, parameter: int = 0) -> dict:
        return {
            "trajectory_id": episode.id,
            "signal": signal,
            "parameter": parameter,
            "fired": fired,
            "evidence_steps": steps or None,
            "detail": detail,
        }

    best = noop.longest_runs(probe)
    for name in ("noop_run", "noop_any"):
        length, steps = best[name]
        for r in sorted(set(runs)):
            yield row(name, length >= r, steps if length >= r else None, f"longest {length}" if length else None, r)
    cycle = noop.cycle(probe)
    yield row("cycle", cycle is not None, cycle[1] if cycle else None, f"period {cycle[0]}" if cycle else None)
    for name, where in (("challenge_page", challenge_steps(episode)), ("environment_error", error_steps(episode))):
        yield row(name, bool(where), where, LAST_PAGE if where and where[-1] >= len(episode.steps) - 1 else None)
    failed = [one for one in oracles if one["verdict"] == "error"]
    yield row("evaluator_error", bool(failed), None, failed[0]["status"] if failed else None)
    yield _answer(episode, row)
    yield _state(episode, row)


def challenge_steps(episode: Episode) -> list[int]:
    """Return the steps that acted on a challenge wall; the last step if the trajectory ended on one."""
    return _steps(episode, pages.challenge)


def error_steps(episode: Episode) -> list[int]:
    """Return the steps that met a fault of the environment; the last step if the trajectory ended on one."""
    found = set(_steps(episode, pages.error_page))
    found |= {step["step"] for step in episode.steps if pages.error_report(step["error"])}
    return sorted(found)


def _steps(episode: Episode, is_such: Callable[[str | None, str | None], bool]) -> list[int]:
    found = {step["step"] for step in episode.steps if is_such(step["url"], step["page_text"])}
    if episode.steps and is_such(episode.final_url, episode.final_text):
        found.add(episode.steps[-1]["step"])
    return sorted(found)


def _answer(episode: Episode, row: Callable[..., dict]) -> dict:
    reference = episode.row["reference"]
    if not episode.answer or not reference:
        return row("answer_matches", False, None, "no answer" if reference else "no reference")
    match = compare.compare(episode.answer, reference, episode.row["instruction"])
    return row(
        "answer_matches", match.equal, [episode.steps[-1]["step"]] if match.equal and episode.steps else None, f"compared as {match.kind}"
    )


def _state(episode: Episode, row: Callable[..., dict]) -> dict:
    if not episode.row["reference"] or compare.asks(episode.row["instruction"]):
        return row("state_matches", False, None, "an answer is asked for" if episode.row["reference"] else "no reference")
    strings = final_strings(episode)
    if not strings:
        return row("state_matches", False, None, "no final page")
    shown = state_reached(episode)
    return row("state_matches", shown, [episode.steps[-1]["step"]] if shown and episode.steps else None, None)


def state_reached(episode: Episode) -> bool:
    """Say whether the last page shows the state asked for and the first one did not."""
    reference = episode.row["reference"]
    if not reference or compare.asks(episode.row["instruction"]) or not state_shown(reference, final_strings(episode)):
        return False
    return len(episode.steps) < 2 or not state_shown(reference, visible(episode.steps[0]["page_text"]))


def final_strings(episode: Episode) -> list[str]:
    """Return the visible strings of the last page; the one before the last action only where that action changed nothing."""
    if episode.final_text:
        return visible(episode.final_text)
    if not episode.steps:
        return []
    last = episode.steps[-1]
    return visible(last["page_text"]) if last["op"] in noop.PASSIVE or last["state"] == "same" else []


def state_shown(reference: str, strings: list[str]) -> bool:
    """Say whether the final page shows the reference: each ``key=value`` pair, or else the whole text."""
    pairs = compare.parse_state(reference)
    if pairs is None:
        wanted = compare.tokens(reference)
        # One number or one short word stands on many pages without being the state asked for.
        return len(wanted) > 1 and any(holds(compare.tokens(string), wanted) for string in strings)
    return all(_pair_shown(key, value, strings) for key, value in pairs.items())


def _pair_shown(key: str, value: str, strings: list[str]) -> bool:
    names = compare.tokens(key.replace("_", " "))
    for i, string in enumerate(strings):
        given = compare.tokens(string)
        if not holds(given, names):
            continue
        start = next(k for k in range(len(given)) if given[k : k + len(names)] == names) + len(names)
        rest = given[start:]
        if rest and holds(rest, compare.tokens(value)):
            return True
        if not rest and i + 1 < len(strings) and compare.same_value(strings[i + 1], value):
            return True
    return False


def holds(given: list[str], wanted: list[str]) -> bool:
    """Say whether ``wanted`` stands in ``given`` as a run of words."""
    return bool(wanted) and any(given[k : k + len(wanted)] == wanted for k in range(len(given) - len(wanted) + 1))
