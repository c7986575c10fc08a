"""Checkouts and payments as tests ask for them, and what Postgres has of them.

    checkout = started(client, event)                      # 201, parsed; hold_ids=[...] names holds
    complete(client, checkout, "tok_ok").expect(200)
    deliver(node, intent_id, "succeeded", "key-1")         # the provider's webhook, signed
    drive([...start_shot(client, event)..., webhook_shot(node, intent_id, "failed", "key-2")])
"""

import hashlib
import hmac
import json
import time
import urllib.error
import urllib.request

from support.client import Answer
from support.swarm import Shot, shot
from support.tables import query
from support.waiting import wait_until

WEBHOOK_SECRET = "a secret between us and the provider"
WEBHOOK_PATH = "/payments/webhook"

# --- asking --------------------------------------------------------------------------------------------------


def start_shot(client, event, hold_ids=None, headers=None):
    body = {"event_id": event} | ({"hold_ids": list(hold_ids)} if hold_ids is not None else {})
    return shot(client, "POST", "/api/checkouts", body, headers)


def complete_shot(client, checkout, method="tok_ok", headers=None):
    return shot(client, "POST", f"/api/checkouts/{checkout['checkout_id']}/complete", {"payment_method": method},
                headers)


def cancel_shot(client, checkout, **more):
    return shot(client, "POST", f"/api/checkouts/{checkout['checkout_id']}/cancel", more)


def release_shot(admin, **what):
    """what: hold_ids=[...], or event_id and seat_ids or all."""
    return shot(admin, "POST", "/api/admin/seats/release", what)


def signature(body, secret=WEBHOOK_SECRET, at=None):
    at = int(time.time()) if at is None else int(at)
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def webhook_body(intent_id, status, key):
    return json.dumps({"intentId": intent_id, "status": status, "providerIdempotencyKey": key}).encode()


def webhook_shot(node, intent_id, status, key, request_id=None):
    body = webhook_body(intent_id, status, key)
    lines = [f"POST {WEBHOOK_PATH} HTTP/1.1", "Host: holdfast", "Content-Type: application/json",
             f"Holdfast-Signature: {signature(body)}", f"Content-Length: {len(body)}"]
    if request_id:
        lines.append(f"X-Request-Id: {request_id}")
    return Shot(node, "\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def start(client, event, hold_ids=None):
    return client.post("/api/checkouts", {"event_id": event} | ({"hold_ids": hold_ids} if hold_ids else {}))


def started(client, event, hold_ids=None):
    return start(client, event, hold_ids).expect(201).json


def held_checkout(client, event, *seats, **more):
    """A hold of these seats with a checkout of its own: both, parsed."""
    hold = client.held(event, *seats, **more)
    return hold, started(client, event, [hold["hold_id"]])


def complete(client, checkout, method="tok_ok", **more):
    return client.post(f"/api/checkouts/{checkout['checkout_id']}/complete", {"payment_method": method}, **more)


def cancel(client, checkout, **more):
    return client.post(f"/api/checkouts/{checkout['checkout_id']}/cancel", more)


def release(admin, **what):
    return admin.post("/api/admin/seats/release", what)


def pending(client, checkout):
    """Asks for a payment that the provider doesn't decide at once; the intent's id."""
    return complete(client, checkout, "tok_pending").expect(202).json["payment_intent_id"]


def deliver(node, intent_id, status, key, body=None, signed=None, timeout=30):
    """One delivery of the provider's webhook; its answer."""
    body = webhook_body(intent_id, status, key) if body is None else body
    request = urllib.request.Request(
        node.url + WEBHOOK_PATH, data=body, method="POST",
        headers={"Content-Type": "application/json", "Holdfast-Signature": signed or signature(body)})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return Answer(response.status, response.headers, response.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read())


# --- what Postgres has -----------------------------------------------------------------------------------------


def checkout_row(db, checkout):
    [row] = query(db, "SELECT status, amount, currency, intent_id::text, reason, user_id FROM checkouts "
                  "WHERE checkout_id = %s", checkout["checkout_id"])
    return row


def intents_of(db, checkout):
    """Oldest first."""
    return query(db, "SELECT intent_id::text, status, amount, currency, provider, method, created_at, settled_at "
                 "FROM payment_intents WHERE subject_id = %s ORDER BY created_at, intent_id", checkout["checkout_id"])


def intent_status(db, intent_id):
    [row] = query(db, "SELECT status FROM payment_intents WHERE intent_id = %s", intent_id)
    return row.status


def await_intent(db, intent_id, *statuses, timeout=10):
    return wait_until(lambda: (status := intent_status(db, intent_id)) in statuses and status, timeout,
                      what=f"the intent is {' or '.join(statuses)}")


def outbox(db, org, event, *kinds):
    """The kinds (or those of these) of what the world is told, in order."""
    return [row.kind for row in query(
        db, "SELECT kind FROM outbox WHERE org_id = %s AND event_id = %s ORDER BY id", org, event)
        if not kinds or row.kind in kinds]


def deliveries_of(db, intent_id):
    """{(provider's key, what it said): state}"""
    return {(row.provider_key, row.status): row.state for row in query(
        db, "SELECT provider_key, status, state FROM payment_deliveries WHERE intent_id = %s", intent_id)}


def sales_of(db, org, event):
    """{seat: [(hold, user, version)]} of every sale that there ever was."""
    sales = {}
    for row in query(db, "SELECT seat_id, hold_id::text, user_id, version FROM audit_log WHERE org_id = %s "
                     "AND event_id = %s AND action = 'seat_sold' AND seat_id IS NOT NULL ORDER BY version", org, event):
        sales.setdefault(row.seat_id, []).append((row.hold_id, row.user_id, row.version))
    return sales


def tickets_of(db, org, event):
    """{seat: [ticket, ...]} of all converted lines."""
    tickets = {}
    for row in query(db, "SELECT seat_id, ticket_ids::text[] AS tickets FROM seat_holds WHERE org_id = %s AND event_id = %s "
                     "AND status = 'converted' AND seat_id IS NOT NULL", org, event):
        tickets.setdefault(row.seat_id, []).extend(row.tickets)
    return tickets


def in_payment(db, org, event):
    """The seats and lines that are marked as in payment."""
    return {row.seat_id for row in query(db, """
        SELECT seat_id FROM seats WHERE org_id = %s AND event_id = %s AND in_payment
        UNION SELECT coalesce(seat_id, area_id) FROM seat_holds
        WHERE org_id = %s AND event_id = %s AND in_payment AND status = 'active'""", org, event, org, event)}
