"""What a version of an environment leaves in a data cache reaches no other version, and leads the server nowhere."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.base.untrusted_files import PlantedPath
from prime_lab_mcp.lab.sandbox import caches
from prime_lab_mcp.lab.sandbox.caches import DataCache, data_cache, interpreter_caches
from prime_lab_mcp.lab.worker.pool import Workers
from tests.attacks.hostile import outcomes

pytestmark = pytest.mark.anyio
PYTHON = Path(sys.executable)
CACHE = "os.environ['HF_HUB_CACHE']"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home in which the user downloaded one file."""
    folder = tmp_path_factory.mktemp("home")
    blob = folder / ".cache/huggingface/hub/datasets--a--b/blobs/1"
    blob.parent.mkdir(parents=True)
    blob.write_text("rows", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        for name in ("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "XDG_CACHE_HOME"):
            patch.delenv(name, raising=False)
        yield folder


@pytest.fixture(scope="module")
async def workers(tmp_path_factory: pytest.TempPathFactory, home: Path) -> AsyncIterator[Workers]:
    root = tmp_path_factory.mktemp("lab")
    (root / "workspace").mkdir()
    pool = Workers(Settings(workspace=root / "workspace", state_dir=root / "state"))
    yield pool
    await pool.close()


@pytest.fixture
def state(tmp_path: Path, home: Path) -> Path:
    return tmp_path / "state"


def cache_of(state: Path, version: str) -> DataCache:
    return data_cache(state, "workspace", "sums", version, PYTHON)


async def test_a_version_reads_nothing_that_another_version_of_its_name_planted(
    workers: Workers, tmp_path: Path
) -> None:
    """Two trees with one module name; the same tree finds its own files again."""
    plant = {"plant": f"open({CACHE} + '/gold', 'w').write('forged')"}
    read = {"read": f"found = open({CACHE} + '/gold').read()"}
    assert (await outcomes(workers, tmp_path / "first", plant))["plant"].startswith("done")
    assert (await outcomes(workers, tmp_path / "second", read))["read"].startswith("FileNotFoundError")
    assert (await outcomes(workers, tmp_path / "first", read))["read"] == "done: forged"


async def test_code_that_replaces_folders_of_its_cache_locks_nobody_out(workers: Workers, tmp_path: Path) -> None:
    """The same version too is served again, with folders made anew."""
    outside = tmp_path / "outside"
    outside.mkdir()
    attack = {
        "file": f"import shutil; m = {CACHE} + '/../modules'; shutil.rmtree(m); open(m, 'w').close()",
        "link": f"import shutil; shutil.rmtree({CACHE}); os.symlink({str(outside)!r}, {CACHE})",
    }
    folder = tmp_path / "env"
    found = await outcomes(workers, folder, attack)
    assert [text for text in found.values() if not text.startswith("done")] == []
    look = {"look": f"found = os.path.isdir({CACHE} + '/../modules') and os.listdir({CACHE})"}
    assert await outcomes(workers, folder, look) == {"look": "done: ['datasets--a--b']"}
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("path", ["", "hub", "datasets", "modules", "hub/datasets--a--b", "hub/datasets--a--b/blobs"])
@pytest.mark.parametrize("kind", ["link", "file", "pipe"])
def test_what_stands_in_the_place_of_a_folder_is_replaced(state: Path, tmp_path: Path, path: str, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = cache_of(state, "v1").root
    os.rename(root / path, tmp_path / "away")
    if kind == "link":
        (root / path).symlink_to(outside)
    elif kind == "pipe":
        os.mkfifo(root / path)
    else:
        (root / path).write_text("", encoding="utf-8")
    assert cache_of(state, "v1").root == root
    assert (root / "hub/datasets--a--b/blobs/1").read_text(encoding="utf-8") == "rows"
    assert not root.is_symlink()
    assert (root / "modules").is_dir()
    assert list(outside.iterdir()) == []


def test_a_cache_that_is_replaced_all_the_time_is_refused_with_a_code(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(*_: object) -> None:
        raise PlantedPath("hub", "a link")

    monkeypatch.setattr(caches, "_fill", planted)
    with pytest.raises(PlantedPath) as refused:
        cache_of(state, "v1")
    assert refused.value.code == "planted-path"
    assert refused.value.fix


def test_only_downloads_whose_name_is_their_hash_reach_another_version(state: Path, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("secret", encoding="utf-8")
    honest = hashlib.sha256(b"golds").hexdigest()
    secret = hashlib.sha256(b"secret").hexdigest()
    blobs = cache_of(state, "v1").root / "hub/datasets--x--y/blobs"
    blobs.mkdir(parents=True)
    (blobs / honest).write_bytes(b"golds")
    (blobs / ("0" * 64)).write_bytes(b"forged")
    (blobs / secret).symlink_to(tmp_path / "private")
    (blobs.parent / "snapshots").mkdir()
    later = cache_of(state, "v2")
    found = {path.name: path for path in (later.root / "hub/datasets--x--y/blobs").iterdir()}
    assert set(found) == {honest}
    assert found[honest].resolve().is_relative_to(state / "downloads")
    assert (state / "downloads").resolve() in later.users
    (blobs / honest).write_bytes(b"other")
    assert found[honest].read_bytes() == b"golds"


@pytest.mark.parametrize("path", ["hub", "hub/datasets--a--b", "hub/datasets--a--b/blobs"])
def test_links_in_the_cache_of_another_version_lock_nobody_out(state: Path, tmp_path: Path, path: str) -> None:
    other = cache_of(state, "v1").root
    os.rename(other / path, tmp_path / "away")
    (other / path).symlink_to(tmp_path)
    assert (cache_of(state, "v2").root / "hub/datasets--a--b/blobs/1").read_text(encoding="utf-8") == "rows"


def test_packages_of_one_interpreter_write_to_no_cache_of_another(state: Path, tmp_path: Path) -> None:
    root = data_cache(state, "workspace", "sums", "v1", tmp_path / "other/bin/python").root
    assert not root.is_relative_to(interpreter_caches(state, PYTHON))


def test_old_caches_of_an_environment_go_once_they_are_unused(state: Path) -> None:
    roots = [cache_of(state, f"v{n}").root for n in range(caches.MOST_VERSIONS + 2)]
    assert all(root.is_dir() for root in roots)
    for n, root in enumerate(roots):
        os.utime(root, (1_000.0 + n, 1_000.0 + n))
    newest = cache_of(state, "new").root
    assert [root for root in roots if root.exists()] == roots[-(caches.MOST_VERSIONS - 1) :]
    assert newest.is_dir()


def test_of_the_users_downloads_files_are_linked_up_to_a_number_without_links_to_folders_and_unfinished_ones(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = tmp_path / "hub"
    (hub / "datasets--c--d").mkdir(parents=True)
    for name in ("1", "2.lock", "3.incomplete"):
        (hub / "datasets--c--d" / name).write_text(name, encoding="utf-8")
    (hub / "elsewhere").symlink_to(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    linked = cache_of(state, "v1").root / "hub"
    assert [path.relative_to(linked).as_posix() for path in linked.rglob("*")] == ["datasets--c--d", "datasets--c--d/1"]

    for number in range(10):
        (hub / f"{number}.json").write_text("", encoding="utf-8")
    monkeypatch.setattr(caches, "_MOST_FILES", 4)
    linked = cache_of(state, "v2").root / "hub"
    assert len([path for path in linked.rglob("*") if path.is_symlink()]) == 4


def test_downloads_are_verified_once_and_up_to_a_size(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (hashlib.sha256(content).hexdigest() for content in (b"rows", b"many rows"))
    blobs = cache_of(state, "v1").root / "hub/datasets--x--y/blobs"
    blobs.mkdir(parents=True)
    (blobs / small).write_bytes(b"rows")
    assert {path.name for path in (cache_of(state, "v2").root / "hub/datasets--x--y/blobs").iterdir()} == {small}
    os.utime(state / "downloads" / small, (1_000.0, 1_000.0))
    (blobs / large).write_bytes(b"many rows")
    monkeypatch.setattr(caches, "_MOST_VERIFIED_BYTES", 5)
    assert {path.name for path in (cache_of(state, "v3").root / "hub/datasets--x--y/blobs").iterdir()} == {small}
    assert (state / "downloads" / small).stat().st_mtime > 1_000.0
    assert [path.name for path in (state / "downloads").iterdir()] == [small]
