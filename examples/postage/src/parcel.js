'use strict';

/** What a parcel costs in cents: by weight in grams, and half as much again for abroad. */
function postage(grams, abroad = false) {
  if (!(grams > 0)) throw new RangeError(`a parcel of ${grams} g cannot be sent`);
  const steps = [[500, 300], [2000, 500], [10000, 1000]];
  const step = steps.find(([most]) => grams < most);
  if (step === undefined) return null;
  return abroad ? step[1] * 1.5 : step[1];
}

module.exports = { postage };
