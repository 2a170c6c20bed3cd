const tariff = require('../src/tariff');

test('there is a tariff', () => {
  expect(tariff).toBeDefined();
});
