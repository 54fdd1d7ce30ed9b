"""The names of a package, and how a package gets the names of another."""

from __future__ import annotations

import io
import keyword
import re
import sys
import tokenize
from dataclasses import dataclass

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import quote

BUILT_IN_TASKSETS = frozenset({"harbor", "nemo_gym", "openenv", "textarena"})
"""Tasksets of verifiers 0.4.0. verifiers resolves these names before it looks for an environment of the same name."""
_RESERVED = frozenset(
    {"verifiers", "datasets", "prime", "prime_cli", "mcp", "openai", "numpy", "tests", "test", "data"}
)


@dataclass(frozen=True, slots=True)
class PackageNames:
    """The names of a package. `module` is also its folder, `distribution` its name on the Hub, `prefix` begins its
    classes."""

    module: str
    distribution: str
    prefix: str


def package_names(name: str) -> PackageNames:
    """Derive all names from one name. Raises BadInput if the module's name is already that of another Python module."""
    module = name.replace("-", "_").lower()
    if (
        module in BUILT_IN_TASKSETS
        or module in _RESERVED
        or module in sys.stdlib_module_names
        or keyword.iskeyword(module)
    ):
        raise BadInput(
            f"an environment named {quote(name, 80)} would collide with the Python module {module}",
            fix="Choose a more specific name.",
            code="bad-name",
        )
    prefix = "".join(part[:1].upper() + part[1:] for part in module.split("_") if part)
    return PackageNames(module, module.strip("_").replace("_", "-"), prefix)


def rename_code(source: str, old: PackageNames, new: PackageNames) -> str:
    """Rename the module, every identifier with the template's class prefix, and every string that equals such a name.

    Names inside other strings and in comments stay unchanged; templates contain none.
    """
    lines = source.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(source).readline))):
        quoted = token.type == tokenize.STRING and token.string[0] == token.string[-1] == '"'
        if token.type != tokenize.NAME and not quoted:
            continue
        renamed = _renamed(token.string.strip('"'), old, new)
        if renamed is None:
            continue
        row, start, end = token.start[0] - 1, token.start[1], token.end[1]
        lines[row] = lines[row][:start] + (f'"{renamed}"' if quoted else renamed) + lines[row][end:]
    return "".join(lines)


def _renamed(name: str, old: PackageNames, new: PackageNames) -> str | None:
    if name == old.module:
        return new.module
    if name.startswith(old.prefix) and name.isidentifier():
        return new.prefix + name[len(old.prefix) :]
    return None


def rename_text(text: str, old: PackageNames, new: PackageNames) -> str:
    """Rename whole words in prose and paths."""
    text = re.sub(rf"\b{re.escape(old.module)}\b", new.module, text)
    return re.sub(rf"\b{re.escape(old.distribution)}\b", new.distribution, text)
