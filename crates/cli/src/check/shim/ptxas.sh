#!/bin/sh
# Stands for ptxas under `sixwarp check`: NVIDIA's own looks at the PTX, and the result is the PTX itself, because the
# simulator runs no machine code.
case " $* " in
*" --version "*)
    if [ -x "$SIXWARP_CHECK_PTXAS" ]; then exec "$SIXWARP_CHECK_PTXAS" --version; fi
    echo "Cuda compilation tools, release 13.1, V13.1.0"
    exit 0
    ;;
esac
if [ -x "$SIXWARP_CHECK_PTXAS" ]; then
    "$SIXWARP_CHECK_PTXAS" "$@" || exit $?
fi
while [ $# -gt 0 ]; do
    case "$1" in
    -o | --output-file) output="$2"; shift ;;
    *.ptx) input="$1" ;;
    esac
    shift
done
cat "$input" > "$output"
