"""How a completion carries an answer: in a tag, a box, after a phrase, bare. And what a broken carrier looks like."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["plain", "tag", "boxed", "hash", "phrase", "json", "code"]

REASONING = (
    "I read the question again and work through it one step at a time. First I write down what is given, then I "
    "check each step against the question before I settle on the result."
)
_TAG = re.compile(r"<([A-Za-z_][\w-]{0,30})>")
_NAMED = re.compile(r"\b[A-Z]{4,}(?: [A-Z]{2,}){0,2}:|(?<=[\"'`])[A-Z][A-Za-z ]{2,24}:(?=[\s\"'`<\[])")
"""A phrase in capitals or quotes, as in: the last line must be ANSWER: and the number."""
_PARSER = re.compile(r"XMLParser\(\s*(?:fields\s*=\s*)?\[([^\]]*)\]")
_THINKING = frozenset({"think", "thinking", "reasoning", "thought", "thoughts", "scratchpad", "analysis"})
_MARKUP = frozenset({"b", "i", "u", "p", "br", "li", "ul", "ol", "div", "span", "code", "pre", "sub", "sup", "a", "h1"})
_ANSWERS = ("answer", "final_answer", "final", "solution", "result", "output", "label", "response", "choice")


@dataclass(frozen=True, slots=True)
class Carrier:
    """`lead` goes before everything (other tags the environment asks for); `open` and `close` enclose the answer."""

    kind: Kind
    open: str = ""
    close: str = ""
    lead: str = ""

    def wrap(self, answer: str) -> str:
        """The shortest completion that gives this answer."""
        return f"{self.lead}{self.enclose(answer)}"

    def reasoned(self, answer: str, reasoning: str = REASONING) -> str:
        """The same after some reasoning, which goes where the environment wants it."""
        if self.lead:
            return self.lead.replace(REASONING, reasoning) + self.enclose(answer)
        return f"{reasoning}\n{self.enclose(answer)}"

    def enclose(self, answer: str) -> str:
        return f"{self.open}{answer}{self.close}"


PLAIN = Carrier("plain")
BOXED = Carrier("boxed", "\\boxed{", "}")
HASH = Carrier("hash", "#### ")
PHRASES = (Carrier("phrase", "The answer is ", "."), Carrier("phrase", "Answer: "), Carrier("phrase", "Final answer: "))
JSON = Carrier("json", '{"answer": "', '"}')
CODE = Carrier("code", "```python\n", "\n```")


def tag(name: str) -> Carrier:
    return Carrier("tag", f"<{name}>", f"</{name}>")


def asked(texts: Sequence[str], source: str) -> list[Carrier]:
    """What prompts (and, after them, the environment's code) ask for, in that order."""
    found = [*_in_text("\n".join(texts)), *_in_source(source)]
    return list(dict.fromkeys(found))


def all_carriers(texts: Sequence[str], source: str) -> list[Carrier]:
    """Everything worth trying, the likeliest first; ties in reward go to the earlier one."""
    wanted = asked(texts, source)
    usual = [PLAIN, *PHRASES, BOXED, tag("answer"), HASH, JSON, CODE]
    led = [replace(c, lead=f"{REASONING}\n") for c in [*wanted, PLAIN, BOXED, tag("answer")] if not c.lead]
    return list(dict.fromkeys([*wanted, *usual, *led]))


def _in_text(text: str) -> Iterator[Carrier]:
    names = [n for n in dict.fromkeys(_TAG.findall(text)) if n.lower() not in _MARKUP]
    yield from _tags(names)
    if "\\boxed" in text:
        yield BOXED
    if "####" in text:
        yield HASH
    if re.search(r"```(?:python|py)\b", text):
        yield CODE
    if re.search(r"(?i)\bjson\b", text) and (keys := re.findall(r'"(\w+)"\s*:', text)):
        yield Carrier("json", f'{{"{keys[-1]}": "', '"}')
    named = dict.fromkeys(_NAMED.findall(text))
    yield from (Carrier("phrase", f"{phrase} ") for phrase in list(named)[:3])
    yield from (c for c in PHRASES if c.open.strip().lower() in text.lower())


def _in_source(source: str) -> Iterator[Carrier]:
    names = [n for group in _PARSER.findall(source) for n in re.findall(r"[\"'](\w+)[\"']", group)]
    names += _TAG.findall(source.replace("\\", ""))
    yield from _tags([n for n in dict.fromkeys(names) if n.lower() not in _MARKUP])
    if "boxed" in source:
        yield BOXED
    if "####" in source:
        yield HASH


def _tags(names: Sequence[str]) -> Iterator[Carrier]:
    thinking = [n for n in names if n.lower() in _THINKING]
    answers = sorted((n for n in names if n not in thinking), key=_rank)[:3]
    lead = "".join(f"<{n}>\n{REASONING}\n</{n}>\n" for n in thinking[:2])
    for name in answers:
        if lead:
            yield replace(tag(name), lead=lead)
        yield tag(name)
    if lead and not answers:
        yield replace(PLAIN, lead=lead)


def _rank(name: str) -> int:
    return _ANSWERS.index(name.lower()) if name.lower() in _ANSWERS else len(_ANSWERS)


def broken(carrier: Carrier, answer: str) -> Iterator[tuple[str, str]]:
    """(name, completion) that give an answer in a form that was not asked for."""
    if carrier.kind == "tag":
        yield "unclosed tag", f"{carrier.lead}{carrier.open}{answer}"
        yield "wrong tag", f"{carrier.lead}<result_value>{answer}</result_value>"
        yield "mismatched tag", f"{carrier.lead}{carrier.open}{answer}</other>"
        yield "no tag", answer
    elif carrier.kind == "boxed":
        yield "unclosed box", f"{carrier.lead}\\boxed{{{answer}"
        yield "no box", answer
    elif carrier.kind == "json":
        yield "cut-off JSON", f"{carrier.lead}{carrier.open}{answer}"
        yield "no JSON", answer
    elif carrier.kind == "hash":
        yield "no ####", answer
