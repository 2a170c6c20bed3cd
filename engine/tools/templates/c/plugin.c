// The functions of wit/plugin.wit, by the names and in the form that the component model gives them. There is no C library here:
// what this file uses, it has. Its types come from wit/ when `hotcell tool build` makes a component of it.

#include <stddef.h>
#include <stdint.h>

#define EXPORT(name) __attribute__((export_name(name)))

// Behind everything else in memory; the linker knows where.
extern unsigned char __heap_base;

// Memory for what the caller passes. None is given back: each call has a fresh instance, with limits.
EXPORT("cabi_realloc")
void *cabi_realloc(const unsigned char *old, size_t old_size, size_t align, size_t size) {
    static uintptr_t next;
    if (next == 0) next = (uintptr_t)&__heap_base;
    uintptr_t at = (next + align - 1) & ~(uintptr_t)(align - 1);
    uintptr_t end = at + size;
    size_t have = __builtin_wasm_memory_size(0) << 16;
    if (end < at) __builtin_trap();
    if (end > have && __builtin_wasm_memory_grow(0, ((end - have) >> 16) + 1) == (size_t)-1) __builtin_trap();
    next = end;
    unsigned char *new = (unsigned char *)at;
    for (size_t i = 0; i < old_size && i < size; i++) new[i] = old[i];
    return new;
}

// result<counts, string>: which of both, then the one or the other.
struct answer {
    uint8_t failed;
    union {
        struct { uint32_t words, lines; } counts;
        struct { const char *text; size_t length; } why;
    };
};

static int is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// option<u32> is two parameters: whether it is there, and what it is.
EXPORT("local:NAME/tools@0.1.0#count")
struct answer *count(const char *text, size_t length, int32_t has_longest, uint32_t longest) {
    static struct answer answer;
    if (length == 0) {
        static const char why[] = "there is no text";
        answer.failed = 1;
        answer.why.text = why;
        answer.why.length = sizeof why - 1;
        return &answer;
    }
    uint32_t words = 0, lines = 0, characters = 0;
    for (size_t i = 0; i < length; i++) {
        // Bytes that only continue a character of UTF-8 are none of their own.
        if (!is_space(text[i])) characters += (text[i] & 0xC0) != 0x80;
        if (characters > 0 && (i + 1 == length || is_space(text[i + 1]))) {
            words += !has_longest || characters <= longest;
            characters = 0;
        }
        lines += text[i] == '\n' || i + 1 == length;
    }
    answer.failed = 0;
    answer.counts.words = words;
    answer.counts.lines = lines;
    return &answer;
}
