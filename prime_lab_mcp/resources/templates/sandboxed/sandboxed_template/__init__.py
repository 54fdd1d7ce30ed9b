"""An environment whose tasks run in a container."""

from sandboxed_template.taskset import SandboxedTemplateEnv, SandboxedTemplateTaskset

__all__ = ["SandboxedTemplateEnv", "SandboxedTemplateTaskset"]
