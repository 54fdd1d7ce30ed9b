"""Which sentences of a task demand its tools."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.demanded_tools import demanded_use


@pytest.mark.parametrize(
    "text",
    [
        "Answer a question about a CSV file by running the command line tool tallyup in the sandbox.",
        "You must call run_sql before you answer.",
        "The files lie in the working directory; look into them with the shell.",
        "What is the total?\nAn answer counts only after a command of yours that names a file.",
    ],
)
def test_a_sentence_that_demands_a_tool_is_found(text: str) -> None:
    assert demanded_use(text, ["run_sql"]) in text
    assert demanded_use(text, ["run_sql"]) != ""


@pytest.mark.parametrize(
    "text",
    [
        "You may use run_sql to look something up.",
        "Answer the question. You can use the tools.",
        "How many orders must be sent?",
        "Use only whole numbers.",
    ],
)
def test_a_permission_and_other_sentences_demand_nothing(text: str) -> None:
    assert demanded_use(text, ["run_sql"]) == ""
