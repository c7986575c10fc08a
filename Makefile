# The front door. Each target works in a fresh clone of a bare Debian 12, as root or with sudo.
#
#   make run    installs what is missing, builds, starts a private Postgres and Redis, loads the demo, serves
#   make cluster  three nodes behind HAProxy, on one Postgres and one Redis, with the same demo
#   make test   the same preparation, then every test; ends with a line "N passed, N failed"
#   make asan   the same tests with the address and undefined-behaviour sanitizers; make tsan: threads
#   make chaos  three nodes, two dozen buyers and everything that can go wrong; SEED=... DURATION=60 (seconds)
#   make bench  every benchmark beside its peer; BENCH=holds DURATION=10 runs one
#
# DATABASE_URL and REDIS_URL point run and test at servers that are there already.

PYTHON  := /usr/bin/python3 -B
SUPPORT := tests/support
export BENCH DURATION

.DEFAULT_GOAL := build
.PHONY: build run cluster test asan tsan chaos bench clean format

build:
	@$(SUPPORT)/install-packages.sh build
	@$(SUPPORT)/build.sh build

run: build
	@$(SUPPORT)/install-packages.sh run
	@$(PYTHON) $(SUPPORT)/run_demo.py

cluster: build
	@$(SUPPORT)/install-packages.sh run balance
	@$(PYTHON) $(SUPPORT)/run_cluster.py

test: build
	@$(SUPPORT)/install-packages.sh run balance test
	@$(PYTHON) $(SUPPORT)/run_tests.py build

asan tsan:
	@$(SUPPORT)/install-packages.sh build run balance test
	@$(SUPPORT)/build.sh build/$@ -DHOLDFAST_SANITIZE=$(if $(filter asan,$@),address,thread)
	@$(PYTHON) $(SUPPORT)/run_tests.py build/$@

chaos: build
	@$(SUPPORT)/install-packages.sh run test
	@$(PYTHON) tests/fault/chaos/chaos.py $(if $(SEED),--seed $(SEED)) $(if $(DURATION),--duration $(DURATION))

bench: build
	@$(SUPPORT)/install-packages.sh run balance test bench
	@$(PYTHON) bench/run.py

format:
	@git ls-files 'src/*.[ch]' 'include/*.h' 'tests/*.[ch]' 'bench/*.[ch]' | xargs -r clang-format -i

clean:
	@$(PYTHON) $(SUPPORT)/servers.py clean
	@rm -rf build
