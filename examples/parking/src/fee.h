#pragma once

// What parking costs, in cents. The first half hour is free; every hour that has begun costs 200, a day at most 1500.
int fee(int minutes);
