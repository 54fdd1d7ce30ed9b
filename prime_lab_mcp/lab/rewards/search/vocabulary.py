"""Collects the texts and first recipes of a search: constants of the code, answer wrappers and answers of other tasks.

No text comes from the answer of a held-out task.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.rewards.probes.answer_formats import BOXED, AnswerWrapper, all_wrappers
from prime_lab_mcp.lab.rewards.probes.catalogue import FILLER, AnswerStyle, Probe
from prime_lab_mcp.lab.rewards.probes.families import NEEDS_ANSWER
from prime_lab_mcp.lab.rewards.probes.pattern_examples import code_patterns, pattern_example, pattern_frames
from prime_lab_mcp.lab.rewards.reward_source import parse_source
from prime_lab_mcp.lab.rewards.search.recipes import MOST_COUNTED, Piece, Recipe, SearchTask, Source, text_recipe

_MOST_LITERALS = 160
_LONGEST_LITERAL = 80
_MOST_SEEDS = 220
_MOST_FRAMES = 4
_MOST_ANSWERS = 12
_ALONE = 24
"""Number of constants of the code that are completions by themselves."""
_STATEMENTS = (
    *("pass", "import sys\n", "sys.exit(0)\n", "exit()\n", "import os\n", "os._exit(0)\n", "raise SystemExit\n"),
    *("return ", "None", "0", "True", "[]", "''", "print(", ")", "#", "class ", "def ", "    ", "(*a):\n    return "),
    "class Same:\n    def __eq__(self, other):\n        return True\n",
    *("Same()", "lambda *a: ", "try:\n", "except Exception:\n", "while False:\n"),
)
"""Parts of programs, for environments whose golds are programs."""
_LITERAL_RUN = re.compile(r"</?[\w-]+>|[A-Za-z][\w' -]*[A-Za-z]|[^\w\s\\()\[\]{}|.*+?^$]{1,3}|\d+")
_GENERAL = (
    *("", " ", "\n", "\n\n", ",", ";", ".", ":", "?", "-", "_", "/", "|", "{", "}", "[", "]", '"', "'", "<", ">", "`"),
    *("0", "1", "-1", "2", "3", "5", "7", "10", "42", "100", "1000", "0.5", "1e9", "-1e9", "nan", "inf", "1/0", "%"),
    *("A", "B", "C", "D", "E", "a", "e", "i", "o", "s", "t", "yes", "no", "true", "false", "None", "null", "unknown"),
    *(
        "{}",
        "[]",
        '""',
        "()",
        "[[]]",
        "{'a': 1}",
        '{"a": 1}',
        "the",
        "The answer is ",
        "I do not know.",
        "step by step",
    ),
    *("correct", "step by step", "therefore", "because", "first", "abcdefghijklmnopqrstuvwxyz"),
    *("0123456789", "0 1 2 3 4 5 6 7 8 9"),
    *("A B C D E F", "ABCDEFGHIJ", "<think>", "</think>", "```", "\\boxed{", "####", "- ", "* ", "1. ", "**", FILLER),
)


@dataclass(frozen=True, slots=True)
class SearchVocabulary:
    """The texts with which a search builds completions.

    `tokens` are texts for mutations, and `literals` are those of them that the code contains, which are drawn more
    often. `forms` are (opening, closing) pairs of answer wrappers. `seeds` are the first recipes.
    """

    tokens: tuple[str, ...]
    forms: tuple[tuple[str, str], ...]
    seeds: tuple[Recipe, ...]
    literals: tuple[str, ...] = ()


def build_vocabulary(
    source: str, style: AnswerStyle, tasks: Sequence[SearchTask], answers: Iterable[str], probes: Iterable[Probe] = ()
) -> SearchVocabulary:
    """Return the vocabulary for one environment.

    `answers` are wrong answers and answers of tasks that are not held out. `probes` become first recipes, except for
    those that contain a right answer.
    """
    wrapper = style.wrapper
    literals = list(code_literals(source))
    texts = [a for a in dict.fromkeys(answers) if 0 < len(a) <= 400][:_MOST_ANSWERS]
    wrappers = [wrapper, *all_wrappers([task.prompt for task in tasks[:3]], source)]
    patterns = code_patterns(source)
    examples = [text for text in dict.fromkeys(map(pattern_example, patterns)) if text]
    frames = [frame for frame in map(pattern_frames, patterns) if frame is not None and frame[0]][:_MOST_FRAMES]
    forms = dict.fromkeys([*frames, *((w.open, w.close) for w in wrappers if w.open)])
    marks = [mark for pair in forms for mark in pair if mark]
    leads = [w.lead for w in wrappers if w.lead][:2]
    statements = _STATEMENTS if style.programs else ()
    tokens = tuple(dict.fromkeys([*examples, *literals, *style.words, *texts, *marks, *leads, *statements, *_GENERAL]))
    listed = [
        text_recipe(p.completion, f"probe: {p.label}")
        for p in probes
        if not p.knowing and p.family not in NEEDS_ANSWER and not p.given and len(p.completion) <= 2_000
    ]
    programs = _programs(wrapper) if style.programs else ()
    # Programs come first: scoring them is slow, so that a search may try little else.
    general = [*_of_patterns(examples, frames, texts), *_seeds(wrapper, texts, literals, leads)]
    seeds = [*programs, *general, *_parts_of_json(wrapper, texts), *_unique(listed)]
    return SearchVocabulary(tokens, tuple(list(forms)[:8]), tuple(_unique(seeds)[:_MOST_SEEDS]), tuple(literals))


def _of_patterns(
    examples: Sequence[str], frames: Sequence[tuple[str, str]], answers: Sequence[str]
) -> Iterator[Recipe]:
    """Yield what the code's patterns match, alone and together, and general texts in the place of their group."""
    for text in examples:
        yield text_recipe(text, "a match of a pattern")
    if len(examples) > 1:
        yield text_recipe("\n".join(examples), "matches of all patterns")
    for before, behind in dict.fromkeys(frames):
        for text in (*_IN_PATTERNS, *answers[:2]):
            yield text_recipe(f"{before}{text}{behind}", "a text in the group of a pattern")


_IN_PATTERNS = ("", "0", "1", "-1", "999999999", "A", "the", "[]", "{}", ".*")


def _seeds(
    wrapper: AnswerWrapper, answers: Sequence[str], literals: Sequence[str], leads: Sequence[str]
) -> Iterator[Recipe]:
    """Yield first recipes that fit any environment, with and without the answer wrapper."""
    opening, closing = Piece(text=f"{wrapper.lead}{wrapper.open}"), Piece(text=wrapper.close)

    def formed(step: str, *pieces: Piece) -> Recipe:
        return Recipe(tuple(p for p in (opening, *pieces, closing) if p.source is not Source.TEXT or p.text), (step,))

    yield Recipe((), ("nothing",))
    yield formed("the empty form")
    for source in (Source.PROMPT, Source.EXPRESSION):
        yield Recipe((Piece(source),), (f"copy of {source}",))
        yield formed(f"copy of {source}, in form", Piece(source))
    for source, separators in (
        (Source.OPTIONS, ("\n", ", ")),
        (Source.NUMBERS, (" ", "+", "*")),
        (Source.ANSWERS, (", ", "\n", " ")),
    ):
        for text in separators:
            yield Recipe((Piece(source, text),), (f"copy of {source}",))
            yield formed(f"copy of {source}, in form", Piece(source, text))
    for text in (", ", " ", "\n"):
        yield formed("counting as far as the prompt has numbers", Piece(Source.AS_MANY, text))
    for number in (12, 100, MOST_COUNTED):
        yield Recipe((Piece(Source.COUNT, " ", number),), ("counting",))
        yield formed("counting, in form", Piece(Source.COUNT, ", ", number))
        if wrapper.open:
            between = f"{wrapper.close}\n{wrapper.open}"
            yield formed("a form for each number", Piece(Source.COUNT, between, min(number, 300)))
    if wrapper.open:
        yield formed("a form for each answer of other tasks", Piece(Source.ANSWERS, f"{wrapper.close}\n{wrapper.open}"))
    for answer in answers:
        yield formed("answer of another task", Piece(text=answer))
    for answer in answers[:3]:
        yield text_recipe(answer, "bare answer of another task")
    several = [a for a in answers if len(a) <= 60]
    if len(several) > 1:
        yield formed("answers of other tasks", *(Piece(text=f"{a}\n") for a in several))
        yield Recipe(
            tuple(Piece(text=f"{wrapper.open}{a}{wrapper.close}\n") for a in several), ("forms with several answers",)
        )
    if literals:
        yield text_recipe(" ".join(literals)[:4_000], "all constants of the code")
        yield formed("all constants of the code, in form", Piece(text=" ".join(literals)[:4_000]))
    for text in literals[:_ALONE]:
        yield text_recipe(text, "a constant of the code")
    for text in (
        "A B C D E F",
        "abcdefghijklmnopqrstuvwxyz 0123456789",
        "e",
        "1",
        "0",
        "nan",
        "{}",
        "[]",
        ".*",
        "*",
        "%",
    ):
        yield formed("general text, in form", Piece(text=text))
    yield formed("long text", Piece(text=FILLER, times=40))
    for lead in leads:
        yield text_recipe(lead, "reasoning alone")
    if wrapper != BOXED:
        yield text_recipe("\\boxed{}", "an empty box")


def _programs(wrapper: AnswerWrapper) -> Iterator[Recipe]:
    """Yield recipes for short programs that solve nothing."""
    opening, closing = Piece(text=f"{wrapper.lead}{wrapper.open}"), Piece(text=wrapper.close)
    head = (opening, Piece(text="def "), Piece(Source.FUNCTION), Piece(text="(*a):\n    return "))
    for value in ("None", "0", "True", "[]", "''", "a[0]"):
        yield Recipe((*head, Piece(text=value), closing), ("a function that solves nothing",))
    yield Recipe((*head, Piece(Source.PROMPT_RESULT), closing), ("a function that returns the result of the example",))
    same = Piece(text="class Same:\n    def __eq__(self, other):\n        return True\n")
    yield Recipe((opening, same, *head[1:], Piece(text="Same()"), closing), ("a function that solves nothing",))
    for text in ("pass", "import sys\nsys.exit(0)", "import os\nos._exit(0)", "raise SystemExit", "#"):
        yield Recipe((opening, Piece(text=text), closing), ("a statement",))


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _parts_of_json(wrapper: AnswerWrapper, answers: Sequence[str]) -> Iterator[Recipe]:
    """Yield recipes from answers that are JSON objects: merged objects, and objects with fields left out or emptied."""
    objects = [value for value in map(_json_object, answers) if value]
    if objects:
        names = dict.fromkeys(name for value in objects for name in value)
        every: dict[str, list[Any]] = {name: [value[name] for value in objects if name in value] for name in names}
        flat = {
            name: [v for held in items for v in (held if isinstance(held, list) else [held])]
            for name, items in every.items()
        }
        for merged in (every, flat, {name: " ".join(map(str, items)) for name, items in flat.items()}):
            text = f"{wrapper.lead}{wrapper.enclose(json.dumps(merged, ensure_ascii=False))}"
            yield text_recipe(text, "answers of other tasks merged")
    for value in objects[:4]:
        parts: list[Any] = [{}, dict.fromkeys(value), dict.fromkeys(value, "")]
        for name, held in value.items():
            parts.append({name: held})
            parts.append({k: v for k, v in value.items() if k != name})
            parts.append({**value, name: type(held)() if held is not None else None})
        for part in parts:
            text = f"{wrapper.lead}{wrapper.enclose(json.dumps(part, ensure_ascii=False))}"
            yield text_recipe(text, "part of the answer of another task")


def _unique(recipes: Iterable[Recipe]) -> list[Recipe]:
    return list({recipe.pieces: recipe for recipe in recipes}.values())


def code_literals(source: str) -> Iterator[str]:
    """Yield short strings and numbers of the code, without docstrings, and then parts of these strings. At most 160.

    They come from functions and from small module-level assignments. Parts are useful for strings that are regular
    expressions.
    """
    tree = parse_source(source)
    literals: dict[str, None] = {}
    for function in ast.walk(tree) if tree is not None else ():
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            literals |= dict.fromkeys(_constants(function))
    for node in tree.body if tree is not None else ():
        small = isinstance(node, ast.Assign) and len(ast.dump(node.value)) < 4_000
        literals |= dict.fromkeys(_constants(node)) if small else {}
    parts = [part for text in literals for part in _LITERAL_RUN.findall(text.replace("\\", "")) if part != text]
    short = [text for text in literals if len(text) <= _LONGEST_LITERAL]
    yield from list(dict.fromkeys([*short, *parts]))[:_MOST_LITERALS]


def _constants(node: ast.AST) -> Iterator[str]:
    """Yield the strings and numbers in a syntax tree, without docstrings."""
    documented = {
        id(part.body[0].value)
        for part in ast.walk(node)
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and part.body
        and isinstance(part.body[0], ast.Expr)
    }
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and id(part) not in documented:
            if isinstance(part.value, str) and part.value.strip() and len(part.value) <= 400:
                yield part.value
            elif isinstance(part.value, int | float) and not isinstance(part.value, bool):
                yield f"{part.value:g}"
