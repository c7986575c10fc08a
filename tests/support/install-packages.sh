#!/bin/sh
# Installs what is missing of the named groups of third_party/packages.txt (build, run, test, balance, bench).
# Asks dpkg first, so that a machine that has everything needs neither root nor the network.
set -eu
cd "$(dirname "$0")/../.."

wanted=
for group in "$@"; do
    wanted="$wanted $(awk -v group="# $group" '/^#/ { on = ($0 == group); next } on' third_party/packages.txt)"
done

missing=
for package in $wanted; do
    state=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null) || state=
    case $state in
    ?i*) ;; # installed, held or not
    *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

as_root=env
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "These packages are missing, and installing them takes root or sudo:" >&2
        echo "    apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
    as_root="sudo env"
fi

# Debian starts what it installs, on the ports that everybody wants; ours are started privately. So it is told no for
# this while, unless the machine has an answer of its own to that question.
policy=/usr/sbin/policy-rc.d
if $as_root sh -c "set -C; printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy" 2>/dev/null; then
    trap '$as_root rm -f "$policy"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' HUP TERM
fi

echo "installing:$missing"
$as_root DEBIAN_FRONTEND=noninteractive apt-get -qq update ||
    echo "apt-get update failed; trying with the package lists that are here" >&2
# shellcheck disable=SC2086  # the words of $missing are the packages
$as_root DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing
