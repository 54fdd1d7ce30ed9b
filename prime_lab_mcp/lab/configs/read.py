"""A training config as a value: what gates, rules and tools need to know of the file, whoever wrote it."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.text import quote

Shape = Literal["rl", "sft", "shared-lora"]
Target = Literal["hosted", "self-managed"]

DEFAULT_MODEL = "Qwen/Qwen3-0.6B"
DEFAULT_BATCH = 128
_TARGET_LINE = re.compile(r"^# target: (hosted|self-managed)\b", re.M)
_POSITION = re.compile(r"\(at line (\d+), column (\d+)\)|\(at end of document\)")
_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class Source:
    """One training or eval source. `id` is as written; `owner`, `env_name` and `version` are its parts."""

    kind: Literal["train", "eval"]
    name: str
    id: str
    owner: str | None
    env_name: str
    version: str | None
    args: Mapping[str, Any] = field(default_factory=dict)
    """The taskset's own keys, `id` left out."""
    harness: str | None = None
    runtime: str | None = None
    table: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hub_name(self) -> str | None:
        """`owner/name`, or None for a package that is not named by its owner."""
        return f"{self.owner}/{self.env_name}" if self.owner else None


@dataclass(frozen=True, slots=True)
class Config:
    """`sha256` is of the file's bytes. Numbers that the file leaves out are prime-rl's defaults."""

    path: Path
    sha256: str
    text: str
    table: Mapping[str, Any]
    shape: Shape
    target: Target
    sources: tuple[Source, ...]

    def at(self, dotted: str) -> Any:
        """The value under a dotted path, or None. The string "None" is prime-rl's null."""
        node: Any = self.table
        for part in dotted.split("."):
            if not isinstance(node, Mapping) or part not in node:
                return None
            node = node[part]
        return None if node == "None" else node

    def number(self, dotted: str, default: int | None = None) -> int | None:
        """A whole number under a path; the default where it is absent or no number (the schema check says so)."""
        value = self.at(dotted)
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return int(value) if whole and not isinstance(value, bool) else default

    @property
    def model(self) -> str:
        paths = ("model.name", "orchestrator.model.name", "trainer.model.name", "model")
        return next((v for p in paths if isinstance(v := self.at(p), str)), DEFAULT_MODEL)

    @property
    def name(self) -> str:
        paths = ("name", "run.name", "monitors.wandb.name")
        return next((v for p in paths if isinstance(v := self.at(p), str)), self.path.stem)

    @property
    def max_steps(self) -> int | None:
        return self.number("max_steps") or self.number("orchestrator.max_steps") or self.number("trainer.max_steps")

    @property
    def batch_size(self) -> int | None:
        """Rollouts per step; None when the batch is counted in tokens. Of fine-tuning: packed sequences per step."""
        if self.shape == "sft":
            return self.number("data.batch_size", DEFAULT_BATCH)
        tokens = self.number("orchestrator.token_batch_size")
        return self.number("orchestrator.batch_size", None if tokens else DEFAULT_BATCH)

    @property
    def group_size(self) -> int:
        """Of the orchestrator, or the smallest that a training source sets for itself."""
        sizes = [self.group_of(s) for s in self.sources if s.kind == "train"]
        return min(sizes) if sizes else self.number("orchestrator.group_size", 1) or 1

    def group_of(self, source: Source) -> int:
        shared = self.number("orchestrator.group_size", 1) or 1
        own = source.table.get("group_size")
        return own if isinstance(own, int) and not isinstance(own, bool) else shared

    @property
    def lora(self) -> bool:
        return isinstance(self.at("trainer.model.lora"), Mapping) or self.at("trainer.model.lora") is True

    @property
    def lr(self) -> float | None:
        value = self.at("trainer.optim.lr")
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    @property
    def seq_len(self) -> int:
        """What the orchestrator cuts a sample to, in tokens."""
        return self.number("orchestrator.seq_len") or self.number("seq_len") or 2048

    @property
    def max_completion_tokens(self) -> int | None:
        return self.number("orchestrator.train.sampling.max_completion_tokens")

    @property
    def train_gpus(self) -> int:
        if self.at("deployment.type") == "multi_node":
            return (self.number("deployment.num_train_nodes", 1) or 1) * self._per_node
        found = self.number("deployment.num_train_gpus", 1)
        return 1 if found is None else found

    @property
    def infer_gpus(self) -> int:
        if self.at("deployment.type") == "multi_node":
            nodes = self.number("deployment.num_infer_nodes", 1)
            replicas = self.number("deployment.num_infer_replicas", 1) or 1
            return (1 if nodes is None else nodes) * replicas * self._per_node
        found = self.number("deployment.num_infer_gpus", 1)
        return 1 if found is None else found

    @property
    def _per_node(self) -> int:
        return self.number("deployment.gpus_per_node", 8) or 8

    @property
    def gpus(self) -> int:
        """GPUs that are billed: training and inference together."""
        return self.train_gpus + (0 if self.shape == "sft" else self.infer_gpus)

    @property
    def gpu_type(self) -> str | None:
        found = self.at("gpu_type")
        return found if isinstance(found, str) else None

    @property
    def train_sources(self) -> tuple[Source, ...]:
        return tuple(s for s in self.sources if s.kind == "train")

    @property
    def eval_sources(self) -> tuple[Source, ...]:
        return tuple(s for s in self.sources if s.kind == "eval")


def read(path: Path) -> Config:
    """Parse a config file. Raises BadInput with line and column for broken TOML, and for what is no text file."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadInput(
            f"{path.name} cannot be read: {error.strerror}",
            fix="Give the path of a TOML file, e.g. one that write_training_config wrote.",
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
    return parse(text, path)


def parse(text: str, path: Path) -> Config:
    """The same for text already at hand; `path` only names it."""
    table = _table(text, path)
    shape = _shape(table)
    found = _TARGET_LINE.search(text)
    target: Target = "self-managed" if found and found[1] == "self-managed" else "hosted"
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return Config(path, digest, text, table, shape, target, tuple(_sources(table, shape)))


def identity(id: str) -> tuple[str | None, str, str | None]:
    """Owner, name and version of a taskset id `[owner/]name[@version]`."""
    rest, _, version = id.partition("@")
    owner, _, name = rest.rpartition("/")
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
        return tomllib.loads(text)
    except RecursionError:
        raise BadInput(
            f"{path.name} nests too deep to be a training config",
            fix="Write the file anew with write_training_config.",
            code="config-broken-toml",
        ) from None
    except tomllib.TOMLDecodeError as error:
        found = _POSITION.search(str(error))
        line, column = (int(found[1]), int(found[2])) if found and found[1] else (text.count("\n") + 1, 1)
        shown = text.splitlines()[line - 1] if line <= len(text.splitlines()) else ""
        reason = _POSITION.sub("", str(error)).strip()
        raise BadInput(
            f"{path.name} is not valid TOML: line {line}, column {column}: {reason}",
            fix=f"Mend line {line}, which reads {quote(shown, limit=120)}." if shown.strip()
            else "The file ends too early; close what is still open.",
            code="config-broken-toml",
            where=f"{path.name}:{line}:{column}",
        ) from error  # fmt: skip


def _shape(table: Mapping[str, Any]) -> Shape:
    # The tests `prime train` itself makes (commands/rl.py `_looks_like_lora`, `_looks_like_sft`).
    if isinstance(table.get("model"), str) or isinstance(table.get("env"), list):
        return "shared-lora"
    if "data" in table and "trainer" not in table and "orchestrator" not in table:
        return "sft"
    return "rl"


def _sources(table: Mapping[str, Any], shape: Shape) -> Iterator[Source]:
    orchestrator = table if shape == "sft" else table.get("orchestrator")
    for kind in ("train", "eval"):
        block = orchestrator.get(kind) if isinstance(orchestrator, Mapping) else None
        entries = block.get("source") if isinstance(block, Mapping) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Mapping):
                yield _source("train" if kind == "train" else "eval", entry)


def _source(kind: Literal["train", "eval"], entry: Mapping[str, Any]) -> Source:
    env = _mapping(entry.get("env"))
    taskset = _mapping(env.get("taskset"))
    agent = _mapping(env.get("agent"))
    id = str(taskset.get("id") or env.get("id") or "")
    owner, env_name, version = identity(id)
    harness, runtime = _mapping(agent.get("harness")).get("id"), _mapping(agent.get("runtime")).get("type")
    return Source(
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


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
