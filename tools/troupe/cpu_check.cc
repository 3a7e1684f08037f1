// Built for the oldest x86-64, unlike everything else: this must run where the rest cannot. A constructor of
// the highest priority, since other initialisers may already hold new instructions.
#include <cstring>

#include <unistd.h>

#include "exit_code.h"

namespace {

#if defined(__x86_64__)
/// The first thing that the build assumed and this processor lacks, or null.
const char* missing_feature() {
  __builtin_cpu_init();
  if (std::strcmp(TROUPE_ARCH, "x86-64-v3") != 0) return nullptr;
  if (!__builtin_cpu_supports("avx2")) return "AVX2";
  if (!__builtin_cpu_supports("fma")) return "FMA";
  if (!__builtin_cpu_supports("bmi2")) return "BMI2";
  return nullptr;
}
#else
const char* missing_feature() { return nullptr; }
#endif

void say(const char* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); }

__attribute__((constructor(101))) void check_processor() {
  const char* missing = missing_feature();
  if (!missing) return;
  say("error: this processor has no ");
  say(missing);
  say(", which this build of troupe uses (TROUPE_ARCH=" TROUPE_ARCH
      "). Build it for this machine: cmake -DTROUPE_ARCH=native -S . -B build && cmake --build build\n");
  ::_exit(kBadUsage);
}

}  // namespace
