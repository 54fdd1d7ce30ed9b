"""A warm program does what the same program started anew does: output, exit code, files, signals."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import anyio
import pyarrow
import pytest
from packaging.requirements import Requirement
from pyarrow import parquet

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.datasets import dataset_program
from prime_lab_mcp.lab.datasets.scan import DatasetRequest
from prime_lab_mcp.lab.environment.requirements import hidden_modules
from prime_lab_mcp.lab.evals.runner.command import OLDER_PROGRAM
from prime_lab_mcp.lab.interpreter import Interpreter
from prime_lab_mcp.lab.prime.program import SEVERAL_COMMANDS
from prime_lab_mcp.lab.worker.host import Case, Worker
from prime_lab_mcp.lab.worker.pool import Workers
from tests.support.interpreters import older
from tests.support.warm.hook import READ_AT_IMPORT
from tests.support.warm.plugin import CARRIED, PLACE, REAL

Programs = Callable[[bool], Path]
HANGS = """
import os, subprocess, sys, time
from pathlib import Path
{top}
subprocess.Popen(["sleep", "100"])
subprocess.Popen(["sleep", "100"], start_new_session={session})
Path("started").write_text(str(os.getpid()))
time.sleep(100)
"""
CONFIG = {
    "env": {"taskset": {"id": "absent-taskset"}},
    "model": "m",
    "push": False,
    "num_rollouts": 1,
    "rich": None,
    "client": {"base_url": "http://127.0.0.1:9/v1", "api_key_var": "NO_KEY"},
}

pytestmark = pytest.mark.slow


@pytest.fixture
def places(request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """Folders with the programs: warm and cold."""
    warm = request.config.stash.get(PLACE, None)
    if warm is None:
        pytest.skip("nothing is warm in this session")
    return warm / "bin", Path(REAL[0]).parent


def variables(home: Path, **more: str) -> dict[str, str]:
    home.mkdir(parents=True, exist_ok=True)
    fixed = {"PYTHONUTF8": "1", "PRIME_DISABLE_VERSION_CHECK": "1", "NO_COLOR": "1", "COLUMNS": "300", "TERM": "dumb"}
    return {"HOME": str(home), "PATH": os.environ["PATH"], **fixed, **more}


def seen(
    bin: Path, scratch: Path, *argv: str, files: Mapping[str, str] | None = None, **more: str
) -> tuple[object, ...]:
    """What a run of the program leaves: exit code, both outputs and the files, without its paths."""
    for name, text in (files or {}).items():
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).write_text(text, encoding="utf-8")
    words = [word.replace("BIN", str(bin)) for word in argv]
    done = subprocess.run(
        words,
        cwd=scratch,
        env=variables(scratch / "home", **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    written = {
        str(path.relative_to(scratch)): content(path, bin, scratch)
        for path in sorted(scratch.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    return done.returncode, plain(done.stdout, bin, scratch), plain(done.stderr, bin, scratch), written


def content(path: Path, bin: Path, scratch: Path) -> object:
    """Text of a file, or the members of an archive, which has times in it as well."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in sorted(archive.namelist())}
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as packed:
            return sorted((member.name, member.size) for member in packed)
    return plain(path.read_text(encoding="utf-8", errors="replace"), bin, scratch)


def plain(text: str, bin: Path, scratch: Path) -> str:
    text = text.replace(str(bin.parent), "PLACE").replace(str(scratch), "SCRATCH")
    text = re.sub(r"\b(zygote|child)-\d+-\w+", r"\1", text)  # temporary folders
    text = re.sub(r"\d{2}:\d{2}:\d{2}(\.\d+)?|\b[0-9a-f]{8,32}\b", "#", text)
    return re.sub(r"[ ─]+", " ", text)


PRIME = {
    "version": ["--version"],
    "help": ["--help"],
    "no arguments": [],
    "help of a group": ["train", "--help"],
    "not logged in": ["whoami"],
    "not logged in, as JSON": ["env", "list", "-o", "json"],
    "settings": ["config", "view"],
    "a setting is written": ["config", "set-base-url", "http://127.0.0.1:9"],
    "unknown command": ["nonsense"],
    "unknown option": ["env", "push", "--nonsense"],
    "push of no environment": ["env", "push", "--path", "absent"],
    "push without login": ["env", "push", "--path", "package"],
    "a config that is no TOML": ["train", "validate", "broken.toml"],
    "a config that is absent": ["train", "validate", "absent.toml"],
    "an unknown context": ["--context", "nowhere", "whoami"],
}
FILES = {
    "broken.toml": "model = \n",
    "package/pyproject.toml": '[project]\nname = "p"\nversion = "0.1.0"\n',
    "package/p.py": "def load_environment(): ...\n",
}


@pytest.mark.rotate(share=3)
@pytest.mark.parametrize("argv", PRIME.values(), ids=PRIME)
def test_prime_warm_and_cold_agree(argv: list[str], places: tuple[Path, Path], tmp_path: Path) -> None:
    told = [seen(bin, tmp_path / name, "BIN/prime", *argv, files=FILES) for name, bin in zip("wc", places, strict=True)]
    assert told[0] == told[1]


def test_several_commands_of_prime_warm_and_cold_agree(places: tuple[Path, Path], tmp_path: Path) -> None:
    commands = [
        ["config", "view"],
        ["--plain", "whoami"],
        ["env", "list", "-o", "json"],
        ["train", "validate", "a.toml"],
    ]
    ask = ["BIN/python", "-c", SEVERAL_COMMANDS.read_text(encoding="utf-8"), json.dumps(commands)]
    told = [seen(bin, tmp_path / name, *ask) for name, bin in zip("wc", places, strict=True)]
    assert told[0] == told[1]
    assert (told[0][0], str(told[0][1]).count('"code": ')) == (0, len(commands)), told[0]


def test_several_commands_of_prime_are_served_warm(places: tuple[Path, Path], tmp_path: Path) -> None:
    program = SEVERAL_COMMANDS.read_text(encoding="utf-8").partition("\n")[0] + '"""\nimport os\nprint(os.getpid())'
    command = [places[0] / "python", "-c", program, "[]"]
    child = subprocess.Popen(
        command, env=variables(tmp_path / "home"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    out, _ = child.communicate(timeout=60)
    assert int(out) != child.pid


def test_each_run_sees_its_own_variables(places: tuple[Path, Path], tmp_path: Path) -> None:
    for name, address in (("one", "http://127.0.0.1:7"), ("two", "http://127.0.0.1:8")):
        told = [
            seen(bin, tmp_path / name / kind, "BIN/prime", "config", "view", PRIME_BASE_URL=address, COLUMNS="60")
            for kind, bin in zip("wc", places, strict=True)
        ]
        assert told[0] == told[1]
        assert address in str(told[0])
        assert "SCRATCH" in str(told[0])


@pytest.mark.cold
def test_prime_reads_no_variable_at_import_that_its_servers_differ_in_unseen() -> None:
    program = """
import importlib, os, sys, typer.main
importlib.import_module("prime_cli.main")
for name in [name for name in sys.modules if name.startswith("prime_cli")]:
    del sys.modules[name]
read, original = set(), os._Environ.__getitem__

def noted(self, name):
    depth, frame = [], sys._getframe(1)
    while frame:
        depth.append(frame.f_globals.get("__name__"))
        frame = frame.f_back
    if "prime_cli.core.config" not in depth:
        read.add(name)
    return original(self, name)

os._Environ.__getitem__ = noted
typer.main.get_command(importlib.import_module("prime_cli.main").app)
print(*sorted(read))
"""
    done = subprocess.run([REAL[0], "-c", program], capture_output=True, text=True, check=True, timeout=120)
    known = {name.decode() for name in READ_AT_IMPORT["prime"]}
    # Whoever sets one of these two gets no other result from the programs that tests start.
    unused = {"PYDANTIC_DISABLE_PLUGINS", "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"}
    assert set(done.stdout.split()) - unused <= known


def test_what_is_carried_is_there() -> None:
    assert [name for name in CARRIED if not (Path(__file__).parents[1] / name).exists()] == []


def test_the_same_packages_are_installed_warm_and_cold(places: tuple[Path, Path]) -> None:
    told = [hidden_modules(bin / "python", str(bin), [Requirement("packaging")]) for bin in places]
    assert told[0] == told[1]
    assert {"pandas", "verifiers"} <= set(told[0])


VF_EVAL = {
    "help": ["--help"],
    "a config that is absent": ["@", "absent.json"],
    "a config with an unknown field": ["@", "unknown.json"],
    "an environment that is absent": ["@", "absent_env.json"],
}
EVAL_FILES = {"unknown.json": json.dumps({**CONFIG, "nonsense": 1}), "absent_env.json": json.dumps(CONFIG)}


@pytest.mark.rotate(share=4)
@pytest.mark.parametrize("argv", VF_EVAL.values(), ids=VF_EVAL)
def test_vf_eval_warm_and_cold_agree(argv: list[str], places: tuple[Path, Path], tmp_path: Path) -> None:
    told = [
        seen(bin, tmp_path / name, "BIN/python", "BIN/vf-eval", *argv, files=EVAL_FILES)
        for name, bin in zip("wc", places, strict=True)
    ]
    assert told[0] == told[1]


def dataset_request(scratch: Path, kind: str) -> str:
    """What the server asks of the program that reads datasets: about a table of the folder, or a dataset of the Hub."""
    asked = DatasetRequest("someone/sums" if kind == "hub" else "sums.parquet")
    source = {"seconds": 5.0} if kind == "hub" else {"splits": {"train": [str(scratch / "sums.parquet")]}}
    place = {"package": str(Path(dataset_program.__file__).parents[2]), "prompt_column": None, "answer_column": None}
    more = {"main": "train", "held": None, "config": None}
    return json.dumps({"kind": kind, **source, **more, **place, "request": asdict(asked)})


@pytest.mark.parametrize("kind", ["files", "hub"])
def test_the_program_that_reads_datasets_agrees_warm_and_cold(
    kind: str, places: tuple[Path, Path], tmp_path: Path
) -> None:
    told = []
    for name, bin in zip("wc", places, strict=True):
        (tmp_path / name).mkdir()
        rows = {"question": [f"{n} + {n}?" for n in range(40)], "answer": [str(2 * n) for n in range(40)]}
        parquet.write_table(pyarrow.table(rows), tmp_path / name / "sums.parquet")
        request = {"request.json": dataset_request(tmp_path / name, kind)}
        ask = ["BIN/python", "-P", dataset_program.__file__, "request.json", "result.json"]
        told.append(seen(bin, tmp_path / name, *ask, files=request, HF_ENDPOINT="http://127.0.0.1:9"))
    assert told[0] == told[1]
    written = told[0][3]
    assert isinstance(written, dict)
    assert ("inspection" in str(written["result.json"])) == (kind == "files"), told[0]
    assert any(key.name.startswith("datasets,") for key in places[0].parent.glob("*.sock"))


def hanging(bin: Path, scratch: Path, *, top: str = "", session: bool = False) -> tuple[subprocess.Popen[bytes], int]:
    """`vf-eval` inside a taskset that does not end, and the process id that the taskset has."""
    scratch.mkdir()
    (scratch / "absent_taskset.py").write_text(HANGS.format(top=top, session=session), encoding="utf-8")
    (scratch / "eval.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    child = subprocess.Popen(
        [str(bin / "python"), str(bin / "vf-eval"), "@", "eval.json"],
        cwd=scratch,
        start_new_session=True,
        env=variables(scratch / "home", PYTHONPATH=str(scratch), MARK=str(scratch)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    until = time.monotonic() + 60
    while not (scratch / "started").exists() or not (scratch / "started").read_text(encoding="utf-8"):
        assert child.poll() is None, child.stdout and child.stdout.read()
        assert time.monotonic() < until
        time.sleep(0.02)
    return child, int((scratch / "started").read_text(encoding="utf-8"))


def gone(pid: int, seconds: float = 0.0) -> bool:
    until = time.monotonic() + seconds
    while True:
        with suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            if state not in "ZX":
                if time.monotonic() > until:
                    return False
                time.sleep(0.01)
                continue
        return True


def below(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


@pytest.mark.rotate(share=3, group="ends of a program, warm and cold")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_ends_warm_and_cold_alike(number: int, places: tuple[Path, Path], tmp_path: Path) -> None:
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("whoever started the tests lets them ignore this signal, as nohup does; programs inherit that")
    codes = []
    for name, bin in zip("wc", places, strict=True):
        child, pid = hanging(bin, tmp_path / name)
        os.kill(child.pid, number)
        codes.append(child.wait(30))
        assert gone(pid)
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    assert codes[0] == codes[1]


@pytest.mark.rotate(share=3, group="ends of a program, warm and cold")
def test_a_signal_is_handled_warm_and_cold_alike(places: tuple[Path, Path], tmp_path: Path) -> None:
    top = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: os._exit(7))"
    for name, bin in zip("wc", places, strict=True):
        child, pid = hanging(bin, tmp_path / name, top=top)
        os.kill(child.pid, signal.SIGTERM)
        assert child.wait(30) == 7
        assert gone(pid)


@pytest.mark.rotate(share=3, group="ends of a program, warm and cold")
def test_killing_the_group_ends_the_program_and_its_children_at_that_moment(
    places: tuple[Path, Path], tmp_path: Path
) -> None:
    for name, bin in zip("wc", places, strict=True):
        child, pid = hanging(bin, tmp_path / name)
        started = below(pid)
        assert len(started) == 2
        os.killpg(child.pid, signal.SIGKILL)
        assert child.wait(30) == -signal.SIGKILL
        # The kernel has sent the signal before the parent hears of the end; dying takes the others a moment.
        assert all(gone(p, 1.0) for p in (pid, *started))


@pytest.mark.rotate(share=3, group="ends of a program, warm and cold")
def test_a_kill_of_the_program_itself_is_what_its_parent_hears(places: tuple[Path, Path], tmp_path: Path) -> None:
    for name, bin in zip("wc", places, strict=True):
        child, pid = hanging(bin, tmp_path / name)
        os.kill(pid, signal.SIGKILL)
        assert child.wait(30) == -signal.SIGKILL
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


def test_nothing_is_left_of_a_warm_program_in_sessions_of_its_own(places: tuple[Path, Path], tmp_path: Path) -> None:
    child, pid = hanging(places[0], tmp_path / "w", session=True)
    started = below(pid)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait(30)
    assert all(gone(p, 5.0) for p in (pid, *started))


def test_the_programs_of_a_warm_session_are_warm(places: tuple[Path, Path], tmp_path: Path) -> None:
    child, pid = hanging(places[0], tmp_path / "w")
    assert pid != child.pid
    child.kill()
    child.wait(30)
    assert sys.executable == str(places[0] / "python")


@pytest.mark.cold
def test_a_test_that_is_marked_runs_cold(places: tuple[Path, Path]) -> None:
    assert sys.executable == str(places[1] / "python")


TASKSET = """
import json, os, signal, sys
import verifiers.v1 as vf

PROCESS = {
    "command": [sys.argv, sys.executable, sys.prefix, sys.flags.safe_path, sys.flags.utf8_mode, os.getcwd()],
    "search path": [folder for folder in sys.path if not folder.endswith("site-packages")],
    "variables": dict(os.environ),
    "hash": hash("text"),
    "descriptors": sorted(os.listdir("/dev/fd")),
    "sessions": [os.getsid(0) == os.getpid(), os.getsid(0) == os.getsid(os.getppid())],
    "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
    "mask": os.umask(0o22),
}

class Data(vf.TaskData):
    told: str

class SampleTask(vf.Task[Data]):
    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == "right")

class SampleTaskset(vf.Taskset[SampleTask, vf.TasksetConfig]):
    def load(self):
        for name, value in (*PROCESS.items(), ("modules", sorted({m.split(".")[0] for m in sys.modules}))):
            yield SampleTask(Data(prompt=name, told=json.dumps(value)), self.config.task)

__all__ = ["SampleTaskset"]
"""


@asynccontextmanager
async def environment(bin: Path, scratch: Path) -> AsyncIterator[tuple[Worker, Workers]]:
    """A worker for the taskset above on a zygote of these programs, and its pool."""
    (scratch / "tree").mkdir(parents=True)
    (scratch / "tree" / "sample.py").write_text(TASKSET, encoding="utf-8")
    pool = Workers(Settings(workspace=scratch, state_dir=scratch / "state"))
    interpreter = Interpreter(bin / "python", "0.4.0", "own")
    try:
        async with pool.open(scratch / "tree", "k", interpreter, api="v1", module="sample", hash_seed=7) as worker:
            yield worker, pool
    finally:
        await pool.close()


def left(mark: Path) -> list[str]:
    """Command lines of the processes that have this path among their arguments, variables or folders."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            if str(mark) in told.decode(errors="replace") + os.readlink(entry / "cwd"):
                found.append((entry / "cmdline").read_text(encoding="utf-8"))
    return found


@pytest.mark.anyio
async def test_an_environment_gets_the_same_process_warm_and_cold(places: tuple[Path, Path], tmp_path: Path) -> None:
    told = []
    for name, bin in zip("wc", places, strict=True):
        async with environment(bin, tmp_path / name) as (worker, _):
            rows = (await worker.rows(limit=20, timeout=120)).rows
        values = [plain(str((row.fields or {})["told"]), bin, tmp_path / name) for row in rows]
        told.append([re.sub(r"(zygote|child)-\w{8}", r"\1", value) for value in values])
    *warm, modules = told[0]
    *cold, fewer = told[1]
    assert len(cold) == 8
    assert warm == cold
    assert set(json.loads(fewer)) <= set(json.loads(modules))


@pytest.mark.anyio
async def test_scores_are_the_same_warm_and_cold(places: tuple[Path, Path], tmp_path: Path) -> None:
    told = []
    cases = [Case(reply, 0, [{"role": "assistant", "content": reply}]) for reply in ("right", "wrong")]
    for name, bin in zip("wc", places, strict=True):
        async with environment(bin, tmp_path / name) as (worker, _):
            told.append([scored.reward for scored in await worker.score(cases, timeout=120)])
    assert told == [[1.0, 0.0], [1.0, 0.0]]


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.parametrize("wrapper", [(), (OLDER_PROGRAM,)], ids=["itself", "so that it can be resumed"])
async def test_vf_eval_of_older_verifiers_warm_and_cold_agree(
    places: tuple[Path, Path], tmp_path: Path, wrapper: tuple[Path, ...]
) -> None:
    built = await older()
    script = built.program("vf-eval")
    assert script is not None
    copied = tmp_path / "vf-eval"  # the hook does not know a script at another place
    shutil.copy(script, copied)
    ends = []
    for path in (script, copied):
        run = await anyio.run_process(
            [built.python, *wrapper, path, "absent-environment", "--num-examples", "1"],
            env=variables(tmp_path / "home", COLUMNS="80"),
            cwd=tmp_path,
            check=False,
        )
        # Times differ, and the exception that another one replaces shows the frame that runs the script.
        differing = re.compile(rb'[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.,]+|  File "[^"]*/warm/server.py".*\n.*\n')
        errors = differing.sub(b"", run.stderr).replace(bytes(path), b"vf-eval")
        ends.append((run.returncode, differing.sub(b"", run.stdout), errors))
        assert any("@" in key.name for key in places[0].parent.glob("verifiers@*.sock"))
    assert ends[0] == ends[1]
    assert ends[0][0] != 0


@pytest.mark.anyio
async def test_a_closed_pool_leaves_no_warm_process(places: tuple[Path, Path], tmp_path: Path) -> None:
    async with environment(places[0], tmp_path / "w") as (worker, _):
        await worker.load(timeout=120)
        assert len(left(tmp_path / "w")) >= 4  # the started process, the zygote, a supervisor, a child
    until = time.monotonic() + 10
    while left(tmp_path / "w") and time.monotonic() < until:
        await anyio.sleep(0.05)
    assert left(tmp_path / "w") == []
