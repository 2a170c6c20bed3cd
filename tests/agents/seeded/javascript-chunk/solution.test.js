"use strict";
const test = require("node:test");
const assert = require("node:assert/strict");
const { chunk } = require("./solution.js");

test("full parts", () => assert.deepEqual(chunk([1, 2, 3, 4], 2), [[1, 2], [3, 4]]));
test("a rest", () => assert.deepEqual(chunk([1, 2, 3], 2), [[1, 2], [3]]));
test("nothing", () => assert.deepEqual(chunk([], 2), []));
