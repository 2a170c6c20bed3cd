
// Whether a file was to define tests of node's own runner: such a file that tells of none ended early. Read from its text, and in
// doubt it was to define some.

// Functions of node:test that define no test; a helper may load these.
const HELPING = /^\s*(?:mock|snapshot|assert|run|before|after|beforeEach|afterEach)?(?:\s*(?::|\bas\b)\s*\w+)?\s*$/;
// Nothing else gets the module: no name before the braces, and no further `=`.
const NAMED =
  /(?<![.\w$])(?:(?:const|let|var)\s*\{([^{}]*)\}\s*=\s*(?:await\s+import|require)\s*\(\s*(['"])node:test\2\s*\)(?!\s*[.?[(])|(?:import|export)\s*\{([^{}]*)\}\s*from\s*(['"])node:test\4)/g;

/** Whether a text loads what defines tests from node:test. */
const definesBy = (text) =>
  text.replace(NAMED, (whole, one, _, other) => ((one ?? other).split(',').every((name) => HELPING.test(name)) ? '' : whole)).includes('node:test');

/** Where the functions of a code have their names and bodies; null where its brackets have no order. */
function functionsOf(code) {
  const [open, found, opened] = [[], [], new Map()];
  const before = (at) => code.slice(Math.max(0, at - 2000), at).trimEnd();
  /** The beginning of the parameters that end here. */
  const head = (end) => (code[end - 1] === ')' ? opened.get(end - 1) : end - /[\w$]*$/.exec(code.slice(Math.max(0, end - 200), end))[0].length);
  /** Where a text of this length, before white space, ended. */
  const length = (at) => at - (code.slice(Math.max(0, at - 2000), at).length - before(at).length);
  /** A function whose parameters begin here. Those among the arguments of a call may run at once. */
  const enter = (start, from) => {
    const text = before(start);
    const [, name] = /([\w$]+)\s*(?:[=:]\s*(?:async\b\s*)?(?:function\b[\s*]*)?|(?:[=:]\s*)?\basync)?$/.exec(text) ?? [];
    const within = [...open].reverse();
    const outer = within.findIndex((one) => one.body);
    const kept = (outer < 0 ? within : within.slice(0, outer)).every((one) => one.kind === '{');
    const one = { name, at: name === undefined ? -1 : length(start) - text.length + text.lastIndexOf(name), from, to: code.length, kept };
    found.push(one);
    return one;
  };
  for (let at = 0; at < code.length; at += 1) {
    const kind = code[at];
    // A function that is one expression ends with it.
    const last = open.at(-1);
    if (last?.kind === '=>' && (';,)]}'.includes(kind) || (kind === '\n' && code.slice(last.from, at).trim() !== ''))) {
      last.of.to = at;
      open.pop();
      at -= kind === '\n' ? 0 : 1;
    } else if (kind === '(' || kind === '[') open.push({ kind, from: at });
    else if (kind === '{') {
      const end = length(at);
      const arrow = code.slice(end - 2, end) === '=>';
      const start = arrow ? head(length(end - 2)) : code[end - 1] === ')' ? opened.get(end - 1) : undefined;
      const is = start !== undefined && (arrow || !/\b(?:if|for|while|switch|catch|with|await)$/.test(before(start)));
      open.push({ kind, from: at, body: is, of: is ? enter(start, at) : undefined });
    } else if (')]}'.includes(kind)) {
      const one = open.pop();
      if (one?.kind !== '([{'[')]}'.indexOf(kind)]) return null;
      opened.set(at, one.from);
      if (one.of === undefined) continue;
      one.of.to = at;
      // Called where it stands.
      if (/^\s*(?:\(|\??\.)/.test(code.slice(at + 1, at + 200))) one.of.kept = false;
    } else if (kind === '=' && code[at + 1] === '>') {
      at += 1;
      if (/^\s*\{/.test(code.slice(at + 1, at + 200))) continue;
      const of = enter(head(length(at - 1)), at + 1);
      open.push({ kind: '=>', from: at + 1, body: true, of });
    }
  }
  while (open.at(-1)?.kind === '=>') open.pop();
  return open.length === 0 ? found : null;
}

/** Whether a text calls a function with the name of one that defines a test, and not only in functions that it keeps for others. */
function callsTests(text) {
  const code = codeOf(text);
  const functions = functionsOf(code) ?? [];
  const names = new Set(functions.map((one) => one.at));
  let kept = functions.filter((one) => one.kept);
  const runs = (pattern) =>
    [...code.matchAll(pattern)].some(({ index }) => !names.has(index) && !kept.some((one) => one.from <= index && index < one.to));
  // A function that is called, or passed to another, is not kept.
  const used = (name) => new RegExp(`(?<![\\w$])${escape(name)}(?![\\w$])(?:\\s*(?:\\?\\.)?\\s*[(\`)]|\\s*\\.\\s*(?:call|apply|bind)\\b)`, 'g');
  for (let count = -1; count !== kept.length; ) {
    count = kept.length;
    kept = kept.filter((one) => one.name === undefined || !runs(used(one.name)));
  }
  return runs(/(?<![.\w$])(?:test|it|describe|suite)(?:\.\w+)*\s*[(`]/g);
}

const LOADED = /(?:\brequire\s*\(|\bimport\s*\(|\bfrom\b|\bimport\b)\s*(['"])(\.{1,2}\/[^'"\n]+|\.{1,2})\1/g;
const ENDINGS = ['', '.js', '.cjs', '.mjs', '.ts', '.mts', '.cts', '/index.js', '/index.cjs', '/index.mjs', '/index.ts'];
const MAX_LOADED = 200; // files

/** The file that a name stands for, with its text. */
function loaded(name) {
  for (const ending of ENDINGS) {
    try {
      return [name + ending, fs.readFileSync(name + ending, 'utf8')];
    } catch {
      // No such file, or a folder.
    }
  }
  return undefined;
}

/** Whether a file loads node:test through files of the project: a helper may pass its functions on. In doubt it does. */
function loadsRunner(file) {
  const [names, known] = [[file], new Set()];
  while (names.length > 0) {
    const [at, text] = loaded(names.pop()) ?? [];
    if (at === undefined || known.has(at)) continue;
    if (known.size >= MAX_LOADED) return true;
    known.add(at);
    if (definesBy(text)) return true;
    names.push(...[...text.matchAll(LOADED)].map(([, , to]) => path.resolve(path.dirname(at), to)));
  }
  return false;
}

/** Whether a file was to define tests. */
function definesTests(file) {
  const text = fs.readFileSync(file, 'utf8');
  return definesBy(text) || (callsTests(text) && loadsRunner(file));
}
