"""Parsing of Python that CPython may break off while other threads parse."""

from __future__ import annotations

import ast

import pytest

from prime_lab_mcp.lab.base.syntax import parameter_names, parse_python, retry_parsing


def test_a_parse_that_the_interpreter_broke_off_is_done_again() -> None:
    broken = [SystemError("AST constructor recursion depth mismatch (before=66, after=64)")] * 2

    def parse() -> str:
        if broken:
            raise broken.pop()
        return "parsed"

    assert retry_parsing(parse) == "parsed"


def test_a_parse_that_never_succeeds_raises() -> None:
    def parse() -> None:
        raise SystemError("always")

    with pytest.raises(SystemError, match="always"):
        retry_parsing(parse)


def test_source_that_is_no_python_raises_as_ast_does() -> None:
    assert isinstance(parse_python(b"a = 1"), ast.Module)
    with pytest.raises(SyntaxError):
        parse_python("a =")


def test_only_functions_have_parameters() -> None:
    module = parse_python("def f(a, /, b, *more, c=1, **rest): pass")
    assert parameter_names(module) == []
    assert parameter_names(module.body[0]) == ["a", "b", "c", "more", "rest"]
