"""GET /api/events/{event}/seats/{seat}: status, version, whose it is, and which tier said so."""

from support.contract import time_of
from support.tables import seat_row
from support.waiting import wait_until

FIELDS = {"seat_id", "status", "version"}


def test_a_free_seat(client, event, db, org):
    answer = client.seat(event, "A-1").expect(200)
    assert set(answer.json) <= FIELDS | {"mine"} and not answer.json.get("mine")
    assert (answer.json["seat_id"], answer.json["status"]) == ("A-1", "available")
    assert answer.json["version"] == seat_row(db, org, event, "A-1").version
    assert answer.headers["X-Holdfast-Tier"] in ("hot", "redis", "postgres")


def test_ones_own_seat_is_mine_and_nobody_elses(client, other, event):
    hold = client.held(event, "A-1")
    mine = client.seat(event, "A-1").json
    assert (mine["status"], mine["mine"], mine["held_until"]) == ("held", True, hold["expires_at"])
    theirs = other.seat(event, "A-1").json
    assert theirs["status"] == "held" and not theirs.get("mine")
    assert set(theirs) <= FIELDS | {"mine", "held_until"}
    assert client.user not in other.seat(event, "A-1").body.decode()


def test_a_sold_seat_is_still_its_buyers(client, other, event):
    client.confirm(client.held(event, "A-1")["hold_id"]).expect(200)
    assert client.seat(event, "A-1").json["status"] == "sold"
    assert client.seat(event, "A-1").json["mine"] is True
    assert not other.seat(event, "A-1").json.get("mine")
    assert "held_until" not in client.seat(event, "A-1").json


def test_memory_answers_what_it_knows(client, other, event):
    client.held(event, "A-1")
    answer = other.seat(event, "A-1")
    assert answer.headers["X-Holdfast-Tier"] == "hot" and answer.json["status"] == "held"


def test_each_answer_says_the_truth_after_a_change(client, other, event, db, org):
    for step in (lambda: client.held(event, "A-1"), lambda: client.extend(hold_of(client, event)),
                 lambda: client.cancel(hold_of(client, event)), lambda: other.held(event, "A-1"),
                 lambda: other.confirm(hold_of(other, event))):
        step()
        row = seat_row(db, org, event, "A-1")
        shown = client.seat(event, "A-1").json
        assert (shown["status"], shown["version"]) == (row.status, row.version)
        assert ("held_until" in shown) == (row.status == "held")


def hold_of(client, event):
    return client.get(f"/api/holds?event_id={event}").json["holds"][0]["hold_id"]


def test_a_node_that_knows_nothing_yet_asks_below(client, other, event, start_node):
    hold = client.held(event, "A-1")
    client.confirm(client.held(event, "A-2", cart="c2")["hold_id"]).expect(200)
    second = other.at(start_node())
    for seat_id, status in (("A-1", "held"), ("A-2", "sold"), ("A-3", "available")):
        answer = second.seat(event, seat_id).expect(200)
        assert answer.json["status"] == status
        assert answer.headers["X-Holdfast-Tier"] in ("hot", "redis", "postgres")
    assert second.seat(event, "A-1").json["held_until"] == hold["expires_at"]


def test_the_etag_of_a_seat(client, other, event):
    client.held(event, "A-1")
    path = f"/api/events/{event}/seats/A-1"
    tag = client.get(path).headers["ETag"]
    assert client.get(path, headers={"If-None-Match": tag}).expect(304).body == b""
    client.cancel(hold_of(client, event)).expect(200)
    client.get(path, headers={"If-None-Match": tag}).expect(200)


def test_over_is_shown_free_at_its_end(client, admin):
    event = admin.make_event(1, policy={"hold_ttl": 1})
    hold = client.held(event, "A-1")
    assert time_of(client.seat(event, "A-1").json["held_until"]) == time_of(hold["expires_at"])
    free = wait_until(lambda: client.seat(event, "A-1").json if client.seat_status(event, "A-1") == "available" else None)
    assert "held_until" not in free and not free.get("mine")
