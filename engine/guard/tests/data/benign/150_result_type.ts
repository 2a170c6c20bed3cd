export type Result<T, E = Error> = Ok<T, E> | Err<T, E>;

class Ok<T, E> {
  readonly ok = true as const;
  constructor(readonly value: T) {}

  map<U>(fn: (value: T) => U): Result<U, E> {
    return ok(fn(this.value));
  }
  mapErr<F>(_fn: (error: E) => F): Result<T, F> {
    return ok(this.value);
  }
  andThen<U>(fn: (value: T) => Result<U, E>): Result<U, E> {
    return fn(this.value);
  }
  unwrapOr(_fallback: T): T {
    return this.value;
  }
}

class Err<T, E> {
  readonly ok = false as const;
  constructor(readonly error: E) {}

  map<U>(_fn: (value: T) => U): Result<U, E> {
    return err(this.error);
  }
  mapErr<F>(fn: (error: E) => F): Result<T, F> {
    return err(fn(this.error));
  }
  andThen<U>(_fn: (value: T) => Result<U, E>): Result<U, E> {
    return err(this.error);
  }
  unwrapOr(fallback: T): T {
    return fallback;
  }
}

export const ok = <T, E = Error>(value: T): Result<T, E> => new Ok<T, E>(value);
export const err = <T, E = Error>(error: E): Result<T, E> => new Err<T, E>(error);

export async function fromPromise<T>(promise: Promise<T>): Promise<Result<T, Error>> {
  try {
    return ok(await promise);
  } catch (e) {
    return err(e instanceof Error ? e : new Error(String(e)));
  }
}

function parsePort(text: string): Result<number, string> {
  const n = Number(text);
  return Number.isInteger(n) && n > 0 && n < 65536 ? ok(n) : err(`invalid port: ${text}`);
}

console.log(parsePort('8080').map((p) => p + 1).unwrapOr(0));
console.log(parsePort('abc').mapErr((m) => m.toUpperCase()));
