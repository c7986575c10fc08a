"""A surcharge is decided once: by a hundred deliveries on two nodes, beside a bag that is weighed again, around lost
COMMITs and processing that fails. Each race is held still by a row that somebody else has locked.
"""

import random

import pytest

from support.bystander import await_waiting, holding, trigger
from support.cabin import make_flight
from support.checkins import audit_of, checked_in, intents_of, row_of, told_of, weigh, weighed
from support.checkouts import WEBHOOK_SECRET, deliver, deliveries_of, intent_status, webhook_shot
from support.swarm import Wire, ask, drive, shot
from support.tables import query
from support.waiting import wait_until

NODE_SETTINGS = {"webhook_secret": WEBHOOK_SECRET, "request_timeout": "20s", "payment_retry": "50ms"}
DELIVERIES = 100
LOCK_CHECKIN = "SELECT FROM checkins WHERE checkin_id = %s FOR UPDATE"


@pytest.fixture
def nodes(node, start_node):
    return node, start_node(**NODE_SETTINGS)


@pytest.fixture
def checkin(admin):
    return checked_in(admin, make_flight(admin), "ABC123")


@pytest.fixture
def passenger(admin, checkin):
    return admin.as_user("ABC123")


def bag_shot(client, checkin, kg):
    return shot(client, "POST", f"/checkins/{checkin['checkinId']}/baggage", {"weightKg": kg})


def held_still(database_url, db, checkin, shots, waiting):
    """All are sent while the check-in's row is locked, so that they meet; their answers. Connected before: a node waits
    two seconds or so for a row, then it refuses."""
    wires = [Wire(a_shot.node) for a_shot in shots]
    with holding(database_url, LOCK_CHECKIN, (checkin["checkinId"],)) as bystander:
        for wire, a_shot in zip(wires, shots):
            wire.send(a_shot.data)
        await_waiting(db, waiting)
        bystander.release()
    return [wire.answer(timeout=60) for wire in wires]


def assert_consistent(db, checkin):
    """At most one payment is paid for; the check-in is as that says; the world heard each end once."""
    row, statuses = row_of(db, checkin), intents_of(db, checkin)
    paid = [intent for intent, status in statuses.items() if status == "succeeded"]
    pending = [intent for intent, status in statuses.items() if status == "pending"]
    assert len(paid) <= 1 and len(pending) <= 1, statuses
    if paid:
        assert (row.state, row.intent, pending) == ("COMPLETED", paid[0], [])
    assert (row.state == "WAITING_FOR_PAYMENT") == bool(pending), (row, statuses)
    if pending:
        assert row.intent == pending[0]
    assert told_of(db, checkin).count("checkin.completed") == (row.state == "COMPLETED")
    assert told_of(db, checkin).count("payment.refund_required") == list(statuses.values()).count("refund_required")
    assert audit_of(db, checkin).count("baggage_paid") == len(paid)
    return row


@pytest.mark.parametrize("failed_every", [0, 7, 2], ids=["all succeeded", "a seventh failed", "half failed"])
def test_a_hundred_deliveries_at_once_are_one_transition(failed_every, nodes, passenger, checkin, db, database_url):
    intent = weighed(passenger, checkin, 32)["paymentIntentId"]
    shots = []
    for n in range(DELIVERIES):
        status = "failed" if failed_every and n % failed_every == 0 else "succeeded"
        shots.append(webhook_shot(nodes[n % 2], intent, status, f"{status}-{n % 10}"))
    random.shuffle(shots)
    answers = held_still(database_url, db, checkin, shots, 2)
    for answer in answers:
        told = answer.expect(200).json
        assert told["intentId"] == intent and told["status"] in (("succeeded", "failed") if failed_every else ("succeeded",))
    assert assert_consistent(db, checkin).state == "COMPLETED"
    assert intents_of(db, checkin) == {intent: "succeeded"}
    assert set(deliveries_of(db, intent).values()) == {"done"}


def test_failed_a_hundred_times_goes_on_once(nodes, passenger, checkin, db, database_url):
    intent = weighed(passenger, checkin, 32)["paymentIntentId"]
    shots = [webhook_shot(nodes[n % 2], intent, "failed", f"key-{n % 10}") for n in range(DELIVERIES)]
    for answer in held_still(database_url, db, checkin, shots, 2):
        assert answer.expect(200).json["status"] == "failed"
    assert assert_consistent(db, checkin).state == "IN_PROGRESS"
    assert audit_of(db, checkin).count("baggage_not_paid") == told_of(db, checkin).count("payment.failed") == 1


@pytest.mark.parametrize("status", ["succeeded", "failed"])
@pytest.mark.parametrize("kg", [20, 40], ids=["light", "heavy"])
@pytest.mark.parametrize("turn", range(4))
def test_a_bag_weighed_again_beside_its_webhook(turn, kg, status, nodes, passenger, checkin, db, database_url):
    """Whichever comes first: never a payment that counts for nothing and isn't refunded, never a state that none explains."""
    intent = weighed(passenger, checkin, 32)["paymentIntentId"]
    shots = [webhook_shot(nodes[0], intent, status, "key-1"), bag_shot(passenger.at(nodes[1]), checkin, kg)]
    if turn % 2:
        shots.reverse()
    answers = held_still(database_url, db, checkin, shots, 2)
    assert {answer.status for answer in answers} == {200}
    row, statuses = assert_consistent(db, checkin), intents_of(db, checkin)
    if status == "succeeded":
        assert statuses[intent] in ("succeeded", "refund_required")
        assert row.state == "COMPLETED"
    else:
        assert statuses[intent] in ("failed", "void")
        assert row.state == ("COMPLETED" if kg == 20 else "WAITING_FOR_PAYMENT")


def test_twenty_bags_at_once_leave_one_payment(nodes, passenger, checkin, db, database_url):
    clients = [passenger.at(node) for node in nodes]
    def all_at_once():
        return (yield [bag_shot(clients[n % 2], checkin, 30 + n) for n in range(20)])
    answers = drive([all_at_once()], timeout=60)[0]
    assert {answer.status for answer in answers} <= {200, 503}
    row = assert_consistent(db, checkin)
    done = [answer.json["paymentIntentId"] for answer in answers if answer.status == 200]
    assert row.intent in done and len(set(done)) == len(done)
    statuses = intents_of(db, checkin)
    assert sorted(statuses) == sorted(done)
    assert [status for status in statuses.values() if status != "void"] == ["pending"]


def test_two_payments_paid_at_once_count_once(nodes, passenger, checkin, db, database_url):
    first = weighed(passenger, checkin, 32)["paymentIntentId"]
    second = weighed(passenger, checkin, 33)["paymentIntentId"]
    shots = [webhook_shot(nodes[n % 2], (first, second)[n // 2 % 2], "succeeded", f"key-{n % 5}") for n in range(40)]
    for answer in held_still(database_url, db, checkin, shots, 2):
        answer.expect(200)
    assert sorted(intents_of(db, checkin).values()) == ["refund_required", "succeeded"]
    assert assert_consistent(db, checkin).state == "COMPLETED"


def test_random_histories_are_consistent(node, admin, db):
    """Bags and deliveries in any order, also of payments that were replaced long ago."""
    for _ in range(12):
        checkin = checked_in(admin, make_flight(admin, rows=1), "ABC123")
        for turn in range(random.randrange(3, 10)):
            intents = list(intents_of(db, checkin))
            if not intents or random.random() < 0.4:
                answer = weigh(admin, checkin, random.choice([20, 26, 32]))
                assert answer.status in (200, 409)
            else:
                deliver(node, random.choice(intents), random.choice(["succeeded", "failed"]), f"key-{turn}").expect(200)
            assert_consistent(db, checkin)


def test_processing_that_fails_is_tried_again(node, passenger, checkin, db):
    intent = weighed(passenger, checkin, 32)["paymentIntentId"]
    with trigger(db, "no_settling", "checkins", "BEFORE UPDATE", "RAISE EXCEPTION 'not now';"):
        assert deliver(node, intent, "succeeded", "key-1").expect(200).json["status"] == "pending"
        assert intents_of(db, checkin) == {intent: "pending"}
    wait_until(lambda: intent_status(db, intent) == "succeeded", 30, what="it is tried again")
    assert assert_consistent(db, checkin).state == "COMPLETED"


def test_a_dead_letter_is_replayed(node, admin, passenger, checkin, db):
    intent = weighed(passenger, checkin, 32)["paymentIntentId"]
    with trigger(db, "no_settling", "checkins", "BEFORE UPDATE", "RAISE EXCEPTION 'not now';"):
        deliver(node, intent, "succeeded", "key-1").expect(200)
        wait_until(lambda: deliveries_of(db, intent) == {("key-1", "succeeded"): "dead"}, 60, what="it is a dead letter")
        [letter] = admin.get("/api/admin/payments/dead-letters").expect(200).json["dead_letters"]
        assert (letter["purpose"], letter["subject_id"]) == ("baggage", checkin["checkinId"])
    answer = admin.post(f"/api/admin/payments/dead-letters/{intent}/key-1/replay").expect(200).json
    assert answer["intent_status"] == "succeeded"
    assert assert_consistent(db, checkin).state == "COMPLETED"


def test_a_killed_node_loses_no_delivery(nodes, start_node, passenger, checkin, db, database_url):
    """Deliveries to a node that dies with them are sent again to another."""
    doomed = start_node(**NODE_SETTINGS)
    intent = weighed(passenger, checkin, 32)["paymentIntentId"]
    with holding(database_url, LOCK_CHECKIN, (checkin["checkinId"],)) as bystander:
        wires = [ask(webhook_shot(doomed, intent, "succeeded", f"key-{n}")) for n in range(5)]
        await_waiting(db, 1)
        doomed.kill()
        bystander.release()
    for wire in wires:
        with pytest.raises(OSError):
            wire.answer(timeout=30)
    for n in range(5):
        deliver(nodes[1], intent, "succeeded", f"key-{n}").expect(200)
    assert assert_consistent(db, checkin).state == "COMPLETED"


def test_upkeep_asks_nobody_about_a_bag(start_node, passenger, checkin, db, node):
    """An intent of a bag has no time after which it would be asked about, and verify doesn't stumble over it."""
    intent = weighed(passenger, checkin, 32)["paymentIntentId"]
    [row] = query(db, "SELECT ask_at, asked FROM payment_intents WHERE intent_id = %s", intent)
    assert row.ask_at is None and row.asked == 0
    done = node.command("verify")
    assert done.returncode == 0, done.stdout + done.stderr
