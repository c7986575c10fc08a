"""Baggage: light and heavy, weighed again, paid, not paid, paid twice, and scales that don't answer."""

import http.server
import json
import threading
from decimal import Decimal

import pytest

from support.cabin import make_flight
from support.checkins import audit_of, checked_in, get, intents_of, row_of, told_of, weigh, weighed
from support.checkouts import WEBHOOK_SECRET, deliver, intent_status
from support.client import Client
from support.contract import check_problem, fields_of
from support.swarm import drive, shot
from support.tables import query
from support.waiting import wait_until

NODE_SETTINGS = {"webhook_secret": WEBHOOK_SECRET}
NOWHERE = "0190a000-0000-7000-8000-000000000000"


@pytest.fixture
def flight(admin):
    return make_flight(admin)


@pytest.fixture
def checkin(admin, flight):
    return checked_in(admin, flight, "ABC123")


@pytest.fixture
def passenger(admin, checkin):
    return admin.as_user("ABC123")


def pay(node, intent, status="succeeded", key="key-1"):
    return deliver(node, intent, status, key).expect(200).json


# --- how heavy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kg, stored", [("0", 0), ("-0", 0), ("0.0", 0), ("20", 20), ("25", 25), ("25.0", 25), ("25.00", 25),
                                        ("25.000000000000000000", 25), ("2.5e1", 25), ("250E-1", 25), ("24.991", 25)])
def test_a_light_bag_completes_the_checkin(passenger, checkin, db, kg, stored):
    answer = passenger.post(f"/checkins/{checkin['checkinId']}/baggage", body=f'{{"weightKg": {kg}}}').expect(200).json
    assert answer == {"checkinId": checkin["checkinId"], "state": "COMPLETED", "paymentIntentId": None}
    row = row_of(db, checkin)
    assert (row.state, row.baggage_weight, row.intent) == ("COMPLETED", stored, None)
    assert intents_of(db, checkin) == {}
    assert audit_of(db, checkin) == ["checkin_created", "baggage_weighed"]
    assert told_of(db, checkin) == ["checkin.completed"]
    shown = get(passenger, checkin).json
    assert (shown["state"], shown["baggageWeight"]) == ("COMPLETED", stored)


@pytest.mark.parametrize("kg, stored", [("25.01", "25.01"), ("25.001", "25.01"), ("25.0000000000000000001", "25.01"), ("32", "32"),
                                        ("2.501e1", "25.01"), ("200", "200"), ("200.00", "200")])
def test_a_heavy_bag_waits_for_the_surcharge(passenger, checkin, flight, db, kg, stored):
    answer = passenger.post(f"/checkins/{checkin['checkinId']}/baggage", body=f'{{"weightKg": {kg}}}').expect(200).json
    assert answer["state"] == "WAITING_FOR_PAYMENT"
    [intent] = query(db, "SELECT * FROM payment_intents WHERE intent_id = %s", answer["paymentIntentId"])
    assert (intent.purpose, str(intent.subject_id), intent.status) == ("baggage", checkin["checkinId"], "pending")
    assert (intent.amount, intent.currency, intent.user_id, intent.event_id) == (5000, "USD", "ABC123", flight)
    assert intent.ask_at is None, "nobody is asked about it"
    row = row_of(db, checkin)
    assert (row.state, row.baggage_weight, row.intent) == ("WAITING_FOR_PAYMENT", Decimal(stored), answer["paymentIntentId"])
    assert told_of(db, checkin) == ["baggage.payment_required"]


@pytest.mark.parametrize("value", ["-1", "-0.01", "-0.001", '"30"', "1e9", "1e400", "200.01", "200.001", "null", "[]", "true", '{"kg": 3}'])
def test_what_no_bag_weighs_names_the_field(passenger, checkin, db, value):
    path = f"/checkins/{checkin['checkinId']}/baggage"
    problem = check_problem(passenger.post(path, body=f'{{"weightKg": {value}}}'),
                            "missing_field" if value == "null" else "invalid_field", path)
    assert fields_of(problem) == {"weightKg"}
    assert row_of(db, checkin).state == "IN_PROGRESS"


def test_a_missing_weight_and_no_json(passenger, checkin):
    path = f"/checkins/{checkin['checkinId']}/baggage"
    assert fields_of(check_problem(passenger.post(path, {}), "missing_field", path)) == {"weightKg"}
    for body in ('{"weightKg": NaN}', '{"weightKg": Infinity}', '{"weightKg": 0x20}', '{"weightKg": 030}', '{"weightKg": +3}',
                 '{"weightKg": .5}', '{"weightKg": 5.}', "", "weightKg=5"):
        check_problem(passenger.post(path, body=body), "malformed_json", path)


def test_other_rules(start_node, admin, flight, db):
    node = start_node(webhook_secret=WEBHOOK_SECRET, baggage_limit_kg="23.5", baggage_max_kg="32", baggage_surcharge=7550,
                      baggage_currency="EUR")
    desk = admin.at(node)
    light, heavy = (checked_in(admin, flight, name) for name in ("LIGHT", "HEAVY"))
    assert weighed(desk, light, 23.5)["state"] == "COMPLETED"
    intent = weighed(desk, heavy, 23.51)["paymentIntentId"]
    [row] = query(db, "SELECT amount, currency FROM payment_intents WHERE intent_id = %s", intent)
    assert row == (7550, "EUR")
    check_problem(weigh(desk, heavy, 32.01), "invalid_field")


# --- whose ---------------------------------------------------------------------------------------------------


def test_who_may_weigh(admin, passenger, checkin, db):
    check_problem(weigh(admin.as_user("XYZ789"), checkin, 20), "checkin_not_found")
    check_problem(weigh(Client(admin.node, "another-org", "a", "admin"), checkin, 20), "checkin_not_found")
    assert row_of(db, checkin).state == "IN_PROGRESS"
    weigh(admin.as_user("an-agent", "agent"), checkin, 32).expect(200)
    weigh(passenger, checkin, 20).expect(200)


def test_a_cancelled_flight_weighs_nothing(admin, passenger, checkin, flight, db):
    admin.set_event(flight, kind="flight", status="cancelled")
    check_problem(weigh(passenger, checkin, 32), "event_closed")
    assert row_of(db, checkin).state == "IN_PROGRESS" and intents_of(db, checkin) == {}


# --- paid, or not --------------------------------------------------------------------------------------------


def test_paid_is_complete_once(node, passenger, checkin, db):
    intent = weighed(passenger, checkin, 32)["paymentIntentId"]
    for n in range(3):
        assert pay(node, intent, key=f"key-{n % 2}") == {"intentId": intent, "status": "succeeded"}
    assert row_of(db, checkin).state == "COMPLETED"
    assert audit_of(db, checkin) == ["checkin_created", "baggage_weighed", "baggage_paid"]
    assert told_of(db, checkin) == ["baggage.payment_required", "checkin.completed"]
    assert pay(node, intent, "failed", "key-9")["status"] == "succeeded", "failed never undoes succeeded"
    assert row_of(db, checkin).state == "COMPLETED"


def test_not_paid_goes_on(node, passenger, checkin, db):
    intent = weighed(passenger, checkin, 32)["paymentIntentId"]
    assert pay(node, intent, "failed") == {"intentId": intent, "status": "failed"}
    assert get(passenger, checkin).json["state"] == "IN_PROGRESS"
    assert audit_of(db, checkin)[-1] == "baggage_not_paid" and told_of(db, checkin)[-1] == "payment.failed"
    second = weighed(passenger, checkin, 32)["paymentIntentId"]
    assert second != intent and intents_of(db, checkin) == {intent: "failed", second: "pending"}
    pay(node, second)
    assert row_of(db, checkin).state == "COMPLETED"


def test_a_success_that_comes_after_a_failure_wins(node, passenger, checkin, db):
    intent = weighed(passenger, checkin, 32)["paymentIntentId"]
    pay(node, intent, "failed", "key-1")
    assert pay(node, intent, "succeeded", "key-2")["status"] == "succeeded"
    row = row_of(db, checkin)
    assert (row.state, row.intent) == ("COMPLETED", intent)


# --- weighed again -------------------------------------------------------------------------------------------


def test_weighed_again_replaces_what_was_not_paid(node, passenger, checkin, db):
    first = weighed(passenger, checkin, 32)["paymentIntentId"]
    second = weighed(passenger, checkin, 40)["paymentIntentId"]
    assert intents_of(db, checkin) == {first: "void", second: "pending"}
    assert pay(node, first, "failed") == {"intentId": first, "status": "void"}
    assert row_of(db, checkin).state == "WAITING_FOR_PAYMENT", "of a replaced payment"
    [entry] = query(db, "SELECT meta FROM audit_log WHERE meta->>'checkin_id' = %s AND meta->>'replaced_intent_id' IS NOT NULL",
                    checkin["checkinId"])
    assert entry.meta["replaced_intent_id"] == first
    pay(node, second)
    assert row_of(db, checkin).state == "COMPLETED"


def test_weighed_again_and_light(node, passenger, checkin, db):
    intent = weighed(passenger, checkin, 32)["paymentIntentId"]
    assert weighed(passenger, checkin, 20) == {"checkinId": checkin["checkinId"], "state": "COMPLETED", "paymentIntentId": None}
    assert intents_of(db, checkin) == {intent: "void"}
    assert pay(node, intent)["status"] == "refund_required", "nothing was owed any more"
    assert row_of(db, checkin).intent is None
    assert told_of(db, checkin)[-1] == "payment.refund_required" and audit_of(db, checkin)[-1] == "refund_required"


def test_a_replaced_payment_that_is_paid_counts(node, passenger, checkin, db):
    first = weighed(passenger, checkin, 32)["paymentIntentId"]
    second = weighed(passenger, checkin, 33)["paymentIntentId"]
    assert pay(node, first)["status"] == "succeeded"
    row = row_of(db, checkin)
    assert (row.state, row.intent) == ("COMPLETED", first)
    assert intents_of(db, checkin) == {first: "succeeded", second: "void"}
    assert pay(node, second)["status"] == "refund_required", "one surcharge is due"
    assert intents_of(db, checkin) == {first: "succeeded", second: "refund_required"}


def test_a_replaced_payment_beside_a_paid_one_is_refunded(node, passenger, checkin, db):
    first = weighed(passenger, checkin, 32)["paymentIntentId"]
    second = weighed(passenger, checkin, 33)["paymentIntentId"]
    pay(node, second)
    for key in ("key-1", "key-2", "key-2"):
        assert pay(node, first, key=key)["status"] == "refund_required"
    assert row_of(db, checkin).intent == second
    assert told_of(db, checkin).count("payment.refund_required") == 1


def test_a_complete_checkin_stays_complete(node, passenger, checkin, db):
    weighed(passenger, checkin, 20)
    same = {"checkinId": checkin["checkinId"], "state": "COMPLETED", "paymentIntentId": None}
    for kg in (20, 5, 25):
        assert weighed(passenger, checkin, kg) == same
    problem = check_problem(weigh(passenger, checkin, 32), "version_conflict")
    assert "complete" in problem["detail"]
    assert row_of(db, checkin).baggage_weight == 20 and intents_of(db, checkin) == {}
    assert told_of(db, checkin) == ["checkin.completed"]


def test_what_is_paid_is_never_replaced(node, passenger, checkin, db):
    intent = weighed(passenger, checkin, 32)["paymentIntentId"]
    pay(node, intent)
    for kg in (32, 30, 10, 40):
        assert weighed(passenger, checkin, kg) == {"checkinId": checkin["checkinId"], "state": "COMPLETED", "paymentIntentId": intent}
    assert intents_of(db, checkin) == {intent: "succeeded"}
    assert audit_of(db, checkin) == ["checkin_created", "baggage_weighed", "baggage_paid"]


# --- under a key -----------------------------------------------------------------------------------------------


def test_under_a_key_one_payment_is_begun(passenger, checkin, db):
    key = {"Idempotency-Key": "k1"}
    first = weigh(passenger, checkin, 32, headers=key).expect(200).json
    assert weigh(passenger, checkin, 32, headers=key).expect(200).json == first
    weigh(passenger, checkin, 33, headers=key).expect(422, "idempotency_key_reused")
    assert intents_of(db, checkin) == {first["paymentIntentId"]: "pending"}


def test_under_a_key_twenty_at_once_are_one(passenger, checkin, db):
    path = f"/checkins/{checkin['checkinId']}/baggage"
    def all_at_once():
        return (yield [shot(passenger, "POST", path, {"weightKg": 32}, {"Idempotency-Key": "k1"}) for _ in range(20)])
    answers = drive([all_at_once()], timeout=60)[0]
    [intent] = intents_of(db, checkin)
    assert {answer.status for answer in answers} <= {200, 409}
    assert {answer.json["paymentIntentId"] for answer in answers if answer.status == 200} == {intent}
    assert all(answer.code == "request_in_progress" for answer in answers if answer.status == 409)


# --- scales ----------------------------------------------------------------------------------------------------


class Scales(http.server.ThreadingHTTPServer):
    """Answers with `answer` = (status, body), or not at all until let_go is set."""

    daemon_threads = True
    block_on_close = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), ScalesHandler)
        self.answer = (200, {"weightKg": 20})
        self.asked = []
        self.hangs = False
        self.let_go = threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/weigh"

    def handle_error(self, request, client_address):
        pass  # a client that gave up


class ScalesHandler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        if self.server.hangs:
            self.server.let_go.wait(60)
        status, answer = self.server.answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def scales():
    server = Scales()
    yield server
    server.let_go.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def weighing_node(start_node, scales):
    return start_node(webhook_secret=WEBHOOK_SECRET, baggage_provider="http", baggage_provider_url=scales.url,
                      request_timeout="8s")  # of which the scales have three quarters


def test_what_the_scales_say_counts(weighing_node, scales, passenger, checkin, flight, db):
    scales.answer = (200, {"weightKg": 25.01})
    answer = weighed(passenger.at(weighing_node), checkin, 20)
    assert answer["state"] == "WAITING_FOR_PAYMENT"
    assert scales.asked == [{"checkinId": checkin["checkinId"], "passengerId": "ABC123", "flightId": flight,
                             "org": passenger.org, "weightKg": 20}]
    scales.answer = (200, {"weightKg": 25.00})
    assert weighed(passenger.at(weighing_node), checkin, 32)["state"] == "COMPLETED"


@pytest.mark.parametrize("answer", [(500, {"weightKg": 20}), (200, "heavy"), (200, {}), (200, {"weightKg": "20"}), (200, {"weightKg": -1}),
                                    (404, {})], ids=str)
def test_scales_that_say_nothing_sensible(weighing_node, scales, passenger, checkin, db, answer):
    scales.answer = answer
    check_problem(weigh(passenger.at(weighing_node), checkin, 20), "payment_unavailable")
    assert row_of(db, checkin).state == "IN_PROGRESS"


def test_scales_that_are_away_or_hang(weighing_node, scales, passenger, checkin, admin, db):
    desk = passenger.at(weighing_node)
    scales.hangs = True
    check_problem(weigh(desk, checkin, 20), "payment_unavailable")
    assert get(desk, checkin).expect(200).json["state"] == "IN_PROGRESS", "nobody else waits for them"
    scales.let_go.set()
    scales.shutdown()
    scales.server_close()
    check_problem(weigh(desk, checkin, 20), "payment_unavailable")
    assert row_of(db, checkin).state == "IN_PROGRESS"


def test_more_than_a_bag_may_weigh_by_the_scales(weighing_node, scales, passenger, checkin, db):
    scales.answer = (200, {"weightKg": 200.01})
    problem = check_problem(weigh(passenger.at(weighing_node), checkin, 20), "invalid_field")
    assert fields_of(problem) == {"weightKg"}


def test_a_node_that_stops_gives_the_scales_up(start_node, scales, passenger, checkin, db):
    node = start_node(baggage_provider="http", baggage_provider_url=scales.url, request_timeout="60s", drain_timeout="2s",
                      drain_delay="0ms")
    scales.hangs = True
    answers = []
    asking = threading.Thread(target=lambda: answers.append(weigh(passenger.at(node), checkin, 20)))
    asking.start()
    wait_until(lambda: scales.asked, 10, what="the scales are asked")
    node.stop()
    asking.join(20)
    [answer] = answers
    assert answer.status == 503 and row_of(db, checkin).state == "IN_PROGRESS"
