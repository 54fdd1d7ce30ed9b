"""Whether a model is ready to be trained, point by point, and the memory estimate against prime-rl's benchmark."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.models.memory import fewest_gpus, gpu_memory, inference_memory, is_hopper, training_memory
from prime_lab_mcp.lab.models.readiness import ReadinessPoint, readiness_points, readiness_verdict, readiness_words
from prime_lab_mcp.lab.models.registry import find_model


def point(name: str, code: str, **run: Any) -> ReadinessPoint:
    found = [p for p in readiness_points(find_model(name), **run) if p.code == code]
    assert found, f"no {code}"
    return max(found, key=lambda p: ("ok", "doubt", "no").index(p.verdict))


def codes(name: str, **run: Any) -> set[str]:
    return {p.code for p in readiness_points(find_model(name), **run) if p.verdict != "ok"}


def test_a_listed_text_model_with_renderer_and_room_is_ready_in_every_point() -> None:
    points = readiness_points(find_model("Qwen/Qwen3-4B-Instruct-2507"), listed=True, gpu_type="H200_141GB", tools=True)
    assert (readiness_verdict(points), readiness_words(points)) == ("ok", "ready")
    assert {p.as_finding() for p in points} == {None}


def test_a_closed_model_is_told_so_and_nothing_else() -> None:
    points = readiness_points(find_model("openai/gpt-5-nano"), listed=False)
    assert [(p.code, p.verdict) for p in points] == [("model-closed", "no")]
    assert readiness_words(points) == "closed"


@pytest.mark.parametrize(
    ("listed", "hosted", "expected"), [(True, True, "ok"), (False, True, "no"), (None, True, "doubt")]
)
def test_the_platforms_list_decides_for_hosted_runs(listed: bool | None, hosted: bool, expected: str) -> None:
    assert point("Qwen/Qwen3-8B", "model-not-offered", listed=listed, hosted=hosted).verdict == expected


def test_the_platforms_list_says_nothing_about_gpus_of_ones_own() -> None:
    assert codes("Qwen/Qwen3-8B", listed=None, hosted=False) == set()


def test_a_platforms_spelling_is_sent_to_the_published_name() -> None:
    told = point("z-ai/glm-4.5-air", "model-name-unpublished", listed=True)
    assert told.verdict == "doubt"
    assert "zai-org/GLM-4.5-Air" in told.do
    assert point("Qwen3-8B", "model-name-unpublished", listed=True).verdict == "no"


def test_a_renderer_is_found_named_or_missing() -> None:
    assert point("Qwen/Qwen2.5-7B-Instruct", "model-no-renderer").verdict == "no"
    assert point("Qwen/Qwen2.5-7B-Instruct", "model-no-renderer", renderer="default").verdict == "ok"
    assert point("Qwen/Qwen2.5-7B-Instruct", "model-no-renderer", renderer="auto").verdict == "no"
    assert point("Qwen/Qwen3-8B", "model-no-renderer").verdict == "ok"


def test_the_fallback_trainer_is_told_with_the_key_that_makes_it_start() -> None:
    told = point("Qwen/Qwen2.5-7B-Instruct", "model-fallback")
    assert (told.verdict, told.where) == ("doubt", "trainer.model.attn")
    assert 'attn = "flash_attention_2"' in told.do
    assert point("somebody/new-model", "model-fallback").verdict == "doubt"
    assert point("openai/gpt-oss-20b", "model-fallback").verdict == "ok"


@pytest.mark.parametrize(
    ("name", "configured", "expected"),
    [
        ("Qwen/Qwen3.5-4B", True, "ok"),
        ("Qwen/Qwen3.5-4B", False, "ok"),
        ("Qwen/Qwen3-VL-8B-Instruct", False, "ok"),
        ("Qwen/Qwen3-VL-8B-Instruct", True, "no"),
        ("google/gemma-3-27b-it", False, "doubt"),
        ("Qwen/Qwen3-8B", True, "no"),
        ("somebody/new-model", True, "doubt"),
    ],
)
def test_vision_models_train_on_text_or_on_images_as_configured(name: str, configured: bool, expected: str) -> None:
    assert point(name, "model-vision", vision_configured=configured).verdict == expected


def test_tools_need_a_parser_that_prime_rl_finds_or_is_told() -> None:
    assert "model-no-tool-parser" not in codes("meta-llama/Llama-3.2-3B-Instruct")
    told = point("meta-llama/Llama-3.2-3B-Instruct", "model-no-tool-parser", tools=True)
    assert (told.verdict, "llama3_json" in told.do) == ("doubt", True)
    assert point("somebody/new-model", "model-no-tool-parser", tools=True).verdict == "doubt"


def test_faults_that_are_about_tools_are_raised_only_with_tools() -> None:
    assert "model-known-fault" not in codes("Qwen/Qwen3-30B-A3B-Instruct-2507")
    assert "2026-01-04" in point("Qwen/Qwen3-30B-A3B-Instruct-2507", "model-known-fault", tools=True).why


def test_what_does_not_fit_is_told_with_both_numbers_and_what_would_help() -> None:
    told = point("openai/gpt-oss-120b", "model-too-big", gpu_type="H100_80GB", train_gpus=2, infer_gpus=1)
    assert told.verdict == "no"
    assert "GiB" in told.why
    assert "more" in told.do
    assert "model-too-big" not in codes("openai/gpt-oss-20b", gpu_type="H100_80GB", train_gpus=2, listed=True)


def test_full_fine_tuning_may_keep_adam_in_cpu_memory_and_lora_needs_less() -> None:
    run = {"gpu_type": "H100_80GB", "train_gpus": 4, "infer_gpus": 4, "listed": True}
    told = [
        p
        for p in readiness_points(find_model("Qwen/Qwen3-30B-A3B-Instruct-2507"), lora=False, **run)
        if "training" in p.why
    ]
    assert [(p.verdict, "CPU memory" in p.why) for p in told] == [("ok", True)]
    assert "model-too-big" not in codes("Qwen/Qwen3-30B-A3B-Instruct-2507", lora=True, **run)


def test_an_unknown_size_or_gpu_is_a_doubt_and_not_a_guess() -> None:
    assert (
        point("openai/some-model".replace("openai", "somebody"), "model-too-big", gpu_type="H100_80GB").verdict
        == "doubt"
    )
    assert point("Qwen/Qwen3-8B", "model-too-big", gpu_type="NOVEL").verdict == "doubt"


def test_gpt_oss_trains_on_hopper_only() -> None:
    assert point("openai/gpt-oss-20b", "model-wrong-gpu", gpu_type="A100_80GB").verdict == "no"
    assert "model-wrong-gpu" not in codes("openai/gpt-oss-20b", gpu_type="H200_141GB")
    assert "model-wrong-gpu" not in codes("Qwen/Qwen3-8B", gpu_type="A100_80GB")


def test_findings_follow_the_verdict() -> None:
    severities = {
        p.verdict: f.severity for p in readiness_points(find_model("x"), listed=None) if (f := p.as_finding())
    }
    assert severities == {"no": "blocker", "doubt": "warning"}


@pytest.mark.parametrize(
    ("gpu_type", "memory", "hopper"),
    [
        ("H100_80GB", 80, True),
        ("H200_141GB", 141, True),
        ("A100_80GB", 80, False),
        ("A100_40GB", 40, False),
        ("H200", 141, True),
        ("b200", 180, False),
        ("RTX 4090", 24, False),
        ("NOVEL", None, False),
    ],
)
def test_memory_is_read_from_the_name_of_the_type(gpu_type: str, memory: float | None, hopper: bool) -> None:
    assert (gpu_memory(gpu_type), is_hopper(gpu_type)) == (memory, hopper)


MEASURED = [
    # total, active, GPUs, state, tokens, GiB: BENCHMARKS.md of prime-rl@559b4477, 2026-02-01, RL rows with Recompute.
    (106, 12, 8, "lora", 16384, 89.7),
    (106, 12, 8, "lora", 65536, 153.6),
    (0.6, 0.6, 1, "full", 16384, 12.5),
    (0.6, 0.6, 1, "full", 65536, 19.6),
    (0.6, 0.6, 1, "lora", 16384, 5.1),
    (0.6, 0.6, 1, "lora", 65536, 11.5),
    (235, 22, 8, "lora", 16384, 161.5),
    (30.5, 3.3, 8, "full", 16384, 74.6),
    (30.5, 3.3, 8, "full", 65536, 105.4),
    (30.5, 3.3, 8, "lora", 16384, 31.6),
    (30.5, 3.3, 8, "lora", 65536, 63.7),
    (4, 4, 8, "full", 16384, 17.1),
    (4, 4, 8, "full", 65536, 36.1),
    (4, 4, 8, "lora", 16384, 10.3),
    (4, 4, 8, "lora", 65536, 28.8),
    (4, 4, 1, "lora", 16384, 23.3),
    (4, 4, 1, "lora", 65536, 42.0),
]


@pytest.mark.parametrize(("total", "active", "gpus", "state", "tokens", "gib"), MEASURED)
def test_the_estimate_meets_what_prime_rl_measured(
    total: float, active: float, gpus: int, state: str, tokens: int, gib: float
) -> None:
    assert training_memory(total, active, gpus, seq_len=tokens, state=state) == pytest.approx(gib, rel=0.12)


def test_estimates_grow_with_the_model_and_shrink_with_gpus() -> None:
    assert training_memory(8, 8, 1, seq_len=4096, state="full") > training_memory(
        8, 8, 1, seq_len=4096, state="offloaded"
    )
    assert training_memory(8, 8, 1, seq_len=4096, state="lora") > training_memory(8, 8, 2, seq_len=4096, state="lora")
    assert (
        inference_memory(70, 2, seq_len=4096)
        > inference_memory(70, 4, seq_len=4096)
        > inference_memory(8, 4, seq_len=4096)
    )
    assert fewest_gpus(8, 8, 80, seq_len=4096, state="lora") == 1
    assert fewest_gpus(235, 22, 80, seq_len=4096, state="full") is None
