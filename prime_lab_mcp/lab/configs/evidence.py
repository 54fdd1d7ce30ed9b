"""Reads the evidence about the environments of a config from the ledger: evaluations, checks and config schemas.

Rules and plans of configs get the evidence as a ConfigContext.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import as_mapping, finite_or_none
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig, taskset_identity
from prime_lab_mcp.lab.configs.context import ConfigContext, EnvironmentSchemas, SourceMeasurement
from prime_lab_mcp.lab.environment.credentials import variables_of
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.offered import or_smaller
from prime_lab_mcp.lab.models.registry import find_model
from prime_lab_mcp.lab.prime.answers import PlatformModels
from prime_lab_mcp.lab.state.arguments import canonical_arguments, same_arguments, without_null_text
from prime_lab_mcp.lab.state.config_gate import plugin_module
from prime_lab_mcp.lab.state.evaluation_evidence import is_checkpoint, is_unvouched
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push
from prime_lab_mcp.lab.state.proven_arguments import held_out_argument
from prime_lab_mcp.lab.state.pulled import pulled_as, pulled_source, schema_of_pull
from prime_lab_mcp.lab.worker.description import SAMPLED_TASKS

_CONTAINERS = ("podman", "docker")
"""Runtimes of local evaluations of environments whose tasks need a container. The platform has runtimes of its own."""
_EVALS = ("check_reward_distribution", "run_eval")
_COMPARED = re.compile(r"(\w+)=(.+): ([\d,]+) tasks compared$")
_TURNS = ("max_turns", "num_turns", "turns")


def gather_context(lab: Lab, sources: Iterable[ConfigSource], model: str | None, price: float | None) -> ConfigContext:
    """Return the context for the sources of a config that the Hub holds, with a model.

    `price` is in US dollars per GPU-hour.
    """
    proofs: dict[str, tuple[str, str, str] | None] = {}
    published = [source for source in sources if source.owner]
    for owner, name, version in dict.fromkeys((str(s.owner), s.env_name, s.version) for s in published):
        push = lab.newest_push(owner, name, version)
        id = f"{owner}/{name}@{version}" if version else f"{owner}/{name}"
        proofs[id] = (push.workspace, push.environment, push.source) if push else hub_proof(lab, owner, name, version)
    return gather_context_of_sources(
        lab, proofs, model, price, arguments=arguments_by_id(published), harnesses=_harnesses_by_id(published)
    )


def arguments_by_id(sources: Iterable[ConfigSource]) -> dict[str, Mapping[str, Any]]:
    """Return the arguments of each training source by its id. An id with several sets of arguments is absent."""
    given: dict[str, list[Mapping[str, Any]]] = {}
    for source in sources:
        if source.kind == "train":
            given.setdefault(source.id, []).append(without_null_text(source.args))
    return {id: sets[0] for id, sets in given.items() if all(same_arguments(one, sets[0]) for one in sets)}


def _harnesses_by_id(sources: Iterable[ConfigSource]) -> dict[str, str]:
    """Return the harness that each training source names for its single agent, by its id; empty where it names none.

    An id whose sources name several is absent.
    """
    given: dict[str, set[str]] = {}
    for source in sources:
        if source.kind == "train":
            given.setdefault(source.id, set()).add(source.harness or "")
    return {id: next(iter(named)) for id, named in given.items() if len(named) == 1}


def gather_context_of_sources(
    lab: Lab,
    proofs: Mapping[str, tuple[str, str, str] | None],
    model: str | None,
    price: float | None,
    models: PlatformModels | None = None,
    arguments: Mapping[str, Mapping[str, Any]] | None = None,
    harnesses: Mapping[str, str] | None = None,
) -> ConfigContext:
    """Return the context for the sources of a config.

    `proofs` maps each taskset id to the workspace, environment and source fingerprint of its evidence, or to None
    without evidence. `price` is in US dollars per GPU-hour. `arguments` maps ids to the arguments with which they are
    trained; an evaluation counts only if it was made with the same, and with any for an id that is absent. `harnesses`
    maps ids to the harness that plays in training, likewise.
    """
    own_sources = {
        id.partition("@")[0]
        for id in proofs
        if "/" in id and lab.ledger.pushes(owner=id.partition("/")[0], name=id.partition("/")[2].partition("@")[0])
    }
    each = {
        id: _measurement(evidence_of_proof(lab, proof), model, (arguments or {}).get(id), (harnesses or {}).get(id))
        for id, proof in proofs.items()
        if proof is not None
    }
    each = {id: _with_facts_of_pull(lab, id, measured) for id, measured in each.items()}
    measurements = list(each.values())
    complete = bool(measurements) and len(measurements) == len(proofs)
    hardest = min(
        (f for f in measurements if f.usable is not None), key=lambda f: f.usable or 0.0, default=SourceMeasurement()
    )
    return ConfigContext(
        tasks=sum(f.tasks or 0 for f in measurements) if complete and all(f.tasks for f in measurements) else None,
        infinite=any(f.infinite for f in measurements),
        duplicate_tasks=any(f.duplicates for f in measurements),
        prompt_tokens=_most(f.prompt_tokens for f in measurements),
        completion_tokens=_most(f.completion_tokens for f in measurements),
        longest=_most(f.longest for f in measurements),
        truncated=max((f.truncated for f in measurements if f.truncated is not None), default=None),
        stand_in=any(f.stand_in for f in measurements),
        temperature=next((f.temperature for f in measurements if f.temperature is not None), None),
        usable=hardest.usable,
        usable_group=hardest.usable_group,
        mean=hardest.mean,
        learnability=min((f.learnability for f in measurements if f.learnability is not None), default=None),
        price_per_gpu_hour=price,
        own_environments=frozenset(own_sources),
        each=each,
        folders=_folders(lab, proofs),
        models=models,
    )


def _with_facts_of_pull(lab: Lab, id: str, measured: SourceMeasurement) -> SourceMeasurement:
    """Return the measurements of a hosted evaluation with what the check of the pulled files says about the tasks.

    The platform's evaluation counts the tasks that it sampled, not those that there are.
    """
    owner, name, version = taskset_identity(id)
    pulled = pulled_source(lab.ledger, lab.key, owner, name, version) if owner and not measured.tasks else None
    if pulled is None:
        return replace(measured, sampled=None)
    check = _measurement(
        [r for r in evidence_of_source(lab, lab.key, pulled[1]) if r.tool == "check_environment"], None
    )
    return replace(
        measured,
        tasks=check.tasks,
        infinite=check.infinite,
        duplicates=check.duplicates,
        held_out=measured.held_out or check.held_out,
        held_out_tasks=measured.held_out_tasks or check.held_out_tasks,
        secrets=measured.secrets or check.secrets,
        turns=measured.turns or check.turns,
        easiest=measured.easiest or check.easiest,
    )


def _folders(lab: Lab, proofs: Mapping[str, tuple[str, str, str] | None]) -> dict[str, str]:
    """The folders of this workspace with the files of each source, by the id of the source."""
    here = {id: proof[1] for id, proof in proofs.items() if proof is not None and proof[0] == lab.key}
    for id in proofs:
        owner, name, version = taskset_identity(id)
        pulled = pulled_as(lab.ledger, lab.key, owner, name, version) if owner else None
        if pulled is not None and "/" in here.get(id, "/"):
            here[id] = pulled
    root = lab.workspace.root / "environments"
    return {id: name for id, name in here.items() if "/" not in name and (root / name).is_dir()}


def hub_proof(lab: Lab, owner: str, name: str, version: str | None) -> tuple[str, str, str] | None:
    """Return the workspace, environment and source fingerprint of the evidence about an environment of others.

    This is for environments that have no push from this machine. Files that were pulled into this workspace are those
    on the Hub, so their evaluations count; else the newest hosted evaluation does. None if this workspace has neither
    pulled nor evaluated the version. Without a version, any version counts.
    """
    pulled = pulled_source(lab.ledger, lab.key, owner, name, version)
    here = (lab.key, *pulled) if pulled is not None else None
    if here is not None and any(row.tool in _EVALS for row in evidence_of_proof(lab, here)):
        return here
    ref = f"{owner}/{name}"
    for job in lab.ledger.jobs(lab.key, environment=ref):
        evaluated = str(job.spec.get("hosted") or "")
        if evaluated == f"{ref}@{version}" or (version is None and evaluated.startswith(f"{ref}@")):
            return lab.key, ref, job.source
    return here


def evidence_of_push(lab: Lab, push: Push) -> list[Evidence]:
    """Return the evidence about exactly the files of a push, on the present platform, newest first."""
    return evidence_of_source(lab, push.workspace, push.source)


def evidence_of_source(lab: Lab, workspace: str, source: str) -> list[Evidence]:
    """Return the evidence about the files with this source fingerprint, on the present platform, newest first.

    The folder does not count, as it does not for the gates: a copy under another name has the same files.
    """
    rows = lab.ledger.evidence(workspace, source=source)
    return [r for r in rows if r.platform in (None, lab.platform)]


def evidence_of_proof(lab: Lab, proof: tuple[str, str, str]) -> list[Evidence]:
    """Return the evidence of a proof: its workspace, environment and source fingerprint, of which the name decides
    nothing."""
    workspace, _, source = proof
    return evidence_of_source(lab, workspace, source)


def evidence_of_files(lab: Lab, source: ConfigSource) -> list[Evidence]:
    """Return the evidence about exactly the files that a source on the Hub names, newest first: those of its push, or
    those that were pulled into this workspace."""
    push = lab.newest_push(str(source.owner), source.env_name, source.version)
    if push is not None:
        return evidence_of_push(lab, push)
    pulled = pulled_source(lab.ledger, lab.key, str(source.owner), source.env_name, source.version)
    return evidence_of_source(lab, lab.key, pulled[1]) if pulled is not None else []


def evaluated_model(
    lab: Lab, proofs: Iterable[tuple[str, str, str] | None], trainable: Collection[str]
) -> tuple[str, str] | None:
    """Return the model of a config that names none, and why: of the models whose latest evaluation of these files
    passed, the one with the largest share of usable groups; of equal shares, the last one. None without one.

    The view `compare` chooses by the same rule (lab/evals/views/chosen_model.py). Checkpoints of runs are results of
    training, and a model that is not trained cannot be chosen. An empty `trainable` means that the models of the
    platform are unknown.
    """
    runs = lab.ledger.training_names()
    rows = [
        row
        for proof in proofs
        if proof is not None
        for row in evidence_of_proof(lab, proof)
        if row.tool == "check_reward_distribution" and row.model
        if not (is_checkpoint(row, runs) or held_out_argument(row.env_args))
        if row.model in trainable or (not trainable and find_model(row.model).closed is None)
    ]
    rest = {str(row.model) for row in rows}
    rows = [row for row in rows if row.status == "passed"]
    usable = {str(row.model): _evaluation_fields(row)["usable"] or 0.0 for row in sorted(rows, key=lambda row: row.at)}
    if not usable:
        return None
    rest -= usable.keys()
    newest_first = list(dict.fromkeys(str(row.model) for row in sorted(rows, key=lambda row: -row.at)))
    best, *others = sorted(newest_first, key=lambda model: -usable[model])
    if not others:
        if rest:
            return best, f"the evaluation of it passed, and that of {' and of '.join(sorted(rest)[:3])} did not"
        why = "the evaluation of it passed, and no other model was asked for"
        return best, why + or_smaller(best, trainable)
    beside = " and ".join(f"{model} ({usable[model]:.0%})" for model in others[:3])
    why = f"most usable groups ({usable[best]:.0%}) of the models whose evaluations passed; the others: {beside}"
    return best, why


def _measurement(
    rows: list[Evidence],
    model: str | None,
    arguments: Mapping[str, Any] | None = None,
    harness: str | None = None,
) -> SourceMeasurement:
    """Return the measurements in the evidence about one environment.

    They come from its newest check, and from the newest evaluations of this model with these arguments by this harness.
    None means any of these; an empty harness is the default that the check recorded. As at the gates, one at an
    endpoint that a call alone named does not take the place of another, nor does one that decided nothing.
    """
    fields: dict[str, Any] = {}
    check = next((r for r in rows if r.tool == "check_environment"), None)
    if check is not None:
        fields["tasks"] = _positive_int(check.data.get("tasks"))
        fields["infinite"] = bool(check.data.get("infinite"))
        fields["duplicates"] = any(f.get("code") == "duplicate-prompt" for f in check.findings)
        fields["container"] = bool(check.data.get("container"))
        fields["secrets"] = variables_of(check.findings)
        fields["held_out"] = _held_out(check.data.get("held_out"))
        fields["held_out_tasks"] = _held_out_tasks(check.data.get("held_out"))
        fields["easiest"] = as_mapping(check.data.get("easiest")) or None
        fields["turns"] = _turns(check.data.get("args"))
        fields["stated"] = _stated_defaults(check.data.get("args"))
    harness = _default_harness(check) if harness == "" else harness
    rows = [r for r in rows if r.tool not in _EVALS or _is_played_by(r, harness)]
    fields["plays"] = tuple(_plays(rows, model))
    if arguments is not None:
        stated = check.data.get("args") if check is not None else None
        trained = canonical_arguments(arguments, _stated_defaults(stated))
        tested = [r for r in rows if r.tool == "test_reward" and same_arguments(r.env_args, trained)]
        if trained:  # the check counts the tasks of the defaults
            fields["tasks"] = next((n for r in tested if (n := _positive_int(r.data.get("tasks")))), None)
        other = [r for r in rows if not same_arguments(r.env_args, trained)]
        rows = [r for r in rows if same_arguments(r.env_args, trained)]
        passed = (r for r in other if r.tool in _EVALS and r.status == "passed" and not held_out_argument(r.env_args))
        fields["evaluated_with"] = next((dict(r.env_args) for r in passed), None)
    evaluations = [row for row in rows if row.tool in _EVALS and (model is None or row.model == model)]
    strongest = min(map(_weakness, evaluations), default=(False, False))
    for row in evaluations:
        if _weakness(row) == strongest:
            for key, value in _evaluation_fields(row).items():
                if value is not None:
                    fields.setdefault(key, value)
    return SourceMeasurement(**fields, unvouched=strongest[0])


def _is_played_by(row: Evidence, harness: str | None) -> bool:
    """Whether an evaluation was made by a harness. The platform reports none for its own evaluations."""
    if harness is None or row.harness is None:
        return True
    return plugin_module(row.harness.partition(" (")[0]) == plugin_module(harness)


def _default_harness(check: Evidence | None) -> str | None:
    """Return the harness of the single agent as a check recorded it; None for several agents."""
    roles = check.data.get("roles") if check is not None else None
    listed = [role for role in roles if isinstance(role, Mapping)] if isinstance(roles, list) else []
    harness = listed[0].get("harness") if len(listed) == 1 and listed[0].get("name") == "agent" else None
    return harness if isinstance(harness, str) else None


def _weakness(row: Evidence) -> tuple[bool, bool]:
    """Whether nobody vouches for the endpoint of an evaluation, and whether it decided nothing. Smaller is stronger."""
    return is_unvouched(row), row.status == "inconclusive"


def _plays(rows: Iterable[Evidence], model: str | None) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield the arguments of each evaluation of this model with the most traces of one of its episodes.

    An endpoint that a call alone named may answer so that episodes end early, so its evaluations do not count.
    """
    for row in rows:
        inner = row.data.get("distribution")
        traces = (inner if isinstance(inner, Mapping) else row.data).get("traces_per_episode")
        of_model = row.tool in _EVALS and (model is None or row.model == model) and not is_unvouched(row)
        if of_model and (most := _positive_int(traces)) is not None:
            yield row.env_args, most


def _evaluation_fields(row: Evidence) -> dict[str, Any]:
    inner = row.data.get("distribution")
    data = {**row.data, **(inner if isinstance(inner, Mapping) else {})}
    groups = data.get("usable_groups")
    pools = data.get("difficulty")
    counts = {name: _positive_int(n) or 0 for name, n in pools.items()} if isinstance(pools, Mapping) else {}
    id = row.data.get("id") or row.data.get("eval")
    return {
        "evaluation": id if isinstance(id, str) else None,
        "sampled": _positive_int(data.get("tasks")),
        "usable": finite_or_none(groups.get("share")) if isinstance(groups, Mapping) else None,
        "usable_group": _positive_int(groups.get("group_size")) if isinstance(groups, Mapping) else None,
        "mean": finite_or_none(data.get("mean")),
        "solved": counts.get("easy", 0) + counts.get("always", 0) if counts else None,
        "unsolved": counts.get("hard", 0) + counts.get("never", 0) if counts else None,
        "never_or_always": counts.get("never", 0) + counts.get("always", 0) if counts else None,
        "completion_tokens": _percentile(data.get("completion_tokens"), "p95"),
        "longest": _percentile(data.get("completion_tokens"), "p99"),
        "prompt_tokens": _percentile(data.get("prompt_tokens"), "p99"),
        # What another limit than that of the evaluation cut off says nothing about the length that the model needs.
        "truncated": 0.0 if data.get("cut_early") else finite_or_none(data.get("truncation_rate")),
        # The platform answers the endpoint `prime`, and in a rehearsal a stand-in does.
        "stand_in": row.platform == "rehearsal",
        "learnability": finite_or_none(data.get("learnability")),
        "temperature": finite_or_none(row.sampling.get("temperature")),
        "failed": finite_or_none(data.get("error_rate")),
        "harness_in_container": row.harness if row.runtime in _CONTAINERS and ":" not in (row.harness or "") else None,
    }


def _held_out(comparison: Any) -> dict[str, str] | None:
    """Return the taskset key in a recorded comparison such as `split=eval: 35 tasks compared`.

    None if the split did not load, and for v0, whose comparison names no key.
    """
    match = _COMPARED.match(comparison) if isinstance(comparison, str) else None
    return {match[1]: match[2]} if match else None


def _held_out_tasks(comparison: Any) -> int | None:
    """Return the number of held-out tasks in such a recorded comparison; None if only a sample was compared."""
    match = _COMPARED.match(comparison) if isinstance(comparison, str) else None
    tasks = int(match[3].replace(",", "")) if match else 0
    return tasks if 0 < tasks < SAMPLED_TASKS else None


def _stated_defaults(args: Any) -> dict[str, Any]:
    """Return the defaults that a check recorded, by the name of the argument."""
    stated = [a for a in args if isinstance(a, Mapping)] if isinstance(args, list) else []
    return {str(a["name"]): a["default"] for a in stated if "name" in a and "default" in a}


def _turns(args: Any) -> int | None:
    """Return the default of the environment argument that limits the turns of a rollout, or None."""
    defaults = (
        {a.get("name"): a.get("default") for a in args if isinstance(a, Mapping)} if isinstance(args, list) else {}
    )
    return next((turns for name in _TURNS if (turns := _positive_int(defaults.get(name))) is not None), None)


def _most(numbers: Iterable[int | None]) -> int | None:
    return max((n for n in numbers if n), default=None)


def _percentile(value: Any, name: str) -> int | None:
    return _positive_int(value.get(name)) if isinstance(value, Mapping) else None


def _positive_int(value: Any) -> int | None:
    number = finite_or_none(value)
    return int(number) if number is not None and number >= 1 else None


def known_schemas(
    lab: Lab, config: TrainingConfig, proofs: Mapping[str, tuple[str, str, str] | None] | None = None
) -> dict[str, EnvironmentSchemas]:
    """Return the config schemas of the environments of a config by source id, as their newest checks recorded them.

    An environment that was neither checked nor pulled on this machine, or only by an older version of the server, is
    absent.
    `proofs` maps a source id to the workspace, environment and source fingerprint of present files. Schemas that were
    recorded for these files are exact.
    """
    schemas = {}
    for source in config.sources:
        proof = (proofs or {}).get(source.id)
        row, exact = _check(lab, source)
        if proof is not None and not exact:
            rows = evidence_of_proof(lab, proof)
            check = next((r for r in rows if r.tool == "check_environment" and "shapes" in r.data), None)
            row, exact = (check, True) if check is not None else (row, False)
        recorded = row.data.get("shapes") if row is not None else None
        if isinstance(recorded, Mapping):
            schemas[source.id] = _shapes(recorded, exact)
        elif source.owner is not None and lab.newest_push(source.owner, source.env_name, source.version) is None:
            taskset = schema_of_pull(lab.ledger, lab.key, source.owner, source.env_name, source.version)
            if taskset is not None:
                schemas[source.id] = EnvironmentSchemas(taskset=taskset, loaded=False)
    return schemas


async def present_proofs(lab: Lab, config: TrainingConfig) -> dict[str, tuple[str, str, str]]:
    """Return the workspace, environment and source fingerprint of the present files, by source id.

    Only sources that name a folder of this workspace are included.
    """
    proofs = {}
    for source in config.sources:
        if source.owner is not None or not source.env_name or source.id in proofs:
            continue
        for name in (source.env_name, source.env_name.replace("-", "_")):
            try:
                folder = lab.workspace.environment(name)
                proofs[source.id] = (lab.key, folder.name, (await lab.snapshot(folder.relative)).source)
                break
            except LabError:
                continue
    return proofs


def _check(lab: Lab, source: ConfigSource) -> tuple[Evidence | None, bool]:
    """Return the newest check of the environment that a source names, and whether its files are exactly known.

    The files are those of the push or the pull if the source has an owner, and else of a folder with the name of the
    source.
    """
    if source.owner is not None:
        rows = evidence_of_files(lab, source)
        return next((r for r in rows if r.tool == "check_environment" and "shapes" in r.data), None), True
    names = {source.env_name, source.env_name.replace("-", "_"), source.env_name.replace("_", "-")}
    rows = lab.ledger.evidence(lab.key, tool="check_environment")
    return next((r for r in rows if r.environment in names and "shapes" in r.data), None), False


def _shapes(recorded: Mapping[str, Any], exact: bool) -> EnvironmentSchemas:
    taskset, env, tools, episode = (recorded.get(key) for key in ("taskset", "env", "tools", "episode"))
    return EnvironmentSchemas(
        taskset=taskset if isinstance(taskset, Mapping) else {},
        env=env if isinstance(env, Mapping) else {},
        tools=tools if isinstance(tools, bool) else None,
        exact=exact,
        episode=episode if isinstance(episode, Mapping) else None,
    )
