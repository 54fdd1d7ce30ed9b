"""How the final reply of a rollout is read and paid."""

from __future__ import annotations

from typing import Any

import verifiers as vf

from shared_template.answers import equal, given


class SharedTemplateParser(vf.Parser):
    """Finds the answer in the tags of the last assistant message; None when there is not exactly one."""

    def parse_answer(self, completion: Any) -> str | None:
        return given(super().parse_answer(completion) or "")


async def correct_answer(completion: Any, answer: str, parser: vf.Parser) -> float:
    """1 when the final answer is right, however it was found."""
    found = parser.parse_answer(completion)
    return 0.0 if found is None else float(equal(found, answer))


async def answer_format(completion: Any, parser: vf.Parser) -> float:
    """1 when the last reply gives one answer in the right form, right or wrong."""
    return float(parser.parse_answer(completion) is not None)


def rubric(parser: vf.Parser) -> vf.Rubric:
    """A right answer pays 1.0, the form 0.1. ToolEnv adds the numbers of tool calls as metrics."""
    return vf.Rubric(funcs=[correct_answer, answer_format], weights=[1.0, 0.1], parser=parser)
