"""What a caller wants of a config, and what was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.configs.make import Made
from prime_lab_mcp.lab.configs.migrate import Change
from prime_lab_mcp.lab.configs.plan import Choices
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.report import Finding

_LARGEST_RATIO = 1e6


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for. `environments` are folder names or `owner/name[@version]`; `choices` carries no sources."""

    environments: tuple[str, ...] = ()
    choices: Choices = field(default_factory=lambda: Choices(()))
    env_args: Mapping[str, Any] = field(default_factory=dict)
    held_out: Mapping[str, Any] | None = None
    """Taskset keys of the eval sources; None: found in each environment's source where possible."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further prime-rl keys by dotted path."""
    ratios: tuple[float, ...] = ()
    """Relative shares of the environments, in their order; empty: equal ones."""
    name: str | None = None
    based_on: str | None = None
    notes: str | None = None

    def ratio(self, index: int) -> float | None:
        return self.ratios[index] if self.ratios else None

    def refuse_ratios(self) -> None:
        """Raises BadInput for shares that do not belong to the environments one by one."""
        one_each = len(self.ratios) == len(self.environments)
        if self.ratios and not (one_each and all(0 < r <= _LARGEST_RATIO for r in self.ratios)):
            raise BadInput(
                f"{len(self.ratios)} ratios for {len(self.environments)} environments, or one that is not above 0",
                fix="Pass one number above 0 for each of environments, in their order, e.g. ratios=[2, 1].",
                code="config-ratios",
            )


@dataclass(frozen=True, slots=True)
class Written:
    """A config on disk. `existed`: the very same config was there already."""

    config: Config
    relative: str
    version: int
    existed: bool
    based_on: str | None
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]
    made: Made
    price_per_hour: float | None
    """US dollars, for all GPUs."""
    price_per_gpu_hour: float | None = None

    @property
    def hardware(self) -> str:
        """For the registry."""
        return self.made.plan.told

    @property
    def environment_versions(self) -> tuple[str, ...]:
        """`owner/name@version` of every training source, as far as it is pinned."""
        return tuple(dict.fromkeys(s.id for s in self.config.train_sources if s.version))
