"""A trace as the older functions get it: prompt, completion and state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import verifiers.v1 as vf

from ported_template.v0 import Record, State, message


def prompt_of(data: Any) -> list[Record]:
    """The messages with which the rollout of a task begins."""
    head = [message({"role": "system", "content": data.system_prompt})] if data.system_prompt else []
    if isinstance(data.prompt, str):
        return [*head, message({"role": "user", "content": data.prompt})]
    return [*head, *(message(m.model_dump()) for m in data.prompt or ())]


def completion_of(trace: vf.Trace) -> list[Record]:
    """The messages from the first reply of the model on."""
    nodes = trace.branches[-1].nodes if trace.nodes else []
    first = next((n for n, node in enumerate(nodes) if node.sampled), len(nodes))
    return [message(node.message.model_dump()) for node in nodes[first:]]


def steps_of(prompt: Sequence[Record], completion: Sequence[Record]) -> list[dict[str, Any]]:
    """One step of the trajectory for each reply."""
    return [
        {"prompt": [*prompt, *completion[:n]], "completion": [said], "is_truncated": False, "extras": {}}
        for n, said in enumerate(completion)
        if said.role == "assistant"
    ]


def state_of(data: Any, completion: Sequence[Record]) -> State:
    """The state that an older environment has at the end of a rollout."""
    prompt = prompt_of(data)
    return State(
        input={"prompt": prompt, "answer": data.answer, "info": data.info, **data.metadata},
        prompt=prompt,
        completion=list(completion),
        answer=data.answer,
        info=dict(data.info),
        task=data.metadata.get("task", "default"),
        trajectory=steps_of(prompt, completion),
        is_completed=True,
        is_truncated=False,
        stop_condition="max_turns_reached",
        error=None,
        reward=None,
        metrics=None,
    )


def objects_of(data: Any, state: State) -> dict[str, Any]:
    """What reward functions may ask for by the names of their parameters."""
    names = ("prompt", "completion", "answer", "info", "task")
    return {**data.metadata, **{name: state[name] for name in names}, "state": state}
