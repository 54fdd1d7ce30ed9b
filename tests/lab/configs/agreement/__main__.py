"""Writes verdicts.json: what prime-rl's own classes say about every mutated config, and the score of our check.

    PRIME_RL_CONFIGS_PYTHON=/path/to/python .venv/bin/python -m tests.lab.configs.agreement

The Python is a 3.12 that can import `prime_rl.configs` of the commit in PRIME_RL_COMMIT, with the pinned verifiers.
"""

from __future__ import annotations

import json
import sys
from collections import Counter

from prime_lab_mcp.lab.base.versions import PRIME_RL_COMMIT
from tests.lab.configs.agreement.cases import mutated
from tests.lab.configs.agreement.table import JUDGE_VARIABLE, VERDICTS, compared, judge_python, refusals


def main() -> None:
    python = judge_python()
    if python is None:
        sys.exit(f"{JUDGE_VARIABLE} must name a Python that can import prime_rl.configs")
    cases = list(mutated())
    verdicts = refusals(python, cases)
    record = {
        "prime_rl": PRIME_RL_COMMIT,
        "refused": sorted(name for name, refusal in verdicts.items() if refusal is not None),
        "accepted": sorted(name for name, refusal in verdicts.items() if refusal is None),
    }
    VERDICTS.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    rows = compared(cases, verdicts)
    for row in rows:
        if row.false_pass or row.stricter:
            print(row.case.name, row.refusal or "", *row.blockers)
    print(Counter("false pass" if r.false_pass else "stricter" if r.stricter else "agree" for r in rows))


if __name__ == "__main__":
    main()
