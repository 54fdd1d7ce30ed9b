"""Whole rollouts of a v0 environment with a scripted model, run by an interpreter that has verifiers 0.1.14.

Reads {"folder", "module", "plans": {question: [turn, ...]}} from standard input; a turn is a text or a list of
[tool, arguments]. Writes what `env.evaluate` made of the evaluation tasks that have a plan.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from typing import Any


def main() -> None:
    asked = json.load(sys.stdin)
    told = os.dup(1)
    os.dup2(2, 1)
    sys.path.insert(0, asked["folder"])
    client_type = importlib.import_module("verifiers.clients").Client
    types = importlib.import_module("verifiers.types")
    env = importlib.import_module(asked["module"]).load_environment(**asked.get("args", {}))

    async def get_response(self: Any, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **_: Any) -> Any:
        question = next(m.content for m in prompt if m.role == "user")
        number = sum(m.role == "assistant" for m in prompt)
        turn = asked["plans"][question][number]
        calls = None
        if not isinstance(turn, str):
            calls = [
                types.ToolCall(
                    id=f"c{number}{n}", name=name, arguments=given if isinstance(given, str) else json.dumps(given)
                )
                for n, (name, given) in enumerate(turn)
            ]
        message = types.ResponseMessage(
            role="assistant",
            content=turn if isinstance(turn, str) else None,
            tool_calls=calls,
            finish_reason="tool_calls" if calls else "stop",
            is_truncated=False,
        )
        return types.Response(id="r", created=1, model=model, message=message)

    scripted = type("Scripted", (client_type,), {"get_response": get_response})
    scripted.__abstractmethods__ = frozenset()
    client = object.__new__(scripted)
    client._config = None
    rows = env.get_eval_dataset()
    kept = [n for n, row in enumerate(rows) if row["prompt"][-1]["content"] in asked["plans"]]
    env.eval_dataset = rows.select(kept)
    found = asyncio.run(env.evaluate(client=client, model="scripted", num_examples=-1, rollouts_per_example=1))
    tools = [tool.model_dump() for tool in getattr(env, "tool_defs", None) or []]
    outputs = {
        output["prompt"][-1]["content"]: {
            "reward": output["reward"],
            "metrics": output["metrics"],
            "error": str(output.get("error") or ""),
            "stop": output.get("stop_condition"),
            "said": [[m["role"], m.get("content")] for m in map(plain, output["completion"])],
        }
        for output in found["outputs"]
    }
    os.write(told, json.dumps({"outputs": outputs, "tools": tools}, default=str).encode())


def plain(message: Any) -> dict[str, Any]:
    return message if isinstance(message, dict) else message.model_dump()


if __name__ == "__main__":
    main()
