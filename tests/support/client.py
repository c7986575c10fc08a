"""A client of one node, on behalf of one user. Threads may share it: each has its own connection."""

import functools
import http.client
import json as json_module
import socket
import threading
import uuid

from support import tokens
from support.waiting import something_has_come

TIMEOUT_S = 30


class Answer:
    """One HTTP answer."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers  # email.message.Message: names without case
        self.body = body

    @functools.cached_property
    def json(self):
        return json_module.loads(self.body)

    @property
    def code(self):
        """The problem code, or None where the answer is not a problem."""
        if not self.headers.get("Content-Type", "").startswith("application/problem+json"):
            return None
        return self.json["code"]

    def expect(self, status, code=None):
        """Returns itself after asserting what it is; the message shows the body."""
        assert self.status == status and (code is None or self.code == code), \
            f"expected {status} {code or ''}, got {self!r}"
        return self

    def __repr__(self):
        return f"<{self.status} {self.body[:600].decode(errors='replace')}>"


class Client:
    """`client.get(path)`, `client.post(path, {...})` and so on, and the usual calls by name.

    Every call returns an Answer; none raises for a status. A node may move to another port (restart): the
    address is asked for at each connect.
    """

    def __init__(self, node, org, user=None, role="user", token=None):
        self.node = node
        self.org = org
        self.user = user or f"user-{uuid.uuid4().hex[:12]}"
        self.role = role
        self.token = tokens.mint(node.secret, org, self.user, role) if token is None else token
        self._local = threading.local()

    def as_user(self, user=None, role="user"):
        """Another user of the same organization at the same node."""
        return Client(self.node, self.org, user, role)

    def at(self, node):
        """The same user at another node."""
        return Client(node, self.org, self.user, self.role, self.token)

    # --- HTTP --------------------------------------------------------------------------------------------

    def request(self, method, path, json=None, body=None, headers=None, timeout=TIMEOUT_S):
        sent = {}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        if json is not None:
            body = json_module.dumps(json)
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        connection = self._connection(timeout)
        try:
            connection.request(method, path, body=body, headers=sent)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def _connection(self, timeout):
        """This thread's connection; a new one where the node has closed it or moved."""
        connection = getattr(self._local, "connection", None)
        if connection is not None and (connection.port != self.node.port or closed_by_peer(connection)):
            self.close()
            connection = None
        if connection is None:
            connection = http.client.HTTPConnection(self.node.host, self.node.port)
            self._local.connection = connection
        connection.timeout = timeout
        if connection.sock is None:
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sock.settimeout(timeout)
        return connection

    def close(self):
        """Closes this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def get(self, path, query=None, **more):
        """query: {name: value}, sent as they are; a name that is a word of Python ends in _ (from_)."""
        if query:
            path += "?" + "&".join(f"{name.rstrip('_')}={value}" for name, value in query.items())
        return self.request("GET", path, **more)

    def post(self, path, json=None, **more):
        return self.request("POST", path, json={} if json is None and "body" not in more else json, **more)

    def put(self, path, json=None, **more):
        return self.request("PUT", path, json=json, **more)

    def patch(self, path, json=None, **more):
        return self.request("PATCH", path, json=json, **more)

    def delete(self, path, json=None, **more):
        return self.request("DELETE", path, json=json, **more)

    # --- the usual calls ---------------------------------------------------------------------------------

    def make_event(self, seats=10, event=None, kind="event", status="on_sale", policy=None, areas=None, **more):
        """PUTs an event and returns its id. `seats`: how many (A-1, A-2, ... in one row), or the list itself."""
        event = event or f"event-{uuid.uuid4().hex[:12]}"
        if isinstance(seats, int):
            seats = [seat(f"A-{n}", number=n) for n in range(1, seats + 1)]
        body = {"name": event, "kind": kind, "status": status, "seats": seats} | more
        if policy is not None:
            body["policy"] = policy
        if areas is not None:
            body["areas"] = areas
        answer = self.put(f"/api/events/{event}", body)
        assert answer.status in (200, 201), answer
        return event

    def set_event(self, event, kind="event", status="on_sale", **more):
        """PUTs an event again, without its seats (a new status, another policy)."""
        return self.put(f"/api/events/{event}", {"name": event, "kind": kind, "status": status} | more).expect(200)

    def hold(self, event, *seats, cart="cart-1", headers=None, **more):
        """POST /api/holds for these seats (and areas=[...] if given)."""
        body = {"event_id": event, "cart_token": cart} | more
        if seats:
            body["seat_ids"] = list(seats)
        return self.post("/api/holds", body, headers=headers)

    def hold_one(self, event, seat_id, cart="cart-1", headers=None, **more):
        return self.post(f"/api/events/{event}/seats/{seat_id}/hold", {"cart_token": cart} | more, headers=headers)

    def held(self, event, *seats, **more):
        """A hold that must succeed, as the parsed body."""
        return self.hold(event, *seats, **more).expect(201).json

    def get_hold(self, hold_id):
        return self.get(f"/api/holds/{hold_id}")

    def extend(self, hold_id, **more):
        return self.post(f"/api/holds/{hold_id}/extend", more)

    def confirm(self, hold_id, **more):
        return self.post(f"/api/holds/{hold_id}/confirm", more)

    def cancel(self, hold_id, **more):
        return self.delete(f"/api/holds/{hold_id}", more or None)

    def seat(self, event, seat_id):
        return self.get(f"/api/events/{event}/seats/{seat_id}")

    def seat_status(self, event, seat_id):
        return self.seat(event, seat_id).expect(200).json["status"]

    def seats(self, event, **more):
        return self.get(f"/api/events/{event}/seats", **more)

    def occupancy(self, event):
        return self.get(f"/api/events/{event}/occupancy")


def seat(seat_id, section="main", row="A", number="1", **more):
    """A seat as PUT /api/events takes it."""
    return {"seat_id": seat_id, "section": section, "row": row, "number": str(number)} | more


def closed_by_peer(connection):
    """Whether an idle connection has something to read: only its end can be that."""
    if connection.sock is None:
        return False
    return something_has_come(connection.sock)


def raw(node, data, timeout=5):
    """Sends these bytes on a new connection and returns all that comes until the node closes or stays silent."""
    received = b""
    with socket.create_connection((node.host, node.port), timeout) as connection:
        connection.sendall(data)
        try:
            while chunk := connection.recv(65536):
                received += chunk
        except (TimeoutError, ConnectionResetError):
            pass
    return received
