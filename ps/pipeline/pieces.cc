#include <troupe/ps/pipeline/pieces.h>

#include <algorithm>
#include <utility>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {

std::vector<Piece> pieces_of(const nn::Model& model) {
  std::vector<size_t> ends = model.cuts();
  ends.push_back(model.layers().size());
  std::vector<Piece> pieces;
  size_t first = 0;
  for (const size_t end : ends) {
    Piece piece{std::exchange(first, end), end, {}};
    piece.name = model.layers()[piece.first].name;
    if (end - piece.first > 1) piece.name += cat("..", model.layers()[end - 1].name);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::vector<LayerCost> estimated_costs(const nn::Model& model) {
  std::vector<LayerCost> costs;
  for (const Piece& piece : pieces_of(model)) {
    LayerCost cost{.name = piece.name, .layers = static_cast<uint32_t>(piece.last - piece.first)};
    for (size_t layer = piece.first; layer < piece.last; ++layer)
      cost.forward += static_cast<double>(model.work(layer));
    cost.backward_input = cost.backward_weight = cost.forward;
    costs.push_back(std::move(cost));
  }
  return costs;
}

Result<std::vector<LayerCost>> measured_costs(const nn::Model& model, const LayerProfile& profile) {
  const std::vector<Piece> pieces = pieces_of(model);
  for (size_t k = 0; k < std::max(pieces.size(), profile.layers.size()); ++k) {
    const std::string expected = k < pieces.size() ? pieces[k].name : "nothing";
    const std::string found = k < profile.layers.size() ? profile.layers[k].name : "nothing";
    if (found != expected)
      return fail(ErrorKind::invalid, cat("row ", k + 1, " is of ", found, ", where this model has ", expected,
                                          ": measure this config's model with troupe profile"));
  }
  return profile.layers;
}

}  // namespace troupe::ps
