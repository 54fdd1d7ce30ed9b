"""The platform's live lists of models, joined with the registry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.models.memory import fewest_gpus, gpu_memory
from prime_lab_mcp.lab.models.readiness import readiness_points, readiness_words
from prime_lab_mcp.lab.models.registry import KnownModel, find_model, load_registry
from prime_lab_mcp.lab.prime.answers import PlatformModels, finite_number

if TYPE_CHECKING:
    from prime_lab_mcp.lab.lab import Lab

ASSUMED_SEQUENCE = 4096
"""Sequence length in tokens for which `lora_gpus` counts GPUs."""


@dataclass(frozen=True, slots=True)
class LiveLists:
    """The platform's lists of models. A list is None where it could not be read, and `problems` says why."""

    served: Mapping[str, Mapping[str, Any]] | None
    """Entries of Prime Inference by model id."""
    offered: PlatformModels | None
    problems: tuple[LabError, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Names on the trainable list, by folded published name."""

    @property
    def trainable(self) -> Mapping[str, tuple[str, ...]]:
        """GPU types by the name of each trainable model."""
        return self.offered.trainable if self.offered else {}

    def trained_as(self, name: str) -> str | None:
        """The platform's name of a trainable model, found by any name of the model."""
        return self.spellings.get(folded_name(name))

    def served_as(self, name: str) -> list[str]:
        """Ids under which Prime Inference serves a model."""
        return [id for id in self.served or () if folded_name(id) == folded_name(name)]


def folded_name(name: str) -> str:
    """One canonical spelling for all names of a model."""
    return load_registry().spelt(name).lower()


async def fetch_lists(lab: Lab, seconds: float | None = None) -> LiveLists:
    """Read both lists. Never raises; a list that cannot be read is None.

    `seconds` limits the time. The served models are then read only after the trainable ones, so that a call without an
    account, which fails at once, does not wait for the network.
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
    offered: PlatformModels | None = found.get("offered")
    served = {str(m["id"]): m for m in found["served"] if m.get("id")} if "served" in found else None
    spellings = {folded_name(name): name for name in offered.trainable} if offered else {}
    return LiveLists(served, offered, tuple(problems), spellings)


def listed_names(lists: LiveLists) -> list[str]:
    """Every model that is served or trainable now, each once, under its served name if it has one."""
    found = list(lists.served or ())
    seen = {folded_name(name) for name in found}
    return found + [name for name in lists.trainable if folded_name(name) not in seen]


def model_row(name: str, lists: LiveLists, evals: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """One model as a caller reads it. Unknown fields are left out."""
    model = find_model(name)
    trained = lists.trained_as(name)
    entry = next((lists.served[id] for id in lists.served_as(name)), {}) if lists.served else {}
    pricing, specs = (e if isinstance(e := entry.get(key), Mapping) else {} for key in ("pricing", "specs"))
    gpus = lists.trainable.get(trained, ()) if trained else ()
    row: dict[str, Any] = {
        "id": name,
        "train_as": trained if trained != name else None,
        "trainable": trained is not None if lists.offered else None,
        "readiness": readiness_words(
            readiness_points(find_model(trained) if trained else model, listed=listed_models(lists, trained))
        ),
        "train_gpus": list(gpus) or None,
        "lora_gpus": _lora_gpus(model, gpus),
        "input": finite_number(pricing.get("input_usd_per_mtok")),
        "output": finite_number(pricing.get("output_usd_per_mtok")),
        "served": entry.get("serving") or ("yes" if entry else None) if lists.served is not None else None,
        "context": specs.get("context_window") or model.context,
    }
    row |= _registered(model)
    known = {key: rows for key in {name.lower(), (trained or name).lower()} if (rows := evals.get(key))}
    row["your_evals"] = [entry for rows in known.values() for entry in rows][:3] or None
    return {key: value for key, value in row.items() if value is not None}


def listed_models(lists: LiveLists, trained: str | None) -> bool | None:
    return trained is not None if lists.offered else None


def _lora_gpus(model: KnownModel, types: tuple[str, ...]) -> dict[str, int] | None:
    """Training GPUs of each type that LoRA needs by the memory estimate, at ASSUMED_SEQUENCE tokens."""
    if model.parameters is None:
        return None
    sized = {gpu: size for gpu in types if (size := gpu_memory(gpu))}
    counted = {
        gpu: fewest_gpus(model.parameters, model.active, size, seq_len=ASSUMED_SEQUENCE, state="lora")
        for gpu, size in sized.items()
    }
    return {gpu: count for gpu, count in counted.items() if count} or None


def _registered(model: KnownModel) -> dict[str, Any]:
    """Facts of the registry, each remark with its date."""
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
        "baseline": next((f.summary for f in model.facts_about("baseline")), None),
        "notes": [f.summary for f in (*model.facts_about("note"), *model.facts_about("fault"))] or None,
    }
