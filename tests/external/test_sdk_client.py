"""The SDK's own client walks the whole workflow in the handshake era; `make demo` does so in the newer one."""

from __future__ import annotations

import pytest

from prime_lab_mcp.cli.demo import demo


@pytest.mark.rotate(share=6, group="whole walks")
@pytest.mark.slow
def test_the_demo_comes_true_in_the_handshake_era_too(capsys: pytest.CaptureFixture[str]) -> None:
    code = demo(era="legacy")
    said = capsys.readouterr().out
    assert code == 0, said
    assert "Connected over stdio (2025-11-25)" in said
    assert said.count("the user says yes") == 2
