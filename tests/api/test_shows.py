"""Seed 004's routes: the seats of a show, and holds with the names of that seed."""

import gzip
import json
import uuid

import pytest

from support.client import Client, seat
from support.contract import check_hold, check_problem, seats_of, time_of
from support.house import House
from support.waiting import at_once, one_of, wait_until

NODE_SETTINGS = {"rate_limits": "off"}


def show_of(client, show, **more):
    return client.get(f"/api/shows/{show}/seats", **more)


@pytest.fixture
def show(admin):
    """Two rows of five on sale."""
    return admin.make_event([seat(f"{row}-{n}", row=row, number=n, price=900) for row in "BA" for n in range(1, 6)],
                            kind="show", policy={"no_single_seat_gap": False})


def hold_show(client, show, *seats, headers=None, **more):
    body = {"showId": show, "showSeatIds": list(seats), "customerEmail": "ann@example.org"} | more
    return client.post("/api/holds", body, headers=headers)


# --- GET /api/shows/{id}/seats ---------------------------------------------------------------------------------


def test_a_show_and_its_seats_in_order(client, admin, show):
    answer = show_of(client, show).expect(200)
    assert answer.headers["Content-Type"] == "application/json"
    assert set(answer.json) == {"show", "version", "areas", "seats"}
    told = answer.json["show"]
    known = admin.get(f"/api/events/{show}").expect(200).json
    assert told == {name: value for name, value in known.items() if name != "seat_count"}
    assert (told["event_id"], told["kind"], told["status"]) == (show, "show", "on_sale")
    assert [entry["seat_id"] for entry in answer.json["seats"]] == [f"{row}-{n}" for row in "AB" for n in range(1, 6)]


def test_its_seats_are_those_of_the_map(client, admin):
    show = admin.make_event(6, kind="show", areas=[{"area_id": "floor", "name": "Floor", "capacity": 9}])
    client.hold(show, "A-1", "A-2", areas=[{"area_id": "floor", "quantity": 2}]).expect(201)
    client.confirm(client.held(show, "A-3", cart="c2")["hold_id"]).expect(200)
    admin.post("/api/admin/seats/block", {"event_id": show, "seat_ids": ["A-4"], "reason": "x"}).expect(200)
    admin.delete(f"/api/events/{show}/seats/A-5").expect(200)
    plain, dressed = client.seats(show).json, show_of(client, show).json
    assert (dressed["seats"], dressed["areas"]) == (plain["seats"], plain["areas"])
    assert len(dressed["seats"]) == 5 and dressed["areas"][0]["available"] == 7
    assert {entry["status"] for entry in dressed["seats"]} == {"held", "sold", "blocked", "available"}


def test_a_change_is_shown_at_once(client, show):
    for n in range(1, 6):
        hold = hold_show(client, show, f"A-{n}").expect(201).json
        [entry] = [entry for entry in show_of(client, show).json["seats"] if entry["seat_id"] == f"A-{n}"]
        assert (entry["status"], entry["held_until"]) == ("held", hold["expires_at"])


@pytest.mark.parametrize("there", [False, True], ids=["same_node", "another_node"])
def test_a_change_of_the_show_itself_is_shown(client, admin, show, start_node, there):
    reader = client.at(start_node()) if there else client

    def renamed(number):
        before = show_of(reader, show).expect(200)
        name = f"Another name {number}"
        admin.make_event([], event=show, kind="show", status="closed", name=name)

        def name_of():
            told = show_of(reader, show, headers={"If-None-Match": before.headers["ETag"]})
            return told.status == 200 and (told.json["show"]["name"], told.json["show"]["status"])

        if there:
            wait_until(lambda: name_of() == (name, "closed"), timeout=2)
        assert name_of() == (name, "closed")
        assert show_of(reader, show).headers["ETag"] != before.headers["ETag"]

    one_of(3 if there else 1, renamed)


def test_the_etag_is_true_until_seats_or_show_change(client, other, admin, show):
    first = show_of(client, show)
    tag = first.headers["ETag"]
    assert tag.startswith('W/"') and first.json["version"] in tag
    assert show_of(other, show).headers["ETag"] == tag
    same = show_of(client, show, headers={"If-None-Match": tag}).expect(304)
    assert same.body == b"" and same.headers["ETag"] == tag
    hold_show(client, show, "A-1").expect(201)
    second = show_of(client, show, headers={"If-None-Match": tag}).expect(200)
    assert second.headers["ETag"] != tag
    show_of(client, show, headers={"If-None-Match": second.headers["ETag"]}).expect(304)
    admin.make_event([], event=show, kind="show", name="Renamed")
    third = show_of(client, show, headers={"If-None-Match": second.headers["ETag"]}).expect(200)
    assert third.json["show"]["name"] == "Renamed"
    # The map's own tag says nothing of the show, and the show's nothing of the map.
    show_of(client, show, headers={"If-None-Match": client.seats(show).headers["ETag"]}).expect(200)
    client.seats(show, headers={"If-None-Match": third.headers["ETag"]}).expect(200)


def test_it_is_compressed_for_who_takes_it(client, admin):
    show = admin.make_event(200, kind="show")
    plain = show_of(client, show)
    zipped = show_of(client, show, headers={"Accept-Encoding": "gzip"}).expect(200)
    assert zipped.headers["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain.headers
    assert json.loads(gzip.decompress(zipped.body)) == plain.json
    assert len(zipped.body) < len(plain.body) / 3


def test_nobodys_identity_is_in_it(client, other, show):
    hold = hold_show(client, show, "A-1", "A-2").expect(201).json
    bodies = {caller.get(f"/api/shows/{show}/seats").body for caller in (client, other, client.as_user("a", "agent"))}
    assert len(bodies) == 1
    for secret in (client.user, hold["hold_id"], hold["cart_token"], "ann@example.org"):
        assert secret.encode() not in bodies.copy().pop()


def test_whom_it_is_not_for(client, node, show):
    check_problem(show_of(client, "nowhere").expect(404, "event_not_found"), "event_not_found")
    stranger = Client(node, f"org-{uuid.uuid4().hex[:8]}", client.user)
    show_of(stranger, show).expect(404, "event_not_found")
    show_of(Client(node, client.org, token=""), show).expect(401, "unauthenticated")
    show_of(client, "a%20b").expect(400, "invalid_id")
    client.post(f"/api/shows/{show}/seats").expect(405, "method_not_allowed")


def test_a_crowd_gets_one_body(admin, show):
    users = [admin.as_user() for _ in range(24)]
    show_of(users[0], show).expect(200)  # the map is there
    answers = at_once(24, lambda i: show_of(users[i], show).expect(200))
    assert len({answer.body for answer in answers}) == 1
    assert len({answer.headers["ETag"] for answer in answers}) == 1


def test_while_postgres_is_away_what_is_written_is_told_as_stale(workplace, log_folder):
    with House(workplace, log_folder, nodes=1, rate_limits="off") as house:
        admin = house.admin()
        seen, unseen = admin.make_event(3, kind="show"), admin.make_event(3, kind="show")
        told = show_of(admin, seen).expect(200)
        house.postgres.stop()
        wait_until(lambda: show_of(admin, unseen).status == 503, timeout=10)
        show_of(admin, unseen).expect(503, "store_unavailable")
        answer = show_of(admin, seen).expect(200)
        assert answer.json["seats"] == told.json["seats"] and answer.json["show"] == told.json["show"]
        house.whole()


# --- POST /api/holds -------------------------------------------------------------------------------------------


def test_a_hold_with_the_names_of_the_seed(client, show, db, check_audit):
    hold = hold_show(client, show, "A-1", "A-2").expect(201).json
    check_hold(hold)
    assert (hold["event_id"], hold["status"], hold["user_id"]) == (show, "active", client.user)
    assert [entry["seat_id"] for entry in hold["seats"]] == ["A-1", "A-2"]
    uuid.UUID(hold["cart_token"])  # the server made it
    with db.cursor() as cursor:
        cursor.execute("SELECT DISTINCT customer_email, cart_token FROM seat_holds WHERE hold_id = %s", (hold["hold_id"],))
        assert cursor.fetchall() == [("ann@example.org", hold["cart_token"])]
    check_audit(show)


def test_each_hold_has_a_cart_of_its_own_and_one_given_is_kept(client, show):
    one, two = hold_show(client, show, "A-1").expect(201).json, hold_show(client, show, "B-1").expect(201).json
    assert one["cart_token"] != two["cart_token"]
    assert hold_show(client, show, "A-4", cart_token="mine").expect(201).json["cart_token"] == "mine"


def test_the_same_again_is_the_same_hold(client, show):
    hold = hold_show(client, show, "A-1", "A-2").expect(201).json
    again = hold_show(client, show, "A-2", "A-1").expect(200).json
    assert (again["hold_id"], again["cart_token"]) == (hold["hold_id"], hold["cart_token"])


def test_a_key_repeats_the_answer_though_the_cart_is_made(client, show):
    key = {"Idempotency-Key": uuid.uuid4().hex}
    first = hold_show(client, show, "A-1", headers=key).expect(201)
    assert hold_show(client, show, "A-1", headers=key).expect(201).body == first.body


def test_all_or_nothing(client, other, show):
    hold_show(other, show, "A-3").expect(201)
    refused = hold_show(client, show, "A-2", "A-3", "A-4")
    check_problem(refused.expect(409, "seat_taken"), "seat_taken")
    assert seats_of(refused.json) == {"A-3": "seat_taken"}
    assert {client.seat_status(show, name) for name in ("A-2", "A-4")} == {"available"}


REFUSED = [
    ({"showSeatIds": ["A-1", "A-1"]}, 400, "duplicate_seat"),
    ({"showId": "nowhere"}, 404, "event_not_found"),
    ({"showSeatIds": ["A-1", "Z-9"]}, 404, "seat_not_found"),
    ({"showSeatIds": []}, 400, "missing_field"),
    ({"showSeatIds": None}, 400, "missing_field"),
    ({"showId": None}, 400, "missing_field"),
    ({"showSeatIds": "A-1"}, 400, "invalid_field"),
    ({"showSeatIds": ["A 1"]}, 400, "invalid_id"),
    ({"showId": "a b"}, 400, "invalid_id"),
    ({"customerEmail": "nobody"}, 400, "invalid_field"),
    ({"customerEmail": 7}, 400, "invalid_field"),
]


@pytest.mark.parametrize("change, status, code", REFUSED, ids=[json.dumps(change) for change, *_ in REFUSED])
def test_what_is_refused(client, show, change, status, code):
    answer = client.post("/api/holds", {"showId": show, "showSeatIds": ["A-1"], "customerEmail": "a@b.org"} | change)
    check_problem(answer.expect(status, code), code)
    assert {entry["status"] for entry in client.seats(show).json["seats"]} == {"available"}


def test_a_show_that_is_not_on_sale_sells_nothing(client, admin, show):
    for status in ("scheduled", "closed", "cancelled"):
        admin.make_event([], event=show, kind="show", status=status)
        hold_show(client, show, "A-1").expect(409, "event_closed")
        assert show_of(client, show).json["show"]["status"] == status


def test_sold_and_blocked_seats_are_refused_as_what_they_are(client, other, admin, show):
    other.confirm(hold_show(other, show, "A-1").expect(201).json["hold_id"]).expect(200)
    admin.post("/api/admin/seats/block", {"event_id": show, "seat_ids": ["A-2"], "reason": "x"}).expect(200)
    refused = hold_show(client, show, "A-2", "A-1", "A-3").expect(409, "seat_blocked").json
    assert seats_of(refused) == {"A-1": "seat_sold", "A-2": "seat_blocked"}


# --- the rest of its life --------------------------------------------------------------------------------------


def test_get_and_delete(client, show, check_audit):
    made = hold_show(client, show, "A-1", "A-2").expect(201).json
    told = client.get(f"/api/holds/{made['hold_id']}").expect(200).json
    assert {**told, "expires_in_seconds": 0} == {**made, "expires_in_seconds": 0}
    gone = client.delete(f"/api/holds/{made['hold_id']}").expect(200).json
    assert (gone["hold_id"], gone["status"]) == (made["hold_id"], "cancelled")
    assert client.delete(f"/api/holds/{made['hold_id']}").expect(200).json["status"] == "cancelled"
    assert client.get(f"/api/holds/{made['hold_id']}").expect(200).json["status"] == "cancelled"
    assert {entry["status"] for entry in show_of(client, show).json["seats"]} == {"available"}
    check_audit(show)


def test_holds_of_others_and_of_nobody(client, other, show):
    made = hold_show(client, show, "A-1").expect(201).json
    other.get(f"/api/holds/{made['hold_id']}").expect(404, "hold_not_found")
    other.delete(f"/api/holds/{made['hold_id']}").expect(403, "not_hold_owner")
    nobody = uuid.uuid4()
    client.get(f"/api/holds/{nobody}").expect(404, "hold_not_found")
    client.delete(f"/api/holds/{nobody}").expect(404, "hold_not_found")
    client.get("/api/holds/x").expect(404, "hold_not_found")


def test_it_expires_by_itself(client, admin):
    show = admin.make_event(2, kind="show", policy={"hold_ttl": 1})
    hold = hold_show(client, show, "A-1", "A-2").expect(201).json
    assert time_of(hold["expires_at"]) > time_of(hold["created_at"])
    wait_until(lambda: client.get_hold(hold["hold_id"]).json["status"] == "expired", timeout=5)
    wait_until(lambda: {e["status"] for e in show_of(client, show).json["seats"]} == {"available"}, timeout=5)
    assert client.delete(f"/api/holds/{hold['hold_id']}").expect(200).json["status"] == "expired"
