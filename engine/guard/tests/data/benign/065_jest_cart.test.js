const { Cart } = require('../src/cart');
const prices = require('../src/priceService');

jest.mock('../src/priceService');

describe('Cart', () => {
  let cart;

  beforeEach(() => {
    jest.resetAllMocks();
    prices.getPrice.mockImplementation(async (sku) => ({ apple: 1.5, pear: 2 }[sku]));
    cart = new Cart();
  });

  test('starts empty', async () => {
    expect(cart.items).toEqual([]);
    await expect(cart.total()).resolves.toBe(0);
  });

  test('adds the same item twice', () => {
    cart.add('apple');
    cart.add('apple', 2);
    expect(cart.items).toEqual([{ sku: 'apple', qty: 3 }]);
  });

  test('computes the total with current prices', async () => {
    cart.add('apple', 2);
    cart.add('pear');
    await expect(cart.total()).resolves.toBeCloseTo(5);
    expect(prices.getPrice).toHaveBeenCalledTimes(2);
  });

  test.each([0, -1, 1.5, NaN])('rejects quantity %p', (qty) => {
    expect(() => cart.add('apple', qty)).toThrow(RangeError);
  });

  test('propagates price errors', async () => {
    prices.getPrice.mockRejectedValue(new Error('service down'));
    cart.add('apple');
    await expect(cart.total()).rejects.toThrow('service down');
  });
});
