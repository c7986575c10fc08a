"""Check-ins, logins and baggage as tests ask for them, and what Postgres has of them.

    flight = make_flight(admin)                                    # of support/cabin.py
    checkin = checked_in(admin, flight, "ABC123", "Jansen")        # 201, parsed
    passenger = logged_in(node, admin.org, "ABC123", "Jansen")     # a client with the passenger's token
    weigh(passenger, checkin, 32).expect(200)
"""

from support.client import Client
from support.tables import query

KEY = "a key of a front end"


def api_keys(*orgs, key=KEY):
    """The setting, for a node that serves these organizations; each has a key of its own."""
    return ",".join(f"{org}:{key} of {org}" for org in orgs)


def create(client, flight, passenger, name="Jansen", **more):
    return client.post("/checkins", {"passenger_id": passenger, "last_name": name, "flight_id": flight}, **more)


def checked_in(admin, flight, passenger, name="Jansen"):
    return create(admin, flight, passenger, name).expect(201).json


def get(client, checkin):
    return client.get(f"/checkins/{checkin['checkinId']}")


def login(node, org, pnr, name, key=None, **more):
    headers = {"X-Api-Key": f"{KEY} of {org}" if key is None else key} if key != "" else {}
    return Client(node, org, token="").post("/auth/pnr-login", {"pnr": pnr, "lastName": name},
                                            headers=headers | more.pop("headers", {}), **more)


def logged_in(node, org, pnr, name="Jansen"):
    answer = login(node, org, pnr, name).expect(200).json
    return Client(node, org, pnr, token=answer["token"])


def weigh(client, checkin, kg, **more):
    return client.post(f"/checkins/{checkin['checkinId']}/baggage", {"weightKg": kg}, **more)


def weighed(client, checkin, kg):
    return weigh(client, checkin, kg).expect(200).json


def row_of(db, checkin):
    [row] = query(db, "SELECT state, baggage_weight, payment_intent_id::text AS intent, last_name FROM checkins "
                  "WHERE checkin_id = %s", checkin["checkinId"])
    return row


def intents_of(db, checkin):
    """{intent: status}, oldest first."""
    return {row.intent: row.status for row in query(
        db, "SELECT intent_id::text AS intent, status FROM payment_intents WHERE subject_id = %s "
        "ORDER BY created_at, intent_id", checkin["checkinId"])}


def audit_of(db, checkin):
    """The actions about it, in order."""
    return [row.action for row in query(
        db, "SELECT action::text FROM audit_log WHERE meta->>'checkin_id' = %s ORDER BY at, id", checkin["checkinId"])]


def told_of(db, checkin):
    """The kinds of what the world is told about it, in order."""
    return [row.kind for row in query(
        db, "SELECT kind FROM outbox WHERE payload->>'checkin_id' = %s ORDER BY id", checkin["checkinId"])]
