"""Which reward, and which template, fits which form of answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prime_lab_mcp.lab.datasets.rules import Format

TEMPLATES: Mapping[str, str] = {
    "gsm8k_hash": "numeric", "numeric": "numeric", "boxed": "math", "latex_math": "math",
    "choice_letter": "choice", "choice_index": "choice", "class_id": "classification", "label": "classification",
    "boolean": "boolean", "short_text": "short_text", "multi_answer": "short_text", "json": "json",
    "tool_call": "tool_call", "code_tests": "code", "free_text": "free_text", "chat_messages": "free_text",
}  # fmt: skip
"""The template that create_environment uses for a form, unless another is named. A form that is missing has none."""
NONE = "none"
"""Kind of reward where no template can be right: what to do instead is said."""

_RULES: Mapping[Format, str] = {
    "gsm8k_hash": "Gold: take what follows the last ####, strip commas, currency and unit. Compare it as a number with "
    "the number in the answer tags.",
    "numeric": "Gold: strip commas, currency, percent sign and unit. Compare it as a number, not as text, with "
    "the number "
    "in the answer tags; 75 equals 75.0.",
    "boxed": "Gold: the content of the last \\boxed{} whose braces balance. Compare it as mathematics with the reply's "
    "last \\boxed{}.",
    "latex_math": "Gold: the whole value, put into \\boxed{}. Compare it as mathematics (1/2 equals "
    "\\frac{1}{2}) with the "
    "reply's last \\boxed{}.",
    "choice_letter": "Gold: one letter (or the label the row gives its option). The reply gives one letter in "
    "the answer "
    "tags; case, brackets and full stop aside they must be the same.",
    "boolean": "Gold: true and yes are one answer, false and no the other. The reply says one word in the answer tags; "
    "guessing is right about half of the time.",
    "short_text": "Compare the text in the answer tags with the gold, case, articles and punctuation aside. No "
    "substring "
    "counts; expect right answers in other words to miss.",
    "json": "Parse the JSON in the answer tags and the gold; compare the values, order of keys aside, never the text.",
    "tool_call": "Parse the reply's calls; the names must be the same, and each argument equal to (or, where the gold "
    "lists several, one of) the gold's.",
    "code_tests": "Run the reply's last fenced code block with the row's tests, isolated and with a time limit; "
    "all must "
    "pass.",
    "free_text": "No rule can compare free text: a judge model reads question, gold and reply, with a pinned model and "
    "rubric.",
    "chat_messages": "Prompt: the turns before the last assistant turn, which is the gold. No rule can compare it: a "
    "judge model reads both.",
    "instruction_constraints": "There is no gold text: each id in instruction_id_list, with its kwargs, is a "
    "check of the "
    "reply. Create from the template free_text without a judge, write one function per id, and pay the share "
    "that holds.",
    "procedural": "There is no gold text: the columns are the numbers of a puzzle. Write the prompt from them in a "
    "taskset of your own, and check the reply by computing it (for Countdown: the expression uses each number at most "
    "once and equals the target); never compare with target, which stands in the prompt.",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Recommendation:
    """`kind` is the template create_environment uses, or `none`; `why` the rule by which golds are compared."""

    kind: str
    why: str

    def as_json(self) -> dict[str, str]:
        return {"kind": self.kind, "why": self.why}


def recommend(
    format: Format, *, index_base: int | None = None, labels: int = 0, any_of: bool | None = None
) -> Recommendation:
    """The reward for a form. `labels`: how many class names are known."""
    rule = _RULES.get(format) or _depending(format, index_base, labels, any_of)
    kind = TEMPLATES.get(format, NONE)
    told = f" create_environment uses the template {kind}." if kind != NONE else " No template fits as it is."
    return Recommendation(kind, rule + told)


def _depending(format: Format, index_base: int | None, labels: int, any_of: bool | None) -> str:
    if format == "choice_index":
        gold = "the text or the mark of an option" if index_base is None else f"an index counted from {index_base}"
        return (
            f"Gold: {gold}, turned into the letter under which the option is shown (the first is A). The reply "
            f"gives one "
            "letter in the answer tags."
        )
    if format == "class_id":
        names = f"one of {labels} names" if labels else "names you must give (labels)"
        return (
            f"Gold: an id, turned into {names}; -1 is no class and its row is left out. The reply gives the "
            f"class's name "
            "in the answer tags, case aside."
        )
    if format == "label":
        return f"Gold: one of {labels} labels. The reply gives one of them in the answer tags, case and space aside."
    how = {
        True: "any one of the golds is right",
        False: "all of the golds must be given and nothing else",
        None: "it is not clear whether any one of the golds is right or all are wanted; any is assumed",
    }[any_of]
    return f"Gold: a list of texts; {how}. Compare texts in the answer tags, case, articles and punctuation aside."
