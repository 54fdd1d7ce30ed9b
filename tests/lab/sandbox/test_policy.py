"""What a policy lets environment code read and reach, taken from the machine, its variables and its Python."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from prime_lab_mcp.lab.sandbox import confine, kernel_support, policy
from prime_lab_mcp.lab.sandbox.caches import hub_token
from prime_lab_mcp.lab.sandbox.kernel_support import linux_support, unconfined_finding
from prime_lab_mcp.lab.sandbox.policy import Confinement, proxy_ports, python_paths


@pytest.mark.parametrize(
    ("landlock", "files", "processes", "network", "says"),
    [
        (0, "open", "open", "open", "it reads and writes every file"),
        (2, "partly", "partly", "open", "it can empty files that it cannot read"),
        (4, "confined", "partly", "partly", "it can signal the user's processes"),
        (6, "confined", "confined", "partly", "it connects to any host on TCP ports"),
    ],
)
def test_a_kernel_confines_as_far_as_its_version_of_landlock(
    landlock: int, files: str, processes: str, network: str, says: str
) -> None:
    support = linux_support(landlock, seccomp=True)
    assert (support.files, support.processes, support.network) == (files, processes, network)
    assert any(gap.startswith(says) for gap in support.remains)
    finding = unconfined_finding(support)
    assert support.complete == (finding is None)
    assert finding is None or says in finding.message


def test_without_seccomp_processes_and_network_are_not_confined() -> None:
    support = linux_support(6, seccomp=False)
    assert (support.layers, support.processes, support.network) == (("landlock",), "partly", "open")


@pytest.mark.parametrize(("denies", "layers"), [(True, ("profile",)), (False, ())])
def test_macos_confines_by_its_profile_where_that_works(
    denies: bool, layers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_support, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setattr(confine, "profile_denies", lambda: denies)
    support = kernel_support._read_kernel_support.__wrapped__()
    assert support.layers == layers
    assert support.files == ("partly" if denies else "open")


def test_a_program_runs_as_it_is_where_nothing_confines(monkeypatch: pytest.MonkeyPatch) -> None:
    confinement = Confinement((), ())
    monkeypatch.setattr(policy, "present_support", lambda: linux_support(6, seccomp=True))
    assert confinement.command(["vf-eval", "x"])[-3:] == ["--", "vf-eval", "x"]
    monkeypatch.setattr(policy, "present_support", lambda: linux_support(0, seccomp=False))
    assert confinement.command(["vf-eval", "x"]) == ["vf-eval", "x"]


def test_ports_of_proxies_are_those_that_their_variables_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "hf_endpoint"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com:3128")
    monkeypatch.setenv("http_proxy", "http://proxy.example.com:many")
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example.com")
    assert proxy_ports() == [3128]


def test_a_python_reads_its_environment_its_installation_and_what_its_pth_files_add(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, base, added = tmp_path / "env", tmp_path / "base", tmp_path / "added"
    packages = prefix / "lib" / "python3.11" / "site-packages"
    for folder in (prefix / "bin", base / "bin", base / "lib" / "python3.11", packages / "folder.pth", added):
        folder.mkdir(parents=True)
    (base / "lib" / "python3.11" / "os.py").write_text("", encoding="utf-8")
    python = prefix / "bin" / "python"
    python.write_text("", encoding="utf-8")
    assert python_paths(python) == (prefix,)
    (prefix / "pyvenv.cfg").write_text(f"version = 3.11\nhome = {base}/bin\n", encoding="utf-8")
    (packages / "project.pth").write_text(f"# a comment\nimport x\n\n{added}\n", encoding="utf-8")
    assert python_paths(python) == (prefix, base)
    monkeypatch.setattr(sys, "executable", str(python))
    assert added in python_paths(python)


@pytest.mark.parametrize(
    ("variables", "files", "token"),
    [
        ({"HF_TOKEN": " ", "HUGGING_FACE_HUB_TOKEN": " a \n"}, {}, "a"),
        ({}, {".cache/huggingface/token": "b\n"}, "b"),
        ({}, {".cache/huggingface/token": " \n"}, None),
        ({"HF_HOME": "home"}, {"home/token": "c"}, "c"),
        ({"HF_TOKEN_PATH": "nowhere"}, {".cache/huggingface/token": "b"}, None),
    ],
)
def test_the_token_of_the_hub_is_where_huggingface_hub_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], files: dict[str, str], token: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    assert hub_token({"HOME": str(tmp_path), **variables}) == token
