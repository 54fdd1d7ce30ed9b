"""Reads the platform's live lists of models and GPUs, joined with the registry, for `search_hub` and `lab://models`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Finding, Link, Next
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.looked_up import remember_model
from prime_lab_mcp.lab.models.memory import fewest_gpus, gpu_memory
from prime_lab_mcp.lab.models.offered import LIST_MODELS, nearest_offered
from prime_lab_mcp.lab.models.readiness import readiness_points, readiness_words
from prime_lab_mcp.lab.models.registry import KnownModel, find_model, load_registry
from prime_lab_mcp.lab.prime.answers import PlatformModels, finite_number
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.outcome import Outcome

ASSUMED_SEQUENCE = 4096
"""Sequence length in tokens for which `lora_gpus` counts GPUs."""


@dataclass(frozen=True, slots=True)
class LiveLists:
    """The platform's lists of models. A list that could not be read is None, and `problems` has the error."""

    served: Mapping[str, Mapping[str, Any]] | None
    """Entries of Prime Inference by model id."""
    offered: PlatformModels | None
    problems: tuple[LabError, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Names on the list of trainable models, by their canonical spelling (`folded_name`)."""

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


_FILLERS = frozenset(["a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with"])


def query_words(query: str) -> list[str]:
    """The words of a query in lower case, each once, without articles and prepositions."""
    words = dict.fromkeys(query.lower().replace(",", " ").split())
    return [word for word in words if word not in _FILLERS] or list(words)


def best_matches(texts: Mapping[str, str], query: str) -> list[str]:
    """The keys whose text contains words of the query, most words first. The order of `texts` breaks ties."""
    words = query_words(query)
    matched = {key: sum(word in text.lower() for word in words) for key, text in texts.items()}
    return sorted((key for key, number in matched.items() if number), key=lambda key: -matched[key])


def name_rank(name: str, query: str) -> int:
    """Return 0 for a name that is the query, with or without its owner, 1 for one that begins with it, else 2."""
    wanted, whole = (text.strip().lower().replace("_", "-") for text in (query, name))
    own = whole.rpartition("/")[2]
    if wanted in (whole, own):
        return 0
    return 1 if wanted and (own.startswith(wanted) or whole.startswith(wanted)) else 2


def folded_name(name: str) -> str:
    """Convert any name of a model to one canonical spelling, for comparisons."""
    return load_registry().spelt(name).lower()


async def fetch_lists(lab: Lab, seconds: float | None = None) -> LiveLists:
    """Read both lists concurrently. Never raises; a list that cannot be read is None.

    `seconds` limits the time. With a limit, the served models are read after the trainable ones. A call without an
    account fails at once on the first list, and then does not wait for the network.
    """
    lists: dict[str, Any] = {}
    problems: list[LabError] = []

    async def get(key: str, question: Callable[[], Awaitable[Any]]) -> None:
        try:
            lists[key] = await question()
        except LabError as error:
            problems.append(error)

    with anyio.move_on_after(seconds):
        if seconds is not None:
            await get("offered", lab.prime.models)
        async with anyio.create_task_group() as asking:
            if seconds is None:
                asking.start_soon(get, "offered", lab.prime.models)
            if seconds is None or "offered" in lists:
                asking.start_soon(get, "served", lab.prime.inference_models)
    offered: PlatformModels | None = lists.get("offered")
    served = {str(m["id"]): m for m in lists["served"] if m.get("id")} if "served" in lists else None
    spellings = {folded_name(name): name for name in offered.trainable} if offered else {}
    return LiveLists(served, offered, tuple(problems), spellings)


def listed_names(lists: LiveLists) -> list[str]:
    """The name of every model that is served or trainable now, each once, as Prime Inference names it if it is
    served."""
    names = list(lists.served or ())
    folded = {folded_name(name) for name in names}
    return names + [name for name in lists.trainable if folded_name(name) not in folded]


def model_row(name: str, lists: LiveLists, evals: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """One model as a row of a report, with prices in US dollars per million tokens. Unknown fields are left out."""
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
    own_evals = {key: rows for key in {name.lower(), (trained or name).lower()} if (rows := evals.get(key))}
    row["your_evals"] = [entry for rows in own_evals.values() for entry in rows][:3] or None
    return {key: value for key, value in row.items() if value is not None}


def listed_models(lists: LiveLists, trained: str | None) -> bool | None:
    """Whether the platform lists the model as trained; None if the platform gave no list."""
    return trained is not None if lists.offered else None


def _lora_gpus(model: KnownModel, types: tuple[str, ...]) -> dict[str, int] | None:
    """Training GPUs of each type that LoRA needs by the memory estimate, at ASSUMED_SEQUENCE tokens."""
    if model.parameters is None:
        return None
    sized = {gpu: size for gpu in types if (size := gpu_memory(gpu))}
    gpus = {
        gpu: fewest_gpus(model.parameters, model.active, size, seq_len=ASSUMED_SEQUENCE, state="lora")
        for gpu, size in sized.items()
    }
    return {gpu: count for gpu, count in gpus.items() if count} or None


def _registered(model: KnownModel) -> dict[str, Any]:
    """The registry's facts about a model; each remark has its date."""
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


def evaluations_by_model(history: Iterable[Evidence]) -> dict[str, list[dict[str, Any]]]:
    """Evaluations on this machine by model name in lower case, newest first, one for each environment."""
    by_model: dict[str, list[dict[str, Any]]] = {}
    pairs: set[tuple[str, str | None]] = set()
    for row in history:
        mean = row.data.get("mean_reward", row.data.get("mean"))
        if row.model is None or mean is None or (row.model.lower(), row.environment) in pairs:
            continue
        pairs.add((row.model.lower(), row.environment))
        entry = {"environment": row.environment, "mean_reward": mean, "status": row.status}
        by_model.setdefault(row.model.lower(), []).append(entry)
    return by_model


LISTED_MODELS = 25
_RECENT_JOBS = 20
"""Number of newest evaluations among which the environment that was evaluated last is looked for."""
_ROWS_WITH_FINDINGS = 3
"""Number of model rows that get findings. Other rows only have fields."""


async def search_models(lab: Lab, query: str) -> Outcome:
    """Find models by a part of their name in the platform's lists, with the evaluations on this machine."""
    lists = await fetch_lists(lab)
    if lists.offered is None and lists.served is None:
        raise lists.problems[0]
    evals = evaluations_by_model(
        row for tool in ("check_reward_distribution", "run_eval") for row in lab.ledger.evidence(lab.key, tool=tool)
    )
    folded = folded_name(query) if query else ""
    names = [n for n in listed_names(lists) if query.lower() in n.lower() or folded == folded_name(n)]
    if not names and len(query_words(query)) > 1:
        names = best_matches({name: name for name in listed_names(lists)}, query)
    rows = [model_row(name, lists, evals) for name in names]
    rows.sort(key=lambda row: (name_rank(str(row["id"]), query), not row.get("trainable")))
    findings = [_unread_list_finding(problem) for problem in lists.problems]
    following: tuple[Next, ...] = ()
    if not rows:
        model = find_model(query)
        if not (model.is_known or model.closed):
            nothing = nothing_found("model", query)
            return replace(nothing, next=(*nothing.next, *(_instead_of(lab, query, lists) if "/" in query else ())))
        rows = [model_row(query, lists, evals)]
        findings.append(_not_offered(query, lists))
        following = _instead_of(lab, query, lists)
    else:
        findings += [_missing(name, lists) for name in _unlisted(query, lists)[:_ROWS_WITH_FINDINGS]]
    findings += [_not_served(row) for row in rows[:_ROWS_WITH_FINDINGS] if _unserved(row, lists)]
    if query and rows[0].get("served") and (len(rows) == 1 or name_rank(str(rows[0]["id"]), query) == 0):
        remember_model(lab, str(rows[0]["id"]))
    return Outcome(
        "passed",
        _count_summary(rows, lists) + ("" if query else _ASK_FOR_NAMES),
        tuple(findings),
        {"models": rows[:LISTED_MODELS], "total": len(rows), "price_unit": "US dollars per million tokens"},
        next=following or _measure(lab, rows, query),
        links=(Link("lab://models", "Models: the registry and the live lists"),),
    )


def _count_summary(rows: list[dict[str, Any]], lists: LiveLists) -> str:
    trained = f"{sum(bool(r.get('trainable')) for r in rows)} of them trainable here"
    match = f"{count(len(rows), 'model')} {'matches' if len(rows) == 1 else 'match'}"
    return f"{match}, {trained if lists.offered else 'trainable or not could not be asked'}."


_ASK_FOR_NAMES = ' Where the user named models, query="NAME NAME" says which of them are not offered.'


def _names_asked_for(query: str) -> list[str]:
    """The words of a query of several words that name a model: those with a letter and a digit."""
    words = list(dict.fromkeys(query.replace(",", " ").split()))
    named = [word for word in words if any(map(str.isdigit, word)) and any(map(str.isalpha, word))]
    return named if len(words) > 1 else []


def _unlisted(query: str, lists: LiveLists) -> list[str]:
    """The models among the words of a query that the platform does not list; none where a list could not be read."""
    if lists.offered is None or lists.served is None:
        return []
    listed = [name.lower() for name in listed_names(lists)]
    spelt = {folded_name(name) for name in listed}
    asked = _names_asked_for(query)
    return [name for name in asked if folded_name(name) not in spelt and not any(name.lower() in one for one in listed)]


def _measure(lab: Lab, rows: list[dict[str, Any]], query: str) -> tuple[Next, ...]:
    """Evaluate the first trainable model, or each that the query names, on the environment of this workspace that was
    evaluated last."""
    ready = [r for r in rows if r.get("trainable") and r.get("served")]
    first = next(iter(ready), None)
    if first is None:
        return (LIST_MODELS,) if query else ()
    environment = _environment_here(lab)
    if environment is None:
        return (Next("search_hub", "an environment to measure one on", {"kind": "environment"}),)
    named = (next((r for r in ready if name.lower() in str(r["id"]).lower()), None) for name in _names_asked_for(query))
    models = list(dict.fromkeys(str(r["id"]) for r in named if r is not None))[:_ROWS_WITH_FINDINGS]
    why = "measure one on your environment before paying for training"
    why += "" if query else ", or the model that the user named in its place"
    return tuple(
        Next("run_eval", why, {"environment": environment, "model": model}) for model in models or [first["id"]]
    )


def _instead_of(lab: Lab, model: str, lists: LiveLists) -> tuple[Next, ...]:
    """The evaluations that can be made in place of a model that is not offered: of the nearest that is, and of the
    model itself where somebody serves it."""
    near = nearest_offered(model, lists.served or (), lists.trainable)
    environment = _environment_here(lab)
    if near is None or environment is None:
        return ()
    return (
        Next("run_eval", "the nearest that can be evaluated here", {"environment": environment, "model": near}),
        Next(
            "run_eval",
            "the model itself, if you serve it; endpoint also takes a URL",
            {"environment": environment, "model": model, "endpoint": "vllm"},
        ),
    )


def _environment_here(lab: Lab) -> str | None:
    """The environment of this workspace that was evaluated last, or else its first; None without one."""
    here = [folder.name for folder in lab.workspace.list_environments()]
    evaluated = [job.environment for job in lab.ledger.jobs(lab.key, limit=_RECENT_JOBS) if job.environment in here]
    return next(iter((*evaluated, *here)), None)


def _config_call(lab: Lab, free: list[str]) -> Next:
    """A config for the environment that this workspace published last, or else the search for one."""
    pushes = lab.ledger.pushes(workspace=lab.key, platform=lab.platform)
    push = next((push for push in pushes if push.api != "v0"), None)
    if push is None:
        return Next("search_hub", "an environment to train on", {"kind": "environment"})
    arguments: dict[str, Any] = {"environments": [f"{push.owner}/{push.name}@{push.version}"]}
    if not free:
        return Next("write_training_config", "a config that leaves the GPU type open", arguments)
    return Next("write_training_config", "a config for one that is free", arguments | {"gpu_type": free[0]})


def _unserved(row: dict[str, Any], lists: LiveLists) -> bool:
    return bool(row.get("trainable")) and lists.served is not None and "served" not in row


def _not_served(row: dict[str, Any]) -> Finding:
    return Finding(
        "model-not-served",
        "warning",
        f"the platform trains {quote(row['id'], 100)}, but its inference does not serve it: run_eval cannot measure it "
        "there",
        'Evaluate it through an endpoint of your own (run_eval with endpoint="vllm"), or a sibling that is served.',
    )


def _not_offered(query: str, lists: LiveLists) -> Finding:
    checked = [verb for verb, had in (("trains", lists.offered), ("serves", lists.served)) if had is not None]
    near = nearest_offered(query, lists.served or (), lists.trainable)
    instead = f"Take {near}, the nearest of them" if near is not None else "Choose one that an empty query lists"
    settled = ", so that it can be neither trained nor evaluated there" if len(checked) == 2 else ""
    neither = "neither trains nor serves" if len(checked) == 2 else f"no longer {checked[0]}"
    return Finding(
        "model-not-offered",
        "warning",
        f"the platform {neither} {quote(query, 100)} now{settled}; what is shown is the registry's, with its dates",
        f"{instead}, or train and evaluate it on GPUs of your own.",
    )


def _missing(name: str, lists: LiveLists) -> Finding:
    near = nearest_offered(name, lists.served or (), lists.trainable)
    instead = f"Take {near}, the nearest of them, or" if near is not None else "Go on with the others, or"
    return Finding(
        "model-not-offered",
        "warning",
        f"the platform neither trains nor serves {quote(name, 100)} now; what is listed are the other matches",
        f"{instead} train and evaluate it on GPUs of your own. Tell the user that it is missing.",
    )


def _unread_list_finding(problem: LabError) -> Finding:
    """A finding for a list that could not be read; the other list is still shown."""
    return replace(problem.as_finding(), severity="warning")


async def search_gpus(lab: Lab, query: str) -> Outcome:
    """Find GPU types by a part of their name, with prices and availability."""
    offered = await lab.prime.models()
    rows = [
        _gpu(o.gpu_type, o.price_per_gpu_hour, available_now=o.available_now, beta=o.beta, models=offered)
        for o in offered.offers
        if query.lower() in o.gpu_type.lower()
    ]
    reserved = _reserved(offered, query, {str(r["gpu_type"]) for r in rows})
    if not rows and not reserved:
        return nothing_found("GPU type", query)
    priced = [r["price_per_gpu_hour"] for r in rows if isinstance(r["price_per_gpu_hour"], float)]
    cheapest = f", from ${min(priced):.2f} per GPU-hour" if priced else ""
    free = [str(r["gpu_type"]) for r in rows if r["available_now"]]
    now = (
        f"; available now: {', '.join(free[:6])}"
        if free
        else "; none of them is said to be available now"
        if rows
        else ""
    )
    return Outcome(
        "passed",
        f"{count(len(rows) + len(reserved), 'GPU type')} can be trained on by hosted runs{cheapest}{now}.",
        data={"gpus": rows + reserved, "price_unit": "US dollars per GPU-hour", "memory_unit": "GiB per GPU"},
        next=(_config_call(lab, free),),
    )


def _gpu(
    type: str, price: float | None, *, available_now: bool | None, beta: bool = False, models: PlatformModels
) -> dict[str, Any]:
    return {
        "gpu_type": type,
        "price_per_gpu_hour": price,
        "available_now": available_now,
        "memory": gpu_memory(type),
        "beta": beta,
        "clusters_train": sorted(name for name, gpus in models.trainable.items() if type in gpus)[:8],
    }


def _reserved(models: PlatformModels, query: str, listed: set[str]) -> list[dict[str, Any]]:
    """GPU types of clusters that cannot be rented by the hour. Their price is unknown."""
    types = sorted({g for gpus in models.trainable.values() for g in gpus} - listed)
    return [_gpu(g, None, available_now=None, models=models) for g in types if query.lower() in g.lower()]


def nothing_found(subject: str, query: str) -> Outcome:
    """The failed outcome of a search without a match."""
    finding = Finding(
        "nothing-found",
        "blocker",
        f"no {subject} matches {quote(query, 120)}",
        "Use other or fewer words; an empty query lists everything.",
    )
    kinds = {"environment": "environment", "model": "model", "GPU type": "gpu"}
    everything = Next("search_hub", "lists everything", {"kind": kinds[subject]})
    return Outcome("failed", f"No {subject} matches.", (finding,), next=(everything,))
