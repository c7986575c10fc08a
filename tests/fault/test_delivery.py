"""Deliveries of the outbox beside consumers that fail, hang, answer slowly and come back, and nodes that die.

Everything comes, in order per event, at least once, and no organization waits for another's consumer.
"""

import contextlib
import json
import time
import uuid

import psycopg2
import pytest

from support import servers
from support.bystander import await_waiting, execute
from support.client import Client
from support.house import House
from support.receiver import Receiver, put_webhook
from support.tables import all_is_told, query
from support.waiting import at_once, wait_until

SEATS = 30
TIMEOUT_S = 1
SETTINGS = {"delivery_allow_private": "on", "delivery_backoff": "50ms", "delivery_timeout": f"{TIMEOUT_S}s"}
LEASE_S = 2 * TIMEOUT_S + 5  # as src/delivery/store.c has it


@pytest.fixture(scope="module")
def broken_house(workplace, log_folder):
    with House(workplace, log_folder, nodes=2, **SETTINGS) as house:
        yield house


@pytest.fixture
def house(broken_house):
    return broken_house.whole()


@pytest.fixture
def receivers(request):
    """receivers() -> a consumer that is closed when the test ends."""
    def make():
        made = Receiver()
        request.addfinalizer(made.close)
        return made

    return make


class Tenant:
    """An organization with some events, a webhook, and a user who is busy at both nodes."""

    def __init__(self, house, receiver, events=3):
        self.house, self.receiver = house, receiver
        self.admin = house.admin()
        self.events = [self.admin.make_event(SEATS, policy={"max_seats_per_hold": 8}) for _ in range(events)]
        put_webhook(self.admin, receiver).expect(201)

    def live(self, nodes=None, rounds=4):
        """Holds, cancels and sales in each event, at all nodes at once."""
        nodes = nodes or self.house.nodes
        users = [Client(nodes[i % len(nodes)], self.admin.org, f"user-{uuid.uuid4().hex[:8]}")
                 for i in range(2 * len(self.events))]

        def one(index):
            user, event = users[index], self.events[index // 2]
            for number in range(rounds):
                hold = user.hold_one(event, f"A-{1 + (index * rounds + number) % SEATS}", cart=uuid.uuid4().hex)
                if hold.status == 201:
                    end = user.confirm if number == rounds - 1 else user.cancel
                    end(hold.json["hold_id"]).expect(200)

        at_once(len(users), one)

    def written(self):
        """{event: [ids]} of what is to be told."""
        with self.house.database() as db:
            rows = query(db, "SELECT event_id, id FROM outbox WHERE org_id = %s ORDER BY id", self.admin.org)
        return {event: [row.id for row in rows if row.event_id == event] for event in self.events}

    def has_heard_all(self):
        heard = {event["id"] for event in list(self.receiver.events)}
        return all(set(ids) <= heard for ids in self.written().values())

    def await_all(self, timeout=30):
        """All came, each event's in order, and nothing that isn't there."""
        wait_until(self.has_heard_all, timeout, every=0.1, what=f"all of {self.admin.org} is told")
        self.receiver.assert_in_order()
        for event, ids in self.written().items():
            assert ids, "the test did nothing"
            assert [told["id"] for told in self.receiver.of(event)] == ids


def flaky():
    """Fails every second call."""
    seen = []

    def answer(_):
        seen.append(None)
        return 503 if len(seen) % 2 else 204

    return answer


@pytest.mark.parametrize("trouble", ["take", "fail", "hang", "slow", flaky], ids=["none", "fails", "hangs", "slow", "flaky"])
def test_a_consumer_with_trouble_gets_everything_in_order(house, receivers, trouble):
    receiver = receivers()
    tenant = Tenant(house, receiver)
    receiver.behave(trouble() if callable(trouble) else trouble)
    tenant.live()
    if trouble in ("fail", "hang"):
        wait_until(lambda: len(receiver.calls) >= 3, 20)
        assert receiver.events == []
    tenant.live(rounds=2)
    if trouble != "slow" and not callable(trouble):
        receiver.behave("take")
    tenant.await_all()
    for event in tenant.events:
        with house.database() as db:
            wait_until(lambda: all_is_told(db, tenant.admin.org))
        house.prove(tenant.admin.org, event)


def test_nothing_is_passed_over_while_nodes_route_take_and_settle_at_once(house, receivers):
    """Many events with little in each: one node takes what another one adds to in the same moment."""
    tenant = Tenant(house, receivers(), events=12)
    for _ in range(4):
        tenant.live(rounds=6)
    tenant.await_all()


@pytest.fixture
def still_database(postgres_url, migrated_template):
    """A migrated database without nodes."""
    name = f"holdfast_still_{uuid.uuid4().hex[:8]}"
    yield servers.make_database(postgres_url, name, migrated_template)
    connection = psycopg2.connect(postgres_url)
    connection.autocommit = True
    execute(connection, f'DROP DATABASE "{name}" WITH (FORCE)')
    connection.close()


def test_a_delivery_that_grows_while_it_is_taken_goes_no_further_than_its_taker_sees(still_database):
    """take_deliveries, held still between its snapshot and its lock, while another node routes one event more."""
    text = (servers.CLONE / "db/statements/take_deliveries.sql").read_text()
    slow = text.replace("SELECT clock_timestamp() AS now", "SELECT clock_timestamp() AS now FROM pg_advisory_xact_lock(1)")
    assert slow != text
    add = "INSERT INTO outbox (org_id, event_id, kind, payload) VALUES ('o', 'e', 'seat.held', '{}')"
    with contextlib.closing(psycopg2.connect(still_database)) as taker, \
            contextlib.closing(psycopg2.connect(still_database)) as router:
        taker.autocommit = router.autocommit = True
        execute(router, "INSERT INTO webhooks (org_id, url, secret) VALUES ('o', 'http://x/', 's')")
        execute(router, add)
        execute(router, "INSERT INTO deliveries (org_id, channel, subject, event_id, told_to, todo_to, next_at) "
                              "VALUES ('o', 'webhook', 'e', 'e', 0, 1, now())")
        execute(taker, f"PREPARE take AS {slow}")
        execute(router, "SELECT pg_advisory_lock(1)")

        def one(index):
            if index == 0:
                return query(taker, "EXECUTE take(10, 4, 1000000, false, 100)")
            try:
                await_waiting(router)
                execute(router, add)
                execute(router, "UPDATE deliveries SET todo_to = 2")
            finally:
                execute(router, "SELECT pg_advisory_unlock(1)")
            return None

        taken, _ = at_once(2, one)
        assert [(row.id, row.todo_to) for row in taken] == [(1, 1)]
        assert query(router, "SELECT todo_to, leased FROM deliveries") == [(2, True)]


def test_others_do_not_wait_for_a_consumer_that_hangs(house, receivers):
    """However many events of its own wait: what others hear comes as quickly as before."""
    hanging = [Tenant(house, receivers(), events=12) for _ in range(3)]
    for tenant in hanging:
        tenant.receiver.behave("hang")
        tenant.live(rounds=1)
    wait_until(lambda: all(tenant.receiver.calls for tenant in hanging), 20)
    well = Tenant(house, receivers(), events=1)
    delays = []
    for number in range(10):
        began = time.monotonic()
        Client(house.nodes[0], well.admin.org, "user-1").held(well.events[0], f"A-{1 + number}", cart=f"cart-{number}")
        wait_until(lambda: len(well.receiver.of(well.events[0])) == number + 1, 10, every=0.005)
        delays.append(time.monotonic() - began)
    assert sorted(delays)[len(delays) // 2] < TIMEOUT_S, delays
    well.await_all()
    for tenant in hanging:
        tenant.receiver.behave("take")
    for tenant in hanging:
        tenant.await_all(60)


def test_an_organization_has_few_under_way(house, receivers):
    receiver = receivers()
    tenant = Tenant(house, receiver, events=20)
    receiver.behave("hang")
    tenant.live(rounds=1)
    wait_until(lambda: receiver.calls, 20)
    time.sleep(0.5 * TIMEOUT_S)
    # Those that came before any was given up.
    at_first = [call for call in receiver.calls if call.at < receiver.calls[0].at + 0.5 * TIMEOUT_S]
    assert len(at_first) <= 4 * len(house.nodes)  # delivery_per_org; each node may count before the other has taken
    receiver.behave("take")
    tenant.await_all(60)


def test_a_node_that_is_killed_loses_nothing(house, receivers):
    """While it is telling: what it had taken another one tells when the lease is over."""
    receiver = receivers()
    tenant = Tenant(house, receiver)
    receiver.behave("slow")
    tenant.live()
    wait_until(lambda: receiver.calls, 20)
    victim, survivor = house.nodes
    victim.kill()
    tenant.live(nodes=[survivor], rounds=2)
    tenant.await_all(LEASE_S + 30)
    victim.start()


def test_a_node_that_stands_still_and_goes_on_disturbs_no_order(house, receivers):
    receiver = receivers()
    tenant = Tenant(house, receiver)
    receiver.behave("slow")
    tenant.live()
    wait_until(lambda: receiver.calls, 20)
    frozen, other = house.nodes
    frozen.pause()
    tenant.live(nodes=[other], rounds=2)
    wait_until(tenant.has_heard_all, LEASE_S + 40, every=0.1)
    frozen.resume()
    tenant.live(rounds=2)
    tenant.await_all(LEASE_S + 30)


def test_a_node_that_stops_hands_over_what_hangs(house, receivers):
    """It waits for a hanging consumer a second at the most, and its lease is nobody's loss."""
    receiver = receivers()
    tenant = Tenant(house, receiver)
    receiver.behave("hang")
    tenant.live(rounds=1)
    wait_until(lambda: receiver.calls, 20)
    began = time.monotonic()
    house.nodes[0].stop()
    assert time.monotonic() - began < 8
    receiver.behave("take")
    tenant.await_all()
    house.nodes[0].start()


def test_postgres_that_crashes_delays_and_loses_nothing(house, receivers):
    receiver = receivers()
    tenant = Tenant(house, receiver)
    receiver.behave("slow")
    tenant.live()
    house.postgres.crash()
    time.sleep(TIMEOUT_S)
    house.postgres.start()
    wait_until(lambda: tenant.admin.get("/api/admin/webhooks").status == 200, 30)
    receiver.behave("take")
    tenant.await_all(LEASE_S + 30)


def test_the_address_is_judged_when_it_is_connected_to(house, receivers):
    """A name tells nothing beforehand: it is the address that a strict node won't connect to."""
    receiver = receivers()
    tenant = Tenant(house, receiver, events=1)
    for node in house.nodes:
        node.restart(delivery_allow_private="off")
    try:
        tenant.live(rounds=1)
        shown = wait_until(lambda: (found := tenant.admin.get("/api/admin/webhooks").expect(200).json).get("error") and found,
                           20)
        assert "own network" in shown["error"]
        assert receiver.calls == []
    finally:
        for node in house.nodes:
            node.restart(delivery_allow_private="on")
    tenant.await_all(60)


def test_what_every_node_was_told_is_one_organizations(house, receivers):
    """Two tenants with the same event id at once: neither hears of the other."""
    tenants = [Tenant(house, receivers(), events=0) for _ in range(2)]
    for tenant in tenants:
        tenant.events = [tenant.admin.make_event(SEATS, event="the-same")]
    at_once(2, lambda i: tenants[i].live())
    for tenant in tenants:
        tenant.await_all()
        assert {json.loads(call.body)["org_id"] for call in tenant.receiver.calls} == {tenant.admin.org}


def test_past_its_bound_the_outbox_drops_the_oldest_of_whoever_has_most(house, receivers):
    """With a metric and a line in the log; the others keep theirs."""
    receiver, other = receivers(), receivers()
    greedy, modest = Tenant(house, receiver, events=1), Tenant(house, other, events=1)
    receiver.behave("hang")
    other.behave("hang")
    modest.live(rounds=1)
    few = modest.written()
    with house.database() as db:
        query(db, "DELETE FROM outbox WHERE org_id NOT IN (%s, %s) RETURNING 1", greedy.admin.org, modest.admin.org)
        query(db, "INSERT INTO outbox (org_id, event_id, kind, payload) SELECT %s, %s, 'seat.held', '{}' "
              "FROM generate_series(1, 2000) RETURNING 1", greedy.admin.org, greedy.events[0])
        wait_until(lambda: query(db, "SELECT routed_to >= (SELECT max(id) FROM outbox) AS routed FROM outbox_cursor")[0].routed, 20)
        for node in house.nodes:
            node.restart(outbox_max=500)
        try:
            wait_until(lambda: query(db, "SELECT count(*) AS n FROM outbox")[0].n <= 500, 60)
            left = query(db, "SELECT min(id) AS first, count(*) AS n FROM outbox WHERE org_id = %s", greedy.admin.org)[0]
            assert 0 < left.n < 500
            wait_until(lambda: sum(node.metrics()['holdfast_outbox_dropped_total{what="event"}'] for node in house.nodes) >= 1000, 10)
            wait_until(lambda: any(line["event"] == "outbox_full" and line["org"] == greedy.admin.org and line["untold"] > 0
                                   for node in house.nodes for line in node.log_lines()), what="the log says so")
            assert modest.written() == few
        finally:
            for node in house.nodes:
                node.restart(outbox_max=1000000)
    for receiver in (receiver, other):
        receiver.behave("take")
    modest.await_all(60)
    greedy.await_all(60)
    assert greedy.receiver.events[0]["id"] >= left.first
