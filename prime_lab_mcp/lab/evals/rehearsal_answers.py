"""Rehearsal only: sends the reference answers of the tasks to the scripted model of the loopback platform.

Never called with a real platform. The code stands in a module of its own so that this is easy to verify.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.worker.description import Message, Row

_BATCH = 500


async def register_golds(variables: Mapping[str, str], rows: Iterable[Row]) -> int:
    """Send (last user message, final answer) of every row that has both; return their number. Raises EvalError."""
    import httpx

    pairs = [pair for row in rows if (pair := _pair(row)) is not None]
    root = variables["PRIME_API_BASE_URL"].rstrip("/")
    headers = {"authorization": f"Bearer {variables['PRIME_API_KEY']}"}
    try:
        async with httpx.AsyncClient(timeout=30, headers=headers) as client:
            for start in range(0, len(pairs), _BATCH):
                body = {"answers": pairs[start : start + _BATCH]}
                (await client.post(f"{root}/rehearsal/answers", json=body)).raise_for_status()
    except httpx.HTTPError as error:
        raise EvalError(
            f"the rehearsal platform did not take the answers ({type(error).__name__})",
            fix="Start the server again; if it repeats, run prime-lab-mcp doctor.",
            code="rehearsal-failed",
        ) from error
    return len(pairs)


def _pair(row: Row) -> dict[str, str] | None:
    user_messages = [m for m in row.prompt if m.get("role") == "user"]
    answer = final_answer(row.answer)
    if not user_messages or not answer:
        return None
    return {"prompt": _text(user_messages[-1]), "answer": answer}


def final_answer(answer: Any) -> str:
    """Return the final answer: after `####`, inside the last box, or the value itself; empty if there is none."""
    if isinstance(answer, list | tuple):
        return final_answer(answer[0]) if answer else ""
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
