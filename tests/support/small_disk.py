"""A Postgres whose data lie on a small disk that a test fills.

The disk is a tmpfs in a mount namespace of its own: it goes with the last process in it, whatever ends the test.
"""

import contextlib
import os
import pathlib
import subprocess

from support import servers
from support.waiting import wait_until


def why_not():
    """Why this machine can't have one; None if it can."""
    if os.geteuid() != 0:
        return "mounting a small disk takes root"
    mounting = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    tried = subprocess.run(mounting, capture_output=True, text=True, check=False)
    return tried.stderr.strip() or None


class PostgresOnSmallDisk(servers.Postgres):
    def __init__(self, folder, settings, megabytes):
        super().__init__(folder, settings)
        self._disk = folder / "disk"
        self._megabytes = megabytes
        self._holder = None  # the process that keeps the namespace
        self.data = self._disk / "data"

    def _initdb(self):
        self._disk.mkdir()
        user = servers.server_user()
        mount = (f"mount -t tmpfs -o size={self._megabytes}m,mode=700,uid={user.pw_uid},gid={user.pw_gid} "
                 f"tmpfs '{self._disk}' && exec sleep infinity")
        self._holder = subprocess.Popen(["setpriv", "--pdeathsig=KILL", "--", "unshare", "--mount", "sh", "-c", mount])
        wait_until(self._seen_from_inside().is_mount, what="the disk is mounted")
        super()._initdb()

    def _seen_from_inside(self):
        return pathlib.Path(f"/proc/{self._holder.pid}/root{self._disk}")

    def wrapped(self, command, death_signal):
        return ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "--", *super().wrapped(command, death_signal)]

    def fill(self):
        """Not a byte is free."""
        with open(self._seen_from_inside() / "ballast", "wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while ballast.write(bytes(4096)):
                pass

    def make_room(self):
        (self._seen_from_inside() / "ballast").unlink()

    def stop(self):
        super().stop()
        if self._holder is not None:
            self._holder.kill()
            self._holder.wait()
            self._holder = None
