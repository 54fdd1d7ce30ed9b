"""The platform's live lists of models, joined with the registry and with what was measured here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.models.data import registry
from prime_lab_mcp.lab.models.known import Model, find
from prime_lab_mcp.lab.models.memory import fewest, gpu_memory
from prime_lab_mcp.lab.models.readiness import in_words, readiness
from prime_lab_mcp.lab.prime.answers import Models, number

if TYPE_CHECKING:
    from prime_lab_mcp.lab.lab import Lab

SEQ_LEN = 4096
"""Tokens of the sequence for which `lora_gpus` counts GPUs."""


@dataclass(frozen=True, slots=True)
class Lists:
    """What the platform said. None: that list could not be had, and `problems` says why."""

    served: Mapping[str, Mapping[str, Any]] | None
    """Model id to the entry of Prime Inference."""
    offered: Models | None
    problems: tuple[LabError, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Names of the trainable list by their folded published name."""

    @property
    def trainable(self) -> Mapping[str, tuple[str, ...]]:
        return self.offered.trainable if self.offered else {}

    def trained_as(self, name: str) -> str | None:
        """The name under which the platform trains a model, whatever it is called here."""
        return self.spellings.get(folded(name))

    def served_as(self, name: str) -> list[str]:
        return [id for id in self.served or () if folded(id) == folded(name)]


def folded(name: str) -> str:
    """One spelling for all names of a model."""
    return registry().spelt(name).lower()


async def ask(lab: Lab, seconds: float | None = None) -> Lists:
    """Both lists. Never raises: what could not be had is None.

    With `seconds` no longer than that, and the served models only once the trainable ones were had: without an
    account, which is known at once, nobody waits for the network.
    """
    found: dict[str, Any] = {}
    problems: list[LabError] = []

    async def get(key: str, question: Callable[[], Awaitable[Any]]) -> None:
        try:
            found[key] = await question()
        except LabError as error:
            problems.append(error)

    with anyio.move_on_after(seconds):
        if seconds is not None:
            await get("offered", lab.prime.models)
        async with anyio.create_task_group() as asking:
            if seconds is None:
                asking.start_soon(get, "offered", lab.prime.models)
            if seconds is None or "offered" in found:
                asking.start_soon(get, "served", lab.prime.inference_models)
    offered: Models | None = found.get("offered")
    served = {str(m["id"]): m for m in found["served"] if m.get("id")} if "served" in found else None
    spellings = {folded(name): name for name in offered.trainable} if offered else {}
    return Lists(served, offered, tuple(problems), spellings)


def names(lists: Lists) -> list[str]:
    """Every model that is served or trained now, each once, under the served name first."""
    found = list(lists.served or ())
    seen = {folded(name) for name in found}
    return found + [name for name in lists.trainable if folded(name) not in seen]


def row(name: str, lists: Lists, evals: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """One model as a caller sees it; what is not known is left out."""
    model = find(name)
    trained = lists.trained_as(name)
    entry = next((lists.served[id] for id in lists.served_as(name)), {}) if lists.served else {}
    pricing, specs = (e if isinstance(e := entry.get(key), Mapping) else {} for key in ("pricing", "specs"))
    gpus = lists.trainable.get(trained, ()) if trained else ()
    shown: dict[str, Any] = {
        "id": name,
        "train_as": trained if trained != name else None,
        "trainable": trained is not None if lists.offered else None,
        "readiness": in_words(readiness(find(trained) if trained else model, listed=listed(lists, trained))),
        "train_gpus": list(gpus) or None,
        "lora_gpus": _lora_gpus(model, gpus),
        "input": number(pricing.get("input_usd_per_mtok")),
        "output": number(pricing.get("output_usd_per_mtok")),
        "served": entry.get("serving") or ("yes" if entry else None) if lists.served is not None else None,
        "context": specs.get("context_window") or model.context,
    }
    shown |= _registered(model)
    known = {key: rows for key in {name.lower(), (trained or name).lower()} if (rows := evals.get(key))}
    shown["your_evals"] = [entry for rows in known.values() for entry in rows][:3] or None
    return {key: value for key, value in shown.items() if value is not None}


def listed(lists: Lists, trained: str | None) -> bool | None:
    return trained is not None if lists.offered else None


def _lora_gpus(model: Model, types: tuple[str, ...]) -> dict[str, int] | None:
    """Training GPUs of each type that LoRA needs by estimate, at SEQ_LEN tokens."""
    if model.parameters is None:
        return None
    sized = {gpu: size for gpu in types if (size := gpu_memory(gpu))}
    counted = {
        gpu: fewest(model.parameters, model.active, size, seq_len=SEQ_LEN, state="lora") for gpu, size in sized.items()
    }
    return {gpu: count for gpu, count in counted.items() if count} or None


def _registered(model: Model) -> dict[str, Any]:
    """What the registry adds, each remark with its date."""
    size = f"{model.parameters:g}B" if model.parameters else None
    if size and model.active and model.active != model.parameters:
        size += f", {model.active:g}B active"
    return {
        "size": size,
        "thinks": model.thinks or None,
        "vision": model.vision or None,
        "native": model.native,
        "renderer": model.renderer,
        "tool_parser": model.tool_parser,
        "closed": True if model.closed else None,
        "baseline": next((f.said for f in model.told("baseline")), None),
        "notes": [f.said for f in (*model.told("note"), *model.told("fault"))] or None,
    }
