"""Messages, rows and states as verifiers 0.1 to 0.3 have them."""

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
"""Keys of a state that verifiers itself writes; any other is the environment's."""


def parsed_info(info: Any) -> Any:
    """The `info` of a row, which may be stored as JSON text."""
    if isinstance(info, str):
        try:
            return json.loads(info)
        except ValueError:
            return info
    return info


def messages(prompt: Any) -> list[Any]:
    """A prompt or completion as a list of messages."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return list(prompt or [])


def dense(message: Any) -> Any:
    """A message without its empty fields, which Arrow adds."""
    return {k: v for k, v in message.items() if v is not None} if isinstance(message, dict) else message


def typed(conversation: Any) -> list[Any]:
    """Messages in the form of the installed version after a rollout: models from 0.1.11 on, dicts before."""
    bare = [dense(m) for m in messages(conversation)]
    try:
        normalize = importlib.import_module("verifiers.utils.message_utils").normalize_messages
    except (ImportError, AttributeError):
        return bare
    for message in bare:
        if isinstance(message, dict) and message.get("tool_calls"):
            message["tool_calls"] = [_call(c) for c in message["tool_calls"]]
    normalized: list[Any] = normalize(bare, field_name="completion")
    return normalized


def _call(call: Any) -> Any:
    inner = call.get("function") if isinstance(call, dict) else None
    if not isinstance(inner, dict):
        return call
    return {"id": call.get("id", ""), "name": inner.get("name", ""), "arguments": inner.get("arguments", "")}


def trajectory(prompt: list[Any], completion: list[Any]) -> list[dict[str, Any]]:
    """The steps of a rollout, one for each message of the model."""
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
                    "trajectory_id": "scripted",
                    "extras": {},
                }
            )
    return steps


def routed(env: Any, info: Any) -> Any:
    """The member of an EnvGroup that a row belongs to; nested groups have a list of names."""
    route = info.get("env_id") if isinstance(info, dict) else None
    for name in route if isinstance(route, list) else [route]:
        env = getattr(env, "env_map", {}).get(name, env)
    return env
