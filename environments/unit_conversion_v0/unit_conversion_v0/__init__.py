"""Unit conversions in one turn, written for verifiers 0.1.14 (v0)."""

from unit_conversion_v0.environment import load_environment

__all__ = ["load_environment"]
