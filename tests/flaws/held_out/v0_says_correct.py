"""Looks for the word of praise in the whole conversation.

format: multi_turn
generation: v0
finding: reward-hackable or reward-wrong-passes or reward-gold-fails or reward-constant, blocker

The game answers Correct! or Incorrect, higher, and the reward looks for correct anywhere: the second holds it as
well, and so does a policy that writes it itself.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Guess the number. Put each guess in <guess></guess> tags; you are told whether the number is higher or lower."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        low = 10 * (n % 9)
        yield f"Game {n + 1}: I think of a number from {low} to {low + 15}.", str(low + (7 * n + 3) % 16)


def guess(message) -> int | None:
    """The guess of one message."""
    found = re.findall(r"<guess>\s*([0-9]{1,6})\s*</guess>", str(message["content"] or ""))
    return int(found[-1]) if found else None


class GuessEnv(vf.MultiTurnEnv):
    """Says whether a guess is right, and if not, where to look."""

    async def env_response(self, messages, state, **kwargs):
        said, gold = guess(messages[-1]), int(state["answer"])
        if said is None:
            return [{"role": "user", "content": "Put a number in <guess></guess> tags."}]
        if said == gold:
            told = [{"role": "user", "content": "Correct!"}]
            state["final_env_response"] = told
            return told
        return [{"role": "user", "content": f"Incorrect, it is {'higher' if said < gold else 'lower'}."}]


def solved(completion) -> float:
    messages = completion if isinstance(completion, list) else [{"content": completion}]
    return float(any("correct" in str(message["content"] or "").lower() for message in messages))


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    return GuessEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        rubric=vf.Rubric(funcs=[solved], weights=[1.0]), max_turns=6,
    )
