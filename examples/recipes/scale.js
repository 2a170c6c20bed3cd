// Amounts of a recipe for another number of people: grams to the next five, spoons to the next half.
export function scale(amount, unit, from, to) {
  if (from <= 0 || to <= 0) throw new RangeError('a recipe is for somebody');
  const exact = (amount * to) / from;
  const step = unit === 'g' ? 5 : 0.5;
  return Math.floor(exact / step) * step;
}
