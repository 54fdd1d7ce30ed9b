"""The tools of the model: plain functions. Name, signature and docstring become the schema that the model sees.

What a tool refuses it says as a result that begins with `error`, so that the model can mend the call.
"""

from __future__ import annotations

from functools import cache

from v0_tools_template import calculator, documents


@cache
def _documents() -> list[documents.Document]:
    return documents.load()


def search_documents(query: str) -> str:
    """Find documents by words. Returns up to five titles, the best match first; read_document gives the text.

    Args:
        query: Words to look for.
    """
    found = documents.search(_documents(), query)
    return "\n".join(d.title for d in found) or "error: no document has any of these words"


def read_document(title: str) -> str:
    """The full text of one document.

    Args:
        title: The exact title.
    """
    found = documents.find(_documents(), title)
    return found.text if found is not None else "error: there is no document with this title; use search_documents"


def calculate(expression: str) -> str:
    """The value of an arithmetic expression such as (1250 - 980) * 3. No names, no functions.

    Args:
        expression: Numbers, + - * / // % ** and parentheses.
    """
    try:
        return calculator.calculate(expression)
    except ValueError as error:
        return f"error: {error}"
