import assert from 'node:assert/strict';

/**
 * Compares times of two limiters that were asked one after the other: they differ by no more than the time that has
 * passed since the comparison began.
 */
export class Stopwatch {
  readonly #start = performance.now();

  assertSameTime(ours: number, theirs: number, what: string): void {
    const passed = performance.now() - this.#start + 2;
    assert.ok(Math.abs(ours - theirs) <= passed, `${what}: ${ours} differs from ${theirs} by more than ${passed} ms`);
  }
}
