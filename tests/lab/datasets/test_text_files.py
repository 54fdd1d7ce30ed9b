"""Text files in every form they come in: packed, in folders, with odd headers; read as a stream."""

from __future__ import annotations

import gzip
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.datasets import text_files
from prime_lab_mcp.lab.datasets.source import HubDataset, LocalFiles, choose_splits, locate_dataset
from prime_lab_mcp.lab.state.workspace import Workspace


class Taken:
    """Collects what a reader gives."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.broken: list[tuple[int, str]] = []

    def take(self, row: dict[str, Any], size: int) -> None:
        self.rows.append(row)

    def take_all(self, rows: list[dict[str, Any]], size: int) -> None:
        assert size >= 2 * len(rows)
        self.rows += rows

    def add_broken(self, where: int, what: str) -> None:
        self.broken.append((where, what))


def read(path: Path, split: str = "train") -> Taken:
    sink = Taken()
    text_files.read_text(path, split, sink)
    return sink


def put(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


ROWS = [{"q": f"line\nof text {n} ü", "a": n} for n in range(40)]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_of_objects_is_read_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indent: int | None
) -> None:
    monkeypatch.setattr(text_files, "_CHUNK", 7)
    path = put(tmp_path / "x.json", json.dumps(ROWS, indent=indent, ensure_ascii=False))
    assert read(path).rows == ROWS


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ('{"data": [{"a": 1}, {"a": 2}], "version": "v2"}', [{"a": 1}, {"a": 2}]),
        ('{"train": [{"a": 1}], "test": [{"a": 9}]}', [{"a": 1}]),
        ('{"a": [1, 2], "b": ["x", "y"]}', [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
        ('{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        ('\ufeff[{"a": 1}]', [{"a": 1}]),
        ("[]", []),
    ],
    ids=["under-data", "under-the-split", "columns", "jsonl-in-disguise", "byte-order-mark", "empty-list"],
)
def test_json_is_read_in_the_forms_it_comes_in(tmp_path: Path, content: str, rows: list[Any]) -> None:
    assert read(put(tmp_path / "x.json", content)).rows == rows


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".json", ".tsv"])
@pytest.mark.parametrize("packed", [".gz", ".zst"])
def test_packed_text_is_read_as_the_text_it_holds(tmp_path: Path, suffix: str, packed: str) -> None:
    plain = {
        ".jsonl": '{"q": "a b", "a": "1"}\n{"q": "c", "a": "2"}',
        ".json": '[{"q": "a b", "a": "1"}, {"q": "c", "a": "2"}]',
        ".csv": "q,a\na b,1\nc,2\n",
        ".tsv": "q\ta\na b\t1\nc\t2\n",
    }[suffix].encode()
    pa: Any = importlib.import_module("pyarrow")
    data = gzip.compress(plain) if packed == ".gz" else pa.compress(plain, "zstd", asbytes=True)
    assert read(put(tmp_path / f"x{suffix}{packed}", data)).rows == [{"q": "a b", "a": "1"}, {"q": "c", "a": "2"}]


def test_what_unpacks_to_far_more_than_it_is_is_refused_as_a_bomb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "_BOMB_BYTES", 2 * 1024 * 1024)
    path = put(tmp_path / "x.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 1_000_000))
    with pytest.raises(BadInput) as refused:
        read(path)
    assert refused.value.code == "decompression-bomb"


def test_an_integer_of_many_digits_is_kept_as_text(tmp_path: Path) -> None:
    digits = "9" * 100_000
    head = '{"q": "x", "a": 1}\n' * 1100
    for name in ("a.jsonl", "b.json"):
        lines = head + f'{{"q": "big", "a": {digits}, "b": 3}}'
        path = put(tmp_path / name, lines if name == "a.jsonl" else "[" + lines.replace("\n", ",") + "]")
        assert read(path).rows[-1] == {"q": "big", "a": digits, "b": 3}


def test_lines_that_are_no_rows_are_noted_with_their_number_and_reason(tmp_path: Path) -> None:
    deep = "[" * 100_000
    found = read(put(tmp_path / "x.jsonl", b'{"a": 1}\n{"a": \n[1]\n' + deep.encode() + b'\n{"a": "\xff"}\n'))
    assert found.rows == [{"a": 1}]
    assert found.broken == [
        (2, "not valid JSON"),
        (3, "a JSON list, not an object"),
        (4, "nested too deeply"),
        (5, "not UTF-8"),
    ]


@pytest.mark.parametrize(
    ("content", "names"),
    [(",q,a\n0,x,1\n", ["column 1", "q", "a"]), ("q;a\nx;1\n", ["q", "a"]), ('"a b","c.d"\nx,1\n', ["a b", "c.d"])],
    ids=["index-without-a-name", "semicolons", "spaces-and-dots"],
)
def test_headers_of_csv_are_read_as_people_write_them(tmp_path: Path, content: str, names: list[str]) -> None:
    assert list(read(put(tmp_path / "x.csv", content)).rows[0]) == names


# --- folders ---------------------------------------------------------------------------------------------------------


def splits_of(root: Path, config: str | None = None) -> dict[str, list[str]]:
    found = locate_dataset(Workspace(root.resolve()), "set", config)
    assert isinstance(found, LocalFiles)
    return {s: [f.relative_to(root.resolve() / "set").as_posix() for f in files] for s, files in found.splits.items()}


@pytest.mark.parametrize(
    ("files", "splits"),
    [
        (["train.jsonl", "test.jsonl", "README.md"], {"train": ["train.jsonl"], "test": ["test.jsonl"]}),
        (
            ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet", "data/validation.parquet"],
            {
                "train": ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"],
                "validation": ["data/validation.parquet"],
            },
        ),
        (["train/0.jsonl.gz", "test/0.jsonl.gz"], {"train": ["train/0.jsonl.gz"], "test": ["test/0.jsonl.gz"]}),
        (["gsm8k_train.csv", "gsm8k_test.csv"], {"train": ["gsm8k_train.csv"], "test": ["gsm8k_test.csv"]}),
        (["a.jsonl", "b.jsonl", "dataset_infos.json", ".x.json"], {"train": ["a.jsonl", "b.jsonl"]}),
        (["main/train.parquet", "main/test.parquet"], {"train": ["main/train.parquet"], "test": ["main/test.parquet"]}),
    ],
    ids=["plain", "shards-under-data", "folder-per-split", "name-before-split", "no-split-names", "one-config"],
)
def test_the_splits_of_a_folder_are_told_by_its_names(
    tmp_path: Path, files: list[str], splits: dict[str, list[str]]
) -> None:
    for name in files:
        put(tmp_path / "set" / name, "{}")
    assert splits_of(tmp_path) == splits


def test_a_folder_of_several_configs_needs_one_named(tmp_path: Path) -> None:
    for name in ("main/train-0.parquet", "socratic/train-0.parquet"):
        put(tmp_path / "set" / name, "")
    with pytest.raises(BadInput, match='"main", "socratic"') as refused:
        splits_of(tmp_path)
    assert refused.value.code == "config-needed"
    assert splits_of(tmp_path, "socratic") == {"train": ["socratic/train-0.parquet"]}
    with pytest.raises(BadInput, match="no config"):
        splits_of(tmp_path, "other")


def test_a_link_that_leads_out_of_the_workspace_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "outside.jsonl", "{}")
    root = tmp_path / "work"
    (root / "set").mkdir(parents=True)
    (root / "set" / "train.jsonl").symlink_to(tmp_path / "outside.jsonl")
    with pytest.raises(BadInput) as refused:
        splits_of(root)
    assert refused.value.code == "outside-workspace"


def test_a_name_that_is_no_path_is_one_of_the_hub(tmp_path: Path) -> None:
    assert locate_dataset(Workspace(tmp_path), "openai/gsm8k") == HubDataset("openai/gsm8k")


@pytest.mark.parametrize(
    ("names", "asked", "chosen"),
    [
        (["test", "train", "validation"], (None, None), ("train", "validation")),
        (["test", "train"], (None, None), ("train", "test")),
        (["test"], (None, None), ("test", None)),
        (["a", "b"], ("b", None), ("b", None)),
        (["train", "extra"], (None, "train"), ("extra", "train")),
    ],
)
def test_the_split_to_train_on_and_the_one_held_out_follow_from_the_names(
    names: list[str], asked: tuple[str | None, str | None], chosen: tuple[str, str | None]
) -> None:
    assert choose_splits(names, *asked) == chosen


_UNUSUAL_LINES = (
    '{"a": 18446744073709551616}',
    '{"a": [-9223372036854775809, 1.5]}',
    '{"a": {"b": 123456789012345678901234567890}}',
    '{"a": NaN}',
    '{"a": 1e400}',
    '{"a": "\\ud800"}',
    '{"a": -0, "b": -0.0}',
    ' {"a": 1}  \r',
    '{"a": 1, "a": 2}',
    '{"a": ' + "[" * 300 + "]" * 300 + "}",
    '{"a": ' + "[" * 5000 + "]" * 5000 + "}",
    "[1]",
    "no JSON",
    "",
    '{"a": 1}{"a": 2}',
)


def test_jsonl_has_the_same_rows_with_and_without_the_fast_decoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "_CHUNK", 50)
    monkeypatch.setattr(text_files, "_NAME_CHECKED_ROWS", 0)
    assert text_files._fast_loads is not None
    plain = [f'{{"a": "text {number}"}}' for number in range(12)]
    lines = [entry for line in _UNUSUAL_LINES for entry in (*plain, line)]
    path = put(tmp_path / "x.jsonl", "\n".join(lines).encode() + b'\n{"a": "\xff"}\n{"a": "\xed\xa0\x80"}\n')
    fast = read(path)
    monkeypatch.setattr(text_files, "_fast_loads", None)
    slow = read(path)
    assert repr(fast.rows) == repr(slow.rows)
    assert fast.broken == slow.broken
