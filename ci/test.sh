#!/usr/bin/env bash
# Runs every test, and the unit tests on every other Python: ci/test.sh PYTHON
# Tests of real processes and networks run one by one, in front. Beside them, in the time that they
# leave, the rest runs on all processors; what that says comes once they have ended.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
status=0

if [ "${2-}" = beside ]; then
    "$python" -m pytest -n auto --dist worksteal -m "not serial" || status=1
    ci/pythons.sh "$python" || status=1
    exit $status
fi

said=$(mktemp)
set -m # a process group of its own, to be ended whole where this script is interrupted
nice -n 19 "$0" "$python" beside >"$said" 2>&1 </dev/null &
beside=$!
set +m
trap 'kill -- "-$beside" 2>/dev/null || true; rm -f "$said"' EXIT

"$python" -m pytest -m serial || status=$?
[ $status != 2 ] || exit 2 # interrupted
echo "== beside them:"
# Not every tail knows --pid: then all is shown at the end.
shown=true
tail -n +1 -f --pid="$beside" "$said" 2>/dev/null || shown=
wait "$beside" || status=1
[ "$shown" ] || cat "$said"
exit $status
