"""Asks for another try until the answer is right, without a limit.

format: multi_turn
generation: v0
finding: reward-rollout-endless, blocker

A model that does not find the number goes on until its context is full, in every rollout.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A farmer has {n} sheep and {n + 12} goats. How many animals is that?", str(2 * n + 12)


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


class PatientEnv(vf.MultiTurnEnv):
    @vf.stop
    async def answered_right(self, state) -> bool:
        steps = state["trajectory"]
        return bool(steps) and correct(steps[-1]["completion"], state["answer"], self.parser) == 1.0

    async def env_response(self, messages, state, **kwargs):
        return [{"role": "user", "content": "That is not right. Try again."}]


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = OneTag()
    rubric = vf.Rubric(funcs=[correct], weights=[1.0], parser=parser)
    return PatientEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
