"""How the reply of a rollout is read and paid."""

from __future__ import annotations

from typing import Any

import verifiers as vf

from v0_single_turn_template.answers import in_form, score


class V0SingleTurnTemplateParser(vf.Parser):
    """Finds the last assistant message; None when it does not give one answer in the right form."""

    def parse_answer(self, completion: Any) -> str | None:
        reply = super().parse_answer(completion) or ""
        return reply if in_form(reply) else None


async def correct_answer(completion: Any, answer: Any, parser: vf.Parser) -> float:
    """1 when the answer is right."""
    reply = parser.parse_answer(completion)
    return 0.0 if reply is None else score(reply, answer)


async def answer_format(completion: Any, parser: vf.Parser) -> float:
    """1 when the reply gives one answer in the right form, right or wrong."""
    return float(parser.parse_answer(completion) is not None)


def rubric(parser: vf.Parser) -> vf.Rubric:
    """A right answer pays 1.0, the form 0.1."""
    return vf.Rubric(funcs=[correct_answer, answer_format], weights=[1.0, 0.1], parser=parser)
