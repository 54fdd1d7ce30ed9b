"""The registry of models: each fact dated, sizes that agree with names, and one record under every name."""

from __future__ import annotations

import re
from datetime import date

import pytest

from prime_lab_mcp.lab.configs.context import known_renderers
from prime_lab_mcp.lab.models.registry import ModelRow, find_model, load_registry
from tests.support.laws import every

REGISTRY = load_registry()
ADDRESS = re.compile(r"https://[\w.-]+/")
SHAPES = {
    "size": {"parameters", "active"},
    "context": {"tokens"},
    "price": {"input", "output"},
    "note": {"text"},
    "fault": {"text", "kind"},
}


def dated(source: str, day: str) -> bool:
    return (source in REGISTRY.sources or ADDRESS.match(source) is not None) and date(2025, 8, 1) <= date.fromisoformat(
        day
    ) <= date(2026, 12, 31)


@every("row", REGISTRY.rows, ids=lambda row: row.name)
def test_every_fact_of_a_model_has_a_source_a_date_and_the_fields_of_its_kind(row: ModelRow) -> None:
    assert row.facts
    for fact in row.facts:
        assert dated(fact.source, fact.date), fact
        if fact.what == "baseline":
            assert {"mean", "n", "environment"} <= fact.value.keys()
            shares = [fact.value[key] for key in ("mean", "low", "high") if fact.value.get(key) is not None]
            assert shares
            assert all(0 <= share <= 1 for share in shares)
        else:
            assert set(fact.value) == SHAPES[fact.what], fact
        assert fact.summary.endswith(f"({fact.date})")


def test_families_and_vendors_have_a_source_and_a_date_too() -> None:
    for family in (*REGISTRY.architectures, *REGISTRY.tool_parsers):
        assert dated(family.source, family.date), family
    for told in REGISTRY.trained.values():
        assert dated(told["source"], told["date"]), told
    for vendor in (*REGISTRY.closed, *REGISTRY.inference_only):
        assert dated(vendor.source, vendor.date), vendor
        assert vendor.listed
    assert all(date.fromisoformat(source["date"]) for source in REGISTRY.sources.values())


def test_no_name_belongs_to_two_models() -> None:
    names = [name.lower() for row in REGISTRY.rows for name in {row.name.lower(), *map(str.lower, row.names)}]
    assert sorted(names) == sorted(set(names))


@every("row", REGISTRY.rows, ids=lambda row: row.name)
def test_any_capitals_and_any_of_its_names_find_the_same_model(row: ModelRow) -> None:
    there = find_model(row.name)
    for name in (row.name.lower(), row.name.upper(), *row.names):
        found = find_model(name)
        assert (found.published, found.parameters, found.facts) == (there.published, there.parameters, there.facts)


@every("name", known_renderers())
def test_names_that_prime_rl_renders_agree_with_the_registry(name: str) -> None:
    model = find_model(name.lower())
    assert model.is_known
    assert model.renderer == known_renderers()[name]
    published = model.published or ""
    # One model is rendered under two names: what was THUDM is zai-org now.
    assert published.lower() in (name.lower(), name.lower().replace("thudm/", "zai-org/"))
    assert published in known_renderers()


def test_sizes_of_the_registry_and_of_the_name_agree_where_both_speak() -> None:
    for row in REGISTRY.rows:
        stated = re.search(r"(?<![\dx.A-Za-z])(\d+(?:\.\d+)?)B(-A(\d+)B)?", row.name)
        model = find_model(row.name)
        # gpt-oss is named after rounded sizes, Maverick after the active ones.
        if stated is None or model.parameters is None or "gpt-oss" in row.name or "Maverick" in row.name:
            continue
        assert model.parameters == pytest.approx(float(stated[1]), rel=0.1), row.name
        if stated[3]:
            assert model.active == pytest.approx(float(stated[3]), rel=0.15), row.name


@every(
    ("name", "n", "mean"),
    [
        ("openai/gpt-oss-20b", 10, 0.53),
        ("qwen/qwen3-vl-8b-instruct", 10, 0.5),
        ("mistralai/mistral-small-3.2-24b-instruct", 10, 0.363),
        ("qwen/qwen3-235b-a22b-instruct-2507", 10, 1.0),
        ("prime-intellect/intellect-3", 10, 0.925),
        ("z-ai/glm-4.5-air", 10, 0.797),
        ("openai/gpt-5-nano", 10, 0.983),
        ("arcee-ai/trinity-mini", 10, 0.21),
        ("qwen/qwen3-30b-a3b-instruct-2507", 10, 0.2),
        ("meta-llama/llama-4-maverick", 10, 0.033),
        ("allenai/olmo-3-7b-instruct", 10, 0.0),
        ("openai/gpt-4o-mini", None, 0.95),
        ("qwen/qwen3-8b", None, None),
        ("mistralai/ministral-8b-2512", None, 0.684),
    ],
)
def test_the_baselines_of_the_field_notes_are_kept_with_their_n_and_date(name: str, n: int | None, mean: float) -> None:
    (fact,) = find_model(name).facts_about("baseline")
    assert (fact.value["n"], fact.value["mean"]) == (n, mean)
    assert fact.date in ("2026-01-04", "2026-01-05")


@every(
    ("name", "architecture", "native"),
    [
        ("meta-llama/Llama-3.2-1B-Instruct", "llama", True),
        ("Qwen/Qwen3-8B", "qwen3", True),
        ("qwen/qwen3-235b-a22b-thinking-2507", "qwen3_moe", True),
        ("z-ai/glm-4.6", "glm4_moe", True),
        ("prime-intellect/intellect-3", "glm4_moe", True),
        ("arcee-ai/trinity-mini", "afmoe", True),
        ("openai/gpt-oss-120b", "gpt_oss", True),
        ("Qwen/Qwen3.5-35B-A3B", "qwen3_5_moe", True),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2", False),
        ("mistralai/mistral-nemo", "mistral", False),
        ("allenai/Olmo-3-7B-Think", "olmo3", False),
        ("google/gemma-4-31B-it", "gemma4", False),
        ("zai-org/GLM-4.7-Flash", "glm4_moe_lite", False),
        ("deepseek/deepseek-v3.2", "deepseek_v32", False),
        ("somebody/new-model", None, None),
    ],
)
def test_architectures_are_told_native_fallback_or_unknown(
    name: str, architecture: str | None, native: bool | None
) -> None:
    model = find_model(name)
    assert (model.architecture, model.native) == (architecture, native)


@every(
    ("name", "parser", "found"),
    [
        ("Qwen/Qwen3-4B-Instruct-2507", "hermes", True),
        ("Qwen/Qwen3.5-4B", "qwen3_coder", True),
        ("qwen/qwen3-coder", "qwen3_coder", True),
        ("meta-llama/Llama-3.2-3B-Instruct", "llama3_json", False),
        ("meta-llama/llama-4-maverick", "llama4_pythonic", False),
        ("z-ai/glm-4.6", "glm45", False),
        ("Qwen/Qwen2.5-7B-Instruct", "hermes", False),
        ("arcee-ai/Trinity-Large-Thinking", "qwen3_coder", True),
        ("openai/gpt-oss-20b", "openai", True),
        ("somebody/new-model", None, False),
    ],
)
def test_the_tool_parser_is_named_and_whether_prime_rl_finds_it(name: str, parser: str | None, found: bool) -> None:
    model = find_model(name)
    assert (model.tool_parser, model.parser_found) == (parser, found)


def test_closed_models_are_told_from_open_ones_of_the_same_vendor() -> None:
    assert find_model("openai/gpt-5.1-codex").closed == "OpenAI"
    assert find_model("openai/gpt-oss-20b").closed is None
    assert find_model("anthropic/claude-opus-4.5").closed == "Anthropic"
    assert find_model("google/gemini-2.5-pro").closed == "Google"
    assert find_model("google/gemma-3-27b-it").closed is None
    assert find_model("qwen/qwen3-max").closed == "Qwen"
    served = find_model("deepseek/deepseek-r1-0528")
    assert (served.closed, served.inference_only) == (None, True)
    for vendor in REGISTRY.closed:
        assert all(vendor.match.search(f"{vendor.match.pattern[1:].split('/')[0]}/{name}") for name in vendor.listed)


def test_a_name_alone_still_states_its_size() -> None:
    model = find_model("somebody/Thing-30B-A3B-Thinking")
    assert (model.parameters, model.active, model.thinks, model.is_known) == (30, 3, True, False)
