#!/bin/sh
# threads.sh: placement of threads: ranks share the CPUs that the process may
# use, and each thread is bound to one. If there are fewer CPUs than threads, or
# many more, or the user has set affinities, the system places the threads.
. "$(dirname "$0")/lib.sh"

may_use() { # the CPUs of the process that runs this, such as 0-3,8
    sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$1"
}
# all_of LIST: prints its numbers, one per line.
all_of() {
    echo "$1" | tr ',' '\n' | awk -F- '{
        for (cpu = $1; cpu <= (NF > 1 ? $2 : $1); cpu++) print cpu }'
}
all_of "$(may_use /proc/self/status)" >"$work/cpus"
n=$(wc -l <"$work/cpus")
if [ "$n" -lt 2 ] || ! command -v taskset >/dev/null; then
    echo "skipped: threads have places where there are 2 CPUs and taskset;" \
        "CPUs here: $n"
    finish
    exit
fi
first() { # first N: the first N CPUs, as taskset takes them
    head -n "$1" "$work/cpus" | paste -sd, -
}

# placed BINARY CPUS: prints the CPUs of each rank's threads after all ranks
# have made a step: a line for each rank, with its threads in order of their
# CPUs.
placed() {
    : >"$work/out"
    taskset -c "$2" "$1" --steps 1000000000 >"$work/out" 2>&1 &
    run=$!
    for _ in $(seq 300); do
        grep -q '^step 1/' "$work/out" && break
        sleep 0.1
    done
    ranks=$(cat /proc/$run/task/*/children)
    for rank in ${ranks:-$run}; do
        for thread in /proc/"$rank"/task/*; do
            may_use "$thread/status"
        done | sort -n | paste -sd' ' -
    done | sort -n >"$work/placed"
    kill $run
    wait $run 2>/dev/null
    cat "$work/out" "$work/placed"
    grep -q '^step 1/' "$work/out"
}
are() { # are WANTED…: compares, with a word for each rank
    printf '%s\n' "$@" >"$work/wanted"
    echo "threads may use, and should:"
    cat "$work/placed" "$work/wanted"
    cmp "$work/placed" "$work/wanted"
}
unset OMP_PLACES OMP_PROC_BIND GOMP_CPU_AFFINITY KMP_AFFINITY

for row in "2x1 1" "1x1 2" "1x1 1" "2x2 1"; do
    # shellcheck disable=SC2086
    set -- $row
    check "$1 ranks of $2 compile" compile "$work/$1-$2" toy "$1" \
        --threads "$2"
done
two=$(first 2)
a=${two%,*} b=${two#*,}
both=$(taskset -c "$two" sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' \
    /proc/self/status)
check "2 ranks on 2 CPUs" placed "$work/2x1-1" "$two"
check "2 ranks on 2 CPUs have one CPU each" are "$a" "$b"
check "2 threads on 2 CPUs" placed "$work/1x1-2" "$two"
check "2 threads on 2 CPUs have one CPU each" are "$a $b"
check "4 ranks on 2 CPUs" placed "$work/2x2-1" "$two"
check "4 ranks on 2 CPUs are not pinned" are "$both" "$both" "$both" "$both"
check "1 rank on 2 CPUs" placed "$work/1x1-1" "$two"
check "1 rank on 2 CPUs is not pinned" are "$both"
OMP_PROC_BIND=false
export OMP_PROC_BIND
check "2 ranks that the user places" placed "$work/2x1-1" "$two"
check "ranks that the user places are not moved" are "$both" "$both"
unset OMP_PROC_BIND
if [ "$n" -lt 4 ]; then
    echo "skipped: 2 ranks of 2 threads; CPUs here: $n"
else
    four=$(first 4)
    head -n 4 "$work/cpus" >"$work/four"
    check "2x1 ranks of 2 compile" compile "$work/2x1-2" toy 2x1 --threads 2
    check "2 ranks of 2 threads" placed "$work/2x1-2" "$four"
    check "2 ranks of 2 threads have one CPU per thread" \
        sh -c "tr ' ' '\n' <'$work/placed' | sort -n |
        cmp - '$work/four'"
fi
finish
