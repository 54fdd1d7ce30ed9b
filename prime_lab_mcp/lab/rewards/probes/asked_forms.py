"""Finds the form in which prompts ask for the answer, and whether they mention the form that a reward pays.

A prompt names a form in characters (a tag, a box, #### or a phrase), by the keys of a JSON object, or in words ("the
number only", "the last line holds only the name"). A form counts where all prompts ask for it in the same sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.rewards.probes.answer_formats import (
    ANSWER_TAGS,
    BARE,
    BOXED,
    HASH,
    REASONING,
    STATED,
    TAG,
    THINKING,
    AnswerWrapper,
    rank_of_tag,
    tag_wrapper,
    templates,
)


@dataclass(frozen=True, slots=True)
class AskedForm:
    """The form that all prompts ask for. `wrappers` are the ways to write it, the likeliest first.

    `shown` is the form for people. `in_words` means that the prompts describe the form instead of showing it, so that
    the form must not be the one that the prompts show elsewhere.
    """

    shown: str
    wrappers: tuple[AnswerWrapper, ...]
    in_words: bool = False


def asked_form(prompts: Sequence[str], systems: Sequence[str]) -> AskedForm | None:
    """Return the form that all prompts ask for; None if they ask for none, or for several.

    The texts are the system messages, or the prompts if there are no system messages.
    """
    shown = prompted_wrappers(prompts, systems)
    if shown:
        return AskedForm(shown[0].wrap("\N{HORIZONTAL ELLIPSIS}"), tuple(shown))
    texts = _instructions(prompts, systems)
    if not texts:
        return None
    if all(_HASHES.search(text) for text in texts):
        return AskedForm("#### \N{HORIZONTAL ELLIPSIS}", (HASH,))
    sentences = _shared_sentences(texts)
    keys = _named_keys(sentences)
    if keys:
        named = ", ".join(f'"{key}"' for key in keys)
        return AskedForm(f"a JSON object with {named}", tuple(_objects(keys)), in_words=True)
    if any(_STRUCTURE.search(sentence) for sentence in sentences):
        if any(_MARKS.search(s) for s in sentences):
            return None
        after = (AnswerWrapper("plain", lead=f"{REASONING}\n"), BARE)
        if any(_LAST_LINE.search(s) for s in sentences):
            return AskedForm("the answer alone on the last line", after, in_words=True)
        ends = any(_ENDS_WITH.search(s) for s in sentences)
        return AskedForm("the answer alone at the end", after, in_words=True) if ends else None
    if any(_BARE.search(sentence) for sentence in sentences):
        return AskedForm("the answer alone", (BARE,), in_words=True)
    return None


_HASHES = re.compile(
    r"(?im)^(?!\s*####\s+[A-Za-z]).*\b(?:answer|result|number|final|solution|value|signs?)\b.*####|####\s*(?:<|\[|\d|\{)"
)
"""Four hash signs in front of an answer, and not in front of a heading."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def _shared_sentences(texts: Sequence[str]) -> list[str]:
    """Return the sentences of the first text that all texts contain."""
    first, *others = dict.fromkeys(texts)
    sentences = [s.strip() for s in _SENTENCE_END.split(first) if s.strip()]
    return [s for s in sentences if all(s in other for other in others)]


_THING = (
    r"(?:number|integer|digits?|word|letter|name|label|category|class|date|time|city|country|value|amount|price|sum|"
    r"total|result|answer|title|colou?r|sentence|translation|language|topic|yes or no)"
)
_REPLY = r"\b(?:reply|respond|answer|return|output|give|write|print|produce|state|say)\b"
_BARE = re.compile(
    rf"{_REPLY}[^.\n]{{0,40}}?\b(?:only|just|nothing but|exactly|a single|one)\s+(?:(?:the|a|an|one|your|its|with)\s+)*"
    rf"(?:\w+\s+){{0,2}}{_THING}\b"
    rf"|{_REPLY}[^.\n]{{0,40}}?\b{_THING}(?:\s+\w+){{0,3}}?,?\s+(?:only|alone|and nothing else|without any other)\b",
    re.I,
)
"""A sentence that asks for a reply of the answer alone, such as `Reply with the number only`."""
_STRUCTURE = re.compile(
    r"[<>{}`\\]|####|\b(?:tags?|json|yaml|xml|csv|markdown|lines?|colon|format(?:ted)?|forms?|box(?:ed)?|brackets?|braces|"
    r"quotes?|quotation|fence|block|fields?|columns?|template|prefix|starts?|starting|begins?|ends?|ending|finish|hash|"
    r"think|reason(?:ing)?|explain|steps?|working|list|object|keys?)\b",
    re.I,
)
_LAST_LINE = re.compile(
    r"\b(?:last|final) line\b[^.\n]*\b(?:only|alone|just|nothing (?:else|but))\b"
    r"|\b(?:only|alone|just)\b[^.\n]*\b(?:last|final) line\b",
    re.I,
)
_ENDS_WITH = re.compile(
    rf"\b(?:end|finish|conclude)\b(?:\s+(?:your|the|each)\s+\w+)?\s+with\s+(?:(?:only|just|the|your|a|an|one|final)\s+)*"
    rf"{_THING}(?:\s+(?:alone|only|itself))?[.!]?$",
    re.I,
)
_MARKS = re.compile(r"[<>{}`\\:\"'#=]|\b(?:tags?|json|colon|format|starts?|begins?|fields?)\b", re.I)

_KEY_LIST = re.compile(r"\b(?:keys?|fields?|property|properties|attributes?|members?)\b", re.I)
_QUOTED = re.compile(r"[\"'`\N{LEFT DOUBLE QUOTATION MARK}](\w{1,40})[\"'`\N{RIGHT DOUBLE QUOTATION MARK}]")
_PLAIN_LIST = re.compile(
    r"\b(?:keys?|fields?|properties|attributes?)\s*:?\s+((?:[a-z_][\w]*)(?:(?:,\s*|,?\s+and\s+)[a-z_]\w*)*)"
)
_NO_KEY = frozenset({"and", "or", "of", "in", "for", "with", "is", "are", "as", "to", "the", "that", "named", "called"})
_MOST_KEYS = 4


def _named_keys(sentences: Sequence[str]) -> tuple[str, ...]:
    """Return the keys of the JSON object that the sentences ask for; empty if they ask for none, or for many."""
    if not any(re.search(r"\bjson\b", sentence, re.I) for sentence in sentences):
        return ()
    keys: dict[str, None] = {}
    for sentence in sentences:
        shown = [
            key
            for inner in re.findall(r"\{[^{}]*\}?", sentence)
            for key in re.findall(r"[\"'](\w{1,40})[\"']\s*:", inner)
        ]
        keys.update(dict.fromkeys(shown))
        at = _KEY_LIST.search(sentence)
        if at is not None and not shown:
            keys.update(dict.fromkeys(_QUOTED.findall(sentence[at.start() :])))
            keys.update(dict.fromkeys(_QUOTED.findall(sentence[max(0, at.start() - 40) : at.start()])))
            plain = _PLAIN_LIST.search(sentence)
            if plain is not None and not keys:
                keys.update(
                    dict.fromkeys(k for k in re.split(r",\s*|\s+and\s+|,?\s+", plain[1]) if k and k not in _NO_KEY)
                )
    return tuple(keys) if len(keys) <= _MOST_KEYS else ()


_EXPLAINS = re.compile(r"reason|explan|thought|think|steps?$|working|why|note|comment|rationale|justif|analysis", re.I)
_MEASURES = re.compile(r"confiden|score|probab|certain|sure", re.I)


def _objects(keys: Sequence[str]) -> Iterator[AnswerWrapper]:
    """Yield JSON objects with these keys, in which one key holds the answer, as a text or as another value."""
    holders = [key for key in keys if not (_EXPLAINS.search(key) or _MEASURES.search(key))] or list(keys)
    for key in holders:
        for filler in (
            ('"It follows from the question."', '["It follows from the question."]', "1") if len(keys) > 1 else ("",)
        ):
            others = {other: "0.9" if _MEASURES.search(other) else filler for other in keys}
            written = [f'"{other}": ' + ("\0" if other == key else held) for other, held in others.items()]
            before, after = f"{{{', '.join(written)}}}".split("\0")
            yield AnswerWrapper("json", f'{before}"', f'"{after}')
            yield AnswerWrapper("json", before, after)


_LABELS = r"(?:colon|equals sign|prefix|label|heading|keyword|format|form|lines?|starts?|starting|begins?|beginning)"
_QUOTES = "[\"'`*\N{LEFT DOUBLE QUOTATION MARK}\N{LEFT SINGLE QUOTATION MARK}]"


def mentions_form(wrapper: AnswerWrapper, text: str) -> bool:
    """Whether a text mentions the form of a wrapper, by its characters or its name.

    A word in front of a colon ("Volume:") is a form only where the text quotes it or says that it is one, because the
    task may be about it. Models write "Answer:" where they are asked for an answer.
    """
    lower = text.lower()
    opening = wrapper.open.strip().lower()
    if not opening or opening in lower:
        return True
    if wrapper.kind == "boxed":
        return "box" in lower
    if wrapper.kind == "hash":
        return "#" in text or "hash" in lower
    if wrapper.kind == "json":
        return "json" in lower or all(key.lower() in lower for key in re.findall(r'"(\w+)":', wrapper.open))
    if wrapper.kind == "code":
        return True
    words = re.findall(r"[a-z]+", opening)
    if len(words) == 1 and words != ["answer"] and opening.endswith((":", "=")):
        word = re.escape(words[0])
        return bool(
            re.search(
                rf"\b{word}\b.{{0,40}}\b{_LABELS}\b|\b{_LABELS}\b.{{0,40}}\b{word}\b|{_QUOTES}{word}\b", lower, re.S
            )
        )
    if wrapper.kind == "tag":
        name = re.escape("_".join(words))
        marks = r"(?:tags?|elements?|fields?|xml|sections?)"
        return bool(re.search(rf"\b{name}\b.{{0,20}}\b{marks}\b|\b{marks}\b.{{0,30}}\b{name}\b", lower, re.S))
    return all(word in lower for word in words)


def _instructions(prompts: Sequence[str], systems: Sequence[str]) -> list[str]:
    """Return the texts that tell the model how to reply: the system messages, or the prompts if there are none."""
    return [text for text in systems if text.strip()] or list(prompts)


def prompted_wrappers(prompts: Sequence[str], systems: Sequence[str]) -> list[AnswerWrapper]:
    """Return the wrapper that the model is told to use: an answer tag, a box, or a phrase before the answer, that all
    texts name; empty if there is none.

    The texts are the system messages, or the prompts if there are no system messages. `requested_wrappers` also returns
    wrappers that occur in only some texts.
    """
    texts = _instructions(prompts, systems)
    if not texts:
        return []
    held = {name.lower() for text in texts for name, _ in templates(text)}
    names = set.intersection(*({n.lower() for n in TAG.findall(text)} for text in texts)) & set(ANSWER_TAGS) - held
    wrappers = [tag_wrapper(name) for name in sorted(names, key=rank_of_tag)[:1]]
    if not wrappers:
        inside = set.intersection(*(_enclosing_tags(text) for text in texts)) - held
        wrappers = [tag_wrapper(name) for name in inside] if len(inside) == 1 else []
    if not wrappers and all("\\boxed" in text for text in texts):
        wrappers = [BOXED]
    if not wrappers and len(phrases := set.intersection(*(_stated_phrases(text) for text in texts))) == 1:
        wrappers = [AnswerWrapper("phrase", f"{phrase} ") for phrase in phrases]
    return wrappers


_ENCLOSED = re.compile(
    r"\b(?:in|inside|within|into|between|use|using|wrap\w*)\b[^.\n<>]{0,40}<([A-Za-z_][\w-]{0,30})>\s*(?:\.\.\.|\u2026|and)?\s*</\1>"
)


def _enclosing_tags(text: str) -> set[str]:
    """Return the tags, opened and closed, in which an instruction wants the answer."""
    return {name for name in _ENCLOSED.findall(text) if name.lower() not in THINKING}


def _stated_phrases(text: str) -> set[str]:
    """Return the phrases that an instruction in the text puts before the answer."""
    return set(STATED.findall(text))


_KEY = re.compile(r"[\"'`](\w{1,40})[\"'`]\s*:[ \t]*([^\n]{0,12})")


def prompted_keys(prompts: Sequence[str], systems: Sequence[str]) -> tuple[str, ...]:
    """Return the JSON keys that all prompts name in the same words, as in `"vendor": the company`.

    In a record that a prompt shows as input, the text after a key differs between tasks, so its keys are left out.
    """
    texts = [f"{system}\n{prompt}" for prompt in prompts for system in systems[:1] or [""]]
    named = [dict.fromkeys(_KEY.findall(text)) for text in texts]
    return (
        tuple(dict.fromkeys(key for key, after in named[0] if all((key, after) in n for n in named))) if named else ()
    )


_AT_THE_END = re.compile(
    r"\b(?:end|finish|conclude)\b[^.\n]{0,40}\b(?:with|by)\b[^.\n]{0,60}\b(?:answer|result|number|solution|letter|label)"
    r"|\bstep[- ]by[- ]step\b|\bshow your (?:work|working|reasoning|steps)\b|\b(?:final|last) line\b",
    re.I,
)


def answer_comes_last(prompts: Sequence[str], systems: Sequence[str]) -> bool:
    """Return whether all texts ask for working before the answer, or for a reply that ends with the answer.

    The texts are those of `prompted_wrappers`.
    """
    texts = _instructions(prompts, systems)
    return bool(texts) and all(_AT_THE_END.search(text) for text in texts)


_ALONE = re.compile(
    r"\b(?:reply|respond|answer|output|return|write|give|print|produce)\b[^.\n]{0,80}"
    r"\b(?:only|alone|nothing else|nothing but|just|exactly one (?:line|word|number|letter))\b"
    r"|\b(?:only|just|nothing but) (?:reply|respond|answer|output|return|write|give|with|valid|json)\b"
    r"|\band nothing (?:else|more)\b|\bnothing (?:before|around)\b"
    r"|\bno (?:other |extra |further |additional )?(?:text|words|explanations?|commentary|prose|comments|reasoning)\b"
    r"|\bwithout (?:any )?(?:explanations?|commentary|comments|(?:other|further) text|reasoning)\b",
    re.I,
)
_REASONS = re.compile(r"\b(?:think|reason|explain|working|step[- ]by[- ]step)\b", re.I)


def answer_comes_alone(prompts: Sequence[str], systems: Sequence[str]) -> bool:
    """Return whether all texts ask for the answer and nothing else, and none for thoughts before it.

    The texts are those of `prompted_wrappers`.
    """
    texts = _instructions(prompts, systems)
    without = [_ALONE.sub("", text) for text in texts]
    asked = bool(texts) and all(_ALONE.search(text) for text in texts)
    return asked and not any(_REASONS.search(text) for text in without)
