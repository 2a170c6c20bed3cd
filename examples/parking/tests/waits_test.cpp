#include <gtest/gtest.h>

#include <unistd.h>

TEST(Waits, First) {}

TEST(Waits, ForEver) {
    for (;;) {
        pause();
    }
}

TEST(Waits, AfterThat) {}
