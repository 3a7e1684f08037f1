#pragma once
#include <memory>
#include <vector>

#include <troupe/kernels/backend/backend.h>

namespace troupe::nn {

/// One training step on a device as a chain of graphs, cut wherever something of it is handed out:
///
///     [forward, loss] sums  [backward to the last layer] gradient  [to the one before it] gradient ...
///
/// It is captured section by section, each of which is submitted as soon as it ends, so that the step that is captured
/// is a step like any other. Memory that is taken meanwhile is this step's alone for as long as it lives: a section
/// writes what it wrote. For the thread that may use the stream.
class CapturedStep {
 public:
  CapturedStep(std::shared_ptr<Backend> backend, Stream& stream) : backend_(std::move(backend)), stream_(stream) {}
  /// Ends a section that was begun, without running it.
  ~CapturedStep() { abandon(); }

  /// What is submitted from here on is the next section. Like `end` and `replay` it throws std::runtime_error where the
  /// backend cannot.
  void begin();
  /// Ends the section and submits it: it works out `output`, of layer `layer` (none for the first).
  void end(size_t layer, Tensor output);
  void abandon();

  size_t sections() const { return sections_.size(); }
  size_t layer(size_t section) const { return sections_[section].layer; }
  const Tensor& output(size_t section) const { return sections_[section].output; }

  /// False where the stream works elsewhere by now than it did: nothing was submitted, and the step is to be captured
  /// again. Asked for section 0; the others follow.
  bool replay_first();
  void replay(size_t section);

  Tensor inputs, labels;  ///< what the first section reads

 private:
  struct Section {
    std::unique_ptr<LaunchGraph> graph;
    size_t layer = 0;
    Tensor output;
  };

  std::shared_ptr<Backend> backend_;
  Stream& stream_;
  std::shared_ptr<BlockCache> memory_;  ///< outlives the sections
  std::vector<Section> sections_;
  bool open_ = false;
};

}  // namespace troupe::nn
