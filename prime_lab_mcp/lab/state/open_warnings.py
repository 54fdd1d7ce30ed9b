"""Names the warnings that the evidence about an environment holds, for the questions before something is sent.

A warning opens no gate and closes none, and a report of an earlier call is not read again by whoever answers the
question, so that it says once more what is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.state.arguments import same_arguments
from prime_lab_mcp.lab.state.compared_rewards import COMPARED, EQUAL_VERDICTS
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.snapshot import Snapshot

PORT = "port_environment"
"""The tool of the ledger rows that record what a port left behind. No gate reads them."""
_PHRASES: Mapping[Code, str] = {
    "reward-hackable": "a completion that is no plain right answer was paid",
    "reward-wrong-passes": "wrong answers earned part of the reward",
    "reward-truncated-passes": "replies that were cut off earn part of the reward",
    "wheel-top-level": "modules or programs beside the environment's own, which others can load in place of theirs",
    "port-left": "a part of the older environment was not ported",
    "infinite-taskset": "tasks without an end or a number, of which only the first were tried",
    "prompt-cut": "prompts that are cut off, so that their answers may stand in the rest",
    "unpinned-dataset": "rows from a place where they can change after the proof",
    "small-set": "so few prompts that training would memorise them",
    "leak-near": "held-out tasks are training tasks in other words",
    "reward-too-strict": "right answers in another spelling earn less",
    "conflicting-gold": "equal prompts have different golds",
}
"""What a warning means for training, in the order of their weight."""
_CHANGED = (
    "a part of the older environment was not ported; the files were changed since, and no comparison shows that the "
    "part was written"
)
"""What `port-left` means of files that were edited after the port."""
_MOST = 5
_JUDGES = (PORT, "check_environment", "test_reward")


def open_warnings(rows: Iterable[Evidence], arguments: Iterable[Mapping[str, Any]] = ()) -> dict[Code, str]:
    """Return the warnings of the newest verdict of each tool, with a short phrase each. `rows` are newest first.

    Verdicts with the default arguments count, and those with each of `arguments`.
    """
    sets = [one for one in arguments if one]
    newest: dict[tuple[str, int | None], Evidence] = {}
    for row in rows:
        at = next((n for n, one in enumerate(sets) if same_arguments(row.env_args, one)), None)
        if row.tool in _JUDGES and (at is not None or not row.env_args):
            newest.setdefault((row.tool, at), row)
    codes = {str(f.get("code")) for row in newest.values() for f in row.findings if f.get("severity") == "warning"}
    shown = {code: text for row in newest.values() for code, text in _shown(row).items()}
    return {code: shown.get(code, phrase) for code, phrase in _PHRASES.items() if code in codes}


_MOST_SHOWN = 2
"""Number of findings of one code whose words a phrase has."""


def _shown(row: Evidence) -> dict[str, str]:
    """Return what a reward test showed by the code of the warning: what was paid, and which share it earned."""
    shown: dict[str, list[str]] = {}
    for one in row.data.get("warned") or ():
        how, share = str(one.get("how")), one.get("share")
        share_text = f", up to {share:.0%} of the maximum" if isinstance(share, int | float) else ""
        shown.setdefault(str(one.get("code")), []).append(f"{how}{share_text}")
    return {code: "; ".join(texts[:_MOST_SHOWN]) for code, texts in shown.items()}


def port_since_edited(ledger: Ledger, workspace: str, environment: str, source: str) -> Evidence | None:
    """Return what the port of an environment left behind, if its files were changed since; `source` are its files now.

    None if the newest comparison of these files found every component equal: then nothing that pays is missing.
    """
    row = next(iter(ledger.evidence(workspace, tool=PORT, environment=environment)), None)
    if row is None or row.source == source:
        return None
    compared = next(iter(ledger.evidence(workspace, tool=COMPARED, environment=environment, source=source)), None)
    return None if compared is not None and compared.status == "passed" else row


def port_unedited(ledger: Ledger, workspace: str, environment: str, source: str) -> int:
    """Return the number of findings about parts that a port left, if its files are still as the port wrote them."""
    row = next(iter(ledger.evidence(workspace, tool=PORT, environment=environment)), None)
    if row is None or row.source != source:
        return 0
    return sum(finding.get("code") == "port-left" for finding in row.findings)


def due_comparison(ledger: Ledger, workspace: str, environment: str, source: str, root: Path) -> Next | None:
    """Return the call that compares a port with its older environment, where no comparison of the files with this
    source was made; None for other environments, after the comparison, where the older one is gone from the workspace
    at `root`, and where the files were changed because of a flaw that both have."""
    row = next(iter(ledger.evidence(workspace, tool=PORT, environment=environment)), None)
    older = str(row.data.get("same_as") or "") if row is not None else ""
    if row is None or not older or not (root / older).is_dir():
        return None
    if ledger.evidence(workspace, tool=COMPARED, environment=environment, source=source, limit=1):
        return None
    if _changed_on_purpose(ledger, workspace, environment):
        return None
    why = "free: whether the port pays the same as the older environment, which is not known of these files"
    return Next("test_reward", why, {"environment": environment, **row.data, **_last_rendering(ledger, workspace, row)})


def _last_rendering(ledger: Ledger, workspace: str, port: Evidence) -> dict[str, Any]:
    """The form of right replies that a comparison or a test of a port named last; empty if none was named since."""
    tests = ledger.evidence(workspace, tool="test_reward", environment=port.environment, limit=1)
    compared = ledger.evidence(workspace, tool=COMPARED, environment=port.environment, limit=1)
    newest = max((*tests, *compared), key=lambda row: row.id, default=None)
    named = None if newest is None else newest.arguments.get("rendering") or newest.data.get("named_rendering")
    return {"rendering": named} if isinstance(named, str) and newest is not None and newest.id > port.id else {}


def ported_from(ledger: Ledger, workspace: str, port: str) -> str | None:
    """Return the path of the older environment from which an environment was ported; None for others."""
    row = next(iter(ledger.evidence(workspace, tool=PORT, environment=port, limit=1)), None)
    return None if row is None else str(row.data.get("same_as") or "") or None


def replaced_by(ledger: Ledger, workspace: str, port: str) -> str | None:
    """Return the path of the older environment that a port replaces: the newest comparison found both rewards equal.

    None for an environment that is no port, and before such a comparison.
    """
    compared = next(iter(ledger.evidence(workspace, tool=COMPARED, environment=port, limit=1)), None)
    if compared is None or compared.data.get("verdict") not in EQUAL_VERDICTS:
        return None
    return ported_from(ledger, workspace, port)


def _changed_on_purpose(ledger: Ledger, workspace: str, environment: str) -> bool:
    """Whether the newest comparison found both rewards equal and the test of the same files failed.

    The flaw is then one of the older environment too, and files that were changed since pay otherwise on purpose.
    """
    newest = next(iter(ledger.evidence(workspace, tool=COMPARED, environment=environment, limit=1)), None)
    if newest is None or newest.data.get("verdict") not in EQUAL_VERDICTS:
        return False
    tests = ledger.evidence(workspace, tool="test_reward", source=newest.source, limit=1)
    return bool(tests) and tests[0].status == "failed"


def warnings_sentence(
    of: str, rows: Iterable[Evidence], port: Evidence | None = None, arguments: Iterable[Mapping[str, Any]] = ()
) -> str:
    """Return a sentence that names the warnings about `of`; empty without warnings.

    `port` is the record of a port whose files were changed since, `arguments` are those that will be used.
    """
    warnings: dict[Code, str] = open_warnings(rows, arguments)
    if port is not None and any(f.get("code") == "port-left" for f in port.findings):
        warnings.setdefault("port-left", _CHANGED)
    known = [f"{code} ({phrase})" for code, phrase in warnings.items()]
    more = f"; and {len(known) - _MOST} more" if len(known) > _MOST else ""
    return f"Known of {of} and not mended: {'; '.join(known[:_MOST])}{more}." if known else ""


def record_port(
    ledger: Ledger,
    workspace: str,
    port: Snapshot,
    findings: Iterable[Finding],
    comparison: Mapping[str, Any] | None = None,
) -> None:
    """Record what a port left behind, about exactly the files that it wrote. `comparison` are the arguments of
    `test_reward` (`same_as`, `rendering`) that compare it with the older environment."""
    left = [finding.as_json() for finding in findings]
    ledger.record(
        Evidence(
            PORT, "passed", workspace, port.name, port.source, port.content, findings=left, data=dict(comparison or {})
        )
    )
