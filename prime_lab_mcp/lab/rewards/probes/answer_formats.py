"""Wraps answers in completions: in a tag, in a box, after a phrase, or bare. It also makes broken and truncated forms.

The module finds the wrappers that an environment's prompts and code name. The caller may also state a wrapper as a
template with GOLD in the place of the answer.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.datasets.formats import AnswerFormat
from prime_lab_mcp.lab.rewards.probes.pattern_examples import code_patterns, pattern_frames
from prime_lab_mcp.lab.rewards.reward_source import parse_source

WrapperKind = Literal["plain", "tag", "boxed", "hash", "phrase", "json", "code"]

REASONING = (
    "I read the question again and work through it one step at a time. First I write down what is given, then I "
    "check each step against the question before I settle on the result."
)
"""Reasoning that fits any question."""
TAG = re.compile(r"<([A-Za-z_][\w-]{0,30})>")
_NAMED = re.compile(r"\b[A-Z]{4,}(?: [A-Z]{2,}){0,2}:|(?<=[\"'`])[A-Z][A-Za-z ]{2,24}:(?=[\s\"'`<\[])")
"""A phrase in capitals or quotes, such as ANSWER: in "the last line must be ANSWER: and the number"."""
STATED = re.compile(
    r"\b(?i:start|begin|end|finish|conclude|form|format|write|reply|respond|line|as)(?:s|es|ing|ning|ted)?\b[^.?!]{0,40}?"
    r"[\"'`*]?((?:[Tt]he )?(?:[Ff]inal |FINAL )?(?:[Aa]nswer|ANSWER|[Rr]esult|RESULT)(?::| is:?))(?=[\s*]*[^\s*])"
)
"""A phrase that an instruction puts before the answer, such as `Answer:` in "end with a line of the form Answer: N".
A phrase at the end of a prompt asks for nothing: the model continues the text after the phrase."""
_PARSER = re.compile(r"XMLParser\(\s*(?:fields\s*=\s*)?\[([^\]]*)\]")
_FENCE = re.compile(r"```([A-Za-z][A-Za-z+#-]{0,14})\b")
_HOLDER = r"<([A-Za-z][\w .-]{0,30})>"
_TEMPLATE = re.compile(
    rf"""(?m)(?:^[ \t]*|(?<=[\"'`]))([A-Za-z][^\n\"'`<>]{{0,39}}?[:=][ \t]*){_HOLDER}"""
    r"""([^\n\"'`<>]{0,20}?)(?=[\"'`]|[ \t]*$)"""
)
"""A phrase with a placeholder in angle brackets, in quotes or on a line of its own, such as 'x = <value>'."""
_MARKED = re.compile(rf"\b([A-Z]{{3,}}(?: [A-Z]{{2,}}){{0,2}}[:=]? ){_HOLDER}()")
"""A phrase in capitals with a placeholder, such as ARRIVAL <timestamp>, anywhere in a sentence."""
THINKING = frozenset({"think", "thinking", "reasoning", "thought", "thoughts", "scratchpad", "analysis"})
_MARKUP = frozenset({"b", "i", "u", "p", "br", "li", "ul", "ol", "div", "span", "code", "pre", "sub", "sup", "a", "h1"})
ANSWER_TAGS = ("answer", "final_answer", "final", "solution", "result", "output", "label", "response", "choice")


_DOTS = re.compile(r"\.\.\.|\N{HORIZONTAL ELLIPSIS}")
_TAG_CONTENT = re.compile(r"(?<=>)[^<>]*(?=</\w+>)")


@dataclass(frozen=True, slots=True)
class AnswerWrapper:
    """The form in which a completion states its answer.

    `open` and `close` enclose the answer. `lead` precedes them, for example with a tag for reasoning.
    """

    kind: WrapperKind
    open: str = ""
    close: str = ""
    lead: str = ""

    def wrap(self, answer: str) -> str:
        """Return the shortest completion with this answer."""
        return f"{self.lead}{self.enclose(answer)}"

    def reasoned(self, answer: str, reasoning: str = REASONING) -> str:
        """Return a completion with reasoning before the answer.

        If there is a `lead`, the reasoning is inside it: in the place of our own reasoning, of dots, or of what its
        last tag holds. A lead without such a place stays as it is.
        """
        if REASONING in self.lead:
            return self.lead.replace(REASONING, reasoning) + self.enclose(answer)
        if self.lead:
            place = _DOTS.search(self.lead) or next(reversed(list(_TAG_CONTENT.finditer(self.lead))), None)
            before, after = (self.lead[: place.start()], self.lead[place.end() :]) if place else (self.lead, "")
            return f"{before}{reasoning if place else ''}{after}{self.enclose(answer)}"
        return f"{reasoning}\n{self.enclose(answer)}"

    def enclose(self, answer: str) -> str:
        """Return the answer between `open` and `close`, without `lead`."""
        return f"{self.open}{answer}{self.close}"

    def shown_in(self, text: str) -> list[str]:
        """Return the short texts, of one line, that a text shows in this form; none if the form has no end."""
        shown = f"{re.escape(self.open)}([^<>\n]{{1,30}}?){re.escape(self.close)}"
        return [found.strip() for found in re.findall(shown, text)] if self.close else []


BARE = AnswerWrapper("plain")
BOXED = AnswerWrapper("boxed", "\\boxed{", "}")
HASH = AnswerWrapper("hash", "#### ")
PHRASES = (
    AnswerWrapper("phrase", "The answer is ", "."),
    AnswerWrapper("phrase", "Answer: "),
    AnswerWrapper("phrase", "Final answer: "),
)
JSON = AnswerWrapper("json", '{"answer": "', '"}')
CODE = AnswerWrapper("code", "```python\n", "\n```")


def tag_wrapper(name: str) -> AnswerWrapper:
    return AnswerWrapper("tag", f"<{name}>", f"</{name}>")


def requested_wrappers(texts: Sequence[str], source: str) -> list[AnswerWrapper]:
    """Return the wrappers that the prompts name, then those that the environment's code names."""
    wrappers = [*_in_text("\n".join(texts)), *_in_source(source)]
    return list(dict.fromkeys(wrappers))


def all_wrappers(texts: Sequence[str], source: str) -> list[AnswerWrapper]:
    """Return all wrappers to try, the likeliest first."""
    wanted = requested_wrappers(texts, source)
    usual = [BARE, *PHRASES, BOXED, tag_wrapper("answer"), HASH, JSON, CODE]
    led = [replace(c, lead=f"{REASONING}\n") for c in [*wanted, BARE, BOXED, tag_wrapper("answer")] if not c.lead]
    return list(dict.fromkeys([*wanted, *usual, *led]))


def _in_text(text: str) -> Iterator[AnswerWrapper]:
    """Yield the wrappers that a text names: tags, boxes, ####, code fences, JSON keys and phrases."""
    shown = templates(text)
    held = {name for name, _ in shown}
    names = [n for n in dict.fromkeys(TAG.findall(text)) if n.lower() not in _MARKUP and n not in held]
    yield from _tags(names)
    yield from (wrapper for _, wrapper in shown[:3])
    if "\\boxed" in text:
        yield BOXED
    if "####" in text:
        yield HASH
    yield from _fences(text)
    yield from list(_json_examples(text))[:_MOST_JSON]
    if re.search(r"(?i)\bjson\b", text) and (keys := re.findall(r'"(\w+)"\s*:', text)):
        yield AnswerWrapper("json", f'{{"{keys[-1]}": "', '"}')
    named = dict.fromkeys([*STATED.findall(text), *_NAMED.findall(text)])
    yield from (AnswerWrapper("phrase", f"{phrase} ") for phrase in list(named)[:3])
    yield from (c for c in PHRASES if c.open.strip().lower() in text.lower())


_OBJECT = re.compile(r"\{[^{}\n]{3,300}\}")
_MOST_JSON = 6


def _json_examples(text: str) -> Iterator[AnswerWrapper]:
    """Yield wrappers from JSON objects with several keys that a text shows, such as {"choice": "B", "sure": 0.7}.

    One value, a text or a number, is replaced by the answer; the other values stay as they are shown.
    """
    for shown in dict.fromkeys(_OBJECT.findall(text)):
        try:
            value = json.loads(shown)
        except (ValueError, RecursionError):
            continue
        if not isinstance(value, dict) or not 2 <= len(value) <= 6:
            continue
        for key, held in value.items():
            if isinstance(held, str | int | float) and not isinstance(held, bool):
                mark = _GAP if isinstance(held, str) else float(_GAP_NUMBER)
                written = json.dumps(value | {key: mark}, ensure_ascii=False)
                before, _, after = written.partition(_GAP if isinstance(held, str) else str(float(_GAP_NUMBER)))
                yield AnswerWrapper("json", before, after)


_GAP, _GAP_NUMBER = "\ue000", "76543.21"


def templates(text: str) -> list[tuple[str, AnswerWrapper]]:
    """Return the phrases with a placeholder that a text names, each with the name of the placeholder.

    A name in angle brackets that the text closes as well is a tag and no placeholder.
    """
    found = [*_TEMPLATE.findall(text), *_MARKED.findall(text)]
    return [(name, AnswerWrapper("phrase", before, after)) for before, name, after in found if f"</{name}>" not in text]


def _fences(text: str) -> Iterator[AnswerWrapper]:
    """Yield a code fence for each of the first two languages that a text names after three backquotes."""
    languages = dict.fromkeys(name.lower() for name in _FENCE.findall(text))
    for name in list(languages)[:2]:
        yield CODE if name in ("python", "py") else replace(CODE, open=f"```{name}\n")


def _in_source(source: str) -> Iterator[AnswerWrapper]:
    """Yield the wrappers that code names: fields of an XMLParser, tags, boxes and ####."""
    names = [n for group in _PARSER.findall(source) for n in re.findall(r"[\"'](\w+)[\"']", group)]
    names += TAG.findall(_texts_of(source).replace("\\", ""))
    yield from _tags([n for n in dict.fromkeys(names) if n.lower() not in _MARKUP])
    if "boxed" in source:
        yield BOXED
    if "####" in source:
        yield HASH
    yield from _read_by_patterns(source)


def _read_by_patterns(source: str) -> Iterator[AnswerWrapper]:
    """Yield wrappers from patterns of the code with one group: what stands before and behind the group in a match."""
    frames = dict.fromkeys(filter(None, map(pattern_frames, code_patterns(source))))
    marked = [(before, behind) for before, behind in frames if before.strip() and "<" not in before]
    known = ("\\boxed", "####", "```")
    for before, behind in [pair for pair in marked if not any(mark in pair[0] for mark in known)][:3]:
        spaced = " " if before[-1:] in ":=" else ""
        yield AnswerWrapper("phrase", f"{before}{spaced}", behind)
        if spaced:
            yield AnswerWrapper("phrase", before, behind)


def _texts_of(source: str) -> str:
    """Return the string literals of some code, without docstrings; the whole text if it is not valid Python."""
    tree = parse_source(source)
    if tree is None:
        return source
    remarks = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    strings = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return "\n".join(str(n.value) for n in strings if id(n) not in remarks)


def _tags(names: Sequence[str]) -> Iterator[AnswerWrapper]:
    """Yield wrappers for the answer tags among these names. A tag for reasoning becomes the `lead`."""
    thinking = [n for n in names if n.lower() in THINKING]
    answers = sorted((n for n in names if n not in thinking), key=rank_of_tag)[:3]
    lead = "".join(f"<{n}>\n{REASONING}\n</{n}>\n" for n in thinking[:2])
    for name in answers:
        if lead:
            yield replace(tag_wrapper(name), lead=lead)
        yield tag_wrapper(name)
    if lead and not answers:
        yield replace(BARE, lead=lead)


def rank_of_tag(name: str) -> int:
    return ANSWER_TAGS.index(name.lower()) if name.lower() in ANSWER_TAGS else len(ANSWER_TAGS)


@dataclass(frozen=True, slots=True)
class BrokenWrapping:
    """A completion with an answer in a broken form. `unclosed` is True if the form is opened and never closed."""

    name: str
    text: str
    unclosed: bool = False


def broken_wrappings(wrapper: AnswerWrapper, answer: str) -> Iterator[BrokenWrapping]:
    """Yield completions with the answer in the broken forms that models produce instead of this wrapper."""
    if wrapper.kind == "tag":
        yield BrokenWrapping("unclosed tag", f"{wrapper.lead}{wrapper.open}{answer}", unclosed=True)
        yield BrokenWrapping("wrong tag", f"{wrapper.lead}<result_value>{answer}</result_value>")
        yield BrokenWrapping("mismatched tag", f"{wrapper.lead}{wrapper.open}{answer}</other>")
        yield BrokenWrapping("no tag", answer)
    elif wrapper.kind == "boxed":
        yield BrokenWrapping("unclosed box", f"{wrapper.lead}\\boxed{{{answer}", unclosed=True)
        yield BrokenWrapping("no box", answer)
    elif wrapper.kind == "json":
        yield BrokenWrapping("cut-off JSON", f"{wrapper.lead}{wrapper.open}{answer}", unclosed=True)
        yield BrokenWrapping("no JSON", answer)
    elif wrapper.kind == "hash":
        yield BrokenWrapping("no ####", answer)


GOLD_MARK = "GOLD"
_OPENING_TAG = re.compile(r"<([A-Za-z_][\w-]{0,30})>\s*$")


def wrapper_from_template(template: str) -> AnswerWrapper:
    """Return the wrapper that a template describes, with GOLD in the place of the answer.

    Raises BadInput unless the template contains GOLD exactly once.
    """
    number = template.count(GOLD_MARK)
    if number != 1:
        raise BadInput(
            f"the rendering holds {GOLD_MARK} {number} times, not once",
            fix=f'Write one {GOLD_MARK} where the answer stands, such as "<final>{GOLD_MARK}</final>". A reply that is '
            'made of fields of the task names these and no gold: "<city>{info.city}</city><day>{info.day}</day>".',
            code="bad-argument",
        )
    before, _, after = template.partition(GOLD_MARK)
    tag = _OPENING_TAG.search(before)
    if tag and after.lstrip().startswith(f"</{tag[1]}>"):
        return _led(before, tag.start(), "tag", after)
    for kind, opening in (("boxed", "\\boxed{"), ("hash", "####"), ("code", "```"), ("json", '{"')):
        at = before.rfind(opening)
        if at >= 0:
            return _led(before, at, kind, after)
    return AnswerWrapper("phrase" if before.strip() or after.strip() else "plain", before, after)


def _led(before: str, at: int, kind: str, after: str) -> AnswerWrapper:
    """Return a wrapper whose opening begins at position `at` of the text before the answer."""
    kinds: dict[str, WrapperKind] = {"tag": "tag", "boxed": "boxed", "hash": "hash", "code": "code", "json": "json"}
    return AnswerWrapper(kinds[kind], before[at:], after, before[:at])


TRUNCATION_SHARES = (0.25, 0.5, 0.75, 0.95)
"""Shares of its length at which a completion is truncated (docs/validation.md, Reward tests)."""
TRUNCATION_TASKS = 4
"""Number of tasks on which truncated completions are tried."""
GRADED_FORMATS: frozenset[AnswerFormat] = frozenset({"free_text", "short_text", "multi_answer", "json", "tool_call"})
"""Answer formats in which the beginning of an answer may rightly earn part of the reward."""


def truncated_completions(wrapper: AnswerWrapper, answer: str, format: AnswerFormat) -> Iterator[tuple[str, str]]:
    """Yield (name, completion) for completions that end before the answer is complete.

    They end at shares of the length and in the middle of the answer. For `GRADED_FORMATS`, all of them end before the
    answer begins.
    """
    whole = wrapper.reasoned(answer)
    start = whole.rindex(answer)
    ends = {f"at {share:.0%}": int(len(whole) * share) for share in TRUNCATION_SHARES}
    if len(answer) > 1 and format not in GRADED_FORMATS:
        ends["inside of the answer"] = start + len(answer) // 2
    for name, end in ends.items():
        text = whole[:end]
        if end < start + (0 if format in GRADED_FORMATS else len(answer)) and answer not in text:
            yield name, text
