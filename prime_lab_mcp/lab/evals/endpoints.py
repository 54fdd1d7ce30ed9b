"""Model endpoints: presets, where their keys are, and what they say about a model before anything is paid for.

The one place that reads an endpoint's key. It is returned to the caller, who hands it to the job's supervisor; it is
never logged, stored or shown.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from prime_lab_mcp.lab.errors import BadInput, EvalError
from prime_lab_mcp.lab.evals.spec import Endpoint, Preset, Price
from prime_lab_mcp.lab.text import quote

_PRIME_URL = "https://api.pinference.ai/api/v1"
_ASK_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class _Known:
    url: str
    variable: str
    needs_key: bool


_PRESETS: Mapping[str, _Known] = {
    "prime": _Known(_PRIME_URL, "PRIME_API_KEY", True),
    "openai": _Known("https://api.openai.com/v1", "OPENAI_API_KEY", True),
    "openrouter": _Known("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", True),
    "vllm": _Known("http://localhost:8000/v1", "VLLM_API_KEY", False),
    "ollama": _Known("http://localhost:11434/v1", "OLLAMA_API_KEY", False),
}


@dataclass(frozen=True, slots=True)
class Access:
    """An endpoint with its key. `price` is what the endpoint itself lists for the model."""

    endpoint: Endpoint
    key: str | None
    price: Price | None = None

    def __repr__(self) -> str:
        return f"Access({self.endpoint!r}, key={'set' if self.key else None}, price={self.price!r})"


def resolve(wanted: str | None, variables: Mapping[str, str]) -> Access:
    """An endpoint by preset (default `prime`), URL, or `URL|KEY_VARIABLE`. Raises BadInput, EvalError.

    `variables` point at the rehearsal platform and win over the user's own; empty for the real one.
    """
    name = wanted or "prime"
    if name not in _PRESETS:
        return _by_url(name)
    known = _PRESETS[name]
    own = dict(os.environ) | dict(variables) if name == "prime" else dict(os.environ)
    url, key, team = known.url, own.get(known.variable) or None, None
    if name == "prime":
        login = {} if variables else _login()
        url = own.get("PRIME_INFERENCE_URL") or _text(login, "inference_url") or url
        key = key or _text(login, "api_key")
        team = own.get("PRIME_TEAM_ID") or _text(login, "team_id")
    if known.needs_key and not key:
        more = " or log in with `prime login`" if name == "prime" else ""
        raise EvalError(
            f"there is no key for the endpoint {name}: {known.variable} is not set",
            fix=f"Ask the user to set {known.variable} in the server's environment{more}, or use another endpoint.",
            code="endpoint-no-key",
        )
    return Access(Endpoint(cast("Preset", name), url.rstrip("/"), known.variable if key else None, team), key)


def _by_url(text: str) -> Access:
    url, _, variable = text.partition("|")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(
            f"{quote(url, 80)} is neither a preset nor a URL",
            fix=f"Use one of {', '.join(_PRESETS)}, or a URL such as https://host/v1, or URL|KEY_VARIABLE.",
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
    return Access(Endpoint("url", url.rstrip("/"), variable or None), key)


def _loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _login() -> Mapping[str, Any]:
    """The user's own `prime login`."""
    try:
        found = json.loads((Path.home() / ".prime" / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(table: Mapping[str, Any], name: str) -> str | None:
    found = table.get(name)
    return found if isinstance(found, str) and found else None


async def ask(access: Access, model: str, *, exact: bool) -> Access:
    """Ask the endpoint for its models: is it there, does it take the key, has it the model, at what price.

    An endpoint without a list of models passes. `exact`: the list is complete, so a model that is not in it is refused.
    Raises EvalError (`endpoint-unreachable`, `endpoint-refused`, `endpoint-no-model`).
    """
    import httpx

    headers = {"authorization": f"Bearer {access.key}"} if access.key else {}
    host = access.endpoint.host
    try:
        async with httpx.AsyncClient(timeout=_ASK_SECONDS) as client:
            answer = await client.get(f"{access.endpoint.url}/models", headers=headers)
    except httpx.HTTPError as error:
        raise EvalError(
            f"the endpoint {host} cannot be reached ({type(error).__name__})",
            fix="Start the model server or correct the URL; preflight says which endpoints answer.",
            code="endpoint-unreachable",
        ) from error
    if answer.status_code in (401, 403):
        raise EvalError(
            f"the endpoint {host} does not accept the key from {access.endpoint.key_variable or 'no variable'}",
            fix="Ask the user to correct the key, or use another endpoint.",
            code="endpoint-refused",
        )
    listed = _models(answer) if answer.status_code == 200 else {}
    found = listed.get(model) or listed.get(f"{model}:latest")
    if found is None and exact and listed:
        raise EvalError(
            f"the endpoint {host} has no model {quote(model, 100)}; it has {_nearest(model, listed)}",
            fix="Use one of its models; search_hub(kind=\"model\") lists those of prime.",
            code="endpoint-no-model",
        )  # fmt: skip
    return replace(access, price=_price(found or {}))


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
