"""A scan says of generated datasets what was written down before the scan was made faster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab.datasets import scan_records

RECORDS = json.loads(scan_records.RECORDS.read_text(encoding="utf-8"))


def test_every_generated_dataset_is_recorded() -> None:
    assert list(scan_records.datasets()) == list(RECORDS)


@pytest.mark.rotate(share=4)
@pytest.mark.parametrize("name", list(RECORDS))
def test_a_scan_says_what_was_recorded(name: str, tmp_path: Path) -> None:
    assert scan_records.record(tmp_path, *scan_records.datasets()[name]) == RECORDS[name]
