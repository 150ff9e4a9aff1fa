#!/usr/bin/env bash
# Measures a pull request against its base, turn by turn, and leaves the table as Markdown. Thin on purpose: it runs in
# any CI, and by hand:
#
#   BASE=main RECIPE=speed.yaml .github/actions/ab/ab.sh
#
# BASE: revision to compare with. RECIPE: a recipe in the repository. THRESHOLD, SECONDS_PER_CELL, STRICT (true), OUTPUT
# (speed.md), PROFILER (the command) and ARGUMENTS (more of them, in words) are optional. The exit status is that of
# `ab`: 0, 3 where a cell is slower, 4 where one is unclear and STRICT is true, 1 where one failed, 2 for wrong input.
set -uo pipefail

if [ "${GITHUB_EVENT_NAME:-}" = pull_request_target ]; then
  echo "pull_request_target runs the code of forks with this repository's secrets: use \`on: pull_request\`." >&2
  exit 2
fi
: "${BASE:?say what to compare with: BASE=main}" "${RECIPE:?say which recipe: RECIPE=speed.yaml}"
output="${OUTPUT:-speed.md}"
words=("${RECIPE}" --rev "${BASE}" --trust --quiet --output "${output}")
[ -z "${THRESHOLD:-}" ] || words+=(--threshold "${THRESHOLD}")
[ -z "${SECONDS_PER_CELL:-}" ] || words+=(--seconds "${SECONDS_PER_CELL}")
[ "${STRICT:-false}" != true ] || words+=(--strict)
read -r -a more <<<"${ARGUMENTS:---threads 1}"
rm -f "${output}"
# shellcheck disable=SC2086  # the command may have several words
${PROFILER:-speech-profiler} ab "${words[@]}" "${more[@]}"
status=$?

if [ ! -s "${output}" ]; then
  echo "The speed of this change was not measured (exit status ${status}); the log says why." >"${output}"
fi
case "${status}" in
  0) said="no cell is slower" ;;
  3) said="slower" ;;
  4) said="unclear" ;;
  *) said="not measured" ;;
esac
printf '<!-- speech-profiler -->\n### Speed against `%s`: %s\n\n' "${BASE:0:12}" "${said}" | cat - "${output}" \
  >"${output}.part" && mv "${output}.part" "${output}"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "${output}" >>"${GITHUB_STEP_SUMMARY}"
[ -z "${GITHUB_OUTPUT:-}" ] || printf 'status=%s\nsaid=%s\ntable=%s\n' "${status}" "${said}" "${output}" >>"${GITHUB_OUTPUT}"
exit "${status}"
