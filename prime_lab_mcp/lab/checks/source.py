"""Every check that reads a package without running it, in the order in which a reader wants to know."""

from __future__ import annotations

from prime_lab_mcp.lab.checks.data_access import DATA_CHECKS
from prime_lab_mcp.lab.checks.hazards import HAZARD_CHECKS
from prime_lab_mcp.lab.checks.migration import migration
from prime_lab_mcp.lab.checks.package import Check, Package
from prime_lab_mcp.lab.checks.requirements import REQUIREMENT_CHECKS
from prime_lab_mcp.lab.checks.secrets import SECRET_CHECKS
from prime_lab_mcp.lab.checks.static import PACKAGE_CHECKS
from prime_lab_mcp.lab.checks.v0_traps import V0_CHECKS
from prime_lab_mcp.lab.checks.v1_rules import V1_CHECKS
from prime_lab_mcp.lab.report import Finding

STATIC_CHECKS: tuple[Check, ...] = (
    *PACKAGE_CHECKS, *REQUIREMENT_CHECKS, *SECRET_CHECKS, migration, *V1_CHECKS, *V0_CHECKS, *DATA_CHECKS,
    *HAZARD_CHECKS,
)  # fmt: skip


def examine(package: Package) -> list[Finding]:
    """Every static finding."""
    return [finding for check in STATIC_CHECKS for finding in check(package)]
