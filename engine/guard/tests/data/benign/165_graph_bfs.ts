export class Graph<N> {
  private readonly edges = new Map<N, Set<N>>();

  addNode(n: N): this {
    if (!this.edges.has(n)) this.edges.set(n, new Set());
    return this;
  }

  addEdge(from: N, to: N): this {
    this.addNode(from).addNode(to);
    this.edges.get(from)!.add(to);
    return this;
  }

  *bfs(start: N): Generator<N> {
    const seen = new Set<N>([start]);
    const queue: N[] = [start];
    while (queue.length > 0) {
      const node = queue.shift()!;
      yield node;
      for (const next of this.edges.get(node) ?? []) {
        if (!seen.has(next)) {
          seen.add(next);
          queue.push(next);
        }
      }
    }
  }

  *dfs(start: N, seen = new Set<N>()): Generator<N> {
    if (seen.has(start)) return;
    seen.add(start);
    yield start;
    for (const next of this.edges.get(start) ?? []) yield* this.dfs(next, seen);
  }

  topologicalSort(): N[] {
    const indegree = new Map<N, number>([...this.edges.keys()].map((n) => [n, 0]));
    for (const targets of this.edges.values()) for (const t of targets) indegree.set(t, indegree.get(t)! + 1);
    const ready = [...indegree].filter(([, d]) => d === 0).map(([n]) => n);
    const order: N[] = [];
    while (ready.length) {
      const n = ready.pop()!;
      order.push(n);
      for (const t of this.edges.get(n)!) {
        indegree.set(t, indegree.get(t)! - 1);
        if (indegree.get(t) === 0) ready.push(t);
      }
    }
    if (order.length !== this.edges.size) throw new Error('graph has a cycle');
    return order;
  }
}

const g = new Graph<string>().addEdge('shirt', 'tie').addEdge('tie', 'jacket').addEdge('trousers', 'shoes').addEdge('trousers', 'jacket');
console.log(g.topologicalSort(), [...g.bfs('shirt')]);
