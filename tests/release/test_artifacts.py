"""A release has one version in all its parts, and its descriptions are what hosts and the registry read."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from prime_lab_mcp import __version__
from prime_lab_mcp.cli import main as command_line
from prime_lab_mcp.tools import WORKFLOW
from release.__main__ import PACKED, add_links, write_bundle
from release.artifacts import (
    LONGEST_DESCRIPTION,
    ROOT,
    bundle_manifest,
    ownership_line,
    read_project,
    registry_entry,
    repository_of,
)

PROJECT = read_project()
ENTRY = registry_entry(PROJECT, "io.github.someone")


def test_everything_has_the_version_of_the_package() -> None:
    assert PROJECT.version == __version__
    assert bundle_manifest(PROJECT)["version"] == __version__
    assert (ENTRY["version"], ENTRY["packages"][0]["version"]) == (__version__, __version__)


def test_the_bundle_names_every_tool_and_starts_the_server() -> None:
    manifest = bundle_manifest(PROJECT)
    assert {tool["name"] for tool in manifest["tools"]} == set(WORKFLOW)
    assert (ROOT / manifest["server"]["entry_point"]).is_file()
    words = manifest["server"]["mcp_config"]["args"]
    served = [word.replace("${user_config.workspace}", "/w") for word in words[words.index(PROJECT.name) + 1 :]]
    assert command_line._parser().parse_args(served).workspace == "/w"
    assert set(re.findall(r"\$\{user_config\.(\w+)\}", " ".join(words))) == set(manifest["user_config"])


def test_the_bundle_holds_its_sources_and_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE", "prime_lab_mcp/__main__.py", "left_out.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    for bundle in ("a.mcpb", "b.mcpb"):
        write_bundle(tmp_path, bundle_manifest(PROJECT), tmp_path / bundle)
    assert (tmp_path / "a.mcpb").read_bytes() == (tmp_path / "b.mcpb").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.mcpb") as packed:
        assert {name.split("/")[0] for name in packed.namelist()} == {"manifest.json", *PACKED}
        assert json.loads(packed.read("manifest.json")) == bundle_manifest(PROJECT)


def test_the_registrys_entry_starts_the_server_over_stdio() -> None:
    [package] = ENTRY["packages"]
    assert ENTRY["name"] == "io.github.someone/prime-lab-mcp"
    assert len(ENTRY["description"]) <= LONGEST_DESCRIPTION
    assert (package["registryType"], package["transport"]) == ("pypi", {"type": "stdio"})
    words = [word for part in package["packageArguments"] for word in ([part.get("value") or part["name"]])]
    assert command_line._parser().parse_args([*words, "/w"]).workspace == "/w"
    assert [v["name"] for v in package["environmentVariables"] if v["isSecret"]] == ["PRIME_API_KEY"]
    assert ENTRY["name"] in ownership_line(PROJECT, "io.github.someone")


def test_links_lead_to_the_repository_in_every_part_of_a_release(tmp_path: Path) -> None:
    repository = repository_of("io.github.someone")
    assert repository == "https://github.com/someone/prime-lab-mcp"
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    add_links(pyproject, repository)
    links = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["urls"]
    pages = [link.removeprefix(f"{repository}/blob/main/") for name, link in links.items() if name != "Repository"]
    assert links["Repository"] == repository
    assert [page for page in pages if not (ROOT / page).is_file()] == []
    assert read_project(tmp_path) == PROJECT
    assert registry_entry(PROJECT, "io.github.someone", repository)["repository"] == {
        "url": repository,
        "source": "github",
    }
    assert bundle_manifest(PROJECT, repository=repository)["repository"] == {"type": "git", "url": repository}


def test_an_address_may_be_given_and_is_guessed_for_github_only() -> None:
    assert repository_of("com.example", "https://gitlab.com/a/b/") == "https://gitlab.com/a/b"
    assert (repository_of("com.example"), repository_of(None)) == (None, None)
    with pytest.raises(ValueError, match="no address"):
        repository_of("io.github.someone", "git@github.com:a/b")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_the_bundles_own_program_finds_its_manifest_valid(tmp_path: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(Path(__file__).parent / "mcpb" / name, tmp_path)
    npm = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run(npm, cwd=tmp_path, check=True, timeout=300, capture_output=True)
    verdicts = {}
    for repository in (None, "https://github.com/someone/prime-lab-mcp"):
        manifest = bundle_manifest(PROJECT, repository=repository)
        for case, content in (("sound", manifest), ("broken", {**manifest, "server": {}})):
            (tmp_path / "manifest.json").write_text(json.dumps(content), encoding="utf-8")
            program = tmp_path / "node_modules" / ".bin" / "mcpb"
            done = subprocess.run(
                [program, "validate", "manifest.json"], cwd=tmp_path, capture_output=True, timeout=100
            )
            verdicts[case, repository is None] = done.returncode
    assert {case for case, code in verdicts.items() if code == 0} == {("sound", True), ("sound", False)}


@pytest.mark.parametrize("namespace", ["someone", "io.github.", "io/github", "a b.c", "../x.y"])
def test_a_namespace_that_is_none_is_refused(namespace: str) -> None:
    with pytest.raises(ValueError, match="no namespace"):
        registry_entry(PROJECT, namespace)


def test_the_container_copies_files_that_are_there_and_starts_the_server() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = [word for line in re.findall(r"^COPY (.+)$", text, re.M) for word in line.split()[:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    entry = json.loads(re.findall(r"^ENTRYPOINT (.+)$", text, re.M)[0])
    served = json.loads(re.findall(r"^CMD (.+)$", text, re.M)[0])
    assert entry == ["prime-lab-mcp"]
    assert command_line._parser().parse_args(served).command == "serve"
    assert text.index("USER lab") < text.index("ENTRYPOINT")
