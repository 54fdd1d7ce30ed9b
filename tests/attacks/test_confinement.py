"""Environment code is confined by the kernel: what it tries against files, processes, the network and the machine.

Each attempt runs in a real worker. `test_without_confinement_the_attempts_succeed` runs the same attempts with the
kernel's layers switched off, so that a refusal is known to come from them.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import WorkerError
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.sandbox import confine, kernel_support
from prime_lab_mcp.lab.sandbox.kernel_support import linux_support, present_support, unconfined_finding
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.worker.pool import Workers
from tests.attacks.hostile import outcomes

pytestmark = pytest.mark.anyio
needs_files = pytest.mark.skipif(present_support().files != "confined", reason="this kernel has no Landlock")
needs_processes = pytest.mark.skipif(present_support().processes != "confined", reason="needs Landlock 6 and seccomp")
needs_network = pytest.mark.skipif(present_support().network == "open", reason="needs Landlock 4 and seccomp")


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
    "datagram pair": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "datagram pair by another name": "socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)",
}


@needs_files
async def test_environment_code_reads_no_secret_and_no_state(workers: Workers, home: Path, tmp_path: Path) -> None:
    state = workers._settings.state_dir
    found = await outcomes(workers, tmp_path / "env", reading(state, home))
    assert {name: text for name, text in found.items() if text.startswith("done")} == {}


ATTRIBUTES = {
    "hidden from its owner": "os.chmod(PATH, 0)",
    "read by others": "os.chmod(PATH, 0o644)",
    "a closed folder": "os.chmod(os.path.dirname(PATH), 0o600)",
    "written by others": "os.chmod(PATH, 0o666)",
    "run as its owner": "os.chmod(PATH, 0o4755)",
    "through a descriptor": "os.fchmod(os.open(sys.executable, os.O_RDONLY), 0o777)",
    "given away": "os.chown(PATH, 65534, 65534)",
    "dated": "os.utime(PATH, (1, 1))",
    "marked": "os.setxattr(PATH, 'user.mark', b'x')",
}


@needs_processes
async def test_environment_code_changes_no_attribute_of_files_outside(
    workers: Workers, home: Path, tmp_path: Path
) -> None:
    secret = home / ".netrc"
    secret.chmod(0o600)
    before, python = secret.stat(), Path(sys.executable).stat().st_mode
    await outcomes(
        workers, tmp_path / "env", {k: code.replace("PATH", repr(str(secret))) for k, code in ATTRIBUTES.items()}
    )
    after = secret.stat()
    assert (after.st_mode, after.st_uid, after.st_mtime) == (before.st_mode, before.st_uid, before.st_mtime)
    assert os.listxattr(secret) == []
    assert Path(sys.executable).stat().st_mode == python
    assert home.stat().st_mode & 0o100


@needs_processes
async def test_environment_code_sets_no_flags_of_files_that_it_reads(workers: Workers, tmp_path: Path) -> None:
    # The descriptor is one of its own folder; the flags are those that the file has.
    flags = "import fcntl; open('own', 'w').close(); fcntl.ioctl(os.open('own', os.O_RDONLY), {request}, bytes(8))"
    requests = {"flags": 0x40086602, "version": 0x40087602, "attributes": 0x401C5820}
    found = await outcomes(
        workers, tmp_path / "env", {name: flags.format(request=request) for name, request in requests.items()}
    )
    assert all("ENOTTY" in text or "Inappropriate ioctl" in text for text in found.values()), found


@needs_processes
async def test_environment_code_does_not_watch_what_others_open(workers: Workers, home: Path, tmp_path: Path) -> None:
    watch = f"checked(LIBC.inotify_add_watch(LIBC.inotify_init(), {str(home).encode()!r}, 0xfff))"
    attempts = {
        "inotify": watch,
        "fanotify": "checked(LIBC.fanotify_init(0x200, 0))",
        "dnotify": "import fcntl; fcntl.fcntl(os.open('/usr', os.O_RDONLY), 1026, 1)",
        "lease": "import fcntl; fcntl.fcntl(os.open(sys.executable, os.O_RDONLY), 1024, 0)",
    }
    found = await outcomes(workers, tmp_path / "env", attempts)
    assert [name for name, text in found.items() if text.startswith("done")] == [], found


@needs_processes
async def test_environment_code_copies_files_and_makes_programs(workers: Workers, tmp_path: Path) -> None:
    """Modes that matter to honest code work, and copying with times and modes raises nothing."""
    program = "open('tool', 'w').write('#!/bin/sh\\necho ran'); subprocess.check_call(['chmod', '+x', 'tool']); "
    found = await outcomes(
        workers,
        tmp_path / "env",
        {
            "program": f"{program}found = subprocess.check_output(['./tool']).decode()",
            "python": "open('own', 'w').close(); os.chmod('own', 0o755); found = oct(os.stat('own').st_mode & 0o777)",
            "copy": "import shutil; shutil.copy2(sys.executable, 'copied'); shutil.copytree('.', 'tree')",
            "read-only": "open('kept', 'w').close(); os.chmod('kept', 0o444); found = os.listdir('.').count('kept')",
        },
    )
    assert [name for name, text in found.items() if not text.startswith("done")] == [], found
    assert "0o755" in found["python"]


async def test_environment_code_spawns_processes_and_gets_their_results(workers: Workers, tmp_path: Path) -> None:
    """Spawned processes would read the worker's program, which is hidden, and a pool would start others for ever."""
    pool = "import multiprocessing as m, concurrent.futures as f; p = f.ProcessPoolExecutor(1, m.get_context({!r})); "
    ask = "found = p.submit(abs, -7).result(60); p.shutdown()"
    hows = ("fork", "spawn")
    found = await outcomes(workers, tmp_path / "env", {how: pool.format(how) + ask for how in hows})
    assert found == dict.fromkeys(hows, "done: 7")


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


def _namespaces_permitted() -> bool:
    code = (
        "import sys; from prime_lab_mcp.lab.sandbox.confine import own_shared_memory; sys.exit(not own_shared_memory())"
    )
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


LEFT = "/dev/shm/prime-lab-left-behind"


@needs_processes
async def test_environment_code_leaves_nothing_in_shared_memory(workers: Workers, tmp_path: Path) -> None:
    """Not for a later call, not for another process of the user; locks and shared blocks of its own processes work."""
    if not _namespaces_permitted():
        pytest.skip("this machine forbids namespaces of mounts, or has no /dev/shm")
    block = "from multiprocessing import shared_memory as s; b = s.SharedMemory('prime-lab-block', True, 8); "
    program = "import os; print(os.path.exists('/dev/shm/prime-lab-block'))"
    leave = {
        "leave": f"open({LEFT!r}, 'w').close(); found = os.listdir('/dev/shm')",
        "share": f"{block}found = subprocess.check_output([sys.executable, '-c', {program!r}]).decode()",
        "lock": "import multiprocessing; multiprocessing.Lock().acquire()",
    }
    try:
        found = await outcomes(workers, tmp_path / "env", leave)
        assert found["leave"] == "done: ['prime-lab-left-behind']"
        assert "True" in found["share"]
        assert found["lock"].startswith("done")
        assert not Path(LEFT).exists()
        assert await outcomes(workers, tmp_path / "env", {"look": "found = os.listdir('/dev/shm')"}) == {
            "look": "done: []"
        }
    finally:
        for name in (LEFT, "/dev/shm/prime-lab-block"):
            Path(name).unlink(missing_ok=True)


@needs_processes
async def test_environment_code_makes_no_memory_that_outlives_it(workers: Workers, tmp_path: Path) -> None:
    attempts = {
        "memory": "checked(LIBC.shmget(4711, 4096, 0o1600))",
        "semaphores": "checked(LIBC.semget(4711, 1, 0o1600))",
        "messages": "checked(LIBC.msgget(4711, 0o1600))",
    }
    found = await outcomes(workers, tmp_path / "env", attempts)
    assert {name: text for name, text in found.items() if text.startswith("done")} == {}


@needs_processes
async def test_memory_and_queues_that_other_programs_made_stay_as_they_are(workers: Workers, tmp_path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    memory, messages, semaphores = (
        libc.shmget(0, 4096, 0o1600),
        libc.msgget(0, 0o1600),
        libc.semget(0, 1, 0o1600),
    )
    try:
        attempts = {
            "read memory": f"checked(LIBC.shmat({memory}, None, 0))",
            "remove memory": f"checked(LIBC.shmctl({memory}, 0, None))",
            "send": f"checked(LIBC.msgsnd({messages}, b'\\1' + bytes(16), 4, 0o4000))",
            "remove messages": f"checked(LIBC.msgctl({messages}, 0, None))",
            "remove semaphores": f"checked(LIBC.semctl({semaphores}, 0, 0))",
        }
        found = await outcomes(workers, tmp_path / "env", attempts)
        assert {name: text for name, text in found.items() if text.startswith("done")} == {}
    finally:
        libc.shmctl(memory, 0, None), libc.msgctl(messages, 0, None), libc.semctl(semaphores, 0, 0)


_READ_MEMORY = """
class Part(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("size", ctypes.c_size_t)]
taken = ctypes.create_string_buffer(8)
here, there = Part(ctypes.addressof(taken), 8), Part({address}, 8)
checked(LIBC.process_vm_readv({server}, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
"""
_BYTES = b"of the server"


def touching_others(server: int) -> dict[str, str]:
    """Attempts on processes outside. Each leaves the process as it is where it succeeds."""
    return {
        "signal server": f"os.kill({server}, signal.SIGCONT)",
        "signal supervisor": "os.kill(os.getppid(), signal.SIGCONT)",
        "signal group": "os.killpg(os.getpgid(os.getppid()), signal.SIGCONT)",
        "pidfd": f"signal.pidfd_send_signal(os.pidfd_open({server}), signal.SIGCONT)",
        "limit": f"resource.prlimit({server}, resource.RLIMIT_CORE, resource.prlimit({server}, resource.RLIMIT_CORE))",
        "trace": f"checked(LIBC.ptrace(0x4206, {server}, None, None))",
        "memory": _READ_MEMORY.format(server=server, address=id(_BYTES)),
        "priority": f"os.setpriority(os.PRIO_PROCESS, {server}, os.getpriority(os.PRIO_PROCESS, {server}))",
        "priority of a group": "os.setpriority(os.PRIO_PGRP, 0, os.getpriority(os.PRIO_PGRP, 0))",
        "affinity": f"os.sched_setaffinity({server}, os.sched_getaffinity({server}))",
    }


@needs_processes
async def test_environment_code_neither_kills_nor_stops_nor_traces_nor_slows_anybody(
    workers: Workers, tmp_path: Path
) -> None:
    attempts = touching_others(os.getpid()) | {
        "stop supervisor": "os.kill(os.getppid(), signal.SIGSTOP)",
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


async def test_a_fork_bomb_ends_with_its_worker(workers: Workers, tmp_path: Path) -> None:
    """The kernel's limit of processes does not hold for root, so the supervisor counts."""
    bomb = "for n in range(320): os.posix_spawn('/bin/sleep', ['sleep', '97.5'], {})\ntime.sleep(20)"
    with pytest.raises(WorkerError) as ended:
        await outcomes(workers, tmp_path / "env", {"bomb": bomb})
    assert ended.value.code == "worker-exited"
    assert "more than 256 processes" in ended.value.message
    commands = (Path(f"/proc/{entry}/cmdline") for entry in os.listdir("/proc") if entry.isdigit())
    assert [path for path in commands if _read(path) == b"sleep\x0097.5\x00"] == []


async def test_some_processes_are_no_fork_bomb(workers: Workers, tmp_path: Path) -> None:
    few = "p = [subprocess.Popen(['sleep', '60']) for n in range(100)]; time.sleep(0.5); [q.kill() for q in p]"
    found = await outcomes(workers, tmp_path / "env", {"few": few})
    assert found["few"].startswith("done")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


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
    (file,) = (workers._settings.state_dir / "caches").glob("*/*/hub/beat")
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


def test_the_profile_for_macos_has_no_rule_without_a_filter_that_opens_everything() -> None:
    """sandbox(7): a rule without a filter matches everything, and the last match decides."""
    nothing = {"read": [], "write": [], "ports": [], "hidden": ["/state"]}
    policies = (nothing, nothing | {"read": ['/a"b'], "write": ["/w"], "ports": [443]})
    for policy in policies:
        lines = confine.sandbox_profile(policy).splitlines()
        assert [line for line in lines if line.startswith("(allow") and line.count("(") == 1] == ["(allow default)"]
        assert all(line.count("(") == line.count(")") for line in lines)
    assert '(allow file-read* (subpath "/a\\"b") (subpath "/w"))' in lines
    assert '(allow network-outbound (remote tcp "*:443"))' in lines


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


def test_without_limits_memory_and_disk_are_to_be_had(tmp_path: Path) -> None:
    """The control of the limits, which hold with and without layers."""
    with mmap.mmap(-1, 6 << 30), (tmp_path / "big").open("wb") as big:
        os.truncate(big.fileno(), 5 << 30)
        assert os.fstat(big.fileno()).st_size == 5 << 30


async def test_without_confinement_the_attempts_succeed(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the attempts are real ones, and without layers the worker runs as before, with a warning."""
    nothing = linux_support(0, False)
    monkeypatch.setattr(kernel_support, "_read_kernel_support", lambda: nothing)
    state = tmp_path / "state"
    Ledger(state / "ledger.sqlite3").close()
    pool = Workers(Settings(workspace=tmp_path, state_dir=state))
    attempts = reading(state, home) | {"write the ledger": writing(state, home)["ledger"]} | SERVERS
    try:
        found = await outcomes(pool, tmp_path / "env", attempts | touching_others(os.getpid()))
    finally:
        await pool.close()
    # By the system, unless root.
    protected = {"server's memory", "server's variables", "supervisor's variables", "trace", "memory", "priority"}
    assert os.getuid() != 0 or {name for name, text in found.items() if not text.startswith("done")} == set(), found
    assert {name for name, text in found.items() if not text.startswith("done")} <= protected, found
    warning = unconfined_finding(nothing)
    assert warning is not None
    assert (warning.code, warning.severity) == ("unconfined", "warning")
    assert unconfined_finding(linux_support(7, True)) is None
