const cron = require('node-cron');
const fs = require('fs/promises');
const path = require('path');
const winston = require('winston');

const UPLOADS = process.env.UPLOAD_DIR || './uploads/tmp';
const MAX_AGE = 24 * 60 * 60 * 1000;

const log = winston.createLogger({
  format: winston.format.combine(winston.format.timestamp(), winston.format.simple()),
  transports: [new winston.transports.Console(), new winston.transports.File({ filename: 'jobs.log' })],
});

async function cleanupUploads() {
  let removed = 0;
  for (const name of await fs.readdir(UPLOADS)) {
    const file = path.join(UPLOADS, name);
    const stat = await fs.stat(file);
    if (stat.isFile() && Date.now() - stat.mtimeMs > MAX_AGE) {
      await fs.unlink(file);
      removed++;
    }
  }
  log.info(`cleanup: removed ${removed} files`);
}

async function stats() {
  const { rss, heapUsed } = process.memoryUsage();
  log.info(`stats: rss=${(rss / 1e6).toFixed(1)}MB heap=${(heapUsed / 1e6).toFixed(1)}MB uptime=${process.uptime().toFixed(0)}s`);
}

function safely(name, fn) {
  let running = false;
  return async () => {
    if (running) return log.warn(`${name} still running, skipped`);
    running = true;
    try {
      await fn();
    } catch (err) {
      log.error(`${name} failed: ${err.stack}`);
    } finally {
      running = false;
    }
  };
}

cron.schedule('15 3 * * *', safely('cleanup', cleanupUploads), { timezone: 'Europe/Berlin' });
cron.schedule('0 * * * *', safely('stats', stats));
log.info('scheduler started');
