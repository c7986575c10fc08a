"""Several nodes on one Postgres: they race, die, freeze and drain, and no seat is ever promised twice."""

import time

import pytest

from support.bystander import one_value
from support.client import Client
from support.waiting import at_once, wait_until


@pytest.fixture
def second(start_node):
    return start_node(reaper_interval_ms=200)


def test_two_nodes_race_for_the_same_seats(node, second, admin, check_audit, check_verify):
    event = admin.make_event(60)
    users = [Client((node, second)[n % 2], admin.org, f"racer-{n}") for n in range(16)]

    def grab(index):
        return [seat for seat in range(1, 61) if users[index].hold_one(event, f"A-{seat}").status == 201]

    won = [seat for seats in at_once(16, grab) for seat in seats]
    assert sorted(won) == list(range(1, 61))
    check_audit(event)
    check_verify(node)


def test_a_hold_of_one_node_is_refused_by_another(client, other, second, event):
    client.held(event, "A-1")
    other.at(second).hold_one(event, "A-1").expect(409, "seat_taken")
    hold = other.at(second).held(event, "A-2")
    client.hold_one(event, "A-2").expect(409, "seat_taken")
    other.cancel(hold["hold_id"]).expect(200)
    wait_until(lambda: client.hold_one(event, "A-2").status in (200, 201))


def test_a_killed_node_loses_no_hold(client, second, event, check_audit):
    hold = client.at(second).held(event, "A-1", "A-2")
    second.kill()
    assert client.get_hold(hold["hold_id"]).expect(200).json["status"] == "active"
    client.confirm(hold["hold_id"]).expect(200)
    check_audit(event)


def test_what_a_killed_node_held_is_freed_by_the_others(client, second, admin, check_audit):
    event = admin.make_event(3, policy={"hold_ttl": 1})
    client.at(second).held(event, "A-1", "A-2", "A-3")
    second.kill()
    wait_until(lambda: client.occupancy(event).json["available"] == 3, timeout=15)
    check_audit(event)


def test_a_node_that_was_frozen_over_the_end_of_its_holds_wakes_up_right(client, other, second, admin, check_audit):
    event = admin.make_event(2, policy={"hold_ttl": 1})
    hold = client.at(second).held(event, "A-1")
    second.pause()
    wait_until(lambda: other.hold_one(event, "A-1").status == 201, timeout=15)
    second.resume()
    client.at(second).confirm(hold["hold_id"]).expect(409, "hold_expired")
    check_audit(event)


def test_a_node_that_drains_answers_what_it_was_asked(start_node, admin, check_audit):
    node = start_node(drain_delay="500ms")
    event = admin.make_event(200)
    users = [Client(node, admin.org, f"user-{n}") for n in range(10)]

    def buy(index):
        if index == 10:
            node.stop()
            return []
        answers = []
        for n in range(20):
            try:
                answers.append(users[index].hold_one(event, f"A-{20 * index + n + 1}").status)
            except OSError:
                break  # it has closed its listener, which it may
        return answers

    statuses = {status for answers in at_once(11, buy) for status in answers}
    assert statuses <= {200, 201, 503}
    check_audit(event)


def last_incarnation(db):
    return one_value(db, "SELECT last_value FROM node_incarnations")


def times_told(node):
    return node.log_text().count("name_taken_over")


def test_a_second_node_of_the_same_name_does_not_start(node, start_node, db):
    """Nor does it draw an incarnation: all nodes doubt what they know about one that they haven't heard."""
    before = last_incarnation(db)
    with pytest.raises(AssertionError, match="ended with"):
        start_node(node_id=node.node_id)
    assert last_incarnation(db) == before


def doubts_nobody(node, seconds):
    """In so much time; a busy machine may make it doubt now and then, but not for ever."""
    before = node.metrics()["holdfast_distrusts_total"]
    time.sleep(seconds)
    return node.metrics()["holdfast_distrusts_total"] == before


def test_a_node_whose_name_was_taken_while_it_stood_still_disturbs_nobody(node, second, start_node, db):
    second.pause()
    time.sleep(10.5)  # so long a row outlives its node
    substitute = start_node(node_id=second.node_id)
    drawn = last_incarnation(db)
    told = times_told(second)
    second.resume()
    wait_until(lambda: times_told(second) > told, what="it has noticed")
    time.sleep(2)  # it tries to have its name again, each second
    wait_until(lambda: doubts_nobody(node, 3), timeout=30, what="the others are left alone")
    assert last_incarnation(db) == drawn
    assert times_told(second) == told + 1 and second.metrics()["holdfast_trusted"] == 0
    substitute.stop()
    wait_until(lambda: second.metrics()["holdfast_trusted"] == 1, timeout=20, what="it has its name again")
