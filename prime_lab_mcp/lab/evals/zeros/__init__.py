"""Every rollout that earned nothing, understood: its class, what decided it, and whose it is."""

from prime_lab_mcp.lab.evals.zeros.classify import classify
from prime_lab_mcp.lab.evals.zeros.kinds import ZEROS, Classified, Whose, Zero

__all__ = ["ZEROS", "Classified", "Whose", "Zero", "classify"]
