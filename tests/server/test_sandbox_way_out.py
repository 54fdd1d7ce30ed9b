"""An environment whose tasks need a container, on a machine that has none: recommended calls end and tell a person."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.evals import plan
from tests.flaws.corpus import read
from tests.flaws.run import write
from tests.server.test_paths import MODEL, opened

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SAMPLE = Path(__file__).parents[1] / "flaws" / "sound" / "gsm8k_hash.py"
LONGEST = 6
ANY = ("passed", "failed", "inconclusive", "blocked", "error")


async def test_recommended_calls_end_at_what_a_person_can_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "installed_containers", tuple)
    async with opened(tmp_path, rehearsal=True) as (settings, call):
        folder = settings.workspace / "environments" / SAMPLE.stem
        write(folder, read(SAMPLE, "sound"))
        code = next(folder.glob("*.py"))
        text = code.read_text(encoding="utf-8")
        code.write_text(
            text.replace("system_prompt=SYSTEM,", 'system_prompt=SYSTEM, image="debian:12",'), encoding="utf-8"
        )
        assert code.read_text(encoding="utf-8") != text
        for start in (
            ("run_eval", {"environment": SAMPLE.stem, "model": MODEL, "hosted": True}),
            ("push_environment", {"environment": SAMPLE.stem}),
            ("workflow_status", {"environment": SAMPLE.stem}),
        ):
            tool, given = start
            made = []
            while tool != "read_reference":
                assert (tool, given) not in made, f"{start[0]} leads into a circle: {made}"
                assert len(made) < LONGEST, made
                made.append((tool, given))
                report = await call(tool, ANY, **given)
                tool, given = report.next[0].tool, dict(report.next[0].arguments or {})
            assert given == {"topic": "finding/eval-needs-sandbox"}, made
            assert "install Podman" in report.findings[0].fix
