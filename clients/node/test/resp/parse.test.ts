import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ErrorReply, Parser, ProtocolError } from '../../src/resp/parse.js';

const bytes = '+OK\r\n:-42\r\n$5\r\nzw\u00f6l\r\n$-1\r\n*3\r\n:1\r\n$0\r\n\r\n*1\r\n+in\r\n-ERR no\r\n*-1\r\n*0\r\n';
const replies = ['OK', -42, 'zw\u00f6l', null, [1, '', ['in']], new ErrorReply('ERR no'), null, []];

test('replies are read however the bytes are cut', () => {
  const whole = Buffer.from(bytes);
  for (let size = 1; size <= whole.length; size += 1) {
    const parser = new Parser();
    const read = [];
    for (let at = 0; at < whole.length; at += size) read.push(...parser.push(whole.subarray(at, at + size)));
    assert.deepEqual(read, replies, `in pieces of ${size} bytes`);
  }
});

const numbers = [':12x\r\n', ':0x10\r\n', ': 1\r\n', '$\r\n', '$-2\r\n', '*-2\r\n'];
const ends = ['\r\n', '+OK\n', '$2\r\nOK\n\n', '$1\r\nOK\r\n'];
for (const wrong of ['HTTP/1.1 400 Bad Request\r\n', '*1\r\n'.repeat(9), ...numbers, ...ends]) {
  test(`${JSON.stringify(wrong)} is not the protocol`, () => {
    assert.throws(() => [...new Parser().push(Buffer.from(wrong))], ProtocolError);
  });
}
