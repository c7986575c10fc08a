"""HTTP itself, byte by byte: order, keep-alive, what must not be understood, slow senders, ids, HEAD, gzip."""

import gzip
import json
import socket
import time
import uuid

import pytest

from support.client import Client, raw
from support.contract import check_problem
from support.node import Node
from support.waiting import wait_until
from support.wire import Wire, request

HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
# Seed 003's names, as they stand there; all others begin with ours.
SEEDS_METRICS = {"seatmap_cache_hits", "seatmap_cache_misses", "seat_hold_conflicts", "hold_expirations_total",
                 "waitlist_assignments_success", "waitlist_assignments_failed", "payment_webhooks_processed",
                 "abuse_events_detected"}


def hold_request(client, event, seat, headers=()):
    return request(client, "POST", f"/api/events/{event}/seats/{seat}/hold", {"cart_token": "c"}, headers)


# --- pipelining and keep-alive -------------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order(client, node, event):
    """Quick and slow ones mixed: memory, pages, Postgres, and refusals."""
    with Wire(node) as wire:
        requests = [hold_request(client, event, "A-1"), HEALTH, request(client, "GET", "/nothing"),
                    request(client, "GET", f"/api/events/{event}"), hold_request(client, event, "A-2"),
                    request(client, "GET", f"/api/events/{event}/seats"), request(client, "GET", "/api/events"), HEALTH]
        wire.send(b"".join(requests))
        answers = [wire.answer() for _ in requests]
    assert [answer.status for answer in answers] == [201, 200, 404, 200, 201, 200, 200, 200]
    assert answers[0].json["seats"][0]["seat_id"] == "A-1" and answers[4].json["seats"][0]["seat_id"] == "A-2"
    assert answers[3].json["event_id"] == event and answers[5].json["seats"] and "events" in answers[6].json


def test_a_hundred_pipelined_requests(client, node, event):
    with Wire(node) as wire:
        for number in range(100):
            wire.send(request(client, "GET", f"/problems/{'seat_taken' if number % 2 else 'seat_sold'}"))
        bodies = [wire.answer().expect(200).body.decode() for _ in range(100)]
    assert ["seat_taken" in body for body in bodies] == [bool(number % 2) for number in range(100)]


def test_a_request_may_come_in_single_bytes(client, node, event):
    with Wire(node) as wire:
        data = hold_request(client, event, "A-1")
        for place in range(0, len(data), 40):  # each piece well within the header's time
            wire.send(data[place:place + 40])
        wire.answer().expect(201)


def test_a_connection_is_kept(client, node):
    with Wire(node) as wire:
        for _ in range(5):
            answer = wire.send(HEALTH).answer().expect(200)
            assert answer.headers.get("Connection", "keep-alive").lower() == "keep-alive"


def test_connection_close_is_obeyed(node):
    with Wire(node) as wire:
        wire.send(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert wire.answer().expect(200).headers["Connection"] == "close"
        assert wire.is_closed()


def test_http_1_0_closes_unless_asked(node):
    with Wire(node) as wire:
        wire.send(b"GET /health HTTP/1.0\r\n\r\n").answer().expect(200)
        assert wire.is_closed()
    with Wire(node) as wire:
        wire.send(b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert wire.answer().expect(200).headers["Connection"].lower() == "keep-alive"
        wire.send(b"GET /health HTTP/1.0\r\n\r\n").answer().expect(200)


def test_a_refusal_of_the_application_keeps_the_connection(client, node):
    with Wire(node) as wire:
        for _ in range(3):
            wire.send(request(client, "POST", "/api/holds", b"{")).answer().expect(400, "malformed_json")
        wire.send(HEALTH).answer().expect(200)


def test_who_stops_sending_still_gets_the_answer(client, node, event):
    with Wire(node) as wire:
        wire.send(hold_request(client, event, "A-1"))
        wire.shut_sending()
        wire.answer().expect(201)
        assert wire.is_closed()


def test_empty_lines_before_a_request_are_skipped(node):
    with Wire(node) as wire:
        wire.send(b"\r\n" + HEALTH + b"\r\n\r\n" + HEALTH)
        wire.answer().expect(200)
        wire.answer().expect(200)


def test_chunked_bodies_are_read(client, node, event):
    body = json.dumps({"cart_token": "c"}).encode()
    head = request(client, "POST", f"/api/events/{event}/seats/A-1/hold",
                   headers=[b"Content-Type: application/json", b"Transfer-Encoding: chunked"])
    chunks = b"".join(b"%x;name=value\r\n%s\r\n" % (1, body[i:i + 1]) for i in range(len(body)))
    with Wire(node) as wire:
        wire.send(head + chunks + b"0\r\nX-Trailer: ignored\r\n\r\n" + HEALTH)
        wire.answer().expect(201)
        wire.answer().expect(200)


def test_what_a_trailer_says_changes_nothing(client, node, event):
    """A token that comes after the body is none."""
    body = b"%x\r\n%s\r\n0\r\nAuthorization: Bearer %s\r\n\r\n"
    data = json.dumps({"cart_token": "c"}).encode()
    head = f"POST /api/events/{event}/seats/A-1/hold HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with Wire(node) as wire:
        wire.send(head + body % (len(data), data, client.token.encode())).answer().expect(401, "unauthenticated")


def test_expect_100_continue(client, node, event):
    data = hold_request(client, event, "A-1", [b"Expect: 100-continue"])
    head, _, body = data.partition(b"\r\n\r\n")
    with Wire(node) as wire:
        wire.send(head + b"\r\n\r\n")
        assert wire.answer().status == 100
        wire.send(body).answer().expect(201)


def test_expect_100_continue_of_what_is_too_large(client, node):
    with Wire(node) as wire:
        wire.send(request(client, "POST", "/api/holds", headers=[b"Expect: 100-continue", b"Content-Length: 99999999"]))
        wire.answer().expect(413, "body_too_large")
        assert wire.is_closed()


def test_an_absolute_target(node):
    with Wire(node) as wire:
        wire.send(b"GET http://x/health HTTP/1.1\r\nHost: x\r\n\r\n").answer().expect(200)


# --- what must not be understood ---------------------------------------------------------------------------------


def line(*more):
    return b"POST /api/holds HTTP/1.1\r\nHost: x\r\n" + b"\r\n".join(more) + b"\r\n\r\n"


SMUGGLED = HEALTH
STRANGE = {
    "length beside chunks": line(b"Content-Length: 5", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "chunks beside length": line(b"Transfer-Encoding: chunked", b"Content-Length: 5") + b"0\r\n\r\n",
    "two lengths": line(b"Content-Length: 2", b"Content-Length: 3") + b"{} ",
    "two equal lengths": line(b"Content-Length: 2", b"Content-Length: 2") + b"{}",
    "a list of lengths": line(b"Content-Length: 2, 2") + b"{}",
    "a length with a sign": line(b"Content-Length: +2") + b"{}",
    "a length below zero": line(b"Content-Length: -2") + b"{}",
    "a length in hex": line(b"Content-Length: 0x2") + b"{}",
    "a length with a space": line(b"Content-Length: 2 2") + b"{}",
    "a length beyond 64 bits": line(b"Content-Length: 18446744073709551618") + b"{}",
    "an empty length": line(b"Content-Length:") + b"{}",
    "another coding": line(b"Transfer-Encoding: gzip") + b"0\r\n\r\n",
    "identity": line(b"Transfer-Encoding: identity") + b"{}",
    "chunked and more": line(b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
    "chunked twice": line(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "chunked as a list": line(b"Transfer-Encoding: chunked, chunked") + b"0\r\n\r\n",
    "chunked with a tab": line(b"Transfer-Encoding: \x0bchunked") + b"0\r\n\r\n",
    "chunked in quotes": line(b'Transfer-Encoding: "chunked"') + b"0\r\n\r\n",
    "a space before the colon": line(b"Transfer-Encoding : chunked") + b"0\r\n\r\n",
    "a folded line": line(b"X-A: 1", b" Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "a folded coding": line(b"Transfer-Encoding:", b" chunked") + b"0\r\n\r\n",
    "a bare CR": line(b"X-A: 1\rTransfer-Encoding: chunked") + b"0\r\n\r\n",
    "a bare CR after the colon": line(b"X-A: \rTransfer-Encoding: chunked") + b"0\r\n\r\n",
    "a bare LF": b"GET /health HTTP/1.1\nHost: x\r\n\r\n",
    "bare LFs": b"GET /health HTTP/1.1\nHost: x\n\n",
    "a NUL": line(b"X-A: a\0b", b"Content-Length: 2") + b"{}",
    "a control": line(b"X-A: a\x01b", b"Content-Length: 2") + b"{}",
    "an empty name": line(b": x", b"Content-Length: 2") + b"{}",
    "a name with a space": line(b"X A: x", b"Content-Length: 2") + b"{}",
    "a space first": b"GET /health HTTP/1.1\r\n Host: x\r\n\r\n",
    "a line without a colon": line(b"nonsense", b"Content-Length: 2") + b"{}",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /health HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
    "chunks in 1.0": b"POST /api/holds HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "version 0.9": b"GET /health\r\n\r\n",
    "version 1.2": b"GET /health HTTP/1.2\r\nHost: x\r\n\r\n",
    "version 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no version": b"GET /health \r\nHost: x\r\n\r\n",
    "a tab in the request line": b"GET\t/health HTTP/1.1\r\nHost: x\r\n\r\n",
    "a space in the target": b"GET /hea lth HTTP/1.1\r\nHost: x\r\n\r\n",
    "a target of no form": b"GET health HTTP/1.1\r\nHost: x\r\n\r\n",
    "a byte beyond ASCII in the target": b"GET /he\xc3\xa4lth HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64) + b"\r\n\r\n",
    "two tokens": line(b"Authorization: Bearer a", b"Authorization: Bearer b", b"Content-Length: 2") + b"{}",
    "two keys": line(b"Idempotency-Key: a", b"Idempotency-Key: b", b"Content-Length: 2") + b"{}",
}


@pytest.mark.parametrize("name", STRANGE)
def test_what_two_readers_could_take_in_two_ways_is_refused(node, name):
    """400, the connection ends, and what follows is never taken for a request."""
    with Wire(node) as wire:
        wire.send(STRANGE[name] + SMUGGLED)
        check_problem(wire.answer(), "bad_request")
        assert wire.is_closed()


BAD_CHUNKS = {
    "a size of no number": b"xyz\r\n", "an empty size": b"\r\n{}\r\n0\r\n\r\n", "a sign": b"+2\r\n{}\r\n0\r\n\r\n",
    "a prefix": b"0x2\r\n{}\r\n0\r\n\r\n", "a space before": b" 2\r\n{}\r\n0\r\n\r\n",
    "too large a size": b"fffffffffffffffff\r\n{}\r\n0\r\n\r\n", "no CRLF after the data": b"2\r\n{}0\r\n\r\n",
    "a bare LF after the size": b"2\n{}\r\n0\r\n\r\n", "a bare LF after the data": b"2\r\n{}\n0\r\n\r\n",
    "a bare CR": b"2\r{}\r\n0\r\n\r\n", "a NUL in an extension": b"2;a=\0\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", BAD_CHUNKS)
def test_chunks_that_are_none(node, name):
    with Wire(node) as wire:
        wire.send(line(b"Transfer-Encoding: chunked") + BAD_CHUNKS[name] + SMUGGLED)
        answer = wire.answer()
        assert answer.status == 400, answer
        check_problem(answer, "bad_request")
        assert wire.is_closed()


def test_a_body_that_nobody_reads_is_not_the_next_request(client, node):
    """A GET with a body, a refused POST with one: what is inside is never executed."""
    inner = HEALTH
    with Wire(node) as wire:
        wire.send(request(client, "GET", "/nothing", inner))
        wire.answer().expect(404)
        wire.send(request(client, "POST", "/nothing", inner))
        wire.answer().expect(404)
        wire.send(request(client, "PUT", "/health", inner)).answer().expect(405)
        wire.send(HEALTH).answer().expect(200)


# --- slow senders --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hasty(log_folder, database_url, empty_redis):
    """A node that waits for nobody: long enough for a busy machine that sends one thing, short enough for a test."""
    started = Node(log_folder, database_url, empty_redis, header_timeout="1s", body_timeout="1300ms",
                   idle_timeout="1600ms").start()
    yield started
    started.stop()


def seconds_to_the_end(wire, started, patience=10):
    """How long the node keeps the connection; an answer may come first. `started`: before what its time begins with."""
    wire._socket.settimeout(patience)
    received = b""
    while chunk := wire._socket.recv(65536):
        received += chunk
    return time.monotonic() - started, received


def test_a_connection_that_says_nothing_is_closed(hasty):
    started = time.monotonic()
    with Wire(hasty) as wire:
        seconds, received = seconds_to_the_end(wire, started)
    assert 0.9 < seconds < 4 and received == b""


def test_half_a_header_is_closed_in_time(hasty):
    started = time.monotonic()
    with Wire(hasty) as wire:
        wire.send(b"GET /health HTTP/1.1\r\nHost:")
        seconds, received = seconds_to_the_end(wire, started)
    assert 0.9 < seconds < 4 and b"200" not in received[:16]


def test_a_drop_now_and_then_does_not_help(hasty):
    """The time is for the whole header, however busy its sender looks."""
    started = time.monotonic()
    with Wire(hasty) as wire:
        wire.send(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        try:
            while time.monotonic() - started < 8:
                wire.send(b"y")
                time.sleep(0.05)
        except OSError:
            pass
    assert time.monotonic() - started < 4


def test_half_a_body_is_closed_in_time(client, hasty, event):
    data = hold_request(client, event, "A-1")
    started = time.monotonic()
    with Wire(hasty) as wire:
        wire.send(data[:-3])
        seconds, received = seconds_to_the_end(wire, started)
    assert 1.2 < seconds < 5 and not received.startswith(b"HTTP/1.1 2")
    assert client.seat_status(event, "A-1") == "available"


def test_an_idle_connection_is_closed_in_time(hasty):
    with Wire(hasty) as wire:
        started = time.monotonic()
        wire.send(HEALTH).answer().expect(200)
        seconds, received = seconds_to_the_end(wire, started)
    assert 1.5 < seconds < 5 and received == b""


def test_slow_ones_take_nothing_from_quick_ones(client, node, event):
    with_slow = [Wire(node) for _ in range(50)]
    for wire in with_slow:
        wire.send(b"GET /health HTT")
    client.hold_one(event, "A-1").expect(201)
    for wire in with_slow:
        wire.close()


def test_a_thousand_connections_at_once(node):
    sockets = [socket.create_connection((node.host, node.port), 10) for _ in range(1000)]
    for each in sockets:
        each.sendall(HEALTH)
    assert all(each.recv(15) == b"HTTP/1.1 200 OK" for each in sockets)
    for each in sockets:
        each.close()
    wait_until(lambda: node.running and raw(node, HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))


def test_who_hangs_up_early_harms_nobody(client, node, event):
    for number in range(20):
        with Wire(node) as wire:
            wire.send(hold_request(client, event, f"A-{number % 10 + 1}"))
    client.get("/health").expect(200)
    wait_until(lambda: client.seat_status(event, "A-10") == "held", what="what was asked for was done all the same")


def test_more_connections_than_allowed(start_node, client):
    """The node stays within its limit, and serves those inside and, when they leave, those that waited."""
    node = start_node(connections_max=16, idle_timeout="60s")
    inside = [Wire(node) for _ in range(16)]
    for wire in inside:
        wire.send(HEALTH).answer().expect(200)
    outside = Wire(node, timeout=0.5)
    with pytest.raises((OSError, EOFError)):
        outside.send(HEALTH).answer()
    for wire in inside:
        wire.send(HEALTH).answer().expect(200)
        wire.close()
    wait_until(lambda: answers(client.at(node)))
    outside.close()


def answers(client):
    try:
        return client.get("/health").status == 200
    except OSError:
        return False


# --- headers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_id", ["abc", "x" * 64, "01890a5d-ac96-774b-bcce-b302099a8057", "a.b-c_d"])
def test_a_request_id_is_echoed(client, request_id):
    assert client.get("/health", headers={"X-Request-Id": request_id}).headers["X-Request-Id"] == request_id


@pytest.mark.parametrize("request_id", ["", "a b", "x" * 1000, 'a"b', "<script>", "ü".encode().decode("latin-1")])
def test_one_that_could_harm_a_log_is_made_anew(client, request_id):
    made = client.get("/health", headers={"X-Request-Id": request_id}).headers["X-Request-Id"]
    assert made and made != request_id and made.replace("-", "").isalnum()


def test_without_one_each_request_gets_its_own(client):
    made = {client.get("/health").headers["X-Request-Id"] for _ in range(5)}
    assert len(made) == 5


def test_the_request_id_and_the_trace_are_in_the_log(start_node, client):
    node = start_node(log_level="debug")
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    request_id = uuid.uuid4().hex
    client.at(node).hold("nowhere", "A-1", headers={"X-Request-Id": request_id, "traceparent": trace}).expect(404)
    [entry] = wait_until(lambda: [line for line in node.log_lines() if line.get("request_id") == request_id])
    assert entry["traceparent"] == trace and entry["level"] == "debug"
    assert client.token not in node.log_text()


def test_logs_are_json_lines(node):
    for entry in node.log_lines():
        assert entry["level"] in ("debug", "info", "warn", "error") and entry["time"] and entry["event"]
        assert entry["node"] == node.node_id


def test_each_answer_names_its_node(client, node):
    for path in ("/health", "/nothing", "/api/events"):
        assert client.get(path).headers["X-Holdfast-Node"] == node.node_id


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/openapi.json", "/", "/problems/seat_taken"])
def test_head_is_get_without_a_body(client, node, path):
    def same_length():
        got = client.get(path).expect(200)
        with Wire(node) as wire:
            wire.send(request(client, "HEAD", path))
            answer = wire.answer(head=True).expect(200)
            assert answer.headers["Content-Type"] == got.headers["Content-Type"]
            wire.send(HEALTH).answer().expect(200)  # no body stood between
        return path == "/metrics" or int(answer.headers["Content-Length"]) == len(got.body)

    wait_until(same_length)  # what /ready says of stores and peers may change between the two


def test_head_of_the_api(client, node, event):
    with Wire(node) as wire:
        wire.send(request(client, "HEAD", f"/api/events/{event}/seats")).answer(head=True).expect(200)
        wire.send(request(client, "HEAD", "/api/events/nowhere")).answer(head=True)
        wire.send(request(client, "HEAD", f"/api/events/{event}")).answer(head=True).expect(200)
        wire.send(HEALTH).answer().expect(200)


def test_gzip_above_1_kib(client, admin):
    for number in range(12):
        admin.make_event(0, event=f"an-event-with-a-long-name-{number}")
    plain = client.get("/api/events").expect(200)
    packed = client.get("/api/events", headers={"Accept-Encoding": "gzip"}).expect(200)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.body)) == plain.json
    assert "Content-Encoding" not in client.get("/health", headers={"Accept-Encoding": "gzip"}).headers


@pytest.mark.parametrize("accepts, is_packed", [
    ("gzip", True), ("GZIP", True), ("x-gzip", True), ("deflate, gzip;q=0.5", True), ("*", True), ("*;q=0.1", True),
    ("gzip;q=0", False), ("gzip;q=0.0", False), ("identity", False), ("deflate, br", False), ("", False),
    ("*, gzip;q=0", False), ("gzipx", False),
])
def test_forms_of_accept_encoding(client, accepts, is_packed):
    answer = client.get("/openapi.json", headers={"Accept-Encoding": accepts}).expect(200)
    assert (answer.headers.get("Content-Encoding") == "gzip") == is_packed


def test_json_is_utf_8_whatever_the_text(client, admin):
    event = admin.make_event(1)
    admin.set_event(event, name="Zoë 漢字 😀")
    answer = client.get(f"/api/events/{event}")
    assert answer.json["name"] == "Zoë 漢字 😀" and answer.headers["Content-Type"].startswith("application/json")


# --- the node about itself -----------------------------------------------------------------------------------


def test_health_needs_no_token(node):
    stranger = Client(node, "x", token="")
    for path in ("/health", "/livez"):
        assert stranger.get(path).expect(200).json["status"] == "ok"
    for path in ("/ready", "/readyz", "/ready?strict"):
        def is_up(path=path):  # a Redis that is slow once is left alone for a while
            answer = stranger.get(path)
            return answer if answer.status == 200 and answer.json["redis"] == "up" else None

        ready = wait_until(is_up, timeout=15).json
        assert (ready["postgres"], ready["redis"]) == ("up", "up")
        assert ready["redis_breaker"]["state"] == "closed"


def test_metrics_are_prometheus_text(client, node, event):
    client.hold_one(event, "A-1").expect(201)
    answer = client.get("/metrics").expect(200)
    assert answer.headers["Content-Type"].startswith("text/plain")
    types, names = {}, set()
    for text in answer.body.decode().splitlines():
        if text.startswith("# TYPE "):
            _, _, name, kind = text.split(" ")
            types[name] = kind
        elif not text.startswith("#"):
            name, value = text.rsplit(" ", 1)
            float(value)
            names.add(name.partition("{")[0])
    assert {name for name in types if not name.startswith("holdfast_")} == SEEDS_METRICS
    for name in names:
        base = name
        for suffix in ("_bucket", "_sum", "_count"):
            base = base.removesuffix(suffix) if base.removesuffix(suffix) in types else base
        assert base in types, name


def test_metrics_count_what_happened(client, other, node, event):
    before = node.metrics()
    client.hold_one(event, "A-1").expect(201)
    other.hold_one(event, "A-1").expect(409)

    def grown():
        return {name for name, value in node.metrics().items() if value > before.get(name, 0)}

    for part in ("request", "hold", "batch"):  # some are counted when the answer is on its way
        wait_until(lambda: any(part in name for name in grown()), what=part)


def test_the_home_page(client):
    page = client.get("/").expect(200)
    assert page.headers["Content-Type"].startswith("text/html") and "default-src" in page.headers["Content-Security-Policy"]
