"""Training on self-managed GPUs with prime-rl: adjusts the config, lists the commands to run, and offers of GPUs.

This module runs no command and rents no machine. It also warns about pods of the account that are billed.

Programs and flags are those of prime-rl 559b4477 (its page on training, 21 August 2026) and prime 0.18.0. The values
for a single GPU are those of this project's first runs (one H100 80GB, LoRA). prime-rl's launcher accepts the same GPU
twice: with CUDA_VISIBLE_DEVICES=0,0, inference gets the first and the trainer the second
(src/prime_rl/utils/process.py).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig, taskset_identity
from prime_lab_mcp.lab.configs.draft import ConfigDraft
from prime_lab_mcp.lab.configs.plan.decide import ConfigPlan
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models import memory
from prime_lab_mcp.lab.models.registry import find_model
from prime_lab_mcp.lab.prime.pods import GpuOffer, Pod


def needed_gb(config: TrainingConfig, *, shared: bool = False) -> float | None:
    """Return the gigabytes of memory that each GPU of the run needs; None if the model's size is unknown.

    `shared` says that one GPU both trains and serves. The estimate assumes that Adam's moments are in CPU memory, which
    is prime-rl's default on self-managed GPUs.
    """
    model = find_model(config.model)
    size = model.parameters
    if size is None:
        return None
    lora = config.lora or config.at("model.lora") is not None
    gpus, length = max(1, config.train_gpus), config.seq_len
    trains = memory.training_memory(size, model.active, gpus, seq_len=length, state="lora" if lora else "offloaded")
    if config.shape == "sft":
        return trains
    parallel = max(1, config.number("inference.vllm.tensor_parallel_size", 1) or 1)
    serves = memory.inference_memory(size, parallel, seq_len=length)
    return serves + trains if shared else max(serves, trains)


SHARED_MEMORY = 0.5
"""Share of a GPU's memory that vLLM takes if the trainer uses the same GPU."""
_OFFLOAD = "trainer.model.fsdp_cpu_offload"


def fit_to_own_gpus(draft: ConfigDraft, plan: ConfigPlan) -> None:
    """Adjust the draft of a config for self-managed GPUs. A hosted draft stays unchanged."""
    if plan.choices.target != "self-managed":
        return
    if plan.lora_rank and draft.get(_OFFLOAD):
        draft.put(_OFFLOAD, False, "never with LoRA: parameters end up on different devices")
    if shares_one_gpu(plan.choices.gpus):
        _share(draft, int(plan.seq_len.value))


def shares_one_gpu(gpus: int | None) -> bool:
    """Whether trainer and inference share one GPU."""
    return gpus == 1


def _share(draft: ConfigDraft, seq_len: int) -> None:
    draft.put("deployment.num_train_gpus", 1, "the one GPU: launch with CUDA_VISIBLE_DEVICES=0,0")
    draft.put("deployment.num_infer_gpus", 1, "the same GPU once more: prime-rl counts it for each process")
    draft.put("weight_broadcast.type", "filesystem", "NCCL needs two GPUs")
    vllm = "inference.vllm"
    if not _smaller(draft.get(f"{vllm}.gpu_memory_utilization")):
        reason = "half of the GPU; the default of 0.9 leaves the trainer nothing"
        draft.put(f"{vllm}.gpu_memory_utilization", SHARED_MEMORY, reason)
    longest = draft.get(f"{vllm}.max_model_len")
    if not isinstance(longest, int) or longest < seq_len:
        reason = "as seq_len: the context a model could have needs more cache than half a GPU holds"
        draft.put(f"{vllm}.max_model_len", seq_len, reason)
    if draft.get("trainer.model.ac.freq") != 1:
        draft.put("trainer.model.ac.freq", 1, "every layer is recomputed in the backward pass, which saves most")


def _smaller(share: object) -> bool:
    return isinstance(share, int | float) and not isinstance(share, bool) and 0 < share <= SHARED_MEMORY


INSTALL = "curl -sSL https://raw.githubusercontent.com/PrimeIntellect-ai/prime-rl/main/scripts/install.sh | bash"


@dataclass(frozen=True, slots=True)
class LaunchStep:
    """One step that a person carries out. `command` runs in prime-rl's folder, unless `why` says otherwise."""

    step: str
    command: str
    why: str

    def as_json(self) -> dict[str, str]:
        """Return the step for a report."""
        return {"step": self.step, "command": self.command, "why": self.why}


def run_steps(
    config: TrainingConfig, path: str, *, shared: bool = False, data: str | None = None
) -> tuple[LaunchStep, ...]:
    """Return the steps that start and watch a run on a machine with GPUs.

    `path` is the config in the workspace, and `data` a folder with conversations there. `shared` says that trainer and
    inference use one GPU.
    """
    program = "sft" if config.shape == "sft" else "rl"
    start = f"uv run {program} @ {shlex.quote(path)}"
    name = shlex.quote(config.name)
    return (
        LaunchStep(
            "install prime-rl", INSTALL, "clones it to ./prime-rl and installs its environment; needs an NVIDIA GPU"
        ),
        *_copied(path, data),
        *_environments(config.sources),
        *_wandb(config),
        LaunchStep("try", f"{start} --dry-run", "judges the whole config, environments too, and starts nothing"),
        LaunchStep("launch", ("CUDA_VISIBLE_DEVICES=0,0 " if shared else "") + start, _placed(config, program, shared)),
        LaunchStep("checkpoints", f"ls outputs/{name}/checkpoints", _checkpoint_summary(config)),
        LaunchStep(
            "resume",
            f"{start} --resume",
            "from the newest checkpoint of the same run.name; --resume.step N from step N; max_steps stays the total",
        ),
        LaunchStep("watch", _watched(program, name), _look_at(program)),
    )


def steps_on_pod(steps: Sequence[LaunchStep], gpus: int, offer: str | None = None) -> tuple[LaunchStep, ...]:
    """Return the steps with those for renting a pod before them and terminating it after them.

    `offer` is the id of an offer for `gpus` GPUs. A person carries out the steps; no tool of this server rents or
    terminates pods.
    """
    count = rentable_gpus(gpus)
    return (
        LaunchStep(
            "pod: list", f"prime availability list --gpu-count {count}", "prices are of the whole pod, by the hour"
        ),
        LaunchStep(
            "pod: rent",
            f"prime pods create --id {shlex.quote(offer) if offer else 'OFFER_ID'} --name training",
            "a person runs it, as it is billed from then on until it is terminated",
        ),
        LaunchStep("pod: wait", "prime pods status POD_ID", "until it is ACTIVE; prime pods list has the id"),
        LaunchStep(
            "pod: enter", "prime pods ssh POD_ID", "then the steps below, in tmux: a broken line ends nothing there"
        ),
        *steps,
        LaunchStep(
            "pod: end",
            "prime pods terminate POD_ID",
            "copy the checkpoints away first; a pod left running is billed though nothing trains on it",
        ),
    )


def rentable_gpus(gpus: int) -> int:
    """Return the smallest size of a pod with at least this many GPUs: 1, 2, 4 or 8. Pods have at most 8."""
    return next(n for n in (1, 2, 4, 8) if n >= min(gpus, 8))


def _copied(path: str, data: str | None) -> Iterator[LaunchStep]:
    quoted = [shlex.quote(p) for p in (path, data) if p]
    yield LaunchStep(
        "copy",
        f"rsync -aR {' '.join(quoted)} MACHINE:prime-rl/",
        "from the workspace; every path in these commands is relative to the folder of prime-rl",
    )


def _environments(sources: Sequence[ConfigSource]) -> Iterator[LaunchStep]:
    """Yield one installation step for each environment: from the Hub if the id has an owner, else from its folder."""
    for id in dict.fromkeys(s.id for s in sources if s.id):
        owner, name, _ = taskset_identity(id)
        module = name.replace("-", "_").lower()
        check = f"uv run python -c {shlex.quote(f'import {module}')}"
        if owner:
            why = "prime-rl imports it by name; the command ends with 0 even where it fails, so the import is tried"
            yield LaunchStep("install environment", f"prime env install {shlex.quote(id)} && {check}", why)
        else:
            why = (
                f"prime-rl imports {module}; copy environments/{module} from the workspace, or install it from the Hub"
            )
            yield LaunchStep(
                "install environment", f"uv pip install environments/{shlex.quote(module)} && {check}", why
            )


def _wandb(config: TrainingConfig) -> Iterator[LaunchStep]:
    if config.at("monitors.wandb") is not None:
        yield LaunchStep(
            "W&B key", "read -rs WANDB_API_KEY && export WANDB_API_KEY", "typed in, so no file or log holds it"
        )


def _placed(config: TrainingConfig, program: str, shared: bool) -> str:
    if program == "sft":
        return f"starts torchrun by itself, on {config.train_gpus} GPU(s)"
    if shared:
        return "starts all processes; the one GPU is named twice, for inference and for the trainer"
    return f"starts all processes: inference on the first {config.infer_gpus} GPU(s), the trainer on the next"


def _checkpoint_summary(config: TrainingConfig) -> str:
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


_MOST_LISTED = 10


async def billed_pods_finding(lab: Lab) -> tuple[Finding, ...]:
    """Return a warning about the pods of the account. Empty without pods, or if the account cannot be read."""
    try:
        return running_pods_finding(await lab.prime.pods())
    except LabError:
        return ()


def running_pods_finding(pods: tuple[Pod, ...]) -> tuple[Finding, ...]:
    """Return a warning with the names and the price of these pods. Empty without pods."""
    if not pods:
        return ()
    prices = [p.price_per_hour for p in pods]
    known_prices = [p for p in prices if p is not None]
    least = "at least " if len(known_prices) < len(prices) else ""
    cost = f", {least}${sum(known_prices):.2f} per hour together" if known_prices else ", at a price that was not told"
    rows = tuple(
        {
            "id": p.id,
            "name": p.name,
            "gpu": p.gpu,
            "status": p.status,
            "price_per_hour": p.price_per_hour,
            "since": p.created_at,
        }
        for p in pods[:_MOST_LISTED]
    )
    return (
        Finding(
            "pods-running",
            "warning",
            f"{count(len(pods), 'pod')} of this account {'is' if len(pods) == 1 else 'are'} running{cost}: "
            + ", ".join(quote(p.name, limit=40) for p in pods[:3])
            + (" and more" if len(pods) > 3 else ""),
            "If nothing runs on it, ask the user to run `prime pods terminate POD_ID`; this server ends no pod.",
            rows=rows,
        ),
    )


_OFFERS = 5


@dataclass(frozen=True, slots=True)
class LaunchGuidance:
    """The instructions for a self-managed run. `data` has its steps (`launch`) and offers of GPUs (`gpu_offers`)."""

    data: dict[str, Any]
    findings: tuple[Finding, ...]


async def launch_guidance(
    lab: Lab,
    config: TrainingConfig,
    path: str,
    *,
    shared: bool = False,
    conversations: str | None = None,
    gpu_type: str | None = None,
) -> LaunchGuidance:
    """Return the steps of a self-managed run, with offers of GPUs that have enough memory.

    `path` is the config relative to the workspace, and `conversations` the folder with its data. `gpu_type` is the type
    that the caller asked for; offers of other types are listed only if there is none of that type. If the account
    cannot be read, the offers are unknown.
    """
    gpus = 1 if shared else config.gpus
    offers: list[GpuOffer] = []
    unknown: list[str] = []
    findings: list[Finding] = []

    async def ask_offers() -> None:
        try:
            offers.extend(await lab.prime.gpu_offers(rentable_gpus(gpus)))
        except LabError as error:
            unknown.append(f"{error.message}. {error.fix}")

    async def ask_pods() -> None:
        try:
            findings.extend(running_pods_finding(await lab.prime.pods()))
        except LabError:
            return  # `gpu_offers` reports that the account could not be read

    async with anyio.create_task_group() as asking:
        asking.start_soon(ask_offers)
        asking.start_soon(ask_pods)
    need = needed_gb(config, shared=shared)
    same_type = [o for o in offers if gpu_type is not None and is_same_gpu(gpu_type, o.gpu_type)]
    if gpu_type is not None and not same_type and not unknown:
        findings.append(gpu_not_free_finding(gpu_type, [o.gpu_type for o in offers], "a pod to rent"))
    fitting = [o for o in same_type or offers if need is None or o.memory_gb >= need][:_OFFERS]
    run = run_steps(config, path, shared=shared, data=conversations)
    steps = steps_on_pod(run, gpus, fitting[0].id if fitting else None)
    return LaunchGuidance(
        {"launch": _steps_as_json(steps), "gpu_offers": _offered(fitting, offers, unknown, need)}, tuple(findings)
    )


def is_same_gpu(requested: str, offered: str) -> bool:
    """Whether an offered GPU type fits the requested one. The request `H100` also fits `H100_80GB`."""
    requested, offered = requested.lower(), offered.lower()
    return offered == requested or offered.startswith(f"{requested}_")


def gpu_not_free_finding(gpu_type: str, free: Sequence[str], purpose: str) -> Finding:
    """Return the warning that a requested GPU type is not available now. `free` are the available types."""
    instead = ", ".join(list(dict.fromkeys(free))[:6])
    message = f"No {quote(gpu_type, limit=60)} is free now as {purpose}"
    message += f"; free are: {quote(instead, limit=160)}." if instead else ", nor is any other type."
    fix = 'Pass gpu_type= with a type that is free (search_hub(kind="gpu") lists those of hosted runs), or wait.'
    return Finding("config-gpu-type-open", "warning", message, fix, "gpu_type")


def _steps_as_json(steps: tuple[LaunchStep, ...]) -> list[dict[str, str]]:
    return [step.as_json() for step in steps]


def _offered(fitting: list[GpuOffer], offers: list[GpuOffer], unknown: list[str], need: float | None) -> dict[str, Any]:
    if unknown:
        return {"known": False, "why": unknown[0]}
    offered: dict[str, Any] = {"known": True, "offers": [_row(o) for o in fitting], "of": len(offers)}
    offered["needs_gb_per_gpu"] = None if need is None else round(need)
    if need is None:
        offered["note"] = "the size of the model is not known, so nothing was left out"
    return offered


def _row(offer: GpuOffer) -> dict[str, Any]:
    return {
        "id": offer.id,
        "gpu": offer.gpu_type,
        "gpus": offer.gpus,
        "memory_gb": offer.memory_gb,
        "price_per_hour": offer.price_per_hour,
        "provider": offer.provider,
        "location": offer.location,
        "stock": offer.stock,
    }
