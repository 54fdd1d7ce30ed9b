"""Reports that the platform does not offer a model for training or for inference.

Only this module makes that decision. The finding has the code `model-not-offered` in every tool. The next call is the
present one with the nearest model that is offered, where the call names the model; else the search that lists models.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from dataclasses import replace

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall, calls_named_in
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


def not_served_finding(
    model: str, served: Collection[str], trainable: Collection[str] = (), *, hosted: bool = False
) -> Finding:
    """The blocker of an evaluation by the platform's inference, which does not serve the model.

    `served` and `trainable` are the platform's lists, empty where unknown. A `hosted` evaluation takes no endpoint.
    """
    spelt = {load_registry().spelt(name).lower() for name in trainable}
    neither = bool(trainable) and load_registry().spelt(model).lower() not in spelt
    message = f"the platform does not serve {quote(model, 100)}"
    if neither:
        message = f"the platform neither serves nor trains {quote(model, 100)}: it can be neither evaluated nor trained"
    if served:
        message += f"; {_instead('serves', model, served)}"
    near = nearest_offered(model, served, trainable)
    if near is None:
        fix = Fix("Choose a model that ", NamedCall("search_hub", kind="model"), " lists as served")
    else:
        trained = ", which it trains too" if near in trainable else ""
        fix = Fix("Take the nearest that it serves", trained, ": ", SameCall(model=near))
    if not hosted:
        fix += Fix(", or name an endpoint that serves it, such as ", SameCall(endpoint="vllm"))
    return Finding("model-not-offered", "blocker", message, fix + ".")


_ALIKE = 0.6
"""Least similarity (difflib) of a name that may be misspelled, which is the default of `difflib.get_close_matches`."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)[bB]\b")


def nearest_offered(model: str, served: Collection[str], trainable: Collection[str] = ()) -> str | None:
    """Return the served model that is nearest to a model: the same under another name, or of its series and size.

    Models that can be trained come first, because one that is only served is no candidate. A text model is never near a
    vision model. None if nothing is served, or if the name is like none of the names and says no size.
    """
    spelt, own = load_registry().spelt, find_model(model)
    alike = [n for n in sorted(served) if n != model and bool(find_model(n).vision) == bool(own.vision)]
    same = [n for n in alike if spelt(n).lower() == spelt(model).lower()]
    both = [n for n in alike if n in trainable]
    names = same or both or alike
    relatives = [n for n in names if _series(n) == _series(model)]
    series = relatives or names
    size = _parameters(model)
    sized = {n: abs(own_size - size) for n in series if size is not None and (own_size := _parameters(n)) is not None}
    if sized:
        return min(sized, key=lambda n: (sized[n], n))
    known = same or relatives or own.parameters is not None
    return next(iter(difflib.get_close_matches(model, series, n=1, cutoff=0.0 if known else _ALIKE)), None)


def _series(name: str) -> str:
    """Return a name up to the size in it, such as `qwen/qwen3-`."""
    return _SIZE.split(name)[0].lower()


def _parameters(name: str) -> float | None:
    """Return the billions of parameters of a model, from the registry or from its name."""
    known, stated = find_model(name).parameters, _SIZE.search(name)
    return known if known is not None else float(stated[1]) if stated is not None else None


def require_trained(model: str, trainable: Collection[str]) -> None:
    """Check that the platform trains a model. Raises BadInput, whose fix names the nearest that it trains."""
    finding = not_trained_finding(model, trainable)
    near = nearest_offered(model, trainable, trainable) if finding is not None else None
    if finding is not None and near is not None:
        fix = Fix("Take the nearest that it trains: ", SameCall(model=near), ", or train on GPUs of your own (")
        finding = replace(finding, fix=fix + Fix(SameCall(target="self-managed"), ")."))
    if finding is not None:
        raise not_offered_error(finding)


def not_offered_error(finding: Finding) -> BadInput:
    """Convert the finding to the error of a call that cannot be carried out. A fix that names no model leads to the
    list of models."""
    named = any(isinstance(one, SameCall) and "model" in one.changes for one in calls_named_in(finding.fix))
    listed = () if named else (LIST_MODELS,)
    return BadInput(finding.message, fix=finding.fix, code=finding.code, where=finding.where, next=listed)


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
