"""Fixtures of all black-box tests.

The servers are started once (or taken from run_tests.py by environment), the schema is made once, and each module
gets a copy of that database, an empty Redis and one node. Within a module tests are kept apart by tenancy: each has
an organization of its own.

    client    a user of this test's organization          admin     its administrator
    event     an event of ten seats A-1 ... A-10          node      the module's node
    db        psycopg2, autocommit                        redis     redis-py, text
    start_node(**settings)  another node of this test     check_audit(event)  what every test of writes ends with
"""

import os
import pathlib
import re
import shutil
import urllib.parse
import uuid

import psycopg2
import pytest
import redis as redis_module

from checker import audit_checker
from support import servers
from support.client import Client
from support.node import Node, binary, verify
from support.proxy import Proxy, through
from support.truth import assert_told_is_true

# --- servers -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def workplace():
    """A folder of this test run for nodes, logs and servers that a test wants for itself."""
    with servers.Workplace.any("pytest") as place:
        yield place


@pytest.fixture(scope="session")
def postgres_url(workplace):
    """A Postgres whose user may create databases."""
    return os.environ.get("HOLDFAST_TEST_DATABASE_URL") or workplace.postgres(fresh=True).url()


@pytest.fixture(scope="session")
def redis_url(workplace):
    return os.environ.get("HOLDFAST_TEST_REDIS_URL") or workplace.redis().url()


@pytest.fixture(scope="session")
def log_folder(workplace):
    """Where nodes work and write their logs; run_tests.py looks through them at the end."""
    return pathlib.Path(os.environ.get("HOLDFAST_TEST_LOGS") or workplace.folder("nodes"))


def run_sql(url, statement):
    connection = psycopg2.connect(url)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
    finally:
        connection.close()


def drop_database(url, name):
    run_sql(url, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def migrated_template(postgres_url, log_folder):
    """The name of a database with the schema and nothing else; the others are copies of it."""
    name = f"holdfast_template_{uuid.uuid4().hex[:8]}"
    url = servers.make_database(postgres_url, name)
    done = Node(log_folder, url).command("migrate")
    assert done.returncode == 0, f"holdfast migrate: {done.returncode}\n{done.stdout}\n{done.stderr}"
    yield name
    drop_database(postgres_url, name)


@pytest.fixture(scope="module")
def database_url(request, postgres_url, migrated_template):
    """A migrated database of this module."""
    module = re.sub(r"\W", "_", request.module.__name__.rpartition(".")[2])[:30]
    name = f"holdfast_{module}_{uuid.uuid4().hex[:8]}"
    yield servers.make_database(postgres_url, name, migrated_template)
    drop_database(postgres_url, name)


@pytest.fixture(scope="module")
def empty_redis(redis_url):
    """Redis with no key of another module in it. Only our keys: REDIS_URL may name a server that others use."""
    connection = redis_module.Redis.from_url(redis_url)
    for key in connection.scan_iter("holdfast:*", count=1000):
        connection.delete(key)
    connection.close()
    return redis_url


# --- nodes ---------------------------------------------------------------------------------------------------

# Where nobody breaks Redis, one that is slow since the machine is busy must not be left alone as if it were away.
PATIENT = {"redis_timeout_ms": 1000}


@pytest.fixture(scope="module")
def node(request, log_folder, database_url, empty_redis):
    """The module's node. A module may set NODE_SETTINGS = {"name": value} to change it."""
    settings = getattr(request.module, "NODE_SETTINGS", {})
    started = Node(log_folder, database_url, empty_redis, **PATIENT | settings).start()
    yield started
    started.stop()


@pytest.fixture
def start_node(log_folder, database_url, empty_redis):
    """Starts further nodes on the module's database; they are stopped, and must stop well, when the test ends."""
    started = []

    def start(database_url=database_url, redis_url=empty_redis, **settings):
        usual = PATIENT if redis_url == empty_redis else {}
        node = Node(log_folder, database_url, redis_url, **usual | settings)
        started.append(node)
        return node.start()

    yield start
    troubles = []
    for node in reversed(started):
        try:
            node.stop()
        except AssertionError as trouble:
            troubles.append(str(trouble))
    assert not troubles, "\n".join(troubles)


@pytest.fixture
def run_holdfast(log_folder, database_url, empty_redis):
    """Runs `holdfast words...` on the module's database without a node."""
    return Node(log_folder, database_url, empty_redis).command


@pytest.fixture
def own_redis(workplace):
    """A Redis that only this test uses, so that it may be stopped, frozen and killed."""
    server = servers.Redis(workplace.path / f"redis-{uuid.uuid4().hex[:8]}")
    server.start()
    yield server
    server.stop()
    shutil.rmtree(server.folder)


@pytest.fixture
def own_postgres(workplace):
    """A Postgres that only this test uses; holds no schema yet (a node's auto_migrate makes it)."""
    server = servers.Postgres(workplace.path / f"postgres-{uuid.uuid4().hex[:8]}", {"shared_buffers": "64MB"})
    server.start()
    yield server
    server.stop()
    shutil.rmtree(server.folder)


@pytest.fixture
def proxied(request):
    """proxied(url) -> (proxy, the URL that leads through it)."""
    def make(url):
        parts = urllib.parse.urlsplit(url)
        proxy = Proxy(parts.hostname, parts.port)
        request.addfinalizer(proxy.close)
        return proxy, through(proxy, url)

    return make


# --- who asks, about what ------------------------------------------------------------------------------------


@pytest.fixture
def org():
    """An organization that no other test uses."""
    return f"org-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def admin(node, org):
    return Client(node, org, "admin-1", "admin")


@pytest.fixture
def client(node, org):
    return Client(node, org, "user-1")


@pytest.fixture
def other(node, org):
    """Another user of the same organization."""
    return Client(node, org, "user-2")


@pytest.fixture
def event(admin):
    """The id of an event on sale with the seats A-1 ... A-10."""
    return admin.make_event(10)


@pytest.fixture
def db(database_url):
    connection = psycopg2.connect(database_url)
    connection.autocommit = True
    yield connection
    connection.close()


@pytest.fixture
def redis(empty_redis):
    connection = redis_module.Redis.from_url(empty_redis, decode_responses=True)
    yield connection
    connection.close()


# --- proofs --------------------------------------------------------------------------------------------------


@pytest.fixture
def check_audit(db, org):
    """check_audit(event, org=..., connection=...): the audit log tells one possible story that ends as the tables stand."""
    def check(event, org=org, connection=db):
        violations = audit_checker.check_event(connection, org, event)
        assert not violations, "\n".join(map(str, violations))

    return check


@pytest.fixture
def check_verify():
    """check_verify(node): `holdfast verify` finds nothing."""
    return verify


@pytest.fixture
def prove(db, org, node, check_audit):
    """prove(event, holds=None): what every load test ends with. verify and the audit checker find nothing; each of
    `holds`, which clients were told as new, stands in Postgres (and, if complete, nothing that nobody was told)."""
    def prove_all(event, holds=None, complete=True):
        check_audit(event)
        verify(node)
        if holds is not None:
            assert_told_is_true(db, org, event, holds, complete)

    return prove_all


def pytest_report_header():
    return f"holdfast: {binary()}"
