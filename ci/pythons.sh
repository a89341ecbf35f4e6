#!/usr/bin/env bash
# Runs the unit tests on every supported Python of this machine but the one given, each in its own
# .venv-VERSION: ci/pythons.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
done_already=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

runs() { # is $1 really a Python $2? (a shim may be there without its Python)
    "$1" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])' "$2" 2>/dev/null
}

for version in 3.11 3.12 3.13; do
    if [ "$version" = "$done_already" ]; then
        continue
    fi
    found=
    for candidate in "python$version" "$HOME/.pyenv/versions/$version".*/bin/python; do
        if runs "$candidate" "$version"; then
            found=$candidate
            break
        fi
    done
    if [ -z "$found" ]; then
        echo "== Python $version: not on this machine"
        continue
    fi
    echo "== Python $version: $found"
    folder=.venv-$version
    if [ ! "$folder/.stamp" -nt pyproject.toml ] || [ ! "$folder/.stamp" -nt constraints.txt ]; then
        ci/venv.sh "$folder" "$found"
    fi
    "$folder/bin/python" -m pytest -q -n auto --dist worksteal -m "not slow" tests/unit
done
