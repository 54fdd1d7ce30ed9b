"""What the two fingerprints of an environment cover, and which code counts as a reader of its README or metadata."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.state.fingerprint import content_fingerprint, own_files_reader, source_fingerprint
from prime_lab_mcp.lab.state.manifest import parse_manifest

PYPROJECT = '[project]\nname = "my-sums"\nversion = "0.1.0"\nreadme = "README.md"\n'
MODULE = "my_sums/taskset.py"

NAMES = "it names the README or the package's metadata"
PLACES = "it looks for the files of its code"
DECODES = "it opens files and decodes a text, which may be the name of one"
METADATA = "it reads the metadata of installed packages"
IMPORTS = "it imports a module whose name is not literal"
LISTS = "it lists files outside of its package"
RUNS = "it runs text as code, and {} names the README or the package's metadata"


def reader(code: str = "", path: str = MODULE, pyproject: str = PYPROJECT, **texts: str) -> str | None:
    """The place in the code that may read the README or the metadata. `texts` are more files of the package."""
    contents = {"pyproject.toml": pyproject.encode(), "README.md": b"# The README\n", path: code.encode()}
    contents |= {f"my_sums/{name.replace('_', '.')}": text.encode() for name, text in texts.items()}
    return own_files_reader(contents, parse_manifest(pyproject.encode()), content_fingerprint(contents))


def prints(contents: dict[str, str]) -> tuple[str, str]:
    """The fingerprints of content and source."""
    files = {path: text.encode() for path, text in contents.items()}
    content = content_fingerprint(files)
    return content, source_fingerprint(files, parse_manifest(files["pyproject.toml"]), content)


# The fingerprints

FILES = {"pyproject.toml": PYPROJECT, "README.md": "# Sums\n", MODULE: "def rows(): ...\n"}


def test_fingerprints_stay_what_they_are_so_that_recorded_evidence_stays_valid() -> None:
    """Another value of `source` needs a new SOURCE_DEFINITION, and of `content` a migration of the ledger."""
    assert prints(FILES) == (
        "410fdcd1b92931b4b9af6a93422301bd67143ca3fae289349353bd935d454f36",
        "65adf9eb0c770559f20f92226b2c812ff8af46b4b632d06c2e967186ef69c9de",
    )


def test_the_order_of_keys_in_the_manifest_is_no_part_of_source() -> None:
    ordered = '[project]\nreadme = "README.md"\nversion = "0.1.0"\nname = "my-sums"\n'
    content, source = prints(FILES | {"pyproject.toml": ordered})
    assert content != prints(FILES)[0]
    assert source == prints(FILES)[1]


def test_a_manifest_that_cannot_be_read_is_part_of_source_as_its_bytes() -> None:
    first, second = (prints(FILES | {"pyproject.toml": f"name = [{n}"})[1] for n in range(2))
    assert first != second


def test_the_readme_and_the_version_are_part_of_the_source_of_code_that_reads_them() -> None:
    reading = FILES | {MODULE: "X = open('README.md')\n"}
    sources = {
        prints(reading | changed)[1]
        for changed in ({}, {"README.md": "# All\n"}, {"pyproject.toml": PYPROJECT.replace("0.1.0", "0.1.1")})
    }
    assert len(sources) == 3
    assert prints(FILES)[1] == prints(FILES | {"README.md": "# All\n"})[1]


def test_answers_are_right_however_many_packages_were_read() -> None:
    for number in range(300):
        assert reader(f"X = {number}\n") is None
        assert reader(f"X = 'README', {number}\n") is not None


# Readers: a place in the module

READERS = {
    "name": ("X = 'README'", NAMES),
    "name in bytes": ("X = b'README'", NAMES),
    "metadata file": ("X = 'METADATA'", NAMES),
    "package info": ("X = 'PKG-INFO'", NAMES),
    "name of an expression": ("'README' + X", NAMES),
    "name in two texts": ("X = 'READ' 'ME'", NAMES),
    "name with an escape": ("X = 'READ\\x4dE'", NAMES),
    "names joined later": ("A = 'READ'\nB = 'ME'\n\nX = A + B", NAMES),
    "name for several": ("A = B = 'READ'\n\n\nX = B + 'ME'", NAMES),
    "name with a type": ("A: str = 'READ'\n\n\nX = A + 'ME'", NAMES),
    "name in an expression": ("print(A := 'READ')\n\n\nX = A + 'ME'", NAMES),
    "part of a text": ("X = f'{\"READ\"}ME'", NAMES),
    "text with a gap": ("X = f'READ{n}ME'", NAMES),
    "interpolated": ("X = 'READ%s' % 'ME'", NAMES),
    "interpolated twice": ("X = 'RE%sM%s' % ('AD', 'E')", NAMES),
    "formatted": ("X = 'READ{}.md'.format('ME')", NAMES),
    "formatted by number": ("X = '{1}{0}'.format('ME', 'READ')", NAMES),
    "formatted by name": ("X = 'READ{end}'.format(x, end='ME')", NAMES),
    "replaced": ("X = 'RE_ME'.replace('_', 'AD')", NAMES),
    "part of a long sum": ("X = 'README' + " + " + ".join(["'.'"] * 60), NAMES),
    "sliced": ("X = 'xEMDAER'[:0:-1]", NAMES),
    "in capitals": ("X = 'metadata'.upper()", NAMES),
    "in swapped cases": ("X = 'metadata'.swapcase()", NAMES),
    "in small letters": ("X = 'REA'.lower() + 'DME'", NAMES),
    "encoded in between": ("X = 'READ'.encode().decode() + 'ME'", NAMES),
    "codes": ("X = chr(82) + 'EADME'", NAMES),
    "mapped codes": ("X = ''.join(map(chr, [82, 69, 65, 68, 77, 69]))", NAMES),
    "joined tuple": ("X = 'E'.join(('R', 'ADM', ''))", NAMES),
    "joined text": ("X = ''.join('README')", NAMES),
    "base 64": ("from base64 import b64decode\n\n\nX = b64decode('UkVBRE1F')", NAMES),
    "hexadecimal": ("X = bytes.fromhex('524541444d45')", NAMES),
    "code object": ("X = f.__code__.co_filename", PLACES),
    "name of a code object": ("X = 'co_' + 'filename'", PLACES),
    "package data": ("import pkgutil\n\n\nX = pkgutil.get_data(A, B)", PLACES),
    "package data by name": ("from pkgutil import get_data\n\n\nX = get_data(A, B)", PLACES),
    "decoded text": ("X = (open(p), unquote('abcd'))", DECODES),
    "decoded bytes": ("X = (open(p), codecs.decode(b'abcd', 'rot13'))", DECODES),
    "decoded by its own method": ("X = (open(p), b'abcd'.translate(TABLE))", DECODES),
    "metadata": ("import importlib.metadata\n\n\nX = importlib.metadata.version('my-sums')", METADATA),
    "metadata as": ("import importlib.metadata as m\n\n\nX = m.version('my-sums')", METADATA),
    "metadata of importlib as": ("import importlib as i\n\n\nX = i.metadata.version('my-sums')", METADATA),
    "metadata of a backport": ("import importlib_metadata\n\n\nX = importlib_metadata.version('my_sums')", METADATA),
    "metadata of setuptools": ("import pkg_resources as p\n\n\nX = p.require('MY.SUMS')", METADATA),
    "metadata by name": ("from importlib.metadata import version\n\n\nX = version('my-sums')", METADATA),
    "metadata by another name": ("from importlib.metadata import version as v\n\n\nX = v('my-sums')", METADATA),
    "metadata module by name": ("from importlib import metadata\n\n\nX = metadata.version('my-sums')", METADATA),
    "metadata of all": ("from importlib.metadata import distributions as d\n\n\nX = d()", METADATA),
    "metadata of a group": ("from importlib.metadata import entry_points as e\n\n\nX = e('verifiers')", METADATA),
    "metadata of a variable": ("from importlib.metadata import version as v\n\n\nX = v(name)", METADATA),
    "metadata of a loaded module": ("X = sys.modules['importlib'].metadata.version('verifiers')", METADATA),
    "metadata of a module's module": ("X = verifiers.importlib.metadata.version('my-sums')", METADATA),
    "metadata by a computed name": ("X = getattr(importlib, name)", METADATA),
    "imported by a variable": ("X = import_module(name)", IMPORTS),
    "run by a variable": ("X = runpy.run_path(name)", IMPORTS),
    "lists what lies above": ("X = (p.parents, list(q.iterdir()))", LISTS),
    "lists beside a folder above": ("X = (p.parent.parent, glob('../*.md'))", LISTS),
    "lists beside the folder of its folder": ("X = (dirname(dirname(p)), os.walk(q))", LISTS),
    "lists beside a climbing path": ("X = ('a/../b', q.rglob('*'))", LISTS),
    "lists beside the search path": ("X = (sys.path, q.glob('a/'))", LISTS),
    "lists beside the working folder": ("X = (getcwd, q.glob('*.toml'))", LISTS),
}


@pytest.mark.parametrize(("code", "reason"), READERS.values(), ids=READERS)
def test_a_reader_is_named_with_its_line_and_its_reason(code: str, reason: str) -> None:
    line = 1 + code.count("\n")
    assert reader(f"{code}\n") == f"{MODULE}:{line}: {reason}"


INNOCENT = {
    "docstring": "def f():\n    'Reads no README.'",
    "text beside a docstring": "'README'\nX = 'other'",
    "number": "X = bytes(82)",
    "one decoded letter": "X = (open(p), unquote('abc'))",
    "decoded data": "X = (open(p), codecs.decode(data, 'rot13'))",
    "decoded nowhere near a file": "X = (close(p), unquote('abcd'))",
    "other package data": "import data\nX = data.get_data(A, B)",
    "data of package tools": "import pkgutil\nX = pkgutil.find_data(A, B)",
    "metadata of another": "from importlib.metadata import version, files as f\nX = version('verifiers'), f('a')",
    "metadata of another by module": "import importlib.metadata as m\nX = m.version('verifiers')",
    "error of metadata": "import importlib.metadata as m\nX = m.PackageNotFoundError",
    "error of metadata by name": "from importlib.metadata import PackageNotFoundError as E\nX = E",
    "metadata of its own": "from .importlib import metadata\nX = metadata.version('my-sums')",
    "metadata of a model": "import torch as t\nX = t.metadata",
    "metadata of a row": "X = rows[0].metadata, rows[i].metadata, row.metadata",
    "another member of a loaded module": "X = sys.modules['importlib'].util",
    "metadata of a loaded module": "X = sys.modules['torch'].metadata",
    "imported by name": "X = import_module('json')",
    "attribute of importlib": "X = get(importlib, name), getattr(name), getattr(torch, name)",
    "lists where it is": "X = (p.parent, q.iterdir(), dirname(p), os.walk(q))",
    "climbs without listing": "X = (p.parents, q.lister())",
    "lists data above": "X = (p.parents, q.glob('data/*.jsonl'))",
    "parents of others": "X = (p.parent.name, p.name.parent, q.iterdir(), f(dirname(p)), dirname(f(p)), 'a..b/c')",
    "joined variables": "X = ''.join(['READ', x]), ''.join(x), sep.join(['READ', 'ME'])",
    "no such slice": "X = 'READM'[::0], 'READM'[0]",
    "codes of other texts": "X = bytes([82, 69, 0, 65, 68, 77, 69]), chr(1114112), chr(-82), chr()",
    "interpolated variables": "X = 'READ%s' % x, 'READ%d' % 3, x % 'ME', 'READ' - 'ME', 'READ' * 2",
    "replaced by a variable": "X = 'RE_ME'.replace('_', x), 'RE_ME'.replace(x, 'AD'), 'RE_ME'.replace('_', 'AD', 0)",
    "no code in base 64": "from base64 import b64decode\nX = b64decode('A'), b64decode(), b64decode(''), b64decode(x)",
    "no hexadecimal code": "X = bytes.fromhex('4'), bytes.fromhex(), bytes.fromhex(''), bytes.fromhex(x)",
    "texts that are not decoded": "X = decoded('UkVBRE1F'), bytes.tohex('524541444d45')",
    "method of a variable": "X = x.upper(), 'READ'.find('ME'), ''.join(), f('READ', 'ME')",
    "part with a type only": "A: str\nX = A",
    "part of a tuple": "A, B = 'READ'\nX = A + 'ME'",
    "part of an attribute": "x.a = 'READ'\nX = a + 'ME'",
}


@pytest.mark.parametrize("code", INNOCENT.values(), ids=INNOCENT)
def test_code_that_reads_neither_is_no_reader(code: str) -> None:
    assert reader(f"{code}\n# README\n") is None


def test_the_first_line_that_may_read_is_named() -> None:
    assert reader("X = 1\nY = 'README'\nZ = f.__code__.co_filename\n") == f"{MODULE}:2: {NAMES}"


def test_what_lies_outside_of_the_package_is_read_by_a_path_too() -> None:
    code = "from pathlib import Path\nX = (Path(__file__).parent.parent / name).read_text()\n"
    assert reader(code) == f"{MODULE}:2: it opens a file outside of its package whose name is not literal"


@pytest.mark.parametrize(
    ("path", "lists"),
    [("top.py", True), ("src/top.py", True), ("src/my_sums/taskset.py", False), (MODULE, False)],
)
def test_a_module_at_the_top_lies_beside_the_readme(path: str, lists: bool) -> None:
    assert reader("X = glob('*')\n", path) == (f"{path}:1: {LISTS}" if lists else None)


def test_without_a_name_of_the_project_all_metadata_may_be_its_own() -> None:
    code = "from importlib.metadata import version\nX = version('verifiers')\n"
    assert reader(code, pyproject="[project]\n") == f"{MODULE}:2: {METADATA}"


@pytest.mark.parametrize("code", [f"x = a{'.b' * 1500}\n", f"x = {'-' * 7000}1\n"])
def test_code_that_is_nested_too_deeply_to_be_analysed_may_read_everything(code: str) -> None:
    assert reader(code) == f"{MODULE}: its expressions are nested too deeply to be analysed"


def test_a_file_that_cannot_be_parsed_here_counts_by_the_names_in_it() -> None:
    assert reader("match = [\n") is None
    assert reader("open('README.md'\n") == (
        f"{MODULE}: it cannot be parsed, and it names the README or the package's metadata"
    )


# Readers: other files


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("native_so", "", "it holds code that cannot be read"),
        ("run_sh", "cat README.md", NAMES),
        ("run_sh", "cat rules.md", None),
        ("rules_md", "open('README.md')", None),
        ("rules_md", "exec('README')", None),
    ],
)
def test_of_other_files_native_code_counts_and_scripts_by_the_names_in_them(
    name: str, text: str, reason: str | None
) -> None:
    path = f"my_sums/{name.replace('_', '.')}"
    assert reader(**{name: text}) == (reason and f"{path}: {reason}")


@pytest.mark.parametrize("call", ["exec(X)", "eval(X)", "compile(X, '', 'exec')", "__import__(X)"])
def test_where_text_is_run_a_text_of_the_package_counts_by_the_names_in_it(call: str) -> None:
    assert reader(f"{call}\n", rules_md="README") == f"{MODULE}: {RUNS.format('my_sums/rules.md')}"
    assert reader(f"{call}\n", rules_md="strict") is None
    assert reader(f"x.{call}\n", rules_md="README") is None


def test_where_text_is_run_a_module_counts_only_if_it_is_read_as_text() -> None:
    documented = "def f():\n    'As the README says.'\n"
    assert reader("exec(X)\n", more_py=documented) is None
    read = f"{documented}\nX = f.__doc__\n"
    assert reader("exec(X)\n", more_py=read) == f"{MODULE}: {RUNS.format('my_sums/more.py')}"


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("README.md", "README.md"),
        ("./README.md", "README.md"),
        ("pyproject.toml", "pyproject.toml"),
        (".", "."),
        ("./", "."),
        ("../README.md", "../README.md"),
        ("data/", None),
    ],
)
def test_a_readme_that_the_build_renames_can_be_read_by_another_name(source: str, named: str | None) -> None:
    include = f'[tool.hatch.build.targets.wheel.force-include]\n"{source}" = "my_sums/x"\n'
    expected = named and f"pyproject.toml: it puts {named} into the wheel under another name"
    assert reader(pyproject=PYPROJECT + include) == expected


@pytest.mark.parametrize("table", ['[tool.docs]\n"README.md" = "x"\n', '[tool.hatch]\nforce-include = "README.md"\n'])
def test_a_readme_in_another_table_of_the_build_is_not_renamed(table: str) -> None:
    assert reader(pyproject=PYPROJECT + table) is None
