"""Checks of a package's code: how it loads data, and how its rewards affect the process that scores.

A package should pin its dataset to a revision, run no code of the dataset's repository, and download nothing at import.
A reward should not execute the model's output, block other rollouts, or search for the answer as a substring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.environment.credentials import string_constants
from prime_lab_mcp.lab.environment.package import EnvironmentPackage, PackageCheck
from prime_lab_mcp.lab.state.source_code import (
    SourceFile,
    SourceFunction,
    dotted_name,
    functions_of,
    imported_files,
    is_text_of,
)

_LOADERS = frozenset({"load_dataset", "load_dataset_builder", "snapshot_download", "hf_hub_download"})
_LOCAL = frozenset({"json", "csv", "parquet", "text", "arrow", "pandas", "imagefolder", "audiofolder", "webdataset"})
_DISTURBING = frozenset(
    {"input", "os._exit", "os.abort", "signal.signal", "signal.alarm", "signal.setitimer", "breakpoint"}
)
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_ADDRESS = re.compile(r"(?i)(?:https?|ftp|s3|gs|gcs|az|abfss?)://")
_NETWORK = re.compile(
    r"^(?:requests|httpx)\.(?:get|post|put|request|head|stream)$|(?:^|\.)urlopen$|^urllib\.request\.urlretrieve$"
)


def unpinned_dataset(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about a dataset without a pinned revision. A later change of the dataset would silently change the tasks."""
    for file in package.code.files:
        constants = _text_constants(file)
        for name, call in file.calls():
            if name.rsplit(".", 1)[-1] not in _LOADERS or not (call.args or call.keywords):
                continue
            keywords = {k.arg: k.value for k in call.keywords}
            first = call.args[0] if call.args else keywords.get("path", keywords.get("repo_id"))
            source = _text(first, constants)
            address = _address(keywords.get("data_files", keywords.get("data_dir")), constants) or _address(
                first, constants
            )
            if address:
                yield Finding(
                    "unpinned-dataset",
                    "warning",
                    f"{name.rsplit('.', 1)[-1]} reads rows from the address {quote(address, 120)}, whose content "
                    "nothing pins: what is proven here may not be what is trained on",
                    "Put the rows into the package, or into a dataset on a hub with revision=COMMIT.",
                    file.at(call.lineno),
                )
                continue
            if source in _LOCAL or _is_path(first, source) or None in keywords:
                continue
            call_text = f"{name.rsplit('.', 1)[-1]}({quote(source or '...', 80)})"
            revision = _text(keywords.get("revision"), constants)
            if "revision" not in keywords and (source or not {"data_files", "data_dir"} & set(keywords)):
                yield Finding(
                    "unpinned-dataset",
                    "warning",
                    f"{call_text} names no revision",
                    "Add revision=COMMIT; inspect_dataset shows the present one.",
                    file.at(call.lineno),
                )
            elif revision is not None and not _COMMIT.fullmatch(revision) and revision in ("main", "master", ""):
                yield Finding(
                    "unpinned-dataset",
                    "warning",
                    f"{call_text} names the branch {quote(revision, 40)}, which moves",
                    "Name a commit; inspect_dataset shows the present one.",
                    file.at(call.lineno),
                )
            if _is_true(keywords.get("trust_remote_code")):
                yield Finding(
                    "trust-remote-code",
                    "warning",
                    f"{call_text} runs code of the data set's repository; datasets 4 refuses it",
                    "Use a data set in a plain format (Parquet, JSONL), or its revision refs/convert/parquet.",
                    file.at(call.lineno),
                )


def network_at_import(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about downloads at import. Every worker that imports the environment repeats them and fails offline."""
    for file in package.code.files:
        for node in _at_import(file.tree) if file.tree is not None else ():
            name = dotted_name(node.func) or ""
            if name.rsplit(".", 1)[-1] in _LOADERS or _NETWORK.search(name):
                yield Finding(
                    "network-at-import",
                    "warning",
                    f"{name}() runs while the module is imported",
                    "Call it inside load() (v1) or load_environment (v0).",
                    file.at(node.lineno),
                )
                break


def _at_import(node: ast.AST) -> Iterator[ast.Call]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _is_main(child):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from _at_import(child)


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))


def _text_constants(file: SourceFile) -> dict[str, str]:
    """Return the module-level variables that are assigned a string literal, with their values."""
    constants: dict[str, str] = {}
    for node in file.tree.body if file.tree is not None else ():
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            constants |= {t.id: node.value.value for t in targets if isinstance(t, ast.Name)}
    return constants


def _text(node: ast.expr | None, constants: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    return next(string_constants(node), None) if isinstance(node, ast.Constant) else None


def _address(node: ast.expr | None, constants: dict[str, str]) -> str:
    """Return the address in an argument, also inside of a list, a table or a variable of the module; empty if none."""
    for part in ast.walk(node) if node is not None else ():
        text = _text(part, constants) if isinstance(part, ast.expr) else None
        if text is not None and _ADDRESS.match(text):
            return text
    return ""


def _is_path(node: ast.expr | None, text: str | None) -> bool:
    """Return whether an argument is a local path, either a literal or a computed one."""
    if text is not None:
        return text.startswith((".", "/", "~")) or text.endswith((".json", ".jsonl", ".csv", ".parquet"))
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} if node is not None else set()
    return bool(names & {"Path", "__file__", "str"})


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


DATA_CHECKS: tuple[PackageCheck, ...] = (unpinned_dataset, network_at_import)


_REPLIES = frozenset({"completion", "response", "reply", "trace.last_reply", "model_output", "generated"})
_GOLD = frozenset(
    {
        "answer",
        "gold",
        "target",
        "label",
        "expected",
        "ground_truth",
        "correct_answer",
        "self.data.answer",
        "self.data.gold",
        "self.data.target",
        "self.data.label",
        "self.data.expected",
        "self.data.ground_truth",
    }
)
_BLOCKING = ("requests.", "urllib.request.", "subprocess.run", "subprocess.check_", "subprocess.call", "os.system")


def hazards(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about calls that disturb the process that serves the environment, or execute text as code there.

    Files that the environment's module does not import (a grader that is started as a program) are exempt. So are
    signals and timers in code that only runs if its file is started as a program.
    """
    for file in imported_files(package.code, package.snapshot.manifest.module or ""):
        own_process = _run_as_program(file)
        for name, call in file.calls():
            if name in ("eval", "exec", "builtins.eval", "builtins.exec", "os.system") and not _all_constant(call):
                yield Finding(
                    "reward-evaluates-output",
                    "warning",
                    f"{name}() runs text as code; a model decides what it says",
                    "Parse the text instead (ast.literal_eval, a regular expression, Decimal).",
                    file.at(call.lineno),
                )
            elif name in _DISTURBING and id(call) not in own_process:
                yield Finding(
                    "hazardous-call",
                    "warning",
                    f"{name}() disturbs the process that serves the environment",
                    "Remove it.",
                    file.at(call.lineno),
                )


def _run_as_program(file: SourceFile) -> set[int]:
    """Return the ids of the call nodes that only run if the file is started as a program.

    These are the calls in the block `if __name__ == "__main__"`, and in functions that only this block uses.
    """
    body = file.tree.body if file.tree is not None else []
    blocks = [node for node in body if _is_main(node)]
    functions = {n.name: n for n in body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    only_there = set(functions)
    while True:
        rest = [n for n in body if n not in blocks and getattr(n, "name", None) not in only_there]
        used = {n.id for node in rest for n in ast.walk(node) if isinstance(n, ast.Name)} & only_there
        if not used:
            break
        only_there -= used
    waiting, reached = list(blocks), list(blocks)
    while waiting:
        called = {n.id for n in ast.walk(waiting.pop()) if isinstance(n, ast.Name)} & only_there
        only_there -= called
        waiting += [functions[name] for name in called]
        reached += [functions[name] for name in called]
    return {id(n) for node in reached for n in ast.walk(node) if isinstance(n, ast.Call)}


def _all_constant(call: ast.Call) -> bool:
    return all(isinstance(a, ast.Constant) for a in call.args)


def blocking(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about blocking calls in async functions and rewards. All rollouts share one event loop."""
    for file in package.code.files:
        finding = next(_blocking(file, package.generation.api == "v0"), None)
        if finding is not None:
            yield finding


def _blocking(file: SourceFile, v0: bool) -> Iterator[Finding]:
    for function in functions_of(file):
        if not (function.is_async or (v0 and "completion" in function.parameters)):
            continue
        for node in function.nodes():
            name = dotted_name(node.func) or "" if isinstance(node, ast.Call) else ""
            if name == "time.sleep" or name.startswith(_BLOCKING):
                kind = "async " if function.is_async else "the reward "
                yield Finding(
                    "blocking-call",
                    "warning",
                    f"{name}() inside {kind}{function.name} holds up every other rollout",
                    "Use asyncio.sleep, httpx.AsyncClient or asyncio.create_subprocess_exec, or asyncio.to_thread.",
                    file.at(getattr(node, "lineno", function.line)),
                )


def substring_match(package: EnvironmentPackage) -> Iterator[Finding]:
    """Warn about `gold in reply`. Such a reward also pays for listing all answers and for denying the right one."""
    for file in package.code.files:
        for function in functions_of(file):
            if _is_reward(function):
                yield from _substring(function, file)


def _is_reward(function: SourceFunction) -> bool:
    marked = any(name.rsplit(".", 1)[-1] == "reward" for name in function.decorators())
    return marked or bool({"completion", "response", "reply"} & set(function.parameters))


def _substring(function: SourceFunction, file: SourceFile) -> Iterator[Finding]:
    reply, gold = function.derived(_REPLIES), function.derived(_GOLD)
    for node in function.nodes():
        if (
            isinstance(node, ast.Compare)
            and len(node.ops) == 1
            and isinstance(node.ops[0], ast.In)
            and is_text_of(node.left, gold)
            and is_text_of(node.comparators[0], reply)
        ):
            yield Finding(
                "substring-match",
                "warning",
                f"{quote(function.name, 60)} asks whether the answer occurs anywhere in the reply",
                "Parse one answer out of the reply and compare it; test_reward's probes (all options listed, the "
                "answer denied) show what this pays for.",
                file.at(node.lineno),
            )
            return


HAZARD_CHECKS: tuple[PackageCheck, ...] = (hazards, blocking, substring_match)
