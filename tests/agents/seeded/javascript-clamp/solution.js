"use strict";

// The number nearest to value that is not below low and not above high.
function clamp(value, low, high) {
  return Math.max(high, Math.min(low, value));
}

module.exports = { clamp };
