#!/bin/sh
# Instructions per decision, by callgrind: the difference between two runs that differ only in how
# many decisions they make. 10 000 String keys, and one limiter without keys.
# Only TSC clocks are compared: callgrind cannot see into the kernel's clock.
set -eu
cd "$(dirname "$0")"
few=20000
many=120000

cargo build --release --quiet --bin one-check
program=${CARGO_TARGET_DIR:-target}/release/one-check

# instructions kind name decisions
instructions() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*measured*' \
        "$program" "$1" "$2" "$3" 2>&1 >/dev/null | sed -n 's/.*Collected : *//p'
}

# each kind name
each() {
    low=$(instructions "$1" "$2" $few)
    high=$(instructions "$1" "$2" $many)
    echo $(((high - low) / (many - few)))
}

# compare kind ours theirs [bound]
compare() {
    ours=$(each "$1" "$2")
    theirs=$(each "$1" "$3")
    echo "$1 $ours $theirs" | awk -v name="$2" -v bound="${4:-}" '{
        verdict = bound == "" ? "" : ($2 / $3 <= bound ? "met (<= " : "MISSED (<= ") bound ")"
        printf "%-7s %-30s %5d   governor %5d   ratio %.2f   %s\n", $1, name, $2, $3, $2 / $3, verdict
    }'
}

compare keyed "waterclock (tsc)" "governor (quanta)" 0.35
compare keyed "waterclock, batch of 16 (tsc)" "governor (quanta)"
compare direct "waterclock (tsc)" "governor (quanta)"
compare direct "waterclock (cached clock)" "governor (quanta)"
