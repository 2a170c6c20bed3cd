class Sheet {
  constructor() {
    this.cells = {};
  }

  set(ref, content) {
    this.cells[ref.toUpperCase()] = content;
  }

  get(ref, stack = []) {
    ref = ref.toUpperCase();
    if (stack.includes(ref)) throw new Error(`circular reference: ${[...stack, ref].join(' -> ')}`);
    const content = this.cells[ref];
    if (content === undefined || content === '') return 0;
    if (typeof content === 'string' && content.startsWith('=')) {
      return new Evaluator(this, content.slice(1), [...stack, ref]).parse();
    }
    return Number(content);
  }
}

class Evaluator {
  constructor(sheet, text, stack) {
    this.sheet = sheet;
    this.stack = stack;
    this.tokens = text.match(/\d+\.?\d*|[A-Za-z]+\d+|[A-Za-z]+|[-+*/(),:]/g) || [];
    this.i = 0;
  }
  peek() { return this.tokens[this.i]; }
  next() { return this.tokens[this.i++]; }
  expect(t) { if (this.next() !== t) throw new Error(`expected ${t}`); }

  parse() {
    const v = this.expr();
    if (this.i < this.tokens.length) throw new Error(`unexpected ${this.peek()}`);
    return v;
  }
  expr() {
    let v = this.term();
    while (this.peek() === '+' || this.peek() === '-') v = this.next() === '+' ? v + this.term() : v - this.term();
    return v;
  }
  term() {
    let v = this.factor();
    while (this.peek() === '*' || this.peek() === '/') v = this.next() === '*' ? v * this.factor() : v / this.factor();
    return v;
  }
  factor() {
    const t = this.next();
    if (t === '-') return -this.factor();
    if (t === '(') {
      const v = this.expr();
      this.expect(')');
      return v;
    }
    if (/^\d/.test(t)) return parseFloat(t);
    if (/^sum$/i.test(t)) {
      this.expect('(');
      const from = this.next();
      this.expect(':');
      const to = this.next();
      this.expect(')');
      return this.range(from, to).reduce((s, r) => s + this.sheet.get(r, this.stack), 0);
    }
    return this.sheet.get(t, this.stack);
  }
  range(a, b) {
    const [, ca, ra] = a.match(/([A-Za-z])(\d+)/);
    const [, cb, rb] = b.match(/([A-Za-z])(\d+)/);
    const out = [];
    for (let c = ca.charCodeAt(0); c <= cb.charCodeAt(0); c++)
      for (let r = +ra; r <= +rb; r++) out.push(String.fromCharCode(c) + r);
    return out;
  }
}

const s = new Sheet();
s.set('A1', '2'); s.set('A2', '3'); s.set('A3', '=A1*(A2+4)'); s.set('B1', '=SUM(A1:A3)/2');
console.log(s.get('B1'));
