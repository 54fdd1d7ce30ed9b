"""Makes wrong replies of the caller's right ones: skeletons, repetitions, failing programs, replies to other tasks.

Tasks without a gold have no other completion in the asked form than those that the caller supplies. A skeleton of one
keeps its tags, its code fence or its JSON keys. A reward that pays skeletons pays for the form alone, and one that pays
nearly every right reply on other tasks does not ask whether the reply belongs to its task. One that pays a repeated
reply more than all weights together adds matches up. Where right replies are changed copies of a text that the prompt
gives, this text, unchanged, shows what changing it is worth.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from prime_lab_mcp.lab.datasets.task_golds import prompt_of
from prime_lab_mcp.lab.rewards.observations import Expected
from prime_lab_mcp.lab.rewards.probes.catalogue import GIVEN_TEXT, Draft, Probe, given_text
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.probes.programs import failing_programs
from prime_lab_mcp.lab.rewards.reply_lists import json_values
from prime_lab_mcp.lab.rewards.thresholds import HALF_SHARE
from prime_lab_mcp.lab.worker.description import Row

CLAIM = "an empty list and twice a number that a right reply states"
"""The variant of these replies."""
_MOST = 4
"""Largest number of tasks whose right reply is emptied, and of numbers of a reply that are kept."""
FEWEST_CROSSED, _OTHERS = 3, 6
"""Smallest number of different right replies, and number of other tasks to which each is given."""
_REPETITIONS = 50
_FEWEST_COPIES, _MOST_COPIES, _FEWEST_WORDS, _SAME_WORDS = 3, 8, 12, 0.6
"""Smallest and largest number of given texts, smallest number of their words, and share of words in the same order from
which a reply is a changed copy of one (our choice)."""
_FENCE = re.compile(r"```([\w+#-]*)[ \t]*\n.*?```", re.S)
_PROGRAM = re.compile(r"```(python|py|python3)[ \t]*\n(.*?)(?=```)", re.S)
_TAG = re.compile(r"<([A-Za-z_][\w-]{0,30})>[^<]*</\1>", re.S)
_PYTHON = frozenset({"python", "py", "python3"})


def skeleton_probes(placed: Sequence[tuple[Probe, Expected]]) -> list[Probe]:
    """Return skeletons of the replies that are expected to earn much, of one reply for each of some tasks."""
    return [
        Draft(Family.FORM_ALONE, skeleton, variant).probe(f"{variant}/{row}/{number}", row)
        for row, text in list(right_replies(placed).items())[:_MOST]
        for variant, made in (("nothing", skeletons(text)), (CLAIM, claims(text)))
        for number, skeleton in enumerate(dict.fromkeys(s for s in made if s.strip() != text.strip()))
    ]


def repeated_probes(placed: Sequence[tuple[Probe, Expected]]) -> list[Probe]:
    """Return the right reply of some tasks, fifty times one after the other."""
    return [
        Draft(Family.REPEATED_GOLD, "\n".join([text] * _REPETITIONS)).probe(f"repeated/{row}", row)
        for row, text in list(right_replies(placed).items())[:_MOST]
    ]


def failing_program_probes(placed: Sequence[tuple[Probe, Expected]]) -> list[Probe]:
    """Return the right programs of some tasks, changed so that they fail on nearly every input."""
    return [
        Draft(Family.PROGRAM_HACK, f"{text[: fence.start(2)]}{program}\n{text[fence.end(2) :]}", name).probe(
            f"failing/{row}/{name}", row
        )
        for row, text in list(right_replies(placed).items())[:_MOST]
        if (fence := _PROGRAM.search(text)) is not None
        for name, program in failing_programs(fence[2])
    ]


def crossed_probes(placed: Sequence[tuple[Probe, Expected]], rows: Sequence[Row]) -> list[Probe]:
    """Return the right replies of at least three tasks as replies to other tasks whose prompts differ; else none."""
    right = list(right_replies(placed).items())[:_MOST]
    prompts = {row.index: prompt_of(row).strip() for row in rows}
    if len({text for _, text in right}) < FEWEST_CROSSED:
        return []
    others = [row.index for row in rows if row.index not in dict(right) and prompts[row.index]]
    others = list({prompts[row]: row for row in others}.values())[-_OTHERS:]
    return [
        Draft(Family.CROSS, text).probe(f"crossed/{row}/{other}", other)
        for row, text in right
        for other in others
        if prompts.get(row) != prompts[other]
    ]


def unchanged_probes(placed: Sequence[tuple[Probe, Expected]], rows: Sequence[Row]) -> list[Probe]:
    """Return the text that the prompt gives, unchanged, where the right replies of all tasks are changed copies of it.

    Where each prompt is that text as a whole, the prompts of some other tasks are tried as well.
    """
    prompts = {row.index: prompt_of(row).strip() for row in rows}
    right = {row: text.strip() for row, text in right_replies(placed).items() if prompts.get(row)}
    given = {row: given_text(prompts[row], text) or prompts[row] for row, text in right.items()}
    copies = {row: text for row, text in given.items() if text != right[row] and _changed_copy(text, right[row])}
    if len(copies) < _FEWEST_COPIES or len(copies) < len(given):
        return []
    if all(text == prompts[row] for row, text in copies.items()):
        copies |= {row: prompt for row, prompt in list(prompts.items())[:_OTHERS] if prompt and row not in copies}
    return [
        Draft(Family.FORMED_ECHO, text, GIVEN_TEXT).probe(f"unchanged/{row}", row)
        for row, text in list(copies.items())[:_MOST_COPIES]
    ]


def _changed_copy(given: str, reply: str) -> bool:
    one, other = given.split(), reply.split()
    return len(one) >= _FEWEST_WORDS and SequenceMatcher(None, one, other, False).ratio() >= _SAME_WORDS


def right_replies(placed: Sequence[tuple[Probe, Expected]]) -> dict[int, str]:
    """Map tasks to the first of their replies that is expected to earn much. Whole conversations are left out."""
    right: dict[int, str] = {}
    for probe, expected in placed:
        high = expected == "high" or (isinstance(expected, int | float) and expected >= HALF_SHARE)
        if high and [m.get("role") for m in probe.messages] == ["assistant"]:
            right.setdefault(probe.row, probe.completion)
    return right


def skeletons(text: str) -> Iterator[str]:
    """Yield a reply with empty tags, with programs that do nothing, and with empty values of its JSON."""
    found = _object_in(text)
    if _FENCE.search(text):
        yield _FENCE.sub(_emptied_fence, text)
    elif _TAG.search(text):
        yield _TAG.sub(lambda match: f"<{match[1]}></{match[1]}>", text)
    elif found is not None:
        start, end, value = found
        yield f"{text[:start]}{json.dumps(_emptied(value))}{text[end:]}"


def claims(text: str) -> Iterator[str]:
    """Yield a reply with empty values of its JSON object but for one number, which is doubled, if the object has a list
    too. A reward may believe the sum that a reply states of its list; one that compares the number pays no other."""
    found = _object_in(text)
    if found is not None and any(isinstance(inner, list) and inner for inner in found[2].values()):
        start, end, value = found
        for key in _numbers(value)[:_MOST]:
            yield f"{text[:start]}{json.dumps({**_emptied(value), key: 2 * value[key] + 1})}{text[end:]}"


def _object_in(text: str) -> tuple[int, int, dict[str, Any]] | None:
    """Return (start, end, value) of the first JSON object of a text that is not empty; None if there is none."""
    found = ((start, end, value) for start, end, value in json_values(text) if isinstance(value, dict) and value)
    return next(found, None)


def _numbers(value: Mapping[str, Any]) -> list[str]:
    return [key for key, inner in value.items() if isinstance(inner, int | float) and not isinstance(inner, bool)]


def _emptied_fence(match: re.Match[str]) -> str:
    language = match[1].lower()
    inner = _read(match[0].partition("\n")[2].removesuffix("```"))
    content = json.dumps(_emptied(inner)) if isinstance(inner, dict | list) else "pass" if language in _PYTHON else ""
    return f"```{match[1]}\n{content}\n```"


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _emptied(value: Any) -> Any:
    """Return a JSON value with the same keys and nothing in them."""
    if isinstance(value, dict):
        return {key: _emptied(inner) for key, inner in value.items()}
    return [] if isinstance(value, list) else "" if isinstance(value, str) else 0 if value is not None else None
