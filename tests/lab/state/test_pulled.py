"""Which folders count as another owner's code, and what their pulls are remembered by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.manifest import Manifest
from prime_lab_mcp.lab.state.pulled import (
    PULL,
    PulledFiles,
    pull_of_folder,
    pulled_as,
    pulled_source,
    record_agreement,
    schema_of_pull,
    unagreed_pull,
)
from prime_lab_mcp.lab.state.snapshot import Snapshot

FILES = PulledFiles("them/sums@1.0", "s")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(tmp_path / "l.sqlite3")
    data = {"pulled": FILES.ref, "source": FILES.source, "content": "c"}
    opened.record(Evidence(PULL, "passed", "w", "sums", data=data))
    opened.record(Evidence(PULL, "passed", "w", "own", data={"template": "exact"}))
    yield opened
    opened.close()


def snapshot(folder: str = "sums", source: str = "s", content: str = "c") -> Snapshot:
    return Snapshot(folder, f"environments/{folder}", Path(), source, content, "h", {}, (), Manifest())


@pytest.mark.parametrize(
    ("workspace", "taken", "pulled"),
    [
        ("w", snapshot(), True),
        ("w", snapshot(source="edited", content="edited"), True),
        ("w", snapshot("copy"), True),
        ("w", snapshot("copy", source="edited"), True),
        ("other", snapshot(content="edited"), True),
        ("w", snapshot("copy", "edited", "edited"), False),
        ("other", snapshot(source="edited", content="edited"), False),
        ("w", snapshot("own", "edited", "edited"), False),
    ],
    ids=["as pulled", "edited", "copied", "same bytes", "other workspace", "copied and edited", "other folder", "own"],
)
def test_code_is_anothers_by_its_files_or_by_the_folder_it_was_pulled_into(
    ledger: Ledger, workspace: str, taken: Snapshot, pulled: bool
) -> None:
    assert unagreed_pull(ledger, workspace, taken) == (FILES if pulled else None)


def test_an_agreement_counts_for_these_files_and_their_edits_and_for_no_other_pull(ledger: Ledger) -> None:
    other = PulledFiles(FILES.ref, "another")
    record_agreement(ledger, "w", other)
    assert unagreed_pull(ledger, "w", snapshot()) == FILES
    record_agreement(ledger, "w", FILES)
    assert unagreed_pull(ledger, "w", snapshot()) is None
    assert unagreed_pull(ledger, "w", snapshot(source="edited", content="edited")) is None


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (("w", "them", "sums", None), True),
        (("w", "them", "sums", "1.0"), True),
        (("w", "them", "sums", "2.0"), False),
        (("w", "me", "sums", None), False),
        (("other", "them", "sums", None), False),
    ],
    ids=["any version", "this version", "other version", "other owner", "other workspace"],
)
def test_a_pull_is_found_by_what_was_pulled(ledger: Ledger, asked: tuple[Any, ...], found: bool) -> None:
    assert pulled_as(ledger, *asked) == ("sums" if found else None)
    assert pulled_source(ledger, *asked) == (("sums", "s") if found else None)


def test_a_folder_that_was_created_here_holds_no_pull(ledger: Ledger) -> None:
    assert pull_of_folder(ledger, "w", "sums") == FILES
    assert pull_of_folder(ledger, "w", "own") is None


def test_the_keys_of_a_pulled_taskset_are_known_by_its_version_if_its_source_said_them(ledger: Ledger) -> None:
    assert schema_of_pull(ledger, "w", "them", "sums", "1.0") is None
    data = {"pulled": FILES.ref, "taskset_fields": ["split", "size"]}
    ledger.record(Evidence(PULL, "passed", "w", "sums", data=data))
    schema = schema_of_pull(ledger, "w", "them", "sums", None)
    assert schema is not None
    assert set(schema["properties"]) == {"id", "task", "system_prompt", "split", "size"}
    assert schema_of_pull(ledger, "w", "them", "sums", "1.0") == schema
    assert schema_of_pull(ledger, "w", "them", "sums", "2.0") is None
    assert schema_of_pull(ledger, "w", "them", "other", "1.0") is None
