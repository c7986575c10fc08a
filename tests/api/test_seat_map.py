"""GET /api/events/{event}/seats: one body per event and version, what changed since, and nobody's identity."""

import gzip
import json

import pytest

from support.client import Client, seat
from support.contract import time_of
from support.waiting import at_once, one_of, wait_until

OPTIONAL = {"type", "price", "x", "y", "held_until", "attributes"}


def statuses(seat_map):
    return {entry["seat_id"]: entry["status"] for entry in seat_map["seats"]}


def since(client, event, version):
    return client.get(f"/api/events/{event}/seats?since={version}").expect(200).json


# --- the whole map -------------------------------------------------------------------------------------------


def test_the_map_has_all_of_the_contract(client, admin):
    event = admin.make_event([seat("A-1", type="vip", price=1200, x=1, y=2.5), seat("A-2", number=2)],
                             areas=[{"area_id": "floor", "name": "Floor", "capacity": 10}])
    hold = client.hold(event, "A-1", areas=[{"area_id": "floor", "quantity": 3}]).expect(201).json
    answer = client.seats(event).expect(200)
    assert answer.headers["Content-Type"] == "application/json"
    seat_map = answer.json
    assert seat_map["event_id"] == event and isinstance(seat_map["version"], str)
    assert seat_map["areas"] == [
        {"area_id": "floor", "name": "Floor", "capacity": 10, "available": 7, "held": 3, "sold": 0}]
    vip, plain = seat_map["seats"]
    assert vip == {"seat_id": "A-1", "section": "main", "row": "A", "number": "1", "type": "vip", "price": 1200, "x": 1,
                   "y": 2.5, "status": "held", "version": hold["seats"][0]["version"], "held_until": hold["expires_at"]}
    assert set(plain) == {"seat_id", "section", "row", "number", "status", "version"}
    assert plain["status"] == "available"


def test_each_status_is_shown(client, admin, event):
    client.held(event, "A-1")
    client.confirm(client.held(event, "A-2", cart="c2")["hold_id"]).expect(200)
    admin.post("/api/admin/seats/block", {"event_id": event, "seat_ids": ["A-3"], "reason": "x"}).expect(200)
    admin.delete(f"/api/events/{event}/seats/A-4").expect(200)
    seat_map = client.seats(event).json
    shown = statuses(seat_map)
    assert (shown["A-1"], shown["A-2"], shown["A-3"], shown["A-5"]) == ("held", "sold", "blocked", "available")
    assert "A-4" not in shown
    for entry in seat_map["seats"]:
        assert ("held_until" in entry) == (entry["status"] == "held")
        assert set(entry) - OPTIONAL == {"seat_id", "section", "row", "number", "status", "version"}


def test_it_is_ordered_as_a_person_would(client, admin):
    names = [("stalls", "B", "2"), ("balcony", "A", "1"), ("stalls", "B", "10"), ("stalls", "A", "1"), ("stalls", "B", "1"),
             ("stalls", "10", "1"), ("stalls", "9", "1")]
    event = admin.make_event([seat(f"S-{n}", *name) for n, name in enumerate(names)])
    shown = [(entry["section"], entry["row"], entry["number"]) for entry in client.seats(event).json["seats"]]
    assert shown == [("balcony", "A", "1"), ("stalls", "9", "1"), ("stalls", "10", "1"), ("stalls", "A", "1"),
                     ("stalls", "B", "1"), ("stalls", "B", "2"), ("stalls", "B", "10")]


def test_a_house_of_no_seats(client, admin):
    seat_map = client.seats(admin.make_event(0)).expect(200).json
    assert (seat_map["seats"], seat_map["areas"]) == ([], [])


def test_nobodys_identity_is_in_it(client, other, event):
    hold = client.held(event, "A-1", cart="cart-of-the-client")
    client.confirm(client.held(event, "A-2", cart="c2")["hold_id"]).expect(200)
    bodies = {caller.seats(event).body for caller in (client, other, client.as_user("agent-1", "agent"))}
    assert len(bodies) == 1  # one body, the same for every caller in the organization
    text = bodies.pop().decode()
    for secret in (client.user, hold["hold_id"], "cart-of-the-client"):
        assert secret not in text


# --- ETag ----------------------------------------------------------------------------------------------------


def test_the_etag_changes_with_the_map_alone(client, event):
    first = client.seats(event)
    tag = first.headers["ETag"]
    assert tag.startswith('W/"') and event in tag and first.json["version"] in tag
    assert client.seats(event).headers["ETag"] == tag
    same = client.seats(event, headers={"If-None-Match": tag}).expect(304)
    assert same.body == b"" and same.headers["ETag"] == tag
    client.held(event, "A-1")
    changed = client.seats(event, headers={"If-None-Match": tag}).expect(200)
    assert changed.headers["ETag"] != tag


@pytest.mark.parametrize("form", ["{tag}", '"other", {tag}', "*", '{tag}, W/"x"', "{strong}"])
def test_forms_of_if_none_match(client, event, form):
    tag = client.seats(event).headers["ETag"]
    client.seats(event, headers={"If-None-Match": form.format(tag=tag, strong=tag[2:])}).expect(304)


@pytest.mark.parametrize("form", ['W/"x"', '"', "", "x" * 300])
def test_other_tags_get_the_map(client, event, form):
    client.seats(event, headers={"If-None-Match": form}).expect(200)


def test_a_tag_of_another_event_is_no_match(client, admin, event):
    other = admin.make_event(1)
    client.seats(other, headers={"If-None-Match": client.seats(event).headers["ETag"]}).expect(200)


# --- freshness -----------------------------------------------------------------------------------------------


def test_a_map_read_after_an_answer_shows_it(client, event):
    for _ in range(20):
        hold = client.held(event, "A-1")["hold_id"]
        assert statuses(client.seats(event).json)["A-1"] == "held"
        client.cancel(hold).expect(200)
        assert statuses(client.seats(event).json)["A-1"] == "available"


def test_so_it_is_under_load(admin):
    event = admin.make_event(40)
    users = [admin.as_user() for _ in range(8)]

    def hold_and_look(index):
        for number in range(index * 5 + 1, index * 5 + 6):
            users[index].hold_one(event, f"A-{number}", cart=f"c{number}").expect(201)
            if statuses(users[index].seats(event).json)[f"A-{number}"] != "held":
                return False
        return True

    assert all(at_once(8, hold_and_look))


def test_another_node_shows_it_within_a_second(client, event, start_node):
    second = client.at(start_node())
    assert statuses(second.seats(event).json)["A-1"] == "available"

    def shown(number):
        client.held(event, f"A-{number}", cart=f"c{number}")
        wait_until(lambda: statuses(second.seats(event).json)[f"A-{number}"] == "held", timeout=1.5)

    one_of(5, shown)


def test_a_hold_that_is_over_is_shown_free(client, admin, database_url, org):
    """Even where nothing may release it: the seat's row stays locked by somebody."""
    from support.tables import seat_locked
    event = admin.make_event(1, policy={"hold_ttl": 1})
    client.held(event, "A-1")
    with seat_locked(database_url, org, event, "A-1"):
        wait_until(lambda: statuses(client.seats(event).json)["A-1"] == "available", timeout=10)
        assert client.seat_status(event, "A-1") == "available"


# --- since ---------------------------------------------------------------------------------------------------


def test_since_gives_what_changed(client, event):
    start = client.seats(event).json["version"]
    nothing = since(client, event, start)
    assert nothing["seats"] == [] and not nothing.get("full")
    hold = client.held(event, "A-3", "A-5")["hold_id"]
    first = since(client, event, start)
    assert statuses(first) == {"A-3": "held", "A-5": "held"} and not first.get("full")
    client.cancel(hold).expect(200)
    assert statuses(since(client, event, first["version"])) == {"A-3": "available", "A-5": "available"}
    assert statuses(since(client, event, start)) == {"A-3": "available", "A-5": "available"}


def test_since_tells_of_removed_and_of_new_seats(client, admin, event):
    start = client.seats(event).json["version"]
    admin.delete(f"/api/events/{event}/seats/A-1").expect(200)
    [gone] = since(client, event, start)["seats"]
    assert gone == {"seat_id": "A-1", "status": "removed", "version": gone["version"]}
    middle = client.seats(event).json["version"]
    admin.set_event(event, seats=[seat("B-1", row="B")])
    changed = since(client, event, middle)
    new = changed["seats"] if not changed.get("full") else [e for e in changed["seats"] if e["seat_id"] == "B-1"]
    assert [(entry["seat_id"], entry["status"]) for entry in new] == [("B-1", "available")]
    assert statuses(client.seats(event).json)["B-1"] == "available"


def test_since_has_the_areas_as_they_are(client, admin):
    event = admin.make_event(1, areas=[{"area_id": "floor", "name": "Floor", "capacity": 5}])
    start = client.seats(event).json["version"]
    client.hold(event, areas=[{"area_id": "floor", "quantity": 2}]).expect(201)
    changed = since(client, event, start)
    assert [(area["area_id"], area["available"], area["held"]) for area in changed["areas"]] == [("floor", 3, 2)]


@pytest.mark.parametrize("version", ["0", "x", "9.9.9", "%00", "-1", "y" * 500])
def test_since_something_unknown_gives_the_whole_map(client, event, version):
    seat_map = since(client, event, version)
    assert seat_map["full"] is True and len(seat_map["seats"]) == 10


def test_a_version_from_before_a_restart_is_answered(start_node, client, event):
    node = start_node()
    user = client.at(node)
    start = user.seats(event).json["version"]
    user.held(event, "A-1")
    node.restart()
    seat_map = since(user, event, start)
    assert statuses(seat_map)["A-1"] == "held"


def test_following_since_never_misses_a_change(admin):
    """What a page does: it starts from a map and applies what `since` says, while others buy."""
    event = admin.make_event(60)
    users = [admin.as_user() for _ in range(6)]
    watcher = admin.as_user()
    view = {entry["seat_id"]: entry for entry in watcher.seats(event).json["seats"]}
    version = watcher.seats(event).json["version"]

    def buy(index):
        for number in range(index * 10 + 1, index * 10 + 11):
            hold = users[index].held(event, f"A-{number}", cart=f"c{number}")["hold_id"]
            if number % 3 == 0:
                users[index].cancel(hold).expect(200)
            elif number % 3 == 1:
                users[index].confirm(hold).expect(200)

    def watch():
        nonlocal version
        changes = since(watcher, event, version)
        version = changes["version"]
        for entry in changes["seats"]:
            known = view.get(entry["seat_id"])
            assert known is None or entry["version"] >= known["version"]
            view[entry["seat_id"]] = (known or {}) | entry

    def act(index):
        if index < 6:
            buy(index)
        else:
            for _ in range(40):
                watch()

    at_once(7, act)
    watch()
    assert {name: entry["status"] for name, entry in view.items()} == statuses(watcher.seats(event).json)


# --- gzip ----------------------------------------------------------------------------------------------------


def test_a_large_map_is_compressed_for_who_takes_it(client, admin):
    event = admin.make_event(200)
    plain = client.seats(event)
    packed = client.seats(event, headers={"Accept-Encoding": "deflate, gzip;q=0.8"})
    assert packed.headers["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain.headers
    assert len(packed.body) < len(plain.body) / 3
    assert json.loads(gzip.decompress(packed.body)) == plain.json
    assert packed.headers["ETag"] == plain.headers["ETag"]
    assert "Accept-Encoding" in packed.headers["Vary"] and "Accept-Encoding" in plain.headers["Vary"]
    refused = client.seats(event, headers={"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in refused.headers


def test_a_small_one_is_not(client, admin):
    answer = client.seats(admin.make_event(1), headers={"Accept-Encoding": "gzip"})
    assert len(answer.body) < 1024 and "Content-Encoding" not in answer.headers


# --- who may see it ------------------------------------------------------------------------------------------


def test_another_organization_has_its_own(client, node, event):
    stranger = Client(node, f"{client.org}-2", "x", "admin")
    stranger.seats(event).expect(404, "event_not_found")
    stranger.make_event(1, event=event)
    assert len(stranger.seats(event).json["seats"]) == 1
    tag = client.seats(event).headers["ETag"]
    assert len(client.seats(event).json["seats"]) == 10
    stranger.held(event, "A-1")
    client.seats(event, headers={"If-None-Match": tag}).expect(304)


def test_held_until_is_a_time_of_the_contract(client, event):
    client.held(event, "A-1")
    [held] = [entry for entry in client.seats(event).json["seats"] if entry["status"] == "held"]
    assert time_of(held["held_until"])
