"""GET /api/events/{event}/analytics: what became of holds, by the hour in which they were made, section and area."""

import datetime

import pytest

from support.checkouts import complete, started
from support.client import Client, seat
from support.contract import check_problem
from support.tables import query
from support.waiting import wait_until

COUNTS = ("held", "sold", "expired", "cancelled", "active")
AREAS = [{"area_id": "floor", "name": "Floor", "capacity": 50}, {"area_id": "lawn", "name": "Lawn", "capacity": 50}]


@pytest.fixture
def house(admin):
    """Two sections of 20 seats, L-1.. and R-1.., and two areas."""
    seats = [seat(f"{section[0]}-{n}", section=section, number=n) for section in ("Left", "Right") for n in range(1, 21)]
    return admin.make_event(seats, areas=AREAS)


def analytics(client, event, **asked):
    return client.get(f"/api/events/{event}/analytics", query=asked)


def funnel(client, event, **asked):
    """{section or area: (held, sold, expired, cancelled, active)}, of all hours together; sums are checked."""
    told = analytics(client, event, **asked).expect(200).json
    found, sums = {}, dict.fromkeys(COUNTS, 0)
    for row in told["funnel"]:
        assert (row["section"] is None) == ("area_id" in row), row
        assert row["held"] == row["sold"] + row["expired"] + row["cancelled"] + row["active"], row
        assert row["cancelled"] == sum(row["cancelled_by"].values()), row
        name = row.get("area_id", row["section"])
        before = found.get(name, (0,) * len(COUNTS))
        found[name] = tuple(n + row[count] for n, count in zip(before, COUNTS))
        sums = {count: sums[count] + row[count] for count in COUNTS}
    assert {count: told["totals"][count] for count in COUNTS} == sums
    return found


def move_back(db, hold_id, hours):
    """The hold was made so many hours ago."""
    for table, column in (("seat_holds", "created_at"), ("audit_log", "at")):
        query(db, f"UPDATE {table} SET {column} = {column} - make_interval(hours => %s) WHERE hold_id = %s RETURNING 1",
              hours, hold_id)


def hour_of(time):
    return time.astimezone(datetime.timezone.utc).replace(minute=0, second=0, microsecond=0).strftime(
        "%Y-%m-%dT%H:%M:%S.000Z")


def text(time):
    return time.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_each_end_of_a_hold_is_counted(client, other, admin, house):
    agent = admin.as_user("agent-1", "agent")
    client.confirm(client.held(house, "L-1", "L-2", cart="sold")["hold_id"]).expect(200)
    client.cancel(client.held(house, "L-3", cart="given up")["hold_id"]).expect(200)
    client.held(house, "L-4", "R-1", cart="kept")
    released = client.held(house, "R-2", "R-3", cart="released")
    admin.post("/api/admin/seats/release", {"hold_ids": [released["hold_id"]]}).expect(200)
    lapsed = agent.held(house, "R-4", cart="lapsed", ttl_seconds=1)
    other.held(house, "R-5", "R-6", "R-7", cart="declined")
    complete(other, started(other, house), "tok_declined").expect(402)
    wait_until(lambda: agent.get_hold(lapsed["hold_id"]).json["status"] == "expired")
    assert funnel(agent, house) == {"Left": (4, 2, 0, 1, 1), "Right": (7, 0, 1, 5, 1)}
    by = analytics(agent, house).json["totals"]["cancelled_by"]
    assert by == {"user_cancelled": 1, "payment_failed": 3, "admin_override": 2, "other": 0}


def test_areas_count_their_quantities(client, admin, house):
    client.confirm(client.hold(house, "L-1", cart="c1", areas=[
        {"area_id": "floor", "quantity": 3}]).expect(201).json["hold_id"]).expect(200)
    client.cancel(client.hold(house, cart="c2", areas=[{"area_id": "floor", "quantity": 2}]).expect(201).json["hold_id"])
    client.hold(house, cart="c3", areas=[{"area_id": "lawn", "quantity": 5}]).expect(201)
    assert funnel(admin, house) == {"Left": (1, 1, 0, 0, 0), "floor": (5, 3, 0, 2, 0), "lawn": (5, 0, 0, 0, 5)}


def test_seats_that_were_added_and_given_up_again_count(client, admin, house):
    hold = client.held(house, "L-1")["hold_id"]
    client.patch(f"/api/holds/{hold}", {"add_seat_ids": ["L-2", "R-1"], "remove_seat_ids": ["L-1"]}).expect(200)
    client.confirm(hold).expect(200)
    assert funnel(admin, house) == {"Left": (2, 1, 0, 1, 0), "Right": (1, 1, 0, 0, 0)}


def test_a_hold_belongs_to_the_hour_in_which_it_was_made(client, admin, house, db):
    first, second = (client.held(house, seat_id, cart=seat_id)["hold_id"] for seat_id in ("L-1", "L-2"))
    move_back(db, first, 3)
    client.confirm(first).expect(200)  # sold now, made then
    made = {hold: query(db, "SELECT created_at FROM seat_holds WHERE hold_id = %s", hold)[0][0]
            for hold in (first, second)}
    told = analytics(admin, house).expect(200).json["funnel"]
    assert [(row["hour"], row["section"], row["held"], row["sold"]) for row in told] == [
        (hour_of(made[first]), "Left", 1, 1), (hour_of(made[second]), "Left", 1, 0)]
    after = text(made[first] + datetime.timedelta(microseconds=1))
    assert funnel(admin, house, from_=after) == {"Left": (1, 0, 0, 0, 1)}
    assert funnel(admin, house, to=after) == {"Left": (1, 1, 0, 0, 0)}
    assert funnel(admin, house, from_=text(made[first]), to=text(made[second])) == {"Left": (1, 1, 0, 0, 0)}


def test_only_the_last_day_counts_where_no_time_is_given(client, admin, house, db):
    for seat_id, hours in (("L-1", 0), ("L-2", 23), ("L-3", 25)):
        move_back(db, client.held(house, seat_id, cart=seat_id)["hold_id"], hours)
    assert funnel(admin, house)["Left"][0] == 2
    told = analytics(admin, house).json
    begin, end = (datetime.datetime.fromisoformat(told[name]) for name in ("from", "to"))
    assert end - begin == datetime.timedelta(days=1)
    assert funnel(admin, house, from_=text(begin - datetime.timedelta(days=2)))["Left"][0] == 3


def test_without_an_end_a_hold_just_answered_counts(client, admin, house, db):
    """However wrong the node's idea of the database's clock is, within its error: as if it were a second behind."""
    hold = client.held(house, "L-1", "L-2")["hold_id"]
    for table, column in (("seat_holds", "created_at"), ("audit_log", "at")):
        query(db, f"UPDATE {table} SET {column} = clock_timestamp() + interval '900 ms' WHERE hold_id = %s RETURNING 1", hold)
    assert funnel(admin, house) == {"Left": (2, 0, 0, 0, 2)}


def test_what_is_over_is_expired_before_it_is_cleaned_up(client, admin, house, db):
    hold = client.held(house, "L-1")["hold_id"]
    query(db, "UPDATE seat_holds SET held_until = clock_timestamp() WHERE hold_id = %s RETURNING 1", hold)
    assert funnel(admin, house) == {"Left": (1, 0, 1, 0, 0)}


def test_events_without_holds_and_other_events_are_apart(client, admin, house):
    client.held(house, "L-1")
    empty = admin.make_event(5)
    told = analytics(admin, empty).expect(200).json
    assert told["event_id"] == empty and told["funnel"] == []
    assert set(told["totals"]) == set(COUNTS) | {"cancelled_by"} and told["totals"]["held"] == 0


@pytest.mark.parametrize("role, status", [("user", 403), ("agent", 200), ("service", 200), ("admin", 200)])
def test_who_may_ask(admin, house, role, status):
    answer = analytics(admin.as_user("somebody", role), house)
    assert answer.status == status
    if status == 403:
        check_problem(answer, "forbidden")


def test_another_organizations_event_is_not_there(node, admin, house):
    check_problem(analytics(Client(node, "another-org", "x", "admin"), house), "event_not_found")
    check_problem(analytics(admin, "nowhere"), "event_not_found")


@pytest.mark.parametrize("asked, field", [
    ({"from_": "soon"}, "from"), ({"to": "2026-02-30T00:00:00Z"}, "to"),
    ({"from_": "2026-02-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, "from"),
    ({"from_": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00.001Z"}, "from")])
def test_a_bad_question_is_refused_and_says_what_is_wrong(admin, house, asked, field):
    answer = analytics(admin, house, **asked)
    check_problem(answer, "invalid_field")
    assert [error["field"] for error in answer.json["errors"]] == [field]


def test_31_days_may_be_asked_for(admin, house):
    analytics(admin, house, from_="2026-01-01T00:00:00Z", to="2026-02-01T00:00:00Z").expect(200)
