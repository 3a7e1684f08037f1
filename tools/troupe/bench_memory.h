#pragma once
#include <cstdint>

/// What one thread reads and adds, bytes a second: the sum of `bytes` of floats, over and over for about `seconds`.
double read_and_add(int64_t bytes, double seconds);
/// What one thread copies, bytes copied a second.
double copy(int64_t bytes, double seconds);

/// Memory of this process that is in use now.
int64_t resident_bytes();
