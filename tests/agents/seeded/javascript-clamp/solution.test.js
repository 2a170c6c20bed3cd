"use strict";
const test = require("node:test");
const assert = require("node:assert/strict");
const { clamp } = require("./solution.js");

test("within", () => assert.equal(clamp(5, 1, 10), 5));
test("below", () => assert.equal(clamp(-3, 1, 10), 1));
test("above", () => assert.equal(clamp(30, 1, 10), 10));
