"""Bad input of every kind, through the call path and the real tools: a clear report, and nothing lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.support.required_arguments import REQUIRED_ARGUMENTS

pytestmark = pytest.mark.anyio
ON_ENVIRONMENTS = [t.name for t in TOOLS if "environment" in t.args.model_fields]
NAMES = [
    "../outside",
    "/etc",
    "nope",
    "a\0b",
    "",
    "x" * 5000,
    "environments/link",
    ".",
    "environments",
    5,
    ["a"],
    {},
]


@pytest.fixture
async def calls(settings: Settings, tmp_path: Path) -> AsyncIterator[Calls]:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "pyproject.toml").write_text("secret", encoding="utf-8")
    (settings.workspace / "environments" / "link").symlink_to(tmp_path / "outside")
    lab = Lab(settings)
    yield Calls(lab, TOOLS, References())
    await lab.close()


def refused(report: Report) -> bool:
    """A clear refusal: not a pass, not a crash, with a fix for every finding."""
    codes = {finding.code for finding in report.findings}
    fixes = all(finding.fix for finding in report.findings)
    return report.status == "error" and bool(codes) and "internal-error" not in codes and fixes


@pytest.mark.parametrize("name", NAMES, ids=lambda n: repr(n)[:20])
@pytest.mark.parametrize("tool", ON_ENVIRONMENTS)
async def test_names_that_are_no_environment_are_refused(calls: Calls, tool: str, name: Any) -> None:
    report = await calls.execute(tool, {"environment": name, **REQUIRED_ARGUMENTS.get(tool, {})})
    # An empty name names all environments, and a file may begin a new one.
    allowed = {("workflow_status", ""), ("edit_environment", "nope")}
    assert refused(report) or (tool, str(name)) in allowed, report


@pytest.mark.parametrize("tool", [t.name for t in TOOLS if t.snapshot])
async def test_a_name_on_the_hub_is_refused_where_a_local_environment_is_needed(calls: Calls, tool: str) -> None:
    report = await calls.execute(tool, {"environment": "owner/name@1.0", **REQUIRED_ARGUMENTS.get(tool, {})})
    assert refused(report), report
    assert "environment-not-local" in {finding.code for finding in report.findings}


@pytest.mark.parametrize("tool", [t.name for t in TOOLS])
async def test_unknown_arguments_are_refused_by_every_tool(calls: Calls, tool: str) -> None:
    report = await calls.execute(tool, {"surely_not_an_argument": 1})
    assert refused(report), report
    assert any("surely_not_an_argument" in finding.message for finding in report.findings)


@pytest.mark.parametrize(
    "path", ["../outside/pyproject.toml", "/etc/passwd", "environments/link/pyproject.toml", "a\0b"]
)
@pytest.mark.parametrize(
    ("tool", "argument"),
    [("inspect_dataset", "dataset"), ("check_training_config", "path"), ("submit_training", "config")],
)
async def test_paths_that_lead_outside_are_refused(calls: Calls, tool: str, argument: str, path: str) -> None:
    report = await calls.execute(tool, {argument: path})
    assert refused(report), report
    assert "secret" not in str(report)


def broken(settings: Settings, files: dict[str, bytes]) -> Path:
    folder = settings.workspace / "environments" / "broken"
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


GOOD = b'[project]\nname = "broken"\nversion = "0.1.0"\ndescription = "d"\ndependencies = ["verifiers>=0.4.0,<0.5"]\n'


@pytest.mark.parametrize(
    "files",
    [
        {"broken/__init__.py": b""},
        {"pyproject.toml": b"[project\nname = "},
        {"pyproject.toml": b"\xff\xfe\x00bad"},
        {"pyproject.toml": b'[project]\nname = 5\nversion = []\ndependencies = "x"\n'},
        {"pyproject.toml": GOOD},
        {"pyproject.toml": GOOD, "broken/__init__.py": b"def f(:\n"},
        {"pyproject.toml": GOOD, "broken/__init__.py": b"\xff\xfe not utf-8"},
        {"pyproject.toml": GOOD, "broken/__init__.py": b"raise SystemExit(3)\n", "README.md": b"\xff"},
        {"pyproject.toml": GOOD, "broken/__init__.py": b"import verifiers.v1 as vf\n__all__ = ['Nope']\n"},
        {"pyproject.toml": GOOD, "broken/__init__.py": b"X = 1" + b" + 1" * 1500},
        {"pyproject.toml": GOOD + b"\n[tool.x]\nx = " + b"[" * 1000 + b"]" * 1000},
        {"pyproject.toml": GOOD + b"\n[tool.x]\nx" + b".y" * 1000 + b" = 1\n"},
    ],
    ids=range(12),
)
async def test_a_broken_package_fails_its_check_with_blockers_and_stays_as_it_was(
    calls: Calls, settings: Settings, files: dict[str, bytes]
) -> None:
    folder = broken(settings, files)
    report = await calls.execute("check_environment", {"environment": "broken"})
    assert report.status == "failed", report
    assert all(finding.fix for finding in report.findings)
    status = await calls.execute("workflow_status", {})
    assert status.status == "passed", status
    refused_push = await calls.execute("push_environment", {"environment": "broken"})
    assert refused_push.status == "blocked"
    assert {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()} == files


@pytest.mark.parametrize(
    "text", ["x = [", "\x00", "", "model = 'a'\n[[env]]\nid = 'a/b'\n", "x" + ".y" * 5000 + " = 1\n"]
)
async def test_a_config_that_is_none_is_refused_or_fails(calls: Calls, settings: Settings, text: str) -> None:
    (settings.workspace / "c.toml").write_text(text, encoding="utf-8")
    checked = await calls.execute("check_training_config", {"path": "c.toml"})
    submitted = await calls.execute("submit_training", {"config": "c.toml"})
    assert checked.status in ("failed", "error"), checked
    assert submitted.status in ("blocked", "error"), submitted
    assert "internal-error" not in {f.code for f in (*checked.findings, *submitted.findings)}
