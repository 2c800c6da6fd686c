#!/usr/bin/env bash
# Reserves CPU cores for Corelane, shows the state, and undoes it.
#
#   cpus.sh show                      prints the current settings
#   cpus.sh apply CORES [--dry-run]   reserves CORES (such as 2-7 or 2,3) for corelane.slice
#   cpus.sh undo [--dry-run]          restores the old settings
#
# apply moves to the other cores: device interrupts and their default, unbound kernel workqueues,
# receive packet steering (RPS, if enabled) and, by a cgroup v2 partition, all processes outside of
# corelane.slice. The partition has the type `root`, so that threads of the pool for blocking tools
# are still balanced over these cores (`isolated` would prevent it).
#
# Old values are written to a state file before each change, so that an interrupted apply can be
# undone. The settings and the file do not survive a reboot. For kernel parameters (isolcpus,
# nohz_full, rcu_nocbs) see README.md. CPUS_ROOT replaces /, for tests.

set -euo pipefail

root="${CPUS_ROOT:-}"
state="$root/run/corelane-cpus.state"
group="$root/sys/fs/cgroup/corelane.slice"
controls="$root/sys/fs/cgroup/cgroup.subtree_control"
dry=no

fail() {
  echo "cpus.sh: $*" >&2
  exit 1
}

say() {
  printf '%-12s %s\n' "$1" "$2"
}

# Prints a file, or nothing.
text() {
  if [ -r "$1" ]; then tr -d '\0' 2>/dev/null <"$1" || true; fi
}

# `0-2,5` as `0 1 2 5`.
expand() {
  local part
  for part in ${1//,/ }; do
    seq "${part%-*}" "${part#*-}"
  done | sort -nu | tr '\n' ' '
}

# Prints cores as a kernel CPU mask: hexadecimal 32-bit words, the highest first.
mask() {
  local core words=() highest=0 out=""
  for core in $1; do
    words[core / 32]=$((${words[core / 32]:-0} | 1 << (core % 32)))
    if ((core / 32 > highest)); then highest=$((core / 32)); fi
  done
  while ((highest >= 0)); do
    out+=$(printf '%08x,' "${words[highest]:-0}")
    ((highest -= 1)) || true
  done
  echo "${out%,}"
}

# Prints the cores of $1 that are not in $2.
without() {
  local core
  for core in $1; do
    case " $2 " in *" $core "*) ;; *) printf '%s ' "$core" ;; esac
  done
}

# Compares two masks without leading zeros.
same() {
  [ "$(echo "$1" | tr -d ',' | sed 's/^0*//')" = "$(echo "$2" | tr -d ',' | sed 's/^0*//')" ]
}

# Saves an old value for undo.
note() {
  printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$state"
}

# Writes $2 to the file $1 and saves the old value. Settings rejected by the kernel are skipped.
put() {
  local file="$1" wanted="$2" found
  found="$(text "$file")"
  if [ ! -e "$file" ] || [ "$found" = "$wanted" ]; then return; fi
  case "$file" in
  *cpumask | *affinity | *_cpus) if same "$found" "$wanted"; then return; fi ;;
  esac
  if [ "$dry" = yes ]; then
    say "would write" "$wanted > $file (is $found)"
    return
  fi
  note file "$file" "$found"
  if echo "$wanted" 2>/dev/null >"$file"; then
    say wrote "$wanted > $file"
  else
    say "left" "$file: rejected by the kernel, still $found"
    sed -i '$d' "$state"
  fi
}

needs_root() {
  if [ -z "$root" ] && [ "$dry" = no ] && [ "$(id -u)" != 0 ]; then
    fail "root is required: use sudo, or --dry-run to print the changes"
  fi
}

online() {
  expand "$(text "$root/sys/devices/system/cpu/online")"
}

move_interrupts() {
  local rest="$1" list file
  list="$(echo "$rest" | xargs | tr ' ' ',')"
  put "$root/proc/irq/default_smp_affinity" "$(mask "$rest")"
  for file in "$root"/proc/irq/*/smp_affinity_list; do
    if [ -z "$(without "$(expand "$(text "$file")")" "$rest")" ]; then continue; fi
    put "$file" "$list"
  done
  put "$root/sys/devices/virtual/workqueue/cpumask" "$(mask "$rest")"
  for file in "$root"/sys/class/net/*/queues/rx-*/rps_cpus; do
    # All zero: RPS is off.
    if same "$(text "$file")" 0; then continue; fi
    put "$file" "$(mask "$rest")"
  done
  if pgrep -x irqbalance >/dev/null 2>&1; then
    say warning "irqbalance is running and will move interrupts back: stop it, or ban these cores"
  fi
}

# Removes all processes outside of corelane.slice from the cores.
part_cores() {
  local cores="$1" now
  if ! grep -qw cpuset "$root/sys/fs/cgroup/cgroup.controllers" 2>/dev/null; then
    say left "processes: there is no cpuset controller of cgroup v2 at /sys/fs/cgroup; start the"
    say "" "server with taskset or CPUAffinity=, and the rest elsewhere, or boot with isolcpus="
    return
  fi
  if [ -d "$root/run/systemd/system" ]; then
    if [ "$dry" = yes ]; then
      say "would set" "AllowedCPUs=$cores of corelane.slice, by systemctl"
    else
      note systemd AllowedCPUs "$(systemctl show --property AllowedCPUs --value corelane.slice)"
      systemctl set-property --runtime corelane.slice "AllowedCPUs=$cores"
      systemctl start corelane.slice
    fi
  else
    if [ ! -d "$group" ] && [ "$dry" = yes ]; then say "would make" "$group"; fi
    if [ ! -d "$group" ] && [ "$dry" = no ]; then
      note folder "$group" made
      mkdir "$group"
    fi
    if ! grep -qw cpuset "$controls"; then
      if [ "$dry" = yes ]; then
        say "would write" "+cpuset > $controls"
      else
        note control "$controls" -cpuset
        echo +cpuset >"$controls"
      fi
    fi
    put "$group/cpuset.cpus" "$cores"
  fi
  put "$group/cpuset.cpus.partition" root
  now="$(text "$group/cpuset.cpus.partition")"
  case "$now" in
  *invalid*) say warning "the kernel rejected the partition: $now" ;;
  esac
}

apply() {
  local cores="$1" all mine rest
  [[ "$cores" =~ ^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$ ]] ||
    fail "'$cores' is not a list of cores: write 2-7 or 2,3"
  if [ -e "$state" ]; then fail "cores are already reserved: run cpus.sh undo first"; fi
  all="$(online)"
  mine="$(expand "$cores")"
  [ -z "$(without "$mine" "$all")" ] ||
    fail "core $(without "$mine" "$all")is not online: those that are: $all"
  rest="$(without "$all" "$mine")"
  [ -n "$rest" ] || fail "no core would be left for other processes: leave out at least one"
  needs_root
  if [ "$dry" = no ]; then : >"$state"; fi
  move_interrupts "$rest"
  part_cores "$cores"
  if [ "$dry" = no ]; then say ready "cores $cores; cpus.sh undo releases them"; fi
}

undo() {
  local kind place found
  [ -e "$state" ] || fail "no cores are reserved: there is no $state"
  needs_root
  while IFS=$'\t' read -r kind place found; do
    if [ "$dry" = yes ]; then
      say "would undo" "$kind $place: $found"
      continue
    fi
    case "$kind" in
    file | control) echo "$found" 2>/dev/null >"$place" || say lost "$place: not $found again" ;;
    systemd) systemctl set-property --runtime corelane.slice "$place=$found" ;;
    folder) rmdir "$place" || fail "$place is in use: stop what runs in it, then undo again" ;;
    esac
    say restored "$place: $found"
  done < <(tac "$state")
  if [ "$dry" = no ]; then rm "$state"; fi
}

show() {
  local file
  say online "$(text "$root/sys/devices/system/cpu/online")"
  say isolcpus "$(text "$root/sys/devices/system/cpu/isolated")"
  say nohz_full "$(text "$root/sys/devices/system/cpu/nohz_full")"
  say workqueues "$(text "$root/sys/devices/virtual/workqueue/cpumask")"
  say slice "$(text "$group/cpuset.cpus.effective") $(text "$group/cpuset.cpus.partition")"
  for file in "$root"/proc/irq/*/smp_affinity_list; do
    if [ -r "$file" ]; then
      say "irq $(basename "$(dirname "$file")")" "$(text "$file")"
    fi
  done
  for file in "$root"/sys/class/net/*/queues/rx-*/rps_cpus; do
    if [ -r "$file" ]; then say rps "$(text "$file") $file"; fi
  done
  if [ -e "$state" ]; then say reserved "undo restores $(wc -l <"$state") settings"; fi
}

words=()
for word in "$@"; do
  if [ "$word" = --dry-run ]; then dry=yes; else words+=("$word"); fi
done
case "${words[*]:-}" in
show) show ;;
"apply "*) [ "${#words[@]}" = 2 ] || fail "write the cores without spaces"; apply "${words[1]}" ;;
undo) undo ;;
*) fail "usage: cpus.sh show | apply CORES | undo [--dry-run]" ;;
esac
