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
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, ConfigRule
from prime_lab_mcp.lab.configs.schema import vllm_options

_HARMLESS_VARIABLE = re.compile(
    r"(?:NCCL|CUDA|CUBLAS|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|VLLM|FLASHINFER|OMP|MKL|NVIDIA|WANDB)_[A-Z0-9_]+"
    r"|TOKENIZERS_PARALLELISM|LOG_LEVEL|PYTHONUNBUFFERED|HF_HUB_(?:ENABLE_HF_TRANSFER|DOWNLOAD_TIMEOUT|DISABLE_XET)"
)
"""Matches variables of the trainer, the inference server and their libraries that only affect speed and logs."""
_LOADS_CODE = re.compile(
    r"VLLM_PLUGINS|TORCHINDUCTOR_CACHE_DIR|TRITON_CACHE_DIR|\w+_(?:BASE_URL|ENDPOINT|PATH|PRELOAD)"
)
"""Matches variables with the same prefixes that name code or a server."""
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
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.I)
_TEACHER = "orchestrator.algo."
"""Below this table, prime-rl names the servers of teachers. Their addresses are part of the algorithm."""
_REPORTED_TO = re.compile(r"(?:^|\.)(?:heartbeat|monitors|wandb)\.")
"""Matches paths of tables whose servers only hear how the run goes."""
_ENVIRONMENT, _TASKSET = ".source.env.", ".source.env.taskset."
"""Below these tables stand the settings of an environment and the arguments of its taskset. The gates want evidence for
the arguments; lab/configs/packages.py reads the others."""
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
_MORE_REPLIES = frozenset({"n", "best_of"})
_MOST_CHARACTERS = 80
"""Most characters of a value in the question."""


@dataclass(frozen=True, slots=True)
class UnprovenSetting:
    """A setting that no test or evaluation covers. `about` describes it; `blocks` says whether it is a blocker."""

    path: str
    value: Any
    about: str
    blocks: bool = False

    def __str__(self) -> str:
        return f"{self.path} = {quote(self.value, _MOST_CHARACTERS)} ({self.about})"


def unproven_settings(config: TrainingConfig) -> tuple[UnprovenSetting, ...]:
    """Return the settings that no evidence covers and that can change what the run reads, imports, trains or costs."""
    return (*_variables(config), *_checkpoints(config), *_passed_on(config), *_others(config))


def unproven_sentence(config: TrainingConfig) -> str:
    """Return a sentence about these settings for the question of submit_training. Empty without such settings."""
    settings = [str(setting) for setting in unproven_settings(config)]
    return f"The config sets what no step here tried: {'; '.join(settings)}." if settings else ""


def settings_proven(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The config must not change what the environment's code reads or imports, or which weights are trained."""
    if config.target != "hosted":
        return
    for setting in unproven_settings(config):
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


def _variables(config: TrainingConfig) -> Iterator[UnprovenSetting]:
    for table in ("env_vars", "trainer.env_vars", "orchestrator.env_vars", "inference.env_vars"):
        variables = config.at(table)
        for name, value in variables.items() if isinstance(variables, Mapping) else ():
            harmless = bool(_HARMLESS_VARIABLE.fullmatch(name)) and not _LOADS_CODE.fullmatch(name)
            about = "a variable of the run" if harmless else "a variable that the environment's code may read"
            yield UnprovenSetting(f"{table}.{name}", value, about, blocks=not harmless)


def _checkpoints(config: TrainingConfig) -> Iterator[UnprovenSetting]:
    for table in ("resume", "trainer.resume", "orchestrator.resume"):
        value = config.at(table)
        if value is not None:
            yield UnprovenSetting(table, value, "a checkpoint from which the run continues", blocks=True)


def _passed_on(config: TrainingConfig) -> Iterator[UnprovenSetting]:
    """Yield addresses, secrets for them, options that import code or name other weights, and extra sampling keys.

    prime-rl passes these settings on, so its schema does not judge them.
    """
    for path, value in _leaves(config.table, ""):
        key = path.rpartition(".")[2].replace("-", "_")
        table = path.rpartition(".")[0]
        if table.endswith("env_vars") or _TASKSET in path:
            continue
        if isinstance(value, str) and _ADDRESS.match(value) and not path.startswith(_TEACHER):
            reported = _REPORTED_TO.search(path) is not None
            about = "a server that hears of the run" if reported else "a server that the run asks"
            yield UnprovenSetting(path, value, about, blocks=not reported and _ENVIRONMENT not in path)
        elif key in _SECRET_KEYS or table.rpartition(".")[2] in _SECRET_KEYS:
            yield UnprovenSetting(path, value, "a variable of the run that is sent to a server", blocks=True)
        elif key in _OTHER_WEIGHTS and value not in (None, False):
            yield UnprovenSetting(path, value, "other weights than those of the evaluated model", blocks=True)
        elif path.startswith(_VLLM) and path != f"{_VLLM}model" and any(map(_VLLM_CODE.fullmatch, _options(path))):
            about = "an option of vLLM that imports code, reads other files or changes the model"
            yield UnprovenSetting(path, value, about, blocks=True)
        elif path.startswith(_VLLM) and _options(path)[0] not in vllm_options() - _CHANGES_REPLIES:
            yield UnprovenSetting(path, value, "an option of vLLM")
        elif table.endswith(".extra_body"):
            yield UnprovenSetting(path, value, "an extra key of each request", blocks=key in _MORE_REPLIES)


def _options(path: str) -> list[str]:
    """Return the keys of an option of vLLM: its name, and those of the tables in its value."""
    return path.removeprefix(_VLLM).replace("-", "_").split(".")


def _leaves(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every value that is no table, with its path. Items of a list have the path of the list."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list):
        for value in node:
            yield from _leaves(value, path)
    else:
        yield path, node


def _others(config: TrainingConfig) -> Iterator[UnprovenSetting]:
    for path, about in _PLATFORM.items():
        if (value := config.at(path)) is not None:
            yield UnprovenSetting(path, value, about)
    for path in _TEMPLATES:
        if (value := config.at(path)) is not None:
            yield UnprovenSetting(path, value, "another chat template than the evaluated one may have had")
    for path, table in _tables(config.table, ""):
        if table.get("trust_remote_code") is True:
            yield UnprovenSetting(f"{path}.trust_remote_code", True, "permission to run code of the model's repository")


def _tables(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            below = f"{path}.{key}" if path else key
            yield below, value
            yield from _tables(value, below)


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
