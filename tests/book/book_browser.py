"""Drive the built pages in Chromium: one browser, one context a theme and size, everything recorded.

The console is recorded before axe is put into a page: on file:// axe itself provokes messages.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, Playwright

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
USUAL_PLACES = (
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
    "/snap/bin/chromium",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
SIZES = {"wide": (1280, 900), "narrow": (390, 844)}
THEMES = ("light", "dark")
# Folded cells fade in; a colour caught half way has no contrast of its own.
STILL = "*, *::before, *::after { animation: none !important; transition: none !important; }"


def find_chromium() -> str:
    """Path of a Chromium; the variable CHROMIUM wins. Raises RuntimeError saying how to get one."""
    named = os.environ.get("CHROMIUM")
    for candidate in [named] if named else [*USUAL_PLACES, shutil.which("chromium") or ""]:
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    raise RuntimeError(
        f"no Chromium at {named or ', '.join(USUAL_PLACES)}: install your system's `chromium` package "
        "or set CHROMIUM to the program's path."
    )


def launch(playwright: Playwright) -> Browser:
    """Start the one browser of a test session."""
    return playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)


def axe_source() -> str:
    """The text of the axe-core that comes with axe-playwright-python."""
    spec = find_spec("axe_playwright_python")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "axe.min.js").read_text("utf-8")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the browser's record is what the tests read."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve `folder` on a free loopback port; yields the address of its top, with the final slash."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Record:
    """What a page did while it was open."""

    requests: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def outside(self, top: str) -> list[str]:
        """Requests that left the book: anything but its own files and data it carries itself."""
        return [url for url in self.requests if not url.startswith((top, "data:", "blob:"))]


@contextmanager
def watched(context: BrowserContext) -> Iterator[tuple[Page, Record]]:
    """A new page of `context` whose requests, console errors and script errors are recorded."""
    page, record = context.new_page(), Record()
    page.on("request", lambda request: record.requests.append(request.url))
    page.on("requestfailed", lambda request: record.errors.append(f"failed: {request.url}"))
    page.on(
        "console",
        lambda message: record.console.append(message.text) if message.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: record.errors.append(str(error)))
    try:
        yield page, record
    finally:
        page.close()


TYPESET = """async () => {
  if (document.querySelector('.math')) {
    const ready = () => window.MathJax && window.MathJax.startup && window.MathJax.startup.promise;
    for (let i = 0; i < 200 && !ready(); i++) await new Promise(r => setTimeout(r, 25));
    await window.MathJax.startup.promise;
  }
  await document.fonts.ready;
}"""


def settle(page: Page) -> None:
    """Wait until the page has loaded and its mathematics stands."""
    page.wait_for_load_state("load")
    page.evaluate(TYPESET)


def open_folds(page: Page) -> None:
    """Open every folded part of a page: cells, admonitions, details."""
    page.evaluate(
        "() => { document.querySelectorAll('details').forEach(d => { d.open = true; });"
        " document.querySelectorAll('.toggle-hidden').forEach(e => e.classList.remove('toggle-hidden')); }"
    )


def set_theme(context: BrowserContext, theme: str) -> None:
    """Make every page of `context` open in `theme`, as a reader's choice would."""
    context.add_init_script(
        f"localStorage.setItem('mode', '{theme}'); localStorage.setItem('theme', '{theme}');"
    )


def start_axe(page: Page) -> None:
    """Let axe-core (its source was evaluated before) look at a page under its default rules, without waiting."""
    # Without preload: it would fetch the style sheets once more, for rules that are not among the default ones.
    page.evaluate(
        "() => { window.axeRun = axe.run(document, {resultTypes: ['violations'], preload: false}); }"
    )


def violations(page: Page) -> list[str]:
    """Wait for `start_axe`; its findings, one line an element."""
    found = page.evaluate("async () => (await window.axeRun).violations")
    return [
        f"{rule['id']}: {node['target']} {node['html'][:160]} | {node['failureSummary'][:300]}"
        for rule in found
        for node in rule["nodes"]
    ]
