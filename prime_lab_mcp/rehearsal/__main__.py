"""The rehearsal platform as a program: `python -m prime_lab_mcp.rehearsal --state DIR [--port N] [--speed X]`.

When it is ready, it writes one line of JSON with its address to standard output, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m prime_lab_mcp.rehearsal")
    parser.add_argument("--state", type=Path, required=True, help="folder that holds everything")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--speed", type=float, default=1.0, help="of runs and evaluations")
    given = parser.parse_args(arguments)
    if given.speed <= 0:
        parser.error("--speed must be above 0")
    # Not at module level: the server imports this package and must not load a web framework.
    import uvicorn

    from prime_lab_mcp.rehearsal.app import build
    from prime_lab_mcp.rehearsal.foreign import seed
    from prime_lab_mcp.rehearsal.store import Store

    store = Store(given.state.resolve(), speed=given.speed)
    seed(store)
    listener = socket.create_server(("127.0.0.1", given.port), backlog=512)
    settings = uvicorn.Config(
        build(store),
        log_level="error",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
        ws="none",
    )
    ready = {"url": f"http://127.0.0.1:{listener.getsockname()[1]}", "pid": os.getpid()}
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    uvicorn.Server(settings).run(sockets=[listener])
    return 0


if __name__ == "__main__":
    sys.exit(main())
