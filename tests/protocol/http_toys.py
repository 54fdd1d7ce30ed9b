"""`python -m tests.protocol.http_toys WORKSPACE STATE`: HTTP with the toys, one of which asks before it spends."""

from __future__ import annotations

import sys

from prime_lab_mcp.server.app import build_server
from prime_lab_mcp.server.http import Address, serve_http
from prime_lab_mcp.server.main import open_lab, settings
from tests.protocol.toys import TOYS

if __name__ == "__main__":
    lab = open_lab(settings(sys.argv[1], sys.argv[2]))
    serve_http(build_server(lab, TOYS), Address("127.0.0.1", 0), "t" * 40)
