"""A hub on the loopback interface: serves folders as data sets over the routes the client uses, with faults to switch on.

    with HubServer({"owner/name": folder}) as hub:
        hub.url            # for HF_ENDPOINT
        hub.requests       # Counter of routes: revision, tree, head, get, cdn
        hub.faults.flip = {"data/x.parquet": 1}

Large files are LFS objects: they are answered by a redirect to a second port, which must not see the token.
"""

import hashlib
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

FOREVER = 10**9


@dataclass
class Faults:
    """What goes wrong. Counts say how many times; `FOREVER` never ends."""

    #: Only the tokens in ``members`` may read.
    gated: bool = False
    members: frozenset[str] = frozenset()
    #: Tokens that are known; any other one is refused. None: no token is looked at.
    tokens: frozenset[str] | None = None
    #: Data sets, revisions and paths that are not there although asked for.
    missing: frozenset[str] = frozenset()
    #: Route → [status, times]: refused without the hub's own error code.
    refuse: dict[str, list[int]] = field(default_factory=dict)
    #: Path → times: the connection ends at half the file.
    cut: dict[str, int] = field(default_factory=dict)
    #: Path → times: one byte of the body is another.
    flip: dict[str, int] = field(default_factory=dict)
    #: Path → times: the body is one byte shorter than listed, and its headers agree with it.
    short: dict[str, int] = field(default_factory=dict)
    #: Path → new contents under the same commit.
    changed: dict[str, bytes] = field(default_factory=dict)
    #: Path → seconds to wait at half the file.
    pause: dict[str, float] = field(default_factory=dict)
    #: Data set → the name it has now; the old one is answered by a redirect.
    moved: dict[str, str] = field(default_factory=dict)
    #: Routes that take this long to answer at all.
    stall: dict[str, float] = field(default_factory=dict)
    #: Routes answered with a web page.
    portal: frozenset[str] = frozenset()
    #: Headers of refusals, such as Retry-After.
    headers: dict[str, str] = field(default_factory=dict)
    #: Entries of a listing that no folder can hold.
    extra: list[dict] = field(default_factory=list)


@dataclass
class _Repo:
    commits: dict[str, dict[str, bytes]]
    branches: dict[str, str]
    card: dict


class HubServer:
    """Serves ``repos`` (name → folder) until the block ends."""

    def __init__(
        self, repos: dict[str, Path], *, page: int = 1000, lfs_from: int = 8000, card: dict | None = None, **faults: object
    ) -> None:
        self.page, self.lfs_from = page, lfs_from
        self.faults = Faults(**faults)
        self.requests: Counter[str] = Counter()
        #: (route, path, whether a token came) in order.
        self.log: list[tuple[str, str, bool]] = []
        self._guard = threading.Lock()
        self._repos: dict[str, _Repo] = {}
        for name, folder in repos.items():
            self._repos[name] = _Repo({}, {}, {"license": "cc-by-4.0"} if card is None else card)
            self.push(name, folder)
        self._hub = ThreadingHTTPServer(("127.0.0.1", 0), type("Hub", (_Hub,), {"owner": self}))
        self._cdn = ThreadingHTTPServer(("127.0.0.1", 0), type("Cdn", (_Cdn,), {"owner": self}))
        self._hub.daemon_threads = self._cdn.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._hub.server_address[1]}"

    @property
    def cdn_url(self) -> str:
        return f"http://127.0.0.1:{self._cdn.server_address[1]}"

    @property
    def file_requests(self) -> int:
        return self.requests["head"] + self.requests["get"] + self.requests["cdn"]

    def push(self, name: str, folder: Path, branch: str = "main") -> str:
        """Make a folder's files a new commit of a data set, move the branch there and return the commit."""
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        digest = hashlib.sha1(name.encode())
        for path, data in files.items():
            digest.update(f"{path}\0{len(data)}\0".encode() + data)
        commit = digest.hexdigest()
        self._repos[name].commits[commit] = files
        self._repos[name].branches[branch] = commit
        return commit

    def forget(self, name: str, commit: str) -> None:
        """Remove a commit, as a rewritten history does."""
        del self._repos[name].commits[commit]

    def __enter__(self) -> "HubServer":
        for server in (self._hub, self._cdn):
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in (self._hub, self._cdn):
            server.shutdown()
            server.server_close()

    def spend(self, faults: dict, key: str) -> bool:
        """Return whether a fault strikes now, and count it."""
        with self._guard:
            if faults.get(key, 0) <= 0:
                return False
            faults[key] -= 1
            return True

    def count(self, route: str, path: str, token: bool) -> None:
        with self._guard:
            self.requests[route] += 1
            self.log.append((route, path, token))

    def contents(self, name: str, commit: str, path: str) -> bytes | None:
        if path in self.faults.changed:
            return self.faults.changed[path]
        return self._repos[name].commits[commit].get(path)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One packet an answer: otherwise each waits for an acknowledgement.
    wbufsize, disable_nagle_algorithm = -1, True
    owner: HubServer

    def log_message(self, *_: object) -> None:
        return None

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def file(self, path: str, data: bytes, **headers: str) -> None:
        """Send a file, or the rest of it, with whatever fault is due."""
        owner, faults = self.owner, self.owner.faults
        if owner.spend(faults.short, path):
            data = data[:-1]
        if self.command == "GET" and owner.spend(faults.flip, path):
            data = data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")[0] or 0)
        half = max(start, len(data) // 2)
        self.send_response(206 if start else 200)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(data[start:half])
        self.wfile.flush()
        if owner.spend(faults.cut, path):
            self.close_connection = True
            return
        time.sleep(faults.pause.get(path, 0))
        self.wfile.write(data[half:])


class _Cdn(_Handler):
    """Where large files are; knows nothing of accounts."""

    def do_GET(self) -> None:
        name, commit, path = (unquote(part) for part in urlsplit(self.path).path[1:].split("/", 2))
        self.owner.count("cdn", path, "Authorization" in self.headers)
        data = self.owner.contents(name, commit, path)
        self.answer(404) if data is None else self.file(path, data)


class _Hub(_Handler):
    """The routes of the hub itself."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        parts = [unquote(part) for part in url.path[1:].split("/")]
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        if parts[:2] == ["api", "datasets"] and len(parts) > 4 and parts[4] in ("revision", "tree"):
            route, name, revision, rest = parts[4], "/".join(parts[2:4]), parts[5], ""
        elif parts[0] == "datasets" and len(parts) > 5 and parts[3] == "resolve":
            route, name, revision, rest = self.command.lower(), "/".join(parts[1:3]), parts[4], "/".join(parts[5:])
        else:
            self.answer(404)
            return
        self.owner.count(route, rest or name, token is not None)
        if name in self.owner.faults.moved:
            self.answer(307, Location=self.path.replace(name, self.owner.faults.moved[name]))
            return
        if self._refused(route, name, rest, token):
            return
        repo = self.owner._repos[name]
        commit = repo.branches.get(revision, revision)
        if commit not in repo.commits or revision in self.owner.faults.missing:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        elif route == "revision":
            self._json(
                {"_id": "0", "id": name, "sha": commit, "gated": "auto" if self.owner.faults.gated else False, "cardData": repo.card}
            )
        elif route == "tree":
            self._tree(name, commit, parse_qs(url.query))
        else:
            self._resolve(name, commit, rest)

    def _refused(self, route: str, name: str, path: str, token: str | None) -> bool:
        faults = self.owner.faults
        time.sleep(faults.stall.get(route, 0))
        if route in faults.refuse and faults.refuse[route][1] > 0:
            faults.refuse[route][1] -= 1
            self.answer(faults.refuse[route][0], b"no", **faults.headers)
        elif route in faults.portal:
            self.answer(200, b"<html>please log in</html>", Content_Type="text/html")
        elif token is not None and faults.tokens is not None and token not in faults.tokens:
            self.answer(401, b"", X_Error_Message="Invalid credentials in Authorization header")
        elif name not in self.owner._repos or name in faults.missing:
            self._error(401 if token is None else 404, "RepoNotFound", "Repository not found")
        elif faults.gated and route != "revision" and token not in faults.members:
            self._error(401 if token is None else 403, "GatedRepo", "Access to this data set is restricted")
        elif path and path in faults.missing:
            self._error(404, "EntryNotFound", "Entry not found")
        else:
            return False
        return True

    def _tree(self, name: str, commit: str, query: dict[str, list[str]]) -> None:
        files = sorted(self.owner._repos[name].commits[commit])
        folders = {"/".join(path.split("/")[:n]) for path in files for n in range(1, path.count("/") + 1)}
        entries = [{"type": "directory", "path": path, "oid": "0" * 40, "size": 0} for path in sorted(folders)]
        for path in files:
            data = self.owner.contents(name, commit, path)
            entry = {"type": "file", "path": path, "size": len(data), "oid": _blob(data)}
            if self._large(data):
                entry["oid"] = _blob(b"pointer " + path.encode())
                entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
            entries.append(entry)
        entries += self.owner.faults.extra
        start = int(query.get("cursor", ["0"])[0])
        stop = start + self.owner.page
        link = {}
        if stop < len(entries):
            link["Link"] = f'<{self.owner.url}/api/datasets/{name}/tree/{commit}?recursive=true&expand=false&cursor={stop}>; rel="next"'
        self._json(entries[start:stop], **link)

    def _resolve(self, name: str, commit: str, path: str) -> None:
        data = self.owner.contents(name, commit, path)
        if data is None:
            self._error(404, "EntryNotFound", "Entry not found")
        elif self._large(data):
            self.answer(
                302,
                Location=f"{self.owner.cdn_url}/{quote(name, safe='')}/{commit}/{quote(path)}",
                X_Repo_Commit=commit,
                X_Linked_Etag=f'"{hashlib.sha256(data).hexdigest()}"',
                X_Linked_Size=str(len(data)),
            )
        else:
            self.file(path, data, ETag=f'"{_blob(data)}"', X_Repo_Commit=commit)

    def _large(self, data: bytes) -> bool:
        return len(data) >= self.owner.lfs_from

    def _json(self, value: object, **headers: str) -> None:
        self.answer(200, json.dumps(value).encode(), Content_Type="application/json", **headers)

    def _error(self, status: int, code: str, message: str) -> None:
        self.answer(status, b"", X_Error_Code=code, X_Error_Message=message)


def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
