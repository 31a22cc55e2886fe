#!/usr/bin/env bash
# How long a million lines of an access log take, and how much memory (at most 10 s and 300 MiB).
#
#   bench/replay.sh [LINES]
#
# The log is made up, the same every time: a day of requests by fifty thousand addresses, some much busier
# than others. The release build of the command line is measured, five times.
set -euo pipefail
cd "$(dirname "$0")/.."
lines=${1:-1000000}
[ -x /usr/bin/time ] || { echo "bench/replay.sh: GNU time is missing; install the package \`time\`" >&2; exit 1; }
cargo build --release --quiet --package waterclock-cli
waterclock=${CARGO_TARGET_DIR:-target}/release/waterclock
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

cat > "$place/waterclock.toml" <<'POLICY'
[policies.api]
limits = [
  { name = "burst", algorithm = "gcra", limit = 10, per = "1s", capacity = 20 },
  { name = "hourly", algorithm = "rolling-window", limit = 20_000, per = "1h", buckets = 60 },
]
POLICY
awk -v lines="$lines" 'BEGIN {
  srand(4)
  for (line = 0; line < lines; line++) {
    second = int(line * 86400 / lines)
    # The busiest ask for most: one over a power of a random number.
    key = int((1 - rand()) ^ (-1 / 0.55)); if (key > 50000) key = 50000
    printf "198.18.%d.%d - - [08/Nov/2026:%02d:%02d:%02d +0000] \"GET /items/%d HTTP/1.1\" 200 %d \"https://example.org/\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36\"\n",
      int(key / 256) % 256, key % 256, second / 3600, int(second / 60) % 60, second % 60, key % 97, 200 + key % 9000
  }
}' > "$place/access.log"
gzip --keep --fast "$place/access.log"

for file in access.log access.log.gz; do
  for _ in 1 2 3 4 5; do
    /usr/bin/time --format "%e %M" --append --output "$place/$file.times" \
      "$waterclock" replay -c "$place/waterclock.toml" --input combined "$place/$file" > "$place/report.txt"
  done
  sort -n "$place/$file.times" | awk -v file="$file" -v lines="$lines" '
    { seconds[NR] = $1; if ($2 > most) most = $2 }
    END { printf "%-14s %d lines: %.2f s (median of %d), %d MiB at most\n", file, lines, seconds[int((NR + 1) / 2)], NR, most / 1024 }'
done
head -4 "$place/report.txt"
