"""What is said of sandboxes that a run rents beside its GPUs."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.configs.config import parse_config
from prime_lab_mcp.lab.configs.context import ConfigContext, SourceMeasurement
from prime_lab_mcp.lab.training.sandboxes import rented_sandboxes
from tests.lab.configs.examples import SOUND


@pytest.mark.parametrize(("container", "subprocess"), [(True, False), (False, True)])
def test_a_subprocess_is_advised_only_where_no_task_needs_a_container(container: bool, subprocess: bool) -> None:
    measured = SourceMeasurement(container=container)
    config = parse_config(SOUND, "configs/rl/tiny.toml")
    found = list(rented_sandboxes(config, ConfigContext(each={config.train_sources[0].id: measured})))
    assert found != []
    assert all(f.code == "default-runtime" and "not in the bound" in f.message for f in found)
    assert all(('"subprocess"' in f.fix) is subprocess for f in found)
