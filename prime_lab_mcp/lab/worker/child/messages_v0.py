"""Messages, rows and states in the formats of verifiers 0.1 to 0.3."""

from __future__ import annotations

import importlib
import json
from typing import Any

VERIFIERS_STATE_KEYS = frozenset(
    {
        "input",
        "task",
        "prompt",
        "completion",
        "answer",
        "info",
        "example_id",
        "env_id",
        "client",
        "model",
        "sampling_args",
        "is_completed",
        "is_truncated",
        "tool_defs",
        "oai_tools",
        "trajectory",
        "trajectory_id",
        "reward",
        "metrics",
        "error",
        "final_env_response",
        "timing",
        "usage",
        "usage_tracker",
        "token_usage",
        "stop_condition",
        "prompt_too_long",
        "timed_out",
        "responses",
        "turn",
        "advantage",
    }
)
"""Keys of a state that verifiers itself writes. All other keys come from the environment."""


def parsed_info(info: Any) -> Any:
    """Return the `info` of a row, parsed if it is stored as JSON text."""
    if isinstance(info, str):
        try:
            return json.loads(info)
        except ValueError:
            return info
    return info


def messages(prompt: Any) -> list[Any]:
    """Return a prompt or completion as a list of messages. A text becomes one message of the user."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return list(prompt or [])


def without_empty_fields(message: Any) -> Any:
    """Return a message without the fields that are None. Arrow tables add such fields."""
    return {k: v for k, v in message.items() if v is not None} if isinstance(message, dict) else message


def normalized(conversation: Any) -> list[Any]:
    """Return messages in the form that the installed verifiers uses: pydantic models from 0.1.11 on, dicts before."""
    bare = [without_empty_fields(m) for m in messages(conversation)]
    try:
        normalize = importlib.import_module("verifiers.utils.message_utils").normalize_messages
    except (ImportError, AttributeError):
        return bare
    for message in bare:
        if isinstance(message, dict) and message.get("tool_calls"):
            message["tool_calls"] = [_call(c) for c in message["tool_calls"]]
    normalized: list[Any] = normalize(bare, field_name="completion")
    return normalized


def replies(conversation: Any) -> list[Any]:
    """Return the messages after the prompt, normalized.

    verifiers gives a reply every field but the role, and what a message was given shows (`exclude_unset`).
    """
    return [_reply(m) for m in normalized(conversation)]


def _reply(message: Any) -> Any:
    if isinstance(message, dict) or getattr(message, "role", None) != "assistant":
        return message
    kind = type(message)
    return kind(**{name: getattr(message, name) for name in kind.model_fields if name != "role"})


def _call(call: Any) -> Any:
    inner = call.get("function") if isinstance(call, dict) else None
    if not isinstance(inner, dict):
        return call
    return {"id": call.get("id", ""), "name": inner.get("name", ""), "arguments": inner.get("arguments", "")}


def trajectory(prompt: list[Any], completion: list[Any], name: Any = "scripted") -> list[dict[str, Any]]:
    """Return the trajectory of a rollout called `name`: one step for each message of the model."""
    steps: list[dict[str, Any]] = []
    for number, message in enumerate(completion):
        role = message.get("role") if isinstance(message, dict) else getattr(message, "role", None)
        if role == "assistant":
            steps.append(
                {
                    "prompt": [*prompt, *completion[:number]],
                    "completion": [message],
                    "response": None,
                    "tokens": None,
                    "reward": None,
                    "advantage": None,
                    "is_truncated": False,
                    "trajectory_id": name,
                    "extras": {},
                }
            )
    return steps


def group_member(env: Any, info: Any) -> Any:
    """Return the member of an EnvGroup to which a row belongs. For nested groups, `info` has a list of names."""
    route = info.get("env_id") if isinstance(info, dict) else None
    for name in route if isinstance(route, list) else [route]:
        env = getattr(env, "env_map", {}).get(name, env)
    return env
