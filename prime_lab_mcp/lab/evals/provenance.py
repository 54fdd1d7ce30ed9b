"""Reads the environment, model and settings that a results file states, and compares them with a specification."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from prime_lab_mcp.lab.base import untrusted_files
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.evals.runner.command import IN_PROCESS_ID
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.rollouts.layouts import mapping_or_empty, name_or_empty, number
from prime_lab_mcp.lab.rollouts.reading import Layout, first_record, layout_of, locate_results

_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "max_tokens", "reasoning_effort", "seed")
_LARGEST_METADATA = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ResultsOrigin:
    """The origin of a results file, as the file states it. None means that the file does not state the property.

    All text comes from the file and is not trusted.
    """

    layout: Layout
    generation: Literal["v0", "v1"] | None
    """Generation of verifiers. None for samples of the platform, which do not state a generation."""
    environment: str | None = None
    model: str | None = None
    harness: str | None = None
    runtime: str | None = None
    sampling: Mapping[str, Any] | None = None
    """Sampling arguments that were sent to the endpoint. For a missing key the server's default applied."""
    verifiers: str | None = None
    env_args: Mapping[str, Any] | None = None


def origin_of_results(path: Path) -> ResultsOrigin:
    """Read the origin of the results at `path` from their first record and their metadata.json. Raises EvalError."""
    results = locate_results(path)
    record = first_record(results)
    if record is None:
        return ResultsOrigin("document", None)
    layout = layout_of(record)
    if layout == "v1":
        return _episode_origin(record)
    metadata = _metadata(results)
    return _metadata_origin(metadata, layout) if metadata else _sample_origin(record, layout)


class OriginDifference(NamedTuple):
    """One property of an evaluation that differs between the request and the results."""

    name: str
    stored: object
    expected: object

    @property
    def text(self) -> str:
        """The difference in words."""
        return f"{self.name} is {_value_text(self.stored)}, not {_value_text(self.expected)}"


def origin_differences(origin: ResultsOrigin, spec: EvalSpec) -> list[OriginDifference]:
    """Return the properties in which the origin of the results differs from `spec`.

    Only properties that affect the rewards are compared. Properties that the file does not state are skipped.
    """
    differences = []
    if origin.environment is not None and not _same_environment(origin.environment, spec):
        differences.append(OriginDifference("environment", origin.environment, spec.hosted or spec.module))
    if origin.model is not None and origin.model != spec.model:
        differences.append(OriginDifference("model", origin.model, spec.model))
    if origin.generation is not None and origin.generation != spec.api:
        differences.append(OriginDifference("generation", origin.generation, spec.api))
    if origin.verifiers is not None and spec.hosted is None and origin.verifiers != spec.verifiers:
        differences.append(OriginDifference("verifiers", origin.verifiers, spec.verifiers))
    if origin.harness is not None and spec.api == "v1" and spec.hosted is None:
        expected = IN_PROCESS_ID if spec.in_process else spec.harness
        if origin.harness != expected:
            differences.append(OriginDifference("harness", origin.harness, expected))
        if origin.runtime is not None and origin.runtime != spec.runtime:
            differences.append(OriginDifference("runtime", origin.runtime, spec.runtime))
    if origin.env_args is not None and origin.env_args != dict(spec.env_args):
        differences.append(OriginDifference("env_args", json.dumps(origin.env_args), json.dumps(dict(spec.env_args))))
    return [*differences, *_sampling_differences(origin, spec)]


def _sampling_differences(origin: ResultsOrigin, spec: EvalSpec) -> list[OriginDifference]:
    if origin.sampling is None:
        return []
    expected = {"top_p": 1.0} | spec.sampling
    differences = []
    for key in ("temperature", "max_tokens", "top_p"):
        stored, requested = origin.sampling.get(key), expected.get(key)
        if stored != requested and not (stored is None and key == "top_p"):
            differences.append(OriginDifference(key, stored, requested))
    return differences


def _value_text(value: object) -> str:
    return "unset" if value is None else f"{value:g}" if isinstance(value, int | float) else quote(str(value), 100)


def _same_environment(name: str, spec: EvalSpec) -> bool:
    names = {_normalised(n) for n in (spec.module, spec.environment, spec.hosted) if n}
    return _normalised(name) in names


def _normalised(environment: str) -> str:
    """Return the name of an environment without owner and version, in lower case and with `_` for `-`."""
    return environment.rpartition("/")[2].partition("@")[0].replace("-", "_").lower()


def _episode_origin(episode: Mapping[str, Any]) -> ResultsOrigin:
    traces = [t for t in episode.get("traces", [episode]) if isinstance(t, dict)]
    trained = [t for t in traces if mapping_or_empty(t.get("agent")).get("trainable", True)] or traces
    trace: Mapping[str, Any] = trained[0] if trained else {}
    config = mapping_or_empty(mapping_or_empty(trace.get("agent")).get("config"))
    return ResultsOrigin(
        "v1",
        "v1",
        environment=_text(mapping_or_empty(episode.get("env")).get("id")),
        model=_text(config.get("model")),
        harness=_text(mapping_or_empty(config.get("harness")).get("id")),
        runtime=_text(mapping_or_empty(config.get("runtime")).get("type")),
        sampling=_sampling(config.get("sampling")),
        verifiers=_text(mapping_or_empty(trace.get("verifiers")).get("version")),
    )


def _metadata(results: Path) -> Mapping[str, Any]:
    """Read metadata.json as v0 `vf-eval` writes it, or as the platform returns an evaluation."""
    path = results.parent / "metadata.json"
    with suppress(OSError, ValueError, untrusted_files.PlantedPath), untrusted_files.open_results(path) as source:
        if len(content := source.read(_LARGEST_METADATA + 1)) <= _LARGEST_METADATA:
            return mapping_or_empty(json.loads(content))
    return {}


def _metadata_origin(metadata: Mapping[str, Any], layout: Layout) -> ResultsOrigin:
    arguments = metadata.get("env_args")
    return ResultsOrigin(
        layout,
        "v0" if layout == "v0" else None,
        environment=_text(metadata.get("env_id") or metadata.get("env")),
        model=_text(metadata.get("model") or metadata.get("model_name")),
        sampling=_sampling(metadata.get("sampling_args")),
        verifiers=_text(mapping_or_empty(metadata.get("version_info")).get("vf_version")),
        env_args=arguments if isinstance(arguments, dict) else None,
    )


def _sample_origin(sample: Mapping[str, Any], layout: Layout) -> ResultsOrigin:
    return ResultsOrigin(
        layout,
        "v0" if layout == "v0" else None,
        environment=_text(sample.get("env_name") or sample.get("environment") or sample.get("env_id")),
        model=_text(sample.get("model") or sample.get("model_name")),
        sampling=_sampling(sample.get("sampling_args") or sample.get("sampling")),
    )


def _sampling(settings: Any) -> dict[str, Any] | None:
    """Return the sampling arguments of v1, which are flat, or of v0, which stores some of them in `extra_body`."""
    if not isinstance(settings, dict):
        return None
    flat = {**settings, **mapping_or_empty(settings.get("extra_body"))}
    arguments = {k: flat[k] for k in _SAMPLING if flat.get(k) is not None}
    if "max_tokens" not in arguments and number(flat.get("max_completion_tokens")) is not None:
        arguments["max_tokens"] = flat["max_completion_tokens"]
    return arguments


def _text(value: Any) -> str | None:
    return name_or_empty(value) or None
