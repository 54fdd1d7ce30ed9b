"""Checks of an environment's code as text: secrets, APIs that are gone, undeclared imports, data that may change."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from prime_lab_mcp.lab.checks.code import SourceFile, aliases, dotted
from prime_lab_mcp.lab.checks.generation import admits
from prime_lab_mcp.lab.checks.static import PACKAGE_CHECKS, Check, Package
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote

_SECRET = re.compile(
    r"\bsk-[A-Za-z0-9_-]{20,}|\bhf_[A-Za-z0-9]{20,}|\bpit_[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{30,}"
    r"|\bAKIA[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----|\bxox[abp]-[A-Za-z0-9-]{20,}"
)
_READERS = frozenset({"os.getenv", "os.environ.get", "getenv", "environ.get", "os.environ.setdefault"})
_ORDINARY = frozenset({"HOME", "PATH", "TMPDIR", "USER", "PWD", "LANG", "TOKENIZERS_PARALLELISM", "VF_LOG_LEVEL"})
_GONE_V0 = {
    "SingleTurnEnv": "a Taskset with Tasks (no class of its own)",
    "MultiTurnEnv": "a Task with @vf.stop and a harness or Env.run",
    "ToolEnv": "vf.Toolset with @vf.tool methods, named by Task.toolsets",
    "StatefulToolEnv": "vf.Toolset with @vf.tool methods",
    "SandboxEnv": "TaskData.image and a runtime",
    "PythonEnv": "the harness bash with a runtime",
    "EnvGroup": "several [[orchestrator.train.source]] tables",
    "Rubric": "@vf.reward(weight=...) methods of the Task",
    "RubricGroup": "@vf.reward(weight=...) methods of the Task",
    "JudgeRubric": "vf.RubricJudge or vf.ReferenceJudge in TaskConfig.judges",
    "MathRubric": "vf.verify_boxed_math_answer",
    "Parser": "a regular expression over trace.last_reply",
    "XMLParser": "a regular expression over trace.last_reply",
    "ThinkParser": "a regular expression over trace.last_reply",
    "MaybeThinkParser": "a regular expression over trace.last_reply",
    "ensure_keys": "os.environ",
    "load_example_dataset": "datasets.load_dataset",
    "extract_hash_answer": "a regular expression",
    "Environment": "vf.Taskset",
}
_NEVER = {
    "TaskSet": "vf.Taskset",
    "ChatMessage": "vf.Messages (vf.UserMessage, vf.AssistantMessage, ...)",
}
_IMPORT_NAMES = {
    "yaml": "pyyaml", "PIL": "pillow", "sklearn": "scikit-learn", "bs4": "beautifulsoup4", "dotenv": "python-dotenv",
    "cv2": "opencv-python", "dateutil": "python-dateutil", "jwt": "pyjwt", "git": "gitpython", "Crypto": "pycryptodome",
    "google": "protobuf", "docx": "python-docx", "fitz": "pymupdf", "attr": "attrs", "Levenshtein": "levenshtein",
}  # fmt: skip
_BROUGHT = frozenset({
    "verifiers", "pydantic", "openai", "httpx", "numpy", "mcp", "aiohttp", "anyio", "rich", "jinja2", "requests",
    "tenacity", "math-verify", "sympy", "transformers", "typing-extensions", "anthropic", "pydantic-core", "renderers",
})  # fmt: skip
"""Installed with verifiers; naming them is better style, leaving them out does not break."""
_OLD_BROUGHT = _BROUGHT | {"datasets", "textual", "nest-asyncio", "pydantic-config"}


def secrets_in_code(package: Package) -> Iterator[Finding]:
    """A published key is a stolen key."""
    for file in package.code.files:
        for number, line in enumerate(file.text.splitlines(), 1):
            if found := _SECRET.search(line):
                yield Finding(
                    "secret-in-code", "blocker",
                    f"what looks like a key ({quote(found[0][:4])}…) stands in the code and would be published",
                    "Remove it, revoke the key, and read it from an environment variable.", file.at(number),
                )  # fmt: skip
                break


def secrets_needed(package: Package) -> Iterator[Finding]:
    """A variable that is not set where training runs fails every rollout."""
    found: dict[str, str] = {}
    for file in package.code.files:
        for name, line in _variables(file):
            if name not in _ORDINARY and re.fullmatch(r"[A-Z][A-Z0-9_]{2,}", name):
                found.setdefault(name, file.at(line))
    for name, where in list(found.items())[:10]:
        allowed = name in package.allow_env
        yield Finding(
            "secret-needed",
            "info" if allowed else "warning",
            f"the code reads the environment variable {name}",
            "It is passed on here; set it for training too (prime env secret)." if allowed else
            f"Start the server with --allow-env {name} to pass it on, and set it for training (prime env secret).",
            where,
        )  # fmt: skip


def _variables(file: SourceFile) -> Iterator[tuple[str, int]]:
    for name, call in file.calls():
        if (name in _READERS or name.endswith("ensure_keys")) and call.args:
            yield from ((text, call.lineno) for text in _constants(call.args[0]))
        for keyword in call.keywords:
            if keyword.arg and re.search(r"(?:^|_)key_var$|api_key_var", keyword.arg):
                yield from ((text, call.lineno) for text in _constants(keyword.value))
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.Subscript) and dotted(node.value) in ("os.environ", "environ"):
            yield from ((text, node.lineno) for text in _constants(node.slice))


def _constants(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        for element in node.elts:
            yield from _constants(element)


def migration(package: Package) -> Iterator[Finding]:
    """Code from old guides, and from guides that were never right."""
    told: set[str] = set()
    needed = package.snapshot.manifest.verifiers
    only_v1 = needed is not None and not needed.url and not admits(needed, ("0.1.14", "0.2.1", "0.3.1"))
    for file in package.code.files:
        for name, present, line in _old_names(file, only_v1=only_v1):
            if name not in told:
                told.add(name)
                yield Finding(
                    "migration", "blocker", f"{name} does not exist in the verifiers that this package requires",
                    f"Use {present}; the prompt migrate_environment and lab://guide/migration show how.", file.at(line),
                )  # fmt: skip


def _old_names(file: SourceFile, *, only_v1: bool) -> Iterator[tuple[str, str, int]]:
    for found in file.imports():
        if found.module.startswith("verifiers.api"):
            yield found.module, "`import verifiers.v1 as vf`; verifiers.api never existed", found.line
        elif found.module.split(".")[0] == "verifiers" and found.name in _NEVER:
            yield f"verifiers.{found.name}", _NEVER[found.name], found.line
        elif only_v1 and found.module == "verifiers" and found.name in _GONE_V0:
            yield f"verifiers.{found.name}", _GONE_V0[found.name], found.line
    known = {local for local, full in aliases(file, "verifiers").items() if full in ("verifiers", "verifiers.v1")}
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
            if node.attr in _NEVER:
                yield f"vf.{node.attr}", _NEVER[node.attr], node.lineno
            elif only_v1 and node.attr in _GONE_V0 and not _typed(node, file):
                yield f"vf.{node.attr}", _GONE_V0[node.attr], node.lineno


def _typed(node: ast.Attribute, file: SourceFile) -> bool:
    """`from __future__ import annotations` makes a return annotation harmless; calls and bases are not."""
    return node.attr == "Environment" and "from __future__ import annotations" in file.text


def undeclared_imports(package: Package) -> Iterator[Finding]:
    """What is installed here by accident is missing where training runs."""
    if package.snapshot.manifest.problem is not None:
        return
    declared = {"verifiers"}
    for text in package.snapshot.manifest.requirements:
        try:
            declared.add(canonicalize_name(Requirement(text).name))
        except InvalidRequirement:
            yield Finding(
                "requirement-invalid", "blocker", f"{quote(text, 80)} is no readable dependency",
                "Write it as PEP 508 says, such as \"datasets>=4,<6\".", package.line_of(text),
            )  # fmt: skip
    brought = _OLD_BROUGHT if package.generation.api == "v0" else _BROUGHT
    told: set[str] = set()
    for file, found in package.code.imports():
        top = found.module.split(".")[0]
        wanted = canonicalize_name(_IMPORT_NAMES.get(top, top))
        own = top in package.code.modules or top in sys.stdlib_module_names
        if own or found.guarded or wanted in told or wanted in declared or wanted in brought:
            continue
        if any(wanted in d or d in wanted for d in declared):
            continue  # distributions whose import name is a part of theirs
        told.add(wanted)
        yield Finding(
            "undeclared-dependency", "blocker" if wanted == "datasets" else "warning",
            f"{top} is imported, and pyproject.toml does not require it",
            f'Add "{wanted}" to [project] dependencies.', file.at(found.line),
        )  # fmt: skip


def unpinned_dataset(package: Package) -> Iterator[Finding]:
    """A data set that changes under a tested environment makes every proof about it stale unnoticed."""
    for file in package.code.files:
        for name, call in file.calls():
            if name.rsplit(".", 1)[-1] != "load_dataset" or not call.args:
                continue
            first = next(_constants(call.args[0]), None)
            local = first in ("json", "csv", "parquet", "text", "arrow", "imagefolder")
            if not local and not any(k.arg in ("revision", "data_files", "data_dir") for k in call.keywords):
                yield Finding(
                    "unpinned-dataset", "warning", f"load_dataset({quote(first or '...', 80)}) names no revision",
                    "Add revision=COMMIT; inspect_dataset shows the present one.", file.at(call.lineno),
                )  # fmt: skip
                break


def hazards(package: Package) -> Iterator[Finding]:
    """Calls that hurt the process that serves the environment, or run what a model wrote."""
    for file in package.code.files:
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
        yield from _blocking(file)


def _all_constant(call: ast.Call) -> bool:
    return all(isinstance(a, ast.Constant) for a in call.args)


def _blocking(file: SourceFile) -> Iterator[Finding]:
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if not isinstance(node, ast.AsyncFunctionDef):
            continue
        for inner in ast.walk(node):
            if not isinstance(inner, ast.Call):
                continue
            name = dotted(inner.func) or ""
            if name == "time.sleep" or name.startswith(("requests.", "urllib.request.")):
                yield Finding(
                    "blocking-call", "warning", f"{name}() inside async {node.name} holds up every other rollout",
                    "Use asyncio.sleep or httpx.AsyncClient, or asyncio.to_thread.", file.at(inner.lineno),
                )  # fmt: skip
                return


STATIC_CHECKS: tuple[Check, ...] = (
    *PACKAGE_CHECKS, secrets_in_code, secrets_needed, migration, undeclared_imports, unpinned_dataset, hazards,
)  # fmt: skip


def examine(package: Package) -> list[Finding]:
    """Every static finding."""
    return [finding for check in STATIC_CHECKS for finding in check(package)]
