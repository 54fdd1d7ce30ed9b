"""Models as the project knows them: size, architecture, renderer, and what was seen of them."""

from prime_lab_mcp.lab.models.known import Model, find
from prime_lab_mcp.lab.models.points import Point
from prime_lab_mcp.lab.models.readiness import in_words, readiness, verdict

__all__ = ["Model", "Point", "find", "in_words", "readiness", "verdict"]
