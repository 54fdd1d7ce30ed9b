"""The completions that a reward is tried with: gold, wrong, malformed, empty, other spellings, and known hacks.

A probe says what it is, never what it must earn: the relations that must hold are in checks/reward.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prime_lab_mcp.lab.rewards.carriers import Carrier, broken
from prime_lab_mcp.lab.rewards.gold import Gold, Golds, prompt_of
from prime_lab_mcp.lab.rewards.wrong import as_number, equivalents, wrong_answers
from prime_lab_mcp.lab.worker.cases import Case, Row

Kind = Literal["gold", "verbose", "equivalent", "trailing", "wrong", "malformed", "malformed-gold", "empty", "hack"]

FILLER = "I go over the same step once more to be sure that nothing was missed. "


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

    def said(self, gold: Gold) -> str:
        return gold.form(self.form)

    def render(self, gold: Gold) -> str:
        return self.carrier.wrap(self.said(gold))


def assistant(text: str) -> tuple[Mapping[str, Any], ...]:
    """A completion as the environment gets it in training: messages, never a string."""
    return ({"role": "assistant", "content": text},)


def gold_probe(style: Style, gold: Gold) -> Probe:
    return Probe(f"gold/{gold.row}", "gold", "gold", gold.row, assistant(style.render(gold)))


def build(style: Style, examples: Sequence[Gold], rows: Mapping[int, Row], *, hacks: bool) -> list[Probe]:
    """All probes for the example tasks, in task order."""
    found: list[Probe] = []
    for gold in examples:
        made = [*_ordinary(style, gold)]
        if hacks:
            made += [*_hacks(style, gold, rows[gold.row])]
        for number, (kind, name, text, near) in enumerate(made):
            messages = () if text is None else assistant(text)
            found.append(Probe(f"{gold.row}/{number}", kind, name, gold.row, messages, near))
    return found


_Made = tuple[Kind, str, str | None, bool]


def _ordinary(style: Style, gold: Gold) -> Iterator[_Made]:
    carrier, said = style.carrier, style.said(gold)
    yield "gold", "gold", carrier.wrap(said), False
    yield "verbose", "gold after reasoning", carrier.reasoned(said), False
    if carrier.kind != "plain":
        yield "trailing", "gold, then a sentence", f"{carrier.wrap(said)}\nThat is my result.", False
    for name, other in equivalents(style.golds, said):
        yield "equivalent", f"gold with {name}", carrier.wrap(other), False
    wrongs = wrong_answers(style.golds, gold, style.form)
    for wrong in wrongs:
        yield "wrong", f"wrong: {wrong.name}", carrier.wrap(wrong.answer), wrong.near
    for name, text in broken(carrier, said):
        yield "malformed-gold", f"malformed gold: {name}", text, False
    for name, text in broken(carrier, wrongs[0].answer):
        yield "malformed", f"malformed wrong: {name}", text, wrongs[0].near
    yield "empty", "empty reply", "", False
    yield "empty", "white space", " \n\t ", False
    yield "empty", "no reply", None, False


def _hacks(style: Style, gold: Gold, row: Row) -> Iterator[_Made]:
    carrier, said = style.carrier, style.said(gold)
    wrongs = [w for w in wrong_answers(style.golds, gold, style.form) if not w.near]
    wrong = wrongs[0].answer if wrongs else "zzyzx quux"
    for name, text in (
        *_two_answers(carrier, said, wrong),
        *_no_answer(carrier, prompt_of(row)),
        *_every_answer(style, said),
        *_odd_numbers(carrier),
        *_expressions(carrier, said),
        *_junk(carrier),
        *_sizes(carrier, said, wrong),
    ):
        yield "hack", name, text, False


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


def _odd_numbers(carrier: Carrier) -> Iterator[tuple[str, str]]:
    for value in ("nan", "inf", "-inf", "1e999", "1/0"):
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
