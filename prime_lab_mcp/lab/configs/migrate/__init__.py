"""Brings a config of any earlier shape to the present one, saying what became of every key.

Known shapes: the retired shared-LoRA one (`model = "..."`, `[[env]]`), prime-rl's own of late 2025 to mid 2026
(`[[orchestrator.env]]`, `[orchestrator.sampling]`, `[wandb]`, `[inference.model]`), and today's.
"""

from prime_lab_mcp.lab.configs.migrate.header import Header, read_header
from prime_lab_mcp.lab.configs.migrate.mover import Migration, migrate
from prime_lab_mcp.lab.configs.migrate.rows import Change, settled

__all__ = ["Change", "Header", "Migration", "migrate", "read_header", "settled"]
