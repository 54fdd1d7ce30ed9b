"""Presets, keys, what an endpoint answers about a model, and the variables that lead judges to the relay."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import BadInput, EvalError
from prime_lab_mcp.lab.base.settings import NamedEndpoint
from prime_lab_mcp.lab.relay import endpoints
from prime_lab_mcp.lab.relay.endpoints import Endpoint, Price, judge_variables, no_judge_variables
from tests.lab.evals.scripted import adds, serving

VARIABLES = {
    "PRIME_INFERENCE_URL",
    "PRIME_TEAM_ID",
    *(preset.variable for preset in endpoints.PRESETS.values() if preset.variable),
}


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("preset", [name for name, preset in endpoints.PRESETS.items() if preset.needs_key])
def test_an_unset_key_is_an_error_before_anything_is_sent(preset: str) -> None:
    with pytest.raises(EvalError) as refused:
        endpoints.resolve_endpoint(preset, {})
    assert refused.value.code == "endpoint-no-key"
    assert "_API_KEY" in refused.value.message


def test_the_login_of_the_user_serves_where_no_variable_does(nobody: Path) -> None:
    (nobody / ".prime").mkdir()
    (nobody / ".prime" / "config.json").write_text(json.dumps({"api_key": "login-key", "team_id": "t1"}))

    access = endpoints.resolve_endpoint(None, {})

    assert (access.key, access.endpoint.team, access.endpoint.host) == ("login-key", "t1", "api.pinference.ai")
    assert "login-key" not in repr(access)


def test_rehearsal_variables_win_over_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIME_API_KEY", "the-users-own")
    rehearsal = {"PRIME_API_KEY": "rehearsal-key", "PRIME_INFERENCE_URL": "http://127.0.0.1:1/inference/v1"}

    access = endpoints.resolve_endpoint("prime", rehearsal)

    assert (access.key, access.endpoint.url) == ("rehearsal-key", "http://127.0.0.1:1/inference/v1")


def test_a_persons_name_stands_for_its_url_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "abc")
    named = (NamedEndpoint("lab", "https://models.example.com/v1", "MY_KEY"),)

    access = endpoints.resolve_endpoint("lab", {}, named)

    assert access.endpoint == Endpoint("lab", "https://models.example.com/v1", "MY_KEY")
    assert access.key == "abc"


def test_a_named_endpoint_whose_variable_is_unset_is_an_error() -> None:
    named = (NamedEndpoint("lab", "https://models.example.com/v1", "NOT_THERE"),)
    with pytest.raises(EvalError) as refused:
        endpoints.resolve_endpoint("lab", {}, named)
    assert refused.value.code == "endpoint-no-key"


def test_a_url_has_no_key_even_if_a_person_named_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "abc")
    named = (NamedEndpoint("lab", "https://models.example.com/v1", "MY_KEY"),)

    access = endpoints.resolve_endpoint("https://models.example.com/v1/", {}, named)

    assert (access.endpoint, access.key) == (Endpoint("url", "https://models.example.com/v1"), None)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://models.example.com/v1", "endpoint-insecure"),
        ("https://user:secret@models.example.com/v1", "endpoint-unknown"),
        ("https://models.example.com/v1?key=secret", "endpoint-unknown"),
        ("https://models.example.com:port/v1", "endpoint-unknown"),
        ("https://models.example.com/'v1", "endpoint-unknown"),
        ("https://models.example.com/v1|MY_KEY", "endpoint-key-in-call"),
        ("anthropic", "endpoint-unknown"),
        ("file:///etc/passwd", "endpoint-unknown"),
    ],
)
def test_urls_that_are_unsafe_or_unknown_are_refused(url: str, code: str) -> None:
    with pytest.raises(BadInput) as refused:
        endpoints.resolve_endpoint(url, {})
    assert refused.value.code == code
    assert "secret" not in refused.value.message


@pytest.mark.anyio
async def test_a_model_that_a_complete_list_lacks_is_refused_with_what_there_is() -> None:
    with serving(adds) as model:
        access = endpoints.resolve_endpoint(model.url, {})
        with pytest.raises(EvalError) as refused:
            await endpoints.query_endpoint(access, "other", exact=True)
        found = await endpoints.query_endpoint(access, "scripted", exact=True)

    assert refused.value.code == "endpoint-no-model"
    assert "scripted" in refused.value.message
    assert found.price is None


@pytest.mark.anyio
async def test_an_endpoint_that_is_not_there_is_an_error() -> None:
    access = endpoints.resolve_endpoint("http://127.0.0.1:9/v1", {})
    with pytest.raises(EvalError) as refused:
        await endpoints.query_endpoint(access, "m", exact=False)
    assert refused.value.code == "endpoint-unreachable"


@pytest.mark.anyio
@pytest.mark.parametrize(("named", "words"), [(True, "the key from MY_KEY"), (False, "wants a key, and url has none")])
async def test_an_endpoint_that_refuses_the_key_or_wants_one_is_an_error(
    monkeypatch: pytest.MonkeyPatch, named: bool, words: str
) -> None:
    monkeypatch.setenv("MY_KEY", "abc")
    with serving(adds) as model:
        model.listing = (401, "{}")
        access = endpoints.resolve_endpoint("lab", {}, [NamedEndpoint("lab", model.url, "MY_KEY")])
        access = access if named else endpoints.resolve_endpoint(model.url, {})
        with pytest.raises(EvalError, match=words) as refused:
            await endpoints.query_endpoint(access, "m", exact=True)
    assert refused.value.code == "endpoint-refused"
    assert "abc" not in refused.value.message


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("listing", "price"),
    [
        ("no json", None),
        ('{"data": [{"id": "m", "pricing": {"prompt": "0.000002", "completion": "0.000004"}}]}', Price(2.0, 4.0)),
        ('{"data": [{"id": "m", "pricing": {"prompt": "-1", "completion": "-1"}}]}', None),
        ('{"data": [{"id": "m", "pricing": {"request": "1", "prompt": null, "completion": "free"}}]}', None),
        ('{"data": [{"id": "m"}]}', None),
    ],
)
async def test_a_price_that_is_not_stated_in_numbers_is_unknown(listing: str, price: Price | None) -> None:
    with serving(adds) as model:
        model.listing = (200, listing)
        found = await endpoints.query_endpoint(endpoints.resolve_endpoint(model.url, {}), "m", exact=True)
    assert found.price == price


@pytest.mark.parametrize(
    ("preset", "vouched"),
    [("prime", "platform"), ("openai", "provider"), ("vllm", "call"), ("url", "call"), ("lab", "person")],
)
def test_an_endpoint_is_vouched_for_by_who_named_it(preset: str, vouched: str) -> None:
    assert Endpoint(preset, "https://models.example.com/v1").named_by == vouched


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lab = [", "cannot be read"),
        ("lab = 3", "is no text"),
        ('"my lab" = "https://models.example.com/v1"', "no name of an endpoint"),
        ('prime = "https://models.example.com/v1"', "is taken"),
        ('lab = "https://models.example.com/v1|a key"', "no name of a variable"),
    ],
)
def test_a_file_of_endpoints_says_which_line_is_wrong_and_repeats_no_key(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / endpoints.FILE).write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=words) as refused:
        endpoints.all_named_endpoints(tmp_path, ())
    assert "a key" not in refused.value.message


def test_what_is_said_about_presets_names_a_new_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    new = {"local": replace(endpoints.PRESETS["vllm"]), "priced": replace(endpoints.PRESETS["openrouter"])}
    priced, without_key = endpoints.presets_with_prices(), endpoints.presets_without_key()
    monkeypatch.setattr(endpoints, "PRESETS", {**endpoints.PRESETS, **new})
    assert endpoints.presets_with_prices() == f"{priced}, priced"
    assert endpoints.presets_without_key() == f"{without_key}, local"


def test_no_module_lists_presets_in_a_text_of_its_own() -> None:
    package, names = Path(endpoints.__file__).parents[2], "|".join(endpoints.PRESETS)
    listing = re.compile(rf"\b({names}), ({names})\b")
    assert [m.name for m in sorted(package.rglob("*.py")) if listing.search(m.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(("preset", "port"), [("vllm", 8000), ("ollama", 11434)])
def test_presets_of_this_machine_have_no_key_because_anybody_may_listen_there(
    preset: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{preset.upper()}_API_KEY", "own")
    access = endpoints.resolve_endpoint(preset, {})
    assert (access.key, access.endpoint.host) == (None, f"localhost:{port}")


def test_the_platforms_key_does_not_go_over_plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIME_API_KEY", "own")
    monkeypatch.setenv("PRIME_INFERENCE_URL", "http://models.example.com/v1")
    with pytest.raises(BadInput) as refused:
        endpoints.resolve_endpoint("prime", {})
    assert refused.value.code == "endpoint-insecure"


JUDGE_URL, JUDGE_SECRET = "http://127.0.0.1:1/v1", "relay-secret"
JUDGE_NAMES = {"OPENAI_API_KEY", "OPENAI_BASE_URL", "PRIME_API_KEY", "PRIME_INFERENCE_URL"}


def test_every_key_is_the_relays_and_every_endpoint_the_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "real")
    found = judge_variables(JUDGE_URL, JUDGE_SECRET, ())
    assert {found[name] for name in JUDGE_NAMES} == {JUDGE_URL, JUDGE_SECRET}
    assert "real" not in found.values()


def test_a_key_that_a_person_allowed_keeps_its_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "real")
    assert JUDGE_NAMES & set(judge_variables(JUDGE_URL, JUDGE_SECRET, ("OPENAI_API_KEY",))) == {
        "PRIME_API_KEY",
        "PRIME_INFERENCE_URL",
    }


def test_without_a_judge_every_endpoint_is_one_that_nobody_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "real")
    found = no_judge_variables(())
    assert {found[name] for name in JUDGE_NAMES} == {"http://127.0.0.1:9/v1", "no-key"}
