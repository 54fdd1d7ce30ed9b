"""Rehearsal only: tells the scripted model of the loopback platform what the right answers are.

Never called with a real platform. Apart so that this is plain to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prime_lab_mcp.lab.errors import EvalError
from prime_lab_mcp.lab.worker.cases import Message, Row

_BATCH = 500


async def register_golds(variables: Mapping[str, str], rows: Iterable[Row]) -> int:
    """Send (last user message, final answer) of every row that has both; returns how many. Raises EvalError."""
    import httpx

    known = [found for row in rows if (found := _pair(row)) is not None]
    root = variables["PRIME_API_BASE_URL"].rstrip("/")
    headers = {"authorization": f"Bearer {variables['PRIME_API_KEY']}"}
    try:
        async with httpx.AsyncClient(timeout=30, headers=headers) as client:
            for start in range(0, len(known), _BATCH):
                body = {"answers": known[start : start + _BATCH]}
                (await client.post(f"{root}/rehearsal/answers", json=body)).raise_for_status()
    except httpx.HTTPError as error:
        raise EvalError(
            f"the rehearsal platform did not take the answers ({type(error).__name__})",
            fix="Start the server again; if it repeats, run prime-lab-mcp doctor.",
            code="rehearsal-failed",
        ) from error
    return len(known)


def _pair(row: Row) -> dict[str, str] | None:
    asked = [m for m in row.prompt if m.get("role") == "user"]
    answer = final(row.answer)
    if not asked or not answer:
        return None
    return {"prompt": _text(asked[-1]), "answer": answer}


def final(answer: Any) -> str:
    """The plain final answer: after `####`, inside the last box, or the value itself; empty when there is none."""
    if isinstance(answer, list | tuple):
        return final(answer[0]) if answer else ""
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    if not isinstance(answer, str | int | float):
        return ""
    text = str(answer)
    if "####" in text:
        return text.rpartition("####")[2].strip()
    start = text.rfind("\\boxed{")
    if start < 0:
        return text.strip()
    depth, inside = 1, start + len("\\boxed{")
    for place in range(inside, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[inside:place].strip()
    return text.strip()


def _text(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return ""
