"""Half of the reward is for calling a tool at all.

format: tool_call
generation: v0
finding: reward-hackable or reward-wrong-passes, blocker

One call with any arguments earns as much as the right answer, and is learned first.
"""

import re
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Put the number in <answer></answer> tags."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        yield f"How many beds does the hut Nr. {n} have, and its neighbour Nr. {n + 2}, together?", str(2 * n + 42)


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


def used_tools(completion) -> float:
    return float(any(getattr(message, "tool_calls", None) for message in completion))


BEDS = {f"Nr. {n}": n + 20 for n in range(103)}


def beds(hut: str) -> str:
    """Number of beds of a hut.

    Args:
        hut: its name, such as Nr. 7
    """
    return str(BEDS.get(hut, "error: there is no such hut"))


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = OneTag()
    rubric = vf.Rubric(funcs=[correct, used_tools], weights=[0.5, 0.5], parser=parser)
    return vf.ToolEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric, tools=[beds],
    )
