"""The names of a new package: folder, module, distribution, class prefix."""

from __future__ import annotations

import keyword
import sys
from dataclasses import dataclass

from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.text import quote

BUILT_IN = frozenset({"harbor", "nemo_gym", "openenv", "textarena"})
"""Tasksets of verifiers 0.4.0, which are found before any environment of the same name."""
_TAKEN = frozenset({"verifiers", "datasets", "prime", "prime_cli", "mcp", "openai", "numpy", "tests", "test", "data"})


@dataclass(frozen=True, slots=True)
class Names:
    """`module` is also the folder; `distribution` is what the Hub shows."""

    module: str
    distribution: str
    prefix: str


def names_for(name: str) -> Names:
    """The names that follow from one. Raises BadInput where the module would hide, or be hidden by, another one."""
    module = name.replace("-", "_").lower()
    if module in BUILT_IN or module in _TAKEN or module in sys.stdlib_module_names or keyword.iskeyword(module):
        raise BadInput(
            f"an environment named {quote(name, 80)} would collide with the Python module {module}",
            fix="Choose a more specific name.",
            code="bad-name",
        )
    prefix = "".join(part[:1].upper() + part[1:] for part in module.split("_") if part)
    return Names(module, module.strip("_").replace("_", "-"), prefix)
