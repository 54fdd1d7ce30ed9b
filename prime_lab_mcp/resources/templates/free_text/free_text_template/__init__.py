"""A single-turn environment whose free answers a judge compares with a reference."""

from free_text_template.taskset import FreeTextTemplateEnv, FreeTextTemplateTaskset

__all__ = ["FreeTextTemplateEnv", "FreeTextTemplateTaskset"]
