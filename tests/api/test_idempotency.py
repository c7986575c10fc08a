"""Idempotency-Key: the same request twice has one effect and one answer, also after a restart."""

import json

import pytest

from support.client import Client
from support.contract import check_problem
from support.tables import audit, query
from support.waiting import at_once, wait_until


def key(text):
    return {"Idempotency-Key": text}


def hold(client, event, *seats, key_text="k", **more):
    return client.hold(event, *seats, headers=key(key_text), **more)


def same(first, second):
    """The stored answer: status, type and body, to the byte."""
    assert (first.status, first.headers["Content-Type"], first.body) == \
        (second.status, second.headers["Content-Type"], second.body)


def test_the_same_request_again_gets_the_same_answer(client, event, db, org, check_audit):
    first = hold(client, event, "A-1").expect(201)
    entries = audit(db, org, event)
    same(first, hold(client, event, "A-1"))
    assert audit(db, org, event) == entries
    check_audit(event)


def test_it_is_the_answer_of_then_whatever_happened_since(client, other, event):
    first = hold(client, event, "A-1").expect(201)
    client.cancel(first.json["hold_id"]).expect(200)
    other.held(event, "A-1")
    same(first, hold(client, event, "A-1"))
    assert other.seat(event, "A-1").json["mine"] is True


def test_another_body_is_refused(client, event, db, org):
    hold(client, event, "A-1").expect(201)
    for body in (("A-2",), ("A-1", "A-2")):
        check_problem(hold(client, event, *body), "idempotency_key_reused")
    check_problem(hold(client, event, "A-1", cart="another"), "idempotency_key_reused")
    assert client.seat_status(event, "A-2") == "available"


def test_the_body_counts_to_the_byte(client, event):
    body = {"event_id": event, "seat_ids": ["A-1"], "cart_token": "c"}
    sent = {"Content-Type": "application/json"} | key("k")
    client.post("/api/holds", body=json.dumps(body), headers=sent).expect(201)
    client.post("/api/holds", body=json.dumps(body), headers=sent).expect(201)
    client.post("/api/holds", body=json.dumps(body, indent=1), headers=sent).expect(422, "idempotency_key_reused")


def test_keys_are_per_path(client, event):
    """The same key elsewhere is another key."""
    client.hold_one(event, "A-1", headers=key("k")).expect(201)
    client.hold_one(event, "A-2", headers=key("k")).expect(201)
    held = hold(client, event, "A-3").expect(201).json["hold_id"]
    client.post(f"/api/holds/{held}/extend", {}, headers=key("k")).expect(200)
    client.post(f"/api/holds/{held}/confirm", {}, headers=key("k")).expect(200)


def test_keys_are_per_user_and_organization(client, other, node, event):
    hold(client, event, "A-1").expect(201)
    check_problem(hold(other, event, "A-1"), "seat_taken")
    stranger = Client(node, f"{client.org}-2", client.user)
    hold(stranger, event, "A-1").expect(404, "event_not_found")


@pytest.mark.parametrize("one, another", [('"quoted"', "quoted"), ("bare", '"bare"'), ('"a b"', "a b")])
def test_quoted_and_bare_are_the_same_key(client, event, one, another):
    first = hold(client, event, "A-1", key_text=one).expect(201)
    same(first, hold(client, event, "A-1", key_text=another))


@pytest.mark.parametrize("bad", ["x" * 256, "a\tb", '""', "ü".encode().decode("latin-1")])
def test_keys_that_cannot_be(client, event, bad):
    answer = hold(client, event, "A-1", key_text=bad)
    check_problem(answer, "invalid_field")
    assert client.seat_status(event, "A-1") == "available"


def test_a_key_of_255_characters_is_fine(client, event):
    first = hold(client, event, "A-1", key_text="x" * 255).expect(201)
    same(first, hold(client, event, "A-1", key_text="x" * 255))


# --- what is kept --------------------------------------------------------------------------------------------


def test_refusals_are_kept(client, other, event):
    """Also one from memory: that the seat is free by now doesn't change what was answered."""
    taken = other.held(event, "A-1")["hold_id"]
    client.hold_one(event, "A-1").expect(409)
    first = hold(client, event, "A-1")
    check_problem(first, "seat_taken")
    other.cancel(taken).expect(200)
    same(first, hold(client, event, "A-1"))
    check_problem(hold(client, event, "A-2"), "idempotency_key_reused")
    hold(client, event, "A-1", key_text="another").expect(201)


@pytest.mark.parametrize("body, status, code", [
    ({"seat_ids": "A-1", "cart_token": "c"}, 400, "invalid_field"),
    ({"seat_ids": ["A-1"]}, 400, "missing_field"),
    ({"seat_ids": ["Z-1"], "cart_token": "c"}, 404, "seat_not_found"),
    ({"seat_ids": [f"A-{n}" for n in range(1, 10)], "cart_token": "c"}, 422, "too_many_seats"),
])
def test_refusals_of_all_kinds_are_kept(client, event, body, status, code):
    first = client.post("/api/holds", {"event_id": event} | body, headers=key("k")).expect(status, code)
    same(first, client.post("/api/holds", {"event_id": event} | body, headers=key("k")))
    good = {"event_id": event, "seat_ids": ["A-1"], "cart_token": "c"}
    client.post("/api/holds", good, headers=key("k")).expect(422, "idempotency_key_reused")


def test_bad_json_is_kept_too(client):
    sent = {"Content-Type": "application/json"} | key("k")
    first = client.post("/api/holds", body=b"{", headers=sent).expect(400, "malformed_json")
    same(first, client.post("/api/holds", body=b"{", headers=sent))
    client.post("/api/holds", body=b"[", headers=sent).expect(422, "idempotency_key_reused")


def test_a_faults_answer_is_not_kept(client, event, start_node, proxied, database_url):
    proxy, url = proxied(database_url)
    user = client.at(start_node(database_url=url, request_timeout="2s"))
    proxy.refuse()
    wait_until(lambda: hold(user, event, "A-1").status == 503, timeout=20)
    proxy.allow()
    answer = wait_until(lambda: granted(hold(user, event, "A-1")), timeout=20)
    same(answer, hold(user, event, "A-1"))


def granted(answer):
    return answer if answer.status == 201 else None


def test_contention_is_not_kept(client, event, database_url, org):
    """The retry may win."""
    from support.tables import seat_locked
    with seat_locked(database_url, org, event, "A-1"):
        hold(client, event, "A-1").expect(409, "seat_contended")
    hold(client, event, "A-1").expect(201)


def test_who_has_no_good_token_leaves_nothing(client, node, event, db):
    Client(node, client.org, token="x.y.z").hold(event, "A-1", headers=key("k")).expect(401)
    hold(client, event, "A-1").expect(201)


# --- every POST ----------------------------------------------------------------------------------------------


def test_each_change_of_a_hold(client, event, db, org):
    held = client.held(event, "A-1", "A-2")
    path = f"/api/holds/{held['hold_id']}"
    longer = client.post(f"{path}/extend", {"seconds": 10}, headers=key("e")).expect(200)
    same(longer, client.post(f"{path}/extend", {"seconds": 10}, headers=key("e")))
    moved = client.post(f"{path}/transfer", {"to_user_id": "user-2"}, headers=key("t")).expect(200)
    same(moved, client.post(f"{path}/transfer", {"to_user_id": "user-2"}, headers=key("t")))
    other = client.as_user("user-2")
    sold = other.post(f"{path}/confirm", {}, headers=key("c")).expect(200)
    same(sold, other.post(f"{path}/confirm", {}, headers=key("c")))
    entries = [entry.action for entry in audit(db, org, event, "A-1")]
    assert entries == ["seat_held", "hold_extended", "hold_transferred", "seat_sold"]


@pytest.mark.parametrize("verb, undo, status", [("block", "unblock", "available"), ("unblock", "block", "blocked")])
def test_a_repeated_block_changes_nothing(admin, event, db, org, verb, undo, status):
    """Nor does another body under its key, though its seats could be changed."""
    def change(word, *seats, **more):
        return admin.post(f"/api/admin/seats/{word}", {"event_id": event, "seat_ids": list(seats), "reason": "x"}, **more)

    def now(seat):
        return query(db, "SELECT status FROM seats WHERE org_id = %s AND event_id = %s AND seat_id = %s", org, event, seat)

    change(undo, "A-1", "A-2")
    first = change(verb, "A-1", headers=key("b")).expect(200)
    assert first.json["changed"] == 1
    assert change(undo, "A-1").expect(200).json["changed"] == 1
    entries = audit(db, org, event)
    same(first, change(verb, "A-1", headers=key("b")))
    change(verb, "A-2", headers=key("b")).expect(422, "idempotency_key_reused")
    assert now("A-1") == now("A-2") == [(status,)]
    assert audit(db, org, event) == entries


def test_a_repeated_import_changes_nothing(admin, event, db, org):
    """Nor does another body under its key, though it is a good one."""
    def seats():
        return sorted(query(db, "SELECT seat_id, price FROM seats WHERE org_id = %s AND event_id = %s", org, event))

    rows = "seat_id,section,row,number,price\nB-1,main,B,1,{}\n"
    path, sent = f"/api/events/{event}/seats/import", {"Content-Type": "text/csv"}
    first = admin.post(path, body=rows.format(1), headers=sent | key("i")).expect(200)
    assert first.json["imported"] == 1
    admin.post(path, body=rows.format(2), headers=sent).expect(200)
    before = seats()
    same(first, admin.post(path, body=rows.format(1), headers=sent | key("i")))
    other = rows.format(1) + "B-2,main,B,2,1\n"
    admin.post(path, body=other, headers=sent | key("i")).expect(422, "idempotency_key_reused")
    assert seats() == before


def test_other_methods_take_no_key(client, event):
    held = client.held(event, "A-1", "A-2")["hold_id"]
    path = f"/api/holds/{held}"
    client.patch(path, {"add_seat_ids": ["A-3"]}, headers=key("k")).expect(200)
    client.patch(path, {"remove_seat_ids": ["A-3"]}, headers=key("k")).expect(200)
    assert client.delete(path, headers=key("k")).expect(200).json["status"] == "cancelled"


# --- at once, and later --------------------------------------------------------------------------------------


@pytest.mark.parametrize("round_number", range(5))
def test_duplicates_at_once_have_one_effect(client, event, db, org, check_audit, round_number):
    answers = at_once(12, lambda _: hold(client, event, "A-1", "A-2"))
    for answer in answers:
        same(answers[0].expect(201), answer)
    assert len(audit(db, org, event, "A-1")) == 1
    check_audit(event)


def test_duplicates_on_two_nodes_have_one_effect(client, event, start_node, db, org, check_audit):
    second = client.at(start_node())
    answers = at_once(12, lambda index: hold((client, second)[index % 2], event, "A-1"))
    for answer in answers:
        same(answers[0].expect(201), answer)
    assert len(audit(db, org, event, "A-1")) == 1
    check_audit(event)


def test_duplicate_extends_at_once_extend_once(client, event):
    held = client.held(event, "A-1")
    path = f"/api/holds/{held['hold_id']}/extend"
    answers = at_once(8, lambda _: client.post(path, {"seconds": 10}, headers=key("k")))
    assert len({answer.expect(200).body for answer in answers}) == 1


def test_different_bodies_at_once_under_one_key(client, event, check_audit):
    """One of them is the request of this key; all others are refused."""
    answers = at_once(8, lambda index: hold(client, event, f"A-{index + 1}"))
    assert sorted(answer.status for answer in answers) == [201] + [422] * 7
    check_audit(event)


def test_the_answer_outlives_a_restart(start_node, client, event):
    node = start_node()
    user = client.at(node)
    first = hold(user, event, "A-1").expect(201)
    node.kill()
    node.start()
    same(first, hold(user, event, "A-1"))
    same(first, hold(client, event, "A-1"))  # and every node knows it


def test_old_keys_end(start_node, client, event, db, org):
    """After idempotency_keep a key is as if it had never been used."""
    first = hold(client, event, "A-1").expect(201)
    with db.cursor() as cursor:
        cursor.execute("UPDATE idempotency_keys SET created_at = created_at - interval '25 hours' WHERE org_id = %s", (org,))
        assert cursor.rowcount == 1
    hold(client, event, "A-2").expect(201)
    assert client.get_hold(first.json["hold_id"]).json["status"] == "active"


def test_what_is_kept_is_small(client, event, db, org):
    """The key's row has the answer and a digest of the request, not the request."""
    hold(client, event, "A-1", customer_email="ann@example.org").expect(201)
    [row] = query(db, "SELECT * FROM idempotency_keys WHERE org_id = %s", org)
    assert "ann@example.org" not in str(row) and len(bytes(row.digest)) == 32
