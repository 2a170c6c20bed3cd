"use strict";
const test = require("node:test");
const assert = require("node:assert/strict");
const { isPalindrome } = require("./solution.js");

test("small letters", () => assert.equal(isPalindrome("level"), true));
test("capitals", () => assert.equal(isPalindrome("Anna"), true));
test("another word", () => assert.equal(isPalindrome("hello"), false));
