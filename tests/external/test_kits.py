"""Agent kits of others use the server: each in an environment of its own, with its own conversion of tools for models.

`kits/NAME.txt` pins every package of a kit, and `kits/PROGRAM.py` is run by the kit's interpreter. What a kit cannot do
is listed here and in docs/clients.md.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from prime_lab_mcp.tools import WORKFLOW
from tests.external.server import OWN

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "kits"
QUIET = {
    "MCP_USE_ANONYMIZED_TELEMETRY": "false",
    "OTEL_SDK_DISABLED": "true",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "GOOGLE_API_KEY": "none",
}
"""Variables without which kits would report their use to their makers, or refuse to start."""

Facts = Mapping[str, Any]
GOOD: dict[str, Callable[[Facts], bool]] = {
    "list": lambda facts: {*WORKFLOW, *OWN} <= set(facts["names"]),
    "call": lambda facts: "Created environments/sums" in facts["text"],
    "refuse": lambda facts: "test_reward" in facts["text"] and "never-run" in facts["text"],
    "read": lambda facts: "# The workflow" in facts["text"],
    "prompt": lambda facts: "add numbers that a farmer wrote down" in facts["text"],
    "progress": lambda facts: "hanging" in facts["messages"],
    "cancel": lambda facts: facts["ended"] and "1 environment here" in facts["text"],
    "elicit": lambda facts: facts["questions"] == ["Spend $5.00?"] and "sent" in facts["text"] and facts["spent"],
    "confirm": lambda facts: "needs_confirmation" in facts["asked"] and facts["spent"],
}
"""What must be true of the facts that a kit's program prints about a step."""


@dataclass(frozen=True, slots=True)
class Kit:
    """One kit, and what it cannot do."""

    name: str
    program: str
    cannot: tuple[str, ...] = ()
    open_schemas: frozenset[str] = field(default_factory=frozenset)
    """Tools that the kit converts, but not in its strict form: a strict schema has no objects with free keys."""

    @property
    def pins(self) -> Path:
        return HERE / f"{self.name}.txt"

    @property
    def version(self) -> str:
        found = re.search(rf"^{self.name}(?:-slim)?==(\S+)", self.pins.read_text(encoding="utf-8"), re.M)
        assert found is not None
        return found[1]

    @property
    def steps(self) -> set[str]:
        """The steps that its program takes. A kit that cannot ask its user passes the token on instead."""
        return set(GOOD) - set(self.cannot) - ({"confirm"} if "elicit" not in self.cannot else set())


KITS = (
    Kit(
        "openai-agents",
        "openai_agents.py",
        cannot=("progress", "elicit"),
        open_schemas=frozenset({"test_reward", "run_eval", "push_environment", "write_training_config", "hang"}),
    ),
    Kit("fastmcp", "fastmcp_client.py"),
    Kit("pydantic-ai", "pydantic_ai_agent.py"),
    Kit("langchain-mcp-adapters", "langchain_tools.py", cannot=("cancel",)),
    Kit("mcp-use", "mcp_use_session.py", cannot=("progress", "cancel")),
    Kit("google-adk", "google_adk_agent.py"),
    Kit("google-genai", "google_genai_session.py", cannot=("progress",)),
    Kit("llama-index-tools-mcp", "llama_index_tools.py", cannot=("elicit",)),
    Kit("crewai-tools", "crewai_adapter.py", cannot=("read", "prompt", "progress", "cancel", "elicit")),
    Kit("semantic-kernel", "semantic_kernel_plugin.py", cannot=("read", "progress", "cancel", "elicit")),
)


def interpreter(kit: Kit, folder: Path) -> Path:
    """Build the environment of a kit."""
    uv, python = find_uv_bin(), folder / "bin" / "python"
    for command in (
        ["venv", "--quiet", "--python", os.path.realpath(sys.executable), str(folder)],
        ["pip", "sync", "--quiet", "--python", str(python), str(kit.pins)],
    ):
        done = subprocess.run([uv, *command], capture_output=True, text=True, timeout=500, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
    return python


def left_running(marker: Path) -> bool:
    """Whether the process of `hang` is alive although its client has gone."""
    until = time.monotonic() + 20
    while marker.exists() and time.monotonic() < until:
        try:
            os.kill(int(marker.read_text(encoding="utf-8")), 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return marker.exists()


@pytest.mark.slow
@pytest.mark.rotate(share=6, group="kits")
@pytest.mark.parametrize("kit", KITS, ids=lambda kit: kit.name)
def test_an_agent_kit_uses_the_server(kit: Kit, tmp_path: Path) -> None:
    python = interpreter(kit, tmp_path / "kit")
    (tmp_path / "workspace").mkdir()
    state = str(tmp_path / "state")
    server = [sys.executable, "-m", "tests.external.server", str(tmp_path / "workspace"), state]
    done = subprocess.run(
        [str(python), str(HERE / kit.program), json.dumps(server), state],
        cwd=ROOT,
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    steps = {facts.pop("step"): facts for facts in map(json.loads, re.findall(r'^\{"step".*$', done.stdout, re.M))}
    converted = steps.pop("convert", None)
    wrong = {step: facts for step, facts in steps.items() if not GOOD[step](facts)}
    assert wrong == {}
    assert set(steps) == kit.steps, done.stderr[-4000:]
    assert done.returncode == 0, done.stderr[-4000:]
    assert not left_running(tmp_path / "state" / "hang.pid")
    if converted is not None:
        assert {*WORKFLOW, *OWN} - set(converted["names"]) <= kit.open_schemas


def test_the_page_about_clients_lists_each_kit_and_what_it_cannot_do() -> None:
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    rows = {kit.name: f"| {kit.name} {kit.version} | {', '.join(kit.cannot) or 'nothing'} |" for kit in KITS}
    assert [row for row in rows.values() if row not in page] == []
