#!/usr/bin/env bash
# Runs `sixwarp check` for the action: paths and arguments are one per line, so that none is split at its spaces.
set -u

mapfile -t paths < <(printf '%s\n' "${CHECK_PATHS:-}" | sed '/^[[:space:]]*$/d')
mapfile -t arguments < <(printf '%s\n' "${CHECK_ARGUMENTS:-}" | sed '/^[[:space:]]*$/d')
command=(sixwarp check "${arguments[@]}" --sarif "${CHECK_SARIF:?}")
if [ -n "${CHECK_PAGES:-}" ]; then
    command+=(--html "$CHECK_PAGES")
fi

"${command[@]}" "${paths[@]}"
status=$?
echo "status=$status" >> "${GITHUB_OUTPUT:-/dev/null}"
exit "$status"
