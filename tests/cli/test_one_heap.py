"""The threads of a server share one heap of the C library, so that its memory does not grow with their number."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

ALLOCATE = """
import ctypes, sys, threading
from prime_lab_mcp.cli import main
if sys.argv[2] == "shared":
    main._share_one_heap()
kept = []
together = threading.Barrier(6)
def fill():
    together.wait()
    kept.extend(bytes(5_000 + n) for n in range(200))
    together.wait()
threads = [threading.Thread(target=fill) for _ in range(6)]
for one in threads: one.start()
for one in threads: one.join()
library = ctypes.CDLL(None)
library.fopen.restype = ctypes.c_void_p
library.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
library.fclose.argtypes = [ctypes.c_void_p]
file = library.fopen(sys.argv[1].encode(), b"w")
library.malloc_info(0, file)
library.fclose(file)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has a heap for each thread")
@pytest.mark.parametrize(("how", "one"), [("shared", True), ("as it is", False)])
def test_threads_share_one_heap(tmp_path: Path, how: str, one: bool) -> None:
    told = tmp_path / "heaps.xml"
    subprocess.run([sys.executable, "-c", ALLOCATE, str(told), how], check=True, timeout=60)
    assert (told.read_text(encoding="utf-8").count("<heap nr=") == 1) is one
