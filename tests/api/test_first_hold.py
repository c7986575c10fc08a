"""The shortest way through the house: hold, refuse, extend, confirm, cancel, expire; and what is left behind."""

from support.waiting import at_once, wait_until


def test_a_free_seat_is_held(client, event, check_audit):
    hold = client.hold_one(event, "A-1").expect(201).json
    assert hold["status"] == "active"
    assert hold["user_id"] == client.user
    assert [seat["seat_id"] for seat in hold["seats"]] == ["A-1"]
    assert client.seat_status(event, "A-1") == "held"
    check_audit(event)


def test_a_held_seat_is_refused_and_named(client, other, event):
    client.held(event, "A-2")
    answer = other.hold(event, "A-1", "A-2", "A-3").expect(409, "seat_taken")
    assert answer.json["seats"] == [{"seat_id": "A-2", "code": "seat_taken"}]
    assert other.seat_status(event, "A-1") == "available"


def test_a_double_click_gets_the_same_hold(client, event, check_audit):
    answers = at_once(8, lambda _: client.hold_one(event, "A-1"))
    assert sorted(answer.status for answer in answers) == [200] * 7 + [201]
    assert len({answer.json["hold_id"] for answer in answers}) == 1
    check_audit(event)


def test_one_of_many_gets_the_seat(admin, event, node, check_audit, check_verify):
    users = [admin.as_user() for _ in range(40)]
    statuses = at_once(40, lambda index: users[index].hold_one(event, "A-1").status)
    assert sorted(statuses) == [201] + [409] * 39
    check_audit(event)
    check_verify(node)


def test_an_extended_and_confirmed_hold_is_sold(client, other, event, check_audit):
    hold = client.held(event, "A-1", "A-2")
    longer = client.extend(hold["hold_id"]).expect(200).json
    assert longer["expires_at"] > hold["expires_at"]
    sold = client.confirm(hold["hold_id"]).expect(200).json
    assert sold["status"] == "converted"
    assert {ticket["seat_id"] for ticket in sold["tickets"]} == {"A-1", "A-2"}
    other.hold_one(event, "A-1").expect(409, "seat_sold")
    check_audit(event)


def test_a_cancelled_hold_frees_its_seats(client, other, event, check_audit):
    hold = client.held(event, "A-1")
    assert client.cancel(hold["hold_id"]).expect(200).json["status"] == "cancelled"
    other.hold_one(event, "A-1").expect(201)
    check_audit(event)


def test_a_hold_ends_by_itself(client, other, admin, check_audit):
    event = admin.make_event(2, policy={"hold_ttl": 1})
    hold = client.held(event, "A-1")
    wait_until(lambda: client.seat_status(event, "A-1") == "available")
    assert client.get_hold(hold["hold_id"]).expect(200).json["status"] == "expired"
    client.confirm(hold["hold_id"]).expect(409, "hold_expired")
    other.hold_one(event, "A-1").expect(201)
    check_audit(event)


def test_another_organization_sees_nothing(client, node, event):
    stranger = type(client)(node, f"{client.org}-other", "user-1")
    stranger.hold_one(event, "A-1").expect(404, "event_not_found")
    hold = client.held(event, "A-1")
    stranger.get_hold(hold["hold_id"]).expect(404, "hold_not_found")
