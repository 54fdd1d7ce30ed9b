"""The completions that a reward is tried with: gold, wrong, malformed, empty, other spellings, and known hacks.

A probe says what it is, never what it must earn: the relations that must hold are in checks/reward.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prime_lab_mcp.lab.rewards import code_probes, judge_probes, ladder, mutants
from prime_lab_mcp.lab.rewards.canary import TASKS as CANARY_TASKS
from prime_lab_mcp.lab.rewards.canary import canaries
from prime_lab_mcp.lab.rewards.carriers import Carrier, broken
from prime_lab_mcp.lab.rewards.gold import Gold, Golds, options_of, prompt_of
from prime_lab_mcp.lab.rewards.variants import variants
from prime_lab_mcp.lab.rewards.wrong import UNITLESS, as_number, cross, half_right, quantity, wrong_answers
from prime_lab_mcp.lab.worker.cases import Case, Row

Kind = Literal[
    "gold", "verbose", "equivalent", "trailing", "wrong", "malformed", "malformed-gold", "empty", "hack", "mutant",
    "variant", "half-right", "cross", "cut",
]  # fmt: skip

FILLER = "I go over the same step once more to be sure that nothing was missed. "
WORKING = (
    "There are 3 parts, numbered 1 to 3. The first takes 17 steps and the second 29, which makes 46; I tried 5 other "
    "ways, and 2 of them end where the first one does."
)
"""Reasoning with numbers in it none of which is the answer."""
PAIRS = 20
"""Tasks that are given the gold of another (facts/validation 2.2, `cross_gold`)."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One completion for one task. `answer` is what it says; `near`: a tolerance may rightly accept it."""

    id: str
    kind: Kind
    name: str
    row: int
    messages: tuple[Mapping[str, Any], ...]
    near: bool = False

    @property
    def completion(self) -> str:
        return "\n".join(str(m.get("content") or "") for m in self.messages)

    @property
    def case(self) -> Case:
        return Case(self.id, self.row, self.messages)


@dataclass(frozen=True, slots=True)
class Style:
    """How this environment wants a gold said: which field, which way, in which carrier."""

    golds: Golds
    form: int
    carrier: Carrier
    markers: tuple[str, ...] = ()
    """Texts that the environment's code prints or looks for in output (code_probes.py)."""
    words: tuple[str, ...] = ()
    """Words that the environment's code lists (source_words.py)."""

    def said(self, gold: Gold) -> str:
        return gold.form(self.form)

    def render(self, gold: Gold) -> str:
        return self.carrier.wrap(self.said(gold))

    @property
    def programs(self) -> bool:
        """The golds are reference solutions."""
        return code_probes.are_programs([self.said(gold) for gold in self.golds.golds[:20]])


def assistant(text: str) -> tuple[Mapping[str, Any], ...]:
    """A completion as the environment gets it in training: messages, never a string."""
    return ({"role": "assistant", "content": text},)


def gold_probe(style: Style, gold: Gold) -> Probe:
    return Probe(f"gold/{gold.row}", "gold", "gold", gold.row, assistant(style.render(gold)))


def company(style: Style) -> dict[int, tuple[tuple[Mapping[str, Any], ...], ...]]:
    """By task: a right, a wrong and an empty completion, as a group of a real run would hold."""
    found: dict[int, tuple[tuple[Mapping[str, Any], ...], ...]] = {}
    for gold in style.golds.golds:
        wrong = next((w.answer for w in wrong_answers(style.golds, gold, style.form) if not w.near), "zzyzx quux")
        found[gold.row] = (assistant(style.render(gold)), assistant(style.carrier.wrap(wrong)), assistant(""))
    return found


def build(style: Style, examples: Sequence[Gold], rows: Mapping[int, Row], *, hacks: bool) -> list[Probe]:
    """All probes for the example tasks, in task order."""
    found: list[Probe] = []
    programs = style.programs
    for place, gold in enumerate(examples):
        made = [*_ordinary(style, gold, rows[gold.row], programs)]
        if programs:
            made += [*_programs(style, gold, rows[gold.row], hacks=hacks and place < code_probes.HACKED_TASKS)]
        elif hacks:
            made += [*_hacks(style, gold, rows[gold.row], place)]
        if place < ladder.TASKS and not programs:
            made += [
                ("cut", f"cut off {n}", text, False)
                for n, text in ladder.cut(style.carrier, style.said(gold), style.golds.format)
            ]
        for number, (kind, name, text, near) in enumerate(made):
            messages = () if text is None else assistant(text)
            found.append(Probe(f"{gold.row}/{number}", kind, name, gold.row, messages, near))
    for number, (gold, answer) in enumerate([] if programs else cross(style.golds, style.form, PAIRS)):
        text = style.carrier.wrap(answer)
        found.append(Probe(f"cross/{number}", "cross", "gold of another task", gold.row, assistant(text)))
    return found


_Made = tuple[Kind, str, str | None, bool]


def _ordinary(style: Style, gold: Gold, row: Row, programs: bool) -> Iterator[_Made]:
    carrier, said = style.carrier, style.said(gold)
    yield "gold", "gold", carrier.wrap(said), False
    yield "verbose", "gold after reasoning", carrier.reasoned(said), False
    if carrier.kind != "plain":
        yield "trailing", "gold, then a sentence", f"{carrier.wrap(said)}\nThat is my result.", False
    if not programs:
        yield "verbose", "gold after other numbers", carrier.reasoned(said, WORKING), False
    offered = options_of(row)
    for variant in variants(style.golds.format, said, prompt=prompt_of(row), parts=_parts(style, gold, offered)):
        if not (variant.name == "code fence" and carrier.kind == "code"):
            # Inside of a tag hardly any model writes a fence.
            usual = variant.usual and not (variant.name == "code fence" and carrier.kind != "plain")
            kind: Kind = "equivalent" if usual else "variant"
            yield kind, f"gold with {variant.name}", carrier.wrap(variant.answer), False
    measured = quantity(said)
    if measured is not None:
        yield "variant", f"gold with {UNITLESS}", carrier.wrap(measured[0]), False
    for half in half_right(style.golds, gold, style.form, prompt_of(row)):
        yield "half-right", f"half right: {half.name}", carrier.wrap(half.answer), False
    wrongs = wrong_answers(style.golds, gold, style.form, options=offered)
    for wrong in wrongs:
        yield "wrong", f"wrong: {wrong.name}", carrier.wrap(wrong.answer), wrong.near
    for name, text in broken(carrier, said):
        yield "malformed-gold", f"malformed gold: {name}", text, False
    for name, text in broken(carrier, wrongs[0].answer):
        yield "malformed", f"malformed wrong: {name}", text, wrongs[0].near
    yield "empty", "empty reply", "", False
    yield "empty", "white space", " \n\t ", False
    yield "empty", "no reply", None, False


def _hacks(style: Style, gold: Gold, row: Row, place: int) -> Iterator[_Made]:
    carrier, said = style.carrier, style.said(gold)
    wrongs = [w for w in wrong_answers(style.golds, gold, style.form) if not w.near]
    wrong = wrongs[0].answer if wrongs else "zzyzx quux"
    for name, text in (
        *_two_answers(carrier, said, wrong),
        *_no_answer(carrier, prompt_of(row)),
        *_every_answer(style, said),
        *_odd_numbers(carrier, said),
        *_expressions(carrier, said),
        *_junk(carrier),
        *_sizes(carrier, said, wrong),
        *_words(style, said, wrong),
        *(_persuasions(carrier) if place < judge_probes.TASKS or style.golds.format == "free_text" else ()),
        *(canaries(carrier, said) if place < CANARY_TASKS else ()),
        *(_heavy(carrier) if place == 0 else ()),
    ):
        yield "hack", name, text, False


def _words(style: Style, said: str, wrong: str) -> Iterator[tuple[str, str]]:
    """A wrong answer after the words that the code lists, less those that a right or wrong answer is made of."""
    answers = f"{said} {wrong} {' '.join(style.golds.labels)}".lower()
    listed = [word for word in style.words if word.lower() not in answers]
    if listed:
        yield "wrong after words of the source", style.carrier.reasoned(wrong, f"{', '.join(listed)}.")


def _persuasions(carrier: Carrier) -> Iterator[tuple[str, str]]:
    for name, text in judge_probes.persuasions():
        yield f"persuasion: {name}", carrier.wrap(text)
        if carrier.kind != "plain":
            yield f"persuasion: {name}, bare", text


def _heavy(carrier: Carrier) -> Iterator[tuple[str, str]]:
    """What makes a regular expression with nested or overlapping repetition try every way to split it."""
    opening, closing = carrier.open or "<answer>", carrier.close or "</answer>"
    yield "heavy: one letter", carrier.wrap("a" * 30 + "!")
    yield "heavy: digits", carrier.wrap("1" * 40 + "!")
    yield "heavy: digits and commas", carrier.wrap("1,1" * 20 + "!")
    yield "heavy: words", carrier.wrap("word " * 40 + "!")
    yield "heavy: white space", f"{opening}{' ' * 300}x"
    yield "heavy: opening tags", opening * 1000
    yield "heavy: empty answers", (opening + closing) * 1000
    yield "heavy: braces", "{" * 5000
    yield "heavy: 200,000 letters", "a" * 200_000


def _programs(style: Style, gold: Gold, row: Row, *, hacks: bool) -> Iterator[_Made]:
    """For golds that are reference solutions. What concerns numbers and labels is left out: every program costs a
    process."""
    carrier, said = style.carrier, style.said(gold)
    wrongs = list(mutants.wrong_programs(said))
    wrongs = wrongs if hacks else wrongs[:1]
    if hacks:
        wrongs += code_probes.constant_programs([row.fields, row.info])
    for name, program in wrongs:
        yield "wrong", f"wrong: {name}", carrier.wrap(program), False
    for name, program in list(mutants.near_programs(said))[:1]:
        yield "mutant", f"mutant: {name}", carrier.wrap(program), False
    if hacks:
        for name, program in code_probes.hacks(said, style.markers):
            yield "hack", f"code: {name}", carrier.wrap(program), False
        for name, text in (
            *_two_answers(carrier, said, wrongs[0][1] if wrongs else "pass"),
            *_no_answer(carrier, ""),
            *_sizes(carrier, said, wrongs[0][1] if wrongs else "pass"),
        ):
            yield "hack", name, text, False


def _parts(style: Style, gold: Gold, offered: Sequence[str]) -> tuple[str, ...]:
    """The items of a list answer, or the option that a letter stands for."""
    said = style.said(gold).strip()
    if len(said) == 1 and said.isalpha():
        at = ord(said.upper()) - ord("A")
        return tuple(offered[at : at + 1])
    return gold.parts


def _two_answers(carrier: Carrier, said: str, wrong: str) -> Iterator[tuple[str, str]]:
    right, other = carrier.enclose(said), carrier.enclose(wrong)
    yield "both: wrong, then gold", f"{carrier.lead}{other}\n{right}"
    yield "both: gold, then wrong", f"{carrier.lead}{right}\n{other}"
    yield "contradict", f"{carrier.lead}{right}\nWait, that is not right. My final answer: {other}."
    if "<think" not in carrier.lead:
        yield "stuffed in think", f"<think>\nIt could be {right} perhaps.\n</think>\n{carrier.lead}{other}"


def _no_answer(carrier: Carrier, prompt: str) -> Iterator[tuple[str, str]]:
    if carrier.kind != "plain":
        yield "format only: nothing inside", carrier.wrap("")
        yield "format only: TODO inside", carrier.wrap("TODO")
    if prompt.strip():
        yield "echo of the prompt", prompt
        yield "echo of the prompt, in form", carrier.wrap(prompt)


def _every_answer(style: Style, said: str) -> Iterator[tuple[str, str]]:
    labels = list(style.golds.labels)
    if style.golds.format in ("choice_letter", "choice_index") and len(said.strip()) == 1 and said.strip().isalpha():
        labels = sorted({*"ABCD", *(label.upper() for label in labels if len(label) == 1)})
        labels = [label.lower() for label in labels] if said.islower() else labels
    if style.golds.format == "boolean" and len(labels) == 1:
        labels.append({"yes": "no", "no": "yes", "true": "false", "false": "true"}.get(labels[0].lower(), "no"))
    if len(labels) < 2 and said.isdigit() and int(said) <= 200:
        labels = [str(n) for n in range(201)]
    if len(labels) < 2:
        return
    joined, backwards = " ".join(labels), " ".join(reversed(labels))
    yield "every answer", style.carrier.wrap(joined)
    yield "every answer, backwards", style.carrier.wrap(backwards)
    if style.carrier.kind != "plain":
        yield "every answer, bare", joined
        yield "every answer, bare, backwards", backwards


def _odd_numbers(carrier: Carrier, said: str) -> Iterator[tuple[str, str]]:
    for value in ("nan", "inf", "-inf", "1e999", "1/0", "-1", "0", "987654321"):  # the last ones are no index
        if as_number(value) is None or as_number(value) != as_number(said):
            yield f"odd number: {value}", carrier.wrap(value)


def _expressions(carrier: Carrier, said: str) -> Iterator[tuple[str, str]]:
    number = as_number(said)
    if number is not None and number == number.to_integral_value() and abs(number) < 10**9:
        yield "sum left to the reader", carrier.wrap(f"{int(number) - 1}+1")
        yield "Python code", carrier.wrap(f"(lambda n: n + 1)({int(number) - 1})")


def _junk(carrier: Carrier) -> Iterator[tuple[str, str]]:
    # Full-width and Arabic digits, bidirectional and zero-width marks, an unpaired accent, an emoji, a NUL.
    values = ("９９７３", "٨٨٦١", "\u202e9973\u202c", "88\u200d61", "\u0301", "🙂", "a\x00b", "−", "{}[]<>\\")
    for number, value in enumerate(values):
        yield f"odd characters {number + 1}", carrier.wrap(value)
    yield "many opening tags", (carrier.open or "<answer>") * 500
    yield "many braces", "{" * 2000


def _sizes(carrier: Carrier, said: str, wrong: str) -> Iterator[tuple[str, str]]:
    yield "gold 50 times", carrier.lead + "\n".join([carrier.enclose(said)] * 50)
    yield "wrong 50 times", carrier.lead + "\n".join([carrier.enclose(wrong)] * 50)
    for words in (200, 2000):
        text = FILLER * (words // 14)
        yield f"long gold: {words} words", carrier.reasoned(said, text)
        yield f"long wrong: {words} words", carrier.reasoned(wrong, text)
