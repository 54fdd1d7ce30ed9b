"""Extracts from a pushed file all texts that could contain a credential.

Files of every type are read, because a key that is published in a notebook or a pickle is as exposed as one in code.
Archives and compressed files are unpacked, other encodings and base64 are decoded, and string parts that Python code or
a notebook cell joins are joined. Some compression formats are not read (zstd, Parquet with gzip, 7z).
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
"""Most bytes that are unpacked from one file."""
_MAX_MEMBERS = 2_000
_MAX_DEPTH = 3
_MAX_DERIVED = 4 << 20
"""Characters. A longer text is only searched as it is, without decoding or joining its parts."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_MOST_TEXTS = 20_000
_LINE_BREAK = re.compile(r"[\"'\\,+ \t]*\r?\n[\"' \t]*")
"""Matches a line break and the quotes, commas and signs around it where a string literal is split into lines."""
_PERCENT = re.compile(r"%[0-9a-fA-F]{2}")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_DASHES = dict.fromkeys(range(0x2010, 0x2016), "-") | {0x2212: "-"}
_ASCII_RUN = re.compile(rb"[\x20-\x7e]{12,}")
"""Matches a run of readable characters in a binary file. Its first character may be a length byte, as in a pickle."""


class JoinedLines(str):
    """The text of a file with its lines joined. Words that do not belong together may be next to each other."""

    __slots__ = ()


def file_texts(path: str, data: bytes) -> Iterator[str]:
    """Yield all texts of a file. The first is the decoded file itself."""
    yield from _texts(path, data, 0)


def _texts(path: str, data: bytes, depth: int) -> Iterator[str]:
    text = _decoded(data)
    yield text
    if _is_binary(data):
        yield "\n".join(run[0][1:].decode("ascii") for run in _ASCII_RUN.finditer(data))
    if depth < _MAX_DEPTH:
        for name, inner in _unpacked(path, data):
            yield from _texts(name, inner, depth + 1)
    if len(text) > _MAX_DERIVED:
        return
    if path.lower().endswith((".py", ".pyi", ".pyw")):
        yield from _python_texts(data)
    elif path.lower().endswith(".ipynb"):
        yield from _notebook_texts(text)
    yield from _plain_spellings(text)
    yield from _from_base64(text, depth)
    if not _is_binary(data) and "\n" in text:
        yield JoinedLines(_LINE_BREAK.sub("", text))


def _decoded(data: bytes) -> str:
    """Decode a file as text.

    If it is not UTF-8 or UTF-16, each byte becomes a character, so that ASCII stays readable.
    """
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
    """Yield the name and content of each file in an archive or compressed file. Damaged archives are skipped."""
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
"""The first bytes of each compression format, and the function that unpacks it."""


def _notebook_texts(text: str) -> Iterator[str]:
    """Yield the text of each cell of a notebook, and the string constants in its code."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        return
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    for cell in cells if isinstance(cells, list) else ():
        source: Any = cell.get("source") if isinstance(cell, dict) else None
        whole = "".join(map(str, source)) if isinstance(source, list) else str(source or "")
        yield whole
        yield from _python_texts(whole.encode("utf-8", "replace"))


def _python_texts(data: bytes) -> Iterator[str]:
    """Yield the string constants of Python code, with joined parts, as one text with a constant on each line."""
    try:
        tree = parse_python(data)
    except (SyntaxError, ValueError, RecursionError):
        return
    known: dict[str, str] = {}
    texts: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.keyword | ast.Dict):
            for name, value in _named_values(node):
                text = _constant_text(value, known)
                if text is not None:
                    known[name] = text
                    texts[f"{name} = {text!r}"] = None
        if isinstance(node, ast.BinOp | ast.Call | ast.JoinedStr | ast.Constant):
            text = _constant_text(node, known)
            if text is not None and len(text) >= 12:
                texts[text] = None
        if len(texts) > _MOST_TEXTS:
            break
    yield "\n".join(texts)


def _named_values(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a node assigns, passes or uses as keys, each with the expression of its value."""
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


def _constant_text(node: ast.AST, known: dict[str, str], depth: int = 0) -> str | None:
    """Evaluate an expression of string constants. None for any other expression. `known` are values of variables."""
    if depth > 60:
        return None
    if isinstance(node, ast.Constant):
        value = node.value
        return value if isinstance(value, str) else value.decode("latin-1") if isinstance(value, bytes) else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _constant_text(node.left, known, depth + 1), _constant_text(node.right, known, depth + 1)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.JoinedStr):
        parts = [p.value if isinstance(p, ast.FormattedValue) else p for p in node.values]
        return "".join(_constant_text(part, known, depth + 1) or "" for part in parts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join" and node.args:
        between, listed = _constant_text(node.func.value, known, depth + 1), node.args[0]
        items = listed.elts if isinstance(listed, ast.List | ast.Tuple) else []
        inner = [_constant_text(item, known, depth + 1) for item in items]
        if between is not None and inner and None not in inner:
            return between.join(part or "" for part in inner)
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[-1], ast.List | ast.Tuple):
        numbers = [n.value if isinstance(n, ast.Constant) else None for n in node.args[-1].elts]  # bytes, map(chr, ...)
        if len(numbers) >= 12 and all(isinstance(n, int) and 31 < n < 127 for n in numbers):
            return "".join(chr(n) for n in numbers if isinstance(n, int))
    if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "::-1":
        whole = _constant_text(node.value, known, depth + 1)
        return None if whole is None else whole[::-1]
    return None


def _plain_spellings(text: str) -> Iterator[str]:
    """Yield the text with escapes resolved, invisible characters removed, and look-alike letters replaced by ASCII."""
    if "\\u" in text:
        yield _ESCAPED.sub(lambda m: chr(int(m[1], 16)), text)
    if "&#" in text:
        yield html.unescape(text)
    if len(_PERCENT.findall(text)) > 8:
        yield unquote(text)
    if not text.isascii():
        yield unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).translate(_DASHES)


def _from_base64(text: str, depth: int) -> Iterator[str]:
    """Yield the readable texts that are encoded in base64 or hexadecimal, and the texts of compressed data in them."""
    readable: list[str] = []
    for match in _BASE64.finditer(text):
        for decoded in _decodings(match[0].rstrip("=")):
            if decoded.isascii() and all(c >= 32 or c in (9, 10, 13) for c in decoded[:400]):
                readable.append(decoded.decode("ascii"))
            elif depth < _MAX_DEPTH and decoded.startswith(tuple(mark for mark, _ in _COMPRESSED)):
                yield from _texts("", decoded, depth + 1)
    if readable:
        whole = "\n".join(readable)
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
