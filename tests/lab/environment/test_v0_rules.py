"""Each rule of the v0 API has code that breaks it, and similar code that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.environment.package_texts import findings, told, v0

SOUND = """\
import re

import verifiers as vf
from datasets import Dataset

SYSTEM = "Put the number in answer tags."


def load_environment() -> vf.Environment:
    parser = vf.XMLParser(["answer"])

    async def correct(completion, answer, parser) -> float:
        said = parser.parse_answer(completion)
        return float(said is not None and said.strip() == answer)

    rubric = vf.Rubric(funcs=[correct, parser.get_format_reward_func()], weights=[1.0, 0.2], parser=parser)
    rows = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(70)]
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=rubric, parser=parser, system_prompt=SYSTEM)
"""


def changed(old: str, new: str) -> str:
    assert old in SOUND
    return SOUND.replace(old, new)


def test_sound_code_has_no_finding(tmp_path: Path) -> None:
    assert findings(tmp_path, v0(SOUND)) == []


@pytest.mark.parametrize(
    ("code", "trap"),
    [
        (changed(", parser=parser)\n    rows", ")\n    rows"), "parser-not-in-rubric"),
        (changed('["answer"])', '["think", "answer"])'), "think-in-parser"),
        (changed('"question": f"', '"prompt": [{"role": "user", "content": "x"}], "question": f"'), "prompt-columns"),
        (
            changed('"question": f"What is {n} + 1?"', '"prompt": [{"role": "system", "content": SYSTEM}]'),
            "prompt-columns",
        ),
        (changed('"question": f"', '"prompt": f"'), "prompt-columns"),
        (changed("parser.parse_answer(completion)", "completion.strip()"), "completion-as-string"),
        (changed("parser.parse_answer(completion)", 're.search("x", completion)'), "completion-as-string"),
        (changed("said is not None and said", "said"), "parse-none"),
        (
            changed(
                "return float(said is",
                "return float(parser.parse_answer(completion).strip() == answer)\n        return float(said is",
            ),
            "parse-none",
        ),
        (changed("(completion, answer, parser)", "(completion, answer, parser, answers=None)"), "group-reward-by-name"),
        (changed("-> float:", "-> list[float]:"), "group-reward-by-name"),
        (changed("    rows = [", "    judge = vf.JudgeRubric(judge_model='m')\n    rows = ["), "judge-needs-key"),
        (changed("    rows = [", "    math = vf.MathRubric()\n    rows = ["), "math-rubric-pool"),
        (
            changed("        said =", "        import requests\n        requests.get('http://x')\n        said ="),
            "blocking-call",
        ),
        (
            changed(
                "return float(said is not None and said.strip() == answer)",
                'return float(answer in completion[-1]["content"])',
            ),
            "substring-match",
        ),
    ],
    ids=lambda value: value if "\n" not in value else "",
)
def test_a_trap_is_told_with_its_line_and_nothing_else(tmp_path: Path, code: str, trap: str) -> None:
    found = findings(tmp_path, v0(code))
    assert {f.code for f in found} == {trap}
    assert {f.severity for f in found} <= {"warning", "info"}
    assert all(f.where and f.where.startswith("thing.py:") for f in found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # the function closes over the parser, so the rubric needs none
        ("answer, parser) -> float", "answer) -> float"),
        # a sync reward, which v0 takes
        ("async def correct", "def correct"),
        ("said is not None and said.strip()", "isinstance(said, str) and said.strip()"),
        ("float(said is not None and said.strip() == answer)", "float((said or '').strip() == answer)"),
        # a group reward on purpose
        ("(completion, answer, parser) -> float", "(completions, answers, parser) -> list[float]"),
        ("    rows = [", "    judge = vf.JudgeRubric(judge_client=make_client())\n    rows = ["),
        ("parser.parse_answer(completion)", 'completion[-1]["content"].strip()'),
        ("parser.parse_answer(completion)", "completion.copy() and parser.parse_answer(completion)"),
        ('"question": f"', '"info": {"prompt": "x", "question": "y"}, "question": f"'),
    ],
)
def test_code_that_looks_alike_and_is_sound_has_no_finding(tmp_path: Path, old: str, new: str) -> None:
    assert findings(tmp_path, v0(changed(old, new))) == []


def test_a_completion_environment_takes_text(tmp_path: Path) -> None:
    code = changed("parser.parse_answer(completion)", "completion.strip()")
    code = code.replace("system_prompt=SYSTEM", 'message_type="completion"')
    assert told(tmp_path, v0(code), "completion-as-string") == []
