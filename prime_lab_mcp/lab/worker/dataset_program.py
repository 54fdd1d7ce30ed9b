"""Reads rows of a dataset, streamed and bounded: JSON, JSONL, CSV, TSV, Parquet, Arrow, and (hub_dataset.py) the Hub.

The server imports this file for small text files, because they need nothing but the standard library. Everything else
it runs by path with the toolchain's interpreter (`dataset_program.py REQUEST RESULT`, both JSON files), because
`datasets` and `pyarrow` take seconds to import and must not share a process with the server.
"""

from __future__ import annotations

import csv
import hashlib
import importlib
import importlib.util
import json
import math
import random
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

LINE = 16 * 1024 * 1024
"""Bytes of one line (JSONL, CSV): a longer one is no row of text."""
WHOLE = 256 * 1024 * 1024
"""Bytes of a .json file, which can only be read as a whole."""
HEAD, TAIL = 8_000, 4_000
"""Characters kept of a long text: both ends, because golds stand at the end (`#### 42`)."""
KEPT = 64 * 1024 * 1024
"""Characters of rows handed back at most."""
SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".arrow")
TEXT = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
_BROKEN_SHOWN = 5
_ROW_LISTS = ("data", "rows", "examples", "items", "questions")


class Unreadable(Exception):
    """The dataset cannot be read; `fix` says what its owner can do."""

    def __init__(self, code: str, message: str, fix: str, detail: str = "") -> None:
        super().__init__(message)
        self.told = {"code": code, "message": message, "fix": fix, "detail": detail[:2000]}


class Scan:
    """One pass over a split: counts, fingerprints and keeps a seeded reservoir of rows, never just the head.

    With `whole`, long texts are kept uncut.
    """

    def __init__(self, max_rows: int, seed: int, whole: bool = False) -> None:
        self.max_rows = max_rows
        self.whole = whole
        self.rows: list[tuple[int, dict[str, Any]]] = []
        self.scanned = 0
        self.broken = 0
        self.problems: list[dict[str, Any]] = []
        self.complete = True
        self._chance = random.Random(seed)
        self._digest = hashlib.sha256()

    def take(self, row: Mapping[str, Any]) -> None:
        """Count one row; keep it with the chance every other row has."""
        value = {str(k): plain(v) for k, v in row.items()}
        raw = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()
        self._digest.update(len(raw).to_bytes(8, "big"))
        self._digest.update(raw)
        entry = (self.scanned, value if self.whole else {k: clipped(v) for k, v in value.items()})
        self.scanned += 1
        if len(self.rows) < self.max_rows:
            self.rows.append(entry)
        elif (place := self._chance.randrange(self.scanned)) < self.max_rows:
            self.rows[place] = entry

    def breaks(self, where: int, what: str) -> None:
        """Note a record that is no row. `where` is its line or position, from 1."""
        self.broken += 1
        if len(self.problems) < _BROKEN_SHOWN:
            self.problems.append({"line": where, "what": what})

    def told(self) -> dict[str, Any]:
        """The result as JSON: rows in file order, as many as fit."""
        rows: list[tuple[int, dict[str, Any]]] = []
        size = 0
        for entry in self._chance.sample(self.rows, len(self.rows)):
            size += len(json.dumps(entry[1]))
            if rows and size > KEPT:
                break
            rows.append(entry)
        return {
            "rows": sorted(rows, key=lambda e: e[0]),
            "scanned": self.scanned,
            "complete": self.complete,
            "fingerprint": self._digest.hexdigest(),
            "broken": self.broken,
            "problems": self.problems,
        }


def plain(value: Any, depth: int = 8) -> Any:
    """`value` with only JSON types in it."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray):
        return f"<{len(value)} bytes>"
    if depth == 0:
        return f"<{type(value).__name__}>"
    if isinstance(value, Mapping):
        return {str(k): plain(v, depth - 1) for k, v in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(v, depth - 1) for v in value]
    if callable(getattr(value, "tolist", None)):
        return plain(value.tolist(), depth - 1)
    if callable(getattr(value, "isoformat", None)):
        return value.isoformat()
    return str(value)[:HEAD]


def clipped(value: Any) -> Any:
    """`value` with the middle of every long text taken out."""
    if isinstance(value, str) and len(value) > HEAD + TAIL:
        return f"{value[:HEAD]}… {value[-TAIL:]}"
    if isinstance(value, list):
        return [clipped(v) for v in value[:1000]]
    if isinstance(value, dict):
        return {k: clipped(v) for k, v in value.items()}
    return value


# --- text files ----------------------------------------------------------------------------------------------------


def _lines(stream: BinaryIO, name: str) -> Iterator[bytes]:
    number = 0
    while line := stream.readline(LINE + 1):
        number += 1
        if len(line) > LINE:
            raise Unreadable(
                "line-too-long",
                f"line {number:,} of {name} is longer than {LINE // 2**20} MiB",
                "Write one row per line, or store the dataset as Parquet.",
            )
        yield line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _not_utf8(name: str) -> Unreadable:
    return Unreadable("not-utf8", f"{name} is not UTF-8 text", "Convert the file to UTF-8.")


def read_jsonl(path: Path, scan: Scan) -> None:
    """One JSON object per line; other lines are noted as broken."""
    with path.open("rb") as stream:
        for number, line in enumerate(_lines(stream, path.name), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                scan.breaks(number, "not UTF-8" if isinstance(error, UnicodeDecodeError) else "not valid JSON")
                continue
            if isinstance(row, dict):
                scan.take(row)
            else:
                scan.breaks(number, f"a JSON {type(row).__name__}, not an object")


def read_json(path: Path, scan: Scan, split: str) -> None:
    """A list of objects, an object that holds one (by split or as `data`), columns, or JSONL in disguise."""
    if path.stat().st_size > WHOLE:
        raise Unreadable(
            "file-too-big",
            f"{path.name} is larger than {WHOLE // 2**20} MiB and JSON can only be read as a whole",
            "Convert it to JSONL or Parquet.",
        )
    try:
        value = json.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise _not_utf8(path.name) from None
    except (ValueError, RecursionError) as error:
        if "Extra data" in str(error):
            return read_jsonl(path, scan)
        raise Unreadable("broken-json", f"{path.name} is not valid JSON", "Mend the file.", str(error)) from None
    for number, row in enumerate(_row_list(value, split, path.name), 1):
        if isinstance(row, dict):
            scan.take(row)
        else:
            scan.breaks(number, f"a JSON {type(row).__name__}, not an object")
    return None


def _row_list(value: Any, split: str, name: str) -> Iterable[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        lists = {k: v for k, v in value.items() if isinstance(v, list)}
        for key in (split, *_ROW_LISTS):
            if lists.get(key) and isinstance(lists[key][0], dict):
                return lists[key]
        if lists and len(lists) == len(value) and len({len(v) for v in lists.values()}) == 1:
            return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    raise Unreadable("no-rows", f"{name} holds no list of rows", "Make it a JSON list of objects, or JSONL.")


def read_csv(path: Path, scan: Scan, delimiter: str) -> None:
    """A table with a header line; every value is text."""
    csv.field_size_limit(LINE)

    def text() -> Iterator[str]:
        with path.open("rb") as stream:
            for line in _lines(stream, path.name):
                yield line.decode("utf-8")

    try:
        reader = csv.reader(text(), delimiter=delimiter)
        header = next(reader, [])
        if len(set(header)) != len(header):
            raise Unreadable("bad-header", f"the header of {path.name} repeats a name", "Give each column one name.")
        for row in reader:
            if len(row) == len(header):
                scan.take(dict(zip(header, row, strict=True)))
            elif row:
                scan.breaks(reader.line_num, f"{len(row)} fields where the header has {len(header)}")
    except UnicodeDecodeError:
        raise _not_utf8(path.name) from None
    except csv.Error as error:
        raise Unreadable("broken-csv", f"{path.name} cannot be read as CSV", "Mend its quoting.", str(error)) from None


# --- Parquet and Arrow -----------------------------------------------------------------------------------------------


def _arrow_batches(path: Path) -> tuple[Any, Iterator[Any], int | None]:
    pa: Any = importlib.import_module("pyarrow")
    pq: Any = importlib.import_module("pyarrow.parquet")

    try:
        if path.suffix == ".parquet":
            table = pq.ParquetFile(path)
            return table.schema_arrow, table.iter_batches(batch_size=256), table.metadata.num_rows
        source = pa.memory_map(str(path))
        try:
            stream = pa.ipc.open_stream(source)
            return stream.schema, iter(stream), None
        except pa.ArrowInvalid:
            found = pa.ipc.open_file(pa.memory_map(str(path)))
            return found.schema, (found.get_batch(i) for i in range(found.num_record_batches)), None
    except (pa.ArrowInvalid, OSError) as error:
        kind = path.suffix[1:].capitalize()
        raise Unreadable("broken-file", f"{path.name} is no {kind} file", "Write it again.", str(error)) from None


def read_arrow(path: Path, scan: Scan, features: dict[str, Any]) -> None:
    """Rows batch by batch; class names as `datasets` left them in the schema."""
    schema, batches, _ = _arrow_batches(path)
    for field in schema:
        features.setdefault(field.name, {"dtype": str(field.type)})
    try:
        stored = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError):
        stored = {}
    for name, feature in stored.items() if isinstance(stored, dict) else ():
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
            features[name] = {"dtype": "class_label", "names": feature.get("names") or []}
    for batch in batches:
        for row in batch.to_pylist():
            scan.take(row)


def read_file(path: Path, split: str, scan: Scan, features: dict[str, Any]) -> None:
    """One file by its suffix."""
    match path.suffix:
        case ".jsonl" | ".ndjson":
            read_jsonl(path, scan)
        case ".json":
            read_json(path, scan, split)
        case ".csv" | ".tsv":
            read_csv(path, scan, "\t" if path.suffix == ".tsv" else ",")
        case _:
            read_arrow(path, scan, features)


def scan_files(
    splits: Mapping[str, list[str]], wanted: list[str], max_rows: int, seed: int, whole: bool = False
) -> dict[str, Any]:
    """Scan the wanted splits of local files. Raises Unreadable."""
    features: dict[str, Any] = {}
    scans: dict[str, Scan] = {}
    for split in wanted:
        scans[split] = Scan(max_rows, seed, whole)
        for file in splits[split]:
            read_file(Path(file), split, scans[split], features)
    return {
        "splits": [{"name": s, "rows": scans[s].scanned if s in scans else None} for s in splits],
        "scans": {s: scan.told() for s, scan in scans.items()},
        "features": features,
    }


# --- which split is what ---------------------------------------------------------------------------------------------

_TRAIN = ("train", "training")
_HELD = ("validation", "valid", "val", "dev", "test", "eval")


def choose(names: list[str], split: str | None, held: str | None) -> tuple[str, str | None]:
    """The split to train on and the one held out, by what was asked for or by their names."""
    for asked in (split, held):
        if asked is not None and asked not in names:
            raise Unreadable(
                "unknown-split", f"there is no split {asked[:80]!r}; there are: {', '.join(names[:40])}", "Name one."
            )
    main = split or next((n for n in _TRAIN if n in names), names[0])
    return main, held or next((n for n in _HELD if n in names and n != main), None)


def _hub() -> Any:
    """The sibling that talks to the Hub, loaded by path: this folder must not be on the search path."""
    path = Path(__file__).with_name("hub_dataset.py")
    spec = importlib.util.spec_from_file_location("_prime_lab_hub_dataset", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(request_path: str, result_path: str) -> None:
    """Answer one request file with one result file."""
    with open(request_path, encoding="utf-8") as source:
        request = json.load(source)
    try:
        if request["kind"] == "hub":
            result = _hub().scan_hub(request, sys.modules[__name__])
        else:
            asked = [request[k] for k in ("splits", "wanted", "max_rows", "seed", "whole")]
            result = scan_files(*asked)
    except Unreadable as error:
        result = {"error": error.told}
    with open(result_path, "w", encoding="utf-8") as sink:
        json.dump(result, sink)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
