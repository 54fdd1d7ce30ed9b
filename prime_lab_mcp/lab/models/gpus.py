"""Whether the GPUs asked for hold a model, and are of a kind that trains it."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.models import memory
from prime_lab_mcp.lab.models.known import Model
from prime_lab_mcp.lab.models.points import Point, Purpose
from prime_lab_mcp.lab.text import quote


def gpus_hold(model: Model, run: Purpose) -> Iterator[Point]:
    if run.gpu_type is None:
        return
    have = memory.gpu_memory(run.gpu_type)
    if have is None or model.parameters is None:
        lacking = "its size" if model.parameters is None else f"the memory of {quote(run.gpu_type, 60)}"
        yield Point(
            "model-too-big",
            "doubt",
            f"whether {quote(model.name, 100)} fits is not known: {lacking} is not.",
            "Compare the model's parameters with the memory of the GPUs before paying.",
            "deployment",
        )
        return
    yield _fits(model.name, "training", *_train_fit(model, run, have))
    if run.infer_gpus:
        need = memory.inference(model.parameters, run.infer_gpus, seq_len=run.seq_len)
        fit = memory.judge(need, have, memory.INFER_SHARE)
        yield _fits(model.name, "inference", fit, run.infer_gpus, "bf16 weights split over them (tensor_parallel_size)")


def _train_fit(model: Model, run: Purpose, have: float) -> tuple[memory.Fit, int, str]:
    size = model.parameters or 0.0
    states = {"lora": "LoRA"} if run.lora else {"full": "full fine-tuning", "offloaded": "Adam's state in CPU memory"}
    found: list[tuple[memory.Fit, int, str]] = []
    for state, words in states.items():
        need = memory.training(size, model.active, max(1, run.train_gpus), seq_len=run.seq_len, state=state)
        found.append((memory.judge(need, have, memory.TRAIN_SHARE), max(1, run.train_gpus), words))
    return next((f for f in found if f[0].verdict == "fits"), found[-1])


def _fits(name: str, use: str, fit: memory.Fit, gpus: int, words: str) -> Point:
    told = f"about {fit.need:g} of {fit.have:g} usable GiB on each of {gpus} {use} GPU{'s' * (gpus != 1)} ({words})"
    where = "deployment.num_train_gpus" if use == "training" else "deployment.num_infer_gpus"
    if fit.verdict == "fits":
        return Point("model-too-big", "ok", told)
    more = "LoRA instead of full fine-tuning, a shorter seq_len, " if use == "training" else ""
    return Point(
        "model-too-big",
        "no" if fit.verdict == "no" else "doubt",
        f"{quote(name, 100)} {'does not fit' if fit.verdict == 'no' else 'barely fits'}: {told}.",
        f"Give it more {use} GPUs or ones with more memory ({more}or a smaller model).",
        where,
    )


def gpu_kind(model: Model, run: Purpose) -> Iterator[Point]:
    if model.hopper and run.gpu_type is not None and not memory.is_hopper(run.gpu_type):
        yield Point(
            "model-wrong-gpu",
            "no",
            f"prime-rl trains {model.architecture} on Hopper GPUs only (H100, H200), and {quote(run.gpu_type, 60)} is "
            "none.",
            "Choose an H100 or H200 type: gpu_type.",
            "gpu_type",
        )
