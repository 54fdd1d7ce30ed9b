"""What a results file itself says made it, and where that is not what an evaluation was asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from prime_lab_mcp.lab.evals.program import IN_PROCESS_ID
from prime_lab_mcp.lab.evals.results.reading import Layout, first_record, layout, locate
from prime_lab_mcp.lab.evals.results.values import mapping, name, number
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.text import quote

_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "max_tokens", "reasoning_effort", "seed")
_LARGEST_METADATA = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Origin:
    """Everything that is None or empty is not told by the file. All text is foreign."""

    layout: Layout
    generation: Literal["v0", "v1"] | None
    """Of verifiers; None for samples of the platform, which do not tell."""
    environment: str | None = None
    model: str | None = None
    harness: str | None = None
    runtime: str | None = None
    sampling: Mapping[str, Any] | None = None
    """What was sent to the endpoint; a key that is missing was left to the server."""
    verifiers: str | None = None
    env_args: Mapping[str, Any] | None = None


def origin(path: Path) -> Origin:
    """What made the results at `path`, from its first record and the metadata.json beside it. Raises EvalError."""
    found = locate(path)
    record = first_record(found)
    if record is None:
        return Origin("document", None)
    written_by = layout(record)
    if written_by == "v1":
        return _of_episode(record)
    metadata = _metadata(found)
    return _of_metadata(metadata, written_by) if metadata else _of_sample(record, written_by)


def differences(made_by: Origin, spec: EvalSpec) -> list[str]:
    """Where what made the results is not what `spec` asks for, one line each. What the file does not tell is left out.

    Only what decides the rewards is compared: not where it ran or how fast.
    """
    found = []
    if made_by.environment is not None and not _same_environment(made_by.environment, spec):
        found.append(_differs("environment", made_by.environment, spec.hosted or spec.module))
    if made_by.model is not None and made_by.model != spec.model:
        found.append(_differs("model", made_by.model, spec.model))
    if made_by.generation is not None and made_by.generation != spec.api:
        found.append(_differs("generation", made_by.generation, spec.api))
    if made_by.verifiers is not None and spec.hosted is None and made_by.verifiers != spec.verifiers:
        found.append(_differs("verifiers", made_by.verifiers, spec.verifiers))
    if made_by.harness is not None and spec.api == "v1" and spec.hosted is None:
        wanted = IN_PROCESS_ID if spec.in_process else spec.harness
        if made_by.harness != wanted:
            found.append(_differs("harness", made_by.harness, wanted))
        if made_by.runtime is not None and made_by.runtime != spec.runtime:
            found.append(_differs("runtime", made_by.runtime, spec.runtime))
    if made_by.env_args is not None and made_by.env_args != dict(spec.env_args):
        found.append(_differs("env_args", json.dumps(made_by.env_args), json.dumps(dict(spec.env_args))))
    return [*found, *_sampling_differences(made_by, spec)]


def _sampling_differences(made_by: Origin, spec: EvalSpec) -> list[str]:
    if made_by.sampling is None:
        return []
    wanted = {"top_p": 1.0} | spec.sampling
    found = []
    for key in ("temperature", "max_tokens", "top_p"):
        given, asked = made_by.sampling.get(key), wanted.get(key)
        if given != asked and not (given is None and key == "top_p"):
            found.append(_differs(key, given, asked))
    return found


def _differs(what: str, given: object, wanted: object) -> str:
    return f"{what} is {_shown(given)}, not {_shown(wanted)}"


def _shown(value: object) -> str:
    return "unset" if value is None else f"{value:g}" if isinstance(value, int | float) else quote(str(value), 100)


def _same_environment(told: str, spec: EvalSpec) -> bool:
    known = {_plain(n) for n in (spec.module, spec.environment, spec.hosted) if n}
    return _plain(told) in known


def _plain(environment: str) -> str:
    """`owner/name@version` and `name_v1` in one form, without owner and version."""
    return environment.rpartition("/")[2].partition("@")[0].replace("-", "_").lower()


def _of_episode(episode: Mapping[str, Any]) -> Origin:
    traces = [t for t in episode.get("traces", [episode]) if isinstance(t, dict)]
    trained = [t for t in traces if mapping(t.get("agent")).get("trainable", True)] or traces
    trace: Mapping[str, Any] = trained[0] if trained else {}
    config = mapping(mapping(trace.get("agent")).get("config"))
    return Origin(
        "v1",
        "v1",
        environment=_text(mapping(episode.get("env")).get("id")),
        model=_text(config.get("model")),
        harness=_text(mapping(config.get("harness")).get("id")),
        runtime=_text(mapping(config.get("runtime")).get("type")),
        sampling=_sampling(config.get("sampling")),
        verifiers=_text(mapping(trace.get("verifiers")).get("version")),
    )


def _metadata(found: Path) -> Mapping[str, Any]:
    """metadata.json as v0 `vf-eval` writes it, or as the platform gives an evaluation."""
    beside = found.parent / "metadata.json"
    with suppress(OSError, ValueError):
        if beside.stat().st_size <= _LARGEST_METADATA:
            return mapping(json.loads(beside.read_bytes()))
    return {}


def _of_metadata(metadata: Mapping[str, Any], written_by: Layout) -> Origin:
    arguments = metadata.get("env_args")
    return Origin(
        written_by,
        "v0" if written_by == "v0" else None,
        environment=_text(metadata.get("env_id") or metadata.get("env")),
        model=_text(metadata.get("model") or metadata.get("model_name")),
        sampling=_sampling(metadata.get("sampling_args")),
        verifiers=_text(mapping(metadata.get("version_info")).get("vf_version")),
        env_args=arguments if isinstance(arguments, dict) else None,
    )


def _of_sample(sample: Mapping[str, Any], written_by: Layout) -> Origin:
    return Origin(
        written_by,
        "v0" if written_by == "v0" else None,
        environment=_text(sample.get("env_name") or sample.get("environment") or sample.get("env_id")),
        model=_text(sample.get("model") or sample.get("model_name")),
        sampling=_sampling(sample.get("sampling_args") or sample.get("sampling")),
    )


def _sampling(given: Any) -> dict[str, Any] | None:
    """Of a v1 config, flat, or v0 arguments, where some stand in `extra_body`."""
    if not isinstance(given, dict):
        return None
    flat = {**given, **mapping(given.get("extra_body"))}
    set_ = {k: flat[k] for k in _SAMPLING if flat.get(k) is not None}
    if "max_tokens" not in set_ and number(flat.get("max_completion_tokens")) is not None:
        set_["max_tokens"] = flat["max_completion_tokens"]
    return set_


def _text(value: Any) -> str | None:
    return name(value) or None
