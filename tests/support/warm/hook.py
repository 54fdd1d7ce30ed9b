"""Hands a starting program over to the fork server (server.py).

Every Python of the session's environment, and of the interpreters that its tests share (older.py), imports this file
from a `.pth` file, before the program itself. Whatever is
not one of the programs below, and whatever runs in a way that a forked process could not imitate, goes on as it is.

Only built-in modules are imported here: each start pays for this file.
"""

import _signal
import _socket
import marshal
import posix
import sys

FORWARDED = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM, _signal.SIGUSR1, _signal.SIGUSR2)
HARMLESS = {b"PYTHONPATH", b"PYTHONUTF8", b"PYTHONHASHSEED", b"PYTHONDONTWRITEBYTECODE"}
READ_AT_IMPORT = {
    "prime": (
        b"COLUMNS", b"LINES", b"TERM", b"NO_COLOR", b"FORCE_COLOR", b"TTY_COMPATIBLE", b"TTY_INTERACTIVE",
        b"LANGUAGE", b"LC_ALL", b"LC_MESSAGES", b"LANG",
    ),
}  # fmt: skip
"""Variables that a program reads while it is imported: there is one server for each set of their values."""
DATASETS = "/lab/datasets/dataset_program.py"
LONGEST_PATH = 100
"""Of a socket (the kernel takes 107 bytes)."""
LOST = 125
"""Exit code when the fork server is gone."""


def kind_of(root, zygote, wrapper, several, argv):
    """Which warm program this command line starts, if any; `argv` as in `sys.orig_argv`."""
    if argv[1:2] == [f"{root}/bin/prime"]:
        return "prime"
    if argv[1:2] == ["-c"] and argv[2].startswith(several) and argv[0].startswith(f"{root}/bin/"):
        return "prime"
    if argv[1:2] == [f"{root}/bin/vf-eval"]:
        return "verifiers"
    if argv[1:2] == ["-P"] and argv[2].endswith(DATASETS) and argv[0].startswith(f"{root}/bin/"):
        return "datasets"
    starts_zygote = argv[1:2] == ["-P"] and argv[3:] in (["v0"], ["v1"]) and argv[2].endswith("/" + zygote)
    if starts_zygote and argv[3] == "v1":
        return "zygote"
    program = argv[0] if starts_zygote else argv[1] if argv[1:] else ""
    if program.endswith("/" + wrapper) and argv[2:]:
        program = argv[2]
    name = older_interpreter(root, program)
    if name is None:
        return None
    if starts_zygote:
        return f"zygote@{name}"
    return f"verifiers@{name}" if program.endswith("/bin/vf-eval") else None


def older_interpreter(root, program):
    """The name of the shared interpreter that has this program (NAME/venv/bin/PROGRAM), if it is one of the session."""
    parts = program.split("/")
    if parts[-3:-1] != ["venv", "bin"] or len(parts) < 5:
        return None
    try:
        posix.stat(f"{root}/older/{parts[-4]}")
    except OSError:
        return None
    return parts[-4]


def unconfined(argv):
    """The policy and the command line of a program that lab/sandbox/confine.py starts; None and `argv` otherwise."""
    if argv[1:2] == ["-I"] and argv[2].endswith("/lab/sandbox/confine.py") and argv[4:5] == ["--"]:
        return argv[2:4], argv[5:]
    return None, argv


def imitable():
    """Whether a process forked elsewhere can do what this one would: no terminal, no special interpreter."""
    if any(name.startswith(b"PYTHON") and name not in HARMLESS for name in posix.environ):
        return False
    return not any(map(posix.isatty, (0, 1, 2)))


def connected(path):
    client = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        client.connect(path)
    except OSError:
        client.close()
        return None
    return client


def server_for(root, key):
    """A connection to the server of this kind, which is started when it is first wanted."""
    client = connected(f"{root}/{key}.sock")
    if client is None:
        starter = connected(f"{root}/start.sock")
        if starter is None:
            return None
        starter.send(key.encode())
        starter.recv(1)
        starter.close()
        client = connected(f"{root}/{key}.sock")
    return client


def key_of(root, kind):
    """Names the server of this kind that was imported with the variables of this process; None where no name fits."""
    values = [posix.environ.get(name) for name in (b"PYTHONHASHSEED", *READ_AT_IMPORT.get(kind, ()))]
    texts = ["" if value is None else "=" + value.decode("ascii", "replace") for value in values]
    plain = all(letter.isalnum() or letter in "-=._" for text in texts for letter in text)
    key = ",".join([kind, *texts])
    return key if plain and len(f"{root}/{key}.sock") <= LONGEST_PATH else None


def variables_of(key):
    """The other way round: the kind of a server, and the variables that its programs read while they are imported."""
    kind, *texts = key.split(",")
    names = (b"PYTHONHASHSEED", *READ_AT_IMPORT.get(kind, ()))
    return kind, {name.decode(): text[1:] for name, text in zip(names, texts, strict=True) if text}


def hand_over(root, kind, confinement, argv):
    """Let the fork server run the program, and end as it ends. Returns only when there is no server."""
    key = key_of(root, kind)
    client = None if key is None else server_for(root, key)
    if client is None:
        return
    watched, alive = posix.pipe()  # the other end sees this process end, however that happens
    mask = posix.umask(0)
    posix.umask(mask)
    request = marshal.dumps(
        {
            "argv": argv[1:],
            "confinement": confinement,
            "cwd": posix.getcwd(),
            "environ": posix.environ,
            "path": sys.path,
            "prefix": (sys.executable, sys.prefix, sys.exec_prefix),
            "umask": mask,
            "ignored": [int(s) for s in FORWARDED if _signal.getsignal(s) == _signal.SIG_IGN],
            "bytecode": not sys.dont_write_bytecode,
        }
    )
    for number in FORWARDED:
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, lambda got, _: client.send(bytes([got])))
    rights = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1, 2, watched))
    client.sendmsg([len(request).to_bytes(8, "little")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    sent = 0
    while sent < len(request):
        sent += client.send(request[sent:])
    null = posix.open("/dev/null", posix.O_RDWR)
    for fd in (0, 1, 2):
        posix.dup2(null, fd)
    posix.close(watched)
    try:
        ended = int.from_bytes(client.recv(4), "little", signed=True) if alive >= 0 else LOST
    except OSError:
        ended = LOST
    if ended < 0:
        _signal.signal(-ended, _signal.SIG_DFL) if -ended != _signal.SIGKILL else None
        posix.kill(posix.getpid(), -ended)
    posix._exit(ended)


def main(root, zygote, wrapper, several):
    """`zygote` and `wrapper` name the programs that start a zygote and an older vf-eval, `several` is how the text
    begins of the program that runs several commands of prime in one process."""
    confinement, argv = unconfined(sys.orig_argv)
    kind = kind_of(root, zygote, wrapper, several, argv)
    if kind == "zygote" and confinement is not None:
        return  # of another Python, with packages of its own
    if kind is not None and imitable():
        hand_over(root, kind, confinement, argv)
