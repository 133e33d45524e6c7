"""The status page in a real Chromium, served as people serve it."""

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from made_tab import chromium, sync_api
from test_watch import ASKED, MINED, SCORED, TOLD, finished, planned, started, told

from evoaudit.watch import keep, page
from evoaudit.watch.run import folder, look

__all__ = ["chromium"]

HOSTILE = "<img src=x onerror=document.title='owned'>"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The page of a run that is on its way, served."""
    planned(tmp_path, **{ASKED: {"label": HOSTILE}})
    finished(tmp_path, MINED, 30)
    told(tmp_path, ASKED, total=100, asked=40, rate=2.0, left_s=300, spent_usd=1.25, unanswered={"timeout": 3})
    told(tmp_path, TOLD, state="failed", error=HOSTILE)
    started(tmp_path, dict.fromkeys((MINED, ASKED, SCORED, TOLD)), budget_usd=5.0)
    page.write(folder(tmp_path) / "r.html")
    keep.put(folder(tmp_path) / "r.json", look(tmp_path, "r"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder(tmp_path))))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/r.html"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_page_shows_the_run_looks_again_and_runs_nothing_of_a_logs(address, tmp_path, chromium):
    context = chromium.new_context()
    tab = context.new_page()
    tab.set_default_timeout(60_000)
    faults: list[str] = []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.goto(address)

    def see(name: str, text: str) -> None:
        sync_api.expect(tab.locator(f"#{name}")).to_contain_text(text, timeout=60_000)

    see("head", "r: running")
    see("line", "1 of 4 jobs done")
    see("line", "$1.25 of at most $5.00")
    see("running", HOSTILE)
    see("running", "40 of 100")
    see("failures", HOSTILE)
    assert tab.locator("img").count() == 0 and tab.title() == "1/4 r"
    finished(tmp_path, SCORED)
    keep.put(folder(tmp_path) / "r.json", look(tmp_path, "r"))
    see("line", "2 of 4 jobs done")
    assert faults == []
    context.close()
