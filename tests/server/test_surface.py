"""The public surface: names, sizes and annotations of what a client lists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.app import INSTRUCTIONS, build_server
from prime_lab_mcp.server.arguments import OUTPUT_SCHEMA
from prime_lab_mcp.server.tool_descriptions import SURFACE, describe
from prime_lab_mcp.tools.registry import TOOLS
from prime_lab_mcp.tools.tool import PlannedTool
from tests.server.surface import FOLDER, as_text, described, listed
from tests.support.laws import every

ROOT = Path(__file__).parents[2]
NAMES = [tool.name for tool in TOOLS]
MAIN_LINE = [
    "preflight",
    "inspect_dataset",
    "create_environment",
    "check_environment",
    "test_reward",
    "run_eval",
    "check_reward_distribution",
    "push_environment",
    "write_training_config",
    "check_training_config",
    "submit_training",
    "watch_run",
]
TOOL_BUDGET, ALL_BUDGET, OUTPUT_BUDGET = 350, 4_500, 100
"""Tokens, counted as characters / 4: every token of a definition is paid by every conversation that lists the tools."""


def tokens(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) // 4


def model_facing(index: int) -> dict[str, object]:
    shown = describe(TOOLS[index])
    return {"name": shown.name, "description": shown.description, "inputSchema": shown.input_schema}


def test_tool_names_are_unique_and_the_main_line_is_in_its_order() -> None:
    assert len(set(NAMES)) == len(NAMES)
    positions = [NAMES.index(name) for name in MAIN_LINE]
    assert positions == sorted(positions)


def test_definitions_stay_within_the_token_budgets(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {name: tokens(model_facing(index)) for index, name in enumerate(NAMES)}
    with capsys.disabled():
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        print(f"\ntokens per tool: {listed}; all {sum(sizes.values())} of {ALL_BUDGET}; output {tokens(OUTPUT_SCHEMA)}")
    assert {name: size for name, size in sizes.items() if size > TOOL_BUDGET} == {}
    assert sum(sizes.values()) <= ALL_BUDGET
    assert tokens(OUTPUT_SCHEMA) <= OUTPUT_BUDGET


def differences(now: Mapping[str, Any], folder: Path) -> list[str]:
    """The files of a folder that do not say what they should, or that are missing or left over."""
    stored = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    return sorted(name for name in {*now, *stored} if name not in now or as_text(now[name]) != stored.get(name))


def test_the_stored_descriptions_are_those_of_the_tools() -> None:
    """After a deliberate change run `python -m tests.server.surface` and read the difference."""
    assert differences(described(), SURFACE) == []


@pytest.mark.anyio
async def test_what_a_client_lists_is_what_the_files_of_the_surface_say(lab: Lab) -> None:
    assert differences(await listed(lab), FOLDER) == []
    assert [tool.model_dump() for tool in await build_server(lab).list_tools()] == [
        describe(tool).model_dump() for tool in TOOLS
    ]


def test_listing_the_tools_imports_none_of_their_bodies() -> None:
    program = (
        "import sys, anyio\n"
        "from prime_lab_mcp.server.tool_descriptions import stored_descriptions\n"
        "import prime_lab_mcp.server.app\n"
        "print(len(stored_descriptions()), sorted(m for m in sys.modules if m.startswith('prime_lab_mcp.tools.')))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == f"{len(TOOLS)} []"


KEYWORDS = {
    *("type", "description", "properties", "required", "items", "enum", "default", "anyOf"),
    *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern"),
}
"""The JSON schema keywords that google-genai 2.34 and 3.4 convert. No vendor converts fewer."""


def keywords(schema: object) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(keywords, schema))
    if not isinstance(schema, dict):
        return set()
    inner = [value for key, value in schema.items() if key not in ("properties", "default", "enum", "required")]
    return set(schema) | keywords(inner) | keywords(list(schema.get("properties", {}).values()))


@every("index", range(len(TOOLS)), ids=NAMES)
def test_schemas_use_what_every_converter_takes_and_hold_no_titles_or_nulls(index: int) -> None:
    schema = describe(TOOLS[index]).input_schema
    assert keywords(schema) <= KEYWORDS
    assert schema["type"] == "object"
    text = json.dumps(schema)
    assert '"type": "null"' not in text
    assert '"default": null' not in text
    assert not [name for name, field in schema["properties"].items() if "title" in field]
    assert not any(key in schema for key in ("anyOf", "oneOf", "allOf"))


@every("index", range(len(TOOLS)), ids=NAMES)
def test_annotations_say_what_a_tool_does(index: int) -> None:
    tool, hints = TOOLS[index], describe(TOOLS[index]).annotations
    assert hints is not None
    assert hints.read_only_hint == (tool.effect == "reads")
    if tool.effect in ("publishes", "spends"):
        assert hints.destructive_hint
        assert hints.open_world_hint
        assert isinstance(tool, PlannedTool)


OTHERS = frozenset(
    (
        "active_configs",
        "by_archetype",
        "checkpoint_id",
        "inference_gpu_ids",
        "learning_rate",
        "lora_alpha",
        "lora_name",
        "mask_truncated_completions",
        "max_inflight_rollouts",
        "oversampling_factor",
        "pre_batch_filters",
        "trainer_gpu_ids",
        "zero_truncated_completions",
        "cluster_name",
        "check_same_thread",
        "set_progress_handler",
        "load_dataset",
        "max_num_batched_tokens",
        "max_num_seqs",
        "run_config",
    )
)
"""Names of an earlier platform that guides explain, and of other libraries."""


def test_texts_name_only_tools_that_exist() -> None:
    texts = [INSTRUCTIONS, *(tool.description for tool in TOOLS)]
    pages = References().pages()
    texts += [page.text for page in pages if page.topic.startswith("guide/")]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "prime_lab_mcp/prompts").glob("*.md")]
    pattern = r"`([a-z]+(?:_[a-z]+)+)(?:\(|`)"
    known = {*NAMES, *(name for tool in TOOLS for name in tool.args.model_fields)}
    # Names of verifiers, of prime-rl and of result data stand in the references.
    allowed = known | {
        w for page in pages if page.topic.startswith("reference/") for w in re.findall(r"\w+", page.text)
    }
    allowed |= {path.parent.name for path in (ROOT / "prime_lab_mcp/resources/templates").glob("*/pyproject.toml")}
    allowed |= {path.parent.name for path in (ROOT / "environments").glob("*/pyproject.toml")}
    allowed |= OTHERS
    allowed |= {path.stem for path in (ROOT / "prime_lab_mcp/prompts").glob("*.md")}
    named = {name for text in texts for name in re.findall(pattern, text)}
    assert sorted(named - allowed) == []
