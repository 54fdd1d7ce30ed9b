"""The static checks: a folder in, codes out. Nothing of it is executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.checks import source, static
from prime_lab_mcp.lab.checks.generation import detect
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.snapshot import Snapshot, take
from prime_lab_mcp.lab.workspace import EnvironmentFolder

README = "The data set. Format: a number. Reward: 1. Usage: run it."
V1 = """\
import verifiers.v1 as vf
class Data(vf.TaskData):
    answer: str
class T(vf.Task[Data]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return 1.0
class S(vf.Taskset[T, vf.TasksetConfig]):
    def load(self):
        return []
__all__ = ["S"]
"""
V0 = "import verifiers as vf\ndef load_environment() -> vf.Environment:\n    return vf.SingleTurnEnv()\n"


def pyproject(*dependencies: str, name: str = "thing") -> str:
    return (
        f'[project]\nname = "{name}"\nversion = "0.1.0"\ndescription = "A thing."\n'
        f"dependencies = {list(dependencies or ['verifiers>=0.4.0,<0.5'])!r}\n"
    )


def snapshot(folder: Path, files: dict[str, str | None]) -> Snapshot:
    """A package that is sound but for `files`; None removes one."""
    contents = {"pyproject.toml": pyproject(), "README.md": README, "thing.py": V1, **files}
    for path, text in contents.items():
        if text is not None:
            (folder / "environment" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "environment" / path).write_text(text, encoding="utf-8")
    return take(EnvironmentFolder("thing", folder / "environment", "environments/thing"), folder / "store")


def findings(folder: Path, files: dict[str, str | None]) -> list[Finding]:
    return source.examine(static.observe(snapshot(folder, files)))


def blockers(folder: Path, files: dict[str, str | None]) -> set[str]:
    return {f.code for f in findings(folder, files) if f.severity == "blocker"}


def warnings(folder: Path, files: dict[str, str | None]) -> set[str]:
    return {f.code for f in findings(folder, files) if f.severity == "warning"}


def test_a_sound_package_has_no_finding(tmp_path: Path) -> None:
    assert findings(tmp_path, {}) == []


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"pyproject.toml": None}, "pyproject-missing"),
        ({"pyproject.toml": "[project\n"}, "pyproject-invalid"),
        ({"pyproject.toml": pyproject().replace('version = "0.1.0"', "")}, "project-version-missing"),
        ({"pyproject.toml": pyproject().replace("0.1.0", "one")}, "project-version-invalid"),
        ({"pyproject.toml": pyproject(name="other")}, "module-name"),
        ({"pyproject.toml": pyproject("httpx")}, "verifiers-not-required"),
        ({"pyproject.toml": pyproject("verifiers>=0.4.0,<0.5", "not a requirement !")}, "requirement-invalid"),
        ({"README.md": None}, "readme-missing"),
        ({"thing.py": "def broken(:\n"}, "syntax-error"),
        ({"thing.py": "X = 1\n", "pyproject.toml": pyproject("verifiers")}, "unknown-generation"),
        ({"thing.py": None}, "no-module"),
        ({"pyproject.toml": pyproject(name="textarena"), "textarena.py": V1}, "name-shadowed"),
        ({"thing.py": V1 + "open('rows.jsonl')\n", "rows.jsonl": "{}"}, "file-not-pushed"),
        ({"thing.py": V1 + "KEY = 'sk-" + "a1" * 20 + "'\n"}, "secret-in-code"),
        ({"thing.py": V1 + "from verifiers.api.v1 import Rubric\n"}, "migration"),
        ({"thing.py": V1 + "X = vf.TaskSet\n"}, "migration"),
        ({"thing.py": V0}, "migration"),
        ({"thing.py": V1 + "import datasets\n"}, "undeclared-dependency"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_flaw_of_the_package_blocks(tmp_path: Path, files: dict[str, str | None], expected: str) -> None:
    assert expected in blockers(tmp_path, files)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"README.md": "hello"}, "readme-incomplete"),
        ({"pyproject.toml": pyproject("verifiers>=0.4.0")}, "uncapped-verifiers"),
        ({"pyproject.toml": pyproject("verifiers<0.5")}, "runtime-misread"),
        ({"thing.py": V1 + "import os\nos.environ['JUDGE_API_KEY']\n"}, "secret-needed"),
        ({"thing.py": V1 + "import left_pad\n"}, "undeclared-dependency"),
        (
            {
                "thing.py": V1 + "from datasets import load_dataset\nload_dataset('openai/gsm8k')\n",
                "pyproject.toml": pyproject("verifiers>=0.4.0,<0.5", "datasets>=4"),
            },
            "unpinned-dataset",
        ),
        ({"thing.py": V1 + "async def f(x):\n    import time\n    time.sleep(1)\n"}, "blocking-call"),
        ({"thing.py": V1 + "def f(x):\n    return eval(x)\n"}, "reward-evaluates-output"),
        ({"pyproject.toml": pyproject().replace('description = "A thing."', "")}, "project-description-missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_risk_of_the_package_warns(tmp_path: Path, files: dict[str, str | None], expected: str) -> None:
    found = findings(tmp_path, files)
    assert {f.code for f in found} == {expected}
    assert {f.severity for f in found} == {"warning"}


def test_an_uncapped_v0_package_is_blocked_at_the_line_of_its_requirement(tmp_path: Path) -> None:
    found = findings(tmp_path, {"thing.py": V0, "pyproject.toml": pyproject("verifiers>=0.1.10")})
    uncapped = [f for f in found if f.code == "uncapped-verifiers"]
    assert [(f.severity, f.where) for f in uncapped] == [("blocker", "pyproject.toml:5")]


def test_a_v0_package_whose_floor_reads_as_v1_is_warned_only(tmp_path: Path) -> None:
    files = {"thing.py": V0, "pyproject.toml": pyproject("verifiers>=0.2.1,<0.4")}
    assert (blockers(tmp_path, files), warnings(tmp_path, files)) == (set(), {"runtime-misread"})


def test_a_file_that_the_push_leaves_out_and_nothing_opens_is_only_mentioned(tmp_path: Path) -> None:
    found = findings(tmp_path, {"notes.txt": "x"})
    assert [(f.code, f.severity) for f in found] == [("files-left-out", "info")]


def test_a_variable_that_the_server_passes_on_is_no_warning(tmp_path: Path) -> None:
    taken = snapshot(tmp_path, {"thing.py": V1 + "import os\nos.getenv('JUDGE_API_KEY')\n"})
    found = source.examine(static.observe(taken, ("JUDGE_API_KEY",)))
    assert [(f.code, f.severity) for f in found] == [("secret-needed", "info")]


def test_an_import_that_may_fail_needs_no_declaration(tmp_path: Path) -> None:
    guarded = V1 + "try:\n    import left_pad\nexcept ImportError:\n    left_pad = None\n"
    assert findings(tmp_path, {"thing.py": guarded}) == []


def test_the_secret_itself_is_not_repeated(tmp_path: Path) -> None:
    secret = "hf_" + "Q7" * 20
    found = findings(tmp_path, {"thing.py": V1 + f"TOKEN = '{secret}'\n"})
    assert all(secret not in str(f.as_json()) for f in found)


@pytest.mark.parametrize(
    ("code", "requirement", "expected"),
    [
        (V1, "verifiers>=0.4.0,<0.5", "v1"),
        (V0, "verifiers>=0.1.14,<0.2", "v0"),
        (V1.replace("import verifiers.v1 as vf", "from verifiers import v1 as vf"), "verifiers", "v1"),
        (V0 + V1, "verifiers", "v1"),
        ("X = 1\n", "verifiers>=0.4.0,<0.5", "v1"),
        ("X = 1\n", "verifiers<0.3", "v0"),
        ("X = 1\n", "verifiers", None),
    ],
)  # fmt: skip
def test_code_tells_the_generation_and_the_requirement_decides_the_rest(
    tmp_path: Path, code: str, requirement: str, expected: str | None
) -> None:
    found = detect(snapshot(tmp_path, {"thing.py": code, "pyproject.toml": pyproject(requirement)}))
    assert found.api == expected
    assert found.reasons
