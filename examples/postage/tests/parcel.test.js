const { postage } = require('../src/parcel');

describe('postage', () => {
  test('goes by weight', () => {
    expect(postage(499)).toBe(300);
    expect(postage(9999)).toBe(1000);
  });

  test.each([[500, 300], [2000, 500]])('%i g are within their step', (grams, cents) => {
    expect(postage(grams)).toBe(cents);
  });

  test('is dearer abroad', () => {
    expect(postage(100, true)).toBe(450);
  });

  test.skip('has a discount for many', () => {
    expect(postage(100, false, 20)).toBe(270);
  });

  test.todo('knows islands');
});

test('nothing cannot be sent', () => {
  expect(() => postage(0)).toThrow('0 g cannot be sent');
});
