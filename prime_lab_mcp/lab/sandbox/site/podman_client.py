"""The `podman` of confined code: sends its arguments to the broker of containers, and passes input and outputs on.

It is started with `python -I -S`, so it imports little and starts fast. Standard library only.
lab/sandbox/containers/broker.py describes the protocol.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys

ACCESS = "PRIME_LAB_CONTAINERS"
"""The variable with the port and the secret of the broker."""
_FAILED = 125


def main() -> int:
    """Run one command, and return its exit code."""
    port, _, token = os.environ.get(ACCESS, "").partition(" ")
    try:
        connection = socket.create_connection(("127.0.0.1", int(port)))
        request = json.dumps({"token": token, "argv": sys.argv[1:]}).encode()
        connection.sendall(struct.pack("!I", len(request)) + request)
        return _follow(connection)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"Error: the broker of containers of prime-lab-mcp cannot be reached: {error}\n")
        return _FAILED


def _follow(connection: socket.socket) -> int:
    pending = b""
    sources = [connection.fileno()]
    while True:
        ready, _, _ = select.select(sources, [], [])
        if 0 in ready:
            content = os.read(0, 1 << 16)
            connection.sendall((b"I" if content else b"E") + struct.pack("!I", len(content)) + content)
            if not content:
                sources.remove(0)
        if connection.fileno() not in ready:
            continue
        received = connection.recv(1 << 16)
        if not received:
            raise OSError("it ended the connection")
        pending += received
        while len(pending) >= 5:
            length = struct.unpack("!I", pending[1:5])[0]
            if len(pending) < 5 + length:
                break
            kind, content, pending = pending[:1], pending[5 : 5 + length], pending[5 + length :]
            if kind == b"X":
                return int(struct.unpack("!I", content)[0])
            if kind == b"I":
                sources.append(0)
            else:
                _write(1 if kind == b"O" else 2, content)


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


if __name__ == "__main__":
    sys.exit(main())
