import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { scale } from '../scale.js';

describe('scale', () => {
  it('doubles', () => assert.equal(scale(250, 'g', 2, 4), 500));
  it('goes to the next five grams', () => {
    assert.equal(scale(100, 'g', 3, 2), 65);
    assert.equal(scale(100, 'g', 4, 3), 75);
    assert.equal(scale(98, 'g', 1, 1), 100);
  });
  it('is for somebody', () => assert.throws(() => scale(1, 'g', 0, 1), RangeError));
  it('knows pinches', { skip: 'nobody knows how much that is' }, () => {});
  it.todo('knows litres');
});
