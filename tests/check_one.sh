#!/bin/sh
# check_one.sh [cpu:]TEST: runs one test for check.sh and prints its result as a
# line; with cpu: for the level $CPU_LEVEL. The counts of the test's last line
# are written to $COUNTS/NAME.counts.
set -u
test=${1#cpu:}
name=$(basename "$test")
if [ "$test" != "$1" ]; then
    name=$name.cpu
    export CHECK_CPU="$CPU_LEVEL" DNNL_MAX_CPU_ISA=AVX2
fi
log=$COUNTS/$name.log
start=$(date +%s)
case $test in
*.sh) sh "$test" >"$log" 2>&1 ;;
*) "$test" >"$log" 2>&1 ;;
esac
status=$?
times >"$COUNTS/$name.times" # the second line is for children: "1m2.3s 0m4.5s"
cpu=$(awk -F'[ms ]+' 'NR == 2 { printf "%.0f", 60 * ($1 + $3) + $2 + $4 }' \
    "$COUNTS/$name.times")
counts=$(sed -n 's/^\([0-9][0-9]* passed, [0-9][0-9]* failed\).*/\1/p' "$log" |
    tail -n 1)
passed=${counts%% *}
failed=${counts#*, } failed=${failed%% *}
if [ -z "$counts" ] || { [ "$status" != 0 ] && [ "$failed" = 0 ]; }; then
    passed=${passed:-0} failed=1
fi
echo "$passed $failed" >"$COUNTS/$name.counts"
{
    printf '  %-34s %5d passed %3d failed  %3ds, %3ds of CPU\n' "$name" "$passed" \
        "$failed" $(($(date +%s) - start)) "$cpu"
    [ "$failed" = 0 ] || tail -n 60 "$log"
} >"$COUNTS/$name.said"
cat "$COUNTS/$name.said"
rm -f "$log" "$COUNTS/$name.said" "$COUNTS/$name.times"
exit 0
