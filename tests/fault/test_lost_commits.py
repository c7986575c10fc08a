"""Law 7: unknown is not failure. The connection ends around COMMIT; what the client hears is what stands."""

import contextlib
import itertools
import os
import signal
import time

import pytest

from support.bystander import (
    CLOSE_GATE, HOLD_ALL_WRITES, all_rows, await_waiting, execute, gate, holding, one_value, trigger)
from support.client import Client
from support.house import LONG
from support.lost_commits import fire_into
from support.swarm import ask, hold_shot, shot
from support.truth import seats_of
from support.waiting import wait_until

FATES = {"lose the answer": 1000 if LONG else 100, "lose the request": 7, "keep the request": 7}  # how often each
CHANGES = ["confirm", "extend", "transfer", "cancel", "patch"]


@pytest.fixture
def behind(start_node, proxied, database_url, org):
    """(a user at a node with one worker behind a proxy, the proxy)"""
    proxy, url = proxied(database_url)
    node = start_node(database_url=url, workers=1)
    return Client(node, org, "user-behind"), proxy


def lines_of_cart(db, org, cart):
    return all_rows(db, """
        SELECT hold_id::text, status::text FROM seat_holds WHERE org_id = %s AND cart_token = %s""", (org, cart))


def assert_true(db, org, user, event, seat, cart, answer):
    """What was said stands; what was said not to be isn't there; where nothing was said, asking again tells."""
    lines = lines_of_cart(db, org, cart)
    if answer.status == 201:
        assert lines == [(answer.json["hold_id"], "active")]
        return
    assert answer.status == 503, answer
    assert int(answer.headers["Retry-After"]) >= 1
    if answer.code == "store_unavailable":
        assert not lines
    else:
        assert answer.code == "outcome_unknown"
    again = wait_until(lambda: (a := user.hold_one(event, seat, cart=cart)).status in (200, 201) and a, timeout=20)
    assert lines_of_cart(db, org, cart) == [(again.json["hold_id"], "active")]
    assert not lines or again.json["hold_id"] == lines[0][0]


@pytest.mark.parametrize("how", FATES)
def test_what_a_client_hears_of_a_hold_whose_commit_is_lost_is_what_stands(behind, admin, db, org, how, prove):
    user, proxy = behind
    rounds = FATES[how]
    event = admin.make_event(rounds)
    for n in range(1, rounds + 1):
        headers = {"Idempotency-Key": f"key-{n}"} if n % 4 == 0 else None
        answer = fire_into(proxy, how, hold_shot(user, event, f"A-{n}", cart=f"cart-{n}", headers=headers))
        assert_true(db, org, user, event, f"A-{n}", f"cart-{n}", answer)
    wait_until(lambda: user.node.metrics()["holdfast_outcomes_settled_total"] >= rounds, timeout=20, what="each is settled")
    prove(event)


@pytest.mark.parametrize("how", FATES)
@pytest.mark.parametrize("what", CHANGES)
def test_what_a_client_hears_of_a_change_whose_commit_is_lost_is_what_stands(behind, admin, db, org, what, how, prove):
    user, proxy = behind
    event = admin.make_event(3, policy={"hold_ttl": 300, "extend_by": 10, "max_hold": 3000})
    hold = user.held(event, "A-1", "A-2")
    before = state_of(db, org, event, hold)
    answer = fire_into(proxy, how, change_shot(user, hold, what))
    after = state_of(db, org, event, hold)
    if answer.status == 503 and answer.code == "outcome_unknown":
        assert int(answer.headers["Retry-After"]) >= 1
        assert after in (before, changed(before, what))
    elif answer.status == 503:
        assert answer.code == "store_unavailable" and after == before
    else:
        assert answer.status == 200, answer
        assert after == changed(before, what)
    prove(event)


def change_shot(user, hold, what):
    path = f"/api/holds/{hold['hold_id']}"
    return {"confirm": lambda: shot(user, "POST", f"{path}/confirm", {}),
            "extend": lambda: shot(user, "POST", f"{path}/extend", {}),
            "transfer": lambda: shot(user, "POST", f"{path}/transfer", {"to_user_id": "heir"}),
            "cancel": lambda: shot(user, "DELETE", path),
            "patch": lambda: shot(user, "PATCH", path, {"add_seat_ids": ["A-3"]})}[what]()


def state_of(db, org, event, hold):
    """What the hold is, as far as the changes touch it: (statuses of A-1..A-3, owner, seconds it was extended by)."""
    seats = seats_of(db, org, event)
    owner, extended = all_rows(db, """
        SELECT user_id, round(extract(epoch FROM held_until - created_at))::int - 300 FROM seat_holds
        WHERE org_id = %s AND hold_id = %s AND line = 1""", (org, hold["hold_id"]))[0]
    return tuple(seats[f"A-{n}"][0] for n in (1, 2, 3)), owner, extended


def changed(state, what):
    statuses, owner, extended = state
    return {"confirm": (("sold", "sold", "available"), owner, extended),
            "extend": (statuses, owner, extended + 10),
            "transfer": (statuses, "heir", extended),
            "cancel": (("available",) * 3, owner, extended),
            "patch": (("held",) * 3, owner, extended)}[what]


@pytest.mark.parametrize("how", FATES)
def test_a_request_with_a_key_whose_commit_is_lost_is_done_once(behind, admin, db, org, how, prove):
    user, proxy = behind
    event = admin.make_event(2)
    a_shot = hold_shot(user, event, "A-1", headers={"Idempotency-Key": "once"})
    first = fire_into(proxy, how, a_shot)
    assert first.status in (201, 503), first
    again = wait_until(lambda: (a := ask(a_shot).answer()).status == 201 and a, timeout=20)
    assert ask(a_shot).answer().body == again.body
    if first.status == 201:
        assert again.body == first.body
    assert all_rows(db, "SELECT count(*) FROM seat_holds WHERE org_id = %s", (org,)) == [(1,)]
    prove(event, [again.json])


def test_a_batch_whose_commit_is_lost_is_true_for_each_of_its_requests(behind, admin, db, org, database_url, prove):
    user, proxy = behind
    for how, turn in itertools.product(FATES, range(2)):
        event = admin.make_event(12)
        users = [user.as_user() for _ in range(11)]
        with holding(database_url, HOLD_ALL_WRITES) as bystander:
            plug = ask(hold_shot(users[10], event, "A-12", cart=f"{how}-{turn}-10"))
            await_waiting(db)
            wires = [ask(hold_shot(users[n], event, f"A-{n + 1}", cart=f"{how}-{turn}-{n}")) for n in range(10)]
            wait_until(lambda: user.node.metrics()["holdfast_queue_depth"] >= 10, what="they wait for one batch")
            proxy.at(b"COMMIT", how)
            bystander.release()
        assert plug.answer().status == 201
        assert proxy.ambushed.wait(10)
        if how == "keep the request":
            wait_until(lambda: not any(wire.silent() for wire in wires), timeout=20, what="all are answered")
            proxy.deliver()
        for n, wire in enumerate(wires):
            assert_true(db, org, users[n], event, f"A-{n + 1}", f"{how}-{turn}-{n}", wire.answer(timeout=20))
        prove(event)


def test_while_nothing_can_be_known_the_answer_is_outcome_unknown(
        start_node, proxied, database_url, admin, db, org, prove):
    proxy, url = proxied(database_url)
    node = start_node(database_url=url, workers=1, request_timeout="1500ms")
    user = Client(node, org, "user-behind")
    event = admin.make_event(2)
    proxy.at(b"COMMIT", "lose the answer and refuse")
    answer = ask(hold_shot(user, event, "A-1")).answer(timeout=20)
    assert (answer.status, answer.code) == (503, "outcome_unknown")
    assert int(answer.headers["Retry-After"]) >= 1
    proxy.allow()
    again = wait_until(lambda: (a := user.hold_one(event, "A-1")).status in (200, 201) and a, timeout=30)
    assert lines_of_cart(db, org, "cart-1") == [(again.json["hold_id"], "active")]
    prove(event)


def test_a_release_by_an_administrator_that_may_be_done_is_not_told_as_nothing(
        start_node, proxied, database_url, admin, db, org, prove):
    proxy, url = proxied(database_url)
    node = start_node(database_url=url, workers=1, request_timeout="1500ms")
    event = admin.make_event(2)
    hold = Client(node, org, "user-behind").held(event, "A-1")
    release = shot(admin.at(node), "POST", "/api/admin/seats/release", {"hold_ids": [hold["hold_id"]]})
    proxy.at(b"COMMIT", "lose the answer and refuse")
    answer = ask(release).answer(timeout=30)
    assert (answer.status, answer.code) == (503, "outcome_unknown"), answer
    assert seats_of(db, org, event)["A-1"][0] == "available"
    proxy.allow()
    wait_until(lambda: ask(release).answer(timeout=30).status == 200, timeout=30)
    prove(event)


# --- commits that land after their connection was cut ---------------------------------------------------------------


@contextlib.contextmanager
def patient_gate(db):
    """As gate(), for every change of a seat; whoever stands before it waits for as long as it takes."""
    execute(db, "CREATE TABLE gate (id int PRIMARY KEY); INSERT INTO gate VALUES (1)")
    body = "PERFORM set_config('lock_timeout', '0', true); PERFORM FROM gate FOR SHARE; RETURN NULL;"
    try:
        with trigger(db, "at_patient_gate", "audit_log", "AFTER INSERT", body, deferred=True):
            yield
    finally:
        execute(db, "DROP TABLE gate")


def land_late(db, database_url, proxy, a_shot, answered_first):
    """The answer to a request whose COMMIT was sent, then cut off, and goes through long after the cut.

    answered_first: not before its client has had an answer.
    """
    with patient_gate(db):
        with holding(database_url, CLOSE_GATE) as bystander:
            proxy.at(b"COMMIT", "lose the answer")
            wire = ask(a_shot)
            assert proxy.ambushed.wait(10), "no COMMIT came by"
            await_waiting(db, 2)  # the COMMIT at the gate, and the node that asks what became of it
            answer = wire.answer(timeout=20) if answered_first else None
            assert answer or wire.silent(), wire.answer()
            bystander.release()
        # The trigger goes only when the transaction has ended.
    return answer or wire.answer(timeout=20)


@pytest.mark.parametrize("what, answered_first", [
    ("a hold", False), ("a hold with a key", False), *((what, False) for what in CHANGES),
    ("a hold with a key", True), ("confirm", True)])
def test_what_a_client_hears_of_a_commit_that_lands_after_the_cut_is_what_stands(
        start_node, proxied, database_url, admin, db, org, what, answered_first, prove):
    proxy, url = proxied(database_url)
    node = start_node(database_url=url, workers=1, request_timeout="1500ms" if answered_first else "20s")
    user = Client(node, org, "user-behind")
    event = admin.make_event(3, policy={"hold_ttl": 300, "extend_by": 10, "max_hold": 3000})
    if what in CHANGES:
        hold = user.held(event, "A-1", "A-2")
        before = state_of(db, org, event, hold)
        answer = land_late(db, database_url, proxy, change_shot(user, hold, what), answered_first)
        assert state_of(db, org, event, hold) == changed(before, what)
    else:
        headers = {"Idempotency-Key": "once"} if what == "a hold with a key" else None
        a_shot = hold_shot(user, event, "A-1", headers=headers)
        answer = land_late(db, database_url, proxy, a_shot, answered_first)
        [(hold_id, status)] = lines_of_cart(db, org, "cart-1")
        again = wait_until(lambda: (a := ask(a_shot).answer()).status in (200, 201) and a, timeout=20)
        assert (again.json["hold_id"], status) == (hold_id, "active")
    if answered_first:
        assert (answer.status, answer.code) == (503, "outcome_unknown")
    else:
        assert answer.status in (200, 201) or answer.code == "outcome_unknown", answer
    prove(event)


# --- sessions that Postgres ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize("deferred", [False, True], ids=["in a statement", "within COMMIT"])
def test_what_a_client_hears_when_its_session_is_terminated_is_what_stands(
        admin, deferred, db, org, database_url, prove):
    event = admin.make_event(20)
    with gate(db, deferred):
        for n in range(1, 21):
            user = admin.as_user()
            with holding(database_url, CLOSE_GATE) as bystander:
                wire = ask(hold_shot(user, event, f"A-{n}", cart=f"cart-{n}"))
                pid = await_waiting(db)[0]
                assert wire.silent()
                execute(db, "SELECT pg_terminate_backend(%s)", (pid,))
                wait_until(lambda: one_value(db, "SELECT count(*) FROM pg_stat_activity WHERE pid = %s", (pid,)) == 0)
                bystander.release()
            assert_true(db, org, user, event, f"A-{n}", f"cart-{n}", wire.answer(timeout=20))
    prove(event)


def test_what_a_client_hears_of_a_commit_that_hangs_is_what_stands(start_node, admin, db, org, database_url, prove):
    """Its backend stands still in the middle of COMMIT, past the request's deadline, and goes on long after."""
    node = start_node(request_timeout="1500ms", workers=1)
    event = admin.make_event(2)
    for n in range(1, 3):
        user = Client(node, org, f"user-{n}")
        with gate(db), holding(database_url, CLOSE_GATE) as bystander:
            wire = ask(hold_shot(user, event, f"A-{n}", cart=f"cart-{n}"))
            pid = await_waiting(db)[0]
            os.kill(pid, signal.SIGSTOP)
            try:
                bystander.release()
                answer = wire.answer(timeout=20)
                assert (answer.status, answer.code) == (503, "outcome_unknown")
            finally:
                os.kill(pid, signal.SIGCONT)
            # The trigger goes only when the transaction has ended, one way or the other.
        assert_true(db, org, user, event, f"A-{n}", f"cart-{n}", answer)
    prove(event)


def test_a_node_that_drains_waits_for_its_commits(start_node, admin, db, org, database_url, prove):
    node = start_node()
    user = Client(node, org, "user-1")
    event = admin.make_event(2)
    with patient_gate(db):
        with holding(database_url, CLOSE_GATE) as bystander:
            wire = ask(hold_shot(user, event, "A-1"))
            await_waiting(db)
            node.signal(signal.SIGTERM)
            wait_until(lambda: "draining" in node.log_text())
            assert wire.silent()
            bystander.release()
        told = wire.answer(timeout=20).expect(201).json
        assert node.await_end() == 0
    assert lines_of_cart(db, org, "cart-1") == [(told["hold_id"], "active")]
    prove(event, [told])


# --- a node that falls silent ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["a hold with a key", "a patch"])
def test_a_node_that_falls_silent_within_a_transaction_blocks_nobody_for_long(behind, admin, db, org, what, prove):
    """It was stopped between its statements and its COMMIT: Postgres ends what stands idle within a transaction."""
    user, proxy = behind
    event = admin.make_event(2)
    hold = user.held(event, "A-2")
    keyed = hold_shot(user, event, "A-1", cart="cart-1", headers={"Idempotency-Key": "k"})
    patch = shot(user, "PATCH", f"/api/holds/{hold['hold_id']}", {"add_seat_ids": ["A-1"]})
    proxy.at(b"COMMIT", "stall")
    wire = ask(patch if what == "a patch" else keyed)
    assert proxy.ambushed.wait(10)
    rival = admin.as_user("rival")
    began = time.monotonic()
    try:
        won = wait_until(lambda: (a := rival.hold_one(event, "A-1")).status == 201 and a, timeout=10).json
        assert time.monotonic() - began < 6
    finally:
        proxy.deliver()
    answer = wire.answer(timeout=20)
    assert answer.status in (409, 503), answer
    assert seats_of(db, org, event)["A-1"][1] == won["hold_id"]
    prove(event)
