"""POST /auth/pnr-login: who gets in, who doesn't and learns nothing from it, and how often one may try."""

import uuid

import pytest

from support import statements
from support.cabin import make_flight
from support.checkins import KEY, api_keys, checked_in, create, get, login
from support.client import Client, raw
from support.contract import check_problem, fields_of
from support.house import House
from support.node import Node
from support.swarm import Shot, drive
from support.tables import query
from support.waiting import wait_until

ORG, OTHER_ORG = "airline-1", "airline-2"
NODE_SETTINGS = {"api_keys": api_keys(ORG, OTHER_ORG)}
TRIES = 5


@pytest.fixture
def org():
    """The key names the organization, so all tests here share one; each has passengers of its own."""
    return ORG


@pytest.fixture
def flight(admin):
    return make_flight(admin)


@pytest.fixture
def pnr():
    """Of this test alone."""
    return f"P-{uuid.uuid4().hex[:12]}-x"


@pytest.fixture
def checkin(admin, flight, pnr):
    return checked_in(admin, flight, pnr, "Jansen")


def refused(answer):
    return check_problem(answer, "unauthenticated", "/auth/pnr-login")


# --- getting in ------------------------------------------------------------------------------------------------


def test_a_passenger_logs_in(node, org, admin, flight, pnr, checkin):
    answer = login(node, org, pnr, "Jansen").expect(200)
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json
    assert set(body) == {"token", "checkinId", "flightId", "state", "seatMap", "currentSeat"}
    assert body == body | {"checkinId": checkin["checkinId"], "flightId": flight, "state": "IN_PROGRESS", "currentSeat": None}
    assert sorted(seat["seatId"] for seat in body["seatMap"]) == sorted(f"{row}{letter}" for row in (1, 2, 3) for letter in "ABCDEF")
    assert all(set(seat) == {"seatId", "state", "heldBy", "holdExpiresAt"} for seat in body["seatMap"])
    passenger = Client(node, org, pnr, token=body["token"])
    assert get(passenger, checkin).expect(200).json == checkin
    hold = passenger.held(flight, "2B")
    passenger.confirm(hold["hold_id"]).expect(200)
    admin.held(flight, "3C")
    again = login(node, org, pnr, "Jansen").expect(200).json
    assert again["currentSeat"] == "2B"
    seats = {seat["seatId"]: seat for seat in again["seatMap"]}
    assert (seats["2B"]["state"], seats["2B"]["heldBy"]) == ("CONFIRMED", pnr)
    assert (seats["3C"]["state"], seats["3C"]["heldBy"]) == ("HELD", None)


@pytest.mark.parametrize("name, said", [
    ("Jansen", "JANSEN"), ("Jansen", "jansen"), ("Jansen", "  Jansen "), ("Jansen", "\tJansen\n"), ("de Vries", "DE VRIES"),
    ("Müller", "MÜLLER"), ("ÅKERLUND", "åkerlund"), ("Papadopoulos-Παπαδόπουλος", "PAPADOPOULOS-ΠΑΠΑΔΌΠΟΥΛΟΣ"),
    ("Müller", "Mu\u0308ller"), ("Jansen", "Jansen\u00a0"), ("O'Neil", "o'neil"), (" Jansen ", "Jansen")])
def test_names_are_compared_without_case_blanks_and_ways_to_write_a_letter(node, org, admin, flight, pnr, name, said):
    checked_in(admin, flight, pnr, name)
    login(node, org, f"  {pnr.lower()}\t", said).expect(200)
    refused(login(node, org, pnr, said + "x"))


def test_the_newest_checkin_that_fits(node, org, admin, pnr):
    first, second, third = (make_flight(admin) for _ in range(3))
    for flight, name in ((first, "Jansen"), (second, "Jansen"), (third, "Smith")):
        checked_in(admin, flight, pnr, name)
    assert login(node, org, pnr, "Jansen").expect(200).json["flightId"] == second
    admin.set_event(second, kind="flight", status="cancelled")
    assert login(node, org, pnr, "Jansen").expect(200).json["flightId"] == first
    assert login(node, org, pnr, "Smith").expect(200).json["flightId"] == third
    admin.set_event(first, kind="flight", status="cancelled")
    refused(login(node, org, pnr, "Jansen"))


def test_a_name_that_was_corrected(node, org, admin, flight, pnr, checkin):
    create(admin, flight, pnr, "Smith").expect(200)
    refused(login(node, org, pnr, "Jansen"))
    login(node, org, pnr, "Smith").expect(200)


# --- not getting in ----------------------------------------------------------------------------------------------


def test_an_unknown_pnr_and_a_wrong_name_get_the_same_answer(node, org, pnr, checkin):
    unknown, wrong = refused(login(node, org, pnr + "0", "Jansen")), refused(login(node, org, pnr, "Smith"))
    for problem in (unknown, wrong):
        del problem["request_id"]
    assert unknown == wrong


@pytest.mark.parametrize("key", ["", "nonsense", KEY, f"{KEY} of {ORG}x", f"{ORG}:{KEY} of {ORG}"])
def test_without_a_front_ends_key_nobody_gets_in(node, org, pnr, checkin, key):
    refused(login(node, org, pnr, "Jansen", key=key))


def test_a_key_opens_its_organization_only(node, pnr, checkin):
    refused(login(node, OTHER_ORG, pnr, "Jansen"))


def test_a_key_twice_is_no_request(node, org, pnr, checkin):
    body = b'{"pnr": "x", "lastName": "y"}'
    answer = raw(node, b"POST /auth/pnr-login HTTP/1.1\r\nHost: x\r\nX-Api-Key: a\r\nX-Api-Key: b\r\nContent-Length: %d\r\n\r\n%s"
                 % (len(body), body))
    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("body, fields", [({}, {"pnr", "lastName"}), ({"pnr": "ABC123"}, {"lastName"}), ({"pnr": 7, "lastName": "x"}, {"pnr"}),
                                          ({"pnr": "", "lastName": "x"}, {"pnr"}), ({"pnr": "x" * 300, "lastName": "x"}, {"pnr"}),
                                          ({"pnr": "ABC", "lastName": None}, {"lastName"})])
def test_a_wrong_body_names_its_fields(node, org, body, fields):
    answer = Client(node, org, token="").post("/auth/pnr-login", body, headers={"X-Api-Key": f"{KEY} of {org}"})
    assert answer.status == 400 and fields_of(answer.json) == fields


def test_what_can_be_no_pnr_is_an_unknown_one(node, org):
    for pnr in ("a b", "%", "x" * 200, "ünï", "' OR 1=1 --", "a/b"):
        refused(login(node, org, pnr, "Jansen"))


def test_blanks_alone_fit_nobody(node, org, pnr, checkin):
    refused(login(node, org, pnr, "   "))
    refused(login(node, org, "   ", "Jansen"))


def test_an_idempotency_key_keeps_no_token(node, org, admin, flight, pnr, checkin, db):
    """Nothing is kept, so that each time with the key is judged by itself."""
    key = {"Idempotency-Key": f"key-{pnr}"}
    login(node, org, pnr, "Jansen", headers=key).expect(200)
    refused(login(node, org, pnr, "Smith", headers=key))
    create(admin, flight, f"{pnr}-2", headers=key).expect(201)
    login(node, org, pnr, "Jansen", headers=key).expect(200)
    kept = query(db, "SELECT path FROM idempotency_keys WHERE key = %s", key["Idempotency-Key"])
    assert [row.path for row in kept] == ["/checkins"]


# --- how often ---------------------------------------------------------------------------------------------------


def limited(answer):
    problem = check_problem(answer, "rate_limited", "/auth/pnr-login")
    assert 1 <= int(answer.headers["Retry-After"]) <= 900
    return problem


def test_after_five_wrong_names_the_right_one_waits_too(node, org, pnr, checkin):
    login(node, org, pnr, "Jansen").expect(200)
    for n in range(TRIES):
        refused(login(node, org, pnr, f"Smith-{n}"))
    for name in ("Smith", "Jansen", "Jansen"):
        limited(login(node, org, pnr.lower() + " ", name))
    login(node, org, pnr + "0", "Jansen").expect(401)


def test_an_unknown_pnr_is_counted_alike(node, org, pnr):
    for _ in range(TRIES):
        refused(login(node, org, pnr, "Jansen"))
    limited(login(node, org, pnr, "Jansen"))


def test_another_way_to_write_a_pnr_gives_no_more_tries(node, org, admin, flight, pnr):
    pnr += "SIS"
    checked_in(admin, flight, pnr, "Jansen")
    for said in (pnr, pnr.lower(), f" {pnr}", f"{pnr}\t", f"\n{pnr.lower()}\r"):
        refused(login(node, org, said, "Smith"))
    limited(login(node, org, pnr.swapcase(), "Jansen"))
    for said in (pnr.replace("S", "\u017f"), pnr.replace("I", "\u0131"), pnr.replace("S", "\uff33"), pnr + "\u00a0"):
        refused(login(node, org, said, "Jansen"))


def test_right_ones_are_not_counted(node, org, pnr, checkin):
    for _ in range(3 * TRIES):
        login(node, org, pnr, "Jansen").expect(200)


def test_another_organizations_passenger_has_tries_of_their_own(node, org, pnr, checkin):
    for _ in range(TRIES):
        refused(login(node, OTHER_ORG, pnr, "Jansen"))
    login(node, org, pnr, "Jansen").expect(200)


def test_a_hundred_at_once_are_five_tries(node, org, pnr, checkin):
    def all_at_once():
        return (yield [login_shot(node, org, pnr, f"Smith-{n}") for n in range(100)])
    answers = drive([all_at_once()], timeout=60)[0]
    statuses = [answer.status for answer in answers]
    assert set(statuses) == {401, 429} and statuses.count(401) <= TRIES
    for n in range(TRIES):
        if login(node, org, pnr, f"Jones-{n}").status == 429:
            break
    limited(login(node, org, pnr, "Jansen"))


def login_shot(node, org, pnr, name):
    body = f'{{"pnr": "{pnr}", "lastName": "{name}"}}'.encode()
    return Shot(node, (f"POST /auth/pnr-login HTTP/1.1\r\nHost: x\r\nX-Api-Key: {KEY} of {org}\r\n"
                       f"Content-Length: {len(body)}\r\n\r\n").encode() + body)


def test_the_window_ends(start_node, org, admin, pnr, checkin):
    node = start_node(api_keys=NODE_SETTINGS["api_keys"], login_tries=2, login_window="1s")
    for _ in range(2):
        refused(login(node, org, pnr, "Smith"))
    answer = login(node, org, pnr, "Jansen")
    assert answer.status == 200 or int(answer.headers["Retry-After"]) == 1
    wait_until(lambda: login(node, org, pnr, "Jansen").status == 200, 10, what="the window is over")


def test_an_address_has_its_own_count(start_node, org, pnr, checkin):
    limits = {"rate_general_per_min": 100000, "rate_burst_per_5s": 100000}
    node = start_node(api_keys=NODE_SETTINGS["api_keys"], rate_limits="on", login_tries_per_address=8,
                      trusted_proxies="127.0.0.1", **limits)
    for n in range(8):
        refused(login(node, org, f"{pnr}-{n}", "Jansen", headers={"X-Forwarded-For": "198.51.100.7"}))
    limited(login(node, org, pnr, "Jansen", headers={"X-Forwarded-For": "198.51.100.7"}))
    login(node, org, pnr, "Jansen", headers={"X-Forwarded-For": "198.51.100.8"}).expect(200)


def test_with_rate_limits_off_an_address_has_none(node, org, pnr, checkin):
    for n in range(30):
        refused(login(node, org, f"{pnr}-{n}", "Jansen"))
    login(node, org, pnr, "Jansen").expect(200)


# --- settings and logs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", ["nonsense", "an org:key", "org:", ":key", "org:a,,org:b", "a:same,b:same"])
def test_bad_keys_are_an_error_that_tells_no_key(log_folder, database_url, keys):
    for command in ("check-config", "serve"):
        done = Node(log_folder, database_url, api_keys=keys).command(command, timeout=20)
        assert done.returncode == 1 and "api_keys" in done.stderr, done
        assert "same" not in done.stderr and "nonsense" not in done.stderr


@pytest.mark.parametrize("name, value", [("baggage_limit_kg", "heavy"), ("baggage_limit_kg", "25.001"), ("baggage_limit_kg", "-1"),
                                         ("baggage_max_kg", "100000"), ("baggage_currency", "usd"), ("baggage_provider", "guess"),
                                         ("baggage_surcharge", "0"), ("login_tries", "0"), ("passenger_token_ttl", "1s")])
def test_bad_settings_name_themselves(log_folder, database_url, name, value):
    for command in ("check-config", "serve"):
        done = Node(log_folder, database_url, **{name: value}).command(command, timeout=20)
        assert done.returncode in (1, 2) and name in done.stderr.lower(), done


def test_http_scales_need_a_url(log_folder, database_url):
    for url in ("", "ftp://x/", "http://user:password@x/"):
        done = Node(log_folder, database_url, baggage_provider="http", baggage_provider_url=url).command("serve", timeout=20)
        assert done.returncode == 1 and "baggage_provider_url" in done.stderr


def test_nothing_secret_is_in_the_log(start_node, org, pnr, checkin):
    node = start_node(api_keys=NODE_SETTINGS["api_keys"], log_level="debug")
    token = login(node, org, pnr, "Jansen").expect(200).json["token"]
    refused(login(node, org, pnr, "Smith"))
    refused(login(node, org, pnr, "Jansen", key="a key that is none"))
    node.stop()
    log = node.log_text()
    for secret in (token, KEY, "Jansen", "Smith", "a key that is none", pnr):
        assert secret not in log, secret


# --- what it costs --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counted(workplace, log_folder):
    """A node whose Postgres counts statements."""
    settings = {"api_keys": NODE_SETTINGS["api_keys"], "login_tries": 1000}
    with House(workplace, log_folder, nodes=1, postgres=statements.PRELOADED, **settings) as house:
        yield house


def cost_of(house, pnr, name, status, times=200):
    """{statement: calls} of so many logins; what a node does by itself is fewer."""
    with house.database() as db:
        statements.prepare(db)
        statements.forget(db)
        for _ in range(times):
            login(house.nodes[0], ORG, pnr, name).expect(status)
        return {statement: count for statement, count in statements.calls(db).items() if count >= times}


def test_an_unknown_pnr_and_a_wrong_name_cost_the_same_statement(counted, pnr):
    admin = Client(counted.nodes[0], ORG, "admin", "admin")
    checked_in(admin, make_flight(admin), pnr)
    unknown, wrong = cost_of(counted, f"{pnr}-0", "Smith", 401), cost_of(counted, pnr, "Smith", 401)
    assert unknown == wrong == {"find_checkin": 200}
