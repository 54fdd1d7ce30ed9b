"""Resolves model endpoints: presets, named endpoints and URLs, with their keys and the prices of their models.

A key is sent only to the host that it belongs to. Each preset names the variable of its key. For every other host, a
person pairs host and variable: by `--endpoint NAME=URL|VARIABLE`, or by a line of `endpoints.toml` in the state
directory. Both are read when the server starts. A tool call names a preset, a person's name, or a URL without a key. No
tool call can write such a pair.

`Endpoint` never holds a key, only the name of the variable that holds the key. No other module reads an endpoint's key:
`EndpointAccess` carries the key to the caller, who passes the key to the supervisor of the job. The key is never
logged, stored or shown.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from prime_lab_mcp.lab.base.errors import BadInput, EvalError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.limited_answers import get_limited
from prime_lab_mcp.lab.base.settings import NamedEndpoint
from prime_lab_mcp.lab.base.text import quote, redact, text_or_none

_PRIME_URL = "https://api.pinference.ai/api/v1"
_QUERY_SECONDS = 8.0
_URL = re.compile(r"https?://[A-Za-z0-9\[\]:._~%/+,=-]+")
"""URLs whose characters are safe in a quoted shell argument."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    prompt: float
    completion: float

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the cost of this many tokens in US dollars."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible endpoint. `key_variable` names the variable that holds the key; the key itself is not
    stored."""

    preset: str
    """A name of `PRESETS`, a name that a person gave, or `url` for an endpoint that a call gave by its URL."""
    url: str
    key_variable: str | None = None
    team: str | None = None
    """The id of the team, which is sent in the header X-Prime-Team-ID."""

    @property
    def host(self) -> str:
        """Host and port of the URL."""
        return urlsplit(self.url).netloc

    @property
    def named_by(self) -> Literal["platform", "provider", "person", "call"]:
        """Who vouches for the endpoint: the platform, a provider to whom the user's key belongs, or the user who named
        it.

        `call` means nobody: a URL in a call, or a preset of this machine.
        """
        if self.preset == "prime":
            return "platform"
        if self.preset == BY_URL:
            return "call"
        preset = PRESETS.get(self.preset)
        if preset is None:
            return "person"
        return "provider" if preset.needs_key else "call"

    @property
    def on_loopback(self) -> bool:
        """Whether the endpoint is on this machine."""
        return is_loopback(urlsplit(self.url).hostname or "")


@dataclass(frozen=True, slots=True)
class _PresetEndpoint:
    """The address of a preset, and the variable of its key. Presets on this machine get no key, because any program may
    listen on their port."""

    url: str
    variable: str | None
    lists_prices: bool = False
    """Whether the endpoint lists the price of each model. Without prices, no budget can be enforced."""

    @property
    def needs_key(self) -> bool:
        return self.variable is not None


PRESETS: Mapping[str, _PresetEndpoint] = {
    "prime": _PresetEndpoint(_PRIME_URL, "PRIME_API_KEY", lists_prices=True),
    "openai": _PresetEndpoint("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openrouter": _PresetEndpoint("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", lists_prices=True),
    "vllm": _PresetEndpoint("http://localhost:8000/v1", None),
    "ollama": _PresetEndpoint("http://localhost:11434/v1", None),
}
"""The only table of presets. Descriptions, findings and reports take the names from here."""
BY_URL = "url"
"""The `preset` of an endpoint that a call gave by its URL."""


def presets_with_prices() -> str:
    """The names of the presets that list prices, joined for a sentence."""
    return ", ".join(name for name, preset in PRESETS.items() if preset.lists_prices)


def presets_without_key() -> str:
    """The names of the presets that need no key, joined for a sentence."""
    return ", ".join(name for name, preset in PRESETS.items() if not preset.needs_key)


@dataclass(frozen=True, slots=True)
class EndpointAccess:
    """An endpoint with its key. `price` is the price that the endpoint lists for the model."""

    endpoint: Endpoint
    key: str | None
    price: Price | None = None

    def __repr__(self) -> str:
        return f"Access({self.endpoint!r}, key={'set' if self.key else None}, price={self.price!r})"


def resolve_endpoint(
    name_or_url: str | None, variables: Mapping[str, str], named: Sequence[NamedEndpoint] = ()
) -> EndpointAccess:
    """Return an endpoint by preset (default `prime`), by a person's name for it, or by URL. Raises BadInput, EvalError.

    `variables` point at the rehearsal platform and take precedence over the user's own variables. They are empty for
    the real platform. `named` are the endpoints of the settings.
    """
    name = name_or_url or "prime"
    if name == "prime":
        return _platform_endpoint(variables)
    if name in PRESETS:
        preset = PRESETS[name]
        key = _required_key(name, preset.variable) if preset.variable else None
        return EndpointAccess(Endpoint(name, preset.url, preset.variable), key)
    for endpoint in named:
        if endpoint.name == name:
            key = _required_key(name, endpoint.variable) if endpoint.variable else None
            return EndpointAccess(Endpoint(name, endpoint.url, endpoint.variable), key)
    return EndpointAccess(Endpoint(BY_URL, _url_of_call(name, named)), None)


def _platform_endpoint(variables: Mapping[str, str]) -> EndpointAccess:
    """The inference endpoint of the platform, with the key and team of the user's login."""
    environment = dict(os.environ) | dict(variables)
    login = {} if variables else _login()
    url = environment.get("PRIME_INFERENCE_URL") or text_or_none(login.get("inference_url")) or _PRIME_URL
    key = environment.get("PRIME_API_KEY") or text_or_none(login.get("api_key"))
    team = environment.get("PRIME_TEAM_ID") or text_or_none(login.get("team_id"))
    if not key:
        raise _no_key("prime", "PRIME_API_KEY", " or log in with `prime login`")
    return EndpointAccess(Endpoint("prime", checked_url(url), "PRIME_API_KEY", team), key)


def _required_key(name: str, variable: str) -> str:
    key = os.environ.get(variable)
    if not key:
        raise _no_key(name, variable)
    return key


def _no_key(name: str, variable: str, alternative: str = "") -> EvalError:
    return EvalError(
        f"there is no key for the endpoint {name}: {variable} is not set",
        fix=f"Ask the user to set {variable} in the server's environment{alternative}, or use another endpoint.",
        code="endpoint-no-key",
    )


def _url_of_call(text: str, named: Sequence[NamedEndpoint]) -> str:
    """Check the URL of a tool call. A URL with a key's variable is refused: the call would choose which host gets the
    key."""
    url, bar, variable = text.partition("|")
    url = checked_url(url, named)
    if not bar:
        return url
    name = re.sub(r"[^a-z0-9]+", "-", urlsplit(url).netloc.lower()).strip("-")[:40]
    pair = f"{redact(url)}|{redact(variable) if _VARIABLE.fullmatch(variable) else 'VARIABLE'}"
    raise BadInput(
        "a tool call cannot name the variable of a key: which host gets which key is a person's decision",
        fix=f"Without a key, pass the URL alone. Else ask the user to start the server with "
        f"--endpoint '{name}={pair}', or to write the line {name} = \"{pair}\" into endpoints.toml in the state "
        f"directory and start the server again; then pass the name {name}.",
        code="endpoint-key-in-call",
    )


def checked_url(url: str, named: Sequence[NamedEndpoint] = ()) -> str:
    """Return the URL without a trailing slash.

    Raises BadInput if the URL is neither https nor on this machine, or holds a credential. The error message lists
    `named`.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    holds_more = parts.username is not None or parts.password is not None or parts.query or parts.fragment
    if parts.scheme not in ("http", "https") or not host or not (holds_more or _URL.fullmatch(url)):
        names = [*PRESETS, *(endpoint.name for endpoint in named)]
        near = difflib.get_close_matches(url, names, 1)
        nearest = (
            Fix("Pass ", SameCall(endpoint=near[0]))
            if near
            else Fix("Call ", NamedCall("preflight"), ", which says what endpoints answer")
        )
        raise BadInput(
            f"{quote(url, 80)} is neither a preset nor a URL",
            fix=Fix(nearest, f"; the names are {', '.join(names)}, or give a URL such as https://host/v1."),
            code="endpoint-unknown",
        )
    if holds_more:
        raise BadInput(
            "the endpoint's URL holds a credential or a query",
            fix="Leave the credential out. Ask the user to put the key into a variable and to start the server with "
            "--endpoint 'NAME=URL|VARIABLE'; then pass NAME.",
            code="endpoint-unknown",
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise BadInput(
            f"the endpoint {quote(host, 80)} is neither on this machine nor https",
            fix="Use https, or forward the port to this machine and use http://localhost:PORT/v1.",
            code="endpoint-insecure",
        )
    return url.rstrip("/")


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _login() -> Mapping[str, Any]:
    """Return the user's `prime login` configuration, or an empty mapping if there is none."""
    try:
        config = json.loads((Path.home() / ".prime" / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):
        return {}
    return config if isinstance(config, dict) else {}


async def query_endpoint(access: EndpointAccess, model: str, *, exact: bool) -> EndpointAccess:
    """Ask the endpoint for its models, and return the access with the price of the model.

    The request checks that the endpoint answers, accepts the key and serves the model. An endpoint without a list of
    models passes. With `exact`, the list counts as complete, and a model that is not listed is refused. Raises
    EvalError (`endpoint-unreachable`, `endpoint-refused`, `endpoint-no-model`).
    """
    import httpx

    headers = {"authorization": f"Bearer {access.key}"} if access.key else {}
    host = access.endpoint.host
    try:
        # Requests to this machine do not go through the user's proxy.
        async with httpx.AsyncClient(timeout=_QUERY_SECONDS, trust_env=not access.endpoint.on_loopback) as client:
            response = await get_limited(client, f"{access.endpoint.url}/models", headers=headers)
    except httpx.HTTPError as error:
        raise EvalError(
            f"the endpoint {host} cannot be reached ({type(error).__name__})",
            fix=Fix(
                "Start the model server or correct the URL; ", NamedCall("preflight"), " says which endpoints answer."
            ),
            code="endpoint-unreachable",
        ) from error
    if response.status_code in (401, 403):
        raise _refused_key(access.endpoint)
    listed = _models(response) if response.status_code == 200 else {}
    row = listed.get(model) or listed.get(f"{model}:latest")
    if row is None and exact and listed:
        raise EvalError(
            f"the endpoint {host} has no model {quote(model, 100)}; it has {_nearest(model, listed)}",
            fix=Fix("Use one of its models; ", NamedCall("search_hub", kind="model"), " lists those of prime."),
            code="endpoint-no-model",
        )
    return replace(access, price=_price(row or {}))


def _refused_key(endpoint: Endpoint) -> EvalError:
    if endpoint.key_variable is not None:
        return EvalError(
            f"the endpoint {endpoint.host} does not accept the key from {endpoint.key_variable}",
            fix="Ask the user to correct the key, or use another endpoint.",
            code="endpoint-refused",
        )
    return EvalError(
        f"the endpoint {endpoint.host} wants a key, and {endpoint.preset} has none",
        fix="Ask the user to put the key into a variable and to start the server with --endpoint "
        f"'NAME={endpoint.url}|VARIABLE'; then pass NAME.",
        code="endpoint-refused",
    )


def _models(answer: Any) -> dict[str, Mapping[str, Any]]:
    try:
        rows = answer.json().get("data")
    except (ValueError, AttributeError, RecursionError):
        return {}
    return {str(r["id"]): r for r in rows if isinstance(r, dict) and "id" in r} if isinstance(rows, list) else {}


def listed_prices(answer: Any) -> dict[str, Price]:
    """The prices in an endpoint's list of models, by model."""
    rows = _models(answer)
    priced = {model: _price(row) for model, row in rows.items()}
    # OpenRouter answers with this name where a request names the model by its id.
    priced |= {str(row["canonical_slug"]): _price(row) for row in rows.values() if row.get("canonical_slug")}
    return {model: price for model, price in priced.items() if price is not None}


def _nearest(model: str, listed: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    names = get_close_matches(model, listed, n=4, cutoff=0.3) or sorted(listed)[:4]
    return ", ".join(quote(name, 80) for name in names)


def _price(row: Mapping[str, Any]) -> Price | None:
    """Read a model's price. Prime lists US dollars per million tokens, OpenRouter US dollars per token as text."""
    pricing = row.get("pricing")
    if not isinstance(pricing, Mapping):
        return None
    for prompt, completion, scale in (
        ("input_usd_per_mtok", "output_usd_per_mtok", 1.0),
        ("prompt", "completion", 1e6),
    ):
        try:
            price = Price(float(pricing[prompt]) * scale, float(pricing[completion]) * scale)
        except (KeyError, TypeError, ValueError):
            continue
        # OpenRouter lists -1 for a model that stands for others, such as openrouter/auto.
        return price if 0 <= price.prompt < math.inf and 0 <= price.completion < math.inf else None
    return None


def judge_variables(url: str, secret: str, allow: tuple[str, ...]) -> dict[str, str]:
    """Return the variables that direct judges inside environments to a relay.

    An endpoint whose variables the user allowed (`allow`) keeps its own values, so a real key is never sent to the
    relay.
    """
    variables = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
    for key, base in (("OPENAI_API_KEY", "OPENAI_BASE_URL"), ("PRIME_API_KEY", "PRIME_INFERENCE_URL")):
        if not any(name in allow and name in os.environ for name in (key, base)):
            variables |= {key: secret, base: url}
    return variables


def no_judge_variables(allow: tuple[str, ...]) -> dict[str, str]:
    """Return the same variables for a run without a judge. They name the discard port and an invalid key."""
    return judge_variables("http://127.0.0.1:9/v1", "no-key", allow)


FILE = "endpoints.toml"
"""Name of a file in the state directory. It has one line `NAME = "URL|VARIABLE"` for each endpoint."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


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
    by_name = {endpoint.name: endpoint for endpoint in read_named_endpoints(state_dir / FILE)}
    by_name |= {endpoint.name: endpoint for endpoint in map(parse_named_endpoint, given)}
    return tuple(by_name.values())


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
