"""The mutants that may survive, with the reason why no test can or need notice them."""

from __future__ import annotations

_VERSION = "the slower way through importlib.metadata gives the same version"
_NEWEST = "of the rows that are read besides, only the newest is looked at"

_CENTS = "the tolerance absorbs what sums of cents lose in binary; no amount of money lies exactly on it"
_CACHED = "how many answers stay in memory changes none of them"
_NUMBERED = "of the ids of spend only their order counts, and each is still larger than those before"
_DEEPEST = "the limit bounds time; a name in some forty parts is not recognised either way, one more or one less"

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
    "ledger": {
        "Ledger.decisive: len(self._classes) > _MOST_CLASSES -> len(self._classes) >= _MOST_CLASSES": _CACHED,
        "_MOST_CLASSES: 4000 -> 4001": _CACHED,
        (
            "Ledger.reserve: self.spent(platform) - counted + bound > cap + 1e-09 -> "
            "self.spent(platform) - counted + bound >= cap + 1e-09"
        ): _CENTS,
        "Ledger.reserve: 0 -> 1": _NUMBERED,
        "Ledger.reserve: 1 -> 2": _NUMBERED,
        "Ledger.jobs: 1 -> 2": "every negative limit is none for SQLite",
    },
    "fingerprint": {
        "own_files_reader: len(_cache) > 256 -> len(_cache) >= 256": _CACHED,
        "own_files_reader: 256 -> 257": _CACHED,
        "_call_reason: len(node.args) > 1 -> len(node.args) >= 1": "getattr of one argument raises and reads nothing",
        "_LONGEST: 4000 -> 4001": "where exactly a text is cut decides nothing: no file name is so long",
        "_DEEPEST: 40 -> 41": _DEEPEST,
        "folded_text: 0 -> 1": _DEEPEST,
        "folded_text: depth > _DEEPEST -> depth >= _DEEPEST": _DEEPEST,
        "folded_text.fold: 1 -> 2": _DEEPEST,
    },
    "once": {"AtMostOnce.claim_facts: return {} -> return None": "the ledger takes none as no facts"},
    "approval": {
        (
            "_over_cap: lab.ledger.spent(lab.platform) + intent.max_cost > cap + 1e-09 -> "
            "lab.ledger.spent(lab.platform) + intent.max_cost >= cap + 1e-09"
        ): _CENTS,
        "_covers: now <= agreed + 1e-09 -> now < agreed + 1e-09": _CENTS,
    },
}
"""The reason by module and by `Mutant.name`."""
