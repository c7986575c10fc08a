"""Mails to customers: what they say, to whom they go, once, and what can't be put into them."""

import pytest

from support.checkouts import complete, started
from support.mailbox import Mailbox
from support.node import Node
from support.tables import all_is_told, query
from support.waiting import wait_until

LETTERS = "/api/admin/webhooks/dead-letters"
FROM = "tickets@house.example"


@pytest.fixture(scope="module")
def box():
    with Mailbox() as made:
        yield made


@pytest.fixture(scope="module")
def node(log_folder, database_url, empty_redis, box):
    started_node = Node(log_folder, database_url, empty_redis, smtp_url=box.url, smtp_from=FROM, delivery_backoff="50ms",
                        delivery_give_up="2s").start()
    yield started_node
    started_node.stop()


@pytest.fixture
def mailbox(box):
    """Empty."""
    box.mails.clear()
    box.refuses = False
    return box


def buy(client, event, *seats, to, **more):
    hold = client.held(event, *seats, customer_email=to, **more)
    checkout = started(client, event, [hold["hold_id"]])
    return checkout, complete(client, checkout).expect(200).json


def test_tickets_come_by_mail(client, admin, mailbox):
    event = admin.make_event(3, name="Die Fledermaus — Gala im großen Haus, mit einem sehr langen Namen bis übers Zeilenende")
    priced = admin.make_event([{"seat_id": "B-1", "section": "m", "row": "B", "number": "1", "price": 12345}])
    checkout, answer = buy(client, event, "A-1", "A-2", to="buyer@example.org")
    mail = mailbox.await_mail("buyer@example.org")
    assert mail.sender == FROM and mail.recipients == ["buyer@example.org"]
    assert mail.message["From"] == f"<{FROM}>" or FROM in mail.message["From"]
    assert mail.message["To"] == "<buyer@example.org>" or "buyer@example.org" in mail.message["To"]
    assert "Die Fledermaus — Gala im großen Haus" in mail.message["Subject"]
    assert mail.message["Message-ID"] and mail.message["Date"]
    assert all(len(line) <= 78 for line in mail.raw.split(b"\r\n"))
    for ticket in answer["tickets"]:
        assert ticket["ticket_id"] in mail.text and ticket["seat_id"] in mail.text
    assert checkout["checkout_id"] in mail.text
    buy(client, priced, "B-1", to="rich@example.org", cart="cart-2")
    assert "123.45 USD" in mailbox.await_mail("rich@example.org").text
    assert len(mailbox.to("buyer@example.org")) == 1


def test_a_name_makes_no_header(client, admin, mailbox, db, org):
    event = admin.make_event(2)
    query(db, "UPDATE events SET name = %s WHERE org_id = %s AND event_id = %s RETURNING 1",
          "Gala\r\nBcc: everybody@example.org\r\n\r\nhello", org, event)
    buy(client, event, "A-1", to="buyer@example.org")
    mail = mailbox.await_mail("buyer@example.org")
    assert mail.message["Bcc"] is None and mail.recipients == ["buyer@example.org"]
    assert "hello" not in mail.raw.decode()


def test_an_address_that_is_none_is_a_dead_letter_at_once(client, admin, mailbox, db, org):
    event = admin.make_event(2)
    query(db, "INSERT INTO outbox (org_id, event_id, kind, email, payload) VALUES (%s, %s, 'checkout.completed', %s, '{}') "
          "RETURNING 1", org, event, "a@b.example>\r\nRCPT TO:<c@d.example")
    [letter] = wait_until(lambda: admin.get(LETTERS).expect(200).json["dead_letters"], 20)
    assert letter["channel"] == "mail" and letter["attempts"] == 1 and mailbox.mails == []


def test_a_mail_is_tried_again_and_then_a_dead_letter_that_can_be_replayed(client, admin, mailbox):
    mailbox.refuses = True
    event = admin.make_event(2)
    buy(client, event, "A-1", to="buyer@example.org")
    [letter] = wait_until(lambda: admin.get(LETTERS).expect(200).json["dead_letters"], 20)
    assert letter["channel"] == "mail" and letter["email"] == "buyer@example.org" and letter["attempts"] > 1
    mailbox.refuses = False
    admin.post(LETTERS + "/replay", {"all": True}).expect(200)
    assert mailbox.await_mail("buyer@example.org")


def test_who_left_a_checkout_is_told_once_and_who_only_looked_is_not(client, other, admin, mailbox, db, org):
    event = admin.make_event(4, policy={"hold_ttl": 3, "extend_by": 1, "max_hold": 4})
    client.held(event, "A-1", customer_email="left@example.org")
    client.held(event, "A-2", customer_email="left@example.org", cart="cart-2")
    started(client, event)
    other.held(event, "A-3", customer_email="looked@example.org")
    mail = mailbox.await_mail("left@example.org")
    assert "A-1" in mail.text or "A-2" in mail.text
    wait_until(lambda: not query(db, "SELECT 1 FROM seat_holds WHERE org_id = %s AND status = 'active'", org)
               and all_is_told(db, org), 15)
    assert len(mailbox.to("left@example.org")) == 1 and mailbox.to("looked@example.org") == []
