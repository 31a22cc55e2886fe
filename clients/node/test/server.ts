import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

// Seen from build/test, where this file is when it runs.
const PROJECT = fileURLToPath(new URL('../../../../', import.meta.url));
const BINARY = process.env['WATERCLOCK_BIN'] ?? join(PROJECT, 'target/debug/waterclock');

/** A `waterclock serve` on free ports, with its state in memory. */
export interface Server {
  readonly http: string;
  readonly resp: string;
  stop(): Promise<void>;
}

export function startServer(configuration: string, environment: Record<string, string> = {}): Promise<Server> {
  return start(configuration, environment);
}

/** `waterclock serve` as it is without a configuration. */
export function startDemonstration(): Promise<Server> {
  return start(null, {});
}

async function start(configuration: string | null, environment: Record<string, string>): Promise<Server> {
  if (!existsSync(BINARY)) {
    throw new Error(`there is no ${BINARY}; run \`cargo build\`, or set WATERCLOCK_BIN to a waterclock`);
  }
  const folder = await mkdtemp(join(tmpdir(), 'waterclock-node-'));
  if (configuration !== null) await writeFile(join(folder, 'waterclock.toml'), configuration);
  const { WATERCLOCK_STORE_URL: _, ...inherited } = process.env;
  const addresses = { WATERCLOCK_HTTP: '127.0.0.1:0', WATERCLOCK_RESP: '127.0.0.1:0', WATERCLOCK_GRPC: '' };
  // The addresses are in the log.
  const log = { WATERCLOCK_LOG: 'info' };
  const child = spawn(BINARY, ['serve', ...(configuration === null ? [] : ['-c', 'waterclock.toml'])], {
    cwd: folder,
    env: { ...inherited, ...addresses, ...log, ...environment },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const { http, resp } = await listeners(child);
    return { http: `http://${http}`, resp: `redis://${resp}`, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The addresses that the server logs. */
async function listeners(child: ChildProcess): Promise<{ http: string; resp: string }> {
  const found = new Map<string, string>();
  const said: string[] = [];
  for await (const line of createInterface({ input: child.stderr! })) {
    said.push(line);
    const match = /listening protocol="(\w+)" address=(\S+)/.exec(line);
    if (match) found.set(match[1]!, match[2]!);
    const [http, resp] = [found.get('http'), found.get('resp')];
    if (http !== undefined && resp !== undefined) {
      child.stderr!.resume();
      return { http, resp };
    }
  }
  throw new Error(`${BINARY} did not start:\n${said.join('\n')}`);
}
