import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { unusedPort } from '../impostor.js';
import { startDemonstration, startServer, type Server } from '../server.js';
import { installPackage, PACKAGE, type Project } from './install.js';

const run = promisify(execFile);
const TOKEN = 'token-of-the-readme-tests';
const readme = readFileSync(join(PACKAGE, 'README.md'), 'utf8');
const blocks = [...readme.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language, code]) => ({
  language: language!,
  code: code!,
}));
const programs = blocks.filter(({ language }) => language === 'js' || language === 'ts');

const configuration = blocks.find(({ language }) => language === 'toml')!.code;

let project: Project;
before(async () => {
  project = await installPackage();
});
after(() => project.remove());

test('the README has programs, and no block that is not tested', () => {
  assert.ok(programs.length >= 10);
  const languages = new Set(blocks.map(({ language }) => language));
  assert.deepEqual([...languages].sort(), ['console', 'js', 'toml', 'ts']);
});

test('links of the README lead somewhere', () => {
  const links = [...readme.matchAll(/\]\(([^)#]+)[^)]*\)/g)].map(([, path]) => path!);
  assert.ok(links.length > 5);
  for (const path of links) assert.ok(existsSync(join(PACKAGE, path)), path);
});

programs.forEach(({ language, code }, index) => {
  test(`README, program ${index + 1}: ${code.trim().split('\n').at(-1)}`, async () => {
    const port = await unusedPort();
    const server = await serverFor(code);
    try {
      const file = await prepare(`readme-${index}`, language, code, server, port);
      if (isWebServer(code)) await expectLimited(file, port, sessionAfter(code));
      else await expectPrinted(file, code);
    } finally {
      await server.stop();
    }
  });
});

test('every session of the README belongs to a web server', () => {
  const sessions = blocks.filter(({ language }) => language === 'console');
  const behindWebServers = programs.filter(({ code }) => isWebServer(code)).map(({ code }) => sessionAfter(code));
  assert.ok(sessions.length > 0);
  assert.deepEqual(behindWebServers.filter((session) => session !== undefined), sessions.map(({ code }) => code));
});

function isWebServer(code: string): boolean {
  return /\blisten\(|\bserve\(/.test(code);
}

/** The session in a terminal that stands right behind a program, if there is one. */
function sessionAfter(code: string): string | undefined {
  const next = blocks[blocks.findIndex((block) => block.code === code) + 1];
  return next?.language === 'console' ? next.code : undefined;
}

/** A fresh server. Programs that have a token use the README's configuration, the others the demonstration. */
function serverFor(code: string): Promise<Server> {
  if (!code.includes('WATERCLOCK_TOKEN')) return startDemonstration();
  return startServer(configuration, { WATERCLOCK_TOKEN: TOKEN });
}

/** Writes a program with the addresses of this test, and compiles it if need be. */
async function prepare(name: string, language: string, code: string, server: Server, port: number): Promise<string> {
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

/** Runs a web server, which answers with the header fields of the policy `api`, and the session behind it. */
async function expectLimited(file: string, port: number, session: string | undefined): Promise<void> {
  const child = start(file);
  const exited = once(child, 'exit');
  try {
    const response = await Promise.race([
      firstAnswer(`http://127.0.0.1:${port}/`),
      exited.then(() => assert.fail('the web server ended')),
    ]);
    assert.equal(response.status, 200);
    assert.match(response.headers.get('ratelimit-policy') ?? '', /^"api\.gcra";q=5/);
    if (session !== undefined) await expectRefusal(session.replaceAll('3000', String(port)));
  } finally {
    child.kill('SIGKILL');
    await exited;
  }
}

/** Repeats the command of a session until it prints the refusal that the session shows; `…` stands for other lines. */
async function expectRefusal(session: string): Promise<void> {
  const [command, status, ...others] = session.trim().split('\n');
  const shown = [status!, ...others].filter((line) => line !== '…').map(withoutTimes);
  let printed: string[] = [];
  // On a busy machine units may come back in between, one every 12 s.
  for (let call = 1; call <= 50 && !printed.includes(status!); call += 1) {
    const { stdout } = await run('sh', ['-c', command!.replace(/^\$ /, '')]);
    printed = stdout.split(/\r?\n/).map(withoutTimes);
  }
  assert.deepEqual(printed.filter((line) => shown.includes(line)), shown);
}

/** How long a caller has to wait depends on how long the test took. */
function withoutTimes(line: string): string {
  return line.replace(/(;t=|^retry-after: |try again in )\d+/, '$1…');
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
