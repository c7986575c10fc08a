"""What the scripts behind `make` share: they end in an orderly way, whatever ends them."""

import contextlib
import os
import signal
import subprocess

from support import servers

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_on_signals():
    """From here on Ctrl-C, SIGTERM, SIGHUP and the death of make unwind the stack, so that `with` tidies up."""
    def unwind(signum, _frame):
        for each in ENDING_SIGNALS:
            signal.signal(each, signal.SIG_IGN)  # once is enough; tidying up is bounded
        raise SystemExit(128 + signum)

    for each in ENDING_SIGNALS:
        signal.signal(each, unwind)
    servers.die_with_parent(signal.SIGTERM)


@contextlib.contextmanager
def child(command, death_signal="TERM", patience=25, **more):
    """A child in a session of its own, so that Ctrl-C reaches it through us alone. It has ended on leaving."""
    process = subprocess.Popen(["setpriv", f"--pdeathsig={death_signal}", "--", *map(str, command)],
                               start_new_session=True, **more)
    try:
        yield process
    finally:
        end(process, getattr(signal, f"SIG{death_signal}"), patience)


def end(process, signum, patience):
    if process.poll() is not None:
        return
    process.send_signal(signum)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(command, timeout=None, death_signal="TERM", **more):
    """Runs a command to its end and returns its exit status; None: it took longer than `timeout` seconds."""
    with child(command, death_signal, **more) as process:
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
