"""`prime-lab-mcp spend`: prints every dollar, bound and actual, by environment, evaluation and run."""

from __future__ import annotations

import json
import time

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.base.text import escape
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.spend import SpendEntry, SpendOverview, spend_overview


def spend(settings: Settings, *, as_json: bool) -> int:
    """Print what the ledger knows about money. Nothing is fetched, so the actual cost of a run is as `watch_run` last
    read it."""
    overview = spend_overview(Lab(settings))
    print(json.dumps(overview.as_json(), indent=2) if as_json else "\n".join(escape(line) for line in _lines(overview)))
    return 0


def _lines(overview: SpendOverview) -> list[str]:
    lines = [overview.sentence()]
    if overview.entries:
        lines += ["", f"{'environment':40} {'bound':>10} {'actual':>10} {'counted':>10}"]
    for name, total in overview.environments.items():
        lines.append(f"{name[:40]:40} {_dollars(total.bound)} {_dollars(total.actual)} {_dollars(total.counted)}")
    if overview.entries:
        lines += ["", f"{'when':16}  {'evaluation or run':40} {'bound':>10} {'actual':>10}  environment"]
    lines += [_entry_line(entry, overview.workspace) for entry in overview.entries]
    return lines


def _entry_line(entry: SpendEntry, workspace: str) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.at))
    notes = [" + ".join(entry.environments) or "not known"]
    notes += [f"unpriced: {entry.unpriced}"] if entry.unpriced else []
    notes += ["in another workspace"] if entry.workspace not in (None, workspace) else []
    label = f"{entry.kind} {entry.id}"
    return f"{when:16}  {label[:40]:40} {_dollars(entry.bound)} {_dollars(entry.actual)}  {'; '.join(notes)}"


def _dollars(amount: float | None) -> str:
    """An amount in ten columns: cents from a dollar on, hundredths of a cent below."""
    if amount is None:
        return f"{'-':>10}"
    text = f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"
    return f"{text:>10}"
