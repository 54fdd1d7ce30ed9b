"""Classifies rollouts that earned nothing: their class, the evidence, and whether the model or the setup is at
fault."""

from prime_lab_mcp.lab.evals.zeros.classify import classify_zero
from prime_lab_mcp.lab.evals.zeros.turns import ZEROS, AtFault, Classified, Zero

__all__ = ["ZEROS", "AtFault", "Classified", "Zero", "classify_zero"]
