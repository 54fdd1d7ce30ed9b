"""Counts tasks that ask for an order of labelled items whose list or labels already have the right order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count

_LONGEST = 200
"""Most characters of an order."""
_FEWEST_ROWS = 20
"""Rows with an order from which on the share of right lists says something (our choice)."""
_ORDER = re.compile(r"\W*(?:[A-Z]|\d{1,2})(?:\W+(?:[A-Z]|\d{1,2})){2,}\W*")
"""An order of at least three labels."""
_LABEL = re.compile(r"[A-Z]|\d{1,2}")
_LISTED = re.compile(r"^[ \t]*[\[(*-]?[ \t]?([A-Z]|\d{1,2})[\]).:][ \t]", re.M)
"""The label in front of an item of a prompt."""


@dataclass(slots=True)
class ListedOrders:
    """`rows` counts the golds that put all labelled items of their prompt (`A.`, `B.`, ...) into an order, `as_listed`
    those in the order in which the prompt lists the items, and `as_labelled` those in the order of the labels."""

    rows: int = 0
    as_listed: int = 0
    as_labelled: int = 0

    def add(self, prompt: str, gold: str) -> None:
        if len(gold) > _LONGEST or _ORDER.fullmatch(gold) is None:
            return
        given, listed = _LABEL.findall(gold), _LISTED.findall(prompt)
        labelled = sorted(listed, key=lambda label: (len(label), label))
        if sorted(given) == sorted(listed) and len(set(listed)) == len(listed):
            self.rows += 1
            self.as_listed += given == listed
            self.as_labelled += given == labelled

    def findings(self) -> Iterator[Finding]:
        """Report golds whose order is that of the list or of the labels: from half of the rows on, which is three times
        as often as by chance with three items. From 0.9 on, the finding is a blocker, as for options that were never
        shuffled."""
        order = "in which the prompt lists the items" if self.as_listed >= self.as_labelled else "of the labels"
        times = max(self.as_listed, self.as_labelled)
        if self.rows >= _FEWEST_ROWS and times >= 0.5 * self.rows:
            yield Finding(
                "position-bias",
                "blocker" if times >= 0.9 * self.rows else "warning",
                f"the right order is the order {order} in {times / self.rows:.0%} of {count(self.rows, 'row')}: a "
                "model that writes the labels in this order is paid and reads no question",
                "Shuffle the items of each row with a seed, and give them their labels after that.",
            )
