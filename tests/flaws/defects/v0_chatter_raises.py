"""Reads the answer of a turn as a number at once.

format: multi_turn
generation: v0
finding: reward-rollout-fails, blocker

A reply without a number raises in env_response, which ends the whole run and not only the rollout.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A bakery sold {n + 4} loaves and {3 * n} rolls. How many pieces is that?", str(4 * n + 4)


class OneTag(vf.Parser):
    """The number in the one answer tag of the last message; None when there is none or several."""

    def parse_answer(self, completion):
        text = (super().parse_answer(completion) or "").rpartition("</think>")[2].partition("<think>")[0]
        found = re.findall(r"<answer>([^<]*)</answer>", text)
        said = found[0].strip().rstrip(".") if len(found) == 1 and text.count("<answer>") == 1 else ""
        plain = re.fullmatch(r"-?[0-9][0-9,]{0,12}([.]0+)?", said)
        return str(int(float(said.replace(",", "")))) if plain else None


def correct(completion, answer, parser) -> float:
    return float(parser.parse_answer(completion) == answer)


class StrictEnv(vf.MultiTurnEnv):
    @vf.stop
    async def answered_right(self, state) -> bool:
        steps = state["trajectory"]
        return bool(steps) and correct(steps[-1]["completion"], state["answer"], self.parser) == 1.0

    async def env_response(self, messages, state, **kwargs):
        said = int(self.parser.parse_answer(messages))
        return [{"role": "user", "content": "Too low." if said < int(state["answer"]) else "Too high."}]


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = OneTag()
    rubric = vf.Rubric(funcs=[correct], weights=[1.0], parser=parser)
    return StrictEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric, max_turns=4,
    )
