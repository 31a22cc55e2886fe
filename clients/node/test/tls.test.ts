import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { Waterclock } from '../src/resp/index.js';
import { WaterclockError } from '../src/error.js';
import { startServer, type Server } from './server.js';

const run = promisify(execFile);

let folder: string;
let certificate: string;
let server: Server;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waterclock-tls-'));
  certificate = join(folder, 'cert.pem');
  const key = join(folder, 'key.pem');
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  const options = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  await run('openssl', ['req', ...options, ...subject, '-keyout', key, '-out', certificate]);
  server = await startServer(`
    [server]
    tls = { cert = "${certificate}", key = "${key}" }
    [policies.demo]
    limits = ["5/m"]
  `);
});
after(async () => {
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

test('rediss:// with the certificate authority of the server', async () => {
  const ca = await readFile(certificate);
  const client = new Waterclock({ url: server.resp.replace('redis:', 'rediss:'), tls: { ca }, deadlineMs: 30_000 });
  try {
    assert.equal((await client.check('demo', 'alice')).remaining, 4);
    assert.equal((await client.wait('demo', 'alice', { withinMs: 0 })).remaining, 3);
  } finally {
    await client.close();
  }
});

test('rediss:// with a certificate that is not trusted is unavailable', async () => {
  const client = new Waterclock({ url: server.resp.replace('redis:', 'rediss:'), deadlineMs: 30_000 });
  try {
    await assert.rejects(client.check('demo', 'alice'), (error) => {
      return error instanceof WaterclockError && error.kind === 'unavailable' && /certificate/.test(error.message);
    });
  } finally {
    await client.close();
  }
});

test('https:// with a certificate authority from the environment', async () => {
  const program = `
    const { Waterclock } = await import(${JSON.stringify(new URL('../src/index.js', import.meta.url).href)});
    const client = new Waterclock({ url: ${JSON.stringify(server.http.replace('http:', 'https:'))}, deadlineMs: 30_000 });
    console.log((await client.check('demo', 'bob')).remaining);`;
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: certificate };
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program], { env });
  assert.equal(stdout.trim(), '4');
});
