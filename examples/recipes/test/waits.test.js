import { it } from 'node:test';

it('begins', () => {});
it('waits for ever', async () => {
  for (;;) await new Promise((resolve) => setTimeout(resolve, 1000));
});
