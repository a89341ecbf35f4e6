#!/usr/bin/env bash
# Runs every test, the unit tests on every other Python, and real processes under faults:
# ci/test.sh PYTHON
# Tests of real processes and networks run one by one, in front: first tests/fabric, which look at
# what there is on the whole machine, then all others. Beside these runs `make chaos`, whose progress
# is told as it goes. Beside both, in the time that they leave, the rest runs on all processors; what
# that says comes once they have ended.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
status=0

case "${2-}" in
rest)
    "$python" -m pytest -n auto --dist worksteal -m "not serial" || status=1
    ci/pythons.sh "$python" || status=1
    exit $status
    ;;
chaos)
    # Of all that it says, how far it is; whole, it is in the file.
    "$python" -m chaos selection --no-keep 2>&1 | tee "$3" | grep --line-buffered '^== ' |
        while read -r line; do printf '\nchaos %s\n' "$line"; done || status=1
    exit $status
    ;;
esac

said=$(mktemp -d)
rest='' chaos=''
end() {
    for each in $rest $chaos; do
        kill -- "-$each" 2>/dev/null || true
    done
    wait
    # It leaves networks, disks and processes behind, which its end does not take with it.
    [ -z "$chaos" ] || "$python" -m chaos clean || true
    rm -rf "$said"
}
trap end EXIT

set -m # process groups of their own, to be ended whole where this script is interrupted
nice -n 19 "$0" "$python" rest >"$said/rest" 2>&1 </dev/null &
rest=$!
set +m
"$python" -m pytest -m serial tests/fabric || status=$?
[ $status != 2 ] || exit 2 # interrupted

set -m
nice -n 10 "$0" "$python" chaos "$said/chaos" </dev/null &
chaos=$!
set +m
"$python" -m pytest -m serial --ignore tests/fabric || status=$?
[ $status != 2 ] || exit 2

echo "== beside them, real processes under faults:"
if wait "$chaos"; then tail -n 1 "$said/chaos"; else status=1 && cat "$said/chaos"; fi
chaos=''

echo "== beside them, the rest:"
# Not every tail knows --pid: then all is shown at the end.
shown=true
tail -n +1 -f --pid="$rest" "$said/rest" 2>/dev/null || shown=
wait "$rest" || status=1
rest=''
[ "$shown" ] || cat "$said/rest"
exit $status
