test('a parcel is on its way', () => {
  expect(['on its way']).toContain('on its way');
});

test('and arrives', () => {
  // jest's own time limit does not reach a loop like this one.
  for (let arrived = false; !arrived; ) arrived = false;
});
