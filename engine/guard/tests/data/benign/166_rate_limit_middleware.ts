import type { NextFunction, Request, Response } from 'express';
import Redis from 'ioredis';
import { randomUUID } from 'crypto';

interface Options {
  windowMs: number;
  max: number;
  prefix?: string;
  keyFor?: (req: Request) => string;
}

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

export function slidingWindow({ windowMs, max, prefix = 'rl', keyFor = (req) => req.ip ?? 'unknown' }: Options) {
  return async (req: Request, res: Response, next: NextFunction): Promise<void> => {
    const key = `${prefix}:${keyFor(req)}`;
    const now = Date.now();
    try {
      const results = await redis
        .multi()
        .zremrangebyscore(key, 0, now - windowMs)
        .zadd(key, now, `${now}-${randomUUID()}`)
        .zcard(key)
        .pexpire(key, windowMs)
        .exec();
      const count = Number(results?.[2]?.[1] ?? 0);
      res.setHeader('X-RateLimit-Limit', max);
      res.setHeader('X-RateLimit-Remaining', Math.max(0, max - count));
      if (count > max) {
        res.setHeader('Retry-After', Math.ceil(windowMs / 1000));
        res.status(429).json({ error: 'too many requests' });
        return;
      }
    } catch (err) {
      // fail open when redis is down
      console.error('rate limiter unavailable', err);
    }
    next();
  };
}
