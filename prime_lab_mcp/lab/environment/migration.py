"""Finds code that uses names of verifiers that version 0.4 removed, or that never existed.

`REMOVED_NAMES` lists all names of the v0 API that 0.4.0 removed (compared with verifiers 0.3.1) with replacements.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.syntax import own_nodes
from prime_lab_mcp.lab.environment.package import EnvironmentPackage
from prime_lab_mcp.lab.state.source_code import SourceFile, dotted_name, import_aliases

_REWARDS = "@vf.reward(weight=...) methods of the Task"
_PARSE = "a regular expression over trace.last_reply"
_TRACE = "vf.Trace"
_CLIENT = "vf.EvalClientConfig"
_TURNS = "a Task with @vf.stop, and a harness or Env.run with an Interaction"
_TASKSET = "a vf.Taskset whose load() yields vf.Task objects"
_LOGGING = "the standard library's logging (verifiers is silent; vf-eval has -v)"
REMOVED_NAMES: dict[str, str] = {
    # environments
    "Environment": _TASKSET,
    "SingleTurnEnv": f"{_TASKSET}, run with the harness null (no class of its own)",
    "MultiTurnEnv": _TURNS,
    "ToolEnv": "vf.Toolset with @vf.tool methods, named by Task.toolsets",
    "StatefulToolEnv": "vf.Toolset with @vf.tool methods, named by Task.toolsets",
    "SandboxEnv": "TaskData.image and a runtime (docker, podman, prime, ...)",
    "PythonEnv": "the harness bash with a runtime",
    "EnvGroup": "several [[orchestrator.train.source]] tables in the training config",
    "OpenEnvEnv": "the built-in taskset openenv (verifiers[openenv])",
    "TextArenaEnv": "the built-in taskset textarena",
    "HarborEnv": "the built-in taskset harbor",
    "CliAgentEnv": "a vf.Harness with a runtime",
    "MCPEnv": "vf.Toolset (served over MCP)",
    "BrowserEnv": "the harness browser_use",
    "ReasoningGymEnv": f"{_TASKSET} (call reasoning_gym there)",
    "GymEnv": _TURNS,
    "DatasetBuilder": "Taskset.load()",
    # parsers and rubrics
    "Parser": _PARSE,
    "XMLParser": _PARSE,
    "ThinkParser": _PARSE,
    "MaybeThinkParser": _PARSE,
    "Rubric": _REWARDS,
    "RubricGroup": _REWARDS,
    "JudgeRubric": "vf.RubricJudge, vf.ReferenceJudge or vf.DecisionJudge in TaskConfig.judges",
    "MathRubric": "vf.verify_boxed_math_answer in a @vf.reward method",
    # types
    "Info": "typed fields of a vf.TaskData subclass",
    "SamplingArgs": "vf.SamplingConfig",
    "RewardFunc": _REWARDS,
    "GroupRewardFunc": "Env.finalize over the traces of an episode",
    "ClientType": "vf.ClientConfig",
    "RolloutInput": "vf.TaskData",
    "RolloutOutput": _TRACE,
    "GenerateOutputs": "vf.Episode",
    "GenerateMetadata": "vf.Episode",
    "TrajectoryStep": "vf.MessageNode and vf.ModelCall",
    "TrajectoryStepTokens": "vf.TurnTokens",
    "RolloutTiming": "vf.Timing",
    "RolloutScore": "vf.Reward in trace.rewards",
    "RolloutScores": "vf.Reward in trace.rewards",
    # clients and configuration
    "OpenAIChatCompletionsClient": _CLIENT,
    "OpenAICompletionsClient": _CLIENT,
    "OpenAIResponsesClient": _CLIENT,
    "AnthropicMessagesClient": _CLIENT,
    "OpenAIChatCompletionsTokenClient": "vf.TrainClientConfig (it was never exported)",
    "RendererClient": "vf.TrainClientConfig",
    "EndpointClientConfig": "vf.ClientConfig",
    "Endpoint": "vf.ClientConfig (there is no endpoints registry)",
    "Endpoints": "vf.ClientConfig (there is no endpoints registry)",
    "EvalConfig": "verifiers.v1.configs (the options of vf-eval)",
    "PRIME_PLUGIN_API_VERSION": "nothing: the plugin for prime was removed",
    "PrimeCLIPlugin": "nothing: the plugin for prime was removed",
    "get_plugin": "nothing: the plugin for prime was removed",
    # decorators and functions
    "cleanup": "Task.finalize, or the harness's cleanup",
    "teardown": "Task.finalize, or the harness's cleanup",
    "load_example_dataset": "datasets.load_dataset with a pinned revision",
    "extract_hash_answer": 'text.split("####")[-1]',
    "ensure_keys": "os.environ",
    "MissingKeyError": "KeyError of os.environ",
    "setup_logging": _LOGGING,
    "log_level": _LOGGING,
    "quiet_verifiers": _LOGGING,
    "print_prompt_completions_sample": "vf-eval, which writes traces.jsonl",
    # methods of an environment object
    "get_dataset": "vf.load_taskset(config), iterated",
    "get_eval_dataset": "vf.load_taskset(config) with a split field of your own",
    "evaluate": "the command vf-eval",
    "evaluate_sync": "the command vf-eval",
    "generate": "the command vf-eval",
    "generate_sync": "the command vf-eval",
}
"""Names that 0.4.0 removed, with their replacements."""
INVENTED_NAMES: dict[str, str] = {
    "TaskSet": "vf.Taskset",
    "ChatMessage": "vf.Message (vf.UserMessage, vf.AssistantMessage, ...)",
}
"""Names that old guides use but no release from 0.1.14 on has, with their replacements."""
_NEVER_EXISTED = "exists in no release of verifiers from 0.1.10 on"
_REMOVED = "is gone in the verifiers this package requires"
_METHODS = frozenset({"get_dataset", "get_eval_dataset", "evaluate", "evaluate_sync", "generate", "generate_sync"})
_V0_HOOKS = {
    "env_response": _TURNS,
    "setup_state": "Task.setup",
    "is_completed": "@vf.stop methods of the Task",
    "load_environment": "the Taskset in __all__ alone; arguments are fields of its TasksetConfig",
}


class _OutdatedName(NamedTuple):
    name: str
    replacement: str
    where: str
    never: bool = False
    """Whether the name never existed in verifiers."""


def migration_findings(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report names that verifiers removed, names that it never had, and v0 hooks that it no longer calls."""
    reported: set[str] = set()
    for file in package.code.files:
        for outdated in _outdated_names(file, only_v1=package.only_v1):
            if outdated.name in reported:
                continue
            reported.add(outdated.name)
            why = _NEVER_EXISTED if outdated.never else _REMOVED
            yield Finding(
                "migration",
                "blocker",
                f"{outdated.name} {why}",
                f"Use {outdated.replacement}; the prompt migrate_environment and lab://guide/migration show how.",
                outdated.where,
            )
    yield from _signatures(package)
    if package.generation.api == "v1":
        yield from _v0_hooks_in_v1(package)


def _outdated_names(file: SourceFile, *, only_v1: bool) -> Iterator[_OutdatedName]:
    for imported in file.imports():
        top, where = imported.module.split(".")[0], file.at(imported.line)
        if top != "verifiers":
            continue
        if imported.module == "verifiers.api" or imported.module.startswith("verifiers.api."):
            yield _OutdatedName(imported.module, "`import verifiers.v1 as vf`", where, never=True)
        elif imported.name in INVENTED_NAMES:
            yield _OutdatedName(f"verifiers.{imported.name}", INVENTED_NAMES[imported.name], where, never=True)
        elif only_v1 and imported.name in REMOVED_NAMES and imported.name not in _METHODS:
            yield _OutdatedName(f"verifiers.{imported.name}", REMOVED_NAMES[imported.name], where)
        elif only_v1 and not imported.guarded and _is_outside_v1(imported.module, imported.name):
            name = (
                f"{imported.module}.{imported.name}"
                if imported.name and imported.module == "verifiers"
                else imported.module
            )
            yield _OutdatedName(name, "`import verifiers.v1 as vf`, which holds all there is", where)
    yield from _attributes(file, only_v1=only_v1)
    yield from _keywords(file)


def _is_outside_v1(module: str, name: str | None) -> bool:
    """Return whether an import of verifiers is outside of `verifiers.v1`. Version 0.4.0 has no other modules."""
    if module == "verifiers":
        return name is not None and name not in ("v1", "*", "__version__")
    return not (module == "verifiers.v1" or module.startswith("verifiers.v1."))


def _attributes(file: SourceFile, *, only_v1: bool) -> Iterator[_OutdatedName]:
    aliases = {
        local: full
        for local, full in import_aliases(file, "verifiers").items()
        if full in ("verifiers", "verifiers.v1")
    }
    postponed = "from __future__ import annotations" in file.text
    notes = _annotations(file) if postponed else set()
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases):
            continue
        attribute, where = f"{node.value.id}.{node.attr}", file.at(node.lineno)
        if node.attr in INVENTED_NAMES:
            yield _OutdatedName(attribute, INVENTED_NAMES[node.attr], where, never=True)
        elif not only_v1 or node in notes:
            continue
        elif node.attr in REMOVED_NAMES and node.attr not in _METHODS:
            yield _OutdatedName(attribute, REMOVED_NAMES[node.attr], where)
        elif aliases[node.value.id] == "verifiers" and node.attr != "v1" and not node.attr.startswith("__"):
            yield _OutdatedName(attribute, "`import verifiers.v1 as vf`; the root package is empty since 0.4.0", where)


def _annotations(file: SourceFile) -> set[ast.AST]:
    """Return all nodes inside annotations. `from __future__ import annotations` keeps Python from evaluating them."""
    roots: list[ast.AST | None] = []
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            roots.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            roots.append(node.annotation)
    return {inner for root in roots if root is not None for inner in ast.walk(root)}


def _keywords(file: SourceFile) -> Iterator[_OutdatedName]:
    aliases = import_aliases(file, "verifiers")
    for name, call in file.calls():
        head = name.partition(".")[0]
        if name.rsplit(".", 1)[-1] == "Rubric" and head in aliases and any(k.arg == "score_fn" for k in call.keywords):
            yield _OutdatedName(
                "Rubric(score_fn=...)", "Rubric(funcs=[...], weights=[...])", file.at(call.lineno), never=True
            )


def _signatures(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report hooks of v0 environments that do not fit the way in which verifiers 0.1.14 calls them."""
    if package.only_v1:
        return
    for file in package.code.files:
        for kind in ast.walk(file.tree) if file.tree is not None else ():
            if not (isinstance(kind, ast.ClassDef) and any((dotted_name(b) or "").endswith("Env") for b in kind.bases)):
                continue
            for method in kind.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and (problem := _outdated_hook(method)):
                    message, fix = problem
                    yield Finding("migration", "blocker", message, fix, file.at(method.lineno))


def _outdated_hook(method: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, str] | None:
    parameters = [a.arg for a in method.args.args]
    if method.name == "env_response":
        fix = "Write `async def env_response(self, messages, state, **kwargs) -> vf.Messages` and return messages only."
        if isinstance(method, ast.FunctionDef):
            return "env_response is no async function; verifiers awaits it", fix
        if len(parameters) < 3 and method.args.vararg is None:
            return f"env_response takes ({', '.join(parameters)}); verifiers calls it with messages and state", fix
        pairs = [n for n in own_nodes(method) if isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple)]
        if pairs:
            return "env_response returns a tuple, as before 0.1.6; verifiers takes the messages only", fix
    if method.name == "is_completed":
        decorated = {
            (dotted_name(d.func if isinstance(d, ast.Call) else d) or "").rsplit(".", 1)[-1]
            for d in method.decorator_list
        }
        if "stop" not in decorated and "messages" in parameters:
            return (
                "is_completed(messages, state) is not called any more; verifiers asks @vf.stop methods",
                "Write the condition as `@vf.stop async def NAME(self, state) -> bool`.",
            )
    return None


def _v0_hooks_in_v1(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report v0 hooks in a v1 package that nothing calls: verifiers does not, and no line of the package does."""
    called = _called_methods(package)
    for file in package.code.files:
        for node in file.tree.body if file.tree is not None else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "load_environment":
                yield _v0_hook_finding(node.name, file.at(node.lineno))
            for method in node.body if isinstance(node, ast.ClassDef) else ():
                if (
                    isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
                    and method.name
                    in (
                        "env_response",
                        "setup_state",
                        "is_completed",
                    )
                    and (method.name not in called)
                ):
                    yield _v0_hook_finding(method.name, file.at(method.lineno))


def _called_methods(package: EnvironmentPackage) -> frozenset[str]:
    """Return the names of the methods that the package calls, except by `super()`, which a hook does in itself."""
    return frozenset(
        node.func.attr
        for file in package.code.files
        for node in (ast.walk(file.tree) if file.tree is not None else ())
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and not (isinstance(node.func.value, ast.Call) and dotted_name(node.func.value.func) == "super")
    )


def _v0_hook_finding(name: str, where: str) -> Finding:
    return Finding(
        "migration",
        "warning",
        f"{name} is a hook of v0; v1 never calls it",
        f"Use {_V0_HOOKS[name]}, or remove it.",
        where,
    )
