"""Builds probes for tasks without a gold: an empty reply, chatter, a repeated prompt, and programs that solve nothing.

The right answer of such a task is unknown, but these completions do not even try to answer. A reward that pays all of
them the same pays for nothing (rules/goldless.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from prime_lab_mcp.lab.datasets.task_golds import prompt_of, whole_prompt
from prime_lab_mcp.lab.rewards.probes.answer_formats import CODE, AnswerWrapper, requested_wrappers
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, Draft, Probe, assistant_message
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.probes.programs import (
    HACKED_TASKS,
    example_programs,
    hack_programs,
    output_markers,
)
from prime_lab_mcp.lab.rewards.scripts import CHATTER
from prime_lab_mcp.lab.rewards.shared_words import shared_word_probes
from prime_lab_mcp.lab.worker.description import Row

SAYS_NONE = "says that there is none"
"""Variant of a reply that says in the asked form that there is no answer."""
OTHER_TASK = "of another task"
"""Variant of a probe that repeats the prompt of another task."""
_TASKS = 4
_NAMES = 3
_RUNS_PROGRAMS = re.compile(r"\bsubprocess\b|\bexec\(|\bcreate_subprocess|\bPopen\b|\brun_code\b|\.run\(\s*\[")
IDLE = "does nothing"
"""Variant of a program that defines what the prompt names and does nothing."""
_IDLE_TASKS = 6
"""Number of tasks on which this program is tried."""
_FUNCTION = re.compile(
    r"\bdef ([A-Za-z_]\w*)|`([A-Za-z_]\w*)\(|\b(?:[Ww]rite|[Ii]mplement|[Dd]efine|[Ff]unction)\s+([A-Za-z_]\w*)\("
)


def echoes(rows: Sequence[Row], tasks: int) -> list[tuple[Row, str, str]]:
    """Return (row, prompt, prompt of another task) for the first `tasks` tasks; a missing prompt is an empty text."""
    prompts = [prompt_of(row).strip() for row in rows]
    others = list(dict.fromkeys(filter(None, prompts)))[: tasks + 1]
    triples = []
    for row, prompt in list(zip(rows, prompts, strict=True))[:tasks]:
        triples.append((row, prompt, next((o for o in others if prompt and o != prompt), "")))
        others = [*others[1:], *others[:1]]
    return triples


def goldless_probes(rows: Sequence[Row], source: str = "") -> list[Probe]:
    """Return the probes for a few tasks without a gold. They include programs if `source` runs programs."""
    probes = [probe for row, prompt, other in echoes(rows, _TASKS) for probe in _probes(row, prompt, other)]
    return [*probes, *shared_word_probes(rows), *program_probes(rows, source)]


_NONE = re.compile(r"(?<![\w'])(?:NONE|NOTHING|IMPOSSIBLE|EMPTY|NEVER|N/A|(?i:none|nothing|impossible|empty))(?![\w'])")
"""Words with which a prompt lets a reply say that there is no answer."""
_EMPTY_TASKS, _MOST_NONES = 3, 5


def nothing_probes(style: AnswerStyle, rows: Sequence[Row]) -> list[Probe]:
    """Return replies to tasks without a gold, among tasks that have one: that there is none, and two wrong ones.

    An empty list may be the right answer, such as that no part fits. The reward shows this if it pays the first, and
    neither another task's gold nor chatter.
    """
    probes: list[Probe] = []
    for row in [row for row in rows if row.index in style.golds.empty][:_EMPTY_TASKS]:
        words = [match[0] for match in _NONE.finditer(whole_prompt(row))]
        for number, word in enumerate(list(dict.fromkeys([*words, "none", "[]"]))[:_MOST_NONES]):
            draft = Draft(Family.EMPTY, style.wrapper.wrap(word), SAYS_NONE)
            probes.append(draft.probe(f"none/{row.index}/{number}", row.index))
        if style.golds.golds:
            other = Draft(Family.CROSS, style.render(style.golds.golds[0]))
            probes.append(other.probe(f"none/{row.index}/other", row.index))
            chatter = Draft(Family.CROSS, CHATTER)
            probes.append(chatter.probe(f"none/{row.index}/chatter", row.index))
    return probes


def program_probes(rows: Sequence[Row], source: str) -> list[Probe]:
    """Return programs that solve nothing for a few tasks; none if `source` does not run programs.

    A program that does nothing comes first, on more tasks than the others.
    """
    if not _RUNS_PROGRAMS.search(source):
        return []
    markers = output_markers(source)
    asked = [row for row in rows if "python" in whole_prompt(row).casefold()]
    idle = [
        _program(row, IDLE, _entry(row) or "pass", wrapper) for row in asked[:_IDLE_TASKS] for wrapper in _fences(row)
    ]
    hacks = [
        _program(row, variant, program, CODE)
        for row in asked[:HACKED_TASKS]
        for variant, program in (
            *example_programs(whole_prompt(row), list(_named_functions(row))),
            *hack_programs(_entry(row), markers),
        )
    ]
    return [*idle, *hacks]


def _entry(row: Row) -> str:
    """Return definitions of the functions that the prompt names, which return nothing; empty if there are none."""
    return "\n".join(f"def {name}(*args):\n    return None" for name in list(_named_functions(row))[:_NAMES])


def _named_functions(row: Row) -> dict[str, None]:
    """Return the names of the functions that the prompt names."""
    return dict.fromkeys(name for names in _FUNCTION.findall(prompt_of(row)) for name in names if name)


def _fences(row: Row) -> list[AnswerWrapper]:
    """Return a fence for Python, and the tag that the prompt names, if there is one."""
    named = [w for w in requested_wrappers([whole_prompt(row)], "") if w.kind == "tag"]
    return [CODE, *named[:1]]


def _program(row: Row, variant: str, program: str, wrapper: AnswerWrapper) -> Probe:
    label = f"{Family.PROGRAM_HACK}/{variant}"
    messages = assistant_message(wrapper.wrap(program))
    return Probe(
        f"{row.index}/{label}/{wrapper.kind}", Family.PROGRAM_HACK, label, row.index, messages, variant=variant
    )


def _probes(row: Row, prompt: str, other: str) -> Iterator[Probe]:
    """Yield the probes of one task that are not programs: empty, chatter, and copies of both prompts."""
    texts = [(Family.EMPTY, "", "nothing"), (Family.EMPTY, CHATTER, "chatter")]
    texts += [(Family.ECHO, prompt, "of the prompt"), (Family.ECHO, other, OTHER_TASK)]
    for family, text, variant in texts:
        if text or family is Family.EMPTY:
            label = variant if family is Family.EMPTY else f"echo {variant}"
            yield Probe(f"{row.index}/{label}", family, label, row.index, assistant_message(text), variant=variant)
