"""Private Postgres and Redis servers of this clone.

The model. A Workplace is a folder (build/servers/<purpose>) that one process holds at a time (flock). Every
server runs with its working directory inside it; that is how a later start recognizes what a killed
predecessor left behind: a process of ours (by its program) in a folder that only we may hold. Servers also ask
the kernel to end them when their starter dies, so that the search usually finds nothing.

Two clones, or two purposes (run, test, bench) of one clone, share nothing but the supply of free ports.
"""

import contextlib
import ctypes
import fcntl
import os
import pathlib
import pwd
import random
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.parse

CLONE = pathlib.Path(__file__).resolve().parents[2]
BUILD = CLONE / "build"
POSTGRES_BIN = pathlib.Path("/usr/lib/postgresql/15/bin")

# What may be ended when found in a folder of ours; a user's shell that stands there may not.
OUR_PROGRAMS = {"postgres", "redis-server", "redis-check-rdb", "holdfast", "haproxy", "nginx", "wrk", "pgbench"}

# Below the range that the kernel gives to outgoing connections, so that none of those can sit on them.
PORTS = range(20000, 32000)

# A socket's path must fit into sun_path (108 bytes) with "/.s.PGSQL.NNNNN" behind the folder.
FOLDER_BYTES_MAX = 80


class ServerError(Exception):
    """A server could not be started or stopped; the text says why."""


class Busy(ServerError):
    """Another process of this clone holds the workplace."""


# Names of the ports that this process was given, which end with it: no other run takes one while its server is down.
_given = []


def free_port():
    """A port that nobody listens on now, and no other run of tests is given as long as this process lives. Whoever
    binds it later must be ready to try another, since the machine has other users."""
    while True:
        port = random.choice(PORTS)
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0holdfast-port-{port}")
        except OSError:
            name.close()
            continue
        with socket.socket() as probe:
            # As the servers do: a port whose last connections are still in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                _given.append(name)
                return port
        name.close()


def die_with_parent(signum=signal.SIGTERM):
    """Asks the kernel to send this process a signal when its parent is gone (make, killed with -9)."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, int(signum), 0, 0, 0)


def server_user():
    """The account that servers run as: postgres refuses to be root."""
    return pwd.getpwnam("postgres") if os.geteuid() == 0 else None


def as_server_user(command, death_signal):
    """The command line that runs `command` as that account, and ends it with its starter."""
    wrapper = ["setpriv", f"--pdeathsig={death_signal}"]
    user = server_user()
    if user is not None:
        wrapper += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return wrapper + ["--"] + [str(word) for word in command]


class Workplace:
    """A folder that this process alone holds, with the servers in it. A context manager."""

    def __init__(self, purpose):
        base = BUILD / "servers"
        base.mkdir(parents=True, exist_ok=True)
        self._link = base / purpose
        self._lock = self._take_lock(base / f"{purpose}.lock")
        self.path = self._find_folder()
        end_leftovers(self.path)
        self._servers = []

    @classmethod
    def any(cls, purpose, most=20):
        """The first free one of several: tests may run beside tests."""
        for number in range(1, most):
            with contextlib.suppress(Busy):
                return cls(purpose if number == 1 else f"{purpose}-{number}")
        return cls(f"{purpose}-{most}")

    @staticmethod
    def _take_lock(path):
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 32, 0).decode() or "unknown"
            os.close(lock)
            raise Busy(f"this clone runs already ({path.stem}, process {holder.strip()})") from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        return lock

    def _find_folder(self):
        """The folder under build/, or what it links to where the servers' account can't get there."""
        if self._link.is_symlink():
            target = pathlib.Path(os.readlink(self._link))
            if private_folder(target):
                return target
            self._link.unlink()
        if not self._link.exists():
            self._link.mkdir(mode=0o755)
        hand_to_server_user(self._link)
        if len(os.fsencode(self._link)) <= FOLDER_BYTES_MAX and self._reachable():
            return self._link
        shutil.rmtree(self._link)
        where = "/var/tmp" if os.access("/var/tmp", os.W_OK) else tempfile.gettempdir()
        target = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-", dir=where))
        hand_to_server_user(target)
        self._link.symlink_to(target)
        return target

    def _reachable(self):
        """Whether the servers' account can work in the folder: every folder above must let it pass."""
        probe = as_server_user(["test", "-w", self._link], "KILL")
        return subprocess.run(probe, cwd="/", check=False).returncode == 0

    def postgres(self, fresh=False, **settings):
        """Starts Postgres on the cluster of former runs, or on a new one."""
        if fresh:
            shutil.rmtree(self.path / "postgres", ignore_errors=True)
        server = Postgres(self.path / "postgres", settings)
        self._servers.append(server)
        return server.start()

    def redis(self, name="redis"):
        server = Redis(self.path / name)
        self._servers.append(server)
        return server.start()

    def folder(self, name):
        """A folder for processes of the caller's own; they are known by it as leftovers."""
        path = self.path / name
        path.mkdir(exist_ok=True)
        return path

    def close(self):
        """Stops what was started here, last first, and lets the next process in."""
        while self._servers:
            self._servers.pop().stop()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def private_folder(path):
    """Whether `path` is a folder that nobody else can have put there."""
    try:
        state = os.lstat(path)
    except OSError:
        return False
    user = server_user()
    owner = user.pw_uid if user else os.geteuid()
    return stat.S_ISDIR(state.st_mode) and state.st_uid == owner and not state.st_mode & 0o022


def hand_to_server_user(path):
    user = server_user()
    if user is not None:
        os.chown(path, user.pw_uid, user.pw_gid)


# --- leftovers -----------------------------------------------------------------------------------------------


def end_leftovers(folder):
    """Ends the servers that a killed predecessor left in `folder`, and waits until they are gone."""
    for signum, patience in ((signal.SIGINT, 10), (signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        remaining = processes_in(folder)
        if not remaining:
            return
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signum)
        deadline = time.monotonic() + patience
        while processes_in(folder) and time.monotonic() < deadline:
            time.sleep(0.05)
    if processes_in(folder):
        raise ServerError(f"processes {sorted(processes_in(folder))} in {folder} do not end")


def processes_in(folder):
    """Programs of ours whose working directory lies in `folder`. Only those of users that we may look at."""
    found = set()
    inside = os.path.realpath(folder)
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            where = os.readlink(f"/proc/{entry}/cwd").removesuffix(" (deleted)")
            program = os.path.basename(os.readlink(f"/proc/{entry}/exe").removesuffix(" (deleted)"))
            if program in OUR_PROGRAMS and (where == inside or where.startswith(inside + "/")):
                found.add(int(entry))
    return found


# --- servers -------------------------------------------------------------------------------------------------


class Server:
    """One child process with a log file. Subclasses say how it is started and when it answers."""

    name = "server"
    stop_signal = signal.SIGTERM
    start_attempts = 5

    def __init__(self, folder):
        self.folder = folder
        self.port = None
        self.process = None
        self.log = folder.parent / f"{folder.name}.log"

    def start(self):
        """Starts it on a free port; another port if somebody was faster."""
        self.prepare()
        for _ in range(self.start_attempts):
            self.port = self.port or free_port()
            self._spawn()
            if self._await_answer():
                return self
            if "in use" not in self.log.read_text(errors="replace").lower():
                break
            self.port = None
        self.stop()
        raise ServerError(f"{self.name} did not start; the end of {self.log}:\n{self.tail()}")

    def _spawn(self):
        with open(self.log, "wb") as log:
            # A session of its own: Ctrl-C is for us, and we stop things in their order.
            self.process = subprocess.Popen(
                self.wrapped(self.command(), self.stop_signal.name[3:]), cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env=self.environment(), start_new_session=True)

    def _await_answer(self, patience=60):
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.answers():
                return True
            time.sleep(0.02)
        return False

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.resume()  # a test may have stopped it
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kill(self):
        """As a power cut would: no chance to tidy up."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def tail(self, lines=20):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def wrapped(self, command, death_signal):
        """The command line that runs a program of this server."""
        return as_server_user(command, death_signal)

    def prepare(self):
        raise NotImplementedError

    def command(self):
        raise NotImplementedError

    def environment(self):
        """The variables that it gets; None: ours."""
        return None

    def answers(self):
        raise NotImplementedError


class Postgres(Server):
    """Postgres 15 with durable settings, on 127.0.0.1 and a socket in its folder, with a password."""

    name = "postgres"
    stop_signal = signal.SIGINT  # fast shutdown: sessions are ended, everything is on disk

    def __init__(self, folder, settings):
        super().__init__(folder)
        self.data = folder / "data"
        self.password = None
        self.settings = {
            "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
            "shared_buffers": "256MB", "max_wal_size": "4GB", "max_connections": "200",
            "timezone": "UTC", "log_timezone": "UTC", "lc_messages": "C",
            "listen_addresses": "127.0.0.1", "unix_socket_directories": folder,
        } | settings

    def prepare(self):
        """Makes the cluster, or takes the one that a former run finished making."""
        finished = self.folder / "cluster-ready"
        if not finished.exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(mode=0o700)
            hand_to_server_user(self.folder)
            self._initdb()
            finished.touch()
        self.password = (self.folder / "password").read_text().strip()

    def _initdb(self):
        password = self.folder / "password"
        password.touch(mode=0o600)
        password.write_text(secrets.token_hex(16))
        hand_to_server_user(password)
        command = [POSTGRES_BIN / "initdb", "--pgdata", self.data, "--username=holdfast", f"--pwfile={password}",
                   "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8"]
        made = subprocess.run(self.wrapped(command, "TERM"), cwd=self.folder, capture_output=True, text=True,
                              check=False)
        if made.returncode != 0:
            raise ServerError(f"initdb failed:\n{made.stdout}{made.stderr}")

    def command(self):
        command = [POSTGRES_BIN / "postgres", "-D", self.data, "-p", self.port]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def url(self, database="postgres"):
        return f"postgresql://holdfast:{self.password}@127.0.0.1:{self.port}/{urllib.parse.quote(database)}"

    def socket_url(self, database="postgres"):
        """The same over the socket, which is what a benchmark's client would take."""
        return f"{self.url(database)}?host={urllib.parse.quote(str(self.folder), safe='')}"

    def crash(self):
        """As a power cut of its machine would, but for the disk's own memory: no checkpoint, no goodbye."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def pause(self):
        """All of its processes, the one that makes the others first."""
        super().pause()
        self._signal_children(signal.SIGSTOP)

    def resume(self):
        self._signal_children(signal.SIGCONT)
        super().resume()

    def _signal_children(self, signum):
        pid = self.process.pid
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signum)

    def answers(self):
        import psycopg2
        try:
            psycopg2.connect(self.url(), connect_timeout=2).close()
            return True
        except psycopg2.OperationalError:
            return False


class Redis(Server):
    """Redis 7 without persistence: holdfast must do without what it forgets."""

    name = "redis"

    def prepare(self):
        self.folder.mkdir(mode=0o700, exist_ok=True)
        hand_to_server_user(self.folder)

    def command(self):
        return ["redis-server", "--bind", "127.0.0.1", "--port", self.port, "--dir", self.folder,
                "--save", "", "--appendonly", "no", "--daemonize", "no"]

    def url(self, database=0):
        return f"redis://127.0.0.1:{self.port}/{database}"

    def answers(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 2) as connection:
            connection.settimeout(2)
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        return False


def make_database(url, name, template="template1"):
    """Makes a database beside the one that `url` names, and returns its URL. One that exists is taken."""
    import psycopg2
    from psycopg2 import errors, sql
    connection = psycopg2.connect(url)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor, contextlib.suppress(errors.DuplicateDatabase):
            cursor.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)))
    finally:
        connection.close()
    parts = urllib.parse.urlsplit(url)
    return parts._replace(path="/" + urllib.parse.quote(name)).geturl()


def clean():
    """Ends leftovers of this clone and removes folders that lie outside build/."""
    for link in sorted((BUILD / "servers").glob("*")) if (BUILD / "servers").exists() else []:
        if link.suffix == ".lock":
            continue
        with Workplace(link.name) as place:
            shutil.rmtree(place.path, ignore_errors=True)
        if link.is_symlink():
            link.unlink()


if __name__ == "__main__":
    if sys.argv[1:] != ["clean"]:
        sys.exit("usage: servers.py clean")
    try:
        clean()
    except ServerError as error:
        sys.exit(f"clean: {error}")
