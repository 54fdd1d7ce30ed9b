"""Reports that the platform does not offer a model for training or for inference.

Only this module makes that decision. The finding has the code `model-not-offered` in every tool, and the next call is
the search that lists the offered models.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.models.registry import find_model, load_registry

LIST_MODELS = Next("search_hub", "the models that the platform trains and serves, with prices", {"kind": "model"})
_NAMED = 4
DEFAULT_MODEL = "Qwen/Qwen3-4B-Instruct-2507"
"""The model of a new config if the request names none. Two LoRA recipes of prime-rl use it."""


def smallest_trainable(model: str, trainable: Collection[str]) -> str | None:
    """Return the smallest of the models that the platform trains, if it is smaller than `model`; else None."""
    sizes = {name: size for name in trainable if (size := find_model(name).parameters) is not None}
    own = find_model(model).parameters
    smallest = min(sizes, key=lambda name: (sizes[name], name), default=None)
    return smallest if smallest is not None and own is not None and sizes[smallest] < own else None


def or_smaller(model: str, trainable: Collection[str]) -> str:
    """A clause that names the smallest trainable model beside one that nobody asked for; empty without one."""
    smaller = smallest_trainable(model, trainable)
    return f"; {quote(smaller, 80)[1:-1]} is the smallest that can be trained" if smaller is not None else ""


def not_trained_message(model: str) -> str:
    return f"the platform does not train {quote(model, 100)}"


NOT_TRAINED_FIX = Fix(
    "Choose a model that ",
    NamedCall("search_hub", kind="model"),
    " lists as trainable, or train on GPUs of your own (",
    SameCall(target="self-managed"),
    ").",
)


def not_trained_finding(model: str, trainable: Collection[str]) -> Finding | None:
    """The blocker of a hosted run whose model the platform does not train; None if it does, or named no models."""
    if not trainable or model in trainable:
        return None
    message = f"{not_trained_message(model)}; {_instead('trains', model, trainable)}"
    return Finding("model-not-offered", "blocker", message, NOT_TRAINED_FIX, "model.name")


def not_served_finding(model: str, served: Collection[str]) -> Finding:
    """The blocker of an evaluation by the platform's inference, which does not serve the model."""
    message = f"the platform does not serve {quote(model, 100)}"
    if served:
        message += f"; {_instead('serves', model, served)}"
    fix = Fix(
        "Choose a model that ",
        NamedCall("search_hub", kind="model"),
        " lists as served, or evaluate at an endpoint that serves it.",
    )
    return Finding("model-not-offered", "blocker", message, fix)


def require_trained(model: str, trainable: Collection[str]) -> None:
    """Check that the platform trains a model. Raises BadInput."""
    finding = not_trained_finding(model, trainable)
    if finding is not None:
        raise not_offered_error(finding)


def not_offered_error(finding: Finding) -> BadInput:
    """Convert the finding to the error of a call that cannot be carried out."""
    return BadInput(finding.message, fix=finding.fix, code=finding.code, where=finding.where, next=(LIST_MODELS,))


def model_listing_calls(findings: Iterable[Finding]) -> tuple[Next, ...]:
    """The call that searches models, if the findings block a model that is not offered; else empty."""
    stopped = any(f.code == "model-not-offered" and f.severity == "blocker" for f in findings)
    return (LIST_MODELS,) if stopped else ()


def _instead(verb: str, model: str, names: Collection[str]) -> str:
    """A text with the offered models that the name may mean. If the same model is offered under another name, only this
    one."""
    spelt = load_registry().spelt
    same = [name for name in names if spelt(name).lower() == spelt(model).lower()]
    if same:
        return f"it {verb} {quote(same[0], 100)}"
    # A name of a text model never means a vision model, nor the other way round.
    alike = [name for name in sorted(names) if bool(find_model(name).vision) == bool(find_model(model).vision)]
    near = difflib.get_close_matches(model, alike, n=_NAMED, cutoff=0.0) or sorted(names)[:_NAMED]
    more = f" and {len(names) - len(near)} more" if len(names) > len(near) else ""
    return f"it {verb} {', '.join(quote(name, 100).strip(chr(34)) for name in near)}{more}"
