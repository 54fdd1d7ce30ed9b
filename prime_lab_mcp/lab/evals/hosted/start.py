"""Starting a hosted evaluation at most once: recorded before it goes out, looked up when its answer was lost."""

from __future__ import annotations

import time
from dataclasses import dataclass

from prime_lab_mcp.lab.errors import LabError, PrimeError
from prime_lab_mcp.lab.evals.hosted import platform
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.ledger import Ledger
from prime_lab_mcp.lab.prime import Prime
from prime_lab_mcp.lab.prime.refusals import Refusal
from prime_lab_mcp.lab.settings import Platform

SETTLE_SECONDS = 330.0
"""prime may take 180 s over a start, and the platform longer to list it."""


@dataclass(frozen=True, slots=True)
class Start:
    """`key` is the intent's in the ledger, `name` what the platform calls it; `settle` in seconds."""

    _prime: Prime
    _ledger: Ledger
    _place: Platform
    _spec: EvalSpec
    _key: str
    _name: str
    _settle: float

    @property
    def _ref(self) -> str:
        return (self._spec.hosted or "").partition("@")[0]

    async def once(self) -> str:
        """The evaluation's id. What was sent is never sent again while its outcome is unknown."""
        claim = self._ledger.claim(self._key, "eval", self._place)
        if claim.state == "done":
            return str(claim.result["id"])
        if claim.state == "sent":
            found = await platform.find(self._prime, self._name, self._ref)
            if found is not None:
                return found
            if time.time() - claim.at < self._settle:
                raise self._unknown("the platform does not list it so far")
            self._ledger.release(self._key, self._place)
            self._ledger.claim(self._key, "eval", self._place)
        try:
            return await self._send()
        except Refusal as refused:
            return await self._settled(refused)

    async def _send(self) -> str:
        spec = self._spec
        return await self._prime.eval_hosted(
            self._ref, model=spec.model, num_examples=spec.num_examples, rollouts=spec.rollouts, name=self._name,
            env_args=spec.env_args, max_tokens=spec.max_tokens, temperature=spec.temperature,
            concurrency=spec.concurrency, timeout_minutes=max(1, int(spec.deadline_s // 60)),
        )  # fmt: skip

    async def _settled(self, refused: Refusal) -> str:
        """After a failure: the id when the platform took it all the same. Raises PrimeError when it did not."""
        if refused.effect == "none":
            self._nothing_sent()
            raise refused
        try:
            found = await platform.find(self._prime, self._name, self._ref)
        except LabError as error:
            raise self._unknown(refused.message) from error
        if found is not None:
            return found
        if self._settle:
            raise self._unknown(refused.message)
        self._nothing_sent()
        raise refused

    def _nothing_sent(self) -> None:
        self._ledger.release(self._key, self._place)
        self._ledger.unreserve(self._key, self._place)

    def _unknown(self, why: str) -> PrimeError:
        return PrimeError(
            f"whether hosted evaluation {self._name} was started is not known: {why}",
            fix="Make the same run_eval call again in six minutes; it looks before it sends anything.",
            code="hosted-outcome-unknown",
        )
