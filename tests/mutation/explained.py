"""The mutants that may survive, with the reason why no test can or need notice them."""

from __future__ import annotations

_VERSION = "the slower way through importlib.metadata gives the same version"
_NEWEST = "of the rows that are read besides, only the newest is looked at"

_CENTS = "the tolerance absorbs what sums of cents lose in binary; no amount of money lies exactly on it"

EXPLAINED: dict[str, dict[str, str]] = {
    "gates": {
        (
            "installed_verifiers: installed.read_text('METADATA') or '' -> installed.read_text('METADATA') and ''"
        ): _VERSION,
        "installed_verifiers: version is not None -> version is None": _VERSION,
        "subject_history: 1 -> 2 (3)": _NEWEST,
        "subject_history: subject.content and by == 'source' -> subject.content or by == 'source'": (
            "the rows that are read besides are among those of the same content or environment that are read already"
        ),
    },
    "approval": {
        (
            "_over_cap: lab.ledger.spent(lab.platform) + intent.max_cost > cap + 1e-09 -> "
            "lab.ledger.spent(lab.platform) + intent.max_cost >= cap + 1e-09"
        ): _CENTS,
        "_covers: now <= agreed + 1e-09 -> now < agreed + 1e-09": _CENTS,
    },
}
"""The reason by module and by `Mutant.name`."""
