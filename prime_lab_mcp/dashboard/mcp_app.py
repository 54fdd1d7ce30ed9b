"""The page as one HTML document for clients that render MCP Apps (extension io.modelcontextprotocol/ui, 2026-01-26).

Such a client shows the document in a frame beside the result of a tool. The frame may load nothing, so the style and
all scripts are inside of the document, and the scripts read through the client (static/mcp_app.js).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from functools import cache

from prime_lab_mcp import __version__
from prime_lab_mcp.dashboard import STATIC

ENTRY = "mcp_app.js"
_IMPORT = re.compile(r'^import (\{[^}\n]+\}|\* as \w+) from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


@cache
def app_document(tool: str) -> str:
    """The document beside the results of one tool."""
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    icon = base64.b64encode((STATIC / "icon.svg").read_bytes()).decode("ascii")
    style, script = (STATIC / "style.css").read_text(encoding="utf-8"), one_script(ENTRY)
    head = f'<meta name="tool" content="{tool}">\n<meta name="version" content="{__version__}">'
    for old, new in (
        ('<link rel="icon" href="icon.svg" type="image/svg+xml">', head),
        ('<link rel="stylesheet" href="style.css">', f"<style>\n{style}</style>"),
        ('<script type="module" src="app.js"></script>', f'<script type="module">\n{script}</script>'),
        ('src="icon.svg"', f'src="data:image/svg+xml;base64,{icon}"'),
        ("<body>", '<body class="app">'),
    ):
        before, mark, after = page.partition(old)
        if not mark:
            raise RuntimeError(f"index.html has no {old}")
        page = before + new + after
    return page


def one_script(entry: str) -> str:
    """The modules that a script needs and the script itself, as one. Each module becomes an object of its exports."""
    parts = ["const modules = {};\n"]
    for name in _in_order(entry, {}):
        text = (STATIC / name).read_text(encoding="utf-8")
        text = _IMPORT.sub(lambda match: f"const {_names(match[1])} = modules[{match[2]!r}];\n", text)
        if name != entry:
            exports = ", ".join(match[1] for match in _EXPORT.finditer(text))
            text = f"modules[{name!r}] = (() => {{\n{_EXPORT.sub('', text)}return {{ {exports} }};\n}})();\n"
        parts.append(text)
    return "".join(parts)


def _names(imported: str) -> str:
    return imported.removeprefix("* as ")


def _in_order(name: str, visited: dict[str, None]) -> Iterator[str]:
    """The modules that a module imports, each before those that import it, and the module itself last."""
    visited[name] = None
    for match in _IMPORT.finditer((STATIC / name).read_text(encoding="utf-8")):
        if match[2] not in visited:
            yield from _in_order(match[2], visited)
    yield name
