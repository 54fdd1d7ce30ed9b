"""An environment that was ported from v0."""

from ported_template.taskset import PortedTemplateEnv, PortedTemplateTaskset

__all__ = ["PortedTemplateEnv", "PortedTemplateTaskset"]
