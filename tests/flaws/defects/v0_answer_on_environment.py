"""Keeps the answer of the running rollout on the environment.

format: multi_turn
generation: v0
finding: reward-rollout-differs, blocker

Rollouts run at once: each is judged by the answer of the one that began last.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"A choir has {n + 3} women and {2 * n} men. How many singers is that?", str(3 * n + 3)


class OneTag(vf.Parser):
    """The number in the one answer tag of the last message; None when there is none or several."""

    def parse_answer(self, completion):
        text = (super().parse_answer(completion) or "").rpartition("</think>")[2].partition("<think>")[0]
        found = re.findall(r"<answer>([^<]*)</answer>", text)
        said = found[0].strip().rstrip(".") if len(found) == 1 and text.count("<answer>") == 1 else ""
        plain = re.fullmatch(r"-?[0-9][0-9,]{0,12}([.]0+)?", said)
        return str(int(float(said.replace(",", "")))) if plain else None


def correct(completion, parser, state) -> float:
    return float(parser.parse_answer(completion) == state["env"].wanted)


class ForgetfulEnv(vf.MultiTurnEnv):
    async def setup_state(self, state) -> None:
        self.wanted = state["answer"]
        state["env"] = self

    async def env_response(self, messages, state, **kwargs):
        return [{"role": "user", "content": "Are you sure? Say it again."}]


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = OneTag()
    rubric = vf.Rubric(funcs=[correct], weights=[1.0], parser=parser)
    return ForgetfulEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric, max_turns=2,
    )
