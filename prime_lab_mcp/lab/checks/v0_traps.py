"""Traps of the v0 API that the text of the code shows: wiring of parsers, prompts and reward functions.

Each is a hint, never a blocker: what test_reward finds by scoring decides. Taken from the common mistakes of the seed
and from threads where such code scored zero for a whole training run (facts/peers section 3).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from prime_lab_mcp.lab.checks.code import SourceFile, dotted
from prime_lab_mcp.lab.checks.package import Check, Package
from prime_lab_mcp.lab.checks.reading_code import Function, functions
from prime_lab_mcp.lab.checks.secrets import constants
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote

_PARSERS = frozenset({"XMLParser", "ThinkParser", "MaybeThinkParser"})
_SINGULAR = frozenset({"completion", "state", "prompt", "answer"})
_PLURAL = frozenset({"states", "prompts", "completions", "answers", "tasks", "infos"})
"""Parameter names by which verifiers takes a function for a group reward (0.1.14, Rubric._is_group_func)."""


def parser_not_in_rubric(package: Package) -> Iterator[Finding]:
    """A rubric without a parser hands its functions the plain one, which returns the whole reply."""
    for file in _v0(package):
        if not any(_last(name) in _PARSERS for name, _ in file.calls()):
            continue
        known = {f.name: f for f in functions(file)}
        for name, call in file.calls():
            if _last(name) != "Rubric" or len(call.args) > 2 or any(k.arg in ("parser", None) for k in call.keywords):
                continue
            takers = [n for n in _function_names(call) if n in known and "parser" in known[n].parameters]
            if takers:
                yield parser_missing(takers, file.at(call.lineno))


def parser_missing(takers: list[str], where: str | None = None, environment: str | None = None) -> Finding:
    """The finding for reward functions that get the plain parser."""
    has = f" and not the {environment} of the environment" if environment else ""
    shown = ", ".join(quote(n, 60) for n in takers[:3])
    return Finding(
        "parser-not-in-rubric", "warning",
        f"the rubric has no parser of its own, so {shown} gets the plain Parser, which returns the whole reply{has}",
        "Write Rubric(funcs=[...], parser=parser); test_reward shows it: no gold answer in tags scores.", where,
    )  # fmt: skip


def think_field(package: Package) -> Iterator[Finding]:
    """Chat templates and servers take the thought away, and then every reply misses a field."""
    for file in _v0(package):
        for name, call in file.calls():
            fields = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "fields"), None)
            if _last(name) == "XMLParser" and fields is not None and "think" in set(constants(fields)):
                yield Finding(
                    "think-in-parser", "warning",
                    'XMLParser is told of a field "think"; with models whose thought is split off it never parses',
                    "Leave it out of the fields, and use MaybeThinkParser or take the text after </think>.",
                    file.at(call.lineno),
                )  # fmt: skip


def prompt_columns(package: Package) -> Iterator[Finding]:
    """verifiers wraps `question` itself; a `prompt` of one's own wins over it and over the system prompt."""
    for file in _v0(package):
        given = {k.arg for name, call in file.calls() if _last(name).endswith("Env") for k in call.keywords}
        for row in _row_literals(file):
            keys = {k.value: v for k, v in zip(row.keys, row.values, strict=True) if isinstance(k, ast.Constant)}
            prompt = keys.get("prompt")
            if prompt is None:
                continue
            if "question" in keys:
                message = "rows have both `question` and `prompt`; the question is not looked at"
            elif "system_prompt" in given and _says_system(prompt):
                message = "rows carry a system message and the environment a system_prompt; only the rows' is used"
            elif "system_prompt" in given and isinstance(prompt, ast.JoinedStr | ast.Constant):
                message = "`prompt` is a string and the environment has a system_prompt; verifiers refuses the pair"
            else:
                continue
            yield Finding(
                "prompt-columns", "warning", message,
                "Give each row `question` and `answer` and let system_prompt do the rest.", file.at(row.lineno),
            )  # fmt: skip
            break


def _row_literals(file: SourceFile) -> Iterator[ast.Dict]:
    """Dict displays that become rows: what a lambda, return, yield or comprehension gives, and what is appended."""
    for node in ast.walk(file.tree) if file.tree is not None else ():
        found: ast.expr | None = None
        if isinstance(node, ast.Lambda):
            found = node.body
        elif isinstance(node, ast.Return | ast.Yield):
            found = node.value
        elif isinstance(node, ast.ListComp | ast.GeneratorExp):
            found = node.elt
        elif isinstance(node, ast.Call) and _last(dotted(node.func) or "") == "append" and node.args:
            found = node.args[0]
        if isinstance(found, ast.Dict):
            yield found


def _says_system(node: ast.expr) -> bool:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Dict):
            for key, value in zip(inner.keys, inner.values, strict=True):
                if key is not None and next(constants(key), "") == "role" and "system" in constants(value):
                    return True
    return False


def completion_as_string(package: Package) -> Iterator[Finding]:
    """A chat environment's completion is a list of messages; what raises in a v0 reward is scored 0, silently."""
    for file in _v0(package):
        if re.search(r"message_type\s*=\s*[\"']completion", file.text):
            continue
        for function in functions(file):
            if "completion" in function.parameters and not function.mentions("isinstance"):
                yield from _as_string(function, file)


def _as_string(function: Function, file: SourceFile) -> Iterator[Finding]:
    for node in function.nodes():
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func) or ""
        matched = name.startswith("re.") and any(isinstance(a, ast.Name) and a.id == "completion" for a in node.args)
        method = name.startswith("completion.") and hasattr(str, name.removeprefix("completion."))
        if (matched or method) and not (method and hasattr(list, name.removeprefix("completion."))):
            yield Finding(
                "completion-as-string", "warning",
                f"{quote(function.name, 60)} takes the completion for text; it is a list of messages: reward 0",
                'Take completion[-1]["content"], or parser.parse_answer(completion); test_reward shows the error.',
                file.at(node.lineno),
            )  # fmt: skip
            return


def parse_none(package: Package) -> Iterator[Finding]:
    """`parse_answer` gives None for a reply without the tag."""
    for file in _v0(package):
        for function in functions(file):
            for node in function.nodes():
                if not isinstance(node, ast.Attribute):
                    continue
                direct = isinstance(node.value, ast.Call) and _last(dotted(node.value.func) or "") == "parse_answer"
                later = isinstance(node.value, ast.Name) and function.comes_unchecked(node.value.id, "parse_answer")
                if direct or later:
                    yield Finding(
                        "parse-none", "warning",
                        f"{quote(function.name, 60)} calls .{node.attr} on what parse_answer returns, "
                        "which is None without the tag",
                        "Return 0.0 when it is None; test_reward shows the error for a malformed reply.",
                        file.at(node.lineno),
                    )  # fmt: skip
                    break


def group_by_name(package: Package) -> Iterator[Finding]:
    """verifiers tells group rewards by their signature alone."""
    for file in _v0(package):
        used = {n for name, call in file.calls() if _last(name) in ("Rubric", "add_reward_func", "add_metric")
                for n in _function_names(call)}  # fmt: skip
        for function in functions(file):
            if function.name not in used or not _SINGULAR & set(function.parameters):
                continue
            plural = sorted(_PLURAL & set(function.parameters))
            returns = dotted(
                function.returns.value if isinstance(function.returns, ast.Subscript) else function.returns
            )
            if plural or returns in ("list", "List"):
                why = f"its parameter {plural[0]}" if plural else "its return annotation `list`"
                yield Finding(
                    "group-reward-by-name", "warning",
                    f"{why} makes {quote(function.name, 60)} a group reward, though it is written for one rollout",
                    "Rename the parameter (or annotate `-> float`); a group reward takes and returns lists only.",
                    file.at(function.line),
                )  # fmt: skip


def judges(package: Package) -> Iterator[Finding]:
    """What constructing these rubrics costs."""
    for file in _v0(package):
        for name, call in file.calls():
            given = {k.arg for k in call.keywords}
            if (
                _last(name) == "JudgeRubric"
                and "judge_client" not in given
                and None not in given
                and len(call.args) < 3
            ):
                yield Finding(
                    "judge-needs-key", "warning",
                    "JudgeRubric without judge_client needs OPENAI_API_KEY when it is constructed",
                    "Pass judge_client, made where the key is known; without the key loading fails.",
                    file.at(call.lineno),
                )  # fmt: skip
            elif _last(name) == "MathRubric":
                yield Finding(
                    "math-rubric-pool", "info", "MathRubric starts a pool of processes for every environment object",
                    "Construct it once; in v1, vf.verify_boxed_math_answer needs none.", file.at(call.lineno),
                )  # fmt: skip


def _v0(package: Package) -> Iterator[SourceFile]:
    if package.generation.api == "v0":
        yield from (file for file in package.code.files if file.tree is not None)


def _last(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _function_names(call: ast.Call) -> list[str]:
    """Names in the list of functions that a Rubric is made of, or the one that is added to it."""
    given = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg in ("funcs", "func")), None)
    elements = given.elts if isinstance(given, ast.List | ast.Tuple) else [given]
    return [e.id for e in elements if isinstance(e, ast.Name)]


V0_CHECKS: tuple[Check, ...] = (
    parser_not_in_rubric, think_field, prompt_columns, completion_as_string, parse_none, group_by_name, judges,
)  # fmt: skip
