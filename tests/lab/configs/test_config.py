"""Reading says what gates need to know, or where the file is broken."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.configs.config import parse_config, read_config, taskset_identity
from tests.lab.configs.examples import SHARED_LORA, SOUND, sound


def refusal(text: bytes, tmp_path: Path) -> BadInput:
    path = tmp_path / "c.toml"
    path.write_bytes(text)
    with pytest.raises(BadInput) as caught:
        read_config(path)
    return caught.value


def test_the_hash_is_of_the_bytes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(SOUND.encode().replace(b"\n", b"\r\n"))
    assert read_config(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_sources_are_read_with_owner_version_and_arguments() -> None:
    train, held_out = sound().sources
    assert (train.kind, train.name, train.owner, train.env_name, train.version) == (
        "train",
        "tiny",
        "alice",
        "tiny-env",
        "0.1.0",
    )
    assert (train.harness, dict(train.args), train.hub_name) == ("null", {}, "alice/tiny-env")
    assert (held_out.kind, dict(held_out.args)) == ("eval", {"split": "eval"})


def test_numbers_that_are_left_out_are_the_defaults_of_prime_rl() -> None:
    config = parse_config("[trainer]\n[orchestrator]\n", Path("bare.toml"))
    assert (config.batch_size, config.group_size, config.max_steps, config.gpus, config.seq_len) == (
        128,
        1,
        None,
        2,
        2048,
    )
    assert (config.model, config.name, config.lora, config.lr) == ("Qwen/Qwen3-0.6B", "bare", False, None)


def test_gpus_of_several_nodes_are_counted_whole() -> None:
    config = parse_config(
        "[deployment]\ntype='multi_node'\nnum_train_nodes=2\nnum_infer_nodes=3\n[trainer]", Path("m.toml")
    )
    assert (config.train_gpus, config.infer_gpus, config.gpus) == (16, 24, 40)


def test_a_group_size_of_a_source_wins_over_the_shared_one() -> None:
    assert sound(('name = "tiny"\n', 'name = "tiny"\ngroup_size = 4\n')).group_size == 4


def test_shapes_are_told_apart_as_prime_train_does() -> None:
    assert parse_config(SHARED_LORA, Path("a.toml")).shape == "shared-lora"
    assert parse_config("[data]\nname='x'", Path("a.toml")).shape == "sft"
    assert sound().shape == "rl"


def test_the_target_is_read_from_the_header() -> None:
    assert sound().target == "hosted"
    assert parse_config("# target: self-managed\n" + SOUND, Path("a.toml")).target == "self-managed"


def test_broken_toml_is_reported_with_line_and_column(tmp_path: Path) -> None:
    found = refusal(b"max_steps = 3\nseq_len = = 4\n", tmp_path)
    assert found.code == "config-broken-toml"
    assert found.where == "c.toml:2:11"
    assert "seq_len = = 4" in found.fix


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(BadInput, match=r"pipe\.toml cannot be read: it is no regular file"):
        read_config(tmp_path / "pipe.toml")


def test_an_array_that_is_never_closed_is_reported(tmp_path: Path) -> None:
    assert refusal(b"x = [\n", tmp_path).code == "config-broken-toml"


def test_bytes_that_are_no_utf8_are_reported_with_their_place(tmp_path: Path) -> None:
    found = refusal(b"max_steps = 3\nname = 'caf\xe9'\n", tmp_path)
    assert (found.code, found.where) == ("config-not-utf8", "c.toml:2:12")


def test_a_byte_order_mark_is_named(tmp_path: Path) -> None:
    assert "byte order mark" in refusal(b"\xef\xbb\xbfmax_steps = 3\n", tmp_path).message


def test_a_file_nested_beyond_reason_is_refused_not_crashed_on(tmp_path: Path) -> None:
    assert refusal(b"x = " + b"[" * 20_000 + b"]" * 20_000, tmp_path).code == "config-broken-toml"


def test_a_folder_or_a_missing_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.toml"):
        with pytest.raises(BadInput) as caught:
            read_config(path)
        assert caught.value.code == "config-unreadable"


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_fix(text: str) -> None:
    assert read_or_fix(text)


def read_or_fix(text: str) -> str:
    try:
        return f"{parse_config(text, Path('any.toml')).gpus} GPUs"
    except BadInput as error:
        return error.fix


@pytest.mark.parametrize(
    ("id", "parts"),
    [("a/b@1", ("a", "b", "1")), ("a/b", ("a", "b", None)), ("b", (None, "b", None)), ("b@1", (None, "b", "1"))],
)
def test_an_id_falls_into_owner_name_and_version(id: str, parts: tuple[str | None, str, str | None]) -> None:
    assert taskset_identity(id) == parts
