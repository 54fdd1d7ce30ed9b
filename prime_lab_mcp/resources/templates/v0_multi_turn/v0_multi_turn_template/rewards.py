"""How the attempts of a rollout are read and paid: from its messages alone."""

from __future__ import annotations

from typing import Any

import verifiers as vf

from v0_multi_turn_template.answers import given, in_form
from v0_multi_turn_template.turns import MAX_TURNS, worth


class V0MultiTurnTemplateParser(vf.Parser):
    """Reads every assistant message as an attempt."""

    def attempts(self, completion: Any) -> list[str]:
        """The texts of the attempts, in order."""
        said = self.get_assistant_messages(completion)
        return [vf.Parser.parse_answer(self, [message]) or "" for message in said][:MAX_TURNS]

    def parse_answer(self, completion: Any) -> str | None:
        """The answer in the tags of the last attempt; None when there is not exactly one."""
        attempts = self.attempts(completion)
        return given(attempts[-1]) if attempts else None


async def correct_answer(completion: Any, answer: str, parser: V0MultiTurnTemplateParser) -> float:
    """1 for a right first attempt, less by a constant for each wrong one before it."""
    return worth(parser.attempts(completion), answer)


async def answer_format(completion: Any, parser: V0MultiTurnTemplateParser) -> float:
    """Share of the attempts that give one answer in the right form, right or wrong."""
    attempts = parser.attempts(completion)
    return sum(map(in_form, attempts)) / len(attempts) if attempts else 0.0


def rubric(parser: vf.Parser) -> vf.Rubric:
    """A right first attempt pays 1.0, the form 0.1. MultiTurnEnv adds the number of turns as a metric."""
    return vf.Rubric(funcs=[correct_answer, answer_format], weights=[1.0, 0.1], parser=parser)
