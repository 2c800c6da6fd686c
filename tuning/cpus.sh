#!/usr/bin/env bash
# Sets cores aside for Corelane, shows which are, and gives them back.
#
#   cpus.sh show                      what stands where
#   cpus.sh apply CORES [--dry-run]   CORES (such as 2-7 or 2,3) are for corelane.slice alone
#   cpus.sh undo [--dry-run]          everything is as it was found
#
# apply moves to the other cores whatever can be moved: device interrupts and their default, work
# that the kernel does on any core (unbound workqueues), the spreading of received packets (RPS,
# where it is on), and, by a partition of cgroup v2, every process outside of corelane.slice. The
# partition is of the kind `root`: the pinned threads of shards stay where they are, and those of
# the pool for blocking tools are still spread over these cores (`isolated` would not do that).
#
# What it finds it writes to a state file before it changes it, line by line, so that an apply that
# was cut short can be undone as well. Settings of this kind are gone after a restart, and so is
# the file. What only the kernel's command line can do (isolcpus, nohz_full, rcu_nocbs) README.md
# tells. CPUS_ROOT puts another folder in place of /, for tests.

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

# The text of a file, or nothing.
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

# Cores as a mask of the kernel: words of 32 bits in hexadecimal, the highest first.
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

# The cores of $1 that are not in $2, both as words.
without() {
  local core
  for core in $1; do
    case " $2 " in *" $core "*) ;; *) printf '%s ' "$core" ;; esac
  done
}

# Whether two masks are the same: the kernel leaves out zeros that we write.
same() {
  [ "$(echo "$1" | tr -d ',' | sed 's/^0*//')" = "$(echo "$2" | tr -d ',' | sed 's/^0*//')" ]
}

# Notes what is found, so that undo can bring it back.
note() {
  printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$state"
}

# Writes $2 to the file $1 and notes what stood there. What the kernel refuses stays as it was.
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
    say "left" "$file: the kernel keeps it where it is ($found)"
    sed -i '$d' "$state"
  fi
}

needs_root() {
  if [ -z "$root" ] && [ "$dry" = no ] && [ "$(id -u)" != 0 ]; then
    fail "only root may do that: run it with sudo, or with --dry-run to see what it would do"
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
    # All zero: RPS is off, and packets are handled where their interrupt comes.
    if same "$(text "$file")" 0; then continue; fi
    put "$file" "$(mask "$rest")"
  done
  if pgrep -x irqbalance >/dev/null 2>&1; then
    say warning "irqbalance runs and will move interrupts back: stop it, or ban these cores in it"
  fi
}

# Shuts every process outside of corelane.slice out of the cores.
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
  *invalid*) say warning "the kernel did not part the cores: $now" ;;
  esac
}

apply() {
  local cores="$1" all mine rest
  [[ "$cores" =~ ^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$ ]] ||
    fail "'$cores' names no cores: write a list such as 2-7 or 2,3"
  if [ -e "$state" ]; then fail "cores are set aside already: cpus.sh undo first"; fi
  all="$(online)"
  mine="$(expand "$cores")"
  [ -z "$(without "$mine" "$all")" ] ||
    fail "core $(without "$mine" "$all")is not online: those that are: $all"
  rest="$(without "$all" "$mine")"
  [ -n "$rest" ] || fail "no core would be left for everything else: leave at least one out"
  needs_root
  if [ "$dry" = no ]; then : >"$state"; fi
  move_interrupts "$rest"
  part_cores "$cores"
  if [ "$dry" = no ]; then say ready "cores $cores; cpus.sh undo gives them back"; fi
}

undo() {
  local kind place found
  [ -e "$state" ] || fail "nothing is set aside: there is no $state"
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
  if [ -e "$state" ]; then say "set aside" "undo brings back $(wc -l <"$state") settings"; fi
}

words=()
for word in "$@"; do
  if [ "$word" = --dry-run ]; then dry=yes; else words+=("$word"); fi
done
case "${words[*]:-}" in
show) show ;;
"apply "*) [ "${#words[@]}" = 2 ] || fail "write the cores as one word"; apply "${words[1]}" ;;
undo) undo ;;
*) fail "say show, apply CORES or undo; --dry-run shows what would be done" ;;
esac
