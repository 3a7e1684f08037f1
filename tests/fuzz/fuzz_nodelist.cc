#include <tools/launch/nodelist.h>

#include <tests/fuzz/contract.h>

using namespace troupe;

/// Names of hosts, none empty and not too many; together they are a nodelist of the same names. Else an error that
/// shows the list.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto names = launch::expand_nodelist(fuzz::text_of(data, size));
  if (!names) {
    fuzz::promise_named(names.error(), "nodelist \"");
    return 0;
  }
  TROUPE_CHECK(!names->empty() && names->size() <= launch::kMostNodes, names->size());
  std::string plain;
  for (const std::string& name : *names) {
    TROUPE_CHECK(!name.empty() && name.find_first_of("[], \n") == std::string::npos, name);
    plain += (plain.empty() ? "" : ",") + name;
  }
  const auto again = launch::expand_nodelist(plain);
  TROUPE_CHECK(again && *again == *names, plain);
  return 0;
}
