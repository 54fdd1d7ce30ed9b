"""The writing routes of the Environments Hub: resolve a name, push in two uploads, delete."""

from __future__ import annotations

from prime_lab_mcp.rehearsal import account
from prime_lab_mcp.rehearsal.call import Answer, PlatformCall, PlatformRoute, Refusal
from prime_lab_mcp.rehearsal.hub import HUB, find, owned_by_caller, version, versions
from prime_lab_mcp.rehearsal.store import Body, new_id

_VISIBILITIES = ("PUBLIC", "PRIVATE")


def _own(call: PlatformCall) -> Body:
    environment = call.session.get("environment", call.path["id"])
    if environment is None:
        raise Refusal(404, f"Environment {call.path['id']} not found")
    if not owned_by_caller(environment):
        raise Refusal(403, f"You do not have permission to change {environment['owner']}'s names")
    return environment


def resolve(call: PlatformCall) -> Answer:
    """Get or create an environment. Refuses owners that do not belong to the caller."""
    name = str(call.body.get("name", ""))
    if not name:
        raise Refusal(422, [{"loc": ["body", "name"], "msg": "Field required"}])
    owner = _push_owner(call)
    wanted = call.body.get("visibility")
    if wanted is not None and wanted not in _VISIBILITIES:
        raise Refusal(422, [{"loc": ["body", "visibility"], "msg": "PUBLIC or PRIVATE"}])
    for environment in call.session.all("environment"):
        if environment["owner"] == owner and environment["name"] == name:
            if wanted:
                environment["visibility"] = wanted
                call.session.put("environment", environment["id"], environment)
            return _resolved(environment, created=False)
    now = call.session.now()
    environment = {
        "id": new_id("env"),
        "owner": owner,
        "name": name,
        "visibility": wanted or "PRIVATE",
        "description": "",
        "tags": [],
        "created": now,
        "updated": now,
    }
    call.session.put("environment", environment["id"], environment)
    return _resolved(environment, created=True)


def _push_owner(call: PlatformCall) -> str:
    slug = call.body.get("owner_slug")
    if slug in (None, account.USER):
        if call.body.get("team_slug") or call.body.get("team_id"):
            owner = account.team(call, id=call.body.get("team_id"), slug=call.body.get("team_slug"))
            return str(owner["slug"])
        return account.USER
    if slug in {team["slug"] for team in account.TEAMS}:
        return str(account.team(call, slug=slug)["slug"])
    raise Refusal(403, f"You do not have permission to push to {slug}: the name is another user's")


def _resolved(environment: Body, *, created: bool) -> Answer:
    return {
        "data": {
            "id": environment["id"],
            "owner": {"name": environment["owner"]},
            "name": environment["name"],
            "visibility": environment["visibility"],
            "created": created,
        }
    }


def _refuse_duplicate(call: PlatformCall, environment: Body) -> str:
    content = str(call.body.get("content_hash") or "")
    if not content:
        raise Refusal(422, [{"loc": ["body", "content_hash"], "msg": "Field required"}])
    if any(v["content_hash"] == content for v in versions(call.session, environment)):
        raise Refusal(409, f"A version with content hash {content} already exists")
    return content


def add_wheel(call: PlatformCall) -> Answer:
    environment = _own(call)
    content = _refuse_duplicate(call, environment)
    return _expect_upload(call, environment, content, "wheel", "wheel_id")


def add_version(call: PlatformCall) -> Answer:
    environment = _own(call)
    content = _refuse_duplicate(call, environment)
    return _expect_upload(call, environment, content, "source", "version_id")


def _expect_upload(call: PlatformCall, environment: Body, content: str, part: str, field: str) -> Answer:
    """Record an expected upload. The token in the address is the only credential, as in a presigned address."""
    id = new_id("ver" if part == "source" else "whl")
    token = new_id("up")
    upload = {
        "id": id,
        "token": token,
        "part": part,
        "environment": environment["id"],
        "content_hash": content,
        "request": call.body,
        "received": None,
    }
    call.session.put("upload", id, upload, parent=environment["id"])
    return {"data": {field: id, "upload_url": f"{call.base}/rehearsal/uploads/{id}/{token}"}}


def receive(call: PlatformCall) -> Answer:
    upload = call.session.get("upload", call.path["upload"])
    if upload is None or upload["token"] != call.path["token"]:
        raise Refusal(403, "The upload address has expired")
    upload["received"] = call.store.keep_blob(call.content)
    call.session.put("upload", upload["id"], upload, parent=upload["environment"])
    return {}


def _finished_upload(call: PlatformCall) -> Body:
    upload = call.session.get("upload", call.path["upload"])
    if upload is None or upload["environment"] != call.path["id"]:
        raise Refusal(404, "Upload not found")
    if upload["received"] is None:
        raise Refusal(400, "The file was not uploaded")
    if upload["received"] != upload["request"].get("sha256"):
        raise Refusal(422, "The uploaded file does not have the announced sha256")
    return upload


def finalize_wheel(call: PlatformCall) -> Answer:
    _own(call)
    _finished_upload(call)
    return {"data": {"success": True}}


def finalize_version(call: PlatformCall) -> Answer:
    """Complete the push. Repeating the request changes nothing."""
    environment = _own(call)
    upload = _finished_upload(call)
    if call.session.get("version", upload["id"]) is not None:
        return {"data": {"success": True}}
    request = upload["request"]
    _refuse_duplicate(_with_body(call, request), environment)
    wheel = _wheel_for(call, environment, upload["content_hash"])
    now = call.session.now()
    metadata = dict(request.get("metadata") or {})
    call.session.put(
        "version",
        upload["id"],
        {
            "id": upload["id"],
            "environment": environment["id"],
            "finalized": True,
            "content_hash": upload["content_hash"],
            "created": now,
            "metadata": metadata,
            "semantic_version": request.get("semantic_version"),
            "runtime": request.get("runtime_hint"),
            "source": {"sha256": upload["received"], "filename": request.get("filename")},
            "wheel": wheel,
        },
        parent=environment["id"],
    )
    environment |= {
        "description": metadata.get("description") or "",
        "tags": metadata.get("tags") or [],
        "updated": now,
    }
    call.session.put("environment", environment["id"], environment)
    return {"data": {"success": True, "message": "rehearsal: published on the loopback Hub"}}


def _with_body(call: PlatformCall, body: Body) -> PlatformCall:
    return PlatformCall(call.store, call.session, call.base, call.path, call.query, body)


def _wheel_for(call: PlatformCall, environment: Body, content: str) -> Body | None:
    for upload in reversed(call.session.all("upload", environment["id"])):
        if upload["part"] == "wheel" and upload["content_hash"] == content and upload["received"]:
            return {"sha256": upload["received"], "filename": upload["request"].get("filename")}
    return None


def delete(call: PlatformCall) -> Answer:
    environment = find(call, call.path["owner"], call.path["name"])
    if not owned_by_caller(environment):
        raise Refusal(403, f"You do not have permission to delete {environment['owner']}'s names")
    for release in call.session.all("version", environment["id"]):
        call.session.remove("version", release["id"])
    call.session.remove("environment", environment["id"])
    return {"data": {"success": True}}


def delete_version(call: PlatformCall) -> Answer:
    environment = find(call, call.path["owner"], call.path["name"])
    if not owned_by_caller(environment):
        raise Refusal(403, f"You do not have permission to delete {environment['owner']}'s names")
    release = version(call, environment, call.path["version"])
    call.session.remove("version", release["id"])
    return {"data": {"success": True}}


ENDPOINTS = (
    PlatformRoute("POST", f"{HUB}/resolve", resolve),
    PlatformRoute("POST", f"{HUB}/{{id}}/wheels", add_wheel),
    PlatformRoute("POST", f"{HUB}/{{id}}/wheels/{{upload}}/finalize", finalize_wheel),
    PlatformRoute("POST", f"{HUB}/{{id}}/versions", add_version),
    PlatformRoute("POST", f"{HUB}/{{id}}/versions/{{upload}}/finalize", finalize_version),
    PlatformRoute("DELETE", f"{HUB}/{{owner}}/{{name}}/@{{version}}", delete_version),
    PlatformRoute("DELETE", f"{HUB}/{{owner}}/{{name}}", delete),
)
UPLOADS = (PlatformRoute("PUT", "/rehearsal/uploads/{upload}/{token}", receive, public=True),)
