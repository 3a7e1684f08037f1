#include <iostream>

#include "bench.h"
#include "bench_device.h"

using namespace troupe;

namespace {

struct Arguments {
  DeviceArguments device;
  int64_t rows = 8192, width = 1024;
};

constexpr double kLeastOfCopy = 80;  // percent

/// One op on tensors of rows x width floats, and how many such tensors it has to read or write at least once each.
struct Measured {
  const char* name;
  double tensors;
  std::function<void()> submit;
  bool has_target = false;
};

class Bench {
 public:
  Bench(BenchDevice device, const Arguments& arguments)
      : device_(std::move(device)), rows_(arguments.rows), width_(arguments.width) {
    for (Tensor* t : {&x_, &y_, &z_, &moment_}) *t = filled({rows_, width_});
    for (Tensor* t : {&gamma_, &beta_, &dgamma_, &dbeta_}) *t = filled({width_});
    for (Tensor* t : {&mean_, &rstd_}) *t = filled({rows_});
    labels_ = device_.stream->empty({rows_}, DType::i32);
    Tensor zeros = Tensor::zeros({rows_}, DType::i32);
    device_.stream->copy(zeros, labels_);
    totals_ = device_.stream->empty({2}, DType::f64);
    number_ = device_.stream->empty({1}, DType::f64);
  }

  void print() {
    const double ceiling = copy_rate(device_);
    const double bytes = static_cast<double>(x_.bytes());
    std::cout << "ops on " << device_.name() << ", " << rows_ << " x " << width_ << " floats; copies move "
              << column(ceiling / 1e9) << " GB/s\n  op                              us      GB/s  of a copy\n";
    std::vector<std::string> verdicts;
    for (const Measured& m : all()) {
      const double seconds = seconds_of(*device_.stream, m.submit);
      const double rate = m.tensors * bytes / seconds;
      std::string name = m.name;
      name.resize(26, ' ');
      std::cout << "  " << name << column(seconds * 1e6) << ' ' << column(rate / 1e9) << "  "
                << column(percent(rate / ceiling)) << '\n';
      if (m.has_target && !device_.is_cpu())
        verdicts.push_back(verdict(cat(m.name, " reaches, of a copy"), 100 * rate / ceiling, kLeastOfCopy, true, " %"));
    }
    for (const std::string& line : verdicts) std::cout << line << '\n';
  }

 private:
  Tensor filled(Shape shape) {
    Tensor t = device_.stream->empty(shape);
    device_.backend->ops().fill(*device_.stream, 0.5, t);
    return t;
  }

  std::vector<Measured> all() {
    Stream& s = *device_.stream;
    const ops::Ops& ops = device_.backend->ops();
    std::vector<Measured> all{
        {"copy", 2, [&] { ops.copy(s, x_, y_); }},
        {"add", 3, [&] { ops.add(s, x_, y_, z_); }},
        {"axpy", 3, [&] { ops.axpy(s, 0.5, x_, y_); }},
        {"bias + relu", 2, [&] { ops.bias_add(s, x_, gamma_, ops::Epilogue::relu, y_); }, true},
        {"bias + gelu", 2, [&] { ops.bias_add(s, x_, gamma_, ops::Epilogue::gelu, y_); }, true},
        {"bias + gelu gradient", 3,
         [&] { ops.bias_gelu_gradient(s, x_, gamma_, ops::Epilogue::gelu, y_, ops::Write::set, z_, dbeta_); }},
        {"bias gradient", 1, [&] { ops.bias_gradient(s, x_, ops::Write::set, dbeta_); }},
        {"gelu", 2, [&] { ops.gelu(s, x_, y_); }, true},
        {"gelu of tanh", 2, [&] { ops.gelu_tanh(s, x_, y_); }},
        {"gelu gradient", 3, [&] { ops.gelu_gradient(s, x_, y_, z_); }},
        {"dropout", 2, [&] { ops.dropout(s, x_, 0.1, 7, 0, y_); }},
        {"layer norm", 2, [&] { ops.layer_norm(s, x_, gamma_, beta_, 1e-5, y_, mean_, rstd_); }, true},
        {"layer norm input gradient", 3, [&] { ops.layer_norm_input_gradient(s, x_, gamma_, mean_, rstd_, y_, z_); }},
        {"layer norm weight gradient", 2,
         [&] { ops.layer_norm_weight_gradient(s, x_, mean_, rstd_, y_, ops::Write::set, dgamma_, dbeta_); }},
        {"softmax cross-entropy", 2, [&] { ops.softmax_cross_entropy(s, x_, labels_, y_, totals_); }, true},
        {"sum of squares", 1, [&] { ops.sum_of_squares(s, x_, number_); }},
    };
    // Gradient, weights and two moments are read, the last three written.
    if (const ops::UpdateOps* updates = device_.backend->update_ops())
      all.push_back({"fused adamw", 7, [&s, this, updates] { updates->adam(s, adamw_, x_, y_, z_, moment_); }, true});
    return all;
  }

  BenchDevice device_;
  int64_t rows_, width_;
  ops::AdamStep adamw_{{1e-3, 1, 0.01}, 0.9, 0.999, 1e-8, 10, true};
  Tensor x_, y_, z_, moment_, gamma_, beta_, dgamma_, dbeta_, mean_, rstd_, labels_, totals_, number_;
};

}  // namespace

void add_bench_ops(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand("ops", "Ops that memory limits: rate, and share of what a copy reaches");
  auto arguments = std::make_shared<Arguments>();
  add_device_arguments(*command, arguments->device);
  command->add_option("--rows", arguments->rows)->check(CLI::Range(1, 1 << 24))->capture_default_str();
  command->add_option("--width", arguments->width)->check(CLI::Range(1, 1 << 16))->capture_default_str();
  command->callback([arguments, &exit_code] {
    exit_code = run_bench([&] { Bench(open_device(arguments->device), *arguments).print(); });
  });
}
