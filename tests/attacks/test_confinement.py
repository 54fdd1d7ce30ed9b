"""Environment code is confined by the kernel: what it tries against files, processes, the network and the machine.

Each attempt runs in a real worker. `test_without_confinement_the_attempts_succeed` runs the same attempts with the
kernel's layers switched off, so that a refusal is known to come from them.
"""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.sandbox import offer
from prime_lab_mcp.lab.sandbox.offer import offer_of, present_offer, unconfined_finding
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.worker.pool import Workers
from tests.attacks.hostile import outcomes

pytestmark = pytest.mark.anyio
needs_files = pytest.mark.skipif(present_offer().files != "confined", reason="this kernel has no Landlock")
needs_processes = pytest.mark.skipif(present_offer().processes != "confined", reason="needs Landlock 6 and seccomp")
needs_network = pytest.mark.skipif(present_offer().network == "open", reason="needs Landlock 4 and seccomp")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's home, with keys and logins."""
    folder = tmp_path_factory.mktemp("home")
    for name in (".ssh/id_ed25519", ".cache/huggingface/token", ".prime/config.json", ".netrc"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret", encoding="utf-8")
    blob = folder / ".cache/huggingface/hub/datasets--a--b/blobs/1"
    blob.parent.mkdir(parents=True)
    blob.write_text("rows", encoding="utf-8")
    before = os.environ["HOME"]
    os.environ["HOME"] = str(folder)
    yield folder
    os.environ["HOME"] = before


@pytest.fixture(scope="module")
async def workers(tmp_path_factory: pytest.TempPathFactory, home: Path) -> AsyncIterator[Workers]:
    root = tmp_path_factory.mktemp("lab")
    (root / "workspace").mkdir()
    Ledger(root / "state" / "ledger.sqlite3").close()
    pool = Workers(Settings(workspace=root / "workspace", state_dir=root / "state"))
    yield pool
    await pool.close()


def reading(state: Path, home: Path) -> dict[str, str]:
    return {
        "ledger": f"found = sqlite3.connect('file:{state}/ledger.sqlite3?mode=ro', uri=True).execute("
        "'select count(*) from sqlite_master').fetchone()",
        "state directory": f"found = os.listdir({str(state)!r})",
        "key": f"found = open('{home}/.ssh/id_ed25519').read()",
        "token": f"found = open('{home}/.cache/huggingface/token').read()",
        "prime": f"found = open('{home}/.prime/config.json').read()",
        "server's variables": f"found = len(open('/proc/{os.getpid()}/environ').read()) or 1 / 0",
        "supervisor's variables": "found = len(open(f'/proc/{os.getppid()}/environ').read()) or 1 / 0",
        "server's memory": f"found = open('/proc/{os.getpid()}/mem', 'rb')",
    }


def writing(state: Path, home: Path) -> dict[str, str]:
    return {
        "ledger": f"with sqlite3.connect('{state}/ledger.sqlite3') as db: db.execute('create table forged (a)')",
        "new file": f"open('{home}/new', 'w').close()",
        "user's cache": f"open('{home}/.cache/huggingface/hub/datasets--a--b/blobs/1', 'a').close()",
        "link": f"os.link('{home}/.netrc', 'stolen')",
    }


SERVERS = {
    "UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "unix": "socket.socket(socket.AF_UNIX)",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
}


@needs_files
async def test_environment_code_reads_no_secret_and_no_state(workers: Workers, home: Path, tmp_path: Path) -> None:
    state = workers._settings.state_dir
    found = await outcomes(workers, tmp_path / "env", reading(state, home))
    assert {name: text for name, text in found.items() if text.startswith("done")} == {}


@needs_files
async def test_environment_code_writes_nothing_but_its_scratch_and_cache(
    workers: Workers, home: Path, tmp_path: Path
) -> None:
    state = workers._settings.state_dir
    allowed = {
        "scratch": "open('own', 'w').close(); os.mkdir('d'); os.replace('own', 'd/own')",
        "temporary": "import tempfile; tempfile.NamedTemporaryFile().close()",
        "cache": "open(os.environ['HF_HUB_CACHE'] + '/own', 'w').close()",
        "user's data": "found = open(os.environ['HF_HUB_CACHE'] + '/datasets--a--b/blobs/1').read()",
        "program": "found = subprocess.check_output(['/bin/sh', '-c', 'echo hi']).decode()",
        "locks": "import multiprocessing; multiprocessing.Lock()",
    }
    found = await outcomes(workers, tmp_path / "env", writing(state, home) | allowed)
    assert {name for name, text in found.items() if text.startswith("done")} == set(allowed), found
    with sqlite3.connect(state / "ledger.sqlite3") as db:
        assert db.execute("select name from sqlite_master where name = 'forged'").fetchall() == []


@needs_processes
async def test_environment_code_neither_kills_nor_stops_nor_traces_nor_slows_anybody(
    workers: Workers, tmp_path: Path
) -> None:
    server = os.getpid()
    attempts = {
        "kill server": f"os.kill({server}, signal.SIGCONT)",
        "stop supervisor": "os.kill(os.getppid(), signal.SIGSTOP)",
        "kill group": "os.killpg(os.getpgid(os.getppid()), signal.SIGCONT)",
        "pidfd": f"signal.pidfd_send_signal(os.pidfd_open({server}), signal.SIGCONT)",
        "limit": f"resource.prlimit({server}, resource.RLIMIT_CORE, (0, 0))",
        "trace": f"checked(LIBC.ptrace(16, {server}, None, None))",
        "priority": f"os.setpriority(os.PRIO_PROCESS, {server}, 19)",
        "affinity": f"os.sched_setaffinity({server}, {{0}})",
        "raise own limit": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        "namespace": "checked(LIBC.unshare(0x10000000))",
        "mount": "checked(LIBC.mount(b'none', b'/tmp', b'tmpfs', 0, None))",
    }
    allowed = {
        "own child": "p = subprocess.Popen(['sleep', '60']); p.kill(); p.wait()",
        "own priority": "os.nice(1)",
        "thread": "import threading; t = threading.Thread(target=print); t.start(); t.join()",
    }
    found = await outcomes(workers, tmp_path / "env", attempts | allowed)
    assert {name for name, text in found.items() if text.startswith("done")} == set(allowed), found


@needs_processes
async def test_a_process_that_leaves_its_session_does_not_outlive_the_call(workers: Workers, tmp_path: Path) -> None:
    beat = "{root}/beat"
    escape = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for pid in (os.getppid(), {ppid}, {server}):
            try: os.kill(pid, signal.SIGKILL)
            except OSError: pass
        while True:
            open({beat}, "w").close()
            time.sleep(0.05)
    os._exit(0)
time.sleep(0.3)
found = os.path.exists({beat})
"""
    beat = "os.environ['HF_HUB_CACHE'] + '/beat'"
    code = escape.format(ppid="os.getppid()", server=os.getpid(), beat=beat)
    found = await outcomes(workers, tmp_path / "env", {"escape": code})
    assert found == {"escape": "done: True"}
    (file,) = (workers._settings.state_dir / "caches").glob("*/hub/beat")
    file.unlink()
    await anyio.sleep(0.4)
    assert not file.exists()


@needs_network
async def test_environment_code_opens_no_socket_but_tcp_and_no_port_but_the_allowed(
    workers: Workers, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 20_479)) as server:
        attempts = SERVERS | {
            "port": f"socket.create_connection({server.getsockname()!r}, timeout=5)",
            "fast open": "socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', 20479))",
            "mptcp": "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)",
        }
        allowed = {
            "own server": "s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())",
            "pair": "socket.socketpair()",
            "manager": "import multiprocessing; multiprocessing.get_context('fork').Manager().dict()",
            "https": "try: socket.create_connection(('127.0.0.1', 443))\nexcept ConnectionRefusedError: pass",
        }
        found = await outcomes(workers, tmp_path / "env", attempts | allowed)
    assert {name for name, text in found.items() if text.startswith("done")} == set(allowed), found


async def test_environment_code_fills_neither_memory_nor_disk_and_leaves_no_core(
    workers: Workers, tmp_path: Path
) -> None:
    attempts = {
        "memory": "found = len(bytearray(6 << 30))",
        "disk": "os.truncate(os.open('big', os.O_CREAT | os.O_RDWR), 5 << 30)",
    }
    allowed = {"core": "assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)"}
    found = await outcomes(workers, tmp_path / "env", attempts | allowed)
    assert {name for name, text in found.items() if text.startswith("done")} == set(allowed), found


async def test_without_confinement_the_attempts_succeed(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the attempts are real ones, and without layers the worker runs as before, with a warning."""
    nothing = offer_of(0, False)
    monkeypatch.setattr(offer, "_offer", lambda: nothing)
    state = tmp_path / "state"
    Ledger(state / "ledger.sqlite3").close()
    pool = Workers(Settings(workspace=tmp_path, state_dir=state))
    attempts = reading(state, home) | {"write the ledger": writing(state, home)["ledger"]} | SERVERS
    try:
        found = await outcomes(pool, tmp_path / "env", attempts)
    finally:
        await pool.close()
    protected = {"server's memory", "server's variables", "supervisor's variables"}  # by the system, unless root
    assert {name for name, text in found.items() if not text.startswith("done")} <= protected, found
    warning = unconfined_finding(nothing)
    assert warning is not None
    assert (warning.code, warning.severity) == ("unconfined", "warning")
    assert unconfined_finding(offer_of(7, True)) is None
