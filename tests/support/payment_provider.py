"""A payment provider for tests: answers the `http` provider of a node, misbehaves on demand, and knows whom it charged.

    with PaymentProvider() as provider:
        node = Node(..., **provider.settings)
        complete(client, checkout, "ok-break")      # charged, and the connection breaks before the answer
        assert provider.charge(intent_id).times_charged == 1

payment_method is what it decides, and how it answers: "<what>" or "<what>-<how>".

    what   ok, declined, failed (declined too, as 200 {"status": "failed"}), pending, lost (keeps no record of it)
    how    hang (no answer until let_go()), break (closes without one), late (after LATE_S), garbled (200, no JSON),
           error (500), redirect (307 to itself), wordless (200 {})

It decides before it answers: whatever happens to the answer, the charge is made. A repeated Idempotency-Key is
answered as the first time, and charges nobody again. What it should never get is in `troubles`.
"""

import dataclasses
import hashlib
import hmac
import http.server
import json
import socket
import ssl
import threading
import time

from support import servers

SECRET = "a secret of the provider"
PATH = "/charges"
LATE_S = 4
TOLERANCE_S = 300
STATUSES = {"ok": "succeeded", "declined": "failed", "failed": "failed", "pending": "pending", "lost": None}


@dataclasses.dataclass
class Charge:
    body: dict
    status: str  # succeeded, failed, pending
    times_charged: int = 0  # how often money moved; twice would be a bug of ours or of the node's
    requests: int = 0  # how often it was posted
    asked: list = dataclasses.field(default_factory=list)  # when (time.monotonic)


class PaymentProvider:
    """A context manager.

    refuse()        closes the port and every connection, until listen().
    let_go()        answers that hang are given up.
    decide(intent, status)  what was pending is so no more; nobody is told until they ask.
    """

    def __init__(self, tls=None):
        """tls: (certificate, key) files; then it speaks https."""
        self.charges = {}
        self.troubles = []
        self.arrived = threading.Condition()  # guards charges
        self._letting_go = threading.Event()
        self._connections = set()
        self._server = None
        self._tls = tls
        self.port = servers.free_port()  # stays free of others while nobody listens on it
        self.listen()

    @property
    def settings(self):
        """Of a node that charges here."""
        scheme = "https" if self._tls else "http"
        return {"payment_provider": "http", "payment_url": f"{scheme}://127.0.0.1:{self.port}{PATH}",
                "payment_secret": SECRET}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.let_go()
        self.refuse()

    # --- life ------------------------------------------------------------------------------------------------

    def listen(self):
        assert self._server is None
        self._server = Server(("127.0.0.1", self.port), self, self._tls)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def refuse(self):
        if self._server is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._server = None
        with self.arrived:
            connections = list(self._connections)
        for connection in connections:
            shut(connection)

    def let_go(self):
        self._letting_go.set()
        self._letting_go = threading.Event()

    # --- what it knows ---------------------------------------------------------------------------------------

    def charge(self, intent_id):
        with self.arrived:
            return self.charges[intent_id]

    def charges_of(self, user):
        with self.arrived:
            return [charge for charge in self.charges.values() if charge.body["user"] == user]

    def await_charge(self, user, timeout=10):
        """The charge of this user, as soon as it was read and decided."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: any(charge.body["user"] == user for charge in self.charges.values()),
                                         timeout), f"{user} was not charged within {timeout} s"
        return self.charges_of(user)[0]

    def decide(self, intent_id, status):
        with self.arrived:
            charge = self.charges[intent_id]
            assert charge.status == "pending", charge
            self._settle(charge, status)

    # --- what it is asked ------------------------------------------------------------------------------------

    def take(self, body):
        """Charges once; False: it keeps no record."""
        what = body["method"].split("-")[0]
        with self.arrived:
            charge = self.charges.get(body["intentId"])
            if charge is None:
                charge = self.charges[body["intentId"]] = Charge(body, "pending")
                if STATUSES[what] != "pending":
                    self._settle(charge, STATUSES[what])
            charge.requests += 1
            self.arrived.notify_all()
            return charge.status

    @staticmethod
    def _settle(charge, status):
        charge.status = status
        charge.times_charged += status == "succeeded"

    def tell(self, intent_id):
        """What became of it, or None."""
        with self.arrived:
            charge = self.charges.get(intent_id)
            if charge is not None:
                charge.asked.append(time.monotonic())
            return charge and charge.status

    def connected(self, connection):
        with self.arrived:
            self._connections.add(connection)

    def disconnected(self, connection):
        with self.arrived:
            self._connections.discard(connection)

    def wait_until_let_go(self):
        self._letting_go.wait(60)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address, provider, tls):
        self.provider = provider
        super().__init__(address, Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request, client_address):
        pass  # a client that went away, or that we cut off


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    @property
    def provider(self):
        return self.server.provider

    def setup(self):
        super().setup()
        self.provider.connected(self.connection)

    def finish(self):
        self.provider.disconnected(self.connection)
        super().finish()

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.loads(raw)
        self.expect("path", self.path, PATH)
        self.expect("Content-Type", self.headers["Content-Type"], "application/json")
        self.expect("Idempotency-Key", self.headers["Idempotency-Key"], body["intentId"])
        self.expect("names", sorted(body), ["amount", "currency", "event", "intentId", "method", "org", "user"])
        self.expect_signed(raw)
        status = self.provider.take(body)
        how = (body["method"].split("-") + [""])[1]
        getattr(self, f"answer_{how}" if how else "answer")(status, body["method"])

    def do_GET(self):
        path, _, intent_id = self.path.rpartition("/")
        self.expect("path", path, PATH)
        self.expect_signed(intent_id.encode())
        status = self.provider.tell(intent_id)
        if status is None:
            self.say(404)
        else:
            self.say(200, {"intentId": intent_id, "status": status})

    # --- how it answers --------------------------------------------------------------------------------------

    def answer(self, status, method):
        if method.startswith("declined"):
            self.say(402, {"error": "no funds"})
        else:
            self.say(200, {"status": status})

    def answer_hang(self, status, method):
        self.provider.wait_until_let_go()
        shut(self.connection)

    def answer_break(self, status, method):
        shut(self.connection)
        self.close_connection = True

    def answer_late(self, status, method):
        time.sleep(LATE_S)
        self.answer(status, method)

    def answer_garbled(self, status, method):
        self.say(200, "succeeded")

    def answer_error(self, status, method):
        self.say(500, {"status": status})

    def answer_redirect(self, status, method):
        self.say(307, headers={"Location": f"http://127.0.0.1:{self.provider.port}/elsewhere"})

    def answer_wordless(self, status, method):
        self.say(200, {})

    def say(self, code, body=None, headers=None):
        text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    # --- what it holds against the node -----------------------------------------------------------------------

    def expect(self, what, got, wanted):
        if got != wanted:
            self.provider.troubles.append(f"{self.command} {self.path}: {what} is {got!r}, not {wanted!r}")

    def expect_signed(self, what):
        fields = dict(part.split("=", 1) for part in (self.headers["Holdfast-Signature"] or "t=0,v1=").split(","))
        wanted = hmac.new(SECRET.encode(), fields["t"].encode() + b"." + what, hashlib.sha256).hexdigest()
        self.expect("signature", fields["v1"], wanted)
        if abs(int(fields["t"]) - time.time()) > TOLERANCE_S:
            self.provider.troubles.append(f"signed at {fields['t']}")

    def log_message(self, *_):
        pass


def shut(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already
