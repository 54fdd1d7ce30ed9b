"""A rendering becomes a wrapper whose parts the probes can break and lead into."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.probes.answer_formats import wrapper_from_template


@pytest.mark.parametrize(
    ("template", "kind", "opening", "close", "lead"),
    [
        ("GOLD", "plain", "", "", ""),
        ("<final>GOLD</final>", "tag", "<final>", "</final>", ""),
        ("<think>hm</think>\n<a>\nGOLD\n</a>", "tag", "<a>\n", "\n</a>", "<think>hm</think>\n"),
        ("So \\boxed{GOLD}.", "boxed", "\\boxed{", "}.", "So "),
        ("#### GOLD", "hash", "#### ", "", ""),
        ('{"result": "GOLD"}', "json", '{"result": "', '"}', ""),
        ("```python\nGOLD\n```", "code", "```python\n", "\n```", ""),
        ("I say: GOLD!", "phrase", "I say: ", "!", ""),
        ("<b>GOLD</i>", "phrase", "<b>", "</i>", ""),
    ],
)
def test_a_rendering_is_read(template: str, kind: str, opening: str, close: str, lead: str) -> None:
    found = wrapper_from_template(template)
    assert (found.kind, found.open, found.close, found.lead) == (kind, opening, close, lead)
    assert found.wrap("42") == template.replace("GOLD", "42")
