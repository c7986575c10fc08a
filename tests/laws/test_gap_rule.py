"""Law 4, of the rule of the single seat: it is decided in the transaction that takes the seats, under the lock of their
rows. Two choices that only together leave a seat alone are never both granted, whatever they are (a hold, a patch, a
hold that grows, one with areas, one that replaces another), wherever they come in, and however close; and nobody is
refused because of somebody who then didn't get his seats.

Each pair has a row of its own. HOLDFAST_LONG=1 takes the number that the issue names.
"""

import collections

import pytest

from support.best import best, chosen, place_of
from support.bystander import CLOSE_GATE, HOLD_ALL_WRITES, await_waiting, execute, gate, holding, waiting_sessions
from support.checkouts import await_intent, deliver, held_checkout, pending
from support.client import seat
from support.contract import check_problem, seats_of
from support.house import LONG
from support.swarm import ask, drive, hold_shot, shot, volley
from support.tables import query
from support.waiting import wait_until

NODE_SETTINGS = {"request_timeout": "30s", "webhook_secret": "a secret between us and the provider"}
PAIRS = 1000 if LONG else 60
LANES = 20

POLICY = {"no_single_seat_gap": True, "hold_ttl": 300}
ROW_OF = 9
FLOOR = {"area_id": "floor", "name": "Floor", "capacity": 10_000}
LOCK_ROW = "SELECT pg_advisory_xact_lock(seating_row_key(%s, %s, 'main', %s))"


@pytest.fixture(params=["one node", "two nodes"])
def nodes(request, node, start_node):
    return (node, node) if request.param == "one node" else (node, start_node(**NODE_SETTINGS))


def name(row, number):
    return f"{row}-{number}"


def house(admin, rows=1, length=ROW_OF, policy=None, **more):
    return admin.make_event([seat(name(row, number), row=row, number=number)
                             for row in range(rows) for number in range(1, length + 1)],
                            policy=POLICY | (policy or {}), **more)


def taken_of(db, org, event):
    """{row: {number: user}} of what is held or sold."""
    rows = collections.defaultdict(dict)
    for row, number, user in query(db, "SELECT \"row\", number, user_id FROM seats WHERE org_id = %s AND event_id = %s "
                                   "AND status IN ('held', 'sold')", org, event):
        rows[int(row)][int(number)] = user
    return rows


def alone(taken, length=ROW_OF):
    """The numbers of a row that are free and have no free neighbour."""
    free = set(range(1, length + 1)) - set(taken)
    return {number for number in free if not {number - 1, number + 1} & free}


# --- pairs ----------------------------------------------------------------------------------------------------------
#
# In a row of nine, 1-2 and 4-5 leave 3 alone together, and neither does alone; whoever comes second could have others.
# Each kind: what the first users have before, and how they then come to have 1 and 2.

Kind = collections.namedtuple("Kind", "before then")


def hold_of(*numbers, **more):
    """A shot of these numbers of a row."""
    return lambda user, event, row, hold=None: hold_shot(
        user, event, *(name(row, number) for number in numbers), cart=f"cart-{row}", **more)


def patch_by(number):
    return lambda user, event, row, hold: shot(
        user, "PATCH", f"/api/holds/{hold['hold_id']}", {"add_seat_ids": [name(row, number)]})


KINDS = {
    "a hold": Kind(None, hold_of(1, 2)),
    "a patch": Kind(hold_of(1), patch_by(2)),
    "a hold that grows": Kind(hold_of(1), hold_of(1, 2)),
    "seats and an area": Kind(None, hold_of(1, 2, areas=[{"area_id": "floor", "quantity": 1}])),
    "under a key": Kind(None, hold_of(1, 2, headers={"Idempotency-Key": "k"})),
    "one that replaces another": Kind(hold_of(8, 9), hold_of(1, 2)),
}


def run_pairs(admin, event, nodes, kind, pairs):
    """(row, answer of the first user, of the second) of each pair. Which node, and who is first, changes."""
    def lane(number):
        done = []
        for row in range(number, pairs, LANES):
            here, there = nodes if row % 4 < 2 else nodes[::-1]
            user, hold = admin.as_user(f"first-{row}").at(here), None
            if kind.before:
                hold = (yield kind.before(user, event, row)).expect(201).json
            first = kind.then(user, event, row, hold)
            second = hold_of(4, 5)(admin.as_user(f"second-{row}").at(there), event, row)
            pair = [first, second] if row % 2 else [second, first]
            answers = yield pair
            for at in range(2):
                while answers[at].status == 503:  # a machine that is too busy for its own database
                    answers[at] = yield pair[at]
            done.append((row, *(answers if row % 2 else answers[::-1])))
        return done

    return [each for done in drive([lane(number) for number in range(LANES)], timeout=300) for each in done]


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_that_together_leave_a_gap_exactly_one_is_refused(admin, nodes, db, org, kind, prove):
    event = house(admin, PAIRS, areas=[FLOOR], policy={"one_hold_per_user": kind == "one that replaces another"})
    seen = collections.Counter()
    for row, *answers in run_pairs(admin, event, nodes, KINDS[kind], PAIRS):
        granted = [answer.status in (200, 201) for answer in answers]
        assert sorted(granted) == [False, True], (row, answers)
        refused = answers[granted.index(False)]
        assert seats_of(check_problem(refused, "single_seat_gap")) == {name(row, 3): "single_seat_gap"}
        seen[granted[0]] += 1
    if kind == "a hold":  # what needs a transaction of its own may always come second
        assert len(seen) == 2, f"they never met: {seen}"
    rows = taken_of(db, org, event)
    assert [row for row in range(PAIRS) if alone(rows[row])] == []
    prove(event)


def test_a_crowd_in_one_row_leaves_nobody_alone(admin, nodes, db, org, prove):
    """Thirty users ask for one seat each of a row of thirty, all at once and again until nothing is left for them."""
    event = house(admin, 1, 30)

    def guest(number):
        user = admin.as_user(f"guest-{number}").at(nodes[number % 2])
        for turn in range(60):
            answer = yield hold_shot(user, event, name(0, (number * 7 + turn) % 30 + 1))
            assert answer.status in (201, 409, 422, 503), answer
            if answer.status == 201:
                return answer.json
        return None

    holds = [hold for hold in drive([guest(number) for number in range(30)], timeout=120) if hold]
    taken = taken_of(db, org, event)[0]
    assert len(taken) == len(holds) >= 15
    prove(event, holds)
    assert is_a_story(set(), batches_of(db, org, event), 30)


def batches_of(db, org, event):
    """The numbers of row 0 as they were taken: those of one transaction together, in no order."""
    return [set(batch.numbers) for batch in query(db, """
        SELECT array_agg(split_part(seat_id, '-', 2)::int) AS numbers FROM audit_log
        WHERE org_id = %s AND event_id = %s AND action = 'seat_held' GROUP BY at ORDER BY at""", org, event)]


def is_allowed(taken, number, length):
    """By the rule, for one seat of whoever has none: it leaves nobody alone who wasn't, or any other would."""
    before = alone(taken, length)
    return not alone(taken | {number}, length) - before or not any(
        not alone(taken | {other}, length) - before for other in set(range(1, length + 1)) - taken)


def is_a_story(taken, batches, length):
    """Whether each was allowed when it was taken, in some order of each batch."""
    for batch in batches:
        reached = {frozenset()}  # what of the batch may have been taken so far
        for _ in batch:
            reached = {done | {number} for done in reached for number in batch - done
                       if is_allowed(taken | done, number, length)}
        if not reached:
            return False
        taken = taken | batch
    return True


# --- one side held still -------------------------------------------------------------------------------------------


def test_who_takes_seats_of_a_row_waits_for_its_lock(admin, node, start_node, db, org, database_url, prove):
    """Holds that have no seat in common: at two nodes, in one row."""
    event, there = house(admin), start_node(**NODE_SETTINGS)
    with holding(database_url, LOCK_ROW, (org, event, "0")) as bystander:
        wires = [ask(hold_shot(admin.as_user("one"), event, name(0, 1), name(0, 2))),
                 ask(hold_shot(admin.as_user("two").at(there), event, name(0, 4), name(0, 5)))]
        await_waiting(db, 2)
        assert all(wire.silent() for wire in wires)
        bystander.release()
        answers = [wire.answer() for wire in wires]
    assert sorted(answer.status for answer in answers) == [201, 422]
    prove(event, [answer.json for answer in answers if answer.status == 201])


@pytest.mark.parametrize("change", ["patch", "growth", "mixed"])
def test_whoever_else_takes_seats_of_a_row_waits_for_its_lock(admin, client, db, org, database_url, change):
    event = house(admin, areas=[FLOOR])
    hold = client.held(event, name(0, 1))
    shots = {"patch": shot(client, "PATCH", f"/api/holds/{hold['hold_id']}", {"add_seat_ids": [name(0, 2)]}),
             "growth": hold_shot(client, event, name(0, 1), name(0, 2)),
             "mixed": hold_shot(client, event, name(0, 2), areas=[{"area_id": "floor", "quantity": 1}], cart="c2")}
    with holding(database_url, LOCK_ROW, (org, event, "0")) as bystander:
        wire = ask(shots[change])
        await_waiting(db)
        assert wire.silent()
        bystander.release()
        assert wire.answer().status in (200, 201)


def test_what_takes_nothing_waits_for_no_row(admin, client, node, db, org, database_url):
    """Release, removal, extension, confirm, the same hold again: under the held lock of the row."""
    event = house(admin)
    one, two, three = (client.held(event, name(0, n), name(0, n + 1), cart=f"c{n}") for n in (1, 3, 5))
    with holding(database_url, LOCK_ROW, (org, event, "0")):
        client.extend(one["hold_id"]).expect(200)
        client.delete(f"/api/holds/{two['hold_id']}/seats/{name(0, 3)}").expect(200)
        client.patch(f"/api/holds/{one['hold_id']}", {"remove_seat_ids": [name(0, 2)]}).expect(200)
        client.confirm(one["hold_id"]).expect(200)
        client.cancel(three["hold_id"]).expect(200)
        assert waiting_sessions(db) == []


def test_without_the_rule_nobody_waits_for_a_row(admin, client, org, database_url):
    event = house(admin, policy={"no_single_seat_gap": False})
    with holding(database_url, LOCK_ROW, (org, event, "0")):
        client.held(event, name(0, 2), name(0, 4))


def test_who_comes_second_is_judged_by_what_the_first_has_committed(admin, client, other, start_node, db, database_url):
    """The first stands still within its COMMIT, at another node; the second waits for it, and then hears the truth."""
    event, there = house(admin), start_node(**NODE_SETTINGS)
    with gate(db), holding(database_url, CLOSE_GATE) as bystander:
        first = ask(hold_shot(client, event, name(0, 1), name(0, 2)))
        await_waiting(db)
        second = ask(hold_shot(other.at(there), event, name(0, 4), name(0, 5)))
        await_waiting(db, 2)
        assert first.silent() and second.silent()
        bystander.release()
        first.answer().expect(201)
        assert seats_of(check_problem(second.answer(), "single_seat_gap")) == {name(0, 3): "single_seat_gap"}


def test_who_comes_second_gets_the_seats_when_the_first_comes_to_nothing(admin, client, other, start_node, db, org,
                                                                        database_url, prove):
    """The first one's node is killed within its transaction."""
    event = house(admin)
    doomed = start_node(**NODE_SETTINGS)
    with gate(db, deferred=False), holding(database_url, CLOSE_GATE) as bystander:
        first = ask(hold_shot(client.at(doomed), event, name(0, 1), name(0, 2)))
        [backend] = await_waiting(db)
        second = ask(hold_shot(other, event, name(0, 4), name(0, 5)))
        await_waiting(db, 2)
        doomed.kill()
        execute(db, "SELECT pg_terminate_backend(%s)", (backend,))
        bystander.release()
        hold = second.answer().expect(201).json
        first.close()
    assert set(taken_of(db, org, event)[0]) == {4, 5}
    prove(event, [hold])


def granted_meanwhile(users, plain):
    """Everybody gets a seat of the event without the rule, while the others wait."""
    answers = volley([hold_shot(user, plain, f"A-{n}") for n, user in enumerate(users, 1)])
    assert [answer.status for answer in answers] == [201] * len(users)


def test_a_row_that_somebody_keeps_locked_stops_nobody_else(admin, start_node, org, database_url, prove):
    """The lock is never given up: who needs the row hears so in time, everybody else gets what he asks for."""
    node = start_node(request_timeout="9s")
    event, plain = house(admin, 2), admin.make_event(40)
    with holding(database_url, LOCK_ROW, (org, event, "0")):
        stuck = [ask(hold_shot(admin.as_user(f"stuck-{n}").at(node), event, name(0, 2 * n), name(0, 2 * n + 1)))
                 for n in range(1, 4)]
        wait_until(lambda: node.metrics()["holdfast_retries_total"] >= 3, what="they try again")
        granted_meanwhile([admin.as_user(f"free-{n}").at(node) for n in range(40)], plain)
        admin.as_user("next-row").at(node).held(event, name(1, 1))
        assert all(wire.silent() for wire in stuck)
        for wire in stuck:
            check_problem(wire.answer(), "seat_contended")
    prove(event)


@pytest.mark.parametrize("change", ["hold", "keyed", "patch", "mixed"])
def test_a_row_that_was_locked_for_long_is_had_once_it_is_free(admin, client, other, node, org, database_url, change):
    event = house(admin, areas=[FLOOR])
    hold = client.held(event, name(0, 1))
    shots = {"hold": hold_shot(other, event, name(0, 2)),
             "keyed": hold_shot(other, event, name(0, 2), headers={"Idempotency-Key": "k"}),
             "patch": shot(client, "PATCH", f"/api/holds/{hold['hold_id']}", {"add_seat_ids": [name(0, 2)]}),
             "mixed": hold_shot(other, event, name(0, 2), areas=[{"area_id": "floor", "quantity": 1}])}
    retries = lambda: node.metrics()["holdfast_retries_total"]  # noqa: E731
    before = retries()
    with holding(database_url, LOCK_ROW, (org, event, "0")) as bystander:
        wire = ask(shots[change])
        wait_until(lambda: retries() >= before + 4, timeout=20, what="it tries again")
        assert wire.silent()
        bystander.release()
        assert wire.answer().status in (200, 201)


def test_the_best_seats_are_found_in_another_row(admin, client, org, database_url):
    event = house(admin, 2)
    with holding(database_url, LOCK_ROW, (org, event, "0")):
        assert {place_of(one)[0] for one in chosen(best(client, event, 2))} == {"1"}


# --- many in one batch ------------------------------------------------------------------------------------------------


def in_one_batch(node, admin, db, database_url, shots):
    """The answers to what is sent one after the other and goes into one transaction of this node (of one worker)."""
    plug_event = admin.make_event(1)
    with holding(database_url, HOLD_ALL_WRITES) as bystander:
        plug = ask(hold_shot(admin.as_user("plug").at(node), plug_event, "A-1"))
        await_waiting(db)
        wires = []
        for each in shots:
            wires.append(ask(each))
            wait_until(lambda: node.metrics()["holdfast_queue_depth"] == len(wires), every=0.005,
                       what=f"{len(wires)} wait for one batch")
        before = node.metrics()
        bystander.release()
        plug.answer().expect(201)
        answers = [wire.answer() for wire in wires]
    after = node.metrics()
    return answers, after["holdfast_batches_split_total"] - before["holdfast_batches_split_total"]


@pytest.fixture
def one_worker(start_node):
    return start_node(workers=1, **NODE_SETTINGS)


def key_of(user, keyed):
    return {"Idempotency-Key": f"key-of-{user.user}"} if keyed else None


KEYED = pytest.mark.parametrize("keyed", [False, True], ids=["plain", "under keys"])


@KEYED
def test_in_a_batch_each_is_judged_with_those_before_it(admin, one_worker, db, org, database_url, keyed, prove):
    event = house(admin, 2)
    users = [admin.as_user(f"u{n}").at(one_worker) for n in range(6)]
    wishes = [[(0, 1), (0, 2)], [(0, 4), (0, 5)], [(0, 3)], [(0, 6)], [(0, 8)], [(1, 1), (0, 9)]]
    answers, split = in_one_batch(one_worker, admin, db, database_url, [
        hold_shot(user, event, *(name(*each) for each in wish), headers=key_of(user, keyed))
        for user, wish in zip(users, wishes)])
    said = [(answer.status, seats_of(answer.json) if answer.status == 422 else None) for answer in answers]
    gap = "single_seat_gap"
    assert said == [(201, None), (422, {name(0, 3): gap}), (201, None), (201, None),
                    (422, {name(0, 7): gap, name(0, 9): gap}), (201, None)]
    assert split == 0
    assert alone(taken_of(db, org, event)[0]) == set()
    prove(event, [answer.json for answer in answers if answer.status == 201])


@KEYED
def test_verdicts_that_rest_on_one_who_is_refused_are_passed_anew(admin, one_worker, db, org, database_url, keyed, prove):
    """The first of the batch passes the rule, and has too many seats: the second isn't refused on his account, and
    the third not granted. The fourth is of another event, without the rule."""
    event, plain = house(admin, 2, policy={"max_seats_per_user": 2}), admin.make_event(3)
    full, second, third, fourth = (admin.as_user(user).at(one_worker) for user in ("full", "two", "three", "four"))
    full.held(event, name(1, 1), name(1, 2))
    answers, split = in_one_batch(one_worker, admin, db, database_url, [
        hold_shot(full, event, name(0, 3), cart="c2", headers=key_of(full, keyed)),
        hold_shot(second, event, name(0, 5), headers=key_of(second, keyed)),
        hold_shot(third, event, name(0, 7), headers=key_of(third, keyed)),
        hold_shot(fourth, plain, "A-2", headers=key_of(fourth, keyed))])
    assert [(answer.status, answer.code) for answer in answers] == [
        (422, "user_limit"), (201, None), (422, "single_seat_gap"), (201, None)]
    assert seats_of(answers[2].json) == {name(0, 6): "single_seat_gap"}
    assert split >= 1
    assert set(taken_of(db, org, event)[0]) == {5}
    prove(event)


def test_a_refusal_in_the_middle_that_nobody_rests_on_changes_nothing(admin, one_worker, db, org, database_url, prove):
    event = house(admin, 1, policy={"max_seats_per_user": 2})
    full = admin.as_user("full").at(one_worker)
    full.held(event, name(0, 8), name(0, 9))
    users = [admin.as_user(f"u{n}").at(one_worker) for n in range(2)]
    answers, split = in_one_batch(one_worker, admin, db, database_url, [
        hold_shot(users[0], event, name(0, 1)), hold_shot(full, event, name(0, 7), cart="c2"),
        hold_shot(users[1], event, name(0, 2))])
    assert [answer.status for answer in answers] == [201, 422, 201] and answers[1].code == "user_limit"
    assert split == 0
    prove(event)


def test_a_hundred_in_one_batch(admin, one_worker, db, org, database_url, prove):
    """Twenty rows; in each five ask for one seat each: 1, 3, 5, 7, 9. Every other one is refused."""
    event = house(admin, 20)
    users = [admin.as_user(f"u{n}").at(one_worker) for n in range(100)]
    answers, split = in_one_batch(one_worker, admin, db, database_url, [
        hold_shot(user, event, name(n % 20, 2 * (n // 20) + 1)) for n, user in enumerate(users)])
    statuses = [answer.status for answer in answers]
    assert statuses == [201] * 20 + [422] * 20 + [201] * 20 + [422] * 20 + [201] * 20
    assert split == 0
    prove(event, [answer.json for answer in answers if answer.status == 201])


# --- what is free, what is taken ------------------------------------------------------------------------------------------


def set_end(db, org, event, seat_id, in_payment=False):
    """The hold on this seat is over, and nobody has come to end it."""
    for table, status in (("seats", "held"), ("seat_holds", "active")):
        execute(db, f"UPDATE {table} SET held_until = clock_timestamp() - interval '1 s', in_payment = %s WHERE "
                "org_id = %s AND event_id = %s AND seat_id = %s AND status = %s", (in_payment, org, event, seat_id, status))


def test_a_hold_that_is_over_counts_as_free(admin, client, other, db, org):
    event = house(admin)
    hold = other.held(event, name(0, 2), name(0, 1))
    other.delete(f"/api/holds/{hold['hold_id']}/seats/{name(0, 1)}").expect(200)
    client.held(event, name(0, 9))
    set_end(db, org, event, name(0, 2))
    assert seats_of(check_problem(client.hold(event, name(0, 1), name(0, 3), cart="c2"), "single_seat_gap")) == {
        name(0, 2): "single_seat_gap"}


def test_a_hold_in_payment_counts_as_taken_however_late(admin, client, other, db, org):
    event = house(admin)
    hold = other.held(event, name(0, 2), name(0, 1))
    other.delete(f"/api/holds/{hold['hold_id']}/seats/{name(0, 1)}").expect(200)
    set_end(db, org, event, name(0, 2), in_payment=True)
    client.held(event, name(0, 1), name(0, 3))


def test_release_is_always_allowed_and_so_is_expiry(admin, client, other, db, org):
    event = house(admin, policy={"hold_ttl": 60})
    middle = client.held(event, name(0, 1), name(0, 2), name(0, 3))
    other.held(event, name(0, 4), name(0, 5))
    client.delete(f"/api/holds/{middle['hold_id']}/seats/{name(0, 2)}").expect(200)
    assert set(taken_of(db, org, event)[0]) == {1, 3, 4, 5}
    for number in (1, 3, 4, 5):
        set_end(db, org, event, name(0, number))
    wait_until(lambda: not taken_of(db, org, event)[0], timeout=20, what="all have expired")


def test_a_late_payment_gets_its_seats_whatever_they_leave(admin, client, node, db, org, check_audit):
    """What was paid for is sold; nobody is told to take other seats."""
    event = house(admin, policy={"no_single_seat_gap": False, "payment_timeout": 1})
    _, checkout = held_checkout(client, event, name(0, 2))
    intent = pending(client, checkout)
    await_intent(db, intent, "expired")
    admin.set_event(event, policy=POLICY)
    assert seats_of(check_problem(client.hold(event, name(0, 2)), "single_seat_gap")) == {name(0, 1): "single_seat_gap"}
    assert deliver(node, intent, "succeeded", "k1").expect(200).json["status"] == "succeeded"
    assert taken_of(db, org, event)[0] == {2: client.user}
    check_audit(event)
