"""LaTeX brought into one spelling, so that answers that differ only in looks are the same text."""

from __future__ import annotations

import re

_UNIFIED = str.maketrans(
    {
        **{chr(0xFF10 + digit): str(digit) for digit in range(10)},  # fullwidth digits
        **dict.fromkeys("\u2212\u2010\u2011\u2013\uff0d\ufe63", "-"),
        **dict.fromkeys("\u202f\u2009\u200b\u200c\u200d\u2060\ufeff", None),
        **dict.fromkeys("\u00a0\n\t\r", " "),
        "√": r"\sqrt ",
        "π": r"\pi ",
        "∞": r"\infty ",
        "×": r"\times ",
        "·": r"\cdot ",
        "÷": r"\div ",
        "≤": r"\leq ",
        "≥": r"\geq ",
        "≠": r"\neq ",
        "±": r"\pm ",
        "∪": r"\cup ",
        "∈": r"\in ",
        "²": "^2",
        "³": "^3",
    }
)
_ROW = "\x1e"
"""Stands for the end of a matrix row while commands of one character are replaced."""
_WRAPPERS = (("**", "**"), ("`", "`"), ("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"), ("$", "$"))
_TEXT = r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|mathrm|mathbf|mathit|mathsf|mbox|hbox|rm|bf)"
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"\\begin\{array\}\{[^{}]*\}", r"\\begin{array}"),
        (r"\\(?:left|right|[bB]igg?[lr]?|displaystyle|textstyle|limits)(?![A-Za-z])\s?", ""),
        (r"\\[!,]|\\(?:phantom|hspace|vspace)\{[^{}]*\}", ""),
        (r"\\[;: ]|\\q?quad(?![A-Za-z])|~", " "),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\(?:leqslant|le)(?![A-Za-z])", r"\\leq"),
        (r"\\(?:geqslant|ge)(?![A-Za-z])", r"\\geq"),
        (r"\\ne(?![A-Za-z])", r"\\neq"),
        (r"\\lbrace(?![A-Za-z])", r"\\{"),
        (r"\\rbrace(?![A-Za-z])", r"\\}"),
        (_TEXT + r"\s*\{", r"\\text{"),
        (r"\\text\{\s*([-+.,])\s*\}", r"\1"),
        (r"\{,\}", ","),
        (r"\\?%|\\text\{\s*(?:percent|%)\s*\}|(?<=\d)\s?percent$", "%"),
        (r"\\\$|[€£]", "$"),
        (r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|\\degrees?(?![A-Za-z])|\s?\\text\{\s*degrees?\s*\}", "°"),
        (r"\\sqrt\s*([A-Za-z0-9])", r"\\sqrt{\1}"),
        (r"\\frac\s*([A-Za-z0-9])\s*([A-Za-z0-9])", r"\\frac{\1}{\2}"),
        (r"\\frac\s*([A-Za-z0-9])\s*\{", r"\\frac{\1}{"),
        (r"(\\frac\s*\{[^{}]*\})\s*([A-Za-z0-9])", r"\1{\2}"),
        (r"([\^_])\s*\{\s*([A-Za-z0-9])\s*\}", r"\1\2"),
        (r"\s+", " "),
    )
)
_LETTER = re.compile(r"\(([A-Za-z])\)|([A-Za-z])\)")
_TEXT_CONTENT = re.compile(r"\\text\{([^{}]*)\}")
_SPACE = re.compile(r"(?<!\d)\s+|\s+(?!\d)|(?<=\d)\s+(?=\d{3}(?!\d|\s?/))")
"""White space that says nothing: all but what keeps two numbers apart, as in `4 7/12`; thousands may be spaced."""
_WORDS = re.compile(r"[^\W\d_]{2,}(?:[\s'-]+[^\W_]+)*", re.UNICODE)


def tidy(text: str) -> str:
    """The same mathematics in one spelling: no sizes, no spacing commands, `\\frac{1}{2}` for `\\dfrac12`."""
    text = text.translate(_UNIFIED).replace("\\\\", _ROW).strip()
    for before, after in _WRAPPERS:
        if text.startswith(before) and text.endswith(after) and len(text) > len(before) + len(after):
            text = text[len(before) : -len(after)].strip()
    for pattern, by in _RULES:
        text = pattern.sub(by, text)
    text = text.replace(_ROW, "\\\\").strip()
    return text[:-1].rstrip() if text.endswith(".") else text


def words(text: str) -> str | None:
    """The words that a tidy text is, such as `\\text{Tuesday}` or `True`, in lower case; None for mathematics."""
    bare = _TEXT_CONTENT.sub(r" \1 ", text).strip()
    is_text = "\\text{" in text or re.search(r"[^\W\d_]{4}", bare) is not None
    return " ".join(bare.casefold().split()) if is_text and _WORDS.fullmatch(bare) else None


def key(text: str) -> str:
    """What two spellings of the same tidy text have in common."""
    said = words(text)
    if said is not None:
        return said
    bare = _SPACE.sub("", _TEXT_CONTENT.sub(r"\1", text))
    letter = _LETTER.fullmatch(bare)
    return (letter[1] or letter[2]) if letter else bare


def split(text: str, separators: re.Pattern[str]) -> list[str]:
    """The parts of a text between separators that stand outside of all brackets."""
    parts, depth, start, place = [], 0, 0, 0
    while place < len(text):
        if depth == 0 and (found := separators.match(text, place)) and found.end() > place:
            parts.append(text[start:place])
            start = place = found.end()
            continue
        depth += (text[place] in "([{") - (text[place] in ")]}")
        place += 1
    return [part.strip() for part in (*parts, text[start:])]
