"""A list of tool calls in any order, with credit for each.

format: tool_call
generation: v0

Calls are compared as values, each gold once, over the longer of both lists: an extra call, a missing one and one
with another argument all cost, and only the right list earns everything.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = (
    "You can call get_weather(city: string, days: integer) and get_rate(base: string, quote: string). Make the calls "
    'that the request needs: put them as a JSON list of objects with the keys "name" and "arguments", in any order, in '
    "<answer></answer> tags."
)
CITIES = ("Lima", "Oslo", "Wuhan", "Pecs", "Graz", "Dakar", "Braga", "Kobe")
MONEY = ("EUR", "USD", "JPY", "CHF", "NOK")


def rows() -> Iterator[tuple[str, str]]:
    for n in range(90):
        days = n % 6 + 1
        cities = [CITIES[(n + 3 * k) % 8] for k in range(n % 3 + 1)]
        calls = [{"name": "get_weather", "arguments": {"city": city, "days": days}} for city in cities]
        asked = f"Trip {n + 1}: I need the weather of the next {days} days in {' and in '.join(cities)}"
        if n % 2:
            base, quote = MONEY[n % 5], MONEY[(n + 1 + n % 3) % 5]
            calls.append({"name": "get_rate", "arguments": {"base": base, "quote": quote}})
            asked += f", and what one {base} is in {quote}"
        yield f"{asked}.", json.dumps(calls)


def text_of(completion) -> str:
    """The text of the last message."""
    if isinstance(completion, str):
        return completion
    content = completion[-1]["content"] if completion else ""
    return content if isinstance(content, str) else ""


def final(completion) -> str:
    """The one answer outside of thinking; nothing when there is none, or several that differ."""
    said = text_of(completion).rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(r"<answer>([^<]*)</answer>", said)
    if len(found) != said.count("<answer>") or len({text.strip() for text in found}) != 1:
        return ""
    return found[0].strip()


def calls(text: str) -> Counter:
    """The calls of a JSON list, spelled in one way; none for anything else."""
    try:
        said = json.loads(re.sub(r"^```(?:json)?\s*|\s*```$", "", text)[:8000])
        if not isinstance(said, list) or not all(isinstance(call, dict) for call in said):
            return Counter()
        return Counter(json.dumps(call, sort_keys=True) for call in said)
    except (ValueError, RecursionError):
        return Counter()


def correct(completion, answer) -> float:
    said, gold = calls(final(completion)), calls(answer)
    return (said & gold).total() / max(said.total(), gold.total())


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    rubric = vf.Rubric(funcs=[correct], weights=[1.0])
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:65]), eval_dataset=Dataset.from_list(table[65:]), system_prompt=SYSTEM,
        rubric=rubric,
    )
