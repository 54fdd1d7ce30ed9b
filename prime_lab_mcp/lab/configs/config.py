"""Parses a training config (prime-rl TOML) into a value, with its sources, model, batch size and GPUs as properties."""

from __future__ import annotations

import errno
import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.syntax import nests_too_deeply
from prime_lab_mcp.lab.base.text import as_mapping, quote

ConfigShape = Literal["rl", "sft", "shared-lora"]
ConfigTarget = Literal["hosted", "self-managed"]

DEFAULT_MODEL = "Qwen/Qwen3-0.6B"
"""The model that prime-rl trains if a config names none."""
DEFAULT_BATCH = 128
"""prime-rl's batch size if a config sets none: rollouts, or packed sequences in fine-tuning."""
_TARGET_LINE = re.compile(r"^# target: (hosted|self-managed)\b", re.M)
_POSITION = re.compile(r"\(at line (\d+), column (\d+)\)|\(at end of document\)")
_LIMIT = 1_000_000
_LEAST_OF_DEPLOYMENT: Mapping[str, int] = {
    "deployment.gpus_per_node": 1,
    "deployment.num_train_gpus": 1,
    "deployment.num_infer_gpus": 0,
    "deployment.num_train_nodes": 1,
    "deployment.num_infer_nodes": 0,
    "deployment.num_infer_replicas": 1,
    "inference.deployment.gpus_per_node": 1,
    "inference.deployment.num_nodes": 1,
}
"""Keys whose numbers decide how many GPUs a run has, with the least that a run can have."""
_NAME_LINE = re.compile(r"""^(name\s*=\s*)(["'])([^"'\n]*)\2[ \t]*(#.*)?$""", re.M)
_TABLE = re.compile(r"^\s*\[", re.M)


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """One training or eval source of a config: an environment with its settings.

    `id` is the taskset id as written, `[owner/]env_name[@version]`.
    """

    kind: Literal["train", "eval"]
    name: str
    id: str
    owner: str | None
    env_name: str
    version: str | None
    args: Mapping[str, Any] = field(default_factory=dict)
    """The keys of the taskset without `id`."""
    harness: str | None = None
    runtime: str | None = None
    table: Mapping[str, Any] = field(default_factory=dict)
    """The whole table of the source."""

    @property
    def unnamed_harness(self) -> bool:
        """Whether the single agent has a table of a harness that names none: verifiers takes the one of the
        environment's class, and `bash` where the class names none."""
        harness = value_at(self.table.get("env"), "agent", "harness")
        return isinstance(harness, Mapping) and harness.get("id") in (None, "", "None")

    @property
    def hub_name(self) -> str | None:
        """`owner/name`, or None for a package without an owner."""
        return f"{self.owner}/{self.env_name}" if self.owner else None


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """A parsed training config. Properties return prime-rl's defaults for numbers that the file does not set."""

    path: Path
    sha256: str
    """sha256 of the text in UTF-8, in hexadecimal."""
    text: str
    table: Mapping[str, Any]
    """The parsed TOML."""
    shape: ConfigShape
    target: ConfigTarget
    sources: tuple[ConfigSource, ...]

    def at(self, dotted: str) -> Any:
        """Return the value at a dotted path, or None. The string "None" is prime-rl's null and also gives None."""
        node: Any = self.table
        for part in dotted.split("."):
            if not isinstance(node, Mapping) or part not in node:
                return None
            node = node[part]
        return None if node == "None" else node

    def number(self, dotted: str, default: int | None = None) -> int | None:
        """Return the whole number at a dotted path, or the default if there is none."""
        value = self.at(dotted)
        is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return int(value) if is_whole and not isinstance(value, bool) else default

    @property
    def model(self) -> str:
        """Name of the model to train."""
        paths = ("model.name", "orchestrator.model.name", "trainer.model.name", "model")
        return next((v for p in paths if isinstance(v := self.at(p), str)), DEFAULT_MODEL)

    @property
    def name(self) -> str:
        """Name of the run."""
        paths = ("name", "run.name", "monitors.wandb.name")
        return next((v for p in paths if isinstance(v := self.at(p), str)), self.path.stem)

    @property
    def max_steps(self) -> int | None:
        """Number of training steps; None if the file sets none."""
        return self.number("max_steps") or self.number("orchestrator.max_steps") or self.number("trainer.max_steps")

    @property
    def batch_size(self) -> int | None:
        """Rollouts per step, or packed sequences per step in fine-tuning. None if the batch is counted in tokens."""
        if self.shape == "sft":
            return self.number("data.batch_size", DEFAULT_BATCH)
        tokens = self.number("orchestrator.token_batch_size")
        return self.number("orchestrator.batch_size", None if tokens else DEFAULT_BATCH)

    @property
    def group_size(self) -> int:
        """The smallest group size of the training sources: the number of rollouts of one task in a step."""
        sizes = [self.group_of(s) for s in self.sources if s.kind == "train"]
        return min(sizes) if sizes else self.number("orchestrator.group_size", 1) or 1

    def group_of(self, source: ConfigSource) -> int:
        """Return the group size of a source: its own, or else the orchestrator's."""
        shared = self.number("orchestrator.group_size", 1) or 1
        own = source.table.get("group_size")
        if isinstance(own, float) and own.is_integer():
            return int(own)  # pydantic accepts 8.0 as a whole number
        return own if isinstance(own, int) and not isinstance(own, bool) else shared

    @property
    def lora(self) -> bool:
        """Whether the run trains a LoRA adapter."""
        return isinstance(self.at("trainer.model.lora"), Mapping) or self.at("trainer.model.lora") is True

    @property
    def lr(self) -> float | None:
        """Learning rate; None if the file sets none."""
        value = self.at("trainer.optim.lr")
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    @property
    def seq_len(self) -> int:
        """Most tokens of one training sample. The orchestrator cuts longer samples."""
        return self.number("orchestrator.seq_len") or self.number("seq_len") or 2048

    @property
    def max_completion_tokens(self) -> int | None:
        """Token limit of one reply in training; None if the file sets none."""
        return self.number("orchestrator.train.sampling.max_completion_tokens")

    @property
    def train_gpus(self) -> int:
        """Number of training GPUs, on all nodes."""
        if self.at("deployment.type") == "multi_node":
            return (self.number("deployment.num_train_nodes", 1) or 1) * self._per_node
        gpus = self.number("deployment.num_train_gpus", 1)
        return 1 if gpus is None else gpus

    @property
    def infer_gpus(self) -> int:
        """Number of inference GPUs, on all nodes."""
        if self.at("deployment.type") == "multi_node":
            nodes = self.number("deployment.num_infer_nodes", self.replica_nodes)
            replicas = self.number("deployment.num_infer_replicas", 1) or 1
            return (1 if nodes is None else nodes) * replicas * self._per_node
        gpus = self.number("deployment.num_infer_gpus", 1)
        return 1 if gpus is None else gpus

    @property
    def replica_nodes(self) -> int:
        """Number of nodes of one inference replica, as prime-rl derives it from `inference.deployment`."""
        if not isinstance(self.at("inference"), Mapping):
            return 0
        table = "inference.deployment"
        kind = self.at(f"{table}.type")
        if kind == "multi_node":
            return self.number(f"{table}.num_nodes", 2) or 0
        if kind == "disaggregated":
            return sum(
                (self.number(f"{table}.{part}_nodes_per_replica", 1) or 0)
                * (self.number(f"{table}.num_{part}_replicas", 1) or 0)
                for part in ("prefill", "decode")
            )
        return 1

    @property
    def _per_node(self) -> int:
        return self.number("deployment.gpus_per_node", 8) or 8

    @property
    def too_few_gpus(self) -> Iterator[tuple[str, str, str]]:
        """Each key of the deployment whose number is too low: the key, what is wrong with the number and the fix.

        The schema of prime-rl gives most of these keys no least number, and the price of a run is proportional to them.
        """
        for key, least in _LEAST_OF_DEPLOYMENT.items():
            number = self.number(key)
            if number is not None and number < least:
                wrong = f"{key} is {number}, and a run has at least {least}"
                yield key, wrong, f"Set {key} to {max(1, least)} or more."

    @property
    def gpus(self) -> int:
        """Number of all GPUs of the run. Fine-tuning has no inference GPUs."""
        return self.train_gpus + (0 if self.shape == "sft" else self.infer_gpus)

    @property
    def gpu_type(self) -> str | None:
        """The platform's name of the GPU type; None if the platform chooses it."""
        gpu_type = self.at("gpu_type")
        return gpu_type if isinstance(gpu_type, str) else None

    @property
    def train_sources(self) -> tuple[ConfigSource, ...]:
        """The sources to train on."""
        return tuple(s for s in self.sources if s.kind == "train")

    @property
    def eval_sources(self) -> tuple[ConfigSource, ...]:
        """The sources that are evaluated during the run."""
        return tuple(s for s in self.sources if s.kind == "eval")


def read_config(path: Path) -> TrainingConfig:
    """Read and parse a config file.

    Raises BadInput if the file cannot be read, is not UTF-8 or is no valid TOML, with the line and column of the fault.
    """
    try:
        # A pipe would keep the whole server waiting for its other end.
        if not (path.is_file() or path.is_dir()) and path.exists():
            raise OSError(errno.EINVAL, "it is no regular file")
        raw = path.read_bytes()
    except IsADirectoryError as error:
        raise BadInput(
            f"{path.name} is a folder",
            fix=Fix(
                "Give the path of one TOML file; ",
                NamedCall("write_training_config", based_on=...).shown("write_training_config(based_on=FOLDER)"),
                " makes one of train.toml, orch.toml and infer.toml.",
            ),
            code="config-unreadable",
        ) from error
    except OSError as error:
        raise BadInput(
            f"{path.name} cannot be read: {error.strerror}",
            fix=Fix("Give the path of a TOML file, e.g. one that ", NamedCall("write_training_config"), " wrote."),
            code="config-unreadable",
        ) from error
    if len(raw) > _LIMIT:
        raise BadInput(
            f"{path.name} has {len(raw):,} bytes, which is no training config",
            fix="Give the path of a prime-rl TOML file.",
            code="config-unreadable",
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise BadInput(
            f"{path.name} is not UTF-8: byte {raw[error.start]:#04x} at line {line}, column {column}",
            fix="Save the file as UTF-8 and check it again.",
            code="config-not-utf8",
            where=f"{path.name}:{line}:{column}",
        ) from error
    return parse_config(text, path)


def parse_config(text: str, path: Path) -> TrainingConfig:
    """Parse the text of a config. `path` is not read; it names the config. Raises BadInput for invalid TOML."""
    table = _table(text, path)
    shape = _shape(table)
    match = _TARGET_LINE.search(text)
    target: ConfigTarget = "self-managed" if match and match[1] == "self-managed" else "hosted"
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return TrainingConfig(path, digest, text, table, shape, target, tuple(sources_of_table(table, shape)))


def text_with_name(text: str, name: str) -> str:
    """The text of a config with its top-level `name` set and no other byte changed. Raises BadInput."""
    first_table = _TABLE.search(text)
    head = first_table.start() if first_table else len(text)
    match = _NAME_LINE.search(text, 0, head)
    set_name = f'name = "{name}"\n'
    changed = f'{text[: match.start(2)]}"{name}"{text[match.end(3) + 1 :]}' if match else set_name + text
    try:
        same = tomllib.loads(changed) == {**tomllib.loads(text), "name": name}
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise BadInput(
            "the config's top-level name cannot be set without touching the rest",
            fix='Write it plainly at the top: name = "my-run".',
            code="config-bad-name",
        )
    return changed


def value_at(table: Any, *path: str) -> Any:
    """Return the value at a path of keys in nested tables, or None."""
    for part in path:
        table = table.get(part) if isinstance(table, Mapping) else None
    return table


def taskset_identity(id: str) -> tuple[str | None, str, str | None]:
    """Return the owner, name and version of a taskset id `[owner/]name[@version]`."""
    owned_name, _, version = id.partition("@")
    owner, _, name = owned_name.rpartition("/")
    return owner or None, name, version or None


def _table(text: str, path: Path) -> dict[str, Any]:
    if text.startswith("\ufeff"):
        raise BadInput(
            f"{path.name} starts with a byte order mark, which TOML does not allow",
            fix="Save the file as UTF-8 without a byte order mark.",
            code="config-broken-toml",
            where=f"{path.name}:1:1",
        )
    try:
        table = tomllib.loads(text)
        # A key of thousands of dotted parts is read without a recursion, and no check could follow its tables.
        if nests_too_deeply(table):
            raise RecursionError
        return table
    except RecursionError:
        raise BadInput(
            f"{path.name} nests too deep to be a training config",
            fix=Fix("Write the file anew with ", NamedCall("write_training_config"), "."),
            code="config-broken-toml",
        ) from None
    except tomllib.TOMLDecodeError as error:
        match = _POSITION.search(str(error))
        line, column = (int(match[1]), int(match[2])) if match and match[1] else (text.count("\n") + 1, 1)
        source_line = text.splitlines()[line - 1] if line <= len(text.splitlines()) else ""
        reason = _POSITION.sub("", str(error)).strip()
        raise BadInput(
            f"{path.name} is not valid TOML: line {line}, column {column}: {reason}",
            fix=f"Mend line {line}, which reads {quote(source_line, limit=120)}."
            if source_line.strip()
            else "The file ends too early; close what is still open.",
            code="config-broken-toml",
            where=f"{path.name}:{line}:{column}",
        ) from error


def _shape(table: Mapping[str, Any]) -> ConfigShape:
    # The same conditions as in `prime train` (commands/rl.py `_looks_like_lora`, `_looks_like_sft`).
    if isinstance(table.get("model"), str) or isinstance(table.get("env"), list):
        return "shared-lora"
    if "data" in table and "trainer" not in table and "orchestrator" not in table:
        return "sft"
    return "rl"


def sources_of_table(table: Mapping[str, Any], shape: ConfigShape = "rl") -> Iterator[ConfigSource]:
    """Yield the training and eval sources of a parsed config."""
    orchestrator = table if shape == "sft" else table.get("orchestrator")
    for kind in ("train", "eval"):
        block = orchestrator.get(kind) if isinstance(orchestrator, Mapping) else None
        entries = block.get("source") if isinstance(block, Mapping) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Mapping):
                yield _source("train" if kind == "train" else "eval", entry)


def _source(kind: Literal["train", "eval"], entry: Mapping[str, Any]) -> ConfigSource:
    env = as_mapping(entry.get("env"))
    taskset = as_mapping(env.get("taskset"))
    agent = as_mapping(env.get("agent"))
    id = str(taskset.get("id") or env.get("id") or "")
    owner, env_name, version = taskset_identity(id)
    harness, runtime = (
        as_mapping(agent.get("harness")).get("id"),
        as_mapping(agent.get("runtime")).get("type"),
    )
    return ConfigSource(
        kind=kind,
        name=str(entry.get("name") or id),
        id=id,
        owner=owner,
        env_name=env_name,
        version=version,
        args={k: v for k, v in taskset.items() if k != "id"},
        harness=str(harness) if harness is not None else None,
        runtime=str(runtime) if runtime is not None else None,
        table=entry,
    )
