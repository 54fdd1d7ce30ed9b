"""Computes the two fingerprints of an environment, and decides by static analysis which files `source` covers.

`content` covers every pushed file. `source` covers the files that the package's code can read, because these can decide
the reward: every file but the README that pyproject.toml names, and pyproject.toml as parsed TOML without its version.
If the code reads its README or its own metadata, `source` covers every file completely.

If the analysis is not sure, it assumes that the code reads these files. The only cost is that an edit of the README
then makes the evidence stale.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from typing import Any

from prime_lab_mcp.lab.base.syntax import last_name, parse_python
from prime_lab_mcp.lab.state.manifest import PUSHED_README, Manifest
from prime_lab_mcp.lab.state.outside_package import OWN_NAMES, outside_line

SOURCE_DEFINITION = b"prime-lab-mcp source fingerprint 2"
"""Part of every source fingerprint. A new definition of `source` needs a new text, so that older evidence is stale."""

_METADATA_MODULES = ("importlib.metadata", "importlib_metadata", "pkg_resources")
_METADATA_OF = frozenset({"version", "metadata", "distribution", "requires", "files", "get_distribution", "require"})
"""Functions of the metadata modules whose first argument is the name of a distribution."""
_OWN_FILE = re.compile(r"readme|pyproject|\.dist-info|\.egg-info|importlib[._]metadata|pkg_resources", re.I)
_METADATA_FILE = re.compile(r"METADATA|PKG-INFO")
_LISTING = frozenset({"glob", "iglob", "rglob", "iterdir", "listdir", "scandir", "walk"})
_DYNAMIC = frozenset({"exec", "eval", "compile", "__import__"})
_IMPORTING = frozenset({"import_module", "run_path", "run_module"})
_CLIMBING = frozenset(
    {"parents", "pardir", "getcwd", "cwd", "getsitepackages", "get_path", "submodule_search_locations"}
)
_OWN_PLACES = frozenset(
    {"co_filename", "getsourcefile", "getfile", "getabsfile", "__loader__", "linecache", "getsource",
     "getsourcelines"}
)  # fmt: skip
"""Names that lead to the files of code without `__file__`. Honest code hardly ever uses them."""
_DECODERS = frozenset(
    {"decode", "a85decode", "b16decode", "b32decode", "b64decode", "b85decode", "fromhex", "unhexlify", "decompress",
     "translate", "unescape", "unquote"}
)  # fmt: skip
_OPENERS = frozenset({"open", "open_text", "open_binary", "read_text", "read_bytes", "joinpath", "stat", "exists",
                      "is_file", "access", "fromfile", "loadtxt", "FileIO", "FileInput", "input"})  # fmt: skip
_READS_ITSELF = re.compile(rb"__doc__|getsource|getcomments|getdoc|tokenize")
_OPAQUE = (".so", ".pyd", ".pyc", ".dll", ".dylib", ".pth", ".pkl", ".pickle")
_SCRIPT = (".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".lua")


def content_fingerprint(contents: Mapping[str, bytes]) -> str:
    """sha256 over all pushed files, each with length-prefixed path and bytes."""
    return _fingerprint(contents.items())


def source_fingerprint(contents: Mapping[str, bytes], manifest: Manifest, content: str) -> str:
    """sha256 over the files that the code can read. `content` is the content fingerprint of the same files."""
    if own_files_reader(contents, manifest, content) is not None:
        return _fingerprint(contents.items(), SOURCE_DEFINITION)
    return _fingerprint(_sources(contents, manifest), SOURCE_DEFINITION)


def _sources(contents: Mapping[str, bytes], manifest: Manifest) -> Iterator[tuple[str, bytes]]:
    for path, data in contents.items():
        if path == manifest.readme:
            continue
        if path == "pyproject.toml" and manifest.problem is None:
            data = json.dumps(manifest.sourced(), sort_keys=True, default=str).encode()
        yield path, data


def _fingerprint(parts: Iterable[tuple[str, bytes]], definition: bytes | None = None) -> str:
    digest = hashlib.sha256()
    if definition is not None:
        digest.update(len(definition).to_bytes(8, "big") + definition)
    for path, data in sorted(parts):
        for piece in (path.encode(), data):
            digest.update(len(piece).to_bytes(8, "big"))
            digest.update(piece)
    return digest.hexdigest()


_cache: dict[str, str | None] = {}


def own_files_reader(contents: Mapping[str, bytes], manifest: Manifest, content: str) -> str | None:
    """Return the first place where the code may read its README or its own metadata, as `path:line: reason`.

    None means that there is no such place. The result is cached by content fingerprint.
    """
    if content not in _cache:
        if len(_cache) > 256:
            _cache.clear()
        _cache[content] = next(_readers(contents, manifest), None)
    return _cache[content]


def _readers(contents: Mapping[str, bytes], manifest: Manifest) -> Iterator[str]:
    yield from _repackaged(manifest)
    for path, data in sorted(contents.items()):
        if path.endswith(_OPAQUE):
            yield f"{path}: it holds code that cannot be read"
        elif path.endswith(_SCRIPT) and _OWN_FILE.search(data.decode("utf-8", "replace")):
            yield f"{path}: it names the README or the package's metadata"
        elif path.endswith(".py"):
            try:
                yield from _of_module(contents, path, manifest.name or "")
            except RecursionError:
                # Python runs what is too deep for the analysis, and another Python what is too deep for the parser.
                yield f"{path}: its expressions are nested too deeply to be analysed"


def _of_module(contents: Mapping[str, bytes], path: str, own: str) -> Iterator[str]:
    """Yield a reason for each way in which a Python file may read. Raises RecursionError."""
    try:
        tree = parse_python(contents[path], path)
    except (SyntaxError, ValueError):
        # The file may be data, or the code of a newer Python.
        if _OWN_FILE.search(contents[path].decode("latin-1")):
            yield f"{path}: it cannot be parsed, and it names the README or the package's metadata"
        return
    nodes = list(ast.walk(tree))
    line = _reader_line(nodes, own, "/" not in path.removeprefix("src/")) or outside_line(nodes, path)
    if line is not None:
        yield f"{path}:{line[0]}: {line[1]}"
    called = (n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
    if not _DYNAMIC.isdisjoint(called):
        yield from _run_texts(contents, path)


def _run_texts(contents: Mapping[str, bytes], path: str) -> Iterator[str]:
    """Yield a reason for each text in the package that names the README or metadata. `path` runs texts as code."""
    for other, data in sorted(contents.items()):
        if other == PUSHED_README or (other.endswith(".py") and not _READS_ITSELF.search(data)):
            continue
        if other != "pyproject.toml" and _OWN_FILE.search(data.decode("latin-1")):
            yield f"{path}: it runs text as code, and {other} names the README or the package's metadata"


def _repackaged(manifest: Manifest) -> Iterator[str]:
    """Yield a reason for each rule of the build configuration that can rename the README inside the wheel."""
    tool = manifest.table.get("tool")
    for source in _force_included(tool):
        normal = source.removeprefix("./").rstrip("/")
        if normal in ("", ".", manifest.readme, "pyproject.toml") or ".." in normal:
            yield f"pyproject.toml: it puts {normal or '.'} into the wheel under another name"


def _force_included(table: Any) -> Iterator[str]:
    for key, value in table.items() if isinstance(table, Mapping) else ():
        if key == "force-include" and isinstance(value, Mapping):
            yield from map(str, value)
        else:
            yield from _force_included(value)


def _reader_line(nodes: list[ast.AST], own: str, top_level: bool) -> tuple[int, str] | None:
    """Return number and reason of the first line that may read the package's README or metadata; None if there
    is none."""
    docstrings = {id(n.value) for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    modules = _metadata_names(nodes)
    foreign = _foreign_uses(nodes, modules, own)
    constants = constant_texts(nodes)
    climbs = top_level or any(_climbs(node) for node in nodes)
    package_data = any("pkgutil" in _imported_names(node) for node in nodes)
    hidden = any(isinstance(node, ast.Call) and last_name(node.func) in _OPENERS for node in nodes)
    lines: list[tuple[int, str]] = []
    for node in nodes:
        if not isinstance(node, ast.expr) or id(node) in docstrings:
            continue
        reason, name, text = None, last_name(node), folded_text(node, constants)
        if name in _OWN_PLACES or (package_data and name == "get_data") or text in _OWN_PLACES:
            reason = "it looks for the files of its code"
        elif hidden and isinstance(node, ast.Call) and _decodes_text(node):
            reason = "it opens files and decodes a text, which may be the name of one"
        elif isinstance(node, _NAMING) and id(node) not in foreign and _is_metadata(node, modules):
            reason = "it reads the metadata of installed packages"
        elif isinstance(node, ast.Call):
            reason = _call_reason(node, climbs, constants)
        if reason is None and text is not None and (_OWN_FILE.search(text) or _METADATA_FILE.search(text)):
            reason = "it names the README or the package's metadata"
        if reason is not None:
            lines.append((node.lineno, reason))
    return min(lines, default=None)


def _metadata_names(nodes: list[ast.AST]) -> dict[str, str]:
    """Map the local names of metadata modules, and of their members, to the full names."""
    names: dict[str, str] = {"importlib": "importlib"}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in _METADATA_MODULES:
                    names[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
                elif alias.name == "importlib" and alias.asname:
                    names[alias.asname] = "importlib"
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if full.startswith(_METADATA_MODULES):
                    names[alias.asname or alias.name] = full
    return names


def _is_metadata(node: ast.expr, names: Mapping[str, str]) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == "metadata" and _looks_up_importlib(node.value):
        return True
    dotted = _dotted(node) or ""
    head, _, rest = dotted.partition(".")
    full = f"{names[head]}.{rest}".rstrip(".") if head in names else ""
    return full.startswith(_METADATA_MODULES) or ".importlib.metadata" in dotted


def _looks_up_importlib(node: ast.AST) -> bool:
    """Whether an expression looks importlib up in a table of modules, as `sys.modules["importlib"]` does."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and str(node.slice.value).startswith("importlib")
    )


def _foreign_uses(nodes: list[ast.AST], names: Mapping[str, str], own: str) -> frozenset[int]:
    """Return the ids of nodes that read the metadata of another distribution, or that name an exception of a metadata
    module.

    The name of the other distribution must be a literal.
    """
    foreign: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr.endswith(("NotFoundError", "NotFound")):
            foreign.update(id(n) for n in ast.walk(node))
        if isinstance(node, ast.Name) and names.get(node.id, "").endswith(("NotFoundError", "NotFound")):
            foreign.add(id(node))
        if not isinstance(node, ast.Call) or not node.args or not _is_metadata(node.func, names):
            continue
        head, _, rest = (_dotted(node.func) or "").partition(".")
        function = f"{names.get(head, head)}.{rest}".rstrip(".").rpartition(".")[2]
        queried = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        if function in _METADATA_OF and isinstance(queried, str) and own and _canonical(queried) != _canonical(own):
            foreign.update(id(n) for n in ast.walk(node.func))
    return frozenset(foreign)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _call_reason(node: ast.Call, climbs: bool, constants: Mapping[str, str]) -> str | None:
    name = last_name(node.func)
    argument = folded_text(node.args[0], constants) if node.args else None
    if name in _IMPORTING and argument is None:
        return "it imports a module whose name is not literal"
    if name == "getattr" and len(node.args) > 1 and _dotted(node.args[0]) == "importlib":
        return "it reads the metadata of installed packages"
    if name in _LISTING and climbs:
        pattern = (argument or "*").rpartition("/")[2] or "*"
        if any(fnmatch(file, pattern) for file in OWN_NAMES):
            return "it lists files outside of its package"
    return None


def _imported_names(node: ast.AST) -> list[str | None]:
    """The modules that an import statement names."""
    if isinstance(node, ast.ImportFrom):
        return [node.module]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _decodes_text(node: ast.Call) -> bool:
    """Whether a call decodes a text that stands in the code. Texts of data are decoded from variables."""
    if last_name(node.func) not in _DECODERS:
        return False
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    subjects = [owner, *node.args[:1]]
    return any(isinstance(s, ast.Constant) and isinstance(s.value, str | bytes) and len(s.value) > 3 for s in subjects)


def _climbs(node: ast.AST) -> bool:
    """True if a node leaves the package's folder, or names a folder that may hold more than the package."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and ".." in node.value.split("/")
    if isinstance(node, ast.Attribute):
        twice = node.attr == "parent" and isinstance(node.value, ast.Attribute) and node.value.attr == "parent"
        return twice or node.attr in _CLIMBING or _dotted(node) == "sys.path"
    if isinstance(node, ast.Call):
        inner = node.args[0] if node.args else None
        return last_name(node.func) == "dirname" and isinstance(inner, ast.Call) and last_name(inner.func) == "dirname"
    return isinstance(node, ast.Name) and node.id in _CLIMBING


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    head = _dotted(node.value) if isinstance(node, ast.Attribute) else None
    return f"{head}.{last_name(node)}" if head else None


_ASSIGNING = (ast.Assign, ast.AnnAssign, ast.NamedExpr)
_NAMING = (ast.Name, ast.Attribute)


def constant_texts(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Map names to the constant text that they hold, so that a file name made of several parts is recognised."""
    constants: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, _ASSIGNING) and node.value is not None:
            text = folded_text(node.value, constants)
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            constants |= {t.id: text for t in targets if isinstance(t, ast.Name) and text is not None}
    return constants


_LONGEST = 4_000
"""Characters at which a joined text is cut."""
_DEEPEST = 40
"""Levels of an expression below which its parts count as not constant."""
_PERCENT = re.compile(r"%()s")
_BRACES = re.compile(r"\{(\w*)[^{}]*\}")
_Fold = Callable[[ast.AST], str | None]


def folded_text(node: ast.AST, constants: Mapping[str, str], depth: int = 0) -> str | None:
    """Evaluate an expression that consists of constant texts; None for any other expression."""

    def fold(inner: ast.AST) -> str | None:
        return folded_text(inner, constants, depth + 1)

    if depth > _DEEPEST:
        return None
    if isinstance(node, ast.Constant):
        value = node.value
        return value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else None
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.JoinedStr):
        return "".join(fold(part) or "" for part in node.values)  # a part that is not constant counts as empty
    if isinstance(node, ast.FormattedValue):
        return fold(node.value)
    if isinstance(node, ast.BinOp):
        return _folded_operation(node, fold)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        whole = fold(node.value)
        bounds = [_integer(b) for b in (node.slice.lower, node.slice.upper, node.slice.step)]
        return whole[slice(*bounds)] if whole is not None and bounds[2] != 0 else None
    return _folded_call(node, fold) if isinstance(node, ast.Call) else None


def _folded_operation(node: ast.BinOp, fold: _Fold) -> str | None:
    inserted = node.right.elts if isinstance(node.op, ast.Mod) and isinstance(node.right, ast.Tuple) else [node.right]
    left, texts = fold(node.left), [fold(one) for one in inserted]
    if left is None or None in texts:
        return None
    rights = [text or "" for text in texts]
    if isinstance(node.op, ast.Mod):
        return _filled(_PERCENT, left, {str(place): text for place, text in enumerate(rights)})
    return (left + rights[0])[:_LONGEST] if isinstance(node.op, ast.Add | ast.Div) else None


def _folded_call(node: ast.Call, fold: _Fold) -> str | None:
    name, arguments = last_name(node.func), [fold(argument) for argument in node.args]
    first = arguments[0] if arguments else None
    if name in ("chr", "bytes", "bytearray", "map") and node.args:
        numbers = [_integer(n) for n in ast.walk(node.args[-1]) if isinstance(n, ast.Constant)]
        return "".join(chr(n) for n in numbers if n is not None and 0 <= n < 0x110000) or None
    try:
        if name == "fromhex" and first:
            return bytes.fromhex(first).decode("latin-1")
        if name in ("b64decode", "urlsafe_b64decode") and first:
            return base64.b64decode(first).decode("latin-1")
    except ValueError:
        return None
    whole = fold(node.func.value) if isinstance(node.func, ast.Attribute) else None
    if whole is None:
        return None
    if name == "join" and node.args:
        joined = node.args[0]
        parts = [fold(item) for item in joined.elts] if isinstance(joined, ast.List | ast.Tuple) else [first]
        return None if None in parts else whole.join(part or "" for part in parts)
    if name in ("lower", "upper", "title", "strip", "swapcase", "encode", "decode"):
        return {"lower": whole.lower(), "upper": whole.upper(), "swapcase": whole.swapcase()}.get(name, whole)
    if name == "replace" and len(arguments) == 2:
        old, new = arguments
        return None if old is None or new is None else whole.replace(old, new)[:_LONGEST]
    if name == "format":
        named = {keyword.arg: fold(keyword.value) for keyword in node.keywords}
        return _filled(_BRACES, whole, {str(place): text for place, text in enumerate(arguments)} | named)
    return None


def _filled(gaps: re.Pattern[str], text: str, texts: Mapping[Any, str | None]) -> str:
    """A text with its gaps filled, by their names or else one after the other. What is not constant counts as empty."""
    places = itertools.count()
    return gaps.sub(lambda gap: texts.get(gap[1] or str(next(places))) or "", text)[:_LONGEST]


def _integer(node: ast.AST | None) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _integer(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None
