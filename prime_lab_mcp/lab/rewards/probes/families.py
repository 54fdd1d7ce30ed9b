"""Families of probes, with the kind and the label of each family.

Rules select probes by family. A label is for people, and no rule reads a label.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

Kind = Literal[
    "gold",
    "verbose",
    "equivalent",
    "trailing",
    "wrong",
    "malformed",
    "malformed-gold",
    "empty",
    "hack",
    "mutant",
    "variant",
    "half-right",
    "cross",
    "cut",
]
"""A coarser class than a family, for the table of completions and for balanced samples. Every exploit is a `hack`."""


class Family(StrEnum):
    """What the completions of a family have in common. Rules decide what a completion must earn."""

    GOLD = "gold"
    """The reference answer in the form that the environment asks for, and nothing else."""
    SUPPLIED = "supplied"
    """A case of the caller, who says what the case must earn."""
    AFTER_REASONING = "after-reasoning"
    """The reference answer after some reasoning, as models write."""
    BEFORE_SENTENCE = "before-sentence"
    """The reference answer in the asked form, with a sentence after the form is closed."""
    SPELLING = "spelling"
    """The reference answer in another spelling that models often use with the same meaning."""
    RARE_SPELLING = "rare-spelling"
    """The reference answer in another spelling that models seldom use: a reward may refuse this."""
    UNITLESS = "unitless"
    """The number of a reference answer without the unit."""
    HALF_RIGHT = "half-right"
    """Part of the reference answer, or the reference answer beside a wrong one."""
    OTHER_UNIT = "other-unit"
    """The number of a reference answer with another unit."""
    WRONG = "wrong"
    """A plausible wrong answer in the asked form; for reference programs, a program with another behaviour."""
    UNCLOSED_GOLD = "unclosed-gold"
    """The reference answer in the asked form, which is opened and never closed."""
    MALFORMED_GOLD = "malformed-gold"
    """The reference answer in a form that is broken in another way."""
    MALFORMED_WRONG = "malformed-wrong"
    """A wrong answer in a broken form."""
    EMPTY = "empty"
    """Nothing: no reply, an empty one, or white space."""
    CROSS = "cross"
    """The reference answer of another task, unlike the reference answer of this task."""
    CUT = "cut"
    """A right completion that ends before the answer is complete."""
    MUTANT = "mutant"
    """A reference program with a small change that a test may miss."""

    GOLD_LAST = "gold-last"
    """A wrong answer and then the reference answer, each in the asked form."""
    GOLD_FIRST = "gold-first"
    """The reference answer and then a wrong answer, each in the asked form."""
    RETRACTED = "retracted"
    """The reference answer, taken back in words for a wrong one."""
    IN_THOUGHT = "in-thought"
    """The reference answer inside of <think> only, and a wrong final answer."""
    FORM_ALONE = "form-alone"
    """The asked form with no answer inside."""
    ECHO = "echo"
    """The prompt, repeated."""
    FORMED_ECHO = "formed-echo"
    """The prompt, repeated inside of the asked form."""
    EVERY_ANSWER = "every-answer"
    """Every answer that a task may have, one after the other."""
    EVERY_ANSWER_BACKWARDS = "every-answer-backwards"
    """The same answers in the opposite order."""
    ODD_NUMBER = "odd-number"
    """Texts that number parsers read as nan, infinity or an index; none is the answer."""
    ODD_CHARACTERS = "odd-characters"
    """Digits of other scripts, invisible and control characters; none is the answer."""
    UNFINISHED_SUM = "unfinished-sum"
    """An expression whose value is the reference answer, left for the reward to work out."""
    PYTHON_CODE = "python-code"
    """Python code whose value is the reference answer: only a reward that runs completions can pay this."""
    FRAGMENT = "fragment"
    """One letter or digit, which nearly every text contains; no task has it as its answer."""
    MARKUP = "markup"
    """Opening tags or braces by the hundred and no answer."""
    REPEATED_GOLD = "repeated-gold"
    """The reference answer fifty times."""
    REPEATED_WRONG = "repeated-wrong"
    """A wrong answer fifty times."""
    LONG_GOLD = "long-gold"
    """The reference answer after much filler."""
    LONG_WRONG = "long-wrong"
    """A wrong answer after much filler."""
    LISTED_WORDS = "listed-words"
    """A wrong answer after the words that the environment's code lists."""
    PERSUASION = "persuasion"
    """Claims to be right and orders to a judge, with no answer."""
    CANARY = "canary"
    """Text that raises an audit event when a reward runs the text as Python, and does nothing else."""
    BACKTRACKING = "backtracking"
    """Text that makes a careless regular expression try every way to split the text."""
    PROGRAM_HACK = "program-hack"
    """A program that solves nothing and tries to pass the tests."""
    LEAVES_PROCESS = "leaves-process"
    """A program that solves nothing, ends, and leaves a process of its own running."""
    NEVER_ENDS = "never-ends"
    """A program that never ends."""
    SEARCHED = "searched"
    """A completion that a search made without knowing the answer (rewards/search/)."""

    @property
    def kind(self) -> Kind:
        return _KINDS.get(self, "hack")


_KINDS: dict[Family, Kind] = {
    Family.GOLD: "gold",
    Family.SUPPLIED: "gold",
    Family.AFTER_REASONING: "verbose",
    Family.BEFORE_SENTENCE: "trailing",
    Family.SPELLING: "equivalent",
    Family.RARE_SPELLING: "variant",
    Family.UNITLESS: "variant",
    Family.HALF_RIGHT: "half-right",
    Family.OTHER_UNIT: "half-right",
    Family.WRONG: "wrong",
    Family.UNCLOSED_GOLD: "malformed-gold",
    Family.MALFORMED_GOLD: "malformed-gold",
    Family.MALFORMED_WRONG: "malformed",
    Family.EMPTY: "empty",
    Family.CROSS: "cross",
    Family.CUT: "cut",
    Family.MUTANT: "mutant",
}
NEEDS_ANSWER = frozenset(
    {
        Family.GOLD,
        Family.AFTER_REASONING,
        Family.BEFORE_SENTENCE,
        Family.SPELLING,
        Family.RARE_SPELLING,
        Family.UNITLESS,
        Family.HALF_RIGHT,
        Family.OTHER_UNIT,
        Family.UNCLOSED_GOLD,
        Family.MALFORMED_GOLD,
        Family.MUTANT,
        Family.GOLD_LAST,
        Family.GOLD_FIRST,
        Family.RETRACTED,
        Family.IN_THOUGHT,
        Family.UNFINISHED_SUM,
        Family.PYTHON_CODE,
        Family.REPEATED_GOLD,
        Family.LONG_GOLD,
    }
)
"""Families whose completions only somebody can write who knows the right answer or part of it."""
HACKS = frozenset(family for family in Family if family.kind == "hack")
"""Families of exploits. A few hold the right answer, to show what a reward pays for."""
_LABELS: dict[Family, str] = {
    Family.GOLD: "gold",
    Family.SUPPLIED: "{}",
    Family.AFTER_REASONING: "gold after {}",
    Family.BEFORE_SENTENCE: "gold, then a sentence",
    Family.SPELLING: "gold with {}",
    Family.RARE_SPELLING: "gold with {}",
    Family.UNITLESS: "gold with no unit",
    Family.HALF_RIGHT: "half right: {}",
    Family.OTHER_UNIT: "half right: other unit",
    Family.WRONG: "wrong: {}",
    Family.UNCLOSED_GOLD: "malformed gold: {}",
    Family.MALFORMED_GOLD: "malformed gold: {}",
    Family.MALFORMED_WRONG: "malformed wrong: {}",
    Family.EMPTY: "{}",
    Family.CROSS: "gold of another task",
    Family.CUT: "cut off {}",
    Family.MUTANT: "mutant: {}",
    Family.GOLD_LAST: "both: wrong, then gold",
    Family.GOLD_FIRST: "both: gold, then wrong",
    Family.RETRACTED: "contradict",
    Family.IN_THOUGHT: "stuffed in think",
    Family.FORM_ALONE: "format only: {} inside",
    Family.ECHO: "echo of the prompt",
    Family.FORMED_ECHO: "echo of the prompt, in form",
    Family.EVERY_ANSWER: "every answer{bare} {}",
    Family.EVERY_ANSWER_BACKWARDS: "every answer{bare} {}, backwards",
    Family.ODD_NUMBER: "odd number: {}",
    Family.ODD_CHARACTERS: "odd characters {}",
    Family.UNFINISHED_SUM: "sum left to the reader",
    Family.PYTHON_CODE: "Python code",
    Family.FRAGMENT: "one character: {}",
    Family.MARKUP: "many {}",
    Family.REPEATED_GOLD: "gold 50 times",
    Family.REPEATED_WRONG: "wrong 50 times",
    Family.LONG_GOLD: "long gold: {}",
    Family.LONG_WRONG: "long wrong: {}",
    Family.LISTED_WORDS: "wrong after words of the source",
    Family.PERSUASION: "persuasion: {}{bare}",
    Family.CANARY: "runs as Python: {}",
    Family.BACKTRACKING: "heavy: {}",
    Family.PROGRAM_HACK: "code: {}",
    Family.LEAVES_PROCESS: "code: leaves a process",
    Family.NEVER_ENDS: "code: never ends",
    Family.SEARCHED: "found by search",
}


def label_of(family: Family, variant: str = "", *, bare: bool = False) -> str:
    """The label of a probe. `variant` names the probe within its family; `bare`: without the asked form."""
    return _LABELS[family].format(variant, bare=", bare" if bare else "").replace(" ,", ",").strip()
