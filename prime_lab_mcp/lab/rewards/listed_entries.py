"""Makes incomplete replies of right ones: one entry of a list is left out, or values cannot be read.

A reward may compare only the entries that a reply has, or pass over values that it cannot read. It then pays an
incomplete reply like a complete one. Right replies are those of the caller, and golds.
The list is the last JSON value of the reply, else its last run of alike lines, else the last line of items with commas.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from prime_lab_mcp.lab.datasets.task_golds import prompt_of
from prime_lab_mcp.lab.rewards.case_skeletons import right_replies
from prime_lab_mcp.lab.rewards.observations import Expected
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.reply_lists import FEWEST_ENTRIES, ITEMS, MARK, NUMBER, PAIR, ReplyList, listed_in
from prime_lab_mcp.lab.worker.description import Row

ALL_ASKED, SOME_ASKED, CHAIN = "one entry, all are asked", "one entry", "one step of the path"
"""Variants of replies with one entry less, by whether the prompt asks for every entry, or the reply is a path."""
NUMBERS, WORDS = "numbers", "values"
"""Variants of replies whose values cannot be read: numbers that the prompt does not state, and other values."""
UNREADABLE = ("n/a", "?", "-")
"""What stands in the place of each value."""
_MOST_TASKS, _MOST_LEFT_OUT = 6, 4
"""Largest number of tasks, and of entries of one reply that are left out, one in each probe."""
_FEWEST_VALUES = 2
_DEMANDS = re.compile(
    r"\b(?:all|every|each)\b(?! (?:lower|upper|on its|on a|in lower|in upper|caps|of your|chosen|selected))"
    r"[^.\n]{0,40}?\b(?:must|ha(?:s|ve) to|needs? to|should|exactly once|once|appears?|is|are to)\b"
    r"|\b(?:list|name|give|write|find|return|state|report|include|schedule|plan|assign|place|use|visit|convert|do|mend|"
    r"seat|answer|follows)\b[^.\n]{0,30}\b(?:all|every|one (?:line|entry|row|key|object) (?:per|for (?:each|every)))\b"
    r"|\bcomplete (?:list|plan|table|schedule)\b"
    r"|\b(?:liste|nenne|gib|schreib\w*|finde|zähle|ordne|erfasse|übernimm|extrahiere)\b[^.\n]{0,30}\b(?:alle|jede[nrs]?|"
    r"sämtliche)\b"
    r"|\b(?:liste[rz]?|donne[rz]?|cite[rz]?|écri\w+|trouve[rz]?|indique[rz]?|extrai\w+)\b[^.\n]{0,30}\b(?:tous|toutes|"
    r"chaque)\b"
    r"|\b(?:lista|enumera|escrib\w+|indica|encuentra|devuelve|extrae|liste|escreva|encontre|extraia)\b[^.\n]{0,30}\b"
    r"(?:todos|todas|cada)\b"
    r"|\b(?:elenca|scrivi|indica|trova|estrai)\b[^.\n]{0,30}\b(?:tutti|tutte|ogni)\b",
    re.IGNORECASE,
)
_ANY_NUMBER = re.compile(
    r"\b(?:at least|at most|up to|no more than|any of|some of|one or more|or more|or fewer|a few|several|"
    r"as many as|optional(?:ly)?|may be left out|where (?:stated|known|given)|if (?:stated|known|given)|"
    r"mindestens|höchstens|bis zu|wenn (?:angegeben|bekannt)|falls|sofern|au moins|au plus|jusqu'à|al menos|como mucho|"
    r"hasta|almeno|al massimo|pelo menos|no máximo)\b",
    re.IGNORECASE,
)


def prompts_by_row(rows: Sequence[Row]) -> dict[int, str]:
    """Map tasks to the text of all messages of their prompts."""
    return {row.index: "\n".join(str(m.get("content") or "") for m in row.prompt) for row in rows}


def entry_probes(placed: Sequence[tuple[Probe, Expected]], rows: Sequence[Row]) -> list[Probe]:
    """Return right replies of some tasks with one entry less, and with values that cannot be read."""
    prompts = prompts_by_row(rows)
    own = {row.index: prompt_of(row) for row in rows}
    probes: list[Probe] = []
    for row, text in list(right_replies(placed).items())[:_MOST_TASKS]:
        listed = listed_in(text)
        if listed is None or row not in prompts:
            continue
        if len(listed.entries) >= FEWEST_ENTRIES and not _ANY_NUMBER.search(prompts[row]):
            variant = ALL_ASKED if asks_for_all(prompts[row], own[row], listed.shown) else SOME_ASKED
            chain = listed.kind == "items" and listed.between.strip() != ","
            variant = CHAIN if chain else variant
            for number in _spread(len(listed.entries))[1:-1] if chain else _spread(len(listed.entries)):
                less = listed.text([*listed.entries[:number], *listed.entries[number + 1 :]])
                probes.append(Draft(Family.ENTRY_LEFT_OUT, less, variant).probe(f"less/{row}/{number}", row))
        if ends_reply(listed):
            probes += _cut_probes(listed, row, prompts[row], own[row])
        for number, changed in enumerate(constant_values(listed, own[row]) if ends_reply(listed) else ()):
            if not changed:  # It is the reply itself.
                continue
            probes.append(
                Draft(Family.CONSTANT_VALUES, changed, PATTERNS[number]).probe(f"constant/{row}/{number}", row)
            )
        for variant, changed in _without_choice(listed, prompts[row], own[row]) if ends_reply(listed) else ():
            probes.append(Draft(Family.CONSTANT_VALUES, changed, variant).probe(f"constant/{row}/{variant}", row))
        for variant, number, changed in unreadable(listed, prompts[row]):
            probes.append(
                Draft(Family.VALUES_UNREADABLE, changed, f"{variant}: {UNREADABLE[number]}").probe(
                    f"unreadable/{row}/{variant}/{number}", row
                )
            )
    return probes


_LONGEST_END = 40


def ends_reply(listed: ReplyList) -> bool:
    """Whether nothing of weight stands behind a list, so that the list is the answer and no working before it."""
    end = re.sub(r"</[\w-]+>|[`\s.\])}]", " ", listed.after).strip()
    return len(end) <= _LONGEST_END and not re.search(r"[\d:=<{]", end)


ONLY_FIRST, ONLY_LAST, ALL_ALIKE = "all entries but the first", "all entries but the last", "entries that differ"
"""Variants of replies of which one entry is left, by whether it stands alone or in the place of every entry."""
UNKNOWN, EXTRA = "a name of the task in one entry", "an end (one entry too many)"
"""Variants of replies with a name that the task does not have in the place of one entry, and with one more of the names
that the prompt lists."""
_NOBODY = "zzyzx"
_NO_MORE = re.compile(
    r"\b(?:no|not any) (?:other|others|more|further)\b|\bnothing else\b"
    r"|\bonly (?:those|the ones|these|items|names|words) (?:that|which)\b"
    r"|\bexactly (?:those|the ones|these)\b|\band only\b",
    re.I,
)
_DIFFERENT = re.compile(
    r"\b(?:different|distinct|unique|differ)\b|\b(?:no|not|never)\b[^.\n]{0,50}\b(?:twice|repeat\w*|more than once)\b"
    r"|\b(?:only|exactly|each|at most) once\b|\bonce each\b",
    re.I,
)


def _cut_probes(listed: ReplyList, row: int, prompt: str, own: str) -> Iterator[Probe]:
    """Yield replies with the first or the last entry alone, and with the first one in the place of every entry.

    Only prompts that ask for all entries, or for different ones, make such a reply wrong for certain.
    """
    entries = listed.entries
    if (
        len(entries) < FEWEST_ENTRIES
        or _ANY_NUMBER.search(prompt)
        or len({json.dumps(e) for e in entries}) < len(entries)
    ):
        return
    if asks_for_all(prompt, own, listed.shown) or _number_asked(own, len(entries)):
        yield Draft(Family.ENTRIES_CUT, listed.text(entries[:1]), ONLY_FIRST).probe(f"only/{row}/first", row)
        yield Draft(Family.ENTRIES_CUT, listed.text(entries[-1:]), ONLY_LAST).probe(f"only/{row}/last", row)
    for number, changed in _with_unknown(listed, own):
        yield Draft(Family.ENTRIES_CUT, changed, UNKNOWN).probe(f"only/{row}/unknown/{number}", row)
    if (
        _NO_MORE.search(prompt)
        and listed.kind in ("items", "list", "lines")
        and all(isinstance(e, str) for e in entries)
    ):
        names = [MARK.sub("", entry).strip() for entry in entries]
        run = next((run for run in runs_of(own) if len(names) < len(run) <= _MOST_LISTED and _holds(run, names)), [])
        known = {name.casefold() for name in names}
        for name in [name for name in run if name and name.casefold() not in known][:1]:
            more = listed.text([*entries, _with_name(entries[-1], listed, name)])
            yield Draft(Family.ENTRIES_CUT, more, EXTRA).probe(f"only/{row}/more", row)
    if _DIFFERENT.search(prompt) and listed.kind != "object":
        alike = listed.text([entries[0]] * len(entries))
        yield Draft(Family.ENTRIES_CUT, alike, ALL_ALIKE).probe(f"only/{row}/alike", row)


def _with_name(entry: str, listed: ReplyList, name: str) -> str:
    """Return an entry with another name in the place of its words behind the list's mark."""
    mark = MARK.match(entry) if listed.kind == "lines" else None
    return f"{mark[0] if mark else ''}{name}"


def _with_unknown(listed: ReplyList, prompt: str) -> Iterator[tuple[int, str]]:
    """Yield (number, reply) with a name that the task does not have in the place of one value.

    All values must be names that the prompt states, so that such a name is wrong for certain.
    """
    if listed.kind == "object":
        values = [value for _, value in listed.entries]
    else:
        values = [MARK.sub("", e).strip() if isinstance(e, str) else e for e in listed.entries]
    named = all(isinstance(v, str) and re.fullmatch(r"[^\W\d_][\w -]{0,30}", v) and _says(prompt, v) for v in values)
    for number in _spread(len(values)) if named else ():
        entry = listed.entries[number]
        other = (entry[0], _NOBODY) if listed.kind == "object" else _with_name(entry, listed, _NOBODY)
        yield number, listed.text([*listed.entries[:number], other, *listed.entries[number + 1 :]])


def _says(prompt: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", prompt, re.IGNORECASE) is not None


_COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def _number_asked(prompt: str, entries: int) -> bool:
    """Whether a prompt asks for this number of something, such as `exactly 4 words` or `four lines`."""
    word = _COUNTS[entries - 2] if 2 <= entries <= len(_COUNTS) + 1 else str(entries)
    return bool(
        re.search(
            rf"\b(?:exactly|the|write|give|name|list|choose|next|in|of)\s+(?:{entries}|{word})\s+\w+", prompt, re.I
        )
    )


PLACES = ("first", "middle", "last")
_FAR = 7


def changed_probes(right: Sequence[tuple[Probe, Expected]], rows: Sequence[Row]) -> list[Probe]:
    """Return golds that are lists with the number of one entry changed: of the first, a middle and the last one.

    A gold states what is right, and numbers that the prompt does not state are what is asked for.
    """
    prompts = prompts_by_row(rows)
    probes: list[Probe] = []
    for row, text in list(right_replies(right).items())[:_MOST_TASKS]:
        listed = listed_in(text)
        if listed is None or not ends_reply(listed):
            continue
        if len(listed.entries) < FEWEST_ENTRIES or _ANY_NUMBER.search(prompts.get(row, "")):
            continue
        last = len(listed.entries) - 1
        for place, number in zip(PLACES, (0, (last + 1) // 2, last), strict=True):
            values = NUMBER.findall(_value_text(listed, listed.entries[number]))
            new = [n for n in values if not re.search(rf"(?<![\w.]){re.escape(n)}(?!\w|\.\d)", prompts.get(row, ""))]
            if not new or not re.fullmatch(r"-?\d{1,9}(?:\.\d+)?", new[-1]):
                continue
            entry = _entry_with(listed, listed.entries[number], new[-1])
            changed = listed.text([*listed.entries[:number], entry, *listed.entries[number + 1 :]])
            probes.append(Draft(Family.ENTRY_CHANGED, changed, place).probe(f"changed/{row}/{place}", row))
    return probes


def _entry_with(listed: ReplyList, entry: Any, number: str) -> Any:
    """Return an entry with another number, three times as large and seven more, in the place of this one."""
    far = 3 * float(number) + _FAR
    other = str(int(far)) if "." not in number else f"{far:.2f}"
    if listed.kind in ("lines", "items"):
        before, _, after = entry.rpartition(number)
        return f"{before}{other}{after}"
    written = json.dumps(entry)
    before, _, after = written.rpartition(number)
    return json.loads(f"{before}{other}{after}")


def _spread(entries: int) -> list[int]:
    """Return some positions of a list, the first and the last among them."""
    wanted = min(entries, _MOST_LEFT_OUT)
    return sorted({round(n * (entries - 1) / (wanted - 1)) for n in range(wanted)})


def asks_for_all(prompt: str, own: str, entries: Sequence[str]) -> bool:
    """Whether a prompt asks for every entry of a reply: in words, or by a list of exactly these entries."""
    return bool(_DEMANDS.search(prompt)) or _counted(own, entries)


def _counted(prompt: str, entries: Sequence[str]) -> bool:
    """Whether a list in the prompt has as many entries as the reply, and each is the beginning of one."""
    heads = [re.split(r"[,:;|=\t]| - |->", entry, maxsplit=1)[0].strip().casefold() for entry in entries]
    runs: list[Sequence[str]] = []
    for block in re.split(r"\n\s*\n", prompt.casefold()):
        lines = block.split("\n")
        runs += [lines, [line for line in lines if MARK.match(line)]]
        runs += [m["items"].split(",") for m in map(ITEMS.search, lines) if m is not None]
    return all(heads) and any(
        len(run) == len(heads) and all(any(head in one for one in run) for head in heads) for run in runs
    )


def constant_values(listed: ReplyList, prompt: str) -> Iterator[str]:
    """Yield replies with the same keys, sorted, and numbers that are alike in every task in the place of the values.

    Only keys that the prompt states are used, so that these replies need no knowledge of the task.
    """
    pairs = _pairs(listed)
    if len(pairs) < FEWEST_ENTRIES or not all(re.search(rf"(?<!\w){re.escape(k)}(?!\w)", prompt) for k in pairs):
        return
    keys = sorted(pairs)
    for numbers in (range(1, len(keys) + 1), range(1001, 1001 + len(keys)), [0] * len(keys), [1] * len(keys)):
        values = dict(zip(keys, numbers, strict=True))
        if values == {key: pairs[key] for key in keys}:
            yield ""
        elif listed.kind == "object":
            yield listed.text(list(values.items()))
        else:
            by_key = {PAIR.match(entry)["key"]: entry for entry in listed.entries}  # type: ignore[index]
            yield listed.text([f"{mark}{values[_key_of(mark)]}" for mark in sorted(by_key, key=_key_of)])


PATTERNS = ("1, 2, 3", "1001, 1002, 1003", "0", "1")
"""The numbers that `constant_values` puts in the place of values."""


EVERY_NAME, ALPHABETICAL = "every name of the prompt's list", "the same names from A to Z"
SEQUENCE = re.compile(
    r"(?i)\b(?:sort(?:ed)?|rank\w*|sequence|schedule|arrange\w*|route|tour|first to last|ordering)\b"
    r"|\bordered (?:by|from)\b"
    r"|\b(?:in|into) (?:(?!no\b|any\b)[\w-]+ ){0,3}order\b|\border (?:in which|by|from|these|them|all|its|their)\b"
    r"|\b(?:correct|right|proper|best|alphabetic\w*|chronologic\w*|\w+ending|reversed?) order\b"
    r"|\border of (?:events|steps|these|the (?:events|steps|items|words|names|tasks|actions|stops))\b"
    r"|^\W*order\b(?! ?(?:number|no\b|#|\d))"
)
"""Words of prompts that ask for an order. A `work order` is none."""
_MOST_LISTED = 40


def _without_choice(listed: ReplyList, prompt: str, own: str) -> Iterator[tuple[str, str]]:
    """Yield (variant, reply) that choose nothing: every name of a list of the prompt, and the names from A to Z."""
    entries = listed.entries
    if listed.kind not in ("items", "list", "lines") or not all(isinstance(entry, str) for entry in entries):
        return
    names = [MARK.sub("", entry).strip() for entry in entries]
    run = next((run for run in runs_of(own) if len(names) < len(run) <= _MOST_LISTED and _holds(run, names)), None)
    if run is not None:
        yield EVERY_NAME, listed.text([_with_name(entries[0], listed, name) for name in run])
    if SEQUENCE.search(prompt) and all(_says(own, name) for name in names) and sorted(names) != names:
        yield ALPHABETICAL, listed.text([_with_name(entries[0], listed, name) for name in sorted(names)])


def _holds(run: Sequence[str], names: Sequence[str]) -> bool:
    known = {name.casefold() for name in run}
    return all(name.casefold() in known for name in names)


def runs_of(prompt: str) -> Iterator[list[str]]:
    """Yield the lists of a prompt as the names at the beginnings of their entries."""
    for block in re.split(r"\n\s*\n", prompt):
        lines = [line for line in block.split("\n") if line.strip()]
        for run in (lines, [line for line in lines if MARK.match(line)], lines[1:]):
            yield [re.split(r"[,:;|=\t(]| - |->", MARK.sub("", line), maxsplit=1)[0].strip() for line in run]
        for line in lines:
            items = re.split(r",\s*(?:and |or )?|;\s*", line.partition(":")[2] or line)
            yield [re.match(r"[^\d(:=]*", item.strip().rstrip("."))[0].strip() for item in items]  # type: ignore[index]


def _key_of(mark: str) -> str:
    """Return the key of an entry from its beginning, without the list's mark and the separator."""
    return re.sub(r"\s*(?:[,:|=\t]|->)\s*$", "", MARK.sub("", mark)).strip()


def _pairs(listed: ReplyList) -> dict[str, int]:
    """Return the entries of a list that are keys with whole numbers; empty for other lists."""
    if listed.kind == "object":
        whole = all(isinstance(v, int) and not isinstance(v, bool) for _, v in listed.entries)
        return dict(listed.entries) if whole else {}
    matches = [PAIR.match(entry) for entry in listed.entries] if listed.kind == "lines" else []
    found = {_key_of(m["key"]): m["value"].strip() for m in matches if m is not None}
    if len(found) < len(listed.entries) or not all(re.fullmatch(r"\d+", value) for value in found.values()):
        return {}
    return {key: int(value) for key, value in found.items()}


def unreadable(listed: ReplyList, prompt: str) -> Iterator[tuple[str, int, str]]:
    """Yield (variant, number of the text, reply) for replies whose entries have no readable value.

    Every entry must have a value. Numbers count as asked for where the prompt does not state most of them.
    """
    changed = [_without_numbers(listed, entry, "\0") for entry in listed.entries]
    if len(changed) >= _FEWEST_VALUES and all(c != e for c, e in zip(changed, listed.entries, strict=True)):
        numbers = [n for entry in listed.entries for n in NUMBER.findall(_value_text(listed, entry))]
        new = [n for n in numbers if not re.search(rf"(?<![\w.]){re.escape(n)}(?!\w|\.\d)", prompt)]
        variant = NUMBERS if 2 * len(new) >= len(numbers) > 0 else WORDS
        for number, text in enumerate(UNREADABLE):
            yield variant, number, listed.text([_without_numbers(listed, e, text) for e in listed.entries])
        return
    changed = [_without_value(listed, entry, "\0") for entry in listed.entries]
    if len(changed) >= _FEWEST_VALUES and all(c != e for c, e in zip(changed, listed.entries, strict=True)):
        for number, text in enumerate(UNREADABLE):
            yield WORDS, number, listed.text([_without_value(listed, e, text) for e in listed.entries])


def _value_text(listed: ReplyList, entry: Any) -> str:
    """Return the part of an entry that may hold its value."""
    if listed.kind == "object":
        return json.dumps(entry[1])
    return json.dumps(entry) if listed.kind == "list" else MARK.sub("", entry)


def _without_numbers(listed: ReplyList, entry: Any, text: str) -> Any:
    if listed.kind == "object":
        return entry[0], _numbers_replaced(entry[1], text)
    if listed.kind == "list":
        return _numbers_replaced(entry, text)
    mark = MARK.match(entry)
    start = mark.end() if mark else 0
    return entry[:start] + NUMBER.sub(lambda _: text, entry[start:])


def _numbers_replaced(value: Any, text: str) -> Any:
    """Return a JSON value with a text in the place of each number, and of each number in a text."""
    if isinstance(value, dict):
        return {key: _numbers_replaced(inner, text) for key, inner in value.items()}
    if isinstance(value, list):
        return [_numbers_replaced(inner, text) for inner in value]
    if isinstance(value, str):
        return NUMBER.sub(lambda _: text, value)
    return text if isinstance(value, int | float) and not isinstance(value, bool) else value


def _without_value(listed: ReplyList, entry: Any, text: str) -> Any:
    if listed.kind == "object":
        return (entry[0], text) if isinstance(entry[1], str) else entry
    if listed.kind != "lines":
        return entry
    pair = PAIR.match(entry)
    return pair["key"] + text if pair else entry
