"""A number to be found by bisection; the name of the session says nothing about it.

format: multi_turn
generation: v0

Nine guesses are enough for 500 numbers.
"""

import random
import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Your opponent has chosen a number from 1 to 500. Put each guess in <guess></guess> tags; you have nine."


def rows() -> Iterator[tuple[str, str, dict[str, int]]]:
    for n in range(100):
        number = 1 + (173 * n + 59) % 500
        session = f"s-{random.Random(n).randrange(501, 999)}-{chr(97 + n % 26)}"
        yield f"[session {session}]\nI have a number. What do you guess?", str(number), {"n": n}


def text_of(message) -> str:
    content = message.get("content") if isinstance(message, dict) else getattr(message, "content", None)
    return content if isinstance(content, str) else ""


def role_of(message) -> str:
    return str(message.get("role") if isinstance(message, dict) else getattr(message, "role", ""))


def guess(message) -> int | None:
    """The one guess of a message; None when there is none, or several."""
    found = re.findall(r"<guess>\s*([0-9]{1,6})\s*</guess>", text_of(message))
    return int(found[0]) if len(found) == 1 else None


class OpponentEnv(vf.MultiTurnEnv):
    """Says higher or lower."""

    async def env_response(self, messages, state, **kwargs):
        said, gold = guess(messages[-1]), int(state["answer"])
        if said == gold:
            state["final_env_response"] = [{"role": "user", "content": "You have it."}]
            return state["final_env_response"]
        if said is None:
            return [{"role": "user", "content": "That is no guess."}]
        return [{"role": "user", "content": f"My number is {'higher' if said < gold else 'lower'}."}]


def solution(info):
    def play(messages):
        low, high = 1, 500
        for said, told in zip(messages, messages[1:], strict=False):
            number = guess(said)
            if role_of(said) == "assistant" and number is not None:
                low, high = (number + 1, high) if "higher" in text_of(told) else (low, number - 1)
        return f"<guess>{(low + high) // 2}</guess>"

    return play


def correct(completion, answer) -> float:
    guesses = [guess(message) for message in completion if role_of(message) == "assistant"]
    return float(int(answer) in guesses[:9])


def load_environment() -> vf.Environment:
    table = [{"question": q, "answer": a, "info": info} for q, a, info in rows()]
    return OpponentEnv(
        dataset=Dataset.from_list(table[:60]), eval_dataset=Dataset.from_list(table[60:]), system_prompt=SYSTEM,
        rubric=vf.Rubric(funcs=[correct], weights=[1.0]), max_turns=9,
    )
