"""Classifies every rollout that earned nothing: its class, the evidence, and whether the model or the setup is at
fault."""

from prime_lab_mcp.lab.evals.zeros.classify import classify_zero
from prime_lab_mcp.lab.evals.zeros.turns import ZEROS, Classified, Whose, Zero

__all__ = ["ZEROS", "Classified", "Whose", "Zero", "classify_zero"]
