"""Compares the distributions that were installed when a verdict was reached with those that are installed now.

A reward depends on the code that it imports. A verdict therefore records the fingerprint of every distribution that the
package requires. The verdict counts for a push or a submission only while these fingerprints stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from prime_lab_mcp.lab.state.ledger.rows import Evidence

DISTRIBUTIONS = "distributions"
"""Key in a verdict's toolchain. Its value maps the name of each distribution to `VERSION DIGEST`."""
HOSTED = "hosted"
"""Key in a verdict's toolchain. Its value is true if the platform installed the distributions and ran the
environment."""
LOADED_BY = frozenset({"check_environment", "test_reward", "check_reward_distribution"})
"""Tools whose verdicts depend on the installed distributions."""
_NAMED = 4


def dependency_drift(row: Evidence, present: Mapping[str, str] | None) -> str | None:
    """Describe how the installed distributions differ from those of a verdict; None if they are the same.

    `present` is None if the installed distributions are not known, and then nothing is compared. A verdict of an older
    version of this server recorded no distributions and counts as different.
    """
    if present is None or row.tool not in LOADED_BY or row.toolchain.get(HOSTED):
        return None
    recorded = row.toolchain.get(DISTRIBUTIONS)
    if not isinstance(recorded, Mapping):
        return "dependencies whose hashes were not recorded; run it again"
    names = sorted({*recorded, *present})
    changes = [change for name in names if (change := _change(name, recorded, present))]
    # Of one version, but built differently: one phrase for all of them, because a rebuilt environment changes many.
    rebuilt = [name for name in names if _rebuilt(recorded.get(name), present.get(name))]
    if rebuilt:
        more = f" and {len(rebuilt) - _NAMED} more" if len(rebuilt) > _NAMED else ""
        described = ", ".join(f"{name} {_version(present[name])}".rstrip() for name in rebuilt[:_NAMED])
        changes.append(f"the files of {described}{more} differ")
    if not changes:
        return None
    more = f" and {len(changes) - _NAMED} more" if len(changes) > _NAMED else ""
    return f"other dependencies than now: {', '.join(changes[:_NAMED])}{more}"


def _change(name: str, recorded: Mapping[str, str], present: Mapping[str, str]) -> str | None:
    then, now = recorded.get(name), present.get(name)
    if then == now or _rebuilt(then, now):
        return None
    if now is None:
        return f"{name} {_version(then)} is gone"
    if then is None:
        return f"{name} {_version(now)} is new"
    return f"{name} {_version(then)} is {_version(now)} now"


def _rebuilt(then: str | None, now: str | None) -> bool:
    return then is not None and now is not None and then != now and _version(then) == _version(now)


def _version(fingerprint: str | None) -> str:
    version, space, _ = str(fingerprint or "").partition(" ")
    return version if space else ""
