"""What an admin sees and undoes of the limits by address: /admin/abuse/recent, /admin/abuse/unblock/{ip}."""

from support.client import Client
from support.wire import Wire, request

BURST = 5


def blocked_node(start_node, org):
    """A node on which 127.0.0.1 has just been blocked, and an admin of it who asks from another address."""
    node = start_node(rate_limits="on", rate_burst_per_5s=str(BURST), trusted_proxies="127.0.0.1")
    user = Client(node, org, "user-1")
    one = request(user, "GET", "/api/events", headers=[b"X-Forwarded-For: 203.0.113.7"])
    with Wire(node, timeout=60) as wire:
        wire.send(one * (BURST + 1))  # in one moment, however slow the machine is
        for _ in range(BURST):
            wire.answer().expect(200)
        wire.answer().expect(429, "blocked")
    return user, Client(node, org, "admin-1", "admin")


def test_a_block_is_listed_with_who_when_and_why(start_node, org):
    _, admin = blocked_node(start_node, org)
    events = admin.get("/admin/abuse/recent?limit=10").expect(200).json["events"]
    seen = events[0]
    assert seen["ip"] == "203.0.113.7"
    assert seen["event_type"] == "burst_limit"
    assert seen["detection_time"] < seen["blocked_until"]
    assert seen["request_count"] == BURST + 1 and seen["time_window_ms"] == 5000
    assert seen["id"] and seen["details"]


def test_an_unblocked_address_may_go_on(start_node, org):
    user, admin = blocked_node(start_node, org)
    assert admin.post("/admin/abuse/unblock/203.0.113.7").expect(200).json == {"success": True}
    user.get("/api/events", headers={"X-Forwarded-For": "203.0.113.7"}).expect(200)
    admin.post("/admin/abuse/unblock/203.0.113.7").expect(404, "not_found")


def test_only_admins_see_and_undo_blocks(client):
    client.get("/admin/abuse/recent").expect(403, "forbidden")
    client.post("/admin/abuse/unblock/203.0.113.7").expect(403, "forbidden")


def test_a_wrong_limit_is_named(admin):
    assert admin.get("/admin/abuse/recent?limit=0").expect(400, "invalid_field").json["errors"][0]["field"] == "limit"
