"""One table of credential formats serves the push check, the data scan and everything that is shown."""

from __future__ import annotations

import json
import random
import string
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_lab_mcp.lab.base import credentials
from prime_lab_mcp.lab.base.credentials import FORMATS, REDACTED, find, redacted
from prime_lab_mcp.lab.base.text import quote, redact
from prime_lab_mcp.lab.datasets.suspicious_text import credential
from tests.lab.environment.test_static_checks import README, V1, blockers

RANDOM = random.Random(7)
ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def drawn(alphabet: str, length: int) -> str:
    return (
        "".join(RANDOM.choice(alphabet) for _ in range(length - 3)) + "k7R"
        if alphabet != HEX
        else "".join(RANDOM.choice(alphabet) for _ in range(length))
    )


JWT = ".".join(("eyJ" + drawn(ALNUM, 33), "eyJ" + drawn(ALNUM, 60), drawn(ALNUM + "_-", 43)))
PEM = (
    "-----BEGIN {}PRIVATE KEY-----\n"
    + drawn(ALNUM + "+/", 64)
    + "\n"
    + drawn(ALNUM, 40)
    + "=\n-----END PRIVATE KEY-----"
)
KEYS = {
    "prime": "pit_" + drawn(HEX, 32),
    "openai": "sk-" + drawn(ALNUM, 20) + "T3BlbkFJ" + drawn(ALNUM, 20),
    "openai project": "sk-proj-" + drawn(ALNUM + "_-", 120),
    "anthropic": "sk-ant-api03-" + drawn(ALNUM + "_-", 93) + "AA",
    "openrouter": "sk-or-v1-" + drawn(HEX, 64),
    "hugging face": "hf_" + drawn(string.ascii_letters, 34),
    "github": "ghp_" + drawn(ALNUM, 36),
    "github oauth": "gho_" + drawn(ALNUM, 36),
    "github server": "ghs_" + drawn(ALNUM, 36),
    "github fine-grained": "github_pat_" + drawn(ALNUM, 22) + "_" + drawn(ALNUM, 59),
    "gitlab": "glpat-" + drawn(ALNUM + "_-", 20),
    "gitlab deploy": "gldt-" + drawn(ALNUM + "_-", 20),
    "google": "AIza" + drawn(ALNUM + "_-", 35),
    "google secret": "GOCSPX-" + drawn(ALNUM + "_-", 28),
    "google token": "ya29." + drawn(ALNUM + "_-", 120),
    "aws": "AKIA" + "Z7Q2M4N6P3R5T2W7",
    "aws session": "ASIA" + "Z7Q2M4N6P3R5T2W7",
    "slack bot": "xoxb-" + "263594206564" + "-" + "2343594206574-" + drawn(ALNUM, 24),
    "slack user": "xoxp-" + "263594206564" + "-" + drawn(ALNUM, 32),
    "stripe": "sk_live_" + drawn(ALNUM, 24),
    "stripe restricted": "rk_test_" + drawn(ALNUM, 24),
    "twilio": "SK" + drawn(HEX, 32),
    "sendgrid": "SG." + drawn(ALNUM + "_-", 22) + "." + drawn(ALNUM + "_-", 43),
    "npm": "npm_" + drawn(ALNUM, 36),
    "pypi": "pypi-AgEIcHlwaS5vcmc" + drawn(ALNUM + "_-", 120),
    "wandb": "wandb_v1_" + drawn(ALNUM, 70),
    "groq": "gsk_" + drawn(ALNUM, 52),
    "jwt": JWT,
    "digitalocean": "dop_v1_" + drawn(HEX, 64),
    "databricks": "dapi" + drawn(HEX, 32),
}
IN_PLACE = {
    "wandb variable": ("WANDB_API_KEY={}", drawn(HEX, 40)),
    "wandb login": ("wandb.login(key='{}')", drawn(HEX, 40)),
    "wandb yaml": ('wandb_api_key: "{}"', drawn(HEX, 40)),
    "aws secret": ("aws_secret_access_key = {}", drawn(ALNUM + "/+", 40)),
    "twilio token": ("TWILIO_AUTH_TOKEN: {}", drawn(HEX, 32)),
    "address": ("git clone https://ci:{}@git.somewhere.io/a/b", "pA5sw0rdOfMine"),
}


@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_known_to_the_push_to_the_scan_and_to_what_is_shown(tmp_path: Path, name: str) -> None:
    key = KEYS[name]
    text = f"the key is '{key}', keep it"
    assert [text[c.start : c.end] for c in find(text)] == [key]
    assert redact(text) == f"the key is '{REDACTED}', keep it"
    assert key[-12:] not in quote(text)
    masked = credential(text)
    assert masked is not None
    assert key[-12:] not in masked
    assert "secret-in-code" in blockers(tmp_path, {"README.md": f"{README}\n{text}\n"})


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_key_that_only_its_place_gives_away_is_known_there_alone(tmp_path: Path, name: str) -> None:
    form, key = IN_PLACE[name]
    text = form.format(key)
    assert [text[c.start : c.end] for c in find(text)] == [key]
    assert key not in redact(text)
    assert redact(f"digest {key} of the row") == f"digest {key} of the row"
    assert "secret-in-code" in blockers(tmp_path, {"thing.py": f"{V1}\nX = {text!r}\n"})


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_the_body_of_a_private_key_is_removed_and_json_stays_json(kind: str) -> None:
    whole = PEM.format(kind)
    body = whole.splitlines()[1]
    assert [c.kind for c in find(whole)] == ["private key"]
    assert body not in redact(whole)
    for value in (whole, whole.splitlines(), {"deep": json.dumps({"key": whole})}):
        shown = redact(json.dumps({"a": value, "b": [1, "last"]}))
        assert body not in shown
        assert json.loads(shown)["b"] == [1, "last"]


@pytest.mark.parametrize(
    "text",
    [
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "hf_your_token_goes_here",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_" + "x" * 36,
        "use sk-learn-based-classifiers-in-python",
        "task-12345678901234567890",
        "https://user:password@host.io/a",
        "postgres://postgres:postgres@localhost/db",
        "https://{user}:{password}@host",
        "sk-...",
        "pit_stop_strategy",
        "hf_hub_download(repo_id)",
        "npm_config_registry",
        "the Bearer authentication of RFC 6750",
        "glpat-<your-token>",
        "max_tokens: 4096",
        "api.wandb.ai",
        "http://localhost:8000/v1@2",
        "hf_transfer",
        "eyJhbGciOiJIUzI1NiJ9",
    ],
)
def test_placeholders_words_and_examples_accuse_nobody(text: str) -> None:
    assert list(find(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "use sk-learn-based-classifiers",
        "pit_stop_strategy",
        "hf_hub_download",
        "hf_transfer",
        "npm_config_registry",
        "the Bearer authentication of RFC 6750",
        "max_tokens: 4096",
        "http://localhost:8000/v1@2",
        "git+https://github.com/a/b@v1",
        "AKIA is a prefix",
        "xoxb- tokens",
        "total_tokens=123456789012",
    ],
)
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert redact(text) == text


DIGESTS = st.binary(min_size=16, max_size=64).map(bytes.hex)
BASE64 = st.text(ALNUM + "+/", min_size=20, max_size=400).map(lambda t: t + "==")
WORDS = (
    "the a risk- task- desk of-key token secret bearer reward_key api key tokens: = : - _ sk hf pit 12 3.5 model "
    "https://host/path user@host.org {x} [y] rubric, Basic task_id=17 mask-based disk-usage"
)
# After "bearer", a word with digits counts as a credential.
PROSE = (
    st.lists(st.sampled_from(WORDS.split()), max_size=40)
    .map(" ".join)
    .filter(lambda text: "bearer task_id=17" not in text)
)


@given(st.lists(st.one_of(DIGESTS, st.uuids().map(str), BASE64, PROSE, st.text(ALNUM, max_size=80)), max_size=6))
def test_digests_uuids_base64_rows_and_prose_are_shown_as_they_are(parts: list[str]) -> None:
    # What follows the word "bearer" is a credential, whatever it looks like.
    text = " ".join(part for part in parts if not part.casefold().endswith("bearer"))
    assert redacted(text) == text
    assert list(find(text)) == []


@given(st.text(max_size=40), st.sampled_from(sorted(KEYS.values())), st.text(max_size=40))
def test_whatever_surrounds_a_key_it_is_removed_and_the_rest_stays(before: str, key: str, after: str) -> None:
    shown = redacted(f"{before} {key} {after}")
    assert key not in shown
    if redacted(before) == before and redacted(after) == after:
        assert shown == f"{before} {REDACTED} {after}"


@given(
    st.recursive(
        st.one_of(
            st.text(max_size=30), st.integers(), st.sampled_from([*KEYS.values(), PEM.format(""), "Bearer a1b2c3d4"])
        ),
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
        max_leaves=10,
    )
)
def test_a_report_in_json_stays_json(value: object) -> None:
    shown = redacted(json.dumps({"value": value, "api_key=": "Bearer x", "end": 1}, ensure_ascii=False))
    assert json.loads(shown)["end"] == 1


MB = 1_000_000
MARKS = sorted({mark for format in FORMATS for mark in format.marks})


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "".join(MARKS),
        "".join(f" {mark}aB3" for mark in MARKS),
        " ".join(MARKS),
        "eyJ" + "a" * 2_000,
        "eyJaaaaaaaaaa.",
        "eyJaaaaaaaaaaaa.eyJaaaaaaaaaaaa.",
        "SG.a.",
        "://",
        "://a:",
        "://a:b@",
        "://a:bbb",
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----\nA",
        "bearer ",
        "Bearer",
        "api_key=",
        "api_key=a",
        "wandb_api_key",
        "wandb_api_key = ",
        "aws_secret_access_key=" + "a" * 39,
        "a",
        "\\",
        "-",
        "_",
        "é",
        "=",
    ],
    ids=repr,
)
def test_a_megabyte_of_anything_takes_time_in_proportion(unit: str) -> None:
    """Twenty times the text takes at most some sixty times as long: quadratic time would be four hundred."""
    small, big = (unit * (size // len(unit)) for size in (MB // 20, MB))
    small_time, big_time = (min(_spent(text) for _ in range(tries)) for text, tries in ((small, 5), (big, 1)))
    assert big_time < max(60 * small_time, 0.25)
    assert big_time < 3


def _spent(text: str) -> float:
    began = time.process_time()
    redacted(text)
    list(credentials.find(text))
    return time.process_time() - began


@pytest.mark.slow
@pytest.mark.parametrize("form", ["{}", "{}a", " {}aB3"])
def test_no_mark_repeated_takes_longer_than_in_proportion(form: str) -> None:
    for mark in MARKS:
        unit = form.format(mark)
        small, big = (unit * (size // len(unit)) for size in (5_000, 100_000))
        assert _spent(big) < max(60 * _spent(small), 0.1), mark


CHARACTERS = [chr(code) for code in range(0x3000)]


def test_every_body_is_a_run_for_which_a_text_is_screened() -> None:
    formats = [(entry.kind, entry.run, entry.least) for entry in FORMATS]
    for kind, run, least in formats + [(entry.kind, entry.run, entry.least) for entry in credentials._ASSIGNED]:
        allowed = {c for c in CHARACTERS if (m := run.match(c)) and m[0]}
        runs = [
            (more, length) for more, length in credentials.BODY_RUNS if allowed <= {*ALNUM, *more} and least >= length
        ]
        assert runs, kind


PIECES = [m for entry in FORMATS for m in entry.marks] + [n for entry in credentials._ASSIGNED for n in entry.names]
PIECES += [
    *KEYS.values(),
    PEM,
    "=",
    ": ",
    "://",
    "anna:s3cr3tpassw0rd@db",
    " ",
    "\n",
    "\u0131",
    "\ud800",
    "a1B2c3D4",
    "+/=",
]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_a_text_that_is_not_searched_holds_no_credential(text: str) -> None:
    assert credentials.first(text) == next(find(text), None)


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN CERTIFICATE-----\n" + "x9" * 40 + "\n-----END CERTIFICATE-----",
        "wandb_api_key = the key of your account",
        f"wandb_api_key={drawn(ALNUM, 40)}",
        "aws_secret_access_key: " + "x" * 40,
    ],
)
def test_a_name_or_header_without_a_key_of_its_form_is_no_credential(text: str) -> None:
    assert list(find(text)) == []
