"""The retired keys of earlier config formats with their successors, and the old TOML parser that `prime` still uses.

Checks and migrations use the same table of retired keys. Its sources are the shared-LoRA shape of prime 0.12 and
earlier, prime-rl's own renames, and `prime` 0.18 (commands/rl.py). `prime train` reads configs with the package `toml`,
which differs from TOML 1.0. The rules compare both readings.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base import process
from prime_lab_mcp.lab.base.errors import BadInput, ProcessError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.text import key_path, quote
from prime_lab_mcp.lab.configs.context import OldParserReading
from prime_lab_mcp.lab.lab import Lab

_GATE = 'curriculum.gates.signal = {type = "advantage_range"} of each training source'
_POOL = 'curriculum.sampler = {type = "difficulty_pool"} of each training source'


@dataclass(frozen=True, slots=True)
class OldKey:
    """A retired key of a config.

    `path` may end in `.*`, which means the table and everything below it. `to` is the present key, or None if there is
    no successor. `why` is the reason in words.
    """

    path: str
    to: str | None
    why: str


OLD_KEYS: tuple[OldKey, ...] = (
    OldKey("batch_size", "orchestrator.batch_size", "the batch belongs to the orchestrator"),
    OldKey("group_size", "orchestrator.group_size", "the group belongs to the orchestrator"),
    OldKey("rollouts_per_example", "orchestrator.group_size", "renamed: rollouts of one task"),
    OldKey("orchestrator.rollouts_per_example", "orchestrator.group_size", "renamed: rollouts of one task"),
    OldKey("orchestrator.train.group_size", "orchestrator.group_size", "the group is set once, or per source"),
    OldKey("learning_rate", "trainer.optim.lr", "the learning rate belongs to the optimizer"),
    OldKey("lr", "trainer.optim.lr", "the learning rate belongs to the optimizer"),
    OldKey("lora_alpha", "trainer.model.lora.alpha", "LoRA is a table of the trainer's model"),
    OldKey("lora_rank", "trainer.model.lora.rank", "LoRA is a table of the trainer's model"),
    OldKey("model.lora", "trainer.model.lora", "LoRA is a table of the trainer's model"),
    OldKey("max_tokens", "orchestrator.train.sampling.max_completion_tokens", "renamed, and set where sampling is"),
    OldKey("sampling.max_tokens", "orchestrator.train.sampling.max_completion_tokens", "renamed"),
    OldKey("sampling.temperature", "orchestrator.train.sampling.temperature", "moved"),
    OldKey("sampling.extra_body", "orchestrator.train.sampling.extra_body", "moved"),
    OldKey("sampling.top_p", None, "fixed at 1 in training, so that samples are the policy's own"),
    OldKey("sampling.reasoning_effort", None, "the renderer of the model decides how it thinks"),
    OldKey("sampling.temp_scheduler.*", None, "the temperature of training stays as it is set"),
    OldKey("sampling.enable_thinking", None, "the renderer of the model decides how it thinks"),
    OldKey("sampling.*", None, "train sampling knows temperature, max_completion_tokens and extra_body"),
    OldKey("orchestrator.sampling.max_tokens", "orchestrator.train.sampling.max_completion_tokens", "renamed"),
    OldKey("orchestrator.sampling.temperature", "orchestrator.train.sampling.temperature", "moved"),
    OldKey("orchestrator.sampling.extra_body", "orchestrator.train.sampling.extra_body", "moved"),
    OldKey("orchestrator.sampling.top_p", None, "fixed at 1 in training, so that samples are the policy's own"),
    OldKey("orchestrator.sampling.*", None, "train sampling is [orchestrator.train.sampling] now"),
    OldKey("orchestrator.train.sampling.max_tokens", "orchestrator.train.sampling.max_completion_tokens", "renamed"),
    OldKey("orchestrator.eval.sampling.max_tokens", "orchestrator.eval.sampling.max_completion_tokens", "renamed"),
    OldKey("eval.sampling.max_tokens", "orchestrator.eval.sampling.max_completion_tokens", "renamed"),
    OldKey("orchestrator.eval.rollouts_per_example", "orchestrator.eval.group_size", "renamed"),
    OldKey("orchestrator.eval.eval_base_model", "orchestrator.eval.skip_first_step", "renamed with the opposite sense"),
    OldKey("orchestrator.env", "[[orchestrator.train.source]]", "environments are sources now"),
    OldKey("orchestrator.train.env", "[[orchestrator.train.source]]", "environments are sources with an env table now"),
    OldKey("orchestrator.eval.env", "[[orchestrator.eval.source]]", "environments are sources with an env table now"),
    OldKey("orchestrator.lora_name", "orchestrator.model.lora.name", "moved, and no longer required"),
    OldKey("lora_name", "orchestrator.model.lora.name", "moved, and no longer required"),
    OldKey("orchestrator.mask_truncated_completions", None, "cut completions count; give them room instead"),
    OldKey("orchestrator.zero_truncated_completions", None, "cut completions count; give them room instead"),
    OldKey("mask_truncated_completions", None, "cut completions count; give them room instead"),
    OldKey("zero_truncated_completions", None, "cut completions count; give them room instead"),
    OldKey("orchestrator.oversampling_factor", None, "concurrency adapts by itself"),
    OldKey("oversampling_factor", None, "concurrency adapts by itself"),
    OldKey("max_inflight_rollouts", "orchestrator.concurrency.max_inflight", "moved"),
    OldKey("orchestrator.max_inflight_rollouts", "orchestrator.concurrency.max_inflight", "moved"),
    OldKey("max_off_policy_steps", "orchestrator.max_off_policy_steps", "moved"),
    OldKey("max_async_level", "orchestrator.max_off_policy_steps", "staleness is bounded in steps now"),
    OldKey("orchestrator.max_async_level", "orchestrator.max_off_policy_steps", "staleness is bounded in steps now"),
    OldKey("trainer.max_async_level", None, "staleness is bounded by orchestrator.max_off_policy_steps"),
    OldKey("trajectory_strategy", None, "trajectories are always interleaved"),
    OldKey("orchestrator.trajectory_strategy", None, "trajectories are always interleaved"),
    OldKey("buffer.online_difficulty_filtering", _GATE, "the difficulty buffer was removed; a gate resamples instead"),
    OldKey("orchestrator.buffer.online_difficulty_filtering", _GATE, "`prime train` drops the removed buffer unsaid"),
    OldKey("buffer.*", _POOL, "the difficulty buffer was removed; pools weigh tasks by difficulty instead"),
    OldKey("orchestrator.buffer.*", _POOL, "the difficulty buffer was removed"),
    OldKey("online_difficulty_filtering", _GATE, "the difficulty buffer was removed; a gate resamples instead"),
    OldKey("trainer.model.experimental.lora", "trainer.model.lora", "no longer experimental"),
    OldKey("inference_gpu_ids", "deployment.num_infer_gpus", "GPUs are counted, not named"),
    OldKey("trainer_gpu_ids", "deployment.num_train_gpus", "GPUs are counted, not named"),
    OldKey("inference.model.enable_auto_tool_choice", None, "prime-rl sets it itself where tools are parsed"),
    OldKey("inference.model.tool_call_parser", "inference.vllm.tool_call_parser", "options of vLLM stand there"),
    OldKey("inference.model.*", "inference.vllm", "options of vLLM stand under inference.vllm"),
    OldKey("config.*", None, "lineage stands in comments and in configs/registry.json; prime-rl refuses the table"),
    OldKey("ckpt.keep", "ckpt.keep_last", "renamed"),
    OldKey("ckpt.resume_step", "resume.step", "continuing has a table of its own"),
    OldKey("ckpt.save_async", None, "there is no such choice any more"),
    OldKey("pre_batch_filters", _GATE, "a gate resamples groups without a gradient"),
    OldKey("post_batch_filters", None, "groups without a gradient are left out of training anyway"),
    OldKey("teacher.*", None, "learning from a teacher is an algorithm with its own table, [orchestrator.algo]"),
    OldKey("cluster_name", None, "the platform chooses the cluster"),
    OldKey("run_config.*", None, "every key of prime-rl can be set where it belongs"),
    OldKey("tailscale.*", None, "the platform offers no such network any more"),
    OldKey("wandb", "monitors.wandb", "monitors share one table"),
    OldKey("checkpoints", "ckpt", "renamed"),
    OldKey("checkpoints.*", "ckpt", "renamed"),
    OldKey("eval.eval_base_model", "orchestrator.eval.skip_first_step", "renamed with the opposite sense"),
    OldKey("eval.*", "orchestrator.eval", "evaluation belongs to the orchestrator"),
    OldKey("val.*", "[[orchestrator.eval.source]]", "there is no validation block in RL; an eval source does its work"),
    OldKey("infrastructure.compute_size", None, "GPUs are chosen in [deployment] and by gpu_type"),
    OldKey("adapters.*", None, "an adapter is written with each checkpoint"),
    OldKey("infrastructure.*", "deployment", "GPUs are chosen in [deployment]"),
    OldKey("checkpoint_id", None, "continuing is `submit_training(resume_from=...)` now"),
    OldKey("loss", "orchestrator.algo.type", "the algorithm is named in [orchestrator.algo]"),
    OldKey("type", None, "every run is a dedicated one now; the key is ignored"),
)

_BY_PATH = {key.path: key for key in OLD_KEYS}


def translate_key(path: str) -> OldKey | None:
    """Return the entry about a dotted path that was retired, or None. Indices in brackets are ignored."""
    bare_path = "".join(part.split("]")[-1] for part in path.split("["))
    if bare_path in _BY_PATH:
        return _BY_PATH[bare_path]
    head = bare_path
    while head:
        if match := _BY_PATH.get(f"{head}.*"):
            return match
        head = head.rpartition(".")[0]
    return None


def old_keys_in(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, OldKey]]:
    """Yield every retired key of a table with its dotted path. Keys below a reported key are not reported."""
    for name, value in table.items():
        shown = key_path((name,))
        path = f"{prefix}.{shown}" if prefix else shown
        exact = _BY_PATH.get(path)
        deeper = any(key.path.startswith(f"{path}.") for key in OLD_KEYS)
        if exact and not (deeper and isinstance(value, Mapping) and value):
            yield path, exact
        elif isinstance(value, Mapping) and deeper:
            yield from old_keys_in(value, path)
        elif old := translate_key(path):
            yield path, old


_PROGRAM = """\
import json, sys
import toml
try:
    found = {"table": toml.loads(sys.stdin.buffer.read().decode("utf-8"))}
except Exception as error:
    found = {"refused": str(error)[:300]}
print(json.dumps(found, default=str))
"""
_SECONDS = 20.0
_LINE_END = re.compile(r"\r\n?")


def old_reading_here(text: str) -> OldParserReading | None:
    """Return how the package `toml` of the server's interpreter reads a config; None if it is not installed."""
    try:
        toml = importlib.import_module("toml")
    except ImportError:
        return None
    try:
        return OldParserReading(table=toml.loads(_as_opened(text)))
    except Exception as error:
        return OldParserReading(refused=str(error)[:300])


async def old_reading_of_prime(lab: Lab, text: str) -> OldParserReading | None:
    """Return how the package `toml` in the interpreter of `prime` reads a config; None if there is none."""
    for program in lab.toolchain.programs("prime"):
        python = program.resolve().parent / "python"
        if python.is_file() and (reading := await _ask(python, text)) is not None:
            return reading
    return None


def reading_difference(table: Mapping[str, Any], reading: OldParserReading) -> str | None:
    """Return the dotted path of the first difference between a config and its old reading, or None if they are
    equal."""
    return _difference(table, reading.table or {}, "")


async def require_same_reading(lab: Lab, text: str, name: str) -> None:
    """Raise BadInput if the parser of `prime` refuses the text of the config `name`, or reads other values from it.

    Where that parser is not to be had, nothing is compared, as in the check of the config.
    """
    reading = old_reading_here(text)
    if reading is None:
        reading = await old_reading_of_prime(lab, text)
    if reading is None:
        return
    fix = Fix("Write the file anew with ", NamedCall("write_training_config", based_on=...), ", and submit that one.")
    if reading.table is None:
        why = quote(reading.refused or "no reason given", limit=160)
        raise BadInput(
            f"`prime train` refuses {name} with the name of the run in it: {why}", fix=fix, code="config-toml-dialect"
        )
    where = reading_difference(tomllib.loads(text), reading)
    if where is not None:
        raise BadInput(
            f"`prime train` reads {name} otherwise than it was checked once the name of the run stands in it: the two "
            f"readings differ at {quote(where, limit=120)}",
            fix=fix,
            code="config-toml-dialect",
        )


def _as_opened(text: str) -> str:
    """The text as `prime` reads it: Python opens text files with every line end as a line feed."""
    return _LINE_END.sub("\n", text)


async def _ask(python: Path, text: str) -> OldParserReading | None:
    # The text is handed over, not the file: that may have changed since it was read.
    with tempfile.TemporaryFile() as handed:
        handed.write(_as_opened(text).encode("utf-8"))
        handed.seek(0)
        try:
            completed = await process.run(
                [str(python), "-I", "-c", _PROGRAM],
                cwd=Path(tempfile.gettempdir()),
                env=process.clean_environment(),
                timeout=_SECONDS,
                output_limit=4_000_000,
                stdin=handed.fileno(),
            )
            answer = json.loads(completed.stdout) if completed.returncode == 0 else {}
        except (ProcessError, ValueError):
            return None
    if not isinstance(answer, dict) or not answer:
        return None
    table, refused = answer.get("table"), answer.get("refused")
    return OldParserReading(table=table if isinstance(table, dict) else None, refused=str(refused) if refused else None)


def _difference(first: Any, second: Any, path: str) -> str | None:
    """Return the dotted path of the first difference between two parsed tables, or None if they are equal."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for name in [*first, *(k for k in second if k not in first)]:
            full_path = f"{path}.{key_path((name,))}" if path else key_path((name,))
            if name not in first or name not in second:
                return full_path
            if (difference := _difference(first[name], second[name], full_path)) is not None:
                return difference
        return None
    if isinstance(first, list) and isinstance(second, list):
        if len(first) != len(second):
            return path
        pairs = enumerate(zip(first, second, strict=True))
        return next((d for i, (a, b) in pairs if (d := _difference(a, b, f"{path}[{i}]")) is not None), None)
    if isinstance(first, float) and isinstance(second, float) and math.isnan(first) and math.isnan(second):
        return None
    if type(first) is type(second) or (isinstance(first, (int, float)) and isinstance(second, (int, float))):
        return None if first == second else path
    return None if str(first) == str(second) else path
