"""The texts in a pushed file in which a credential could stand.

A file is read as it lies, whatever its name: a published key is a stolen key in a notebook, a table and a pickle too.
Archives and compressed files are unpacked, other encodings are decoded, and what the code joins is joined: parts of a
text, cells of a notebook, base64. Not read are formats of other programs' compression (zstd, Parquet with gzip, 7z).
"""

from __future__ import annotations

import ast
import base64
import binascii
import bz2
import html
import io
import json
import lzma
import re
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from prime_lab_mcp.lab.base.syntax import parse_python

MAX_UNPACKED = 64 << 20
"""Bytes that are unpacked of one file at most."""
_MAX_MEMBERS = 2_000
_MAX_DEPTH = 3
_MAX_DERIVED = 4 << 20
"""Length of a text from which it is only searched as it lies."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_MOST_JOINED = 20_000
_BROKEN = re.compile(r"[\"'\\,+ \t]*\r?\n[\"' \t]*")
"""A line break inside a text, with the quotes and signs that parts of a text have there."""
_PERCENT = re.compile(r"%[0-9a-fA-F]{2}")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_DASHES = dict.fromkeys(range(0x2010, 0x2016), "-") | {0x2212: "-"}
_PRINTED = re.compile(rb"[\x20-\x7e]{12,}")
"""Text in a binary file. A length that is a letter may stand before it, as in a pickle."""


class JoinedLines(str):
    """The text of a file with its lines joined, in which words meet that do not belong together."""

    __slots__ = ()


def file_texts(path: str, data: bytes) -> Iterator[str]:
    """Every text of a file, the one as it lies first."""
    yield from _texts(path, data, 0)


def _texts(path: str, data: bytes, depth: int) -> Iterator[str]:
    text = _decoded(data)
    yield text
    if _is_binary(data):
        yield "\n".join(run[0][1:].decode("ascii") for run in _PRINTED.finditer(data))
    if depth < _MAX_DEPTH:
        for name, inner in _unpacked(path, data):
            yield from _texts(name, inner, depth + 1)
    if len(text) > _MAX_DERIVED:
        return
    if path.lower().endswith((".py", ".pyi", ".pyw")):
        yield from _joined(data)
    elif path.lower().endswith(".ipynb"):
        yield from _cells(text)
    yield from _respelt(text)
    yield from _from_base64(text, depth)
    if not _is_binary(data) and "\n" in text:
        yield JoinedLines(_BROKEN.sub("", text))


def _decoded(data: bytes) -> str:
    """The text of a file. What is no UTF-8 keeps its bytes as characters, so that ASCII in it stays readable."""
    for mark, encoding in ((b"\xff\xfe\0\0", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    head = data[:4096]
    if head.count(0) * 3 > len(head):
        return data.replace(b"\0", b"").decode("latin-1")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _is_binary(data: bytes) -> bool:
    return any(c < 9 or 13 < c < 32 for c in data[:4096])


def _unpacked(path: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """What an archive or a compressed file holds, by name. A damaged or protected one holds nothing that is read."""
    try:
        if data.startswith(b"PK\x03\x04"):
            yield from _zipped(data)
        elif data[257:262] == b"ustar":
            yield from _tarred(data)
        else:
            for mark, opened in _COMPRESSED:
                if data.startswith(mark):
                    yield path.rpartition(".")[0] or path, opened(data)
    except (OSError, EOFError, ValueError, RuntimeError, zlib.error, lzma.LZMAError):
        return
    except (zipfile.BadZipFile, tarfile.TarError, NotImplementedError):
        return


def _zipped(data: bytes) -> Iterator[tuple[str, bytes]]:
    left = MAX_UNPACKED
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist()[:_MAX_MEMBERS]:
            if entry.is_dir() or entry.flag_bits & 1 or left <= 0:
                continue
            with archive.open(entry) as member:
                inner = member.read(left)
            left -= len(inner)
            yield entry.filename, inner


def _tarred(data: bytes) -> Iterator[tuple[str, bytes]]:
    left = MAX_UNPACKED
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for number, entry in enumerate(archive):
            if number >= _MAX_MEMBERS or left <= 0:
                return
            member = archive.extractfile(entry) if entry.isfile() else None
            if member is not None:
                inner = member.read(left)
                left -= len(inner)
                yield entry.name, inner


def _gunzipped(data: bytes) -> bytes:
    return zlib.decompressobj(47).decompress(data, MAX_UNPACKED)


def _inflated(data: bytes) -> bytes:
    return zlib.decompressobj().decompress(data, MAX_UNPACKED)


def _bunzipped(data: bytes) -> bytes:
    return bz2.BZ2Decompressor().decompress(data, MAX_UNPACKED)


def _unxzed(data: bytes) -> bytes:
    return lzma.LZMADecompressor(memlimit=256 << 20).decompress(data, MAX_UNPACKED)


_COMPRESSED: tuple[tuple[bytes, Callable[[bytes], bytes]], ...] = (
    (b"\x1f\x8b", _gunzipped),
    (b"\x78\x01", _inflated),
    (b"\x78\x9c", _inflated),
    (b"\x78\xda", _inflated),
    (b"BZh", _bunzipped),
    (b"\xfd7zXZ\0", _unxzed),
)
"""First bytes of compressed files, and what unpacks them."""


def _cells(text: str) -> Iterator[str]:
    """The cells of a notebook, whose lines are single texts."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        return
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    for cell in cells if isinstance(cells, list) else ():
        source: Any = cell.get("source") if isinstance(cell, dict) else None
        whole = "".join(map(str, source)) if isinstance(source, list) else str(source or "")
        yield whole
        yield from _joined(whole.encode("utf-8", "replace"))


def _joined(data: bytes) -> Iterator[str]:
    """The texts that Python code writes in parts, each on a line of its own."""
    try:
        tree = parse_python(data)
    except (SyntaxError, ValueError, RecursionError):
        return
    known: dict[str, str] = {}
    texts: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.keyword | ast.Dict):
            for name, value in _named_values(node):
                folded = _folded(value, known)
                if folded is not None:
                    known[name] = folded
                    texts[f"{name} = {folded!r}"] = None
        if isinstance(node, ast.BinOp | ast.Call | ast.JoinedStr | ast.Constant):
            folded = _folded(node, known)
            if folded is not None and len(folded) >= 12:
                texts[folded] = None
        if len(texts) > _MOST_JOINED:
            break
    yield "\n".join(texts)


def _named_values(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that a node binds, each with its value."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            name = target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")
            key = target.slice if isinstance(target, ast.Subscript) else None
            name = str(key.value) if isinstance(key, ast.Constant) else name
            if name:
                yield name, node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg, node.value
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value


def _folded(node: ast.AST, known: dict[str, str], depth: int = 0) -> str | None:
    """The text that an expression of constants gives; None for any other."""
    if depth > 60:
        return None
    if isinstance(node, ast.Constant):
        value = node.value
        return value if isinstance(value, str) else value.decode("latin-1") if isinstance(value, bytes) else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _folded(node.left, known, depth + 1), _folded(node.right, known, depth + 1)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.JoinedStr):
        parts = [p.value if isinstance(p, ast.FormattedValue) else p for p in node.values]
        return "".join(_folded(part, known, depth + 1) or "" for part in parts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join" and node.args:
        between, listed = _folded(node.func.value, known, depth + 1), node.args[0]
        items = listed.elts if isinstance(listed, ast.List | ast.Tuple) else []
        inner = [_folded(item, known, depth + 1) for item in items]
        if between is not None and inner and None not in inner:
            return between.join(part or "" for part in inner)
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[-1], ast.List | ast.Tuple):
        numbers = [n.value if isinstance(n, ast.Constant) else None for n in node.args[-1].elts]  # bytes, map(chr, ...)
        if len(numbers) >= 12 and all(isinstance(n, int) and 31 < n < 127 for n in numbers):
            return "".join(chr(n) for n in numbers if isinstance(n, int))
    if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "::-1":
        whole = _folded(node.value, known, depth + 1)
        return None if whole is None else whole[::-1]
    return None


def _respelt(text: str) -> Iterator[str]:
    """The text in plain characters, where it holds escapes, invisible characters or letters that look alike."""
    if "\\u" in text:
        yield _ESCAPED.sub(lambda m: chr(int(m[1], 16)), text)
    if "&#" in text:
        yield html.unescape(text)
    if len(_PERCENT.findall(text)) > 8:
        yield unquote(text)
    if not text.isascii():
        yield unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).translate(_DASHES)


def _from_base64(text: str, depth: int) -> Iterator[str]:
    """Readable texts that are written in base64 or hexadecimal, one on a line, and what is compressed in them."""
    found: list[str] = []
    for match in _BASE64.finditer(text):
        for decoded in _decodings(match[0].rstrip("=")):
            if decoded.isascii() and all(c >= 32 or c in (9, 10, 13) for c in decoded[:400]):
                found.append(decoded.decode("ascii"))
            elif depth < _MAX_DEPTH and decoded.startswith(tuple(mark for mark, _ in _COMPRESSED)):
                yield from _texts("", decoded, depth + 1)
    if found:
        whole = "\n".join(found)
        yield whole
        if depth < _MAX_DEPTH:
            yield from _from_base64(whole, depth + 1)


def _decodings(run: str) -> Iterator[bytes]:
    plain = run.replace("-", "+").replace("_", "/")
    with suppress(binascii.Error, ValueError):
        yield base64.b64decode(plain + "=" * (-len(plain) % 4))
    if len(run) >= 32 and len(run) % 2 == 0:
        with suppress(ValueError):
            yield bytes.fromhex(run)
