"""/api/admin/webhooks: who may hear of an organization's events, what is told and what never."""

import contextlib
import json
import time

import psycopg2
import pytest

from support.checkouts import complete, started
from support.client import Client
from support.contract import TIME, check_problem, fields_of
from support.receiver import SECRET, Receiver, is_signed, put_webhook
from support.tables import all_is_told, query
from support.waiting import wait_until

WEBHOOKS = "/api/admin/webhooks"
LETTERS = WEBHOOKS + "/dead-letters"
NODE_SETTINGS = {"delivery_allow_private": "on", "delivery_backoff": "50ms", "delivery_timeout": "3s",
                 "delivery_give_up": "2s"}


@pytest.fixture
def receiver():
    with Receiver() as made:
        yield made


def kinds_of(events):
    return [event["kind"] for event in events]


# --- setting it ----------------------------------------------------------------------------------------------


def test_a_webhook_is_made_shown_changed_and_removed(admin, receiver):
    made = put_webhook(admin, receiver).expect(201).json
    assert made == {"url": receiver.url, "kinds": None, "has_secret": True, "created_at": made["created_at"],
                    "updated_at": made["updated_at"]}
    assert TIME.fullmatch(made["created_at"])
    shown = admin.get(WEBHOOKS).expect(200).json
    assert shown == made | {"waiting": 0, "dead_letters": 0}
    changed = put_webhook(admin, receiver, kinds=["seat.held"]).expect(200).json
    assert changed["kinds"] == ["seat.held"] and changed["created_at"] == made["created_at"]
    admin.delete(WEBHOOKS).expect(204)
    admin.get(WEBHOOKS).expect(404, "not_found")
    admin.delete(WEBHOOKS).expect(404, "not_found")


def test_a_secret_of_ours_is_shown_once_and_signs(admin, client, event, receiver):
    made = admin.put(WEBHOOKS, {"url": receiver.url}).expect(201)
    secret = made.json["secret"]
    assert len(secret) >= 32 and made.headers["Cache-Control"] == "no-store"
    for again in (admin.get(WEBHOOKS), admin.put(WEBHOOKS, {"url": receiver.url})):
        assert again.expect(200).json["has_secret"] is True
        assert secret not in again.body.decode() and "secret" not in again.json
    client.held(event, "A-1")
    receiver.await_events(lambda events: events)
    assert is_signed(receiver.calls[0], secret)


def test_a_given_secret_is_never_shown_nor_logged(admin, node, receiver):
    for answer in (put_webhook(admin, receiver), put_webhook(admin, receiver), admin.get(WEBHOOKS)):
        assert SECRET not in answer.body.decode() and "secret" not in answer.json
    assert SECRET not in node.log_text()


def test_another_secret_takes_the_place_of_the_first(admin, client, event, receiver):
    put_webhook(admin, receiver).expect(201)
    put_webhook(admin, receiver, secret="another-secret-of-the-consumer").expect(200)
    client.held(event, "A-1")
    receiver.await_events(lambda events: events)
    assert is_signed(receiver.calls[0], "another-secret-of-the-consumer")


@pytest.mark.parametrize("field, value", [
    ("url", None), ("url", 7), ("url", "nowhere"), ("url", "ftp://198.51.100.1/x"), ("url", "http://"),
    ("url", "http://user:word@consumer.example/"), ("url", "http://consumer.example/" + 2100 * "x"),
    ("url", "http://consumer.example/\r\nX: y"),
    ("secret", "short"), ("secret", 256 * "x"), ("secret", "with a space in it...."), ("secret", 17 * ","),
    ("kinds", []), ("kinds", ["seat.heldd"]), ("kinds", "seat.held"), ("kinds", [1]),
])
def test_what_can_be_no_webhook_is_refused(admin, field, value):
    body = {"url": "https://consumer.example/hook"} | {field: value}
    problem = check_problem(admin.put(WEBHOOKS, body), "invalid_field")
    assert fields_of(problem) == {field}
    admin.get(WEBHOOKS).expect(404)


def test_only_administrators_may(client, receiver):
    put_webhook(client, receiver).expect(403, "forbidden")
    client.get(WEBHOOKS).expect(403, "forbidden")
    client.delete(WEBHOOKS).expect(403, "forbidden")
    client.get(LETTERS).expect(403, "forbidden")
    client.post(LETTERS + "/replay", {"all": True}).expect(403, "forbidden")


# --- the node's own network ------------------------------------------------------------------------------------


OWN_NETWORK = [
    "127.0.0.1", "localhost", "a.localhost", "[::1]", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "0.0.0.0", "[fe80::1]", "[fd00::1]", "[::ffff:127.0.0.1]", "[::ffff:a00:1]", "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]", "127.1", "0x7f000001", "2130706433", "224.0.0.1", "255.255.255.255",
]


def test_addresses_of_the_nodes_own_network_are_refused(start_node, admin):
    strict = admin.at(start_node(delivery_timeout="1s", delivery_backoff="50ms"))
    for host in OWN_NETWORK:
        problem = check_problem(strict.put(WEBHOOKS, {"url": f"http://{host}/hook"}), "invalid_field")
        assert fields_of(problem) == {"url"}, host
    strict.put(WEBHOOKS, {"url": "https://consumer.example/hook"}).expect(201)


# --- what is told ---------------------------------------------------------------------------------------------------


def test_what_becomes_of_a_seat_is_told_in_order(admin, client, event, receiver):
    put_webhook(admin, receiver).expect(201)
    hold = client.held(event, "A-1")
    client.cancel(hold["hold_id"]).expect(200)
    sold = client.held(event, "A-1")
    client.confirm(sold["hold_id"]).expect(200)
    receiver.await_events(lambda events: len(events) >= 4)
    told = receiver.of(event)
    assert kinds_of(told) == ["seat.held", "seat.released", "seat.held", "seat.sold"]
    assert [each["data"]["version"] for each in told] == [1, 2, 3, 4]
    first, released = told[0], told[1]
    assert first["data"]["seat_id"] == "A-1" and first["data"]["hold_id"] == hold["hold_id"]
    assert first["data"]["user_id"] == client.user and first["data"]["expires_at"] == hold["expires_at"]
    assert released["data"]["reason"] == "user_cancelled"
    assert all(TIME.fullmatch(each["at"]) and each["event_id"] == event for each in told)
    assert len({each["id"] for each in told}) == 4
    receiver.assert_in_order()


def test_a_call_is_signed_json_and_names_its_organization(admin, client, org, event, receiver):
    put_webhook(admin, receiver).expect(201)
    client.held(event, "A-1")
    receiver.await_events(lambda events: events)
    call = receiver.calls[0]
    assert is_signed(call) and call.path == "/hook"
    assert call.headers["Content-Type"] == "application/json" and call.headers["User-Agent"].startswith("holdfast/")
    body = json.loads(call.body)
    assert body["org_id"] == org and body["event_id"] == event and len(body["events"]) == 1


def test_areas_are_told_too(admin, client, receiver):
    event = admin.make_event([], areas=[{"area_id": "floor", "name": "Floor", "capacity": 10}])
    put_webhook(admin, receiver).expect(201)
    client.held(event, areas=[{"area_id": "floor", "quantity": 3}])
    receiver.await_events(lambda events: events)
    data = receiver.of(event)[0]["data"]
    assert data["area_id"] == "floor" and data["quantity"] == 3 and "seat_id" not in data


def test_a_hold_that_runs_out_is_told_once_with_its_seats(admin, client, receiver):
    event = admin.make_event(3, policy={"hold_ttl": 1, "extend_by": 1})
    put_webhook(admin, receiver, kinds=["hold.expired"]).expect(201)
    hold = client.held(event, "A-1", "A-2")
    receiver.await_events(lambda events: events)
    [told] = receiver.of(event)
    assert told["kind"] == "hold.expired" and told["data"]["hold_id"] == hold["hold_id"]
    assert sorted(told["data"]["seats"]) == ["A-1", "A-2"]


def test_a_sale_is_told_with_its_tickets(admin, client, event, receiver):
    put_webhook(admin, receiver, kinds=["checkout.completed"]).expect(201)
    client.held(event, "A-1", "A-2")
    checkout = started(client, event)
    answer = complete(client, checkout).expect(200).json
    receiver.await_events(lambda events: events)
    [told] = receiver.of(event)
    assert told["data"]["checkout_id"] == checkout["checkout_id"]
    assert {each["ticket_id"] for each in told["data"]["tickets"]} == {each["ticket_id"] for each in answer["tickets"]}
    assert TIME.fullmatch(told["at"])


def test_only_the_kinds_asked_for_are_told(admin, client, event, receiver, db, org):
    put_webhook(admin, receiver, kinds=["seat.sold"]).expect(201)
    client.confirm(client.held(event, "A-1")["hold_id"]).expect(200)
    receiver.await_events(lambda events: events)
    wait_until(lambda: all_is_told(db, org))
    assert kinds_of(receiver.events) == ["seat.sold"]


def test_nothing_is_told_of_what_came_before_or_after(admin, client, event, receiver, db, org):
    client.held(event, "A-1")
    put_webhook(admin, receiver).expect(201)
    client.held(event, "A-2", cart="cart-2")
    receiver.await_events(lambda events: events)
    admin.delete(WEBHOOKS).expect(204)
    client.held(event, "A-3", cart="cart-3")
    wait_until(lambda: all_is_told(db, org))
    assert [each["data"]["seat_id"] for each in receiver.events] == ["A-2"]
    assert query(db, "SELECT 1 FROM outbox WHERE org_id = %s AND payload->>'seat_id' = 'A-3'", org) == []


def test_other_organizations_hear_nothing(admin, client, event, receiver, node, db, org):
    stranger = Client(node, org + "-x", "admin-1", "admin")
    put_webhook(stranger, receiver).expect(201)
    client.held(event, "A-1")
    elsewhere = stranger.make_event(1)
    Client(node, org + "-x", "user-1").held(elsewhere, "A-1")
    receiver.await_events(lambda events: events)
    wait_until(lambda: all_is_told(db, org))
    assert {json.loads(call.body)["org_id"] for call in receiver.calls} == {org + "-x"}


def test_nothing_is_told_of_a_transaction_that_was_rolled_back(admin, client, event, receiver, database_url, db, org):
    """And what it had drawn before others doesn't hold them up for ever."""
    put_webhook(admin, receiver).expect(201)
    other_side = psycopg2.connect(database_url)
    with other_side.cursor() as cursor:
        cursor.execute("INSERT INTO outbox (org_id, event_id, kind, payload) VALUES (%s, %s, 'checkout.failed', '{}') "
                       "RETURNING id", (org, event))
        [[undone]] = cursor.fetchall()
    client.held(event, "A-1")
    wait_until(lambda: query(db, "SELECT 1 FROM outbox WHERE org_id = %s AND kind = 'seat.held'", org))
    assert receiver.events == []  # an older one may still commit
    other_side.rollback()
    other_side.close()
    receiver.await_events(lambda events: events)
    wait_until(lambda: all_is_told(db, org))
    assert kinds_of(receiver.events) == ["seat.held"] and undone not in [each["id"] for each in receiver.events]


def test_a_lower_id_that_commits_later_is_told_first(admin, client, event, receiver, database_url, org):
    put_webhook(admin, receiver).expect(201)
    other_side = psycopg2.connect(database_url)
    with other_side.cursor() as cursor:
        cursor.execute("INSERT INTO outbox (org_id, event_id, kind, payload) VALUES (%s, %s, 'checkout.failed', '{}')",
                       (org, event))
    client.held(event, "A-1")
    other_side.commit()
    other_side.close()
    receiver.await_events(lambda events: len(events) == 2)
    assert kinds_of(receiver.events) == ["checkout.failed", "seat.held"]


# --- redirects and dead letters -------------------------------------------------------------------------------------


def test_a_redirect_is_a_failure_and_is_not_followed(admin, client, event, receiver):
    receiver.behave(lambda call: 302)
    put_webhook(admin, receiver).expect(201)
    client.held(event, "A-1")
    wait_until(lambda: len(receiver.calls) >= 2, 10)
    assert {call.path for call in receiver.calls} == {"/hook"}
    shown = admin.get(WEBHOOKS).expect(200).json
    assert "302" in shown["error"] and TIME.fullmatch(shown["failing_since"])


def test_an_answer_without_an_end_is_cut_off(admin, client, event, receiver, node):
    """A consumer that says yes and then goes on talking was told, and nobody listens to the rest."""
    said = []

    def talk(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(65536 * b"x")
                said.append(65536)

    receiver.behave(lambda call: talk(call.connection))
    put_webhook(admin, receiver).expect(201)
    client.held(event, "A-1")
    wait_until(lambda: admin.get(WEBHOOKS).expect(200).json["waiting"] == 0 and said, 20)
    assert len(receiver.calls) == 1
    wait_until(lambda: "failing_since" not in admin.get(WEBHOOKS).json)


def test_a_header_without_an_end_is_cut_off(admin, client, event, receiver):
    said = []

    def talk(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        with contextlib.suppress(OSError):
            while sum(said) < 1 << 30:
                connection.sendall(b"X-More: " + 8000 * b"x" + b"\r\n")
                said.append(8010)

    receiver.behave(lambda call: talk(call.connection))
    put_webhook(admin, receiver).expect(201)
    client.held(event, "A-1")
    wait_until(lambda: receiver.calls, 10)
    receiver.behave("take")
    wait_until(lambda: admin.get(WEBHOOKS).expect(200).json["waiting"] == 0, 20)
    assert sum(said) < 16 << 20  # what sockets hold, and little more


def test_what_nobody_took_is_listed_and_told_again_under_its_id(admin, client, event, receiver):
    receiver.behave("fail")
    put_webhook(admin, receiver).expect(201)
    client.held(event, "A-1")
    client.held(event, "A-2", cart="cart-2")
    letters = wait_until(lambda: len(found := admin.get(LETTERS).expect(200).json["dead_letters"]) == 2 and found, 20)
    assert [each["data"]["seat_id"] for each in letters] == ["A-1", "A-2"]
    first = letters[0]
    assert first["channel"] == "webhook" and first["kind"] == "seat.held" and first["event_id"] == event
    assert "500" in first["error"] and first["attempts"] >= 1 and "email" not in first
    page = admin.get(LETTERS + "?limit=1").expect(200).json
    assert page["dead_letters"] == letters[:1] and page["next"] == first["id"]
    assert admin.get(f"{LETTERS}?after={page['next']}").expect(200).json == {"dead_letters": letters[1:]}
    assert admin.get(WEBHOOKS).expect(200).json["dead_letters"] == 2

    receiver.behave("take")
    asked = admin.post(LETTERS + "/replay", {"ids": [first["id"]]}).expect(200).json
    assert asked == {"replayed": 1, "more": False}
    receiver.await_events(lambda events: events)
    assert receiver.events[0]["id"] == first["told_as"] and receiver.events[0]["data"] == first["data"]
    assert admin.post(LETTERS + "/replay", {"all": True}).expect(200).json == {"replayed": 1, "more": False}
    receiver.await_events(lambda events: len(events) == 2)
    assert [each["id"] for each in receiver.events] == [each["told_as"] for each in letters]
    assert admin.get(LETTERS).expect(200).json == {"dead_letters": []}
    assert admin.post(LETTERS + "/replay", {"all": True}).expect(200).json["replayed"] == 0


def test_a_repeated_replay_replays_nothing_more(admin, client, event, receiver):
    """Nor does another body under its key."""
    receiver.behave("fail")
    put_webhook(admin, receiver).expect(201)
    client.held(event, "A-1")
    client.held(event, "A-2", cart="cart-2")

    def letters(count):
        return wait_until(lambda: len(found := admin.get(LETTERS).expect(200).json["dead_letters"]) == count and found, 20)

    first = {"ids": [letters(2)[0]["id"]]}
    key = {"Idempotency-Key": "k"}
    told = admin.post(LETTERS + "/replay", first, headers=key).expect(200)
    assert told.json["replayed"] == 1
    dead = letters(2)  # it died once more
    assert admin.post(LETTERS + "/replay", first, headers=key).expect(200).body == told.body
    admin.post(LETTERS + "/replay", {"all": True}, headers=key).expect(422, "idempotency_key_reused")
    assert letters(2) == dead


@pytest.mark.parametrize("how", ["cut", "hung"])
def test_a_2xx_counts_though_the_rest_of_its_answer_does_not_come(admin, client, event, db, org, receiver, how):
    def half(call):
        call.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        if how == "hung":
            time.sleep(5)  # longer than delivery_timeout

    receiver.behave(half)
    put_webhook(admin, receiver).expect(201)
    client.held(event, "A-1")
    wait_until(lambda: receiver.calls and all_is_told(db, org), 15)
    assert len(receiver.calls) == 1
    assert admin.get(LETTERS).expect(200).json == {"dead_letters": []}


def test_dead_letters_of_others_are_not_theirs_to_see(admin, client, event, receiver, node, org):
    receiver.behave("fail")
    put_webhook(admin, receiver).expect(201)
    client.held(event, "A-1")
    [letter] = wait_until(lambda: admin.get(LETTERS).expect(200).json["dead_letters"], 20)
    stranger = Client(node, org + "-x", "admin-1", "admin")
    assert stranger.get(LETTERS).expect(200).json == {"dead_letters": []}
    assert stranger.post(LETTERS + "/replay", {"ids": [letter["id"]]}).expect(200).json["replayed"] == 0
    assert admin.get(LETTERS).expect(200).json["dead_letters"] == [letter]


@pytest.mark.parametrize("body", [{}, {"ids": []}, {"ids": ["x"]}, {"ids": [0]}, {"all": False}, {"ids": [1], "all": True}])
def test_a_replay_names_what_it_wants(admin, body):
    admin.post(LETTERS + "/replay", body).expect(400, "invalid_field")


# --- bounds --------------------------------------------------------------------------------------------------------


def test_the_outbox_forgets_what_is_old_and_keeps_what_is_not(admin, client, event, receiver, node, db, org):
    put_webhook(admin, receiver).expect(201)
    client.held(event, "A-1")
    client.held(event, "A-2", cart="cart-2")
    receiver.await_events(lambda events: len(events) == 2)
    query(db, "UPDATE outbox SET created_at = created_at - interval '8 days' WHERE org_id = %s AND payload->>'seat_id' = 'A-1' "
          "RETURNING 1", org)
    wait_until(lambda: query(db, "SELECT payload->>'seat_id' AS seat FROM outbox WHERE org_id = %s", org) == [("A-2",)], 30)


def test_what_waits_and_what_was_told_is_in_the_metrics(admin, client, event, receiver, node):
    told = 'holdfast_outbox_told_total{channel="webhook"}'
    failed = 'holdfast_delivery_failures_total{channel="webhook"}'
    before = node.metrics()
    receiver.behave(lambda call: 500 if len(receiver.calls) == 1 else 200)
    put_webhook(admin, receiver).expect(201)
    client.held(event, "A-1")
    receiver.await_events(lambda events: events)
    wait_until(lambda: node.metrics()[told] == before[told] + 1)
    assert node.metrics()[failed] == before[failed] + 1
    for name in ('holdfast_outbox_waiting{channel="webhook"}', 'holdfast_outbox_waiting{channel="mail"}',
                 "holdfast_outbox_oldest_seconds", "holdfast_dead_letters"):
        assert name in before


def test_without_a_mail_server_no_mail_waits(client, event, db, org):
    hold = client.held(event, "A-1", customer_email="buyer@example.org")
    complete(client, started(client, event, [hold["hold_id"]])).expect(200)
    wait_until(lambda: all_is_told(db, org))
    assert query(db, "SELECT email FROM outbox WHERE org_id = %s AND kind = 'checkout.completed'", org) == [("buyer@example.org",)]
    assert query(db, "SELECT 1 FROM deliveries WHERE org_id = %s", org) == []
