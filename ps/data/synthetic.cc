#include <troupe/ps/data/synthetic.h>

#include <algorithm>
#include <vector>

#include <troupe/kernels/base/random.h>

namespace troupe::ps {

Samples make_blobs(const SyntheticOptions& o) {
  TROUPE_CHECK(o.samples > 0 && o.features > 0 && o.classes > 0, o.samples, " samples, ", o.features,
               " features, ", o.classes, " classes");
  Random centre_random(derive_seed(o.seed, "blob centres"));
  // Those of classes without a sample are not missed.
  std::vector<float> centres(static_cast<size_t>(std::min(o.classes, o.samples) * o.features));
  for (float& x : centres) x = static_cast<float>(centre_random.normal());

  Samples out{"the synthetic data set", Tensor::empty({o.samples, o.features}),
              Tensor::empty({o.samples}, DType::i32)};
  Random random(derive_seed(o.seed, "blob samples", o.part));
  float* value = out.values.data<float>();
  for (int64_t i = 0; i < o.samples; ++i) {
    const int64_t label = i % o.classes;
    out.labels.data<int32_t>()[i] = static_cast<int32_t>(label);
    const float* centre = centres.data() + label * o.features;
    for (int64_t f = 0; f < o.features; ++f)
      *value++ = centre[f] + static_cast<float>(o.noise * random.normal());
  }
  return out;
}

}  // namespace troupe::ps
