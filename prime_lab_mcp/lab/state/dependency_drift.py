"""Compares the distributions that a verdict was reached with and those that the same Python holds now.

What a reward pays depends on the code that it imports. A verdict therefore carries the fingerprint of every
distribution that the package requires, and counts for a push or a submission only while these are the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from prime_lab_mcp.lab.state.ledger.rows import Evidence

DISTRIBUTIONS = "distributions"
"""The entry of a verdict's toolchain that holds `VERSION DIGEST` by name."""
HOSTED = "hosted"
"""The entry of a verdict's toolchain that says that the platform resolved the distributions, and ran them."""
LOADED_BY = frozenset({"check_environment", "test_reward", "check_reward_distribution"})
"""Tools whose verdicts depend on the installed distributions."""
_NAMED = 4


def dependency_drift(row: Evidence, present: Mapping[str, str] | None) -> str | None:
    """What differs between the distributions of a verdict and the present ones; None if nothing does.

    `present` is None where the present ones are not known. A verdict of an older version names none, and then counts as
    reached with others.
    """
    if present is None or row.tool not in LOADED_BY or row.toolchain.get(HOSTED):
        return None
    recorded = row.toolchain.get(DISTRIBUTIONS)
    if not isinstance(recorded, Mapping):
        return "dependencies whose hashes were not recorded; run it again"
    changes = [change for name in sorted({*recorded, *present}) if (change := _change(name, recorded, present))]
    if not changes:
        return None
    more = f" and {len(changes) - _NAMED} more" if len(changes) > _NAMED else ""
    return f"other dependencies than now: {', '.join(changes[:_NAMED])}{more}"


def _change(name: str, recorded: Mapping[str, str], present: Mapping[str, str]) -> str | None:
    then, now = recorded.get(name), present.get(name)
    if then == now:
        return None
    if now is None:
        return f"{name} {_version(then)} is gone"
    if then is None:
        return f"{name} {_version(now)} is new"
    if _version(then) != _version(now):
        return f"{name} {_version(then)} is {_version(now)} now"
    return f"the files of {name} {_version(now)} differ".replace("  ", " ")


def _version(fingerprint: str | None) -> str:
    version, space, _ = str(fingerprint or "").partition(" ")
    return version if space else ""
