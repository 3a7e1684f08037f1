#pragma once
#include <chrono>

#include <troupe/kernels/base/result.h>

namespace troupe::launch {

/// How long a process whose launcher is gone may drain before it is ended.
inline constexpr std::chrono::milliseconds kDrainTime{5000};

/// Ties this process to its launcher: `fd` is the read end of a pipe whose other end only the launcher holds, so that
/// it closes when the launcher is gone, however it went. Then this process gets SIGTERM, which drains and
/// checkpoints, and `grace` later SIGKILL. Over ssh, `fd` is the standard input, which closes with the connection.
///
/// Starts one thread that lives as long as the process and takes no signals; what arrives on `fd` is thrown away.
/// Fails where `fd` is not open for reading. To be called once, before children are started: `fd` is not passed on.
Status end_when_closed(int fd, std::chrono::milliseconds grace = kDrainTime);

}  // namespace troupe::launch
