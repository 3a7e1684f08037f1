#include <troupe/kernels/base/random.h>
#include <troupe/ps/param/optimizer.h>

int main() { return troupe::ps::OptimizerOptions{}.name == "sgd" && troupe::Random(7).uniform() < 1 ? 0 : 1; }
