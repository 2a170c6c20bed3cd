type EventMap = Record<string, unknown[]>;
type Listener<A extends unknown[]> = (...args: A) => void;

export class TypedEmitter<Events extends EventMap> {
  private listeners: { [K in keyof Events]?: Set<Listener<Events[K]>> } = {};

  on<K extends keyof Events>(event: K, fn: Listener<Events[K]>): () => void {
    const set = (this.listeners[event] ??= new Set());
    set.add(fn);
    return () => this.off(event, fn);
  }

  once<K extends keyof Events>(event: K, fn: Listener<Events[K]>): () => void {
    const stop = this.on(event, (...args) => {
      stop();
      fn(...args);
    });
    return stop;
  }

  off<K extends keyof Events>(event: K, fn: Listener<Events[K]>): void {
    this.listeners[event]?.delete(fn);
  }

  emit<K extends keyof Events>(event: K, ...args: Events[K]): boolean {
    const set = this.listeners[event];
    if (!set || set.size === 0) return false;
    for (const fn of [...set]) {
      try {
        fn(...args);
      } catch (err) {
        console.error(`listener for ${String(event)} threw`, err);
      }
    }
    return true;
  }
}

interface AppEvents extends EventMap {
  login: [userId: string, at: Date];
  logout: [userId: string];
}

const bus = new TypedEmitter<AppEvents>();
bus.once('login', (id, at) => console.log(`${id} logged in at ${at.toISOString()}`));
bus.emit('login', 'u42', new Date());
bus.emit('logout', 'u42');
