"""A witness whose process fails or answers something else, and the installation of the package that it sees."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, cast

import pytest

from prime_lab_mcp.lab.base.errors import WorkerError
from prime_lab_mcp.lab.worker import witness
from prime_lab_mcp.lab.worker.witness import Witness, WitnessScores, open_witness
from prime_lab_mcp.lab.worker.zygote import Zygote

from .conftest import said
from .scripted_child import Answer, ScriptedZygote

pytestmark = pytest.mark.anyio
PROJECT = '[project]\nname = "My-Sums"\nversion = "1.0"\n'


def replying(loaded: Mapping[str, Any] | None, scored: Mapping[str, Any] | None = None) -> Answer:
    """Answer the request to load, and then the cases."""
    return lambda request: [reply for reply in (scored if "cases" in request else loaded,) if reply is not None]


def opened(folder: Path, answer: Answer, **files: str) -> AbstractAsyncContextManager[Witness]:
    """A witness of a tree with these files."""
    tree = folder / "package"
    for path, text in {"sample.py": "", **files}.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text, encoding="utf-8")
    zygote = cast(Zygote, ScriptedZygote(folder, answer))
    zygote.allow = ()
    return open_witness(zygote, tree, "sample", {}, {}, 3)


async def scores(folder: Path, answer: Answer, **files: str) -> WitnessScores:
    """What a witness says of one case."""
    async with opened(folder, answer, **files) as found:
        return await found.score([said(3, "2")], case_timeout=1, timeout=1)


PASS = [{"reward": 1.0, "components": {"correct": None}}]
WHOLE = {"passes": [PASS] * len(witness.SHIFTS), "tasks": ["key:a"]}


async def test_each_pass_has_a_score_for_each_case(tmp_path: Path) -> None:
    found = await scores(tmp_path, replying({}, WHOLE))
    assert [[score.reward for score in one] for one in found.passes] == [[1.0]] * 3
    assert found.passes[0][0].components == {"correct": None}
    assert found.tasks == ("key:a",)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("has ended", "the process ended at once"),
        ("never reads", "did not answer in time"),
        (lambda request: [b"garbage\n"], "wrote nonsense .ChannelGarbage"),
        (replying({"failed": "ImportError: x"}), "does not load there: .*ImportError"),
        (replying({}, {"failed": "MemoryError"}), "scoring there raised .*MemoryError"),
        (replying({}, {"passes": 3}), "answered nonsense"),
        (replying({}, {**WHOLE, "tasks": []}), "answered nonsense"),
        (replying({}, {**WHOLE, "passes": [PASS]}), "answered nonsense"),
    ],
)
async def test_a_witness_that_fails_says_why_and_gives_no_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, words: str
) -> None:
    monkeypatch.setattr(witness, "LOAD_SECONDS", 0.2 if answer == "never reads" else 60.0)
    with pytest.raises(WorkerError, match=words):
        await scores(tmp_path, answer)


async def test_without_a_process_there_is_a_witness_that_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(self: ScriptedZygote, *, witness: bool) -> None:
        raise WorkerError("no process can be forked", fix="Call again.")

    monkeypatch.setattr(ScriptedZygote, "fork", nothing)
    async with opened(tmp_path, replying({})) as found:
        with pytest.raises(WorkerError, match="no second process could score the sample: no process can be forked"):
            await found.score([said(3, "2")], case_timeout=1, timeout=1)


@pytest.mark.parametrize(
    ("files", "installed"),
    [
        ({"pyproject.toml": PROJECT, "README.md": "Sums."}, ["my_sums-1.0.dist-info"]),
        ({"pyproject.toml": PROJECT, "prime_rl/own.py": ""}, ["my_sums-1.0.dist-info"]),
        ({"pyproject.toml": PROJECT.replace("1.0", "1 0")}, []),
        ({"pyproject.toml": "[project]\n"}, []),
        ({}, []),
    ],
)
async def test_the_copy_of_a_witness_looks_like_an_installation_beside_a_trainer(
    tmp_path: Path, files: dict[str, str], installed: list[str]
) -> None:
    seen: list[dict[str, Any]] = []

    def look(request: dict[str, Any]) -> list[object]:
        if "cases" in request:
            return [WHOLE]
        copy = Path(request["tree"])
        metadata = [path / "METADATA" for path in copy.glob("*.dist-info")]
        seen.append(
            {
                "installed": [path.parent.name for path in metadata],
                "described": [path.read_text(encoding="utf-8").partition("\n\n")[2] for path in metadata],
                "trainer": sorted(path.name for path in (copy / "prime_rl").iterdir()),
                "programs": sorted(path.name for path in (copy.parents[2] / "bin").iterdir()),
                "policy": request["policy"],
            }
        )
        return [{}]

    await scores(tmp_path, look, **files)
    assert seen[0]["installed"] == installed
    assert seen[0]["described"] == [files.get("README.md", "")] * len(installed)
    assert seen[0]["trainer"] == (["own.py"] if "prime_rl/own.py" in files else ["__init__.py"])
    assert (seen[0]["programs"], seen[0]["policy"]) == (["env-server", "nvidia-smi"], None)
