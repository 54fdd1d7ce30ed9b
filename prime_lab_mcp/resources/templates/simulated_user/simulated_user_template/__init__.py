"""Conversations with a simulated user, who says what they want when they are asked."""

from simulated_user_template.taskset import SimulatedUserTemplateEnv, SimulatedUserTemplateTaskset

__all__ = ["SimulatedUserTemplateEnv", "SimulatedUserTemplateTaskset"]
