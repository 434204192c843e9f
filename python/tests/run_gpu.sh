#!/bin/sh
# The Python package on a GPU machine: tests, examples and the benchmark beside torch.
#   python/tests/run_gpu.sh [PACKAGE_DIRECTORY] [OUTPUT_DIRECTORY]
# PACKAGE_DIRECTORY holds `sixwarp/` with its library (an unpacked wheel); without it, an installed one is used.
set -eu
cd "$(dirname "$0")/../.."
out=${2:-.}
if [ -n "${1:-}" ]; then
    PYTHONPATH="$(cd "$1" && pwd)${PYTHONPATH:+:$PYTHONPATH}"
    export PYTHONPATH
fi
python3 -c "import sixwarp, torch; print('sixwarp', sixwarp.__version__, 'torch', torch.__version__, torch.cuda.get_device_name())"
python3 -m pytest -q -rs python/tests || failed=1
python3 benches/h200.py --json "$out/h200.json" --plot "$out/h200.svg"
exit "${failed:-0}"
