// The functions of wit/plugin.wit.

export const tools = {
  count(text, longest) {
    // What is thrown is the `err` of the function's result.
    if (text === "") throw "there is no text";
    const words = text.split(/\s+/).filter((word) => word && (longest === undefined || [...word].length <= longest));
    return { words: words.length, lines: text.replace(/\n$/, "").split("\n").length };
  },
};
