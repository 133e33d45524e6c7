"""Pages that people work on, in a real Chromium, opened as files."""

import shutil
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install 'evoaudit[test]'")
if CHROMIUM is None:
    pytest.skip("no chromium on this machine", allow_module_level=True)

#: How much a text stands out from what is behind it, as WCAG has it.
CONTRAST = """(selector) => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [.2126, .7152, .0722][k], 0);
  const node = document.querySelector(selector);
  let under = node;
  while (under && (parse(getComputedStyle(under).backgroundColor)[3] ?? 1) === 0) under = under.parentElement;
  const [a, b] = [light(parse(getComputedStyle(node).color)), light(parse(getComputedStyle(under).backgroundColor))].sort((x, y) => y - x);
  return (a + .05) / (b + .05);
}"""


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Tab:
    """A page, what it asked for, and what went wrong on it."""

    def __init__(self, context, folder: Path, fragment: str = "") -> None:
        self.page, self.requests, self.faults = context.new_page(), [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda message: self.faults.append(message.text) if message.type == "error" else None)
        self.page.on("dialog", lambda dialog: (self.faults.append(dialog.message), dialog.dismiss()))
        self.page.on("filechooser", lambda _: None)  # asked for beforehand: the first chooser may come before the browser knows
        self.folder, self.fragment = folder, fragment
        self.open()

    def open(self) -> None:
        self.page.set_default_timeout(120_000)  # a busy machine is no fault of the page
        self.page.goto(f"{self.folder.as_uri()}/index.html{self.fragment}")
        self.page.wait_for_selector("html[data-ready]")

    def press(self, *keys: str) -> "Tab":
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def text(self, name: str) -> str:
        return self.page.text_content(f"#{name}")

    @property
    def number(self) -> int:
        return int(self.page.input_value("#number"))

    def export(self, path: Path, key: str = "s") -> Path:
        with self.page.expect_download() as waiting:
            self.press(*key.split())
        waiting.value.save_as(path)
        return path

    def load(self, *paths: Path) -> str:
        with self.page.expect_file_chooser() as waiting:
            self.press("i")
        waiting.value.set_files([str(path) for path in paths])
        self.shows("said", ".jsonl: ")
        return self.text("said")

    def shows(self, name: str, text: str) -> None:
        """Wait for a text: the page's policy forbids the other way, which is to evaluate a string on it."""
        sync_api.expect(self.page.locator(f"#{name}")).to_contain_text(text)


@pytest.fixture
def tab(chromium, request):
    """Open a page in a browser profile of its own, or in that of another tab."""
    contexts = []

    def open_(folder: Path, beside: Tab | None = None, fragment: str = "", **options) -> Tab:
        context = beside.page.context if beside else chromium.new_context(**options)
        contexts.append(context)
        return Tab(context, folder, fragment)

    yield open_
    for context in contexts:
        context.close()
