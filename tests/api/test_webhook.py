"""POST /payments/webhook: who may speak, what they may say, and that it takes effect once whatever comes when.

The provider is `tok_pending` here: it leaves a payment undecided, and the test says what became of it.
"""

import itertools
import json
import random
import time
import urllib.parse
import uuid

import pytest

from support import checkouts, servers
from support.checkouts import (WEBHOOK_SECRET, complete, deliver, deliveries_of, held_checkout, in_payment, intent_status,
                               outbox, pending, sales_of, signature, tickets_of, webhook_body)
from support.client import Client
from support.contract import check_problem, fields_of
from support.sse import EventStream
from support.tables import audit, query, seat_row
from support.waiting import at_once, wait_until

OLD_SECRET = "the secret of last year"
NODE_SETTINGS = {"webhook_secret": f"{WEBHOOK_SECRET},{OLD_SECRET}", "payment_retry": "20ms"}
NOBODY = "0190a000-0000-7000-8000-000000000000"


@pytest.fixture
def event(admin):
    seats = [{"seat_id": f"A-{n}", "section": "stalls", "row": "A", "number": str(n), "price": 2500} for n in range(1, 7)]
    return admin.make_event(seats)


@pytest.fixture
def payment(client, event):
    """A checkout of A-1 and A-2 whose payment is undecided: (checkout, intent)."""
    _, checkout = held_checkout(client, event, "A-1", "A-2")
    return checkout, pending(client, checkout)


def stored(db, intent):
    return intent_status(db, intent)


def late_payment(client, admin, db, *seats):
    """The event, checkout and intent of a payment that nobody decided in time: its seats are free again."""
    event = admin.make_event(6, policy={"payment_timeout": 1})
    _, checkout = held_checkout(client, event, *seats)
    intent = pending(client, checkout)
    checkouts.await_intent(db, intent, "expired")
    return event, checkout, intent


# --- who may speak -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", [WEBHOOK_SECRET, OLD_SECRET])
def test_either_secret_signs_during_a_rotation(node, db, payment, secret):
    _, intent = payment
    body = webhook_body(intent, "succeeded", "k1")
    answer = deliver(node, intent, "succeeded", "k1", body=body, signed=signature(body, secret)).expect(200)
    assert answer.json == {"intentId": intent, "status": "succeeded"}
    assert stored(db, intent) == "succeeded"


@pytest.mark.parametrize("seconds", [-290, 290])
def test_clocks_may_differ_by_five_minutes(node, payment, seconds):
    _, intent = payment
    body = webhook_body(intent, "succeeded", "k1")
    deliver(node, intent, "succeeded", "k1", body=body, signed=signature(body, at=time.time() + seconds)).expect(200)


def bad_signatures(body):
    now = int(time.time())
    good = signature(body).split("v1=")[1]
    return {
        "none": "", "garbage": "x", "no time": f"v1={good}", "no signature": f"t={now}", "another secret": signature(body, "x"),
        "another body": signature(body + b" "), "another time": f"t={now - 1},v1={good}", "cut": signature(body)[:-2],
        "too old": signature(body, at=now - 310), "too new": signature(body, at=now + 310), "empty": f"t={now},v1=",
        "of nothing": signature(b""),
    }


@pytest.mark.parametrize("kind", list(bad_signatures(b"")))
def test_a_bad_signature_changes_nothing(node, db, payment, kind):
    _, intent = payment
    body = webhook_body(intent, "succeeded", "k1")
    client = Client(node, "x", token="")
    signed = bad_signatures(body)[kind]
    answer = client.post("/payments/webhook", body=body, headers={"Holdfast-Signature": signed} if signed else {})
    check_problem(answer, "unauthenticated", "/payments/webhook")
    assert (stored(db, intent), deliveries_of(db, intent)) == ("pending", {})


def test_a_token_is_no_signature(admin, db, payment):
    _, intent = payment
    check_problem(admin.post("/payments/webhook", body=webhook_body(intent, "succeeded", "k1")), "unauthenticated")
    assert stored(db, intent) == "pending"


def test_without_a_secret_nobody_may_speak(start_node, db, payment):
    _, intent = payment
    silent = start_node()
    body = webhook_body(intent, "succeeded", "k1")
    deliver(silent, intent, "succeeded", "k1", body=body, signed=signature(body, "")).expect(401, "unauthenticated")
    assert stored(db, intent) == "pending"


def test_bad_signatures_are_limited_and_good_ones_are_not(start_node, client, db, event):
    node = start_node(rate_limits="on", rate_general_per_min=10, webhook_secret=WEBHOOK_SECRET)
    statuses = [deliver(node, NOBODY, "failed", "k", signed="t=1,v1=00").status for _ in range(15)]
    assert statuses == [401] * 10 + [429] * 5
    for _ in range(30):
        deliver(node, NOBODY, "failed", "k").expect(404, "intent_not_found")


def test_a_large_body_is_not_hashed(node, payment):
    _, intent = payment
    body = webhook_body(intent, "succeeded", "k1") + b" " * 65536
    deliver(node, intent, "succeeded", "k1", body=body).expect(413, "body_too_large")


# --- what they may say ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("body, code, fields", [
    ({}, "missing_field", {"intentId", "status", "providerIdempotencyKey"}),
    ({"intentId": 7, "status": "succeeded", "providerIdempotencyKey": "k"}, "invalid_field", {"intentId"}),
    ({"intentId": NOBODY, "status": "paid", "providerIdempotencyKey": "k"}, "invalid_field", {"status"}),
    ({"intentId": NOBODY, "status": "failed", "providerIdempotencyKey": ""}, "invalid_field", {"providerIdempotencyKey"}),
    ({"intentId": NOBODY, "status": "failed", "providerIdempotencyKey": "x" * 256}, "invalid_field", {"providerIdempotencyKey"}),
])
def test_fields(node, body, code, fields):
    body = json.dumps(body).encode()
    assert fields_of(check_problem(deliver(node, None, None, None, body=body), code)) == fields


def test_what_is_no_json_and_no_intent(node):
    check_problem(deliver(node, None, None, None, body=b"{"), "malformed_json")
    check_problem(deliver(node, NOBODY, "failed", "k"), "intent_not_found")
    check_problem(deliver(node, "pi_of_somebody_else", "failed", "k"), "intent_not_found")


# --- what it does --------------------------------------------------------------------------------------------


def test_paid(node, client, other, db, org, redis, event, payment, check_audit):
    checkout, intent = payment
    with EventStream(other, event) as stream:
        stream.expect(200)
        assert deliver(node, intent, "succeeded", "k1").expect(200).json == {"intentId": intent, "status": "succeeded"}
        assert [told.name for told in stream.seats(2)] == ["seat_sold"] * 2
    assert {len(tickets) for tickets in tickets_of(db, org, event).values()} == {1}
    assert in_payment(db, org, event) == set()
    assert deliveries_of(db, intent) == {("k1", "succeeded"): "done"}
    assert outbox(db, org, event, "checkout.completed") == ["checkout.completed"]
    sold = audit(db, org, event, "A-1")[-1]
    assert (sold.action, sold.user_id, sold.actor) == ("seat_sold", client.user, None)
    wait_until(lambda: redis.get(f"holdfast:{{org:{org}:event:{event}}}:seat:A-1") is None)
    completed = complete(client, checkout).expect(200).json
    assert {ticket["seat_id"] for ticket in completed["tickets"]} == {"A-1", "A-2"}
    check_audit(event)


def test_declined(node, client, other, db, org, event, payment, check_audit):
    checkout, intent = payment
    with EventStream(other, event) as stream:
        stream.expect(200)
        assert deliver(node, intent, "failed", "k1").expect(200).json == {"intentId": intent, "status": "failed"}
        assert {(told.name, told.data["reason"]) for told in stream.seats(2)} == {("seat_released", "payment_failed")}
    assert seat_row(db, org, event, "A-1").status == "available"
    assert outbox(db, org, event, "payment.failed", "checkout.completed") == ["payment.failed"]
    check_problem(complete(client, checkout), "hold_not_active")
    check_audit(event)


def test_repeats_change_nothing(node, db, org, event, payment, check_audit):
    _, intent = payment
    answers = [deliver(node, intent, "succeeded", key).expect(200).json for key in ("k1", "k1", "k2", "k1", "k2")]
    assert answers == [{"intentId": intent, "status": "succeeded"}] * 5
    assert {seat: len(sales) for seat, sales in sales_of(db, org, event).items()} == {"A-1": 1, "A-2": 1}
    assert {len(tickets) for tickets in tickets_of(db, org, event).values()} == {1}
    assert outbox(db, org, event, "checkout.completed") == ["checkout.completed"]
    check_audit(event)


def test_parallel_deliveries_act_once(node, db, org, event, payment, check_audit):
    _, intent = payment
    answers = at_once(30, lambda i: deliver(node, intent, "succeeded", f"k{i % 3}"))
    assert {(answer.status, answer.json["status"]) for answer in answers} == {(200, "succeeded")}
    assert {seat: len(sales) for seat, sales in sales_of(db, org, event).items()} == {"A-1": 1, "A-2": 1}
    assert outbox(db, org, event, "checkout.completed") == ["checkout.completed"]
    check_audit(event)


def test_failed_never_undoes_succeeded(node, db, org, event, payment, check_audit):
    _, intent = payment
    deliver(node, intent, "succeeded", "k1").expect(200)
    assert deliver(node, intent, "failed", "k2").expect(200).json["status"] == "succeeded"
    assert seat_row(db, org, event, "A-1").status == "sold"
    assert outbox(db, org, event, "payment.failed") == []
    check_audit(event)


def test_succeeded_wins_after_failed(node, client, db, org, event, payment, check_audit):
    """The seats went and are still free: they are taken anew for the payer, and sold."""
    checkout, intent = payment
    deliver(node, intent, "failed", "k1").expect(200)
    assert deliver(node, intent, "succeeded", "k2").expect(200).json["status"] == "succeeded"
    row = seat_row(db, org, event, "A-1")
    assert (row.status, row.user_id) == ("sold", client.user)
    assert {ticket["seat_id"] for ticket in complete(client, checkout).expect(200).json["tickets"]} == {"A-1", "A-2"}
    assert outbox(db, org, event, "payment.failed", "checkout.completed") == ["payment.failed", "checkout.completed"]
    check_audit(event)


def test_in_any_order_the_same_end(node, client, admin, db, org, check_audit):
    """Every order of four deliveries, two of which are repeats: where one says paid, it is sold, once."""
    event = admin.make_event(30)
    deliveries = [("failed", "k1"), ("succeeded", "k2"), ("failed", "k1"), ("succeeded", "k2")]
    for number, order in enumerate(sorted(set(itertools.permutations(deliveries))), 1):
        _, checkout = held_checkout(client, event, f"A-{number}", cart=f"c{number}")
        intent = pending(client, checkout)
        for status, key in order:
            deliver(node, intent, status, key).expect(200)
        assert (stored(db, intent), seat_row(db, org, event, f"A-{number}").status) == ("succeeded", "sold"), order
        assert len(sales_of(db, org, event)[f"A-{number}"]) == 1, order
    check_audit(event)


def test_days_later_a_repeat_changes_nothing(node, db, org, event, payment, check_audit):
    """72 h on, as far as rows can tell, and after the node's restart."""
    _, intent = payment
    deliver(node, intent, "succeeded", "k1").expect(200)
    with db.cursor() as cursor:
        cursor.execute("UPDATE payment_deliveries SET received_at = received_at - interval '72 hours' WHERE intent_id = %s", (intent,))
        cursor.execute("UPDATE payment_intents SET created_at = created_at - interval '72 hours', settled_at = settled_at - "
                       "interval '72 hours' WHERE intent_id = %s", (intent,))
    node.restart()
    for status, key in (("succeeded", "k1"), ("failed", "k1"), ("failed", "k9"), ("succeeded", "k9")):
        assert deliver(node, intent, status, key).expect(200).json["status"] == "succeeded"
    assert {seat: len(sales) for seat, sales in sales_of(db, org, event).items()} == {"A-1": 1, "A-2": 1}
    assert outbox(db, org, event, "checkout.completed", "payment.failed") == ["checkout.completed"]
    check_audit(event)


def test_what_is_older_is_forgotten(db, payment):
    """By the statement that upkeep runs: what is done and old goes, what is young or still to be tried stays."""
    _, intent = payment
    with db.cursor() as cursor:
        cursor.execute("BEGIN")  # or the node's own upkeep could be first
        for key, state, hours in (("old", "done", 200), ("young", "done", 72), ("dead", "dead", 200), ("due", "retry", 200)):
            cursor.execute("INSERT INTO payment_deliveries (intent_id, provider_key, status, state, next_at, received_at) VALUES "
                           "(%s, %s, 'failed', %s, now() + interval '1 hour', now() - %s * interval '1 hour')",
                           (intent, key, state, hours))
        cursor.execute("PREPARE purge (int8, int4) AS " + statement("purge_payment_deliveries"))
        cursor.execute("EXECUTE purge (%s, 100)", (168 * 3600 * 10**6,))
        assert cursor.fetchone()[0] >= 2
        cursor.execute("DEALLOCATE purge")
        cursor.execute("COMMIT")
    assert {key for key, _ in deliveries_of(db, intent)} == {"young", "due"}


def statement(name):
    return (servers.CLONE / f"db/statements/{name}.sql").read_text()


# --- late ----------------------------------------------------------------------------------------------------


def test_late_and_the_seats_are_free(node, client, admin, db, org, check_audit):
    event, checkout, intent = late_payment(client, admin, db, "A-1", "A-2")
    assert deliver(node, intent, "succeeded", "k1").expect(200).json["status"] == "succeeded"
    assert {seat_row(db, org, event, seat).status for seat in ("A-1", "A-2")} == {"sold"}
    assert {seat_row(db, org, event, seat).user_id for seat in ("A-1", "A-2")} == {client.user}
    assert {seat: len(tickets) for seat, tickets in tickets_of(db, org, event).items()} == {"A-1": 1, "A-2": 1}
    assert {ticket["seat_id"] for ticket in complete(client, checkout).expect(200).json["tickets"]} == {"A-1", "A-2"}
    check_audit(event)


@pytest.mark.parametrize("sold", [True, False])
def test_late_and_a_seat_is_anothers(node, client, other, admin, db, org, check_audit, sold):
    """One of two is enough: nothing is sold, nothing is held, and the money goes back."""
    event, checkout, intent = late_payment(client, admin, db, "A-1", "A-2")
    hold = other.held(event, "A-2")
    if sold:
        other.confirm(hold["hold_id"]).expect(200)
    before = seat_row(db, org, event, "A-2")
    for key in ("k1", "k1", "k2"):
        assert deliver(node, intent, "succeeded", key).expect(200).json["status"] == "refund_required"
    assert (seat_row(db, org, event, "A-2"), seat_row(db, org, event, "A-1").status) == (before, "available")
    assert outbox(db, org, event, "payment.refund_required") == ["payment.refund_required"]
    assert query(db, "SELECT count(*) FROM audit_log WHERE org_id = %s AND event_id = %s AND action = 'refund_required'",
                 org, event) == [(1,)]
    shown = client.get(f"/api/checkouts/{checkout['checkout_id']}").expect(200).json
    assert (shown["status"], shown["payment_status"]) == ("failed", "refund_required")
    check_audit(event)


def test_in_time_at_an_event_that_was_cancelled(node, admin, db, org, event, payment, check_audit):
    _, intent = payment
    admin.set_event(event, status="cancelled")
    assert deliver(node, intent, "succeeded", "k1").expect(200).json["status"] == "refund_required"
    assert seat_row(db, org, event, "A-1").status == "available"
    check_audit(event)


# --- what goes wrong on our side -----------------------------------------------------------------------------


class Failing:
    """While it lasts, no checkout of this organization can be changed: our processing fails."""

    def __init__(self, db, org):
        self.db, self.name = db, f"fail_{org.replace('-', '_')}"
        self.org = org

    def __enter__(self):
        self._run(f"CREATE FUNCTION {self.name}() RETURNS trigger LANGUAGE plpgsql AS "
                  "$$ BEGIN RAISE EXCEPTION 'a test says no'; END $$")
        self._run(f"CREATE TRIGGER {self.name} BEFORE UPDATE ON checkouts FOR EACH ROW WHEN (NEW.org_id = '{self.org}') "
                  f"EXECUTE FUNCTION {self.name}()")
        return self

    def __exit__(self, *_):
        self._run(f"DROP FUNCTION {self.name}() CASCADE")

    def _run(self, text):
        with self.db.cursor() as cursor:
            cursor.execute(text)


LETTERS = "/api/admin/payments/dead-letters"


def letters(admin, **query):
    return admin.get(f"{LETTERS}?{urllib.parse.urlencode(query)}").expect(200).json


def replay(admin, intent, key):
    return admin.post(f"{LETTERS}/{intent}/{urllib.parse.quote(key, safe='')}/replay")


def test_a_failure_is_kept_and_tried_again(node, client, db, org, event, payment, check_audit):
    _, intent = payment
    with Failing(db, org):
        answer = deliver(node, intent, "succeeded", "k1").expect(200)
        assert answer.json == {"intentId": intent, "status": "pending"}
        assert deliveries_of(db, intent) == {("k1", "succeeded"): "retry"}
    wait_until(lambda: stored(db, intent) == "succeeded", timeout=15)
    assert deliveries_of(db, intent) == {("k1", "succeeded"): "done"}
    assert outbox(db, org, event, "checkout.completed") == ["checkout.completed"]
    check_audit(event)


def test_what_was_kept_may_come_again_meanwhile(start_node, db, org, event, payment):
    """The provider needn't wait for our pause."""
    _, intent = payment
    node = start_node(webhook_secret=WEBHOOK_SECRET, payment_retry="1h")
    with Failing(db, org):
        deliver(node, intent, "succeeded", "k1").expect(200)
    assert deliver(node, intent, "succeeded", "k1").expect(200).json["status"] == "succeeded"
    assert deliveries_of(db, intent) == {("k1", "succeeded"): "done"}
    assert outbox(db, org, event, "checkout.completed") == ["checkout.completed"]


def test_after_five_tries_it_is_a_dead_letter_until_an_admin_replays_it(node, client, admin, db, org, event, payment, check_audit):
    checkout, intent = payment
    key = "evt/1 of 2"
    with Failing(db, org):
        deliver(node, intent, "succeeded", key).expect(200)
        wait_until(lambda: deliveries_of(db, intent) == {(key, "succeeded"): "dead"}, timeout=40)
        [letter] = letters(admin)["dead_letters"]
        assert {name: letter[name] for name in ("intent_id", "provider_key", "status", "intent_status", "event_id", "purpose",
                                                "subject_id", "attempts")} == {
            "intent_id": intent, "provider_key": key, "status": "succeeded", "intent_status": "pending", "event_id": event,
            "purpose": "checkout", "subject_id": checkout["checkout_id"], "attempts": 5}
        assert "internal" in letter["error"] and letter["received_at"]
        check_problem(replay(admin, intent, key), "internal")
    answer = replay(admin, intent, key).expect(200)
    assert answer.json == {"intent_id": intent, "provider_key": key, "intent_status": "succeeded"}
    assert replay(admin, intent, key).expect(200).json == answer.json
    assert letters(admin)["dead_letters"] == []
    assert outbox(db, org, event, "checkout.completed") == ["checkout.completed"]
    assert len(tickets_of(db, org, event)["A-1"]) == 1
    check_audit(event)


def bury(db, intent, keys):
    with db.cursor() as cursor:
        for key in keys:
            cursor.execute("INSERT INTO payment_deliveries (intent_id, provider_key, status, state, attempts, error) "
                           "VALUES (%s, %s, 'failed', 'dead', 5, 'x')", (intent, key))


def test_dead_letters_come_in_pages(admin, db, payment):
    _, intent = payment
    keys = [f"key.{n}" for n in range(7)]
    bury(db, intent, keys)
    seen, page = [], letters(admin, limit=3)
    while True:
        assert len(page["dead_letters"]) <= 3
        seen += [letter["provider_key"] for letter in page["dead_letters"]]
        if "next" not in page:
            break
        page = letters(admin, limit=3, after=page["next"])
    assert seen == keys
    for after in ("x", "1.2", f"1.{intent}", f"x.{intent}.failed.k", "9" * 30 + f".{intent}.failed.k", "1.no-uuid.failed.k",
                  f"1.{intent}.failed.", f"1.{intent}.failed.%00", f"1.{intent}.failed.%FF", f"1.{intent}.f%C3.k",
                  f"1.{intent}.failed.%7F", f"1.{intent}.failed." + 256 * "k"):
        assert fields_of(check_problem(admin.get(f"{LETTERS}?after={after}"), "invalid_field")) == {"after"}


def test_dead_letters_are_an_admins_and_an_organizations(client, admin, node, db, payment):
    _, intent = payment
    bury(db, intent, ["k1"])
    stranger = Client(node, f"org-{uuid.uuid4().hex[:8]}", "admin-2", "admin")
    check_problem(client.get(LETTERS), "forbidden")
    check_problem(replay(client, intent, "k1"), "forbidden")
    assert letters(stranger)["dead_letters"] == []
    check_problem(replay(stranger, intent, "k1"), "not_found")
    check_problem(replay(admin, intent, "k2"), "not_found")
    for key in (b"\x00", b"\xff", b"\xc3", b"k\n", b"\xed\xa0\x80", 256 * b"k"):
        check_problem(replay(admin, intent, key), "not_found")
    check_problem(replay(admin, "no-uuid", "k1"), "intent_not_found")
    assert deliveries_of(db, intent) == {("k1", "failed"): "dead"}
    assert replay(admin, intent, "k1").expect(200).json["intent_status"] == "failed"


def test_while_the_store_is_away_the_provider_shall_come_again(start_node, client, db, org, event, payment, proxied, database_url):
    _, intent = payment
    proxy, url = proxied(database_url)
    node = start_node(database_url=url, webhook_secret=WEBHOOK_SECRET, request_timeout="1s")
    proxy.refuse()
    proxy.cut()
    answer = deliver(node, intent, "succeeded", "k1")
    check_problem(answer, answer.code)
    assert answer.status == 503
    proxy.allow()
    wait_until(lambda: deliver(node, intent, "succeeded", "k1").status == 200, timeout=15)
    assert stored(db, intent) == "succeeded"
    assert outbox(db, org, event, "checkout.completed") == ["checkout.completed"]


def test_a_storm_of_deliveries_in_random_order(node, client, admin, db, org, check_audit):
    """Many payments, each told several times in an order of chance, from several threads."""
    event = admin.make_event(20)
    intents = {}
    for number in range(1, 21):
        _, checkout = held_checkout(client, event, f"A-{number}", cart=f"c{number}")
        intents[pending(client, checkout)] = f"A-{number}"
    chance = random.Random(5)
    verdicts = {intent: chance.choice(["succeeded", "failed"]) for intent in intents}
    told = [(intent, verdicts[intent], f"k{n}") for intent in intents for n in (1, 1, 2)]
    chance.shuffle(told)
    answers = at_once(6, lambda i: [deliver(node, *each) for each in told[i::6]])
    assert {answer.status for part in answers for answer in part} == {200}
    for intent, seat in intents.items():
        assert stored(db, intent) == verdicts[intent]
        assert seat_row(db, org, event, seat).status == ("sold" if verdicts[intent] == "succeeded" else "available")
    assert len(outbox(db, org, event, "checkout.completed")) == list(verdicts.values()).count("succeeded")
    check_audit(event)
