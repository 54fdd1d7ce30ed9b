"""What a finished hosted evaluation does not prove."""

from __future__ import annotations

from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.records import Job
from prime_lab_mcp.lab.report import Finding

FOREIGN = "hub:"
"""Begins the fingerprint of what is not proven to be files of this machine."""


def notes(spec: EvalSpec, job: Job) -> tuple[Finding, ...]:
    """A blocker first, where it is not known to have run what was proven here."""
    if spec.source.startswith(FOREIGN):
        return (
            Finding(
                "distribution-not-evidence", "info",
                f"what ran is {spec.hosted} as the Hub holds it, which is not known to be files of this workspace: it "
                "opens no gate",
                "For evidence, push an environment of this workspace, or evaluate it on this machine.",
            ),
        )  # fmt: skip
    moved = job.progress.get("moved")
    if moved is False:
        return ()
    why = (
        "the Hub's latest version changed while it started"
        if moved
        else "the Hub did not say which version is its latest"
    )
    return (
        Finding(
            "hosted-version-moved", "blocker", f"{why}, so it is not known that {spec.hosted} is what ran",
            "Run run_eval(hosted=true) again; push_environment first if the Hub's latest version is not yours.",
        ),
    )  # fmt: skip
