const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const os = require('os');

function countPrimes(from, to) {
  let count = 0;
  outer: for (let n = Math.max(2, from); n < to; n++) {
    for (let d = 2; d * d <= n; d++) if (n % d === 0) continue outer;
    count++;
  }
  return count;
}

if (isMainThread) {
  const limit = Number(process.argv[2] || 2_000_000);
  const n = Number(process.argv[3] || os.cpus().length);
  const size = Math.ceil(limit / n);
  console.time('elapsed');
  const jobs = Array.from({ length: n }, (_, i) => {
    return new Promise((resolve, reject) => {
      const w = new Worker(__filename, { workerData: { from: i * size, to: Math.min(limit, (i + 1) * size) } });
      w.on('message', resolve);
      w.on('error', reject);
    });
  });
  Promise.all(jobs).then((counts) => {
    console.log(`${counts.reduce((a, b) => a + b)} primes below ${limit}`);
    console.timeEnd('elapsed');
  });
} else {
  parentPort.postMessage(countPrimes(workerData.from, workerData.to));
}
