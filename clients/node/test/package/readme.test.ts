import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { unusedPort } from '../impostor.js';
import { startDemonstration, startServer, type Server } from '../server.js';
import { installPackage, PACKAGE, type Project } from './install.js';

const TOKEN = 'token-of-the-readme-tests';
const readme = readFileSync(join(PACKAGE, 'README.md'), 'utf8');
const blocks = [...readme.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language, code]) => ({
  language: language!,
  code: code!,
}));
const programs = blocks.filter(({ language }) => language === 'js' || language === 'ts');

let project: Project;
let demonstration: Server;
let configured: Server;
before(async () => {
  project = await installPackage();
  const configuration = blocks.find(({ language }) => language === 'toml')!.code;
  demonstration = await startDemonstration();
  configured = await startServer(configuration, { WATERCLOCK_TOKEN: TOKEN });
});
after(async () => {
  await Promise.all([demonstration.stop(), configured.stop(), project.remove()]);
});

test('the README has programs and nothing else that would have to be run', () => {
  assert.ok(programs.length >= 10);
  const languages = new Set(blocks.map(({ language }) => language));
  assert.deepEqual([...languages].sort(), ['js', 'toml', 'ts']);
});

test('links of the README lead somewhere', () => {
  const links = [...readme.matchAll(/\]\(([^)#]+)[^)]*\)/g)].map(([, path]) => path!);
  assert.ok(links.length > 5);
  for (const path of links) assert.ok(existsSync(join(PACKAGE, path)), path);
});

programs.forEach(({ language, code }, index) => {
  test(`README, program ${index + 1}: ${code.trim().split('\n').at(-1)}`, async () => {
    const port = await unusedPort();
    const file = await prepare(`readme-${index}`, language, code, port);
    if (/\blisten\(|\bserve\(/.test(code)) await expectLimited(file, port);
    else await expectPrinted(file, code);
  });
});

/** Writes a program with the addresses of this test, and compiles it if need be. */
async function prepare(name: string, language: string, code: string, port: number): Promise<string> {
  // Programs that have a token use the README's configuration, the others the demonstration.
  const server = code.includes('WATERCLOCK_TOKEN') ? configured : demonstration;
  const program = code
    .replaceAll('http://127.0.0.1:8080', server.http)
    .replaceAll('redis://127.0.0.1:6380', server.resp)
    .replaceAll('3000', String(port));
  const file = join(project.folder, `${name}.${language}`);
  await writeFile(file, program);
  if (language === 'ts') {
    const options = ['--module', 'nodenext', '--target', 'es2022', '--strict', '--skipLibCheck', '--types', 'node'];
    await project.tsc(...options, '--experimentalDecorators', file);
  }
  return file.replace(/ts$/, 'js');
}

function start(file: string) {
  return spawn(process.execPath, [file], {
    cwd: project.folder,
    env: { ...process.env, WATERCLOCK_TOKEN: TOKEN },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

/** Runs a program to its end; it prints what its comments say. */
async function expectPrinted(file: string, code: string): Promise<void> {
  const child = start(file);
  let printed = '';
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()));
  const [status] = (await once(child, 'close')) as [number | null];
  assert.equal(status, 0);
  const expected = [...code.matchAll(/\/\/ prints: (.*)$/gm)].map(([, line]) => line);
  assert.ok(expected.length > 0, 'the program says what it prints');
  assert.deepEqual(printed.trim().split('\n'), expected);
}

/** Runs a web server, which answers with the header fields of the policy `api`. */
async function expectLimited(file: string, port: number): Promise<void> {
  const child = start(file);
  const exited = once(child, 'exit');
  try {
    const response = await Promise.race([
      firstAnswer(`http://127.0.0.1:${port}/`),
      exited.then(() => assert.fail('the web server ended')),
    ]);
    assert.equal(response.status, 200);
    assert.match(response.headers.get('ratelimit-policy') ?? '', /^"api\.gcra";q=100/);
  } finally {
    child.kill('SIGKILL');
    await exited;
  }
}

async function firstAnswer(url: string): Promise<Response> {
  for (;;) {
    try {
      return await fetch(url, { headers: { connection: 'close' } });
    } catch {
      // It does not listen yet.
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
