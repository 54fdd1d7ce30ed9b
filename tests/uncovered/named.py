"""The files and branches that the tests do not take in processes that are measured, each with the reason."""

from __future__ import annotations

_CHILD = "the environment's interpreter runs it, which has no coverage; tests/lab/worker drive it through the host"

ELSEWHERE: dict[str, str] = {
    "prime_lab_mcp/lab/worker/child/*": _CHILD,
    "prime_lab_mcp/lab/sandbox/site/*": _CHILD,
    "prime_lab_mcp/lab/sandbox/confine.py": "it confines its process for good, so that no coverage could be written",
    "prime_lab_mcp/lab/prime/several_commands.py": "the Python of prime runs it, given as text",
}
"""The reason by pattern of paths, for files of which nothing counts."""

_VANISHED = "another server deletes the file between listing and looking, which no test can time"

NAMED: dict[str, dict[str, str]] = {
    "prime_lab_mcp/server/call.py": {
        (
            'Calls._free: raise TypeError(f"{name} publishes or spends; it is no prerequisite that is run without '
            'asking")'
        ): "a guard for programmers: every prerequisite in the table of gates is free",
    },
    "prime_lab_mcp/lab/state/leftovers.py": {"_age: except OSError:": _VANISHED},
    "prime_lab_mcp/lab/state/limits.py": {
        "PublishedLimits._others: except OSError:": "a disk that fails while its folder is listed",
    },
    "prime_lab_mcp/lab/state/snapshot.py": {"_intact: except OSError:": _VANISHED},
    "prime_lab_mcp/lab/state/storage.py": {
        "_last_used: except OSError:": _VANISHED,
        "_bytes: except OSError:": _VANISHED,
    },
}
"""The reason by path and by `Place.name`."""
