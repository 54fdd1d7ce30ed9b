"""Run by path with the interpreter that has verifiers: loads a v1 environment and scores replies to its tasks.

Reads one JSON object from standard input: folder, id, args, replies (texts in which GOLD stands for the task's answer,
WRONG for another number). Prints one JSON object: tasks, golds, rewards (per reply, of the first three tasks), env.
"""

from __future__ import annotations

import asyncio
import json
import sys

asked = json.load(sys.stdin)
sys.path.insert(0, asked["folder"])

import verifiers.v1 as vf  # noqa: E402
from verifiers.v1.state import state_cls  # noqa: E402
from verifiers.v1.utils.loaders import env_config_type, taskset_config_type  # noqa: E402


def trace_of(task, text):
    trace = vf.Trace(
        task=vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
        state=state_cls(type(task))(),
        agent=vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig()), name="agent", trainable=False),
    )
    messages = [
        vf.SystemMessage(content=task.data.system_prompt),
        vf.UserMessage(content=task.data.prompt),
        vf.AssistantMessage(content=text),
    ]
    for place, message in enumerate(messages):
        trace.nodes.append(vf.MessageNode(parent=place - 1 if place else None, message=message, sampled=place == 2))
    trace.is_completed = trace.ok = True
    trace.stop_condition = "agent_completed"
    return trace


async def score(task, text):
    trace = trace_of(task, text)
    await task.score(trace)
    return trace.reward


taskset = vf.load_taskset(taskset_config_type(asked["id"]).model_validate({"id": asked["id"], **asked["args"]}))
tasks = list(taskset)
rewards = {
    reply: [
        asyncio.run(score(t, reply.replace("GOLD", t.data.answer).replace("WRONG", str(int(float(t.data.answer)) + 1))))
        for t in tasks[:3]
    ]
    for reply in asked["replies"]
}
agent = env_config_type(asked["id"]).model_validate({"id": asked["id"]}).agent
print(
    json.dumps(
        {
            "tasks": len(tasks),
            "golds": [t.data.answer for t in tasks],
            "prompts": [t.data.prompt for t in tasks],
            "system": tasks[0].data.system_prompt,
            "all_gold": [asyncio.run(score(t, f"So <answer>{t.data.answer}</answer>")) for t in tasks],
            "rewards": rewards,
            "harness": agent.harness.id,
            "runtime": agent.runtime.type,
        }
    )
)
