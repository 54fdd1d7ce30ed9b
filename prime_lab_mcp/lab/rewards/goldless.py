"""Completions for tasks that hold no gold: nothing, chatter, repeated prompts, and programs that solve nothing.

Nobody knows what such a task's right answer is, but these texts are written without looking for it. What a reward pays
for all of them alike, it pays for nothing (rules/goldless.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from prime_lab_mcp.lab.datasets.task_golds import message_text, prompt_of
from prime_lab_mcp.lab.rewards.probes.catalogue import Probe, assistant_message
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.probes.programs import HACKED_TASKS, hack_programs, output_markers
from prime_lab_mcp.lab.rewards.scripts import CHATTER
from prime_lab_mcp.lab.worker.description import Row

OTHER_TASK = "of another task"
"""Variant of an echo of the prompt of another task."""
_TASKS = 4
_NAMES = 3
_RUNS_PROGRAMS = re.compile(r"\bsubprocess\b|\bexec\(|\bcreate_subprocess|\bPopen\b|\brun_code\b|\.run\(\[")
_FUNCTION = re.compile(r"\bdef ([A-Za-z_]\w*)|`([A-Za-z_]\w*)\(")


def echoes(rows: Sequence[Row], tasks: int) -> list[tuple[Row, str, str]]:
    """The first tasks with their prompt and the different prompt of another task; empty texts where there is none."""
    prompts = [prompt_of(row).strip() for row in rows]
    others = list(dict.fromkeys(filter(None, prompts)))[: tasks + 1]
    found = []
    for row, prompt in list(zip(rows, prompts, strict=True))[:tasks]:
        found.append((row, prompt, next((o for o in others if prompt and o != prompt), "")))
        others = [*others[1:], *others[:1]]
    return found


def goldless_probes(rows: Sequence[Row], source: str = "") -> list[Probe]:
    """The probes of a few tasks that hold no gold. Programs are among them where the `source` runs programs."""
    probes = [probe for row, prompt, other in echoes(rows, _TASKS) for probe in _probes(row, prompt, other)]
    if _RUNS_PROGRAMS.search(source):
        markers = output_markers(source)
        probes += [probe for row in rows[:HACKED_TASKS] for probe in _programs(row, markers)]
    return probes


def _programs(row: Row, markers: Sequence[str]) -> Iterator[Probe]:
    """Programs that define what the prompt names, solve nothing and try to pass the tests."""
    prompt = "\n".join(map(message_text, row.prompt))
    if "python" not in prompt.casefold():
        return
    names = dict.fromkeys(first or second for first, second in _FUNCTION.findall(prompt_of(row)))
    reference = "\n".join(f"def {name}(*args):\n    return None" for name in list(names)[:_NAMES])
    for variant, program in hack_programs(reference, markers):
        text = f"```python\n{program}\n```"
        label = f"{Family.PROGRAM_HACK}/{variant}"
        yield Probe(
            f"{row.index}/{label}", Family.PROGRAM_HACK, label, row.index, assistant_message(text), variant=variant
        )


def _probes(row: Row, prompt: str, other: str) -> Iterator[Probe]:
    texts = [(Family.EMPTY, "", "nothing"), (Family.EMPTY, CHATTER, "chatter")]
    texts += [(Family.ECHO, prompt, "of the prompt"), (Family.ECHO, other, OTHER_TASK)]
    for family, text, variant in texts:
        if text or family is Family.EMPTY:
            label = variant if family is Family.EMPTY else f"echo {variant}"
            yield Probe(f"{row.index}/{label}", family, label, row.index, assistant_message(text), variant=variant)
