#!/usr/bin/env bash
# Runs `sixwarp check` for the action: paths and arguments are one per line, so that none is split at its spaces.
set -u

mapfile -t paths < <(printf '%s\n' "${CHECK_PATHS:-}" | sed '/^[[:space:]]*$/d')
mapfile -t arguments < <(printf '%s\n' "${CHECK_ARGUMENTS:-}" | sed '/^[[:space:]]*$/d')
command=(sixwarp check "${arguments[@]}" --sarif "${CHECK_SARIF:?}")
if [ -n "${CHECK_PAGES:-}" ]; then
    command+=(--html "$CHECK_PAGES")
fi

if [ -n "${CHECK_COMMAND:-}" ]; then
    # A folder of files cannot be checked in the same run: the command's own launches are.
    [ "${#paths[@]}" -eq 0 ] || { echo "sixwarp: give either paths or a command" >&2; exit 2; }
    command+=(-- bash -c "$CHECK_COMMAND")
fi

"${command[@]}" "${paths[@]}"
status=$?
echo "status=$status" >> "${GITHUB_OUTPUT:-/dev/null}"
exit "$status"
