"""A look-up that raises for an unknown name ends the rollout.

format: tool_call
generation: v0
finding: reward-rollout-fails, blocker

One misspelt name and the rollout is an error: the model learns never to look anything up.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"How many beds does the hut Nr. {n} have, and its neighbour Nr. {n + 1}, together?", str(2 * n + 41)


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


BEDS = {f"Nr. {n}": n + 20 for n in range(103)}


def beds(hut: str) -> str:
    """Number of beds of a hut.

    Args:
        hut: its name, such as Nr. 7
    """
    return str(BEDS[hut])


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = OneTag()
    rubric = vf.Rubric(funcs=[correct], weights=[1.0], parser=parser)
    return vf.ToolEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric, tools=[beds], stop_errors=[Exception],
    )
