const chokidar = require('chokidar');
const fs = require('fs-extra');
const path = require('path');

const SRC = path.resolve('src/assets');
const DIST = path.resolve('dist/assets');

const target = (file) => path.join(DIST, path.relative(SRC, file));

async function copy(file) {
  try {
    await fs.copy(file, target(file));
    console.log(`copied ${path.relative(SRC, file)}`);
  } catch (err) {
    console.error(`could not copy ${file}: ${err.message}`);
  }
}

async function remove(file) {
  await fs.remove(target(file));
  console.log(`removed ${path.relative(SRC, file)}`);
}

(async () => {
  await fs.emptyDir(DIST);
  const watcher = chokidar.watch(SRC, { ignored: /(^|[/\\])\../, persistent: !process.argv.includes('--once') });
  watcher.on('add', copy).on('change', copy).on('unlink', remove).on('unlinkDir', remove);
  watcher.on('ready', () => {
    console.log('initial copy done');
    if (process.argv.includes('--once')) watcher.close();
  });
})();
