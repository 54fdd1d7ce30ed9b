"""Names the warnings that the evidence about an environment holds, for the questions before something is sent.

A warning opens no gate and closes none, and a report of an earlier call is not read again by whoever answers the
question, so that it says once more what is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.snapshot import Snapshot

PORT = "port_environment"
"""The tool of the ledger rows that record what a port left behind. No gate reads them."""
_PHRASES: Mapping[Code, str] = {
    "reward-hackable": "a completion without a right answer can earn as much as one",
    "reward-wrong-passes": "wrong answers can earn as much as right ones",
    "port-left": "a part of the older environment was not ported",
    "small-set": "so few prompts that training would memorise them",
    "leak-near": "held-out tasks are training tasks in other words",
    "reward-too-strict": "right answers in another spelling earn less",
    "conflicting-gold": "equal prompts have different golds",
}
"""What a warning means for training, in the order of their weight."""
_MOST = 5
_JUDGES = (PORT, "check_environment", "test_reward")


def open_warnings(rows: Iterable[Evidence]) -> dict[Code, str]:
    """Return the warnings of the newest verdict of each tool, with a short phrase each. `rows` are newest first."""
    newest: dict[str, Evidence] = {}
    for row in rows:
        if row.tool in _JUDGES and not row.env_args:
            newest.setdefault(row.tool, row)
    codes = {str(f.get("code")) for row in newest.values() for f in row.findings if f.get("severity") == "warning"}
    return {code: phrase for code, phrase in _PHRASES.items() if code in codes}


def warnings_sentence(of: str, rows: Iterable[Evidence]) -> str:
    """Return a sentence that names the warnings about `of`; empty without warnings."""
    known = [f"{code} ({phrase})" for code, phrase in open_warnings(rows).items()]
    more = f"; and {len(known) - _MOST} more" if len(known) > _MOST else ""
    return f"Known of {of} and not mended: {'; '.join(known[:_MOST])}{more}." if known else ""


def record_port(ledger: Ledger, workspace: str, port: Snapshot, findings: Iterable[Finding]) -> None:
    """Record what a port left behind, about exactly the files that it wrote."""
    left = [finding.as_json() for finding in findings]
    ledger.record(Evidence(PORT, "passed", workspace, port.name, port.source, port.content, findings=left))
