"""Model endpoints: presets, their keys, and the question whether an endpoint serves a model and at what price.

A key goes only to the host that the key belongs to. `Endpoint` never holds a key, only the name of the variable that
holds the key. No other module reads an endpoint's key: `EndpointAccess` carries the key to the caller, who passes the
key to the supervisor of the job. The key is never logged, stored or shown.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prime_lab_mcp.lab.base.errors import BadInput, EvalError
from prime_lab_mcp.lab.base.json_values import text_or_none
from prime_lab_mcp.lab.base.text import quote

_PRIME_URL = "https://api.pinference.ai/api/v1"
_QUERY_SECONDS = 8.0


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
    """A name of `PRESETS`, or `url` for an endpoint that was given by its URL."""
    url: str
    key_variable: str | None = None
    team: str | None = None
    """Sent as X-Prime-Team-ID."""

    @property
    def host(self) -> str:
        """Host and port of the URL."""
        return urlsplit(self.url).netloc


@dataclass(frozen=True, slots=True)
class _PresetEndpoint:
    """The address of a preset, the variable of its key, and whether it needs a key."""

    url: str
    variable: str
    needs_key: bool


PRESETS: Mapping[str, _PresetEndpoint] = {
    "prime": _PresetEndpoint(_PRIME_URL, "PRIME_API_KEY", True),
    "openai": _PresetEndpoint("https://api.openai.com/v1", "OPENAI_API_KEY", True),
    "openrouter": _PresetEndpoint("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", True),
    "vllm": _PresetEndpoint("http://localhost:8000/v1", "VLLM_API_KEY", False),
    "ollama": _PresetEndpoint("http://localhost:11434/v1", "OLLAMA_API_KEY", False),
}


@dataclass(frozen=True, slots=True)
class EndpointAccess:
    """An endpoint with its key. `price` is the price that the endpoint lists for the model."""

    endpoint: Endpoint
    key: str | None
    price: Price | None = None

    def __repr__(self) -> str:
        return f"Access({self.endpoint!r}, key={'set' if self.key else None}, price={self.price!r})"


def resolve_endpoint(name_or_url: str | None, variables: Mapping[str, str]) -> EndpointAccess:
    """Return an endpoint by preset (default `prime`), URL, or `URL|KEY_VARIABLE`. Raises BadInput, EvalError.

    `variables` point at the rehearsal platform and take precedence over the user's own variables. They are empty for
    the real platform.
    """
    name = name_or_url or "prime"
    if name not in PRESETS:
        return _by_url(name)
    preset = PRESETS[name]
    environment = dict(os.environ) | dict(variables) if name == "prime" else dict(os.environ)
    url, key, team = preset.url, environment.get(preset.variable) or None, None
    if name == "prime":
        login = {} if variables else _login()
        url = environment.get("PRIME_INFERENCE_URL") or text_or_none(login.get("inference_url")) or url
        key = key or text_or_none(login.get("api_key"))
        team = environment.get("PRIME_TEAM_ID") or text_or_none(login.get("team_id"))
    if preset.needs_key and not key:
        login_advice = " or log in with `prime login`" if name == "prime" else ""
        raise EvalError(
            f"there is no key for the endpoint {name}: {preset.variable} is not set",
            fix=f"Ask the user to set {preset.variable} in the server's environment{login_advice}, "
            "or use another endpoint.",
            code="endpoint-no-key",
        )
    return EndpointAccess(Endpoint(name, url.rstrip("/"), preset.variable if key else None, team), key)


def _by_url(text: str) -> EndpointAccess:
    url, _, variable = text.partition("|")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(
            f"{quote(url, 80)} is neither a preset nor a URL",
            fix=f"Use one of {', '.join(PRESETS)}, or a URL such as https://host/v1, or URL|KEY_VARIABLE.",
            code="endpoint-unknown",
        )
    if parts.username or parts.password or parts.query:
        raise BadInput(
            "the endpoint's URL holds a credential or a query",
            fix="Put the key into a variable and name it: URL|KEY_VARIABLE.",
            code="endpoint-unknown",
        )
    if parts.scheme == "http" and not _loopback(parts.hostname):
        raise BadInput(
            f"the endpoint {quote(parts.hostname, 80)} is neither on this machine nor https",
            fix="Use https, or forward the port to this machine and use http://localhost:PORT/v1.",
            code="endpoint-insecure",
        )
    key = None
    if variable:
        key = os.environ.get(variable) or None
        if key is None:
            raise EvalError(
                f"the variable {quote(variable, 60)} named for the endpoint's key is not set",
                fix="Ask the user to set it in the server's environment.",
                code="endpoint-no-key",
            )
    return EndpointAccess(Endpoint("url", url.rstrip("/"), variable or None), key)


def _loopback(host: str) -> bool:
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

    The query checks that the endpoint answers, accepts the key and serves the model. An endpoint without a list of
    models passes. `exact`: the list is complete, so a model that is not listed is refused. Raises EvalError
    (`endpoint-unreachable`, `endpoint-refused`, `endpoint-no-model`).
    """
    import httpx

    headers = {"authorization": f"Bearer {access.key}"} if access.key else {}
    host = access.endpoint.host
    try:
        async with httpx.AsyncClient(timeout=_QUERY_SECONDS) as client:
            response = await client.get(f"{access.endpoint.url}/models", headers=headers)
    except httpx.HTTPError as error:
        raise EvalError(
            f"the endpoint {host} cannot be reached ({type(error).__name__})",
            fix="Start the model server or correct the URL; preflight says which endpoints answer.",
            code="endpoint-unreachable",
        ) from error
    if response.status_code in (401, 403):
        raise EvalError(
            f"the endpoint {host} does not accept the key from {access.endpoint.key_variable or 'no variable'}",
            fix="Ask the user to correct the key, or use another endpoint.",
            code="endpoint-refused",
        )
    listed = _models(response) if response.status_code == 200 else {}
    row = listed.get(model) or listed.get(f"{model}:latest")
    if row is None and exact and listed:
        raise EvalError(
            f"the endpoint {host} has no model {quote(model, 100)}; it has {_nearest(model, listed)}",
            fix='Use one of its models; search_hub(kind="model") lists those of prime.',
            code="endpoint-no-model",
        )
    return replace(access, price=_price(row or {}))


def _models(answer: Any) -> dict[str, Mapping[str, Any]]:
    try:
        rows = answer.json().get("data")
    except (ValueError, AttributeError):
        return {}
    return {str(r["id"]): r for r in rows if isinstance(r, dict) and "id" in r} if isinstance(rows, list) else {}


def _nearest(model: str, listed: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    names = get_close_matches(model, listed, n=4, cutoff=0.3) or sorted(listed)[:4]
    return ", ".join(quote(name, 80) for name in names)


def _price(row: Mapping[str, Any]) -> Price | None:
    """Prime lists dollars per million tokens, OpenRouter dollars per token as text."""
    pricing = row.get("pricing")
    if not isinstance(pricing, Mapping):
        return None
    for prompt, completion, scale in (
        ("input_usd_per_mtok", "output_usd_per_mtok", 1.0),
        ("prompt", "completion", 1e6),
    ):
        try:
            return Price(float(pricing[prompt]) * scale, float(pricing[completion]) * scale)
        except (KeyError, TypeError, ValueError):
            continue
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


def nowhere(allow: tuple[str, ...]) -> dict[str, str]:
    """Return the same variables for a run without a judge: the discard port and an invalid key."""
    return judge_variables("http://127.0.0.1:9/v1", "no-key", allow)
