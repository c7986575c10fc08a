"""Waitlists: join, see one's position, leave; what comes of a seat that gets free, confirmed at once or offered."""

import pytest

from support.bystander import holding, trigger
from support.client import Client, seat
from support.contract import check_problem
from support.house import House
from support.mailbox import Mailbox
from support.node import Node
from support.receiver import Receiver
from support.sse import EventStream
from support.swarm import ask
from support.tables import query
from support.waiting import at_once, wait_until
from support.waitlists import (assert_first_come_first_served, await_row, entry_of, got, is_now, join, join_shot, joined,
                               leave, row_of, told)

CONFIRM = {"waitlist_mode": "confirm"}
FROM = "tickets@house.example"


@pytest.fixture(scope="module")
def box():
    with Mailbox() as made:
        yield made


@pytest.fixture(scope="module")
def node(log_folder, database_url, empty_redis, box):
    started = Node(log_folder, database_url, empty_redis, smtp_url=box.url, smtp_from=FROM,
                   delivery_allow_private="on", reaper_interval_ms=300, redis_timeout_ms=1000).start()
    yield started
    started.stop()


@pytest.fixture
def full(admin):
    """full(seats=1, **event) -> (event whose seats are held, a user each; the holds by seat)."""
    def make(seats=1, **more):
        event = admin.make_event(seats, **more)
        places = [place["seat_id"] for place in seats] if isinstance(seats, list) else [
            f"A-{n}" for n in range(1, seats + 1)]
        return event, {place: admin.as_user(f"owner-{place}").held(event, place)["hold_id"] for place in places}

    return make


def cabin():
    """Two sections of two types, one seat each."""
    return [seat(f"{section[0]}{type[0]}", section=section, number=n, type=type)
            for n, (section, type) in enumerate([("front", "window"), ("front", "aisle"), ("back", "window"),
                                                 ("back", "aisle")])]


# --- joining -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flight", [True, False])
def test_who_joins_hears_its_position(admin, client, other, full, flight):
    event, _ = full(1, kind="flight" if flight else "event")
    first = join(client, event, flight=flight).expect(201)
    assert first.json.keys() == {"waitlistId", "status", "position"}
    assert (first.json["status"], first.json["position"]) == ("QUEUED", 1)
    assert first.headers["Location"] == f"/waitlist/{first.json['waitlistId']}"
    assert joined(other, event, flight=flight)["position"] == 2
    entry = entry_of(client, first.json)
    assert entry == {"waitlistId": first.json["waitlistId"], "flightId": event, "eventId": event, "userId": client.user,
                     "status": "QUEUED", "position": 1, "seatPreferences": {}, "createdAt": entry["createdAt"]}


def test_a_flight_has_one_list_by_both_paths(client, other, full):
    event, _ = full(1, kind="flight")
    joined(client, event, flight=True)
    join(client, event).expect(409, "already_waiting")
    assert joined(other, event)["position"] == 2


def test_what_is_wished_is_shown(client, full):
    event, _ = full()
    entry = joined(client, event, type="window", section="up « front »")
    assert entry_of(client, entry)["seatPreferences"] == {"seatType": "window", "section": "up « front »"}


@pytest.mark.parametrize("body", [
    {"seatPreferences": None}, {"seatPreferences": {}}, {"seatPreferences": {"seatType": None, "section": ""}},
    {"userId": None, "customerEmail": None}, {"anything": 1}])
def test_wishes_may_be_left_out(client, full, body):
    event, _ = full()
    entry = client.post(f"/api/events/{event}/waitlist", body).expect(201).json
    assert entry_of(client, entry)["seatPreferences"] == {}


def test_a_body_isn_t_needed(client, full):
    event, _ = full()
    client.request("POST", f"/api/events/{event}/waitlist").expect(201)


@pytest.mark.parametrize("body, field", [
    ({"seatPreferences": "window"}, "seatPreferences"), ({"seatPreferences": ["window"]}, "seatPreferences"),
    ({"seatPreferences": {"seatType": 1}}, "seatPreferences.seatType"),
    ({"seatPreferences": {"section": {}}}, "seatPreferences.section"),
    ({"seatPreferences": {"section": "x" * 256}}, "seatPreferences.section"),
    ({"customerEmail": "nobody"}, "customerEmail"), ({"userId": 7}, "userId")])
def test_what_can_t_be_is_refused(client, full, body, field):
    event, _ = full()
    answer = client.post(f"/api/events/{event}/waitlist", body).expect(400, "invalid_field")
    assert [error["field"] for error in answer.json["errors"]] == [field]


def test_a_user_id_that_is_none_is_refused(client, full):
    event, _ = full()
    join(client, event, user="no id!").expect(400, "invalid_id")


@pytest.mark.parametrize("name", ["userId", "user_id"])
def test_a_user_waits_for_itself_alone(client, full, name):
    event, _ = full()
    check_problem(client.post(f"/api/events/{event}/waitlist", {name: "somebody-else"}), "forbidden")
    client.post(f"/api/events/{event}/waitlist", {name: client.user}).expect(201)


@pytest.mark.parametrize("role", ["agent", "service", "admin"])
def test_who_acts_for_others_names_them(admin, full, role):
    event, _ = full(1, kind="flight")
    acting = admin.as_user("acting", role)
    join(acting, event, flight=True).expect(400, "missing_field")
    entry = joined(acting, event, flight=True, user="passenger-7")
    assert entry_of(acting, entry)["userId"] == "passenger-7"
    assert entry_of(admin.as_user("passenger-7"), entry)["position"] == 1


def test_once_per_user_and_event(client, full, admin):
    event, _ = full()
    other_event, _ = full()
    joined(client, event)
    check_problem(join(client, event), "already_waiting")
    join(admin, event, user=client.user).expect(409, "already_waiting")
    joined(client, other_event)


def test_the_same_user_at_once_waits_once(client, full):
    event, _ = full()
    answers = at_once(8, lambda _: join(client, event))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 7


def test_all_who_join_at_once_have_positions_of_their_own(admin, full, db, org):
    event, _ = full()
    entries = at_once(24, lambda n: joined(admin.as_user(f"user-{n}"), event))
    assert sorted(entry["position"] for entry in entries) == list(range(1, 25))
    by_place = sorted(entries, key=lambda entry: row_of(db, entry).place)
    assert [entry["position"] for entry in by_place] == list(range(1, 25))


def test_what_isn_t_there(client, full):
    join(client, "nowhere").expect(404, "event_not_found")
    event, _ = full()
    check_problem(join(client, event, flight=True), "event_not_found")  # no flight
    client.get(f"/flights/{event}/waitlist").expect(404, "event_not_found")
    client.get("/api/events/nowhere/waitlist").expect(404, "event_not_found")
    for method in ("GET", "DELETE"):
        client.request(method, "/waitlist/0190a000-0000-7000-8000-000000000000").expect(404, "not_found")
        client.request(method, "/waitlist/nothing").expect(404, "not_found")


@pytest.mark.parametrize("status", ["scheduled", "closed"])
def test_a_closed_event_is_closed_to_users(admin, client, status):
    event = admin.make_event(1, status=status)
    check_problem(join(client, event), "event_closed")
    joined(admin, event, user="somebody")


def test_nobody_waits_at_a_cancelled_event(admin, client, full):
    event, _ = full()
    admin.set_event(event, status="cancelled")
    join(client, event).expect(409, "event_closed")
    join(admin, event, user="somebody").expect(409, "event_closed")


def test_the_same_key_is_the_same_entry(client, full, db, org):
    event, _ = full()
    answers = [join(client, event, headers={"Idempotency-Key": "k1"}) for _ in range(2)]
    assert [answer.expect(201).json for answer in answers] == [answers[0].json] * 2
    join(client, event, type="window", headers={"Idempotency-Key": "k1"}).expect(422, "idempotency_key_reused")
    join(client, event, headers={"Idempotency-Key": "k2"}).expect(409, "already_waiting")


def test_the_same_key_at_once_is_one_entry(client, full, db):
    event, _ = full()
    answers = at_once(6, lambda _: join(client, event, headers={"Idempotency-Key": "k1"}))
    assert {answer.expect(201).json["waitlistId"] for answer in answers} == {answers[0].json["waitlistId"]}
    assert query(db, "SELECT count(*) FROM waitlist WHERE event_id = %s", event)[0][0] == 1


def test_only_so_many_may_wait(start_node, client, full, admin):
    event, _ = full()
    node = start_node(waitlist_max=2)
    for n in range(2):
        joined(admin.as_user(f"early-{n}").at(node), event)
    answer = join(client.at(node), event).expect(503, "overloaded")
    assert int(answer.headers["Retry-After"]) > 0


# --- seeing and leaving ----------------------------------------------------------------------------------------


def test_another_s_entry_is_not_there(client, other, admin, full):
    event, _ = full()
    entry = joined(client, event)
    for method in ("GET", "DELETE"):
        other.request(method, f"/waitlist/{entry['waitlistId']}").expect(404, "not_found")
    assert entry_of(admin.as_user("agent-1", "agent"), entry)["userId"] == client.user
    assert entry_of(client, entry)["status"] == "QUEUED"


def test_another_organization_s_is_not_there(client, node, full):
    event, _ = full()
    entry = joined(client, event)
    stranger = Client(node, "elsewhere", client.user, "admin")
    for method in ("GET", "DELETE"):
        stranger.request(method, f"/waitlist/{entry['waitlistId']}").expect(404, "not_found")


def test_who_leaves_makes_way(client, other, full, db):
    event, _ = full()
    first, second = joined(client, event), joined(other, event)
    left = leave(client, first).expect(200).json
    assert (left["status"], left["position"]) == ("LEFT", None)
    assert leave(client, first).expect(200).json == left
    assert entry_of(other, second)["position"] == 1
    assert joined(client, event)["position"] == 2
    assert told(db, first) == []


def test_an_agent_takes_somebody_off_the_list(client, admin, full):
    event, _ = full()
    entry = joined(client, event)
    assert leave(admin.as_user("agent-1", "agent"), entry).expect(200).json["status"] == "LEFT"


def test_agents_see_the_list_in_order_and_users_themselves(client, other, admin, full):
    event, _ = full()
    entries = [joined(admin, event, user=f"user-{n:02}", type="window" if n % 2 else None) for n in range(7)]
    seen, after = [], None
    while after != "end":
        page = admin.get(f"/api/events/{event}/waitlist", {"limit": 3} | ({"after": after} if after else {})).expect(200)
        assert page.json["eventId"] == event and len(page.json["entries"]) <= 3
        seen += page.json["entries"]
        after = page.json.get("next", "end")
    assert [(entry["waitlistId"], entry["position"]) for entry in seen] == [
        (entry["waitlistId"], n + 1) for n, entry in enumerate(entries)]
    assert seen[0] == entry_of(admin, entries[0])
    own = admin.as_user("user-04").get(f"/api/events/{event}/waitlist").expect(200).json["entries"]
    assert own == [entry_of(admin, entries[4])]
    assert client.get(f"/api/events/{event}/waitlist").expect(200).json == {"eventId": event, "entries": []}
    leave(admin, entries[0]).expect(200)
    assert len(admin.get(f"/api/events/{event}/waitlist").expect(200).json["entries"]) == 6
    client.get(f"/api/events/{event}/waitlist?limit=0").expect(400, "invalid_field")
    client.get(f"/api/events/{event}/waitlist?after=x").expect(400, "invalid_field")


# --- mode confirm ---------------------------------------------------------------------------------------------


def test_a_seat_that_comes_free_is_confirmed_for_who_waits(admin, client, full, db, org, prove):
    event, holds = full(1, policy=CONFIRM)
    entry = joined(client, event)
    admin.cancel(holds["A-1"]).expect(200)
    now = got(client, entry)
    assert (now["seatId"], now["position"]) == ("A-1", None)
    hold = client.get_hold(now["holdId"]).expect(200).json
    assert (hold["status"], hold["source"], hold["user_id"]) == ("converted", "waitlist", client.user)
    assert hold["tickets"][0]["seat_id"] == "A-1"
    wait_until(lambda: client.seat_status(event, "A-1") == "sold", what="memory has heard of it")
    assert told(db, entry) == ["waitlist.assigned"]
    check_problem(leave(client, entry), "hold_not_active")
    prove(event)


def test_flights_confirm_and_others_offer_unless_they_say_otherwise(admin, client, other, full):
    flight, _ = full(1, kind="flight")
    show, _ = full(1, kind="show")
    first, second = joined(client, flight), joined(other, show)
    release_all(admin, flight)
    release_all(admin, show)
    assert got(client, first)["status"] == "ASSIGNED"
    assert got(other, second, "OFFERED")["expiresAt"]


def release_all(admin, event):
    admin.post("/api/admin/seats/release", {"event_id": event, "all": True}).expect(200)


def test_a_seat_that_is_free_already_goes_to_who_joins(admin, client):
    event = admin.make_event(1, policy=CONFIRM)
    assert got(client, joined(client, event))["seatId"] == "A-1"


def test_wishes_choose_the_seat(admin, client, other, full, prove):
    event, holds = full(cabin(), policy=CONFIRM)
    aisle = joined(client, event, type="aisle")
    back = joined(other, event, type="aisle", section="back")
    admin.cancel(holds["fw"]).expect(200)
    admin.cancel(holds["ba"]).expect(200)
    assert got(client, aisle)["seatId"] == "ba"
    assert is_now(other, back, "QUEUED")
    admin.cancel(holds["fa"]).expect(200)
    third = joined(admin, event, user="third", section="front")
    assert {got(admin, third)["seatId"]} <= {"fw", "fa"}
    assert is_now(other, back, "QUEUED")
    prove(event)


def test_a_head_that_fits_nothing_blocks_nobody(admin, client, other, full):
    event, holds = full(1, policy=CONFIRM)
    head = joined(client, event, type="throne")
    behind = joined(other, event)
    admin.cancel(holds["A-1"]).expect(200)
    assert got(other, behind)["seatId"] == "A-1"
    assert entry_of(client, head)["position"] == 1


def test_their_earlier_hold_is_given_up_on_a_flight(admin, client, full, prove):
    event, holds = full([seat("1A", type="window"), seat("1B", type="aisle")], kind="flight")
    admin.cancel(holds["1B"]).expect(200)
    mine = client.held(event, "1B")["hold_id"]
    entry = joined(client, event, type="window")
    admin.cancel(holds["1A"]).expect(200)
    assert got(client, entry)["seatId"] == "1A"
    lost = client.get_hold(mine).expect(200).json
    assert (lost["status"], lost["reason"]) == ("cancelled", "replaced")
    prove(event)


def test_who_has_a_seat_and_waits_for_a_better_one_changes_it(admin, client, other, full, db, org, prove):
    """What they had confirmed is given back in the same transaction, and goes to the next."""
    event, holds = full([seat("1A", type="window"), seat("1B", type="aisle")], kind="flight")
    admin.cancel(holds["1B"]).expect(200)
    client.confirm(client.held(event, "1B")["hold_id"]).expect(200)
    better, any_seat = joined(client, event, type="window"), joined(other, event, section="main")
    admin.cancel(holds["1A"]).expect(200)
    assert got(client, better)["seatId"] == "1A"
    assert got(other, any_seat)["seatId"] == "1B"
    [reason] = query(db, "SELECT reason FROM audit_log WHERE org_id = %s AND event_id = %s AND user_id = %s "
                     "AND action = 'seat_released'", org, event, client.user)
    assert reason == ("replaced",)
    prove(event)


def test_who_watches_sees_their_new_seat_before_the_old_one_is_free(admin, client, other, full):
    event, holds = full([seat("1A", type="window"), seat("1B", type="aisle")], kind="flight")
    admin.cancel(holds["1B"]).expect(200)
    client.confirm(client.held(event, "1B")["hold_id"]).expect(200)
    joined(client, event, type="window")
    with EventStream(other, event) as stream:
        stream.expect(200)
        admin.cancel(holds["1A"]).expect(200)
        told = [(each.name, each.data["seat_id"]) for each in stream.seats(4)]
    assert told == [("seat_released", "1A"), ("seat_held", "1A"), ("seat_sold", "1A"), ("seat_released", "1B")]


def test_a_confirmed_seat_that_is_given_up_serves_who_waits(admin, client, other, full, prove):
    event, holds = full([seat("1A")], kind="flight")
    admin.cancel(holds["1A"]).expect(200)
    client.confirm(client.held(event, "1A")["hold_id"]).expect(200)
    entry = joined(other, event, flight=True)
    client.post(f"/flights/{event}/seats/1A/cancel", {"reason": "ill"}).expect(200)
    assert got(other, entry)["seatId"] == "1A"
    [told] = [each for each in admin.get(f"/flights/{event}/events").expect(200).json["events"]
              if "WAITLIST_ASSIGNED" in str(each)]
    assert other.user in str(told)
    prove(event)


# --- mode offer -----------------------------------------------------------------------------------------------


@pytest.fixture
def offered(admin, client, other, full):
    """(event, the client's entry, which has an offer, the other's behind it)."""
    def make(ttl=60):
        policy = {"waitlist_mode": "offer", "waitlist_offer_ttl": ttl}
        event, holds = full(1, policy=policy)
        first = joined(client, event, email=f"first@{event}.example")
        admin.cancel(holds["A-1"]).expect(200)
        offer = got(client, first, "OFFERED", "LAPSED")  # a short one may be over before it is seen
        admin.set_event(event, policy=policy | {"waitlist_offer_ttl": 60})  # the next offer stands long enough to be used
        return event, offer, joined(other, event, email=f"next@{event}.example")

    return make


def test_an_offer_is_a_hold_for_a_while(client, other, offered, db):
    event, entry, second = offered(60)
    hold = client.get_hold(entry["holdId"]).expect(200).json
    assert (hold["status"], hold["source"]) == ("active", "waitlist")
    assert hold["expires_at"] == entry["expiresAt"] and 50 < hold["expires_in_seconds"] <= 60
    assert entry["seatId"] == "A-1" and entry["position"] is None
    assert entry_of(other, second)["position"] == 1
    assert told(db, entry) == ["waitlist.offered"]
    join(client, event).expect(409, "already_waiting")
    other.hold_one(event, "A-1").expect(409, "seat_taken")


def test_an_offer_that_is_confirmed_is_the_user_s(client, other, offered, db, prove):
    event, entry, second = offered()
    client.confirm(entry["holdId"]).expect(200)
    assert entry_of(client, entry)["status"] == "ASSIGNED"
    await_row(db, entry, "ASSIGNED")
    assert told(db, entry) == ["waitlist.offered", "waitlist.assigned"]
    leave(client, entry).expect(409, "hold_not_active")
    assert is_now(other, second, "QUEUED")
    prove(event)


def test_an_offer_that_is_paid_is_the_user_s(client, offered, db, prove):
    event, entry, _ = offered()
    checkout = client.post("/api/checkouts", {"event_id": event}).expect(201).json
    client.post(f"/api/checkouts/{checkout['checkout_id']}/complete", {"payment_method": "tok_ok"}).expect(200)
    assert entry_of(client, entry)["status"] == "ASSIGNED"
    await_row(db, entry, "ASSIGNED")
    prove(event)


def test_an_offer_whose_payment_fails_goes_to_the_next(client, other, offered, db, prove):
    event, entry, second = offered()
    checkout = client.post("/api/checkouts", {"event_id": event}).expect(201).json
    client.post(f"/api/checkouts/{checkout['checkout_id']}/complete", {"payment_method": "tok_declined"}).expect(402)
    assert entry_of(client, entry)["status"] == "LAPSED"
    assert got(other, second, "OFFERED")["seatId"] == "A-1"
    prove(event)


def test_an_offer_that_lapses_goes_to_the_next_and_the_lapsed_one_is_told(client, other, offered, db, org, box, prove):
    event, entry, second = offered(ttl=1)
    assert got(client, entry, "LAPSED")["position"] is None
    assert got(other, second, "OFFERED")["seatId"] == "A-1"
    hold = client.get_hold(entry["holdId"]).expect(200).json
    assert (hold["status"], hold["reason"]) == ("expired", "waitlist_lapsed")
    await_row(db, entry, "LAPSED")
    assert told(db, entry) == ["waitlist.offered", "waitlist.lapsed"]
    [released] = query(db, "SELECT reason, actor FROM audit_log WHERE org_id = %s AND hold_id = %s "
                       "AND action = 'seat_released'", org, entry["holdId"])
    assert released == ("waitlist_lapsed", None)
    mails = wait_until(lambda: len(of := box.to(f"first@{event}.example")) == 2 and of, 15)
    assert [mail.message["Subject"].partition(":")[0] for mail in mails] == [
        "A seat is kept for you", "Your seat went to the next one"]
    assert all("A-1" in mail.text for mail in mails)
    assert box.await_mail(f"next@{event}.example")
    prove(event)


def test_who_let_an_offer_lapse_may_join_again_at_once(admin, client, offered):
    event, entry, _ = offered(ttl=1)
    assert got(client, entry, "LAPSED")
    again = joined(client, event)
    assert again["waitlistId"] != entry["waitlistId"]
    assert leave(client, entry).expect(200).json["status"] == "LAPSED"


@pytest.mark.parametrize("how", ["leave", "cancel the hold", "an agent"])
def test_an_offer_that_is_given_back_goes_to_the_next(admin, client, other, offered, db, how, prove):
    event, entry, second = offered()
    if how == "leave":
        assert leave(client, entry).expect(200).json["status"] == "LEFT"
    elif how == "an agent":
        assert leave(admin.as_user("agent-1", "agent"), entry).expect(200).json["status"] == "LEFT"
    else:
        client.cancel(entry["holdId"]).expect(200)
    assert entry_of(client, entry)["status"] == "LEFT"
    assert leave(client, entry).expect(200).json["status"] == "LEFT"
    assert got(other, second, "OFFERED")["seatId"] == "A-1"
    await_row(db, entry, "LEFT")
    assert told(db, entry) == ["waitlist.offered"]
    joined(client, event)
    prove(event)


def test_a_walk_in_may_have_the_seat_of_an_offer_that_is_over(client, other, offered, admin, db, org, prove):
    """A take-over of what the waitlist's hold left says why it ended."""
    event, entry, second = offered(ttl=1)
    leave(other, second).expect(200)
    walk_in = admin.as_user("walk-in")
    wait_until(lambda: walk_in.hold_one(event, "A-1").status == 201, 10, every=0.005)
    reasons = query(db, "SELECT reason FROM seat_holds WHERE hold_id = %s", entry["holdId"])
    assert reasons == [("waitlist_lapsed",)]
    prove(event)


# --- who can't be served --------------------------------------------------------------------------------------


def test_who_has_all_that_he_may_have_blocks_nobody(admin, client, other, full, prove):
    event, holds = full(2, policy=CONFIRM | {"max_seats_per_user": 1})
    admin.cancel(holds["A-2"]).expect(200)
    mine = client.held(event, "A-2")["hold_id"]
    first, second = joined(client, event), joined(other, event)
    admin.cancel(holds["A-1"]).expect(200)
    assert got(other, second)["seatId"] == "A-1"
    assert entry_of(client, first)["position"] == 1
    assert client.get_hold(mine).expect(200).json["status"] == "active"
    prove(event)


def test_a_hold_of_theirs_that_is_being_paid_keeps_them_waiting(admin, client, other, full, prove):
    event, holds = full([seat("1A", type="window"), seat("1B"), seat("1C", type="window")], kind="flight")
    admin.cancel(holds["1B"]).expect(200)
    client.held(event, "1B")
    checkout = client.post("/api/checkouts", {"event_id": event}).expect(201).json
    client.post(f"/api/checkouts/{checkout['checkout_id']}/complete", {"payment_method": "tok_pending"}).expect(202)
    first, second = joined(client, event, type="window"), joined(other, event, type="window")
    admin.cancel(holds["1A"]).expect(200)
    assert got(other, second)["seatId"] == "1A"
    assert is_now(client, first, "QUEUED")
    prove(event)


def test_nobody_is_served_at_an_event_that_isn_t_on_sale(admin, client, full, db):
    event, holds = full(1, policy=CONFIRM)
    entry = joined(client, event)
    admin.set_event(event, status="closed", policy=CONFIRM)
    admin.cancel(holds["A-1"]).expect(200)
    other_event, other_holds = full(1, policy=CONFIRM)  # what is served later shows that this one was looked at
    later = joined(client, other_event)
    admin.cancel(other_holds["A-1"]).expect(200)
    got(client, later)
    assert entry_of(client, entry)["status"] == "QUEUED"
    admin.set_event(event, policy=CONFIRM)
    assert got(client, entry)["seatId"] == "A-1"


# --- what is left of it ----------------------------------------------------------------------------------------


def test_the_audit_log_tells_what_became_of_an_entry(admin, client, other, offered):
    event, entry, second = offered()
    leave(client, entry).expect(200)
    got(other, second, "OFFERED")
    entries = admin.get(f"/api/admin/audit?event_id={event}&limit=100").expect(200).json["entries"]
    story = [(each["action"], each["actor"], each["changes"].get("user_id"), each["changes"].get("seat_id"))
             for each in entries if each["entity_type"] == "waitlist"]
    assert sorted(story, key=str) == sorted([
        ("waitlist_joined", client.user, client.user, None), ("waitlist_joined", other.user, other.user, None),
        ("waitlist_offered", None, client.user, "A-1"), ("waitlist_left", client.user, client.user, "A-1"),
        ("waitlist_offered", None, other.user, "A-1")], key=str)
    assert {each["entity_id"] for each in entries if each["entity_type"] == "waitlist"} == {
        entry["waitlistId"], second["waitlistId"]}


def test_webhooks_tell_of_offers(admin, client, other, full):
    with Receiver() as receiver:
        admin.put("/api/admin/webhooks", {"url": receiver.url, "kinds": [
            "waitlist.offered", "waitlist.assigned", "waitlist.lapsed"]}).expect(201)
        policy = {"waitlist_mode": "offer", "waitlist_offer_ttl": 1}
        event, holds = full(1, policy=policy)
        first = joined(client, event)
        admin.cancel(holds["A-1"]).expect(200)
        got(client, first, "OFFERED", "LAPSED")
        admin.set_event(event, policy=policy | {"waitlist_offer_ttl": 60})  # time enough to confirm the next offer
        second = joined(other, event)
        offer = got(other, second, "OFFERED")
        other.confirm(offer["holdId"]).expect(200)
        receiver.await_events(lambda events: len(events) == 4)
        told_of = {(each["kind"], each["data"]["waitlist_id"]) for each in receiver.events}
        assert told_of == {("waitlist.offered", first["waitlistId"]), ("waitlist.lapsed", first["waitlistId"]),
                           ("waitlist.offered", second["waitlistId"]), ("waitlist.assigned", second["waitlistId"])}
        [data] = [each["data"] for each in receiver.events
                  if each["kind"] == "waitlist.offered" and each["data"]["waitlist_id"] == second["waitlistId"]]
        assert (data["event_id"], data["user_id"], data["seat_id"], data["hold_id"], data["expires_at"]) == (
            event, other.user, "A-1", offer["holdId"], offer["expiresAt"])


def test_it_is_counted(workplace, log_folder):
    """In a house of its own, since at the module's node seats of other tests come free at any time."""
    with House(workplace, log_folder, nodes=1) as house:
        [node] = house.nodes
        client = Client(node, "org-1", "user-1")
        event = Client(node, "org-1", "admin-1", "admin").make_event(1, policy=CONFIRM)
        got(client, joined(client, event))
        wait_until(lambda: node.metrics()["holdfast_waitlist_wait_seconds_count"] > 0, what="it is counted, and last its time")
        metrics = node.metrics()
        assert metrics["waitlist_assignments_success"] == metrics["holdfast_waitlist_wait_seconds_count"] == 1


def test_first_come_first_served(admin, full, db, org, prove):
    event, holds = full(6, policy=CONFIRM)
    entries = [joined(admin, event, user=f"user-{n}") for n in range(9)]
    for hold in holds.values():
        admin.cancel(hold).expect(200)
    for entry in entries[:6]:
        got(admin, entry)
    assert [entry_of(admin, entry)["position"] for entry in entries[6:]] == [1, 2, 3]
    assert_first_come_first_served(db, org, event)
    prove(event)


def test_an_entry_that_somebody_is_about_is_not_waited_for(admin, client, full, database_url):
    """Its row is locked: it is served when that is over."""
    event, holds = full(1, policy=CONFIRM)
    entry = joined(client, event)
    with holding(database_url, "SELECT FROM waitlist WHERE waitlist_id = %s FOR UPDATE",
                 (entry["waitlistId"],)) as bystander:
        admin.cancel(holds["A-1"]).expect(200)
        other_event, other_holds = full(1, policy=CONFIRM)
        later = joined(client, other_event)
        admin.cancel(other_holds["A-1"]).expect(200)
        got(client, later)
        assert is_now(client, entry, "QUEUED")
        bystander.release()
        got(client, entry)


def test_who_joins_a_node_that_stops_has_a_place_all_the_same(start_node, client, full, db):
    """The write takes longer than the node may wait for it."""
    leaving = start_node(request_timeout="60s", drain_timeout="2s", drain_delay="0ms")
    event, _ = full(1)
    with trigger(db, "slow", "waitlist", "BEFORE INSERT", "PERFORM pg_sleep(4); RETURN NEW;"):
        wire = ask(join_shot(client.at(leaving), event))
        wait_until(lambda: query(db, "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' "
                                 "AND datname = current_database()"), 10, what="the entry is being written")
        leaving.stop()
    assert wire.answer(timeout=10).expect(201).json["position"] == 1
    join(client, event).expect(409, "already_waiting")
