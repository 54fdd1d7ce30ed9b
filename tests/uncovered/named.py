"""The files and branches that the tests do not take in processes that are measured, each with the reason."""

from __future__ import annotations

_CHILD = "the environment's interpreter runs it, which has no coverage; tests/lab/worker drive it through the host"

ELSEWHERE: dict[str, str] = {
    "prime_lab_mcp/lab/worker/child/*": _CHILD,
    "prime_lab_mcp/lab/sandbox/site/*": _CHILD,
    "prime_lab_mcp/lab/sandbox/confine.py": "it confines its process for good, so that no coverage could be written",
    "prime_lab_mcp/lab/sandbox/containers/broker.py": (
        "it runs with a clean environment, in which coverage does not follow; tests/lab/sandbox drive it"
    ),
    "prime_lab_mcp/lab/prime/several_commands.py": "the Python of prime runs it, given as text",
}
"""The reason by pattern of paths, for files of which nothing counts."""

_VANISHED = "another server deletes the file between listing and looking, which no test can time"

_MAC = "only macOS runs it, and the tests run on Linux"
_NO_PROC = "a Linux whose /proc is not mounted, or whose files of a process cannot be parsed"

_ASKED = "the type asks for the method, and nobody calls it yet"
_CONVERGES = "the steps converge long before their bound, which is there so that no input keeps a call for ever"

NAMED: dict[str, dict[str, str]] = {
    "prime_lab_mcp/lab/base/statistics.py": {
        "fit_concentration: for _ in range(_GOLDEN_STEPS): -> concentration = math.exp((low + high) / 2)": _CONVERGES,
        "_fraction: for m in range(1, _FRACTION_STEPS): -> return result": _CONVERGES,
        "_series: for n in range(1, _STEPS): -> return total": _CONVERGES,
        "_chi_square_fraction: for n in range(1, _STEPS): -> return value": _CONVERGES,
    },
    "prime_lab_mcp/lab/base/process.py": {
        "run: if clock.cancelled_caught: -> if out.flooded or err.flooded:": (
            "coverage.py does not see the way out of `async with` on Python 3.11; every run that ends takes it"
        ),
        "is_alive: except PermissionError:": "the tests run as root, who may signal every process",
        "is_alive: except (OSError, IndexError):": _NO_PROC,
        "command_line: return None": _MAC,
        "_machine: return _mac_boot()": _MAC,
        "_machine: except (OSError, ValueError, AttributeError):": _NO_PROC,
        "_start_of: return _mac_start(pid)": _MAC,
        "_mac_boot: text, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)": _MAC,
        "_mac_start: info = ctypes.create_string_buffer(_BSD_INFO_SIZE)": _MAC,
    },
    "prime_lab_mcp/server/call.py": {
        (
            'Calls._free: raise TypeError(f"{name} publishes or spends; it is no prerequisite that is run without '
            'asking")'
        ): "a guard for programmers: every prerequisite in the table of gates is free",
    },
    "prime_lab_mcp/server/next_calls.py": {
        "_ArgumentTypes.__contains__: return name in self._tools": _ASKED,
        "_ArgumentTypes.__iter__: return iter(self._tools)": _ASKED,
        "_ArgumentTypes.__len__: return len(self._tools)": _ASKED,
    },
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
