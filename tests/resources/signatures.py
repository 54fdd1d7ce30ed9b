"""Writes the API references from the source of an installed verifiers: signatures, fields, first docstring lines.

    python -m tests.resources.signatures v1 [FOLDER OF THE PACKAGE] > .../reference/verifiers-v1.md

Reads source files and imports nothing, so any Python can write the page of any version, its extras missing or not.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.resources.signature_pages import PAGES, Page

Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Definition = Documented | ast.Assign
_WIDTH = 118
_SAID = 96


_INTERNAL = frozenset(
    (
        "watch",
        "notify",
        "pending",
        "preview",
        "clear_preview",
        "add_semantic_edges",
        "split_agent_time",
        "record_timeout",
        "record_run",
        "mm_token_type_id_map",
        "idx_ranges",
        "idx_tail",
        "idx_stop",
        "empty",
        "prepare_uv_script",
        "run_uv_script",
        "open_process",
        "prepare_setup",
        "prepare_execution",
        "supports_live_processes",
    )
)
"""Members that the framework calls and no author."""


class Package:
    """The source of one installed package."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self._trees: dict[Path, ast.Module] = {}

    @property
    def version(self) -> str:
        """As its distribution says it."""
        places = sorted(self.folder.parent.glob(f"{self.name}-*.dist-info"))
        return places[0].name.removesuffix(".dist-info").split("-")[1]

    def tree(self, path: Path) -> ast.Module:
        if path not in self._trees:
            self._trees[path] = ast.parse(path.read_text(encoding="utf-8"))
        return self._trees[path]

    def file(self, module: str) -> Path:
        base = self.folder.joinpath(*module.split(".")[1:])
        return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")

    def find(self, module: str, name: str) -> list[Definition]:
        """The definition of an exported name, after following imports; several where it is overloaded."""
        path = self.file(module)
        body = list(_statements(self.tree(path).body))
        found = [n for n in body if isinstance(n, Definition) and _name(n) == name]
        if found:
            return found
        for node in body:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return self.find(_absolute(node, module, path), alias.name)
        lazy = _lazy(self.tree(path)).get(name)
        if lazy is not None:
            return self.find(lazy, name)
        raise LookupError(f"{module} has no {name}")


def _name(node: Definition) -> str:
    return ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else node.name


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _statements(node.body)
            yield from _statements(node.orelse)


def _absolute(node: ast.ImportFrom, module: str, path: Path) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _lazy(tree: ast.Module) -> dict[str, str]:
    """Names that `__getattr__` imports late, from a dict of `name: "module:attribute"`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant) and ":" in str(value.value):
                    found[str(key.value)] = str(value.value).split(":")[0]
    return found


def render(page: Page, package: Package) -> str:
    """The whole page."""
    parts = [f"# {page.title}\n\n{page.about.format(version=package.version)}"]
    for each in page.groups:
        code = "\n\n".join(_code(page, package, name) for name in each.names)
        parts.append(f"## {each.title}\n\n{each.about}\n\n```python\n{code}\n```")
    if page.folders:
        root = package.file(page.root).parent
        lines = [f"- {label}: {', '.join(f'`{i}`' for i in _ids(root / sub))}" for label, sub in page.folders.items()]
        parts.append(
            "## Built-in ids\n\nNames that an id may have without a package of your own.\n\n" + "\n".join(lines)
        )
    return "\n\n".join(parts) + "\n"


def _ids(folder: Path) -> list[str]:
    """Packages and modules of the folder that a loader finds by name."""
    packages = [p.name for p in folder.iterdir() if (p / "__init__.py").is_file()]
    modules = [p.stem for p in folder.glob("*.py") if not p.stem.startswith("_")]
    return sorted({*packages, *modules} - {"utils"})


def _code(page: Page, package: Package, name: str) -> str:
    module, _, plain = name.rpartition(":")
    found = package.find(f"{page.root}.{module}" if module else page.root, plain or name)
    return "\n".join(_definition(node) for node in found if not _is_overload(node))


def _is_overload(node: Definition) -> bool:
    return not isinstance(node, ast.Assign) and any(ast.unparse(d).endswith("overload") for d in node.decorator_list)


def _definition(node: Definition) -> str:
    if isinstance(node, ast.Assign):
        return ast.unparse(node)
    return "\n".join(_class(node) if isinstance(node, ast.ClassDef) else _function(node, ""))


def _class(node: ast.ClassDef) -> list[str]:
    bases = [ast.unparse(b) for b in (*node.bases, *node.keywords)]
    lines = [f"class {node.name}({', '.join(bases)}):" if bases else f"class {node.name}:"]
    lines += [f"    # {said}" for said in [_first(node)] if said]
    for child in node.body:
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            name = child.target.id
            if not name.startswith("_") and name != "model_config" and name not in _INTERNAL:
                lines.append(f"    {_field(child)}")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and _shown(child):
            lines += _function(child, "    ")
    return lines if any(not line.lstrip().startswith("#") for line in lines[1:]) else [*lines, "    ..."]


def _field(node: ast.AnnAssign) -> str:
    text = ast.unparse(node)
    if isinstance(node.value, ast.Call) and ast.unparse(node.value.func).endswith("Field"):
        text = f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}{_default(node.value)}"
    return text if len(text) <= _WIDTH - 4 else f"{text[: _WIDTH - 5]}…"


def _default(call: ast.Call) -> str:
    """What pydantic's `Field(...)` defaults to."""
    named = {k.arg: ast.unparse(k.value) for k in call.keywords}
    if call.args:
        return "" if ast.unparse(call.args[0]) == "..." else f" = {ast.unparse(call.args[0])}"
    if "default" in named:
        return f" = {named['default']}"
    if "default_factory" in named:
        made = named["default_factory"]
        return f" = {made.removeprefix('lambda: ') if made.startswith('lambda') else f'{made}()'}"
    return ""


def _shown(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    if node.name in _INTERNAL or (node.name.startswith("_") and node.name != "__init__"):
        return False
    marks = " ".join(ast.unparse(d) for d in node.decorator_list)
    return not any(mark in marks for mark in ("validator", "serializer", "overload", ".setter"))


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, indent: str) -> list[str]:
    marks = [ast.unparse(d) for d in node.decorator_list]
    if "property" in marks:
        gives = ast.unparse(node.returns) if node.returns is not None else "Any"
        return [f"{indent}{node.name}: {gives}  # property{f'. {_first(node)}' if _first(node) else ''}"]
    lines = [f"{indent}@{m}" for m in marks if m in ("staticmethod", "classmethod")]
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    head = f"{indent}{kind} {node.name}({ast.unparse(node.args)}){returns}: ..."
    if len(head) > _WIDTH:
        inner = ",\n".join(f"{indent}    {a}" for a in _arguments(node.args))
        head = f"{indent}{kind} {node.name}(\n{inner},\n{indent}){returns}: ..."
    said = _first(node)
    return [*([f"{indent}# {said}"] if said and node.name != "__init__" else []), *lines, head]


def _arguments(given: ast.arguments) -> Iterator[str]:
    """Each argument as it is written, stars and slash included."""
    plain = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(given.defaults)), *given.defaults]
    for number, (each, default) in enumerate(zip(plain, defaults, strict=True), 1):
        yield _argument(each, default)
        if number == len(given.posonlyargs):
            yield "/"
    if given.vararg is not None:
        yield f"*{ast.unparse(given.vararg)}"
    elif given.kwonlyargs:
        yield "*"
    for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(each, default)
    if given.kwarg is not None:
        yield f"**{ast.unparse(given.kwarg)}"


def _argument(each: ast.arg, default: ast.expr | None) -> str:
    equals = " = " if each.annotation is not None else "="
    return ast.unparse(each) + (f"{equals}{ast.unparse(default)}" if default is not None else "")


def _first(node: Documented) -> str:
    """The first sentence or line of a docstring."""
    text = ast.get_docstring(node) or ""
    said = " ".join(text.split("\n\n")[0].split())
    end = said.find(". ")
    said = said[: end + 1] if end >= 0 else said
    return said if len(said) <= _SAID else f"{said[:_SAID].rsplit(' ', 1)[0]} …"


def main(which: str, folder: str | None = None) -> str:
    """The page of a generation, from a package folder or from the verifiers that this Python has."""
    if folder is None:
        spec = importlib.util.find_spec("verifiers")
        assert spec is not None, "this Python has no verifiers"
        folder = next(iter(spec.submodule_search_locations or []))
    return render(PAGES[which], Package(Path(folder)))


if __name__ == "__main__":
    sys.stdout.write(main(*sys.argv[1:]))
