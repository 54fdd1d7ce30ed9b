#!/usr/bin/env -S python3 -S -E
"""A stand-in for the program `prime`: the same verbs and answers, instant, with its whole memory in one folder.

Used by the property test, where hundreds of pushes and submissions would take hours with the real one. What the real
one says and does is tested elsewhere, against the rehearsal platform.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

HOME = Path(os.environ["PRIME_STUB_HOME"])


def load(name, default):
    path = HOME / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else default


def save(name, value):
    temporary = HOME / f"{name}.{os.getpid()}"
    temporary.write_text(json.dumps(value), encoding="utf-8")
    os.replace(temporary, HOME / name)


def fail(text):
    print(f"Error: {text}")
    raise SystemExit(1)


def files_of(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        hidden = any(part.startswith(".") or part == "dist" for part in relative.parts)
        if path.is_file() and not hidden:
            found[relative.as_posix()] = path.read_bytes().decode("utf-8", "replace")
    return found


def content_hash(files):
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"file:{path}".encode())
        digest.update(files[path].encode())
    return digest.hexdigest()


def option(args, name):
    return args[args.index(name) + 1] if name in args else None


def versions(ref):
    return [push for push in load("pushes", []) if push["ref"] == ref]


def env(args):
    if args[0] == "push":
        folder = Path(option(args, "--path"))
        files = files_of(folder)
        text = files["pyproject.toml"]
        field = lambda key: text.split(f'{key} = "')[1].split('"')[0]  # noqa: E731
        ref, digest = f"me/{field('name')}", content_hash(files)
        if any(push["hash"] == digest for push in versions(ref)):
            fail(f"content hash {digest} already exists")
        pushes = load("pushes", [])
        pushes.append({"ref": ref, "version": field("version"), "hash": digest, "files": files})
        save("pushes", pushes)
        record = {"environment_id": "e", "owner": "me", "name": field("name"), "version": field("version")}
        (folder / ".prime").mkdir(exist_ok=True)
        (folder / ".prime" / ".env-metadata.json").write_text(
            json.dumps(record | {"pushed_at": "now", "wheel_sha256": "0" * 64}), encoding="utf-8"
        )
        print(f"Successfully pushed {ref}")
        return
    ref = args[2] if args[0] == "version" else args[1]
    ref, _, version = ref.partition("@")
    found = versions(ref)
    if not found:
        fail("HTTP 404: not found")
    if args[0] in ("pull", "info"):
        if (HOME / "files-are-down").exists():
            fail("Request failed: ConnectError: no route")
        held = next((push for push in found if push["version"] == version), found[-1])
        if args[0] == "info":
            print("Install (private environment)")
            return
        for path, text in held["files"].items():
            target = Path(option(args, "--target")) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        return
    if args[0] == "status":
        last = found[-1]
        latest = {"semantic_version": last["version"], "content_hash": last["hash"], "runtime": "VERIFIERS_V1"}
        print(json.dumps({"name": ref.split("/")[1], "visibility": "PRIVATE", "latest_version": latest}))
    elif args[0] == "version":
        for push in reversed(found):
            print(f"{push['version']}  2026-01-01  {push['hash']}")
    else:
        print(json.dumps({"kind": "file", "path": "pyproject.toml", "content": found[-1]["files"]["pyproject.toml"]}))


@contextlib.contextmanager
def alone():
    """Several of these run at once."""
    with (HOME / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def create(config):
    """A run, written to the end of a log that nobody ever writes over: one sent twice shows as two."""
    name = next(line for line in config.splitlines() if line.startswith("name = ")).split('"')[1]
    run = {"id": f"run-{os.urandom(5).hex()}", "name": name, "config": config, "status": "RUNNING"}
    log = os.open(HOME / "runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(log, json.dumps(run).encode() + b"\n")
    os.close(log)
    return run


def created():
    path = HOME / "runs"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def create_later(config):
    """What was sent arrives only after prime has ended."""
    if os.fork():
        return
    os.setsid()
    for descriptor in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    os.closerange(3, 64)
    time.sleep(0.3)
    create(config)
    os._exit(0)


FAULTS = ("none", "drop", "timeout", "503", "garbage", "hang", "refused", "unreachable")
ARRIVES = ("no", "yes", "late")


def weather(verb, subject):
    """What breaks this time: (fault, whether the request arrives), decided by the seed, the subject and its count."""
    seed = load("weather", None)
    if seed is None:
        return "none", "yes"
    with alone():
        counts = load("counts", {})
        key = f"{verb} {subject}"
        counts[key] = counts.get(key, 0) + 1
        save("counts", counts)
    dice = random.Random(f"{seed} {key} {counts[key]}")
    killing = ("kill",) * 12 if os.environ.get("PRIME_STUB_MAY_KILL") and verb == "run" else ()
    fault = dice.choice(("none",) * (3 if verb == "run" else 20) + FAULTS + killing)
    return fault, dice.choice(ARRIVES)


def break_off(fault):
    """End as prime does when its connection breaks."""
    if fault == "kill":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(30)
    if fault == "hang":
        time.sleep(30)
    if fault == "garbage":
        print('{"run": {')
        raise SystemExit(0)
    if fault == "refused":
        fail("Payment required. Please check your billing status")
    if fault == "unreachable":
        fail("Request failed: ConnectError: no route")
    fail(
        {"drop": "Request failed: ReadError", "timeout": "Request timed out: ReadTimeout", "503": "HTTP 503: no"}[fault]
    )


def train(args):
    if args[0] == "models":
        offers = [{"gpu_type": "H100_80GB", "price_per_gpu_hour": 2.0, "available_now": True, "is_beta": False}]
        trained = ("Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-0.6B")
        models = [{"name": name, "clusters": []} for name in trained]
        print(json.dumps({"available_fft_models": models, "on_demand": offers}))
    elif args[0] == "gpus":
        print(json.dumps({"gpuTypes": ["H100_80GB"]}))
    elif args[0] == "validate":
        down = (HOME / "validation-is-down").exists()
        print(json.dumps({"error": "Request failed: ConnectError" if down else "HTTP 404: prepare is not offered"}))
        raise SystemExit(1)
    elif args[0] == "run":
        config = Path(args[1]).read_text(encoding="utf-8")
        fault, arrives = weather("run", config.splitlines()[0])
        if fault not in ("none", "refused", "unreachable") and arrives != "no":
            (create if arrives == "yes" else create_later)(config)
        if fault != "none":
            break_off(fault)
        run = create(config)
        print(json.dumps({"run": {"runId": run["id"], "pricePerGpuHour": 2.0, "estimatedCostPerHour": 4.0}}))
    elif args[0] == "list":
        fault, _ = weather("list", "")
        if fault != "none":
            break_off("drop" if fault in ("hang", "refused") else fault)
        runs = [{k: run[k] for k in ("id", "name", "status")} for run in created()]
        print(json.dumps({"runs": runs if "-p" not in args or option(args, "-p") == "1" else [], "total": len(runs)}))
    elif args[0] == "get":
        run = next((run for run in created() if run["id"] == args[1]), None)
        if run is None:
            fail("HTTP 404: no such run")
        print(json.dumps({"run": {k: run[k] for k in ("id", "name", "status")}}))
    else:
        print(json.dumps({}))


def main():
    args = [arg for arg in sys.argv[1:] if arg != "--plain"]
    with (HOME / "log").open("a", encoding="utf-8") as log:
        log.write(" ".join(args) + "\n")
    if args == ["--version"]:
        print("Prime CLI version: 0.18.0")
    elif args[0] == "whoami" and (HOME / "nobody-is-logged-in").exists():
        fail("HTTP 401: not logged in")
    elif args[0] == "whoami":
        print("Type  User\nUser ID  u1\nUsername  me\nName  Me")
    elif args[0] == "wallet":
        print(json.dumps({"wallet_id": "w", "balance_usd": 100.0, "currency": "USD"}))
    elif args[0] == "teams" and (HOME / "teams-are-down").exists():
        fail("HTTP 403: this key may not list teams")
    elif args[0] == "teams" and (HOME / "many-teams").exists():
        print(json.dumps({"teams": [{"teamId": str(n), "slug": f"team-{n}", "name": "T"} for n in range(100)]}))
    elif args[0] == "teams":
        print(json.dumps({"teams": []}))
    elif args[0] == "env":
        env(args[1:])
    elif args[0] == "train":
        train(args[1:])
    else:
        fail(f"unknown {args}")


main()
