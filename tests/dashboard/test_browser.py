"""The page in a real browser, Chromium (`make browser` installs it), with axe-core, which npm brings."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.responses import Response

from prime_lab_mcp.dashboard.page import STATIC, page_app
from prime_lab_mcp.dashboard.reading_lab import ReadingLab
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from tests.dashboard.chromium import Chromium
from tests.dashboard.conftest import TOKEN
from tests.lab.evals.finished import episode, finished, mixed

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NPM = shutil.which("npm")
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
VIEWS = {
    "environments": "Environments",
    "environments/sums": "sums",
    "evaluations": "Evaluations",
    "evaluations/eval-00000001": "sums",
    "evaluations/eval-00000001?outcome=zero&order=-tokens": "sums",
    "evaluations/eval-00000001/rollouts/0": "Rollout 1",
    "evaluations/eval-00000001/tasks/0": "Task 1",
    "evaluations/eval-00000001/compare/eval-00000002": "Comparison",
    "runs": "Runs",
    "spend": "Spend",
    "nowhere": "Not found",
}
RUN_AXE = """
const ready = () => {
  const main = document.getElementById("main");
  const waiting = main.hasAttribute("aria-busy") || main.querySelector("h1").textContent === "Loading";
  if (waiting) return setTimeout(ready, 50);
  for (const one of document.querySelectorAll("details")) one.open = true;
  const runOnly = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  axe.run(document, { runOnly }).then((result) => {
    const report = document.createElement("pre");
    report.id = "axe-report";
    const wrong = result.violations.map((one) => [one.id, one.nodes[0].html, one.nodes[0].failureSummary]);
    report.textContent = JSON.stringify({ passes: result.passes.length, wrong });
    document.body.append(report);
  });
};
ready();
"""
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")]


@dataclass(frozen=True)
class Browser:
    """A page with hostile data on a port of its own, and a browser with a profile of its own."""

    url: str
    profile: Path
    axe: Path
    """The folder from which the accessibility checker is served, empty until a test puts it there."""

    def dom(self, view: str, *, dark: bool = False, size: str = "1280,900", token: str = TOKEN) -> str:
        """The document of a view after its scripts ran."""
        assert CHROMIUM is not None
        joint = "&" if "?" in view else "?"
        command = [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={self.profile}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            f"--window-size={size}",
            "--virtual-time-budget=20000",
            "--dump-dom",
            f"{self.url}/#/{view}{joint}token={token}",
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    root = tmp_path_factory.mktemp("browser")
    folder = root / "workspace" / "environments" / "sums"
    (folder / "sums").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "sums"\nversion = "0.1.0"\n', encoding="utf-8")
    settings = Settings(workspace=root / "workspace", state_dir=root / "state")
    lab = Lab(settings)
    fill(lab)
    reading = ReadingLab(settings)
    (root / "axe").mkdir()
    app = with_axe(page_app(reading, TOKEN, ("127.0.0.1",)), root / "axe")
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Browser(f"http://127.0.0.1:{port}", root / "profile", root / "axe")
    server.should_exit = True
    thread.join()
    reading.ledger.close()
    lab.ledger.close()


def fill(lab: Lab) -> None:
    """Two evaluations, one of hostile text, and a failed reward test that quotes some."""
    episodes = [episode(0, 1.0, said=HOSTILE), *mixed(12)]
    finished(lab, episodes, environment="sums", model=HOSTILE)
    finished(lab, mixed(12), id="eval-00000002", environment="sums", model="other")
    finding = {"code": "reward-hackable", "severity": "blocker", "message": HOSTILE, "fix": HOSTILE, "rows": []}
    lab.ledger.record(Evidence("test_reward", "failed", lab.key, "sums", "a" * 64, "b" * 64, findings=[finding]))


def with_axe(page: Any, axe: Path) -> Any:
    """The page, and the same under `/axe`, where the accessibility checker runs too. Only there the policy is open."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/axe/":
            shell = (STATIC / "index.html").read_text(encoding="utf-8")
            scripts = '<script src="axe.js"></script><script src="run.js" defer></script></head>'
            await Response(shell.replace("</head>", scripts), media_type="text/html")(scope, receive, send)
        elif scope["path"] in ("/axe/axe.js", "/axe/run.js"):
            checker = axe / "node_modules" / "axe-core" / "axe.min.js"
            text = checker.read_text(encoding="utf-8") if scope["path"] == "/axe/axe.js" else RUN_AXE
            await Response(text, media_type="text/javascript")(scope, receive, send)
        else:
            await page({**scope, "path": scope["path"].removeprefix("/axe")}, receive, send)

    return app


def test_every_view_is_drawn_and_hostile_text_stays_text(browser: Browser) -> None:
    documents = {view: browser.dom(view) for view in VIEWS}
    headings = {view: re.findall(r"<h1[^>]*>(.*?)</h1>", document) for view, document in documents.items()}
    assert headings == {view: [title] for view, title in VIEWS.items()}
    everything = "".join(documents.values())
    assert "&lt;img src=x onerror=" in everything
    assert "<img src=x" not in everything
    assert not any("<title>owned" in document for document in documents.values())
    assert TOKEN not in everything


def test_without_the_token_the_page_asks_for_the_link(browser: Browser) -> None:
    document = browser.dom("spend", token="wrong")
    assert re.findall(r"<h1[^>]*>(.*?)</h1>", document) == ["Open the printed link"]


@pytest.fixture(scope="module")
def checked(browser: Browser) -> Browser:
    """The browser on the page with the accessibility checker, of the version in `axe/package-lock.json`."""
    for name in ("package.json", "package-lock.json"):
        shutil.copy(Path(__file__).parent / "axe" / name, browser.axe)
    install = [str(NPM), "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run(install, cwd=browser.axe, check=True, timeout=300, capture_output=True)
    return replace(browser, url=f"{browser.url}/axe")


@pytest.mark.skipif(NPM is None, reason="needs npm")
@pytest.mark.parametrize(("dark", "size"), [(False, "1280,900"), (True, "390,844")], ids=["light desk", "dark phone"])
def test_the_accessibility_checker_finds_nothing(checked: Browser, dark: bool, size: str) -> None:
    found: dict[str, Any] = {}
    for view in VIEWS:
        report = re.search(r'<pre id="axe-report">(.*?)</pre>', checked.dom(view, dark=dark, size=size), re.S)
        assert report is not None, view
        result = json.loads(html.unescape(report[1]))
        assert result["passes"] > 10, view
        if result["wrong"]:
            found[view] = result["wrong"]
    assert found == {}


NARROW = """(() => {
  const cells = [...document.querySelectorAll("table.stack :is(td, tbody th)")].filter((one) => one.textContent.trim());
  const outside = ({ left, right }) => left < 0 || right > innerWidth;
  return {
    cells: cells.length,
    outside: cells.filter((one) => outside(one.getBoundingClientRect())).length,
    sideways: document.documentElement.scrollWidth > innerWidth,
    roles: [...new Set([...cells, ...document.querySelectorAll("table.stack tr")].map((one) => one.role))].sort(),
  };
})()"""


def test_a_phone_shows_every_cell_of_a_wide_table_without_scrolling_sideways(browser: Browser, tmp_path: Path) -> None:
    assert CHROMIUM is not None
    chromium = Chromium(CHROMIUM, tmp_path / "profile")
    chromium.send("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=2, mobile=True)
    for view in ("evaluations", "evaluations/eval-00000001", "environments/sums"):
        chromium.open(f"{browser.url}/#/{view}?token={TOKEN}", VIEWS[view])
        found = chromium.ask(NARROW)
        assert found.pop("cells") >= 5, view
        assert found == {"outside": 0, "sideways": False, "roles": ["cell", "row", "rowheader"]}, view
    chromium.close()


def test_no_two_ticks_of_a_chart_read_the_same(browser: Browser, tmp_path: Path) -> None:
    assert CHROMIUM is not None
    chromium = Chromium(CHROMIUM, tmp_path / "profile")
    chromium.open(f"{browser.url}/#/spend?token={TOKEN}", VIEWS["spend"])
    drawn = "module.lineChart('KL', [{ title: 'KL', points: [[0, 0.00051], [9, 0.00069]] }])"
    chromium.ask(f"import('./charts.js').then((module) => document.getElementById('main').append({drawn}))")
    chromium.wait("document.querySelectorAll('.chart .tick.end').length >= 4")
    ticks = chromium.ask("[...document.querySelectorAll('.chart .tick.end')].slice(0, 4).map((one) => one.textContent)")
    assert len(set(ticks)) == 4
    chromium.close()
