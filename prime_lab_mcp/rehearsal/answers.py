"""The knowledge of the scripted model: registered answers, arithmetic in the prompt, and plausible wrong answers."""

from __future__ import annotations

import ast
import hashlib
import json
import operator
import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from prime_lab_mcp.rehearsal.store import Body

_SPACE = re.compile(r"\s+")
_SUM = re.compile(r"(?<![\w.])\(*-?\d[\d.,]*(?:\s*\)*\s*[-+*/×÷x^]\s*\(*\s*-?\d[\d.,]*\)*)+")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_REVERSE = re.compile(r"\breverse\b.{0,40}\b(?:text|string|line|sentence)\b", re.I)
_SHORTEST_CONTAINED = 8
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True, slots=True)
class Gold:
    """A registered answer.

    `answer` is the final answer alone, `reply` a complete reply, `calls` tool calls to make first. `turns` is a whole
    solution, each turn with `text` and `calls`; `before` is the number of the model's messages in the prompt.
    """

    answer: str
    reply: str | None = None
    calls: tuple[Body, ...] = ()
    turns: tuple[Body, ...] = ()
    before: int = 0


def normal(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def key_of(text: str) -> str:
    """The id of a prompt: sha256 of its text, with each run of white space replaced by one blank."""
    return hashlib.sha256(normal(text).encode("utf-8")).hexdigest()


def final(answer: str) -> str:
    """The final part of a gold answer that holds its own working (`#### 7`, `\\boxed{7}`)."""
    if "####" in answer:
        return answer.rsplit("####", 1)[1].strip()
    boxed = _BOXED.findall(answer)
    return str(boxed[-1]).strip() if boxed else answer.strip()


def parse_row(row: object) -> Body:
    """Convert a row to a registered answer. Raises ValueError for an invalid row."""
    if not isinstance(row, dict) or row.get("answer") is None:
        raise ValueError("an answer is required")
    answer = row["answer"]
    prompt = _prompt_text(row.get("prompt"))
    key = key_of(prompt) if prompt is not None else row.get("prompt_sha256")
    if not isinstance(key, str):
        raise ValueError("a prompt or prompt_sha256 is required")
    fields = {k: row[k] for k in ("reply", "tool_calls", "environment", "turns", "before") if k in row}
    return fields | {"id": key, "prompt": prompt, "answer": answer if isinstance(answer, str) else json.dumps(answer)}


def _prompt_text(prompt: object) -> str | None:
    """A prompt's text; for messages, the text of the last user message."""
    if isinstance(prompt, list):
        users = [text_of(m) for m in prompt if isinstance(m, dict) and m.get("role") == "user"]
        return users[-1] if users else None
    return prompt if isinstance(prompt, str) and prompt.strip() else None


def text_of(message: Body) -> str:
    """A message's text. Its content is a string or a list of parts."""
    content: Any = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


@dataclass(slots=True)
class AnswerBook:
    """Registered answers by prompt hash, and by text for prompts that an environment embeds in other text."""

    by_key: dict[str, Gold] = field(default_factory=dict)
    by_text: list[tuple[str, Gold]] = field(default_factory=list)
    pool: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, rows: Iterable[Body]) -> AnswerBook:
        book = cls()
        distinct: dict[str, None] = {}
        for row in rows:
            gold = Gold(
                final(row["answer"]),
                row.get("reply"),
                tuple(row.get("tool_calls") or ()),
                tuple(row.get("turns") or ()),
                int(row.get("before") or 0),
            )
            book.by_key[row["id"]] = gold
            distinct[gold.answer] = None
            text = normal(row.get("prompt") or "")
            if len(text) >= _SHORTEST_CONTAINED:
                book.by_text.append((text, gold))
        book.by_text.sort(key=lambda pair: -len(pair[0]))
        book.pool = list(distinct)[:500]
        return book

    def find(self, texts: Sequence[str]) -> Gold | None:
        """The registered answer for any of the texts: for the same text, else for the longest registered text
        inside."""
        for text in texts:
            if gold := self.by_key.get(key_of(text)):
                return gold
        for text in map(normal, texts):
            for known, gold in self.by_text:
                if known in text:
                    return gold
        return None


def solve(instructions: str, question: str) -> Gold | None:
    """Solve a prompt without a registered answer: evaluate an expression, or reverse a text."""
    terms = _SUM.findall(question)
    if terms:
        value = _evaluate(terms[-1])
        if value is not None:
            return Gold(_number_text(value))
    if _REVERSE.search(instructions):
        return Gold(question.strip()[::-1])
    lines = [line for line in question.strip().splitlines() if line.strip()]
    if _REVERSE.search(question) and len(lines) > 1:
        return Gold(lines[-1].strip()[::-1])
    return None


def _evaluate(text: str) -> Fraction | None:
    cleaned = text.replace("×", "*").replace("÷", "/").replace("x", "*").replace(",", "")
    if "^" in cleaned or len(cleaned) > 200:
        return None
    cleaned = cleaned.rstrip(". ")
    cleaned += ")" * (cleaned.count("(") - cleaned.count(")"))
    try:
        return _value(ast.parse(cleaned.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


def _value(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return Fraction(str(node.value))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return Fraction(_OPERATORS[type(node.op)](_value(node.left), _value(node.right)))
    raise ValueError("not arithmetic")


def _number_text(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.6g}"


def wrong(answer: str, pool: Sequence[str], rng: random.Random) -> str:
    """Return a plausible wrong answer."""
    flat = answer.strip()
    if re.fullmatch(r"[A-Ea-e]", flat):
        letters = [c for c in "ABCDE"[: 4 if flat.upper() != "E" else 5] if c != flat.upper()]
        picked = rng.choice(letters)
        return picked if flat.isupper() else picked.lower()
    opposite = {"true": "false", "false": "true", "yes": "no", "no": "yes"}.get(flat.lower())
    if opposite is not None:
        return opposite.capitalize() if flat[:1].isupper() else opposite
    if _NUMBER.search(flat):
        return _NUMBER.sub(lambda m: _other_number(m.group(), rng), flat, count=1)
    others = [known for known in pool if normal(known).lower() != normal(flat).lower()]
    if others:
        return rng.choice(others)
    return " ".join(reversed(flat.split())) if len(flat.split()) > 1 else f"not {flat or 'known'}"


def _other_number(text: str, rng: random.Random) -> str:
    digits = text.replace(",", "")
    step = rng.choice((-10, -2, -1, 1, 2, 5, 10))
    if "." in digits:
        return f"{float(digits) + step:g}"
    return str(int(digits) + step)
