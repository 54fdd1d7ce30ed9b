"""The findings of inspect_dataset over the tasks that an environment really yields, and over its held-out split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from prime_lab_mcp.lab.datasets.findings import PlainRow
from prime_lab_mcp.lab.datasets.findings import examine as examine_rows
from prime_lab_mcp.lab.datasets.golds import as_text
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.rewards.gold import Gold, Golds, candidates, options_of, prompt_of, text_of
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.lab.worker.cases import Row

_FEW_SHOT = 40
"""Characters from which a prompt inside the system prompt is no coincidence."""


def findings_of(rows: Sequence[Row], held_out: Sequence[Row] = ()) -> Iterator[Finding]:
    """Every finding about the rows. `held_out` are tasks of the other split, in which leaks are looked for."""
    if not rows:
        return
    found = candidates(rows)
    asked = _asked([*rows, *held_out])
    plain = _plain(rows, asked[: len(rows)], found[0] if found else None)
    others = _plain(held_out, asked[len(rows) :], None)
    yield from examine_rows(plain, format=found[0].format if found else None, eval_rows=others, answered=bool(found))
    yield from few_shot(rows)


def _plain(rows: Sequence[Row], asked: Sequence[str], golds: Golds | None) -> list[PlainRow]:
    by_row = {g.row: g for g in golds.golds} if golds is not None else {}
    made = []
    for row, prompt in zip(rows, asked, strict=True):
        gold, options = by_row.get(row.index), options_of(row)
        made.append(
            PlainRow(
                prompt=prompt,
                answer=as_text(gold.raw) if gold else None,
                index=row.index,
                raw=gold.raw if gold else None,
                offered=bool(options),
                options=tuple(options),
                gold_option=_option(gold, options, golds),
            )
        )
    return made


def _option(gold: Gold | None, options: Sequence[str], golds: Golds | None) -> int | None:
    """Which of the offered options the gold names: by letter, by index, or by its text."""
    if gold is None or golds is None or not options:
        return None
    for form in gold.forms:
        if len(form) == 1 and form.isalpha() and golds.format in ("choice_letter", "choice_index"):
            at = ord(form.upper()) - ord("A")
            return at if at < len(options) else None
    texts = [option.strip().casefold() for option in options]
    named = [texts.index(form.strip().casefold()) for form in gold.forms if form.strip().casefold() in texts]
    return named[0] if named else None


def _asked(rows: Sequence[Row]) -> list[str]:
    """What each task asks, less the instructions that all have in common. Where system prompts differ from task to
    task, they are data too: what differs counts as asked."""
    prompts = _distinct([prompt_of(row) for row in rows])
    systems = ["\n".join(text_of(m) for m in row.prompt if m.get("role") == "system") for row in rows]
    if len(set(systems)) <= 1:
        return prompts
    return [f"{own}\n{asked}".strip() for own, asked in zip(_distinct(systems), prompts, strict=True)]


def _distinct(prompts: list[str]) -> list[str]:
    """Prompts less the instructions that all have in common, which say how to answer and are no data."""
    if len(set(prompts)) < 3:
        return prompts
    head = _common(prompts)
    head = head[: head.rfind("\n") + 1]
    tail = _common([p[::-1] for p in prompts])[::-1]
    tail = tail[tail.find("\n") :] if "\n" in tail else ""
    return [p[len(head) : len(p) - len(tail)] if len(head) + len(tail) < len(p) else p for p in prompts]


def _common(texts: list[str]) -> str:
    low, high = min(texts), max(texts)
    same = next((n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:same]


def few_shot(rows: Sequence[Row]) -> Iterator[Finding]:
    """An example in the system prompt that is also a task gives that task's answer away."""
    common = Counter(text_of(m) for row in rows for m in row.prompt if m.get("role") == "system").most_common(1)
    if not common or len(common[0][0]) < _FEW_SHOT:
        return
    shown = " ".join(common[0][0].split())
    held = [r for r in rows if len(asked := " ".join(prompt_of(r).split())) >= _FEW_SHOT and asked in shown]
    if held:
        yield Finding(
            "few-shot-task", "warning",
            f"the system prompt holds {count(len(held), 'task')} as examples, which gives their answers away",
            "Take the examples out of the tasks, or write others.",
            rows=tuple({"row": r.index, "value": quote(prompt_of(r), 160)} for r in held[:3]),
        )  # fmt: skip
