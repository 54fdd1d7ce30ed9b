"""Code that a dataset makes the program run that reads it: older `datasets` ran scripts of the Hub and pickles.

The library is replaced by one that runs code when a dataset is loaded, and reports what the code could do.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.datasets.reading import inspect_source
from prime_lab_mcp.lab.datasets.scan import DatasetRequest
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.sandbox import kernel_support
from prime_lab_mcp.lab.sandbox.kernel_support import linux_support, present_support

pytestmark = pytest.mark.anyio
needs_files = pytest.mark.skipif(present_support().files != "confined", reason="this kernel has no Landlock")

_LIBRARY = """
import json, os, signal

def disable_progress_bars():
    done = []
    for name, code in json.loads(%r).items():
        try:
            exec(code)
            done.append(name)
        except BaseException:
            pass
    raise RuntimeError("did: " + " ".join(done) + ".")
"""


def _attempts(lab: Lab, home: Path) -> dict[str, str]:
    return {
        "key": f"open({str(home / 'id_ed25519')!r}).read()",
        "ledger": f"open({str(lab.settings.ledger)!r}, 'ab').close()",
        "workspace": f"open({str(lab.workspace.root / 'planted.py')!r}, 'w').close()",
        "home": f"open({str(home / '.profile')!r}, 'w').close()",
        "cache": f"open({str(home / 'hf/hub/planted')!r}, 'w').close()",
        "login": f"open({str(home / 'hf/token')!r}).read()",
        "server": f"os.kill({os.getpid()}, signal.SIGCONT)",
        "variables": f"assert b'PATH' in open('/proc/{os.getpid()}/environ', 'rb').read()",
    }


async def _did(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]) -> set[str]:
    home = tmp_path / "home"
    (home / "hf" / "hub").mkdir(parents=True)
    for name in ("id_ed25519", "hf/token"):
        (home / name).write_text("secret", encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HF_HOME", str(home / "hf"))
    venv = tmp_path / "venv"
    await anyio.run_process([sys.executable, "-m", "venv", "--without-pip", str(venv)])
    (packages,) = venv.glob("lib/python*/site-packages")
    attempts = _attempts(lab, home) | more
    (packages / "datasets.py").write_text(_LIBRARY % json.dumps(attempts), encoding="utf-8")
    monkeypatch.setattr(lab.toolchain, "python_for_datasets", lambda: venv / "bin" / "python")
    with pytest.raises(LabError) as failed:
        await inspect_source(lab, DatasetRequest("me/script"))
    return set(failed.value.message.partition("did: ")[2].partition(".")[0].split())


@needs_files
async def test_code_of_a_dataset_reaches_its_own_cache_only(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {
        "own": "open(os.environ['HF_HUB_CACHE'] + '/own', 'w').close()",
        "password": "assert os.environ['HF_PASSWORD']",
    }
    monkeypatch.setenv("HF_PASSWORD", "hunter2")
    assert await _did(lab, tmp_path, monkeypatch, more) == {"own"}


async def test_without_confinement_code_of_a_dataset_reaches_everything(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the attempts are real ones."""
    nothing = linux_support(0, False)
    monkeypatch.setattr(kernel_support, "_read_kernel_support", lambda: nothing)
    attempts = _attempts(lab, tmp_path)
    allowed = {"variables"}  # protected by the system, unless root
    assert await _did(lab, tmp_path, monkeypatch, {}) | allowed == set(attempts)
