#!/bin/sh
# handshake.sh: processes that do not belong to a job connect to its rank 0. They
# end no run and keep no rank out. Ranks that belong to the job but cannot take
# part are told the reason.
# clock: ranks are stopped by the clock
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2086
check "the program compiles" compile "$work/train" toy 2x2 --threads 1
check "a program of another plan compiles" \
    compile "$work/other" toy 2x2 --threads 1 -D batch=48
token=0123456789abcdef

# rank R COMMAND…: starts a rank as torchrun would.
host=127.0.0.1
rank() {
    as=$1
    shift
    env RANK="$as" WORLD_SIZE=4 LOCAL_RANK="$as" MASTER_ADDR=$host \
        MASTER_PORT="$port" TORCHELASTIC_RUN_ID=test "$@"
}
stranger() {
    (become_stranger "$@")
}
become_stranger() { # in the background: $! is the process
    exec env MASTER_PORT="$port" TORCHELASTIC_RUN_ID=test python3 \
        tests/tools/handshake.py "$port" "$@"
}
# job VARIABLE=VALUE…: starts rank 0, then the function `between`, then the
# other ranks. Returns the largest exit status; $work/err.R has the messages of
# rank R.
job() {
    port=$((port + 1))
    rm -f "$work"/err.* "$work"/rc.*
    { rank 0 env "$@" "$work/train" --steps 2 --data synthetic \
        2>"$work/err.0"; echo $? >"$work/rc.0"; } &
    between "$@" >"$work/stranger" 2>&1
    for r in 1 2 3; do
        # shellcheck disable=SC2086
        { rank $r env "$@" $own "$(program $r)" --steps 2 --data synthetic \
            2>"$work/err.$r"; echo $? >"$work/rc.$r"; } &
        ranks="${ranks-} $!"
    done
    # shellcheck disable=SC2086
    wait $ranks
    while [ ! -s "$work/rc.0" ]; do sleep 0.1; done
    ranks=
    cat "$work"/err.? "$work/stranger"
    return "$(sort -n "$work"/rc.* | tail -n 1)"
}
program() { echo "$work/train"; }
own= # variables of the ranks other than 0
between() { :; }
says() { # says FILE TEXT
    cat "$1"
    grep -qF -- "$2" "$1"
}
refuses() { says "$work/err.0" "note: rank 0 refused a process $1, from \
127.0.0.1, as rank"; }
gets() { says "$work/stranger" "$1"; }

check "a job without a token runs" job A=
check "a job with PARC_TOKEN runs" job PARC_TOKEN=$token
printf '%s\n' $token >"$work/token"
check "a job with PARC_TOKEN_FILE runs" job PARC_TOKEN_FILE="$work/token"

# ---- foreign processes ----
# Ten idle connections for each second until the limit.
between() {
    become_stranger idle 140 >"$work/idle" &
    idle=$!
    until [ -s "$work/idle" ]; do sleep 0.1; done
}
check "140 idle connections keep no rank out" job PARC_TIMEOUT=14
check "the idle connections stay open" kill "$idle"
between() { shift $#; stranger hello plan=1 rank=3; }
check "a forged rank of another plan ends no run" job A=
check "a forged rank of another plan is refused" gets "other plan"
check "a forged rank of another plan is reported" \
    refuses "built from another plan than rank 0"
between() { env "$@" true; stranger hello wrong-key plan=1 rank=3; }
check "a client without the token ends no run" job PARC_TOKEN=$token
check "a client without the token is refused" gets "other token"
check "a client without the token is reported" \
    refuses "with another token (PARC_TOKEN has to be the \
same for all ranks)"
between() { PARC_TOKEN=$token stranger hello replay rank=3; }
check "a recorded code ends no run" job PARC_TOKEN=$token
check "a recorded code is refused" gets "other token"
between() { PARC_TOKEN=$token stranger hello size=5; }
check "a client of another size ends no run" job PARC_TOKEN=$token
check "a client of another size is refused" gets "other size"
between() { PARC_TOKEN=$token stranger hello rank=4; }
check "a client with an impossible rank ends no run" job PARC_TOKEN=$token
check "a client with an impossible rank is refused" gets "no rank"
between() { stranger hello wrong-key 'host=\x1b[31mred'; }
check "a host name with an escape sequence ends no run" job A=
check "a host name is printed without its escape sequence" \
    says "$work/err.0" "as rank 1 on ??31mred"

# A rank that gave up waiting for the reply, and comes again.
check "the plan is emitted" \
    "$PARC" examples/toy.pdl --mesh 2x2 --threads 1 --target cpu \
    -S "$work/tree"
plan=$(sed -n 's/.*plan_hash = \(0x[0-9a-f]*\)u,.*/\1/p' "$work/tree/model.c")
between() { stranger hello "plan=$plan" rank=3; }
check "a rank that left and rejoins ends no run" job PARC_TIMEOUT=20
check "the rank that left had joined before" gets joined

# ---- names and limits ----
between() { :; }
check "the library that resolves names builds" \
    cc -shared -fPIC -o "$work/names.so" \
    tests/tools/host_names.c -ldl
names="LD_PRELOAD=$work/names.so ASAN_OPTIONS=verify_asan_link_order=0"
# Rank 0's own name is 127.0.1.1 on its machine alone, as in Debian.
host=node7
own=HOST_NAME=node7=127.0.0.1
# shellcheck disable=SC2086
check "a host name that is a loopback address for rank 0 alone" \
    job $names PARC_TIMEOUT=20 HOST_NAME=node7=127.0.1.1
if grep -q . /proc/net/if_inet6 2>/dev/null; then
    own=HOST_NAME=node7=::1
    # shellcheck disable=SC2086
    check "a host name of IPv4 for rank 0, of IPv6 for the others" \
        job $names PARC_TIMEOUT=20 HOST_NAME=node7=127.0.1.1
fi
own=
host=127.0.0.1
check "a job with a low limit of open files" job A= prlimit --nofile=8:
refused_by_limit() {
    rank 0 prlimit --nofile=20:20 "$work/train" --steps 1 2>"$work/err"
    [ $? = 1 ] && says "$work/err" "error: rank 0 has two connections to each \
of 4 ranks and needs 72 open files; 'ulimit -Hn' allows 20"
}
check "a limit of open files that is too low is reported" refused_by_limit

# ---- ranks that cannot take part ----
# With a token, rank 0 trusts a rank of another plan and ends the run.
between() { :; }
program() { if [ "$1" = 2 ]; then echo "$work/other"; else echo "$work/train"; fi; }
fails() { # fails COMMAND…: exit status 1
    "$@"
    [ $? = 1 ]
}
check "another plan, with a token: the run ends" fails job PARC_TOKEN=$token \
    PARC_TIMEOUT=60
check "another plan, with a token: rank 0 names the rank" \
    says "$work/err.0" "error: rank 2 on $(hostname) was built from \
another plan than rank 0: start the same program on all ranks"
check "another plan, with a token: the rank reports it" \
    says "$work/err.2" "error: rank 2 cannot join rank 0 at \
127.0.0.1:$port: rank 0 was built from another plan: start the same program on \
all ranks"
check "another plan, with a token: no other rank prints" test ! -s "$work/err.1"
# Without a token that rank reports it and ends; rank 0 waits until the limit.
check "another plan, without a token: the run times out" \
    fails job PARC_TIMEOUT=3
check "another plan, without a token: the rank reports it" \
    says "$work/err.2" "error: rank 2 cannot join rank 0 at \
127.0.0.1:$port: rank 0 was built from another plan"
check "another plan, without a token: rank 0 counts it" \
    refuses "built from another plan than rank 0"
check "another plan, without a token: the summary names it" \
    says "$work/err.0" "for 1 of 4 ranks; the first \
that did not join is rank 2; refused 1 connection built from another plan than \
rank 0, the last from 127.0.0.1, as rank 2 on "
# A rank with a different token.
odd_token() {
    port=$((port + 1))
    { rank 0 env "$@" PARC_TOKEN=$token PARC_TIMEOUT=3 "$work/train" \
        --steps 1 2>"$work/err.0"; echo $? >"$work/rc.0"; } &
    rank 1 env "$@" PARC_TOKEN=other-$token PARC_TIMEOUT=2 "$work/train" \
        --steps 1 \
        2>"$work/err.1"
    status=$?
    wait
    cat "$work/err.0" "$work/err.1"
    [ $status = 1 ] && [ "$(cat "$work/rc.0")" = 1 ]
}
check "a rank with another token: the run times out" odd_token A=
check "a rank with another token reports it" \
    says "$work/err.1" "error: rank 1 cannot join rank 0 at \
127.0.0.1:$port in time: rank 0 has another token: PARC_TOKEN or \
PARC_TOKEN_FILE has to be the same for all ranks"
check "a rank with another token is counted" \
    grep -qE "error: rank 0 waited 3 s at .* for 3 of 4 \
ranks; the first that did not join is rank 1; refused [0-9]+ connections? with \
another token" "$work/err.0"
# A name with a second address, without a listener: rank 0's answer counts.
host=localhost
# shellcheck disable=SC2086
check "another token, at the second of two addresses" odd_token $names \
    HOST_NAME=localhost=127.0.0.1,127.0.0.2
check "another token: the rank reports rank 0's answer" \
    says "$work/err.1" "in time: rank 0 has another \
token"
host=127.0.0.1
# A false rank 0 without the key cannot end a rank, and learns nothing.
false_root() {
    port=$((port + 1))
    become_stranger serve >"$work/read" 2>&1 &
    server=$!
    sleep 1
    rank 1 env PARC_TOKEN=$token PARC_TIMEOUT=2 "$work/train" --steps 1 \
        2>"$work/err.1"
    status=$?
    kill $server
    cat "$work/err.1"
    [ $status = 1 ] && grep -q "parcrank" "$work/read" &&
        ! grep -q $token "$work/read"
}
check "a false rank 0 cannot end a rank" false_root
check "a false rank 0's answer is not trusted" \
    says "$work/err.1" "in time: rank 0 has another token"

# ---- invalid tokens ----
bad() { # bad TEXT VARIABLE=VALUE…
    phrase=$1
    shift
    rank 1 env PARC_TIMEOUT=1 "$@" "$work/train" --steps 1 2>"$work/err"
    status=$?
    [ $status = 1 ] && says "$work/err" "error: $phrase"
}
check "a short token is refused" \
    bad "the token in PARC_TOKEN has 5 characters; it takes 16 \
to 4096" PARC_TOKEN=short
: >"$work/empty"
check "an empty token file is refused" \
    bad "the token in the file that PARC_TOKEN_FILE names has \
0 characters" PARC_TOKEN_FILE="$work/empty"
check "a missing token file is refused" \
    bad "cannot read '$work/none', which PARC_TOKEN_FILE names: No \
such file" PARC_TOKEN_FILE="$work/none"
check "two tokens are refused" \
    bad "PARC_TOKEN and PARC_TOKEN_FILE are both set" \
    PARC_TOKEN=$token PARC_TOKEN_FILE="$work/token"
finish
