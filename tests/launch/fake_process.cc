// A process of a run that does what its words say, in order; then it ends with 0.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <tools/launch/death_pipe.h>

using namespace std::chrono_literals;

namespace {

void write_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n > 0) at += static_cast<size_t>(n);
  }
}

void write_whole_file(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  std::filesystem::rename(path + ".new", path);
}

int number(const std::string& text) { return std::atoi(text.c_str()); }

/// N lines, each of its own write.
void write_lines(const std::string& argument) {
  const auto colon = argument.find(':');
  for (int i = 0, n = number(argument); i < n; ++i)
    write_all(1, argument.substr(colon + 1) + ' ' + std::to_string(i) + '\n');
}

/// A process that keeps the files of this one, and outlives it.
void leave_offspring(const std::string& pid_file) {
  const pid_t pid = ::fork();
  if (pid == 0) ::sleep(3600), ::_exit(0);
  write_whole_file(pid_file, std::to_string(pid));
}

int exit_on_term = 0;

/// WORD:ARGUMENT. False: leave out the word that follows.
bool act(const std::string& word, const std::string& argument) {
  if (word == "death") return troupe::launch::end_when_closed(number(argument), 1s).has_value();
  if (word == "announce") write_whole_file(argument, "127.0.0.1:9\n" + std::filesystem::current_path().string() + "\n");
  if (word == "out") write_all(1, argument + '\n');
  if (word == "err") write_all(2, argument + '\n');
  if (word == "part") write_all(1, argument);
  if (word == "bulk") write_all(1, std::string(static_cast<size_t>(number(argument)), 'x'));
  if (word == "lines") write_lines(argument);
  if (word == "close") ::close(number(argument));
  if (word == "sleep") std::this_thread::sleep_for(std::chrono::milliseconds(number(argument)));
  if (word == "exit") ::_exit(number(argument));
  if (word == "signal") ::kill(::getpid(), number(argument)), ::pause();
  if (word == "pid") write_whole_file(argument, std::to_string(::getpid()));
  if (word == "touch") write_whole_file(argument, "");
  if (word == "forever") std::this_thread::sleep_for(1h);
  if (word == "until")
    while (!std::filesystem::exists(argument)) std::this_thread::sleep_for(5ms);
  if (word == "on-term") {
    exit_on_term = number(argument);
    ::signal(
        SIGTERM, argument == "ignore" ? SIG_IGN : [](int) { ::_exit(exit_on_term); });
  }
  if (word == "offspring") leave_offspring(argument);
  if (word != "once") return true;
  const bool first = !std::filesystem::exists(argument);
  if (first) write_whole_file(argument, "");
  return first;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const auto colon = text.find(':');
    if (!act(text.substr(0, colon), colon == std::string::npos ? "" : text.substr(colon + 1))) ++i;
  }
  return 0;
}
