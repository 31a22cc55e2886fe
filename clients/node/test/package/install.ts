import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

// Seen from build/test/package, where this file is when it runs.
export const PACKAGE = fileURLToPath(new URL('../../../', import.meta.url));

/** A project that has the package installed as npm would publish it. */
export interface Project {
  readonly folder: string;
  node(...args: string[]): Promise<string>;
  tsc(...args: string[]): Promise<string>;
  remove(): Promise<void>;
}

/** Packs the package and installs it into a folder from which the frameworks of the tests can be found, too. */
export async function installPackage(): Promise<Project> {
  const folder = await mkdtemp(join(PACKAGE, 'build', 'project-'));
  await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'project', private: true, type: 'module' }));
  const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', folder], { cwd: PACKAGE });
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', '--no-package-lock', join(folder, filename)], {
    cwd: folder,
  });
  const compiler = join(PACKAGE, 'node_modules', '.bin', 'tsc');
  return {
    folder,
    node: async (...args) => (await run(process.execPath, args, { cwd: folder })).stdout,
    tsc: async (...args) => (await run(compiler, ['--ignoreConfig', ...args], { cwd: folder }).catch(withOutput)).stdout,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** The compiler says what is wrong on its standard output. */
function withOutput(error: Error & { stdout?: string }): never {
  throw new Error(`${error.message}\n${error.stdout ?? ''}`);
}
