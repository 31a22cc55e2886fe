#!/bin/sh
# Instructions per decision, by callgrind: the difference between two runs that differ only in how
# many decisions they make. Needs valgrind.
#
#   bench/instructions.sh            against governor: 10 000 String keys, and one limiter without keys
#   bench/instructions.sh --check    against bench/gate/figures; fails where one differs by more than 2 %
#   bench/instructions.sh --update   writes bench/gate/figures
#   bench/instructions.sh --layer    what the tower layer adds to a request, with its allocations
#
# Only clocks that read the counter are compared: callgrind cannot see into the kernel's clock. How often ours is set by
# the system's depends on the speed of the machine, so that is left out: once in half a millisecond.
set -eu
cd "$(dirname "$0")"

# instructions program argument...
instructions() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*measured*' \
        --toggle-collect='*Guard*set_again*' "$@" 2>&1 >/dev/null | sed -n 's/.*Collected : *//p'
}

# each few many program argument...: what $count counts for each decision; the last argument is how many decisions
count=instructions
each() {
    few=$1 many=$2
    shift 2
    low=$("$count" "$@" "$few")
    high=$("$count" "$@" "$many")
    if [ -z "$low" ] || [ -z "$high" ]; then
        echo "bench/instructions.sh: valgrind counted nothing; is it installed?" >&2
        exit 1
    fi
    echo $(((high - low + (many - few) / 2) / (many - few)))
}

# allocations program kind requests
allocations() {
    valgrind --tool=memcheck --leak-check=no --undef-value-errors=no \
        "$@" 2>&1 >/dev/null | sed -n 's/.*usage: *\([0-9,]*\) allocs.*/\1/p' | tr -d ,
}

# Waterclock alone.
build_gate() {
    cargo build --release --quiet --locked --manifest-path gate/Cargo.toml
    programs=${CARGO_TARGET_DIR:-gate/target}/release
}

# The figures of Waterclock alone.
gate() {
    build_gate
    for kind in direct keyed batch three quota leaky rolling; do
        echo "$kind $(each 20000 60000 "$programs/one-decision" $kind)"
    done
    # The tower layer: what it adds to a service.
    bare=$(each 20000 60000 "$programs/one-request" bare)
    echo "layer $(($(each 20000 60000 "$programs/one-request" header) - bare))"
}

case "${1:-}" in
"") ;;
--check)
    # Another compiler makes other code, and without a counter that the kernel trusts the default clock is another one.
    if [ "# $(rustc --version)" != "$(head -n 1 gate/figures)" ]; then
        echo "not compared: gate/figures are of $(sed -n 's/^# //p' gate/figures), this is $(rustc --version)"
        exit
    elif [ "$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource 2>/dev/null)" != tsc ]; then
        echo "not compared: the kernel of this machine does not keep time by the time stamp counter"
        exit
    fi
    measured=$(gate)
    echo "$measured" | awk '
        NR == FNR { if ($1 != "#") figure[$1] = $2; next }
        {
            known = figure[$1]; change = known ? 100 * ($2 - known) / known : 100
            fails = change > 2 || change < -2
            failed += fails
            printf "%-7s %5d instructions   figure %5d   %+.1f %%   %s\n", $1, $2, known, change, fails ? "FAILED" : "ok"
        }
        END { exit failed > 0 }
    ' gate/figures - || {
        echo "Instructions differ from bench/gate/figures by more than 2 %. If that is intended, run" \
            "bench/instructions.sh --update and say why in the commit." >&2
        exit 1
    }
    exit
    ;;
--update)
    measured=$(gate)
    { echo "# $(rustc --version)" && echo "$measured"; } >gate/figures
    cat gate/figures
    exit
    ;;
--layer)
    build_gate
    bare_instructions=$(each 20000 60000 "$programs/one-request" bare)
    bare_allocations=$(count=allocations each 20000 60000 "$programs/one-request" bare)
    for kind in routes header ipv4 ipv6; do
        more=$(($(each 20000 60000 "$programs/one-request" $kind) - bare_instructions))
        allocated=$(($(count=allocations each 20000 60000 "$programs/one-request" $kind) - bare_allocations))
        printf '%-8s %6d instructions   %3d allocations\n' $kind $more $allocated
    done
    exit
    ;;
*)
    echo "usage: bench/instructions.sh [--check | --update | --layer]" >&2
    exit 2
    ;;
esac

cargo build --release --quiet --bin one-check
program=${CARGO_TARGET_DIR:-target}/release/one-check

# compare kind ours theirs [bound]
compare() {
    ours=$(each 20000 120000 "$program" "$1" "$2")
    theirs=$(each 20000 120000 "$program" "$1" "$3")
    echo "$1 $ours $theirs" | awk -v name="$2" -v bound="${4:-}" '{
        verdict = bound == "" ? "" : ($2 / $3 <= bound ? "met (<= " : "MISSED (<= ") bound ")"
        printf "%-7s %-30s %5d   governor %5d   ratio %.2f   %s\n", $1, name, $2, $3, $2 / $3, verdict
    }'
}

compare keyed "waterclock (default)" "governor (quanta)" 0.40
compare keyed "waterclock, batch of 16" "governor (quanta)"
compare direct "waterclock (default)" "governor (quanta)"
compare direct "waterclock (cached clock)" "governor (quanta)"
