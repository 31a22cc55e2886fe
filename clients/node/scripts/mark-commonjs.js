// The package is "type": "module"; the files of the CommonJS build are not.
import { writeFileSync } from 'node:fs';

writeFileSync('dist/cjs/package.json', '{"type": "commonjs"}\n');
