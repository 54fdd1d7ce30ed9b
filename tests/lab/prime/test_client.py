"""The door to the platform: the real prime on the rehearsal platform, and tiny stand-ins for programs that fail."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.process import CompletedProcess
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.prime import answers, program, refusals
from prime_lab_mcp.lab.prime.client import Prime
from prime_lab_mcp.lab.prime.program import installed_version
from tests.tools.loopback import CONFIG, Desk, desk

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with desk(tmp_path_factory.mktemp("prime"), speed=50) as opened:
        yield opened


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("401", "unauthorized"),
        ("402", "payment-required"),
        ("404", "platform-not-found"),
        ("409", "platform-conflict"),
        ("422", "platform-rejected"),
        ("503", "platform-failed"),
        ("garbage", "prime-failed"),
        ("drop-before", "platform-unreachable"),
    ],
)
async def test_every_way_the_platform_refuses_has_its_own_code_and_a_fix(at: Desk, fault: str, code: str) -> None:
    await at.fault(fault, "/billing/wallet")
    with pytest.raises(refusals.PrimeRefusal) as caught:
        await at.lab.prime.wallet()
    assert caught.value.code == code
    assert caught.value.fix


async def test_whoami_tells_the_identity_and_where_the_key_comes_from(at: Desk) -> None:
    account = await at.lab.prime.whoami()
    assert (account.user, account.team, account.key_source) == ("rehearsal", None, "rehearsal")
    assert account.rights["environments"] == (True, True)


async def test_hub_answers_are_read_with_hashes_of_every_version(at: Desk) -> None:
    versions = await at.lab.prime.env_versions("primeintellect/reverse-text")
    status = await at.lab.prime.env_status("primeintellect/reverse-text")
    assert list(versions) == ["0.2.0", "0.1.0"]
    assert versions["0.2.0"] == status["latest_version"]["content_hash"]
    assert answers.runtime_of(status) == "v1"


async def test_models_carry_prices_and_the_dearest_bounds_an_open_choice(at: Desk) -> None:
    models = await at.lab.prime.models()
    assert "Qwen/Qwen3-0.6B" in models.trainable
    assert models.price("H100_80GB") == 2.4
    assert models.price(None) == 3.5
    assert models.price("TPU") is None


async def test_validation_that_is_not_offered_is_no_verdict_on_the_config(at: Desk) -> None:
    await at.tell("/rehearsal/platform", prepare=False)
    answer = await at.lab.prime.train_validate(at.config(path="configs/rl/not-offered.toml"))
    await at.tell("/rehearsal/platform", prepare=True)
    assert answer.outcome == "not-offered"


async def test_validation_while_the_platform_is_down_is_unavailable(at: Desk) -> None:
    await at.fault("503", "/prepare")
    answer = await at.lab.prime.train_validate(at.config(path="configs/rl/down.toml"))
    assert answer.outcome == "unavailable"


async def test_a_submitted_run_is_listed_and_its_token_is_never_shown(at: Desk) -> None:
    path = at.config('name = "told"\n' + CONFIG, "configs/rl/told.toml")
    submitted = await at.lab.prime.train_submit(path)
    listed = await at.lab.prime.train_list("told")
    assert submitted.estimated_cost_per_hour == 7.0
    assert [run["id"] for run in listed] == [submitted.id]
    assert "token" not in repr(submitted).lower()


async def test_the_platforms_list_of_problems_is_kept(at: Desk) -> None:
    path = at.config(CONFIG.replace("0.2.0", "9.9.9"), "configs/rl/wrong.toml")
    with pytest.raises(refusals.PrimeRefusal) as caught:
        await at.lab.prime.train_submit(path)
    assert caught.value.code == "platform-rejected"
    assert caught.value.effect == "none"
    assert any("9.9.9" in problem for problem in caught.value.problems)


class Here:
    """Programs in one folder only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def programs(self, name: str) -> tuple[Path, ...]:
        return tuple(p for p in sorted(self.folder.glob(f"*/{name}")) if p.is_file())


def stand_in(folder: Path, body: str) -> None:
    folder.mkdir(parents=True)
    program = folder / "prime"
    program.write_text(f"#!{sys.executable} -S\nimport os, sys, time\n{body}\n", encoding="utf-8")
    program.chmod(0o755)


def real(tmp_path: Path) -> Prime:
    """Not in rehearsal: the user's own variables count."""

    async def none() -> Mapping[str, str]:
        return {}

    settings = Settings(workspace=tmp_path, state_dir=tmp_path / "state")
    return Prime(settings, Here(tmp_path / "bin"), none)


OLD = "print('Prime CLI version: 0.12.0')"
NEW = "if '--version' in sys.argv:\n    print('Prime CLI version: 0.18.1')\n    sys.exit()\n"


async def test_no_prime_anywhere_is_said_with_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        await real(tmp_path).whoami()
    assert caught.value.code == "prime-missing"
    assert "preflight(install=true)" in caught.value.fix


async def test_an_old_prime_is_passed_over_for_a_newer_one(tmp_path: Path) -> None:
    stand_in(tmp_path / "bin" / "a", OLD)
    with pytest.raises(LabError) as caught:
        await real(tmp_path).version()
    assert caught.value.code == "prime-too-old"
    stand_in(tmp_path / "bin" / "b", NEW)
    assert await real(tmp_path).version() == "0.18.1"


async def test_a_prime_whose_version_cannot_be_compared_is_too_old(tmp_path: Path) -> None:
    stand_in(tmp_path / "bin" / "a", "print('Prime CLI version: 0.18.0~local')")
    with pytest.raises(LabError) as caught:
        await real(tmp_path).version()
    assert caught.value.code == "prime-too-old"
    assert "0.18.0~local" in caught.value.message


async def test_a_prime_that_is_no_program_is_missing(tmp_path: Path) -> None:
    stand_in(tmp_path / "bin" / "a", NEW)
    (tmp_path / "bin" / "a" / "prime").chmod(0o644)
    with pytest.raises(LabError) as caught:
        await real(tmp_path).version()
    assert caught.value.code == "prime-missing"


async def test_a_prime_that_writes_without_end_is_ended(tmp_path: Path) -> None:
    stand_in(tmp_path / "bin" / "a", "while True: print('x' * 1000)")
    with pytest.raises(LabError) as caught:
        await real(tmp_path).version()
    assert caught.value.code == "prime-failed"
    assert "wrote more than" in caught.value.message


async def test_a_prime_that_is_no_script_has_no_version_without_a_start(tmp_path: Path) -> None:
    program = tmp_path / "prime"
    assert installed_version(program) is None
    program.write_bytes(b"\x7fELF\xff\xfe")
    assert installed_version(program) is None


async def test_commands_share_no_process_where_forking_after_imports_is_not_safe(
    at: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, version = await at.lab.prime._program.find()
    assert installed_version(path) == version
    monkeypatch.setattr(program, "sys", SimpleNamespace(platform="darwin"))
    assert installed_version(path) is None


@pytest.mark.parametrize("printed", ["nobody", "User ID   Unknown"])
async def test_an_answer_without_a_user_is_no_login(tmp_path: Path, printed: str) -> None:
    stand_in(tmp_path / "bin" / "a", NEW + f"print({printed!r})")
    with pytest.raises(refusals.PrimeRefusal) as caught:
        await real(tmp_path).whoami()
    assert caught.value.code == "prime-failed"
    assert printed in caught.value.message


async def test_a_submission_that_names_no_run_may_have_been_made(tmp_path: Path) -> None:
    stand_in(tmp_path / "bin" / "a", NEW + 'print(\'{"run": {"name": "x"}}\')')
    with pytest.raises(refusals.PrimeRefusal) as caught:
        await real(tmp_path).train_submit(tmp_path / "config.toml")
    assert (caught.value.code, caught.value.effect) == ("prime-failed", "unknown")


async def test_the_users_choices_about_uv_reach_prime(
    at: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, config = tmp_path / "programs", tmp_path / "config" / "uv" / "uv.toml"
    programs.mkdir()
    (programs / "uv").write_text("#!/bin/sh\n", encoding="utf-8")
    (programs / "uv").chmod(0o755)
    config.parent.mkdir(parents=True)
    config.write_text("", encoding="utf-8")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "automatic")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config.parents[1]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("UV_CACHE_DIR", raising=False)
    seen = await at.lab.prime._program.variables()
    assert (seen["PATH"], seen["UV_PYTHON_DOWNLOADS"]) == (str(programs), "automatic")
    assert (seen["UV_CONFIG_FILE"], seen["UV_CACHE_DIR"]) == (str(config), str(tmp_path / "cache" / "uv"))


async def test_a_program_that_hangs_is_ended_and_leaves_the_outcome_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path / "bin" / "a", NEW + "time.sleep(600)")
    prime = real(tmp_path)
    await prime.version()
    with pytest.raises(refusals.PrimeRefusal) as caught:
        await prime._program.text(["wallet"], timeout=0.3, doing="reading the wallet")
    assert (caught.value.code, caught.value.effect) == ("platform-slow", "unknown")


async def test_the_child_sees_the_users_login_and_nothing_else_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIME_API_KEY", "pit_secretsecret")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-prime")
    monkeypatch.setenv("PRIME_LAB_STATE_DIR", "/elsewhere")
    stand_in(tmp_path / "bin" / "a", NEW + "import json; print(json.dumps({'seen': sorted(os.environ)}))")
    seen = (await real(tmp_path)._program.json(["x"], timeout=20, doing="looking"))["seen"]
    assert "PRIME_API_KEY" in seen
    assert not {"OPENAI_API_KEY", "PRIME_LAB_STATE_DIR"} & set(seen)


async def test_a_key_that_prime_prints_does_not_reach_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIME_API_KEY", "abcdef-very-secret")
    stand_in(tmp_path / "bin" / "a", NEW + "print('Error: bad key', os.environ['PRIME_API_KEY']); sys.exit(1)")
    with pytest.raises(LabError) as caught:
        await real(tmp_path).wallet()
    assert "very-secret" not in caught.value.message


async def test_a_rehearsal_never_sees_the_users_login(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIME_API_KEY", "the-users-own-key")
    monkeypatch.setenv("PRIME_SSH_KEY_PATH", "/home/user/.ssh/id")
    seen = await at.lab.prime._program.variables()
    assert seen["PRIME_API_KEY"] != "the-users-own-key"
    assert "PRIME_SSH_KEY_PATH" not in seen
    assert seen["HOME"] != os.environ.get("HOME")


def said(text: str) -> refusals.PrimeRefusal:
    return refusals.refusal(CompletedProcess(("prime",), 1, text, "", 0.1), "trying")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Error: No API key configured. Use command 'prime login' to ...", "not-logged-in"),
        ("Error: API key unauthorized. Please check", "unauthorized"),
        ("Error: Request failed: ConnectError at GET http://x: refused", "platform-unreachable"),
        ("Error: Request timed out: read", "platform-unreachable"),
        ("Error: HTTP 403: not yours", "platform-forbidden"),
        ("Error: HTTP 429: slower", "platform-busy"),
        ("Failed to prepare wheel upload: HTTP 400: content hash abc already exists", "platform-conflict"),
        ("Build failed!\nerror: no backend\nUnexpected error: 1", "push-unbuildable"),
        ("Usage: prime [OPTIONS]\nError: No such command 'train'.", "prime-too-old"),
        (
            "Error: rl.toml is a shared LoRA training config. Shared LoRA training no longer accepts",
            "platform-rejected",
        ),
        ("something never seen", "prime-failed"),
        ("Error: Config validation failed:\ntrainer.lr: Extra inputs are not permitted", "platform-rejected"),
        ("Error: schema provenance mismatch: expected a, installed b", "prime-failed"),
        ("Upload failed: Client error '403 Forbidden' for url 'http://x/uploads/a/b'", "platform-failed"),
    ],
)
async def test_words_of_prime_become_codes(text: str, code: str) -> None:
    assert said(text).code == code


async def test_only_a_request_that_never_left_certainly_had_no_effect() -> None:
    assert said("Error: Request failed: ConnectError at POST http://x").effect == "none"
    assert said("Error: Request failed: ReadError at POST http://x").effect == "unknown"
    assert said("Error: HTTP 502: bad gateway").effect == "unknown"


async def test_lines_that_only_repeat_an_exit_code_are_dropped() -> None:
    message = said("Failed to resolve environment: HTTP 403: not yours\nUpload failed: 1\nUnexpected error: 1").message
    assert "not yours" in message
    assert "Upload failed" not in message
    assert "Unexpected error" not in message
    for noise in ("Upload failed: 1", "Unexpected error: 1\n", "Error: 1", "Unexpected error: 2\nAborted: 1"):
        assert said(noise).message == "trying: prime failed, and gave no reason"


async def test_an_upload_address_is_a_secret_and_never_repeated() -> None:
    text = "Upload failed: Server error '500 Internal' for url 'https://s3/x?X-Amz-Signature=abc'\nUpload failed: 1"
    assert "abc" not in said(text).message


async def test_what_prime_found_before_it_sent_anything_is_a_list_of_problems() -> None:
    refused = said("Error: Config validation failed:\ntrainer.optim.adamw.x: Extra inputs\nmax_steps: no")
    assert (refused.effect, refused.problems) == ("none", ("trainer.optim.adamw.x: Extra inputs", "max_steps: no"))


async def test_json_is_read_behind_lines_for_people() -> None:
    from prime_lab_mcp.lab.prime.program import parse_json as parse

    assert parse('Creating secret...\n{"id": "x"}', "creating") == {"id": "x"}
    with pytest.raises(LabError) as caught:
        parse("not json at all", "creating")
    assert caught.value.code == "prime-failed"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("Config validation failed:\norchestrator.group_size: Input should be at least 1", "invalid"),
        ("Hosted RL runs need inference GPUs: set deployment.num_infer_gpus", "invalid"),
        ("Could not build local schema environment:\nerror: git", "unavailable"),
        ("Local config validation requires uv on PATH.", "unavailable"),
        ("No API key configured.", "unavailable"),
        ("schema provenance mismatch: expected a, installed b", "unavailable"),
        ("Failed to parse local validation preparation: 1 validation error for X", "unavailable"),
        ("HTTP 405: Method Not Allowed", "not-offered"),
    ],
)
async def test_what_validation_says_is_blamed_on_config_platform_or_machine(
    tmp_path: Path, error: str, outcome: str
) -> None:
    answer = json.dumps({"error": error})
    stand_in(tmp_path / "bin" / "a", NEW + f"print({answer!r}); sys.exit(1)")
    path = tmp_path / "c.toml"
    path.write_text("", encoding="utf-8")
    assert (await real(tmp_path).train_validate(path)).outcome == outcome


async def test_cancelling_ends_the_program(tmp_path: Path) -> None:
    flag = tmp_path / "survived"
    stand_in(tmp_path / "bin" / "a", NEW + f"time.sleep(1.5); open({str(flag)!r}, 'w')")
    prime = real(tmp_path)
    await prime.version()
    with anyio.move_on_after(0.4) as scope:
        await prime.wallet()
    assert scope.cancelled_caught
    with anyio.move_on_after(2.0):
        while not flag.exists():
            await anyio.sleep(0.1)
    assert not flag.exists()


async def test_a_name_that_looks_like_an_option_never_reaches_prime(tmp_path: Path) -> None:
    for asked in (real(tmp_path).env_status("--help/x"), real(tmp_path).train_stop("-f")):
        with pytest.raises(LabError) as caught:
            await asked
        assert caught.value.code == "bad-input"


SLOW_CONFIG = """
path = os.path.expanduser("~/.prime/config.json")
os.makedirs(os.path.dirname(path), exist_ok=True)
if not os.path.exists(path):
    with open(path, "w") as config:
        time.sleep(0.3)
        config.write("{}")
with open(path) as config:
    print(config.read())
"""
"""What prime 0.18 does in a fresh HOME: it empties its config file before it writes, and it reads the file at start."""


async def test_commands_beside_the_first_one_in_a_fresh_home_read_a_whole_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    stand_in(tmp_path / "bin" / "a", NEW + SLOW_CONFIG)
    program = real(tmp_path)._program
    await program.find()
    printed: list[str] = []

    async def command() -> None:
        printed.append(await program.text(["whoami"], timeout=20, doing="asking"))

    async with anyio.create_task_group() as commands:
        for _ in range(3):
            commands.start_soon(command)
    assert [text.strip() for text in printed] == ["{}"] * 3
