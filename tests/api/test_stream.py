"""GET /api/events/{event}/stream: what is told, to whom, in which order, and how a reader goes on after a break."""

import random
import re
import statistics
import threading
import time
import uuid

import pytest

from support import tokens
from support.client import Client
from support.house import House
from support.sse import SEAT_EVENTS, EventStream, assert_versions_rise, follow
from support.tables import query
from support.waiting import wait_until

NODE_SETTINGS = {"rate_limits": "off"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture(scope="module")
def second(node, log_folder, database_url, empty_redis):
    """Another node beside the module's; both have heard each other."""
    from support.node import Node
    started = Node(log_folder, database_url, empty_redis, rate_limits="off").start()
    await_trust(node, started)
    yield started
    started.stop()


def await_trust(*nodes):
    """Each is trusted and hears at least the others. A node that was killed is missed for ten seconds."""
    for node in nodes:
        def hears():
            said = Client(node, "x", token="").get("/ready").json
            return said["trusted"] and said["peers_heard"] >= len(nodes) - 1
        wait_until(hears, timeout=20)


def await_whole(client, event, seat, *streams):
    """An event that is new was told to all, and its map read again: from then on all that comes has an id. `seat` is
    held and given back until it is so."""
    def has_ids():
        client.cancel(client.held(event, seat, cart="whole")["hold_id"]).expect(200)
        return all([stream.seats(2)[-1].id for stream in streams])

    wait_until(has_ids, timeout=20, every=0.2)


@pytest.fixture(autouse=True)
def trusted(node):
    await_trust(node)


@pytest.fixture
def mourned(node):
    """For a test that kills a node: it ends when that one isn't missed any more."""
    def known():
        said = Client(node, "x", token="").get("/ready").json
        return said["trusted"] and said["peers_known"]

    before = known()
    yield
    wait_until(lambda: known() is not False and known() <= before, timeout=20)


@pytest.fixture
def stream(client, event):
    """A stream of the test's event on the module's node, behind its first event."""
    with EventStream(client, event) as opened:
        opened.expect(200)
        assert opened.next().name == "occupancy_changed"
        yield opened


def told(event):
    """What is told of a seat, without times."""
    return event.name, event.data["seat_id"], event.data["status"], event.data["version"], event.data.get("reason")


# --- the answer ------------------------------------------------------------------------------------------------


def test_a_stream_begins_with_its_counts_and_an_id(client, event):
    client.held(event, "A-1", "A-2")
    with EventStream(client, event) as stream:
        stream.expect(200)
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-cache"
        assert stream.headers["x-accel-buffering"] == "no"
        first = stream.next()
    assert first.name == "occupancy_changed" and first.id
    said = client.occupancy(event).expect(200).json
    assert {**first.data, "timestamp": 0} == {**said, "timestamp": 0}
    assert first.data["held"] == 2 and first.data["total"] == 10


def test_it_needs_a_token_and_an_event_of_the_organization(node, client, event):
    stranger = Client(node, f"org-{uuid.uuid4().hex[:8]}")
    EventStream(Client(node, client.org, token="nonsense"), event).expect(401, "unauthenticated")
    EventStream(stranger, event).expect(404, "event_not_found")
    EventStream(client, "no-such-event").expect(404, "event_not_found")
    for query in ("?ticket=", "?ticket", "?ticket=&ticket=x"):
        Client(node, client.org, token="").get(f"/api/events/{event}/stream{query}").expect(401, "unauthenticated")
    EventStream(client, "no%20id").expect(400, "invalid_id")


def test_another_organization_sees_nothing(node, client, event):
    """An event of the same id, of somebody else."""
    stranger = Client(node, f"org-{uuid.uuid4().hex[:8]}", "admin", "admin")
    stranger.make_event(10, event=event)
    with EventStream(stranger, event) as theirs, EventStream(client, event) as ours:
        theirs.expect(200), ours.expect(200)
        client.held(event, "A-1")
        assert told(ours.seats(1)[0])[:3] == ("seat_held", "A-1", "held")
        theirs.nothing_of_seats(0.5)


# --- what is told ------------------------------------------------------------------------------------------------


def test_hold_extend_and_cancel(client, event, stream):
    hold = client.held(event, "A-1", "A-2")
    events = stream.seats(2)
    assert sorted(told(e) for e in events) == [("seat_held", "A-1", "held", 1, None), ("seat_held", "A-2", "held", 1, None)]
    assert all(TIME.fullmatch(e.data["timestamp"]) and e.id for e in events)
    client.extend(hold["hold_id"]).expect(200)
    assert sorted(told(e) for e in stream.seats(2)) == [("seat_held", "A-1", "held", 2, None),
                                                        ("seat_held", "A-2", "held", 2, None)]
    client.cancel(hold["hold_id"]).expect(200)
    assert sorted(told(e) for e in stream.seats(2)) == [
        ("seat_released", "A-1", "available", 3, "user_cancelled"),
        ("seat_released", "A-2", "available", 3, "user_cancelled")]


def test_confirm(client, event, stream):
    hold = client.held(event, "A-3")
    client.confirm(hold["hold_id"]).expect(200)
    assert [told(e) for e in stream.seats(2)] == [("seat_held", "A-3", "held", 1, None),
                                                  ("seat_sold", "A-3", "sold", 2, None)]


def test_expiry(client, admin):
    short = admin.make_event(2, policy={"hold_ttl": 1})
    with EventStream(client, short) as stream:
        stream.expect(200)
        client.held(short, "A-1")
        assert [told(e) for e in stream.seats(2)] == [("seat_held", "A-1", "held", 1, None),
                                                      ("seat_released", "A-1", "available", 2, "ttl_expired")]


def test_a_take_over_is_two_events(node, client, other, admin, db, start_node, mourned):
    """The node whose timer it is is stopped, and no other sweeps: so the hold is over and not cleaned up."""
    event = admin.make_event(2, policy={"hold_ttl": 4})
    first = start_node(rate_limits="off", reaper_interval_ms=600000)
    await_trust(first)
    with EventStream(client, event) as stream:
        stream.expect(200)
        client.at(first).held(event, "A-1")
        assert told(stream.seats(1)[0])[3] == 1
        first.kill()
        db.cursor().execute("UPDATE seats SET held_until = clock_timestamp() - interval '1 ms' "
                            "WHERE org_id = %s AND event_id = %s AND seat_id = 'A-1'", (client.org, event))
        answer = other.hold(event, "A-1")
        if answer.status != 201:  # memory refuses while it is within the clock's error
            wait_until(lambda: other.hold(event, "A-1").status == 201, timeout=15)
        events = [told(e) for e in stream.seats(2)]
        assert events in ([("seat_released", "A-1", "available", 2, "ttl_expired"), ("seat_held", "A-1", "held", 3, None)],)


def test_block_and_unblock(client, admin, event, stream):
    admin.post("/api/admin/seats/block", {"event_id": event, "seat_ids": ["A-1"]}).expect(200)
    admin.post("/api/admin/seats/unblock", {"event_id": event, "seat_ids": ["A-1"]}).expect(200)
    assert [told(e) for e in stream.seats(2)] == [("seat_blocked", "A-1", "blocked", 1, None),
                                                  ("seat_released", "A-1", "available", 2, "unblocked")]


def test_seats_come_and_go(client, admin, event, stream):
    csv = "seat_id,section,row,number\nZ-1,main,Z,1\nZ-2,main,Z,2\n"
    admin.post(f"/api/events/{event}/seats/import", body=csv, headers={"Content-Type": "text/csv"}).expect(200)
    assert sorted(told(e) for e in stream.seats(2)) == [("seat_added", "Z-1", "available", 0, None),
                                                        ("seat_added", "Z-2", "available", 0, None)]
    admin.delete(f"/api/events/{event}/seats/Z-1").expect(200)
    assert told(stream.seats(1)[0]) == ("seat_removed", "Z-1", "removed", 1, None)
    admin.post(f"/api/events/{event}/seats/import", body=csv, headers={"Content-Type": "text/csv"}).expect(200)
    assert told(stream.seats(1)[0]) == ("seat_added", "Z-1", "available", 2, None)
    assert client.held(event, "Z-1", "Z-2")
    assert {told(e)[1] for e in stream.seats(2)} == {"Z-1", "Z-2"}


def test_another_price_of_a_free_seat_releases_nothing(client, admin, event, stream):
    csv = "seat_id,section,row,number,price\nZ-1,main,Z,1,{}\n"
    path = f"/api/events/{event}/seats/import"
    for price, name, version in ((1000, "seat_added", 0), (2000, "seat_changed", 1)):
        admin.post(path, body=csv.format(price), headers={"Content-Type": "text/csv"}).expect(200)
        assert told(stream.seats(1)[0]) == (name, "Z-1", "available", version, None)


def test_occupancy_at_most_once_a_second_and_only_when_it_changed(client, event, stream):
    began = time.monotonic()
    for n in range(1, 9):
        client.held(event, f"A-{n}")
        time.sleep(0.15)
    started = time.monotonic()
    while (seen := stream.next(names={"occupancy_changed"})).data["held"] < 8:
        pass
    assert time.monotonic() - started < 4
    counts = [e.data["held"] for e in stream.events if e.name == "occupancy_changed"]
    assert len(counts) <= 2 + (time.monotonic() - began) and counts == sorted(set(counts)), counts
    assert seen.data["available"] == 2 and seen.id
    before = len(stream.events)
    stream.nothing_of_seats(1.5)
    assert len(stream.events) == before


def test_areas_move_the_counts(client, admin):
    event = admin.make_event(2, areas=[{"area_id": "floor", "name": "Floor", "capacity": 50}])
    with EventStream(client, event) as stream:
        stream.expect(200)
        assert stream.next().data["available"] == 52
        client.hold(event, areas=[{"area_id": "floor", "quantity": 5}]).expect(201)
        assert stream.next().data["held"] == 5


# --- going on after a break ---------------------------------------------------------------------------------------


def burst(client, other, event):
    """Holds, releases and sales in quick succession; returns how many events of seats they make."""
    count = 0
    for n in range(1, 7):
        hold = client.held(event, f"A-{n}")["hold_id"]
        if n % 2:
            client.cancel(hold).expect(200)
            other.confirm(other.held(event, f"A-{n}")["hold_id"]).expect(200)
            count += 4
        else:
            client.extend(hold).expect(200)
            count += 2
    many = client.held(event, "A-7", "A-8", "A-9")["hold_id"]
    client.cancel(many).expect(200)
    return count + 6


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same_node", "another_node"])
def test_a_reader_cut_off_anywhere_goes_on_exactly_there(client, other, event, node, second, elsewhere):
    with EventStream(client, event) as whole:
        whole.expect(200).next()
        start = whole.last_id
        all_of_it = whole.seats(burst(client, other, event))
    expected = [told(e) for e in all_of_it]
    assert_versions_rise(all_of_it)
    at = second if elsewhere else node
    if elsewhere:  # it has heard all of it
        wait_until(lambda: client.at(second).seat(event, "A-9").json["version"] == 2, timeout=5)
    for k in range(len(expected) + 1):
        since = all_of_it[k - 1].id if k else start
        with EventStream(client, event, last_event_id=since, node=at) as rest:
            rest.expect(200)
            got = []
            while (e := rest.next()).name != "occupancy_changed":
                assert e.name != "reset", (k, since)
                got.append(e)
            assert sorted(told(e) for e in got) == sorted(expected[k:]), (k, since)
            assert_versions_rise(got)
            if not elsewhere:
                assert [e.id for e in got] == [e.id for e in all_of_it[k:]]


def test_a_reader_wanders_between_nodes_while_people_buy(client, other, admin, node, second, db):
    """Cut at random, resumed at the other node: each change is told exactly once, in the order of versions."""
    event = admin.make_event(40)
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    done = threading.Event()

    def buy(user, at):
        mine = user.at(at)
        for _ in range(60):
            answer = mine.hold(event, f"A-{chance.randrange(1, 41)}")
            if answer.status == 201 and chance.random() < 0.7:
                mine.cancel(answer.json["hold_id"])
        done.set()

    buyers = [threading.Thread(target=buy, args=(user, at)) for user, at in ((client, node), (other, second))]
    stream, events = EventStream(client, event), []
    stream.expect(200).next()
    await_whole(client, event, "A-40", stream)
    for buyer in buyers:
        buyer.start()
    turns = 0
    while any(b.is_alive() for b in buyers) or turns < 3:
        until = time.monotonic() + chance.random() * 0.3
        while time.monotonic() < until:
            stream.receive(0.02)
        events += [e for e in stream.events if e.name in SEAT_EVENTS or e.name == "reset"]
        last, turns = stream.last_id, turns + 1
        stream.close()
        stream = EventStream(client, event, last_event_id=last, node=chance.choice((node, second)))
        stream.expect(200).next()
    for buyer in buyers:
        buyer.join()
    stand = dict(query(db, "SELECT seat_id, version FROM seats WHERE org_id = %s AND event_id = %s", client.org, event))

    def has_all():
        stream.receive(0.05)
        return len(events) + sum(e.name in SEAT_EVENTS for e in stream.events) >= sum(stand.values())

    wait_until(has_all, timeout=10, what="as many events as there were changes")
    stream.receive(0.3)
    events += [e for e in stream.events if e.name in SEAT_EVENTS or e.name == "reset"]
    stream.close()
    assert not [e for e in events if e.name == "reset"]
    assert_versions_rise(events)
    versions = {}
    for e in events:
        versions[e.data["seat_id"]] = versions.get(e.data["seat_id"], 0) + 1
    assert versions == {seat: version for seat, version in stand.items() if version}  # as many as there were changes


@pytest.mark.parametrize("last_id", ["garbage", "0", "1.1", "zz.9_zz.8", "9" * 5000, "1.5-1.6.1", "\xff"])
def test_what_is_no_position_of_ours_begins_with_a_reset(client, event, last_id):
    with EventStream(client, event, last_event_id=last_id) as stream:
        stream.expect(200)
        first, second = stream.next(), stream.next()
        assert first.name == "reset" and first.id and first.data == {}
        assert second.name == "occupancy_changed" and second.id == first.id
        client.held(event, "A-1")
        assert told(stream.seats(1)[0])[:2] == ("seat_held", "A-1")


def test_the_query_says_it_too(client, event, stream):
    client.held(event, "A-1")
    assert stream.seats(1)
    with EventStream(client, event, **{"last_event_id": stream.events[0].id}) as rest:
        assert told(rest.expect(200).next())[:2] == ("seat_held", "A-1")


def test_what_can_be_resumed_from_is_counted(client, event, node):
    client.held(event, "A-1")
    metrics = node.metrics()
    assert metrics["holdfast_feed_log_records"] > 0
    assert metrics["holdfast_feed_log_bytes"] > metrics["holdfast_feed_log_records"]
    wait_until(lambda: node.metrics()["holdfast_feed_outbox_records"] == 0)  # it is sent at once
    assert metrics["holdfast_feed_outbox_dropped_total"] == 0


def test_what_was_too_long_ago_begins_with_a_reset(client, admin, other, start_node):
    small = start_node(rate_limits="off", feed_log_max="64KiB")
    await_trust(small)
    event = admin.at(small).make_event(10)
    there = client.at(small)
    with EventStream(there, event) as stream:
        old = stream.expect(200).next().id
        for _ in range(400):
            there.cancel(there.held(event, *(f"A-{n}" for n in range(1, 9)))["hold_id"]).expect(200)
    with EventStream(there, event, last_event_id=old) as stream:
        assert stream.expect(200).next().name == "reset"


def test_an_import_between_begins_with_a_reset(client, admin, event, stream):
    """New seats stand in no record: the reader has to read the map."""
    old = stream.last_id
    csv = "seat_id,section,row,number\nZ-1,main,Z,1\n"
    admin.post(f"/api/events/{event}/seats/import", body=csv, headers={"Content-Type": "text/csv"}).expect(200)
    with EventStream(client, event, last_event_id=old) as rest:
        assert rest.expect(200).next().name == "reset"


# --- two nodes --------------------------------------------------------------------------------------------------


def test_changes_of_one_node_are_told_on_the_other(client, other, event, second):
    with EventStream(client, event, node=second) as there, EventStream(client, event) as here:
        here.expect(200).next(), there.expect(200).next()
        await_whole(client, event, "A-10", there, here)
        for n in range(1, 6):
            user = client if n % 2 else other.at(second)
            user.confirm(user.held(event, f"A-{n}")["hold_id"]).expect(200)
        mine, theirs = here.seats(10), there.seats(10)
    assert sorted(map(told, mine)) == sorted(map(told, theirs))
    assert {e.data["timestamp"] for e in mine} == {e.data["timestamp"] for e in theirs}
    assert_versions_rise(mine), assert_versions_rise(theirs)
    assert all(e.id for e in mine + theirs)


def test_maps_tell_differences_to_readers_of_the_other_node(client, event, node, second):
    """since= of one node's version at the other: exactly what changed."""
    at = {node: client, second: client.at(second)}
    for user in at.values():
        user.seats(event).expect(200)

    def is_told():
        """Of A-3, or that the reader must begin anew: a map's version is told from some seconds after it was read."""
        version = at[node].seats(event).expect(200).json["version"]
        held = at[second].held(event, "A-3", cart="c3")["hold_id"]
        wait_until(lambda: at[node].seats(event).json["seats"][2]["status"] == "held", timeout=5)
        delta = at[second].get(f"/api/events/{event}/seats?since={version}").expect(200).json
        back = at[node].get(f"/api/events/{event}/seats?since={delta['version']}").expect(200).json
        if "full" in delta or "full" in back:
            at[second].cancel(held).expect(200)
            wait_until(lambda: at[node].seats(event).json["seats"][2]["status"] == "available", timeout=5)
            return False
        assert [s["seat_id"] for s in delta["seats"]] == ["A-3"] and back["seats"] == []
        return True

    wait_until(is_told, timeout=30, every=0.5)


def test_a_killed_nodes_last_commit_is_told_by_the_others(client, event, start_node, mourned):
    """Killed right after the answer, or even before it: the others find it by reading."""
    victim = start_node(rate_limits="off")
    await_trust(victim, client.node)
    with EventStream(client, event) as stream:
        stream.expect(200).next()
        client.at(victim).held(event, "A-1")
        victim.kill()
        held = stream.next(timeout=3.5, names={"seat_held"})
        assert told(held)[:3] == ("seat_held", "A-1", "held")


def test_without_redis_changes_of_others_are_found_by_reading(workplace, log_folder, client, other, admin):
    with House(workplace, log_folder, rate_limits="off") as house:
        follow_without_redis(house, client, other, admin)


def follow_without_redis(house, client, other, admin):
    first, peer = house.nodes
    await_trust(first, peer)
    event = admin.at(first).make_event(41)
    with EventStream(client, event, node=first) as stream:
        stream.expect(200).next()
        await_whole(client.at(first), event, "A-41", stream)
        house.redis.stop()
        waits = []
        for n in (1, 2, 3):
            started = time.monotonic()
            other.at(peer).held(event, f"A-{n}")
            while told(e := stream.next(timeout=10, names=SEAT_EVENTS))[1] != f"A-{n}":
                pass
            waits.append(time.monotonic() - started)
            assert e.id is None  # found by reading: nobody can say who else has it
        assert statistics.median(waits) < 3.5, waits
        house.redis.start()
        await_trust(first, peer)
        for n in range(4, 41):  # soon the map has been read again, and ids can be told
            other.at(peer).held(event, f"A-{n}")
            while told(e := stream.next(timeout=10, names=SEAT_EVENTS))[1] != f"A-{n}":
                pass
            if e.id:
                break
            time.sleep(0.5)
        assert e.id


# --- tickets -----------------------------------------------------------------------------------------------------


def ticket(client, event):
    said = client.post(f"/api/events/{event}/stream-ticket").expect(200).json
    assert said["expires_in_seconds"] == 60
    return said["ticket"]


def test_a_ticket_opens_one_stream_on_any_node(client, event, second):
    for at in (client.node, second):
        mine = ticket(client, event)
        with EventStream(client, event, ticket=mine, node=at) as stream:
            stream.expect(200).next()
            client.cancel(client.held(event, "A-1")["hold_id"]).expect(200)
            assert told(stream.seats(2)[0])[:2] == ("seat_held", "A-1")
        for again in (client.node, second):
            EventStream(client, event, ticket=mine, node=again).expect(401, "unauthenticated")


def test_a_ticket_is_good_for_its_event_only(client, admin, event):
    another, mine = admin.make_event(2), ticket(client, event)
    EventStream(client, another, ticket=mine).expect(401, "unauthenticated")
    EventStream(client, event, ticket="0" * 48).expect(401, "unauthenticated")
    EventStream(client, event, ticket=mine).expect(200).close()


def test_only_one_of_many_uses_it(client, event, second):
    mine = ticket(client, event)
    streams = [EventStream(client, event, ticket=mine, node=at) for at in (client.node, second) * 10]
    follow(streams, lambda: all(s.status for s in streams), 10)
    assert sorted(s.status for s in streams) == [200] + [401] * 19
    for stream in streams:
        stream.close()


def test_a_ticket_is_over_after_a_minute_by_the_databases_clock(client, event, db):
    mine = ticket(client, event)
    db.cursor().execute("UPDATE stream_tickets SET expires_at = expires_at - interval '60 s' WHERE org_id = %s", (client.org,))
    EventStream(client, event, ticket=mine).expect(401, "unauthenticated")


def test_a_ticket_needs_a_token_and_an_event(node, client, event):
    Client(node, client.org, token="nonsense").post(f"/api/events/{event}/stream-ticket").expect(401)
    client.post("/api/events/nowhere/stream-ticket").expect(404, "event_not_found")
    stranger = Client(node, f"org-{uuid.uuid4().hex[:8]}")
    stranger.post(f"/api/events/{event}/stream-ticket").expect(404, "event_not_found")


def test_tickets_are_kept_as_hashes(client, event, db):
    mine = ticket(client, event)
    cursor = db.cursor()
    cursor.execute("SELECT count(*) FROM stream_tickets t WHERE t::text LIKE %s", (f"%{mine}%",))
    assert cursor.fetchone() == (0,)


# --- ends and limits -----------------------------------------------------------------------------------------------


def test_a_stream_ends_with_its_token(node, client, event):
    short = tokens.mint(node.secret, client.org, "user-1", "user", ttl=4)
    with EventStream(Client(node, client.org, "user-1", token=short), event) as stream:
        stream.expect(200).next()
        stream.await_end(8)
        assert not stream.socket.recv(1)


def test_streams_end_when_the_node_drains_and_go_on_elsewhere(client, event, node, start_node):
    leaving = start_node(rate_limits="off")
    await_trust(leaving, node)
    with EventStream(client, event, node=leaving) as stream:
        stream.expect(200).next()
        client.at(leaving).held(event, "A-1")
        stream.seats(1)
        stopper = threading.Thread(target=leaving.stop)
        stopper.start()
        stream.await_end(10)
        stopper.join()
        last = stream.last_id
    client.held(event, "A-2")
    with EventStream(client, event, last_event_id=last) as stream:
        assert told(stream.expect(200).seats(1)[0])[:2] == ("seat_held", "A-2")


def test_there_is_a_limit(client, event, start_node):
    small = start_node(rate_limits="off", streams_max=2)
    streams = [EventStream(client, event, node=small).expect(200) for _ in range(2)]
    refused = EventStream(client, event, node=small).expect(503, "overloaded")
    assert refused.headers["retry-after"]
    streams[0].close()
    wait_until(lambda: EventStream(client, event, node=small).receive(2) and True, timeout=5)
    for stream in streams:
        stream.close()


def test_a_refusal_costs_no_ticket(client, event, start_node):
    small = start_node(rate_limits="off", streams_max=1)
    mine = ticket(client, event)
    with EventStream(client, event, node=small) as stream:
        stream.expect(200)
        EventStream(client, event, ticket=mine, node=small).expect(503, "overloaded")
    EventStream(client, event, ticket=mine).expect(200).close()


def test_watched_events_leave_room_for_the_maps_of_others(client, admin, start_node):
    """Else a few streams would keep every other event's map from being read."""
    small = start_node(rate_limits="off", maps_max=4)
    events = [admin.make_event(3) for _ in range(5)]
    streams = [EventStream(client, e, node=small).expect(200) for e in events[:3]]
    EventStream(client, events[3], node=small).expect(503, "overloaded")
    for e in events:
        assert len(client.at(small).seats(e).expect(200).json["seats"]) == 3
    for stream in streams:
        stream.close()


def test_the_log_says_who_streams(client, event, start_node):
    """One line as for every other answer, when the stream begins."""
    small = start_node(rate_limits="off", log_level="debug")
    with EventStream(client, event, node=small) as stream:
        stream.expect(200).next()
        wait_until(lambda: "stream_get" in small.log_text(), timeout=5)
        line, = [line for line in small.log_lines() if line["event"] == "answered" and line["route"] == "stream_get"]
        assert (line["status"], line["code"], line["org"], line["user"]) == (200, "ok", client.org, client.user)
        assert line["client"] == "127.0.0.1" and line["request_id"] == stream.headers["x-request-id"]


def test_a_slow_reader_is_cut_off_and_slows_nobody(client, admin, start_node):
    there = start_node(rate_limits="off")
    await_trust(there)
    mine, event = client.at(there), admin.make_event(200, policy={"max_seats_per_hold": 200})
    seats, cut = [f"A-{n}" for n in range(1, 201)], "holdfast_http_streams_slow_total"
    slow = EventStream(client, event, node=there, receive_buffer=4096)
    slow.expect(200).next()
    turns, waits = 0, []
    with EventStream(client, event, node=there) as quick:
        quick.expect(200).next()
        while there.metrics()[cut] == 0:
            started = time.monotonic()
            mine.cancel(mine.held(event, *seats)["hold_id"]).expect(200)
            quick.seats(400, timeout=20)
            waits.append(time.monotonic() - started)
            turns += 1
            assert turns < 500, "nobody is cut off"
    assert statistics.median(waits) < 2, waits
    slow.await_end(30)
    assert len([e for e in slow.events if e.name in SEAT_EVENTS]) < 400 * turns
    assert_versions_rise(slow.events)


def test_a_thousand_streams_of_one_event(client, event):
    streams = [EventStream(client, event) for _ in range(1000)]
    follow(streams, lambda: all(s.events for s in streams), 30)
    assert {s.status for s in streams} == {200}
    started = time.monotonic()
    for n in range(1, 11):
        client.held(event, f"A-{n}")
    follow(streams, lambda: all(sum(e.name == "seat_held" for e in s.events) == 10 for s in streams), 30)
    print(f"1,000 streams had 10 changes after {time.monotonic() - started:.2f} s")
    for stream in streams:
        assert_versions_rise(stream.events)
        stream.close()
    wait_until(lambda: client.node.metrics().get("holdfast_http_streams") == 0, timeout=10)


def test_a_heartbeat_says_where_it_is(client, event, stream):
    before = stream.last_id
    other_event = Client(client.node, client.org, "admin-1", "admin").make_event(1)
    client.held(other_event, "A-1")
    until = time.monotonic() + 30
    while stream.last_id == before and time.monotonic() < until:
        stream.receive(1)  # the first may have left before the other event changed
    assert set(stream.comments) == {"alive"} and stream.last_id != before
