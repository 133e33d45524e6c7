"""What of a data set a config needs: kind and options → paths, so that nothing else is downloaded."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from evoaudit.errors import InputError, one_line
from evoaudit.fingerprint import IGNORED
from evoaudit.identity import canonical

#: Kind → the data set its papers use.
HUBS = {
    "mind2web": "osunlp/Multimodal-Mind2Web",
    "weblinx": "McGill-NLP/WebLINX-full",
    "agentrewardbench": "McGill-NLP/agent-reward-bench",
    "osworld": "xlangai/ubuntu_osworld_verified_trajs",
}
#: Kind → the options that decide which files are needed; every other kind has ``files`` alone.
_OPTIONS = {
    "mind2web": ("split", "files"),
    "weblinx": ("split", "files"),
    "agentrewardbench": ("benchmarks", "agents", "files"),
    "osworld": ("agents", "files"),
}
_SHOWN = 20
_SPLITS_LIMIT = 64 << 20

#: Files of a WebLINX demonstration beside its ``screenshots/`` and ``bboxes/``; the video and the pages' HTML are never read.
_DEMO_FILES = frozenset({"replay.json", "metadata.json", "form.json", "invalid.json"})


def repo_of(kind: str, repo: str | None) -> str:
    """Return the data set to download: the one named, else the kind's own."""
    if repo:
        return repo
    if kind not in HUBS:
        raise InputError(f"kind '{kind}'", "no data set belongs to it", "name one as owner/name, or give 'path'")
    return HUBS[kind]


def relevant(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that decide which files are needed, in one spelling."""
    found: dict[str, Any] = {}
    for name in _OPTIONS.get(kind, ("files",)):
        value = options.get(name)
        if value is None or value == []:
            continue
        if name == "split":
            if not isinstance(value, str):
                raise InputError("options", "'split' is not a text", "give one split, e.g. train")
            found[name] = value
        elif not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(one, str) for one in value):
            raise InputError("options", f"'{name}' is not a list of texts", 'give e.g. ["a", "b*"]')
        else:
            found[name] = sorted(set(value))
    return found


def key(kind: str, options: Mapping[str, Any]) -> str:
    """Return a selection's name in the lock file: the kind and the options that decide."""
    return f"{kind} {canonical(relevant(kind, options))}"


def wanted(kind: str, repo: str, paths: Mapping[str, int], options: Mapping[str, Any], fetch: Callable[[str], bytes]) -> list[str]:
    """Return the sorted paths that kind and options need of a data set.

    ``paths`` maps every path to its size in bytes; ``fetch`` returns one small file's contents.
    """
    asked = relevant(kind, options)
    data = {path: paths[path] for path in sorted(paths) if not _ignored(path)}
    chosen = _CHOOSERS.get(kind, _any)(repo, data, asked, fetch)
    if not chosen:
        raise InputError(repo, "no file of it is needed", f"is it a data set of kind '{kind}'?")
    return sorted(set(chosen))


def _mind2web(repo: str, data: Mapping[str, int], asked: dict, fetch: Callable[[str], bytes]) -> list[str]:
    shards = {path: _shard(path) for path in data if path.endswith(".parquet") and "-of-" in path}
    if shards:
        split = asked.get("split")
        if split is not None and split not in shards.values():
            raise _unknown(repo, "split", split, shards.values())
        return _matching(repo, [path for path, one in shards.items() if split in (None, one)], asked)
    texts = {path: path.split("/")[1] for path in data if path.startswith("data/") and path.count("/") == 2 and path.endswith(".json")}
    split = asked.get("split")
    if split is None:
        chosen = [*texts, *(path for path in data if path == "test.zip")]
    elif split in texts.values():
        chosen = [path for path, one in texts.items() if one == split]
    elif split.startswith("test") and "test.zip" in data:  # the test splits come packed together
        chosen = ["test.zip"]
    elif texts:
        raise _unknown(repo, "split", split, texts.values())
    else:
        chosen = []
    if not chosen:
        raise InputError(repo, "holds neither Parquet shards nor data/<split>/*.json", "is it a data set of kind 'mind2web'?")
    return _matching(repo, chosen, asked)


def _shard(path: str) -> str:
    return path.rpartition("/")[2].partition("-")[0]


def _weblinx(repo: str, data: Mapping[str, int], asked: dict, fetch: Callable[[str], bytes]) -> list[str]:
    demos: dict[str, list[str]] = {}
    for path in data:
        top, _, rest = path.partition("/")
        code, _, name = rest.partition("/")
        if top == "demonstrations" and (name in _DEMO_FILES or name.startswith(("screenshots/", "bboxes/"))):
            demos.setdefault(code, []).append(path)
    if not demos:
        raise InputError(repo, "holds no demonstrations/<code>/", "is it a data set of kind 'weblinx'?")
    if "split" in asked:
        splits = _splits(repo, data, fetch)
        if asked["split"] not in splits:
            raise _unknown(repo, "split", asked["split"], splits)
        listed = set(splits[asked["split"]])
        demos = {code: files for code, files in demos.items() if code in listed}
        if not demos:
            raise InputError(repo, f"no demonstration of split '{asked['split']}' is there", "choose another split")
    if "files" in asked:
        matched = set(_matching(repo, [path for files in demos.values() for path in files], asked))
        demos = {code: files for code, files in demos.items() if matched.intersection(files)}
    return [*(path for path in ("splits.json",) if path in data), *(path for files in demos.values() for path in files)]


def _splits(repo: str, data: Mapping[str, int], fetch: Callable[[str], bytes]) -> dict[str, list[str]]:
    where = f"{repo}/splits.json"
    if data.get("splits.json", _SPLITS_LIMIT) >= _SPLITS_LIMIT:
        raise InputError(where, "missing or too large", "without it no split can be chosen: leave out 'split'")
    try:
        splits = json.loads(fetch("splits.json"))
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"not JSON ({one_line(str(error), 80)})", "leave out 'split', or pin another revision") from None
    if not isinstance(splits, dict):
        raise InputError(where, "not an object of lists", "leave out 'split', or pin another revision")
    return {name: [code for code in codes if isinstance(code, str)] for name, codes in splits.items() if isinstance(codes, list)}


def _agentrewardbench(repo: str, data: Mapping[str, int], asked: dict, fetch: Callable[[str], bytes]) -> list[str]:
    runs: dict[str, tuple[str, str, str]] = {}  # path → (benchmark, agent, task)
    for path in data:
        parts = path.split("/")
        if len(parts) == 5 and parts[0] in ("cleaned", "judgments"):
            runs[path] = (parts[1], parts[2], parts[4].removesuffix(".json").removesuffix("_error"))
        elif len(parts) == 5 and parts[0] == "screenshots":
            runs[path] = (parts[1], parts[2], parts[3])
    side = [path for path in data if path == "data/annotations.csv"]
    if not any(path.startswith("cleaned/") for path in runs):
        raise InputError(repo, "holds no cleaned/<benchmark>/<model>/<experiment>/", "is it a data set of kind 'agentrewardbench'?")
    for name, column in (("benchmarks", 0), ("agents", 1)):
        if name in asked:
            have = {run[column] for run in runs.values()}
            for pattern in asked[name]:
                if not any(_match(one, pattern) for one in have):
                    raise _unknown(repo, name.removesuffix("s"), pattern, have)
            runs = {path: run for path, run in runs.items() if any(_match(run[column], pattern) for pattern in asked[name])}
    if not any(path.startswith("cleaned/") for path in runs):
        raise InputError(repo, "no trajectory has both one of the benchmarks and one of the agents", "widen 'benchmarks' or 'agents'")
    if "files" in asked:
        matched = _matching(repo, [*side, *(path for path in runs if path.startswith("cleaned/"))], asked)
        tasks = {runs[path] for path in matched if path in runs}
        runs = {path: run for path, run in runs.items() if run in tasks}
    return [*side, *runs]


def _osworld(repo: str, data: Mapping[str, int], asked: dict, fetch: Callable[[str], bytes]) -> list[str]:
    zips = {path: path.rpartition("/")[2].removesuffix(".zip") for path in data if path.endswith(".zip")}
    if not zips:
        return _any(repo, data, asked, fetch)
    if "files" in asked:
        patterns, names = asked["files"], {path: (path, path.rpartition("/")[2]) for path in zips}
    elif "agents" in asked:
        patterns, names = asked["agents"], {path: (name,) for path, name in zips.items()}
    else:
        listed = [f"{path} ({size_text(data[path])})" for path in zips]
        raise InputError(
            repo,
            f"{len(zips)} archives, {size_text(sum(data[path] for path in zips))} in all",
            f"choose with 'agents' (names or patterns) or 'files'; there are {_some(listed)}",
        )
    chosen: set[str] = set()
    for pattern in patterns:
        exact = [path for path in zips if pattern in names[path]]
        # Archives without screenshots are of use only to one who asks for them by name.
        found = exact or [path for path in zips if "results_only" not in path and any(fnmatchcase(name, pattern) for name in names[path])]
        if not found:
            raise _unknown(repo, "archive", pattern, zips.values() if "files" not in asked else zips)
        chosen.update(found)
    return sorted(chosen)


def _any(repo: str, data: Mapping[str, int], asked: dict, fetch: Callable[[str], bytes]) -> list[str]:
    return _matching(repo, list(data), asked)


_CHOOSERS = {"mind2web": _mind2web, "weblinx": _weblinx, "agentrewardbench": _agentrewardbench, "osworld": _osworld}


def _matching(repo: str, paths: list[str], asked: dict) -> list[str]:
    """Return the paths that one of the patterns in ``files`` matches; all without patterns. Each pattern must match something."""
    if "files" not in asked:
        return paths
    for pattern in asked["files"]:
        if not any(_match(path, pattern) for path in paths):
            raise _unknown(repo, "file", pattern, paths)
    return [path for path in paths if any(_match(path, pattern) for pattern in asked["files"])]


def _match(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def _ignored(path: str) -> bool:
    """Return whether a path is never part of a data set, in a repository as in a folder."""
    parts = path.split("/")
    return path == ".gitattributes" or any(part in IGNORED or part.startswith("._") for part in parts)


def _unknown(repo: str, what: str, asked: str, have: Iterable[str]) -> InputError:
    return InputError(repo, f"no {what} '{asked}'", f"there are {_some(sorted(set(have)))}")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(one_line(name, 80) for name in names[:_SHOWN]) or "none"
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def size_text(size: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def files_text(number: int) -> str:
    """Return a number of files for people."""
    return "1 file" if number == 1 else f"{number} files"
