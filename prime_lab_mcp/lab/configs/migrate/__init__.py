"""Migrates a config of any earlier shape to the present one and reports what became of every key.

Known shapes: the retired shared-LoRA shape (`model = "..."`, `[[env]]`), prime-rl's own of late 2025 to mid 2026
(`[[orchestrator.env]]`, `[orchestrator.sampling]`, `[wandb]`, `[inference.model]`), and the present one.
"""
