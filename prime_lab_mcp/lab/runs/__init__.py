"""Training runs: what one is called and may cost, submitting it at most once, and settling what is not known.

A run's name ends in eight hex digits of its intent, so that after a timeout or a crash the platform itself says whether
it exists. While the platform cannot be asked, nothing is sent again.
"""

from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.cost import Cost, bound, cost_of
from prime_lab_mcp.lab.runs.naming import named, run_name, write_copy
from prime_lab_mcp.lab.runs.prepare import Prepared, prepare, validated
from prime_lab_mcp.lab.runs.secrets import handed_on
from prime_lab_mcp.lab.runs.standing import SETTLE_SECONDS, TERMINAL, Standing, find, standing, status_of
from prime_lab_mcp.lab.runs.submit import submit

__all__ = [
    "SETTLE_SECONDS",
    "TERMINAL",
    "Config",
    "Cost",
    "Prepared",
    "Standing",
    "bound",
    "cost_of",
    "find",
    "handed_on",
    "named",
    "prepare",
    "run_name",
    "standing",
    "status_of",
    "submit",
    "validated",
    "write_copy",
]
