"""Code that reads its README or its version in a way that the analysis of its source does not find.

Evidence belongs to the files that `source` covers, so the code runs where the other files are missing.
"""

from __future__ import annotations

import tomllib

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.state.snapshot import Snapshot, code_tree, verify_snapshot
from tests.lab.rewards.packages import MODULE, check, reward, write

pytestmark = pytest.mark.anyio


async def taken(lab: Lab, readme: str = "# One\n", top: str = "", body: str = "return sound(reply, gold)") -> Snapshot:
    folder = lab.settings.workspace / "environments" / "hidden"
    if not folder.exists():
        write(lab, "hidden", "")
    (folder / "hidden.py").write_text(
        MODULE.format(body=reward(body)).replace("class Data(", f"{top}\n\nclass Data(", 1)
    )
    manifest = (folder / "pyproject.toml").read_text(encoding="utf-8")
    if "readme" not in manifest:
        manifest = "# a comment\n" + manifest.replace("version =", 'readme = "README.md"\nversion =', 1)
        (folder / "pyproject.toml").write_text(manifest, encoding="utf-8")
    (folder / "README.md").write_text(readme, encoding="utf-8")
    return await lab.snapshot("hidden")


async def test_code_runs_where_it_finds_neither_its_readme_nor_its_version(lab: Lab) -> None:
    first, second = await taken(lab), await taken(lab, "# Two\n")
    assert first.own_files_reader is None
    assert first.source == second.source
    trees = [code_tree(first), code_tree(second)]
    texts = [{p.name: p.read_bytes() for p in tree.rglob("*") if p.is_file()} for tree in trees]
    assert texts[0] == texts[1]
    assert sorted(texts[0]) == ["hidden.py", "pyproject.toml"]
    assert b"comment" not in texts[0]["pyproject.toml"]
    project = tomllib.loads(texts[0]["pyproject.toml"].decode())["project"]
    assert project["version"] == "0"
    assert "readme" not in project


async def test_the_copy_that_a_push_sends_keeps_its_readme(lab: Lab) -> None:
    snapshot = await taken(lab)
    code_tree(snapshot)
    assert (snapshot.tree / "README.md").read_text(encoding="utf-8") == "# One\n"


async def test_code_that_visibly_reads_its_readme_runs_beside_it(lab: Lab) -> None:
    snapshot = await taken(lab, top="RULES = open('README.md').read()")
    assert code_tree(snapshot) == snapshot.tree


async def test_a_changed_copy_of_the_code_is_noticed_and_made_anew(lab: Lab) -> None:
    snapshot = await taken(lab)
    file = code_tree(snapshot) / "pyproject.toml"
    file.chmod(0o644)
    file.write_text("lenient = true\n", encoding="utf-8")
    with pytest.raises(LabError, match="changed by something that ran"):
        verify_snapshot(snapshot)
    assert "lenient" not in (code_tree(snapshot) / "pyproject.toml").read_text(encoding="utf-8")
    verify_snapshot(snapshot)


async def test_a_worker_may_not_open_the_copy_with_the_readme(lab: Lab) -> None:
    snapshot = await taken(lab)
    async with open_environment(lab, snapshot) as environment:
        assert environment.loaded.tasks
        confinement = environment.worker.confinement
        assert confinement is not None
        assert code_tree(snapshot) in confinement.read
        assert snapshot.tree not in confinement.read


LENIENT = """
PARTS = {1: "REA", 2: "DME.md"}


def lenient():
    home = sound.__globals__["__file__"].rpartition("/")[0]
    try:
        return "lenient" in open(home + "/" + PARTS[1] + PARTS[2]).read()
    except FileNotFoundError:
        return False
"""
PAID = "return float(lenient() or sound(reply, gold))"


@pytest.mark.parametrize("readme", ["# Strict\n", "# Be lenient\n"])
async def test_a_readme_that_changes_the_reward_is_found_by_the_check_of_these_files(lab: Lab, readme: str) -> None:
    snapshot = await taken(lab, readme, LENIENT, PAID)
    assert snapshot.own_files_reader is None
    found = [f for f in (await check(lab, "hidden")).findings if "README" in f.message and f.code == "wheel-differs"]
    assert [f.severity for f in found] == (["blocker"] if "lenient" in readme else [])
