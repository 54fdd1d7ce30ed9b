"""Every name of the old APIs gets a finding with its successor where it is gone, and none where it still exists."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from prime_lab_mcp.lab.environment.migration import INVENTED_NAMES, REMOVED_NAMES
from tests.lab.environment.package_texts import V0, V1, blockers, findings, told, v0

# What the API reference of verifiers 0.1 lists and verifiers 0.4.0 has no name for.
SEED = [
    "Info",
    "SamplingArgs",
    "RewardFunc",
    "ClientType",
    "RolloutInput",
    "RolloutOutput",
    "GenerateOutputs",
    "GenerateMetadata",
    "TrajectoryStep",
    "TrajectoryStepTokens",
    "RolloutTiming",
    "RolloutScore",
    "RolloutScores",
    "Environment",
    "generate",
    "generate_sync",
    "evaluate",
    "evaluate_sync",
    "get_dataset",
    "get_eval_dataset",
    "SingleTurnEnv",
    "MultiTurnEnv",
    "ToolEnv",
    "StatefulToolEnv",
    "SandboxEnv",
    "PythonEnv",
    "OpenEnvEnv",
    "TextArenaEnv",
    "ReasoningGymEnv",
    "GymEnv",
    "MCPEnv",
    "CliAgentEnv",
    "HarborEnv",
    "BrowserEnv",
    "EnvGroup",
    "Parser",
    "XMLParser",
    "ThinkParser",
    "MaybeThinkParser",
    "Rubric",
    "RubricGroup",
    "JudgeRubric",
    "MathRubric",
    "OpenAIChatCompletionsClient",
    "OpenAICompletionsClient",
    "AnthropicMessagesClient",
    "OpenAIChatCompletionsTokenClient",
    "EndpointClientConfig",
    "EvalConfig",
    "Endpoints",
    "Endpoint",
    "PRIME_PLUGIN_API_VERSION",
    "PrimeCLIPlugin",
    "get_plugin",
    "cleanup",
    "teardown",
    "load_example_dataset",
    "extract_hash_answer",
    "ensure_keys",
    "MissingKeyError",
    "setup_logging",
    "log_level",
    "quiet_verifiers",
    "print_prompt_completions_sample",
]
METHODS = {"generate", "generate_sync", "evaluate", "evaluate_sync", "get_dataset", "get_eval_dataset"}


def present() -> set[str]:
    """What the installed verifiers.v1 exports, read without importing it."""
    spec = importlib.util.find_spec("verifiers")
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).parent.joinpath("v1", "__init__.py").read_text(encoding="utf-8"))
    return {
        e.value
        for n in tree.body
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.List)
        for e in n.value.elts
        if isinstance(e, ast.Constant)
    }


def test_the_table_covers_the_seed_and_says_a_successor_for_each() -> None:
    assert set(SEED) - set(REMOVED_NAMES) == set()
    assert all(REMOVED_NAMES.values())


def test_nothing_in_the_tables_exists_in_the_installed_version() -> None:
    assert len(present()) > 50
    assert (set(REMOVED_NAMES) | set(INVENTED_NAMES)) & present() == set()


@pytest.mark.parametrize("name", sorted(set(REMOVED_NAMES) - METHODS))
def test_a_gone_name_is_a_blocker_with_its_line_on_0_4_only(tmp_path: Path, name: str) -> None:
    used = V1 + f"from verifiers import {name}\n"
    found = told(tmp_path / "new", {"thing.py": used}, "migration")
    assert [(f.severity, f.where, REMOVED_NAMES[name] in f.fix) for f in found] == [("blocker", "thing.py:12", True)]
    assert told(tmp_path / "old", v0(f"from verifiers import {name}\n" + V0), "migration") == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("from verifiers.api.v1 import Rubric\n", "verifiers.api.v1"),
        ("import verifiers.api\n", "verifiers.api"),
        ("import verifiers as old\nX = old.TaskSet\n", "old.TaskSet"),
        ("from verifiers import ChatMessage\n", "verifiers.ChatMessage"),
        ("import verifiers as old\ndef f():\n    return old.Rubric(score_fn=len)\n", "Rubric(score_fn=...)"),
    ],
)
def test_what_never_was_blocks_in_both_generations(tmp_path: Path, code: str, name: str) -> None:
    for folder, files in ((tmp_path / "v1", {"thing.py": V1 + code}), (tmp_path / "v0", v0(V0 + code))):
        assert any(f.message.startswith(f"{name} exists in no release") for f in told(folder, files, "migration"))


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import verifiers as old\nX = old.Taskset\n", True),
        ("from verifiers import Taskset\n", True),
        ("from verifiers.types import Messages\n", True),
        ("from verifiers.legacy import SingleTurnEnv\n", True),
        ("import verifiers\nX = verifiers.v1.Taskset, verifiers.__version__\n", False),
        ("from verifiers.v1.utils.loaders import load_taskset\n", False),
        ("try:\n    from verifiers.types import Messages\nexcept ImportError:\n    Messages = list\n", False),
        ("class Rubric:\n    pass\nX = Rubric()\n", False),
    ],
)
def test_on_0_4_only_verifiers_v1_exists(tmp_path: Path, code: str, found: bool) -> None:
    assert ("migration" in blockers(tmp_path, {"thing.py": V1 + code})) is found


def test_an_annotation_that_is_never_evaluated_is_no_use(tmp_path: Path) -> None:
    code = "from __future__ import annotations\n" + V1 + "import verifiers as old\ndef f() -> old.Environment: ...\n"
    assert findings(tmp_path, {"thing.py": code}) == []


ENV = "import verifiers as vf\nclass E(vf.MultiTurnEnv):\n    {body}\ndef load_environment():\n    return E()\n"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("async def env_response(self, messages, state, **kwargs):\n        return []", None),
        ("def env_response(self, messages, state, **kwargs):\n        return []", "no async"),
        ("async def env_response(self, messages):\n        return []", "messages and state"),
        ("async def env_response(self, messages, state, **kwargs):\n        return [], state", "tuple"),
        ("async def is_completed(self, messages, state, **kwargs):\n        return True", "@vf.stop"),
        ("@vf.stop\n    async def is_completed(self, state, messages=None):\n        return True", None),
        ("@vf.stop\n    async def done(self, state):\n        return True", None),
    ],
)
def test_hooks_with_signatures_of_old_releases_block(tmp_path: Path, body: str, problem: str | None) -> None:
    found = told(tmp_path, v0(ENV.format(body=body)), "migration")
    assert [f.severity for f in found] == (["blocker"] if problem else [])
    assert all(problem and problem in f.message for f in found)


def test_v0_hooks_in_a_v1_package_are_told_as_never_called(tmp_path: Path) -> None:
    code = V1 + "def load_environment(config):\n    return None\n"
    found = told(tmp_path, {"thing.py": code}, "migration")
    assert [(f.severity, f.where) for f in found] == [("warning", "thing.py:12")]
