"""The routes of `prime availability` and `prime pods`: GPUs for rent, and pods.

Only the admin routes create pods. Requests to rent a pod are refused.
"""

from __future__ import annotations

from prime_lab_mcp.rehearsal import account
from prime_lab_mcp.rehearsal.call import LABEL, Answer, PlatformCall, PlatformRoute, Refusal, iso
from prime_lab_mcp.rehearsal.store import Body, new_id

_GPUS = (
    ("A100_80GB", 1.30, ("massedcompute", "US"), "Available"),
    ("H100_80GB", 2.20, ("hyperstack", "CA"), "Available"),
    ("H200_141GB", 3.50, ("nebius", "FI"), "Low"),
    ("RTX4090_24GB", 0.45, ("runpod", "US"), "Available"),
    ("L40S_48GB", 0.90, ("runpod", "NO"), "High"),
)
_COUNTS = (1, 2, 4, 8)


def offers(call: PlatformCall) -> Answer:
    wanted, kind = call.query.get("gpu_count"), call.query.get("gpu_type")
    rows = [
        _offer(name, count, price, place, stock)
        for name, price, place, stock in _GPUS
        for count in _COUNTS
        if wanted in (None, str(count)) and kind in (None, name)
    ]
    return {"items": rows, "totalCount": len(rows)}


def clusters(call: PlatformCall) -> Answer:
    return {"items": [], "totalCount": 0}


def types(call: PlatformCall) -> Answer:
    return {name: {} for name, *_ in _GPUS}


def listed(call: PlatformCall) -> Answer:
    rows = [_pod_reply(pod) for pod in call.session.all("pod")]
    offset, limit = call.number("offset", 0), call.number("limit", 100, low=1)
    return {"total_count": len(rows), "offset": offset, "limit": limit, "data": rows[offset : offset + limit]}


def status(call: PlatformCall) -> Answer:
    pod = _known(call, call.query.get("pod_ids", ""))
    return {
        "data": [
            {
                "podId": pod["id"],
                "providerType": "rehearsal",
                "status": "ACTIVE",
                "priceHr": pod["price"],
                "sshConnection": "root@127.0.0.1 -p 22",
                "ip": "127.0.0.1",
                "installationProgress": 100,
            }
        ]
    }


def one(call: PlatformCall) -> Answer:
    return _pod_reply(_known(call, call.path["id"]))


def end(call: PlatformCall) -> Answer:
    pod = _known(call, call.path["id"])
    call.session.remove("pod", pod["id"])
    return {"status": "terminated", "id": pod["id"]}


def rent(call: PlatformCall) -> Answer:
    raise Refusal(403, "The rehearsal platform rents no pods")


def leave_running(call: PlatformCall) -> Answer:
    """Admin route: create a forgotten pod from `name`, `gpu`, `count` and `price` (US dollars per hour)."""
    body = call.body
    pod: Body = {
        "id": new_id("pod"),
        "name": str(body.get("name") or "forgotten"),
        "gpu": str(body.get("gpu") or "H100_80GB"),
        "count": int(body.get("count") or 1),
        "price": float(body.get("price") or 2.2),
        "at": call.session.now(),
    }
    call.session.put("pod", pod["id"], pod)
    return _pod_reply(pod)


def clear(call: PlatformCall) -> Answer:
    return {"removed": call.session.remove("pod")}


def _known(call: PlatformCall, id: str) -> Body:
    pod = call.session.get("pod", id)
    if pod is None:
        raise Refusal(404, f"Pod {id} not found")
    return pod


def _offer(name: str, count: int, price: float, place: tuple[str, str], stock: str) -> Body:
    size: Body = {"minCount": None, "defaultCount": 16 * count, "maxCount": None, "pricePerUnit": None, "step": None}
    return {
        "cloudId": f"rehearsal-{count}x-{name}",
        "gpuType": name,
        "socket": "SXM5" if "H" in name else "PCIe",
        "provider": place[0],
        "dataCenter": None,
        "country": place[1],
        "gpuCount": count,
        "gpuMemory": int(name.rsplit("_", 1)[1].removesuffix("GB")) * count,
        "disk": size | {"defaultCount": 500},
        "vcpu": size,
        "memory": size | {"defaultCount": 120 * count},
        "internetSpeed": None,
        "interconnect": None,
        "interconnectType": None,
        "provisioningTime": None,
        "stockStatus": stock,
        "security": "secure_cloud",
        "prices": {"onDemand": round(price * count, 2), "communityPrice": None, "isVariable": False, "currency": "USD"},
        "images": ["ubuntu_22_cuda_12"],
        "isSpot": False,
        "prepaidTime": None,
        LABEL: True,
    }


def _pod_reply(pod: Body) -> Body:
    return {
        "id": pod["id"],
        "name": pod["name"],
        "gpuName": pod["gpu"],
        "gpuCount": pod["count"],
        "status": "ACTIVE",
        "createdAt": iso(pod["at"]),
        "providerType": "rehearsal",
        "installationStatus": "FINISHED",
        "installationProgress": 100,
        "teamId": None,
        "resources": None,
        "attachedResources": None,
        "primePortMapping": None,
        "sshConnection": "root@127.0.0.1 -p 22",
        "ip": "127.0.0.1",
        "priceHr": pod["price"],
        "environmentType": "ubuntu_22_cuda_12",
        "socket": "SXM5",
        "type": "HOSTED",
        "userId": account.USER_ID,
        LABEL: True,
    }


ENDPOINTS = (
    PlatformRoute("GET", "/availability/gpus", offers),
    PlatformRoute("GET", "/availability/multi-node", clusters),
    PlatformRoute("GET", "/availability/gpu-summary", types),
    PlatformRoute("GET", "/pods", listed),
    PlatformRoute("POST", "/pods", rent),
    PlatformRoute("GET", "/pods/status", status),
    PlatformRoute("GET", "/pods/{id}", one),
    PlatformRoute("DELETE", "/pods/{id}", end),
)
ORDERS = (
    PlatformRoute("POST", "/rehearsal/pods", leave_running),
    PlatformRoute("DELETE", "/rehearsal/pods", clear),
)
