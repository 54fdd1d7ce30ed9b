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

words = json.loads(sys.argv[1])
program = vf_lab_chat._chat_program(CHAT_PROGRAM_SOURCE)
inside = asyncio.run(vf_lab_chat._conversation(program, words))
apart = subprocess.run([sys.executable, "-c", CHAT_PROGRAM_SOURCE, *words], capture_output=True, text=True)
print(json.dumps({"inside": inside.exit_code, "apart": apart.returncode, "said": inside.stderr}))
"""
REFUSED = ["--base-url=http://127.0.0.1:9/v1", "--api-key=none", "--model=m", "--prompt=hello"]


def ended(words: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-c", BOTH_WAYS, json.dumps(words)]
    paths = {"PYTHONPATH": str(HARNESSES), "PATH": str(Path(sys.executable).parent), "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(command, env=paths, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(("words", "code"), [(REFUSED, 97), (REFUSED[1:], 2)], ids=["unreachable", "no address"])
def test_a_conversation_inside_ends_with_the_exit_code_of_its_process(words: list[str], code: int) -> None:
    both = ended(words)
    assert (both["inside"], both["apart"]) == (code, code), both["said"]
