"""How much memory a run asks of each GPU, roughly: enough to leave out offers on which it could not start.

Bytes per parameter: weights in bf16 take 2; full fine-tuning keeps fp32 masters, gradients and two moments of AdamW
(16 in all, sharded over the trainer's GPUs; prime-rl moves the moments to the CPU by default, so 8 stay). What is
added for cache and activations is a judgement, not a measurement.
"""

from __future__ import annotations

from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.models import find

_CACHE_GB, TRAINER_GB = 6.0, 8.0
"""Cache of vLLM, and activations of the trainer."""
FULL_BYTES = 8


def needed_gb(config: Config, *, shared: bool = False) -> float | None:
    """Gigabytes on the fullest GPU; None where the size of the model is not known."""
    size = find(config.model).parameters
    if size is None:
        return None
    trains = (2 * size if _lora(config) else FULL_BYTES * size / max(1, config.train_gpus)) + TRAINER_GB
    if config.shape == "sft":
        return trains
    serves = 2 * size / max(1, config.number("inference.vllm.tensor_parallel_size", 1) or 1) + _CACHE_GB
    return serves + trains if shared else max(serves, trains)


def _lora(config: Config) -> bool:
    return config.lora or config.at("model.lora") is not None
