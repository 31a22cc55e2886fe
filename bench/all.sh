#!/usr/bin/env bash
# All families, one after the other: in process, over Redis, server. Prints their tables and goals.
#
#   bench/all.sh [--quick] [--json DIR]
#
# --quick      short measurements: about a minute and a half after building
# --json DIR   also writes DIR/in-process.json, DIR/redis.json, DIR/server.json, and DIR/layer.txt by valgrind
set -euo pipefail
bench=$(cd "$(dirname "$0")" && pwd)
usage() { echo "usage: bench/all.sh [--quick] [--json DIR]" >&2; exit 2; }

flags=() directory=
while [ $# -gt 0 ]; do
  case $1 in
    --quick) flags+=(--quick) ;;
    --json) [ $# -gt 1 ] || usage; directory=$2; shift ;;
    *) usage ;;
  esac
  shift
done
[ -z "$directory" ] || mkdir -p "$directory"

# Everything first, so that no family is measured while another one is built.
cargo build --release --manifest-path "$bench/Cargo.toml" --bin in-process --bin redis
cargo build --release --manifest-path "$bench/server/Cargo.toml"

failed=() times=()
# family NAME CARGO-ARGUMENT...
family() {
  local name=$1 start=$SECONDS
  shift
  printf '\n# %s\n\n' "$name"
  cargo run --release --quiet "$@" -- "${flags[@]}" ${directory:+--json "$directory/$name.json"} || failed+=("$name")
  times+=("$name $((SECONDS - start)) s")
}
family in-process --manifest-path "$bench/Cargo.toml" --bin in-process
family redis --manifest-path "$bench/Cargo.toml" --bin redis
family server --manifest-path "$bench/server/Cargo.toml"
[ -z "$directory" ] || "$bench/instructions.sh" --layer >"$directory/layer.txt" || failed+=(layer)

printf '\n%s\n' "Took: $(IFS=,; echo "${times[*]}" | sed 's/,/, /g')."
[ ${#failed[@]} = 0 ] || { echo "bench/all.sh: failed: ${failed[*]}" >&2; exit 1; }
