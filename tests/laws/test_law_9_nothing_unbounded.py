"""Law 9: every queue has a limit and a defined answer when it is full."""

import time

import pytest

from support.bystander import HOLD_ALL_WRITES, await_waiting, holding
from support.client import Client
from support.swarm import Wire, ask, drive, hold_shot, shot, tally, volley
from support.waiting import wait_until


def assert_overloaded(answer):
    assert (answer.status, answer.code) == (503, "overloaded"), answer
    assert int(answer.headers["Retry-After"]) >= 1


@pytest.fixture
def small(start_node, org):
    """small(**settings): the administrator at a node with one worker and these limits."""
    return lambda **settings: Client(start_node(workers=1, **settings), org, "admin-1", "admin")


def test_a_full_queue_refuses_at_once(small, event, db, database_url, prove):
    admin = small(queue_max=3)
    with holding(database_url, HOLD_ALL_WRITES) as bystander:
        plug = ask(hold_shot(admin.as_user(), event, "A-1"))
        await_waiting(db)
        wires = [ask(hold_shot(admin.as_user(), event, f"A-{n}")) for n in range(2, 8)]
        wait_until(lambda: sum(not wire.silent() for wire in wires) >= 3, what="some are refused")
        bystander.release()
    answers = [wire.answer() for wire in wires]
    assert plug.answer().status == 201
    for answer in answers:
        if answer.status != 201:
            assert_overloaded(answer)
    assert [answer.status for answer in answers].count(201) == 3
    assert admin.node.metrics()["holdfast_overloaded_total"] == 3
    prove(event, complete=False)


def test_where_too_many_are_parked_the_next_is_refused(small, event, db, database_url, prove):
    admin = small(parked_max=3)
    with holding(database_url, HOLD_ALL_WRITES) as bystander:
        claim = ask(hold_shot(admin.as_user(), event, "A-1"))
        await_waiting(db)
        wires = [ask(hold_shot(admin.as_user(), event, "A-1")) for _ in range(6)]
        wait_until(lambda: sum(not wire.silent() for wire in wires) == 3, what="three are refused")
        refused = {wire: wire.answer() for wire in wires if not wire.silent()}
        bystander.release()
    for answer in refused.values():
        assert_overloaded(answer)
    assert claim.answer().status == 201
    assert {wire.answer().code for wire in wires if wire not in refused} == {"seat_taken"}
    prove(event)


def test_long_admin_work_leaves_a_thread_of_the_desk_to_the_reads(small, event, db, database_url):
    """One import may run on two threads. What is long as well waits for its turn, no longer than a request may; what
    is short is answered meanwhile. Where the machine stands still, the import may give up before: then once more."""
    admin = small(desks=2, request_timeout="1s")
    assert any(reads_go_past_long_work(admin, event, db, database_url) for _ in range(5))
    admin.get(f"/api/admin/registry/{event}").expect(200)


def reads_go_past_long_work(admin, event, db, database_url):
    seats = "seat_id,section,row,number\n" + "".join(f"B-{n},main,B,{n}\n" for n in range(1, 4))
    with holding(database_url, "LOCK TABLE seats IN EXCLUSIVE MODE") as bystander:
        importing = Wire(admin.node)
        importing.send(import_shot(admin, event, seats))
        await_waiting(db)
        start = time.monotonic()
        waiting = [ask(shot(admin, "GET", f"/api/admin/{what}/{event}")) for what in ("registry", "verify") * 3]
        past = {admin.occupancy(event).status for _ in range(5)} == {200} and all(wire.silent() for wire in waiting)
        answers = [wire.answer() for wire in waiting]
        took = time.monotonic() - start
        bystander.release()
    assert importing.answer().status in (200, 503)
    for answer in answers:
        if answer.status != 200:
            assert_overloaded(answer)
    return past and tally(answers) == {(503, "overloaded"): 6} and 0.5 < took < 1.5


def import_shot(client, event, csv):
    head = (f"POST /api/events/{event}/seats/import HTTP/1.1\r\nHost: holdfast\r\nAuthorization: Bearer {client.token}\r\n"
            f"Content-Type: text/csv\r\nContent-Length: {len(csv)}\r\n\r\n")
    return (head + csv).encode()


def test_a_hot_table_that_is_full_takes_no_more_and_stays_right(small, org, prove):
    """An entry with a timer of this node's doesn't go: without room for it a hold is not begun."""
    admin = small(hot_seats_max=1000, hot_shards=1)
    event = admin.make_event(1500)

    def buy(number):
        user, told, refused = admin.as_user(), {}, []
        for n in range(number, 1500, 10):
            answer = yield hold_shot(user, event, f"A-{n + 1}", cart=f"cart-{n}")
            if answer.status == 201:
                told[f"A-{n + 1}"] = answer.json
            else:
                assert_overloaded(answer)
                refused.append(f"A-{n + 1}")
        return told, refused

    results = drive([buy(number) for number in range(10)])
    told = {seat: hold for holds, _ in results for seat, hold in holds.items()}
    refused = [seat for _, seats in results for seat in seats]
    assert 900 < len(told) <= 1000, "it knows a few seats of other events as well"
    late = admin.as_user()
    answers = volley([hold_shot(late, event, seat) for seat in list(told)[::20]])
    assert tally(answers) == {(409, "seat_taken"): len(answers)}
    assert {admin.seat_status(event, seat) for seat in refused[::50]} == {"available"}
    seat, hold = next(iter(told.items()))
    Client(admin.node, org, hold["user_id"]).cancel(hold["hold_id"]).expect(200)
    late.hold_one(event, seat).expect(201)
    prove(event, list(told.values()), complete=False)


def test_past_connections_max_clients_wait_for_their_turn(small, event):
    admin = small(connections_max=20)
    health = b"GET /health HTTP/1.1\r\nHost: holdfast\r\n\r\n"
    inside = [Wire(admin.node) for _ in range(20)]
    for wire in inside:
        wire.send(health)
        assert wire.answer().status == 200
    outside = [Wire(admin.node) for _ in range(5)]  # the kernel keeps them
    for wire in outside:
        wire.send(health)
    inside[0].send(health)
    assert inside[0].answer().status == 200
    assert all(wire.silent() for wire in outside)
    for wire in inside[:5]:
        wire.close()
    for wire in outside:
        assert wire.answer().status == 200
    for wire in inside[5:] + outside:
        wire.close()
    admin.as_user().hold_one(event, "A-1").expect(201)
