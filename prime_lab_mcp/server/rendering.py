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
"""Size limit of one picture in bytes. Larger pictures are left out, because clients keep every result."""


def whole(report: Report) -> dict[str, Any]:
    """The report as strict JSON (no NaN), without secrets and without invisible characters."""
    strict = {key: _strict(value, one_line=key != "data") for key, value in report.as_json().items()}
    found: dict[str, Any] = json.loads(redact(json.dumps(strict, ensure_ascii=False)))
    return found


def structured(report: Report) -> dict[str, Any]:
    """The `whole` report in at most `MAX_CHARACTERS`. Long lists are cut and marked."""
    found = whole(report)
    for longest, texts in ((200, 4_000), (50, 1_500), (20, 600), (8, 300), (3, 120), (1, 60)):
        if _size(found) <= MAX_CHARACTERS:
            return found
        found = _cut(found, longest, texts)
    if _size(found) > MAX_CHARACTERS:
        found["data"] = {"left_out": "the result was too long to show"}
        found["findings"] = found["findings"][:5]
    return found


def text(found: dict[str, Any]) -> str:
    """The report as text, for people and for clients without structured content."""
    lines = [f"{found['status']}: {found['summary']}"]
    for finding in found["findings"]:
        where = f" [{finding['where']}]" if finding.get("where") else ""
        lines.append(f"- {finding['severity']} {finding['code']}{where}: {finding['message']} Fix: {finding['fix']}")
    for need in found["unmet"]:
        lines.append(f"- needs {need['tool']} ({need['why']}): {need['detail']}")
    for step in found["next"]:
        arguments = json.dumps(step["arguments"], ensure_ascii=False) if step.get("arguments") else ""
        lines.append(f"next: {step['tool']} {arguments} ({step['why']})")
    for link in found["links"]:
        lines.append(f"see {link['uri']} ({link['title']})")
    if found["data"]:
        lines.append(clip(json.dumps(found["data"], ensure_ascii=False), _TEXT_DATA))
    return clip("\n".join(lines), MAX_CHARACTERS - 100)


def images(report: Report) -> Iterator[tuple[str, str]]:
    """Media type and base64 content of each picture. Missing and too large pictures are left out."""
    for picture in report.pictures[:MAX_PICTURES]:
        try:
            with picture.path.open("rb") as file:
                held = file.read(MAX_PICTURE_BYTES + 1)
        except OSError:
            continue
        if 0 < len(held) <= MAX_PICTURE_BYTES:
            yield picture.media_type, base64.b64encode(held).decode("ascii")


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False))


_SEVERAL_LINES = frozenset({"rows", "arguments"})
"""Fields beside `data` whose texts may have several lines. A line break elsewhere could pass for another finding."""


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
        kept = [_cut(v, longest, texts) for v in value[:longest]]
        if len(value) > longest and all(isinstance(v, dict) for v in value):
            return kept
        return [*kept, f"… (+{len(value) - longest} more)"] if len(value) > longest else kept
    return value
