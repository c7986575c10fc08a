"""run_tests.py BUILD_FOLDER: every test against the build in that folder.

Unit tests by ctest, then the black-box tests by pytest: lanes side by side, each with servers of its own (most tests
wait for something most of the time), then what compares speeds and must have the machine to itself (the marker
`alone`). The last line is "N passed, N failed"; the exit status is 1 if anything failed, if a sanitizer spoke, or if
a part ran no test at all.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import servers, supervise  # noqa: E402

TESTS = servers.CLONE / "tests"
CMOCKA_COUNT = re.compile(r"\[  (PASSED|FAILED)  \] (\d+) test")
SANITIZER_REPORT = re.compile(r"(ERROR|WARNING): (Address|Leak|Thread|Memory)Sanitizer|runtime error:")
# Shared out by how long they take: about the same for each.
BESIDE_LAWS = ["fault/test_delivery.py", "fault/test_payment_webhooks.py", "fault/test_release_event.py"]
LANES = {
    "api": ["api"],
    "laws": ["laws", "checker", *BESIDE_LAWS],
    "fault": ["fault", *(f"--ignore={file}" for file in BESIDE_LAWS)],
}
# Hung tests must not hang the run. Sanitizers make everything several times slower.
PYTEST_LIMIT_S = {"": 35 * 60, "address": 45 * 60, "thread": 60 * 60}
CTEST_LIMIT_S = {"": 4 * 60, "address": 15 * 60, "thread": 15 * 60}


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: run_tests.py BUILD_FOLDER")
    build = pathlib.Path(sys.argv[1]).resolve()
    supervise.end_on_signals()
    try:
        passed, failed = run_all(build)
    except servers.ServerError as error:
        sys.exit(f"tests: {error}")
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not passed else 0)


def run_all(build):
    sanitizer = sanitizer_of(build)
    wrapper = sanitizer_wrapper(sanitizer)
    limit_s = PYTEST_LIMIT_S[sanitizer]
    everything = ["api", "laws", "checker", "fault"]
    # Tests empty their Redis: on one that was given, they run one after the other.
    lanes = {"all": everything} if os.environ.get("REDIS_URL") else LANES
    with contextlib.ExitStack() as stack:
        environments = {name: test_environment(build, stack.enter_context(servers.Workplace.any("test"))) for name in lanes}
        some = next(iter(environments.values()))
        counts = [run_ctest(build, wrapper, some, CTEST_LIMIT_S[sanitizer])]
        counts += run_lanes([Lane(build, name, paths, "not alone", environments[name]) for name, paths in lanes.items()],
                            wrapper, limit_s)
        counts += run_lanes([Lane(build, "alone", everything, "alone", some)], wrapper, limit_s)
        reports = sum(sanitizer_reports(pathlib.Path(each["HOLDFAST_TEST_LOGS"])) for each in environments.values())
    return sum(passed for passed, _ in counts), sum(failed for _, failed in counts) + reports


def sanitizer_of(build):
    cache = (build / "CMakeCache.txt").read_text()
    return re.search(r"^HOLDFAST_SANITIZE:\w+=(.*)$", cache, re.MULTILINE).group(1)


def sanitizer_wrapper(sanitizer):
    """gcc 12's TSan can't map its shadow where the kernel randomizes addresses widely; this run does without."""
    without_randomization = ["setarch", "--addr-no-randomize"]
    if sanitizer == "thread" and subprocess.run([*without_randomization, "true"], check=False).returncode == 0:
        return without_randomization
    return []


def test_environment(build, place):
    """Servers of this run, or those that DATABASE_URL and REDIS_URL name."""
    logs = place.path / "nodes"
    shutil.rmtree(logs, ignore_errors=True)
    place.folder("nodes")
    database_url = os.environ.get("DATABASE_URL") or place.postgres(fresh=True).url()
    redis_url = os.environ.get("REDIS_URL") or place.redis().url()
    return os.environ | {
        "HOLDFAST_BINARY": str(build / "holdfast"),
        "HOLDFAST_TEST_DATABASE_URL": database_url,
        "HOLDFAST_TEST_REDIS_URL": redis_url,
        "HOLDFAST_TEST_LOGS": str(logs),
        "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "TSAN_OPTIONS": "second_deadlock_stack=1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run_ctest(build, wrapper, environment, limit_s):
    """(passed, failed) in cases of the unit tests, or in programs where one says no number."""
    report = build / "ctest.xml"
    report.unlink(missing_ok=True)
    supervise.run([*wrapper, "ctest", "--test-dir", build, "--output-on-failure", "--timeout", "120",
                   "--parallel", str(len(os.sched_getaffinity(0))),
                   "--test-output-size-passed", "10000000", "--test-output-size-failed", "10000000",
                   "--output-junit", report], limit_s, env=environment)
    if not report.exists():
        return 0, 1
    passed = failed = 0
    for program in ElementTree.parse(report).getroot().iter("testcase"):
        counts = {word: int(number) for word, number in CMOCKA_COUNT.findall(program.findtext("system-out") or "")}
        if program.get("status") == "run":
            passed += counts.get("PASSED", 1)
        else:
            passed += counts.get("PASSED", 0)
            failed += counts.get("FAILED", 1)
    return (passed, failed) if passed + failed else (0, 1)


class Lane:
    """One run of pytest: the tests of some paths that a marker expression chooses, on servers of their own."""

    def __init__(self, build, name, paths, marked, environment):
        self.report = build / f"pytest-{name}.xml"
        self.log = build / f"pytest-{name}.log"
        self.words = [sys.executable, "-B", "-m", "pytest", "-q", "-m", marked, f"--junitxml={self.report}",
                      "--continue-on-collection-errors", f"--rootdir={TESTS}", "-c", TESTS / "pytest.ini", *paths]
        self.environment = environment
        self.report.unlink(missing_ok=True)

    def counts(self, status):
        """(passed, failed). A skipped test is neither. `status`: pytest's exit status, None if it took too long."""
        if not self.report.exists():
            return 0, 1
        count = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        for suite in ElementTree.parse(self.report).getroot().iter("testsuite"):
            for name in count:
                count[name] += int(suite.get(name, 0))
        failed = count["failures"] + count["errors"]
        passed = max(0, count["tests"] - failed - count["skipped"])
        # Any other end than "all passed" has to show in the count: no tests found, interrupted, internal error.
        return passed, failed or (0 if status == 0 else 1)


def run_lanes(lanes, wrapper, limit_s):
    """Runs them side by side, shows what each said, and returns [(passed, failed)]."""
    deadline = time.monotonic() + limit_s
    counts = []
    with contextlib.ExitStack() as stack:
        running = []
        for lane in lanes:
            log = stack.enter_context(open(lane.log, "wb"))
            running.append(stack.enter_context(supervise.child([*wrapper, *lane.words], death_signal="INT", cwd=TESTS,
                                                               env=lane.environment, stdout=log, stderr=log)))
        for lane, process in zip(lanes, running):
            status = None
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(max(0, deadline - time.monotonic()))
            if status is None:
                print(f"pytest took longer than {limit_s} s", flush=True)
                supervise.end(process, signal.SIGINT, 25)
            print(lane.log.read_text(errors="replace"), flush=True)
            counts.append(lane.counts(status))
    return counts


def sanitizer_reports(logs):
    """How many logs of nodes hold a sanitizer's report; says which."""
    speaking = [log for log in sorted(logs.glob("*.log")) if SANITIZER_REPORT.search(log.read_text(errors="replace"))]
    for log in speaking:
        print(f"a sanitizer spoke in {log}", flush=True)
    return len(speaking)


if __name__ == "__main__":
    main()
