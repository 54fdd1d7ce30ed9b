"""Static rules for v0 environments: how parsers, prompts and reward functions are connected.

The findings are never blockers, because test_reward measures the scores. The rules come from common mistakes and from
issues in which such code scored zero for a whole training run (PrimeIntellect-ai/verifiers issue 277, prime-rl issue
346).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.environment.credentials import string_constants
from prime_lab_mcp.lab.environment.package import EnvironmentPackage, PackageCheck
from prime_lab_mcp.lab.state.source_code import SourceFile, SourceFunction, dotted_name, functions_of

_PARSERS = frozenset({"XMLParser", "ThinkParser", "MaybeThinkParser"})
_SINGULAR = frozenset({"completion", "state", "prompt", "answer"})
_PLURAL = frozenset({"states", "prompts", "completions", "answers", "tasks", "infos"})
"""Parameter names by which verifiers recognises a group reward (0.1.14, Rubric._is_group_func)."""


def parser_not_in_rubric(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about a rubric without a parser. Its functions get the default parser, which returns the whole reply."""
    for file in _v0_files(package):
        if not any(_last(name) in _PARSERS for name, _ in file.calls()):
            continue
        functions = {f.name: f for f in functions_of(file)}
        for name, call in file.calls():
            if _last(name) != "Rubric" or len(call.args) > 2 or any(k.arg in ("parser", None) for k in call.keywords):
                continue
            takers = [n for n in _function_names(call) if n in functions and "parser" in functions[n].parameters]
            if takers:
                yield parser_missing(takers, file.at(call.lineno))


def parser_missing(takers: list[str], where: str | None = None, environment: str | None = None) -> Finding:
    """Return the finding for reward functions that get the default parser.

    `environment` is the environment's parser.
    """
    has = f" and not the {environment} of the environment" if environment else ""
    listed = ", ".join(quote(n, 60) for n in takers[:3])
    return Finding(
        "parser-not-in-rubric",
        "warning",
        f"the rubric has no parser of its own, so {listed} gets the plain Parser, which returns the whole reply{has}",
        "Write Rubric(funcs=[...], parser=parser); test_reward shows it: no gold answer in tags scores.",
        where,
    )


def think_field(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about a parser with a field for thoughts. Chat templates and servers remove thoughts, so parsing fails."""
    for file in _v0_files(package):
        for name, call in file.calls():
            fields = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "fields"), None)
            if _last(name) == "XMLParser" and fields is not None and "think" in set(string_constants(fields)):
                yield Finding(
                    "think-in-parser",
                    "warning",
                    'XMLParser is told of a field "think"; with models whose thought is split off it never parses',
                    "Leave it out of the fields, and use MaybeThinkParser or take the text after </think>.",
                    file.at(call.lineno),
                )


def prompt_columns(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about rows with a `prompt`. It overrides the `question` of the row and the environment's system prompt."""
    for file in _v0_files(package):
        arguments = {k.arg for name, call in file.calls() if _last(name).endswith("Env") for k in call.keywords}
        for row in _row_literals(file):
            keys = {k.value: v for k, v in zip(row.keys, row.values, strict=True) if isinstance(k, ast.Constant)}
            prompt = keys.get("prompt")
            if prompt is None:
                continue
            if "question" in keys:
                message = "rows have both `question` and `prompt`; the question is not looked at"
            elif "system_prompt" in arguments and _has_system_role(prompt):
                message = "rows carry a system message and the environment a system_prompt; only the rows' is used"
            elif "system_prompt" in arguments and isinstance(prompt, ast.JoinedStr | ast.Constant):
                message = "`prompt` is a string and the environment has a system_prompt; verifiers refuses the pair"
            else:
                continue
            yield Finding(
                "prompt-columns",
                "warning",
                message,
                "Give each row `question` and `answer` and let system_prompt do the rest.",
                file.at(row.lineno),
            )
            break


def _row_literals(file: SourceFile) -> Iterator[ast.Dict]:
    """Yield the dict literals that become rows.

    These are the results of a lambda, return, yield or comprehension, and dicts that are appended to a list.
    """
    for node in ast.walk(file.tree) if file.tree is not None else ():
        expression: ast.expr | None = None
        if isinstance(node, ast.Lambda):
            expression = node.body
        elif isinstance(node, ast.Return | ast.Yield):
            expression = node.value
        elif isinstance(node, ast.ListComp | ast.GeneratorExp):
            expression = node.elt
        elif isinstance(node, ast.Call) and _last(dotted_name(node.func) or "") == "append" and node.args:
            expression = node.args[0]
        if isinstance(expression, ast.Dict):
            yield expression


def _has_system_role(node: ast.expr) -> bool:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Dict):
            for key, value in zip(inner.keys, inner.values, strict=True):
                if (
                    key is not None
                    and next(string_constants(key), "") == "role"
                    and "system" in string_constants(value)
                ):
                    return True
    return False


def completion_as_string(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about code that uses a completion as text.

    In a chat environment, the completion is a list of messages. The resulting exception becomes a reward of 0.
    """
    for file in _v0_files(package):
        if re.search(r"message_type\s*=\s*[\"']completion", file.text):
            continue
        for function in functions_of(file):
            if "completion" in function.parameters and not function.mentions("isinstance"):
                yield from _as_string(function, file)


def _as_string(function: SourceFunction, file: SourceFile) -> Iterator[Finding]:
    for node in function.nodes():
        if not isinstance(node, ast.Call):
            continue
        name = dotted_name(node.func) or ""
        matched = name.startswith("re.") and any(isinstance(a, ast.Name) and a.id == "completion" for a in node.args)
        method = name.startswith("completion.") and hasattr(str, name.removeprefix("completion."))
        if (matched or method) and not (method and hasattr(list, name.removeprefix("completion."))):
            yield Finding(
                "completion-as-string",
                "warning",
                f"{quote(function.name, 60)} takes the completion for text; it is a list of messages: reward 0",
                'Take completion[-1]["content"], or parser.parse_answer(completion); test_reward shows the error.',
                file.at(node.lineno),
            )
            return


def parse_none(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about unchecked results of `parse_answer`. It returns None for a reply without the tag."""
    for file in _v0_files(package):
        for function in functions_of(file):
            for node in function.nodes():
                if not isinstance(node, ast.Attribute):
                    continue
                direct = (
                    isinstance(node.value, ast.Call) and _last(dotted_name(node.value.func) or "") == "parse_answer"
                )
                later = isinstance(node.value, ast.Name) and function.comes_unchecked(node.value.id, "parse_answer")
                if direct or later:
                    yield Finding(
                        "parse-none",
                        "warning",
                        f"{quote(function.name, 60)} calls .{node.attr} on what parse_answer returns, "
                        "which is None without the tag",
                        "Return 0.0 when it is None; test_reward shows the error for a malformed reply.",
                        file.at(node.lineno),
                    )
                    break


def group_by_name(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about rewards for one rollout that verifiers takes for group rewards.

    verifiers recognises a group reward by its parameter names and its return annotation.
    """
    for file in _v0_files(package):
        used = {
            n
            for name, call in file.calls()
            if _last(name) in ("Rubric", "add_reward_func", "add_metric")
            for n in _function_names(call)
        }
        for function in functions_of(file):
            if function.name not in used or not _SINGULAR & set(function.parameters):
                continue
            plural = sorted(_PLURAL & set(function.parameters))
            returns = dotted_name(
                function.returns.value if isinstance(function.returns, ast.Subscript) else function.returns
            )
            if plural or returns in ("list", "List"):
                why = f"its parameter {plural[0]}" if plural else "its return annotation `list`"
                yield Finding(
                    "group-reward-by-name",
                    "warning",
                    f"{why} makes {quote(function.name, 60)} a group reward, though it is written for one rollout",
                    "Rename the parameter (or annotate `-> float`); a group reward takes and returns lists only.",
                    file.at(function.line),
                )


def judges(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about judge rubrics that need a key when they are constructed, and about rubrics that start processes."""
    for file in _v0_files(package):
        for name, call in file.calls():
            arguments = {k.arg for k in call.keywords}
            if (
                _last(name) == "JudgeRubric"
                and "judge_client" not in arguments
                and None not in arguments
                and len(call.args) < 3
            ):
                yield Finding(
                    "judge-needs-key",
                    "warning",
                    "JudgeRubric without judge_client needs OPENAI_API_KEY when it is constructed",
                    "Pass judge_client, made where the key is known; without the key loading fails.",
                    file.at(call.lineno),
                )
            elif _last(name) == "MathRubric":
                yield Finding(
                    "math-rubric-pool",
                    "info",
                    "MathRubric starts a pool of processes for every environment object",
                    "Construct it once; in v1, vf.verify_boxed_math_answer needs none.",
                    file.at(call.lineno),
                )


def _v0_files(package: EnvironmentPackage) -> Iterator[SourceFile]:
    if package.generation.api == "v0":
        yield from (file for file in package.code.files if file.tree is not None)


def _last(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _function_names(call: ast.Call) -> list[str]:
    """Return the function names in the arguments of `Rubric(funcs=[...])`, `add_reward_func` or `add_metric`."""
    argument = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg in ("funcs", "func")), None)
    elements = argument.elts if isinstance(argument, ast.List | ast.Tuple) else [argument]
    return [e.id for e in elements if isinstance(e, ast.Name)]


V0_CHECKS: tuple[PackageCheck, ...] = (
    parser_not_in_rubric,
    think_field,
    prompt_columns,
    completion_as_string,
    parse_none,
    group_by_name,
    judges,
)
