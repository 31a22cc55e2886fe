import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WaterclockError } from '../../src/error.js';
import { readAddress } from '../../src/resp/address.js';

test('addresses', () => {
  const plain = { host: '127.0.0.1', port: 6380, tls: false, token: undefined, shown: 'redis://127.0.0.1:6380' };
  assert.deepEqual(readAddress('redis://127.0.0.1'), plain);
  assert.deepEqual(readAddress('redis://127.0.0.1:6380/0'), plain);
  assert.deepEqual(readAddress('rediss://:s%2Fcret@limits.example:7000'), {
    host: 'limits.example',
    port: 7000,
    tls: true,
    token: 's/cret',
    shown: 'rediss://limits.example:7000',
  });
  assert.equal(readAddress('redis://[::1]:1').host, '::1');
});

for (const wrong of ['', '127.0.0.1:6380', 'http://127.0.0.1:8080', 'memcached://x', 'redis://', 'redis://:%@host']) {
  test(`"${wrong}" is no address`, () => {
    assert.throws(() => readAddress(wrong), (error) => error instanceof WaterclockError && error.kind === 'invalid');
  });
}
