"""Lemmas about the arithmetic of decisions, checked by an SMT solver.

Each lemma states what is proven, what is assumed, and for which numbers: "all integers" where the solver reasons about
integers without a bound, else the width in bits up to which every case is covered. A planted mistake follows each lemma:
the solver must find a counterexample to it, so that a lemma that holds for the wrong reason is noticed.

    scripts/lemmas            all of them
    scripts/lemmas muldiv     those whose name contains a word
"""

import sys
import time

from z3 import (
    FP, RNE, And, BitVec, BitVecVal, FPSort, FPVal, If, Implies, Int, Not, Or, Real, Solver, UDiv, UGE, UGT, ULE, ULT, URem,
    fpEQ, fpFPToFP, fpGEQ, fpIsInf, fpIsNaN, fpLT, fpMul, fpRoundToIntegral, sat, unsat,
)

LEMMAS = []


def lemma(name, scope, assumes="nothing"):
    """Registers a lemma: a function that gives its assumptions and its claim, with or without the planted mistake."""

    def register(function):
        LEMMAS.append((name, scope, assumes, function))
        return function

    return register


# --- muldiv: a·b/c in Lua's doubles, crates/waterclock-redis/src/script/muldiv.lua -------------------------------------


@lemma(
    "muldiv: a step of the loop keeps quotient·c + rest = (bits seen)·b, and no intermediate leaves 0..2c",
    "all integers",
)
def muldiv_step(mistake=False):
    a, b, c, q, rest, bit = (Int(name) for name in ("a", "b", "c", "q", "rest", "bit"))
    given = [0 < c, 0 <= b, b <= c, 0 <= rest, rest < c, 0 <= q, 0 <= a, Or(bit == 0, bit == 1), q * c + rest == a * b]
    # Doubling. The script compares `rest >= c - rest`, so that nothing above c is ever computed.
    over = rest >= c - rest if not mistake else rest > c - rest
    q1, rest1 = If(over, 2 * q + 1, 2 * q), If(over, rest - (c - rest), rest + rest)
    # Adding b, where the next bit of a is set.
    carry = And(bit == 1, rest1 >= c - b)
    q2 = If(carry, q1 + 1, q1)
    rest2 = If(bit == 0, rest1, If(carry, rest1 - (c - b), rest1 + b))
    product = If(over, 2 * q * c + c, 2 * q * c)
    product = If(carry, product + c, product)
    holds = And(0 <= rest1, rest1 < c, 0 <= rest2, rest2 < c, product + rest2 == 2 * a * b + bit * b)
    return given, holds


@lemma("muldiv: the whole loop is exact, and the quotient is at most a", "every a, b, c of 4 bits")
def muldiv_whole(mistake=False):
    width = 4
    wide = 2 * width + 2
    a, b, c = (BitVec(name, wide) for name in ("a", "b", "c"))
    top = 1 << width
    given = [ULT(a, top), UGT(c, 0), ULT(c, top), ULE(b, c)]
    q, rest = BitVecVal(0, wide), BitVecVal(0, wide)
    for place in reversed(range(width)):
        over = UGE(rest, c - rest)
        q, rest = If(over, q + q + 1, q + q), If(over, rest - (c - rest), rest + rest)
        is_set = (a >> place) & 1 == 1
        carry = And(is_set, UGT(rest, c - b) if mistake else UGE(rest, c - b))
        q, rest = If(carry, q + 1, q), If(is_set, If(carry, rest - (c - b), rest + b), rest)
    return given, And(q == UDiv(a * b, c), rest == URem(a * b, c), ULE(q, a))


@lemma(
    "muldiv: a rounded product below 2^p is the exact product, so the short way is taken only where it is exact",
    "every a, b below 2^6 with a significand of p = 6 bits",
    "doubles round to nearest, ties to even; fmod of exact integers is exact",
)
def muldiv_short(mistake=False):
    small, large = FPSort(6, 6), FPSort(6, 14)
    a, b = FP("a", small), FP("b", small)
    top = FPVal(64.0, small)

    def is_integer(x):
        return And(Not(fpIsNaN(x)), Not(fpIsInf(x)), fpEQ(fpRoundToIntegral(RNE(), x), x), fpGEQ(x, FPVal(0, small)))

    given = [is_integer(a), is_integer(b), fpLT(a, top), fpLT(b, top)]
    rounded = fpMul(RNE(), a, b)
    exact = fpMul(RNE(), fpFPToFP(RNE(), a, large), fpFPToFP(RNE(), b, large))
    limit = FPVal(256.0, small) if mistake else top
    return given, Implies(fpLT(rounded, limit), fpEQ(fpFPToFP(RNE(), rounded, large), exact))


# --- gcra: instants as (whole, part of den), crates/waterclock-redis/src/script/gcra.lua -------------------------------


@lemma("gcra: the time of n units, (whole, part), is n·step/den exactly, with 0 ≤ part < den", "all integers",
       "muldiv is exact (above)")
def gcra_span(mistake=False):
    n, step, den, over, quotient, rest, whole_steps = (
        Int(name) for name in ("n", "step", "den", "over", "quotient", "rest", "whole_steps"))
    given = [n >= 0, step > 0, den > 0, 0 <= over, over < den, step == whole_steps * den + over,
             0 <= rest, rest < den, quotient * den + rest == n * over,
             # Products of three that the solver need not find by itself.
             n * step == n * whole_steps * den + n * over]
    whole = n * whole_steps + quotient
    if mistake:
        whole = n * whole_steps
    scaled = n * whole_steps * den + (whole - n * whole_steps) * den
    return given, And(0 <= rest, rest < den, scaled + rest == n * step)


@lemma("gcra: adding a span carries the remainder: the instant grows by exactly that, and 0 ≤ part < den", "all integers")
def gcra_add(mistake=False):
    full, part, den, whole, rest = (Int(name) for name in ("full", "part", "den", "whole", "rest"))
    given = [den > 0, 0 <= part, part < den, 0 <= rest, rest < den, full >= 0, whole >= 0]
    carries = part >= den - rest if not mistake else part > den - rest
    new_full = full + whole + If(carries, 1, 0)
    new_part = If(carries, part - (den - rest), part + rest)
    grown = (new_full - full - whole) * den + new_part
    return given, And(0 <= new_part, new_part < den, grown == part + rest)


@lemma("gcra: taking a span off borrows the remainder the same way", "all integers")
def gcra_lighten(mistake=False):
    part, den, rest = (Int(name) for name in ("part", "den", "rest"))
    given = [den > 0, 0 <= part, part < den, 0 <= rest, rest < den]
    borrows = part - rest < 0
    new_part = If(borrows, part - rest + den, part - rest)
    borrowed = If(borrows, 0 if mistake else 1, 0)
    return given, And(0 <= new_part, new_part < den, new_part - borrowed * den == part - rest)


@lemma("gcra: the units that fit a time are the largest n with n·step/den ≤ whole + part/den",
       "every whole, part, step, den of 4 bits")
def gcra_units(mistake=False):
    wide = 12
    whole, part, step, den = (BitVec(name, wide) for name in ("whole", "part", "step", "den"))
    given = [ULT(whole, 16), UGT(step, 0), ULT(step, 16), UGT(den, 0), ULT(den, 16), ULT(part, den)]
    over = URem(whole, step)
    n, rest = UDiv(den * over, step), URem(den * over, step)
    tail = URem(part, step)
    n = n + UDiv(whole, step) * den + UDiv(part, step)
    carries = UGE(rest, step - tail) if not mistake else UGT(rest, step - tail)
    n = If(carries, n + 1, n)
    total = whole * den + part
    return given, And(ULE(n * step, total), UGT((n + 1) * step, total))


# --- sliding window: crates/waterclock-core/src/algorithm/sliding_window.rs ---------------------------------------------


def sliding(width=4):
    wide = 2 * width + 4
    names = ("per", "limit", "previous", "current", "left", "n")
    per, limit, previous, current, left, n = (BitVec(name, wide) for name in names)
    top = 1 << width
    given = [UGT(per, 0), ULT(per, top), UGT(limit, 0), ULT(limit, top), ULT(previous, top), ULT(current, top),
             UGT(left, 0), ULE(left, per), UGT(n, 0), ULT(n, top)]
    return given, per, limit, previous, current, left, n


def sliding_admits(per, limit, previous, current, left, n):
    return ULE(previous * left + (current + n) * per, limit * per)


def up(a, b):
    return UDiv(a + b - 1, b)


@lemma("sliding window: n is admitted if and only if n ≤ limit − current − ⌈previous·left/per⌉, which is `remaining`",
       "every number of 4 bits")
def sliding_remaining(mistake=False):
    given, per, limit, previous, current, left, n = sliding()
    before = UDiv(previous * left, per) if mistake else up(previous * left, per)
    return given, sliding_admits(per, limit, previous, current, left, n) == ULE(before + current + n, limit)


@lemma("sliding window: a refused cost is admitted after the advised wait, and not one tick earlier",
       "every number of 3 bits, also counts above the limit (debits)", "nothing is charged meanwhile")
def sliding_wait(mistake=False):
    given, per, limit, previous, current, left, n = sliding(width=3)
    given = given + [ULE(n, limit)]

    def left_for(room, before):
        # `mistake`: rounded up, so that it waits too little.
        divided = up(room * per, before) if mistake else UDiv(room * per, before)
        return If(UGE(room, before), per, divided)

    fits_now = ULE(current, limit - n)
    wanted = left_for(limit - n - current, previous)
    early = If(UGT(left, wanted), left - wanted, 0)
    late = left + per - left_for(limit - n, current)
    wait = If(fits_now, early, late)

    def admitted_after(wait):
        # In this window, in the next, whose previous count is `current`, or beyond both.
        here = sliding_admits(per, limit, previous, current, left - wait, n)
        next_ = sliding_admits(per, limit, current, 0, left + per - wait, n)
        return If(ULT(wait, left), here, If(ULT(wait, left + per), next_, ULE(n, limit)))

    is_tight = Or(wait == 0, Not(admitted_after(wait - 1)))
    return given, And(admitted_after(wait), is_tight)


# --- The published bounds, for histories of a few admissions -----------------------------------------------------------


@lemma("gcra: any 4 admissions in a window of length D cost at most capacity + rate·D", "all reals (times and costs in units of T)")
def gcra_bound(mistake=False):
    capacity, start, length, debt0 = (Real(name) for name in ("capacity", "start", "length", "debt0"))
    times = [Real(f"t{i}") for i in range(4)]
    costs = [Real(f"n{i}") for i in range(4)]
    given = [capacity > 0, debt0 >= 0, length >= 0, start >= 0]
    debt, at, total = debt0, start, 0
    for t, n in zip(times, costs):
        given += [at <= t, t < start + length, n >= 0]
        waited = If(debt - (t - at) > 0, debt - (t - at), 0)
        given += [waited + n <= capacity + (1 if mistake else 0)]
        debt, at, total = waited + n, t, total + n
    return given, total <= capacity + length


@lemma("leaky bucket: any 3 admissions in a window of length D cost at most capacity + drip·⌈D/every⌉",
       "every number of 3 bits")
def leaky_bound(mistake=False):
    wide = 8
    capacity, drip, every, level, anchor, start, length = (
        BitVec(name, wide) for name in ("capacity", "drip", "every", "level", "anchor", "start", "length"))
    given = [UGT(x, 0) for x in (capacity, drip, every, length)] + [ULT(x, 8) for x in (
        capacity, drip, every, level, anchor, start, length)]
    given += [ULE(level, capacity), ULE(anchor, start), Implies(level == 0, anchor == start)]
    total = BitVecVal(0, wide)
    now = start
    for i in range(3):
        t, n = BitVec(f"t{i}", wide), BitVec(f"n{i}", wide)
        given += [ULE(now, t), ULT(t, start + length), ULT(n, 8)]
        drips = UDiv(t - anchor, every)
        gone = drips * drip
        left = If(UGT(level, gone), level - gone, 0)
        # `mistake`: the anchor stays, so that the same drips count again.
        anchor = anchor if mistake else If(left == 0, t, anchor + drips * every)
        given += [ULE(left + n, capacity)]
        level, now, total = left + n, t, total + n
    return given, ULE(total, capacity + drip * up(length, every))


@lemma("sliding window: what a window of length D ≤ per admits is below 2·limit", "every number of 3 bits, 2 + 2 admissions")
def sliding_bound(mistake=False):
    wide = 12
    per, limit, previous, start, length = (BitVec(name, wide) for name in ("per", "limit", "previous", "start", "length"))
    given = [UGT(per, 0), ULT(per, 8), UGT(limit, 0), ULT(limit, 8), ULT(previous, 8), ULT(start, per), UGT(length, 0),
             ULE(length, per)]
    # Two windows, [0, per) and [per, 2·per): two admissions in each, the first pair not before `start`.
    counts = [BitVecVal(0, wide), BitVecVal(0, wide)]
    total, now = BitVecVal(0, wide), start
    for i in range(4):
        t, n = BitVec(f"t{i}", wide), BitVec(f"n{i}", wide)
        window = 0 if i < 2 else 1
        given += [ULE(now, t), ULT(t, start + length), ULT(n, 8), UGE(t, window * per), ULT(t, (window + 1) * per)]
        # `mistake`: the previous window is forgotten at the edge.
        before = previous if window == 0 else BitVecVal(0, wide) if mistake else counts[0]
        left = (window + 1) * per - t
        given += [Implies(n != 0, sliding_admits(per, limit, before, counts[window], left, n))]
        counts[window] = counts[window] + n
        total, now = total + n, t
    return given, ULT(total, 2 * limit)


@lemma("quota: what a window of length D ≤ per admits is at most limit + ⌈limit·D/per⌉", "every number of 4 bits, 2 + 2 admissions")
def quota_bound(mistake=False):
    wide = 12
    per, limit, start, length, spent0 = (BitVec(name, wide) for name in ("per", "limit", "start", "length", "spent0"))
    given = [UGT(per, 0), ULT(per, 16), UGT(limit, 0), ULT(limit, 16), ULT(start, per), UGT(length, 0), ULE(length, per),
             ULE(spent0, limit)]
    spent = [spent0, BitVecVal(0, wide)]
    total, now = BitVecVal(0, wide), start
    for i in range(4):
        t, n = BitVec(f"t{i}", wide), BitVec(f"n{i}", wide)
        window = 0 if i < 2 else 1
        given += [ULE(now, t), ULT(t, start + length), ULT(n, 16), UGE(t, window * per), ULT(t, (window + 1) * per)]
        floor = BitVecVal(0, wide) if mistake else UDiv(limit * (t - window * per), per)
        used = If(UGT(spent[window], floor), spent[window], floor)
        given += [Implies(n != 0, ULE(used + n, limit))]
        spent[window] = If(n == 0, spent[window], used + n)
        total, now = total + n, t
    return given, ULE(total, limit + up(limit * length, per))


def check(function, mistake):
    given, claim = function(mistake=mistake)
    solver = Solver()
    solver.set("timeout", 300_000)
    solver.add(*given)
    # Assumptions that contradict each other would prove anything.
    if not mistake and solver.check() != sat:
        return "its assumptions cannot be met", None
    solver.add(Not(claim))
    answer = solver.check()
    if answer == unsat:
        return "holds", None
    if answer == sat:
        return "fails", solver.model()
    return f"not decided ({solver.reason_unknown()})", None


def main(words):
    chosen = [row for row in LEMMAS if all(word in row[0] for word in words)]
    passed = failed = 0
    for name, scope, assumes, function in chosen:
        start = time.monotonic()
        says, example = check(function, mistake=False)
        planted, _ = check(function, mistake=True)
        is_good = says == "holds" and planted == "fails"
        passed, failed = passed + is_good, failed + (not is_good)
        print(f"{'ok ' if is_good else 'NOT'} {name}\n    for {scope}; assumes {assumes}; {time.monotonic() - start:.1f} s", flush=True)
        if says != "holds":
            print(f"    {says}: {example}")
        if planted != "fails":
            print(f"    the planted mistake is not noticed: {planted}")
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and chosen else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
