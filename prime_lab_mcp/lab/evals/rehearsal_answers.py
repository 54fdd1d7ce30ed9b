"""Sends the reference answers and solutions of tasks to the scripted model of the rehearsal platform.

No call with a real platform reaches this code. It is a separate module so that this is easy to verify.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.evals.results import checkpoint_purpose
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import LoadedEnvironment
from prime_lab_mcp.lab.worker.description import Message, Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import RequestedRollout, StatedSolutionTurn

_BATCH = 500
READING_SECONDS = 15.0
"""Time limit for reading the solutions that tasks state."""
PLAYING_SECONDS = 30.0
"""Time limit for playing the solutions that are functions."""
PLAYED_TASKS = 400
"""Most solutions that are played before an evaluation. A solution that is a function of the messages has to be played
in a rollout."""


def served_unlisted(lab: Lab, model: str) -> bool:
    """Whether the rehearsal platform serves a model that it does not list.

    These are checkpoints, and further names of its scripted model.
    """
    return model.startswith("rehearsal/") or checkpoint_purpose(lab, model) is not None


async def register_golds(
    variables: Mapping[str, str],
    rows: Iterable[Row],
    solutions: Mapping[int, Sequence[StatedSolutionTurn]] | None = None,
    replies: Mapping[int, str] | None = None,
) -> int:
    """Send the last user message, final answer and solution of every row to the platform; return the number sent.

    Rows without an answer and a solution are left out. `variables` hold the platform's address and key, `solutions` the
    turns of the solutions by row index, and `replies` whole right replies. Raises EvalError.
    """
    import httpx

    stated, known = solutions or {}, replies or {}
    pairs = [_pair(row, stated.get(row.index, ()), known.get(row.index, "")) for row in rows]
    pairs = [pair for pair in pairs if pair is not None]
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


class PlayableSolutions:
    """The solutions that the scripted model can play.

    Reading them can take long, so the last result is kept for calls with the same content, arguments and tasks.
    """

    def __init__(self) -> None:
        self._solutions: dict[str, dict[int, tuple[StatedSolutionTurn, ...]]] = {}

    async def of(
        self, env: LoadedEnvironment, rows: Sequence[Row], env_args: Mapping[str, Any]
    ) -> dict[int, tuple[StatedSolutionTurn, ...]]:
        """Return the turns of each task's solution by row index.

        The result is empty for an environment that states no solutions.
        """
        if not env.loaded.solutions:
            return {}
        key = json.dumps([env.snapshot.content, env_args, [row.key for row in rows]], sort_keys=True, default=str)
        if key not in self._solutions:
            self._solutions = {key: await playable_solutions(env.worker, rows)}
        return self._solutions[key]


async def playable_solutions(worker: Worker, rows: Sequence[Row]) -> dict[int, tuple[StatedSolutionTurn, ...]]:
    """Return the turns of each task's solution by row index.

    A solution that is a function is played in a rollout with the real tools. Solutions that fail or do not end within
    `PLAYING_SECONDS` are left out.
    """
    solutions = await worker.solutions([row.index for row in rows], seconds=READING_SECONDS)
    turns_by_row = dict(solutions.turns)
    if solutions.functions:
        plays = [RequestedRollout(row, {"solution": True}) for row in solutions.functions[:PLAYED_TASKS]]
        played = await worker.rollout(plays, seconds=PLAYING_SECONDS)
        for play, rolled in zip(plays, played.results, strict=False):
            if rolled.ok and rolled.end == "ended":
                turns_by_row[play.row] = tuple(_turn(m) for m in rolled.messages if m.get("role") == "assistant")
    return {row: turns for row, turns in turns_by_row.items() if turns}


def _turn(message: Message) -> StatedSolutionTurn:
    calls = [call.get("function") or {} for call in message.get("tool_calls") or ()]
    return StatedSolutionTurn(_text(message), tuple((str(c.get("name")), c.get("arguments")) for c in calls))


def _pair(row: Row, turns: Sequence[StatedSolutionTurn] = (), reply: str = "") -> dict[str, Any] | None:
    user_messages = [m for m in row.prompt if m.get("role") == "user"]
    answer = final_answer(row.answer)
    if not user_messages or not (answer or turns or reply):
        return None
    pair: dict[str, Any] = {"prompt": _text(user_messages[-1]), "answer": answer}
    if reply:
        pair["turns"] = [{"text": reply, "calls": []}]
    elif turns:
        pair["turns"] = [{"text": t.text, "calls": [{"name": n, "arguments": a} for n, a in t.calls]} for t in turns]
    if "turns" in pair:
        pair["before"] = sum(m.get("role") == "assistant" for m in row.prompt)
    return pair


def final_answer(answer: Any) -> str:
    """Return the final answer of a reference: the text after `####`, inside the last `\\boxed{}`, or the whole value.

    The first element counts for a list. The result is empty if there is no answer.
    """
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
