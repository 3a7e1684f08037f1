#pragma once

/// What `troupe` ends with; `troupe --help` says the same.
enum ExitCode : int {
  kOk = 0,
  kRunFailed = 1,     ///< the work was begun and failed
  kBadUsage = 2,      ///< the command line, the config or the machine is not right: nothing was begun
  kInterrupted = 130  ///< Ctrl-C, as shells count it
};
