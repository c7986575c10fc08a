"""What answers of the contract look like: problems, holds, times."""

import datetime
import re

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
UUID_V7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
REASONS = {"ttl_expired", "user_cancelled", "payment_failed", "admin_override", "waitlist_lapsed", "replaced"}

# Every code that API.md's table of errors names.
PROBLEM_CODES = {
    400: "malformed_json invalid_field missing_field duplicate_seat invalid_id bad_request",
    401: "unauthenticated token_expired",
    402: "payment_failed",
    403: "forbidden not_hold_owner",
    404: "event_not_found seat_not_found area_not_found hold_not_found checkout_not_found checkin_not_found "
         "intent_not_found not_found",
    405: "method_not_allowed",
    409: "seat_taken seat_sold area_full sold_out capacity_in_use request_in_progress seat_blocked seat_contended "
         "hold_expired hold_not_active event_closed payment_in_flight version_conflict already_waiting",
    411: "length_required",
    413: "body_too_large",
    414: "uri_too_long",
    415: "unsupported_media_type",
    422: "single_seat_gap too_many_seats user_limit no_adjacent_seats idempotency_key_reused",
    429: "rate_limited blocked rehold_cooldown",
    431: "headers_too_large",
    500: "internal",
    503: "overloaded store_unavailable outcome_unknown draining payment_unavailable",
}
STATUS_OF_CODE = {code: status for status, codes in PROBLEM_CODES.items() for code in codes.split()}


def check_problem(answer, code, path=None):
    """Asserts that an answer is the whole problem document of `code`, and returns it."""
    status = STATUS_OF_CODE[code]
    answer.expect(status, code)
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json
    assert problem["type"] == f"/problems/{code}"
    assert problem["status"] == status
    for text in ("title", "detail"):
        assert isinstance(problem[text], str) and problem[text], problem
    assert isinstance(problem["instance"], str), problem
    if path is not None:
        assert problem["instance"] == path
    assert problem["request_id"] and problem["request_id"] == answer.headers["X-Request-Id"]
    assert answer.headers["X-Holdfast-Node"]
    check_problem_headers(answer, code, status)
    check_problem_lists(problem)
    return problem


def check_problem_headers(answer, code, status):
    if status in (429, 503) or code == "seat_contended":
        assert int(answer.headers["Retry-After"]) >= 1
    if status == 401:
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    if status == 405:
        assert answer.headers["Allow"]
    if status in (400, 411, 413, 414, 415, 422, 431):
        assert "Retry-After" not in answer.headers


def check_problem_lists(problem):
    for seat in problem.get("seats", []):
        assert set(seat) == {"seat_id", "code"} and seat["code"] in STATUS_OF_CODE, problem
    for error in problem.get("errors", []):
        assert error.get("field") or error.get("line"), problem
        assert error["reason"], problem


def seats_of(problem):
    """{seat_id: code} of a refusal."""
    return {seat["seat_id"]: seat["code"] for seat in problem.get("seats", [])}


def fields_of(problem):
    """The fields that a 400 names."""
    return {error["field"] for error in problem.get("errors", [])}


def time_of(text):
    assert TIME.fullmatch(text), text
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z")


HOLD_FIELDS = {"hold_id", "event_id", "user_id", "cart_token", "status", "source", "seats", "areas", "expires_at",
               "expires_in_seconds", "created_at"}
HOLD_FIELDS_AT_TIMES = {"amount", "currency", "reason", "tickets"}


def check_hold(hold):
    """Asserts that a body is a hold, to the letter, and returns it."""
    assert HOLD_FIELDS <= set(hold) <= HOLD_FIELDS | HOLD_FIELDS_AT_TIMES, set(hold)
    assert UUID_V7.fullmatch(hold["hold_id"])
    assert hold["status"] in ("active", "converted", "expired", "cancelled")
    assert hold["source"] in ("web", "scanner", "offline_sync")
    for seat in hold["seats"]:
        assert set(seat) == {"seat_id", "section", "row", "number", "version"}, seat
        assert seat["version"] > 0
    for area in hold["areas"]:
        assert set(area) == {"area_id", "quantity"} and area["quantity"] > 0, area
    assert ("amount" in hold) == ("currency" in hold)
    left = (time_of(hold["expires_at"]) - time_of(hold["created_at"])).total_seconds()
    assert 0 <= hold["expires_in_seconds"] <= max(left, 0) + 1
    check_end_of_hold(hold)
    return hold


def check_end_of_hold(hold):
    ended = hold["status"] in ("expired", "cancelled")
    assert hold.get("reason") in REASONS if ended else "reason" not in hold, hold
    assert ("tickets" in hold) == (hold["status"] == "converted"), hold
    for ticket in hold.get("tickets", []):
        assert UUID_V7.fullmatch(ticket["ticket_id"])
        assert set(ticket) in ({"ticket_id", "seat_id"}, {"ticket_id", "area_id"})
    if hold["status"] != "active":
        assert hold["expires_in_seconds"] == 0


def seat_ids(hold):
    return [seat["seat_id"] for seat in hold["seats"]]


def versions(hold):
    return {seat["seat_id"]: seat["version"] for seat in hold["seats"]}


def quantities(hold):
    return {area["area_id"]: area["quantity"] for area in hold["areas"]}
