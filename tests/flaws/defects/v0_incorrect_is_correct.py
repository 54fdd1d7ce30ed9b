"""Looks for "correct" in the verdict of a judge that says INCORRECT as well.

format: free_text
generation: v0
finding: reward-wrong-passes, blocker

Whatever the judge says, the reply is paid. No judge is needed to see that.
"""

import os

import verifiers as vf
from datasets import Dataset
from openai import AsyncOpenAI

ASKED = """Compare a pupil's sentence with the one of the teacher.

Task: {question}
Teacher: {answer}
Pupil: {response}

Both must say the same. Say CORRECT or INCORRECT, and nothing else."""
ANIMALS = ("otter", "heron", "badger", "lynx", "newt", "stoat", "raven", "viper")
HABITS = ("sleeps by day", "hunts at night", "hides in winter", "lives near water", "moves alone", "builds no nest")


def load_environment() -> vf.Environment:
    rows = [
        {"question": f"Say in other words: the {animal} {habit}.", "answer": f"A {animal} is an animal that {habit}."}
        for habit in HABITS
        for animal in ANIMALS
    ]
    parser = vf.Parser()
    client = AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key=os.getenv("JUDGE_KEY") or "none", max_retries=0)
    rubric = vf.JudgeRubric(
        parser=parser, judge_client=client, judge_model="grader-1", judge_prompt=ASKED,
        judge_sampling_args={"temperature": 0},
    )

    async def same_meaning(prompt, completion, answer, state, judge) -> float:
        verdict = await judge(prompt, completion, answer, state)
        return float("correct" in verdict.lower())

    rubric.add_reward_func(same_meaning, weight=1.0)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(rows[:36]), eval_dataset=Dataset.from_list(rows[36:]), rubric=rubric, parser=parser,
        system_prompt="Reply with one sentence.",
    )
