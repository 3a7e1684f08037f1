#include <troupe/ps/control/coordinator_core.h>
#include <troupe/ps/control/internal/image_fields.h>

namespace troupe::ps {

std::vector<std::byte> CoordinatorCore::image() const {
  ImageWriter out;
  out(layout().policies);
  out(*this);
  return out.take();
}

Result<std::unique_ptr<CoordinatorCore>> CoordinatorCore::restore(CoordinatorOptions options,
                                                                  std::span<const std::byte> image) {
  auto made = make(std::move(options));
  if (!made) return made;
  CoordinatorCore& core = **made;
  ImageReader in(image);
  std::vector<Policy> policies;
  in(policies);
  in(core);
  if (!in.whole() || policies.size() != core.options_.layers.size())
    return fail(ErrorKind::corrupt, cat("an image of a coordinator does not fit: ", image.size(), " bytes"));
  core.membership_.layout =
      std::make_shared<const Layout>(make_layout(core.options_.layers, policies, core.options_.layout));
  if (core.phase_ == Phase::ended) core.result_.layout = core.membership_.layout;
  return made;
}

}  // namespace troupe::ps
