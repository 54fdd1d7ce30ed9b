"""What a config needs on one's own GPUs and not on the platform's, above all where a single one does everything.

Source of the single-GPU values: the seed's section of that name (one H100 80GB, LoRA), in the keys of prime-rl
559b4477 (21 August 2026). That its launcher takes the same GPU twice is read from its code
(src/prime_rl/utils/process.py: CUDA_VISIBLE_DEVICES=0,0 gives inference the first and the trainer the second).
"""

from __future__ import annotations

from prime_lab_mcp.lab.configs.draft import Draft
from prime_lab_mcp.lab.configs.plan import Plan

SHARED_MEMORY = 0.5
"""Share of the GPU that vLLM takes: what it takes it keeps, and the trainer has the rest."""
_OFFLOAD = "trainer.model.fsdp_cpu_offload"


def fit(draft: Draft, plan: Plan) -> None:
    """Adjust a draft for `self-managed`; a hosted one is left alone."""
    if plan.choices.target != "self-managed":
        return
    if plan.lora_rank and draft.get(_OFFLOAD):
        draft.put(_OFFLOAD, False, "never with LoRA: parameters end up on different devices")
    if shares_one(plan.choices.gpus):
        _share(draft, int(plan.seq_len.value))


def shares_one(gpus: int | None) -> bool:
    """Whether trainer and inference have one GPU between them."""
    return gpus == 1


def _share(draft: Draft, seq_len: int) -> None:
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
