import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));

export class PluginHost {
  #hooks = new Map();
  plugins = [];

  hook(name, fn) {
    if (!this.#hooks.has(name)) this.#hooks.set(name, []);
    this.#hooks.get(name).push(fn);
  }

  async run(name, value) {
    for (const fn of this.#hooks.get(name) ?? []) {
      const result = await fn(value);
      if (result !== undefined) value = result;
    }
    return value;
  }

  async load(dir) {
    const files = (await readdir(dir)).filter((f) => /\.m?js$/.test(f)).sort();
    for (const file of files) {
      try {
        const mod = await import(pathToFileURL(path.join(dir, file)).href);
        if (typeof mod.setup !== 'function') {
          console.warn(`${file}: no setup() export, ignored`);
          continue;
        }
        await mod.setup(this);
        this.plugins.push(mod.name ?? file);
      } catch (err) {
        console.error(`${file}: ${err.message}`);
      }
    }
  }
}

const host = new PluginHost();
await host.load(path.join(here, 'plugins'));
console.log('plugins:', host.plugins);
console.log(await host.run('title', 'hello world'));
