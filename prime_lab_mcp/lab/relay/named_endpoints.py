"""Endpoints that a person named: `--endpoint NAME=URL|VARIABLE`, and lines of `endpoints.toml` in the state directory.

They are read when the server starts. No tool call writes them, because whoever pairs a host with a variable decides
which host gets which key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.settings import NamedEndpoint
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.relay.endpoints import BY_URL, PRESETS, checked_url

FILE = "endpoints.toml"
"""In the state directory: one line `NAME = "URL|VARIABLE"` for each endpoint."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_named_endpoint(text: str) -> NamedEndpoint:
    """Parse `NAME=URL` or `NAME=URL|VARIABLE`. Raises BadInput."""
    name, equals, pair = text.partition("=")
    if not equals:
        raise BadInput(
            f"the endpoint {quote(text, 80)} has no name", fix="Write NAME=URL, or NAME=URL|VARIABLE with its key."
        )
    return _named_endpoint(name, pair)


def read_named_endpoints(path: Path) -> tuple[NamedEndpoint, ...]:
    """Read `endpoints.toml`; empty if there is no such file. Raises BadInput."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{path} cannot be read: {quote(error, 120)}", fix='Write lines NAME = "URL|VARIABLE".'
        ) from None
    for name, pair in table.items():
        if not isinstance(pair, str):
            raise BadInput(
                f"{quote(name, 60)} in {path} is no text", fix=f'Write {quote(name, 60)} = "URL|VARIABLE", or "URL".'
            )
    return tuple(_named_endpoint(name, pair) for name, pair in table.items())


def all_named_endpoints(state_dir: Path, given: Iterable[str]) -> tuple[NamedEndpoint, ...]:
    """The endpoints of the command line and of the file. A name on the command line takes precedence."""
    found = {endpoint.name: endpoint for endpoint in read_named_endpoints(state_dir / FILE)}
    found |= {endpoint.name: endpoint for endpoint in map(parse_named_endpoint, given)}
    return tuple(found.values())


def _named_endpoint(name: str, pair: str) -> NamedEndpoint:
    url, bar, variable = pair.partition("|")
    if not _NAME.fullmatch(name):
        raise BadInput(f"{quote(name, 60)} is no name of an endpoint", fix="Use at most 40 letters, digits, - and _.")
    if name in PRESETS or name == BY_URL:
        raise BadInput(f"{name} is taken: it names an endpoint already", fix="Choose another name.")
    if bar and not _VARIABLE.fullmatch(variable):
        # The text may be the key itself, so the message does not repeat it.
        raise BadInput(
            f"what follows the | of the endpoint {name} is no name of a variable",
            fix="Put the key into an environment variable, and name the variable there.",
        )
    return NamedEndpoint(name, checked_url(url), variable or None)
