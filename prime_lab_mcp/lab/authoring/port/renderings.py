"""Formats of a reply for `test_reward`, as they follow from the parsers of an older environment."""

from __future__ import annotations

from prime_lab_mcp.lab.authoring.port.description import OldEnvironment, OldParser

LONGEST_RENDERING = 300
"""Maximum length of the argument `rendering` of test_reward, in characters."""


def renderings(old: OldEnvironment) -> tuple[str, ...]:
    """Formats of a reply that follow from the parsers: with all fields, with only the answer's field, and bare.

    A parser of several fields may read the parts of an answer such as `Cork|Sunday`."""
    found: list[str] = []
    for parser in [*(r.parser for r in old.rewards if r.weight), old.parser]:
        if parser is not None:
            found += _parser_renderings(parser)
    return tuple(dict.fromkeys(text for text in (*found, "\\boxed{GOLD}", "GOLD") if _fits(text)))


def _fits(rendering: str) -> bool:
    return len(rendering) <= LONGEST_RENDERING


def _parser_renderings(parser: OldParser) -> list[str]:
    gold = "GOLD"
    if parser.extract.get("name") == "extract_boxed_answer":
        gold = "\\boxed{GOLD}"
    elif parser.extract.get("name") == "extract_hash_answer":
        gold = "#### GOLD"
    if parser.kind == "XMLParser":
        tags = [parser.answer_field if parser.answer_field in names else names[0] for names in parser.fields]
        parts = "\n".join(f"<{t}>\n{{answer.{n}}}\n</{t}>" for n, t in enumerate(tags, 1)) if len(tags) > 1 else ""
        if parser.answer_field not in tags:
            return [parts] if parts else []
        fields = [f"<{t}>\n{gold if t == parser.answer_field else '...'}\n</{t}>" for t in tags]
        whole = ["\n".join(fields), f"<{parser.answer_field}>{gold}</{parser.answer_field}>"]
        return [*whole, parts] if parts else whole
    if parser.kind == "ThinkParser":
        return [f"<think>\n...\n</think>\n{gold}"]
    return [gold]
