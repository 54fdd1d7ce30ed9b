"""When two answers are the same: texts, numbers, lists and matrices part by part, expressions by mathematics."""

from __future__ import annotations

import re

from competition_math import numbers, symbolic
from competition_math.latex import key, split, tidy, words

MOST_PARTS = 16
_DEPTH = 4
_UNION = re.compile(r"\\cup(?![A-Za-z])")
_COMMA = re.compile(r"\s*(?:[,;]|\\text\{\s*(?:,\s*)?(?:and|or)\s*\}|(?<=\s)(?:and|or)(?=\s)|\\(?:and|or)(?=\s))\s*")
_ROW, _CELL = re.compile(r"\\\\"), re.compile(r"&")
_MATRIX = re.compile(r"\\begin\{([pbv]?matrix|array)\}(.*)\\end\{\1\}", re.S)
_ASSIGNED = re.compile(r"((?:[A-Za-z]|\\[a-z]+)(?:_[A-Za-z0-9])?(?:\([a-z]\))?)\s*(?:=|\\in(?![A-Za-z]))\s*([^=]+)")
_SIGNS = re.compile(r"\\(?:pm|mp)(?![A-Za-z])")
_UNIT = re.compile(r"(?<=\S)\s*(?:\\text\{[^{}]{1,40}\}(?:\^[23])?|°)$")
_BRACKETS = (("(", ")"), ("[", "]"), ("(", "]"), ("[", ")"), ("\\{", "\\}"))
_RELATION = re.compile(r"[<>]|\\[lg]eq(?![A-Za-z])")


def same(gold: str, given: str) -> bool:
    """True when `given` is an accepted way to write `gold`; text that is equal always is.

    Raises symbolic.GaveUp where that cannot be found out in time.
    """
    return _same(tidy(gold), tidy(given), _DEPTH)


def needs_mathematics(gold: str) -> bool:
    """True when answers may have to be compared as expressions, which takes another process."""
    return numbers.read(tidy(gold)) is None and words(tidy(gold)) is None


def _same(gold: str, given: str, depth: int) -> bool:
    if key(gold) == key(given):
        return bool(key(gold))
    if depth == 0 or words(gold) is not None or words(given) is not None:
        return False
    (left, gold_body), (right, given_body) = _assigned(gold), _assigned(given)
    if left or right:
        if left and right and key(left) != key(right):
            return False
        if _same(gold_body, given_body, depth - 1):
            return True
    number = numbers.read(gold)
    if number is not None:
        other = numbers.read(given)
        return other is not None and numbers.same(other, number)
    if _SIGNS.search(gold) or _SIGNS.search(given):
        return _unordered(_both_signs(gold), _both_signs(given), depth)
    parts = _parts(gold, given, depth)
    if parts is not None:
        return parts
    gold, given = _measured(gold, given)
    if "\\text" in gold or "\\text" in given:  # to a parser `\\text{ab}` is a times b
        return key(gold) == key(given)
    return symbolic.equal(gold, given)


def _parts(gold: str, given: str, depth: int) -> bool | None:
    """Whether two answers made of parts are the same; None when neither is made of parts, or only by its relation."""
    for separators in (_UNION, _COMMA):
        ours, theirs = split(_bare(gold), separators), split(_bare(given), separators)
        if len(ours) > 1 or len(theirs) > 1:
            return _several(ours, theirs, depth)
    table, other = _matrix(gold), _matrix(given)
    if table or other:
        return table is not None and other is not None and _in_order(table, other, depth)
    ours_in, theirs_in = _inside(gold), _inside(given)
    if ours_in and theirs_in:
        return ours_in[0] == theirs_in[0] and _in_order(ours_in[1], theirs_in[1], depth)
    if ours_in or theirs_in:  # an interval may be written as an inequality, and nothing else
        return None if _RELATION.search(given if ours_in else gold) else False
    return None


def _bare(text: str) -> str:
    """The inside of a set in braces, which is a list whose order does not matter."""
    return text[2:-2].strip() if text.startswith("\\{") and text.endswith("\\}") and _inside(text) is None else text


def _inside(text: str) -> tuple[str, list[str]] | None:
    """The kind of brackets around the whole of a text and two parts or more in them."""
    for opening, closing in _BRACKETS[:4]:
        if text.startswith(opening) and text.endswith(closing):
            parts = split(text[1:-1], _COMMA)
            if len(parts) > 1 and all(parts):
                return opening + closing, parts
    return None


def _matrix(text: str) -> list[str] | None:
    """The cells of a matrix, its shape first; None when the text is none."""
    found = _MATRIX.fullmatch(text)
    if found is None:
        return None
    rows = [split(row, _CELL) for row in split(found[2], _ROW) if row]
    kind = "det" if found[1] == "vmatrix" else "matrix"
    return [f"\\text{{{kind} of {' '.join(str(len(row)) for row in rows)}}}", *(cell for row in rows for cell in row)]


def _several(ours: list[str], theirs: list[str], depth: int) -> bool:
    """Lists without an order, such as several solutions; `x=1, y=2` may leave out the names but not swap the values."""
    if len(ours) != len(theirs):
        return False
    names = [_assigned(part)[0] for part in ours]
    if len(set(names)) > 1 and not any(_assigned(part)[0] for part in theirs):
        return _in_order(ours, theirs, depth)
    if len(set(names)) > 1 and {_assigned(part)[0] for part in theirs} != set(names):
        return False
    return _unordered(ours, theirs, depth)


def _in_order(ours: list[str], theirs: list[str], depth: int) -> bool:
    if len(ours) != len(theirs) or len(ours) > MOST_PARTS + 1:
        return False
    return all(_same(gold, given, depth - 1) for gold, given in zip(ours, theirs, strict=True))


def _unordered(ours: list[str], theirs: list[str], depth: int) -> bool:
    if len(ours) != len(theirs) or len(ours) > MOST_PARTS:
        return False
    left = list(theirs)
    for gold in ours:
        match = next((given for given in left if _same(gold, given, depth - 1)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _assigned(text: str) -> tuple[str, str]:
    """(name, value) of `x = 5` or `x \\in (1,2)`; no name for anything else."""
    found = _ASSIGNED.fullmatch(text)
    return (found[1], found[2]) if found else ("", text)


def _measured(gold: str, given: str) -> tuple[str, str]:
    """Both without the unit they end in, where it is the same or only one has one."""
    ours, theirs = _UNIT.search(gold), _UNIT.search(given)
    if ours and theirs and key(ours[0]) != key(theirs[0]):
        return gold, given
    return gold[: ours.start()] if ours else gold, given[: theirs.start()] if theirs else given


def _both_signs(text: str) -> list[str]:
    """The two answers that `1 \\pm \\sqrt{2}` is; lists of such are taken apart."""
    found: list[str] = []
    for part in split(_bare(text), _COMMA):
        if _SIGNS.search(part):
            upper = _SIGNS.sub(lambda sign: "+" if sign[0] == "\\pm" else "-", part)
            lower = _SIGNS.sub(lambda sign: "-" if sign[0] == "\\pm" else "+", part)
            found += [re.sub(r"^\+\s*", "", re.sub(r"=\s*\+\s*", "=", side)) for side in (upper, lower)]
        else:
            found.append(part)
    return found
