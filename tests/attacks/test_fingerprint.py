"""Whatever the code can read is part of what was proven: an edit of it after the proof closes the gates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.snapshot import Snapshot, take_snapshot
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder
from tests.property.world import PYPROJECT, World

NAMED = PYPROJECT.replace('description = "Sums."', 'description = "Sums."\ntags = ["sums"]')
PROOF = ("check_environment", "test_reward", "run_eval", "check_reward_distribution")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def sums(world: World, code: str = "", **files: str) -> Path:
    """The environment `sums` with more code in its taskset and more files."""
    folder = world.write("one", "sums")
    (folder / "pyproject.toml").write_text(NAMED, encoding="utf-8")
    module = folder / "sums" / "taskset.py"
    module.write_text(module.read_text(encoding="utf-8") + code, encoding="utf-8")
    for name, text in files.items():
        (folder / "sums" / name.replace("_md", ".md")).write_text(text, encoding="utf-8")
    return folder


def prove(world: World) -> None:
    server = world.server("one")
    for tool in PROOF:
        assert world.call(server, tool, environment="sums").status == "passed"


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("sums/rules.md", "strict", "lenient"),
        ("pyproject.toml", 'description = "Sums."', 'description = "lenient"'),
        ("pyproject.toml", '"sums"]', '"lenient"]'),
    ],
    ids=["markdown-in-the-package", "description", "tags"],
)
def test_an_edit_of_a_text_that_the_code_can_read_closes_the_push(world: World, file: str, old: str, new: str) -> None:
    folder = sums(world, rules_md="strict\n")
    prove(world)
    replaced(folder / file, old, new)
    report = world.call(world.server("one"), "push_environment", environment="sums")
    assert report.status == "blocked"
    assert {unmet.tool for unmet in report.unmet} == {"test_reward", "check_reward_distribution"}
    assert world.pushes() == []


def test_an_edit_of_the_named_readme_or_of_the_version_leaves_the_proof_standing(world: World) -> None:
    folder = sums(world)
    prove(world)
    replaced(folder / "README.md", "# Sums", "# All sums")
    replaced(folder / "pyproject.toml", "0.1.0", "0.1.1")
    assert world.call(world.server("one"), "push_environment", environment="sums").status == "passed"


READERS = {
    "pathlib": "RULES = (vf.Path(__file__).parent / 'README.md').read_text()",
    "concatenated": "NAME = 'REA'\nRULES = open(NAME + 'DME' + '.' + 'md').read()",
    "joined": "RULES = open(''.join(['read', 'me.md'])).read()",
    "reversed": "RULES = open('dm.EMDAER'[::-1]).read()",
    "numbers": "RULES = open(bytes([82, 69, 65, 68, 77, 69]).decode() + '.md').read()",
    "hexadecimal": "RULES = open(bytes.fromhex('524541444d45').decode() + '.md').read()",
    "listed": "from pathlib import Path\nRULES = [p.read_text() for p in Path(__file__).parent.parent.glob('*.md')]",
    "walked": "import os\nRULES = list(os.walk(os.path.dirname(os.path.dirname(__file__))))",
    "metadata": "from importlib import metadata\nRULES = metadata.metadata('sums')['Description']",
    "version": "from importlib.metadata import version as v\n__version__ = v('sums')",
    "version by name": "from importlib.metadata import version\n__version__ = version(__package__)",
    "attribute": "import importlib\nRULES = getattr(importlib, 'meta' + 'data')",
    "pkg_resources": "import pkg_resources\nRULES = pkg_resources.get_distribution('sums').version",
    "manifest": "import tomllib\nRULES = tomllib.load(open('pyproject.toml', 'rb'))",
    "dist-info": "RULES = open('../sums-0.1.0.dist-info/METADATA').read()",
    "name from data": (
        "import json\nfrom pathlib import Path\nHERE = Path(__file__).parent\n"
        "RULES = (HERE.parent / json.loads((HERE / 'n.json').read_text())[0]).read_text()"
    ),
    "decoded": "import codecs\nfrom pathlib import Path\n"
    "RULES = Path(__file__).parents[1].joinpath(codecs.decode('ERNQZR.zq', 'rot13')).read_text()",
    "walked with descriptors": "import os\nRULES = list(os.fwalk(os.path.dirname(os.path.dirname(__file__))))",
    "copied": "import shutil\nfrom pathlib import Path\nshutil.copytree(Path(__file__).parent.parent, '/tmp/all')",
    "computed function": "import os\nfrom pathlib import Path\n"
    "RULES = getattr(os, 'list' + 'dir')(Path(__file__).parent.parent)",
    "alias of a function": "from glob import glob as g\nfrom pathlib import Path\n"
    "RULES = g(str(Path(__file__).parent.parent / '*.md'))",
    "another program": "import subprocess\nfrom pathlib import Path\nROOT = Path(__file__).parent.parent\n"
    "subprocess.run(['grep', '-r', 'lenient', str(ROOT)])",
    "module of a module": "import verifiers\nV = verifiers.utils.importlib.metadata.version('sums')",
    "table of modules": "import sys\nV = sys.modules['importlib'].metadata.version('sums')",
    "site-packages": "import sysconfig\nfrom pathlib import Path\n"
    "RULES = list(Path(sysconfig.get_paths()['purelib']).rglob('*'))",
    "its own code object": "import os\nHOME = (lambda: 0).__code__.co_filename\n"
    "RULES = [open(HOME.rsplit('/', n)[0] + NAMES[0]) for n in (1, 2)]",
    "a computed name of the code object": "HOME = getattr((lambda: 0).__code__, 'co_' + 'filename')",
    "inspect": "import inspect\nHOME = inspect.getsourcefile(vf)",
    "package data": "import pkgutil\nRULES = pkgutil.get_data(__package__, NAMES[0])",
    "package data by name": "from pkgutil import get_data\nRULES = get_data(__package__, NAMES[0])",
    "lines": "import linecache\nRULES = linecache.getlines(NAMES[0])",
    "a decoded name that is opened elsewhere": "import codecs\nNAME = codecs.decode('ERNQZR.zq', 'rot13')\n"
    "def read(path): return open(path)",
    "another base": "import base64\nNAME = base64.b85decode(b'Oh~L1Q2s{')\ndef read(path): return open(path)",
    "run text": "exec(open('sums/rules.md').read())",
}


def snapshot(folder: Path) -> Snapshot:
    return take_snapshot(EnvironmentFolder("sums", folder, "environments/sums"), folder.parent.parent / "snapshots")


@pytest.mark.parametrize("code", READERS.values(), ids=READERS)
def test_code_that_reads_its_readme_or_its_metadata_makes_both_a_part_of_source(world: World, code: str) -> None:
    folder = sums(world, f"\n{code}\n", rules_md="open('README.md')\n")
    before = snapshot(folder)
    assert before.own_files_reader is not None
    replaced(folder / "README.md", "# Sums", "# All sums")
    readme = snapshot(folder)
    replaced(folder / "pyproject.toml", "0.1.0", "0.1.1")
    assert len({before.source, readme.source, snapshot(folder).source}) == 3


INNOCENT = {
    "another distribution": "from importlib.metadata import PackageNotFoundError, version\nVF = version('verifiers')",
    "own data": "from pathlib import Path\nROWS = list((Path(__file__).parent / 'data').glob('*.jsonl'))",
    "data of a split": "from pathlib import Path\nDATA = Path(__file__).parent / 'data'\n"
    "def rows(split): return (DATA / f'{split}.jsonl').read_text()",
    "data beside the package": "from pathlib import Path\nROOT = Path(__file__).resolve().parent.parent\n"
    "def rows(split): return (ROOT / 'data' / f'{split}.jsonl').open()",
    "numbers": "def share(right, total): return right / total",
    "search path": "import os, sys\nsys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))",
    "docstring": "def rows() -> None:\n    '''As the README says.'''",
    "regex": "import re\nNUMBER = re.compile(r'\\d+')",
    "letters": "LETTERS = [chr(65 + i) for i in range(4)]",
    "decoded data": "import base64\ndef picture(row, path): return base64.b64decode(row['png']), path.open()",
    "unquoted data": "from urllib.parse import unquote\ndef text(row, path): return unquote(row), open(path)",
    "a function of that name": "def get_data(path): return path.read_bytes()\nROWS = get_data",
    "a given path": "from pathlib import Path\ndef rows(path: Path): return path.read_text(encoding='utf-8')",
    "run code": "exec('1 + 1')",
}


@pytest.mark.parametrize("code", INNOCENT.values(), ids=INNOCENT)
def test_code_that_reads_neither_keeps_its_proof_after_a_readme_edit(world: World, code: str) -> None:
    folder = sums(world, f"\n{code}\n")
    before = snapshot(folder)
    replaced(folder / "README.md", "# Sums", "# All sums")
    assert before.own_files_reader is None
    assert snapshot(folder).source == before.source


@pytest.mark.parametrize("named", ['readme = "sums/taskset.py"', 'readme = { file = "sums/rules.md" }', ""])
def test_only_the_readme_at_the_top_that_the_project_names_is_left_out(world: World, named: str) -> None:
    folder = sums(world, rules_md="strict\n")
    replaced(folder / "pyproject.toml", 'readme = "README.md"', named)
    sources = [snapshot(folder).source]
    for file in ("README.md", "sums/rules.md", "sums/taskset.py"):
        (folder / file).write_text((folder / file).read_text(encoding="utf-8") + "\n# more\n", encoding="utf-8")
        sources.append(snapshot(folder).source)
    assert len(set(sources)) == 4


def test_a_readme_that_the_build_puts_into_the_package_is_source(world: World) -> None:
    folder = sums(world)
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as manifest:
        manifest.write('[tool.hatch.build.targets.wheel.force-include]\n"README.md" = "sums/rules.txt"\n')
    assert "another name" in (snapshot(folder).own_files_reader or "")


def test_a_version_that_the_code_reads_is_raised_before_the_proof_and_not_by_the_push(world: World) -> None:
    sums(world, "\nfrom importlib.metadata import version\n__version__ = version('sums')\n")
    prove(world)
    server = world.server("one")
    assert world.call(server, "push_environment", environment="sums").status == "passed"
    folder = world.workspace("one") / "environments" / "sums"
    (folder / "sums" / "more.py").write_text("MORE = 1\n", encoding="utf-8")
    prove(world)
    refused = world.call(server, "push_environment", environment="sums", bump="patch")
    assert (refused.status, refused.findings[0].code) == ("failed", "version-is-source")
    assert "0.1.1" in refused.findings[0].fix
    replaced(folder / "pyproject.toml", "0.1.0", "0.1.1")
    prove(world)
    assert world.call(server, "push_environment", environment="sums").status == "passed"
    assert [push["version"] for push in world.pushes()] == ["0.1.0", "0.1.1"]


def test_evidence_of_an_older_definition_of_source_proves_nothing_and_says_why(world: World) -> None:
    sums(world)
    server = world.server("one")
    disk = world.on_disk("one", "sums")
    for tool in PROOF:
        row = Evidence(tool, "passed", server.lab.key, "sums", source="0" * 64, content=disk.content)
        server.lab.ledger.record(row)
    report = world.call(server, "push_environment", environment="sums")
    assert report.status == "blocked"
    assert {unmet.why for unmet in report.unmet} == {"stale"}
    assert all("older" in unmet.detail for unmet in report.unmet)
