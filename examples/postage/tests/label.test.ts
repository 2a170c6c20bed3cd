import { label } from '../src/label';

const ana = { name: 'Ana Reis', street: 'Rua Nova 7', town: '4000 Porto' };

test('a label has three lines at home', () => {
  expect(label(ana)).toHaveLength(3);
  expect(label({ ...ana, country: 'PT' })).toHaveLength(3);
});

test('and four abroad', () => {
  expect(label({ ...ana, country: 'ES' })).toEqual([...label(ana), 'ES']);
});
