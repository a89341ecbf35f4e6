#!/usr/bin/env bash
# Makes or refreshes a development environment: ci/venv.sh FOLDER PYTHON [EXTRAS]
# The folder's .stamp is newer than pyproject.toml and constraints.txt once this has succeeded.
set -euo pipefail
folder=$1 python=$2 extras=${3-dev}

# A Python without ensurepip (Debian splits it off) still makes an environment that its own pip can fill.
if [ ! -x "$folder/bin/python" ]; then
    "$python" -m venv "$folder" >/dev/null 2>&1 || "$python" -m venv --clear --without-pip "$folder"
fi
if [ -x "$folder/bin/pip" ]; then
    pip=("$folder/bin/python" -m pip)
else
    pip=("$python" -m pip --python "$folder/bin/python")
fi

# The build backends first (setuptools is pysyncobj's, which is published as source alone): building
# without isolation keeps to the constraints and downloads nothing twice.
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${pip[@]}" install --quiet --constraint constraints.txt hatchling setuptools
"${pip[@]}" install --quiet --constraint constraints.txt --no-build-isolation --editable ".[$extras]"
touch "$folder/.stamp"
