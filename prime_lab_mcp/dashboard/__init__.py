"""The local page: a read-only view of one workspace, its evaluations, runs and spending.

A browser reads it over HTTP (page.py), and clients that render MCP Apps through the server (mcp_app.py).
"""

from pathlib import Path

STATIC = Path(__file__).parent / "static"
"""The style and the scripts of the page."""
