"""Code, calls, constraints, puzzles: HumanEval, MBPP, APPS, LiveCodeBench, BFCL, xLAM, ToolACE, IFEval, Countdown."""

from __future__ import annotations

import json

import pytest

from tests.lab.datasets.shapes.shape import Row, Shape, expected, inspected, pick, told


def humaneval(n: int) -> Row:
    return {
        "task_id": f"HumanEval/{n}",
        "prompt": f'def near_{n}(numbers: list[float], threshold: float) -> bool:\n    """ Check if any two are '
        f'close. """\n',
        "canonical_solution": "    return any(abs(a - b) < threshold for a in numbers for b in numbers)\n",
        "test": "\n\nMETADATA = {\n    'author': 'jt',\n    'dataset': 'test'\n}\n\n\ndef check(candidate):\n"
        f"    assert candidate([1.0, {n}.0], 0.3) == True\n",
        "entry_point": f"near_{n}",
    }


def mbpp(n: int) -> Row:
    return {
        "task_id": 600 + n,
        "text": f"Write a function to find the {n}th longest chain which can be formed from the given set of pairs.",
        "code": f"def longest_{n}(arr):\r\n  return max(arr)",
        "test_list": [f"assert longest_{n}([1, 2]) == 2", f"assert longest_{n}([{n}]) == {n}"],
        "test_setup_code": "",
        "challenge_test_list": [],
    }


def mbpp_sanitized(n: int) -> Row:
    return {
        "source_file": "Benchmark Questions Verification V2.ipynb",
        "task_id": 600 + n,
        "prompt": f"Write a function to find the shared elements from the {n} given lists.",
        "code": "def similar(a, b):\n  return tuple(set(a) & set(b))",
        "test_imports": [],
        "test_list": [f"assert set(similar((3, {n}), (5, {n}))) == set(({n},))"],
    }


def apps(n: int) -> Row:
    return {
        "problem_id": n,
        "question": f"Polycarp has {n} different binary words. A word is called binary if it holds only 0 and "
        f"1.\n\n-----Input-----\n",
        "solutions": json.dumps([f"for _ in range(int(input())):\n    print({n})"]),
        "input_output": json.dumps({"inputs": [f"4\n{n}\n", "1\n"], "outputs": ["1 3 \n-1\n", "0\n"]}),
        "difficulty": pick(n, "interview", "introductory"),
        "url": f"https://example.org/problemset/problem/{n}/D",
        "starter_code": "",
    }


def live_code_bench(n: int) -> Row:
    return {
        "question_title": f"{n}. Short Sort",
        "question_content": f"There are {n} cards with letters placed in a row in some order. Do the following "
        f"at most once.",
        "platform": "codeforces",
        "question_id": f"1873_{n}",
        "contest_id": "1873",
        "contest_date": "2023-08-21T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps([{"input": f"6\nabc\n{n}\n", "output": "YES\nNO\n", "testtype": "stdin"}]),
        "private_test_cases": f"eJxrYJmaz8gABhEZQEZ0tVJmXkFpiZKVgpJhTJ5SrY6CUn5pCUhQyTDWxNJAwcjQVCkmrzwjsyQVqMkw{n}",
        "metadata": "{}",
    }


def code_contests(n: int) -> Row:
    return {
        "name": f"{n}_F. Puzzle",
        "description": f"Petya {n} is going to make himself a birthday puzzle out of paper, and asks you for "
        f"help with it.",
        "public_tests": {"input": [f"3\n{n}\n", "1\n"], "output": ["2\n", "3\n"]},
        "private_tests": {"input": [f"4\n{n}\n"], "output": ["9\n"]},
        "difficulty": 12,
    }


def bfcl(n: int) -> Row:
    return {
        "id": f"simple_{n}",
        "question": [[{"role": "user", "content": f"Find the area of a triangle with a base of {n + 10} units."}]],
        "function": [{"name": "area", "description": "Area of a triangle.", "parameters": {"type": "dict"}}],
        "ground_truth": [{"area": {"base": [n + 10], "height": [5], "unit": ["units", ""]}}],
    }


def xlam(n: int) -> Row:
    return {
        "id": n,
        "query": f"Where can I find live giveaways for beta access and games of series {n}?",
        "answers": json.dumps([{"name": "live_giveaways", "arguments": {"type": "beta", "series": n}}]),
        "tools": json.dumps([{"name": "live_giveaways", "description": "Lists them.", "parameters": {}}]),
    }


def toolace(n: int) -> Row:
    return {
        "system": "You are an expert in composing functions. Here is a list of functions that you can invoke: [...]",
        "conversations": [
            {
                "from": "user",
                "value": f"I'm considering investing {n} dollars and would like to know what is going on.",
            },
            {"from": "assistant", "value": f"[Market Trends API(trend_type='MARKET_INDEXES', limit={n})]"},
        ],
    }


def openai_calls(n: int) -> Row:
    return {
        "messages": [{"role": "user", "content": f"What is the weather in town {n} today, in degrees?"}],
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": {}}}],
        "tool_calls": [
            {
                "id": f"call_{n}",
                "type": "function",
                "function": {"name": "weather", "arguments": json.dumps({"town": n})},
            },
        ],
    }


def ifeval(n: int) -> Row:
    return {
        "key": 1000 + n,
        "prompt": f"Write a summary of page {n} in 300+ words. Do not use any commas and highlight at least 3 "
        f"sections.",
        "instruction_id_list": ["punctuation:no_comma", "detectable_format:number_highlighted_sections"],
        "kwargs": [{"num_highlights": None, "relation": None}, {"num_highlights": 3, "relation": None}],
    }


def countdown(n: int) -> Row:
    return {"target": 20 + n, "nums": [n + 1, 19, 35, 4][: 3 + n % 2]}


def countdown_verl(n: int) -> Row:
    return {
        "target": 20 + n,
        "nums": [n + 1, 19, 35],
        "data_source": "countdown",
        "prompt": [
            {"role": "user", "content": f"Using the numbers {n + 1}, 19, 35, create an equation that equals {20 + n}."}
        ],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": {"target": 20 + n, "numbers": [n + 1, 19, 35]}},
        "extra_info": {"split": "train", "index": n},
    }


def extraction(n: int) -> Row:
    return {
        "text": f"Invoice {n}: Ada Holm bought {n + 3} lamps in the shop at the corner for her new flat.",
        "output": json.dumps({"buyer": "Ada Holm", "items": [{"what": "lamp", "number": n + 3}]}),
    }


SHAPES = [
    Shape("humaneval", humaneval, ("prompt",), "test", "code_tests"),
    Shape("mbpp", mbpp, ("text",), "test_list", "code_tests"),
    Shape("mbpp sanitized", mbpp_sanitized, ("prompt",), "test_list", "code_tests"),
    Shape("apps", apps, ("question",), "input_output", "code_tests"),
    Shape("LiveCodeBench", live_code_bench, ("question_content",), "public_test_cases", "code_tests"),
    Shape("code_contests", code_contests, ("description",), "private_tests", "code_tests"),
    Shape("BFCL", bfcl, ("question",), "ground_truth", "tool_call"),
    Shape("xlam-function-calling-60k", xlam, ("query",), "answers", "tool_call"),
    Shape("ToolACE", toolace, ("system", "conversations"), "conversations", "chat_messages"),
    Shape("calls as OpenAI writes them", openai_calls, ("messages",), "tool_calls", "tool_call"),
    Shape("IFEval", ifeval, ("prompt",), "instruction_id_list", "instruction_constraints"),
    Shape("Countdown-Tasks-3to4", countdown, None, "target", "procedural", codes=frozenset({"no-prompt-column"})),
    Shape("Countdown for verl", countdown_verl, ("prompt",), "reward_model.ground_truth", "procedural"),
    Shape("extraction", extraction, ("text",), "output", "json"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_programs_and_calls_are_recognised(shape: Shape) -> None:
    found = inspected(shape)
    assert told(found) == expected(shape)
    codes = {f.code for f in found.findings}
    assert shape.codes <= codes
    assert not codes & {"gold-unparseable", "mixed-format", "empty-gold"} - shape.codes


def test_what_has_no_template_says_what_to_do() -> None:
    for row in (ifeval, countdown):
        reward = inspected(Shape("no template", row, None, None, None)).recommended
        assert reward is not None
        assert reward.kind == "none"
        assert "no gold text" in reward.why
