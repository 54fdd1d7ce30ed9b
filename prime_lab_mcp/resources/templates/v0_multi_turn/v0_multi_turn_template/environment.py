"""The environment: a question, an attempt, a response, the next attempt."""

from __future__ import annotations

from typing import Any

import verifiers as vf

from v0_multi_turn_template.answers import FORMAT, score
from v0_multi_turn_template.rewards import V0MultiTurnTemplateParser, rubric
from v0_multi_turn_template.tasks import tasks
from v0_multi_turn_template.turns import MAX_TURNS, RULES, response

INSTRUCTION = "Solve the problem step by step."


class V0MultiTurnTemplateEnv(vf.MultiTurnEnv):
    """Answers each attempt, until it is right or the last.

    `is_completed` is final in verifiers: what ends a rollout is a method with `@vf.stop`, asked after every attempt.
    """

    @vf.stop
    async def answered_right(self, state: vf.State) -> bool:
        attempts = self.parser.attempts([m for step in state["trajectory"] for m in step["completion"]])
        return bool(attempts) and bool(score(attempts[-1], state["answer"]))

    async def env_response(self, messages: Any, state: vf.State, **kwargs: Any) -> list[dict[str, str]]:
        attempt = vf.Parser.parse_answer(self.parser, messages) or ""
        said = response(attempt, state["answer"], MAX_TURNS - len(state["trajectory"]))
        return [] if said is None else [{"role": "user", "content": said}]


def load_environment() -> vf.Environment:
    """The environment. A rollout has as many attempts as `turns.py` says."""
    parser = V0MultiTurnTemplateParser()
    return V0MultiTurnTemplateEnv(
        max_turns=MAX_TURNS,
        dataset=tasks("train"),
        eval_dataset=tasks("eval"),
        system_prompt=f"{INSTRUCTION}\n{RULES}\n{FORMAT}",
        parser=parser,
        rubric=rubric(parser),
    )
