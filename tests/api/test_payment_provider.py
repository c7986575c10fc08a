"""A provider over HTTP, that fails in every way that it can: nobody is charged twice, what is charged is sold, and what
isn't is free again when payment_timeout has passed."""

import datetime
import ipaddress
import threading
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from support.checkouts import await_intent, checkout_row, complete, held_checkout, in_payment, intents_of
from support.node import Node, verify
from support.payment_provider import LATE_S, PaymentProvider
from support.tables import query, seat_row
from support.waiting import wait_until

PATIENCE = {"request_timeout": "2s", "payment_provider_timeout": "6s"}  # a caller is told within 2 s, whatever happens


@pytest.fixture(scope="module")
def provider():
    with PaymentProvider() as provider:
        yield provider
        assert provider.troubles == []


@pytest.fixture(scope="module")
def node(log_folder, database_url, empty_redis, provider):
    started = Node(log_folder, database_url, empty_redis, **PATIENCE, **provider.settings).start()
    yield started
    started.stop()
    verify(started)


@pytest.fixture
def sale(admin, client):
    """sale(payment_timeout=60, buyer=client) -> (event, checkout) of the seats A-1 and A-2, 12.50 EUR each."""
    def begin(payment_timeout=60, buyer=client):
        seats = [{"seat_id": f"A-{n}", "section": "main", "row": "A", "number": str(n), "price": 1250} for n in (1, 2)]
        event = admin.make_event(seats, currency="EUR", policy={"payment_timeout": payment_timeout})
        return event, held_checkout(buyer, event, "A-1", "A-2")[1]

    return begin


@pytest.fixture
def fate(db, org, provider, client, check_audit):
    """Asserts what became of a sale in the end, whatever came between: all of it or nothing, once."""
    def assert_it(event, checkout, sold, intent, charged):
        seats = {seat_row(db, org, event, seat).status for seat in ("A-1", "A-2")}
        assert seats == {"sold" if sold else "available"}
        assert in_payment(db, org, event) == set()
        [row] = intents_of(db, checkout)
        assert row.status == intent
        assert [charge.times_charged for charge in provider.charges_of(client.user)] == [charged]
        check_audit(event)

    return assert_it


@pytest.fixture
def client(client, org):
    """One user of the provider's to a test."""
    return client.as_user(f"user-of-{org}")


def ended(db, checkout, timeout=20):
    """The checkout's status as soon as it is neither open nor in payment."""
    def status():
        word = checkout_row(db, checkout).status
        return word not in ("open", "paying") and word

    return wait_until(status, timeout, what="the checkout has ended")


# --- plain answers -------------------------------------------------------------------------------------------


def test_what_is_paid_is_sold_and_the_provider_knows_for_what(client, org, provider, sale, fate, db):
    event, checkout = sale()
    answer = complete(client, checkout, "ok").expect(200).json
    assert len(answer["tickets"]) == 2
    [charge] = provider.charges_of(client.user)
    [intent] = intents_of(db, checkout)
    assert charge.body == {"intentId": intent.intent_id, "amount": 2500, "currency": "EUR", "method": "ok", "org": org,
                           "event": event, "user": client.user}
    assert intent.provider == "http"
    fate(event, checkout, sold=True, intent="succeeded", charged=1)


@pytest.mark.parametrize("method", ["declined", "failed"])
def test_what_is_declined_is_free_again(client, sale, fate, method):
    event, checkout = sale()
    complete(client, checkout, method).expect(402, "payment_failed")
    fate(event, checkout, sold=False, intent="failed", charged=0)


def test_what_is_pending_is_asked_about_at_payment_timeout_and_sold_when_it_is_paid(client, provider, sale, fate, db):
    event, checkout = sale(payment_timeout=2)
    intent = complete(client, checkout, "pending").expect(202).json["payment_intent_id"]
    provider.decide(intent, "succeeded")
    assert ended(db, checkout) == "completed"
    fate(event, checkout, sold=True, intent="succeeded", charged=1)


def test_what_is_pending_still_at_payment_timeout_is_free_again(client, provider, sale, fate, db):
    event, checkout = sale(payment_timeout=2)
    intent = complete(client, checkout, "pending").expect(202).json["payment_intent_id"]
    assert in_payment(db, client.org, event) == {"A-1", "A-2"}
    assert ended(db, checkout) == "failed"
    assert len(provider.charge(intent).asked) == 1
    fate(event, checkout, sold=False, intent="expired", charged=0)


@pytest.mark.parametrize("late, end", [("succeeded", "succeeded"), (None, "expired")])
def test_what_has_expired_is_asked_about_once_more(client, provider, sale, fate, db, late, end):
    """Who heard of its success may have died with it."""
    event, checkout = sale(payment_timeout=1)
    intent = complete(client, checkout, "pending").expect(202).json["payment_intent_id"]
    assert ended(db, checkout) == "failed"
    if late:
        provider.decide(intent, late)
    asked = len(provider.charge(intent).asked)
    assert query(db, "UPDATE payment_intents SET ask_at = clock_timestamp() WHERE intent_id = %s AND ask_at > "
                 "clock_timestamp() + interval '30 seconds' RETURNING 1", intent)  # a minute is over
    wait_until(lambda: len(provider.charge(intent).asked) > asked, 8)
    await_intent(db, intent, end)
    time.sleep(2)
    assert len(provider.charge(intent).asked) == asked + 1
    assert [row.ask_at for row in query(db, "SELECT ask_at FROM payment_intents WHERE intent_id = %s", intent)] == [None]
    fate(event, checkout, sold=bool(late), intent=end, charged=1 if late else 0)


# --- no answer: it may be charged ----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["hang", "break", "garbled", "error", "redirect", "wordless"])
def test_what_may_have_been_charged_is_undecided_and_asked_about(client, provider, sale, fate, db, how):
    event, checkout = sale(payment_timeout=5 if how == "hang" else 3)  # who hangs is told of after 2 s
    answer = complete(client, checkout, f"ok-{how}").expect(202).json
    assert answer["status"] == "payment_pending"
    assert checkout_row(db, checkout).status == "paying"
    assert ended(db, checkout) == "completed"
    # A request on a kept connection that breaks is sent once more by libcurl, under the same Idempotency-Key.
    assert provider.charge(answer["payment_intent_id"]).requests <= (2 if how == "break" else 1)
    fate(event, checkout, sold=True, intent="succeeded", charged=1)


def test_a_charge_that_is_sent_twice_is_made_once(client, other, provider, sale, fate, db):
    """On a connection that is kept from an earlier request, and breaks when the charge was read."""
    complete(other, sale(buyer=other)[1], "ok").expect(200)
    event, checkout = sale(payment_timeout=3)
    intent = complete(client, checkout, "ok-break").expect(202).json["payment_intent_id"]
    assert provider.charge(intent).requests == 2
    assert ended(db, checkout) == "completed"
    fate(event, checkout, sold=True, intent="succeeded", charged=1)


def test_what_was_declined_and_not_heard_is_free_again(client, sale, fate, db):
    event, checkout = sale(payment_timeout=2)
    complete(client, checkout, "declined-break").expect(202)
    assert ended(db, checkout) == "failed"
    fate(event, checkout, sold=False, intent="failed", charged=0)


def test_what_the_provider_knows_nothing_of_is_free_again(client, sale, fate, db):
    event, checkout = sale(payment_timeout=2)
    complete(client, checkout, "lost-break").expect(202)
    assert ended(db, checkout) == "failed"
    fate(event, checkout, sold=False, intent="expired", charged=0)


def test_an_answer_that_is_late_for_the_caller_is_settled_at_once(client, provider, sale, fate, db):
    event, checkout = sale(payment_timeout=60)
    began = time.monotonic()
    complete(client, checkout, "ok-late").expect(202)
    assert time.monotonic() - began < LATE_S
    assert ended(db, checkout, timeout=3 * LATE_S) == "completed"
    assert provider.charges_of(client.user)[0].asked == []
    fate(event, checkout, sold=True, intent="succeeded", charged=1)


@pytest.mark.parametrize("keyed", [True, False])
def test_who_asks_again_meanwhile_is_not_charged_again(client, provider, sale, fate, db, keyed):
    event, checkout = sale(payment_timeout=3)
    headers = {"Idempotency-Key": "\"once\""} if keyed else {}
    first = complete(client, checkout, "ok-garbled", headers=headers).expect(202).json
    assert complete(client, checkout, "ok-garbled", headers=headers).expect(202).json == first
    assert complete(client, checkout, "ok").expect(202).json["payment_intent_id"] == first["payment_intent_id"]
    assert ended(db, checkout) == "completed"
    assert len(complete(client, checkout, "ok").expect(200).json["tickets"]) == 2
    assert provider.charge(first["payment_intent_id"]).requests == 1
    fate(event, checkout, sold=True, intent="succeeded", charged=1)


# --- it can't be reached -------------------------------------------------------------------------------------


def test_what_could_not_be_asked_changes_nothing(client, other, provider, sale, db, org, check_audit):
    event, checkout = sale()
    provider.refuse()
    try:
        answer = complete(client, checkout, "ok").expect(503, "payment_unavailable")
    finally:
        provider.listen()
    assert int(answer.headers["Retry-After"]) > 0
    assert [intent.status for intent in intents_of(db, checkout)] == ["void"]
    assert checkout_row(db, checkout).status == "open"
    assert in_payment(db, org, event) == set()
    other.hold(event, "A-1").expect(409, "seat_taken")
    complete(client, checkout, "ok").expect(200)
    assert [charge.times_charged for charge in provider.charges_of(client.user)] == [1]
    check_audit(event)


def test_a_provider_that_is_away_at_payment_timeout_is_asked_for_another_one_and_then_it_is_over(
        client, provider, sale, fate, db, org):
    event, checkout = sale(payment_timeout=3)
    complete(client, checkout, "pending").expect(202)
    provider.refuse()
    try:
        began = intents_of(db, checkout)[0].created_at
        assert ended(db, checkout) == "failed"
        [row] = query(db, "SELECT asked, settled_at FROM payment_intents WHERE subject_id = %s", checkout["checkout_id"])
    finally:
        provider.listen()
    assert row.asked >= 3  # at 3 s, with backoff, and the last time
    assert 6.0 <= (row.settled_at - began).total_seconds() <= 10.0
    fate(event, checkout, sold=False, intent="expired", charged=0)


def test_a_provider_that_comes_back_in_time_decides(client, provider, sale, fate, db):
    event, checkout = sale(payment_timeout=4)
    intent = complete(client, checkout, "pending").expect(202).json["payment_intent_id"]
    provider.decide(intent, "succeeded")
    provider.refuse()
    try:
        wait_until(lambda: query(db, "SELECT asked FROM payment_intents WHERE intent_id = %s", intent)[0].asked > 0, 8)
        assert checkout_row(db, checkout).status == "paying"
    finally:
        provider.listen()
    assert ended(db, checkout) == "completed"
    fate(event, checkout, sold=True, intent="succeeded", charged=1)


def self_signed(folder):
    """A certificate for 127.0.0.1 that nobody vouches for, and its key: two files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
                   .serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
                   .not_valid_after(now + datetime.timedelta(days=1)).add_extension(names, critical=False)
                   .sign(key, hashes.SHA256()))
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                           serialization.NoEncryption()))
    return [str(file) for file in files]


def test_a_provider_whose_certificate_nobody_vouches_for_is_told_nothing(client, sale, start_node, tmp_path, db):
    with PaymentProvider(tls=self_signed(tmp_path)) as impostor:
        second = start_node(**PATIENCE, **impostor.settings)
        _, checkout = sale()
        complete(client.at(second), checkout, "ok").expect(503, "payment_unavailable")
        assert impostor.charges == {}
    assert [intent.status for intent in intents_of(db, checkout)] == ["void"]


# --- nodes that end ------------------------------------------------------------------------------------------


def completing(client, checkout, method):
    """Asks on a thread; the list gets the answer, or what was raised."""
    answers = []

    def ask():
        try:
            answers.append(complete(client, checkout, method))
        except Exception as trouble:  # the node was killed
            answers.append(trouble)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread, answers


@pytest.mark.parametrize("what, sold, intent", [("ok", True, "succeeded"), ("declined", False, "failed"),
                                                ("lost", False, "expired")])
def test_what_a_killed_node_was_charging_is_asked_about_by_another(client, provider, sale, fate, start_node, db, org,
                                                                  what, sold, intent):
    second = start_node(**PATIENCE, **provider.settings)
    event, checkout = sale(payment_timeout=3)
    thread, _ = completing(client.at(second), checkout, f"{what}-hang")
    charge = provider.await_charge(client.user)
    second.kill()
    thread.join(20)
    assert [row.status for row in intents_of(db, checkout)] == ["processing"]
    assert in_payment(db, org, event) == {"A-1", "A-2"}
    assert ended(db, checkout) == ("completed" if sold else "failed")
    assert (charge.requests, len(charge.asked)) == (1, 1)
    fate(event, checkout, sold=sold, intent=intent, charged=int(sold))


def test_a_node_that_ends_amidst_a_charge_leaves_it_to_another(client, provider, sale, fate, start_node, db):
    second = start_node(**provider.settings, request_timeout="30s", payment_provider_timeout="30s", drain_timeout="2s")
    event, checkout = sale(payment_timeout=5)
    thread, answers = completing(client.at(second), checkout, "ok-hang")
    provider.await_charge(client.user)
    second.stop(timeout=10)
    thread.join(20)
    assert answers[0].status == 202
    assert ended(db, checkout) == "completed"
    fate(event, checkout, sold=True, intent="succeeded", charged=1)


# --- limits --------------------------------------------------------------------------------------------------


def test_past_payments_max_a_payment_is_refused_and_changes_nothing(client, other, provider, sale, start_node, db):
    second = start_node(**PATIENCE, **provider.settings, payments_max=1)
    _, first = sale()
    _, refused = sale(buyer=other)
    thread, answers = completing(client.at(second), first, "ok-late")
    provider.await_charge(client.user)
    assert second.metrics()["holdfast_payments_under_way"] == 1
    complete(other.at(second), refused, "ok").expect(503, "payment_unavailable")
    assert checkout_row(db, refused).status == "open"
    thread.join(20)
    assert answers[0].status == 202
    assert ended(db, first) == "completed"

    def none_under_way():
        return second.metrics()["holdfast_payments_under_way"] == 0

    wait_until(none_under_way)
    complete(other.at(second), refused, "ok").expect(200)
    wait_until(none_under_way)
    metrics = second.metrics()
    assert metrics['holdfast_payments_total{outcome="paid"}'] == 2
    assert metrics['holdfast_payments_total{outcome="unreached"}'] == 1
    assert metrics["holdfast_payments_late_total"] == 1
