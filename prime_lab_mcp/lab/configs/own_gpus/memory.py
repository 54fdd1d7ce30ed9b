"""How much memory a config asks of its fullest GPU, by the one estimate of `lab/models/memory.py`."""

from __future__ import annotations

from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.models import find, memory


def needed_gb(config: Config, *, shared: bool = False) -> float | None:
    """Gigabytes; `shared`: one GPU trains and serves. None where the size of the model is not known.

    Adam's moments count as kept in CPU memory, prime-rl's default on one's own GPUs.
    """
    known = find(config.model)
    size = known.parameters
    if size is None:
        return None
    lora = config.lora or config.at("model.lora") is not None
    gpus, length = max(1, config.train_gpus), config.seq_len
    trains = memory.training(size, known.active, gpus, seq_len=length, state="lora" if lora else "offloaded")
    if config.shape == "sft":
        return trains
    parallel = max(1, config.number("inference.vllm.tensor_parallel_size", 1) or 1)
    serves = memory.inference(size, parallel, seq_len=length)
    return serves + trains if shared else max(serves, trains)
