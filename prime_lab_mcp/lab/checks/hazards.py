"""Checks of what a reward does: run what a model wrote, hold up every other rollout, or match by substring."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from prime_lab_mcp.lab.checks.code import SourceFile, dotted
from prime_lab_mcp.lab.checks.package import Check, Package
from prime_lab_mcp.lab.checks.reading_code import Function, functions, imported_files, is_text_of
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote

_SAID = frozenset({"completion", "response", "reply", "trace.last_reply", "model_output", "generated"})
_GOLD = frozenset({
    "answer", "gold", "target", "label", "expected", "ground_truth", "correct_answer", "self.data.answer",
    "self.data.gold", "self.data.target", "self.data.label", "self.data.expected", "self.data.ground_truth",
})  # fmt: skip
_BLOCKING = ("requests.", "urllib.request.", "subprocess.run", "subprocess.check_", "subprocess.call", "os.system")


def hazards(package: Package) -> Iterator[Finding]:
    """Calls that hurt the process that serves the environment, or run what a model wrote in it.

    A file that only another process runs (a grader started by path) may do so.
    """
    for file in imported_files(package.code, package.snapshot.manifest.module or ""):
        for name, call in file.calls():
            if name in ("eval", "exec", "builtins.eval", "builtins.exec", "os.system") and not _all_constant(call):
                yield Finding(
                    "reward-evaluates-output", "warning", f"{name}() runs text as code; a model decides what it says",
                    "Parse the text instead (ast.literal_eval, a regular expression, Decimal).", file.at(call.lineno),
                )  # fmt: skip
            elif name in ("input", "os._exit", "os.abort", "signal.signal", "breakpoint"):
                yield Finding(
                    "hazardous-call", "warning", f"{name}() disturbs the process that serves the environment",
                    "Remove it.", file.at(call.lineno),
                )  # fmt: skip


def _all_constant(call: ast.Call) -> bool:
    return all(isinstance(a, ast.Constant) for a in call.args)


def blocking(package: Package) -> Iterator[Finding]:
    """All rollouts share one event loop."""
    for file in package.code.files:
        found = next(_blocking(file, package.generation.api == "v0"), None)
        if found is not None:
            yield found


def _blocking(file: SourceFile, v0: bool) -> Iterator[Finding]:
    for function in functions(file):
        if not (function.is_async or (v0 and "completion" in function.parameters)):
            continue
        for node in function.nodes():
            name = dotted(node.func) or "" if isinstance(node, ast.Call) else ""
            if name == "time.sleep" or name.startswith(_BLOCKING):
                kind = "async " if function.is_async else "the reward "
                yield Finding(
                    "blocking-call", "warning", f"{name}() inside {kind}{function.name} holds up every other rollout",
                    "Use asyncio.sleep, httpx.AsyncClient or asyncio.create_subprocess_exec, or asyncio.to_thread.",
                    file.at(getattr(node, "lineno", function.line)),
                )  # fmt: skip


def substring_match(package: Package) -> Iterator[Finding]:
    """`gold in reply` pays for listing every answer, and for denying the right one."""
    for file in package.code.files:
        for function in functions(file):
            if _is_reward(function):
                yield from _substring(function, file)


def _is_reward(function: Function) -> bool:
    marked = any(name.rsplit(".", 1)[-1] == "reward" for name in function.decorators())
    return marked or bool({"completion", "response", "reply"} & set(function.parameters))


def _substring(function: Function, file: SourceFile) -> Iterator[Finding]:
    said, gold = function.derived(_SAID), function.derived(_GOLD)
    for node in function.nodes():
        if (
            isinstance(node, ast.Compare)
            and len(node.ops) == 1
            and isinstance(node.ops[0], ast.In)
            and is_text_of(node.left, gold)
            and is_text_of(node.comparators[0], said)
        ):
            yield Finding(
                "substring-match", "warning",
                f"{quote(function.name, 60)} asks whether the answer occurs anywhere in the reply",
                "Parse one answer out of the reply and compare it; test_reward's probes (all options listed, the "
                "answer denied) show what this pays for.",
                file.at(node.lineno),
            )  # fmt: skip
            return


HAZARD_CHECKS: tuple[Check, ...] = (hazards, blocking, substring_match)
