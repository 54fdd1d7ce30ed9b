"""How replies are read and paid: one rubric for each member of the group."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import verifiers as vf

from v0_group_template.answers import Member, close, exact, given


class V0GroupTemplateParser(vf.Parser):
    """Finds the number in the tags of the last assistant message; None when there is not exactly one."""

    def parse_answer(self, completion: Any) -> Decimal | None:
        return given(super().parse_answer(completion) or "")


async def exact_answer(completion: Any, answer: str, parser: vf.Parser) -> float:
    """1 when the number equals the gold."""
    number = parser.parse_answer(completion)
    return 0.0 if number is None else float(exact(number, answer))


async def close_answer(completion: Any, answer: str, parser: vf.Parser) -> float:
    """1 when the number is within the tolerance of the gold."""
    number = parser.parse_answer(completion)
    return 0.0 if number is None else float(close(number, answer))


async def answer_format(completion: Any, parser: vf.Parser) -> float:
    """1 when the reply gives one number in the right form, right or wrong."""
    return float(parser.parse_answer(completion) is not None)


def rubric(member: Member, parser: vf.Parser) -> vf.Rubric:
    """A right answer pays 1.0, the form 0.1, in both members: rewards of a group must be comparable."""
    correct = exact_answer if member == "whole" else close_answer
    return vf.Rubric(funcs=[correct, answer_format], weights=[1.0, 0.1], parser=parser)
