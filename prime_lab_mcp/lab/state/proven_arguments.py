"""Says with which arguments of an environment training is proven, where nobody names them.

Evidence belongs to the arguments with which it was made. A config that named others, or none, would train on tasks
that nobody evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.state.arguments import same_arguments
from prime_lab_mcp.lab.state.evaluation_evidence import is_checkpoint
from prime_lab_mcp.lab.state.ledger.rows import Evidence

_HELD_OUT = frozenset({"eval", "evaluation", "test", "validation", "valid", "val", "dev", "heldout", "held_out"})
_SPLIT_ARGUMENTS = re.compile(r"(?:^|_)(?:split|subset|partition)$")


def held_out_argument(env_args: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return the name and value of the environment argument that names a held-out split, or None."""
    for name, value in env_args.items():
        if _SPLIT_ARGUMENTS.search(name.lower()) and str(value).lower().replace("-", "_") in _HELD_OUT:
            return name, value
    return None


def proven_arguments(
    rows: Sequence[Evidence], defaults: Mapping[str, Any] | None = None, runs: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the arguments with which training on these files is proven. Empty: the defaults, or nothing is proven.

    `rows` are the verdicts on the files, newest first. A push says which arguments it was proven with; a later
    evaluation of the defaults counts more. Without either, the newest evaluation that passed decides. Evaluations of
    held-out tasks and of checkpoints (`runs` are the names of training runs) are results and prove nothing.
    """
    named = tuple(runs)
    evaluated = [
        row
        for row in rows
        if row.tool == "check_reward_distribution" and row.status == "passed"
        if not is_checkpoint(row, named) and held_out_argument(row.env_args) is None
    ]
    by_default = next((row for row in evaluated if same_arguments(row.env_args, {}, defaults)), None)
    push = next((row for row in rows if row.tool == "push_environment" and row.status == "passed"), None)
    if push is not None and push.env_args and (by_default is None or by_default.id < push.id):
        return dict(push.env_args)
    if by_default is not None or not evaluated:
        return {}
    return dict(evaluated[0].env_args)
