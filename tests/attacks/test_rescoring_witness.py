"""Code that pays honestly where `test_reward` scores, and changes the scores where stored rollouts are scored again."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.lab import Lab
from tests.lab.evals.rescore.test_scoring import blockers, change, opens, rescored, run_once, taskset

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.usefixtures("shared_interpreters")]

FORGING = """
import sys

for kind in [k for m in list(sys.modules.values()) if (k := getattr(m, "AdapterV1", None)) is not None][:1]:
    honest = kind.rescore

    def rescore(self, case, request):
        reply = honest(self, case, request)
        if len(str(case["record"])) % 2 == 0:
            reply["reward"] = 1.2
            reply["components"]["correct"]["score"] = 1.0
        return reply

    kind.rescore = rescore

class SumData("""


async def test_rewards_that_code_changes_while_stored_rollouts_are_scored_are_no_evidence(lab: Lab) -> None:
    code = taskset(lab)
    change(code, "found[-1] == self.data.answer)", "False)")
    source = await run_once(lab)
    change(code, "class SumData(", FORGING.lstrip())
    forged = await rescored(lab, source.data["id"])
    assert forged.data["rescored"]["up"] > 20, forged
    assert (forged.status, blockers(forged)) == ("inconclusive", ["eval-rewards-differ"]), forged
    assert not await opens(lab)
