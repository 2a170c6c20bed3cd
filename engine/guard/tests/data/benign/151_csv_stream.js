const fs = require('fs');
const readline = require('readline');

function parseLine(line) {
  const out = [];
  let cell = '';
  let quoted = false;
  for (let i = 0; i < line.length; i++) {
    const c = line[i];
    if (quoted) {
      if (c === '"' && line[i + 1] === '"') {
        cell += '"';
        i++;
      } else if (c === '"') quoted = false;
      else cell += c;
    } else if (c === '"') quoted = true;
    else if (c === ',') {
      out.push(cell);
      cell = '';
    } else cell += c;
  }
  out.push(cell);
  return out;
}

async function aggregate(file, groupBy, valueColumn) {
  const rl = readline.createInterface({ input: fs.createReadStream(file), crlfDelay: Infinity });
  let header = null;
  const groups = new Map();
  for await (const line of rl) {
    if (!header) {
      header = parseLine(line);
      continue;
    }
    const row = parseLine(line);
    const key = row[header.indexOf(groupBy)];
    const value = Number(row[header.indexOf(valueColumn)]);
    if (Number.isNaN(value)) continue;
    const g = groups.get(key) || { count: 0, sum: 0, max: -Infinity };
    g.count += 1;
    g.sum += value;
    g.max = Math.max(g.max, value);
    groups.set(key, g);
  }
  return groups;
}

const [file, groupBy, value] = process.argv.slice(2);
aggregate(file, groupBy, value)
  .then((groups) => {
    console.table(
      [...groups].map(([key, g]) => ({ [groupBy]: key, count: g.count, sum: g.sum, mean: +(g.sum / g.count).toFixed(2), max: g.max }))
    );
  })
  .catch((e) => {
    console.error(e);
    process.exit(1);
  });
