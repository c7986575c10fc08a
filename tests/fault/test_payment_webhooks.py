"""A payment is decided once: by a hundred deliveries on two nodes, late, in any order, around lost COMMITs and without
stores. Whatever was answered stands, tickets are made once, and the world is told once.
"""

import concurrent.futures
import itertools
import json
import random
import statistics
import time

import pytest

from support.bystander import all_rows, await_waiting, holding, one_value
from support.checkouts import (
    WEBHOOK_SECRET, await_intent, cancel, cancel_shot, checkout_row, complete, complete_shot, deliver, deliveries_of,
    held_checkout, in_payment, intent_status, intents_of, outbox, pending, release, sales_of, start, start_shot, started,
    tickets_of, webhook_shot)
from support.client import Client
from support.house import LONG, House
from support.sse import EventStream
from support.swarm import Wire, ask, drive, hold_shot, pause
from support.tables import seat_locked
from support.truth import seats_of
from support.waiting import wait_until

NODE_SETTINGS = {"webhook_secret": WEBHOOK_SECRET, "request_timeout": "20s"}
DELIVERIES = 100
KILLS = 20 if LONG else 2
POLICY = {"hold_ttl": 300, "extend_by": 300, "max_hold": 3600}


@pytest.fixture
def nodes(node, start_node):
    return node, start_node(**NODE_SETTINGS)


@pytest.fixture
def house_event(admin):
    """An event of three seats whose policies leave time for everything."""
    return admin.make_event(3, policy=POLICY)


def assert_sold_once(db, org, event, checkout, user, seats=("A-1", "A-2")):
    """One payment succeeded, each seat was sold once, with one ticket, and the world is told once."""
    [intent] = intents_of(db, checkout)
    assert intent.status == "succeeded"
    assert checkout_row(db, checkout).status == "completed"
    table, sales, tickets = seats_of(db, org, event), sales_of(db, org, event), tickets_of(db, org, event)
    for seat_id in seats:
        status, hold, buyer = table[seat_id]
        assert (status, buyer) == ("sold", user)
        assert [sale[:2] for sale in sales[seat_id]] == [(hold, user)]
        assert len(tickets[seat_id]) == 1
    assert outbox(db, org, event, "checkout.completed", "payment.refund_required") == ["checkout.completed"]
    assert not in_payment(db, org, event)


def assert_refund(db, org, event, checkout, user, others):
    """Nothing of it was sold to the payer; `others`: how the seats stand."""
    [intent] = intents_of(db, checkout)
    assert intent.status == "refund_required"
    assert {seat_id: row[::2] for seat_id, row in seats_of(db, org, event).items()} == others
    assert all(user != sale[1] for sales in sales_of(db, org, event).values() for sale in sales)
    assert outbox(db, org, event, "checkout.completed", "payment.refund_required") == ["payment.refund_required"]
    assert not in_payment(db, org, event)


def answer_of(wire):
    """None where the connection ended without one."""
    try:
        return wire.answer(timeout=30)
    except OSError:
        return None


# --- a hundred deliveries ------------------------------------------------------------------------------------------


def deliveries(nodes, intent_id, failed_every=0):
    """A hundred, from ten keys each, shuffled; of every so many one says that it failed."""
    shots = []
    for n in range(DELIVERIES):
        status = "failed" if failed_every and n % failed_every == 0 else "succeeded"
        shots.append(webhook_shot(nodes[n % len(nodes)], intent_id, status, f"{status}-{n % 10}"))
    random.shuffle(shots)
    return shots


def fire_held_still(database_url, db, intent_id, shots, waiting, meanwhile=lambda: None):
    """All are sent while the intent's row is locked by somebody else, so that they meet; their answers.

    Connected before: the first ones don't wait long for the last."""
    wires = [Wire(a_shot.node) for a_shot in shots]
    with holding(database_url, "SELECT FROM payment_intents WHERE intent_id = %s FOR UPDATE", (intent_id,)) as bystander:
        for wire, a_shot in zip(wires, shots):
            wire.send(a_shot.data)
        await_waiting(db, waiting)
        bystander.release()
        meanwhile()
    return [answer_of(wire) for wire in wires]


@pytest.mark.parametrize("failed_every", [0, 7, 2], ids=["all succeeded", "a seventh failed", "half failed"])
def test_a_hundred_deliveries_at_once_are_one_transition(
        failed_every, nodes, client, house_event, db, org, database_url, prove):
    event = house_event
    _, checkout = held_checkout(client, event, "A-1", "A-2")
    intent_id = pending(client, checkout)
    shots = deliveries(nodes, intent_id, failed_every)
    answers = fire_held_still(database_url, db, intent_id, shots, 2)
    for answer in answers:
        told = answer.expect(200).json
        assert told["intentId"] == intent_id and told["status"] in ("succeeded", "failed")
        assert told["status"] == "succeeded" or failed_every
    assert_sold_once(db, org, event, checkout, client.user)
    assert set(deliveries_of(db, intent_id).values()) == {"done"}
    again = drive([everything_again(shots)], timeout=60)[0]
    assert {answer.expect(200).json["status"] for answer in again} == {"succeeded"}, "failed never undoes succeeded"
    assert_sold_once(db, org, event, checkout, client.user)
    complete(client, checkout).expect(200)
    prove(event)


def everything_again(shots):
    answers = yield shots
    return answers


@pytest.mark.parametrize("turn", range(KILLS))
def test_a_node_killed_amid_a_hundred_deliveries_that_are_all_repeated(
        turn, node, start_node, client, house_event, db, org, database_url, prove):
    event, doomed = house_event, start_node(**NODE_SETTINGS)
    _, checkout = held_checkout(client, event, "A-1", "A-2")
    intent_id = pending(client, checkout)
    shots = deliveries((node, doomed), intent_id, failed_every=turn % 2 * 5)

    def kill():
        time.sleep(turn % 5 * 0.004)
        doomed.kill()

    first = fire_held_still(database_url, db, intent_id, shots, 2, kill)
    assert all(answer.status in (200, 503) for answer in first if answer), first
    told = {answer.json["status"] for answer in first if answer and answer.status == 200}
    doomed.start()
    again = [webhook_shot(node if turn % 2 else doomed, intent_id, status, key)
             for key, status in {(key, status): 0 for key, status in keys_of(shots)}]
    answers = drive([everything_again(again)], timeout=60)[0]
    assert {answer.expect(200).json["status"] for answer in answers} == {"succeeded"}
    assert told <= {"succeeded", "failed"}
    assert_sold_once(db, org, event, checkout, client.user)
    assert set(deliveries_of(db, intent_id)) == set(keys_of(shots))
    prove(event)


def keys_of(shots):
    """(key, status) of each delivery."""
    bodies = [json.loads(a_shot.data.partition(b"\r\n\r\n")[2]) for a_shot in shots]
    return [(body["providerIdempotencyKey"], body["status"]) for body in bodies]


@pytest.mark.parametrize("order", [("failed", "succeeded"), ("succeeded", "failed")])
def test_failed_and_succeeded_that_meet_at_the_hold(order, nodes, client, house_event, db, org, database_url, prove):
    """The first stands before the hold's row when the second comes, at another node."""
    event = house_event
    hold, checkout = held_checkout(client, event, "A-1", "A-2")
    intent_id = pending(client, checkout)
    with holding(database_url, "SELECT FROM seat_holds WHERE hold_id = %s FOR UPDATE", (hold["hold_id"],)) as bystander:
        first = ask(webhook_shot(nodes[0], intent_id, order[0], "key-1"))
        await_waiting(db, 1)
        second = ask(webhook_shot(nodes[1], intent_id, order[1], "key-2"))
        await_waiting(db, 2)
        assert first.silent() and second.silent()
        bystander.release()
    answers = [answer_of(wire).expect(200).json["status"] for wire in (first, second)]
    assert answers[order.index("succeeded")] == "succeeded"
    assert_sold_once(db, org, event, checkout, client.user)
    prove(event)


def test_a_delivery_before_the_provider_has_answered_the_charge(client, house_event, db, org, prove):
    """The webhook overtakes the answer of the charge; the answer to `complete` is what stands."""
    event = house_event
    _, checkout = held_checkout(client, event, "A-1", "A-2")
    wire = ask(complete_shot(client, checkout, "tok_slow"))
    wait_until(lambda: in_payment(db, org, event) == {"A-1", "A-2"}, what="it is in payment")
    [intent] = intents_of(db, checkout)
    assert deliver(client.node, intent.intent_id, "succeeded", "key-1").expect(200).json["status"] == "succeeded"
    assert_sold_once(db, org, event, checkout, client.user)
    told = wire.answer().expect(200).json
    assert sorted(ticket["seat_id"] for ticket in told["tickets"]) == ["A-1", "A-2"]
    assert_sold_once(db, org, event, checkout, client.user)
    prove(event)


def test_failed_before_a_charge_that_then_succeeds_is_a_late_success(client, house_event, db, org, prove):
    event = house_event
    hold, checkout = held_checkout(client, event, "A-1", "A-2")
    wire = ask(complete_shot(client, checkout, "tok_slow"))
    wait_until(lambda: in_payment(db, org, event) == {"A-1", "A-2"}, what="it is in payment")
    [intent] = intents_of(db, checkout)
    assert deliver(client.node, intent.intent_id, "failed", "key-1").expect(200).json["status"] == "failed"
    assert seats_of(db, org, event)["A-1"][0] == "available"
    wire.answer().expect(200)
    assert_sold_once(db, org, event, checkout, client.user)
    assert seats_of(db, org, event)["A-1"][1] != hold["hold_id"], "a new hold of the same user"
    prove(event)


def test_deliveries_survive_a_restart_of_every_node(start_node, client, house_event, db, org, prove):
    event, second = house_event, start_node(**NODE_SETTINGS)
    user = client.at(second)
    _, checkout = held_checkout(user, event, "A-1", "A-2")
    intent_id = pending(user, checkout)
    second.restart()
    for _ in range(2):
        deliver(second, intent_id, "succeeded", "key-1").expect(200)
        second.restart()
    assert_sold_once(db, org, event, checkout, client.user)
    prove(event)


# --- what a payment keeps from happening ---------------------------------------------------------------------------


def test_a_hold_in_payment_is_left_alone_by_everybody(nodes, client, other, admin, db, org, prove):
    """Also past its end, and on every node."""
    event = admin.make_event(4, policy={"hold_ttl": 4, "extend_by": 1, "max_hold": 5})
    hold, checkout = held_checkout(client, event, "A-1", "A-2")
    intent_id, path = pending(client, checkout), f"/api/holds/{hold['hold_id']}"
    wait_until(lambda: one_value(db, "SELECT bool_and(held_until < clock_timestamp() - interval '0.3 s') FROM seats "
                                 "WHERE hold_id = %s", (hold["hold_id"],)), timeout=20, what="its time is over")
    for node in nodes:
        mine = client.at(node)
        for answer in (mine.post(f"{path}/extend"), mine.delete(path), mine.delete(f"{path}/seats/A-1"),
                       mine.patch(path, {"add_seat_ids": ["A-3"]}), mine.post(f"{path}/confirm"),
                       mine.post(f"{path}/transfer", {"to_user_id": "heir"}), cancel(mine, checkout),
                       start(mine, event, [hold["hold_id"]])):
            answer.expect(409, "payment_in_flight")
        other.at(node).hold(event, "A-2", "A-3").expect(409, "seat_taken")
        released = release(admin.at(node), hold_ids=[hold["hold_id"]]).expect(200).json
        assert released["seats_released"] == 0 and [s["hold_id"] for s in released["skipped"]] == [hold["hold_id"]]
        assert mine.seat(event, "A-1").expect(200).json["status"] == "held"
        again = complete(mine, checkout).expect(202).json
        assert again["payment_intent_id"] == intent_id
    deliver(nodes[1], intent_id, "succeeded", "key").expect(200)
    assert_sold_once(db, org, event, checkout, client.user)
    prove(event)


def test_a_provider_that_fails_leaves_everything_as_it_was(client, house_event, db, org, prove):
    hold, checkout = held_checkout(client, house_event, "A-1", "A-2")
    complete(client, checkout, "tok_error").expect(503, "payment_unavailable")
    assert checkout_row(db, checkout).status == "open" and not in_payment(db, org, house_event)
    told = client.get_hold(hold["hold_id"]).expect(200).json
    assert (told["status"], told["expires_at"]) == ("active", checkout["holds"][0]["expires_at"])
    client.extend(hold["hold_id"]).expect(200)
    complete(client, checkout).expect(200)
    assert [intent.status for intent in intents_of(db, checkout)] == ["void", "succeeded"]
    assert {row[0] for row in seats_of(db, org, house_event).values()} == {"sold", "available"}
    prove(house_event)


def test_what_meets_holds_that_were_repaired_by_hand_is_kept_until_they_are_again(client, house_event, db, org, prove):
    _, checkout = held_checkout(client, house_event, "A-1", "A-2")
    intent_id = pending(client, checkout)
    mark(db, org, house_event, False)
    deliver(client.node, intent_id, "succeeded", "evt").expect(200)
    assert deliveries_of(db, intent_id) == {("evt", "succeeded"): "retry"}
    mark(db, org, house_event, True)
    assert deliver(client.node, intent_id, "succeeded", "evt").expect(200).json["status"] == "succeeded"
    assert_sold_once(db, org, house_event, checkout, client.user)
    prove(house_event)


def mark(db, org, event, in_payment):
    with db.cursor() as cursor:
        for table, status in (("seats", "held"), ("seat_holds", "active")):
            cursor.execute(f"UPDATE {table} SET in_payment = %s WHERE org_id = %s AND event_id = %s AND status = %s",
                           (in_payment, org, event, status))


# --- a success that comes late -------------------------------------------------------------------------------------


def failed_checkout(client, event, db, *seats):
    """A payment that the provider has called failed: the seats are free again. (checkout, intent's id)"""
    _, checkout = held_checkout(client, event, *seats)
    intent_id = pending(client, checkout)
    assert deliver(client.node, intent_id, "failed", "first").expect(200).json["status"] == "failed"
    assert checkout_row(db, checkout).status == "failed"
    return checkout, intent_id


def succeed_late(node, intent_id):
    """Twice: the second delivery repeats the first."""
    answers = [deliver(node, intent_id, "succeeded", "late").expect(200).json for _ in range(2)]
    assert answers[0] == answers[1]
    return answers[0]["status"]


def test_late_with_the_seats_free(client, house_event, db, org, prove):
    checkout, intent_id = failed_checkout(client, house_event, db, "A-1", "A-2")
    assert succeed_late(client.node, intent_id) == "succeeded"
    assert_sold_once(db, org, house_event, checkout, client.user)
    tickets = complete(client, checkout).expect(200).json["tickets"]
    assert sorted(ticket["seat_id"] for ticket in tickets) == ["A-1", "A-2"]
    prove(house_event)


@pytest.mark.parametrize("how", ["sold", "held"])
def test_late_with_one_of_several_taken_by_another(how, client, other, house_event, db, org, prove):
    checkout, intent_id = failed_checkout(client, house_event, db, "A-1", "A-2")
    theirs = other.held(house_event, "A-2")
    if how == "sold":
        other.confirm(theirs["hold_id"]).expect(200)
    assert succeed_late(client.node, intent_id) == "refund_required"
    assert_refund(db, org, house_event, checkout, client.user, {
        "A-1": ("available", None), "A-2": (how, other.user), "A-3": ("available", None)})
    assert deliver(client.node, intent_id, "failed", "later").expect(200).json["status"] == "refund_required"
    prove(house_event)


def test_late_with_the_seat_held_by_another_whose_time_is_over(
        start_node, client, admin, db, org, prove):
    """Nobody has cleaned up: the late success takes it over as any buyer would."""
    event = admin.make_event(2, policy={"hold_ttl": 3, "extend_by": 300, "max_hold": 3600})
    frozen = start_node(**NODE_SETTINGS, reaper_interval_ms=600_000)
    checkout, intent_id = failed_checkout(client, event, db, "A-1", "A-2")
    theirs = Client(frozen, org, "rival").held(event, "A-2")
    frozen.pause()
    wait_until(lambda: one_value(db, "SELECT bool_and(held_until < clock_timestamp()) FROM seat_holds WHERE hold_id = %s",
                                 (theirs["hold_id"],)), timeout=20, what="its time is over")
    assert succeed_late(client.node, intent_id) == "succeeded"
    frozen.resume()
    assert_sold_once(db, org, event, checkout, client.user)
    prove(event)


def test_late_with_the_seats_held_by_the_payer_himself(client, house_event, db, org, prove):
    """He has tried again: what he paid for is his, not a refund."""
    checkout, intent_id = failed_checkout(client, house_event, db, "A-1", "A-2")
    client.held(house_event, "A-1", "A-2", cart="cart-2")
    assert succeed_late(client.node, intent_id) == "succeeded"
    table = seats_of(db, org, house_event)
    assert {table[seat_id][::2] for seat_id in ("A-1", "A-2")} == {("sold", client.user)}
    prove(house_event)


def test_late_with_the_seats_in_many_newer_holds_of_the_payer(client, admin, db, org, prove):
    event, seats = admin.make_event(12, policy=POLICY), [f"A-{n}" for n in range(1, 13)]
    holds = [client.held(event, seat_id, cart=f"cart-{seat_id}")["hold_id"] for seat_id in seats]
    intent_id = pending(client, started(client, event, holds))
    assert deliver(client.node, intent_id, "failed", "first").expect(200).json["status"] == "failed"
    for seat_id in seats:
        client.held(event, seat_id, cart=f"again-{seat_id}")
    assert succeed_late(client.node, intent_id) == "succeeded"
    assert {row[::2] for row in seats_of(db, org, event).values()} == {("sold", client.user)}
    prove(event)


@pytest.mark.parametrize("policy", [
    {"rehold_cooldown": 60}, {"max_seats_per_user": 2}, {"no_single_seat_gap": True}, {"max_seats_per_hold": 1}])
def test_late_where_a_rule_would_forbid_a_new_hold(policy, client, admin, house_event, db, org, prove):
    """Rules are for who asks for seats; these were paid for, and nobody else has them."""
    checkout, intent_id = failed_checkout(client, house_event, db, "A-1", "A-2")
    if "max_seats_per_user" in policy:
        client.confirm(client.held(house_event, "A-3", cart="cart-2")["hold_id"]).expect(200)
    admin.set_event(house_event, policy=POLICY | policy)
    assert succeed_late(client.node, intent_id) == "succeeded"
    assert_sold_once(db, org, house_event, checkout, client.user)
    prove(house_event)


def test_late_while_a_seat_is_locked_by_another_transaction_waits_for_it(
        client, house_event, db, org, database_url, prove):
    """Locked is not taken: it is sold when the lock goes, or 503 until then, and never a refund."""
    checkout, intent_id = failed_checkout(client, house_event, db, "A-1", "A-2")
    with seat_locked(database_url, org, house_event, "A-2"):
        wire = ask(webhook_shot(client.node, intent_id, "succeeded", "late"))
        time.sleep(1.0)
        assert intent_status(db, intent_id) == "failed"
    answer = answer_of(wire)
    assert answer.status == 503 or answer.expect(200).json["status"] == "succeeded"
    assert succeed_late(client.node, intent_id) == "succeeded"
    assert_sold_once(db, org, house_event, checkout, client.user)
    prove(house_event)


@pytest.mark.parametrize("words", [("failed", "succeeded"), ("succeeded", "failed")])
def test_a_provider_that_gives_both_words_one_key_is_understood(words, client, house_event, db, org, prove):
    """A repeat is the same word under the same key; `succeeded` wins whenever it comes."""
    _, checkout = held_checkout(client, house_event, "A-1", "A-2")
    intent_id = pending(client, checkout)
    told = [deliver(client.node, intent_id, word, "the-payment").expect(200).json["status"] for word in words * 2]
    assert told == [words[0], "succeeded", "succeeded", "succeeded"]
    assert_sold_once(db, org, house_event, checkout, client.user)
    prove(house_event)


def test_late_when_the_event_was_cancelled(client, admin, house_event, db, org, prove):
    checkout, intent_id = failed_checkout(client, house_event, db, "A-1", "A-2")
    admin.set_event(house_event, status="cancelled")
    assert succeed_late(client.node, intent_id) == "refund_required"
    assert_refund(db, org, house_event, checkout, client.user,
                  {f"A-{n}": ("available", None) for n in (1, 2, 3)})
    prove(house_event)


def test_in_time_when_the_event_was_cancelled(client, admin, house_event, db, org, prove):
    _, checkout = held_checkout(client, house_event, "A-1", "A-2")
    intent_id = pending(client, checkout)
    admin.set_event(house_event, status="cancelled")
    assert succeed_late(client.node, intent_id) == "refund_required"
    assert_refund(db, org, house_event, checkout, client.user,
                  {f"A-{n}": ("available", None) for n in (1, 2, 3)})
    prove(house_event)


def test_late_after_payment_timeout(client, admin, db, org, prove):
    event = admin.make_event(3, policy=POLICY | {"payment_timeout": 1})
    _, checkout = held_checkout(client, event, "A-1", "A-2")
    intent_id = pending(client, checkout)
    await_intent(db, intent_id, "expired")
    assert seats_of(db, org, event)["A-1"][0] == "available" and checkout_row(db, checkout).status == "failed"
    assert succeed_late(client.node, intent_id) == "succeeded"
    assert_sold_once(db, org, event, checkout, client.user)
    prove(event)


@pytest.mark.parametrize("free", [2, 1])
def test_late_with_an_area(free, client, other, admin, db, org, prove):
    event = admin.make_event(1, policy=POLICY, areas=[{"area_id": "floor", "name": "Floor", "capacity": 4, "price": 700}])
    hold = client.held(event, "A-1", areas=[{"area_id": "floor", "quantity": 2}])
    checkout = client.post("/api/checkouts", {"event_id": event, "hold_ids": [hold["hold_id"]]}).expect(201).json
    intent_id = pending(client, checkout)
    deliver(client.node, intent_id, "failed", "first").expect(200)
    other.hold(event, areas=[{"area_id": "floor", "quantity": 4 - free}]).expect(201)
    assert succeed_late(client.node, intent_id) == ("succeeded" if free == 2 else "refund_required")
    [(held, sold)] = all_rows(db, "SELECT held, sold FROM areas WHERE org_id = %s AND event_id = %s", (org, event))
    assert (held, sold) == ((2, 2) if free == 2 else (3, 0))
    assert seats_of(db, org, event)["A-1"][0] == ("sold" if free == 2 else "available")
    prove(event)


def test_late_amid_a_take_over_has_one_winner(nodes, admin, db, org, prove):
    """Two rivals ask for one of the seats from before the failure until after the success. So often, and as much more as
    it takes until each side has won."""
    rounds = 400 if LONG else 50
    event = admin.make_event(2 * 10 * rounds, policy=POLICY)
    sold, done = [0], 0

    def payer(number, state):
        user = admin.as_user(f"payer-{number}").at(nodes[number % 2])
        seats = [f"A-{2 * number + 1}", f"A-{2 * number + 2}"]
        answer = yield hold_shot(user, event, *seats)
        hold = answer.expect(201).json
        answer = yield start_shot(user, event, [hold["hold_id"]])
        state["checkout"] = answer.expect(201).json
        answer = yield complete_shot(user, state["checkout"], "tok_pending")
        intent_id = answer.expect(202).json["payment_intent_id"]
        yield [webhook_shot(nodes[0], intent_id, "failed", "1")]
        yield pause(random.uniform(0, 0.004))
        answers = yield [webhook_shot(node, intent_id, "succeeded", f"late-{n}") for n, node in enumerate(nodes)]
        state["told"] = {answer.expect(200).json["status"] for answer in answers}
        sold[0] += state["told"] == {"succeeded"}
        return intent_id

    def rival(number, which, state):
        user = admin.as_user(f"rival-{number}-{which}").at(nodes[which])
        while "checkout" not in state:
            yield pause(0.01)
        while "told" not in state and "won" not in state:
            yield pause(random.uniform(0, 0.04))
            answer = yield hold_shot(user, event, f"A-{2 * number + 1 + which}")
            assert answer.status == 201 or answer.code in ("seat_taken", "seat_sold", "seat_contended"), answer
            if answer.status == 201:
                state["won"] = user.user

    while done < rounds or (done < 10 * rounds and sold[0] in (0, done)):
        batch = range(done, done + 10)
        done += 10
        states = {number: {} for number in batch}
        actors = [payer(number, states[number]) for number in batch]
        actors += [rival(number, which, states[number]) for number in batch for which in (0, 1)]
        intents = drive(actors)[:len(batch)]
        table = seats_of(db, org, event)
        for number, intent_id in zip(batch, intents):
            state, status = states[number], intent_status(db, intent_id)
            owners = {table[f"A-{2 * number + n}"][::2] for n in (1, 2)}
            assert state["told"] == {status}
            if status == "succeeded":
                assert owners == {("sold", f"payer-{number}")} and "won" not in state
            else:
                assert status == "refund_required" and "won" in state, (status, owners)
                assert not any(owner == f"payer-{number}" for _, owner in owners)
    assert 0 < sold[0] < done, f"it was no race: {sold[0]} of {done}"
    prove(event)


# --- a declined payment --------------------------------------------------------------------------------------------


@pytest.mark.alone
def test_a_declined_payment_frees_its_seats_within_100_ms_and_the_stream_says_why(
        nodes, admin, client, other, db, org, prove):
    rounds = 100 if LONG else 30
    event = admin.make_event(2 * rounds, policy=POLICY)
    freed, heard = [], []
    with EventStream(client, event, node=nodes[1]) as stream:
        stream.expect(200)
        for n in range(rounds):
            seats = [f"A-{2 * n + 1}", f"A-{2 * n + 2}"]
            _, checkout = held_checkout(client, event, *seats)
            began = time.time()
            complete(client, checkout, "tok_declined").expect(402, "payment_failed")
            released = [float(at) for at, in all_rows(db, """
                SELECT extract(epoch FROM at) FROM audit_log WHERE org_id = %s AND event_id = %s
                AND seat_id = ANY(%s) AND action = 'seat_released' AND reason = 'payment_failed'""", (org, event, seats))]
            assert len(released) == 2
            freed.append(max(released) - began)
            told = set()
            while told < set(seats):
                said = stream.next(names={"seat_released"})
                assert said.data["reason"] == "payment_failed" and said.data["status"] == "available", said
                told.add(said.data["seat_id"])
            heard.append(time.time() - began)
            other.held(event, *seats, cart=f"cart-{n}")  # at once, at the node that said so
    assert statistics.median(freed) < 0.1, sorted(freed)
    assert statistics.median(heard) < 0.1, sorted(heard)
    print(f"freed after {1000 * statistics.median(freed):.1f} ms, heard of after {1000 * statistics.median(heard):.1f} ms")
    assert outbox(db, org, event, "checkout.completed") == [] and not in_payment(db, org, event)
    prove(event)


# --- COMMITs that are lost -----------------------------------------------------------------------------------------

FATES = ("lose the answer", "lose the request", "keep the request", "keep the answer")


@pytest.fixture
def behind(start_node, proxied, database_url, org):
    """(a user at a node with one worker behind a proxy, the proxy)"""
    proxy, url = proxied(database_url)
    node = start_node(database_url=url, workers=1, **NODE_SETTINGS | {"request_timeout": "5s"})
    return Client(node, org, "user-behind"), proxy


def answer_into(proxy, how, wire):
    """What a client hears whose COMMIT meets that fate."""
    assert proxy.ambushed.wait(10), "no COMMIT came by"
    if how == "keep the request":
        # The node makes sure that the transaction never will be, or says that it doesn't know.
        wait_until(lambda: not wire.silent(), timeout=20, what="it is answered")
    if how in ("keep the request", "keep the answer"):
        time.sleep(0.7 if how == "keep the answer" else 0)
        proxy.deliver()
    return answer_of(wire)


def assert_told_truth(answer, *fine):
    """Done, or one of the two ways not to know or not to have done it."""
    assert answer.status in fine or (answer.status, answer.code) in {
        (503, "outcome_unknown"), (503, "store_unavailable")}, answer
    if answer.status == 503:
        assert int(answer.headers["Retry-After"]) >= 1


def settled(db, checkout):
    """The checkout's status, once no payment of it is open."""
    row = checkout_row(db, checkout)
    return row.status not in ("paying",) and row.status


def assert_whole(db, org, event, checkout, user):
    """What the checkout says at the end is what became of both seats, once."""
    status = wait_until(lambda: settled(db, checkout), timeout=20, what="its payment is settled")
    if status == "completed":
        assert_sold_once(db, org, event, checkout, user)
    else:
        assert not sales_of(db, org, event)
        assert outbox(db, org, event, "checkout.completed") == [] and not in_payment(db, org, event)
        assert all(intent.status in ("failed", "expired", "void") for intent in intents_of(db, checkout))
    return status


@pytest.mark.parametrize("how", FATES)
def test_the_commit_that_begins_a_payment_is_lost(how, behind, admin, db, org, prove):
    """Never two payments; the client hears what stands, or that it isn't known."""
    user, proxy = behind
    event = admin.make_event(3, policy=POLICY | {"payment_timeout": 1})
    _, checkout = held_checkout(user, event, "A-1", "A-2")
    proxy.at(b"COMMIT", how)
    answer = answer_into(proxy, how, ask(complete_shot(user, checkout)))
    assert_told_truth(answer, 200, 202)
    if answer.status == 200:
        assert_sold_once(db, org, event, checkout, user.user)
    if answer.code == "store_unavailable":
        assert checkout_row(db, checkout).status == "open" and not in_payment(db, org, event)
    if assert_whole(db, org, event, checkout, user.user) == "open":
        wait_until(lambda: complete(user, checkout).status == 200, timeout=20)
        assert_sold_once(db, org, event, checkout, user.user)
    prove(event)


@pytest.mark.parametrize("how", FATES)
def test_the_commit_that_settles_a_payment_is_lost(how, behind, admin, db, org, prove):
    """It is paid: it must be sold in the end, whatever became of the COMMIT."""
    user, proxy = behind
    event = admin.make_event(3, policy=POLICY | {"payment_timeout": 3})
    _, checkout = held_checkout(user, event, "A-1", "A-2")
    wire = ask(complete_shot(user, checkout, "tok_slow"))
    wait_until(lambda: in_payment(db, org, event) == {"A-1", "A-2"}, what="it is in payment")
    proxy.at(b"COMMIT", how)
    answer = answer_into(proxy, how, wire)
    assert_told_truth(answer, 200, 202)
    if answer.status == 200:
        assert_sold_once(db, org, event, checkout, user.user)
    wait_until(lambda: settled(db, checkout) == "completed", timeout=20, what="what was paid is sold")
    assert_sold_once(db, org, event, checkout, user.user)
    prove(event)


@pytest.mark.parametrize("status", ["succeeded", "failed"])
@pytest.mark.parametrize("how", FATES)
def test_the_commit_of_a_webhook_is_lost(how, status, behind, house_event, db, org, prove):
    """Its provider hears 200 only for what stands, and delivers again otherwise."""
    (user, proxy), event = behind, house_event
    _, checkout = held_checkout(user, event, "A-1", "A-2")
    intent_id = pending(user, checkout)
    a_shot = webhook_shot(user.node, intent_id, status, "key-1")
    proxy.at(b"COMMIT", how)
    answer = answer_into(proxy, how, ask(a_shot))
    assert_told_truth(answer, 200)
    if answer.status == 200:
        assert intent_status(db, intent_id) == answer.json["status"] == status
    wait_until(lambda: answer_of(ask(a_shot)).status == 200, timeout=20, what="it is taken at last")
    assert intent_status(db, intent_id) == status
    if status == "succeeded":
        assert_sold_once(db, org, event, checkout, user.user)
    else:
        assert {row[0] for row in seats_of(db, org, event).values()} == {"available"}
    assert deliveries_of(db, intent_id) == {("key-1", status): "done"}
    prove(event)


@pytest.mark.parametrize("what", ["start", "cancel"])
@pytest.mark.parametrize("how", FATES)
def test_the_commit_of_a_start_and_of_a_cancel_is_lost(how, what, behind, house_event, db, org, prove):
    (user, proxy), event = behind, house_event
    hold = user.held(event, "A-1", "A-2")
    ends = "SELECT min(held_until) FROM seats WHERE org_id = %s AND event_id = %s AND status = 'held'"
    before = one_value(db, ends, (org, event))
    begun_and_longer = f"SELECT (SELECT count(*) FROM checkouts WHERE org_id = %s), ({ends}) > %s"  # of one moment
    if what == "cancel":
        checkout = user.post("/api/checkouts", {"event_id": event, "hold_ids": [hold["hold_id"]]}).expect(201).json
    a_shot = start_shot(user, event, [hold["hold_id"]]) if what == "start" else cancel_shot(user, checkout)
    proxy.at(b"COMMIT", how)
    answer = answer_into(proxy, how, ask(a_shot))
    assert_told_truth(answer, 201 if what == "start" else 200)
    [(begun, longer)] = all_rows(db, begun_and_longer, (org, org, event, before))
    if what == "start":
        assert begun == longer, "a checkout without its time, or the other way round"
        assert begun or answer.status == 503
        assert not (begun and answer.code == "store_unavailable")
    elif answer.status == 200:
        assert {row[0] for row in seats_of(db, org, event).values()} == {"available"}
    else:
        wait_until(lambda: cancel(user, checkout).status == 200, timeout=20)
        assert {row[0] for row in seats_of(db, org, event).values()} == {"available"}
    prove(event)


# --- a node that dies while the provider thinks --------------------------------------------------------------------


def test_a_payment_whose_node_was_killed_is_decided_by_another(node, start_node, client, admin, db, org, prove):
    """The intent is found after payment_timeout; until then nobody gets the seats."""
    event, doomed = admin.make_event(3, policy=POLICY | {"payment_timeout": 4}), start_node(**NODE_SETTINGS)
    user = client.at(doomed)
    _, checkout = held_checkout(user, event, "A-1", "A-2")
    ask(complete_shot(user, checkout, "tok_slow"))
    wait_until(lambda: in_payment(db, org, event) == {"A-1", "A-2"}, what="it is in payment")
    doomed.kill()
    client.as_user("rival").hold_one(event, "A-1").expect(409, "seat_taken")
    [intent] = intents_of(db, checkout)
    status = await_intent(db, intent.intent_id, "succeeded", "failed", "expired", timeout=20)
    if status == "succeeded":
        assert_sold_once(db, org, event, checkout, user.user)
    else:
        assert {row[0] for row in seats_of(db, org, event).values()} == {"available"}
    prove(event)


# --- stores that are away ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broken_house(workplace, log_folder):
    with House(workplace, log_folder, **NODE_SETTINGS | {"request_timeout": "3s"}) as house:
        yield house


@pytest.fixture
def house(broken_house):
    return broken_house.whole()


def test_a_webhook_while_postgres_is_away_takes_effect_once_when_it_is_sent_again(house):
    admin = house.admin()
    user, event = admin.as_user("payer"), admin.make_event(3, policy=POLICY)
    _, checkout = held_checkout(user, event, "A-1", "A-2")
    intent_id = pending(user, checkout)
    house.postgres.crash()
    for n in range(4):
        answer = deliver(house.nodes[n % 2], intent_id, "succeeded", f"key-{n % 2}")
        answer.expect(503)
        assert answer.code in ("store_unavailable", "outcome_unknown") and int(answer.headers["Retry-After"]) >= 1
    house.postgres.start()
    for n in range(4):
        wait_until(lambda n=n: deliver(house.nodes[n % 2], intent_id, "succeeded", f"key-{n % 2}").status == 200,
                   timeout=20, what="it is taken")
    with house.database() as db:
        assert_sold_once(db, admin.org, event, checkout, user.user)
    house.prove(admin.org, event)


@pytest.mark.parametrize("method", ["tok_ok", "tok_declined"])
def test_complete_while_postgres_is_away_changes_nothing_and_works_later(method, house):
    admin = house.admin()
    user, event = admin.as_user("payer"), admin.make_event(3, policy=POLICY)
    _, checkout = held_checkout(user, event, "A-1", "A-2")
    house.postgres.crash()
    answer = complete(user, checkout, method)
    answer.expect(503)
    assert answer.code in ("store_unavailable", "outcome_unknown") and int(answer.headers["Retry-After"]) >= 1
    house.postgres.start()
    wanted = 200 if method == "tok_ok" else 402
    wait_until(lambda: (a := complete(user, checkout, method)).status == wanted or (a.status != 503 and a), timeout=20)
    with house.database() as db:
        if method == "tok_ok":
            assert_sold_once(db, admin.org, event, checkout, user.user)
        else:
            assert {row[0] for row in seats_of(db, admin.org, event).values()} == {"available"}
            assert [intent.status for intent in intents_of(db, checkout)] == ["failed"]
    house.prove(admin.org, event)


def test_postgres_goes_away_while_the_provider_thinks_and_what_is_paid_is_sold(house):
    admin = house.admin()
    user, event = admin.as_user("payer"), admin.make_event(3, policy=POLICY | {"payment_timeout": 4})
    _, checkout = held_checkout(user, event, "A-1", "A-2")
    with house.database() as db:
        wire = ask(complete_shot(user, checkout, "tok_slow"))
        wait_until(lambda: in_payment(db, admin.org, event) == {"A-1", "A-2"}, what="it is in payment")
    house.postgres.crash()
    answer = answer_of(wire)
    assert_told_truth(answer, 202)
    house.postgres.start()
    with house.database() as db:
        wait_until(lambda: checkout_row(db, checkout).status == "completed", timeout=25, what="what was paid is sold")
        assert_sold_once(db, admin.org, event, checkout, user.user)
    wait_until(lambda: complete(user, checkout).status == 200, timeout=10)
    house.prove(admin.org, event)


@pytest.mark.parametrize("how", ["killed", "hung"])
def test_payments_need_no_redis(how, house):
    admin = house.admin()
    user, event = admin.as_user("payer"), admin.make_event(6, policy=POLICY)
    checkouts = [held_checkout(user, event, f"A-{2 * n + 1}", f"A-{2 * n + 2}", cart=f"cart-{n}")[1] for n in range(3)]
    house.redis.kill() if how == "killed" else house.redis.pause()
    try:
        complete(user, checkouts[0]).expect(200)
        intent_id = pending(user, checkouts[1])
        assert deliver(house.nodes[1], intent_id, "succeeded", "key").expect(200).json["status"] == "succeeded"
        complete(user, checkouts[2], "tok_declined").expect(402, "payment_failed")
    finally:
        house.redis.start() if how == "killed" else house.redis.resume()
    with house.database() as db:
        table = seats_of(db, admin.org, event)
        assert [table[f"A-{n}"][0] for n in range(1, 7)] == ["sold"] * 4 + ["available"] * 2
        assert outbox(db, admin.org, event).count("checkout.completed") == 2
    house.prove(admin.org, event)


def test_deliveries_go_on_while_postgres_comes_and_goes(house):
    """A provider that sends each delivery again until it hears 200, to whichever node."""
    rounds = 20 if LONG else 4
    admin = house.admin()
    user, event = admin.as_user("payer"), admin.make_event(2 * rounds, policy=POLICY)
    checkouts = [held_checkout(user, event, f"A-{2 * n + 1}", f"A-{2 * n + 2}", cart=f"cart-{n}")[1]
                 for n in range(rounds)]
    intents = [pending(user, checkout) for checkout in checkouts]
    statuses = ["succeeded" if n % 2 else "failed" for n in range(rounds)]

    def provider(n, which):
        until = time.monotonic() + 80
        for attempt in itertools.count():
            answer = yield webhook_shot(house.nodes[(which + attempt) % 2], intents[n], statuses[n], f"key-{which}")
            if answer is not None and answer.status == 200:
                return answer.json["status"]
            assert answer is None or answer.status == 503, answer
            assert time.monotonic() < until, "it was never taken"
            yield pause(0.1)

    # Servers end with the thread that started them: that is this one.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asking = pool.submit(drive, [provider(n, which) for n in range(rounds) for which in range(3)], timeout=90)
        for _ in range(3):
            house.postgres.crash()
            time.sleep(0.3)
            house.postgres.start()
            time.sleep(0.5)
        told = asking.result()
    assert told == [statuses[n] for n in range(rounds) for _ in range(3)]
    with house.database() as db:
        table = seats_of(db, admin.org, event)
        for n in range(rounds):
            wanted = "sold" if statuses[n] == "succeeded" else "available"
            assert [table[f"A-{2 * n + k}"][0] for k in (1, 2)] == [wanted] * 2
        assert outbox(db, admin.org, event).count("checkout.completed") == statuses.count("succeeded")
        assert all(len(tickets) == 1 for tickets in tickets_of(db, admin.org, event).values())
    house.prove(admin.org, event)
