# shellcheck shell=bash
# Sourced by the scripts beside it: where the project is, who asked, how many compilers may run.
set -euo pipefail
# shellcheck disable=SC2034  # used by the scripts that source this file
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd -P)

# Two compilers at most; one where memory is short, since a file that includes CAF takes up to 0.7 GB.
compile_jobs() {
  local free_mb
  free_mb=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
  if (($(nproc) > 1 && free_mb > 2000)); then echo 2; else echo 1; fi
}

# Under sudo only the installation needs root: everything else is started again as the person who asked, so that
# the files belong to them. A tree that they cannot write is root's own; then nothing changes.
drop_sudo() {
  local uid=${SUDO_UID:-0} gid=${SUDO_GID:-0} made
  ((EUID == 0 && uid != 0)) || return 0
  sudo -u "#$uid" test -w "$root" || return 0
  for made in "$root/build" "$root/runs"; do
    if [[ -e $made ]]; then chown -R "$uid:$gid" "$made"; fi
  done
  exec sudo -H -u "#$uid" -g "#$gid" -- "$@"
}
