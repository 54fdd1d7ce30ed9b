"""The rule about settings that no evidence covers: variables, checkpoints, addresses, imports, images and volumes.

No test or evaluation of this server runs an environment with these settings. A setting that changes what the
environment's code reads or imports, or which weights are trained, is a blocker. The others get a warning and appear in
the question of `submit_training`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import key_path, quote
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, ConfigRule
from prime_lab_mcp.lab.configs.rules.known_settings import about_unknown, leaves_evidence
from prime_lab_mcp.lab.configs.rules.run_keys import (
    KeyPath,
    handed_on,
    is_environment,
    is_taskset,
    within_environment,
)
from prime_lab_mcp.lab.configs.schema import vllm_options

_HARMLESS_VARIABLE = re.compile(
    r"(?:NCCL|CUDA|CUBLAS|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|VLLM|FLASHINFER|OMP|MKL|NVIDIA|WANDB)_[A-Z0-9_]+"
    r"|TOKENIZERS_PARALLELISM|LOG_LEVEL|PYTHONUNBUFFERED|HF_HUB_(?:ENABLE_HF_TRANSFER|DOWNLOAD_TIMEOUT|DISABLE_XET)"
)
"""Matches variables of the trainer, the inference server and their libraries that only affect speed and logs."""
_LOADS_CODE = re.compile(
    r"\w*(?:PLUGIN|LIBRAR|EXECUTABLE|PROXY|INSECURE|MODELSCOPE|PRELOAD)\w*"
    r"|\w+_(?:BASE_URL|URL|HOST|ENDPOINT|PATH|DIR|ROOT|FOLDER|FILE|CONFIG|LIB)"
)
"""Matches variables with the same prefixes that name code, files, other weights or a server."""
_PLATFORM: Mapping[str, str] = {
    "source_ref": "another version of prime-rl than the one whose schema judged the config",
    "image_tag": "another image than the platform's own",
    "volume": "a volume whose files the run can read",
    "volume_size": "a volume that is billed, at a price that is not known here",
}
_TEMPLATES = (
    "tokenizer.chat_template",
    "trainer.tokenizer.chat_template",
    "orchestrator.tokenizer.chat_template",
    "inference.vllm.chat_template",
)
_ADDRESS = re.compile(r"\s*[a-z][a-z0-9+.-]*://", re.I)
_ADDRESS_KEYS = frozenset({"url", "base_url", "admin_base_url", "address"})
"""Keys whose value is an address, also without a scheme."""
_HOST_TABLES = frozenset({"rollout_transport", "weight_broadcast"})
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})
_SERVER_HOST = ("inference", "server", "host")
_BLOCKED_TABLES: Mapping[str, str] = {
    "debug": "another model than the evaluated one",
    "fake": "made-up data instead of the environment's rollouts",
    "slurm": "a setting with which commands run beside the training",
    "decode_vllm_overrides": "an option of vLLM that no rule and no bound reads",
    "prefill_vllm_overrides": "an option of vLLM that no rule and no bound reads",
}
"""Tables that block, wherever they stand outside of an environment."""
_NAMED_SETTINGS: Mapping[str, str] = {
    "length_penalty": "another reward than the one that test_reward proved",
    "tool_call_parser": "another way to read tool calls than the evaluated one may have had",
    "reasoning_parser": "another way to read the model's reasoning than the evaluated one may have had",
    "entity": "an account to which the run reports",
}
"""Keys that change what a run learns from or who hears of the run, wherever they stand."""
_REPORTED_TO = frozenset({"heartbeat", "monitors", "wandb"})
"""Tables whose servers only hear how the run goes."""
_MODEL_KEY = re.compile(r"(?:\w+_)?model(?:_name|_id)?")
"""Keys of a taskset's arguments that name a model: `model` of a judge's table, `judge_model`, `grader_model_name`."""
_SECRET_KEYS = frozenset({"headers_from_env"})
_OTHER_WEIGHTS = frozenset({"conversion_dir", "random_init"})
_VLLM = "inference.vllm."
_VLLM_CODE = re.compile(
    r".*(?:_cls|_class|processors?|middleware|plugins?|_modules?|extension|_script|_connector)"
    r"|model|tokenizer|hf_config_path|hf_overrides|load_format|download_dir|speculative_config|compilation_config"
    r"|kv_transfer_config|host|root_path|served_model_name|generation_config|override_generation_config"
    r"|.*revision|.*_format|.*_path"
)
"""Matches options of vLLM that import code, read other files, serve another model or change it (vLLM 0.11, "Engine
Arguments"). Names are compared with `_` for `-`."""
_CHANGES_REPLIES = frozenset({"quantization", "rope_scaling"})
"""Options of vLLM with which a model replies otherwise than the evaluated one."""
_CHANGES_SPEED = frozenset(
    {"max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill", "swap_space", "disable_log_requests",
     "disable_log_stats", "disable_custom_all_reduce", "async_scheduling", "uvicorn_log_level"}
)  # fmt: skip
"""Options of vLLM with which a model replies as without them (vLLM 0.11, "Engine Arguments")."""
_MORE_REPLIES = frozenset({"n", "best_of", "use_beam_search"})
_AGENT_SAMPLING = re.compile(r"\.source\.env\.(?!taskset\.)[^.]+\.sampling\.([^.]+)")
_SAMPLING_KEYS = frozenset(
    {"temperature", "top_p", "reasoning_effort", "max_tokens", "max_completion_tokens", "extra_body"}
)
"""Keys that `SamplingConfig` of verifiers 0.4 names. It sends all others on to the inference server as they are."""
_MOST_CHARACTERS = 80
"""Most characters of a value in the question."""
_MOST_LISTED = 12
"""Most paths in a caution. The question names each setting with its value."""
_MOST_WARNED = 6
"""Most settings with a warning of their own."""


@dataclass(frozen=True, slots=True)
class UnprovenSetting:
    """A setting that no test or evaluation covers. `about` describes it; `blocks` says whether it is a blocker."""

    path: str
    """The path as people read it: a key that is no plain word stands in quotes (`key_path`)."""
    value: Any
    about: str
    blocks: bool = False
    asks: bool = False
    """The setting names a server, another model or a variable, or brings other code, another reward or other replies
    than the tried ones: a person is asked, also with yes=true."""

    def __str__(self) -> str:
        return f"{self.path} = {quote(self.value, _MOST_CHARACTERS)} ({self.about})"


def unproven_settings(config: TrainingConfig) -> tuple[UnprovenSetting, ...]:
    """Return the settings that no evidence covers and that can change what the run reads, imports, trains or costs.

    A setting of the run that is neither named by a rule here nor known to leave the evidence as it is counts as well.
    """
    named = (
        *_variables(config.table, ()),
        *_checkpoints(config),
        *_passed_on(config),
        *_others(config),
    )
    return (*named, *_not_known(config, frozenset(setting.path for setting in named)))


def unproven_sentence(config: TrainingConfig) -> str:
    """Return a sentence about these settings for the question of submit_training. Empty without such settings."""
    settings = [str(setting) for setting in unproven_settings(config)]
    return f"The config sets what no step here tried: {'; '.join(settings)}." if settings else ""


def unproven_cautions(config: TrainingConfig) -> tuple[str, ...]:
    """Return the caution about the settings that no `yes` goes past. Empty without such settings."""
    named = list(dict.fromkeys(setting.path for setting in unproven_settings(config) if setting.asks))
    more = f" and {len(named) - _MOST_LISTED} more" if len(named) > _MOST_LISTED else ""
    listed = ", ".join(named[:_MOST_LISTED])
    return (f"no step here tried these settings of the config: {listed}{more}",) if named else ()


def settings_proven(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The config must not change what the environment's code reads or imports, or which weights are trained."""
    if config.target != "hosted":
        return
    settings = unproven_settings(config)
    warned = [setting for setting in settings if not setting.blocks]
    for setting in settings:
        if setting in warned[_MOST_WARNED:]:
            continue
        if setting.blocks:
            yield Finding(
                "config-unproven-setting",
                "blocker",
                f"{setting.path} is {setting.about}: nothing was tested or evaluated with this setting.",
                _fix(setting),
                setting.path,
            )
        else:
            yield Finding(
                "config-unproven-setting",
                "warning",
                f"{setting.path} is {setting.about}; no step here tried it.",
                "Remove it where it is not needed. submit_training names it in its question.",
                setting.path,
            )
    if len(warned) > _MOST_WARNED:
        message = f"{len(warned) - _MOST_WARNED} more settings are such that no step here tried them."
        fix = "Remove those that are not needed. submit_training names each in its question."
        yield Finding("config-unproven-setting", "warning", message, fix, warned[-1].path)


def _variables(node: Any, path: KeyPath) -> Iterator[UnprovenSetting]:
    """Yield the variables that a config sets: for the run, for one of its programs, or for the program of an agent.

    Tables of a taskset with such a name are arguments, unless they are the table of a harness or runtime.
    """
    for value in node if isinstance(node, list) else ():
        yield from _variables(value, path)
    for key, value in node.items() if isinstance(node, Mapping) else ():
        below = (*path, str(key))
        if not _sets_variables(below):
            yield from _variables(value, below)
            continue
        for name, setting in value.items() if isinstance(value, Mapping) else ():
            harmless = bool(_HARMLESS_VARIABLE.fullmatch(name)) and not _LOADS_CODE.fullmatch(name)
            about = "a variable of the run" if harmless else "a variable that the environment's code may read"
            yield UnprovenSetting(key_path((*below, str(name))), setting, about, blocks=not harmless, asks=True)


def _sets_variables(path: KeyPath) -> bool:
    """Whether the table at a path sets variables."""
    if path[-1].endswith("env_vars"):
        return not is_taskset(path)
    return path[-1] == "env" and len(path) > 1 and path[-2].endswith(("harness", "runtime"))


def _checkpoints(config: TrainingConfig) -> Iterator[UnprovenSetting]:
    for table in ("resume", "trainer.resume", "orchestrator.resume"):
        value = config.at(table)
        if value is not None:
            yield UnprovenSetting(table, value, "a checkpoint from which the run continues", blocks=True)


def _passed_on(config: TrainingConfig) -> Iterator[UnprovenSetting]:
    """Yield keys that are handed on, addresses, options that import code or name other weights, and extra sampling
    keys.

    prime-rl passes these settings on, so its schema does not judge them.
    """
    named: set[KeyPath] = set()
    for handed in handed_on(config.table):
        named |= {handed.path} if handed.blocks else set()
        yield UnprovenSetting(key_path(handed.path), handed.value, handed.about, handed.blocks, asks=True)
    for path, value in _leaves(config.table, ()):
        if path in named or any(_sets_variables(path[:length]) for length in range(1, len(path))):
            continue  # `_variables` judges them
        setting = _with_address(path, value) if isinstance(value, str) else None
        if setting is None and not is_taskset(path):
            setting = _passed_to_programs(path, value)
        if setting is not None:
            yield setting


def _with_address(path: KeyPath, value: str) -> UnprovenSetting | None:
    """The setting if it sends something to a server, or has another model asked. Taskset arguments too."""
    key, shown = path[-1], key_path(path)
    if _of_other_model(path):
        about = "another model than the trained one; what its tokens cost is not in the bound"
        return UnprovenSetting(shown, value, about, asks=True)
    if key == "host" and not _HOST_TABLES.isdisjoint(path[-2:-1]) and not is_environment(path):
        about = "a machine with which the run exchanges rollouts or weights"
        return UnprovenSetting(shown, value, about, blocks=True) if value not in _THIS_MACHINE else None
    if not _ADDRESS.match(value) and (key not in _ADDRESS_KEYS or not value):
        return None
    if _of_teacher(path):
        return UnprovenSetting(shown, value, "a server that gets the texts of all rollouts, or writes them", asks=True)
    if is_environment(path):
        return UnprovenSetting(shown, value, "a server that the environment may ask", asks=True)
    reported = not _REPORTED_TO.isdisjoint(path[:-1])
    about = "a server that hears of the run" if reported else "a server that the run asks"
    return UnprovenSetting(shown, value, about, blocks=not reported, asks=True)


def _of_other_model(path: KeyPath) -> bool:
    """Whether a setting is that of a model besides the trained one: of one that plays an agent, or of a judge."""
    inside = within_environment(path)
    if inside[:1] == ("taskset",) or inside[-2:] == ("judges", "model"):
        return _MODEL_KEY.fullmatch(inside[-1]) is not None
    own = len(inside) == 3 and inside[1] == "client" and not inside[2].startswith("api_key")
    return own or (len(inside) == 2 and inside[1] == "model")


def _of_teacher(path: KeyPath) -> bool:
    """Whether a setting is that of a model that prime-rl asks as part of an algorithm, of the run or of a source."""
    algorithms = (("orchestrator", "algo"), ("orchestrator", "train", "source", "algo"))
    return any(
        path[: len(start) + len(model)] == (*start, *model)
        for start in algorithms
        for model in (("teacher",), ("sampling", "source"))
    )


def _passed_to_programs(keys: KeyPath, value: Any) -> UnprovenSetting | None:
    """The setting if it changes what the trainer or the inference server runs, loads, learns from or sends."""
    path = key_path(keys)
    table, _, key = path.rpartition(".")
    key = key.replace("-", "_")
    if key in _SECRET_KEYS or table.rpartition(".")[2] in _SECRET_KEYS:
        return UnprovenSetting(path, value, "a variable of the run that is sent to a server", blocks=True)
    if key in _OTHER_WEIGHTS and value not in (None, False):
        return UnprovenSetting(path, value, "other weights than those of the evaluated model", blocks=True)
    blocked = next((_BLOCKED_TABLES[name] for name in keys if name in _BLOCKED_TABLES), None)
    if is_environment(keys):
        blocked = None  # a table of a package; the gates read those
    if keys == _SERVER_HOST and value not in _THIS_MACHINE:
        blocked = "an address at which the inference server answers other machines"
    if blocked is not None and value not in (None, False):
        return UnprovenSetting(path, value, blocked, blocks=True)
    if path.startswith(_VLLM) and path != f"{_VLLM}model" and any(map(_VLLM_CODE.fullmatch, _options(path))):
        about = "an option of vLLM that imports code, reads other files or changes the model"
        return UnprovenSetting(path, value, about, blocks=True)
    if path.startswith(_VLLM) and _options(path)[0] not in vllm_options() - _CHANGES_REPLIES:
        return UnprovenSetting(path, value, "an option of vLLM", asks=_options(path)[0] not in _CHANGES_SPEED)
    sampled = _AGENT_SAMPLING.search(path)
    if table.endswith(".extra_body") or (sampled is not None and sampled[1] not in _SAMPLING_KEYS):
        return UnprovenSetting(path, value, "an extra key of each request", blocks=key in _MORE_REPLIES, asks=True)
    named = next((name for name in _NAMED_SETTINGS if name in path.split(".")[1:]), None)
    return UnprovenSetting(path, value, _NAMED_SETTINGS[named], asks=named != "entity") if named is not None else None


def _options(path: str) -> list[str]:
    """Return the keys of an option of vLLM: its name, and those of the tables in its value."""
    return path.removeprefix(_VLLM).replace("-", "_").split(".")


def _leaves(node: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every value that is no table, with its path. Items of a list have the path of the list."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(value, (*path, str(key)))
    elif isinstance(node, list):
        for value in node:
            yield from _leaves(value, path)
    else:
        yield path, node


def _others(config: TrainingConfig) -> Iterator[UnprovenSetting]:
    for path, about in _PLATFORM.items():
        if (value := config.at(path)) is not None:
            yield UnprovenSetting(path, value, about, asks=True)
    for path in _TEMPLATES:
        if (value := config.at(path)) is not None:
            about = "another chat template than the evaluated one may have had"
            yield UnprovenSetting(path, value, about, asks=True)
    for keys, value in _leaves(config.table, ()):
        if keys[-1] == "trust_remote_code" and value is True:
            yield UnprovenSetting(key_path(keys), True, "permission to run code of the model's repository", asks=True)


def _not_known(config: TrainingConfig, named: frozenset[str]) -> Iterator[UnprovenSetting]:
    """Yield the settings of the run that are not known to leave the evidence as it is.

    The tables of environments and the options of vLLM have lists of their own.
    """
    if config.shape != "rl":
        return
    for path, value in _leaves(config.table, ()):
        shown = key_path(path)
        elsewhere = is_environment(path) or path[:2] == ("inference", "vllm") or "resume" in path[:2]
        if elsewhere or shown in named or any(_sets_variables(path[:length]) for length in range(1, len(path))):
            continue
        if path[-1] != "import_path" and not leaves_evidence(config, path, value):
            yield UnprovenSetting(shown, value, about_unknown(path), asks=True)


def _fix(setting: UnprovenSetting) -> str:
    if "resume" in setting.path:
        return Fix(
            "Remove the table and call ",
            NamedCall("submit_training"),
            " with resume_from=RUN: then the checkpoint's evaluation counts.",
        )
    return Fix(
        "Remove it, or give the environment the value as an argument of its taskset, with which ",
        NamedCall("test_reward"),
        " and ",
        NamedCall("run_eval"),
        " can be called. A person may waive it: prime-lab-mcp override CONFIG.toml "
        "config-unproven-setting --reason ...",
    )


UNPROVEN_RULES: tuple[ConfigRule, ...] = (settings_proven,)
