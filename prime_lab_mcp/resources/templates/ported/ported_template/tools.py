"""The tools of the model: the functions of the older environment, served once for all rollouts.

As in v0, the result is a text, and an exception comes back as its message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Optional, Union  # noqa: F401

import verifiers.v1 as vf

from ported_template import functions
from ported_template.v0 import awaited


class PortedTemplateToolset(vf.Toolset[vf.SharedToolsetConfig]):
    """The functions of the older environment."""

    TOOL_PREFIX = None

    @vf.tool
    async def placeholder(self) -> str:
        """A placeholder for the ported tools."""
        return await result(functions.component)


async def result(function: Callable[..., Any], **arguments: Any) -> str:
    """What a function gives, as text."""
    try:
        return str(await awaited(function(**arguments)))
    except Exception as error:
        return f"{error}"


if __name__ == "__main__":
    PortedTemplateToolset.run()
