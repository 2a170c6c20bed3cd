#include "fee.h"

#include <stdexcept>

int fee(int minutes) {
    if (minutes < 0) {
        throw std::invalid_argument("parked for less than no time");
    }
    if (minutes <= 30) {
        return 0;
    }
    int days = minutes / 1440;
    int rest = (minutes % 1440 + 59) / 60 * 200;
    return days * 1500 + rest;
}
