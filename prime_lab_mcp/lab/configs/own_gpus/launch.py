"""The commands of a run on one's own GPUs, in order and as data: nothing here runs one.

Programs and flags are those of prime-rl 559b4477 (docs/training.md, 21 August 2026) and prime 0.18.0.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.configs.read import Config, Source, identity

INSTALL = "curl -sSL https://raw.githubusercontent.com/PrimeIntellect-ai/prime-rl/main/scripts/install.sh | bash"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing for a person to do. `command` is for a shell in the folder of prime-rl, unless `why` says otherwise."""

    step: str
    command: str
    why: str

    def as_json(self) -> dict[str, str]:
        return {"step": self.step, "command": self.command, "why": self.why}


def run_steps(config: Config, path: str, *, shared: bool = False, data: str | None = None) -> tuple[Step, ...]:
    """From an installed GPU machine to a run that is watched. `path` is the config in the workspace, `data` a folder
    of conversations there; `shared`: trainer and inference have one GPU between them."""
    program = "sft" if config.shape == "sft" else "rl"
    start = f"uv run {program} @ {shlex.quote(path)}"
    name = shlex.quote(config.name)
    return (
        Step("install prime-rl", INSTALL, "clones it to ./prime-rl and installs its environment; needs an NVIDIA GPU"),
        *_copied(path, data),
        *_environments(config.sources),
        *_wandb(config),
        Step("try", f"{start} --dry-run", "judges the whole config, environments too, and starts nothing"),
        Step("launch", ("CUDA_VISIBLE_DEVICES=0,0 " if shared else "") + start, _placed(config, program, shared)),
        Step("checkpoints", f"ls outputs/{name}/checkpoints", _kept(config)),
        Step(
            "resume", f"{start} --resume",
            "from the newest checkpoint of the same run.name; --resume.step N from step N; max_steps stays the total",
        ),
        Step("watch", _watched(program, name), _look_at(program)),
    )  # fmt: skip


def on_a_pod(steps: Sequence[Step], gpus: int, offer: str | None = None) -> tuple[Step, ...]:
    """The same steps with renting a machine before them and giving it back after, for who has none: `offer` is the id
    of one. A person does that by hand; the tools of this server create and end no pod."""
    count = rentable(gpus)
    return (
        Step("pod: list", f"prime availability list --gpu-count {count}", "prices are of the whole pod, by the hour"),
        Step(
            "pod: rent", f"prime pods create --id {shlex.quote(offer) if offer else 'OFFER_ID'} --name training",
            "a person runs it, as it is billed from then on until it is terminated",
        ),
        Step("pod: wait", "prime pods status POD_ID", "until it is ACTIVE; prime pods list has the id"),
        Step("pod: enter", "prime pods ssh POD_ID", "then the steps below, in tmux: a broken line ends nothing there"),
        *steps,
        Step(
            "pod: end", "prime pods terminate POD_ID",
            "copy the checkpoints away first; a pod left running is billed though nothing trains on it",
        ),
    )  # fmt: skip


def rentable(gpus: int) -> int:
    """The least number of GPUs that pods are offered with: 1, 2, 4 or 8."""
    return next(n for n in (1, 2, 4, 8) if n >= min(gpus, 8))


def _copied(path: str, data: str | None) -> Iterator[Step]:
    named = [shlex.quote(p) for p in (path, data) if p]
    yield Step(
        "copy", f"rsync -aR {' '.join(named)} MACHINE:prime-rl/",
        "from the workspace; every path in these commands is relative to the folder of prime-rl",
    )  # fmt: skip


def _environments(sources: Sequence[Source]) -> Iterator[Step]:
    """Each environment once: from the Hub by its full name, else from its folder."""
    for id in dict.fromkeys(s.id for s in sources if s.id):
        owner, name, _ = identity(id)
        module = name.replace("-", "_").lower()
        check = f"uv run python -c {shlex.quote(f'import {module}')}"
        if owner:
            why = "prime-rl imports it by name; the command ends with 0 even where it fails, so the import is tried"
            yield Step("install environment", f"prime env install {shlex.quote(id)} && {check}", why)
        else:
            why = (
                f"prime-rl imports {module}; copy environments/{module} from the workspace, or install it from the Hub"
            )
            yield Step("install environment", f"uv pip install environments/{shlex.quote(module)} && {check}", why)


def _wandb(config: Config) -> Iterator[Step]:
    if config.at("monitors.wandb") is not None:
        yield Step("W&B key", "read -rs WANDB_API_KEY && export WANDB_API_KEY", "typed in, so no file or log holds it")


def _placed(config: Config, program: str, shared: bool) -> str:
    if program == "sft":
        return f"starts torchrun by itself, on {config.train_gpus} GPU(s)"
    if shared:
        return "starts all processes; the one GPU is named twice, for inference and for the trainer"
    return f"starts all processes: inference on the first {config.infer_gpus} GPU(s), the trainer on the next"


def _kept(config: Config) -> str:
    if config.at("ckpt") is None:
        return "none: without [ckpt] nothing is saved; add --ckpt --ckpt.interval 25 to the launch"
    every = config.number("ckpt.interval")
    if every is None:
        return "one at the end; add --ckpt.interval N to the launch for more"
    return f"step_N every {every} steps; --ckpt.interval and --ckpt.keep-last change that at the launch"


def _watched(program: str, name: str) -> str:
    logs = "{trainer,orchestrator,inference}" if program == "rl" else "trainer"
    return f"tail -F outputs/{name}/logs/latest/{logs}.log"


def _look_at(program: str) -> str:
    if program == "sft":
        return "loss/mean falls; metrics are in metrics.jsonl of the run's folder too"
    return "reward/all/mean rises, is_truncated and mismatch_kl stay low; environments log to envs/ beside these"
