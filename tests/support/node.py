"""One holdfast process: started, asked, frozen, killed, and looked at after its end."""

import concurrent.futures
import itertools
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import threading
import time
import urllib.request

from support import servers
from support.waiting import wait_until

SECRET = "a secret that only tests know"
SANITIZER_REPORT = re.compile(r"(ERROR|WARNING): (Address|Leak|Thread|Memory)Sanitizer|runtime error:")

# The kernel ends a child when the *thread* that started it ends, so one thread that never ends starts them all.
_spawner = concurrent.futures.ThreadPoolExecutor(1, "spawner")
_numbers = itertools.count(1)


def binary():
    """The program under test."""
    return pathlib.Path(os.environ.get("HOLDFAST_BINARY", servers.BUILD / "holdfast"))


class Node:
    """A node. `settings` are names of config.def: Node(..., workers=1, drain_delay="0ms").

    Not started by the constructor. stop() asserts a clean end; every end asserts that no sanitizer spoke.
    """

    def __init__(self, folder, database_url, redis_url="", node_id=None, **settings):
        self.node_id = node_id or f"node-{next(_numbers)}"
        self.folder = pathlib.Path(folder)
        self.database_url = database_url
        self.redis_url = redis_url
        self.settings = {
            "listen": "127.0.0.1:0", "jwt_secret": SECRET, "rate_limits": "off", "drain_delay": "0ms",
            "log_level": "info",
        } | settings
        self.process = None
        self.host, self.port = "127.0.0.1", None
        self.log_path = self.folder / f"{self.node_id}.log"
        self._lines = queue.SimpleQueue()

    @property
    def secret(self):
        return self.settings["jwt_secret"].split(",")[0].split(":")[-1]

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def environment(self):
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith("HOLDFAST_") and name not in ("DATABASE_URL", "REDIS_URL")}
        ours = {f"HOLDFAST_{name.upper()}": str(value) for name, value in self.settings.items()}
        return inherited | ours | {"DATABASE_URL": self.database_url, "REDIS_URL": self.redis_url,
                                   "HOLDFAST_NODE_ID": self.node_id}

    # --- life ------------------------------------------------------------------------------------------------

    def start(self, timeout=60):
        """Starts it and waits until it answers."""
        self.spawn()
        return self.await_listening(timeout)

    def spawn(self):
        assert not self.running, f"{self.node_id} is running"
        self._lines = queue.SimpleQueue()
        log = open(self.log_path, "ab")
        self.process = _spawner.submit(
            subprocess.Popen, ["setpriv", "--pdeathsig=KILL", "--", str(binary()), "serve"], cwd=self.folder,
            env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
            start_new_session=True).result()
        log.close()
        threading.Thread(target=self._read_stdout, args=(self.process.stdout, self._lines), daemon=True).start()
        return self

    @staticmethod
    def _read_stdout(stream, lines):
        with stream:
            for line in stream:
                lines.put(line.rstrip("\n"))
        lines.put(None)

    def await_listening(self, timeout=60):
        deadline = time.monotonic() + timeout
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{self.node_id} is not ready after {timeout} s:\n{self.log_tail()}") from None
            if line is None:
                status = self.process.wait()
                self.process = None
                self.assert_no_sanitizer_report()
                raise AssertionError(f"{self.node_id} ended with {status} before it was ready:\n{self.log_tail()}")
            if line.startswith("listening on "):
                self.host, port = line.removeprefix("listening on ").rsplit(":", 1)
                self.port = int(port)
                return self

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, timeout=20):
        """SIGTERM; it must drain and end with 0."""
        if self.process is None:
            return
        if self.running:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
        status = self.await_end(timeout)
        assert status in (0, -signal.SIGKILL), f"{self.node_id} ended with {status}:\n{self.log_tail()}"

    def await_end(self, timeout=20):
        """Waits for its end and returns the exit status."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.node_id} did not end within {timeout} s:\n{self.log_tail()}") from None
        self.assert_no_sanitizer_report()
        return status

    def restart(self, **settings):
        """Ends it cleanly and starts it again, with changed settings if given."""
        self.stop()
        self.settings |= settings
        return self.start()

    def kill(self):
        """SIGKILL: as a power cut."""
        if self.running:
            self.process.kill()
        self.process.wait()
        self.assert_no_sanitizer_report()

    def pause(self):
        """Returns when all its threads stand still: what is sent from now on is read by none of them."""
        self.process.send_signal(signal.SIGSTOP)
        wait_until(self._stands_still, every=0.001)

    def _stands_still(self):
        threads = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/stat")
        return all(stat.read_text().rpartition(") ")[2].startswith(("T", "Z", "X")) for stat in threads)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def signal(self, signum):
        self.process.send_signal(signum)

    # --- what it says ----------------------------------------------------------------------------------------

    def log_text(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_tail(self, lines=30):
        return "\n".join(self.log_text().splitlines()[-lines:])

    def log_lines(self):
        """Its log as parsed JSON lines, but for one that is being written; a line that is no JSON fails the test."""
        return [json.loads(line) for line in self.log_text().rpartition("\n")[0].splitlines()]

    def assert_no_sanitizer_report(self):
        text = self.log_text()
        found = SANITIZER_REPORT.search(text)
        assert not found, f"{self.node_id}: a sanitizer spoke:\n{text[found.start():found.start() + 8000]}"

    def metrics(self):
        """/metrics as {'name{label="x"}': value}."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as response:
            text = response.read().decode()
        samples = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    def command(self, *words, timeout=120):
        """Runs `holdfast words...` with this node's settings; returns the finished process with its texts."""
        return subprocess.run([str(binary()), *map(str, words)], env=self.environment(), cwd=self.folder,
                              capture_output=True, text=True, timeout=timeout, check=False)


def verify(node, *words):
    """Asserts that `holdfast verify` finds nothing."""
    done = node.command("verify", *words)
    assert done.returncode == 0, f"holdfast verify: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
