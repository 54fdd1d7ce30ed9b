"""How a person gets at a trained model: the commands, in order. None of them is run by a tool;
words in capitals are for the person to fill in.

`prime` 0.18 has no command that serves or publishes a checkpoint; what is not its own is named as the tool it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Any

from prime_lab_mcp.lab.configs.own_gpus.launch import Step


def served_name(run_name: str, step: int | None) -> str:
    """What to serve a checkpoint as, so that an evaluation of it is recognised."""
    return run_name if step is None else f"{run_name}-step-{step}"


def ways(id: str, run_name: str, step: int | None, config: Mapping[str, Any]) -> tuple[Step, ...]:
    """For a run of the platform. `config` is its config's table; `step` the checkpoint's."""
    name = served_name(run_name, step)
    lora = isinstance(_at(config, "trainer", "model", "lora"), Mapping)
    volume = config.get("volume")
    if isinstance(volume, str) and volume:
        fetch = Step("fetch", f"prime volumes get {quote(volume)} runs/{id}/ ./{name}", "the run wrote to this volume")
    else:
        why = "shows storage_url of each checkpoint, to download from; a run with `volume` keeps them on the volume"
        fetch = Step("fetch", f"prime train checkpoints {id} -o json", why)
    serve = f"vllm serve ./{name} --served-model-name {name}"
    found = [fetch, Step("serve", serve, "on a machine with a GPU; any server that speaks the OpenAI protocol does")]
    if lora:
        base = quote(str(_at(config, "model", "name") or "BASE_MODEL"))
        adapter = f"vllm serve {base} --enable-lora --lora-modules {name}=./{name}"
        found.append(Step("serve", adapter, "instead, where the checkpoint holds an adapter (adapter_config.json)"))
    publish = f"hf upload OWNER/{name} ./{name}"
    return (
        *found,
        Step("publish", publish, "to Hugging Face; needs HF_TOKEN, and is public unless --private is given"),
    )


def _at(table: Any, *path: str) -> Any:
    for part in path:
        table = table.get(part) if isinstance(table, Mapping) else None
    return table
