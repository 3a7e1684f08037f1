#include "console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <iostream>

using namespace troupe;

namespace {

constexpr int kMostWaiting = 1000;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

ps::ProgressPrinter make_printer(int64_t first_step) {
  return {::isatty(STDOUT_FILENO) != 0, columns(), first_step, now()};
}

}  // namespace

Console::Console() : printer_(make_printer(0)), writer_(make_cpu_queue("console")) {}

void Console::begin(int64_t first_step) {
  say([this, first_step] { printer_ = make_printer(first_step); });
}

void Console::progress(const ps::Progress& progress, bool last) {
  if (waiting_ >= kMostWaiting && !last) return;  // the next one tells more
  say([this, progress, last] {
    std::cout << (last ? printer_.finish(progress, now()) : printer_.update(progress, now())) << std::flush;
  });
}

void Console::line(const std::string& text) {
  say([this, text] { std::cout << printer_.interrupt(text + "\n") << std::flush; });
}

void Console::log(ps::LogLevel level, const std::string& who, const std::string& text) {
  if (level == ps::LogLevel::info) return line(text);
  say([this, level, who, text] {
    std::cout << printer_.interrupt("") << std::flush;
    std::cerr << (level == ps::LogLevel::error ? "error: " : "warning: ") << who << ": " << text << std::endl;
  });
}

void Console::flush() {
  std::promise<void> written;
  say([&written] { written.set_value(); });
  written.get_future().wait();
}

void Console::say(std::function<void()> write) {
  ++waiting_;
  writer_->submit([this, write = std::move(write)] {
    write();
    --waiting_;
  });
}
