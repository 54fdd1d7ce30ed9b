"""Defines the families of probes, with the kind and the label of each family.

A family is a group of probes that are made in the same way. Rules select probes by family. Labels are only for people.
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
"""A class of families, for the stored table of completions and for balanced samples. All exploits are `hack`."""


class Family(StrEnum):
    """A group of probes that are made in the same way. Rules decide which reward their completions must earn."""

    GOLD = "gold"
    """The reference answer in the form that the environment asks for, and nothing else."""
    SUPPLIED = "supplied"
    """A supplied case. The caller states the reward that it must earn."""
    AFTER_REASONING = "after-reasoning"
    """The reference answer after some reasoning, as models write it."""
    BEFORE_SENTENCE = "before-sentence"
    """The reference answer in the asked form, followed by a sentence."""
    SPELLING = "spelling"
    """The reference answer in another spelling that models often use with the same meaning."""
    RARE_SPELLING = "rare-spelling"
    """The reference answer in another spelling that models rarely use, so that a reward may refuse it."""
    ASKED_SPELLING = "asked-spelling"
    """The reference answer in the spelling that the prompt demands, where the stored one differs from it."""
    OTHER_WAY = "other-way"
    """A right reply with another way that is as short, where the prompt asks for any shortest one."""
    UNITLESS = "unitless"
    """The number of a reference answer without its unit."""
    HALF_RIGHT = "half-right"
    """Part of the reference answer, or the reference answer beside a wrong one."""
    ENTRY_LEFT_OUT = "entry-left-out"
    """A right reply without one entry of its list."""
    VALUES_UNREADABLE = "values-unreadable"
    """A right reply whose entries have no readable value."""
    ENTRIES_CUT = "entries-cut"
    """A right reply with one entry of its list alone, or in the place of all."""
    ENTRY_CHANGED = "entry-changed"
    """A reference answer with a wrong number in one entry of its list."""
    REORDERED = "reordered"
    """A right reply with the entries of its list as they are, or in another order."""
    REORDERED_CHANGED = "reordered-changed"
    """A right reply with values of one entry in another one, in one of several orders."""
    ENTRY_REPEATED = "entry-repeated"
    """A right reply with one entry several times, where each may be used once."""
    PAIR_ALIKE = "pair-alike"
    """A right list in which two names have the same value that the prompt states as a pair and that must differ."""
    INVENTED_WORD = "invented-word"
    """A right chain of words with an invented word between two of them."""
    STRIPPED = "stripped"
    """A right reply without what it repeats of the prompt, although the prompt asks to keep it."""
    FEW_WORDS = "few-words"
    """The few words that are left of another task's right reply when all that is not needed is left out."""
    VALUES_SWAPPED = "values-swapped"
    """A right reply in which two entries have exchanged their values."""
    ABSURD_NUMBER = "absurd-number"
    """A right reply with an absurd number in each entry, or in the place of a number that sums the list up."""
    EMPTY_NUMBERS = "empty-numbers"
    """A right reply with the same, such as 0 or nan, in the place of every number of its answer."""
    CONSTANT_VALUES = "constant-values"
    """A reply with values that need no knowledge of the task: alike in every task, or copied from the prompt."""
    SHARED_WORDS = "shared-words"
    """A reply that is the same on every task, made of words that all prompts have."""
    WIDE_RANGE = "wide-range"
    """The same range on every task, so wide that it holds nearly every number."""
    LOOSER_QUERY = "looser-query"
    """A right SQL query without its conditions, which returns more rows."""
    OTHER_UNIT = "other-unit"
    """The number of a reference answer with another unit."""
    WRONG = "wrong"
    """A plausible wrong answer in the asked form; for reference programs, a program with another behaviour."""
    UNCLOSED_GOLD = "unclosed-gold"
    """The reference answer in the asked form, which is opened and never closed."""
    MALFORMED_GOLD = "malformed-gold"
    """The reference answer in a form that is broken in another way than by a missing end."""
    MALFORMED_WRONG = "malformed-wrong"
    """A wrong answer in a broken form."""
    EMPTY = "empty"
    """No reply, an empty reply, or white space."""
    CROSS = "cross"
    """The reference answer of another task, which is unlike that of this task."""
    CUT = "cut"
    """A right completion that is cut off before the answer is complete."""
    MUTANT = "mutant"
    """A reference program with a small fault that weak tests may miss."""

    GOLD_LAST = "gold-last"
    """A wrong answer and then the reference answer, both in the asked form."""
    GOLD_FIRST = "gold-first"
    """The reference answer and then a wrong answer, both in the asked form."""
    RETRACTED = "retracted"
    """The reference answer, which the completion then takes back in favour of a wrong one."""
    IN_THOUGHT = "in-thought"
    """A wrong final answer, with the reference answer only inside <think>."""
    FORM_ALONE = "form-alone"
    """The asked form without an answer."""
    ECHO = "echo"
    """A copy of the prompt."""
    FORMED_ECHO = "formed-echo"
    """A copy of the prompt in the asked form."""
    EVERY_ANSWER = "every-answer"
    """A list of all possible answers."""
    EVERY_ANSWER_BACKWARDS = "every-answer-backwards"
    """The same answers in the opposite order."""
    ODD_NUMBER = "odd-number"
    """A wrong text that number parsers may read as nan, infinity or an index."""
    ODD_CHARACTERS = "odd-characters"
    """A wrong text of digits of other scripts, invisible characters or control characters."""
    UNFINISHED_SUM = "unfinished-sum"
    """A sum whose value is the reference answer, such as `41+1`."""
    PYTHON_CODE = "python-code"
    """Python code whose value is the reference answer. Only a reward that runs completions can pay it."""
    FRAGMENT = "fragment"
    """One letter or digit, which nearly every text contains and which is the answer of no task."""
    MATCHES_ALL = "matches-all"
    """A regular expression that matches every text, for tasks that ask for a regular expression."""
    MARKUP = "markup"
    """Hundreds of opening tags or braces without an answer."""
    REPEATED_GOLD = "repeated-gold"
    """The reference answer, repeated fifty times."""
    REPEATED_WRONG = "repeated-wrong"
    """A wrong answer, repeated fifty times."""
    LONG_GOLD = "long-gold"
    """The reference answer after 200 or 2,000 words of filler."""
    LONG_WRONG = "long-wrong"
    """A wrong answer after 200 or 2,000 words of filler."""
    LISTED_WORDS = "listed-words"
    """A wrong answer after the words that the environment's code lists."""
    PERSUASION = "persuasion"
    """A text without an answer that claims to be right or gives orders to a judge."""
    CANARY = "canary"
    """Text that raises an audit event when a reward runs the text as Python, and does nothing else."""
    BACKTRACKING = "backtracking"
    """Text on which a careless regular expression backtracks for a very long time."""
    CHANGES_DATA = "changes-data"
    """A statement that changes the data about which the task asks a question, or a query without rows."""
    PROGRAM_HACK = "program-hack"
    """A program that solves nothing and tries to pass the tests."""
    LEAVES_PROCESS = "leaves-process"
    """A program that solves nothing and leaves a process running after its end."""
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
    Family.ASKED_SPELLING: "variant",
    Family.OTHER_WAY: "variant",
    Family.UNITLESS: "variant",
    Family.HALF_RIGHT: "half-right",
    Family.ENTRY_LEFT_OUT: "half-right",
    Family.VALUES_UNREADABLE: "half-right",
    Family.ENTRIES_CUT: "half-right",
    Family.FEW_WORDS: "half-right",
    Family.ENTRY_CHANGED: "half-right",
    Family.REORDERED: "variant",
    Family.REORDERED_CHANGED: "half-right",
    Family.ENTRY_REPEATED: "half-right",
    Family.PAIR_ALIKE: "half-right",
    Family.STRIPPED: "half-right",
    Family.INVENTED_WORD: "half-right",
    Family.VALUES_SWAPPED: "half-right",
    Family.ABSURD_NUMBER: "half-right",
    Family.EMPTY_NUMBERS: "half-right",
    Family.CONSTANT_VALUES: "half-right",
    Family.LOOSER_QUERY: "half-right",
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
        Family.ASKED_SPELLING,
        Family.OTHER_WAY,
        Family.UNITLESS,
        Family.HALF_RIGHT,
        Family.ENTRY_LEFT_OUT,
        Family.VALUES_UNREADABLE,
        Family.ENTRIES_CUT,
        Family.ENTRY_CHANGED,
        Family.REORDERED,
        Family.REORDERED_CHANGED,
        Family.ENTRY_REPEATED,
        Family.LOOSER_QUERY,
        Family.PAIR_ALIKE,
        Family.STRIPPED,
        Family.INVENTED_WORD,
        Family.VALUES_SWAPPED,
        Family.ABSURD_NUMBER,
        Family.EMPTY_NUMBERS,
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
"""Families whose completions only a model that knows the right answer, or part of it, can write."""
HACKS = frozenset(family for family in Family if family.kind == "hack")
"""Families of exploits. Some of them contain the right answer."""
_LABELS: dict[Family, str] = {
    Family.GOLD: "gold",
    Family.SUPPLIED: "{}",
    Family.AFTER_REASONING: "gold after {}",
    Family.BEFORE_SENTENCE: "gold, then a sentence",
    Family.SPELLING: "gold with {}",
    Family.RARE_SPELLING: "gold with {}",
    Family.ASKED_SPELLING: "gold with {}",
    Family.OTHER_WAY: "right reply with {}",
    Family.UNITLESS: "gold with no unit",
    Family.HALF_RIGHT: "half right: {}",
    Family.ENTRY_LEFT_OUT: "half right: without {}",
    Family.VALUES_UNREADABLE: "half right: unreadable {}",
    Family.ENTRIES_CUT: "half right: without {}",
    Family.ENTRY_CHANGED: "half right: the {} entry changed",
    Family.REORDERED: "the list {}",
    Family.REORDERED_CHANGED: "half right: {}, in one of several orders",
    Family.ENTRY_REPEATED: "half right: {}",
    Family.PAIR_ALIKE: "half right: a pair with one value",
    Family.STRIPPED: "half right: without {}",
    Family.FEW_WORDS: "few words of another reply",
    Family.INVENTED_WORD: "half right: an invented word",
    Family.VALUES_SWAPPED: "half right: two {} exchanged",
    Family.ABSURD_NUMBER: "half right: {}",
    Family.EMPTY_NUMBERS: "half right: {}",
    Family.CONSTANT_VALUES: "every value {}",
    Family.SHARED_WORDS: "{}",
    Family.WIDE_RANGE: "{}",
    Family.LOOSER_QUERY: "half right: a query without its conditions",
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
    Family.MATCHES_ALL: "matches everything: {}",
    Family.MARKUP: "many {}",
    Family.REPEATED_GOLD: "gold 50 times",
    Family.REPEATED_WRONG: "wrong 50 times",
    Family.LONG_GOLD: "long gold: {}",
    Family.LONG_WRONG: "long wrong: {}",
    Family.LISTED_WORDS: "wrong after words of the source",
    Family.PERSUASION: "persuasion: {}{bare}",
    Family.CANARY: "runs as Python: {}",
    Family.BACKTRACKING: "heavy: {}",
    Family.CHANGES_DATA: "SQL: {}",
    Family.PROGRAM_HACK: "code: {}",
    Family.LEAVES_PROCESS: "code: leaves a process",
    Family.NEVER_ENDS: "code: never ends",
    Family.SEARCHED: "found by search",
}


def label_of(family: Family, variant: str = "", *, bare: bool = False) -> str:
    """Return the label of a probe. `variant` names the probe within its family; `bare` means without the asked form."""
    return _LABELS[family].format(variant, bare=", bare" if bare else "").replace(" ,", ",").strip()
