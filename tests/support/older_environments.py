"""Small v0 environments of several kinds, as people wrote them, for tests of ports."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.interpreters import DATASETS, OLDEST
from tests.support.packages import pyproject


@dataclass(frozen=True, slots=True)
class OlderEnvironment:
    """One package. `weights` are those of its own rewards, `left` the parts that a port does not carry over."""

    files: Mapping[str, str]
    weights: Mapping[str, float]
    left: tuple[str, ...] = ()
    rendering: str | None = None

    def write(self, environments: Path, name: str) -> None:
        """Write the package. Files called NAME belong to the module of the package."""
        folder = environments / name
        for path, text in self.files.items():
            place = folder / path.replace("NAME", name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(textwrap.dedent(text).replace("NAME", name), encoding="utf-8")
        described = pyproject(name, description="An older environment.", dependencies=[OLDEST, DATASETS])
        (folder / "pyproject.toml").write_text(described, encoding="utf-8")


PLACES = OlderEnvironment(
    {
        "NAME.py": """
            import verifiers as vf
            from datasets import Dataset

            CITIES = ["Lisbon", "Oslo", "Tartu", "Ghent", "Porto", "Graz", "Turku"]
            DAYS = ["Monday", "Tuesday", "Friday", "Sunday"]
            SYSTEM = "Say where and on which day, in this form:\\n<city>\\n...\\n</city>\\n<day>\\n...\\n</day>"


            def rows(first, n):
                for i in range(first, first + n):
                    city, day = CITIES[i % 7], DAYS[i // 7 % 4]
                    yield {"question": f"Notice {i}: the fair is in {city} on {day}.", "answer": f"{city}|{day}"}


            def load_environment():
                parser = vf.XMLParser(["city", "day"], answer_field="city")

                def place_and_day(completion, answer, **kwargs) -> float:
                    city, day = answer.split("|")
                    parsed = parser.parse(completion[-1]["content"])
                    return 0.5 * ((parsed.city or "") == city) + 0.5 * ((parsed.day or "") == day)

                rubric = vf.Rubric(funcs=[place_and_day], parser=parser)
                return vf.SingleTurnEnv(
                    dataset=Dataset.from_list(list(rows(0, 40))),
                    eval_dataset=Dataset.from_list(list(rows(40, 12))),
                    system_prompt=SYSTEM,
                    parser=parser,
                    rubric=rubric,
                )
        """,
    },
    {"place_and_day": 1.0},
    rendering="<city>\n{answer.1}\n</city>\n<day>\n{answer.2}\n</day>",
)

FIELDS = OlderEnvironment(
    {
        "NAME.py": '''
            import re

            import verifiers as vf
            from datasets import Dataset

            SYSTEM = "Think in reasoning tags, then give the number in answer tags."
            UNITS = ("apples", "pears")


            def rows(first, n):
                return [
                    {
                        "question": f"Tom has {3 * i + 2} {UNITS[i % 2]} and buys {7 * i + 5}. How many on day {i}?",
                        "answer": str(10 * i + 7),
                        "info": {"unit": UNITS[i % 2]},
                        "level": i % 3,
                    }
                    for i in range(first, first + n)
                ]


            def number(text):
                """The digits of a text."""
                return re.sub(r"[^0-9.-]", "", text or "")


            def names_no_unit(completion, info, **kwargs):
                return 0.0 if info["unit"] in completion[-1]["content"] else 1.0


            def load_environment(num_examples: int = -1, tolerance: float = 0.001):
                parser = vf.XMLParser(["reasoning", ("answer", "result")])

                async def correct_answer(completion, answer, parser) -> float:
                    return float(abs(float(number(parser.parse_answer(completion))) - float(answer)) <= tolerance)

                # Short replies are better.
                def brevity(completion, level):
                    return max(0.0, 1.0 - len(completion[-1]["content"]) / (400 + level))

                rubric = vf.Rubric(parser=parser)
                rubric.add_reward_func(correct_answer)
                rubric.add_reward_func(parser.get_format_reward_func(), weight=0.2)
                rubric.add_reward_func(names_no_unit, weight=0.1)
                rubric.add_reward_func(brevity, weight=0.05)
                return vf.SingleTurnEnv(
                    dataset=Dataset.from_list(rows(0, 12)),
                    eval_dataset=Dataset.from_list(rows(50, 3)),
                    system_prompt=SYSTEM,
                    parser=parser,
                    rubric=rubric,
                )
        '''
    },
    {"correct_answer": 1.0, "format_reward_func": 0.2, "names_no_unit": 0.1, "brevity": 0.05},
    ("arguments of load_environment",),
    "<reasoning>\n...\n</reasoning>\n<answer>\nGOLD\n</answer>",
)
PARSED = OlderEnvironment(
    {
        "NAME.py": """
            import verifiers as vf
            from datasets import Dataset
            from verifiers.types import Messages

            CAPITALS = dict(France="Paris", Italy="Rome", Spain="Madrid", Peru="Lima", Japan="Tokyo", Cuba="Havana")


            def after_colon(text: str) -> str:
                return text.rpartition(":")[2].strip().strip(".")


            def exact(completion: Messages, answer: str, parser: vf.Parser) -> float:
                return float(parser.parse_answer(completion).lower() == answer.lower())


            def load_environment():
                rows = [{"question": f"What is the capital of {c}?", "answer": a} for c, a in CAPITALS.items()]
                parser = vf.ThinkParser(extract_fn=after_colon)
                rubric = vf.Rubric(funcs=[exact, parser.get_format_reward_func()], weights=[1.0, 0.5], parser=parser)
                return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), parser=parser, rubric=rubric)
        """
    },
    {"exact": 1.0, "format_reward_func": 0.5},
    (),
    "<think>\n...\n</think>\nGOLD",
)
MODULES = OlderEnvironment(
    {
        "NAME/__init__.py": """
            from .environment import load_environment

            __all__ = ["load_environment"]
        """,
        "NAME/environment.py": """
            from datasets import Dataset
            from verifiers import Rubric, SingleTurnEnv

            from NAME.scoring import in_order, overlap

            WORDS = ["red", "blue", "green", "black", "white", "brown"]


            def make_bonus(limit):
                def bonus(completion):
                    return 1.0 if len(completion[-1].content) < limit else 0.25

                return bonus


            def load_environment():
                rows = [{"question": f"Repeat: {w} and {v}.", "answer": f"{w} {v}"} for w, v in zip(WORDS, WORDS[1:])]
                rubric = Rubric(funcs=[overlap, in_order], weights=[0.6, 0.4])
                rubric.add_reward_func(make_bonus(60), weight=0.1)
                rubric.add_reward_func(lambda completion: float(len(completion)), weight=0.02)
                few_shot = [{"role": "user", "content": "Repeat: a and b."}, {"role": "assistant", "content": "a b"}]
                return SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=rubric, few_shot=few_shot)
        """,
        "NAME/scoring.py": """
            from .text import words


            def overlap(completion, answer):
                said, wanted = words(completion[-1]["content"]), words(answer)
                return len(said & wanted) / len(wanted)


            def in_order(completion, answer, prompt):
                assert prompt[-1]["role"] == "user"
                return float(answer in completion[-1]["content"])
        """,
        "NAME/text.py": """
            import re

            WORD = re.compile(r"[a-z]+")


            def words(text):
                return set(WORD.findall(text.lower()))
        """,
    },
    {"overlap": 0.6, "in_order": 0.4, "bonus": 0.1, "reward": 0.02},
    (),
    "GOLD",
)
SORTED = OlderEnvironment(
    {
        "NAME.py": """
            import verifiers as vf
            from datasets import Dataset

            WORDS = ["red", "blue", "green", "black", "white", "brown"]


            def as_asked(completion, answer, task):
                return float(completion[-1]["content"] == (answer if task == "say" else answer * 2))


            def in_length(completion, state):
                return float((len(completion[-1]["content"]) > 5) == (state["input"]["task"] == "double"))


            def load_environment():
                rows = [
                    {"question": f"Take the word {w}.", "answer": w, "task": "say" if i % 2 else "double"}
                    for i, w in enumerate(WORDS)
                ]
                rubric = vf.Rubric(funcs=[as_asked, in_length], weights=[1.0, 0.1])
                return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=rubric)
        """
    },
    {"as_asked": 1.0, "in_length": 0.1},
    (),
    "GOLD",
)
MATH = OlderEnvironment(
    {
        "NAME.py": r"""
            import verifiers as vf
            from datasets import Dataset


            def load_environment():
                rows = [
                    {"question": f"What is {i} divided by {i + 3}?", "answer": rf"\frac{{{i}}}{{{i + 3}}}"}
                    for i in (1, 2, 4, 5, 7, 8)
                ]
                return vf.SingleTurnEnv(
                    dataset=Dataset.from_list(rows), rubric=vf.MathRubric(), system_prompt="Answer in \\boxed{}."
                )
        """
    },
    {"correct_answer": 1.0},
    (),
    "\\boxed{GOLD}",
)
TOOLS = OlderEnvironment(
    {
        "NAME.py": '''
            import verifiers as vf
            from datasets import Dataset

            PRICES = {"tea": 3, "bread": 4, "milk": 2}


            def price(item: str) -> int:
                """Look up the price of an item.

                Args:
                    item: the name of the item.
                """
                return PRICES[item]


            async def multiply(a: int, b: int = 1) -> int:
                """Multiply two numbers."""
                return a * b


            def load_environment():
                rows = [
                    {"question": f"What do {n} packs of {item} cost?", "answer": str(n * p)}
                    for item, p in PRICES.items()
                    for n in (2, 3)
                ]

                def correct(completion, answer):
                    return float(completion[-1]["content"].strip() == answer)

                def used_tools(completion, state):
                    calls = [c.name for m in completion if m["role"] == "assistant" for c in m.tool_calls or []]
                    return float("price" in calls and len(state["trajectory"]) > 1)

                rubric = vf.Rubric(funcs=[correct, used_tools], weights=[1.0, 0.3])
                return vf.ToolEnv(dataset=Dataset.from_list(rows), tools=[price, multiply], rubric=rubric, max_turns=6)
        '''
    },
    {"correct": 1.0, "used_tools": 0.3},
    (),
    "GOLD",
)
GAME = OlderEnvironment(
    {
        "NAME.py": '''
            import verifiers as vf
            from datasets import Dataset


            class GuessEnv(vf.MultiTurnEnv):
                """Guess a number."""

                def __init__(self, high=20, **kwargs):
                    super().__init__(**kwargs)
                    self.high = high

                async def setup_state(self, state):
                    state["guesses"] = []
                    return state

                @vf.stop
                async def solved(self, state):
                    return state.get("won", False)

                async def env_response(self, messages, state, **kwargs):
                    said = self.parser.parse_answer(messages[-1:]) or ""
                    state["guesses"].append(said)
                    if said == state["answer"]:
                        state["won"] = True
                        return [{"role": "user", "content": "Right."}]
                    if not said.isdigit():
                        return [{"role": "user", "content": f"Give a number up to {self.high}."}]
                    hint = "higher" if int(said) < int(state["answer"]) else "lower"
                    return [{"role": "user", "content": f"No, {hint}."}]


            def won(state):
                return float(state.get("won", False))


            def fast(state):
                return 1.0 / len(state["guesses"]) if state.get("won") else 0.0


            def load_environment(high: int = 20):
                rows = [{"question": f"Game {i}: guess my number.", "answer": str((7 * i) % 20 + 1)} for i in range(6)]
                parser = vf.XMLParser(["guess"], answer_field="guess")
                rubric = vf.Rubric(
                    funcs=[won, fast, parser.get_format_reward_func()], weights=[1.0, 0.5, 0.1], parser=parser
                )
                return GuessEnv(
                    high=high, dataset=Dataset.from_list(rows), parser=parser, rubric=rubric, max_turns=6
                )
        '''
    },
    {"won": 1.0, "fast": 0.5, "format_reward_func": 0.1},
    ("arguments of load_environment",),
)
DIRTY = OlderEnvironment(
    {
        "NAME.py": """
            import os, random, sys
            from typing import *
            import verifiers as vf
            from datasets import Dataset

            print("loading", os.getcwd())


            def correct(completion, answer, **kwargs):
                return eval("float(answer in completion[-1]['content'])")


            def unparsed(completion):
                if "?" in completion[-1]["content"]:
                    raise ValueError("no questions")
                return 0.5


            def grouped(completions):
                return [1.0] * len(completions) if len(completions) > 99 else None


            class Mood(vf.Rubric):
                def __init__(self):
                    super().__init__()
                    self.add_reward_func(self.cheerful, weight=0.25)

                def cheerful(self, completion):
                    return float("!" in completion[-1]["content"])


            def load_environment(**kwargs):
                words = ["red", "blue", "green", "black", "white", "brown", "red"]
                rows = [{"question": f"Say the word {w}.", "answer": w, "task": "say"} for w in words]
                rubric = vf.Rubric(funcs=[correct, unparsed], weights=[1.0, 0.2])
                return vf.SingleTurnEnv(
                    dataset=Dataset.from_list(rows), rubric=vf.RubricGroup([rubric, Mood()])
                )
        """
    },
    {"correct": 1.0, "unparsed": 0.2},
    ("reward cheerful (weight 0.25)",),
    "GOLD",
)
DICTS = OlderEnvironment(
    {
        "NAME.py": """
            import verifiers as vf
            from datasets import Dataset


            def said(completion):
                return " ".join(m["content"] for m in completion if isinstance(m, dict) and m["role"] == "assistant")


            def exact(completion, answer):
                return float(said(completion).strip() == answer)


            def load_environment():
                rows = [{"question": f"How many are {n} and {3 * n}?", "answer": str(4 * n)} for n in range(1, 30)]
                return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[exact]))
        """
    },
    {"exact": 1.0},
)
"""Its reward takes messages as dicts, as the first versions of verifiers had them; later ones have objects."""
TICKETS = OlderEnvironment(
    {
        "NAME.py": """
            import verifiers as vf
            from datasets import Dataset

            QUEUES = ["loans", "fines", "rooms", "accounts", "events"]
            SYSTEM = "Give the queue in <queue> tags and the urgency, from 1 to 4, in <urgency> tags."


            def load_environment():
                rows = [
                    {
                        "question": f"Ticket {n}: somebody wants to know about number {n * 7} of the list.",
                        "answer": QUEUES[n * 3 % 5],
                        "info": {"urgency": n % 4 + 1},
                    }
                    for n in range(40)
                ]
                parser = vf.XMLParser(["queue", "urgency"], answer_field="queue")

                def right_queue(completion, answer, **kwargs):
                    return 1.0 if (parser.parse_answer(completion) or "").strip() == answer else 0.0

                def right_urgency(completion, info, **kwargs):
                    said = getattr(parser.parse(completion[-1]["content"]), "urgency", None)
                    return 1.0 if said and said.strip() == str(info["urgency"]) else 0.0

                rubric = vf.Rubric(funcs=[right_queue, right_urgency], weights=[0.7, 0.3], parser=parser)
                return vf.SingleTurnEnv(
                    dataset=Dataset.from_list(rows), system_prompt=SYSTEM, parser=parser, rubric=rubric
                )
        """,
    },
    {"right_queue": 0.7, "right_urgency": 0.3},
    rendering="<queue>\nGOLD\n</queue>\n<urgency>\n{info.urgency}\n</urgency>",
)
OLDER = {
    "fields": FIELDS,
    "tickets": TICKETS,
    "places": PLACES,
    "parsed": PARSED,
    "modules": MODULES,
    "sorted": SORTED,
    "math": MATH,
    "tools": TOOLS,
    "game": GAME,
    "dirty": DIRTY,
}
