"""The way of a judge inside an environment: which variables lead to the relay, and which a person keeps."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.evals.program import judge_variables

URL, SECRET = "http://127.0.0.1:1/v1", "relay-secret"
NAMES = {"OPENAI_API_KEY", "OPENAI_BASE_URL", "PRIME_API_KEY", "PRIME_INFERENCE_URL"}


def test_every_key_is_the_relays_and_every_endpoint_the_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "real")
    found = judge_variables(URL, SECRET, ())
    assert {found[name] for name in NAMES} == {URL, SECRET}
    assert "real" not in found.values()


def test_a_key_that_a_person_allowed_keeps_its_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "real")
    assert NAMES & set(judge_variables(URL, SECRET, ("OPENAI_API_KEY",))) == {"PRIME_API_KEY", "PRIME_INFERENCE_URL"}
