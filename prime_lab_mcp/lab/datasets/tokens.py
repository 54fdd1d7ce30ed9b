"""How many tokens a text has, roughly, where no tokenizer is at hand."""

from __future__ import annotations

HOW = "estimated: 4 characters a token, 2 in scripts such as Cyrillic, 1 in Chinese, Japanese, Korean and the like"


def estimate(text: str) -> int:
    """Tokens as today's byte-pair vocabularies cut them; English prose is met within about a fifth.

    Digits, code and LaTeX take more tokens than this says. The length of a character in UTF-8 tells the script.
    """
    if text.isascii():
        return -(-len(text) // 4)
    narrow = len(text.encode("ascii", "ignore"))
    total = len(text.encode("utf-8", "replace"))
    wide = max(0, total - narrow - 2 * (len(text) - narrow))
    middle = max(0, len(text) - narrow - wide)
    return -(-narrow // 4) + -(-middle // 2) + wide
