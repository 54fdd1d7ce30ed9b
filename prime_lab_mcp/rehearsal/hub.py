"""The reading routes of the Environments Hub: list, status, versions, details, inspect, download."""

from __future__ import annotations

import io
import tarfile
from pathlib import PurePosixPath

from prime_lab_mcp.rehearsal import account
from prime_lab_mcp.rehearsal.call import Answer, PlatformCall, PlatformRoute, Raw, Refusal, iso
from prime_lab_mcp.rehearsal.store import Body, Session

_LARGEST_LISTING = 500


# --- finding ---


def owned_by_caller(environment: Body) -> bool:
    return environment["owner"] in {account.USER, *(team["slug"] for team in account.TEAMS)}


def find(call: PlatformCall, owner: str, name: str) -> Body:
    """The environment, or 404. A private environment is visible only to its owner."""
    for environment in call.session.all("environment"):
        if environment["owner"] == owner and environment["name"] == name:
            if environment["visibility"] == "PRIVATE" and not (call.authenticated and owned_by_caller(environment)):
                break
            return environment
    raise Refusal(404, f"Environment {owner}/{name} not found")


def versions(session: Session, environment: Body) -> list[Body]:
    """Finished versions, newest first."""
    held = session.all("version", environment["id"])
    return [v for v in reversed(held) if v["finalized"]]


def version(call: PlatformCall, environment: Body, wanted: str) -> Body:
    """Find a version by `latest`, version number, id, or the start of its content hash; else 404."""
    held = versions(call.session, environment)
    for candidate in held:
        if wanted in ("latest", candidate["semantic_version"], candidate["id"]) or (
            len(wanted) >= 8 and candidate["content_hash"].startswith(wanted)
        ):
            return candidate
    raise Refusal(404, f"Version {wanted} of {environment['owner']}/{environment['name']} not found")


def _named(call: PlatformCall) -> Body:
    return find(call, call.path["owner"], call.path["name"])


# --- reading ---


def listing(call: PlatformCall) -> Answer:
    query = call.query
    summaries = [_summary(call.session, e) for e in call.session.all("environment") if _wanted(call, e)]
    key = query.get("sort_by", "created_at")
    order = key if key in ("name", "created_at", "updated_at", "stars") else "created_at"
    summaries.sort(key=lambda e: e[order], reverse=query.get("sort_order", "desc") != "asc")
    offset, limit = call.number("offset", 0), call.number("limit", 20, low=1, high=_LARGEST_LISTING)
    return {"data": summaries[offset : offset + limit], "total_count": len(summaries)}


def _wanted(call: PlatformCall, environment: Body) -> bool:
    query = call.query
    own = call.authenticated and owned_by_caller(environment)
    search = query.get("search", "").lower()
    text = f"{environment['owner']}/{environment['name']} {environment['description']}".lower()
    return (
        (environment["visibility"] == "PUBLIC" or own)
        and (not query.get("owner") or environment["owner"] == query["owner"])
        and (not query.get("visibility") or environment["visibility"] == query["visibility"])
        and search in text
        and (not query.get("tags") or query["tags"] in environment["tags"])
        and (query.get("mine_only", "").lower() != "true" or own)
        and query.get("starred_only", "").lower() != "true"
    )


def _summary(session: Session, environment: Body) -> Body:
    held = versions(session, environment)
    newest = held[0] if held else None
    return {
        "id": environment["id"],
        "name": environment["name"],
        "owner": {"name": environment["owner"]},
        "description": environment["description"],
        "visibility": environment["visibility"],
        "tags": environment["tags"],
        "stars": 0,
        "latest_version": newest and newest["semantic_version"],
        "runtime": newest and newest["runtime"],
        "created_at": iso(environment["created"]),
        "updated_at": iso(environment["updated"]),
    }


def status(call: PlatformCall) -> Answer:
    environment = _named(call)
    summary = _summary(call.session, environment)
    held = versions(call.session, environment)
    summary["latest_version"] = _version_summary(held[0]) if held else None
    return {"data": summary}


def _version_summary(version: Body) -> Body:
    return {
        "version_id": version["id"],
        "semantic_version": version["semantic_version"],
        "content_hash": version["content_hash"],
        "created_at": iso(version["created"]),
        "runtime": version["runtime"],
    }


def version_list(call: PlatformCall) -> Answer:
    # The CLI shows `sha256` as the content hash and `size` as the number of artifacts.
    return {
        "data": [
            {
                "version": v["semantic_version"],
                "created_at": iso(v["created"]),
                "sha256": v["content_hash"],
                "size": 2 if v["wheel"] else 1,
                "runtime": v["runtime"],
            }
            for v in versions(call.session, _named(call))
        ]
    }


def details(call: PlatformCall) -> Answer:
    environment = _named(call)
    release = version(call, environment, call.path["version"])
    wheel = release["wheel"]
    public = environment["visibility"] == "PUBLIC"
    return {
        "data": {
            "id": environment["id"],
            "name": environment["name"],
            "owner": environment["owner"],
            "visibility": environment["visibility"],
            "version_id": release["id"],
            "semantic_version": release["semantic_version"],
            "runtime": release["runtime"],
            "content_hash": release["content_hash"],
            "created_at": iso(release["created"]),
            "metadata": release["metadata"],
            "url_dependencies": [],
            "wheel_url": f"{call.base}/rehearsal/files/{release['id']}/{wheel['filename']}"
            if wheel and public
            else None,
            "wheel_sha256": wheel and wheel["sha256"],
            "simple_index_url": None,
            "package_url": f"{call.base}/rehearsal/files/{release['id']}/source.tar.gz",
        }
    }


def inspect(call: PlatformCall) -> Answer:
    release = version(call, _named(call), call.path["version"])
    wanted = call.query.get("path", "").strip("/")
    limit = call.number("max_bytes", 100_000, low=1, high=500_000)
    files = _source_files(call, release)
    answer: Body = {"version_id": release["id"], "path": wanted or "/", "truncated": False}
    if wanted in files:
        content = files[wanted]
        return {
            "data": answer
            | {
                "kind": "file",
                "content": content[:limit].decode("utf-8", "replace"),
                "truncated": len(content) > limit,
                "total_bytes": len(content),
            }
        }
    entries: dict[str, Body] = {}
    base = PurePosixPath(wanted)
    for name, content in files.items():
        path = PurePosixPath(name)
        if not path.is_relative_to(base):
            continue
        child = base / path.relative_to(base).parts[0]
        folder = child != path
        entries[str(child)] = {"path": str(child), "is_directory": folder, "size": None if folder else len(content)}
    if not entries:
        raise Refusal(404, f"Path {wanted} not found in this version")
    return {"data": answer | {"kind": "directory", "entries": list(entries.values())}}


def _source_files(call: PlatformCall, release: Body) -> dict[str, bytes]:
    archive = call.store.blob(release["source"]["sha256"])
    if archive is None:
        raise Refusal(404, "No source archive for this version")
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for member in tar.getmembers():
            stream = tar.extractfile(member) if member.isfile() else None
            if stream is not None:
                files[member.name.removeprefix("./")] = stream.read()
    return dict(sorted(files.items()))


def download(call: PlatformCall) -> Answer:
    release = call.session.get("version", call.path["version"])
    environment = release and call.session.get("environment", release["environment"])
    if not release or not environment:
        raise Refusal(404, "File not found")
    find(call, environment["owner"], environment["name"])
    part = release["source"] if call.path["filename"] == "source.tar.gz" else release["wheel"]
    content = call.store.blob(part["sha256"]) if part else None
    if content is None:
        raise Refusal(404, "File not found")
    return Raw(content, "application/octet-stream")


def lookup(call: PlatformCall) -> Answer:
    environment = call.session.get("environment", str(call.body.get("id", "")))
    if environment is None:
        raise Refusal(404, "Environment not found")
    return {"data": {"id": environment["id"]}}


HUB = "/environmentshub"
ENDPOINTS = (
    PlatformRoute("GET", f"{HUB}/", listing, public=True),
    PlatformRoute("POST", f"{HUB}/lookup", lookup),
    PlatformRoute("GET", f"{HUB}/{{owner}}/{{name}}/status", status, public=True),
    PlatformRoute("GET", f"{HUB}/{{owner}}/{{name}}/versions", version_list, public=True),
    PlatformRoute("GET", f"{HUB}/{{owner}}/{{name}}/@{{version}}", details, public=True),
    PlatformRoute("GET", f"{HUB}/{{owner}}/{{name}}/@{{version}}/inspect", inspect, public=True),
)
FILES = (PlatformRoute("GET", "/rehearsal/files/{version}/{filename}", download, public=True),)
