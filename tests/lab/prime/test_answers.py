"""What prime prints is read, and what it does not print is none: answers that lack a part, failures in its words."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.base.process import CompletedProcess
from prime_lab_mcp.lab.prime import answers, refusals
from prime_lab_mcp.lab.prime.answers import WheelPlace
from prime_lab_mcp.lab.prime.program import parse_json

HASH = "ab" * 32
VERSIONS = f"""\
Environment: primeintellect/reverse-text
  Version  Created     Content Hash
0.2.0    2026-01-02  {HASH}
0.1.0    2026-01-01  -
"""


def test_a_table_without_a_user_is_no_account() -> None:
    assert answers.account_of("Type   User\nUser ID   Unknown", "prime login") is None


@pytest.mark.parametrize(
    ("text", "hashes"),
    [
        (VERSIONS, {"0.2.0": HASH, "0.1.0": ""}),
        (VERSIONS + "\nLatest version: 0.2.0\n", {"0.2.0": HASH, "0.1.0": ""}),
        ("No versions found.", {}),
    ],
)
def test_hashes_are_read_to_the_end_of_their_table(text: str, hashes: dict[str, str]) -> None:
    assert answers.hashes_of(text) == hashes


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("https://h.example/a.whl", WheelPlace("https://h.example/a.whl")),
        ("a==1.0 --extra-index-url https://i.example/simple", WheelPlace("https://i.example/simple", "a", "1.0")),
        ("a --extra-index-url https://i.example/simple", WheelPlace("https://i.example/simple", "a", None)),
        ("a==1.0", None),
        ("-e .", None),
    ],
)
def test_the_place_of_a_wheel_is_that_of_the_install_command(command: str, place: WheelPlace | None) -> None:
    assert answers.wheel_place_of(f"To install:\n  $ uv pip install {command}\n") == place
    assert answers.wheel_place_of("This environment is private.") is None


@pytest.mark.parametrize(
    ("entry", "runtime"),
    [
        ({"runtime": "verifiers_v0"}, "v0"),
        ({"latest_version": {"runtime_hint": "VERIFIERS_V1"}}, "v1"),
        ({"runtime": "another", "latest_version": "0.1.0"}, None),
    ],
)
def test_the_generation_of_verifiers_is_labelled_on_the_entry_or_its_latest_version(
    entry: dict[str, object], runtime: str | None
) -> None:
    assert answers.runtime_of(entry) == runtime


def test_an_answer_without_the_id_of_a_run_is_no_submission() -> None:
    assert answers.submitted_of({"run": "queued"}) is None
    assert answers.submitted_of({"run": {"runId": ""}}) is None
    submitted = answers.submitted_of({"run": {"runId": "r1", "pricePerGpuHour": "2.4", "estimatedCostPerHour": "soon"}})
    assert submitted == answers.Submitted("r1", 2.4, None)


def test_json_that_is_no_object_cannot_be_read() -> None:
    with pytest.raises(refusals.PrimeRefusal) as refused:
        parse_json("[1, 2]", "listing")
    assert refused.value.code == "prime-failed"


def test_of_a_traceback_only_the_last_line_is_told() -> None:
    text = 'Traceback (most recent call last):\n  File "/opt/prime/x.py", line 3, in f\nKeyError: 7'
    refused = refusals.refusal(CompletedProcess(("prime",), 1, text, "", 0.1), "listing")
    assert "KeyError: 7" in refused.message
    assert "/opt/prime" not in refused.message
