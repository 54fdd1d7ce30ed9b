"""Renders reports for clients: JSON with a size limit, the same report as compact text, and its pictures."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from typing import Any

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.base.text import clip, escape, escape_lines, redact

MAX_CHARACTERS = 20_000
"""Length limit of a result in characters, both structured and as text."""
_TEXT_DATA = 6_000
MAX_PICTURES = 2
MAX_PICTURE_BYTES = 100_000
"""Size limit of one picture in bytes. Larger pictures are left out, because clients store every result."""


def whole(report: Report) -> dict[str, Any]:
    """The report as strict JSON (no NaN), without secrets and without invisible characters."""
    strict = {key: _strict(value, one_line=key != "data") for key, value in report.as_json().items()}
    content: dict[str, Any] = json.loads(redact(json.dumps(strict, ensure_ascii=False)))
    return content


def structured(report: Report) -> dict[str, Any]:
    """The `whole` report in at most `MAX_CHARACTERS`. Long lists are cut and marked."""
    content = whole(report)
    for longest, texts in ((200, 4_000), (50, 1_500), (20, 600), (8, 300), (3, 120), (1, 60)):
        if _size(content) <= MAX_CHARACTERS:
            return content
        content = _cut(content, longest, texts)
    if _size(content) > MAX_CHARACTERS:
        content["data"] = {"left_out": "the result was too long to show"}
    return content


def text(content: dict[str, Any]) -> str:
    """The report as text, for people and for clients without structured content."""
    lines = [f"{content['status']}: {content['summary']}"]
    for finding in content["findings"]:
        where = f" [{finding['where']}]" if finding.get("where") else ""
        lines.append(f"- {finding['severity']} {finding['code']}{where}: {finding['message']} Fix: {finding['fix']}")
    for need in content["unmet"]:
        lines.append(f"- needs {need['tool']} ({need['why']}): {need['detail']}")
    for step in content["next"]:
        arguments = json.dumps(step["arguments"], ensure_ascii=False) if step.get("arguments") else ""
        lines.append(f"next: {step['tool']} {arguments} ({step['why']})")
    for link in content["links"]:
        lines.append(f"see {link['uri']} ({link['title']})")
    if content["data"]:
        # The caller asked for this page or file, and the tool has already limited its length.
        asked_for = isinstance(content["data"].get("text"), str)
        limit = MAX_CHARACTERS if asked_for else _TEXT_DATA
        lines.append(clip(json.dumps(content["data"], ensure_ascii=False), limit))
    return clip("\n".join(lines), MAX_CHARACTERS - 100)


def images(report: Report) -> Iterator[tuple[str, str]]:
    """Yield media type and base64 content of each picture. Missing and too large pictures are left out."""
    for picture in report.pictures[:MAX_PICTURES]:
        try:
            with picture.path.open("rb") as file:
                content = file.read(MAX_PICTURE_BYTES + 1)
        except OSError:
            continue
        if 0 < len(content) <= MAX_PICTURE_BYTES:
            yield picture.media_type, base64.b64encode(content).decode("ascii")


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False))


_SEVERAL_LINES = frozenset({"rows", "arguments"})
"""Fields besides `data` whose texts may have several lines. In other fields, a line break could imitate a finding."""


def _strict(value: Any, *, one_line: bool) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {escape(str(k)): _strict(v, one_line=one_line and k not in _SEVERAL_LINES) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(v, one_line=one_line) for v in value]
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else str(value)
    return escape(text) if one_line else escape_lines(text)


def _cut(value: Any, longest: int, texts: int) -> Any:
    if isinstance(value, str):
        return clip(value, texts)
    if isinstance(value, dict):
        return {k: _cut(v, longest, texts) for k, v in value.items()}
    if isinstance(value, list):
        items = [_cut(v, longest, texts) for v in value[:longest]]
        if len(value) > longest and all(isinstance(v, dict) for v in value):
            return items
        return [*items, f"… (+{len(value) - longest} more)"] if len(value) > longest else items
    return value
