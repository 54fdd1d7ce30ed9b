"""The chat program of verifiers runs inside vf-eval with the results that its process has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.evals.runner.command import HARNESSES

BOTH_WAYS = """
import asyncio, json, subprocess, sys
from verifiers.v1.harnesses.utils.launch import CHAT_PROGRAM_SOURCE
import vf_lab_chat

program = vf_lab_chat._chat_program(CHAT_PROGRAM_SOURCE)
told = {}
for name, words in json.loads(sys.argv[1]).items():
    inside = asyncio.run(vf_lab_chat._conversation(program, words))
    apart = subprocess.run([sys.executable, "-c", CHAT_PROGRAM_SOURCE, *words], capture_output=True, text=True)
    told[name] = {"inside": inside.exit_code, "apart": apart.returncode, "said": inside.stderr}
print(json.dumps(told))
"""
REFUSED = ["--base-url=http://127.0.0.1:9/v1", "--api-key=none", "--model=m", "--prompt=hello"]


CONVERSATIONS = {"unreachable": (REFUSED, 97), "no address": (REFUSED[1:], 2)}


@pytest.fixture(scope="module")
def ended() -> dict[str, Any]:
    """How each conversation ends in both ways: all in one process, which imports verifiers once."""
    command = [sys.executable, "-c", BOTH_WAYS, json.dumps({name: words for name, (words, _) in CONVERSATIONS.items()})]
    paths = {"PYTHONPATH": str(HARNESSES), "PATH": str(Path(sys.executable).parent), "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(command, env=paths, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_inside_ends_with_the_exit_code_of_its_process(ended: dict[str, Any], name: str) -> None:
    both, code = ended[name], CONVERSATIONS[name][1]
    assert (both["inside"], both["apart"]) == (code, code), both["said"]
