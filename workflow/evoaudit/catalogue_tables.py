"""The tables of one normalised source in SQL, as the catalogue counts them."""

import re
import tempfile
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from evoaudit import alignment, sorting, store
from evoaudit.errors import InputError, one_line

#: Tables the catalogue is made from; a folder of the normalise stage holds them all.
TABLES = ("trajectories", "steps", "changes", "images", "oracle_results", "annotations", "drops")

#: Keys under which formats write an action's verb.
_VERBS = "intent|action_type|original_op|op|name|action|type|result_action_type"

#: Screens of a trajectory by place: before the first step, then after each; only readable pictures.
PREPARED = """
CREATE TABLE acts AS
  SELECT trajectory_id, step, op, value, error, timestamp, target, before_image, after_image FROM steps;
CREATE TABLE good AS SELECT image_id FROM images WHERE status = 'ok';
CREATE TABLE screens AS
  SELECT trajectory_id, place, max(image_id) AS image_id FROM (
    SELECT trajectory_id, step AS place, before_image AS image_id FROM acts WHERE before_image IS NOT NULL
    UNION ALL
    SELECT trajectory_id, step + 1, after_image FROM acts WHERE after_image IS NOT NULL
  ) JOIN good USING (image_id) GROUP BY ALL;
"""


class Database:
    """The tables of one folder, with the columns that are counted in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        paths = {name: sorting.quoted(store.table_file(self.folder, name)) for name in TABLES}
        self._spill = tempfile.TemporaryDirectory()
        self._connection = duckdb.connect(config={"threads": 2, "memory_limit": "1GB", "temp_directory": self._spill.name})
        try:
            for name in TABLES:
                self._connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({paths[name]})")
            self._connection.execute(PREPARED)
        except duckdb.Error as error:
            self.__exit__()
            raise self._broken(error) from None
        self.source, self.kind = self._name()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._spill.cleanup()

    def all(self, query: str, *values: Any) -> list[tuple]:
        try:
            return self._connection.execute(query, values or None).fetchall()
        except duckdb.Error as error:
            raise self._broken(error) from None

    def one(self, query: str, *values: Any) -> tuple:
        return self.all(query, *values)[0]

    def counts(self, query: str) -> dict[str, int]:
        """Return name → number, the largest first."""
        return dict(sorted(self.all(query), key=lambda pair: (-pair[1], pair[0])))

    def columns(self, query: str) -> dict[str, np.ndarray]:
        """Return column → values."""
        try:
            return self._connection.execute(query).fetchnumpy()
        except duckdb.Error as error:
            raise self._broken(error) from None

    def _broken(self, error: duckdb.Error) -> InputError:
        return InputError(self.folder, f"cannot be counted ({one_line(str(error), 160)})", "delete it and run again")

    def _name(self) -> tuple[str, str | None]:
        """Return name and kind of the source; one that gave only labels has neither in its tables."""
        named = self.all("SELECT source, kind FROM trajectories LIMIT 1")
        if named:
            return named[0]
        manifest = self.folder / "manifest.json"
        config = (store.read_manifest(self.folder).get("config") or {}) if manifest.is_file() else {}
        if isinstance(config, dict) and isinstance(config.get("source"), str):
            return config["source"], config.get("kind")
        prefix = "SELECT split_part(trajectory_id, ':', 1) FROM annotations LIMIT 1"
        found = self.all("SELECT source FROM drops LIMIT 1") or self.all(prefix)
        return (found[0][0] if found else self.folder.name), None

    @cached_property
    def alignment(self) -> dict[str, Any]:
        """What `alignment.check` says of the folder."""
        return alignment.check(self.folder)

    def transitions(self) -> int:
        """Return the steps with both screens readable."""
        return self.one("SELECT count(*) FROM acts JOIN good b ON before_image = b.image_id JOIN good a ON after_image = a.image_id")[0]


def other_verbs(database: Database) -> dict[str, int]:
    """Return what the source calls the actions we have no operation for, commonest first."""
    found: Counter[str] = Counter()
    for raw, number in database.all("SELECT left(op_raw, 400), count(*) FROM steps WHERE op = 'other' GROUP BY ALL ORDER BY ALL"):
        found[verb(raw or "")] += number
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def verb(raw: str) -> str:
    """Return the verb of an action as its source writes it: the names of its calls, the object's action, or the first word."""
    calls = re.findall(r"(?m)^\s*([^\W\d][\w.]*)\(", raw)
    if len(calls) > 1:
        return "+".join(call.rpartition(".")[2][:20] for call in calls[:4])
    named = re.search(rf'"(?:{_VERBS})"\s*:\s*"([^"]{{1,60}})"', raw) if raw.lstrip().startswith(("{", "[")) else None
    word = re.search(r"[^\W\d][\w.]*", named[1] if named else raw)
    return one_line(word[0][:40]) if word else "(nothing)"
