"""Models as the project knows them: size, architecture, renderer, and what was seen of them."""

from prime_lab_mcp.lab.models.known import Model, find

__all__ = ["Model", "find"]
