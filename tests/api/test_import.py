"""POST /api/events/{event}/seats/import: all rows of a CSV file or none."""

import gzip

import pytest

from support.contract import check_problem
from support.tables import audit, query, seat_statuses

HEADER = "seat_id,section,row,number\n"


def send(admin, event, text, content_type="text/csv", **more):
    body = text if isinstance(text, bytes) else text.encode()
    return admin.post(f"/api/events/{event}/seats/import", body=body, headers={"Content-Type": content_type}, **more)


def errors_of(answer):
    """{(line, field)} of a file that was refused."""
    problem = check_problem(answer, answer.code)
    assert answer.status == 400 and problem["errors"], problem
    return {(error["line"], error.get("field")) for error in problem["errors"]}


def test_rows_become_seats(client, admin, db, org):
    event = admin.make_event(0)
    answer = send(admin, event, HEADER + "A-1,main,A,1\nA-2,main,A,2\n").expect(200)
    assert answer.json == {"imported": 2, "updated": 0, "errors": []}
    assert seat_statuses(db, org, event) == {"A-1": "available", "A-2": "available"}
    assert [entry["seat_id"] for entry in client.seats(event).json["seats"]] == ["A-1", "A-2"]
    client.held(event, "A-2")


def test_all_fields_in_any_order(client, admin):
    event = admin.make_event(0)
    text = "y,x,price,type,number,row,section,seat_id,attributes\n" \
           '1.5,-2,1250,vip,7,C,"Stalls, left",S-1,"{""view"": ""good""}"\n'
    send(admin, event, text, "text/csv; charset=utf-8").expect(200)
    [only] = client.seats(event).json["seats"]
    assert (only["section"], only["row"], only["number"], only["type"]) == ("Stalls, left", "C", "7", "vip")
    assert (only["price"], only["x"], only["y"]) == (1250, -2, 1.5)
    assert client.held(event, "S-1")["amount"] == 1250


@pytest.mark.parametrize("text", [
    HEADER + "A-1,main,A,1", HEADER.replace("\n", "\r\n") + "A-1,main,A,1\r\n", "\ufeff" + HEADER + "A-1,main,A,1\n",
    HEADER + "\n\nA-1,main,A,1\n\n", '"seat_id","section","row","number"\n"A-1","main","A","1"\n',
    HEADER.strip() + ",price,type\nA-1,main,A,1,,\n",
], ids=["no end", "crlf", "bom", "empty lines", "quotes", "empty fields"])
def test_forms_of_csv(admin, text):
    event = admin.make_event(0)
    assert send(admin, event, text).expect(200).json["imported"] == 1


def test_again_it_updates_and_keeps_what_is_held(client, admin, db, org, check_audit):
    event = admin.make_event(0)
    send(admin, event, HEADER + "A-1,main,A,1\nA-2,main,A,2\nA-3,main,A,3\n").expect(200)
    hold = client.held(event, "A-1")
    answer = send(admin, event, HEADER + "A-1,hall,B,9\nA-2,main,A,2\nA-4,main,A,4\n").expect(200)
    assert answer.json == {"imported": 1, "updated": 1, "errors": []}
    assert seat_statuses(db, org, event) == {"A-1": "held", "A-2": "available", "A-3": "available", "A-4": "available"}
    assert client.get_hold(hold["hold_id"]).json["seats"][0]["section"] == "hall"
    client.confirm(hold["hold_id"]).expect(200)
    check_audit(event)


def test_the_same_file_again_changes_nothing(admin, db, org):
    event = admin.make_event(0)
    text = HEADER + "A-1,main,A,1\n"
    send(admin, event, text).expect(200)
    entries = audit(db, org, event)
    assert send(admin, event, text).expect(200).json == {"imported": 0, "updated": 0, "errors": []}
    assert audit(db, org, event) == entries


@pytest.mark.parametrize("text, errors", [
    (HEADER + "A 1,main,A,1\n", {(2, "seat_id")}),
    (HEADER + ",main,A,1\n", {(2, "seat_id")}),
    (HEADER + "A-1,,A,1\n", {(2, "section")}),
    (HEADER + "A-1,main,A,1\nA-2,main,,2\nA-3,main,A,3\nA-4,main,A,\n", {(3, "row"), (5, "number")}),
    (HEADER + "A-1,main,A,1\n\n\nA-1,main,A,1\n", {(5, "seat_id")}),
    (HEADER.strip() + ",price\nA-1,main,A,1,12.50\nA-2,main,A,1,-3\nA-3,main,A,1,1e3\nA-4,main,A,1,1000000000001\n",
     {(2, "price"), (3, "price"), (4, "price"), (5, "price")}),
    (HEADER.strip() + ",x\nA-1,main,A,1,left\nA-2,main,A,1,nan\nA-3,main,A,1,1e999\n", {(2, "x"), (3, "x"), (4, "x")}),
    (HEADER.strip() + ",attributes\nA-1,main,A,1,{\nA-2,main,A,1,[]\n", {(2, "attributes"), (3, "attributes")}),
], ids=["id", "no id", "empty", "two lines", "twice", "price", "x", "attributes"])
def test_errors_with_their_lines(admin, db, org, text, errors):
    event = admin.make_event(0)
    assert errors_of(send(admin, event, text)) == errors
    assert seat_statuses(db, org, event) == {}


@pytest.mark.parametrize("text, line", [
    ("", 1), ("\n\n", 1), ("seat_id,section,row\nA-1,main,A\n", 1), ("seat_id,section,row,number,colour\n", 1),
    ("seat_id,seat_id,section,row,number\n", 1), (HEADER + "A-1,main,A\n", 2), (HEADER + "A-1,main,A,1,2\n", 2),
    (HEADER + 'A-1,"main,A,1\n', 2), (HEADER + 'A-1,"main"x,A,1\n', 2), (HEADER + "A-1,ma\"in,A,1\n", 2),
    (HEADER + '"A-1","ma\nin",A,1\nA 2,main,A,1\n', 4),
], ids=["empty", "no header", "missing", "unknown", "twice", "short", "long", "open quote", "after quote", "inner quote",
        "line in a field"])
def test_files_that_are_no_such_csv(admin, text, line):
    answer = send(admin, admin.make_event(0), text)
    assert line in {entry[0] for entry in errors_of(answer)}, answer


def test_text_that_is_not_utf_8(admin):
    answer = send(admin, admin.make_event(0), HEADER.encode() + b"A-1,ma\xffin,A,1\n")
    assert errors_of(answer) == {(2, "section")}


def test_a_strange_header_is_told_as_valid_json(admin):
    for name in (b"\xff\xfe", b"x" * 5000, b'"a""b"', b"\x00\x1b[0m"):
        answer = send(admin, admin.make_event(0), b"seat_id,section,row,number," + name + b"\n")
        assert 1 in {line for line, _ in errors_of(answer)}, answer


def test_one_bad_line_of_many_stops_all(admin, db, org):
    event = admin.make_event(2)
    rows = [f"S-{n},main,B,{n}\n" for n in range(5000)]
    rows[4321] = "S 4321,main,B,1\n"
    assert errors_of(send(admin, event, HEADER + "".join(rows))) == {(4323, "seat_id")}
    assert set(seat_statuses(db, org, event)) == {"A-1", "A-2"}


def test_ten_thousand_errors_are_told_within_reason(admin):
    answer = send(admin, admin.make_event(0), HEADER + "x y,main,A,1\n" * 10_000)
    problem = check_problem(answer, answer.code)
    assert 1 <= len(problem["errors"]) <= 1000 and problem["errors"][0]["line"] == 2


def test_100_000_rows(client, admin, db, org, check_audit):
    event = admin.make_event(0)
    rows = "".join(f"S-{n},section {n // 10000},row {n // 100 % 100},{n % 100}\n" for n in range(100_000))
    answer = send(admin, event, HEADER + rows, timeout=60)
    assert answer.expect(200).json == {"imported": 100_000, "updated": 0, "errors": []}
    [count] = query(db, "SELECT count(*) FROM seats WHERE org_id = %s AND event_id = %s", org, event)
    assert count == (100_000,)
    assert client.get(f"/api/events/{event}").json["seat_count"] == 100_000
    client.held(event, "S-99999")
    packed = client.seats(event, headers={"Accept-Encoding": "gzip"}, timeout=60).expect(200)
    assert len(gzip.decompress(packed.body)) > 5_000_000 > len(packed.body)
    check_audit(event)


def test_while_a_large_import_runs_holds_go_on(client, admin, event):
    """The import has its own thread and connection; it blocks nobody's seats."""
    import concurrent.futures
    house = admin.make_event(0)
    rows = "".join(f"S-{n},s,r,{n}\n" for n in range(30_000))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        importing = pool.submit(send, admin, house, HEADER + rows, timeout=60)
        for number in range(1, 9):
            client.hold_one(event, f"A-{number}", cart=f"c{number}").expect(201)
        importing.result().expect(200)


def test_an_import_is_audited_by_its_admin(admin, db, org):
    event = admin.make_event(0)
    send(admin, event, HEADER + "A-1,main,A,1\n").expect(200)
    entry = audit(db, org, event)[-1]
    assert (entry.action, entry.actor) == ("event_changed", admin.user)
