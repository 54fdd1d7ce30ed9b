"""A config for an environment that was evaluated in containers names the harness that was evaluated."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.configs.author import ConfigRequest, _with_recorded_facts
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.configs.evidence import _measurement
from prime_lab_mcp.lab.configs.plan.choices import SourceChoice
from prime_lab_mcp.lab.state.ledger.rows import Evidence


@pytest.mark.parametrize(
    ("harness", "runtime", "chosen"),
    [
        ("bash", "podman", ("bash", None)),
        ("bash", "docker", ("bash", None)),
        ("null (in-process)", "subprocess", ("null", "subprocess")),
        ("player: bash, judge: null", "podman", ("null", "subprocess")),
    ],
)
def test_the_harness_of_an_evaluation_in_containers_is_kept(
    harness: str, runtime: str, chosen: tuple[str, str | None]
) -> None:
    evaluated = Evidence("check_reward_distribution", "passed", "w", model="m", harness=harness, runtime=runtime)
    context = ConfigContext(each={"boxed": _measurement([evaluated], "m")})
    source = _with_recorded_facts(SourceChoice("boxed"), context, ConfigRequest())
    assert (source.harness, source.runtime) == chosen
