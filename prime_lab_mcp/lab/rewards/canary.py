"""Texts that raise an audit event when a reward runs them as Python, and do nothing else (worker/audit.py listens)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from prime_lab_mcp.lab.rewards.carriers import Carrier
from prime_lab_mcp.lab.worker.audit import CANARY

TASKS = 2
"""Tasks on which they are tried: whether a text is run hangs on the text."""
EXPRESSION = f"__import__('sys').audit('{CANARY}')"
PROGRAM = f"import sys\n\nsys.audit('{CANARY}')"
_YAML = f"!!python/object/apply:sys.audit ['{CANARY}']"


def canaries(carrier: Carrier, said: str) -> Iterator[tuple[str, str]]:
    """(name, completion) in the asked form and without it; `said` is the gold, whose values they replace in JSON."""
    yield "runs as Python: expression", carrier.wrap(EXPRESSION)
    yield "runs as Python: program", carrier.wrap(PROGRAM)
    yield "runs as Python: YAML", carrier.wrap(_YAML)
    if carrier.kind != "plain":
        yield "runs as Python: expression, bare", EXPRESSION
    if carrier.kind != "code":
        yield "runs as Python: program in a fence", f"```python\n{PROGRAM}\n```"
    try:
        read = json.loads(said)
    except ValueError:
        return
    if isinstance(read, dict | list):
        yield "runs as Python: values of JSON", carrier.wrap(json.dumps(_filled(read)))


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _filled(inner) for key, inner in value.items()}
    return [_filled(inner) for inner in value] if isinstance(value, list) else EXPRESSION
