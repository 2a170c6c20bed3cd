"use strict";

// Tells if a word reads the same backwards; capitals count as small letters.
function isPalindrome(word) {
  return word === word.split("").reverse().join("");
}

module.exports = { isPalindrome };
