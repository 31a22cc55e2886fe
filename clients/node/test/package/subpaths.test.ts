import assert from 'node:assert/strict';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { installPackage, PACKAGE, type Project } from './install.js';

let project: Project;
before(async () => {
  project = await installPackage();
});
after(() => project.remove());

const subpaths = async () => {
  const { exports } = JSON.parse(await readFile(join(PACKAGE, 'package.json'), 'utf8')) as { exports: object };
  return Object.keys(exports)
    .filter((name) => name !== './package.json')
    .map((name) => name.replace(/^\./, 'waterclock'));
};

test('every subpath can be imported and required, and gives the same names', async () => {
  const program = `
    import { createRequire } from 'node:module';
    const require = createRequire(import.meta.url);
    for (const name of process.argv.slice(2)) {
      const imported = Object.keys(await import(name)).filter((each) => each !== 'module.exports').sort();
      const required = Object.keys(require(name)).filter((each) => each !== '__esModule').sort();
      console.log(JSON.stringify({ name, imported, required }));
    }`;
  await writeFile(join(project.folder, 'subpaths.js'), program);
  const names = await subpaths();
  const lines = (await project.node('subpaths.js', ...names)).trim().split('\n');
  assert.equal(lines.length, names.length);
  for (const line of lines) {
    const { name, imported, required } = JSON.parse(line) as { name: string; imported: string[]; required: string[] };
    assert.ok(imported.length > 0, name);
    assert.deepEqual(imported, required, name);
  }
});

test('every subpath has types for ESM and CommonJS', async () => {
  for (const file of ['esm.mts', 'cjs.cts']) {
    const source = join(PACKAGE, 'test', 'package', 'types', file);
    const text = await readFile(source, 'utf8');
    for (const name of await subpaths()) assert.ok(text.includes(`'${name}'`), `${file} does not use ${name}`);
    await copyFile(source, join(project.folder, file));
  }
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--skipLibCheck'];
  const libraries = ['--lib', 'es2022,esnext.disposable,dom', '--types', 'node'];
  await project.tsc(...options, ...libraries, 'esm.mts', 'cjs.cts');
});

test('the main entry uses nothing of Node', async () => {
  const seen = new Set<string>();
  const follow = async (file: URL): Promise<void> => {
    if (seen.has(file.href)) return;
    seen.add(file.href);
    const text = await readFile(file, 'utf8');
    for (const [, name] of text.matchAll(/^(?:import|export)\b.*'([^']+)';$/gm)) {
      assert.match(name!, /^\.{1,2}\//, `${file.href} imports ${name}`);
      await follow(new URL(name!, file));
    }
    assert.doesNotMatch(text, /\b(process|Buffer|setImmediate|require)\b\s*[.(]/, file.href);
  };
  await follow(new URL(`file://${project.folder}/node_modules/waterclock/dist/esm/index.js`));
  assert.ok(seen.size > 5);
});
