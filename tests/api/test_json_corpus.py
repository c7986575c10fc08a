"""JSONTestSuite as bodies of POST /api/holds: what must be taken is taken, what must be refused is refused.

Beyond the suite holdfast refuses duplicate keys and \\u0000 (API.md, "Strictness"; DESIGN.md §9), also where the
suite takes them. What the suite leaves open ("i_") is decided in DECIDED.
"""

import os
import pathlib

import pytest

from support import servers

CORPUS = pathlib.Path(os.environ.get("HOLDFAST_CORPORA", servers.CLONE.parent / "shared" / "corpora")) / "json"
FILES = sorted(CORPUS.glob("*.json")) if CORPUS.is_dir() else []
TAKEN = [path for path in FILES if path.name.startswith("y_")]
REFUSED = [path for path in FILES if path.name.startswith("n_")]
OPEN = [path for path in FILES if path.name.startswith("i_")]

# Valid by the suite, refused by us: names that repeat, and NUL in a text.
STRICTER = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json", "y_object_escaped_null_in_key.json",
            "y_string_null_escape.json"}
# Open by the suite: numbers of any size are numbers; texts must be Unicode, bodies UTF-8 without a mark; depth has an end.
TAKEN_BY_US = {"i_number_double_huge_neg_exp.json", "i_number_huge_exp.json", "i_number_neg_int_huge_exp.json",
               "i_number_pos_double_huge_exp.json", "i_number_real_neg_overflow.json", "i_number_real_pos_overflow.json",
               "i_number_real_underflow.json", "i_number_too_big_neg_int.json", "i_number_too_big_pos_int.json",
               "i_number_very_big_negative_int.json"}


def test_the_corpus_is_there():
    if not FILES:
        pytest.skip(f"JSONTestSuite is not at {CORPUS} (HOLDFAST_CORPORA names its folder)")
    assert len(TAKEN) >= 90 and len(REFUSED) >= 180 and len(OPEN) >= 30
    assert STRICTER <= {path.name for path in TAKEN} and TAKEN_BY_US <= {path.name for path in OPEN}


def ask(client, path):
    """How a file is answered as a body. None of them is a hold: all are refused somehow."""
    answer = client.post("/api/holds", body=path.read_bytes(), headers={"Content-Type": "application/json"})
    assert answer.status == 400, answer
    return answer.code


def name_of(path):
    """The file's name; where the corpus is absent pytest asks for the name of nothing."""
    return getattr(path, "stem", "absent")


@pytest.mark.parametrize("path", TAKEN, ids=name_of)
def test_must_be_taken(client, path):
    assert (ask(client, path) == "malformed_json") == (path.name in STRICTER)


@pytest.mark.parametrize("path", REFUSED, ids=name_of)
def test_must_be_refused(client, path):
    assert ask(client, path) == "malformed_json"


@pytest.mark.parametrize("path", OPEN, ids=name_of)
def test_what_the_suite_leaves_open_is_decided(client, path):
    assert (ask(client, path) != "malformed_json") == (path.name in TAKEN_BY_US)


@pytest.mark.parametrize("depth, code", [(10, "missing_field"), (100_000, "malformed_json")])
def test_depth_has_an_end(client, depth, code):
    body = '{"x":' + "[" * depth + "]" * depth + "}"
    client.post("/api/holds", body=body, headers={"Content-Type": "application/json"}).expect(400, code)


@pytest.mark.parametrize("number, is_fine", [("7", True), ("7.0", True), ("70e-1", True), ("7.5", False), ("9007199254740993", False),
                                             ("-0", False), ("1e999", False), ("7" * 400, False)])
def test_whole_numbers_are_read_exactly(client, event, number, is_fine):
    """No number is rounded into another one."""
    hold = client.held(event, "A-1")["hold_id"]
    answer = client.post(f"/api/holds/{hold}/extend", body='{"seconds":%s}' % number,
                         headers={"Content-Type": "application/json"})
    assert answer.status == 200 if is_fine else answer.code == "invalid_field", answer


def test_names_have_case(client, event):
    """Cart_Token is no cart_token."""
    body = {"Event_Id": event, "SEAT_IDS": ["A-1"], "Cart_Token": "c"}
    client.post("/api/holds", body).expect(400, "missing_field")


def test_escapes_in_names_and_values_are_undone(client, event):
    body = '{"\\u0065vent_id":"%s","seat\\u005fids":["\\u0041-1"],"cart_token":"\\ud83d\\ude00"}' % event
    hold = client.post("/api/holds", body=body, headers={"Content-Type": "application/json"}).expect(201).json
    assert hold["seats"][0]["seat_id"] == "A-1" and hold["cart_token"] == "😀"


def test_names_that_are_equal_only_after_their_escapes_are_twice(client, event):
    body = '{"event_id":"%s","\\u0065vent_id":"x","seat_ids":["A-1"],"cart_token":"c"}' % event
    client.post("/api/holds", body=body, headers={"Content-Type": "application/json"}).expect(400, "malformed_json")
