"""A minute of everything that can go wrong, always from the same seed. `make chaos` runs others."""

import pathlib
import subprocess
import sys

CHAOS = pathlib.Path(__file__).parent / "chaos" / "chaos.py"
SEED, SECONDS = "1", "60"


def test_a_minute_of_chaos_is_survived():
    done = subprocess.run([sys.executable, "-B", CHAOS, "--seed", SEED, "--duration", SECONDS], timeout=480, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout[-30000:]
