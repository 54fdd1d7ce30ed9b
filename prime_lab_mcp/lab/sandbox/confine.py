"""Confines the calling process permanently, by means of the kernel: Landlock, seccomp, capabilities and limits.

Two programs use this file, both by its path: the fork server of the workers, whose children confine themselves before
they run environment code, and `python confine.py POLICY -- PROGRAM ARGUMENT...`, which confines itself and becomes the
program. Everything that the process starts inherits the confinement. Standard library only, Python 3.10 and newer.

The file uses ctypes instead of a library because the environment's own interpreter runs it and has none of our
packages. `py-landlock` 0.1 and `landlock` 1.0 (PyPI) support neither the scopes of Landlock ABI 6 nor seccomp;
`sandlock` needs a compiled helper and Linux 6.7 for everything. Sources: landlock(7), Linux 6.18
include/uapi/linux/landlock.h and Documentation/userspace-api/landlock.rst, seccomp(2), capabilities(7).

On macOS the process applies a profile of sandbox(7) instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import platform
import resource
import stat
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

FAILED = 126
"""Exit code of the program when the confinement could not be applied."""

# --- what the kernel offers --------------------------------------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH, _NET_PORT = 1, 2


def landlock_abi() -> int:
    """The version of Landlock's interface; 0 if the kernel has none or forbids it."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def has_seccomp() -> bool:
    """Whether the kernel accepts seccomp filters and this module knows the machine's system calls."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES or sys.maxsize < 2**32:
        return False
    action = ctypes.c_uint32(_ERRNO)
    number = _MACHINES[platform.machine()][1]["seccomp"]
    return bool(ctypes.CDLL(None, use_errno=True).syscall(number, 2, 0, ctypes.byref(action)) == 0)


# --- Landlock ----------------------------------------------------------------------------------------------------

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_MAKE_DEVICES = 1 << 6 | 1 << 11  # MAKE_CHAR, MAKE_BLOCK
_READING = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_BIND, _CONNECT = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2


def _file_rights(abi: int) -> int:
    rights = (1 << 13) - 1
    return rights | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0) | (_IOCTL_DEV if abi >= 5 else 0)


def _syscall(number: int, *arguments: Any) -> int:
    result = int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"system call {number}: {os.strerror(code)}")
    return result


class _Landlock:
    """A Landlock ruleset. Rules are added first, and `apply` then restricts this thread."""

    def __init__(self, *, files: int = 0, ports: int = 0, scopes: int = 0) -> None:
        abi = landlock_abi()
        self._rights = files
        attributes = struct.pack("=QQQ", files, ports, scopes)
        size = 24 if abi >= 6 else 16 if abi >= 4 else 8
        self.ruleset = _syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)

    def path(self, path: str, rights: int) -> None:
        """Allow rights below a path, or on a file. A missing path needs no rule."""
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            allowed = rights & self._rights
            if not stat.S_ISDIR(os.fstat(opened).st_mode):
                allowed &= _OF_FILES
            if allowed:
                rule = struct.pack("=Qi", allowed, opened)
                _syscall(_ADD_RULE, self.ruleset, _PATH_BENEATH, rule, 0)
        finally:
            os.close(opened)

    def ports(self, ports: Iterable[int], rights: int) -> None:
        """Allow rights on TCP ports. A rule names a single port, so a range needs tens of thousands of calls."""
        rule = ctypes.create_string_buffer(struct.pack("=QQ", rights, 0), 16)
        port_of_rule = (ctypes.c_uint64 * 2).from_buffer(rule)
        add = ctypes.CDLL(None, use_errno=True).syscall
        add.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_long]
        at = ctypes.addressof(rule)
        for port in ports:
            port_of_rule[1] = port
            if add(_ADD_RULE, self.ruleset, _NET_PORT, at, 0) != 0:
                raise OSError(ctypes.get_errno(), "a rule for a port was refused")

    def apply(self) -> None:
        _syscall(_RESTRICT_SELF, self.ruleset, 0)


def port_rules(ports: Iterable[int]) -> int | None:
    """Make a ruleset for TCP that allows connections to `ports`, and servers on ports that the kernel chooses.

    Returns its file descriptor, or None if the kernel has no such rules. Making the rules takes longer than applying
    them, so a fork server makes them once.
    """
    if landlock_abi() < 4:
        return None
    rules = _Landlock(files=_REFER, ports=_BIND | _CONNECT)
    rules.path("/", _REFER)  # every ruleset refuses to move files between folders, unless it says otherwise
    rules.ports(ports, _CONNECT)
    rules.ports([0], _BIND)  # 0 asks for any port
    rules.ports(ephemeral_ports(), _BIND | _CONNECT)
    return rules.ruleset


def _apply_landlock(policy: dict[str, Any], ports: int | None) -> None:
    if ports is None and policy["ports"] is not None:
        ports = port_rules(policy["ports"])
    if ports is not None and policy["ports"] is not None:
        _syscall(_RESTRICT_SELF, ports, 0)
    if ports is not None:
        os.close(ports)
    abi = landlock_abi()
    rules = _Landlock(files=_file_rights(abi), scopes=_ABSTRACT_SOCKETS | _SIGNALS if abi >= 6 else 0)
    for path in policy["read"]:
        rules.path(path, _READING)
    for path in policy["write"]:
        if path == SHARED_MEMORY or not os.path.islink(path):  # environment code may have replaced its own folder
            rules.path(path, ~_MAKE_DEVICES)
    for path in _DEVICES:
        rules.path(path, _READ_FILE | _WRITE_FILE)
    rules.apply()
    os.close(rules.ruleset)


_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def ephemeral_ports() -> range:
    """The range of ports from which the kernel chooses for servers without a fixed port and for outgoing
    connections."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as bounds:
            low, high = map(int, bounds.read().split())
    except (OSError, ValueError):
        low, high = 32768, 60999
    return range(low, high + 1)


# --- seccomp -----------------------------------------------------------------------------------------------------

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _GREATER_EQUAL, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ANY_BIT = 0x45
_NAMESPACES = 0x7E020080  # CLONE_NEWTIME, -NS, -CGROUP, -UTS, -IPC, -USER, -PID, -NET
_FAST_OPEN = 0x20000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FILE_IOCTLS = (
    0x40086602, 0x40046602, 0x401C5820, 0x40087602, 0x40047602, 0x40806685, 0x800C6613,
)  # fmt: skip
"""FS_IOC_SETFLAGS and its form of 32 bits, FSSETXATTR, SETVERSION and its form of 32 bits, ENABLE_VERITY and
SET_ENCRYPTION_POLICY (linux/fs.h, fsverity.h, fscrypt.h). They need no right to write the file."""
_SET_LEASE, _NOTIFY = 1024, 1026
"""Commands of fcntl with which a process delays or watches what others do with a file or folder."""

_FORBIDDEN = (
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "process_madvise", "perf_event_open",
    "userfaultfd", "bpf", "io_uring_setup", "io_uring_enter", "io_uring_register", "add_key", "request_key",
    "keyctl", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig",
    "fsmount", "fspick", "mount_setattr", "setns", "unshare", "name_to_handle_at", "open_by_handle_at",
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff",
    "acct", "quotactl", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "sethostname",
    "setdomainname", "syslog", "iopl", "ioperm", "vhangup", "migrate_pages", "move_pages", "shmget", "shmat", "shmctl",
    "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink",
    "inotify_add_watch", "fanotify_init", "open_tree_attr", "quotactl_fd", "process_mrelease",
)  # fmt: skip
"""System calls that environment code does not need: debugging other processes, kernel keys, mounts, namespaces, control
of the machine, System V shared memory and message queues, which outlive all processes and have no path, and watches of
files, which Landlock does not check and which tell the names of files that others open. Shared memory and queues that
other programs made are found by small numbers, so every call that takes one is closed, not only those that make one."""
_MODE_POSITIONS = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
"""System calls that change permissions, with the position of the mode argument. Landlock does not check these calls,
and a filter cannot see the path. The filter lets a call through if the owner keeps reading, writing and executing and
nobody else may write: honest code needs the call to make programs, and other calls could close the user's folders. They
succeed without effect, because programs that copy files set the mode of the original."""
_MODE_BITS, _OWNER_MAY_ALL = 0o7722, 0o700
_WITHOUT_EFFECT = (
    "chown", "lchown", "fchown", "fchownat", "utime", "utimes", "futimesat", "utimensat",
)  # fmt: skip
"""System calls that change owner and times of any file. They succeed without effect, as copying programs expect."""
_EXTENDED = (
    "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat",
    "file_setattr",
)  # fmt: skip
"""System calls that change extended attributes. They fail as on file systems without attributes (ENOTSUP)."""
_OWN_PROCESS_ONLY = {
    "prlimit64": 0, "sched_setaffinity": 0, "sched_setscheduler": 0, "sched_setparam": 0, "sched_setattr": 0,
}  # fmt: skip
"""System calls that change limits or priority of a process, with the position of the process id. Only id 0 is allowed,
the calling process."""
_OWN_PRIORITY_ONLY = {"setpriority": 0, "ioprio_set": 1}
"""System calls that change priorities, with the first argument that means a process. Other values mean a group of
processes or all of a user, also with id 0. The id is the second argument."""

_X86 = {
    "socket": 41, "sendto": 44, "sendmsg": 46, "sendmmsg": 307, "clone": 56, "clone3": 435, "ioctl": 16, "seccomp": 317,
    "fcntl": 72, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_getfd": 438, "kcmp": 312,
    "process_madvise": 440, "perf_event_open": 298, "userfaultfd": 323, "bpf": 321, "io_uring_setup": 425,
    "io_uring_enter": 426, "io_uring_register": 427, "add_key": 248, "request_key": 249, "keyctl": 250, "mount": 165,
    "umount2": 166, "pivot_root": 155, "chroot": 161, "open_tree": 428, "move_mount": 429, "fsopen": 430,
    "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442, "setns": 308, "unshare": 272,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "init_module": 175, "finit_module": 313, "delete_module": 176,
    "kexec_load": 246, "kexec_file_load": 320, "reboot": 169, "swapon": 167, "swapoff": 168, "acct": 163,
    "quotactl": 179, "settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305,
    "sethostname": 170, "setdomainname": 171, "syslog": 103, "iopl": 172, "ioperm": 173, "vhangup": 153,
    "migrate_pages": 256, "move_pages": 279, "prlimit64": 302, "sched_setaffinity": 203, "sched_setscheduler": 144,
    "sched_setparam": 142, "sched_setattr": 314, "setpriority": 141, "ioprio_set": 251, "chmod": 90, "fchmod": 91,
    "fchmodat": 268, "fchmodat2": 452, "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260, "utime": 132,
    "utimes": 235, "futimesat": 261, "utimensat": 280, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190,
    "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "setxattrat": 463, "removexattrat": 466,
    "file_setattr": 469, "socketpair": 53, "shmget": 29, "semget": 64, "msgget": 68, "mq_open": 240,
    "shmat": 30, "shmctl": 31, "semop": 65, "semctl": 66, "semtimedop": 220, "msgsnd": 69, "msgrcv": 70, "msgctl": 71,
    "mq_unlink": 241, "inotify_add_watch": 254, "fanotify_init": 300,
    "open_tree_attr": 467, "quotactl_fd": 443, "process_mrelease": 448,
}  # fmt: skip
_ARM = {
    "socket": 198, "sendto": 206, "sendmsg": 211, "sendmmsg": 269, "clone": 220, "clone3": 435, "ioctl": 29,
    "fcntl": 25, "seccomp": 277, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "pidfd_getfd": 438,
    "kcmp": 272,
    "process_madvise": 440, "perf_event_open": 241, "userfaultfd": 282, "bpf": 280, "io_uring_setup": 425,
    "io_uring_enter": 426, "io_uring_register": 427, "add_key": 217, "request_key": 218, "keyctl": 219, "mount": 40,
    "umount2": 39, "pivot_root": 41, "chroot": 51, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431,
    "fsmount": 432, "fspick": 433, "mount_setattr": 442, "setns": 268, "unshare": 97, "name_to_handle_at": 264,
    "open_by_handle_at": 265, "init_module": 105, "finit_module": 273, "delete_module": 106, "kexec_load": 104,
    "kexec_file_load": 294, "reboot": 142, "swapon": 224, "swapoff": 225, "acct": 89, "quotactl": 60,
    "settimeofday": 170, "clock_settime": 112, "adjtimex": 171, "clock_adjtime": 266, "sethostname": 161,
    "setdomainname": 162, "syslog": 116, "vhangup": 58, "migrate_pages": 238, "move_pages": 239, "prlimit64": 261,
    "sched_setaffinity": 122, "sched_setscheduler": 119, "sched_setparam": 118, "sched_setattr": 274,
    "setpriority": 140, "ioprio_set": 30, "fchmod": 52, "fchmodat": 53, "fchmodat2": 452, "fchownat": 54, "fchown": 55,
    "utimensat": 88, "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15,
    "fremovexattr": 16, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469,
    "socketpair": 199, "shmget": 194, "semget": 190, "msgget": 186, "mq_open": 180,
    "shmat": 196, "shmctl": 195, "semop": 193, "semctl": 191, "semtimedop": 192, "msgsnd": 189, "msgrcv": 188,
    "msgctl": 187, "mq_unlink": 181, "inotify_add_watch": 27, "fanotify_init": 262,
    "open_tree_attr": 467, "quotactl_fd": 443, "process_mrelease": 448,
}  # fmt: skip
_MACHINES = {"x86_64": (0xC000003E, _X86), "aarch64": (0xC00000B7, _ARM)}
"""For each machine type, the audit number of its architecture, and its system calls (Linux 6.18,
arch/*/.../syscall*.tbl)."""

_NEWEST = 469
"""The highest number of a system call in Linux 6.18 (file_setattr, the same on all machines). Later ones do not exist
for confined code, because nobody has read yet what they open."""

Instruction = tuple[int, int, int, int]


def _argument(place: int) -> Instruction:
    return (_LOAD, 0, 0, 16 + 8 * place)


def _refuse(code: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | code)


_PASS: Instruction = (_RETURN, 0, 0, _ALLOW)


def _rules(unix_sockets: bool) -> Iterator[tuple[str, list[Instruction]]]:
    """Yield each system call that has a rule, with the instructions that decide about the call."""
    for name in _FORBIDDEN:
        yield name, [_refuse(errno.EPERM)]
    for name, place in _MODE_POSITIONS.items():
        instructions = [
            _argument(place),
            (_AND, 0, 0, _MODE_BITS),
            (_EQUAL, 1, 0, _OWNER_MAY_ALL),
            _refuse(0),
            _PASS,
        ]
        yield name, instructions
    for name in _WITHOUT_EFFECT:
        yield name, [_refuse(0)]
    for name in _EXTENDED:
        yield name, [_refuse(errno.ENOTSUP)]
    # glibc falls back to clone, whose flags can be read; those of clone3 lie in memory.
    yield "clone3", [_refuse(errno.ENOSYS)]
    yield "clone", [_argument(0), (_ANY_BIT, 0, 1, _NAMESPACES), _refuse(errno.EPERM), _PASS]
    for name, place in _OWN_PROCESS_ONLY.items():
        yield name, [_argument(place), (_EQUAL, 1, 0, 0), _refuse(errno.EPERM), _PASS]
    for name, process in _OWN_PRIORITY_ONLY.items():
        own = [_argument(0), (_EQUAL, 0, 2, process), _argument(1), (_EQUAL, 1, 0, 0), _refuse(errno.EPERM), _PASS]
        yield name, own
    flags = [i for request in _FILE_IOCTLS for i in ((_EQUAL, 0, 1, request), _refuse(errno.ENOTTY))]
    terminal = [(_EQUAL, 1, 0, _TIOCSTI), (_EQUAL, 0, 1, _TIOCLINUX), _refuse(errno.EPERM)]
    yield "ioctl", [_argument(1), *flags, *terminal, _PASS]
    yield "fcntl", [_argument(1), (_EQUAL, 1, 0, _SET_LEASE), (_EQUAL, 0, 1, _NOTIFY), _refuse(errno.EPERM), _PASS]
    for name, place in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        # TCP fast open makes a connection that Landlock does not check before Linux 6.19.
        yield name, [_argument(place), (_ANY_BIT, 0, 1, _FAST_OPEN), _refuse(errno.EPERM), _PASS]
    # A datagram socket of a pair can still be connected to any path, and Linux makes one for SOCK_RAW too. A stream (1)
    # or packets in sequence (5) stay in their pair.
    pair = [_argument(1), (_AND, 0, 0, 0xF), (_EQUAL, 2, 0, 1), (_EQUAL, 1, 0, 5), _refuse(errno.EACCES), _PASS]
    yield "socketpair", pair
    # TCP over IPv4 and IPv6, and nothing else: no UDP, raw, netlink and packet sockets, no MPTCP (which Landlock's
    # port rules do not cover). Landlock cannot yet refuse Unix sockets by path, behind which are Docker and others.
    family, kind, protocol = _argument(0), _argument(1), _argument(2)
    yield (
        "socket",
        [
            *([family, (_EQUAL, 0, 1, 1), _PASS] if unix_sockets else []),
            family,
            (_EQUAL, 2, 0, 2),
            (_EQUAL, 1, 0, 10),
            _refuse(errno.EACCES),
            kind,
            (_AND, 0, 0, 0xF),
            (_EQUAL, 1, 0, 1),
            _refuse(errno.EACCES),
            protocol,
            (_EQUAL, 2, 0, 0),
            (_EQUAL, 1, 0, 6),
            _refuse(errno.EACCES),
            _PASS,
        ],
    )


def seccomp_filter(machine: str, unix_sockets: bool) -> bytes:
    """Compile the seccomp filter for one architecture to classic BPF."""
    audit, numbers = _MACHINES[machine]
    program: list[Instruction] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, audit),
        _refuse(errno.ENOSYS),  # another architecture's system calls have other numbers
        (_LOAD, 0, 0, 0),
    ]
    # Programs take the answer for an older kernel's. The calls of x32, from 0x40000000 on, are among them.
    program += [(_GREATER_EQUAL, 0, 1, _NEWEST + 1), _refuse(errno.ENOSYS)]
    for name, body in _rules(unix_sockets):
        if name in numbers:
            program += [(_EQUAL, 0, len(body), numbers[name]), *body]
    program.append(_PASS)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def _apply_seccomp(unix_sockets: bool) -> None:
    code = seccomp_filter(platform.machine(), unix_sockets)
    program = _Program(len(code) // 8, code)
    _prctl(22, 2, ctypes.addressof(program))  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


# --- namespaces --------------------------------------------------------------------------------------------------

_NEW_MOUNTS, _NEW_USER, _NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
_PRIVATE, _RECURSIVE, _NO_SET_USER, _NO_DEVICES = 1 << 18, 1 << 14, 2, 4
SHARED_MEMORY = "/dev/shm"


def _enter_empty_network() -> None:
    """Enter a network namespace whose only interface, loopback, is down. Raises OSError if that is forbidden."""
    _enter_namespace(_NEW_NETWORK)


def _enter_own_shared_memory() -> None:
    """Mount an empty /dev/shm for this process and its descendants only. Raises OSError if that is forbidden.

    The kernel frees its content when the last of these processes ends.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _enter_namespace(_NEW_MOUNTS)
    at = SHARED_MEMORY.encode()
    for arguments in (
        (b"none", b"/", None, _RECURSIVE | _PRIVATE, None),  # nothing that is mounted here shows outside
        (b"shm", at, b"tmpfs", _NO_SET_USER | _NO_DEVICES, b"mode=1777"),
    ):
        source, target, kind, flags, data = arguments
        if libc.mount(source, target, kind, ctypes.c_ulong(flags), data) != 0:
            raise OSError(ctypes.get_errno(), "mount")


def _enter_namespace(kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(kind) == 0:
        return
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_USER | kind) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    dumpable = libc.prctl(3, 0, 0, 0, 0)
    _prctl(4, 1)  # the files of a process that is not dumpable belong to root
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    _prctl(4, dumpable)


def leave_network() -> bool:
    """Give up the whole network, loopback included. Returns False and changes nothing if the kernel refuses."""
    return _entered(_enter_empty_network)


def own_shared_memory() -> bool:
    """Get a private /dev/shm. Returns False and changes nothing if the kernel refuses."""
    return os.path.isdir(SHARED_MEMORY) and _entered(_enter_own_shared_memory)


def _entered(enter: Callable[[], None]) -> bool:
    pid = os.fork()  # A namespace cannot be left, so another process tries first.
    if pid == 0:
        code = 1
        try:
            enter()
            code = 0
        except OSError:
            pass
        finally:
            os._exit(code)
    if os.waitpid(pid, 0)[1] != 0:
        return False
    enter()
    return True


# --- the rest of Linux -------------------------------------------------------------------------------------------

_CAPABILITIES = 0b11011
"""The capabilities that root keeps, for its own files: CHOWN, DAC_OVERRIDE, FOWNER, FSETID. All others are dropped."""


def _prctl(option: int, *arguments: int) -> None:
    converted = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    if ctypes.CDLL(None, use_errno=True).prctl(option, *converted) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def not_dumpable() -> None:
    """Keep other processes of the user from tracing this one, and from reading its memory and variables in /proc."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            _prctl(4, 0)


def _drop_capabilities() -> None:
    """Drop root's capabilities beyond files. A process without privileges has none to drop."""
    for number in range(64):
        if not _CAPABILITIES >> number & 1:
            try:
                _prctl(24, number)  # PR_CAPBSET_DROP
            except OSError:
                break  # past the last one, or not permitted
    header = struct.pack("=Ii", 0x20080522, 0)
    data = ctypes.create_string_buffer(24)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capget(header, data) != 0:
        return
    low_effective, low_permitted, _, *_ = struct.unpack("=6I", data.raw)
    fewer = struct.pack("=6I", low_effective & _CAPABILITIES, low_permitted & _CAPABILITIES, 0, 0, 0, 0)
    if libc.capset(header, fewer) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"capset: {os.strerror(code)}")


def set_limits(limits: Iterable[tuple[int, int]]) -> None:
    """Set resource limits (kind, value), never above the present hard limits."""
    for kind, value in limits:
        _, hard = resource.getrlimit(kind)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (bound, bound))


# --- macOS -------------------------------------------------------------------------------------------------------


def sandbox_profile(policy: dict[str, Any]) -> str:
    """Write the profile for sandbox(7) of macOS. `profile_denies` must show that the machine enforces it.

    The last rule that matches decides, and a rule without a filter matches everything. Filters are as in the profiles
    in /System/Library/Sandbox/Profiles; hosts are `*` or `localhost`. A socket of mDNSResponder resolves names.
    """

    def below(paths: Iterable[str]) -> str:
        full = (os.path.realpath(path).replace("\\", "\\\\").replace('"', '\\"') for path in paths)
        return " ".join(f'(subpath "{path}")' for path in full)

    readable = [*policy["read"], *policy["write"]]
    lines = [
        "(version 1)",
        "(allow default)",
        '(deny file-read-data (subpath "/Users") (subpath "/private/var/root") (subpath "/Volumes"))',
        f"(deny file-read-data {below(policy['hidden'])})" if policy["hidden"] else "",
        "(deny file-write*)",
        f"(allow file-read* {below(readable)})" if readable else "",
        f'(allow file-write* {below(policy["write"])} (literal "/dev/null") (literal "/dev/zero"))',
        "(deny signal (target others))",
        "(allow signal (target same-sandbox))",
        "(deny process-info* (target others))",
        "(allow process-info* (target same-sandbox))",
        "(deny mach-priv-task-port)",
    ]
    if policy["ports"] is not None:
        lines += [
            "(deny network-outbound)",
            '(allow network-outbound (remote tcp "localhost:*"))',
            *(f'(allow network-outbound (remote tcp "*:{port}"))' for port in policy["ports"]),
        ]
    if policy["ports"]:
        lines.append('(allow network-outbound (literal "/private/var/run/mDNSResponder"))')
    return "\n".join(line for line in lines if line)


def profile_denies() -> bool:
    """Whether the machine enforces a profile: a child process under a profile must fail to read this file's folder."""
    folder = os.path.dirname(os.path.abspath(__file__))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _apply_profile({"read": [], "write": [], "ports": [], "hidden": [folder]})
            try:
                with open(__file__, "rb"):
                    code = 2
            except PermissionError:
                code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def _apply_profile(policy: dict[str, Any]) -> None:
    library = ctypes.CDLL("/usr/lib/libSystem.dylib")
    error = ctypes.c_char_p()
    library.sandbox_init.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_char_p)]
    if library.sandbox_init(sandbox_profile(policy).encode(), 0, ctypes.byref(error)) != 0:
        raise OSError(errno.EPERM, f"sandbox_init: {(error.value or b'').decode('utf-8', 'replace')}")


# --- all of it ---------------------------------------------------------------------------------------------------


def confine(policy: dict[str, Any], ports: int | None = None) -> None:
    """Confine this process and all processes that it starts. Raises OSError if a layer of the policy cannot be applied.

    `policy` has the paths to `read` and to `write`, the TCP `ports` to connect to (None: no rules; empty: no network),
    whether Unix sockets may be made, and the `layers` that the kernel supports. `ports` is the ruleset that
    `port_rules` made for these ports.
    """
    layers = policy["layers"]
    if sys.platform == "darwin":
        if "profile" in layers:
            _apply_profile(policy)
        return
    if not layers:
        return
    if policy["ports"] == []:
        leave_network()  # if refused, the port rules still hold, which leave ephemeral ports open
    own_shared_memory()  # if refused, the machine's stays writable, because programs keep locks there
    _prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
    if "landlock" in layers:
        _apply_landlock(policy, ports)
    _drop_capabilities()
    if "seccomp" in layers:
        _apply_seccomp(policy["unix_sockets"])


def _limits_of(policy: dict[str, Any]) -> list[tuple[int, int]]:
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, policy["file_bytes"])]
    if policy["memory_bytes"] and sys.platform == "linux":
        limits.append((resource.RLIMIT_DATA, policy["memory_bytes"]))
    return limits


def main(argv: list[str]) -> int:
    """Confine this process by the JSON in `argv[0]` and become the program that follows `--`."""
    policy, separator, *command = argv
    if separator != "--" or not command:
        return 2
    try:
        parsed = json.loads(policy)
        set_limits(_limits_of(parsed))
        confine(parsed)
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"the program could not be confined: {error}\n")
        return FAILED
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return FAILED if error.errno != errno.ENOENT else 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
