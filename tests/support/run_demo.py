"""What `make run` does once everything is built: servers, schema, demo, and a node until Ctrl-C.

Data stay between runs (build/servers/run); `make clean` removes them.
"""

import os
import pathlib
import secrets
import socket
import subprocess
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import servers, supervise  # noqa: E402
from support.client import Client  # noqa: E402

BINARY = servers.BUILD / "holdfast"
DEMO = servers.CLONE / "db" / "demo"
ORG = "demo"
# Of the tests, in many a developer's environment; to the server any HOLDFAST_ name that is no setting is an error.
NO_SETTINGS = {"HOLDFAST_BINARY", "HOLDFAST_CORPORA", "HOLDFAST_SEED"}
# Event id, kind, name, file of its seats.
EVENTS = [
    ("theatre", "show", "An evening at the theatre", "theatre.csv"),
    ("flight-hf320", "flight", "HF 320, an Airbus A320", "cabin-a320.csv"),
    ("flight-hf777", "flight", "HF 777, a Boeing 777-300ER", "cabin-b777.csv"),
]
# Who may log in to a flight with nothing but these.
PASSENGER = {"passenger_id": "HF7K2Q", "last_name": "Lovelace", "flight_id": "flight-hf320"}


def main():
    supervise.end_on_signals()
    listen = os.environ.get("HOLDFAST_LISTEN", "127.0.0.1:8080")
    try:
        assert_free(listen)
        with servers.Workplace("run") as place:
            environment = demo_environment(place, listen)
            holdfast(environment, place, "migrate")
            with supervise.child([BINARY, "serve"], env=environment, cwd=place.folder("nodes"),
                                 stdout=subprocess.PIPE, text=True) as node:
                address = await_listening(node)
                load_demo(environment, place, address)
                say_how_to_use(environment, address)
                sys.exit(serve_until_ended(node))
    except servers.ServerError as error:
        sys.exit(f"make run: {error}")


def assert_free(listen):
    """A taken port is the likeliest trouble of all: said before anything is started."""
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), int(port)))
        except OSError as error:
            raise servers.ServerError(f"{listen}: {error.strerror}. Another program may serve there: end it, or run\n"
                                      f"    make run HOLDFAST_LISTEN=127.0.0.1:8081") from None
        except ValueError:
            raise servers.ServerError(f"HOLDFAST_LISTEN is '{listen}': address:port is wanted") from None


def demo_environment(place, listen):
    """The user's settings, and what is missing from them."""
    ours = {"HOLDFAST_LISTEN": listen}
    if not os.environ.get("DATABASE_URL"):
        postgres = place.postgres()
        ours["DATABASE_URL"] = servers.make_database(postgres.url(), "holdfast")
    if "REDIS_URL" not in os.environ:
        ours["REDIS_URL"] = place.redis().url()
    if not any(os.environ.get(f"HOLDFAST_{name}") for name in ("JWT_SECRET", "JWT_SECRET_FILE", "JWT_KEYS_FILE")):
        ours["HOLDFAST_JWT_SECRET"] = kept_secret(place.path / "jwt-secret")
    if not any(os.environ.get(f"HOLDFAST_{name}") for name in ("API_KEYS", "API_KEYS_FILE")):
        ours["HOLDFAST_API_KEYS"] = f"{ORG}:{kept_secret(place.path / 'api-key')}"
    return {name: value for name, value in os.environ.items() if name not in NO_SETTINGS} | ours


def kept_secret(path):
    """The same secret in every run, so that a token from yesterday's terminal still works."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32))
    return path.read_text()


def holdfast(environment, place, *words):
    """Runs `holdfast words...` and returns what it prints."""
    done = subprocess.run([str(BINARY), *words], env=environment, cwd=place.folder("nodes"), text=True,
                          stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise servers.ServerError(f"holdfast {words[0]} ended with {done.returncode}; its words are above")
    return done.stdout


def await_listening(node):
    for line in node.stdout:
        if line.startswith("listening on "):
            return line.removeprefix("listening on ").strip()
        print(line, end="", flush=True)
    raise servers.ServerError(f"holdfast serve ended with {node.wait()} before it was ready; its words are above")


class Address:
    """What a Client wants to know of a node."""

    def __init__(self, address):
        self.host, port = address.rsplit(":", 1)
        self.host = {"0.0.0.0": "127.0.0.1", "[::]": "::1"}.get(self.host, self.host).strip("[]")
        self.port = int(port)


def client(environment, address, user, role, ttl):
    minted = subprocess.run([str(BINARY), "token", "--org", ORG, "--user", user, "--role", role, "--ttl", ttl],
                            env=environment, text=True, stdout=subprocess.PIPE, check=False)
    if minted.returncode != 0:
        raise servers.ServerError(f"holdfast token ended with {minted.returncode}; its words are above")
    token = minted.stdout.strip()
    return Client(Address(address), ORG, user, role, token)


def load_demo(environment, place, address):
    """Makes the events and imports their seats; again in each run: an import changes only what differs."""
    admin = client(environment, address, "demo-admin", "admin", "10m")
    for event, kind, name, file in EVENTS:
        answer = admin.put(f"/api/events/{event}", {"name": name, "kind": kind, "status": "on_sale"})
        if answer.status not in (200, 201):
            raise servers.ServerError(f"the demo event {event} was refused: {answer!r}")
        holdfast(environment, place, "import", "--org", ORG, event, str(DEMO / file))
    answer = admin.post("/checkins", PASSENGER)
    if answer.status not in (200, 201):    # 200: it stands since the last run
        raise servers.ServerError(f"the demo check-in was refused: {answer!r}")


def api_key(environment):
    """The demo organization's; a variable of the reader's shell where somebody else has set the keys."""
    pairs = dict(pair.strip().partition(":")[::2] for pair in environment.get("HOLDFAST_API_KEYS", "").split(","))
    return pairs.get(ORG, "$API_KEY")


def say_how_to_use(environment, address):
    event = EVENTS[0][0]
    visitor = client(environment, address, f"visitor-{uuid.uuid4().hex[:8]}", "user", "24h")
    seats = visitor.seats(event).expect(200).json["seats"]
    free = next((seat["seat_id"] for seat in reversed(seats) if seat["status"] == "available"), seats[0]["seat_id"])
    host = f"[{visitor.node.host}]" if ":" in visitor.node.host else visitor.node.host
    url = f"http://{host}:{visitor.node.port}"
    print(f"""
holdfast serves on {url}  (Ctrl-C ends it)

Hold a seat of the demo theatre:

curl -i {url}/api/events/{event}/seats/{free}/hold -H 'Content-Type: application/json' -d '{{"cart_token":"cart-1"}}' -H 'Authorization: Bearer {visitor.token}'

Its seat map:  {url}/api/events/{event}/seats

Log in to flight {PASSENGER["flight_id"]} as {PASSENGER["last_name"]}, PNR {PASSENGER["passenger_id"]}:

curl -i {url}/auth/pnr-login -H 'Content-Type: application/json' -d '{{"pnr":"{PASSENGER["passenger_id"]}","lastName":"{PASSENGER["last_name"]}"}}' -H 'X-Api-Key: {api_key(environment)}'

Postgres:      {environment["DATABASE_URL"]}
Redis:         {environment["REDIS_URL"] or "none"}
""", flush=True)


def serve_until_ended(node):
    """Forwards what the node says; 0 if we were told to end, which is how a demo is meant to end."""
    try:
        for line in node.stdout:
            print(line, end="", flush=True)
    except SystemExit:
        return 0
    return node.wait()


if __name__ == "__main__":
    main()
