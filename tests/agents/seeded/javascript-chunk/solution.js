"use strict";

// Parts of a list, each of size values, the last one perhaps of fewer.
function chunk(values, size) {
  const parts = [];
  for (let at = 0; at + size <= values.length; at += size) {
    parts.push(values.slice(at, at + size));
  }
  return parts;
}

module.exports = { chunk };
