"""`RLConfig` as far as the worker uses it."""

from __future__ import annotations

from prime_lab_mcp.rehearsal.schema_package.prime_rl.judged import Judged


class RLConfig(Judged):
    schema = "rl"
