"""How a right answer is written, as the caller states it: a text with GOLD where the answer stands."""

from __future__ import annotations

import re

from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.rewards.carriers import Carrier, Kind

MARK = "GOLD"
_TAG = re.compile(r"<([A-Za-z_][\w-]{0,30})>\s*$")


def carrier(template: str) -> Carrier:
    """The carrier that writes an answer in place of GOLD. Raises BadInput unless GOLD stands in it exactly once."""
    number = template.count(MARK)
    if number != 1:
        raise BadInput(
            f"the rendering holds {MARK} {number} times, not once",
            fix=f'Write one {MARK} where the answer stands, such as "<final>{MARK}</final>".',
            code="bad-argument",
        )
    before, _, after = template.partition(MARK)
    found = _TAG.search(before)
    if found and after.lstrip().startswith(f"</{found[1]}>"):
        return _led(before, found.start(), "tag", after)
    for kind, opening in (("boxed", "\\boxed{"), ("hash", "####"), ("code", "```"), ("json", '{"')):
        at = before.rfind(opening)
        if at >= 0:
            return _led(before, at, kind, after)
    return Carrier("phrase" if before.strip() or after.strip() else "plain", before, after)


def _led(before: str, at: int, kind: str, after: str) -> Carrier:
    kinds: dict[str, Kind] = {"tag": "tag", "boxed": "boxed", "hash": "hash", "code": "code", "json": "json"}
    return Carrier(kinds[kind], before[at:], after, before[:at])
