#!/bin/sh
# The Python package on a GPU machine: every test (with torch.compile, opcheck, CUDA graphs, transformers where it
# is installed), the examples, and what a call costs the host. JUnit XML and JSON go to OUTPUT_DIRECTORY.
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
python3 benches/overhead.py --json "$out/overhead.json" || failed=1
python3 -m pytest -q -rs -p no:cacheprovider --junitxml "$out/python-tests.xml" python/tests || failed=1
exit "${failed:-0}"
