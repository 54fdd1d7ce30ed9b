"""What the wallet holds for a run: the balance without what other runs may still cost."""

from __future__ import annotations

from dataclasses import dataclass

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Wallet
from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.training.cost import CostForecast
from prime_lab_mcp.lab.training.next_step import unended_runs


@dataclass(frozen=True, slots=True)
class WalletForRun:
    """US dollars in the wallet (`balance`), and those that runs which nobody has seen end may take (`promised`)."""

    balance: float
    promised: float = 0.0

    @property
    def free(self) -> float:
        """US dollars for one more run."""
        return self.balance - self.promised

    @classmethod
    def of(cls, lab: Lab, wallet: Wallet) -> WalletForRun:
        """The wallet as a run of this state directory finds it."""
        return cls(wallet.balance, sum(run.max_cost or 0.0 for run in unended_runs(lab, None)))


async def wallet_and_forecast(lab: Lab, prime: PlatformReader, forecast: CostForecast | None) -> list[Finding]:
    """What the wallet means for a run with this forecast; nothing where the bound or the wallet is unknown."""
    if forecast is None or forecast.upper_bound is None:
        return []
    try:
        wallet = await prime.wallet()
    except LabError:
        return []
    return wallet_findings(WalletForRun.of(lab, wallet), forecast.upper_bound, forecast)


def wallet_findings(wallet: WalletForRun, most: float | None, forecast: CostForecast | None) -> list[Finding]:
    """What the wallet means for a run that may cost `most` US dollars.

    A wallet that holds what the run costs at the upper end of the forecast needs no funds: only the bound is higher,
    which counts every rollout at its full length.
    """
    if wallet.balance <= 0:
        return [
            Finding(
                "payment-required",
                "blocker",
                f"the wallet holds ${wallet.balance:.2f}, and a run is paid by the hour",
                "Ask the user to add funds at https://app.primeintellect.ai/dashboard/billing.",
            )
        ]
    free, promised = wallet.free, wallet.promised
    if most is None or free >= most:
        return []
    held = f"the wallet holds ${wallet.balance:.2f}"
    cost = f"the ${most:.2f} that the run may cost at most"
    message = f"{held}, less than {cost}"
    if promised:
        others = f"runs that nobody has seen end may take ${promised:.2f}"
        message = f"{held}, of which {others}, and the rest is less than {cost}"
        if free <= 0:
            message = f"{held}, and {others}, so that nothing is left for {cost}"
    dear = forecast.dollars[2] if forecast is not None and forecast.dollars is not None else None
    if dear is not None and dear <= free:
        return [
            Finding(
                "wallet-low",
                "info",
                f"{message}, and enough for the ${dear:.2f} that it costs at the upper end of what is likely",
                "No money has to be added. watch_run says what was spent; where the user names a sum, "
                "write_training_config with that sum as budget writes a run that stays below it.",
            )
        ]
    return [
        Finding(
            "wallet-low",
            "warning",
            f"{message}: it may end before its last step",
            "Ask the user to add funds, or use fewer steps; checkpoints keep what was trained.",
        )
    ]
