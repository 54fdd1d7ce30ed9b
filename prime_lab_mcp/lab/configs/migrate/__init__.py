"""Migrates a config of any earlier shape to the present one and reports what became of every key.

Known shapes: the retired shared-LoRA shape (`model = "..."`, `[[env]]`), prime-rl's own of late 2025 to mid 2026
(`[[orchestrator.env]]`, `[orchestrator.sampling]`, `[wandb]`, `[inference.model]`), and the present one.
"""

from prime_lab_mcp.lab.configs.migrate.mover import ConfigMigration, migrate_config
from prime_lab_mcp.lab.configs.migrate.rows import KeyChange, LineageHeader, final_changes, read_header

__all__ = ["ConfigMigration", "KeyChange", "LineageHeader", "final_changes", "migrate_config", "read_header"]
