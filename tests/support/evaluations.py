"""Evaluations that tests describe without running them."""

from __future__ import annotations

from pathlib import Path

from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.relay.endpoints import Endpoint


def hosted_spec() -> EvalSpec:
    """A hosted evaluation of `me/sums@0.1.0`: two tasks, two rollouts each."""
    return EvalSpec(
        environment="me/sums",
        source="hub:x",
        content="hub:x",
        tree=Path(),
        api="v1",
        module="sums",
        python=Path(),
        program=Path(),
        verifiers="",
        model="m",
        endpoint=Endpoint("prime", "http://x"),
        num_examples=2,
        rollouts=2,
        hosted="me/sums@0.1.0",
    )
